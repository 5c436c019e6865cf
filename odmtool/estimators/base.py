"""What the estimators share: from X, y and parameters in words to a machine and its model."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import fields
from numbers import Integral

import numpy as np

from odmtool import __version__, messages
from odmtool.core import kernel_table
from odmtool.core.columns import canonical
from odmtool.core.gram import Gram
from odmtool.core.kernels import variances
from odmtool.errors import DataError, UsageError
from odmtool.estimators import labels, manners
from odmtool.estimators.decisions import Decisions
from odmtool.estimators.names import in_words_of_estimators
from odmtool.estimators.numbers_given import number, numbers_given
from odmtool.estimators.one_blas_thread import one_blas_thread
from odmtool.estimators.saved import rows_of_values, with_serials
from odmtool.io.model_write import write_model
from odmtool.machines import Machine, machine_named
from odmtool.machines.data import check_weights, most_in_pairs
from odmtool.machines.default_values import fitted
from odmtool.machines.overlap import finds_nothing, share_right
from odmtool.models.linear import LinearModel
from odmtool.search.calibration import fit_with_probabilities
from odmtool.search.validation import Data
from odmtool.solvers.settings import Settings
from odmtool.solvers.table import name_of_auto

_LARGEST_SEED = 2**31 - 1
# None is what suits the data, or the machine's default.
_OPEN = ("lambda_", "gamma", "coef0", "bias")


class MachineClassifier(Decisions, manners.ClassifierMixin, manners.BaseEstimator):
    """An estimator whose parameters describe a machine; each subclass names its own.

    Attributes
    ----------
    classes_ : ndarray, shape (k,)
        The labels, sorted.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        If X had column names, and with scikit-learn only.
    model_ : LinearModel or KernelModel
        What :meth:`save` writes.
    coef_, intercept_ : ndarrays, shapes (1, d), (1,) for two classes, else (k, d), (k,)
        With ``kernel="linear"`` and one function per class.
    objective_ : float
        The value that was minimised; of several binary problems (``multiclass``) the sum of all.
    gap_ : float
        How far it is from the minimum at most, relative to its terms. M3SVMClassifier stops by
        its gradient instead, of which little can be proved.
    n_iter_ : int
    converged_ : bool
        ``gap_``, or the gradient relative to that at zero, is at most ``tol``.
    """

    _machine: str

    def _keep(self, known: dict) -> None:
        """Keep what ``__init__`` was given, its ``locals()``, as scikit-learn wants it."""
        for name, value in known.items():
            if name != "self":
                setattr(self, name, value)

    def fit(self, X, y, sample_weight=None):
        """Train.

        Parameters
        ----------
        X : array or sparse matrix, shape (m, d)
            With ``kernel="precomputed"`` the kernel matrix, shape (m, m).
        y : array, shape (m,)
            Labels: integers, texts, or anything that can be sorted; two classes at least.
        sample_weight : array, shape (m,), or number, optional
            Weight >= 0 of every example; weight 2 is the same as giving the example twice. A number
            is the weight of each.

        Raises
        ------
        ValueError
            Parameters out of range, or data that cannot be used.
        odmtool.errors.DivergedError
            The kernel is not positive definite, and there is no solution.
        odmtool.errors.MemoryLimitError
        """
        with manners.features_of_a_success(self):
            return self._fit(X, y, sample_weight)

    def _fit(self, X, y, sample_weight):
        X, y = manners.training_data(self, X, y)
        # Entries that stand twice are one number, in the defaults as well.
        X = X if isinstance(X, np.ndarray) else canonical(X)
        classes, codes, facts = labels.encode(y)
        if len(classes) < 2:
            raise DataError(messages.one_class_to_learn(classes[0]))
        if np.ndim(self.probability) or self.probability not in (False, True):
            raise UsageError(messages.not_true_or_false("probability", self.probability))
        weight = _weights(sample_weight, len(y))
        # So that a positive value, and the first of equal scores, mean what they do in
        # scikit-learn.
        order = sorted(set(codes.tolist()), reverse=len(classes) == 2)
        if self._is_pairwise() and X.shape[0] != X.shape[1]:
            raise DataError(messages.not_square(X.shape))
        with in_words_of_estimators(classes if facts else ()), one_blas_thread():
            check_weights(weight, len(y))
            machine, rows, gram = self._configured(X, classes, codes, weight), X, None
            machine.check()
            if self._is_pairwise():
                rows, gram = _stored(machine, X)
            data = Data(rows, codes, weight, order)
            unconverged = self._train(machine, data, gram)
            if machine.name != self._machine and finds_nothing(machine, data):
                other = self._configured(X, classes, codes, weight, self._machine)
                its = self._train(other, data, gram)
                if share_right(other, X, codes, weight) > share_right(machine, X, codes, weight):
                    machine, unconverged = other, its
            self._take(machine, unconverged)
        self.model_.facts |= facts | {
            "examples": str(X.shape[0]), "features": str(X.shape[1]),
            "version": f"odmtool {__version__}",
        }  # fmt: skip
        self.classes_ = classes
        return self

    def _train(self, machine: Machine, data: Data, gram: Gram | None) -> int:
        """Fit; how many fits of the probabilities did not reach the tolerance."""
        if self.probability:
            return fit_with_probabilities(machine, data, gram=gram).unconverged
        machine.fit(data.X, data.labels, data.weight, gram=gram, classes=data.classes)
        return 0

    def _take(self, machine: Machine, unconverged: int) -> None:
        """Take over what was fitted."""
        self.model_, solution = machine.model_, machine.solution_
        self.objective_, self.gap_ = solution.primal, solution.gap
        self.n_iter_, self.converged_ = solution.iterations, bool(solution.converged)
        if not self.converged_:
            sentence = messages.stopped_short(solution, self.tol, machine.was_cut_short)
            warnings.warn(sentence, manners.ConvergenceWarning, stacklevel=4)
        if unconverged:
            sentence = messages.folds_stopped_short(unconverged)
            warnings.warn(sentence, manners.ConvergenceWarning, stacklevel=4)

    def _configured(self, X, classes, codes, weight, name: str | None = None) -> Machine:
        """The machine that the parameters describe, or the one of this name."""
        if name is None and (name := self._machine) == "odm":
            kernels = {kernel_table.row_of(self.kernel).name}
            name = name_of_auto(len(classes), kernels, self.solver, self.multiclass != "auto")
        machine = machine_named(name)
        of_machine = [field.name for field in fields(machine)]
        own = [name for name in (*of_machine, *Settings._fields) if hasattr(self, name)]
        known = {name: getattr(self, name) for name in own} | numbers_given(self, machine)
        given = {name: known[name] for name in of_machine if name in known}
        given = {name: v for name, v in given.items() if v is not None or name not in _OPEN}
        of_solvers = {name: known[name] for name in Settings._fields if name in known}
        given |= {
            "tolerance": known["tol"], "seed": _seed(self.random_state),
            "class_weight": _class_weights(self.class_weight, classes, codes, weight),
            "settings": Settings(**of_solvers),
        }  # fmt: skip
        if "gamma" in given:
            given["gamma"] = _gamma(given["gamma"], X, weight)
        kernel = given.get("kernel", "linear")
        given |= fitted(name, kernel, X, weight, len(classes), given)[0]
        if self.lambda_ is not None and self.cost is not None:
            raise UsageError(messages.lambda_and_cost_in_python())
        if "multiclass" in given:
            given["most_in_pairs"] = most_in_pairs(X, codes, len(classes))
        if hasattr(self, "n_jobs"):
            given["jobs"] = _threads(known["n_jobs"])
        return machine(**given)

    def save(self, path: str | os.PathLike) -> None:
        """Write the model; ``odm-predict``, LIBSVM and LIBLINEAR read it, and load_model.

        Of labels that are no integers the file has the places 0, 1, ... in ``classes_``, which
        the stock programs answer with; load_model gives the labels back as texts. Raises
        odmtool.errors.FileError.
        """
        manners.check_fitted(self)
        write_model(path, self.model_)

    def _linear_model(self) -> LinearModel:
        manners.check_fitted(self)
        return super()._linear_model()

    def _has_probabilities(self) -> bool:
        """Whether the model has them; before there is one, whether it will."""
        return self.model_.has_probabilities if hasattr(self, "model_") else bool(self.probability)

    def __sklearn_is_fitted__(self) -> bool:
        # scikit-learn would take lambda_ for something learned.
        return hasattr(self, "model_")

    def _is_pairwise(self) -> bool:
        return getattr(self, "kernel", "linear") == "precomputed"

    def _rows(self, X):
        X = manners.rows_to_predict(self, X)
        return rows_of_values(X, self.model_) if self.model_.is_precomputed else canonical(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self._is_pairwise()
        return tags

    def _more_tags(self) -> dict:
        """The same for scikit-learn before 1.6."""
        return {"pairwise": self._is_pairwise()}


def _stored(machine: Machine, K) -> tuple:
    """The rows and the Gram of a kernel matrix; an array's rows have serial numbers only.

    A sparse matrix is left as it is, and no Gram is made of it yet: it may not fit as an array.
    """
    if not isinstance(K, np.ndarray):
        return with_serials(K), None
    # Compiled code is made for arrays that may be written to.
    K = np.require(K, requirements=("C", "W", "E"))
    return with_serials(np.empty((len(K), 0))), machine.gram_of_values(K)


def _weights(sample_weight, m: int) -> np.ndarray:
    """A number is the weight of each of the m examples, as in scikit-learn; None is 1."""
    weight = np.asarray(1.0 if sample_weight is None else sample_weight)
    if weight.dtype.kind == "c":
        raise DataError(messages.complex_weights())
    weight = weight.astype(float)
    return np.full(m, weight) if weight.ndim == 0 else weight


def _gamma(gamma, X, weight) -> float:
    """The number that a machine takes, for which 0 is 1 / features.

    An example of weight 2 is two.
    """
    if gamma == "auto":
        return 0.0
    if gamma == "scale":
        if not weight.sum() > 0:
            return 1.0
        d, means = X.shape[1], weight @ X / weight.sum()
        # That of all values: within the features, and between them.
        variance = variances(X, weight).sum() / d + means.var()
        return 1 / (d * variance) if variance > 0 else 1.0
    if isinstance(gamma, str):
        raise UsageError(messages.unknown_gamma(gamma))
    return gamma


def _threads(n_jobs: int | None) -> int:
    from joblib import effective_n_jobs

    if n_jobs == 0:
        raise UsageError(messages.no_threads())
    return 1 if n_jobs is None else effective_n_jobs(n_jobs)


def _seed(random_state) -> int:
    """A seed, drawn from ``random_state`` unless it is one; of None from NumPy's own state."""
    if isinstance(random_state, Integral):
        return int(random_state)
    source = np.random if random_state is None else random_state
    if not hasattr(source, "randint"):
        raise UsageError(messages.not_a_random_state(random_state))
    return int(source.randint(_LARGEST_SEED))


def _class_weights(class_weight, classes, codes, weight) -> dict[int, float] | None:
    """Weights by the integers that stand for the classes."""
    if class_weight is None:
        return None
    values = np.unique(codes)
    if isinstance(class_weight, str) and class_weight == "balanced":
        share = np.array([weight[codes == code].sum() for code in values]) * len(values)
        balanced = np.divide(weight.sum(), share, out=np.ones(len(values)), where=share > 0)
        return dict(zip(values.tolist(), balanced.tolist(), strict=True))
    if not isinstance(class_weight, Mapping):
        raise UsageError(messages.unknown_class_weight(class_weight))
    known = dict(zip(classes.tolist(), values.tolist(), strict=True))
    for label in class_weight:
        if label not in known:
            warnings.warn(messages.no_such_label(label), UserWarning, stacklevel=5)
    numbers = {label: number(factor) for label, factor in class_weight.items()}
    for label, factor in numbers.items():
        if factor is None:
            raise UsageError(messages.not_a_class_weight(label, class_weight[label]))
    return {known[label]: factor for label, factor in numbers.items() if label in known}
