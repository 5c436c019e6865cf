"""Newton's method of :mod:`odmtool.solvers.mcodm.newton` for sparse rows, by compiled loops."""

from __future__ import annotations

import numpy as np

from odmtool.core import deadline
from odmtool.solvers.descent.dcd import compressed_rows
from odmtool.solvers.mcodm.hessian import (
    Pieces,
    hessian,
    hessian_product,
    hessian_weights,
    smoothed,
)
from odmtool.solvers.mcodm.newton import SmoothedNewton
from odmtool.solvers.mcodm.weights import move_betas, rebuild_weights
from odmtool.solvers.multi import LARGEST_FACTOR, Duals, MultiProblem


class SparseNewton(SmoothedNewton):
    """The state of a problem whose X is sparse."""

    def __init__(self, problem: MultiProblem, duals: Duals, W: np.ndarray, tolerance: float):
        m, k = problem.size, problem.k
        self._pieces = Pieces(np.empty((m, k), dtype=np.int32), np.zeros(m, dtype=np.int64))
        problem = problem._replace(X=sorted_rows(problem.X))
        self._rows = compressed_rows(problem.X)
        super().__init__(problem, duals, W, tolerance)

    @property
    def active(self) -> int:
        return int(np.count_nonzero(self._pieces.count + (self.duals.beta > 0)))

    def rivals_changed(self, examples: np.ndarray, before: np.ndarray) -> None:
        move_betas(*self._rows, examples, before, self.duals, self._dual_W)

    def _rebuild_dual_weights(self) -> None:
        rebuild_weights(*self._rows, self._target, self.duals, self._dual_W)

    def _losses(self, change: np.ndarray, step: float) -> float:
        return smoothed(
            self._scores, change, step, *self._model()[:-2], self._centre, self.duals, self._pieces
        )

    def _model(self):
        problem = self.problem
        return (
            problem.parameters, self._rho, self._target, problem.weight, self.duals, self._pieces
        )  # fmt: skip

    def _hessian_times(self, V: np.ndarray) -> np.ndarray:
        V = np.ascontiguousarray(V)
        hessian_product(*self._rows, *self._model(), V, result := np.empty_like(V))
        return result

    def _hessian(self) -> np.ndarray | None:
        size = self.W.size
        if size > LARGEST_FACTOR or deadline.is_over():
            return None
        hessian(*self._rows, *self._model(), H := np.empty((size, size)))
        return H

    def _hessian_weights(self) -> np.ndarray:
        hessian_weights(*self._model(), weights := np.empty(self.duals.alpha.shape))
        return weights


def sorted_rows(X):
    """X with ascending columns in every row."""
    return X if isinstance(X, np.ndarray) or X.has_sorted_indices else X.sorted_indices()
