"""Ways to kernel values of rows to predict: their bounds, and what single precision decides."""

from __future__ import annotations

import itertools

import model_makers as make
import numpy as np
import pytest
from prediction_twin import naive_pair_values
from scipy.sparse import csr_matrix, vstack

from odmtool.core.kernels import Kernel
from odmtool.models import decide
from odmtool.models.kernel import CompactModel, KernelModel


def hard_rows(rng, shift: float, scale: float) -> tuple[csr_matrix, csr_matrix]:
    """Support vectors, and rows near and far, with a feature that no vector has."""
    vectors = make.sparse_rows(rng, 12, 9).toarray() * scale + shift
    rows = make.sparse_rows(rng, 20, 11).toarray() * scale
    rows[:, :9] += shift
    rows[0, :9], rows[0, 9:] = vectors[0], 0.0
    return csr_matrix(vectors), csr_matrix(rows)


@pytest.mark.parametrize("way", ["single", "double", "compiled"])
@pytest.mark.parametrize("gamma", [0.0, 1e-40, 0.3, 1e3, 1e30])
@pytest.mark.parametrize("shift", [0.0, 30.0, 1e9, 1e17])
def test_values_of_every_way_are_within_its_bound(way, gamma, shift):
    rng = np.random.default_rng(12)
    for scale in (1.0, 1e-2, 1e-25, 1e25):
        vectors, X = hard_rows(rng, shift, scale)
        model = make.kernel_model(rng, Kernel("rbf", gamma=gamma), 3, 4)
        model.support_vectors = vectors
        with np.errstate(all="ignore"):
            _, values, bound = (
                np.concatenate(each, axis=1) if n else each
                for n, each in enumerate(zip(*model._pairs._by_first(X, way), strict=True))
            )
            naive = np.array([naive_pair_values(model, X, row) for row in range(20)])
            # What is no number counts as in doubt.
            assert not (np.abs(values - naive) > bound).any()
            assert (np.isfinite(bound) | ~(bound < np.inf)).all()
            if shift == 0 and scale == 1 and gamma == 0.3:
                assert bound.max() < {"single": 1e-4}.get(way, 1e-12)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_winners_are_sure_where_no_values_within_the_bound_give_others(k):
    """Values with the bound 0 are exact: 0 is a vote for the second class."""
    rng = np.random.default_rng(k)
    pairs_of_k = k * (k - 1) // 2
    values = rng.normal(size=(300, pairs_of_k)).round(1)
    bound = rng.choice([0.0, 0.3, 0.8], (300, pairs_of_k))
    ends = np.cumsum(range(k - 1, 0, -1))[:-1]
    by_first = zip(*(np.split(numbers, ends, axis=1) for numbers in (values, bound)), strict=True)
    best, in_doubt = decide.sure_winners(by_first, 300, k)
    moved = [
        decide.votes(values + np.array(signs) * (bound + 1e-9 * (bound > 0)), k).argmax(axis=1)
        for signs in itertools.product((-1, 1), repeat=pairs_of_k)
    ]
    differs = np.array([(winners != best) for winners in moved]).any(axis=0)
    assert not (differs & ~in_doubt).any() and 0 < in_doubt.sum() < 300
    if k == 2:
        assert (differs == in_doubt).all()


def test_single_precision_is_given_up_where_it_decides_nothing(monkeypatch):
    """Huge coefficients that cancel."""
    monkeypatch.setattr("odmtool.models.rows._MOST_ROWS", 256)
    rng = np.random.default_rng(13)
    X, kernel = csr_matrix(rng.normal(size=(600, 9))), make.KERNELS["rbf"]
    half, coef = make.sparse_rows(rng, 20, 9), rng.normal(size=(20, 1)) * 1e9
    vectors = vstack([half, half]).tocsr()
    coefs = np.vstack([coef, rng.normal(size=(20, 1)) - coef])
    pairs_model = KernelModel([1, 2], kernel, vectors, coefs, np.zeros(1), [20, 20])
    compact = CompactModel([1, 2, 3], kernel, vectors, coefs * np.ones(3), np.zeros(3))
    for model in (pairs_model, compact):
        labels, _ = model.predict_with_values(X)
        assert (model.predict(X) == labels).all()
        assert model._rows._seen == model._rows._in_doubt == 256


def test_compiled_code_is_used_from_some_number_of_rows_on(monkeypatch):
    model = make.kernel_model(np.random.default_rng(14), make.KERNELS["rbf"], 2, 10)
    X = csr_matrix(np.random.default_rng(15).normal(size=(30, 9)))
    before = model.decision_values(X)
    rows = model._rows
    monkeypatch.setattr("odmtool.models.rows.BY_NUMPY", 25 * rows.vectors.shape[0])
    assert (rows.way(25), rows.way(26)) == ("double", "compiled")
    assert np.allclose(model.decision_values(X), before, rtol=1e-12, atol=1e-12)
    rows.expect(26)
    assert rows.way(1) == "compiled"
    refused = make.kernel_model(np.random.default_rng(14), Kernel("rbf", gamma=-0.1), 2, 10)
    refused.expect(10**9)
    assert refused._rows.way(1) == "double"
    labels, _ = refused.predict_with_values(X)
    assert (refused.predict(X) == labels).all() and refused._rows._seen == 0


@pytest.mark.parametrize("widest, way", [(10, "double"), (100, "compiled")])
def test_sparse_vectors_stay_sparse(widest, way, monkeypatch):
    monkeypatch.setattr("odmtool.models.rows.WIDEST", widest)
    monkeypatch.setattr("odmtool.models.rows._WIDE_VECTORS", 16)
    monkeypatch.setattr("odmtool.models.rows.SPARSE_BY_NUMPY", 0)
    rng = np.random.default_rng(16)
    model = make.kernel_model(rng, make.KERNELS["rbf"], 3, 60)
    model.support_vectors = csr_matrix(np.diag(rng.normal(size=60)))
    X = csr_matrix(np.where(rng.random((20, 63)) < 0.2, rng.normal(size=(20, 63)), 0.0))
    labels, values = model.predict_with_values(X)
    assert model._rows.way(20) == way
    naive = np.array([naive_pair_values(model, X, row) for row in range(20)])
    assert np.allclose(values, naive, rtol=1e-12, atol=1e-12)
    assert (model.predict(X) == labels).all() and model._rows._seen == 0
