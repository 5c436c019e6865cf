"""Coordinate descent on kernel values, a block of examples at a time.

Update      the rows of a block are long, and what it has within itself is small: so its examples
            are visited several times with the scores of the block alone, and then their changes
            are added to the scores of all. A row is read once for many visits, and a third of the
            epochs does where lambda is large.
Order       blocks are random: those of examples that are near each other take longer.
Source      the decomposition of Joachims, "Making large-scale support vector machine learning
            practical", 1999, section 11.3, there with the examples that promise most.
"""

from __future__ import annotations

import numpy as np

from odmtool._jit import njit

SIZE = 256
"""Examples of a block: the values within it stay in the processor's second cache."""


@njit
def values_within(rows, slots, part, values):
    """The kernel values of a block within itself.

    Parameters
    ----------
    rows : ndarray, shape (capacity, m)
    slots : int array, shape (b,)
        Where the examples have their rows.
    part : int array, shape (b,)
        The examples, that is, their columns.
    values : ndarray, shape (b, b)
        Where they are put.
    """
    for p in range(len(part)):
        row = rows[slots[p]]
        for q in range(len(part)):
            values[p, q] = row[part[q]]


@njit
def add_rows(rows, slots, change, scores):
    """scores += change K, with the rows K_p = ``rows[slots[p]]`` of a block.

    Four rows at a time, so that a score is read and written once for them.

    Parameters
    ----------
    change : ndarray, shape (k, b)
    scores : ndarray, shape (k, m)
        Changed in place.
    """
    chosen = np.empty(len(slots), np.int64)
    for c in range(len(scores)):
        step, f, n = change[c], scores[c], 0
        for p in range(len(slots)):
            if step[p] != 0.0:
                chosen[n] = p
                n += 1
        for a in range(0, n - 3, 4):
            p, q, r, s = chosen[a], chosen[a + 1], chosen[a + 2], chosen[a + 3]
            P, Q, R, S = rows[slots[p]], rows[slots[q]], rows[slots[r]], rows[slots[s]]
            for j in range(len(f)):
                f[j] += (step[p] * P[j] + step[q] * Q[j]) + (step[r] * R[j] + step[s] * S[j])
        for a in range(n - n % 4, n):
            p, P = chosen[a], rows[slots[chosen[a]]]
            for j in range(len(f)):
                f[j] += step[p] * P[j]
