"""The memory of a search and its processes: as many as fit, where they are worth it."""

import math

import numpy as np
import pytest
from conftest import needs_two_processors
from multiclass_data import clusters
from search_plans import plan_of, table

from odmtool.core.scaling import Scaler
from odmtool.machines import L1SVM, LDM, MACHINES, MCODM, ODM
from odmtool.places.memory import fold_matrices
from odmtool.search import search as searching
from odmtool.search.memory import plan_memory
from odmtool.search.search import SearchPlan, grid, search
from odmtool.search.validation import Data, begins_anew
from odmtool.solvers.auto import newton_bytes
from odmtool.solvers.engine.room import memory_for_many, needed_bytes


@pytest.mark.parametrize("machine", [dict(), dict(solver="dcd"), dict(bias=1.0)])
def test_processes_change_nothing(heart, machine):
    values = dict(kernel=("rbf", "linear"), gamma=(0.02, 1.0), lambda_=(1.0, 64.0))
    plan = plan_of(heart, values, **machine)
    assert table(search(plan, jobs=2)) == table(search(plan, jobs=1))


@pytest.mark.parametrize("machine, settings, soon, here", [
    (dict(), 1, 1.0, True), ({"kernel": "rbf"}, 1, 1.0, True), (dict(), 1, 0.0, False),
    (dict(), 60_000, 1.0, False), ({"kernel": "rbf"}, 600, 1.0, False),
    (dict(solver="dcd"), 1, 1.0, False),
])  # fmt: skip
def test_processes_are_not_begun_for_little_work(
    machine, settings, soon, here, heart, monkeypatch
):
    """None of dcd is little: it lasts as long as its iterations."""
    monkeypatch.setattr(searching, "_SOON", soon)
    monkeypatch.setattr(searching, "in_processes", lambda _run, tasks, _jobs: iter(list(tasks)[:0]))
    values = dict(kernel=(machine.get("kernel", "linear"),), lambda_=(1.0,))
    plan = plan_of(heart, values, **machine)
    work = [list(range(settings))] * 5
    plan = plan._replace(settings=plan.settings * settings)
    monkeypatch.setattr(searching, "run_unit", lambda *arguments: [arguments[2]])
    done = list(searching._run(plan, work, 5, 2, None, frozenset()))
    assert done == ([[0], [1], [2], [3], [4]] if here else [])


@pytest.mark.parametrize("seconds, here", [(0.2, 5), (0.3, 1), (0.9, 1)])
def test_processes_begin_when_the_first_fits_take_longer_than_was_guessed(
    seconds, here, heart, monkeypatch
):
    """Of ldm and l1svm with landmarks nobody knows before; five folds, a second is too long."""
    clock, done = [0.0], []
    monkeypatch.setattr(searching, "_SOON", 1.0)
    monkeypatch.setattr(searching.time, "process_time", lambda: clock[0])
    monkeypatch.setattr(searching, "in_processes", lambda _run, tasks, _jobs: iter(()))

    def run_unit(_plan, _unit, k, *_rest):
        clock[0] += seconds
        done.append(k)

    monkeypatch.setattr(searching, "run_unit", run_unit)
    plan = plan_of(heart, dict(kernel=("rbf",), lambda_=(1.0,)), kernel="rbf")
    list(searching._run(plan, [[0]] * 5, 5, 2, None, frozenset()))
    assert len(done) == here


@pytest.mark.parametrize("jobs, pieces", [
    (1, [[0, 1, 2, 3, 4, 5, 6]]),
    (2, [[0, 3, 6], [1, 4], [2, 5]]),  # six for each process, of five folds
    (9, [[0], [1], [2], [3], [4], [5], [6]]),
])  # fmt: skip
def test_chains_whose_fits_begin_anew_are_divided_among_processes(heart, jobs, pieces):
    linear = dict(kernel=("linear",), lambda_=tuple(2.0**k for k in range(7)))
    plan, chain = plan_of(heart, linear), list(range(7))
    assert searching.pieces(plan, chain, jobs) == [chain]  # one solution starts the next
    plan = plan._replace(machine=MCODM())
    assert searching.pieces(plan, chain, jobs) == pieces
    with_kernel = plan._replace(settings=[s | {"kernel": "rbf"} for s in plan.settings])
    assert searching.pieces(with_kernel, chain, jobs) == [chain]  # and one kernel matrix


def test_which_machines_begin_anew():
    found = {name for name, machine in MACHINES.items() if begins_anew(machine())}
    assert found.isdisjoint({"odm", "l2svm", "lssvm", "ldm", "l1svm"}) and "mcodm" in found


def test_divided_chains_give_the_same_table(heart, monkeypatch):
    monkeypatch.setattr(searching, "_SOON", 0.0)
    values = dict(kernel=("linear",), lambda_=(1.0, 8.0, 64.0), theta=(0.1, 0.5))
    plan = plan_of(heart, values)._replace(machine=MCODM())
    assert table(search(plan, jobs=2)) == table(search(plan, jobs=1))


@pytest.mark.parametrize("share, expected", [(1 / 8, 5), (1e-9, 11)])
def test_folds_are_scaled_once_for_all_kernels_where_there_is_room(
    heart, monkeypatch, share, expected
):
    """Two kernels on five folds; what has no room is found out once."""
    plan = plan_of(heart, dict(kernel=("rbf",), gamma=(0.02, 0.1), lambda_=(1.0,)))
    plan = plan._replace(data=plan.data.to_be_scaled(0.0, 1.0, math.inf))
    monkeypatch.setattr(searching, "SCALED_SHARE", share)
    rows, scale_in_place = [], Scaler.scale_in_place

    def counted(self, X, *arguments):
        rows.append(X.shape[0])
        return scale_in_place(self, X, *arguments)

    monkeypatch.setattr(Scaler, "scale_in_place", counted)
    alone = table(search(plan))
    assert len(rows) == expected
    monkeypatch.setattr(searching, "_SOON", -1.0)
    assert table(search(plan, jobs=2)) == alone
    needed = plan_memory(plan, 1).parts.get("scaled folds", 0.0)
    assert 0 < needed <= 5 * 3 * 8 * 270 * 13
    # Processes have copies of their own, and one kernel needs none.
    assert plan_memory(plan, 2).parts["scaled folds"] == 2 * needed
    one = plan._replace(settings=[s for s in plan.settings if s["gamma"] == 0.1])
    assert "scaled folds" not in plan_memory(one, 2).parts


def test_too_little_memory_for_the_matrix_changes_nothing(heart):
    values = dict(kernel=("rbf",), gamma=(0.02,), lambda_=(1.0, 64.0))
    enough = table(search(plan_of(heart, values, solver="dcd")))
    assert table(search(plan_of(heart, values, solver="dcd", memory=300e3))) == enough


def test_no_more_processes_than_fit_into_the_memory(heart):
    """m = 270, d = 13, 5 folds: three matrices of all rows, or two of a fold, besides copies."""
    for kernel, wanted in [("rbf", 3 * 8 * 270**2), ("linear", 2 * 8 * 13**2 + 80 * 13)]:
        plan = plan_of(heart, dict(kernel=(kernel,), lambda_=(1.0,)))
        X = plan.data.X
        copies = 2 * (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
        copies += 2 * 8 * X.shape[0] * X.shape[1] * (kernel == "rbf")
        for limit, jobs in [(3.1, 3), (2.1, 2), (1.1, 1)]:
            limited = plan._replace(machine=ODM(kernel=kernel, memory=limit * (copies + wanted)))
            memory = plan_memory(limited, jobs=3)
            assert (memory.jobs, memory.keeps_matrix) == (jobs, True)
            assert memory.needed == copies + wanted
    plan = plan_of(heart, dict(kernel=("rbf",), lambda_=(1.0,)), memory=1.2e6)
    memory = plan_memory(plan, jobs=2)
    assert not memory.keeps_matrix and memory.jobs == 1 and memory.needed < memory.limit
    # Where Newton has no room either, rows are kept, however many processes there are.
    assert plan_memory(plan._replace(machine=ODM(memory=600e3)), jobs=2).jobs == 2


def test_where_landmarks_are_taken_no_matrix_of_all_rows_is_planned():
    """Two matrices of a fold where they are not enough, or what the engine of all folds takes."""
    m, limit = 5000, 2e9
    data, fold = Data(*clusters(3, m)), np.arange(m) % 5
    of_fold, X = 8 * (m - m // 5) ** 2, data.X
    sizes = np.unique(data.labels, return_counts=True)[1]
    for machine, matrices in [(L1SVM, 2), (LDM, 4)]:
        plan = SearchPlan(machine(kernel="rbf", memory=limit), [{}], data, fold)
        memory = plan_memory(plan, jobs=2)
        assert (memory.jobs, memory.keeps_matrix) == (2, True)
        assert matrices * of_fold < memory.needed < (matrices + 0.5) * of_fold
        # Two processes, with pairs of classes, and what these share.
        pairs = matrices * 8 * np.sort(sizes)[1:].sum() ** 2 + 8 * np.square(sizes).sum()
        assert 2 * pairs < memory.parts["fits"] < 2 * 1.1 * pairs
    for reduction, count in [("ovr", 15), ("ovo", 1), ("ecoc", 15)]:
        machine = ODM(kernel="rbf", memory=limit, multiclass=reduction)
        memory = plan_memory(SearchPlan(machine, [{}], data, fold), jobs=1)
        most = needed_bytes(m, limit, count)
        assert 0.5 * most < memory.parts["fits"] < most + 40e6
        training = fold_matrices(machine, X, 3, 5)
        most = max(most, newton_bytes(m, limit, int(reduction == "ovo")))
        assert training["landmarks and kernel values"] == most and len(training) == 2


def test_one_process_has_all_the_memory_where_few_landmarks_fit_into_it():
    """So that the results are those of one process."""
    m = 5000
    data, enough = Data(*clusters(2, m)), memory_for_many(4000)
    copies = plan_memory(
        SearchPlan(ODM(kernel="rbf", memory=1e9), [{}], data, np.arange(m) % 5, probability=True), 1
    ).needed - enough  # fmt: skip
    for memory, jobs in [(2.01 * (enough + copies), 2), (1.9 * (enough + copies), 1), (15e6, 1)]:
        machine = ODM(kernel="rbf", memory=memory)
        plan = SearchPlan(machine, [{}], data, np.arange(m) % 5, probability=True)
        assert plan_memory(plan, jobs=2).jobs == jobs


def test_processes_for_matrices_of_all_rows_are_planned_where_many_settings_leave_fits():
    m = 3000
    data, whole = Data(*clusters(2, m)), 3 * 8 * m * m
    for count, limit, processes in [(8, 1e9, 2), (7, 1e9, 1), (8, 1.5 * whole, 1)]:
        machine = ODM(kernel="rbf", memory=limit)
        settings = grid(dict(kernel=("rbf",), lambda_=tuple(np.arange(1.0, count + 1))))
        parts = plan_memory(SearchPlan(machine, settings, data, np.arange(m) % 5), jobs=2).parts
        assert ("2 processes" in parts) == (processes == 2)
        assert parts["fits"] >= processes * whole * (count == 8)


def test_a_search_says_what_it_takes(run, heart):
    """A matrix of all rows and two of a fold; so much for each of two processes."""
    planned = {}
    for options in (["-t", "linear"], ["-t", "linear,rbf"], ["-t", "linear,rbf", "-j", "2"]):
        plan = plan_of(heart, dict(kernel=tuple(options[1].split(",")), lambda_=(1.0,)))
        planned[len(planned)] = plan_memory(plan, len(options) // 2).parts
    outcome = run("cv", "-v", "2", "-l", "1", "-t", "linear", "--verbose", heart)
    assert "at most " in outcome.err and "program and data " in outcome.err
    linear, both, two = planned.values()
    assert both["fits"] - linear["fits"] > 2.5 * 8 * 270**2
    assert two["fits"] == 2 * both["fits"] and two["2 processes"] > 2 * both["program and data"]


@pytest.mark.parametrize("kernel, options, sentence", [
    ("rbf", ["--memory", "1M"], "kernel matrix of 270 examples does not fit"),
    pytest.param("rbf", ["--memory", "3M", "-j", "2"], "going on with 1",
                 marks=needs_two_processors),
    ("linear", ["--memory", "50K"], "may run out of memory"),
])  # fmt: skip
def test_what_does_not_fit_is_said_and_changes_nothing(run, heart, kernel, options, sentence):
    plain = run("train", "-v", "5", "-t", kernel, "-l", "1", heart)
    assert plain.err == ""
    for command in (["cv"], ["train", "-v", "5"]):
        limited = run(*command, "-t", kernel, "-l", "1", *options, heart)
        assert limited.code == 0 and sentence in limited.err
        assert limited.out.endswith(plain.out)


def test_a_matrix_that_does_not_fit_is_said_before_the_start(run, heart):
    outcome = run("cv", "-t", "rbf", "-l", "1,64", "--memory", "0.5M", heart)
    assert outcome.code == 0
    assert outcome.err.startswith("odm-cv: the kernel matrix of 270 examples does not fit")
    assert "does not fit" not in run("cv", "-t", "rbf", "-l", "1,64", heart).err
    assert "does not fit" not in run("cv", "--memory", "0.5M", "-l", "1,64", heart).err
