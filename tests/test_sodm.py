"""SODM: the judge confirms its gap, merging keeps what the parts found, executors agree."""

import pickle
import time

import numpy as np
import pytest
from clocks import moved_by_hand
from problems import DEFINITE, OTHER_LOSSES, allowed, examples, problem, weights
from scipy import sparse
from test_certificates import assert_confirmed, certificate

from odmtool.core import deadline, losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.judge import binary as objective
from odmtool.rows.compressed import compressed
from odmtool.rows.executor import Serial, Threads
from odmtool.rows.tiles import Tiles, tile_values
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.descent import dcd
from odmtool.solvers.large import parts, sodm
from odmtool.solvers.large.parts import parts_of, single_is_enough
from odmtool.solvers.newton import newton
from odmtool.solvers.settings import Settings

EIGHT = Settings(partitions=8, branch=2, strata=5)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-10])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("kernel", [None, *DEFINITE, "precomputed"])
def test_the_judge_confirms_the_gap(kernel, dense, tolerance):
    p = problem(kernel, dense=dense, weight=weights() if dense else None)
    solution = sodm.solve(p, Stop(tolerance, 20000), EIGHT)
    assert solution.solver == "sodm"
    if tolerance < 1e-5 or not (kernel or "").startswith("rbf"):
        return assert_confirmed(p, solution, tolerance)
    # Kernel values in single precision: the gap is right to about seven digits.
    judged = certificate(p, solution)
    assert solution.converged and judged.gap <= tolerance * (1 + 1e-3)
    assert judged.gap == pytest.approx(solution.gap, abs=1e-6)
    assert judged.primal == pytest.approx(solution.primal, rel=1e-6)


@pytest.mark.parametrize("loss", OTHER_LOSSES)
def test_every_row_of_the_table_can_be_parted(loss):
    p = problem("poly", loss=OTHER_LOSSES[loss], weight=weights())
    assert_confirmed(p, sodm.solve(p, Stop(1e-9, 50000), EIGHT), 1e-9)


@pytest.mark.parametrize("memory", [np.inf, 8 * 60 * 20])
@pytest.mark.parametrize("scheme", [
    Settings(partitions=4, branch=4),
    Settings(partitions=7, branch=3, partition_by="random"),
    Settings(partitions=5, branch=2, partition_by="cluster"),
    Settings(partitions=8, branch=2, cascade=True),
    Settings(partitions=4, branch=2, partition_by="cluster", cascade=True),
])  # fmt: skip
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_schemes_end_at_the_same_solution_in_any_memory(kernel, scheme, memory):
    p = problem(kernel, memory=memory)
    exact = newton.solve(problem(kernel), Stop(1e-13, 200))
    solution = sodm.solve(p, Stop(1e-9, 20000), scheme, seed=3)
    judged = certificate(p, solution)
    assert judged.gap == pytest.approx(solution.gap, abs=1e-11)
    if scheme.cascade:  # an example that was dropped does not come back
        assert judged.primal <= exact.primal * 1.05
        return
    assert solution.converged
    distance = np.linalg.norm(solution.eta - exact.eta)
    assert distance <= 1e-3 * np.linalg.norm(exact.eta)
    w = p.X.T @ (p.y * (solution.eta - exact.eta)) if kernel is None else None
    if w is not None:
        assert np.linalg.norm(w) <= allowed(solution, exact)


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_one_partition_is_the_plain_solver(kernel):
    p = problem(kernel, weight=weights())
    alone = sodm.solve(p, Stop(1e-6), Settings(partitions=1), seed=5)
    plain = dcd.solve(p, Stop(1e-6), seed=5)
    assert np.array_equal(alone.eta, plain.eta)
    assert alone.gap == plain.gap


@pytest.mark.parametrize("by", ["stratified", "cluster"])
@pytest.mark.parametrize("kernel", [None, "poly"])
def test_an_early_stop_gives_the_weighted_mean_of_the_parts(kernel, by):
    """w = sum_k (M_k / M) w_k, where w_k solves part k with M_k in the place of M."""
    X, y = examples()
    u, scheme = weights(), Settings(partitions=4, branch=2, partition_by=by, strata=5, stop_level=2)
    p = problem(kernel, weight=u, loss=losses.odm(2.0**4, 0.5, 0.3, u.sum()))
    solution = sodm.solve(p, Stop(1e-12, 50000), scheme)
    order, levels = sodm.arrange(p, scheme, 0)
    mean = np.zeros(60)
    for a, b in levels[0]:
        rows = order[a:b]
        mass = u[rows].sum()
        loss = losses.odm(2.0**4, 0.5, 0.3, mass)
        gram = None if kernel is None else p.gram.subset(rows)
        part = Problem(X[rows] if kernel is None else None, gram, y[rows], u[rows], loss)
        mean[rows] = mass / u.sum() * newton.solve(part, Stop(1e-14, 200)).eta
    assert np.allclose(solution.eta, mean, rtol=1e-4, atol=1e-5 * np.abs(mean).max())
    assert not solution.converged and solution.gap > 1e-3
    judged = certificate(p, solution)
    assert judged.gap == pytest.approx(solution.gap, abs=1e-11)
    if kernel is None:
        assert np.allclose(solution.w, X.T @ (y * solution.eta), atol=1e-14)


def test_the_rescaled_start_is_nearly_optimal_and_the_printed_one_worse_than_none():
    """The dual objective at the start of the merged problem; contract of SODM section 5."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((400, 2))
    y = np.where(np.hypot(*X.T) + 0.2 * generator.standard_normal(400) > 1.1, 1.0, -1.0)
    gram = Gram(Kernel("rbf", 2.0), X)
    p = Problem(None, gram, y, np.ones(400), losses.odm(2.0**4, 0.5, 0.3, 400))
    exact = newton.solve(p, Stop(1e-13, 200))
    merged = sodm.solve(p, Stop(1e-9, 1000), Settings(partitions=8, branch=8, stop_level=1)).eta
    K = objective.kernel_matrix(gram.kernel, gram.X, gram.X)

    def lacking(eta):
        dual = objective.certify_kernel(K, y, p.weight, p.loss, eta, eta).dual
        return (exact.dual - dual) / exact.dual

    assert lacking(merged) < 0.15
    assert lacking(np.zeros(400)) == pytest.approx(1)
    assert lacking(8 * merged) > 10


class Elsewhere(Serial):
    """Keeps values as a cluster does: pickled."""

    shares_memory = False

    def put(self, value, place=None):
        return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("where", [Serial(), Elsewhere()], ids=["here", "elsewhere"])
@pytest.mark.parametrize("kernel", [None, "rbf"])
@pytest.mark.parametrize("level", [8, 4])
def test_no_part_is_begun_after_the_time(kernel, where, level, monkeypatch):
    """In whichever level; nor are kernel values made for one, and the gap is that of the duals."""
    p, found, begun, solve = problem(kernel), [], [], dcd.solve
    made, rows = [], Tiles.parts
    with deadline.time_limit(None) as limit:

        def counted(*arguments, **named):
            begun.append(1)
            if len(begun) == (3 if level == 8 else 10):
                limit.end()
            return solve(*arguments, **named)

        monkeypatch.setattr(parts.dcd, "solve", counted)
        monkeypatch.setattr(Tiles, "parts", lambda *a: (made.append(1), rows(*a))[1])
        stopped = sodm.solve(p, Stop(1e-9), EIGHT, executor=where, report=found.append)
    assert [now.parts for now in found] == [8, 4][: 1 if level == 8 else 2]
    assert len(begun) == (3 if level == 8 else 10)
    assert len(made) <= len(begun) and stopped.eta.any() and not stopped.converged
    assert stopped.gap == pytest.approx(certificate(p, stopped).gap, rel=1e-9)


def test_no_level_is_begun_after_the_time(monkeypatch):
    """It is over in the pass for the gap."""
    p, found, certify = problem("rbf"), [], sodm.certify
    with deadline.time_limit(None) as limit:

        def ended(*arguments, **named):
            limit.end()
            return certify(*arguments, **named)

        monkeypatch.setattr(sodm, "certify", ended)
        sodm.solve(p, Stop(1e-9), EIGHT, report=found.append)
    assert [level.parts for level in found] == [8]


@pytest.mark.parametrize("tolerance", [1e-2, 1e-8])
@pytest.mark.parametrize(
    "scheme", [EIGHT, Settings(partitions=4, branch=4, partition_by="random", cascade=True)]
)
@pytest.mark.parametrize("kernel", [None, "rbf", "rbf with bias"])
def test_executors_agree(kernel, scheme, tolerance):
    p = problem(kernel, weight=weights())
    one = sodm.solve(p, Stop(tolerance), scheme, executor=Serial(), seed=2)
    two = sodm.solve(p, Stop(tolerance), scheme, executor=Threads(2), seed=2)
    assert np.array_equal(one.eta, two.eta) and one.gap == two.gap
    far = sodm.solve(p, Stop(tolerance), scheme, executor=Elsewhere(), seed=2)
    assert np.allclose(one.eta, far.eta, rtol=1e-9, atol=1e-12)
    assert far.gap == pytest.approx(one.gap, rel=1e-6, abs=1e-12)
    other = sodm.solve(p, Stop(tolerance), scheme, executor=Serial(), seed=3)
    assert not np.array_equal(one.eta, other.eta)


def test_a_part_that_is_done_keeps_no_kernel_values(monkeypatch):
    grams, real = [], Tiles.parts

    def spy(self, *arguments):
        grams.extend(real(self, *arguments))
        return grams[-len(arguments[0]) :]

    monkeypatch.setattr(Tiles, "parts", spy)
    sodm.solve(problem("rbf"), Stop(1e-3), Settings(partitions=4, branch=4, stop_level=1))
    assert len(grams) == 4 and not any(gram.is_computed for gram in grams)


def test_levels_are_reported_and_their_gaps_confirmed():
    p, levels, seen = problem("poly"), [], []
    solution = sodm.solve(p, Stop(1e-9, 20000), EIGHT, report=levels.append, progress=seen.append)
    assert [level.parts for level in levels] == [8, 4, 2, 1]
    assert [level.level for level in levels] == [3, 2, 1, 0]
    assert [s.gap for s in seen] == [level.gap for level in levels]
    assert levels[-1].gap == solution.gap
    for level in levels:
        judged = certificate(p, solution._replace(coef=level.eta, eta=level.eta))
        assert judged.gap == pytest.approx(level.gap, abs=1e-11)
        assert judged.primal == pytest.approx(level.primal, rel=1e-11)


def test_it_ends_at_the_first_level_whose_gap_is_small_enough():
    p, levels = problem("poly"), []
    assert sodm.solve(p, Stop(0.9), EIGHT, report=levels.append).converged
    assert len(levels) < 4 and levels[-1].gap <= 0.9
    assert all(level.gap > 0.9 for level in levels[:-1])


def test_a_start_is_used():
    p = problem("poly")
    done, levels = dcd.solve(p, Stop(1e-9, 5000)), []
    two = Settings(partitions=2, branch=2)
    sodm.solve(p, Stop(1e-2), two, start=done.eta, report=levels.append)
    cold = []
    sodm.solve(p, Stop(1e-2), two, report=cold.append)
    assert levels[0].epochs <= cold[0].epochs


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kept", [0.0, np.inf])
def test_tiles_multiply_as_the_matrix_does(dtype, kept):
    generator = np.random.default_rng(0)
    X = generator.standard_normal((2500, 5)).astype(dtype)
    v = generator.standard_normal(2500)
    ranges = [(0, 1300), (1300, 2500)]
    finer = [(0, 1300), (1300, 1900), (1900, 2500)]
    tiles = Tiles(Kernel("rbf", 0.3), X, finer, kept=kept, memory=np.inf, executor=Serial())
    K = Gram(Kernel("rbf", 0.3), X).matrix()
    parts = tiles.parts(ranges, [np.arange(a, b) for a, b in ranges])
    close = 1e-5 if dtype == np.float32 else 1e-12
    for _ in range(2):
        assert np.allclose(tiles.times(v), K.astype(float) @ v, rtol=close, atol=100 * close)
    if kept:
        assert np.array_equal(tiles.matrix, tiles.matrix.T)
        assert tiles.matrix.dtype == dtype
        cache = parts[1].cache()
        assert np.allclose(
            cache.rows[cache.slot[3], cache.first :][:1200], K[1303, 1300:], atol=1e-5
        )
    else:
        assert tiles.matrix is None
    assert [part.size for part in parts] == [1300, 1200]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bias", [0.0, 1.5])
def test_tiles_of_rows_without_their_commonest_values_are_the_same(dtype, bias):
    generator = np.random.default_rng(0)
    X = np.where(generator.random((300, 12)) < 0.15, generator.random((300, 12)), 1.0)
    X -= X.mean(axis=0)
    kernel, sparse_rows = Kernel("rbf", 0.7, bias=bias), compressed(X)
    assert sparse.issparse(sparse_rows) and sparse_rows.nnz < 0.2 * X.size
    expected = objective.kernel_matrix(kernel, X, X)
    S = sparse_rows.astype(dtype)
    tile = tile_values(kernel, S[:130], S[100:], on_diagonal=False)
    accuracy = 1e-13 if dtype == np.float64 else 1e-5
    assert tile.dtype == dtype and np.allclose(tile, expected[:130, 100:], rtol=0, atol=accuracy)
    assert tile_values(kernel, S[:9], S[:9], on_diagonal=True)[3, 3] == 1.0 + bias**2
    assert compressed(generator.random((50, 3))).dtype == float  # nothing to gain: left dense


@pytest.mark.parametrize("executor", [Serial(), Threads(2), Elsewhere()])
def test_rows_without_their_commonest_values_lead_to_the_same_solution(executor):
    generator = np.random.default_rng(1)
    X = np.where(generator.random((240, 9)) < 0.2, generator.random((240, 9)), 0.5)
    y = np.where(X.sum(axis=1) + 0.1 * generator.standard_normal(240) > 4.5, 1.0, -1.0)
    loss = losses.odm(2.0**8, 0.5, 0.3, 240)
    p = Problem(None, Gram(Kernel("rbf", 0.7), X), y, np.ones(240), loss)
    solution = sodm.solve(p, Stop(1e-4, 20000), EIGHT, executor=executor)
    judged = certificate(p, solution)
    assert judged.gap <= 1e-4 * (1 + 1e-2) and judged.gap == pytest.approx(solution.gap, abs=1e-6)


def test_single_precision_is_left_where_it_would_be_seen():
    p = problem("rbf")
    far = Gram(Kernel("rbf", 1e3), p.gram.X * 1e4)
    tiny, huge = (Gram(Kernel("rbf", 0.7 / f**2), p.gram.X * f) for f in (1e-20, 1e20))
    for gram, tolerance, single in (
        (p.gram, 1e-3, True),
        (p.gram, 1e-7, False),
        (far, 1e-3, False),
        (tiny, 1e-3, False),
        (huge, 1e-3, False),
    ):
        parts = parts_of(
            p._replace(gram=gram), np.arange(60), [(0, 60)], tolerance=tolerance,
            executor=Serial(), cascade=False,
        )  # fmt: skip
        assert (parts.X.dtype == np.float32) == single


def test_values_of_a_polynomial_need_double_precision():
    # Down to a gap of 1e-5, and for numbers far from the ends of what it holds.
    assert single_is_enough(Kernel("rbf", 0.3), 1.0, 1e-5)
    assert not single_is_enough(Kernel("rbf", 0.3), 1.0, 0.99e-5)
    assert single_is_enough(Kernel("rbf", 2e-29), 0.9e30, 1e-2)
    assert not single_is_enough(Kernel("rbf", 2e-29), 1.5e30, 1e-2)


@pytest.mark.parametrize("step", [3, 5, 100])
@pytest.mark.parametrize("is_same", [False, True])
def test_products_of_two_parts(is_same, step):
    """In tiles of any size; of a part with itself every pair counts once on both sides."""
    generator = np.random.default_rng(2)
    A, B = generator.standard_normal((7, 2)), generator.standard_normal((11, 2))
    a, b = generator.standard_normal(7), generator.standard_normal(11)
    B, b = (A, a) if is_same else (B, b)
    above, left = parts.pair_products(Kernel("poly", 0.5, 1.0, 2), A, B, a, b, is_same, step)
    K = (0.5 * A @ B.T + 1.0) ** 2
    np.testing.assert_allclose(above, K @ b, rtol=1e-12)
    np.testing.assert_allclose(left, 0.0 if is_same else K.T @ a, rtol=1e-12)


class Elsewhere(Serial):
    """This process, but as if values were kept on workers."""

    shares_memory = False


@pytest.mark.parametrize("executor", [Serial(), Elsewhere()], ids=["here", "elsewhere"])
@pytest.mark.parametrize("cascade", [False, True])
@pytest.mark.parametrize("kernel", [None, "rbf", "poly"])
def test_every_part_is_a_problem_of_its_own(kernel, cascade, executor):
    """Level by level: weights and duals as of the whole, and a cascade's examples that are left."""
    p = problem(kernel, weight=weights())
    order = np.random.default_rng(4).permutation(60)
    K = (p.X @ p.X.T).toarray() if kernel is None else objective.kernel_matrix(
        p.gram.kernel, p.gram.X, p.gram.X
    )  # fmt: skip
    K, y, u = K[np.ix_(order, order)], p.y[order], p.weight[order]
    levels = [[(0, 14), (14, 33), (33, 60)], [(0, 33), (33, 60)], [(0, 60)]]
    parted = parts_of(
        p, order, levels[0], tolerance=1e-12, executor=executor, cascade=cascade
    )  # fmt: skip
    eta, first = np.zeros(60), True
    for ranges in levels:
        # A cascade's parts have only the examples that had duals before.
        left = np.ones(60, bool) if first or not cascade else eta != 0
        known, first = eta.copy(), False
        epochs = parted.solve(ranges, eta, Stop(1e-9, 5000), seed=3)
        assert epochs == 0 or 1 < epochs < 5000
        for a, b in ranges:
            rows = a + np.flatnonzero(left[a:b])
            share = u[a:b].sum() / u.sum()
            gram = Gram.of_matrix(Kernel("precomputed"), K[np.ix_(rows, rows)])
            best = newton.solve(
                Problem(None, gram, y[rows], u[rows] / share, p.loss), Stop(1e-12, 100)
            )
            assert eta[rows] == pytest.approx(share * best.eta, abs=1e-3 * np.abs(eta).max())
        assert np.array_equal(eta[~left], known[~left])
        w, f = parted.values(eta, is_last=len(ranges) == 1)
        assert f == pytest.approx(K @ (eta * y), rel=1e-5, abs=1e-5)
        assert (w is None) == (kernel is not None)
        if w is not None:
            assert w == pytest.approx(p.X[order].T @ (eta * y), abs=1e-10)
    # Where nothing has changed, nothing is left to do.
    again = eta.copy()
    assert parted.solve(levels[-1], again, Stop(1e-6, 5000), seed=3) == 0
    assert np.allclose(again, eta, rtol=1e-12, atol=0)


def test_what_single_precision_may_cause_in_an_exponent():
    eps = float(np.finfo(np.float32).eps)
    for gamma in (0.3, 4.0):
        most = 1e-5 / (gamma * eps)
        assert single_is_enough(Kernel("rbf", gamma), 0.9999 * most, 1e-2)
        assert not single_is_enough(Kernel("rbf", gamma), 1.0001 * most, 1e-2)
    for gamma in (0.99e-30, 1.01e30):
        assert not single_is_enough(Kernel("rbf", gamma), 1e-40, 1e-2)
    for gamma in (1.01e-30, 0.99e30):
        assert single_is_enough(Kernel("rbf", gamma), 1e-40, 1e-2)


@pytest.mark.parametrize("branch, expected", [
    (2, [8, 4, 2, 1]), (3, [8, 3, 1]), (4, [8, 2, 1]), (8, [8, 1]), (99, [8, 1]), (1, [8, 4, 2, 1]),
])  # fmt: skip
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_parts_are_neighbours_of_those_with_whom_they_are_merged(kernel, branch, expected):
    p = problem(kernel)
    settings = Settings(partitions=8, branch=branch, strata=5, partition_by="random")
    order, levels = sodm.arrange(p, settings, 3)
    assert sorted(order) == list(range(60)) and [len(level) for level in levels] == expected
    for level in levels:
        assert level[0][0] == 0 and level[-1][1] == 60
        assert all(a < b for a, b in level)
        assert all(one[1] == other[0] for one, other in zip(level, level[1:], strict=False))
    for finer, level in zip(levels, levels[1:], strict=False):
        starts = [a for a, _ in finer]
        assert [a for a, _ in level] == starts[:: max(2, branch)]
    # Within a part the examples are in their order.
    assert all(np.all(np.diff(order[a:b]) > 0) for a, b in levels[0])


@pytest.mark.parametrize("stop_level, tolerance, expected", [
    (0, 1e-6, [1e-2, 1e-2, 1e-2, 1e-6]), (2, 1e-6, [1e-2, 1e-6]), (0, 0.05, [0.05] * 4),
])  # fmt: skip
def test_every_level_but_the_last_is_solved_roughly(stop_level, tolerance, expected, monkeypatch):
    asked, real = [], parts._Parts.solve

    def solve(self, ranges, eta, stop, seed):
        asked.append(stop)
        return real(self, ranges, eta, stop, seed)

    monkeypatch.setattr(parts._Parts, "solve", solve)
    p, levels, began = problem("poly"), [], time.perf_counter()
    found = sodm.solve(
        p, Stop(tolerance, 777), EIGHT._replace(stop_level=stop_level), report=levels.append
    )
    count = len(levels)  # which a large tolerance may make fewer
    assert [stop.tolerance for stop in asked] == expected[:count]
    assert {stop.limit for stop in asked} == {777}
    assert found.iterations == sum(level.epochs for level in levels)
    assert found.gap == levels[-1].gap and found.primal == levels[-1].primal
    assert np.array_equal(found.eta, levels[-1].eta) and found.converged == (found.gap <= tolerance)
    seconds = [s for level in levels for s in (level.solving, level.certifying)]
    assert min(seconds) >= 0 and sum(seconds) <= time.perf_counter() - began


@pytest.mark.parametrize("some", [[], [2], [0, 7]])
def test_parts_without_duals_are_not_multiplied_elsewhere(some, monkeypatch):
    p, seen, products = problem("rbf"), [], parts.pair_products
    ranges = [(a, a + 6) for a in range(0, 48, 6)] + [(48, 60)]
    parted = parts_of(
        p, np.arange(60), ranges, tolerance=1e-12, executor=Elsewhere(), cascade=False
    )  # fmt: skip
    monkeypatch.setattr(parts, "pair_products", lambda *a: seen.append(1) or products(*a))
    eta = np.zeros(60)
    for k in some:
        eta[slice(*ranges[k])] = np.arange(1.0, 7.0)
    _, f = parted.values(eta)
    K = objective.kernel_matrix(p.gram.kernel, p.gram.X, p.gram.X)
    assert f == pytest.approx(K @ (eta * p.y), rel=1e-12, abs=1e-12)
    n = len(some)
    assert len(seen) == 9 * n - n * (n - 1) // 2


@pytest.mark.parametrize("executor", [Serial(), Elsewhere()], ids=["here", "elsewhere"])
@pytest.mark.parametrize("ended", [0, 1])
def test_a_pass_that_takes_too_long_after_the_deadline_is_given_up(ended, executor, monkeypatch):
    """Then the level before is what there is; without one, the pass comes to its end."""
    p, found, begun = problem("rbf"), [], []
    clock, certify = moved_by_hand(deadline, monkeypatch), sodm.certify

    def late(*arguments, **named):
        begun.append(1)
        clock.now = 50.0 if len(begun) > ended else 1.0
        return certify(*arguments, **named)

    monkeypatch.setattr(sodm, "certify", late)
    with deadline.time_limit(10):
        given = sodm.solve(p, Stop(1e-12), EIGHT, executor=executor, report=found.append)
    assert len(begun) == 1 + ended and len(found) == 1 and found[0].parts == 8
    assert given.eta.any() and np.array_equal(given.eta, found[0].eta)
    assert given.gap == pytest.approx(certificate(p, given).gap, rel=1e-5)
    assert given.solver == "sodm" and not given.converged
