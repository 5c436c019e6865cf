"""What ``auto`` takes, and when it leaves it."""

import numpy as np
import pytest
from problems import problem
from scipy import sparse

from odmtool import solvers
from odmtool.core import deadline, losses
from odmtool.core.columns import canonical
from odmtool.core.csr import CSR
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.machines import MACHINES
from odmtool.solvers import auto, linear_cost
from odmtool.solvers import run as solver_run
from odmtool.solvers.base import LARGEST_HESSIAN, Problem, Solution
from odmtool.solvers.descent.trend import Trend
from odmtool.solvers.newton.spaces import FunctionSpace, WeightSpace, space_of
from odmtool.solvers.run import SolverRun


def test_auto_hands_over_to_newton(monkeypatch):
    monkeypatch.setattr(auto, "_SMALL_GRAM", 0)
    monkeypatch.setattr(linear_cost, "newton_cost", lambda p: 9 * linear_cost.epoch_cost(p.X))
    monkeypatch.setattr(linear_cost, "descent_cost", lambda p: 0.0)
    for kernel in (None, "precomputed"):
        solution = solvers.solve(problem(kernel, lambda_=2.0**20), tolerance=1e-9)
        assert solution.solver == "dcd, then newton" and solution.converged
        easy = solvers.solve(problem(kernel, lambda_=1e-3), tolerance=1e-2)
        assert easy.solver == "dcd" and easy.converged


@pytest.mark.parametrize(
    ("gap", "enough"),
    [
        (lambda epoch: 0.9**epoch, 66),  # the same factor in every epoch
        (lambda epoch: epoch**-0.5, 1_000_000),  # ever more slowly
    ],
)
def test_trend_foresees_how_many_epochs_are_needed(gap, enough):
    for factor, is_too_slow in ((0.8, True), (1.25, False)):
        trend, most = Trend(), factor * enough
        epochs = range(1, min(enough, 300))
        found = [trend.is_too_slow(n, gap(n), 1e-3, most) for n in epochs]
        assert any(found) == is_too_slow
    flat = Trend()
    assert [flat.is_too_slow(n, 0.5, 1e-3, 10**9) for n in range(1, 17)].index(True) == 15
    nearly = Trend()  # more doublings are foreseen than a number holds epochs
    gaps = [0.5 - 1e-5 * np.log2(n) for n in range(1, 17)]
    found = [nearly.is_too_slow(n, gap, 1e-3, 10**9) for n, gap in enumerate(gaps, 1)]
    assert found.index(True) == 15


def test_a_trend_begins_anew_where_the_gap_was_not_that_of_the_problem():
    """As of LDM, whose first epochs are those of a wrong mean; a gap that stays large is slow."""
    trend = Trend()
    risen = [0.04, 0.02, 0.005, 0.0017, 0.0009, *(0.016 * 0.83**n for n in range(15))]
    assert not any(trend.is_too_slow(n, gap, 1e-3, 400) for n, gap in enumerate(risen, 1))
    trend = Trend()
    stays = [0.04, 0.02, 0.005, 0.0017, 0.0009, *[0.016] * 40]
    found = [trend.is_too_slow(n, gap, 1e-3, 400) for n, gap in enumerate(stays, 1)]
    assert found.index(True) == 31


def test_auto_does_not_wait_for_slow_descent(monkeypatch):
    monkeypatch.setattr(linear_cost, "newton_cost", lambda p: 900 * linear_cost.epoch_cost(p.X))
    monkeypatch.setattr(linear_cost, "descent_cost", lambda p: 0.0)
    hard = problem(None, lambda_=2.0**20)
    assert not solvers.solve(hard, solver="dcd", tolerance=1e-9, max_iter=900).converged
    found = solvers.solve(hard, tolerance=1e-9)
    assert found.solver == "dcd, then newton" and found.converged and found.iterations < 300


def wide(m, d):
    """Rows that are far from each other, with labels of a plane and a tenth of them wrong."""
    random = np.random.default_rng(3)
    X = random.standard_normal((m, d))
    y = np.where((X @ random.standard_normal(d) > 0) ^ (random.random(m) < 0.1), 1.0, -1.0)
    return Problem(X, None, y, np.ones(m), losses.odm(2.0**14, 0.5, 0.3, m))


def test_auto_tries_coordinate_descent_where_features_are_more_than_examples(monkeypatch):
    """However large lambda is, unless Newton's method takes no longer than the trial."""
    p = wide(150, 600)
    trial = linear_cost.trial_cost(p.X)
    assert linear_cost.descent_cost(p) > 2 * trial
    monkeypatch.setattr(linear_cost, "newton_cost", lambda p: trial)
    assert auto.choose(p) == auto.Schedule("newton")
    monkeypatch.setattr(linear_cost, "newton_cost", lambda p: 1.01 * trial)
    first, epochs, then, _last = auto.choose(p)
    assert (first, then) == ("dcd", "newton") and epochs >= 20
    found = solvers.solve(p)
    assert found.solver == "dcd" and found.converged and found.iterations <= 20
    narrow = wide(600, 600)
    monkeypatch.setattr(linear_cost, "newton_cost", lambda p: linear_cost.descent_cost(p))
    assert auto.choose(narrow) == auto.Schedule("newton")


def test_auto_weighs_the_costs_of_linear_problems():
    """Of wide rows, by lambda: gradients on w, or coordinate descent; of few a Gram matrix."""
    m, d = 2000, 5000
    X = CSR.of(sparse.random(m, d, density=0.005, random_state=1, format="csr"))
    y = np.where(np.arange(m) % 2, 1.0, -1.0)
    easy, hard = (
        Problem(X, None, y, np.ones(m), losses.odm(lambda_, 0.5, 0.3, m))
        for lambda_ in (1.0, 2.0**22)
    )
    assert auto.choose(easy) == auto.Schedule("newton")
    assert isinstance(space_of(easy), WeightSpace)
    first, epochs, *_ = auto.choose(hard)
    assert first == "dcd" and epochs > auto.choose(hard._replace(weight=np.ones(m) / 4)).epochs > 1
    few = Problem(X[np.arange(90)], None, y[:90], np.ones(90), hard.loss)
    assert auto.choose(few) == auto.Schedule("newton")
    assert isinstance(space_of(few), FunctionSpace)
    narrow = CSR(X.data, X.indices % 20, X.indptr, (m, 20))
    for p in (easy, hard):
        assert auto.choose(p._replace(X=narrow)) == auto.Schedule("newton")


@pytest.mark.parametrize("m, alone, then", [
    (400, auto.Schedule("newton", then="dcd"), "newton"),
    (1600, auto.Schedule(auto.EITHER, 40), "landmarks"),
    (2600, auto.Schedule(auto.EITHER, 65), None), (7900, auto.Schedule(auto.EITHER, 197), None),
    (7901, auto.Schedule("landmarks"), None),
])  # fmt: skip
def test_auto_begins_each_of_many_with_descent(m, alone, then):
    y, loss = np.where(np.arange(m) % 2, 1.0, -1.0), losses.odm(64.0, 0.5, 0.3, m)
    p = Problem(None, Gram(Kernel("rbf", gamma=1.0), np.zeros((m, 2)), 1e9), y, np.ones(m), loss)
    assert auto.choose(p) == alone
    among_many = auto.choose(p, is_one_of_many=True)
    assert among_many == (auto.Schedule("dcd", m // 40, then) if then else alone)


@pytest.mark.parametrize("loss", [losses.l1svm(64.0, 400.0), losses.ldm(64.0, 1.0, 1.0, 400.0)])
def test_with_a_jump_too_each_of_many_begins_with_descent(loss):
    y, gram = np.where(np.arange(400) % 2, 1.0, -1.0), Gram(Kernel("rbf", 1.0), np.eye(400), 1e9)
    p = Problem(None, gram, y, np.ones(400), loss)
    assert auto.choose(p) == auto.Schedule("newton", then="dcd")
    assert auto.choose(p, is_one_of_many=True) == auto.Schedule("dcd", 20)


@pytest.mark.parametrize("m, memory, plan", [
    (390, 1e9, auto.Schedule("newton", then="dcd")), (390, 72 * 389**2, auto.Schedule("dcd")),
    (400, 1e9, auto.Schedule("dcd", 20)), (1251, 1e9, auto.Schedule("dcd")),
])  # fmt: skip
def test_with_two_jumps_newton_has_every_example_twice(m, memory, plan):
    y, loss = np.where(np.arange(m) % 2, 1.0, -1.0), losses.svr(64.0, 0.1, m)
    p = Problem(None, Gram(Kernel("rbf", 1.0), np.zeros((m, 2)), memory), y, np.ones(m), loss)
    assert auto.choose(p) == plan


@pytest.mark.parametrize("lambda_", [2.0**4, 2.0**16])
def test_newton_with_two_jumps_and_a_kernel_is_where_descent_ends(lambda_):
    """At a large lambda descent does not get there."""
    generator = np.random.default_rng(2)
    X = generator.standard_normal((60, 2))
    y, loss = np.where(X[:, 0] * X[:, 1] > 0.2, 1.0, -1.0), losses.svr(lambda_, 0.1, 60)
    p = Problem(None, Gram(Kernel("rbf", 0.5), X), y, np.ones(60), loss)
    newton = solvers.solve(p, solver="newton", tolerance=1e-6)
    descent = solvers.solve(p, solver="dcd", tolerance=1e-6)
    assert newton.converged and solvers.solve(p).solver == "newton"
    if lambda_ < 100:
        assert descent.converged and newton.coef == pytest.approx(descent.coef, abs=1e-2)
    else:
        assert not descent.converged
    assert newton.primal <= descent.primal * (1 + 1e-6)


@pytest.mark.parametrize("m", [40, 360])
@pytest.mark.parametrize("name", ["svr", "l1svm", "odm", "ldm"])
def test_newton_with_more_features_than_a_hessian_has(name, m):
    """With examples as rows, and all losses: that of svr is in two parts, one for each jump."""
    X = sparse.random(m, 2 * LARGEST_HESSIAN, density=0.02, random_state=m, format="csr")
    y = np.where(np.arange(m) % 3, 1.0, -1.0)
    given = {"svr": (64.0, 0.1), "l1svm": (64.0,), "odm": (64.0, 0.2, 0.2), "ldm": (1.0, 1.0, 64.0)}
    loss = getattr(losses, name)(*given[name], m)
    p = Problem(canonical(X), None, y, np.ones(m), loss)
    newton, descent = (solvers.solve(p, solver=s, tolerance=1e-6) for s in ("newton", "dcd"))
    assert newton.converged and newton.solver == "newton"
    assert newton.primal == pytest.approx(descent.primal, rel=1e-5)


@pytest.mark.parametrize("d, gamma, solver", [(2, 0.5, "landmarks"), (40, 0.02, "dcd")])
def test_auto_tells_by_a_sample_whether_landmarks_are_enough(d, gamma, solver):
    """Of middling problems coordinate descent takes those that they do not span."""
    m, generator = 1600, np.random.default_rng(0)
    X = generator.standard_normal((m, d))
    y, loss = np.where(X[:, 0] + X[:, 1] ** 2 > 1, 1.0, -1.0), losses.odm(2.0**12, 0.5, 0.3, m)
    p = Problem(None, Gram(Kernel("rbf", gamma=gamma), X), y, np.ones(m), loss)
    found, exact = solvers.solve(p), solvers.solve(p, solver="newton", tolerance=1e-9)
    assert found.solver == solver and found.converged
    assert exact.primal * (1 - 1e-9) <= found.primal <= exact.primal * (1 + 2e-3)
    assert solvers.solve(p, solver="landmarks").solver.startswith("landmarks")
    # Nothing is left to it when the time is over.
    with deadline.time_limit(0.0):
        assert solvers.solve(p).solver == "landmarks"


def test_auto_tries_descent_where_newton_ends_at_no_model():
    """A polynomial of features that are not scaled, and a loss with a jump."""
    generator = np.random.default_rng(3)
    X = generator.uniform(0, 200, (80, 5))
    y = np.where(X[:, 0] * X[:, 1] > 1e4, 1, -1)
    fitted = {}
    for solver in ("newton", "dcd", "auto"):
        machine = MACHINES["l1svm"](kernel="poly", degree=5, coef0=1.0, lambda_=1024.0,
                                    solver=solver)
        fitted[solver] = machine.fit(sparse.csr_matrix(X), y).solution_
    assert fitted["auto"].primal == fitted["dcd"].primal < 0.9 * fitted["newton"].primal
    assert fitted["auto"].solver == "newton, then dcd"


def test_auto_takes_a_matrix_where_features_hide_the_solution(monkeypatch):
    """Polynomial kernels of features that are not scaled: landmarks would end unconverged."""
    generator, m = np.random.default_rng(4), 1600
    X, u = 30 * generator.standard_normal((m, 3)), np.ones(m)
    y, loss = np.where(X[:, 0] * X[:, 1] > 50, 1.0, -1.0), losses.odm(2.0**10, 0.5, 0.2, m)
    gram = Gram(Kernel("poly", 1.0, 1.0, 2), CSR.of(sparse.csr_matrix(X)).matrix())
    p = Problem(None, gram, y, u, loss)
    largest = losses.largest_slope(loss) * gram.diagonal().max()
    found = solvers.solve(p)
    assert auto.choose(p).first == "dcd" and found.converged and "newton" in found.solver
    for size, has_matrix in ((2.0**23, False), (2.0**25, True), (2.0**52, True), (2.0**54, False)):
        weight = u * size / largest
        assert (auto.choose(p._replace(weight=weight)).first == "dcd") == has_matrix
    little = p._replace(gram=gram.within(1.9 * gram.bytes))
    assert auto.choose(little).first == "landmarks"


def test_auto_takes_a_matrix_where_no_example_is_near_another():
    """Newton's method beyond landmarks took 7.6 s for svmguide1 as it comes; this takes .7."""
    X = np.random.default_rng(4).uniform(-40, 40, (1600, 4))
    loss = losses.odm(2.0**18, 0.5, 0.2, 1600)
    gram = Gram(Kernel("rbf", 0.5), X, 1e9)
    p = Problem(None, gram, np.sign(X[:, 0] * X[:, 1]), np.ones(1600), loss)
    assert auto.choose(p) == auto.Schedule("dcd", 40, "newton")
    assert solvers.solve(p).converged
    assert auto.choose(p._replace(gram=gram.within(1.9 * gram.bytes))).first == "landmarks"
    near = p._replace(gram=Gram(Kernel("rbf", 5e-4), X, 1e9))
    assert auto.choose(near).first == auto.EITHER


# ---- where landmarks are not enough ----------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3])
def test_newton_follows_where_single_precision_is_not_enough(k, monkeypatch):
    """It ended after 200 steps that led nowhere, with the gap of w = 0."""
    monkeypatch.setattr(auto, "_SMALL_GRAM", 500)
    monkeypatch.setattr("odmtool.solvers.engine.solve.instead", lambda *given: None)
    rng = np.random.default_rng(0)
    X = rng.random((501, 8))
    labels = rng.integers(0, k, 501)
    machine = MACHINES["odm"](kernel="rbf", gamma=1.0, mu=0.8, theta=0.8, lambda_=2.0**20,
                              multiclass="ovr")  # fmt: skip
    found = machine.fit(X, labels).solution_
    assert found.converged and found.gap <= 1e-3 and found.solver.endswith("on the whole matrix")
    alone = machine.copy(solver="landmarks", max_iter=3).fit(X, labels).solution_
    assert not alone.converged


def test_when_newton_follows_landmarks(monkeypatch):
    """Not without room, after the iterations or the time, or where landmarks were asked for."""
    called, primal = [], {"landmarks": 3.0, "newton": 2.0}

    def one(run, p, name, start, epochs=None, follows=False):
        called.append((name, run.max_iter, follows, start is None))
        gap = {"landmarks": 0.5, "newton": 1.5}[name]
        return Solution(
            None, np.zeros(3), np.zeros(3), primal[name], primal[name] - gap, gap, 7, False, name
        )

    monkeypatch.setattr(SolverRun, "_one", one)
    monkeypatch.setattr(solver_run, "choose", lambda *_: auto.Schedule("landmarks"))
    p = problem("rbf", lambda_=1.0)

    def solved(solver="auto", max_iter=None, memory=np.inf):
        called.clear()
        gram = p.gram.within(memory)
        found = solvers.solve(p._replace(gram=gram), solver=solver, max_iter=max_iter)
        return found.solver, found.gap, found.iterations

    whole = "landmarks, then newton on the whole matrix"
    # The lower one, where none has converged.
    both = (whole, 1.5, 14)
    assert solved() == both
    assert called == [("landmarks", None, True, True), ("newton", None, False, True)]
    assert solved(max_iter=8) == both and called[1] == ("newton", 1, False, True)
    first = ("landmarks", 0.5, 7)
    assert solved(max_iter=7) == first
    room = 2 * 8 * p.size**2
    assert solved(memory=room) == both and solved(memory=room - 1) == first
    assert called == [("landmarks", None, False, True)]
    assert solved("landmarks") == first
    monkeypatch.setattr(deadline, "is_over", lambda: bool(called))
    assert solved() == first
    monkeypatch.undo()
    monkeypatch.setattr(SolverRun, "_one", one)
    monkeypatch.setattr(solver_run, "choose", lambda *_: auto.Schedule("landmarks"))
    primal["newton"] = 3.5
    assert solved() == (whole, 0.5, 14)


def test_newton_after_landmarks_takes_1_gb_at_most():
    assert auto.has_room(7905, 1e12) and not auto.has_room(7906, 1e12)
    assert not auto.has_room(7905, 0.99e9)
    # Of pairs of classes nobody knows yet how large they are.
    assert auto.newton_bytes(7906, 1e12) == 0 and auto.newton_bytes(7906, 1e12, 2) == 1.15 * 2e9
    assert auto.newton_bytes(1000, 1e12, 2) == 2 * auto.newton_bytes(1000, 1e12) == 1.15 * 32e6
    assert auto.newton_bytes(7906, 1.5e9, 2) == 1.5e9
