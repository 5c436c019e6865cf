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
