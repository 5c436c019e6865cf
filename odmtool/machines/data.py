"""What machines make of labelled data before any parameter is known: classes, weights, rows.

* Classes are in LIBLINEAR's order: by first appearance, but -1 and +1 as +1, -1.
* Example i's loss is multiplied by u_i = v_i w_class, and M = sum_i v_i stands where the
  papers have m, so that weight 2 is exactly a duplicate row. Rows with u_i = 0 are left out.
* ``bias`` b >= 0 adds b^2 to every kernel value: a constant feature b, regularised.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool import messages
from odmtool.core.columns import canonical, columns_in_use
from odmtool.core.csr import CSR
from odmtool.core.gram import BYTES, Gram
from odmtool.core.labels import distinct
from odmtool.core.memory import CLASS_WEIGHTS, WIDE_WEIGHTS
from odmtool.defaults import (
    MOST_IN_PAIRS,
    MOST_OF_CLASS_IN_PAIRS,
    MOST_TO_MEAN_IN_PAIRS,
    PerDistance,
    PerFeature,
)
from odmtool.errors import DataError, TooWideError


class Prepared(NamedTuple):
    """Training data of a machine, ready for every lambda, mu and theta."""

    # CSR, csr_matrix or ndarray, shape (kept, d), or None: of a linear machine, with the constant
    # feature.
    rows: object
    gram: Gram | None  # of a kernel machine
    # Integers, shape (kept,): the class of each example, its place in ``classes``.
    target: np.ndarray
    u: np.ndarray  # shape (kept,): weights > 0
    classes: list[int]
    # Integers, or slice(None) for all: the examples whose weight is not zero.
    kept: np.ndarray | slice
    total_weight: float  # M, the sum of the instance weights
    # Where the columns of ``rows`` stand among all, ``width`` of them, or None: they are all.
    columns: np.ndarray | None = None
    width: int = 0

    def of_all_columns(self, C: np.ndarray) -> np.ndarray:
        """Weights of the features, zero where no example has the feature; shape (d, c)."""
        if self.columns is None:
            return C
        wide = np.zeros((self.width, C.shape[1]))
        wide[self.columns] = C[: len(self.columns)]
        return wide

    @property
    def y(self) -> np.ndarray:
        """+1.0 for the first class, -1.0 for every other; shape (kept,)."""
        return np.where(self.target == 0, 1.0, -1.0)


def gamma_for(gamma: float, n_features: int, distance: float = 0.0) -> float:
    """The number that a gamma of the command line means; 0 is 1 / number of features.

    ``distance`` is the mean distance between examples, of which those of a list may be shares;
    if all are equal, gamma does not matter.
    """
    if isinstance(gamma, PerDistance):
        return float(gamma) / (distance**2 or 1.0)
    if isinstance(gamma, PerFeature):
        return float(gamma) / max(1, n_features)
    return float(gamma) if gamma > 0 else 1.0 / max(1, n_features)


def class_order(labels) -> list[int]:
    """The classes by first appearance; -1 and +1 always as [1, -1]."""
    values, first = distinct(np.asarray(labels))
    classes = [int(value) for value in values[np.argsort(first)]]
    return [1, -1] if classes == [-1, 1] else classes


def targets(labels: np.ndarray, classes: list[int]) -> np.ndarray:
    """The place of every label in ``classes``, which names them all."""
    order = np.argsort(classes)
    return order[np.searchsorted(np.asarray(classes)[order], labels)]


def weights_in_use(labels, weight, class_weight) -> tuple[np.ndarray | None, np.ndarray]:
    """The rows with u_i > 0 (None if all are), and their u.

    Raises DataError.

    Parameters
    ----------
    labels : int array, shape (m,)
    weight : ndarray, shape (m,)
        v_i >= 0.
    class_weight : dict or None
        Label to weight.
    """
    check_weights(weight, len(labels))
    u = weight.copy()
    for label, factor in (class_weight or {}).items():
        u[labels == label] *= factor
    used = np.flatnonzero(u > 0)
    if used.size == 0:
        raise DataError(messages.all_weights_zero())
    return (None, u) if used.size == len(u) else (used, u[used])


def check_weights(weight: np.ndarray, m: int) -> None:
    """Raise DataError unless there are m weights, finite and not negative."""
    if weight.ndim != 1:
        raise DataError(messages.weights_shape(m, weight.shape))
    if len(weight) != m:
        raise DataError(messages.weight_count(len(weight), m))
    if not np.all(np.isfinite(weight)) or np.any(weight < 0):
        raise DataError(messages.weights_negative())


def canonical_rows(X):
    """X as an array, a CSR, or a canonical csr_matrix of doubles."""
    if isinstance(X, CSR):
        return X
    if isinstance(X, np.ndarray):
        return np.asarray(X, dtype=float)
    return canonical(X)


def is_wide(X) -> bool:
    """Whether sparse rows have more features than entries: solvers see only those that occur."""
    return not isinstance(X, np.ndarray) and X.shape[1] > len(X.indices)


def features_in_use(X) -> int:
    """How many features the solvers see of rows without a constant feature."""
    return len(columns_in_use(X)) if is_wide(X) else X.shape[1]


def weight_bytes(X) -> float:
    """What the weights of one function take while it is trained."""
    wide = WIDE_WEIGHTS * X.shape[1] if is_wide(X) else 0
    return BYTES * (CLASS_WEIGHTS * features_in_use(X) + wide)


def refuse_too_wide(X, memory: float) -> None:
    """Raise TooWideError if what two classes on sparse rows need does not fit in memory.

    Several may need less, one after the other, than is announced for all.
    """
    if isinstance(X, np.ndarray) or BYTES * X.shape[1] * (CLASS_WEIGHTS + WIDE_WEIGHTS) <= memory:
        return
    needed = weight_bytes(X)
    if needed > memory:
        raise too_wide(X.shape[1], widest_example(X), needed, memory)


def widest_example(X) -> int | None:
    """The first example with the last feature, from 1.

    None if it is zero everywhere: data files count zeros that they have in words.
    """
    if not len(X.indices) or X.indices.max() + 1 < X.shape[1]:
        return None
    return int(np.searchsorted(X.indptr, X.indices.argmax(), side="right"))


def too_wide(width: int, example: int | None, needed: float, memory: float) -> TooWideError:
    """The refusal of data with so many features; ``example`` has the last of them."""
    sentence = messages.too_many_features(width, needed, memory)
    if example is not None:
        sentence = messages.too_wide(width, example, needed, memory)
    return TooWideError(sentence, width=width, example=example, needed=needed, memory=memory)


def most_in_pairs(X, labels: np.ndarray | None, k: int) -> float:
    """Up to how many classes are taken in pairs by default, with a kernel.

    Any number where the classes are small, or none is much larger than the mean; with others, and
    many classes, one against the rest is better: the larger class of each pair wins. So it is with
    wide data, where a few examples decide little between two classes (docs/defaults.md).

    Parameters
    ----------
    X : what has a shape
    labels : ndarray, shape (m,), or None
        None where they are not here.
    k : int
        Classes. Only of more than are taken in pairs anyway the labels are counted.
    """
    m, d = X.shape
    if k <= MOST_IN_PAIRS or labels is None or d > m:
        return MOST_IN_PAIRS
    counts = np.unique(labels, return_counts=True)[1]
    most = max(MOST_OF_CLASS_IN_PAIRS, MOST_TO_MEAN_IN_PAIRS * counts.mean())
    return np.inf if counts.max() <= most else MOST_IN_PAIRS
