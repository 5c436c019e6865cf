"""What every machine has: parameters, kernel, fit and predict.

A machine follows scikit-learn's manners (parameters in ``__init__``, what was learned
ends in ``_``) without importing it. :mod:`odmtool.machines.data` says what it does with
labels and weights. ``cost`` is LIBLINEAR's C, the cost of one unit of weight: lambda = C M.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from odmtool import messages
from odmtool.core import kernel_table, kernels, loss_table
from odmtool.core.columns import occurring_columns, with_constant_feature
from odmtool.core.csr import CSR, scipy_rows
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.core.labels import distinct
from odmtool.core.loss_table import BINARY, MachineRow
from odmtool.core.memory import default_memory
from odmtool.defaults import BIAS, COEF0, DEGREE, SEED, TOLERANCE
from odmtool.errors import DivergedError, UsageError
from odmtool.machines.class_memory import refuse_classes
from odmtool.machines.data import (
    Prepared,
    canonical_rows,
    class_order,
    gamma_for,
    is_wide,
    refuse_too_wide,
    targets,
    weights_in_use,
)
from odmtool.machines.huge_values import refuse_huge_values
from odmtool.models.decide import pair_totals
from odmtool.models.linear import linear_model
from odmtool.solvers import table
from odmtool.solvers.auto import has_landmarks
from odmtool.solvers.base import Solution, ignore_progress
from odmtool.solvers.settings import DEFAULTS, Settings

if TYPE_CHECKING:
    from odmtool.models.kernel import CompactModel, KernelModel
    from odmtool.models.linear import LinearModel

# Its square is still a number.
_LARGEST_BIAS = 1e150
_LARGEST_DEGREE = 1000


def machine(cls):
    """Decorator: the parameters of a machine, those of its row too, are fields of its class."""
    if "name" in vars(cls):
        cls.row = loss_table.row_of(cls.name)
        own = dict.fromkeys(cls.row.parameters, "float")
        cls.__annotations__ = own | inspect.get_annotations(cls)
        for name, default in cls.row.parameters.items():
            setattr(cls, name, default)
    return dataclass(kw_only=True, eq=False)(cls)


@machine
class Machine:
    """The part of a machine that does not depend on what it minimises.

    A subclass has a ``name`` and ``prepare``, ``solve`` and what these need. Its own parameters
    are described here, too.

    Parameters
    ----------
    lambda_, mu, theta, mu1, mu2, power : float
        Those that :data:`odmtool.core.loss_table.MACHINES` names for the machine.
    cost : float, optional
        Instead of ``lambda_``: lambda = cost times the sum of the weights.
    kernel : str, one of :data:`odmtool.core.kernel_table.KERNELS`
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
    settings : Settings
        What only some solvers read.
    model_format : str, one of :data:`odmtool.defaults.FORMATS`, optional
        Form of the model (:mod:`odmtool.models.carry`); by default liblinear for a linear
        machine that has one function per class, libsvm otherwise.

    Attributes
    ----------
    model_ : LinearModel or KernelModel
    solution_ : Solution
    classes_ : list of int
    carrier_share_ : float
        How many times the numbers of the compact form the model takes; of a kernel and one
        function per class only.

    Raises
    ------
    TypeError
        The machine has no parameter of a name.
    UsageError
        A parameter is out of range.
    """

    name: ClassVar[str]
    row: ClassVar[MachineRow]
    """That of the name, in the table."""

    lambda_: float
    cost: float | None = None
    kernel: str = "linear"
    gamma: float = 0.0
    coef0: float = COEF0
    degree: float = DEGREE
    bias: float = BIAS
    class_weight: dict[int, float] | None = None
    solver: str = "auto"
    tolerance: float = TOLERANCE
    max_iter: int | None = None
    seed: int = SEED
    memory: float | None = None
    model_format: str | None = None
    settings: Settings = DEFAULTS

    is_trial: ClassVar[bool] = False
    """Whether a fit is one of many, in a cross validation; an instance may say so."""

    def copy(self, **parameters) -> Machine:
        """An unfitted machine with some parameters changed."""
        return replace(self, **parameters)

    def check(self) -> None:
        """Raise UsageError or DivergedError if a parameter is out of range; needs no data."""
        for name in ("lambda_", "cost", "gamma", "coef0", "bias", "tolerance"):
            value = getattr(self, name)
            is_no_bias = name == "bias" and value < 0
            if value is not None and not np.isfinite(value) and not is_no_bias:
                raise UsageError(messages.must_be_finite(name, value))
        if self.cost is not None and not self.cost > 0:
            raise UsageError(messages.must_be_positive("cost", self.cost))
        kernel_table.row_of(self.kernel)
        if self.bias > _LARGEST_BIAS:
            raise UsageError(messages.at_most("bias", self.bias, _LARGEST_BIAS))
        if self.gamma < 0:
            raise UsageError(messages.must_not_be_negative("gamma", self.gamma))
        if self.degree < 0:
            raise UsageError(messages.must_not_be_negative("degree", self.degree))
        if self.degree > _LARGEST_DEGREE:
            raise UsageError(messages.at_most("degree", self.degree, _LARGEST_DEGREE))
        if self.degree % 1 != 0:
            raise UsageError(messages.must_be_whole("degree", self.degree))
        if not self.tolerance > 0:
            raise UsageError(messages.must_be_positive("tolerance", self.tolerance))
        if self.max_iter is not None and self.max_iter < 0:
            raise UsageError(messages.must_not_be_negative("max_iter", self.max_iter))
        for weight in (self.class_weight or {}).values():
            if not np.isfinite(weight):
                raise UsageError(messages.must_be_finite("class_weight", weight))
            if weight < 0:
                raise UsageError(messages.must_not_be_negative("class_weight", weight))
        if self.seed < 0:
            raise UsageError(messages.must_not_be_negative("seed", self.seed))
        if self.memory is not None and not self.memory > 0:
            raise UsageError(messages.must_be_positive("memory", self.memory))
        self.settings.check()
        table.row_of(self.solver)
        # The number of classes is not known yet: the one with which most is possible.
        self.check_format(2 if self.kernel == "linear" else 3)

    def kernel_for(self, n_features: int) -> Kernel:
        """The kernel on data of this width, without the bias."""
        return Kernel(self.kernel, gamma_for(self.gamma, n_features), self.coef0, int(self.degree))

    def no_solution(self) -> DivergedError:
        """The error where there is none, which says why."""
        return DivergedError(messages.no_solution(self.kernel_for(1).is_positive_semidefinite))

    def gram(self, X) -> Gram | None:
        """Kernel values of the rows of X, bias included; None for a linear machine."""
        if self.kernel == "linear":
            return None
        if self.kernel == "precomputed":
            kernels.check_precomputed(X, self.memory_limit() / 4)
        kernel = self._kernel_with_bias(X.shape[1])
        if kernel.bias:
            kernels.refuse_huge_bias(kernel, kernels.largest_without_bias(kernel, X))
        return Gram(kernel, X, self.memory_limit())

    def gram_of_values(self, K: np.ndarray) -> Gram:
        """The same from a matrix of kernel values, which is copied only to add the bias."""
        kernels.check_symmetric(K)
        kernel = self._kernel_with_bias(len(K))
        if kernel.bias:
            kernels.refuse_huge_bias(kernel, float(K.diagonal().max(initial=0.0)))
            K = K + kernel.bias**2
        return Gram.of_matrix(kernel, K, self.memory_limit())

    def _kernel_with_bias(self, n_features: int) -> Kernel:
        return self.kernel_for(n_features)._replace(bias=max(self.bias, 0.0))

    def memory_limit(self) -> float:
        """Bytes for kernel values."""
        return default_memory() if self.memory is None else self.memory

    def fit(
        self, X, labels, weight=None, *, gram: Gram | None = None, start=None,
        classes: list[int] | None = None, progress=ignore_progress,
    ) -> Machine:  # fmt: skip
        """Train.

        Parameters
        ----------
        X : CSR, csr_matrix or ndarray, shape (m, d)
        labels : int array, shape (m,)
        weight : ndarray, shape (m,), optional
            v_i >= 0.
        gram : Gram, optional
            Kernel values of X if they are known already (see :meth:`gram`).
        start : ndarray, optional
            Dual variables to start from.
        classes : list of int, optional
            Their order, if it is not to be that of the labels.
        progress : callable

        Raises
        ------
        UsageError, DataError, MemoryLimitError, DivergedError
        """
        self.check()
        k = len(distinct(np.asarray(labels))[0])
        self.check_format(k)
        X = self.rows_of(X, k)
        prepared = self.prepare(X, labels, weight, gram=gram, classes=classes)
        self.solution_ = self.solve(prepared, start=start, progress=progress)
        self.classes_ = prepared.classes
        self.model_ = self.model(X, prepared, self.solution_)
        return self

    def prepare(
        self, X, labels, weight=None, *, gram: Gram | None = None, classes: list[int] | None = None
    ) -> Prepared:
        """What does not depend on lambda, mu and theta.

        Parameters are those of :meth:`fit`, and the order of the classes where it is not
        that of the labels (parts of a cross validation).
        """
        X, labels = canonical_rows(X), np.asarray(labels)
        classes = class_order(labels) if classes is None else classes
        refuse_classes(self, X, len(classes))
        if self.kernel == "linear":
            refuse_too_wide(X, self.memory_limit())
        weight = np.ones(len(labels)) if weight is None else np.asarray(weight, dtype=float)
        used, u = weights_in_use(labels, weight, self.class_weight)
        gram = gram or self.gram(X)
        rows = with_constant_feature(X, self.bias) if gram is None else None
        kept = slice(None) if used is None else used
        if used is not None:
            rows, gram = (rows[used], None) if gram is None else (None, gram.subset(used))
        refuse_huge_values(rows, gram, X, kept)
        target = targets(labels[kept], classes)
        with np.errstate(over="ignore"):
            total = float(weight.sum())
        prepared = Prepared(rows, gram, target, u, classes, kept, total)
        if rows is None or not is_wide(X):
            return prepared
        # Most of the features do not occur, as where words are hashed to large numbers.
        narrow, columns = occurring_columns(rows)
        return prepared._replace(rows=narrow, columns=columns, width=rows.shape[1])

    def solve(self, prepared: Prepared, *, start=None, progress=ignore_progress):
        """Solve with this machine's parameters, from the duals ``start`` of the kept rows."""
        raise NotImplementedError

    @property
    def kind(self) -> str:
        """The kind of its loss (:mod:`odmtool.core.loss_table`)."""
        raise NotImplementedError

    @property
    def was_cut_short(self) -> bool:
        """Whether the limit of the iterations ended the training, as far as that is known."""
        solution, limits = self.solution_, [self.max_iter]
        if self.max_iter is None:
            # Of several problems the solvers may differ; what comes last was not enough.
            lasts = (each.rpartition(", then ")[2] for each in solution.solver.split(" / "))
            known = (table.SOLVERS.get(last.split()[0]) for last in lasts)
            ways = (solver.way(self.kind, self.kernel) for solver in known if solver)
            limits = [way.limit for way in ways if way and way.limit is not None]
        return solution.iterations >= min(limits, default=0)

    def takes_landmarks(self, m: int) -> bool:
        """Whether its solver takes landmarks for m examples, and keeps no kernel matrix."""
        if self.solver != "auto" or self.kernel == "linear" or self.kind not in BINARY:
            return self.solver == "landmarks"
        return has_landmarks(self.kernel_for(1), m, self.memory_limit(), self.kind)

    def takes_compressed(self, k: int) -> bool:
        """Whether a CSR of k classes is enough, with no more than it can do."""
        return False

    def rows_of(self, X, k: int):
        """X of k classes as it is wanted: a CSR where that can do all that is asked of it."""
        return X if self.takes_compressed(k) or self._becomes_dense(X) else scipy_rows(X)

    def _becomes_dense(self, X) -> bool:
        """Whether the kernel's values are made of an array of these rows."""
        has_values = self.kernel not in ("linear", "precomputed")
        return has_values and isinstance(X, CSR) and X.shape[1] <= X.nnz and (
            kernels.dense_bytes(X, self.memory_limit() / 4) > 0
        )

    def decides_by_votes(self, k: int) -> bool:
        """Whether there is a decision function for each pair of the k classes."""
        return False

    def functions(self, prepared: Prepared, solution) -> tuple[np.ndarray, np.ndarray]:
        """The decision functions of a solution: rows @ C + offset.

        Returns
        -------
        C : ndarray, shape (d, c) of a linear machine, (kept, c) otherwise
            c is 1 for two classes, else one per class or per pair of classes; with a kernel, pairs
            of classes have (kept, k - 1) as :class:`odmtool.models.kernel.KernelModel` has it.
            Rows have the constant feature, kernel values include the bias.
        offset : ndarray, shape (c,)
        """
        if not isinstance(solution, Solution):
            C = solution.coef if solution.W is None else prepared.of_all_columns(solution.W)
            return C, np.zeros(C.shape[1]) if solution.bias is None else solution.bias
        if solution.w is None:
            C = (prepared.y * solution.coef)[:, None]
        else:
            C = prepared.of_all_columns(solution.w[:, None])
        return C, np.array([solution.bias])

    def winners(self, values: np.ndarray, k: int) -> np.ndarray:
        """The place of the predicted class for every row of values, shape (n,).

        Where pairs of classes vote there are no such values.
        """
        if values.shape[1] == 1:
            return np.where(values[:, 0] > 0, 0, k - 1)
        return values.argmax(axis=1)

    def check_format(self, k: int) -> None:
        """Raise UsageError if a model of k classes cannot have the form that is asked for."""
        if self.model_format == "liblinear" and self.kernel != "linear":
            raise UsageError(messages.liblinear_is_linear(self.kernel))
        if self.model_format == "liblinear" and self.decides_by_votes(k):
            raise UsageError(messages.liblinear_has_no_pairs())
        has_sums = self.kernel != "linear" and k > 2 and not self.decides_by_votes(k)
        if self.model_format == "compact" and not has_sums:
            raise UsageError(messages.compact_is_for_many_classes())

    def model(self, X, prepared: Prepared, solution) -> LinearModel | KernelModel | CompactModel:
        """The model that a solution makes of the rows of X."""
        self.check_format(len(prepared.classes))
        if self.kernel == "linear":
            return self._linear_model(X.shape[1], prepared, solution)
        from odmtool.models import carry

        C, offset = self.functions(prepared, solution)
        classes, facts = prepared.classes, self.facts(prepared, solution)
        everything = len(prepared.target) == X.shape[0]
        vectors = carry.rows_of(X if everything else X[prepared.kept])
        kernel = self.kernel_for(X.shape[1])
        if self.kernel == "precomputed":
            vectors = vectors[:, [0]]
        if len(classes) == 1:
            return carry.one_class_model(classes, kernel, vectors.shape[1], facts)
        has_pairs = self.decides_by_votes(len(classes))
        sums = pair_totals(C, prepared.target, len(classes)) if has_pairs else C.sum(axis=0)
        offset = offset + max(self.bias, 0.0) ** 2 * sums
        functions = carry.Functions(C, offset, vectors, kernel)
        if C.shape[1] == len(classes) == 2:
            functions = carry.difference(functions)
        if len(classes) == 2:
            return carry.binary_kernel_model(functions, prepared.y, classes, facts)
        if has_pairs:
            return carry.pairs_kernel_model(functions, prepared.target, classes, facts)
        self.carrier_share_ = carry.carrier_share(functions)
        if self.model_format == "compact":
            return carry.compact_model(functions, classes, facts)
        return carry.argmax_kernel_model(functions, classes, facts)

    def _linear_model(self, d: int, prepared: Prepared, solution) -> LinearModel | KernelModel:
        (C, offset), classes = self.functions(prepared, solution), prepared.classes
        facts, bias, bias_row = self.facts(prepared, solution), self.bias, np.zeros(C.shape[1])
        if bias >= 0:
            bias_row = C[d]
        elif offset.any():
            bias, bias_row = 1.0, offset
        model = linear_model(C[:d], bias_row, bias, classes, facts)
        has_pairs = self.decides_by_votes(len(classes))
        if not has_pairs and self.model_format != "libsvm":
            return model
        from odmtool.models import carry

        if has_pairs:
            return carry.pairs_linear_model(C[:d], max(bias, 0.0) * bias_row, classes, facts)
        return carry.linear_as_kernel_model(model)

    def predict(self, X) -> np.ndarray:
        """Labels, shape (m,)."""
        from scipy import sparse

        return self.model_.predict(sparse.csr_matrix(X))

    def lambda_for(self, total_weight: float) -> float:
        """lambda, or the one that ``cost`` amounts to."""
        return self.lambda_ if self.cost is None else self.cost * total_weight

    @property
    def loss_weight(self) -> float:
        """What the loss weighs against the regulariser: lambda or C; to compare settings."""
        return self.lambda_ if self.cost is None else self.cost

    def heaviest(self) -> float:
        """The largest class weight, at least 1."""
        return max([1.0, *(self.class_weight or {}).values()])

    def facts(self, prepared: Prepared, solution) -> dict[str, str]:
        """What the model file records about how the model was made."""
        parameters = {name: getattr(self, name) for name in self.row.parameters}
        parameters["lambda_"] = self.lambda_for(prepared.total_weight)
        facts = {"machine": self.name, "kernel": self.kernel}
        facts |= {name.rstrip("_"): _text(value) for name, value in parameters.items()}
        facts |= {"bias": _text(self.bias), "total_weight": _text(prepared.total_weight)}
        for label, weight in (self.class_weight or {}).items():
            facts[f"class_weight_{label}"] = _text(weight)
        return facts | {
            "solver": solution.solver,
            "seed": str(self.seed),
            "tolerance": _text(self.tolerance),
            "objective": _text(solution.primal),
            "gap": _text(solution.gap),
            "iterations": str(solution.iterations),
            "status": status(solution),
        } | ({} if solution.failure is None else {"certificate": certificate(solution)})

    @property
    def support_count(self) -> int:
        """Training examples with a nonzero coefficient."""
        return self.solution_.support_count


def _text(value) -> str:
    return value if isinstance(value, str) else repr(float(value))


def status(solution) -> str:
    """optimal, stationary, or not converged."""
    if not solution.converged:
        return "not converged"
    return "optimal" if solution.optimal else "stationary"


def certificate(solution) -> str:
    """What kind of bound the gap is: none where it is infinite, as where the time ended before."""
    if solution.gap == np.inf:
        return "none"
    if not solution.failure:
        return "proved"
    return f"proved with probability 1 - {solution.failure:g}"
