"""Labelled rows that come in blocks, from a store that need not be in memory.

A *store* has ``shape``, ``starts`` (the first example of every block, and m), ``read(k)``,
which gives the rows and the labels of block k, and ``[rows]``, which gathers some of the rows;
:class:`odmtool.io.row_store.RowStore` is one. :class:`Examples` makes of it what a binary
machine sees: the signs y, the weights u, and a constant feature.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool.core.columns import in_blocks, with_constant_feature

# Passes are cut into so many tasks, whoever runs them, so that sums are the same everywhere.
_TASKS = 32


class ExampleBlock(NamedTuple):
    """Examples ``start``, ``start + 1``, ..."""

    start: int
    X: object  # csr_matrix or ndarray, shape (n, d)
    y: np.ndarray  # +1.0 and -1.0, shape (n,)
    u: np.ndarray  # shape (n,): weights >= 0; those of weight 0 take no part


class Examples:
    """The examples of a binary problem.

    Parameters
    ----------
    store
    sign : dict of int to float
        For every label +1, -1, or 0 if it takes no part.
    factor : dict of int to float
        The weight of every label.
    weight : ndarray, shape (m,), optional
        v_i >= 0; 1 if None.
    bias : float
        Of a last column, if it is not negative.
    """

    def __init__(self, store, sign: dict, factor: dict, weight=None, bias: float = -1.0):
        self.store, self._weight, self._bias = store, weight, bias
        self._labels = np.array(sorted(sign))
        self._sign = np.array([sign[label] for label in self._labels], dtype=float)
        self._factor = np.array([factor[label] for label in self._labels]) * (self._sign != 0)
        m, d = store.shape
        self.shape = (m, d + (bias >= 0))

    @property
    def count(self) -> int:
        """Number of blocks."""
        return len(self.store.starts) - 1

    def total_weight(self) -> float:
        """The sum of the u_i."""
        return float(sum(self.weights(k).sum() for k in range(self.count)))

    def weights(self, k: int) -> np.ndarray:
        """The u_i of block k, whose rows are not read."""
        own = slice(*self.store.starts[k : k + 2].tolist())
        return self._meaning(self.store.labels(k), own)[1]

    def tasks(self) -> list[range]:
        """The blocks, in shares for the tasks of a pass."""
        edges = np.linspace(0, self.count, min(_TASKS, self.count) + 1).astype(int).tolist()
        return [range(a, b) for a, b in zip(edges, edges[1:], strict=False)]

    def block(self, k: int) -> ExampleBlock:
        """Block k."""
        X, labels = self.store.read(k)
        start, end = self.store.starts[k : k + 2].tolist()
        X = with_constant_feature(X, self._bias)
        return ExampleBlock(start, X, *self._meaning(labels, slice(start, end)))

    def signs(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """y and u of some examples, in ascending order."""
        return self._meaning(labels_of(self.store, rows), rows)

    def rows(self, rows: np.ndarray):
        """Some of the rows, with the constant feature; one pass."""
        return with_constant_feature(self.store[rows], self._bias)

    def _meaning(self, labels: np.ndarray, examples) -> tuple[np.ndarray, np.ndarray]:
        place = np.searchsorted(self._labels, labels)
        u = self._factor[place]
        if self._weight is not None:
            u = u * self._weight[examples]
        return np.where(self._sign[place] > 0, 1.0, -1.0), u


def labels_of(store, rows: np.ndarray) -> np.ndarray:
    """The labels of some examples, in ascending order."""
    parts = [store.labels(k)[chosen] for k, chosen in in_blocks(rows, store.starts)]
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])
