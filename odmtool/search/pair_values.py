"""Values of pairs of classes of the examples left out, of some of them at a time.

Of 1000 classes there are half a million pairs: the values of all examples would fill the memory, so
they are made class by class, and what they come to is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from odmtool.core.gram import BYTES, Gram
from odmtool.models.decide import Standings, by_first, numbers_by_class, pairs_by_class
from odmtool.rows.executor import Serial
from odmtool.solvers.engine.certificate import rows_times
from odmtool.solvers.engine.points import Points

# speed only: numbers of a block of rows
_BLOCK_NUMBERS = 2**21


class PairValues:
    """The values of one solution; they are made anew whenever they are asked for.

    Parameters
    ----------
    make : callable
        From a slice of the examples to values of the pairs of each class with those after it,
        arrays of shape (m, k - 1 - i).
    n : int
        Examples.
    k : int, > 2
        Classes.
    numbers : int
        What an example takes meanwhile.
    """

    def __init__(self, make: Callable[[slice], Iterator[np.ndarray]], n: int, k: int, numbers: int):
        self._make, self._n, self._k, self._numbers = make, n, k, numbers

    def _blocks(self, more: int = 0) -> Iterator[tuple[slice, Iterator[np.ndarray]]]:
        """Blocks of examples, of which each takes so many numbers more, and their values."""
        step = max(1, _BLOCK_NUMBERS // (self._numbers + more))
        for start in range(0, self._n, step):
            some = slice(start, min(start + step, self._n))
            yield some, self._make(some)

    def standings(self) -> tuple[np.ndarray, np.ndarray]:
        """The places of the classes with most votes, shape (n,), and votes and confidence.

        See :func:`odmtool.models.decide.votes_and_confidence`.
        """
        best, confident = np.empty(self._n, dtype=np.int64), np.empty((self._n, self._k))
        for some, values in self._blocks():
            standings = Standings(some.stop - some.start, self._k).counted(values)
            best[some], confident[some] = standings.winners(), standings.confident()
        return best, confident

    def arrays(self) -> Iterator[np.ndarray]:
        """The values of all pairs, shape (m, k (k - 1) / 2), of some examples at a time."""
        for _, values in self._blocks(self._k * (self._k - 1)):
            yield np.concatenate(list(values), axis=1)

    def of_own(self, target: np.ndarray) -> np.ndarray:
        """The values of the pairs of each example's class ``target``, shape (n, k - 1).

        Of class i, column j - 1 is for the pair i < j, and column j for the pair j < i.
        """
        own = np.empty((self._n, self._k - 1))
        for some, by_class in self._blocks():
            labels, found = target[some], own[some]
            for i, values in enumerate(by_class):
                is_first, is_second = labels == i, np.flatnonzero(labels > i)
                found[is_first, i:] = values[is_first]
                found[is_second, i] = values[is_second, labels[is_second] - i - 1]
        return own


def of_rows(rows, C: np.ndarray, offset: np.ndarray, k: int) -> PairValues:
    """Of a linear machine with a column of C for each pair."""

    def make(some: slice) -> Iterator[np.ndarray]:
        return by_first(rows[some] @ C + offset, k)

    return PairValues(make, rows.shape[0], k, len(offset))


class KernelProducts:
    """Kernel values between examples left out and those that train, which are kept if they fit.

    Parameters
    ----------
    support, test : int arrays
        Rows of the Gram.
    gram : Gram
        Of all rows.
    """

    def __init__(self, support: np.ndarray, test: np.ndarray, gram: Gram):
        self._support, self._test, self._gram = support, test, gram
        self._fits = len(test) * len(support) * BYTES <= gram.memory / 2
        self._kept = self._points = None
        if gram.is_computed:
            self._kept = gram.matrix()[np.ix_(test, support)]
        else:
            self._points = Points(gram.kernel, gram.X, Serial())

    def _values(self, used: np.ndarray) -> np.ndarray | None:
        """All values, where they are kept; ``used`` tells which examples have coefficients."""
        is_compact = 2 * np.count_nonzero(used) < len(self._support)
        if self._kept is None and not is_compact and self._fits:
            X, count = self._gram.X, len(self._test) * len(self._support)
            # speed only: when compiled code is loaded
            self._points.expect(count)
            self._kept = self._points.values(X[self._test], X[self._support])
        return self._kept

    def times(self, C: np.ndarray) -> np.ndarray:
        """K C."""
        values = self._values(C.any(axis=1))
        if values is not None:
            return values @ C
        A = np.zeros((self._gram.size, C.shape[1]))
        A[self._support] = C
        return rows_times(self._points, self._test, A)

    def of_pairs(self, C: np.ndarray, offset: np.ndarray, target: np.ndarray) -> PairValues:
        """The values of pairs of classes.

        Parameters
        ----------
        C : ndarray, shape (n, k - 1)
            As those of :class:`odmtool.models.kernel.KernelModel`, of examples in any order.
        offset : ndarray, shape (k (k - 1) / 2,)
        target : int array, shape (n,)
            The classes of the examples that train, of which each has one.
        """
        k, n, is_used = C.shape[1] + 1, len(self._test), C.any(axis=1)
        used = np.flatnonzero(is_used)
        used = used[np.argsort(target[used], kind="stable")]
        coef, ends = C[used], np.searchsorted(target[used], np.arange(k + 1))
        groups = [slice(*ends[i : i + 2]) for i in range(k)]
        kept = self._values(is_used)
        if kept is None:
            # speed only: when compiled code is loaded
            self._points.expect(n * len(used))

        def make(some: slice) -> Iterator[np.ndarray]:
            if kept is not None:
                K = kept[some][:, used]
            else:
                X = self._gram.X
                K = self._points.values(X[self._test[some]], X[self._support[used]])
            of_pairs = zip(pairs_by_class(K, groups, coef), by_first(offset[None], k), strict=True)
            return (values + rho for values, rho in of_pairs)

        return PairValues(make, n, k, numbers_by_class(k, len(self._support)))
