"""Bad options, data and files: one sentence, the right exit code, nothing touched."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from odmtool.cli import entry

# Every odd case of the stock tools' grammar: content, line, what the sentence must hold.
BAD_DATA = [
    ("", None, "empty"),
    ("\n\n", None, "blank"),
    ("1:1 2:2\n", 1, "1:1"),
    ("+1 1:1\nabc 1:1\n", 2, "'abc'"),
    ("1,2 1:1\n", 1, "'1,2'"),
    ("1 1:1\n1x 1:1\n", 2, "'1x'"),
    ("nan 1:1\n", 1, "'nan'"),
    ("inf 1:1\n", 1, "'inf'"),
    ("1.5 1:1\n", 1, "'1.5'"),
    ("1 1:1\n0x1 1:1\n", 2, "'0x1'"),
    ("3000000000 1:1\n", 1, "'3000000000'"),
    ("1 0:1\n", 1, "'0:1'"),
    ("1 -1:1\n", 1, "'-1:1'"),
    ("1 2:1 2:2\n", 1, "'2:2'"),
    ("1 2:1 1:2\n", 1, "'1:2'"),
    ("1 1.5:1\n", 1, "'1.5:1'"),
    ("1 3000000000:1\n", 1, "'3000000000:1'"),
    ("1 4294967297:1\n", 1, "'4294967297:1'"),
    ("1 1:abc\n", 1, "'1:abc'"),
    ("1 1:1x\n", 1, "'1:1x'"),
    ("1 1:\n", 1, "'1:'"),
    ("1 1:2,5\n", 1, "'1:2,5'"),
    ("1 1:2:3\n", 1, "'1:2:3'"),
    ("1 1:nan\n", 1, "'1:nan'"),
    ("1 1:inf\n", 1, "'1:inf'"),
    ("1 1:1e999\n", 1, "'1:1e999'"),
    ("1 1: 2\n", 1, "'1:'"),
    ("1 1 :2\n", 1, "'1'"),
    ("1 1:1\n-1 1:1 2\n", 2, "'2'"),
    ("1 1:1\n# comment\n\n-1 3;4\n", 4, "'3;4'"),
    ("1 1:1 text # comment\n", 1, "'text'"),
    ("1 1:\x001\n", 1, "NUL"),
]


@pytest.mark.parametrize("content, line, token", BAD_DATA)
@pytest.mark.parametrize("command", ["train", "cv", "predict"])
def test_bad_data(run, heart, tmp_path, command, content, line, token):
    (tmp_path / "bad").write_text(content)
    if command == "predict" and content == "1:1 2:2\n":
        pytest.skip("rows to predict need no label")
    arguments = ["bad"]
    if command == "train":
        (tmp_path / "product").write_text("old")
        arguments = ["bad", "product"]
    elif command == "predict":
        run("train", heart, "m")
        (tmp_path / "product").write_text("old")
        arguments = ["bad", "m", "product"]
    before = sorted(os.listdir(tmp_path))
    outcome = run(command, *arguments)
    assert outcome.code == 1
    assert outcome.out == ""
    place = "bad" if line is None else f"bad:{line}: Wrong input format at line {line}"
    assert outcome.err.startswith(f"odm-{command}: {place}: ")
    assert token in outcome.err
    assert outcome.err.count("\n") == 1 and "Traceback" not in outcome.err
    assert sorted(os.listdir(tmp_path)) == before
    if command != "cv":
        assert (tmp_path / "product").read_text() == "old"


GOOD_DATA = {
    "label only": "1\n-1 1:1\n",
    "carriage returns": "1\r\n-1 1:1\r\n",
    "tabs and blanks": " 1\t1:1  \n\t-1 2:1\t\n",
    "no final newline": "1 1:1\n-1 2:1",
    "explicit zero": "1 1:0\n-1 2:1\n",
    "denormal": "1 1:1e-320\n-1 2:1\n",
    "comments and blanks": "# header\n\n1 1:1 # good\n-1 2:1\n",
    "qid": "1 qid:3 1:1\n-1 qid:4 2:1\n",
}


@pytest.mark.parametrize("name", GOOD_DATA)
def test_odd_but_good_data(run, tmp_path, name):
    (tmp_path / "data").write_bytes(GOOD_DATA[name].encode())
    for options in ([], ["-t", "rbf"]):
        assert run("train", *options, "data", "m").code == 0
        outcome = run("predict", "data", "m", "out")
        assert outcome.code == 0
        assert len((tmp_path / "out").read_text().split()) == 2


USAGE = [
    (["-s", "6"], "L1-regularised logistic regression, which odmtool does not have"),
    (["-s", "9"], "LIBLINEAR has no such machine"),
    (["-mu", "3"], "write --mu"),
    (["-lambda", "4"], "write --lambda"),
    (["-theta", "0.1"], "write --theta"),
    (["-t", "5"], "'5'"),
    (["-t", "gauss"], "'gauss'"),
    (["-l", "x"], "'x' is not a number"),
    (["-l", "1e999"], "the value of '1e999' is not a finite number"),
    (["-l", "1/0"], "the value of '1/0' is not a finite number"),
    (["-l", "0"], "lambda must be positive"),
    (["-c", "-1"], "cost must be positive"),
    (["-l", "1", "-c", "1"], "give one"),
    (["-m", "0"], "0 < mu <= 1"),
    (["-p", "1"], "0 <= theta < 1"),
    (["-B", "1e200"], "bias must be at most 1e+150"),
    (["-e", "0"], "tolerance must be positive"),
    (["-t", "rbf", "-g", "-1"], "gamma must not be negative"),
    (["-d", "1.5"], "'1.5' is not a whole number"),
    (["-t", "poly", "-d", "-1"], "degree must not be negative"),
    (["-w1", "-2"], "class-weight must not be negative"),
    (["-w", "x", "2"], "'x'"),
    (["-v", "1"], "folds"),
    (["-v", "x"], "'x'"),
    (["-b", "2"], "'2'"),
    (["-j", "0"], "at least 1"),
    (["--memory", "lots"], "'lots' is not a size; write 4G, 500M or 100K"),
    (["--memory", "5X"], "'5X' is not a size"),
    (["--max-iter", "many"], "'many' is not a whole number; write 100, 1e3 or 2^4"),
    (["--memory", "0"], "memory must be positive"),
    (["--seed", "-1"], "at least 0"),
    (["--solver", "magic"], "'magic'"),
    (["--max-iter", "-1"], "max-iter must not be negative"),
    (["-z"], "-z"),
    (["--lamda", "3"], "--lambda"),
    (["-W", "-", "-", "m"], "cannot both come from stdin"),
    (["-"], "name the MODEL_FILE"),
]


@pytest.mark.parametrize("arguments, sentence", USAGE)
def test_usage(run, heart, tmp_path, arguments, sentence):
    files = [] if "-" in arguments else [heart]
    outcome = run("train", *arguments, *files)
    assert outcome.code == 2
    assert sentence in outcome.err
    assert outcome.out == "" and outcome.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["train", "predict", "cv", "scale"])
def test_no_arguments_is_a_usage_error_and_help_is_not(run, command):
    assert run(command).code == 2
    for flag in ("-h", "--help"):
        outcome = run(command, flag)
        assert outcome.code == 0 and outcome.out.startswith(f"Usage: odm-{command}")
    assert run(command, "-h", "0", "x").code == (2 if command in ("predict", "scale") else 1)


def test_missing_file(run):
    for command, arguments in [("train", ["none"]), ("cv", ["none"]), ("scale", ["none"]),
                               ("predict", ["none", "none", "out"])]:  # fmt: skip
        outcome = run(command, *arguments)
        assert outcome.code == 1 and "none" in outcome.err and outcome.err.count("\n") == 1


def test_outputs_are_checked_before_the_data_are_read(run, heart, tmp_path, monkeypatch):
    from odmtool.io import svmlight

    def fail(*_arguments, **_options):
        pytest.fail("the data were read")

    monkeypatch.setattr(svmlight, "read_svmlight", fail)
    (tmp_path / "folder").mkdir()
    for arguments in ([heart, "no/such/folder/m"], [heart, "folder"],
                      ["--json", "no/such/file", heart, "m"]):  # fmt: skip
        outcome = run("train", *arguments)
        assert outcome.code == 1 and outcome.err.count("\n") == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_unwritable_folder(run, heart, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder").chmod(stat.S_IRUSR | stat.S_IXUSR)
    outcome = run("train", heart, "folder/m")
    assert outcome.code == 1 and "folder" in outcome.err


def test_matrix_larger_than_memory_is_said_before_it_is_made(run, heart, monkeypatch):
    from odmtool.core.gram import Gram

    monkeypatch.setattr(Gram, "matrix", lambda self: pytest.fail("the matrix was made"))
    outcome = run("train", "-t", "rbf", "--solver", "newton", "--memory", "0.1M", heart)
    assert outcome.code == 1
    assert "more than the 100 KB of --memory" in outcome.err and outcome.err.count("\n") == 1


@pytest.mark.parametrize("options", [[], ["-t", "rbf"]])
def test_the_path_is_refused_before_its_matrices_are_made(run, heart, monkeypatch, options):
    from odmtool.solvers.paths import path

    monkeypatch.setattr(path, "HingePath", lambda *_: pytest.fail("the path was begun"))
    limits = "--solver", "path", "--memory", "2.3M"  # 4 x 8 x 270^2 = 2.33 MB
    outcome = run("train", "-s", "l1svm", *options, *limits, heart)
    assert outcome.code == 1 and outcome.err.count("\n") == 1
    assert "need 2.33 MB, more than the 2.3 MB of --memory; take --solver dcd" in outcome.err
    folds = run("cv", "-s", "l1svm", *options, "--solver", "path", "--memory", "1M", heart)
    assert folds.code == 1 and "more than the 1 MB of --memory" in folds.err


def test_small_memory_still_trains(run, heart):
    outcome = run("train", "-t", "rbf", "-l", "16", "--memory", "0.1M", heart)
    assert outcome.code == 0 and "(dcd)" in outcome.err
    said, *_ = outcome.err.splitlines()
    assert said.startswith("odm-train: warning: the kernel matrix of 270 examples does not fit")
    assert "does not fit" not in run("train", "-t", "rbf", heart).err


def test_diverging_sigmoid(run, heart, tmp_path):
    outcome = run("train", "-t", "sigmoid", "-l", "64", "-g", "0.1", "-r", "0.5", heart)
    assert outcome.code == 1 and "no solution" in outcome.err and outcome.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_bad_weight_files(run, heart, tmp_path):
    for content, sentence in [("1\nx\n", "weights:2: expected a weight"),
                              ("1\n-1\n", "weights:2: expected a weight"),
                              ("nan\n", "weights:1: expected a weight"),
                              ("1\n1\n", "2 weights for 270 examples"),
                              ("0\n" * 270, "all weights are zero")]:  # fmt: skip
        (tmp_path / "weights").write_text(content)
        outcome = run("train", "-W", "weights", heart)
        assert outcome.code == 1 and sentence in outcome.err and outcome.err.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["weights"]


@pytest.mark.parametrize("content, arguments, said", [
    ("1\n1\n", ["train", "-W", "FILE", "HEART"], "2 weights for 270 examples"),
    ("1:1\n", ["predict", "--report", "FILE", "m", "out"], "--report compares predictions"),
    ("1 1:1\n1 1:2\n", ["cv", "-v", "2", "FILE"], "the data have only one class"),
    ("1 1:1 4000000:0\n-1 1:2\n", ["train", "--memory", "9M", "FILE"], "makes weights for so"),
    ("x\n", ["cv", "-l", "1,2", "--journal", "FILE", "HEART"], "is not an odm-cv journal"),
    ("log2c=1 log2g=-1 rate=81.9\n", ["cv", "-l", "1,2", "--journal", "FILE", "HEART"],
     "as grid.py writes it"),
    ("1 1:1\n-1 1:2\n", ["train", "FILE", "FILE"], "this file is read or written already"),
])  # fmt: skip
def test_errors_name_a_file_on_one_line(run, heart, tmp_path, content, arguments, said):
    run("train", heart, "m")
    (tmp_path / "a\nb").write_text(content)
    names = {"FILE": "a\nb", "HEART": heart}
    outcome = run(*(names.get(word, word) for word in arguments))
    assert outcome.code > 0 and said in outcome.err and outcome.err.count("\n") == 1
    assert "a\\nb: " in outcome.err or "a\\nb:1: " in outcome.err


@pytest.mark.parametrize("content, arguments, said", [
    (b"1:1\n", ["predict", "--report", "-", "m", "out"], "--report compares predictions"),
    (b"1\n", ["train", "-W", "-", "HEART"], "1 weights for 270 examples"),
])  # fmt: skip
def test_errors_call_the_standard_input_by_its_name(start, run, heart, content, arguments, said):
    run("train", heart, "m")
    name, *words = (heart if word == "HEART" else word for word in arguments)
    process = start(name, *words, stdin=subprocess.PIPE)
    _, err = process.communicate(content)
    assert process.returncode == 1 and f"stdin: {said}" in err.decode()


def test_asymmetric_precomputed_kernel(run, tmp_path):
    (tmp_path / "data").write_text("1 0:1 1:1 2:0.5\n-1 0:2 1:0.1 2:1\n")
    outcome = run("train", "-t", "4", "data")
    assert outcome.code == 1 and "not symmetric" in outcome.err and outcome.err.count("\n") == 1


def test_precomputed_serial_of_two_examples(run, tmp_path):
    """With equal values it is one example that occurs twice."""
    (tmp_path / "data").write_text("1 0:1 1:1 2:0.5\n-1 0:2 1:0.5 2:1\n-1 0:2 1:0.5 2:1\n")
    same = run("train", "-t", "4", "data", "m")
    assert same.code == 0 and "3 examples, 2 kernel values, " in same.err
    (tmp_path / "data").write_text("1 0:1 1:1 2:0.5\n-1 0:2 1:0.5 2:1\n-1 0:2 1:0.25 2:1\n")
    outcome = run("train", "-t", "4", "data")
    assert outcome.code == 1 and outcome.err.count("\n") == 1
    assert "data: examples 2 and 3 have the same serial number, 2, but other" in outcome.err


def test_precomputed_serial_beyond_the_row(run, tmp_path):
    (tmp_path / "data").write_text("1 0:1 1:1 2:0.5\n-1 0:7 1:0.5 2:1\n")
    outcome = run("train", "-t", "4", "data")
    assert outcome.code == 1 and "serial number 7" in outcome.err and outcome.err.count("\n") == 1


def test_an_internal_error_is_one_sentence(run, heart, monkeypatch):
    from odmtool.machines import ODM

    def broken(*_arguments, **_options):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(ODM, "fit", broken)
    outcome = run("train", heart)
    assert outcome.code == 70 and outcome.err.count("\n") == 1 and "report" in outcome.err
    assert "Traceback" in run("train", "--verbose", heart).err


def test_stderr_stays_small_for_scripts_that_never_read_it(run, heart):
    weights = [word for label in range(2, 300) for word in (f"-w{label}", "2")]
    outcome = run("train", *weights, heart)
    assert outcome.code == 0 and 0 < len(outcome.err) <= 4096


@pytest.mark.parametrize("options, code", [(["--margins", "-"], 1), (["-b", "1"], 2)])
def test_what_needs_two_classes_is_refused_before_training(run, tmp_path, options, code):
    (tmp_path / "data").write_text("1 1:1\n1 1:2\n")
    (tmp_path / "m").write_text("old")
    outcome = run("train", *options, "data", "m")
    assert outcome.code == code and outcome.err.count("\n") == 1
    assert "only one class" in outcome.err
    assert (tmp_path / "m").read_text() == "old"


@pytest.mark.parametrize("options", [
    ["-l", "1e308"], ["-c", "1e307", "-p", "0.999"],
    ["-s", "ldm", "-l", "1e200", "--solver", "newton"],
    ["-w1", "1e308", "-w-1", "1e308"], ["-t", "poly", "-g", "1e160"],
])  # fmt: skip
@pytest.mark.parametrize("solver", ["auto", "dcd"])
def test_overflow_is_one_sentence_and_no_model(run, heart, tmp_path, options, solver):
    outcome = run("train", "--solver", solver, *options, heart, "m")
    assert outcome.code == 1
    assert "overflow" in outcome.err and outcome.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_huge_index_costs_a_kernel_machine_nothing(run, tmp_path):
    (tmp_path / "data").write_text("1 1:1\n-1 2147483647:3\n1 1:2 5:1\n-1 2147483647:1\n")
    assert run("train", "-t", "rbf", "-g", "0.5", "data", "m").code == 0
    assert run("predict", "data", "m", "out").out == "Accuracy = 100% (4/4)\n"
    assert run("train", "-t", "rbf", "-v", "2", "data").code == 0


@pytest.mark.parametrize("arguments", [
    ("scale", "-r", "/dev/zero", "heart"), ("train", "-W", "/dev/zero", "heart", "m"),
    ("predict", "heart", "/dev/zero", "out"), ("train", "/dev/zero", "m"),
    ("scale", "-r", "long", "heart"), ("train", "-W", "long", "heart", "m"),
    ("cv", "--repeat", "2", "--against", "/dev/zero", "heart"), ("train", "long", "m"),
])  # fmt: skip
def test_what_has_no_end_is_not_read_to_its_end(run, heart, tmp_path, monkeypatch, arguments):
    from odmtool.io import svmlight

    monkeypatch.setattr(svmlight, "LONGEST_LINE", 1 << 16)
    (tmp_path / "long").write_bytes(b"x" * 200_000)
    command, *rest = (heart if word == "heart" else word for word in arguments)
    outcome = run(command, *rest)
    assert outcome.code == 1 and outcome.out == "" and outcome.err.count("\n") == 1
    assert not (tmp_path / "m").exists()


def test_endless_weights_and_models_are_refused_in_time(run, heart, tmp_path, monkeypatch):
    from odmtool.io import model_file

    (tmp_path / "w").write_text("1\n" * 300)
    outcome = run("train", "-W", "w", heart, "m")
    assert outcome.code == 1 and "w:271: more weights than the 270 examples" in outcome.err
    (tmp_path / "w").write_text("1\n" * 269 + "1.2")
    outcome = run("train", "-W", "w", heart, "m")
    assert outcome.code == 1 and "w:270: the last line has no line end" in outcome.err
    monkeypatch.setattr(model_file, "free", lambda: 2e6)
    (tmp_path / "m").write_bytes(b"svm_type c_svc\n" + b"rho " * 10**6)
    outcome = run("predict", heart, "m", "out")
    assert outcome.code == 1 and "half of the memory that is free" in outcome.err


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("data, options, said", [
    ("1 1:0\n-1 1:0\n", ["-s", "m3svm"], "converged (relative gradient 0 <="),
    ("1 1:1\n-1 1:2\n", ["-t", "rbf", "-g", "1e308"], "converged (gap"),
    ("1 1:1\n-1 1:2\n" * 9, ["-s", "m3svm", "--power", "1e300"], "numbers overflow"),
    ("1 1:1e155\n-1 1:2\n" * 9, ["-v", "2"], "numbers overflow"),
])  # fmt: skip
def test_what_numpy_warns_of_is_said_in_our_words(run, tmp_path, data, options, said):
    (tmp_path / "data").write_text(data)
    outcome = run("train", *options, "data")
    assert said in outcome.err
    assert "nan" not in outcome.err and "kernel matrix" not in outcome.err


def test_too_many_splits(run, heart):
    outcome = run("cv", "--repeat", "2^64", heart)
    assert outcome.code == 2 and "repeat must be at most 100000" in outcome.err


def test_pairs_of_very_many_classes_are_worth_a_word(run, tmp_path, monkeypatch):
    from odmtool.cli import training

    monkeypatch.setattr(training, "_MANY_PAIRS", 2)
    (tmp_path / "data").write_text("1 1:1\n2 1:2\n3 1:3\n" * 4)
    for arguments in (("train", "data", "m"), ("cv", "-v", "2", "data")):
        outcome = run(arguments[0], "--multiclass", "ovo", *arguments[1:])
        assert outcome.code == 0 and "3 classes make 3 pairs" in outcome.err


@pytest.mark.parametrize("labels, is_told", [
    (range(101), True), (range(100), False), (list(range(101)) * 5, False),
    ([f"word{k}" for k in range(101)], False),
])  # fmt: skip
def test_labels_that_may_be_numbers_to_predict_are_worth_a_word(run, tmp_path, labels, is_told):
    (tmp_path / "data").write_text("".join(f"{label} 1:{k}\n" for k, label in enumerate(labels)))
    outcome = run("train", "--max-iter", "1", "data", "m")
    assert ("there is no regression" in outcome.err) == is_told


@pytest.mark.parametrize("options, is_told", [
    (["train", "--scale", "0,1"], True), (["train", "-v", "2", "--scale", "-1,1"], True),
    (["cv", "-v", "2", "--scale", "0,1"], True), (["train"], False),
    (["train", "--scale", "0,1", "-B", "-1"], False),
    (["train", "--scale", "0,1", "-t", "rbf"], False),
    (["train", "--scale", "0,1", "-s", "kmomd"], False),  # which has one, as the next
    (["train", "--scale", "0,1", "-s", "m3svm"], False), (["cv", "-v", "2", "-t", "rbf"], False),
    (["cv", "-v", "2", "-l", "1", "-t", "rbf,linear", "--scale", "0,1"], True),
])  # fmt: skip
def test_features_that_are_moved_want_an_intercept(run, tmp_path, options, is_told):
    (tmp_path / "data").write_text("1 1:1\n1 1:2\n1 1:3\n-1 1:4\n-1 1:5\n" * 2)
    outcome = run(*options, "data")
    assert outcome.code == 0 and ("there is no intercept" in outcome.err) == is_told


@pytest.mark.parametrize("error, is_memory", [
    (ImportError("libx.so: failed to map segment from shared object"), True),
    (ImportError("libx.so: cannot open shared object file: Cannot allocate memory"), True),
    (ImportError("libstdc++.so.6: cannot map zero-fill pages"), True),
    (RuntimeError("can't start new thread"), True),
    (SystemError("error return without exception set"), True),
    (SystemError("<function f at 0x1> returned NULL without setting an exception"), True),
    (SystemError("bad argument to internal function"), False),
    (ImportError("no module named x"), False), (RuntimeError("x"), False),
])  # fmt: skip
def test_a_library_that_does_not_fit_is_no_internal_error(error, is_memory):
    assert entry._is_for_want_of_memory(error) == is_memory


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize("words", ["--help", "--version", "completion bash", "train --help"])
def test_what_cannot_be_printed_names_stdout(words):
    with open("/dev/full", "w") as full:
        outcome = subprocess.run(
            [sys.executable, "-m", "odmtool", *words.split()],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    said = "odmtool: stdout: cannot be written: No space left on device\n"
    assert (outcome.returncode, outcome.stderr) == (1, said)


def test_a_working_folder_that_is_gone_is_told(run, heart, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    outcome = run("train", os.path.join(tmp_path, heart))
    monkeypatch.chdir(tmp_path)
    assert outcome.code == 1
    assert outcome.err == "odm-train: the working folder: No such file or directory\n"
