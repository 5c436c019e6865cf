"""The one place that chooses how mcODM is solved.

A round's convex problem is solved by coordinate descent, by Newton's method, or by the one and then
the other. Where rows are an array, or the whole Hessian is small, it is Newton's method from the
start: it needs no compiled code, and begins at least squares. With many examples per feature it
is better for every lambda but small ones. With few, nearly every example can get the margin that
it wants, and coordinate descent is fast for every lambda (if not, Newton's method comes late); so
it is with few examples per class, and where Newton's method would have nothing but the diagonal as
a preconditioner (benchmarks/multi.py measures it). Where few examples are long, with a large
lambda, neither gets anywhere but from smaller lambdas
(:mod:`odmtool.solvers.mcodm.continuation`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool.core.gram import BYTES
from odmtool.core.kernel_table import STORED
from odmtool.core.kernels import Kernel, squares
from odmtool.core.loss_table import OF_MCODM
from odmtool.solvers.auto import has_landmarks, landmarks_memory
from odmtool.solvers.multi import (
    FEATURE_MATRICES,
    LARGEST_BLOCKS,
    LARGEST_FACTOR,
    LARGEST_FEATURE_FACTOR,
    LARGEST_FEATURES,
    MultiProblem,
)

# With fewer examples per feature a problem is wide.
_NARROW = 5
# Epochs before Newton's method: of narrow problems, of wide ones, where coordinate descent nearly
# always ends before, and with a kernel, where an epoch costs little beside the features: Newton's
# method takes as long as 500 epochs and more, but where the whole Hessian is factored. Of so few
# examples its systems are small (:mod:`odmtool.solvers.mcodm.dual_system`), and it comes sooner.
_EPOCHS, _WIDE_EPOCHS, _KERNEL_EPOCHS, _SMALL_KERNEL_EPOCHS = 5, 300, 400, 50
_FEW_EXAMPLES, _FEW_EPOCHS = 600, 100
# Up to so many examples per degree of freedom of the scores are few for their classes. (Of 400 rows
# with 60 features and 40 classes Newton's method takes up to 100 times as long, of 60 with 8 and 12
# a fourth.)
_FEW_PER_FREEDOM = 0.6
# Problems in which every margin can be as wanted are continued from small lambdas, if their
# curvature is above this. (With a few examples more, ends from there were up to 40 % too high.)
# Above the other there are more than 50 lambdas on the way, and rounding is all that they see.
_STEEP, _STEEPEST = 1e5, 1e60
# With more of them a Newton step of all takes longer than some epochs.
_FEW_CLASSES = 32
# A round's gap against that of the round before, and of the last two against the tolerance.
_FRACTION, _LAST_BUT_ONE, _LAST = 0.1, 2.0, 0.9
# Rows with a larger share of values that are not zero become an array.
_DENSE = 0.4
# Others do up to so many numbers, where the Hessian is small.
_FEW_NUMBERS = 1_000_000


class Way(NamedTuple):
    """How the convex problem of a round is solved."""

    epochs: float  # of coordinate descent, before Newton's method; infinite if that never comes
    is_sparse: bool = False  # Newton's method is for sparse rows, else for an array
    has_landmarks: bool = False  # the rounds are those of :mod:`odmtool.solvers.mcodm.landmarks`
    # Smaller lambdas come before (:mod:`odmtool.solvers.mcodm.continuation`).
    is_continued: bool = False


def choose(problem: MultiProblem, solver: str = "auto", outer: str = "cccp") -> Way:
    """For ``solver`` "auto", "dcd", "newton" or "landmarks"."""
    gram = problem.gram
    if gram is not None and gram.X is not None and outer == "cccp":
        is_large = solver == "auto" and takes_landmarks(gram.kernel, problem.size, gram.memory)
        if is_large or solver == "landmarks":
            return Way(np.inf, has_landmarks=True)
    if solver != "dcd" and outer == "cccp" and is_steep(problem):
        return Way(0, is_continued=True)
    return for_rounds(problem, solver)


def for_rounds(problem: MultiProblem, solver: str = "auto") -> Way:
    """The same without landmarks and without continuation."""
    most = _FEW_EPOCHS if problem.size <= _FEW_EXAMPLES else np.inf
    if problem.gram is not None:
        if solver == "dcd" or not has_features(problem):
            return Way(np.inf)
        is_small = problem.size * problem.k <= LARGEST_FEATURE_FACTOR
        return Way(_SMALL_KERNEL_EPOCHS if is_small else min(_KERNEL_EPOCHS, most))
    X, k = problem.X, problem.k
    m, d = X.shape
    is_dense = isinstance(X, np.ndarray) or X.nnz > _DENSE * m * d
    is_small = d * k <= LARGEST_FACTOR and (is_dense or m * d <= _FEW_NUMBERS)
    is_sparse = not (is_dense or is_small)
    if solver == "newton":
        return Way(0, is_sparse)
    if solver == "dcd" or k * d * d > LARGEST_BLOCKS:
        return Way(np.inf)
    if has_many_rows(problem) and problem.size <= _FEW_PER_FREEDOM * freedom(problem):
        return Way(_WIDE_EPOCHS, is_sparse)
    if not has_many_rows(problem):
        return Way(_WIDE_EPOCHS if is_sparse else min(_WIDE_EPOCHS, most), is_sparse)
    return Way(_EPOCHS if is_sparse or k > _FEW_CLASSES else 0, is_sparse)


def is_steep(problem: MultiProblem) -> bool:
    """Whether losses are steep, every margin can be as wanted, and the Hessian is small."""
    if problem.gram is not None:
        return False
    is_small = problem.X.shape[1] * problem.k <= LARGEST_FEATURE_FACTOR
    is_free = problem.size <= freedom(problem) and is_small
    return is_free and _STEEP < curvature(problem) <= _STEEPEST


def freedom(problem: MultiProblem) -> int:
    """The degrees of freedom of scores of d features, d (k - 1)."""
    return problem.X.shape[1] * (problem.k - 1)


def curvature(problem: MultiProblem) -> float:
    """The largest second derivative of a loss times |x|^2, on average."""
    with np.errstate(over="ignore"):
        lengths = np.mean(problem.weight * squares(problem.X))
        return float(2 * problem.parameters.c1 * lengths)


def has_many_rows(problem: MultiProblem) -> bool:
    """Whether there are many examples per feature; with a kernel there never are."""
    return problem.gram is None and problem.X.shape[0] >= _NARROW * problem.X.shape[1]


def has_features(problem: MultiProblem) -> bool:
    """Whether a kernel problem is small enough for features of all examples.

    Its kernel must be positive semidefinite, and its rows known.
    """
    gram, m = problem.gram, problem.size
    is_fitting = gram.kernel.row.of != STORED and gram.kernel.is_positive_semidefinite
    has_room = FEATURE_MATRICES * BYTES * m * m <= gram.memory
    return is_fitting and gram.X is not None and has_room and m <= LARGEST_FEATURES


def takes_landmarks(kernel: Kernel, m: int, memory: float) -> bool:
    """Whether ``auto`` takes landmarks for m examples.

    Coordinate descent on a kernel matrix that fits in ``memory`` is mostly faster, and many times
    slower on one that does not.
    """
    has_room = BYTES * m * m > memory >= landmarks_memory(m, OF_MCODM)
    return has_room and has_landmarks(kernel, m, memory)


def next_tolerance(last: float, tolerance: float) -> float:
    """The gap to which coordinate descent solves the round after one that it solved to ``last``.

    Ever more precisely; the last round but one nearly as precisely as the last, so that the
    objective falls by little between them.
    """
    if last <= _LAST_BUT_ONE * tolerance:
        return _LAST * tolerance
    return max(_FRACTION * last, _LAST_BUT_ONE * tolerance)
