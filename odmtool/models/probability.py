"""Probabilities from decision values: Platt's sigmoid, and the coupling of pairs of classes.

Sigmoid    P(first class | f) = 1 / (1 + exp(z)),  z = A f + B.
Fit        minimise over A, B the cross entropy sum_i v_i (t_i z_i + log(1 + exp(-z_i))), where
           t is (N+ + 1) / (N+ + 2) for the first class and 1 / (N- + 2) for the other, and N+,
           N- are the sums of the weights of the two: what one more example of each class
           would leave of the targets 1 and 0, so that A stays finite on separable values.
Update     Newton's method with step halving; z and -z are treated apart, so that nothing
           overflows or cancels. It stops when the mean gradient is at most 1e-12.
Coupling   see :mod:`odmtool.models.coupling`.
Sources    J. Platt, "Probabilistic outputs for support vector machines", 1999; H.-T. Lin,
           C.-J. Lin and R. C. Weng, "A note on Platt's probabilistic outputs for support
           vector machines", Machine Learning 68, 2007.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from odmtool.models.coupling import couple

_TOLERANCE = 1e-12
_MAX_ITER = 100
_SMALLEST_STEP = 1e-10
_SUFFICIENT_DECREASE = 1e-4
# Keeps the Hessian of constant values positive definite.
_RIDGE = 1e-12
_EPS = np.finfo(float).eps
# Values closer together are taken as constant: A would overflow.
_SMALLEST_SCALE = 1e-290

LEAST = 1e-7
"""LIBSVM keeps the probability of each of a pair of classes between this and 1 - this."""

# speed only: values of pairs of classes in a block of rows
_BLOCK_VALUES = 2**18


class Sigmoid(NamedTuple):
    """P(first class | f) = 1 / (1 + exp(A f + B)); A is negative if f orders the classes."""

    A: float
    B: float


# ---- the fit ---------------------------------------------------------------------


def fit_sigmoid(values: np.ndarray, is_first: np.ndarray, weight=None) -> Sigmoid:
    """Fit Platt's sigmoid.

    Returns Sigmoid: A = 0 if the values are constant.

    Parameters
    ----------
    values : ndarray, shape (m,)
        Decision values of examples that were not trained on.
    is_first : bool array, shape (m,)
        Which examples belong to the first class.
    weight : ndarray, shape (m,), optional
        v_i >= 0, not all 0; an example of weight 2 counts as two examples.
    """
    v = np.ones(len(values)) if weight is None else np.asarray(weight, dtype=float)
    first, other = float(v[is_first].sum()), float(v[~is_first].sum())
    targets = np.where(is_first, (first + 1) / (first + 2), 1 / (other + 2))
    # Newton's method does not mind the scale of f, but its rounding errors do.
    centre = float(values.mean())
    f = values - centre
    scale = float(np.abs(f).max())
    if scale <= 4 * _EPS * abs(centre) or scale < _SMALLEST_SCALE:
        f, scale = np.zeros(len(f)), math.inf
    f = f / scale
    prior = math.log((other + 1) / (first + 1))
    slope, intercept = _newton(f, targets, v / (first + other), np.array([0.0, prior]))
    return Sigmoid(slope / scale, intercept - slope * (centre / scale))


def _newton(f, targets, share, point: np.ndarray) -> tuple[float, float]:
    """Minimise the cross entropy over (A, B); ``share`` are the weights, of sum 1."""
    value = _cross_entropy(f, targets, share, point)
    for _ in range(_MAX_ITER):
        p = sigmoid(f, *point)
        rows = np.stack([f, np.ones(len(f))])
        gradient = rows @ (share * (targets - p))
        if np.abs(gradient).max() <= _TOLERANCE:
            break
        hessian = (rows * (share * p * (1 - p))) @ rows.T + _RIDGE * np.eye(2)
        direction = np.linalg.solve(hessian, -gradient)
        descent, step = float(gradient @ direction), 1.0
        while step >= _SMALLEST_STEP:
            new = point + step * direction
            new_value = _cross_entropy(f, targets, share, new)
            # Close to the minimum the decrease is less than the rounding of the value.
            if new_value <= value + _SUFFICIENT_DECREASE * step * descent + 4 * _EPS * value:
                break
            step /= 2
        else:
            break
        point, value = new, new_value
    return float(point[0]), float(point[1])


def _cross_entropy(f, targets, share, point) -> float:
    z = f * point[0] + point[1]
    terms = np.where(z >= 0, targets * z, (targets - 1) * z) + np.log1p(np.exp(-np.abs(z)))
    return float(share @ terms)


# ---- prediction --------------------------------------------------------------------


def sigmoid(values: np.ndarray, A, B) -> np.ndarray:
    """1 / (1 + exp(A f + B)), with LIBSVM's operations, in the shape of ``values``."""
    z = values * A + B
    small = np.exp(-np.abs(z))
    return np.where(z >= 0, small, 1.0) / (1.0 + small)


def probabilities_of_blocks(blocks: Iterable[np.ndarray], m: int, A, B, k: int) -> np.ndarray:
    """Probabilities of k classes, as svm-predict gives them.

    Returns ndarray, shape (m, k): rows of sum 1.

    Parameters
    ----------
    blocks : iterable of ndarrays, shape (rows, k (k - 1) / 2)
        Decision values of the pairs of classes 1-2, 1-3, ..., 2-3, ... of m rows, some at a time:
        of many classes all would fill the memory.
    A, B : ndarrays, shape (k (k - 1) / 2,)
        The sigmoids of the pairs.
    """
    if k == 1:
        return np.ones((m, 1))
    firsts = _firsts(blocks, A, B)
    if k > 2:
        return couple(firsts, m, k)
    first = np.concatenate([np.empty((0, 1)), *firsts])
    return np.hstack([first, 1 - first])


def _firsts(blocks: Iterable[np.ndarray], A, B) -> Iterator[np.ndarray]:
    """P(first class) of the pairs of classes, kept away from 0 and 1."""
    for values in blocks:
        for rows in row_blocks(*values.shape):
            with np.errstate(all="ignore"):
                first = sigmoid(values[rows], A, B)
            # Not clip: a value that is no number becomes LEAST, as in LIBSVM.
            first = np.where(first > LEAST, first, LEAST)
            yield np.where(first < 1 - LEAST, first, 1 - LEAST)


def row_blocks(n_rows: int, numbers: int) -> Iterator[slice]:
    """Slices of rows, of which each takes so many numbers."""
    step = max(1, _BLOCK_VALUES // max(1, numbers))
    return (slice(k, min(k + step, n_rows)) for k in range(0, n_rows, step))


def logistic_probabilities(values: np.ndarray, k: int) -> np.ndarray:
    """Probabilities of k classes of LIBLINEAR's logistic regression, shape (m, k).

    ``values``: ndarray, shape (m, 1) for two classes, else (m, k).
    """
    with np.errstate(all="ignore"):
        p = 1 / (1 + np.exp(-values))
        if k == 2:
            return np.hstack([p, 1 - p])
        return p / p.cumsum(axis=1)[:, -1:]
