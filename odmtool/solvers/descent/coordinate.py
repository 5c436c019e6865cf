"""The coordinate step of dual ascent, one for every margin loss.

For example i with weight u, curvature h = k(x_i, x_i) and margin t, changing eta_i
by delta changes t by h delta. The best eta_i satisfies -eta_i in u l'(t), so

    t_new = t + h (eta_new - eta),    eta_new = -u l'(t_new)

which is solved on each piece of l in turn; where l' jumps, eta_new lies in an interval.
"""

from __future__ import annotations

import numpy as np

from odmtool._jit import njit


@njit
def coordinate_step(loss, u, t, eta, h):
    """The new dual variable of one example.

    Parameters
    ----------
    loss : MarginLoss of scalars
    u, t, eta, h : float
        Weight, margin, dual variable, k(x, x) >= 0.

    Returns
    -------
    eta : float
        From the formula of the piece or from the clipped interval, never by adding
        an increment, so that bounded variables sit exactly at their bounds.
    slack : float
        How far the new margin can move without changing eta: positive only inside
        a piece on which l' is constant, else 0.
    """
    base = t - h * eta
    z = (base - loss.lo - h * u * loss.left_lo) / (1.0 + h * u * loss.slope_below)
    if z <= 0.0:
        slack = -z if loss.slope_below == 0.0 else 0.0
        return -u * (loss.slope_below * z + loss.left_lo), slack
    width = loss.hi - loss.lo
    z = (base - loss.lo - h * u * loss.right_lo) / (1.0 + h * u * loss.slope_between)
    if z < 0.0:
        eta = (loss.lo - base) / h
        return min(max(eta, -u * loss.right_lo), -u * loss.left_lo), 0.0
    if z <= width:
        slack = min(z, width - z) if loss.slope_between == 0.0 else 0.0
        return -u * (loss.slope_between * z + loss.right_lo), slack
    z = (base - loss.hi - h * u * loss.right_hi) / (1.0 + h * u * loss.slope_above)
    if z < 0.0:
        eta = (loss.hi - base) / h
        most = -u * (loss.slope_between * width + loss.right_lo)
        return min(max(eta, -u * loss.right_hi), most), 0.0
    slack = z if loss.slope_above == 0.0 else 0.0
    return -u * (loss.slope_above * z + loss.right_hi), slack


@njit
def loss_value(loss, t):
    """l(t) of one example."""
    if t <= loss.lo:
        z = t - loss.lo
        return loss.value_lo + z * (loss.left_lo + 0.5 * loss.slope_below * z)
    z = min(t, loss.hi) - loss.lo
    value = loss.value_lo + z * (loss.right_lo + 0.5 * loss.slope_between * z)
    z = max(t - loss.hi, 0.0)
    return value + z * (loss.right_hi + 0.5 * loss.slope_above * z)


@njit
def loss_derivative(loss, t):
    """l'(t) of one example; where it jumps, the value of the piece below."""
    if t <= loss.lo:
        return loss.slope_below * (t - loss.lo) + loss.left_lo
    if t <= loss.hi:
        return loss.slope_between * (t - loss.lo) + loss.right_lo
    return loss.slope_above * (t - loss.hi) + loss.right_hi


@njit
def dual_minimiser(loss, u, eta):
    """The t at which u l(t) + eta t is smallest; infinite where there is none.

    The bounds are written as in :func:`coordinate_step`, so that a variable which
    that function put at its bound is recognised without rounding.
    """
    if eta > -u * loss.left_lo:
        if loss.slope_below == 0.0:
            return -np.inf
        return loss.lo - (eta / u + loss.left_lo) / loss.slope_below
    if eta >= -u * loss.right_lo:
        return loss.lo
    if eta > -u * (loss.slope_between * (loss.hi - loss.lo) + loss.right_lo):
        return loss.lo - (eta / u + loss.right_lo) / loss.slope_between
    if eta >= -u * loss.right_hi:
        return loss.hi
    if loss.slope_above == 0.0:
        return np.inf
    return loss.hi - (eta / u + loss.right_hi) / loss.slope_above


@njit
def gap_share(loss, u, t, eta):
    """What one example adds to P - D: u l(t) + eta t - min over s of (u l(s) + eta s) >= 0."""
    s = dual_minimiser(loss, u, eta)
    if not np.isfinite(s):
        return np.inf
    return u * (loss_value(loss, t) - loss_value(loss, s)) + eta * (t - s)


@njit
def added(known, lost, x):
    """The sum ``known`` with x added, and ``lost`` with what rounding loses of the two (Knuth)."""
    total = known + x
    if np.isfinite(total):
        back = total - known
        lost += (known - (total - back)) + (x - back)
    return total, lost


@njit
def objective_sums(loss, weight, t, eta, sizes, error):
    """What all examples add to P and D, and what rounding errors of the margins may add to P - D.

    Parameters
    ----------
    loss : MarginLoss of scalars
    weight, t, eta, sizes : ndarrays, shape (m,)
        Margin i is known to within ``error`` times ``sizes[i]``.

    Returns
    -------
    value, size : float
        The sums of u l(t) and of its absolute value.
    dual : float
        The sum of min over s of u l(s) + eta s; -inf outside of the dual's domain.
    hidden : float
        By how much the shares of the gap may be larger in all
        (:func:`odmtool.solvers.rounding.shares_error`).
    """
    # Of equal numbers rounding errors would add up.
    value, size, dual, hidden = 0.0, 0.0, 0.0, 0.0
    value_lost, size_lost, dual_lost, hidden_lost = 0.0, 0.0, 0.0, 0.0
    for i in range(len(t)):
        u, least = weight[i], dual_minimiser(loss, weight[i], eta[i])
        now, moved = u * loss_value(loss, t[i]), error * sizes[i]
        value, value_lost = added(value, value_lost, now)
        size, size_lost = added(size, size_lost, abs(now))
        lowest = u * loss_value(loss, least) + eta[i] * least if np.isfinite(least) else -np.inf
        dual, dual_lost = added(dual, dual_lost, lowest)
        more = u * loss_value(loss, t[i] + moved) + eta[i] * moved
        less = u * loss_value(loss, t[i] - moved) - eta[i] * moved
        # What is no number would be lost in a maximum.
        share = max(max(more, less) - now, 0.0) if np.isfinite(more + less) else np.inf
        hidden, hidden_lost = added(hidden, hidden_lost, share)
    return value + value_lost, size + size_lost, dual + dual_lost, hidden + hidden_lost
