"""``odm-scale`` against a naive twin, and byte by byte against stock svm-scale."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from odmtool.cli import entry, scale
from odmtool.core import scaling
from odmtool.errors import FileError

SET = os.path.join(os.path.dirname(__file__), "..", "data", "breast-cancer")


def run(*args) -> int:
    return entry.run(scale.scale, [str(arg) for arg in args], "odm-scale")


def scaled(capfdbinary, *args) -> bytes:
    """The standard output of a run that succeeds."""
    code = run(*args)
    out, err = capfdbinary.readouterr()
    assert code == 0, err
    return out


def stock(*args) -> bytes:
    """The standard output of svm-scale."""
    program = shutil.which("svm-scale")
    if program is None:
        if os.environ.get("ODMTOOL_REQUIRE_STOCK") == "1":
            pytest.fail("svm-scale is not installed")
        pytest.skip("svm-scale is not installed")
    command = [program, *map(str, args)]
    return subprocess.run(command, check=True, capture_output=True).stdout


# ---- data ----------------------------------------------------------------------


def dense(rng, m=40, d=7):
    return rng.standard_normal((m, d)) * 10.0 ** rng.integers(-3, 4, d)


def sparse(rng, m=60, d=30):
    return np.where(rng.random((m, d)) < 0.1, dense(rng, m, d), 0)


def non_negative(rng):
    return abs(sparse(rng))


def constants(rng):
    X = dense(rng)
    X[:, 1], X[:, 4], X[:, 6] = 0, 3.25, -1e-5
    X[:20, 4] = 0
    return X


def huge_and_tiny(rng):
    scale_of = np.array([1e300, 1e-300, 5e-324, 2.0**1000, 1e-310, 1e150, 1.0])
    return rng.integers(-9, 10, (40, 7)) * scale_of


def binary(rng):
    return (rng.random((50, 12)) < 0.3) * 1.0


def one_row(rng):
    return dense(rng, m=1)


DATA = [dense, sparse, non_negative, constants, huge_and_tiny, binary, one_row]


def text(X, labels) -> str:
    lines = []
    for label, row in zip(labels, X.tolist(), strict=True):
        pairs = [f"{j}:{v!r}" for j, v in enumerate(row, start=1) if v]
        lines.append(" ".join([repr(label), *pairs]) + "\n")
    return "".join(lines)


def write_data(path, make, seed=0, labels=None):
    rng = np.random.default_rng(seed)
    X = make(rng)
    labels = rng.choice([-1, 1], len(X)) if labels is None else labels[: len(X)]
    path.write_text(text(X, labels.tolist()))
    return X, labels


# ---- the naive twin --------------------------------------------------------------


def one_value(v, low, high, lower, upper):
    if v == low:
        return lower
    if v == high:
        return upper
    return lower + (upper - lower) * (v - low) / (high - low)


def naive(X, labels, lower=-1.0, upper=1.0, lows=None, highs=None, digits=6) -> bytes:
    lows = X.min(axis=0) if lows is None else lows
    highs = X.max(axis=0) if highs is None else highs
    lines = []
    for row, label in zip(X.tolist(), labels, strict=True):
        line = f"{label:.17g} "
        for j, v in enumerate(row):
            if lows[j] != highs[j]:
                new = one_value(v, float(lows[j]), float(highs[j]), lower, upper)
                line += f"{j + 1}:{new:.{digits}g} " if new else ""
        lines.append(line + "\n")
    return "".join(lines).encode()


@pytest.mark.parametrize("make", DATA)
@pytest.mark.parametrize("lower, upper", [(-1, 1), (0, 1), (-3.7, 0.1)])
def test_agrees_with_the_naive_twin(tmp_path, capfdbinary, make, lower, upper):
    path = tmp_path / "data"
    X, labels = write_data(path, make)
    result = scaled(capfdbinary, "-l", lower, "-u", upper, path)
    assert result == naive(X, labels, lower, upper)
    if make is not one_row:
        assert b":" in result


def test_restored_ranges_agree_with_the_naive_twin(tmp_path, capfdbinary):
    X, _ = write_data(tmp_path / "train", sparse)
    T, labels = write_data(tmp_path / "test", sparse, seed=1)
    scaled(capfdbinary, "-s", tmp_path / "range", tmp_path / "train")
    result = scaled(capfdbinary, "-r", tmp_path / "range", tmp_path / "test")
    assert result == naive(T, labels, lows=X.min(axis=0), highs=X.max(axis=0))


def test_digits(tmp_path, capfdbinary):
    X, labels = write_data(tmp_path / "data", dense)
    result = scaled(capfdbinary, "--digits", 17, tmp_path / "data")
    assert result == naive(X, labels, digits=17)
    assert scaled(capfdbinary, "--digits", "2^3", tmp_path / "data") == naive(X, labels, digits=8)
    for wrong, said in (("18", b"at most 17"), ("0", b"at least 1"), ("1.5", b"whole number")):
        assert run("--digits", wrong, tmp_path / "data") == 2
        assert said in capfdbinary.readouterr().err


# ---- stock svm-scale ---------------------------------------------------------------

# The ends have single precision: Debian's svm-scale rounds -l, -u and -y to it.
OPTIONS = [
    [],
    ["-l", "0"],
    ["-l", "-0.375", "-u", "17.25"],
    ["-y", "0", "1"],
    ["-l", "0", "-y", "-2.5", "-1"],
]


def without_count(path):
    """A range file without the line "0 n n", which svm-scale passes over."""
    return re.sub(r"^0 (\d+) \1\n", "", path.read_text(), count=1, flags=re.MULTILINE)


@pytest.mark.parametrize("make", DATA)
@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_same_bytes_as_stock(tmp_path, capfdbinary, make, options):
    train, test = tmp_path / "train", tmp_path / "test"
    # One row: svm-scale makes a label infinite that is not the only one of the range.
    labels = np.random.default_rng(5).permutation(100) / 4 if make is not one_row else [1.5]
    write_data(train, make, labels=np.array(labels))
    write_data(test, make, seed=1, labels=np.array(labels[::-1]))
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"

    assert scaled(capfdbinary, *options, "-s", ours, train) == stock(*options, "-s", theirs, train)
    assert without_count(ours) == theirs.read_text()
    expected = stock("-r", ours, test)
    assert scaled(capfdbinary, "-r", theirs, test) == expected


def test_same_bytes_as_stock_on_odd_lines(tmp_path, capfdbinary):
    path = tmp_path / "data"
    path.write_text("+1\t1:0 3:1e2 \n  -1 2:-0.50  3:0\n3\n0.5 1:+7 2:.5 3:1e-3")
    assert scaled(capfdbinary, path) == stock(path)
    assert scaled(capfdbinary, "-l", "0", path) == stock("-l", "0", path)


def test_what_stock_reads_otherwise(tmp_path, capfdbinary):
    """As the manual page has it: groups, and lines that are blank or a comment."""
    path = tmp_path / "rows"
    path.write_text("1 1:1 2:5 # 3:4\n-1 1:2 2:7 #\n")
    expected = scaled(capfdbinary, path)
    assert expected == stock(path) == b"1 1:-1 2:-1 \n-1 1:1 2:1 \n"
    path.write_text("1 qid:3 1:1 2:5\n-1 qid:4 1:2 2:7\n")
    assert scaled(capfdbinary, path) == expected and stock(path) == b"1 \n-1 \n"
    for line in ("# a comment\n", "\n"):
        path.write_text(f"1 1:1 2:5\n{line}-1 1:2 2:7\n")
        assert scaled(capfdbinary, path) == expected
        with pytest.raises(subprocess.CalledProcessError):
            stock(path)


def test_same_bytes_as_stock_on_a_real_set(tmp_path, capfdbinary):
    train, test = SET + ".train", SET + ".test"
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    assert scaled(capfdbinary, "-s", ours, train) == stock("-s", theirs, train)
    assert without_count(ours) == theirs.read_text()
    assert scaled(capfdbinary, "-r", ours, test) == stock("-r", ours, test)


def test_features_unknown_to_the_range_file_as_stock(tmp_path, capfdbinary):
    (tmp_path / "train").write_text("1 2:1 5:3\n-1 2:2 5:4\n")
    test = tmp_path / "test"
    test.write_text("1 1:7 2:1.5 4:9 8:1\n-1 1:7 4:8 5:1\n")
    scaled(capfdbinary, "-s", tmp_path / "range", tmp_path / "train")
    assert run("-r", tmp_path / "range", test) == 0
    out, err = capfdbinary.readouterr()
    assert out == stock("-r", tmp_path / "range", test)
    # Feature 1 is 7 in every row: nothing is lost by leaving it out.
    assert err.decode().count("warning") == 1
    assert f"2 features, from index 4 on, are not in {tmp_path}/range" in err.decode()


# ---- beyond stock ------------------------------------------------------------------


def test_where_stock_overflows_the_numbers_are_right(tmp_path, capfdbinary):
    path = tmp_path / "data"
    path.write_text("1 1:-1.5e308\n1 1:1.5e308\n1 1:0.75e308\n1\n")
    lines = scaled(capfdbinary, path).decode().split("\n")
    assert lines == ["1 1:-1 ", "1 1:1 ", "1 1:0.5 ", "1 ", ""]


def test_a_result_that_is_no_number_is_an_error(tmp_path, capfd):
    (tmp_path / "range").write_text("x\n-1 1\n1 0 1e-300\n")
    (tmp_path / "data").write_text("1 1:1e300\n")
    output = tmp_path / "output"
    output.write_text("old")
    assert run("-r", tmp_path / "range", "-o", output, tmp_path / "data") == 1
    assert f"{tmp_path}/data: the value 1" in capfd.readouterr().err
    assert output.read_text() == "old"


def test_blocks_do_not_show(tmp_path, capfdbinary, monkeypatch):
    write_data(tmp_path / "train", sparse)
    write_data(tmp_path / "test", sparse, seed=1)
    whole = scaled(capfdbinary, "-s", tmp_path / "range", tmp_path / "train")
    restored = scaled(capfdbinary, "-r", tmp_path / "range", tmp_path / "test")
    monkeypatch.setattr(scaling, "BLOCK", 70)
    assert scaled(capfdbinary, tmp_path / "train") == whole
    assert scaled(capfdbinary, "-r", tmp_path / "range", tmp_path / "test") == restored


def test_large_indices_need_no_memory(tmp_path, capfdbinary):
    path = tmp_path / "data"
    path.write_text("1 5:1 2147483647:4\n-1 2147483647:2\n")
    result = scaled(capfdbinary, "-s", tmp_path / "range", "-l", "0", path)
    assert result == b"1 5:1 2147483647:1 \n-1 \n"
    assert scaled(capfdbinary, "-r", tmp_path / "range", path) == result


def test_zero_based_indices_are_shifted(tmp_path, capfdbinary):
    path = tmp_path / "data"
    path.write_text("1 0:1 3:4\n-1 0:3\n")
    assert scaled(capfdbinary, "--zero-based", path) == b"1 1:-1 4:1 \n-1 1:1 4:-1 \n"
    assert run(path) == 1


def test_indices_from_0_and_range_files(tmp_path, capfdbinary, monkeypatch):
    """Those of svm-scale have the indices as they stand, ours plus 1."""
    monkeypatch.chdir(tmp_path)
    Path("data").write_text("1 0:1 1:10 2:100\n-1 0:2 1:30 2:500\n1 0:4 1:20 2:300\n")
    Path("stock").write_text("x\n-1 1\n1 10 30\n2 100 500\n")
    assert run("--zero-based", "-r", "stock", "data") == 1
    out, err = capfdbinary.readouterr()
    assert out == b"" and err.startswith(b"odm-scale: stock:3: --zero-based does not go with a")
    own = scaled(capfdbinary, "--zero-based", "-s", "ours", "data")
    assert scaled(capfdbinary, "--zero-based", "-r", "ours", "data") == own
    assert own.startswith(b"1 1:-1 2:-1 3:-1 \n")


def test_from_a_pipe_to_a_pipe(tmp_path):
    X, labels = write_data(tmp_path / "data", dense)
    start = [sys.executable, "-c", "from odmtool.cli import scale_main; scale_main()"]
    save = [*start, "-s", str(tmp_path / "range"), "-"]
    content = (tmp_path / "data").read_bytes()
    done = subprocess.run(save, input=content, capture_output=True, check=True)
    assert done.stdout == naive(X, labels)
    restore = [*start, "-r", str(tmp_path / "range"), "-"]
    done = subprocess.run(restore, input=content, capture_output=True, check=True)
    assert done.stdout == naive(X, labels)
    restore = [*start, "-r", "-", str(tmp_path / "data")]
    content = (tmp_path / "range").read_bytes()
    done = subprocess.run(restore, input=content, capture_output=True, check=True)
    assert done.stdout == naive(X, labels)


def test_output_file(tmp_path, capfdbinary):
    X, labels = write_data(tmp_path / "data", dense)
    assert scaled(capfdbinary, "-o", tmp_path / "output", tmp_path / "data") == b""
    assert (tmp_path / "output").read_bytes() == naive(X, labels)


# ---- warnings ----------------------------------------------------------------------


def warnings(capfd, *args) -> list[str]:
    assert run(*args) == 0
    return capfd.readouterr().err.splitlines()


def test_no_words_where_all_is_well(tmp_path, capfd):
    write_data(tmp_path / "data", dense)
    assert warnings(capfd, "-s", tmp_path / "range", tmp_path / "data") == []
    assert warnings(capfd, "-r", tmp_path / "range", "-l", "-1", tmp_path / "data") == []


def test_warns_when_sparse_data_become_dense(tmp_path, capfd):
    (tmp_path / "data").write_text("1 1:1\n-1 2:1\n1 3:1\n")
    said = warnings(capfd, tmp_path / "data")
    assert len(said) == 1 and "9 non-zero numbers after scaling, 3 before" in said[0]
    assert warnings(capfd, "-l", "0", tmp_path / "data") == []


def test_does_not_advise_what_was_done(tmp_path, capfd):
    (tmp_path / "data").write_text("1 1:-1\n-1 2:-1\n1 3:-1\n")
    said = warnings(capfd, "-l", "0", "-s", tmp_path / "range", tmp_path / "data")
    assert len(said) == 1 and said[0].endswith("6 non-zero numbers after scaling, 3 before")
    assert warnings(capfd, "-r", tmp_path / "range", tmp_path / "data") == said


def test_warns_when_nothing_varies(tmp_path, capfd):
    (tmp_path / "data").write_text("1 1:1\n-1 1:1\n")
    said = warnings(capfd, tmp_path / "data")
    assert len(said) == 1 and "no feature varies" in said[0]


def test_warns_when_the_range_file_overrides_options(tmp_path, capfd):
    (tmp_path / "range").write_text("y\n0 1\n-1 1\nx\n-1 1\n1 0 1\n")
    (tmp_path / "data").write_text("1 1:1\n-1 1:0.75\n")
    args = ["-l", 0, "-u", 1, "-y", -1, 1, "-r", tmp_path / "range", tmp_path / "data"]
    said = warnings(capfd, *args)
    assert len(said) == 1 and f"ignored: the range file {tmp_path}/range" in said[0]


def test_labels_without_a_range_in_the_file_as_stock(tmp_path, capfdbinary):
    (tmp_path / "range").write_text("x\n-1 1\n1 0 1\n")
    (tmp_path / "data").write_text("3 1:1\n7\n")
    args = ["-y", 0, 1, "-r", tmp_path / "range", tmp_path / "data"]
    assert run(*args) == 0
    out, err = capfdbinary.readouterr()
    assert out == b"0 1:1 \n1 1:-1 \n"
    assert b"scaled by their own range" in err
    assert out == stock(*args)


# ---- errors ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args",
    [
        ["-l", "1", "-u", "0", "data"],
        ["-l", "1", "data"],
        ["-u", "-1", "data"],
        ["-y", "1", "1", "data"],
        ["-s", "a", "-r", "range", "data"],
        ["-l", "one", "data"],
        ["-r", "-", "-"],
        ["-s", "-", "data"],
        ["-s", "data", "data"],
        ["-s", "./data", "data"],
        ["-s", "a", "-o", "a", "data"],
        ["-z", "data"],
        ["-lower", "0", "data"],
        ["--digits", "18", "data"],
        ["data", "more"],
        ["-s", "a"],
        [],
    ],
    ids=" ".join,
)
def test_usage_errors(tmp_path, capfd, monkeypatch, args):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").write_text("1 1:1\n")
    (tmp_path / "range").write_text("x\n-1 1\n")
    assert run(*args) == 2
    out, err = capfd.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("odm-scale: ")
    assert sorted(os.listdir(tmp_path)) == ["data", "range"]


@pytest.mark.parametrize("content", ["", "1 1:x\n", "1\n1 2:1 1:1\n", "1 0:1\n", "1\none 1:1\n"])
def test_bad_data_leaves_files_alone(tmp_path, capfd, content):
    (tmp_path / "data").write_text(content)
    for name in ("range", "output"):
        (tmp_path / name).write_text("x\n-1 1\n1 0 1\n")
    before = (tmp_path / "range").read_text()
    assert run("-s", tmp_path / "range", "-o", tmp_path / "output", tmp_path / "data") == 1
    assert run("-r", tmp_path / "range", "-o", tmp_path / "output", tmp_path / "data") == 1
    err = capfd.readouterr().err
    assert err.count(f"odm-scale: {tmp_path}/data") == 2 and "Traceback" not in err
    assert (tmp_path / "range").read_text() == (tmp_path / "output").read_text() == before
    assert sorted(os.listdir(tmp_path)) == ["data", "output", "range"]


def test_bad_range_file(tmp_path, capfd):
    (tmp_path / "data").write_text("1 1:1\n")
    (tmp_path / "range").write_text("1 1:1\n")
    assert run("-r", tmp_path / "range", tmp_path / "data") == 1
    out, err = capfd.readouterr()
    assert out == "" and f"odm-scale: {tmp_path}/range:1: not a range file" in err


def test_a_label_that_cannot_be_scaled(tmp_path, capfd):
    (tmp_path / "range").write_text("y\n0 1\n5 5\nx\n-1 1\n")
    (tmp_path / "data").write_text("5\n6\n")
    assert run("-r", tmp_path / "range", tmp_path / "data") == 1
    assert f"{tmp_path}/data: the value 6 is too far outside" in capfd.readouterr().err


def test_missing_and_unwritable_files(tmp_path, capfd):
    assert run(tmp_path / "absent") == 1
    (tmp_path / "data").write_text("1 1:1\n")
    assert run("-r", tmp_path / "absent", tmp_path / "data") == 1
    assert run("-s", tmp_path / "absent" / "range", tmp_path / "data") == 1
    assert run("-o", tmp_path, tmp_path / "data") == 1
    out, err = capfd.readouterr()
    assert out == "" and err.count("odm-scale: ") == 4 and "Traceback" not in err


def test_ranges_and_output_are_replaced_together(tmp_path, capfd, monkeypatch):
    """The range file is of no use without the data that it belongs to."""
    monkeypatch.chdir(tmp_path)
    for name in ("range", "out"):
        Path(name).write_text("old")
    Path("data").write_text("1 1:1\n-1 1:2\n")

    def fail(*_arguments):
        raise FileError("full")
        yield

    monkeypatch.setattr("odmtool.cli.scale._lines", fail)
    assert run("-s", "range", "-o", "out", "data") == 1
    assert [Path(name).read_text() for name in ("range", "out")] == ["old", "old"]
    # Who reads stdout may go early; the ranges stay.
    assert run("-s", "range", "data") == 1
    assert Path("range").read_text() == "x\n-1 1\n0 1 1\n1 1 2\n"


def test_quiet_keeps_warnings(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("data").write_text("1 1:1\n-1 1:1\n")
    assert run("-q", "-o", "out", "data") == 0
    assert capfd.readouterr().err.startswith("odm-scale: warning: ")
