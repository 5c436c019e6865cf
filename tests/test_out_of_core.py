"""Training from the disk: the same machines, facts and weights as in memory."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from problems import OTHER_LOSSES, StoreInMemory, examples, weights, write

from odmtool.core import losses
from odmtool.core.memory import PROGRAM
from odmtool.errors import MemoryLimitError, UsageError
from odmtool.io.svmlight import read_svmlight
from odmtool.judge import binary as objective
from odmtool.machines import MACHINES
from odmtool.places import disk, disk_memory
from odmtool.places.place import Source
from odmtool.rows.examples import Examples
from odmtool.rows.executor import Threads
from odmtool.solvers.base import Stop
from odmtool.solvers.large import block_descent, blocks, passes

TINY = 700
pytestmark = pytest.mark.usefixtures("tiny_blocks")


# ---- the solvers -------------------------------------------------------------


def setting(loss, weighted, bias=-1.0):
    """Examples, the dense rows that they have, y and u."""
    X, y = examples()
    v = weights() if weighted else None
    factor = {1: 1.5, -1: 0.5} if weighted else {1: 1.0, -1: 1.0}
    u = np.where(y > 0, factor[1], factor[-1]) * (1 if v is None else v)
    rows = X.toarray() if bias < 0 else np.column_stack([X.toarray(), np.full(60, bias)])
    return Examples(StoreInMemory(X, y), {1: 1.0, -1: -1.0}, factor, v, bias), rows, y, u


@pytest.mark.parametrize("loss, weighted, bias, tolerance", [
    ("odm", False, -1.0, 1e-5), *((loss, True, 2.0, 1e-3) for loss in ("odm", *OTHER_LOSSES)),
])  # fmt: skip
def test_the_judge_confirms_coordinate_descent_by_blocks(
    monkeypatch, loss, weighted, bias, tolerance
):
    loss = losses.odm(16.0, 0.5, 0.3, 60) if loss == "odm" else OTHER_LOSSES[loss]
    rows, X, y, u = setting(loss, weighted, bias)
    seen, certify = [], block_descent._certify

    def remember(examples, loss, w, eta):
        seen.append((w.copy(), eta.copy()))
        return certify(examples, loss, w, eta)

    monkeypatch.setattr(block_descent, "_certify", remember)
    found = block_descent.solve(rows, loss, Stop(tolerance, 5000))
    w, eta = seen[-1]
    judged = objective.certify_linear(X, y, u, loss, w, eta)
    assert found.converged and judged.gap <= tolerance + 1e-12
    assert judged.gap == pytest.approx(found.gap, abs=1e-11)
    assert judged.primal == pytest.approx(found.primal, rel=1e-10)
    assert found.support_count == np.count_nonzero(eta)


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("loss", ["odm", "l2svm", "lssvm"])
def test_the_judge_confirms_newton_by_passes(monkeypatch, loss, sampled):
    loss = losses.odm(256.0, 0.5, 0.3, 60) if loss == "odm" else OTHER_LOSSES[loss]
    rows, X, y, u = setting(loss, True, 2.0)
    monkeypatch.setattr(passes, "LEAST_SAMPLE", 1)
    sample = np.flatnonzero(np.arange(60) % 6) if sampled else None
    found = passes.solve(rows, loss, Stop(1e-10, 100), sample=sample)
    eta = -u * losses.derivative(loss, y * (X @ found.w))
    judged = objective.certify_linear(X, y, u, loss, found.w, eta)
    assert found.converged and judged.gap <= 1e-10 + 1e-13
    assert judged.gap == pytest.approx(found.gap, abs=1e-12)
    assert judged.primal == pytest.approx(found.primal, rel=1e-12)
    assert found.support_count == np.count_nonzero(eta)
    again = passes.solve(rows, loss, Stop(1e-10, 100), sample=sample, executor=Threads(2))
    assert np.allclose(again.w, found.w, rtol=1e-10, atol=1e-12)


def test_newton_by_passes_begins_at_nothing():
    rows, X, y, u = setting(OTHER_LOSSES["l2svm"], True, 2.0)
    found = passes.solve(rows, OTHER_LOSSES["l2svm"], Stop(1e-10, 0))
    assert not found.w.any() and not found.converged and found.iterations == 0


def test_a_step_that_goes_too_far_is_shortened(monkeypatch):
    loss = losses.odm(2.0**16, 0.5, 0.3, 60)
    rows, X, y, u = setting(loss, False)
    problem = passes._Passes(rows, loss, None, Threads(1))
    some, lengths = np.linspace(-1, 1, 7), np.array([0.0, 0.3, 2.0])
    t = y * (X @ some)
    slopes = [(u * losses.derivative(loss, s * t)) @ t for s in lengths]
    blocks_of = range(rows.count)
    found = passes._slopes(blocks_of, rows, loss, None, 0 * some, some, lengths)
    assert found == pytest.approx(np.array(slopes))
    first = problem.at(np.zeros(7))
    direction = -first.gradient  # far too long
    point = problem.step(first, direction)
    assert point.primal < first.primal
    lengths = np.linspace(0, 1, 20001)
    t = y[:, None] * (X @ direction)[:, None] * lengths
    values = (u[:, None] * losses.value(loss, t)).sum(axis=0)
    values = values + (lengths**2) * (direction @ direction) / 2
    assert point.primal <= values.min() * (1 + 1e-6)


def test_samples_are_seeded_and_bounded():
    assert blocks.sample_of(2000, 10, 10**6, 0) is None
    sample = blocks.sample_of(2001, 10, 10**6, 0)
    assert len(sample) == 1000 and np.all(np.diff(sample) > 0)
    assert np.array_equal(sample, blocks.sample_of(2001, 10, 10**6, 0))
    assert len(blocks.sample_of(2001, 10, 300, 0)) == 300
    assert blocks.sample_of(2001, 10, 99, 0) is None


# ---- the command -------------------------------------------------------------


def trained(run, tmp_path, *arguments):
    """The model's numbers and facts, and what was said."""
    outcome = run("train", *arguments, "m")
    assert outcome.code == 0, outcome.err
    from odmtool.io.model_file import read_model

    model = read_model("m")
    facts = {k: v for k, v in model.facts.items() if k not in ("command", "gap", "iterations")}
    facts["objective"] = pytest.approx(float(facts["objective"]), rel=1e-9)
    return model, facts, outcome


THREE = ["-s", "odm", "-l", "64"]
CASES = {
    "plain": ["--solver", "newton"],
    "weights": ["--solver", "newton", "-w-1", "3", "-w1", "0.5", "-W", "weights", "-B", "1"],
    "zero class": ["--solver", "newton", "-w-1", "0"],
    "l2svm": ["-s", "l2svm", "--solver", "newton", "-c", "0.1"],
    "dcd": ["--solver", "dcd", "-l", "4", "--max-iter", "20000"],
    "corner": ["-s", "l1svm", "--solver", "dcd", "-l", "4", "--max-iter", "20000"],
}


@pytest.fixture
def weight_file(tmp_path):
    v = np.round(np.random.default_rng(0).uniform(0, 2, 270), 3)
    v[::9] = 0
    (tmp_path / "weights").write_text("\n".join(map(str, v)) + "\n")


@pytest.mark.parametrize("case", CASES)
def test_the_linear_model_is_that_of_memory(run, heart, tmp_path, weight_file, case):
    options = [*CASES[case], "-e", "1e-12", heart]
    expected, facts, _ = trained(run, tmp_path, *options)
    model, found, _ = trained(run, tmp_path, "--cache", ".", *options)
    assert found == facts and model.labels == expected.labels and model.bias == expected.bias
    close = {"rtol": 1e-4, "atol": 1e-5} if "dcd" in options else {"rtol": 1e-9, "atol": 1e-10}
    assert np.allclose(model.weights, expected.weights, **close)
    if expected.bias_weights is not None:
        assert np.allclose(model.bias_weights, expected.bias_weights, **close)
    assert sorted(os.listdir(tmp_path)) == ["m", "weights"]


@pytest.fixture
def three(tmp_path):
    generator = np.random.default_rng(3)
    X, _ = examples(120, 5, density=0.9)
    W = generator.standard_normal((5, 3))
    return write(tmp_path / "three", X, np.array([7, 2, 5])[(X @ W).argmax(axis=1)])


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_three_classes(run, tmp_path, three, multiclass):
    options = [*THREE, "--multiclass", multiclass, "--solver", "newton", "-e", "1e-12", three]
    expected, facts, _ = trained(run, tmp_path, *options)
    model, found, _ = trained(run, tmp_path, "--cache", ".", *options)
    X = read_svmlight(three).X
    assert found == facts
    assert np.allclose(model.decision_values(X), expected.decision_values(X), atol=1e-9)
    assert np.array_equal(model.predict(X), expected.predict(X))


@pytest.mark.parametrize("options", [[], ["-t", "rbf"], ["--cache", "."],
                                     ["-t", "rbf", "--solver", "nystrom"]])  # fmt: skip
def test_memory_is_planned_and_measured(start, heart, options):
    _, err = start("train", "--verbose", *options, heart, "m").communicate()
    (peak,) = re.findall(r"peak memory ([0-9.]+) MB", err.decode())
    # The plan of a run from the disk keeps within --memory, not within its own sum.
    form = r"of ([0-9.]+) GB of memory" if "--cache" in options else r"at most ([0-9.]+) MB"
    (most,) = re.findall(form, err.decode())
    assert 20 < float(peak) <= float(most) * (1000 if "--cache" in options else 1)


@pytest.mark.parametrize("options", [["-s", "mcodm", "--max-iter", "1"],
                                     ["-s", "m3svm", "--max-iter", "1"]])  # fmt: skip
def test_many_classes_are_planned_for(start, tmp_path, options):
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((15_000, 3)).round(3)
    lines = (f"{row % 300} 1:{a} 2:{b} 3:{c}\n" for row, (a, b, c) in enumerate(rows))
    (tmp_path / "many").write_text("".join(lines))
    _, err = start("train", "--verbose", *options, "many", "m").communicate()
    # Numbers for every example and class are 36 MB.
    (peak,) = re.findall(r"peak memory ([0-9.]+) MB", err.decode())
    (most,) = re.findall(r"at most ([0-9.]+) MB", err.decode())
    assert 200 < float(peak) <= float(most)


@pytest.mark.parametrize("options", [["-t", "rbf", "-B", "1"], ["-t", "poly", "-g", "0.1"],
                                     ["-t", "rbf", "-w1", "2", "-j", "2"]])  # fmt: skip
def test_the_nystrom_model_is_that_of_memory(run, heart, tmp_path, options):
    options = [*options, "-l", "64", "--solver", "nystrom", "--landmarks", "20", "-e", "1e-12"]
    expected, facts, _ = trained(run, tmp_path, *options, heart)
    model, found, outcome = trained(run, tmp_path, "--cache", ".", *options, heart)
    assert "20 landmarks hold " in outcome.err
    captured = float(found.pop("trace_captured")), float(facts.pop("trace_captured"))
    assert found == facts and captured[0] == pytest.approx(captured[1], rel=1e-9)
    X = read_svmlight(heart).X
    assert np.allclose(model.decision_values(X), expected.decision_values(X), atol=1e-7)


def test_nystrom_of_three_classes(run, tmp_path, three):
    options = [*THREE, "-t", "rbf", "--solver", "nystrom", "--landmarks", "15", "-e", "1e-12"]
    expected, _, _ = trained(run, tmp_path, "--multiclass", "ovr", *options, three)
    model, _, _ = trained(run, tmp_path, "--cache", ".", *options, three)
    X = read_svmlight(three).X
    assert np.array_equal(model.predict(X), expected.predict(X))


def test_summary_json_and_plan(run, heart, tmp_path):
    outcome = run("train", "--cache", ".", "--verbose", "--json", "j", heart, "m")
    record = json.loads((tmp_path / "j").read_text())
    assert record["support_vectors"] > 0 and record["solver"] == "newton"
    assert "cache of 270 examples with 13 features" in outcome.err
    assert "newton in " in outcome.err and "of memory: the program " in outcome.err


@pytest.mark.parametrize("text, options, code", [
    (None, [], 0), (None, ["--keep-cache"], 0), ("+1 1:1\n-1 1:x\n", [], 1),
])  # fmt: skip
def test_the_file_of_rows_is_closed(heart, tmp_path, text, options, code):
    path = heart
    if text is not None:
        path = tmp_path / "data"
        path.write_text(text)
    warned = [sys.executable, "-W", "default::ResourceWarning", "-m", "odmtool", "train"]
    ended = subprocess.run(
        [*warned, "--cache", ".", *options, path, "m"], cwd=tmp_path, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == code and "ResourceWarning" not in ended.stderr


def test_from_a_pipe(start, heart):
    process = start("train", "--cache", ".", "-", "m", stdin=subprocess.PIPE)
    _, err = process.communicate(Path(heart).read_bytes())
    assert process.returncode == 0, err


@pytest.mark.parametrize("arguments, code, sentence", [
    (["--keep-cache"], 2, "--keep-cache needs --cache DIR"),
    (["--cache", ".", "-v", "5"], 2, "-v reads all data into memory"),
    (["--cache", ".", "--scheduler", "x"], 2, "leave out --cache or --scheduler"),
    (["--cache", ".", "-b", "1"], 2, "-b 1 reads all data into memory"),
    (["--cache", ".", "--loo"], 2, "--loo reads all data into memory"),
    (["--cache", ".", "--margins", "x"], 2, "--margins reads all data into memory"),
    (["--cache", ".", "-s", "mcodm"], 2, "-s mcodm needs all data in memory"),
    (["--cache", ".", "-s", "ldm"], 2, "-s ldm needs all data in memory"),
    (["--cache", ".", "--solver", "svrg"], 2, "--solver svrg needs all data in memory"),
    (["--cache", ".", "-t", "rbf"], 2, "or take --solver nystrom"),
    (["--cache", ".", "-t", "rbf", "-s", "svr", "--solver", "nystrom"], 2,
     "--solver nystrom with --cache is for -s odm, -s l2svm"),
    (["--cache", ".", "-s", "l1svm", "--solver", "newton"], 2,
     "; take --solver auto or dcd"),
    (["--cache", "nowhere"], 1, "there is no folder"),
    (["--cache", ".", "--memory", "1M"], 1, "even with --cache training needs"),
])  # fmt: skip
def test_what_cannot_be_is_said_in_one_sentence(run, heart, tmp_path, arguments, code, sentence):
    outcome = run("train", *arguments, heart, "m")
    assert outcome.code == code and outcome.err.count("\n") == 1
    assert sentence in outcome.err
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("options", [[], ["--solver", "dcd"], ["-s", "l1svm"]])
def test_a_tolerance_that_is_not_reached(run, heart, tmp_path, options):
    options = ["--cache", ".", "--max-iter", "1", "-e", "1e-9", *options]
    outcome = run("train", *options, heart, "m")
    assert outcome.code == 0 and "the tolerance 1e-09 was not reached" in outcome.err
    assert ("--solver newton" in outcome.err) == ("dcd" in options)
    outcome = run("train", "--strict", *options, heart, "other")
    assert outcome.code == 3 and os.listdir(tmp_path) == ["m"]


def test_more_than_two_classes_need_a_machine(run, three):
    outcome = run("train", "--cache", ".", three, "m")
    assert outcome.code == 2 and "-s mcodm needs all data in memory" in outcome.err


def test_a_stream_is_not_kept(run):
    outcome = run("train", "--cache", ".", "--keep-cache", "-", "m")
    assert outcome.code == 2 and "--keep-cache needs a file" in outcome.err


@pytest.mark.parametrize("command", ["train", "cv"])
def test_data_that_do_not_fit(run, heart, tmp_path, command):
    (packed := tmp_path / "data.gz").write_bytes(gzip.compress(Path(heart).read_bytes()))
    for data in (heart, packed):
        outcome = run(command, "--memory", "10K", data)
        assert outcome.code == 1 and outcome.err.count("\n") == 1
        assert "the data need about" in outcome.err and "--cache DIR" in outcome.err
    outcome = run("cv", "--cache", ".", heart)
    assert outcome.code == 2 and "odm-cv reads all data into memory" in outcome.err


def test_huge_values_are_refused(run, tmp_path):
    (tmp_path / "data").write_text("1 1:1\n-1 1:1e200\n1 1:2\n")
    outcome = run("train", "--cache", ".", "data", "m")
    assert outcome.code == 1 and "example 2" in outcome.err


def test_killed_while_it_parses_nothing_is_left(start, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "cache").mkdir()
    process = start("train", "--cache", "cache", "fifo", "m")
    with open(tmp_path / "fifo", "w") as stream:
        stream.write("1 1:1\n-1 1:2\n" * 20_000)
        stream.flush()
        time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert os.listdir(tmp_path / "cache") == []


# ---- the memory --------------------------------------------------------------


def test_the_plan_keeps_within_the_memory_or_refuses(tmp_path, open_store, monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", sys)  # where it is not loaded, it counts, too
    X, y = examples(60, 400, density=0.3)
    path = write(tmp_path / "data", X, y)
    store, _ = open_store(tmp_path, path, block_bytes=TINY)
    base = PROGRAM
    monkeypatch.setattr(disk_memory, "resident", lambda: base)
    machine = MACHINES["odm"](memory=base + 100e6)
    plan = disk_memory.plan(machine, store)
    assert plan.solver == "newton" and 0 < plan.total <= machine.memory
    assert plan.left == pytest.approx(machine.memory - plan.total)
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


def test_little_memory_is_not_spent_on_compiled_code(tmp_path, monkeypatch, open_store):
    """Neither to read, nor, uncounted, to train: it takes more than most blocks of rows."""
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
    store, _ = open_store(tmp_path, path)
    monkeypatch.setattr(disk_memory, "sys", SimpleNamespace(modules={}))
    assert disk_memory.plan(MACHINES["odm"](solver="dcd"), store).parts["compiled code"] > 1e8


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
        assert plan.total + plan.sample <= plan.limit
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


@pytest.mark.parametrize("start", [-1.5, 0.0, 1.0])
def test_a_step_ends_at_the_least_value_along_it(start):
    """From a point that is not 0, so that w and the direction have a product."""
    loss = losses.odm(2.0**10, 0.5, 0.3, 60)
    rows, X, y, u = setting(loss, True)
    problem = passes._Passes(rows, loss, None, Threads(1))
    point = problem.at(start * np.linspace(-1, 1, 7))
    direction = -2e-3 * point.gradient

    def derivative(s):
        w = point.v + s * direction
        return w @ direction + (u * losses.derivative(loss, y * (X @ w))) @ (y * (X @ direction))

    found = problem.step(point, direction)
    length = (found.v - point.v) @ direction / (direction @ direction)
    assert 0 < length < 1 and derivative(0) < 0 < derivative(1)
    # The end of an interval in which the derivative changes its sign.
    width = (passes._LENGTHS + 1.0) ** -passes._SEARCHES
    assert derivative(length - 1.01 * width) < 0 < derivative(length + 0.01 * width)
