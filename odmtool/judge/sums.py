"""Exact sums, of which all judges are made."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np


def dense(X) -> np.ndarray:
    """The rows of X, a csr_matrix or ndarray, as an array."""
    return X if isinstance(X, np.ndarray) else X.toarray()


def sums(terms: np.ndarray) -> list[float]:
    """The sum of every row, exact."""
    return list(map(math.fsum, terms.tolist()))


def products(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A B, every entry an exact sum; B has the shape (d,) or (d, k).

    The entries of A may be fractions; then their products are exact, too.
    """
    columns = np.atleast_2d(B.T)
    if A.dtype == object:
        columns = [list(map(Fraction, column)) for column in columns]
        values = [[sum(row * column) for column in columns] for row in A]
    else:
        values = [sums(row * columns) for row in A]
    return np.array(values, dtype=float).reshape(len(A), *B.shape[1:])


def square_sum(A: np.ndarray) -> float:
    """The sum of the squares of all entries."""
    return math.fsum((A * A).flat)
