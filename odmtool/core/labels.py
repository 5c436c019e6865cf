"""The different labels of examples."""

from __future__ import annotations

import numpy as np


def distinct(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What ``np.unique`` gives with ``return_index``, without the modules that it loads.

    Parameters
    ----------
    labels : ndarray, shape (m,)

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
