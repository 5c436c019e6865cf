"""What the estimators refuse, and what a fit leaves as it was."""

from __future__ import annotations

import os
import threading
import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_classification
from threadpoolctl import threadpool_info, threadpool_limits

from odmtool import (
    LDMClassifier,
    M3SVMClassifier,
    MulticlassODMClassifier,
    ODMClassifier,
    load_model,
)
from odmtool.defaults import BLAS_THREADS
from odmtool.errors import DataError, DivergedError
from odmtool.estimators import one_blas_thread as blas

X, y = make_classification(80, 6, random_state=0)
K = X @ X.T


@pytest.mark.parametrize("parameters, sentence", [
    ({"mu": None}, "mu must be a number, not None"),
    ({"tol": None}, "tol must be a number, not None"),
    ({"lambda_": [1]}, r"lambda_ must be a number, not \[1\]"),
    ({"degree": "2"}, "degree must be a number, not '2'"),
    ({"max_iter": "a"}, "max_iter must be a whole number, not 'a'"),
    ({"max_iter": 1.5}, "max_iter must be a whole number, not 1.5"),
    ({"max_iter": np.nan}, "max_iter must be a whole number, not nan"),
    ({"n_jobs": "a"}, "n_jobs must be a whole number, not 'a'"),
    ({"landmarks": 2.5}, "landmarks must be a whole number, not 2.5"),
    ({"landmarks": None}, "landmarks must be a whole number, not None"),
    ({"gamma": np.nan}, "gamma must be a finite number, not nan"),
    ({"gamma": np.inf}, "gamma must be a finite number, not inf"),
    ({"memory": 0}, "memory must be positive, not 0"),
    ({"memory": np.nan}, "memory must be positive, not nan"),
    ({"class_weight": {0: np.nan}}, "class_weight must be a finite number, not nan"),
    ({"class_weight": {0: np.inf}}, "class_weight must be a finite number, not inf"),
    ({"class_weight": {0: -1}}, "class_weight must not be negative, but is -1"),
    ({"class_weight": {0: "2"}}, "class_weight: the weight of 0 must be a number, not '2'"),
    ({"random_state": "a"}, "random_state must be an integer, a RandomState or None, not 'a'"),
    ({"random_state": -1, "probability": True}, "^random_state must not be negative, but is -1$"),
    ({"n_jobs": 0}, "^n_jobs must not be 0: give a number of threads, or -1 for one per processor"),
    ({"lambda_": np.inf}, "^lambda_ must be a finite number, not inf$"),
    ({"cost": np.inf}, "^cost must be a finite number, not inf$"),
    ({"tol": np.inf}, "^tol must be a finite number, not inf$"),
    ({"kernel": "poly", "coef0": -np.inf}, "^coef0 must be a finite number, not -inf$"),
    ({"kernel": "poly", "coef0": np.nan}, "^coef0 must be a finite number, not nan$"),
    ({"bias": np.inf}, "^bias must be a finite number, not inf$"),
    ({"probability": "yes"}, "^probability must be True or False, not 'yes'$"),
    ({"probability": [True]}, r"^probability must be True or False, not \[True\]$"),
    ({"kernel": np.dot}, "^kernel must be a name, .* values with kernel='precomputed'$"),
    ({"random_state": 1.5}, "random_state must be an integer, a RandomState or None, not 1.5"),
])  # fmt: skip
def test_parameters_that_are_refused(parameters, sentence):
    with pytest.raises(ValueError, match=sentence):
        ODMClassifier(kernel="rbf").set_params(**parameters).fit(X, y)


@pytest.mark.parametrize("estimator", [LDMClassifier, M3SVMClassifier, MulticlassODMClassifier])
def test_every_estimator_looks_at_its_numbers(estimator):
    own = {"LDMClassifier": "mu1", "M3SVMClassifier": "power", "MulticlassODMClassifier": "theta"}
    name = own[estimator.__name__]
    with pytest.raises(ValueError, match=f"{name} must be a number, not None"):
        estimator(**{name: None}).fit(X, y)
    for name in ("lambda_", "cost", "tol"):
        with pytest.raises(ValueError, match=f"^{name} must be a finite number, not inf$"):
            estimator(**{name: np.inf}).fit(X, y)
    with pytest.raises(ValueError, match="^random_state must not be negative, but is -1$"):
        estimator(random_state=-1).fit(X, y)


@pytest.mark.parametrize("values, advice", [
    (X * 1e200, "scale the features$"), (X * 1e150, "scale the features, or take a smaller lambda")
])  # fmt: skip
def test_the_advice_is_no_command(values, advice):
    with pytest.raises((DataError, DivergedError), match=advice):
        ODMClassifier(lambda_=1e300).fit(values, y)


def test_whole_numbers_may_be_floats_and_the_intercept_none():
    fitted = ODMClassifier(max_iter=50.0, bias=None, memory=np.float32(1e9)).fit(X, y)
    assert fitted.converged_ and fitted.model_.bias < 0


def test_what_a_subclass_adds_is_its_own():
    class Named(ODMClassifier):
        def __init__(self, names=None, lambda_=None):
            super().__init__(lambda_=lambda_)
            self.names = names

    assert Named(names=["a"]).fit(X, y).converged_


def test_numbers_of_any_kind():
    kinds = [0.5, Fraction(1, 2), np.float32(0.5), np.array(0.5)]
    objectives = {ODMClassifier(kernel="rbf", gamma=g).fit(X, y).objective_ for g in kinds}
    assert len(objectives) == 1
    for huge in ({"lambda_": 10**400}, {"class_weight": {0: 10**400}}):
        with pytest.raises(ValueError, match="must be a number"):
            ODMClassifier(**huge).fit(X, y)


def test_weights_that_are_complex_are_refused():
    with pytest.raises(ValueError, match="not complex"):
        ODMClassifier().fit(X, y, sample_weight=np.full(len(y), 1 + 1j))


def test_one_weight_is_that_of_every_example():
    one, each = (ODMClassifier().fit(X, y, sample_weight=w) for w in (2, np.full(len(y), 2.0)))
    assert np.array_equal(one.coef_, each.coef_)


def test_scale_counts_an_example_of_weight_two_twice():
    weight = np.arange(len(y)) % 3
    rows = np.repeat(np.arange(len(y)), weight)
    weighted, repeated = (
        ODMClassifier(kernel="rbf", gamma="scale", lambda_=64, tol=1e-10) for _ in range(2)
    )
    weighted.fit(X, y, sample_weight=weight)
    repeated.fit(X[rows], y[rows])
    kernels = [fitted.model_.kernel.gamma for fitted in (weighted, repeated)]
    assert kernels[0] == pytest.approx(kernels[1], rel=1e-12)
    assert kernels[1] == pytest.approx(1 / (X.shape[1] * X[rows].var()), rel=1e-12)
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), atol=1e-6
    )


def test_scale_of_large_values_and_of_no_weight():
    far = X + 1e8
    fitted = ODMClassifier(kernel="rbf", gamma="scale").fit(far, y)
    assert fitted.model_.kernel.gamma == pytest.approx(1 / (X.shape[1] * far.var()), rel=1e-6)
    with warnings.catch_warnings(), pytest.raises(DataError):
        warnings.simplefilter("error")
        ODMClassifier(kernel="rbf", gamma="scale").fit(X, y, sample_weight=np.zeros(len(y)))


def test_a_kernel_matrix_is_square():
    for rows, columns in ((20, 30), (30, 20)):
        with pytest.raises(DataError, match=f"must be square, but X is {rows} x {columns}"):
            ODMClassifier(kernel="precomputed").fit(K[:rows, :columns], y[:rows])


def test_the_model_decides_what_it_can_do(tmp_path):
    """Parameters that were changed after the fit are those of the next one."""
    fitted = ODMClassifier(kernel="rbf").fit(X, y).set_params(probability=True)
    assert not hasattr(fitted, "predict_proba")
    with_probabilities = fitted.fit(X, y).set_params(probability=False)
    assert with_probabilities.predict_proba(X).shape == (len(y), 2)
    answers = fitted.predict(X)
    assert np.array_equal(fitted.set_params(kernel="precomputed").predict(X), answers)
    assert hasattr(ODMClassifier(probability=True), "predict_proba")


def test_a_loaded_model_refuses_rows_of_another_width(tmp_path):
    file = tmp_path / "m"
    ODMClassifier(kernel="precomputed").fit(K, y).save(file)
    loaded = load_model(file)
    assert loaded.predict(K[:3]).shape == (3,)
    for wrong in (K[:3, :1], np.hstack([K, K])[:3], sparse.csr_matrix(K[:3, :60])):
        with pytest.raises(DataError, match="kernel values in each row, the training data had 80"):
            loaded.predict(wrong)
    loaded.n_features_in_ = 81  # as odm-train once said
    assert loaded.predict(K[:3]).shape == (3,)
    ODMClassifier().fit(X, y).save(file)
    loaded = load_model(file)
    with pytest.raises(DataError, match="X has 12 features, the training data had 6"):
        loaded.predict(np.hstack([X, X]))
    assert loaded.score(X, y) == pytest.approx((loaded.predict(X) == y).mean())
    assert loaded.score(X, y, np.where(np.arange(len(y)) < 1, 1, 0)) in (0, 1)


# ---- threads of BLAS ---------------------------------------------------------


def threads() -> set[int]:
    libraries = [found for found in threadpool_info() if found["user_api"] == "blas"]
    return {found["num_threads"] for found in libraries}


@pytest.fixture
def free(monkeypatch):
    """No limit in the environment, and two threads."""
    for name in BLAS_THREADS:
        monkeypatch.delenv(name, raising=False)
    blas._controller()
    with threadpool_limits(2, "blas"):
        if threads() != {2}:
            pytest.skip("this BLAS has no threads")
        yield


def test_blas_has_one_thread_while_one_of_several_fits_runs(free):
    before = threads()
    seen, inside, go = [], threading.Event(), threading.Event()

    def first():
        with blas.one_blas_thread():
            inside.set()
            go.wait(10)

    other = threading.Thread(target=first)
    other.start()
    assert inside.wait(10)
    with blas.one_blas_thread():
        go.set()
        other.join()
        seen.append(threads())
    assert seen == [{1}] and threads() == before


def test_after_a_fit_in_another_thread_the_limit_is_anyones(free):
    other = threading.Thread(target=ODMClassifier().fit, args=(X, y))
    other.start()
    other.join()
    assert threads() == {2}
    with threadpool_limits(1, "blas"):
        assert threads() == {1}


def test_a_fit_limits_blas_and_restores_it_after_a_failure(free, monkeypatch):
    before, seen = threads(), []

    class Seeing(ODMClassifier):
        def _train(self, *_given):
            seen.append(threads())
            raise DataError("enough")

    with pytest.raises(DataError, match="enough"):
        Seeing().fit(X, y)
    assert seen == [{1}] and threads() == before
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    with blas.one_blas_thread():
        assert threads() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_process_forked_during_a_fit_has_its_threads_and_no_lock(free):
    with blas.one_blas_thread(), blas._limit._lock:
        pid = os.fork()
        if pid == 0:
            with blas.one_blas_thread():
                inside = threads()
            os._exit(0 if (inside, threads()) == ({1}, {2}) else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_without_threadpoolctl_a_fit_goes_on(free, monkeypatch):
    monkeypatch.setattr(blas, "_controller", lambda: None)
    assert ODMClassifier().fit(X, y).converged_
