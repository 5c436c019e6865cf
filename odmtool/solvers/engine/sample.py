"""What so many landmarks would give, found out on a sample of the examples.

The relative gap of a model in the span of landmarks and its bounds hardly depend on the number
of examples: the sums that they are made of grow with it as P does. So the problem is solved on
some thousand examples while landmarks are added, with warm starts, and what its bounds are there
is what they will be, about, for all examples. Only then anything is done with all examples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool.solvers.base import relative
from odmtool.solvers.engine import certificate
from odmtool.solvers.engine.certificate import Draw
from odmtool.solvers.engine.columns import Columns, solve_in_span
from odmtool.solvers.engine.cost import MOST
from odmtool.solvers.engine.features import Basis
from odmtool.solvers.engine.landmarks import Landmarks
from odmtool.solvers.engine.points import BLOCK, Points

# Examples on which landmarks are chosen, at least, and their share of all.
# speed only: a forecast, with which nothing is proved
_SAMPLE, _SHARE = 8000, 1 / 64
# The gap on the sample, as a share of the tolerance.
# speed only: a forecast, with which nothing is proved
_ON_SAMPLE = 1e-2
# Rows drawn to estimate what landmarks leave.
# speed only: a forecast, with which nothing is proved
_DRAWN = 400
# Examples that tell the gap of the demanded duals.
# speed only: a forecast, with which nothing is proved
_LOOKED_AT = 100
# speed only: the gap decides which precision is enough
HIDDEN = 0.3
"""Single precision hides the solution where it leaves this share of the tolerance in the span."""
# A sample's own landmarks leave less of it than of other examples.
# speed only: a forecast, with which nothing is proved
_SAFETY = 1.2


def sample_size(m: int) -> int:
    """Of how many of m examples: all of them if they are hardly more than the sample."""
    return max(_SAMPLE, int(_SHARE * m)) if m > 1.25 * _SAMPLE else m


def drawn_rows(m: int, seed: int) -> np.ndarray:
    """The sample of m examples, ascending."""
    if (size := sample_size(m)) == m:
        return np.arange(m)
    return np.sort(np.random.default_rng(seed).choice(m, size, replace=False))


class Forecast(NamedTuple):
    """What r landmarks are expected to give, relative to S."""

    landmarks: int
    free: float  # the bound without a look at K
    inside: float  # the gap in the span
    # Of every function (one of two classes, k of several): what the drawn rows tell, in units of S;
    # nothing where the free bound is enough.
    outsides: list[Draw]
    active: float  # the share of examples with a dual variable
    demanded: float = np.inf  # the gap of the duals that the model demands, if it is known

    @property
    def exact(self) -> float:
        """The gap itself; the free bound where nothing else was looked at."""
        if not self.outsides:
            return self.free
        return self.inside + sum(max(draw.mean, 0.0) for draw in self.outsides) / 2

    def drawn(self, count: int) -> float:
        """The bound by so many drawn rows."""
        delta = certificate.DELTA / len(self.outsides)
        return self.inside + sum(draw.bound(count, delta) for draw in self.outsides) / 2


# speed only: a forecast, with which nothing is proved
def forecast(
    points: Points, landmarks: Landmarks, A: np.ndarray, inside: float, scale: float,
    m: int, seed: int, enough: float = -np.inf, own_weight: np.ndarray | None = None,
) -> Forecast:  # fmt: skip
    """What landmarks will give for all examples, from the solution on the sample.

    Parameters
    ----------
    points : Points
        The sample, of n examples.
    landmarks : Landmarks
        Chosen among them.
    A : ndarray, shape (n, q)
        The duals with their signs: the columns are coefficients of w(eta).
    inside : float
        The relative gap in the span.
    scale : float
        S.
    m : int
        All examples; n if the sample is all there is.
    enough : float
        A free bound that ends the search, so that no rows need be drawn.
    own_weight : bool array, shape (n,), optional
        Examples that stand for themselves only.
    """
    (n, _q), r, Z = A.shape, len(landmarks.members), landmarks.features
    own = _unseen(m == n, n, r)
    left, image = own * landmarks.left, Z.T @ A
    free = ((np.sqrt(left) @ np.abs(A)) ** 2).sum() / 2
    known = Forecast(
        r, inside + relative(float(free), scale), inside, [], float(A.any(axis=1).mean())
    )
    # Of features that are there already nothing else is as cheap.
    if m == n and known.free <= enough:
        return known
    # Single precision changes S by a millionth, but not for the lambdas of many examples.
    X = points.single if m <= MOST else None
    found = certificate.draw(points, A, left, lambda some: Z[some] @ image, _DRAWN, seed, X)
    # The square of a tiny S is 0.
    size = max(float(scale), float(np.finfo(float).tiny))
    outsides = []
    shared = landmarks.left if own_weight is None else np.where(own_weight, 0.0, landmarks.left)
    for d, alone in zip(found, shared @ A**2, strict=True):
        # What an example adds by itself, a_i^2 e_i, falls as it stands for fewer others.
        mean = max(d.mean - alone, 0.0) + alone * n / m if m > n else d.mean
        share = min(1.0, mean / d.mean) if d.mean > 0 else 1.0
        # With more rows, more of them say where to clip.
        outsides.append(d._replace(
            total=d.total / np.sqrt(size), limit=own * np.sqrt(share) * d.limit / size,
            mean=own * mean / size, variance=own**2 * share * (d.variance / size) / size,
            beyond=0.0,
        ))  # fmt: skip
    return known._replace(outsides=outsides)


# speed only: a forecast, with which nothing is proved
def _unseen(is_whole: bool, n: int, r: int) -> float:
    """How many times more is left of other examples than of the n of the sample."""
    return 1.0 if is_whole else _SAFETY * n / (n - r + 1)


class DrawnExamples:
    """Problems on some of their examples, in the span of more and more landmarks.

    Parameters
    ----------
    columns : Columns
        All examples.
    points : Points
        All examples.
    rows : int array
        The sample at first; it is changed.
    most : int
        Landmarks at most.
    tolerance : float
        What is wanted of the whole problems.
    most_in_double : int
        Landmarks at most where features are in double precision.

    Attributes
    ----------
    dtype : type
        Of the features for Newton's method.
    """

    def __init__(
        self, columns: Columns, points: Points, rows: np.ndarray, most: int, seed: int, tolerance,
        most_in_double: int = 0,
    ):  # fmt: skip
        self.is_whole, self._size = len(rows) == points.size, points.size
        self._rows, self._seed, self._tolerance = rows, seed, _ON_SAMPLE * tolerance
        self._hidden, self._most_in_double = HIDDEN * tolerance, most_in_double
        self.dtype = np.float32
        self.points = points if self.is_whole else points.rows(rows)
        self._columns, self._own_weight = columns.rows(rows), np.zeros(len(rows), dtype=bool)
        self.landmarks = Landmarks(self.points, most, seed, points.value_error)
        self.W, self._Z = np.zeros((0, columns.count)), None

    @property
    def members(self) -> np.ndarray:
        """The landmarks, among all examples."""
        return self._rows[self.landmarks.members]

    @property
    def Z(self) -> np.ndarray:
        """The features for Newton's method, shape (n, r)."""
        r = len(self.landmarks.members)
        if self._Z is None or self._Z.shape[1] < r:
            self._Z = None  # before there is another one
            self._Z = self.landmarks.features.astype(self.dtype, order="C")
        return self._Z

    def sharpens(self, inside: float) -> bool:
        """Whether features are in double precision from now on, and were not before.

        That is so where Newton's method leaves too large a relative gap, ``inside``, in the span,
        if there is room.
        """
        has_room = len(self.landmarks.members) <= self._most_in_double
        if self.is_hidden or not has_room or inside <= self._hidden:
            return False
        self.dtype, self._Z = np.float64, None
        self.landmarks.limit(self._most_in_double)
        return True

    @property
    def is_hidden(self) -> bool:
        """Single precision hides the solution."""
        return self.dtype == np.float64

    def rest(self) -> None:
        """Let go of what is made again when there are more landmarks."""
        self._Z = None

    # speed only: a forecast, with which nothing is proved
    def bring(self, rows: np.ndarray, left: np.ndarray, basis: Basis, columns: Columns) -> int:
        """Let these of all examples take the places of those that the landmarks leave least of.

        Returns how many these are; the sample may have all of them.

        Parameters
        ----------
        rows : int array, shape (k,)
        left : ndarray, shape (k,)
            What the landmarks leave of them.
        basis : Basis
            The landmarks so far.
        columns : Columns
            All examples.
        """
        landmarks, points = self.landmarks, basis.points
        new = np.flatnonzero(~np.isin(rows, self._rows))[: len(self._rows) - len(landmarks.members)]
        if not new.size:
            return 0
        self._own_weight |= np.isin(self._rows, rows)
        rows, left, rest = rows[new], left[new], landmarks.left.copy()
        rest[landmarks.members] = np.inf
        places = np.argsort(rest, kind="stable")[: len(rows)]
        self._rows[places], self._own_weight[places] = rows, True
        self.points = points.rows(self._rows)
        Z = basis.in_span(points.values(points.X[rows], basis.X))
        landmarks.replace(places, self.points, Z, left)
        self._columns, self._Z = columns.rows(self._rows, self._own_weight), None
        return len(rows)

    def take(self, which: np.ndarray) -> None:
        """Go on with some of the problems."""
        self._columns, self.W = self._columns.take(which), self.W[:, which]

    def forecast(self, enough: float) -> Forecast:
        """What the landmarks so far will give for all examples, for the worst of the problems.

        Nothing but the free bound is looked at where that is ``enough``.
        """
        Z, columns, executor = self.Z, self._columns, self.points.executor
        self.W, *_ = solve_in_span(Z, columns, self.W, self._tolerance, executor)
        block, f = columns.block(slice(None)), Z @ self.W.astype(Z.dtype)
        A = block.demanded(f)
        scale = np.einsum("ij,ij->j", self.W, self.W) / 2 + np.abs(block.values(f)).sum(axis=0)
        # The square of a tiny S is 0.
        scale = np.maximum(scale, np.finfo(float).tiny)
        gradient = self.W - Z.T @ A.astype(Z.dtype)
        inside = np.einsum("ij,ij->j", gradient, gradient) / 2 / scale
        if self.sharpens(inside.max()):
            return self.forecast(enough)
        with np.errstate(over="ignore"):
            worst = int((np.einsum("ij,ij->j", A, A) / scale).argmax())
        found = forecast(
            self.points, self.landmarks, A[:, [worst]], float(inside.max()), scale[worst],
            self._size, self._seed, enough, self._own_weight,
        )  # fmt: skip
        if not found.outsides:
            return found
        demanded = self._demanded(Z, A[:, worst], block.slopes(f)[:, worst]) / scale[worst]
        return found._replace(active=float(A.any(axis=1).mean()), demanded=float(demanded))

    # speed only: a forecast, with which nothing is proved
    def _demanded(self, Z: np.ndarray, a: np.ndarray, slopes: np.ndarray) -> float:
        """P - D at the duals a, about: 1/2 sum_i s_i (E a)_i^2, from some examples."""
        points, active = self.points, np.flatnonzero(a)
        if not active.size:
            return 0.0
        rows = np.random.default_rng(self._seed).choice(active, _LOOKED_AT)
        own, X, image = points.single[rows], points.single[active], Z.T @ a

        def one(start: int) -> np.ndarray:
            part = slice(start, start + BLOCK)
            return points.values(own, X[part]) @ a[active[part]]

        # speed only: when compiled code is loaded
        points.expect(_LOOKED_AT * active.size)
        apart = np.sum(points.map(one, range(0, active.size, BLOCK)), axis=0) - Z[rows] @ image
        size = _unseen(self.is_whole, *Z.shape)
        return active.size * float(np.mean(slopes[rows] * (size * apart) ** 2)) / 2
