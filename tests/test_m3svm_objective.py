"""The objective of M3SVM and ISM3, its derivatives, and the judge."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
from m3svm_problems import CASES, LOSSES, POWERS, central_difference, point, problem, some_weights
from scipy import sparse

from odmtool.judge import m3svm as judge
from odmtool.solvers.m3svm import system
from odmtool.solvers.m3svm.objective import Objective, Pairs
from odmtool.solvers.m3svm.system import System


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
    monkeypatch.setattr(system, "_BLOCK_CELLS", 7 * len(V))
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


def test_the_bound_of_the_gap_reaches_the_minimiser_where_sigma_is_large():
    """F = lambda r(v) would have a minimiser of this length, and the bound has to know of it."""
    given = problem(power=1.5, lambda_=2.0, k=2, data=(np.eye(3), np.array([0, 1, 1])), ridge=1e-30)
    objective = Objective(given)
    objective.smoothing = objective.smoothing._replace(sigma=100.0)
    V = np.array([[50.0, -50], [0, 0], [0, 0], [0, 0]])
    value, gradient = 2 * (2e4**0.75 - 1e3), np.array([[1e-9, 0], [0, 0], [0, 0], [0, 0]])
    farthest = objective.gap(V, value, gradient) * value / 1e-9 - np.linalg.norm(V)
    assert np.linalg.norm(V) <= farthest <= 1.5 * np.linalg.norm(V)


@pytest.mark.parametrize("power", POWERS)
def test_the_diagonal_of_what_bends_pairs_is_that_of_its_products(power):
    W = np.random.default_rng(3).standard_normal((5, 4))
    pairs = Pairs(W, problem(power=power).parameters, 0.7)
    found, unit = pairs.diagonal(), np.zeros_like(W)
    for place in np.ndindex(W.shape):
        unit[place] = 1.0
        assert found[place] == pytest.approx(max(0.0, pairs.product(unit)[place]), rel=1e-9)
        unit[place] = 0.0
