"""What of the examples' length many share, by the eigenvalues of their products."""

import numpy as np
import pytest
from scipy import sparse

from odmtool import ODMClassifier
from odmtool.core.csr import CSR
from odmtool.machines import shared_length
from odmtool.machines.shared_length import over_typical


def rows_of(eigenvalues, d=90, seed=0):
    """Rows whose products have these eigenvalues."""
    rng = np.random.default_rng(seed)
    n = len(eigenvalues)
    U = np.linalg.qr(rng.normal(size=(n, n)))[0]
    V = np.linalg.qr(rng.normal(size=(d, n)))[0]
    return (U * np.sqrt(eigenvalues)) @ V.T


def compressed(X):
    return CSR.of(sparse.csr_matrix(X))


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, compressed])
def test_by_the_eigenvalues(kind):
    ones = np.ones(40)
    flat = np.r_[300.0, 200.0, 100.0, np.full(37, 2.0)]
    assert over_typical(kind(rows_of(flat)), ones) == pytest.approx(4 * (flat.mean() / 2 - 1))
    falling = 100.0 * 0.8 ** np.arange(40)
    expected = 4 * (falling.mean() / falling[20] - 1) * (falling[36] / falling[20]) ** 2
    assert over_typical(kind(rows_of(falling)), ones) == pytest.approx(expected, rel=1e-6)
    assert over_typical(kind(rows_of(np.full(40, 3.0))), ones) == pytest.approx(0, abs=1e-9)


def test_a_mean_is_a_direction_or_is_taken_away():
    X, ones = rows_of(np.full(40, 2.0)), np.ones(40)
    shifted = X + 0.5
    assert over_typical(shifted, ones) > 10
    weight = np.random.default_rng(1).uniform(0.5, 2, 40)
    for u in (ones, weight):
        about = shifted - (u @ shifted) / u.sum()
        found = over_typical(shifted, u, is_centred=True)
        assert found == pytest.approx(over_typical(about, u), rel=1e-6)


def test_weight_two_is_the_example_twice_and_of_many_some_are_looked_at(monkeypatch):
    X = rows_of(np.r_[300.0, 200.0, np.full(38, 2.0)])
    weight = np.where(np.arange(40) % 3 == 0, 2.0, 1.0)
    twice = np.vstack([X, X[weight == 2]])
    for is_centred in (False, True):
        found = over_typical(X, weight, is_centred)
        assert over_typical(twice, np.ones(len(twice)), is_centred) == pytest.approx(found)
    without = np.where(np.arange(40) < 30, 1.0, 0.0)
    assert over_typical(X, without) == pytest.approx(over_typical(X[:30], np.ones(30)))
    monkeypatch.setattr(shared_length, "_LOOKED_AT", 20)
    some = X[np.linspace(0, 39, 20).astype(int)]
    assert over_typical(X, np.ones(40)) == over_typical(some, np.ones(20)) != 1.0


def test_no_numbers_share_nothing():
    assert over_typical(np.zeros((5, 9)), np.ones(5)) == 1.0
    assert over_typical(np.full((5, 9), 1e200), np.ones(5)) == 1.0
    X = rows_of(np.r_[300.0, np.full(15, 2.0)])
    assert over_typical(X, np.ones(16)) > 30 and over_typical(X[:15], np.ones(15)) == 1.0  # few


@pytest.mark.parametrize("k", [2, 3])
def test_common_directions_of_wide_data_are_not_counted(k):
    """As those of batches of gene expression: with them lambda was too small to tell classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(k, size=360)
    X = rng.normal(size=(360, 800)) + rng.normal(size=(360, 20)) @ rng.normal(size=(20, 800))
    for label in range(k):
        X[np.ix_(y == label, np.arange(40 * label, 40 * label + 40))] += 1.4 * rng.random(40)
    found = ODMClassifier().fit(X[:120], y[:120])
    length = (X[:120] ** 2).sum(axis=1).mean()
    assert 6 < float(found.model_.facts["lambda"]) * length / 120 < (800 / 120) ** 2 + 1
    assert found.score(X[120:], y[120:]) > 0.8
