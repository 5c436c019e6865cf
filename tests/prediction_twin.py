"""The stock predictors step by step, slowly: the judge of our predictions."""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csr_matrix

from odmtool.core.kernels import Kernel
from odmtool.models.kernel import KernelModel
from odmtool.models.linear import LinearModel


def pairs(X: csr_matrix, row: int) -> dict[int, float]:
    part = slice(X.indptr[row], X.indptr[row + 1])  # X[row] takes fifty times as long
    return dict(zip(X.indices[part].tolist(), X.data[part].tolist(), strict=True))


def naive_linear_values(model: LinearModel, X: csr_matrix, row: int) -> list[float]:
    values = [0.0] * model.weights.shape[1]
    for feature, value in sorted(pairs(X, row).items()):
        if feature < len(model.weights):
            for column in range(len(values)):
                values[column] += float(model.weights[feature, column]) * value
    if model.bias >= 0:
        for column in range(len(values)):
            values[column] += float(model.bias_weights[column]) * model.bias
    return values


def naive_kernel(kernel: Kernel, x: dict[int, float], v: dict[int, float]) -> float:
    if kernel.name == "precomputed":
        return x.get(int(v[0]), 0.0)
    total = 0.0
    if kernel.name == "rbf":
        for feature in sorted(x.keys() | v.keys()):
            difference = x.get(feature, 0.0) - v.get(feature, 0.0)
            total += difference * difference
        return math.exp(-kernel.gamma * total)
    for feature in sorted(x.keys() & v.keys()):
        total += x[feature] * v[feature]
    if kernel.name == "linear":
        return total
    inner = kernel.gamma * total + kernel.coef0
    if kernel.name == "sigmoid":
        return math.tanh(inner)
    result, degree = 1.0, kernel.degree
    while degree > 0:
        if degree % 2:
            result *= inner
        inner *= inner
        degree //= 2
    return result


def naive_pair_values(model: KernelModel, X: csr_matrix, row: int) -> list[float]:
    x = pairs(X, row)
    vectors = model.support_vectors
    K = [naive_kernel(model.kernel, x, pairs(vectors, s)) for s in range(vectors.shape[0])]
    starts = np.cumsum([0, *model.n_support]).tolist()
    values = []
    for i in range(len(model.labels)):
        for j in range(i + 1, len(model.labels)):
            total = 0.0
            for s in range(starts[i], starts[i + 1]):
                total += float(model.coef[s, j - 1]) * K[s]
            for s in range(starts[j], starts[j + 1]):
                total += float(model.coef[s, i]) * K[s]
            values.append(total - float(model.rho[len(values)]))
    return values


def naive_kernel_label(model: KernelModel, values: list[float]) -> int:
    k = len(model.labels)
    votes = [0] * k
    position = 0
    for i in range(k):
        for j in range(i + 1, k):
            votes[i if values[position] > 0 else j] += 1
            position += 1
    return model.labels[votes.index(max(votes))]
