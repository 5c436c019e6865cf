"""Labels of any kind, and the integers that stand for them in a model file.

Integers of 32 bits stand for themselves, so that the stock predictors answer with them. Other
labels become their places 0, 1, ... in sorted order (:mod:`odmtool.core.labels`).
"""

from __future__ import annotations

from numbers import Integral

import numpy as np

from odmtool import messages
from odmtool.core.labels import label_facts, label_names
from odmtool.errors import DataError

_INT32 = np.iinfo(np.int32)


def encode(y: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[str, str]]:
    """What a machine is given.

    ``y`` (ndarray, shape (m,)): labels that can be sorted. Raises DataError: they cannot be, or are
    numbers, but not whole ones.

    Returns
    -------
    classes : ndarray, shape (k,)
        The labels, sorted.
    codes : int array, shape (m,)
        Their order is that of the classes.
    facts : dict
        What the model records; empty if the labels stand for themselves.
    """
    try:
        classes, place = np.unique(y, return_inverse=True)
    except TypeError as error:
        raise DataError(messages.labels_unsortable(error)) from None
    if classes.dtype.kind == "f":
        is_whole = np.isfinite(classes) & (classes == np.rint(classes))
        if not is_whole.all():
            raise DataError(messages.labels_continuous(float(classes[~is_whole][0])))
    if _stand_for_themselves(classes):
        return classes, classes.astype(np.int64)[place], {}
    return classes, place, label_facts(classes)


def decode(codes: list[int], facts: dict[str, str], file: str | None = None) -> np.ndarray:
    """The classes of a model, sorted by the integers that stand for them.

    ``file`` is the name that an error gives to the model. Raises ModelError: a label is not
    readable.
    """
    if names := label_names(codes, facts, file):
        return np.array(list(names.values()))
    return np.sort(np.asarray(codes, dtype=np.int64))


def _stand_for_themselves(classes: np.ndarray) -> bool:
    if classes.dtype.kind == "O" and not all(isinstance(label, Integral) for label in classes):
        return False
    is_number = classes.dtype.kind in "biufO"
    return is_number and _INT32.min <= classes[0] and classes[-1] <= _INT32.max
