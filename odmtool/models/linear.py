"""Linear models: weights per feature and class."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from odmtool.core.columns import with_width
from odmtool.models.decide import first_maximum, most_probable, pair_blocks
from odmtool.models.probability import logistic_probabilities

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from odmtool.core.csr import CSR

# The solvers of LIBLINEAR whose values are log odds.
_LOGISTIC = ("L2R_LR", "L1R_LR", "L2R_LR_DUAL")


@dataclass(eq=False)
class LinearModel:
    """Weights per feature and class; a LIBLINEAR model.

    Attributes
    ----------
    labels : list of int
        In the order of the file; with two classes a positive value means labels[0].
    weights : ndarray, shape (d, n_w)
        n_w = 1 for two classes (2 for MCSVM_CS), else the number of classes.
    bias : float
        The value of the constant feature; negative: there is none.
    bias_weights : ndarray, shape (n_w,), or None
        The weights of the constant feature; present if bias >= 0.
    solver_type : str
        LIBLINEAR's name of a classification solver.
    probA, probB : ndarray, shape (k (k - 1) / 2,), or None
        Sigmoids of the pairs of classes.
    facts : dict
        What odm-train recorded, in its order; empty for a stock model.
    """

    labels: list[int]
    weights: np.ndarray
    bias: float = -1.0
    bias_weights: np.ndarray | None = None
    solver_type: str = "L2R_L2LOSS_SVC_DUAL"
    probA: np.ndarray | None = None
    probB: np.ndarray | None = None
    facts: dict[str, str] = field(default_factory=dict)

    is_precomputed = False

    @property
    def has_scores(self) -> bool:
        """Whether there is one decision value per class, and the largest wins."""
        return len(self.labels) > 2

    def expect(self, n_rows: int) -> None:
        """So many rows are about to come, in parts, as for kernels; here that changes nothing."""

    def decision_values(self, X: CSR | csr_matrix) -> np.ndarray:
        """Shape (m, 1) for two classes, else one value per class, shape (m, k)."""
        with np.errstate(all="ignore"):
            values = with_width(X, self.weights.shape[0]) @ self.weights
            if self.bias >= 0:
                values += self.bias * self.bias_weights
        return values[:, :1] if len(self.labels) == 2 else values

    def predict_with_values(self, X: CSR | csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """Labels, int64, shape (m,), and :meth:`decision_values`."""
        values = self.decision_values(X)
        binary = len(self.labels) == 2
        best = np.where(values[:, 0] > 0, 0, 1) if binary else first_maximum(values)
        return np.asarray(self.labels, dtype=np.int64)[best], values

    def predict(self, X: CSR | csr_matrix) -> np.ndarray:
        """Labels, int64, shape (m,)."""
        return self.predict_with_values(X)[0]

    @property
    def has_probabilities(self) -> bool:
        return self.probA is not None or self.solver_type in _LOGISTIC

    def predict_with_probabilities(self, X: CSR | csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """Labels, int64, shape (m,), and probabilities of the classes, shape (m, k).

        Only if :attr:`has_probabilities`.
        """
        labels, values = self.predict_with_values(X)
        if self.probA is None:
            return labels, logistic_probabilities(values, len(self.labels))
        return most_probable(self, pair_blocks(values, len(self.labels)), len(values))

    def shares_features(self, X: CSR | csr_matrix) -> bool:
        """Whether a feature of X occurs in the model, or the model has none."""
        n_features = self.weights.shape[0]
        return n_features == 0 or bool((X.indices < n_features).any())


def linear_model(weights, bias_row, bias: float, classes, facts) -> LinearModel:
    """One function for two classes, one per class otherwise.

    Parameters
    ----------
    weights : ndarray, shape (d, c)
    bias_row : ndarray, shape (c,)
        Weights of the constant feature.
    bias : float
        Its value; negative: there is none.
    """
    if len(classes) == 2 and weights.shape[1] == 2:
        weights, bias_row = weights[:, :1] - weights[:, 1:], bias_row[:1] - bias_row[1:]
    elif len(classes) == 1:  # a machine of many classes had to have a second one
        weights, bias_row = weights[:, :1], bias_row[:1]
    has_bias = bias >= 0
    return LinearModel(
        classes, weights, float(bias) if has_bias else -1.0, bias_row if has_bias else None,
        facts=facts,
    )  # fmt: skip
