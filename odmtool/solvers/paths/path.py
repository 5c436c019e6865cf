"""Hinge machines and LDM by their path: exact solutions for one cost after the other.

Problem     as in :mod:`odmtool.judge.binary`, for losses that are linear but for a jump of their
            derivative at 1, or :mod:`odmtool.solvers.ldm.descent`.
Update      LDM is brought into the inner product in which its loss is of that kind
            (:mod:`odmtool.solvers.ldm.reduced`), once for every mu1; then the path is
            followed from lambda = 0 (:mod:`odmtool.solvers.paths.hinge_path`). A fit that starts
            from the solution for a smaller lambda goes on there, with the same result to the
            last digit.
            Where rounding leads the path astray, Newton's method goes on.
Stop        at lambda; then the gap is judged like that of any other solver.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from odmtool import messages
from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.core.losses import LDM
from odmtool.errors import DivergedError, UsageError
from odmtool.solvers import table
from odmtool.solvers.base import (
    LARGEST_GRAM,
    Problem,
    Progress,
    ProgressCallback,
    Solution,
    Stop,
    better,
    ignore_progress,
    relative,
)
from odmtool.solvers.ldm import dual as ldm_dual
from odmtool.solvers.ldm import newton as ldm_newton
from odmtool.solvers.ldm import reduced as ldm_reduced
from odmtool.solvers.newton import proximal
from odmtool.solvers.paths.hinge_path import HingePath
from odmtool.solvers.rounding import Rounding


def solve(
    problem: Problem, stop: Stop, *, seed: int = 0, start: Track | np.ndarray | None = None,
    progress=ignore_progress,
) -> Solution:  # fmt: skip
    """Solve a linear or kernel problem.

    ``start`` is used only if it is the ``warm_start`` of an earlier solution by this solver.
    ``stop.max_iter`` counts the changes of the active set. Nothing is random.

    Raises UsageError: the kernel is not positive semidefinite, or a linear problem has too many
    examples.
    """
    if problem.gram is None and problem.size > LARGEST_GRAM:
        raise UsageError(messages.path_too_large(LARGEST_GRAM, problem.size))
    track = start if isinstance(start, Track) else None
    if track is None or not track.serves(problem):
        track = Track(problem)

    def changed(count: int, active: int) -> None:
        progress(Progress(count, None, np.nan, active))

    try:
        solution = track.solution(problem, stop, changed)
    except DivergedError:
        return _newton(problem, stop, None, progress)._replace(track=track)
    progress(
        Progress(solution.iterations, solution.primal, solution.gap, solution.support_count,
                 partial(problem.margins, solution.eta))
    )  # fmt: skip
    if solution.converged or solution.iterations >= stop.max_iter:
        return solution
    # Far from the solution the duals are worth less than none.
    # speed only: where Newton's method begins
    eta = solution.eta if solution.gap < 1 else None
    second = _newton(problem, stop, eta, progress)
    return better(solution, second)._replace(
        iterations=solution.iterations + second.iterations, solver="path, then newton",
        track=track,
    )  # fmt: skip


def _newton(problem: Problem, stop: Stop, start, progress: ProgressCallback) -> Solution:
    """Newton's method from some duals, with the steps that it has by itself."""
    module = ldm_newton if isinstance(problem.loss, LDM) else proximal
    way = table.way_of("newton", problem.loss.kind, problem.kernel_name)
    limit = min(stop.limit, way.limit)
    return module.solve(problem, stop._replace(limit=limit), start=start, progress=progress)


class Track:
    """What the fits of one problem with several parameters share."""

    def __init__(self, problem: Problem):
        self._of, self._mu1 = problem, getattr(problem.loss, "mu1", 0.0)
        self._rounding, self._path = Rounding.of(problem), None
        with np.errstate(over="ignore", invalid="ignore"):
            self._Q = _signed_products(problem)
        if not np.isfinite(self._Q).all():
            raise DivergedError(messages.overflow())

    def serves(self, problem: Problem) -> bool:
        """Whether the problem differs in lambda and mu2 only."""
        of = self._of
        same = problem.X is of.X and problem.gram is of.gram
        same = same and getattr(problem.loss, "mu1", 0.0) == self._mu1
        equal = np.array_equal
        return same and equal(problem.y, of.y) and equal(problem.weight, of.weight)

    def solution(self, problem: Problem, stop: Stop, changed) -> Solution:
        """The solution for the parameters of the problem; ``changed`` hears of the way there."""
        row, weight = problem.loss, problem.weight
        if isinstance(row, LDM):
            row = losses.ldm_row(row._replace(mu1=0.0), 0.0)
        nu, rho = -row.right_hi, row.right_hi - row.left_lo
        if self._path is None or not self._path.leads_to(nu, rho):
            self._path = HingePath(self._Q, weight, nu)
        eta, changes = self._path.duals(rho, stop, changed)
        if isinstance(problem.loss, LDM):
            if self._mu1 > 0:
                eta -= ldm_reduced.pull(problem, self._Q @ eta)
            found = ldm_dual.certified(problem, eta, changes, stop, "path", self._rounding)
        else:
            found = self._certified(problem, eta, changes, stop)
        return found._replace(track=self)

    def _certified(self, problem: Problem, eta, changes: int, stop: Stop) -> Solution:
        w = None if problem.gram is not None else np.asarray(problem.X.T @ (problem.y * eta))
        loss, t = losses.scaled(problem.loss, problem.weight), problem.margins(eta)
        (primal, dual, scale), t = self._rounding.objectives(loss, t, eta, stop, w)
        if not np.isfinite(primal):
            raise DivergedError(messages.overflow())
        gap = relative(primal - dual, scale)
        return Solution(w, eta, eta, primal, dual, gap, changes, gap <= stop.tolerance, "path")


def _signed_products(problem: Problem) -> np.ndarray:
    """y_i y_j times the inner products in which the loss is a row of the table."""
    if getattr(problem.loss, "mu1", 0.0) > 0:
        # speed only: the same products by rows or by their Gram matrix
        has_rows = problem.gram is None and problem.X.shape[1] < problem.size
        reduced = (ldm_reduced.by_rows if has_rows else ldm_reduced.by_gram)(problem)
    else:
        reduced = problem
    if reduced.gram is None:
        reduced = reduced._replace(gram=Gram(Kernel("linear"), reduced.X))
    signed = problem.y[:, None] * reduced.gram.matrix()
    signed *= problem.y
    return signed
