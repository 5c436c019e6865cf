"""Which numbers have so few decimal digits that these can be written in place of 17.

A double that was read from up to 15 digits is the one nearest to them: written, they are read as
the same double again. Data files have such numbers, and 0.054 is shorter than
0.053999999999999999, which also takes several times as long to read.
"""

from __future__ import annotations

import numpy as np

DIGITS = 15
# What has the first digit at one of these places, 10**-8 to 10**14: then the 15 digits are an
# integer below 2**53, and the power of ten that divides it is a double, too.
_FIRST, _LAST = -8, DIGITS - 1
_POWERS = np.array([float(f"1e{place}") for place in range(_FIRST, _LAST + 2)])
_DIVISORS = np.array([float(10 ** (_LAST - place)) for place in range(_FIRST, _LAST + 1)])


def short_decimals(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which of the numbers 15 digits determine, these digits, and the place of their first.

    ``numbers`` (ndarray, shape (n,)): finite. Outside 1e-8 to 1e15 none is called short.

    Returns
    -------
    is_short : ndarray of bool, shape (n,)
    digits, exponents : ndarrays of int64, one for each number that is short
        It is the double nearest to digits * 10**(exponent - 14), and digits has 15 digits.
    """
    sizes = np.abs(numbers)
    places = np.searchsorted(_POWERS, sizes, side="right") - 1
    divisors = _DIVISORS.take(places, mode="clip")
    with np.errstate(over="ignore"):
        candidates = np.rint(sizes * divisors)
    # The division rounds once, as reading does (io/_plain.py), so this is a proof.
    is_short = (places >= 0) & (places < len(_DIVISORS)) & (candidates / divisors == sizes)
    is_short &= candidates < 10.0**DIGITS
    return is_short, candidates[is_short].astype(np.int64), places[is_short] + _FIRST
