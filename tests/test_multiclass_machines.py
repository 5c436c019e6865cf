"""More than two classes from the command line: every machine, its model files, what it refuses."""

from __future__ import annotations

import csv
import json
import re

import model_makers as make
import numpy as np
import pytest
import stock
from multiclass_data import CLASSES, clusters, put
from scipy.sparse import csr_matrix

from odmtool.core import kernels
from odmtool.core.kernels import Kernel
from odmtool.io.model_file import read_model
from odmtool.io.svmlight import read_svmlight
from odmtool.machines import ISM3, LDM, M3SVM, MCODM, ODM
from odmtool.solvers.settings import Settings

# How often mcODM begins is asked in test_mcodm_starts.py.
pytestmark = pytest.mark.usefixtures("two_starts")

LINEAR_ONLY = ("m3svm", "ism3")
MACHINES = {
    "mcodm": ["-s", "mcodm"],
    "mcsvm": ["-s", "mcsvm"],
    "m3svm": ["-s", "m3svm"],
    "ism3": ["-s", "ism3"],
    "softmax": ["-s", "ism3", "--ism3-loss", "softmax"],
    "ovr": ["-s", "odm", "-l", "64", "--multiclass", "ovr"],
    "ovo": ["-s", "odm", "-l", "64", "--multiclass", "ovo"],
    "ecoc": ["-s", "odm", "-l", "64", "--multiclass", "ecoc"],
}
KERNELS = {"linear": [], "rbf": ["-t", "rbf", "-g", "0.3"],
           "poly": ["-t", "poly", "-g", "0.5", "-r", "0", "-d", "2"],
           "precomputed": ["-t", "precomputed"]}  # fmt: skip
# For what is asked of a model, however near to the best one: mcODM would take thousands.
FEW = ["--max-iter", "200"]


def hard_rows(seed=1, d=4):
    """Ordinary rows; empty, far, tiny and repeated ones; some with an unknown feature only."""
    generator = np.random.default_rng(seed)
    parts = [
        generator.integers(-4, 5, (60, d + 1)), np.zeros((2, d + 1)),
        generator.standard_normal((20, d + 1)), 1e-9 * generator.standard_normal((10, d + 1)),
        1e4 * generator.standard_normal((10, d + 1)), np.eye(d + 1)[[d, d]],
    ]  # fmt: skip
    return csr_matrix(np.vstack(parts))


def put_both(kernel, k):
    """Training file ``d`` and test file ``t``."""
    X, labels = clusters(k)
    T = hard_rows()
    tested = np.random.default_rng(2).choice(CLASSES, T.shape[0])
    if kernel != "precomputed":
        put("d", X, labels)
        put("t", T, tested)
        return
    for name, rows, known in (("d", X, labels), ("t", T[:, :4], tested)):
        with open(name, "w") as stream:
            stream.write(make.precomputed_lines((rows @ X.T).toarray(), known))


@pytest.fixture
def agree(run, tmp_path):
    """The model ``m`` gives every row of ``t`` the label that the stock predictor gives it."""

    def function(predictor, *options):
        outcome = run("predict", *options, "t", "m", "ours")
        assert outcome.code == 0
        theirs = stock.run(predictor, *options, "t", "m", "stock")
        assert stock.percentage(theirs) == stock.percentage(outcome.out)
        ours = (tmp_path / "ours").read_text().split("\n")
        assert ours == (tmp_path / "stock").read_text().split("\n")
        return [int(label) for label in ours[:-1]]

    return function


def combinations():
    """Of a machine, a kernel and -B; m3svm and ism3 are linear and refuse -B."""
    for name in MACHINES:
        if MACHINES[name][1] in LINEAR_ONLY:
            yield name, "linear", []
        else:
            yield from ((name, kernel, bias) for kernel in KERNELS for bias in ([], ["-B", "1.5"]))


# ---- model files -------------------------------------------------------------------


@pytest.mark.parametrize(("name", "kernel", "bias"), list(combinations()))
def test_the_stock_predictors_give_our_labels(run, agree, name, kernel, bias):
    for k in (2, 3) if bias else (2, 6):
        put_both(kernel, k)
        arguments = ["-q", *FEW, "-e", "0.1", *MACHINES[name], *KERNELS[kernel], *bias, "d", "m"]
        assert run("train", *arguments).code == 0
        is_linear = kernel == "linear" and not (name == "ovo" and k > 2)
        labels = agree("liblinear-predict" if is_linear else "svm-predict")
        assert set(labels) <= set(CLASSES[:k]) and len(set(labels)) > 1
        if k > 2 and not bias and kernel in ("linear", "poly") and name in ("mcodm", "ovr"):
            # Of an empty row all scores are 0: the first class of the training file.
            assert labels[60] == labels[61] == CLASSES[k - 1]
        if is_linear:
            assert run("train", "--format", "libsvm", *arguments).code == 0
            assert agree("svm-predict") == labels
        elif k > 2 and name != "ovo":
            assert run("train", "--format", "compact", *arguments).code == 0
            assert run("predict", "t", "m", "compact").code == 0
            with open("compact") as stream:
                assert [int(line) for line in stream] == labels


@pytest.mark.parametrize(("arguments", "machine", "classes"), [
    ([], "mcodm", "3 classes:"), (["-t", "rbf"], "odm", "3 classes (ovo):"),
    (["-t", "rbf", "--format", "compact"], "odm", "3 classes (ovr):"),
    (["--multiclass", "ecoc"], "odm", "3 classes (ecoc):"),
])  # fmt: skip
def test_the_machine_for_more_classes_that_is_taken_unasked(run, arguments, machine, classes):
    put("d", *clusters(3))
    outcome = run("train", *arguments, "d", "m")
    assert read_model("m").facts["machine"] == machine and classes in outcome.err
    found = run("cv", *arguments, "-l", "64", "-v", "2", "-o", "n", "d")
    assert found.code == 0 and f" -s {machine} " in found.out
    assert read_model("n").facts["machine"] == machine


def test_a_search_over_both_kernels_has_one_machine(run):
    """The best command names it: without a kernel mcodm would be trained."""
    put("d", *clusters(3))
    found = run("cv", "-v", "2", "--csv", "t", "-o", "n", "d")
    with open("t") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["kernel"] for row in rows} == {"linear", "rbf"}
    assert {row["machine"] for row in rows} == {read_model("n").facts["machine"]} == {"odm"}
    assert " -s odm " in found.out


@pytest.mark.parametrize("name", ["mcodm", "ovr"])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "precomputed"])
def test_scores_are_the_same_in_both_forms(run, name, kernel, tmp_path):
    put_both(kernel, 3)
    arguments = [*FEW, *MACHINES[name], *KERNELS[kernel], "-B", "1"]
    tables = []
    for form in ("libsvm", "compact"):
        assert run("train", "-q", *arguments, "--format", form, "d", "m").code == 0
        assert run("predict", "-d", "t", "m", "o").code == 0
        head, *lines = (tmp_path / "o").read_text().splitlines()
        order = [CLASSES[:3].index(int(label)) for label in head.split()[1:]]
        table = np.array([[float(word) for word in line.split()] for line in lines])
        assert table.shape == (104, 4)
        values = np.empty((104, 3))
        values[:, order] = table[:, 1:]
        tables.append((table[:, 0], values))
        clear = np.sort(values, axis=1)[:, -1] - np.sort(values, axis=1)[:, -2] > 1e-9
        assert clear.sum() > 60
        best = np.array(CLASSES[:3])[values.argmax(axis=1)]
        assert (best == table[:, 0])[clear].all()
    (labels, values), (compact_labels, compact_values) = tables
    assert (labels == compact_labels).all()
    assert np.allclose(values, compact_values, rtol=1e-9, atol=1e-9 * np.abs(values).max())


@pytest.mark.parametrize("arguments", [
    ["-s", "mcodm", "-t", "rbf"], ["-s", "mcodm"], ["-s", "mcodm", "-B", "1"], ["-s", "m3svm"],
    ["-s", "ism3"], ["-s", "odm"], ["-s", "odm", "--multiclass", "ovo"],
])  # fmt: skip
def test_one_class_only(run, agree, arguments):
    X, _ = clusters(3)
    put("d", X, np.full(60, 2_000_000_000))
    put("t", hard_rows(), np.full(104, 2_000_000_000))
    outcome = run("train", *arguments, "d", "m")
    assert outcome.code == 0 and "only one class, 2000000000" in outcome.err
    predictor = "svm-predict" if "rbf" in arguments else "liblinear-predict"
    assert set(agree(predictor)) == {2_000_000_000}
    if predictor == "liblinear-predict":
        assert run("train", *arguments, "--format", "libsvm", "d", "m").code == 0
        assert set(agree("svm-predict")) == {2_000_000_000}


@pytest.mark.parametrize("name, kernel", [
    ("mcodm", "linear"), ("mcodm", "rbf"), ("mcsvm", "linear"), ("mcsvm", "rbf"),
    ("odm", "linear"), ("odm", "rbf"), ("m3svm", "linear"),
])  # fmt: skip
def test_a_fold_that_leaves_one_class_answers_that(run, tmp_path, name, kernel):
    """The fold of the only example of its class."""
    (tmp_path / "data").write_text("1 1:1\n" + "".join(f"-1 1:{-i}\n" for i in range(1, 6)))
    outcome = run("train", "-s", name, "-t", kernel, "-v", "3", "data")
    assert outcome.code == 0 and "some of the 3 folds are without it" in outcome.err
    accuracy = float(re.search(r"Accuracy = ([\d.]+)%", outcome.out)[1])
    assert accuracy <= 500 / 6 + 1e-3


@pytest.mark.parametrize("name", MACHINES)
def test_a_class_with_one_example(run, agree, name):
    X, labels = clusters(4)
    alone = np.flatnonzero(labels == 5)
    kept = np.setdiff1d(np.arange(60), alone[1:])
    put("d", X[kept], labels[kept])
    put("t", hard_rows(), np.full(104, 5))
    assert run("train", *MACHINES[name], "d", "m").code == 0
    assert read_model("m").labels == [5, 3, 2_000_000_000, -7]
    agree("svm-predict" if name == "ovo" else "liblinear-predict")
    refused = run("cv", *MACHINES[name], "d")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.count("\n") == 1 and "class 5 has only 1 example" in refused.err
    scripted = run("train", *MACHINES[name], "-v", "5", "d")
    assert scripted.code == 0 and scripted.out.startswith("Cross Validation Accuracy = ")
    assert "warning: class 5 has only 1 example" in scripted.err


@pytest.mark.parametrize("name", ["mcodm", "ism3", "ovr"])
def test_a_thousand_classes(run, agree, name):
    generator = np.random.default_rng(0)
    target = np.r_[np.arange(1000), generator.integers(1000, size=100)]
    put("d", csr_matrix(generator.standard_normal((1000, 4))[target].round(3)), target)
    put("t", csr_matrix(generator.standard_normal((200, 4)).round(3)), target[:200])
    limits = ["-e", "0.1"] if name != "ovr" else ["-l", "1", "-e", "0.1"]
    outcome = run("train", *MACHINES[name], *limits, "--max-iter", "5", "d", "m")
    assert outcome.code == 0
    assert len(set(agree("liblinear-predict"))) > 5
    report = run("predict", "--report", "t", "m", "o")
    assert report.code == 0 and report.out.count("\n") < 60


# ---- which machine -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-s", "m3svm", "-B", "1"], "has an intercept for every class"),
        (["-s", "ism3", "-B", "0"], "has an intercept for every class"),
        (["-s", "m3svm", "-t", "rbf"], "-s m3svm is linear"),
        (["-s", "ism3", "-t", "4"], "-s ism3 is linear"),
        (["-s", "m3svm", "--solver", "dcd"], "--solver dcd is for -s odm, -s ldm, -s mcodm"),
        (["-s", "ism3", "--solver", "svrg"], "; take --solver auto, newton or adam"),
        (["-s", "mcodm", "--solver", "adam"], "--solver adam is for -s m3svm or -s ism3; take"),
        (["-s", "mcodm", "--solver", "asgd"], "--solver asgd is for -s ldm; take"),
        (["-s", "mcodm", "-t", "rbf", "--solver", "newton"], "is for linear machines"),
        (["-s", "odm", "--solver", "adam"], "adam"),
        (["-s", "m3svm", "--power", "0"], "power must be a number > 0"),
        (["-s", "m3svm", "-l", "0"], "lambda"),
        (["-s", "mcodm", "-m", "2"], "mu"),
        (["-s", "mcodm", "--loo"], "--loo"),
        (["-s", "m3svm", "--loo", "exact"], "--loo"),
        (["-s", "odm", "--loo"], "--loo is for two classes, and the data have 3"),
        (["-s", "odm", "--loo", "exact", "--multiclass", "ovo", "-t", "rbf"], "--loo"),
        (["--loo"], "--loo"),
        (["-s", "mcodm", "--format", "compact"], "--format compact"),
        (["-s", "mcodm", "-t", "rbf", "--format", "liblinear"], "--format liblinear"),
        (["-s", "odm", "--multiclass", "ovo", "--format", "liblinear"], "--multiclass ovo"),
        (["-s", "odm", "-t", "rbf", "--multiclass", "ovo", "--format", "compact"], "compact"),
        (["-s", "m3svm", "--format", "compact"], "compact"),
        (["-s", "mcodm", "-c", "1", "-l", "1"], "-l and -c"),
    ],
)
def test_refused_in_one_sentence(run, tmp_path, arguments, words):
    put("d", *clusters(3))
    outcome = run("train", *arguments, "d", "m")
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert outcome.err.startswith("odm-train: ") and words in outcome.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d"]


def test_the_compact_form_of_two_classes_is_refused(run, tmp_path):
    put("d", *clusters(2))
    outcome = run("train", "-s", "mcodm", "-t", "rbf", "--format", "compact", "d", "m")
    assert outcome.code == 2 and "more than two classes" in outcome.err
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("arguments", "flags"),
    [
        (["-s", "m3svm", "-m", "0.3", "-p", "0.1"], "-m, -p"),
        (["-s", "mcodm", "--power", "3", "--mu1", "2"], "--mu1, --power"),
        (["-s", "ism3", "--outer", "constant", "--multiclass", "ovo"], "--multiclass, --outer"),
        (["-s", "mcodm", "--ism3-loss", "softmax"], "--ism3-loss"),
        (["-s", "l2svm", "--outer", "cccp"], "--outer"),
    ],
)
def test_options_of_other_machines_are_named(run, arguments, flags):
    put("d", *clusters(3))
    outcome = run("train", "-q", *arguments, "-e", "0.1", "d", "m")
    assert outcome.code == 0
    verb = "are" if "," in flags else "is"
    assert outcome.err == f"odm-train: warning: {flags} {verb} ignored by machine {arguments[1]}\n"


# ---- weights -----------------------------------------------------------------------

WEIGHTED = {
    "mcodm": MCODM(lambda_=30.0),
    "mcodm rbf": MCODM(lambda_=30.0, kernel="rbf", gamma=0.2),
    "constant": MCODM(lambda_=30.0, settings=Settings(outer="constant")),
    "m3svm": M3SVM(),
    "m3svm adam": M3SVM(solver="adam", max_iter=1000, power=2.0),
    "ism3": ISM3(),
    "softmax": ISM3(ism3_loss="softmax"),
    "ovr": ODM(lambda_=30.0),
    "ovo": ODM(lambda_=30.0, multiclass="ovo", kernel="rbf", gamma=0.2),
    "ldm": LDM(lambda_=30.0),
}


def scores_of(machine, X):
    values = machine.model_.decision_values(X)
    if machine.name in LINEAR_ONLY:
        return values - values.mean(axis=1, keepdims=True)
    return values


@pytest.mark.parametrize("name", WEIGHTED)
def test_weight_two_is_a_duplicate_row(name):
    X, labels = clusters(3)
    weight = np.ones(60)
    weight[:15], weight[15:20] = 2, 0
    machine = WEIGHTED[name]
    machine = machine.copy(tolerance=1e-3 if machine.solver == "adam" else 1e-8)
    one = machine.copy().fit(X, labels, weight)
    again = np.r_[np.arange(15), np.arange(15), np.arange(20, 60)]
    order = np.r_[np.arange(15), np.arange(20, 60), np.arange(15)]
    assert sorted(again) == sorted(order)
    two = machine.copy().fit(X[order], labels[order])
    assert two.classes_ == one.classes_
    assert two.solution_.primal == pytest.approx(one.solution_.primal, rel=1e-4)
    size = np.abs(scores_of(one, X)).max()
    tolerance = (1e-2 if machine.solver == "adam" else 1e-3) * size
    assert np.allclose(scores_of(one, X), scores_of(two, X), rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", WEIGHTED)
def test_a_class_weight_is_the_weight_of_its_examples(name):
    X, labels = clusters(3)
    machine = WEIGHTED[name].copy(cost=0.5)
    one = machine.copy(class_weight={3: 2.5}).fit(X, labels)
    other = machine.copy().fit(X, labels, np.where(labels == 3, 2.5, 1.0))
    if machine.name == "ldm":
        return  # its mean and variance are divided by M
    size = np.abs(scores_of(one, X)).max()
    assert np.allclose(scores_of(one, X), scores_of(other, X), rtol=0, atol=1e-3 * size)


def test_weights_from_the_command_line(run, tmp_path):
    X, labels = clusters(3)
    put("d", X, labels)
    put("dd", csr_matrix(np.vstack([X.toarray(), X[:15].toarray()])), np.r_[labels, labels[:15]])
    (tmp_path / "w").write_text("2\n" * 15 + "1\n" * 45)
    for name in ("mcodm", "m3svm", "ism3"):
        common = [*MACHINES[name], "-q", "-w3", "2", "-e", "1e-8"]
        assert run("train", *common, "-W", "w", "d", "a").code == 0
        assert run("train", *common, "dd", "b").code == 0
        a, b = read_model("a"), read_model("b")
        assert a.facts["class_weight_3"] == b.facts["class_weight_3"] == "2.0"
        centred = [w.weights - w.weights.mean(axis=1, keepdims=True) for w in (a, b)]
        assert np.allclose(*centred, atol=1e-3 * np.abs(centred[0]).max())


@pytest.mark.parametrize(("name", "same"), [
    ("mcodm", 4 * 60), ("m3svm", 1 / 4), ("ism3", 1 / 4), ("ovr", 4 * 60), ("ovo", 4 * 60),
])  # fmt: skip
def test_cost_says_what_lambda_says(run, name, same):
    put("d", *clusters(3))
    machine = [word for word in MACHINES[name] if word not in ("-l", "64")]
    assert run("train", "-q", *machine, "-c", "4", "d", "a").code == 0
    assert run("train", "-q", *machine, "-l", repr(same), "d", "b").code == 0
    a, b = read_model("a"), read_model("b")
    assert float(a.facts["lambda"]) == same
    X = read_svmlight("d").X
    assert np.allclose(a.decision_values(X), b.decision_values(X), rtol=1e-9, atol=1e-9)


# ---- what else the commands do with them ----------------------------------------------


@pytest.mark.parametrize(("arguments", "count"), [
    (["-s", "m3svm", "-l", "0.01,1", "--power", "2,4"], 4),
    (["-s", "ism3", "--power", "1.5,2,4"], 3),
    (["-s", "mcodm", "-l", "1,16", "-t", "rbf", "-g", "0.1,1"], 4),
])  # fmt: skip
def test_a_search_with_a_journal(run, tmp_path, arguments, count):
    put("d", *clusters(3))
    arguments = [*arguments, "-v", "2"]
    first = run("cv", *arguments, "--journal", "j", "-o", "m", "d")
    lines = first.out.splitlines()
    assert first.code == 0 and len(lines) == count + 3
    assert lines[-1].startswith("Cross Validation Accuracy = ")
    resumed = run("cv", *arguments, "--journal", "j", "d")
    assert f"{2 * count} fits are done" in resumed.err and resumed.out == first.out
    assert run("cv", *arguments, "-j", "2", "d").out == first.out
    # The command that is named trains the model that was written.
    best = next(line for line in lines if line.startswith("Best: odm-train "))
    assert run("train", *best.split()[2:], "n").code == 0
    X = read_svmlight("d").X
    assert np.array_equal(
        read_model("m").decision_values(X), read_model("n").decision_values(X)
    )


@pytest.mark.parametrize("arguments", [
    ["-s", "mcodm"], ["-s", "mcodm", "-t", "rbf"], ["-s", "m3svm"], ["-s", "ism3"],
    ["-s", "odm", "--multiclass", "ovr", "-l", "64", "-t", "rbf", "-B", "1"],
])  # fmt: skip
def test_probabilities(run, agree, arguments, tmp_path):
    X, labels = clusters(3)
    names = np.array([4, 9, 7])[[CLASSES.index(label) for label in labels]]  # six digits at most
    put("d", X, names)
    put("t", X, names)
    assert run("train", "-q", *arguments, "-b", "1", "--format", "libsvm", "d", "m").code == 0
    predicted = run("predict", "-b", "1", "t", "m", "ours")
    theirs = stock.run("svm-predict", "-b", "1", "t", "m", "stock")
    assert stock.percentage(theirs) == stock.percentage(predicted.out)
    ours, other = ((tmp_path / name).read_text().splitlines() for name in ("ours", "stock"))
    assert ours[0] == other[0]
    a, b = (np.array([line.split() for line in lines[1:]], float) for lines in (ours, other))
    assert (a[:, 0] == b[:, 0]).all() and np.allclose(a, b, atol=2e-4)
    if "rbf" in arguments:
        assert run("train", "-q", *arguments, "-b", "1", "--format", "compact", "d", "m").code == 0
        assert run("predict", "-b", "1", "t", "m", "o").code == 0
        head, *lines = (tmp_path / "o").read_text().splitlines()
        compact = np.array([line.split() for line in lines], float)
        assert head.split()[1:] == ours[0].split()[:0:-1]
        assert (compact[:, 1:] == a[:, :0:-1]).all() and (compact[:, 0] == a[:, 0]).all()
    assert run("train", *arguments, "-b", "1", "-v", "3", "d").code == 0


@pytest.mark.parametrize("arguments", [
    ["-s", "mcodm", "-t", "rbf"], 
    ["-s", "odm", "--multiclass", "ovr", "-l", "64", "-t", "poly", "-B", "1"],
])  # fmt: skip
def test_margins_of_both_forms_are_the_same(run, tmp_path, arguments):
    put("d", *clusters(3))
    tables = []
    for form in ("libsvm", "compact"):
        options = ["-q", *arguments, "--format", form, "--margins", "a"]
        assert run("train", *options, "d", form).code == 0
        assert run("predict", "--margins", "b", "d", form, "o").code == 0
        trained, tested = np.loadtxt("a"), np.loadtxt("b")
        assert np.allclose(trained, tested, rtol=1e-9, atol=1e-12)
        tables.append(tested)
        predicted = np.array((tmp_path / "o").read_text().split(), int)
        # Positive margins are right predictions.
        clear = np.abs(tested[:, 1]) > 1e-9
        assert ((tested[:, 1] > 0) == (predicted == tested[:, 0]))[clear].all()
    assert np.allclose(*tables, rtol=1e-8, atol=1e-10)
    table = run("margins", "d", "libsvm", "compact")
    assert table.code == 0 and len(table.out.splitlines()) == 6


def test_margins_of_m3svm_are_differences_of_scores(run):
    X, labels = clusters(3)
    put("d", X, labels)
    assert run("train", "-q", "-s", "m3svm", "--margins", "a", "d", "m").code == 0
    model = read_model("m")
    values, target = model.decision_values(X), [model.labels.index(label) for label in labels]
    rows = np.arange(60)
    own = values[rows, target].copy()
    values[rows, target] = -np.inf
    assert np.loadtxt("a")[:, 1] == pytest.approx(own - values.max(axis=1), abs=1e-12)


def test_json_of_the_training(run, tmp_path):
    put("d", *clusters(3))
    for name in ("mcodm", "m3svm", "ism3", "ovo"):
        outcome = run("train", "-q", *MACHINES[name], "--json", "j", "d", "m")
        assert outcome.code == 0
        record = json.loads((tmp_path / "j").read_text())
        assert record["machine"] == MACHINES[name][1] and np.isfinite(record["objective"])


def test_six_examples_of_two_features_are_no_case_for_thousands_of_epochs(run):
    rows = "1 1:1 2:.5\n2 1:-1\n3 2:2\n1 1:.7 2:.1\n2 1:-.4 2:.3\n3 1:.2 2:1\n"
    with open("few", "w") as stream:
        stream.write(rows)
    for lambda_ in ("2^14", "2^20"):
        assert run("train", "-s", "mcodm", "-l", lambda_, "--strict", "few", "m").code == 0


def test_the_precomputed_kernel_of_a_kernel_is_that_kernel(run):
    """A check of the test data of this file: the same machine, whichever way it gets K."""
    machine = ["-s", "mcodm", "-l", "16"]
    X, labels = clusters(3)
    put("d", X, labels)
    assert run("train", "-q", *machine, "-t", "rbf", "-g", "0.3", "d", "a").code == 0
    K = kernels.gram(Kernel("rbf", 0.3), X)
    with open("p", "w") as stream:
        stream.write(make.precomputed_lines(K, labels))
    assert run("train", "-q", *machine, "-t", "precomputed", "p", "b").code == 0
    rows = csr_matrix(np.column_stack([np.arange(1, 61), K]))
    values = read_model("a").decision_values(X)
    assert np.allclose(values, read_model("b").decision_values(rows), atol=1e-9)
