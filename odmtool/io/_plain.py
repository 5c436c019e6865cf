"""The reader for small inputs: no compiled code, so that no time goes into loading numba.

A block of whole lines is brought into one canonical form (single spaces, no
comments, no blank lines), checked as a whole with table look-ups, and converted
eight digits of all numbers at a time, rounded correctly as Python's ``float`` does.
A block that does not pass is read line by line by :mod:`odmtool.io._line`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from odmtool._pattern import Pattern
from odmtool.errors import DataError
from odmtool.io._digits import LONGEST, integers_before
from odmtool.io._line import Grammar, parse_line
from odmtool.io._part import ParsedLines, WrongLine, assemble, joined


def read_block(block: bytes, grammar: Grammar) -> ParsedLines:
    """Read a block of whole lines, each ended by LF.

    Raises WrongLine for the first line that the grammar does not allow.
    """
    parts = []
    for piece in _pieces(block):
        part = _read_regular(piece, grammar)
        if part is None:
            return read_line_by_line(block, grammar)
        parts.append(part)
    return joined(parts)


# ---- line by line ------------------------------------------------------------


def read_line_by_line(block: bytes, grammar: Grammar) -> ParsedLines:
    """Read a block with :func:`~odmtool.io._line.parse_line`.

    Raises WrongLine for the first line that the grammar does not allow.
    """
    labels, counts, indices, values = [], [], [], []
    for before, line in enumerate(block.split(b"\n")[:-1]):
        try:
            row = parse_line(line, 0, "", grammar)
        except DataError:
            raise WrongLine(before, line) from None
        if row is not None:
            labels.append(row.label)
            counts.append(len(row.indices))
            indices += row.indices
            values += row.values
    return assemble(
        block,
        np.array(labels, np.float64),
        np.array(counts, np.int32),
        np.array(indices, np.int32),
        np.array(values, np.float64),
        grammar,
    )


# ---- a block at once ---------------------------------------------------------

# Smaller arrays stay in the processor's cache, but there are more calls.
_PIECE_BYTES = 1 << 18

_COMMENT = Pattern(rb"#[^\n]*")
# A number may end with its point; a digit more after it keeps the tables below simple.
_LAST_POINT = Pattern(rb"(?<=[0-9])\.(?=[ \neE])")
_QID = Pattern(rb"^( *[^ \n]+ +)qid:[0-9]+(?=[ \n])", re.MULTILINE)


_DIGIT, _SPACE, _NEWLINE, _COLON, _POINT, _SIGN, _EXPONENT = (1 << bit for bit in range(7))
_NUMBER_START = _DIGIT | _SIGN | _POINT
# Kinds of characters, and the kinds that may follow each.
_KINDS = {
    _DIGIT: (b"0123456789", 0xFF & ~_SIGN),
    _SPACE: (b" ", _DIGIT),
    _NEWLINE: (b"\n", _NUMBER_START),
    _COLON: (b":", _NUMBER_START),
    _POINT: (b".", _DIGIT),
    _SIGN: (b"+-", _DIGIT | _POINT),
    _EXPONENT: (b"eE", _DIGIT | _SIGN),
}
# The same without digits and signs: the marks.
_NO_FIGURE = _DIGIT | _SIGN
_END = _SPACE | _NEWLINE | _COLON
_AFTER_POINT = _EXPONENT | _SPACE | _NEWLINE
_AFTER_MARK = {
    _SPACE: _COLON,
    _NEWLINE: _POINT | _AFTER_POINT,
    _COLON: _POINT | _AFTER_POINT,
    _POINT: _AFTER_POINT,
    _EXPONENT: _SPACE | _NEWLINE,
}


def _by_character(what: dict[int, int]) -> bytes:
    """For each of the 256 characters the number of its kind; 0 for other characters."""
    table = bytearray(256)
    for kind, (characters, _) in _KINDS.items():
        for character in characters:
            table[character] = what[kind]
    return bytes(table)


_KIND_OF = _by_character({kind: kind for kind in _KINDS})
_FOLLOWERS_OF = _by_character({kind: followers for kind, (_, followers) in _KINDS.items()})
_FOLLOWERS_OF_MARK = np.array([_AFTER_MARK.get(kind, 0) for kind in range(_EXPONENT + 1)], np.uint8)


def _pieces(block: bytes) -> Iterator[bytes]:
    """Some lines of a block at a time."""
    start, end = 0, -1
    while end < len(block):
        end = block.find(b"\n", start + _PIECE_BYTES) + 1 or len(block)
        yield block[start:end]
        start = end


def _read_regular(block: bytes, grammar: Grammar) -> ParsedLines | None:
    """Read the lines as one array of numbers; None where the careful way is needed."""
    lines = regular_lines(block)
    if lines is None or not _in_order(lines.indices, lines.counts, grammar):
        return None
    return assemble(
        block, lines.first, lines.counts.astype(np.int32), lines.indices.astype(np.int32),
        lines.values, grammar,
    )  # fmt: skip


class RegularLines(NamedTuple):
    """Lines of a number and pairs after it."""

    first: np.ndarray  # float64, shape (rows,)
    counts: np.ndarray  # integers, shape (rows,): pairs of each row
    # Integers, shape (pairs,), as written; a number above every index for those of very many
    # digits.
    indices: np.ndarray
    values: np.ndarray  # float64, shape (pairs,)


def regular_lines(block: bytes) -> RegularLines | None:
    """The numbers of whole lines ``number index:value index:value ...``; None of other text."""
    text = _bare(block)
    marks = _marks(text)
    if marks is None:
        text = _single_spaced(text)
        marks = _marks(text)
        if marks is None:
            return None
    numbers = _Numbers(text, *marks)
    row_ends = np.flatnonzero(numbers.marks == _NEWLINE)
    counts = np.diff(row_ends, prepend=-1) // 2
    places = np.flatnonzero(numbers.marks == _COLON)
    indices, values = numbers.integers(places), numbers.decimals(places + 1)
    return RegularLines(numbers.decimals(row_ends - 2 * counts), counts, indices, values)


def _marks(text: bytes) -> tuple[np.ndarray, np.ndarray] | None:
    """Where the characters are that are neither digits nor signs, and their kinds.

    None if the text is not regular. Every line is a number and then pairs digits:number, with
    single spaces: every two characters that follow each other may do so, and every two marks.
    """
    kinds = np.frombuffer(text.translate(_KIND_OF), np.uint8)
    if not _may_follow(kinds, np.frombuffer(text.translate(_FOLLOWERS_OF), np.uint8)):
        return None
    places = np.flatnonzero((kinds & _NO_FIGURE) == 0)
    marks = kinds.take(places)
    return (places, marks) if _may_follow(marks, _FOLLOWERS_OF_MARK.take(marks)) else None


def _may_follow(kinds: np.ndarray, followers: np.ndarray) -> bool:
    """Whether each stands behind one that allows it, and the first behind the last."""
    if len(kinds) == 0:
        return True
    return bool(kinds[0] & followers[-1] and np.all(kinds[1:] & followers[:-1]))


_EXACT_MANTISSA = 2**53
_EXACT_POWERS = np.array([float(10**places) for places in range(23)])


class _Numbers:
    """The numbers of a regular text in their order: labels, indices and values.

    Without its point a number is an integer of at most 2**53, divided by at most 10**22. Both
    are doubles, so that only the division rounds (Clinger, How to read floating point numbers
    accurately, 1990). The numbers of which this is not true are left to Python.

    ``places`` and ``marks`` (ndarrays of int, shape (n,)): see :func:`_marks`; the attribute
    ``marks`` has the kind of the character that ends each number.
    """

    def __init__(self, text: bytes, places: np.ndarray, marks: np.ndarray):
        is_end = (marks & _END) != 0
        which = np.flatnonzero(is_end)
        self._text, self._ends, self.marks = text, places.take(which), marks.take(which)
        # Where they end in the text without points, the digits behind these, and exponents.
        self._bare_ends, self._fractions, self._is_late = self._ends, None, None
        if len(which) < len(marks):
            count, inner = len(which), np.flatnonzero(~is_end)
            owner = inner - np.arange(len(inner))  # the number in which a point or exponent stands
            self._bare_ends = self._ends - (which - np.arange(count))
            self._fractions = np.zeros(count, np.intp)
            self._fractions[owner] = places.take(inner + 1) - places.take(inner) - 1
            self._is_late = np.zeros(count, bool)
            self._is_late[owner[marks.take(inner) == _EXPONENT]] = True
            text = text.translate(None, b".eE")
        self._lengths = np.diff(self._bare_ends, prepend=-1) - 1
        self._digits = bytes(LONGEST) + text

    def integers(self, which: np.ndarray) -> np.ndarray:
        """Some of the numbers that have digits only; of very many digits the largest integer."""
        ends, lengths = self._bare_ends.take(which), self._lengths.take(which)
        integers, is_long = integers_before(self._digits, ends, lengths)
        integers[is_long] = np.iinfo(integers.dtype).max
        return integers

    def decimals(self, which: np.ndarray) -> np.ndarray:
        """Some of the numbers as doubles."""
        ends, lengths = self._bare_ends.take(which), self._lengths.take(which)
        first = np.frombuffer(self._digits, np.uint8).take(LONGEST + ends - lengths)
        is_minus = first == ord("-")
        lengths -= is_minus | (first == ord("+"))
        mantissas, is_late = integers_before(self._digits, ends, lengths)
        if mantissas.itemsize == LONGEST:
            is_late |= mantissas > _EXACT_MANTISSA
        numbers = mantissas.astype(float)
        if self._fractions is not None:
            fractions = self._fractions.take(which)
            is_late |= self._is_late.take(which) | (fractions >= len(_EXACT_POWERS))
            numbers /= _EXACT_POWERS.take(fractions, mode="clip")
        np.negative(numbers, out=numbers, where=is_minus)
        for late in np.flatnonzero(is_late).tolist():
            place = which[late]
            start = self._ends[place - 1] + 1 if place else 0
            numbers[late] = float(self._text[start : self._ends[place]])
        return numbers


def _bare(block: bytes) -> bytes:
    """The block without comments, query numbers, carriage returns and tabs.

    A search for one character is almost free; for two it is not. So blanks at the ends of lines,
    as LIBSVM's files have them, are looked for in the first line only.
    """
    text = block
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
    if b"#" in text and b"\0" not in text:
        text = _COMMENT.sub(b"", text)
    if b"\t" in text:
        text = text.replace(b"\t", b" ")
    if b"q" in text:
        text = _QID.sub(rb"\1", text)
    if text[: text.find(b"\n") + 1].endswith(b" \n"):
        text = text.replace(b" \n", b"\n")
    return text


def _single_spaced(text: bytes) -> bytes:
    """The text without blank lines, without blanks that separate nothing, digits after points."""
    text = _LAST_POINT.sub(b".0", text)
    text = re.sub(rb"  +", b" ", text).replace(b" \n", b"\n").replace(b"\n ", b"\n")
    return re.sub(rb"\n\n+", b"\n", text).lstrip(b" \n")


def _in_order(indices: np.ndarray, counts: np.ndarray, grammar: Grammar) -> bool:
    """Whether the indices are in range and ascend within each row."""
    if len(indices) == 0:
        return True
    if int(indices.min()) < grammar.first_index or int(indices.max()) > grammar.largest_index:
        return False
    ascends = indices[1:] > indices[:-1]
    row_ends = np.cumsum(counts)[:-1]
    ascends[row_ends[(row_ends > 0) & (row_ends < len(indices))] - 1] = True
    return bool(ascends.all())
