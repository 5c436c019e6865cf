"""The estimators in their forms, and data for them."""

from pathlib import Path

import pytest
from sklearn.preprocessing import StandardScaler

from odmtool import (
    LDMClassifier,
    M3SVMClassifier,
    MulticlassODMClassifier,
    ODMClassifier,
    load_svmlight,
)

DATA = Path(__file__).parent.parent / "data"
ESTIMATORS = [
    ODMClassifier(),
    ODMClassifier(kernel="rbf"),
    ODMClassifier(kernel="rbf", multiclass="ovo"),
    LDMClassifier(),
    LDMClassifier(kernel="rbf"),
    MulticlassODMClassifier(),
    MulticlassODMClassifier(kernel="rbf"),
    M3SVMClassifier(),
]
each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)


def scaled(name: str):
    """A set of data/, dense, columns of mean 0 and variance 1."""
    X, y = load_svmlight(DATA / f"{name}.train")
    return StandardScaler().fit_transform(X.toarray()), y
