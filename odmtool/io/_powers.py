"""Powers of ten as sums of two doubles, with which numbers are read and written exactly.

Source  Dekker, "A floating-point technique for extending the available precision", Numer. Math.
        18, 1971.
"""

from __future__ import annotations

import functools

import numpy as np

from odmtool._jit import njit

LARGEST_POWER = 250
_SPLITTER = 2.0**27 + 1.0


@functools.cache
def powers_of_ten() -> np.ndarray:
    """10**e for e = -250..250 as sums of two doubles, shape (501, 2)."""
    table = np.empty((2 * LARGEST_POWER + 1, 2))
    for exponent in range(-LARGEST_POWER, LARGEST_POWER + 1):
        numerator, denominator = 10 ** max(exponent, 0), 10 ** max(-exponent, 0)
        high = numerator / denominator  # integers divide with correct rounding
        a, b = high.as_integer_ratio()
        low = (numerator * b - a * denominator) / (denominator * b)
        table[exponent + LARGEST_POWER] = high, low
    return table


@njit
def exact_product(a, b):
    """a * b, and what was lost when it was rounded."""
    product = a * b
    scaled = _SPLITTER * a
    a_1 = scaled - (scaled - a)
    a_2 = a - a_1
    scaled = _SPLITTER * b
    b_1 = scaled - (scaled - b)
    b_2 = b - b_1
    return product, a_2 * b_2 - (((product - a_1 * b_1) - a_2 * b_1) - a_1 * b_2)
