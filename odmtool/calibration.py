"""Probabilities of a machine: Platt's sigmoid, fitted on examples left out.

The decision values of the training examples themselves lie too far from 0. So the examples
are dealt to 5 folds (stratified, seeded; as many as LIBSVM takes), each fold gets its values
from a machine that was trained on the others, and one sigmoid is fitted on all of them. The
model itself is that of all examples.

Weights of examples count in the sigmoid as they do in training: as numbers of examples. Those
of classes do not: they are the costs of errors and say nothing about how frequent a class is.

A sigmoid belongs to a pair of classes; a machine of two classes has one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from odmtool import messages
from odmtool.errors import DivergedError, UsageError
from odmtool.gram import Gram
from odmtool.machines import Machine
from odmtool.machines.data import weights_in_use
from odmtool.probability import Sigmoid, class_probabilities, fit_sigmoid
from odmtool.validation import NO_SOLUTION, Data, FoldResult, evaluate_chain, folds

FOLDS = 5
"""Parts that the decision values of a sigmoid come from."""


class Calibration(NamedTuple):
    """The sigmoid of one setting.

    Attributes
    ----------
    sigmoid : Sigmoid or None
        None if the setting has no solution on some fold.
    unconverged : int
        Folds that did not reach the tolerance.
    """

    sigmoid: Sigmoid | None
    unconverged: int


def usable_rows(machine: Machine, data: Data, rows) -> np.ndarray:
    """Those of the rows whose weight is not zero, checked to be enough.

    Raises
    ------
    DataError
        The machine cannot take so many classes, or all weights are zero.
    UsageError
        There are not two classes, or a class has fewer examples than folds.
    """
    machine.classes_of(data.labels)
    order = data.class_order()
    if len(order) == 1:
        raise UsageError(messages.probability_one_class(order[0]))
    if len(order) > 2:
        raise UsageError(messages.probability_two_classes(len(order)))
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

    Raises
    ------
    DataError, UsageError
        See :func:`usable_rows`.
    """
    rows = usable_rows(machine, data, np.asarray(rows))
    fold = folds(data.labels[rows], FOLDS, machine.seed)
    values = np.empty((len(settings), len(rows)))
    solved, unconverged = np.ones(len(settings), bool), np.zeros(len(settings), int)
    for k in range(FOLDS):
        train, test = rows[fold != k], rows[fold == k]
        results = evaluate_chain(machine, settings, data, train, test, gram)
        for number, result in enumerate(results):
            if result is NO_SOLUTION:
                solved[number] = False
                continue
            values[number, fold == k] = result.values
            unconverged[number] += not result.converged
    is_first = data.labels[rows] == data.class_order()[0]
    weight = None if data.weight is None else data.weight[rows]
    return [
        Calibration(fit_sigmoid(of_setting, is_first, weight) if has_solution else None, int(count))
        for of_setting, has_solution, count in zip(values, solved, unconverged, strict=True)
    ]


def add_probabilities(machine: Machine, data: Data, gram: Gram | None) -> Calibration:
    """Give the model of a fitted machine its sigmoid.

    Parameters
    ----------
    machine : Machine
        Fitted on the data; ``model_`` gets probA, probB and a fact.
    data : Data
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
    if result.sigmoid is None:
        raise DivergedError(messages.dual_unbounded())
    model = machine.model_
    model.probA, model.probB = np.array([result.sigmoid.A]), np.array([result.sigmoid.B])
    model.facts["probability_folds"] = str(FOLDS)
    return result


def evaluate_calibrated(
    machine: Machine, settings: list[dict], data: Data, train, test, gram: Gram | None
) -> Iterator[FoldResult]:
    """:func:`~odmtool.validation.evaluate_chain` with the labels that the probabilities give.

    The sigmoid of a setting is fitted within the training part. The values are those of
    z = -(A f + B), so positive means the first class.
    """
    calibrations = calibrate_chain(machine, settings, data, train, gram)
    results = evaluate_chain(machine, settings, data, train, test, gram)
    order = np.array(data.class_order())
    for calibration, result in zip(calibrations, results, strict=True):
        if calibration.sigmoid is None or result is NO_SOLUTION:
            yield NO_SOLUTION
            continue
        A, B = calibration.sigmoid
        probabilities = class_probabilities(result.values[:, None], A, B, 2)
        predicted = order[probabilities.argmax(axis=1)]
        converged = result.converged and not calibration.unconverged
        yield result._replace(
            predicted=predicted, values=-(A * result.values + B), converged=converged
        )
