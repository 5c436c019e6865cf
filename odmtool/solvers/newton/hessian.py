"""The Hessian I + X'SX of linear problems: from sparse products, or by BLAS from dense rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from odmtool.core.csr import CSR
from odmtool.rows.executor import Serial
from odmtool.solvers import linear_cost

# speed only: so many cells of dense rows stay in the processor's cache while they are used
_BLOCK_CELLS = 2**17
# Of long rows so many, because to add a product to a large H takes as long as to make that of some.
# speed only: rows at a time
_BLOCK_ROWS = 1024
# A large H is made in square parts, side by side where there are threads, with at most this side.
_SIDE = 1024
# What rounding leaves of rows that were taken away again, at most, relative to the diagonal.
# speed only: the gap decides when it ends, not how precise a step was
_MOST_LEFT = 1e-8


def regularised_gram(X, active, slopes, is_over: Callable[[], bool] = bool) -> np.ndarray | None:
    """I + sum over the active examples of s_i x_i x_i', shape (d, d).

    None as soon as ``is_over`` says so, but within a sparse product.
    """
    H = _product(X, active, slopes, is_thin(X), is_over)
    if H is None:
        return None
    H.flat[:: len(H) + 1] += 1.0
    return H


def is_thin(X) -> bool:
    """Whether X'SX is a sparse product, or BLAS is faster."""
    sparse, dense = linear_cost.hessian_costs(X)
    return sparse < dense


def gram_of(X, s: np.ndarray, is_sparse: bool) -> np.ndarray:
    """X'SX with S = diag(s), s >= 0; shape (d, d)."""
    return _product(X, np.flatnonzero(s), s, is_sparse)


class ChangingHessian:
    """I + X'SX for one S after the other.

    Close to the solution few s_i change, and only their rows are added and taken away.

    Parameters
    ----------
    X : CSR, csr_matrix or ndarray, shape (m, d)
    executor : Serial, optional
        Where parts of it are made.
    """

    def __init__(self, X, executor: Serial | None = None):
        m, d = X.shape
        self._X, self._is_sparse, self._executor = X, is_thin(X), executor
        self._s, self._H, self._largest = np.zeros(m), np.eye(d), np.ones(d)

    def at(self, s: np.ndarray) -> np.ndarray:
        """That of s >= 0, shape (m,); a copy, which may be overwritten."""
        change = s - self._s
        # The same S comes again where the matrix could not be factored.
        if not 0 < np.count_nonzero(change) <= np.count_nonzero(s):
            return self._anew(s)
        self._s = s
        if np.any(change > 0):
            self._H += self._of(np.maximum(change, 0.0))
        if np.any(change < 0):
            self._H -= self._of(np.maximum(-change, 0.0))
        diagonal = self._H.diagonal()
        # speed only: the gap decides when it ends, not how precise a step was
        self._largest = np.maximum(self._largest, diagonal)
        # speed only: the gap decides when it ends, not how precise a step was
        left = np.finfo(float).eps * self._largest
        return self._anew(s) if np.any(left > _MOST_LEFT * diagonal) else self._H.copy()

    def _anew(self, s: np.ndarray) -> np.ndarray:
        self._s, self._H = s, self._of(s)
        self._H.flat[:: len(self._H) + 1] += 1.0
        self._largest = self._H.diagonal().copy()
        return self._H.copy()

    def _of(self, s: np.ndarray) -> np.ndarray:
        rows = np.flatnonzero(s)
        return _product(self._X, rows, s, self._is_sparse, executor=self._executor)


def _product(
    X, rows: np.ndarray, s: np.ndarray, is_sparse: bool, is_over: Callable[[], bool] = bool,
    executor: Serial | None = None,
) -> np.ndarray | None:  # fmt: skip
    """The sum over some rows of s_i x_i x_i'; None as soon as ``is_over`` says so."""
    if is_over():
        return None
    root = np.sqrt(s[rows])
    if is_sparse:
        return CSR.of(X)[rows].scaled(root).gram()
    d = X.shape[1]
    total = _Sum(d, executor or Serial())
    # speed only: rows at a time
    step = max(1, _BLOCK_CELLS // max(1, d), min(_BLOCK_ROWS, d))
    X = X if isinstance(X, np.ndarray) else CSR.of(X)
    for start in range(0, len(rows), step):
        if is_over():
            return None
        part = slice(start, start + step)
        block = X[rows[part]] if isinstance(X, np.ndarray) else X[rows[part]].toarray()
        block *= root[part, None]
        total.add(block)
    return total.whole()


class _Sum:
    """The sum of B'B over blocks of rows B, shape (n, d), in squares on and below the diagonal.

    They are always the same ones, so that nothing depends on the number of threads.
    """

    def __init__(self, d: int, executor: Serial):
        count = -(-d // _SIDE)
        cuts = [d * n // count for n in range(count + 1)] if count else [0]
        sides = [slice(*ends) for ends in zip(cuts, cuts[1:], strict=False)]
        self._squares = [(a, b) for n, a in enumerate(sides) for b in sides[: n + 1]]
        self._H, self._room, self._executor = np.zeros((d, d)), None, executor

    def add(self, B: np.ndarray) -> None:
        """Add B'B."""
        if self._room is None:
            self._room = np.empty_like(self._H)

        def add_square(a: slice, b: slice) -> None:
            self._H[a, b] += np.matmul(B[:, a].T, B[:, b], out=self._room[a, b])

        self._executor.map(add_square, *zip(*self._squares, strict=True))

    def whole(self) -> np.ndarray:
        """The matrix, its upper triangle too."""
        for a, b in self._squares:
            if a != b:
                self._H[b, a] = self._H[a, b].T
        return self._H
