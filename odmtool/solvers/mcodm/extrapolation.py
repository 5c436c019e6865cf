"""Anderson's extrapolation of mcODM's coordinate descent.

That of :mod:`odmtool.solvers.descent.extrapolation`, with what this dual has of its own.

Problem     the dual of one round of :mod:`odmtool.solvers.mcodm.rounds`; its variables are alpha
            and beta, one after the other.
Domain      alpha^l <= 0 of the other classes and beta >= 0 are cut off, and alpha^y is what makes
            the sum 0: near the nearest point, and the dual decides whether it is good. What epochs
            have left out since the first of the points stays 0.
"""

from __future__ import annotations

import numpy as np

from odmtool.solvers.descent import extrapolation
from odmtool.solvers.mcodm.terms import dual_terms


class Extrapolation(extrapolation.Extrapolation):
    """The same for a MultiProblem and a state of :mod:`odmtool.solvers.mcodm.descent`."""

    def nearest(self, eta: np.ndarray) -> np.ndarray:
        m, target = self._problem.size, self._problem.target
        visited = self._state.is_visited
        alpha = np.where(visited, np.minimum(eta[:-m].reshape(m, -1), 0.0), 0.0)
        beta = np.where(visited.any(axis=1), np.maximum(eta[-m:], 0.0), 0.0)
        alpha[np.arange(m), target] = 0.0
        alpha[np.arange(m), target] = -alpha.sum(axis=1)
        return np.concatenate([alpha.ravel(), beta])

    def dual(self) -> float:
        state = self._state
        return dual_terms(self._problem, state.duals) - state.squared_norm() / 2
