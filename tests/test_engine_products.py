"""Products with K of examples that get duals step by step: tiles kept and made again."""

from typing import NamedTuple

import numpy as np
import pytest
from engine_problems import forced, problem_of
from problems import examples

from odmtool.core import kernels, losses
from odmtool.core.kernels import Kernel
from odmtool.rows import tiles
from odmtool.rows.executor import Serial, Threads
from odmtool.rows.sparse_tile import SparseTile, sparse_tile
from odmtool.rows.tiles import tile_values
from odmtool.solvers.base import Stop
from odmtool.solvers.engine import products, solve
from odmtool.solvers.engine.cost import Cost
from odmtool.solvers.engine.points import Points


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("gamma", [0.3, 40.0])
@pytest.mark.parametrize("room", [0.0, np.inf])
def test_kept_tiles_are_those_made_again(gamma, room, dense, monkeypatch):
    """With the larger gamma nearly all values are below rounding, and tiles are sparse."""
    monkeypatch.setattr(tiles, "_ROWS", 40)
    X, kernel = examples(90, 5)[0], Kernel("rbf", gamma)
    rows = X.astype(np.float32)
    kept = products.KeptTiles(kernel, rows.toarray() if dense else rows, room, Serial())
    v = np.random.default_rng(0).standard_normal(90)
    first = kept.times(v, is_last=True)
    for _ in range(3):
        assert np.array_equal(kept.times(v, is_last=True), first)
    several = kept.times(v[:, None] * [1.0, 0.0, -2.0], is_last=True)
    assert several == pytest.approx(first[:, None] * [1.0, 0.0, -2.0], abs=1e-12)
    found = {type(tile) for tile in kept._kept.values()}
    assert bool(found) == (room > 0) and (SparseTile in found) == (room > 0 and gamma > 1)
    K = kernels.gram(kernel, X.toarray())
    assert first == pytest.approx(K @ v, abs=1e-4)


@pytest.mark.parametrize("d", [3, 8, 12, 13])
def test_a_product_does_not_depend_on_the_room_for_tiles(d, monkeypatch):
    """Values that are multiplied as they are made are rounded, and added, as kept ones."""
    monkeypatch.setattr(tiles, "_ROWS", 600)
    random, kernel = np.random.default_rng(d), Kernel("rbf", 1 / d)
    X, v = random.standard_normal((1250, d)).astype(np.float32), random.standard_normal(1250)
    found = []
    for room in (0.0, 4 * 600.0 * 900, np.inf):
        kept = products.KeptTiles(kernel, X, room, Serial())
        found += [kept.times(v, is_last=True) for _ in range(2)]
        assert bool(kept._kept) == (room > 0)
    assert all(np.array_equal(found[0], other) for other in found)
    K = kernels.gram(kernel, X.astype(float))
    assert found[0] == pytest.approx(K @ v, abs=2e-7 * np.abs(v).sum())


@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_values_of_far_rows_are_those_of_their_differences(bias):
    """|u|^2 + |v|^2 - 2 u'v in single precision would leave one digit of the exponent."""
    X = 1e3 + np.random.default_rng(0).standard_normal((30, 5)).astype(np.float32)
    kernel = Kernel("rbf", 0.2, bias=bias)
    found = tile_values(kernel, X[:20], X[10:], False)
    apart = X[:20, None].astype(float) - X[None, 10:]
    expected = np.exp(-0.2 * (apart**2).sum(axis=2)) + bias**2
    np.testing.assert_allclose(found, expected, atol=2e-4 if bias == 0 else 3e-4)


class Run(NamedTuple):
    """What Products needs of a run."""

    points: Points
    tile_room: float
    cost: Cost = Cost(200, 5.0, False)
    largest_slope: float = losses.largest_slope(losses.odm(1.0, 0.2, 0.2, 1.0))


@pytest.mark.parametrize("gamma", [0.3, 40.0])
@pytest.mark.parametrize("room", [0.0, 5000.0, 20_000.0, np.inf])
def test_products_where_more_and_more_examples_have_duals(gamma, room, monkeypatch):
    """Examples are put into another order, and tiles of these made again."""
    monkeypatch.setattr(tiles, "_ROWS", 16)
    X, kernel, random = examples(90, 5)[0], Kernel("rbf", gamma), np.random.default_rng(0)
    K, points = kernels.gram(kernel, X.toarray()), Points(kernel, X, Serial())
    points._by_numpy = -1  # compiled code
    is_active = random.random(90) < 0.3
    product = products.Products(Run(points, room), is_active)
    for _ in range(5):
        v = np.where(is_active, random.standard_normal(90), 0.0)
        for wanted in (is_active, None):
            found = product.of([products.Asked(v, wanted)])[0]
            some = slice(None) if wanted is None else wanted
            assert found[some] == pytest.approx((K @ v)[some], abs=1e-4)
        is_active |= random.random(90) < 0.1


def test_a_few_more_examples_with_duals_do_not_make_all_tiles(monkeypatch):
    monkeypatch.setattr(tiles, "_ROWS", 10)
    X, kernel = examples(200, 5)[0], Kernel("rbf", 0.3)
    points, is_active = Points(kernel, X, Serial()), np.arange(200) % 10 == 0
    points._by_numpy, made = -1, []

    def values(kernel, A, B, *others):
        made.append(A.shape[0] * B.shape[0])
        return tile_values(kernel, A, B, *others)

    monkeypatch.setattr(tiles, "tile_values", values)
    product = products.Products(Run(points, 0.0), is_active)
    product.of([products.Asked(is_active.astype(float), is_active)])
    made.clear()
    # One more in every tile of the others.
    is_active |= np.arange(200) % 10 == 5
    product.of([products.Asked(is_active.astype(float), is_active)])
    assert sum(made) == 4 * 5 / 2 * 100
    assert sum(made) < 200 * 200 / 10


@pytest.mark.parametrize("d, entries, first", [(13, 1e4, 40), (13, 1.0, 60), (5, 1e4, 60)])
def test_examples_with_new_duals_move_up_where_tiles_are_cheaper_than_idle_products(
    d, entries, first, monkeypatch
):
    """Where values are dear the tiles that are there are used; of narrow rows only some are."""
    monkeypatch.setattr(tiles, "_ROWS", 10)
    X, random = np.random.default_rng(1).standard_normal((200, d)), np.random.default_rng(0)
    kernel = Kernel("rbf", 1 / d)
    K, points = kernels.gram(kernel, X), Points(kernel, X, Serial())
    points._by_numpy, is_active = -1, np.arange(200) < 40
    product = products.Products(Run(points, np.inf, Cost(200, entries, True)), is_active)
    # Narrow rows have no tiles beyond the first examples; with duals all are first.
    product.of([products.Asked(np.ones(200) if d > tiles.NARROW else is_active.astype(float))])
    product._first, product._order = 40, np.arange(200)
    product._tiles.begins_with(40)
    is_active[np.arange(50, 200, 7)[:20]] = True
    v = np.where(is_active, random.standard_normal(200), 0.0)
    found = product.of([products.Asked(v)])[0]
    assert product._first == first
    assert found == pytest.approx(K @ v, abs=1e-4)


def test_products_without_compiled_code_are_not_as_precise_as_differences():
    X, kernel = np.random.default_rng(1).standard_normal((60, 5)), Kernel("rbf", 0.2)
    points, errors = Points(kernel, X, Serial()), []
    product, v = products.Products(Run(points, np.inf), np.ones(60, bool)), np.ones(60)
    for by_numpy in (-1, 1e9, -1):
        points._by_numpy = by_numpy
        product.of([products.Asked(v, exactly=True)])
        errors.append(points.single_value_error)
        product.of([products.Asked(v)])
    # What was made once may still be part of f.
    assert errors[0] == errors[1] < errors[2] / 2
    assert points.single_value_error == errors[2]


CODED = 2.0**-17


@pytest.mark.parametrize("room", [2 * 3.8 * 600.0**2, 2 * 7.4 * 600.0**2, np.inf])
def test_only_rough_products_read_codes(room, monkeypatch):
    """They do not depend on the number of threads, nor precise ones on the room or on codes."""
    monkeypatch.setattr(tiles, "_ROWS", 600)
    random, kernel = np.random.default_rng(0), Kernel("rbf", 0.2)
    X, v = random.standard_normal((1900, 5)).astype(np.float32), random.standard_normal(1900)
    v[1500:], found = 0.0, []
    precise = products.KeptTiles(kernel, X, 0.0, Serial()).times(v, is_last=True)
    for executor in (Serial(), Threads(2)):
        kept = products.KeptTiles(kernel, X, room, executor)
        kept.begins_with(1500, can_be_coded=True)
        for is_rough in (False, True, True, False):
            kept.is_rough = is_rough
            product = kept.times(v, is_last=True)
            assert np.array_equal(product, precise) is not is_rough
            found += [product] if is_rough else []
        columns = {j for _i, j in kept._kept}
        assert columns == set(range(3 if room == np.inf else 2))
        assert {tile.dtype for tile in kept._kept.values()} == {np.dtype(np.uint16)}
        assert sum(tile.nbytes for tile in kept._kept.values()) <= 0.8 * room
    assert all(np.array_equal(found[0], other) for other in found)
    # Errors of either sign.
    assert np.abs(found[0] - precise).max() <= 5 * CODED * np.linalg.norm(v)
    several = kept.times(v[:, None] * [1.0, -2.0], is_last=True)
    assert several == pytest.approx(precise[:, None] * [1.0, -2.0], abs=1e-9)
    kept.is_rough = True
    several = kept.times(v[:, None] * [1.0, -2.0], is_last=True)
    assert several == pytest.approx(found[0][:, None] * [1.0, -2.0], abs=1e-3)
    assert np.abs(several[:, 0] - found[0]).max() < np.abs(several[:, 0] - precise).max() / 10
    # All are made again where the next products are others.
    kept.begins_with(1500)
    assert not kept._kept


@pytest.mark.parametrize("d, lambda_, is_coded", [(5, 2.0**9, True), (13, 2.0**9, False),
                                                  (5, 2.0**30, False)])  # fmt: skip
def test_values_are_coded_where_that_is_harmless(d, lambda_, is_coded):
    """Not of wide rows, nor where slopes make much of errors."""
    X, random = np.random.default_rng(1).standard_normal((200, d)), np.random.default_rng(0)
    points = Points(Kernel("rbf", 1 / d), X, Serial())
    points._by_numpy, some = -1, np.arange(200) < 150
    steepest = losses.largest_slope(losses.odm(lambda_, 0.2, 0.2, 200.0))
    run = Run(points, np.inf, largest_slope=steepest)
    product, v = products.Products(run, some), np.where(some, random.standard_normal(200), 0.0)
    product.of([products.Asked(v, some, roughly=True)])
    [tile] = product._tiles._kept.values()
    assert (tile.dtype == np.uint16) is is_coded
    # Of several products one decides.
    pair = [products.Asked(v, some, roughly=True), products.Asked(v, some)]
    expected = kernels.gram(points.kernel, X) @ v
    for found in product.of(pair):
        assert found[some] == pytest.approx(expected[some], abs=1e-5)


def test_no_margins_are_made_of_codes(monkeypatch):
    """Of all products for Newton's method only those between active examples are rough."""
    asked, of = [], products.Products.of
    monkeypatch.setattr(
        products.Products, "of", lambda self, some: asked.extend(some) or of(self, some)
    )
    forced("full", monkeypatch)
    problem = problem_of(Kernel("rbf", 5.0), "odm", 2.0**8, 400, dense=True)
    assert solve.solve(problem, Stop(1e-4, 100)).converged
    kinds = {(one.wanted is not None, one.roughly) for one in asked}
    assert kinds == {(True, True), (False, False)}


def test_examples_that_wait_for_a_product_stand_before_those_that_do_not(monkeypatch):
    """One product of few examples' duals does not make the tiles of the others again."""
    monkeypatch.setattr(tiles, "_ROWS", 10)
    X, is_active = np.random.default_rng(1).standard_normal((200, 5)), np.arange(200) < 80
    points = Points(Kernel("rbf", 0.2), X, Serial())
    points._by_numpy = -1
    product = products.Products(Run(points, 30 * 200.0), is_active)
    for some in (is_active, np.arange(200) == 3, is_active):
        product.of([products.Asked(some.astype(float), is_active, roughly=True)])
        assert product._first == 80


def test_what_is_touched_are_whole_tiles(monkeypatch):
    monkeypatch.setattr(tiles, "_ROWS", 10)
    X = np.random.default_rng(1).standard_normal((45, 13)).astype(np.float32)
    kept, some = products.KeptTiles(Kernel("rbf", 0.1), X, np.inf, Serial()), np.zeros(45, bool)
    some[[3, 44]] = True
    assert kept.touched(some) == (15, 15**2 / 2)
    kept.times(some.astype(float), wanted=some)
    assert kept.touched(some) == (15, 15**2 / 2 - 100 - 50 - 25)


def test_examples_without_duals_go_back_where_the_tiles_of_the_first_do_not_fit(monkeypatch):
    """Room for the 21 tiles between 60 examples."""
    monkeypatch.setattr(tiles, "_ROWS", 10)
    X, kernel = examples(200, 5)[0], Kernel("rbf", 0.3)
    K, points = kernels.gram(kernel, X.toarray()), Points(kernel, X, Serial())
    points._by_numpy, made, random = -1, [], np.random.default_rng(0)

    def values(kernel, A, B, *others):
        made.append(A.shape[0] * B.shape[0])
        return tile_values(kernel, A, B, *others)

    monkeypatch.setattr(tiles, "tile_values", values)
    product = products.Products(Run(points, 21 * 400.0), np.arange(200) < 80)
    steps = [((0, 50), 50), ((0, 55), 55), ((5, 66), 66), ((30, 72), 42)]
    for (start, end), first in steps:
        some = (np.arange(200) >= start) & (np.arange(200) < end)
        for is_again in (False, True):
            v = np.where(some, random.standard_normal(200), 0.0)
            made.clear()
            found = product.of([products.Asked(v, some)])[0]
            assert found[some] == pytest.approx((K @ v)[some], abs=1e-4)
            assert product._first == first and (bool(made) is not is_again or first > 60)
        product.of([products.Asked(v)])  # there is no room for the tiles of all


@pytest.mark.parametrize(
    "entries, count, first", [(5.0, 74, 74), (5.0, 77, 100), (60.0, 48, 100), (60.0, 46, 46)]
)
def test_few_examples_with_duals_leave_many_that_have_had_some(entries, count, first, monkeypatch):
    """Where eight products with the tiles of these take longer than to make those of the few."""
    monkeypatch.setattr(tiles, "_ROWS", 10)
    X, random = np.random.default_rng(1).standard_normal((200, 13)), np.random.default_rng(0)
    points, is_active = Points(Kernel("rbf", 0.1), X, Serial()), np.arange(200) < 100
    K, points._by_numpy = kernels.gram(points.kernel, X), -1
    product = products.Products(Run(points, np.inf, Cost(200, entries, True)), is_active)
    product.of([products.Asked(is_active.astype(float), is_active)])
    product._tiles.is_short = True
    some = np.isin(np.arange(200), random.permutation(100)[:count])
    v = np.where(some, random.standard_normal(200), 0.0)
    found = product.of([products.Asked(v, some)])[0]
    assert found[some] == pytest.approx((K @ v)[some], abs=1e-4)
    assert product._first == first
    assert set(product._order[:first]) == set(np.flatnonzero(some if first == count else is_active))


def test_tiles_of_the_first_examples_are_kept_before_others(monkeypatch):
    monkeypatch.setattr(tiles, "_ROWS", 10)
    X, kernel = examples(60, 5)[0].astype(np.float32), Kernel("rbf", 0.3)
    # Room for the six tiles of the first three in each direction, and for one more.
    kept = products.KeptTiles(kernel, X, 7 * 400.0, Serial())
    kept.begins_with(30)
    v = np.random.default_rng(0).standard_normal(60)
    before = kept.times(v, is_last=True)
    first = {(i, j) for i in range(3) for j in range(i, 3)}
    assert first < set(kept._kept) and len(kept._kept) == 7 and kept.is_short
    order = np.r_[:30, 59:29:-1]
    kept.exchange(X[order], 30)
    assert set(kept._kept) == first
    assert kept.times(v[order], is_last=True) == pytest.approx(before[order], abs=1e-4)


def test_a_tile_of_few_large_values_is_kept_without_the_others():
    tile = np.where(np.random.default_rng(0).random((30, 40)) < 0.1, 0.5, 1e-9)
    found = sparse_tile(tile, 1e-6)
    rows, columns = np.nonzero(tile > 1e-6)
    assert np.array_equal(found.columns, columns)
    assert np.array_equal(found.values, tile[rows, columns])
    assert np.array_equal(np.diff(found.starts), (tile > 1e-6).sum(axis=1))
    assert sparse_tile(tile, 1e-12) is None


@pytest.mark.parametrize("count", [1, 8, 9])
@pytest.mark.parametrize("is_coded", [False, True])
def test_products_with_several_vectors(count, is_coded, monkeypatch):
    """One after the other where they are few, which changes nothing."""
    monkeypatch.setattr(tiles, "_ROWS", 64)
    random, kernel = np.random.default_rng(0), Kernel("rbf", 0.2)
    X, V = random.standard_normal((150, 5)).astype(np.float32), random.standard_normal((150, count))
    kept = products.KeptTiles(kernel, X, np.inf, Serial())
    kept.begins_with(150, can_be_coded=is_coded)
    kept.is_rough = is_coded
    K = kernels.gram(kernel, X.astype(float))
    off = 5 * CODED * np.linalg.norm(V) if is_coded else 1e-4
    for _ in range(2):  # made, and kept
        assert kept.times(V) == pytest.approx(K @ V, abs=off)
    columns = [kept.times(v) for v in np.ascontiguousarray(V.T)]
    if count <= tiles._ONE_BY_ONE:
        assert np.array_equal(kept.times(V), np.column_stack(columns))
