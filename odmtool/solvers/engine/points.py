"""The examples of a kernel problem as the engine needs them: kernel values block by block.

Certificates use values in double precision, everything that only has to be nearly right
values in single precision, which are three to eight times as fast.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from odmtool.core import kernels
from odmtool.core.kernel_table import DISTANCES
from odmtool.core.kernels import Kernel

# Rows of a block, for the processor's cache.
BLOCK = 512
_ROUNDING = float(np.finfo(float).eps) / 2


class Points:
    """Rows, their kernel, and where blocks of them are worked on.

    Parameters
    ----------
    kernel : Kernel
        Positive semidefinite.
    X : csr_matrix or ndarray, shape (m, d)
        In double precision.
    executor : optional
        Shares this process's memory (:mod:`odmtool.rows.executor`).
    compiled : bool
        Use compiled code, which takes half a second to load.
    """

    def __init__(self, kernel: Kernel, X, executor, compiled: bool = True):
        self.kernel, self.X, self.executor, self._compiled = kernel, X, executor, compiled
        self.size = X.shape[0]
        self.diagonal = kernels.diagonal(kernel, X).astype(float)

    @cached_property
    def single(self):
        """The rows in single precision."""
        return self.X.astype(np.float32)

    def rows(self, members: np.ndarray) -> Points:
        """Some of the points."""
        return Points(self.kernel, self.X[members], self.executor, self._compiled)

    def values(self, A, B) -> np.ndarray:
        """Kernel values between rows of X or of :attr:`single`, in their precision."""
        if not self._compiled:
            return kernels.block(self.kernel, A, B)
        from odmtool.rows.tiles import tile_values

        return tile_values(self.kernel, A, B, False)

    def blocks(self, size: int = BLOCK) -> list[slice]:
        """Slices of neighbouring rows, the same for any number of threads."""
        return [slice(k, min(k + size, self.size)) for k in range(0, self.size, size)]

    def map(self, function, *columns) -> list:
        return self.executor.map(function, *columns)

    @cached_property
    def value_error(self) -> float:
        """A bound of the rounding error of a kernel value in double precision.

        An inner product of n terms is off by at most n roundings of |u| |v|, a squared distance
        by as many of (|u| + |v|)^2; what that does to a value the kernel's row knows.
        """
        terms = self.X.shape[1] if isinstance(self.X, np.ndarray) else np.diff(self.X.indptr).max()
        largest = float(kernels.squares(self.X).max(initial=0.0))
        row, share = self.kernel.row, (int(terms) + 8) * _ROUNDING
        size = 4 * largest if row.of == DISTANCES else largest
        relative, absolute = row.rounding(self.kernel, size, share, np)
        most = float(np.abs(self.diagonal).max(initial=0.0))
        return absolute + (relative + 8 * _ROUNDING) * most
