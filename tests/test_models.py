"""Prediction: a slow twin that follows the stock predictors step by step is the judge."""

from __future__ import annotations

import dataclasses
import itertools

import model_makers as make
import numpy as np
import pytest
from prediction_twin import (
    naive_kernel,
    naive_kernel_label,
    naive_linear_values,
    naive_pair_values,
    pairs,
)
from scipy.sparse import csr_matrix, vstack

from odmtool.core.kernels import Kernel
from odmtool.models import carry
from odmtool.models import rows as rows_module
from odmtool.models.kernel import KernelModel
from odmtool.models.linear import LinearModel
from odmtool.models.pairs import Pairs

# ---- linear models -------------------------------------------------------------


@pytest.mark.parametrize("bias", [-1.0, 0.0, 2.5])
@pytest.mark.parametrize("n_classes", [1, 2, 3, 6])
def test_linear_values_equal_the_twin_to_the_bit(n_classes, bias):
    rng = np.random.default_rng(0)
    model = make.linear_model(rng, n_classes, 9, bias)
    for width in (4, 9, 14):
        X = make.sparse_rows(rng, 25, width)
        X = vstack([X, csr_matrix((1, width))]).tocsr()
        labels, values = model.predict_with_values(X)
        assert values.shape == (26, 1 if n_classes == 2 else n_classes)
        for row in range(26):
            naive = naive_linear_values(model, X, row)
            assert values[row].tolist() == naive[: values.shape[1]]
            if n_classes == 2:
                expected = model.labels[0 if naive[0] > 0 else 1]
            else:
                expected = model.labels[naive.index(max(naive))]
            assert labels[row] == expected
        assert labels.dtype == np.int64
        assert (model.predict(X) == labels).all()


def test_two_class_crammer_singer_looks_at_the_first_column_only():
    model = LinearModel([5, 7], np.array([[1.0, 3.0]]), solver_type="MCSVM_CS")
    labels, values = model.predict_with_values(csr_matrix([[1.0], [-1.0]]))
    assert labels.tolist() == [5, 7]
    assert values.tolist() == [[1.0], [-1.0]]


def test_linear_ties_go_to_the_second_of_two_and_the_first_of_many():
    nothing = csr_matrix((1, 2))
    assert LinearModel([1, -1], np.ones((2, 1))).predict(nothing).tolist() == [-1]
    assert LinearModel([4, 2, 3], np.ones((2, 3))).predict(nothing).tolist() == [4]


def test_an_overflow_is_decided_as_in_c():
    huge = csr_matrix([[1e308, 1e308]])
    model = LinearModel([4, 2, 3], np.array([[9.0, 9.0, -9.0], [-9.0, 9.0, -9.0]]))
    with np.errstate(all="raise"):
        labels, values = model.predict_with_values(huge)
    assert np.isnan(values[0, 0]) and values[0, 1] == np.inf
    # Nothing is greater than nan, so the first class stays.
    assert labels.tolist() == [4]


def test_linear_model_knows_its_features():
    model = LinearModel([1, -1], np.ones((3, 1)))
    assert model.shares_features(csr_matrix([[0, 0, 1.0, 1.0]]))
    assert not model.shares_features(csr_matrix([[0, 0, 0, 1.0]]))
    assert not model.shares_features(csr_matrix((2, 5)))
    assert not model.is_precomputed


# ---- kernel models -------------------------------------------------------------


def kernel_models(rng):
    for kernel in make.KERNELS.values():
        for n_classes in (2, 3, 5):
            yield make.kernel_model(rng, kernel, n_classes)
            yield make.one_versus_one_carrier(rng, kernel, n_classes)


def rows_for(rng, model) -> csr_matrix:
    """Ordinary, empty, far away, tiny rows, and rows with features the model lacks."""
    width = model.support_vectors.shape[1] + 3
    return vstack(
        [
            make.sparse_rows(rng, 12, width),
            csr_matrix((1, width)),
            make.sparse_rows(rng, 3, width, scale=1e3),
            make.sparse_rows(rng, 3, width, scale=1e-9),
            csr_matrix(([1.0], ([0], [width - 1])), shape=(1, width)),
        ]
    ).tocsr()


def test_kernel_models_agree_with_the_twin():
    rng = np.random.default_rng(1)
    for model in kernel_models(rng):
        X = rows_for(rng, model)
        labels, values = model.predict_with_values(X)
        rows = model._rows
        for row in range(X.shape[0]):
            naive = naive_pair_values(model, X, row)
            size = np.abs(model.coef).sum() * max(1.0, np.abs(values[row]).max())
            assert np.abs(values[row] - naive).max() <= 1e-11 * size
            assert labels[row] == naive_kernel_label(model, naive)
            # The slow way of the model has the order of LIBSVM, to the bit.
            x = pairs(X, row)
            in_order = rows.in_stock_order(X[row])
            for s in range(model.support_vectors.shape[0]):
                expected = naive_kernel(model.kernel, x, pairs(model.support_vectors, s))
                assert in_order[s] == expected
            of_pairs = zip(*np.triu_indices(len(model.labels), 1), model.rho, strict=True)
            assert [
                model._pairs._stock_value(in_order, i, j) - rho for i, j, rho in of_pairs
            ] == naive


def test_rounding_stays_within_the_bound(monkeypatch):
    """Without the repair, values differ from LIBSVM's by at most the bound."""
    rng = np.random.default_rng(2)
    bounds = []
    values_of = Pairs._by_first

    def remember(self, *arguments):
        of_classes = list(values_of(self, *arguments))
        bounds.append(np.concatenate([bound for _, _, bound in of_classes], axis=1))
        for part, values, bound in of_classes:
            yield part, values, np.full_like(bound, -1.0)  # nothing is near zero

    monkeypatch.setattr(Pairs, "_by_first", remember)
    differences = 0
    for kernel in [*make.KERNELS.values(), Kernel("rbf", gamma=1e3)]:
        model = make.kernel_model(rng, kernel, 3)
        # Close together and far from the origin: |u|^2 + |v|^2 - 2u'v cancels.
        shifted = model.support_vectors.toarray() * 1e-2 + 30.0
        model.support_vectors = csr_matrix(shifted)
        X = csr_matrix(make.sparse_rows(rng, 20, 9).toarray() * 1e-2 + 30.0)
        values = model.decision_values(X)
        naive = np.array([naive_pair_values(model, X, row) for row in range(20)])
        assert (np.abs(values - naive) <= bounds[-1]).all()
        differences += int((values != naive).sum())
    assert differences > 0


@pytest.mark.parametrize("name", make.KERNELS)
@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_rows_on_the_boundary_get_the_label_of_the_twin(name, offset):
    """Bisection to neighbouring numbers: BLAS alone would decide some of them otherwise."""
    rng = np.random.default_rng(3)
    kernel = make.KERNELS[name]
    if offset:
        kernel = kernel._replace(gamma=1e-4 if name == "sigmoid" else 0.3)
    model = make.kernel_model(rng, kernel, 2, 12)
    model.support_vectors = csr_matrix(make.sparse_rows(rng, 12, 9).toarray() + offset)
    model.rho += np.median(model.decision_values(csr_matrix(rng.normal(offset, 1, (99, 9)))))
    a, b = rng.normal(offset, 1, (24, 2, 9)).transpose(1, 0, 2)
    at_a = model.predict(csr_matrix(a))
    apart = at_a != model.predict(csr_matrix(b))
    a, b, at_a = a[apart], b[apart], at_a[apart]
    low, high = np.zeros((len(a), 1)), np.ones((len(a), 1))
    for _ in range(50):
        middle = (low + high) / 2
        same = (model.predict(csr_matrix(a + middle * (b - a))) == at_a)[:, None]
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    X = csr_matrix(np.vstack([a + low * (b - a), a + high * (b - a)]))
    assert X.shape[0] >= 10
    values = [naive_pair_values(model, X, row) for row in range(X.shape[0])]
    assert model.predict(X).tolist() == [naive_kernel_label(model, each) for each in values]


def test_one_versus_one_carrier_is_argmax_and_ties_go_to_the_last():
    rng = np.random.default_rng(4)
    model = make.one_versus_one_carrier(rng, Kernel("linear"), 4)
    X = make.sparse_rows(rng, 50, 6)
    starts = np.cumsum([0, *model.n_support])
    K = X @ model.support_vectors.T.toarray()
    # In the block of class i, column j > i - 1 holds +nu_i, column j < i holds -nu_i.
    sign = [1, 1, 1, -1]
    column = [2, 2, 2, 0]
    scores = np.column_stack(
        [
            sign[i] * K[:, a:b] @ model.coef[a:b, column[i]]
            for i, (a, b) in enumerate(zip(starts[:-1], starts[1:], strict=True))
        ]
    )
    assert model.predict(X).tolist() == [model.labels[i] for i in scores.argmax(axis=1)]
    assert model.predict(csr_matrix((1, 6))).tolist() == [model.labels[-1]]


def test_precomputed_rows():
    rng = np.random.default_rng(5)
    for n_classes in (2, 3):
        model = make.precomputed_model(rng, 20, n_classes)
        K = rng.integers(-2, 3, (40, 20)).astype(float)
        X = csr_matrix(np.column_stack([np.arange(1, 41), K]))
        labels, values = model.predict_with_values(X)
        for row in range(40):
            naive = naive_pair_values(model, X, row)
            assert np.allclose(values[row], naive, rtol=1e-13, atol=1e-13)
            assert labels[row] == naive_kernel_label(model, naive)
        assert model.is_precomputed and model.largest_serial <= 20
        # Columns that are missing altogether count as 0.
        assert (model.predict(X[:, :1]) == model.predict(csr_matrix((40, 1)))).all()


def test_models_without_vectors_and_with_one_class():
    nothing = np.zeros(1)
    empty = KernelModel(
        [1, 2], Kernel("rbf", gamma=1.0), csr_matrix((0, 0)), np.empty((0, 1)), nothing, [0, 0]
    )
    X = make.sparse_rows(np.random.default_rng(6), 4, 3)
    assert empty.predict(X).tolist() == [2, 2, 2, 2]
    assert empty.shares_features(X)  # there is nothing to miss
    one = make.kernel_model(np.random.default_rng(7), Kernel("linear"), 1)
    labels, values = one.predict_with_values(X)
    assert labels.tolist() == one.labels * 4 and values.shape == (4, 0)
    assert one.predict(X).tolist() == one.labels * 4


def test_blocks_do_not_change_labels(monkeypatch):
    rng = np.random.default_rng(8)
    model = make.kernel_model(rng, make.KERNELS["rbf"], 4, 40)
    X = rows_for(rng, model)
    labels, values = model.predict_with_values(X)
    monkeypatch.setattr("odmtool.models.rows._BLOCK_VALUES", 90)
    labels_again, values_again = model.predict_with_values(X)
    assert (labels == labels_again).all()
    assert np.allclose(values, values_again, rtol=1e-12, atol=1e-12)


def test_a_huge_feature_number_costs_nothing():
    model = make.kernel_model(np.random.default_rng(9), make.KERNELS["rbf"])
    indices = np.array([0, 2**31 - 2])
    X = csr_matrix((np.array([0.5, 3.0]), indices, np.array([0, 2])), shape=(1, 2**31 - 1))
    near = csr_matrix(([0.5, 3.0], [0, 20], [0, 2]), shape=(1, 21))
    assert np.allclose(model.decision_values(X), model.decision_values(near), rtol=1e-12)
    assert model.shares_features(X) and not model.shares_features(X[:, 1:])


def test_wide_sparse_vectors_stay_sparse():
    rng = np.random.default_rng(10)
    X = csr_matrix(
        (rng.standard_normal(400), rng.integers(0, 10**6, 400), np.arange(0, 401, 10)),
        shape=(40, 10**6),
    )
    X.sum_duplicates()
    model = make.kernel_model(rng, make.KERNELS["rbf"], 2, 40)
    model.support_vectors = X
    values = model.decision_values(X)
    naive = [naive_pair_values(model, X, row) for row in range(40)]
    assert np.allclose(values, naive, rtol=1e-11, atol=1e-11)


# ---- one score per class -----------------------------------------------------------


def score_functions(rng, kernel, k, n=25, width=6, integers=False, offset=False):
    """Random functions, some vectors twice and some coefficients zero."""
    X = make.sparse_rows(rng, n, width)
    X = vstack([X, X[:3]]).tocsr()
    C = rng.standard_normal((n + 3, k)) * (rng.random((n + 3, k)) < 0.7)
    if integers:
        X, C = csr_matrix(np.sign(X.toarray())), np.sign(C)
    if kernel.name == "precomputed":
        X = csr_matrix(np.r_[1 : n + 1, 1:4][:, None].astype(float))
    offset = rng.standard_normal(k) if offset else np.zeros(k)
    return carry.Functions(C, offset, X, kernel)


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize("k", [3, 6])
@pytest.mark.parametrize("name", [*make.KERNELS, "precomputed"])
def test_scores_of_both_forms_are_those_of_the_functions(name, k, integers, offset):
    rng = np.random.default_rng([k, integers, offset, *name.encode()])
    kernel = make.KERNELS.get(name, Kernel(name))
    functions = score_functions(rng, kernel, k, integers=integers, offset=offset)
    labels = [-7, 2_000_000_000, 3, 5, 1, 0][:k]
    carried = carry.argmax_kernel_model(functions, labels, {})
    compact = carry.compact_model(functions, labels, {})
    if name == "precomputed":
        K = rng.integers(-2, 3, (40, 25)).astype(float)
        X = csr_matrix(np.column_stack([np.arange(1, 41), K]))
    else:
        X = rows_for(rng, compact)
        if integers:
            X = csr_matrix(np.sign(X.toarray()))
    # The twin of svm-predict, which takes the pairs as they stand.
    expected = [naive_label(carried, X, r) for r in range(X.shape[0])]
    for model in (carried, compact):
        assert model.has_scores and model.predict(X).tolist() == expected
    scores = compact.decision_values(X)
    assert np.allclose(carried.decision_values(X)[:, ::-1], scores, rtol=1e-10, atol=1e-10)
    naive = [
        [naive_kernel(kernel, x, vector) for vector in vectors_of(functions.vectors)]
        for x in vectors_of(X)
    ]
    by_hand = np.array(naive) @ functions.C + functions.offset
    size = max(1.0, np.abs(by_hand).max())
    assert np.allclose(scores, by_hand, rtol=1e-10, atol=1e-10 * size)
    assert len(carried.scores.C) <= 25 < len(carried.coef)


def naive_label(model: KernelModel, X: csr_matrix, row: int) -> int:
    return naive_kernel_label(model, naive_pair_values(model, X, row))


def vectors_of(X: csr_matrix):
    return [pairs(X, row) for row in range(X.shape[0])]


@pytest.mark.parametrize("name", make.KERNELS)
def test_near_ties_of_scores_get_the_label_of_the_twin(name):
    """Bisection to neighbouring numbers between rows of different classes."""
    rng = np.random.default_rng([1, *name.encode()])
    functions = score_functions(rng, make.KERNELS[name], 4)
    usual = carry.compact_model(functions, [1, 2, 3, 4], {}).decision_values(
        csr_matrix(rng.standard_normal((99, 6)))
    )
    functions = functions._replace(offset=-np.median(usual, axis=0))
    pair_model = carry.argmax_kernel_model(functions, [1, 2, 3, 4], {})
    compact = carry.compact_model(functions, [1, 2, 3, 4], {})
    low, high = rng.standard_normal((2, 20, 6))
    at_low = compact.predict(csr_matrix(low))
    chosen = at_low != compact.predict(csr_matrix(high))
    low, high, at_low = low[chosen], high[chosen], at_low[chosen]
    rows = []
    for step in range(54):
        middle = (low + high) / 2
        same = (compact.predict(csr_matrix(middle)) == at_low)[:, None]
        low, high = np.where(same, middle, low), np.where(same, high, middle)
        if step > 45:
            rows.append(middle)
    X = csr_matrix(np.vstack(rows))
    assert X.shape[0] >= 80
    expected = [naive_label(pair_model, X, r) for r in range(X.shape[0])]
    assert pair_model.predict(X).tolist() == compact.predict(X).tolist() == expected
    values = np.concatenate([*compact.scores.pair_blocks(X)])
    naive = np.array([naive_pair_values(pair_model, X, r) for r in range(X.shape[0])])
    assert (np.sign(values) == np.sign(naive)).all()


def test_rounding_of_scores_stays_within_the_bound():
    rng = np.random.default_rng(2)
    differences = 0
    for kernel in [*make.KERNELS.values(), Kernel("rbf", gamma=1e3)]:
        functions = score_functions(rng, kernel, 4, offset=True)
        shifted = csr_matrix(functions.vectors.toarray() * 1e-2 + 30.0)
        model = carry.argmax_kernel_model(functions._replace(vectors=shifted), [1, 2, 3, 4], {})
        X = csr_matrix(make.sparse_rows(rng, 20, 6).toarray() * 1e-2 + 30.0)
        scores, bound = model.scores._block_scores(X, "double")
        first, second = np.triu_indices(4, 1)
        naive = np.array([naive_pair_values(model, X, row) for row in range(20)])
        off = np.abs(scores[:, first] - scores[:, second] - naive)
        assert (off <= bound[:, first] + bound[:, second]).all()
        differences += int((off > 0).sum())
    assert differences > 0


def test_what_only_claims_to_have_scores_is_taken_as_pairs():
    rng = np.random.default_rng(3)
    whole = carry.argmax_kernel_model(score_functions(rng, make.KERNELS["rbf"], 3), [1, 2, 3], {})
    assert whole.has_scores
    for change in (
        {"coef": whole.coef + np.eye(len(whole.coef), 2)},
        {"rho": np.array([0.0, 0.0, 1.0])},
        {"facts": {"decision": "argmax", "offset": "1 2 3"}},
        {"facts": {"decision": "argmax", "offset": "1 x 3"}},
        {"facts": {"decision": "argmax", "offset": "1 2"}},
        {"facts": {}},
    ):
        model = dataclasses.replace(whole, **change)
        assert not model.has_scores and model.decision_values(csr_matrix((1, 6))).shape == (1, 3)


def test_a_row_without_a_number_gets_the_label_of_the_twin():
    rng = np.random.default_rng(4)
    functions = score_functions(rng, make.KERNELS["poly"], 3)
    model = carry.argmax_kernel_model(functions, [1, 2, 3], {})
    X = csr_matrix(np.full((1, 6), 1e200))
    with np.errstate(all="ignore"):
        expected = naive_label(model, X, 0)
    assert model.predict(X).tolist() == [expected]


def test_distances_by_columns_are_those_of_libsvms_order():
    """The same bits, with features that no vector has, between and behind theirs."""
    generator = np.random.default_rng(6)
    V = generator.normal(size=(40, 9)) * (generator.random((40, 9)) < 0.8)
    V[:, 4] = 0
    vectors = csr_matrix(V)
    found = rows_module.KernelRows(Kernel("rbf", gamma=0.3), vectors)
    assert found._is_dense
    X = csr_matrix(generator.normal(size=(20, 12)) * (generator.random((20, 12)) < 0.7) * 1e3)
    for x in X:
        expected = rows_module._squared_distances(x, vectors)
        assert found._by_columns(x).tobytes() == expected.tobytes()


def test_pairs_without_coefficients_are_never_in_doubt(monkeypatch):
    """As a training leaves them that the time ended: values 0, a vote for the second class."""
    generator, k = np.random.default_rng(3), 4
    vectors, coef = generator.normal(size=(12, 3)), generator.normal(size=(12, k - 1))
    groups = [slice(3 * i, 3 * i + 3) for i in range(k)]
    for i, j in ((0, 1), (1, 3), (2, 3)):
        coef[groups[i], j - 1] = coef[groups[j], i] = 0
    rho = np.where(generator.random(6) < 0.5, 0.0, 0.25)
    kernel = Kernel("rbf", gamma=0.5)
    model = KernelModel([5, 3, 8, 1], kernel, csr_matrix(vectors), coef, rho, [3] * k)
    X = csr_matrix(generator.normal(size=(50, 3)))
    monkeypatch.setattr(model._rows, "in_stock_order", lambda x: pytest.fail("no value is near"))
    values = model.decision_values(X)
    K = np.exp(-0.5 * ((X.toarray()[:, None] - vectors) ** 2).sum(axis=2))
    for place, (i, j) in enumerate(itertools.combinations(range(k), 2)):
        a, b = groups[i], groups[j]
        expected = K[:, a] @ coef[a, j - 1] + K[:, b] @ coef[b, i] - rho[place]
        assert values[:, place] == pytest.approx(expected, abs=1e-12)
    assert model.predict(X).tolist() == model.predict_with_values(X)[0].tolist()
    assert np.array_equal(values[:, 5], np.full(50, -rho[5]))
