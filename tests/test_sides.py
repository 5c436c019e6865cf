"""Both sides of limits in rows, kernel values and rounding: of shares, of sizes."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from odmtool.core import kernels, losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.errors import DataError, UsageError
from odmtool.rows import kmeans, partition, tiles
from odmtool.rows.executor import Serial
from odmtool.rows.sparse_tile import sparse_tile
from odmtool.solvers import rounding, value_rounding
from odmtool.solvers.engine import features, products
from odmtool.solvers.engine.cost import Cost
from odmtool.solvers.engine.landmarks import Landmarks
from odmtool.solvers.engine.points import Points


def test_sparse_rows_become_an_array_where_a_fiftieth_is_not_zero():
    def rows(nnz):
        data, places = np.ones(nnz), np.arange(nnz, dtype=np.int32)
        return sparse.csr_matrix((data, places, [0, nnz, *[nnz] * 9]), (10, 100))

    assert kernels.dense_bytes(rows(20), 8000) == 8000
    assert kernels.dense_bytes(rows(19), 8000) == 0 == kernels.dense_bytes(rows(20), 7999)
    # Columns that do not occur are left out before; of as many as entries none are.
    assert kernels.prepare(rows(20), 0).shape == (10, 20)
    assert kernels.prepare(rows(100), 0).shape == (10, 100)


def test_a_table_of_kernel_values_may_be_off_by_its_last_digits():
    K = np.full((3, 3), 0.25)
    K[0, 0], K[2, 1] = -1024.0, 0.25 + 1023e-5
    for table in (K, -K):
        X = np.column_stack([[1.0, 2.0, 3.0], table])
        assert kernels.check_precomputed(X) is None
        X[2, 2] += np.sign(X[2, 2]) * 2e-5
        with pytest.raises(DataError):
            kernels.check_precomputed(X)
    with pytest.raises(DataError):  # a row of another table
        kernels.check_precomputed(np.array([[3.0, 1.0, 1.0]]))
    assert kernels.check_precomputed(np.array([[2.0, 1.0, 1.0]])) is None
    assert kernels.check_precomputed(np.empty((0, 3))) is None


def test_a_bias_that_leaves_half_of_the_digits():
    assert kernels.refuse_huge_bias(Kernel("linear", bias=1e4), 1.0) is None
    with pytest.raises(UsageError, match="10000"):
        kernels.refuse_huge_bias(Kernel("linear", bias=1e4 + 1e-4), 1.0)
    assert kernels.refuse_huge_bias(Kernel("linear", bias=1e9), 0.0) is None
    few = np.array([[0.5], [0.25]])
    assert kernels.largest_without_bias(Kernel("linear", bias=9.0), few) == 0.25
    assert kernels.largest_without_bias(Kernel("linear"), np.empty((0, 2))) == 0.0


def test_values_up_to_ten_are_scaled_ones():
    X = np.random.default_rng(0).uniform(-10, 10, (60, 40))
    rbf = Kernel("rbf", 1.0)
    for sign in (1.0, -1.0):
        X[0, 0] = sign * 10.0
        assert not kernels.are_apart(rbf, X)
        X[0, 0] = sign * 10.001
        assert kernels.are_apart(rbf, X)
        assert kernels.are_apart(rbf, np.abs(X)) and kernels.are_apart(rbf, -np.abs(X))
    # Half of the rows have their nearest at .1, and half at 0; then it is the other way round.
    for near, is_apart in ((0.0999, True), (0.1001, False)):
        line = np.repeat([0.0, 100.0, 200.0, 300.0], 2)
        line[1::2] += np.sqrt(-np.log(near))
        assert kernels.are_apart(rbf, line[:, None]) == is_apart


def test_the_mean_distance_of_many_rows_is_that_of_a_sample():
    rows = sparse.csr_matrix(np.arange(2003.0)[:, None] ** 2)
    some = rows.toarray()[np.random.default_rng(0).permutation(2003)[:2000], 0]
    expected = np.abs(some[:, None] - some).sum() / (2000 * 1999)
    assert kernels.mean_distance(rows) == pytest.approx(expected, rel=1e-6)
    assert kernels.mean_distance(rows[:1]) == 0.0
    # By rounding no square is below 0.
    assert kernels.mean_distance(sparse.csr_matrix(np.full((3, 1), 0.1))) == 0.0


def test_tiles_of_few_values_are_sparse_rows():
    tile = np.zeros((4, 5))
    tile.flat[[1, 7, 18]] = 0.5, -0.5, 0.125
    assert sparse_tile(tile, 0.0) is not None  # 15 of 100
    assert sparse_tile(tile, 0.125).values.tolist() == [0.5, -0.5]  # what is above
    tile[0, 0] = 0.5
    assert sparse_tile(tile, 0.0) is None
    assert sparse_tile(np.zeros((1, 2**16)), 0.0) is None  # too wide for places of two bytes
    widest = np.zeros((1, 2**16 - 1))
    widest[0, -1] = 2.0
    found = sparse_tile(widest, 1.0)
    assert found.columns.tolist() == [2**16 - 2]
    assert found.nbytes == 8 + 2 + 2 * 8


def test_rows_of_a_tile():
    sizes = (1, 2**16, 2**16 + 1, 2**17, 2**17 + 1, 10**7)
    assert [tiles.tile_rows(m) for m in sizes] == [1024, 1024, 1025, 2048, 2048, 2048]
    kernel, single = Kernel("rbf", 1.0), np.float32
    assert tiles.is_narrow(kernel, np.zeros((2, 12), single))
    for other, X in (
        (kernel, np.zeros((2, 13), single)), (kernel, np.zeros((2, 12))),
        (Kernel("linear"), np.zeros((2, 12), single)),
        (kernel, sparse.csr_matrix(np.zeros((2, 12), single))),
    ):  # fmt: skip
        assert not tiles.is_narrow(other, X)


@pytest.mark.parametrize("share, count", [(1.9, 3), (0.5, 2)])
def test_landmarks_of_parts_end_where_rounding_is_left(share, count):
    X = np.array([[4.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 2.0, 4 * np.sqrt(share * 1e-8)]])
    found = partition.landmarks(Kernel("linear"), X, 3)
    assert len(found.rows) == count and found.rows[0] == 0


def test_clusters_of_a_sample_take_turns_until_nothing_changes():
    """Beside Lloyd's algorithm with means of the rows, from the same examples."""
    for seed in range(12):
        X = np.random.default_rng(seed).standard_normal((40, 3))
        A, half = kmeans._centres(X @ X.T, 5, np.random.default_rng(seed))
        random = np.random.default_rng(seed)
        centres = [int(random.integers(40))]
        while len(centres) < 5:
            squares = ((X[:, None] - X[centres]) ** 2).sum(axis=2).min(axis=1)
            centres.append(int(random.choice(40, p=squares / squares.sum())))
        own, before = ((X[:, None] - X[centres]) ** 2).sum(axis=2).argmin(axis=1), None
        while before is None or not np.array_equal(own, before):
            means = np.array([X[own == k].mean(axis=0) for k in np.unique(own)])
            before = np.unique(own, return_inverse=True)[1]
            own = ((X[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
        np.testing.assert_allclose(A, (own[:, None] == np.arange(len(means))) / np.bincount(own))
        np.testing.assert_allclose(half, (means**2).sum(axis=1) / 2)


@pytest.mark.parametrize("gamma", [1.0, -1.0])
def test_single_precision_for_what_it_holds(gamma):
    """Where sizes, gamma and values lie between 2^-60 and 2^60, and infinity beyond."""
    kernel = Kernel("poly", gamma, 0.0, 1)

    def error(kernel=kernel, size=1.0, most=1.0):
        return value_rounding.single_value_error(kernel, np.array([[size**0.5]]), most)

    for change in (-60, 60):
        limit, beyond = 2.0**change, 2.0**change * (2.0 if change > 0 else 0.5)
        for name in ("size", "most"):
            assert np.isfinite(error(**{name: limit})) and error(**{name: beyond}) == np.inf
        assert np.isfinite(error(kernel._replace(gamma=gamma * limit)))
        assert error(kernel._replace(gamma=gamma * beyond)) == np.inf
    # Two roundings more than the sum's, of each of the rows; and eight of the value.
    X, u = np.array([[0.5, 0.5, 0.0]]), 2.0**-24
    expected = (3 + 8 + 4) * u * 0.5 + 8 * u * 3.0
    found = value_rounding.single_value_error(Kernel("linear"), X, 3.0)
    assert found == pytest.approx(expected, rel=1e-12)


def test_what_differences_are_off_by_where_first_order_is_enough():
    u, kernel = 2.0**-24, Kernel("rbf", 0.5)
    for share in (0.999, 1.001):
        largest = (share * 1e-3 / u) ** 2 / (0.5 * np.log2(np.e))
        X = np.array([[largest**0.5, 0.0, 0.0]])
        found = value_rounding.narrow_value_error(kernel, X)
        expected = 1.1 * (2.9 * share * 1e-3 / u + 0.37 * 7 + 8) * u + 2.0**-125
        assert found == (pytest.approx(expected, rel=1e-9) if share < 1 else np.inf)


def test_bounds_are_as_small_as_kernel_values_are():
    """All kernel values 2^-20 times as large, and so are the bounds of their errors."""
    X = np.random.default_rng(0).standard_normal((40, 3))
    found = []
    for scale in (2.0**-10, 2.0**-20):
        points = Points(Kernel("poly", 0.25 * scale, 0.0, 2), X, Serial())
        points.expect(np.inf)
        chosen = Landmarks(points, 5, 0)
        floor, most = chosen._floor, points.diagonal.max()
        chosen.grow(5)
        members = np.array(chosen.members)
        basis = features.Basis(points, members, np.tril(chosen.features[members]))
        kept = products.KeptTiles(points.kernel, points.single, 0.0, Serial())
        assert floor == pytest.approx(1e-10 * most, rel=1e-14)
        assert kept._least == pytest.approx(2.0**-30 * most, rel=1e-6)
        single = points.single_product_error - points.single_value_error
        assert single == pytest.approx(2.0**-30 * most, rel=1e-6)
        square = scale**2
        found.append([
            most / square, points.value_error / square, points.single_value_error / square,
            basis.error / square, points.product_error / square,
            rounding.Rounding(Gram(points.kernel, X)).error,
            rounding._largest_value(Gram(points.kernel, X)) / square,
            rounding._largest_value(Gram.of_matrix(points.kernel, kernels.gram(points.kernel, X)))
            / square,
            points.single_product_error / square,
        ])  # fmt: skip
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


def test_values_are_coded_where_that_changes_a_tenth_at_most():
    """Of the matrix I + S^1/2 K S^1/2, whose random part grows with the root of its size."""
    points = Points(Kernel("rbf", 1.0), np.zeros((4, 2)), Serial())
    bent = losses.largest_slope(losses.lssvm(1.0, 1.0))
    run = SimpleNamespace(
        points=points, tile_room=0.0, cost=Cost(4, 2.0, False), largest_slope=bent
    )
    product = products.Products(run, np.zeros(4, bool))
    count = (0.1 * 2.0**17 / bent) ** 2
    assert product._can_be_coded(count * (1 - 1e-9))
    assert not product._can_be_coded(count * (1 + 1e-6))


def test_every_row_has_its_nearest_centre(monkeypatch):
    """Of rows in several blocks none is left as memory was."""
    X, generator = np.random.default_rng(0).standard_normal((40, 3)), np.random.default_rng(1)
    A, half = kmeans._centres(X @ X.T, 4, generator)
    expected = (X @ X.T @ A - half).argmax(axis=1)
    monkeypatch.setattr(kmeans, "_BLOCK_BYTES", 8 * 40 * 7)
    usual = np.empty
    monkeypatch.setattr(np, "empty", lambda shape, dtype=float: np.full_like(
        usual(shape, dtype), -1
    ))  # fmt: skip
    assert np.array_equal(kmeans.nearest(X, Kernel("linear"), X, half, A), expected)


def test_the_largest_value_of_a_part_whose_tiles_are_filled():
    K = np.array([[0.5, 2.0], [2.0, -3.0]])
    part = SimpleNamespace(kernel=Kernel("sigmoid", 0.5), X=None, diagonal=lambda: K.diagonal())
    assert rounding._largest_value(part) == 3.0
