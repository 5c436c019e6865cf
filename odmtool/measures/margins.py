"""Margins of a model on data, and what is said of their distribution.

Two classes: the margin is y f(x), y = +1 for the model's first label, and the normalised
margin y f(x) / |w|. More classes: f_y(x) - max over l != y of f_l(x); normalised, the smallest
(f_y(x) - f_l(x)) / |w_y - w_l|. So a normalised margin is, up to its sign, the distance of
phi(x) to the boundary of its class. |w| does not count the weight of a constant feature
(LIBLINEAR's bias row), as it does not count LIBSVM's rho.

A LIBSVM model of more classes knows pairs only: its value for the pair (y, l) stands for
f_y - f_l, which is what it is in our models. In one that svm-train made, an example with a
negative margin can still get enough votes to be predicted rightly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool import messages
from odmtool.core import kernels
from odmtool.core.csr import scipy_rows
from odmtool.core.kernel_table import STORED
from odmtool.errors import DataError
from odmtool.models.kernel import CompactModel, KernelModel
from odmtool.models.linear import LinearModel
from odmtool.models.rows import group_sums

QUANTILES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)

# Kernel values held at a time.
_BLOCK_VALUES = 2**21


class Statistics(NamedTuple):
    """Of some margins; nan where it cannot be said."""

    # minimum, mean, variance: the variance is the mean square deviation from the mean, as in the
    # papers.
    minimum: float
    mean: float
    variance: float
    quantiles: tuple[float, ...]  # those of :data:`QUANTILES`


class Margins(NamedTuple):
    """Of one model on the examples of a file."""

    labels: np.ndarray  # integers, shape (m,)
    # plain, normalised: shape (m,), nan for an example whose label the model does not know.
    # ``normalised`` is nan everywhere if |w| cannot be had: of a precomputed kernel without its
    # training rows, of a kernel that is not positive definite, or of w = 0.
    plain: np.ndarray
    normalised: np.ndarray
    theta: float | None  # the band's half width, if the model records one

    @property
    def known(self) -> np.ndarray:
        """Which examples have a margin."""
        return ~np.isnan(self.plain)

    @property
    def below_zero(self) -> float:
        """Share of the margins that are negative, of either kind."""
        return float(np.mean(self.plain[self.known] < 0))

    @property
    def below_band(self) -> float | None:
        """Share of the margins below 1 - theta (of the normalised: (1 - theta) / |w|)."""
        if self.theta is None:
            return None
        return float(np.mean(self.plain[self.known] < 1 - self.theta))

    def statistics(self) -> tuple[Statistics, Statistics]:
        """Of the plain and of the normalised margins."""
        return statistics(self.plain[self.known]), statistics(self.normalised[self.known])


def statistics(values: np.ndarray) -> Statistics:
    """Of at least one value."""
    if np.isnan(values).any():
        return Statistics(*[float("nan")] * 3, (float("nan"),) * len(QUANTILES))
    return Statistics(
        float(values.min()), float(values.mean()), float(values.var()),
        tuple(float(q) for q in np.quantile(values, QUANTILES)),
    )  # fmt: skip


class Ruler:
    """Measures the margins of one model, block by block.

    Raises DataError: the model knows one class only.

    Parameters
    ----------
    model : LinearModel, KernelModel, CompactModel or ScaledModel
    training_rows : csr_matrix, optional
        Of a precomputed kernel: the rows that the model was trained on, without which
        |w| is not known.
    """

    def __init__(self, model: LinearModel | KernelModel, training_rows=None):
        if len(model.labels) < 2:
            raise DataError(messages.margins_of_one_class(model.labels[0]))
        self.model = model
        self._norms = class_distances(getattr(model, "trained", model), training_rows)
        self._labels = np.asarray(model.labels)
        self._order = np.argsort(self._labels)
        self._parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    @property
    def norm(self) -> float | None:
        """|w| of two classes, nan if unknown; None for more classes."""
        return float(self._norms[0, 1]) if len(self.model.labels) == 2 else None

    def add(self, labels: np.ndarray, values: np.ndarray) -> None:
        """Measure a block: its labels and the model's decision values."""
        plain, normalised = np.full((2, len(labels)), np.nan)
        place = np.searchsorted(self._labels, labels, sorter=self._order)
        target = self._order[np.minimum(place, len(self._labels) - 1)]
        known = np.flatnonzero(self._labels[target] == labels)
        if known.size:
            target = target[known]
            differences = _differences(self.model, target, values[known])
            plain[known] = differences.min(axis=1)
            normalised[known] = (differences / self._norms[target]).min(axis=1)
        self._parts.append((np.asarray(labels), plain, normalised))

    def result(self) -> Margins:
        """The margins of what was added.

        Raises DataError: no example has a label that the model knows.
        """
        labels, plain, normalised = (
            np.concatenate(pieces) for pieces in zip(*self._parts, strict=True)
        )
        if np.isnan(plain).all():
            raise DataError(messages.no_known_label(self.model.labels))
        return Margins(labels, plain, normalised, theta_of(self.model))


def theta_of(model: LinearModel | KernelModel) -> float | None:
    """The theta that the model records; None for a stock model."""
    try:
        return float(model.facts["theta"])
    except (KeyError, ValueError):
        return None


def _differences(model, target: np.ndarray, values: np.ndarray) -> np.ndarray:
    """f_y - f_l for every class l, inf for l = y; shape (rows, classes)."""
    n_classes, rows = len(model.labels), np.arange(len(target))
    if model.has_scores:
        result = values[rows, target][:, None] - values
    else:
        pair, sign = np.zeros((2, n_classes, n_classes), dtype=np.int64)
        first, second = np.triu_indices(n_classes, 1)
        pair[first, second] = pair[second, first] = np.arange(len(first))
        sign[first, second], sign[second, first] = 1, -1
        result = sign[target] * values[rows[:, None], pair[target]]
    result[rows, target] = np.inf
    return result


# ---- |w| -------------------------------------------------------------------------


def class_distances(model: LinearModel | KernelModel, training_rows=None) -> np.ndarray:
    """|w_i - w_l| for every two classes, nan if unknown; shape (classes, classes).

    With two classes that is |w|. The diagonal is 1.
    """
    n_classes = len(model.labels)
    if isinstance(model, LinearModel):
        squared = _linear_squares(model.weights, n_classes)
    elif isinstance(model, CompactModel):
        squared = _compact_squares(model, training_rows)
    else:
        squared = _kernel_squares(model, training_rows)
    norms = np.sqrt(np.where(squared > 0, squared, np.nan))
    np.fill_diagonal(norms, 1.0)
    return norms


def _linear_squares(weights: np.ndarray, n_classes: int) -> np.ndarray:
    if n_classes == 2:
        # The first column decides, also where there are two (MCSVM_CS).
        return np.full((2, 2), weights[:, 0] @ weights[:, 0])
    return np.array([((weights[:, [i]] - weights) ** 2).sum(axis=0) for i in range(n_classes)])


def _kernel_squares(model: KernelModel, training_rows) -> np.ndarray:
    """c'Kc for the coefficients c of every pair, in blocks of kernel values.

    The pair i < l has the coefficients coef[:, l - 1] on the vectors of class i and
    coef[:, i] on those of class l, so it takes one entry of each of the products
    coef_a' K_ab coef_b between the classes' vectors.
    """
    n_classes = len(model.labels)
    squared = np.full((n_classes, n_classes), np.nan)
    values = _kernel_values(model, training_rows)
    if values is None:
        return squared
    coef, counts = model.coef, np.array(model.n_support)
    own = np.array([_own_squares(values, coef, part) for part in model.class_rows])
    for i, part in enumerate(model.class_rows[:-1]):
        # Of class i with each class after it.
        mixed = _mixed_products(values, coef, part, i, counts)
        squared[i, i + 1 :] = own[i, i:] + 2 * mixed + own[i + 1 :, i]
        squared[i + 1 :, i] = squared[i, i + 1 :]
    return squared


def _own_squares(values, coef: np.ndarray, own: slice) -> np.ndarray:
    """c'Kc for each column c of a class's coefficients, shape (columns,)."""
    total = np.zeros(coef.shape[1])
    for part in _steps(own, own.stop - own.start):
        total += (coef[part] * (values(part, own) @ coef[own])).sum(axis=0)
    return total


def _mixed_products(values, coef: np.ndarray, own: slice, i: int, counts) -> np.ndarray:
    """coef_a' K_ab coef_b of the pairs of class i, ``own``, and each class after it."""
    after = slice(own.stop, len(coef))
    total = np.zeros(len(counts) - 1 - i)
    for part in _steps(own, after.stop - after.start):
        sums = group_sums(values(part, after) * coef[after, i], counts[i + 1 :])
        total += (coef[part, i:] * sums).sum(axis=0)
    return total


def _compact_squares(model: CompactModel, training_rows) -> np.ndarray:
    """|w_i - w_l|^2 from the inner products of the classes' w."""
    values, everything = _kernel_values(model, training_rows), slice(0, len(model.coef))
    if values is None:
        return np.full((len(model.labels),) * 2, np.nan)
    products = np.zeros((model.coef.shape[1],) * 2)
    for part in _steps(everything, len(model.coef)):
        products += model.coef[part].T @ (values(part, everything) @ model.coef)
    squares = products.diagonal()
    return squares[:, None] + squares - 2 * products


def _kernel_values(model: KernelModel, training_rows):
    """A function from two slices of the support vectors to their kernel values, or None."""
    vectors, kernel = model.support_vectors, model.kernel
    if kernel.row.of != STORED:
        rows = kernels.prepare(scipy_rows(vectors))
        return lambda a, b: kernels.block(kernel, rows[a], rows[b])
    if training_rows is None:
        return None
    serials = kernels.serial_numbers(vectors)
    known, place = np.unique(kernels.serial_numbers(training_rows), return_index=True)
    found = np.minimum(np.searchsorted(known, serials), len(known) - 1)
    if not np.array_equal(known[found], serials):
        return None
    chosen = training_rows[place[found]]
    return lambda a, b: kernels.block(kernel, chosen[a], vectors[b])


def _steps(rows: slice, width: int):
    """Some of the rows at a time, each with so many kernel values."""
    step = max(1, _BLOCK_VALUES // max(1, width))
    for start in range(rows.start, rows.stop, step):
        yield slice(start, min(start + step, rows.stop))
