"""Newton's method for the multi-class support vector machine of Crammer and Singer; linear.

Problem     P(W) = 1/2 sum_l |w_l|^2 + sum_i max over p in S_i of <p, e_i + W'x_i> - C u_i w_y.x_i,
            S_i = {p >= 0, sum_l p_l = C u_i}, e_i^l = 1 for l != y and 0 for l = y. With the best p
            the duals of :mod:`odmtool.solvers.mcsvm.descent` are alpha_i = C u_i [l = y] - p_i.
Update      proximal point method on p: from q_i the maximum is taken of <p, e_i + W'x_i> less
            tau/2 |p - q_i|^2, at p = the projection of q_i + (e_i + W'x_i) / tau onto S_i.
            That makes P once differentiable in W, and Newton's method minimises it: with F the
            classes where p_i > 0, an example has x_i x_i' times (diag(F) - F F' / |F|) / tau in
            the Hessian, so one with a single such class has nothing. Then q = p, and tau falls.
Stop        when the relative duality gap (P - D) / P of alpha, with W = sum_i x_i alpha_i', is
            at most the tolerance.
Source      Rockafellar, "Augmented Lagrangians and applications of the proximal point algorithm
            in convex programming", Math. Oper. Res. 1, 1976; Li, Sun & Toh, "A highly efficient
            semismooth Newton augmented Lagrangian method", SIAM J. Optim. 28, 2018.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.linalg import LinAlgError

from odmtool import messages
from odmtool.core.csr import scipy_rows
from odmtool.errors import DivergedError, UsageError
from odmtool.solvers.base import SUFFICIENT_DECREASE, Progress, Stop, ignore_progress
from odmtool.solvers.mcsvm import descent
from odmtool.solvers.multi import LARGEST_WEIGHTS, MultiProblem, MultiSolution, margins_of
from odmtool.solvers.newton.factor import cholesky_in_place, cholesky_solve
from odmtool.solvers.newton.hessian import gram_of, is_thin

# tau begins at 1 / the mean cost; each is this share of the one before.
# speed only: the gap decides when it ends, not how the smoothing shrinks
_SHARE, _MOST_TAUS = 0.5, 40
# A Newton decrement of this share of P ends the minimisation for one tau.
# speed only: the gap decides when it ends, not how precise a point was
_ENOUGH = 1e-9
_SMALLEST_STEP = 1e-10


def solve(
    problem: MultiProblem, stop: Stop, *, seed: int = 0, start: np.ndarray | None = None,
    progress=ignore_progress,
) -> MultiSolution:  # fmt: skip
    """Solve a linear problem.

    Parameters are those of :func:`odmtool.solvers.mcsvm.descent.solve`; ``stop.max_iter`` counts
    Newton steps. Nothing is random.

    Raises UsageError: there are more than ``LARGEST_WEIGHTS`` weights.
    """
    d, k = problem.X.shape[1], problem.k
    if d * k > LARGEST_WEIGHTS:
        raise UsageError(messages.mcsvm_newton_too_large(LARGEST_WEIGHTS, d, k))
    smooth, nowhere = _Smooth(problem, start), Stop(stop.tolerance, 0)
    best = descent.solve(problem, nowhere, start=smooth.duals(smooth.q))
    W, step = best.W, 0
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(_MOST_TAUS):
            known = partial(_margins, problem, best.W)
            progress(Progress(step, best.objective, best.gap, best.support_count, known))
            if best.converged or step >= stop.max_iter:
                break
            W, p, steps = smooth.minimised(W, max(0, stop.max_iter - step))
            step += steps
            if not np.isfinite(p).all():
                raise DivergedError(messages.overflow())
            found = descent.solve(problem, nowhere, start=smooth.duals(p))
            best = found if found.converged or found.distance < best.distance else best
            smooth.q, smooth.tau = p, _SHARE * smooth.tau
    return best._replace(iterations=step, solver="newton")


class _Smooth:
    """The problem with a proximal term; ``q`` and ``tau`` are those of the term."""

    def __init__(self, problem: MultiProblem, start: np.ndarray | None):
        self._X, m, k = scipy_rows(problem.X), problem.size, problem.k
        self._is_thin = is_thin(self._X)
        self._own = np.zeros((m, k))
        self._own[np.arange(m), problem.target] = 1.0
        self._cost = (problem.parameters.cost * problem.weight)[:, None]
        self.q = self._cost * self._own - (0.0 if start is None else start)
        self.tau = 1 / float(self._cost.mean())

    def duals(self, p: np.ndarray) -> np.ndarray:
        """alpha, whose rows sum to 0, also where those of p sum to C u_i with an error only."""
        others = p * (1 - self._own)
        total = others.sum(axis=1, keepdims=True)
        others *= self._cost / np.maximum(total, self._cost)
        return others.sum(axis=1, keepdims=True) * self._own - others

    def minimised(self, W: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray, int]:
        """The W of the smallest value, from another one; its p, and the steps to there."""
        value, p = self._value(W)
        for step in range(limit):
            gradient = W - np.asarray(self._X.T @ self.duals(p))
            try:
                direction = -self._solved(p, gradient)
            except (LinAlgError, ValueError):
                return W, p, step + 1
            decrement, size = -float(np.vdot(direction, gradient)), 1.0
            while size > _SMALLEST_STEP:
                new_value, new_p = self._value(W + size * direction)
                if new_value <= value - SUFFICIENT_DECREASE * size * decrement:
                    break
                size /= 2
            else:
                return W, p, step + 1
            W, value, p = W + size * direction, new_value, new_p
            if decrement <= _ENOUGH * abs(value):
                return W, p, step + 1
        return W, p, limit

    def _value(self, W: np.ndarray) -> tuple[float, np.ndarray]:
        scores = 1 - self._own + np.asarray(self._X @ W)
        p = projected(self.q + scores / self.tau, self._cost)
        own = self._cost * self._own * scores
        apart = p - self.q
        return float(np.vdot(W, W) / 2 + (p * scores - own - self.tau / 2 * apart**2).sum()), p

    def _solved(self, p: np.ndarray, right: np.ndarray) -> np.ndarray:
        """The Hessian's inverse times a matrix, shape (d, k)."""
        d, k = right.shape
        bent = np.flatnonzero(np.count_nonzero(p, axis=1) > 1)
        X, free = self._X[bent], (p[bent] > 0).astype(float)
        shares = free / (self.tau * free.sum(axis=1, keepdims=True))
        H = np.empty((k, d, k, d))  # the upper half is not read
        for a in range(k):
            for b in range(a + 1):
                sign = 1 if a == b else -1
                bend = sign * free[:, a] * ((a == b) / self.tau - shares[:, b])
                H[a, :, b, :] = sign * gram_of(X, bend, self._is_thin)
        H = H.reshape(k * d, k * d)
        H.flat[:: k * d + 1] += 1
        return cholesky_solve(cholesky_in_place(H), right.T.reshape(-1)).reshape(k, d).T


def _margins(problem: MultiProblem, W: np.ndarray) -> np.ndarray:
    return margins_of(np.asarray(scipy_rows(problem.X) @ W), problem.target)


def projected(V: np.ndarray, total: np.ndarray) -> np.ndarray:
    """The nearest points to rows of V in {p >= 0, sum_l p_l = total}; shapes (m, k) and (m, 1)."""
    falling = -np.sort(-V, axis=1)
    above = falling.cumsum(axis=1) - total
    count = np.count_nonzero(falling * np.arange(1, V.shape[1] + 1) > above, axis=1)[:, None]
    level = np.take_along_axis(above, np.maximum(count, 1) - 1, axis=1) / np.maximum(count, 1)
    return np.maximum(V - level, 0.0)
