"""Wherever the time ends, there is a solution, and its gap is true."""

import m3svm_problems
import mcodm_problems
import pytest
import test_mcsvm
from problems import problem, weights
from test_certificates import certificate
from test_steps import BINARY, LOSSES

from odmtool import solvers
from odmtool.core import deadline
from odmtool.judge import mcsvm as judge_of_mcsvm
from odmtool.solvers.base import Stop
from odmtool.solvers.m3svm import adam
from odmtool.solvers.m3svm import newton as m3svm
from odmtool.solvers.mcodm import auto as mcodm
from odmtool.solvers.mcsvm import auto as mcsvm_auto

# So many looks at the clock find time left.
LOOKS = (0, 1, 2, 3, 4, 5, 6, 7, 9, 12, 17, 25, 40)


@pytest.fixture
def ends_after(monkeypatch):
    """A function: after so many looks at the clock the time is over, for so many seconds.

    It returns a list, which is empty as long as there is time.
    """

    def after(looks: int, seconds: float = 1.0) -> list:
        left, ended = iter(range(looks)), []

        def seconds_left() -> float:
            if next(left, None) is not None:
                return 1.0
            ended.append(looks)
            return -seconds

        monkeypatch.setattr(deadline, "seconds_left", seconds_left)
        return ended

    return after


@pytest.mark.parametrize("machine, solver, kernel", BINARY)
def test_two_classes(machine, solver, kernel, ends_after):
    for looks in LOOKS:
        p = problem(kernel, loss=LOSSES[machine](2.0**14), weight=weights())
        ended = ends_after(looks)
        found = solvers.solve(p, solver=solver, tolerance=1e-12)
        judged = certificate(p, found)
        assert found.primal == pytest.approx(judged.primal, rel=1e-9, abs=1e-9), looks
        assert judged.gap <= found.gap * (1 + 1e-9) + 1e-11, looks
        if not ended:
            break  # with more looks it would be the same run


@pytest.mark.parametrize("kernel", [None, "rbf"])
@pytest.mark.parametrize("machine", LOSSES)
@pytest.mark.parametrize("seconds", [1.0, 1e9])
def test_auto(machine, kernel, seconds, ends_after):
    for looks in LOOKS:
        p = problem(kernel, loss=LOSSES[machine](2.0**14), weight=weights())
        ended = ends_after(looks, seconds)
        found = solvers.solve(p, tolerance=1e-12)
        judged = certificate(p, found)
        assert judged.gap <= found.gap * (1 + 1e-9) + 1e-11, looks
        if not ended:
            break  # as above


@pytest.mark.parametrize("kernel", [None, "rbf"])
@pytest.mark.parametrize("looks", LOOKS)
def test_several_classes(kernel, looks, ends_after):
    q = test_mcsvm.problem(kernel, weights())
    ends_after(looks)
    found = mcsvm_auto.solve(q, Stop(1e-12, 900))
    judged = mcodm_problems.certificate(q, found, judge_of_mcsvm)
    assert judged.gap <= found.gap * (1 + 1e-9) + 1e-11
    ends_after(looks)
    p = mcodm_problems.problem(kernel)
    found = mcodm.solve(p, Stop(1e-12, 2000))
    assert found.gap >= 0 and found.objective > 0
    if kernel is None:
        for solver in (m3svm, adam):
            ends_after(looks)
            found = solver.solve(m3svm_problems.problem(), Stop(1e-12, 300))
            assert found.gradient >= 0 and found.objective > 0
