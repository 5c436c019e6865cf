"""What there is of a problem that no time is left for."""

import numpy as np
import pytest
import test_mcsvm
from problems import problem, weights
from test_certificates import certificate
from test_steps import LOSSES

from odmtool import solvers
from odmtool.core import deadline
from odmtool.machines import MACHINES
from odmtool.solvers import mcsvm_auto, run
from odmtool.solvers.auto import Schedule
from odmtool.solvers.base import Stop
from odmtool.solvers.untrained import NONE, untrained


@pytest.mark.parametrize("kernel", [None, "rbf"])
@pytest.mark.parametrize("machine", LOSSES)
def test_nothing_is_as_good_as_it_says(machine, kernel):
    if machine == "kmomd":
        pytest.skip("has no w = 0")
    p = problem(kernel, loss=LOSSES[machine](64.0), weight=weights())
    found = untrained(p)
    judged = certificate(p, found)
    assert found.primal == pytest.approx(judged.primal, rel=1e-12)
    assert found.gap == np.inf or found.gap == pytest.approx(judged.gap, rel=1e-12)
    assert np.isfinite(found.gap) == (machine not in ("ldm", "mamc"))
    assert not found.converged and found.support_count == 0


@pytest.mark.parametrize("machine", LOSSES)
def test_after_the_deadline_no_kernel_matrix_is_made(machine, monkeypatch):
    p = problem("rbf", loss=LOSSES[machine](64.0))
    with deadline.time_limit(0):
        found = solvers.solve(p)
    if machine == "kmomd":
        assert found.solver == "newton" and found.support_count > 0
    else:
        assert found.solver == NONE and not p.gram.is_computed


def test_a_start_is_better_than_nothing():
    p = problem("rbf")
    first = solvers.solve(p, tolerance=1e-1)
    with deadline.time_limit(0):
        found = solvers.solve(p, start=first.eta)
    assert found.primal < untrained(p).primal


def test_no_other_solver_begins_after_the_deadline(monkeypatch):
    p = problem("rbf", lambda_=2.0**20)
    monkeypatch.setattr(run, "choose", lambda *_: Schedule("dcd", 1))
    with deadline.time_limit(None) as limit:
        found = solvers.solve(p, tolerance=1e-9, progress=lambda now: now.iteration and limit.end())
    assert found.solver == "dcd" and found.iterations == 1 and not found.converged


@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_problems_that_were_not_begun_are_counted(kernel, multiclass):
    rng = np.random.default_rng(0)
    X, labels = rng.standard_normal((60, 4)), np.arange(60) % 4
    machine = MACHINES["odm"](kernel=kernel, multiclass=multiclass)
    count = 6 if multiclass == "ovo" else 4
    with deadline.time_limit(0):
        none = machine.fit(X, labels).solution_
    assert (none.problems, none.untrained, none.support_count) == (count, count, 0)
    whole = machine.fit(X, labels).solution_
    assert (whole.problems, whole.untrained) == (count, 0) and whole.objective < none.objective
    with deadline.time_limit(None) as limit:
        some = machine.fit(X, labels, progress=lambda now: now.iteration and limit.end())
        some = some.solution_
    assert 0 < some.untrained < count and some.objective < none.objective


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_mcsvm_ends_with_descent(kernel):
    """With a kernel it went on to Newton's method, which is linear."""
    p = test_mcsvm.problem(kernel)
    with deadline.time_limit(None) as limit:
        found = mcsvm_auto.solve(
            p, Stop(1e-12, 900), progress=lambda now: now.iteration > 2 and limit.end()
        )
    assert not found.converged and found.solver == "dcd" and found.iterations > 0
