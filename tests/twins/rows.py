"""Twins of the compiled functions of the tiles of a kernel matrix."""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from odmtool.rows import coded_tile, narrow_loops, sparse_tile, tile_loops
from twins.making import Twin, dense, matrix, table


def distances(tile, squares_a, squares_b, gamma):
    for i, a in enumerate(squares_a):
        for j, b in enumerate(squares_b):
            tile[i, j] = -gamma * max(a + b - 2 * float(tile[i, j]), 0.0)


def distance_cases(generator):
    """Rows that are equal, whose distance rounding may make negative, among them."""
    for dtype in (float, np.float32):
        for m, n in ((5, 4), (1, 1), (0, 3)):
            A, B = generator.standard_normal((m, 3)), generator.standard_normal((n, 3))
            B[: min(m, n)] = A[: min(m, n)]
            squares = (A**2).sum(axis=1) * (1 - 1e-7), (B**2).sum(axis=1)
            yield (A @ B.T).astype(dtype), *(each.astype(dtype) for each in squares), 0.7


def powers(tile):
    """Below -700 is as good as -700."""
    for i, row in enumerate(tile):
        tile[i] = [math.exp(max(x, -700.0)) for x in row]


def power_cases(generator):
    halves = np.arange(0, 40) / 2 * math.log(2)
    yield (-generator.random((20, 20)) * 10.0 ** generator.uniform(-9, 3, (20, 1)),)
    yield (-np.array([[0.0, 1e-300, 1.0, 699.999, 700.0, 700.001, 1e300, np.inf]]),)
    # Where the rounding changes.
    yield (-np.array([np.nextafter(halves, 0), halves, np.nextafter(halves, 99)]),)
    yield (np.empty((0, 3)),)


def single_powers(tile):
    for i, row in enumerate(tile):
        tile[i] = [math.exp(max(float(x), -87.0)) for x in row]


def single_power_cases(generator):
    with np.errstate(over="ignore"):
        for (tile,) in power_cases(generator):
            yield (tile.astype(np.float32),)


def sparse_distances(a, b, gamma, columns, tile):
    A, B = (dense(*rows, len(columns)) for rows in (a, b))
    for i, u in enumerate(A):
        for j, v in enumerate(B):
            tile[i, j] = -gamma * ((u - v) ** 2).sum()


def the_tile(result, arguments):
    return result, arguments[-1]


def sparse_cases(generator):
    d = 6
    for dtype in (float, np.float32):
        for m, n in ((7, 5), (1, 1)):
            A, B = (sparse.csr_matrix(matrix(generator, k, d).astype(dtype)) for k in (m, n))
            a, b = ((X.data, X.indices, X.indptr) for X in (A, B))
            yield a, b, 0.7, np.full((d, n), np.nan, dtype), np.full((m, n), np.nan, dtype)


def wide_distances(a, b, gamma, number, tile):
    sparse_distances(a, b, gamma, number, tile)


def wide_cases(generator):
    """Columns in which only one of the two has something, and rows without anything."""
    for a, b, gamma, columns, tile in sparse_cases(generator):
        yield a, b, gamma, np.zeros(len(columns) + 2, np.int32), tile
    a, b = (sparse.csr_matrix(np.eye(4, 9, k=k)) for k in (0, 2))
    a, b = ((X.data, X.indices, X.indptr) for X in (a[[0, 3]], b[[1, 0]]))
    yield a, b, 0.7, np.zeros(9, np.int32), np.full((2, 2), np.nan)


def both_products(tile, right, left, above, below):
    above += tile.astype(float) @ right
    below += left @ tile.astype(float)


def product_cases(generator):
    """Widths around those that the compiled function takes together."""
    for dtype in (float, np.float32):
        for m, n in ((3, 0), (0, 5), (4, 31), (3, 32), (2, 33), (5, 70)):
            tile = generator.standard_normal((m, n)).astype(dtype)
            right, below = generator.standard_normal((2, n))
            yield tile, right, generator.standard_normal(m), generator.standard_normal(m), below


def lanes_of(values, right, left, lanes, below):
    whole = len(values) // 32 * 32
    lanes += (values[:whole].astype(float) * right[:whole]).reshape(-1, 32).sum(axis=0)
    below[:whole] += left * values[:whole].astype(float)


def sum_of_lanes(values, right, left, lanes, below):
    rest = slice(len(values) // 32 * 32, None)
    below[rest] += left * values[rest].astype(float)
    return lanes.sum() + values[rest].astype(float) @ right[rest]


def lane_cases(generator):
    for tile, right, _above, left, below in product_cases(generator):
        for row, own in zip(tile, left, strict=True):
            yield row, right, own, generator.standard_normal(32), below.copy()


def large_before(tile, least, starts):
    starts[1:] = np.cumsum((abs(tile) > least).sum(axis=1))


def large_values(tile, least, found):
    rows, columns = np.nonzero(abs(tile) > least)
    found.values[:], found.columns[:] = tile[rows, columns], columns


def large_cases(generator):
    """As they are used: tiles in single precision, and a bound in double."""
    for m, n in ((3, 0), (0, 5), (4, 31)):
        tile = generator.standard_normal((m, n)).astype(np.float32)
        yield tile, float(abs(tile).flat[0]) if tile.size else 0.5, np.zeros(m + 1, np.int64)


def taken_cases(generator):
    for tile, least, starts in large_cases(generator):
        count = int((abs(tile) > least).sum())
        yield tile, least, sparse_tile.SparseTile(
            np.empty(count, tile.dtype), np.empty(count, np.uint16), starts
        )  # fmt: skip


def both_sparse_products(tile, right, left, above, below):
    rows = sparse.csr_matrix((tile.values, tile.columns, tile.starts), (len(left), len(right)))
    above += rows.toarray().astype(float) @ right
    below += rows.toarray().astype(float).T @ left


def sparse_product_cases(generator):
    for tile, *vectors in product_cases(generator):
        if tile.dtype != np.float32:
            continue
        rows = sparse.csr_matrix(tile * (abs(tile) > 1))
        columns = rows.indices.astype(np.uint16)
        found = sparse_tile.SparseTile(rows.data, columns, rows.indptr.astype(np.int64))
        for q in (1, 3):
            yield found, *(v[:, None] * np.arange(1.0, q + 1) for v in vectors)


def codes_of(values, codes):
    codes[:] = np.floor(values * np.float32(65535) + np.float32(0.5))


def code_cases(generator):
    for n in (0, 3, 40):
        values = generator.random(n, dtype=np.float32)
        values[:3] = [0.0, 1.0, 1.25 / 65535][:n]
        yield values, np.full(n, 7, np.uint16)


def narrow_coded(A, B, codes):
    tile = np.empty(codes.shape, np.float32)
    narrow_values(A, B, tile)
    codes_of(tile, codes)


def narrow_code_cases(generator):
    """Rows of whole numbers, whose values are powers of two without rounding."""
    for A, B, tile in narrow_cases(generator):
        yield np.floor(2 * A), np.floor(2 * B), np.full(tile.shape, 7, np.uint16)


def coded_lanes(codes, right, left, lanes, below):
    rest = -len(codes) % 32
    products = np.r_[codes * right, np.zeros(rest)].reshape(-1, 32)
    lanes += products.sum(axis=0)
    below += left * codes


def coded_lane_cases(generator):
    for codes, _right, left, *_others in coded_cases(generator):
        for row, own in zip(codes, left.astype(np.float32), strict=True):
            right_now, below = (generator.random((2, len(row))) / 65535).astype(np.float32)
            yield row, right_now, own, generator.random(32, dtype=np.float32), below


def largest_one(v, out):
    """v in units of its largest number."""
    most = max([abs(x) for x in v if x], default=1.0)
    out[:] = np.asarray(v) / most
    return most


def vector_cases(generator):
    for size in (1.0, 1e-200, 1e250):
        yield size * generator.standard_normal(9), np.empty(9, np.float32)
    yield np.zeros(3), np.empty(3, np.float32)
    yield np.zeros(0), np.empty(0, np.float32)


def coded_products(codes, right, left, above, below):
    both_products(codes / 65535, right, left, above, below)


def coded_cases(generator):
    for tile, right, left, above, below in product_cases(generator):
        codes = generator.integers(0, 65536, tile.shape).astype(np.uint16)
        yield codes, right, left, above, below


def transpose(tile, out):
    out[:] = tile.T


def mirror_cases(generator):
    for dtype in (float, np.float32):
        for m, n in ((3, 5), (32, 32), (33, 70), (0, 4)):
            whole = np.full((80, 80), np.nan, dtype)
            yield generator.standard_normal((m, n)).astype(dtype), whole[:n, 7 : 7 + m]


def squares_apart(row, columns, out):
    out[:] = ((columns.astype(float) - row[:, None].astype(float)) ** 2).sum(axis=0)


def apart_cases(generator):
    for d in (0, 4, 12):
        row, columns = generator.random(d), generator.random((d, 7))
        if d:
            columns[:, 2] = row
        yield row.astype(np.float32), columns.astype(np.float32), np.empty(7, np.float32)


def powers_of_two(values):
    values[:] = [2.0 ** -min(float(x), 126.0) for x in values]


def binary_cases(generator):
    halves = np.arange(0, 40, dtype=np.float32) / 2
    yield ((generator.random(400) * 10.0 ** generator.uniform(-9, 3, 400)).astype(np.float32),)
    yield (np.array([0.0, 1e-30, 1.0, 125.9999, 126.0, 126.001, 1e30, np.inf], np.float32),)
    yield (np.concatenate([np.nextafter(halves, 0), halves, np.nextafter(halves, 99)]),)


def as_columns(B, out):
    out[:] = 0
    out[: B.shape[1], : B.shape[0]] = B.T


def column_cases(generator):
    for m, d in ((0, 4), (3, 4), (5, 8)):
        yield generator.random((m, d)).astype(np.float32), np.ones((8, 5), np.float32)


def narrow_values(A, B, tile):
    for i, a in enumerate(A):
        for j, b in enumerate(B):
            tile[i, j] = 2.0 ** -((a.astype(float) - b.astype(float)) ** 2).sum()


def narrow_cases(generator):
    """More columns than are taken together, too."""
    for m, n in ((3, 0), (0, 5), (4, 31), (2, 33), (3, 520)):
        A, B = generator.random((m, 8)), generator.random((n, 8))
        B[: min(m, n)] = A[: min(m, n)]
        yield *(X.astype(np.float32) for X in (A, B)), np.empty((m, n), np.float32)


def narrow_products(A, B, right, left, above, below):
    tile = np.empty((len(A), len(B)))
    narrow_values(A, B, tile)
    both_products(tile, right, left, above, below)


def narrow_product_cases(generator):
    """Vectors of thousandths: their products are as near as values in single precision."""
    for A, B, tile in narrow_cases(generator):
        vectors = [generator.standard_normal(n) / 1000 for n in (*tile.shape, *tile.shape)]
        yield A, B, vectors[1], vectors[0], vectors[2], vectors[3]


def to_single(_result, arguments):
    """Sums are as near as the values in single precision."""
    return [each.astype(np.float32) for each in arguments[-2:]]


TWINS = table(
    Twin(narrow_loops.squared_distances, squares_apart, apart_cases),
    Twin(narrow_loops.negative_powers, powers_of_two, binary_cases, units=2),
    Twin(narrow_loops.spread_columns, as_columns, column_cases),
    Twin(narrow_loops.narrow_tile, narrow_values, narrow_cases),
    Twin(narrow_loops.add_narrow_products, narrow_products, narrow_product_cases, to_single),
    Twin(tile_loops.exponents, distances, distance_cases),
    # One unit of its own and one of math.exp.
    Twin(tile_loops.exponentials, powers, power_cases, units=2),
    Twin(tile_loops.single_exponentials, single_powers, single_power_cases, units=2),
    Twin(tile_loops.sparse_exponents, sparse_distances, sparse_cases, the_tile),
    Twin(tile_loops.wide_exponents, wide_distances, wide_cases, the_tile),
    Twin(tile_loops.add_lanes, lanes_of, lane_cases),
    Twin(tile_loops.sum_lanes, sum_of_lanes, lane_cases),
    Twin(tile_loops.add_products, both_products, product_cases),
    Twin(sparse_tile.count_large, large_before, large_cases),
    Twin(sparse_tile.take_large, large_values, taken_cases),
    Twin(sparse_tile.add_sparse_products, both_sparse_products, sparse_product_cases),
    Twin(narrow_loops.narrow_codes, narrow_coded, narrow_code_cases),
    Twin(coded_tile.take_codes, codes_of, code_cases),
    Twin(coded_tile.add_coded_lanes, coded_lanes, coded_lane_cases),
    Twin(coded_tile.to_single, largest_one, vector_cases),
    Twin(coded_tile.add_coded_products, coded_products, coded_cases, to_single),
    Twin(tile_loops.mirror, transpose, mirror_cases),
)
