"""Which parameters of an estimator are numbers, and that they are."""

from __future__ import annotations

import inspect
from numbers import Real

from odmtool import messages
from odmtool.errors import UsageError

# Those with a number or None as default that are something else.
_OTHERS = ("class_weight", "probability", "random_state")
_WHOLE = ("max_iter", "n_jobs", "landmarks")
# None has a meaning, though it is not the default; and so have words.
_NONE_TOO, _WORDS_TOO = ("bias",), ("gamma",)


def numbers_given(estimator) -> dict:
    """The parameters that are numbers, or None, by name; whole numbers as int.

    Raises
    ------
    UsageError
        One is something else.
    """
    found = {}
    for name, parameter in inspect.signature(type(estimator).__init__).parameters.items():
        default = parameter.default
        if name in ("self", *_OTHERS) or isinstance(default, str):
            continue
        value = getattr(estimator, name)
        if not _is_well(name, value, default):
            raise UsageError(messages.not_a_parameter(name, value, name in _WHOLE))
        found[name] = int(value) if name in _WHOLE and value is not None else value
    return found


def _is_well(name: str, value, default) -> bool:
    if value is None:
        return default is None or name in _NONE_TOO
    if isinstance(value, str):
        return name in _WORDS_TOO
    return isinstance(value, Real) and (name not in _WHOLE or value % 1 == 0)
