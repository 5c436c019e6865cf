"""What the objectives of mcODM are made of, at given scores and duals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool._jit import njit
from odmtool.solvers.multi import Duals, MultiProblem


class Terms(NamedTuple):
    """Losses and what follows from the scores f_l(x_i).

    Attributes
    ----------
    true_loss, relaxed_loss : float
        The objective and the sub-problem without 1/2 |W|^2.
    dual_terms : float
        The dual plus 1/2 |W|^2.
    rival : int array, shape (m,)
        The best class besides the example's own.
    best : ndarray, shape (m,)
        Its score.
    margins : ndarray, shape (m,)
        By how much the score of the example's own class is larger.
    """

    true_loss: float
    relaxed_loss: float
    dual_terms: float
    rival: np.ndarray
    best: np.ndarray
    margins: np.ndarray


def evaluate(problem: MultiProblem, duals: Duals, scores: np.ndarray) -> Terms:
    """Scores have shape (m, k)."""
    m, target = problem.size, problem.target
    rival, best = np.empty(m, dtype=np.int64), np.empty(m)
    best_others(scores, target, rival, best)
    true_loss, relaxed_loss = primal_sums(
        problem.parameters, problem.weight, target, duals, scores, best
    )
    margins = scores[np.arange(m), target] - best
    return Terms(true_loss, relaxed_loss, dual_terms(problem, duals), rival, best, margins)


@njit
def best_others(scores, target, rival, best):
    """The first of the best classes besides each example's own, and its score."""
    m, k = scores.shape
    for i in range(m):
        y, top = target[i], -np.inf
        place = 1 if y == 0 and k > 1 else 0
        for j in range(k):
            # Of what overflowed nothing is lost: NaN wins.
            if j != y and (scores[i, j] > top or scores[i, j] != scores[i, j]):
                top, place = scores[i, j], j
        rival[i], best[i] = place, top


@njit
def primal_sums(loss, weight, target, duals, scores, best):
    """The two losses of :class:`Terms`; ``best`` as there."""
    below, above, relaxed = 0.0, 0.0, 0.0
    for i in range(len(target)):
        own, rival = scores[i, target[i]], duals.rival[i]
        against = scores[i, rival] if rival >= 0 else 0.0
        below += weight[i] * squared_excess(1 - loss.theta, own - best[i])
        above += weight[i] * squared_excess(own - best[i], 1 + loss.theta)
        relaxed += weight[i] * squared_excess(own - against, duals.upper[i])
    return loss.c1 * below + loss.c2 * above, loss.c1 * below + loss.c2 * relaxed


@njit
def squared_excess(x, limit):
    """max(0, x - limit)^2; NaN stays."""
    return 0.0 if x <= limit else (x - limit) ** 2


def dual_terms(problem: MultiProblem, duals: Duals) -> float:
    """D(alpha, beta) + 1/2 |W|^2."""
    return dual_sum(problem.parameters, problem.weight, problem.target, duals)


@njit
def dual_sum(loss, weight, target, duals):
    """See :func:`dual_terms`."""
    below, above = 0.0, 0.0
    for i in range(len(target)):
        s, beta = duals.alpha[i, target[i]], duals.beta[i]
        below += (1 - loss.theta) * s - s * s / (4 * loss.c1 * weight[i])
        if beta != 0:  # as with an infinite right-hand side
            above += duals.upper[i] * beta + beta * beta / (4 * loss.c2 * weight[i])
    return below - above
