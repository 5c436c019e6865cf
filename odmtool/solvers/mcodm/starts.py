"""Where the rounds of mcODM begin again, and how often.

Problem     F, the objective of mcODM, is the least of as many convex problems as there are ways to
            name a rival for every example (:mod:`odmtool.solvers.mcodm.rounds`), and the rounds
            end at one of them that is stationary. Which one depends on the first rivals.
Starts      The first names none: no margin is too large. Each of the others goes on from the best
            end so far, with other rivals, drawn, for a share of the examples whose margins are
            held down there; that is a quarter to a half of the work of a start from nothing, and it
            leads to lower ends. Small problems have up to seven starts, large ones the first only.
            So have the fits of a cross validation, where more take several times as long and
            choose no better settings (docs/solvers.md).
Source      iterated local search; benchmarks/mcodm_starts.py compares what comes of it with
            fourteen starts of other kinds.
"""

from __future__ import annotations

import numpy as np

from odmtool.solvers.multi import Duals, MultiProblem

MOST_STARTS = 7
# Of the examples that are held down, one after the other: which is best differs.
_SHARES = (0.1, 0.2, 0.4)
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


def other_rivals(problem: MultiProblem, duals: Duals, seed: int, number: int) -> np.ndarray | None:
    """The first rivals of start ``number`` >= 1, int array of shape (m,), for k >= 3 classes.

    Those of ``duals``, but for a share of the examples whose margins they hold down; None if they
    hold down none.
    """
    k, generator = problem.k, np.random.default_rng((seed, number))
    held = np.flatnonzero(duals.beta > 0)
    if held.size == 0:
        return None
    share = _SHARES[number % len(_SHARES)]
    chosen = generator.permutation(held)[: int(np.ceil(share * held.size))]
    rivals, own = duals.rival.copy(), problem.target[chosen]
    # Counted from the own class on, rivals are 1 to k - 1.
    present = (rivals[chosen] - own) % k - 1
    drawn = (present + generator.integers(1, k - 1, size=chosen.size)) % (k - 1) + 1
    rivals[chosen] = (own + drawn) % k
    return rivals
