"""A whole kernel matrix, or a block of one, made tile by tile by all threads.

Coordinate descent takes it in single precision, which is half as much to read in an epoch. Every
value is made in double precision and rounded once, so that it is known to 2^-24 of itself:
:class:`odmtool.solvers.rounding.Rounding` counts that in the gap. Each pair of examples is looked
at once; the tiles do not depend on how many threads there are.
"""

from __future__ import annotations

import numpy as np

from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.rows.tiles import tile_values

# Rows of a tile, whose numbers in double precision stay in the processor's second cache.
# speed only: rows at a time
_ROWS = 384


def filled(gram: Gram, dtype, executor) -> Gram:
    """The same with its values, which are not computed yet, in a precision.

    ``executor`` is Serial or Threads (:mod:`odmtool.rows.executor`).
    """
    K = np.empty((gram.size, gram.size), dtype)
    fill(gram.kernel, gram.X, gram.X, K, K, executor)
    return Gram.of_matrix(gram.kernel, K, gram.memory, gram.X)


def fill(kernel: Kernel, A, B, out: np.ndarray, turned: np.ndarray, executor) -> None:
    """Put the kernel values between the rows of A and B into ``out``, and their mirror image.

    Of the same rows, whose block is its own mirror image, every pair is looked at once.
    """
    from odmtool.rows.tile_loops import mirror

    def one(top: int) -> None:
        rows = slice(top, top + _ROWS)
        for left in range(top if A is B else 0, B.shape[0], _ROWS):
            columns, on_diagonal = slice(left, left + _ROWS), A is B and left == top
            tile = tile_values(kernel, A[rows], B[columns], on_diagonal)
            out[rows, columns] = tile
            if not on_diagonal:
                mirror(tile, turned[columns, rows])

    executor.map(one, range(0, A.shape[0], _ROWS))
