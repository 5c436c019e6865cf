"""A search for violated bounds of the kernel engine: none is known.

usage: python benchmarks/certificates.py [--problems 10000] [--draws 20000]

Bounds   random problems (kernels with and without bias, smooth losses, lambda 2^-4 to 2^18, rows
         scaled by 10^-3 to 10, weights, sparse and dense rows, few to many landmarks): no bound
         may be below the distance from the optimum that Newton's method finds in double
         precision. Those by drawn rows fail with probability 1e-6.
Draws    20 problems with delta = .01: the bound by drawn rows may be below the exact gap in at most
         one of a hundred draws.

The problems are those of tests/test_engine.py, which does the same with fewer. Exits with 1 if
something was found.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from test_engine import KERNELS, LOSSES, in_span, problem_of

from odmtool.core.gram import Gram
from odmtool.solvers import newton
from odmtool.solvers.base import Stop
from odmtool.solvers.engine import certificate

_PROBLEMS, _DELTA, _ROWS = 20, 0.01, 60
_ROUNDING = 1e-9


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
            "drawn": certificate.drawn(point, basis, left.left, 30, seed),
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
            bound = certificate.drawn(point, basis, left.left, _ROWS, (seed, k), _DELTA)
            found += bound < gap * (1 - _ROUNDING)
    return found


def main() -> None:
    """Search, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=10_000)
    parser.add_argument("--draws", type=int, default=20_000)
    wanted = parser.parse_args()
    found = violations(wanted.problems)
    print(f"{found} violations in {wanted.problems} problems", flush=True)
    failed = failures(wanted.draws)
    print(f"{failed} of {wanted.draws} draws failed, with delta = {_DELTA}")
    sys.exit(1 if found or failed > _DELTA * wanted.draws else 0)


if __name__ == "__main__":
    main()
