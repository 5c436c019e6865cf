"""The different labels of examples, and the words that integers stand for.

A model file holds integers. Labels that are words are their places 0, 1, ... in sorted order, and
the model records which is which, one fact per label after the last row: ``label_0 ham``,
``label_1 spam``. Texts are written as in JSON, without the quotes, so that a line break in one
ends no line.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from odmtool import messages
from odmtool.errors import ModelError


def distinct(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What ``np.unique`` gives with ``return_index``, without the modules that it loads.

    ``labels``: ndarray, shape (m,).

    Returns
    -------
    values : ndarray
        Ascending.
    first : int array
        Where each stands first.
    """
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    starts = np.flatnonzero(np.concatenate((ordered[:1] == ordered[:1], np.diff(ordered) != 0)))
    return ordered[starts], order[starts]


def label_facts(names: Iterable) -> dict[str, str]:
    """What a model records of the labels for which 0, 1, ... stand."""
    return {f"label_{code}": _written(str(name)) for code, name in enumerate(names)}


def label_names(codes: list[int], facts: dict[str, str], file: str | None = None) -> dict[int, str]:
    """The words for which the integers of a model stand, ascending; none if for themselves.

    ``file`` is the name that an error gives to the model.

    Raises ModelError: a text is not written as :func:`label_facts` writes it.
    """
    keys = {code: f"label_{code}" for code in sorted(codes)}
    if not all(key in facts for key in keys.values()):
        return {}
    import json

    try:
        return {code: json.loads(f'"{facts[key]}"') for code, key in keys.items()}
    except ValueError:
        raise ModelError(messages.label_not_readable(), file) from None


def is_label_fact(key: str) -> bool:
    """Whether a fact is one of :func:`label_facts`."""
    return key.startswith("label_")


def _written(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False)[1:-1].replace("\x7f", "\\u007f")
