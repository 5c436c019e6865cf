"""The reader for small inputs: no compiled code, so that no time goes into loading numba.

A block of whole lines is brought into one canonical form (single spaces, no
comments, no blank lines), checked as a whole with table look-ups, and converted
eight digits of all numbers at a time, rounded correctly as Python's ``float`` does.
A block that does not pass is read line by line by :mod:`odmtool.io._line`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from odmtool._pattern import Pattern
from odmtool.errors import DataError
from odmtool.io._line import Grammar, parse_line
from odmtool.io._part import ParsedLines, WrongLine, assemble, joined


def read_block(block: bytes, grammar: Grammar) -> ParsedLines:
    """Read a block of whole lines, each ended by LF.

    Raises
    ------
    WrongLine
        The first line that the grammar does not allow.
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

# Larger arrays would be new memory, which is slow, every time.
_PIECE_BYTES = 1 << 16

_COMMENT = Pattern(rb"#[^\n]*")
# A number may end with its point; a digit more after it keeps the tables below simple.
_LAST_POINT = Pattern(rb"(?<=[0-9])\.(?=[ \neE])")
_QID = Pattern(rb"^( *[^ \n]+ +)qid:[0-9]+(?=[ \n])", re.MULTILINE)


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
# Without digits and signs.
_AFTER_POINT = _EXPONENT | _SPACE | _NEWLINE
_FIGURES = _Neighbours({
    _SPACE: (b" ", _COLON),
    _NEWLINE: (b"\n", _POINT | _AFTER_POINT),
    _COLON: (b":", _POINT | _AFTER_POINT),
    _POINT: (b".", _AFTER_POINT),
    _EXPONENT: (b"eE", _SPACE | _NEWLINE),
})  # fmt: skip
_IS_FIGURE = bytes(character in b" \n:.eE" for character in range(256))
_IS_END = bytes(character in b" \n:" for character in range(256))


def _pieces(block: bytes) -> Iterator[bytes]:
    """Some lines of a block at a time."""
    start, end = 0, -1
    while end < len(block):
        end = block.find(b"\n", start + _PIECE_BYTES) + 1 or len(block)
        yield block[start:end]
        start = end


def _read_regular(block: bytes, grammar: Grammar) -> ParsedLines | None:
    """Read the lines as one array of numbers; None where the careful way is needed."""
    text = _bare(block)
    skeleton = _skeleton(text)
    if skeleton is None:
        text = _single_spaced(text)
        skeleton = _skeleton(text)
        if skeleton is None:
            return None
    counts, numbers = _colons_per_line(skeleton), _numbers(text, skeleton)
    is_label = np.zeros(len(numbers), bool)
    is_label[np.cumsum(1 + 2 * counts) - (1 + 2 * counts)] = True
    labels, numbers = numbers[is_label], numbers[~is_label]
    indices, values = numbers[0::2], numbers[1::2].copy()
    if not _in_order(indices, counts, grammar):
        return None
    return assemble(
        block, labels, counts.astype(np.int32), indices.astype(np.int32), values, grammar
    )


_EXACT_MANTISSA = 2**53
_EXACT_POWERS = np.array([float(10**places) for places in range(23)])


def _numbers(text: bytes, skeleton: bytes) -> np.ndarray:
    """All numbers of a regular text in their order: labels, indices and values.

    Without its point a number is an integer of at most 2**53, divided by at most 10**22. Both
    are doubles, so that only the division rounds (Clinger, How to read floating point numbers
    accurately, 1990). The numbers of which this is not true are left to Python.
    """
    figures = np.flatnonzero(np.frombuffer(text.translate(_IS_FIGURE), bool))
    is_end = np.frombuffer(skeleton.translate(_IS_END), bool)
    ends, inner = figures[is_end], np.flatnonzero(~is_end)
    owner = inner - np.arange(len(inner))  # the number in which a point or an exponent stands
    is_point = np.frombuffer(skeleton, np.uint8)[inner] == ord(".")
    pointed, points = owner[is_point], inner[is_point]
    places = figures[points + 1] - figures[points] - 1
    removed = np.cumsum(np.bincount(pointed, minlength=len(ends))) if len(pointed) else 0

    mantissas, is_minus, is_late = _mantissas(text.translate(None, b"."), ends - removed)
    is_late |= mantissas > _EXACT_MANTISSA
    is_late[owner[~is_point]] = True
    is_late[pointed[places >= len(_EXACT_POWERS)]] = True
    numbers = mantissas.astype(float)
    numbers[pointed] /= _EXACT_POWERS[np.minimum(places, len(_EXACT_POWERS) - 1)]
    np.negative(numbers, out=numbers, where=is_minus)
    starts = np.concatenate(([0], ends[:-1] + 1))
    for late in np.flatnonzero(is_late).tolist():
        numbers[late] = float(text[starts[late] : ends[late]])
    return numbers


_WORD = 8
"""Digits that are read together, each in a byte of a word, the first one in the lowest."""
_OF_DIGITS = 0x0F0F0F0F0F0F0F0F
# By the number of digits: they are the last ones of the word.
_KEPT = np.array([_OF_DIGITS << 8 * (_WORD - n) & _OF_DIGITS for n in range(_WORD + 1)], np.uint64)


def _mantissas(text: bytes, ends: np.ndarray):
    """The integers that end before the places ``ends``, one behind each character that is no
    digit or sign.

    Returns
    -------
    mantissas : ndarray of uint64, shape (n,)
    is_minus : ndarray of bool, shape (n,)
    is_long : ndarray of bool, shape (n,)
        The integer has more than 16 digits besides leading zeros, or many of these.
    """
    lengths = np.diff(ends, prepend=-1) - 1
    first = np.frombuffer(text, np.uint8)[ends - lengths]
    is_minus, is_long = first == ord("-"), np.zeros(len(ends), bool)
    lengths -= is_minus | (first == ord("+"))
    words = np.ndarray(len(text) + 1, "<u8", bytes(_WORD) + text, strides=(1,))
    mantissas = _integers(words[ends], lengths)
    more = np.flatnonzero(lengths > _WORD)
    lengths, ends = lengths[more] - _WORD, ends[more] - _WORD
    mantissas[more] += _integers(words[ends], lengths) * np.uint64(10**_WORD)
    is_more = lengths > _WORD
    more, lengths, ends = more[is_more], lengths[is_more] - _WORD, ends[is_more] - _WORD
    is_long[more] = (_integers(words[ends], lengths) > 0) | (lengths > _WORD)
    return mantissas, is_minus, is_long


def _integers(words: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The integers of so many last digits of each word, which is overwritten.

    Neighbours are joined: digits to pairs, pairs to fours, and fours to eights.
    """
    words &= _KEPT[np.minimum(lengths, _WORD)]
    for factor, shift, kept in (
        (10 * 2**8 + 1, 8, 0x00FF00FF00FF00FF),
        (100 * 2**16 + 1, 16, 0x0000FFFF0000FFFF),
        (10_000 * 2**32 + 1, 32, 0x00000000FFFFFFFF),
    ):
        words *= np.uint64(factor)
        words >>= np.uint64(shift)
        words &= np.uint64(kept)
    return words


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


def _skeleton(text: bytes) -> bytes | None:
    """What is left without digits and signs, if the text is regular.

    Every line is a number and then pairs digits:number, with single spaces: every two characters
    that follow each other may do so, and every two that do in the skeleton.
    """
    if not _CHARACTERS.accept(text):
        return None
    skeleton = text.translate(None, b"0123456789+-")
    return skeleton if _FIGURES.accept(skeleton) else None


def _colons_per_line(skeleton: bytes) -> np.ndarray:
    ends_and_colons = np.frombuffer(skeleton.translate(None, b".eE "), np.uint8)
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
