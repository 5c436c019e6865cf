"""Rows that the workers have read themselves, file by file, and keep.

:class:`SpreadRows` stands where a matrix would: it has a shape, and ``X[rows]`` brings some
rows here. Only labels and what is asked for travel. Rows are counted in the order of the
files, so that a model is that of all the files in one. :mod:`odmtool.io.several` reads them.
:class:`OnePiece` answers the same questions of a matrix that is here; :func:`pieces_of` chooses.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from odmtool import messages
from odmtool.core import columns, kernels
from odmtool.core.kernel_table import DISTANCES
from odmtool.core.kernels import Kernel
from odmtool.errors import DataError

if TYPE_CHECKING:
    from scipy import sparse


class SpreadRows:
    """A matrix in pieces that an executor keeps.

    Parameters
    ----------
    pieces : list
        What ``executor.keep`` made, each a csr_matrix or ndarray.
    sizes : list of int
        Their rows.
    nnz : int
        Entries that are not zero, in all.
    executor
    """

    is_here = False

    def __init__(self, pieces: list, sizes: list[int], width: int, nnz: int, executor):
        self.pieces, self.sizes, self.nnz, self.executor = pieces, sizes, nnz, executor
        self.shape = (int(sum(sizes)), width)
        self._edges = np.concatenate([[0], np.cumsum(sizes)]).astype(int)

    def each(self, function: Callable, *same) -> list:
        """function(piece, *same) of every piece; the results come here."""
        return self.executor.map(function, self.pieces, *([value] * len(self.pieces)
                                                          for value in same))  # fmt: skip

    def made(self, function: Callable, *same, width: int | None = None) -> SpreadRows:
        """The pieces function(piece, *same), which stay where they are."""
        columns = ([value] * len(self.pieces) for value in same)
        pieces = self.executor.keep_each(function, self.pieces, *columns)
        width = self.shape[1] if width is None else width
        return SpreadRows(pieces, self.sizes, width, self.nnz, self.executor)

    def astype(self, dtype) -> SpreadRows:
        """The same in another precision."""
        return self.made(operator.methodcaller("astype", np.dtype(dtype).str))

    def __getitem__(self, rows: np.ndarray):
        """Some rows, in this order, brought here."""
        pieces, taken, back = self._cut(rows)
        return stack(*self.executor.map(operator.getitem, pieces, taken))[back]

    def part(self, rows: np.ndarray, place: float | None = None):
        """Some rows, in this order, brought together where the executor keeps them."""
        pieces, taken, back = self._cut(rows)
        brought = self.executor.keep_each(operator.getitem, pieces, taken)
        return self.executor.keep(_stack_in_order, back, *brought, place=place)

    def here(self):
        """All rows, brought here."""
        return self[np.arange(self.shape[0])]

    def parts(self, members: list[np.ndarray], _executor) -> list:
        """Parts, each of the rows ``members[k]``, where the executor keeps them."""
        return [self.part(rows, k / len(members)) for k, rows in enumerate(members)]

    def kept(self, function: Callable, *same, rows: int, executor) -> tuple[list, list[int]]:
        """function(piece, *same) where the executor keeps it, and the rows of each.

        Rows that are here are cut into pieces of ``rows`` first.
        """
        return self.made(function, *same).pieces, self.sizes

    def rows_with(self, used: np.ndarray) -> sparse.csr_matrix:
        """The whole matrix here, shape (m, d), the rows not in ``used`` left empty."""
        from scipy import sparse

        rows = sparse.csr_matrix(self[used])
        counts = np.zeros(self.shape[0] + 1, dtype=np.int64)
        counts[used + 1] = np.diff(rows.indptr)
        return sparse.csr_matrix((rows.data, rows.indices, np.cumsum(counts)), shape=self.shape)

    def _cut(self, rows: np.ndarray) -> tuple[list, list[np.ndarray], np.ndarray]:
        """The pieces in which rows lie, their places there, and which of these is each row's."""
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        found = columns.in_blocks(ascending, self._edges) or [(0, ascending)]
        pieces, taken = [self.pieces[k] for k, _ in found], [chosen for _, chosen in found]
        return pieces, taken, np.argsort(order, kind="stable")


class OnePiece:
    """A matrix of this process, a csr_matrix or ndarray, asked as :class:`SpreadRows` is."""

    is_here, executor = True, None

    def __init__(self, X):
        self._X = X

    def each(self, function: Callable, *same) -> list:
        """function(X, *same), in a list."""
        return [function(self._X, *same)]

    def made(self, function: Callable, *same):
        """function(X, *same)."""
        return function(self._X, *same)

    def here(self):
        """All rows."""
        return self._X

    def parts(self, members: list[np.ndarray], executor) -> list:
        """See :meth:`SpreadRows.parts`."""
        count = len(members)
        return [executor.put(self._X[rows], k / count) for k, rows in enumerate(members)]

    def kept(self, function: Callable, *same, rows: int, executor) -> tuple[list, list[int]]:
        """See :meth:`SpreadRows.kept`."""
        starts = range(0, self._X.shape[0], rows)
        made = [function(self._X[k : k + rows], *same) for k in starts]
        kept = [executor.put(piece, k / len(made)) for k, piece in enumerate(made)]
        return kept, [piece.shape[0] for piece in made]


def pieces_of(X) -> SpreadRows | OnePiece:
    """The rows X, wherever they lie, with the questions of :class:`SpreadRows`."""
    return X if isinstance(X, SpreadRows) else OnePiece(X)


class SpreadGram(NamedTuple):
    """What the solvers for large data ask of a :class:`odmtool.core.gram.Gram`."""

    kernel: Kernel
    X: SpreadRows
    memory: float

    @property
    def size(self) -> int:
        return self.X.shape[0]

    def diagonal(self) -> np.ndarray:
        """k(x_i, x_i), shape (m,)."""
        return np.concatenate(self.X.each(partial(kernels.diagonal, self.kernel)))

    is_rounded = False
    """No values are kept."""


def gram_of(kernel: Kernel, X: SpreadRows, memory: float) -> SpreadGram:
    """The kernel on rows prepared as :class:`odmtool.core.gram.Gram` prepares them."""
    if kernel.bias:
        kernels.refuse_huge_bias(kernel, max(X.each(_largest_value, kernel)))
    if kernels.dense_bytes(X, memory / 4):
        X = X.made(kernels.dense)
        if kernel.row.of == DISTANCES:
            X = X.made(operator.sub, np.sum(X.each(_column_sums), axis=0) / X.shape[0])
    return SpreadGram(kernel, X, memory)


def with_constant_feature(X: SpreadRows, bias: float) -> SpreadRows:
    """X with a last column of ``bias`` if that is not negative."""
    return X if bias < 0 else X.made(columns.with_constant_feature, bias, width=X.shape[1] + 1)


def refuse_huge_values(X: SpreadRows, kernel: Kernel) -> None:
    """Raise DataError if a squared norm, of a row or in feature space, is not finite."""
    wrong = X.each(_first_huge, kernel)
    for first, edge in zip(wrong, X._edges, strict=False):
        if first is not None:
            raise DataError(messages.values_too_large(int(edge) + first + 1))


def stack(*rows):
    """Rows of several parts, one after the other."""
    if isinstance(rows[0], np.ndarray):
        return np.concatenate(rows)
    from scipy import sparse

    return sparse.vstack(rows, format="csr")


def row_bytes(X) -> int:
    """The size of rows in memory."""
    return X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes


# ---- what is done with a piece -----------------------------------------------


def _stack_in_order(order, *pieces):
    return stack(*pieces)[order]


def _column_sums(X) -> np.ndarray:
    return np.asarray(X.sum(axis=0)).ravel()


def _largest_value(X, kernel: Kernel) -> float:
    return kernels.largest_without_bias(kernel, X)


def _first_huge(X, kernel: Kernel) -> int | None:
    """The first row whose squared norm is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares = kernels.diagonal(Kernel("linear"), X) + kernels.diagonal(kernel, X)
    wrong = np.flatnonzero(~np.isfinite(squares))
    return int(wrong[0]) if wrong.size else None


def largest_square(X) -> float:
    """The largest |x|^2 of a piece."""
    return float(np.max(kernels.diagonal(Kernel("linear"), X), initial=0.0))
