"""The judge of M3SVM and ISM3: objective, gradient and proven gap, slow and exact.

It shares no code with the solvers: sums run over examples and over pairs of classes one by
one, as the definition in :mod:`odmtool.solvers.m3svm.objective` says, and are exact (``fsum``).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from odmtool.judge.sums import dense, products, square_sum


class Certificate(NamedTuple):
    """The objective of a solution, the norm of its gradient, and what that proves."""

    primal: float
    """F"""
    dual: float
    """A lower bound of F."""
    gap: float
    """(P - D) / P"""
    gradient: float


def sigma(X, weight, parameters) -> float:
    """The smoothing of |v|^p for p < 2: delta by the root mean square of |x_i|."""
    if parameters.power >= 2:
        return 0.0
    total = math.fsum(u * square_sum(x) for u, x in zip(weight, dense(X), strict=True))
    return parameters.delta / math.sqrt(total / math.fsum(weight)) if total else parameters.delta


def example_loss(scores: np.ndarray, y: int, parameters) -> float:
    """L of one example with class y; ``scores`` has shape (k,)."""
    others = [f - scores[y] for j, f in enumerate(scores) if j != y]
    if parameters.loss == "hinge":
        return math.fsum(_positive(1 + z, parameters.delta) for z in others)
    if parameters.loss == "pairwise":
        return math.fsum(max(z, 0.0) + math.log1p(math.exp(-abs(z))) for z in others)
    top = max([0.0, *others])
    return top + math.log(math.fsum([math.exp(-top), *(math.exp(z - top) for z in others)]))


def _positive(z: float, delta: float) -> float:
    q = math.hypot(z, delta)
    return (z + q) / 2 if z > 0 else delta * delta / (2 * (q - z))


def example_slopes(scores: np.ndarray, y: int, parameters) -> np.ndarray:
    """The derivative of :func:`example_loss` by the scores, shape (k,)."""
    slopes = np.zeros(len(scores))
    z = [float(f - scores[y]) for f in scores]
    top = max(z)
    total = math.fsum(math.exp(each - top) for each in z)
    for j, each in enumerate(z):
        if j == y:
            continue
        if parameters.loss == "hinge":
            q = math.hypot(1 + each, parameters.delta)
            slopes[j] = (1 + (1 + each) / q) / 2
        elif parameters.loss == "pairwise":
            small = math.exp(-abs(each))
            slopes[j] = (1.0 if each > 0 else small) / (1 + small)
        else:
            slopes[j] = math.exp(each - top) / total
    slopes[y] = -math.fsum(slopes)
    return slopes


def objective(X, target, weight, parameters, W, bias) -> float:
    """F(W, b).

    Parameters
    ----------
    X : csr_matrix or ndarray, shape (m, d)
    target : int array, shape (m,)
    weight : ndarray, shape (m,)
    parameters : NamedTuple
        With fields loss, lambda_, power, delta, ridge.
    W, bias : ndarrays, shapes (d, k) and (k,)
    """
    terms = [
        float(u) * example_loss(scores, y, parameters)
        for u, scores, y in zip(weight, _scores(X, W, bias), target, strict=True)
    ]
    s, p = sigma(X, weight, parameters), parameters.power
    for a in range(W.shape[1]):
        for b in range(a):
            square = square_sum(W[:, a] - W[:, b])
            terms.append(parameters.lambda_ * ((square + s * s) ** (p / 2) - s**p))
    terms.append(parameters.ridge * math.fsum([*(W * W).ravel(), *(bias * bias)]))
    return math.fsum(terms)


def gradient(X, target, weight, parameters, W, bias) -> tuple[np.ndarray, np.ndarray]:
    """The derivatives of F by W and by the biases; parameters as :func:`objective`."""
    by_W, by_bias = 2 * parameters.ridge * W, 2 * parameters.ridge * bias
    scores = _scores(X, W, bias)
    for x, u, f, y in zip(dense(X), weight, scores, target, strict=True):
        slopes = float(u) * example_slopes(f, y, parameters)
        by_W, by_bias = by_W + np.outer(x, slopes), by_bias + slopes
    s, p = sigma(X, weight, parameters), parameters.power
    for a in range(W.shape[1]):
        for b in range(W.shape[1]):
            difference = W[:, a] - W[:, b]
            square = square_sum(difference) + s * s
            if a != b and square > 0:
                by_W[:, a] += parameters.lambda_ * p * square ** (p / 2 - 1) * difference
    return by_W, by_bias


def certify_linear(X, target, weight, parameters, W, bias) -> Certificate:
    """Judge a solution; parameters as :func:`objective`.

    F is strongly convex with modulus 2 ridge, so F - min F <= |G|^2 / (4 ridge) for its
    gradient G = (G_W, G_b); and, the losses being >= 0, the minimiser has
    lambda sum r <= F, hence |W*| <= R and F - min F <= |G_W| (|W| + R) + |G_b|^2 / (4 ridge).
    It is at most F, for min F >= 0; for p < 1, where F is not convex, nothing less is known.
    """
    F = objective(X, target, weight, parameters, W, bias)
    by_W, by_bias = gradient(X, target, weight, parameters, W, bias)
    norm_W, norm_bias = (math.sqrt(square_sum(g)) for g in (by_W, by_bias))
    k, p = W.shape[1], parameters.power
    count = k * (k - 1) / 2
    powers = F / parameters.lambda_ + count * sigma(X, weight, parameters) ** p
    # The sum over all pairs of |w_k - w_l|^2, from that of the p-th powers.
    squares = powers ** (2 / p) * (count ** (1 - 2 / p) if p > 2 else 1.0)
    radius = math.sqrt(square_sum(W)) + math.sqrt(squares / k)
    ridge = 4 * parameters.ridge
    bound = min((norm_W**2 + norm_bias**2) / ridge, norm_W * radius + norm_bias**2 / ridge)
    if p < 1:
        bound = F
    gap = min(1.0, bound / F) if F > 0 else 0.0
    return Certificate(F, max(0.0, F - bound), gap, math.hypot(norm_W, norm_bias))


def _scores(X, W, bias) -> np.ndarray:
    X = dense(X)
    return products(np.hstack([X, np.ones((len(X), 1))]), np.vstack([W, bias]))
