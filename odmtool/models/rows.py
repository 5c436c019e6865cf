"""Kernel values of rows to predict, and how far they may be from those of LIBSVM.

There are four ways. What is printed is computed in double precision, with compiled code if there
is enough to do; where a decision is within rounding of its boundary, in the order of LIBSVM's
operations. If only labels are asked for, values in single precision decide where they leave no
doubt.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from odmtool.core.columns import with_width
from odmtool.core.csr import CSR, scipy_rows
from odmtool.core.kernel_table import DISTANCES, STORED
from odmtool.rows.tiles import BY_NUMPY, SPARSE_BY_NUMPY, WIDEST, tile_values

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from odmtool.core.kernel_table import KernelRow
    from odmtool.core.kernels import Kernel

# Numbers of a block of rows besides its kernel values.
_BLOCK_VALUES = 2**21
# Rows and support vectors of a tile, for the processor's cache.
_ROWS, _VECTORS = 256, 512
# Rows of a tile in single precision: so many values, and so many rows at most.
_SINGLE_VALUES, _MOST_ROWS = 2**18, 2048
# Long sparse rows are multiplied by SciPy's loops, which want the vectors turned into columns.
_WIDE_VECTORS = 8192
# In LIBSVM's order distances are made column by column of so few of them, and of so few values.
_MOST_COLUMNS, _COLUMN_VALUES = 1024, 2**23
# A larger share of rows in doubt costs more than single precision saves.
_IN_DOUBT = 0.2

NUMBERS_OF_A_PAIR = 4
"""Numbers that a value of a pair of classes takes: it, its bound, and what they are made of."""

SINGLE, DOUBLE, COMPILED = "single", "double", "compiled"
"""Ways to kernel values."""


class KernelRows:
    """Kernel values between test rows and the support vectors.

    Only the columns that occur in a support vector are looked at: the others
    add nothing to inner products, and one common term to squared distances, so
    a feature number of 10^9 in a test file costs nothing. Rows are those of a csr_matrix, of a
    precomputed kernel also of an array of kernel values, which has no serial numbers.
    """

    def __init__(self, kernel: Kernel, support_vectors: csr_matrix):
        from odmtool.core import kernels

        self.kernel, self.vectors, n = kernel, support_vectors, support_vectors.shape[0]
        self._expected = self._seen = self._in_doubt = 0
        if self.row.of == STORED:
            serials = kernels.serial_numbers(support_vectors)
            self.columns, self.positions = np.unique(serials, return_inverse=True)
            self._parts = _runs(n, _VECTORS)
            return
        # Without counts NumPy would load its masked arrays, for a tenth of a small prediction.
        self.columns, _ = np.unique(support_vectors.indices, return_counts=True)
        self.known_vectors, _ = self._known(support_vectors)
        vectors = kernels.prepare(self.known_vectors)
        self._is_dense = isinstance(vectors, np.ndarray)
        self._is_wide = not self._is_dense and self.columns.size > WIDEST
        # Compiled code for sparse rows takes SciPy's.
        vectors = vectors if self._is_wide else scipy_rows(vectors)
        self._parts = _runs(n, _WIDE_VECTORS if self._is_wide else _VECTORS)
        self._tiles = [vectors[part] for part in self._parts]
        self._squares = [kernels.squares(tile) for tile in self._tiles]
        self.largest_norm = float(_norms(support_vectors).max(initial=0.0))
        self.most_terms = int(np.diff(support_vectors.indptr).max(initial=0))

    @property
    def row(self) -> KernelRow:
        """The kernel's, which is not kept: a row holds functions, and models are pickled."""
        return self.kernel.row

    def expect(self, n_rows: int) -> None:
        """So many rows are about to come, in parts, of which each is to be treated alike."""
        self._expected += n_rows

    def way(self, n_rows: int) -> str:
        """How to make kernel values for so many rows whose decision values are asked for."""
        if not self.row.factors or self.kernel.gamma < 0 or self._is_wide:
            return DOUBLE
        least = BY_NUMPY if self._is_dense else SPARSE_BY_NUMPY
        is_much = max(n_rows, self._expected) * self.vectors.shape[0] > least
        return COMPILED if is_much else DOUBLE

    def by_single(
        self, X: csr_matrix, numbers: int, decide, any_way: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """What values in single precision decide, and which rows they leave in doubt.

        ``decide`` tells both of a block of rows, of which each takes so many numbers, and of the
        way. Where such values cannot be had it is asked with others if it takes them ``any_way``,
        else all rows are in doubt; so are they where too little was decided so far.
        """
        best, in_doubt = np.zeros(X.shape[0], dtype=np.int64), np.ones(X.shape[0], dtype=bool)
        is_single = self.row.factors and self.kernel.gamma >= 0 and self._is_dense
        can, way = is_single or any_way, SINGLE if is_single else self.way(X.shape[0])
        # Of few vectors, calls of NumPy would take longer than the values.
        rows = int(np.clip(_SINGLE_VALUES // max(1, self.vectors.shape[0]), _ROWS, _MOST_ROWS))
        for part in self.blocks(X.shape[0], numbers, rows) if can else ():
            if self._in_doubt <= _IN_DOUBT * self._seen:
                with np.errstate(all="ignore"):
                    best[part], in_doubt[part] = decide(X[part], way)
                self._seen += part.stop - part.start
                self._in_doubt += int(in_doubt[part].sum())
        self.expect(int(in_doubt.sum()))
        return best, in_doubt

    def blocks(self, n_rows: int, numbers: int, most: int = _ROWS) -> list[slice]:
        """Slices of ``most`` rows at most, each of which takes so many numbers."""
        step = max(1, min(most, _BLOCK_VALUES // max(1, numbers, self.columns.size)))
        return _runs(n_rows, step)

    def sums(
        self, X: csr_matrix, way: str, groups: list[slice], coef, weight
    ) -> tuple[np.ndarray, np.ndarray]:
        """K coef and |K| weight over groups of neighbouring support vectors.

        Returns (ndarray, shape (g, rows, c), ndarray, shape (g, rows)).

        Parameters
        ----------
        X : csr_matrix, shape (rows, d)
        way : str
            See :meth:`way`.
        groups : list of g slices
        coef : ndarray, shape (n_sv, c)
        weight : ndarray, shape (n_sv,)
        """
        products = np.zeros((len(groups), X.shape[0], coef.shape[1]))
        sizes = np.zeros((len(groups), X.shape[0]))
        for part, K in self._values(X, way):
            # Those of distances are not negative.
            size = K if self.row.of == DISTANCES else np.abs(K)
            for i, group in enumerate(groups):
                start, stop = max(part.start, group.start), min(part.stop, group.stop)
                if start < stop:
                    some = slice(start - part.start, stop - part.start)
                    products[i] += K[:, some] @ coef[start:stop]
                    sizes[i] += size[:, some] @ weight[start:stop]
        return products, sizes

    def matrix(
        self, X: csr_matrix, way: str, counts: np.ndarray, weight
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """K, shape (rows, n_sv), and |K| weight over groups of so many vectors, as :meth:`sums`."""
        K = np.empty((X.shape[0], self.vectors.shape[0]))
        for part, values in self._values(X, way):
            K[:, part] = values
        size = K if self.row.of == DISTANCES else np.abs(K)
        return K, group_sums(size * weight, counts).T

    def _values(self, X: csr_matrix, way: str) -> Iterator[tuple[slice, np.ndarray]]:
        """Kernel values with one run of support vectors after the other, in the same place."""
        from odmtool.core import kernels

        kernel, row, (known, beyond) = self.kernel, self.row, self._known(X)
        if row.of == STORED:
            known = kernels.dense(known)
            yield from ((part, known[:, self.positions[part]]) for part in self._parts)
            return
        factor = row.values(kernel, beyond.astype(float), np)[:, None] if row.factors else None
        if not self._is_wide:
            known = known.toarray() if self._is_dense else scipy_rows(known)
        if way == SINGLE:
            known = self._rows_for_exponents(known, beyond)
        scratch = np.empty(X.shape[0] * max((p.stop - p.start for p in self._parts), default=0))
        for part, vectors, squares in zip(self._parts, self._tiles, self._squares, strict=True):
            shape = X.shape[0], vectors.shape[0]
            K = scratch[: shape[0] * shape[1]].reshape(shape)
            if way == SINGLE:
                np.exp(known @ self._vectors_for_exponents[part].T, out=K)
            elif factor is None:
                kernels.block(kernel, known, vectors, K, squares, beyond=beyond)
            else:
                if way == COMPILED:
                    tile_values(kernel, known, vectors, False, K)
                else:
                    kernels.block(kernel, known, vectors, K, squares)
                if beyond.any():
                    K *= factor
            yield part, K

    def _rows_for_exponents(self, known: np.ndarray, beyond: np.ndarray) -> np.ndarray:
        """In single precision (2 gamma u, -gamma |u|^2, -gamma), whose inner product with
        (v, 1, |v|^2) is -gamma |u - v|^2.
        """  # fmt: skip
        m, d = known.shape
        rows, gamma = np.empty((m, d + 2), np.float32), self.kernel.gamma
        rows[:, :d] = 2 * gamma * known
        rows[:, d] = -gamma * (np.einsum("ij,ij->i", known, known) + beyond)
        rows[:, d + 1] = -gamma
        return rows

    @cached_property
    def _vectors_for_exponents(self) -> np.ndarray:
        """(v, 1, |v|^2) in single precision."""
        vectors = np.empty((self.vectors.shape[0], self.columns.size + 2), np.float32)
        with np.errstate(over="ignore"):
            for part, dense, squares in zip(self._parts, self._tiles, self._squares, strict=True):
                vectors[part, :-2], vectors[part, -2], vectors[part, -1] = dense, 1.0, squares
        return vectors

    def in_stock_order(self, x: csr_matrix) -> np.ndarray:
        """Kernel values of one row with LIBSVM's order of operations, shape (n_sv,)."""
        from odmtool.core import kernels

        if self.row.of == DISTANCES:
            z = self._by_columns(x) if self._takes_columns else _squared_distances(x, self.vectors)
            return self.row.values(self.kernel, z, _CLibrary)
        known = kernels.dense(self._known(x)[0]).ravel()
        if self.row.of == STORED:
            return known[self.positions]
        # A CSR product adds one feature after the other, as LIBSVM's dot does.
        return self.row.values(self.kernel, self.known_vectors @ known, _CLibrary)

    @cached_property
    def _takes_columns(self) -> bool:
        """Whether vectors are dense, and neither columns nor values too many."""
        d, n = self.columns.size, self.vectors.shape[0]
        return self._is_dense and d <= _MOST_COLUMNS and d * n <= _COLUMN_VALUES

    def _by_columns(self, x: csr_matrix) -> np.ndarray:
        """As :func:`_squared_distances`: to add zeros changes nothing, and columns are quick."""
        features = np.union1d(self.columns, x.indices)
        values = np.zeros(len(features))
        values[np.searchsorted(features, x.indices)] = x.data
        is_known = np.isin(features, self.columns)
        total, squares = np.zeros(self.vectors.shape[0]), np.empty(self.vectors.shape[0])
        columns = iter(self._columns)
        for value, known in zip(values.tolist(), is_known.tolist(), strict=True):
            if known:
                np.subtract(next(columns), value, out=squares)
                np.multiply(squares, squares, out=squares)
                total += squares
            else:
                total += value * value
        return total

    @cached_property
    def _columns(self) -> np.ndarray:
        """The support vectors column by column, of those that are dense."""
        return np.ascontiguousarray(np.concatenate(self._tiles).T)

    def _known(self, X) -> tuple[CSR | np.ndarray, np.ndarray]:
        """X on :attr:`columns`, and per row the sum of squares of what is left out."""
        if isinstance(X, np.ndarray):  # kernel values alone, those of serial number 1 first
            X = np.atleast_2d(X)
            return X[:, self.columns - 1], np.zeros(len(X))
        n_rows, n_columns = X.shape[0], self.columns.size
        position = np.searchsorted(self.columns, X.indices)
        known = position < n_columns
        known[known] = self.columns[position[known]] == X.indices[known]
        indptr = np.concatenate([[0], np.cumsum(known)])[X.indptr]
        kept = CSR(X.data[known], position[known], indptr, (n_rows, n_columns))
        owner = np.repeat(np.arange(n_rows), np.diff(X.indptr))
        beyond = np.bincount(owner[~known], X.data[~known] ** 2, minlength=n_rows)
        return kept, beyond

    def errors(self, X: csr_matrix, way: str) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of rounding of kernel values, ours and LIBSVM's together.

        They are at most relative * |value| + absolute apart; both have shape (rows,).

        An inner product of n terms is off by at most n eps |u| |v|, a squared
        distance by n eps (|u| + |v|)^2, in any order and also as
        |u|^2 + |v|^2 - 2 u'v.
        """
        if self.row.of == STORED:
            return np.zeros((2, X.shape[0]))
        norms, terms = _norms(X), np.diff(X.indptr)
        share = 2 * (terms + self.most_terms + 4) * np.finfo(float).eps
        is_distance = self.row.of == DISTANCES
        size = (norms + self.largest_norm) ** 2 if is_distance else norms * self.largest_norm
        if way == SINGLE:
            return self._single_errors(size, share, np.minimum(terms, self.most_terms))
        nothing = np.zeros(X.shape[0])
        relative, absolute = self.row.rounding(self.kernel, size, share, np)
        return nothing + relative, nothing + absolute

    def _single_errors(self, size, share, terms) -> tuple[np.ndarray, np.ndarray]:
        """The same for :meth:`_rows_for_exponents`; ``share`` is that of double precision.

        The exponent is a sum of so many products and two more, all of whose factors are rounded.
        NumPy's exponential is within three units in the last place; an exponent below -87
        gives next to nothing, or 0. Numbers that underflow are lost in the units of the
        exponential, unless others are huge.
        """
        unit, gamma = float(np.finfo(np.float32).eps) / 2, self.kernel.gamma
        off = (1.01 * (terms + 8) * unit + share) * size
        off = np.minimum(gamma * off, 700.0)
        is_lost = ~(size < 1e30)
        return np.expm1(off) + 10 * unit * np.exp(off), 2 * np.exp(off - 80.0) + is_lost


def group_sums(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The sums of so many neighbouring columns, which may be none, shape (m, groups)."""
    found, filled = np.zeros((len(values), len(counts))), counts > 0
    if filled.any():
        starts = (counts.cumsum() - counts)[filled]
        found[:, filled] = np.add.reduceat(values, starts, axis=1)
    return found


def those_of(X, which: np.ndarray):
    """The rows of a mask; X itself, and no copy, if they are all."""
    return X if which.all() else X[which]


def _runs(n: int, length: int) -> list[slice]:
    """0 to n in slices of a length."""
    return [slice(k, min(k + length, n)) for k in range(0, n, length)]


def _norms(X: csr_matrix) -> np.ndarray:
    """|x| for every row, shape (m,)."""
    owner = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    return np.sqrt(np.bincount(owner, X.data**2, minlength=X.shape[0]))


def _squared_distances(x: csr_matrix, vectors: csr_matrix) -> np.ndarray:
    """|x - v|^2 for every row v, squares added by ascending feature, shape (n_sv,)."""
    from scipy.sparse import csr_matrix

    width = max(x.shape[1], vectors.shape[1])
    distances = np.empty(vectors.shape[0])
    step = max(1, _BLOCK_VALUES // max(1, x.nnz))
    for start in range(0, vectors.shape[0], step):
        part = scipy_rows(vectors[start : start + step])
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
