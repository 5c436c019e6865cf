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
    loss, weight, target = problem.parameters, problem.weight, problem.target
    examples = np.arange(problem.size)
    own, best = scores[examples, target], np.empty(problem.size)
    rival = np.empty(problem.size, dtype=np.int64)
    best_others(scores, target, rival, best)
    below = loss.c1 * (weight @ np.maximum(0.0, 1 - loss.theta - own + best) ** 2)
    above = weight @ np.maximum(0.0, own - best - 1 - loss.theta) ** 2
    against = np.where(duals.rival >= 0, scores[examples, duals.rival], 0.0)
    relaxed = weight @ np.maximum(0.0, own - against - duals.upper) ** 2
    return Terms(
        float(below + loss.c2 * above), float(below + loss.c2 * relaxed),
        dual_terms(problem, duals), rival, best, own - best,
    )  # fmt: skip


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


def dual_terms(problem: MultiProblem, duals: Duals) -> float:
    """D(alpha, beta) + 1/2 |W|^2."""
    loss, weight = problem.parameters, problem.weight
    s = duals.alpha[np.arange(problem.size), problem.target]
    below = (1 - loss.theta) * s - s * s / (4 * loss.c1 * weight)
    # An infinite right-hand side has beta = 0.
    upper = np.where(duals.beta > 0, duals.upper, 0.0)
    above = upper * duals.beta + duals.beta**2 / (4 * loss.c2 * weight)
    return float(below.sum() - above.sum())
