"""Stochastic variance reduced gradient (SVRG) for smooth margin losses and for LDM; linear.

Problem     min over w of P(w) = 1/2 |w|^2 + f(w); f is a sum of smooth margin losses, or
            the three terms of LDM.
Update      a stage starts at a snapshot s with the full gradient g = s + grad f(s). Each of
            m steps draws an example (LDM: a pair) and moves e = w - s by

                e <- (e - step (g + change)) / (1 + step),

            change the estimate of grad f(w) - grad f(s) by that example, the regulariser
            taken implicitly. g is dense and the same in all steps: with e = a z + k g a
            step multiplies a and k and adds the example's row to z, O(its nonzeros).
            a never gets small, because the step is at most 10/m; so z is never rescaled.
Sampling    in proportion to u_i |x_i|^2, which makes the mean of the examples' Lipschitz
            constants count, not the largest; pairs in proportion to u.
Snapshot    "last": the last w of the stage; "random", as printed: one of its m iterates at
            random, for which the stage is ended there.
Step        starts at 1/(4L), L = 1 + max l'' sum u_i |x_i|^2 (LDM: see pair_curvature).
            Then Barzilai and Borwein's |ds|^2 / (m <ds, dg>) from the last two snapshots,
            kept between limit/10 and the limit, at first 1/L. A stage that raises P is
            undone and halves both: P of the snapshots never rises.
Stop        smooth losses: P(s) - D <= tolerance S, D the best bound so far; each snapshot
            gives one for nothing, P(s) - 1/2 |grad P(s)|^2, less what rounding may hide.
            LDM: when P has fallen by less than half the tolerance since half as many
            snapshots; dual coordinate descent then finds a dual point
            (:func:`odmtool.solvers.stochastic.common.certified`).
Source      Zhang & Zhou, "Optimal margin distribution machine", TKDE 2019, Algorithm 2 and
            Theorem 3.1; Tan et al., "Barzilai-Borwein step size for stochastic gradient
            descent", NIPS 2016; Xiao & Zhang, "A proximal stochastic gradient method with
            progressive variance reduction", SIAM J. Optim. 24, 2014 (sampling).
"""

from __future__ import annotations

import numpy as np

from odmtool import messages
from odmtool._jit import njit
from odmtool.core import losses
from odmtool.core.losses import LDM
from odmtool.errors import DivergedError
from odmtool.solvers.base import Problem, Progress, Solution, Stop, ignore_progress, relative
from odmtool.solvers.descent.coordinate import loss_derivative
from odmtool.solvers.descent.dcd import compressed_rows, row_squares
from odmtool.solvers.rounding import demanded_gap, primal_error
from odmtool.solvers.stochastic import common
from odmtool.solvers.stochastic.common import add_row, row_product

# speed only: what raises P is taken back, and the gap decides when it ends
_FIRST_STEP, _SMALLEST_SHARE, _LONGEST_STAGE = 0.25, 0.1, 10.0
# A stage raises P if it does so by more than this share of S; the rest is rounding.
_ROUNDING = 1e-14
# speed only: after so many halvings the steps move nothing, and it is given up
_SMALLEST_LIMIT = 2.0**-20
_LEAST_SNAPSHOTS = 8


def solve(
    problem: Problem, stop: Stop, *, seed: int = 0, start: np.ndarray | None = None,
    snapshot: str = "last", progress=ignore_progress,
) -> Solution:  # fmt: skip
    """Solve a linear problem whose loss has a continuous derivative, or is that of LDM.

    ``stop.max_iter`` counts stages of m steps, for LDM also epochs for the dual point; w starts
    at w(start). ``snapshot`` is one of :data:`odmtool.defaults.SNAPSHOTS`. For LDM the gap is not
    known before the end, and NaN.
    """
    narrow, widen = common.occupied_columns(problem)
    with np.errstate(over="ignore", invalid="ignore"):
        run = Stages(StageRows(narrow, seed, snapshot), common.first_point(narrow, start))
        if isinstance(problem.loss, LDM):
            iterations = _until_rest(run, stop, progress)
            solution = common.certified(narrow, stop, run.point, iterations, "svrg", seed)
        else:
            solution = until_certified(run, stop, start is not None, progress, "svrg")
    return solution._replace(w=widen(solution.w))


def until_certified(run: Stages, stop: Stop, has_start: bool, progress, name: str) -> Solution:
    """Stages until the gap of a smooth problem is small enough.

    Without a start at least one: Newton's rule, no model that answers nothing.
    """
    iteration, best, rows = 0, None, run.rows
    dual = dual_at_zero(rows.problem)
    while True:
        point = run.point
        lengths = float(np.linalg.norm(point.w)), rows.lengths(point), rows.curvature, rows.terms
        own = demanded_gap(float(np.linalg.norm(run.gradient)), *lengths)
        hidden = primal_error(*lengths)
        gap = point.primal + hidden - dual
        if own <= gap:
            gap, dual, best = own, point.primal - hidden - own, point
        now = relative(gap, point.scale)
        progress(Progress(iteration, point.primal, now, rows.active(point), rows.margins(point)))
        is_done = (now <= stop.tolerance or run.is_stuck) and (has_start or iteration)
        if is_done or iteration >= stop.max_iter:
            break
        run.stage()
        iteration += 1
    coef = rows.duals(point)
    eta = np.zeros_like(coef) if best is None else coef if best is point else rows.duals(best)
    return Solution(
        point.w, coef, eta, point.primal, point.primal - gap, now, iteration,
        now <= stop.tolerance, name,
    )  # fmt: skip


def _until_rest(run: Stages, stop: Stop, progress) -> int:
    """Stages until P falls no more; returns their number."""
    history, stages = [run.point.primal], 0
    while True:
        point, n = run.point, len(history) - 1
        progress(Progress(stages, point.primal, np.nan, len(point.t), point.t))
        # speed only: when the gap is looked at for the first time
        fall = history[n // 2] - point.primal
        # speed only: when the gap is looked at for the first time
        is_at_rest = n >= _LEAST_SNAPSHOTS and fall <= stop.tolerance / 2 * point.scale
        if is_at_rest or run.is_stuck or stages >= stop.max_iter:
            return stages
        if run.stage():
            history.append(run.point.primal)
        stages += 1


class Stages:
    """The snapshot, its gradient, and the step.

    Raises DivergedError: numbers overflow.

    Parameters
    ----------
    rows : StageRows
    point
        The first snapshot, as ``rows.at`` gives it: with ``w``, ``primal`` and ``scale``.
    """

    def __init__(self, rows, point):
        self.rows, self.point, self.gradient = rows, point, rows.gradient(point)
        if not np.isfinite(rows.curvature):
            raise DivergedError(messages.overflow())
        self._limit, self._step = 1 / rows.curvature, _FIRST_STEP / rows.curvature
        self._smallest_limit = _SMALLEST_LIMIT / rows.curvature

    @property
    def is_stuck(self) -> bool:
        return self._limit < self._smallest_limit

    def stage(self) -> bool:
        """One stage: to the next snapshot, or halve the step; whether the snapshot is new."""
        before, rows = self.point, self.rows
        step = min(self._step, _LONGEST_STAGE / rows.size)
        point = rows.at(before.w + rows.steps(before, self.gradient, step))
        if not point.primal <= before.primal + _ROUNDING * before.scale:
            self._limit /= 2
            self._step = min(self._step, self._limit) / 2
            return False
        old, self.point, self.gradient = self.gradient, point, rows.gradient(point)
        moved = point.w - before.w
        turned = moved @ (self.gradient - old)
        if turned > 0:
            secant = moved @ moved / turned / rows.size
            self._step = min(max(secant, _SMALLEST_SHARE * self._limit), self._limit)
        return True


class StageRows:
    """The examples of a problem, as :class:`Stages` asks for them.

    Attributes
    ----------
    size : int
    curvature : float
        L, which decides the first step.
    terms : int
        No sum has more.
    """

    def __init__(self, problem: Problem, seed: int, snapshot: str):
        self.problem, self.size, self._is_random = problem, problem.size, snapshot == "random"
        self._arrays = compressed_rows(problem.X)
        self._generator = np.random.default_rng(seed)
        self._is_paired = isinstance(problem.loss, LDM)
        squares, self.terms = row_squares(*self._arrays), max(problem.X.shape)
        self._lengths = np.sqrt(squares)
        if self._is_paired:
            shares = problem.weight
            self.curvature = common.pair_curvature(problem, squares)
        else:
            shares = problem.weight * squares
            self.curvature = curvature(problem.loss, shares.sum())
        self._sums = common.cumulative(shares)
        self._inflation = inflation(shares, shares.sum())

    def at(self, w: np.ndarray) -> common.Point:
        """The snapshot at w."""
        return common.point_at(self.problem, w)

    def gradient(self, point) -> np.ndarray:
        """The full gradient of P at a snapshot."""
        return point.w + np.asarray(self.problem.X.T @ (self.problem.y * point.derivative))

    def steps(self, point, gradient: np.ndarray, step: float) -> np.ndarray:
        """How far the steps of a stage move w."""
        problem, t, m = self.problem, point.t, self.size
        drift, z = problem.y * np.asarray(problem.X @ gradient), np.zeros_like(gradient)
        first = common.draw(self._generator, self._sums)
        second = common.draw(self._generator, self._sums) if self._is_paired else first
        count = self._generator.integers(1, m + 1) if self._is_random else m
        if self._is_paired:
            variance, _mean, hinge = common.pair_terms(problem)
            a, k = pair_stage(
                *self._arrays, problem.y, variance, hinge, t, drift, first[:count],
                second[:count], step, z,
            )  # fmt: skip
        else:
            a, k = stage(
                *self._arrays, problem.y, problem.weight, problem.loss, t, drift,
                self._inflation, first[:count], step, 1.0, 0.0, z,
            )  # fmt: skip
        return a * z + k * gradient

    def active(self, point) -> int:
        """Examples whose loss has a slope."""
        return int(np.count_nonzero(point.derivative))

    def margins(self, point) -> np.ndarray | None:
        """Those of the examples, where they are in one place."""
        return point.t

    def lengths(self, point) -> float:
        """The sum of |x_i| |eta_i|, for bounds of rounding."""
        return float(self._lengths @ np.abs(point.derivative))

    def duals(self, point) -> np.ndarray:
        """The dual variables of a snapshot, shape (m,)."""
        return -point.derivative


def curvature(loss, total: float) -> float:
    """L, for total = sum u_i |x_i|^2."""
    return float(1 + losses.largest_slope(loss) * total)


def inflation(shares: np.ndarray, total: float) -> np.ndarray:
    """1 over the probability with which an example is drawn, 0 for those that never are."""
    return np.divide(total, shares, where=shares > 0, out=np.zeros_like(shares))


def dual_at_zero(problem: Problem) -> float:
    """D(0) of a problem with a smooth loss."""
    loss = losses.scaled(problem.loss, problem.weight)
    return float(losses.dual_value(loss, np.zeros(problem.size)).sum())


@njit
def stage(data, indices, indptr, y, weight, loss, margins, drift, inflation, order, step, a, k, z):
    """Steps with the examples of ``order``; e = w - s = a z + k g, at first with a = 1.

    Returns a and k.

    Parameters
    ----------
    data, indices, indptr : ndarrays
        Rows of the m x d matrix X (CSR).
    y, weight, margins, drift, inflation : ndarrays, shape (m,)
        ``margins`` t_i at the snapshot, ``drift`` y_i <x_i, g>, ``inflation`` 1 over the
        probability with which i is drawn.
    loss : MarginLoss of scalars
    step : float, > 0
    a, k : float
    z : ndarray, shape (d,)
        Changed in place.
    """
    shrink = 1.0 / (1.0 + step)
    for i in order:
        before = margins[i]
        t = before + y[i] * a * row_product(data, indices, indptr, i, z) + k * drift[i]
        change = weight[i] * (loss_derivative(loss, t) - loss_derivative(loss, before))
        a, k = shrink * a, shrink * (k - step)
        if change != 0.0:
            factor = y[i] * (-step * shrink / a * inflation[i] * change)
            add_row(data, indices, indptr, i, factor, z)
    return a, k


@njit
def pair_stage(data, indices, indptr, y, variance, hinge, margins, drift, first, second, step, z):
    """Steps of LDM with the pairs ``first[q], second[q]``; the rest as in :func:`stage`.

    ``variance`` and ``hinge`` are those of :func:`odmtool.solvers.stochastic.common.pair_terms`;
    it begins with a = 1, k = 0 and z = 0.
    """
    a, k, shrink = 1.0, 0.0, 1.0 / (1.0 + step)
    for q in range(len(first)):
        i, j = first[q], second[q]
        moved_i = y[i] * a * row_product(data, indices, indptr, i, z) + k * drift[i]
        moved_j = y[j] * a * row_product(data, indices, indptr, j, z) + k * drift[j]
        apart = variance * (moved_i - moved_j)
        fewer_i = (margins[i] <= 1.0) - 1.0 * (margins[i] + moved_i <= 1.0)
        fewer_j = (margins[j] <= 1.0) - 1.0 * (margins[j] + moved_j <= 1.0)
        a, k = shrink * a, shrink * (k - step)
        factor = -step * shrink / a
        change_i, change_j = hinge * fewer_i + apart, hinge * fewer_j - apart
        if change_i != 0.0:
            add_row(data, indices, indptr, i, y[i] * factor * change_i, z)
        if change_j != 0.0:
            add_row(data, indices, indptr, j, y[j] * factor * change_j, z)
    return a, k
