"""Models of many classes taken in pairs: values made class by class, of some rows at a time."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import model_makers as make
import numpy as np
import pytest
from model_texts import THREE_CLASSES
from prediction_twin import naive_kernel_label, naive_pair_values
from scipy.sparse import csr_matrix

from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.errors import ModelError
from odmtool.io.model_text import ModelText
from odmtool.machines import ODM
from odmtool.models import decide, pairs
from odmtool.models.kernel import KernelModel
from odmtool.models.most_votes import most_votes
from odmtool.search import pair_values
from odmtool.search.calibration import evaluate_calibrated
from odmtool.search.validation import Data, evaluate_chain

K = 7


@pytest.fixture
def few_are_many(monkeypatch):
    """What is done from a hundred classes on is done from three on, of two classes at a time."""
    monkeypatch.setattr("odmtool.models.pairs.MANY_CLASSES", 3)
    monkeypatch.setattr(decide, "CLASSES_AT_ONCE", 2)
    monkeypatch.setattr(decide, "_SUMS", 1)


@pytest.fixture
def are_few(monkeypatch):
    """So that nothing is done for many classes."""
    return lambda: monkeypatch.setattr("odmtool.models.pairs.MANY_CLASSES", 10**9)


def naive_confidence(values: list[float], k: int) -> list[float]:
    """As scikit-learn's documentation of one against one has it."""
    votes, total = [0] * k, [0.0] * k
    for value, (i, j) in zip(values, itertools.combinations(range(k), 2), strict=True):
        votes[i if value > 0 else j] += 1
        total[i] += value
        total[j] -= value
    return [n + t / (3 * (abs(t) + 1)) for n, t in zip(votes, total, strict=True)]


def peak_of(work: Callable[[], object]) -> int:
    """The most bytes of arrays that there are at a time."""
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


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
    pairs = list(itertools.combinations(range(k), 2))
    values = rng.normal(size=(m, len(pairs))).round(1)
    bounds = rng.choice([0.0, 0.3, 0.8], values.shape)

    def against(label, rows):
        found, bound = np.zeros((len(rows), k)), np.full((len(rows), k), np.inf)
        for pair, (i, j) in enumerate(pairs):
            if label in (i, j):
                other, sign = (j, 1) if label == i else (i, -1)
                found[:, other], bound[:, other] = sign * values[rows, pair], bounds[rows, pair]
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


@pytest.mark.parametrize("is_many", [True, False])
def test_values_in_order_are_made_once_for_a_row(monkeypatch, few_are_many, are_few, is_many):
    """Of rows that are far from all vectors every pair is near its boundary."""
    if not is_many:
        are_few()
    rng = np.random.default_rng(10)
    model = make.kernel_model(rng, Kernel("rbf", gamma=50.0), K, 60, rho=False)
    X, made = csr_matrix(rng.normal(size=(30, 9)) + 100), []
    make_one = model._rows.in_stock_order
    monkeypatch.setattr(model._rows, "in_stock_order", lambda x: made.append(0) or make_one(x))
    assert not model.decision_values(X).any() and len(made) == 30
    model.votes_and_confidence(X)
    assert len(made) == 60


def test_both_ways_find_the_same(are_few):
    rng, k = np.random.default_rng(5), pairs.MANY_CLASSES
    model = make.kernel_model(rng, make.KERNELS["rbf"], k, 3 * k)
    X = make.sparse_rows(rng, 30, 9)
    found = model.predict(X), model.decision_values(X), model.votes_and_confidence(X)
    are_few()
    model = replace(model)  # which has not looked at its pairs
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
            assert peak_of(partial(asked, X)) < m * k * (k - 1) / 2 * 8 / 4


# ---- cross validation ----------------------------------------------------------------------


def pair_values_twin(values, C, offset, target, k):
    """From kernel values, row by row and pair by pair."""
    found = []
    for row in values:
        of_row = []
        for pair, (i, j) in enumerate(itertools.combinations(range(k), 2)):
            total = offset[pair]
            for s, label in enumerate(target):
                if label in (i, j):
                    total += row[s] * C[s, j - 1 if label == i else i]
            of_row.append(total)
        found.append(of_row)
    return found


@pytest.mark.parametrize("share", [0.3, 1.0])
@pytest.mark.parametrize("memory, is_computed", [(1e9, True), (1e9, False), (100, False)])
def test_values_of_examples_left_out(monkeypatch, few_are_many, share, memory, is_computed):
    """Kept or made again, and with few examples that have coefficients."""
    monkeypatch.setattr(pair_values, "_BLOCK_NUMBERS", 500)
    rng, k, n = np.random.default_rng(7), 5, 40
    X, kernel = make.sparse_rows(rng, n + 12, 6), Kernel("rbf", gamma=0.3)
    gram = Gram(kernel, X, memory)
    if is_computed:
        gram.matrix()
    rows = rng.permutation(n + 12)
    train, test, target = rows[:n], rows[n:], rng.integers(0, k, n)
    C = rng.normal(size=(n, k - 1)) * (rng.random((n, 1)) < share)
    offset = rng.normal(size=k * (k - 1) // 2)
    found = pair_values.KernelProducts(train, test, gram).of_pairs(C, offset, target)
    K = [[np.exp(-0.3 * ((X[a] - X[b]).toarray() ** 2).sum()) for b in train] for a in test]
    naive = pair_values_twin(K, C, offset, target, k)
    assert np.concatenate(list(found.arrays())) == pytest.approx(np.array(naive), abs=1e-12)
    best, confident = found.standings()
    expected = [naive_confidence(one, k) for one in naive]
    assert confident == pytest.approx(np.array(expected), abs=1e-12)
    assert best.tolist() == decide.votes(np.array(naive), k).argmax(axis=1).tolist()
    own, labels = found.of_own(target[:12]), target[:12]
    for pair, (i, j) in enumerate(itertools.combinations(range(k), 2)):
        values = np.array(naive)[:, pair]
        assert own[labels == i, j - 1] == pytest.approx(values[labels == i], abs=1e-12)
        assert own[labels == j, i] == pytest.approx(values[labels == j], abs=1e-12)


@pytest.mark.parametrize("is_computed", [True, False])
def test_the_pairs_of_a_fold_are_not_held_at_a_time(monkeypatch, is_computed):
    monkeypatch.setattr(pair_values, "_BLOCK_NUMBERS", 2**16)
    monkeypatch.setattr(decide, "_SUMS", 2**10)
    rng, k, n = np.random.default_rng(8), 60, 1500
    gram = Gram(Kernel("rbf", gamma=0.1), make.sparse_rows(rng, n, 6), 1e9)
    if is_computed:
        gram.matrix()
    target = np.arange(2 * k) % k
    products = pair_values.KernelProducts(np.arange(2 * k), np.arange(n), gram)
    C, offset = rng.normal(size=(2 * k, k - 1)), np.zeros(k * (k - 1) // 2)
    found = products.of_pairs(C, offset, target)
    for work in (
        found.standings, lambda: found.of_own(np.arange(n) % k), lambda: [0 for _ in found.arrays()]
    ):  # fmt: skip
        assert peak_of(work) < n * len(offset) * 8 / 6


@pytest.mark.parametrize("evaluate", [evaluate_chain, evaluate_calibrated])
def test_a_cross_validation_does_not_hold_them_either(monkeypatch, evaluate):
    """1000 classes took 4.5 GB; here it would take 7 MB, and as much for every copy."""
    monkeypatch.setattr(pair_values, "_BLOCK_NUMBERS", 2**14)
    monkeypatch.setattr("odmtool.models.probability._BLOCK_VALUES", 2**14)
    monkeypatch.setattr("odmtool.models.coupling._MATRIX_VALUES", 2**14)
    rng, k = np.random.default_rng(9), 30
    labels = np.concatenate([np.repeat(np.arange(k), 6), np.arange(2000) % k])
    X = csr_matrix(rng.normal(size=(k, 3))[labels] + 0.1 * rng.normal(size=(len(labels), 3)))
    machine = ODM(kernel="linear", lambda_=8.0, multiclass="ovo")
    train, test = np.arange(6 * k), np.arange(6 * k, len(labels))
    found = []
    peak = peak_of(lambda: found.extend(
        evaluate(machine, [{}], Data(X, labels), train, test, None)
    ))  # fmt: skip
    assert found[0].values.shape == (len(test), k)
    assert (found[0].predicted == labels[test]).mean() > 0.5
    assert peak < len(test) * k * (k - 1) / 2 * 8 / 2


@pytest.mark.parametrize("options", [["-d"], ["--margins", "t"], ["-b", "1"], ["-j", "2", "-d"]])
def test_the_command_holds_the_values_of_some_rows_only(run, tmp_path, monkeypatch, options):
    """Of 10 pairs two rows at a time, and as text one; every line is what it was."""
    generator = np.random.default_rng(3)
    y = np.arange(60) % 5
    X = (y[:, None] + generator.normal(size=(60, 3)) * 0.7).round(2)
    lines = [f"{c} 1:{a} 2:{b} 3:{d}\n" for c, (a, b, d) in zip(y, X.tolist(), strict=True)]
    lines.insert(7, "# a comment\n")
    (tmp_path / "five").write_text("".join(lines))
    assert run("train", "-t", "rbf", "-l", "9", "-b", "1", "five", "m").code == 0
    (tmp_path / "t").write_text("")
    whole = run("predict", *options, "five", "m", "whole")
    margins, held = (tmp_path / "t").read_text(), []
    monkeypatch.setattr("odmtool.cli.predict._VALUES_AT_ONCE", 20)
    monkeypatch.setattr("odmtool.cli.predict._CELLS_AT_ONCE", 1)
    way = KernelModel.predict_with_values
    monkeypatch.setattr(
        KernelModel, "predict_with_values",
        lambda model, rows: held.append(rows.shape[0]) or way(model, rows),
    )  # fmt: skip
    parts = run("predict", *options, "five", "m", "parts")
    assert whole.code == parts.code == 0 and parts.out == whole.out and "Accuracy" in parts.out
    assert (tmp_path / "parts").read_text() == (tmp_path / "whole").read_text()
    assert (tmp_path / "t").read_text() == margins
    assert "-b" in options or held == [2] * 30


@pytest.mark.parametrize("options", [[], ["-d"]])
def test_the_command_with_a_model_of_one_class(run, heart, tmp_path, options):
    head = "svm_type c_svc\nkernel_type rbf\ngamma 0.5\nnr_class 1\ntotal_sv 0\nrho\n"
    (tmp_path / "m").write_text(head + "label 7\nnr_sv 0\nSV\n")
    assert run("predict", *options, heart, "m", "o").code == 0
    lines = (tmp_path / "o").read_text().splitlines()
    assert lines == ["labels 7"] * ("-d" in options) + ["7"] * 270


# ---- model files -----------------------------------------------------------------


@pytest.mark.parametrize("rho, is_at_once", [
    ("0 0.5 -0.5", True), ("+1.e2 .5\t-5E-1", True), ("0\n0.5 -0.5", False),
    ("0 0.5 -0.5 nr_sv 1 1 1", False), (f"{'0' * 400}1 1e-400 -0", True),
])  # fmt: skip
def test_values_of_all_pairs_are_read_at_once(read, monkeypatch, rho, is_at_once):
    """Where they are a line of their own; elsewhere one by one, with the same result."""
    text = THREE_CLASSES.replace("rho 0 0.5 -0.5", "rho " + rho)
    text = text.replace("\nnr_sv 1 1 1", "", "nr_sv" in rho)
    asked, whole = [], ModelText.numbers_of_line

    def numbers_of_line(*arguments):
        asked.append(whole(*arguments))
        return asked[-1]

    monkeypatch.setattr(ModelText, "numbers_of_line", numbers_of_line)
    found = read(text).rho
    assert asked and (asked[0] is not None) == is_at_once
    monkeypatch.setattr(ModelText, "numbers_of_line", lambda *_: None)
    assert found.tobytes() == read(text).rho.tobytes()


@pytest.mark.parametrize("wrong", ["1_0", "1-2", "nan", "1e999", "--1", ".", "1e", "\x0b", "0x1"])
def test_what_is_no_value_of_a_pair_is_named(read, wrong):
    with pytest.raises(ModelError) as error:
        read(THREE_CLASSES.replace("rho 0 0.5 -0.5", f"rho 0 {wrong} -0.5"))
    assert error.value.line == 8 + (wrong == "\x0b")  # that is a blank
    assert wrong.strip() in str(error.value)
