"""Parameters of the estimators: what they mean, and what is told of a fit with them."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from estimator_cases import each_estimator
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score

from odmtool import (
    LDMClassifier,
    M3SVMClassifier,
    MulticlassODMClassifier,
    ODMClassifier,
    load_model,
)
from odmtool.core import kernels
from odmtool.errors import DataError, DivergedError
from odmtool.io.model_grammar import BLOCK
from odmtool.machines import ODM


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
def test_gamma_in_words(cancer, container):
    X, y = cancer
    X = 3 * X + 1
    for word, gamma in (("auto", 1 / 30), ("scale", 1 / (30 * X.var()))):
        word = ODMClassifier(kernel="rbf", gamma=word).fit(container(X), y)
        assert word.model_.kernel.gamma == pytest.approx(gamma, rel=1e-12)
    with pytest.raises(ValueError, match="'scale', not 'Scale'"):
        ODMClassifier(kernel="rbf", gamma="Scale").fit(X, y)


@pytest.mark.parametrize(
    "wrong",
    [{"mu": 2.0}, {"theta": 1.0}, {"lambda_": -1.0}, {"kernel": "rbv"}, {"solver": "sgd"},
     {"tol": 0.0}, {"cost": 0.0}, {"max_iter": -1}, {"lambda_": "2^4"}, {"tol": "1e-3"},
     {"bias": "1"}, {"bias": float("nan")}, {"kernel": ["rbf"]}, {"solver": ["dcd"]}],
    ids=repr,
)  # fmt: skip
def test_a_wrong_parameter_is_a_value_error(cancer, wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=name.strip("_")):
        ODMClassifier(**wrong).fit(*cancer)


def test_errors_name_what_estimators_have(cancer):
    X, y = cancer
    with pytest.raises(ValueError, match="^tol must be positive, not 0$"):
        ODMClassifier(tol=0.0).fit(X, y)
    with pytest.raises(ValueError, match="^probability=True: class 1 has 4 examples"):
        ODMClassifier(probability=True).fit(X[:20], np.where(np.arange(20) < 4, 1, 2))
    with pytest.raises(ValueError, match="^solver=.asgd. is for LDMClassifier; take solver"):
        ODMClassifier(solver="asgd").fit(X, y)
    with pytest.raises(ValueError, match="120 examples: give one weight per example"):
        ODMClassifier().fit(X, y, sample_weight=[1.0])
    with pytest.raises(ValueError, match=r"one for each of the \d+ examples; .* \(\d+, 1\)"):
        ODMClassifier().fit(X, y, sample_weight=np.ones((len(y), 1)))
    with pytest.raises(DivergedError, match=r"; take a smaller lambda or another kernel$"):
        ODMClassifier(kernel="precomputed").fit(-X @ X.T, y)


def test_a_larger_limit_is_advised_where_it_ended_the_training(cancer):
    """Steps that rounding makes useless are not mended by more of them."""
    X, y = cancer
    for factor, limit, solver in ((1, 2, "dcd"), (1e100, 10**6, "auto")):
        with pytest.warns(ConvergenceWarning) as caught:
            ODMClassifier(max_iter=limit, solver=solver, tol=1e-9).fit(factor * X, y)
        assert ("raise max_iter" in str(caught[0].message)) == (limit == 2)


@pytest.mark.parametrize("solver, iterations, is_cut", [
    ("newton", 199, False), ("newton", 200, True), ("newton, then dcd", 999, False),
    ("dcd, then newton / newton / none", 199, False), ("dcd / newton", 200, True),
    ("landmarks, then newton on the whole matrix", 199, False), ("none", 0, True),
])  # fmt: skip
def test_the_limit_is_that_of_the_last_solver(solver, iterations, is_cut):
    machine = ODM(kernel="rbf")
    machine.solution_ = SimpleNamespace(solver=solver, iterations=iterations)
    assert machine.was_cut_short == is_cut
    limited = machine.copy(max_iter=iterations + 1)
    limited.solution_ = machine.solution_
    assert not limited.was_cut_short


@each_estimator
def test_lambda_and_cost_are_not_given_together(estimator, iris):
    both = clone(estimator).set_params(lambda_=3.0, cost=1.0)
    with pytest.raises(ValueError, match="^lambda_ and cost set the same parameter: give one"):
        both.fit(*iris)
    alone = both.set_params(cost=None).fit(*iris).model_.facts["lambda"]
    other = both.set_params(lambda_=None, cost=1.0).fit(*iris).model_.facts["lambda"]
    assert float(alone) == 3.0 != float(other)


def test_the_seed_is_a_number_a_generator_or_drawn(iris):
    X, y = iris

    def fit(state):
        return ODMClassifier(probability=True, random_state=state).fit(X, y).model_

    assert fit(7).facts["seed"] == "7"
    state = np.random.RandomState(7)
    seeds = [fit(state).facts["seed"] for _ in range(2)]
    assert seeds[0] != seeds[1] and fit(np.random.RandomState(7)).facts["seed"] == seeds[0]
    assert fit(None).facts["seed"] != fit(None).facts["seed"]


def test_threads_change_no_model(iris):
    alone, together = (ODMClassifier(kernel="rbf", n_jobs=n).fit(*iris).model_ for n in (None, -1))
    np.testing.assert_array_equal(alone.coef, together.coef)


def test_what_was_found_is_told(cancer):
    estimator = ODMClassifier(kernel="rbf", tol=1e-6).fit(*cancer)
    assert estimator.converged_ and 0 <= estimator.gap_ <= 1e-6 and estimator.n_iter_ >= 1
    assert estimator.objective_ == float(estimator.model_.facts["objective"]) > 0
    with pytest.warns(ConvergenceWarning, match="gap is .* after 1 iterations, above tol=1e-09"):
        stopped = ODMClassifier(solver="dcd", max_iter=1, tol=1e-9).fit(*cancer)
    assert not stopped.converged_
    with pytest.warns(ConvergenceWarning, match="gradient is .* of the first after 1 iterations"):
        M3SVMClassifier(max_iter=1).fit(*cancer)
    with pytest.warns(ConvergenceWarning) as told:
        ODMClassifier(solver="dcd", max_iter=1, tol=1e-9, probability=True).fit(*cancer)
    assert sorted(str(one.message)[:28] for one in told) == [
        "5 fits for the probabilities", "the relative gap is 1 after ",
    ]  # fmt: skip


def test_nystrom_has_its_landmarks(cancer):
    estimator = ODMClassifier(kernel="rbf", solver="nystrom", landmarks=20).fit(*cancer)
    assert estimator.model_.support_vectors.shape[0] == 20


def test_a_precomputed_kernel_is_a_matrix(iris, tmp_path):
    X, y = iris
    K = np.exp(-0.25 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    given = ODMClassifier(kernel="precomputed", lambda_=1e3, tol=1e-9).fit(K, y)
    computed = ODMClassifier(kernel="rbf", lambda_=1e3, gamma=0.25, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(
        given.decision_function(K[:9]), computed.decision_function(X[:9]), rtol=1e-4, atol=1e-6
    )
    given.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(K), given.predict(K))
    scores = cross_val_score(ODMClassifier(kernel="precomputed"), K, y, cv=3)
    assert scores.mean() > 0.9


@pytest.fixture(scope="module")
def kernel_matrix():
    """Of 600 examples, and their labels."""
    random = np.random.default_rng(0)
    X = random.standard_normal((600, 5))
    return np.exp(-0.2 * ((X[:, None] - X[None]) ** 2).sum(axis=2)), np.where(X.sum(1) > 0, 1, -1)


@pytest.mark.parametrize(("bias", "copies"), [(None, 2), (1.0, 3)])
def test_a_dense_kernel_matrix_is_not_made_sparse(kernel_matrix, bias, copies):
    """Newton's method takes two matrices, and b^2 is added to a copy; sparse rows took four."""
    (K, y), kept = kernel_matrix, kernel_matrix[0].copy()
    estimator = ODMClassifier(kernel="precomputed", lambda_=2.0**10, bias=bias)
    estimator.fit(K[:60, :60], y[:60])  # what is imported does not count
    tracemalloc.start()
    try:
        estimator.fit(K, y)
        of_fit = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        estimator.predict(K)
        of_predict = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert of_fit < (copies + 0.5) * K.nbytes and of_predict < K.nbytes
    assert np.array_equal(K, kept)


@pytest.mark.parametrize("each", [ODMClassifier, LDMClassifier, MulticlassODMClassifier])
@pytest.mark.parametrize("bias", [None, 1.0])
def test_a_kernel_matrix_may_lie_in_any_form(each, bias, kernel_matrix):
    K, y = kernel_matrix[0][:90, :90], kernel_matrix[1][:90] + (np.arange(90) < 20)
    locked = K.copy()
    locked.flags.writeable = False
    forms = [K, locked, np.asfortranarray(K), K.astype(np.float32), sparse.csr_matrix(K)]
    estimator = each(kernel="precomputed", lambda_=64.0, tol=1e-6, bias=bias, probability=True)
    first, *others = [
        (fitted.decision_function(form), fitted.predict_proba(form))
        for form in forms for fitted in [clone(estimator).fit(form, y)]
    ]  # fmt: skip
    for other in others:
        np.testing.assert_allclose(other[0], first[0], rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(other[1], first[1], rtol=1e-3, atol=1e-3)


def test_a_dense_kernel_matrix_is_symmetric(kernel_matrix, monkeypatch):
    K, y = kernel_matrix[0][:20, :20], kernel_matrix[1][:20]
    monkeypatch.setattr(kernels, "_TILE", 7)
    for i, j in ((0, 19), (19, 0), (8, 9), (6, 7)):
        wrong = K.copy()
        wrong[i, j] += 0.1
        names = f"{min(i, j) + 1},{max(i, j) + 1}"
        with pytest.raises(DataError, match=rf"not symmetric: K\({names}\) is"):
            ODMClassifier(kernel="precomputed").fit(wrong, y)


def test_a_stock_model_takes_kernel_values_that_are_too_few(kernel_matrix, tmp_path):
    """As odm-predict: what is missing is 0."""
    K, y = kernel_matrix[0][:40, :40], kernel_matrix[1][:40]
    ODMClassifier(kernel="precomputed").fit(K, y).save(tmp_path / "m")
    stock = (tmp_path / "m").read_bytes().split(BLOCK)[0].replace(b" \n", b"\n", 1)
    (tmp_path / "m").write_bytes(stock)
    loaded = load_model(tmp_path / "m")
    assert loaded.n_features_in_ is None
    given = np.hstack([K[:, :30], np.zeros((40, 10))])
    expected = loaded.decision_function(given)
    np.testing.assert_allclose(loaded.decision_function(K[:, :30]), expected, atol=1e-12)


def test_a_fit_that_fails_leaves_the_estimator_as_it_was(iris):
    X, y = iris
    for estimator in (M3SVMClassifier(), ODMClassifier()):
        answers = estimator.fit(X, y).predict(X)
        with pytest.raises(ValueError, match="weights"):
            estimator.fit(X[:, :2], y, sample_weight=-np.ones(len(y)))
        assert estimator.n_features_in_ == 4
        assert np.array_equal(estimator.predict(X), answers)
    untrained = ODMClassifier(tol=-1.0)
    with pytest.raises(ValueError, match="tol"):
        untrained.fit(X, y)
    assert not hasattr(untrained, "n_features_in_")


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_the_example_whose_values_overflow_is_named(iris, kernel, container):
    """Also where the mean of all is taken off, and where others are left out."""
    X, y = iris[0].copy(), iris[1]
    X[77, 2] = -1e200
    for weight in (np.ones(len(y)), np.arange(len(y)) >= 9):
        with pytest.raises(DataError, match="values of example 78 are so large"):
            ODMClassifier(kernel=kernel, gamma=0.5, lambda_=1.0).fit(
                container(X), y, sample_weight=weight
            )


@pytest.mark.parametrize("values", [0.0, 1.0, 3.7])
def test_where_zero_is_the_solution_m3svm_has_converged(values, recwarn):
    """Classes that balance each other: of the gradient rounding is left."""
    for kind in ({}, {"power": 1.0}, {"tol": 1e-9}):
        fitted = M3SVMClassifier(**kind).fit(np.full((150, 4), values), np.arange(150) % 3)
        assert fitted.converged_ and fitted.n_iter_ == 0 and not fitted.coef_.any()
    assert not recwarn.list


def test_several_classes_are_taken_as_by_the_commands(iris, tmp_path, run):
    """Without a kernel by mcodm, unless another way is asked for, or a solver that it has not."""
    X, y = iris
    expected = [
        ({}, "mcodm"), ({"solver": "newton"}, "mcodm"), ({"multiclass": "ovr"}, "odm"),
        ({"kernel": "rbf"}, "odm"), ({"solver": "svrg"}, "odm"),
    ]  # fmt: skip
    text = "\n".join(
        f"{label} " + " ".join(f"{j + 1}:{value!r}" for j, value in enumerate(row))
        for label, row in zip(y.tolist(), X.tolist(), strict=True)
    )
    (tmp_path / "d").write_text(text + "\n")
    for parameters, machine in expected:
        fitted = ODMClassifier(lambda_=4.0, bias=None, **parameters).fit(X, y)
        assert fitted.model_.facts["machine"] == machine
        words = [word for name, value in parameters.items() for word in (f"--{name}", value)]
        outcome = run("train", "-l", "4", *words, tmp_path / "d", tmp_path / "m")
        assert outcome.code == 0 and load_model(tmp_path / "m").facts["machine"] == machine
    two = y != y[0]
    assert ODMClassifier().fit(X[two], y[two]).model_.facts["machine"] == "odm"
    assert LDMClassifier().fit(X, y).model_.facts["machine"] == "ldm"
