"""mcODM: the block step, the gap, the true objective, both outer loops, weights, warm starts."""

import numpy as np
import pytest
from problems import KERNELS, precomputed_rows, weights
from scipy import sparse
from scipy.optimize import minimize

from odmtool import defaults
from odmtool.core import losses
from odmtool.core.csr import CSR
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.errors import DivergedError, UsageError
from odmtool.judge import binary as objective
from odmtool.judge import mcodm as objective_multi
from odmtool.machines import MCODM
from odmtool.solvers import table
from odmtool.solvers.base import Stop
from odmtool.solvers.mcodm import auto as mcodm
from odmtool.solvers.mcodm import descent, rounds
from odmtool.solvers.mcodm.dense import DenseNewton
from odmtool.solvers.mcodm.descent import KernelDescent, LinearDescent
from odmtool.solvers.mcodm.starts import other_rivals
from odmtool.solvers.mcodm.step import alpha_step, beta_step
from odmtool.solvers.mcodm.way import Way, choose
from odmtool.solvers.multi import Duals, MultiProblem


def examples(m=60, d=6, k=4, seed=0):
    """X (CSR, with an empty row and an empty column) and target with ties between classes."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((m, d)) * (generator.random((m, d)) < 0.7)
    X[3], X[:, d - 1] = 0, 0
    scores = X @ generator.standard_normal((d, k)) + 0.7 * generator.standard_normal((m, k))
    return sparse.csr_matrix(X), scores.argmax(axis=1)


def problem(kernel=None, weight=None, dense=False, lambda_=2.0**5, k=4, memory=np.inf, mu=0.5):
    X, target = examples(k=k)
    m = len(target)
    weight = np.ones(m) if weight is None else weight
    loss = losses.mcodm(lambda_, mu, 0.3, weight.sum())
    if kernel == "precomputed":
        X = precomputed_rows(X)
    X = X.toarray() if dense else X
    if kernel is None:
        return MultiProblem(X, None, target, k, weight, loss)
    chosen = Kernel("precomputed") if kernel == "precomputed" else KERNELS[kernel]
    return MultiProblem(None, Gram(chosen, X, memory), target, k, weight, loss)


def solve(p, tolerance=1e-3, max_iter=20000, **arguments):
    return mcodm.solve(p, Stop(tolerance, max_iter), **arguments)


def certificate(p, solution):
    """The judge's opinion; it knows the data, not the solver's matrices."""
    known = p.target, p.weight, p.parameters
    if p.gram is None:
        return objective_multi.certify_linear(p.X, *known, solution.W, solution.duals)
    K = objective.kernel_matrix(p.gram.kernel, p.gram.X, p.gram.X)
    return objective_multi.certify_kernel(K, *known, solution.coef, solution.duals)


def assert_confirmed(p, solution, tolerance):
    judged = certificate(p, solution)
    assert solution.converged and not solution.optimal
    assert solution.gap <= tolerance
    # What rounding may hide is added.
    assert -1e-12 <= solution.gap - judged.gap <= 1e-9
    assert judged.objective == pytest.approx(solution.objective, rel=1e-11)
    # P touches F at W: the certificate is one of stationarity.
    assert judged.primal == pytest.approx(judged.objective, rel=1e-11)
    assert judged.infeasibility <= 1e-13 * max(1.0, abs(solution.duals.alpha).max())


def never_rises(solution):
    course = [r.objective for r in solution.rounds]
    return all(after <= before for before, after in zip(course, course[1:], strict=False))


# ---- the block step -----------------------------------------------------------------


def exact_alpha(B, y, A, threshold, c):
    """The best alpha from every set of classes that could be the active one."""
    e = B[y] - threshold
    D = A + 0.5 / c
    others = np.delete(np.arange(len(B)), y)
    best, most = np.zeros(len(B)), 0.0
    for n in range(1, len(B)):
        chosen = others[np.argsort(-B[others])][:n]
        # Stationary on the chosen classes: A p_l + D sum p + e = B_l.
        p = np.linalg.solve(A * np.eye(n) + D, B[chosen] - e)
        if p.min() < 0:
            continue
        s = p.sum()
        value = -A / 2 * (p @ p + s * s) + B[chosen] @ p - e * s - s * s / (4 * c)
        if value > most:
            most, best = value, np.zeros(len(B))
            best[chosen], best[y] = -p, s
    return best


def instances(number, seed=0, most_classes=50):
    """Random sub-problems with near-ties, ties, and weights over many magnitudes."""
    generator = np.random.default_rng(seed)
    for _ in range(number):
        k = int(generator.integers(2, most_classes + 1))
        B = generator.standard_normal(k) * 10 ** generator.uniform(-2, 1)
        if generator.random() < 0.5:
            B = np.round(B, 1) + generator.choice([0.0, 1e-9, 1e-12]) * generator.random(k)
        A, c = 10 ** generator.uniform(-1, 1), 10 ** generator.uniform(-2, 3)
        yield B, int(generator.integers(k)), A, generator.uniform(0.05, 1), c


def step(B, y, A, threshold, c):
    alpha = np.zeros(len(B))
    alpha_step(B.copy(), np.arange(len(B)), len(B), y, A, threshold, c, alpha)
    return alpha


def test_block_step_is_the_exact_solution():
    for B, y, A, threshold, c in instances(300):
        alpha, expected = step(B, y, A, threshold, c), exact_alpha(B, y, A, threshold, c)
        assert abs(alpha - expected).max() <= 1e-10 * max(1.0, abs(expected).max())


def test_block_step_agrees_with_a_generic_optimiser():
    """In the variables p_l = -alpha^l >= 0 it is a bounded quadratic problem."""
    for B, y, A, threshold, c in instances(40, seed=1, most_classes=8):
        others = np.delete(np.arange(len(B)), y)

        def minus(p, B=B, y=y, A=A, threshold=threshold, c=c, others=others):
            s = p.sum()
            linear = B[others] @ p - (B[y] - threshold) * s
            value = A / 2 * (p @ p + s * s) + s * s / (4 * c) - linear
            return value, A * p + (A + 0.5 / c) * s - B[others] + B[y] - threshold

        found = minimize(
            minus, np.zeros(len(others)), jac=True, bounds=[(0, None)] * len(others),
            method="L-BFGS-B", options=dict(ftol=1e-16, gtol=1e-12, maxiter=5000),
        )  # fmt: skip
        alpha = step(B, y, A, threshold, c)
        assert minus(-alpha[others])[0] <= found.fun + 1e-10 * max(1.0, abs(found.fun))
        assert alpha.sum() == pytest.approx(0.0, abs=1e-12 * max(1.0, abs(alpha).max()))


def test_block_step_of_an_all_zero_row():
    """Without a kernel value only alpha^y matters."""
    alpha = step(np.zeros(3), 1, 0.0, 0.7, 2.0)
    assert alpha[1] == pytest.approx(2 * 2.0 * 0.7) and alpha.sum() == 0


def test_beta_step_is_stationary():
    z, beta, h, upper, c = 2.0, 0.3, 1.5, 1.2, 0.8
    new = beta_step(z, beta, h, upper, c)
    assert z - h * (new - beta) - upper - new / (2 * c) == pytest.approx(0.0, abs=1e-14)
    assert beta_step(0.1, 0.0, h, upper, c) == 0
    assert beta_step(9.0, 0.0, h, np.inf, c) == 0


# ---- certificates ------------------------------------------------------------------------


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


# ---- objectives ----------------------------------------------------------------------------


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


# ---- weights, memory, starts, refusals ---------------------------------------------------------


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


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_warm_start_needs_less_work(kernel):
    first = solve(problem(kernel), 1e-6)
    p = problem(kernel, lambda_=2.0**5 * 1.1)
    warm, cold = solve(p, 1e-6, start=first.duals, solver="dcd"), solve(p, 1e-6, solver="dcd")
    assert_confirmed(p, warm, 1e-6)
    assert warm.iterations < cold.iterations
    assert never_rises(warm)
    again = solve(problem(kernel), 1e-6, start=first.duals)
    assert again.objective <= first.objective * (1 + 1e-9)


def test_start_is_not_changed():
    first = solve(problem(), 1e-6)
    before = [field.copy() for field in first.duals]
    solve(problem(lambda_=2.0**8), 1e-6, start=first.duals)
    for field, kept in zip(first.duals, before, strict=True):
        assert np.array_equal(field, kept)


def test_progress_tells_epochs_and_rounds():
    seen = []
    solution = solve(problem(), 1e-6, progress=seen.append)
    ends = [(p.iteration, p.primal) for p in seen if p.primal is not None]
    # Of other starts, too.
    assert {(r.epochs, r.objective) for r in solution.rounds} <= set(ends)
    iterations = [p.iteration for p in seen if p.primal is None]
    starts = iterations.count(1)
    assert starts > 1 and sorted(set(iterations)) == list(range(1, max(iterations) + 1))
    assert solution.iterations in iterations


def test_several_starts_end_lower_than_one():
    generator, m = np.random.default_rng(18), 60
    target = np.arange(m) % 4
    X = generator.standard_normal((4, 6))[target] + 0.5 * generator.standard_normal((m, 6))
    X = sparse.csr_matrix((X - X.min(axis=0)) / np.ptp(X, axis=0))
    loss = losses.mcodm(2.0**14, 0.2, 0.2, float(m))
    p, stop = MultiProblem(X, None, target, 4, np.ones(m), loss), Stop(1e-3, 2000)
    several, one = mcodm.solve(p, stop), mcodm.solve(p, stop, starts=1)
    assert_confirmed(p, several, 1e-3)
    assert several.objective < 0.9 * one.objective


def test_other_rivals_are_the_second_best_of_examples_that_are_held_down():
    p, m, k = problem(), problem().size, problem().k
    scores = np.random.default_rng(0).standard_normal((m, k))
    others = np.where(np.arange(k) == p.target[:, None], -np.inf, scores)
    second, rival = np.argsort(others, axis=1)[:, -2:].T
    beta = np.where(np.arange(m) % 2, 1.0, 0.0)
    # The constraint of one costs far more than all others, and a rise of 0 takes its place.
    beta[7], scores[9, second[9]] = 1e9, scores[9, rival[9]]
    duals = Duals(np.zeros((m, k)), beta, rival, np.ones(m))
    seen = [other_rivals(p, duals, scores, 0, number) for number in range(1, 7)]
    for rivals in seen:
        changed = rivals != rival
        assert 2 <= changed.sum() <= 1 + 0.2 * np.count_nonzero(beta)
        assert changed[[7, 9]].all() and not changed[beta == 0].any()
        assert np.array_equal(rivals[changed], second[changed])
    assert len({tuple(rivals) for rivals in seen}) > 3
    assert other_rivals(p, duals._replace(beta=0 * beta), scores, 0, 1) is None


def test_same_seed_same_solution():
    a, b, c = (solve(problem(), solver="dcd", seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(a.W, b.W) and not np.array_equal(a.W, c.W)


def test_refusals():
    with pytest.raises(UsageError, match="constant"):
        solve(problem(), outer="concave")
    with pytest.raises(UsageError, match="newton"):
        solve(problem("rbf"), solver="newton")
    with pytest.raises(UsageError, match="take solver auto, dcd or newton"):
        solve(problem(), solver="svrg")
    for arguments in ((0.0, 0.5, 0.3, 1.0), (1.0, 0.0, 0.3, 1.0), (1.0, 0.5, 1.0, 1.0)):
        with pytest.raises(UsageError):
            losses.mcodm(*arguments)


def test_overflow_is_said():
    p = problem()
    with pytest.raises(DivergedError, match="overflow"):
        solve(p._replace(X=p.X * 1e200))


@pytest.mark.parametrize("weight", [None, weights(60)])
def test_newton_on_an_array_and_by_loops_over_rows_agree(weight):
    p, ends = problem(weight=weight), []
    for is_sparse in (True, False):
        ends.append(rounds.solve(p, Stop(1e-9, 500), Way(0, is_sparse)))
        assert_confirmed(p, ends[-1], 1e-9)
    assert ends[0].objective == pytest.approx(ends[1].objective, rel=1e-8)


def test_the_way():
    p = problem()
    assert choose(p) == Way(0) == choose(p, "newton")
    assert choose(p, "dcd").epochs == np.inf
    wide = p._replace(X=sparse.random(60, 5000, 0.1, "csr"))
    assert choose(wide).epochs == np.inf and choose(wide, "newton").is_sparse
    assert not choose(wide._replace(X=wide.X.toarray()), "newton").is_sparse
    assert 0 < choose(wide._replace(X=wide.X[:, :400])).epochs < np.inf
    # As an array these rows would take a thousand times the memory.
    long = p._replace(X=sparse.csr_matrix((4000, 250)), target=np.zeros(4000, int))
    assert choose(long) == Way(0)
    long = long._replace(X=sparse.csr_matrix((4001, 250)))
    assert choose(long).is_sparse and 0 < choose(long).epochs < np.inf


def test_what_rounding_keeps_from_the_tolerance_ends():
    p = problem(lambda_=1e-20)
    solution = solve(p._replace(X=p.X * 1e100), max_iter=10000)
    assert not solution.converged and solution.iterations < 2000


@pytest.mark.parametrize("solver", ["dcd", "newton"])
def test_a_single_class_has_no_margin(solver):
    X = np.random.default_rng(0).standard_normal((5, 3))
    loss = losses.mcodm(1.0, 0.4, 0.4, 5)
    alone = MultiProblem(X, None, np.zeros(5, dtype=int), 1, np.ones(5), loss)
    with pytest.raises(DivergedError):
        mcodm.solve(alone, Stop(1e-6, 20), solver=solver)


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_a_change_of_rivals_moves_the_point_to_where_its_duals_make_it(kernel):
    """W, or all scores, are those that the duals make, computed anew."""
    p, generator = problem(kernel), np.random.default_rng(4)
    m = p.size
    target = p.target
    rival = (target + generator.integers(1, 4, m)) % 4
    rival[::5] = -1
    duals = Duals(np.zeros((m, 4)), generator.random(m), rival, np.full(m, 1.3))
    state = (LinearDescent if kernel is None else KernelDescent)(p, duals, 0)
    before, some = rival.copy(), np.arange(0, m, 2)
    rival[some] = (target[some] + 1) % 4
    rival[some[::7]] = -1
    state.rivals_changed(some, before[some])
    C = duals.coefficients(target)
    if kernel is None:
        np.testing.assert_allclose(state.W, p.X.T @ C, atol=1e-12)
    K = (p.X @ p.X.T).toarray() if kernel is None else p.gram.matrix()
    np.testing.assert_allclose(state.scores(), K @ C, atol=1e-12)
    assert state.squared_norm() == pytest.approx(np.vdot(C, K @ C), rel=1e-12)
    assert state.dual_squared_norm() == state.squared_norm() and state.active == m
    np.testing.assert_allclose(state.point(state.keep()), p.X.T @ C if kernel is None else C)


def test_when_descent_looks_at_all_classes_again():
    """Where the true gap is more than a multiple of what the epoch saw, relative to P."""
    state = LinearDescent(problem(), nothing(problem()), 0)
    state.begin(1e-3)
    state.iterate()
    terms, norm = state.terms(), state.squared_norm()
    primal = terms.relaxed_loss + norm / 2
    share = (terms.relaxed_loss + norm - terms.dual_terms) / primal
    assert state._threshold < np.inf
    state._gap = share / descent._TRUST
    state.compare(terms._replace(dual_terms=terms.dual_terms + 1e-9 * primal))
    assert state._threshold < np.inf
    state.compare(terms._replace(dual_terms=terms.dual_terms - 1e-9 * primal))
    assert state._threshold == np.inf


def nothing(p):
    m, k = p.size, p.k
    return Duals(np.zeros((m, k)), np.zeros(m), np.full(m, -1), np.full(m, np.inf))


# ---- what the command line may ask for ---------------------------------------------


@pytest.mark.parametrize("solver", ["dcd", "newton"])
def test_a_machine_takes_the_solver_that_is_named(solver):
    X, target = examples()
    machine = MCODM(lambda_=2.0**2, solver=solver).fit(CSR.of(X), target)
    assert machine.solution_.converged and machine.solution_.solver == solver


@pytest.mark.parametrize("solver", ["auto", "dcd", "newton"])
def test_examples_without_features(solver):
    """Every W is one of nothing, every score 0, and the objective that of the loss alone."""
    p = problem()._replace(X=np.zeros((60, 0)))
    solution = solve(p, solver=solver)
    assert_confirmed(p, solution, 1e-3)
    assert solution.W.shape == (0, 4)
    assert solution.objective == pytest.approx(2.0**5, rel=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_large_features_leave_the_hessian_definite(seed):
    """Where all classes move together it is 1, among numbers as large as lambda |x|^2."""
    X, target = examples(seed=seed)
    X, loss = X.toarray(), losses.mcodm(2.0**20, 0.5, 0.3, 60.0)
    X[:, 0] *= 1e8
    p = MultiProblem(X, None, target, 4, np.ones(60), loss)
    nothing = Duals(np.zeros((60, 4)), np.zeros(60), np.full(60, -1), np.full(60, np.inf))
    newton = DenseNewton(p, nothing, np.zeros((6, 4)), 1e-3)
    newton.begin(1e-3)
    assert newton._division()
