"""Slow, obvious twins of what the package computes cleverly."""

from __future__ import annotations

import math

import numpy as np


def odm_loss(t, lambda_, mu, theta, total_weight):
    """ODM's loss of one example, as TKDE eq. (9) prints it."""
    xi, epsilon = max(0.0, 1 - theta - t), max(0.0, t - 1 - theta)
    return lambda_ / total_weight * (xi**2 + mu * epsilon**2) / (1 - theta) ** 2


def odm_primal(X, y, w, lambda_, mu, theta, weight=None, total_weight=None):
    """ODM's objective at w, dense X."""
    weight = np.ones(len(y)) if weight is None else weight
    total_weight = weight.sum() if total_weight is None else total_weight
    losses = [
        u * odm_loss(y_i * (x @ w), lambda_, mu, theta, total_weight)
        for x, y_i, u in zip(X, y, weight, strict=True)
    ]
    return w @ w / 2 + sum(losses)


KERNELS = {
    "linear": lambda u, v, gamma, coef0, degree: u @ v,
    "poly": lambda u, v, gamma, coef0, degree: (gamma * (u @ v) + coef0) ** degree,
    "rbf": lambda u, v, gamma, coef0, degree: math.exp(-gamma * ((u - v) @ (u - v))),
    "sigmoid": lambda u, v, gamma, coef0, degree: math.tanh(gamma * (u @ v) + coef0),
}


def kernel_matrix(name, A, B, gamma=0.0, coef0=0.0, degree=3):
    return np.array([[KERNELS[name](u, v, gamma, coef0, degree) for v in B] for u in A])


def ldm_primal(X, y, w, mu1, mu2, lambda_, weight=None, total_weight=None):
    """LDM's objective at w, as TKDE section 3.1 prints it, with weights; dense X."""
    weight = np.ones(len(y)) if weight is None else weight
    total_weight = weight.sum() if total_weight is None else total_weight
    t = [y_i * (x @ w) for x, y_i in zip(X, y, strict=True)]
    mean = sum(u * t_i for u, t_i in zip(weight, t, strict=True)) / sum(weight)
    terms = [
        u * (mu1 * (t_i - mean) ** 2 - mu2 * t_i + lambda_ * max(0.0, 1 - t_i))
        for u, t_i in zip(weight, t, strict=True)
    ]
    return w @ w / 2 + sum(terms) / total_weight


def ldm_dual(X, y, eta, mu1, mu2, lambda_, weight, total_weight):
    """LDM's dual value, the minima over b and over every t taken numerically; mu1 > 0."""
    c, nu, rho = 2 * mu1 / total_weight, mu2 / total_weight, lambda_ / total_weight
    w = sum(e * y_i * x for e, y_i, x in zip(eta, y, X, strict=True))

    def smallest(b):
        total = 0.0
        for u, e in zip(weight, eta, strict=True):
            # The stationary points of the two pieces, and the kink between them.
            pieces = (min(b + (nu + rho - e / u) / c, 1.0), 1.0, max(b + (nu - e / u) / c, 1.0))
            total += min(
                u * (c / 2 * (t - b) ** 2 - nu * t + rho * max(0.0, 1 - t)) + e * t for t in pieces
            )
        return total

    low, high = -100.0, 100.0
    for _ in range(200):  # the sum is convex in b
        third = (high - low) / 3
        if smallest(low + third) <= smallest(high - third):
            high -= third
        else:
            low += third
    return smallest((low + high) / 2) - w @ w / 2
