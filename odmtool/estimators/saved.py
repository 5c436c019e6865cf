"""Model files and data files from Python; scikit-learn is not needed."""

from __future__ import annotations

import os

import numpy as np
from scipy import sparse

from odmtool import messages
from odmtool.core.columns import canonical
from odmtool.errors import DataError, UsageError
from odmtool.estimators.decisions import Decisions
from odmtool.estimators.labels import decode
from odmtool.estimators.plain import ClassifierMixin, checked_rows
from odmtool.io.files import display_name
from odmtool.io.model_file import read_model
from odmtool.io.svmlight import read_svmlight


class SavedModel(Decisions, ClassifierMixin):
    """A model read from a file; it predicts as ``odm-predict`` does.

    Attributes
    ----------
    classes_ : ndarray, shape (k,)
        Sorted; the texts of an estimator that was trained on such.
    facts : dict
        What was recorded when it was trained; empty for a stock model.
    n_features_in_ : int or None
        Width of the training data, if the file says so.
    model_ : LinearModel, KernelModel or CompactModel
    coef_, intercept_ : ndarrays
        As those of an estimator, if the model is linear and has one function per class.
    """

    # What scikit-learn before 1.6 asks for.
    _estimator_type = "classifier"

    def __init__(self, model, file: str | None = None):
        self.model_, self.facts = model, model.facts
        self.classes_ = decode(model.labels, model.facts, file)
        width = model.facts.get("features", "")
        self.n_features_in_ = int(width) if width.isdecimal() else None

    def __repr__(self) -> str:
        machine = self.facts.get("machine", "a stock tool")
        return f"<model of {machine}, classes {', '.join(map(str, self.classes_))}>"

    def fit(self, X, y=None, **_others):
        """Raises UsageError; scikit-learn takes for an estimator only what has this method."""
        raise UsageError(messages.loaded_is_trained())

    def __sklearn_tags__(self):
        from odmtool.estimators.manners import tags_of_a_classifier

        return tags_of_a_classifier(self.model_.is_precomputed)

    def _has_probabilities(self) -> bool:
        return self.model_.has_probabilities

    def _rows(self, X):
        X, expected = checked_rows(X, may_be_empty=True), self.n_features_in_
        if self.model_.is_precomputed:
            self._check_kernel_values(X.shape[1])
            return rows_of_values(X, self.model_)
        if expected is not None and X.shape[1] != expected and not sparse.issparse(X):
            raise DataError(messages.wrong_width(X.shape[1], expected))
        return canonical(X)

    def _check_kernel_values(self, width: int) -> None:
        """Raise DataError unless there is one for each training example, as far as is known."""
        expected = self.n_features_in_
        if expected is None:
            return
        # odm-train once counted the serial numbers as well.
        last = self.model_.largest_serial
        if width < last or width not in (expected, expected - 1):
            raise DataError(messages.wrong_kernel_values(width, expected))


def with_serials(K) -> sparse.csr_matrix:
    """Rows of kernel values as svmlight files have them: a serial number, then the values."""
    serials = np.arange(1.0, K.shape[0] + 1)[:, None]
    return canonical(sparse.hstack([serials, sparse.csr_matrix(K)], format="csr"))


def rows_of_values(K, model):
    """Rows of kernel values as a model takes them: an array as it is, if it is wide enough."""
    is_whole = isinstance(K, np.ndarray) and K.shape[1] >= model.largest_serial
    return K if is_whole else with_serials(K)


def load_model(path: str | os.PathLike, *, zero_based: bool = False) -> SavedModel:
    """Read a model of ``save`` or ``odm-train``, or a classifier of LIBSVM or LIBLINEAR.

    ``zero_based``: a stock kernel model was trained on data that count features from 0. Raises
    FileError, ModelError.
    """
    return SavedModel(read_model(path, zero_based=zero_based), display_name(path))


def load_svmlight(
    path: str | os.PathLike, *, zero_based: bool = False, n_features: int | None = None
) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Read a data file in svmlight form, also one compressed with gzip, bzip2 or xz.

    Raises FileError, DataError.

    Parameters
    ----------
    zero_based : bool
        Features are counted from 0, not from 1. So are the items of a file for the precomputed
        kernel: column 0 is that of the serial numbers, ``X[:, 1:]`` are the kernel values.
    n_features : int, optional
        The least width of X; that of the training data for a test file.

    Returns
    -------
    X : csr_matrix, shape (m, d)
    y : array, shape (m,)
        Integers, or words as an array of objects.
    """
    dataset = read_svmlight(path, zero_based=zero_based, n_features=n_features)
    if dataset.names is None:
        return dataset.X, dataset.labels
    return dataset.X, np.array(dataset.names, dtype=object)[dataset.labels]
