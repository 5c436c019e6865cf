"""odm-predict: its contract with shell scripts, and what it refuses."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys

import model_makers as make
import numpy as np
import pytest
from scipy.sparse import csr_matrix

from odmtool.cli import entry
from odmtool.cli.predict import predict
from odmtool.core.kernels import Kernel
from odmtool.io import svmlight
from odmtool.io.model_write import write_model
from odmtool.models.linear import LinearModel

LINEAR = LinearModel([1, -1], np.array([[1.0], [-2.0]]))
TEST = "+1 1:3 2:1\n-1 2:0.5\n+1 1:-0.25\n-1\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a model ``m`` and a test file ``t``; the current folder."""
    monkeypatch.chdir(tmp_path)
    write_model("m", LINEAR)
    (tmp_path / "t").write_text(TEST)
    return tmp_path


@pytest.fixture
def run(folder, capfd):
    """Run odm-predict; returns exit code, stdout and stderr."""

    def function(*args):
        code = entry.run(predict, list(args), "odm-predict")
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return function


def in_process(folder, *args, stdin=b""):
    command = [sys.executable, "-c", "from odmtool.cli import predict_main; predict_main()", *args]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, input=stdin, cwd=folder, env=environment, capture_output=True)


# ---- the contract --------------------------------------------------------------


def test_labels_go_to_the_file_and_the_accuracy_to_stdout(run, folder):
    assert run("t", "m", "o") == (0, "Accuracy = 75% (3/4)\n", "")
    assert (folder / "o").read_text() == "1\n-1\n-1\n-1\n"


def test_accuracy_has_six_digits(run, folder):
    (folder / "t").write_text("+1 1:1\n" * 228 + "+1 1:-1\n" * 42)
    assert run("t", "m", "o")[1] == "Accuracy = 84.4444% (228/270)\n"


def test_test_labels_need_not_be_the_models(run, folder):
    (folder / "t").write_text("7 1:1\n-2147483648 1:1\n1 1:1\n")
    assert run("t", "m", "o")[1] == "Accuracy = 33.3333% (1/3)\n"


def test_decision_values_of_two_classes(run, folder):
    assert run("-d", "t", "m", "o")[0] == 0
    assert (folder / "o").read_text() == "labels 1 -1\n1 1\n-1 -1\n-1 -0.25\n-1 0\n"


def test_decision_values_are_exact_and_one_per_class_or_pair(run, folder):
    rng = np.random.default_rng(0)
    X = make.sparse_rows(rng, 30, 9)
    (folder / "t").write_text(make.data_lines(X, np.zeros(30, int)))
    for model, n_values in (
        (make.linear_model(rng, 4, 9, 1.0), 4),
        (make.kernel_model(rng, make.KERNELS["rbf"], 4), 6),
        (make.kernel_model(rng, make.KERNELS["poly"], 2), 1),
    ):
        write_model("m", model)
        assert run("--decision-values", "t", "m", "o")[0] == 0
        first, *lines = (folder / "o").read_text().splitlines()
        assert first.split() == ["labels", *map(str, model.labels)]
        table = np.array([list(map(float, line.split())) for line in lines])
        labels, values = model.predict_with_values(X)
        assert table.shape == (30, 1 + n_values)
        assert (table[:, 0] == labels).all()
        assert np.allclose(table[:, 1:], values, rtol=1e-13, atol=1e-13)


def test_output_dash_is_stdout_and_results_go_to_stderr(run):
    assert run("t", "m", "-") == (0, "1\n-1\n-1\n-1\n", "Accuracy = 75% (3/4)\n")


def test_quiet_prints_nothing(run, folder):
    (folder / "t").write_text("# nothing\n+1 1:1\n")
    assert run("-q", "t", "m", "o") == (0, "", "")


def test_verbose_says_how_long_it_took(run):
    code, out, err = run("--verbose", "t", "m", "o")
    assert (code, out) == (0, "Accuracy = 75% (3/4)\n")
    plan, found = err.splitlines()
    assert plan.startswith("odm-predict: at most ") and "kernel values" not in plan
    assert found.startswith("odm-predict: rows: 4, classes: 2; ")


def test_blank_and_comment_lines_get_no_line(run, folder):
    (folder / "t").write_text("# head\n+1 1:1\n\n-1 2:1 # tail\n  \n")
    code, out, err = run("t", "m", "o")
    assert (code, out) == (0, "Accuracy = 100% (2/2)\n")
    assert err == "odm-predict: 3 blank or comment lines have no prediction\n"
    assert (folder / "o").read_text() == "1\n-1\n"


def test_stdin_is_the_test_file_or_the_model(folder):
    result = in_process(folder, "-", "m", "o", stdin=TEST.encode())
    assert (result.returncode, result.stdout) == (0, b"Accuracy = 75% (3/4)\n")
    result = in_process(folder, "-", "m", "-", stdin=gzip.compress(TEST.encode()))
    assert (result.returncode, result.stdout) == (0, b"1\n-1\n-1\n-1\n")
    model = (folder / "m").read_bytes()
    result = in_process(folder, "t", "-", "o", stdin=model)
    assert (result.returncode, result.stdout) == (0, b"Accuracy = 75% (3/4)\n")


def test_a_named_pipe_is_opened_only_once(folder):
    os.mkfifo(folder / "pipe")
    writer = subprocess.Popen([sys.executable, "-c", f"open('pipe', 'w').write({TEST!r})"],
                              cwd=folder)
    try:
        result = in_process(folder, "pipe", "m", "o")
        assert writer.wait(timeout=60) == 0
    finally:
        writer.kill()
    assert (result.returncode, result.stdout) == (0, b"Accuracy = 75% (3/4)\n")


def test_many_blocks_give_the_same_as_one(run, folder, monkeypatch):
    from odmtool.io import svmlight

    rng = np.random.default_rng(1)
    X = make.sparse_rows(rng, 400, 9)
    labels = rng.integers(-50, 50, 400)
    (folder / "t").write_text(make.data_lines(X, labels))
    model = make.kernel_model(rng, make.KERNELS["rbf"], 3)
    write_model("m", model)
    one = run("t", "m", "one")
    whole = svmlight.iter_svmlight
    blocks = []

    def small_blocks(*args, **options):
        for block in whole(*args, **options | {"block_bytes": 1000}):
            blocks.append(block)
            yield block

    monkeypatch.setattr(svmlight, "iter_svmlight", small_blocks)
    assert run("t", "m", "many") == one
    assert len(blocks) > 10
    assert (folder / "many").read_text() == (folder / "one").read_text()
    expected = model.predict(X)
    assert one[1] == f"Accuracy = {(expected == labels).mean() * 100:g}% " \
                     f"({(expected == labels).sum()}/400)\n"


def test_features_from_zero(run, folder):
    (folder / "t").write_text("+1 0:3 1:1\n-1 1:0.5\n")
    assert run("t", "m", "o")[0] == 1
    assert run("--zero-based", "t", "m", "o") == (0, "Accuracy = 100% (2/2)\n", "")


def test_a_stock_kernel_model_with_feature_zero(run, folder):
    (folder / "m").write_text(
        "svm_type c_svc\nkernel_type linear\nnr_class 2\ntotal_sv 1\nrho 0\nlabel 1 -1\n"
        "nr_sv 1 0\nSV\n1 0:1 1:-2 \n"
    )
    (folder / "t").write_text("+1 0:3 1:1\n-1 1:0.5\n")
    code, _, err = run("t", "m", "o")
    assert code == 1 and "use --zero-based" in err
    assert run("--zero-based", "t", "m", "o") == (0, "Accuracy = 100% (2/2)\n", "")


def test_a_precomputed_kernel(run, folder):
    rng = np.random.default_rng(2)
    model = make.precomputed_model(rng, 20)
    write_model("m", model)
    K = rng.integers(-2, 3, (30, 20)).astype(float)
    labels = model.predict(csr_matrix(np.column_stack([np.arange(1, 31), K])))
    (folder / "t").write_text(make.precomputed_lines(K, labels))
    assert run("t", "m", "o") == (0, "Accuracy = 100% (30/30)\n", "")
    lines = make.precomputed_lines(K, labels).splitlines()
    for serial in ("0", "-1", "0.5"):  # svm-predict does not look at it either
        (folder / "t").write_text("\n".join(re.sub(" 0:[0-9]+", f" 0:{serial}", x) for x in lines))
        assert run("t", "m", "o") == (0, "Accuracy = 100% (30/30)\n", "")
    (folder / "t").write_text(TEST)
    code, out, err = run("t", "m", "o2")
    assert code == 1 and out == "" and "t:1:" in err and "0:" in err
    (folder / "t").write_text("1 0:1 1:1\n")
    code, _, err = run("t", "m", "o")
    assert code == 0 and "warning: the test rows have kernel values up to training row 1" in err


# ---- warnings and errors ---------------------------------------------------------


def test_no_feature_in_common_is_a_warning(run, folder):
    (folder / "t").write_text("+1 7:3\n-1\n-1 8:1\n")
    code, out, err = run("-q", "t", "m", "o")
    assert (code, out) == (0, "")
    assert err.startswith("odm-predict: warning: no feature") and err.count("\n") == 1
    (folder / "t").write_text("+1\n-1\n")
    assert run("t", "m", "o")[2] == ""


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("-b", "1", "-d", "t", "m", "o"), "-b 1 and -d both write numbers"),
        (("-b", "2", "t", "m", "o"), "'2' is not one of"),
        (("-", "-", "o"), "stdin"),
        (("t", "m", "t"), "'t' is the test file or the model"),
        (("t", "m", "./m"), "'./m' is the test file or the model"),
        (("t", "m"), "Missing argument 'OUTPUT_FILE'"),
        (("t", "m", "o", "p"), "unexpected extra argument"),
        (("-x", "t", "m", "o"), "No such option"),
        ((), "missing arguments: odm-predict"),
    ],
)
def test_usage_errors(run, folder, args, words):
    code, out, err = run(*args)
    assert (code, out) == (2, "") and words in err and err.count("\n") == 1
    assert err.startswith("odm-predict: ")
    assert sorted(os.listdir(folder)) == ["m", "t"]


def test_probability_0_is_accepted(run):
    assert run("-b", "0", "t", "m", "o")[:2] == (0, "Accuracy = 75% (3/4)\n")


def test_what_is_missing_is_said_before_anything_is_read(run, folder, monkeypatch):
    from odmtool.io import model_file, svmlight

    def read(*args, **options):
        raise AssertionError("read too early")

    monkeypatch.setattr(model_file, "read_model", read)
    monkeypatch.setattr(svmlight, "iter_svmlight", read)
    for args, words in (
        (("none", "m", "o"), "none: no such file"),
        ((".", "m", "o"), "is a folder"),
        (("t", "m", "none/o"), "there is no folder"),
        (("t", "m", "."), "is a folder"),
    ):
        code, out, err = run(*args)
        assert (code, out) == (1, "") and words in err and err.count("\n") == 1


def test_a_missing_model_is_said_before_the_test_file_is_read(run, monkeypatch):
    from odmtool.io import svmlight

    def read(*args, **options):
        raise AssertionError("read too early")

    monkeypatch.setattr(svmlight, "iter_svmlight", read)
    code, out, err = run("t", "none", "o")
    assert (code, out, err) == (1, "", "odm-predict: none: no such file\n")


@pytest.mark.parametrize("line, times", [
    ("+1 1:x", 500), ("+1 1:nan", 3), ("1.5 1:1", 3), ("+1 2:1 1:1", 3), ("+1 0:1", 3),
    ("+1 3;4", 3), ("one 1:1", 3),
])  # fmt: skip
def test_a_bad_line_leaves_the_old_output_alone(run, folder, monkeypatch, line, times):
    """Also when labels of blocks before it have been written."""
    monkeypatch.setattr(svmlight, "BLOCK_BYTES", 500)
    (folder / "o").write_text("old\n")
    (folder / "t").write_text(TEST * times + line + "\n" + TEST)
    code, out, err = run("t", "m", "o")
    assert (code, out) == (1, "")
    assert err.startswith(f"odm-predict: t:{4 * times + 1}: ") and err.count("\n") == 1
    assert (folder / "o").read_text() == "old\n"
    assert sorted(os.listdir(folder)) == ["m", "o", "t"]


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
def test_a_test_file_without_rows_is_an_error(run, folder, text):
    (folder / "t").write_text(text)
    code, out, err = run("t", "m", "o")
    assert (code, out) == (1, "") and err.startswith("odm-predict: t: ")
    assert sorted(os.listdir(folder)) == ["m", "t"]


def test_a_damaged_model_is_an_error(run, folder):
    content = (folder / "m").read_bytes()
    (folder / "m").write_bytes(content[:-30])
    code, out, err = run("t", "m", "o")
    assert (code, out) == (1, "") and "m:" in err and "cut short" in err
    (folder / "m").write_bytes(content.replace(b"-2", b"-3"))
    assert "checksum" in run("t", "m", "o")[2]
    assert run("m", "t", "o")[2].startswith("odm-predict: t:1: not a model")
    assert sorted(os.listdir(folder)) == ["m", "t"]


def test_who_closes_the_pipe_early_ends_us_quietly(folder):
    (folder / "t").write_text(TEST * 200_000)
    code = "from odmtool.cli import predict_main; predict_main()"
    command = [sys.executable, "-c", code, "t", "m", "-"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read()
    assert process.returncode == 141 and b"Traceback" not in err


# ---- start-up ------------------------------------------------------------------


def loaded_modules(folder, *args) -> set[str]:
    code = (
        "import sys\nfrom odmtool.cli import entry, predict\n"
        "assert entry.run(predict.predict, sys.argv[1:], 'odm-predict') == 0\n"
        "print('modules', *sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(
        [sys.executable, "-c", code, *args],
        cwd=folder, env=environment, capture_output=True, text=True, check=True,
    )
    return set(result.stdout.split())


def test_a_linear_model_needs_no_compiled_code(folder):
    loaded = loaded_modules(folder, "t", "m", "o")
    assert {"modules", "numpy"} <= loaded
    assert not {"scipy", "numba", "sklearn", "joblib", "odmtool.core.kernels"} & loaded


def test_a_kernel_model_needs_no_compiled_code(folder):
    write_model(str(folder / "m"), make.kernel_model(np.random.default_rng(3), Kernel("linear")))
    loaded = loaded_modules(folder, "t", "m", "o")
    assert not {"numba", "sklearn", "joblib"} & loaded


@pytest.mark.parametrize("kernel", [Kernel("rbf", 0.5), Kernel("poly", 0.5, 1.0, 2)])
def test_a_model_of_dense_vectors_needs_no_sparse_matrices(folder, kernel):
    write_model(str(folder / "m"), make.kernel_model(np.random.default_rng(3), kernel))
    assert "scipy.sparse" not in loaded_modules(folder, "t", "m", "o")


def test_help_loads_click_only(folder):
    code = (
        "import sys\nfrom odmtool.cli import entry, predict\n"
        "entry.run(predict.predict, ['--help'], 'odm-predict')\nprint('modules', *sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert "TEST_FILE MODEL_FILE OUTPUT_FILE" in result.stdout
    assert not {"numpy", "scipy", "numba"} & set(result.stdout.split())
