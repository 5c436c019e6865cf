"""Mehrotra's interior-point method for the least of a quadratic function over simplices.

Problem     The least 1/2 g' H g over g >= 0 with E' g = 1. Each of the m rows of E is a unit
            vector: g sums to 1 over every set of variables that a column of E marks.
Update      H g - E r - s = 0, E' g = 1 and g_i s_i = mu, linearised: first for mu = 0, which
            tells how far mu can fall, then for that mu, with the product of the first changes of
            g and s. Both have one matrix, H + diag(s / g). A step ends just before g or s is 0.
Stop        The caller's: the steps do not end by themselves, unless the matrix can no longer be
            factored or a number overflows.
Source      Mehrotra, "On the implementation of a primal-dual interior point method", SIAM Journal
            on Optimization 1992; Nocedal & Wright, "Numerical optimization", algorithm 16.4.

How many steps it takes hardly depends on H, where an active set changes by an example at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.linalg import LinAlgError

# A step goes this far to where the first g or s is 0.
# speed only: how long the steps are
_SHORT = 0.995


def steps(product: Callable, factored: Callable, ends: np.ndarray, g: np.ndarray) -> Iterator:
    """Yield g after each step, shape (m,), positive; the sums of 1 hold but for rounding.

    Parameters
    ----------
    product : callable
        H g, from g of shape (m,).
    factored : callable
        From d, shape (m,), positive, a function that returns (H + diag(d))^-1 b, b of shape
        (m, k). LinAlgError ends the steps.
    ends : ndarray, shape (m, sets)
        E, of zeros and ones.
    g : ndarray, shape (m,)
        Where to begin, positive, with E' g = 1.
    """
    gradient = product(g)
    r = np.array([gradient[of_set > 0].min() for of_set in ends.T])
    s = gradient - ends @ r
    # No product g_i s_i is below their mean, without which nothing limits the steps.
    s = np.maximum(s, max(g @ s / len(g), np.finfo(float).tiny) / g)
    while True:
        mu = g @ s / len(g)
        try:
            direction = _Direction(factored(s / g), ends, g, s, gradient - ends @ r - s)
            dg, _, ds = direction.to(-g * s)
            step = min(_most(g, dg), _most(s, ds))
            fall = (g + step * dg) @ (s + step * ds) / len(g) / mu
            dg, dr, ds = direction.to(fall**3 * mu - g * s - dg * ds)
        except (LinAlgError, ValueError):
            return
        step = min(1.0, _SHORT * min(_most(g, dg), _most(s, ds)))
        g, r, s = g + step * dg, r + step * dr, s + step * ds
        gradient = product(g)
        if not (np.all(g > 0) and np.all(s > 0) and np.all(np.isfinite(gradient))):
            return
        yield g


class _Direction:
    """The linearised equations at one point, for several right sides."""

    def __init__(self, solved: Callable, ends, g, s, residual):
        self._solved, self._ends, self._g, self._s = solved, ends, g, s
        self._residual, self._missing = residual, 1 - ends.T @ g
        self._of_ends = solved(ends)

    def to(self, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The changes of g, r and s with s_i dg_i + g_i ds_i = right_i."""
        alone = self._solved((right / self._g - self._residual)[:, None])[:, 0]
        sums = self._ends.T @ self._of_ends
        dr = np.linalg.solve(sums, self._missing - self._ends.T @ alone)
        dg = alone + self._of_ends @ dr
        return dg, dr, (right - self._s * dg) / self._g


def _most(x: np.ndarray, dx: np.ndarray) -> float:
    """The largest step, to 1, with which no x becomes negative."""
    falls = dx < 0
    return min(1.0, float((-x[falls] / dx[falls]).min(initial=np.inf)))
