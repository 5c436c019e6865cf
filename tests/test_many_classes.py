"""Models of many classes taken in pairs: values made class by class, of some rows at a time."""

from __future__ import annotations

import itertools
import tracemalloc

import model_makers as make
import numpy as np
import pytest
from prediction_twin import naive_kernel_label, naive_pair_values
from scipy.sparse import csr_matrix

from odmtool.core.kernels import Kernel
from odmtool.models import decide
from odmtool.models.kernel import KernelModel
from odmtool.models.most_votes import most_votes

K = 7


@pytest.fixture
def few_are_many(monkeypatch):
    """What is done from a hundred classes on is done from three on, of two classes at a time."""
    monkeypatch.setattr("odmtool.models.kernel.MANY_CLASSES", 3)
    monkeypatch.setattr(decide, "CLASSES_AT_ONCE", 2)
    monkeypatch.setattr(decide, "_SUMS", 1)


@pytest.fixture
def are_few(monkeypatch):
    """So that nothing is done for many classes."""
    return lambda: monkeypatch.setattr("odmtool.models.kernel.MANY_CLASSES", 10**9)


def naive_confidence(values: list[float], k: int) -> list[float]:
    """As scikit-learn's documentation of one against one has it."""
    votes, total = [0] * k, [0.0] * k
    for value, (i, j) in zip(values, itertools.combinations(range(k), 2), strict=True):
        votes[i if value > 0 else j] += 1
        total[i] += value
        total[j] -= value
    return [n + t / (3 * (abs(t) + 1)) for n, t in zip(votes, total, strict=True)]


# ---- most votes without all pairs ---------------------------------------------------------


def naive_most_votes(wins: np.ndarray) -> int:
    """The first class with most votes; ``wins[i, j]``: whether i wins against j."""
    counts = wins.sum(axis=1).tolist()
    return counts.index(max(counts))


@pytest.mark.parametrize("k", [2, 3, 5, 9, 40])
@pytest.mark.parametrize("noise", [0.1, 1.0, 10.0])
def test_the_class_with_most_votes_is_found_whatever_is_guessed(k, noise):
    """From one that wins all its pairs to circles among all classes."""
    rng, m = np.random.default_rng(k), 200
    strength = rng.normal(size=(m, k))
    values = strength[:, :, None] - strength[:, None, :] + noise * rng.normal(size=(m, k, k))
    values = np.triu(values, 1) - np.triu(values, 1).transpose(0, 2, 1)
    asked = np.zeros(m, int)

    def against(label, rows):
        asked[rows] += 1
        bound = np.zeros((len(rows), k))
        bound[:, label] = np.inf
        return values[rows, label], bound

    best, in_doubt = most_votes(against, rng.integers(0, k, m), k)
    expected = [naive_most_votes(one > 0) for one in values]
    assert (best == expected)[~in_doubt].all()
    assert (asked <= k).all()
    if k <= 9:
        assert not in_doubt.any()
    elif noise < 1:
        assert in_doubt.mean() < 0.05 and asked.mean() < k / 4


@pytest.mark.parametrize("k", [3, 4])
def test_what_values_within_the_bound_could_change_is_in_doubt(k):
    rng, m = np.random.default_rng(k), 300
    pairs, places = list(itertools.combinations(range(k), 2)), decide.pairs_of_each(k)
    values = rng.normal(size=(m, len(pairs))).round(1)
    bounds = rng.choice([0.0, 0.3, 0.8], values.shape)

    def against(label, rows):
        other = np.arange(k) != label
        found, bound = np.zeros((2, len(rows), k))
        signs = np.where(np.arange(k) < label, -1, 1)[other]
        found[:, other] = values[rows][:, places[label]] * signs
        bound[:, other], bound[:, label] = bounds[rows][:, places[label]], np.inf
        return found, bound

    best, in_doubt = most_votes(against, rng.integers(0, k, m), k)
    for signs in itertools.product((-1, 1), repeat=len(pairs)):
        moved = decide.votes(values + np.array(signs) * (bounds + 1e-9), k).argmax(axis=1)
        assert (moved == best)[~in_doubt].all()
    assert 0 < in_doubt.sum() < m


# ---- models ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["linear", "poly", "rbf", "sigmoid"])
@pytest.mark.parametrize("n_support", [5, 60])
def test_predictions_are_those_of_the_definition(few_are_many, name, n_support):
    """Also where classes have no vectors."""
    rng = np.random.default_rng(n_support)
    model = make.kernel_model(rng, make.KERNELS[name], K, n_support)
    X = make.sparse_rows(rng, 50, 11)
    naive = [naive_pair_values(model, X, row) for row in range(50)]
    labels, values = model.predict_with_values(X)
    assert np.allclose(values, naive, rtol=1e-12, atol=1e-12)
    expected = [naive_kernel_label(model, one) for one in naive]
    assert labels.tolist() == model.predict(X).tolist() == expected
    found = model.votes_and_confidence(X)
    assert np.allclose(found, [naive_confidence(one, K) for one in naive], rtol=0, atol=1e-12)


def test_precomputed_values_are_taken_in_either_form(few_are_many):
    rng = np.random.default_rng(1)
    model = make.precomputed_model(rng, 60, K)
    values = rng.normal(size=(40, 60))
    X = csr_matrix(np.column_stack([np.arange(1, 41), values]))
    naive = [naive_pair_values(model, X, row) for row in range(40)]
    expected = [naive_kernel_label(model, one) for one in naive]
    assert model.predict(X).tolist() == model.predict(values).tolist() == expected


def test_ties_are_decided_as_the_stock_predictor_does(few_are_many):
    """Classes that are the same: all values are within rounding of 0, on either side."""
    rng, each = np.random.default_rng(2), 5
    model = make.kernel_model(rng, make.KERNELS["rbf"], 4, 4 * each, rho=False)
    model.n_support, shared = [each] * 4, make.sparse_rows(rng, each, 9).toarray()
    model.support_vectors = csr_matrix(np.vstack([shared] * 4))
    coef, signs = rng.normal(size=(each, 1)), np.where(np.arange(3) < np.arange(4)[:, None], -1, 1)
    model.coef = np.concatenate([coef * sign for sign in signs])
    X = make.sparse_rows(rng, 20, 9)
    naive = [naive_pair_values(model, X, row) for row in range(20)]
    assert 0 < np.abs(naive).max() < 1e-14
    expected = [naive_kernel_label(model, one) for one in naive]
    assert model.predict(X).tolist() == expected and len(set(expected)) > 1


def test_a_model_without_vectors_has_the_values_of_its_intercepts(few_are_many):
    rho = np.random.default_rng(3).normal(size=10)
    kernel, nothing = Kernel("rbf", gamma=1.0), csr_matrix((0, 0))
    model = KernelModel([5, 4, 3, 2, 1], kernel, nothing, np.empty((0, 4)), rho, [0] * 5)
    X = make.sparse_rows(np.random.default_rng(4), 6, 3)
    assert model.predict(X).tolist() == [naive_kernel_label(model, (-rho).tolist())] * 6
    assert model.votes_and_confidence(X)[2] == pytest.approx(naive_confidence(-rho, 5))


def test_both_ways_find_the_same(are_few):
    rng, k = np.random.default_rng(5), decide.MANY_CLASSES
    model = make.kernel_model(rng, make.KERNELS["rbf"], k, 3 * k)
    X = make.sparse_rows(rng, 30, 9)
    found = model.predict(X), model.decision_values(X), model.votes_and_confidence(X)
    are_few()
    others = model.predict(X), model.decision_values(X), model.votes_and_confidence(X)
    assert (found[0] == others[0]).all()
    assert np.allclose(found[1], others[1], rtol=1e-12, atol=1e-12)
    assert np.allclose(found[2], others[2], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("is_many", [True, False])
def test_the_pairs_of_all_rows_are_not_held_at_a_time(monkeypatch, are_few, is_many):
    """200 rows of 1000 classes took 2.4 GB; here they would take 24 MB."""
    monkeypatch.setattr("odmtool.models.rows._BLOCK_VALUES", 2**16)
    monkeypatch.setattr(decide, "_SUMS", 2**10)
    if not is_many:
        are_few()
    rng, k, m = np.random.default_rng(6), 100, 600
    for name in ("rbf", "poly"):
        model = make.kernel_model(rng, make.KERNELS[name], k, k)
        X = make.sparse_rows(rng, m, 9)
        model.predict(X[:2])
        for asked in (model.predict, model.votes_and_confidence):
            tracemalloc.start()
            asked(X)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < m * k * (k - 1) / 2 * 8 / 4
