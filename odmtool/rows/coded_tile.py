"""Tiles of values between 0 and 1 in two bytes each, for conjugate gradients.

A product with one reads half of what single precision takes from memory, which is what a product
waits for, and takes half of the time. Every value is off by 2^-17 at most, one to this side and
one to the other.
"""

from __future__ import annotations

import numpy as np

from odmtool._jit import fused_njit, njit
from odmtool.rows.tile_loops import LANES

# The code of 1.
_ONE = 65535


def decoded(codes: np.ndarray) -> np.ndarray:
    """About the values, in single precision."""
    return codes * np.float32(1 / _ONE)


@njit
def take_codes(values, codes):
    """codes = the values times 65535, rounded."""
    one, half = np.float32(_ONE), np.float32(0.5)
    for j in range(len(values)):
        codes[j] = np.uint16(np.int32(values[j] * one + half))


@fused_njit
def add_coded_lanes(codes, right, left, lanes, below):
    """lanes += codes right, every LANES-th in the same one, and below += left codes.

    What is left of codes after whole LANES goes to the first ones.
    """
    whole = len(codes) // LANES * LANES
    for j in range(0, whole, LANES):
        for k in range(LANES):
            value = np.float32(np.int32(codes[j + k]))
            lanes[k] += value * right[j + k]
            below[j + k] += value * left
    for j in range(whole, len(codes)):
        value = np.float32(np.int32(codes[j]))
        lanes[j - whole] += value * right[j]
        below[j] += value * left


@njit
def to_single(v, out):
    """out = v / s in single precision, where s = max |v|; returns s, or 1 if it is 0."""
    most = 0.0
    for value in v:
        most = max(most, abs(value))
    most = most if most > 0 else 1.0
    for j in range(len(v)):
        out[j] = v[j] / most
    return most


@njit
def add_coded_products(codes, right, left, above, below):
    """above += tile right and below += tile'left, summed up in single precision.

    Parameters
    ----------
    codes : uint16 ndarray, shape (m, n)
        Of the tile's values.
    right, below : ndarrays, shape (n,)
    left, above : ndarrays, shape (m,)
    """
    m, n = codes.shape
    by_right, by_left = np.empty(n, np.float32), np.empty(m, np.float32)
    of_right, of_left = to_single(right, by_right) / _ONE, to_single(left, by_left) / _ONE
    lanes, sums = np.empty(LANES, np.float32), np.zeros(n, np.float32)
    for i in range(m):
        lanes[:] = 0
        add_coded_lanes(codes[i], by_right, by_left[i], lanes, sums)
        total = 0.0
        for k in range(LANES):
            total += lanes[k]
        above[i] += total * of_right
    for j in range(n):
        below[j] += sums[j] * of_left
