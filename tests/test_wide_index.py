"""An index so large that its weights do not fit is refused by file, line and token."""

import gzip
import pickle
import re
import sys
from pathlib import Path

import pytest

from odmtool.errors import MemoryLimitError, TooWideError
from odmtool.io.widest import locate, widest_line


@pytest.mark.parametrize("command", [
    ("train", "wide", "m"), ("train", "-v", "5", "wide"), ("cv", "-t", "linear", "-l", "1", "wide"),
    ("train", "-s", "ldm", "wide", "m"), ("train", "-s", "mcodm", "wide3", "m"),
])  # fmt: skip
def test_an_index_too_large_for_its_weights_is_named(command, run):
    """One mistyped index took the memory of the machine."""
    for name, labels in (("wide3", "123"), ("wide", "122")):
        Path(name).write_text(wide_rows("1 1:2 20000000:1", labels))
    Path("m").write_text("as it was")
    outcome = run(*command, "--memory", "500M")
    assert outcome.code == 1 and Path("m").read_text() == "as it was"
    file = next(word for word in command if word.startswith("wide"))
    assert f"{file}:7: '20000000:1' makes weights{TOO_MANY}" in outcome.err


TOO_MANY = (
    " for so many features take about 1.6 GB, more than the 500 MB of --memory; correct it, or "
    "give more --memory\n"
)


def wide_rows(line, labels="12"):
    """30 of them; this line is the seventh."""
    lines = [f"{labels[k % len(labels)]} 1:{k} 3:1" for k in range(30)]
    lines[6] = line
    return "\n".join(lines) + "\n"


COMMENTS = "# one\n\n 1 2:1 # 9:1\n"


@pytest.mark.parametrize("token, options", [
    ("20000000:1", ()), ("20000000:0", ()), ("19999999:1", ("--zero-based",)),
    ("20000000:1", ("--cache", ".")), ("20000000:0", ("--cache", ".", "--keep-cache")),
])  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_lines_are_counted_with_those_that_are_no_examples(token, options, packed, run):
    text = (COMMENTS + wide_rows(f"1 1:2 {token}\t# 7:3")).encode()
    Path("wide").write_bytes(gzip.compress(text) if packed else text)
    memory = 640 if "--cache" in options else 1600
    outcome = run("train", *options, "--memory", "500M", "wide", "m")
    assert outcome.code == 1 and not Path("m").exists()
    assert f"wide:10: '{token}' makes weights" in outcome.err
    assert f"{memory / 1000:.2g} GB" in outcome.err or f"{memory} MB" in outcome.err


@pytest.fixture
def run_on(run, monkeypatch):
    """Run a command whose stdin is a file with this text."""

    def run_on_text(text, *arguments):
        Path("text").write_text(text)
        with open("text") as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            return run(*arguments)

    return run_on_text


@pytest.mark.parametrize("options", [(), ("--cache", "."), ("-v", "5")])
@pytest.mark.parametrize("comments, place", [("", "stdin:7"), ("# one\n", "stdin")])
def test_of_stdin_the_example_is_named(options, comments, place, run_on):
    """Its line as well, if every line is one."""
    text, files = comments + wide_rows("1 1:2 20000000:1"), () if "-v" in options else ("m",)
    outcome = run_on(text, "train", *options, "--memory", "500M", "-", *files)
    assert outcome.code == 1
    assert f"{place}: feature 20000000 of example 7 makes weights for so" in outcome.err


def test_of_zeros_in_words_the_number_of_features_is_told(run_on):
    """Of what cannot be read again; there is no example that has them."""
    for text in (wide_rows("1 1:2 20000000:0"), "1 20000000:0\n2\n"):
        for options in ((), ("--cache", ".")):
            outcome = run_on(text, "train", *options, "--memory", "500M", "-", "m")
            assert outcome.code == 1
            assert "stdin: the weights of 20000000 features take about" in outcome.err
            assert "correct the largest index, or give more --memory\n" in outcome.err


def test_a_file_that_has_changed_has_no_line(tmp_path, monkeypatch):
    """Nor has one that has gone, or has no index."""
    monkeypatch.chdir(tmp_path)
    for text in (None, "1\n", "1 1:1\n", "1 qid:7\n", wide_rows("1 20000001:1")):
        if text is not None:
            Path("wide").write_text(text)
        error = TooWideError("as it was", width=20000000, example=7)
        locate(error, "wide")
        assert (str(error), error.file, error.line) == ("as it was", None, None)
    Path("wide").write_text("1 1:1\n2 " + "0" * 5000 + "3:1 # 7:1\n1 3:2\n")
    found = widest_line("wide")
    assert (found.index, found.line) == (3, 2) and found.token.endswith(b"03:1")


def test_the_refusal_comes_from_another_process_as_it_was():
    error = TooWideError("so", "file", 3, width=5, example=2, needed=7.0, memory=6.0)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == "file:3: so" and vars(again) == vars(error)
    assert isinstance(again, MemoryLimitError) and again.exit_code == 1


def test_an_example_with_the_last_feature_of_a_store(open_store, tmp_path):
    """In the first block that has it."""
    lines = [f"1 {k % 7 + 1}:1 9:1\n" for k in range(40)]
    for k in (33, 35):
        lines[k] = "1 2:1 500:1\n"
    for text, expected in (("".join(lines), 34), ("1 500:0 \n" * 40, None)):
        (tmp_path / "rows").write_text(text)
        store, _ = open_store(tmp_path, tmp_path / "rows", block_bytes=64)
        assert store.widest_example() == expected and len(store.blocks) > 3


def test_weights_of_many_features_are_announced(run):
    Path("wide").write_text("1 1:1\n-1 1000000:1\n1 2:1\n")
    assert "weights 80 MB" in run("train", "--verbose", "wide", "m").err
    assert "weights" not in run("train", "--verbose", "-t", "rbf", "wide", "m").err


def test_weights_of_a_machine_with_a_function_for_each_of_two_classes_count_twice(run):
    Path("wide").write_text("1 1:1\n-1 1000000:1\n1 2:1\n")
    told = run("train", "--verbose", "-s", "mcodm", "wide", "m").err
    assert float(re.search(r"classes (\d+) MB", told)[1]) >= 160
