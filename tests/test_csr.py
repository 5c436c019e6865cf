"""Compressed rows give what SciPy's matrices give, bit by bit."""

import numpy as np
import pytest
from scipy import sparse

from odmtool.core import csr
from odmtool.core.columns import with_constant_feature, with_width
from odmtool.core.csr import CSR, compiled, scipy_rows
from odmtool.core.labels import distinct
from odmtool.io.model_write import write_model
from odmtool.machines import ODM
from odmtool.solvers.newton.hessian import ChangingHessian, regularised_gram


@pytest.fixture(params=[(7, 5), (1, 3), (4, 0), (0, 4), (30, 40)])
def matrix(request):
    m, d = request.param
    rng = np.random.default_rng(m)
    dense = rng.standard_normal((m, d)) * (rng.random((m, d)) < 0.4)
    return sparse.csr_matrix(dense)


def same(ours, theirs) -> bool:
    ours, theirs = (X if isinstance(X, np.ndarray) else X.toarray() for X in (ours, theirs))
    return ours.shape == theirs.shape and np.array_equal(ours, theirs)


@pytest.mark.parametrize("entries", [1, 9, 2**16])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_products(matrix, kind, entries, monkeypatch):
    monkeypatch.setattr(csr, "_ENTRIES", entries)
    rng, (m, d) = np.random.default_rng(1), matrix.shape
    X = CSR(matrix.data, matrix.indices.astype(kind), matrix.indptr.astype(kind), (m, d))
    w, W, v = rng.standard_normal(d), rng.standard_normal((d, 3)), rng.standard_normal(m)
    assert X.nnz == matrix.nnz and same(X, matrix) and same(scipy_rows(X), matrix)
    assert same(X @ w, matrix @ w) and same(X @ W, matrix @ W)
    assert same(X @ W[:, ::2], matrix @ W[:, ::2]) and same(X.T @ v, matrix.T @ v)
    assert same(X.gram(), (matrix.T @ matrix).toarray())
    assert np.allclose(X.squares(), (matrix.toarray() ** 2).sum(axis=1))
    assert np.allclose(X.weighted_squares(v), matrix.multiply(matrix).T @ v, rtol=1e-14, atol=0)
    assert same(X.scaled(v), matrix.multiply(v[:, None]))
    for right, product in ((w[1:], lambda v: X @ v), (v[1:], lambda v: X.T @ v)):
        if len(right):
            with pytest.raises(ValueError):
                product(right)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_products_of_sparse_matrices(matrix, kind):
    X = CSR(matrix.data, matrix.indices.astype(kind), matrix.indptr.astype(kind), matrix.shape)
    some = X[: X.shape[0] // 2 + 1]
    assert same(X.turned, matrix.T)
    assert same(some.times(X.turned), matrix[: X.shape[0] // 2 + 1] @ matrix.T)
    assert same(X.turned.times(X), X.gram())


def test_parts_and_widths(matrix):
    X, (m, d) = CSR.of(matrix), matrix.shape
    places = np.random.default_rng(2).integers(0, max(m, 1), 2 * m)
    for rows in (places, np.arange(m) % 2 == 0, slice(1, None, 2), slice(0, 0)):
        assert same(X[rows], matrix[rows])
    assert same(X[places.tolist()], matrix[places])
    if m:
        assert same(X[m - 1], matrix[m - 1])
    for width in (0, 1, d, d + 2):
        assert same(with_width(X, width), with_width(matrix, width))
    for bias in (-1.0, 0.0, 2.0):
        assert same(with_constant_feature(X, bias), with_constant_feature(matrix, bias))


@pytest.mark.parametrize("options", [
    {}, {"kernel": "poly", "bias": 1.0}, {"multiclass": "ovr"}, {"multiclass": "ovo"},
])  # fmt: skip
def test_a_kernel_machine_makes_the_same_model_of_either(options, tmp_path):
    rng = np.random.default_rng(0)
    X = sparse.csr_matrix(np.round(rng.standard_normal((60, 4)), 1))
    labels = rng.integers(0, 3 if "multiclass" in options else 2, 60)
    weight = np.r_[0.0, np.ones(59)]
    models = []
    for rows in (X, CSR.of(X)):
        machine = ODM(**{"kernel": "rbf", "gamma": 0.5, **options}).fit(rows, labels, weight)
        assert isinstance(machine.model_.support_vectors, type(rows))
        write_model(str(tmp_path / "m"), machine.model_)
        models.append((tmp_path / "m").read_bytes())
    assert models[0] == models[1]


def test_the_hessian_is_that_of_dense_rows(matrix):
    s = np.random.default_rng(3).random(matrix.shape[0])
    dense = matrix.toarray()
    for rows in (CSR.of(matrix), matrix, dense):
        H = regularised_gram(rows, np.flatnonzero(s > 0.3), s)
        expected = np.eye(matrix.shape[1]) + (dense[s > 0.3].T * s[s > 0.3]) @ dense[s > 0.3]
        assert np.allclose(H, expected, rtol=1e-13)


def test_a_hessian_follows_its_weights(matrix):
    """Also after rows that were so large that taking them away leaves rounding only."""
    dense, s = matrix.toarray(), np.random.default_rng(4).random(matrix.shape[0])
    few, odd = s.copy(), np.arange(len(s)) % 2 == 1
    few[::5] = 0.0
    for rows in (CSR.of(matrix), dense):
        hessian = ChangingHessian(rows)
        for weights in (s, few, s * odd, 1e20 * s, s, s):
            expected = np.eye(matrix.shape[1]) + (dense.T * weights) @ dense
            assert np.allclose(hessian.at(weights), expected, rtol=1e-7)


def test_scipy_whole_where_its_parts_are_not_found(monkeypatch):
    alone = compiled("sparse", "_sparsetools")
    monkeypatch.setattr(csr.util, "find_spec", lambda name: None)
    whole = compiled.__wrapped__("sparse", "_sparsetools")
    assert whole is sparse._sparsetools and whole is not alone


@pytest.mark.parametrize("labels", [[], [3], [2, -1, 2, 7, -1], [0.5, 0.5, -1.0]])
def test_distinct_labels(labels):
    values, first = np.unique(np.array(labels), return_index=True)
    ours = distinct(np.array(labels))
    assert np.array_equal(ours[0], values) and np.array_equal(ours[1], first)


def test_a_hessian_from_which_large_rows_were_taken():
    """At the first change, too, when the largest numbers so far are those of that change."""
    dense, few = np.random.default_rng(6).standard_normal((9, 4)), np.arange(9.0)
    expected = np.eye(4) + (dense.T * few) @ dense
    for size in (1e17, 1e11):
        hessian = ChangingHessian(dense)
        hessian.at(np.where(few == 0, size, few))
        np.testing.assert_allclose(hessian.at(few), expected, rtol=1e-7)
