"""Many problems on the same rows and kernel: folds, settings, classes share landmarks.

Problem  those of :class:`odmtool.solvers.engine.columns.Columns`, each the full kernel problem.
Method   As in :mod:`odmtool.solvers.engine.solve`, but all columns at once: Newton's method in
         the span of the landmarks so far, then certificates. Columns whose bound is above the
         tolerance go on with more landmarks, from where they are; of the others nothing more is
         asked.
Stop     per column, when a bound of the full problem's relative gap is at most the tolerance,
         or when there are as many landmarks as are asked for, or when the time is over; what they
         do not bring there is
         for others (:func:`odmtool.solvers.engine.solve.solve_columns`, or a dense matrix).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from odmtool.core import deadline
from odmtool.rows.compressed import compressed
from odmtool.solvers.base import relative
from odmtool.solvers.engine import certificate, columns
from odmtool.solvers.engine.columns import Columns
from odmtool.solvers.engine.features import Basis, Features, bounded, features
from odmtool.solvers.engine.landmarks import Landmarks
from odmtool.solvers.engine.points import Points

# Of more examples, landmarks are chosen among so many.
# speed only: landmarks from fewer examples are as well certified by all
_SAMPLE = 12_000
# The first number of landmarks, by what they grow, and their most of many examples.
# speed only: more landmarks follow until the gap is proven, or others solve the problem
_FIRST, _GROWTH, _MOST = 200, 1.6, 3000
# Their most as a share of the examples.
# speed only: the rest goes to a solver that certifies it
_FEW = 0.45
# The share of the problems for which there are no more landmarks.
# speed only: the rest goes to a solver that certifies it
_REST = 0.1
# Shares of the tolerance: the gap in the span, and the expected gap that is worth a proof.
# speed only: whether a proof is tried, and from where
_INSIDE, _HOPED = 1e-3, 0.8
# Rows drawn to expect it, and to prove it where a pass takes longer than these.
# speed only: a look only decides whether a proof is tried; the bound knows how many rows were drawn
_LOOK, _DRAWN, _LARGE = 400, 5000, 40_000
# Fewer kernel values than this are made before compiled code has been loaded.
# speed only: compiled and plain kernel values are both certified
_SMALL = 3_000_000
# Of the memory that may be taken: features, and matrices of landmarks by landmarks.
_MEMORY = 0.7
# Bytes of these: features as they grow are there twice; a factor, its inverse, and a copy.
_TWICE, _SQUARES = 2, 3 * 8


def most_landmarks(m: int, memory: float) -> int:
    """As many as there can be for m examples."""
    a_feature, room = _feature_bytes(m), _MEMORY * memory
    fitting = (math.sqrt(a_feature**2 + 4 * _SQUARES * room) - a_feature) / (2 * _SQUARES)
    return int(max(_FIRST, min(_FEW * m, _MOST, fitting)))


def needed_bytes(m: int, memory: float) -> float:
    """What so many take."""
    r = most_landmarks(m, memory)
    return r * _feature_bytes(m) + _SQUARES * r * r


def _feature_bytes(m: int) -> float:
    return _TWICE * (4.0 * m + 8 * min(m, _SAMPLE))


class Found(NamedTuple):
    """The solutions of some problems."""

    W: np.ndarray  # shape (r, q): coefficients of the features, to start from
    F: np.ndarray  # shape (m, q): values of the decision functions at all rows
    gap: np.ndarray  # shape (q,): bounds of the relative gaps
    converged: np.ndarray  # booleans, shape (q,)
    failure: float = 0.0  # the probability with which one of the bounds may be wrong


class Shared:
    """Landmarks and features that problems share.

    Parameters
    ----------
    kernel : Kernel
        Positive semidefinite.
    X : csr_matrix or ndarray, shape (m, d)
    memory : float
        Bytes.
    executor
        Shares this process's memory.
    most : int
        Landmarks at most.
    """

    def __init__(self, kernel, X, tolerance: float, seed: int, memory: float, executor, most=_MOST):
        m = X.shape[0]
        self._tolerance, self._seed, self._draws = tolerance, seed, certificate.Seeds(seed)
        X = compressed(X) if kernel.name == "rbf" and m * m > _SMALL else X
        self._points = Points(kernel, X, executor)
        size, random = min(m, _SAMPLE), np.random.default_rng(seed)
        rows = np.arange(m) if size == m else np.sort(random.choice(m, size, replace=False))
        most = min(most, most_landmarks(m, memory))
        sample = self._points if size == m else self._points.rows(rows)
        self._rows, self._landmarks = rows, Landmarks(sample, most, seed)
        self._landmarks.grow(_FIRST)
        self._basis = self._features = None

    def solve(self, problems: Columns, start: np.ndarray | None = None) -> Found:
        """Solve problems; ``start`` holds coefficients of fewer features, or as many."""
        m, q = self._points.size, problems.count
        found = Found(np.zeros((0, q)), np.empty((m, q), order="F"), np.empty(q), np.empty(q, bool))
        W, live, failure = np.zeros((0, q)) if start is None else start, np.arange(q), 0.0
        while True:
            Z, basis = self._prepare()
            W = columns.padded(W, Z.shape[1])
            some = problems.take(live)
            # speed only: what single precision does not reach goes to another solver
            inside = _INSIDE * self._tolerance
            W[:, live], *_ = columns.solve(Z, some, W[:, live], inside, self._points.executor)
            points = certificate.evaluate(basis, some, W[:, live])
            # speed only: the rest goes to a solver that certifies it
            is_last = self._landmarks.is_full or live.size <= _REST * q
            gap, wrong = self._bounds(points, is_last)
            failure += wrong
            found.gap[live] = gap
            found.F[:, live] = np.column_stack([point.f for point in points])
            found.converged[live] = gap <= self._tolerance
            live = live[gap > self._tolerance]
            if is_last or not live.size or deadline.is_over():
                return found._replace(W=W, failure=failure)
            self._landmarks.grow(int(_GROWTH * len(self._landmarks.members)))

    def _prepare(self) -> tuple[np.ndarray, Basis]:
        """Features of the landmarks so far, and the basis that they belong to."""
        landmarks = self._landmarks
        # speed only: features are kept while the landmarks are the same
        if self._basis is None or len(self._basis.members) < len(landmarks.members):
            members = self._rows[landmarks.members]
            basis = self._basis = Basis(self._points, members, landmarks.factor)
            if len(self._rows) < self._points.size:
                self._features = features(basis, certified=True)
            else:
                Z = landmarks.features.astype(np.float32, order="C")
                self._features = Features(Z, bounded(landmarks.left, basis))
        return self._features.Z, self._basis

    def _bounds(self, points, is_last: bool) -> tuple[np.ndarray, float]:
        """Bounds of the relative gaps, and the probability that one of them is wrong.

        Where it is plain that a proof would not succeed and there are landmarks to come, none is
        tried.
        """
        left, basis, failure = self._features.left, self._basis, 0.0
        scale = np.array([point.scale for point in points])
        gap = np.array([certificate.free(point, left) for point in points])
        enough = self._tolerance * scale
        open_ = np.flatnonzero(gap > enough)
        if open_.size and not is_last:
            some = [points[j] for j in open_]
            looks = certificate.outsides(some, basis, left, _LOOK, self._seed)
            open_ = open_[certificate.expected(some, looks) <= _HOPED * enough[open_]]
        if open_.size and self._points.size > _LARGE:
            seed, delta = self._draws.next()
            for j in open_:
                own = (*seed, int(j)), delta / len(points)
                [drawn] = certificate.drawn([points[j]], basis, left, _DRAWN, *own)
                gap[j] = min(gap[j], drawn)
            failure, open_ = certificate.DELTA, open_[gap[open_] > enough[open_]]
        if open_.size:
            exact = certificate.exact([points[j] for j in open_], basis)
            gap[open_] = np.minimum(gap[open_], exact)
        return np.array([relative(*pair) for pair in zip(gap, scale, strict=True)]), failure
