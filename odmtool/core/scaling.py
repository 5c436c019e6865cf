"""Linear scaling of features to a common range, with svm-scale's arithmetic.

A value v of a feature whose data lie in [min, max] becomes

    lower + (upper - lower) (v - min) / (max - min)

and exactly ``lower`` or ``upper`` at the ends. Values outside [min, max] (test
data) are not clipped. A feature absent from a row is 0 there; a feature with
min = max says nothing and is removed. The operations are done in the order in
which LIBSVM's svm-scale.c does them, so that the results agree to the last bit.

Rows come as a CSR or as SciPy's csr_matrix, and go as a CSR.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from odmtool import messages
from odmtool.core.columns import distinct_numbers
from odmtool.core.csr import CSR
from odmtool.errors import DataError, MemoryLimitError

#: Numbers scaled at a time; bounds the memory of a block.
# speed only: rows at a time
BLOCK = 2**18
# Of an entry, in its piece and in the whole.
_BYTES = 24


class LabelRange(NamedTuple):
    """Labels in [minimum, maximum] become [lower, upper]."""

    lower: float
    upper: float
    minimum: float
    maximum: float


class Ranges(NamedTuple):
    """What scaling needs to know; the content of a range file."""

    lower: float
    upper: float
    index: np.ndarray  # int64, shape (n,), rising: features, counted from 1
    # minimum, maximum: float64, shape (n,): their ranges.
    minimum: np.ndarray
    maximum: np.ndarray
    labels: LabelRange | None = None  # None where labels stay as they are


class Extremes:
    """Smallest and largest value of every feature, gathered block by block.

    Memory grows with the number of different features, not with the largest index.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.columns = np.empty(0, np.int64)
        self.minimum = np.empty(0)
        self.maximum = np.empty(0)
        self.count = np.empty(0, np.int64)

    def update(self, X: CSR) -> None:
        """Take in the rows of ``X`` (m x d, no duplicate entries)."""
        self.rows += X.shape[0]
        self._make_room(distinct_numbers(X.indices))
        place = np.searchsorted(self.columns, X.indices)
        np.minimum.at(self.minimum, place, X.data)
        np.maximum.at(self.maximum, place, X.data)
        self.count += np.bincount(place, minlength=len(self.columns))

    def _make_room(self, columns: np.ndarray) -> None:
        merged = distinct_numbers(np.concatenate((self.columns, columns)))
        place = np.searchsorted(merged, self.columns)

        def spread(old: np.ndarray, fill) -> np.ndarray:
            new = np.full(len(merged), fill, old.dtype)
            new[place] = old
            return new

        self.minimum = spread(self.minimum, np.inf)
        self.maximum = spread(self.maximum, -np.inf)
        self.count = spread(self.count, 0)
        self.columns = merged

    def varying(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Index (from 1), minimum and maximum of the features that are not constant."""
        absent = self.count < self.rows
        minimum = np.where(absent, np.minimum(self.minimum, 0), self.minimum) + 0.0
        maximum = np.where(absent, np.maximum(self.maximum, 0), self.maximum) + 0.0
        keep = minimum != maximum
        return self.columns[keep].astype(np.int64) + 1, minimum[keep], maximum[keep]


def ranges_of(X: CSR, lower: float, upper: float) -> Ranges:
    """What takes the features of ``X`` (m x d) to [lower, upper]; constant ones are left out."""
    extremes = Extremes()
    extremes.update(X)
    return Ranges(lower, upper, *extremes.varying())


def interpolate(values, minimum, maximum, lower: float, upper: float) -> np.ndarray:
    """``values`` from [minimum, maximum] to [lower, upper], elementwise.

    Where max - min or a product overflows (svm-scale writes nan or inf there), the
    same number is computed in an order that does not.

    Raises DataError: a result is too large for a double.
    """
    values, minimum, maximum = np.broadcast_arrays(values, minimum, maximum)
    with np.errstate(all="ignore"):
        scaled = lower + (upper - lower) * (values - minimum) / (maximum - minimum)
        scaled = np.where(values == minimum, lower, scaled)
        scaled = np.where((values == maximum) & (minimum != maximum), upper, scaled)
        bad = ~np.isfinite(scaled)
        if bad.any():
            low, high = minimum[bad] / 4, maximum[bad] / 4
            scaled[bad] = lower + (upper - lower) * ((values[bad] / 4 - low) / (high - low))
    worst = np.flatnonzero(~np.isfinite(scaled))
    if len(worst):
        i = worst[0]
        raise DataError(messages.scaling_overflow(values[i], minimum[i], maximum[i]))
    return scaled


class Scaler:
    """Scales blocks of rows by one set of ranges.

    ``remembers``: whether ``unseen`` is wanted; it grows with the number of different features.

    Attributes
    ----------
    ranges : Ranges
        Without constant features.
    unseen : Extremes
        What ``scale`` met that the ranges do not know; it is left out of the result.
    """

    def __init__(self, ranges: Ranges, remembers: bool = False):
        keep = ranges.minimum != ranges.maximum
        self.ranges = ranges._replace(
            index=ranges.index[keep], minimum=ranges.minimum[keep], maximum=ranges.maximum[keep]
        )
        self.unseen, self._remembers = Extremes(), remembers
        self._removed = ranges.index[~keep]
        zero = self._scaled(np.arange(len(self.ranges.index)), 0.0)
        # The features whose zeros become something else: absent entries must be written.
        self._filled = np.flatnonzero(zero)
        self._fill = zero[self._filled]

    def scale(self, X: CSR) -> CSR:
        """The scaled rows (m x n, without zeros); column k is feature ``ranges.index[k]``."""
        row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        place, known = self._find(X.indices)
        if self._remembers:
            self._remember_unseen(X, known)
        row, place = row[known], place[known]
        value = self._scaled(place, X.data[known])

        dense = np.tile(self._fill, (X.shape[0], 1))
        at = np.searchsorted(self._filled, place)
        in_dense = at < len(self._filled)
        in_dense[in_dense] = self._filled[at[in_dense]] == place[in_dense]
        dense[row[in_dense], at[in_dense]] = value[in_dense]
        fill_row, fill_at = np.nonzero(dense)

        sparse = ~in_dense & (value != 0)
        value = np.concatenate([value[sparse], dense[fill_row, fill_at]])
        row = np.concatenate([row[sparse], fill_row])
        place = np.concatenate([place[sparse], self._filled[fill_at]])
        order, indptr = np.lexsort((place, row)), np.zeros_like(X.indptr)
        np.cumsum(np.bincount(row, minlength=X.shape[0]), out=indptr[1:])
        shape = X.shape[0], len(self.ranges.index)
        return CSR(value[order], place[order].astype(X.indices.dtype), indptr, shape)

    def scale_in_place(self, X: CSR, width: int | None = None) -> CSR:
        """The scaled rows with every feature in its own column.

        They are as wide as the last feature of the ranges needs, or have ``width`` columns.
        """
        if width is None:
            width = int(self.ranges.index[-1]) if len(self.ranges.index) else 0
        pieces = [self.scale(X[part]) for part in self.parts(X.indptr)]
        total = sum(piece.nnz for piece in pieces)
        # There may be more numbers, and larger features, than X has.
        kind = np.result_type(X.indptr, np.min_scalar_type(-max(total, width, 1)))
        columns, data = (self.ranges.index - 1).astype(kind), [np.empty(0)]
        indices, lengths = [columns[:0]], [np.zeros(1, kind)]
        for piece in pieces:
            data.append(piece.data)
            indices.append(columns[piece.indices])
            lengths.append(np.diff(piece.indptr))
        indptr = np.cumsum(np.concatenate(lengths), dtype=kind)
        return CSR(np.concatenate(data), np.concatenate(indices), indptr, (X.shape[0], width))

    def check_memory(self, X: CSR, limit: float) -> None:
        """Raise MemoryLimitError if the scaled rows of ``X`` could take more than ``limit``."""
        most = X.nnz + X.shape[0] * len(self._filled)
        if most > 2 * X.nnz and _BYTES * most > limit:
            raise MemoryLimitError(messages.scaled_too_large(_BYTES * most, limit))

    def parts(self, indptr: np.ndarray) -> Iterator[slice]:
        """Intervals of rows that have about ``BLOCK`` numbers each when they are scaled."""
        rows = np.arange(len(indptr), dtype=np.int64)
        chunk = (indptr + rows * len(self._filled)) // BLOCK
        changes = np.flatnonzero(np.diff(chunk)) + 1
        bounds = distinct_numbers(np.concatenate([[0], changes, rows[-1:]]))
        return map(slice, bounds[:-1].tolist(), bounds[1:].tolist())

    def scale_labels(self, labels: np.ndarray) -> np.ndarray:
        """Labels (m float64), scaled if the ranges say so."""
        to = self.ranges.labels
        if to is None:
            return labels
        return interpolate(labels, to.minimum, to.maximum, to.lower, to.upper)

    def _scaled(self, place: np.ndarray, values) -> np.ndarray:
        ranges = self.ranges
        return interpolate(
            values, ranges.minimum[place], ranges.maximum[place], ranges.lower, ranges.upper
        )

    def _find(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Position of each column's feature in ``ranges.index``, and whether it is there."""
        index = columns.astype(np.int64) + 1
        place = np.searchsorted(self.ranges.index, index)
        known = place < len(self.ranges.index)
        known[known] = self.ranges.index[place[known]] == index[known]
        return place, known

    def _remember_unseen(self, X: CSR, known: np.ndarray) -> None:
        unseen = ~known
        unseen[unseen] = ~np.isin(X.indices[unseen].astype(np.int64) + 1, self._removed)
        indptr = np.concatenate([[0], np.cumsum(unseen)])[X.indptr]
        self.unseen.update(CSR(X.data[unseen], X.indices[unseen], indptr, X.shape))
