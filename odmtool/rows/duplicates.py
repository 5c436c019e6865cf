"""Examples that occur more than once, found in one pass.

Two examples with the same features and label have the same margin, so that together they
are one with the sum of their weights. Indicators and counts repeat often: every third row of
w8a is one of these.
"""

from __future__ import annotations

import numpy as np

# speed only: dense rows that are hashed at a time
_ROWS = 4096


def first_of_each(X, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The examples that differ, and which of them each example is.

    Parameters
    ----------
    X : canonical csr_matrix or ndarray, shape (m, d)
    y : ndarray, shape (m,)
        Two rows with different y are different.

    Returns
    -------
    first : int array, shape (n,)
        The first occurrence of each, ascending.
    member : int array, shape (m,)
        Row i is the same as row ``first[member[i]]``.
    """
    m = len(y)
    key = _hashes(X) ^ _mixed(y.astype(np.float64).view(np.uint64))
    _, first, member = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    first, member = first[order], rank[member.ravel()]
    if len(first) < m and _same(X, y, first[member]):
        return first, member
    return np.arange(m), np.arange(m)


def _hashes(X) -> np.ndarray:
    """A number for each row; rows that are equal have equal ones. uint64, shape (m,)."""
    # speed only: rows of the same number are compared
    multiplier = np.random.default_rng(0).integers(0, 2**64, X.shape[1], np.uint64) | np.uint64(1)
    if isinstance(X, np.ndarray):
        sums = np.empty(len(X), np.uint64)
        for start in range(0, len(X), _ROWS):
            part = slice(start, start + _ROWS)
            # Adding 0 turns -0 into 0.
            words = _mixed((np.ascontiguousarray(X[part], dtype=np.float64) + 0.0).view(np.uint64))
            sums[part] = (words * multiplier).sum(axis=1, dtype=np.uint64)
        return sums
    words = _mixed((X.data.astype(np.float64) + 0.0).view(np.uint64)) * multiplier[X.indices]
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(words, dtype=np.uint64)])
    return sums[X.indptr[1:]] - sums[X.indptr[:-1]]


def _mixed(words: np.ndarray) -> np.ndarray:
    """The high bits, in which short numbers differ, carried to the low ones."""
    return (words ^ (words >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)


def _same(X, y, other: np.ndarray) -> bool:
    """Whether row i equals row ``other[i]`` for all i: hashes may collide, examples may not."""
    moved = np.flatnonzero(other != np.arange(len(other)))
    if np.any(y[moved] != y[other[moved]]):
        return False
    difference = X[moved] != X[other[moved]]
    return not (difference.any() if isinstance(X, np.ndarray) else difference.nnz)
