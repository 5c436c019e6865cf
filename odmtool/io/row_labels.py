"""The labels of a data file before its rows are parsed: words become integers, missing ones 0.

The first row decides what they are, so that a slip in a file of numbers is not a class more. A
word becomes the number of different words before it; who has read the whole file can sort them
(:func:`in_order`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from odmtool import messages
from odmtool._pattern import Pattern
from odmtool.errors import DataError, FileError
from odmtool.io._line import is_word, not_a_word

NUMBERS, WORDS, MISSING = "numbers", "words", "missing"

_NAME_BYTES = 250  # of a word, its number, and their places in a list and a dictionary

_MOST_WITHOUT_A_ROW = 1 << 28  # bytes, so that endless blank lines do not fill the memory

_LABEL = Pattern(rb"^[ \t]*([^ \t\r\n#]+)", re.MULTILINE)
_A_LABEL = Pattern(rb"^[ \t]*([^ \t\r\n#:]+)(?![^ \t\r\n#])", re.MULTILINE)
_ROW_START = Pattern(rb"^(?![ \t]*#)", re.MULTILINE)


class WrongLabel(Exception):
    """A label is wrong; ``start`` is where its line begins, and ``sentence`` the reason."""

    def __init__(self, start: int, sentence: str):
        super().__init__(start, sentence)
        self.start, self.sentence = start, sentence


class RowLabels:
    """Makes integers of the labels of a file, block by block.

    ``may_miss``: the first row may begin with ``index:value``: then no row has a label. Blank lines
    of such a file are rows, too; lines of a comment only are none. The blocks must have passed
    :func:`from_first_row`.

    Attributes
    ----------
    kind : str or None
        NUMBERS, WORDS or MISSING; None as long as there was no row.
    names : list of str
        The words, by first appearance.
    bytes : int
        About what they take in memory.
    """

    def __init__(self, may_miss: bool = False):
        self.kind: str | None = None
        self.names: list[str] = []
        self.bytes = 0
        self.may_miss = may_miss
        self._codes: dict[bytes, bytes] = {}

    def integers(self, block: bytes) -> tuple[bytes, WrongLabel | None]:
        """A block of whole lines with integers for labels, up to the first label that is wrong.

        Of numbers it is what it was: their reader finds the wrong one.
        """
        if self.kind is None and (first := _LABEL.search(block)):
            missing = self.may_miss and b":" in first[1]
            self.kind = MISSING if missing else WORDS if is_word(first[1]) else NUMBERS
        if self.kind == MISSING:
            found = _A_LABEL.search(block)
            wrong = found and WrongLabel(found.start(), messages.label_without_need(found[1]))
            rows = block[: found.start()] if found else block
            return _ROW_START.sub(b"0 ", rows[:-1]) + rows[-1:], wrong
        if self.kind != WORDS:
            return block, None
        try:
            return _LABEL.sub(self._integer, block), None
        except WrongLabel as wrong:
            return _LABEL.sub(self._integer, block[: wrong.start]), wrong

    def _integer(self, match: re.Match) -> bytes:
        code = self._codes.get(match[1])
        if code is None:
            if not is_word(match[1]):
                raise WrongLabel(match.start(), not_a_word(match[1], self.names[0]))
            code = self._codes[match[1]] = b"%d" % len(self.names)
            self.names.append(match[1].decode())
            self.bytes += _NAME_BYTES + 2 * len(match[1])
        return code


def from_first_row(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The blocks, the first of which go together until one has a row.

    What the blank lines at the beginning are is not known before, and must not depend on how
    many of them have come together.
    """
    held, blocks = bytearray(), iter(blocks)
    try:
        for block in blocks:
            held += block
            if _LABEL.search(block):
                break
            if len(held) > _MOST_WITHOUT_A_ROW:
                raise DataError(messages.no_row_so_far(_MOST_WITHOUT_A_ROW))
    except (DataError, FileError):
        yield bytes(held)  # its lines are counted, and one that is wrong comes first
        raise
    yield bytes(held)
    yield from blocks


def in_order(names: Sequence[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """The words sorted, and the place of each in that order, int64."""
    order = sorted(range(len(names)), key=names.__getitem__)
    places = np.empty(len(names), np.int64)
    places[order] = np.arange(len(names))
    return tuple(names[k] for k in order), places
