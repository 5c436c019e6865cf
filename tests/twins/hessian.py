"""Slow twins of the losses and second derivatives of multi-class ODM's Newton method.

What is differenced is the gradient of the smoothed loss by the twin of the block step, which
tries every set of active classes. Both are linear on every piece, so that the differences are
exact but for rounding errors.
"""

from __future__ import annotations

import numpy as np

from twins.mcodm import exact_alpha


def loss_of_one(z, y, u, loss, rho, centre, rival, upper):
    """Value, alpha and beta at the scores z, by the header of the other file."""
    c1, c2 = loss.c1 * u, loss.c2 * u
    tau = rho / (2 * c1)
    alpha = exact_alpha(z - tau * centre, y, tau, 1 - loss.theta, c1)
    value = -alpha @ z + (1 - loss.theta) * alpha[y] - alpha[y] ** 2 / (4 * c1)
    value -= tau / 2 * ((alpha - centre) ** 2).sum()
    over = max(0.0, z[y] - (z[rival] if rival >= 0 else 0.0) - upper)
    return value + c2 * over**2, alpha, 2 * c2 * over


def gradient_of_one(z, y, u, loss, rho, centre, rival, upper):
    _value, alpha, beta = loss_of_one(z, y, u, loss, rho, centre, rival, upper)
    slope = -alpha
    slope[y] += beta
    if rival >= 0:
        slope[rival] -= beta
    return slope


def sum_of_losses(state, centre, scores):
    """The smoothed losses of a RowsNewton at other scores, and their alpha and beta."""
    p, duals = state.problem, state.duals
    of_each = [
        loss_of_one(z, y, u, p.parameters, state._rho, a, rival, upper)
        for z, y, u, a, rival, upper in zip(
            scores, p.target, p.weight, centre, duals.rival, duals.upper, strict=True
        )
    ]
    values, alphas, betas = zip(*of_each, strict=True)
    return sum(values), np.array(alphas), np.array(betas)


def blocks(state) -> np.ndarray:
    """H_i, shape (m, k, k), by differences at scores that lie inside the pieces of its duals."""
    p, duals = state.problem, state.duals
    m, k = duals.alpha.shape
    H = np.empty((m, k, k))
    for i, (y, r) in enumerate(zip(p.target, duals.rival, strict=True)):
        z = np.where(duals.alpha[i] < 0, 50.0, -50.0)
        z[y] = 0.0
        over = z[y] - (z[r] if r >= 0 else 0.0)
        upper = over - (5.0 if duals.beta[i] > 0 else -5.0)
        known = p.weight[i], p.parameters, state._rho, np.zeros(k), r, upper
        for j, unit in enumerate(np.eye(k)):
            ahead, behind = (gradient_of_one(z + s * unit, y, *known) for s in (0.5, -0.5))
            H[i, :, j] = ahead - behind
    return H


def whole(state, H: np.ndarray) -> np.ndarray:
    """I + sum_i H_i (x) x_i x_i', class by class."""
    X = state.problem.X
    X = X if isinstance(X, np.ndarray) else X.toarray()
    return np.eye(state.W.size) + sum(
        np.kron(H_i, np.outer(x, x)) for x, H_i in zip(X, H, strict=True)
    )
