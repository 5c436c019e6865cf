"""Columns and rows of the examples' matrix: a constant column more, no empty ones, some rows."""

from __future__ import annotations

import numpy as np

from odmtool.core.csr import CSR


def canonical(X):
    """X as the models want it: csr_matrix, doubles, columns ascending and each once."""
    from scipy import sparse

    rows = sparse.csr_matrix(X, dtype=float)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def with_constant_feature(X, bias: float):
    """X with a last column of ``bias`` if that is not negative.

    ``X``: CSR, csr_matrix or ndarray, shape (m, d).
    """
    if bias < 0:
        return X
    if isinstance(X, CSR):
        return X.with_column(float(bias))
    column = np.full((X.shape[0], 1), float(bias))
    if isinstance(X, np.ndarray):
        return np.hstack([X, column])
    from scipy import sparse

    return sparse.hstack([X, column], format="csr")


def with_width(X, width: int):
    """A CSR or csr_matrix X with columns cut off or zero columns appended."""
    if isinstance(X, CSR):
        return X.with_width(width)
    if X.shape[1] > width:
        return X[:, :width]
    return type(X)((X.data, X.indices, X.indptr), shape=(X.shape[0], width))


def distinct_numbers(numbers: np.ndarray) -> np.ndarray:
    """What ``np.unique`` gives, without the modules that it loads."""
    ordered = np.sort(numbers)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]


def columns_in_use(X) -> np.ndarray:
    """Where the columns of a sparse X stand that are not empty, ascending."""
    # speed only: the same columns
    if not _is_for_tables(X):
        return distinct_numbers(X.indices)
    occurs = np.zeros(X.shape[1], dtype=bool)
    occurs[X.indices] = True
    return np.flatnonzero(occurs)


def occurring_columns(X) -> tuple[object, np.ndarray]:
    """A sparse X without its empty columns, which a huge index makes many.

    Returns
    -------
    X : sparse matrix of the same kind, shape (m, max(1, number of columns))
    columns : int array
        Where its columns stood.
    """
    columns, number = columns_in_use(X), X.indices.dtype
    # speed only: the same columns
    if _is_for_tables(X):
        place = np.empty(X.shape[1], dtype=number)
        place[columns] = np.arange(len(columns))
        places = place[X.indices]
    else:
        places = np.searchsorted(columns, X.indices).astype(number)
    parts, shape = (X.data, places, X.indptr), (X.shape[0], max(1, len(columns)))
    return (CSR(*parts, shape) if isinstance(X, CSR) else type(X)(parts, shape=shape)), columns


def _is_for_tables(X) -> bool:
    """Whether looking every column up in a table costs less than sorting the entries."""
    # speed only: the same columns
    return X.shape[1] <= 64 * len(X.indices)


def in_blocks(rows: np.ndarray, starts: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """The blocks in which rows lie, and their places there.

    Parameters
    ----------
    rows : int array
        Ascending.
    starts : int array
        The first row of every block, and the number of rows.
    """
    cuts = np.searchsorted(rows, starts)
    used = np.flatnonzero(np.diff(cuts)).tolist()
    return [(k, rows[cuts[k] : cuts[k + 1]] - starts[k]) for k in used]
