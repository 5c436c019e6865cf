"""Probabilities: the sigmoid, the coupling, and whether they are true.

LIBSVM's own sigmoid and scikit-learn are the judges.
"""

from __future__ import annotations

import tracemalloc
from itertools import combinations

import model_makers as make
import numpy as np
import pytest
from naive import coupling_objective, sigmoid_objective
from scipy.sparse import csr_matrix
from test_stock_predictors import put
from test_stock_predictors import run as stock

from odmtool.io.model_file import read_model
from odmtool.io.svmlight import read_svmlight
from odmtool.machines import ODM
from odmtool.models import coupling, probability
from odmtool.models.decide import pair_blocks
from odmtool.models.linear import LinearModel
from odmtool.models.probability import LEAST, fit_sigmoid, probabilities_of_blocks, sigmoid
from odmtool.search.calibration import FOLDS, add_probabilities, calibrate_chain
from odmtool.search.search import SearchPlan, search
from odmtool.search.validation import Data, evaluate_chain, folds, shared_gram


def noisy_values(m=300, seed=0):
    """Decision values of overlapping classes, and who belongs to the first."""
    rng = np.random.default_rng(seed)
    f = 2 * rng.standard_normal(m) + 0.3
    return f, rng.random(m) < 1 / (1 + np.exp(0.4 - 1.3 * f)), rng.uniform(0.1, 3, m)


def class_probabilities(values, A, B, k):
    return probabilities_of_blocks([values], len(values), A, B, k)


# ---- the fit -----------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_the_fit_is_that_of_logistic_regression_on_the_targets(weighted):
    """A label of probability t is two examples, of weights t and 1 - t."""
    from sklearn.linear_model import LogisticRegression

    f, is_first, v = noisy_values()
    v = v if weighted else np.ones(len(f))
    first, other = v[is_first].sum(), v[~is_first].sum()
    t = np.where(is_first, (first + 1) / (first + 2), 1 / (other + 2))
    model = LogisticRegression(C=np.inf, tol=1e-12, solver="newton-cholesky", max_iter=500)
    labels = np.repeat([1, 0], len(f))
    model.fit(np.concatenate([f, f])[:, None], labels, np.concatenate([v * t, v * (1 - t)]))
    A, B = fit_sigmoid(f, is_first, v if weighted else None)
    assert pytest.approx(-model.coef_[0, 0], rel=1e-10) == A
    assert pytest.approx(-model.intercept_[0], rel=1e-10) == B


@pytest.mark.parametrize("weighted", [False, True])
def test_no_sigmoid_nearby_is_better(weighted):
    f, is_first, v = noisy_values(seed=1)
    v = v if weighted else np.ones(len(f))
    A, B = fit_sigmoid(f, is_first, v)
    best = sigmoid_objective(f, is_first, v, A, B)
    for dA, dB in np.random.default_rng(0).standard_normal((50, 2)):
        assert sigmoid_objective(f, is_first, v, A + 1e-4 * dA, B + 1e-4 * dB) > best


def test_libsvm_fits_the_same_sigmoid(tmp_path, monkeypatch):
    """Its folds are random, but here every part has the same maximal margin: f(x) = x."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = np.concatenate([np.ones(30), -np.ones(30), rng.uniform(1, 3, 60), rng.uniform(-2, -1, 15)])
    x = rng.permutation(x)
    put(make.data_lines(csr_matrix(x[:, None]), np.sign(x).astype(int)))
    stock("svm-train", "-q", "-t", "0", "-c", "10", "-e", "1e-12", "-b", "1", "t", "m")
    model = read_model("m")
    A, B = fit_sigmoid(x, x > 0)
    # LIBSVM stops at a gradient of 1e-5.
    assert model.probA[0] == pytest.approx(A, abs=1e-6)
    assert model.probB[0] == pytest.approx(B, abs=1e-6)


def test_weight_two_is_a_duplicate_and_zero_is_nothing():
    f, is_first, _ = noisy_values(50)
    v = np.arange(50) % 3
    repeated = fit_sigmoid(np.repeat(f, v), np.repeat(is_first, v))
    assert fit_sigmoid(f, is_first, v) == pytest.approx(repeated, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-200, 1e-8, 1e8, 1e150])
def test_the_scale_of_the_values_does_not_matter(scale):
    f, is_first, v = noisy_values()
    A, B = fit_sigmoid(f, is_first, v)
    scaled = fit_sigmoid(scale * f, is_first, v)
    assert (scaled.A * scale, scaled.B) == pytest.approx((A, B), rel=1e-9)
    moved = fit_sigmoid(f - 1e4, is_first, v)
    assert pytest.approx((A, B), rel=1e-6) == (moved.A, moved.B - 1e4 * moved.A)


def test_values_that_say_nothing_give_the_share_of_the_class():
    is_first = np.arange(40) < 10
    A, B = fit_sigmoid(np.full(40, 7.0), is_first)
    assert A == 0
    assert fit_sigmoid(np.where(is_first, 1e-300, -1e-300), is_first).A == 0
    expected = (10 * 11 / 12 + 30 * 1 / 32) / 40
    assert sigmoid(np.array([7.0]), A, B) == pytest.approx([expected], rel=1e-9)


@pytest.mark.parametrize("m", [10, 100_000])
def test_separable_values_have_a_finite_sigmoid(m):
    y = np.where(np.arange(m) % 3 == 0, 1.0, -1.0)
    A, B = fit_sigmoid(y, y > 0)
    p = sigmoid(np.array([1.0, -1.0]), A, B)
    first, other = (y > 0).sum(), (y < 0).sum()
    assert p == pytest.approx([(first + 1) / (first + 2), 1 / (other + 2)], rel=1e-6)


# ---- pairs of classes ----------------------------------------------------------------


def test_probabilities_of_two_classes():
    values = np.array([[0.0], [1e6], [-1e6], [np.inf], [-np.inf], [1.0]])
    p = class_probabilities(values, np.array([-2.0]), np.array([0.5]), 2)
    assert p.sum(axis=1) == pytest.approx(np.ones(6), abs=1e-15)
    expected = [1 / (1 + np.exp(0.5)), 1 - LEAST, LEAST, 1 - LEAST, LEAST, 1 / (1 + np.exp(-1.5))]
    assert p[:, 0] == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("k", [3, 4, 9])
def test_coupling_minimises_its_objective(k):
    rng = np.random.default_rng(k)
    n_pairs = k * (k - 1) // 2
    values = rng.standard_normal((40, n_pairs))
    A, B = -rng.uniform(1, 4, n_pairs), np.zeros(n_pairs)
    p = class_probabilities(values, A, B, k)
    assert p.sum(axis=1) == pytest.approx(np.ones(40), abs=1e-12) and (p > 0).all()
    for row, r in zip(p, sigmoid(values, A, B), strict=True):
        value = coupling_objective(r, row, k)
        for other in rng.dirichlet(np.ones(k), 20):
            mixed = 0.9 * row + 0.1 * other
            # The stopping rule is LIBSVM's loose one.
            assert coupling_objective(r, mixed, k) >= value - 2 * 0.1 * 0.005 / k


def test_coupling_of_pairs_that_agree_gives_what_they_agree_on():
    p = np.array([[0.6, 0.25, 0.1, 0.05]])
    i, j = np.triu_indices(4, 1)
    values = np.log(p[:, i] / p[:, j])
    coupled = class_probabilities(values, -np.ones(6), np.zeros(6), 4)
    assert coupled == pytest.approx(p, abs=0.01)


def stock_coupling(r: list[float], k: int) -> tuple[list[float], int]:
    """LIBSVM's multiclass_probability step by step, and how many passes it takes."""
    both = [[0.0] * k for _ in range(k)]
    for (i, j), value in zip(combinations(range(k), 2), r, strict=True):
        both[i][j], both[j][i] = value, 1 - value
    Q = [[-both[j][t] * both[t][j] for j in range(k)] for t in range(k)]
    for t in range(k):
        Q[t][t] = 0.0
        for j in range(k):
            Q[t][t] += both[j][t] * both[j][t]
    p = [1 / k] * k
    for passes in range(max(100, k)):
        Qp, pQp = [0.0] * k, 0.0
        for t in range(k):
            for j in range(k):
                Qp[t] += Q[t][j] * p[j]
            pQp += p[t] * Qp[t]
        if max(abs(value - pQp) for value in Qp) < 0.005 / k:
            return p, passes
        for t in range(k):
            step = (-Qp[t] + pQp) / Q[t][t]
            p[t] += step
            pQp = (pQp + step * (step * Q[t][t] + 2 * Qp[t])) / (1 + step) / (1 + step)
            for j in range(k):
                Qp[j] = (Qp[j] + step * Q[t][j]) / (1 + step)
                p[j] /= 1 + step
    return p, max(100, k)


def pairs_that_disagree(m: int, k: int) -> np.ndarray:
    """Values of pairs whose coupling takes few passes for some rows and many for others."""
    rng = np.random.default_rng(k)
    sizes = np.where(np.arange(m) % 3 == 0, 8.0, 1.0)[:, None]
    return sizes * rng.standard_normal((m, k * (k - 1) // 2)) * (np.arange(m) % 5 > 0)[:, None]


@pytest.mark.parametrize("k, places", [(3, 2), (5, 3), (5, 1000), (31, 4), (34, 1), (34, 3)])
def test_coupling_is_that_of_libsvm_to_the_last_bit(k, places, monkeypatch):
    values = pairs_that_disagree(13, k)
    monkeypatch.setattr(coupling, "_MATRIX_VALUES", places * k * k)
    n_pairs = values.shape[1]
    p = class_probabilities(values, -np.ones(n_pairs), np.zeros(n_pairs), k)
    firsts = np.clip(sigmoid(values, -1.0, 0.0), LEAST, 1 - LEAST)
    expected, passes = zip(*(stock_coupling(row, k) for row in firsts.tolist()), strict=True)
    assert np.array_equal(p, expected)
    # Rows come to places that others have left.
    assert min(passes) == 0 and len(set(passes)) > 2


def test_blocks_of_rows_do_not_show(monkeypatch):
    values = np.random.default_rng(0).standard_normal((50, 10))
    A, B = -np.ones(10), np.linspace(-1, 1, 10)
    whole = class_probabilities(values, A, B, 5)
    of_two = class_probabilities(values[:, :1], A[:1], B[:1], 2)
    monkeypatch.setattr(probability, "_BLOCK_VALUES", 30)
    monkeypatch.setattr(coupling, "_MATRIX_VALUES", 75)
    monkeypatch.setattr(coupling, "_MADE_VALUES", 50)
    assert np.array_equal(class_probabilities(values, A, B, 5), whole)
    assert np.array_equal(class_probabilities(values[:, :1], A[:1], B[:1], 2), of_two)
    for k, n in ((1, 0), (2, 1), (5, 10)):
        assert class_probabilities(values[:0, :n], A[:n], B[:n], k).shape == (0, k)


def test_values_of_many_pairs_are_not_held_for_all_rows(monkeypatch):
    m, k = 1000, 40
    n_pairs = k * (k - 1) // 2
    monkeypatch.setattr(probability, "_BLOCK_VALUES", 2**14)
    monkeypatch.setattr(coupling, "_MATRIX_VALUES", 2**16)
    monkeypatch.setattr(coupling, "_MADE_VALUES", 2**14)
    sigmoids = -np.ones(n_pairs), np.zeros(n_pairs)
    weights = np.random.default_rng(0).standard_normal((3, k))
    model = LinearModel(list(range(k)), weights, probA=sigmoids[0], probB=sigmoids[1])
    X = csr_matrix(np.random.default_rng(1).standard_normal((m, 3)))
    model.predict_with_probabilities(X[:10])
    tracemalloc.start()
    try:
        _, p = model.predict_with_probabilities(X)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * m * n_pairs / 2
    pairs = np.concatenate(list(pair_blocks(model.decision_values(X), k)))
    assert np.array_equal(p, class_probabilities(pairs, *sigmoids, k))


# ---- the decision values a sigmoid is fitted on ----------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_sigmoid_is_fitted_on_examples_left_out(heart, kernel):
    data = read_svmlight(heart)
    weight = np.random.default_rng(0).integers(0, 3, 270).astype(float)
    known = Data(data.X, data.labels, weight)
    machine = ODM(kernel=kernel, seed=4, class_weight={-1: 2.0})
    rows = np.flatnonzero(weight)
    fold, values = folds(data.labels[rows], FOLDS, 4), np.empty(len(rows))
    for k in range(FOLDS):
        train, test = rows[fold != k], rows[fold == k]
        part = machine.copy(tolerance=1e-12, solver="newton", gamma=1 / 13)
        part.fit(data.X[train], data.labels[train], weight[train])
        values[fold == k] = part.decision_function(data.X[test])
    expected = fit_sigmoid(values, data.labels[rows] > 0, weight[rows])
    gram = shared_gram(machine, data.X)
    (found,) = calibrate_chain(machine, [{}], known, np.arange(270), gram)
    found_sigmoid = (found.A[0], found.B[0])
    assert found_sigmoid == pytest.approx(expected, rel=1e-6) and found.unconverged == 0


def test_a_setting_without_a_solution_has_no_sigmoid(heart):
    data = read_svmlight(heart)
    machine = ODM(kernel="sigmoid", gamma=0.1, coef0=0.5, lambda_=64.0)
    known, gram = Data(data.X[:75], data.labels[:75]), shared_gram(machine, data.X[:75])
    (result,) = calibrate_chain(machine, [{}], known, np.arange(75), gram)
    assert result.A is None
    plan = SearchPlan(machine, [{}], known, folds(known.labels, 3, 0), probability=True)
    (row,) = search(plan)
    assert not row.has_solution


# ---- are they true? ------------------------------------------------------------------------


def truth(m, seed):
    """Examples of two overlapping classes, 3 to 7, and the true probabilities of the first."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, 5))
    log_odds = 1.5 * X[:, 0] - X[:, 1] + 0.5 * X[:, 2] - 1.2
    p = 1 / (1 + np.exp(-log_odds))
    return csr_matrix(X), np.where(rng.random(m) < p, 1, -1), p


def log_loss(p, is_first) -> float:
    return float(-np.mean(np.log(np.where(is_first, p, 1 - p))))


@pytest.mark.parametrize("kernel, lambda_", [("linear", 1024.0), ("rbf", 16.0)])
def test_probabilities_are_reliable(kernel, lambda_):
    X, labels, _ = truth(800, 1)
    machine = ODM(kernel=kernel, lambda_=lambda_, bias=1.0)
    known, gram = Data(X, labels), shared_gram(machine, X)
    machine.fit(X, labels, gram=gram)
    add_probabilities(machine, known, gram)
    X_test, y, p_true = truth(20_000, 2)
    _, p = machine.model_.predict_with_probabilities(X_test)
    first = machine.model_.labels.index(1)
    p, is_first = p[:, first], y == 1
    constant = log_loss(np.full(len(y), np.mean(labels == 1)), is_first)
    possible = log_loss(p_true, is_first)
    # At least four fifths of the way from the constant to the truth.
    assert log_loss(p, is_first) < possible + 0.2 * (constant - possible)
    # The calibration curve: ten bins of equally many examples.
    bins = np.array_split(np.argsort(p), 10)
    share = np.array([is_first[rows].mean() for rows in bins])
    noise = np.sqrt(share * (1 - share) / 2000)
    assert (np.diff(share) > -3 * np.hypot(noise[1:], noise[:-1])).all()
    assert np.abs(share - [p[rows].mean() for rows in bins]).max() < 0.08


def test_the_model_s_own_values_would_be_too_sure():
    """Why examples are left out: in the training set the classes lie far apart."""
    rng = np.random.default_rng(0)
    X, labels, _ = truth(150, 3)
    X = csr_matrix(np.hstack([X.toarray(), rng.standard_normal((150, 60))]))
    known, machine = Data(X, labels), ODM(lambda_=2.0**14)
    rows = np.arange(150)
    (fair,) = calibrate_chain(machine, [{}], known, rows, None)
    (own,) = evaluate_chain(machine, [{}], known, rows, rows, None)
    naive = fit_sigmoid(own.values[:, 0], labels == known.class_order()[0])
    assert naive.A < 2 * fair.A[0] < 0
