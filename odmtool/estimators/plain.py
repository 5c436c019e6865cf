"""What stands in for scikit-learn where it is not installed: parameters, score and checks."""

from __future__ import annotations

import inspect

import numpy as np
from scipy import sparse

from odmtool import messages
from odmtool.errors import DataError, UsageError

_NO_LABELS = "no_validation"


class ConvergenceWarning(UserWarning):
    """The tolerance was not reached."""


class NotFittedError(ValueError, AttributeError):
    """An estimator was asked to predict before it was trained."""


class ClassifierMixin:
    """The accuracy of a classifier."""

    def score(self, X, y, sample_weight=None) -> float:
        """The share of the rows of X whose label in y is predicted, weighted.

        Raises DataError: y has not one label per row, or texts where the model answers with
        numbers, or numbers where it answers with texts: NumPy would compare them, and none would
        be right.
        """
        y, predicted = np.asarray(y), self.predict(X)
        if y.shape != predicted.shape:
            raise DataError(messages.label_count(len(predicted), y.shape))
        if isinstance(y[0], str) != isinstance(predicted[0], str):
            raise DataError(messages.labels_of_another_kind(y[0], predicted[0]))
        return float(np.average(predicted == y, weights=sample_weight))


class BaseEstimator:
    """Parameters are those of ``__init__``, which stores each under its own name."""

    @classmethod
    def _names(cls) -> list[str]:
        return sorted(name for name in inspect.signature(cls.__init__).parameters if name != "self")

    def get_params(self, deep: bool = True) -> dict:
        """The parameters by name."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **parameters):
        """Set parameters by name."""
        for name, value in parameters.items():
            if name not in self._names():
                raise UsageError(messages.no_such_parameter(name, self._names()))
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        default = inspect.signature(type(self).__init__).parameters
        own = self.get_params().items()
        changed = (f"{name}={value!r}" for name, value in own if value is not default[name].default)
        return f"{type(self).__name__}({', '.join(changed)})"

    def _validate_data(self, X, y=_NO_LABELS, *, reset: bool = True, **_of_scikit_learn):
        """X as an array or CSR matrix of finite doubles, and y, with one label per row."""
        X = checked_rows(X)
        if reset:
            self.n_features_in_ = X.shape[1]
        elif X.shape[1] != self.n_features_in_:
            raise DataError(messages.wrong_width(X.shape[1], self.n_features_in_))
        if isinstance(y, str) and y == _NO_LABELS:
            return X
        y = np.asarray(y)
        if y.shape != (X.shape[0],):
            raise DataError(messages.label_count(X.shape[0], y.shape))
        return X, y


def checked_rows(X, may_be_empty: bool = False):
    """X as an array or a CSR matrix of doubles, at least one row and one column.

    With ``may_be_empty`` a sparse matrix need not have columns: it is as wide as its last feature.
    Raises DataError: it has another shape, or a value that is not finite.
    """
    is_sparse = sparse.issparse(X)
    if np.iscomplexobj(X):
        raise DataError(messages.complex_values())
    X = sparse.csr_matrix(X, dtype=float) if is_sparse else np.asarray(X, dtype=float)
    if X.ndim != 2 or 0 in X.shape[: 1 if is_sparse and may_be_empty else 2]:
        raise DataError(messages.not_rows(X.shape))
    if not np.all(np.isfinite(X.data if is_sparse else X)):
        raise DataError(messages.values_not_finite())
    return X
