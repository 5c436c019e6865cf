"""Classes that overlap so much that mcodm finds nothing: one against the rest takes its place."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from problems import write
from scipy import sparse

from odmtool import MulticlassODMClassifier, ODMClassifier
from odmtool.io.model_file import read_model
from odmtool.machines import machine_named, overlap

SAID = "the classes overlap so much that the objective of "


def overlapping(k=16, m=800, d=12, seed=0):
    """Clouds of k classes; the even rows for training."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(k, size=m)
    X = 0.4 * rng.normal(size=(k, d))[labels] + rng.normal(size=(m, d))
    return X, labels


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, labels = overlapping()
    write("d", sparse.csr_matrix(X[::2]), labels[::2])
    write("t", sparse.csr_matrix(X[1::2]), labels[1::2])
    write("apart", sparse.csr_matrix(X[::2] + 9 * np.eye(16, 12)[labels[::2] % 3]), labels[::2] % 3)


@pytest.mark.parametrize("name", ["mcodm", "mcsvm"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_objective_without_a_model(name, weighted):
    """It counts with the weights of the examples and of the classes."""
    X, labels = overlapping()
    weight = np.random.default_rng(1).uniform(0.5, 2, len(labels)) if weighted else None
    heavier = {3: 2.5, 5: 0.0, 99: 4.0} if weighted else None
    machine = machine_named(name)(lambda_=10.0, class_weight=heavier, max_iter=0)
    machine.fit(X, labels, weight)
    data = SimpleNamespace(labels=labels, weight=weight)
    # Every example costs lambda / m times its weight.
    each = np.ones(len(labels)) if weight is None else weight
    factors = np.array([(heavier or {}).get(label, 1.0) for label in labels])
    whole = 10.0 * (factors @ each) / each.sum()
    at_zero = machine.solution_._replace(objective=whole)
    for share, expected in ((1.0, True), (0.955, True), (0.945, False)):
        machine.solution_ = at_zero._replace(objective=whole * share, converged=True)
        assert overlap.finds_nothing(machine, data) == expected
    for converged, other in ((False, name), (True, "m3svm")):
        machine.solution_, machine.name = at_zero._replace(converged=converged), other
        assert not overlap.finds_nothing(machine, data)


def right(run, *options):
    outcome = run("train", *options, "d", "m")
    assert outcome.code == 0
    run("predict", "-q", "t", "m", "o")
    lines = Path("t").read_text().splitlines()
    share = np.mean(np.loadtxt("o") == [float(line.split()[0]) for line in lines])
    return share, outcome.err


def test_one_against_the_rest_takes_the_place_of_the_default(run, files):
    found, told = right(run, "-B", "1")
    assert f"{SAID}mcodm, the default" in told and "takes its place" in told
    assert told.count("odm, linear") == 1 and "classes (ovr)" in told
    same, quiet = right(run, "-B", "1", "-s", "odm", "--multiclass", "ovr")
    assert found == same and SAID not in quiet
    alone, warned = right(run, "-B", "1", "-s", "mcodm")
    assert alone < found
    assert f"warning: {SAID}mcodm is hardly below that without a model: -s odm" in warned
    assert f"warning: {SAID}mcsvm is" in right(run, "-s", "mcsvm")[1]
    assert read_model("m").facts["machine"] == "mcsvm"


def test_nothing_is_said_where_classes_are_apart(run, files):
    for options in ((), ("-s", "mcodm"), ("-v", "3")):
        outcome = run("train", *options, "apart", *([] if "-v" in options else ["m"]))
        assert outcome.code == 0 and SAID not in outcome.err and "mcodm" in outcome.err + "mcodm"


def test_the_default_stays_where_it_is_right_more_often(run, files, monkeypatch):
    monkeypatch.setattr(overlap, "share_right", lambda machine, *_: machine.name == "mcodm")
    outcome = run("train", "d", "m")
    assert outcome.code == 0 and SAID not in outcome.err and "mcodm, linear" in outcome.err
    assert read_model("m").facts["machine"] == "mcodm"


def test_searches_and_folds_are_of_what_takes_its_place(run, files, monkeypatch):
    monkeypatch.setattr("odmtool.cli.overlap._TRIED", 390)
    outcome = run("cv", "-l", "2^4:12:4", "-v", "3", "-B", "1", "-o", "m", "d")
    assert outcome.code == 0 and outcome.err.count(f"{SAID}mcodm, the default") == 1
    assert "-s odm --multiclass ovr" in outcome.out and "-B 1" in outcome.out
    assert read_model("m").facts["machine"] == "odm"
    own = run("cv", "-l", "2^4:12:4", "-v", "3", "-B", "1", "-s", "odm", "--multiclass", "ovr", "d")
    rates = [line for line in own.out.splitlines() if "Best:" not in line]
    assert rates == [line for line in outcome.out.splitlines() if "Best:" not in line]
    folds = run("train", "-v", "3", "-B", "1", "d")
    assert SAID in folds.err
    assert folds.out == run("train", "-v", "3", "-B", "1", "-s", "odm", "d").out
    assert run("cv", "-v", "3", "-l", "4", "--repeat", "2", "d").code == 0


def test_the_estimator_takes_the_same(files):
    X, labels = overlapping()
    for options in ({}, {"probability": True}):
        found = ODMClassifier(**options).fit(X[::2], labels[::2])
        alone = MulticlassODMClassifier(**options).fit(X[::2], labels[::2])
        assert found.model_.facts["machine"] == "odm"
        assert alone.model_.facts["machine"] == "mcodm"
        score = [machine.score(X[1::2], labels[1::2]) for machine in (found, alone)]
        assert score[0] > score[1]
    assert ODMClassifier().fit(X, labels % 2).model_.facts["machine"] == "odm"
