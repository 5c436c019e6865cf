"""Anderson's extrapolation of mcODM's coordinate descent with a kernel."""

import mcodm_problems
import numpy as np
import pytest
from mcodm_problems import certificate

from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.solvers.descent import extrapolation
from odmtool.solvers.mcodm.descent import KernelDescent
from odmtool.solvers.mcodm.extrapolation import Extrapolation
from odmtool.solvers.multi import MultiProblem


def slow_problem(m=80, d=150, k=4, lambda_=1e5):
    """Examples that are much alike: epochs gain little."""
    generator = np.random.default_rng(4)
    X = 1.0 + 0.3 * generator.standard_normal((m, d))
    target = generator.integers(0, k, m)
    weight = generator.uniform(0.5, 2, m)
    loss = losses.mcodm(lambda_, 0.5, 0.3, weight.sum())
    return MultiProblem(None, Gram(Kernel("rbf", 1e-3), X), target, k, weight, loss)


def started(p, leaps=True):
    """A state whose constraints from above name rivals."""
    duals = mcodm_problems.nothing(p)
    duals.rival[:], duals.upper[:] = (p.target + 1) % p.k, 1 + p.parameters.theta
    state = KernelDescent(p, duals, 0, leaps)
    state.begin(0.0)
    return state


def test_a_jump_raises_the_dual_or_changes_nothing():
    p = slow_problem()
    state, taken = started(p), 0
    leap = state._extrapolation
    for _ in range(200):
        state._epoch()
        before, eta, had_begun = leap.dual(), state.eta, leap.has_begun
        has_jumped = leap.after_epoch()
        assert leap.dual() > before if has_jumped else np.array_equal(state.eta, eta)
        if not had_begun or leap.has_begun:
            continue
        taken += has_jumped
        alpha, beta = state.duals.alpha, state.duals.beta
        own = alpha[np.arange(p.size), p.target]
        others = alpha.sum(axis=1) - own
        assert (beta >= 0).all() and (own >= 0).all()
        assert others == pytest.approx(-own, rel=1e-9, abs=1e-12 * own.max())
        assert np.count_nonzero(alpha > 0, axis=1).max() <= 1
        carried = state.carried.copy()  # what belongs to the duals
        state._rebuild()
        assert np.allclose(carried, state.carried, rtol=0, atol=1e-9 * np.abs(carried).max())
    assert taken >= 4


def test_a_point_that_lowers_the_dual_is_not_taken(monkeypatch):
    monkeypatch.setattr(extrapolation, "shares", lambda points: np.full(len(points) - 1, 1e3))
    monkeypatch.setattr(extrapolation, "_FIRST", 1)
    state = started(slow_problem())
    for _ in range(extrapolation.EPOCHS + 1):
        state._epoch()
        eta, scores = state.eta, state.carried.copy()
        assert not state._extrapolation.after_epoch()
        assert np.array_equal(state.eta, eta) and np.array_equal(state.carried, scores)
    assert not state._extrapolation.has_begun


def test_a_third_of_many_epochs_is_saved_at_least(monkeypatch):
    found = {}
    for first in (20, np.inf):
        monkeypatch.setattr(extrapolation, "_FIRST", first)
        p = slow_problem(m=200)  # several blocks
        found[first] = solution = mcodm_problems.solve(p, 1e-6, 50000, solver="dcd", starts=1)
        judged = certificate(p, solution)
        assert solution.converged and judged.gap <= solution.gap <= 1e-6
        assert judged.objective == pytest.approx(solution.objective, rel=1e-10)
        assert judged.infeasibility <= 1e-12 * np.abs(solution.duals.alpha).max()
    assert found[20].iterations < 0.67 * found[np.inf].iterations
    assert found[20].objective == pytest.approx(found[np.inf].objective, rel=1e-2)


@pytest.mark.parametrize("seed", range(12))
def test_duals_stay_in_their_domain_where_classes_are_left_out(seed):
    """A class that is left out after the first of the points may come back by a jump."""
    generator = np.random.default_rng(seed)
    m, k = 90, 6
    X, target = generator.standard_normal((m, 4)), generator.integers(0, k, m)
    loss = losses.mcodm(2.0 ** generator.uniform(4, 12), 0.5, 0.6, float(m))
    p = MultiProblem(None, Gram(Kernel("rbf", 0.1), X), target, k, np.ones(m), loss)
    solution = mcodm_problems.solve(p, 1e-7, 400, solver="dcd", starts=1)
    judged = certificate(p, solution)
    assert judged.infeasibility <= 1e-12 * np.abs(solution.duals.alpha).max()
    assert judged.gap <= solution.gap * (1 + 1e-6)


@pytest.mark.parametrize("reason", ["rows", "size", "newton"])
def test_where_points_cost_too_much_or_newton_follows_there_are_none(monkeypatch, reason):
    p = slow_problem()
    if reason == "rows":
        p = p._replace(gram=p.gram.within(8.0 * p.size * 40))
    elif reason == "size":
        monkeypatch.setattr(extrapolation, "_MOST", 100)
        p = p._replace(gram=p.gram.within(8.0 * p.size**2 * 2 - 1))
    state = started(p, leaps=reason != "newton")
    order = state._order.copy()
    for _ in range(40):
        state.iterate()
        leap = state._extrapolation
        assert leap is None if reason == "newton" else not leap.has_begun
    assert not np.array_equal(state._order, order)


def test_a_part_of_the_planned_matrices_may_be_taken(monkeypatch):
    """More numbers than others may keep, where memory for two kernel matrices is planned."""
    monkeypatch.setattr(extrapolation, "_MOST", 100)
    m, k = 400, 3
    generator = np.random.default_rng(0)
    X, target = generator.standard_normal((m, 5)), generator.integers(0, k, m)
    loss = losses.mcodm(1e4, 0.5, 0.3, float(m))
    for room, fits in ((2, True), (1.9, False)):
        gram = Gram(Kernel("rbf", 1.0), X, 8.0 * m * m * room)
        state = started(MultiProblem(None, gram, target, k, np.ones(m), loss))
        for _ in range(22):
            state.iterate()
        assert isinstance(state._extrapolation, Extrapolation)
        assert state._extrapolation.has_begun == fits
