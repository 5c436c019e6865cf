"""The class with most votes of many, which a few classes' pairs tell as a rule.

A class that wins all its pairs has more votes than any other, and nearly every row has one. So
a class is guessed and compared with all others; those that lose to it cannot have all votes any
more, and of the rest the one that beats it most clearly comes next. It ends when no other class can
have as many votes as the best one is sure of. Of 1000 classes, two or three take part in the place
of half a million pairs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from odmtool.models.decide import leaders
from odmtool.models.rows import group_sums

# speed only: classes that are compared with all others; rows that take more are for others
_MOST_ROUNDS = 24


def most_votes(
    against: Callable[[int, np.ndarray], tuple[np.ndarray, np.ndarray]], guess: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The classes with most votes, and where more rounds or exact values could give another one.

    Returns as :func:`odmtool.models.decide.sure_winners`.

    Parameters
    ----------
    against : callable
        From a class and some rows to values of its pairs with all k, shape (rows, k), positive if
        it wins, and how far off they may be, infinite for itself.
    guess : int array, shape (m,)
        The class of each row that is looked at first.
    """
    m = len(guess)
    # Of the classes that were looked at the votes they are sure of, else -1; of all classes the
    # pairs they are sure to have lost.
    sure, lost = np.full((m, k), -1, dtype=np.int32), np.zeros((m, k), dtype=np.int32)
    best, guess, in_doubt = guess.copy(), guess.copy(), np.ones(m, dtype=bool)
    values, left = np.zeros((m, k)), np.arange(m)
    for _ in range(min(k, _MOST_ROUNDS)):
        for label in np.unique(guess[left]):
            rows = left[guess[left] == label]
            values[rows], bound = against(label, rows)
            wins, losses = values[rows] > bound, values[rows] < -bound
            # Of those that were looked at all pairs have been counted.
            lost[rows] += wins & (sure[rows] < 0)
            sure[rows, label] = np.count_nonzero(wins, axis=1)
            lost[rows, label] = np.count_nonzero(losses, axis=1)
        best[left], is_behind = leaders(sure[left], lost[left])
        in_doubt[left] = ~is_behind.all(axis=1)
        may_win = ~is_behind & (sure[left] < 0)
        # Where all that may win were looked at, only exact values tell which of them does.
        goes_on = may_win.any(axis=1)
        left, may_win = left[goes_on], may_win[goes_on]
        if not len(left):
            break
        # speed only: the class with fewest losses comes next that beats the last one most clearly
        beaten = values[left] / (2 + 2 * np.abs(values[left]))
        guess[left] = np.where(may_win, -lost[left] - beaten, -np.inf).argmax(axis=1)
    return best, in_doubt


class PairsOfAClass:
    """Values of the pairs of one class with all others, of some rows.

    Parameters
    ----------
    K : ndarray, shape (m, n)
        Kernel values of the rows and the vectors.
    shares : ndarray, shape (m, k)
        How far a value may be off but for its rho: what its two classes contribute.
    counts : int array, shape (k,)
        The vectors of each class, which are neighbours.
    coef, rho : ndarrays
        As those of :class:`odmtool.models.kernel.KernelModel`.
    """

    def __init__(self, K, shares, counts: np.ndarray, coef, rho):
        self._K, self._shares, self._counts, self._coef, self._rho = K, shares, counts, coef, rho
        k, self._ends = len(counts), counts.cumsum()
        # Where among the pairs those of each class with the ones after it begin.
        self._starts = np.concatenate([[0], np.arange(k - 1, 0, -1).cumsum()])

    def against(self, label: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See :func:`most_votes`."""
        k, coef, end = len(self._counts), self._coef, self._ends[label]
        own = slice(end - self._counts[label], end)
        # Of the classes before it, whose pairs have it second, and of those after it.
        of_others = np.zeros(len(coef))
        of_others[: own.start] = coef[: own.start, max(0, label - 1)]
        of_others[own.stop :] = coef[own.stop :, min(label, k - 2)]
        K, other = self._K[rows], np.arange(k) != label
        values = group_sums(K * of_others, self._counts)
        values[:, other] += K[:, own] @ coef[own]
        rho = self._rho[self._pairs(label)]
        values[:, other] -= rho
        values[:, :label] *= -1
        bound = self._shares[rows, label, None] + self._shares[rows]
        bound[:, other] += 4 * np.finfo(float).eps * np.abs(rho)
        bound[:, label] = np.inf
        return values, bound

    def _pairs(self, label: int) -> np.ndarray:
        """The places of the pairs of a class, with the first class first."""
        first = self._starts[label]
        own = np.arange(first, first + len(self._counts) - 1 - label)
        return np.concatenate([self._starts[:label] + label - 1 - np.arange(label), own])
