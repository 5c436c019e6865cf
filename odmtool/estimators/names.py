"""What sentences call the parameters of an estimator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from odmtool.errors import OdmError
from odmtool.messages.words import PythonNames

_PARAMETERS = {"tolerance": "tol", "seed": "random_state", "jobs": "n_jobs"}
_MACHINES = {
    "odm": "ODMClassifier",
    "ldm": "LDMClassifier",
    "mcodm": "MulticlassODMClassifier",
    "m3svm": "M3SVMClassifier",
}


class EstimatorNames(PythonNames):
    """As those of the machines, but for what scikit-learn calls otherwise.

    ``labels`` are the classes for which the integers of a machine stand.
    """

    def __init__(self, labels=()):
        self.labels = labels

    def parameter(self, name: str) -> str:
        return _PARAMETERS.get(name, name)

    def setting(self, name: str, value: str) -> str:
        if name == "machine":
            return _MACHINES.get(value) or f"odmtool.machines.{super().setting(name, value)}"
        if name == "label" and len(self.labels):
            return str(self.labels[int(value)])
        if name == "or" and value not in _MACHINES:
            return ""
        if name == "probability":
            return "probability=True"
        return super().setting(self.parameter(name), value)


@contextmanager
def in_words_of_estimators(labels=()) -> Iterator[None]:
    """Errors within name the parameters of estimators, and classes by these labels."""
    try:
        yield
    except OdmError as error:
        error.names = EstimatorNames(labels)
        raise
