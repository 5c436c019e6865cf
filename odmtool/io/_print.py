"""The writer for large models: numbers as ``%.17g`` writes them, in compiled loops.

:func:`_digits` finds the 17 significant digits of every number, :func:`_text` writes them.

A number x with 10**e <= x < 10**(e + 1) has as digits the integer nearest to x * 10**(16 - e).
The product is known to about 100 bits, as a sum of two doubles, the first of which is an integer
as it is above 2**53. Where the second one is not clearly on one side of the middle between two
integers, and beyond the powers of ten at hand, the number is noted down, and Python writes it.
"""

from __future__ import annotations

import numpy as np

from odmtool import _jit
from odmtool._jit import njit
from odmtool.io._powers import LARGEST_POWER, exact_product, powers_of_ten
from odmtool.io._short import DIGITS as _FEW_DIGITS
from odmtool.io._short import short_decimals

_MINUS, _POINT, _ZERO, _COLON, _SPACE, _NEWLINE, _LOWER_E, _PLUS = (
    ord(character) for character in "-.0: \ne+"
)
_DIGITS = 17
_LEAST, _MOST = 1e16, 1e17  # what has 17 digits before the point
# Sizes whose powers are in the table, and whose products are neither too small nor too large.
_SMALLEST, _LARGEST = 1e-230, 1e230
# The second double is at most 8, and wrong by far less than this.
_UNCERTAIN = 2.0**-30
# Bytes: an index and its colon, the number, a space, the end of a line.
_LONGEST = 11 + 24 + 1 + 1
NO_INDEX = -1


# ---- compiled ----------------------------------------------------------------


@njit
def _digits(numbers, powers, digits, exponents, deferred):
    """The 17 digits of every number, and the exponent of the first one.

    numbers : float (n,), finite. powers : :func:`powers_of_ten`. Filled in: digits, int64 (n,),
    exponents, int64 (n,), of 0 both 0; and in deferred, int64 (n,), which numbers are left to
    do. Returns how many are left.
    """
    late = 0
    for item in range(len(numbers)):
        size = abs(numbers[item])
        digits[item] = exponents[item] = 0
        if size == 0.0:
            continue
        part = 0.5
        if _SMALLEST < size < _LARGEST:
            exponent = int(np.floor(np.log10(size)))
            # The logarithm is rounded, and may be that of the power of ten beside.
            for _ in range(2):
                power = LARGEST_POWER + _DIGITS - 1 - exponent
                whole, rest = exact_product(size, powers[power, 0])
                rest += size * powers[power, 1]
                if whole > _MOST or (whole == _MOST and rest > _UNCERTAIN):
                    exponent += 1
                elif whole < _LEAST or (whole == _LEAST and rest < -_UNCERTAIN):
                    exponent -= 1
                else:
                    break
            below = np.floor(rest)
            part = rest - below
            digits[item] = np.int64(whole) + np.int64(below) + (part > 0.5)
            exponents[item] = exponent
            if digits[item] == 10**_DIGITS:
                digits[item], exponents[item] = 10 ** (_DIGITS - 1), exponent + 1
        if abs(part - 0.5) < _UNCERTAIN:
            deferred[late] = item
            late += 1
    return late


@njit
def _text(numbers, digits, exponents, indices, ends, text):
    """Write ``number `` or ``index:number `` for every number, and LF behind some of them.

    digits, exponents : of :func:`_digits`; numbers give the signs. indices : int64 (n,), NO_INDEX
    where there is none. ends : bool (n,), the last number of a line. text : uint8, room for
    _LONGEST n bytes, filled from its end, as digits come last digit first. Returns where it begins.
    """
    position = len(text)
    for item in range(len(digits) - 1, -1, -1):
        if ends[item]:
            position -= 1
            text[position] = _NEWLINE
        position -= 1
        text[position] = _SPACE
        exponent, rest = exponents[item], digits[item]
        count, whole = _DIGITS, 1  # digits in all, and before the point
        if not -4 <= exponent < _DIGITS:
            power = abs(exponent)
            for _ in range(3 if power > 99 else 2):
                position -= 1
                text[position] = _ZERO + power % 10
                power //= 10
            text[position - 1] = _MINUS if exponent < 0 else _PLUS
            text[position - 2] = _LOWER_E
            position -= 2
        elif exponent < 0:
            count -= exponent
        else:
            whole += exponent
        if rest == 0:
            count = whole
        while count > whole and rest % 10 == 0:
            rest //= 10
            count -= 1
        for place in range(count):
            if place > 0 and place == count - whole:
                position -= 1
                text[position] = _POINT
            position -= 1
            text[position] = _ZERO + rest % 10
            rest //= 10
        if np.signbit(numbers[item]):
            position -= 1
            text[position] = _MINUS
        index = indices[item]
        if index != NO_INDEX:
            position -= 1
            text[position] = _COLON
            while index >= 0:
                position -= 1
                text[position] = _ZERO + index % 10
                index = index // 10 if index > 9 else NO_INDEX
    return position


# ---- around the compiled code ------------------------------------------------


def written(numbers: np.ndarray, ends: np.ndarray, indices: np.ndarray | None = None) -> bytes:
    """``number `` or ``index:number `` for every number, and LF behind some of them.

    A number behind an index has 15 digits where these lose nothing.

    Parameters
    ----------
    numbers : ndarray, shape (n,)
        Finite.
    ends : ndarray of bool, shape (n,)
        The last number of a line.
    indices : ndarray of int64, shape (n,), optional
        0 to 2^31 - 1, or NO_INDEX.
    """
    n = len(numbers)
    digits, exponents, deferred = np.empty((3, n), np.int64)
    late = _digits(numbers, powers_of_ten(), digits, exponents, deferred)
    for item in deferred[:late].tolist():
        significand, _, exponent = f"{abs(numbers[item]):.16e}".partition("e")
        digits[item], exponents[item] = int(significand.replace(".", "")), int(exponent)
    if indices is None:
        indices = np.full(n, NO_INDEX)
    else:
        is_short, few_digits, few_exponents = short_decimals(numbers)
        which = np.flatnonzero(is_short)
        is_value = indices[which] != NO_INDEX
        digits[which[is_value]] = few_digits[is_value] * 10 ** (_DIGITS - _FEW_DIGITS)
        exponents[which[is_value]] = few_exponents[is_value]
    text = np.empty(_LONGEST * n, np.uint8)
    return text[_text(numbers, digits, exponents, indices, ends, text) :].tobytes()


def is_kept() -> bool:
    """Whether the code for lines of numbers is kept on the disk: nothing will be compiled."""
    integers, text = np.zeros(1, np.int64), np.zeros(1, np.uint8)
    numbers, ends = np.zeros(1), np.zeros(1, bool)
    return _jit.is_kept(
        _digits, numbers, powers_of_ten(), integers, integers, integers
    ) and _jit.is_kept(_text, numbers, integers, integers, integers, ends, text)
