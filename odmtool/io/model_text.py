"""The text of a model file: numbers and sparse rows, read in bulk and checked.

A model may be large (10^7 numbers) and comes from anywhere. Nothing is
allocated by what the file declares, only by what it holds; numbers are decimal
and finite (the stock loaders also take nan, inf and hexadecimal numbers); every
complaint names the line.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from odmtool import messages
from odmtool._pattern import Pattern
from odmtool.errors import ModelError
from odmtool.io._line import real
from odmtool.io._plain import RegularLines, regular_lines

INT_MAX = 2**31 - 1
_LEADING_ZERO = Pattern(rb" 0[0-9]")

_INTEGER = Pattern(rb"[+-]?\d{1,10}")
# What should have been a number, in a row with pairs and in one without.
_TOKENS = (Pattern(rb"[^\s:]+"), Pattern(rb"\S+"))
# Bytes parsed at a time; bounds the temporaries of the bulk parser.
# speed only: that many stay in the processor's cache
_CHUNK = 2**18

_BLANK, _NEWLINE, _DIGIT, _SIGN, _COLON, _FOREIGN = range(6)
_KINDS = np.full(256, _FOREIGN, dtype=np.uint8)
for _kind, _characters in (
    (_BLANK, b" \t\r"),
    (_NEWLINE, b"\n"),
    (_DIGIT, b"0123456789"),
    (_SIGN, b"+-.eE"),
    (_COLON, b":"),
):
    _KINDS[list(_characters)] = _kind
_NUMBER_BYTES = b"0123456789+-.eE \t\r\n"


def integer(token: bytes) -> int | None:
    """A 32-bit integer, or None."""
    if _INTEGER.fullmatch(token) is None or not -INT_MAX - 1 <= int(token) <= INT_MAX:
        return None
    return int(token)


class ModelText:
    """The bytes of a model file and its name.

    Parameters
    ----------
    name : str
        As the user wrote it, for messages.
    data : bytes
        The whole file, uncompressed.
    """

    def __init__(self, name: str, data: bytes):
        self.name = name
        self.data = data

    def line(self, position: int) -> int:
        """The line, from 1, of the byte at ``position``."""
        return self.data.count(b"\n", 0, position) + 1

    def error(self, sentence: str, position: int | None = None) -> ModelError:
        """An error that names the file and, given a position, the line."""
        line = None if position is None else self.line(position)
        return ModelError(sentence, self.name, line)

    def numbers(self, start: int, end: int) -> np.ndarray:
        """All numbers between two positions, separated by white space, shape (n,).

        Raises ModelError: a token is no finite decimal number.
        """
        parts = [self._floats(low, self.data[low:high]) for low, high in self._chunks(start, end)]
        return np.concatenate(parts) if parts else np.empty(0)

    def numbers_of_line(self, start: int, count: int) -> tuple[np.ndarray, int] | None:
        """The numbers between a position and the end of its line, and where that is.

        None where there are more or fewer, or anything else.
        """
        end = self.data.find(b"\n", start)
        line = self.data[start : max(start, end)]
        if line.translate(None, _NUMBER_BYTES) or len(words := line.split()) != count:
            return None
        try:
            values = np.fromiter(map(float, words), float, count)
        except ValueError:
            return None
        return (values, end) if np.isfinite(values).all() else None

    def sparse_rows(self, start: int, end: int, n_coef: int) -> tuple[np.ndarray, ...]:
        """Lines of ``n_coef`` numbers followed by ``index:value`` pairs.

        ``start`` and ``end``: positions of the first byte and behind the last newline. Raises
        ModelError: a line has another form.

        Returns
        -------
        coef : ndarray, shape (n_lines, n_coef)
        values : ndarray, shape (n_pairs,)
        indices : ndarray of int64, shape (n_pairs,)
            As written, ascending in every line, 0 to 2^31 - 1.
        indptr : ndarray of int64, shape (n_lines + 1,)
        """
        parts = [self._sparse_chunk(low, high, n_coef) for low, high in self._chunks(start, end)]
        if not parts:
            return np.empty((0, n_coef)), np.empty(0), np.empty(0, np.int64), np.zeros(1, np.int64)
        coef, values, indices, counts = (
            np.concatenate(pieces) for pieces in zip(*parts, strict=True)
        )
        indptr = np.concatenate([[0], np.cumsum(counts)])
        wrong = indices > INT_MAX
        wrong[1:] |= np.diff(indices) <= 0
        row_starts = indptr[:-1][counts > 0]
        wrong[row_starts] = indices[row_starts] > INT_MAX
        if wrong.any():
            place = int(np.argmax(wrong))
            row = int(np.searchsorted(indptr, place, side="right")) - 1
            sentence = messages.model_index(int(indices[place]))
            raise ModelError(sentence, self.name, self.line(start) + row)
        return coef, values, indices, indptr

    def _chunks(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Pieces that end behind a newline."""
        while start < end:
            newline = self.data.find(b"\n", min(start + _CHUNK, end), end)
            stop = newline + 1 if newline >= 0 else end
            yield start, stop
            start = stop

    def _floats(self, start: int, text: bytes) -> np.ndarray:
        """The numbers of ``text``, which begins at position ``start``."""
        if not text.strip():
            return np.empty(0)  # fromstring would find a number in blanks
        if not text.translate(None, _NUMBER_BYTES):
            try:
                with warnings.catch_warnings():
                    # Older numpy warns where newer raises ValueError.
                    warnings.simplefilter("error", DeprecationWarning)
                    values = np.fromstring(text, sep=" ")
            except (ValueError, DeprecationWarning):
                raise self._bad_number(start, text) from None
            if np.isfinite(values).all():
                return values
        raise self._bad_number(start, text)

    def _bad_number(self, start: int, text: bytes) -> ModelError:
        for tokens in _TOKENS:
            for match in tokens.finditer(text):
                if real(match.group()) is None:
                    return self.error(messages.model_number(match.group()), start + match.start())
        return self.error(messages.model_number(text[:20]), start)

    def _sparse_chunk(self, low: int, high: int, n_coef: int) -> tuple[np.ndarray, ...]:
        """coef, values, indices and the number of pairs per line of some whole lines.

        With one coefficient they are those of a data file, whose reader is three times as fast.
        """
        text = self.data[low:high]
        if n_coef == 1 and (lines := _regular_lines(text)) is not None:
            return lines.first[:, None], lines.values, lines.indices.astype(np.int64), lines.counts
        kinds = _KINDS[np.frombuffer(text, dtype=np.uint8)]
        in_token = kinds >= _DIGIT
        in_token[1:] &= ~in_token[:-1]
        tokens = np.flatnonzero(in_token)
        colons = np.flatnonzero(kinds == _COLON)
        newlines = np.flatnonzero(kinds == _NEWLINE)
        if (kinds == _FOREIGN).any():
            raise self._bad_number(low, text)
        n_tokens = np.diff(np.searchsorted(tokens, newlines), prepend=0)
        n_pairs = np.diff(np.searchsorted(colons, newlines), prepend=0)
        owner = np.searchsorted(tokens, colons, side="right") - 1

        bad = n_tokens != n_coef + n_pairs
        line = np.repeat(np.arange(newlines.size), n_pairs)
        first_token = np.cumsum(n_tokens) - n_tokens
        bad[line[~self._are_pairs(kinds, tokens, colons, owner)]] = True
        bad[line[owner - first_token[line] < n_coef]] = True
        if bad.any():
            row = int(np.argmax(bad))
            position = low + (int(newlines[row - 1]) + 1 if row else 0)
            raise self.error(messages.model_row(n_coef), position)

        numbers = self._floats(low, text.replace(b":", b" "))
        index_at = owner + np.arange(colons.size)
        is_coef = np.ones(numbers.size, dtype=bool)
        is_coef[index_at] = is_coef[index_at + 1] = False
        coef = numbers[is_coef].reshape(newlines.size, n_coef)
        return coef, numbers[index_at + 1], numbers[index_at].astype(np.int64), n_pairs

    @staticmethod
    def _are_pairs(kinds, tokens, colons, owner) -> np.ndarray:
        """Which colons stand between 1 to 10 digits and the beginning of a number."""
        if colons.size == 0:
            return np.empty(0, dtype=bool)
        starts = tokens[owner]
        others = np.cumsum(kinds != _DIGIT)
        digits = (kinds[starts] == _DIGIT) & (others[colons - 1] == others[starts])
        value_follows = np.isin(kinds[colons + 1], (_DIGIT, _SIGN))
        alone = np.diff(owner, prepend=-1) > 0
        return digits & (colons - starts <= 10) & value_follows & alone


def _regular_lines(text: bytes) -> RegularLines | None:
    """What a data file's reader finds in lines that are right for a model, too; else None."""
    if text.translate(None, _NUMBER_BYTES + b":"):
        return None  # what is a comment there, for instance
    if _LEADING_ZERO.search(text):
        return None  # of such an index there may be too many digits
    lines = regular_lines(text)
    if lines is None or len(lines.counts) != text.count(b"\n"):
        return None
    is_finite = np.isfinite(lines.first).all() and np.isfinite(lines.values).all()
    return lines if is_finite and lines.indices.max(initial=0) <= INT_MAX else None
