"""How far rounding puts a kernel value off: in double precision, in single, and from few features.

What the errors of inner products and distances do to a value, the kernel's row of the table knows
(:mod:`odmtool.core.kernel_table`); what they do to margins and gaps stands in
:mod:`odmtool.solvers.rounding`.
"""

from __future__ import annotations

import numpy as np

from odmtool.core import kernels
from odmtool.core.kernel_table import DISTANCES
from odmtool.core.kernels import Kernel
from odmtool.rows.spread import pieces_of

UNIT = float(np.finfo(float).eps) / 2
"""The largest relative error of one operation in double precision."""

SINGLE_UNIT = float(np.finfo(np.float32).eps) / 2
"""The same in single precision."""

# Numbers of these sizes, their roots and products lie well inside of what single precision holds.
_LEAST_SINGLE, _MOST_SINGLE = 2.0**-60, 2.0**60
# Up to this the square of a relative error is not worth a tenth of it.
_FIRST_ORDER = 1e-3


def value_error(kernel: Kernel, X, most: float) -> float:
    """A bound of the rounding error of a kernel value in double precision.

    Parameters
    ----------
    X : CSR, csr_matrix or ndarray, shape (m, d)
    most : float
        The largest |k(x, x)|.
    """
    return off_by(kernel, *value_errors(kernel, X), most)


def single_value_error(kernel: Kernel, X, most: float) -> float:
    """The same in single precision, rows rounded to it included.

    A row's rounding changes an inner product by two roundings more; what the values' own
    roundings do grows as the unit. e^-87 is the least that single precision has. The bound is
    infinite where rows, gamma or values might overflow, or vanish.
    """
    terms, size = _terms_and_size(kernel, X)
    if not all(_LEAST_SINGLE <= x <= _MOST_SINGLE for x in (size, abs(kernel.gamma) or 1.0, most)):
        return np.inf
    exactly, unit = np.array(kernel.row.rounding(kernel, size, 0.0, np)), SINGLE_UNIT / UNIT
    found = np.array(kernel.row.rounding(kernel, size, (terms + 12) * SINGLE_UNIT, np))
    relative, absolute = found + (unit - 1) * exactly
    least = 2 * np.exp(-86.0) if kernel.row.of == DISTANCES else 0.0
    return off_by(kernel, float(relative), float(absolute), most, SINGLE_UNIT) + least


def narrow_value_error(kernel: Kernel, X) -> float:
    """The same of :mod:`odmtool.rows.narrow_loops`, where nothing cancels.

    There a squared distance D is summed up from differences of numbers that two roundings each,
    of the row and of its product with the root of gamma, have changed by 2 u R: with the factor's
    own rounding, those of the differences, their squares and sums of d numbers, D is off by at
    most 8 u R sqrt(D) + (d + 4) u D. 2^-D changes by the share ln 2 of that, at most
    u (2.9 R + .37 (d + 4)), and by eight roundings of its series. The bound is
    infinite where the first order is not enough; rows and gamma are those that single precision
    has (:func:`single_value_error`).
    """
    terms, largest = _measures(X)
    size = np.sqrt(abs(kernel.gamma) * np.log2(np.e) * largest)
    if not size <= _FIRST_ORDER / SINGLE_UNIT:
        return np.inf
    return float(1.1 * (2.9 * size + 0.37 * (terms + 4) + 8) * SINGLE_UNIT + 2.0**-125)


def off_by(
    kernel: Kernel, relative: float, absolute: float, most: float, unit: float = UNIT
) -> float:
    """How far a value may be off in all, at most ``most`` in size."""
    # Without the constant, values of distances lie between 0 and 1.
    return absolute + min(relative, 1.0) * (most - kernel.bias**2) + 8 * unit * most


def value_errors(kernel: Kernel, X) -> tuple[float, float]:
    """How far values may be off, relatively and absolutely.

    An inner product of n terms is off by at most n roundings of |u| |v|, a squared distance
    by as many of (|u| + |v|)^2; what that does to a value the kernel's row knows.
    """
    terms, size = _terms_and_size(kernel, X)
    return kernel.row.rounding(kernel, size, (terms + 8) * UNIT, np)


def _terms_and_size(kernel: Kernel, X) -> tuple[int, float]:
    """The most terms of what a value is computed from, and its largest size."""
    terms, largest = np.max(pieces_of(X).each(_measures), axis=0)
    return int(terms), 4 * largest if kernel.row.of == DISTANCES else largest


def _measures(X) -> tuple[int, float]:
    """The most terms of an inner product, and the largest |x|^2."""
    terms = X.shape[1] if isinstance(X, np.ndarray) else np.diff(X.indptr).max(initial=0)
    return int(terms), float(kernels.squares(X).max(initial=0.0))
