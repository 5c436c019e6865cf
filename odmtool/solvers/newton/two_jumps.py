"""Newton's method for losses whose derivative jumps twice, as that of support vector regression.

Problem     as in :mod:`odmtool.judge.binary`, for rows of the table with lo < hi.
Update      l = l_lo + l_hi, where the derivative of l_lo is that of l below hi and goes on as it is
            there, and l_hi is 0 below hi. Each jumps once, so that
            :mod:`odmtool.solvers.newton.proximal` solves the problem of 2 m examples
            that has every example twice.
Stop        its gap, which bounds that of the problem: with eta_i the sum of the two dual variables
            the primal is the same, and the dual at least as large, because the conjugate of l is
            the least sum of those of l_lo and l_hi.
"""

from __future__ import annotations

import numpy as np

from odmtool.core.losses import MarginLoss
from odmtool.solvers.base import Problem, Solution, Stop, ignore_progress
from odmtool.solvers.newton import proximal


def solve(
    problem: Problem, stop: Stop, *, seed: int = 0, start: np.ndarray | None = None,
    progress=ignore_progress,
) -> Solution:  # fmt: skip
    """Solve a linear or kernel problem; see :func:`odmtool.solvers.newton.proximal.solve`."""
    m, twice = problem.size, np.tile(np.arange(problem.size), 2)
    if problem.gram is None:
        rows = {"X": problem.X[twice]}
    else:
        problem.gram.matrix()  # made once, and not of every example twice
        rows = {"gram": problem.gram.subset(twice)}
    doubled = problem._replace(
        **rows, y=problem.y[twice], weight=problem.weight[twice],
        loss=MarginLoss(*(np.repeat(pair, m) for pair in zip(*parts(problem.loss), strict=True))),
    )  # fmt: skip
    first = None if start is None else np.concatenate([np.maximum(start, 0), np.minimum(start, 0)])
    found = proximal.solve(doubled, stop, seed=seed, start=first, progress=progress)
    eta, coef = (each[:m] + each[m:] for each in (found.eta, found.coef))
    return found._replace(eta=eta, coef=coef)


def parts(loss: MarginLoss) -> tuple[MarginLoss, MarginLoss]:
    """l_lo and l_hi of a loss of scalars."""
    lower = loss._replace(hi=loss.lo, slope_above=loss.slope_between, right_hi=loss.right_lo)
    more, jump = loss.slope_above - loss.slope_between, loss.right_hi - loss.left_hi
    upper = MarginLoss(loss.hi, loss.hi, 0.0, 0.0, 0.0, 0.0, more, jump, 0.0)
    return lower, upper
