"""Machines: parameters, a loss and a solver make a model from labelled data.

A machine follows scikit-learn's manners (parameters in ``__init__``, what was learned
ends in ``_``) without importing it. What it does with labels and weights:

* Classes are in LIBLINEAR's order: by first appearance, but -1 and +1 as +1, -1. The
  first class is y = +1.
* Example i's loss is multiplied by u_i = v_i w_class, and M = sum_i v_i stands where the
  papers have m, so that weight 2 is exactly a duplicate row. Rows with u_i = 0 are left out.
* ``cost`` is LIBLINEAR's C, the cost of one unit of weight: lambda = C M.
* ``bias`` b >= 0 adds b^2 to every kernel value: a constant feature b, regularised.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np
from scipy import sparse

from odmtool import kernels, losses, messages, solvers
from odmtool.defaults import (
    BIAS,
    COEF0,
    DEGREE,
    KERNELS,
    LAMBDA,
    MU,
    SEED,
    SOLVERS,
    THETA,
    TOLERANCE,
    PerFeature,
)
from odmtool.errors import DataError, UsageError
from odmtool.gram import Gram
from odmtool.kernels import Kernel
from odmtool.memory import default_memory
from odmtool.models import KernelModel, LinearModel
from odmtool.solvers.base import Problem, ProgressCallback, Solution, ignore_progress

# Its square is still a number.
_LARGEST_BIAS = 1e150
_LARGEST_DEGREE = 1000


def gamma_for(gamma: float, n_features: int) -> float:
    """The number that a gamma of the command line means; 0 is 1 / number of features."""
    if isinstance(gamma, PerFeature):
        return float(gamma) / max(1, n_features)
    return float(gamma) if gamma > 0 else 1.0 / max(1, n_features)


def class_order(labels) -> list[int]:
    """The classes by first appearance; -1 and +1 always as [1, -1]."""
    values, first = np.unique(labels, return_index=True)
    classes = [int(value) for value in values[np.argsort(first)]]
    return [1, -1] if classes == [-1, 1] else classes


class Prepared(NamedTuple):
    """Training data of a binary machine, ready for every lambda, mu and theta.

    Attributes
    ----------
    rows : csr_matrix or ndarray, shape (kept, d), or None
        Of a linear machine, with the constant feature.
    gram : Gram or None
        Of a kernel machine.
    y, u : ndarrays, shape (kept,)
        +1.0 for the first class, -1.0 for the other; weights > 0.
    classes : list of int
    kept : int array
        The examples whose weight is not zero.
    total_weight : float
        M, the sum of the instance weights.
    """

    rows: object
    gram: Gram | None
    y: np.ndarray
    u: np.ndarray
    classes: list[int]
    kept: np.ndarray
    total_weight: float


class ODM:
    """Binary optimal margin distribution machine.

    Problem: 1/2 |w|^2 + c1 sum_i u_i max(0, 1-theta-t_i)^2 + c2 sum_i u_i max(0, t_i-1-theta)^2
    with t_i = y_i <w, phi(x_i)>, c1 = lambda / (M (1-theta)^2), c2 = mu c1.
    Source: Zhang & Zhou, TKDE 2019, eq. (9).

    Parameters
    ----------
    lambda_, mu, theta : float
        See :func:`odmtool.losses.odm`.
    cost : float, optional
        Instead of ``lambda_``: c1 = cost / (1-theta)^2.
    kernel : str, one of :data:`odmtool.defaults.KERNELS`
    gamma, coef0, degree : float, float, int
        Kernel parameters; gamma 0 means 1 / number of features.
    bias : float
        Negative: no intercept.
    class_weight : dict, optional
        Label to weight >= 0; 1 for classes not named.
    solver, tolerance, max_iter, seed
        See :func:`odmtool.solvers.solve`.
    memory : float, optional
        Bytes for kernel values; by default what is free.

    Attributes
    ----------
    model_ : LinearModel or KernelModel
    solution_ : Solution
    classes_ : list of int

    Raises
    ------
    UsageError
        A parameter is out of range.
    """

    name = "odm"

    def __init__(
        self, *, lambda_=LAMBDA, mu=MU, theta=THETA, cost=None, kernel="linear", gamma=0.0,
        coef0=COEF0, degree=DEGREE, bias=BIAS, class_weight=None, solver="auto",
        tolerance=TOLERANCE, max_iter=None, seed=SEED, memory=None,
    ):  # fmt: skip
        self.lambda_, self.mu, self.theta, self.cost = lambda_, mu, theta, cost
        self.kernel, self.gamma, self.coef0, self.degree = kernel, gamma, coef0, degree
        self.bias, self.class_weight = bias, class_weight
        self.solver, self.tolerance, self.max_iter = solver, tolerance, max_iter
        self.seed, self.memory = seed, memory

    def copy(self, **parameters) -> ODM:
        """An unfitted machine with some parameters changed."""
        other = copy.copy(self)
        for name, value in parameters.items():
            setattr(other, name, value)
        return other

    def check(self) -> None:
        """Raise UsageError if a parameter is out of range; needs no data."""
        if self.cost is not None and not self.cost > 0:
            raise UsageError(messages.must_be_positive("cost", self.cost))
        self._loss(total_weight=1.0)
        if self.kernel not in KERNELS:
            raise UsageError(messages.unknown_kernel(self.kernel, KERNELS))
        if self.bias > _LARGEST_BIAS:
            raise UsageError(messages.overflow())
        if self.gamma < 0:
            raise UsageError(messages.must_not_be_negative("gamma", self.gamma))
        if self.degree < 0:
            raise UsageError(messages.must_not_be_negative("degree", self.degree))
        if self.degree > _LARGEST_DEGREE:
            raise UsageError(messages.at_most("degree", self.degree, _LARGEST_DEGREE))
        if not self.tolerance > 0:
            raise UsageError(messages.must_be_positive("tolerance", self.tolerance))
        if self.max_iter is not None and self.max_iter < 0:
            raise UsageError(messages.must_not_be_negative("max-iter", self.max_iter))
        lightest = min((self.class_weight or {}).values(), default=0.0)
        if lightest < 0:
            raise UsageError(messages.must_not_be_negative("class-weight", lightest))
        if self.solver not in SOLVERS:
            raise UsageError(messages.unknown_solver(self.solver, SOLVERS))

    def kernel_for(self, n_features: int) -> Kernel:
        """The kernel on data of this width, without the bias."""
        return Kernel(self.kernel, gamma_for(self.gamma, n_features), self.coef0, int(self.degree))

    def gram(self, X) -> Gram | None:
        """Kernel values of the rows of X, bias included; None for a linear machine."""
        if self.kernel == "linear":
            return None
        if self.kernel == "precomputed":
            kernels.check_precomputed(X)
        kernel = self.kernel_for(X.shape[1])._replace(bias=max(self.bias, 0.0))
        return Gram(kernel, X, self.memory_limit())

    def memory_limit(self) -> float:
        """Bytes for kernel values."""
        return default_memory() if self.memory is None else self.memory

    def fit(
        self, X, labels, weight=None, *, gram: Gram | None = None, start=None,
        progress: ProgressCallback = ignore_progress,
    ) -> ODM:  # fmt: skip
        """Train.

        Parameters
        ----------
        X : csr_matrix or ndarray, shape (m, d)
        labels : int array, shape (m,)
        weight : ndarray, shape (m,), optional
            v_i >= 0.
        gram : Gram, optional
            Kernel values of X if they are known already (see :meth:`gram`).
        start : ndarray, shape (m,), optional
            Dual variables to start from.
        progress : callable

        Raises
        ------
        UsageError, DataError, MemoryLimitError, DivergedError
        """
        self.check()
        prepared = self.prepare(X, labels, weight, gram=gram)
        self.solution_ = self.solve(prepared, start=start, progress=progress)
        self.classes_ = prepared.classes
        self.model_ = self._model(X, prepared)
        return self

    def prepare(
        self, X, labels, weight=None, *, gram: Gram | None = None, classes: list[int] | None = None
    ) -> Prepared:
        """What does not depend on lambda, mu and theta.

        Parameters are those of :meth:`fit`, and the order of the classes where it is not
        that of the labels (parts of a cross validation).
        """
        X, labels = _rows(X), np.asarray(labels)
        classes = self.classes_of(labels) if classes is None else classes
        weight = np.ones(len(labels)) if weight is None else np.asarray(weight, dtype=float)
        used, u = self._weights(labels, weight)
        gram = gram or self.gram(X)
        rows = with_constant_feature(X, self.bias) if gram is None else None
        kept = np.arange(len(labels)) if used is None else used
        if used is not None:
            rows, gram = (rows[used], None) if gram is None else (None, gram.subset(used))
        _refuse_huge_values(rows, gram)
        y = np.where(labels[kept] == classes[0], 1.0, -1.0)
        return Prepared(rows, gram, y, u, classes, kept, float(weight.sum()))

    def solve(
        self, prepared: Prepared, *, start=None, progress: ProgressCallback = ignore_progress
    ) -> Solution:
        """Solve with this machine's parameters, from the duals ``start`` of the kept rows."""
        rows, gram, y, u, _classes, _kept, total_weight = prepared
        return solvers.solve(
            Problem(rows, gram, y, u, self._loss(total_weight)), solver=self.solver,
            tolerance=self.tolerance, max_iter=self.max_iter, seed=self.seed, start=start,
            progress=progress,
        )  # fmt: skip

    def classes_of(self, labels) -> list[int]:
        """The classes in their order; raises DataError if they are more than two."""
        classes = class_order(labels)
        if len(classes) > 2:
            raise DataError(messages.two_classes_only(len(classes)))
        return classes

    def decision_function(self, X) -> np.ndarray:
        """f(x) for every row of X, shape (m,); positive means ``classes_[0]``."""
        return self.model_.decision_values(sparse.csr_matrix(X))[:, 0]

    def predict(self, X) -> np.ndarray:
        """Labels, shape (m,)."""
        return self.model_.predict(sparse.csr_matrix(X))

    def lambda_for(self, total_weight: float) -> float:
        """lambda, or the one that ``cost`` amounts to."""
        return self.lambda_ if self.cost is None else self.cost * total_weight

    def _loss(self, total_weight: float) -> losses.MarginLoss:
        loss = losses.odm(self.lambda_for(total_weight), self.mu, self.theta, total_weight)
        heaviest = max([1.0, *(self.class_weight or {}).values()])
        if not np.isfinite(losses.largest_slope(loss) * heaviest * total_weight):
            raise UsageError(messages.overflow())
        return loss

    def _weights(self, labels, weight):
        """The rows with u > 0 (None if all are), and their u."""
        if weight.shape != (len(labels),):
            raise DataError(messages.weight_count(len(weight), len(labels)))
        if not np.all(np.isfinite(weight)) or np.any(weight < 0):
            raise DataError(messages.weights_negative())
        u = weight.copy()
        for label, class_weight in (self.class_weight or {}).items():
            u[labels == label] *= class_weight
        used = np.flatnonzero(u > 0)
        if used.size == 0:
            raise DataError(messages.all_weights_zero())
        return (None, u) if used.size == len(u) else (used, u[used])

    def _model(self, X, prepared: Prepared) -> LinearModel | KernelModel:
        solution, y, kept = self.solution_, prepared.y, prepared.kept
        facts = self._facts(prepared.total_weight)
        if self.kernel == "linear":
            d = X.shape[1]
            bias_row = solution.w[d:] if self.bias >= 0 else None
            bias = float(self.bias) if self.bias >= 0 else -1.0
            weights = solution.w[:d].reshape(-1, 1)
            return LinearModel(self.classes_, weights, bias, bias_row, facts=facts)
        # LIBSVM's order: the support vectors of the first class come first.
        support = np.flatnonzero(solution.coef)
        support = support[np.argsort(-y[support], kind="stable")]
        coef = (y * solution.coef)[support]
        rho = -max(self.bias, 0.0) ** 2 * coef.sum()
        positive = int((y[support] > 0).sum())
        vectors = sparse.csr_matrix(X[kept[support]])
        if self.kernel == "precomputed":
            vectors = sparse.csr_matrix(vectors[:, [0]])
        kernel, counts = self.kernel_for(X.shape[1]), [positive, len(support) - positive]
        if len(self.classes_) == 1:
            # As svm-train writes it: the one class needs no values.
            return KernelModel(
                self.classes_, kernel, vectors[:0], np.zeros((0, 0)), np.zeros(0), [0], facts=facts
            )
        return KernelModel(
            self.classes_, kernel, vectors, coef[:, None], np.array([rho]), counts, facts=facts
        )

    def _facts(self, total_weight: float) -> dict[str, str]:
        """What the model file records about how the model was made."""
        solution = self.solution_
        facts = {
            "machine": self.name,
            "kernel": self.kernel,
            "lambda": repr(float(self.lambda_for(total_weight))),
            "mu": repr(float(self.mu)),
            "theta": repr(float(self.theta)),
            "bias": repr(float(self.bias)),
            "total_weight": repr(float(total_weight)),
        }
        for label, weight in (self.class_weight or {}).items():
            facts[f"class_weight_{label}"] = repr(float(weight))
        return facts | {
            "solver": solution.solver,
            "seed": str(self.seed),
            "tolerance": repr(float(self.tolerance)),
            "objective": repr(solution.primal),
            "gap": repr(solution.gap),
            "iterations": str(solution.iterations),
            "status": status(solution),
        }

    @property
    def support_count(self) -> int:
        """Training examples with a nonzero coefficient."""
        return int(np.count_nonzero(self.solution_.coef))


def status(solution: Solution) -> str:
    """optimal, stationary, or not converged."""
    if not solution.converged:
        return "not converged"
    return "optimal" if solution.optimal else "stationary"


def _rows(X):
    """X as an array or a canonical CSR matrix of doubles."""
    if isinstance(X, np.ndarray):
        return np.asarray(X, dtype=float)
    X = sparse.csr_matrix(X, dtype=float)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _refuse_huge_values(rows, gram: Gram | None) -> None:
    """Raise DataError if a squared norm, of a row or in feature space, is not finite."""
    rows = rows if gram is None else gram.X
    with np.errstate(over="ignore", invalid="ignore"):
        squares = 0.0 if rows is None else kernels.diagonal(Kernel("linear"), rows)
        if gram is not None:
            squares = squares + gram.diagonal()
    if not np.all(np.isfinite(squares)):
        raise DataError(messages.values_too_large(int(np.argmin(np.isfinite(squares))) + 1))


def with_constant_feature(X, bias: float):
    """X with a last column of ``bias`` if that is not negative."""
    if bias < 0:
        return X
    column = np.full((X.shape[0], 1), float(bias))
    if isinstance(X, np.ndarray):
        return np.hstack([X, column])
    return sparse.hstack([X, column], format="csr")


MACHINES = {"odm": ODM}
"""Machines by the name of ``-s``."""
