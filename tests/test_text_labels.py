"""Labels that are words: read, trained on, kept in the model, predicted."""

import json
import os
import subprocess
import sys
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
import stock

from odmtool import ODMClassifier, load_model, load_svmlight
from odmtool.core.labels import label_facts
from odmtool.errors import DataError, UsageError
from odmtool.io import svmlight
from odmtool.io.row_labels import RowLabels
from odmtool.io.several import read_several
from odmtool.io.svmlight import fingerprint, iter_svmlight, read_svmlight
from odmtool.models.names import LabelNames
from odmtool.rows.executor import Serial

FIRST, SECOND, THIRD = "Größe", '"b\\', "a" * 10_000


@pytest.fixture(params=["plain", "compiled"])
def reader(request, monkeypatch):
    monkeypatch.setattr(svmlight, "PLAIN_BYTES", -1 if request.param == "compiled" else 1 << 24)


def rows(classes: int, n: int = 60) -> list[tuple[int, str]]:
    """The number of a class, and a row of it that some of the others resemble."""
    generator = np.random.default_rng(0)
    labels = generator.integers(classes, size=n)
    labels[:classes] = range(classes)[::-1]
    X = generator.normal(size=(n, classes)) + 1.5 * np.eye(classes)[labels]
    pairs = [" ".join(f"{j}:{x:.3f}" for j, x in enumerate(row, start=1)) for row in X]
    return list(zip(labels.tolist(), pairs, strict=True))


def put(path, names, n: int = 60) -> None:
    """A file of rows whose labels are called so."""
    path.write_text("".join(f"{names[k]} {pairs}\n" for k, pairs in rows(len(names), n)))


@pytest.fixture
def files(tmp_path):
    """``words`` and ``numbers`` hold the same; the words are sorted as the numbers are."""
    put(tmp_path / "words", ["ham", "spam"])
    put(tmp_path / "numbers", [0, 1])


# ---- reading -----------------------------------------------------------------------------


def test_words_are_their_places_in_sorted_order(reader, tmp_path):
    words = [SECOND, FIRST, THIRD, "3D", "1st", FIRST, "x|y", "-"]
    lines = [f" {word}\t{k + 1}:{k + 1} # 1:x" for k, word in enumerate(words)]
    (tmp_path / "d").write_bytes("\r\n# x y\n\n".join(lines).encode())
    for jobs in (1, 2):
        data = read_svmlight(str(tmp_path / "d"), jobs=jobs)
        assert data.names == tuple(sorted(set(words)))
        assert [data.names[k] for k in data.labels] == words and data.labels.dtype == np.int64
        assert data.X.diagonal().tolist() == list(range(1, 9))
    blocks = list(iter_svmlight(str(tmp_path / "d"), block_bytes=20))
    assert len(blocks) > 2
    assert [block.names[k] for block in blocks for k in block.labels] == words


WRONG = {
    "a word after a number": (b"1 1:1\nspam 1:1", "label 'spam' is not a number, and the first"),
    "a slip in a number": (b"-1 1:1\n+1x 1:1", "label '+1x' is not a number, and the first"),
    "a slip in the first": (b"+1x 1:1\n-1 1:1", "label '-1' is a number, and the first label of "
                                                "the file, '+1x', is a word"),
    "missing": (b"spam 1:1\n1:1", "the label is missing: the line starts with '1:1'"),
    "not finite": (b"spam\n-inf", "label '-inf' is not a finite number"),
    "several": (b"spam\nham,eggs 1:1", "label 'ham,eggs' is neither a number nor a word (CSV, or"),
    "not UTF-8": (b"spam\nh\xffm 1:1", r"label 'h\xffm' is neither a number nor a word: a word"),
    "a blank that is none": ("spam\nh\u00a0m 1:1".encode(), r"label 'h\xa0m' is neither"),
    "a control character": (b"spam\nh\x07m 1:1", "a control character"),
    "NUL": (b"spam\nh\0m 1:1", "it contains a NUL byte"),
    "white space in a word": (b"spam\n'not spam' 1:1", '''expected index:value, got "'''),
    "an earlier value": (b"spam\nham 1:x\n3 1:1", "the value in '1:x' is not a number"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_labels(case, reader, tmp_path):
    content, sentence = WRONG[case]
    path = tmp_path / "d"
    path.write_bytes(b"# comment\n" + content + b"\n1 1\n")
    for jobs in (1, 2):
        for block_bytes in (1, 1 << 20):
            with pytest.raises(DataError) as caught:
                list(iter_svmlight(str(path), jobs=jobs, block_bytes=block_bytes))
            assert str(caught.value).startswith(f"{path}:3: Wrong input format at line 3: ")
            assert sentence.split('"')[0] in str(caught.value)


def test_the_first_row_decides():
    kinds = {b"# a\n\n1:1\nx 1:1\n": "missing", b"a\n": "words", b"1\n": "numbers"}
    for content, kind in kinds.items():
        labels = RowLabels(may_miss=True)
        labels.integers(content)
        assert labels.kind == kind
    labels = RowLabels()
    assert labels.integers(b"# only\n") == (b"# only\n", None) and labels.kind is None
    assert labels.integers(b"b 1:1\na#\n") == (b"0 1:1\n1#\n", None)
    assert labels.integers(b"c\na 2:1\n")[0] == b"2\n1 2:1\n" and labels.names == ["b", "a", "c"]


def test_other_words_are_other_data(tmp_path):
    prints = set()
    for words in ("a b", "a c", "0 1"):
        (tmp_path / "d").write_text("{} 1:1\n{} 1:2\n".format(*words.split()))
        prints.add(fingerprint(read_svmlight(str(tmp_path / "d"))))
    assert len(prints) == 3


def test_several_files_have_all_words_together(tmp_path):
    for name, content in (("1", "b 1:1\nd 2:1\n"), ("2", "c 1:1\nb 1:2\n"), ("3", "1 1:1\n")):
        (tmp_path / name).write_text(content)
    found = read_several(f"{tmp_path}/1,{tmp_path}/2", Serial())
    assert found.names == ("b", "c", "d") and found.labels.tolist() == [0, 2, 1, 0]
    with pytest.raises(DataError, match="3: its labels are numbers, those of .*1 are words"):
        read_several(f"{tmp_path}/[13]", Serial())


# ---- training and predicting -------------------------------------------------------------


@pytest.mark.parametrize("names", [["spam", "ham"], [FIRST, SECOND, THIRD]])
@pytest.mark.parametrize("options", [[], ["-t", "rbf", "-b", "1"]])
def test_predictions_are_the_words_of_the_data(run, tmp_path, names, options):
    put(tmp_path / "d", names)
    trained = run("train", *options, "d", "m")
    assert trained.code == 0 and "in the model file, for the stock programs: 0 " in trained.err
    flag = ["-b", "1"] if options else ["-d"]
    outcome = run("predict", *flag, "--json", "j", "--margins", "margins", "d", "m", "o")
    header, *lines = (tmp_path / "o").read_text().splitlines()
    assert sorted(header.split()[1:]) == sorted(names)
    true = [line.split()[0] for line in (tmp_path / "d").read_text().splitlines()]
    found = [line.split()[0] for line in lines]
    correct = sum(a == b for a, b in zip(true, found, strict=True))
    assert f"({correct}/60)" in outcome.out and correct > 40
    record = json.loads((tmp_path / "j").read_text())
    assert [one["label"] for one in record["classes"]] == sorted(names)
    assert record["correct"] == correct == sum(n for a, b, n in record["confusion"] if a == b)
    margins = [x for x in (tmp_path / "margins").read_text().splitlines() if x[0] != "#"]
    assert [line.split()[0] for line in margins] == true
    # From Python the same, without the file that was read.
    X, y = load_svmlight(tmp_path / "d")
    assert y.tolist() == true
    model = load_model(tmp_path / "m")
    assert model.classes_.tolist() == sorted(names)
    if not options:
        assert model.predict(X).tolist() == found


def test_a_score_needs_labels_of_the_kind_that_the_model_answers_with(tmp_path, heart):
    """It was 0 where numbers met texts, and any number where y was a column."""
    X, y = load_svmlight(heart)
    ODMClassifier().fit(X, y).save(tmp_path / "numbers")
    far = y.astype(np.int64) * 2**40  # too large for a model file, so they become texts
    trained = ODMClassifier().fit(X, far)
    trained.save(tmp_path / "texts")
    numbers, texts = load_model(tmp_path / "numbers"), load_model(tmp_path / "texts")
    with pytest.raises(DataError, match=r"in y are no texts \(-?10995.*, those of the model are"):
        texts.score(X, far)
    assert texts.score(X, far.astype(str)) == trained.score(X, far) == numbers.score(X, y)
    with pytest.raises(DataError, match=r"in y are texts \('-?1'\), those of the model are not"):
        numbers.score(X, y.astype(str))
    for wrong in y[:, None], y[:1]:
        with pytest.raises(DataError, match="y must have one label for each of the 270 rows"):
            numbers.score(X, wrong)


def test_a_model_from_python_answers_in_words(run, tmp_path, files):
    X, y = load_svmlight(tmp_path / "words")
    ODMClassifier().fit(X, y).save(tmp_path / "m")
    assert run("predict", "words", "m", "o").code == 0
    assert (tmp_path / "o").read_text().split() == load_model(tmp_path / "m").predict(X).tolist()
    y[:3], y[3:] = "only", "often"
    with pytest.raises(UsageError, match="class only has 3 examples"):
        ODMClassifier(probability=True).fit(X, y)


def test_the_stock_programs_answer_with_integers(run, tmp_path, files):
    run("train", "-q", "words", "m")
    run("predict", "words", "m", "o")
    stock.run("liblinear-predict", *(str(tmp_path / name) for name in ("numbers", "m", "p")))
    expected = [["ham", "spam"].index(word) for word in (tmp_path / "o").read_text().split()]
    assert [int(label) for label in (tmp_path / "p").read_text().split()] == expected


def test_what_the_data_and_the_model_do_not_share(run, tmp_path, files):
    run("train", "-q", "words", "m")
    run("train", "-q", "numbers", "n")
    lines = (tmp_path / "words").read_text().splitlines(keepends=True)
    (tmp_path / "t").write_text("eggs 1:1\n" + "".join(lines[:9]) + "eggs 1:1\nbeans 1:1\n")
    outcome = run("predict", "--report", "t", "m", "o")
    assert "/12)" in outcome.out and outcome.err == ""
    head = next(line for line in outcome.out.splitlines() if "predicted  " in line and "\\" in line)
    assert head.split() == ["true", "\\", "predicted", "beans", "eggs", "ham", "spam"]
    record = json.loads(run("predict", "--json", "-", "t", "m", "o").out)
    assert [one["label"] for one in record["classes"]] == ["beans", "eggs", "ham", "spam"]
    pairs = [pair[:2] for pair in record["confusion"]]
    assert pairs == sorted(pairs) and pairs[0][0] == "beans"
    (tmp_path / "t").write_text("eggs 1:1\n")
    outcome = run("predict", "t", "m", "o")
    assert "(0/1)" in outcome.out and "no label of the test file is one of the model" in outcome.err
    outcome = run("predict", "words", "n", "p")
    assert outcome.code == 1 and not (tmp_path / "p").exists()
    assert "words: the labels are words ('spam'), those of n are numbers (1, 0)" in outcome.err
    # Numbers mean those of the model file.
    outcome = run("predict", "numbers", "m", "o")
    assert outcome.out == run("predict", "words", "m", "o").out and "0 ham, 1 spam" in outcome.err
    assert run("margins", "words", "m", "n").code == 1
    table = run("margins", "words", "m").out
    assert table.splitlines()[1:] == run("margins", "numbers", "m").out.splitlines()[1:]


def test_weights_by_word(run, tmp_path, files):
    given = ["-w", "spam", "10", "-wham", "2", "-w", "x", "3"]
    outcome = run("train", "-q", *given, "words", "m")
    assert outcome.err == (
        "odm-train: warning: class x of -wx does not occur in the data, which have ham, spam\n"
    )
    (tmp_path / "many").write_text("".join(f"{label} 1:{label}\n" for label in range(12)))
    assert run("train", "-q", "-w12", "2", "-v", "2", "many").err.splitlines()[0].endswith(
        "class 12 of -w12 does not occur in the data, which have 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ..."
    )
    run("train", "-q", "-w1", "10", "-w0", "2", "numbers", "n")
    weights = [
        [x for x in (tmp_path / name).read_text().splitlines()[6:]
         if not x.startswith(("label_", "command", "data", "end"))]
        for name in "mn"
    ]  # fmt: skip
    assert weights[0] == weights[1] and "class_weight_1 10.0" in weights[0]
    run("train", "-q", "-w", "balanced", "-wspam", "10", "words", "m")
    assert "class_weight_1 10.0\n" in (tmp_path / "m").read_text()
    for label, data, kind in (("x", "numbers", "numbers"), ("1", "words", "words")):
        outcome = run("train", f"-w{label}", "2", data, "n")
        assert outcome.code == 2
        assert f"-w '{label}': the labels of the data are {kind}" in outcome.err
    assert run("train", "-w1.5", "2", "numbers", "n").code == 2


def test_a_cache_and_a_search_give_what_memory_and_numbers_give(run, tmp_path, files, tiny_blocks):
    assert run("train", "-q", "words", "m").code == 0
    for _ in range(2):
        assert run("train", "-q", "--cache", ".", "--keep-cache", "words", "c").code == 0
        found = [
            [x for x in (tmp_path / name).read_text().splitlines()
             if x.startswith(("label", "data ", "nr_", "examples"))]
            for name in "mc"
        ]  # fmt: skip
        assert found[0] == found[1] and len(found[0]) == 7
    assert run("predict", "words", "c", "o").out == run("predict", "words", "m", "o").out
    search = ["-l", "1,64", "--journal", "j"]
    of_words = run("cv", *search, "-o", "best", "words")
    of_numbers = run("cv", *search[:2], "numbers")
    assert of_words.out == of_numbers.out.replace(" numbers\n", " words\n")
    assert "10 fits are done" in run("cv", *search, "words").err
    put(tmp_path / "words", ["eggs", "spam"])
    assert "another search (they differ in the data)" in run("cv", *search, "words").err
    assert run("train", "-v", "3", "words").out.startswith("Cross Validation")


def test_sentences_call_classes_by_their_words(run, tmp_path):
    (tmp_path / "d").write_text("spam 1:1\n" * 6 + "eggs 1:2\n")
    assert "class eggs has only 1 example" in run("cv", "-l", "1,2", "d").err
    assert "class eggs has only 1 example" in run("train", "-v", "3", "d").err
    assert "class eggs has 1 example to" in run("train", "-b", "1", "d", "m").err
    assert "examples of class spam have" in run("train", "-weggs", "0", "d", "m").err
    (tmp_path / "d").write_text("spam 1:1\n" * 6)
    assert "only one class, spam: the model will" in run("train", "d", "m").err
    assert "only one class, spam: it has no" in run("predict", "--margins", "x", "d", "m", "o").err


def test_looking_scaling_and_starting(run, tmp_path, files):
    assert "2 classes: ham (27), spam (33)" in run("check", "words").out
    run("train", "-q", "--json", "j", "words", "m")
    assert json.loads((tmp_path / "j").read_text())["labels"] == ["ham", "spam"]
    shown = run("describe", "m").out
    assert "classes: spam ham\n" in shown and "0 ham, 1 spam\n" in shown and "for spam" in shown
    scaled = run("scale", "-s", "r", "words").out
    assert scaled.replace("spam", "1").replace("ham", "0") == run("scale", "numbers").out
    assert run("scale", "-r", "r", "words").out == scaled
    assert "'ham'" in run("scale", "-y", "0", "1", "words").err
    run("scale", "-q", "-y", "0", "1", "-s", "ry", "-o", "x", "numbers")
    assert "cannot be scaled" in run("scale", "-r", "ry", "words").err
    assert run("train", "-q", "--from", "m", "words", "n").code == 0
    put(tmp_path / "words", ["eggs", "spam"])
    for data in ("words", "numbers"):
        assert "the same two classes" in run("train", "--from", "m", data, "n").err


def test_more_than_ten_words_are_not_listed(run, tmp_path):
    put(tmp_path / "d", [f"word{k:02d}" for k in range(11)])
    assert "programs: 0 to 10, in alphabetical order" in run("train", "-s", "l2svm", "d", "m").err


def test_a_word_more_takes_no_look_at_all_words(monkeypatch):
    """As many words as rows, one row in a block: the words so far may not be gone through."""

    class Names(dict):
        def __iter__(self):
            raise AssertionError("all words are gone through")

    model = SimpleNamespace(labels=[0, 1], facts=label_facts(["ham", "spam"]))
    names = LabelNames(model, "m")
    monkeypatch.setattr(names, "names", Names(names.names))
    words = ["spam", *(f"w{k}" for k in range(50_000))]
    codes = names.integers(np.arange(len(words)), words)
    assert codes.tolist() == [1, *range(2, 50_002)] and names.names[50_001] == "w49999"
    words.append("one more")
    tracemalloc.start()
    assert names.integers(np.array([50_001, 0]), words).tolist() == [50_002, 1]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 50_000 // 4


def test_integers_that_no_word_stands_for(run, tmp_path, files):
    """They are errors with names of their own; words that are integers are compared as such."""
    (tmp_path / "train").write_text("a 1:1\nb 1:2\na 1:1.5\nb 1:2.5\n")
    (tmp_path / "test").write_text("0 1:1\n1 1:2\n7 1:2\n")
    assert run("train", "train", "m").code == 0
    outcome = run("predict", "--report", "--json", "j", "test", "m", "o")
    assert outcome.code == 0 and "\n       7 " in outcome.out
    assert "they are compared with those that stand for words" in outcome.err
    X = np.array([[1.0], [4.0], [1.5], [3.5]])
    ODMClassifier().fit(X, np.array(["1", "2", "1", "2"])).save("m")
    (tmp_path / "test").write_text("1 1:1\n2 1:4\n3 1:4\n")
    outcome = run("predict", "test", "m", "o")
    assert (outcome.code, outcome.out) == (0, "Accuracy = 66.6667% (2/3)\n")
    assert outcome.err == ""


def test_words_that_cannot_be_shown_are_escaped(tmp_path):
    """On a stdout of another encoding; and an argument that is not UTF-8."""
    (tmp_path / "data").write_text("λ 1:1\nb 1:2\n", encoding="utf-8")
    check = "from odmtool.cli import odmtool_main; odmtool_main()"
    environment = os.environ | {"PYTHONIOENCODING": "latin-1"}
    shown = subprocess.run(
        [sys.executable, "-c", check, "check", "data"], cwd=tmp_path, env=environment,
        capture_output=True,
    )  # fmt: skip
    assert shown.returncode == 0 and b"\\u03bb (1)" in shown.stdout
    train = "from odmtool.cli import train_main; train_main()"
    warned = subprocess.run(
        [sys.executable, "-c", train, "-w", b"h\xffm", "2", "data", "m"], cwd=tmp_path,
        capture_output=True,
    )  # fmt: skip
    assert warned.returncode == 0 and b"does not occur in the data" in warned.stderr


@pytest.mark.parametrize("labels, is_told", [("34", True), ("14", False), ("33", False)])
def test_labels_that_no_class_has_are_told(run, tmp_path, labels, is_told):
    """Not of one number, which rows get whose labels nobody knows."""
    (tmp_path / "data").write_text("1 1:1\n2 1:-1\n" * 3)
    assert run("train", "-q", "data", "m").code == 0
    (tmp_path / "test").write_text("".join(f"{label} 1:{label}\n" for label in labels))
    outcome = run("predict", "test", "m", "o")
    assert outcome.code == 0 and ("no label of the test file" in outcome.err) == is_told
