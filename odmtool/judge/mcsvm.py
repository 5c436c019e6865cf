"""The judge of the Crammer-Singer machine: objective, dual, gap and feasibility, slow and exact.

Like :mod:`odmtool.judge.binary` it shares no code with the solver and sums exactly.

    P(W) = 1/2 sum_l |w_l|^2 + C sum_i u_i max(0, 1 - g_i),  g_i = f_y - max over l != y of f_l
    D    = sum_i alpha_i^y - 1/2 sum_l |w_l|^2,              w_l = sum_i alpha_i^l phi(x_i)

for sum_l alpha_i^l = 0, alpha_i^y <= C u_i and alpha_i^l <= 0 for l != y. For feasible duals
P(W) >= min P >= D.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from odmtool.core.losses import MulticlassHinge
from odmtool.judge.sums import dense, products, square_sum


class Certificate(NamedTuple):
    """Objective values of a solution."""

    primal: float
    dual: float
    gap: float
    """(P - D) / P"""
    infeasibility: float
    """Largest violation of a constraint on alpha."""


def certify_linear(X, target, weight, loss: MulticlassHinge, W, alpha) -> Certificate:
    """Judge a linear solution.

    Parameters
    ----------
    X : csr_matrix or ndarray, shape (m, d)
    target : int array, shape (m,)
    weight : ndarray, shape (m,)
    W : ndarray, shape (d, k)
    alpha : ndarray, shape (m, k)
    """
    X = dense(X)
    dual_norm = square_sum(products(X.T, alpha))
    return _certificate(square_sum(W), dual_norm, products(X, W), target, weight, loss, alpha)


def certify_kernel(K, target, weight, loss: MulticlassHinge, coef, alpha) -> Certificate:
    """Judge w_l = sum_i coef_il phi(x_i), coef of shape (m, k), K the Gram matrix."""
    scores = products(K, coef)
    norm, dual_norm = (math.fsum((c * products(K, c)).flat) for c in (coef, alpha))
    return _certificate(norm, dual_norm, scores, target, weight, loss, alpha)


def _certificate(norm, dual_norm, scores, target, weight, loss, alpha) -> Certificate:
    primal, dual, worst = [norm / 2], [-dual_norm / 2], 0.0
    for f, y, u, a in zip(scores, target, weight, alpha, strict=True):
        others = [j for j in range(len(f)) if j != y]
        cap = loss.cost * float(u)
        primal.append(cap * max(0.0, 1 - f[y] + max(f[j] for j in others)))
        dual.append(a[y])
        worst = max(worst, abs(math.fsum(a)), a[y] - cap, *(a[j] for j in others))
    P, D = math.fsum(primal), math.fsum(dual)
    return Certificate(P, D, (P - D) / P if P > 0 else 0.0, float(worst))
