"""Range files: the scaling of a data set, to be used again on another one.

The grammar is svm-scale's, and files pass both ways between the two programs::

    y                        the first three lines only if labels are scaled
    y_lower y_upper
    y_min y_max
    x
    lower upper
    0 n n                    how many lines follow; svm-scale's own files have no such line
    index min max            one line per feature that is not constant, rising

There is no feature 0, and svm-scale drops what is constant. It also ignores a file that begins
otherwise and stops at the first line it cannot read, so that data are scaled wrongly without a
word; here each of that is an error.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from odmtool import messages
from odmtool.core.scaling import LabelRange, Ranges
from odmtool.errors import ModelError
from odmtool.io import files
from odmtool.io._line import real
from odmtool.io.model_text import integer


def read_range(path: str, zero_based: bool = False) -> Ranges:
    """Read a range file; "-" is stdin.

    With ``zero_based`` it is meant for data whose indices start at 0. Ours have the index plus 1;
    svm-scale's have it as it stands, and nothing of the feature 0, so that they are refused.

    Raises
    ------
    FileError
        The file cannot be read.
    ModelError
        It is no range file, or was cut off; with file and line.
    """
    with files.open_input(path) as stream:
        return _ranges(_Lines(stream, files.display_name(path)), zero_based)


def _ranges(lines: _Lines, needs_count: bool = False) -> Ranges:
    labels = None
    word = lines.next_words("'x' or 'y'")
    if word == [b"y"]:
        labels = LabelRange(*lines.pair("y_lower y_upper"), *lines.pair("y_min y_max", equal=True))
        word = lines.next_words("'x'")
    if word != [b"x"]:
        raise lines.error(messages.range_start(b" ".join(word), labels is not None))
    lower, upper = lines.pair("lower upper")
    rows = list(_features(lines, needs_count))
    index = np.array([row[0] for row in rows], dtype=np.int64)
    minimum, maximum = np.array([row[1:] for row in rows], dtype=float).reshape(-1, 2).T
    return Ranges(lower, upper, index, minimum, maximum, labels)


@contextmanager
def written_range(path: str, ranges: Ranges) -> Iterator[None]:
    """A range file in svm-scale's form; "-" is stdout.

    It takes its place when the block ends, and not at all if the block raises: what the
    block writes is of no use with other ranges.
    """
    with files.atomic_output(path) as stream:
        stream.writelines(f"{line}\n" for line in _written(ranges))
        stream.flush()
        yield


def write_range(path: str, ranges: Ranges) -> None:
    """Write a range file, complete or not at all."""
    with written_range(path, ranges):
        pass


def in_one_line(ranges: Ranges) -> str:
    """The lines of a range file with ``;`` between them, for a model."""
    return ";".join(_written(ranges))


def of_one_line(text: str) -> Ranges:
    """The ranges of :func:`in_one_line`; raises ModelError, which knows no file."""
    stream = io.BytesIO(text.replace(";", "\n").encode() + b"\n")
    return _ranges(_Lines(stream, None))


def _written(ranges: Ranges) -> Iterator[str]:
    """The lines of a range file."""
    if ranges.labels is not None:
        lower, upper, minimum, maximum = ranges.labels
        yield from ("y", f"{lower:.17g} {upper:.17g}", f"{minimum:.17g} {maximum:.17g}")
    yield from ("x", f"{ranges.lower:.17g} {ranges.upper:.17g}")
    varying = np.flatnonzero(ranges.minimum != ranges.maximum)
    yield f"0 {len(varying)} {len(varying)}"
    columns = (ranges.index, ranges.minimum, ranges.maximum)
    rows = zip(*(column[varying].tolist() for column in columns), strict=True)
    yield from (f"{index} {low:.17g} {high:.17g}" for index, low, high in rows)


def _features(lines: _Lines, needs_count: bool) -> Iterator[tuple[int, float, float]]:
    previous, found, expected = -1, 0, None
    for words in lines:
        if len(words) != 3:
            raise lines.error(messages.range_row(b" ".join(words)))
        if previous < 0 and words[0] == b"0" and words[1] == words[2]:
            previous, expected = 0, integer(words[1])
            if expected is None:
                raise lines.error(messages.range_index(words[0]))
            continue
        if needs_count and expected is None:
            raise lines.error(messages.range_of_svm_scale())
        index = integer(words[0]) or 0
        if index < 1:
            raise lines.error(messages.range_index(words[0]))
        if index <= previous:
            raise lines.error(messages.range_descending(index, previous))
        previous, found = index, found + 1
        yield index, *lines.ordered(words[1:], equal=True)
    if expected not in (None, found):
        raise lines.error(messages.range_count(expected, found))


class _Lines:
    """The lines that are not blank, split into words, and where we are."""

    def __init__(self, stream, name: str):
        self._lines = files.lines(stream, name, ModelError)
        self._name, self._number = name, 0

    def __iter__(self):
        return self

    def __next__(self) -> list[bytes]:
        for line in self._lines:
            self._number += 1
            if words := line.split():
                if not line.endswith(b"\n"):
                    raise self.error(messages.range_cut())
                return words
        self._number += 1
        raise StopIteration

    def next_words(self, expected: str) -> list[bytes]:
        try:
            return next(self)
        except StopIteration:
            raise self.error(messages.range_ended(expected)) from None

    def pair(self, expected: str, equal: bool = False) -> tuple[float, float]:
        """The next line's two numbers, the first below the second."""
        words = self.next_words(f"'{expected}'")
        if len(words) != 2:
            raise self.error(messages.range_pair(expected, b" ".join(words)))
        return self.ordered(words, equal)

    def ordered(self, words: list[bytes], equal: bool = False) -> tuple[float, float]:
        """Two numbers, the first below the second (or equal, where that has a meaning)."""
        low, high = (self.number(word) for word in words)
        if low > high or (low == high and not equal):
            raise self.error(messages.range_order(low, high))
        return low, high

    def number(self, word: bytes) -> float:
        value = real(word)
        if value is None:
            raise self.error(messages.range_number(word))
        return value

    def error(self, sentence: str) -> ModelError:
        return ModelError(sentence, self._name, self._number)
