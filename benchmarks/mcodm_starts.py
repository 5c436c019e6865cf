"""How far are mcODM's stationary points above the best of many starts?

usage: python benchmarks/mcodm_starts.py [--starts 12] [--examples 350] [--kernel rbf] [DIRECTORY]

Objectives of 20 sets with 5 settings each: the sets of more than two classes in DIRECTORY (NAME.xz;
at most EXAMPLES drawn rows, features in [0, 1]) and generated ones. The reference is the least
objective that the rounds reach from STARTS starts of other kinds than the solver's own: rivals by
random scores of the examples, by random linear functions, and the solutions at 16 times and a
sixteenth of lambda. Prints a row for each set: the largest excess over the reference, in percent,
of one start and of the solver as it is, this with other seeds, too, and the processor seconds of
the first two.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.sparse import csr_matrix

from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.io.svmlight import read_svmlight
from odmtool.solvers.base import Stop
from odmtool.solvers.mcodm import auto, rounds
from odmtool.solvers.mcodm.starts import MOST_STARTS
from odmtool.solvers.mcodm.way import choose
from odmtool.solvers.multi import MultiProblem

FILES = ("connect-4", "dna", "glass", "iris", "pendigits", "satimage", "segment", "svmguide4",
         "usps", "vehicle", "vertebral-column3", "wine")  # fmt: skip
SETTINGS = ((2**8, 0.4, 0.3), (2**12, 0.4, 0.3), (2**10, 0.8, 0.8), (2**14, 0.2, 0.2),
            (2**6, 1.0, 0.5))  # fmt: skip
STOP = Stop(1e-3, 2000)
OTHER_SEEDS = (1, 2)


def in_unit_interval(X: np.ndarray) -> np.ndarray:
    X = X[:, np.ptp(X, axis=0) > 0]
    return (X - X.min(axis=0)) / np.ptp(X, axis=0)


def read(path: Path, most: int) -> tuple[np.ndarray, np.ndarray]:
    data = read_svmlight(path)
    rows = np.random.default_rng(0).permutation(len(data.labels))[:most]
    return in_unit_interval(data.X[rows].toarray()), data.labels[rows]


def blobs(k: int, d: int, m: int, width: float) -> tuple[np.ndarray, np.ndarray]:
    """Normal distributions, frequent and rare ones."""
    generator = np.random.default_rng(k)
    labels = generator.choice(k, m, p=generator.dirichlet(np.full(k, 4.0)))
    centres = generator.standard_normal((k, d))
    X = centres[labels] + width * generator.standard_normal((m, d))
    return in_unit_interval(X), labels


def on_a_line(k: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(k)
    labels = generator.integers(k, size=m)
    place = labels + 0.4 * generator.standard_normal(m)
    X = np.column_stack([place, place**2, generator.standard_normal(m)])
    return in_unit_interval(X), labels


def rings(k: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(k)
    labels, angle = generator.integers(k, size=m), generator.uniform(0, 2 * np.pi, m)
    radius = labels + 1 + 0.35 * generator.standard_normal(m)
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    return in_unit_interval(X), labels


def sets(directory: str | None, most: int):
    if directory is not None:
        for name in FILES:
            yield name, *read(Path(directory) / f"{name}.xz", most)
    yield "blobs, 3 classes", *blobs(3, 2, 150, 0.8)
    yield "blobs, 4 classes", *blobs(4, 2, 200, 0.7)
    yield "blobs, 5 classes", *blobs(5, 5, 200, 1.2)
    yield "blobs, 8 classes", *blobs(8, 3, 200, 0.6)
    yield "on a line, 3 classes", *on_a_line(3, 150)
    yield "on a line, 5 classes", *on_a_line(5, 200)
    yield "rings, 3 classes", *rings(3, 150)
    yield "rings, 4 classes", *rings(4, 200)


def problem_of(X: np.ndarray, labels: np.ndarray, kernel: str, setting) -> MultiProblem:
    classes, target = np.unique(labels, return_inverse=True)
    m, loss = len(target), losses.mcodm(*setting, len(target))
    rows = csr_matrix(X)
    gram = None if kernel == "linear" else Gram(Kernel("rbf", 4 / X.shape[1]), rows)
    return MultiProblem(
        rows if gram is None else None, gram, target, len(classes), np.ones(m), loss
    )


def reference(X: np.ndarray, labels: np.ndarray, kernel: str, setting, starts: int) -> float:
    """The least objective that is reached from other starts."""
    problem, (lambda_, mu, theta) = problem_of(X, labels, kernel, setting), setting
    generator, least = np.random.default_rng(1), np.inf
    for number in range(starts):
        if number % 2:
            scores = generator.standard_normal((problem.size, problem.k))
        else:
            scores = (X - X.mean(axis=0)) @ generator.standard_normal((X.shape[1], problem.k))
        scores[np.arange(problem.size), problem.target] = -np.inf
        solution = rounds.solve(problem, STOP, choose(problem), rivals=scores.argmax(axis=1))
        least = min(least, solution.objective)
    for factor in (16, 1 / 16):
        other = problem_of(X, labels, kernel, (factor * lambda_, mu, theta))
        start = auto.solve(other, STOP, starts=1).duals
        least = min(least, auto.solve(problem, STOP, start=start).objective)
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--starts", type=int, default=12)
    parser.add_argument("--examples", type=int, default=350)
    parser.add_argument("--kernel", choices=("linear", "rbf"), default="linear")
    parser.add_argument("directory", nargs="?")
    arguments = parser.parse_args()
    print("| set | examples | one start | as it is | with seeds 1, 2 | seconds, one start "
          "| seconds, as it is |")  # fmt: skip
    print("| --- | --: | --: | --: | --: | --: | --: |")
    for name, X, labels in sets(arguments.directory, arguments.examples):
        excess, seconds = [], np.zeros(2)
        for setting in SETTINGS:
            problem, found = problem_of(X, labels, arguments.kernel, setting), []
            for number, most in enumerate((1, MOST_STARTS)):
                started = time.process_time()
                found.append(auto.solve(problem, STOP, starts=most).objective)
                seconds[number] += time.process_time() - started
            found += [auto.solve(problem, STOP, seed=seed).objective for seed in OTHER_SEEDS]
            least = reference(X, labels, arguments.kernel, setting, arguments.starts)
            least = min(least, *found)
            excess.append([100 * (value / least - 1) for value in found])
        one, several, *others = np.max(excess, axis=0)
        print(f"| {name} | {len(labels)} | {one:.2f} % | {several:.2f} % "
              f"| {', '.join(f'{value:.2f}' for value in others)} % "
              f"| {seconds[0]:.2f} | {seconds[1]:.2f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
