"""Nystrom: the judge confirms the gap in the span, and P as that of the whole problem."""

from types import SimpleNamespace

import numpy as np
import pytest
from problems import DEFINITE, OTHER_LOSSES, examples, problem, weights
from scipy import sparse
from scipy.linalg import solve_triangular
from stepping import dense

from odmtool.core import kernels, losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.errors import MemoryLimitError
from odmtool.judge import binary as objective
from odmtool.rows.executor import Serial, Threads
from odmtool.rows.partition import landmarks
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.large import blocks, nystrom
from odmtool.solvers.large.blocks import Blocks, KernelSource, RowSource
from odmtool.solvers.newton import newton


def judge_in_span(p, count, solution, seed=0):
    """The certificate of the linear problem on the features, made by definition."""
    chosen = landmarks(p.gram.kernel, p.gram.X, count, seed=seed)
    Z = chosen.rows
    K = objective.kernel_matrix(p.gram.kernel, p.gram.X, p.gram.X[Z])
    features = solve_triangular(chosen.factor, K.T, lower=True).T
    w = chosen.factor.T @ (p.y * solution.coef)[Z]
    return objective.certify_linear(features, p.y, p.weight, p.loss, w, solution.eta)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-9])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("name", [*DEFINITE, "precomputed"])
def test_the_judge_confirms_the_gap(name, dense, tolerance):
    p = problem(name, dense=dense, weight=weights() if dense else None)
    solution, captured = nystrom.solve(p, Stop(tolerance, 200), 12)
    judged = judge_in_span(p, 12, solution)
    single = tolerance >= 1e-5 and name.startswith("rbf")
    assert solution.solver == "nystrom" and solution.converged
    assert judged.gap <= tolerance * 1.001
    assert judged.gap == pytest.approx(solution.gap, abs=1e-5 if single else 1e-10)
    assert judged.primal == pytest.approx(solution.primal, rel=1e-5 if single else 1e-9)
    assert np.count_nonzero(solution.coef) <= 12
    assert 0 < captured < 1
    K = objective.kernel_matrix(p.gram.kernel, p.gram.X, p.gram.X)
    whole = objective.certify_kernel(K, p.y, p.weight, p.loss, solution.coef, solution.coef)
    assert whole.primal == pytest.approx(judged.primal, rel=1e-9)


@pytest.mark.parametrize("name", DEFINITE)
def test_all_examples_as_landmarks_are_the_whole_problem(name):
    p = problem(name)
    exact = newton.solve(p, Stop(1e-13, 200))
    solution, captured = nystrom.solve(p, Stop(1e-11, 200), 60)
    assert captured == pytest.approx(1, abs=1e-6)
    assert solution.primal == pytest.approx(exact.primal, rel=1e-6)


def test_landmarks_that_nearly_depend_on_each_other_are_told_the_truth():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((400, 3))
    y = np.where(X[:, 0] + generator.standard_normal(400) > 0, 1.0, -1.0)
    gram = Gram(Kernel("rbf", 0.2), X)
    p = Problem(None, gram, y, np.ones(400), losses.odm(2.0**20, 0.2, 0.2, 400))
    solution, _ = nystrom.solve(p, Stop(1e-3, 200), 2000)
    K = objective.kernel_matrix(gram.kernel, gram.X, gram.X)
    judged = objective.certify_kernel(K, y, p.weight, p.loss, solution.coef, solution.coef)
    assert judged.primal == pytest.approx(solution.primal, rel=1e-6)


def test_more_landmarks_are_a_better_approximation():
    p = problem("rbf")
    found = [nystrom.solve(p, Stop(1e-10, 200), count) for count in (3, 10, 30, 60)]
    primals, captured = [s.primal for s, _ in found], [c for _, c in found]
    assert primals == sorted(primals, reverse=True) and primals[0] > 1.05 * primals[-1]
    assert captured == sorted(captured)


@pytest.mark.parametrize("loss", OTHER_LOSSES)
def test_every_row_of_the_table_has_a_solver(loss):
    p = problem("rbf", loss=OTHER_LOSSES[loss], weight=weights())
    solution, _ = nystrom.solve(p, Stop(1e-8, 50000), 10)
    judged = judge_in_span(p, 10, solution)
    assert solution.converged and judged.gap <= 1e-8 + 1e-12
    assert judged.gap == pytest.approx(solution.gap, abs=1e-10)


def test_features_that_must_be_in_memory_and_are_not():
    p = problem("rbf", loss=OTHER_LOSSES["l1svm"], memory=1000)
    with pytest.raises(MemoryLimitError, match="features of 60 examples"):
        nystrom.solve(p, Stop(), 10)


def many(m=3000, d=3, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((m, d))
    y = np.where(np.hypot(X[:, 0], X[:, 1]) + 0.3 * generator.standard_normal(m) > 1.1, 1.0, -1.0)
    return X, y


@pytest.mark.parametrize("tolerance", [1e-3, 1e-9])
def test_a_sample_begins_and_its_hessian_serves_for_all(monkeypatch, tolerance):
    X, y = many()
    u = np.random.default_rng(1).uniform(0.5, 2, 3000)
    p = Problem(None, Gram(Kernel("rbf", 0.5), X), y, u, losses.odm(2.0**8, 0.5, 0.3, u.sum()))
    monkeypatch.setattr(nystrom, "_TASK_ROWS", 700)
    whole, steps = nystrom.solve(p, Stop(1e-12, 200), 8)[0], []
    monkeypatch.setattr(blocks, "SAMPLE", 40)
    solution, _ = nystrom.solve(p, Stop(tolerance, 200), 8, progress=steps.append)
    assert solution.converged and len(steps) < 15
    assert solution.primal == pytest.approx(whole.primal, rel=2 * tolerance)
    again, _ = nystrom.solve(p, Stop(tolerance, 200), 8, executor=Threads(2))
    assert np.array_equal(again.coef, solution.coef)
    other, _ = nystrom.solve(p, Stop(tolerance, 200), 8, seed=5)
    assert not np.array_equal(other.coef, solution.coef)


@pytest.mark.parametrize("form", ["dense", "sparse", "kernel"])
def test_blocks_multiply_as_the_matrix_does(form, monkeypatch):
    monkeypatch.setattr(blocks, "_PIECE_BYTES", 800)
    monkeypatch.setattr(blocks, "_GRAM_ROWS", 17)
    generator = np.random.default_rng(0)
    X = generator.standard_normal((150, 6)) * (generator.random((150, 6)) < 0.5)
    L = np.tril(generator.uniform(0.5, 1, (6, 6)))
    if form == "kernel":
        kernel = Kernel("rbf", 0.4)
        sources = [KernelSource(X[k : k + 50], kernel, X[:6]) for k in (0, 50, 100)]
        matrix = objective.kernel_matrix(kernel, X, X[:6])
    else:
        matrix, X = X, sparse.csr_matrix(X) if form == "sparse" else X
        sources = [RowSource(X[k : k + 50]) for k in (0, 50, 100)]
    v, w, s = generator.standard_normal(150), generator.standard_normal(6), generator.random(150)
    s[::3] = 0
    chosen = np.sort(generator.choice(150, 40, replace=False))
    for factor, executor in ((None, Serial()), (L, Threads(2))):
        expected = matrix if factor is None else matrix @ np.linalg.inv(L).T
        B = Blocks(sources, [50, 50, 50], 6, factor, executor)
        assert B.shape == (150, 6)
        assert np.allclose(B.times(w), expected @ w)
        assert np.allclose(B.transposed_times(v), expected.T @ v)
        assert np.allclose(B.weighted_gram(s), expected.T @ (s[:, None] * expected))
        some = B.subset(chosen)
        assert np.allclose(some.times(w), expected[chosen] @ w)
        assert np.allclose(
            some.weighted_gram(s[:40]), expected[chosen].T @ (s[:40, None] * expected[chosen])
        )


def test_blocks_of_a_linear_problem():
    """What out of core training does: Newton's method on rows that are read in passes."""
    X, y = many(2000, 5)
    p = Problem(X, None, y, np.ones(2000), losses.odm(2.0**10, 0.5, 0.3, 2000))
    B = Blocks([RowSource(X[:900]), RowSource(X[900:])], [900, 1100], 5)
    solution = blocks.solve(p, B, Stop(1e-8, 100))
    judged = objective.certify_linear(X, y, p.weight, p.loss, solution.w, solution.eta)
    assert solution.converged and judged.gap == pytest.approx(solution.gap, abs=1e-12)


def test_single_precision_by_the_factor_and_by_the_rows():
    """What it changes, times the square of the pivots' ratio, is a tenth of the gap at most."""
    eps = float(np.finfo(np.float32).eps)
    factor = np.tril(np.full((3, 3), 0.5))
    for ratio in (1.0, 40.0):
        np.fill_diagonal(factor, (1.0, ratio, 0.5 * (1 + ratio)))
        tolerance = max(1e-5, 10 * eps * ratio**2)
        assert nystrom.is_single_enough(Kernel("rbf", 0.3), factor, 1.0, 1.0001 * tolerance)
        assert not nystrom.is_single_enough(Kernel("rbf", 0.3), factor, 1.0, 0.9999 * tolerance)
    assert not nystrom.is_single_enough(Kernel("rbf", 0.3), np.eye(3), 1e6, 1e-2)
    assert not nystrom.is_single_enough(Kernel("poly", 0.3, 1.0, 2), np.eye(3), 1.0, 1e-2)


def test_features_in_memory_are_counted_twice():
    p = problem("rbf", loss=OTHER_LOSSES["l1svm"], memory=2 * 8 * 60 * 10)
    assert nystrom.solve(p, Stop(1e-2, 999), 10)[0].converged
    p = problem("rbf", loss=OTHER_LOSSES["l1svm"], memory=2 * 8 * 60 * 10 - 1)
    with pytest.raises(MemoryLimitError):
        nystrom.solve(p, Stop(1e-2, 999), 10)


@pytest.mark.parametrize("is_dense", [False, True])
def test_a_basis_of_stored_rows(is_dense):
    """Less the mean of dense landmarks, where distances count; in single precision where it can."""
    X = examples()[0]
    X = X.toarray() if is_dense else X

    class Store:
        largest_square = 4.0

        def __getitem__(self, rows):
            return X[rows]

    Store.is_dense = is_dense
    chosen = SimpleNamespace(rows=np.array([3, 7, 9]), factor=np.eye(3))
    for name, tolerance in (("rbf", 1e-2), ("rbf", 1e-7), ("poly", 1e-2)):
        basis = nystrom.basis_of(Store(), Kernel(name, 0.3, 1.0, 2), chosen, tolerance)
        Z, has_centre = X[chosen.rows], is_dense and name == "rbf"
        assert (basis.centre is None) != has_centre and basis.factor is chosen.factor
        if has_centre:
            np.testing.assert_allclose(basis.centre, Z.mean(axis=0))
            Z = Z - Z.mean(axis=0)
        is_single = name == "rbf" and tolerance == 1e-2
        assert basis.Z.dtype == (np.float32 if is_single else float)
        np.testing.assert_allclose(dense(basis.Z), dense(Z), atol=1e-6 if is_single else 0)


@pytest.mark.parametrize("loss", ["odm", "l1svm"])
def test_no_kernel_values_are_made_when_the_time_is_over_after_the_landmarks(loss, monkeypatch):
    p, seen, block = problem("rbf"), [], kernels.block
    p = p if loss == "odm" else p._replace(loss=OTHER_LOSSES[loss])
    monkeypatch.setattr(Stop, "is_late", True)
    monkeypatch.setattr(kernels, "block", lambda *a, **b: seen.append(a[1]) or block(*a, **b))
    solution, captured = nystrom.solve(p, Stop(1e-3, 200), 12)
    assert [rows.shape[0] for rows in seen] == [1] * 12 and captured > 0
    assert solution.solver == "nystrom" and not solution.coef.any() and not solution.converged
    assert solution.gap <= 1 and solution.iterations == 0


def test_a_gap_that_a_second_look_cannot_change_is_not_looked_at_again(monkeypatch):
    seen, gap = [], blocks.BlockSpace.gap
    monkeypatch.setattr(blocks.BlockSpace, "gap", lambda *a: seen.append(1) or gap(*a))
    assert not nystrom.solve(problem("rbf"), Stop(1e-14, 1), 12)[0].converged
    assert len(seen) == 2
