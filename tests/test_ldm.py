"""LDM: certificates, special cases, agreement of its solvers and of a generic optimiser."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems import KERNELS, examples, linearly_scaled_heart, problem, weights
from scipy.optimize import LinearConstraint, minimize
from test_certificates import certificate
from test_indefinite import indefinite_problem

from odmtool import messages, solvers
from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.errors import DivergedError, MemoryLimitError, UsageError
from odmtool.judge import binary as objective
from odmtool.solvers import auto, dcd, indefinite, path
from odmtool.solvers.base import Problem, Stop, objective_values
from odmtool.solvers.ldm import dense as ldm_dense
from odmtool.solvers.ldm import descent as ldm
from odmtool.solvers.ldm import dual as ldm_dual
from odmtool.solvers.ldm import newton as ldm_newton
from odmtool.solvers.ldm import reduced

ALL_KERNELS = [None, "rbf", "poly", "rbf with bias", "precomputed"]
SOLVERS = {"dcd": ldm, "newton": ldm_newton, "path": path, "dcd-dense": ldm_dense}
SETTINGS = [(1.0, 1.0, 16.0), (3.0, 0.5, 0.25), (16.0, 16.0, 256.0), (0.0, 2.0, 16.0)]


def ldm_problem(kernel=None, setting=(1.0, 1.0, 16.0), weight=None, dense=False, memory=np.inf):
    total = 60 if weight is None else weight.sum()
    loss = losses.ldm(*setting, total)
    return problem(kernel, loss=loss, weight=weight, dense=dense, memory=memory)


def assert_confirmed(p, solution, tolerance):
    judged = certificate(p, solution)
    assert solution.converged and solution.gap <= tolerance
    assert judged.gap <= tolerance + 1e-12
    # The gap is a bound, which includes what rounding may have done.
    assert judged.gap - 1e-12 <= solution.gap <= judged.gap + 1e-9
    assert judged.primal == pytest.approx(solution.primal, rel=1e-11, abs=1e-11)
    assert judged.dual == pytest.approx(solution.dual, rel=1e-9, abs=1e-9)


def distance(p, a, b):
    """|w_a - w_b|."""
    if p.gram is None:
        return np.linalg.norm(a.w - b.w)
    difference = p.y * (a.coef - b.coef)
    return np.sqrt(max(0.0, difference @ p.gram.matrix() @ difference))


def allowed(*solutions):
    """What the gaps allow: |w - w'| <= sqrt(2 gap) + sqrt(2 gap'), by strong convexity."""
    return sum(np.sqrt(2 * max(0.0, s.primal - s.dual)) for s in solutions) + 1e-10


# ---- certificates --------------------------------------------------------------------


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


# ---- special cases -------------------------------------------------------------------


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


# ---- hard settings -------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [None, Kernel("rbf", 1 / 13)])
@pytest.mark.parametrize("setting", [(16.0, 16.0, 256.0), (16.0, 16.0, 4096.0)])
def test_newton_goes_on_where_coordinate_descent_is_slow(kernel, setting):
    X, y = linearly_scaled_heart()
    gram = None if kernel is None else Gram(kernel, X)
    p = Problem(X, gram, np.where(y > 0, 1.0, -1.0), np.ones(len(y)), losses.ldm(*setting, len(y)))
    slow = ldm.solve(p, Stop(1e-8, 50))
    assert not slow.converged and slow.gap > 1e-5
    solution = ldm_newton.solve(p, Stop(1e-8, 100), start=slow.eta)
    assert_confirmed(p, solution, 1e-8)
    dense = ldm_dense.solve(p, Stop(1e-5, 20000))
    assert dense.converged
    assert distance(p, dense, solution) <= allowed(dense, solution)


def test_wide_linear_data():
    X = np.random.default_rng(0).uniform(0, 1, (40, 300))
    y = np.where(X[:, 0] > 0.5, 1.0, -1.0)
    p = Problem(X, None, y, np.ones(40), losses.ldm(4.0, 1.0, 64.0, 40.0))
    for module in SOLVERS.values():
        assert_confirmed(p, module.solve(p, Stop(1e-7, 50000)), 1e-7)


def test_large_kernel_values():
    X, y = examples()
    gram = Gram(Kernel("poly", 1.0, 1.0, 3), X * 10)
    p = Problem(None, gram, y, np.ones(60), losses.ldm(16.0, 1.0, 64.0, 60.0))
    solution = ldm_newton.solve(p, Stop(1e-7, 1000))
    assert_confirmed(p, solution, 1e-7)


# ---- starts and limits ---------------------------------------------------------------


@pytest.mark.parametrize("solver", ["dcd", "newton", "dcd-dense"])
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_a_start_at_the_solution_ends_at_once(kernel, solver):
    p = ldm_problem(kernel, (4.0, 1.0, 16.0))
    cold = SOLVERS[solver].solve(p, Stop(1e-9, 50000))
    warm = SOLVERS[solver].solve(p, Stop(1e-6, 50000), start=cold.eta)
    assert cold.iterations > 0 and warm.iterations == 0 and warm.converged
    assert warm.primal == pytest.approx(cold.primal, rel=1e-5)


@pytest.mark.parametrize("mu1", [0.0, 2.0])
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_any_start_will_do(kernel, mu1):
    p = ldm_problem(kernel, (mu1, 1.0, 16.0), weight=weights())
    expected = ldm_newton.solve(p, Stop(1e-10, 1000)).primal
    for start in (np.full(60, -3.0), np.full(60, 7.0), np.linspace(-1, 1, 60)):
        solution = ldm.solve(p, Stop(1e-6, 5000), start=start, seed=3)
        assert_confirmed(p, solution, 1e-6)
        assert solution.primal == pytest.approx(expected, rel=1e-5)
    none = ldm.solve(p, Stop(1e-6, 0), start=np.full(60, -3.0))
    assert none.iterations == 0 and not none.converged and np.isfinite(none.gap)


def test_margins_of_a_primal_point_give_a_start():
    p = ldm_problem("rbf", (2.0, 1.0, 16.0), weight=weights())
    solved = ldm_newton.solve(p, Stop(1e-10, 1000))
    t = p.y * (p.gram.matrix() @ (p.y * solved.coef))
    eta = ldm.demanded(p, t)
    away = abs(t - 1) > 2e-3
    assert eta[away] == pytest.approx(solved.eta[away], abs=1e-5)
    fewer = ldm.solve(p, Stop(1e-6, 5000), start=eta).iterations
    assert fewer < ldm.solve(p, Stop(1e-6, 5000)).iterations


def test_feasible_moves_the_sum_into_its_range_and_nothing_else():
    weight, loss = weights(20), losses.ldm(1.0, 0.5, 4.0, 20.0)
    units = weight.sum() / 20
    for total, expected in ((-1.0, 0.5 * units), (0.6 * units, 0.6 * units), (9.0, 4.5 * units)):
        eta = np.full(20, total / 20)
        moved = ldm_dual.feasible(loss, weight, eta)
        assert moved.sum() == pytest.approx(expected)
        assert (moved is eta) == (total == 0.6 * units)
        assert np.ptp((moved - eta) / weight) < 1e-12


def test_the_seed_decides_the_order_and_nothing_else():
    p = ldm_problem()
    a, b, other = (ldm.solve(p, Stop(1e-4), seed=seed).w for seed in (1, 1, 2))
    assert np.array_equal(a, b) and not np.array_equal(a, other)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_iteration_limit_is_honest(solver):
    stopped = SOLVERS[solver].solve(ldm_problem("rbf", (16.0, 16.0, 256.0)), Stop(1e-11, 2))
    assert stopped.iterations <= 2 and not stopped.converged and stopped.gap > 1e-11


@pytest.mark.parametrize("rows_that_fit", [1, 7, 60])
def test_kernel_descent_in_bounded_memory(rows_that_fit):
    p = ldm_problem("rbf", memory=rows_that_fit * 60 * 8)
    solution = ldm.solve(p, Stop(1e-8, 20000))
    expected = ldm_newton.solve(ldm_problem("rbf"), Stop(1e-10, 1000))
    assert solution.converged
    assert solution.primal == pytest.approx(expected.primal, rel=1e-7)


def test_progress_is_reported():
    seen = []
    for module in SOLVERS.values():
        seen.clear()
        module.solve(ldm_problem("rbf"), Stop(1e-6, 1000), progress=seen.append)
        assert len(seen) > (0 if module is path else 2)


def test_what_is_too_large_is_refused_before_any_work(monkeypatch):
    monkeypatch.setattr(Gram, "matrix", lambda self: pytest.fail("the matrix was made"))
    X = np.zeros((1001, 2))
    p = Problem(X, None, np.ones(1001), np.ones(1001), losses.ldm(1, 1, 1, 1001))
    with pytest.raises(UsageError, match="1000"):
        ldm_dense.solve(p, Stop())
    with pytest.raises(MemoryLimitError, match="of memory"):
        ldm_newton.solve(ldm_problem("rbf", memory=2 * 60 * 60 * 8), Stop())
    monkeypatch.setattr(ldm_newton, "LARGEST_HESSIAN", 1)
    monkeypatch.setattr(ldm_newton, "LARGEST_GRAM", 1000)
    monkeypatch.setattr(path, "LARGEST_GRAM", 1000)
    for module in (ldm_newton, path):
        with pytest.raises(UsageError, match="dcd"):
            module.solve(p, Stop())


@pytest.mark.parametrize(
    "bad", [dict(mu1=-1), dict(mu2=-0.1), dict(lambda_=0), dict(lambda_=-1),
            dict(mu1=float("nan")), dict(mu2=float("inf")), dict(lambda_=float("inf"))],
)  # fmt: skip
def test_parameters_out_of_range(bad):
    with pytest.raises(UsageError, match=next(iter(bad)).rstrip("_")):
        losses.ldm(**{"mu1": 1.0, "mu2": 1.0, "lambda_": 1.0, "total_weight": 5} | bad)


# ---- kernels that are not positive semidefinite, overflow --------------------------------


def indefinite_ldm(mu1, lambda_=12.0):
    p = indefinite_problem(1.0)
    return p._replace(loss=losses.ldm(mu1, 1.0, lambda_, 40))


def test_indefinite_kernel():
    p = indefinite_ldm(mu1=2.0)
    eigenvalue = indefinite.smallest_eigenvalue(p.gram.matrix())
    assert eigenvalue == pytest.approx(-1)
    for module in (ldm_newton, ldm_dense):
        with pytest.raises(UsageError, match="eigenvalue"):
            module.solve(p, Stop(1e-6, 100))
    solution = ldm.solve(p, Stop(1e-6, 20000))
    # A stationary point: the judge agrees on its gap.
    K = p.gram.matrix()
    judged = objective.certify_kernel(K, p.y, p.weight, p.loss, solution.coef, solution.eta)
    assert solution.converged and judged.gap == pytest.approx(solution.gap, abs=1e-12)


def test_divergence_is_seen():
    # Bounded only for c = mu1 / 20 < 1 / 1.
    with pytest.raises(DivergedError, match="unbounded"):
        ldm.solve(indefinite_ldm(mu1=200.0), Stop(1e-3, 100000))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kernel", [None, Kernel("poly", 1.0, 0.0, 3), Kernel("linear")])
@pytest.mark.filterwarnings("ignore:overflow")
def test_overflow_is_an_error(kernel, solver):
    X = np.array([[1e160, 0.0], [-1e160, 3.0], [0.0, 5.0]])
    y = np.array([1.0, -1.0, 1.0])
    gram = None if kernel is None else Gram(kernel, X)
    p = Problem(X, gram, y, np.ones(3), losses.ldm(1.0, 1.0, 1.0, 3))
    with pytest.raises(DivergedError) as caught:
        SOLVERS[solver].solve(p, Stop(1e-3, 100))
    assert str(caught.value) == messages.overflow()


# ---- the choice ------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [None, "rbf", "precomputed"])
@pytest.mark.parametrize("solver", ["auto", "dcd", "newton", "dcd-dense"])
def test_solvers_by_name(solver, kernel):
    p = ldm_problem(kernel)
    solution = solvers.solve(p, solver=solver, tolerance=1e-6, max_iter=20000)
    assert_confirmed(p, solution, 1e-6)
    assert solution.solver == ("newton" if solver == "auto" else solver) and solution.optimal


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_auto_hands_over_to_newton(monkeypatch, kernel):
    monkeypatch.setattr(auto, "_SMALL_PRODUCT", 0)
    monkeypatch.setattr(auto, "_EPOCHS_WITH_JUMP", 0.1)
    monkeypatch.setattr(auto, "_LINEAR_EPOCHS_WITH_JUMP", 6)
    for loss in (losses.ldm(16.0, 16.0, 2.0**12, 60), losses.l1svm(2.0**12, 60)):
        solution = solvers.solve(problem(kernel, loss=loss), tolerance=1e-8)
        assert solution.solver == "dcd, then newton" and solution.converged
        assert solution.iterations > 6
    little = problem("rbf", loss=losses.ldm(16.0, 16.0, 2.0**12, 60), memory=60 * 60 * 8)
    assert solvers.solve(little, tolerance=1e-2).solver == "dcd"


def test_an_indefinite_kernel_is_never_called_optimal():
    p = indefinite_ldm(mu1=2.0)
    for solver in ("auto", "dcd"):
        assert not solvers.solve(p, solver=solver, tolerance=1e-4).optimal
    for solver in ("newton", "dcd-dense"):
        with pytest.raises(UsageError, match="eigenvalue"):
            solvers.solve(p, solver=solver)


def test_features_of_very_different_scales_do_not_make_it_diverge():
    """An epoch for each b raised P to 1e190 and more on such data."""
    X, y = examples()
    X = X.toarray() * 10.0 ** np.arange(7) + 300.0
    loss = losses.ldm(1.0, 1.0, 16.0, 60)
    p = Problem(X, None, y, np.ones(60), loss)
    solution = ldm.solve(p, Stop(1e-3, 400))
    at_zero = 16.0
    assert np.isfinite(solution.primal) and solution.primal <= at_zero
    exact = ldm_newton.solve(p, Stop(1e-6, 200))
    assert exact.converged and exact.primal <= solution.primal * (1 + 1e-9)


def test_rounding_does_not_keep_newton_going_round():
    rows = [(70669031.3251521, 0.8437926222446576), (3053447.4937409796, 0.8993933116527743),
            (62245206.08976366, 0.3165291542410674), (43176562.289240815, 0.761592993501026)]
    X, y = np.array(rows), np.array([1.0, -1.0, 1.0, -1.0])
    problem = Problem(X, None, y, np.ones(4), losses.ldm(1.0, 1.0, 1024.0, 4.0))
    solution = solvers.solve(problem, solver="newton", max_iter=50)
    assert not solution.converged and solution.iterations <= 50


def test_a_gap_that_is_not_enough_for_the_whole_problem_is_made_smaller(monkeypatch):
    gaps, certified = [], reduced.certified

    def doubtful(*arguments):
        found = certified(*arguments)
        gaps.append(found.gap)
        return found._replace(converged=found.converged and len(gaps) > 1)

    monkeypatch.setattr(reduced, "certified", doubtful)
    assert ldm_newton.solve(ldm_problem(), Stop(1e-2, 100)).converged
    assert len(gaps) == 2 and gaps[1] < gaps[0]


def test_the_next_tolerance_is_a_quarter_of_the_gap_that_was_reached(monkeypatch):
    p, asked, reached = ldm_problem(), [], []

    def method(inner, stop, start):
        asked.append(stop.tolerance)
        found = dcd.solve(inner, stop, start=start)
        reached.append(found.gap)
        return found

    certified = reduced.certified
    monkeypatch.setattr(
        reduced, "certified",
        lambda *a: certified(*a)._replace(converged=len(asked) == 3),
    )  # fmt: skip
    reduced.solve(p, reduced.by_rows(p), method, Stop(1e-2, 9999), None, "dcd")
    assert asked == [1e-2, min(1e-2, reached[0]) / 4, min(asked[1], reached[1]) / 4]
    assert reached[0] < 1e-2
