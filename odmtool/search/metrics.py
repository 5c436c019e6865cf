"""How good predictions are. Every metric is a share between 0 and 1.

========  ==================================================================
accuracy  correct predictions
balanced  mean over the classes of the shares of correct predictions
auc       area under the ROC curve, the share of pairs (one example of each class)
          that the values order correctly, ties counting one half; the mean over
          more classes, each against the rest
f1        harmonic mean of precision and recall: of the larger label of two, as with
          scikit-learn's pos_label=1 for 0 and 1 (the order of rows decides which class is the
          first); the mean over more classes
========  ==================================================================

All take the classes in their order, the true and the predicted labels, shape (n,), and the
decision values, shape (n, c): for two classes one, positive for the first; for more, one
for each class (only ``auc`` looks at them). Of pairs of classes they are made by
:func:`odmtool.models.decide.votes_and_confidence`.
"""

from __future__ import annotations

import numpy as np


def accuracy(classes: list[int], labels, predicted, values) -> float:
    return float(np.mean(labels == predicted))


def balanced(classes: list[int], labels, predicted, values) -> float:
    members = [labels == c for c in classes]
    return float(np.mean([np.mean(predicted[m] == labels[m]) for m in members if m.any()]))


def auc(classes: list[int], labels, predicted, values) -> float:
    """0.5 when there is one class only."""
    if len(classes) <= 2:
        return _auc_of(labels == classes[0], values[:, 0])
    each = [_auc_of(labels == c, values[:, k]) for k, c in enumerate(classes)]
    return float(np.mean(each))


def _auc_of(is_first, values) -> float:
    first = int(is_first.sum())
    pairs = first * (len(values) - first)
    if pairs == 0:
        return 0.5
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(sizes) - (sizes - 1) / 2
    return float((mean_rank[group][is_first].sum() - first * (first + 1) / 2) / pairs)


def f1(classes: list[int], labels, predicted, values) -> float:
    """0 when nothing is predicted or nothing is there."""
    if len(classes) <= 2:
        return _f1_of(max(classes), labels, predicted)
    return float(np.mean([_f1_of(c, labels, predicted) for c in classes]))


def _f1_of(label: int, labels, predicted) -> float:
    both = int(((predicted == label) & (labels == label)).sum())
    total = int((predicted == label).sum() + (labels == label).sum())
    return 2 * both / total if total else 0.0


METRICS = {"accuracy": accuracy, "balanced": balanced, "auc": auc, "f1": f1}


def score(metric: str, classes: list[int], labels, result) -> float:
    """The metric of a :class:`odmtool.search.validation.FoldResult`."""
    return float(METRICS[metric](classes, labels, result.predicted, result.values))
