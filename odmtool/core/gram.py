"""The kernel matrix K(X, X) of a training set: whole, or by rows within a bounded memory.

The matrix knows no labels, so that folds of a cross validation and the parts of a
multi-class problem share one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy

import numpy as np

from odmtool.core import deadline, kernels
from odmtool.core.kernel_table import DISTANCES, STORED
from odmtool.core.kernels import Kernel

BYTES = 8
"""Size of a kernel value in double precision."""


class Gram:
    """K(X, X), computed when it is first needed.

    Parameters
    ----------
    X : csr_matrix or ndarray, shape (m, d)
        In single precision if the kernel values shall be.
    memory : float
        Bytes that kernel values and their factorisation may take.
    is_own : bool
        Nobody else has X, so that it may be written to.
    """

    def __init__(self, kernel: Kernel, X, memory: float = float("inf"), *, is_own: bool = False):
        self.kernel = kernel
        of = kernel.row.of
        self.X = X if of == STORED else kernels.prepare(X, memory / 4)
        if of == DISTANCES and isinstance(self.X, np.ndarray) and len(self.X):
            # Distances stay the same, and large offsets (years, prices) no longer cancel.
            out = self.X if is_own or self.X is not X else None
            self.X = np.subtract(self.X, self.X.mean(axis=0), out=out)
        self.memory = memory
        self.size = X.shape[0]
        self._matrix: np.ndarray | None = None

    @classmethod
    def of_matrix(
        cls, kernel: Kernel, matrix: np.ndarray, memory: float = float("inf"), X=None
    ) -> Gram:  # fmt: skip
        """A Gram whose values are known already; the rows X need not be."""
        gram = cls.__new__(cls)
        gram.kernel, gram.X, gram.memory = kernel, X, memory
        gram.size, gram._matrix = len(matrix), matrix
        return gram

    def within(self, memory: float) -> Gram:
        """The same rows and computed values, with another memory."""
        other = copy(self)
        other.memory = memory
        return other

    @property
    def is_rounded(self) -> bool:
        """Whether the values are known to less than the precision of the rows."""
        return self.X is not None and self.dtype != self.X.dtype

    def make_exact(self) -> None:
        """Let go of values that are rounded; they are made again when they are needed."""
        if self.is_rounded:
            self._matrix = None

    @property
    def dtype(self) -> np.dtype:
        """Precision of the kernel values."""
        return (self.X if self._matrix is None else self._matrix).dtype

    @property
    def bytes(self) -> int:
        """Size of the whole matrix."""
        return self.dtype.itemsize * self.size * self.size

    @property
    def is_computed(self) -> bool:
        return self._matrix is not None

    def matrix(self) -> np.ndarray:
        """The whole matrix, shape (m, m); the caller has checked that it fits."""
        if self._matrix is None:
            self._matrix = kernels.gram(self.kernel, self.X)
        return self._matrix

    def cache(self) -> RowCache:
        """Rows for compiled code, within the memory."""
        return RowCache(self)

    def subset(self, rows: np.ndarray) -> Gram:
        """The Gram of some of the examples, by their numbers; it shares computed values."""
        if self.is_computed:
            X = None if self.X is None else self.X[rows]
            return Gram.of_matrix(self.kernel, self._matrix[np.ix_(rows, rows)], self.memory, X)
        return Gram(self.kernel, self.X[rows], self.memory, is_own=True)

    def diagonal(self) -> np.ndarray:
        """k(x_i, x_i), shape (m,); of values in single precision, too, in double."""
        if self.is_computed:
            return self._matrix.diagonal().astype(float)
        return kernels.diagonal(self.kernel, self.X)

    def rows(self, examples: np.ndarray) -> np.ndarray:
        """Rows of the matrix, shape (len(examples), m)."""
        if self.is_computed:
            return self._matrix[examples]
        return kernels.block(self.kernel, self.X[examples], self.X)


# A run's rows are computed in one block, whose memory is used again.
_RUN_BYTES = 2**24


def runs(cache, examples: np.ndarray) -> Iterator[np.ndarray]:
    """The examples in runs whose rows fit in a cache together."""
    m = len(cache.slot)
    step = cache.capacity
    if step < m:
        # Half the cache, so that rows of the run before can stay.
        step = max(1, min(step // 2, _RUN_BYTES // (BYTES * m)))
    return (examples[k : k + step] for k in range(0, len(examples), step))


def epoch_in_runs(cache, order: np.ndarray, active: int, visit: Callable):
    """Visit the first ``active`` examples of the order, run by run.

    After the deadline no other run is begun: its kernel values take as long as a whole epoch does
    where the matrix is there.

    Parameters
    ----------
    cache
        Rows of kernel values, as :class:`RowCache` has them.
    order : int array, shape (m,)
        Those that stay are in front afterwards, and what was not visited stays.
    visit : callable
        Of a run, whose rows are there: how many examples stay, which it puts in front; how far
        they moved; and their share of the gap.

    Returns
    -------
    kept : int
        So many stay.
    moves : list of float
        How far each run moved.
    estimate : float
        Of the gap; infinite if the deadline was before the end of the epoch.
    """
    now, kept, done, moves, estimate = order[:active].copy(), 0, 0, [], 0.0
    for part in runs(cache, now):
        if done and deadline.is_over():
            estimate = np.inf
            break
        cache.fetch(part)
        stay, moved, share = visit(part)
        order[kept : kept + stay] = part[:stay]
        kept, done, estimate = kept + stay, done + len(part), estimate + share
        moves.append(moved)
    order[kept : kept + active - done] = now[done:]
    kept += active - done
    keep_in_front(order, kept)
    return kept, moves, estimate


def is_too_late_for_rows(cache) -> bool:
    """Whether the deadline is over, and kernel values would have to be computed again."""
    return cache.capacity < len(cache.slot) and deadline.is_over()


def keep_in_front(order: np.ndarray, kept: int) -> None:
    """Let the examples that are not among the first ``kept`` of the order follow them."""
    others = np.ones(len(order), dtype=bool)
    others[order[:kept]] = False
    order[kept:] = np.flatnonzero(others)


class RowCache:
    """Rows of a Gram matrix, as many as fit in the memory, oldest replaced first.

    Compiled code reads row i at ``rows[slot[i], first:]``; ``slot[i]`` is -1 for a row
    that is not there. When everything fits, it is the whole matrix and is filled once.
    """

    first = 0

    def __init__(self, gram: Gram):
        self._gram = gram
        m = gram.size
        if gram.is_computed or gram.bytes <= gram.memory:
            self.capacity = m
            self.rows = gram.matrix()
            self.slot = np.arange(m)
            return
        self.capacity = int(min(m, max(1, gram.memory // (gram.dtype.itemsize * m))))
        self.rows = np.empty((self.capacity, m), gram.dtype)
        self.slot = np.full(m, -1)
        self._owner = np.full(self.capacity, -1)
        # speed only: which rows of the cache are overwritten first
        self._next = 0

    def fetch(self, examples: np.ndarray) -> None:
        """Make the rows of these examples, at most ``capacity``, present."""
        missing = examples[self.slot[examples] < 0]
        if missing.size == 0:
            return
        kept = np.zeros(self.capacity, dtype=bool)
        present = self.slot[examples]
        kept[present[present >= 0]] = True
        # The ring of slots from the oldest on, without those in use now.
        ring = np.roll(np.arange(self.capacity), -self._next)
        places = ring[~kept[ring]][: missing.size]
        # speed only: which rows of the cache are overwritten first
        self._next = int(places[-1] + 1) % self.capacity
        evicted = self._owner[places]
        self.slot[evicted[evicted >= 0]] = -1
        self.rows[places] = self._gram.rows(missing)
        self.slot[missing] = places
        self._owner[places] = missing
