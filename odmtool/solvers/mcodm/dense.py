"""Newton's method of :mod:`odmtool.solvers.mcodm.newton` for dense rows, without compiled code.

It serves features of a kernel, data few of whose values are zero, and small problems, which are
solved before compiled code has been loaded. The formulas are those of
:mod:`odmtool.solvers.mcodm.hessian`, for all examples at once; products are those of BLAS.
"""

from __future__ import annotations

import numpy as np

from odmtool.solvers.mcodm.newton import SmoothedNewton
from odmtool.solvers.multi import LARGEST_FEATURE_FACTOR, Duals, MultiProblem

# Numbers of the scores of so many rows that all that is made of them stays in a core's cache.
_PART = 2**14


class DenseNewton(SmoothedNewton):
    """The state of a problem whose X is an array."""

    def __init__(self, problem: MultiProblem, duals: Duals, W: np.ndarray):
        m, k = problem.size, problem.k
        self._c1 = problem.parameters.c1 * problem.weight
        self._free, self._count = np.zeros((m, k), dtype=bool), np.zeros(m, dtype=int)
        length = max(1, _PART // k)
        self._parts = [slice(first, first + length) for first in range(0, m, length)]
        super().__init__(problem, duals, W)

    @property
    def active(self) -> int:
        """Examples whose loss is not flat."""
        return int(np.count_nonzero(self._count + (self.duals.beta > 0)))

    def rivals_changed(self, _examples: np.ndarray, _before: np.ndarray) -> None:
        """Betas of some examples go to other columns; W does not depend on them."""
        self._rebuild_dual_weights()

    def _rebuild_dual_weights(self) -> None:
        self._dual_W[:] = self._X.T @ self.duals.coefficients(self._target)

    def _losses(self, change: np.ndarray, step: float) -> float:
        return sum(self._losses_of(rows, change, step) for rows in self._parts)

    def _losses_of(self, rows: slice, change: np.ndarray, step: float) -> float:
        """The same of some rows."""
        Z = self._scores[rows]
        if step > 0:
            Z = Z - step * change[rows]
        duals, loss, problem = self.duals, self.problem.parameters, self.problem
        target, c1, centre = self._target[rows], self._c1[rows], self._centre[rows]
        examples, tau, threshold = np.arange(len(Z)), self._rho / (2 * c1), 1 - loss.theta
        alpha = nearest_alphas(Z, centre, tau, threshold, c1, target)
        duals.alpha[rows], self._free[rows] = alpha, alpha < 0
        self._count[rows] = np.count_nonzero(self._free[rows], axis=1)
        s, own = alpha[examples, target], Z[examples, target]
        total = threshold * s.sum() - s @ (s / c1) / 4 - np.vdot(alpha, Z)
        alpha -= centre
        total -= tau @ np.einsum("ij,ij->i", alpha, alpha) / 2
        rival = duals.rival[rows]
        against = np.where(rival < 0, 0.0, Z[examples, rival])
        over = np.maximum(0.0, own - against - duals.upper[rows])
        c2 = loss.c2 * problem.weight[rows]
        duals.beta[rows] = 2 * c2 * over
        return float(total + over @ (c2 * over))

    def _hessian_times(self, V: np.ndarray) -> np.ndarray:
        change = self._X @ V
        for rows in self._parts:
            change[rows] = self._curvatures(change[rows], rows)
        return V + self._X.T @ change

    def _curvatures(self, change: np.ndarray, rows) -> np.ndarray:
        """H_i times row i of a change of the scores of some rows."""
        duals, target, free = self.duals, self._target[rows], self._free[rows]
        examples, tau = np.arange(len(change)), self._rho / (2 * self._c1[rows])
        D = tau + tau / self._rho
        own = change[examples, target]
        result = (change - own[:, None]) * free
        s = result.sum(axis=1) / (self._count[rows] * D + tau)
        result -= (D * s)[:, None]
        result *= free / tau[:, None]
        result[examples, target] = -s
        beta, rival = duals.beta[rows], duals.rival[rows]
        above = np.flatnonzero(beta > 0)
        rival = rival[above]
        against = np.where(rival < 0, 0.0, change[above, rival])
        weight = self.problem.weight[rows][above]
        move = 2 * self.problem.parameters.c2 * weight * (own[above] - against)
        result[above, target[above]] += move
        named = rival >= 0
        result[above[named], rival[named]] -= move[named]
        return result

    def _hessian_weights(self) -> np.ndarray:
        """The diagonals of the H_i, shape (m, k)."""
        tau = self._rho / (2 * self._c1)
        D = tau + tau / self._rho
        n, examples, duals = self._count, np.arange(self.problem.size), self.duals
        share = 1 / (n * D + tau)
        weights = self._free * ((1 - D * share) / tau)[:, None]
        weights[examples, self._target] = n * share
        above = np.flatnonzero(duals.beta > 0)
        g = 2 * self.problem.parameters.c2 * self.problem.weight[above]
        weights[above, self._target[above]] += g
        named = duals.rival[above] >= 0
        weights[above[named], duals.rival[above[named]]] += g[named]
        return weights

    def _hessian(self) -> np.ndarray | None:
        d, k = self.W.shape
        if d * k > LARGEST_FEATURE_FACTOR:
            return None
        H, X, duals = np.zeros((d * k, d * k)), self._X, self.duals
        for right in range(k):
            # Rows whose H_i has a column for this class.
            is_rival = (duals.rival == right) & (duals.beta > 0)
            rows = np.flatnonzero(self._free[:, right] | (self._target == right) | is_rival)
            unit = np.zeros((rows.size, k))
            unit[:, right] = 1.0
            weights = self._curvatures(unit, rows)
            for left in range(right, k):
                some = np.flatnonzero(weights[:, left])
                part = X[rows[some]]
                H[left * d : (left + 1) * d, right * d : (right + 1) * d] = (
                    part.T @ (weights[some, left, None] * part)
                )  # fmt: skip
        H.flat[:: d * k + 1] += 1.0
        return H


def nearest_alphas(Z, centre, tau, threshold, c1, target) -> np.ndarray:
    """The maximisers alpha of all examples, shape (m, k); see :mod:`odmtool.solvers.mcodm.step`."""
    examples = np.arange(len(Z))
    over = Z - tau[:, None] * centre
    over -= (over[examples, target] - threshold)[:, None]
    over[examples, target] = -np.inf
    D = tau + 0.5 / c1
    rest = np.maximum(0.0, over.max(axis=1)) * (D / (D + tau))
    part, rows, number = over, examples, np.full(len(Z), Z.shape[1] + 1)
    while rows.size:
        above = part > rest[rows, None]
        count = np.count_nonzero(above, axis=1)
        goes_on = np.flatnonzero((count > 0) & (count < number[rows]))
        part, above, count, rows = part[goes_on], above[goes_on], count[goes_on], rows[goes_on]
        total = part.sum(axis=1, where=above)
        number[rows] = count
        rest[rows] = total * D[rows] / (count * D[rows] + tau[rows])
    over -= rest[:, None]
    np.maximum(over, 0.0, out=over)
    over /= -tau[:, None]
    over[examples, target] = -over.sum(axis=1)
    return over
