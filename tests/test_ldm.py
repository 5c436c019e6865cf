"""LDM: certificates, special cases, agreement of its solvers and of a generic optimiser."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ldm_problems import (
    ALL_KERNELS,
    SETTINGS,
    SOLVERS,
    assert_confirmed,
    ldm_problem,
)
from problems import KERNELS, allowed, distance, examples, weights
from scipy.optimize import LinearConstraint, minimize
from test_certificates import certificate

from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.judge import binary as objective
from odmtool.solvers.base import Problem, Stop, objective_values
from odmtool.solvers.descent import dcd
from odmtool.solvers.ldm import descent as ldm
from odmtool.solvers.ldm import dual as ldm_dual
from odmtool.solvers.ldm import newton as ldm_newton
from odmtool.solvers.ldm import reduced


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

    def value(b):
        scaled = losses.scaled(losses.ldm_row(p.loss, b), p.weight)
        return objective_values(scaled, w @ w, eta, eta)[1]

    # It is convex in b: near the best of few there is the best of many.
    near = min(np.linspace(-40, 40, 401), key=value)
    least = min(map(value, np.linspace(near - 0.2, near + 0.2, 401)))
    assert judged.dual <= least + 1e-12
    assert judged.dual == pytest.approx(least, rel=1e-5)


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


@pytest.mark.parametrize("near", [-1e3, 0.0, 0.7, 1e3])
@pytest.mark.parametrize("seed", range(12))
def test_the_best_b_is_the_root_of_the_derivative(seed, near):
    """sum u clip(1 - b, a, a + rho/c) = 0, by halving."""
    generator = np.random.default_rng(seed)
    weight, lambda_ = generator.uniform(0.2, 3, 20), 10.0 ** generator.uniform(-1, 3)
    loss = losses.ldm(10.0 ** generator.uniform(-3, 2), generator.uniform(0, 5), lambda_, 23.0)
    eta = generator.normal(size=20) * lambda_ / 20
    total = weight.sum() * (loss.mu2 + generator.uniform(0.1, 0.9) * lambda_) / 23
    eta += (total - eta.sum()) / weight.sum() * weight
    c = 2 * loss.mu1 / 23
    lower = (loss.mu2 / 23 - eta / weight) / c

    def derivative(z):
        return weight @ np.clip(z, lower, lower + lambda_ / 23 / c)

    low, high = lower.min(), lower.max() + lambda_ / 23 / c
    size = np.abs([low, high]).max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if derivative(middle) > 0 else (middle, high)
    z = 1 - ldm_dual.best_offset(loss, weight, eta, near)
    assert abs(derivative(z)) <= 1e-11 * weight.sum() * size
    assert z == pytest.approx(low, rel=1e-9, abs=1e-9)


def scripted(estimates, sums, mu1=3.0):
    """An alternation whose epochs say these numbers, and what was asked of its state."""
    p = ldm_problem(setting=(mu1, 1.0, 16.0), weight=weights())
    run, asked = ldm._Alternation(p, np.full(60, 0.125), 0), []

    class State:
        loss = None

        def epoch(self, order, active, threshold):
            assert sorted(order) == list(range(60)) == list(range(active))
            assert threshold == np.inf
            asked.append(self.loss)
            return 60, 7.0, estimates.pop(0)

        def margin_sum(self):
            return sums.pop(0)

        def assign(self, eta):
            asked.append(eta)

    run.state = State()
    return p, run, asked


def test_an_alternation_takes_the_mean_margin_after_every_epoch():
    """And adds to the estimate by how much P at the mean is below that at the b of the epoch."""
    total = weights().sum()
    p, run, asked = scripted([8.0, 5.0, 4999.0], [total * 0.5, total * 0.25, total * 0.25])
    run._b = 0.1
    slope = 2 * 3.0 / total
    assert run.epoch(1.0) == pytest.approx(8 + slope * total / 2 * 0.4**2)
    assert run.epoch(1.0) == pytest.approx(5 + slope * total / 2 * 0.25**2)
    assert run.epoch(1.0) == pytest.approx(4999)
    assert asked == [losses.ldm_row(p.loss, b) for b in (0.1, 0.5, 0.25)]
    assert not run._is_patient


@pytest.mark.parametrize("worse", [5000.1, np.nan, np.inf])
def test_an_alternation_that_diverges_begins_again_and_is_patient(worse):
    """Above a thousand times the least estimate; then b waits for a twentieth of the scale."""
    total = weights().sum()
    p, run, asked = scripted(
        [5.0, worse, 3.0, 2.1, 2.0, 1e9], [total * b for b in (0.5, 0.25, 0.75)]
    )
    run.epoch(40.0)
    assert run.epoch(40.0) == np.finfo(float).max and run._b == 0.0
    assert asked.pop() == pytest.approx(np.full(60, 0.125))
    assert [run.epoch(40.0), run.epoch(40.0)] == [3.0, 2.1] and run._b == 0.0
    assert run.epoch(40.0) == pytest.approx(2 + 3.0 * 0.25**2) and run._b == 0.25
    assert run.epoch(40.0) == 1e9  # it does not begin again for a second time
    assert asked[-2:] == [losses.ldm_row(p.loss, b) for b in (0.0, 0.25)]


@pytest.mark.parametrize("width", [1e-3, 0.3])
def test_duals_that_margins_demand_by_the_loss(width, monkeypatch):
    """-l' of the row of the mean, with the share of the hinge that the margin has near its kink."""
    monkeypatch.setattr(ldm, "_KINK", width)
    p = ldm_problem(setting=(3.0, 0.7, 16.0), weight=weights())
    t = np.r_[np.linspace(0.4, 1.6, 40), 1 + width * np.linspace(-1, 1, 20)]
    c, nu, rho = (number / p.weight.sum() for number in (6.0, 0.7, 16.0))
    share = np.where(t < 1 - width, 1.0, np.where(t > 1 + width, 0.0, 0.5 - (t - 1) / (2 * width)))
    b = np.average(t, weights=p.weight)
    expected = p.weight * (nu + rho * share - c * (t - b))
    np.testing.assert_allclose(ldm.demanded(p, t), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("mu1", [1e-3, 3.0, 1e4])
@pytest.mark.parametrize("kernel", [None, "rbf", "poly"])
def test_the_other_inner_product_by_its_definition(kernel, mu1):
    """phi H^-1 phi', H = 1 + c sum_i u_i z_i z_i'; by Cholesky of whatever is smaller."""
    p = ldm_problem(kernel, (mu1, 1.0, 16.0), weight=weights())
    if kernel is None:
        phi = p.X.toarray()
    else:
        values, vectors = np.linalg.eigh(p.gram.matrix())
        phi = vectors * np.sqrt(np.maximum(values, 0))
    z = p.y[:, None] * phi
    z = z - np.average(z, axis=0, weights=p.weight)
    c = 2 * mu1 / p.weight.sum()
    H = np.eye(phi.shape[1]) + c * (z.T * p.weight) @ z
    expected = phi @ np.linalg.solve(H, phi.T)
    close = dict(rtol=1e-6, atol=1e-9 * np.abs(expected).max())
    found = reduced.by_gram(p)
    np.testing.assert_allclose(found.gram.matrix(), expected, **close)
    # What is left is a hinge with nu, of the same duals.
    assert found.loss == losses.ldm_row(p.loss._replace(mu1=0.0), 0.0) and found.X is None
    for rows in () if kernel else (p, p._replace(X=p.X.toarray())):
        known = rows.X.copy()
        found = reduced.by_rows(rows)
        np.testing.assert_allclose(found.X @ found.X.T, expected, **close)
        assert abs(known - rows.X).sum() == 0 and found.X.shape == (60, 7)
        assert found.loss == losses.ldm_row(p.loss._replace(mu1=0.0), 0.0)


@pytest.mark.parametrize("scale", [1e-3, 0.9, 1.1, 1e6])
def test_a_kernel_over_its_ridge(scale):
    """K (1 + D K)^-1, where D K is small and where it is large."""
    generator = np.random.default_rng(1)
    A = generator.standard_normal((9, 9))
    K, root = A @ A.T + 0.1 * np.eye(9), generator.uniform(0.5, 1, 9)
    root *= np.sqrt(scale / (K.diagonal() * root**2).max())
    expected = K @ np.linalg.inv(np.eye(9) + root[:, None] ** 2 * K)
    found = reduced._ridge_kernel(K.copy(), root)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())


def test_what_the_variance_pulls_and_the_duals_of_a_start():
    p = ldm_problem("rbf", (3.0, 1.0, 16.0), weight=weights())
    t = np.linspace(-1, 2, 60)
    mean = np.average(t, weights=p.weight)
    expected = 6 / p.weight.sum() * p.weight * (t - mean)
    np.testing.assert_allclose(reduced.pull(p, t), expected, rtol=1e-12)
    # Those of the solution, less what is pulled there, are those of the reduced problem.
    best = ldm_newton.solve(p, Stop(1e-11, 1000))
    start = reduced._reduced_duals(p, best.eta)
    inner = reduced.by_gram(p)
    known = dcd.solve(inner, Stop(1e-6, 50), start=start)
    assert known.iterations == 0 and known.converged
    bounds = p.weight / p.weight.sum()
    far = reduced._reduced_duals(p, 100 * best.eta)
    assert np.all(far >= bounds * (1 - 1e-12)) and np.all(far <= 17 * bounds * (1 + 1e-12))
