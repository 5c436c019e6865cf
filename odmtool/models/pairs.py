"""Values of the pairs of classes of a kernel model, and what they come to.

A value is the sum of the coefficients of its two classes times kernel values, less rho. Such
sums are made in any order, with a bound of how far rounding may put them from LIBSVM's; those
nearer to a boundary are made again in LIBSVM's order, so that labels are its own. The sums of few
classes are made of all pairs together; those of many would fill the memory, and are made class by
class.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from odmtool.models.decide import (
    Standings,
    numbers_by_class,
    pairs_by_class,
    pairs_by_first,
    sure_winners,
)
from odmtool.models.most_votes import PairsOfAClass, most_votes
from odmtool.models.rows import NUMBERS_OF_A_PAIR, KernelRows, those_of

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_EPS = np.finfo(float).eps
# Kernel values in LIBSVM's order that are kept until other pairs of their rows are looked at.
_NUMBERS_IN_ORDER = 2**23

MANY_CLASSES = 100
"""From so many classes on values are made class by class."""


def pairs_of(model) -> Pairs:
    """The pairs of a KernelModel in the way that suits the number of its classes."""
    return (PairsByClass if len(model.labels) >= MANY_CLASSES else Pairs)(model)


class Pairs:
    """The pairs of few classes of a KernelModel.

    Attributes
    ----------
    rows : KernelRows
    numbers, numbers_of_values, numbers_of_labels : int
        What a row takes while values are made class by class, while all are kept, and while
        single precision decides.
    takes_any_way : bool
        Whether kernel values of any kind may decide in doubt; see :meth:`KernelRows.by_single`.
    """

    takes_any_way = False

    def __init__(self, model):
        self.rows = KernelRows(model.kernel, model.support_vectors)
        self._coef, self._rho, self._groups = model.coef, model.rho, model.class_rows
        self._counts, self._k = np.array(model.n_support), len(model.labels)
        # The largest absolute coefficient of every support vector.
        self._largest = np.abs(model.coef).max(axis=1, initial=0.0)
        n_pairs = len(model.rho)
        # Calls for a few rows take longer than the work.
        self.numbers, self.numbers_of_labels = 2 * n_pairs, n_pairs // 2
        self.numbers_of_values = NUMBERS_OF_A_PAIR * n_pairs

    def blocks(self, X: csr_matrix, boundary=0.0, margin=0.0) -> Iterator[np.ndarray]:
        """The values of all pairs of some rows at a time, shape (m, k (k - 1) / 2).

        Those within margin and rounding of a boundary are exactly LIBSVM's.
        """
        for by_first, n in self._exact(X, self.numbers_of_values, boundary, margin):
            found = np.empty((n, len(self._rho)))
            with np.errstate(all="ignore"):
                for part, values in by_first:
                    found[:, part] = values
            yield found

    def standings(self, X: csr_matrix, has_total: bool) -> Iterator[Standings]:
        """What the exact values come to, of some rows at a time."""
        for by_first, n in self._exact(X, self.numbers):
            with np.errstate(all="ignore"):
                values = (values for _, values in by_first)
                standings = Standings(n, self._k).counted(values, has_total)
            yield standings

    def winners(self, X: csr_matrix) -> np.ndarray:
        """The places of the classes with most votes, shape (m,)."""
        numbers, any_way = self.numbers_of_labels, self.takes_any_way
        best, in_doubt = self.rows.by_single(X, numbers, self._sure, any_way)
        if in_doubt.any():
            left = self.standings(those_of(X, in_doubt), has_total=False)
            best[in_doubt] = np.concatenate([standings.winners() for standings in left])
        return best

    def _sure(self, X: csr_matrix, way: str) -> tuple[np.ndarray, np.ndarray]:
        """The classes with most votes of a block of rows, and where rounding may change that."""
        by_first = ((values, bound) for _, values, bound in self._by_first(X, way))
        return sure_winners(by_first, X.shape[0], self._k)

    def _exact(
        self, X: csr_matrix, numbers: int, boundary=0.0, margin=0.0
    ) -> Iterator[tuple[Iterator[tuple[slice, np.ndarray]], int]]:  # fmt: skip
        """Exact values of blocks of rows, of which each takes so many numbers, class by class; and
        how many rows.
        """  # fmt: skip
        way = self.rows.way(X.shape[0])
        near = [np.broadcast_to(each, len(self._rho)) for each in (boundary, margin)]
        for part in self.rows.blocks(X.shape[0], numbers):
            yield self._exact_by_first(X[part], way, *near), part.stop - part.start

    def _exact_by_first(
        self, X: csr_matrix, way: str, boundary, margin
    ) -> Iterator[tuple[slice, np.ndarray]]:  # fmt: skip
        """Values of each class with those after it, and their places among the pairs; those near
        a boundary in LIBSVM's order.
        """  # fmt: skip
        in_order: dict[int, np.ndarray] = {}
        for part, values, bound in self._by_first(X, way):
            near = ~(np.abs(values - boundary[part]) > bound + margin[part]) & (bound != 0)
            for row in np.flatnonzero(near.any(axis=1)):
                if row not in in_order:
                    if len(in_order) * len(self._coef) >= _NUMBERS_IN_ORDER:
                        in_order.clear()
                    in_order[row] = self.rows.in_stock_order(X[row])
                first = self._k - 1 - values.shape[1]
                for place in np.flatnonzero(near[row]):
                    rho = self._rho[part.start + place]
                    second = first + 1 + place
                    values[row, place] = self._stock_value(in_order[row], first, second) - rho
            yield part, values

    def _by_first(self, X: csr_matrix, way: str) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """The same of any order, and how far they may be from LIBSVM's.

        That is 0 of pairs without coefficients, and of no others.
        """
        if not len(self._rho):  # of one class
            return
        sums, sizes = self._sums(X, way)
        shares = self._rounding_shares(sizes, *self.rows.errors(X, way))
        beside, start = 4 * _EPS * np.abs(self._rho), 0
        for i, values in enumerate(sums):
            part = slice(start, start + values.shape[1])
            values -= self._rho[part]
            bound = shares[:, i, None] + shares[:, i + 1 :] + beside[part]
            if (is_empty := self._is_empty[part]).any():
                bound[:, is_empty] *= ~np.isfinite(values[:, is_empty])
            yield part, values, bound
            start = part.stop

    @cached_property
    def _is_empty(self) -> np.ndarray:
        """The pairs both of whose classes have coefficients 0, shape (k (k - 1) / 2,).

        Those of trainings that the time ended before them are, and values are -rho exactly.
        """
        has_any = np.array([self._coef[group].any(axis=0) for group in self._groups])
        first, second = np.triu_indices(self._k, 1)
        return ~(has_any[first, second - 1] | has_any[second, first])

    def _sums(self, X: csr_matrix, way: str) -> tuple[Iterator[np.ndarray], np.ndarray]:
        """The values without rho, class by class, and for the bounds the sums of absolute kernel
        values of each class times its largest coefficients, shape (k, m).
        """  # fmt: skip
        sums, sizes = self.rows.sums(X, way, self._groups, self._coef, self._largest)
        return (values for _, values in pairs_by_first(sums)), sizes

    def _rounding_shares(self, sizes, relative, absolute) -> np.ndarray:
        """How far a value and LIBSVM's may be apart but for rho: the shares of its two classes.

        Shape (rows, classes).
        A sum of n terms is off by at most n eps times the sum of their absolute
        values, in any order; the errors of the kernel values come on top. ``sizes``, shape
        (classes, rows), are these sums with the largest of the coefficients.
        """
        tiny, terms = np.finfo(float).tiny, 2 * self._counts.max()
        weights = np.array([self._largest[rows].sum() for rows in self._groups])
        shares = (2 * (terms + 4) * _EPS + relative[:, None]) * sizes.T
        shares += (absolute[:, None] + tiny) * weights
        return shares + (terms + 1) * tiny

    def _stock_value(self, kernel_values: np.ndarray, first: int, second: int) -> float:
        """The value of a pair of classes without rho, summed in the order of the file."""
        a, b = self._groups[first], self._groups[second]
        terms = np.concatenate(
            [
                self._coef[a, second - 1] * kernel_values[a],
                self._coef[b, first] * kernel_values[b],
            ]
        )
        # cumsum adds one after the other, which sum does not.
        return terms.cumsum()[-1] if terms.size else 0.0


class PairsByClass(Pairs):
    """The pairs of many classes."""

    takes_any_way = True

    def __init__(self, model):
        super().__init__(model)
        self.numbers = self.numbers_of_labels = numbers_by_class(self._k, len(self._coef))
        self.numbers_of_values = self.numbers + len(self._rho)

    def _sure(self, X: csr_matrix, way: str) -> tuple[np.ndarray, np.ndarray]:
        """See :meth:`Pairs._sure`; few classes need to be compared with the others."""
        K, sizes = self._matrix(X, way)
        shares = self._rounding_shares(sizes, *self.rows.errors(X, way))
        pairs = PairsOfAClass(K, shares, self._counts, self._coef, self._rho)
        # With many kernels the nearest class is that of the largest values.
        return most_votes(pairs.against, sizes.argmax(axis=0), self._k)

    def _sums(self, X: csr_matrix, way: str) -> tuple[Iterator[np.ndarray], np.ndarray]:
        """See :meth:`Pairs._sums`."""
        K, sizes = self._matrix(X, way)
        return pairs_by_class(K, self._groups, self._coef), sizes

    def _matrix(self, X: csr_matrix, way: str) -> tuple[np.ndarray, np.ndarray]:
        """Kernel values of a block of rows, and the sizes of :meth:`_sums`."""
        return self.rows.matrix(X, way, self._counts, self._largest)
