"""What training from the disk keeps in memory: the plan, and what is decided by it."""

from __future__ import annotations

import contextlib
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from problems import examples, write

from odmtool.core.memory import COMPILER, LINKER, PROGRAM
from odmtool.errors import MemoryLimitError, UsageError
from odmtool.machines import MACHINES
from odmtool.places import disk, disk_memory, disk_training
from odmtool.places.place import Source
from odmtool.solvers.descent import dcd

TINY = 700
pytestmark = pytest.mark.usefixtures("tiny_blocks")


def test_the_plan_keeps_within_the_memory_or_refuses(tmp_path, open_store, monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", sys)  # where it is not loaded, it counts, too
    X, y = examples(60, 400, density=0.3)
    path = write(tmp_path / "data", X, y)
    store, _ = open_store(tmp_path, path, block_bytes=TINY)
    base = PROGRAM
    monkeypatch.setattr(disk_memory, "resident", lambda: base)
    machine = MACHINES["odm"](memory=base + 100e6)
    plan = disk_memory.plan(machine, store)
    assert plan.solver == "newton" and 0 < sum(plan.parts.values()) <= machine.memory
    assert plan.left == pytest.approx(machine.memory - sum(plan.parts.values()))
    assert 0 <= plan.sample <= plan.left / 2
    # No place for the Hessian, or too wide for one: coordinate descent.
    store.shape = (60, 2990)
    assert disk_memory.plan(machine, store).solver == "dcd"
    with pytest.raises(MemoryLimitError, match="even with cache"):
        disk_memory.plan(machine.copy(solver="newton"), store)
    store.shape = (60, 3001)
    with pytest.raises(UsageError, match="takes at most 3000 features"):
        disk_memory.plan(machine.copy(solver="newton"), store)
    with pytest.raises(MemoryLimitError, match="even with cache"):
        disk_memory.plan(machine.copy(memory=base / 2), store)


def test_what_a_loss_with_a_jump_takes_is_planned(tmp_path, open_store, monkeypatch):
    """Three numbers for an example; where they have no room coordinate descent, which keeps one."""
    store, _ = open_store(tmp_path, write(tmp_path / "data", *examples()), block_bytes=TINY)
    monkeypatch.setattr(disk_memory, "resident", lambda: PROGRAM)
    machine = MACHINES["svr"](memory=1e10)
    plan = disk_memory.plan(machine, store)
    assert plan.solver == "newton" and plan.sample == 0 and disk_memory.has_newton(machine, 3000)
    few = plan.parts
    store.shape = (10**8, 7)
    more = disk_memory.plan(machine, store).parts
    assert more["duals and margins"] == 24 * 10**8 and few["duals and margins"] == 24 * 60
    assert few["rows"] > disk_memory._parts(MACHINES["odm"](), "newton", store, None, 1)["rows"]
    dcd = sum(disk_memory._parts(machine, "dcd", store, None, 1).values())
    assert disk_memory.plan(machine.copy(memory=dcd + 1e8), store).solver == "dcd"
    with pytest.raises(MemoryLimitError):
        disk_memory.plan(machine.copy(memory=dcd + 1e8, solver="newton"), store)
    one, three = (
        disk_memory._parts(machine, "newton", store, None, jobs)["matrices"] for jobs in (1, 3)
    )
    assert three >= 3 * one - 1


def test_where_matrices_cost_more_than_many_passes_a_jump_takes_descent(tmp_path, open_store):
    """A loss without a jump has few steps."""
    store, _ = open_store(tmp_path, write(tmp_path / "data", *examples()))
    store.shape, store.entries = (60, 500), 500**3 // 400
    for name, entries, solver in (
        ("l1svm", 0, "newton"), ("l1svm", -1, "dcd"), ("svr", -1, "dcd"), ("odm", -1, "newton"),
    ):  # fmt: skip
        store.entries = 500**3 // 400 + entries
        machine = MACHINES[name](memory=1e9)
        assert disk_memory.plan(machine, store).solver == solver
        assert disk_memory.plan(machine.copy(solver="newton"), store).solver == "newton"


def test_as_many_blocks_as_there_is_room_for(tmp_path, open_store, monkeypatch):
    store, _ = open_store(tmp_path, write(tmp_path / "data", *examples()), block_bytes=TINY)
    one, count = 3 * 2**20, len(store.starts) - 1
    monkeypatch.setattr(store, "block_bytes", lambda: 2**20, raising=False)
    assert count > 4

    def together(left, solver="dcd"):
        return disk_memory._together(solver, store, left)

    assert together(0.0) == together(LINKER + 0.9 * one) == 1 == together(1e9, "newton")
    assert together(LINKER + 2.1 * one) == 3 and together(1e9) == count
    # A first run, which compiles, has room for them as well; what is planned is what they take.
    machine = MACHINES["l1svm"](solver="dcd", memory=1e9)
    plan = disk_memory.plan(machine, store)
    assert plan.together == count and plan.parts["rows"] == count * one


def test_a_sample_that_says_little_of_the_rest_is_given_up(tmp_path):
    """A feature that few examples have, and large: the sample's Hessian made 200 steps of 4."""
    rng = np.random.default_rng(0)
    X, rare = rng.normal(size=(3000, 3)), rng.random(3000) < 0.01
    X[:, 2] = np.where(rare, 1000 * rng.random(3000), 0.0)
    labels = np.where(X[:, 0] + 2 * (X[:, 2] > 500) + 0.3 * rng.normal(size=3000) > 0, 1, -1)
    machine = MACHINES["odm"](lambda_=2.0**10, tolerance=1e-6)
    source = Source(write(tmp_path / "data", X, labels))
    with contextlib.closing(disk.Disk(source, str(tmp_path))) as here:
        data = here.read()
        plan = here.plan(machine, data)
        here.fit(machine, data, plan)
    assert plan.solver == "newton" and plan.sample > 0
    assert machine.solution_.converged and machine.solution_.iterations < 20


def test_little_memory_is_not_spent_on_compiled_code_to_read(tmp_path, monkeypatch):
    from odmtool.io import svmlight

    path = write(tmp_path / "data", *examples())
    monkeypatch.setattr(svmlight, "PLAIN_BYTES", 0)
    for memory, is_compiled in ((1e8, False), (1e12, True)):
        seen = []

        def in_order(tasks, _jobs, seen=seen):
            for function, *arguments in tasks:
                seen.append(function.__module__)
                yield function(*arguments)

        monkeypatch.setattr(svmlight, "_in_order", in_order)
        here = disk.Disk(Source(path, memory=memory), str(tmp_path))
        with contextlib.closing(here):
            here.read()
        assert set(seen) == {"odmtool.io._scan" if is_compiled else "odmtool.io._plain"}


def test_only_code_that_is_not_kept_has_to_be_compiled(tmp_path, monkeypatch, open_store):
    store, _ = open_store(tmp_path, write(tmp_path / "data", *examples()))
    monkeypatch.setattr(disk_memory, "sys", SimpleNamespace(modules={}))
    machine, counted = MACHINES["odm"](solver="dcd"), []
    for folder in (str(tmp_path), None):  # None: nothing can be kept
        monkeypatch.setattr("odmtool._jit.folder.cache_folder", lambda folder=folder: folder)
        monkeypatch.setattr(dcd.linear_epoch, "_codes", {})
        counted.append(disk_memory.plan(machine, store).parts["compiled code"])
    monkeypatch.undo()
    disk_training.fit(machine, store, None, disk_memory.plan(machine, store))
    counted.append(disk_memory.plan(machine, store).parts["compiled code"])
    assert counted == [COMPILER, COMPILER, LINKER]


def test_compiled_code_is_asked_for_as_it_is_called(tmp_path, start, heart):
    """The second of two runs finds all of it: no other arguments are meant."""
    planned = []
    for model in ("first", "second"):
        options = ["--cache", ".", "--solver", "dcd", "--max-iter", "1", "--memory", "1G"]
        _, err = start("train", "--verbose", *options, heart, model).communicate()
        planned.append(float(re.findall(r"compiled code ([0-9.]+) MB", err.decode())[0]))
    assert planned[1] == LINKER / 1e6


def test_a_refusal_names_the_data_and_what_takes_most(run, heart):
    outcome = run("train", "--cache", ".", "--memory", "1M", heart, "m")
    assert f"{heart}: even with --cache" in outcome.err
    # Not "most of it": it may be less than half.
    assert re.search(r"the largest part \([0-9.]+ MB\) is for the program;", outcome.err)



def test_blocks_depend_neither_on_threads_nor_on_what_happens_to_be_free(tmp_path, monkeypatch):
    monkeypatch.undo()  # blocks as they are for users
    assert {disk.block_size(memory) for memory in (5.4e8, 1e9, 1e12)} == {1 << 22}
    assert {disk.block_size(memory) for memory in (2.7e8, 3e8, 5e8)} == {1 << 21}
    assert disk.block_size(0.0) == 1 << 16
    rows = "+1 1:1 2:0.5\n-1 1:2\n" * 10_000
    (tmp_path / "data").write_text(rows)
    starts = []
    for jobs in (1, 5):
        source = Source(str(tmp_path / "data"), memory=1e7, jobs=jobs)
        with contextlib.closing(disk.Disk(source, str(tmp_path))) as here:
            starts.append(here.read().X.starts.tolist())
    assert starts[0] == starts[1] and len(starts[0]) > 2


def test_fewer_threads_before_another_solver(tmp_path, open_store):
    X, labels = examples()
    store, _ = open_store(tmp_path, write(tmp_path / "data", X, labels))
    machine = MACHINES["odm"](jobs=64)
    one, all_of_them = (
        sum(disk_memory._parts(machine, "newton", store, None, jobs).values()) for jobs in (1, 64)
    )
    plan = disk_memory.plan(machine.copy(memory=(one + all_of_them) / 2), store)
    assert plan.solver == "newton" and 1 < plan.jobs < 64
    # One thread goes from block to block, and no other takes memory.
    dcd = sum(disk_memory._parts(machine, "dcd", store, None, 1).values())
    assert disk_memory.plan(machine.copy(solver="dcd", memory=dcd + 1e6), store).solver == "dcd"


@pytest.mark.parametrize("options, copies", [([], 1), (["-B", "1"], 2)])
def test_many_classes_from_the_disk_are_planned_for(start, tmp_path, options, copies):
    """20 classes with 150,000 features, whose weights are 24 MB each time."""
    generator = np.random.default_rng(0)
    columns = np.sort(generator.integers(1, 150_000, (40, 2000)), axis=1)
    with open(tmp_path / "many", "w") as file:
        for k, row in enumerate(columns):
            print(k % 20, *(f"{column}:1" for column in np.unique(row)), file=file)
    options = ["--solver", "dcd", "-s", "odm", "--max-iter", "1", "--memory", "1G", *options]
    process = start("train", "--verbose", "--cache", ".", *options, "many", "m")
    _, err = process.communicate()
    assert process.returncode == 0, err
    (peak,) = re.findall(r"peak memory ([0-9.]+) MB", err.decode())
    (most,) = re.findall(r"dcd in ([0-9.]+) MB", err.decode())
    (classes,) = re.findall(r"classes ([0-9.]+) MB", err.decode())
    assert float(classes) > 23 * copies and float(peak) <= float(most)


@pytest.mark.parametrize("solver", ["auto", "newton", "nystrom"])
def test_what_is_in_memory_at_the_moment_decides_nothing(
    tmp_path, open_store, monkeypatch, solver
):
    """Neither the solver nor a sample; nor do threads."""
    store, _ = open_store(tmp_path, write(tmp_path / "data", *examples()))
    store.shape = (1_000_000, 60)
    kernel = "rbf" if solver == "nystrom" else "linear"
    machine = MACHINES["odm"](memory=2e8, solver=solver, kernel=kernel)
    found = set()
    for now, jobs in ((6e7, 1), (7.9e7, 1), (7e7, 3), (7e7, 64)):
        monkeypatch.setattr(disk_memory, "resident", lambda now=now: now)
        plan = disk_memory.plan(machine.copy(jobs=jobs), store)
        assert sum(plan.parts.values()) + plan.sample <= plan.limit
        found.add((plan.solver, plan.left, plan.sample))
    assert len(found) == 1
    lefts = set()
    for limit in (5e8, 5.1e8, 4.9e8):  # without --memory, of what is free
        monkeypatch.setattr("odmtool.machines.base.default_memory", lambda limit=limit: limit)
        lefts.add(disk_memory.plan(machine.copy(memory=None), store).left)
    assert len(lefts) == 1
    monkeypatch.setattr(disk_memory, "resident", lambda: 1.9e8)
    with pytest.raises(MemoryLimitError):
        disk_memory.plan(machine, store)
