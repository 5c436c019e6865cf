"""The parts of a problem, where they are kept and how they are solved.

A part of the share q (see :mod:`odmtool.scalable.sodm`) is a problem with weights u / q,
whose duals are 1 / q times those of the whole problem. All duals here are those of the
whole problem, so that merging parts is putting them side by side.
"""

from __future__ import annotations

import numpy as np

from odmtool import kernels
from odmtool.gram import Gram
from odmtool.kernels import Kernel
from odmtool.scalable.tiles import Tiles
from odmtool.solvers import dcd
from odmtool.solvers.base import Problem, Stop

SINGLE_TOLERANCE = 1e-5
"""Single precision is used down to this tolerance."""
# Largest error that single precision may cause in the exponent of rbf.
_SINGLE_ERROR = 1e-5


class LocalParts:
    """A problem whose examples stand in the order of their parts, in this process's memory.

    Parameters
    ----------
    problem : Problem
    order : int array, shape (m,)
    ranges : list of (start, end)
        The smallest parts.
    tolerance : float
        The gap that is wanted at last, for the precision of the kernel values.
    executor
        Serial or Threads.
    cascade : bool
        Leave out examples that have no dual variable after the first level.
    """

    def __init__(self, problem: Problem, order, ranges, tolerance: float, executor, cascade: bool):
        self.y, self.weight, self.loss = problem.y[order], problem.weight[order], problem.loss
        self._executor, self._cascade, self._solved = executor, cascade, False
        self._X = self._tiles = self._values = None
        if problem.gram is None:
            self._X = problem.X[order]
            return
        gram = problem.gram
        X = gram.X[order]
        if single_precision_is_enough(gram, tolerance):
            X = X.astype(np.float32)
        # A cascade's parts shrink, and have matrices of their own.
        self._memory = gram.memory
        kept = 0.0 if cascade else gram.memory
        self._tiles = Tiles(gram.kernel, X, ranges, kept, gram.memory, executor)

    def solve(self, ranges, eta: np.ndarray, stop: Stop, seed: int) -> int:
        """Solve the parts, changing ``eta`` in place; returns the most epochs that one took."""
        members = [np.arange(a, b) for a, b in ranges]
        if self._cascade and self._solved:
            members = [part[eta[part] != 0] for part in members]
        self._solved = True
        total = self.weight.sum()
        shares = [self.weight[a:b].sum() / total for a, b in ranges]
        if self._tiles is None:
            rows = [self._X[part] for part in members]
            grams = [None] * len(rows)
        else:
            rows = [None] * len(members)
            grams = self._tiles.parts(ranges, members)
        tasks = []
        for k, part in enumerate(members):
            weight, start = self.weight[part] / shares[k], eta[part] / shares[k]
            problem = Problem(rows[k], grams[k], self.y[part], weight, self.loss)
            values = self._values[part] if len(ranges) == 1 and self._values is not None else None
            tasks.append((problem, stop, (seed, len(ranges), k), start, values))
        epochs = 0
        results = self._executor.map(_solve, *zip(*tasks, strict=True))
        for part, share, (duals, used) in zip(members, shares, results, strict=True):
            eta[part] = share * duals
            epochs = max(epochs, used)
        return epochs

    def values(self, eta: np.ndarray):
        """w (None for a kernel) and f(x_i), shape (m,), from the duals of the whole problem."""
        signed = eta * self.y
        if self._tiles is None:
            w = np.asarray(self._X.T @ signed)
            return w, np.asarray(self._X @ w)
        self._values = self._tiles.times(signed)
        return None, self._values


def _solve(problem: Problem, stop: Stop, seed, start, values):
    """The duals of a part, and the epochs they took."""
    if not start.any():
        start = values = None
    solution = dcd.solve(problem, stop, seed=seed, start=start, values=values)
    return solution.eta, solution.iterations


def single_precision_is_enough(gram: Gram, tolerance: float) -> bool:
    """Whether the rounding of single precision stays far below the gap that is wanted."""
    kernel, rounding = gram.kernel, float(np.finfo(np.float32).eps)
    if tolerance < SINGLE_TOLERANCE or kernel.name != "rbf":
        return False
    squares = np.max(kernels.diagonal(Kernel("linear"), gram.X), initial=0.0)
    return kernel.gamma * squares * rounding <= _SINGLE_ERROR
