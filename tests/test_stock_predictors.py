"""LIBLINEAR's and LIBSVM's own programs are the judges, in both directions.

What we write, they read, and give every row the label that we give it; what
they train, odm-predict reads, with their labels and their accuracy.
"""

from __future__ import annotations

import os
import re

import model_makers as make
import numpy as np
import pytest
from scipy.sparse import csr_matrix, vstack
from stock import percentage, run

from odmtool.cli import entry
from odmtool.cli.predict import predict
from odmtool.core.kernels import Kernel
from odmtool.io.model_file import read_model
from odmtool.io.model_write import write_model


@pytest.fixture
def agree(tmp_path, monkeypatch, capfd):
    """Both programs predict the file ``t`` with the model ``m``: same labels, same accuracy."""
    monkeypatch.chdir(tmp_path)

    def function(predictor: str, options=()) -> list[int]:
        stock = run(predictor, "t", "m", "stock")
        capfd.readouterr()
        assert entry.run(predict, [*options, "t", "m", "ours"], "odm-predict") == 0
        ours = capfd.readouterr()
        with open("stock") as a, open("ours") as b:
            labels = [int(float(line)) for line in a]
            assert labels == [int(line) for line in b]
        assert percentage(ours.out) == percentage(stock)
        # The labels are any; so are those of the rows.
        assert "warning" not in ours.err.replace("warning: no label of the test file", "")
        return labels

    return function


def put(lines: str) -> None:
    with open("t", "w") as stream:
        stream.write(lines)


# ---- models written by us --------------------------------------------------------


def hard_rows(rng, width: int) -> csr_matrix:
    """Ordinary, empty, far away and tiny rows, rows with integer values, repeated rows."""
    ordinary = make.sparse_rows(rng, 60, width)
    return vstack(
        [
            ordinary,
            csr_matrix((2, width)),
            make.sparse_rows(rng, 15, width, scale=1e3),
            make.sparse_rows(rng, 15, width, scale=1e-9),
            csr_matrix(rng.integers(-1, 2, (60, width)).astype(float)),
            -ordinary[:20],
        ]
    ).tocsr()


@pytest.mark.parametrize("bias", [-1.0, 0.0, 2.5])
@pytest.mark.parametrize("n_classes", [1, 2, 3, 4, 5, 6])
def test_liblinear_reads_our_linear_models(agree, n_classes, bias):
    rng = np.random.default_rng([n_classes, int(bias * 2) + 2])
    X = hard_rows(rng, 12)
    put(make.data_lines(X, rng.integers(-50, 50, X.shape[0])))
    for solver_type in ("L2R_L2LOSS_SVC_DUAL", "L2R_LR", "MCSVM_CS"):
        for integers in (False, True):
            model = make.linear_model(rng, n_classes, 9, bias, solver_type)
            if integers:  # exact ties
                model.weights = np.sign(model.weights)
            model.facts = {"machine": "odm", "command": "odm-train a:b c:d", "note": "1:2 3:4"}
            write_model("m", model)
            labels = agree("liblinear-predict")
            assert set(labels) <= set(model.labels)


@pytest.mark.parametrize("name", make.KERNELS)
@pytest.mark.parametrize("n_classes", [1, 2, 3, 6])
def test_libsvm_reads_our_kernel_models(agree, n_classes, name):
    rng = np.random.default_rng([n_classes, *name.encode()])
    X = hard_rows(rng, 12)
    put(make.data_lines(X, rng.integers(-50, 50, X.shape[0])))
    for rho in (False, True):
        for integers in (False, True):
            model = make.kernel_model(rng, make.KERNELS[name], n_classes, 30, 9, rho)
            if integers:
                model.coef = np.sign(model.coef)
                model.support_vectors = csr_matrix(np.sign(model.support_vectors.toarray()))
            model.facts = {"machine": "odm", "command": "odm-train a:b c:d", "note": "1:2 3:4"}
            write_model("m", model)
            agree("svm-predict")


@pytest.mark.parametrize("n_classes", [1, 2, 4])
def test_libsvm_reads_our_precomputed_models(agree, n_classes):
    rng = np.random.default_rng(n_classes)
    model = make.precomputed_model(rng, 20, n_classes)
    write_model("m", model)
    # Every value is written out: svm-predict counts values, it does not look at indices.
    K = np.vstack([rng.integers(-2, 3, (60, 20)), np.zeros((1, 20)), np.ones((1, 20))])
    lines = make.precomputed_lines(K, rng.integers(-50, 50, len(K)))
    for serial in (" 0:", " 0:-", " 0:0.", " 0:0e"):  # of rows to predict it is not looked at
        put(lines.replace(" 0:", serial))
        agree("svm-predict")


@pytest.mark.parametrize("name", make.KERNELS)
@pytest.mark.parametrize("n_classes", [3, 5])
def test_libsvm_reads_our_one_versus_one_carriers(agree, n_classes, name):
    rng = np.random.default_rng([n_classes, *name.encode()])
    model = make.one_versus_one_carrier(rng, make.KERNELS[name], n_classes)
    write_model("m", model)
    X = hard_rows(rng, 9)
    put(make.data_lines(X, rng.integers(-50, 50, X.shape[0])))
    labels = agree("svm-predict")
    if name == "linear":  # an empty row is a tie of all classes
        assert labels[60] == model.labels[-1]


def test_far_away_rows_of_an_rbf_model_are_ties(agree):
    rng = np.random.default_rng(0)
    for n_classes in (2, 4):
        model = make.one_versus_one_carrier(rng, Kernel("rbf", gamma=5.0), n_classes)
        write_model("m", model)
        put(make.data_lines(csr_matrix(rng.normal(1e3, 1, (20, 6))), np.zeros(20, int)))
        assert agree("svm-predict") == [model.labels[-1]] * 20


@pytest.mark.parametrize("name", make.KERNELS)
@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (1e-2, 100.0)])
def test_rows_at_rounding_distance_from_the_boundary(agree, name, scale, offset):
    """Bisect between rows of different classes; BLAS alone would decide some otherwise."""
    rng = np.random.default_rng([int(offset), *name.encode()])
    kernel = make.KERNELS[name]
    if offset:
        kernel = kernel._replace(gamma=3e3 if name == "rbf" else 1e-5)
    model = make.kernel_model(rng, kernel, 4, 30)
    model.support_vectors = csr_matrix(model.support_vectors.toarray() * scale + offset)
    ends = rng.normal(offset, scale, (40, 2, 9))
    model.rho += np.median(model.decision_values(csr_matrix(ends[:, 0])), axis=0)
    low, high = np.zeros(40), np.ones(40)
    rows = []
    at_low = model.decision_values(csr_matrix(ends[:, 0])) > 0
    pair = np.argmax(at_low != (model.decision_values(csr_matrix(ends[:, 1])) > 0), axis=1)
    chosen = np.arange(40)
    for step in range(60):
        middle = (low + high) / 2
        points = ends[:, 0] + middle[:, None] * (ends[:, 1] - ends[:, 0])
        same = (model.decision_values(csr_matrix(points)) > 0)[chosen, pair] == at_low[chosen, pair]
        low, high = np.where(same, middle, low), np.where(same, high, middle)
        if step >= 45:
            rows.append(points)
    write_model("m", model)
    put(make.data_lines(csr_matrix(np.vstack(rows)), np.zeros(15 * 40, int)))
    agree("svm-predict")


# ---- models trained by the stock programs ------------------------------------------


def training_data(rng, n_classes: int, n_rows=90, n_features=8) -> tuple[csr_matrix, np.ndarray]:
    centres = rng.standard_normal((n_classes, n_features))
    y = rng.integers(0, n_classes, n_rows)
    X = centres[y] + rng.standard_normal((n_rows, n_features))
    X[rng.random(X.shape) < 0.3] = 0.0
    names = rng.choice(np.arange(-20, 20), n_classes, replace=False)
    return csr_matrix(X.round(3)), names[y]


def put_both(rng, n_classes: int) -> None:
    """Training file ``d`` and test file ``t``, which has features that ``d`` has not."""
    X, y = training_data(rng, n_classes)
    X_test = make.sparse_rows(rng, 100, 11)
    for name, lines in (
        ("d", make.data_lines(X, y)),
        ("t", make.data_lines(X, y) + make.data_lines(X_test, rng.choice(y, 100))),
    ):
        with open(name, "w") as stream:
            stream.write(lines)


@pytest.mark.parametrize("solver", [0, 1, 2, 3, 4, 5, 6, 7])
def test_models_of_liblinear(agree, solver):
    rng = np.random.default_rng(solver)
    for n_classes in (1, 2, 4):
        put_both(rng, n_classes)
        for bias in ("-1", "0", "2.5"):
            run("liblinear-train", "-q", "-s", str(solver), "-B", bias, "d", "m")
            agree("liblinear-predict")


@pytest.mark.parametrize("kernel", [0, 1, 2, 3])
@pytest.mark.parametrize("machine", [["-s", "0"], ["-s", "1", "-n", "0.2"], ["-b", "1"]])
def test_models_of_libsvm(agree, kernel, machine):
    rng = np.random.default_rng([kernel, len(machine)])
    options = ["-q", "-t", str(kernel), *machine]
    if kernel == 1:
        options += ["-d", "2", "-r", "0.5"]
    for n_classes in (1, 2, 4):
        put_both(rng, n_classes)
        run("svm-train", *options, "d", "m")
        agree("svm-predict")
        assert read_model("m").facts == {}


@pytest.mark.parametrize("machine", [["-s", "0"], ["-s", "1", "-n", "0.2"], ["-b", "1"]])
def test_precomputed_models_of_libsvm(agree, machine):
    rng = np.random.default_rng(len(machine))
    for n_classes in (2, 4):
        X, y = training_data(rng, n_classes)
        X_test = make.sparse_rows(rng, 50, X.shape[1])
        with open("d", "w") as stream:
            stream.write(make.precomputed_lines((X @ X.T).toarray(), y))
        put(make.precomputed_lines((X_test @ X.T).toarray(), rng.choice(y, 50)))
        run("svm-train", "-q", "-t", "4", *machine, "d", "m")
        agree("svm-predict")


def test_a_libsvm_model_of_features_from_zero(agree):
    rng = np.random.default_rng(1)
    put_both(rng, 3)
    for name in ("d", "t"):
        with open(name) as stream:
            text = re.sub(r"(\d+):", lambda m: f"{int(m.group(1)) - 1}:", stream.read())
        with open(name, "w") as stream:
            stream.write(text)
    run("svm-train", "-q", "d", "m")
    agree("svm-predict", ["--zero-based"])


def test_models_of_other_kinds_are_refused_in_one_sentence(agree, capfd):
    put_both(np.random.default_rng(2), 2)
    for trainer, machine, name in (
        ("liblinear-train", "11", "L2R_L2LOSS_SVR"),
        ("liblinear-train", "12", "L2R_L2LOSS_SVR_DUAL"),
        ("liblinear-train", "13", "L2R_L1LOSS_SVR_DUAL"),
        ("svm-train", "2", "one_class"),
        ("svm-train", "3", "epsilon_svr"),
        ("svm-train", "4", "nu_svr"),
    ):
        run(trainer, "-q", "-s", machine, "d", "m")
        assert entry.run(predict, ["t", "m", "o"], "odm-predict") == 1
        captured = capfd.readouterr()
        assert captured.out == "" and captured.err.count("\n") == 1
        assert f"type {name}; only classification models" in captured.err
    assert not os.path.exists("o")


def test_truncated_stock_models_are_refused_or_complete(agree, capfd):
    """Where we accept a part of a stock model, it is the whole model."""
    rng = np.random.default_rng(3)
    put_both(rng, 3)
    for trainer in ("liblinear-train", "svm-train"):
        run(trainer, "-q", "d", "whole")
        with open("whole", "rb") as stream:
            content = stream.read()
        for length in sorted({*range(200), *rng.integers(0, len(content), 200).tolist()}):
            with open("m", "wb") as stream:
                stream.write(content[:length])
            assert entry.run(predict, ["t", "m", "o"], "odm-predict") == 1
            assert capfd.readouterr().err.count("\n") == 1
