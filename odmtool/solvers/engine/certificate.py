"""Bounds of the full problem's gap at a model in the span of landmarks.

A model w = sum_j alpha_j phi(z_j) is a feasible point of the full problem, and P(w) costs
O(m r). Let eta_i = -u_i l'(t_i) be the duals that its margins demand and a = y eta. For a loss
without jumps

    P(w) - D(eta) = 1/2 |w - w(eta)|^2 = 1/2 q' K_ZZ^-1 q + 1/2 a'E a,    q = K_ZZ alpha - C'a

the part inside the span and the part outside, with E = K - C K_ZZ^-1 C' (C = k(X, Z)) positive
semidefinite and e_i = E_ii known (:mod:`odmtool.solvers.engine.features`). The part outside is

free    at most T^2, T = sum_i |a_i| sqrt(e_i): no look at K at all
drawn   with rows i drawn with p_i = |a_i| sqrt(e_i) / T, the mean of X = a_i (E a)_i / p_i, and
        |X| <= T sqrt(a'Ea) by Cauchy-Schwarz. That limit is far above what X is, so that the
        first tenth of the rows only says where to clip X: at c. Of the other S

            a'Ea <= mean + sqrt(2 V ln(2/delta) / S) + 14 c ln(2/delta) / (3 (S-1))
                    + q T sqrt(a'Ea)

        mean and variance V being those of the clipped X (the empirical Bernstein inequality),
        and q at least the probability that |X| > c (Chernoff's inequality; about ln(1/delta) / S
        where none was), each with half of delta: a quadratic inequality for sqrt(a'Ea). S rows
        cost S m kernel values.
exact   by one pass over K: a'Ka - C'a' K_ZZ^-1 C'a; or all of it at once, 1/2 (|w|^2 -
        2 sum_i a_i f(x_i) + a'Ka), where the coefficients alpha are not so large that rounding
        errors of |w|^2 count.

Everything here is in double precision, and what rounding can have changed is added.

Source  Maurer & Pontil, "Empirical Bernstein bounds and sample variance penalization", COLT
        2009; Chernoff, Annals of Mathematical Statistics 23, 1952.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool.core import deadline, losses
from odmtool.solvers.engine.columns import Columns
from odmtool.solvers.engine.features import Basis
from odmtool.solvers.engine.points import Points

DELTA = 1e-6
"""The probability with which a bound by drawn rows may fail."""
# speed only: a bound that is a little larger holds, too
_BISECTIONS = 40
# speed only: drawn rows at a time
_ROWS = 256
# The share of the rows that say where to clip, and how far beyond their largest |X|.
# speed only: the bound holds for any
_PILOTS, _BEYOND = 0.1, 1.5


class SpanPoint(NamedTuple):
    """A model in the span of landmarks as a point of the full problem."""

    alpha: np.ndarray  # shape (r,): coefficients of the landmarks
    # f, eta: shape (m,), values of the decision function, and the duals that the margins demand.
    f: np.ndarray
    eta: np.ndarray
    a: np.ndarray  # shape (m,): y eta
    crossed: np.ndarray  # shape (r,): C'a
    norm: float  # |w|^2
    # primal, scale: P and S.
    primal: float
    scale: float
    inside: float  # the gap's part in the span, rounding included
    rounding: float  # what rounding of the margins can have changed


def evaluate(
    basis: Basis, columns: Columns, W: np.ndarray, *, may_end: bool = False
) -> list[SpanPoint]:  # fmt: skip
    """The points of the full problems that the columns of W, for the features, stand for.

    Parameters
    ----------
    W : ndarray, shape (r, q)
    may_end : bool
        Raise Exceeded when the pass takes too long after the deadline.
    """

    def demand(part: slice, f: np.ndarray):
        if may_end:
            deadline.check()
        block = columns.block(part)
        own = block.values(f)
        return block.demanded(f), own.sum(axis=0), np.abs(own).sum(axis=0)

    points = located(basis, W, demand)
    curvature = losses.slopes_largest(columns.loss) * columns.total_weights()
    errors = margin_errors(basis, points) ** 2 / 2 * curvature
    signs = columns.signs[columns.row]
    return [
        point._replace(eta=sign * point.a, rounding=float(error))
        for point, sign, error in zip(points, signs, errors, strict=True)
    ]


def located(basis: Basis, W: np.ndarray, demand) -> list[SpanPoint]:
    """The same for any loss, with ``eta`` a and ``rounding`` 0.

    Parameters
    ----------
    W : ndarray, shape (r, q)
    demand : callable
        From a slice of the examples and their f, shape (n, q), to a, shape (n, q), and to the
        sums of the losses and of their absolute values, each of shape (q,).
    """
    points, alpha, count = basis.points, basis.inverse @ W, W.shape[1]
    # speed only: when compiled code is loaded
    points.expect(points.size * len(alpha))
    F, A = (np.empty((points.size, count), order="F") for _ in range(2))

    def one(part: slice):
        values = points.values(points.X[part], basis.X)
        F[part] = f = values @ alpha
        A[part], values_sum, sizes_sum = demand(part, f)
        return A[part].T @ values, values_sum, sizes_sum

    crossed, values, sizes = (
        np.sum(parts, axis=0)
        for parts in zip(*points.map(one, points.blocks()), strict=True)
    )
    along, error = basis.factor.T @ alpha, basis.points.product_error
    norms = np.einsum("ij,ij->j", along, along)
    size = np.abs(alpha).sum(axis=0)
    q = points.values(basis.X, basis.X) @ alpha - crossed.T
    inside = np.linalg.norm(basis.inverse.T @ q, axis=0)
    products = error * (size + np.abs(A).sum(axis=0))
    inside += np.linalg.norm(basis.inverse) * np.sqrt(len(q)) * products
    return [
        SpanPoint(
            alpha[:, j], F[:, j], A[:, j], A[:, j], crossed[j], float(norms[j]),
            float(norms[j] / 2 + values[j]), float(norms[j] / 2 + sizes[j]),
            float(inside[j]) ** 2 / 2, 0.0,
        )
        for j in range(count)
    ]  # fmt: skip


def margin_errors(basis: Basis, points: list[SpanPoint]) -> np.ndarray:
    """How far f of each point may be off at any example, shape (q,)."""
    return basis.points.product_error * np.array([np.abs(point.alpha).sum() for point in points])


def free(point: SpanPoint, left: np.ndarray) -> float:
    """A bound of P - D from what is left of the examples, ``left``, shape (m,)."""
    outside = float(np.sqrt(left) @ np.abs(point.a)) ** 2
    return point.inside + point.rounding + outside / 2


def drawn(
    points: list[SpanPoint], basis: Basis, left, count: int, seed, delta: float = DELTA
) -> list[float]:
    """Bounds of P - D by the same rows; each holds with probability 1 - delta.

    Parameters
    ----------
    left : ndarray, shape (m,)
        Upper bounds of e_i.
    count : int, > 2
        The rows to draw.
    seed : int or tuple of int
    """
    return bounds(points, basis, outsides(points, basis, left, count, seed), count, delta)


def bounds(
    points: list[SpanPoint], basis: Basis, drawn: list[Draw], count: int, delta: float = DELTA
) -> list[float]:
    """The same from what so many drawn rows tell, each with probability 1 - delta."""
    found = []
    for point, outside in zip(points, drawn, strict=True):
        size, beta = np.abs(point.a).sum(), basis.projection(point.crossed)
        error = basis.points.product_error * (size + np.abs(beta).sum()) * size
        found.append(point.inside + point.rounding + (outside.bound(count, delta) + error) / 2)
    return found


# speed only: a guess, with which nothing is proved
def expected(points: list[SpanPoint], drawn: list[Draw], count: int = 0) -> np.ndarray:
    """What P - D is by drawn rows, about; at least by ``count`` rows, that is less 3 deviations."""
    found = []
    for point, draw in zip(points, drawn, strict=True):
        less = 3 * np.sqrt(draw.variance / count) if count else 0.0
        found.append(point.inside + (draw.mean - less) / 2)
    return np.array(found)


def outsides(points: list[SpanPoint], basis: Basis, left, count: int, seed: int) -> list[Draw]:
    """What the same drawn rows tell of the parts outside the span of several points."""
    beta = basis.projection(np.column_stack([point.crossed for point in points]))

    def of_span(rows: np.ndarray) -> np.ndarray:
        return basis.points.values(basis.points.X[rows], basis.X) @ beta

    A = np.column_stack([point.a for point in points])
    return draw(basis.points, A, left, of_span, count, seed)


class Seeds:
    """Seeds of one draw after another, and with which probability each may fail: in all DELTA."""

    def __init__(self, seed: int):
        self._seed, self._count = seed, 0

    def next(self) -> tuple[tuple[int, int], float]:
        self._count += 1
        return (self._seed, self._count), DELTA / 2**self._count


class Draw(NamedTuple):
    """What drawn rows tell of a'Ea.

    Where rows are drawn for several a together, T is the largest |a_i| sqrt(e_i) / p_i.
    """

    total: float  # T
    limit: float  # c
    # mean, variance: of the clipped X.
    mean: float
    variance: float
    beyond: float  # the share of the X that were clipped

    @classmethod
    def of(cls, total: float, samples: np.ndarray) -> Draw:
        """What the X of drawn rows tell, shape (rows,); the first of them say where to clip."""
        pilots, samples = np.split(samples, [_pilots(len(samples))])
        limit = _BEYOND * np.abs(pilots).max()
        clipped, beyond = np.clip(samples, -limit, limit), np.abs(samples) > limit
        found = total, limit, clipped.mean(), clipped.var(ddof=1), beyond.mean()
        return cls(*map(float, found))

    def bound(self, count: int, delta: float) -> float:
        """The bound by ``count`` rows, pilots included; see the head of this file."""
        certain, chance = self._clipped_mean(count, delta)
        reach = chance * self.total
        return float((reach + np.sqrt(reach**2 + 4 * max(certain, 0.0))) / 2) ** 2

    def largest_mean(self, count: int, delta: float) -> float:
        """A bound of the mean of X where no X is above T; otherwise as :meth:`bound`."""
        certain, chance = self._clipped_mean(count, delta)
        return certain + chance * self.total

    def _clipped_mean(self, count: int, delta: float) -> tuple[float, float]:
        """Bounds of the clipped X's mean and of the probability that X is beyond."""
        rows = count - _pilots(count)
        log, chance = np.log(4 / delta), most_likely(self.beyond, rows, delta / 2)
        spread = np.sqrt(2 * self.variance * log / rows)
        return float(self.mean + spread + 14 * self.limit * log / (3 * (rows - 1))), chance


def most_likely(share: float, count: int, delta: float) -> float:
    """The largest probability of what happened in this share of ``count`` independent cases.

    It is larger than that with probability delta at most: the q with S KL(share, q) = ln(1/delta).
    """
    low, high, enough = share, 1.0, np.log(1 / delta) / count
    for _ in range(_BISECTIONS):
        q = (low + high) / 2
        divergence = -(1 - share) * np.log1p((share - q) / (1 - share)) if share < 1 else 0.0
        divergence -= share * np.log(q / share) if share > 0 else 0.0
        low, high = (q, high) if divergence < enough else (low, q)
    return high


def _pilots(count: int) -> int:
    return max(1, int(_PILOTS * count))


def draw(points: Points, A: np.ndarray, left, of_span, count: int, seed: int, X=None) -> list[Draw]:
    """Draw rows of E, for each column a of A.

    Parameters
    ----------
    A : ndarray, shape (m, q)
    left : ndarray, shape (m,)
        Upper bounds of e_i.
    of_span : callable
        From rows (an int array) to (C K_ZZ^-1 C'A) there.
    count : int, > 2
    X : csr_matrix or ndarray, optional
        The rows in another precision.
    """
    sizes = np.abs(A) * np.sqrt(left)[:, None]
    totals = sizes.sum(axis=0)
    shares = np.divide(sizes, totals, out=np.zeros_like(sizes), where=totals > 0)
    chance = shares.sum(axis=1)
    if not chance.any():
        return [Draw(0.0, 0.0, 0.0, 0.0, 0.0)] * A.shape[1]
    chance /= chance.sum()
    rows = np.random.default_rng(seed).choice(len(chance), count, p=chance)
    rows, order = np.unique(rows, return_inverse=True)
    products = rows_times(points, rows, A, X, lambda some: -of_span(some))
    samples = (A[rows] * products / chance[rows, None])[order.ravel()]
    drawable = chance > 0
    reach = (sizes[drawable] / chance[drawable, None]).max(axis=0)
    return [Draw.of(float(most), own) for most, own in zip(reach, samples.T, strict=True)]


def rows_times(points: Points, rows: np.ndarray, A: np.ndarray, X=None, start=None) -> np.ndarray:
    """K A at some rows, shape (n, q), in double precision or that of ``X``.

    Parameters
    ----------
    rows : int array, shape (n,)
    A : ndarray, shape (m, q)
    X : csr_matrix or ndarray, optional
        The points' rows in another precision.
    start : callable, optional
        From some of the rows to what the products are added to, shape (., q).
    """
    X, products = points.X if X is None else X, np.zeros((len(rows), A.shape[1]))
    active = np.flatnonzero(A.any(axis=1))

    def one(first: int) -> None:
        some = rows[first : first + _ROWS]
        own, product = X[some], np.zeros((len(some), A.shape[1])) if start is None else start(some)
        for k in range(0, len(active), 8 * _ROWS):
            others = active[k : k + 8 * _ROWS]
            product += points.values(own, X[others]) @ A[others]
        products[first : first + _ROWS] = product

    # speed only: when compiled code is loaded
    points.expect(len(rows) * len(active))
    points.map(one, range(0, len(rows), _ROWS))
    return products


def exact(points: list[SpanPoint], basis: Basis) -> list[float]:
    """P - D of every point, by one pass over the kernel values of the examples with duals.

    Infinity where the time is over long before the pass is.
    """
    A, error, gaps = np.column_stack([p.a for p in points]), basis.points.product_error, []
    try:
        squares = _squares(basis.points, A)
    except deadline.Exceeded:
        return [np.inf] * len(points)
    for point, square in zip(points, squares, strict=True):
        size, of_model = np.abs(point.a).sum(), np.abs(point.alpha).sum()
        whole = (point.norm - 2 * (point.a @ point.f) + square) / 2
        whole += error * (size + of_model) ** 2 / 2
        beta = basis.projection(point.crossed)
        outside = square - point.crossed @ beta + error * (size + np.abs(beta).sum()) * size
        gap = min(max(float(whole), 0.0), point.inside + max(float(outside), 0.0) / 2)
        gaps.append(gap + point.rounding)
    return gaps


def _squares(points: Points, A: np.ndarray) -> np.ndarray:
    """a'Ka of every column, shape (q,), in double precision; every pair is looked at once."""
    active = np.flatnonzero(A.any(axis=1))
    if not active.size:
        return np.zeros(A.shape[1])
    points, A = points.rows(active), A[active]

    def one(top: slice) -> np.ndarray:
        own, total = points.X[top], np.zeros(A.shape[1])
        for start in range(top.start, points.size, 8 * _ROWS):
            deadline.check()
            others = slice(start, min(start + 8 * _ROWS, points.size))
            weights = A[others].copy()
            # Within the rows themselves every pair comes twice.
            weights[max(0, top.stop - start) :] *= 2.0
            product = points.values(own, points.X[others]) @ weights
            total += np.einsum("ij,ij->j", A[top], product)
        return total

    # speed only: when compiled code is loaded
    points.expect(points.size**2 / 2)
    return np.sum(points.map(one, points.blocks()), axis=0)
