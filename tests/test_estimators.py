"""The estimators beside the machines and commands they stand for, and beside scikit-learn."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from estimator_cases import ESTIMATORS, each_estimator, scaled
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn import model_selection
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.ensemble import StackingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from stock import run as stock

from odmtool import (
    LDMClassifier,
    ODMClassifier,
    load_model,
    load_svmlight,
)
from odmtool.errors import ModelError
from odmtool.estimators.labels import decode, encode
from odmtool.io.model_file import read_model
from odmtool.io.model_write import write_model
from odmtool.io.svmlight import write_svmlight


def fitted(estimator, X, y, **weight):
    return clone(estimator).fit(X, y, **weight)


# ---- the same as the commands -----------------------------------------------------------


@pytest.mark.parametrize(
    "estimator, options",
    [
        (ODMClassifier(bias=None), "-s odm"),
        (ODMClassifier(kernel="rbf", gamma=0.5, cost=2.0), "-t rbf -g .5 -c 2 -B 1"),
        (LDMClassifier(lambda_=64.0, mu1=2.0), "-s ldm -l 64 --mu1 2 -B 1"),
        (ODMClassifier(kernel="poly", degree=2, gamma="auto"), "-t poly -d 2 -g 1/d -B 1"),
        (ODMClassifier(probability=True, random_state=3), "-b 1 --seed 3 -B 1"),
    ],
    ids=repr,
)
def test_the_model_is_that_of_the_command(run, heart, estimator, options):
    assert run("train", *options.split(), heart, "by.command").code == 0
    X, y = load_svmlight(heart)
    estimator.fit(X, y).save("by.estimator")
    theirs, ours = read_model("by.command"), read_model("by.estimator")
    assert ours.facts.items() <= theirs.facts.items()
    for name, value in vars(theirs).items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(getattr(ours, name), value, err_msg=name)


@each_estimator
def test_what_is_saved_predicts_the_same(estimator, iris, tmp_path):
    X, y = iris
    estimator = fitted(estimator, X, y)
    estimator.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), estimator.predict(X))
    np.testing.assert_array_equal(loaded.decision_function(X), estimator.decision_function(X))
    np.testing.assert_array_equal(loaded.classes_, estimator.classes_)
    assert loaded.n_features_in_ == 4 and float(loaded.facts["gap"]) == estimator.gap_


@pytest.mark.parametrize("kernel, judge", [("linear", "liblinear-predict"), ("rbf", "svm-predict")])
@pytest.mark.parametrize("name", ["breast-cancer", "wine"])
def test_the_stock_predictors_give_our_labels(tmp_path, monkeypatch, kernel, judge, name):
    monkeypatch.chdir(tmp_path)
    X, y = scaled(name)
    estimator = ODMClassifier(kernel=kernel).fit(X, y)
    estimator.save("model")
    with open("rows", "w") as stream:
        write_svmlight(stream, sparse.csr_matrix(X), y)
    stock(judge, "rows", "model", "labels")
    np.testing.assert_array_equal(np.loadtxt("labels", dtype=int), estimator.predict(X))


@pytest.mark.parametrize(
    "train, predict, options",
    [
        ("svm-train", "svm-predict", ["-t", "2", "-q"]),
        ("svm-train", "svm-predict", ["-t", "0", "-b", "1", "-q"]),
        ("liblinear-train", "liblinear-predict", ["-s", "2", "-B", "1", "-q"]),
        ("liblinear-train", "liblinear-predict", ["-s", "0", "-q"]),
    ],
)
@pytest.mark.parametrize("name", ["breast-cancer", "iris"])
def test_models_of_the_stock_tools_predict(tmp_path, train, predict, options, name):
    rows, model, labels = (str(tmp_path / file) for file in ("rows", "model", "labels"))
    X, y = scaled(name)
    with open(rows, "w") as stream:
        write_svmlight(stream, sparse.csr_matrix(X), y)
    stock(train, *options, rows, model)
    stock(predict, rows, model, labels)
    loaded = load_model(model)
    np.testing.assert_array_equal(loaded.classes_, np.unique(y))
    predicted, values = loaded.predict(X), loaded.decision_function(X)
    np.testing.assert_array_equal(predicted, np.loadtxt(labels, dtype=int))
    best = values.argmax(axis=1) if values.ndim == 2 else (values > 0).astype(int)
    np.testing.assert_array_equal(loaded.classes_[best], predicted)
    if loaded.model_.has_probabilities:
        assert loaded.predict_proba(X).shape == (len(y), len(loaded.classes_))
        probabilities = np.exp(loaded.predict_log_proba(X))
        np.testing.assert_allclose(probabilities, loaded.predict_proba(X), rtol=1e-12)
    else:
        assert not hasattr(loaded, "predict_proba") and not hasattr(loaded, "predict_log_proba")


# ---- labels -----------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3])
@each_estimator
def test_texts_are_labels_as_good_as_integers(estimator, k, iris, tmp_path):
    X, y = iris
    X, y = X[y <= k], y[y <= k]
    names = np.array(["", "zèbre\n#2", 'b "quoted" \\', "abc\x7f\x00 "])[y]
    of_numbers, of_names = fitted(estimator, X, y), fitted(estimator, X, names)
    np.testing.assert_array_equal(of_names.classes_, np.unique(names))
    of_names.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.classes_, of_names.classes_)
    np.testing.assert_array_equal(loaded.predict(X), of_names.predict(X))
    assert of_names.score(X, names) == pytest.approx(of_numbers.score(X, y), abs=0.05)


labels = st.one_of(
    st.lists(st.text(), min_size=2, max_size=5, unique=True).map(np.array),
    st.lists(st.integers(-(2**31), 2**31 - 1), min_size=2, max_size=5, unique=True).map(np.array),
)


@settings(max_examples=40)
@given(labels)
def test_labels_come_back(y):
    classes, codes, facts = encode(y)
    np.testing.assert_array_equal(decode(list(set(codes.tolist())), facts), classes)
    np.testing.assert_array_equal(np.argsort(np.argsort(y)), np.argsort(np.argsort(codes)))
    assert (y.dtype.kind == "i") == (not facts)


def test_other_numbers_are_labels_if_they_are_whole():
    for y in ([1.0, 2.0], [True, False], np.array([3, 5], dtype=object), np.array([3, 5], "u1")):
        classes, codes, facts = encode(np.asarray(y))
        assert not facts and (classes[np.searchsorted(classes, codes)] == y).all()
    assert encode(np.array([1, 2**40]))[2] == {"label_0": "1", "label_1": str(2**40)}


def test_a_model_whose_labels_are_damaged_is_refused(cancer, tmp_path):
    estimator = ODMClassifier().fit(cancer[0], np.where(cancer[1] > 0, "a", "b"))
    estimator.model_.facts["label_0"] = "\\"
    write_model(str(tmp_path / "model"), estimator.model_)
    with pytest.raises(ModelError, match="model: a label_ line"):
        load_model(tmp_path / "model")


# ---- decision values ----------------------------------------------------------------------


@each_estimator
def test_decision_values_are_as_in_scikit_learn(estimator, iris, cancer):
    X, y = cancer
    binary = fitted(estimator, X, np.where(y > 0, "a", "b"))
    values = binary.decision_function(X)
    np.testing.assert_array_equal(binary.predict(X), binary.classes_[(values > 0).astype(int)])
    X, y = iris
    several = fitted(estimator, X, y[::-1])
    values = several.decision_function(X)
    assert values.shape == (len(y), 3)
    np.testing.assert_array_equal(several.predict(X), several.classes_[values.argmax(axis=1)])


@pytest.mark.parametrize(
    "estimator", [one for one in ESTIMATORS if getattr(one, "kernel", "") != "rbf"], ids=repr
)
@pytest.mark.parametrize("name", ["iris", "breast-cancer"])
def test_linear_machines_have_weights(estimator, name):
    X, y = scaled(name)
    estimator = fitted(estimator, X, y)
    values = X @ estimator.coef_.T + estimator.intercept_
    k = len(estimator.classes_)
    assert estimator.intercept_.shape == (1 if k == 2 else k,)
    values = values[:, 0] if k == 2 else values
    np.testing.assert_allclose(values, estimator.decision_function(X), rtol=1e-9, atol=1e-9)


def test_others_have_none(iris):
    assert not hasattr(ODMClassifier(kernel="rbf").fit(*iris), "coef_")
    assert not hasattr(ODMClassifier(multiclass="ovo").fit(*iris), "intercept_")
    without = ODMClassifier(bias=None).fit(*iris)
    np.testing.assert_array_equal(without.intercept_, np.zeros(3))


def test_votes_of_pairs_become_columns(iris):
    X, y = iris
    ours = ODMClassifier(multiclass="ovo", tol=1e-10, cost=1.0).fit(X, y)
    theirs = OneVsOneClassifier(ODMClassifier(tol=1e-10, cost=1.0)).fit(X, y)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_allclose(
        ours.decision_function(X), theirs.decision_function(X), rtol=1e-5, atol=1e-5
    )


def test_votes_that_tie_go_to_the_first_class(run, iris, tmp_path):
    """As the documentation has it; the largest of the values may be another one's."""
    X, y = iris
    places = np.random.default_rng(0).uniform(X.min(0) - 1, X.max(0) + 1, (2000, X.shape[1]))
    fit = ODMClassifier(kernel="rbf").fit(X, y)
    with open("data", "w") as stream:
        write_svmlight(stream, sparse.csr_matrix(X[::-1]), y[::-1])
    assert run("train", "-q", "-s", "odm", "-t", "rbf", "data", "model").code == 0
    ties = 0
    for model in (fit, load_model("model")):
        values = model.decision_function(places)
        votes, labels = np.rint(values), np.array(model.model_.labels)
        in_order = votes[:, np.searchsorted(model.classes_, labels)]
        predicted = model.predict(places)
        np.testing.assert_array_equal(predicted, labels[in_order.argmax(axis=1)])
        ties += np.count_nonzero(predicted != model.classes_[values.argmax(axis=1)])
    assert fit.model_.labels != load_model("model").model_.labels and ties > 0


# ---- probabilities --------------------------------------------------------------------------


@each_estimator
def test_probabilities_if_asked_for(estimator, iris, tmp_path):
    X, y = iris
    with pytest.raises(AttributeError, match="probability=True"):
        fitted(estimator, X, y).predict_proba(X)
    estimator = fitted(clone(estimator).set_params(probability=True), X, y)
    p = estimator.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert (estimator.classes_[p.argmax(axis=1)] == y).mean() > 0.85
    estimator.save(tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict_proba(X), p)


def test_probabilities_follow_the_order_of_the_classes(cancer):
    X, y = cancer
    p = ODMClassifier(probability=True).fit(X, y).predict_proba(X)
    swapped = ODMClassifier(probability=True).fit(X, -y).predict_proba(X)
    assert (np.array([-1, 1])[p.argmax(axis=1)] == y).mean() > 0.9
    assert (np.array([-1, 1])[swapped.argmax(axis=1)] == -y).mean() > 0.9


# ---- weights ----------------------------------------------------------------------------------


def test_scikit_learn_knows_probabilities_by_their_name(cancer):
    """What it finds under another name it takes for something else: two columns are no labels."""
    X, y = cancer
    machine = ODMClassifier(probability=True)
    assert machine.fit(X, y).predict_proba.__name__ == "predict_proba"
    if hasattr(model_selection, "FixedThresholdClassifier"):  # scikit-learn 1.5 and later
        labels = model_selection.FixedThresholdClassifier(machine).fit(X, y).predict(X)
        assert labels.shape == y.shape and (labels == y).mean() > 0.9
    stacked = StackingClassifier([("odm", machine)], cv=3).fit(X, y)
    assert stacked.score(X, y) > 0.9


def test_entries_that_stand_twice_are_one_number():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(40, 3)), np.tile([0, 1], 20)
    places = np.repeat(np.tile(np.arange(3), 40), 2)
    twice = sparse.csr_matrix((np.repeat(X.ravel() / 2, 2), places, np.arange(41) * 6), (40, 3))
    assert not twice.has_canonical_format
    for gamma in (None, "scale"):
        once, other = (ODMClassifier(kernel="rbf", gamma=gamma).fit(Z, y) for Z in (X, twice))
        assert np.allclose(once.decision_function(X), other.decision_function(X), rtol=1e-9)
        assert twice.nnz == 240


def test_a_weight_is_a_number_of_examples(cancer):
    X, y = cancer
    weight = np.arange(len(y)) % 3
    weighted = ODMClassifier(tol=1e-9).fit(X, y, sample_weight=weight)
    repeated = ODMClassifier(tol=1e-9).fit(X.repeat(weight, axis=0), y.repeat(weight))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6)


@pytest.mark.parametrize("estimator", [
    LDMClassifier(kernel="rbf"), LDMClassifier(multiclass="ovo"), ODMClassifier(multiclass="ovo")
])  # fmt: skip
def test_the_only_class_of_some_weight_is_predicted(estimator):
    """Without a warning of NumPy's; the pair of the other two has nothing to learn from."""
    X, y = load_iris(return_X_y=True)
    for weight, of_classes in (((y == 2) * 1.0, None), (None, {0: 0, 1: 0})):
        machine = clone(estimator).set_params(class_weight=of_classes)
        assert np.all(machine.fit(X, y, sample_weight=weight).predict(X) == 2)


def test_balanced_classes_have_the_same_total(cancer):
    X, y = cancer
    y, weight = np.where(y > 0, "sick", "sound"), np.linspace(0.5, 2, len(y))
    total, sick = weight.sum(), weight[y == "sick"].sum()
    given = {"sick": total / 2 / sick, "sound": total / 2 / (total - sick)}
    balanced = ODMClassifier(class_weight="balanced").fit(X, y, sample_weight=weight)
    by_hand = ODMClassifier(class_weight=given).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(balanced.coef_, by_hand.coef_)
    assert np.any(balanced.coef_ != ODMClassifier().fit(X, y, sample_weight=weight).coef_)


def test_a_class_weight_of_no_class_is_said(cancer):
    with pytest.warns(UserWarning, match="'sicc' does not occur"):
        ODMClassifier(class_weight={"sicc": 2}).fit(*cancer)
    with pytest.raises(ValueError, match="class_weight must be a dict"):
        ODMClassifier(class_weight="balance").fit(*cancer)


# ---- among scikit-learn's tools ---------------------------------------------------------------


@each_estimator
def test_clones_and_pickles(estimator, iris):
    X, y = iris
    estimator = fitted(estimator, X, y)
    unused = pickle.dumps(estimator)
    values, labels = estimator.decision_function(X), estimator.predict(X)
    for stored in unused, pickle.dumps(estimator):
        again = pickle.loads(stored)
        np.testing.assert_array_equal(again.decision_function(X), values)
        np.testing.assert_array_equal(again.predict(X), labels)
    assert clone(again).get_params() == estimator.get_params()
    with pytest.raises(NotFittedError):
        clone(again).predict(X)


def test_a_search_over_a_pipeline(iris):
    X, y = iris
    names = np.array(["setosa", "versicolor", "virginica"])[y - 1]
    pipeline = make_pipeline(StandardScaler(), ODMClassifier(kernel="rbf"))
    grid = {"odmclassifier__lambda_": [1.0, 2.0**10], "odmclassifier__gamma": [0.1, "scale"]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, names)
    assert search.best_score_ > 0.9 and search.best_params_.keys() == grid.keys()
    assert set(search.predict(X)) == set(names)
    calibrated = CalibratedClassifierCV(ODMClassifier(), cv=3).fit(X, names)
    assert calibrated.predict_proba(X).shape == (len(y), 3)


def test_sparse_and_dense_rows_are_the_same(cancer):
    X, y = cancer
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    dense = ODMClassifier(kernel="rbf").fit(X, y)
    for container in (sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix):
        other = ODMClassifier(kernel="rbf").fit(container(X), y)
        np.testing.assert_allclose(
            other.decision_function(container(X)), dense.decision_function(X), rtol=1e-6
        )


# ---- loaded models and data ---------------------------------------------------------------------


def test_pandas_names_are_remembered(cancer):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(cancer[0], columns=[f"feature {j}" for j in range(30)])
    assert ODMClassifier().fit(frame, cancer[1]).feature_names_in_[0] == "feature 0"


def test_a_loaded_model_knows_its_width(cancer, tmp_path):
    X, y = cancer
    ODMClassifier().fit(X, y).save(tmp_path / "model")
    loaded = load_model(str(tmp_path / "model"))
    assert repr(loaded) == "<model of odm, classes -1, 1>"
    with pytest.raises(ValueError, match="X has 29 features, the training data had 30"):
        loaded.predict(X[:, 1:])
    narrow = sparse.csr_matrix(X)[:, :7]
    assert loaded.predict(narrow).shape == (len(y),)


@each_estimator
@pytest.mark.parametrize("name", ["iris", "breast-cancer"])
def test_a_loaded_model_has_the_weights_of_its_estimator(estimator, name, tmp_path):
    X, y = scaled(name)
    estimator = fitted(estimator, X, y)
    estimator.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    for weights in ("coef_", "intercept_"):
        if hasattr(estimator, weights):
            np.testing.assert_array_equal(getattr(loaded, weights), getattr(estimator, weights))
            continue
        with pytest.raises(AttributeError, match="exist for kernel='linear' with one function"):
            getattr(loaded, weights)


def test_weights_of_loaded_models_that_no_estimator_makes(run, cancer, tmp_path):
    X, y = cancer
    with open("data", "w") as stream:
        write_svmlight(stream, sparse.csr_matrix(X), y)
    stock("liblinear-train", "-q", "-s", "4", "-B", "1", "data", "crammer")
    (tmp_path / "one").write_text("1 1:2 3:4\n1 2:1\n")
    assert run("train", "-q", "one", "class").code == 0
    for file, rows in (("crammer", X), ("class", load_svmlight("one")[0].toarray())):
        loaded = load_model(file)
        values = rows @ loaded.coef_.T + loaded.intercept_
        expected = loaded.decision_function(rows)
        np.testing.assert_allclose(values.reshape(expected.shape), expected, rtol=1e-9)
    assert run("train", "-q", "--scale", "0,1", "data", "scaled").code == 0
    with pytest.raises(AttributeError, match="the model scales the rows itself"):
        load_model("scaled").coef_  # noqa: B018


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_scikit_learn_takes_a_loaded_model_for_a_classifier(iris, tmp_path, kernel):
    X, y = iris
    ODMClassifier(kernel=kernel).fit(X, y).save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert is_classifier(loaded)
    assert get_scorer("accuracy")(loaded, X, y) == loaded.score(X, y) > 0.9
    with pytest.raises(ValueError, match="a loaded model cannot be trained again"):
        loaded.fit(X, y)
    frozen = pytest.importorskip("sklearn.frozen", reason="scikit-learn 1.6")
    calibrated = CalibratedClassifierCV(frozen.FrozenEstimator(loaded)).fit(X, y)
    assert calibrated.score(X, y) > 0.9


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_models_of_one_class_and_rows_without_a_feature(run, tmp_path, kernel):
    (tmp_path / "data").write_text("1 1:2 3:4\n1 2:1\n")
    (tmp_path / "empty").write_text("1\n1\n")
    assert run("train", "-q", "-t", kernel, "data", "model").code == 0
    loaded, (X, y) = load_model("model"), load_svmlight("data")
    empty, _ = load_svmlight("empty")
    assert loaded.decision_function(X).shape == loaded.decision_function(empty).shape == (2, 1)
    assert loaded.predict(X).tolist() == loaded.predict(empty).tolist() == y.tolist()
    with pytest.raises(ValueError, match="at least one of each"):
        loaded.predict(np.empty((2, 0)))


def test_data_files_have_a_width(tmp_path):
    (tmp_path / "data").write_text("1 1:2 3:4\n-1 2:1\n")
    X, y = load_svmlight(tmp_path / "data", n_features=5)
    assert X.shape == (2, 5) and y.tolist() == [1, -1]
    shifted, _ = load_svmlight(tmp_path / "data", zero_based=True)
    assert shifted.shape == (2, 4) and shifted[0, 1] == 2


def test_a_degree_that_is_no_whole_number_is_refused():
    """It was cut off, and the estimator went on showing what it was given."""
    with pytest.raises(ValueError, match="degree must be a whole number, not 2.5"):
        ODMClassifier(kernel="poly", degree=2.5).fit([[0.0], [1.0]], [0, 1])
