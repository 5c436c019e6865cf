"""Probabilities from decision values: Platt's sigmoid, and the coupling of pairs of classes.

Sigmoid    P(first class | f) = 1 / (1 + exp(z)),  z = A f + B.
Fit        minimise over A, B the cross entropy sum_i v_i (t_i z_i + log(1 + exp(-z_i))), where
           t is (N+ + 1) / (N+ + 2) for the first class and 1 / (N- + 2) for the other, and N+,
           N- are the sums of the weights of the two: what one more example of each class
           would leave of the targets 1 and 0, so that A stays finite on separable values.
Update     Newton's method with step halving; z and -z are treated apart, so that nothing
           overflows or cancels. It stops when the mean gradient is at most 1e-12.
Coupling   with r_ij = P(class i | class i or j), the p that minimises
           sum_ij (r_ji p_i - r_ij p_j)^2 on the simplex, by cyclic descent in its coordinates.
           Stopping rule (0.005 / k) and order of operations are LIBSVM's, so that the
           results are those of svm-predict.
Sources    J. Platt, "Probabilistic outputs for support vector machines", 1999; H.-T. Lin,
           C.-J. Lin and R. C. Weng, "A note on Platt's probabilistic outputs for support
           vector machines", Machine Learning 68, 2007; T.-F. Wu, C.-J. Lin and R. C. Weng,
           "Probability estimates for multi-class classification by pairwise coupling", JMLR 5,
           2004, Algorithm 2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

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

_COUPLING_TOLERANCE = 0.005
_BLOCK_VALUES = 2**21


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


def class_probabilities(values: np.ndarray, A, B, k: int) -> np.ndarray:
    """Probabilities of k classes, as svm-predict gives them.

    Returns ndarray, shape (m, k): rows of sum 1.

    Parameters
    ----------
    values : ndarray, shape (m, k (k - 1) / 2)
        Decision values of the pairs of classes 1-2, 1-3, ..., 2-3, ...
    A, B : ndarrays, shape (k (k - 1) / 2,)
        The sigmoids of the pairs.
    k : int, >= 1
    """
    if k == 1:
        return np.ones((len(values), 1))
    with np.errstate(all="ignore"):
        first = sigmoid(values, A, B)
    # Not clip: a value that is no number becomes LEAST, as in LIBSVM.
    first = np.where(first > LEAST, first, LEAST)
    first = np.where(first < 1 - LEAST, first, 1 - LEAST)
    if k == 2:
        return np.hstack([first, 1 - first])
    step = max(1, _BLOCK_VALUES // (k * k))
    parts = [_couple(first[i : i + step], k) for i in range(0, len(first), step)]
    return np.concatenate(parts) if parts else np.empty((0, k))


def logistic_probabilities(values: np.ndarray, k: int) -> np.ndarray:
    """Probabilities of k classes of LIBLINEAR's logistic regression, shape (m, k).

    ``values``: ndarray, shape (m, 1) for two classes, else (m, k).
    """
    with np.errstate(all="ignore"):
        p = 1 / (1 + np.exp(-values))
        if k == 2:
            return np.hstack([p, 1 - p])
        return p / p.cumsum(axis=1)[:, -1:]


def _couple(first: np.ndarray, k: int) -> np.ndarray:
    """Couple r_ij (i < j), shape (m, k (k - 1) / 2), to class probabilities, shape (m, k).

    Sums run in the order of the classes, one term after the other, as in LIBSVM.
    """
    i, j = np.triu_indices(k, 1)
    r = np.zeros((len(first), k, k))
    r[:, i, j], r[:, j, i] = first, 1 - first
    Q = -r.transpose(0, 2, 1) * r
    classes = np.arange(k)
    Q[:, classes, classes] = (r * r).cumsum(axis=1)[:, -1]
    p, active = np.full((len(first), k), 1 / k), np.arange(len(first))
    for _ in range(max(100, k)):
        Qp = (Q[active] * p[active, None, :]).cumsum(axis=2)[:, :, -1]
        pQp = (p[active] * Qp).cumsum(axis=1)[:, -1]
        going = np.abs(Qp - pQp[:, None]).max(axis=1) >= _COUPLING_TOLERANCE / k
        active, Qp, pQp = active[going], Qp[going], pQp[going]
        if not active.size:
            break
        p[active] = _coordinate_pass(Q[active], p[active], Qp, pQp)
    return p


def _coordinate_pass(Q, p, Qp, pQp) -> np.ndarray:
    """Minimise p'Qp over one coordinate after the other, p scaled to sum 1 after each."""
    for t in range(p.shape[1]):
        step = (pQp - Qp[:, t]) / Q[:, t, t]
        p[:, t] += step
        pQp = pQp + step * (step * Q[:, t, t] + 2 * Qp[:, t])
        pQp = pQp / (1 + step) / (1 + step)
        Qp = (Qp + step[:, None] * Q[:, t]) / (1 + step)[:, None]
        p /= (1 + step)[:, None]
    return p
