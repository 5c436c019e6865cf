"""odm-cv, the folds, and the grid."""

import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist

from odmtool.cli.ranges import expand
from odmtool.errors import UsageError
from odmtool.io.model_file import read_model
from odmtool.io.svmlight import read_svmlight
from odmtool.machines import ODM
from odmtool.search.search import Trial, best, grid
from odmtool.search.strategies import STRATEGIES
from odmtool.search.validation import folds


@given(st.lists(st.integers(-2, 3), min_size=2, max_size=60), st.integers(2, 12), st.integers(0, 9))
def test_folds_are_stratified_and_even(labels, n, seed):
    labels = np.array(labels)
    if n > len(labels):
        with pytest.raises(UsageError):
            folds(labels, n, seed)
        return
    fold = folds(labels, n, seed)
    sizes = np.bincount(fold, minlength=n)
    assert sizes.max() - sizes.min() <= 1 and len(sizes) == n
    for label in set(labels.tolist()):
        counts = np.bincount(fold[labels == label], minlength=n)
        assert counts.max() - counts.min() <= 1
    assert np.array_equal(fold, folds(labels, n, seed))


def test_folds_depend_on_the_seed():
    labels = np.repeat([0, 1], 50)
    assert not np.array_equal(folds(labels, 5, 0), folds(labels, 5, 1))


def test_grid_names_only_what_the_kernel_uses():
    values = dict(kernel=("linear", "rbf"), lambda_=(1, 2), gamma=(0.1, 0.2), degree=(3,))
    settings = grid(values)
    assert len(settings) == 2 + 4
    assert {"kernel": "linear", "lambda_": 1} in settings
    assert {"kernel": "rbf", "gamma": 0.2, "lambda_": 1} in settings


@pytest.mark.parametrize("text, values", [
    ("0.2:0.8:0.2", (0.2, 0.4, 0.6, 0.8)),
    ("2^0:20:4", (1, 16, 256, 4096, 65536, 1048576)),
    ("2**-1:1:1", (0.5, 1, 2)),
    ("1,5:3:-1,1/4", (1, 5, 4, 3, 0.25)),
    ("1:2:0.4", (1, 1.4, 1.8)),
])  # fmt: skip
def test_ranges(text, values):
    assert expand(text) == values


def test_the_papers_grid(run, heart):
    outcome = run("cv", "-t", "rbf", "--grid", "paper", "-l", "1", "-m", "0.4", "-v", "2", heart)
    assert "20 settings x 2 folds" in outcome.err
    gammas = {re.search(r"gamma=(\S+)", row)[1] for row in outcome.out.splitlines()[:-3]}
    assert gammas == {f"{2.0**k / 13:.10g}" for k in (-4, -2, 0, 2, 4)}


def test_the_grid_of_the_tkde_paper_for_ldm_is_as_printed(run, heart):
    outcome = run("cv", "-s", "ldm", "--grid", "tkde", "-l", "1", "--mu1", "1", "-v", "2", heart)
    found = [float(value) for value in re.findall(r"mu2=(\S+) rate", outcome.out)]
    assert found == [2.0**k for k in (-4, -2, 0, 2, 4)]


def test_the_grids_of_kdd_and_arxiv_are_as_printed(run, heart):
    """delta is the mean distance between examples; C1, C2 and D are those of the arXiv version."""
    outcome = run("cv", "-s", "ldm", "-t", "rbf", "--grid", "kdd", "--mu1", "1", "--mu2", "1",
                  "-v", "2", heart)  # fmt: skip
    X = np.asarray(read_svmlight(heart).X.toarray())
    delta = pdist(X).mean()
    gammas = {float(g) for g in re.findall(r"gamma=(\S+)", outcome.out)}
    assert sorted(gammas) == pytest.approx([1 / (2.0**k * delta) ** 2 for k in (2, 1, 0, -1, -2)])
    assert re.findall(r"cost=(\S+)", outcome.out) == ["10", "50", "100"] * 5
    outcome = run("cv", "--grid", "arxiv", "-g", "1", "-v", "2", heart)
    rows = re.findall(r"lambda=(\S+) mu=(\S+) theta=(\S+)", outcome.out)
    found = [(round(float(c) / (1 - float(d)) ** 2, 6), float(mu), float(d)) for c, mu, d in rows]
    printed = [(2.0**a, 2.0**b, d / 10) for a in range(0, 11, 2) for b in range(0, a + 1, 2)
               for d in range(6)]  # fmt: skip
    expected = sorted((c1, c2 / c1, d) for c1, c2, d in printed)
    np.testing.assert_allclose(sorted(found), expected, rtol=1e-8)
    part = run("cv", "--grid", "arxiv", "-p", "0.2", "-v", "2", heart)
    assert part.code == 2 and "it goes without -l, -c, -m and -p" in part.err


def test_a_coarse_search_goes_by_c1_c2_and_d(run, heart):
    """Its first round has every fourth C1, C2 and D and the last ones, with C2 <= C1."""
    outcome = run("cv", "--grid", "arxiv", "-t", "linear", "--search", "coarse", "-v", "2", heart)
    first = int(re.search(r"(\d+) settings x 2 folds", outcome.err)[1])
    rows = re.findall(r"lambda=(\S+) mu=(\S+) theta=(\S+)", outcome.out)[:first]
    found = [(float(c) / (1 - float(d)) ** 2, float(mu), float(d)) for c, mu, d in rows]
    expected = sorted((2.0**a, 2.0 ** (b - a), d) for a in (0, 8, 10) for b in (0, 8, 10)
                      for d in (0.0, 0.4, 0.5) if b <= a)  # fmt: skip
    np.testing.assert_allclose(sorted(found), expected, rtol=1e-6)


def test_one_row_per_setting_and_the_best_at_the_end(run, heart):
    outcome = run("cv", "-t", "rbf", "-l", "2^0,2^4,2^8", "-g", "0.1,1", "-v", "3", heart)
    *rows, best, score, accuracy = outcome.out.splitlines()
    assert outcome.code == 0
    assert outcome.err == "odm-cv: 6 settings x 3 folds = 18 fits on 270 examples\n"
    assert re.fullmatch(r"Best accuracy by fold: [\d.]+% \+- [\d.]+%", score)
    rates = {}
    for row in rows:
        match = re.fullmatch(r"lambda=(\d+) gamma=(0\.1|1) rate=([\d.]+)", row)
        rates[float(match[1]), float(match[2])] = float(match[3])
    assert len(rates) == 6
    highest = max(rates.values())
    # Ties: the stronger regularisation, then the smoother kernel.
    lambda_, gamma = min(setting for setting, rate in rates.items() if rate == highest)
    assert best.startswith("Best: odm-train -t rbf ")
    assert f"-l {lambda_:g} " in best and f"-g {gamma:g} " in best
    assert accuracy == f"Cross Validation Accuracy = {highest:g}%"


def test_the_best_command_can_be_pasted_and_gives_the_same_accuracy(run, heart):
    options = ["-w-1", "1.5", "--seed", "4", "-B", "1", "-e", "1e-6"]
    outcome = run("cv", "-t", "rbf,linear", "-c", "0.01,1", "-m", "1/3,1", *options, heart)
    best = next(line for line in outcome.out.splitlines() if line.startswith("Best: odm-train "))
    words = shlex.split(best)[2:]
    again = run("train", "-v", "5", *words)
    assert again.out == outcome.out.splitlines()[-1] + "\n"


@pytest.mark.parametrize("name", [b"a b\n'c\\'", b"\xff\xfe1", "\u00fc\x1b[31m".encode()])
def test_the_best_command_names_any_file_on_one_line(run, heart, tmp_path, name):
    """The shell reads back what cannot be printed, also bytes that are no UTF-8."""
    (tmp_path / os.fsdecode(name)).symlink_to(heart)
    outcome = run("cv", "-l", "1", "-o", "m", os.fsdecode(name))
    best = next(line for line in outcome.out.splitlines() if line.startswith("Best: odm-train "))
    assert best.isprintable() and len(outcome.out.splitlines()) == 4
    command = next(line for line in Path("m").read_text().splitlines() if "command" in line)
    for words in (best, command):
        line = ["bash", "-c", f"printf '%s\\0' {words}"]
        told = subprocess.run(line, capture_output=True, check=True).stdout
        assert told.split(b"\0")[-2] == name


def test_same_as_train_v(run, heart):
    searched = run("cv", "-t", "rbf", "-l", "64", heart).out.splitlines()[-1]
    assert run("train", "-v", "5", "-t", "rbf", "-l", "64", heart).out == searched + "\n"


def test_jobs_change_nothing(run, heart):
    arguments = ["-t", "rbf", "-l", "1,64", "--solver", "dcd", heart]
    assert run("cv", *arguments).out == run("cv", "-j", "2", *arguments).out


@pytest.mark.parametrize("arguments, sentence", [
    (["-l", "1,x"], "'x' is not a number"),
    (["-l", "1,,2"], "is not a number"),
    (["-l", "1:2"], "'1:2' is not a number or range"),
    (["-l", "2^0:20:0"], "'2^0:20:0' is not a number or range"),
    (["-l", "1:0:1"], "'1:0:1' is not a number or range"),
    (["-g", "x/d"], "'x' is not a number"),
    (["-g", "1,/d"], "'/d' is not a number"),
    (["-l", "1,1/0"], "the value of '1/0' is not a finite number"),
    (["--memory", "1e999"], "the value of '1e999' is not a finite number"),
    (["--scale", "0,1e999"], "the value of '1e999' is not a finite number"),
    (["-g", "1:9000:1,1:9000:1"], "at most 10000 values"),
    (["-l", "2^0:2000:500"], "'2^0:2000:500' is not a number or range"),
    (["--grid", "mine"], "'mine'"),
    (["--metric", "loss"], "'loss'"),
    (["-l", "1,-2"], "lambda must be positive"),
    (["-m", "0.5,1.5"], "0 < mu <= 1"),
    (["-p", "0.5,1"], "0 <= theta < 1"),
    (["-t", "rbf,cubic"], "cubic"),
    (["-l", "1", "-c", "1"], "give one"),
    (["-v", "1"], "2 to 270 folds"),
    (["-s", "12"], "support vector regression"),
    (["-l", "1:9999:1", "-m", "0.01:1:0.01"], "make 999900 settings, more than 100000"),
    (["--journal", "-"], "name a file"),
    (["-l", "1,2", "--csv", "a.png", "--plot", "a.png"], "read or written already"),
])  # fmt: skip
def test_bad_lists_are_refused_before_anything_runs(run, heart, arguments, sentence):
    outcome = run("cv", *arguments, heart)
    assert outcome.code == 2 and outcome.out == ""
    assert sentence in outcome.err and outcome.err.count("\n") == 1


def test_a_class_smaller_than_the_folds(run, tmp_path):
    """odm-cv refuses it; what is asked for as of svm-train, train or grid.py warns and goes on."""
    rows = "".join(f"1 1:{i}\n" for i in range(1, 8))
    (tmp_path / "data").write_text(rows + "2 1:-1\n")
    outcome = run("cv", "-v", "4", "data")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (
        "odm-cv: data: class 2 has only 1 example: the fold that it is in leaves none of the class "
        "to train on; remove the class from the data, or add examples of it\n"
    )
    for few, options in (("1 1:1\n-1 1:2\n", []), ("-1 1:1\n1 1:2\n1 1:3\n", ["-v", "3"])):
        (tmp_path / "few").write_text(few)
        outcome = run("cv", *options, "few")
        assert outcome.err.startswith("odm-cv: few: class -1 has only 1 example: the fold that")
        assert outcome.code == 1 and outcome.err.count("\n") == 1
    outcome = run("train", "-v", "4", "data")
    assert outcome.code == 0 and outcome.out == "Cross Validation Accuracy = 87.5%\n"
    assert "some of the 4 folds are without it" in outcome.err
    of_grid = ["cv", "-log2c", "0,1,1", "-log2g", "null", "-v", "4", "data"]
    for stock in (of_grid, ["train", "-C", "-v", "4", "data"]):
        outcome = run(*stock)
        assert outcome.code == 0 and outcome.err.count("some of the 4 folds are without it") == 1
    assert run(*of_grid, "--metric", "auc").code == 1
    (tmp_path / "data").write_text(rows + "2 1:-1\n2 1:-2\n")
    assert "write -v 2 or less" in run("cv", "-v", "4", "data").err
    assert run("cv", "-v", "2", "data").code == 0
    # Leaving one out: no fold has both classes, which only the accuracy does without.
    assert run("cv", "-v", "9", "data").code == 0
    assert run("cv", "-v", "9", "--metric", "auc", "data").code == 1
    assert run("cv", "-v", "2", "--repeat", "2", "--test-size", "0.5", "data").code == 1


def test_one_class_or_one_example_cannot_be_searched(run, tmp_path):
    for text, sentence in [("1 1:1\n1 1:2\n", "nothing to search"), ("1 1:1\n", "needs two")]:
        (tmp_path / "data").write_text(text)
        outcome = run("cv", "-v", "2", "data")
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (1, "", 1)
        assert sentence in outcome.err


def test_data_without_features(run, tmp_path):
    (tmp_path / "data").write_text("1\n-1\n" * 4)
    assert run("cv", "-v", "2", "data").code == 0
    assert run("train", "data", "m").code == 0
    assert run("predict", "data", "m", "out").out == "Accuracy = 50% (4/8)\n"


def test_the_best_command_takes_data_from_a_pipe_again(heart):
    """Data from a pipe have no name to paste."""
    program = [sys.executable, "-m", "odmtool"]
    with open(heart, "rb") as stream:
        searched = subprocess.run(
            [*program, "cv", "-"], stdin=stream, capture_output=True, text=True
        )
    best = next(line for line in searched.stdout.splitlines() if line.startswith("Best: "))
    words = shlex.split(best)[2:]
    assert words[-2:] == ["-", "stdin.model"]
    with open(heart, "rb") as stream:
        again = subprocess.run([*program, "train", "-v", "5", *words], stdin=stream,
                               capture_output=True, text=True)  # fmt: skip
    assert again.stdout == searched.stdout.splitlines()[-1] + "\n"


def test_rows_show_the_metric(run, heart):
    outcome = run("cv", "--metric", "auc", "-l", "1,64", heart)
    rows = [re.fullmatch(r"lambda=(\d+) rate=[\d.]+ auc=([\d.]+)", row)
            for row in outcome.out.splitlines()[:2]]  # fmt: skip
    highest = max(rows, key=lambda row: float(row[2]))
    assert f"-l {highest[1]} " in outcome.out.splitlines()[2] + " "


def test_each_gamma_may_be_divided(run, heart):
    rows = run("cv", "-t", "rbf", "-l", "1", "-g", "1/d, 13 ,2^0:1:1/d", heart).out
    assert re.findall("gamma=([^ ]+)", rows) == ["0.07692307692", "13", "0.1538461538"]


def test_ties_go_to_the_kernel_without_gamma(heart):
    rows = [Trial({"kernel": kernel, "lambda_": 1.0} | more, 0.5, np.array([0.5]), 0)
            for kernel, more in [("rbf", {"gamma": 0.01}), ("linear", {})]]  # fmt: skip
    assert best(rows, ODM(gamma=0.25)).setting["kernel"] == "linear"


def test_a_setting_without_a_solution_does_not_spoil_the_list(run, heart):
    options = ["-r", "0.5", "-g", "0.1", "-l", "1,64", "-m", "0.4", "-p", "0.6"]
    tables = ["--csv", "t.csv", "--json", "t.json"]
    outcome = run("cv", "-t", "linear,sigmoid", *options, *tables, heart)
    assert outcome.code == 0
    rows = outcome.out.splitlines()[:-3]
    assert [row.endswith("no solution") for row in rows] == [False, False, False, True]
    with open("t.csv", newline="") as stream:
        table = list(csv.DictReader(stream))
    scores = [f"fold{k}" for k in range(1, 6)] + ["mean", "std", "accuracy", "gap"]
    assert [{row[name] == "" for name in scores} for row in table] == [{False}] * 3 + [{True}]
    means = [row["mean"] for row in json.loads(Path("t.json").read_text())]
    assert [mean is None for mean in means] == [False, False, False, True]
    alone = run("cv", "-t", "sigmoid", *options[:4], "-l", "64", heart)
    assert alone.code == 1 and "no solution" in alone.err


def test_precomputed_is_not_mixed_with_other_kernels(run, heart):
    outcome = run("cv", "-t", "linear,precomputed", heart)
    assert outcome.code == 2 and "cannot stand in a list" in outcome.err


def test_a_file_whose_name_begins_as_an_option_is_trained_as_it_is_told(run, heart):
    shutil.copy(heart, "-x.svm")
    outcome = run("cv", "-q", "-t", "linear", "-l", "1", "--", "-x.svm")
    best = next(line for line in outcome.out.splitlines() if line.startswith("Best:"))
    words = shlex.split(best.removeprefix("Best: "))
    assert words[0] == "odm-train" and words[-1] == "./-x.svm"
    assert run("train", *words[1:]).code == 0


@pytest.mark.parametrize("size", [1, 100])
def test_the_quick_grid_of_m3svm_is_around_its_default(run, tmp_path, size):
    """A thousandth to a hundred times that, 10^-4 to 10 where it is .1."""
    rows = [f"{1 + k % 3} 1:{k % 7 * size} 2:{k * k % 5 * size}\n" for k in range(60)]
    (tmp_path / "data").write_text("".join(rows))
    assert run("train", "-s", "m3svm", "data", "m").code == 0
    default = read_model("m").facts["lambda"]
    assert (float(default) == 0.1) == (size == 100)
    outcome = run("cv", "-s", "m3svm", "data")
    found = [float(line.split()[0].removeprefix("lambda=")) for line in outcome.out.splitlines()
             if line.startswith("lambda=")]  # fmt: skip
    expected = [float(default) * 10.0**power for power in range(-3, 3)]
    assert sorted(found) == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize("examples, options, first", [
    (1200, [], 1200), (1203, [], 401), (1200, ["--search", "halving"], 400),
    (1203, ["--search", "full"], 1203),
])  # fmt: skip
def test_the_quick_grid_is_tried_on_few_examples_in_full(run, tmp_path, examples, options, first):
    rows = "".join(f"{1 - 2 * (k % 3 % 2)} 1:{k % 7} 2:{k % 5}\n" for k in range(examples))
    (tmp_path / "data").write_text(rows)
    outcome = run("cv", "-t", "linear", *options, "data")
    assert outcome.code == 0 and f"= 25 fits on {first} examples" in outcome.err


def test_of_repeated_splits_the_examples_that_are_searched_count(run, tmp_path, monkeypatch):
    """1300 of which 1040 are searched, or 1235."""
    rows = "".join(f"{1 - 2 * (k % 3 % 2)} 1:{k % 7} 2:{k % 5}\n" for k in range(1300))
    (tmp_path / "data").write_text(rows)
    taken = []

    def told(name, search):
        def taking(*args, **said):
            taken.append(name)
            return search(*args, **said)

        return taking

    for name, search in list(STRATEGIES.items()):
        monkeypatch.setitem(STRATEGIES, name, told(name, search))
    for share in ("0.2", "0.05"):
        options = "--repeat", "1", "--test-size", share, "--grid", "quick", "-t", "linear"
        assert run("cv", *options, "data").code == 0
    assert taken == ["full", "halving"]


def test_a_kernel_that_is_named_twice_is_searched_once(run, heart):
    options = "-l", "1,4,16", "-g", "0.1", "--search", "coarse", "-v", "2", "--csv", "-"
    once, twice = (run("cv", "-t", kernels, *options, heart)
                   for kernels in ("linear,rbf", "linear,rbf,linear"))  # fmt: skip
    assert twice.code == 0 and twice.out == once.out and once.out.count("linear") > 1
