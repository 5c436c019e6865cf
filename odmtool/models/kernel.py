"""Kernel models: support vectors and their coefficients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from odmtool.core.kernel_table import STORED
from odmtool.models import decide
from odmtool.models.decide import (
    MANY_CLASSES,
    Standings,
    most_probable,
    numbers_by_class,
    pairs_by_class,
    pairs_by_first,
    sigmoids_among,
    sure_winners,
    votes,
)
from odmtool.models.probability import probabilities_of_blocks

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from odmtool.core.csr import CSR
    from odmtool.core.kernels import Kernel
    from odmtool.models.rows import KernelRows
    from odmtool.models.scores import Scores

_EPS = np.finfo(float).eps
# Kernel values in LIBSVM's order that are kept until other pairs of their rows are looked at.
_NUMBERS_IN_ORDER = 2**20


@dataclass(eq=False)
class KernelModel:
    """Support vectors and coefficients; a LIBSVM c_svc model.

    Attributes
    ----------
    labels : list of int
        k labels in the order of the file.
    kernel : Kernel
        With bias 0: an intercept stands in rho.
    support_vectors : CSR or csr_matrix, shape (n_sv, d)
        Grouped by class. Precomputed kernel: column 0 holds the serial numbers.
    coef : ndarray, shape (n_sv, k - 1)
        Of a vector of class i: column j - 1 is for the pair i < j, column j for j < i.
    rho : ndarray, shape (k (k - 1) / 2,)
    n_support : list of int
        Support vectors of each class.
    probA, probB : ndarray, shape (k (k - 1) / 2,), or None
        Sigmoids of the pairs of classes.
    prob_density_marks : ndarray or None
        Carried along from the file; not used.
    facts : dict
        What odm-train recorded, in its order; empty for a stock model.
    """

    labels: list[int]
    kernel: Kernel
    support_vectors: CSR | csr_matrix
    coef: np.ndarray
    rho: np.ndarray
    n_support: list[int]
    probA: np.ndarray | None = None
    probB: np.ndarray | None = None
    prob_density_marks: np.ndarray | None = None
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def is_precomputed(self) -> bool:
        """Whether the rows to predict are rows of kernel values."""
        return self.kernel.row.of == STORED

    @cached_property
    def scores(self) -> Scores | None:
        """The scores of the classes, if odm-train made the pairs of such; else None."""
        from odmtool.models import scores

        return scores.of_pairs(self)

    @property
    def has_scores(self) -> bool:
        """Whether there is one decision value per class, and the largest wins."""
        return self.scores is not None

    def decision_values(self, X: csr_matrix) -> np.ndarray:
        """One value per pair of classes, shape (m, k (k - 1) / 2); with scores one per class."""
        return self._pair_values(X) if self.scores is None else self.scores.values(X)

    def _pair_values(self, X: csr_matrix, boundary=0.0, margin=0.0) -> np.ndarray:
        """Values of the pairs, those within margin and rounding of a boundary exactly LIBSVM's."""
        blocks = self._pair_blocks(X, boundary, margin)
        return np.concatenate([np.empty((0, len(self.rho))), *blocks])

    def _pair_blocks(self, X: csr_matrix, boundary=0.0, margin=0.0) -> Iterator[np.ndarray]:
        """The same of some rows at a time."""
        if self.scores is not None:
            yield from self.scores.pair_blocks(X, boundary, margin)
            return
        from odmtool.models.rows import NUMBERS_OF_A_PAIR

        n_pairs = len(self.rho)
        numbers = self._numbers + n_pairs if self._has_many else NUMBERS_OF_A_PAIR * n_pairs
        for by_first, n in self._exact(X, numbers, boundary, margin):
            with np.errstate(all="ignore"):
                if not self._has_many:
                    found = next(by_first)[1]
                else:
                    found = np.empty((n, n_pairs))
                    for part, values in by_first:
                        found[:, part] = values
            yield found

    def _exact(
        self, X: csr_matrix, numbers: int, boundary=0.0, margin=0.0
    ) -> Iterator[tuple[Iterator[tuple[slice, np.ndarray]], int]]:  # fmt: skip
        """The same class by class of blocks of rows, of which each takes so many numbers; and how
        many rows.
        """  # fmt: skip
        way = self._rows.way(X.shape[0])
        for part in self._rows.blocks(X.shape[0], numbers):
            yield self._exact_by_first(X[part], way, boundary, margin), part.stop - part.start

    def votes_and_confidence(self, X: csr_matrix) -> np.ndarray:
        """See :func:`odmtool.models.decide.votes_and_confidence`; only without scores."""
        return np.concatenate([np.empty((0, len(self.labels))), *(
            standings.confident() for standings in self._standings(X, has_total=True)
        )])  # fmt: skip

    def _standings(self, X: csr_matrix, has_total: bool) -> Iterator[Standings]:
        """What the exact values of the pairs come to, of some rows at a time."""
        for by_first, n in self._exact(X, self._numbers):
            with np.errstate(all="ignore"):
                k, values = len(self.labels), (values for _, values in by_first)
                if not self._has_many:
                    values = decide.by_first(next(values), k)
                standings = Standings(n, k).counted(values, has_total)
            yield standings

    def expect(self, n_rows: int) -> None:
        """So many rows are about to come, in parts; see :mod:`odmtool.models.rows`."""
        self._rows.expect(n_rows)

    def predict_with_values(self, X: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """Labels, int64, shape (m,), and :meth:`decision_values`."""
        if self.scores is None:
            values = self._pair_values(X)
            best = votes(values, len(self.labels)).argmax(axis=1)
        else:
            best, values = self.scores.winners(X)
        return np.asarray(self.labels, dtype=np.int64)[best], values

    def predict(self, X: csr_matrix) -> np.ndarray:
        """Labels, int64, shape (m,)."""
        best = self._winners(X) if self.scores is None else self.scores.best(X)
        return np.asarray(self.labels, dtype=np.int64)[best]

    def _winners(self, X: csr_matrix) -> np.ndarray:
        """The places of the classes with most votes, shape (m,)."""
        from odmtool.models.rows import those_of

        # Their sums are two numbers for each pair; calls for a few rows take longer than the work.
        numbers = self._numbers if self._has_many else len(self.rho) // 2
        best, in_doubt = self._rows.by_single(X, numbers, self._sure, any_way=self._has_many)
        if in_doubt.any():
            left = self._standings(those_of(X, in_doubt), has_total=False)
            best[in_doubt] = np.concatenate([standings.winners() for standings in left])
        return best

    def _sure(self, X: csr_matrix, way: str) -> tuple[np.ndarray, np.ndarray]:
        """The classes with most votes of a block of rows, and where rounding may change that."""
        if not self._has_many:
            by_first = ((values, bound) for _, values, bound in self._by_first(X, way))
            return sure_winners(by_first, X.shape[0], len(self.labels))
        from odmtool.models.most_votes import PairsOfAClass, most_votes

        K, sizes = self._rows.matrix(X, way, np.array(self.n_support), self._largest)
        shares = self._rounding_shares(sizes, *self._rows.errors(X, way))
        pairs = PairsOfAClass(K, shares, np.array(self.n_support), self.coef, self.rho)
        # With many kernels the nearest class is that of the largest values.
        return most_votes(pairs.against, sizes.argmax(axis=0), len(self.labels))

    @property
    def _has_many(self) -> bool:
        """Whether values of pairs are made class by class."""
        return len(self.labels) >= MANY_CLASSES

    @property
    def _numbers(self) -> int:
        """The numbers of a row while what its pairs come to is made."""
        k, n = len(self.labels), len(self.coef)
        return numbers_by_class(k, n) if self._has_many else 2 * len(self.rho)

    @property
    def has_probabilities(self) -> bool:
        return self.probA is not None and self.probB is not None

    def predict_with_probabilities(self, X: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """Labels, int64, shape (m,), and probabilities of the classes, shape (m, k).

        Only if :attr:`has_probabilities`.
        """
        return most_probable(self, self._pair_blocks(X, *self._even_odds), X.shape[0])

    def shares_features(self, X: csr_matrix) -> bool:
        """Whether a feature of X occurs in a support vector, or they have none."""
        columns = self._rows.columns
        return columns.size == 0 or bool(np.isin(X.indices, columns).any())

    @property
    def largest_serial(self) -> int:
        """The largest serial number of a precomputed kernel's support vectors, or 0."""
        return int(self.support_vectors.data.max(initial=0))

    @cached_property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """The two classes of every pair, in LIBSVM's order."""
        return np.triu_indices(len(self.labels), 1)

    @cached_property
    def _even_odds(self) -> tuple[np.ndarray, np.ndarray]:
        """Per pair the value at which its classes are equally probable, and how far rounding
        of A f + B may move it.
        """  # fmt: skip
        with np.errstate(all="ignore"):
            boundary = -self.probB / self.probA
            margin = 8 * _EPS * (np.abs(boundary) + 1 / np.abs(self.probA))
        exists = np.isfinite(boundary)
        return np.where(exists, boundary, 0.0), np.where(exists, margin, 0.0)

    @cached_property
    def class_rows(self) -> list[slice]:
        """The support vectors of every class."""
        ends = np.cumsum(self.n_support)
        return [slice(end - n, end) for end, n in zip(ends, self.n_support, strict=True)]

    @cached_property
    def _rows(self) -> KernelRows:
        if self.scores is not None:
            return self.scores.rows
        from odmtool.models.rows import KernelRows

        return KernelRows(self.kernel, self.support_vectors)

    @cached_property
    def _largest(self) -> np.ndarray:
        """The largest absolute coefficient of every support vector, shape (n_sv,)."""
        return np.abs(self.coef).max(axis=1, initial=0.0)

    def _exact_by_first(
        self, X: csr_matrix, way: str, boundary, margin
    ) -> Iterator[tuple[slice, np.ndarray]]:  # fmt: skip
        """Values of each of many classes with those after it, or of all pairs, and their places
        among the pairs; those near a boundary in LIBSVM's order.
        """  # fmt: skip
        if not len(self.rho):  # of one class
            yield slice(0), np.empty((X.shape[0], 0))
            return
        boundary, margin = (np.broadcast_to(each, len(self.rho)) for each in (boundary, margin))
        in_order: dict[int, np.ndarray] = {}
        kept = _NUMBERS_IN_ORDER if self._has_many else 0
        of_classes = self._by_first(X, way)
        # Row by row where that is possible: kernel values in order are dear.
        for part, values, bound in of_classes if self._has_many else self._whole(of_classes):
            near = ~(np.abs(values - boundary[part]) > bound + margin[part])
            for row in np.flatnonzero(near.any(axis=1)):
                if row not in in_order:
                    if len(in_order) * len(self.coef) >= kept:
                        in_order.clear()
                    in_order[row] = self._rows.in_stock_order(X[row])
                for place in np.flatnonzero(near[row]):
                    pair = part.start + place
                    values[row, place] = self._stock_value(in_order[row], pair)
            yield part, values

    def _whole(self, of_classes: Iterator) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """The same of all pairs together."""
        parts, *arrays = zip(*of_classes, strict=True)
        yield slice(0, parts[-1].stop), *(np.concatenate(each, axis=1) for each in arrays)

    def _by_first(
        self, X: csr_matrix, way: str
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:  # fmt: skip
        """The same of any order, and how far they may be from LIBSVM's."""
        if self._has_many:
            K, sizes = self._rows.matrix(X, way, np.array(self.n_support), self._largest)
            by_first = pairs_by_class(K, self.class_rows, self.coef)
        else:
            sums, sizes = self._rows.sums(X, way, self.class_rows, self.coef, self._largest)
            by_first = (values for _, values in pairs_by_first(sums))
        shares = self._rounding_shares(sizes, *self._rows.errors(X, way))
        beside, start = 4 * _EPS * np.abs(self.rho), 0
        for i, values in enumerate(by_first):
            part = slice(start, start + values.shape[1])
            values -= self.rho[part]
            yield part, values, shares[:, i, None] + shares[:, i + 1 :] + beside[part]
            start = part.stop

    def _rounding_shares(self, sizes, relative, absolute) -> np.ndarray:
        """How far a value and LIBSVM's may be apart but for rho: the shares of its two classes.

        Shape (rows, classes).
        A sum of n terms is off by at most n eps times the sum of their absolute
        values, in any order; the errors of the kernel values come on top. ``sizes``, shape
        (classes, rows), are these sums with the largest of the coefficients.
        """
        tiny, terms = np.finfo(float).tiny, 2 * max(self.n_support)
        weights = np.array([self._largest[rows].sum() for rows in self.class_rows])
        shares = (2 * (terms + 4) * _EPS + relative[:, None]) * sizes.T
        shares += (absolute[:, None] + tiny) * weights
        return shares + (terms + 1) * tiny

    def _stock_value(self, kernel_values: np.ndarray, pair: int) -> float:
        """The value of one pair, summed in the order of the file."""
        first, second = self._pairs[0][pair], self._pairs[1][pair]
        a, b = self.class_rows[first], self.class_rows[second]
        terms = np.concatenate(
            [
                self.coef[a, second - 1] * kernel_values[a],
                self.coef[b, first] * kernel_values[b],
            ]
        )
        # cumsum adds one after the other, which sum does not.
        total = terms.cumsum()[-1] if terms.size else 0.0
        return total - self.rho[pair]


@dataclass(eq=False)
class CompactModel:
    """Decision functions of the classes over shared vectors; our own format.

    Attributes
    ----------
    labels : list of int
        k labels; at a tie the first wins.
    kernel : Kernel
        With bias 0: an intercept stands in offset.
    support_vectors : CSR or csr_matrix, shape (n_sv, d)
        Precomputed kernel: column 0 holds the serial numbers.
    coef : ndarray, shape (n_sv, k)
    offset : ndarray, shape (k,)
    probA, probB : ndarray, shape (k (k - 1) / 2,), or None
        Sigmoids of the pairs of classes.
    facts : dict
        What odm-train recorded, in its order.
    """

    labels: list[int]
    kernel: Kernel
    support_vectors: CSR | csr_matrix
    coef: np.ndarray
    offset: np.ndarray
    probA: np.ndarray | None = None
    probB: np.ndarray | None = None
    facts: dict[str, str] = field(default_factory=dict)

    is_precomputed = KernelModel.is_precomputed
    largest_serial = KernelModel.largest_serial
    shares_features = KernelModel.shares_features
    expect = KernelModel.expect
    has_probabilities = KernelModel.has_probabilities

    def predict_with_probabilities(self, X: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """As :meth:`KernelModel.predict_with_probabilities`; the same as those of LIBSVM's form."""
        k = len(self.labels)
        sigmoids = sigmoids_among(self.probA, self.probB, range(k)[::-1])
        blocks = self.scores.pair_blocks(X)
        probabilities = probabilities_of_blocks(blocks, X.shape[0], *sigmoids, k)
        best = probabilities.argmax(axis=1)
        return np.asarray(self.labels, dtype=np.int64)[::-1][best], probabilities[:, ::-1]

    has_scores = True

    @cached_property
    def scores(self) -> Scores:
        """The scores of the classes."""
        from odmtool.models import scores

        return scores.of_functions(self)

    @property
    def _rows(self) -> KernelRows:
        return self.scores.rows

    def decision_values(self, X: csr_matrix) -> np.ndarray:
        """One value per class, shape (m, k)."""
        return self.scores.values(X)[:, ::-1]

    def predict_with_values(self, X: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """Labels, int64, shape (m,), those of LIBSVM's form, and :meth:`decision_values`."""
        best, values = self.scores.winners(X)
        return np.asarray(self.labels, dtype=np.int64)[::-1][best], values[:, ::-1]

    def predict(self, X: csr_matrix) -> np.ndarray:
        """Labels, int64, shape (m,)."""
        return np.asarray(self.labels, dtype=np.int64)[::-1][self.scores.best(X)]
