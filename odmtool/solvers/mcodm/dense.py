"""Newton's method of :mod:`odmtool.solvers.mcodm.newton` for dense rows, with products by BLAS.

It serves features of a kernel, and data few of whose values are zero: there BLAS multiplies all
examples sooner than loops over rows multiply those whose loss is not flat.
"""

from __future__ import annotations

import numpy as np

from odmtool.solvers.mcodm.hessian import hessian_product
from odmtool.solvers.mcodm.newton import LinearNewton
from odmtool.solvers.multi import LARGEST_FACTOR, LARGEST_FEATURE_FACTOR, Duals, MultiProblem

# Rows with a larger share of values that are not zero become an array.
_DENSE = 0.4


def dense_rows(X, k: int) -> np.ndarray | None:
    """The rows as an array; None if most values are zero, or d k unknowns are few.

    Of few unknowns the whole Hessian is factored, which loops over rows make sooner.
    """
    m, d = X.shape
    if isinstance(X, np.ndarray):
        return X
    return X.toarray() if d * k > LARGEST_FACTOR and X.nnz > _DENSE * m * d else None


class DenseNewton(LinearNewton):
    """The state of a problem whose X is an array."""

    def __init__(self, problem: MultiProblem, duals: Duals, W: np.ndarray):
        super().__init__(problem, duals, W)
        m = problem.size
        # Rows of the identity: products with them are those of the scores.
        self._rows = np.ones(m), np.arange(m, dtype=np.int32), np.arange(m + 1)

    def rivals_changed(self, examples: np.ndarray, before: np.ndarray) -> None:
        """See :class:`LinearNewton`."""
        self._rebuild_dual_weights()

    def _rebuild_dual_weights(self) -> None:
        self._dual_W[:] = self._X.T @ self.duals.coefficients(self._target)

    def _hessian_times(self, V: np.ndarray) -> np.ndarray:
        return V + self._X.T @ self._curvatures(self._X @ V)

    def _curvatures(self, change: np.ndarray) -> np.ndarray:
        """H_i times row i of a change of the scores, shape (m, k)."""
        hessian_product(*self._rows, *self._model(), change, result := np.empty_like(change))
        return result - change

    def _hessian(self) -> np.ndarray | None:
        m, k = self.problem.size, self.problem.k
        d = self.W.shape[0]
        if d * k > LARGEST_FEATURE_FACTOR:
            return None
        H = np.zeros((d * k, d * k))
        for right in range(k):
            unit = np.zeros((m, k))
            unit[:, right] = 1.0
            weights = self._curvatures(unit)
            for left in range(right, k):
                block = H[left * d : (left + 1) * d, right * d : (right + 1) * d]
                block[:] = (self._X * weights[:, [left]]).T @ self._X
        H.flat[:: d * k + 1] += 1.0
        return H
