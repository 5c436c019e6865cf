"""Kernel blocks against their definitions; the row cache against the whole matrix."""

import numpy as np
import pytest
from naive import kernel_matrix
from problems import KERNELS, examples, precomputed_rows
from scipy import sparse

from odmtool.core import kernels
from odmtool.core.gram import Gram, RowCache
from odmtool.core.kernels import Kernel
from odmtool.judge import binary as objective

NAMED = [Kernel("linear"), Kernel("poly", 0.3, 0.5, 3), Kernel("poly", 0.3, -0.5, 0),
         Kernel("rbf", 0.4), Kernel("sigmoid", 0.2, -0.1)]  # fmt: skip


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("kernel", NAMED, ids=str)
def test_block_is_the_definition(kernel, dense):
    X, _ = examples()
    A, B = X[:20], X[15:50]
    expected = kernel_matrix(kernel.name, A.toarray(), B.toarray(), *kernel[1:4])
    if dense:
        A, B = A.toarray(), B.toarray()
    assert kernels.block(kernel, A, B) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    judged = objective.kernel_matrix(kernel, A, B)
    assert judged == pytest.approx(expected, rel=1e-12, abs=1e-12)
    raised = kernels.block(kernel._replace(bias=2.0), A, B)
    assert raised == pytest.approx(expected + 4, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("kernel", [*NAMED, KERNELS["rbf with bias"]], ids=str)
def test_gram_and_diagonal(kernel):
    X, _ = examples()
    K = kernels.gram(kernel, X)
    assert np.array_equal(K, K.T)
    assert np.diagonal(K) == pytest.approx(kernels.diagonal(kernel, X), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("precision", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", [*NAMED, KERNELS["rbf with bias"]], ids=str)
def test_gram_of_several_tiles_is_symmetric_and_the_definition(kernel, precision, monkeypatch):
    monkeypatch.setattr(kernels, "_TILE", 16)
    X = examples(m=50)[0].toarray().astype(precision)
    K = kernels.gram(kernel, X)
    assert K.dtype == precision and np.array_equal(K, K.T)
    rel = 1e-12 if precision == np.float64 else 1e-4
    assert pytest.approx(objective.kernel_matrix(kernel, X, X), rel=rel, abs=rel) == K


def test_very_sparse_rows_stay_sparse_and_agree():
    X = sparse.random(300, 5000, density=0.001, random_state=0, format="csr")
    prepared = kernels.prepare(X)
    assert sparse.issparse(prepared) and prepared.shape[1] == len(np.unique(X.indices)) < 5000
    expected = kernel_matrix("rbf", X.toarray(), X[:7].toarray(), 0.5)
    for rows in (X, prepared):
        K = kernels.block(Kernel("rbf", 0.5), rows, rows[:7])
        assert pytest.approx(expected) == K
    assert isinstance(kernels.prepare(X[:20]), np.ndarray)
    assert sparse.issparse(kernels.prepare(X[:20], limit=100))


def test_far_away_rows_give_exact_values():
    X = np.array([[1e8, 1.0], [1e8, 1.0], [0.0, 0.0]])
    K = kernels.gram(Kernel("rbf", 1.0), X)
    assert np.array_equal(K, [[1, 1, 0], [1, 1, 0], [0, 0, 1]])


def test_precomputed_looks_values_up():
    X, _ = examples(m=12)
    rows = precomputed_rows(X)
    K = rows.toarray()[:, 1:]
    chosen = [7, 2, 11]
    kernel = Kernel("precomputed")
    assert np.array_equal(kernels.block(kernel, rows[:5], rows[chosen]), K[:5][:, chosen])
    assert np.array_equal(kernels.diagonal(kernel, rows), np.ones(12))
    assert np.array_equal(kernels.serial_numbers(rows), np.arange(1, 13))


def test_subset_of_a_gram():
    X, _ = examples(m=15)
    whole = Gram(Kernel("rbf", 0.4), X)
    rows = np.array([3, 14, 1])
    before = whole.subset(rows).matrix()
    K = whole.matrix()
    assert whole.subset(rows).matrix() == pytest.approx(before)
    assert np.array_equal(whole.subset(rows).matrix(), K[np.ix_(rows, rows)])


@pytest.mark.parametrize("capacity", [1, 3, 8, 15])
def test_row_cache_always_has_what_was_fetched(capacity):
    X, _ = examples(m=15)
    gram = Gram(Kernel("rbf", 0.4), X, memory=8 * 15 * capacity)
    K = kernels.gram(Kernel("rbf", 0.4), X)
    cache = RowCache(gram)
    assert cache.capacity == capacity
    generator = np.random.default_rng(0)
    for _ in range(60):
        wanted = generator.permutation(15)[: generator.integers(1, capacity + 1)]
        cache.fetch(wanted)
        assert np.all(cache.slot[wanted] >= 0)
        present = np.flatnonzero(cache.slot >= 0)
        assert len(set(cache.slot[present])) == len(present)
        assert cache.rows[cache.slot[present]] == pytest.approx(K[present])
