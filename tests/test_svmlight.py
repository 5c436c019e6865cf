"""The svmlight reader: every case goes through the plain and the compiled reader."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from odmtool.errors import DataError, UsageError
from odmtool.io import _plain, _scan, svmlight
from odmtool.io._line import Grammar, parse_line
from odmtool.io._part import WrongLine
from odmtool.io.svmlight import Dataset, fingerprint, iter_svmlight, read_svmlight, write_svmlight

READERS = {"plain": 2**60, "compiled": -1}
ANY = settings(deadline=None, derandomize=True)


@pytest.fixture(params=READERS)
def reader(request, monkeypatch):
    """Makes one of the two readers read everything."""
    monkeypatch.setattr(svmlight, "PLAIN_BYTES", READERS[request.param])
    return request.param


def read(tmp_path, content, **options) -> Dataset:
    path = tmp_path / "data.svm"
    path.write_bytes(content)
    return read_svmlight(str(path), **options)


def rows_of(dataset: Dataset):
    """[(label, {column: value}), ...]"""
    X = dataset.X
    return [
        (label, dict(zip(X[i].indices.tolist(), X[i].data.tolist(), strict=True)))
        for i, label in enumerate(dataset.labels.tolist())
    ]


# ---- what is accepted --------------------------------------------------------

ACCEPTED = {
    "ordinary": (b"+1 1:0.5 3:-2\n-1 2:1e3\n", {}, [(1, {0: 0.5, 2: -2.0}), (-1, {1: 1000.0})]),
    "label only": (b"1\n2 1:1\n", {}, [(1, {}), (2, {0: 1.0})]),
    "only labels": (b"1\n-1\n", {}, [(1, {}), (-1, {})]),
    "label only, CRLF": (b"1\r\n2\r\n", {}, [(1, {}), (2, {})]),
    "CRLF": (b"1 1:2\r\n\r\n2 1:3\r\n", {}, [(1, {0: 2.0}), (2, {0: 3.0})]),
    "CR at the very end": (b"1 1:2\r", {}, [(1, {0: 2.0})]),
    "tabs": (b"1\t1:2\t \t3:4\n", {}, [(1, {0: 2.0, 2: 4.0})]),
    "leading blanks": (b"  1 1:2\n\t2 1:3\n", {}, [(1, {0: 2.0}), (2, {0: 3.0})]),
    "trailing blanks": (b"1 1:2 \n2 1:3\t \n", {}, [(1, {0: 2.0}), (2, {0: 3.0})]),
    "no final newline": (b"1 1:2\n2 1:3", {}, [(1, {0: 2.0}), (2, {0: 3.0})]),
    "blank lines": (b"\n1 1:2\n\n  \n2 1:3\n\n", {}, [(1, {0: 2.0}), (2, {0: 3.0})]),
    "comments": (
        b"# a:b c\n1 1:2 # x\n  # y\n2 1:3#z\n3#\n",
        {},
        [(1, {0: 2.0}), (2, {0: 3.0}), (3, {})],
    ),
    "bytes in a comment": (b"1 1:2 # \xff\x07\r x # y\n", {}, [(1, {0: 2.0})]),
    "qid": (b"1 qid:7 1:2\n2\tqid:8\n3 qid:9 # x\n", {}, [(1, {0: 2.0}), (2, {}), (3, {})]),
    "integer labels": (
        b"1.0\n+1\n1e0\n-0\n007\n20e-1\n-2147483648\n2147483647\n",
        {},
        [(k, {}) for k in (1, 1, 1, 0, 7, 2, -(2**31), 2**31 - 1)],
    ),
    "real labels": (
        b"1.5\n-2e-3\n1e300\n",
        {"real_labels": True},
        [(1.5, {}), (-0.002, {}), (1e300, {})],
    ),
    "values": (
        b"1 1:.5 2:+.5 3:-.5e1 4:5E-1 5:00.50 6:1e+2 7:1e-320\n",
        {},
        [(1, {0: 0.5, 1: 0.5, 2: -5.0, 3: 0.5, 4: 0.5, 5: 100.0, 6: 1e-320})],
    ),
    "zeros": (b"1 1:0 2:-0.0 3:1 4:0e999 5:1e-400\n2 1:0\n", {}, [(1, {2: 1.0}), (2, {})]),
    "leading zeros": (b"1 0001:2 %s2:3\n" % (b"0" * 5000), {}, [(1, {0: 2.0, 1: 3.0})]),
    "largest index": (b"1 2147483647:1\n", {}, [(1, {2**31 - 2: 1.0})]),
    "zero based": (b"1 0:2 3:4\n", {"zero_based": True}, [(1, {0: 2.0, 3: 4.0})]),
    "precomputed": (
        b"1 0:1 1:0.5 2:0\n2 0:2.0 1:1\n",
        {"precomputed": True},
        [(1, {0: 1.0, 1: 0.5}), (2, {0: 2.0, 1: 1.0})],
    ),
    "many digits": (
        b"1 1:0.%s1 2:%s.5 3:3.%s\n" % (b"0" * 400, b"0" * 400, b"3" * 400),
        {},
        [(1, {1: 0.5, 2: 10 / 3})],
    ),
    "numbers of C": (
        b"1. 1:5. 2:.5 3:+5 4:1e5\t5:5.\r\n-1.e0 1:5.e-1 2:-5. # 5.\n2. 3:7.",
        {},
        [(1, {0: 5.0, 1: 0.5, 2: 5.0, 3: 1e5, 4: 5.0}), (-1, {0: 0.5, 1: -5.0}), (2, {2: 7.0})],
    ),
    "exponent against places": (
        b"1 1:0.%s1e1000000 2:1%s e\n".replace(b" e", b"e-999999") % (b"0" * 999999, b"0" * 999999),
        {},
        [(1, {0: 1.0, 1: 1.0})],
    ),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_accepted(case, reader, tmp_path, monkeypatch):
    content, options, expected = ACCEPTED[case]
    if reader == "compiled":  # it knows the whole grammar, and needs no help

        def refuse(block, grammar):
            raise AssertionError(block)

        monkeypatch.setattr(_scan, "read_line_by_line", refuse)
    assert rows_of(read(tmp_path, content, **options)) == expected


def test_counts_and_shapes(reader, tmp_path):
    content = b"# c\n\n1 3:1 7:0\n2 2:1\n   \n3\n"
    data = read(tmp_path, content)
    assert (data.X.shape, data.skipped) == ((3, 7), 3)
    assert data.labels.dtype == np.int64
    assert data.X.dtype == np.float64 and data.X.indices.dtype == np.int32
    data.X.check_format(full_check=True)
    assert data.X.has_canonical_format
    assert read(tmp_path, content, n_features=9).X.shape == (3, 9)
    assert read(tmp_path, content, n_features=2).X.shape == (3, 7)
    assert read(tmp_path, content, zero_based=True).X.shape == (3, 8)
    assert read(tmp_path, b"1\n").X.shape == (1, 0)
    assert read(tmp_path, b"1 0:1\n2 0:2 4:0\n", precomputed=True).X.shape == (2, 5)
    assert read(tmp_path, b"1.5\n", real_labels=True).labels.dtype == np.float64


# ---- what is rejected --------------------------------------------------------

INDEX_VALUE = "expected index:value, got "
REJECTED = {
    "no colon": (b"1 3;4", f"{INDEX_VALUE}'3;4'"),
    "no colon at the end": (b"1 1:2 3", f"{INDEX_VALUE}'3'"),
    "no colon in between": (b"1 2 3:4", f"{INDEX_VALUE}'2'"),
    "word": (b"1 1:2 abc", f"{INDEX_VALUE}'abc'"),
    "blank before colon": (b"1 1 :2", f"{INDEX_VALUE}'1'"),
    "blank after colon": (b"1 1: 2", "no value directly after the colon in '1:'"),
    "value missing": (b"1 1:", "no value directly after the colon in '1:'"),
    "index missing": (b"1 :2", f"{INDEX_VALUE}':2': no index before the colon"),
    "lone colon": (b"1 :", f"{INDEX_VALUE}':': no index before the colon"),
    "index 0": (b"1 0:2", "index 0 in '0:2': indices start at 1 (zero_based"),
    "index negative": (b"1 -3:2", f"{INDEX_VALUE}'-3:2': the index is negative"),
    "index fraction": (b"1 1.5:2", f"{INDEX_VALUE}'1.5:2': the index is not a whole number"),
    "index with plus": (b"1 +1:2", f"{INDEX_VALUE}'+1:2': the index is not a whole number"),
    "index exponent": (b"1 1e2:2", f"{INDEX_VALUE}'1e2:2': the index is not a whole number"),
    "index underscore": (b"1 1_0:2", f"{INDEX_VALUE}'1_0:2': the index is not a whole number"),
    "index 3e9": (b"1 3000000000:1", "the index in '3000000000:1' is larger than 2147483647"),
    "index 2**31": (b"1 2147483648:1", "larger than 2147483647"),
    "index 2**32+1": (b"1 4294967297:1", "larger than 2147483647"),
    "index 2**64+1": (b"1 18446744073709551617:1", "larger than 2147483647"),
    "index very long": (b"1 %s:1" % (b"9" * 5000), "larger than 2147483647"),
    "duplicate": (b"1 1:2 1:2", "the index in '1:2' occurs twice"),
    "descending": (b"1 5:2 3:2", "the index in '3:2' comes after 5; indices must ascend"),
    "duplicate of a zero": (b"1 1:0 1:2", "the index in '1:2' occurs twice"),
    "value word": (b"1 1:abc", "the value in '1:abc' is not a number"),
    "value with rest": (b"1 1:1x", "the value in '1:1x' is not a number"),
    "value comma": (b"1 1:2,5", "the value in '1:2,5' is not a number"),
    "value two colons": (b"1 1:2:3", "the value in '1:2:3' is not a number"),
    "value hexadecimal": (b"1 1:0x1", "the value in '1:0x1' is not a number"),
    "value underscore": (b"1 1:1_0", "the value in '1:1_0' is not a number"),
    "value point": (b"1 1:.", "the value in '1:.' is not a number"),
    "value sign": (b"1 1:-", "the value in '1:-' is not a number"),
    "value signs": (b"1 1:+-1", "the value in '1:+-1' is not a number"),
    "value points": (b"1 1:1.2.3", "the value in '1:1.2.3' is not a number"),
    "value two in one": (b"1 1:2-3", "the value in '1:2-3' is not a number"),
    "value open exponent": (b"1 1:1e", "the value in '1:1e' is not a number"),
    "value open exponent sign": (b"1 1:1e+", "the value in '1:1e+' is not a number"),
    "value fractional exponent": (b"1 1:1e1.5", "the value in '1:1e1.5' is not a number"),
    "value exponent alone": (b"1 1:e5", "the value in '1:e5' is not a number"),
    "value sign point": (b"1 1:-.", "the value in '1:-.' is not a number"),
    "value point exponent": (b"1 1:.e5", "the value in '1:.e5' is not a number"),
    "value two points": (b"1 1:1..", "the value in '1:1..' is not a number"),
    "value nan": (b"1 1:nan", "the value in '1:nan' is not finite; leave out what is missing"),
    "value inf": (b"1 1:-Inf", "the value in '1:-Inf' is not finite"),
    "value infinity": (b"1 1:infinity", "the value in '1:infinity' is not finite"),
    "value 1e999": (b"1 1:1e999", "the value in '1:1e999' is too large for a double"),
    "value 2**1024": (b"1 1:1.797693134862315808e308", "is too large for a double"),
    "value long exponent": (b"1 1:1e99999999999999999999", "is too large for a double"),
    "value full-width digit": ("1 1:２".encode(), "holds the byte 0xef; only ASCII"),
    "label missing": (b"1:2 2:3", "the label is missing: the line starts with '1:2'"),
    "label missing, blank": (b" 1:2", "the label is missing: the line starts with '1:2'"),
    "label missing, qid": (b"qid:1 1:2", "the label is missing: the line starts with 'qid:1'"),
    "label list": (b"1,2 1:2", "label '1,2' is not a number (CSV, or several labels?"),
    "label table": (b"5.1;3.5;setosa", "label '5.1;3.5;setosa' is not a number (CSV, or "),
    "label not UTF-8": (b"gr\xf6\xdfe 1:2", "holds the byte 0xf6; only ASCII may stand outside"),
    "label nan": (b"nan 1:2", "label 'nan' is not a finite number"),
    "label inf": (b"-inf 1:2", "label '-inf' is not a finite number"),
    "label 1e999": (b"1e999 1:2", "label '1e999' is not a finite number"),
    "label fraction": (b"1.5 1:2", "label '1.5' is not an integer: labels are classes"),
    "label tiny": (b"1e-30 1:2", "label '1e-30' is not an integer"),
    "label large": (b"2147483648 1:2", "label '2147483648' is outside -2147483648..2147483647"),
    "label huge": (b"1e300 1:2", "label '1e300' is outside"),
    "label without blank": (b"1-1:2", "the label is missing"),
    "qid word": (b"1 qid:x 1:2", "expected qid:number, got 'qid:x'"),
    "qid empty": (b"1 qid: 1:2", "expected qid:number, got 'qid:'"),
    "qid twice": (b"1 qid:1 qid:2", f"{INDEX_VALUE}'qid:2': the index is not a whole number"),
    "qid late": (b"1 1:2 qid:1", f"{INDEX_VALUE}'qid:1': the index is not a whole number"),
    "not qid": (b"1 q 1:2", f"{INDEX_VALUE}'q'"),
    "NUL": (b"1 1:2\0", "it contains a NUL byte"),
    "NUL in a comment": (b"1 1:2 # \0", "it contains a NUL byte"),
    "CR inside": (b"1 1:2\r2:3", "a carriage return inside the line"),
    "CR before comment": (b"1 1:2\r# x", "a carriage return inside the line"),
    "two CR": (b"1 1:2\r\r", "a carriage return inside the line"),
    "form feed": (b"1 1:2\x0c2:3", r"a control character in '1:2\x0c2:3'"),
    "vertical tab first": (b"\x0b1 1:2", r"a control character in '\x0b1'"),
    "not UTF-8": (b"1 1:\xff2", "holds the byte 0xff; only ASCII may stand outside comments"),
    "long token": (b"1 1:%s" % (b"x" * 999), "'1:" + "x" * 55 + "...' is not a number"),
}
REJECTED_WITH = {
    "zero-based index": ({"zero_based": True}, b"1 2147483647:1", "larger than 2147483646"),
    "real label": ({"real_labels": True}, b"nan 1:2", "label 'nan' is not a finite number"),
    "serial missing": (
        {"precomputed": True},
        b"1 1:2",
        "with a precomputed kernel every line starts with label 0:serial, got '1:2'",
    ),
    "serial missing, label only": ({"precomputed": True}, b"1", "starts with label 0:serial"),
    "serial 0": ({"precomputed": True}, b"1 0:0 1:2", "the serial in '0:0' is not a whole number"),
    "serial fraction": ({"precomputed": True}, b"1 0:1.5", "the serial in '0:1.5' is not a whole"),
    "serial negative": ({"precomputed": True}, b"1 0:-1", "the serial in '0:-1' is not a whole"),
    "serial large": ({"precomputed": True}, b"1 0:1e30", "the serial in '0:1e30' is not a whole"),
    "serial twice": ({"precomputed": True}, b"1 0:1 0:1", "the index in '0:1' occurs twice"),
}


def assert_rejected(path, line, sentence, name, **options):
    with pytest.raises(DataError) as caught:
        read_svmlight(path, **options)
    expected = f"{name}:{line}: Wrong input format at line {line}: "
    assert str(caught.value).startswith(expected)
    assert sentence in str(caught.value)[len(expected) :]
    assert (caught.value.file, caught.value.line) == (name, line)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case, reader, tmp_path):
    """As only line; as last line without a newline; and in the midst of others, with CRLF."""
    text, sentence = REJECTED[case]
    path = tmp_path / "data.svm"
    good = b"1 1:2 # c\r\n\r\n# c\n-1 1:1e-400 7:0.12345678901234567890123\n"
    contents = [(1, text + b"\n"), (1, text), (5, good + text)]
    contents.append((5, good + text + b"\r\n" + good + b"nonsense"))
    for line, content in contents:
        path.write_bytes(content)
        assert_rejected(str(path), line, sentence, str(path))


@pytest.mark.parametrize("case", REJECTED_WITH)
def test_rejected_with_options(case, reader, tmp_path):
    options, text, sentence = REJECTED_WITH[case]
    path = tmp_path / "data.svm"
    path.write_bytes(text + b"\n")
    assert_rejected(str(path), 1, sentence, str(path), **options)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "the file is empty"),
        (b"\n", "the file has no data, only blank lines and comments"),
        (b" \t\n# only\r\n\n#", "the file has no data, only blank lines and comments"),
    ],
)
def test_no_rows(content, sentence, reader, tmp_path):
    path = tmp_path / "data.svm"
    path.write_bytes(content)
    for read_all in (read_svmlight, lambda name: list(iter_svmlight(name))):
        with pytest.raises(DataError) as caught:
            read_all(str(path))
        assert str(caught.value) == f"{path}: {sentence}"


@pytest.mark.parametrize(
    ("encoding", "sentence"),
    [
        ("utf-8-sig", "the file starts with a byte order mark (the bytes EF BB BF)"),
        ("utf-16", "the file is UTF-16LE text; convert it with: iconv -f UTF-16LE"),
    ],
)
def test_byte_order_mark(encoding, sentence, reader, tmp_path):
    path = tmp_path / "data.svm"
    path.write_bytes("1 1:2\n2 1:3\n".encode(encoding))
    assert_rejected(str(path), 1, sentence, str(path))
    path.write_bytes("1 1:2\n\ufeff2 1:3\n".encode())
    assert_rejected(str(path), 2, "holds the byte 0xef", str(path))


def test_zero_based_precomputed(tmp_path):
    with pytest.raises(UsageError, match="zero_based"):
        read(tmp_path, b"1 0:1\n", zero_based=True, precomputed=True)


def test_the_serial_of_rows_to_predict_is_any_finite_number(reader, tmp_path):
    path = tmp_path / "data.svm"
    path.write_bytes(b"1 0:0 1:2\n1 0:-1 1:3 2:0\n2 0:0.5\n2 0:7 2:1\n2 0:0\n")
    (block,) = iter_svmlight(path, precomputed=True, any_serial=True)
    assert [values for _, values in rows_of(block)] == [
        {1: 2.0}, {0: -1.0, 1: 3.0}, {0: 0.5}, {0: 7.0, 2: 1.0}, {}
    ]  # fmt: skip
    for wrong, sentence in ((b"1 0:nan", "not finite"), (b"1 1:2", "starts with label 0:serial")):
        path.write_bytes(b"1 0:0\n" + wrong + b"\n")
        with pytest.raises(DataError, match=f":2: .*{sentence}"):
            list(iter_svmlight(path, precomputed=True, any_serial=True))


# ---- both readers against the grammar ----------------------------------------

GRAMMARS = st.builds(Grammar, st.booleans(), st.booleans(), st.just(False)) | st.builds(
    Grammar, precomputed=st.just(True), any_serial=st.booleans()
)
PIECES = st.sampled_from(
    [" ", " ", " ", "\n", "\n", "\t", "\r", "\r\n", ":", ":", "#", "qid:", "\0", "\x0c", "\xe9"]
    + ["0", "1", "2", "9", "12", "-", "+", ".", "e", "E5", "nan", "x", "0:1 ", "1:1", "7:.5", "e-9"]
)
LINES = st.sampled_from(
    ["1 1:2", "-1 2:.5 7:1e3 ", "1", "", "# 1", "1 qid:3 1:0", "1 0:1 1:.5", "0 0:2", "1.5 3:4"]
    + ["1 0:0 1:2", "1 0:-1.5"]
)


def outcome(read_block, block, grammar):
    try:
        part = read_block(block, grammar)
    except WrongLine as wrong:
        return wrong.before, wrong.line
    return [field.tobytes() if isinstance(field, np.ndarray) else field for field in part]


@ANY
@given(st.lists(PIECES, max_size=12).map("".join), GRAMMARS)
def test_readers_agree_on_fragments(text, grammar):
    block = text.encode("latin-1") + b"\n"
    expected = outcome(_plain.read_line_by_line, block, grammar)
    assert outcome(_plain.read_block, block, grammar) == expected
    assert outcome(_scan.read_block, block, grammar) == expected


@ANY
@given(st.lists(LINES, max_size=6), st.lists(PIECES, max_size=2).map("".join), GRAMMARS, st.data())
def test_readers_agree_on_damaged_text(lines, damage, grammar, data):
    text = "".join(line + "\n" for line in lines)
    place = data.draw(st.integers(0, len(text)))
    removed = data.draw(st.integers(0, 2))
    block = (text[:place] + damage + text[place + removed :]).encode("latin-1") + b"\n"
    expected = outcome(_plain.read_line_by_line, block, grammar)
    assert outcome(_plain.read_block, block, grammar) == expected
    assert outcome(_scan.read_block, block, grammar) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_plain, "_PIECE_BYTES", 1)  # every line is a piece
        assert outcome(_plain.read_block, block, grammar) == expected


@pytest.mark.parametrize("read_block", [_plain.read_block, _scan.read_block])
def test_ordinary_text_takes_the_fast_way(read_block, monkeypatch):
    """The careful way is ten times slower: nothing that is common may need it."""

    def refuse(block, grammar):
        raise AssertionError(block)

    monkeypatch.setattr(_plain, "read_line_by_line", refuse)
    monkeypatch.setattr(_scan, "read_line_by_line", refuse)
    for text in (
        b"+1 1:0.5 2:-1e-3\n-1\n",
        b"1 1:1 \r\n 2\t2:2\r\n",
        b"1 qid:1 1:1 # one\n\n# two\n2 qid:1  2:+.5\n",
    ):
        assert len(read_block(text, Grammar()).labels) == 2
    assert len(read_block(b"1 0:1 1:2\n2 0:2\n", Grammar(precomputed=True)).labels) == 2
    assert len(read_block(b"\n# nothing\n", Grammar()).labels) == 0


@pytest.mark.parametrize("line", [b"1\n", b"1 1: 2: 3: 4: 5: 6: 7: 8: 9:\n", b"\n", b"1 1:1\n"])
def test_room_for_the_densest_text(line):
    block = line * 1000
    arrays = _scan._Room().arrays(len(block))
    labels, counts, indices, values = arrays
    text = np.frombuffer(block, np.uint8)
    rows, pairs = _scan._split(text, 1, 2**31 - 1, *(np.empty(len(block), a.dtype) for a in arrays))
    assert rows in (0, 1000) and pairs == 1000 * line.count(b":")
    assert rows < min(len(labels), len(counts)) and pairs <= min(len(indices), len(values))


def test_a_fault_is_named_by_its_token():
    with pytest.raises(DataError) as caught:
        parse_line(b"1 1:2 3;4 ", 17, "data.svm", Grammar())
    assert str(caught.value) == (
        "data.svm:17: Wrong input format at line 17: expected index:value, got '3;4'"
    )


# ---- writing, fingerprints, another reader -----------------------------------

DOUBLES = st.floats(allow_nan=False, allow_infinity=False).filter(bool)


@ANY
@given(
    st.lists(st.dictionaries(st.integers(0, 50), DOUBLES, max_size=5), min_size=1, max_size=5),
    st.integers(-(2**31), 2**31 - 1),
)
def test_round_trip(tmp_path_factory, rows, label):
    path = tmp_path_factory.mktemp("data") / "data.svm"
    pairs = [sorted(row.items()) for row in rows]
    indptr = np.cumsum([0] + [len(row) for row in rows])
    indices = np.array([column for row in pairs for column, _ in row], np.int32)
    values = np.array([value for row in pairs for _, value in row])
    X = csr_matrix((values, indices, indptr), shape=(len(rows), 51))
    labels = np.full(len(rows), label)
    with open(path, "w") as stream:
        write_svmlight(stream, X, labels)
    for limit in READERS.values():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(svmlight, "PLAIN_BYTES", limit)
            data = read_svmlight(path, n_features=51)
        assert fingerprint(data) == fingerprint(Dataset(X, labels, 0))
        assert data.X.shape == X.shape


def test_write_precomputed_and_real_labels():
    stream = io.StringIO()
    write_svmlight(stream, csr_matrix([[1.0, 0.1], [2.0, 0.0]]), [0.1, -2.0], first_index=0)
    assert stream.getvalue() == "0.10000000000000001 0:1 1:0.10000000000000001\n-2 0:2\n"


def test_fingerprint_sees_every_array(tmp_path):
    contents = [b"1 1:2\n2\n", b"1\n2 1:2\n", b"1 2:2\n2\n", b"1 1:3\n2\n", b"1 1:2\n3\n"]
    prints = {fingerprint(read(tmp_path, content)) for content in contents}
    assert len(prints) == len(contents)
    assert all(text.startswith("sha256:") and len(text) == 71 for text in prints)
    again = fingerprint(read(tmp_path, b"# c\n1 1:2.0 3:0\n2\n"))
    assert again == fingerprint(read(tmp_path, contents[0]))


@pytest.mark.parametrize("scale", [1.0, 1e-5, 1e200, 1e-310])
def test_same_as_scikit_learn(scale, reader, tmp_path):
    rng = np.random.default_rng(7)
    dense = rng.standard_normal((200, 30)) * rng.integers(0, 2, (200, 30)) * scale
    dense[:, 3] = rng.integers(-2, 3, 200)
    path = tmp_path / "data.svm"
    dump_svmlight_file(dense, rng.integers(-3, 4, 200), str(path), zero_based=False)
    data = read_svmlight(path)
    X, y = load_svmlight_file(str(path), zero_based=False)
    X.eliminate_zeros()
    assert data.X.data.tobytes() == X.data.tobytes()
    assert np.array_equal(data.X.indices, X.indices)
    assert np.array_equal(data.X.indptr, X.indptr)
    assert np.array_equal(data.labels, y)
