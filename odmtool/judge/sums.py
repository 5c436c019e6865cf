"""Exact sums, of which all judges are made."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np


def dense(X) -> np.ndarray:
    """The rows of X, a csr_matrix or ndarray, as an array."""
    return X if isinstance(X, np.ndarray) else X.toarray()


def products(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A B, every entry an exact sum; B has the shape (d,) or (d, k).

    The entries of A may be fractions; then their products are exact, too.
    """
    columns, add = np.atleast_2d(B.T), math.fsum
    if A.dtype == object:
        columns, add = [list(map(Fraction, column)) for column in columns], sum
    sums = [[add(row * column) for column in columns] for row in A]
    return np.array(sums, dtype=float).reshape(len(A), *B.shape[1:])


def square_sum(A: np.ndarray) -> float:
    """The sum of the squares of all entries."""
    return math.fsum((A * A).flat)
