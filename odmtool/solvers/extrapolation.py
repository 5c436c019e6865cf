"""Anderson's extrapolation of coordinate descent.

Problem     where lambda is large, epochs of coordinate descent become steps of one linear map
            eta_{k+1} = T eta_k + b, whose largest eigenvalues are close to 1: thousands of them
            go in the same few directions.
Update      after K epochs in one order, the combination of the last K iterates whose own step
            would be smallest if T were that map: with the steps U = (eta_1 - eta_0, ...) and
            z = (U'U)^-1 1 it is sum_k z_k eta_k / sum z. It is taken only if it raises the dual.
            The order is shuffled anew only then: T is the map of one order.
Stop        never: the epochs do, which this only makes fewer.
Source      Bertrand & Massias, "Anderson acceleration of coordinate descent", AISTATS 2021,
            Algorithm 4, there with K = 5.
"""

from __future__ import annotations

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
# Where many epochs are needed, so many times more would be without it.
# speed only: when another solver takes over
_SAVED = 2


class Extrapolation:
    """What is known of the last epochs of coordinate descent.

    Parameters
    ----------
    problem : Problem
    state : LinearState or KernelState
        Its duals and decision values (:func:`odmtool.solvers.dcd.state_of`), which it may replace.
    """

    def __init__(self, problem: Problem, state):
        self._problem, self._state, self._points, self._epochs = problem, state, [], 0
        self._fits = state.is_at_hand and (EPOCHS + 1) * problem.size <= _MOST

    @property
    def saved(self) -> int:
        """How many epochs one stands for that is to come, about."""
        return _SAVED if self._fits else 1

    @property
    def has_begun(self) -> bool:
        """Whether the next epoch must have the order of the last one."""
        return bool(self._points)

    def forget(self) -> None:
        """Begin again: the next epoch does not follow the last one."""
        self._points = []

    def after_epoch(self) -> None:
        """Keep the duals, or jump to better ones."""
        self._epochs += 1
        if self._epochs < _FIRST or not self._fits:
            return
        self._points.append(self._state.eta.copy())
        if len(self._points) > EPOCHS:
            with np.errstate(over="ignore", invalid="ignore"):
                self._jump()
            self.forget()

    def _jump(self) -> None:
        state, loss = self._state, losses.scaled(self._problem.loss, self._problem.weight)
        eta = combination(np.array(self._points))
        if eta is None:
            return
        before = dual(loss, state)
        state.assign(losses.nearest_dual(loss, eta))
        if not dual(loss, state) > before:
            state.assign(self._points[-1])


def combination(points: np.ndarray) -> np.ndarray | None:
    """Of K + 1 points, shape (K + 1, m), where their steps lead; None where they are nothing."""
    steps = np.diff(points, axis=0)
    U = steps @ steps.T
    U.flat[:: len(U) + 1] += _REGULARISATION * U.trace()
    try:
        z = np.linalg.solve(U, np.ones(len(U)))
    except LinAlgError:
        return None
    total = z.sum()
    return z @ points[1:] / total if np.isfinite(total) and total != 0 else None


def dual(loss: losses.MarginLoss, state) -> float:
    """D(eta) of a state."""
    return float(losses.dual_value(loss, state.eta).sum() - state.squared_norm() / 2)
