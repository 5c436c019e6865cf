"""One line of svmlight text: its grammar, slowly and exactly, and what is wrong with it.

::

    line    = [blanks] [row [blanks]] [# anything but NUL] [CR] LF
    row     = label {blanks index:value}          label [blanks qid:digits] {...}
    label   = number | word                       all of a file are numbers, or all are words
    number  = [+-] (digits [. [digits]] | . digits) [(e|E) [+-] digits]
    index   = digits                              blanks = spaces and tabs
    word    = UTF-8 characters but white space, control characters, byte order marks and : , ; #
              that are together neither a number nor nan, inf or infinity with or without a sign

What the first label of a file is, all must be. Words are replaced by integers before a line is
parsed (:mod:`odmtool.io.row_labels`), so that all readers know numbers only.

The fast readers must accept exactly what :func:`parse_line` accepts and read the
same numbers. They hand it every line that they do not accept, so that a fault has
one sentence, whoever found it.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from odmtool import messages
from odmtool._pattern import Pattern
from odmtool.defaults import DECIMAL
from odmtool.errors import DataError

LARGEST_INDEX = 2**31 - 1
LABEL_RANGE = (-(2**31), 2**31 - 1)

NUMBER = Pattern(DECIMAL.encode())
_NOT_FINITE = Pattern(rb"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_WORD = Pattern(r"[^\s\x00-\x1f\x7f-\x9f:,;#\ufeff]+")
_QID = Pattern(rb"qid:[0-9]+")
_CONTROL = Pattern(rb"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]")
_BYTE_ORDER_MARKS = (
    (b"\xef\xbb\xbf", "UTF-8"),
    (b"\xff\xfe", "UTF-16LE"),
    (b"\xfe\xff", "UTF-16BE"),
)


class Grammar(NamedTuple):
    """Which of the variants of the format a file has."""

    zero_based: bool = False  # indices count from 0
    real_labels: bool = False  # labels are any finite numbers, not just integers
    precomputed: bool = False  # every row starts with ``0:serial``, and column j holds index j
    any_serial: bool = False  # the serial is any finite number: of a row to predict it says nothing

    @property
    def first_index(self) -> int:
        """The index that goes to column 0."""
        return 0 if self.zero_based or self.precomputed else 1

    @property
    def largest_index(self) -> int:
        """The index that goes to the last column an int32 can count."""
        return LARGEST_INDEX - 1 + self.first_index


def real(token: bytes) -> float | None:
    """A finite decimal number, or None."""
    value = float(token) if NUMBER.fullmatch(token) else math.inf
    return value if math.isfinite(value) else None


class ParsedLine(NamedTuple):
    """A label, and the indices (as written, ascending) and values after it."""

    label: float
    indices: list[int]
    values: list[float]


class _Fault(Exception):
    """What is wrong, without the place."""


def is_word(token: bytes) -> bool:
    """Whether a token is a label in words."""
    try:
        text = token.decode()
    except UnicodeDecodeError:
        return False
    is_number = NUMBER.fullmatch(token) or _NOT_FINITE.fullmatch(token)
    return not is_number and _WORD.fullmatch(text) is not None


def not_a_word(token: bytes, first: str) -> str:
    """Why a token is not a label where the first one of the file, ``first``, is a word."""
    if b"\0" in token:
        return messages.nul_byte()
    if _CONTROL.search(token):
        return messages.control_character(token)
    if b":" in token:
        return messages.label_missing(token)
    if _NOT_FINITE.fullmatch(token):
        return messages.label_not_finite(token)
    if NUMBER.fullmatch(token):
        return messages.label_is_a_number(token, first)
    return messages.label_not_a_word(token)


def parse_line(line: bytes, number: int, file: str, grammar: Grammar) -> ParsedLine | None:
    """Read one line, without its newline; None if it is blank or a comment.

    Raises DataError: the line is wrong; the sentence says how.
    """
    try:
        return _parse(line, number == 1, grammar)
    except _Fault as fault:
        raise DataError(messages.wrong_format(number, str(fault)), file, number) from None


def _parse(line: bytes, is_first: bool, grammar: Grammar) -> ParsedLine | None:
    for mark, encoding in _BYTE_ORDER_MARKS:
        if is_first and line.startswith(mark):
            raise _Fault(messages.byte_order_mark(encoding))
    if b"\0" in line:
        raise _Fault(messages.nul_byte())
    text, comment, _ = line.partition(b"#")
    if not comment:
        text = text.removesuffix(b"\r")
    if b"\r" in text:
        raise _Fault(messages.carriage_return())
    tokens = text.replace(b"\t", b" ").split(b" ")
    tokens = [token for token in tokens if token]
    if not tokens:
        return None
    for token in tokens:
        if _CONTROL.search(token):
            raise _Fault(messages.control_character(token))
        if not (token.isascii() or token is tokens[0] and is_word(token)):
            raise _Fault(messages.not_ascii(token))
    label = _label(tokens[0], grammar)
    entries = tokens[1:]
    if entries and entries[0].startswith(b"qid:"):
        if not _QID.fullmatch(entries[0]):
            raise _Fault(messages.wrong_qid(entries[0]))
        entries = entries[1:]
    if grammar.precomputed and not entries:
        raise _Fault(messages.serial_missing(b""))
    indices, values = [], []
    for token in entries:
        index, value = _entry(token, indices[-1] if indices else None, grammar)
        indices.append(index)
        values.append(value)
    return ParsedLine(label, indices, values)


def _label(token: bytes, grammar: Grammar) -> float:
    if b":" in token:
        raise _Fault(messages.label_missing(token))
    if _NOT_FINITE.fullmatch(token):
        raise _Fault(messages.label_not_finite(token))
    if is_word(token):
        raise _Fault(messages.label_is_a_word(token))
    if not NUMBER.fullmatch(token):
        raise _Fault(messages.label_not_a_number(token))
    label = float(token)
    if not math.isfinite(label):
        raise _Fault(messages.label_not_finite(token))
    if grammar.real_labels:
        return label
    if label != math.floor(label):
        raise _Fault(messages.label_not_an_integer(token))
    if not LABEL_RANGE[0] <= label <= LABEL_RANGE[1]:
        raise _Fault(messages.label_out_of_range(token))
    return label


def _entry(token: bytes, previous: int | None, grammar: Grammar) -> tuple[int, float]:
    """Index and value of one token; ``previous`` is the index before it in the row."""
    text, colon, number = token.partition(b":")
    if not colon:
        raise _Fault(messages.not_index_value(token))
    index = _index(token, text, previous, grammar)
    value = _value(token, number)
    if grammar.precomputed and previous is None:
        if index != 0:
            raise _Fault(messages.serial_missing(token))
        is_serial = value == math.floor(value) and 1 <= value <= LARGEST_INDEX
        if not (is_serial or grammar.any_serial):
            raise _Fault(messages.serial_not_positive(token))
    return index, value


def _index(token: bytes, text: bytes, previous: int | None, grammar: Grammar) -> int:
    if not text:
        raise _Fault(messages.index_missing(token))
    if text[:1] == b"-" and text[1:].isdigit():
        raise _Fault(messages.index_negative(token))
    if not text.isdigit():
        raise _Fault(messages.index_not_whole(token))
    # int() refuses thousands of digits, and leading zeros count for nothing.
    digits = text.lstrip(b"0") or b"0"
    if len(digits) > 10 or int(digits) > grammar.largest_index:
        raise _Fault(messages.index_too_large(token, grammar.largest_index))
    index = int(digits)
    if index < grammar.first_index:
        raise _Fault(messages.index_zero(token))
    if previous is not None and index <= previous:
        same = index == previous
        raise _Fault(
            messages.index_repeated(token) if same else messages.index_descending(token, previous)
        )
    return index


def _value(token: bytes, text: bytes) -> float:
    if not text:
        raise _Fault(messages.value_missing(token))
    if _NOT_FINITE.fullmatch(text):
        raise _Fault(messages.value_not_finite(token))
    if not NUMBER.fullmatch(text):
        raise _Fault(messages.value_not_a_number(token))
    value = float(text)
    if not math.isfinite(value):
        raise _Fault(messages.value_too_large(token))
    return value
