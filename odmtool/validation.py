"""Cross validation: stratified, seeded folds and the labels predicted out of fold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool import messages
from odmtool.errors import UsageError
from odmtool.gram import Gram
from odmtool.machines import ODM
from odmtool.solvers.base import Solution


class CrossValidation(NamedTuple):
    """Outcome of a cross validation.

    Attributes
    ----------
    predicted : int array, shape (m,)
        The label of each example, from the machine that did not see it.
    fold : int array, shape (m,)
        The fold in which each example was left out.
    accuracy : float
        Share of all examples that were predicted correctly (not the mean over folds).
    fold_accuracies : ndarray, shape (n,)
    solutions : list of Solution
    """

    predicted: np.ndarray
    fold: np.ndarray
    accuracy: float
    fold_accuracies: np.ndarray
    solutions: list[Solution]


def folds(labels: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Deal the examples to n folds, every class evenly; the sizes differ by one at most.

    Depends on the labels, n and the seed only.

    Parameters
    ----------
    labels : int array, shape (m,)
    n : int, 2 <= n <= m
    seed : int

    Returns
    -------
    int array, shape (m,)
        Fold of each example, 0 to n - 1.

    Raises
    ------
    UsageError
    """
    if not 2 <= n <= len(labels):
        raise UsageError(messages.fold_count(n, len(labels)))
    generator = np.random.default_rng(seed)
    fold, dealt = np.empty(len(labels), dtype=np.int64), 0
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        # Going on where the class before ended keeps the folds equally large.
        fold[members] = (dealt + np.arange(len(members))) % n
        dealt += len(members)
    return fold


def cross_validate(
    machine: ODM, X, labels, weight=None, *, n: int, seed: int = 0, jobs: int = 1,
    gram: Gram | None = None,
) -> CrossValidation:  # fmt: skip
    """Predict every example by a machine trained on the other folds.

    Parameters
    ----------
    machine : ODM
        Its parameters; it is not fitted itself.
    X : csr_matrix, shape (m, d)
    labels : int array, shape (m,)
    weight : ndarray, shape (m,), optional
        Used in training; every example counts once in the accuracy.
    n, seed : int
        See :func:`folds`.
    jobs : int
        Folds at a time.
    gram : Gram, optional
        Kernel values of X, shared by several calls.
    """
    fold = folds(labels, n, seed)
    machine.classes_of(labels)
    gram = gram or machine.gram(X)
    if gram is not None and jobs == 1 and 3 * gram.bytes <= gram.memory:
        gram.matrix()  # once for all folds; they take parts of it

    def run(k: int):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        part = None if gram is None else gram.subset(train)
        fitted = machine.copy().fit(
            X[train], labels[train], None if weight is None else weight[train], gram=part
        )
        return fitted.predict(X[test]), fitted.solution_

    outcomes = _map(run, range(n), jobs)
    predicted = np.empty(len(labels), dtype=np.int64)
    for k, (labels_of_fold, _solution) in enumerate(outcomes):
        predicted[fold == k] = labels_of_fold
    correct = predicted == labels
    by_fold = np.bincount(fold, correct, minlength=n) / np.bincount(fold, minlength=n)
    return CrossValidation(
        predicted, fold, float(correct.mean()), by_fold, [solution for _, solution in outcomes]
    )


def _map(function, items, jobs: int) -> list:
    """Results in the order of the items; threads, because the solvers release the lock."""
    if jobs == 1:
        return [function(item) for item in items]
    from joblib import Parallel, delayed

    return Parallel(n_jobs=jobs, prefer="threads")(delayed(function)(item) for item in items)
