"""How long do mcODM and LIBLINEAR's Crammer-Singer machine take to train, side by side?

usage: python benchmarks/multi.py [--lambda 10] [--limit 600] FILE...

Linear, lambda = 2^LAMBDA and LIBLINEAR's cost lambda / m, mu = theta = .4, data as they are.
LIBLINEAR's -e is the largest of 1, .5, .2, .1 ... with which the objective of its model is
within 1e-3 of the best seen; its training time is that of the whole run less that of a run
with -e 1e9, which reads the file and does one pass. mcODM runs in a process of its own to a
gap of 1e-3, reading and compilation not counted. Seconds are of processor time, medians of
three runs in turn; memory is the peak of the process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.sparse import csr_matrix

from odmtool.core import losses, memory
from odmtool.io.model_file import read_model
from odmtool.io.svmlight import read_svmlight
from odmtool.solvers.base import Stop
from odmtool.solvers.mcodm import auto as mcodm
from odmtool.solvers.multi import MultiProblem

RUNS = 3
TOLERANCES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
ONE_PASS = 1e9
SUBOPTIMALITY = 1e-3


def problem_of(path: str, lambda_: float) -> MultiProblem:
    data = read_svmlight(path)
    labels, target = np.unique(data.labels, return_inverse=True)
    m = len(target)
    loss = losses.mcodm(lambda_, 0.4, 0.4, m)
    return MultiProblem(data.X, None, target, len(labels), np.ones(m), loss)


def train_ours(path: str, lambda_: float) -> None:
    """In a process of its own: seconds, peak megabytes, and what was found."""
    generator = np.random.default_rng(0)
    small = MultiProblem(
        csr_matrix(generator.standard_normal((60, 400))), None, np.arange(60) % 3, 3,
        np.ones(60), losses.mcodm(lambda_, 0.4, 0.4, 60),
    )  # fmt: skip
    for solver in ("dcd", "newton"):
        # Loads the compiled code; with few and with many features all of it.
        mcodm.solve(small, Stop(1e-3, 20), solver=solver)
        mcodm.solve(small._replace(X=small.X[:, :4]), Stop(1e-3, 20), solver=solver)
    p = problem_of(path, lambda_)
    started = time.process_time()
    solution = mcodm.solve(p, Stop(1e-3, 1000))
    seconds = time.process_time() - started
    # Not getrusage, which counts the process that this one was forked from.
    peak = memory.peak() / 2**20
    print(seconds, peak, solution.iterations, solution.gap, solution.converged)


def run_ours(path: str, lambda_: float) -> list[str]:
    command = [sys.executable, __file__, "--ours", "--lambda", str(np.log2(lambda_)), path]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def run_liblinear(path: str, cost: float, tolerance: float, model: str, limit: float):
    """Seconds of processor time and peak megabytes of a whole run."""
    command = ["liblinear-train", "-q", "-s", "4", "-c", f"{cost:.17g}", "-e", f"{tolerance:g}"]
    # A child's peak counts from its fork, so it must not be a fork of this large process.
    script = (
        "import os, sys; pid = os.spawnvp(os.P_NOWAIT, sys.argv[1], sys.argv[1:]);"
        "usage = os.wait4(pid, 0)[2]; print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss)"
    )
    command = [sys.executable, "-S", "-c", script, *command, path, model]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=limit)
    seconds, peak = map(float, done.stdout.split())
    return seconds, peak / 1024


def crammer_singer(p: MultiProblem, labels, cost: float, model: str) -> float:
    """LIBLINEAR's objective at its model."""
    found = read_model(model)
    W = np.zeros((p.X.shape[1], p.k))
    weights = np.asarray(found.weights)
    W[: len(weights), np.searchsorted(labels, found.labels)] = weights
    scores, rows = p.X @ W, np.arange(p.size)
    own = scores[rows, p.target]
    scores[rows, p.target] = -np.inf
    return (W * W).sum() / 2 + cost * np.maximum(0, 1 - own + scores.max(axis=1)).sum()


def compare(path: str, lambda_: float, limit: float) -> str:
    p = problem_of(path, lambda_)
    labels, cost = np.unique(read_svmlight(path).labels), lambda_ / p.size
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder) / "model")
        objectives = {}
        for tolerance in TOLERANCES:
            try:
                run_liblinear(path, cost, tolerance, model, limit)
            except subprocess.TimeoutExpired:
                break
            objectives[tolerance] = crammer_singer(p, labels, cost, model)
        best = min(objectives.values())
        enough = [e for e, value in objectives.items() if value <= (1 + SUBOPTIMALITY) * best]
        theirs, reading, ours = [], [], []
        for _ in range(RUNS):
            ours.append(run_ours(path, lambda_))
            theirs.append(run_liblinear(path, cost, max(enough), model, limit))
            reading.append(run_liblinear(path, cost, ONE_PASS, model, limit)[0])
    our_seconds = float(np.median([float(r[0]) for r in ours]))
    their_seconds = float(np.median([t for t, _ in theirs]) - np.median(reading))
    m, d = p.X.shape
    cells = [
        os.path.basename(path), m, d, p.k, f"{our_seconds:.2f}", f"{their_seconds:.2f}",
        f"{max(enough):g}", f"{our_seconds / their_seconds:.1f}", f"{float(ours[-1][1]):.0f}",
        f"{theirs[-1][1]:.0f}", ours[-1][2], f"{float(ours[-1][3]):.1g}",
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lambda", dest="power", type=float, default=10.0)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds of one LIBLINEAR run")
    parser.add_argument("--ours", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    lambda_ = 2.0**arguments.power
    if arguments.ours:
        train_ours(arguments.files[0], lambda_)
        return
    print("| file | m | d | k | mcodm s | liblinear s | its -e | ratio | mcodm MB | liblinear MB |"
          " iterations | gap |")  # fmt: skip
    print("| --- " * 12 + "|")
    for path in arguments.files:
        print(compare(path, lambda_, arguments.limit), flush=True)


if __name__ == "__main__":
    main()
