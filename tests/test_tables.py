"""The tables of machines, kernels and solvers: what they say is so, and is said everywhere."""

import importlib
import inspect
import sys
from pathlib import Path

import numpy as np
import pytest
from problems import OTHER_LOSSES, examples, problem

from odmtool import solvers
from odmtool.core import kernel_table, loss_table
from odmtool.errors import UsageError
from odmtool.machines import MACHINES, machine_named
from odmtool.machines.base import machine as declared
from odmtool.solvers import table
from odmtool.solvers.settings import Settings

ROOT = Path(__file__).parent.parent
KINDS = (*loss_table.BINARY, loss_table.OF_MCODM, loss_table.OF_MCSVM, loss_table.OF_PAIRS)
sys.path.insert(0, str(ROOT / "docs"))
import make_tables  # noqa: E402


def test_the_table_of_the_docs_is_up_to_date():
    text = make_tables.PAGE.read_text(encoding="utf-8")
    assert make_tables.rendered(text) == text, "run make man"
    assert all(f"\n| `{name}` |" in text for name in table.SOLVERS)


def test_help_texts_and_manual_name_every_row(run):
    text = " ".join(run("train", "--help").out.split())
    manual = (ROOT / "man" / "odm-train.1").read_text(encoding="utf-8")
    manual = manual.replace(r"\-", "-").replace(r"\(aq", "'")
    for row in table.SOLVERS.values():
        assert row.name in text
        entry = manual.partition(f"\\fB{row.name}\\fR\n{row.title}")[2].partition("\n.TP")[0]
        limit = row.ways[0].limit
        assert entry and (limit is None or f"At most {limit} {row.iteration}" in entry)
    for name in (*loss_table.MACHINES, *kernel_table.KERNELS):
        assert name in text and (f"\n{name} " in manual or f"\\fB{name}\\fR" in manual)


@pytest.mark.parametrize("row", table.SOLVERS.values(), ids=lambda row: row.name)
def test_the_modules_of_a_solver_are_there_and_take_what_they_are_told(row):
    for way in row.ways:
        module = importlib.import_module(f"odmtool.solvers.{way.module}")
        assert set(way.losses) <= set(KINDS) and set(way.places) <= set(table.PLACES)
        assert set(way.reads) <= set(Settings._fields)
        if way.limit is None:
            assert callable(module.choose)
            continue
        taken = inspect.signature(module.solve).parameters
        # Those in parts are told by odmtool.solvers.large.scale, in their settings.
        told = () if row.in_parts else way.reads
        assert {"progress", *told} <= set(taken)
        if table.MEMORY in way.places:
            assert "seed" in taken


def test_a_kind_of_loss_has_one_module_at_a_place():
    for row in table.SOLVERS.values():
        for kind in KINDS:
            for place in table.PLACES:
                for kernel in kernel_table.KERNELS:
                    found = [w for w in row.ways if w == row.way(kind, kernel, place)]
                    serving = [
                        w for w in row.ways
                        if place in w.places and kind in w.losses and w.takes_kernel(kernel)
                    ]  # fmt: skip
                    assert serving == found


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda machine: machine.name)
@pytest.mark.parametrize("name", table.SOLVERS)
@pytest.mark.parametrize("kernel", kernel_table.KERNELS)
def test_a_machine_takes_a_solver_or_says_which_it_takes(machine, name, kernel):
    one = machine(solver=name, kernel=kernel)
    if kernel != "linear" and one.kind == loss_table.OF_PAIRS:
        with pytest.raises(UsageError, match="is linear"):
            one.check()
        return
    others = table.names_for(one.kind, kernel)
    if name in others:
        one.check()
        return
    with pytest.raises(UsageError) as refused:
        one.check()
    assert name in str(refused.value) and all(other in str(refused.value) for other in others)


def test_an_unknown_solver_is_refused_wherever_one_is_taken():
    from odmtool.places.disk import Disk
    from odmtool.places.place import Source
    from odmtool.places.workers import Workers
    from odmtool.solvers.large import scale, tasks

    binary, many = MACHINES["odm"](solver="magic"), MACHINES["mcodm"](solver="magic")
    X, y = examples()
    calls = [
        lambda: table.row_of("magic"),
        lambda: table.way_of("magic", loss_table.SMOOTH, "linear"),
        lambda: table.machines_of("magic"),
        lambda: table.settings_of_solver("magic"),
        lambda: solvers.solve(problem(None), solver="magic"),
        lambda: binary.fit(X, y),
        lambda: many.fit(X, y),
        lambda: binary.solve_part(problem(None), None, None),
        lambda: many.solve(many.prepare(X, y)),
        lambda: scale.solve(binary, problem(None), None, None),
        lambda: tasks.parts_at_first(100, "magic", Settings()),
        lambda: Disk(Source("data"), "folder").suited(binary),
        lambda: Workers(Source("data"), "scheduler").suited(binary),
    ]
    for position, call in enumerate(calls):
        with pytest.raises(UsageError, match="'magic'"):
            call()
            pytest.fail(f"call {position} took an unknown solver")


def test_solvers_that_need_a_machine_are_refused_without_one():
    for name in table.IN_PARTS:
        with pytest.raises(UsageError, match="unknown solver"):
            solvers.solve(problem("rbf"), solver=name)


def test_an_unknown_machine_or_loss_is_refused():
    from odmtool.solvers.m3svm.objective import M3SVMParameters, check_parameters

    for take in (loss_table.row_of, machine_named):
        with pytest.raises(UsageError, match="unknown machine 'magic'"):
            take("magic")
    with pytest.raises(UsageError, match="unknown loss"):
        check_parameters(M3SVMParameters("magic", 1.0))
    with pytest.raises(UsageError, match="unknown machine 'magic'"):
        declared(type("Magic", (MACHINES["odm"],), {"name": "magic"}))


def test_machines_travel_by_name():
    """Workers of a cluster import the class that a machine names."""
    import pickle

    for machine in MACHINES.values():
        sent = pickle.loads(pickle.dumps(machine(lambda_=3.0)))
        assert type(sent) is machine and sent.lambda_ == 3.0


def test_kinds_of_the_machines():
    kinds = {name: row.kind for name, row in loss_table.MACHINES.items()}
    for name, machine in MACHINES.items():
        assert machine().kind == kinds[name]
    assert kinds["odm"] == kinds["mamc"] == loss_table.SMOOTH
    assert kinds["l1svm"] == loss_table.ONE_JUMP and kinds["svr"] == loss_table.JUMPS
    assert OTHER_LOSSES["three jumps"].kind == loss_table.JUMPS
    # A band of no width has one jump.
    assert loss_table.svr(1.0, 0.0, np.float64(1.0)).kind == loss_table.ONE_JUMP
