"""What machines hand on to the solvers for large data, and what they record of them."""

from types import SimpleNamespace

import pytest
from problems import problem

from odmtool.core.loss_table import SMOOTH
from odmtool.errors import MemoryLimitError, UsageError
from odmtool.machines import ODM
from odmtool.rows import cluster
from odmtool.rows.executor import Serial, local_executor
from odmtool.solvers.large import dsvrg, nystrom, scale, sodm
from odmtool.solvers.settings import Settings
from odmtool.solvers.table import way_of


def machine(solver, kernel="linear", **arguments):
    settings = Settings(**arguments.pop("settings", {}))
    known = {"max_iter": None, "tolerance": 1e-3, "seed": 5, "jobs": 2, "memory": 1e9}
    return SimpleNamespace(solver=solver, kernel=kernel, settings=settings, **known | arguments)


def asked(monkeypatch, solver, given, p, start="start"):
    """What the solver of a machine is called with."""
    module, calls = {"nystrom": nystrom, "sodm": sodm, "dsvrg": dsvrg}[solver], []

    def solve(*arguments, **options):
        calls.append((arguments, options))
        return ("solution", 0.75) if solver == "nystrom" else "solution"

    monkeypatch.setattr(module, "solve", solve)
    assert scale.solve(given, p, start, "progress") == "solution"
    ((arguments, options),) = calls
    assert arguments[0] is p and options["seed"] == 5 and options["progress"] == "progress"
    assert type(options["executor"]) is type(local_executor(2))
    return arguments[1:], options


@pytest.mark.parametrize("most", [None, 7])
def test_what_a_solver_is_called_with(monkeypatch, most):
    p = problem("rbf")
    for landmarks, count in ((50, 50), (99, 60)):
        given = machine("nystrom", "rbf", max_iter=most, settings={"landmarks": landmarks})
        (stop, number), options = asked(monkeypatch, "nystrom", given, p)
        assert number == count and given.captured_ == 0.75 and "start" not in options
        limit = way_of("nystrom", SMOOTH, "rbf").limit if most is None else most
        assert (stop.tolerance, stop.limit) == (1e-3, limit)
    chosen = {"branch": 2, "strata": 9, "stop_level": 1, "partition_by": "random",
              "cascade": True, "partitions": 8}  # fmt: skip
    for solver, kernel in (("sodm", "rbf"), ("sodm", None), ("dsvrg", None)):
        q = problem(kernel)
        given = machine(solver, kernel or "linear", max_iter=most, settings=chosen)
        (stop, told), options = asked(monkeypatch, solver, given, q)
        assert told == Settings(**chosen) and given.levels_ == []
        limit = way_of(solver, SMOOTH, kernel or "linear").limit if most is None else most
        assert (stop.tolerance, stop.limit) == (1e-3, limit) and options["start"] == "start"
        if solver == "sodm":
            options["report"]("level")
            assert given.levels_ == ["level"]
        else:
            assert "report" not in options


def test_tasks_on_a_cluster_have_to_fit(monkeypatch):
    """In this process nobody asks."""
    closed = []

    class Elsewhere(Serial):
        shares_memory, task_memory = False, 1e3

        def close(self):
            closed.append(True)

    monkeypatch.setattr(cluster, "Dask", lambda scheduler, memory: Elsewhere())
    given = machine("sodm", settings={"scheduler": "there"})
    with pytest.raises(MemoryLimitError):
        scale.solve(given, problem(), None, lambda now: None)
    assert closed == [True]
    Elsewhere.task_memory = 1e9
    assert scale.solve(given, problem(), None, lambda now: None).converged
    assert closed == [True, True]
    with scale.cluster(given) as executor:
        assert isinstance(executor, Elsewhere)
    assert len(closed) == 3
    here = machine("sodm", settings={"partitions": 3})
    monkeypatch.setattr(scale.tasks, "check_task", lambda *_: pytest.fail("it shares the memory"))
    assert scale.solve(here, problem(), None, lambda now: None).converged


def test_what_the_model_file_records():
    level = SimpleNamespace(level=2)
    assert scale.facts(machine("nystrom", captured_=0.25)) == {"trace_captured": "0.25"}
    chosen = {"partition_by": "cluster"}
    done = machine("sodm", settings=chosen, levels_=[SimpleNamespace(level=3), level])
    assert scale.facts(done) == {"partition_by": "cluster", "level": "2"}
    assert scale.facts(machine("sodm", levels_=[])) == {} == scale.facts(machine("dcd"))
    assert scale.facts(machine("dsvrg", levels_=[level])) == {}


@pytest.mark.parametrize("name, least", [
    ("partitions", 1), ("strata", 1), ("branch", 2), ("stop_level", 0), ("landmarks", 1),
])  # fmt: skip
def test_settings_have_a_least_number(name, least):
    Settings(**{name: least}).check()
    Settings(partitions=None).check()
    with pytest.raises(UsageError, match=str(least)):
        Settings(**{name: least - 1}).check()
    # Whether the solver reads it or not.
    with pytest.raises(UsageError, match=f"at least {least}"):
        ODM(solver="newton", settings=Settings(**{name: least - 1})).check()
