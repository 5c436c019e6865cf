"""M3SVM and ISM3 by Newton's method, and what is refused."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from m3svm_problems import CASES, EXACT, LOSSES, certificate, examples, problem, some_weights
from scipy import sparse
from scipy.optimize import minimize

from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.errors import DivergedError, UsageError
from odmtool.judge import m3svm as judge
from odmtool.solvers.base import Stop
from odmtool.solvers.m3svm import adam as m3svm_adam
from odmtool.solvers.m3svm import newton as m3svm
from odmtool.solvers.m3svm.objective import Objective


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
