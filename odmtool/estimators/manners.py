"""scikit-learn's base classes and checks where it is installed, plain ones otherwise.

Nothing else in the package knows of scikit-learn, and a model that is loaded from a file needs
this file only where scikit-learn asks what it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from odmtool import messages


def _bases() -> tuple[type, type, type, type]:
    try:
        from sklearn import base, exceptions
    except ImportError:
        from odmtool.estimators import plain as base

        exceptions = base
    return (
        base.BaseEstimator, base.ClassifierMixin,
        exceptions.ConvergenceWarning, exceptions.NotFittedError,
    )  # fmt: skip


BaseEstimator, ClassifierMixin, ConvergenceWarning, NotFittedError = _bases()


def training_data(estimator, X, y):
    """X and y checked, what is known of the features recorded in the estimator.

    Returns ndarray or csr_matrix of doubles, shape (m, d), and ndarray, shape (m,). Raises
    ValueError.
    """
    X, y = _validated(estimator, X, y, reset=True)
    try:
        from sklearn.utils.multiclass import check_classification_targets
    except ImportError:
        return X, y
    check_classification_targets(y)
    return X, y


@contextmanager
def features_of_a_success(estimator) -> Iterator[None]:
    """What is known of the features stays that of the model if the fit within fails."""
    names = ("n_features_in_", "feature_names_in_")
    known = {name: vars(estimator)[name] for name in names if name in vars(estimator)}
    try:
        yield
    except BaseException:
        for name in names:
            vars(estimator).pop(name, None)
        vars(estimator).update(known)
        raise


def rows_to_predict(estimator, X):
    """X checked against what the estimator was trained on.

    Raises NotFittedError, ValueError.
    """
    check_fitted(estimator)
    return _validated(estimator, X, reset=False)


def check_fitted(estimator) -> None:
    """Raise NotFittedError if the estimator was not trained."""
    if not hasattr(estimator, "model_"):
        raise NotFittedError(messages.not_fitted(type(estimator).__name__))


def tags_of_a_classifier(is_pairwise: bool):
    """What scikit-learn 1.6 and later asks of a classifier that none of its classes made."""
    from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

    return Tags(
        estimator_type="classifier", target_tags=TargetTags(required=True), transformer_tags=None,
        classifier_tags=ClassifierTags(), regressor_tags=None,
        input_tags=InputTags(sparse=True, pairwise=is_pairwise),
    )  # fmt: skip


def _validated(estimator, *data, reset: bool):
    try:
        from sklearn.utils.validation import validate_data
    except ImportError:  # scikit-learn before 1.6, or none
        validate_data = type(estimator)._validate_data
    return validate_data(estimator, *data, reset=reset, accept_sparse="csr", dtype=np.float64)
