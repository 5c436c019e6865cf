"""Error-correcting output codes: the words, and machines that are decoded by them."""

import numpy as np
import pytest
from multiclass_data import CLASSES, clusters, put

from odmtool.io.model_file import read_model
from odmtool.machines import L1SVM, ODM, codes, reduction
from odmtool.search import together
from odmtool.search.validation import Data


@pytest.mark.parametrize("k, letters, distance", [(3, 3, 2), (4, 7, 4), (5, 15, 8), (7, 63, 32)])
def test_codes_of_few_classes_are_dietterich_and_bakiris(k, letters, distance):
    words = codes.code(k, 0)
    assert words.shape == (k, letters) and codes.length(k) == letters
    assert codes.smallest_distance(words) == distance
    # No letter is another one or its opposite, and none has one class only.
    both = np.hstack([words, -words, np.ones((k, 1)), -np.ones((k, 1))])
    assert np.unique(both, axis=1).shape == both.shape


@pytest.mark.parametrize("k", [8, 11, 12, 26])
def test_codes_of_many_classes_are_the_best_of_some(k):
    words = codes.code(k, 3)
    assert words.shape == (k, codes.length(k)) and set(np.unique(words)) == {-1.0, 1.0}
    both = np.hstack([words, -words, np.ones((k, 1)), -np.ones((k, 1))])
    assert np.unique(both, axis=1).shape == both.shape
    if k < 12:
        again, other = codes.code(k, 3), codes.code(k, 4)
        assert np.array_equal(words, again) and not np.array_equal(words, other)
    one = codes._drawn(k, codes.length(k), np.random.default_rng(3))
    distances = [(a != b).sum() for i, a in enumerate(words) for b in words[:i]]
    assert codes.smallest_distance(words) == min(distances) >= codes.smallest_distance(one)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_decoding_is_by_the_square_loss(kernel):
    X, labels = clusters(4, m=80)
    shared = dict(kernel=kernel, gamma=0.2, tolerance=1e-10, lambda_=50.0)
    whole = ODM(multiclass="ecoc", **shared).fit(X, labels)
    classes, words = whole.classes_, codes.code(4, 0)
    values = []
    for letter in words.T:
        signs = letter[[classes.index(label) for label in labels]].astype(int)
        values.append(ODM(**shared).fit(X, signs, classes=[1, -1]).decision_function(X))
    losses = ((1 - words[:, :, None] * np.array(values)) ** 2).sum(axis=1)
    assert whole.predict(X).tolist() == [classes[place] for place in losses.argmin(axis=0)]


def test_three_classes_are_one_against_the_rest():
    X, labels = clusters(3)
    ovr, ecoc = (L1SVM(multiclass=how, lambda_=9.0).fit(X, labels) for how in ("ovr", "ecoc"))
    assert np.array_equal(ovr.predict(X), ecoc.predict(X))
    assert ecoc.solution_.objective == pytest.approx(ovr.solution_.objective)


def test_the_model_spells_the_words(run):
    put("d", *clusters(5))
    options = ["-q", "-s", "odm", "--multiclass", "ecoc", "-l", "64", "d"]
    assert run("train", *options, "m").code == 0
    facts = read_model("m").facts
    words = [facts[f"code_{label}"] for label in CLASSES[:5]]
    assert {len(word) for word in words} == {15} and len(set(words)) == 5
    assert run("train", "-j", "2", *options, "n").code == 0
    a, b = read_model("m"), read_model("n")
    np.testing.assert_allclose(a.weights, b.weights, rtol=1e-9)


def test_settings_that_share_landmarks_are_decoded_alike():
    X, labels = clusters(4, m=90)
    machine = ODM(kernel="rbf", gamma=0.2, multiclass="ecoc", tolerance=1e-8)
    fold = np.arange(90) % 3
    both = together.Together(machine, [{"lambda_": 20.0}], Data(X, labels, None), fold, 1)
    for _setting, k, found, _seconds in both.results():
        alone = machine.copy(lambda_=20.0).fit(X[fold != k], labels[fold != k])
        assert found.values.shape == (30, 4)
        expected = alone.model_.decision_values(X[fold == k])
        order = [alone.model_.labels.index(label) for label in both._prepared.classes]
        np.testing.assert_allclose(found.values, expected[:, order], atol=1e-3)


def test_places_that_have_no_codes_say_so(run):
    put("d", *clusters(3))
    outcome = run("train", "--cache", ".", "-s", "odm", "--multiclass", "ecoc", "d", "m")
    assert outcome.code == 2 and "--cache here is not for --multiclass ecoc" in outcome.err


def test_only_many_classes_have_a_code():
    machine = ODM(multiclass="ecoc")
    assert reduction.decoder(machine, 2) is None
    assert len(reduction.parts(np.array([0, 1, 0]), 2, machine)) == 1
