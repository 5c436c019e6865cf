"""LDM by dual coordinate descent without a matrix inverse, linear and kernel.

Problem     min over w of P(w) = 1/2 |w|^2 + min_b sum_i u_i l_b(t_i),
            l_b(t) = c/2 (t - b)^2 - nu t + rho max(0, 1 - t),
            c = 2 mu1/M, nu = mu2/M, rho = lambda/M (:func:`odmtool.losses.ldm_row`).
            The best b is the mean margin, so this is LDM with its variance.
Update      an epoch of coordinate descent on the dual of a given b
            (:mod:`odmtool.solvers.dcd`), then b = sum u t / sum u; O(nonzeros) an epoch.
            Extrapolating b does not save epochs, nor does, for mu1 up to 16, keeping it exact
            after every coordinate step (docs/solvers.md). What is slow at a large lambda
            is coordinate descent itself; there Newton's method goes on
            (:mod:`odmtool.solvers.ldm_newton`).
            On features of very different scales, where an epoch solves little, this can
            diverge. It then begins again and keeps b until the gap for that b is small.
Stop        when the relative gap of the whole problem, not that of the given b, is at
            most the tolerance (:mod:`odmtool.solvers.ldm_dual`).
Source      Zhang & Zhou, "Large margin distribution machine", KDD 2014, and TKDE 2019,
            section 3.1, for the problem; they invert an m x m matrix instead
            (:mod:`odmtool.solvers.ldm_dense`).
"""

from __future__ import annotations

import numpy as np

from odmtool import losses
from odmtool.errors import DivergedError
from odmtool.solvers import dcd
from odmtool.solvers.base import (
    Problem,
    Progress,
    ProgressCallback,
    Solution,
    Stop,
    ignore_progress,
    not_worse_than_zero,
    relative,
)
from odmtool.solvers.ldm_dual import certificate, feasible, is_bounded

# The epochs' estimates of the gap fall; one so many times the smallest shows that they diverge.
_DIVERGENCE = 1e3
# Relative gap for a given b, below which a patient run takes the next b.
_PATIENT_GAP = 0.05


def solve(
    problem: Problem,
    stop: Stop,
    *,
    seed: int = 0,
    start: np.ndarray | None = None,
    progress: ProgressCallback = ignore_progress,
) -> Solution:
    """Solve a linear or kernel problem whose loss is an LDM.

    Parameters are those of :func:`odmtool.solvers.dcd.solve`; ``start`` need not be
    feasible. In the solution w = sum_i eta_i y_i phi(x_i), eta_i in -u_i l_b'(t_i).

    Raises
    ------
    DivergedError
        The dual is unbounded (only with a kernel that is not positive semidefinite), or
        numbers overflow.
    """
    loss, weight = problem.loss, problem.weight
    start = feasible(loss, weight, np.zeros(problem.size) if start is None else start)
    if loss.mu1 == 0:
        row = problem._replace(loss=losses.ldm_row(loss, 0.0))
        return dcd.solve(row, stop, seed=seed, start=start, progress=progress)
    state = dcd.state_of(problem._replace(loss=losses.ldm_row(loss, 0.0)), start)
    generator, order = np.random.default_rng(seed), np.arange(problem.size)
    total, epoch, is_patient, smallest = weight.sum(), 0, False, np.inf
    b = state.margin_sum() / total

    while True:
        with np.errstate(over="ignore", invalid="ignore"):
            repaired = feasible(loss, weight, state.eta)
            if repaired is not state.eta:
                state.assign(repaired)
            t = state.margins()
            primal, dual, scale = certificate(loss, weight, state.eta @ t, t, state.eta)
        if not is_bounded(problem, primal, dual):
            raise DivergedError(dcd.why_diverged(problem))
        gap = relative(primal - dual, scale)
        progress(Progress(epoch, primal, gap, problem.size))
        if gap <= stop.tolerance or epoch >= stop.max_iter:
            break
        estimate = np.inf
        while epoch < stop.max_iter and not estimate <= stop.tolerance * scale:
            state.loss = losses.ldm_row(loss, b)
            generator.shuffle(order)
            _active, _largest, estimate = state.epoch(order, problem.size, np.inf)
            epoch += 1
            smallest = min(smallest, estimate)
            if not is_patient and not estimate <= _DIVERGENCE * smallest:
                is_patient, b = True, 0.0
                state.assign(start)
                continue
            if is_patient and estimate > _PATIENT_GAP * scale:
                progress(Progress(epoch, None, relative(estimate, scale), problem.size))
                continue
            before, b = b, state.margin_sum() / total
            # By so much is P at the mean below P at the b of the epoch.
            with np.errstate(over="ignore"):
                estimate += state.loss.slope_below * total / 2 * (b - before) ** 2
            if not np.isfinite(estimate):
                break
            progress(Progress(epoch, None, relative(estimate, scale), problem.size))

    found = Solution(
        state.w, state.eta, state.eta, primal, dual, gap, epoch, gap <= stop.tolerance, "dcd"
    )

    def primal_at(s):
        primal, _dual, scale = certificate(loss, weight, s * s * (state.eta @ t), s * t, state.eta)
        return primal, scale

    return not_worse_than_zero(found, primal_at, primal_at(0.0)[0], stop)


def polish(problem: Problem, stop: Stop, start: np.ndarray, seed: int = 0) -> Solution:
    """A certified solution near a primal iterate, by at most ``stop.max_iter`` epochs.

    Parameters
    ----------
    problem : Problem
        Its loss is an LDM.
    stop : Stop
    start : ndarray, shape (m,)
        Dual variables, feasible or not; :func:`demanded` has those of given margins.
    seed : int
    """
    return solve(problem, stop, seed=seed, start=start)


def demanded(problem: Problem, t: np.ndarray, width: float = 1e-3) -> np.ndarray:
    """The dual variables that margins t demand, shape (m,).

    Parameters
    ----------
    t : ndarray, shape (m,)
    width : float, > 0
        Where the hinge has its kink any share of rho could be meant: it falls from all to
        nothing while the margin rises from 1 - width to 1 + width.
    """
    loss, weight = problem.loss, problem.weight
    row = losses.ldm_row(loss, weight @ t / weight.sum())
    share = np.clip((1 + width - t) / (2 * width), 0.0, 1.0)
    jump = row.right_hi - row.left_lo
    return weight * (share * jump - row.slope_above * (t - 1) - row.right_hi)
