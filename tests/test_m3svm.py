"""M3SVM and ISM3: the objective, Newton's method and Adam."""

from __future__ import annotations

import itertools
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

import odmtool.solvers.m3svm.system
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.errors import DivergedError, UsageError
from odmtool.judge import m3svm as judge
from odmtool.solvers.base import Stop
from odmtool.solvers.m3svm import adam as m3svm_adam
from odmtool.solvers.m3svm import newton as m3svm
from odmtool.solvers.m3svm.objective import LOSSES, M3SVMParameters, Objective, Pairs
from odmtool.solvers.m3svm.system import System
from odmtool.solvers.multi import MultiProblem

POWERS = [1.0, 1.5, 2.0, 4.0, 6.5]
EXACT = Stop(1e-9, 300)
CASES = list(itertools.product(LOSSES, POWERS))


def examples(m=60, d=5, k=4, seed=0):
    """Overlapping classes; an empty row, an empty column, every class present."""
    generator = np.random.default_rng(seed)
    target = np.concatenate([np.arange(k), generator.integers(0, k, m - k)])
    X = 1.2 * generator.standard_normal((k, d))[target] + generator.standard_normal((m, d))
    X[generator.random((m, d)) < 0.3] = 0
    X[3], X[:, d - 1] = 0, 0
    return X, target


def problem(loss="hinge", power=4.0, lambda_=0.3, weight=None, data=None, k=4, **parameters):
    X, target = examples() if data is None else data
    weight = np.ones(len(target)) if weight is None else weight
    return MultiProblem(
        X, None, target, k, weight, M3SVMParameters(loss, lambda_, power, **parameters)
    )


def some_weights(m=60, seed=1):
    return np.random.default_rng(seed).uniform(0.2, 3.0, m)


def certificate(given, solution):
    X, _gram, target, _k, weight, parameters = given
    return judge.certify_linear(X, target, weight, parameters, solution.W, solution.bias)


def point(given, seed=5):
    """Some V, with two classes that coincide."""
    V = np.random.default_rng(seed).standard_normal((given.X.shape[1] + 1, given.k)) / 2
    V[:, 1] = V[:, 0]
    return V


def central_difference(function, V, direction, step=1e-6):
    return (function(V + step * direction) - function(V - step * direction)) / (2 * step)


# ---- the judge and the objective ---------------------------------------------------------


def test_judge_by_the_printed_formula():
    given = problem(power=3.0, lambda_=0.7, delta=0.5, ridge=0.1, weight=some_weights())
    X, _gram, target, k, weight, (_loss, lambda_, p, delta, ridge) = given
    V = np.random.default_rng(2).standard_normal((X.shape[1] + 1, k))
    total = ridge * (V**2).sum()
    for a, b in itertools.combinations(range(k), 2):
        total += lambda_ * np.sqrt(((V[:-1, a] - V[:-1, b]) ** 2).sum()) ** p
    for x, y, u in zip(X, target, weight, strict=True):
        f = x @ V[:-1] + V[-1]
        for other in set(range(k)) - {y}:
            z = 1 - (f[y] - f[other])
            total += u * (z + np.sqrt(z**2 + delta**2)) / 2
    value = judge.objective(X, target, weight, given.parameters, V[:-1], V[-1])
    assert value == pytest.approx(total, rel=1e-13)


@pytest.mark.parametrize(("loss", "power"), CASES)
def test_judge_gradient_is_that_of_its_objective(loss, power):
    given = problem(loss, power, delta=0.3, weight=some_weights())
    arguments = (given.X, given.target, given.weight, given.parameters)
    V = point(given)
    by_W, by_bias = judge.gradient(*arguments, V[:-1], V[-1])
    direction = np.random.default_rng(3).standard_normal(V.shape)
    found = np.vdot(np.vstack([by_W, by_bias]), direction)
    rate = central_difference(
        lambda V: judge.objective(*arguments, V[:-1], V[-1]), V, direction, 1e-5
    )
    assert found == pytest.approx(rate, rel=1e-6)


@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize(("loss", "power"), CASES)
def test_objective_and_gradient_agree_with_the_judge(loss, power, as_rows):
    given = problem(loss, power, weight=some_weights())
    given = given._replace(X=as_rows(given.X))
    V, objective = point(given), Objective(given)
    scores = objective.scores(V)
    arguments = (given.X, given.target, given.weight, given.parameters, V[:-1], V[-1])
    value = objective.value(V, scores, objective.smoothing)
    assert value == pytest.approx(judge.objective(*arguments), rel=1e-13)
    gradient = objective.gradient(V, scores, objective.smoothing)
    exact = np.vstack(judge.gradient(*arguments))
    assert np.abs(gradient - exact).max() <= 1e-11 * np.abs(exact).max()


@pytest.mark.parametrize(("loss", "power"), CASES)
def test_system_is_the_second_derivative(loss, power):
    given = problem(loss, power, delta=0.3, weight=some_weights(), ridge=0.05)
    V, objective = point(given), Objective(given)
    if power < 2:
        V[:, 1] += 1e-2 * np.arange(len(V))  # at the kink differences tell nothing
    system = System(
        given.X, objective.losses.curvature(objective.scores(V), 0.3),
        objective.pairs(V, objective.smoothing), 0.05, given.weight,
    )  # fmt: skip

    def gradient(V):
        return objective.gradient(V, objective.scores(V), objective.smoothing)

    right = gradient(V)
    right -= right.mean(axis=1, keepdims=True)
    for direction in (system._factored(right), system._iterated(right, 1e-13, 0)[0]):
        change = central_difference(gradient, V, direction)
        assert np.abs(change + right).max() <= 2e-6 * np.abs(right).max()


@pytest.mark.parametrize("loss", LOSSES)
def test_the_hessian_is_made_of_some_rows_at_a_time(monkeypatch, loss):
    """The same as of all rows, of arrays and sparse rows; dense are a few of them only."""
    given = problem(loss, delta=0.3, weight=some_weights(), ridge=0.05)
    V, objective = point(given), Objective(given)
    right = np.random.default_rng(0).normal(size=V.shape)
    right -= right.mean(axis=1, keepdims=True)
    curvature = objective.losses.curvature(objective.scores(V), 0.3)
    pairs = objective.pairs(V, objective.smoothing)
    whole = System(given.X, curvature, pairs, 0.05, given.weight)._factored(right)
    monkeypatch.setattr(odmtool.solvers.m3svm.system, "_BLOCK_CELLS", 7 * len(V))
    for X in (given.X, sparse.csr_matrix(given.X)):
        found = System(X, curvature, pairs, 0.05, given.weight)._factored(right)
        assert found == pytest.approx(whole, rel=1e-9, abs=1e-12)
    m, d = 20_000, 30
    X = sparse.random(m, d, density=0.1, format="csr", random_state=0)
    given = problem(loss, weight=np.ones(m), data=(X, np.arange(m) % 2), k=2)
    V = np.random.default_rng(0).normal(size=(d + 1, 2))
    objective = Objective(given)
    curvature = objective.losses.curvature(objective.scores(V), 0.3)
    pairs = objective.pairs(V, objective.smoothing)
    tracemalloc.start()
    System(X, curvature, pairs, 0.05, given.weight)._factored(V - V.mean(axis=1, keepdims=True))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < m * d * 8 / 3


@pytest.mark.parametrize("power, has_kink", [(1.0, True), (1.9, True), (2.0, False), (2.5, False)])
def test_powers_of_lengths_are_smoothed_where_they_have_a_kink(power, has_kink):
    """By delta, where the rows are as long as they are on the average."""
    given = problem(power=power, weight=some_weights(), delta=0.01)
    rho = np.sqrt((given.X**2).sum(axis=1) @ given.weight / given.weight.sum())
    expected = 0.01, 0.01 / rho if has_kink else 0.0
    assert tuple(Objective(given).smoothing) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("power", [1.0, 1.9, 2.0, 2.1, 4.0])
def test_smoothing_where_classes_coincide_is_finite(power):
    given = problem("hinge", power)
    objective = Objective(given)
    pairs = objective.pairs(objective.zero(), objective.smoothing)
    # Powers of arrays and of scalars may differ by a rounding, once for each pair.
    assert abs(pairs.value()) <= 10 * np.finfo(float).eps * objective.smoothing.sigma**power
    assert np.all(pairs.gradient() == 0)
    assert np.all(np.isfinite(pairs.product(point(given)[:-1])))
    assert np.all(np.isfinite(pairs.diagonal())) and np.all(np.isfinite(pairs.block(0, 1)))


def test_smoothed_power_is_below_by_no_more_than_it_says():
    given = problem("hinge", 1.0, lambda_=1.0)
    objective, W = Objective(given), point(given)[:-1]
    smooth = objective.pairs(np.vstack([W, W[0]]), objective.smoothing).value()
    exact = sum(np.linalg.norm(W[:, a] - W[:, b]) for a, b in itertools.combinations(range(4), 2))
    assert 0 <= exact - smooth <= 6 * objective.smoothing.sigma


# ---- Newton's method -----------------------------------------------------------------------


def independent(given):
    """The minimum that SciPy's L-BFGS finds from the judge's definition, vectorised anew."""
    X, _gram, target, k, weight, (loss, lambda_, p, delta, ridge) = given
    sigma = judge.sigma(X, weight, given.parameters)
    own = np.arange(k) == np.asarray(target)[:, None]

    def objective(v):
        V = v.reshape(-1, k)
        z = X @ V[:-1] + V[-1]
        z = z - z[own][:, None]
        if loss == "hinge":
            q = np.sqrt((1 + z) ** 2 + delta**2)
            values, slopes = (1 + z + q) / 2, (1 + (1 + z) / q) / 2
        elif loss == "pairwise":
            values, slopes = np.log1p(np.exp(z)), 1 / (1 + np.exp(-z))
        else:
            total = np.exp(z).sum(axis=1, keepdims=True)
            values, slopes = np.where(own, 0.0, np.log(total) / (k - 1)), np.exp(z) / total
        values, slopes = np.where(own, 0, values), np.where(own, 0, slopes)
        slopes = weight[:, None] * (slopes - own * slopes.sum(axis=1, keepdims=True))
        value = weight @ values.sum(axis=1) + ridge * v @ v
        G = np.vstack([X.T @ slopes, slopes.sum(axis=0)]) + 2 * ridge * V
        for a, b in itertools.combinations(range(k), 2):
            difference = V[:-1, a] - V[:-1, b]
            square = difference @ difference + sigma**2
            value += lambda_ * (square ** (p / 2) - sigma**p)
            if square > 0:
                push = lambda_ * p * square ** (p / 2 - 1) * difference
                G[:-1, a] += push
                G[:-1, b] -= push
        return value, G.ravel()

    v = np.zeros((X.shape[1] + 1) * k)
    options = {"maxiter": 20000, "maxfun": 40000, "ftol": 0.0, "gtol": 1e-9, "maxcor": 40}
    for _ in range(3):
        v = minimize(objective, v, jac=True, method="L-BFGS-B", options=options).x
    return objective(v)[0]


@pytest.mark.parametrize("lambda_", [0.01, 30.0])
@pytest.mark.parametrize(("loss", "power"), CASES)
def test_newton_finds_the_minimum_that_scipy_finds(loss, power, lambda_):
    given = problem(loss, power, lambda_, weight=some_weights())
    solution = m3svm.solve(given, EXACT)
    assert solution.converged
    expected = independent(given)
    assert solution.objective == pytest.approx(expected, rel=1e-6)
    assert solution.objective <= expected * (1 + 1e-9)


@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize(("loss", "power"), CASES)
def test_judge_confirms_what_newton_reports(loss, power, as_rows):
    given = problem(loss, power, weight=some_weights())
    given = given._replace(X=as_rows(given.X))
    solution = m3svm.solve(given, Stop(1e-6, 200))
    found = certificate(given, solution)
    zero = np.zeros_like(solution.W), np.zeros(given.k)
    arguments = (given.X, given.target, given.weight, given.parameters)
    at_zero = np.linalg.norm(np.vstack(judge.gradient(*arguments, *zero)))
    assert solution.converged and found.gradient <= 1.001e-6 * at_zero
    assert solution.objective == pytest.approx(found.primal, rel=1e-12)
    assert solution.gap == pytest.approx(found.gap, rel=1e-2, abs=1e-12)
    best = m3svm.solve(given, EXACT).objective
    assert solution.objective - best <= found.gap * found.primal


@pytest.mark.parametrize("loss", LOSSES)
def test_sparse_is_dense_and_iterated_is_factored(loss, monkeypatch):
    given = problem(loss, 4.0)
    dense = m3svm.solve(given, EXACT)
    alike = m3svm.solve(given._replace(X=sparse.csr_matrix(given.X)), EXACT)
    monkeypatch.setattr("odmtool.solvers.m3svm.system.LARGEST_SYSTEM", 0)
    iterated = m3svm.solve(given, Stop(1e-8, 300))
    assert iterated.converged
    for other in (alike, iterated):
        assert other.objective == pytest.approx(dense.objective, rel=1e-9)
        assert np.abs(other.W - dense.W).max() <= 1e-4 * np.abs(dense.W).max()


@pytest.mark.parametrize("power", [1.0, 4.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_weight_two_is_a_duplicate_row(loss, power):
    X, target = examples()
    weight = np.ones(len(target))
    weight[:20] = 2
    twice = np.concatenate([np.arange(60), np.arange(20)])
    weighted = m3svm.solve(problem(loss, power, weight=weight), EXACT)
    repeated = m3svm.solve(problem(loss, power, data=(X[twice], target[twice])), EXACT)
    assert weighted.objective == pytest.approx(repeated.objective, rel=1e-10)
    assert np.abs(weighted.W - repeated.W).max() <= 1e-5 * np.abs(repeated.W).max()


@pytest.mark.parametrize("loss", LOSSES)
def test_power_two_is_ridge_times_the_number_of_classes(loss):
    # Lemma 3 and Theorem 5 of the paper: with the mean of the classes at zero the sum over
    # the pairs is k |W|^2, and the mean is zero at the optimum of the ridge problem.
    given = problem(loss, 2.0, lambda_=0.2)
    pairs = m3svm.solve(given, EXACT)
    ridge = independent_ridge(given)
    assert pairs.objective == pytest.approx(ridge, rel=1e-6)
    assert np.abs(pairs.W.sum(axis=1)).max() <= 1e-9 and abs(pairs.bias.sum()) <= 1e-9
    square = sum(((pairs.W[:, a] - pairs.W[:, b]) ** 2).sum() for a in range(4) for b in range(a))
    assert square == pytest.approx(4 * (pairs.W**2).sum(), rel=1e-9)


def independent_ridge(given):
    """min of losses + lambda k |W|^2 + ridge (|W|^2 + |b|^2), by SciPy."""
    objective = Objective(given)
    _loss, lambda_, _p, delta, ridge = given.parameters

    def value(v):
        V = v.reshape(-1, given.k)
        scores = objective.scores(V)
        G = objective.back(objective.losses.slopes(scores, delta)) + 2 * ridge * V
        G[:-1] += 2 * lambda_ * given.k * V[:-1]
        penalty = lambda_ * given.k * (V[:-1] ** 2).sum() + ridge * (V**2).sum()
        return objective.losses.value(scores, delta) + penalty, G.ravel()

    options = {"maxiter": 20000, "maxfun": 40000, "ftol": 0.0, "gtol": 1e-9}
    start = np.random.default_rng(4).standard_normal(objective.zero().size)
    return minimize(value, start, jac=True, method="L-BFGS-B", options=options).fun


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("power", [1.0, 1.5])
def test_strong_regulariser_makes_classes_coincide(loss, power):
    solution = m3svm.solve(problem(loss, power, lambda_=1e4), Stop(1e-9, 300))
    assert solution.converged
    assert np.abs(solution.W).max() < (1e-5 if power == 1 else 1e-3)
    # What is left are the biases: the answer is the most frequent class.
    assert solution.bias.argmax() == np.bincount(examples()[1]).argmax()


@pytest.mark.parametrize("loss", LOSSES)
def test_class_without_examples_and_two_classes(loss):
    X, target = examples(k=3)
    empty = problem(loss, data=(X, target), k=5)
    solution = m3svm.solve(empty, EXACT)
    assert solution.converged
    assert np.all((X @ solution.W + solution.bias).argmax(axis=1) < 3)
    two = m3svm.solve(problem(loss, data=(X, target % 2), k=2), EXACT)
    assert two.converged
    assert np.abs(two.W[:, 0] + two.W[:, 1]).max() <= 1e-9


@pytest.mark.parametrize("loss", LOSSES)
def test_scale_of_the_features_is_no_obstacle(loss):
    X, target = examples()
    scale = np.array([1e-3, 1.0, 1e3, 1e2, 1.0])
    solution = m3svm.solve(problem(loss, 1.0, data=(X * scale, target)), Stop(1e-6, 300))
    assert solution.converged


def test_thousand_classes():
    target = np.arange(1000)
    X = sparse.csr_matrix(np.random.default_rng(0).standard_normal((1000, 6)))
    given = problem(data=(X, target), k=1000, lambda_=1e-6)
    steps = []
    solution = m3svm.solve(given, Stop(1e-3, 3), progress=steps.append)
    objective = Objective(given)
    V = np.vstack([solution.W, solution.bias])
    value = objective.value(V, objective.scores(V), objective.smoothing)
    assert solution.objective == pytest.approx(value, rel=1e-12)
    assert solution.objective < 0.1 * 1000 * 999 and np.all(np.isfinite(V))
    # Three steps from zero; by chance it would be 0.001.
    assert np.mean((X @ solution.W + solution.bias).argmax(axis=1) == target) > 0.1


def test_start_at_the_solution_needs_no_step():
    given = problem("hinge", 1.5)
    solution = m3svm.solve(given, Stop(1e-6, 200))
    again = m3svm.solve(given, Stop(1e-6, 200), start=(solution.W, solution.bias))
    assert again.iterations == 0 and again.converged
    near = given._replace(parameters=given.parameters._replace(lambda_=0.4))
    warm = m3svm.solve(near, EXACT, start=(solution.W, solution.bias))
    assert warm.objective == pytest.approx(m3svm.solve(near, EXACT).objective, rel=1e-9)


def test_few_steps_are_said_not_to_be_enough():
    steps = []
    solution = m3svm.solve(problem(), Stop(1e-6, 3), progress=steps.append)
    assert [step.iteration for step in steps] == [1, 2, 3] and solution.iterations == 3
    assert not solution.converged
    assert m3svm.solve(problem(), Stop(1e-6, 0)).iterations == 0


def test_nothing_to_learn():
    X, target = np.zeros((4, 0)), np.array([0, 1, 1, 1])
    solution = m3svm.solve(problem(data=(X, target), k=2), EXACT)
    assert solution.W.shape == (0, 2) and solution.bias.argmax() == 1


# ---- Adam ------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_adam_comes_near_the_minimum_and_is_seeded(loss):
    given = problem(loss, 4.0)
    best = m3svm.solve(given, EXACT).objective
    first = m3svm_adam.solve(given, Stop(1e-9, 500), seed=1)
    assert first.iterations == 500 and not first.converged
    assert best <= first.objective <= 1.01 * best
    one, again, other = (m3svm_adam.solve(given, Stop(1e-9, 20), seed=seed).W for seed in (1, 1, 2))
    assert np.array_equal(one, again) and not np.array_equal(one, other)
    assert first.objective == pytest.approx(certificate(given, first).primal, rel=1e-12)


def test_adam_takes_its_first_step_as_printed():
    given = problem("softmax", 2.0)
    X, k = given.X, given.k
    W, bias = np.zeros((X.shape[1], k)), np.zeros(k)
    one = m3svm_adam.solve(given, Stop(1e-9, 1), start=(W, bias), rate=1e-3)
    G = np.vstack(judge.gradient(X, given.target, given.weight, given.parameters, W, bias))
    moved = np.vstack([one.W, one.bias])
    assert np.allclose(moved, -1e-3 * G / (np.abs(G) + 1e-8), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("loss", LOSSES)
def test_below_power_one_a_stationary_point_is_found(loss):
    given = problem(loss, 0.5, 3.0)
    solution = m3svm.solve(given, Stop(1e-6, 300))
    found = certificate(given, solution)
    assert solution.converged and not solution.optimal and solution.gap == found.gap == 1
    assert solution.objective == pytest.approx(found.primal, rel=1e-12)
    assert solution.gradient <= 1e-6
    # No small step leads lower.
    V = np.vstack([solution.W, solution.bias])
    generator, arguments = np.random.default_rng(0), given[:1] + given[2:3] + given[4:]
    for _ in range(20):
        W = V + 1e-3 * generator.standard_normal(V.shape)
        assert judge.objective(*arguments, W[:-1], W[-1]) > found.primal * (1 - 1e-9)


def test_the_bound_of_the_gap_reaches_the_minimiser_where_sigma_is_large():
    """F = lambda r(v) would have a minimiser of this length, and the bound has to know of it."""
    given = problem(power=1.5, lambda_=2.0, k=2, data=(np.eye(3), np.array([0, 1, 1])), ridge=1e-30)
    objective = Objective(given)
    objective.smoothing = objective.smoothing._replace(sigma=100.0)
    V = np.array([[50.0, -50], [0, 0], [0, 0], [0, 0]])
    value, gradient = 2 * (2e4**0.75 - 1e3), np.array([[1e-9, 0], [0, 0], [0, 0], [0, 0]])
    farthest = objective.gap(V, value, gradient) * value / 1e-9 - np.linalg.norm(V)
    assert np.linalg.norm(V) <= farthest <= 1.5 * np.linalg.norm(V)


# ---- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize("solve", [m3svm.solve, m3svm_adam.solve])
@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"lambda_": 0.0}, "lambda"), ({"power": 0.0}, "power"), ({"power": np.inf}, "power"),
        ({"delta": 0.0}, "delta"), ({"ridge": -1.0}, "ridge"), ({"loss": "square"}, "square"),
        ({"lambda_": np.nan}, "lambda"),
    ],
)  # fmt: skip
def test_parameters_out_of_range(solve, change, word):
    given = problem()
    given = given._replace(parameters=given.parameters._replace(**change))
    with pytest.raises(UsageError, match=word):
        solve(given, Stop())


def test_kernels_and_bad_rates_are_refused():
    given = problem()
    with pytest.raises(UsageError, match="m3svm"):
        m3svm.solve(given._replace(X=None, gram=Gram(Kernel("rbf", 1.0), given.X)), Stop())
    with pytest.raises(UsageError, match="rate"):
        m3svm_adam.solve(given, Stop(), rate=0.0)


def test_overflow_is_an_error():
    X, target = examples()
    with pytest.raises(DivergedError):
        m3svm.solve(problem(data=(X * 1e307, target)), Stop())


def test_the_first_half_that_lowers_the_objective_enough():
    """Steps 1, 1/2, ... against F less a share of what the slope promises; none: 0."""
    asked = []

    def searched(values, slope=-2.0):
        asked.clear()
        iterator = iter(values)

        def value(V, scores, smoothing):
            asked.append(float(V[0, 0]))
            return next(iterator)

        state = SimpleNamespace(
            gradient=np.array([[slope]]), value=10.0, V=np.zeros((1, 1)), _scores=np.zeros((1, 1)),
            _smoothing=None, _objective=SimpleNamespace(value=value),
        )  # fmt: skip
        step = m3svm._Run._line_search(state, np.ones((1, 1)), np.ones((1, 1)))
        return step, state.value

    share = m3svm.SUFFICIENT_DECREASE
    assert searched([9.0]) == (1.0, 9.0) and asked == [1.0]
    assert searched([10.0, 9.5]) == (0.5, 9.5) and asked == [1.0, 0.5]
    enough = 10 - share * 2
    assert searched([enough - 1e-12])[0] == 1.0
    assert searched([enough + 1e-9, 1.0])[0] == 0.5
    assert searched([11.0, 10 - share - 1e-12])[0] == 0.5
    assert searched([11.0, 10 - share + 1e-9, 1.0])[0] == 0.25
    assert searched([np.nan, np.inf, 9.9]) == (0.25, 9.9)
    assert searched([11.0] * m3svm._HALVINGS) == (0.0, 10.0) and len(asked) == m3svm._HALVINGS


@pytest.mark.parametrize("power", POWERS)
def test_the_diagonal_of_what_bends_pairs_is_that_of_its_products(power):
    W = np.random.default_rng(3).standard_normal((5, 4))
    pairs = Pairs(W, problem(power=power).parameters, 0.7)
    found, unit = pairs.diagonal(), np.zeros_like(W)
    for place in np.ndindex(W.shape):
        unit[place] = 1.0
        assert found[place] == pytest.approx(max(0.0, pairs.product(unit)[place]), rel=1e-9)
        unit[place] = 0.0


@pytest.mark.parametrize("d", [0, 1, 2, 9])
def test_adam_begins_at_small_weights(d):
    """Uniform, and the smaller the more features there are."""
    given = problem(data=(np.zeros((2000, d)), np.arange(2000)), k=2000)
    V = m3svm_adam._random(Objective(given), 3)
    limit = 1 / np.sqrt(max(d, 1))
    assert V.shape == (d + 1, 2000) and 0.99 * limit < V.max() <= limit
    assert -limit <= V.min() < -0.99 * limit and abs(V.mean()) < 0.05 * limit
    assert np.array_equal(V, m3svm_adam._random(Objective(given), 3))
