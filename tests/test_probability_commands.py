"""``-b 1``: commands and model files, beside svm-predict and LIBLINEAR's predict."""

from __future__ import annotations

import json
import re
from pathlib import Path

import model_makers as make
import numpy as np
import pytest
from scipy.sparse import csr_matrix
from test_stock_predictors import hard_rows, put, put_both
from test_stock_predictors import run as stock

from odmtool.core.kernels import Kernel
from odmtool.io.model_file import read_model
from odmtool.io.model_write import write_model
from odmtool.io.svmlight import read_svmlight, write_svmlight
from odmtool.models.linear import LinearModel
from odmtool.search.validation import folds

# ---- the stock predictors --------------------------------------------------------------


@pytest.fixture
def agree(run):
    """Both programs write the same bytes for the file ``t`` and the model ``m``."""

    def function(predictor="svm-predict"):
        theirs = stock(predictor, "-b", "1", "t", "m", "stock")
        outcome = run("predict", "-b", "1", "t", "m", "ours")
        assert outcome.code == 0
        text = Path("ours").read_text()
        assert text == Path("stock").read_text()
        assert outcome.out.strip() in theirs
        return text.splitlines()

    return function


@pytest.mark.parametrize("name", make.KERNELS)
@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_libsvm_gives_our_probabilities(agree, k, name):
    rng = np.random.default_rng([k, *name.encode()])
    X = hard_rows(rng, 12)
    put(make.data_lines(X, rng.integers(-50, 50, X.shape[0])))
    for n_support in (5, 30):
        model = make.kernel_model(rng, make.KERNELS[name], k, n_support)
        n_pairs = len(model.rho)
        model.probA = rng.standard_normal(n_pairs) - 1
        model.probB = rng.standard_normal(n_pairs)
        model.facts = {"machine": "odm", "command": "odm-train a:b"}
        write_model("m", model)
        first, *lines = agree()
        assert first.split() == ["labels", *map(str, model.labels)]
        assert len(lines) == X.shape[0]


@pytest.mark.parametrize("machine", [["-s", "0"], ["-s", "1", "-n", "0.2"]])
@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_models_of_libsvm(agree, machine, k):
    rng = np.random.default_rng(k)
    put_both(rng, k)
    for kernel in ("0", "2"):
        stock("svm-train", "-q", "-b", "1", "-t", kernel, *machine, "d", "m")
        agree()


@pytest.mark.parametrize("solver", ["0", "6", "7"])
@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_logistic_models_of_liblinear(agree, solver, k):
    put_both(np.random.default_rng(k), k)
    for bias in ("-1", "1"):
        stock("liblinear-train", "-q", "-s", solver, "-B", bias, "d", "m")
        agree("liblinear-predict")


@pytest.mark.parametrize("options", [
    ["-t", "rbf"], ["-t", "rbf", "-B", "2", "-w-1", "3"], ["-t", "poly", "-d", "2", "-r", "1"],
    ["-t", "sigmoid", "-g", "0.01", "-l", "1"], ["--format", "libsvm"],
    ["--format", "libsvm", "-B", "1.5"], ["-t", "rbf", "--format", "libsvm"],
    ["-s", "l1svm", "-t", "rbf", "-l", "64"], ["-s", "mamc", "--format", "libsvm"],
])  # fmt: skip
def test_svm_predict_reads_what_odm_train_writes(run, agree, heart, options):
    assert run("train", "-b", "1", *options, heart, "m").code == 0
    put(Path(heart).read_text())
    lines = agree()
    table = np.array([line.split() for line in lines[1:]], dtype=float)
    assert lines[0] == "labels 1 -1"
    assert np.array_equal(table[:, 0] > 0, table[:, 1] > 0.5)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_rows_of_equal_probabilities_get_the_label_of_svm_predict(agree, kernel):
    """Bisect between rows of different classes; BLAS alone would decide some otherwise."""
    rng = np.random.default_rng(5)
    model = make.kernel_model(rng, make.KERNELS[kernel], 2, 40)
    model.probA, model.probB = np.array([-1.7]), np.array([0.9])
    ends = rng.standard_normal((60, 2, 9))
    model.rho += np.median(model.decision_values(csr_matrix(ends[:, 0]))) - 0.9 / 1.7
    low, high = np.zeros(60), np.ones(60)

    def is_first(points):
        return model.predict_with_probabilities(csr_matrix(points))[1][:, 0] >= 0.5

    at_low, rows = is_first(ends[:, 0]), []
    for step in range(58):
        middle = (low + high) / 2
        points = ends[:, 0] + middle[:, None] * (ends[:, 1] - ends[:, 0])
        same = is_first(points) == at_low
        low, high = np.where(same, middle, low), np.where(same, high, middle)
        if step >= 30:
            rows.append(points)
    write_model("m", model)
    X = csr_matrix(np.vstack(rows))
    put(make.data_lines(X, np.zeros(X.shape[0], int)))
    agree()


def test_a_linear_model_as_libsvm_model_is_the_same_classifier(run, heart):
    from test_stock_predictors import percentage

    data = read_svmlight(heart)
    rng = np.random.default_rng(0)
    X = hard_rows(rng, 15)
    put(make.data_lines(X, rng.integers(-1, 2, X.shape[0])))
    for options in ([], ["-B", "0"], ["-B", "2.5"]):
        run("train", "-b", "1", *options, heart, "linear")
        run("train", "-b", "1", *options, "--format", "libsvm", heart, "m")
        linear, kernel = read_model("linear"), read_model("m")
        assert isinstance(linear, LinearModel) and kernel.support_vectors.shape[0] == 1
        assert linear.facts["objective"] == kernel.facts["objective"]
        assert np.array_equal(linear.probA, kernel.probA)
        a, b = linear.predict_with_probabilities(data.X), kernel.predict_with_probabilities(data.X)
        assert np.array_equal(a[0], b[0]) and a[1] == pytest.approx(b[1], abs=1e-14)
        by_liblinear = stock("liblinear-predict", "t", "linear", "a")
        assert percentage(by_liblinear) == percentage(stock("svm-predict", "t", "m", "b"))
        assert Path("a").read_text() == Path("b").read_text()


def test_a_linear_model_of_several_classes_has_pairs_of_differences():
    rng = np.random.default_rng(1)
    model = make.linear_model(rng, 4)
    model.probA, model.probB = -np.ones(6), np.zeros(6)
    X = make.sparse_rows(rng, 30, 9)
    labels, p = model.predict_with_probabilities(X)
    assert np.array_equal(labels, model.predict(X))
    assert np.array_equal(np.argsort(p), np.argsort(model.decision_values(X)))


def test_a_precomputed_kernel_has_probabilities_too(run, agree):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40, 3))
    K = np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    put(make.precomputed_lines(K, np.where(X[:, 0] + 0.3 * rng.standard_normal(40) > 0, 1, -1)))
    assert run("train", "-b", "1", "-t", "4", "t", "m").code == 0
    assert read_model("m").kernel == Kernel("precomputed")
    agree()


# ---- the commands ------------------------------------------------------------------------


def test_a_linear_model_keeps_the_sigmoid_among_its_facts(run, heart):
    outcome = run("train", "-b", "1", "--verbose", heart, "m")
    assert outcome.code == 0
    assert "probabilities: A = -" in outcome.err and "5 folds (seed 0)" in outcome.err
    assert "--format libsvm" in outcome.err
    text = Path("m").read_text()
    model = read_model("m")
    assert f"probA {model.probA[0]:.17g}\nprobB {model.probB[0]:.17g}\nend sha256" in text
    assert "probability_folds 5\n" in text and "probA" not in model.facts
    stock("liblinear-predict", heart, "m", "stock")
    run("predict", heart, "m", "ours")
    assert Path("stock").read_text() == Path("ours").read_text()
    assert run("predict", "-b", "1", heart, "m", "ours").code == 0
    write_model("again", model)
    assert sorted(Path("again").read_text().splitlines()[:-1]) == sorted(text.splitlines()[:-1])


def test_json_has_the_sigmoid(run, heart):
    for options in ([], ["-t", "rbf"], ["--format", "libsvm"]):
        run("train", "-b", "1", *options, "--json", "j", heart, "m")
        record, model = json.loads(Path("j").read_text()), read_model("m")
        assert (record["probA"], record["probB"]) == (model.probA.tolist(), model.probB.tolist())
    run("train", "--json", "j", heart, "m")
    assert "probA" not in json.loads(Path("j").read_text())


@pytest.mark.parametrize("options", [[], ["-t", "rbf"], ["-t", "rbf", "--solver", "dcd"]])
def test_probabilities_leave_the_machine_as_it_is(run, heart, options):
    run("train", *options, heart, "without")
    run("train", "-b", "1", *options, heart, "with")
    X = read_svmlight(heart).X
    a, b = read_model("without"), read_model("with")
    assert np.array_equal(a.decision_values(X), b.decision_values(X))
    run("train", "-b", "1", *options, heart, "again")
    first, second = (Path(name).read_text() for name in ("with", "again"))
    assert first.partition("command")[0] == second.partition("command")[0]
    run("train", "-b", "1", "--seed", "1", *options, heart, "other")
    assert read_model("other").probA[0] != b.probA[0]


def test_whole_labels_and_six_digits(run, heart, tmp_path):
    """svm-predict writes a label like 1234567 as 1.23457e+06; ours stay whole."""
    text = re.sub(r"(?m)^\+1", "1234567", Path(heart).read_text())
    (tmp_path / "t").write_text(re.sub(r"(?m)^-1", "-7654321", text))
    run("train", "-b", "1", "t", "m")
    run("predict", "-b", "1", "t", "m", "o")
    first, *lines = Path("o").read_text().splitlines()
    assert set(first.split()) == {"labels", "1234567", "-7654321"}
    for line in lines:
        label, *numbers = line.split(" ")
        assert label in ("1234567", "-7654321") and len(numbers) == 2
        assert numbers == [f"{float(number):g}" for number in numbers]
        assert sum(map(float, numbers)) == pytest.approx(1, abs=2e-6)


def test_the_label_is_that_of_the_larger_probability(run, tmp_path):
    model = LinearModel([3, 5], np.array([[1.0]]), probA=np.array([-1.0]), probB=np.array([2.0]))
    write_model("m", model)
    (tmp_path / "t").write_text("3 1:1\n3 1:2\n3 1:3\n")
    run("predict", "t", "m", "o")
    assert Path("o").read_text() == "3\n3\n3\n"
    assert run("predict", "-b", "1", "t", "m", "-").out == (
        "labels 3 5\n5 0.268941 0.731059\n3 0.5 0.5\n3 0.731059 0.268941\n"
    )


def test_a_model_without_probabilities_is_an_error(run, heart, tmp_path):
    for options in ([], ["-t", "rbf"]):
        run("train", *options, heart, "m")
        (tmp_path / "o").write_text("old")
        outcome = run("predict", "-b", "1", heart, "m", "o")
        assert (outcome.code, outcome.out) == (1, "") and outcome.err.count("\n") == 1
        assert outcome.err.startswith("odm-predict: m: the model has no probabilities")
        assert (tmp_path / "o").read_text() == "old"


FEW = "1 1:1\n" * 9 + "2 1:-1\n" * 4


@pytest.mark.parametrize("data, options, sentence", [
    ("1 1:1\n1 1:2\n2 1:3\n", [], "class 1 has 2 examples to train on"),
    (FEW, [], "class 2 has 4 examples to train on"),
    (FEW, ["-v", "2"], "class 1 has 4 examples to train on"),
    (FEW + "2 1:3\n" * 2, ["-v", "3"], "class 2 has 4 examples to train on"),
    (FEW + "2 1:3\n", ["-w2", "0"], "class 2 has 0 examples to train on"),
    (FEW + "2 1:3\n", ["-W", "weights"], "class 2 has 4 examples to train on"),
    ("5 1:1\n" * 9, ["-q"], "the data have only one class, 5; probabilities need two"),
    ("5 1:1\n" * 9, ["-v", "3"], "the data have only one class, 5; probabilities need two"),
])  # fmt: skip
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_too_few_examples_are_a_usage_error(run, tmp_path, data, options, sentence, kernel):
    (tmp_path / "data").write_text(data)
    (tmp_path / "weights").write_text("1\n" * 13 + "0\n")
    outcome = run("train", "-b", "1", "-t", kernel, *options, "data", "m")
    assert outcome.code == 2 and outcome.out == ""
    assert f"odm-train: -b 1: {sentence}" in outcome.err
    assert "Traceback" not in outcome.err and not (tmp_path / "m").exists()


def test_what_does_not_go_together(run, heart, tmp_path):
    for command, arguments, sentence in (
        ("predict", ["-b", "1", "-d", heart, "m", "o"], "give one"),
        ("train", ["-t", "rbf", "--format", "liblinear", heart, "m"], "the kernel is rbf"),
        ("train", ["-t", "rbf", "--format", "liblinear", "-v", "5", heart], "the kernel is rbf"),
        ("train", ["--format", "xml", heart, "m"], "'xml'"),
        ("train", ["-b", "2", heart, "m"], "'2'"),
    ):
        outcome = run(command, *arguments)
        assert (outcome.code, outcome.out) == (2, "") and outcome.err.count("\n") == 1
        assert sentence in outcome.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fact", ["probA x\nprobB 1", "probA 1 2\nprobB 1", "probA 1", "probB 1",
                                  "probA nan\nprobB 1"])  # fmt: skip
def test_a_damaged_sigmoid_is_refused(run, heart, fact):
    import hashlib

    run("train", "-b", "1", heart, "m")
    text = re.sub(r"probA.*\nprobB.*\n(?=end)", fact + "\n", Path("m").read_text())
    body = text[: text.index("end sha256")]
    checksum = hashlib.sha256(body.encode()).hexdigest()
    Path("m").write_text(f"{body}end sha256 {checksum}\n")
    outcome = run("predict", "-b", "1", heart, "m", "o")
    assert outcome.code == 1 and "is not a valid value of 'prob" in outcome.err
    assert outcome.err.count("\n") == 1


def test_values_that_order_the_classes_wrongly_are_said(run, tmp_path):
    # Every example lies among those of the other class: left out, it is told wrongly.
    lines = [f"{1 if (i + j) % 2 else -1} 1:{i} 2:{j}\n" for i in range(4) for j in range(4)]
    (tmp_path / "data").write_text("".join(lines))
    outcome = run("train", "-b", "1", "-t", "rbf", "-g", "1", "data", "m")
    assert outcome.code == 0
    assert "values do not separate the classes (A = " in outcome.err and "useless" in outcome.err


def test_pairs_of_classes_that_values_do_not_separate_are_named(run, tmp_path):
    # Spam and ham are as above; the third class lies far away.
    lines = [
        f"{name} 1:{i} 2:{j}\n" for i in range(4) for j in range(4)
        for name in (["spam", "ham"][(i + j) % 2],)
    ]  # fmt: skip
    far = [f"eggs 1:{20 + i} 2:{j}\n" for i in range(4) for j in range(4)]
    (tmp_path / "data").write_text("".join(lines + far))
    options = ["train", "-q", "-b", "1", "-t", "rbf", "-g", "1"]
    one = run(*options, "data", "m").err
    assert "do not separate classes spam and ham (A = " in one and one.count("warning") == 1
    near = [line.replace("spam", "bacon") for line in lines]
    (tmp_path / "data").write_text("".join(lines + far + near))
    several = run(*options, "data", "m").err
    assert "of 6 pairs of classes, such as " in several and "useless" not in several


def test_strict_holds_for_the_folds_too(run, heart, tmp_path):
    options = ["-b", "1", "--solver", "dcd", "-l", "2^20", "--max-iter", "3", heart, "m"]
    assert run("train", "--strict", *options).code == 3 and list(tmp_path.iterdir()) == []
    lenient = run("train", *options)
    assert lenient.code == 0 and "5 fits did not reach the tolerance" in lenient.err


# ---- cross validation ---------------------------------------------------------------------


@pytest.mark.parametrize("options", [[], ["-t", "rbf", "-w1", "20"]])
def test_cross_validation_counts_the_labels_of_the_probabilities(run, heart, options):
    """As models would give them that are trained with -b 1 on the parts."""
    outcome = run("train", "-b", "1", "-v", "3", "-q", "-e", "1e-11", *options, heart)
    data = read_svmlight(heart)
    fold, correct = folds(data.labels, 3, 0), 0
    lines = Path(heart).read_text().splitlines(keepends=True)
    for k in range(3):
        Path("d").write_text("".join(line for line, f in zip(lines, fold, strict=True) if f != k))
        Path("t").write_text("".join(line for line, f in zip(lines, fold, strict=True) if f == k))
        run("train", "-b", "1", "-q", "-e", "1e-11", *options, "d", "m")
        correct += int(re.search(r"\((\d+)/", run("predict", "-b", "1", "t", "m", "o").out)[1])
    assert outcome.out == f"Cross Validation Accuracy = {100 * correct / 270:g}%\n"
    jobs = run("train", "-b", "1", "-v", "3", "-q", "-e", "1e-11", "-j", "2", *options, heart)
    assert jobs.out == outcome.out
    if options:
        # The sigmoid undoes most of what a class weight does to the labels.
        assert outcome.out != run("train", "-v", "3", "-q", *options, heart).out


def test_a_search_with_probabilities(run, heart):
    outcome = run("cv", "-b", "1", "-v", "3", "-l", "1,1024", "-t", "rbf", "-o", "m", heart)
    assert outcome.code == 0 and "Best: odm-train" in outcome.out and "-b 1" in outcome.out
    best = re.search(r"Best: (odm-train .*)\n", outcome.out)[1]
    run(*best.removeprefix("odm-").split(), "again")
    assert np.array_equal(read_model("m").probA, read_model("again").probA)
    row = re.search(r"lambda=1024 rate=(\S+)", outcome.out)[1]
    alone = run("train", "-b", "1", "-v", "3", "-l", "1024", "-t", "rbf", heart).out
    assert alone == f"Cross Validation Accuracy = {row}%\n"
    linear = run("cv", "-b", "1", "-v", "3", "--repeat", "1", "-l", "16", heart)
    assert linear.code == 0 and "Test accuracy" in linear.out


def test_a_journal_knows_whether_labels_come_from_probabilities(run, heart):
    options = ["--journal", "j", "-v", "3", heart]
    run("cv", *options)
    assert "another search" in run("cv", "-b", "1", *options).err


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
@pytest.mark.parametrize("form", [["-t", "rbf"], ["--format", "libsvm"], ["-t", "rbf", "-B", "1"],
                                  ["--format", "libsvm", "-B", "2"]])  # fmt: skip
def test_more_than_two_classes_as_svm_predict_couples_them(run, agree, multiclass, form):
    rng = np.random.default_rng(0)
    target = rng.integers(4, size=160)
    X = csr_matrix(rng.standard_normal((160, 3)) + 1.5 * np.eye(4)[target][:, :3])
    labels = np.array([5, -3, 9, 2])[target]
    for name in ("d", "t"):
        with open(name, "w") as stream:
            write_svmlight(stream, X, labels)
    arguments = ["-q", "-l", "64", "-b", "1", "--multiclass", multiclass, *form]
    assert run("train", *arguments, "d", "m").code == 0
    lines = agree()
    right = np.mean([int(line.split()[0]) == label
                     for line, label in zip(lines[1:], labels, strict=True)])  # fmt: skip
    assert right > 0.6


def test_one_function_per_class_has_the_same_probabilities_in_every_form(run):
    rng = np.random.default_rng(1)
    labels = rng.integers(3, size=90)
    X = csr_matrix(rng.standard_normal((90, 2)) + 2 * np.eye(3)[labels][:, :2])
    with open("d", "w") as stream:
        write_svmlight(stream, X, labels)
    for kernel, forms in (("linear", ["liblinear", "libsvm"]), ("rbf", ["libsvm", "compact"])):
        tables = []
        for form in forms:
            shared = ["-q", "-s", "mcodm", "-b", "1", "-l", "32", "-B", "1", "-t", kernel]
            assert run("train", *shared, "--format", form, "d", "m").code == 0
            assert run("predict", "-b", "1", "d", "m", "out").code == 0
            header, *rows = Path("out").read_text().splitlines()
            order = np.argsort([int(label) for label in header.split()[1:]])
            numbers = np.array([[float(word) for word in row.split()] for row in rows])
            tables.append(np.column_stack([numbers[:, 0], numbers[:, 1:][:, order]]))
        # LIBSVM's coupling stops at 0.005 / k, so that the order of the classes shows.
        assert tables[0] == pytest.approx(tables[1], abs=0.005)


@pytest.mark.parametrize("machine", ["mcodm", "mcsvm", "m3svm", "ism3"])
def test_machines_for_many_classes_give_probabilities_of_two(machine, run, tmp_path):
    """Their two values make one, as every pair of more classes does."""
    random = np.random.default_rng(1)
    X = random.standard_normal((60, 3))
    y = np.where(X[:, 0] + 0.5 * random.standard_normal(60) > 0, 1, -1)
    rows = (f"{a} 1:{p:g} 2:{q:g} 3:{r:g}" for a, (p, q, r) in zip(y, X, strict=True))
    (tmp_path / "two").write_text("\n".join(rows) + "\n")
    assert run("train", "-q", "-b", "1", "-s", machine, "two", "m").code == 0
    assert run("predict", "-q", "-b", "1", "two", "m", "o").code == 0
    lines = [line.split() for line in (tmp_path / "o").read_text().splitlines()]
    first, found = lines[0][1], lines[1:]
    right = sum(int(label) == truth for (label, *_), truth in zip(found, y, strict=True))
    assert right > 45
    for label, p, q in found:
        assert float(p) + float(q) == pytest.approx(1, abs=1e-5)
        assert (float(p) > 0.5) == (label == first) or abs(float(p) - 0.5) < 0.2
