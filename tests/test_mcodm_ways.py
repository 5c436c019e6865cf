"""mcODM's ways: which solver takes a problem, what it keeps up to date, what ends or refuses it."""

import numpy as np
import pytest
from mcodm_problems import (
    assert_confirmed,
    certificate,
    examples,
    nothing,
    problem,
    solve,
)
from problems import weights
from scipy import sparse
from twins import hessian as slow

from odmtool.core import losses
from odmtool.core.csr import CSR
from odmtool.errors import DivergedError, UsageError
from odmtool.machines import MCODM
from odmtool.rows.executor import Threads
from odmtool.solvers.base import Stop
from odmtool.solvers.mcodm import auto as mcodm
from odmtool.solvers.mcodm import descent, hessian, newton, rounds
from odmtool.solvers.mcodm.descent import KernelDescent, LinearDescent
from odmtool.solvers.mcodm.hessian import RowsNewton
from odmtool.solvers.mcodm.way import Way, choose
from odmtool.solvers.multi import Duals, MultiProblem


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


def test_threads_change_no_bit(monkeypatch, two_starts):
    """Parts are the same for any number of threads, and so is the order of their sums."""
    p, ends = problem(), []
    whole = rounds.solve(p, Stop(1e-6, 500), Way(0))
    monkeypatch.setattr(hessian, "_CELLS", 7 * p.X.shape[1])
    # With exact steps there are no products with the Hessian.
    monkeypatch.setattr(hessian, "_EXACT", 0)
    monkeypatch.setattr(hessian, "_FEW", 0)
    for executor in (None, Threads(1), Threads(3)):
        ends.append(rounds.solve(p, Stop(1e-6, 500), Way(0), executor=executor))
    assert ends[0].W.tobytes() == ends[1].W.tobytes() == ends[2].W.tobytes()
    assert ends[0].objective == pytest.approx(whole.objective, rel=1e-5)


@pytest.mark.parametrize("epochs", [10, 12])
@pytest.mark.parametrize("more", [0, 1])
def test_the_point_that_is_kept_goes_along_to_the_features(epochs, more):
    """Whether Newton's method finds a lower one, as after 10 epochs, or ends before."""
    p = problem("rbf", lambda_=2.0**10)
    found = rounds.solve(p, Stop(1e-9, epochs + more), Way(epochs), starts=1)
    assert found.solver == ("dcd, then newton" if more else "dcd")
    assert (len(found.rounds) > 2) == (epochs == 10 and more == 1)
    assert found.objective == pytest.approx(certificate(p, found).objective, rel=1e-9)
    assert found.iterations == epochs + more and not found.converged


def test_the_way():
    p = problem()
    assert choose(p) == Way(0) == choose(p, "newton")
    assert choose(p, "dcd").epochs == np.inf
    wide = p._replace(X=sparse.random(60, 5000, 0.1, "csr"))
    assert choose(wide).epochs == np.inf and choose(wide, "newton").is_sparse
    assert not choose(wide._replace(X=wide.X.toarray()), "newton").is_sparse
    assert choose(wide._replace(X=wide.X[:, :400])) == Way(300, is_sparse=True)
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


@pytest.mark.parametrize("weight", [None, weights(60)])
@pytest.mark.parametrize("rival", [None, -1])
def test_products_of_an_array_are_those_with_its_hessian(weight, rival):
    """Also where many losses are flat, and where the losses from above name no rival."""
    p = problem(weight=weight)
    found = solve(p, starts=1)
    duals = found.duals.copy()
    if rival is not None:
        duals.rival[:] = rival
    state = RowsNewton(p._replace(X=p.X.toarray()), duals, found.W, 1e-3)
    state.begin(1e-3)
    assert 0 < state.active < 60 and np.any(duals.beta > 0)
    H = np.tril(state._hessian())
    H += np.tril(H, -1).T
    V = np.random.default_rng(0).standard_normal(found.W.shape)
    V -= V.mean(axis=1, keepdims=True) if rival is None else 0.0
    assert state._hessian_times(V).T.ravel() == pytest.approx(H @ V.T.ravel(), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("rival", [None, -1])
@pytest.mark.parametrize("is_sparse", [True, False])
def test_a_preconditioner_divides_by_the_hessian_or_a_part_of_it(is_sparse, rival, monkeypatch):
    """All of it, its blocks of one class each, those of an array's largest features, its diagonal.

    As large as the problem is.
    """
    p = problem(weight=weights(60))
    found = solve(p, starts=1)
    duals = found.duals.copy()
    if rival is not None:
        duals.rival[:] = rival
    own = p if is_sparse else p._replace(X=p.X.toarray())
    state = RowsNewton(own, duals.copy(), found.W, 1e-3)
    state.begin(1e-3)
    H = slow.whole(state, slow.blocks(state))
    d, k = found.W.shape
    V = np.random.default_rng(0).standard_normal((d, k))
    V -= V.mean(axis=1, keepdims=True) if rival is None else 0.0

    def assert_divides_by(part):
        divided = np.linalg.solve(part, V.T.ravel()).reshape(k, d).T
        if rival is None:
            divided -= divided.mean(axis=1, keepdims=True)
        assert state._preconditioner()(V) == pytest.approx(divided, rel=1e-9, abs=1e-12)

    assert_divides_by(H)
    monkeypatch.setattr(state, "_division", lambda: None)
    assert_divides_by(H * np.kron(np.eye(k), np.ones((d, d))))
    monkeypatch.setattr(newton, "LARGEST_BLOCKS", k * d * d - 1)
    monkeypatch.setattr(newton, "_LARGEST_STEEP", 9 * k)
    steep = np.zeros(d)
    steep[np.argsort(-(p.X.toarray() ** 2).sum(axis=0))[:3]] = 1
    parts = np.eye(d) if is_sparse else np.maximum(np.outer(steep, steep), np.eye(d))
    assert_divides_by(H * np.kron(np.eye(k), parts))
    state.release()
    squares = (p.X.toarray() ** 2).sum(axis=0)
    monkeypatch.setattr(newton, "_SAID", 1.001 * squares[steep == 1].sum() / squares.sum())
    assert_divides_by(np.diag(np.diag(H)))


def test_a_large_problem_begins_at_least_squares():
    """Newton's method alone solves it, where it had to begin with coordinate descent."""
    generator, target = np.random.default_rng(0), np.arange(1010) % 6
    X = generator.standard_normal((6, 202))[target] + 3 * generator.standard_normal((1010, 202))
    loss = losses.mcodm(2.0**6, 0.2, 0.2, 1010.0)
    p = MultiProblem(X / 10, None, target, 6, np.ones(1010), loss)
    assert choose(p) == Way(0)
    solution = solve(p)
    assert_confirmed(p, solution, 1e-3)
    assert solution.solver == "newton" and solution.iterations < 30
    assert solution.objective <= (1 + 1e-2) * solve(p, solver="dcd").objective


@pytest.mark.parametrize("seed", range(5))
def test_large_features_leave_the_hessian_definite(seed):
    """Where all classes move together it is 1, among numbers as large as lambda |x|^2."""
    X, target = examples(seed=seed)
    X, loss = X.toarray(), losses.mcodm(2.0**20, 0.5, 0.3, 60.0)
    X[:, 0] *= 1e8
    p = MultiProblem(X, None, target, 4, np.ones(60), loss)
    nothing = Duals(np.zeros((60, 4)), np.zeros(60), np.full(60, -1), np.full(60, np.inf))
    state = RowsNewton(p, nothing, np.zeros((6, 4)), 1e-3)
    state.begin(1e-3)
    assert state._division()
