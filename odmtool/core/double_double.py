"""Numbers of about twice double precision, as the sum of two doubles, and inner products of them.

Source  Dekker, "A floating-point technique for extending the available precision", Numer. Math.
        18, 1971; for :func:`inner_products` Ozaki, Ogita, Oishi & Rump, "Error-free
        transformations of matrix multiplication", Numer. Algorithms 59, 2012.
"""

from __future__ import annotations

import numpy as np

UNIT = 2.0**-98
"""A bound of the relative error of a sum or product, of a sum relative to what is added."""
_SLICES = 4
_DIGITS = 53
_SPLITTER = 2.0**27 + 1


class DoubleDouble:
    """An array whose entries are ``high + low``, |low| at most a rounding of high.

    Sums and products take another one, or doubles.
    """

    __array_ufunc__ = None  # an array on the left leaves the work to this class

    def __init__(self, high, low=0.0):
        self.high, self.low = high, low

    def __add__(self, other) -> DoubleDouble:
        other = _of(other)
        high, error = _two_sum(self.high, other.high)
        return _renormalised(high, error + (self.low + other.low))

    def __mul__(self, other) -> DoubleDouble:
        other = _of(other)
        high, error = _two_product(self.high, other.high)
        return _renormalised(high, error + (self.high * other.low + self.low * other.high))

    def __pow__(self, zero: int) -> DoubleDouble:
        """The power 0, with which :func:`odmtool.core.kernel_table.integer_power` begins."""
        return DoubleDouble(self.high**zero)

    def row_sums(self) -> DoubleDouble:
        """The sums of the rows of a matrix, two halves at a time."""
        high, low = self.high, np.broadcast_to(self.low, self.high.shape)
        while high.shape[1] > 1:
            half = high.shape[1] // 2
            pairs = [DoubleDouble(high[:, k : k + half], low[:, k : k + half]) for k in (0, half)]
            total, rest = pairs[0] + pairs[1], slice(2 * half, None)
            high = np.hstack([total.high, high[:, rest]])
            low = np.hstack([total.low, low[:, rest]])
        return DoubleDouble(high[:, 0], low[:, 0])


def inner_products(A: list[np.ndarray], B: list[np.ndarray]) -> DoubleDouble:
    """u'v for all pairs of rows of two matrices that were cut into :func:`slices`."""
    parts = [a @ b.T for a in A for b in B]
    total = DoubleDouble(parts[0])
    for part in parts[1:]:
        total = total + part
    return total


def slices(X: np.ndarray) -> list[np.ndarray]:
    """Matrices whose sum is X, as far as it matters, of so few bits that products are exact.

    A row's slice holds integers of at most b bits, times a power of 2; d products of 2 b bits
    add up to less than 2^53, in whatever order.
    """
    bits = _bits(X.shape[1])
    exponents = np.frexp(np.abs(X).max(axis=1, initial=0.0))[1][:, None]
    found, rest = [], X
    for number in range(1, _SLICES + 1):
        shift = number * bits - exponents
        found.append(np.ldexp(np.rint(np.ldexp(rest, shift)), -shift))
        rest = rest - found[-1]
        if not rest.any():
            break
    return found


def product_error(d: int) -> float:
    """How far inner products of d terms may be off, relative to |u| |v|."""
    return (d + _SLICES**2) * (UNIT + 2.0 ** (3 - _SLICES * _bits(d)))


def _bits(d: int) -> int:
    return (_DIGITS - int(np.ceil(np.log2(max(1, d))))) // 2


def _of(number) -> DoubleDouble:
    return number if isinstance(number, DoubleDouble) else DoubleDouble(number)


def _renormalised(high, low) -> DoubleDouble:
    total = high + low
    return DoubleDouble(total, low - (total - high))


def _two_sum(a, b):
    """a + b, and what was lost when it was rounded."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def _two_product(a, b):
    """a b, and what was lost when it was rounded."""
    product = a * b
    (a1, a2), (b1, b2) = _split(a), _split(b)
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def _split(a):
    """Two numbers of 26 bits whose sum is a."""
    large = _SPLITTER * a
    high = large - (large - a)
    return high, a - high
