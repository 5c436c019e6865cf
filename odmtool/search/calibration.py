"""Probabilities of a machine: Platt's sigmoid, fitted on examples left out.

The decision values of the training examples themselves lie too far from 0. So the examples
are dealt to 5 folds (stratified, seeded; as many as LIBSVM takes), each fold gets its values
from a machine that was trained on the others, and one sigmoid is fitted on all of them. The
model itself is that of all examples.

Weights of examples count in the sigmoid as they do in training: as numbers of examples. Those
of classes do not: they are the costs of errors and say nothing about how frequent a class is.

A sigmoid belongs to a pair of classes; a machine of two classes has one. Those of more than two
are coupled as in LIBSVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from odmtool import messages
from odmtool.core.gram import Gram
from odmtool.errors import UsageError
from odmtool.machines import Machine
from odmtool.machines.data import targets, weights_in_use
from odmtool.models import carry
from odmtool.models.decide import pair_blocks, votes_and_confidence
from odmtool.models.probability import fit_sigmoid, probabilities_of_blocks
from odmtool.search.together import Together, shares_landmarks
from odmtool.search.validation import (
    NO_SOLUTION,
    Data,
    FoldResult,
    evaluate_chain,
    folds,
    shared_gram,
)
from odmtool.solvers.base import ignore_progress

FOLDS = 5
"""Parts that the decision values of a sigmoid come from."""


class Calibration(NamedTuple):
    """The sigmoids of one setting."""

    # A, B: shape (k (k - 1) / 2,), the sigmoids of the pairs of classes; None if there is no
    # solution on some fold.
    A: np.ndarray | None
    B: np.ndarray | None
    unconverged: int  # folds that did not reach the tolerance


def usable_rows(machine: Machine, data: Data, rows) -> np.ndarray:
    """Those of the rows whose weight is not zero, checked to be enough.

    Raises
    ------
    DataError
        All weights are zero.
    UsageError
        There is one class only, or a class has fewer examples than folds.
    """
    order = data.class_order()
    if len(order) == 1:
        raise UsageError(messages.probability_one_class(order[0]))
    weight = np.ones(len(rows)) if data.weight is None else data.weight[rows]
    used, _ = weights_in_use(data.labels[rows], weight, machine.class_weight)
    rows = rows if used is None else rows[used]
    for label in order:
        count = int((data.labels[rows] == label).sum())
        if count < FOLDS:
            raise UsageError(messages.probability_class_too_small(label, count, FOLDS))
    return rows


def calibrate_chain(
    machine: Machine, settings: list[dict], data: Data, rows, gram: Gram | None
) -> list[Calibration]:
    """Fit the sigmoids of settings that share their kernel; parameters as evaluate_chain's.

    Raises DataError, UsageError: see :func:`usable_rows`.
    """
    rows = usable_rows(machine, data, np.asarray(rows))
    fold = folds(data.labels[rows], FOLDS, machine.seed)
    k = len(data.class_order())
    target = targets(data.labels[rows], data.class_order())
    # As they are, or those of the pairs of an example's class: of many classes, values of all pairs
    # would fill the memory.
    values: list[np.ndarray | None] = [None] * len(settings)
    has_pairs = np.zeros(len(settings), bool)
    solved, unconverged = np.ones(len(settings), bool), np.zeros(len(settings), int)
    for number, part, result in _results(machine, settings, data, rows, fold, gram):
        if result is NO_SOLUTION:
            solved[number] = False
            continue
        own, has_pairs[number] = result.values, result.pairs is not None
        if has_pairs[number]:
            own = result.pairs.of_own(target[fold == part])
        if values[number] is None:
            values[number] = np.empty((len(rows), own.shape[1]))
        values[number][fold == part] = own
        unconverged[number] += not result.converged
    weight = None if data.weight is None else data.weight[rows]
    calibrations = []
    for number, of_setting in enumerate(values):
        A = B = None
        if solved[number]:
            A, B = _sigmoids(of_setting, has_pairs[number], target, k, weight)
        calibrations.append(Calibration(A, B, int(unconverged[number])))
    return calibrations


def _results(
    machine: Machine, settings: list[dict], data: Data, rows, fold, gram: Gram | None
) -> Iterator[tuple[int, int, FoldResult]]:
    """Every setting on every fold of the rows: their numbers, and what was predicted."""
    left = [(number, part) for part in range(FOLDS) for number in range(len(settings))]
    some = data.part(rows)
    if shares_landmarks(machine.copy(**settings[0]), some, fold):
        left, jobs = [], getattr(machine, "jobs", 1)
        # One after the other: what a setting gets does not depend on those beside it.
        for number, setting in enumerate(settings):
            together = Together(machine, [setting], some, fold, jobs)
            for _, part, result, _seconds in together.results():
                if result is None:
                    left.append((number, part))
                else:
                    yield number, part, result
        if left:
            machine = machine.copy(solver="newton")
            gram = shared_gram(machine, data.X)
    for part in range(FOLDS):
        numbers = [number for number, other in left if other == part]
        train, test = rows[fold != part], rows[fold == part]
        chain = [settings[number] for number in numbers]
        results = evaluate_chain(machine, chain, data, train, test, gram) if chain else []
        for number, result in zip(numbers, results, strict=True):
            yield number, part, result


def _sigmoids(values, has_pairs, target, k: int, weight) -> tuple[np.ndarray, np.ndarray]:
    """One sigmoid for each pair of classes, fitted on the examples of the two.

    Values are those of the classes, or of the pairs of the example's class, as
    :meth:`odmtool.search.pair_values.PairValues.of_own` has them.
    """
    sigmoids = []
    for i, j in zip(*np.triu_indices(k, 1), strict=True):
        used = (target == i) | (target == j)
        of_used = None if weight is None else weight[used]
        if values.shape[1] == 1:
            of_pair = values[used, 0]
        elif has_pairs:
            of_pair = np.where(target[used] == i, values[used, j - 1], values[used, i])
        else:
            of_pair = values[used, i] - values[used, j]
        sigmoids.append(fit_sigmoid(of_pair, target[used] == i, of_used))
    A, B = np.array(sigmoids).T
    return A, B


def fit_with_probabilities(
    machine: Machine, data: Data, progress=ignore_progress, gram: Gram | None = None
) -> Calibration:
    """Train a machine on all examples and give its model the sigmoid.

    ``gram`` has the kernel values of all rows where they are known already.

    Raises UsageError, DataError, MemoryLimitError, DivergedError: those of :meth:`Machine.fit` and
    :func:`add_probabilities`.
    """
    # Before the machine is trained, which may take long.
    usable_rows(machine, data, np.arange(len(data.labels)))
    gram = gram or shared_gram(machine, data.X)
    machine.fit(
        data.X, data.labels, data.weight, gram=gram, classes=data.classes, progress=progress
    )
    return add_probabilities(machine, data, gram)


def add_probabilities(machine: Machine, data: Data, gram: Gram | None) -> Calibration:
    """Give the model of a fitted machine its sigmoid.

    Parameters
    ----------
    machine : Machine
        Fitted on the data; ``model_`` gets probA, probB and a fact.
    gram : Gram or None
        Kernel values of all rows; None for a linear machine.

    Raises
    ------
    DataError, UsageError
        See :func:`usable_rows`.
    DivergedError
        A fold has no solution.
    """
    (result,) = calibrate_chain(machine, [{}], data, np.arange(len(data.labels)), gram)
    if result.A is None:
        raise machine.no_solution()
    model = machine.model_
    carry.add_sigmoids(model, machine.classes_, result.A, result.B)
    model.facts["probability_folds"] = str(FOLDS)
    return result


def evaluate_calibrated(
    machine: Machine, settings: list[dict], data: Data, train, test, gram: Gram | None
) -> Iterator[FoldResult]:
    """:func:`~odmtool.search.validation.evaluate_chain` with the labels of the probabilities.

    The sigmoids of a setting are fitted within the training part. The values are the log odds
    -(A f + B), or of more than two classes the votes and the confidence of those of their pairs.
    """
    calibrations = calibrate_chain(machine, settings, data, train, gram)
    results = evaluate_chain(machine, settings, data, train, test, gram)
    order = np.array(data.class_order())
    for calibration, result in zip(calibrations, results, strict=True):
        if calibration.A is None or result is NO_SOLUTION:
            yield NO_SOLUTION
            continue
        log_odds: list[np.ndarray] = []
        blocks = _with_log_odds(result, calibration, len(order), log_odds)
        sigmoids = calibration.A, calibration.B
        found = probabilities_of_blocks(blocks, len(test), *sigmoids, len(order))
        converged = result.converged and not calibration.unconverged
        yield result._replace(
            predicted=order[found.argmax(axis=1)], values=np.concatenate(log_odds),
            converged=converged,
        )  # fmt: skip


def _with_log_odds(result: FoldResult, calibration: Calibration, k: int, found: list):
    """The values of the pairs of k classes, of some examples at a time; ``found`` gets what their
    log odds come to.
    """  # fmt: skip
    blocks = pair_blocks(result.values, k) if result.pairs is None else result.pairs.arrays()
    for values in blocks:
        log_odds = -(calibration.A * values + calibration.B)
        found.append(log_odds if k == 2 else votes_and_confidence(log_odds, k))
        yield values
