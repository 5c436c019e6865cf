"""odm-train --scale: the model scales what it predicts, exactly as odm-scale does."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from odmtool import load_model
from odmtool.cli import entry
from odmtool.cli.umbrella import odmtool
from odmtool.core import scaling
from odmtool.core.csr import CSR
from odmtool.core.scaling import Ranges, Scaler, ranges_of
from odmtool.errors import ModelError
from odmtool.io.model_file import read_model
from odmtool.io.model_write import write_model
from odmtool.io.svmlight import read_svmlight
from odmtool.machines import ODM
from odmtool.models.linear import LinearModel
from odmtool.models.scaled import ScaledModel
from odmtool.search.search import SearchPlan, search
from odmtool.search.validation import Data, evaluate_chain, folds


def write_rows(path, seed: int, m: int, classes=(1, -1)) -> str:
    """Sparse rows of which feature 2 is constant, 5 far from 0, 6 rare and 8, the last, zero."""
    generator = np.random.default_rng(seed)
    lines = []
    for i in range(m):
        label = classes[i % len(classes)]
        x = generator.normal(size=6) * [30, 1, 1, 5, 1, 1] + label
        items = [f"1:{x[0]:.6g}", "2:7", f"5:{1000 + x[2]:.6g}", "8:0"]
        if generator.random() < 0.5:
            items.insert(2, f"3:{abs(x[1]):.6g}")
        if generator.random() < 0.2 or i == 0:
            items.insert(-1, f"6:{x[3]:.6g}")
        lines.append(f"{label} {' '.join(items)}\n")
    path.write_text("".join(lines))
    return str(path)


@pytest.fixture
def sets(tmp_path):
    """A training and a test file of two classes; the latter has values beyond the ranges."""
    test = Path(write_rows(tmp_path / "test", 1, 23))
    test.write_text(test.read_text() + "1 1:500 5:-3 7:4 9:1\n-1\n")
    return write_rows(tmp_path / "train", 0, 40), str(test)


FORMS = {
    "linear": [],
    "with a bias": ["-B", "1"],
    "a kernel": ["-t", "rbf"],
    "gamma by the features that vary": ["-t", "poly", "-d", "2", "-r", "1", "-g", "2/d"],
    "w as a support vector": ["--format", "libsvm"],
    "probabilities": ["-b", "1"],
}
OF_MANY = {
    "mcodm": [],
    "pairs": ["--multiclass", "ovo"],
    "scores of a kernel": ["--multiclass", "ovr", "-t", "rbf"],
    "compact": ["--multiclass", "ovr", "-t", "rbf", "--format", "compact"],
}


def both_ways(run, train, test, options, lower, upper) -> tuple[str, str]:
    """What odm-predict writes after odm-scale, and with ranges in the model."""
    flag = ["-b", "1"] if "-b" in options else ["-d"]
    scale = ["--digits", "17", "-q"]
    assert run("scale", *scale, "-l", lower, "-u", upper, "-s", "r", "-o", "a", train).code == 0
    assert run("scale", *scale, "-r", "r", "-o", "b", test).code == 0
    assert run("train", "-q", *options, "a", "apart").code == 0
    assert run("predict", *flag, "b", "apart", "apart.out").code == 0
    bounds = f"{lower},{upper}"
    assert run("train", "-q", *options, "--scale", bounds, train, "kept").code == 0
    assert run("predict", *flag, test, "kept", "kept.out").code == 0
    return Path("apart.out").read_text(), Path("kept.out").read_text()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bounds", [(0, 1), (-1, 1)])
def test_predictions_are_those_after_odm_scale(run, sets, form, bounds):
    apart, kept = both_ways(run, *sets, FORMS[form], *bounds)
    assert apart == kept and len(apart.splitlines()) == 26


@pytest.mark.parametrize("form", OF_MANY)
def test_of_many_classes_too(run, tmp_path, form):
    train = write_rows(tmp_path / "train", 0, 45, classes=(2, 5, 9))
    test = write_rows(tmp_path / "test", 1, 21, classes=(2, 5, 9))
    apart, kept = both_ways(run, train, test, OF_MANY[form], -0.5, 2)
    assert apart == kept


def test_blocks_and_the_service_change_nothing(run, sets, monkeypatch):
    train, test = sets
    assert run("train", "-q", "--scale", "-1,1", train, "m").code == 0
    assert run("predict", "-d", test, "m", "whole").code == 0
    monkeypatch.setattr(scaling, "BLOCK", 9)
    assert run("predict", "-d", test, "m", "blocks").code == 0
    assert run("predict", "-d", "--line-buffered", test, "m", "rows").code == 0
    assert Path("blocks").read_text() == Path("whole").read_text() == Path("rows").read_text()


def test_the_ranges_are_exact_and_do_not_stand_in_the_way(run, sets, tmp_path):
    train, test = sets
    assert run("train", "-q", "--scale", "0,1", train, "m").code == 0
    model, ranges = read_model("m"), ranges_of(read_svmlight(train).X, 0.0, 1.0)
    assert isinstance(model, ScaledModel) and model.ranges.index.tolist() == [1, 3, 5, 6]
    for name in ("index", "minimum", "maximum"):
        np.testing.assert_array_equal(getattr(model.ranges, name), getattr(ranges, name))
    assert "\nodmtool-model 2\n" in (tmp_path / "m").read_text()
    assert model.facts["scale"] == "0 1" and model.facts["features"] == "8"
    write_model("again", model)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


def test_fifty_thousand_features_stay_short(tmp_path):
    index = np.arange(1, 50_001)
    ranges = scaling.Ranges(0.0, 1.0, index, np.zeros(50_000), np.full(50_000, 0.1))
    path = tmp_path / "m"
    write_model(str(path), ScaledModel(LinearModel([1, -1], np.ones((1, 1))), ranges))
    assert path.stat().st_size < 50_000 * len("50000 0 0.10000000000000001;") + 500
    np.testing.assert_array_equal(read_model(str(path)).ranges.maximum, ranges.maximum)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [("ranges x", "rangez x", "if its format is 2"), ("model 2", "model 1", "if its format is 2"),
     (";1 ", ";9 ", "feature indices must rise"), ("0 4 4", "0 5 5", "announces 5 features"),
     ("ranges x", "ranges z", "not a range file"), ("ranges x;0 1", "ranges x;1 0", "lower number"),
     (";0 4", ";0 4 4 4", "expected 'index min max'"), ("model 2", "model 3", "format '3'")],
)  # fmt: skip
def test_broken_ranges_are_refused(run, sets, tmp_path, old, new, reason):
    assert run("train", "-q", "--scale", "0,1", sets[0], "m").code == 0
    text = (tmp_path / "m").read_text()
    stock, ours = text[: text.rindex("end sha256")].split("odmtool-model", 1)
    changed = f"{stock}odmtool-model{ours}".replace(old, new, 1)
    assert changed != text[: text.rindex("end sha256")]
    (tmp_path / "m").write_text(
        f"{changed}end sha256 {hashlib.sha256(changed.encode()).hexdigest()}\n"
    )
    with pytest.raises(ModelError, match=f"^m:.*{reason}"):
        read_model("m")


# ---- every reader of a model scales --------------------------------------------------


def test_python_margins_and_a_start_take_rows_as_they_are(run, sets, capfd):
    train, test = sets
    apart, kept = both_ways(run, train, test, ["-t", "rbf"], 0, 1)
    labels, *lines = kept.splitlines()
    data = read_svmlight(test)
    values = np.array([float(line.split()[1]) for line in lines])
    loaded = load_model("kept")
    assert labels == "labels 1 -1"
    np.testing.assert_array_equal(loaded.decision_function(data.X), values)
    np.testing.assert_array_equal(loaded.predict(data.X.toarray()[:, :8]), loaded.predict(data.X))
    tables = []
    for command in (("margins", "b", "apart"), ("margins", test, "kept")):
        assert entry.run(odmtool, list(command), "odmtool") == 0
        out = capfd.readouterr().out
        tables.append([line.split()[1:] for line in out.splitlines()[1:]])
    assert tables[0] == tables[1]
    options = ["-q", "-t", "rbf", "--margins"]
    assert run("train", *options, "of", "--scale", "0,1", train, "m").code == 0
    assert run("train", *options, "apart.of", "a", "m").code == 0
    assert Path("of").read_text().splitlines()[2:] == Path("apart.of").read_text().splitlines()[2:]
    options = ["-q", "-t", "rbf", "-l", "2^6", "--from"]
    assert run("train", *options, "kept", "--scale", "0,1", train, "m").code == 0
    assert run("train", *options, "apart", "a", "n").code == 0
    ours, theirs = read_model("m").facts, read_model("n").facts
    assert [ours[key] for key in ("objective", "gap", "iterations")] == [
        theirs[key] for key in ("objective", "gap", "iterations")
    ]


def test_odm_scale_takes_the_ranges_of_a_model(run, sets, tmp_path):
    train, test = sets
    both_ways(run, train, test, [], 0, 1)
    assert run("scale", "-r", "kept", "--digits", "17", test).out == (tmp_path / "b").read_text()
    refused = run("scale", "-r", "apart", test)
    assert refused.code == 1 and "apart: this model keeps no ranges" in refused.err


def test_it_is_said_how_stock_predictors_are_served(run, sets, capfd):
    said = run("train", "--scale", "0,1", sets[0], "m").err
    assert "for a stock predictor scale the data first: odm-scale -r m\n" in said
    assert entry.run(odmtool, ["describe", "m"], "odmtool") == 0
    out = capfd.readouterr().out
    assert "ranges: of 4 features" in out and "odm-scale -r m\n" in out and "scale: 0 1\n" in out


def test_what_cannot_be_scaled_names_its_file(run, tmp_path):
    wide = tmp_path / "wide"
    wide.write_text("1 1:1\n-1 1:1.0000000000000002\n")
    assert run("train", "-q", "--scale", "0,1", wide, "w").code == 0
    (tmp_path / "far").write_text("1 1:1e308\n")
    refused = run("predict", "far", "w", "out")
    assert refused.code == 1 and "far: the value 1" in refused.err


def test_sparse_data_that_would_not_fit_are_refused(run, tmp_path):
    # More features than rows: the default lambda depends on the scaled rows, too.
    rows = [f"{1 - 2 * (i % 2)} {i + 2}:1\n" for i in range(2000)]
    (tmp_path / "d").write_text("".join(rows))
    for command in (["train"], ["train", "-v", "2"], ["cv", "-l", "1,2"], ["cv", "-m", ".5,.6"]):
        refused = run(*command, "--memory", "64M", "--scale", "-1,1", "d")
        assert refused.code == 1 and "scaled data would take 96 MB" in refused.err
        assert "--scale 0,1" in refused.err and not Path("d.model").exists()


def test_features_that_never_vary(run, tmp_path):
    (tmp_path / "d").write_text("1 1:3\n-1 1:3\n")
    outcome = run("train", "--scale", "0,1", "d", "m")
    assert outcome.code == 0 and "no feature varies" in outcome.err
    assert run("predict", "d", "m", "out").code == 0


def test_what_does_not_go_with_it(run, sets):
    train = sets[0]
    for options, reason in (
        (["--scale", "1,0"], "lower end must be below"), (["--scale", "1"], "write 0,1 or -1,1"),
        (["--scale", "a,b"], "write 0,1 or -1,1"),
        (["--scale", "0,1", "-t", "precomputed"], "--scale does not go with -t precomputed"),
        (["--scale", "0,1", "--cache", "."], "leave out --cache or --scale"),
        (["--scale", "0,1", "--scheduler", "tcp://localhost:1"], ""),
    ):  # fmt: skip
        path = "no-such-*" if "--scheduler" in options else train
        outcome = run("train", *options, path, "m")
        assert outcome.code == 2 and reason in outcome.err and not Path("m").exists(), options


# ---- cross validation ------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_folds_are_scaled_by_the_examples_that_train(sets, kernel):
    data = read_svmlight(sets[0])
    machine, fold = ODM(kernel=kernel, lambda_=16.0), folds(data.labels, 4, 0)
    plan = SearchPlan(machine, [{}], Data(data.X, data.labels).to_be_scaled(-1, 1, 1e9), fold)
    (row,) = search(plan)
    expected, by_all = [], []
    for k in range(4):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        for rows, counts in ((train, expected), (slice(None), by_all)):
            scaler = Scaler(ranges_of(data.X[rows], -1, 1))
            known = Data(scaler.scale_in_place(data.X, 6).matrix(), data.labels)
            gram = machine.gram(known.X)
            (result,) = evaluate_chain(machine, [{}], known, train, test, gram)
            counts.append(result.values)
    found = next(iter(_values(plan)))
    np.testing.assert_array_equal(found, expected[0])
    assert not np.array_equal(np.concatenate(expected), np.concatenate(by_all))
    assert row.accuracy == np.mean(np.concatenate([
        (np.where(values[:, 0] > 0, 1, -1) == data.labels[fold == k])
        for k, values in enumerate(expected)
    ]))  # fmt: skip


def _values(plan):
    """The decision values of the first fold, as a search has them."""
    data = plan.data.scaled_by(np.flatnonzero(plan.fold != 0))
    train, test = np.flatnonzero(plan.fold != 0), np.flatnonzero(plan.fold == 0)
    for result in plan.evaluate(plan.machine, [{}], data, train, test, plan.machine.gram(data.X)):
        yield result.values


def test_commands_scale_folds_alike_and_the_best_model_keeps_the_ranges(run, sets, tmp_path):
    train, test = sets
    options = ["-t", "rbf", "-l", "2^4", "-g", "0.5", "-v", "4", "--scale", "0,1"]
    alone = run("train", *options, train)
    found = run("cv", *options, "-o", "m", "--journal", "j", train)
    assert found.code == 0 and alone.out == found.out.splitlines(keepends=True)[-1]
    (best,) = [line for line in found.out.splitlines() if line.startswith("Best: ")]
    assert "--scale 0,1" in best
    assert run("train", "-q", "-t", "rbf", "-l", "16", "-g", "0.5", "--scale", "0,1", train, "n")
    for name in ("m", "n"):
        assert run("predict", "-d", test, name, f"{name}.out").code == 0
    assert (tmp_path / "m.out").read_text() == (tmp_path / "n.out").read_text()
    assert run("cv", *options, "--journal", "j", train).out == found.out
    other = [*options[:-1], "-1,1"]
    assert "another" in run("cv", *other, "--journal", "j", train).err
    assert run("cv", *options, "-b", "1", train).code == 0
    assert run("cv", *options, "--repeat", "2", train).code == 0


def test_ranges_of_larger_features_than_the_rows_can_hold():
    far = 3 * 2**30
    ranges = Ranges(-1.0, 1.0, np.array([1, far]), np.zeros(2), np.full(2, 2.0))
    X = CSR(np.array([2.0]), np.zeros(1, np.int32), np.array([0, 1], np.int32), (1, 1))
    rows = Scaler(ranges).scale_in_place(X)
    assert rows.indices.tolist() == [0, far - 1] and rows.shape == (1, far)
    assert rows.data.tolist() == [1.0, -1.0]
