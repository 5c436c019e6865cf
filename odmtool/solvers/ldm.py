"""LDM by dual coordinate descent without a matrix inverse, linear and kernel.

Problem     min over w of P(w) = 1/2 |w|^2 + min_b sum_i u_i l_b(t_i),
            l_b(t) = c/2 (t - b)^2 - nu t + rho max(0, 1 - t),
            c = 2 mu1/M, nu = mu2/M, rho = lambda/M (:func:`odmtool.losses.ldm_row`).
            The smallest b is the mean margin, so this is LDM with its variance.
Update      an epoch of coordinate descent on the dual of a given b
            (:mod:`odmtool.solvers.dcd`), then b = sum u t / sum u; O(nonzeros) an epoch.
            Nothing is gained by a better b: a variant that keeps b exact after every
            coordinate step, and extrapolation of b, take as many epochs. What is slow at a
            large lambda or mu1 is coordinate descent itself; there Newton's method goes on
            (:mod:`odmtool.solvers.ldm_newton`).
Stop        when the relative gap of the whole problem, not that of the given b, is at
            most the tolerance. Its dual is

            D(eta) = -1/2 |w(eta)|^2 + min_b sum_i min_t [u_i l_b(t) + eta_i t],

            finite where U nu <= sum eta <= U (nu + rho), U = sum u: what is missing is
            added to eta in proportion to u. With a_i = (nu - eta_i/u_i)/c the derivative
            in b is -c sum_i u_i clip(1 - b, a_i, a_i + rho/c), whose root is the best b.
Source      Zhang & Zhou, "Large margin distribution machine", KDD 2014, and TKDE 2019,
            section 3.1, for the problem; they invert an m x m matrix instead
            (:mod:`odmtool.solvers.ldm_dense`).
"""

from __future__ import annotations

import numpy as np

from odmtool import losses
from odmtool.errors import DivergedError
from odmtool.losses import LDM
from odmtool.solvers import dcd
from odmtool.solvers.base import (
    Problem,
    Progress,
    ProgressCallback,
    Solution,
    Stop,
    ignore_progress,
    objective_values,
    relative,
)

_DIVERGENCE = 1e6
# Sums of duals that differ from a bound by this share are at the bound.
_ROUNDING = 1e-13
_ROOT_STEPS, _NEWTON_STEPS, _ROOT_ACCURACY = 200, 20, 1e-14


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
    total, epoch = weight.sum(), 0
    b = state.margin_sum() / total

    while True:
        with np.errstate(over="ignore", invalid="ignore"):
            repaired = feasible(loss, weight, state.eta)
            if repaired is not state.eta:
                state.assign(repaired)
            t = state.margins()
            primal, dual, scale = certificate(loss, weight, state.eta @ t, t, state.eta)
        _check_bounded(problem, primal, dual)
        gap = relative(primal - dual, scale)
        progress(Progress(epoch, primal, gap, problem.size))
        if gap <= stop.tolerance or epoch >= stop.max_iter:
            break
        estimate = np.inf
        while epoch < stop.max_iter and not estimate <= stop.tolerance * scale:
            state.loss = losses.ldm_row(loss, b)
            generator.shuffle(order)
            _active, _largest, estimate = state.epoch(order, problem.size, np.inf)
            before, b = b, state.margin_sum() / total
            # By so much is P at the mean below P at the b of the epoch.
            estimate += state.loss.slope_below * total / 2 * (b - before) ** 2
            epoch += 1
            if not np.isfinite(estimate):
                break
            progress(Progress(epoch, None, relative(estimate, scale), problem.size))

    return Solution(
        state.w, state.eta, state.eta, primal, dual, gap, epoch, gap <= stop.tolerance, "dcd"
    )


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


def _check_bounded(problem: Problem, primal: float, dual: float) -> None:
    """Raise DivergedError if the dual is far above P(0) = lambda U/M, or no number."""
    limit = problem.loss.lambda_ * problem.weight.sum() / problem.loss.total_weight
    if not np.isfinite(primal) or dual > _DIVERGENCE * limit:
        raise DivergedError(dcd.why_diverged(problem))


def feasible(loss: LDM, weight: np.ndarray, eta: np.ndarray) -> np.ndarray:
    """Dual variables with a finite dual value, near eta; eta itself if it has one.

    Parameters
    ----------
    weight, eta : ndarrays, shape (m,)
    """
    if loss.mu1 == 0:
        row = losses.scaled(losses.ldm_row(loss, 0.0), weight)
        return np.clip(eta, -row.right_hi, -row.left_lo)
    units = weight.sum() / loss.total_weight
    least, most = units * loss.mu2, units * (loss.mu2 + loss.lambda_)
    total = eta.sum()
    excess = total - min(max(total, least), most)
    if not abs(excess) > _ROUNDING * max(most, np.abs(eta).sum()):
        return eta
    return eta - excess / weight.sum() * weight


def certificate(loss: LDM, weight, norm: float, t, eta) -> tuple[float, float, float]:
    """P, D and the scale S of w = w(eta) with |w|^2 = norm and margins t."""
    b = weight @ t / weight.sum()
    row = losses.scaled(losses.ldm_row(loss, b), weight)
    primal, dual, scale = objective_values(row, norm, norm, t, eta)
    if loss.mu1 > 0:
        row = losses.scaled(losses.ldm_row(loss, best_offset(loss, weight, eta, b)), weight)
        dual = float(losses.dual_value(row, eta).sum() - norm / 2)
    return primal, dual, scale


def best_offset(loss: LDM, weight: np.ndarray, eta: np.ndarray, near: float) -> float:
    """The b at which D is smallest, by Newton's method between bounds; needs mu1 > 0.

    Outside the bounds D is linear in b, rising or constant, for feasible eta. The search
    starts ``near`` a b.
    """
    c, nu, rho = (2 * loss.mu1, loss.mu2, loss.lambda_) / np.float64(loss.total_weight)
    lower = (nu - eta / weight) / c
    upper = lower + rho / c
    least, most = lower.min(), upper.max()
    z = min(max(1.0 - near, least), most)
    for step in range(_ROOT_STEPS):
        total = weight @ np.clip(z, lower, upper)
        if total == 0:
            break
        if total > 0:
            most = z
        else:
            least = z
        slope = weight[(lower < z) & (z < upper)].sum()
        root = z - total / slope if slope > 0 else np.inf
        # A few steps are enough, unless they go round in a circle: then the middle helps.
        is_newton = least < root < most and (step < _NEWTON_STEPS or step % 2)
        following = root if is_newton else (least + most) / 2
        change, z = following - z, following
        if abs(change) <= _ROOT_ACCURACY * max(1.0, abs(z)):
            break
    return float(1.0 - z)


def certified(problem: Problem, eta, iterations: int, tolerance: float, name: str) -> Solution:
    """The solution w(eta) of a problem, with a gap that owes nothing to how it was found."""
    y, weight = problem.y, problem.weight
    eta, w = feasible(problem.loss, weight, eta), None
    if problem.gram is None:
        w = np.asarray(problem.X.T @ (y * eta))
        t = y * np.asarray(problem.X @ w)
    else:
        t = y * (problem.gram.matrix() @ (y * eta))
    primal, dual, scale = certificate(problem.loss, weight, eta @ t, t, eta)
    _check_bounded(problem, primal, dual)
    gap = relative(primal - dual, scale)
    return Solution(w, eta, eta, primal, dual, gap, iterations, gap <= tolerance, name)
