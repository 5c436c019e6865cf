"""A whole kernel matrix, made tile by tile by all threads.

Coordinate descent takes it in single precision, which is half as much to read in an epoch. Every
value is made in double precision and rounded once, so that it is known to 2^-24 of itself:
:class:`odmtool.solvers.rounding.Rounding` counts that in the gap. Each pair of examples is looked
at once; the tiles do not depend on how many threads there are.
"""

from __future__ import annotations

import numpy as np

from odmtool.core.gram import Gram
from odmtool.rows.tiles import tile_values

# Rows of a tile, whose numbers in double precision stay in the processor's second cache.
# speed only: rows at a time
_ROWS = 384


def filled(gram: Gram, dtype, executor) -> Gram:
    """The same with its values, which are not computed yet, in a precision.

    ``executor`` is Serial or Threads (:mod:`odmtool.rows.executor`).
    """
    from odmtool.rows.tile_loops import mirror

    kernel, X, m = gram.kernel, gram.X, gram.size
    K = np.empty((m, m), dtype)

    def fill(top: int) -> None:
        rows = slice(top, top + _ROWS)
        for left in range(top, m, _ROWS):
            columns = slice(left, left + _ROWS)
            tile = tile_values(kernel, X[rows], X[columns], left == top)
            K[rows, columns] = tile
            if left > top:
                mirror(tile, K[columns, rows])

    executor.map(fill, range(0, m, _ROWS))
    return Gram.of_matrix(kernel, K, gram.memory, X)
