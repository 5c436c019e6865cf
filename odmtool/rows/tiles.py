"""The kernel matrix of examples that stand in the order of their parts, filled tile by tile.

Partitions at every level are runs of neighbours, so the values that a part needs are a square
block on the diagonal. The smallest parts have small matrices of their own. After them every
pair of examples is looked at for the gap of the whole problem; if the matrix fits in the
memory, and there is a level to come, the values are kept then, each tile with its mirror
image, and the levels to come find them there. Otherwise every part has rows of its own.

Kernel values may be in single precision: half the memory and half the time. Sums over them
are in double precision.
"""

from __future__ import annotations

import numpy as np

from odmtool.core import deadline, kernels
from odmtool.core.gram import Gram
from odmtool.core.kernel_table import DISTANCES
from odmtool.core.kernels import Kernel

# Rows of a tile: large enough for BLAS, small enough that threads share the work evenly, and, for
# very many examples, that a tile of each thread, in double precision, takes little memory.
_ROWS, _MOST_ROWS = 1024, 2048
# At most so many rows of tiles where these may be larger: each adds up m numbers.
_TILES = 64
# speed only: results of so many rows of tiles wait, for each thread; up to so many in all cases
_WAITING, _MAY_WAIT = 4, 128
# Rows of a tile whose values are in double precision at a time.
# speed only: rows at a time
_AT_ONCE = 128
# speed only: so many vectors are multiplied one after the other; BLAS is slow with few columns
_ONE_BY_ONE = 8
WIDEST = 4096
"""Up to so many features, sparse rows become columns of a dense matrix on the way."""

NARROW = 12
"""Up to so many features of dense rows, differences are faster than BLAS (:mod:`.narrow_loops`)."""

# speed only: when compiled code is loaded
BY_NUMPY, SPARSE_BY_NUMPY = 40_000_000, 3_000_000
"""So many kernel values are made before compiled code, which takes a tenth of a second to load,
pays; of sparse rows, which NumPy is slow with."""


def tile_rows(m: int) -> int:
    """Rows of a tile for m examples."""
    return min(max(_ROWS, -(-m // _TILES)), _MOST_ROWS)


def tile_values(
    kernel: Kernel, A, B, on_diagonal: bool, out=None, is_compiled: bool = True
) -> np.ndarray:
    """The kernel values of one tile, the same wherever they are computed by the same code."""
    if is_compiled and kernel.row.name == "rbf":
        tile = np.empty((A.shape[0], B.shape[0]), A.dtype) if out is None else out
        _rbf(kernel, A, B, tile)
    else:
        tile = kernels.block(kernel, A, B, out)
    if on_diagonal and kernel.row.of == DISTANCES:
        np.fill_diagonal(tile, kernels.diagonal(kernel, A))
    return tile


def _rbf(kernel: Kernel, A, B, tile) -> None:
    """The same for the kernel that has compiled code of its own."""
    from odmtool.rows import tile_loops

    if is_narrow(kernel, A):
        from odmtool.rows.narrow_loops import narrow_tile

        narrow_tile(narrow_rows(kernel, A), narrow_rows(kernel, B), tile)
    else:
        if isinstance(A, np.ndarray):
            kernels.products(A, B, tile)
            tile_loops.exponents(tile, kernels.squares(A), kernels.squares(B), kernel.gamma)
        # speed only: which of two ways makes the same values
        elif A.shape[1] <= WIDEST:
            columns = np.empty((A.shape[1], B.shape[0]), A.dtype)
            tile_loops.sparse_exponents(_arrays(A), _arrays(B), kernel.gamma, columns, tile)
        else:
            number = np.zeros(A.shape[1], np.int32)
            tile_loops.wide_exponents(_arrays(A), _arrays(B), kernel.gamma, number, tile)
        is_double = tile.dtype == np.float64
        (tile_loops.exponentials if is_double else tile_loops.single_exponentials)(tile)
    if kernel.bias:
        tile += kernel.bias**2


def is_narrow(kernel: Kernel, X) -> bool:
    """Whether compiled code makes rbf of these rows from differences."""
    is_single = isinstance(X, np.ndarray) and X.dtype == np.float32
    return is_single and kernel.row.name == "rbf" and X.shape[1] <= NARROW


def narrow_rows(kernel: Kernel, X: np.ndarray) -> np.ndarray:
    """Rows whose squared distances are binary logarithms of rbf, in fours of numbers."""
    m, d = X.shape
    found = np.zeros((m, -(-d // 4) * 4), X.dtype)
    # What is beyond single precision is infinite, and certified by nothing.
    with np.errstate(over="ignore", invalid="ignore"):
        found[:, :d] = X * X.dtype.type(np.sqrt(kernel.gamma * np.log2(np.e)))
    return found


def _arrays(X) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return X.data, X.indices, X.indptr


class Tiles:
    """K(X, X).

    Parameters
    ----------
    X : csr_matrix or ndarray, shape (m, d)
        Examples in the order of their parts, in the precision that the values shall have.
    ranges : list of (start, end)
        The smallest parts.
    kept : float
        Bytes for a matrix to keep.
    memory : float
        Bytes for kernel values of the parts where that is too small.
    executor
        Serial or Threads (:mod:`odmtool.rows.executor`); shares this process's memory.
    step : int, optional
        Rows of a tile, if these examples are part of more.
    is_compiled : bool
        By compiled code, which has to be loaded.
    """

    def __init__(
        self, kernel: Kernel, X, ranges, *, kept: float, memory: float, executor, step=None,
        is_compiled: bool = True,
    ):  # fmt: skip
        self.kernel, self.X, self._memory, self._executor = kernel, X, memory, executor
        self.is_compiled = is_compiled
        self._ranges, self.size = ranges, X.shape[0]
        step = step or tile_rows(self.size)
        self._edges = np.concatenate([*(np.arange(a, b, step) for a, b in ranges), [self.size]])
        fits = X.dtype.itemsize * self.size**2 <= kept
        self.matrix = np.empty((self.size, self.size), X.dtype) if fits else None
        tiles = len(self._edges) - 1
        self._filled = np.zeros((tiles, tiles), dtype=bool)

    def parts(self, ranges: list[tuple[int, int]], members: list[np.ndarray]) -> list:
        """The Gram of every range of examples, or of its members where no matrix is kept."""
        is_smallest = len(ranges) > 1 and ranges == self._ranges
        if self.matrix is None or is_smallest:
            share = self._memory / min(self._executor.jobs, len(ranges))
            return [Gram(self.kernel, self.X[part], share) for part in members]
        wanted = []
        for a, b in ranges:
            first, last = np.searchsorted(self._edges, (a, b))
            wanted += [(i, range(i, last)) for i in range(first, last)]
        self._executor.map(self._fill, *zip(*wanted, strict=True))
        return [TilesPart(self, a, b) for a, b in ranges]

    def times(
        self, v: np.ndarray, *, is_last: bool = False, wanted: np.ndarray | None = None,
        may_end: bool = False,
    ) -> np.ndarray:  # fmt: skip
        """K v in double precision, shape (m,); every pair of examples is looked at once.

        Nothing that is not kept yet is kept if ``is_last``. Tiles in which v is zero are left
        out, and those in which no result is ``wanted`` (bool array, shape (m,)). Several vectors
        side by side, shape (m, q), are multiplied at once. If it ``may_end``, it raises Exceeded
        when it takes too long after the deadline (:func:`odmtool.core.deadline.check`).
        """
        tiles = len(self._edges) - 1
        takes = self._any(v.reshape(self.size, -1).any(axis=1))
        gives = np.ones(tiles, bool) if wanted is None else self._any(wanted)
        used = np.outer(gives, takes)
        used |= used.T
        product = np.zeros(v.shape)
        # Few results of several vectors, or of very many examples, wait to be added up.
        # speed only: how many results wait
        is_little = v.ndim == 1 and tiles <= _MAY_WAIT
        # speed only: how many results wait
        count = tiles if is_little else _WAITING * self._executor.jobs
        for k in range(0, tiles, count):
            some = range(k, min(k + count, tiles))
            rows = self._executor.map(
                lambda i, row_used: self._row_times(i, v, is_last, row_used, may_end),
                some, used[k : k + count],
            )  # fmt: skip
            for i, row in zip(some, rows, strict=True):
                product[self._edges[i] :] += row
        return product

    def _any(self, mask: np.ndarray) -> np.ndarray:
        """Whether the mask holds for any example of each tile's rows."""
        return np.logical_or.reduceat(mask, self._edges[:-1])

    def _slice(self, i: int) -> slice:
        return slice(self._edges[i], self._edges[i + 1])

    def _fill(self, i: int, columns: range) -> None:
        scratch = self._scratch()
        for j in columns:
            self._tile(i, j, scratch, True)

    def _scratch(self) -> np.ndarray:
        """Room for any tile: threads that allocate and free megabytes hold each other up."""
        return np.empty(np.diff(self._edges).max() ** 2, self.X.dtype)

    def _tile(self, i: int, j: int, scratch: np.ndarray, is_kept: bool = False) -> np.ndarray:
        """Values of the tile in row i and column j >= i; made in ``scratch``, copied if kept."""
        rows, columns = self._slice(i), self._slice(j)
        if self._filled[i, j]:
            return self.matrix[rows, columns]
        A, B = self.X[rows], self.X[columns]
        shape = A.shape[0], B.shape[0]
        # Without gaps between its rows: with some, loops take three to six times as long.
        out = scratch[: shape[0] * shape[1]].reshape(shape)
        tile = tile_values(self.kernel, A, B, i == j, out, self.is_compiled)
        if is_kept:
            self.matrix[rows, columns] = tile
            if i != j:
                from odmtool.rows.tile_loops import mirror

                mirror(tile, self.matrix[columns, rows])
            self._filled[i, j] = True
        return tile

    def _row_times(
        self, i: int, v: np.ndarray, is_last: bool, used: np.ndarray, may_end: bool
    ) -> np.ndarray:
        """What the tiles (i, j >= i) and their mirror images add to K v, from row i on."""
        first = self._edges[i]
        product = np.zeros((self.size - first, *v.shape[1:]))
        scratch, is_kept = self._scratch(), self.matrix is not None and not is_last
        rows, most = self._slice(i), np.diff(self._edges).max()
        above, nothing = product[: rows.stop - first], np.zeros((most, *v.shape[1:]))
        for j in i + np.flatnonzero(used[i:]):
            if may_end:
                deadline.check()
            columns = self._slice(j)
            left = product[columns.start - first : columns.stop - first]
            below = left if i != j else nothing[: len(left)]
            self._add_tile(i, j, scratch, is_kept, v[columns], v[rows], above, below)
        return product

    def _add_tile(self, i: int, j: int, scratch, is_kept, right, left, above, below) -> None:
        self._add(self._tile(i, j, scratch, is_kept), right, left, above, below)

    def _add(self, tile, right, left, above, below) -> None:
        if self.is_compiled and is_one_by_one(right):
            from odmtool.rows.tile_loops import add_products

            # A part of the matrix has gaps, which take longer than a copy, and to compile.
            one_by_one(add_products, np.ascontiguousarray(tile), right, left, above, below)
            return
        # Single precision, of vectors or of sums, ends conjugate gradients before the tolerance.
        for k in range(0, len(tile), _AT_ONCE):
            some = slice(k, k + _AT_ONCE)
            values = tile[some].astype(float, copy=False)
            above[some] += values @ right
            below += values.T @ left[some]


def is_one_by_one(right: np.ndarray) -> bool:
    """Whether compiled code for one vector is faster than BLAS for all, shape (n,) or (n, q)."""
    return right.ndim == 1 or right.shape[1] <= _ONE_BY_ONE


def one_by_one(add, tile, right, left, above, below) -> None:
    """add(tile, ...) for a vector, or for the columns of several, one after the other."""
    if right.ndim == 1:
        add(tile, right, left, above, below)
        return
    for k in range(right.shape[1]):
        product, turned = np.zeros(len(above)), np.zeros(len(below))
        vectors = np.ascontiguousarray(right[:, k]), np.ascontiguousarray(left[:, k])
        add(tile, *vectors, product, turned)
        above[:, k] += product
        below[:, k] += turned


class TilesPart:
    """The Gram of neighbours, whose tiles are filled; what coordinate descent needs of one."""

    X, is_computed, is_rounded = None, False, False

    def __init__(self, tiles: Tiles, start: int, end: int):
        self.kernel, self.size = tiles.kernel, end - start
        self._tiles, self._start, self._end = tiles, start, end

    def diagonal(self) -> np.ndarray:
        """k(x_i, x_i), shape (m,)."""
        return self._tiles.matrix.diagonal()[self._start : self._end].astype(float)

    def cache(self) -> FilledRows:
        """The rows, which are all there."""
        return FilledRows(self._tiles.matrix, self._start, self._end)


class FilledRows:
    """What :class:`odmtool.core.gram.RowCache` is, of a part of a matrix that is there."""

    def __init__(self, matrix: np.ndarray, start: int, end: int):
        self.rows, self.first, self.capacity = matrix, start, end - start
        self.slot = np.arange(start, end)

    def fetch(self, examples: np.ndarray) -> None:
        """All rows are present."""
