"""Bounds of the full problem's gap at a model in the span of landmarks.

A model w = sum_j alpha_j phi(z_j) is a feasible point of the full problem, and P(w) costs
O(m r). Let eta_i = -u_i l'(t_i) be the duals that its margins demand and a = y eta. For a loss
without jumps

    P(w) - D(eta) = 1/2 |w - w(eta)|^2 = 1/2 q' K_ZZ^-1 q + 1/2 a'E a,    q = K_ZZ alpha - C'a

the part inside the span and the part outside, with E = K - C K_ZZ^-1 C' (C = k(X, Z)) positive
semidefinite and e_i = E_ii known (:mod:`odmtool.solvers.engine.features`). The part outside is

free    at most min(trace(E) |a|^2, T^2), T = sum_i |a_i| sqrt(e_i): no look at K at all
drawn   with rows i drawn with p_i = |a_i| sqrt(e_i) / T, the mean of X = a_i (E a)_i / p_i, and
        |X| <= T sqrt(a'Ea) by Cauchy-Schwarz. So with probability 1 - delta, by Hoeffding,

            a'Ea <= ((T h + sqrt(T^2 h^2 + 4 mean(X))) / 2)^2,   h^2 = 2 ln(1/delta) / S

        and, with that bound B of |X| <= T sqrt(B), by the empirical Bernstein inequality

            a'Ea <= mean(X) + sqrt(2 V ln(2/delta) / S) + 7 * 2 T sqrt(B) ln(2/delta) / (3 (S-1))

        each with half of delta. S rows cost S m kernel values.
exact   by one pass over K: 1/2 (|w|^2 - 2 sum_i a_i f(x_i) + a'Ka).

Everything here is in double precision, and what rounding can have changed is added.

Source  Hoeffding, JASA 58, 1963; Maurer & Pontil, "Empirical Bernstein bounds and sample
        variance penalization", COLT 2009.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool.core import losses
from odmtool.solvers.engine.features import Basis
from odmtool.solvers.engine.points import Points

DELTA = 1e-6
"""The probability with which a bound by drawn rows may fail."""
_ROUNDING = float(np.finfo(float).eps) / 2
# Drawn rows at a time.
_ROWS = 256


class Evaluation(NamedTuple):
    """A model in the span of landmarks as a point of the full problem.

    Attributes
    ----------
    alpha : ndarray, shape (r,)
        Coefficients of the landmarks.
    t, eta : ndarrays, shape (m,)
        Margins, and the duals that they demand.
    a : ndarray, shape (m,)
        y eta.
    crossed : ndarray, shape (r,)
        C'a.
    norm : float
        |w|^2.
    primal, scale : float
        P and S.
    inside : float
        The gap's part in the span, rounding included.
    rounding : float
        What rounding of the margins can have changed.
    """

    alpha: np.ndarray
    t: np.ndarray
    eta: np.ndarray
    a: np.ndarray
    crossed: np.ndarray
    norm: float
    primal: float
    scale: float
    inside: float
    rounding: float


def evaluate(basis: Basis, loss, y: np.ndarray, w: np.ndarray) -> Evaluation:
    """The point of the full problem that w, the coefficients of the features, stands for.

    Parameters
    ----------
    basis : Basis
    loss : MarginLoss of arrays, shape (m,)
    y : ndarray of +1.0 and -1.0, shape (m,)
    w : ndarray, shape (r,)
    """
    points, alpha = basis.points, basis.inverse @ w
    t, eta = np.empty(points.size), np.empty(points.size)

    def one(part: slice) -> np.ndarray:
        values = points.values(points.X[part], basis.X)
        t[part] = y[part] * (values @ alpha)
        own = losses.MarginLoss(*(field[part] for field in loss))
        eta[part] = -losses.derivative(own, t[part])
        return (y[part] * eta[part]) @ values

    crossed = np.sum(points.map(one, points.blocks()), axis=0)
    a, corner = y * eta, points.values(basis.X, basis.X)
    q, error = corner @ alpha - crossed, _value_error(basis)
    product_error = error * (np.abs(alpha).sum() + np.abs(a).sum())
    inside = np.linalg.norm(basis.inverse.T @ q)
    inside += np.linalg.norm(basis.inverse) * np.sqrt(len(q)) * product_error
    values, along = losses.value(loss, t), basis.factor.T @ alpha
    norm = float(along @ along)
    off = error * np.abs(alpha).sum()
    return Evaluation(
        alpha, t, eta, a, crossed, norm, norm / 2 + float(values.sum()),
        norm / 2 + float(np.abs(values).sum()), float(inside) ** 2 / 2,
        float(off**2 / 2 * losses.slopes_largest(loss).sum()),
    )  # fmt: skip


def _value_error(basis: Basis) -> float:
    """A bound of the rounding error per unit of |alpha|_1 in a sum of kernel values."""
    points = basis.points
    most = points.diagonal.max(initial=0.0)
    return points.value_error + (np.log2(points.size + 2) + 64) * _ROUNDING * most


def free(point: Evaluation, left: np.ndarray) -> float:
    """A bound of P - D from what is left of the examples, ``left``, shape (m,)."""
    by_trace = left.sum() * (point.a @ point.a)
    by_sum = (np.sqrt(left) @ np.abs(point.a)) ** 2
    return point.inside + point.rounding + float(min(by_trace, by_sum)) / 2


def drawn(
    point: Evaluation, basis: Basis, left: np.ndarray, count: int, seed: int, delta: float = DELTA
) -> float:
    """A bound of P - D that holds with probability 1 - delta.

    Parameters
    ----------
    point : Evaluation
    basis : Basis
    left : ndarray, shape (m,)
        Upper bounds of e_i.
    count : int, > 1
        S, the rows to draw.
    seed : int
    delta : float
    """
    points, beta = basis.points, basis.inverse @ (basis.inverse.T @ point.crossed)

    def of_span(rows: np.ndarray) -> np.ndarray:
        return points.values(points.X[rows], basis.X) @ beta

    outside = draw(points, point.a, left, of_span, count, seed).bound(count, delta)
    size = np.abs(point.a).sum()
    outside += _value_error(basis) * (size + np.abs(beta).sum()) * size
    return point.inside + point.rounding + outside / 2


class Draw(NamedTuple):
    """What drawn rows tell of a'Ea: T, and mean and variance of X."""

    total: float
    mean: float
    variance: float

    def bound(self, count: int, delta: float = DELTA) -> float:
        """The smaller of the two bounds for ``count`` rows; see the head of this file."""
        log = np.log(4 / delta)
        width = self.total * np.sqrt(2 * np.log(2 / delta) / count)
        hoeffding = ((width + np.sqrt(width**2 + 4 * max(self.mean, 0.0))) / 2) ** 2
        reach = 2 * self.total * np.sqrt(hoeffding)
        spread = np.sqrt(2 * self.variance * log / count) + 7 * reach * log / (3 * (count - 1))
        return float(min(hoeffding, max(self.mean + spread, 0.0)))


def draw(points: Points, a, left, of_span, count: int, seed: int) -> Draw:
    """Draw rows of E.

    Parameters
    ----------
    points : Points
    a, left : ndarrays, shape (m,)
        left : upper bounds of e_i.
    of_span : callable
        From rows (an int array) to (C K_ZZ^-1 C'a) there.
    count : int, > 1
    seed : int
    """
    weight = np.abs(a) * np.sqrt(left)
    total = float(weight.sum())
    if not total > 0:
        return Draw(0.0, 0.0, 0.0)
    rows = np.random.default_rng(seed).choice(len(weight), count, p=weight / total)
    rows, times = np.unique(rows, return_counts=True)
    products, active = np.zeros(len(rows)), np.flatnonzero(a)

    def one(start: int) -> None:
        some = rows[start : start + _ROWS]
        own, product = points.X[some], -of_span(some)
        for k in range(0, len(active), 8 * _ROWS):
            others = active[k : k + 8 * _ROWS]
            product += points.values(own, points.X[others]) @ a[others]
        products[start : start + _ROWS] = product

    points.map(one, range(0, len(rows), _ROWS))
    samples = a[rows] * products / (weight[rows] / total)
    mean = float(samples @ times) / count
    return Draw(total, mean, float((samples - mean) ** 2 @ times) / (count - 1))


def exact(point: Evaluation, basis: Basis) -> float:
    """P - D, by one pass over the kernel values of the examples with a dual variable."""
    active = np.flatnonzero(point.a)
    a, f = point.a[active], point.eta @ point.t
    quadratic = a @ times(basis.points.rows(active), a)
    error, size = _value_error(basis), np.abs(a).sum()
    gap = (point.norm - 2 * f + quadratic) / 2
    gap += error * size * (size / 2 + np.abs(point.alpha).sum())
    return max(float(gap), 0.0) + point.rounding


def times(points: Points, a: np.ndarray) -> np.ndarray:
    """K a in double precision, one look at every pair of points."""
    from odmtool.rows.tiles import Tiles

    tiles = Tiles(
        points.kernel, points.X, [(0, points.size)], kept=0.0, memory=0.0, executor=points.executor
    )
    return tiles.times(a, is_last=True)
