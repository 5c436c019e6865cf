"""The judge of multi-class ODM: objectives, sub-problem, gap and feasibility, slow and exact.

Like :mod:`odmtool.judge.binary` it shares no code with the solvers and sums exactly. It answers
for every state (W; alpha, beta, rival, upper) of the rounds described in
:mod:`odmtool.solvers.mcodm.rounds`:

    F(W)  = 1/2 sum_l |w_l|^2 + sum_i u_i [c1 max(0, 1-theta-g_i)^2 + c2 max(0, g_i-1-theta)^2]
    P(W)  = the same with c2 max(0, f_{y_i} - f_{rival_i} - upper_i)^2 in the second term
            (without f_rival where rival_i is -1)
    D     = -1/2 sum_l |w_l|^2 + sum_i [(1-theta) alpha_i^y - (alpha_i^y)^2 / (4 c1 u_i)
                                        - upper_i beta_i - beta_i^2 / (4 c2 u_i)],
            w_l = sum_i (alpha_i^l - [l=y_i] beta_i + [l=rival_i] beta_i) phi(x_i)

For feasible duals P(W) >= D. If upper = 1 + theta then P >= F everywhere, and P = F where
every rival is the best other class; so a small F - D then shows that W is nearly optimal for
the convex problem that touches F at W, that is, nearly stationary.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from odmtool.core.losses import MulticlassODMLoss
from odmtool.judge.sums import dense, products, square_sum


class Certificate(NamedTuple):
    """Objective values of a state."""

    primal: float
    dual: float
    gap: float
    """(P - D) / P"""
    objective: float
    """F"""
    infeasibility: float
    """Largest violation of a constraint on alpha and beta."""


def coefficients(target, alpha, beta, rival) -> np.ndarray:
    """C of w_l = sum_i C_il phi(x_i), shape (m, k)."""
    coef = np.array(alpha, dtype=float)
    for i, y in enumerate(target):
        coef[i, y] -= beta[i]
        if rival[i] >= 0:
            coef[i, rival[i]] += beta[i]
    return coef


def certify_linear(X, target, weight, loss: MulticlassODMLoss, W, duals) -> Certificate:
    """Judge a linear state.

    Parameters
    ----------
    X : csr_matrix or ndarray, shape (m, d)
    target : int array, shape (m,)
    weight : ndarray, shape (m,)
    loss : MCODM
    W : ndarray, shape (d, k)
    duals : (alpha, beta, rival, upper), shapes (m, k), (m,), (m,), (m,)
    """
    X, scores = dense(X), products(dense(X), W)
    dual_W = products(X.T, coefficients(target, *duals[:3]))
    return _certificate(square_sum(W), square_sum(dual_W), scores, target, weight, loss, duals)


def certify_kernel(K, target, weight, loss: MulticlassODMLoss, coef, duals) -> Certificate:
    """Judge w_l = sum_i coef_il phi(x_i), coef of shape (m, k), K the Gram matrix."""
    dual_coef = coefficients(target, *duals[:3])
    scores, dual_scores = products(K, coef), products(K, dual_coef)
    norm, dual_norm = math.fsum((coef * scores).flat), math.fsum((dual_coef * dual_scores).flat)
    return _certificate(norm, dual_norm, scores, target, weight, loss, duals)


def _certificate(norm, dual_norm, scores, target, weight, loss, duals) -> Certificate:
    true, relaxed, dual = [norm / 2], [norm / 2], [-dual_norm / 2]
    for f, y, u, a, b, r, limit in zip(scores, target, weight, *duals, strict=True):
        g = f[y] - max(score for j, score in enumerate(f) if j != y)
        z = f[y] - (f[r] if r >= 0 else 0.0)
        c1, c2 = float(u) * loss.c1, float(u) * loss.c2
        below = c1 * max(0.0, 1 - loss.theta - g) ** 2
        true += [below, c2 * max(0.0, g - 1 - loss.theta) ** 2]
        relaxed += [below, c2 * max(0.0, z - limit) ** 2]
        dual += [(1 - loss.theta) * a[y], -(a[y] ** 2) / (4 * c1)]
        if b != 0:
            dual += [-limit * b, -(b**2) / (4 * c2)]
    primal, lower = math.fsum(relaxed), math.fsum(dual)
    gap = (primal - lower) / primal if primal > 0 else 0.0
    return Certificate(primal, lower, gap, math.fsum(true), infeasibility(target, duals))


def infeasibility(target, duals) -> float:
    """Largest violation of sum_l alpha^l = 0, alpha^l <= 0 for l != y, beta >= 0."""
    alpha, beta, rival, _upper = duals
    worst = max(0.0, -min(beta))
    for a, y, r in zip(alpha, target, rival, strict=True):
        if r == y:
            return math.inf
        others = [value for j, value in enumerate(a) if j != y]
        worst = max(worst, abs(math.fsum(a)), *others)
    return float(worst)
