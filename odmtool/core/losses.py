"""Margin losses: every one is a row of one table.

A margin loss l(t), t = y f(x), is convex and piecewise quadratic with at most
three pieces, split at lo <= hi, so its derivative is

    l'(t) = slope_below   (t - lo) + left_lo      for t <  lo
            slope_between (t - lo) + right_lo     for lo < t < hi
            slope_above   (t - hi) + right_hi     for t >  hi

and may jump at lo and hi. :class:`MarginLoss` holds these numbers; compiled code
takes it as it is, so that one coordinate step serves every loss. The fields may
also be arrays of shape (m,), one loss per example (see :func:`scaled`).

To add a loss, write the function that makes its row, and a machine that uses it
(:mod:`odmtool.machines.binary`).

======  ================  ===================  =============  ==================
loss    split             l' below             between        above
======  ================  ===================  =============  ==================
odm     1-theta, 1+theta  2 c1 (t - 1+theta)   0              2 c2 (t - 1-theta)
l1svm   1                 -C                                  0
l2svm   1                 2 C (t - 1)                         0
lssvm   none              2 C (t - 1)
svr     1-theta, 1+theta  -C                   0              C
mamc    none              -C
======  ================  ===================  =============  ==================

with c1 = lambda / (M (1-theta)^2), c2 = mu c1, C = lambda / M and M the sum of the
instance weights. The loss of LDM is no row, because the variance couples the examples
(:class:`LDM`); for a given mean margin it is one. Nor is that of multi-class ODM
(:class:`MCODM`), whose margin is a maximum over classes.

Sources: Zhang & Zhou, "Optimal margin distribution machine", TKDE 2019, eq. (9) (odm);
Pelckmans et al., "A risk minimization principle for a class of Parzen estimators",
NIPS 2007 (mamc).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool import messages
from odmtool.errors import UsageError


class MarginLoss(NamedTuple):
    """The row of a loss; scalars, or arrays of shape (m,)."""

    lo: float
    hi: float
    slope_below: float
    left_lo: float
    slope_between: float
    right_lo: float
    slope_above: float
    right_hi: float
    value_lo: float


def odm(lambda_: float, mu: float, theta: float, total_weight: float) -> MarginLoss:
    """The loss of the optimal margin distribution machine.

    Parameters
    ----------
    lambda_ : float, > 0
        Weight of the loss against 1/2 |w|^2.
    mu : float, 0 < mu <= 1
        Cost of a margin above the band, relative to one below.
    theta : float, 0 <= theta < 1
        Half width of the band around margin 1 in which there is no loss.
    total_weight : float, > 0
        Sum of the instance weights; the number of examples without weights.

    Raises
    ------
    UsageError
        A parameter is out of range.
    """
    c1, c2 = _odm_costs(lambda_, mu, theta, total_weight)
    return MarginLoss(1 - theta, 1 + theta, 2 * c1, 0.0, 0.0, 0.0, 2 * c2, 0.0, 0.0)


def _odm_costs(lambda_, mu, theta, total_weight) -> tuple[float, float]:
    """c1 and c2 of c1 xi^2 + c2 epsilon^2."""
    if not 0 < mu <= 1:
        raise UsageError(messages.mu_range(mu))
    _check_theta(theta)
    c1 = _cost(lambda_, total_weight) / (1 - theta) ** 2
    return c1, mu * c1


def _cost(lambda_: float, total_weight: float) -> float:
    """C, the cost of one unit of weight."""
    if not lambda_ > 0:
        raise UsageError(messages.must_be_positive("lambda_", lambda_))
    return lambda_ / total_weight


def _check_theta(theta: float) -> None:
    if not 0 <= theta < 1:
        raise UsageError(messages.theta_range(theta))


def l1svm(lambda_: float, total_weight: float) -> MarginLoss:
    """The hinge C max(0, 1 - t); parameters and errors as in :func:`odm`."""
    return MarginLoss(1.0, 1.0, 0.0, -_cost(lambda_, total_weight), 0.0, 0.0, 0.0, 0.0, 0.0)


def l2svm(lambda_: float, total_weight: float) -> MarginLoss:
    """The squared hinge C max(0, 1 - t)^2."""
    return MarginLoss(1.0, 1.0, 2 * _cost(lambda_, total_weight), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def lssvm(lambda_: float, total_weight: float) -> MarginLoss:
    """The square C (1 - t)^2."""
    slope = 2 * _cost(lambda_, total_weight)
    return MarginLoss(1.0, 1.0, slope, 0.0, slope, 0.0, slope, 0.0, 0.0)


def svr(lambda_: float, theta: float, total_weight: float) -> MarginLoss:
    """Support vector regression of +-1: C max(0, |1 - t| - theta)."""
    _check_theta(theta)
    cost = _cost(lambda_, total_weight)
    return MarginLoss(1 - theta, 1 + theta, 0.0, -cost, 0.0, 0.0, 0.0, cost, 0.0)


def mamc(lambda_: float, total_weight: float) -> MarginLoss:
    """The negative margin -C t."""
    cost = _cost(lambda_, total_weight)
    return MarginLoss(0.0, 0.0, 0.0, -cost, 0.0, -cost, 0.0, -cost, 0.0)


class LDM(NamedTuple):
    """The loss of the large margin distribution machine; scalars.

    (mu1/M) sum u_i (t_i - b)^2 - (mu2/M) sum u_i t_i + (lambda/M) sum u_i max(0, 1 - t_i)
    with b = sum u_i t_i / sum u_i, the mean margin.
    """

    mu1: float
    mu2: float
    lambda_: float
    total_weight: float


def ldm(mu1: float, mu2: float, lambda_: float, total_weight: float) -> LDM:
    """The loss of LDM.

    Parameters
    ----------
    mu1, mu2 : float, >= 0
        Weights of the margins' variance and mean.
    lambda_, total_weight
        As in :func:`odm`.

    Raises
    ------
    UsageError
        A parameter is out of range or not finite.
    """
    for name, number in (("mu1", mu1), ("mu2", mu2), ("lambda_", lambda_)):
        if not np.isfinite(number):
            raise UsageError(messages.must_be_finite(name, number))
    for name, number in (("mu1", mu1), ("mu2", mu2)):
        if not number >= 0:
            raise UsageError(messages.must_not_be_negative(name, number))
    _cost(lambda_, total_weight)
    return LDM(float(mu1), float(mu2), float(lambda_), float(total_weight))


def ldm_row(loss: LDM, b: float) -> MarginLoss:
    """The row of the table that LDM is when the mean margin b is given.

    With c = 2 mu1/M, nu = mu2/M, rho = lambda/M it is
    l(t) = c/2 (t - b)^2 - nu t + rho max(0, 1 - t).
    """
    mu1, mu2, lambda_, total_weight = loss
    c, nu, rho = 2 * mu1 / total_weight, mu2 / total_weight, lambda_ / total_weight
    right = c * (1 - b) - nu
    return MarginLoss(1.0, 1.0, c, right - rho, c, right, c, right, c / 2 * (1 - b) ** 2 - nu)


class MCODM(NamedTuple):
    """The loss of multi-class ODM, c1 max(0, 1-theta-g)^2 + c2 max(0, g-1-theta)^2; scalars.

    The margin g is the score of the example's class minus the best other score. The maximum
    in it makes the second term non-convex, so this is no row of the table. Source: Zhang &
    Zhou, TKDE 2019, section 4.
    """

    theta: float
    c1: float
    c2: float


def mcodm(lambda_: float, mu: float, theta: float, total_weight: float) -> MCODM:
    """The loss of multi-class ODM; parameters and errors as those of :func:`odm`."""
    return MCODM(theta, *_odm_costs(lambda_, mu, theta, total_weight))


def scaled(loss: MarginLoss, weight: np.ndarray) -> MarginLoss:
    """One loss per example: weight_i l(t); ``weight`` has shape (m,), all > 0."""
    ones = np.ones_like(weight)
    return MarginLoss(loss.lo * ones, loss.hi * ones, *(field * weight for field in loss[2:]))


def shifted(loss: MarginLoss, sigma: float) -> MarginLoss:
    """The loss that has the same dual variables when sigma is added to the kernel's diagonal.

    With Q + sigma I in place of Q the margin of an example becomes
    t + sigma eta = t - sigma l'(t), so the graph of l' is sheared. This turns a
    dual that is strictly convex although Q is indefinite into one with a positive
    semidefinite Q. It needs sigma < 1 / slope on every piece and a continuous l'.
    """
    below, between, above = (
        1 - sigma * slope for slope in (loss.slope_below, loss.slope_between, loss.slope_above)
    )
    return MarginLoss(
        loss.lo - sigma * loss.right_lo,
        loss.hi - sigma * loss.right_hi,
        loss.slope_below / below,
        loss.left_lo,
        loss.slope_between / between,
        loss.right_lo,
        loss.slope_above / above,
        loss.right_hi,
        loss.value_lo,
    )


def smoothed(loss: MarginLoss, width: float, eta: np.ndarray) -> MarginLoss:
    """The loss whose derivative spreads the jump at lo = hi over margins of this width.

    It is the loss of a proximal step on the dual from ``eta``: its dual variables maximise
    the dual minus sum_i (width / jump_i) / 2 (eta'_i - eta_i)^2. Example i's margin then is
    t + width / jump_i (eta'_i - eta_i), so the graph of l' is sheared and moved; at the
    solution eta' = eta nothing has changed.

    Parameters
    ----------
    loss : MarginLoss of arrays, shape (m,)
        One loss per example, with lo = hi and a jump there.
    width : float, > 0
    eta : ndarray, shape (m,)
        Where the proximal step starts.
    """
    sigma = width / (loss.right_hi - loss.left_lo)
    most = -loss.left_lo
    return MarginLoss(
        loss.lo + sigma * (loss.left_lo + eta),
        loss.lo + sigma * (loss.right_hi + eta),
        loss.slope_below / (1 + sigma * loss.slope_below),
        loss.left_lo,
        1 / sigma,
        loss.left_lo,
        loss.slope_above / (1 + sigma * loss.slope_above),
        loss.right_hi,
        loss.value_lo + sigma / 2 * (most**2 - eta**2),
    )


def value(loss: MarginLoss, t: np.ndarray) -> np.ndarray:
    """l(t), shape of t."""
    below, above = np.minimum(t - loss.lo, 0), np.maximum(t - loss.hi, 0)
    inside = np.clip(t, loss.lo, loss.hi) - loss.lo
    return (
        loss.value_lo
        + below * (loss.left_lo + loss.slope_below / 2 * below)
        + inside * (loss.right_lo + loss.slope_between / 2 * inside)
        + above * (loss.right_hi + loss.slope_above / 2 * above)
    )


def derivative(loss: MarginLoss, t: np.ndarray) -> np.ndarray:
    """l'(t), shape of t; where it jumps, the value of the piece below."""
    return np.where(
        t <= loss.lo,
        loss.slope_below * (t - loss.lo) + loss.left_lo,
        np.where(
            t <= loss.hi,
            loss.slope_between * (t - loss.lo) + loss.right_lo,
            loss.slope_above * (t - loss.hi) + loss.right_hi,
        ),
    )


def slope(loss: MarginLoss, t: np.ndarray) -> np.ndarray:
    """The generalised second derivative of l at t, shape of t."""
    return np.where(
        t <= loss.lo,
        loss.slope_below,
        np.where(t <= loss.hi, loss.slope_between, loss.slope_above),
    )


def magnitude(loss: MarginLoss | LDM) -> float:
    """The largest of the numbers that a loss is made of."""
    return float(max(abs(number) for number in loss))


def slopes_largest(loss: MarginLoss) -> np.ndarray:
    """The largest second derivative of each loss on any piece, of the fields' shape."""
    return np.maximum(np.maximum(loss.slope_below, loss.slope_between), loss.slope_above)


def largest_slope(loss: MarginLoss) -> float:
    """The largest second derivative of the loss on any piece."""
    return float(np.max(slopes_largest(loss)))


def dual_value(loss: MarginLoss, eta: np.ndarray) -> np.ndarray:
    """min over t of l(t) + eta t, which is -l*(-eta); -inf outside its domain.

    Parameters
    ----------
    eta : ndarray, shape (m,)
        Signed dual variables, -eta in the range of l' where this is finite.

    Returns
    -------
    ndarray, shape (m,)
    """
    t = minimiser(loss, eta)
    finite = np.isfinite(t)
    t = np.where(finite, t, 0.0)
    return np.where(finite, value(loss, t) + eta * t, -np.inf)


def nearest_dual(loss: MarginLoss, eta: np.ndarray) -> np.ndarray:
    """The nearest duals at which :func:`dual_value` is finite, shape (m,)."""
    most = np.where(np.asarray(loss.slope_below) > 0, np.inf, -np.asarray(loss.left_lo))
    least = np.where(np.asarray(loss.slope_above) > 0, -np.inf, -np.asarray(loss.right_hi))
    return np.clip(eta, least, most)


def minimiser(loss: MarginLoss, eta: np.ndarray) -> np.ndarray:
    """The t at which l(t) + eta t is smallest, shape (m,); infinite if there is none."""
    g = -np.asarray(eta)
    left_hi = loss.slope_between * (loss.hi - loss.lo) + loss.right_lo
    with np.errstate(divide="ignore", invalid="ignore"):
        below = loss.lo + (g - loss.left_lo) / loss.slope_below
        inside = loss.lo + (g - loss.right_lo) / loss.slope_between
        above = loss.hi + (g - loss.right_hi) / loss.slope_above
    return np.select(
        [g < loss.left_lo, g <= loss.right_lo, g < left_hi, g <= loss.right_hi],
        [below, loss.lo, inside, loss.hi],
        above,
    )
