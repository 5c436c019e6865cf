"""Training from the disk: the same machines, facts and weights as in memory."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from problems import OTHER_LOSSES, StoreInMemory, examples, weights, write

from odmtool.core import losses
from odmtool.io.svmlight import read_svmlight
from odmtool.judge import binary as objective
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


@pytest.mark.parametrize("machine", ["l1svm", "svr"])
def test_a_loss_with_a_jump_takes_few_steps(run, heart, tmp_path, machine):
    """Of rows sorted by class, whose blocks coordinate descent fits one after the other."""
    options = ["-s", machine, "-l", "16384", "-B", "1"]
    with open(heart) as file:
        lines = sorted(file, key=lambda line: line[0])
    (tmp_path / "sorted").write_text("".join(lines))
    expected, facts, _ = trained(run, tmp_path, *options, "-e", "1e-7", "sorted")
    last = None
    for jobs in ("1", "2"):
        chosen = ["--cache", ".", "--verbose", "-j", jobs, *options, "sorted"]
        model, found, outcome = trained(run, tmp_path, *chosen)
        (steps,) = re.findall(r"([0-9]+) iterations \(newton\)", outcome.err)
        assert int(steps) <= 40 and "duals and margins" in outcome.err
        assert float(found["objective"].expected) <= 1.001 * float(facts["objective"].expected)
        assert last is None or np.array_equal(model.weights, last.weights)
        last = model


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


def test_support_vectors_of_several_problems_are_not_counted(run, tmp_path, three):
    outcome = run("train", "--cache", ".", "--json", "j", *THREE, three, "m")
    assert outcome.code == 0 and "support vector" not in outcome.err
    assert json.loads((tmp_path / "j").read_text())["support_vectors"] is None


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
    (["--cache", ""], 2, "--cache: the name of the folder is empty"),
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
