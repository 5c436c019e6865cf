"""The estimators where scikit-learn is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from odmtool import ODMClassifier, load_svmlight

DATA = Path(__file__).parent.parent / "data"


WITHOUT = """
import sys
sys.modules["sklearn"] = None
import warnings
import numpy as np
from odmtool import ODMClassifier, LDMClassifier, load_model, load_svmlight

X, y = load_svmlight(sys.argv[1])
estimator = ODMClassifier(kernel="rbf", probability=True, class_weight="balanced")
assert estimator.set_params(gamma=0.1) is estimator and estimator.get_params()["gamma"] == 0.1
assert repr(ODMClassifier(mu=0.5)) == "ODMClassifier(mu=0.5)"
estimator.fit(X.toarray(), y).save("model")
assert estimator.score(X, y) > 0.9
np.testing.assert_array_equal(load_model("model").predict_proba(X), estimator.predict_proba(X))
np.savetxt("values", estimator.decision_function(X), "%.17g")

def sentence(action):
    try:
        action()
    except ValueError as error:
        return str(error)

new = LDMClassifier()
said = [
    sentence(lambda: new.predict(X)),
    sentence(lambda: new.fit(X[:, :0], y)),
    sentence(lambda: new.fit(X, y[1:])),
    sentence(lambda: new.fit(X, y * 0)),
    sentence(lambda: new.fit(X, y / 2)),
    sentence(lambda: new.fit(X * np.inf, y)),
    sentence(lambda: new.fit(X.toarray() * 1j, y)),
    sentence(lambda: new.fit(X, ["a", None] * 59)),
    sentence(lambda: new.fit(X, np.where(y == 1, np.inf, 0))),
    sentence(lambda: estimator.predict(X[:, 1:])),
    sentence(lambda: new.set_params(mu=1)),
]
print("\\n".join(map(str, said)))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    LDMClassifier(max_iter=1, solver="dcd", tol=1e-9).fit(X, y)
assert [one.category.__name__ for one in caught] == ["ConvergenceWarning"], caught
"""


def test_without_scikit_learn(tmp_path):
    data = DATA / "wine.train"
    command = [sys.executable, "-c", WITHOUT, str(data)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    unfitted, empty, count, one, real, infinite, unreal, unsorted, endless, width, unknown = said
    assert unfitted == "this LDMClassifier is not fitted yet: call fit first"
    assert empty.startswith("X must have rows and columns")
    assert count.startswith("y must have one label for each of the 118 rows")
    assert one == "the examples have only one class, 0: give at least two classes"
    assert real.startswith("Unknown label type") and infinite.startswith("X has values")
    assert unreal == "X must have real numbers, not complex ones"
    assert unsorted.startswith("the labels in y cannot be sorted: '<'")
    assert endless.startswith("Unknown label type: continuous; inf")
    assert width == "X has 12 features, the training data had 13"
    assert unknown.startswith("no parameter 'mu'; there are bias, class_weight, coef0, cost")
    X, y = load_svmlight(data)
    with_it = ODMClassifier(kernel="rbf", probability=True, class_weight="balanced", gamma=0.1)
    values = with_it.fit(X.toarray(), y).decision_function(X)
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "values"), values)
