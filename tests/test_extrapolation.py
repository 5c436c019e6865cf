"""Anderson's extrapolation of coordinate descent, against its own equations and without it."""

import numpy as np
import pytest
from problems import problem
from scipy import sparse

from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.judge import binary as judge
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.descent import dcd, extrapolation
from odmtool.solvers.descent.extrapolation import Extrapolation, shares


def slow_problem(loss, m=60, d=200, seed=2):
    """Fewer examples than features that are much alike: epochs gain little."""
    generator = np.random.default_rng(seed)
    X = 1.0 + 0.3 * generator.standard_normal((m, d))
    y = np.where(generator.random(m) < 0.5, 1.0, -1.0)
    return Problem(sparse.csr_matrix(X), None, y, generator.uniform(0.5, 2, m), loss)


def test_the_combination_has_the_smallest_step():
    generator = np.random.default_rng(0)
    points = generator.standard_normal((5, 30)).cumsum(axis=0)
    steps = np.diff(points, axis=0)

    def size(c):
        return np.linalg.norm(c @ steps)

    c = shares(points)
    assert c.sum() == pytest.approx(1)
    for _ in range(50):
        change = generator.standard_normal(4)
        assert size(c + 1e-2 * (change - change.mean())) > size(c)


def test_the_limit_of_a_linear_map_is_found_at_once():
    """With one step more than the map has directions."""
    generator = np.random.default_rng(1)
    basis, _ = np.linalg.qr(generator.standard_normal((40, 3)))
    T = basis @ np.diag([0.97, 0.6, 0.2]) @ basis.T
    points, b = [np.zeros(40)], basis @ generator.standard_normal(3)
    for _ in range(4):
        points.append(T @ points[-1] + b)
    limit, points = np.linalg.solve(np.eye(40) - T, b), np.array(points)
    assert np.linalg.norm(shares(points) @ points[1:] - limit) < 1e-3 * np.linalg.norm(limit)
    assert np.linalg.norm(points[-1] - limit) > 0.5 * np.linalg.norm(limit)


def test_points_that_do_not_move_lead_nowhere():
    assert shares(np.ones((4, 7))) is None


def test_steps_that_are_alike_have_small_shares():
    """Without regularisation they would be as large as the steps are alike, and of both signs."""
    generator = np.random.default_rng(5)
    steps = np.ones((6, 50)) + 1e-9 * generator.standard_normal((6, 50))
    found = shares(np.vstack([np.zeros(50), steps.cumsum(axis=0)]))
    assert found.sum() == pytest.approx(1) and np.abs(found).max() < 1


@pytest.mark.parametrize("name, kernel, m, lambda_", [
    ("odm", None, 60, 1e5), ("svr", None, 60, 1e3),
    # Several blocks.
    ("odm", Kernel("rbf", 5e-4), 200, 1e5), ("svr", Kernel("rbf", 5e-4), 200, 1e5),
])  # fmt: skip
def test_a_third_of_many_epochs_is_saved_at_least(monkeypatch, name, kernel, m, lambda_):
    loss = {"odm": losses.odm(lambda_, 0.3, 0.2, m), "svr": losses.svr(lambda_, 0.1, m)}[name]
    p = slow_problem(loss, m)
    if kernel is not None:
        p = p._replace(gram=Gram(kernel, p.X))
    stop, found = Stop(1e-5, 20000), {}
    for first in (20, np.inf):
        monkeypatch.setattr(extrapolation, "_FIRST", first)
        found[first] = solution = dcd.solve(p, stop, seed=3)
        if kernel is None:
            rest = p.X, p.y, p.weight, p.loss, solution.w, solution.eta
            gap = judge.certify_linear(*rest).gap
        else:
            K = judge.kernel_matrix(kernel, p.X, p.X)
            gap = judge.certify_kernel(K, p.y, p.weight, loss, solution.coef, solution.eta).gap
        assert solution.converged and gap <= solution.gap <= 1e-5
    assert found[20].iterations < 0.67 * found[np.inf].iterations
    assert found[20].primal == pytest.approx(found[np.inf].primal, rel=2e-5)


@pytest.mark.parametrize("kernel", [None, "rbf"])
@pytest.mark.parametrize("name", ["odm", "l1svm"])
def test_a_jump_raises_the_dual_or_changes_nothing(kernel, name):
    p = slow_problem({"odm": losses.odm(1e5, 0.3, 0.2, 60), "l1svm": losses.l1svm(1e4, 60)}[name])
    if kernel:
        p = p._replace(gram=Gram(Kernel("rbf", 5e-4), p.X))
    loss, state = losses.scaled(p.loss, p.weight), dcd.state_of(p, None)
    order, tried, taken = np.arange(p.size), [], 0
    leap = Extrapolation(p, state)
    for epoch in range(200):
        state.epoch(order, p.size, np.inf)
        before, eta, had_begun = leap.dual(), state.eta.copy(), leap.has_begun
        has_jumped = leap.after_epoch()
        now = leap.dual()
        assert now > before if has_jumped else np.array_equal(state.eta, eta) and now == before
        if had_begun and not leap.has_begun:
            tried.append(epoch)
            taken += has_jumped
            assert np.isfinite(losses.dual_value(loss, state.eta)).all()  # within its domain
            carried = state.carried.copy()  # what belongs to the duals
            state.assign(state.eta)
            size = np.abs(state.carried).max()
            assert np.allclose(carried, state.carried, rtol=0, atol=1e-9 * size)
    assert tried == list(range(29, 200, 11)) and taken >= 4


def test_a_point_that_lowers_the_dual_is_not_taken(monkeypatch):
    p = problem("rbf")
    state = dcd.state_of(p, None)
    monkeypatch.setattr(extrapolation, "shares", lambda points: np.full(len(points) - 1, 1e3))
    monkeypatch.setattr(extrapolation, "_FIRST", 1)
    leap, order = Extrapolation(p, state), np.arange(p.size)
    for _ in range(extrapolation.EPOCHS + 1):
        state.epoch(order, p.size, np.inf)
        eta = state.eta.copy()
        assert not leap.after_epoch()
        assert np.array_equal(state.eta, eta)
    assert not leap.has_begun
    assert np.allclose(p.y * state.carried, p.margins(eta), rtol=0, atol=1e-12)


@pytest.mark.parametrize("limit", [30, 31])
def test_an_epoch_follows_every_jump(monkeypatch, limit):
    """A jump raises the dual, and often P, too."""
    jumps, jump = [], Extrapolation._jump
    monkeypatch.setattr(Extrapolation, "_jump", lambda self: jumps.append(0) or jump(self))
    dcd.solve(slow_problem(losses.odm(1e5, 0.3, 0.2, 60)), Stop(1e-9, limit))
    assert len(jumps) == limit - 30


@pytest.mark.parametrize("reason", ["rows", "size"])
def test_where_points_cost_too_much_there_are_none(monkeypatch, reason):
    """Rows of the kernel matrix that are made again and again, or many numbers."""
    p = problem("rbf")
    if reason == "rows":
        p = p._replace(gram=p.gram.within(8.0 * p.size * 4))
        p.gram._matrix = None
    else:
        monkeypatch.setattr(extrapolation, "_MOST", 32 * p.size - 1)
    state = dcd.state_of(p, None)
    leap = Extrapolation(p, state)
    for _ in range(40):
        state.epoch(np.arange(p.size), p.size, np.inf)
        assert not leap.after_epoch() and not leap.has_begun
