"""What the tests of M3SVM and ISM3 share: problems, points, the judge's certificate."""

from __future__ import annotations

import itertools

import numpy as np

from odmtool.judge import m3svm as judge
from odmtool.solvers.base import Stop
from odmtool.solvers.m3svm.objective import LOSSES, M3SVMParameters
from odmtool.solvers.multi import MultiProblem

POWERS = [1.0, 1.5, 2.0, 4.0, 6.5]
EXACT = Stop(1e-9, 300)
CASES = list(itertools.product(LOSSES, POWERS))


def examples(m=60, d=5, k=4, seed=0):
    """Overlapping classes; an empty row, an empty column, every class present."""
    generator = np.random.default_rng(seed)
    target = np.concatenate([np.arange(k), generator.integers(0, k, m - k)])
    X = 1.2 * generator.standard_normal((k, d))[target] + generator.standard_normal((m, d))
    X[generator.random((m, d)) < 0.3] = 0
    X[3], X[:, d - 1] = 0, 0
    return X, target


def problem(loss="hinge", power=4.0, lambda_=0.3, weight=None, data=None, k=4, **parameters):
    X, target = examples() if data is None else data
    weight = np.ones(len(target)) if weight is None else weight
    return MultiProblem(
        X, None, target, k, weight, M3SVMParameters(loss, lambda_, power, **parameters)
    )


def some_weights(m=60, seed=1):
    return np.random.default_rng(seed).uniform(0.2, 3.0, m)


def certificate(given, solution):
    X, _gram, target, _k, weight, parameters = given
    return judge.certify_linear(X, target, weight, parameters, solution.W, solution.bias)


def point(given, seed=5):
    """Some V, with two classes that coincide."""
    V = np.random.default_rng(seed).standard_normal((given.X.shape[1] + 1, given.k)) / 2
    V[:, 1] = V[:, 0]
    return V


def central_difference(function, V, direction, step=1e-6):
    return (function(V + step * direction) - function(V - step * direction)) / (2 * step)
