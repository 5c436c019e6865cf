"""Slow, obvious twins of what the package computes cleverly."""

from __future__ import annotations

import math

import numpy as np


def _hinge(number):
    return max(0.0, number)


LOSSES = {
    "odm": lambda t, C, mu, theta: (
        C * (_hinge(1 - theta - t) ** 2 + mu * _hinge(t - 1 - theta) ** 2) / (1 - theta) ** 2
    ),
    "l1svm": lambda t, C: C * _hinge(1 - t),
    "l2svm": lambda t, C: C * _hinge(1 - t) ** 2,
    "lssvm": lambda t, C: C * (1 - t) ** 2,
    "svr": lambda t, C, theta: C * _hinge(abs(1 - t) - theta),
    "mamc": lambda t, C: -C * t,
}
"""The losses of one example, as they are printed; C = lambda / M. LDM's has no such form."""


def odm_primal(X, y, w, lambda_, mu, theta, weight=None, total_weight=None):
    """ODM's objective at w, dense X."""
    weight = np.ones(len(y)) if weight is None else weight
    total_weight = weight.sum() if total_weight is None else total_weight
    losses = [
        u * LOSSES["odm"](y_i * (x @ w), lambda_ / total_weight, mu, theta)
        for x, y_i, u in zip(X, y, weight, strict=True)
    ]
    return w @ w / 2 + sum(losses)


def sigmoid_objective(values, is_first, weight, A, B):
    """The cross entropy of Platt's sigmoid and its regularised targets."""
    first, other = weight[is_first].sum(), weight[~is_first].sum()
    total = 0.0
    for f, positive, v in zip(values, is_first, weight, strict=True):
        t = (first + 1) / (first + 2) if positive else 1 / (other + 2)
        p = 1 / (1 + math.exp(A * f + B))
        total -= v * (t * math.log(p) + (1 - t) * math.log(1 - p))
    return total


def coupling_objective(r, p, k):
    """p'Qp of Wu, Lin and Weng: r are the probabilities of the first of the pairs i < j."""
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
    return sum(
        ((1 - r_ij) * p[i] - r_ij * p[j]) ** 2 for (i, j), r_ij in zip(pairs, r, strict=True)
    )
