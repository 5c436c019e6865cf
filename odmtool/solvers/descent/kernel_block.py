"""Coordinate descent on kernel values, a block of examples at a time.

Update      rows are long, and what a block has within itself is small: so its examples are visited
            several times with the scores of the block alone, and then their changes are added to
            the scores of all. A row is read once for many visits. Where lambda is large and
            examples are near each other, half to a seventh of the epochs does; else as many are
            needed.
Order       blocks are random: those of examples that are near each other take longer. An example
            whose share of the gap is small when it is its turn waits for the next epoch: its row
            would be read for little. Where epochs are extrapolated nobody waits.
Stop        of the sweeps over a block: after ten, or from the second on when the examples' shares
            of the gap, as the sweep met them, are 5 % of those that the first one met.
Source      the decomposition of Joachims, "Making large-scale support vector machine learning
            practical", 1999, there with the examples that promise most.

What a visit does is the solver's; scores have a row for each class, and one for two classes.
"""

from __future__ import annotations

import numpy as np

from odmtool._jit import fused_njit, njit

SIZE = 64
"""Examples of a block: the values within it stay in the processor's nearest caches."""
SWEEPS, ENOUGH = 10, 0.05
"""Sweeps over a block at most, and the share of the first one's gap that is little enough."""


# Examples with less than so much of the mean share wait. An epoch costs half to nine tenths, and
# there are hardly more of them; with a half there are.
# speed only: who waits has little to give
_WORTH = 0.2
# Shorter rows cost no more than the visits, which few blocks with all examples make the most of:
# with 60 examples five times as many epochs followed.
# speed only: as above
_SHORT = 2000


def least_share(estimate: float, active: int, size: int, leap=None) -> float:
    """The share of the gap with which an example is visited, after an epoch.

    Parameters
    ----------
    estimate : float
        Of the gap; infinite where there was no epoch.
    active, size : int
        Examples that have it, and all.
    leap : Extrapolation, optional
        What jumps (:mod:`odmtool.solvers.descent.extrapolation`), from epochs that are all
        the same.
    """
    is_whole = leap is not None and leap.has_begun
    if is_whole or size <= _SHORT or not np.isfinite(estimate):
        return 0.0
    return _WORTH * estimate / max(1, active)


@njit
def sort_in(i, share, least, part, b, order, kept, waiting):
    """Put an example into the block, or, with a small share, behind the first of the order.

    Returns
    -------
    b, kept : int
        The examples in ``part``, and those that stay, which are the first ones of ``order``.
    waiting : float
        The shares of those that are not visited.
    """
    if share < least:
        order[kept] = i
        return b, kept + 1, waiting + share
    part[b] = i
    return b + 1, kept, waiting


@njit
def take(rows, first, slot, scores, part, slots, own, values):
    """What is known of a block.

    Parameters
    ----------
    rows : ndarray, shape (capacity, at least first + m)
        Row i of the kernel matrix begins at ``rows[slot[i], first]``.
    scores : ndarray, shape (k, m)
    part : int array, shape (b,)
        The examples.
    slots, own, values : ndarrays, shapes (b,), (k, at least b) and twice (at least b,)
        Receive the rows' places, the scores of the block, and its kernel values within itself.
    """
    for p in range(len(part)):
        slots[p] = slot[part[p]]
        row, within = rows[slots[p], first:], values[p]
        for q in range(len(part)):
            within[q] = row[part[q]]
        for c in range(len(scores)):
            own[c, p] = scores[c, part[p]]


@fused_njit
def add_rows(rows, first, slots, change, scores):
    """scores += change K in double precision, K_p = ``rows[slots[p], first:]``.

    Four rows at a time, so that a score is read and written once for them.

    Parameters
    ----------
    change : ndarray, shape (k, b)
    scores : ndarray, shape (k, m)
        Changed in place.
    """
    chosen, last = np.empty(len(slots), np.int64), first + scores.shape[1]
    for c in range(len(scores)):
        step, f, n = change[c], scores[c], 0
        for p in range(len(slots)):
            if step[p] != 0.0:
                chosen[n] = p
                n += 1
        # Slices: of row[first + j] numba cannot know that it does not count from the end, and
        # the loops would be five times as slow.
        for a in range(0, n - 3, 4):
            p, q, r, s = chosen[a], chosen[a + 1], chosen[a + 2], chosen[a + 3]
            P, Q = rows[slots[p], first:last], rows[slots[q], first:last]
            R, S = rows[slots[r], first:last], rows[slots[s], first:last]
            for j in range(len(f)):
                f[j] += (step[p] * P[j] + step[q] * Q[j]) + (step[r] * R[j] + step[s] * S[j])
        for a in range(n - n % 4, n):
            p = chosen[a]
            P = rows[slots[p], first:last]
            for j in range(len(f)):
                f[j] += step[p] * P[j]


@njit
def keep(part, stays, order, kept):
    """Put the examples of a block that stay behind the first ``kept``; how many there are then."""
    for p in range(len(part)):
        if stays[p]:
            order[kept] = part[p]
            kept += 1
    return kept
