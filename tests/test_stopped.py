"""Solvers that are stopped far from the solution tell the truth about it, to nine digits.

Near the solution a gap is a difference in which the last digits cancel, and compared with an
absolute tolerance. After a few iterations no rounding shows, so that gap, objectives and what
follows from them have to be those of the judge relatively. And where rounding is all that is
left, no solver goes on and on.
"""

import copy

import mcodm_problems
import numpy as np
import pytest
import test_m3svm
import test_mcsvm
from problems import examples, problem, weights
from test_certificates import certificate
from test_steps import BINARY, LOSSES

from odmtool import solvers
from odmtool.core import deadline, gram, losses
from odmtool.core.kernels import Kernel
from odmtool.judge import mcodm as judge_of_mcodm
from odmtool.judge import mcsvm as judge_of_mcsvm
from odmtool.solvers import dcd, hessian, mcsvm, mcsvm_newton, path, rounding, run
from odmtool.solvers.auto import Schedule
from odmtool.solvers.base import Stop
from odmtool.solvers.ldm import descent as ldm_descent
from odmtool.solvers.m3svm import adam
from odmtool.solvers.m3svm import newton as m3svm
from odmtool.solvers.mcodm import auto as mcodm
from odmtool.solvers.mcodm import dense as mcodm_dense
from odmtool.solvers.mcodm import descent as mcodm_descent
from odmtool.solvers.mcodm import newton as mcodm_newton
from odmtool.solvers.mcodm import rounds as mcodm_rounds
from odmtool.solvers.mcodm import sparse as mcodm_sparse
from odmtool.solvers.mcodm.terms import evaluate
from odmtool.solvers.mcodm.way import Way
from odmtool.solvers.rounding import Rounding

ENDLESS = 1e-300


def assert_same_numbers(mine, judged):
    # What rounding may hide is added to a gap.
    assert mine.gap == pytest.approx(judged.gap, rel=1e-9, abs=1e-11)
    assert judged.gap <= mine.gap * (1 + 1e-12) + 1e-15


@pytest.mark.parametrize("machine, solver, kernel", [k for k in BINARY if k[1] != "landmarks"])
def test_two_classes(machine, solver, kernel):
    for count, weight in ((0, None), (1, weights()), (2, None), (5, weights())):
        p = problem(kernel, loss=LOSSES[machine](64.0), weight=weight)
        found = solvers.solve(p, solver=solver, tolerance=ENDLESS, max_iter=count)
        judged = certificate(p, found)
        assert_same_numbers(found, judged)
        assert found.primal == pytest.approx(judged.primal, rel=1e-12)
        # That of KM-OMD is a difference of some that are alike.
        assert found.dual == pytest.approx(judged.dual, rel=1e-9, abs=1e-10)
        # Stochastic ones have as many epochs again for the duals that prove it.
        most = 2 * count if solver in ("svrg", "asgd") else count
        assert found.iterations <= most and (found.iterations == count or machine == "kmomd"
                                             or solver in ("svrg", "asgd"))
        assert found.converged == (found.gap <= ENDLESS)


@pytest.mark.parametrize("kernel", [None, "rbf", "poly"])
@pytest.mark.parametrize("weighted", [False, True])
def test_several_classes(kernel, weighted):
    weight = weights() if weighted else None
    for count in (1, 3, 7):
        p = mcodm_problems.problem(kernel, weight, lambda_=64.0)
        for solver in ("dcd", "newton")[: 1 if kernel else 2]:
            found = mcodm.solve(p, Stop(ENDLESS, count), solver=solver, starts=1)
            judged = mcodm_problems.certificate(p, found)
            assert_same_numbers(found, judged)
            assert found.objective == pytest.approx(judged.objective, rel=1e-12)
            assert found.iterations == count and not found.converged
        p = test_mcsvm.problem(kernel, weight)
        for module in (mcsvm, mcsvm_newton)[: 1 if kernel else 2]:
            found = module.solve(p, Stop(ENDLESS, count))
            judged = mcodm_problems.certificate(p, found, judge_of_mcsvm)
            assert_same_numbers(found, judged)
            assert found.objective == pytest.approx(judged.primal, rel=1e-12)
            assert found.iterations == count and not found.converged


@pytest.mark.parametrize("loss", ["hinge", "pairwise", "softmax"])
@pytest.mark.parametrize("power", [1.0, 1.5, 4.0])
def test_pairs_of_classes(loss, power):
    for count, weight in ((1, None), (3, test_m3svm.some_weights())):
        p = test_m3svm.problem(loss, power, weight=weight)
        found = m3svm.solve(p, Stop(ENDLESS, count))
        judged = test_m3svm.certificate(p, found)
        assert found.gap == pytest.approx(judged.gap, rel=1e-9)
        assert found.objective == pytest.approx(judged.primal, rel=1e-12)
        at_zero = test_m3svm.certificate(p, found._replace(W=0 * found.W, bias=0 * found.bias))
        assert found.gradient == pytest.approx(judged.gradient / at_zero.gradient, rel=1e-9)
        assert found.iterations == count and not found.converged


# The iterations that it took, of 3000; rounding decides it, so half as many more are allowed.
GIVEN_UP = {
    ("odm", "newton", None): 11, ("odm", "newton", "rbf"): 9, ("odm", "newton", "poly"): 11,
    ("l1svm", "newton", None): 78, ("l1svm", "newton", "rbf"): 74, ("l1svm", "newton", "poly"): 79,
    ("l1svm", "path", None): 122, ("l1svm", "path", "rbf"): 96, ("l1svm", "path", "poly"): 99,
    ("ldm", "newton", None): 64, ("ldm", "newton", "rbf"): 88, ("ldm", "newton", "poly"): 67,
    ("ldm", "path", None): 119, ("ldm", "path", "rbf"): 92, ("kmomd", "newton", None): 2,
    ("kmomd", "newton", "rbf"): 1, ("kmomd", "newton", "poly"): 2,
}  # fmt: skip


@pytest.mark.parametrize("machine, solver, kernel", GIVEN_UP)
def test_what_rounding_hides_is_given_up(machine, solver, kernel):
    p = problem(kernel, loss=LOSSES[machine](64.0))
    found = solvers.solve(p, solver=solver, tolerance=ENDLESS, max_iter=3000)
    assert found.iterations <= 1.5 * GIVEN_UP[machine, solver, kernel] + 3
    assert certificate(p, found).gap <= max(found.gap, 1e-15) <= 1e-11
    # Nothing is worse than before it was given up.
    before = solvers.solve(p, solver=solver, tolerance=1e-6)
    assert found.gap <= max(before.gap, 1e-15) and np.isfinite(found.coef).all()


def hidden(monkeypatch, find):
    """What a gap has beyond that of the judge, times the scale, by two sizes of an operation's
    rounding; ``find`` gives a gap, the judge's and their scale."""
    found = []
    for bits in (20, 21):
        monkeypatch.setattr(rounding, "UNIT", 2.0 ** (bits - 53))
        gap, judged, scale = find()
        found.append((gap - judged) * scale)
    # Terms are of the first order and of the second.
    assert 0 < 1.9 * found[0] < found[1] < 4.1 * found[0]
    return found[1]


# Where a bound is that of the whole solution, whichever way it was computed.
PLAIN = [
    (machine, solver, kernel) for machine, solver, kernel in BINARY
    if kernel != "rbf" and (machine == "l1svm" or machine == "odm" and solver == "dcd")
]  # fmt: skip


@pytest.mark.parametrize(
    "machine, solver, kernel", [case for case in BINARY if case[1] != "landmarks"]
)
def test_what_rounding_may_hide_is_in_the_gap(machine, solver, kernel, monkeypatch):
    p = problem(kernel, loss=LOSSES[machine](64.0), weight=weights())

    def find():
        nonlocal solution
        solution = solvers.solve(p, solver=solver, tolerance=1e-3, max_iter=300)
        scale = 1.0 if solution.gap == 0 else (solution.primal - solution.dual) / solution.gap
        return solution.gap, certificate(p, solution).gap, scale

    solution = None
    found = hidden(monkeypatch, find)
    if (machine, solver, kernel) in PLAIN:
        t, eta, loss = p.margins(solution.coef), solution.eta, losses.scaled(p.loss, p.weight)
        expected = Rounding.of(p).gap(loss, t, solution.coef, eta, 0.0, solution.w)
        assert found == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("kernel", [None, "rbf", "poly"])
def test_what_rounding_may_hide_of_several_classes(kernel, monkeypatch):
    p = mcodm_problems.problem(kernel, lambda_=64.0)

    def find():
        found = mcodm.solve(p, Stop(1e-3, 300), starts=1)
        return found.gap, mcodm_problems.certificate(p, found).gap, found.objective

    hidden(monkeypatch, find)
    q = test_mcsvm.problem(kernel)
    for module in (mcsvm, mcsvm_newton)[: 1 if kernel else 2]:

        def find_other(module=module):
            found = module.solve(q, Stop(1e-3, 300))
            judged = mcodm_problems.certificate(q, found, judge_of_mcsvm)
            return found.gap, judged.gap, found.objective

        hidden(monkeypatch, find_other)


def assert_told(run, most=1, knows_gap=True):
    """Each iteration is told, in order, and at last what is returned.

    That may be summed up afresh, and differ in the last digits.
    """
    told = []
    found = run(told.append)
    assert np.diff([0, *(now.iteration for now in told)]).max(initial=0) <= most
    assert all(a.iteration <= b.iteration for a, b in zip(told, told[1:], strict=False))
    assert told[-1].iteration == found.iterations
    if knows_gap:
        assert told[-1].gap == pytest.approx(found.gap, rel=1e-9, abs=0.0)
        primal = found.primal if hasattr(found, "primal") else found.objective
        assert told[-1].primal == pytest.approx(primal, rel=1e-12, abs=0.0)


TWO = [("ldm", "svrg", None), ("ldm", "asgd", None)]


@pytest.mark.parametrize("machine, solver, kernel", [case for case in BINARY if case not in TWO])
def test_what_is_told_at_last_is_the_result(machine, solver, kernel):
    p = problem(kernel, loss=LOSSES[machine](64.0))
    # Newton's method for a jump is told where it is looked at; a path at its end.
    by_parts = machine in ("l1svm", "ldm") and solver in ("newton", "path")
    assert_told(lambda progress: solvers.solve(
        p, solver=solver, tolerance=1e-6, max_iter=300, progress=progress
    ), np.inf if by_parts else 1, (machine, solver) != ("ldm", "newton"))  # fmt: skip


@pytest.mark.parametrize("machine, solver, kernel", TWO)
def test_others_count_on(machine, solver, kernel):
    """Stages or epochs are told one by one, and those of the solver that proves the gap added."""
    told, p = [], problem(kernel, loss=LOSSES[machine](64.0))
    found = solvers.solve(p, solver=solver, tolerance=1e-6, max_iter=300, progress=told.append)
    assert [now.iteration for now in told] == list(range(len(told)))
    assert found.iterations > told[-1].iteration and found.solver == f"{solver}, then dcd"
    less = solvers.solve(p, solver=solver, tolerance=1e-6, max_iter=4)
    assert 4 < less.iterations <= 8


@pytest.mark.parametrize("kernel", [None, "rbf", "poly"])
def test_what_is_told_of_several_classes(kernel):
    p, q = mcodm_problems.problem(kernel), test_mcsvm.problem(kernel)
    for solver in ("dcd", "newton")[: 1 if kernel else 2]:
        assert_told(lambda progress, solver=solver: mcodm.solve(
            p, Stop(1e-3, 3000), solver=solver, starts=1, progress=progress
        ))  # fmt: skip
    assert_told(lambda progress: mcsvm.solve(q, Stop(1e-4, 300), progress=progress))
    if kernel is None:
        r = test_m3svm.problem()
        assert_told(lambda progress: mcsvm_newton.solve(q, Stop(1e-4, 99), progress=progress), 99)
        assert_told(lambda progress: m3svm.solve(r, Stop(1e-4, 300), progress=progress))
        assert_told(lambda progress: adam.solve(r, Stop(1e-2, 300), progress=progress))


@pytest.mark.parametrize("kernel", [None, "rbf"])
@pytest.mark.parametrize("epochs", [1, 3])
def test_the_iterations_of_two_solvers_are_added(kernel, epochs, monkeypatch):
    p = problem(kernel)
    monkeypatch.setattr(run, "choose", lambda *_: Schedule("dcd", epochs))
    first = solvers.solve(p, solver="dcd", tolerance=1e-9, max_iter=epochs)
    second = solvers.solve(p, solver="newton", tolerance=1e-9, start=first.eta)
    found = solvers.solve(p, tolerance=1e-9)
    assert second.iterations > 0 and found.iterations == epochs + second.iterations
    assert found.solver == "dcd, then newton" and np.array_equal(found.eta, second.eta)
    # One that is enough has no other.
    monkeypatch.setattr(run, "choose", lambda *_: Schedule("dcd", 999))
    alone = solvers.solve(p, tolerance=1e-2)
    assert alone.solver == "dcd" and alone.converged


@pytest.mark.parametrize("machine", ["l1svm", "ldm"])
def test_the_iterations_of_a_path_and_what_follows(machine, monkeypatch):
    p = problem(loss=LOSSES[machine](64.0))
    first = path.solve(p, Stop(1e-6, 3000))
    monkeypatch.setattr(path.Track, "solution", lambda self, problem, stop, changed: (
        first._replace(converged=False, gap=0.5, eta=first.eta / 2)
    ))  # fmt: skip
    second = path._newton(p, Stop(1e-6, 3000), first.eta / 2, lambda now: None)
    found = path.solve(p, Stop(1e-6, 3000))
    assert second.iterations > 0 and found.solver == "path, then newton"
    assert found.iterations == first.iterations + second.iterations
    assert isinstance(found.track, path.Track) and np.array_equal(found.eta, second.eta)


@pytest.fixture
def ends_at(monkeypatch):
    """Let the time be over when rows are fetched for the n-th time; the list of fetches."""
    fetch, fetched = gram.RowCache.fetch, []

    def set_end(limit, number):
        def counted(self, examples):
            fetched.append(len(examples))
            if len(fetched) == number:
                limit.end()
            fetch(self, examples)

        monkeypatch.setattr(gram.RowCache, "fetch", counted)
        return fetched

    return set_end


# Of 60 examples 20 have room, and a run has 10.
LITTLE = 20 * 60 * 8


@pytest.mark.parametrize("number", [2, 8])
def test_an_epoch_without_the_matrix_ends_with_the_time(ends_at, number):
    """After this run, with no rows for anything else; what is said of the iterate is true."""
    p = problem("rbf", memory=LITTLE)
    whole = solvers.solve(p, solver="dcd", max_iter=number // 6 + 1, tolerance=ENDLESS)
    with deadline.time_limit(None) as limit:
        fetched = ends_at(limit, number)
        stopped = solvers.solve(p, solver="dcd", tolerance=ENDLESS)
    assert len(fetched) == number and stopped.iterations == whole.iterations
    assert np.count_nonzero(stopped.eta) and stopped.dual < whole.dual
    assert not stopped.converged
    assert_same_numbers(stopped, certificate(p, stopped))


@pytest.mark.parametrize("memory, number", [(LITTLE, 14), (np.inf, 3)])
def test_ldm_keeps_what_it_has_when_the_time_is_over(ends_at, memory, number):
    """In the second epoch; the first fetches are those of the start."""
    p = problem("rbf", losses.ldm(1.5, 0.7, 42.0, 60), memory=memory)
    start = solvers.solve(p, solver="dcd", max_iter=0)
    with deadline.time_limit(None) as limit:
        fetched = ends_at(limit, number)
        stopped = solvers.solve(p, solver="dcd", tolerance=ENDLESS)
    assert len(fetched) >= number and stopped.iterations == 2
    assert stopped.primal < start.primal and stopped.dual > start.dual
    assert_same_numbers(stopped, certificate(p, stopped))


@pytest.mark.parametrize("number", [2, 8])
def test_several_classes_end_with_the_time_too(ends_at, number):
    p = test_mcsvm.problem("rbf", memory=LITTLE)
    with deadline.time_limit(None) as limit:
        fetched = ends_at(limit, number)
        stopped = mcsvm.solve(p, Stop(ENDLESS))
    assert len(fetched) == number and stopped.support_count > 0 and not stopped.converged
    judged = test_mcsvm.certificate(p, stopped)
    assert stopped.gap == pytest.approx(judged.gap, rel=1e-9)
    p = mcodm_problems.problem("rbf", memory=LITTLE)
    descent = mcodm_descent.KernelDescent(p, mcodm_problems.nothing(p), 0)
    descent.begin(ENDLESS)
    with deadline.time_limit(None) as limit:
        fetched.clear()
        ends_at(limit, 2)
        assert descent.iterate() == (np.inf, False)
    assert len(fetched) == 2 and descent.active > 30
    assert np.allclose(descent.scores(), p.gram.rows(np.arange(60)) @ descent.keep())


@pytest.mark.parametrize("number", [2, 8])
def test_mcodm_ends_with_the_time_and_tells_its_gap(ends_at, number):
    p = mcodm_problems.problem("rbf", memory=LITTLE)
    with deadline.time_limit(None) as limit:
        fetched = ends_at(limit, number)
        stopped = mcodm_problems.solve(p, solver="dcd")
    assert len(fetched) == number and stopped.iterations == number // 6 + 1
    judged = mcodm_problems.certificate(p, stopped)
    assert stopped.gap == pytest.approx(judged.gap, rel=1e-9) and not stopped.converged


def test_what_is_not_visited_stays_active():
    """Behind what stays of the runs before; the order is one of all examples."""
    cache = gram.RowCache(gram.Gram(Kernel("rbf", 0.4), examples()[0], LITTLE))
    order = np.random.default_rng(0).permutation(60)
    active, seen = 45, []
    with deadline.time_limit(None) as limit:

        def visit(part):
            seen.extend(part)
            if len(seen) == 20:
                limit.end()
            return 4, float(len(seen)), 1.0

        before = order.copy()
        kept, moves, estimate = gram.epoch_in_runs(cache, order, active, visit)
    assert seen == before[:20].tolist() and moves == [10.0, 20.0] and estimate == np.inf
    assert kept == 8 + 25 and np.array_equal(np.sort(order), np.arange(60))
    assert order[:8].tolist() == [*before[:4], *before[10:14]]
    assert order[8:kept].tolist() == before[20:45].tolist()
    with deadline.time_limit(0.0):
        seen.clear()
        kept, moves, estimate = gram.epoch_in_runs(cache, order, 20, visit)
    assert len(seen) == 10 and moves == [10.0] and kept == 14


def test_margins_are_added_up_anew_where_the_matrix_is_there(ends_at):
    p = problem("rbf")
    with deadline.time_limit(None) as limit:
        fetched = ends_at(limit, 2)
        solvers.solve(p, solver="dcd", tolerance=ENDLESS)
    # Two epochs, and the sums for the gap.
    assert fetched[:2] == [60, 60] and len(fetched) == 3


@pytest.fixture
def newton_of_mcodm(monkeypatch):
    """Make a state whose steps are by conjugate gradients, and a list of their products."""

    def make(is_array, has_blocks=False):
        for module in (mcodm_dense, mcodm_sparse):
            monkeypatch.setattr(module, "LARGEST_FACTOR", 0)
        monkeypatch.setattr(mcodm_dense, "LARGEST_FEATURE_FACTOR", 0)
        monkeypatch.setattr(mcodm_newton, "LARGEST_BLOCKS", np.inf if has_blocks else 0)
        kind = mcodm_dense.DenseNewton if is_array else mcodm_sparse.SparseNewton
        p, products, times = mcodm_problems.problem(lambda_=2.0**9, mu=1.0), [], kind._hessian_times

        def counted(self, V):
            products.append(V)
            return times(self, V)

        monkeypatch.setattr(kind, "_hessian_times", counted)
        p = p._replace(X=p.X.toarray()) if is_array else p
        state = kind(p, mcodm_problems.nothing(p), np.zeros((p.X.shape[1], p.k)), 1e-3)
        state.begin(1e-3)
        return state, products

    return make


def true_objective(state):
    loss = evaluate(state.problem, state.duals, state.problem.X @ state.W).true_loss
    return np.vdot(state.W, state.W) / 2 + loss


@pytest.mark.parametrize("is_array", [True, False])
def test_conjugate_gradients_of_mcodm_end_with_the_time(is_array, newton_of_mcodm, monkeypatch):
    """With what they have, and then the lowest point is taken, which is an earlier one or this."""
    state, products = newton_of_mcodm(is_array)
    rises, shortened, lowest, limit = 0, 0, np.inf, deadline.Limit()
    monkeypatch.setattr(deadline, "is_over", lambda: len(products) >= limit.moment)
    for _ in range(6):
        before, W = copy.deepcopy(state), state.W
        products.clear()
        state.iterate()
        lowest = min(lowest, true_objective(before) * (1 + 1e-12))
        rises += true_objective(state) > lowest
        for number in range(len(products)):
            late, limit.moment = copy.deepcopy(before), number
            products.clear()
            late.iterate()
            assert len(products) == max(1, number)
            late.settle()
            assert true_objective(late) <= lowest
            shortened += not np.array_equal(late.W, W)
            p, duals = late.problem, late.duals
            judged = judge_of_mcodm.certify_linear(
                p.X, p.target, p.weight, p.parameters, late.W, duals
            )
            np.testing.assert_allclose(late.scores(), p.X @ late.W, atol=1e-12)
            C = duals.coefficients(p.target)
            assert late.dual_squared_norm() == pytest.approx(np.sum((p.X.T @ C) ** 2))
            assert judged.infeasibility <= 1e-13 * max(1.0, abs(duals.alpha).max())
        limit.moment = np.inf
    assert rises and shortened > 6


@pytest.mark.parametrize("is_array", [True, False])
@pytest.mark.parametrize("number", [1, 2, 5, 9, 14, 20, 30])
def test_newton_of_mcodm_ends_with_its_lowest_point(number, is_array, newton_of_mcodm, monkeypatch):
    """Nothing at all is no lower, and the gap is that of the judge."""
    state, products = newton_of_mcodm(is_array)
    monkeypatch.setattr(deadline, "is_over", lambda: len(products) >= number)
    p, seen = state.problem, []
    usual = mcodm_newton.SmoothedNewton.iterate

    def iterate(self):
        seen.append(true_objective(self))
        answer = usual(self)
        seen.append(true_objective(self))
        return answer

    monkeypatch.setattr(mcodm_newton.SmoothedNewton, "iterate", iterate)
    stopped = mcodm_rounds.solve(p, Stop(1e-3, 20000), Way(0, not is_array), starts=1)
    assert len(products) == number and not stopped.converged
    assert stopped.objective == pytest.approx(min(seen), rel=1e-12)
    judged = mcodm_problems.certificate(p, stopped)
    assert stopped.gap == pytest.approx(judged.gap, rel=1e-9)
    assert stopped.objective == pytest.approx(judged.objective, rel=1e-12)


@pytest.mark.parametrize("is_array", [True, False])
@pytest.mark.parametrize("looks", [0, 2, 3])
def test_without_time_for_blocks_the_diagonal_does(
    looks, is_array, newton_of_mcodm, monkeypatch
):
    """None is made after the first look at the clock that says so, and a step is taken."""
    state, products = newton_of_mcodm(is_array, has_blocks=True)
    seen, made = [], []
    usual = mcodm_newton.cholesky_in_place
    monkeypatch.setattr(mcodm_newton, "cholesky_in_place", lambda A: made.append(A) or usual(A))
    monkeypatch.setattr(deadline, "is_over", lambda: seen.append(0) or len(seen) > looks)
    before = true_objective(state)
    state.iterate()
    assert len(products) == 1 and true_objective(state) < before
    assert len(made) <= looks


def test_no_block_is_made_after_the_time():
    random, looks = np.random.default_rng(1), []
    X = random.standard_normal((40, 7))
    active, s = np.arange(40), random.uniform(1, 2, 40)
    whole = hessian.regularised_gram(X, active, s)
    for most in (0, 1, 99):
        looks.clear()
        found = hessian.regularised_gram(
            X, active, s, lambda most=most: looks.append(0) or len(looks) > most
        )
        assert found is None if most < 2 else np.array_equal(found, whole)


@pytest.mark.parametrize("number", [1, 3, 5])
@pytest.mark.parametrize("weight", [None, weights()], ids=["equal", "weighted"])
def test_the_start_of_ldm_ends_with_the_time(number, weight, ends_at):
    """With the rows that are there; one run, at least. It is no worse than nothing."""
    loss = losses.ldm(1.5, 0.7, 42.0, 60 if weight is None else weight.sum())
    p = problem("rbf", loss, weight=weight, memory=LITTLE)
    with deadline.time_limit(None) as limit:
        fetched = ends_at(limit, number)
        stopped = solvers.solve(p, solver="dcd", tolerance=ENDLESS)
    assert len(fetched) == number and stopped.iterations == 0
    assert np.flatnonzero(stopped.eta).tolist() == list(range(10 * number))
    assert stopped.eta.sum() == pytest.approx(p.weight.sum() / loss.total_weight * loss.mu2)
    assert_same_numbers(stopped, certificate(p, stopped))
    assert stopped.primal <= loss.lambda_ * p.weight.sum() / loss.total_weight


def test_sums_of_kernel_rows_end_with_the_time(ends_at):
    """Those of the epochs stay, or, of duals that are new, multiples of what was there."""
    p = problem("rbf", memory=LITTLE)
    state = dcd.state_of(p, None)
    state.epoch(np.arange(60), 60, np.inf)
    eta, values = state.eta.copy(), state._f.copy()
    exact = p.margins(eta)
    with deadline.time_limit(None) as limit:
        fetched = ends_at(limit, 3)
        assert np.array_equal(state.margins(), p.y * values) and len(fetched) == 3
        assert not state.assign(np.ones(60), may_fail=True)
    assert np.array_equal(state.eta, eta) and np.array_equal(state._f, values)
    state.multiply(0.25)
    np.testing.assert_allclose(state.margins(), exact / 4, rtol=1e-12)
    assert state.assign(np.ones(60)) and np.array_equal(state.eta, np.ones(60))
    np.testing.assert_allclose(state.margins(), p.margins(np.ones(60)), rtol=1e-12)


def test_ldm_takes_multiples_when_there_is_no_time_for_feasible_duals():
    loss = losses.ldm(1.5, 0.7, 42.0, 60)
    for total, bound, is_moved in ((0.35, 0.7, False), (99.0, 42.7, False), (-5.0, 0, True)):
        p = problem("rbf", loss, memory=LITTLE)
        alternation = ldm_descent._Alternation(p, np.full(60, total / 60), 0, False)
        eta = np.arange(60) / 29.5 * total / 60
        alternation.state.assign(eta)
        wanted = ldm_descent.feasible(loss, p.weight, eta)
        with deadline.time_limit(0.0):
            alternation.repair(wanted)
        expected = wanted if is_moved else eta * bound / total
        assert alternation.state.eta == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(alternation.state.margins(), p.margins(expected), atol=1e-12)
