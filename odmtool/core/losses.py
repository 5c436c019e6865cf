"""What is done with losses: values, derivatives, duals, and other losses made of them.

The losses themselves are those of :mod:`odmtool.core.loss_table`. The fields of a MarginLoss may
be arrays of shape (m,), one loss per example (see :func:`scaled`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# The functions that make losses are found here, too.
from odmtool.core.loss_table import (  # noqa: F401
    KMOMD,
    LDM,
    MarginLoss,
    MulticlassHinge,
    MulticlassODMLoss,
    kmomd,
    l1svm,
    l2svm,
    ldm,
    lssvm,
    mamc,
    mcodm,
    mcsvm,
    odm,
    svr,
)


def ldm_row(loss: LDM, b: float) -> MarginLoss:
    """The row of the table that LDM is when the mean margin b is given.

    With c = 2 mu1/M, nu = mu2/M, rho = lambda/M it is
    l(t) = c/2 (t - b)^2 - nu t + rho max(0, 1 - t).
    """
    mu1, mu2, lambda_, total_weight = loss
    c, nu, rho = 2 * mu1 / total_weight, mu2 / total_weight, lambda_ / total_weight
    right, square = c * (1 - b) - nu, (1 - b) * (1 - b)  # ** 2 would raise where it overflows
    return MarginLoss(1.0, 1.0, c, right - rho, c, right, c, right, c / 2 * square - nu)


def ldm_row_at(loss: LDM, weight: np.ndarray, t: np.ndarray) -> MarginLoss:
    """The same at the mean of the margins t, of examples with these weights."""
    return ldm_row(loss, weight @ t / weight.sum())


def scaled(loss: MarginLoss, weight: np.ndarray) -> MarginLoss:
    """One loss per example: weight_i l(t); ``weight`` has shape (m,).

    A weight is positive, or 0 of an example that takes no part (that of a fold).
    Fields that have the same number everywhere take no memory, and cannot be written to.
    """
    m = len(weight)
    if m and (weight == weight[0]).all():
        weight = weight[0]
    fields = (loss.lo, loss.hi, *(field * weight for field in loss[2:]))
    return MarginLoss(*(np.broadcast_to(field, m) for field in fields))


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
    return loss._replace(
        lo=loss.lo - sigma * loss.right_lo, hi=loss.hi - sigma * loss.right_hi,
        slope_below=loss.slope_below / below, slope_between=loss.slope_between / between,
        slope_above=loss.slope_above / above,
    )  # fmt: skip


_LEAST_JUMP = 1e-290


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
    # A jump beside which the derivative is large may be 0 as a difference.
    sigma = width / np.maximum(loss.right_hi - loss.left_lo, _LEAST_JUMP)
    return loss._replace(
        lo=loss.lo + sigma * (loss.left_lo + eta), hi=loss.lo + sigma * (loss.right_hi + eta),
        slope_below=loss.slope_below / (1 + sigma * loss.slope_below),
        slope_between=1 / sigma, right_lo=loss.left_lo,
        slope_above=loss.slope_above / (1 + sigma * loss.slope_above),
        value_lo=loss.value_lo + sigma / 2 * (loss.left_lo**2 - eta**2),
    )  # fmt: skip


def value(loss: MarginLoss, t: np.ndarray) -> np.ndarray:
    """l(t), shape of t."""
    below, above = np.minimum(t - loss.lo, 0), np.maximum(t - loss.hi, 0)
    inside = np.minimum(np.maximum(t, loss.lo), loss.hi) - loss.lo
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


class Evaluation(NamedTuple):
    """What is known of losses at some margins; ndarrays of shape (m,).

    ``duals`` are what the margins demand, the derivatives with the other sign.
    """

    values: np.ndarray
    duals: np.ndarray
    slopes: np.ndarray


# speed only: examples at a time, whose numbers fit in the cache
_EXAMPLES = 2**15


class Pieces:
    """The losses u_i l(t) of m examples, for many margins.

    Values, duals and slopes come together: which piece a margin lies on is found once, and
    the numbers of the piece are looked up.

    Parameters
    ----------
    loss : MarginLoss
        Scalars, or arrays of shape (m,).
    weight : ndarray, shape (m,)
    """

    def __init__(self, loss: MarginLoss, weight: np.ndarray):
        inside = loss.hi - loss.lo
        at_hi = loss.value_lo + inside * (loss.right_lo + loss.slope_between / 2 * inside)
        fields = (
            (loss.lo, loss.lo, loss.hi),
            (loss.value_lo, loss.value_lo, at_hi),
            (loss.left_lo, loss.right_lo, loss.right_hi),
            (loss.slope_below, loss.slope_between, loss.slope_above),
        )
        self._fields = [np.array(field, dtype=float).ravel() for field in fields]
        self._lo, self._hi, self._weight = loss.lo, loss.hi, weight
        self._places = np.arange(np.size(loss.lo))

    def at(self, t: np.ndarray) -> Evaluation:
        """The values, duals and slopes at margins t, shape (m,)."""
        is_one_loss = np.size(self._lo) == 1
        if not is_one_loss or len(t) <= _EXAMPLES:
            return self._at(t, self._weight)
        found = Evaluation(*(np.empty(len(t)) for _ in Evaluation._fields))
        for k in range(0, len(t), _EXAMPLES):
            some = slice(k, k + _EXAMPLES)
            for whole, part in zip(found, self._at(t[some], self._weight[some]), strict=True):
                whole[some] = part
        return found

    def _at(self, t: np.ndarray, weight: np.ndarray) -> Evaluation:
        piece = np.add(t > self._lo, t > self._hi, dtype=np.intp)
        if len(self._places) > 1:
            piece *= len(self._places)
            piece += self._places
        start, value, tilt, slopes = (field[piece] for field in self._fields)
        t = t - start
        derivatives = slopes * t
        derivatives += tilt
        tilt += derivatives
        tilt *= t
        tilt /= 2
        value += tilt
        duals = np.negative(derivatives, out=derivatives)
        for numbers in (value, duals, slopes):
            numbers *= weight
        return Evaluation(value, duals, slopes)


def magnitude(loss: MarginLoss | LDM) -> float:
    """The largest of the numbers that a loss is made of."""
    return float(max(abs(number) for number in loss))


def slopes_largest(loss: MarginLoss) -> np.ndarray:
    """The largest second derivative of each loss on any piece, of the fields' shape."""
    return np.maximum(np.maximum(loss.slope_below, loss.slope_between), loss.slope_above)


def largest_slope(loss: MarginLoss) -> float:
    """The largest second derivative of the loss on any piece."""
    return float(np.max(slopes_largest(loss)))


def has_bounded_duals(loss: MarginLoss) -> bool:
    """Whether each dual variable lies between two bounds, so that no dual grows for ever."""
    return bool(np.max(loss.slope_below) == 0 == np.max(loss.slope_above))


def dual_value(loss: MarginLoss, eta: np.ndarray) -> np.ndarray:
    """min over t of l(t) + eta t, which is -l*(-eta); -inf outside its domain.

    ``eta`` (ndarray, shape (m,)): signed dual variables, -eta in the range of l' where this is
    finite. Returns ndarray, shape (m,).
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
    with np.errstate(divide="ignore", invalid="ignore"):
        below = loss.lo + (g - loss.left_lo) / loss.slope_below
        inside = loss.lo + (g - loss.right_lo) / loss.slope_between
        above = loss.hi + (g - loss.right_hi) / loss.slope_above
    return np.select(
        [g < loss.left_lo, g <= loss.right_lo, g < loss.left_hi, g <= loss.right_hi],
        [below, loss.lo, inside, loss.hi],
        above,
    )
