"""The dual of LDM, with the minimum over the mean margin b, and the gap it certifies.

With l_b the row of the table that LDM is for a given b (:func:`odmtool.core.losses.ldm_row`,
where c, nu and rho are explained) LDM is min_b of a sum of losses, and its dual is

    D(eta) = -1/2 |w(eta)|^2 + min_b sum_i min_t [u_i l_b(t) + eta_i t].

It is finite where U nu <= sum eta <= U (nu + rho), U = sum u; elsewhere the nearest bound
is reached by adding a multiple of u to eta. With a_i = (nu - eta_i/u_i)/c the derivative
in b is -c sum_i u_i clip(1 - b, a_i, a_i + rho/c): its root is the best b. The dual for
any other b, such as the mean margin, is larger, and the gap to it that of another problem.

For mu1 = 0 there is no b, and u_i nu <= eta_i <= u_i (nu + rho).
"""

from __future__ import annotations

import numpy as np

from odmtool.core import losses
from odmtool.core.losses import LDM
from odmtool.solvers.base import (
    Problem,
    Solution,
    Stop,
    not_worse_than_zero,
    objective_values,
    relative,
)
from odmtool.solvers.diverged import diverged
from odmtool.solvers.rounding import Rounding

# speed only: a dual without a bound exceeds any number
_DIVERGENCE = 1e6
# Sums of duals that differ from a bound by this share are at the bound.
_ROUNDING = 1e-13
# By hand: scipy.optimize takes longer to be imported than this does.
_ROOT_STEPS, _ROOT_ACCURACY = 200, 1e-14
# speed only: halving finds the root as well
_NEWTON_STEPS = 20


def is_bounded(problem: Problem, primal: float, dual: float) -> bool:
    """False if the dual is far above P(0) = lambda U/M, or P is no number."""
    limit = problem.loss.lambda_ * problem.weight.sum() / problem.loss.total_weight
    return bool(np.isfinite(primal) and dual <= _DIVERGENCE * limit)


def feasible(loss: LDM, weight: np.ndarray, eta: np.ndarray) -> np.ndarray:
    """Dual variables with a finite dual value, near eta; eta itself if it has one.

    ``weight`` and ``eta``: ndarrays, shape (m,).
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
    primal, dual, scale = objective_values(row, norm, t, eta)
    if loss.mu1 > 0:
        row = losses.scaled(losses.ldm_row(loss, best_offset(loss, weight, eta, b)), weight)
        dual = float(losses.dual_value(row, eta).sum() - norm / 2)
    return primal, dual, scale


def bounded(
    problem: Problem, rounding: Rounding, t, eta, w, stop: Stop
) -> tuple[float, float, float]:  # fmt: skip
    """P, D and S of w(eta), rounding taken from D; t are its margins, w is None for a kernel."""
    loss, weight = problem.loss, problem.weight

    def evaluate(t, rounding):
        primal, dual, scale = certificate(loss, weight, eta @ t, t, eta)
        # P is the least over b, so no larger than for the mean of the margins as computed.
        row = losses.scaled(losses.ldm_row_at(loss, weight, t), weight)
        return primal, dual - rounding.gap(row, t, eta, eta, stop.negligible(scale), w), scale

    return rounding.settled(evaluate, t, eta, stop.tolerance)[0]


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


def certified(
    problem: Problem, eta, iterations: int, stop: Stop, name: str, rounding: Rounding | None = None
) -> Solution:
    """The solution w(eta) of a problem, with a gap that owes nothing to how it was found.

    The kernel is positive semidefinite. ``rounding`` is that of the problem, if it is known.

    Raises DivergedError: numbers overflow.
    """
    eta = feasible(problem.loss, problem.weight, eta)
    rounding = Rounding.of(problem) if rounding is None else rounding
    with np.errstate(over="ignore", invalid="ignore"):
        w = None if problem.gram is not None else np.asarray(problem.X.T @ (problem.y * eta))
        t = problem.margins(eta)
        primal, dual, scale = bounded(problem, rounding, t, eta, w, stop)
    if not is_bounded(problem, primal, dual):
        raise diverged(problem.gram, primal, dual)
    # Of b itself the dual value is not bounded, so that by rounding it may be the larger one.
    dual = min(primal, dual)
    gap = relative(primal - dual, scale)
    found = Solution(w, eta, eta, primal, dual, gap, iterations, gap <= stop.tolerance, name)
    return not_worse(problem, found, t, stop)


def not_worse(problem: Problem, solution: Solution, t: np.ndarray, stop: Stop) -> Solution:
    """:func:`odmtool.solvers.base.not_worse_than_zero` for w(eta) with margins t."""
    loss, weight, eta = problem.loss, problem.weight, solution.eta

    def primal_at(s):
        with np.errstate(over="ignore", invalid="ignore"):
            primal, _, scale = certificate(loss, weight, s * s * (eta @ t), s * t, eta)
        return primal, scale

    return not_worse_than_zero(solution, primal_at, primal_at(0.0)[0], stop, problem.is_definite)
