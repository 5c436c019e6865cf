"""K times vectors of all examples, one pass for as many as are asked for.

In single precision the tiles of K are kept as far as there is room; in double precision, for
certificates, they are made again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool.core import kernels
from odmtool.rows.tiles import Tiles
from odmtool.solvers.engine.certificate import times

# What a product takes longer without compiled code, in kernel values.
_AS_VALUES = 0.1
# A kernel value below this share of the largest is less than the rounding of a sum.
_NOTHING = 2.0**-30


class KeptTiles(Tiles):
    """K in single precision, whose tiles above the diagonal are kept while they fit.

    One nearly all of whose values are below rounding is kept as sparse rows.

    Parameters
    ----------
    kernel, X, executor
        As of :class:`odmtool.rows.tiles.Tiles`.
    room : float
        Bytes for tiles.
    is_compiled : bool
        Else all tiles are kept as they are.
    """

    def __init__(self, kernel, X, room: float, executor, is_compiled: bool = True):
        super().__init__(
            kernel, X, [(0, X.shape[0])], kept=0.0, memory=0.0, executor=executor,
            is_compiled=is_compiled,
        )  # fmt: skip
        self._kept, self._room = {}, room
        self._is_dense = np.zeros(self._filled.shape, dtype=bool)
        self._least = _NOTHING * float(np.abs(kernels.diagonal(kernel, self.X)).max(initial=0.0))

    def _tile(self, i: int, j: int, scratch=None):
        """An ndarray or a SparseTile."""
        kept = self._kept.get((i, j))
        if kept is not None:
            return kept
        tile = super()._tile(i, j, scratch)
        # This depends on the values only, not on what there is room for.
        found = None if self._is_dense[i, j] else self._as_sparse(tile)
        self._is_dense[i, j] = found is None
        found = tile if found is None else found
        if found.nbytes <= self._room:
            self._room -= found.nbytes
            found = self._kept[i, j] = tile.copy() if found is tile else found
        return found

    def _as_sparse(self, tile: np.ndarray):
        if not self.is_compiled:
            return None
        from odmtool.rows.sparse_tile import sparse_tile

        return sparse_tile(tile, self._least)

    def _add(self, tile, right, left, above, below) -> None:
        if not isinstance(tile, np.ndarray):
            from odmtool.rows.sparse_tile import add_sparse_products

            vectors = right, left, above, below
            add_sparse_products(tile, *(v.reshape(len(v), -1) for v in vectors))
        else:
            super()._add(tile, right, left, above, below)


class Asked(NamedTuple):
    """A product with K that a problem waits for.

    Attributes
    ----------
    v : ndarray, shape (m,)
    wanted : bool ndarray, shape (m,), or None
        Where the product is needed.
    exactly : bool
        In double precision.
    """

    v: np.ndarray
    wanted: np.ndarray | None = None
    exactly: bool = False


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
        self._room, self._tiles = run.tile_room, None

    def of(self, asked: list[Asked]) -> list[np.ndarray]:
        """One pass for all; they are alike in precision."""
        V, points = np.column_stack([one.v for one in asked]), self._points
        if self._tiles is None or asked[0].exactly:
            points.expect(np.count_nonzero(V.any(axis=1)) ** 2 / 2)
        if asked[0].exactly:
            order = np.argsort(~V.any(axis=1), kind="stable")
            return self._in_order(order, V, lambda v: times(points.rows(order), v))
        some = [one.wanted for one in asked]
        wanted = None if any(one is None for one in some) else np.any(some, axis=0)[self._order]
        if self._tiles is None:
            X = points.single[self._order]
            self._tiles = KeptTiles(
                points.kernel, X, self._room, points.executor, points.is_compiled
            )  # fmt: skip
        tiles = self._tiles
        # Products without compiled code are slower, too.
        points.expect(_AS_VALUES * np.count_nonzero(V.any(axis=1)) ** 2 / 2)
        tiles.is_compiled = points.is_compiled
        return self._in_order(
            self._order, V, lambda v: tiles.times(v, is_last=True, wanted=wanted)
        )  # fmt: skip

    @staticmethod
    def _in_order(order: np.ndarray, V: np.ndarray, times) -> list[np.ndarray]:
        product = np.empty(V.shape)
        ordered = V[order]
        product[order] = times(ordered) if V.shape[1] > 1 else times(ordered[:, 0])[:, None]
        return list(np.ascontiguousarray(product.T))
