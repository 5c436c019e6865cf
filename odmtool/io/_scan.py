"""The reader for large inputs: compiled loops over the bytes of a block.

:func:`_split` cuts a block into labels and index:value pairs and checks their
order; :func:`_convert` reads the numbers at the places it has noted. A block that
either does not accept goes to the careful reader, which finds the wrong line.

The loops hold no calls that pass arrays: numba would count references around
each of them, which costs more than the work. A block ends with LF, so no loop
needs to look for its end.

Numbers are correctly rounded. With the digits read as an integer m and the
value m * 10**e there are three ways, all exact:

- m <= 2**53 and abs(e) <= 22: m and 10**abs(e) are doubles, one multiplication or
  division rounds once (Clinger, How to read floating point numbers accurately, 1990).
- m < 10**19 and abs(e) <= 250: m * 10**e to about 100 bits, as a sum of two doubles.
  If adding and subtracting the error bound gives the same double, it is the
  answer (the rounding test of Ziv, Fast evaluation of elementary mathematical
  functions with correctly rounded last bit, 1991).
- Anything else is noted down, and Python's ``float`` reads it.
"""

from __future__ import annotations

import threading

import numpy as np

from odmtool._jit import njit
from odmtool.io._line import NUMBER, Grammar
from odmtool.io._part import ParsedLines, assemble
from odmtool.io._plain import read_line_by_line
from odmtool.io._powers import LARGEST_POWER, exact_product, powers_of_ten

_TAB, _NEWLINE, _RETURN, _SPACE, _HASH, _PLUS, _MINUS, _POINT, _ZERO, _NINE, _COLON = (
    ord(character) for character in "\t\n\r #+-.09:"
)
_UPPER_E, _LOWER_E, _Q, _I, _D = (ord(character) for character in "Eeqid")

_MOST_DIGITS = 19  # 10**19 < 2**64
_EXACT_POWER = 22
_EXACT_MANTISSA = np.uint64(2**53)
_RELATIVE_ERROR = 2.0**-98
_HUGE = 10**15  # larger than any text is long, so that it never cancels the places of a fraction


# ---- compiled ----------------------------------------------------------------


@njit
def _in_token(character):
    """Whether the character neither ends a token nor begins a comment."""
    return character not in (_SPACE, _NEWLINE, _HASH, _RETURN, _TAB)


@njit
def _after_qid(text, position):
    """The place after ``qid:digits``, or -1."""
    for character in (_Q, _I, _D, _COLON):
        if text[position] != character:
            return -1
        position += 1
    start = position
    while _ZERO <= text[position] <= _NINE:
        position += 1
    return -1 if position == start or _in_token(text[position]) else position


@njit
def _split(text, first_index, largest_index, labels, counts, indices, values):
    """Cut a block of lines, each ended by LF, into labels and index:value pairs.

    text : uint8 (n,). labels, counts : room for n/2 + 1 rows. indices, values :
    room for n/3 pairs (`` 1:``: what is not yet known to be right is cut, too).
    Filled in: where each label starts, the number of pairs of its row, the
    indices, and where their values start.

    Returns the numbers of rows and pairs; -1 rows if a line is wrong.
    """
    position, rows, pairs = 0, 0, 0
    while position < len(text):
        while text[position] == _SPACE or text[position] == _TAB:
            position += 1
        labels[rows] = position
        while _in_token(text[position]):
            position += 1
        has_label = position > labels[rows]
        while text[position] == _SPACE or text[position] == _TAB:
            position += 1
        if text[position] == _Q:
            position = _after_qid(text, position)
            if position < 0:
                return -1, 0
        before, last = pairs, first_index - 1
        while True:
            while text[position] == _SPACE or text[position] == _TAB:
                position += 1
            if not _in_token(text[position]):
                break
            start, index = position, 0
            while _ZERO <= text[position] <= _NINE:
                index = min(index * 10 + np.int64(text[position]) - _ZERO, _HUGE)
                position += 1
            in_order = last < index <= largest_index
            if not in_order or position == start or text[position] != _COLON:
                return -1, 0
            position += 1
            indices[pairs], values[pairs] = index, position
            pairs, last = pairs + 1, index
            while _in_token(text[position]):
                position += 1
        if text[position] == _HASH:
            while text[position] != _NEWLINE:
                if text[position] == 0:
                    return -1, 0
                position += 1
        elif text[position] == _RETURN:
            position += 1
        if text[position] != _NEWLINE:
            return -1, 0
        position += 1
        counts[rows] = pairs - before
        rows += has_label
    return rows, pairs


@njit
def _product(mantissa, power, power_low):
    """mantissa * (power + power_low), rounded, and whether the rounding is certain.

    mantissa : uint64 below 10**19. power, power_low : an entry of powers_of_ten.
    """
    high = np.float64(mantissa)
    whole = np.uint64(high)
    low = np.float64(mantissa - whole) if mantissa >= whole else -np.float64(whole - mantissa)
    value, rest = exact_product(high, power)
    rest += high * power_low + low * power
    # The same sum with abs(rest) at most half a unit in the last place of total. What
    # was left out and rounded away is below 2**-101 of it.
    total = value + rest
    rest -= total - value
    error = _RELATIVE_ERROR * total
    return total, total + (rest + error) == total and total + (rest - error) == total


@njit
def _significant(text, position, end):
    """How many digits from ``position`` to ``end`` follow the leading zeros."""
    while position < end and (text[position] == _ZERO or text[position] == _POINT):
        position += 1
    count = 0
    for place in range(position, end):
        count += text[place] != _POINT
    return count


@njit
def _exponent(text, position):
    """Read what follows the letter e: the place after it, and the exponent.

    The place is -1 if there are no digits.
    """
    negative = text[position] == _MINUS
    if negative or text[position] == _PLUS:
        position += 1
    start, exponent = position, 0
    while _ZERO <= text[position] <= _NINE:
        exponent = min(exponent * 10 + np.int64(text[position]) - _ZERO, _HUGE)
        position += 1
    return position if position > start else -1, -exponent if negative else exponent


@njit
def _convert(text, starts, powers, numbers, deferred):
    """Read the numbers that start at ``starts`` and end with their tokens.

    Fills in numbers, and in deferred which of them are left to do. Returns how
    many are left; -1 if a token is no number.
    """
    late = 0
    for item in range(len(starts)):
        position = starts[item]
        negative = text[position] == _MINUS
        if negative or text[position] == _PLUS:
            position += 1
        first, mantissa = position, np.uint64(0)
        while _ZERO <= text[position] <= _NINE:
            mantissa = mantissa * np.uint64(10) + np.uint64(text[position] - _ZERO)
            position += 1
        digits, exponent = position - first, 0
        if text[position] == _POINT:
            position += 1
            point = position
            while _ZERO <= text[position] <= _NINE:
                mantissa = mantissa * np.uint64(10) + np.uint64(text[position] - _ZERO)
                position += 1
            exponent = point - position
            digits -= exponent
        if digits == 0:
            return -1
        if digits > _MOST_DIGITS:
            digits = _significant(text, first, position)
        if text[position] == _LOWER_E or text[position] == _UPPER_E:
            position, shift = _exponent(text, position + 1)
            exponent += shift
        if position < 0 or _in_token(text[position]):
            return -1
        value, certain = 0.0, False
        if digits <= _MOST_DIGITS and -LARGEST_POWER <= exponent <= LARGEST_POWER:
            if mantissa > _EXACT_MANTISSA or abs(exponent) > _EXACT_POWER:
                power = powers[LARGEST_POWER + exponent]
                value, certain = _product(mantissa, power[0], power[1])
            elif exponent < 0:
                value, certain = np.float64(mantissa) / powers[LARGEST_POWER - exponent, 0], True
            else:
                value, certain = np.float64(mantissa) * powers[LARGEST_POWER + exponent, 0], True
        if not certain:
            deferred[late] = item
            late += 1
        numbers[item] = -value if negative else value
    return late


# ---- around the compiled code ------------------------------------------------


class _Room(threading.local):
    """The arrays that one thread cuts its blocks into, as large as its largest block."""

    def __init__(self):
        self.size = -1

    def arrays(self, size: int):
        """labels, counts, indices, values of :func:`_split` for a block of ``size`` bytes."""
        if size > self.size:
            self.size, rows, pairs = size, size // 2 + 2, size // 3 + 1
            dtypes = ((rows, np.int64), (rows, np.int32), (pairs, np.int32), (pairs, np.int64))
            self._arrays = [np.empty(*each) for each in dtypes]
        return self._arrays


_room = _Room()


def read_block(block: bytes, grammar: Grammar) -> ParsedLines:
    """Read a block of whole lines, each ended by LF. Other threads run meanwhile.

    Raises WrongLine for the first line that the grammar does not allow.
    """
    text = np.frombuffer(block, np.uint8)
    labels, counts, indices, values = _room.arrays(len(block))
    with np.errstate(over="ignore"):  # without compiling, numpy minds that mantissas wrap around
        rows, pairs = _split(
            text, grammar.first_index, grammar.largest_index, labels, counts, indices, values
        )
        if rows >= 0:
            labels = _numbers(block, text, labels[:rows])
            values = _numbers(block, text, values[:pairs])
    part = None
    if rows >= 0 and labels is not None and values is not None:
        part = assemble(block, labels, counts[:rows], indices[:pairs], values, grammar)
    return part or read_line_by_line(block, grammar)


def _numbers(block: bytes, text: np.ndarray, starts: np.ndarray) -> np.ndarray | None:
    """The numbers at the places ``starts`` of the block; None if one of them is none."""
    numbers = np.empty(len(starts))
    deferred = np.empty(len(starts), np.int64)
    late = _convert(text, starts, powers_of_ten(), numbers, deferred)
    if late < 0:
        return None
    for item in deferred[:late].tolist():
        numbers[item] = float(NUMBER.match(block, starts[item])[0])
    return numbers
