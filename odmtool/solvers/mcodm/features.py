"""A kernel problem of mcODM as a linear one, so that Newton's method serves it.

Method   Pivoted Cholesky (:mod:`odmtool.solvers.engine.landmarks`) until nothing but rounding is
         left of any example: K = Z Z'. Then w_l = Z'(coefficients of class l), and scores are
         Z W, and :mod:`odmtool.solvers.mcodm.hessian` solves the problem.
"""

from __future__ import annotations

import numpy as np

from odmtool.core.gram import Gram
from odmtool.rows.executor import Serial
from odmtool.solvers.engine.features import Basis
from odmtool.solvers.engine.landmarks import Landmarks
from odmtool.solvers.engine.points import Points


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
        self._basis = Basis(landmarks.points, self._members, landmarks.factor)

    def coefficients(self, W: np.ndarray) -> np.ndarray:
        """C of w_l = sum_i C_il phi(x_i), shape (m, k)."""
        C = np.zeros((len(self.Z), W.shape[1]))
        C[self._members] = self._basis.inverse @ W
        return C

    def squared_norm(self, C: np.ndarray) -> float:
        """sum_l |w_l|^2 from coefficients, by the kernel values themselves."""
        return float(np.vdot(C, self._gram.matrix() @ C))
