"""LDM by dual coordinate descent without a matrix inverse, linear and kernel.

Problem     min over w of P(w) = 1/2 |w|^2 + min_b sum_i u_i l_b(t_i),
            l_b(t) = c/2 (t - b)^2 - nu t + rho max(0, 1 - t),
            c = 2 mu1/M, nu = mu2/M, rho = lambda/M (:func:`odmtool.core.losses.ldm_row`).
            The best b is the mean margin, so this is LDM with its variance.
Update      an epoch of coordinate descent on the dual of a given b
            (:mod:`odmtool.solvers.descent.dcd`), then b = sum u t / sum u; O(nonzeros) an epoch.
            Extrapolating b does not save epochs, nor does, for mu1 up to 16, keeping it exact
            after every coordinate step (docs/solvers.md). What is slow at a large lambda
            is coordinate descent itself; there Newton's method goes on
            (:mod:`odmtool.solvers.ldm.newton`).
            On features of very different scales, where an epoch solves little, this can
            diverge. It then begins again and keeps b until the gap for that b is small.
Deadline    may end the first pass over the rows of a kernel matrix that does not fit in memory.
            Then the first duals of the rows that are missing become 0, and the others larger.
Stop        when the relative gap of the whole problem, not that of the given b, is at
            most the tolerance (:mod:`odmtool.solvers.ldm.dual`).
Source      Zhang & Zhou, "Large margin distribution machine", KDD 2014, and TKDE 2019,
            section 3.1, for the problem; they invert an m x m matrix instead
            (:mod:`odmtool.solvers.ldm.dense`).
"""

from __future__ import annotations

import numpy as np

from odmtool.core import deadline, losses
from odmtool.solvers.base import Problem, Progress, Solution, Stop, ignore_progress, relative
from odmtool.solvers.descent import dcd
from odmtool.solvers.descent.trend import Trend
from odmtool.solvers.diverged import diverged
from odmtool.solvers.ldm.dual import bounded, feasible, is_bounded, not_worse
from odmtool.solvers.rounding import Rounding

# The epochs' estimates of the gap fall; one so many times the smallest shows that they diverge.
_DIVERGENCE = 1e3
# Relative gap for a given b, below which a patient run takes the next b.
_PATIENT_GAP = 0.05
# Margins no farther from 1 are given a share of the jump of the hinge's derivative.
_KINK = 1e-3


def solve(
    problem: Problem, stop: Stop, *, seed: int = 0, start: np.ndarray | None = None,
    progress=ignore_progress,
) -> Solution:  # fmt: skip
    """Solve a linear or kernel problem whose loss is an LDM.

    ``stop.max_iter`` counts epochs; ``start`` need not be feasible. In the solution
    w = sum_i eta_i y_i phi(x_i), eta_i in -u_i l_b'(t_i).
    """
    loss, weight, is_new = problem.loss, problem.weight, start is None
    start = feasible(loss, weight, np.zeros(problem.size) if is_new else start)
    if loss.mu1 == 0:
        row = problem._replace(loss=losses.ldm_row(loss, 0.0))
        return dcd.solve(row, stop, seed=seed, start=start, progress=progress)
    run = _Alternation(problem, start, seed, is_new)
    state, rounding, epoch = run.state, Rounding.of(problem), 0
    trend, is_too_slow = Trend() if stop.follows else None, False

    while True:
        with np.errstate(over="ignore", invalid="ignore"):
            repaired = feasible(loss, weight, state.eta)
            if repaired is not state.eta:
                run.repair(repaired)
            t = state.margins()
            primal, dual, scale = bounded(problem, rounding, t, state.eta, state.w, stop)
        if not is_bounded(problem, primal, dual):
            raise diverged(problem.gram, primal, dual)
        gap = relative(primal - dual, scale)
        progress(Progress(epoch, primal, gap, problem.size, t))
        if gap <= stop.tolerance or epoch >= stop.max_iter or is_too_slow:
            break
        estimate = np.inf
        while epoch < stop.max_iter and not (estimate <= stop.tolerance * scale or is_too_slow):
            estimate, epoch = run.epoch(scale), epoch + 1
            if not np.isfinite(estimate):
                break
            seen = relative(estimate, scale)
            progress(Progress(epoch, None, seen, problem.size))
            if trend is not None:
                is_too_slow = trend.is_too_slow(epoch, seen, stop.tolerance, stop.limit)

    found = Solution(
        state.w, state.eta, state.eta, primal, dual, gap, epoch, gap <= stop.tolerance, "dcd"
    )
    return not_worse(problem, found, t, stop)


class _Alternation:
    """Coordinate descent for a given b, and the next b."""

    def __init__(self, problem: Problem, start: np.ndarray, seed: int, may_thin: bool = False):
        self._loss, self._start, self._size = problem.loss, start, problem.size
        row = problem._replace(loss=losses.ldm_row(problem.loss, 0.0))
        self.state = dcd.state_of(row, start, may_thin=may_thin)
        self._generator, self._order = np.random.default_rng(seed), np.arange(problem.size)
        self._total, self._is_patient, self._smallest = problem.weight.sum(), False, np.inf
        self._b = self.state.margin_sum() / self._total

    def repair(self, eta: np.ndarray) -> None:
        """Go on from feasible duals, or, for lack of time, from multiples with the same sum.

        Only the sum decides whether the dual is finite.
        """
        state, total = self.state, self.state.eta.sum()
        if not state.assign(eta, total > 0):
            state.multiply(eta.sum() / total)

    def epoch(self, scale: float) -> float:
        """One epoch and, if it is time, a new b; an estimate of the gap."""
        state = self.state
        state.loss = losses.ldm_row(self._loss, self._b)
        self._generator.shuffle(self._order)
        estimate = state.epoch(self._order, self._size, np.inf)[2]
        if estimate == np.inf and deadline.is_over():
            # Not that it grew: the epoch has no end, and no other one follows.
            return estimate
        self._smallest = min(self._smallest, estimate)
        if not self._is_patient and not estimate <= _DIVERGENCE * self._smallest:
            self._is_patient, self._b = True, 0.0
            state.assign(self._start)
            # Nothing is known yet of this beginning.
            return np.finfo(float).max
        if self._is_patient and estimate > _PATIENT_GAP * scale:
            return estimate
        before, self._b = self._b, state.margin_sum() / self._total
        with np.errstate(over="ignore"):
            # By so much is P at the mean below P at the b of the epoch.
            return estimate + state.loss.slope_below * self._total / 2 * (self._b - before) ** 2


def demanded(problem: Problem, t: np.ndarray) -> np.ndarray:
    """The dual variables that margins t demand, shape (m,).

    Where the hinge has its kink any share of rho could be meant: it falls from all to nothing
    while the margin rises from 1 - ``_KINK`` to 1 + ``_KINK``.
    """
    loss, weight = problem.loss, problem.weight
    row = losses.ldm_row_at(loss, weight, t)
    share = np.clip((1 + _KINK - t) / (2 * _KINK), 0.0, 1.0)
    jump = row.right_hi - row.left_lo
    return weight * (share * jump - row.slope_above * (t - 1) - row.right_hi)
