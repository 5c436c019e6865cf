"""What the objectives of mcODM are made of, at given scores and duals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool.solvers.multi import Duals, MultiProblem


class Terms(NamedTuple):
    """Losses and what follows from the scores f_l(x_i)."""

    # true_loss, relaxed_loss: the objective and the sub-problem without 1/2 |W|^2.
    true_loss: float
    relaxed_loss: float
    dual_terms: float  # the dual plus 1/2 |W|^2
    rival: np.ndarray  # integers, shape (m,): the best class besides the example's own
    best: np.ndarray  # shape (m,): its score
    margins: np.ndarray  # shape (m,): by how much the score of the example's own class is larger


def evaluate(
    problem: MultiProblem, duals: Duals, scores: np.ndarray, known: tuple | None = None
) -> Terms:
    """Scores have shape (m, k); ``known`` is what :func:`best_others` says of them."""
    loss, weight = problem.parameters, problem.weight
    own, rival, best = best_others(scores, problem.target) if known is None else known
    examples = np.arange(problem.size)
    margins = own - best
    below = weight @ squared_excess(1 - loss.theta, margins)
    above = weight @ squared_excess(margins, 1 + loss.theta)
    against = np.where(duals.rival >= 0, scores[examples, duals.rival], 0.0)
    relaxed = weight @ squared_excess(own - against, duals.upper)
    return Terms(
        loss.c1 * below + loss.c2 * above, loss.c1 * below + loss.c2 * relaxed,
        dual_terms(problem, duals), rival, best, margins,
    )  # fmt: skip


def best_others(scores: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, ...]:
    """Of every example its own score, the best class besides, at a tie the first, and its score."""
    m, others = len(scores), scores.copy(order="K")
    if others.flags.c_contiguous:
        examples = np.arange(m)
        own = others[examples, target]
        others[examples, target] = -np.inf
        rival = others.argmax(axis=1)
        return own, rival, others[examples, rival]
    # NumPy is fast with the largest number of a column, and slow with its place.
    others, places = others.T, target * m + np.arange(m)
    own = others.take(places)
    others.put(places, -np.inf)
    best = others.max(axis=0)
    classes, at = np.divmod(np.flatnonzero(others == best)[::-1], m)
    rival = np.zeros(m, dtype=np.intp)
    rival[at] = classes
    return own, rival, best


def squared_excess(x, limit) -> np.ndarray:
    """max(0, x - limit)^2; NaN stays."""
    return np.maximum(0.0, x - limit) ** 2


def dual_terms(problem: MultiProblem, duals: Duals) -> float:
    """D(alpha, beta) + 1/2 |W|^2."""
    loss, weight, beta = problem.parameters, problem.weight, duals.beta
    s = duals.alpha[np.arange(problem.size), problem.target]
    below = (1 - loss.theta) * s.sum() - s @ (s / weight) / (4 * loss.c1)
    upper = np.where(beta == 0, 0.0, duals.upper)
    return float(below - upper @ beta - beta @ (beta / weight) / (4 * loss.c2))
