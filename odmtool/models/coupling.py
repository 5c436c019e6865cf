"""The coupling of pairs of classes: probabilities of k classes from those of every two.

Problem    with r_ij = P(class i | class i or j), the p that minimises
           sum_ij (r_ji p_i - r_ij p_j)^2 on the simplex, that is p'Qp with Q_ij = -r_ij r_ji and
           Q_ii = sum_j r_ji^2.
Update     cyclic descent in the coordinates, p scaled to sum 1 after each.
Stopping   max_i |(Qp)_i - p'Qp| < 0.005 / k before a pass, or max(100, k) passes. Rule and order
           of operations are LIBSVM's, so that the results are those of svm-predict.
Memory     Q has k^2 numbers for each row, so few rows are coupled at a time. They take from one
           to dozens of passes: the place of a row that is done is taken by the next one.
Source     T.-F. Wu, C.-J. Lin and R. C. Weng, "Probability estimates for multi-class
           classification by pairwise coupling", JMLR 5, 2004, Algorithm 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np

_TOLERANCE = 0.005
# speed only: numbers of the matrices that there are at a time, and of those made at a time
_MATRIX_VALUES, _MADE_VALUES = 2**21, 2**19
# speed only: with fewer classes, loops run over the rows and not over the classes
_FEW_CLASSES = 32
_EMPTY = -1


def couple(blocks: Iterable[np.ndarray], n_rows: int, k: int) -> np.ndarray:
    """Probabilities of k classes, shape (n_rows, k).

    ``blocks``: ndarrays, shape (rows, k (k - 1) / 2), r_ij for i < j of one row after the other.
    """
    p = np.empty((n_rows, k))
    rows = _Rows(blocks, n_rows, k)
    places = _Places(min(n_rows, max(1, _MATRIX_VALUES // (k * k))), p)
    with np.errstate(all="ignore"):  # of places that are empty
        while places.fill(rows):
            places.step()
            places.look()
    return p


class _Rows:
    """The rows that are still to be coupled."""

    def __init__(self, blocks: Iterable[np.ndarray], n_rows: int, k: int):
        self._blocks, self._block = iter(blocks), np.empty((0, 0))
        self.left, self._places = n_rows, _in_matrix(k)
        self._most = max(1, _MADE_VALUES // (k * k))

    def next(self, count: int) -> Iterator[np.ndarray]:
        """The matrices Q of so many rows, shape (some, k, k), by and by."""
        self.left -= count
        while count:
            if not len(self._block):
                self._block = next(self._blocks)
            size = min(count, self._most, len(self._block))
            first, self._block = self._block[:size], self._block[size:]
            count -= size
            if size:
                yield _matrices(first, *self._places)


def _matrices(first: np.ndarray, pair: np.ndarray, square: np.ndarray) -> np.ndarray:
    """Q of rows of r_ij (i < j), shape (rows, k, k); for the places see :func:`_in_matrix`."""
    second = 1 - first
    Q = (-(first * second)).take(pair, axis=1)
    squares = np.hstack([first * first, second * second, np.zeros((len(first), 1))])
    classes = np.arange(len(pair))
    Q[:, classes, classes] = squares.take(square, axis=1).cumsum(axis=2)[:, :, -1]
    return Q


@lru_cache(maxsize=1)
def _in_matrix(k: int) -> tuple[np.ndarray, np.ndarray]:
    """Where r_ij r_ji stands among the pairs, any of them for i = j; and r_ji^2 among those of
    i < j, of j < i, and a zero. Both have shape (k, k).
    """  # fmt: skip
    i, j = np.triu_indices(k, 1)
    n = len(i)
    pair, square = np.zeros((k, k), dtype=np.int64), np.full((k, k), 2 * n)
    pair[i, j] = pair[j, i] = square[j, i] = np.arange(n)
    square[i, j] = n + np.arange(n)
    return pair, square


def _many(shape: tuple[int, ...]) -> np.ndarray:
    """An array of rows, in memory beside each other with few classes, else after each other."""
    if shape[1] < _FEW_CLASSES:
        return np.moveaxis(np.empty((*shape[1:], shape[0])), -1, 0)
    return np.empty(shape)


class _Places:
    """Rows that are coupled at the same time.

    Parameters
    ----------
    size : int
    p : ndarray, shape (n_rows, k)
        Gets the probabilities of the rows that are done.
    """

    def __init__(self, size: int, p: np.ndarray):
        self._done, self._k = p, p.shape[1]
        self._row, self._passes = np.full(size, _EMPTY), np.zeros(size, dtype=np.int64)
        self._begun = 0
        self._Q = _many((size, self._k, self._k))
        self._Q[:] = 1.0
        # Qp and p side by side, because both are scaled; and p'Qp.
        self._both, self._pQp = _many((size, 2 * self._k)), np.zeros(size)
        self._both[:] = 1.0

    def fill(self, rows: _Rows) -> bool:
        """Begin with rows where a place is empty; whether any row is not done."""
        is_empty = self._row == _EMPTY
        if rows.left:
            self._admit(np.flatnonzero(is_empty)[: rows.left], rows)
            return True
        count = np.count_nonzero(is_empty)
        # speed only: when places are given up
        if len(is_empty) > count >= len(is_empty) / 2:
            self._keep(np.flatnonzero(~is_empty))
        return count < len(is_empty)

    def _admit(self, empty: np.ndarray, rows: _Rows) -> None:
        for Q in rows.next(len(empty)):
            some, empty = empty[: len(Q)], empty[len(Q) :]
            p = np.full((len(Q), self._k), 1 / self._k)
            Qp, pQp = _products(Q, p)
            self._Q[some], self._pQp[some], self._passes[some] = Q, pQp, 0
            self._both[some, : self._k], self._both[some, self._k :] = Qp, p
            self._row[some] = self._begun + np.arange(len(Q))
            self._begun += len(Q)
            self._leave(some, _is_done(Qp, pQp))

    def _leave(self, some: np.ndarray, is_done: np.ndarray) -> None:
        """Those of some places whose rows are done become empty."""
        some = some[is_done]
        some = some[self._row[some] != _EMPTY]
        self._done[self._row[some]] = self._both[some, self._k :]
        self._row[some] = _EMPTY

    def _keep(self, kept: np.ndarray) -> None:
        self._row, self._passes, self._pQp = self._row[kept], self._passes[kept], self._pQp[kept]
        Q, both = self._Q, self._both
        self._Q, self._both = _many((len(kept), *Q.shape[1:])), _many((len(kept), both.shape[1]))
        self._Q[:], self._both[:] = Q[kept], both[kept]

    def step(self) -> None:
        """Minimise p'Qp over one coordinate after the other."""
        k, Q, both, pQp = self._k, self._Q, self._both, self._pQp
        Qp, p, change = both[:, :k], both[:, k:], np.empty_like(both[:, :k])
        for t in range(k):
            curvature, slope = Q[:, t, t], Qp[:, t].copy()
            step = (pQp - slope) / curvature
            p[:, t] += step
            total = 1 + step
            pQp = (pQp + step * (step * curvature + 2 * slope)) / total / total
            Qp += np.multiply(Q[:, t], step[:, None], out=change)
            both /= total[:, None]
        self._passes += 1

    def look(self) -> None:
        """Find out which rows are done."""
        Qp, self._pQp = _products(self._Q, self._both[:, self._k :])
        self._both[:, : self._k] = Qp
        is_last = self._passes >= max(100, self._k)
        self._leave(np.arange(len(self._row)), _is_done(Qp, self._pQp) | is_last)


def _products(Q: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Qp, shape (rows, k), and p'Qp, shape (rows,): one term after the other, as in LIBSVM."""
    Qp, change = _many(p.shape), _many(p.shape)
    Qp[:] = 0.0
    for j in range(p.shape[1]):  # Q is symmetric
        Qp += np.multiply(Q[:, j], p[:, j, None], out=change)
    return Qp, (p * Qp).cumsum(axis=1)[:, -1]


def _is_done(Qp: np.ndarray, pQp: np.ndarray) -> np.ndarray:
    return ~(np.abs(Qp - pQp[:, None]).max(axis=1) >= _TOLERANCE / Qp.shape[1])
