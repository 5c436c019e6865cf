"""Rows in compressed form, with the few products that linear problems need.

To import ``scipy.sparse`` takes longer than to train on a small file, because it brings most of
NumPy and SciPy with it; its compiled loops lie in a module of their own, which needs nothing.
:func:`compiled` finds such a module of SciPy without its package, so that :class:`CSR` gives
the numbers that SciPy's ``csr_matrix`` gives. Everything else takes ``CSR.matrix()``, or what
:func:`scipy_rows` makes of any rows.
"""

from __future__ import annotations

from functools import cache, cached_property
from importlib import import_module, util
from importlib.machinery import PathFinder
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scipy.sparse import csr_matrix

# speed only: entries that are squared at a time, which fit in the cache
_ENTRIES = 2**16


@cache
def compiled(package: str, name: str) -> ModuleType:
    """A compiled module of SciPy: alone if it can be, else with its package.

    ``package`` and ``name``: ``"sparse", "_sparsetools"`` or ``"linalg", "_flapack"``.
    """
    try:
        (folder,) = util.find_spec("scipy").submodule_search_locations
        spec = PathFinder.find_spec(name, [f"{folder}/{package}"])
        module = util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    except (ImportError, AttributeError, TypeError, ValueError):
        return import_module(f"scipy.{package}.{name}")


class CSR:
    """A sparse matrix of doubles, rows compressed.

    Parameters
    ----------
    data : ndarray, shape (nnz,)
    indices : int array, shape (nnz,)
        Columns, ascending within a row.
    indptr : int array of the same type, shape (m + 1,)
        Where rows begin and end.
    shape : tuple of two int
    """

    def __init__(self, data, indices, indptr, shape: tuple[int, int]):
        self.data, self.indices, self.indptr, self.shape = data, indices, indptr, shape

    @classmethod
    def of(cls, X) -> CSR:
        """The rows of a CSR or a csr_matrix, not copied."""
        return X if isinstance(X, cls) else cls(X.data, X.indices, X.indptr, X.shape)

    @property
    def nnz(self) -> int:
        return len(self.data)

    @property
    def dtype(self) -> np.dtype:
        return self.data.dtype

    @property
    def T(self) -> Transposed:
        return Transposed(self)

    def __matmul__(self, right: np.ndarray) -> np.ndarray:
        """X w for w of shape (d,), X W for W of shape (d, k)."""
        (m, d), right = self.shape, np.ascontiguousarray(right, dtype=float)
        if right.shape[0] != d:
            raise ValueError(f"a matrix of {d} columns times {right.shape[0]} rows")
        result, arrays = np.zeros((m, *right.shape[1:])), (self.indptr, self.indices, self.data)
        tools = compiled("sparse", "_sparsetools")
        if right.ndim == 1:
            tools.csr_matvec(m, d, *arrays, right, result)
        else:
            tools.csr_matvecs(m, d, right.shape[1], *arrays, right.ravel(), result.ravel())
        return result

    def __getitem__(self, rows) -> CSR:
        """Some rows: a slice, their places, the place of one, or a mask."""
        if isinstance(rows, slice):
            rows = np.arange(self.shape[0])[rows]
        rows = np.atleast_1d(rows)
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        rows = rows.astype(self.indptr.dtype, copy=False)
        indptr = np.zeros(len(rows) + 1, self.indptr.dtype)
        np.cumsum(self.indptr[rows + 1] - self.indptr[rows], out=indptr[1:])
        data, indices = np.empty(indptr[-1]), np.empty(indptr[-1], self.indices.dtype)
        compiled("sparse", "_sparsetools").csr_row_index(
            len(rows), rows, self.indptr, self.indices, self.data, indices, data
        )
        return CSR(data, indices, indptr, (len(rows), self.shape[1]))

    def squares(self) -> np.ndarray:
        """|x_i|^2 of every row, shape (m,)."""
        parts = [part @ np.ones(self.shape[1]) for _, part in self._squared()]
        return np.concatenate(parts) if parts else np.zeros(0)

    def weighted_squares(self, weight: np.ndarray) -> np.ndarray:
        """sum_i weight_i x_ij^2 of every column, shape (d,)."""
        result = np.zeros(self.shape[1])
        for rows, part in self._squared():
            part.T.add_product(weight[rows], result)
        return result

    def _squared(self) -> Iterator[tuple[slice, CSR]]:
        """Some rows at a time, and the squares of their entries."""
        m, d, start = *self.shape, 0
        while start < m:
            first = int(self.indptr[start])
            # speed only: which rows are squared together
            end = int(np.searchsorted(self.indptr, first + _ENTRIES, side="right")) - 1
            end = max(start + 1, end)
            own, indptr = slice(first, self.indptr[end]), self.indptr[start : end + 1] - first
            squares = self.data[own] ** 2
            yield slice(start, end), CSR(squares, self.indices[own], indptr, (end - start, d))
            start = end

    def scaled(self, factors: np.ndarray) -> CSR:
        """The rows times one number each."""
        data = self.data.copy()
        compiled("sparse", "_sparsetools").csr_scale_rows(
            *self.shape, self.indptr, self.indices, data, factors
        )
        return CSR(data, self.indices, self.indptr, self.shape)

    def with_width(self, width: int) -> CSR:
        """The rows with columns cut off or zero columns appended."""
        X = self
        if self.shape[1] > width:
            known = self.indices < width
            indptr = np.concatenate([[0], np.cumsum(known)])[self.indptr]
            indptr = indptr.astype(self.indptr.dtype)
            X = CSR(self.data[known], self.indices[known], indptr, self.shape)
        return CSR(X.data, X.indices, X.indptr, (self.shape[0], width))

    def with_column(self, value: float) -> CSR:
        """The rows with a last column of one value."""
        (m, d), ends = self.shape, self.indptr[1:]
        if value == 0:
            return self.with_width(d + 1)
        data, indices = np.insert(self.data, ends, value), np.insert(self.indices, ends, d)
        indptr = self.indptr + np.arange(m + 1, dtype=self.indptr.dtype)
        return CSR(data, indices, indptr, (m, d + 1))

    def toarray(self) -> np.ndarray:
        result = np.zeros(self.shape)
        compiled("sparse", "_sparsetools").csr_todense(
            *self.shape, self.indptr, self.indices, self.data, result
        )
        return result

    def gram(self) -> np.ndarray:
        """X'X, shape (d, d), from sparse products."""
        return self._turned().times(self)

    @cached_property
    def turned(self) -> CSR:
        """X' with its rows compressed; kept, for many products."""
        return self._turned()

    def _turned(self) -> CSR:
        (m, d), kind = self.shape, self.indptr.dtype
        indptr, rows = np.empty(d + 1, kind), np.empty(self.nnz, kind)
        data, own = np.empty(self.nnz), (self.indptr, self.indices, self.data)
        compiled("sparse", "_sparsetools").csr_tocsc(m, d, *own, indptr, rows, data)
        return CSR(data, rows, indptr, (d, m))

    def times(self, right: CSR) -> np.ndarray:
        """X R for sparse R whose numbers of rows and entries are of the same type, an array."""
        (m, _d), n, kind = self.shape, right.shape[1], self.indptr.dtype
        # The product has at most an entry for every pair of entries that meet.
        size = min(m * n, int(np.diff(right.indptr)[self.indices].sum(dtype=float)))
        product = np.empty(m + 1, kind), np.empty(size, kind), np.empty(size)
        left = self.indptr, self.indices, self.data
        other = right.indptr, right.indices, right.data
        compiled("sparse", "_sparsetools").csr_matmat(m, n, *left, *other, *product)
        indptr, indices, values = product
        return CSR(values[: indptr[-1]], indices[: indptr[-1]], indptr, (m, n)).toarray()

    def matrix(self) -> csr_matrix:
        """The same as a matrix of SciPy, which shares the arrays."""
        from scipy.sparse import csr_matrix

        X = csr_matrix(self.shape, dtype=float)
        X.data, X.indices, X.indptr = self.data, self.indices, self.indptr
        X.has_sorted_indices = X.has_canonical_format = True
        return X


class Transposed:
    """X' of a CSR matrix."""

    def __init__(self, X: CSR):
        self._X = X

    def __matmul__(self, right: np.ndarray) -> np.ndarray:
        """X' v for v of shape (m,)."""
        X, right = self._X, np.ascontiguousarray(right, dtype=float)
        if right.shape != X.shape[:1]:
            raise ValueError(f"a matrix of {X.shape[0]} rows, transposed, times {right.shape}")
        self.add_product(right, result := np.zeros(X.shape[1]))
        return result

    def add_product(self, right: np.ndarray, result: np.ndarray) -> None:
        """Add X' v to ``result``, shape (d,)."""
        X = self._X
        compiled("sparse", "_sparsetools").csc_matvec(
            X.shape[1], X.shape[0], X.indptr, X.indices, X.data, right, result
        )


def scipy_rows(X):
    """The rows as the package passes them around: a CSR becomes SciPy's csr_matrix."""
    return X.matrix() if isinstance(X, CSR) else X
