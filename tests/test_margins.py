"""Margins: what they are, their statistics, --margins, and odmtool margins."""

import csv
import os
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path

import model_makers as make
import numpy as np
import pytest
from scipy import sparse

from odmtool.core.kernels import Kernel
from odmtool.errors import DataError
from odmtool.io.model_file import read_model
from odmtool.io.model_write import write_model
from odmtool.io.svmlight import read_svmlight
from odmtool.judge import binary as objective
from odmtool.measures import margins
from odmtool.measures.margins import QUANTILES, Margins, Ruler, class_distances
from odmtool.models.kernel import KernelModel
from odmtool.models.linear import LinearModel

RNG = np.random.default_rng(3)
X = make.sparse_rows(RNG, 40, 9)


def measured(model, X, labels, **known):
    ruler = Ruler(model, **known)
    ruler.add(np.asarray(labels), model.decision_values(X))
    return ruler.result()


def some_labels(model, m=40):
    return RNG.choice(model.labels, m)


# ---- what a margin is ------------------------------------------------------------


@pytest.mark.parametrize("bias", [-1.0, 1.5])
def test_two_classes_linear(bias):
    model = make.linear_model(RNG, 2, 9, bias)
    labels = some_labels(model)
    got = measured(model, X, labels)
    w = model.weights[:, 0]
    f = X @ w + (bias * model.bias_weights[0] if bias >= 0 else 0)
    expected = np.where(labels == model.labels[0], f, -f)
    assert got.plain == pytest.approx(expected)
    # The constant feature moves the boundary; it is not part of the distance to it.
    assert got.normalised == pytest.approx(expected / np.sqrt(w @ w))


@pytest.mark.parametrize("name", ["linear", "poly", "rbf"])
def test_two_classes_kernel(name, monkeypatch):
    monkeypatch.setattr(margins, "_BLOCK_VALUES", 40)
    model = make.kernel_model(RNG, make.KERNELS[name])
    labels, c = some_labels(model), model.coef[:, 0]
    K = objective.kernel_matrix(model.kernel, model.support_vectors, model.support_vectors)
    f = objective.kernel_matrix(model.kernel, X, model.support_vectors) @ c - model.rho[0]
    expected = np.where(labels == model.labels[0], f, -f)
    got = measured(model, X, labels)
    assert got.plain == pytest.approx(expected)
    assert got.normalised == pytest.approx(expected / np.sqrt(c @ K @ c))
    assert Ruler(model).norm == pytest.approx(np.sqrt(c @ K @ c))


def naive_multiclass(scores, distance, target):
    """f_y - max f_l, and the smallest difference over the distance of the weights."""
    plain, normalised = [], []
    for row, y in zip(scores, target, strict=True):
        others = [k for k in range(len(row)) if k != y]
        plain.append(row[y] - max(row[k] for k in others))
        normalised.append(min((row[y] - row[k]) / distance[y, k] for k in others))
    return plain, normalised


def test_more_classes_linear():
    model = make.linear_model(RNG, 5, 9, 1.0)
    target = RNG.integers(0, 5, 40)
    W = model.weights
    distance = np.linalg.norm(W[:, :, None] - W[:, None, :], axis=0)
    scores = X @ W + model.bias_weights
    plain, normalised = naive_multiclass(scores, distance, target)
    got = measured(model, X, np.asarray(model.labels)[target])
    assert got.plain == pytest.approx(plain) and got.normalised == pytest.approx(normalised)
    predicted = model.predict(X)
    assert np.array_equal(got.plain > 0, predicted == np.asarray(model.labels)[target])


@pytest.mark.parametrize("name", ["linear", "rbf"])
def test_more_classes_one_versus_one_carrier(name):
    """In our kernel models a pair's value is f_i - f_j: the margin is f_y - max f_l."""
    kernel = make.KERNELS[name]
    state = np.random.default_rng(8)
    model = make.one_versus_one_carrier(state, kernel, n_classes=4)
    again = np.random.default_rng(8)
    rows = make.sparse_rows(again, 25, 6)
    nu = []
    for _ in range(4):
        values = again.standard_normal(25)
        nu.append(values * (again.random(25) < 0.7))
    nu = np.array(nu)
    K = objective.kernel_matrix(kernel, rows, rows)
    scores = objective.kernel_matrix(kernel, X[:, :6], rows) @ nu.T
    difference = nu[:, None, :] - nu[None, :, :]
    distance = np.sqrt(np.einsum("abi,ij,abj->ab", difference, K, difference))
    target = RNG.integers(0, 4, 40)
    plain, normalised = naive_multiclass(scores, distance, target)
    got = measured(model, X[:, :6], np.asarray(model.labels)[target])
    assert got.plain == pytest.approx(plain) and got.normalised == pytest.approx(normalised)
    off = ~np.eye(4, dtype=bool)
    assert class_distances(model)[off] == pytest.approx(distance[off])


def test_mcsvm_cs_of_two_classes_decides_by_its_first_column():
    model = make.linear_model(RNG, 2, 9, solver_type="MCSVM_CS")
    labels = some_labels(model)
    f = (X @ model.weights)[:, 0]
    expected = np.where(labels == model.labels[0], f, -f)
    got = measured(model, X, labels)
    assert got.plain == pytest.approx(expected)
    assert got.normalised == pytest.approx(expected / np.linalg.norm(model.weights[:, 0]))


def test_labels_that_the_model_does_not_know():
    model = LinearModel([7, -3], np.ones((9, 1)))
    got = measured(model, X[:4], [7, 5, -3, 100])
    assert np.array_equal(np.isnan(got.plain), [False, True, False, True])
    assert np.array_equal(got.known, [True, False, True, False])
    with pytest.raises(DataError, match="7, -3"):
        measured(model, X[:2], [5, 6])
    with pytest.raises(DataError, match="only one class, 7"):
        Ruler(LinearModel([7], np.ones((9, 1))))


def test_precomputed_kernel_needs_its_training_rows():
    rows = make.sparse_rows(RNG, 12, 5)
    K = objective.kernel_matrix(Kernel("rbf", 0.3), rows, rows)
    data = sparse.csr_matrix(np.column_stack([np.arange(1, 13), K]))
    coef = RNG.standard_normal((4, 1))
    serials = sparse.csr_matrix(np.array([[2.0], [9.0], [3.0], [12.0]]))
    model = KernelModel([1, -1], Kernel("precomputed"), serials, coef, np.zeros(1), [2, 2])
    labels = some_labels(model, 12)
    assert np.isnan(measured(model, data, labels).normalised).all()
    got = measured(model, data, labels, training_rows=data)
    chosen = [1, 8, 2, 11]
    norm = np.sqrt(coef[:, 0] @ K[np.ix_(chosen, chosen)] @ coef[:, 0])
    assert got.normalised == pytest.approx(got.plain / norm)
    # Without one of the support vectors |w| is not known.
    assert np.isnan(measured(model, data, labels, training_rows=data[:11]).normalised).all()


def test_norm_of_no_weights_and_of_an_indefinite_kernel():
    assert np.isnan(Ruler(LinearModel([1, -1], np.zeros((3, 1)))).norm)
    vectors = sparse.csr_matrix(np.eye(2))
    model = KernelModel([1, -1], Kernel("sigmoid", 1.0, -2.0), vectors, np.ones((2, 1)),
                        np.zeros(1), [1, 1])  # fmt: skip
    assert np.isnan(Ruler(model).norm)


# ---- statistics ------------------------------------------------------------------


def test_statistics():
    values = RNG.standard_normal(101)
    plain = np.append(values, np.nan)
    got = Margins(np.zeros(102, int), plain, plain / 2, 0.3)
    one, half = got.statistics()
    assert one.minimum == values.min() and half.minimum == values.min() / 2
    assert one.mean == pytest.approx(sum(values) / 101)
    assert one.variance == pytest.approx(sum((values - values.mean()) ** 2) / 101)
    assert one.quantiles[QUANTILES.index(0.5)] == np.sort(values)[50]
    assert got.below_zero == np.sum(values < 0) / 101
    assert got.below_band == np.sum(values < 0.7) / 101
    assert got._replace(theta=None).below_band is None


# ---- --margins -------------------------------------------------------------------


def header(path):
    lines = (line[2:].split() for line in Path(path).read_text().splitlines() if line[0] == "#")
    return {line[0]: line[1:] for line in lines}


@pytest.mark.parametrize("options", [[], ["-t", "rbf", "-B", "1"]])
def test_training_and_test_margins_are_the_same_on_the_same_file(run, heart, options):
    outcome = run("train", *options, "--margins", "a", heart, "m")
    assert outcome.code == 0 and outcome.out == ""
    assert run("predict", "--margins", "b", heart, "m", "out").code == 0
    table, data, model = np.loadtxt("a"), read_svmlight(heart), read_model("m")
    assert np.array_equal(table, np.loadtxt("b"))
    f = model.decision_values(data.X)[:, 0]
    assert np.array_equal(table[:, 0], data.labels)
    assert np.array_equal(table[:, 1], data.labels * f)
    facts = header("a")
    assert facts["examples"] == ["270"] and facts["theta"] == ["0.2"]
    assert float(facts["norm"][0]) * table[:, 2] == pytest.approx(table[:, 1])
    for column in (0, 1):
        values = table[:, 1 + column]
        for name, expected in (("minimum", values.min()), ("mean", values.mean()),
                               ("variance", values.var()),
                               ("quantile_0.25", np.quantile(values, 0.25))):  # fmt: skip
            assert float(facts[name][column]) == pytest.approx(expected, rel=1e-8)
        assert float(facts["below_0"][column]) == pytest.approx(np.mean(table[:, 1] < 0))
        assert float(facts["below_1-theta"][column]) == pytest.approx(np.mean(table[:, 1] < 0.8))


def test_margins_to_stdout(run, heart):
    trained = run("train", "--margins", "-", heart, "m")
    assert trained.code == 0 and trained.out.startswith("# data ")
    assert len(trained.out.splitlines()) == 270 + 21
    predicted = run("predict", "--margins", "-", heart, "m", "out")
    assert predicted.out.startswith("# data ") and "Accuracy" in predicted.err
    for command, arguments in (("train", [heart, "-"]), ("predict", [heart, "m", "-"])):
        outcome = run(command, "--margins", "-", *arguments)
        assert outcome.code == 2 and outcome.out == "" and "stdout" in outcome.err


def test_margin_file_must_be_a_file_of_its_own(run, heart, tmp_path):
    shutil.copy(heart, tmp_path / "d")
    assert run("train", "--margins", "d", "d", "m").code == 2
    assert run("train", "--margins", "m", "d", "m").code == 2
    assert run("train", "d", "m").code == 0
    before = (tmp_path / "d").read_bytes(), (tmp_path / "m").read_bytes()
    for name in ("d", "m", "./out"):
        outcome = run("predict", "--margins", name, "d", "m", "out")
        assert outcome.code == 2 and "name another one" in outcome.err
    assert before == ((tmp_path / "d").read_bytes(), (tmp_path / "m").read_bytes())
    assert run("train", "--margins", "x", "-v", "5", "d").code == 2
    assert run("train", "--margins", "no/such/folder", "d", "m2").code == 1
    assert not (tmp_path / "m2").exists()


def test_margins_of_a_precomputed_kernel(run, heart, tmp_path):
    data = read_svmlight(heart)
    K = objective.kernel_matrix(Kernel("rbf", 0.1), data.X[:50], data.X[:50])
    (tmp_path / "rows").write_text(make.precomputed_lines(K, data.labels[:50]))
    (tmp_path / "data").write_text(make.data_lines(data.X[:50], data.labels[:50]))
    common = ["-e", "1e-10", "-l", "16"]
    assert run("train", *common, "-t", "4", "--margins", "a", "rows", "m").code == 0
    assert run("train", *common, "-t", "rbf", "-g", "0.1", "--margins", "b", "data", "r").code == 0
    assert np.loadtxt("a") == pytest.approx(np.loadtxt("b"), abs=1e-6)
    outcome = run("predict", "--margins", "c", "rows", "m", "out")
    assert outcome.code == 0 and "no normalised margins" in outcome.err
    assert np.isnan(np.loadtxt("c")[:, 2]).all()
    shown = run("margins", "rows", "m").out
    lines = make.precomputed_lines(K, data.labels[:50])
    (tmp_path / "rows").write_text(lines.replace(" 0:", " 0:-"))
    assert run("margins", "rows", "m").out == shown and shown  # not looked at
    (tmp_path / "t.csv").write_text("as it was")
    outcome = run("margins", "--csv", "t.csv", "--plot", "t.png", "rows", "m")
    assert outcome.code == 2 and "take --panel plain" in outcome.err
    assert (tmp_path / "t.csv").read_text() == "as it was"


def test_margins_of_a_pipe_in_blocks(run, tmp_path, monkeypatch):
    """Blocks of the reader leave no trace, and unknown labels are said."""
    from odmtool.io import svmlight

    rows = make.sparse_rows(RNG, 30, 4)
    labels = RNG.choice([4, 9, 11], 30)
    (tmp_path / "t").write_text(make.data_lines(rows, labels))
    write_model("m", LinearModel([4, 9], np.arange(1.0, 5.0)[:, None]))
    assert run("predict", "--margins", "a", "t", "m", "out").code == 0
    blocks = list(svmlight.iter_svmlight("t"))
    halves = [b._replace(rows=b.rows[part], labels=b.labels[part])
              for b in blocks for part in (slice(0, 7), slice(7, None))]  # fmt: skip
    monkeypatch.setattr(svmlight, "iter_svmlight", lambda *_args, **_options: iter(halves))
    outcome = run("predict", "--margins", "b", "t", "m", "out")
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text()
    unknown = int((labels == 11).sum())
    assert f"{unknown} examples have a label" in outcome.err
    assert np.isnan(np.loadtxt("a")[:, 1]).sum() == unknown


# ---- odmtool margins -------------------------------------------------------------


@pytest.fixture
def models(run, heart):
    run("train", heart, "lin.model")
    run("train", "-t", "rbf", "-p", "0.4", heart, "rbf.model")
    model = read_model("lin.model")
    model.facts = {}
    write_model("stock.model", model)
    return ["lin.model", "rbf.model", "stock.model"]


def test_table(run, heart, models, tmp_path):
    outcome = run("margins", "--csv", "t.csv", heart, *models)
    assert outcome.code == 0 and outcome.err == ""
    first, heads, *lines = outcome.out.splitlines()
    assert first == f"# 270 examples of {heart}"
    assert heads.split()[:6] == ["model", "margin", "accuracy", "minimum", "mean", "variance"]
    assert [line.split()[:2] for line in lines] == [
        [name, kind] for name in models for kind in ("plain", "normalised")
    ]
    assert [line.split()[-1] == "-" for line in lines] == [False] * 4 + [True] * 2
    with open("t.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    run("predict", "--margins", "x", heart, "rbf.model", "out")
    facts, row = header("x"), rows[2]
    for name in ("minimum", "mean", "variance", "quantile_0.99", "below_0", "below_1-theta"):
        plain, normalised = map(float, facts[name])
        assert float(row[name]) == pytest.approx(plain, rel=1e-8)
        assert float(rows[3][name]) == pytest.approx(normalised, rel=1e-8)
    assert row["theta"] == "0.4" and rows[4]["theta"] == ""
    assert rows[0]["mean"] == rows[4]["mean"]


def test_theta_for_all(run, heart, models):
    outcome = run("margins", "-p", "1/2", heart, *models)
    lines = [line.split() for line in outcome.out.splitlines()[2:]]
    margins = (
        read_svmlight(heart).labels
        * read_model("lin.model").decision_values(read_svmlight(heart).X)[:, 0]
    )
    assert float(lines[0][-1]) == pytest.approx(np.mean(margins < 0.5), rel=1e-5)
    assert lines[0][-1] == lines[4][-1]


@pytest.mark.parametrize("tool, options", [("svm-train", ["-t", "2"]), ("liblinear-train", [])])
def test_stock_models(run, heart, tool, options, tmp_path):
    if shutil.which(tool) is None:
        if os.environ.get("ODMTOOL_REQUIRE_STOCK") == "1":
            pytest.fail(f"{tool} is not installed")
        pytest.skip(f"{tool} is not installed")
    subprocess.run([tool, "-q", *options, heart, "stock"], cwd=tmp_path, check=True)
    outcome = run("margins", heart, "stock")
    assert outcome.code == 0 and outcome.out.count("stock ") == 2
    accuracy = float(outcome.out.splitlines()[2].split()[2])
    predicted = run("predict", heart, "stock", "out").out
    assert float(predicted.split()[2].rstrip("%")) == pytest.approx(100 * accuracy, rel=1e-5)


@pytest.mark.parametrize("arguments, code, words", [
    (["DATA", "lin.model", "lin.model"], 2, "two models are called 'lin.model'"),
    (["--names", "a", "DATA", "lin.model", "rbf.model"], 2, "1 names for 2 models"),
    (["--names", "a,a", "DATA", "lin.model", "rbf.model"], 2, "two models are called 'a'"),
    (["--names", "a,", "DATA", "lin.model", "rbf.model"], 2, "--names: a name is empty"),
    (["DATA", "no.model"], 1, "no.model"),
    (["no.data", "lin.model"], 1, "no.data"),
    (["DATA"], 2, "MODEL"),
    (["--plot", "a.gif", "DATA", "lin.model"], 2, "a.gif"),
    (["--csv", "lin.model", "DATA", "lin.model"], 2, "lin.model"),
    (["-", "-"], 2, "stdin"),
])  # fmt: skip
def test_refused(run, heart, models, arguments, code, words, tmp_path):
    before = (tmp_path / "lin.model").read_bytes()
    outcome = run("margins", *[heart if word == "DATA" else word for word in arguments])
    assert (outcome.code, outcome.out) == (code, "")
    assert words in outcome.err and outcome.err.count("\n") == 1
    assert (tmp_path / "lin.model").read_bytes() == before


def test_precomputed_models_go_with_their_like(run, models, heart):
    serials = sparse.csr_matrix(np.array([[1.0], [2.0]]))
    write_model("p", KernelModel([1, -1], Kernel("precomputed"), serials, np.ones((2, 1)),
                                 np.zeros(1), [1, 1]))  # fmt: skip
    for paths in (("lin.model", "p"), ("p", "lin.model")):
        outcome = run("margins", heart, *paths)
        assert outcome.code == 2 and "p has a precomputed kernel" in outcome.err


# ---- the picture -----------------------------------------------------------------


def sample(seed, normalised=True):
    values = np.random.default_rng(seed).standard_normal(30) + 0.5
    return Margins(np.ones(30, int), values, values / 2 if normalised else values * np.nan, None)


def test_picture_shows_the_cumulative_distributions():
    pytest.importorskip("matplotlib")
    from odmtool.measures.margin_picture import margin_figure

    named = {"SVM": sample(1), "$ODM_x": sample(2)}
    figure = margin_figure(named, [False, True], "data")
    plain, normalised = figure.axes
    assert [t.get_text() for t in plain.get_legend().get_texts()] == ["SVM", "$ODM_x"]
    for axes, kind in ((plain, "plain"), (normalised, "normalised")):
        curves = [line for line in axes.get_lines() if line.get_label() in named]
        assert len(curves) == 2 and len({curve.get_color() for curve in curves}) == 2
        assert len({curve.get_linestyle() for curve in curves}) == 2
        for curve, shown in zip(curves, named.values(), strict=True):
            x, y = curve.get_xdata(), curve.get_ydata()
            values = np.sort(getattr(shown, kind))
            assert np.array_equal(np.unique(x[np.isfinite(x)]), values)
            assert y[-1] == 1.0 and y[np.searchsorted(x, values[14], "right") - 1] == 0.5
    assert normalised.get_xlabel() != plain.get_xlabel()


def test_model_without_normalised_margins_is_left_out():
    pytest.importorskip("matplotlib")
    from odmtool.errors import UsageError
    from odmtool.measures.margin_picture import margin_figure

    figure = margin_figure({"a": sample(1, False), "b": sample(2)}, [True])
    assert [t.get_text() for t in figure.axes[0].get_legend().get_texts()] == ["b"]
    with pytest.raises(UsageError, match="panel='plain'"):
        margin_figure({"a": sample(1, False)}, [True])


def test_plot_files(run, heart, models, tmp_path):
    pytest.importorskip("matplotlib")
    for name, start in (("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")):
        outcome = run("margins", "--plot", name, "--panel", "both", heart, *models)
        assert outcome.code == 0 and outcome.err == ""
        first = (tmp_path / name).read_bytes()
        assert first.startswith(start)
        if name != "a.png":  # where a date could stand
            run("margins", "--plot", name, "--panel", "both", heart, *models)
            assert (tmp_path / name).read_bytes() == first


def test_without_matplotlib(run, heart, models, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    outcome = run("margins", "--plot", "a.png", heart, *models)
    assert (outcome.code, outcome.out) == (2, "")
    assert "pip install 'odmtool[plot]'" in outcome.err
    assert run("margins", heart, *models).code == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_the_table_is_shown_where_the_picture_cannot_be_written(run, heart, models, tmp_path):
    pytest.importorskip("matplotlib")
    os.symlink("/dev/full", tmp_path / "full.png")
    outcome = run("margins", "--plot", "full.png", "--csv", "x.csv", heart, *models)
    assert outcome.code == 1 and "full.png: cannot be written: No space left" in outcome.err
    assert outcome.out.startswith("# 270 examples") and (tmp_path / "x.csv").exists()


def test_distances_of_many_classes_take_little_memory():
    """Of every pair the products it takes, and not those of all coefficients of two classes."""
    k = 60
    model = make.kernel_model(np.random.default_rng(5), Kernel("rbf", 0.1), k, n_support=2 * k)
    class_distances(model)  # what is imported once
    tracemalloc.start()
    found = class_distances(model)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * k**3 / 2
    K = objective.kernel_matrix(model.kernel, model.support_vectors, model.support_vectors)
    ends = np.concatenate([[0], np.cumsum(model.n_support)])
    for i, j in ((0, 1), (0, k - 1), (17, 43), (k - 2, k - 1)):
        c = np.zeros(2 * k)
        c[ends[i] : ends[i + 1]] = model.coef[ends[i] : ends[i + 1], j - 1]
        c[ends[j] : ends[j + 1]] = model.coef[ends[j] : ends[j + 1], i]
        wanted = np.sqrt(c @ K @ c) if c.any() else np.nan
        assert [found[i, j], found[j, i]] == pytest.approx([wanted] * 2, rel=1e-9, nan_ok=True)
