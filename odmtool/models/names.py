"""The labels of a model in words, and those of data to predict in its integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from odmtool import messages
from odmtool._pattern import Pattern
from odmtool.core.labels import label_names
from odmtool.errors import DataError

_NUMBER = Pattern("-?(0|[1-9][0-9]*)")


class LabelNames:
    """What the integers of a model stand for; ``file`` is its name in an error.

    ``names`` (dict of int to str) is empty if they stand for themselves. Words that only the data
    have are added as they come, with integers beyond those of the model.
    """

    def __init__(self, model, file: str):
        self.names = label_names(model.labels, model.facts, file)
        self._labels, self._file = model.labels, file
        self._codes = {name: code for code, name in self.names.items()}
        self._are_numbers = bool(self._codes) and all(map(_NUMBER.fullmatch, self._codes))
        self._next = max(self.names, default=-1) + 1
        self._known: list[int] = []

    @property
    def takes_integers(self) -> bool:
        """Whether integers of data are those of the model file, which stand for words."""
        return bool(self.names) and not self._are_numbers

    def integers(self, labels: np.ndarray, names: Sequence[str] | None) -> np.ndarray:
        """The labels of a block of data, of which ``names`` are the words so far.

        Integers of the data are those of the model file, unless all its words are integers.

        Raises DataError: the data have words, and the model has not.
        """
        if names is None and self._are_numbers:
            found, places = np.unique(labels, return_inverse=True)
            return np.array([self._code(str(label)) for label in found])[places]
        if names is None:
            return labels
        if not self.names:
            raise DataError(messages.words_for_integers(names[0], self._file, self._labels))
        for name in names[len(self._known) :]:
            self._known.append(self._code(name))
        # Every label may be a word of its own, and a block one row: no array of all words.
        return np.array([self._known[place] for place in labels.tolist()], np.int64)

    def _code(self, name: str) -> int:
        code = self._codes.get(name)
        if code is None:
            code = self._codes[name] = self._next
            self.names[code], self._next = name, self._next + 1
        return code

    def order(self, label: int) -> int | str:
        """By what labels are sorted: words by the alphabet, those of the data among the model's."""
        return self.names.get(label, str(label)) if self.names else label

    def texts(self, labels) -> list:
        """What is written for some labels: words, on one line, or the integers."""
        if not self.names:
            return list(labels)
        labels = list(labels)
        shown = {
            label: messages.one_line(self.names.get(label, str(label))) for label in set(labels)
        }
        return [shown[label] for label in labels]
