"""Which parameters of an estimator are numbers, and that they are."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from odmtool import messages
from odmtool.errors import UsageError
from odmtool.solvers.settings import Settings

_OF_SOLVERS = {name for name, kind in Settings.__annotations__.items() if "int" in str(kind)}
_WHOLE = {"max_iter", "n_jobs"} | _OF_SOLVERS
_MAY_BE_NONE = {
    "lambda_", "cost", "gamma", "coef0", "bias", "max_iter", "memory", "n_jobs", "partitions",
}  # fmt: skip


def numbers_given(estimator, machine) -> dict:
    """The parameters that are numbers, by name, as float or int; None and words where they may be.

    ``machine`` (type of Machine): its fields and the solvers' settings say what a number is. Raises
    UsageError: one is something else.
    """
    real = {field.name for field in fields(machine) if field.type.startswith("float")} | {"tol"}
    known = sorted(name for name in real | _WHOLE if hasattr(estimator, name))
    return {name: _number(name, getattr(estimator, name)) for name in known}


def number(value, is_whole: bool = False) -> float | int | None:
    """The number that a value is, None if it is none."""
    if isinstance(value, str | bytes) or np.ndim(value) > 0 or np.iscomplexobj(value):
        return None
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if not is_whole:
        return found
    return int(found) if found % 1 == 0 else None


def _number(name: str, value):
    if (value is None and name in _MAY_BE_NONE) or (isinstance(value, str) and name == "gamma"):
        return value
    found = number(value, name in _WHOLE)
    if found is None:
        raise UsageError(messages.not_a_parameter(name, value, name in _WHOLE))
    return found
