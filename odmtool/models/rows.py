"""Kernel values of rows to predict, also in the order of LIBSVM's operations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from odmtool.core.columns import with_width
from odmtool.core.kernel_table import DISTANCES, STORED

if TYPE_CHECKING:
    from odmtool.core.kernels import Kernel

# Numbers of a block of repeated rows.
_BLOCK_VALUES = 2**21


class KernelRows:
    """Kernel values between test rows and the support vectors.

    Only the columns that occur in a support vector are looked at: the others
    add nothing to inner products, and one common term to squared distances, so
    a feature number of 10^9 in a test file costs nothing.
    """

    def __init__(self, kernel: Kernel, support_vectors: csr_matrix):
        from odmtool.core import kernels

        self.kernel, self.row = kernel, kernel.row
        self.vectors = support_vectors
        if self.row.of == STORED:
            serials = kernels.serial_numbers(support_vectors)
            self.columns, self.positions = np.unique(serials, return_inverse=True)
            return
        self.columns = np.unique(support_vectors.indices)
        self.known_vectors, _ = self._known(support_vectors)
        self.fast_vectors = kernels.prepare(self.known_vectors)
        self.largest_norm = float(_norms(support_vectors).max(initial=0.0))
        self.most_terms = int(np.diff(support_vectors.indptr).max(initial=0))

    def values_and_errors(self, X: csr_matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Kernel values, shape (rows, n_sv), and bounds of their distance from LIBSVM's.

        The distance is at most relative * |value| + absolute; both have shape (rows,).
        """
        from odmtool.core import kernels

        kernel, row = self.kernel, self.row
        known, beyond = self._known(X)
        if row.of == STORED:
            no_error = np.zeros(X.shape[0])
            return known.toarray()[:, self.positions], no_error, no_error
        if isinstance(self.fast_vectors, np.ndarray):
            known = known.toarray()
        if not row.factors:
            K = kernels.block(kernel, known, self.fast_vectors, beyond=beyond)
        else:
            K = kernels.block(kernel, known, self.fast_vectors)
            if beyond.any():
                K *= row.values(kernel, beyond, np)[:, None]
        return K, *self._errors(X)

    def in_stock_order(self, x: csr_matrix) -> np.ndarray:
        """Kernel values of one row with LIBSVM's order of operations, shape (n_sv,)."""
        known = self._known(x)[0].toarray().ravel()
        if self.row.of == STORED:
            return known[self.positions]
        if self.row.of == DISTANCES:
            z = _squared_distances(x, self.vectors)
        else:
            # A CSR product adds one feature after the other, as LIBSVM's dot does.
            z = self.known_vectors @ known
        return self.row.values(self.kernel, z, _CLibrary)

    def _known(self, X: csr_matrix) -> tuple[csr_matrix, np.ndarray]:
        """X on :attr:`columns`, and per row the sum of squares of what is left out."""
        n_rows, n_columns = X.shape[0], self.columns.size
        position = np.searchsorted(self.columns, X.indices)
        known = position < n_columns
        known[known] = self.columns[position[known]] == X.indices[known]
        indptr = np.concatenate([[0], np.cumsum(known)])[X.indptr]
        kept = csr_matrix((X.data[known], position[known], indptr), shape=(n_rows, n_columns))
        owner = np.repeat(np.arange(n_rows), np.diff(X.indptr))
        beyond = np.bincount(owner[~known], X.data[~known] ** 2, minlength=n_rows)
        return kept, beyond

    def _errors(self, X: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of rounding, ours and LIBSVM's together; see :meth:`values_and_errors`.

        An inner product of n terms is off by at most n eps |u| |v|, a squared
        distance by n eps (|u| + |v|)^2, in any order and also as
        |u|^2 + |v|^2 - 2 u'v.
        """
        norms = _norms(X)
        share = 2 * (np.diff(X.indptr) + self.most_terms + 4) * np.finfo(float).eps
        is_distance = self.row.of == DISTANCES
        size = (norms + self.largest_norm) ** 2 if is_distance else norms * self.largest_norm
        nothing = np.zeros(X.shape[0])
        relative, absolute = self.row.rounding(self.kernel, size, share, np)
        return nothing + relative, nothing + absolute


def _norms(X: csr_matrix) -> np.ndarray:
    """|x| for every row, shape (m,)."""
    owner = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    return np.sqrt(np.bincount(owner, X.data**2, minlength=X.shape[0]))


def _squared_distances(x: csr_matrix, vectors: csr_matrix) -> np.ndarray:
    """|x - v|^2 for every row v, squares added by ascending feature, shape (n_sv,)."""
    width = max(x.shape[1], vectors.shape[1])
    distances = np.empty(vectors.shape[0])
    step = max(1, _BLOCK_VALUES // max(1, x.nnz))
    for start in range(0, vectors.shape[0], step):
        part = vectors[start : start + step]
        n_rows = part.shape[0]
        repeated = csr_matrix(
            (np.tile(x.data, n_rows), np.tile(x.indices, n_rows), x.nnz * np.arange(n_rows + 1)),
            shape=(n_rows, width),
        )
        difference = repeated - with_width(part, width)
        owner = np.repeat(np.arange(n_rows), np.diff(difference.indptr))
        # bincount adds its weights one after the other.
        distances[start : start + step] = np.bincount(
            owner, difference.data * difference.data, minlength=n_rows
        )
    return distances


def _one_by_one(function):
    """A function of arrays made of one of the C library, whose last bit numpy's need not share."""

    def value(number: float) -> float:
        try:
            return function(number)
        except OverflowError:
            return math.inf

    def values(numbers: np.ndarray, out: np.ndarray) -> np.ndarray:
        out[:] = [value(number) for number in numbers.tolist()]
        return out

    return staticmethod(values)


class _CLibrary:
    """What a row of the table computes with, where the last bits shall be LIBSVM's."""

    exp, tanh = _one_by_one(math.exp), _one_by_one(math.tanh)
