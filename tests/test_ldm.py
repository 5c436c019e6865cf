"""LDM: certificates, special cases, agreement of its solvers and of a generic optimiser."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ldm_problems import (
    ALL_KERNELS,
    SETTINGS,
    SOLVERS,
    allowed,
    assert_confirmed,
    distance,
    ldm_problem,
)
from problems import KERNELS, examples, weights
from scipy.optimize import LinearConstraint, minimize
from test_certificates import certificate

from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.judge import binary as objective
from odmtool.solvers import dcd
from odmtool.solvers.base import Problem, Stop, objective_values
from odmtool.solvers.ldm import descent as ldm
from odmtool.solvers.ldm import dual as ldm_dual
from odmtool.solvers.ldm import newton as ldm_newton


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("kernel", ALL_KERNELS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_gap_is_confirmed(solver, kernel, dense, weighted):
    p = ldm_problem(kernel, weight=weights() if weighted else None, dense=dense)
    for tolerance in (1e-2, 1e-8):
        solution = SOLVERS[solver].solve(p, Stop(tolerance, 20000))
        assert_confirmed(p, solution, tolerance)
        assert solution.solver == solver


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_solvers_agree_as_far_as_their_gaps_allow(kernel, setting):
    p = ldm_problem(kernel, setting, weight=weights())
    found = [module.solve(p, Stop(1e-7, 50000)) for module in SOLVERS.values()]
    for solution in found:
        assert_confirmed(p, solution, 1e-7)
        assert distance(p, solution, found[1]) <= allowed(solution, found[1])


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_generic_optimiser_finds_the_same(setting):
    """Variables w and xi >= 0, xi >= 1 - t."""
    X, y = examples(m=25, d=4)
    weight = weights(25)
    mu1, mu2, lambda_ = setting
    M, T = weight.sum(), y[:, None] * X.toarray()

    def primal(z):
        w, xi = z[:4], z[4:]
        t = T @ w
        mean = np.average(t, weights=weight)
        variance = weight @ (t - mean) ** 2 / M
        return w @ w / 2 + mu1 * variance - mu2 * (weight @ t) / M + lambda_ * (weight @ xi) / M

    hinge = LinearConstraint(np.hstack([T, np.eye(25)]), 1, np.inf)
    found = minimize(primal, np.r_[np.zeros(4), np.ones(25)], method="SLSQP",
                     constraints=[hinge], bounds=[(None, None)] * 4 + [(0, None)] * 25,
                     options=dict(ftol=1e-13, maxiter=1000))  # fmt: skip
    p = Problem(X, None, y, weight, losses.ldm(mu1, mu2, lambda_, M))
    solution = ldm.solve(p, Stop(1e-11, 50000))
    assert solution.primal == pytest.approx(found.fun, rel=1e-7)
    assert solution.w == pytest.approx(found.x[:4], abs=1e-4)


def test_the_gap_of_a_fixed_b_is_not_reported():
    """Solved to 1e-10 for a wrong b, the whole problem is not solved at all."""
    p = ldm_problem("rbf", (4.0, 1.0, 16.0))
    row = losses.ldm_row(p.loss, 0.2)
    fixed = dcd.solve(p._replace(loss=row), Stop(1e-10, 20000))
    assert fixed.converged
    judged = certificate(p, fixed)
    assert judged.gap > 1e-2
    K = p.gram.matrix()
    t = p.y * (K @ (p.y * fixed.coef))
    primal, dual, _scale = ldm_dual.certificate(p.loss, p.weight, fixed.eta @ t, t, fixed.eta)
    assert primal == pytest.approx(judged.primal) and dual == pytest.approx(judged.dual)
    early = ldm.solve(p, Stop(1e-12, 2))
    assert certificate(p, early).gap == pytest.approx(early.gap, abs=1e-12)


def test_the_dual_of_the_judge_is_the_minimum_over_b():
    p = ldm_problem(weight=weights())
    eta = ldm_dual.feasible(p.loss, p.weight, np.random.default_rng(0).uniform(-0.2, 0.6, 60))
    w = p.X.T @ (p.y * eta)
    judged = objective.certify_linear(p.X, p.y, p.weight, p.loss, w, eta)
    values = [
        objective_values(losses.scaled(losses.ldm_row(p.loss, b), p.weight), 0, w @ w, eta, eta)[1]
        for b in np.linspace(-40, 40, 8001)
    ]
    assert judged.dual <= min(values) + 1e-12
    assert judged.dual == pytest.approx(min(values), rel=1e-3)


def test_the_judge_rejects_what_is_wrong():
    p = ldm_problem("rbf")
    solution = ldm_newton.solve(p, Stop(1e-11, 1000))
    assert certificate(p, solution._replace(coef=solution.coef * 1.01)).gap > 1e-7
    assert certificate(p, solution._replace(eta=solution.eta + 1)).dual == -np.inf
    for setting in ((0.0, 1.0, 16.0), (1.0, 1.0, 16.0)):
        outside = np.full(60, 16.0)
        p = ldm_problem("rbf", setting)
        assert certificate(p, solution._replace(eta=outside)).dual == -np.inf
unit = st.floats(0, 1)


@given(st.floats(1e-6, 50), st.floats(0, 5), st.floats(0.1, 300), unit, st.integers(0, 9))
def test_the_best_b_is_a_stationary_point(mu1, mu2, lambda_, share, seed):
    generator = np.random.default_rng(seed)
    weight = generator.uniform(0.2, 3, 20)
    loss = losses.ldm(mu1, mu2, lambda_, 23.0)
    eta = generator.normal(size=20) * lambda_ / 20
    target = weight.sum() * (mu2 + share * lambda_) / 23.0
    eta += (target - eta.sum()) / weight.sum() * weight
    b = ldm_dual.best_offset(loss, weight, ldm_dual.feasible(loss, weight, eta), 0.0)

    def dual(b):
        return losses.dual_value(losses.scaled(losses.ldm_row(loss, b), weight), eta).sum()

    step = 1e-3 * max(1.0, abs(b))
    rounding = 1e-9 * (1 + abs(dual(b)) + lambda_)
    assert dual(b) <= min(dual(b - step), dual(b + step)) + rounding


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_without_mu1_and_mu2_it_is_the_l1_svm(kernel, solver):
    p = ldm_problem(kernel, (0.0, 0.0, 16.0), weight=weights())
    C = 16.0 / p.weight.sum()
    hinge = losses.MarginLoss(1.0, 1.0, 0.0, -C, 0.0, 0.0, 0.0, 0.0, 0.0)
    expected = dcd.solve(p._replace(loss=hinge), Stop(1e-8, 50000))
    solution = SOLVERS[solver].solve(p, Stop(1e-8, 50000))
    assert solution.primal == pytest.approx(expected.primal, rel=1e-7)
    assert distance(p, solution, expected) <= allowed(solution, expected)


def test_without_mu1_the_duals_have_bounds():
    p = ldm_problem("rbf", (0.0, 2.0, 16.0), weight=weights())
    M = p.weight.sum()
    solution = ldm.solve(p, Stop(1e-9, 50000), start=np.linspace(-1, 3, 60))
    assert_confirmed(p, solution, 1e-9)
    assert np.all(solution.eta >= p.weight * 2 / M - 1e-15)
    assert np.all(solution.eta <= p.weight * 18 / M + 1e-15)


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_a_tiny_mu1_changes_little(kernel):
    """No b in the limit, and nothing breaks on the way to it."""
    for solve in (ldm.solve, ldm_newton.solve):
        none = solve(ldm_problem(kernel, (0.0, 1.0, 16.0)), Stop(1e-9, 50000))
        tiny = solve(ldm_problem(kernel, (1e-10, 1.0, 16.0)), Stop(1e-8, 50000))
        assert tiny.converged
        assert tiny.primal == pytest.approx(none.primal, rel=1e-7)


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_a_large_mu1_leaves_no_variance(kernel):
    p = ldm_problem(kernel, (1e8, 1.0, 16.0))
    solution = ldm_newton.solve(p, Stop(1e-6, 1000))
    assert solution.converged
    t = p.y * (p.X @ solution.w if kernel is None else p.gram.matrix() @ (p.y * solution.coef))
    assert np.var(t) < 1e-6


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_weight_two_is_a_duplicate_row(kernel, solver):
    X, y = examples(m=30)
    twice = [2, 5, 11]
    rows = np.concatenate([np.arange(30), twice])
    weight = np.ones(30)
    weight[twice] = 2
    found = []
    for X_, y_, u in ((X, y, weight), (X[rows], y[rows], np.ones(33))):
        gram = None if kernel is None else Gram(KERNELS[kernel], X_)
        p = Problem(X_, gram, y_, u, losses.ldm(2.0, 1.0, 16.0, 33.0))
        solution = SOLVERS[solver].solve(p, Stop(1e-11, 50000))
        assert solution.converged
        t = p.y * (p.X @ solution.w if gram is None else gram.matrix() @ (p.y * solution.coef))
        found.append((solution.primal, t[:30]))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-10)
    assert found[0][1] == pytest.approx(found[1][1], abs=1e-4)


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_kkt_conditions_hold_for_the_row_of_the_mean_margin(kernel):
    p = ldm_problem(kernel, weight=weights())
    solution = ldm_newton.solve(p, Stop(1e-11, 1000))
    t = p.y * (p.X @ solution.w if kernel is None else p.gram.matrix() @ (p.y * solution.coef))
    row = losses.ldm_row(p.loss, np.average(t, weights=p.weight))
    # Margins at the kink are there but for rounding.
    t = np.where(abs(t - 1) < 1e-6, 1.0, t)
    assert objective.kkt_violation(t, p.weight, row, solution.eta) < 1e-5
