"""Integers from their digits in a text, for whole arrays of them at once."""

from __future__ import annotations

import numpy as np

LONGEST = 8
"""Digits that are read together, each in a byte of a word, the first one in the lowest."""
_OF_DIGITS = 0x0F0F0F0F0F0F0F0F
# Neighbours are joined: digits to pairs, pairs to fours, and fours to eights.
_JOINS = (
    (10 * 2**8 + 1, 8, 0x00FF00FF00FF00FF),
    (100 * 2**16 + 1, 16, 0x0000FFFF0000FFFF),
    (10_000 * 2**32 + 1, 32, 0x00000000FFFFFFFF),
)


class _Words:
    """Words of 1, 2, 4 or 8 digits."""

    def __init__(self, size: int):
        self.size, self.kind = size, np.dtype(f"<u{size}")
        whole = 2 ** (8 * size) - 1
        self._joins = [
            [self.kind.type(number & whole) for number in join]
            for join in _JOINS[: size.bit_length() - 1]
        ]
        # By the number of digits: they are the last ones of the word.
        kept = [_OF_DIGITS << 8 * (size - n) & _OF_DIGITS & whole for n in range(size + 1)]
        self._kept = np.array(kept, self.kind)

    def integers(self, text: bytes, ends: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """The integers of so many last digits before places of a text, which ``LONGEST`` bytes of
        no meaning precede."""
        words = np.ndarray(
            len(text) - LONGEST + 1, self.kind, text, offset=LONGEST - self.size, strides=(1,)
        )[ends]
        words &= self._kept.take(lengths, mode="clip")
        for factor, shift, kept in self._joins:
            words *= factor
            words >>= shift
            words &= kept
        return words


_WORDS = [_Words(size) for size in (1, 2, 4, 8)]


def integers_before(
    text: bytes, ends: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The integers of so many digits before places of a text, which ``LONGEST`` bytes precede.

    Returns
    -------
    integers : ndarray of unsigned int, shape (n,)
    is_long : ndarray of bool, shape (n,)
        The integer has more than 16 digits besides leading zeros, or many of these.
    """
    longest, is_long = lengths.max(initial=0), np.zeros(len(ends), bool)
    words = next((words for words in _WORDS if words.size >= longest), _WORDS[-1])
    integers = words.integers(text, ends, lengths)
    if longest > LONGEST:
        more = np.flatnonzero(lengths > LONGEST)
        lengths, ends = lengths[more] - LONGEST, ends[more] - LONGEST
        integers[more] += words.integers(text, ends, lengths) * np.uint64(10**LONGEST)
        is_more = lengths > LONGEST
        more, lengths, ends = more[is_more], lengths[is_more] - LONGEST, ends[is_more] - LONGEST
        is_long[more] = (words.integers(text, ends, lengths) > 0) | (lengths > LONGEST)
    return integers, is_long
