"""Where Newton's method of mcODM begins on many rows of few features: at the solution of a sample.

Problem     far from the solution of data with large features a Newton step changes the pieces of
            most losses, so that it must be shortened, and steps are many. A sample has about the
            same solution, and the same steps cost a seventh there.
Sample      row i is in it with the probability p_i, and then counts 1 / p_i times as much, so that
            the sample's objective is about that of all rows. p_i is a seventh, or more for rows
            that no others stand for: it grows with their leverage, u_i x_i' (X'UX)^-1 x_i, and with
            the rarity of their class. (Every seventh row of shuttle, in which some rows are a
            thousand times as long as others, led nowhere near.) Rows are taken at equal
            distances of the sum of p, without chance.
Use         W of the sample, which begins at a sample of its own while there are enough rows, and of
            all rows the duals that the true losses have there.
Source      leverage scores: Drineas, Mahoney & Muthukrishnan, "Sampling algorithms for l2
            regression and applications", SODA 2006.
"""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError

from odmtool.solvers.mcodm.terms import best_others
from odmtool.solvers.multi import Duals, MultiProblem
from odmtool.solvers.newton.factor import cholesky_in_place, cholesky_solve
from odmtool.solvers.newton.hessian import gram_of

# speed only: the share of the rows, and how many rows of it a weight must have
_SAMPLED, _ROWS_PER_WEIGHT = 7, 10
# speed only: so many rows of a class for each feature are enough
_ROWS_OF_CLASS = 10
# speed only: rows at a time
_PART = 4096
# Columns that others span have a leverage by what this share of the largest square adds.
_RIDGE = 1e-12


def has_sample(problem: MultiProblem) -> bool:
    """Whether rows are so many that a sample says where the solution of all is."""
    weights = problem.X.shape[1] * problem.k
    return 0 < _SAMPLED * _ROWS_PER_WEIGHT * weights <= problem.size


def sample_of(problem: MultiProblem) -> MultiProblem | None:
    """Some rows, with weights, of a problem whose X is an array; None where numbers overflow."""
    share = probabilities(problem)
    if share is None:
        return None
    rows = np.flatnonzero(np.diff(np.floor(np.cumsum(share) + 0.5), prepend=0.0) > 0)
    return problem._replace(
        X=problem.X[rows], target=problem.target[rows],
        weight=problem.weight[rows] / share[rows],
    )  # fmt: skip


def probabilities(problem: MultiProblem) -> np.ndarray | None:
    """p of every row."""
    X, weight, (m, d) = problem.X, problem.weight, problem.X.shape
    A = gram_of(X, weight, False)
    A.flat[:: d + 1] += _RIDGE * A.diagonal().max(initial=0.0) + np.finfo(float).tiny
    if not np.isfinite(A).all():
        return None
    try:
        inverse = cholesky_solve(cholesky_in_place(A), np.eye(d))
    except LinAlgError:
        return None
    leverage = np.empty(m)
    for first in range(0, m, _PART):
        part = X[first : first + _PART]
        leverage[first : first + _PART] = np.einsum("ip,ip->i", part @ inverse, part)
    leverage *= weight
    of_class = np.bincount(problem.target, minlength=problem.k)[problem.target]
    # Leverages are at most d / m on average.
    share = np.maximum(1.0, leverage * (m / d)) / _SAMPLED
    return np.minimum(1.0, np.maximum(share, _ROWS_OF_CLASS * d / of_class))


def duals_at(problem: MultiProblem, W: np.ndarray) -> Duals:
    """The derivatives of the losses at W, with the best classes there as rivals."""
    loss, weight = problem.parameters, problem.weight
    own, rival, best = best_others(np.asarray(problem.X @ W), problem.target)
    s = 2 * loss.c1 * weight * np.maximum(0.0, 1 - loss.theta - own + best)
    beta = 2 * loss.c2 * weight * np.maximum(0.0, own - best - 1 - loss.theta)
    alpha, examples = np.zeros((problem.size, problem.k)), np.arange(problem.size)
    alpha[examples, rival], alpha[examples, problem.target] = -s, s
    return Duals(alpha, beta, rival.astype(np.int64), np.full(problem.size, 1 + loss.theta))
