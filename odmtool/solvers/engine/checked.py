"""The gap at margins in single precision, bounded by some rows of K in double precision.

Problem  With coefficients a and the duals eta near them, P - D is the sum of the examples' shares
         s_i(t_i) = u_i l(t_i) + eta_i t_i - min_t (u_i l(t) + eta_i t), and something known
         (:mod:`odmtool.solvers.engine.full`). Only t~ is known, from f~ = K~ a with kernel
         values in single precision; margins in double precision are a pass that takes several
         times as long.
Method   |f~_i - f_i| <= d, with d from the largest error of a value. s_i is convex, so that it is
         at most r_i = max(s_i(t~_i - d), s_i(t~_i + d)) - s_i(t~_i) larger than it seems. That is
         far too much, for single errors are smaller and cancel. But rows drawn with p_i = r_i / T,
         T = sum_i r_i, tell X = (s_i(t_i) - s_i(t~_i)) / p_i <= T, whose mean is what the sum is
         larger: it is bounded as X is in :mod:`odmtool.solvers.engine.certificate`.
Rounding The drawn rows are off by e, as all of double precision: with c the largest slopes of l',
         the sum then is at most e sum_i (|s_i'(t~_i)| + c_i d) + e^2/2 sum_i c_i larger.
Source   Maurer & Pontil, "Empirical Bernstein bounds", COLT 2009, as there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from odmtool.core import losses
from odmtool.core.losses import MarginLoss
from odmtool.solvers.engine.certificate import DELTA, Draw, most_likely, rows_times
from odmtool.solvers.engine.choice import DRAWN
from odmtool.solvers.engine.points import Points
from odmtool.solvers.rounding import share_errors

# A bound will be about so many times what it is where no X was beyond and none varied.
# speed only: the bound knows how many rows were drawn
_SAFETY = 4.0
# No X is above T but for its own rounding.
_ROUNDED = 1 + 1e-6


class Known(NamedTuple):
    """A point in single precision."""

    # y, a, f, eta: shape (m,), f is near K a.
    y: np.ndarray
    a: np.ndarray
    f: np.ndarray
    eta: np.ndarray
    size: float  # |a|_1, or the sum of the |v|_1 of the products K v of which f is made
    loss: MarginLoss  # MarginLoss of arrays, shape (m,)


class More(NamedTuple):
    """What rounding to single precision has changed."""

    gap: float  # P - D is at most so much larger; infinity where this needs too many rows
    primal: float = 0.0  # P is about so much larger, as far as that is seen
    failure: float = 0.0  # the probability that ``gap`` is wrong


def more(points: Points, known: Known, allowed: float, most: int, drawn: Callable) -> More:
    """By how much P - D is larger than the margins say.

    Parameters
    ----------
    allowed : float
        What is hoped for; if it is infinite, as many rows as may be are drawn.
    most : int
        Rows to draw at most.
    drawn : callable
        Returns a seed and the probability with which the bound may fail.
    """
    y, a, f, eta, _size, loss = known
    t, (ranges, rounding, count) = y * f, _plan(points, known, allowed, most)
    total = float(ranges.sum())
    if not count or not total > 0:
        return More(np.inf)
    (seed, delta), chance = drawn(), ranges / total
    rows = np.random.default_rng(seed).choice(len(chance), count, p=chance)
    rows, order = np.unique(rows, return_inverse=True)
    f_exactly = rows_times(points, rows, a[:, None]).ravel()
    some, moved = MarginLoss(*(field[rows] for field in loss)), y[rows] * f_exactly - t[rows]
    lost = losses.value(some, t[rows] + moved) - losses.value(some, t[rows])
    weight = 1 / chance[rows]
    gained, lost = (lost + eta[rows] * moved) * weight, (lost + (y * a)[rows] * moved / 2) * weight
    if not gained.max() <= total * _ROUNDED:
        return More(np.inf)  # a margin is farther off than d: what bounds it does not hold
    primal, found = _seen(lost[order]), Draw.of(total, gained[order]).largest_mean(count, delta)
    if total <= min(found, allowed - rounding):
        return More(total + rounding, primal)
    return More(found + rounding, primal, DELTA)


# speed only: where drawn rows are not enough, a pass over all of them follows
def is_hopeful(points: Points, known: Known, allowed: float, most: int) -> bool:
    """Whether so many rows may be enough, where margins are about these; else it takes a pass."""
    return _plan(points, known, allowed, most)[2] > 0


def _plan(points: Points, known: Known, allowed: float, most: int) -> tuple:
    """r, what double precision rounds, and how many rows to draw; 0 where none do."""
    t, size, loss = known.y * known.f, known.size, known.loss
    exactly = points.product_error
    off, off_exactly = (points.single_product_error + 2 * exactly) * size, exactly * size
    if not np.isfinite(off):
        return np.zeros_like(t), np.inf, 0
    largest = losses.slopes_largest(loss)
    tilt = np.abs(losses.derivative(loss, t) + known.eta) + largest * off
    rounding = float(off_exactly * tilt.sum() + off_exactly**2 / 2 * largest.sum())
    ranges = share_errors(loss, t, known.eta, off)
    total, hoped = float(ranges.sum()), (allowed - rounding) / _SAFETY
    enough = [n for n in DRAWN if n <= most and most_likely(0.0, n, DELTA / 4) * total <= hoped]
    return ranges, rounding, (enough[-1] if allowed == np.inf else enough[0]) if enough else 0


def _seen(samples: np.ndarray) -> float:
    """Their mean where it is more than its standard error, else nothing."""
    mean = samples.mean()
    return float(mean) if abs(mean) > samples.std(ddof=1) / np.sqrt(len(samples)) else 0.0
