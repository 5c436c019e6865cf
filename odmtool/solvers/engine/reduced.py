"""Newton's method in the span of landmarks: a linear problem on features in single precision.

Problem  min over w of 1/2 |w|^2 + sum_i u_i l(y_i <w, z_i>), z_i the features (r numbers).
Update   that of :mod:`odmtool.solvers.newton.newton` in w space. The Hessian I + sum_i s_i z_i z_i'
         is kept from step to step: only examples whose margin has moved to another piece of
         the loss change their s_i, and after the first steps these are few.
Stop     as there. Features in single precision make every step a little wrong, which the next
         one repairs; what remains is part of the certificate of the full problem.
"""

from __future__ import annotations

import numpy as np

from odmtool.solvers.newton.factor import cholesky_in_place, cholesky_solve
from odmtool.solvers.newton.spaces import WeightSpace

# speed only: tasks are so large that adding up results costs nothing beside making them
_ROWS, _TASKS = 4096, 16
# Above this share of changed examples the Hessian is made anew.
# speed only: it is the same Hessian
_CHANGED = 0.4


class FeatureSpace(WeightSpace):
    """The unknown is w, shape (r,); see :mod:`odmtool.solvers.newton.spaces` for the questions.

    Parameters
    ----------
    Z : ndarray, shape (m, r)
        Features.
    y : ndarray of +1.0 and -1.0, shape (m,)
        0.0 where an example takes no part and weighs nothing.
    start : ndarray, shape (r,) or less, optional
        Where to begin; zeros are appended.
    executor
    """

    def __init__(self, Z: np.ndarray, y: np.ndarray, executor, start: np.ndarray | None = None):
        self._Z, self._y, self._executor = Z, y, executor
        self._start = np.zeros(Z.shape[1])
        if start is not None:
            self._start[: len(start)] = start
        # speed only: how rows are split among threads
        rows = max(_ROWS, -(-len(y) // _TASKS))
        self._parts = [slice(k, min(k + rows, len(y))) for k in range(0, len(y), rows)]
        self._slopes, self._hessian, self._gradient = np.zeros(len(y)), np.eye(Z.shape[1]), None

    def zero(self):
        return self._start.copy()

    def point(self, eta):
        signed = (self._y * eta).astype(self._Z.dtype)
        parts = self._executor.map(lambda part: signed[part] @ self._Z[part], self._parts)
        return np.sum(parts, axis=0, dtype=float)

    def margins(self, w):
        w = w.astype(self._Z.dtype)
        parts = self._executor.map(lambda part: self._Z[part] @ w, self._parts)
        return self._y * np.concatenate(parts)

    def gap(self, loss, w, t, eta, enough, far):
        """1/2 |w - w(eta)|^2, half the square of the gradient, the dual point eta, and t."""
        self._gradient = w - self.point(eta)
        return self._gradient @ self._gradient / 2, eta, t

    def unsure(self, _loss, _w, _eta):
        """Nothing: the certificate is computed afresh."""
        return 0.0

    def newton_point(self, slopes, eta, t, w, gap):
        """w less the gradient multiplied by the Hessian's inverse."""
        self._update(slopes)
        return w - cholesky_solve(cholesky_in_place(self._hessian.copy()), self._gradient)

    def preconditioner(self, slopes: np.ndarray, rows: np.ndarray, root: np.ndarray):
        """The inverse of I + S^1/2 Z Z' S^1/2 on these rows, by Woodbury's formula: a function."""
        self._update(slopes)
        factor = cholesky_in_place(self._hessian.copy())
        everything = np.zeros(len(slopes), self._Z.dtype)

        def apply(v: np.ndarray) -> np.ndarray:
            everything[rows] = root * v
            parts = self._executor.map(lambda part: everything[part] @ self._Z[part], self._parts)
            inner = cholesky_solve(factor, np.sum(parts, axis=0, dtype=float))
            inner = inner.astype(self._Z.dtype)
            parts = self._executor.map(lambda part: self._Z[part] @ inner, self._parts)
            return v - root * np.concatenate(parts)[rows]

        return apply

    def _update(self, slopes: np.ndarray) -> None:
        """Bring the Hessian to these slopes."""
        changed = np.flatnonzero(slopes != self._slopes)
        # speed only: it is the same Hessian
        if len(changed) > _CHANGED * len(slopes):
            self._hessian, self._slopes = np.eye(self._Z.shape[1]), np.zeros(len(slopes))
            changed = np.flatnonzero(slopes)
        change = slopes[changed] - self._slopes[changed]
        for sign in (1.0, -1.0):
            rows = changed[sign * change > 0]
            if rows.size:
                weights = np.abs(change[sign * change > 0])
                self._hessian += sign * weighted_gram(self._Z, rows, weights, self._executor)
        self._slopes = slopes.copy()


def weighted_gram(Z: np.ndarray, rows: np.ndarray, weights: np.ndarray, executor) -> np.ndarray:
    """sum_i weights_i z_i z_i' over these rows, shape (r, r), in double precision.

    Parameters
    ----------
    Z : ndarray, shape (m, r)
    rows : int array, shape (n,)
    weights : ndarray, shape (n,)
        Not negative.
    executor
    """
    roots = np.sqrt(weights).astype(Z.dtype)
    total = np.zeros((Z.shape[1], Z.shape[1]))

    def one(start: int) -> np.ndarray:
        # A copy of more rows would take much memory.
        part = slice(start, start + _ROWS)
        scaled = Z[rows[part]]
        scaled *= roots[part, None]
        return scaled.T @ scaled

    # As many at a time as there are threads, so that few results wait.
    starts = list(range(0, len(rows), _ROWS))
    for k in range(0, len(starts), executor.jobs):
        for gram in executor.map(one, starts[k : k + executor.jobs]):
            total += gram
    return total
