"""K times vectors of all examples, one pass for as many as are asked for.

In single precision the tiles of K are kept as far as there is room; in double precision, for
certificates, they are made again. Values of narrow rows are made about as fast as kept ones are
read, so that these are rounded to two bytes each, which is enough for conjugate gradients, and
made again for margins. Examples with duals stand before the others, so that few tiles have to do
with them. Newton's steps give duals to some more, here and there: these move up, or
else every tile of the others would have one of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool.core import kernels
from odmtool.rows.tiles import Tiles, is_narrow, is_one_by_one, narrow_rows, one_by_one, tile_values
from odmtool.solvers.engine.points import NOTHING, Points

# What a product takes longer without compiled code, in kernel values.
# speed only: when compiled code is loaded
_AS_VALUES = 0.35
# Tiles are made again for a smaller number of examples if it is at most this share of what fits.
# speed only: tiles that are not kept are made again
_REGAINED = 0.9
# Products between examples that have the same duals, about.
# speed only: the order of examples decides which tiles have duals, and not what they give
_BETWEEN = 8
# Bytes of a value that is rounded for conjugate gradients.
_CODE = 2
CODED = 2.0**-17
"""By how much it is rounded at most."""
# Coded tiles fill this share of the room: between those that come and go malloc leaves holes.
_FILLED = 0.8
# What rounding may do to them beside the 1 that the matrix I + S^1/2 K S^1/2 has at least.
_HARMLESS = 0.1
# A tile is not looked through if of this number of rows and columns more than this share of
# values are larger.
# speed only: a tile with few large values is kept, or made, with the others as well
_LOOKED_AT, _SURELY = 16, 0.5


class KeptTiles(Tiles):
    """K in single precision, whose tiles above the diagonal are kept while they fit.

    One nearly all of whose values are below rounding is kept as sparse rows. Those between the
    first examples (:meth:`begins_with`) have precedence.

    Parameters
    ----------
    kernel, X, executor
        As of :class:`odmtool.rows.tiles.Tiles`.
    room : float
        Bytes for tiles.
    is_compiled : bool
        Else all tiles are kept as they are.

    Attributes
    ----------
    is_short : bool
        A tile was not kept, because there was no room for it.
    is_rough : bool
        Products may be those with values of :mod:`odmtool.rows.coded_tile`.
    """

    def __init__(self, kernel, X, room: float, executor, is_compiled: bool = True):
        super().__init__(
            kernel, X, [(0, X.shape[0])], kept=0.0, memory=0.0, executor=executor,
            is_compiled=is_compiled,
        )  # fmt: skip
        self._kept, self._room, self._block, self._reserved = {}, room, len(self._filled), 0
        self._whole_room, self._each = room, 0
        self.is_short = self.is_rough = self._is_coded = False
        self._is_dense = np.zeros(self._filled.shape, dtype=bool)
        self._narrow = self._narrow_rows()
        self._least = NOTHING * float(np.abs(kernels.diagonal(kernel, self.X)).max(initial=0.0))

    # speed only: tiles that are not kept are made again
    def begins_with(self, count: int, *, can_be_coded: bool = False) -> None:
        """Most products are between the first ``count`` examples: room is left for their tiles.

        These may be coded; of which columns must not depend on which thread has found room.
        """
        self._block = block = int(np.searchsorted(self._edges, count))
        side, size = int(np.diff(self._edges).max()), self.X.dtype.itemsize
        is_coded = can_be_coded and self._is_fast
        if is_coded != self._is_coded:
            self._forget(0)
            self._is_coded = is_coded
        if is_coded:
            # So many columns have t (t + 1) / 2 tiles that fit.
            size = _CODE
            fitting = np.sqrt(0.25 + 2 * _FILLED * self._whole_room / (size * side**2)) - 0.5
            self._block = block = int(min(block, fitting))
        known, self._each = sum(j < block for _i, j in self._kept), size
        self._reserved = size * side**2 * (block * (block + 1) // 2 - known)

    def exchange(self, X, start: int) -> None:
        """Take the rows of ``X``, which differ from ``start`` on, shape (m, d)."""
        self.X, first = X, int(np.searchsorted(self._edges, start, side="right")) - 1
        self._narrow = self._narrow_rows()
        self._forget(first)

    def _forget(self, first: int) -> None:
        """The tiles from this column on."""
        for key in [key for key in self._kept if key[1] >= first]:
            self._room += self._kept.pop(key).nbytes
        self._is_dense[:, first:] = False

    # speed only: the order of examples decides which tiles have duals, and not what they give
    def touched(self, mask: np.ndarray) -> tuple[int, float]:
        """The examples in rows of tiles where the mask holds for any, and values not yet kept."""
        some, sizes = self._any(mask), np.diff(self._edges)
        count = int(sizes[some].sum())
        known = sum(sizes[i] * sizes[j] for i, j in self._kept if some[i] and some[j])
        return count, count**2 / 2 - known

    def _narrow_rows(self) -> np.ndarray | None:
        """The rows for :mod:`odmtool.rows.narrow_loops`, if it can make the values."""
        can_be = is_narrow(self.kernel, self.X) and not self.kernel.bias
        return narrow_rows(self.kernel, self.X) if can_be else None

    def _tile(self, i: int, j: int, scratch, is_kept: bool = False):
        """An ndarray or a SparseTile."""
        kept = self._readable(i, j)
        if kept is not None:
            return kept
        found, is_whole = self._made(i, j, scratch)
        if not self._has_room(j, found.nbytes, is_whole):
            self.is_short = True
            return found
        self._room -= found.nbytes
        # speed only: tiles that are not kept are made again
        if j < self._block:
            expected = self._each * np.prod(np.diff(self._edges)[[i, j]])
            self._reserved -= min(self._reserved, expected)
        found = self._kept[i, j] = found.copy() if is_whole else found
        return found

    def _made(self, i: int, j: int, scratch):
        """A tile as it would be kept, and whether that is ``scratch``, in single precision."""
        tile, is_full = None, self._is_full(i, j)
        # This depends on the values only, not on what there is room for.
        if not is_full:
            tile = super()._tile(i, j, scratch)
            found = self._as_sparse(tile)
            # speed only: which of two ways makes the same values
            self._is_dense[i, j] = found is None
            if found is not None:
                return found, False
        if self._are_coded(j):
            return self._coded(i, j), False
        return super()._tile(i, j, scratch) if tile is None else tile, True

    # speed only: tiles that are not kept are made again
    def _has_room(self, j: int, count: int, is_whole: bool) -> bool:
        """Whether a tile of so many bytes in this column is kept; as it is made, or otherwise.

        Beyond the first examples the columns are often others in the next product: values that
        are made as fast as memory is taken are not worth it.
        """
        if j < self._block:
            return count <= self._room and not (is_whole and self._is_coded)
        return not (is_whole and self._is_fast) and count <= self._room - self._reserved

    @property
    def _is_fast(self) -> bool:
        """Whether values are made about as fast as kept ones are read."""
        return self._narrow is not None and self.is_compiled

    def _are_coded(self, j: int) -> bool:
        """Whether the values of a tile in this column are to be coded now."""
        return self._is_coded and self.is_rough and j < self._block

    def _readable(self, i: int, j: int):
        """What is kept of a tile, if it is precise enough."""
        kept = self._kept.get((i, j))
        return None if _is_coded(kept) and not self.is_rough else kept

    # speed only: which of two ways makes the same values
    def _is_full(self, i: int, j: int) -> bool:
        """Whether the tile is known to have many values, or some of it promise so."""
        if not self._is_dense[i, j] and self.is_compiled:
            A, B = (self.X[some_rows(self._slice(k))] for k in (i, j))
            values = tile_values(self.kernel, A, B, False)
            self._is_dense[i, j] = (values > self._least).mean() > _SURELY
        return self._is_dense[i, j]

    def _add_tile(self, i: int, j: int, scratch, is_kept, right, left, above, below) -> None:
        """Values that are not kept are multiplied as they are made, where that is faster."""
        can_be = self._is_fast and right.ndim == 1 and not self._are_coded(j)
        if can_be and self._readable(i, j) is None and self._is_full(i, j):
            rows, columns = self._slice(i), self._slice(j)
            if not self._has_room(j, len(left) * len(right) * self.X.dtype.itemsize, True):
                from odmtool.rows.narrow_loops import add_narrow_products

                self.is_short = True
                A, B = self._narrow[rows], self._narrow[columns]
                add_narrow_products(A, B, right, left, above, below)
                return
        super()._add_tile(i, j, scratch, is_kept, right, left, above, below)

    def _as_sparse(self, tile: np.ndarray):
        if not self.is_compiled:
            return None
        from odmtool.rows.sparse_tile import sparse_tile

        return sparse_tile(tile, self._least)

    def _coded(self, i: int, j: int) -> np.ndarray:
        """The tile's values as codes."""
        from odmtool.rows.narrow_loops import narrow_codes

        A, B = (self._narrow[self._slice(k)] for k in (i, j))
        codes = np.empty((len(A), len(B)), np.uint16)
        narrow_codes(A, B, codes)
        return codes

    def _add(self, tile, right, left, above, below) -> None:
        if _is_coded(tile):
            from odmtool.rows.coded_tile import add_coded_products, decoded

            # speed only: the values need not be written first
            if is_one_by_one(right):
                return one_by_one(add_coded_products, tile, right, left, above, below)
            tile = decoded(tile)
        if not isinstance(tile, np.ndarray):
            from odmtool.rows.sparse_tile import add_sparse_products

            vectors = right, left, above, below
            add_sparse_products(tile, *(v.reshape(len(v), -1) for v in vectors))
        else:
            super()._add(tile, right, left, above, below)


def _is_coded(tile) -> bool:
    return isinstance(tile, np.ndarray) and tile.dtype == np.uint16


def some_rows(rows: slice) -> slice:
    """A few of the rows, spread over all."""
    return slice(rows.start, rows.stop, max(1, (rows.stop - rows.start) // _LOOKED_AT))


def times(points: Points, a: np.ndarray) -> np.ndarray:
    """K a in double precision, one look at every pair of points; it may raise Exceeded."""
    tiles = Tiles(
        points.kernel, points.X, [(0, points.size)], kept=0.0, memory=0.0,
        executor=points.executor, is_compiled=points.is_compiled,
    )  # fmt: skip
    return tiles.times(a, may_end=True)


class Asked(NamedTuple):
    """A product with K that a problem waits for."""

    v: np.ndarray  # shape (m,)
    wanted: np.ndarray | None = None  # booleans, shape (m,): where the product is needed
    exactly: bool = False  # in double precision
    roughly: bool = False  # values may be rounded to two bytes


# speed only: when compiled code is loaded
def _pairs(V: np.ndarray) -> tuple[float, float]:
    """Pairs of an example with duals and any one, which wants a product sooner or later.

    And those in which both have some.
    """
    count = np.count_nonzero(V.any(axis=1))
    return count * len(V) - count**2 / 2, count**2 / 2


class Products:
    """K times vectors.

    Parameters
    ----------
    run : odmtool.solvers.engine.solve.EngineRun
    is_active : bool ndarray, shape (m,)
        The examples with duals in any of the problems.
    """

    def __init__(self, run, is_active: np.ndarray):
        # Tiles of examples without duals are left out; so these stand together.
        self._points, self._order = run.points, np.argsort(~is_active, kind="stable")
        self._room, self._tiles, self._first = run.tile_room, None, int(is_active.sum())
        self._cost, self._bent = run.cost, run.largest_slope
        # speed only: when compiled code is loaded
        self._expected = 0.0

    def of(self, asked: list[Asked]) -> list[np.ndarray]:
        """One pass for all; they are alike in precision. Raises Exceeded after the deadline."""
        V, points = np.column_stack([one.v for one in asked]), self._points
        some, (made, between) = [one.wanted for one in asked], _pairs(V)
        is_for_all = any(one is None for one in some)
        (is_exact,) = {one.exactly for one in asked}
        if is_exact:
            # speed only: when compiled code is loaded
            points.expect(made)
            order = np.argsort(~V.any(axis=1), kind="stable")
            return self._in_order(order, V, lambda v: times(points.rows(order), v))
        wanted = None if is_for_all else np.any(some, axis=0)
        is_active = V.any(axis=1)
        self._move_up(is_active if is_for_all else is_active | wanted)
        wanted = None if is_for_all else wanted[self._order]
        # Products without compiled code are slower, too; without it, values are kept.
        # speed only: when compiled code is loaded
        points.expect(max(0.0, made - self._expected) + _AS_VALUES * between)
        # speed only: when compiled code is loaded
        self._expected = max(made, self._expected)
        if self._tiles is None:
            X = points.single[self._order]
            self._tiles = KeptTiles(
                points.kernel, X, self._room, points.executor, points.is_compiled
            )  # fmt: skip
            self._begin()
        tiles = self._tiles
        if tiles.is_compiled != points.is_compiled:
            tiles.is_compiled = points.is_compiled
            self._begin()
        tiles.is_rough = all(one.roughly for one in asked)
        points.is_narrow &= points.is_compiled
        return self._in_order(self._order, V, lambda v: tiles.times(v, wanted=wanted, may_end=True))

    def _move_up(self, is_active: np.ndarray) -> None:
        """Let the examples with new duals follow those that have had some, where that is faster."""
        first = self._first
        is_new, count = is_active[self._order[first:]], int(is_active.sum())
        if self._are_enough(is_active, first + int(is_new.sum())):
            return
        if self._are_too_many(first + int(is_new.sum()), count):
            # Those that have had duals go back, and all tiles are made again, once.
            first, is_new = 0, is_active[self._order]
        elif not is_new.any():
            return
        order = np.argsort(~is_new, kind="stable")
        self._order[first:] = self._order[first:][order]
        self._first = first + int(is_new.sum())
        if self._tiles is not None:
            self._tiles.exchange(self._points.single[self._order], first)
            self._begin()

    def _begin(self) -> None:
        self._tiles.begins_with(self._first, can_be_coded=self._can_be_coded(self._first))

    def _can_be_coded(self, count: float) -> bool:
        """Whether so many examples leave what rounding does to conjugate gradients harmless.

        It is about that of a matrix of random numbers, whose norm grows with the root of its size.
        """
        return self._bent * np.sqrt(count) * CODED <= _HARMLESS

    # speed only: the order of examples decides which tiles have duals, and not what they give
    def _are_enough(self, is_active: np.ndarray, count: int) -> bool:
        """Whether all tiles are kept, and cheaper as they stand than with ``count`` moved up.

        What is moved up has to be made again, and then its tiles with all others.
        """
        tiles, m = self._tiles, len(is_active)
        if tiles is None or tiles.is_short:
            return False
        touched, missing = tiles.touched(is_active[self._order])
        stays = self._cost.kept(_BETWEEN * touched**2 / 2) + self._cost.made(missing)
        moved = self._cost.kept(_BETWEEN * count**2 / 2) + self._cost.made(count * (m - count / 2))
        return stays <= moved

    # speed only: the order of examples decides which tiles have duals, and not what they give
    def _are_too_many(self, first: int, count: int) -> bool:
        """Whether ``count`` examples are better off alone than among the ``first``."""
        if not self._fit(first) and self._fit(count / _REGAINED):
            return True
        fewer = self._cost.kept(_BETWEEN * (first**2 - count**2) / 2)
        return self._tiles is not None and self._cost.made(count**2 / 2) < fewer

    # speed only: the order of examples decides which tiles have duals, and not what they give
    def _fit(self, count: float) -> bool:
        """Whether there is room for the tiles between so many examples."""
        points = self._points
        is_coded = points.is_narrow and points.is_compiled and self._can_be_coded(count)
        size = _CODE / _FILLED if is_coded else points.single.dtype.itemsize
        return size * count**2 / 2 <= self._room

    @staticmethod
    def _in_order(order: np.ndarray, V: np.ndarray, times) -> list[np.ndarray]:
        product = np.empty(V.shape)
        ordered = V[order]
        product[order] = times(ordered) if V.shape[1] > 1 else times(ordered[:, 0])[:, None]
        return list(np.ascontiguousarray(product.T))
