"""The path of hinge machines and LDM along lambda: the same solutions, and its ends."""

import numpy as np
import pytest
from ldm_problems import assert_confirmed, ldm_problem
from problems import OTHER_LOSSES, problem, weights, write
from scipy import sparse
from scipy.optimize import LinearConstraint, linprog, minimize

from odmtool.core import deadline, losses
from odmtool.solvers import hinge_path, path
from odmtool.solvers.base import Problem, Stop


def chain(kernel, settings, starts):
    """The path's solutions of one problem with several parameters."""
    p, start, found = ldm_problem(kernel, weight=weights()), None, []
    for setting in settings:
        q = p._replace(loss=losses.ldm(*setting, weights().sum()))
        solution = path.solve(q, Stop(1e-8, 10**6), start=start if starts else None)
        assert_confirmed(q, solution, 1e-8)
        found.append(solution)
        start = solution.warm_start
    return found


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_the_path_is_the_same_wherever_it_was_begun(kernel):
    settings = [(1.0, 0.5, 2.0**k) for k in range(-2, 15, 4)]
    settings += [(1.0, 2.0, 8.0), (4.0, 2.0, 64.0), (4.0, 2.0, 1.0), (0.0, 2.0, 16.0)]
    together, alone = chain(kernel, settings, True), chain(kernel, settings, False)
    assert together[0].track is together[5].track is not together[6].track
    for a, b in zip(together, alone, strict=True):
        np.testing.assert_array_equal(a.eta, b.eta)
        assert (a.gap, a.solver) == (b.gap, "path")


@pytest.mark.parametrize("mu1", [0.0, 2.0])
def test_the_path_passes_examples_that_meet_the_boundary_together(mu1):
    """Copies, with either label, and features of two values."""
    generator = np.random.default_rng(3)
    rows = generator.integers(0, 2, (20, 6)).astype(float)
    X, y = np.repeat(rows, 3, axis=0), np.tile([1.0, 1.0, -1.0], 20) * np.repeat(
        np.where(rows[:, 0] > 0, 1.0, -1.0), 3)  # fmt: skip
    start = None
    for k in range(-2, 21, 2):
        p = Problem(X, None, y, np.ones(60), losses.ldm(mu1, 0.25, 2.0**k, 60.0))
        solution = path.solve(p, Stop(1e-8, 10**6), start=start)
        start = solution.warm_start
        assert_confirmed(p, solution, 1e-8)
        assert solution.solver == "path"


def refuse(_matrix):
    raise np.linalg.LinAlgError("Singular matrix")


@pytest.mark.parametrize(
    "change", [(hinge_path, "_MOST", 0.1), (hinge_path, "_REFRESH", 5)], ids=["circle", "singular"]
)
def test_newton_goes_on_where_the_path_is_lost(monkeypatch, change):
    monkeypatch.setattr(*change)
    if change[1] == "_REFRESH":
        monkeypatch.setattr(np.linalg, "inv", refuse)
    for loss in (losses.ldm(1.0, 1.0, 2.0**10, 60), OTHER_LOSSES["l1svm"]):
        p = problem("rbf", loss=loss)
        solution = path.solve(p, Stop(1e-6, 10**6))
        assert solution.solver == "path, then newton"
        assert_confirmed(p, solution, 1e-6)
    assert not path.solve(p, Stop(1e-6, 3)).converged
    # Newton's method has the steps that it has by itself, not those of the path.
    assert path.solve(p, Stop(1e-300, 10**6)).iterations < 1000


def test_a_path_is_lost_where_rounding_leaves_no_inverse():
    """As one split of australian, coded by levels: what left the active set divided by 0."""
    t, side, active, alpha = np.ones(2), np.zeros(2), np.arange(2), np.full(2, 0.5)
    ends = hinge_path.follow(
        np.eye(2), np.ones(2), np.ones(2), side, t, np.ones(2), active, alpha,
        np.array([[0.0, 1.0], [1.0, 0.0]]), 1.0, 2, 10.0, 5,
    )  # fmt: skip
    assert ends == (1.5, 2, 0, hinge_path.LOST)
    assert not side.any() and active.tolist() == [0, 1]


def test_newton_goes_on_where_no_inverse_is_left(monkeypatch):
    follow = hinge_path.follow

    def lost(*arguments):
        *state, _ = follow(*arguments[:-1], min(5, arguments[-1]))
        return *state, hinge_path.LOST

    monkeypatch.setattr(hinge_path, "follow", lost)
    p = problem("rbf", loss=OTHER_LOSSES["l1svm"])
    solution = path.solve(p, Stop(1e-6, 10**6))
    assert solution.solver == "path, then newton"
    assert_confirmed(p, solution, 1e-6)


def test_a_path_ends_when_the_time_is_over():
    p = problem("rbf", loss=OTHER_LOSSES["l1svm"])
    with deadline.time_limit(0.0):
        assert path.solve(p, Stop(1e-6, 10**6)).iterations == 0


def test_cross_validations_go_on_where_a_path_meets_dependent_examples(run, tmp_path):
    """Unscaled features of few values: by rounding nine examples with eight seem independent."""
    generator, m = np.random.default_rng(1), 200
    X = np.round(generator.normal(size=(m, 8)) * 4) * 10.0 ** np.arange(-2, 2).repeat(2)
    X += [50, 0, 100, 0, 0, 200, 0, 3]
    z = ((X - X.mean(axis=0)) / X.std(axis=0)).sum(axis=1)
    y = np.where(z + 2 * generator.normal(size=m) > 0, 1, -1)
    data = write(tmp_path / "d", sparse.csr_matrix(X), y)
    outcome = run("cv", "-q", "-s", "l1svm", "-l", "2^0:20:2", "-v", "3", data)
    assert outcome.code == 0, outcome.err


# ---- hard margins --------------------------------------------------------------------------


def hard_margin(y_wrong):
    """Twenty examples that a line separates, but for some that have the other label."""
    generator = np.random.default_rng(8)
    X = generator.standard_normal((20, 3))
    y = np.where(X @ [1.0, -2.0, 0.5] > 0, 1.0, -1.0)
    y[:y_wrong] *= -1
    mu1, mu2 = 2.0, 0.5

    def solve(lambda_):
        p = Problem(X, None, y, np.ones(20), losses.ldm(mu1, mu2, lambda_, 20.0))
        solution = path.solve(p, Stop(1e-6, 10**6))
        assert solution.converged and solution.solver == "path"
        return solution.w

    def without_hinge(w):
        t = y * (X @ w)
        return w @ w / 2 + mu1 * t.var() - mu2 * t.mean()

    return X * y[:, None], solve, without_hinge


def test_a_large_lambda_is_the_hard_margin_where_the_data_are_separable():
    Z, solve, without_hinge = hard_margin(0)
    w = solve(2.0**20)
    np.testing.assert_allclose(solve(2.0**30), w, rtol=1e-9)
    assert (Z @ w).min() == pytest.approx(1.0, abs=1e-9)
    constraint = LinearConstraint(Z, lb=1.0)
    found = minimize(without_hinge, 2 * w, method="SLSQP", constraints=[constraint], tol=1e-14)
    assert without_hinge(w) == pytest.approx(found.fun, rel=1e-7)


def test_a_large_lambda_is_the_least_hinge_where_they_are_not():
    """Of all w with the least sum of max(0, 1 - t) the one whose other terms are least."""
    Z, solve, without_hinge = hard_margin(2)
    w = solve(2.0**20)
    np.testing.assert_allclose(solve(2.0**16), w, rtol=1e-7)
    cost, identity = np.r_[np.zeros(3), np.ones(20)], np.eye(20)
    bounds = [(None, None)] * 3 + [(0, None)] * 20
    least = linprog(cost, A_ub=-np.hstack([Z, identity]), b_ub=-np.ones(20), bounds=bounds).fun
    assert least > 0.1
    assert np.maximum(0, 1 - Z @ w).sum() == pytest.approx(least, rel=1e-9)
