"""Averaged stochastic gradient descent: certificates, steps, work."""

import numpy as np
import pytest
from problems import examples, problem, weights
from stepping import (
    Counting,
    assert_agree,
    assert_confirmed,
    dense,
    interpret,
    judged,
    python,
    wide,
)

from odmtool.core import losses
from odmtool.errors import DivergedError
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.descent.dcd import compressed_rows, row_squares
from odmtool.solvers.ldm import descent as ldm
from odmtool.solvers.stochastic import asgd, common

M = 60
LDM = losses.ldm(1.5, 0.7, 2.0**4, M)


@pytest.mark.parametrize("mu", [(0.5, 2.0), (1.5, 0.7)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("is_dense", [False, True])
def test_the_judge_confirms_the_gap(is_dense, weighted, mu):
    loss = losses.ldm(*mu, 2.0**4, M)
    p = problem(loss=loss, dense=is_dense, weight=weights() if weighted else None)
    for tolerance in (1e-2, 1e-6):
        assert_confirmed(p, asgd.solve(p, Stop(tolerance, 3000)), tolerance)


def test_the_model_is_that_of_asgd():
    """At the default tolerance; coordinate descent only proves the gap."""
    p = problem(loss=LDM)
    solution = asgd.solve(p, Stop(1e-3, 1000))
    assert solution.converged and solution.solver == "asgd"
    assert np.linalg.norm(solution.w - p.X.T @ (p.y * solution.eta)) > 1e-6


@pytest.mark.parametrize("mu1", [0.0, 1.5])
def test_asgd_agrees_with_coordinate_descent(mu1):
    p = problem(loss=LDM._replace(mu1=mu1), weight=weights())
    assert_agree(asgd.solve(p, Stop(1e-3, 1000)), ldm.solve(p, Stop(1e-8, 20000)))


def test_the_same_seed_gives_the_same_model():
    p = problem(loss=LDM)
    first, second, other = (asgd.solve(p, Stop(1e-2, 100), seed=seed).w for seed in (3, 3, 4))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_weight_two_is_a_duplicate_row():
    weight = np.where(np.arange(M) % 3 == 0, 2.0, 1.0)
    p = problem(loss=LDM._replace(total_weight=weight.sum()), weight=weight)
    twice = np.repeat(np.arange(M), weight.astype(int))
    repeated = Problem(p.X[twice], None, p.y[twice], np.ones(len(twice)), p.loss)
    assert_agree(asgd.solve(p, Stop(1e-3, 1000)), asgd.solve(repeated, Stop(1e-3, 1000)))


def test_a_small_tolerance_is_reached_by_coordinate_descent():
    p = problem(loss=LDM)
    solution = asgd.solve(p, Stop(1e-9, 20000))
    assert solution.solver == "asgd, then dcd"
    assert_confirmed(p, solution, 1e-9)


@pytest.mark.parametrize("lambda_", [2.0**10, 2.0**16])
def test_unscaled_data_never_diverge_silently(lambda_):
    X, y = examples()
    X = X.toarray() * 10.0 ** np.linspace(-3, 3, X.shape[1])
    p = Problem(X, None, y, np.ones(M), losses.ldm(1, 1, lambda_, M))
    solution = asgd.solve(p, Stop(1e-9, 50))
    primal, dual = judged(p, solution)
    assert primal == pytest.approx(solution.primal, rel=1e-9)
    assert primal < common.point_at(p, np.zeros(X.shape[1])).primal
    assert dual == pytest.approx(solution.dual, rel=1e-6)
    assert not solution.converged and solution.gap > 1e-9


def test_a_first_step_that_is_far_too_large_is_taken_back(monkeypatch):
    p = problem(loss=losses.ldm(1, 1, 2.0**16, M))
    monkeypatch.setattr(asgd, "first_step", lambda problem, generator: 1.0)
    primals = []
    asgd.solve(p, Stop(1e-3, 30), progress=lambda state: primals.append(state.primal))
    assert max(primals) == primals[0]
    assert primals[-1] < primals[0] / 2


def test_a_start_that_cannot_be_improved_is_kept():
    p = problem(loss=LDM)
    best = ldm.solve(p, Stop(1e-10, 20000))
    states = []
    solution = asgd.solve(p, Stop(1e-3, 500), start=best.eta, progress=states.append)
    assert solution.primal <= best.primal * (1 + 1e-12)
    assert states[-1].iteration < 100
    assert_confirmed(p, solution, 1e-3)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_neither_half_nor_twice_the_first_step_is_better(scale):
    p = problem(loss=LDM, dense=True)
    p = p._replace(X=p.X * scale)
    eta0 = asgd.first_step(p, np.random.default_rng(7))
    sample = asgd._Sample(p, np.random.default_rng(7))
    assert sample.cost(eta0) < sample.cost(0.0) < np.inf
    assert sample.cost(eta0) <= sample.cost(eta0 / 2)
    assert eta0 > 0.5 or sample.cost(eta0) <= sample.cost(2 * eta0)


def test_rows_without_nonzeros():
    """Every step size costs the same here: one is chosen nevertheless."""
    p = Problem(np.zeros((M, 3)), None, np.ones(M), np.ones(M), LDM)
    assert asgd.first_step(p, np.random.default_rng(0)) > 0
    solution = asgd.solve(p, Stop(1e-6, 50))
    assert solution.converged
    assert not solution.w.any()


def test_overflow_is_an_error():
    p = problem(loss=LDM, dense=True)
    with pytest.raises(DivergedError):
        asgd.solve(p._replace(X=p.X * 1e200), Stop())


def one_step(p, w, i, j, eta0):
    w, v, total = w.copy(), np.zeros_like(w), np.zeros_like(w)
    pair = np.array([i]), np.array([j])
    terms = common.pair_terms(p)
    asgd.epoch(*compressed_rows(p.X), p.y, terms, *pair, eta0, 0, w, v, total)
    np.testing.assert_allclose(total, w, rtol=1e-12)
    return w


def test_two_examples_give_an_unbiased_gradient():
    """KDD'14 Theorem 2, exactly: the mean step over all pairs is that of the full gradient."""
    p = problem(loss=LDM, weight=weights())
    w = np.random.default_rng(5).standard_normal(p.X.shape[1])
    step, chance = 0.3, p.weight / p.weight.sum()
    mean = sum(
        chance[i] * chance[j] * one_step(p, w, i, j, step) for i in range(M) for j in range(M)
    )
    gradient = p.X.T @ (p.y * common.point_at(p, w).derivative)
    np.testing.assert_allclose(mean, (w - step * gradient) / (1 + step), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("eta0", [0.01, 1.0])
def test_an_epoch_is_what_its_header_says(eta0):
    """With eta0 = 1 the scale of w falls so fast that it is rescaled on the way."""
    p = problem(loss=LDM, weight=weights())
    generator, steps = np.random.default_rng(2), 17
    first, second = generator.integers(0, M, (2, 400))
    start = generator.standard_normal(p.X.shape[1])
    w, v, total = start.copy(), np.zeros_like(start), np.ones_like(start)
    terms = common.pair_terms(p)
    asgd.epoch(*compressed_rows(p.X), p.y, terms, first, second, eta0, steps, w, v, total)

    X, naive_w, naive_total = dense(p.X), start, np.ones_like(start)
    units = p.weight.sum() / p.loss.total_weight
    for n, (i, j) in enumerate(zip(first, second, strict=True)):
        step = eta0 / (1 + eta0 * (steps + n)) ** 0.75
        t = [p.y[k] * (X[k] @ naive_w) for k in (i, j)]
        gradient = np.zeros_like(start)
        for k, own, other in ((i, *t), (j, *t[::-1])):
            slope = p.loss.mu1 * (own - other) - p.loss.mu2 / 2 - p.loss.lambda_ / 2 * (own < 1)
            gradient += units * slope * p.y[k] * X[k]
        naive_w = (naive_w - step * gradient) / (1 + step)
        naive_total = naive_total + naive_w
    np.testing.assert_allclose(w, naive_w, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(total, naive_total, rtol=1e-9, atol=1e-9)


def test_an_epoch_touches_nonzeros_only(monkeypatch):
    """In four million columns: five reads or writes for every nonzero that it meets."""
    X, y = wide()
    p = Problem(X, None, y, np.ones(len(y)), LDM)
    interpret(monkeypatch, asgd)
    rescaled = []
    monkeypatch.setattr(asgd, "rescale", lambda *arguments: rescaled.append(arguments))
    w, v = Counting(np.zeros(X.shape[1])), Counting(np.zeros(X.shape[1]))
    order, terms = np.arange(len(y)), common.pair_terms(p)
    epoch = python(asgd.epoch)
    epoch(*compressed_rows(X), y, terms, order, order[::-1], 0.01, 0, w, v, None)
    met = 2 * X.nnz
    assert met < w.touched + v.touched <= 5 * met
    assert len(rescaled) == 1  # once, at the end of the epoch


def test_columns_without_nonzeros_cost_nothing():
    X, y = wide()
    p = Problem(X, None, y, np.ones(len(y)), LDM)
    narrow, widen = common.occupied_columns(p)
    solution, same = (asgd.solve(q, Stop(1e-2, 500)) for q in (p, narrow))
    assert solution.w.shape == (X.shape[1],)
    assert np.array_equal(widen(same.w), solution.w)
    assert_confirmed(narrow, same, 1e-2)


@pytest.mark.parametrize("power, edge", [(-5, np.inf), (0, np.inf), (4, np.inf), (-5, -2), (9, 6)])
def test_the_first_step_is_doubled_or_halved_as_long_as_that_is_better(power, edge, monkeypatch):
    """Costs whose least is at 2^power steps of the curvature, and infinite above 2^edge."""
    p = problem(loss=LDM)
    p = p._replace(X=2.0**7 * p.X)
    curvature = common.pair_curvature(p, row_squares(*compressed_rows(p.X)))
    asked = []

    def cost(_sample, eta0):
        place = np.log2(eta0 * curvature)
        asked.append(round(place))
        return abs(place - power) if place <= edge else np.inf

    monkeypatch.setattr(asgd._Sample, "cost", cost)
    found = asgd.first_step(p, np.random.default_rng(0)) * curvature
    assert found == pytest.approx(2.0 ** min(power, edge), rel=1e-12)
    assert asked[:2] == [0, 1] and len(asked) <= 4 + abs(min(power, edge))


def test_the_first_step_has_ends():
    """No more than 1, and no endless halving; where one is as good as the other, the first."""
    p = problem(loss=LDM)
    curvature = common.pair_curvature(p, row_squares(*compressed_rows(p.X)))
    for cost, least, most in (
        (lambda _, eta0: -eta0, 0.5, 1.0), (lambda _, eta0: 1.0, 1 / curvature, 1 / curvature),
        (lambda _, eta0: np.inf, asgd._SMALLEST_STEP / curvature / 2,
         2 * asgd._SMALLEST_STEP / curvature),
    ):  # fmt: skip
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asgd._Sample, "cost", cost)
            assert least <= asgd.first_step(p, np.random.default_rng(0)) <= most


def test_the_cost_of_a_step_size():
    """The mean of P at the moments of an epoch on some examples, each as it was drawn."""
    p = problem(loss=LDM, weight=weights())
    sample = asgd._Sample(p, np.random.default_rng(7))
    at_zero = common.point_at(sample._problem, np.zeros(sample._problem.X.shape[1])).primal
    count = min(asgd._MOMENTS, len(sample._order))
    assert sample.cost(0.0) == pytest.approx(count * at_zero, rel=1e-12)
    assert sample._problem.weight.sum() == pytest.approx(p.weight.sum(), rel=1e-12)
    w, v, total = np.zeros((3, sample._problem.X.shape[1]))
    size, cost = len(sample._order), 0.0
    for part in np.array_split(np.arange(size), count):
        for q in part:  # one pair at a time
            pair = np.array([q]), np.array([q + size])
            asgd.epoch(*sample._rows, sample._problem.y, sample._terms, *pair, 0.01, q, w, v, total)
        cost += common.point_at(sample._problem, w).primal
    assert sample.cost(0.01) == pytest.approx(cost, rel=1e-9)


def scripted(monkeypatch, primals, tolerance, limit, at_start=20.0):
    """A descent of which P after every epoch is given; what was returned, and what epochs got.

    Every epoch moves w by 1, and adds its number to the sum for each of its pairs.
    """
    p, coming, asked, told = problem(loss=LDM), iter(primals), [], []

    def point_at(_problem, w):
        is_first = not asked
        if not is_first:  # the mean of its window: of those from 0, 1, 2, 4, 8, ... on
            last = asked[-1][1] // M
            begin = 2 ** (last.bit_length() - 1) if last else 0
            assert w == pytest.approx(np.mean(range(begin, last + 1)))
        primal = at_start if is_first else next(coming)
        return common.Point(w, np.zeros(M), primal, 4.0, np.zeros(M))

    def epoch(_data, _indices, _indptr, _y, _terms, first, second, eta0, steps, w, v, total):
        assert len(first) == len(second) == M and not v.any()
        asked.append((eta0, steps, float(w[0])))
        w += 1.0
        total += steps

    monkeypatch.setattr(common, "point_at", point_at)
    monkeypatch.setattr(asgd, "epoch", epoch)
    monkeypatch.setattr(asgd, "first_step", lambda *_: 64.0)
    generator = np.random.default_rng(0)
    best, epochs = asgd._descend(p, Stop(tolerance, limit), generator, None, told.append)
    assert epochs == len(asked)
    assert [now.iteration for now in told] == list(range(epochs + 1))
    assert all(np.isnan(now.gap) and now.active == M for now in told)
    lowest = np.minimum.accumulate([at_start, *primals])
    assert [now.primal for now in told] == [
        min([at_start, *(p for p in primals[:n] if p <= at_start)]) for n in range(epochs + 1)
    ]
    assert np.isnan(lowest).any() or best.primal == lowest[epochs]
    return best.primal, asked


@pytest.mark.parametrize("primals, expected", [
    # Windows end after 1, 2, 4, 8 and 16 epochs; from 4 on a fall of half of 0.25 times S = 4 is
    # too little.
    ([10, 9, 8.8, 8.5] + 20 * [1], 4), ([10, 9, 8.8, 8.4, 8.4, 8.3, 8, 7.9] + 20 * [1], 8),
    ([10, 9, 8.8, 8.4, 8.4, 8.3, 8, 7.89] + 8 * [7.5], 16), (4 * [19], 4), ([20.0] * 4, 4),
    ([10, 12, 9, 13, 7, 12, 12, 12] + 8 * [6.51], 16),
])  # fmt: skip
def test_where_a_window_ends_that_hardly_lowered_the_objective(primals, expected, monkeypatch):
    best, asked = scripted(monkeypatch, primals, 0.25, 99)
    assert asked == [(64.0, n * M, float(n)) for n in range(expected)]
    assert best == min([20.0, *primals[:expected]])


def test_an_epoch_that_ends_above_the_start_begins_again_with_a_quarter_of_the_step(monkeypatch):
    best, asked = scripted(monkeypatch, [15, 21, 16, np.nan, 14, 13, 12, 11, 11], 0.25, 8)
    assert best == 11 and asked == [
        (64, 0, 0), (64, M, 1), (16, 0, 0), (16, M, 1), (4, 0, 0), (4, M, 1), (4, 2 * M, 2),
        (4, 3 * M, 3),
    ]  # fmt: skip
    best, asked = scripted(monkeypatch, [np.nextafter(20, 30)] * 99, 0.25, 99)
    assert best == 20 and [eta0 for eta0, *_ in asked] == [4.0 ** (3 - n) for n in range(11)]
    assert scripted(monkeypatch, [5.0] * 9, 0.25, 0) == (20, [])
