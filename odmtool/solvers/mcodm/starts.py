"""Where the rounds of mcODM begin again, and how often.

Problem     F, the objective of mcODM, is the least of as many convex problems as there are ways to
            name a rival for every example (:mod:`odmtool.solvers.mcodm.rounds`), and the rounds
            end at one of them that is stationary. Which one depends on the first rivals.
Starts      The first names none: no margin is too large. (Where several follow and steps are exact,
            those of least squares come before it, which are nearer.) Each of the others goes on
            from the best end so far: some of the examples that their best rival holds down there
            are held down by the second best instead. Those are taken whose constraint costs much,
            by its multiplier, and whose second best score needs to rise by little. That is a
            quarter to a half of the work of a start from nothing, and leads to lower ends. One
            that has the rivals of the best end leads back there, and is given up. Small problems
            have up to seven starts and that one, large ones the first only. So have the fits of a
            cross validation, where more take several times as long and choose no better settings
            (docs/solvers.md).
Source      iterated local search; benchmarks/mcodm_starts.py compares what comes of it with
            fourteen starts of other kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np

from odmtool.errors import DivergedError
from odmtool.solvers.mcodm.way import has_many_rows
from odmtool.solvers.multi import Duals, MultiProblem

MOST_STARTS = 7
# Of the examples that are held down so many get another rival, one share after the other, as which
# is best differs; and by so much is disturbed what they promise. Where examples are many for their
# features it takes more to leave an end (wine at lambda 2^14 stayed 3 to 4 % too high with the
# other numbers); where they are few, dna ends 5 to 10 % too high with these.
_NARROW, _WIDE = ((0.2, 0.4, 0.1), 1.0), ((0.1, 0.2, 0.05), 0.3)
# So many numbers of the rows and of a w, times classes, are worth one start, and more where
# features are many: ends differ more there, and coordinate descent is fast. With a kernel, where
# Newton's method has as many unknowns as examples times classes, so many of their squares
# (at lambda 2^20 1000 rows of segment and of pendigits ended 2 to 3 % too high from one start).
_ROW_NUMBERS, _WIDE_NUMBERS, _SQUARED_UNKNOWNS = 1e6, 4e6, 2e8
# A start leads back to the best end where at most this share of its rivals are different. Where so
# many, one after the other, led back there, others will, too.
_OTHERS, _RETURNS = 0.01, 3


def start_count(problem: MultiProblem, most: int = MOST_STARTS) -> int:
    """How often the rounds begin, 1 to ``most`` times; once with two classes or many examples.

    That of least squares is not counted.
    """
    if problem.k < 3:
        return 1
    gram = problem.gram
    if gram is not None and gram.bytes > gram.memory:
        return 1
    if gram is not None:
        return _share(_SQUARED_UNKNOWNS, most, (problem.k * problem.size) ** 2)
    X = problem.X
    stored = X.size if isinstance(X, np.ndarray) else X.nnz
    budget = _ROW_NUMBERS if has_many_rows(problem) else _WIDE_NUMBERS
    return _share(budget, most, problem.k * (stored + X.shape[1]))


def _share(budget: float, most: int, numbers: int) -> int:
    return int(np.clip(budget / max(1, numbers), 1, most))


def lowest_end(best, begun: Callable, problem: MultiProblem, seed: int, count: int):
    """The lowest end of ``count`` starts; what does not converge ends the search, and is left.

    ``best`` is that of the first, and ``begun(duals, rivals, W)`` begins another.
    """
    returns = 0
    for number in range(1 - best.begins_near, count) if best.converged else ():
        if returns == _RETURNS or (at := _beginning(best, problem, seed, number)) is None:
            break
        try:
            other = begun(*at)
            returns = returns + 1 if other.run(best) else 0
            if other.objective < best.objective:
                other.run()
        except DivergedError:
            break
        if other.is_finished and not other.converged:
            break
        if other.objective < best.objective:
            best = other
    return best


def _beginning(best, problem: MultiProblem, seed: int, number: int) -> tuple | None:
    """Duals, rivals and W, of start 0 without constraints; None if there are no other rivals."""
    if number == 0:
        return None, np.full(problem.size, -1), None
    rivals = other_rivals(problem, best.duals, best.scores(), seed, number)
    return None if rivals is None else (best.duals, rivals, best.point)


def leads_to(duals: Duals, end: Duals) -> bool:
    """Whether nearly all examples whose margins another end holds down have its rivals.

    Their sub-problem is that of the end then, and so is its solution.
    """
    held = end.beta > 0
    differ = np.count_nonzero(held & (duals.rival != end.rival))
    return differ <= _OTHERS * np.count_nonzero(held)


def other_rivals(
    problem: MultiProblem, duals: Duals, scores: np.ndarray, seed: int, number: int
) -> np.ndarray | None:
    """The first rivals of start ``number`` >= 1, int array of shape (m,), for k >= 3 classes.

    Those of ``duals``, but for the second best class of a share of the examples whose margins they
    hold down; None if they hold down none. ``scores``, shape (m, k), are those of the point.
    """
    held = np.flatnonzero(duals.beta > 0)
    if held.size == 0:
        return None
    rivals, examples, f = duals.rival.copy(), np.arange(held.size), scores[held]
    present = f[examples, rivals[held]]
    f[examples, problem.target[held]] = f[examples, rivals[held]] = -np.inf
    second = f.argmax(axis=1)
    lift = np.maximum(present - f[examples, second], np.finfo(float).tiny)
    promise = np.log(duals.beta[held]) - np.log(lift)
    shares, noise = _NARROW if has_many_rows(problem) else _WIDE
    random = Random(f"{seed} {number}")
    chance = np.array([random.random() for _ in range(held.size)])
    # As many draws from Gumbel's distribution.
    promise -= noise * np.log(-np.log(chance))
    share = shares[number % len(shares)]
    chosen = np.argsort(-promise, kind="stable")[: int(np.ceil(share * held.size))]
    rivals[held[chosen]] = second[chosen]
    return rivals
