"""Parts of the kernel engine, each beside the same written out: examples, features, columns."""

import numpy as np
import pytest
from engine_problems import own_matrix, points_of, problem_of
from scipy import sparse

from odmtool.core import deadline, losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.rows.executor import Serial
from odmtool.solvers.base import Problem, Solution, Stop
from odmtool.solvers.engine import certificate, sample, solve
from odmtool.solvers.engine import columns as engine_columns
from odmtool.solvers.engine.choice import Choice
from odmtool.solvers.engine.columns import Columns
from odmtool.solvers.engine.features import Basis, features
from odmtool.solvers.engine.landmarks import Landmarks
from odmtool.solvers.engine.reduced import FeatureSpace
from odmtool.solvers.newton import newton


@pytest.mark.parametrize("dense", [False, True])
def test_examples_that_are_the_same_become_one(dense):
    """Those of the same row, and the same class in all problems; weights are summed up."""
    random = np.random.default_rng(3)
    rows = random.standard_normal((9, 3))[random.integers(0, 9, 70)]
    X = rows if dense else sparse.csr_matrix(rows)
    Y, u = np.where(random.random((2, 70)) < 0.3, 1.0, -1.0), random.uniform(0.5, 2.0, 70)
    loss = losses.l1svm(2.0**4, u.sum())
    # In the second problem some take no part.
    Y[1] *= random.random(70) < 0.7
    columns = Columns.of(Y, u, loss)
    found, merged, first, member = solve._merged(X, columns)
    signs, weight = merged.signs, merged.weight
    seen = {}
    for i in range(70):
        seen.setdefault((*rows[i], *Y[:, i]), []).append(i)
    assert sorted(first) == sorted(group[0] for group in seen.values())
    for group in seen.values():
        [k] = {int(member[i]) for i in group}
        assert first[k] == group[0] and weight[k] == pytest.approx(u[group].sum())
        assert np.array_equal((found[[k]] if dense else found[[k]].toarray())[0], rows[group[0]])
        assert np.array_equal(signs[:, k], Y[:, group[0]])
    # And back: shares of the duals by weight, within what the loss allows.
    most, coef = losses.scaled(loss, weight), random.standard_normal(len(first))
    eta = -most.left_lo * random.choice([0.25, 1.0], len(first))
    eta *= 1 + 1e-15
    solution = Solution(None, coef, eta, 1.0, 0.0, 1.0, 3, False, "landmarks")
    spread = solve._spread_out(columns, 0, solution, first, member)
    expected, shares = np.zeros(70), np.zeros(70)
    expected[first] = coef
    for group in seen.values():
        shares[group] = eta[member[group[0]]] * u[group] / u[group].sum()
    assert np.array_equal(spread.coef, expected)
    np.testing.assert_allclose(spread.eta, shares, rtol=1e-13)
    assert np.all(spread.eta <= -losses.scaled(loss, u).left_lo) and spread.primal == 1.0


def test_examples_that_all_differ_are_taken_as_they_are():
    problem = problem_of(Kernel("rbf", 0.5), "odm", 2.0**4, 30, weighted=True, dense=True)
    rows = np.random.default_rng(0).standard_normal((30, 3))
    problem = problem._replace(gram=Gram(problem.gram.kernel, rows))
    columns = Columns.of(problem.y[None], problem.weight, problem.loss)
    X, found, *_ = solve._merged(problem.gram.X, columns)
    assert X is problem.gram.X and found is columns


@pytest.mark.parametrize("certified", [True, False])
@pytest.mark.parametrize("some", [None, [0, 3, 511, 512, 700, 1099]])
def test_features_of_all_or_some(certified, some):
    """L^-1 k(Z, x), and what is left of every example; also where these are in several blocks."""
    problem = problem_of(Kernel("poly", 0.3, 1.0, 2), "odm", 1.0, 1100, dense=True)
    points, members = points_of(problem), np.array([5, 700, 3, 42])
    K = problem.gram.matrix()
    L = np.linalg.cholesky(K[np.ix_(members, members)])
    basis = Basis(points, members, L)
    expected = np.linalg.solve(L, K[members]).T
    rows = None if some is None else np.array(some)
    found = features(basis, certified=certified, rows=rows)
    wanted = expected if some is None else expected[rows]
    np.testing.assert_allclose(found.Z, wanted, rtol=1e-3, atol=1e-3)
    assert found.Z.dtype == np.float32
    if not certified:
        assert found.left is None
        return
    left = np.maximum(K.diagonal() - (expected**2).sum(axis=1), 0.0) + basis.error
    np.testing.assert_allclose(found.left, left, rtol=1e-6, atol=1e-13)


def test_what_single_precision_hides_is_looked_for_in_double():
    """If that is more than a share of the tolerance, and there is room for the landmarks."""
    problem = problem_of(Kernel("rbf", 0.02), "odm", 2.0**30, 1000, dense=True)
    X = problem.gram.X
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] > 0, 1.0, -1.0)
    columns = Columns.of(y[None], problem.weight, problem.loss)

    def found(tolerance: float, most: int):
        drawn = sample.DrawnExamples(
            columns, points_of(problem), np.arange(1000), 200, 0, tolerance, most
        )
        drawn.landmarks.grow(60)
        inside = drawn.forecast(0.0).inside
        drawn.landmarks.grow(200)
        return inside, drawn.is_hidden, drawn.Z.dtype, len(drawn.landmarks.members)

    inside, *rest = found(2.0**-20, 0)
    assert inside > 2.0**-20 and rest == [False, np.float32, 200]
    assert found(1.0, 100)[1] is False and found(2.0**-20, 50)[1] is False
    inside, *rest = found(2.0**-20, 100)
    assert inside < 1e-15 and rest == [True, np.float64, 100]


@pytest.mark.parametrize("is_whole", [True, False])
def test_what_is_forecast_of_a_sample(monkeypatch, is_whole):
    """By the solutions in the span: duals and S of the worst, the largest gap in the span."""
    problem = problem_of(Kernel("rbf", 0.3), "odm", 2.0**8, 60, weighted=True, dense=True)
    points, random, told = points_of(problem), np.random.default_rng(0), []
    signs = np.array([problem.y, -problem.y, np.where(random.random(60) < 0.5, 1.0, -1.0)])
    rows = np.arange(0, 60, 1 if is_whole else 2)
    columns = Columns.of(signs, problem.weight, problem.loss)
    drawn = sample.DrawnExamples(columns, points, rows, 9, 3, 1e-2)
    assert drawn.is_whole is is_whole and (drawn.points is points) is is_whole
    drawn.landmarks.grow(9)
    assert np.array_equal(drawn.members, rows[drawn.landmarks.members])
    factor = drawn.landmarks.factor
    K = own_matrix(problem)[np.ix_(drawn.members, drawn.members)]
    np.testing.assert_allclose(factor @ factor.T, K, rtol=1e-9, atol=1e-12)
    W = random.standard_normal((9, 3))
    monkeypatch.setattr(sample, "solve_in_span", lambda Z, c, *others: told.append(
        (Z, *others[:2])
    ) or (W, 3, None))  # fmt: skip
    outsides = [certificate.Draw(1.0, 1.0, 0.5, 0.0, 0.0)]
    monkeypatch.setattr(sample, "forecast", lambda *a: told.append(a) or sample.Forecast(
        9, 1.0, 0.25, outsides, 0.0
    ))  # fmt: skip
    monkeypatch.setattr(drawn, "_demanded", lambda Z, a, slopes: told.append((a, slopes)) or 3.0)
    found = drawn.forecast(0.125)
    (Z, start, tolerance), arguments, (a, slopes) = told
    assert start.shape == (0, 3) and tolerance == pytest.approx(1e-2 * 1e-2)
    weight = problem.weight[rows] * (problem.weight.sum() / problem.weight[rows].sum())
    loss, A, scales, inside, bent = losses.scaled(problem.loss, weight), [], [], [], []
    for y, w in zip(signs[:, rows], W.T, strict=True):
        t = y * (Z.astype(float) @ w)
        A.append(-y * losses.derivative(loss, t))
        bent.append(losses.slope(loss, t))
        scales.append(w @ w / 2 + np.abs(losses.value(loss, t)).sum())
        gradient = w - Z.T.astype(float) @ A[-1]
        inside.append(gradient @ gradient / 2 / scales[-1])
    worst = int(np.argmax([(one**2).sum() / s for one, s in zip(A, scales, strict=True)]))
    known, landmarks, duals, gap, scale, m, seed, enough, own_weight = arguments
    assert (known, landmarks) == (drawn.points, drawn.landmarks)
    np.testing.assert_allclose(duals, A[worst][:, None], rtol=1e-4, atol=1e-4)
    assert gap == pytest.approx(max(inside), rel=1e-4)
    assert scale == pytest.approx(scales[worst], rel=1e-5)
    assert (m, seed, enough) == (60, 3, 0.125) and not own_weight.any()
    np.testing.assert_allclose(a, A[worst], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(slopes, bent[worst], rtol=1e-6)
    assert found.active == pytest.approx(np.any(np.array(A).T, axis=1).mean())
    assert found.demanded == pytest.approx(3.0 / scales[worst], rel=1e-5)
    assert found.exact == 0.25 + 0.5 / 2
    assert drawn.W is W
    drawn.take(np.array([0, 2]))
    assert np.array_equal(drawn.W, W[:, [0, 2]]) and drawn._columns.count == 2
    # Features are made once, and again when there are more, or they were let go of.
    assert drawn.Z is drawn.Z
    before = drawn.Z
    drawn.rest()
    assert drawn.Z is not before and np.array_equal(drawn.Z, before)


def test_what_examples_add_by_themselves_falls_with_what_they_stand_for():
    """Four times as many examples, of which those of the sample add a quarter by themselves."""
    problem = problem_of(Kernel("rbf", 2.0), "odm", 2.0**8, 80, dense=True)
    points, m = points_of(problem), 320
    chosen = Landmarks(points, 10, 0)
    chosen.grow(10)
    A = np.random.default_rng(0).random((80, 1))

    def mean(own_weight):
        known = sample.forecast(points, chosen, A, 0.0, 1.0, m, 3, own_weight=own_weight)
        return known.outsides[0].mean

    own, alone = np.arange(80) % 3 == 0, chosen.left * A[:, 0] ** 2
    times = sample._unseen(False, 80, 10)
    most = mean(np.ones(80, dtype=bool))
    for some in (own, ~own, np.zeros(80, dtype=bool)):
        assert most - mean(some) == pytest.approx(0.75 * times * alone[~some].sum(), rel=1e-6)
    assert mean(None) == mean(np.zeros(80, dtype=bool))


def test_forecasts_of_several_functions_are_summed_up():
    draws = [certificate.Draw(1.0, 0.5, mean, 0.25, 0.0) for mean in (0.5, -0.25, 0.125)]
    known = sample.Forecast(9, 4.0, 0.0625, [], 0.5)
    assert known.exact == 4.0 and known.demanded == np.inf
    known = known._replace(outsides=draws)
    assert known.exact == 0.0625 + 0.625 / 2
    bounds = [draw.bound(400, certificate.DELTA / 3) for draw in draws]
    assert known.drawn(400) == pytest.approx(0.0625 + sum(bounds) / 2, rel=1e-14)


def test_landmarks_of_problems_that_differ_in_their_loss():
    """Columns: some of the problems, some of the examples, one, and in single precision."""
    random = np.random.default_rng(0)
    signs = random.integers(-1, 2, (2, 30)).astype(np.int8)
    rows, weight = np.array([1, 0, 1]), random.uniform(0.5, 2.0, 30)
    loss = losses.MarginLoss(*random.uniform(0.5, 1.0, (9, 3)))
    columns = Columns(loss, signs, rows, weight)
    expected = [weight[signs[row] != 0].sum() for row in rows]
    assert columns.count == 3
    np.testing.assert_allclose(columns.total_weights(), expected)
    two = columns.take(np.array([2, 1]))
    assert two.row.tolist() == [1, 0] and np.array_equal(two.loss.hi, loss.hi[[2, 1]])
    some = columns.rows(np.array([4, 9, 2]))
    np.testing.assert_allclose(some.weight, weight[[4, 9, 2]] * weight.sum()
                               / weight[[4, 9, 2]].sum())  # fmt: skip
    assert np.array_equal(some.signs, signs[:, [4, 9, 2]])
    alone = columns.take(np.array([1])).problem()
    assert alone.loss == tuple(float(field[1]) for field in loss)
    assert np.array_equal(alone.y, signs[0]) and alone.y.dtype == float
    assert (alone.X, alone.gram) == (None, None)
    assert np.array_equal(alone.weight, weight * (signs[0] != 0))
    assert np.array_equal(columns.labels(), [np.where(signs[row] < 0, -1, 1) for row in rows])
    single = columns.single()
    assert single.weight.dtype == single.loss.lo.dtype == np.float32
    block, f = columns.block(slice(5, 20)), random.standard_normal((15, 3))
    for j, row in enumerate(rows):
        own, y = losses.MarginLoss(*(field[j] for field in loss)), signs[row, 5:20].astype(float)
        u, t = weight[5:20] * np.abs(y), y * f[:, j]
        np.testing.assert_allclose(block.values(f)[:, j], u * losses.value(own, t))
        np.testing.assert_allclose(block.demanded(f)[:, j], -u * y * losses.derivative(own, t))
        np.testing.assert_allclose(block.slopes(f)[:, j], u * losses.slope(own, t))


def test_several_problems_in_a_span_begin_where_they_were(monkeypatch):
    """With zeros for the features to come; one that does not get there goes on alone."""
    random = np.random.default_rng(0)
    Z = random.standard_normal((80, 6))
    signs = np.where(random.random((3, 80)) < 0.5, 1.0, -1.0)
    columns = Columns.of(signs, random.uniform(0.5, 2, 80), losses.odm(2.0**8, 0.5, 0.2, 80.0))
    best = [
        newton_in_w(Z, y, columns.weight, losses.odm(2.0**8, 0.5, 0.2, 80.0)) for y in signs
    ]  # fmt: skip
    start, seen = random.standard_normal((4, 3)), []
    usual = engine_columns.solve

    def solve_some(Z, columns, start, tolerance, executor):
        seen.append(start)
        W, reached, steps = usual(Z, columns, start, tolerance, executor)
        W[:, 1], reached[1] = 7.0, False
        return W, reached, steps

    monkeypatch.setattr(engine_columns, "solve", solve_some)
    W, steps, space = engine_columns.solve_in_span(Z, columns, start, 1e-9, Serial())
    assert np.array_equal(seen[0], np.vstack([start, np.zeros((2, 3))])) and space is None
    np.testing.assert_allclose(W.T, best, rtol=1e-3, atol=1e-4)
    assert steps > usual(Z, columns, seen[0], 1e-9, Serial())[2]
    one = columns.take(np.array([2]))
    w, steps, space = engine_columns.solve_in_span(Z, one, start[:, 2:], 1e-9, Serial())
    np.testing.assert_allclose(w[:, 0], best[2], rtol=1e-3, atol=1e-4)
    assert steps > 0 and isinstance(space, FeatureSpace) and len(seen) == 1
    # A direction of every problem, of the gradients that are given.
    gradient = random.standard_normal((6, 3))
    found = engine_columns.directions(Z, columns, W, gradient, Serial())
    for j, y in enumerate(signs):
        loss = losses.scaled(losses.odm(2.0**8, 0.5, 0.2, 80.0), columns.weight)
        H = np.eye(6) + Z.T @ (losses.slope(loss, y * (Z @ W[:, j]))[:, None] * Z)
        off = np.linalg.norm(H @ found[:, j] + gradient[:, j])
        assert off <= 0.05 * np.linalg.norm(gradient[:, j]) * (1 + 1e-9)


def newton_in_w(Z, y, weight, loss):
    """The solution of a linear problem."""
    return newton.solve(Problem(Z, None, y, weight, loss), Stop(1e-12, 100)).w


@pytest.mark.parametrize("size", [150, 40])
@pytest.mark.parametrize("way", ["free", "exact", "full"])
def test_solutions_in_the_span_are_counted_on(monkeypatch, way, size):
    """With features of all examples or of those that are kept; bounds where these are wanted."""
    problem = problem_of(Kernel("rbf", 0.3), "odm", 2.0**8, weighted=True, dense=True)
    columns = Columns.of(problem.y[None], problem.weight, problem.loss)
    run, *_ = solve._run_of(columns, problem.gram, Stop(2.0**-10), 3, None, None)
    m = run.points.size
    kept = None if size == 150 else np.arange(0, m, 3)
    if size == 40:  # a sample of some
        columns = Columns.of(run.Y, problem.weight[:m], problem.loss)
        rows = np.arange(0, m, 2)
        run.sample = sample.DrawnExamples(columns, run.points, rows, 9, 3, 2.0**-10)
    run.sample.landmarks.grow(9)
    asked, W = [], np.ones((9, 1))
    monkeypatch.setattr(solve.thinned, "kept_rows", lambda *a: asked.append(a) or kept)
    monkeypatch.setattr(solve, "solve_in_span", lambda Z, columns, start, tolerance, executor: (
        asked.append((Z.shape, columns.count, start.shape, tolerance)) or (W, 4, "space")
    ))  # fmt: skip
    monkeypatch.setattr(solve.thinned, "solve", lambda basis, Z, rows, columns, start, tolerance: (
        asked.append((Z.shape, rows is kept, columns.count, start.shape, tolerance))
        or (W, ["point"], 7)
    ))  # fmt: skip
    # What single precision leaves is made less, where landmarks are to be enough.
    monkeypatch.setattr(run, "_is_near", lambda points: way == "exact")
    monkeypatch.setattr(solve.thinned, "refined", lambda basis, Z, some, columns, W, points, *a: (
        asked.append(a) or (W, points, 0)
    ))  # fmt: skip
    run.iterations = 5
    points, basis, found, space = run._in_span(Choice(way, 0.0))
    if way == "exact" and kept is None:
        assert asked.pop() == (0.3 * 2.0**-10, 2)
    assert asked[0] == (m, 3) and len(asked) == 2 and run.sample.W is W
    if kept is None:
        assert asked[1] == ((m, 9), 1, (0, 1), 1e-3 * 2.0**-10)
        assert (run.iterations, space) == (9, "space") and points[0].alpha.shape == (9,)
    else:
        assert asked[1] == ((len(kept), 9), True, 1, (0, 1), 0.02 * 2.0**-10)
        assert (run.iterations, space, points) == (12, None, ["point"])
    assert np.array_equal(basis.members, run.sample.members)
    # Where the sample is all there is they are known.
    assert (found.left is not None) == (way == "free" or kept is None)
    # Later, of all examples, with as many landmarks as there is room for.
    run._room = run._room._replace(features=4.0 * m * 5 + 3)
    assert run._of_all(basis).Z.shape == (m, 5)


def run_of_half():
    """A run whose sample is every other example, and how many examples there are."""
    problem = problem_of(Kernel("rbf", 0.3), "odm", 2.0**8, dense=True)
    columns = Columns.of(problem.y[None], problem.weight, problem.loss)
    run, *_ = solve._run_of(columns, problem.gram, Stop(2.0**-10), 3, None, None)
    m = run.points.size
    columns, rows = Columns.of(run.Y, problem.weight[:m], problem.loss), np.arange(0, m, 2)
    run.sample = sample.DrawnExamples(columns, run.points, rows, 9, 3, 2.0**-10)
    run.sample.landmarks.grow(9)
    return run, m


@pytest.mark.parametrize("way", ["free", "drawn"])
def test_features_that_take_too_long_after_the_deadline_are_given_up(way, monkeypatch):
    """The sample's solution needs none, but there is no bound of the gap."""
    run, m = run_of_half()
    assert run._in_span(Choice(way, 0.0))[2].left is not None
    monkeypatch.setattr(deadline, "seconds_left", lambda: -1e9)
    before = run.sample.W
    points, basis, found, _ = run._in_span(Choice(way, 0.0))
    assert found.left is None and not found.Z.size and np.array_equal(run.sample.W, before)
    bound, failure = run._certify(points, basis, found, Choice(way, 0.0))
    assert bound == [np.inf] and failure == [0.0]
    with pytest.raises(deadline.Exceeded):
        run._in_span(Choice(way, 0.0), True)
    with pytest.raises(deadline.Exceeded):
        run._of_all(basis)


@pytest.mark.parametrize("keeps_some", [True, False])
@pytest.mark.parametrize("way", ["free", "exact"])
def test_no_features_are_made_when_no_step_follows(way, keeps_some, monkeypatch):
    """The sample's solution, for more landmarks, is looked at as it is."""
    run, m = run_of_half()
    run.sample.W = np.arange(1.0, 6.0)[:, None]
    kept = np.arange(0, m, 3) if keeps_some else None
    monkeypatch.setattr(solve.thinned, "kept_rows", lambda *_: kept)
    monkeypatch.setattr(deadline, "seconds_left", lambda: -1e9)
    (point,), basis, found, space = run._in_span(Choice(way, 0.0))
    assert found.left is None and not found.Z.size and space is None and run.iterations == 0
    assert run.sample.W[:, 0].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 0.0, 0.0, 0.0, 0.0]
    assert point.alpha == pytest.approx(basis.inverse @ run.sample.W[:, 0])
