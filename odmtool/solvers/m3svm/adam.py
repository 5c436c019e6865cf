"""Adam for M3SVM and ISM3, as the papers' authors train them.

Problem     min over W, b of F(W, b), see :mod:`odmtool.solvers.m3svm.objective`.
Update      full batches, moments first <- .9 first + .1 G, second <- .999 second + .001 G^2
            of the gradient G of F, and V - rate first_hat / (sqrt(second_hat) + 1e-8) with
            both moments freed of their bias towards zero. V starts uniform in +-1/sqrt(d).
Stop        as Newton's method does (:mod:`odmtool.solvers.m3svm.newton`), or after ``max_iter``
            steps (the authors' script: 500, without any other rule). A fixed rate circles
            around the minimum, so the tolerance is rarely met; the best point is returned.
Source      Nie, Hao & Wang, AAAI 2024; Kingma & Ba, "Adam: a method for stochastic
            optimization", ICLR 2015, Algorithm 1. The authors' rates lie from .001 to .1.
            Their script divides F by a number, which does not change the steps but for
            the 1e-8.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from odmtool import messages
from odmtool.errors import UsageError
from odmtool.solvers.base import Progress, Stop, ignore_progress
from odmtool.solvers.m3svm.newton import goal_of, objective_of, solution, starting_point
from odmtool.solvers.multi import MultiProblem, MultiSolution, margins_of

RATE = 0.01
"""Step size of every number; the authors' choice for most of their data."""

_FIRST, _SECOND, _SMALL = 0.9, 0.999, 1e-8


def solve(
    problem: MultiProblem, stop: Stop, *, seed: int = 0,
    start: tuple[np.ndarray, np.ndarray] | None = None, progress=ignore_progress,
    rate: float = RATE,
) -> MultiSolution:  # fmt: skip
    """Solve a linear problem; parameters and errors as :func:`odmtool.solvers.m3svm.newton.solve`.

    ``seed`` decides where W and b begin unless ``start`` says so; ``rate`` > 0 is the step.
    """
    if not 0 < rate < np.inf:
        raise UsageError(messages.must_be_positive("rate", rate))
    objective = objective_of(problem)
    smoothing = objective.smoothing
    goal = goal_of(objective, stop.tolerance)
    V = _random(objective, seed) if start is None else starting_point(objective, start)
    best, lowest = V, np.inf
    first, second = np.zeros_like(V), np.zeros_like(V)
    iteration = 0
    with np.errstate(over="ignore", invalid="ignore"):
        while True:
            scores = objective.scores(V)
            value = objective.value(V, scores, smoothing)
            gradient = objective.gradient(V, scores, smoothing)
            if value < lowest:
                best, lowest = V, value
            if iteration > 0:
                gap = objective.gap(V, value, gradient)
                margins = partial(margins_of, scores, problem.target)
                progress(Progress(iteration, value, gap, len(objective.weight), margins))
            if np.linalg.norm(gradient) <= goal:
                best = V
                break
            if iteration >= stop.max_iter:
                break
            iteration += 1
            first = _FIRST * first + (1 - _FIRST) * gradient
            second = _SECOND * second + (1 - _SECOND) * gradient**2
            size = np.sqrt(second / (1 - _SECOND**iteration)) + _SMALL
            V = V - rate * first / (1 - _FIRST**iteration) / size
    return solution(objective, best, iteration, goal, "adam")


def _random(objective, seed: int) -> np.ndarray:
    shape = objective.zero().shape
    limit = 1 / np.sqrt(max(1, shape[0] - 1))
    return np.random.default_rng(seed).uniform(-limit, limit, shape)
