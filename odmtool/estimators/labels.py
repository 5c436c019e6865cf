"""Labels of any kind, and the integers that stand for them in a model file.

Integers of 32 bits stand for themselves, so that the stock predictors answer with them. Other
labels become their places 0, 1, ... in sorted order, and the model records which is which, one
fact per label after the last row: ``label_0 ham``, ``label_1 spam``. Texts are written as in
JSON, without the quotes, so that a line break in one ends no line.
"""

from __future__ import annotations

import json
from numbers import Integral

import numpy as np

from odmtool import messages
from odmtool.errors import DataError, ModelError

_INT32 = np.iinfo(np.int32)


def encode(y: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[str, str]]:
    """What a machine is given.

    Parameters
    ----------
    y : ndarray, shape (m,)
        Labels that can be sorted.

    Returns
    -------
    classes : ndarray, shape (k,)
        The labels, sorted.
    codes : int array, shape (m,)
        Their order is that of the classes.
    facts : dict
        What the model records; empty if the labels stand for themselves.

    Raises
    ------
    DataError
        The labels are numbers, but not whole ones.
    """
    classes, place = np.unique(y, return_inverse=True)
    if classes.dtype.kind == "f" and np.any(classes % 1 != 0):
        raise DataError(messages.labels_continuous(float(classes[classes % 1 != 0][0])))
    if _stand_for_themselves(classes):
        return classes, classes.astype(np.int64)[place], {}
    facts = {f"label_{code}": _written(label) for code, label in enumerate(classes)}
    return classes, place, facts


def decode(codes: list[int], facts: dict[str, str], file: str | None = None) -> np.ndarray:
    """The classes of a model, sorted by the integers that stand for them.

    ``file`` is the name that an error gives to the model.

    Raises
    ------
    ModelError
        A text is not written as :func:`encode` writes it.
    """
    keys = [f"label_{code}" for code in sorted(codes)]
    if not all(key in facts for key in keys):
        return np.sort(np.asarray(codes, dtype=np.int64))
    try:
        return np.array([json.loads(f'"{facts[key]}"') for key in keys])
    except ValueError:
        raise ModelError(messages.label_not_readable(), file) from None


def _stand_for_themselves(classes: np.ndarray) -> bool:
    if classes.dtype.kind == "O" and not all(isinstance(label, Integral) for label in classes):
        return False
    is_number = classes.dtype.kind in "biufO"
    return is_number and _INT32.min <= classes[0] and classes[-1] <= _INT32.max


def _written(label) -> str:
    return json.dumps(str(label), ensure_ascii=False)[1:-1].replace("\x7f", "\\u007f")
