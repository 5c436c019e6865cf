"""odm-train as a user meets it."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import ENDLESS
from scipy import sparse

from odmtool import MulticlassODMClassifier, ODMClassifier
from odmtool.defaults import COMPARATOR_LAMBDA, LAMBDA, MULTICLASS_LAMBDA
from odmtool.io.model_file import read_model
from odmtool.io.svmlight import read_svmlight
from odmtool.machines import ODM
from odmtool.machines.data import default_lambda

SUMMARY = re.compile(
    r"odm-train: odm, (linear|rbf kernel \(gamma [\d.]+\)), lambda [\d.]+, 270 examples, 13 "
    r"features, 2 classes: converged \(gap [\d.e+-]+ <= 0\.001\), objective [\d.e+-]+, \d+ "
    r"iterations \((newton|dcd)\), \d+ support vectors; seconds: reading [\d.]+, training [\d.]+, "
    r"writing [\d.]+\n"
)


def relabelled(path, heart, positive, negative):
    lines = Path(heart).read_text().splitlines()
    path.write_text(
        "\n".join((positive if line[0] == "+" else negative) + line[2:] for line in lines) + "\n"
    )
    return path


def test_the_model_gets_the_name_of_the_data(run, heart, tmp_path):
    outcome = run("train", heart)
    assert outcome.code == 0
    assert outcome.out == ""
    assert SUMMARY.fullmatch(outcome.err)
    assert [file.name for file in tmp_path.iterdir()] == ["heart_scale.model"]


@pytest.mark.parametrize("options", [[], ["-t", "rbf"], ["-t", "2", "-B", "1"], ["-B", "2.5"],
                                     ["-t", "poly", "-d", "2", "-r", "1"],
                                     ["-t", "sigmoid", "-g", "0.01", "-l", "1"]])  # fmt: skip
@pytest.mark.parametrize("labels", [("+1", "-1"), ("1", "2"), ("0", "1"), ("7", "3"),
                                    ("-7", "2000000000")])  # fmt: skip
def test_labels_survive(run, heart, tmp_path, labels, options):
    data = relabelled(tmp_path / "data", heart, *labels)
    assert run("train", *options, data, "m").code == 0
    outcome = run("predict", data, "m", "out")
    accuracy = float(re.fullmatch(r"Accuracy = ([\d.]+)% \(\d+/270\)\n", outcome.out)[1])
    assert accuracy > 80
    predicted = (tmp_path / "out").read_text().split()
    assert set(predicted) == {str(int(label)) for label in labels}


def test_relabelling_changes_nothing_else(run, heart, tmp_path):
    run("train", "-t", "rbf", heart, "a")
    run("train", "-t", "rbf", relabelled(tmp_path / "data", heart, "7", "3"), "b")
    a, b = read_model("a"), read_model("b")
    assert (a.labels, b.labels) == ([1, -1], [7, 3])
    assert np.array_equal(a.coef, b.coef)


@pytest.mark.parametrize("text", ["16", "2^4", "2**4", "1.6e1", "32/2", "+16."])
def test_numbers(run, heart, text):
    run("train", "-l", text, heart, "m")
    assert read_model("m").facts["lambda"] == "16.0"


def test_cost_is_lambda_per_unit_of_weight(run, heart):
    run("train", "-c", "0.5", heart, "by_cost")
    run("train", "-l", "135", heart, "by_lambda")
    a, b = read_model("by_cost"), read_model("by_lambda")
    assert np.array_equal(a.weights, b.weights)
    assert a.facts["lambda"] == "135.0"


def test_wide_data_have_a_lambda_of_their_own(run, tmp_path):
    """Number of examples over their mean squared length; in odm-cv and from Python, too."""
    random = np.random.default_rng(0)
    X = random.normal(size=(12, 40)).round(3)
    y = np.where(X[:, 0] > 0, 1, -1)
    features = [" ".join(f"{j}:{v:g}" for j, v in enumerate(row, 1)) for row in X]
    rows = [f"{label} {row}" for label, row in zip(y, features, strict=True)]
    wanted = float(f"{12 / (X**2).sum(axis=1).mean():.3g}")

    def recorded(*arguments, data="wide"):
        assert run("train", *arguments, data, "m").code == 0
        return float(read_model("m").facts["lambda"])

    Path("wide").write_text("\n".join(rows) + "\n")
    assert recorded() == pytest.approx(wanted)
    estimator = ODMClassifier(bias=None).fit(X, y)
    assert float(estimator.model_.facts["lambda"]) == pytest.approx(wanted)
    assert run("cv", "-m", "0.2", "-v", "3", "--csv", "t", "wide").code == 0
    lines = [line.split(",") for line in Path("t").read_text().splitlines()]
    assert float(lines[1][lines[0].index("lambda")]) == pytest.approx(wanted)
    assert recorded("-t", "rbf") == recorded("-s", "odm", "-l", "2^14") == LAMBDA
    assert recorded("-c", "2") == 24
    assert recorded("-s", "ldm") == COMPARATOR_LAMBDA
    # The folds of a search are scaled, and the examples that it is taken from.
    assert run("cv", "-m", "0.2", "-v", "3", "--scale", "0,1", "--csv", "t", "wide").code == 0
    assert float(Path("t").read_text().splitlines()[1].split(",")[4]) == recorded("--scale", "0,1")
    # Columns that do not occur make no row wider.
    few = "\n".join(" ".join(row.split()[:3] + ["40:1"]) for row in rows)
    Path("few").write_text(few + "\n")
    assert recorded(data="few") == LAMBDA
    # Short rows: never more than the usual one.
    tiny = "\n".join(re.sub(r":(\S+)", r":\1e-5", row) for row in rows)
    Path("tiny").write_text(tiny + "\n")
    assert recorded(data="tiny") == LAMBDA
    Path("huge").write_text("1 1:1e200 2:1e200 3:1\n-1 1:-1e200 2:3 4:1\n")
    assert "scale the features" in run("train", "huge", "m").err


def test_several_classes_of_many_features_have_a_smaller_lambda(run, tmp_path):
    """Those that occur count, from 100 on; few features keep the usual one, and two classes do
    with four examples for each."""
    random = np.random.default_rng(0)
    X = random.normal(size=(150, 100)).round(3) * 100
    y = np.arange(150) % 3 + 1

    def recorded(*arguments, features=100, classes=3):
        labels = np.minimum(y, classes)
        rows = [" ".join(f"{9 * j}:{v:g}" for j, v in enumerate(row, 1)) for row in X[:, :features]]
        lines = [f"{label} {row}" for label, row in zip(labels, rows, strict=True)]
        Path("many").write_text("\n".join(lines) + "\n")
        assert run("train", "--max-iter", "3", *arguments, "many", "m").code == 0
        return float(read_model("m").facts["lambda"])

    wanted = float(f"{150 / (X**2).sum(axis=1).mean():.3g}")
    assert recorded() == pytest.approx(wanted)
    estimator = MulticlassODMClassifier(bias=None, tol=0.1).fit(X, y)
    assert float(estimator.model_.facts["lambda"]) == pytest.approx(wanted)
    low, high = X.min(axis=0), X.max(axis=0)
    lengths = ((2 * (X - low) / (high - low) - 1) ** 2).sum(axis=1)
    assert recorded("--scale", "-1,1") == pytest.approx(150 / lengths.mean(), rel=0.01)
    # The quick grid has the multiples that it has of the usual one.
    for features, one in ((100, wanted), (99, MULTICLASS_LAMBDA)):
        recorded(features=features)
        search = ["--max-iter", "3", "-t", "linear", "-v", "2", "--search", "full", "--csv", "t"]
        assert run("cv", *search, "many").code == 0
        with Path("t").open() as stream:
            found = [float(row["lambda"]) for row in csv.DictReader(stream)]
        assert found == pytest.approx([one * 2.0**p for p in (-10, -6, -2, 2, 6)])
    assert recorded(features=99) == recorded("-l", "2^12") == MULTICLASS_LAMBDA
    assert recorded(classes=2, features=37) == LAMBDA


def test_the_default_lambda_with_a_kernel_grows_with_the_examples(run, tmp_path):
    """4 for each, up to 2^18; weights counted, in memory and on disk, in odm-cv, from Python."""
    random = np.random.default_rng(0)
    X = random.integers(0, 4, size=(4500, 2)) / 4
    y = np.where(X[:, 0] > X[:, 1], 1, -1)
    rows = [f"{label} 1:{a} 2:{b}" for label, (a, b) in zip(y, X, strict=True)]
    Path("many").write_text("\n".join(rows) + "\n")
    Path("weights").write_text("2\n" * 4500)
    Path("few").write_text("\n".join(rows[:4000]) + "\n")

    def recorded(*arguments, data="many", kernel="rbf"):
        assert run("train", "-t", kernel, *arguments, data, "m").code == 0
        return float(read_model("m").facts["lambda"])

    assert recorded() == recorded("--cache", ".", "--solver", "nystrom") == 18000
    assert recorded("-W", "weights") == 36000
    Path("weights").write_text("20\n" * 4500)
    assert recorded("-W", "weights") == 2**18
    Path("weights").write_text("60\n" * 4500)
    assert recorded("-W", "weights") == 270_000
    assert recorded(kernel="poly") == 18000
    assert recorded("-l", "7") == 7
    assert recorded("-c", "1") == 4500
    assert recorded("-s", "l2svm") == 18000
    assert recorded("-s", "ldm", data="few") == COMPARATOR_LAMBDA
    assert recorded("-s", "l2svm", data="few") == LAMBDA
    assert recorded("-s", "l2svm", kernel="linear") == COMPARATOR_LAMBDA
    assert recorded("-s", "mcodm") == MULTICLASS_LAMBDA
    assert recorded(kernel="linear") == recorded(data="few") == LAMBDA
    estimator = ODMClassifier(kernel="rbf", gamma=0.5).fit(X, y)
    assert float(estimator.model_.facts["lambda"]) == 18000
    assert run("cv", "-t", "rbf", "-g", "0.5", "-v", "2", "--csv", "t", "many").code == 0
    lines = [line.split(",") for line in Path("t").read_text().splitlines()]
    assert float(lines[1][lines[0].index("lambda")]) == 18000


def test_the_default_lambda_of_few_examples_per_feature(run, tmp_path):
    """(M / d)^2 M / mean |x|^2, large columns cut off; sparse, dense, weights, Python and cv."""
    random = np.random.default_rng(3)
    X = random.integers(1, 9, size=(30, 10)) / 8
    y = np.where(X[:, 0] > X[:, 1], 1, -1)

    def written(X, name):
        rows = (" ".join(f"{j}:{v!r}" for j, v in enumerate(row, 1)) for row in X.tolist())
        labels = np.resize(y, len(X))
        Path(name).write_text("".join(f"{a} {row}\n" for a, row in zip(labels, rows, strict=True)))

    def recorded(*arguments, data="few"):
        assert run("train", *arguments, data, "m").code == 0
        return float(read_model("m").facts["lambda"])

    expected = float(f"{3**2 * 30 / (X**2).sum(axis=1).mean():.3g}")
    written(X, "few")
    assert recorded() == expected < 100
    estimator = ODMClassifier().fit(X, y)
    assert float(estimator.model_.facts["lambda"]) == expected
    # Features that do not occur are none, in an array either.
    padded = np.hstack([X, np.zeros((30, 15))])
    assert default_lambda("odm", 2.0**14, "linear", padded) == expected
    Path("weights").write_text("1.2\n" * 30)
    heavier = float(f"{3.6**2 * 36 / (X**2).sum(axis=1).mean():.3g}")
    assert recorded("-W", "weights") == heavier
    # One feature in other units does not make the others count for nothing.
    large = X * np.where(np.arange(10) == 4, 1000.0, 1.0)
    written(large, "large")
    squares = np.sort((large**2).sum(axis=0))
    size = squares[:9].sum() + 16 * squares[5]
    assert recorded(data="large") == float(f"{3**2 * 30**2 / size:.3g}")
    written(np.vstack([X, X[:10]]), "many")
    assert recorded(data="many") == recorded("-s", "odm", data="many") == LAMBDA
    assert recorded("-s", "l2svm") == COMPARATOR_LAMBDA
    assert run("cv", "-v", "2", "--csv", "t", "few").code == 0


def _gamma_of(model):
    return float(re.search(r"^gamma (.*)$", Path(model).read_text(), re.MULTILINE)[1])


def test_the_default_gamma_follows_the_variance_of_features_that_are_not_scaled(run, tmp_path):
    """gamma times it is in [1/256, 1]: the same in one training, folds, odm-cv and from Python."""
    random = np.random.default_rng(0)
    X = random.random((60, 3)).round(3)
    y = np.where(X[:, 0] > 0.5, 1, -1)

    def write(name, X):
        rows = (" ".join(f"{k}:{x!r}" for k, x in enumerate(row, 1)) for row in X.tolist())
        Path(name).write_text("".join(f"{a} {row}\n" for a, row in zip(y, rows, strict=True)))

    write("scaled", X)
    write("large", X * [1, 10, 1000] + [0, 0, 1e6])
    write("small", X / 40)
    Path("weights").write_text("2\n" * 30 + "1\n" * 30)
    said = "in place of 1 / number of features"

    def gamma(*arguments, data="large"):
        outcome = run("train", "-t", "rbf", *arguments, data, "m")
        assert outcome.code == 0
        assert (said in outcome.err) == (0 < _gamma_of("m") < 1 / 6 and "-g" not in arguments)
        return _gamma_of("m")

    def wanted(X, share, weight=None):
        mean = np.average(X, axis=0, weights=weight)
        variance = np.average((X - mean) ** 2, axis=0, weights=weight).sum()
        return pytest.approx(share / variance, rel=6e-3)

    large = X * [1, 10, 1000]
    assert gamma(data="scaled") == pytest.approx(1 / 3)
    assert gamma() == wanted(large, 1) == gamma("-s", "ldm") == gamma("-l", "3")
    assert gamma("-W", "weights") == wanted(large, 1, [2] * 30 + [1] * 30)
    assert gamma(data="small") == wanted(X / 40, 1 / 256)
    write("wide", 4 * X)  # hardly less than 1/d is not worth a word
    assert 1 / 3 > gamma(data="wide") == wanted(4 * X, 1)
    assert gamma("--scale", "0,1") == gamma("-g", "0") == gamma("-g", "1/d") == pytest.approx(1 / 3)
    # Other kernels, and those who come from svm-train, have 1/d.
    for arguments in (["-t", "poly"], ["-s", "0", "-t", "2"]):
        assert run("train", *arguments, "--max-iter", "1", "large", "m").code == 0
        assert _gamma_of("m") == pytest.approx(1 / 3)
    own = wanted(large, 1)
    outcome = run("cv", "-t", "linear,rbf", "-l", "1,4", "-v", "3", "--csv", "t", "large")
    assert outcome.code == 0 and outcome.err.count(said) == 1
    with Path("t").open() as stream:
        rows = [row for row in csv.DictReader(stream) if row["kernel"] == "rbf"]
    assert len(rows) == 2 and all(float(row["gamma"]) == own for row in rows)
    assert said not in run("cv", "-t", "rbf", "-g", "1/d", "-v", "3", "large").err
    # The quick grid has multiples.
    for data, one in (("large", own), ("scaled", pytest.approx(1 / 3))):
        quick = run("cv", "-t", "rbf", "-v", "3", "--grid", "quick", "-l", "1", "--csv", "t", data)
        assert (said in quick.err) == (data == "large")
        with Path("t").open() as stream:
            gammas = [float(row["gamma"]) for row in csv.DictReader(stream)]
        assert [gammas[0], gammas[1] / 4, gammas[2] / 16] == [one] * 3
    # Of several kernels with a gamma all have 1/d.
    outcome = run("cv", "-t", "rbf,sigmoid", "-l", "1", "-v", "3", "--csv", "t", "large")
    assert outcome.code == 0 and said not in outcome.err
    with Path("t").open() as stream:
        assert {float(row["gamma"]) for row in csv.DictReader(stream)} == {1 / 3}
    scaled = run("cv", "-t", "rbf", "-l", "1", "-v", "3", "--scale", "0,1", "--csv", "t", "large")
    assert scaled.code == 0 and said not in scaled.err
    assert run("train", "-t", "rbf", "-v", "3", "large").err.count(said) == 1
    for form in (np.asarray, sparse.csr_matrix):
        for changed in ({}, {"gamma": None}):
            estimator = ODMClassifier(kernel="rbf", **changed).fit(form(large), y)
            assert estimator.model_.kernel.gamma == own
    assert ODMClassifier(kernel="rbf", gamma="auto").fit(large, y).model_.kernel.gamma == 1 / 3


def test_class_weights_instance_weights_and_duplicates_agree(run, heart, tmp_path):
    labels = read_svmlight(heart).labels
    lines = Path(heart).read_text().splitlines()
    (tmp_path / "weights").write_text("".join("1\n" if y > 0 else "2  # twice\n" for y in labels))
    doubled = lines + [line for line, y in zip(lines, labels, strict=True) if y < 0]
    (tmp_path / "doubled").write_text("\n".join(doubled) + "\n")
    for kernel in ("linear", "rbf"):
        common = ["-t", kernel, "-e", "1e-12", "-c", "0.1"]
        run("train", *common, "-w-1", "2", heart, "by_class")
        run("train", *common, "-W", "weights", heart, "by_file")
        run("train", *common, "doubled", "by_rows")
        X = read_svmlight(heart).X
        by_class, by_file, by_rows = (
            read_model(name).decision_values(X) for name in ("by_class", "by_file", "by_rows")
        )
        assert by_file == pytest.approx(by_rows, abs=1e-9)
        # With -c the class weight is the cost of a class, so all three are the same.
        assert by_class == pytest.approx(by_rows, abs=1e-9)


def test_a_row_of_weight_zero_is_not_there(run, heart, tmp_path):
    lines = Path(heart).read_text().splitlines()
    (tmp_path / "weights").write_text("0\n" * 20 + "1\n" * 250)
    (tmp_path / "shorter").write_text("\n".join(lines[20:]) + "\n")
    run("train", "-t", "rbf", "-e", "1e-12", "-W", "weights", heart, "a")
    run("train", "-t", "rbf", "-e", "1e-12", "shorter", "b")
    X = read_svmlight(heart).X
    a, b = read_model("a").decision_values(X), read_model("b").decision_values(X)
    assert a == pytest.approx(b, abs=1e-9)


def test_model_records_how_it_was_made(run, heart):
    run("train", "-t", "rbf", "-l", "2^4", "-w-1", "2", "--seed", "3", heart, "m")
    facts = read_model("m").facts
    assert facts["machine"] == "odm" and facts["lambda"] == "16.0" and facts["seed"] == "3"
    assert facts["class_weight_-1"] == "2.0"
    assert facts["command"].startswith("odm-train -t rbf -l '2^4' -w-1 2 --seed 3 ")
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", facts["data"])
    assert float(facts["gap"]) <= 1e-3
    data = read_svmlight(heart)
    machine = ODM(kernel="rbf", lambda_=16, class_weight={-1: 2}).fit(data.X, data.labels)
    assert float(facts["objective"]) == pytest.approx(machine.solution_.primal, rel=1e-12)


def test_json_summary(run, heart, tmp_path):
    assert run("train", "--json", "summary.json", heart).code == 0
    record = json.loads((tmp_path / "summary.json").read_text())
    assert record["lambda"] == 2**14 and record["gap"] <= 1e-3 and record["status"] == "optimal"
    assert set(record["seconds"]) == {"reading", "training", "writing"}


def test_cross_validation_line(run, heart, tmp_path):
    outcome = run("train", "-v", "5", "-q", heart)
    assert outcome.code == 0
    assert re.fullmatch(r"Cross Validation Accuracy = \d\d(\.\d+)?%\n", outcome.out)
    assert outcome.err == "" and list(tmp_path.iterdir()) == []
    assert run("train", "-v", "5", "-j", "2", "-q", heart).out == outcome.out


def test_more_folds_than_data_leaves_one_out(run, tmp_path):
    (tmp_path / "data").write_text("1 1:1\n1 1:1.1\n2 1:-1\n2 1:-1.2\n")
    outcome = run("train", "-v", "9", "data")
    assert outcome.out == "Cross Validation Accuracy = 100%\n"
    assert "leaving one out" in outcome.err


def test_max_time_ends_with_the_best_model_so_far(run, ill_conditioned, tmp_path):
    limited = ["--solver", "dcd", *ENDLESS, "--max-time", "0.1"]
    outcome = run("train", *limited, ill_conditioned, "m")
    assert outcome.code == 0 and (tmp_path / "m").exists()
    assert "stopped after --max-time 0.1: the model has not converged (gap" in outcome.err
    strict = run("train", *limited, "--strict", ill_conditioned, "n")
    assert strict.code == 3 and not (tmp_path / "n").exists()
    assert run("train", "--max-time", "1", "-v", "2", ill_conditioned).code == 2
    folds = run("train", "-b", "1", *limited, ill_conditioned, "m")
    assert folds.code == 0 and "stopped after --max-time 0.1: of the folds" in folds.err
    # No time was left for them, and the data are not to blame.
    assert "all the same (A = 0)" in folds.err and "do not separate" not in folds.err


@pytest.mark.parametrize("options", [[], ["-t", "rbf", "-g", "0.1"], ["-s", "l2svm", "-B", "1"]])
def test_training_goes_on_from_a_model(run, heart, tmp_path, options):
    options = [*options, "-l", "2^10", "--solver", "dcd"]
    first = run("train", "-e", "1e-6", *options, heart, "a")
    again = run("train", *options, "--from", "a", heart, "b")
    iterations = [int(re.search(r"(\d+) iterations? \(", o.err).group(1)) for o in (first, again)]
    assert first.code == again.code == 0 and iterations[0] > 5 * iterations[1]
    assert run("train", "-s", "ldm", "--from", "a", heart, "c").code == 2
    assert run("train", "-b", "1", "--from", "a", heart, "c").code == 2
    (tmp_path / "d").write_text("1 1:1\n7 1:2\n")
    refused = run("train", "--from", "a", "d", "c")
    assert refused.code == 2 and "--from needs a machine with a smooth loss" in refused.err


def test_quiet_and_verbose(run, heart):
    assert run("train", "-q", heart).err == ""
    verbose = run("train", "--verbose", heart).err
    assert "iteration 1, objective" in verbose and SUMMARY.search(verbose)


def test_one_class_trains_and_always_answers_it(run, tmp_path, heart):
    (tmp_path / "data").write_text("5 1:1 2:2\n5 1:0.5\n")
    for options in ([], ["-t", "rbf"]):
        outcome = run("train", *options, "data", "m")
        assert outcome.code == 0 and "only one class, 5" in outcome.err
        assert run("predict", heart, "m", "out").code == 0
        assert set((tmp_path / "out").read_text().split()) == {"5"}


def test_tolerance_not_reached(run, heart, tmp_path):
    (tmp_path / "m").write_text("old")
    options = ["--solver", "dcd", "-l", "2^20", "--max-iter", "3", heart, "m"]
    strict = run("train", "--strict", *options)
    assert strict.code == 3 and "was not reached" in strict.err
    assert (tmp_path / "m").read_text() == "old"
    lenient = run("train", *options)
    assert lenient.code == 0 and "warning" in lenient.err and "--max-iter" in lenient.err
    assert read_model("m").facts["status"] == "not converged"


def test_unknown_class_weight_is_said(run, heart):
    outcome = run("train", "-w3", "5", heart)
    assert outcome.code == 0 and "class 3 of -w3 does not occur" in outcome.err


def test_kernel_parameters_that_are_not_used_are_ignored(run, heart):
    """grid.py always sends -g."""
    outcome = run("train", "-t", "0", "-g", "5", "-d", "7", "-r", "2", heart)
    assert outcome.code == 0 and SUMMARY.fullmatch(outcome.err)


def test_precomputed_kernel_is_the_kernel(run, heart, tmp_path):
    from odmtool.core import kernels
    from odmtool.core.kernels import Kernel

    data = read_svmlight(heart)
    K = kernels.gram(Kernel("rbf", 1 / 13), data.X)
    with open("rows", "w") as stream:
        for i, (label, row) in enumerate(zip(data.labels, K, strict=True), start=1):
            values = " ".join(f"{j}:{value:.17g}" for j, value in enumerate(row, start=1))
            stream.write(f"{label} 0:{i} {values}\n")
    run("train", "-t", "4", "-e", "1e-10", "rows", "a")
    run("train", "-t", "rbf", "-e", "1e-10", heart, "b")
    run("predict", "-d", "rows", "a", "out_a")
    run("predict", "-d", heart, "b", "out_b")
    a = np.loadtxt("out_a", skiprows=1)
    assert a == pytest.approx(np.loadtxt("out_b", skiprows=1), abs=1e-6)
    assert run("train", "-v", "5", "-t", "4", "rows").out.startswith("Cross Validation")


def test_seconds_are_not_in_the_model(run, heart, tmp_path):
    """The same command writes the same bytes."""
    run("train", "-t", "rbf", "--solver", "dcd", heart, "m")
    first = (tmp_path / "m").read_bytes()
    run("train", "-t", "rbf", "--solver", "dcd", heart, "m")
    assert (tmp_path / "m").read_bytes() == first


def test_weights_that_leave_one_class_are_told(run, heart, tmp_path):
    rows = Path(heart).read_text().splitlines()
    (tmp_path / "w").write_text("".join(f"{int(row.startswith('+1'))}\n" for row in rows))
    for options, label in [(["-w1", "0"], -1), (["-W", "w"], 1), (["-w1", "0", "-w1", "2"], None)]:
        outcome = run("train", *options, heart, "m")
        told = f"only the examples of class {label} have a weight above 0" in outcome.err
        assert outcome.code == 0 and told == (label is not None)


def test_data_from_a_descriptor_need_a_model_name(run):
    for path in ("-", "/dev/stdin", "/dev/fd/63", "/proc/self/fd/63"):
        outcome = run("train", path)
        assert outcome.code == 2 and "name the MODEL_FILE" in outcome.err


def test_numbers_in_a_model_are_plain(run, tmp_path):
    (tmp_path / "d").write_text("1\n-1\n")
    assert run("train", "-t", "rbf", "--solver", "dcd", "--max-iter", "9", "d", "m").code == 0
    assert "np.float64" not in (tmp_path / "m").read_text()


@pytest.mark.parametrize("options, code", [
    (["-s", "lssvm", "-t", "sigmoid", "-g", "5", "-l", "1e6", "--solver", "dcd"], 1),
    (["--solver", "dcd", "--max-iter", "1", "--strict"], 3),
])
def test_the_trace_of_a_training_that_fails(run, heart, options, code):
    outcome = run("train", *options, "--trace", "t.csv", heart, "m")
    assert outcome.code == code and "up to its failure" in outcome.err
    assert Path("t.csv").read_text().startswith("iteration,") and not Path("m").exists()


@pytest.mark.parametrize("options", [
    ["-l", "4", "--solver", "dcd"], ["-s", "ldm"], ["-s", "l1svm", "-t", "rbf"],
    ["-s", "mcodm"], ["-s", "m3svm"], ["-s", "mcsvm"], ["--solver", "svrg"],
])  # fmt: skip
def test_the_trace_ends_where_the_summary_does(run, heart, options):
    model = "m"
    outcome = run("train", *options, "--trace", "t.csv", "--json", "s.json", heart, model)
    assert outcome.code == 0
    with open("t.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    summary = json.loads(Path("s.json").read_text())
    assert list(rows[0]) == ["iteration", "objective", "gap", "seconds", "accuracy"]
    iterations, seconds = ([float(row[name]) for row in rows] for name in ("iteration", "seconds"))
    assert iterations == sorted(iterations) and iterations[-1] == summary["iterations"]
    assert seconds == sorted(seconds)
    told = [float(row["objective"]) for row in rows if row["objective"]]
    assert told[-1] == pytest.approx(summary["objective"], rel=1e-2)
    counted = [float(row["accuracy"]) for row in rows if row["accuracy"]]
    assert len(counted) == len(told) and all(0 <= share <= 100 for share in counted)
    right = re.search(r"Accuracy = ([\d.]+)%", run("predict", heart, model, "p").out)[1]
    assert counted[-1] == pytest.approx(float(right), abs=1e-3)
    assert run("train", "-v", "2", "--trace", "t.csv", heart).code == 2


def test_features_that_are_not_scaled_are_said_to_be(run, tmp_path):
    rng = np.random.default_rng(0)
    rows = 1000 * rng.random((60, 2))
    (tmp_path / "far.svm").write_text(
        "".join(f"{1 - 2 * (a > 500)} 1:{a:.3f} 2:{b:.3f}\n" for a, b in rows)
    )
    said = "odm-train: warning: the features are not scaled, and most examples are so far from"
    for command in (["far.svm", "m"], ["-v", "3", "far.svm"]):
        outcome = run("train", "-g", "1/d", *command)
        assert outcome.code == 0
        assert outcome.err.count(said) == 1
        assert "or a smaller -g" in outcome.err
    assert said not in run("train", "-t", "rbf", "-v", "3", "--scale", "0,1", "far.svm").err
    search = ["cv", "-t", "rbf", "-v", "3", "-l", "1", "far.svm"]
    assert run(*search, "-g", "1/d").err.count(said.replace("odm-train", "odm-cv")) == 1
    # One width of the list suits them.
    assert "not scaled" not in run(*search, "-g", "1,1e-6").err
    assert "not scaled" not in run(*search, "--scale", "0,1").err
    for better in (["-t", "rbf", "--scale", "0,1"], ["-t", "rbf", "-g", "1e-6"], ["-t", "linear"]):
        assert said not in run("train", *better, "far.svm", "m").err
