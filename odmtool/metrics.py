"""How good predictions of two classes are.

``values`` are decision values, positive for the first class; ``is_first`` says which
examples belong to it. Every metric is a share between 0 and 1.

========  ==================================================================
accuracy  correct predictions
balanced  mean of the shares of correct predictions in either class
auc       area under the ROC curve: the share of pairs (one example of each
          class) that the values order correctly, ties counting one half
f1        harmonic mean of precision and recall of the first class
========  ==================================================================
"""

from __future__ import annotations

import numpy as np


def accuracy(is_first: np.ndarray, values: np.ndarray) -> float:
    return float(np.mean((values > 0) == is_first))


def balanced(is_first: np.ndarray, values: np.ndarray) -> float:
    correct = (values > 0) == is_first
    shares = [correct[is_first == c].mean() for c in (True, False) if np.any(is_first == c)]
    return float(np.mean(shares))


def auc(is_first: np.ndarray, values: np.ndarray) -> float:
    """0.5 when there is one class only."""
    first = int(is_first.sum())
    pairs = first * (len(values) - first)
    if pairs == 0:
        return 0.5
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(sizes) - (sizes - 1) / 2
    return float((mean_rank[group][is_first].sum() - first * (first + 1) / 2) / pairs)


def f1(is_first: np.ndarray, values: np.ndarray) -> float:
    """0 when nothing is predicted or nothing is there."""
    predicted = values > 0
    both = int((predicted & is_first).sum())
    total = int(predicted.sum() + is_first.sum())
    return 2 * both / total if total else 0.0


METRICS = {"accuracy": accuracy, "balanced": balanced, "auc": auc, "f1": f1}
