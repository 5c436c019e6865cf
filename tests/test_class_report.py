"""odm-predict --report and --json: what is said of the predictions of each class."""

from __future__ import annotations

import json

import numpy as np
import pytest

from odmtool.io.model_write import write_model
from odmtool.measures.confusion import MEASURES, Confusion, mean
from odmtool.models.linear import LinearModel


def put(path, labels, predicted, classes=None):
    """A model ``m`` that predicts what feature says, and a test file of these predictions."""
    classes = sorted(set(predicted)) if classes is None else classes
    model = LinearModel(list(classes), np.eye(len(classes)))
    if len(classes) == 2:
        model = LinearModel(list(classes), np.array([[1.0], [-1.0]]))
    write_model(str(path / "m"), model)
    lines = (f"{y} {classes.index(p) + 1}:1\n" for y, p in zip(labels, predicted, strict=True))
    (path / "t").write_text("".join(lines))


def some(n=400, classes=(-7, 3, 5, 2_000_000_000), seed=0):
    generator = np.random.default_rng(seed)
    labels = generator.choice(classes, n, p=[0.5, 0.3, 0.15, 0.05])
    wrong = generator.random(n) < 0.3
    return labels.tolist(), np.where(wrong, generator.choice(classes, n), labels).tolist()


def test_the_numbers_are_those_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    labels, predicted = map(np.array, some())
    labels[:5], predicted[5:9] = 17, 18  # one without predictions, one without examples
    confusion = Confusion()
    for start in range(0, 400, 150):
        confusion.add(labels[start : start + 150], predicted[start : start + 150])
    names = confusion.labels
    assert names == sorted({*labels.tolist(), *predicted.tolist()})
    assert (confusion.matrix() == metrics.confusion_matrix(labels, predicted)).all()
    classes = confusion.classes()
    for average, is_weighted in ((None, None), ("macro", False), ("weighted", True)):
        theirs = metrics.precision_recall_fscore_support(
            labels, predicted, average=average, zero_division=0.0
        )
        for measure, expected in zip(MEASURES, theirs, strict=False):
            if average is None:
                ours = np.nan_to_num([getattr(one, measure) for one in classes])
            else:
                ours = mean(classes, measure, is_weighted=is_weighted)
            assert ours == pytest.approx(expected, abs=1e-15)
    assert np.isnan([classes[names.index(17)].precision, classes[names.index(18)].recall]).all()


def test_the_table_follows_the_accuracy(run, tmp_path):
    put(tmp_path, [1, 1, 1, -1, -1, 4], [1, 1, -1, -1, 1, 1])
    outcome = run("predict", "--report", "t", "m", "o")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines() == [
        "Accuracy = 50% (3/6)",
        "   class  precision  recall      F1  examples  predicted  correct",
        "      -1     0.5000  0.5000  0.5000         2          2        1",
        "       1     0.5000  0.6667  0.5714         3          4        2",
        "       4          -  0.0000  0.0000         1          0        0",
        "    mean     0.3333  0.3889  0.3571",
        "weighted     0.4167  0.5000  0.4524",
        "Confusion matrix",
        "true \\ predicted  -1  1  4",
        "              -1   1  1  0",
        "               1   1  2  0",
        "               4   0  1  0",
    ]


def test_where_it_goes(run, tmp_path):
    put(tmp_path, *some())
    plain = run("predict", "t", "m", "o")
    (tmp_path / "before").write_text((tmp_path / "o").read_text())
    table = run("predict", "-q", "--report", "t", "m", "o")
    assert table.out.startswith(plain.out) and table.out.count("\n") > 10
    to_stderr = run("predict", "--report", "t", "m", "-")
    assert to_stderr.out == (tmp_path / "before").read_text() and to_stderr.err == table.out
    both = run("predict", "--report", "--json", "-", "t", "m", "o")
    assert json.loads(both.out)["examples"] == 400 and both.err == table.out


def test_json_has_everything(run, tmp_path):
    labels, predicted = some()
    labels[:2] = [99, 99]
    put(tmp_path, labels, predicted)
    outcome = run("predict", "--json", "r", "t", "m", "o")
    assert outcome.code == 0 and outcome.out.count("\n") == 1  # the table is not asked for
    record = json.loads((tmp_path / "r").read_text())
    confusion = Confusion()
    confusion.add(np.array(labels), np.array(predicted))
    assert record["correct"] == sum(a == b for a, b in zip(labels, predicted, strict=True))
    assert record["accuracy"] == record["correct"] / 400
    assert [tuple(triple) for triple in record["confusion"]] == confusion.pairs()
    assert sum(count for *_, count in record["confusion"]) == record["examples"] == 400
    by_label = {one["label"]: one for one in record["classes"]}
    assert list(by_label) == confusion.labels
    assert by_label[99]["precision"] is None and by_label[99]["recall"] == 0
    for one in confusion.classes():
        assert by_label[one.label]["f1"] == one.f1
    assert record["mean"]["recall"] == mean(confusion.classes(), "recall", is_weighted=False)
    # The weighted mean of the recalls is the accuracy.
    assert record["weighted"]["recall"] == pytest.approx(record["accuracy"])


def test_a_thousand_classes_stay_readable(run, tmp_path):
    generator = np.random.default_rng(0)
    labels = np.r_[np.repeat(np.arange(1000), 2), [500] * 4]
    wrong = generator.random(len(labels)) < 0.4
    predicted = np.where(wrong, generator.integers(1000, size=len(labels)), labels)
    predicted[labels == 500] = 501
    put(tmp_path, labels.tolist(), predicted.tolist(), list(range(1000)))
    outcome = run("predict", "--report", "t", "m", "o")
    lines = outcome.out.splitlines()
    assert outcome.code == 0 and len(lines) < 50 and max(map(len, lines)) < 100
    assert lines[1] == "The 20 of 1000 classes with the lowest F1; --json FILE writes all"
    worst = lines[3].split()  # of several with F1 = 0 the one with most examples
    assert worst[0] == "500" and worst[2:5] == ["0.0000", "0.0000", "6"]
    position = next(i for i, line in enumerate(lines) if "most frequent of" in line)
    assert lines[position + 2].split() == ["500", "501", "6"]
    told = run("predict", "--report", "--json", "r", "t", "m", "o")
    assert "all are in 'r'" in told.out
    assert len(json.loads((tmp_path / "r").read_text())["classes"]) == 1000


def test_classes_of_the_model_that_do_not_occur_are_not_shown(run, tmp_path):
    put(tmp_path, [1, 2], [1, 2], list(range(1000)))
    lines = run("predict", "--report", "t", "m", "o").out.splitlines()
    assert len(lines) == 10 and lines[2].split()[0] == "1"


def test_thirty_classes_without_mistakes(run, tmp_path):
    put(tmp_path, list(range(30)), list(range(30)))
    lines = run("predict", "--report", "t", "m", "o").out.splitlines()
    assert len(lines) == 1 + 1 + 30 + 2 + 1 and lines[-1] == "No mistakes"


def test_what_is_refused(run, tmp_path):
    put(tmp_path, *some(20))
    for options, words in (
        (["--json", "-", "t", "m", "-"], "stdout"),
        (["--json", "-", "--margins", "-", "t", "m", "o"], "stdout"),
        (["--json", "t", "t", "m", "o"], "--json 't': this file is read or written already"),
        (["--json", "m", "t", "m", "o"], "--json 'm'"),
        (["--json", "./o", "t", "m", "o"], "--json './o'"),
        (["--json", "x", "--margins", "x", "t", "m", "o"], "--json 'x'"),
    ):
        outcome = run("predict", *options)
        assert outcome.code == 2 and words in outcome.err and outcome.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "t"]
    failed = run("predict", "--json", "no/such/r", "t", "m", "o")
    assert failed.code == 1 and failed.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "t"]


def test_the_report_of_an_empty_block():
    confusion = Confusion()
    confusion.add(np.zeros(0, int), np.zeros(0, int))
    assert confusion.labels == [] and confusion.pairs() == [] and confusion.matrix().shape == (0, 0)
