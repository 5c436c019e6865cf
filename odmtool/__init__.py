"""odmtool: classification by the margin distribution, for the command line and for Python.

    from odmtool import ODMClassifier, load_model, load_svmlight

Importing the package loads nothing heavy: a name is looked up in :mod:`odmtool.estimators`
when it is first used, and the commands import what they need when they run.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as type checkers know it; importing typing takes longer than the rest
if TYPE_CHECKING:
    from odmtool.estimators.classifiers import (
        LDMClassifier,
        M3SVMClassifier,
        MulticlassODMClassifier,
        ODMClassifier,
    )
    from odmtool.estimators.saved import SavedModel, load_model, load_svmlight

__version__ = "0.1.0"

__all__ = [
    "LDMClassifier",
    "M3SVMClassifier",
    "MulticlassODMClassifier",
    "ODMClassifier",
    "SavedModel",
    "load_model",
    "load_svmlight",
]


def __getattr__(name: str):
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    file = "classifiers" if name.endswith("Classifier") else "saved"
    value = getattr(import_module(f"{__name__}.estimators.{file}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
