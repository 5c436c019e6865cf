"""mcODM: the gap, the true objective, both outer loops, agreement of its solvers."""

import numpy as np
import pytest
from mcodm_problems import assert_confirmed, certificate, examples, never_rises, problem, solve
from problems import KERNELS, weights
from scipy import sparse
from scipy.optimize import minimize

from odmtool import defaults
from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.judge import binary as objective
from odmtool.machines import machine_named
from odmtool.solvers import table
from odmtool.solvers.multi import MultiProblem

# How often mcODM begins is asked in test_mcodm_starts.py.
pytestmark = pytest.mark.usefixtures("two_starts")


@pytest.mark.parametrize("tolerance", [1e-2, 1e-8])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("outer", defaults.OUTER)
@pytest.mark.parametrize("solver", ["dcd", "newton"])
def test_gap_of_linear_problems(solver, outer, dense, weighted, tolerance):
    p = problem(dense=dense, weight=weights() if weighted else None)
    solution = solve(p, tolerance, solver=solver, outer=outer)
    assert_confirmed(p, solution, tolerance)
    assert never_rises(solution) or outer == "constant"


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("outer", defaults.OUTER)
@pytest.mark.parametrize("kernel", [*KERNELS, "precomputed"])
def test_gap_of_kernel_problems(kernel, outer, dense, weighted):
    p = problem(kernel, dense=dense, weight=weights() if weighted else None)
    solution = solve(p, 1e-6, outer=outer)
    assert_confirmed(p, solution, 1e-6)
    assert never_rises(solution) or outer == "constant"


@pytest.mark.parametrize("lambda_", [1.0, 2.0**10, 2.0**20])
@pytest.mark.parametrize("k", [2, 3, 9])
def test_auto_converges_for_every_lambda(k, lambda_):
    p = problem(k=k, lambda_=lambda_)
    solution = solve(p, 1e-6, max_iter=1000)
    assert_confirmed(p, solution, 1e-6)
    assert never_rises(solution)


@pytest.mark.parametrize("k, weighted", [(3, False), (11, True)])
def test_kernels_converge_for_large_lambda(k, weighted):
    """Beyond the epochs of coordinate descent, on features; linear on these ends there, too."""
    weight = weights(60) if weighted else None
    p = problem("rbf", weight, lambda_=2.0**20, k=k)
    solution = solve(p, max_iter=2000)
    assert solution.converged and solution.solver == "dcd, then newton"
    judged = certificate(p, solution)
    assert judged.gap == pytest.approx(solution.gap, abs=1e-6) and judged.gap <= 1e-3
    assert judged.objective == pytest.approx(solution.objective, rel=1e-6)
    values, vectors = np.linalg.eigh(objective.kernel_matrix(p.gram.kernel, p.gram.X, p.gram.X))
    linear = p._replace(X=vectors * np.sqrt(np.maximum(values, 0)), gram=None)
    there = solve(linear, solver="newton", start=solution.duals).objective
    assert there == pytest.approx(solution.objective, rel=2e-3)


def test_rows_of_large_numbers_converge_in_few_steps():
    """There the gradient keeps the gap at 10^5 long after the objective hardly falls."""
    generator = np.random.default_rng(0)
    target = generator.integers(0, 6, 400)
    centres = 0.1 * generator.standard_normal((6, 40))
    X = 1e4 * (centres[target] + generator.standard_normal((400, 40)))
    p = MultiProblem(X, None, target, 6, np.ones(400), losses.mcodm(1.0, 0.5, 0.3, 400))
    solution = solve(p, max_iter=100, starts=1)
    # What rounding may hide, 1e-8 here, is added.
    assert solution.converged and certificate(p, solution).gap <= solution.gap <= 1e-3


def test_kernels_without_room_for_features_stay_with_descent():
    p = problem("rbf", lambda_=2.0**10, memory=8e4)
    assert solve(p, max_iter=100).solver == "dcd"


@pytest.mark.parametrize("solver", table.names_for("mcodm", "linear"))
def test_more_features_than_examples(solver):
    generator = np.random.default_rng(0)
    X = sparse.csr_matrix(generator.standard_normal((30, 80)) * (generator.random((30, 80)) < 0.3))
    loss = losses.mcodm(2.0**10, 0.5, 0.3, 30.0)
    p = MultiProblem(X, None, np.arange(30) % 3, 3, np.ones(30), loss)
    solution = solve(p, 1e-6, solver=solver)
    assert_confirmed(p, solution, 1e-6)
    assert never_rises(solution)


def test_iterations_run_out():
    p = problem(lambda_=2.0**12)
    solution = solve(p, 1e-9, max_iter=4, solver="dcd")
    assert not solution.converged and solution.iterations == 4
    assert certificate(p, solution).gap == pytest.approx(solution.gap, rel=1e-9)


def test_the_judge_rejects_a_wrong_solution():
    p = problem("rbf")
    solution = solve(p, 1e-8)
    assert certificate(p, solution._replace(coef=solution.coef * 1.01)).gap > 1e-6
    infeasible = solution.duals._replace(alpha=solution.duals.alpha + 0.1)
    assert certificate(p, solution._replace(duals=infeasible)).infeasibility > 0.09


def convex_optimum(p, duals):
    """The sub-problem's optimum by a generic method, its kinks smoothed away by slacks."""
    X, (d, k), m = p.X.toarray(), (p.X.shape[1], p.k), p.size
    loss, rows = p.parameters, np.arange(p.size)

    def unpack(v):
        return v[: d * k].reshape(d, k), v[d * k :]

    def value(v):
        W, xi = unpack(v)
        F = X @ W
        over = np.maximum(0, F[rows, p.target] - F[rows, duals.rival] - duals.upper)
        total = (W * W).sum() / 2 + loss.c1 * p.weight @ xi**2 + loss.c2 * p.weight @ over**2
        C = np.zeros((m, k))
        C[rows, p.target] += 2 * loss.c2 * p.weight * over
        C[rows, duals.rival] -= 2 * loss.c2 * p.weight * over
        return total, np.concatenate([(W + X.T @ C).ravel(), 2 * loss.c1 * p.weight * xi])

    others = [(i, j) for i in range(m) for j in range(k) if j != p.target[i]]
    A = np.zeros((len(others), d * k + m))
    for row, (i, j) in zip(A, others, strict=True):
        row[: d * k].reshape(d, k)[:, p.target[i]] += X[i]
        row[: d * k].reshape(d, k)[:, j] -= X[i]
        row[d * k + i] = 1
    constraint = dict(
        type="ineq", fun=lambda v: A @ v - 1 + loss.theta, jac=lambda v: A
    )
    start = np.concatenate([np.zeros(d * k), np.full(m, 1.0)])
    # With less than 1e-12 it asks for more than rounding allows, and fails where it ends.
    found = minimize(
        value, start, jac=True, method="SLSQP", constraints=constraint,
        options=dict(ftol=1e-11, maxiter=1000),
    )  # fmt: skip
    assert found.success
    return found.fun


@pytest.mark.parametrize("solver", ["dcd", "newton"])
def test_sub_problem_by_a_generic_optimiser(solver):
    p = problem(weight=weights(), k=3)
    solution = solve(p, 1e-9, solver=solver)
    assert certificate(p, solution).primal == pytest.approx(
        convex_optimum(p, solution.duals), rel=1e-6
    )


def test_solvers_agree_on_the_sub_problem():
    """The W of one is nearly optimal for the other's sub-problem, by the other's duals."""
    p = problem()
    a, b = (solve(p, 1e-9, solver=solver) for solver in ("dcd", "newton"))
    for one, other in ((a, b), (b, a)):
        assert certificate(p, one._replace(duals=other.duals)).gap < 1e-8
    assert np.linalg.norm(a.W - b.W) <= 2 * np.sqrt(2 * 1e-8 * a.objective)


def test_linear_and_kernel_solvers_agree():
    p = problem()
    gram = Gram(Kernel("linear"), p.X)
    a, b = solve(p, 1e-9), solve(p._replace(X=None, gram=gram), 1e-9)
    assert b.W is None and a.coef is None
    assert p.X.T @ b.coef == pytest.approx(a.W, abs=1e-3)
    assert b.objective == pytest.approx(a.objective, rel=1e-8)


def test_constant_loop_is_no_descent_method():
    """DESIGN's example in small: a wide margin band makes the paper's loop climb."""
    p = problem(lambda_=2.0**9, mu=1.0)
    assert not never_rises(solve(p, 1e-6, max_iter=300, outer="constant"))
    assert never_rises(solve(p, 1e-6, outer="cccp"))


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_weight_two_is_a_duplicate_row(kernel):
    X, target = examples()
    twice = [2, 5, 11]
    weight = np.ones(len(target))
    weight[twice] = 2
    rows = np.concatenate([np.arange(len(target)), twice])
    loss = losses.mcodm(32.0, 0.5, 0.3, weight.sum())

    def make(X, target, weight):
        gram = None if kernel is None else Gram(KERNELS[kernel], X)
        return MultiProblem(X if gram is None else None, gram, target, 4, weight, loss)

    a = solve(make(X, target, weight), 1e-10)
    b = solve(make(X[rows], target[rows], np.ones(len(rows))), 1e-10)
    assert a.objective == pytest.approx(b.objective, rel=1e-8)


def test_a_class_without_examples():
    p = problem()._replace(k=6)
    solution = solve(p, 1e-8)
    assert_confirmed(p, solution, 1e-8)
    assert solution.W.shape == (6, 6)


@pytest.mark.parametrize("memory", [60 * 8 * 7, 60 * 8 * 20])
def test_few_cached_rows_give_the_same_result(memory):
    bounded, whole = problem("rbf", memory=memory), problem("rbf")
    a, b = solve(bounded, 1e-6), solve(whole, 1e-6)
    assert_confirmed(bounded, a, 1e-6)
    assert a.objective == pytest.approx(b.objective, rel=1e-5)


@pytest.mark.parametrize("gamma", [1e6, 1e9])
def test_a_large_gamma_hides_nothing_of_a_matrix_that_is_nearly_the_identity(gamma):
    """Kernel values next to nothing are off by next to nothing, however large the shares are."""
    p = problem("rbf")
    p = p._replace(gram=Gram(Kernel("rbf", gamma), p.gram.X))
    assert_confirmed(p, solve(p, 1e-6), 1e-6)


def test_a_large_gamma_in_single_precision():
    """What single precision hides is looked at in double precision, and so is the large gamma."""
    generator = np.random.default_rng(0)
    X, target = generator.standard_normal((600, 5)), generator.integers(0, 3, 600)
    loss = losses.mcodm(2.0**20, 0.5, 0.3, 600)
    p = MultiProblem(None, Gram(Kernel("rbf", 1e9), X), target, 3, np.ones(600), loss)
    assert solve(p, 1e-3, 50, solver="dcd").converged


def test_promises_that_lead_nowhere_are_not_believed():
    """Steps went on from centres that promised little and were far away: gap 23 after 300."""
    rng, k = np.random.default_rng(3), 60
    labels = np.repeat(np.arange(k), 2)
    X = 1.6 * (rng.normal(size=(k, 4))[labels] + rng.normal(size=(len(labels), 4)))
    machine = machine_named("mcodm")(lambda_=2.0**12, max_iter=300, solver="newton")
    assert machine.fit(X, labels).solution_.converged
