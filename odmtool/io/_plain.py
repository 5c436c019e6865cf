"""The reader for small inputs: no compiled code, so that no time goes into loading numba.

A block of whole lines is brought into one canonical form (single spaces, no
comments, no blank lines), checked as a whole with table look-ups, and converted
by one call of ``numpy.fromstring``, which rounds correctly as Python's ``float``
does; where all values are short (indicators, counts), digit by digit for all
at once. A block that does not pass is read line by line by :mod:`odmtool.io._line`.
"""

from __future__ import annotations

import re

import numpy as np

from odmtool.errors import DataError
from odmtool.io._line import Grammar, parse_line
from odmtool.io._part import ParsedLines, WrongLine, assemble


def read_block(block: bytes, grammar: Grammar) -> ParsedLines:
    """Read a block of whole lines, each ended by LF.

    Raises
    ------
    WrongLine
        The first line that the grammar does not allow.
    """
    return _read_regular(block, grammar) or read_line_by_line(block, grammar)


# ---- line by line ------------------------------------------------------------


def read_line_by_line(block: bytes, grammar: Grammar) -> ParsedLines:
    """Read a block with :func:`~odmtool.io._line.parse_line`.

    Raises
    ------
    WrongLine
        The first line that the grammar does not allow.
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

_COMMENT = re.compile(rb"#[^\n]*")
# A number may end with its point; a digit more after it keeps the tables below simple.
_LAST_POINT = re.compile(rb"(?<=[0-9])\.(?=[ \neE])")
# Values of so many characters are read faster digit by digit.
_SHORT, _LONGEST_INDEX, _BLANK = 4, 10, ord(" ")
_QID = re.compile(rb"^( *[^ \n]+ +)qid:[0-9]+(?=[ \n])", re.MULTILINE)


class _Neighbours:
    """Which kind of character may follow which; a text of allowed pairs is accepted at once.

    Every kind has a bit; two tables give for a character its own bit and those of the kinds
    that may follow it.
    """

    def __init__(self, kinds: dict[int, tuple[bytes, int]]):
        kind_of, followers_of = bytearray(256), bytearray(256)
        for kind, (characters, followers) in kinds.items():
            for character in characters:
                kind_of[character], followers_of[character] = kind, followers
        self._kind_of, self._followers_of = bytes(kind_of), bytes(followers_of)

    def accept(self, text: bytes) -> bool:
        """Whether all characters of a text, empty or ended by LF, stand behind allowed ones.

        The first one stands behind that LF.
        """
        if not text:
            return True
        kinds = np.frombuffer(text.translate(self._kind_of), np.uint8)
        followers = np.frombuffer(text.translate(self._followers_of), np.uint8)
        return bool(kinds[0] & followers[-1] and np.all(kinds[1:] & followers[:-1]))


_DIGIT, _SPACE, _NEWLINE, _COLON, _POINT, _SIGN, _EXPONENT = (1 << bit for bit in range(7))
_CHARACTERS = _Neighbours({
    _DIGIT: (b"0123456789", 0xFF & ~_SIGN),
    _SPACE: (b" ", _DIGIT),
    _NEWLINE: (b"\n", _DIGIT | _SIGN | _POINT),
    _COLON: (b":", _DIGIT | _SIGN | _POINT),
    _POINT: (b".", _DIGIT),
    _SIGN: (b"+-", _DIGIT | _POINT),
    _EXPONENT: (b"eE", _DIGIT | _SIGN),
})  # fmt: skip
# A number leaves at most a sign, a point and an exponent behind, in this order, when its digits
# are deleted, and the sign of its exponent.
_NO_DIGIT = _SPACE | _NEWLINE | _COLON
_FIGURES = _Neighbours({
    _NO_DIGIT: (b" \n:", 0xFF),
    _SIGN: (b"+-", _NO_DIGIT | _POINT | _EXPONENT),
    _POINT: (b".", _NO_DIGIT | _EXPONENT),
    _EXPONENT: (b"e", _NO_DIGIT),
})  # fmt: skip


def _read_regular(block: bytes, grammar: Grammar) -> ParsedLines | None:
    """Read the lines as one array of numbers; None where the careful way is needed."""
    text = _bare(block)
    if not _is_regular(text):
        text = _single_spaced(text)
        if not _is_regular(text):
            return None
    counts = _colons_per_line(text)
    labels, indices, values = _short_numbers(text, counts) or _numbers(text, counts)
    if not _in_order(indices, counts, grammar):
        return None
    return assemble(
        block, labels, counts.astype(np.int32), indices.astype(np.int32), values, grammar
    )


def _numbers(text: bytes, counts: np.ndarray):
    """Labels, indices and values of a regular text, by NumPy's reader."""
    numbers = np.fromstring(text.replace(b":", b" "), sep=" ")
    is_label = np.zeros(len(numbers), bool)
    is_label[np.cumsum(1 + 2 * counts) - (1 + 2 * counts)] = True
    labels, numbers = numbers[is_label], numbers[~is_label]
    return labels, numbers[0::2], numbers[1::2].copy()


def _short_numbers(text: bytes, counts: np.ndarray):
    """The same where that is faster: no label or value is long; else None."""
    if b"e" in text or b"E" in text:
        return None
    characters = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(characters <= _BLANK)
    starts = np.concatenate(([0], ends + 1))[:-1]
    colons = np.flatnonzero(characters == ord(":"))
    is_label = np.zeros(len(ends), bool)
    is_label[np.cumsum(1 + counts) - (1 + counts)] = True
    is_entry = ~is_label
    pieces = (
        (starts[is_label], ends[is_label], _SHORT),
        (starts[is_entry], colons, _LONGEST_INDEX),
        (colons + 1, ends[is_entry], _SHORT),
    )
    if any((end - start).max(initial=0) > most for start, end, most in pieces):
        return None
    characters = np.frombuffer(text + bytes(_LONGEST_INDEX), np.uint8)
    return tuple(_decimals(characters, start, end - start) for start, end, _ in pieces)


def _decimals(characters: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The numbers of so many characters that begin there: digits, perhaps a sign and a point.

    They have at most 15 digits, so that the only rounding is that of the division. As many
    characters as the longest number has follow the last one.
    """
    mantissa, places = np.zeros(len(starts), np.int64), np.zeros(len(starts), np.int64)
    is_fraction = np.zeros(len(starts), bool)
    for place in range(int(lengths.max(initial=0))):
        found, is_in = characters[starts + place], lengths > place
        digit = found - np.uint8(ord("0"))  # what is no digit wraps around
        is_digit = (digit < 10) & is_in
        mantissa = np.where(is_digit, 10 * mantissa + digit, mantissa)
        is_point = (found == ord(".")) & is_in
        if is_fraction.any() or is_point.any():
            places += is_digit & is_fraction
            is_fraction |= is_point
    numbers = mantissa / 10.0**places if is_fraction.any() else mantissa.astype(float)
    return np.where(characters[starts] == ord("-"), -numbers, numbers)


def _bare(block: bytes) -> bytes:
    """The block without comments, query numbers, carriage returns and tabs.

    A search for one character is almost free; for two it is not.
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
    return text


def _single_spaced(text: bytes) -> bytes:
    """The text without blank lines, without blanks that separate nothing, digits after points."""
    text = _LAST_POINT.sub(b".0", text)
    text = re.sub(rb"  +", b" ", text).replace(b" \n", b"\n").replace(b"\n ", b"\n")
    return re.sub(rb"\n\n+", b"\n", text).lstrip(b" \n")


def _is_regular(text: bytes) -> bool:
    """Whether every line is a number and then pairs digits:number, with single spaces.

    Every two characters that follow each other may do so; what remains of each
    token without its digits is a number's figure; and nothing but digits stands
    between a space and the next colon.
    """
    if not _CHARACTERS.accept(text):
        return False
    skeleton = text.translate(None, b"0123456789")
    pairs = skeleton.count(b" :")
    if pairs != skeleton.count(b" ") or pairs != skeleton.count(b":"):
        return False
    for exponent in (b"E", b"e+", b"e-"):
        skeleton = skeleton.replace(exponent, b"e")
    return _FIGURES.accept(skeleton)


def _colons_per_line(text: bytes) -> np.ndarray:
    ends_and_colons = np.frombuffer(text.translate(None, b"0123456789+-.eE "), np.uint8)
    ends = np.flatnonzero(ends_and_colons == ord("\n"))
    return np.diff(ends, prepend=-1) - 1


def _in_order(indices: np.ndarray, counts: np.ndarray, grammar: Grammar) -> bool:
    """Whether the indices are in range and ascend within each row."""
    if len(indices) == 0:
        return True
    if indices.min() < grammar.first_index or indices.max() > grammar.largest_index:
        return False
    ascends = indices[1:] > indices[:-1]
    row_ends = np.cumsum(counts)[:-1]
    ascends[row_ends[(row_ends > 0) & (row_ends < len(indices))] - 1] = True
    return bool(ascends.all())
