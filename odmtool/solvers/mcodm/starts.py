"""Where the rounds of mcODM begin, and how often.

Problem     F, the objective of mcODM, is the least of as many convex problems as there are ways to
            name a rival for every example (:mod:`odmtool.solvers.mcodm.rounds`), and the rounds
            end at one of them that is stationary. Which one depends on the first rivals.
Starts      The first names none: no margin is too large. The others draw rivals, in turn one for
            each class (classes on a line need that), one for each example, and those of random
            linear scores (with a kernel again one for each example). Small problems have up to
            ten starts, large ones the first only. So have the fits of a cross validation, where
            more take several times as long and choose no better settings (docs/solvers.md).
Source      benchmarks/mcodm_starts.py compares what comes of it with twelve others.
"""

from __future__ import annotations

import numpy as np

from odmtool.solvers.multi import MultiProblem

MOST_STARTS = 10
# So many numbers of the rows and of a w, times classes, are worth one start; with a kernel, where
# Newton's method has as many unknowns as examples times classes, so many of their squares.
_ROW_NUMBERS, _SQUARED_UNKNOWNS = 2e5, 1e6


def start_count(problem: MultiProblem, most: int = MOST_STARTS) -> int:
    """How often the rounds begin, 1 to ``most`` times; once with two classes or many examples."""
    if problem.k < 3:
        return 1
    gram = problem.gram
    if gram is not None and gram.bytes > gram.memory:
        return 1
    if gram is not None:
        return _share(_SQUARED_UNKNOWNS, most, (problem.k * problem.size) ** 2)
    X = problem.X
    stored = X.size if isinstance(X, np.ndarray) else X.nnz
    return _share(_ROW_NUMBERS, most, problem.k * (stored + X.shape[1]))


def _share(budget: float, most: int, numbers: int) -> int:
    return int(np.clip(budget / max(1, numbers), 1, most))


def drawn_rivals(problem: MultiProblem, seed: int, number: int) -> np.ndarray:
    """The first rivals of start ``number`` >= 1: int array of shape (m,), no example's own class.

    A kernel's depend on the labels, the seed and the number only.
    """
    k, target = problem.k, problem.target
    generator = np.random.default_rng((seed, number))
    if number % 3 == 1:
        return (target + generator.integers(1, k, size=k)[target]) % k
    if number % 3 == 2 or problem.gram is not None:
        return (target + generator.integers(1, k, size=problem.size)) % k
    scores = np.asarray(problem.X @ generator.standard_normal((problem.X.shape[1], k)))
    scores -= scores.mean(axis=0)
    scores[np.arange(problem.size), target] = -np.inf
    return scores.argmax(axis=1)
