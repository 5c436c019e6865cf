"""Solvers that the deadline ends within an epoch, a step or a pass keep the best that they have."""

import copy
from types import SimpleNamespace

import mcodm_problems
import numpy as np
import pytest
import test_mcsvm
from problems import examples, problem, weights
from test_certificates import certificate
from test_stopped import ENDLESS, assert_same_numbers

from odmtool import solvers
from odmtool.core import deadline, gram, losses
from odmtool.core.kernels import Kernel
from odmtool.judge import mcodm as judge_of_mcodm
from odmtool.solvers.base import Stop
from odmtool.solvers.descent import dcd
from odmtool.solvers.ldm import descent as ldm_descent
from odmtool.solvers.mcodm import descent as mcodm_descent
from odmtool.solvers.mcodm import hessian as mcodm_hessian
from odmtool.solvers.mcodm import newton as mcodm_newton
from odmtool.solvers.mcodm import rounds as mcodm_rounds
from odmtool.solvers.mcodm.terms import evaluate
from odmtool.solvers.mcodm.way import Way
from odmtool.solvers.mcsvm import descent as mcsvm
from odmtool.solvers.newton import hessian


@pytest.fixture
def ends_at(monkeypatch):
    """Let the time be over when rows are fetched for the n-th time; the list of fetches."""
    fetch, fetched = gram.RowCache.fetch, []

    def set_end(limit, number):
        def counted(self, examples):
            fetched.append(len(examples))
            if len(fetched) == number:
                limit.end()
            fetch(self, examples)

        monkeypatch.setattr(gram.RowCache, "fetch", counted)
        return fetched

    return set_end


# Of 60 examples 20 have room, and a run has 10.
LITTLE = 20 * 60 * 8


@pytest.mark.parametrize("number", [2, 8])
def test_an_epoch_without_the_matrix_ends_with_the_time(ends_at, number):
    """After this run, with no rows for anything else; what is said of the iterate is true."""
    p = problem("rbf", memory=LITTLE)
    whole = solvers.solve(p, solver="dcd", max_iter=number // 6 + 1, tolerance=ENDLESS)
    with deadline.time_limit(None) as limit:
        fetched = ends_at(limit, number)
        stopped = solvers.solve(p, solver="dcd", tolerance=ENDLESS)
    assert len(fetched) == number and stopped.iterations == whole.iterations
    assert np.count_nonzero(stopped.eta) and stopped.dual < whole.dual
    assert not stopped.converged
    assert_same_numbers(stopped, certificate(p, stopped))


@pytest.mark.parametrize("memory, number", [(LITTLE, 14), (np.inf, 3)])
def test_ldm_keeps_what_it_has_when_the_time_is_over(ends_at, memory, number):
    """In the second epoch; the first fetches are those of the start."""
    p = problem("rbf", losses.ldm(1.5, 0.7, 42.0, 60), memory=memory)
    start = solvers.solve(p, solver="dcd", max_iter=0)
    with deadline.time_limit(None) as limit:
        fetched = ends_at(limit, number)
        stopped = solvers.solve(p, solver="dcd", tolerance=ENDLESS)
    assert len(fetched) >= number and stopped.iterations == 2
    assert stopped.primal < start.primal and stopped.dual > start.dual
    assert_same_numbers(stopped, certificate(p, stopped))


@pytest.mark.parametrize("number", [2, 8])
def test_several_classes_end_with_the_time_too(ends_at, number):
    p = test_mcsvm.problem("rbf", memory=LITTLE)
    with deadline.time_limit(None) as limit:
        fetched = ends_at(limit, number)
        stopped = mcsvm.solve(p, Stop(ENDLESS))
    assert len(fetched) == number and stopped.support_count > 0 and not stopped.converged
    judged = test_mcsvm.certificate(p, stopped)
    assert stopped.gap == pytest.approx(judged.gap, rel=1e-9)
    p = mcodm_problems.problem("rbf", memory=LITTLE)
    descent = mcodm_descent.KernelDescent(p, mcodm_problems.nothing(p), 0)
    descent.begin(ENDLESS)
    with deadline.time_limit(None) as limit:
        fetched.clear()
        ends_at(limit, 2)
        assert descent.iterate() == (np.inf, False)
    assert len(fetched) == 2 and descent.active > 30
    assert np.allclose(descent.scores(), p.gram.rows(np.arange(60)) @ descent.keep())


@pytest.mark.parametrize("number", [2, 8])
def test_mcodm_ends_with_the_time_and_tells_its_gap(ends_at, number):
    p = mcodm_problems.problem("rbf", memory=LITTLE)
    with deadline.time_limit(None) as limit:
        fetched = ends_at(limit, number)
        stopped = mcodm_problems.solve(p, solver="dcd")
    assert len(fetched) == number and stopped.iterations == number // 6 + 1
    judged = mcodm_problems.certificate(p, stopped)
    assert stopped.gap == pytest.approx(judged.gap, rel=1e-9) and not stopped.converged


def test_what_is_not_visited_stays_active():
    """Behind what stays of the runs before; the order is one of all examples."""
    cache = gram.RowCache(gram.Gram(Kernel("rbf", 0.4), examples()[0], LITTLE))
    order = np.random.default_rng(0).permutation(60)
    active, seen = 45, []
    with deadline.time_limit(None) as limit:

        def visit(part):
            seen.extend(part)
            if len(seen) == 20:
                limit.end()
            return 4, float(len(seen)), 1.0

        before = order.copy()
        kept, moves, estimate = gram.epoch_in_runs(cache, order, active, visit)
    assert seen == before[:20].tolist() and moves == [10.0, 20.0] and estimate == np.inf
    assert kept == 8 + 25 and np.array_equal(np.sort(order), np.arange(60))
    assert order[:8].tolist() == [*before[:4], *before[10:14]]
    assert order[8:kept].tolist() == before[20:45].tolist()
    with deadline.time_limit(0.0):
        seen.clear()
        kept, moves, estimate = gram.epoch_in_runs(cache, order, 20, visit)
    assert len(seen) == 10 and moves == [10.0] and kept == 14


def test_margins_are_added_up_anew_where_the_matrix_is_there(ends_at):
    p = problem("rbf")
    with deadline.time_limit(None) as limit:
        fetched = ends_at(limit, 2)
        solvers.solve(p, solver="dcd", tolerance=ENDLESS)
    # Two epochs, and the sums for the gap.
    assert fetched[:2] == [60, 60] and len(fetched) == 3


@pytest.fixture
def newton_of_mcodm(monkeypatch):
    """Make a state whose steps are by conjugate gradients, and a list of their products."""

    def make(is_array, has_blocks=False):
        monkeypatch.setattr(mcodm_hessian, "LARGEST_FACTOR", 0)
        monkeypatch.setattr(mcodm_hessian, "LARGEST_FEATURE_FACTOR", 0)
        monkeypatch.setattr(mcodm_newton, "LARGEST_BLOCKS", np.inf if has_blocks else 0)
        kind, products = mcodm_hessian.RowsNewton, []
        p, times = mcodm_problems.problem(lambda_=2.0**9, mu=1.0), kind._hessian_times

        def counted(self, V):
            products.append(V)
            return times(self, V)

        monkeypatch.setattr(kind, "_hessian_times", counted)
        p = p._replace(X=p.X.toarray()) if is_array else p
        state = kind(p, mcodm_problems.nothing(p), np.zeros((p.X.shape[1], p.k)), 1e-3)
        state.begin(1e-3)
        return state, products

    return make


def true_objective(state):
    loss = evaluate(state.problem, state.duals, state.problem.X @ state.W).true_loss
    return np.vdot(state.W, state.W) / 2 + loss


@pytest.mark.parametrize("is_array", [True, False])
def test_conjugate_gradients_of_mcodm_end_with_the_time(is_array, newton_of_mcodm, monkeypatch):
    """With what they have, and then the lowest point is taken, which is an earlier one or this."""
    state, products = newton_of_mcodm(is_array)
    rises, shortened, lowest, limit = 0, 0, np.inf, SimpleNamespace(moment=np.inf)
    monkeypatch.setattr(deadline, "is_over", lambda: len(products) >= limit.moment)
    for _ in range(6):
        before, W = copy.deepcopy(state), state.W
        products.clear()
        state.iterate()
        lowest = min(lowest, true_objective(before) * (1 + 1e-12))
        rises += true_objective(state) > lowest
        for number in range(len(products)):
            late, limit.moment = copy.deepcopy(before), number
            products.clear()
            late.iterate()
            assert len(products) == max(1, number)
            late.settle()
            assert true_objective(late) <= lowest
            shortened += not np.array_equal(late.W, W)
            p, duals = late.problem, late.duals
            judged = judge_of_mcodm.certify_linear(
                p.X, p.target, p.weight, p.parameters, late.W, duals
            )
            np.testing.assert_allclose(late.scores(), p.X @ late.W, atol=1e-12)
            C = duals.coefficients(p.target)
            assert late.dual_squared_norm() == pytest.approx(np.sum((p.X.T @ C) ** 2))
            assert judged.infeasibility <= 1e-13 * max(1.0, abs(duals.alpha).max())
        limit.moment = np.inf
    assert rises and shortened > 6


@pytest.mark.parametrize("is_array", [True, False])
@pytest.mark.parametrize("number", [1, 2, 5, 9, 14, 20, 30])
def test_newton_of_mcodm_ends_with_its_lowest_point(number, is_array, newton_of_mcodm, monkeypatch):
    """Nothing at all is no lower, and the gap is that of the judge."""
    state, products = newton_of_mcodm(is_array)
    monkeypatch.setattr(deadline, "is_over", lambda: len(products) >= number)
    p, seen = state.problem, []
    usual = mcodm_newton.SmoothedNewton.iterate

    def iterate(self):
        seen.append(true_objective(self))
        answer = usual(self)
        seen.append(true_objective(self))
        return answer

    monkeypatch.setattr(mcodm_newton.SmoothedNewton, "iterate", iterate)
    stopped = mcodm_rounds.solve(p, Stop(1e-7, 20000), Way(0, not is_array), starts=1)
    assert len(products) == number and not stopped.converged
    assert stopped.objective == pytest.approx(min(seen), rel=1e-12)
    judged = mcodm_problems.certificate(p, stopped)
    assert stopped.gap == pytest.approx(judged.gap, rel=1e-9, abs=1e-10)
    assert stopped.objective == pytest.approx(judged.objective, rel=1e-12)


@pytest.mark.parametrize("is_array", [True, False])
@pytest.mark.parametrize("looks", [0, 2, 3])
def test_without_time_for_blocks_the_diagonal_does(
    looks, is_array, newton_of_mcodm, monkeypatch
):
    """None is made after the first look at the clock that says so, and a step is taken."""
    state, products = newton_of_mcodm(is_array, has_blocks=True)
    seen, made = [], []
    usual = mcodm_newton.cholesky_in_place
    monkeypatch.setattr(mcodm_newton, "cholesky_in_place", lambda A: made.append(A) or usual(A))
    monkeypatch.setattr(deadline, "is_over", lambda: seen.append(0) or len(seen) > looks)
    before = true_objective(state)
    state.iterate()
    assert len(products) == 1 and true_objective(state) < before
    assert len(made) <= looks


def test_no_block_is_made_after_the_time():
    random, looks = np.random.default_rng(1), []
    X = random.standard_normal((40, 7))
    active, s = np.arange(40), random.uniform(1, 2, 40)
    whole = hessian.regularised_gram(X, active, s)
    for most in (0, 1, 99):
        looks.clear()
        found = hessian.regularised_gram(
            X, active, s, lambda most=most: looks.append(0) or len(looks) > most
        )
        assert found is None if most < 2 else np.array_equal(found, whole)


@pytest.mark.parametrize("number", [1, 3, 5])
@pytest.mark.parametrize("weight", [None, weights()], ids=["equal", "weighted"])
def test_the_start_of_ldm_ends_with_the_time(number, weight, ends_at):
    """With the rows that are there; one run, at least. It is no worse than nothing."""
    loss = losses.ldm(1.5, 0.7, 42.0, 60 if weight is None else weight.sum())
    p = problem("rbf", loss, weight=weight, memory=LITTLE)
    with deadline.time_limit(None) as limit:
        fetched = ends_at(limit, number)
        stopped = solvers.solve(p, solver="dcd", tolerance=ENDLESS)
    assert len(fetched) == number and stopped.iterations == 0
    assert np.flatnonzero(stopped.eta).tolist() == list(range(10 * number))
    assert stopped.eta.sum() == pytest.approx(p.weight.sum() / loss.total_weight * loss.mu2)
    assert_same_numbers(stopped, certificate(p, stopped))
    assert stopped.primal <= loss.lambda_ * p.weight.sum() / loss.total_weight


def test_sums_of_kernel_rows_end_with_the_time(ends_at):
    """Those of the epochs stay, or, of duals that are new, multiples of what was there."""
    p = problem("rbf", memory=LITTLE)
    state = dcd.state_of(p, None)
    state.epoch(np.arange(60), 60, np.inf)
    eta, values = state.eta.copy(), state._f.copy()
    exact = p.margins(eta)
    with deadline.time_limit(None) as limit:
        fetched = ends_at(limit, 3)
        assert np.array_equal(state.margins(), p.y * values) and len(fetched) == 3
        assert not state.assign(np.ones(60), may_fail=True)
    assert np.array_equal(state.eta, eta) and np.array_equal(state._f, values)
    state.multiply(0.25)
    np.testing.assert_allclose(state.margins(), exact / 4, rtol=1e-12)
    assert state.assign(np.ones(60)) and np.array_equal(state.eta, np.ones(60))
    np.testing.assert_allclose(state.margins(), p.margins(np.ones(60)), rtol=1e-12)


def test_ldm_takes_multiples_when_there_is_no_time_for_feasible_duals():
    loss = losses.ldm(1.5, 0.7, 42.0, 60)
    for total, bound, is_moved in ((0.35, 0.7, False), (99.0, 42.7, False), (-5.0, 0, True)):
        p = problem("rbf", loss, memory=LITTLE)
        alternation = ldm_descent._Alternation(p, np.full(60, total / 60), 0, False)
        eta = np.arange(60) / 29.5 * total / 60
        alternation.state.assign(eta)
        wanted = ldm_descent.feasible(loss, p.weight, eta)
        with deadline.time_limit(0.0):
            alternation.repair(wanted)
        expected = wanted if is_moved else eta * bound / total
        assert alternation.state.eta == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(alternation.state.margins(), p.margins(expected), atol=1e-12)
