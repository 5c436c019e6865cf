"""Both sides of limits: of what rounding leaves, of shares, of sizes at which something changes."""

from types import SimpleNamespace

import numpy as np
import pytest
from engine_problems import problem_of
from scipy import sparse

from odmtool.core import kernels, losses
from odmtool.core.csr import CSR
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.errors import DataError, UsageError
from odmtool.rows import kmeans, partition, tiles
from odmtool.rows.executor import Serial
from odmtool.rows.sparse_tile import sparse_tile
from odmtool.solvers import rounding, value_rounding
from odmtool.solvers.base import Problem, Progress, Stop, ignore_progress
from odmtool.solvers.engine import certificate, choice, features, products, span, thinned
from odmtool.solvers.engine.cost import Cost
from odmtool.solvers.engine.landmarks import Landmarks
from odmtool.solvers.engine.points import Points
from odmtool.solvers.engine.reduced import FeatureSpace
from odmtool.solvers.newton import newton, spaces

# ---- rows and kernels ------------------------------------------------------------------------


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


# ---- rounding --------------------------------------------------------------------------------


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


# ---- Newton's method -------------------------------------------------------------------------


def test_a_whole_step_that_lowers_the_objective_a_little():
    """By a ten-thousandth of what the slope promises, or whose end still falls."""
    def takes(along, squared, rise=0.0, start=0.0, end=0.0):
        here, there = (
            losses.Evaluation(np.array([v]), np.array([-d]), None)
            for v, d in ((2.0, start), (2.0 + rise, end))
        )  # fmt: skip
        return newton.takes_whole_step(here, there, np.array([0.5]), (along, squared))

    assert takes(-1.0, 2 - 2.0e-4 - 1e-9) and not takes(-1.0, 2 - 2.0e-4 + 1e-9)
    assert takes(-1.0, 1.0, 9.0) and not takes(-1.0, 1.0 + 1e-9, 9.0)
    assert takes(-1.0, 1.5, 0.2) and not takes(-1.0, 1.5, 0.26)
    assert takes(-1.0, 1.5, 0.2, -1.0) and not takes(-0.5, 1.5, 0.0, -1.0)
    assert takes(-1.0, 1.5, 9.0, 0.0, -1.0) and not takes(-1.0, 1.5, 9.0, 0.0, -0.99)


def test_a_direction_that_is_no_way_down_ends_next_to_where_it_begins():
    loss = losses.scaled(losses.lssvm(1.0, 1.0), np.ones(1))
    step = newton.shorter_step(loss, np.ones(1), np.zeros(1), (0.0, 1.0))
    assert 0 < step < 1e-9


def test_a_slope_whose_growth_rounding_hides_leads_to_the_whole_step():
    loss = losses.scaled(losses.lssvm(1.0, 1.0), np.ones(1))
    assert newton.shorter_step(loss, np.ones(1), np.zeros(1), (-1e-317, 0.0)) == 1.0


def track_of(points):
    track = newton.Track()
    for primal, gap in points:
        track.add(SimpleNamespace(primal=primal, gap=gap, scale=2.0))
    return track


def test_steps_that_bring_nothing_are_counted():
    """Five of them, which lower neither the gap nor P by more than rounding."""
    assert not track_of([(1.0, 0.5)] * 5).is_stalled and track_of([(1.0, 0.5)] * 6).is_stalled
    waits = [(1.0, 0.5)] * 5
    assert not track_of([*waits, (1.0, 0.4), *waits[1:]]).is_stalled
    assert not track_of([*waits, (0.9, 0.6), *waits[1:]]).is_stalled
    assert track_of([*waits, (1.0, 0.4), (1.0, 0.4), *waits[1:]]).is_stalled
    falling = [(1.0 - 1.5e-14 * k * 2, 0.5) for k in range(6)]
    assert not track_of(falling).is_stalled
    assert track_of([(1.0, 0.5), *[(1.0 - 0.9e-14 * 2, 0.5)] * 5]).is_stalled


def test_dense_rows_that_are_few_are_an_array():
    """Up to 4 MB; and without features, or of a singular matrix, there is a solution."""
    def rows(m, d):
        return CSR(np.empty(0), np.empty(0, int), np.zeros(m + 1, int), (m, d))

    assert spaces._is_small(rows(2**9, 2**10)) and not spaces._is_small(rows(2**9, 2**10 + 1))
    assert not spaces._is_small(np.zeros((2, 2)))
    assert spaces._solve_symmetric(lambda: np.empty((0, 0)), np.empty(0)).size == 0
    A = np.random.default_rng(0).standard_normal((5, 5))
    definite = A @ A.T
    for matrix in (definite, definite - 9 * np.eye(5) + 9 * np.diag([0, 0, 0, 0, 1.0])):
        matrix[np.diag_indices(5)] = np.abs(matrix.diagonal())
        lower, right = np.tril(matrix) + np.triu(np.full((5, 5), 7.0), 1), np.arange(1.0, 6)
        found = spaces._solve_symmetric(lower.copy, right)
        np.testing.assert_allclose(matrix @ found, right, rtol=1e-9)


def test_wide_rows_few_of_whose_values_are_zero_are_an_array(monkeypatch):
    """From 40 % on, where there is no Hessian; what they take is planned."""
    X = np.random.default_rng(2).standard_normal((30, 9)) * (np.arange(9) < 5)
    wide = CSR.of(sparse.csr_matrix(X))
    assert not spaces.array_bytes(wide)
    monkeypatch.setattr(spaces, "LARGEST_HESSIAN", 8)
    assert spaces.array_bytes(wide) == 1.75 * 8 * 30 * 9
    narrow = CSR.of(sparse.csr_matrix(X[:, 3:]))
    assert not spaces.array_bytes(X) and not spaces.array_bytes(narrow)
    y = np.where(np.arange(30) % 3, 1.0, -1.0)
    found = []
    for rows in (X, wide):
        space = spaces.WeightSpace(rows, y)
        assert isinstance(space._X, np.ndarray)
        loss = losses.scaled(losses.odm(64.0, 0.5, 0.3, 30), np.ones(30))
        space.gap(loss, np.ones(9), y, y / 2, 0, 0)
        found.append(space.newton_point(np.abs(y), None, None, np.ones(9), 1e-12))
    np.testing.assert_allclose(*found, rtol=1e-12)
    gradient = np.ones(9) - X.T @ (y * y / 2)
    exact = np.ones(9) - np.linalg.solve(np.eye(9) + X.T @ X, gradient)
    np.testing.assert_allclose(found[0], exact, atol=1e-5)


def test_conjugate_gradients_end_where_the_gradient_is_small_enough(monkeypatch):
    """A step to a smaller one costs products and proves no more than is asked for."""
    monkeypatch.setattr(spaces, "LARGEST_HESSIAN", 8)
    X, y = np.random.default_rng(3).random((60, 40)), np.where(np.arange(60) % 3, 1.0, -1.0)
    loss = losses.scaled(losses.odm(2.0**12, 0.5, 0.3, 60), np.ones(60))
    told, steps = [], spaces.conjugate_gradients
    monkeypatch.setattr(
        spaces, "conjugate_gradients",
        lambda *given, **limits: told.append(limits["atol"]) or steps(*given, **limits),
    )  # fmt: skip
    space = spaces.WeightSpace(X, y)
    for enough in (0.0, 1.0):
        space.gap(loss, np.ones(40), y, y / 2, enough, 0)
        space.newton_point(np.abs(y), None, None, np.ones(40), 1e-12)
    gradient = np.linalg.norm(np.ones(40) - X.T @ (y * y / 2))
    # A gradient of this norm is a gap of a quarter of what is enough.
    np.testing.assert_allclose(told, [1e-6 * gradient, np.sqrt(0.5)])


def test_a_gap_in_function_space_is_the_smaller_of_two():
    """Of the demanded duals, 1/2 |w - w(eta)|^2, and of coef itself, by the losses."""
    for seed in range(8):
        problem = problem_of(Kernel("rbf", 0.5), "odm", 4.0 ** (seed - 1), 40, seed, weighted=True)
        K, y = problem.gram.matrix(), problem.y
        space = spaces.FunctionSpace(problem.gram, y)
        loss = losses.scaled(problem.loss, problem.weight)
        random = np.random.default_rng(seed)
        eta = -losses.derivative(loss, random.normal(0.5, 1.0, 40))
        coef = eta + 10.0 ** -random.integers(0, 5) * random.standard_normal(40)
        t = y * (K @ (y * coef))
        eta = -losses.derivative(loss, t)
        apart = (coef - eta) * y @ K @ ((coef - eta) * y) / 2
        own = (losses.value(loss, t) + coef * t - losses.dual_value(loss, coef)).sum()
        for enough, far in ((0.0, np.inf), (apart * 2, np.inf), (0.0, 0.0)):
            gap, dual, same = space.gap(loss, coef, t, eta, enough, far)
            is_first = apart <= own or enough > 0 or far == 0
            expected = apart if is_first else own
            assert gap == pytest.approx(expected, rel=1e-4, abs=1e-12) and same is t
            assert np.array_equal(dual, eta if is_first else coef)


# ---- the span of landmarks -------------------------------------------------------------------


@pytest.mark.parametrize("share, count", [(1.9, 3), (0.5, 2)])
def test_landmarks_end_where_rounding_is_left(share, count):
    X = np.array([[4.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 2.0, 4 * np.sqrt(share * 1e-10)]])
    chosen = Landmarks(Points(Kernel("linear"), X, Serial()), 3, 0)
    chosen.grow(3)
    assert len(chosen.members) == count
    assert chosen.is_full and chosen.is_exhausted is (count == 2)


@pytest.mark.parametrize("share, steps", [(1.1, 4), (0.9, 3), (None, 2)])
def test_a_pass_whose_objective_is_lower_by_rounding_is_the_last(monkeypatch, share, steps):
    scale = 8.0
    primals = iter([10.0, 10.0 - (share or 0.0) * 1e-12 * scale, 99.0])
    inside = 1.0 if share else scale / 16  # which is small enough

    def evaluated(*_, **_named):
        return [SimpleNamespace(inside=inside, scale=scale, primal=next(primals), crossed=[1.0])]

    monkeypatch.setattr(thinned, "solve_in_span", lambda *_: (np.zeros((1, 1)), 2, None))
    monkeypatch.setattr(certificate, "evaluate", evaluated)
    monkeypatch.setattr(thinned, "directions", lambda *_: np.ones((1, 1)))
    basis = SimpleNamespace(points=SimpleNamespace(executor=None), inverse=np.eye(1))
    some = SimpleNamespace(rows=lambda rows: None)
    W, [point], found = thinned.solve(basis, None, None, some, None, 1 / 16)
    assert found == steps and W.tolist() == [[float(steps == 4)]]


def span_run(progress=ignore_progress, **changes):
    gram = Gram(Kernel("poly", 1.0, 1.0, 2), np.eye(50), 1e6)
    run = span.SpanRun(gram, Stop(1e-3, 9), 3, progress)
    for name, value in changes.items():
        setattr(run, name, value)
    return run


def test_which_bound_a_linear_solver_in_the_span_gets(monkeypatch):
    """The free one, that by drawn rows, or by a pass, of all functions together."""
    asked = []

    def drawn(points, basis, left, count, seed, delta):
        asked.append((count, seed, delta))
        return [0.25, 0.5]

    monkeypatch.setattr(certificate, "free", lambda point, left: point)
    monkeypatch.setattr(certificate, "drawn", drawn)
    monkeypatch.setattr(certificate, "exact", lambda points, basis: [0.125, 0.25])

    def bound(enough, way, count=0, is_last=False, points=(0.5, 0.5)):
        asked.clear()
        run = span_run(_is_last=is_last)
        return run.outside(points, None, None, enough, choice.Choice(way, 0.0, count))

    half = certificate.DELTA / 2 / 2
    assert bound(1.0, "drawn") == (1.0, 0.0) and not asked
    assert bound(0.75, "drawn") == (0.75, certificate.DELTA) and asked == [(2000, (3, 1), half)]
    assert bound(0.7, "free", 77) == (0.75, certificate.DELTA) and asked == [(77, (3, 1), half)]
    assert bound(0.4, "drawn", points=(0.5, 0.125)) == (0.625, 0.0) and len(asked) == 1
    assert bound(0.7, "drawn", is_last=True) == (0.375, 0.0)
    assert bound(0.7, "exact") == (0.375, 0.0) and not asked
    assert bound(0.2, "exact", points=(0.125, 0.125)) == (0.25, 0.0)


def test_the_room_of_features_of_the_span(monkeypatch):
    """32 bytes for each example and landmark, 48 in the sample, in .8 of the memory."""
    monkeypatch.setattr(span, "Landmarks", lambda points, most, seed: most)
    for memory, most in ((1e9, 50), (48 * 80 * 50 / 0.8, 48), (49 * 80 * 50 / 0.8 + 1, 49)):
        run = span_run()
        run.gram = SimpleNamespace(memory=memory, bytes=1e9, size=50)
        assert run._drawn_examples(np.arange(50)).landmarks == most
        # No more than twice the kernel matrix.
        run.gram = SimpleNamespace(memory=1e12, bytes=memory / 2, size=50)
        assert run._drawn_examples(np.arange(50)).landmarks == most
        # Of a sample of half of them.
        run.gram = SimpleNamespace(memory=(32 * 50 + 48 * 25) * 49 / 0.8 + 1, bytes=1e9, size=50)
        assert run._drawn_examples(np.arange(0, 50, 2)).landmarks == 49


def test_iterations_are_told_counted_on():
    told = []
    run = span_run(told.append, iterations=7)
    gram = run.gram
    for of, unkept in ((None, 0), (gram, 0), (gram.within(gram.bytes), 0),
                       (gram.within(gram.bytes - 1), 50)):  # fmt: skip
        run.counted(of)(Progress(3, 1.0, 0.5, 2))
        assert told.pop() == Progress(10, 1.0, 0.5, 2, None, unkept)


@pytest.mark.parametrize("is_whole", [True, False])
def test_when_no_more_landmarks_can_be_had(is_whole):
    run = span_run()
    drawn = span._DrawnExamples(run, np.arange(0, 50, 1 + (not is_whole)), 5)
    assert drawn.is_whole is is_whole and not drawn.is_last
    drawn.landmarks.grow(5)
    assert drawn.is_last and drawn.members.tolist() == [
        drawn._rows[k] for k in drawn.landmarks.members
    ]  # fmt: skip
    # Where they span the sample, others may be had from all examples.
    drawn.landmarks.is_exhausted = True
    assert drawn.is_last is is_whole


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


def test_linear_problems_without_columns_have_a_space():
    problem = Problem(np.zeros((3, 0)), None, np.ones(3), np.ones(3), losses.odm(1.0, 0.5, 0.1, 3))
    found = newton.solve(problem, Stop(1e-3, 5))
    assert found.w.size == 0 and found.primal == pytest.approx(
        losses.value(losses.scaled(problem.loss, np.ones(3)), np.zeros(3)).sum()
    )


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


def test_the_gap_in_a_span_is_half_the_square_of_the_gradient():
    random = np.random.default_rng(0)
    Z, y = random.standard_normal((30, 4)), np.where(random.random(30) < 0.5, 1.0, -1.0)
    w, eta, t = random.standard_normal(4), random.standard_normal(30), random.standard_normal(30)
    space = FeatureSpace(Z, y, Serial())
    gap, dual, same = space.gap(None, w, t, eta, 0.0, np.inf)
    gradient = w - Z.T @ (y * eta)
    assert gap == pytest.approx(gradient @ gradient / 2, rel=1e-12) and dual is eta and same is t
    assert space.squared_norm(w, t) == pytest.approx(w @ w)
    assert space.cross(w, t, w + 1, None) == pytest.approx((w @ (w + 1), (w + 1) @ (w + 1)))
    np.testing.assert_allclose(space.margins(w), y * (Z @ w))
    assert not space.zero().any()
    begun = FeatureSpace(Z, y, Serial(), np.array([1.0, 2.0]))
    assert begun.zero().tolist() == [1.0, 2.0, 0.0, 0.0]


def test_conjugate_gradients_take_a_step_however_little_there_is_to_gain(monkeypatch):
    """At w = 0 with a small lambda the gradient is small enough, and w = 0 answers nothing."""
    monkeypatch.setattr(spaces, "LARGEST_HESSIAN", 8)
    X, y = np.random.default_rng(3).random((60, 40)), np.where(np.arange(60) % 3, 1.0, -1.0)
    loss = losses.scaled(losses.odm(1e-10, 0.5, 0.3, 60), np.ones(60))
    space, w = spaces.WeightSpace(X, y), np.zeros(40)
    eta = -losses.derivative(loss, np.zeros(60)) * y
    space.gap(loss, w, np.zeros(60), eta, 1.0, 0)
    assert np.any(space.newton_point(np.ones(60), eta, np.zeros(60), w, 1.0))
