"""The examples of a kernel problem as the engine needs them: kernel values block by block.

Certificates use values in double precision, everything that only has to be nearly right
values in single precision, which are three to eight times as fast.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from odmtool.core import kernels
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.rows.compressed import compressed
from odmtool.rows.executor import Serial
from odmtool.rows.tiles import BY_NUMPY, SPARSE_BY_NUMPY, is_narrow, tile_values
from odmtool.solvers.rounding import sum_error
from odmtool.solvers.value_rounding import narrow_value_error, single_value_error, value_error

# speed only: rows of a block, for the processor's cache
BLOCK = 512
NOTHING = 2.0**-30
"""A kernel value below this share of the largest is less than the rounding of a sum."""


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
    """

    def __init__(self, kernel: Kernel, X, executor):
        self.kernel, self.X, self.executor, self.size = kernel, X, executor, X.shape[0]
        self._by_numpy = BY_NUMPY if isinstance(X, np.ndarray) else SPARSE_BY_NUMPY
        self.diagonal = kernels.diagonal(kernel, X).astype(float)

    @cached_property
    def single(self):
        """The rows in single precision; infinite where they are beyond it."""
        with np.errstate(over="ignore"):
            return self.X.astype(np.float32)

    def rows(self, members: np.ndarray) -> Points:
        """Some of the points."""
        some = Points(self.kernel, self.X[members], self.executor)
        some._by_numpy = self._by_numpy
        return some

    # speed only: when compiled code is loaded
    def expect(self, count: float, *, in_all: bool = False) -> None:
        """So many kernel values are about to be made, or from now on in all."""
        if not in_all or count > self._by_numpy:
            self._by_numpy -= count

    @property
    def is_compiled(self) -> bool:
        """Whether kernel values come from compiled code now."""
        # speed only: when compiled code is loaded
        return self._by_numpy < 0

    def values(self, A, B) -> np.ndarray:
        """Kernel values between rows of X or of :attr:`single`, in their precision."""
        return tile_values(self.kernel, A, B, False, is_compiled=self.is_compiled)

    def blocks(self, size: int = BLOCK) -> list[slice]:
        """Slices of neighbouring rows, the same for any number of threads."""
        return [slice(k, min(k + size, self.size)) for k in range(0, self.size, size)]

    def map(self, function, *columns) -> list:
        return self.executor.map(function, *columns)

    @cached_property
    def value_error(self) -> float:
        """See :func:`odmtool.solvers.value_rounding.value_error`."""
        return value_error(self.kernel, self.X, self._most)

    @property
    def single_value_error(self) -> float:
        """See :func:`odmtool.solvers.value_rounding.single_value_error`."""
        return min(self._single_errors[: 1 + self.is_narrow])

    @cached_property
    def _single_errors(self) -> tuple[float, float]:
        found = single_value_error(self.kernel, self.X, self._most)
        # What is beyond single precision is so in any code.
        return found, narrow_value_error(self.kernel, self.X) if found < np.inf else np.inf

    @property
    def product_error(self) -> float:
        """How far a product with K in double precision may be off, per unit of |v|_1."""
        return self.value_error + sum_error(self.size) * self.diagonal.max(initial=0.0)

    @property
    def single_product_error(self) -> float:
        """How far one in single precision may be off beside that, per unit of |v|_1."""
        return self.single_value_error + NOTHING * self._most

    @cached_property
    def is_narrow(self) -> bool:
        """Whether products in single precision are made of differences.

        To be set to False where one was not made by compiled code.
        """
        return is_narrow(self.kernel, self.single) and not self.kernel.bias

    @property
    def _most(self) -> float:
        return float(np.abs(self.diagonal).max(initial=0.0))


def points_of(gram: Gram, executor=None) -> Points:
    """The examples of a kernel matrix; without an executor one block follows the other."""
    X = compressed(gram.X) if gram.kernel.name == "rbf" else gram.X
    return Points(gram.kernel, X, executor or Serial())
