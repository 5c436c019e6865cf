"""What was taken for what: counts of true and predicted labels, and what they say per class.

precision  correct / predicted as the class; nan if nothing was
recall     correct / examples of the class; nan if there are none
F1         harmonic mean of both, 2 correct / (examples + predicted)

In the means over classes nan counts as 0; weights are numbers of examples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class ClassScore(NamedTuple):
    """One class."""

    label: int | str
    # examples, predicted, correct: examples of the class; predicted as it; both.
    examples: int
    predicted: int
    correct: int

    @property
    def precision(self) -> float:
        return self.correct / self.predicted if self.predicted else float("nan")

    @property
    def recall(self) -> float:
        return self.correct / self.examples if self.examples else float("nan")

    @property
    def f1(self) -> float:
        """nan if neither examples nor predictions are there."""
        total = self.examples + self.predicted
        return 2 * self.correct / total if total else float("nan")


MEASURES = ("precision", "recall", "f1")


class Confusion:
    """Counts of pairs of a true and a predicted label, added block by block.

    ``order``: what of a label, for which it is called at the end, says where it stands among the
    others; without it the label itself.
    """

    def __init__(self, order: Callable[[int], int | str] = int) -> None:
        self._counts: Counter[tuple[int, int]] = Counter()
        self._order = order

    def add(self, labels: np.ndarray, predicted: np.ndarray) -> None:
        """Count a block: its true and its predicted labels, both of shape (n,)."""
        both = np.column_stack([labels, predicted]).astype(np.int64)
        pairs, counts = np.unique(both, axis=0, return_counts=True)
        for (true, found), count in zip(pairs.tolist(), counts.tolist(), strict=True):
            self._counts[true, found] += count

    @property
    def labels(self) -> list[int]:
        """Every label that occurs, true or predicted, in order."""
        return sorted({label for pair in self._counts for label in pair}, key=self._order)

    def pairs(self) -> list[tuple[int, int, int]]:
        """True label, predicted label and how often, in order; those that occur."""
        place = self._places()
        both = sorted(self._counts, key=lambda pair: (place[pair[0]], place[pair[1]]))
        return [(*pair, self._counts[pair]) for pair in both]

    def mistakes(self) -> list[tuple[int, int, int]]:
        """The pairs of different labels, the most frequent first."""
        wrong = [pair for pair in self.pairs() if pair[0] != pair[1]]
        return sorted(wrong, key=lambda pair: -pair[2])

    def matrix(self) -> np.ndarray:
        """Counts, a row per true and a column per predicted label, in the order of labels."""
        place = self._places()
        counts = np.zeros((len(place), len(place)), dtype=np.int64)
        for true, found, count in self.pairs():
            counts[place[true], place[found]] = count
        return counts

    def _places(self) -> dict[int, int]:
        return {label: position for position, label in enumerate(self.labels)}

    def classes(self) -> list[ClassScore]:
        """All classes in the order of labels."""
        examples, predicted = Counter(), Counter()
        for true, found, count in self.pairs():
            examples[true] += count
            predicted[found] += count
        return [
            ClassScore(label, examples[label], predicted[label], self._counts[label, label])
            for label in self.labels
        ]


def mean(classes: list[ClassScore], measure: str, *, is_weighted: bool) -> float:
    """Mean of one of :data:`MEASURES` over the classes, by examples or all alike."""
    values = np.nan_to_num([getattr(one, measure) for one in classes])
    weights = [one.examples for one in classes] if is_weighted else None
    return float(np.average(values, weights=weights))
