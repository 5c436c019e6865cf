"""Losses whose derivative jumps, and LDM, with a kernel in the span of landmarks.

Problem     min over w of 1/2 |w|^2 + sum_i u_i l(t_i), the losses of l1svm and svr, or LDM
            (:mod:`odmtool.solvers.ldm.descent`), with a kernel that is positive semidefinite.
Method      :mod:`odmtool.solvers.engine.span`. The linear machine on the features is trained by
            coordinate descent, and by Newton's method from there where that is too slow.
Certificate With the duals eta, a = y eta, and L the sum of the losses,

                P(w) - D(eta) = 1/2 |w - w(eta)|^2 + L(t) + L*(-eta) + sum_i eta_i t_i.

Otherwise   working sets (:mod:`odmtool.solvers.engine.working`); for LDM, and where these are not
            enough, the same solvers on kernel values, from the duals so far.
Stop        when the bound of the relative gap is at most the tolerance.
"""

from __future__ import annotations

import numpy as np

from odmtool.core import deadline, losses
from odmtool.core.loss_table import OF_LDM, ONE_JUMP
from odmtool.solvers.base import (
    Problem,
    Solution,
    Stop,
    ignore_progress,
    objective_values,
    relative,
)
from odmtool.solvers.descent import dcd
from odmtool.solvers.engine import certificate, working
from odmtool.solvers.engine.choice import Choice
from odmtool.solvers.engine.cost import DescentCost
from odmtool.solvers.engine.features import Basis, Features
from odmtool.solvers.engine.span import SpanRun
from odmtool.solvers.ldm import descent, dual
from odmtool.solvers.ldm import newton as ldm_newton
from odmtool.solvers.newton import proximal
from odmtool.solvers.table import SOLVERS

# Epochs before Newton's method: in the span, and on kernel values for each example; in the span
# where there is none.
# speed only: where Newton's method begins
_EPOCHS, _EPOCHS_PER_EXAMPLE, _EPOCHS_ALONE = 100, 1 / 20, 300


def solve(
    problem: Problem, stop: Stop, *, seed: int = 0, start: np.ndarray | None = None,
    progress=ignore_progress, executor=None,
) -> Solution:  # fmt: skip
    """Solve a kernel problem; as :func:`odmtool.solvers.engine.solve.solve`, but for the losses."""
    run = _Run(problem, stop, seed, progress, executor)
    found, eta = run.in_span(start)
    return found or run.otherwise(eta)


class _Run(SpanRun):
    """One problem on its way."""

    def cost(self) -> DescentCost:
        return DescentCost.of(self.points.X, self.gram.memory)

    def solve_sample(self, Z, rows: np.ndarray, stop: Stop, duals):
        problem = self.problem
        weight = problem.weight[rows] * (problem.weight.sum() / problem.weight[rows].sum())
        sample = Problem(Z, None, problem.y[rows], weight, problem.loss)
        found = _descent(problem).solve(sample, stop, seed=self.seed, start=duals)
        return found.eta, (sample.y * found.eta)[:, None], found.primal

    def solve_inside(self, Z: np.ndarray, duals, tolerance: float):
        inside = self.problem._replace(X=Z, gram=None)
        epochs = _EPOCHS if _newton(inside) else _EPOCHS_ALONE
        found = self._solve(inside, epochs, duals, tolerance)
        return found, found.eta

    def otherwise(self, eta: np.ndarray | None) -> Solution:
        """By kernel values, from these duals."""
        problem, epochs = self.problem, int(_EPOCHS_PER_EXAMPLE * self.problem.size)
        if working.fits(problem):
            stop = self.stop._replace(limit=self._left)
            found = self._counted(working, problem, stop, eta, executor=self.points.executor)
            if found.converged or self.stop.is_late or not self._left:
                return self._named(found)
            # Farther away than nothing is no start.
            eta = found.eta if found.gap < 1 else eta
        return self._named(self._solve(problem, epochs, eta, self.stop.tolerance))

    def _named(self, found: Solution) -> Solution:
        return found._replace(solver=f"landmarks, then {found.solver}", iterations=self.iterations)

    def _solve(self, problem: Problem, epochs: int, start, tolerance: float) -> Solution:
        """By coordinate descent, for so many epochs where something can follow."""
        newton = _newton(problem)
        follows = newton is not None or problem.gram is None
        most = min(epochs, self._left) if follows else self._left
        stop = Stop(tolerance, most, newton is not None)
        found = self._counted(_descent(problem), problem, stop, start)
        if newton and not (found.converged or deadline.is_over()):
            found = self._counted(newton, problem, Stop(tolerance, self._left), found.eta)
        return found

    @property
    def _left(self) -> int:
        """Iterations."""
        return max(0, self.stop.limit - self.iterations)

    def _counted(self, solver, problem: Problem, stop: Stop, start, **told) -> Solution:
        """Solve a problem, counting iterations on."""
        # A working set has its matrix, and needs no other.
        progress = self.counted(None if solver is working else problem.gram)
        found = solver.solve(problem, stop, seed=self.seed, start=start, progress=progress, **told)
        self.iterations += found.iterations
        return found

    def certified(self, solution, basis: Basis, found: Features, choice: Choice) -> Solution:
        problem, eta, none = self.problem, solution.eta, np.zeros(1)
        a = (problem.y * eta)[:, None]
        points = certificate.located(basis, solution.w[:, None], lambda p, f: (a[p], none, none))
        (point,) = points
        t = problem.y * point.f
        primal, of_dual, scale = _objectives(problem, point.norm, t, eta)
        own = max(primal - of_dual - point.norm + float(eta @ t), 0.0)
        (error,) = certificate.margin_errors(basis, points)
        own += self._rounding(float(error), t, eta)
        enough = self.stop.tolerance * scale - own
        outside, failure = self.outside(points, basis, found.left, enough, choice)
        gap, coef = relative(own + outside, scale), np.zeros(problem.size)
        coef[basis.members] = problem.y[basis.members] * point.alpha
        return Solution(
            None, coef, eta, primal, primal - own - outside, gap, self.iterations,
            gap <= self.stop.tolerance, "landmarks", failure=failure,
        )  # fmt: skip

    def _rounding(self, most: float, t: np.ndarray, eta: np.ndarray) -> float:
        """What errors of the margins, ``most`` at most, can do to the losses and to eta't."""
        row = losses.scaled(_row(self.problem, t), self.problem.weight)
        steepest = np.abs(losses.derivative(row, t)) + np.abs(row.left_lo) + np.abs(row.right_lo)
        steepest += np.abs(row.right_hi)
        size = np.abs(eta).sum() + steepest.sum()
        return float(most * size + (2 * most) ** 2 * losses.slopes_largest(row).sum())


def _descent(problem: Problem):
    return descent if problem.loss.kind == OF_LDM else dcd


def _newton(problem: Problem):
    """The module of Newton's method for a problem, if there is one, and room for its matrices."""
    if problem.loss.kind == OF_LDM:
        return ldm_newton if ldm_newton.fits(problem) else None
    if problem.loss.kind != ONE_JUMP:
        return None  # it would take every row of features twice
    way = SOLVERS["newton"].way(problem.loss.kind, problem.kernel_name)
    return proximal if way.fits(problem.gram) else None


def _row(problem: Problem, t: np.ndarray):
    """The loss, for LDM with the mean of these margins."""
    if problem.loss.kind != OF_LDM:
        return problem.loss
    return losses.ldm_row_at(problem.loss, problem.weight, t)


def _objectives(problem: Problem, norm: float, t, eta) -> tuple[float, float, float]:
    """P, D and S, as if w and w(eta) had the same |w|^2."""
    if problem.loss.kind == OF_LDM:
        return dual.certificate(problem.loss, problem.weight, norm, t, eta)
    return objective_values(losses.scaled(problem.loss, problem.weight), norm, t, eta)
