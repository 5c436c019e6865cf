"""Repeated splits: which, what of them is used when, and how two runs are compared."""

import csv
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.stats import ttest_rel

from odmtool.errors import DataError, UsageError
from odmtool.io.svmlight import read_svmlight
from odmtool.machines import ODM
from odmtool.search import metrics, repeats, validation
from odmtool.search.repeats import Protocol, compare, repeat, run_split, splits
from odmtool.search.search import SearchPlan, best, grid, ranking, search
from odmtool.search.validation import Data, folds

RBF = ["-t", "rbf", "-l", "1,64,4096", "-g", "0.02,0.5", "--repeat", "4"]
# What depends on the features of the test part.
TESTED = ("test", "correct")
VALUES = dict(kernel=("rbf",), gamma=(0.02, 0.5), lambda_=(1.0, 64.0))


def protocol_of(heart, metric="accuracy", count=2, strategy="full", values=VALUES, **machine):
    data = read_svmlight(heart)
    plan = SearchPlan(
        ODM(**machine), grid(values), Data(data.X, data.labels), folds(data.labels, 3, 0), metric
    )
    return Protocol(plan, splits(data.labels, count, 0.2, seed=0), 0, strategy)


def table(path):
    return list(csv.DictReader(path.read_text().splitlines()))


# ---- the splits ------------------------------------------------------------------------


@given(st.integers(5, 40), st.integers(5, 40), st.sampled_from([0.2, 0.25, 0.5]), st.integers(0, 9))
def test_splits_are_stratified_disjoint_and_complete(first, second, test_size, seed):
    labels = np.random.default_rng(0).permutation(np.repeat([3, -7], [first, second]))
    for split in splits(labels, 3, test_size, seed):
        together = np.concatenate([split.train, split.test])
        assert np.array_equal(np.sort(together), np.arange(len(labels)))
        for label, count in ((3, first), (-7, second)):
            tested = (labels[split.test] == label).sum()
            assert abs(tested - test_size * count) <= 0.5


def test_a_split_depends_on_labels_size_seed_and_its_number_only():
    labels = np.repeat([1, -1], [30, 50])

    def fingerprints(count=3, test_size=0.2, seed=0, labels=labels):
        return [split.fingerprint for split in splits(labels, count, test_size, seed)]

    known = fingerprints()
    assert len(set(known)) == 3 and fingerprints(count=5)[:3] == known
    assert fingerprints() == known
    for other in (fingerprints(seed=1), fingerprints(test_size=0.3), fingerprints(labels=-labels)):
        assert not set(other) & set(known)


def test_the_first_splits_stay_as_they_are():
    """Tables written today must compare with those of later versions."""
    (split,) = splits(np.repeat([1, -1], [5, 10]), 1, 0.2, 0)
    assert split.test.tolist() == [3, 6, 14]
    assert split.fingerprint == "008f1e00be3d2e1f"


@pytest.mark.parametrize("labels, test_size, tested", [
    ([1] * 20 + [2] * 2, 0.2, 0), ([1] * 20 + [2] * 3, 0.5, 2), ([1] * 20 + [2], 0.2, 0),
])  # fmt: skip
def test_classes_too_small_to_split(labels, test_size, tested):
    with pytest.raises(DataError, match=f"class 2 is too small.* takes {tested};"):
        splits(np.array(labels), 1, test_size, 0)


@pytest.mark.parametrize("test_size", [0, 1, -0.2, 1.5, math.nan])
def test_test_sizes_out_of_range(test_size):
    with pytest.raises(UsageError, match="between 0 and 1"):
        splits(np.repeat([1, 2], 20), 1, test_size, 0)


# ---- what is done in a split -------------------------------------------------------------


@pytest.mark.parametrize("metric", ["accuracy", "auc"])
@pytest.mark.parametrize("machine", [dict(), dict(bias=1.0)])
def test_a_split_is_a_search_and_a_fit_on_its_training_part(heart, metric, machine):
    protocol = protocol_of(heart, metric, **machine)
    whole = protocol.plan
    for result, split in zip(repeat(protocol), protocol.splits, strict=True):
        X, labels = whole.data.X[split.train], whole.data.labels[split.train]
        plan = whole._replace(data=Data(X, labels), fold=folds(labels, 3, 0))
        winner = best(list(search(plan)), plan.machine, metric)
        assert whole.settings[result.setting] == winner.setting
        assert (result.cv, result.cv_score) == (winner.accuracy, winner.mean)
        fitted = ODM(**machine, **winner.setting, tolerance=1e-10, solver="newton").fit(X, labels)
        tested, expected = whole.data.X[split.test], whole.data.labels[split.test]
        assert result.correct == (fitted.predict(tested) == expected).sum()
        assert result.size == len(split.test) and result.unconverged == 0
        values = fitted.decision_function(tested) * (1 if fitted.classes_[0] == 1 else -1)
        predicted = np.where(values > 0, 1, -1)
        score = metrics.METRICS[metric]([1, -1], expected, predicted, values[:, None])
        assert result.score == pytest.approx(score)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_test_rows_never_influence_the_search(heart, kernel):
    protocol = protocol_of(heart, values=VALUES | {"kernel": (kernel,)})
    split, data = protocol.splits[0], protocol.plan.data
    known = run_split(protocol, split)
    labels, X = data.labels.copy(), data.X.tolil()
    labels[split.test] *= -1
    result = run_split(replaced(protocol, data._replace(labels=labels)), split)
    assert result.correct == known.size - known.correct
    assert result._replace(correct=known.correct, score=known.score) == known
    X[split.test] = 1e3 * np.random.default_rng(0).standard_normal((len(split.test), X.shape[1]))
    result = run_split(replaced(protocol, data._replace(X=sparse.csr_matrix(X))), split)
    assert result.correct != known.correct
    assert result._replace(correct=known.correct, score=known.score) == known


def replaced(protocol, data):
    return protocol._replace(plan=protocol.plan._replace(data=data))


@pytest.mark.parametrize("metric", metrics.METRICS)
def test_the_first_class_is_the_same_in_all_splits(heart, metric):
    """Labels 1 and 2 whose order of appearance differs from split to split."""
    data = read_svmlight(heart)
    labels = np.where(data.labels == 1, 1, 2)
    order = np.argsort(labels != 2, kind="stable")
    order = np.concatenate([order[-1:], order[:-1]])
    X, labels = data.X[order], labels[order]
    results = []
    for named in (labels, np.where(labels == 1, -1, 1)):
        plan = SearchPlan(ODM(), [{"lambda_": 64.0}], Data(X, named), folds(named, 3, 0), metric)
        # The same rows, whatever the classes are called.
        results.append(list(repeat(Protocol(plan, splits(labels, 6, 0.2, 0), 1))))
    assert any(labels[split.train][0] != labels[0] for split in splits(labels, 6, 0.2, 0))
    for ours, theirs in zip(*results, strict=True):
        assert (ours.correct, ours.score) == (theirs.correct, pytest.approx(theirs.score))


def test_weights_count_in_training(heart):
    protocol = protocol_of(heart, count=1)
    data = protocol.plan.data
    weight = np.where(data.labels == 1, 1.0, 1e-6)
    result = run_split(replaced(protocol, data._replace(weight=weight)), protocol.splits[0])
    assert result.correct == (data.labels[protocol.splits[0].test] == 1).sum()


def test_a_setting_without_a_solution_on_the_training_part_makes_way(heart, monkeypatch):
    """One that each fold had; the next one is tested in its place."""
    protocol = protocol_of(heart, count=1)
    (first,) = repeat(protocol)
    known, whole = repeats.STRATEGIES["full"], first.setting
    rows = {}

    def kept(plan, *rest):
        rows.update(enumerate(known(plan, *rest)))
        return list(rows.values())

    def evaluate(machine, settings, data, train, test, gram):
        if len(train) == len(protocol.splits[0].train) and settings == [rows[whole].setting]:
            return iter([validation.NO_SOLUTION])
        return evaluate_chain(machine, settings, data, train, test, gram)

    evaluate_chain = validation.evaluate_chain
    monkeypatch.setitem(repeats.STRATEGIES, "full", kept)
    monkeypatch.setattr(SearchPlan, "evaluate", property(lambda plan: evaluate))
    (second,) = repeat(protocol)
    assert rows[second.setting] is ranking(list(rows.values()), ODM(), "accuracy")[1]
    assert (second.cv, second.size) == (rows[second.setting].accuracy, first.size)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_search_without_a_solution_says_so(run, heart, jobs):
    arguments = ["-t", "sigmoid", "-g", "1", "-r", "-10", "-l", "4,64", "--journal", "j"]
    for _ in range(2):
        outcome = run("cv", *arguments, "--repeat", "2", "-j", jobs, heart)
        assert outcome.code == 1 and "unbounded" in outcome.err and outcome.out == ""


def test_strategies_within_a_split(heart):
    values = VALUES | {"lambda_": tuple(4.0**k for k in range(8))}
    (result,) = repeat(protocol_of(heart, count=1, strategy="coarse", values=values))
    assert result.cv > 0.75


# ---- the command ---------------------------------------------------------------------------


def test_rows_and_tables(run, heart, tmp_path):
    outcome = run("cv", *RBF, "--csv", "t.csv", "--json", "t.json", heart)
    assert outcome.code == 0
    assert outcome.err == "odm-cv: 6 settings x 5 folds x 4 splits = 120 fits\n"
    rows, (*lines, last) = table(tmp_path / "t.csv"), outcome.out.splitlines()
    assert list(rows[0]) == ["split", "kernel", "gamma", "mu", "theta", "lambda", "cv", "test",
                             "correct", "size", "fingerprint"]  # fmt: skip
    for number, (row, line) in enumerate(zip(rows, lines, strict=True), start=1):
        assert line == (
            f"split={number} lambda={float(row['lambda']):g} gamma={float(row['gamma']):g} "
            f"cv={100 * float(row['cv']):g} test={100 * float(row['test']):g}"
        )
        assert float(row["test"]) == int(row["correct"]) / int(row["size"])
        assert row["split"] == str(number) and row["size"] == "54"
    tests = [float(row["test"]) for row in rows]
    mean, std = np.mean(tests), np.std(tests, ddof=1)
    assert last == f"Test accuracy = {100 * mean:.6g}% +- {100 * std:.3g}% (4 splits)"
    assert [row["test"] for row in json.loads((tmp_path / "t.json").read_text())] == tests


def test_another_metric(run, heart, tmp_path):
    arguments = ["--metric", "auc", "--repeat", "3", "--csv", "t.csv", heart]
    *lines, auc, accuracy = run("cv", *arguments).out.splitlines()
    rows = table(tmp_path / "t.csv")
    scores = [float(row["test_auc"]) for row in rows]
    assert auc.startswith(f"Test auc = {100 * np.mean(scores):.6g}% +- ")
    assert accuracy.startswith("Test accuracy = ")
    assert lines[0].endswith(f"cv_auc={100 * float(rows[0]['cv_auc']):g} "
                             f"test_auc={100 * scores[0]:g}")  # fmt: skip
    again = run("cv", *arguments[:-1], "--against", "t.csv", heart)
    assert "p = 1; 0 wins, 3 ties, 0 losses" in again.out


@pytest.mark.parametrize("options", [
    ["-t", "rbf"], ["-t", "rbf", "--scale", "0,1"], ["-t", "rbf", "--grid", "quick"],
    ["-t", "rbf", "-s", "ldm", "--grid", "kdd", "-c", "10", "--mu1", "1", "--mu2", "1"],
])  # fmt: skip
def test_defaults_are_those_of_the_training_part(run, heart, tmp_path, options):
    """Whatever the test rows of the first split hold, but their labels."""
    lines = Path(heart).read_text().splitlines()
    (split,) = splits(read_svmlight(heart).labels, 1, 0.2, seed=0)
    for row in split.test:
        label, *features = lines[row].split()
        features = (feature.split(":") for feature in features)
        lines[row] = " ".join([label, *(f"{i}:{100 * float(x):g}" for i, x in features)])
    (tmp_path / "far").write_text("\n".join(lines) + "\n")
    tables = []
    for data in (heart, "far"):
        assert run("cv", *options, "--repeat", "1", "--csv", "t.csv", data).code == 0
        (row,) = table(tmp_path / "t.csv")
        tables.append({name: value for name, value in row.items() if name not in TESTED})
    assert tables[0] == tables[1]


def test_balanced_weights_are_those_of_the_training_part(run, tmp_path, monkeypatch):
    """Of 6 and 4 examples 2 and 1 are tested: the others weigh 7/8 and 7/6."""
    (tmp_path / "d").write_text("1 1:1\n" * 6 + "2 1:2\n" * 4)
    weights = []

    def seen(protocol, split, *rest):
        weights.append(protocol.plan_of(split).machine.class_weight)
        return run_split(protocol, split, *rest)

    monkeypatch.setattr(repeats, "run_split", seen)
    search = ["-w", "balanced", "-l", "1", "-v", "2", "--test-size", "0.3", "--repeat", "2"]
    assert run("cv", *search, "d").code == 0
    assert weights == [{1: 7 / 8, 2: 7 / 6}] * 2


def test_one_split(run, heart):
    outcome = run("cv", "--repeat", "1", "--test-size", "1/3", heart)
    assert re.search(r"^Test accuracy = [\d.]+% \+- 0% \(1 split\)$", outcome.out, re.MULTILINE)


@pytest.mark.parametrize("search", [RBF, ["-t", "rbf", "--repeat", "3", "--journal", "j"]])
def test_jobs_change_nothing(run, heart, tmp_path, search):
    one = run("cv", *search, "--csv", "1.csv", heart)
    if "--journal" in search:  # splits have a lambda of their own
        assert len(set(re.findall("lambda=\\S+", one.out))) > 1
        head, first, *_ = (tmp_path / "j").read_bytes().splitlines(keepends=True)
        (tmp_path / "j").write_bytes(head + first)
    two = run("cv", *search, "-j", "2", "--csv", "2.csv", heart)
    assert one.code == 0 and two.out == one.out
    assert (tmp_path / "1.csv").read_bytes() == (tmp_path / "2.csv").read_bytes()


# ---- comparisons ---------------------------------------------------------------------------


def test_against_another_kernel(run, heart, tmp_path):
    run("cv", *RBF, "--csv", "rbf.csv", heart)
    outcome = run(
        "cv", "-l", "1", "--repeat", "4", "--csv", "linear.csv", "--against", "rbf.csv", heart
    )
    ours, theirs = (
        np.array([float(row["test"]) for row in table(tmp_path / name)])
        for name in ("linear.csv", "rbf.csv")
    )
    oracle, difference = ttest_rel(ours, theirs), ours - theirs
    assert difference.std() > 0
    *_, first, second = outcome.out.splitlines()
    error = difference.std(ddof=1) / 2
    assert first == (
        f"Difference = {100 * difference.mean():+.4g}% +- {100 * error:.3g}% "
        f"(standard error; against rbf.csv)"
    )
    assert second == (
        f"Paired t-test: t = {oracle.statistic:.4g}, p = {oracle.pvalue:.3g}; "
        f"{(difference > 0).sum()} wins, {(difference == 0).sum()} ties, "
        f"{(difference < 0).sum()} losses"
    )


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=2, max_size=40))
def test_the_t_test_is_that_of_scipy(pairs):
    ours, theirs = (np.array(scores) / 40 for scores in zip(*pairs, strict=True))
    counts = {a - b for a, b in pairs}
    comparison = compare(ours, theirs)
    assert comparison.wins + comparison.ties + comparison.losses == len(pairs)
    assert comparison.wins == sum(a > b for a, b in pairs)
    if len(counts) == 1:
        expected = (0, 1) if counts == {0} else (math.copysign(math.inf, min(counts)), 0)
        assert (comparison.t, comparison.p) == expected and comparison.error == 0
    else:
        oracle = ttest_rel(ours, theirs)
        assert comparison.t == pytest.approx(oracle.statistic, abs=1e-9)
        assert comparison.p == pytest.approx(oracle.pvalue, abs=1e-12)


def test_against_itself(run, heart, tmp_path):
    run("cv", *RBF, "--csv", "t.csv", heart)
    before = (tmp_path / "t.csv").read_bytes()
    outcome = run("cv", *RBF, "--csv", "t.csv", "--against", "t.csv", heart)
    *_, first, second = outcome.out.splitlines()
    assert first == "Difference = +0% +- 0% (standard error; against t.csv)"
    assert second == "Paired t-test: t = 0, p = 1; 0 wins, 4 ties, 0 losses"
    assert (tmp_path / "t.csv").read_bytes() == before


@pytest.mark.parametrize("arguments", [
    ["--seed", "1"], ["--repeat", "3"], ["--repeat", "5"], ["--test-size", "0.21"],
])  # fmt: skip
def test_other_splits_are_refused(run, heart, tmp_path, arguments):
    run("cv", "--repeat", "4", "--csv", "t.csv", heart)
    outcome = run("cv", "--repeat", "4", *arguments, "--against", "t.csv", "--csv", "u.csv", heart)
    assert outcome.code == 1 and outcome.out == "" and outcome.err.count("\n") == 1
    assert "odm-cv: t.csv: its splits differ" in outcome.err
    assert not (tmp_path / "u.csv").exists()


@pytest.mark.parametrize("text, sentence", [
    (b"", "t.csv:1: has no column 'fingerprint'"),
    (b"lambda,accuracy\n1,0.5\n", "t.csv:1: has no column 'fingerprint'"),
    (b"split,fingerprint\n1,ab\n", "t.csv:1: has no column 'test'"),
    (b"test,fingerprint\nx,ab\n", "t.csv:2: expected a number between 0 and 1, got 'x'"),
    (b"fingerprint,test\nab\n", "t.csv:2: expected a number between 0 and 1, got ''"),
    (b"test,fingerprint\n0.5,ab\nnan,ab\n", "t.csv:3: expected a number between 0 and 1"),
    (b"\xff\xfe\x00", "t.csv: was not written by"),
    (b"\x1f\x8b\x08", "t.csv: the gzip data end too early"),
])  # fmt: skip
def test_bad_tables(run, heart, tmp_path, text, sentence):
    (tmp_path / "t.csv").write_bytes(text)
    outcome = run("cv", "--repeat", "2", "--against", "t.csv", heart)
    assert outcome.code == 1 and outcome.out == ""
    assert f"odm-cv: {sentence}" in outcome.err and outcome.err.count("\n") == 1


# ---- the journal -----------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_resume_does_nothing_again_and_loses_nothing(run, heart, tmp_path, monkeypatch, jobs):
    arguments = [*RBF, "-j", jobs, "--journal", "j"]
    whole = run("cv", *arguments, "--csv", "whole.csv", heart)
    lines = (tmp_path / "j").read_bytes().splitlines(keepends=True)
    assert len(lines) == 1 + 4
    # Not in order, and a torn last line.
    (tmp_path / "j").write_bytes(lines[0] + lines[3] + lines[1] + lines[2][:-9])
    again = run("cv", *arguments, "--csv", "again.csv", heart)
    assert again.out == whole.out and "2 splits are done" in again.err
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    from odmtool import solvers

    monkeypatch.setattr(solvers, "solve", lambda *a, **k: pytest.fail("it was fitted again"))
    assert run("cv", *RBF, "--journal", "j", heart).out == whole.out


def test_journals_of_other_runs_are_refused(run, heart, tmp_path):
    run("cv", "--repeat", "2", "--journal", "j", heart)
    run("cv", "-m", "0.2", "--journal", "plain", heart)
    before = (tmp_path / "j").read_bytes()
    for arguments, key in [(["--repeat", "3"], "--repeat"), (["--test-size", "0.3"], "--test-size"),
                           (["--seed", "1"], "--seed"),
                           (["-l", "2"], "the settings to try")]:  # fmt: skip
        outcome = run("cv", "--repeat", "2", *arguments, "--journal", "j", heart)
        assert outcome.code == 1 and f"they differ in {key})" in outcome.err
    assert "differ in --repeat" in run("cv", "-m", "0.2", "--journal", "j", heart).err
    assert "differ in --repeat" in run("cv", "--repeat", "2", "--journal", "plain", heart).err
    assert (tmp_path / "j").read_bytes() == before


# ---- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize("arguments, sentence", [
    (["--repeat", "0"], "at least 1"),
    (["--repeat", "2.5"], "not a whole number"),
    (["--repeat", "2", "--test-size", "0"], "--test-size must be between 0 and 1, not 0"),
    (["--repeat", "2", "--test-size", "1"], "--test-size must be between 0 and 1, not 1"),
    (["--test-size", "0.3"], "--test-size goes with --repeat"),
    (["--against", "t.csv"], "--against goes with --repeat"),
    (["--repeat", "2", "-o", "m"], "-o does not go with --repeat"),
    (["--repeat", "2", "-C"], "-C does not go with --repeat"),
    (["--repeat", "2", "-log2c", "1,2,1"], "-log2c does not go with --repeat"),
    (["--repeat", "2", "-log2c", "1,2,1", "-out", "o"], "-out does not go with --repeat"),
    (["--repeat", "1", "--against", "t.csv"], "at least two splits"),
    (["--repeat", "2", "--weights", "-", "--against", "-"], "cannot both come from stdin"),
    (["--repeat", "2", "-v", "217"], "2 to 216 folds"),
])  # fmt: skip
def test_options_that_make_no_sense(run, heart, arguments, sentence):
    outcome = run("cv", *arguments, heart)
    assert outcome.code == 2 and outcome.out == ""
    assert sentence in outcome.err.splitlines()[-1]


def test_data_that_cannot_be_split(run, tmp_path):
    (tmp_path / "data").write_text("1 1:1\n" * 9 + "2 1:2\n" * 2)
    outcome = run("cv", "--repeat", "2", "-v", "2", "data")
    assert outcome.code == 1 and outcome.out == ""
    assert "odm-cv: data: class 2 is too small to be split: of its 2 examples" in outcome.err
    (tmp_path / "data").write_text("1 1:1\n" * 9 + "2 1:2\n" * 3)
    outcome = run("cv", "--repeat", "2", "-v", "3", "data")
    assert outcome.code == 1 and "has only 2 examples in the training part, fewer" in outcome.err
    (tmp_path / "data").write_text("1 1:1\n" * 9 + "2 1:2\n" * 9 + "3 1:2\n" * 9)
    outcome = run("cv", "--repeat", "2", "data")
    assert outcome.code == 0 and "Test accuracy = " in outcome.out
