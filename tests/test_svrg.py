"""Stochastic variance reduced gradient: certificates, steps, work."""

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
from odmtool.defaults import SNAPSHOTS
from odmtool.errors import DivergedError
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.descent import dcd
from odmtool.solvers.descent.dcd import compressed_rows
from odmtool.solvers.ldm import descent as ldm
from odmtool.solvers.newton import newton
from odmtool.solvers.stochastic import common, svrg

M = 60
SMOOTH = {
    "odm": losses.odm(2.0**4, 0.5, 0.3, M),
    "l2svm": losses.l2svm(2.0**4, M),
    "lssvm": losses.lssvm(2.0**4, M),
    "mamc": losses.mamc(2.0**2, M),
}
LDM = losses.ldm(1.5, 0.7, 2.0**4, M)


@pytest.mark.parametrize("snapshot", SNAPSHOTS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("is_dense", [False, True])
@pytest.mark.parametrize("loss", SMOOTH)
def test_the_judge_confirms_the_gap_of_smooth_losses(loss, is_dense, weighted, snapshot):
    p = problem(loss=SMOOTH[loss], dense=is_dense, weight=weights() if weighted else None)
    for tolerance in (1e-2, 1e-10):
        solution = svrg.solve(p, Stop(tolerance, 2000), snapshot=snapshot)
        assert_confirmed(p, solution, tolerance)
        assert solution.solver == "svrg"


@pytest.mark.parametrize("snapshot", SNAPSHOTS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("is_dense", [False, True])
def test_the_judge_confirms_the_gap_of_ldm(is_dense, weighted, snapshot):
    p = problem(loss=LDM, dense=is_dense, weight=weights() if weighted else None)
    for tolerance in (1e-2, 1e-6):
        solution = svrg.solve(p, Stop(tolerance, 3000), snapshot=snapshot)
        assert_confirmed(p, solution, tolerance)


def test_ldm_is_solved_by_svrg_itself():
    """At the default tolerance the model is that of svrg; descent only proves the gap."""
    p = problem(loss=LDM)
    solution = svrg.solve(p, Stop(1e-3, 1000))
    assert solution.converged and solution.solver == "svrg"
    assert np.linalg.norm(solution.w - p.X.T @ (p.y * solution.eta)) > 1e-6


@pytest.mark.parametrize("loss", SMOOTH)
def test_svrg_agrees_with_the_other_solvers(loss):
    p = problem(loss=SMOOTH[loss], weight=weights())
    a = svrg.solve(p, Stop(1e-6, 1000))
    for other in (dcd, newton):
        assert_agree(a, other.solve(p, Stop(1e-10, 20000)))


@pytest.mark.parametrize("mu1", [0.0, 1.5])
def test_svrg_agrees_with_coordinate_descent_on_ldm(mu1):
    p = problem(loss=LDM._replace(mu1=mu1), weight=weights())
    assert_agree(svrg.solve(p, Stop(1e-4, 1000)), ldm.solve(p, Stop(1e-8, 20000)))


@pytest.mark.parametrize("loss", [SMOOTH["odm"], LDM], ids=["odm", "ldm"])
def test_the_same_seed_gives_the_same_model(loss):
    p = problem(loss=loss)
    first, second, other = (svrg.solve(p, Stop(1e-3, 100), seed=seed).w for seed in (3, 3, 4))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("loss", [SMOOTH["odm"], LDM], ids=["odm", "ldm"])
def test_weight_two_is_a_duplicate_row(loss):
    p = problem(loss=loss)
    weight = np.where(np.arange(M) % 3 == 0, 2.0, 1.0)
    loss = loss._replace(total_weight=weight.sum()) if loss is LDM else loss
    twice = np.repeat(np.arange(M), weight.astype(int))
    a = svrg.solve(p._replace(weight=weight, loss=loss), Stop(1e-6, 2000))
    repeated = Problem(p.X[twice], None, p.y[twice], np.ones(len(twice)), loss)
    assert_agree(a, svrg.solve(repeated, Stop(1e-6, 2000)))


def test_the_objective_never_rises():
    for loss in (losses.odm(2.0**16, 0.5, 0.3, M), losses.ldm(1.0, 1.0, 2.0**16, M)):
        primals = []
        p = problem(loss=loss)
        svrg.solve(p, Stop(1e-9, 60), progress=lambda state, to=primals: to.append(state.primal))
        assert len(primals) > 20
        assert max(np.diff(primals)) <= 1e-13 * primals[0]


@pytest.mark.parametrize("lambda_", [2.0**10, 2.0**16])
@pytest.mark.parametrize("machine", ["odm", "ldm"])
def test_unscaled_data_never_diverge_silently(machine, lambda_):
    """Columns from 0.001 to 1000: the tolerance is out of reach, and that is what is said."""
    X, y = examples()
    X = X.toarray() * 10.0 ** np.linspace(-3, 3, X.shape[1])
    loss = losses.odm(lambda_, 0.5, 0.3, M) if machine == "odm" else losses.ldm(1, 1, lambda_, M)
    p = Problem(X, None, y, np.ones(M), loss)
    solution = svrg.solve(p, Stop(1e-9, 50))
    primal, dual = judged(p, solution)
    assert primal == pytest.approx(solution.primal, rel=1e-9)
    assert primal < common.point_at(p, np.zeros(X.shape[1])).primal
    assert dual == pytest.approx(solution.dual, rel=1e-6, abs=1e-9 * primal)
    assert not solution.converged and solution.gap > 1e-9
    if machine == "odm":
        assert solution.gap <= 1 + 1e-9  # the dual point eta = 0 already proves that


def test_a_descent_that_finds_no_dual_point_leaves_the_primal_point(monkeypatch):
    """Descent on the dual may diverge on unscaled data; the gap is then proved, if large."""

    def diverge(problem, stop, start, seed):
        raise DivergedError("numbers overflow")

    monkeypatch.setattr(ldm, "solve", diverge)
    p = problem(loss=LDM, weight=weights())
    solution = svrg.solve(p, Stop(1e-3, 100))
    assert judged(p, solution) == pytest.approx((solution.primal, solution.dual), rel=1e-10)
    assert not solution.converged and np.isfinite(solution.gap)


def test_overflow_is_an_error():
    p = problem(dense=True)
    with pytest.raises(DivergedError):
        svrg.solve(p._replace(X=p.X * 1e200), Stop())


@pytest.mark.parametrize("loss", [*SMOOTH.values(), LDM])
def test_rows_without_nonzeros(loss):
    p = Problem(np.zeros((M, 3)), None, np.ones(M), np.ones(M), loss)
    solution = svrg.solve(p, Stop(1e-6, 50))
    assert solution.converged
    assert not solution.w.any()


def test_one_example():
    loss = losses.odm(2.0**4, 0.5, 0.3, 1)
    p = Problem(np.array([[2.0, -1.0]]), None, np.ones(1), np.ones(1), loss)
    assert_confirmed(p, svrg.solve(p, Stop(1e-8, 500)), 1e-8)


def test_a_warm_start_is_where_it_starts():
    p = problem(loss=SMOOTH["odm"])
    near = newton.solve(p, Stop(1e-12, 100))
    solution = svrg.solve(p, Stop(1e-6, 100), start=near.eta)
    assert solution.iterations == 0
    assert np.linalg.norm(solution.w - near.w) < 1e-8


def prepared(p, seed=5):
    """A snapshot, its full gradient, and drift y <x, g>."""
    point = common.point_at(p, np.random.default_rng(seed).standard_normal(p.X.shape[1]) / 2)
    gradient = point.w + p.X.T @ (p.y * point.derivative)
    return point, gradient, p.y * (p.X @ gradient)


def test_a_stage_is_what_its_header_says():
    p = problem(loss=SMOOTH["odm"], weight=weights())
    point, gradient, drift = prepared(p)
    inflation = np.random.default_rng(1).uniform(30, 90, M)
    order, step = np.random.default_rng(2).integers(0, M, 500), 0.02
    z = np.zeros_like(gradient)
    a, k = svrg.stage(
        *compressed_rows(p.X), p.y, p.weight, p.loss, point.t, drift, inflation, order, step,
        1.0, 0.0, z,
    )
    X, e = dense(p.X), np.zeros_like(gradient)
    for i in order:
        t = p.y[i] * (X[i] @ (point.w + e))
        slopes = losses.derivative(p.loss, np.array([t, point.t[i]]))
        change = inflation[i] * p.weight[i] * (slopes[0] - slopes[1]) * p.y[i] * X[i]
        e = (e - step * (gradient + change)) / (1 + step)
    assert np.abs(e).max() > 0.01
    np.testing.assert_allclose(a * z + k * gradient, e, rtol=1e-10, atol=1e-12)


def stage_of_pairs(p, point, gradient, drift, first, second, step):
    variance, _mean, hinge = common.pair_terms(p)
    z = np.zeros_like(gradient)
    pairs = np.array(first), np.array(second)
    a, k = svrg.pair_stage(
        *compressed_rows(p.X), p.y, variance, hinge, point.t, drift, *pairs, step, z
    )
    return a * z + k * gradient


def test_two_examples_give_an_unbiased_gradient_of_ldm():
    """TKDE Theorem 3.1, exactly: the mean over all pairs is the full gradient."""
    p = problem(loss=LDM, weight=weights())
    point, gradient, drift = prepared(p)
    step, chance = 0.4, p.weight / p.weight.sum()
    # The first step goes along the full gradient whatever the pair; the second is drawn.
    moved = stage_of_pairs(p, point, gradient, drift, [0], [1], step)
    np.testing.assert_allclose(moved, -step / (1 + step) * gradient, rtol=1e-12)
    mean = sum(
        chance[i] * chance[j]
        * stage_of_pairs(p, point, gradient, drift, [0, i], [1, j], step)
        for i in range(M) for j in range(M)
    )  # fmt: skip
    there = common.point_at(p, point.w + moved)
    full = gradient + p.X.T @ (p.y * (there.derivative - point.derivative))
    assert np.any((there.t <= 1) != (point.t <= 1))
    np.testing.assert_allclose(mean, (moved - step * full) / (1 + step), rtol=1e-9, atol=1e-11)


def test_the_examples_of_a_pair_are_drawn_independently(monkeypatch):
    p, seen, step = problem(loss=LDM), [], svrg.pair_stage
    monkeypatch.setattr(svrg, "pair_stage", lambda *a: seen.append(a[8:10]) or step(*a))
    rows = svrg.StageRows(p, 0, "last")
    point = rows.at(np.zeros(p.X.shape[1]))
    rows.steps(point, rows.gradient(point), 1e-3)
    [(first, second)] = seen
    assert len(first) == len(second) == M and (first == second).mean() < 0.2


def test_draws_have_their_probabilities():
    shares = np.array([1.0, 0.0, 5.0, 2.0])
    sums, generator = common.cumulative(shares), np.random.default_rng(0)
    draws = np.concatenate([common.draw(generator, sums)[:1] for _ in range(20000)])
    frequency = np.bincount(draws, minlength=4) / len(draws)
    np.testing.assert_allclose(frequency, shares / 8, atol=0.015)
    equal = common.cumulative(np.ones(50))
    assert sorted(common.draw(generator, equal)) == list(range(50))


@pytest.mark.parametrize("loss", [SMOOTH["odm"], LDM], ids=["odm", "ldm"])
def test_a_stage_touches_nonzeros_only(loss, monkeypatch):
    """In four million columns: three reads or writes of z for every nonzero it meets."""
    X, y = wide()
    p = Problem(X, None, y, np.ones(len(y)), loss)
    interpret(monkeypatch, svrg)
    rows, t, drift = compressed_rows(X), np.full(len(y), 0.9), np.linspace(-1, 1, len(y))
    order, z = np.arange(len(y)), Counting(np.zeros(X.shape[1]))
    if loss is LDM:
        variance, _mean, hinge = common.pair_terms(p)
        stage, pairs = python(svrg.pair_stage), (order, order[::-1])
        stage(*rows, y, variance, hinge, t, drift, *pairs, 0.1, z)
        met = 2 * X.nnz
    else:
        stage = python(svrg.stage)
        stage(*rows, y, p.weight, p.loss, t, drift, np.ones(len(y)), order, 0.1, 1.0, 0.0, z)
        met = X.nnz
    assert met < z.touched <= 3 * met


@pytest.mark.parametrize("loss", [SMOOTH["odm"], LDM], ids=["odm", "ldm"])
def test_columns_without_nonzeros_cost_nothing(loss):
    X, y = wide()
    p = Problem(X, None, y, np.ones(len(y)), loss)
    narrow, widen = common.occupied_columns(p)
    assert narrow.X.shape == (len(y), len(np.unique(X.indices)))
    solution = svrg.solve(p, Stop(1e-4, 500))
    assert solution.w.shape == (X.shape[1],)
    assert set(np.flatnonzero(solution.w)) <= set(X.indices)
    same = svrg.solve(narrow, Stop(1e-4, 500))
    assert np.array_equal(widen(same.w), solution.w)
    assert_confirmed(narrow, same, 1e-4)


def test_what_is_drawn_with_a_probability_counts_one_over_it():
    shares = np.array([2.0, 0.0, 6.0])
    assert svrg.inflation(shares, 8.0).tolist() == [4.0, 0.0, 8 / 6]
    p = problem(loss=SMOOTH["odm"], weight=weights())
    assert svrg.curvature(p.loss, 5.0) == pytest.approx(1 + 5 * losses.largest_slope(p.loss))


def test_the_steps_of_stages():
    """Barzilai and Borwein's between limits; what raises P is undone, and halves both."""
    taken, points = [], []

    class Rows:
        size, curvature = 10, 4.0

        def steps(self, point, gradient, step):
            taken.append(step)
            assert gradient is point.derivative
            return points[-1].w - point.w

        def at(self, w):
            assert np.array_equal(w, points[-1].w)
            return points[-1]

        def gradient(self, point):
            return point.derivative

    def point(w, primal, gradient):
        found = np.array([w, 0.0]), None, primal, 100.0, np.array([gradient, 1.0])
        points.append(common.Point(*found))
        return points[-1]

    run = svrg.Stages(Rows(), point(0.0, 50.0, -9.0))
    assert not run.is_stuck and run._limit == 1 / 4 and run._step == 1 / 16
    for w, primal, gradient, is_new, step, limit in (
        (1.0, 40.0, -4.0, True, 1 / 5 / 10, 1 / 4),  # below a tenth of the limit
        (1.5, 30.0, -3.0, True, 0.05, 1 / 4),
        (9.0, 30.0 + 1.1e-12, 99.0, False, 0.025, 1 / 8),
        (2.5, 30.0 + 0.9e-12, -2.9999, True, 1 / 8, 1 / 8),  # by rounding; no more than the limit
        (9.0, np.nan, 99.0, False, 1 / 32, 1 / 16), (3.0, 29.0, -3.5, True, 1 / 32, 1 / 16),
        (3.5, 28.0, -3.5, True, 1 / 32, 1 / 16),  # where the gradient does not rise, as before
    ):  # fmt: skip
        before = run.point
        new = point(w, primal, gradient)
        assert run.stage() == is_new and run.point is (new if is_new else before)
        assert run.gradient is run.point.derivative
        step = max(step, limit / 10)
        assert (run._step, run._limit) == (pytest.approx(step), limit)
    assert taken == pytest.approx([1 / 16, 1 / 40, 0.05, 0.025, 1 / 8, 1 / 32, 1 / 32])
    for _ in range(18):
        assert not run.is_stuck
        point(9.0, 99.0, 0.0)
        run.stage()
    assert run._limit == 2.0**-20 / 4 and not run.is_stuck
    run._limit /= 2
    assert run.is_stuck
    # Of few examples ten steps are no more than one of each.
    run._step, Rows.size = 99.0, 20
    point(9.0, 99.0, 0.0)
    run.stage()
    assert taken[-1] == 0.5


def test_stages_of_what_overflows_are_refused():
    rows = svrg.StageRows(problem(loss=SMOOTH["odm"]), 0, "last")
    rows.curvature = np.inf
    with pytest.raises(DivergedError):
        svrg.Stages(rows, rows.at(np.zeros(7)))


@pytest.mark.parametrize("loss", [SMOOTH["odm"], LDM], ids=["odm", "ldm"])
@pytest.mark.parametrize("limit", [0, 1, 4])
def test_stages_are_told_one_by_one_up_to_the_limit(loss, limit):
    told = []
    found = svrg.solve(problem(loss=loss), Stop(1e-300, limit), progress=told.append)
    assert [now.iteration for now in told] == list(range(limit + 1))
    assert np.isnan(told[-1].gap) if loss is LDM else found.iterations == limit
