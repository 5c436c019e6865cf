"""Range files: exact text, round trips, and one clear error per way to be broken."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odmtool.core.scaling import LabelRange, Ranges
from odmtool.errors import FileError, ModelError
from odmtool.io.range_file import read_range, write_range

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
PAIRS = st.tuples(NUMBERS, NUMBERS).map(sorted).filter(lambda pair: pair[0] < pair[1])


@st.composite
def ranges(draw):
    index = sorted(draw(st.sets(st.integers(1, 2**31 - 1), max_size=5)))
    rows = [draw(PAIRS) for _ in index]
    minimum, maximum = np.array(rows, dtype=float).reshape(-1, 2).T
    labels = LabelRange(*draw(PAIRS), *draw(PAIRS)) if draw(st.booleans()) else None
    return Ranges(*draw(PAIRS), np.array(index, np.int64), minimum, maximum, labels)


@given(ranges())
def test_what_is_written_is_read_back_bit_by_bit(tmp_path_factory, written):
    path = str(tmp_path_factory.mktemp("ranges") / "range")
    write_range(path, written)
    read = read_range(path)
    assert (read.lower, read.upper, read.labels) == (written.lower, written.upper, written.labels)
    for name in ("index", "minimum", "maximum"):
        np.testing.assert_array_equal(getattr(read, name), getattr(written, name))


def test_text(tmp_path):
    path = tmp_path / "range"
    minimum, maximum = np.array([-1.5, 0.1, 7.0]), np.array([2.0, 1e300, 7.0])
    index = np.array([1, 3, 9])
    write_range(str(path), Ranges(-1.0, 1.0, index, minimum, maximum, LabelRange(0, 1, -3, 4.5)))
    expected = "y\n0 1\n-3 4.5\nx\n-1 1\n0 2 2\n1 -1.5 2\n"
    expected += "3 0.10000000000000001 1.0000000000000001e+300\n"
    assert path.read_text() == expected


def test_line_ends_blanks_and_constant_features_are_accepted(tmp_path):
    path = tmp_path / "range"
    path.write_bytes(b"x\r\n 0\t1 \r\n\r\n2 -1 +1e3\r\n3 5 5\r\n\r\n")
    read = read_range(str(path))
    assert (read.lower, read.upper, read.labels) == (0, 1, None)
    assert read.index.tolist() == [2, 3]
    assert read.minimum.tolist() == [-1, 5] and read.maximum.tolist() == [1000, 5]


BROKEN = {
    "cut at a line": ("x\n-1 1\n0 2 2\n1 0 1\n", 5, "announces 2 features, but has 1"),
    "lines added": ("x\n-1 1\n0 0 0\n1 0 1\n", 5, "announces 0 features, but has 1"),
    "count of words": ("x\n-1 1\n0 a a\n", 3, "from 1 to 2147483647, got '0'"),
    "count twice": ("x\n-1 1\n0 1 1\n0 1 1\n", 4, "from 1 to 2147483647, got '0'"),
    "endless line": ("x\n-1 1\n" + "1" * 70000, 3, "a line of more than 65536 bytes"),
    "empty": ("", 1, "ends too early"),
    "blank": ("\n\n", 3, "ends too early"),
    "data": ("+1 1:2 3:4\n", 1, "not a range file: expected 'x' or 'y', got '+1 1:2 3:4'"),
    "no x after y": ("y\n0 1\n2 3\n1 0 1\n", 4, "expected 'x' after the label range"),
    "cut in y": ("y\n0 1\n", 3, "expected 'y_min y_max'"),
    "cut after y": ("y\n0 1\n-1 1\n", 4, "expected 'x'"),
    "cut after x": ("x\n", 2, "expected 'lower upper'"),
    "cut in x": ("x\n-1\n", 2, "two numbers 'lower upper', got '-1'"),
    "cut in a row": ("x\n-1 1\n1 0 1\n2 0\n", 4, "expected 'index min max', got '2 0'"),
    "cut in a number": ("x\n-1 1\n1 0 1\n2 0 1.2", 4, "no line end"),
    "too many words": ("x\n-1 1\n1 0 1 5\n", 3, "expected 'index min max'"),
    "word": ("x\n-1 1\n1 0 one\n", 3, "a finite number, got 'one'"),
    "nan": ("x\n-1 1\n1 nan 1\n", 3, "a finite number, got 'nan'"),
    "inf": ("x\n-1 1\n1 -inf 1\n", 3, "a finite number, got '-inf'"),
    "overflow": ("x\n-1 1\n1 0 1e999\n", 3, "a finite number, got '1e999'"),
    "underscore": ("x\n-1 1\n1 0 1_0\n", 3, "a finite number, got '1_0'"),
    "digits of another script": ("x\n-1 1\n1 0 \u0661\n", 3, "a finite number"),
    "index zero": ("x\n-1 1\n0 0 1\n", 3, "from 1 to 2147483647, got '0'"),
    "index negative": ("x\n-1 1\n-1 0 1\n", 3, "from 1 to 2147483647, got '-1'"),
    "index fraction": ("x\n-1 1\n1.0 0 1\n", 3, "from 1 to 2147483647, got '1.0'"),
    "index huge": ("x\n-1 1\n4294967297 0 1\n", 3, "from 1 to 2147483647"),
    "index endless": ("x\n-1 1\n" + "9" * 5000 + " 0 1\n", 3, "from 1 to 2147483647"),
    "descending": ("x\n-1 1\n2 0 1\n1 0 1\n", 4, "1 comes after 2"),
    "duplicate": ("x\n-1 1\n2 0 1\n2 0 1\n", 4, "2 comes after 2"),
    "max below min": ("x\n-1 1\n1 1 0.5\n", 3, "got 1 and 0.5"),
    "upper below lower": ("x\n1 -1\n", 2, "got 1 and -1"),
    "upper is lower": ("x\n1 1\n", 2, "got 1 and 1"),
    "binary": ("\x00\x01\x02\n", 1, "not a range file"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_with_the_line(tmp_path, name):
    content, line, sentence = BROKEN[name]
    path = tmp_path / "range"
    path.write_bytes(content.encode())
    with pytest.raises(ModelError) as error:
        read_range(str(path))
    assert str(error.value).startswith(f"{path}:{line}: ")
    assert sentence in str(error.value)
    assert len(str(error.value)) < 300 + len(str(path))


def test_every_prefix_is_refused_or_ends_at_a_line_of_features(tmp_path):
    content = b"y\n0 1\n-1 1\nx\n-1 1\n1 0 1\n3 -2.5 2.5\n"
    path = tmp_path / "range"
    accepted = []
    for length in range(len(content) + 1):
        path.write_bytes(content[:length])
        try:
            read_range(str(path))
            accepted.append(length)
        except ModelError:
            pass
    # A cut between two lines of features cannot be noticed in this format.
    assert [content[:length].count(b"\n") for length in accepted] == [5, 6, 7]


def test_missing_file(tmp_path):
    with pytest.raises(FileError, match="absent"):
        read_range(str(tmp_path / "absent"))
