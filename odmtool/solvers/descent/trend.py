"""Whether coordinate descent will be done in the epochs that it has.

Problem     the gap may fall by the same factor in every epoch, or ever more slowly, and only the
            first is worth waiting for where Newton's method can take over.
Method      d_k is by how much the gap's logarithm fell while the epochs doubled, from 2^(k-1) to
            2^k. With r = d_k / d_(k-1), 1 <= r <= 2, the falls d_k r, d_k r^2, ... are expected of
            the doublings to come: r is 2 where the factor stays the same, and 1 where the gap is
            a power of the epochs. After examples that had been left out have come back, a few
            of them decide, and nothing can be foreseen. A gap that has more than doubled was not
            that of the problem before, or duals had to become feasible: what it was says nothing.
"""

from __future__ import annotations

import math

_FIRST = 4
# speed only: a rise of the logarithm after which the epochs so far tell nothing
_RISE = math.log(2)


class Trend:
    """The gaps after 4, 8, 16 ... epochs."""

    def __init__(self):
        self._next, self._logarithms = _FIRST, []

    def is_too_slow(self, epoch: int, gap: float, tolerance: float, most: int) -> bool:
        """Whether more than ``most`` epochs will be needed; to be asked after each of them."""
        if epoch < self._next:
            return False
        self._next *= 2
        logarithm = math.log(max(gap, tolerance))
        if self._logarithms and logarithm > self._logarithms[-1] + _RISE:
            self._logarithms.clear()
        self._logarithms.append(logarithm)
        if len(self._logarithms) < 3:
            return False
        first, second, last = self._logarithms[-3:]
        before, fall, distance = first - second, second - last, last - math.log(tolerance)
        if fall <= 0 or before <= 0:
            return last >= first
        return _doublings(before, fall, distance) > math.log2(most / epoch)


def _doublings(before: float, fall: float, distance: float) -> float:
    """So many are needed until the logarithm has fallen by the distance."""
    ratio = min(max(fall / before, 1.0), 2.0)
    if ratio == 1.0:
        return distance / fall
    # fall (r + r^2 + ... + r^n) = distance
    return math.log(1 + distance * (ratio - 1) / (fall * ratio), ratio)
