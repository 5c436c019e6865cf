"""Few examples that a sample does not show: where these make the gap, they are brought into it.

Landmarks come from a sample. An example that is far from all of it is left outside of their span,
however many they are, and adds a_i^2 e_i by itself to the part a'E a of the gap that is outside.
Where a few have most of sum_i a_i^2 e_i, they take places in the sample, and landmarks are chosen
among them, too. Where many do, more landmarks or Newton's method beyond them is what helps.
"""

# speed only: the gap is certified with any landmarks
from __future__ import annotations

import numpy as np

from odmtool.solvers.engine.certificate import SpanPoint

# How many, as a share of the sample, and what they must have of the sum at least; with so much of
# it there are enough of them.
_MOST, _LEAST_SHARE, _ENOUGH = 1 / 16, 0.5, 0.999
# To what the gap must have fallen since others were brought.
_FALLEN = 0.1


def is_worth(gap: float, last: float) -> bool:
    """Whether to look for more, where the gap was ``last`` when others were brought."""
    return gap <= _FALLEN * last


def far_examples(points: list[SpanPoint], left: np.ndarray, sample: int) -> np.ndarray:
    """The few examples that make the gap of any of these points, int array; none if they are many.

    Parameters
    ----------
    left : ndarray, shape (m,)
        e_i, without bounds of their rounding errors.
    sample : int
        Its size.
    """
    alone = left * np.max([point.a**2 / point.scale for point in points], axis=0)
    most = np.argsort(-alone, kind="stable")[: int(_MOST * sample)]
    sums, total = np.cumsum(alone[most]), alone.sum()
    if not sums.max(initial=0.0) > _LEAST_SHARE * total:
        return most[:0]
    return most[: 1 + np.searchsorted(sums, _ENOUGH * total)]
