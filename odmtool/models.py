"""What is left of training: the models, and how they predict.

A model here is what a LIBLINEAR or LIBSVM model file can hold, and predicts as
the stock predictors do, row for row:

- linear: values sum_j x_j w_j, summed by ascending feature, the bias last.
  Features the model does not know are dropped. Two classes: value > 0 is the
  first label, else the second. More: the first maximum.
- kernel: one value per pair of classes (1-2, 1-3, ..., 2-3, ...),
  sum_s coef_s k(x, x_s) - rho. Value > 0 is a vote for the first of the pair,
  else for the second; the first class with most votes wins. Features that occur
  in no support vector are kept: they count in the distance of the rbf kernel.
- with probabilities: the sigmoids probA and probB of the pairs of classes, coupled as
  in svm-predict -b 1, or LIBLINEAR's logistic regression. The label is then that of
  the largest probability (logistic regression: still that of the values).

Kernel values are computed in blocks with BLAS, which rounds differently from
LIBSVM's loops. A value within the rounding bound of zero (or of equal probabilities)
is therefore computed again in LIBSVM's order of operations, so that both give the same label
(C.-C. Chang and C.-J. Lin, LIBSVM: a library for support vector machines, 2011;
R.-E. Fan et al., LIBLINEAR: a library for large linear classification, 2008).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from odmtool.probability import class_probabilities, logistic_probabilities

if TYPE_CHECKING:
    from odmtool.kernels import Kernel

# Kernel values held at a time (a block of rows times all support vectors).
_BLOCK_VALUES = 2**21
_EPS = np.finfo(float).eps
# The solvers of LIBLINEAR whose values are log odds.
_LOGISTIC = ("L2R_LR", "L1R_LR", "L2R_LR_DUAL")


@dataclass(eq=False)
class LinearModel:
    """Weights per feature and class; a LIBLINEAR model.

    Attributes
    ----------
    labels : list of int
        In the order of the file; with two classes a positive value means labels[0].
    weights : ndarray, shape (d, n_w)
        n_w = 1 for two classes (2 for MCSVM_CS), else the number of classes.
    bias : float
        The value of the constant feature; negative: there is none.
    bias_weights : ndarray, shape (n_w,), or None
        The weights of the constant feature; present if bias >= 0.
    solver_type : str
        LIBLINEAR's name of a classification solver.
    probA, probB : ndarray, shape (k (k - 1) / 2,), or None
        Sigmoids of the pairs of classes.
    facts : dict
        What odm-train recorded, in its order; empty for a stock model.
    """

    labels: list[int]
    weights: np.ndarray
    bias: float = -1.0
    bias_weights: np.ndarray | None = None
    solver_type: str = "L2R_L2LOSS_SVC_DUAL"
    probA: np.ndarray | None = None
    probB: np.ndarray | None = None
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def is_precomputed(self) -> bool:
        """Whether the rows to predict are rows of kernel values."""
        return False

    def decision_values(self, X: csr_matrix) -> np.ndarray:
        """Shape (m, 1) for two classes, else one value per class, shape (m, k)."""
        with np.errstate(all="ignore"):
            values = _with_width(X, self.weights.shape[0]) @ self.weights
            if self.bias >= 0:
                values += self.bias * self.bias_weights
        return values[:, :1] if len(self.labels) == 2 else values

    def predict_with_values(self, X: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """Labels, int64, shape (m,), and :meth:`decision_values`."""
        values = self.decision_values(X)
        binary = len(self.labels) == 2
        best = np.where(values[:, 0] > 0, 0, 1) if binary else _first_maximum(values)
        return np.asarray(self.labels, dtype=np.int64)[best], values

    def predict(self, X: csr_matrix) -> np.ndarray:
        """Labels, int64, shape (m,)."""
        return self.predict_with_values(X)[0]

    @property
    def has_probabilities(self) -> bool:
        return self.probA is not None or self.solver_type in _LOGISTIC

    def predict_with_probabilities(self, X: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """Labels, int64, shape (m,), and probabilities of the classes, shape (m, k).

        Only if :attr:`has_probabilities`.
        """
        labels, values = self.predict_with_values(X)
        if self.probA is None:
            return labels, logistic_probabilities(values, len(self.labels))
        if len(self.labels) > 2:
            first, second = np.triu_indices(len(self.labels), 1)
            values = values[:, first] - values[:, second]
        return _most_probable(self, values)

    def as_kernel_model(self) -> KernelModel:
        """This model of at most two classes in LIBSVM's form: w is the one support vector.

        Its values are the same sums in the same order, with the bias as -rho.
        """
        from odmtool.kernels import Kernel

        n_vectors = len(self.labels) - 1
        rho = np.zeros(n_vectors)
        if n_vectors and self.bias >= 0:
            rho -= self.bias * self.bias_weights
        return KernelModel(
            self.labels, Kernel("linear"), csr_matrix(self.weights.T)[:n_vectors],
            np.ones((n_vectors, n_vectors)), rho, [n_vectors, 0][: len(self.labels)],
            probA=self.probA, probB=self.probB, facts=self.facts,
        )  # fmt: skip

    def shares_features(self, X: csr_matrix) -> bool:
        """Whether a feature of X occurs in the model, or the model has none."""
        n_features = self.weights.shape[0]
        return n_features == 0 or bool((X.indices < n_features).any())


@dataclass(eq=False)
class KernelModel:
    """Support vectors and coefficients; a LIBSVM c_svc model.

    Attributes
    ----------
    labels : list of int
        k labels in the order of the file.
    kernel : Kernel
        With bias 0: an intercept stands in rho.
    support_vectors : csr_matrix, shape (n_sv, d)
        Grouped by class. Precomputed kernel: column 0 holds the serial numbers.
    coef : ndarray, shape (n_sv, k - 1)
        Of a vector of class i: column j - 1 is for the pair i < j, column j for j < i.
    rho : ndarray, shape (k (k - 1) / 2,)
    n_support : list of int
        Support vectors of each class.
    probA, probB : ndarray, shape (k (k - 1) / 2,), or None
        Sigmoids of the pairs of classes.
    prob_density_marks : ndarray or None
        Carried along from the file; not used.
    facts : dict
        What odm-train recorded, in its order; empty for a stock model.
    """

    labels: list[int]
    kernel: Kernel
    support_vectors: csr_matrix
    coef: np.ndarray
    rho: np.ndarray
    n_support: list[int]
    probA: np.ndarray | None = None
    probB: np.ndarray | None = None
    prob_density_marks: np.ndarray | None = None
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def is_precomputed(self) -> bool:
        """Whether the rows to predict are rows of kernel values."""
        return self.kernel.name == "precomputed"

    def decision_values(self, X: csr_matrix) -> np.ndarray:
        """One value per pair of classes, shape (m, k (k - 1) / 2)."""
        return self._values(X)

    def _values(self, X: csr_matrix, boundary=0.0, margin=0.0) -> np.ndarray:
        """Decision values, those within margin and rounding of a boundary exactly LIBSVM's."""
        n_rows, n_pairs = X.shape[0], len(self.rho)
        values = np.empty((n_rows, n_pairs))
        if n_pairs == 0:
            return values
        columns = self._rows.columns.size
        step = max(1, _BLOCK_VALUES // max(1, len(self.coef), n_pairs, columns))
        for start in range(0, n_rows, step):
            rows = X[start : start + step]
            with np.errstate(all="ignore"):
                values[start : start + step] = self._block_values(rows, boundary, margin)
        return values

    def predict_with_values(self, X: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """Labels, int64, shape (m,), and :meth:`decision_values`."""
        values = self.decision_values(X)
        n_rows, k = X.shape[0], len(self.labels)
        first, second = self._pairs
        winners = np.where(values > 0, first, second)
        winners += k * np.arange(n_rows)[:, None]
        votes = np.bincount(winners.ravel(), minlength=n_rows * k).reshape(n_rows, k)
        return np.asarray(self.labels, dtype=np.int64)[votes.argmax(axis=1)], values

    def predict(self, X: csr_matrix) -> np.ndarray:
        """Labels, int64, shape (m,)."""
        return self.predict_with_values(X)[0]

    @property
    def has_probabilities(self) -> bool:
        return self.probA is not None and self.probB is not None

    def predict_with_probabilities(self, X: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """Labels, int64, shape (m,), and probabilities of the classes, shape (m, k).

        Only if :attr:`has_probabilities`.
        """
        return _most_probable(self, self._values(X, *self._even_odds))

    def shares_features(self, X: csr_matrix) -> bool:
        """Whether a feature of X occurs in a support vector, or they have none."""
        columns = self._rows.columns
        return columns.size == 0 or bool(np.isin(X.indices, columns).any())

    @property
    def largest_serial(self) -> int:
        """The largest serial number of a precomputed kernel's support vectors, or 0."""
        return int(self.support_vectors.data.max(initial=0))

    @cached_property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """The two classes of every pair, in LIBSVM's order."""
        return np.triu_indices(len(self.labels), 1)

    @cached_property
    def _even_odds(self) -> tuple[np.ndarray, np.ndarray]:
        """Per pair the value at which its classes are equally probable, and how far rounding
        of A f + B may move it.
        """  # fmt: skip
        with np.errstate(all="ignore"):
            boundary = -self.probB / self.probA
            margin = 8 * _EPS * (np.abs(boundary) + 1 / np.abs(self.probA))
        exists = np.isfinite(boundary)
        return np.where(exists, boundary, 0.0), np.where(exists, margin, 0.0)

    @cached_property
    def _class_rows(self) -> list[slice]:
        """The support vectors of every class."""
        ends = np.cumsum(self.n_support)
        return [slice(end - n, end) for end, n in zip(ends, self.n_support, strict=True)]

    @cached_property
    def _rows(self) -> _KernelRows:
        return _KernelRows(self.kernel, self.support_vectors)

    def _block_values(self, X: csr_matrix, boundary, margin) -> np.ndarray:
        """Decision values of a block of rows, those near a boundary in LIBSVM's order."""
        K, relative, absolute = self._rows.values_and_errors(X)
        values = self._pair_sums(K, self.coef) - self.rho
        bound = self._rounding_bound(K, relative, absolute) + margin
        near = ~(np.abs(values - boundary) > bound)
        for row in np.flatnonzero(near.any(axis=1)):
            in_order = self._rows.in_stock_order(X[row])
            for pair in np.flatnonzero(near[row]):
                values[row, pair] = self._stock_value(in_order, pair)
        return values

    def _pair_sums(self, K: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """sum_s coef_s K_s over the two classes of every pair, shape (rows, pairs)."""
        first, second = self._pairs
        parts = np.stack([K[:, rows] @ coef[rows] for rows in self._class_rows])
        return (parts[first, :, second - 1] + parts[second, :, first]).T

    def _rounding_bound(self, K, relative, absolute) -> np.ndarray:
        """How far a value and LIBSVM's may be apart, shape (rows, pairs).

        A sum of n terms is off by at most n eps times the sum of their absolute
        values, in any order; the errors of the kernel values come on top.
        """
        eps, tiny = np.finfo(float).eps, np.finfo(float).tiny
        first, second = self._pairs
        terms = np.take(self.n_support, first) + np.take(self.n_support, second)
        coef = np.abs(self.coef)
        size = self._pair_sums(np.abs(K), coef)
        per_value = self._pair_sums(np.ones((1, len(coef))), coef)
        bound = (2 * (terms + 4) * eps + relative[:, None]) * size
        bound += (absolute[:, None] + tiny) * per_value
        return bound + 4 * eps * np.abs(self.rho) + (terms + 1) * tiny

    def _stock_value(self, kernel_values: np.ndarray, pair: int) -> float:
        """The value of one pair, summed in the order of the file."""
        first, second = self._pairs[0][pair], self._pairs[1][pair]
        a, b = self._class_rows[first], self._class_rows[second]
        terms = np.concatenate(
            [
                self.coef[a, second - 1] * kernel_values[a],
                self.coef[b, first] * kernel_values[b],
            ]
        )
        # cumsum adds one after the other, which sum does not.
        total = terms.cumsum()[-1] if terms.size else 0.0
        return total - self.rho[pair]


class _KernelRows:
    """Kernel values between test rows and the support vectors.

    Only the columns that occur in a support vector are looked at: the others
    add nothing to inner products, and one common term to squared distances, so
    a feature number of 10^9 in a test file costs nothing.
    """

    def __init__(self, kernel: Kernel, support_vectors: csr_matrix):
        from odmtool import kernels

        self.kernel = kernel
        self.vectors = support_vectors
        if kernel.name == "precomputed":
            serials = kernels.serial_numbers(support_vectors)
            self.columns, self.positions = np.unique(serials, return_inverse=True)
            return
        self.columns = np.unique(support_vectors.indices)
        self.known_vectors, _ = self._known(support_vectors)
        self.fast_vectors = kernels.prepare(self.known_vectors)
        self.largest_norm = float(_norms(support_vectors).max(initial=0.0))
        self.most_terms = int(np.diff(support_vectors.indptr).max(initial=0))

    def values_and_errors(self, X: csr_matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Kernel values, shape (rows, n_sv), and bounds of their distance from LIBSVM's.

        The distance is at most relative * |value| + absolute; both have shape (rows,).
        """
        from odmtool import kernels

        known, beyond = self._known(X)
        if self.kernel.name == "precomputed":
            no_error = np.zeros(X.shape[0])
            return known.toarray()[:, self.positions], no_error, no_error
        if isinstance(self.fast_vectors, np.ndarray):
            known = known.toarray()
        K = kernels.block(self.kernel, known, self.fast_vectors)
        if self.kernel.name == "rbf" and beyond.any():
            K *= np.exp(-self.kernel.gamma * beyond)[:, None]
        return K, *self._errors(X)

    def in_stock_order(self, x: csr_matrix) -> np.ndarray:
        """Kernel values of one row with LIBSVM's order of operations, shape (n_sv,)."""
        from odmtool import kernels

        kernel, known = self.kernel, self._known(x)[0].toarray().ravel()
        if kernel.name == "precomputed":
            return known[self.positions]
        if kernel.name == "rbf":
            distances = _squared_distances(x, self.vectors)
            return _like_c("exp", -kernel.gamma * distances)
        # A CSR product adds one feature after the other, as LIBSVM's dot does.
        products = self.known_vectors @ known
        if kernel.name == "linear":
            return products
        inner = kernel.gamma * products + kernel.coef0
        if kernel.name == "poly":
            return kernels.integer_power(inner, kernel.degree)
        return _like_c("tanh", inner)

    def _known(self, X: csr_matrix) -> tuple[csr_matrix, np.ndarray]:
        """X on :attr:`columns`, and per row the sum of squares of what is left out."""
        n_rows, n_columns = X.shape[0], self.columns.size
        position = np.searchsorted(self.columns, X.indices)
        known = position < n_columns
        known[known] = self.columns[position[known]] == X.indices[known]
        indptr = np.concatenate([[0], np.cumsum(known)])[X.indptr]
        kept = csr_matrix((X.data[known], position[known], indptr), shape=(n_rows, n_columns))
        owner = np.repeat(np.arange(n_rows), np.diff(X.indptr))
        beyond = np.bincount(owner[~known], X.data[~known] ** 2, minlength=n_rows)
        return kept, beyond

    def _errors(self, X: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of rounding, ours and LIBSVM's together; see :meth:`values_and_errors`.

        An inner product of n terms is off by at most n eps |u| |v|, a squared
        distance by n eps (|u| + |v|)^2, in any order and also as
        |u|^2 + |v|^2 - 2 u'v.
        """
        kernel, eps = self.kernel, np.finfo(float).eps
        norms = _norms(X)
        terms = np.diff(X.indptr) + self.most_terms + 4
        nothing = np.zeros(X.shape[0])
        if kernel.name == "rbf":
            off = 2 * terms * eps * (norms + self.largest_norm) ** 2
            return np.expm1(abs(kernel.gamma) * off) + 16 * eps, nothing
        if kernel.name == "linear":
            return nothing, 2 * terms * eps * norms * self.largest_norm
        largest = abs(kernel.gamma) * norms * self.largest_norm + abs(kernel.coef0)
        off = 2 * terms * eps * largest
        if kernel.name == "sigmoid":
            return nothing, off + 8 * eps
        slope = kernel.degree * (largest + off) ** max(kernel.degree - 1, 0)
        return nothing, slope * off + (2 * kernel.degree + 4) * eps * largest**kernel.degree


def _most_probable(model, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Labels and probabilities from the decision values of the pairs of classes."""
    probabilities = class_probabilities(values, model.probA, model.probB, len(model.labels))
    best = probabilities.argmax(axis=1)
    return np.asarray(model.labels, dtype=np.int64)[best], probabilities


def _with_width(X: csr_matrix, width: int) -> csr_matrix:
    """X with columns cut off or zero columns appended."""
    if X.shape[1] > width:
        return X[:, :width]
    return csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width))


def _first_maximum(values: np.ndarray) -> np.ndarray:
    """Per row the first column that no later one exceeds; a nan exceeds nothing."""
    best = np.zeros(len(values), dtype=np.int64)
    top = values[:, 0].copy()
    for column in range(1, values.shape[1]):
        better = values[:, column] > top
        best[better] = column
        top[better] = values[better, column]
    return best


def _norms(X: csr_matrix) -> np.ndarray:
    """|x| for every row, shape (m,)."""
    owner = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    return np.sqrt(np.bincount(owner, X.data**2, minlength=X.shape[0]))


def _squared_distances(x: csr_matrix, vectors: csr_matrix) -> np.ndarray:
    """|x - v|^2 for every row v, squares added by ascending feature, shape (n_sv,)."""
    width = max(x.shape[1], vectors.shape[1])
    distances = np.empty(vectors.shape[0])
    step = max(1, _BLOCK_VALUES // max(1, x.nnz))
    for start in range(0, vectors.shape[0], step):
        part = vectors[start : start + step]
        n_rows = part.shape[0]
        repeated = csr_matrix(
            (np.tile(x.data, n_rows), np.tile(x.indices, n_rows), x.nnz * np.arange(n_rows + 1)),
            shape=(n_rows, width),
        )
        difference = repeated - _with_width(part, width)
        owner = np.repeat(np.arange(n_rows), np.diff(difference.indptr))
        # bincount adds its weights one after the other.
        distances[start : start + step] = np.bincount(
            owner, difference.data * difference.data, minlength=n_rows
        )
    return distances


def _like_c(name: str, values: np.ndarray) -> np.ndarray:
    """exp or tanh of the C library, whose last bit numpy's need not share."""
    function = getattr(math, name)

    def value(argument: float) -> float:
        try:
            return function(argument)
        except OverflowError:
            return math.inf

    return np.array([value(argument) for argument in values.tolist()])
