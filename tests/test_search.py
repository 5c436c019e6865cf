"""The search: independent of processes and interruptions, and the same as fits one by one."""

import contextlib
import csv
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from search_plans import VALUES, plan_of, table
from sklearn.metrics import balanced_accuracy_score, f1_score, roc_auc_score
from sklearn.utils.multiclass import _ovr_decision_function

from odmtool.cli.machine_options import Size
from odmtool.io.model_file import read_model
from odmtool.io.svmlight import read_svmlight
from odmtool.machines import ODM
from odmtool.search import journal, metrics, strategies
from odmtool.search.journal import Fit, Writer, open_journal
from odmtool.search.search import SearchPlan, Trial, best, grid, search
from odmtool.search.validation import Data, folds

SEARCH = ["-t", "rbf,linear", "-l", "2^0:20:4", "-p", "0.2,0.6", "-g", "0.25,4/d"]
WIDE = ["-t", "rbf", "-g", "2^-4:4:2/d", "-l", "2^0:20:4"]


def test_the_grid_is_the_same_as_its_settings_one_by_one(heart):
    """Warm starts and shared matrices change no prediction."""
    values = dict(kernel=("rbf",), gamma=(0.02, 1.0), mu=(0.2, 0.8), theta=(0.1, 0.7),
                  lambda_=(1.0, 2.0**10, 2.0**20))  # fmt: skip
    plan = plan_of(heart, values)
    for row in search(plan):
        (alone,) = search(plan._replace(settings=[row.setting]))
        assert table([alone]) == table([row])


@pytest.mark.parametrize("metric", metrics.METRICS)
def test_metrics_are_those_of_scikit_learn(metric):
    generator = np.random.default_rng(0)
    is_first = generator.random(200) < 0.3
    values = np.round(generator.standard_normal(200) + is_first, 1)
    oracle = {
        "accuracy": lambda: np.mean((values > 0) == is_first),
        "balanced": lambda: balanced_accuracy_score(is_first, values > 0),
        "auc": lambda: roc_auc_score(is_first, values),
        "f1": lambda: f1_score(is_first, values > 0),
    }[metric]
    labels, predicted = np.where(is_first, 7, 3), np.where(values > 0, 7, 3)
    ours = metrics.METRICS[metric]([7, 3], labels, predicted, values[:, None])
    assert ours == pytest.approx(oracle())
    # Whichever class the first row has.
    assert metrics.METRICS[metric]([3, 7], labels, predicted, -values[:, None]) == ours


def test_metrics_of_three_classes_are_those_of_scikit_learn():
    generator = np.random.default_rng(0)
    labels, predicted = generator.integers(3, size=(2, 100))
    predicted = np.where(generator.random(100) < 0.5, labels, predicted)

    values = np.round(generator.standard_normal((100, 3)), 1)

    def ours(name):
        return metrics.METRICS[name]([2, 0, 1], labels, predicted, values)

    assert ours("accuracy") == pytest.approx(np.mean(labels == predicted))
    assert ours("balanced") == pytest.approx(balanced_accuracy_score(labels, predicted))
    assert ours("f1") == pytest.approx(f1_score(labels, predicted, average="macro"))
    each = [roc_auc_score(labels == c, values[:, k]) for k, c in enumerate([2, 0, 1])]
    assert ours("auc") == pytest.approx(np.mean(each))


def test_the_auc_of_a_search_is_that_of_scikit_learn_on_the_same_folds(run, heart):
    from odmtool.machines import ODM
    from odmtool.search.validation import EXACT, folds

    data, scores = read_svmlight(heart), []
    fold = folds(data.labels, 5, 0)
    for k in range(5):
        model = ODM(lambda_=16.0, tolerance=EXACT).fit(data.X[fold != k], data.labels[fold != k])
        values = model.model_.decision_values(data.X[fold == k])[:, 0]
        scores.append(roc_auc_score(data.labels[fold == k] == data.labels[0], values))
    printed = run("cv", "--metric", "auc", "-l", "16", heart).out
    assert f"auc={100 * np.mean(scores):.6g}\n" in printed


def test_the_auc_of_pairs_of_classes_is_that_of_votes_and_confidence(three_classes):
    """Of probabilities, too, whose log odds are those of pairs whatever the machine is."""
    X, labels = three_classes
    data, classes = Data(X, labels), Data(X, labels).class_order()
    fold, scores = folds(labels, 3, 0), []
    machine = ODM(kernel="rbf", gamma=1.0)
    for k in range(3):
        fitted = machine.copy().fit(X[fold != k], labels[fold != k], classes=classes)
        values = fitted.model_.decision_values(X[fold == k])
        by_class = _ovr_decision_function(values <= 0, -values, 3)
        each = [roc_auc_score(labels[fold == k] == c, by_class[:, i])
                for i, c in enumerate(classes)]  # fmt: skip
        scores.append(np.mean(each))
    plan = SearchPlan(machine, [{}], data, fold, "auc")
    (row,) = search(plan)
    assert row.scores == pytest.approx(scores, abs=1e-12)
    (calibrated,) = search(plan._replace(probability=True))
    assert np.mean(calibrated.scores) > 0.9


@pytest.fixture
def three_classes():
    """Three clouds in a plane, the second above the others."""
    generator = np.random.default_rng(3)
    labels = np.repeat([7, 2, 5], 40)
    X = generator.standard_normal((120, 2)) * 0.7
    X[labels == 2] += [1.5, 2.5]
    X[labels == 5] += [3.0, 0.0]
    order = generator.permutation(120)
    return sparse.csr_matrix(X[order]), labels[order]


def test_the_first_class_is_the_same_in_every_fold():
    """Where the data begin with a 1, but the training part of a fold begins with a 2."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((20, 3))
    labels = np.where(X[:, 0] > 0, 1, 2)
    order = np.argsort(labels != 2, kind="stable")
    order = np.concatenate([order[-1:], order[:-1]])
    data = Data(sparse.csr_matrix(X[order]), labels[order])
    fold = folds(data.labels, 4, 0)
    assert data.labels[fold != fold[0]][0] != data.labels[0]
    (row,) = search(SearchPlan(ODM(), [{}], data, fold))
    sizes = np.bincount(fold)
    assert row.scores @ sizes == pytest.approx(row.accuracy * sizes.sum())


def test_csv_json_and_model(run, heart, tmp_path):
    outcome = run("cv", *SEARCH, "--csv", "t.csv", "--json", "t.json", "-o", "m", heart)
    assert outcome.code == 0
    with open(tmp_path / "t.csv") as table:
        rows = list(csv.DictReader(table))
    assert len(rows) == 2 * 6 * 2 + 6 * 2
    assert [float(row["mean"]) for row in rows] == [
        row["mean"] for row in json.loads((tmp_path / "t.json").read_text())
    ]
    for row in rows:
        scores = [float(row[f"fold{k}"]) for k in range(1, 6)]
        assert float(row["mean"]) == pytest.approx(np.mean(scores))
        assert float(row["std"]) == pytest.approx(np.std(scores, ddof=1))
    assert "seconds" not in rows[0]
    highest = max(float(row["accuracy"]) for row in rows)
    *_, best, _score, accuracy = outcome.out.splitlines()
    assert accuracy == f"Cross Validation Accuracy = {100 * highest:g}%"
    assert float(read_model("m").facts["lambda"]) in {float(row["lambda"]) for row in rows}
    assert f"-l {float(read_model('m').facts['lambda']):g} " in best


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize("product", ["-o", "--csv", "--json"])
def test_the_result_is_printed_before_a_file_fails(run, heart, product):
    outcome = run("cv", "-l", "1,16", product, "/dev/full", heart)
    assert outcome.code == 1 and "No space left on device" in outcome.err
    for line in ("Best: odm-train ", "Best accuracy by fold: ", "Cross Validation Accuracy = "):
        assert line in outcome.out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_the_result_of_repeated_splits_is_printed_before_a_file_fails(run, heart):
    outcome = run("cv", "-l", "1,4", "--repeat", "2", "--csv", "/dev/full", heart)
    assert outcome.code == 1 and "Test accuracy" in outcome.out


def test_a_size_is_the_same_in_another_process(run, heart):
    size = pickle.loads(pickle.dumps(Size().convert("1.5G", None, None)))
    assert size == 1.5e9 and size.word == "1.5G"
    command = ["cv", "-t", "rbf", "-g", "1", "-l", "1,16", "--memory", "1G", heart]
    assert run(*command, "-j", "2").out == run(*command).out


@pytest.mark.parametrize("size", ["20M", "1G", "500", "777.4M", "600000.5K"])
def test_the_best_command_has_the_memory_that_was_given(run, heart, size):
    best = run("cv", "-l", "1", "-v", "2", "--memory", size, heart).out.splitlines()[1]
    assert f" --memory {size} " in best


def test_seconds_are_in_the_table_on_demand(run, heart):
    search = ["-l", "1,4", "-v", "2", "--seconds"]
    outcome = run("cv", *search, "--csv", "-", "--json", "t.json", heart)
    rows = list(csv.DictReader(outcome.out.splitlines()))
    same = json.loads(Path("t.json").read_text())
    assert [float(row["seconds"]) for row in rows] == [row["seconds"] for row in same]
    assert all(row["seconds"] > 0 for row in same)
    assert run("cv", *search, heart).code == 2
    assert run("cv", *search, "--csv", "-", "--repeat", "2", heart).code == 2


def test_resume_does_nothing_again_and_loses_nothing(run, heart, tmp_path, monkeypatch):
    whole = run("cv", *SEARCH, "--journal", "j", "--csv", "whole.csv", heart)
    lines = (tmp_path / "j").read_bytes().splitlines(keepends=True)
    # A torn line and half of the fits.
    (tmp_path / "j").write_bytes(b"".join(lines[: len(lines) // 2]) + lines[-1][:7])
    again = run("cv", *SEARCH, "--journal", "j", "--csv", "again.csv", heart)
    assert again.out == whole.out and f"{len(lines) // 2 - 1} fits are done" in again.err
    # A gap that is rounding only depends on the fit from which this one starts.
    tables = [(tmp_path / f"{name}.csv").read_text() for name in ("again", "whole")]
    known = [re.sub(r"[0-9.]+e-[1-3][0-9]", "", table) for table in tables]
    assert known[0] == known[1]
    journal = (tmp_path / "j").read_text().splitlines()[1:]
    # Behind each stands its checksum.
    fits = [json.loads(line.rpartition(" ")[0])[:2] for line in journal if "]" in line]
    assert len(fits) == len({tuple(fit) for fit in fits}) == len(lines) - 1
    from odmtool import solvers

    monkeypatch.setattr(solvers, "solve", lambda *a, **k: pytest.fail("it was fitted again"))
    assert run("cv", *SEARCH, "--journal", "j", heart).out == whole.out


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_kill_and_resume(run, start, heart, tmp_path, jobs):
    whole = run("cv", *WIDE, heart)
    generator = np.random.default_rng(int(jobs))
    for _ in range(2):
        process = start("cv", *WIDE, "-j", jobs, "--journal", "j", heart, start_new_session=True)
        journal, grown = tmp_path / "j", 0
        before = journal.stat().st_size if journal.exists() else 0
        while process.poll() is None and grown < generator.integers(100, 4000):
            time.sleep(0.01)
            grown = (journal.stat().st_size if journal.exists() else 0) - before
        # The group is gone if the search was faster than this loop.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert run("cv", *WIDE, "--journal", "j", heart).out == whole.out


def test_a_torn_first_line_begins_the_journal_again(run, heart, tmp_path):
    whole = run("cv", "-l", "1,2", "--journal", "j", heart)
    content = (tmp_path / "j").read_bytes()
    for size in (0, 1, 100, content.index(b"\n")):
        (tmp_path / "j").write_bytes(content[:size])
        assert run("cv", "-l", "1,2", "--journal", "j", heart).out == whole.out
        begun = (tmp_path / "j").read_bytes().splitlines()
        assert begun[0] == content.splitlines()[0] and len(begun) == len(content.splitlines())


def test_a_journal_with_which_another_process_goes_on(run, heart, tmp_path):
    whole = run("cv", "-l", "1,2", "--journal", "j", heart)
    shutil.copy(tmp_path / "j", tmp_path / "copy")
    content = (tmp_path / "copy").read_bytes()
    code = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, 2); print(flush=True); input()"
    command = [sys.executable, "-c", code, str(tmp_path / "copy")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        refused = run("cv", "-l", "1,2", "--journal", "copy", heart)
        assert refused.code == 1
        assert "copy: another odm-cv goes on with this journal; wait for it" in refused.err
        assert (tmp_path / "copy").read_bytes() == content
        other.communicate(b"\n")
    assert run("cv", "-l", "1,2", "--journal", "copy", heart).out == whole.out


def test_a_short_write_does_not_swallow_the_next_line(tmp_path, monkeypatch):
    path, write, fit = str(tmp_path / "j"), os.write, Fit(0, 0, 1, 1.0, 0.0, True)
    open_journal(path, {})
    with Writer(path) as writer:
        monkeypatch.setattr(journal.os, "write", lambda d, line: write(d, line[:9]))
        writer.write(fit)
        monkeypatch.undo()
        writer.write(fit._replace(fold=1))
    assert open_journal(path, {}) == [fit._replace(fold=1)]


def test_a_changed_line_of_a_journal_is_not_believed(run, heart, tmp_path):
    whole = run("cv", "-l", "1,2", "--journal", "j", heart)
    content = (tmp_path / "j").read_bytes()
    fit = content.splitlines()[1]
    for changed in (fit.replace(b", ", b", 9", 2), fit[:-1], b"[" * 100_000, b"[0, 0, 9999]"):
        (tmp_path / "j").write_bytes(content.replace(fit, changed))
        again = run("cv", "-l", "1,2", "--journal", "j", heart)
        assert (again.code, again.out) == (0, whole.out)


def test_journals_of_version_1_are_read(run, heart, tmp_path):
    whole = run("cv", "-l", "1,2", "--journal", "j", heart)
    head, *lines = (tmp_path / "j").read_bytes().splitlines()
    old = [head.replace(b'"odmtool-journal": 2', b'"odmtool-journal": 1')]
    old += [line.rpartition(b" ")[0] for line in lines]
    (tmp_path / "j").write_bytes(b"\n".join(old[:4]) + b"\n")
    again = run("cv", "-l", "1,2", "--journal", "j", heart)
    assert again.out == whole.out and "3 fits" in again.err
    # Without checksums, what is impossible is not believed.
    impossible = old[1].replace(old[1].split(b",")[2], b" 9999")
    (tmp_path / "j").write_bytes(b"\n".join([old[0], impossible]) + b"\n")
    assert run("cv", "-l", "1,2", "--journal", "j", heart).out == whole.out


def test_journals_that_cannot_be_are_refused(run, heart, tmp_path):
    run("cv", "-l", "1,2", "--journal", "j", heart)
    content = (tmp_path / "j").read_bytes()
    (tmp_path / "j").write_bytes(content.replace(b'"odmtool-journal": 2', b'"odmtool-journal": 9'))
    outcome = run("cv", "-l", "1,2", "--journal", "j", heart)
    assert outcome.code == 1 and "version 9" in outcome.err
    for name in ("/dev/full", "/dev/zero"):
        outcome = run("cv", "-l", "1,2", "--journal", name, heart)
        assert outcome.code == 1 and f"{name}: is not a regular file" in outcome.err
        assert "delete" not in outcome.err


def test_journals_of_other_searches_are_refused(run, heart, tmp_path):
    run("cv", "-l", "1,2", "--journal", "j", heart)
    before = (tmp_path / "j").read_bytes()
    for arguments, key in [(["-l", "1,3"], "the settings to try"), (["-l", "1,2", "-v", "4"], "-v"),
                           (["-l", "1,2", "--seed", "5"], "--seed"),
                           (["-l", "1,2", "-w1", "2"], "-w"),
                           (["-l", "1,2", "-e", "0.01"], "-e"),
                           (["-l", "1,2", "--search", "coarse"], "--search"),
                           (["-l", "1,2", "--snapshot", "random"], "--snapshot"),
                           (["-l", "1,2", "--metric", "auc"], "--metric")]:  # fmt: skip
        outcome = run("cv", *arguments, "--journal", "j", heart)
        assert outcome.code == 1 and f"they differ in {key})" in outcome.err
    other = Path(heart).read_text().replace("0.708333", "0.7", 1)
    (tmp_path / "other").write_text(other)
    assert "differ in the data" in run("cv", "-l", "1,2", "--journal", "j", "other").err
    assert (tmp_path / "j").read_bytes() == before
    for text in ("hello\n", "hello"):
        (tmp_path / "text").write_text(text)
        outcome = run("cv", "--journal", "text", heart)
        assert outcome.code == 1 and "is not an odm-cv journal" in outcome.err
        assert (tmp_path / "text").read_text() == text
    assert run("cv", "--journal", "no/such/folder", heart).code == 1


def test_journals_from_before_small_classes_were_taken_in_pairs(run, heart, tmp_path):
    run("cv", "-l", "1,2", "--journal", "j", heart)
    head = (tmp_path / "j").read_bytes().splitlines()[0]
    assert b"pairs" not in head and b'"multiclass": "auto"' in head
    # Some have told the default.
    told, rest = b'"multiclass": "auto", "most_in_pairs": 50', (tmp_path / "j").read_bytes()
    (tmp_path / "j").write_bytes(rest.replace(b'"multiclass": "auto"', told, 1))
    assert run("cv", "-l", "1,2", "--journal", "j", heart).code == 0
    rows = [f"{label} 1:{label + i / 10}\n" for label in range(51) for i in range(3)]
    (tmp_path / "small").write_text("".join(rows))
    command = ["cv", "-t", "rbf", "-l", "1", "-g", "1", "-v", "3", "--journal", "k", "small"]
    whole = run(*command)
    content = (tmp_path / "k").read_bytes()
    assert b', "most_in_pairs": Infinity' in content
    assert run(*command).out == whole.out
    (tmp_path / "k").write_bytes(content.replace(b', "most_in_pairs": Infinity', b""))
    assert "differ in --multiclass)" in run(*command).err


def test_halving_ends_on_all_data_with_the_better_settings(heart):
    values = dict(kernel=("rbf",), gamma=(0.002, 0.02, 0.2, 2.0), lambda_=(1.0, 64.0, 4096.0))
    plan = plan_of(heart, values)
    monkey = strategies._SMALLEST
    strategies._SMALLEST = 50
    try:
        rounds = []
        rows = list(strategies.halving(plan, search, lambda s, m: rounds.append((s, m)), 0))
    finally:
        strategies._SMALLEST = monkey
    assert rounds == [(12, 90), (4, 270)]
    assert len(rows) == 4
    full = {str(row.setting): row.accuracy for row in search(plan)}
    assert all(full[str(row.setting)] == row.accuracy for row in rows)
    # What went on is good: its best is close to the best of all.
    assert max(row.accuracy for row in rows) >= max(full.values()) - 0.02


@pytest.mark.parametrize(
    "m, sizes",
    [(2000, [222, 666, 2000]), (199_999, [22_222, 66_666, 199_999]),
     (200_000, [11_111, 33_333, 100_000]), (500_000, [11_111, 33_333, 100_000])],
)  # fmt: skip
def test_of_many_examples_the_last_round_has_some(m, sizes):
    labels = np.arange(m) % 2
    plan = SearchPlan(None, [{}] * 20, Data(np.zeros((m, 1)), labels), np.arange(m) % 5)
    assert strategies.subset_sizes(plan) == sizes


def test_what_a_part_of_the_examples_decides_is_told(run, heart, monkeypatch):
    """One setting that is left goes to the last round at once."""
    options = ["-t", "rbf", "-g", "0.002,0.02,0.2,2", "-l", "1,64,4096", "--search", "halving"]
    monkeypatch.setattr(strategies, "_SMALLEST", 5)
    whole = run("cv", *options, heart)
    assert whole.code == 0 and "the rates are" not in whole.err
    monkeypatch.setattr(strategies, "MANY", 90)
    some = run("cv", *options, heart)
    assert some.code == 0 and "fits on 30 examples" in some.err
    assert "the rates are of 90 of the 270 examples; --search full takes all" in some.err
    monkeypatch.setattr(strategies, "MANY", 200)
    monkeypatch.setattr(strategies, "_PLAIN", 1e-9)
    plan, rounds = plan_of(heart, VALUES), []
    assert strategies.subset_sizes(plan) == [30, 90, 270]
    rows = list(strategies.halving(plan, search, lambda s, m: rounds.append((s, m)), 0))
    assert rounds == [(12, 30), (1, 270)] and [row.examples for row in rows] == [270]


def test_what_is_plainly_worse_does_not_go_on(heart, monkeypatch):
    """By three standard errors of a difference: of .9 and .8 in 270 examples .030."""
    def row(accuracy):
        return Trial({}, accuracy, np.array([accuracy]), 0, examples=270)

    assert strategies.is_plainly_worse(row(0.80), row(0.90))
    assert not strategies.is_plainly_worse(row(0.82), row(0.90))
    assert not strategies.is_plainly_worse(row(1.0), row(1.0))
    monkeypatch.setattr(strategies, "_SMALLEST", 50)
    plan, rounds = plan_of(heart, VALUES), []
    for errors, left in ((3.0, 4), (1e-9, 1)):
        monkeypatch.setattr(strategies, "_PLAIN", errors)
        rows = list(strategies.halving(plan, search, lambda s, m: rounds.append(s), 0))
        assert len(rows) == left
    auc = plan._replace(metric="auc")
    assert len(list(strategies.halving(auc, search, lambda s, m: rounds.append(s), 0))) == 4
    assert rounds == [12, 4, 12, 1, 12, 4]


def test_coarse_ends_where_no_neighbour_is_better(heart):
    values = dict(kernel=("rbf",), gamma=tuple(2.0**k / 13 for k in range(-6, 5)),
                  lambda_=tuple(2.0**k for k in range(0, 21, 2)))  # fmt: skip
    plan = plan_of(heart, values)
    rows = list(strategies.coarse(plan, search, lambda s, m: None, 0))
    assert 16 < len(rows) < 60
    assert len({str(row.setting) for row in rows}) == len(rows)
    top = best(rows, plan.machine)
    i, j = (values[name].index(top.setting[name]) for name in ("gamma", "lambda_"))
    near = grid(values | {
        "gamma": values["gamma"][max(0, i - 1) : i + 2],
        "lambda_": values["lambda_"][max(0, j - 1) : j + 2],
    })  # fmt: skip
    assert len(near) >= 4
    for neighbour in search(plan._replace(settings=near)):
        assert best([top, neighbour], plan.machine).accuracy == top.accuracy


def test_values_of_a_kernel_are_neighbours_whatever_another_one_has():
    settings = [{"kernel": "linear", "lambda_": value} for value in (4.0, 64.0, 1024.0)]
    settings += [
        {"kernel": "rbf", "gamma": gamma, "lambda_": value}
        for gamma in (1.0, 0.1) for value in (0.5, 8.0, 128.0)
    ]  # fmt: skip
    places = strategies._places(settings)
    assert places[:3] == [(0, 0, 0), (0, 1, 0), (0, 2, 0)]
    assert places[3:] == [(1, i, k) for k in (1, 0) for i in range(3)]


@pytest.mark.parametrize("strategy", ["halving", "coarse"])
def test_strategies_from_the_command_line(run, heart, monkeypatch, strategy):
    monkeypatch.setattr(strategies, "_SMALLEST", 50)
    arguments = ["-t", "rbf", "--grid", "paper", "-m", "0.4", "-p", "0.2", "--search", strategy]
    outcome = run("cv", *arguments, heart)
    assert outcome.code == 0
    for jobs in ("2", "1"):
        again = run("cv", *arguments, "-j", jobs, "--journal", "j", heart)
        assert again.code == 0, again.err
        assert again.out == outcome.out


@pytest.mark.parametrize("grid", ["tkde", "quick"])
def test_a_grid_leaves_what_a_paper_s_parameters_name(run, heart, grid):
    options = ["-t", "linear", "-v", "2", "--grid", grid]
    best = run("cv", "--arxiv", "4", "1", "0.2", *options, heart).out.splitlines()[1]
    assert re.match(r"Best: odm-train -t linear -m 0.25 -p 0.2 -l 2.5[56]", best)
    best = run("cv", "-s", "ldm", "--kdd", "0.1", "0.1", "1", *options, heart).out.splitlines()[1]
    assert best.startswith("Best: odm-train -t linear --mu1 0.2 --mu2 0.1 -c 1 ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_table_does_not_take_the_model_with_it(run, heart, tmp_path):
    outcome = run("cv", "-l", "1,16", "--csv", "/dev/full", "--json", "j", "-o", "m", heart)
    assert outcome.code == 1 and (tmp_path / "j").exists() and (tmp_path / "m").exists()
    full = "odm-cv: /dev/full: cannot be written: No space left on device\n"
    assert outcome.err.count(full) == 1 and outcome.err.endswith(full)
    both = run("cv", "-l", "1,16", "-q", "--csv", "/dev/full", "--json", "/dev/full", heart)
    assert both.err == 2 * full
    validated = run("train", "-v", "3", "--json", "/dev/full", heart)
    assert validated.code == 1 and "Cross Validation Accuracy" in validated.out


def test_a_journal_needs_no_new_file_in_its_folder(run, heart, tmp_path, monkeypatch):
    (tmp_path / "ro").mkdir()
    search = ["cv", "-l", "1,16", "--journal", "ro/j", heart]
    assert run(*search).code == 0
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: not os.path.isdir(path) and access(path, mode)
    )
    assert run(*search).code == 0
    (tmp_path / "ro/j").unlink()
    assert "no file can be made in the folder" in run(*search).err
