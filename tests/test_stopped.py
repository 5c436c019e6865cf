"""Solvers that are stopped far from the solution tell the truth about it, to nine digits.

Near the solution a gap is a difference in which the last digits cancel, and compared with an
absolute tolerance. After a few iterations no rounding shows, so that gap, objectives and what
follows from them have to be those of the judge relatively. And where rounding is all that is
left, no solver goes on and on.
"""


import m3svm_problems
import mcodm_problems
import numpy as np
import pytest
import test_mcsvm
from problems import problem, weights
from test_certificates import certificate
from test_steps import BINARY, LOSSES

from odmtool import solvers
from odmtool.core import losses
from odmtool.judge import mcsvm as judge_of_mcsvm
from odmtool.solvers import rounding, run
from odmtool.solvers.auto import Schedule
from odmtool.solvers.base import Stop
from odmtool.solvers.m3svm import adam
from odmtool.solvers.m3svm import newton as m3svm
from odmtool.solvers.mcodm import auto as mcodm
from odmtool.solvers.mcsvm import descent as mcsvm
from odmtool.solvers.mcsvm import newton as mcsvm_newton
from odmtool.solvers.paths import path
from odmtool.solvers.rounding import Rounding

ENDLESS = 1e-300


def assert_same_numbers(mine, judged, hidden=1e-11):
    # What rounding may hide is added to a gap; how much that is depends on the processor.
    assert mine.gap == pytest.approx(judged.gap, rel=1e-9, abs=hidden)
    assert judged.gap <= mine.gap * (1 + 1e-12) + 1e-15


@pytest.mark.parametrize("machine, solver, kernel", [k for k in BINARY if k[1] != "landmarks"])
def test_two_classes(machine, solver, kernel):
    for count, weight in ((0, None), (1, weights()), (2, None), (5, weights())):
        p = problem(kernel, loss=LOSSES[machine](64.0), weight=weight)
        found = solvers.solve(p, solver=solver, tolerance=ENDLESS, max_iter=count)
        judged = certificate(p, found)
        # The dual of KM-OMD is a difference of some that are alike.
        assert_same_numbers(found, judged, hidden=1e-10 if machine == "kmomd" else 1e-11)
        assert found.primal == pytest.approx(judged.primal, rel=1e-12)
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
        p = mcodm_problems.problem(kernel, weight, lambda_=8.0)
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
    for count, weight in ((1, None), (3, m3svm_problems.some_weights())):
        p = m3svm_problems.problem(loss, power, weight=weight)
        found = m3svm.solve(p, Stop(ENDLESS, count))
        judged = m3svm_problems.certificate(p, found)
        assert found.gap == pytest.approx(judged.gap, rel=1e-9)
        assert found.objective == pytest.approx(judged.primal, rel=1e-12)
        at_zero = m3svm_problems.certificate(p, found._replace(W=0 * found.W, bias=0 * found.bias))
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
    # Else one of the two sizes is enough by the first bound, and the other by a closer one.
    monkeypatch.setattr(Stop, "negligible", lambda _stop, _scale: 0.0)

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
        r = m3svm_problems.problem()
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
