"""The kernel engine: its bounds are never violated, and its models are near the optimum."""


import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import examples
from scipy import sparse, stats

from odmtool.core import kernels, losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.judge.binary import certify_kernel, kernel_matrix
from odmtool.rows import tiles
from odmtool.rows.duplicates import first_of_each
from odmtool.rows.executor import Serial, local_executor
from odmtool.solvers import newton
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.engine import (
    certificate,
    choice,
    cost,
    full,
    products,
    reduced,
    sample,
    solve,
    thinned,
)
from odmtool.solvers.engine.columns import Columns
from odmtool.solvers.engine.cost import Cost
from odmtool.solvers.engine.features import Basis, bounded, features
from odmtool.solvers.engine.landmarks import Landmarks
from odmtool.solvers.engine.points import Points
from odmtool.solvers.engine.reduced import FeatureSpace

LOSSES = {
    "odm": lambda lambda_, total: losses.odm(lambda_, 0.3, 0.2, total),
    "l2svm": losses.l2svm,
    "lssvm": losses.lssvm,
}
KERNELS = {
    "rbf": Kernel("rbf", 0.3),
    "rbf with bias": Kernel("rbf", 0.5, bias=1.5),
    "poly": Kernel("poly", 0.3, 1.0, 3),
    "poly of degree 2 without constant": Kernel("poly", 0.5, 0.0, 2),
}


def problem_of(kernel, loss, lambda_, m=150, seed=0, weighted=False, dense=False, repeated=0):
    """A kernel problem, with ``repeated`` of its rows twice."""
    X, y = examples(m, 5, seed)
    random = np.random.default_rng(seed)
    twice = np.r_[np.arange(m), np.arange(repeated)]
    X, y = X[twice], y[twice]
    weight = random.uniform(0.1, 4.0, len(y)) if weighted else np.ones(len(y))
    X = X.toarray() if dense else X
    return Problem(None, Gram(kernel, X), y, weight, LOSSES[loss](lambda_, weight.sum()))


def points_of(problem, compiled=True):
    found = Points(problem.gram.kernel, problem.gram.X, Serial())
    found.expect(np.inf if compiled else 0)
    return found


def judged(problem, coef, eta, K=None):
    """The judge's verdict on a solution of the problem, by its own kernel matrix."""
    K = own_matrix(problem) if K is None else K
    return certify_kernel(K, problem.y, problem.weight, problem.loss, coef, eta)


def own_matrix(problem):
    return kernel_matrix(problem.gram.kernel, problem.gram.X, problem.gram.X)


def in_span(problem, r, seed=0, compiled=True):
    """The solution in the span of r landmarks: basis, what is left, evaluation and coef."""
    points = points_of(problem, compiled)
    chosen = Landmarks(points, r, seed)
    chosen.grow(r)
    members = np.array(chosen.members)
    basis = Basis(points, members, np.tril(chosen.features[members]))
    found = features(basis, certified=True)
    space = FeatureSpace(found.Z, problem.y, Serial())
    w = newton.solve(problem, Stop(1e-6, 60), space=space).w
    (point,) = certificate.evaluate(
        basis, Columns.of(problem.y[None], problem.weight, problem.loss), w[:, None]
    )
    coef = np.zeros(problem.size)
    coef[members] = problem.y[members] * point.alpha
    return chosen, basis, found, point, coef


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_bounds_hold_and_the_exact_gap_is_the_judges(kernel, loss, compiled):
    problem = problem_of(KERNELS[kernel], loss, 2.0**8, weighted=True)
    K = own_matrix(problem)
    for r in (5, 20, 60):
        _chosen, basis, found, point, coef = in_span(problem, r, compiled=compiled)
        truth = judged(problem, coef, point.eta, K)
        gap = truth.gap * point.scale
        assert point.primal == pytest.approx(truth.primal, rel=1e-10)
        allowed = 1e-7 * point.primal
        assert certificate.exact([point], basis)[0] == pytest.approx(gap, rel=1e-6, abs=allowed)
        for bound in (
            certificate.exact([point], basis)[0],
            certificate.free(point, found.left),
            certificate.drawn(point, basis, found.left, 50, 0),
        ):
            assert bound >= gap * (1 - 1e-12)


@pytest.mark.parametrize("dense", [True, False])
def test_only_where_many_kernel_values_are_to_come_they_are_compiled(dense, monkeypatch):
    """A small problem does not load numba; of sparse rows fewer values are many."""
    rows = problem_of(Kernel("rbf", 0.3), "odm", 1.0, 20, dense=True).gram.X
    points = Points(Kernel("rbf", 0.3), rows if dense else sparse.csr_matrix(rows), Serial())
    with monkeypatch.context() as patch:
        patch.setattr(tiles, "_rbf", lambda *_: pytest.fail("compiled code was loaded"))
        points.expect(1e6)
        points.rows(np.arange(5)).expect(np.inf)
        by_numpy = points.values(points.X, points.X)
    points.expect(1e7)
    assert points.is_compiled is not dense
    points.expect(1e8)
    assert points.is_compiled and points.rows(np.arange(5)).is_compiled
    assert points.values(points.X, points.X) == pytest.approx(by_numpy, rel=1e-12)


def test_an_entry_of_a_sparse_row_costs_more():
    X = np.ones((9, 50))
    sparse_one, dense_one = Cost.of(sparse.csr_matrix(X)), Cost.of(X)
    assert sparse_one.size == dense_one.size == 9 and sparse_one.value > dense_one.value


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_problem_violates_a_bound(data):
    """Whatever the problem: no bound is below the distance from the exact optimum."""
    kernel = KERNELS[data.draw(st.sampled_from(sorted(KERNELS)))]
    loss = data.draw(st.sampled_from(sorted(LOSSES)))
    scale = 10.0 ** data.draw(st.integers(-3, 1))
    lambda_ = 2.0 ** data.draw(st.integers(-4, 18))
    seed, r = data.draw(st.integers(0, 2**20)), data.draw(st.integers(1, 40))
    problem = problem_of(kernel, loss, lambda_, 60, seed, weighted=data.draw(st.booleans()))
    X = problem.gram.X * scale
    problem = problem._replace(gram=Gram(kernel, X))
    _chosen, basis, found, point, _coef = in_span(problem, r, seed)
    best = newton.solve(problem, Stop(1e-12, 100))
    excess = point.primal - best.primal
    allowed = 1e-9 * point.primal
    assert certificate.exact([point], basis)[0] >= excess - allowed
    assert certificate.free(point, found.left) >= excess - allowed
    assert certificate.drawn(point, basis, found.left, 30, seed) >= excess - allowed


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_is_left_is_the_distance_from_the_span(kernel):
    problem = problem_of(KERNELS[kernel], "odm", 1.0, 120)
    chosen, basis, found, *_ = in_span(problem, 30)
    K = kernels.gram(problem.gram.kernel, problem.gram.X)
    members, most = basis.members, K.diagonal().max()
    inverse = np.linalg.pinv(K[np.ix_(members, members)], hermitian=True)
    left = K.diagonal() - np.einsum("ij,jk,ik->i", K[:, members], inverse, K[:, members])
    assert np.all(found.left >= left - 1e-12 * most)
    assert found.left == pytest.approx(np.maximum(left, 0), abs=1e-7 * most)
    assert bounded(chosen.left, basis) == pytest.approx(found.left, abs=1e-7 * most)
    assert pytest.approx(K - _outside(K, members, inverse), abs=1e-5 * most) == found.Z @ found.Z.T


def _outside(K, members, inverse):
    return K - K[:, members] @ inverse @ K[members]


def test_landmarks_end_when_nothing_is_left():
    X = np.repeat(np.arange(4.0), 10)[:, None]
    points = Points(Kernel("rbf", 0.5), X, Serial())
    chosen = Landmarks(points, 40, 0)
    chosen.grow(40)
    assert chosen.is_exhausted
    assert sorted(X[chosen.members, 0]) == [0, 1, 2, 3]
    assert chosen.left.max() < 1e-9


def test_landmarks_of_nothing():
    chosen = Landmarks(Points(Kernel("poly", 1.0, 0.0, 2), np.zeros((5, 2)), Serial()), 5, 0)
    assert chosen.is_exhausted


def test_the_drawn_bound_fails_as_rarely_as_it_says():
    """With delta = 0.2, so that failures would be seen, over draws and problems."""
    failures = draws = 0
    for seed in range(5):
        problem = problem_of(KERNELS["rbf"], "odm", 2.0**10, 150, seed)
        _chosen, basis, found, point, _coef = in_span(problem, 15, seed)
        gap = certificate.exact([point], basis)[0]
        for k in range(60):
            draws += 1
            failures += certificate.drawn(point, basis, found.left, 60, (seed, k), 0.2) < gap
    assert failures <= 0.2 * draws


@pytest.mark.parametrize("delta", [0.2, 1e-7])
@pytest.mark.parametrize(("happened", "count"), [(0, 450), (1, 27), (12, 450), (27, 27)])
def test_a_share_says_how_likely_it_may_have_been(happened, count, delta):
    most = certificate.most_likely(happened / count, count, delta)
    seldom = stats.binom.cdf(happened, count, most)
    assert seldom <= delta * (1 + 1e-6) or most == 1
    if happened == 0:
        assert seldom == pytest.approx(delta)


def test_the_bound_by_drawn_rows_is_that_of_the_papers():
    """a'Ea is at most the B with B = T q sqrt(B) + Maurer's and Pontil's bound of the mean."""
    total, limit, mean, variance, beyond, n, delta = 30.0, 2.0, 5.0, 4.0, 0.01, 900, 1e-3
    rows, log = n - certificate._pilots(n), np.log(4 / delta)
    certain = mean + np.sqrt(2 * variance * log / rows) + 7 * 2 * limit * log / (3 * (rows - 1))
    q = certificate.most_likely(beyond, rows, delta / 2)
    bound = certificate.Draw(total, limit, mean, variance, beyond).bound(n, delta)
    assert bound == pytest.approx(total * q * np.sqrt(bound) + certain, rel=1e-9)


def test_a_weighted_gram_matrix_is_made_of_all_parts(monkeypatch):
    monkeypatch.setattr(reduced, "_ROWS", 1)
    generator = np.random.default_rng(0)
    Z, weights, rows = generator.random((70, 3)), generator.random(50), np.arange(10, 60)
    found = reduced.weighted_gram(Z, rows, weights, local_executor(2))
    assert found == pytest.approx(Z[rows].T @ (weights[:, None] * Z[rows]))


def test_the_memory_of_a_problem_is_what_it_keeps():
    """Tiles of half the matrix in single precision, features, and three square matrices."""
    m, r = 5000, solve.landmarks_in(5000, 1e12)
    needed = 2.0 * m * (m + 1024) + r * (4 * m + 12 * solve.sample_size(m)) + 24 * r * r
    assert solve.needed_bytes(m, 1e12) == needed
    # Four problems: Hessian and factor of each, and vectors of the examples.
    m, memory = 20_000, 1e9
    room = solve.Room.of(m, memory, 4)
    needed = [n * (4 * m + 8 * room.sample) + 4 * (200 * m + 16 * n * n)
              for n in (room.landmarks, room.landmarks + 1)]  # fmt: skip
    assert 48 < room.landmarks < 2500 and needed[0] <= memory - room.tiles < needed[1]


def test_drawn_rows_depend_on_the_seed_only(monkeypatch):
    problem = problem_of(KERNELS["rbf"], "odm", 2.0**10)
    _chosen, basis, found, point, _coef = in_span(problem, 15)
    bounds = [certificate.drawn(point, basis, found.left, 60, seed) for seed in (3, 3, 4)]
    assert bounds[0] == bounds[1] != bounds[2]
    monkeypatch.setattr(certificate, "_ROWS", 3)
    assert bounds[0] == pytest.approx(certificate.drawn(point, basis, found.left, 60, 3))


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_solutions_are_certified(kernel, loss, dense):
    problem = problem_of(
        KERNELS[kernel], loss, 2.0**6, weighted=True, dense=dense, repeated=40
    )  # fmt: skip
    solution = solve.solve(problem, Stop(1e-3, 100))
    assert solution.converged and solution.gap <= 1e-3
    # The coefficients of landmarks are no duals.
    duals = solution.eta if solution.solver == "landmarks" else solution.coef
    assert solution.warm_start is duals
    truth = judged(problem, solution.coef, solution.eta)
    assert solution.primal == pytest.approx(truth.primal, rel=1e-9)
    assert truth.gap <= solution.gap * (1 + 1e-9)


def forced(way, monkeypatch):
    """Every problem takes this way to its certificate."""
    monkeypatch.setattr(choice, "_ways", lambda *_: [choice.Choice(way, 0.0, 100)])


@pytest.mark.parametrize("loss", LOSSES)
def test_newton_beyond_the_landmarks(loss, monkeypatch):
    """Where 48 landmarks are not enough, the full problem is solved from them."""
    forced("full", monkeypatch)
    problem, expect = problem_of(Kernel("rbf", 5.0), loss, 2.0**12, 400, weighted=True), []

    def compared(run, newtons, duals):
        """Drawn examples tell about what all would."""
        found, (one,) = full_gaps(run, newtons, duals), newtons
        K = kernel_matrix(problem.gram.kernel, run.points.X, run.points.X)
        t = one.y * (K @ duals[:, 0])
        expect.append((found[0], one.shares(t, one.y * duals[:, 0]).sum()))
        return found

    full_gaps = full._expected_gaps
    monkeypatch.setattr(full, "_expected_gaps", compared)
    solution = solve.solve(problem, Stop(1e-5, 100))
    [(found, true)] = expect
    assert found == pytest.approx(true, rel=0.2)
    assert solution.solver == "landmarks, then newton" and solution.converged
    best = newton.solve(problem, Stop(1e-12, 100))
    assert solution.primal - best.primal <= solution.gap * solution.primal * (1 + 1e-6)
    truth = judged(problem, solution.coef, solution.eta)
    assert truth.gap <= solution.gap * (1 + 1e-6) <= 1e-5 * (1 + 1e-6)


@pytest.mark.parametrize(
    "way, gamma, counts",
    [("drawn", 0.005, [20, 100]), ("drawn", 0.02, [20]), ("exact", 0.01, []),
     ("full", 2.0, [])],
)
def test_features_of_some_examples_are_enough(way, gamma, counts, monkeypatch):
    """Where features of few are kept; ever more rows are drawn while they may prove it.

    Where they tell that the gap is larger, with gamma .02, there are no more, and no pass.
    """
    if gamma == 0.005:
        bounds = certificate.bounds
        monkeypatch.setattr(certificate, "free", lambda point, left: np.inf)
        monkeypatch.setattr(certificate, "bounds", lambda points, basis, drawn, count, delta: (
            [np.inf] * len(points) if count < 100 else bounds(points, basis, drawn, count, delta)
        ))  # fmt: skip
    monkeypatch.setattr(choice, "_ways", lambda *_: [choice.Choice(way, 0.0, 20)])
    for module in (cost, sample, solve, thinned):
        monkeypatch.setattr(module, "MOST", 150)
    monkeypatch.setattr(sample, "_SAMPLE", 100)
    kept, solve_some = [], thinned.solve
    monkeypatch.setattr(thinned, "solve", lambda *a: kept.append(a[1]) or solve_some(*a))
    draws, draw = [], certificate.outsides
    monkeypatch.setattr(certificate, "outsides", lambda *a: draws.append(a[3]) or draw(*a))
    m = 1000 if way == "drawn" else 600
    problem = problem_of(Kernel("rbf", gamma), "odm", 2.0**10, m, weighted=True, dense=True)
    X = problem.gram.X
    problem = problem._replace(gram=Gram(problem.gram.kernel, X, 1e8))
    Y = [problem.y, np.where(X[:, 0] > np.median(X[:, 0]), 1.0, -1.0)]
    solutions = solve.solve_all([problem._replace(y=y) for y in Y], Stop(1e-3, 100))
    assert {len(Z) for Z in kept} == {150}
    assert draws[:2] == counts
    K = own_matrix(problem)
    for y, solution in zip(Y, solutions, strict=True):
        assert solution.converged and (way == "exact") <= (solution.solver == "landmarks")
        assert (way == "full") <= (solution.solver == "landmarks, then newton")
        truth = judged(problem._replace(y=y), solution.coef, solution.eta, K)
        assert truth.gap <= solution.gap * (1 + 1e-6) <= 1e-3 * (1 + 1e-6)
        assert truth.primal == pytest.approx(solution.primal, rel=1e-9)


def test_drawn_rows_do_not_depend_on_kept_ones(monkeypatch):
    """Their bound holds for a point that was made without them."""
    seeds, generator = [], np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", lambda s: seeds.append(s) or generator(s))
    assert len(thinned.kept_rows(thinned.MOST + 1, seed=7)) == thinned.MOST
    assert len(seeds) == 1 and seeds[0] not in [7, *((7, draw) for draw in range(1, 9))]


def test_newton_goes_on_where_the_landmarks_are(monkeypatch):
    """The first step is not the point of the duals that they demand, which is farther away."""
    forced("full", monkeypatch)
    monkeypatch.setattr("odmtool.solvers.engine.points.BY_NUMPY", 0)
    problem, seen = problem_of(Kernel("rbf", 0.1), "odm", 2.0**14, 400, seed=1), []
    solution = solve.solve(problem, Stop(1e-3, 100), progress=seen.append)
    assert solution.solver == "landmarks, then newton" and solution.converged
    primals = np.array([now.primal for now in seen])
    assert 2 < len(primals) < 9 and np.all(np.diff(primals) <= 0)


@pytest.mark.parametrize("way, gamma", [("full", 2.0), ("drawn", 0.02)])
def test_problems_side_by_side(way, gamma, monkeypatch):
    """One class against the rest: each is certified as if it were alone, for any -j."""
    forced(way, monkeypatch)
    monkeypatch.setattr(tiles, "_ROWS", 100)
    whole = problem_of(Kernel("rbf", gamma), "odm", 2.0**10, 300, weighted=True, repeated=30)
    classes = np.digitize(whole.gram.X[:, 0], [-1.0, 0.0, 1.0])
    problems = [whole._replace(y=np.where(classes == k, 1.0, -1.0)) for k in range(4)]
    found = solve.solve_all(problems, Stop(1e-3, 100))
    for problem, one in zip(problems, found, strict=True):
        truth = judged(problem, one.coef, one.eta)
        assert one.converged and truth.gap <= one.gap * (1 + 1e-6) <= 1e-3 * (1 + 1e-6)
        assert one.primal == pytest.approx(truth.primal, rel=1e-9)
        assert (one.solver == "landmarks, then newton") == (way == "full")
    again = solve.solve_all(problems, Stop(1e-3, 100), executor=local_executor(2))
    assert all(np.array_equal(a.coef, b.coef) for a, b in zip(found, again, strict=True))


@pytest.mark.parametrize("way", ["free", "drawn", "exact"])
def test_a_way_that_does_not_reach_the_tolerance_is_left(way, monkeypatch):
    forced(way, monkeypatch)
    problem = problem_of(Kernel("rbf", 2.0), "odm", 2.0**12, 300)
    solution = solve.solve(problem, Stop(1e-3, 100))
    assert solution.converged
    assert judged(problem, solution.coef, solution.eta).gap <= 1e-3


def test_a_sample_serves_all(monkeypatch):
    """Landmarks and forecast from a sample, features and certificate of all examples."""
    monkeypatch.setattr(sample, "_SAMPLE", 200)
    problem = problem_of(Kernel("rbf", 0.02), "odm", 2.0**8, 600)
    solution = solve.solve(problem, Stop(1e-3, 100))
    assert solution.converged and solution.solver == "landmarks"
    assert judged(problem, solution.coef, solution.eta).gap <= solution.gap * (1 + 1e-9)
    assert solution.support_count < 300


def far_examples(m, far, lambda_):
    """Examples in a heap, few of them far from it and from each other."""
    random = np.random.default_rng(2)
    X = 0.05 * random.standard_normal((m, 3))
    X[random.choice(m, far, replace=False)] += random.standard_normal((far, 3))
    y = np.where(X @ [1, 0.3, 0] + 0.02 * random.standard_normal(m) > 0.02, 1.0, -1.0)
    return Problem(None, Gram(Kernel("rbf", 1.0), X), y, np.ones(m), LOSSES["odm"](lambda_, m))


@pytest.mark.parametrize("lambda_", [2.0**8, 2.0**18])
def test_newton_starts_at_coefficients_that_are_no_duals(lambda_, monkeypatch):
    """A sample without some far examples has few landmarks, of large coefficients that cancel."""
    monkeypatch.setattr(sample, "_SAMPLE", 60)
    problem = far_examples(600, 40, lambda_)
    solution = solve.solve(problem, Stop(1e-3, 40))
    assert solution.solver == "landmarks, then newton" and solution.converged
    assert judged(problem, solution.coef, solution.eta).gap <= solution.gap * (1 + 1e-6)


def test_a_pass_proves_what_the_free_bound_does_not_where_landmarks_end(monkeypatch):
    monkeypatch.setattr(sample, "_SAMPLE", 200)
    problem = far_examples(600, 3, 2.0**4)
    solution = solve.solve(problem, Stop(1e-3, 40))
    assert solution.solver == "landmarks" and solution.converged
    assert judged(problem, solution.coef, solution.eta).gap <= solution.gap * (1 + 1e-6)


def test_threads_change_nothing(monkeypatch):
    problem = problem_of(KERNELS["rbf"], "odm", 2.0**10, 700)
    one = solve.solve(problem, Stop(1e-4, 100), seed=5)
    two = solve.solve(problem, Stop(1e-4, 100), seed=5, executor=local_executor(2))
    assert np.array_equal(one.coef, two.coef) and one.gap == two.gap


def test_a_step_makes_one_product_for_all_examples(monkeypatch):
    """The others are between examples with duals."""
    asked, steps = [], []
    of, step = products.Products.of, full.FullNewton.step

    def counted(self, some):
        asked.extend(some)
        return of(self, some)

    def counted_step(self, *gaps):
        steps.append(1)
        return (yield from step(self, *gaps))

    monkeypatch.setattr(products.Products, "of", counted)
    monkeypatch.setattr(full.FullNewton, "step", counted_step)
    monkeypatch.setattr(sample, "_SAMPLE", 60)
    problem = far_examples(600, 40, 2.0**4)
    solution = solve.solve(problem, Stop(1e-3, 40))
    assert solution.solver == "landmarks, then newton" and solution.converged
    assert judged(problem, solution.coef, solution.eta).gap <= solution.gap * (1 + 1e-6)
    everywhere = [one for one in asked if one.wanted is None and not one.exactly]
    assert steps and len(everywhere) <= len(steps) < len(asked) - len(everywhere)


@pytest.mark.parametrize("dense", [False, True])
def test_duplicates_are_found(dense):
    rows = np.array([[0.0, 1, 2], [0, 1, 2], [0, 1, 2.5], [-0.0, 1, 2], [0, 0, 0], [0, 0, 0]])
    y = np.array([1.0, 1, 1, -1, 1, 1])
    X = rows if dense else sparse.csr_matrix(rows)
    first, member = first_of_each(X, y)
    assert first.tolist() == [0, 2, 3, 4]
    assert member.tolist() == [0, 0, 1, 2, 3, 3]


def test_examples_without_duplicates_stay():
    X = np.random.default_rng(0).standard_normal((40, 3))
    first, member = first_of_each(X, np.ones(40))
    assert first.tolist() == member.tolist() == list(range(40))


def test_the_error_of_what_is_left_is_that_of_the_head_of_its_file():
    """Over some examples: the largest sum of |coefficients| amplifies errors of kernel values."""
    X = examples(40, 5)[0].toarray()
    points = Points(Kernel("rbf", 0.3), X, Serial())
    members = np.argsort(-np.abs(X).sum(axis=1))[:4]  # no two are the same
    K = kernel_matrix(Kernel("rbf", 0.3), X, X[members])
    L = np.linalg.cholesky(K[members])
    basis = Basis(points, members, L)
    inverse = np.linalg.inv(L)
    beta = max(sum(abs(x) for x in inverse.T @ (inverse @ row)) for row in K)
    product = max(np.linalg.norm(np.abs(inverse) @ np.abs(row)) for row in K)
    roundings = (4 + 8) * 2.0**-53
    expected = (points.value_error + roundings) * (1 + 2 * beta) ** 2 + 4 * roundings * product
    assert basis.error == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(basis.inverse, inverse.T, atol=1e-12)
    np.testing.assert_allclose(basis.in_span(K), K @ inverse.T, atol=1e-12)
    crossed = np.arange(4.0)
    expected = np.linalg.solve(K[members], crossed)
    np.testing.assert_allclose(basis.projection(crossed), expected, rtol=1e-9)


def test_the_gap_in_the_span_has_what_rounding_may_hide(monkeypatch):
    """Larger than |L^-T q|^2 / 2 by what errors of the kernel values do to q."""
    problem = problem_of(KERNELS["rbf"], "odm", 8.0, m=40)
    points = Points(problem.gram.kernel, problem.gram.X, Serial())
    members = np.array([1, 8, 20, 30])
    K = kernel_matrix(problem.gram.kernel, problem.gram.X, problem.gram.X)
    L = np.linalg.cholesky(K[np.ix_(members, members)])
    basis = Basis(points, members, L)
    columns = Columns.of(problem.y[None], problem.weight, problem.loss)
    W = np.array([[0.3], [-0.2], [0.5], [0.1]])
    (point,) = certificate.evaluate(basis, columns, W)
    alpha = np.linalg.inv(L).T @ W[:, 0]
    a = point.a
    q = K[np.ix_(members, members)] @ alpha - K[members] @ a
    seeming = np.linalg.norm(np.linalg.inv(L) @ q)
    # So large that it shows beside the gap itself.
    error = 0.01
    monkeypatch.setattr(certificate, "_value_error", lambda basis: error)
    (further,) = certificate.evaluate(basis, columns, W)
    products = error * (np.abs(alpha).sum() + np.abs(a).sum())
    hidden = np.linalg.norm(np.linalg.inv(L)) * np.sqrt(4) * products
    assert point.inside == pytest.approx(seeming**2 / 2, rel=1e-6)
    assert further.inside == pytest.approx((seeming + hidden) ** 2 / 2, rel=1e-6)
