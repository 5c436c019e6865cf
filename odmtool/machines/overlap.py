"""Machines of several classes at once whose classes overlap so much that they find nothing.

The losses of mcodm and mcsvm are of the margin g_i = f_y(x_i) - max over l != y of f_l(x_i). Where
many classes overlap, one of the others is nearly always above, so that w = 0 is about the best:
the objective is that without a model, and what the model predicts is chance. One against the rest
then still finds what there is (docs/defaults.md).
"""

from __future__ import annotations

import numpy as np

# An objective of this share of that of w = 0.
NOTHING = 0.95
MACHINES = ("mcodm", "mcsvm")


def finds_nothing(machine, data) -> bool:
    """Whether the objective of a machine that was fitted to several classes is about that of w = 0.

    Parameters
    ----------
    machine : Machine
        Fitted; one of :data:`MACHINES`, or the answer is no.
    data
        What it was fitted to: ``labels`` and ``weight``, an array or None.
    """
    if machine.name not in MACHINES or not machine.solution_.converged:
        return False
    labels, weight = data.labels, data.weight
    each = np.ones(len(labels)) if weight is None else weight
    total, heavier = float(each.sum()), machine.class_weight or {}
    counted = sum(
        factor * each[labels == label].sum() for label, factor in heavier.items()
    ) + float(each[~np.isin(labels, list(heavier))].sum())
    without = machine.lambda_for(total) * counted / total
    return machine.solution_.primal >= NOTHING * without


def share_right(machine, X, labels: np.ndarray, weight: np.ndarray | None) -> float:
    """The share of the examples, by weight, whose class a fitted machine predicts."""
    return float(np.average(machine.predict(X) == labels, weights=weight))
