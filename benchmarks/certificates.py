"""A search for violated bounds of the kernel engine: none is known.

usage: python benchmarks/certificates.py [--runs 10000] [--seed 0] [--problems 10000]
           [--draws 20000]

Runs     random problems (every smooth loss, kernels of any scale with and without bias, weights
         over six powers of ten, rows that occur twice, dense
         and sparse, 8 to 2000 examples, most of them small), each solved whole by a way to
         its certificate that is drawn, too: the judge must find the objective that is printed, and
         no gap above the printed one.

Bounds   random problems (kernels with and without bias, smooth losses, lambda 2^-4 to 2^18, rows
         scaled by 10^-3 to 10, weights, sparse and dense rows, few to many landmarks): no bound
         may be below the distance from the optimum that Newton's method finds in double
         precision. Those by drawn rows fail with probability 1e-6.
Draws    20 problems with delta = .01: the bound by drawn rows may be below the exact gap in at most
         one of a hundred draws.

The problems are those of tests/test_engine_bounds.py, which does the same with fewer. Exits with
1 if something was found.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from engine_problems import KERNELS, LOSSES, in_span, judged, problem_of
from problems import examples

from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.errors import DivergedError
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.engine import certificate, choice, sample, solve
from odmtool.solvers.newton import newton

_PROBLEMS, _DELTA, _ROWS = 20, 0.01, 60
# Of printed objectives, which is relative; of bounds; and of the judge.
_PRINTED, _ROUNDING, _JUDGES = 1e-7, 1e-9, 1e-13
_WAYS = choice._ways


def wrong_runs(count: int, seed: int) -> int:
    """Of so many random problems, those whose solution the judge does not confirm."""
    found = unsolved = 0
    for number in range(seed, seed + count):
        random = np.random.default_rng([number, 12])
        problem, tolerance = _random_problem(random, number), 10.0 ** random.uniform(-6, -2)
        way = random.choice(["", "free", "drawn", "exact", "full"])
        sample._SAMPLE = int(random.choice([40, 8000]))
        choice._ways = (lambda *_, way=way: [choice.Choice(way, 0.0, 100)]) if way else _WAYS
        try:
            solution = solve.solve(problem, Stop(tolerance, 30), seed=number)
        except DivergedError:
            unsolved += 1
            continue
        truth = judged(problem, solution.coef, solution.eta)
        unsolved += not solution.converged
        off = abs(solution.primal - truth.primal) / (abs(truth.primal) or 1.0)
        is_off = solution.converged and off > _PRINTED
        if is_off or truth.gap > solution.gap * (1 + _ROUNDING) + _own_error(
            problem, solution, truth
        ):
            found += 1
            print(
                f"run {number} ({way}): gap {solution.gap:.6e}, the judge's {truth.gap:.6e}; "
                f"objective off by {off:.1e}; {problem.gram.kernel} {problem.loss}",
                flush=True,
            )
        if (number - seed + 1) % 500 == 0:
            print(f"{number - seed + 1} runs, {found} wrong, {unsolved} unsolved", flush=True)
    return found


def _own_error(problem: Problem, solution, truth) -> float:
    """What rounding of the judge's own sums may come to: a large bias cancels in them."""
    size = np.abs(solution.coef).sum() + np.abs(solution.eta).sum()
    scale = (truth.primal - truth.dual) / truth.gap if truth.gap else 1.0
    return _JUDGES + np.finfo(float).eps * problem.gram.diagonal().max() * size**2 / abs(scale)


def _random_problem(random, seed: int) -> Problem:
    m = int(2.0 ** random.choice([random.uniform(3, 8), random.uniform(8, 11)], p=[0.98, 0.02]))
    X, y = examples(m, int(random.integers(1, 9)), seed)
    twice = np.r_[np.arange(m), random.integers(0, m, random.integers(0, m // 2 + 1))]
    X, y = X[twice] * 10.0 ** random.uniform(-2, 1), y[twice]
    weight = 10.0 ** random.uniform(0, random.choice([0, 1, 6]), len(y))
    bias = random.choice([0.0, 10.0 ** random.uniform(-2, 2)])
    kernel = Kernel("rbf", 10.0 ** random.uniform(-3, 2), bias=bias)
    if random.random() < 0.4:
        scale, degree = 10.0 ** random.uniform(-3, 0), int(random.integers(1, 5))
        kernel = Kernel("poly", scale, random.choice([0.0, 1.0]), degree, bias=bias)
    lambda_, total = 2.0 ** random.uniform(-4, 20), weight.sum()
    name = random.choice(["odm", "odm", "l2svm", "lssvm", "mamc"])
    shape = (random.uniform(0.05, 1), random.uniform(0, 0.95)) if name == "odm" else ()
    loss = getattr(losses, name)(lambda_, *shape, total)
    X = X.toarray() if random.random() < 0.5 else X
    return Problem(None, Gram(kernel, X), y, weight, loss)


def violations(count: int) -> int:
    """Of so many random problems, those with a bound that is too small."""
    found = 0
    for seed in range(count):
        random = np.random.default_rng(seed)
        kernel, loss = random.choice(list(KERNELS)), random.choice(list(LOSSES))
        exponent, weighted, dense = random.integers(-4, 19), *random.integers(0, 2, 2)
        problem = problem_of(
            KERNELS[kernel], loss, 2.0**exponent, 60, seed, bool(weighted), bool(dense)
        )
        X = problem.gram.X * 10.0 ** random.integers(-3, 2)
        problem = problem._replace(gram=Gram(KERNELS[kernel], X))
        _chosen, basis, left, point, _coef = in_span(problem, int(random.integers(1, 41)), seed)
        excess = point.primal - newton.solve(problem, Stop(1e-12, 100)).primal
        bounds = {
            "exact": certificate.exact([point], basis)[0],
            "free": certificate.free(point, left.left),
            "drawn": certificate.drawn([point], basis, left.left, 30, seed)[0],
        }
        for name, bound in bounds.items():
            if bound < excess - _ROUNDING * point.primal:
                found += 1
                print(f"seed {seed}: {name} {bound:.3e} < {excess:.3e}", flush=True)
    return found


def failures(draws: int) -> int:
    """Of so many draws, those whose bound is below the gap."""
    found = 0
    for seed in range(_PROBLEMS):
        problem = problem_of(KERNELS["rbf"], "odm", 2.0 ** (4 + seed % 10), 150, seed)
        _chosen, basis, left, point, _coef = in_span(problem, 15, seed)
        (gap,) = certificate.exact([point], basis)
        for k in range(draws // _PROBLEMS):
            bound = certificate.drawn([point], basis, left.left, _ROWS, (seed, k), _DELTA)[0]
            found += bound < gap * (1 - _ROUNDING)
    return found


def main() -> None:
    """Search, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--problems", type=int, default=10_000)
    parser.add_argument("--draws", type=int, default=20_000)
    wanted = parser.parse_args()
    wrong = wrong_runs(wanted.runs, wanted.seed)
    print(f"{wrong} of {wanted.runs} runs wrong", flush=True)
    found = violations(wanted.problems)
    print(f"{found} violations in {wanted.problems} problems", flush=True)
    failed = failures(wanted.draws)
    print(f"{failed} of {wanted.draws} draws failed, with delta = {_DELTA}")
    sys.exit(1 if wrong or found or failed > _DELTA * wanted.draws else 0)


if __name__ == "__main__":
    main()
