"""Options of LIBLINEAR, LIBSVM and grid.py: replaced, ignored with a word, or refused."""

import csv
import json
import math
import os
import re
from pathlib import Path

import pytest


def told(outcome):
    return outcome.err.replace("odm-train: ", "").replace("odm-cv: ", "")


@pytest.mark.parametrize("arguments, ours, line", [
    (["-s2", "-c10", "-e0.1", "-w1", "2"], ["-s", "l2svm", "-c", "10", "-w1", "2"],
     "-s 2 is LIBLINEAR's L2-loss SVM: taking -s l2svm; the nearest"),
    (["-s", "3"], ["-s", "l1svm", "-c", "1"], "taking -s l1svm -c 1; the nearest"),
    (["-s", "3", "-e", ".5", "--tolerance=1e-7", "--max-iter", "9999"], ["-s", "l1svm", "-c", "1",
     "-e", "1e-7", "--max-iter", "9999"], "-e .5 of LIBLINEAR is ignored"),
    (["-s", "0", "-t", "2", "-g", ".1", "-m", "100"], ["-s", "l1svm", "-t", "2", "-g", ".1",
     "-c", "1"], "svm-train's C-SVC: taking -s l1svm -c 1;"),
    (["-s", "0", "-h", "0"], ["-s", "l1svm", "-t", "rbf", "-c", "1"], "taking -s l1svm -t rbf"),
    (["-s", "0", "-t", "0"], ["-s", "l1svm", "-c", "1", "--format", "libsvm"], "--format libsvm;"),
    (["-s", "0", "-t", "0", "--format", "liblinear"], ["-s", "l1svm", "-c", "1"], "-c 1; the"),
    (["-s", "0"], ["-s", "l2svm", "-c", "1"], "logistic regression, whose probabilities take -b 1"),
    (["-s", "4", "-l", "2"], ["-s", "mcsvm", "-l", "2"],
     "Crammer and Singer: taking -s mcsvm; the nearest margin distribution machine is -s mcodm\n"),
    (["-g", ".5", "-r", "1"], ["-t", "rbf", "-g", ".5"], "-g without -t: taking -t rbf"),
    (["-d", "2"], [], "warning: -d is ignored with the linear kernel; add -t poly"),
    (["-h0"], [], "-h 0 is ignored"),
    (["-m", "1000"], [], "-m 1000 is ignored: here -m is mu"),
    (["-s", "0", "-m", "100"], ["-s", "l1svm", "-t", "rbf", "-c", "1"], "-m 100 of svm-train is"),
    (["-s", "2", "-m", "4"], ["-s", "l2svm", "-c", "1", "-j", "4"], "-m 4: taking -j 4, threads"),
    (["-R", "-B", "1"], ["-B", "1"], "warning: -R is ignored: the intercept"),
    (["-M", "1", "-n2"], ["--multiclass", "ovo", "-j", "2"], ""),
])  # fmt: skip
def test_trains_what_our_own_options_train(run, heart, tmp_path, arguments, ours, line):
    theirs = run("train", *arguments, heart, "a")
    assert theirs.code == 0 and line in told(theirs)
    assert run("train", *ours, heart, "b").code == 0

    def weights(name):  # what follows the last row holds the command and the seconds
        return (tmp_path / name).read_text().partition("\n\n")[0].partition("odmtool")[0]

    assert weights("a") == weights("b") != ""


@pytest.mark.parametrize("arguments, sentence", [
    (["-s", "5"], "-s 5 is LIBLINEAR's L1-regularised L2-loss SVM, which odmtool does not have"),
    (["-s", "1", "-t", "2"], "-s 1 is svm-train's nu-SVC, which odmtool does not have"),
    (["-s", "2", "-m", "64"], "svm-train's one-class SVM, which odmtool does not have; write -s "
     "odm or -s l2svm, or leave -s out; for the threads of LIBLINEAR write -j 64 instead of -m"),
    (["-s", "21"], "one-class SVM"), (["-s", "99"], "LIBLINEAR has no such machine"),
    (["-n", "0.5"], "odmtool has no nu-SVM"), (["-M", "2"], "write -M 0"),
    (["-log2c", "1,2"], "-log2c 1,2: expected begin,end,step"),
    (["-log2c", "1,2,1", "-c", "1"], "-log2c and -c set the same parameter"),
    (["-log2c", "3,-1,1"], "-log2c 3,-1,1: expected begin,end,step"),
    (["-log2g", "1,3,0"], "-log2g 1,3,0: expected begin,end,step"),
    (["-log2c", "1,2,1", "-t", "0,2"], "-t 0,2: the last line of grid.py names no kernel"),
])  # fmt: skip
def test_refuses_what_has_no_counterpart(run, heart, arguments, sentence):
    outcome = run("train", *arguments, heart)
    assert outcome.code == 2 and sentence in outcome.err and outcome.err.count("\n") == 1


def test_c_of_liblinear_searches_and_ends_with_its_line(run, heart, tmp_path):
    outcome = run("train", "-C", "-s", "2", "-c", "2", "-v", "2", heart, "m")
    assert outcome.code == 0 and not (tmp_path / "m").exists()
    assert outcome.out.count("\ncost=") == 10
    assert re.fullmatch(r"Best C = \S+  CV accuracy = \S+%", outcome.out.splitlines()[-1])


def test_options_of_grid_py(run, heart, tmp_path):
    outcome = run("cv", "-log2c", "-1,1,2", "-log2g", "-3,-1,2", "-v", "2", "-svmtrain", "x",
                  "-out", "o", "-resume", "j", heart)  # fmt: skip
    assert outcome.code == 0 and "-svmtrain: ignored" in outcome.err
    cost, gamma, rate = map(float, outcome.out.splitlines()[-1].split())
    lines = (tmp_path / "o").read_text().splitlines()
    assert len(lines) == 4
    assert f"log2c={math.log2(cost):g} log2g={math.log2(gamma):g}" in "".join(lines)
    assert max(float(line.rpartition("=")[2]) for line in lines) == pytest.approx(rate, rel=1e-5)
    assert (tmp_path / "j").exists()
    one_gamma = run("cv", "-log2c", "-1,1,2", "-log2g", "null", "-v", "2", heart)
    assert len(one_gamma.out.splitlines()[-1].split()) == 2 and "-t rbf" in one_gamma.out


def test_a_journal_is_called_after_the_data(run, heart, tmp_path):
    """Those from a pipe have no name."""
    search = ["-log2c", "0,1,1", "-log2g", "null", "-v", "2", "-resume"]
    os.mkfifo(tmp_path / "pipe")
    for data in ("-", "pipe", "."):
        outcome = run("cv", *search, data)
        assert (outcome.code, outcome.out) == (2, "") and "write -resume FILE" in outcome.err
    assert "missing: no such file" in run("cv", *search, "missing").err
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
    assert run("cv", *search, heart).code == 0 and (tmp_path / "heart_scale.journal").exists()


@pytest.mark.parametrize("options", [[], ["-log2g", "-1,-3,-2"]])
def test_a_kernel_without_gamma_has_none_in_what_grid_py_writes(run, heart, tmp_path, options):
    search = ["-t", "0", "-log2c", "0,1,1", *options, "-v", "2", "-out", "o"]
    outcome = run("cv", *search, heart)
    assert outcome.code == 0 and len(outcome.out.splitlines()[-1].split()) == 2
    assert ("warning: -log2g: the values are ignored with -t 0" in outcome.err) == bool(options)
    lines = (tmp_path / "o").read_text().splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["log2c=0", "log2c=1"]


@pytest.mark.parametrize("options, flags", [
    (["-t", "linear", "-g", "0.1,1", "-d", "2"], "-g"), (["-t", "rbf", "-d", "2,3"], "-d"),
    (["-t", "0,2", "-r", "0:1:1", "-d", "2,3"], "-d and -r"), (["-t", "4", "-g", "1,2"], "-g"),
    (["-t", "linear", "-g", "0.1"], ""), (["-t", "0,2", "-g", "0.1,1"], ""),
])  # fmt: skip
def test_lists_that_no_kernel_reads_are_told(run, heart, tmp_path, options, flags):
    """And every row has a name, of a parameter that varies if there is one."""
    data = tmp_path / "kernel"
    data.write_text("".join(f"{2 * (k % 2) - 1} 0:{k} {k}:1\n" for k in range(1, 9)))
    outcome = run("cv", "-v", "2", "-c", "1", *options, data if "4" in options else heart)
    assert outcome.code == 0 and outcome.err.count("ignored") == bool(flags)
    warning = f"warning: {flags}: the values are ignored with -t {options[1]}\n"
    assert (warning in outcome.err) == bool(flags)
    assert all("=" in line.split()[-2] for line in outcome.out.splitlines() if "rate=" in line)


def test_the_table_of_grid_py_is_a_product_as_others(run, heart, tmp_path):
    (tmp_path / "d").write_bytes(Path(heart).read_bytes())
    search = ["-v", "2", "-log2c", "0,1,1", "-log2g", "null"]
    for name in ("d", "none/x"):
        outcome = run("cv", *search, "-out", name, "d")
        assert outcome.code in (1, 2) and outcome.out == "", outcome.err
    assert (tmp_path / "d").read_bytes() == Path(heart).read_bytes()
    on_stdout = run("cv", *search, "-out", "-", "d")
    assert on_stdout.out.count("log2c=") == on_stdout.out.count("\n") == 2
    assert "Cross Validation Accuracy" in on_stdout.err


@pytest.mark.parametrize("options, sentence", [
    (["-C", "-c", "x", "FILE"], "-c: 'x' is not a number"), (["-C", "-c", "1,2", "FILE"], "-c: "),
    (["FILE", "-C", "-c"], "'-c' requires an argument"),
    (["-s", "0", "FILE", "-e"], "'-e' requires an argument"),
    (["-s", "2", "FILE", "-m"], "'-m' requires an argument"),
])  # fmt: skip
def test_mistakes_in_stock_options_are_told(run, heart, options, sentence):
    outcome = run("train", *(heart if word == "FILE" else word for word in options))
    assert outcome.code == 2 and sentence in outcome.err and outcome.err.count("\n") == 1


def test_a_search_for_c_takes_a_model_named_as_the_data(run, heart, tmp_path):
    (tmp_path / "d").write_bytes(Path(heart).read_bytes())
    assert run("train", "-C", "-c", "1", "-v", "2", "d", "d").code == 0
    assert (tmp_path / "d").read_bytes() == Path(heart).read_bytes()


def test_tables_have_all_that_an_analysis_needs(run, heart, tmp_path):
    options = ["--csv", "-", "--json", "t.json"]
    outcome = run("cv", "-l", "1,2", "-v", "2", "--seed", "3", *options, heart)
    first, second = csv.DictReader(outcome.out.splitlines())
    assert " ".join(first) == (
        "machine kernel mu theta lambda fold1 fold2 mean std accuracy examples gap metric"
        " seed version"
    )
    assert first["machine"] == "odm" and first["seed"] == "3" and 0 <= float(first["gap"]) <= 1e-3
    timed = json.loads((tmp_path / "t.json").read_text())
    assert timed[1]["seconds"] > 0 and 0 < float(second["mean"]) < 1
    assert "Cross Validation Accuracy" in outcome.err


def test_a_search_without_settings_takes_a_small_grid(run, heart):
    outcome = run("cv", "-v", "2", heart)
    # The largest gamma is the best of the first three, and the next one is not better.
    assert outcome.out.count(" gamma=") == 20 and outcome.out.count("kernel=linear lambda=") == 5
    linear = run("cv", "-v", "2", "-t", "linear", heart).out
    assert linear.count("\nlambda=") + linear.startswith("lambda=") == 5
    assert run("cv", "-v", "2", "-m", "0.2", heart).out.count("rate=") == 1
    assert run("cv", "-v", "2", "--grid", "quick", "-l", "1", heart).out.count("rate=") == 4


def test_the_table_of_grid_py_has_a_name_without_out(run, heart, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/d").write_bytes(Path(heart).read_bytes())
    search = ["cv", "-v", "2", "-log2c", "0,1,1", "-log2g", "null"]
    for arguments in (["in/d"], ["--", "in/d"]):
        assert run(*search, *arguments).code == 0
        assert (tmp_path / "d.out").read_text().count("log2c=") == 2
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["d"]
    (tmp_path / "d.out").write_text("1\n-1\n")  # predictions
    refused = run(*search, "in/d")
    assert refused.code == 1 and "d.out: grid.py writes its results to this file" in refused.err
    assert run(*search, "-out", "null", "in/d").code == 0
    assert (tmp_path / "d.out").read_text() == "1\n-1\n"
    assert run(*search, "-out", "d.out", "in/d").code == 0
    assert (tmp_path / "d.out").read_text().count("log2c=") == 2
