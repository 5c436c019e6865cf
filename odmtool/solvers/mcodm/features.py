"""A kernel problem of mcODM as a linear one, so that Newton's method serves it.

Method   Pivoted Cholesky (:mod:`odmtool.solvers.engine.landmarks`) until nothing but rounding is
         left of any example: K = Z Z'. Then w_l = Z'(coefficients of class l), and scores are
         Z W. :class:`FeatureNewton` is :mod:`odmtool.solvers.mcodm.newton` with Z as a matrix of
         BLAS instead of rows.
"""

from __future__ import annotations

import numpy as np

from odmtool.core.gram import BYTES, Gram
from odmtool.core.kernel_table import STORED
from odmtool.rows.executor import Serial
from odmtool.solvers.engine.features import Basis
from odmtool.solvers.engine.landmarks import Landmarks
from odmtool.solvers.engine.points import Points
from odmtool.solvers.mcodm.hessian import hessian_product
from odmtool.solvers.mcodm.newton import LinearNewton
from odmtool.solvers.multi import (
    FEATURE_MATRICES,
    LARGEST_FEATURE_FACTOR,
    LARGEST_FEATURES,
    Duals,
    MultiProblem,
)


def has_features(problem: MultiProblem) -> bool:
    """Whether a kernel problem is small enough, and its kernel positive semidefinite."""
    gram, m = problem.gram, problem.size
    is_fitting = gram.kernel.row.of != STORED and gram.kernel.is_positive_semidefinite
    has_room = FEATURE_MATRICES * BYTES * m * m <= gram.memory
    return is_fitting and gram.X is not None and has_room and m <= LARGEST_FEATURES


class KernelFeatures:
    """Features of all examples.

    Attributes
    ----------
    Z : ndarray, shape (m, r)
    """

    def __init__(self, gram: Gram, seed: int):
        landmarks = Landmarks(Points(gram.kernel, gram.X, Serial()), gram.size, seed)
        landmarks.grow(gram.size)
        self._gram, self._members = gram, np.array(landmarks.members, dtype=int)
        self.Z = np.ascontiguousarray(landmarks.features)
        self._basis = Basis(landmarks.points, self._members, np.tril(self.Z[self._members]))

    def coefficients(self, W: np.ndarray) -> np.ndarray:
        """C of w_l = sum_i C_il phi(x_i), shape (m, k)."""
        C = np.zeros((len(self.Z), W.shape[1]))
        C[self._members] = self._basis.inverse @ W
        return C

    def squared_norm(self, C: np.ndarray) -> float:
        """sum_l |w_l|^2 from coefficients, by the kernel values themselves."""
        return float(np.vdot(C, self._gram.matrix() @ C))


class FeatureNewton(LinearNewton):
    """The state of a problem whose X is dense and has few rows."""

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
