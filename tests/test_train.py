"""odm-train as a user meets it."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import ENDLESS

from odmtool.io.model_file import read_model
from odmtool.io.svmlight import read_svmlight
from odmtool.machines import ODM

WINE = Path(__file__).parent.parent / "data/wine.train"

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


@pytest.mark.parametrize("data, sentence", [
    ("1 1:1\n7 1:2\n", "the data have 1, 7, the model has 1, -1"),
    ("a 1:1\nb 1:2\n", "the data have a, b, the model has 1, -1"),
    ("1 1:1\n-1 1:2\n3 1:4\n", "the data have 1, -1, 3, the model has 1, -1"),
])  # fmt: skip
def test_training_cannot_go_on_with_other_classes(run, heart, tmp_path, data, sentence):
    assert run("train", heart, "a").code == 0
    (tmp_path / "d").write_text(data)
    refused = run("train", "-s", "odm", "--from", "a", "d", "c")
    assert refused.code == 2 and "of the same two classes: " + sentence in refused.err
    refused = run("train", "-s", "l1svm", "--from", "a", heart, "c")
    assert refused.code == 2 and "with a smooth loss, not -s l1svm" in refused.err


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


def test_one_of_a_kind_is_not_said_as_many(run, tmp_path):
    (tmp_path / "data").write_text("1 1:1\n\n")
    outcome = run("train", "-t", "rbf", "--solver", "nystrom", "--verbose", "data", "m")
    assert "1 landmark holds 100 % " in outcome.err and "1 blank or comment line sk" in outcome.err
    assert "1 example, 1 feature, 1 class: " in outcome.err and "1 support vector;" in outcome.err


def test_features_that_are_scaled_are_not_to_be_scaled(run, heart):
    options = ["--solver", "dcd", "-l", "2^20", "--max-iter", "1"]
    assert ". Scale the features (odm-scale), or try -l " in run("train", *options, heart).err
    assert ". Try -l below " in run("train", "--scale", "0,1", *options, heart).err


def test_json_of_a_training_without_time(run, heart, tmp_path):
    def refuse(name):
        raise AssertionError(f"{name} is no JSON")

    for machine in (["ldm", "-t", "rbf"], ["mamc", "-t", "rbf"], ["kmomd", "-t", "rbf"],
                    ["odm", "--cache", ".", "--solver", "newton"]):  # fmt: skip
        options = ["-s", *machine, "--max-time", "1e-9", "--json", "j"]
        outcome = run("train", *options, heart, "m")
        assert outcome.code == 0 and "; the model is constant\n" in outcome.err
        found = json.loads((tmp_path / "j").read_text(), parse_constant=refuse)
        assert found["gap"] > 0
    from odmtool.cli.train import _number_or_text

    texts = {"inf": None, "nan": None, "1": 1, "2.5": 2.5, "x": "x"}
    assert {text: _number_or_text(text) for text in texts} == texts


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
    run("train", "-t", "4", "-l", "2^14", "-e", "1e-10", "rows", "a")
    run("train", "-t", "rbf", "-l", "2^14", "-e", "1e-10", heart, "b")
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


@pytest.mark.parametrize("options", [
    ["-s", "odm"], ["-t", "rbf"], ["-t", "rbf", "--multiclass", "ovr", "--solver", "dcd"],
])  # fmt: skip
def test_the_trace_of_problems_that_threads_solve_is_the_same(run, options):
    """One after the other, as with one thread; but for the seconds."""
    traces = []
    for jobs in (1, 2):
        assert run("train", *options, "-j", jobs, "--trace", "t.csv", WINE, "m").code == 0
        lines = [line.split(",") for line in Path("t.csv").read_text().splitlines()]
        traces.append([line[:3] + line[4:] for line in lines])
        seconds = [float(line[3]) for line in lines[1:]]
        assert min(seconds) > 0
    assert traces[0] == traces[1] and [line[0] for line in traces[0]].count("1") == 3


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


def test_indices_from_0_are_one_higher_in_a_model_that_svm_predict_reads(run, tmp_path):
    (tmp_path / "d").write_text("1 0:1 1:1\n-1 0:-1 1:1\n0 0:0.1 1:-1\n" * 2)
    for options, is_said in (
        ((), False), (("-t", "rbf"), True), (("--format", "libsvm"), True),
        (("-s", "mcodm", "-t", "rbf", "--format", "compact"), False),
    ):  # fmt: skip
        outcome = run("train", *options, "--zero-based", "d", "m")
        assert outcome.code == 0 and ("svm-predict does not" in outcome.err) == is_said
    found = run("cv", "--zero-based", "-l", "1,2", "-t", "rbf", "-v", "2", "-o", "m", "d")
    assert "svm-predict does not" in found.err
    assert "svm-predict" not in run("cv", "--zero-based", "-l", "1,2", "-t", "rbf", "d").err
