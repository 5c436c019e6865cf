"""The compiled loops of rbf in single precision between rows of few numbers.

Squared distances are sums of squared differences: nothing cancels as in |u|^2 + |v|^2 - 2 u'v,
where features that are not scaled leave single precision few digits. Of few numbers this is
faster, too, since a row of values is made, and multiplied, before it leaves the processor's
first cache.
"""

from __future__ import annotations

import numpy as np

from odmtool._jit import fused_njit, njit
from odmtool.rows.coded_tile import take_codes
from odmtool.rows.tile_loops import LANES, add_lanes, sum_lanes

# Columns at a time: what belongs to them stays in the first cache.
WIDTH = 16 * LANES


@fused_njit
def squared_distances(row, columns, out):
    """out_j = |row - columns_j|^2, four numbers at a time.

    Parameters
    ----------
    row : ndarray, shape (4 d,)
    columns : ndarray, shape (4 d, n)
    out : ndarray, shape (n,)
    """
    if len(row) == 0:
        out[:] = 0
    for k in range(0, len(row), 4):
        first, second, third, fourth = row[k], row[k + 1], row[k + 2], row[k + 3]
        ones, twos, threes, fours = columns[k], columns[k + 1], columns[k + 2], columns[k + 3]
        # In this order every product but one has a sum to be fused with.
        if k == 0:
            for j in range(len(out)):
                a, b = ones[j] - first, twos[j] - second
                c, d = threes[j] - third, fours[j] - fourth
                out[j] = ((a * a + b * b) + c * c) + d * d
            continue
        for j in range(len(out)):
            a, b, c, d = ones[j] - first, twos[j] - second, threes[j] - third, fours[j] - fourth
            out[j] = (((out[j] + a * a) + b * b) + c * c) + d * d


@fused_njit
def negative_powers(values):
    """2^-x of every x >= 0, in place; no number is below 2^-126.

    With n = round(x) and r = x - n, |r| <= 1/2, this is 2^-n times the series of 2^-r.
    """
    # Added to a small number, its last bits are the number's rounded value.
    most, shift, one = np.float32(126.0), np.float32(12582912.0), np.float32(1.0)
    first, second = np.float32(-0.6931471805599453), np.float32(0.2402265069591007)
    third, fourth = np.float32(-0.05550410866482158), np.float32(0.009618129107628477)
    fifth, sixth = np.float32(-0.0013333558146428443), np.float32(0.00015403530393381608)
    seventh = np.float32(-1.5252733804059841e-05)
    for j in range(len(values)):
        x = values[j]
        x = x if x < most else most
        shifted = x + shift
        r = x - (shifted - shift)
        series = seventh * r + sixth
        series = series * r + fifth
        series = series * r + fourth
        series = series * r + third
        series = series * r + second
        series = series * r + first
        series = series * r + one
        bits = np.float32(shifted).view(np.int32)
        power = np.int32((np.int32(127) - bits) << np.int32(23))
        values[j] = series * power.view(np.float32)


@njit
def spread_columns(B, out):
    """The rows of B as columns; what B does not have is 0."""
    out[:] = 0
    for j in range(B.shape[0]):
        for k in range(B.shape[1]):
            out[k, j] = B[j, k]


@njit
def narrow_tile(A, B, tile):
    """2^-|a - b|^2 for all pairs of rows.

    Parameters
    ----------
    A : ndarray, shape (m, 4 d)
    B : ndarray, shape (n, 4 d)
    tile : ndarray, shape (m, n)
    """
    n = B.shape[0]
    columns = np.empty((A.shape[1], WIDTH), tile.dtype)
    for start in range(0, n, WIDTH):
        end = min(start + WIDTH, n)
        spread_columns(B[start:end], columns)
        for i in range(A.shape[0]):
            values = tile[i, start:end]
            squared_distances(A[i], columns, values)
            negative_powers(values)


@njit
def narrow_codes(A, B, codes):
    """The same values as codes (:mod:`odmtool.rows.coded_tile`), uint16, shape (m, n)."""
    n = B.shape[0]
    columns, room = np.empty((A.shape[1], WIDTH), A.dtype), np.empty(WIDTH, A.dtype)
    for start in range(0, n, WIDTH):
        end = min(start + WIDTH, n)
        spread_columns(B[start:end], columns)
        values = room[: end - start]
        for i in range(A.shape[0]):
            squared_distances(A[i], columns, values)
            negative_powers(values)
            take_codes(values, codes[i, start:end])


@njit
def add_narrow_products(A, B, right, left, above, below):
    """above += tile right and below += left'tile, as tile_loops.add_products does it.

    Values are made row by row, and never the tile.

    Parameters
    ----------
    A, B : ndarrays
        As for :func:`narrow_tile`.
    right, below : ndarrays, shape (n,)
    left, above : ndarrays, shape (m,)
    """
    n, sums = B.shape[0], np.zeros((A.shape[0], LANES))
    columns, room = np.empty((A.shape[1], WIDTH), A.dtype), np.empty(WIDTH, A.dtype)
    for start in range(0, n, WIDTH):
        end = min(start + WIDTH, n)
        spread_columns(B[start:end], columns)
        values, some_right, some_below = room[: end - start], right[start:end], below[start:end]
        for i in range(A.shape[0]):
            squared_distances(A[i], columns, values)
            negative_powers(values)
            lanes = sums[i]
            add_lanes(values, some_right, left[i], lanes, some_below)
            if end == n:
                above[i] += sum_lanes(values, some_right, left[i], lanes, some_below)
