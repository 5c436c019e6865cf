"""An index so large that its weights do not fit is refused by file, line and token."""

import gzip
import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from odmtool.core.csr import CSR
from odmtool.errors import MemoryLimitError, TooWideError
from odmtool.io.model_file import read_model
from odmtool.io.widest import locate, widest_line
from odmtool.machines import machine_named
from odmtool.models.linear import LinearModel


@pytest.mark.parametrize("command", [
    ("train", "wide", "m"), ("train", "-v", "5", "wide"), ("cv", "-t", "linear", "-l", "1", "wide"),
    ("train", "-s", "ldm", "wide", "m"), ("train", "-s", "mcodm", "wide3", "m"),
])  # fmt: skip
def test_an_index_too_large_for_its_weights_is_named(command, run):
    """One mistyped index took the memory of the machine."""
    for name, labels in (("wide3", "123"), ("wide", "122")):
        Path(name).write_text(wide_rows("1 1:2 40000000:1", labels))
    Path("m").write_text("as it was")
    outcome = run(*command, "--memory", "500M")
    assert outcome.code == 1 and Path("m").read_text() == "as it was"
    file = next(word for word in command if word.startswith("wide"))
    assert f"{file}:7: '40000000:1' makes weights{TOO_MANY}" in outcome.err


TOO_MANY = (
    " for so many features take about 640 MB, more than the 500 MB of --memory; correct it, or "
    "give more --memory\n"
)


def wide_rows(line, labels="12"):
    """30 of them; this line is the seventh."""
    lines = [f"{labels[k % len(labels)]} 1:{k} 3:1" for k in range(30)]
    lines[6] = line
    return "\n".join(lines) + "\n"


COMMENTS = "# one\n\n 1 2:1 # 9:1\n"


@pytest.mark.parametrize("token, options", [
    ("40000000:1", ()), ("40000000:0", ()), ("39999999:1", ("--zero-based",)),
    ("40000000:1", ("--cache", ".")), ("40000000:0", ("--cache", ".", "--keep-cache")),
])  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_lines_are_counted_with_those_that_are_no_examples(token, options, packed, run):
    text = (COMMENTS + wide_rows(f"1 1:2 {token}\t# 7:3")).encode()
    Path("wide").write_bytes(gzip.compress(text) if packed else text)
    needed = "1.28 GB" if "--cache" in options else "640 MB"
    outcome = run("train", *options, "--memory", "500M", "wide", "m")
    assert outcome.code == 1 and not Path("m").exists()
    assert f"wide:10: '{token}' makes weights" in outcome.err
    assert f"take about {needed}, more than" in outcome.err


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
    text, files = comments + wide_rows("1 1:2 40000000:1"), () if "-v" in options else ("m",)
    outcome = run_on(text, "train", *options, "--memory", "500M", "-", *files)
    assert outcome.code == 1
    assert f"{place}: feature 40000000 of example 7 makes weights for so" in outcome.err


def test_of_zeros_in_words_the_number_of_features_is_told(run_on):
    """Of what cannot be read again; there is no example that has them."""
    for text in (wide_rows("1 1:2 40000000:0"), "1 40000000:0\n2\n"):
        for options in ((), ("--cache", ".")):
            outcome = run_on(text, "train", *options, "--memory", "500M", "-", "m")
            assert outcome.code == 1
            assert "stdin: the weights of 40000000 features take about" in outcome.err
            assert "correct the largest index, or give more --memory\n" in outcome.err


def test_a_file_that_has_changed_has_no_line(tmp_path, monkeypatch):
    """Nor has one that has gone, or has no index."""
    monkeypatch.chdir(tmp_path)
    for text in (None, "1\n", "1 1:1\n", "1 qid:7\n", wide_rows("1 40000001:1")):
        if text is not None:
            Path("wide").write_text(text)
        error = TooWideError("as it was", width=40000000, example=7)
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


@pytest.mark.parametrize("machine, count", [("odm", 1), ("ldm", 1), ("mcodm", 2)])
def test_weights_of_many_features_are_announced(machine, count, run):
    """Two numbers for each, of every function; one of two classes has one or two."""
    Path("wide").write_text("1 1:1\n-1 1000000:1\n1 2:1\n")
    told = run("train", "--verbose", "-s", machine, "wide", "m").err
    assert 16 * count <= float(re.search(r"(?:classes|weights) (\d+) MB", told)[1]) <= 17 * count
    assert "weights" not in run("train", "--verbose", "-t", "rbf", "wide", "m").err


MACHINES = [
    {}, {"bias": 1.0}, {"bias": 0.0}, {"name": "ldm"}, {"name": "l1svm", "bias": 2.0},
    {"name": "odm", "solver": "svrg"}, {"name": "lssvm", "solver": "newton"}, {"name": "kmomd"},
    {"multiclass": "ovo", "bias": 1.0}, {"multiclass": "ovr"}, {"multiclass": "ecoc"},
    {"name": "mcodm", "bias": 1.0}, {"name": "mcsvm"}, {"name": "m3svm"},
    {"bias": 1.0, "class_weight": {2: 0.0}}, {"model_format": "libsvm"},
]  # fmt: skip


@pytest.mark.parametrize("kind", [sparse.csr_matrix, CSR.of])
@pytest.mark.parametrize("options", MACHINES)
def test_features_that_do_not_occur_change_nothing(options, kind):
    """Solvers do not see them; models have weights of 0 for them, or leave them out."""
    rng, options = np.random.default_rng(0), dict(options)
    X = rng.normal(size=(40, 4)) + 1
    labels = np.arange(40) % (3 if {"multiclass", "class_weight"} & set(options) else 2)
    X[np.arange(40), labels] += 2
    places = np.array([0, 7, 300, 899])
    wide = sparse.csr_matrix((40, 900)).tolil()
    wide[:, places] = X
    machine = machine_named(options.pop("name", "odm"))(lambda_=16.0, tolerance=1e-6, **options)
    narrow = machine.copy().fit(sparse.csr_matrix(X), labels)
    found = machine.fit(kind(wide.tocsr()), labels)
    assert found.solution_.primal == pytest.approx(narrow.solution_.primal, rel=1e-9, abs=1e-12)
    values = found.model_.decision_values(wide.tocsr())
    np.testing.assert_allclose(values, narrow.model_.decision_values(sparse.csr_matrix(X)), 1e-7)
    if isinstance(found.model_, LinearModel):
        assert found.model_.weights.shape[0] == 900
        assert np.array_equal(np.flatnonzero(found.model_.weights.any(axis=1)), places)


def test_a_search_in_features_that_hardly_occur(run):
    """The same table, and what --loo finds."""
    for name, step in (("narrow", 1), ("wide", 5000)):
        lines = [f"{(-1) ** k} 1:{k % 7 + k % 2} {1 + step}:{k % 5}" for k in range(40)]
        Path(name).write_text("\n".join(lines) + "\n")
        search = ["-l", "2^2:4:2", "-v", "4", "-B", "1", "--csv", f"{name}.csv"]
        assert run("cv", *search, name).code == 0
        assert run("train", "--loo", "-B", "1", "-q", name, f"{name}.model").code == 0
    assert Path("narrow.csv").read_text() == Path("wide.csv").read_text()
    facts = [read_model(f"{name}.model").facts for name in ("narrow", "wide")]
    assert float(facts[0]["objective"]) == pytest.approx(float(facts[1]["objective"]), rel=1e-6)
