"""Pairs of small classes, which are solved many at once."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from stock import run as run_stock

from odmtool.core import losses
from odmtool.judge import binary as judge
from odmtool.machines import L2SVM, ODM, reduction, small_pairs
from odmtool.models.decide import pair_totals, pairs_by_first

K = 22  # classes: 231 pairs


def clouds(sizes, d=6, seed=0):
    """X (CSR) and labels of classes of these sizes, in no order."""
    generator = np.random.default_rng(seed)
    target = generator.permutation(np.repeat(np.arange(len(sizes)), sizes))
    centres = 1.5 * generator.standard_normal((len(sizes), d))
    X = centres[target] + generator.standard_normal((len(target), d))
    X[np.abs(X) < 0.3] = 0
    return sparse.csr_matrix(X), target + 3


def coefficients(solution, prepared, pair, part):
    i, j = pair
    columns = np.where(prepared.target[part.examples] == i, j - 1, i)
    return part.y * solution.coef[part.examples, columns]


@pytest.mark.parametrize("machine", [
    ODM(kernel="rbf", gamma=0.2, lambda_=2.0**14), L2SVM(kernel="rbf", gamma=0.2, bias=1.5),
    ODM(kernel="poly", gamma=0.2, coef0=1.0, lambda_=64.0, tolerance=1e-9),
    ODM(kernel="rbf", gamma=5.0, class_weight={5: 7.0, 9: 0.0, 11: 0.0, 12: 0.0}),
])  # fmt: skip
@pytest.mark.parametrize("is_weighted", [False, True])
def test_every_pair_is_solved(machine, is_weighted):
    """The judge confirms each gap, whatever the sizes of the classes."""
    X, labels = clouds([1 + n % 4 for n in range(K)])
    weight = np.random.default_rng(1).uniform(0.2, 3, len(labels)) if is_weighted else None
    solution = machine.fit(X, labels, weight).solution_
    prepared = machine.prepare(X, labels, weight)
    assert solution.converged and solution.solver == "newton"
    objective, gaps = 0.0, []
    pairs = reduction.problems(len(prepared.classes), "ovo")
    parts = reduction.parts(prepared.target, len(prepared.classes), machine)
    for pair, part in zip(pairs, parts, strict=True):
        p = reduction.part_problem(machine, prepared, part)
        coef = coefficients(solution, prepared, pair, part)
        values = judge.kernel_matrix(p.gram.kernel, p.gram.X, p.gram.X)
        t = p.y * (values @ (p.y * coef))
        eta = -losses.derivative(losses.scaled(p.loss, p.weight), t)
        found = judge.certify_kernel(values, p.y, p.weight, p.loss, coef, eta)
        objective += found.primal
        gaps.append(found.gap)
    assert objective == pytest.approx(solution.objective, rel=1e-6)
    assert max(gaps) <= max(10 * solution.gap, 1e-9)
    assert solution.problems == len(pairs)


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_they_are_those_that_are_solved_one_by_one(monkeypatch, kernel):
    X, labels = clouds([3] * (K - 2) + [60, 130])
    machine = ODM(kernel=kernel, gamma=0.2, bias=1.0, tolerance=1e-10)
    if kernel == "precomputed":
        values = judge.kernel_matrix(ODM(kernel="rbf", gamma=0.2).gram(X).kernel, X, X)
        X = sparse.csr_matrix(np.column_stack([np.arange(1, len(values) + 1), values]))
    called, solve_part = [], ODM.solve_part
    monkeypatch.setattr(ODM, "solve_part", lambda *a, **n: called.append(0) or solve_part(*a, **n))
    found = machine.fit(X, labels)
    # Those with the large classes, and of values that stand in a file all.
    assert len(called) == (K - 1 if kernel == "rbf" else 231)
    monkeypatch.setattr(small_pairs, "_FEWEST_PAIRS", 10**6)
    alone = machine.copy().fit(X, labels)
    assert found.model_.coef == pytest.approx(alone.model_.coef, abs=1e-6)
    assert found.model_.rho == pytest.approx(alone.model_.rho, abs=1e-6)
    assert found.model_.n_support == alone.model_.n_support


def test_what_a_few_steps_do_not_solve_is_left(monkeypatch):
    from odmtool.solvers.newton import small

    X, labels = clouds([3] * K)
    machine = ODM(kernel="rbf", gamma=0.2)
    whole = machine.fit(X, labels).solution_
    monkeypatch.setattr(small, "_STEPS", 0)
    left = machine.copy().fit(X, labels).solution_
    assert left.converged and left.objective == pytest.approx(whole.objective, rel=2e-3)


@pytest.mark.parametrize("max_iter", [0, 1, 3, 100])
def test_a_limit_of_the_iterations_is_that_of_every_pair(monkeypatch, max_iter):
    """Pairs that end before it are solved together; the others tell what they do alone."""
    X, labels = clouds([3] * K)
    machine = ODM(kernel="rbf", gamma=0.02, lambda_=2.0**12, max_iter=max_iter)
    called, solve_part = [], ODM.solve_part
    monkeypatch.setattr(ODM, "solve_part", lambda *a, **n: called.append(0) or solve_part(*a, **n))
    found = machine.fit(X, labels)
    left = len(called)
    monkeypatch.setattr(small_pairs, "_FEWEST_PAIRS", 10**6)
    alone = machine.copy().fit(X, labels)
    assert found.solution_.converged == alone.solution_.converged == (max_iter > 3)
    assert found.solution_.iterations <= 231 * max_iter
    assert found.was_cut_short and alone.was_cut_short
    assert found.solution_.problems == 231
    assert left == {0: 231, 100: 0}.get(max_iter, left) and (max_iter != 3 or 0 < left < 50)
    if left:
        assert found.solution_.gap == pytest.approx(alone.solution_.gap, rel=1e-6)
    assert found.solution_.objective == pytest.approx(alone.solution_.objective, rel=2e-3)


def test_the_time_may_end_meanwhile(monkeypatch):
    from odmtool.core import deadline

    X, labels = clouds([3] * K)
    machine, calls = ODM(kernel="rbf", gamma=0.2), []
    monkeypatch.setattr(ODM, "solve_part", lambda *given: calls.append(given))
    with deadline.time_limit(1e-9):
        solution = machine.fit(X, labels).solution_
    assert not solution.converged and solution.untrained == solution.problems == 231
    # Half a million calls that did nothing took a minute and a half.
    assert not calls and solution.gap == 1.0
    # The loss at 0 is 1, and every example is in K - 1 pairs.
    assert solution.objective == pytest.approx((K - 1) * machine.lambda_)


def test_sums_of_pairs():
    generator, k = np.random.default_rng(0), 5
    sums, target = generator.standard_normal((k, 3, k - 1)), np.array([4, 0, 2, 2, 1, 3, 0])
    C = generator.standard_normal((len(target), k - 1))
    parts, blocks = zip(*pairs_by_first(sums), strict=True)
    assert np.array_equal(np.r_[parts], np.arange(k * (k - 1) // 2))
    found, totals = np.hstack(blocks), pair_totals(C, target, k)
    for pair, (i, j) in enumerate(reduction.problems(k, "ovo")):
        assert found[:, pair] == pytest.approx(sums[i, :, j - 1] + sums[j, :, i])
        both = C[target == i, j - 1].sum() + C[target == j, i].sum()
        assert totals[pair] == pytest.approx(both)


def test_models_of_many_classes_are_small_and_svm_predicts(run, tmp_path):
    """One against the rest repeats every vector for every class, in LIBSVM's form."""
    from odmtool.io.svmlight import write_svmlight

    X, labels = clouds([3] * 60)
    with open(tmp_path / "data", "w") as stream:
        write_svmlight(stream, X, labels)
    outcome = run("train", "-t", "rbf", "data", "model")
    assert outcome.code == 0 and "60 classes (ovo)" in outcome.err
    assert "pairs" not in outcome.err and "compact" not in outcome.err
    assert (tmp_path / "model").stat().st_size < 300_000
    assert run("predict", "data", "model", "out").code == 0
    files = (str(tmp_path / name) for name in ("data", "model", "theirs"))
    run_stock("svm-predict", *files)
    assert (tmp_path / "out").read_text() == (tmp_path / "theirs").read_text()


def test_many_classes_of_wide_data_are_taken_against_the_rest(run, tmp_path):
    """As before: of these a pair of classes decides little."""
    X, labels = clouds([2] * 60, d=130)
    from odmtool.io.svmlight import write_svmlight

    with open(tmp_path / "data", "w") as stream:
        write_svmlight(stream, X, labels)
    outcome = run("train", "-t", "rbf", "--format", "libsvm", "data", "model")
    assert outcome.code == 0 and "60 classes (ovr)" in outcome.err
    assert "60 classes (ovo)" in run("train", "-t", "rbf", "--multiclass", "ovo", "data", "m").err


@pytest.mark.parametrize("d, has_pairs", [(130, False), (20, True)])
def test_so_are_those_of_the_estimators(d, has_pairs):
    from odmtool import ODMClassifier

    X, labels = clouds([2] * 60, d=d)
    model = ODMClassifier(kernel="rbf").fit(X, labels).model_
    assert model.has_scores != has_pairs
