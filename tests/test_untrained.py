"""What there is of a problem that no time is left for."""

import numpy as np
import pytest
import test_mcsvm
from problems import problem, weights
from test_certificates import certificate
from test_steps import LOSSES

from odmtool import solvers
from odmtool.core import deadline, kernels, losses
from odmtool.machines import MACHINES
from odmtool.machines.pairs import PairGrams
from odmtool.rows.executor import Serial
from odmtool.rows.spread import SpreadRows, gram_of
from odmtool.solvers import run
from odmtool.solvers.auto import Schedule
from odmtool.solvers.base import Stop
from odmtool.solvers.mcsvm import auto as mcsvm_auto
from odmtool.solvers.untrained import NONE, untrained

X, LABELS = np.random.default_rng(0).standard_normal((60, 4)), np.arange(60) % 4


ALL = LOSSES | {
    "mamc": lambda lambda_: losses.mamc(lambda_, 60),
    "svr": lambda lambda_: losses.svr(lambda_, 0.1, 60),
    "lssvm": lambda lambda_: losses.lssvm(lambda_, 60),
}  # fmt: skip


@pytest.mark.parametrize("kernel", [None, "rbf"])
@pytest.mark.parametrize("machine", ALL)
def test_nothing_is_as_good_as_it_says(machine, kernel):
    p = problem(kernel, loss=ALL[machine](64.0), weight=weights())
    found = untrained(p)
    best = solvers.solve(p, tolerance=1e-6)
    assert best.converged and found.dual <= best.primal <= found.primal
    assert found.gap == pytest.approx((found.primal - found.dual) / (abs(found.primal) or 1))
    assert np.isfinite(found.gap) and not found.converged and found.support_count == 0
    if machine != "kmomd":
        assert found.primal == pytest.approx(certificate(p, found).primal, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("way", ["two", "ovo", "ovr", "ecoc"])
@pytest.mark.parametrize("name", ["odm", "ldm", "l1svm", "kmomd", "mamc"])
def test_after_the_deadline_no_kernel_matrix_is_made(name, way, jobs, monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("kernel values were made")

    for module, function in ((kernels, "gram"), (kernels, "block"), (PairGrams, "_fill")):
        monkeypatch.setattr(module, function, refuse)
    multiclass = {} if way == "two" else {"multiclass": way}
    machine = MACHINES[name](kernel="rbf", jobs=jobs, **multiclass)
    with deadline.time_limit(0):
        found = machine.fit(X, LABELS % 2 if way == "two" else LABELS).solution_
    assert found.solver == NONE and found.support_count == 0


@pytest.mark.parametrize("solver", ["sodm", "nystrom", "dsvrg"])
@pytest.mark.parametrize("labels", [LABELS, LABELS % 2], ids=["four", "two"])
def test_solvers_in_parts_are_not_begun_either(solver, labels):
    machine = MACHINES["odm"](kernel="linear" if solver == "dsvrg" else "rbf", solver=solver)
    with deadline.time_limit(0):
        found = machine.fit(X, labels).solution_
    assert found.solver == NONE and machine.model_.facts["solver"] == NONE


def test_a_start_is_better_than_nothing():
    machine = MACHINES["odm"](kernel="rbf")
    first = machine.fit(X, LABELS % 2).solution_
    with deadline.time_limit(0):
        nothing = machine.fit(X, LABELS % 2).solution_
        found = machine.fit(X, LABELS % 2, start=first.eta).solution_
    assert found.primal < nothing.primal


def test_no_other_solver_begins_after_the_deadline(monkeypatch):
    p = problem("rbf", lambda_=2.0**20)
    monkeypatch.setattr(run, "choose", lambda *_: Schedule("dcd", 1))
    with deadline.time_limit(None) as limit:
        found = solvers.solve(p, tolerance=1e-9, progress=lambda now: now.iteration and limit.end())
    assert found.solver == "dcd" and found.iterations == 1 and not found.converged


@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_problems_that_were_not_begun_are_counted(kernel, multiclass):
    machine = MACHINES["odm"](kernel=kernel, multiclass=multiclass)
    count = 6 if multiclass == "ovo" else 4
    with deadline.time_limit(0):
        none = machine.fit(X, LABELS).solution_
    assert (none.problems, none.untrained, none.support_count) == (count, count, 0)
    whole = machine.fit(X, LABELS).solution_
    assert (whole.problems, whole.untrained) == (count, 0) and whole.objective < none.objective
    with deadline.time_limit(None) as limit:
        some = machine.fit(X, LABELS, progress=lambda now: now.iteration and limit.end())
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


@pytest.mark.parametrize("kernel", [None, "poly", "rbf"])
def test_rows_in_pieces_are_looked_at_where_they_are(kernel):
    p = problem(kernel)
    rows = p.X if kernel is None else p.gram.X
    spread = SpreadRows([rows[:25], rows[25:]], [25, 35], rows.shape[1], 0, Serial())
    gram = None if kernel is None else gram_of(p.gram.kernel, spread, np.inf)
    other = p._replace(X=spread if kernel is None else None, gram=gram)
    assert untrained(other).dual == pytest.approx(untrained(p).dual)
