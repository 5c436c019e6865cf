"""LDM by Newton's method.

Problem     as in :mod:`odmtool.solvers.ldm.descent`.
Update      LDM is brought into the inner product in which it is a support vector machine
            (:mod:`odmtool.solvers.ldm.reduced`), once; there proximal Newton steps
            solve it (:mod:`odmtool.solvers.newton.proximal`), which take 10 to 80 Newton steps
            for every lambda, mu1 and mu2.
Stop        when the relative gap of LDM is at most the tolerance.
"""

from __future__ import annotations

import functools

import numpy as np

from odmtool import messages
from odmtool.core import losses
from odmtool.errors import UsageError
from odmtool.solvers.base import (
    LARGEST_GRAM,
    LARGEST_HESSIAN,
    Problem,
    Solution,
    Stop,
    ignore_progress,
)
from odmtool.solvers.ldm import reduced as ldm_reduced
from odmtool.solvers.newton import proximal
from odmtool.solvers.table import LDM_MATRICES

_LARGEST_ROWS = 2**28
"""Numbers in the dense rows of a reduced linear problem, 2 GB."""


def solve(
    problem: Problem, stop: Stop, *, seed: int = 0, start: np.ndarray | None = None,
    progress=ignore_progress,
) -> Solution:  # fmt: skip
    """Solve a problem whose loss is an LDM; ``stop.max_iter`` counts Newton steps.

    Nothing is random; see :func:`odmtool.solvers.ldm.descent.solve`.

    Raises UsageError: the kernel is not positive semidefinite, or the linear problem is too large
    in both directions.
    """
    method = functools.partial(proximal.solve, progress=progress)
    if problem.loss.mu1 == 0:
        row = problem._replace(loss=losses.ldm_row(problem.loss, 0.0))
        return method(row, stop, start=start)
    if problem.gram is None and not fits(problem):
        raise UsageError(messages.ldm_newton_too_large(*problem.X.shape))
    has_rows = problem.gram is None and takes_rows(*problem.X.shape)
    reduced = ldm_reduced.by_rows if has_rows else ldm_reduced.by_gram
    return ldm_reduced.solve(problem, reduced(problem), method, stop, start, "newton")


def fits(problem: Problem) -> bool:
    """Whether the matrices fit in the memory, or one side of a linear problem is short."""
    if problem.gram is not None:
        return LDM_MATRICES * problem.gram.bytes <= problem.gram.memory
    return takes_rows(*problem.X.shape) or problem.size <= LARGEST_GRAM


def takes_rows(m: int, d: int) -> bool:
    """Whether m rows of d features become dense, and not a kernel matrix."""
    return 0 < d <= min(LARGEST_HESSIAN, m) and m * d <= _LARGEST_ROWS
