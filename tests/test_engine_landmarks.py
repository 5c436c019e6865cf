"""Landmarks and features of the kernel engine: what they span, what is left, what it costs."""

from types import SimpleNamespace

import numpy as np
import pytest
from engine_problems import KERNELS, in_span, points_of, problem_of
from scipy import sparse

from odmtool.core import kernels
from odmtool.core.kernels import Kernel
from odmtool.judge.binary import kernel_matrix
from odmtool.rows import duplicates, tiles
from odmtool.rows.duplicates import first_of_each
from odmtool.rows.executor import Serial, local_executor
from odmtool.solvers.auto import landmarks_memory
from odmtool.solvers.engine import reduced, sample
from odmtool.solvers.engine import room as plan
from odmtool.solvers.engine.columns import Columns
from odmtool.solvers.engine.cost import Cost
from odmtool.solvers.engine.features import bounded
from odmtool.solvers.engine.landmarks import Landmarks
from odmtool.solvers.engine.points import Points


@pytest.mark.parametrize("dense", [True, False])
def test_only_where_many_kernel_values_are_to_come_they_are_compiled(dense, monkeypatch):
    """A small problem does not load numba; of sparse rows fewer values are many."""
    rows = problem_of(Kernel("rbf", 0.3), "odm", 1.0, 20, dense=True).gram.X
    points = Points(Kernel("rbf", 0.3), rows if dense else sparse.csr_matrix(rows), Serial())
    with monkeypatch.context() as patch:
        patch.setattr(tiles, "_rbf", lambda *_: pytest.fail("compiled code was loaded"))
        points.expect(1e6)
        points.rows(np.arange(5)).expect(np.inf)
        by_numpy = points.values(points.X, points.X)
    points.expect(1e7)
    assert points.is_compiled is not dense
    points.expect(1e8)
    assert points.is_compiled and points.rows(np.arange(5)).is_compiled
    assert points.values(points.X, points.X) == pytest.approx(by_numpy, rel=1e-12)


def test_an_entry_of_a_sparse_row_costs_more():
    X = np.ones((9, 50))
    sparse_one, dense_one = Cost.of(sparse.csr_matrix(X)), Cost.of(X)
    assert sparse_one.size == dense_one.size == 9 and sparse_one.value > dense_one.value


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_is_left_is_the_distance_from_the_span(kernel):
    problem = problem_of(KERNELS[kernel], "odm", 1.0, 120)
    chosen, basis, found, *_ = in_span(problem, 30)
    K = kernels.gram(problem.gram.kernel, problem.gram.X)
    members, most = basis.members, K.diagonal().max()
    inverse = np.linalg.pinv(K[np.ix_(members, members)], hermitian=True)
    left = K.diagonal() - np.einsum("ij,jk,ik->i", K[:, members], inverse, K[:, members])
    assert np.all(found.left >= left - 1e-12 * most)
    assert found.left == pytest.approx(np.maximum(left, 0), abs=1e-7 * most)
    assert bounded(chosen.left, basis) == pytest.approx(found.left, abs=1e-7 * most)
    assert pytest.approx(K - _outside(K, members, inverse), abs=1e-5 * most) == found.Z @ found.Z.T


def _outside(K, members, inverse):
    return K - K[:, members] @ inverse @ K[members]


def test_landmarks_end_when_nothing_is_left():
    X = np.repeat(np.arange(4.0), 10)[:, None]
    points = Points(Kernel("rbf", 0.5), X, Serial())
    chosen = Landmarks(points, 40, 0)
    chosen.grow(40)
    assert chosen.is_exhausted
    assert sorted(X[chosen.members, 0]) == [0, 1, 2, 3]
    assert chosen.left.max() < 1e-9


def test_landmarks_of_nothing():
    chosen = Landmarks(Points(Kernel("poly", 1.0, 0.0, 2), np.zeros((5, 2)), Serial()), 5, 0)
    assert chosen.is_exhausted


def test_a_weighted_gram_matrix_is_made_of_all_parts(monkeypatch):
    monkeypatch.setattr(reduced, "_ROWS", 1)
    generator = np.random.default_rng(0)
    Z, weights, rows = generator.random((70, 3)), generator.random(50), np.arange(10, 60)
    found = reduced.weighted_gram(Z, rows, weights, local_executor(2))
    assert found == pytest.approx(Z[rows].T @ (weights[:, None] * Z[rows]))


def test_the_memory_of_a_problem_is_what_it_keeps():
    """Tiles of half the matrix in single precision, features, and three square matrices."""
    m, r = 5000, plan.landmarks_in(5000, 1e12)
    needed = 2.0 * m * (m + 1024) + r * (4 * m + 12 * sample.sample_size(m)) + 24 * r * r
    assert plan.needed_bytes(m, 1e12) == needed
    # Four problems: Hessian and factor of each, and vectors of the examples.
    m, memory = 20_000, 1e9
    room = plan.Room.of(m, memory, 4)
    needed = [n * (4 * m + 8 * room.sample) + 4 * (200 * m + 16 * n * n)
              for n in (room.landmarks, room.landmarks + 1)]  # fmt: skip
    assert 48 < room.landmarks < 2500 and needed[0] <= memory - room.tiles < needed[1]


@pytest.mark.parametrize("m", [1501, 8000, 10_001, 50_000, 10**6])
def test_little_memory_has_room_for_few_landmarks(m):
    memory = landmarks_memory(m)
    assert plan.landmarks_in(m, memory) >= 16
    assert plan.needed_bytes(m, memory) <= 1.1 * memory
    enough = plan.memory_for_many(m)
    assert plan.landmarks_in(m, 2 * enough) >= 256 and plan.landmarks_in(m, enough / 2) < 256


@pytest.mark.parametrize("dense", [False, True])
def test_duplicates_are_found(dense):
    rows = np.array([[0.0, 1, 2], [0, 1, 2], [0, 1, 2.5], [-0.0, 1, 2], [0, 0, 0], [0, 0, 0]])
    y = np.array([1.0, 1, 1, -1, 1, 1])
    X = rows if dense else sparse.csr_matrix(rows)
    first, member = first_of_each(X, y)
    assert first.tolist() == [0, 2, 3, 4]
    assert member.tolist() == [0, 0, 1, 2, 3, 3]


@pytest.mark.parametrize("dense", [False, True])
def test_examples_with_the_same_hash_are_compared(dense, monkeypatch):
    monkeypatch.setattr(duplicates, "_hashes", lambda X: np.zeros(X.shape[0], np.uint64))
    for rows, expected in (([[1.0, 2], [1, 3], [1, 2]], [0, 1, 2]), ([[1.0, 2]] * 3, [0, 0, 0])):
        X = np.array(rows) if dense else sparse.csr_matrix(rows)
        first, member = duplicates.first_of_each(X, np.ones(3))
        assert first[member].tolist() == expected


def test_examples_without_duplicates_stay():
    X = np.random.default_rng(0).standard_normal((40, 3))
    first, member = first_of_each(X, np.ones(40))
    assert first.tolist() == member.tolist() == list(range(40))


@pytest.mark.parametrize("size", [20, 60])
def test_the_forecast_of_the_gap_at_the_demanded_duals_is_of_all_that_the_landmarks_leave(
    size, monkeypatch
):
    """Half the sum of s_i (E a)_i^2, of a sample so many times as much as is left of others."""
    monkeypatch.setattr(sample, "BLOCK", 7)
    problem, m = problem_of(KERNELS["rbf"], "odm", 2.0**8, 60, dense=True), 60
    points, random = points_of(problem), np.random.default_rng(2)
    columns = Columns.of(problem.y[None], problem.weight, problem.loss)
    rows = np.arange(0, m, m // size)
    drawn = sample.DrawnExamples(columns, points, rows, 6, 0, 1e-3)
    drawn.landmarks.grow(6)
    a, slopes = random.standard_normal(size), random.uniform(0.5, 2.0, size)
    a[[0, 3, 6]] = 9.0, 0.0, -8.0
    X = problem.gram.X[rows]
    K, basis = kernel_matrix(problem.gram.kernel, X, X), drawn.landmarks.members
    left = K - K[:, basis] @ np.linalg.solve(K[np.ix_(basis, basis)], K[basis])
    shares = slopes * (left @ a) ** 2
    # All examples with duals in place of drawn ones.
    chosen = np.flatnonzero(a)
    monkeypatch.setattr(np.random, "default_rng", lambda seed: SimpleNamespace(
        choice=lambda some, count: np.array([i for i in some if a[i]])
    ))  # fmt: skip
    times = 1.0 if size == m else sample._SAFETY * size / (size - 6 + 1)
    found = drawn._demanded(drawn.Z, a, slopes)
    assert found == pytest.approx(times**2 * shares[chosen].sum() / 2, rel=1e-3)
    assert drawn._demanded(drawn.Z, 0 * a, slopes) == 0.0
