"""Kernel models: support vectors and their coefficients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from odmtool.core.kernel_table import STORED
from odmtool.models.decide import most_probable, sigmoids_among, votes
from odmtool.models.probability import probabilities_of_blocks

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from odmtool.core.csr import CSR
    from odmtool.core.kernels import Kernel
    from odmtool.models.pairs import Pairs
    from odmtool.models.rows import KernelRows
    from odmtool.models.scores import Scores

_EPS = np.finfo(float).eps


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

    def _pair_values(self, X: csr_matrix) -> np.ndarray:
        """Values of the pairs, those within rounding of 0 exactly LIBSVM's; only without scores."""
        return np.concatenate([np.empty((0, len(self.rho))), *self._pairs.blocks(X)])

    def _pair_blocks(self, X: csr_matrix, boundary, margin) -> Iterator[np.ndarray]:
        """The same of some rows at a time, within margin and rounding of a boundary."""
        if self.scores is not None:
            return self.scores.pair_blocks(X, boundary, margin)
        return self._pairs.blocks(X, boundary, margin)

    def votes_and_confidence(self, X: csr_matrix) -> np.ndarray:
        """See :func:`odmtool.models.decide.votes_and_confidence`; only without scores."""
        return np.concatenate([np.empty((0, len(self.labels))), *(
            standings.confident() for standings in self._pairs.standings(X, has_total=True)
        )])  # fmt: skip

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
        best = self._pairs.winners(X) if self.scores is None else self.scores.best(X)
        return np.asarray(self.labels, dtype=np.int64)[best]

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
    def _pairs(self) -> Pairs:
        """The pairs of classes; only without scores."""
        from odmtool.models import pairs

        return pairs.pairs_of(self)

    @property
    def _rows(self) -> KernelRows:
        return self._pairs.rows if self.scores is None else self.scores.rows


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
