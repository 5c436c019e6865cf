"""The compiled loops of :mod:`odmtool.rows.tiles`: values of a tile, and products with it."""

from __future__ import annotations

import numpy as np

from odmtool._jit import fused_njit, njit

# So many sums side by side are what the compiler turns into vectors.
LANES = 32
# A column in which one of so many rows has something is dense.
# speed only: which of two ways makes the same values
COMMON = 16


@njit
def exponents(tile, squares_a, squares_b, gamma):
    """Turn inner products into exponents of rbf, in place, rounded as by kernels.block.

    In one call: between many short ones, threads would wait for the interpreter's lock.
    """
    rows, columns = tile.shape
    factor, zero = -tile.dtype.type(gamma), tile.dtype.type(0)
    for i in range(rows):
        for j in range(columns):
            distance = (squares_a[i] + squares_b[j]) - 2 * tile[i, j]
            tile[i, j] = max(distance, zero) * factor


@fused_njit
def exponentials(tile):
    """exp of every number <= 0 in double precision, in place, to within a unit in the last place.

    NumPy's own takes twice to eight times as long where the processor has no AVX-512. With
    n = round(x / ln 2) and r = x - n ln 2, |r| <= 0.35, this is 2^n times the series of e^r.
    """
    rows, columns = tile.shape
    # Added to a small number, its last bits are the number's rounded value.
    shift = 6755399441055744.0
    for i in range(rows):
        for j in range(columns):
            x = tile[i, j]
            x = x if x > -700.0 else -700.0
            shifted = x * 1.4426950408889634 + shift
            n = shifted - shift
            r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10
            series = 1.0 / 6227020800.0
            series = series * r + 1.0 / 479001600.0
            series = series * r + 1.0 / 39916800.0
            series = series * r + 1.0 / 3628800.0
            series = series * r + 1.0 / 362880.0
            series = series * r + 1.0 / 40320.0
            series = series * r + 1.0 / 5040.0
            series = series * r + 1.0 / 720.0
            series = series * r + 1.0 / 120.0
            series = series * r + 1.0 / 24.0
            series = series * r + 1.0 / 6.0
            series = series * r + 0.5
            series = series * r + 1.0
            series = series * r + 1.0
            bits = np.float64(shifted).view(np.int64)
            tile[i, j] = series * np.int64((bits + 1023) << 52).view(np.float64)


@fused_njit
def single_exponentials(tile):
    """The same in single precision, where no number is below e^-87, in a third of NumPy's time."""
    rows, columns = tile.shape
    least, shift = np.float32(-87.0), np.float32(12582912.0)
    by_two, high, low = np.float32(1.44269504), np.float32(0.693359375), np.float32(2.12194440e-4)
    one, half, third = np.float32(1.0), np.float32(1 / 2), np.float32(1 / 6)
    fourth, fifth = np.float32(1 / 24), np.float32(1 / 120)
    sixth, seventh = np.float32(1 / 720), np.float32(1 / 5040)
    for i in range(rows):
        for j in range(columns):
            x = tile[i, j]
            x = x if x > least else least
            shifted = x * by_two + shift
            n = shifted - shift
            r = (x - n * high) + n * low
            series = seventh * r + sixth
            series = series * r + fifth
            series = series * r + fourth
            series = series * r + third
            series = series * r + half
            series = series * r + one
            series = series * r + one
            bits = np.float32(shifted).view(np.int32)
            power = np.int32((bits + np.int32(127)) << np.int32(23))
            tile[i, j] = series * power.view(np.float32)


@fused_njit
def sparse_exponents(a, b, gamma, columns, tile):
    """The same for sparse rows, inner products included.

    Parameters
    ----------
    a, b : tuples of data, indices and indptr
    gamma : float
    columns : ndarray, shape (d, n)
        Room for the rows of b, as columns.
    tile : ndarray, shape (m, n)
        Gets the exponents.
    """
    (a_data, a_places, a_start), (b_data, b_places, b_start) = a, b
    rows, n = tile.shape
    factor, zero = -tile.dtype.type(gamma), tile.dtype.type(0)
    squares = np.zeros(n, tile.dtype)
    columns[:] = 0
    for j in range(n):
        for p in range(b_start[j], b_start[j + 1]):
            columns[b_places[p], j] = b_data[p]
            squares[j] += b_data[p] * b_data[p]
    products = np.empty(n, tile.dtype)
    for i in range(rows):
        products[:] = 0
        square = zero
        for p in range(a_start[i], a_start[i + 1]):
            value, column = a_data[p], columns[a_places[p]]
            square += value * value
            for j in range(n):
                products[j] += value * column[j]
        for j in range(n):
            tile[i, j] = max((square + squares[j]) - 2 * products[j], zero) * factor


@fused_njit
def wide_exponents(a, b, gamma, number, tile):
    """The same where the columns are too many for a dense matrix of them.

    Those in which b has something are numbered as they occur, and its values stand by column; the
    few that many rows of b have are dense.

    ``number`` (int32 array of zeros, shape (d,)): gets the numbers, from 1.
    """
    (a_data, a_places, a_start), (b_data, b_places, b_start) = a, b
    rows, n = tile.shape
    factor, zero = -tile.dtype.type(gamma), tile.dtype.type(0)
    first = np.zeros(len(b_places) + 2, np.int64)
    count = 0
    for p in range(len(b_places)):
        if number[b_places[p]] == 0:
            count += 1
            number[b_places[p]] = count
        first[number[b_places[p]] + 1] += 1
    common, commons = np.zeros(count + 1, np.int64), 0
    for c in range(1, count + 1):
        if COMMON * first[c + 1] >= n:
            commons += 1
            common[c] = commons
        first[c + 1] += first[c]
    columns = np.zeros((commons + 1, n), tile.dtype)
    owner, values = np.empty(len(b_places), np.int32), np.empty(len(b_places), tile.dtype)
    squares = np.zeros(n, tile.dtype)
    for j in range(n):
        for p in range(b_start[j], b_start[j + 1]):
            c = number[b_places[p]]
            columns[common[c], j] = b_data[p]
            owner[first[c]], values[first[c]] = j, b_data[p]
            first[c] += 1
            squares[j] += b_data[p] * b_data[p]
    products = np.empty(n, tile.dtype)
    for i in range(rows):
        products[:] = 0
        square = zero
        for p in range(a_start[i], a_start[i + 1]):
            value, c = a_data[p], number[a_places[p]]
            square += value * value
            if c > 0 and common[c] > 0:
                column = columns[common[c]]
                for j in range(n):
                    products[j] += value * column[j]
            elif c > 0:
                for q in range(first[c - 1], first[c]):
                    products[owner[q]] += value * values[q]
        for j in range(n):
            tile[i, j] = max((square + squares[j]) - 2 * products[j], zero) * factor


@fused_njit
def add_lanes(values, right, left, lanes, below):
    """lanes += values right, every LANES-th in the same one, and below += left values.

    In double precision; what is left of values after whole LANES is :func:`sum_lanes`' to add.
    """
    for j in range(0, len(values) // LANES * LANES, LANES):
        for k in range(LANES):
            value = np.float64(values[j + k])
            lanes[k] += value * right[j + k]
            below[j + k] += value * left


@njit
def sum_lanes(values, right, left, lanes, below):
    """The sum of lanes and of what :func:`add_lanes` left of values right; below gets the rest."""
    total = 0.0
    for k in range(LANES):
        total += lanes[k]
    for j in range(len(values) // LANES * LANES, len(values)):
        value = np.float64(values[j])
        total += value * right[j]
        below[j] += value * left
    return total


@njit
def add_products(tile, right, left, above, below):
    """above += tile right and below += left'tile, in double precision."""
    lanes = np.zeros(LANES)
    for i in range(tile.shape[0]):
        lanes[:] = 0.0
        add_lanes(tile[i], right, left[i], lanes, below)
        above[i] += sum_lanes(tile[i], right, left[i], lanes, below)


@njit
def mirror(tile, out):
    """out = tile', a square of the processor's cache at a time."""
    m, n = tile.shape
    for top in range(0, m, 32):
        for left in range(0, n, 32):
            for j in range(left, min(left + 32, n)):
                for i in range(top, min(top + 32, m)):
                    out[j, i] = tile[i, j]
