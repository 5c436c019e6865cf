"""Landmarks for losses that jump, and for LDM: the judge confirms every bound."""

import numpy as np
import pytest
from problems import examples

from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.judge.binary import certify_kernel, kernel_matrix
from odmtool.machines import machine_named
from odmtool.solvers import auto
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.engine import certificate, jumps, sample
from odmtool.solvers.engine.cost import Cost, DescentCost
from odmtool.solvers.ldm import descent, dual

LOSSES = {
    "l1svm": losses.l1svm,
    "svr": lambda lambda_, total: losses.svr(lambda_, 0.2, total),
    "ldm": lambda lambda_, total: losses.ldm(0.5, 0.25, lambda_, total),
    "ldm without variance": lambda lambda_, total: losses.ldm(0.0, 0.25, lambda_, total),
}
KERNELS = {
    "rbf": Kernel("rbf", 0.03, bias=0.5),
    "poly": Kernel("poly", 0.2, 1.0, 2),
}


def problem_of(kernel, loss, lambda_=200.0, m=160, seed=0, dense=False):
    X, y = examples(m, 5, seed)
    weight = np.random.default_rng(seed).uniform(0.1, 4.0, m)
    X = X.toarray() if dense else X
    return Problem(None, Gram(kernel, X, 1e9), y, weight, LOSSES[loss](lambda_, weight.sum()))


def judged(problem, found):
    K = kernel_matrix(problem.gram.kernel, problem.gram.X, problem.gram.X)
    return certify_kernel(K, problem.y, problem.weight, problem.loss, found.coef, found.eta)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("way", ["free", "drawn", "exact"])
def test_the_judge_confirms_the_bound(force, monkeypatch, way, kernel, loss):
    force(way)
    if way != "free":
        monkeypatch.setattr(certificate, "free", lambda *_: np.inf)
    problem = problem_of(KERNELS[kernel], loss, dense=way == "drawn")
    found = jumps.solve(problem, Stop(0.05, 1000))
    said = judged(problem, found)
    assert found.solver == "landmarks" and found.support_count <= 48
    assert found.failure == (certificate.DELTA if way == "drawn" else 0.0)
    assert found.converged and found.gap <= 0.05 and found.iterations > 0
    assert found.primal == pytest.approx(said.primal, rel=1e-9)
    assert said.gap <= found.gap * (1 + 1e-9)
    if way == "exact":
        assert found.gap == pytest.approx(said.gap, rel=1e-6)


@pytest.mark.parametrize("memory", [1e9, 1e4])
@pytest.mark.parametrize("loss", LOSSES)
def test_landmarks_that_are_not_enough_start_others(force, loss, memory):
    """Hardly anything of an example is in the span of others; with room for matrices or none."""
    force("free", stages=(5,))
    problem = problem_of(Kernel("rbf", 20.0), loss, 2.0**8)
    problem = problem._replace(gram=Gram(problem.gram.kernel, problem.gram.X, memory))
    found, told = None, []
    found = jumps.solve(problem, Stop(1e-4, 1000), progress=told.append)
    assert found.solver.startswith("landmarks, then ") and found.converged
    assert found.failure is None and judged(problem, found).gap <= 1e-4 * (1 + 1e-6)
    steps = [now.iteration for now in told]
    assert steps == sorted(steps) and found.iterations == steps[-1]
    # The problem in the span has no kernel matrix.
    unkept = [now.unkept for now in told]
    assert unkept[0] == 0 and unkept[-1] == (problem.size if memory == 1e4 else 0)


def test_newton_follows_where_descent_is_slow(force, monkeypatch):
    force("free")
    monkeypatch.setattr(jumps, "_EPOCHS", 2)
    for loss in ("l1svm", "ldm"):
        problem = problem_of(KERNELS["rbf"], loss, 2.0**14)
        found = jumps.solve(problem, Stop(1e-3, 1000))
        assert found.solver == "landmarks" and found.iterations > 2
        assert judged(problem, found).gap <= found.gap * (1 + 1e-9)
    # svr has no Newton method, so that its epochs go on.
    assert jumps._newton(problem_of(KERNELS["rbf"], "svr")) is None


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("limit", [1, 7])
def test_the_limit_of_iterations_is_kept(force, loss, limit):
    force("free", stages=(5,))
    problem = problem_of(Kernel("rbf", 20.0), loss, 2.0**16)
    found = jumps.solve(problem, Stop(1e-9, limit))
    assert found.iterations <= limit and not found.converged


def test_what_comes_where_landmarks_are_not_enough_costs_less_than_for_other_losses():
    smooth, descent = (kind(20_000, 10.0, False, 8 * 20_000.0**2) for kind in (Cost, DescentCost))
    assert descent.beyond(20_000, 1e4, np.inf) < smooth.beyond(20_000, 1e4, np.inf)
    less = descent._replace(tiles=0.0)
    assert isinstance(less, DescentCost) and less.beyond(1, 1, 1) > 2 * descent.beyond(1, 1, 1)
    assert DescentCost.of(np.zeros((20_000, 10)), 8 * 20_000.0**2) == descent


def test_landmarks_of_all_examples_where_those_of_the_sample_end(monkeypatch):
    """Few examples are far from the others, and not in the sample."""
    monkeypatch.setattr(sample, "_SAMPLE", 60)
    problem = problem_of(Kernel("rbf", 3.0), "ldm", 2.0**14, m=600, dense=True)
    far = problem.gram.X[::15].copy()
    problem.gram.X[:] *= 0.05
    problem.gram.X[::15] = far
    found = jumps.solve(problem, Stop(1e-3, 1000))
    assert found.solver == "landmarks" and found.converged and found.support_count > 60
    assert judged(problem, found).gap <= found.gap * (1 + 1e-9)


def test_the_same_as_descent_on_all_kernel_values_and_again(force):
    problem = problem_of(KERNELS["rbf"], "ldm")
    first, again = (jumps.solve(problem, Stop(1e-4, 1000), seed=3) for _ in range(2))
    plain = descent.solve(problem, Stop(1e-6, 1000))
    assert first.primal == pytest.approx(plain.primal, rel=1e-4)
    assert np.array_equal(first.coef, again.coef) and first.gap == again.gap
    warm = jumps.solve(problem, Stop(1e-4, 1000), seed=3, start=first.eta)
    assert warm.converged and warm.iterations <= first.iterations
    assert dual.feasible(problem.loss, problem.weight, first.eta) is first.eta


@pytest.mark.parametrize("loss", LOSSES)
def test_what_errors_of_margins_do(loss):
    """To the sum of the losses and eta't, for the worst signs of errors of one size."""
    problem, error = problem_of(KERNELS["rbf"], loss), 1e-3
    random = np.random.default_rng(0)
    t, eta = random.normal(1.0, 1.0, problem.size), random.normal(size=problem.size)
    run = jumps._Run(problem, Stop(), 0, None, None)

    def own(t):
        row = losses.scaled(jumps._row(problem, t), problem.weight)
        return losses.value(row, t).sum() + eta @ t

    slopes = losses.derivative(losses.scaled(jumps._row(problem, t), problem.weight), t) + eta
    changes = [abs(own(t + error * s * np.sign(slopes)) - own(t)) for s in (-1, 1)]
    assert max(changes) <= run._rounding(error, t, eta) <= 10 * max(changes)


@pytest.mark.parametrize("name", ["l1svm", "svr", "ldm"])
def test_auto_takes_them_where_examples_are_many(name):
    machine = machine_named(name)(kernel="rbf", gamma=0.1)
    assert machine.takes_landmarks(2501) and not machine.takes_landmarks(2500)
    assert not machine_named(name)(kernel="linear").takes_landmarks(10**5)
    assert not machine_named(name)(kernel="sigmoid", gamma=0.1).takes_landmarks(10**5)
    problem = problem_of(Kernel("rbf", 0.1), name, m=2501)
    assert auto.choose(problem) == auto.Schedule("landmarks")
    fewer = problem_of(Kernel("rbf", 0.1), name, m=2500)
    assert auto.choose(fewer).first == "dcd"


def test_kmomd_has_none():
    assert not machine_named("kmomd")(kernel="rbf", gamma=0.1).takes_landmarks(10**5)
