"""Special cases with known answers, metamorphic relations, warm starts, bounded memory."""


import numpy as np
import pytest
from naive import odm_primal
from problems import OTHER_LOSSES, examples, problem
from scipy import sparse
from scipy.optimize import minimize, minimize_scalar

from odmtool import solvers
from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.core.losses import MarginLoss
from odmtool.errors import MemoryLimitError, UsageError
from odmtool.judge import binary as judge
from odmtool.machines import ODM
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.descent import dcd
from odmtool.solvers.newton.factor import cholesky_in_place, cholesky_solve
from odmtool.solvers.newton.hessian import is_thin
from odmtool.solvers.newton.newton import step_length
from odmtool.solvers.newton.spaces import FunctionSpace, matrix_bytes
from odmtool.solvers.rounding import UNIT, Rounding
from odmtool.solvers.value_rounding import value_error


def test_theta_0_mu_1_is_ridge_regression():
    """1/2 |w|^2 + c sum (1 - t)^2 has a closed form."""
    X, y = examples()
    p = Problem(X, None, y, np.ones(len(y)), losses.odm(8.0, 1.0, 0.0, len(y)))
    c = 8.0 / len(y)
    dense = X.toarray()
    w = np.linalg.solve(np.eye(X.shape[1]) + 2 * c * dense.T @ dense, 2 * c * dense.T @ y)
    for solver, tolerance in (("newton", 1e-9), ("dcd", 1e-7)):
        solution = solvers.solve(p, solver=solver, tolerance=1e-14, max_iter=10000)
        assert solution.w == pytest.approx(w, abs=tolerance)


def test_theta_0_mu_to_0_is_the_l2_svm():
    from sklearn.svm import LinearSVC

    X, y = examples()
    oracle = LinearSVC(C=8.0 / len(y), fit_intercept=False, tol=1e-12, max_iter=100000)
    w = oracle.fit(X, y).coef_.ravel()
    p = Problem(X, None, y, np.ones(len(y)), losses.odm(8.0, 1e-12, 0.0, len(y)))
    assert solvers.solve(p, tolerance=1e-14).w == pytest.approx(w, abs=1e-6)


def test_the_hinge_row_is_the_l1_svm():
    from sklearn.svm import SVC

    X, y = examples()
    K = np.exp(-0.4 * ((X.toarray()[:, None] - X.toarray()[None]) ** 2).sum(axis=2))
    p = problem("rbf", loss=OTHER_LOSSES["l1svm"])
    solution = solvers.solve(p, solver="dcd", tolerance=1e-12, max_iter=100000)
    # No intercept in the oracle: it has none if the kernel is balanced by mirrored examples.
    mirrored = SVC(C=0.7 / 2, kernel="precomputed", tol=1e-12)
    Q = np.block([[K, -K], [-K, K]])
    mirrored.fit(Q, np.concatenate([y, -y]))
    f = mirrored.decision_function(Q)[: len(y)] - mirrored.intercept_[0]
    assert p.gram.matrix() @ (p.y * solution.coef) == pytest.approx(f, abs=1e-5)


def test_primal_optimum_by_a_generic_optimiser():
    X, y = examples()
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    arguments = (16.0, 0.5, 0.3, weight)
    found = minimize(
        lambda w: odm_primal(X.toarray(), y, w, *arguments), np.zeros(X.shape[1]),
        method="L-BFGS-B", options=dict(ftol=1e-15, gtol=1e-9, maxiter=10000, maxfun=10**6),
    )  # fmt: skip
    p = Problem(X, None, y, weight, losses.odm(16.0, 0.5, 0.3, weight.sum()))
    solution = solvers.solve(p, tolerance=1e-12)
    assert solution.primal == pytest.approx(found.fun, rel=1e-9)
    assert solution.w == pytest.approx(found.x, abs=1e-4)


@pytest.mark.parametrize("solver", ["dcd", "newton"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_weight_two_is_a_duplicate_row(kernel, solver):
    X, y = examples(m=30)
    twice = [2, 5, 11]
    weight = np.ones(30)
    weight[twice] = 2
    rows = np.concatenate([np.arange(30), twice])
    arguments = dict(kernel=kernel, gamma=0.4, lambda_=20.0, solver=solver, tolerance=1e-14,
                     max_iter=20000, bias=1.0)  # fmt: skip
    weighted = ODM(**arguments).fit(X, y.astype(int), weight)
    repeated = ODM(**arguments).fit(X[rows], y[rows].astype(int))
    # The tolerance of 1e-14 allows |w - w'| of sqrt(2 P 1e-14): dcd may differ by that.
    allowed = 1e-9 if solver == "newton" else 1e-6
    a, b = weighted.decision_function(X), repeated.decision_function(X)
    assert a == pytest.approx(b, abs=allowed)
    if kernel == "linear":
        assert weighted.model_.weights == pytest.approx(repeated.model_.weights, abs=allowed)


@pytest.mark.parametrize("kernel", [None, "rbf"])
@pytest.mark.parametrize("solver", ["dcd", "newton"])
def test_a_start_at_the_solution_ends_at_once(solver, kernel):
    p = problem(kernel)
    cold = solvers.solve(p, solver=solver, tolerance=1e-8, max_iter=20000)
    warm = solvers.solve(p, solver=solver, tolerance=1e-7, max_iter=20000, start=cold.eta)
    assert cold.iterations > 0
    assert warm.iterations == 0 and warm.converged
    assert warm.primal == pytest.approx(cold.primal, rel=1e-9)


@pytest.mark.parametrize("rows_that_fit", [1, 2, 7, 30, 60])
def test_kernel_descent_in_bounded_memory(rows_that_fit):
    p = problem("rbf", memory=rows_that_fit * 60 * 8)
    solution = solvers.solve(p, tolerance=1e-8, max_iter=20000)
    expected = solvers.solve(problem("rbf"), solver="newton", tolerance=1e-12)
    assert solution.solver == "dcd" and solution.converged
    assert solution.primal == pytest.approx(expected.primal, rel=1e-7)


def test_newton_refuses_a_matrix_larger_than_memory_before_making_it(monkeypatch):
    p = problem("rbf", memory=60 * 60 * 8)
    monkeypatch.setattr(Gram, "matrix", lambda self: pytest.fail("the matrix was made"))
    with pytest.raises(MemoryLimitError, match="of memory"):
        solvers.solve(p, solver="newton")


def test_newton_ends_where_long_directions_change_hardly_any_margin():
    generator = np.random.default_rng(17)
    X = generator.integers(0, 3, (90, 4)) / 2
    y = np.where(X[:, 0] + generator.normal(0, 0.3, 90) > 0.5, 1.0, -1.0)
    gram, loss = Gram(Kernel("rbf", 0.002), X), losses.odm(2.0**16, 0.2, 0.6, 90)
    solution = solvers.solve(
        Problem(None, gram, y, np.ones(90), loss), solver="newton", tolerance=1e-10, max_iter=30
    )
    assert solution.converged


def test_a_solver_names_what_is_missing():
    with pytest.raises(UsageError, match="is for linear machines"):
        solvers.solve(problem("rbf"), solver="svrg")
    with pytest.raises(UsageError, match="unknown solver"):
        solvers.solve(problem(None), solver="magic")


def test_the_cheaper_hessian():
    for density, thin in ((0.01, True), (0.9, False)):
        X = sparse.random(500, 50, density=density, random_state=2, format="csr")
        assert is_thin(X) == thin and not is_thin(X.toarray())


def test_the_seed_decides_the_order_and_nothing_else():
    p = problem(None)
    a, b, other = (
        solvers.solve(p, solver="dcd", seed=seed, tolerance=1e-4).w for seed in (1, 1, 2)
    )
    assert np.array_equal(a, b)
    assert not np.array_equal(a, other)


def test_newton_begins_where_a_sample_ends():
    generator = np.random.default_rng(5)
    X, weight = generator.standard_normal((2000, 4)), generator.random(2000) + 0.5
    y = np.where(X @ np.arange(4) + generator.standard_normal(2000) > 0, 1.0, -1.0)
    p = Problem(X, None, y, weight, losses.odm(2.0**10, 0.5, 0.3, 2000))
    short, long = (
        solvers.solve(p, solver="newton", tolerance=1e-6, start=start)
        for start in (None, np.zeros(2000))
    )
    assert short.converged and short.iterations < long.iterations
    assert short.primal == pytest.approx(long.primal, rel=2e-6)


def test_the_iteration_limit_is_honest():
    for solver in ("dcd", "newton"):
        stopped = solvers.solve(problem("rbf"), solver=solver, tolerance=1e-12, max_iter=1)
        assert stopped.iterations == 1 and not stopped.converged and stopped.gap > 1e-12


def test_wide_data_conjugate_gradients_and_function_space(monkeypatch):
    generator = np.random.default_rng(0)
    X = sparse.random(80, 400, density=0.05, random_state=0, format="csr")
    y = np.where(generator.random(80) < 0.5, 1.0, -1.0)
    p = Problem(X, None, y, np.ones(80), losses.odm(2.0**8, 0.5, 0.3, 80))
    function_space = solvers.solve(p, solver="newton", tolerance=1e-12)
    from odmtool.solvers.newton import spaces

    monkeypatch.setattr(spaces, "LARGEST_GRAM", 0)
    cholesky = solvers.solve(p, solver="newton", tolerance=1e-12)
    monkeypatch.setattr(spaces, "LARGEST_HESSIAN", 0)
    gradients = solvers.solve(p, solver="newton", tolerance=1e-12)
    for solution in (cholesky, gradients):
        assert solution.converged
        assert solution.w == pytest.approx(function_space.w, abs=1e-5)


@pytest.mark.parametrize("n", [1, 5, 511, 512, 513, 1100])
def test_cholesky_panels(n):
    generator = np.random.default_rng(n)
    A = generator.standard_normal((n, n))
    A = A @ A.T + n * np.eye(n)
    b = generator.standard_normal(n)
    L = cholesky_in_place(A.copy())
    np.testing.assert_allclose(np.tril(L), np.linalg.cholesky(A), rtol=1e-10, atol=1e-8)
    assert A @ cholesky_solve(L, b) == pytest.approx(b, abs=1e-9)


def test_wide_rows_that_cancel_have_a_solution(run, tmp_path):
    """Newton's system is solved before its conjugate gradients begin."""
    (tmp_path / "d").write_text("1 4000:1\n-1 4000:1\n")
    outcome = run("train", "-l", "16", "d", "m")
    assert outcome.code == 0 and ": converged (gap " in outcome.err


def test_cholesky_refuses_an_indefinite_matrix():
    A = np.eye(600)
    A[550, 550] = -1
    with pytest.raises(np.linalg.LinAlgError):
        cholesky_in_place(A)


def test_huge_kernel_values_do_not_break_newton():
    """poly of degree 3 on unscaled features: kernel values up to 1e14."""
    X, y = examples()
    gram = Gram(Kernel("poly", 1.0, 1.0, 3), X * 100)
    p = Problem(None, gram, y, np.ones(len(y)), losses.odm(2.0**10, 0.5, 0.3, len(y)))
    solution = solvers.solve(p, solver="newton", tolerance=1e-6)
    assert solution.converged


def test_lambda_at_the_end_of_the_papers_grid():
    p = problem("rbf", lambda_=2.0**20)
    solution = solvers.solve(p, tolerance=1e-6)
    assert solution.solver == "newton" and solution.converged


def test_array_losses_have_one_row_per_example():
    hinge = MarginLoss(1.0, 1.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    loss = losses.scaled(hinge, np.array([1.0, 2.0]))
    assert losses.value(loss, np.array([0.0, 0.0])) == pytest.approx([1, 2])


def test_a_small_lambda_is_no_reason_to_return_the_start():
    """At w = 0 the gap relative to P is of the order of lambda."""
    for kernel in (None, "rbf"):
        solution = solvers.solve(problem(kernel, lambda_=1e-4), solver="newton")
        assert solution.iterations == 1 and np.any(solution.coef != 0)


@pytest.mark.parametrize("solver", ["auto", "dcd", "newton"])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_overflow_is_an_error_and_no_model(kernel, solver):
    from odmtool.errors import DataError

    X = np.array([[1e200, 0.0], [-1e200, 3.0], [0.0, 5.0]])
    machine = ODM(kernel=kernel, solver=solver)
    with pytest.raises(DataError, match="scale the features"):
        machine.fit(X, [1, -1, 1])


def test_the_better_of_what_was_seen_is_returned():
    """Kernel values of 1e14 and lambda 2^10: the objective falls though the gap does not."""
    generator = np.random.default_rng(3)
    X = generator.uniform(0, 2000, (80, 6))
    y = np.where(X[:, 0] + 500 * generator.standard_normal(80) > 1000, 1.0, -1.0)
    p = Problem(None, Gram(Kernel("poly", 0.2, 1.0, 3), X), y, np.ones(80),
                losses.odm(2.0**10, 0.5, 0.2, 80))  # fmt: skip
    solution = solvers.solve(p, solver="newton", tolerance=1e-9)
    assert solution.primal < 0.99 * losses.value(p.loss, np.zeros(80)).sum()


def test_wide_linear_data_report_the_values_of_their_w():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((30, 200)) * 1e4
    y = np.where(generator.random(30) < 0.5, 1.0, -1.0)
    p = Problem(X, None, y, np.ones(30), losses.odm(2.0**12, 0.5, 0.2, 30))
    solution = solvers.solve(p, solver="newton", tolerance=1e-9)
    judged = judge.certify_linear(X, y, p.weight, p.loss, solution.w, solution.eta)
    assert judged.primal == pytest.approx(solution.primal, rel=1e-9)


def test_other_types_of_input_give_the_same_model():
    X, y = examples()
    whole = np.round(X.toarray() * 4).astype(int)
    expected = ODM(kernel="rbf").fit(whole.astype(float), y.astype(int)).solution_.primal
    doubled = sparse.coo_matrix(
        (np.r_[whole[whole != 0], np.zeros(3)],
         (np.r_[np.nonzero(whole)[0], 0, 0, 1], np.r_[np.nonzero(whole)[1], 1, 1, 2])),
        shape=whole.shape,
    )  # fmt: skip
    for same in (whole, sparse.csr_matrix(whole), sparse.csr_matrix(doubled)):
        fitted = ODM(kernel="rbf").fit(same, [int(label) for label in y])
        assert fitted.solution_.primal == pytest.approx(expected, rel=1e-12)


def test_large_offsets_do_not_spoil_the_rbf_kernel():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((40, 3))
    shifted = X + np.array([1.6e9, 0.0, 20260101.0])
    exact = Gram(Kernel("rbf", 0.4), shifted - shifted.mean(axis=0)).matrix()
    assert Gram(Kernel("rbf", 0.4), shifted).matrix() == pytest.approx(exact, abs=1e-6)


def test_a_step_ends_where_the_objective_is_lowest():
    rng, shorter = np.random.default_rng(5), 0
    for _ in range(200):
        m = int(rng.integers(1, 30))
        loss = losses.odm(2.0 ** rng.uniform(-2, 14), rng.random(), rng.uniform(0, 0.9), m)
        X, y = rng.standard_normal((m, 3)), np.where(rng.random(m) < 0.5, 1.0, -1.0)
        w, direction = rng.standard_normal((2, 3)) * [[0.1], [2.0]]
        t, change = y * (X @ w), y * (X @ direction)

        def objective(step):
            v = w + step * direction  # noqa: B023
            return v @ v / 2 + losses.value(loss, y * (X @ v)).sum()  # noqa: B023

        slope = w @ direction + losses.derivative(loss, t) @ change
        if slope > 0:
            direction, change = -direction, -change
        step = step_length(loss, t, change, (w @ direction, direction @ direction))
        assert 0 < step <= 1
        if step < 1:
            shorter += 1
            best = minimize_scalar(objective, bounds=(0, 1), method="bounded").fun
            assert objective(step) <= best + 1e-12 * abs(best)
    assert shorter > 20


def test_equal_rows_of_large_features_are_solved():
    """Beside kernel values of 5e12 what the loss adds to the diagonal is lost."""
    row = [1e6, 2e6, 5.0, 7.0, 1.0]
    X, y = np.array([row, row, [-3e6, 1e6, 2.0, 7.0, 1.0]]), np.array([1.0, 1.0, -1.0])
    p = Problem(X, None, y, np.ones(3), losses.odm(2.0**20, 0.2, 0.2, 3))
    solution = solvers.solve(p, solver="newton")
    assert solution.converged and solution.iterations > 0


def test_a_gap_that_does_not_suffice_is_still_the_smaller_of_two():
    """On the way the second is not looked at where it cannot suffice."""
    p = problem("poly", loss=losses.odm(2.0**30, 0.2, 0.2, 60))
    solution = solvers.solve(p, solver="newton", tolerance=1e-9, max_iter=2)
    space, loss = FunctionSpace(p.gram, p.y), losses.scaled(p.loss, p.weight)
    t = space.margins(solution.coef)
    point = loss, solution.coef, t, -losses.derivative(loss, t), 0.0
    demanded, both = (space.gap(*point, far)[0] for far in (0.0, np.inf))
    assert not solution.converged and both < demanded / 10
    assert solution.primal - solution.dual == pytest.approx(both, rel=1e-6)


def test_the_memory_of_the_matrix_of_a_linear_problem():
    """A matrix and its factor, as large as the fewer of rows and columns, or none at all."""
    assert matrix_bytes(10**6, 300) == matrix_bytes(300, 10**6) == 2 * 8 * 300**2
    assert matrix_bytes(10**6, 10**6) == 0


def test_a_squared_distance_is_off_by_what_is_lost_of_the_largest():
    """Of rows that lie opposite each other, (|u| + |v|)^2 = 4; nine roundings of it."""
    error = value_error(Kernel("rbf", 1e6), np.array([[1.0], [-1.0]]), 1.0)
    assert error == pytest.approx(1e6 * 4 * 9 * UNIT, rel=1e-3)


def test_what_errors_of_kernel_values_do_to_demanded_duals():
    p, generator = problem("rbf"), np.random.default_rng(0)
    rounding = Rounding(p.gram, None)
    slopes, coef, difference = generator.random(p.size), *generator.normal(size=(2, p.size))
    off = rounding.error * np.outer(rounding.sizes, rounding.sizes)
    moved, apart = off @ np.abs(coef), np.abs(difference)
    expected = slopes @ moved**2 / 2 + apart @ off @ apart / 2
    assert rounding.of_demanded(slopes, coef, difference, None, 0.0) == pytest.approx(expected)


def test_a_shortened_solution_has_the_gap_of_the_judge():
    """After one epoch w is worse than none; its best multiple is no w of the duals."""
    generator = np.random.default_rng(27)
    X = generator.standard_normal((20, 3))
    y = np.where(generator.random(20) < 0.5, 1.0, -1.0)
    p = Problem(X, None, y, np.ones(20), losses.odm(64.0, 0.3, 0.2, 20))
    solution = dcd.solve(p, Stop(1e-3, 1))
    assert not np.allclose(solution.w, X.T @ (solution.eta * y), rtol=0.5)
    judged = judge.certify_linear(X, y, p.weight, p.loss, solution.w, solution.eta)
    assert judged.primal == pytest.approx(solution.primal, rel=1e-12)
    assert judged.gap == pytest.approx(solution.gap, rel=1e-10)
    assert solution.w @ solution.w > 1e-3 * solution.primal


def test_the_w_of_coordinate_descent_is_made_anew_of_its_duals():
    """The increments of its epochs leave rounding errors behind."""
    p = problem(lambda_=2.0**6)
    state, order = dcd.LinearState(p, None), np.arange(p.size)
    for _ in range(30):
        state.epoch(order, p.size, np.inf)
    grown, anew = state.w.copy(), np.asarray(p.X.T @ (state.eta * p.y))
    assert np.array_equal(state.margins(), p.y * (p.X @ anew)) and np.array_equal(state.w, anew)
    assert not np.array_equal(grown, anew) and np.allclose(grown, anew, atol=1e-9)
