"""A model together with the ranges by which its training data were scaled.

It takes rows as they are, scales them (:mod:`odmtool.core.scaling`), and answers what the model
answers to the scaled rows. The ranges are not folded into the weights of a linear model: its
weights and margins stay those of the problem that was solved, numbers far from 0 lose nothing,
and there is one rule for all models.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from odmtool.core.scaling import Ranges, Scaler

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from odmtool.models.kernel import CompactModel, KernelModel
    from odmtool.models.linear import LinearModel


class ScaledModel:
    """See :mod:`odmtool.models.scaled`; the methods are those of the other models.

    ``trained`` (LinearModel, KernelModel or CompactModel): of scaled rows.
    """

    is_precomputed = False

    def __init__(self, trained: LinearModel | KernelModel | CompactModel, ranges: Ranges):
        self.trained, self.ranges = trained, ranges
        self.labels, self.facts = trained.labels, trained.facts
        self.probA, self.probB = trained.probA, trained.probB
        self._scaler = Scaler(ranges)

    @property
    def has_scores(self) -> bool:
        """Whether there is one decision value per class, and the largest wins."""
        return self.trained.has_scores

    @property
    def has_probabilities(self) -> bool:
        return self.trained.has_probabilities

    def expect(self, n_rows: int) -> None:
        """So many rows are about to come, in parts."""
        self.trained.expect(n_rows)

    def decision_values(self, X: csr_matrix) -> np.ndarray:
        """Those of the model, for rows that are not scaled."""
        return self._joined(lambda rows: (self.trained.decision_values(rows),), X)[0]

    def votes_and_confidence(self, X: csr_matrix) -> np.ndarray:
        """Those of the model, where pairs of classes vote."""
        return self._joined(lambda rows: (self.trained.votes_and_confidence(rows),), X)[0]

    def predict_with_values(self, X: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """Labels, int64, shape (m,), and :meth:`decision_values`."""
        return self._joined(self.trained.predict_with_values, X)

    def predict(self, X: csr_matrix) -> np.ndarray:
        """Labels, int64, shape (m,)."""
        return self._joined(lambda rows: (self.trained.predict(rows),), X)[0]

    def predict_with_probabilities(self, X: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """Labels, int64, shape (m,), and probabilities of the classes, shape (m, k)."""
        return self._joined(self.trained.predict_with_probabilities, X)

    def shares_features(self, X: csr_matrix) -> bool:
        """Whether a feature of X has a range, or none has."""
        columns = self.ranges.index - 1
        return not len(columns) or bool(np.isin(X.indices, columns).any())

    def _joined(self, answer: Callable[[csr_matrix], tuple], X: csr_matrix) -> tuple:
        """What the model answers to the scaled rows, some at a time: they may be dense."""
        parts = list(self._scaler.parts(X.indptr)) or [slice(0)]
        answers = [answer(self._scaler.scale_in_place(X[part]).matrix()) for part in parts]
        return tuple(map(np.concatenate, zip(*answers, strict=True)))
