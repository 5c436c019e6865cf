"""Columns of the examples' matrix: a constant one more, or without the empty ones."""

from __future__ import annotations

import numpy as np
from scipy import sparse


def with_constant_feature(X, bias: float):
    """X with a last column of ``bias`` if that is not negative.

    Parameters
    ----------
    X : csr_matrix or ndarray, shape (m, d)
    bias : float
    """
    if bias < 0:
        return X
    column = np.full((X.shape[0], 1), float(bias))
    if isinstance(X, np.ndarray):
        return np.hstack([X, column])
    return sparse.hstack([X, column], format="csr")


def occurring_columns(X) -> tuple[object, np.ndarray]:
    """A sparse X without its empty columns, which a huge index makes many.

    Returns
    -------
    X : sparse matrix of the same kind, shape (m, max(1, number of columns))
    columns : int array
        Where its columns stood.
    """
    columns, places = np.unique(X.indices, return_inverse=True)
    places = places.astype(X.indices.dtype)
    return type(X)((X.data, places, X.indptr), shape=(X.shape[0], max(1, len(columns)))), columns
