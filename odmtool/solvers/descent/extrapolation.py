"""Anderson's extrapolation of coordinate descent.

Problem     where lambda is large, epochs of coordinate descent become steps of one linear map
            eta_{k+1} = T eta_k + b, whose largest eigenvalues are close to 1: thousands of them
            go in the same few directions.
Update      after K epochs in one order, the combination of the last K iterates whose own step
            would be smallest if T were that map: with the steps U = (eta_1 - eta_0, ...) and
            z = (U'U)^-1 1 it is sum_k z_k eta_k / sum z, and with it w, or the decision values; the
            duals are brought back into the domain. It is taken only if it raises the dual.
            The order is shuffled anew only then: T is the map of one order.
Stop        never: the epochs do, which this only makes fewer.
Source      Bertrand & Massias, "Anderson acceleration of coordinate descent", AISTATS 2021,
            Algorithm 4, there with K = 5.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.linalg import LinAlgError

from odmtool.core import losses
from odmtool.solvers.base import Problem

# Epochs in one order. Half of the epochs are saved with 8 to 20 (text of 2000 documents, lambda
# 2^8 to 2^20), a third with 5.
# speed only: every point that raises the dual is as good
EPOCHS = 10
# Before, shuffling is worth more.
# speed only: as above
_FIRST = 20
# So many numbers are kept at most.
_MOST = 2**21
# What is added to the diagonal of U'U, relative to its trace: less makes large numbers of opposite
# signs of z, and rounding errors with them, and saves no more.
_REGULARISATION = 1e-10
# Duals that differ by this share are the same.
# speed only: decision values are summed anew before the gap is looked at
_SAME = 1e-12


class Extrapolation:
    """What is known of the last epochs of coordinate descent.

    Parameters
    ----------
    state : LinearState or KernelState
        Its duals, and w or the decision values, which it may replace
        (:func:`odmtool.solvers.descent.dcd.state_of`).
    most : int, optional
        Numbers that may be kept where a few million are too few.
    """

    def __init__(self, problem: Problem, state, most: int = 0):
        self._problem, self._state, self._epochs, self._count = problem, state, 0, 0
        sums, duals = (EPOCHS + 1) * len(state.carried), (2 * EPOCHS + 1) * len(state.eta)
        self._fits = state.is_at_hand and sums + duals <= max(_MOST, most)
        self._duals = self._sums = None

    def nearest(self, eta: np.ndarray) -> np.ndarray:
        """The duals in the domain that are nearest to these, or near them."""
        return losses.nearest_dual(self._loss, eta)

    def dual(self) -> float:
        """D of the state."""
        state = self._state
        return float(losses.dual_value(self._loss, state.eta).sum() - state.squared_norm() / 2)

    @cached_property
    def _loss(self) -> losses.MarginLoss:
        """One for each example."""
        return losses.scaled(self._problem.loss, self._problem.weight)

    @property
    def has_begun(self) -> bool:
        """Whether the next epoch must have the order of the last one."""
        return self._count > 0

    def forget(self) -> None:
        """Begin again: the next epoch does not follow the last one."""
        self._count = 0

    def after_epoch(self) -> bool:
        """Keep the duals, or jump to better ones; whether it has jumped."""
        self._epochs += 1
        if self._epochs < _FIRST or not self._fits:
            return False
        state = self._state
        if self._duals is None:
            self._duals, self._sums = (
                np.empty((EPOCHS + 1, len(numbers))) for numbers in (state.eta, state.carried)
            )
        self._duals[self._count], self._sums[self._count] = state.eta, state.carried
        self._count += 1
        if self._count <= EPOCHS:
            return False
        self.forget()
        with np.errstate(over="ignore", invalid="ignore"):
            return self._jump()

    def _jump(self) -> bool:
        state, share = self._state, shares(self._duals)
        if share is None:
            return False
        before, eta = self.dual(), share @ self._duals[1:]
        near = self.nearest(eta)
        # Duals that stayed at a bound are there but for rounding.
        moved = np.where(np.abs(near - eta) > _SAME * np.abs(near), near - eta, 0.0)
        state.put(near, share @ self._sums[1:], moved)
        if self.dual() > before:
            return True
        state.put(self._duals[-1], self._sums[-1])
        return False


def shares(points: np.ndarray) -> np.ndarray | None:
    """z / sum z for K + 1 points, shape (K + 1, m), of which the last K have a share each.

    None where there is no such combination.
    """
    steps = np.diff(points, axis=0)
    U = steps @ steps.T
    U.flat[:: len(U) + 1] += _REGULARISATION * U.trace()
    try:
        z = np.linalg.solve(U, np.ones(len(U)))
    except LinAlgError:
        return None
    total = z.sum()
    return z / total if np.isfinite(total) and total != 0 else None
