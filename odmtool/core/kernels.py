"""Kernels: blocks, diagonal and Gram matrices, computed with BLAS.

Which kernels there are, and what each makes of inner products or distances, stands in
:mod:`odmtool.core.kernel_table`; every function here raises UsageError for any other name.

With ``-B b`` every kernel value is raised by b^2, which is a constant feature b
in the kernel's feature space. Kernel values are never computed one by one: all
solvers take blocks of rows, so no compiled code is needed here.

Examples are rows of a CSR matrix or of an array. Precomputed examples carry
their serial number (from 1) in column 0 and k(x, x_j) in column j.
"""

from __future__ import annotations

import numpy as np

from odmtool import messages
from odmtool.core.columns import distinct_numbers, occurring_columns
from odmtool.core.csr import CSR
from odmtool.core.kernel_table import DISTANCES, STORED, Kernel
from odmtool.errors import DataError, UsageError

# speed only: rows filled at a time, whose temporaries stay in the processor's cache
_BLOCK_BYTES = 2**21
# Rows of which the mean distance is taken.
_SAMPLE = 2000
# speed only: rows of a tile of a symmetric matrix
_TILE = 1024
#: Values beyond this are not scaled.
SCALED = 10.0
# Rows whose nearest among others is looked for, at most, and the kernel value below which it is
# far away. In twelve scaled sets half of the rows have one above .9; not scaled, in heart, mnist
# and magic04 none above 1e-5. Of wide rows fewer are looked at, with so many values in all.
_LOOKED_AT, _OTHERS, _VALUES, _APART = 30, 5000, 2**20, 0.1
# A standard deviation below this share of the mean is the rounding of a constant feature.
_CONSTANT = 1e-10
# Below this share of nonzeros a sparse product beats BLAS on a dense copy.
_DENSE_SHARE = 0.02
# Precomputed values may differ from their mirror image by this share of the largest,
# which single precision or six printed digits can cause.
_SYMMETRY = 1e-5
# Half of the digits of k(x, x) are kept below a b^2 so many times as large.
_BIAS_SHARE = 1e8


def prepare(X, limit: float = 1e9):
    """The rows in the form in which blocks of kernel values are fastest.

    Returns csr_matrix or ndarray, shape (m, d): an array when enough entries are nonzero, else the
    sparse matrix.

    Parameters
    ----------
    X : csr_matrix or ndarray, shape (m, d)
    limit : float
        Bytes that a dense copy may take.
    """
    if isinstance(X, np.ndarray):
        return X
    if X.shape[1] > X.nnz:
        X, _ = occurring_columns(X)
    return X.toarray() if dense_bytes(X, limit) else X


def dense_bytes(X, limit: float) -> int:
    """Size of the dense copy of a sparse X that :func:`prepare` makes; 0 if it makes none."""
    cells = X.shape[0] * X.shape[1]
    return 8 * cells if X.nnz >= _DENSE_SHARE * cells and 8 * cells <= limit else 0


def block(
    kernel: Kernel, A, B, out: np.ndarray | None = None, squares_b: np.ndarray | None = None,
    beyond: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """Kernel values between the rows of A and the rows of B, in their precision.

    Returns ndarray, shape (a, b).

    Parameters
    ----------
    A, B : csr_matrix, CSR or ndarray, shapes (a, d) and (b, d)
    out : ndarray, shape (a, b), optional
        Where to put them.
    squares_b : ndarray, shape (b,), optional
        ``squares(B)``, if the same B comes again and again.
    beyond : ndarray, shape (a,), optional
        Squares of columns that were left out of A, because B has nothing there.
    """
    row = kernel.row
    if row.of == STORED:
        K = np.take(dense(A), serial_numbers(B), axis=1, out=out)
    else:
        K, squares_a = products(A, B, out), None
        if row.of == DISTANCES:
            squares_a = squares(A) if beyond is None else squares(A) + beyond
            squares_b = squares(B) if squares_b is None else squares_b
        _finish(kernel, K, squares_a, squares_b)
    if kernel.bias:
        K += kernel.bias**2
    return K


def gram(kernel: Kernel, X) -> np.ndarray:
    """The symmetric matrix of kernel values between all rows of X, shape (m, m).

    Of dense rows each pair is computed once, in tiles: NumPy hands ``X @ X.T`` to a routine of
    OpenBLAS that crashes for some 20,000 rows and more if it has threads (numpy#19685).
    """
    row = kernel.row
    if row.of == STORED or not isinstance(X, np.ndarray):
        K = block(kernel, X, X)
    else:
        K = np.empty((len(X), len(X)), X.dtype)
        for top in range(0, len(X), _TILE):
            rows = slice(top, top + _TILE)
            for left in range(top, len(X), _TILE):
                columns = slice(left, left + _TILE)
                block(kernel, X[rows], X[columns], K[rows, columns])
                if left > top:
                    K[columns, rows] = K[rows, columns].T
    if row.of == DISTANCES:
        np.fill_diagonal(K, diagonal(kernel, X))
    return K


def diagonal(kernel: Kernel, X) -> np.ndarray:
    """k(x, x) for every row x of X, shape (m,)."""
    row, m = kernel.row, X.shape[0]
    if row.of == STORED:
        values = np.asarray(X[np.arange(m), serial_numbers(X)], dtype=float).ravel()
    else:
        z = np.zeros(m) if row.of == DISTANCES else squares(X)
        values = row.values(kernel, z, np)
    return values + kernel.bias**2


def largest_without_bias(kernel: Kernel, X) -> float:
    """The largest k(x, x) of the rows, as it is before b^2 is added; 0 without rows."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(diagonal(kernel._replace(bias=0.0), X).max(initial=0.0))


def refuse_huge_bias(kernel: Kernel, largest: float) -> None:
    """Raise UsageError if b^2 leaves too few digits of kernel values, k(x, x) <= ``largest``.

    A solver would certify the optimum of another problem, that of the rounded values.
    """
    if kernel.bias**2 > _BIAS_SHARE * largest > 0:
        most = (_BIAS_SHARE * largest) ** 0.5
        raise UsageError(messages.bias_too_large(kernel.bias, largest, most))


def serial_numbers(X) -> np.ndarray:
    """Column 0 of precomputed rows as integers, shape (m,)."""
    column = X[:, 0] if isinstance(X, np.ndarray) else X[:, [0]].toarray().ravel()
    return column.astype(np.int64)


def check_precomputed(X, limit: float = 0.0) -> None:
    """Raise DataError unless the rows of X are those of a symmetric matrix.

    Parameters
    ----------
    X : csr_matrix or ndarray, shape (m, 1 + n)
        Serial number, then n kernel values.
    limit : float
        Bytes that a dense copy may take.
    """
    serials, width = serial_numbers(X), X.shape[1] - 1
    beyond = np.flatnonzero(serials > width)
    if beyond.size:
        raise DataError(messages.serial_beyond(beyond[0] + 1, serials[beyond[0]], width))
    is_dense = isinstance(X, np.ndarray) or dense_bytes(X, limit) > 0
    X = dense(X) if is_dense else X
    if is_dense and np.array_equal(serials, np.arange(1, len(serials) + 1)):
        check_symmetric(X[:, 1 : len(serials) + 1])
        return
    columns = X if is_dense else X.tocsc()
    allowed = _SYMMETRY * abs(X[:, 1:]).max() if X.size else 0.0
    # speed only: rows at a time
    step = max(1, _BLOCK_BYTES // (8 * max(1, len(serials))))
    for start in range(0, len(serials), step):
        part = slice(start, start + step)
        rows = dense(X[part])[:, serials]
        mirrored = dense(columns[:, serials[part]]).T
        found = _asymmetry(rows, mirrored, allowed)
        if found is not None:
            i, j = found
            for k in (start + i, j):
                _check_same_values(X, np.flatnonzero(serials == serials[k]), serials[k])
            names = serials[start + i], serials[j]
            raise DataError(messages.not_symmetric(*names, rows[i, j], mirrored[i, j]))


def check_symmetric(K: np.ndarray) -> None:
    """Raise DataError unless a matrix of kernel values, shape (m, m), is symmetric."""
    allowed = _SYMMETRY * largest_size(K)
    for start in range(0, len(K), _TILE):
        for left in range(start, len(K), _TILE):
            rows, columns = slice(start, start + _TILE), slice(left, left + _TILE)
            found = _asymmetry(K[rows, columns], K[columns, rows].T, allowed)
            if found is not None:
                i, j = start + found[0], left + found[1]
                raise DataError(messages.not_symmetric(i + 1, j + 1, K[i, j], K[j, i]))


def _asymmetry(rows: np.ndarray, mirrored: np.ndarray, allowed: float) -> tuple | None:
    """Where two blocks of values differ most, if that is by more than is allowed."""
    off = np.abs(rows - mirrored)
    i, j = np.unravel_index(off.argmax(), off.shape)
    return (i, j) if off[i, j] > allowed else None


def largest_size(K: np.ndarray) -> float:
    """The largest absolute value of a matrix, which is not copied; 0 of an empty one."""
    return float(max(K.max(initial=0.0), -K.min(initial=0.0)))


def _check_same_values(X, twins: np.ndarray, serial: int) -> None:
    first, *others = dense(X[twins])
    for k, row in zip(twins[1:], others, strict=True):
        if not np.array_equal(row, first):
            raise DataError(messages.serial_repeated(twins[0] + 1, k + 1, serial))


def dense(A) -> np.ndarray:
    """The rows of A, a csr_matrix or ndarray, as an array."""
    return A if isinstance(A, np.ndarray) else A.toarray()


def products(A, B, out: np.ndarray | None = None) -> np.ndarray:
    """u'v for all pairs, shape (a, b)."""
    if isinstance(A, np.ndarray) != isinstance(B, np.ndarray):
        A, B = dense(A), dense(B)
    values = np.empty((A.shape[0], B.shape[0]), A.dtype) if out is None else out
    if isinstance(A, np.ndarray):
        return np.matmul(A, B.T, out=values)
    # A few rows at a time: the sparse product of all would be larger than the result.
    is_ours = isinstance(A, CSR)
    columns = B.turned if is_ours else B.T.tocsr()
    # speed only: rows at a time
    step = max(1, _BLOCK_BYTES // (8 * max(1, B.shape[0])))
    for start in range(0, A.shape[0], step):
        rows = A[start : start + step]
        product = rows.times(columns) if is_ours else (rows @ columns).toarray()
        values[start : start + step] = product
    return values


def squares(A) -> np.ndarray:
    """|u|^2 for every row, shape (a,)."""
    if isinstance(A, np.ndarray):
        return np.einsum("ij,ij->i", A, A)
    if isinstance(A, CSR):
        return A.squares()
    return np.asarray(A.multiply(A).sum(axis=1), dtype=float).ravel()


def mean_distance(X) -> float:
    """The mean distance between two rows; of many those of a sample, the same in every run.

    ``X``: csr_matrix, shape (m, d).
    """
    some = X[np.random.default_rng(0).permutation(X.shape[0])[:_SAMPLE]]
    lengths = squares(some)
    squared = lengths[:, None] + lengths - 2 * products(some, some)
    pairs = max(1, len(lengths) * (len(lengths) - 1))
    return float(np.sqrt(np.maximum(squared, 0.0)).sum() / pairs)


def variances(X, weight: np.ndarray | None = None) -> np.ndarray:
    """Those of the features that occur; their sum is half the mean squared distance of examples.

    Parameters
    ----------
    X : CSR, csr_matrix or ndarray, shape (m, d), m > 0
    weight : ndarray, shape (m,), optional
        Of the examples; not all 0.
    """
    m, n_columns = X.shape
    share = np.full(m, 1 / m) if weight is None else weight / weight.sum()
    if not isinstance(X, np.ndarray):
        return _sparse_variances(X, share)
    # Of values that hardly differ the squares must not be subtracted.
    mean = share @ X
    # speed only: rows at a time
    step = max(1, _BLOCK_BYTES // (8 * max(1, n_columns)))
    blocks = (slice(start, start + step) for start in range(0, m, step))
    return _of_varying(sum(share[rows] @ (X[rows] - mean) ** 2 for rows in blocks), mean)


def _sparse_variances(X, share: np.ndarray) -> np.ndarray:
    """The same of sparse rows, which have these shares in the means."""
    m, place, numbers = X.shape[0], X.indices, X.shape[1]
    if numbers > len(place):  # columns that do not occur vary as little as constant ones
        occurring = distinct_numbers(place)
        place, numbers = np.searchsorted(occurring, place), len(occurring)
    # speed only: so many entries at a time that adding up the columns is not most of the work
    step = max(1, max(_BLOCK_BYTES // 8, numbers) * m // max(1, len(place)))

    def parts():
        """Columns, values and shares of the entries of some rows."""
        for start in range(0, m, step):
            ends = X.indptr[start : start + step + 1]
            some = slice(ends[0], ends[-1])
            yield place[some], X.data[some], np.repeat(share[start : start + step], np.diff(ends))

    mean, present, count = np.zeros(numbers), np.zeros(numbers), np.zeros(numbers, np.int64)
    for columns, values, shares in parts():
        mean += np.bincount(columns, shares * values, numbers)
        present += np.bincount(columns, shares, numbers)
        count += np.bincount(columns, minlength=numbers)
    # A rounding of 1 - present would count where the mean is large.
    absent = np.where(count < m, np.maximum(1 - present, 0), 0.0)
    found = np.zeros(numbers)
    for columns, values, shares in parts():
        found += np.bincount(columns, shares * (values - mean[columns]) ** 2, numbers)
    return _of_varying(found + absent * mean**2, mean)


def _of_varying(variances: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """The variances, with 0 for a constant feature instead of the rounding of its mean."""
    return np.where(variances > (_CONSTANT * mean) ** 2, variances, 0.0)


def are_apart(kernel: Kernel, X) -> bool:
    """Whether most rows are far from every other, because their values are not scaled.

    Those whose values are in the range of scaled ones are taken to be meant so.

    ``X``: CSR, csr_matrix or ndarray, shape (m, d).
    """
    m = X.shape[0]
    if kernel.row.of != DISTANCES or m < 2:
        return False
    values = X if isinstance(X, np.ndarray) else X.data
    if max(values.max(initial=0.0), -values.min(initial=0.0)) <= SCALED:
        return False
    count = min(_OTHERS, _VALUES * m // max(1, values.size))
    others = np.arange(0, m, -(-m // max(_LOOKED_AT, count)))
    some = others[:: -(-len(others) // _LOOKED_AT)]
    K = block(kernel._replace(bias=0.0), X[some], X[others])
    K[some[:, None] == others] = 0.0
    # Not the median, with which NumPy loads another part of itself.
    return 2 * np.count_nonzero(K.max(axis=1) < _APART) > len(some)


def _finish(kernel: Kernel, K: np.ndarray, squares_a, squares_b) -> None:
    """Turn inner products into kernel values, in place, a few rows at a time."""
    # speed only: rows at a time
    step = max(1, _BLOCK_BYTES // (K.itemsize * max(1, K.shape[1])))
    row = kernel.row
    for start in range(0, K.shape[0], step):
        z = K[start : start + step]
        if row.of == DISTANCES:
            z *= -2.0
            # Added as one sum, so that the result is exactly symmetric.
            z += squares_a[start : start + step, None] + squares_b[None, :]
            np.maximum(z, 0.0, out=z)
        with np.errstate(over="ignore"):
            values = row.values(kernel, z, np)
        if values is not z:
            z[...] = values
