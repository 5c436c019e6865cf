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
_PART = 2**15


class DenseNewton(SmoothedNewton):
    """The state of a problem whose X is an array.

    Scores and the centre are stored class by class, so that what is done to all examples of a
    class needs no loop over few classes; ``_free`` has shape (k, m), True where l is in T.
    """

    def __init__(self, problem: MultiProblem, duals: Duals, W: np.ndarray):
        m, k = problem.size, problem.k
        self._c1 = problem.parameters.c1 * problem.weight
        self._free, self._count = np.zeros((k, m), dtype=bool), np.zeros(m, dtype=int)
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

    def _product(self, W: np.ndarray) -> np.ndarray:
        return (W.T @ self._X.T).T

    def _rebuild_dual_weights(self) -> None:
        self._dual_W[:] = self._X.T @ self.duals.coefficients(self._target)

    def _losses(self, change: np.ndarray, step: float) -> float:
        return sum(self._losses_of(rows, change, step) for rows in self._parts)

    def _losses_of(self, rows: slice, change: np.ndarray, step: float) -> float:
        """The same of some rows."""
        Z = self._scores.T[:, rows]
        if step > 0:
            Z = Z - step * change.T[:, rows]
        duals, loss, problem = self.duals, self.problem.parameters, self.problem
        target, c1, centre = self._target[rows], self._c1[rows], self._centre.T[:, rows]
        examples, tau, threshold = np.arange(len(target)), self._rho / (2 * c1), 1 - loss.theta
        alpha = nearest_alphas(Z, centre, tau, threshold, c1, target)
        duals.alpha[rows] = alpha.T
        free = np.less(alpha, 0.0, out=self._free[:, rows])
        self._count[rows] = free.sum(axis=0, dtype=np.int32)
        s, own = alpha[target, examples], Z[target, examples]
        total = threshold * s.sum() - s @ (s / c1) / 4 - np.vdot(alpha, Z)
        alpha -= centre
        total -= np.vdot(alpha, tau * alpha) / 2
        rival = duals.rival[rows]
        against = np.where(rival < 0, 0.0, Z[rival, examples])
        over = np.maximum(0.0, own - against - duals.upper[rows])
        c2 = loss.c2 * problem.weight[rows]
        duals.beta[rows] = 2 * c2 * over
        return float(total + over @ (c2 * over))

    def _hessian_times(self, V: np.ndarray) -> np.ndarray:
        change = V.T @ self._X.T
        for rows in self._parts:
            change[:, rows] = self._curvatures(change[:, rows], rows)
        return V + self._X.T @ change.T

    def _curvatures(self, change: np.ndarray, rows) -> np.ndarray:
        """H_i times column i of a change of the scores of some rows, shape (k, rows)."""
        duals, target, free = self.duals, self._target[rows], self._free[:, rows]
        examples, tau = np.arange(len(target)), self._rho / (2 * self._c1[rows])
        D = tau + tau / self._rho
        own = change[target, examples]
        result = change - own
        result *= free
        s = result.sum(axis=0) / (self._count[rows] * D + tau)
        result -= D * s
        result *= free
        result /= tau
        result[target, examples] = -s
        beta, rival = duals.beta[rows], duals.rival[rows]
        above = np.flatnonzero(beta > 0)
        rival = rival[above]
        against = np.where(rival < 0, 0.0, change[rival, above])
        weight = self.problem.weight[rows][above]
        move = 2 * self.problem.parameters.c2 * weight * (own[above] - against)
        result[target[above], above] += move
        named = rival >= 0
        result[rival[named], above[named]] -= move[named]
        return result

    def _hessian_weights(self) -> np.ndarray:
        """The diagonals of the H_i, shape (m, k)."""
        tau = self._rho / (2 * self._c1)
        D = tau + tau / self._rho
        n, examples, duals = self._count, np.arange(self.problem.size), self.duals
        share = 1 / (n * D + tau)
        weights = self._free.T * ((1 - D * share) / tau)[:, None]
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
            rows = np.flatnonzero(self._free[right] | (self._target == right) | is_rival)
            unit = np.zeros((k, rows.size))
            unit[right] = 1.0
            weights = self._curvatures(unit, rows)
            part = X[rows]
            for left in range(right, k):
                H[left * d : (left + 1) * d, right * d : (right + 1) * d] = signed_gram(
                    part, weights[left]
                )
        H.flat[:: d * k + 1] += 1.0
        return H


def signed_gram(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """X'SX with S = diag(weights), of any sign, many of them perhaps 0."""
    some = np.flatnonzero(weights)
    if 2 * some.size < weights.size:
        X, weights = X[some], weights[some]
    return X.T @ (weights[:, None] * X)


def nearest_alphas(Z, centre, tau, threshold, c1, target) -> np.ndarray:
    """The maximisers alpha of all examples, shape (k, m); see :mod:`odmtool.solvers.mcodm.step`.

    Z and the centre have the same shape, the others (m,).
    """
    examples = np.arange(len(target))
    over = Z - tau * centre
    over -= over[target, examples] - threshold
    over[target, examples] = -np.inf
    D = tau + 0.5 / c1
    rest = np.maximum(0.0, over.max(axis=0)) * (D / (D + tau))
    part, columns, number = over, examples, np.full(len(target), len(over) + 1)
    while columns.size:
        excess = np.maximum(part - rest[columns], 0.0)
        count = (excess > 0).sum(axis=0, dtype=np.int32)
        total = excess.sum(axis=0) + count * rest[columns]
        goes_on = np.flatnonzero((count > 0) & (count < number[columns]))
        if goes_on.size < columns.size:
            part, columns = part[:, goes_on], columns[goes_on]
            count, total = count[goes_on], total[goes_on]
        number[columns] = count
        rest[columns] = total * D[columns] / (count * D[columns] + tau[columns])
    over -= rest
    np.maximum(over, 0.0, out=over)
    over /= -tau
    over[target, examples] = -over.sum(axis=0)
    return over
