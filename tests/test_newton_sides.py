"""Both sides of limits in Newton's method: of what rounding leaves, of shares, of sizes."""

from types import SimpleNamespace

import numpy as np
import pytest
from engine_problems import problem_of
from scipy import sparse

from odmtool.core import losses
from odmtool.core.csr import CSR
from odmtool.core.kernels import Kernel
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.large import blocks
from odmtool.solvers.newton import newton, spaces


def test_a_whole_step_that_lowers_the_objective_a_little():
    """By a ten-thousandth of what the slope promises, or whose end still falls."""
    def takes(along, squared, rise=0.0, start=0.0, end=0.0):
        here, there = (
            losses.Evaluation(np.array([v]), np.array([-d]), None)
            for v, d in ((2.0, start), (2.0 + rise, end))
        )  # fmt: skip
        return newton.takes_whole_step(here, there, np.array([0.5]), (along, squared))

    assert takes(-1.0, 2 - 2.0e-4 - 1e-9) and not takes(-1.0, 2 - 2.0e-4 + 1e-9)
    assert takes(-1.0, 1.0, 9.0) and not takes(-1.0, 1.0 + 1e-9, 9.0)
    assert takes(-1.0, 1.5, 0.2) and not takes(-1.0, 1.5, 0.26)
    assert takes(-1.0, 1.5, 0.2, -1.0) and not takes(-0.5, 1.5, 0.0, -1.0)
    assert takes(-1.0, 1.5, 9.0, 0.0, -1.0) and not takes(-1.0, 1.5, 9.0, 0.0, -0.99)


def test_a_direction_that_is_no_way_down_ends_next_to_where_it_begins():
    loss = losses.scaled(losses.lssvm(1.0, 1.0), np.ones(1))
    step = newton.shorter_step(loss, np.ones(1), np.zeros(1), (0.0, 1.0))
    assert 0 < step < 1e-9


def test_a_slope_whose_growth_rounding_hides_leads_to_the_whole_step():
    loss = losses.scaled(losses.lssvm(1.0, 1.0), np.ones(1))
    assert newton.shorter_step(loss, np.ones(1), np.zeros(1), (-1e-317, 0.0)) == 1.0


def track_of(points):
    track = newton.Track()
    for primal, gap in points:
        track.add(SimpleNamespace(primal=primal, gap=gap, scale=2.0))
    return track


def test_steps_that_bring_nothing_are_counted():
    """Five of them, which lower neither the gap nor P by more than rounding."""
    assert not track_of([(1.0, 0.5)] * 5).is_stalled and track_of([(1.0, 0.5)] * 6).is_stalled
    waits = [(1.0, 0.5)] * 5
    assert not track_of([*waits, (1.0, 0.4), *waits[1:]]).is_stalled
    assert not track_of([*waits, (0.9, 0.6), *waits[1:]]).is_stalled
    assert track_of([*waits, (1.0, 0.4), (1.0, 0.4), *waits[1:]]).is_stalled
    falling = [(1.0 - 1.5e-14 * k * 2, 0.5) for k in range(6)]
    assert not track_of(falling).is_stalled
    assert track_of([(1.0, 0.5), *[(1.0 - 0.9e-14 * 2, 0.5)] * 5]).is_stalled


def test_dense_rows_that_are_few_are_an_array():
    """Up to 4 MB; and without features, or of a singular matrix, there is a solution."""
    def rows(m, d):
        return CSR(np.empty(0), np.empty(0, int), np.zeros(m + 1, int), (m, d))

    assert spaces._is_small(rows(2**9, 2**10)) and not spaces._is_small(rows(2**9, 2**10 + 1))
    assert not spaces._is_small(np.zeros((2, 2)))
    assert spaces._solve_symmetric(lambda: np.empty((0, 0)), np.empty(0)).size == 0
    A = np.random.default_rng(0).standard_normal((5, 5))
    definite = A @ A.T
    for matrix in (definite, definite - 9 * np.eye(5) + 9 * np.diag([0, 0, 0, 0, 1.0])):
        matrix[np.diag_indices(5)] = np.abs(matrix.diagonal())
        lower, right = np.tril(matrix) + np.triu(np.full((5, 5), 7.0), 1), np.arange(1.0, 6)
        found = spaces._solve_symmetric(lower.copy, right)
        np.testing.assert_allclose(matrix @ found, right, rtol=1e-9)


def test_wide_rows_few_of_whose_values_are_zero_are_an_array(monkeypatch):
    """From 40 % on, where there is no Hessian; what they take is planned."""
    X = np.random.default_rng(2).standard_normal((30, 9)) * (np.arange(9) < 5)
    wide = CSR.of(sparse.csr_matrix(X))
    assert not spaces.array_bytes(wide)
    monkeypatch.setattr(spaces, "LARGEST_HESSIAN", 8)
    assert spaces.array_bytes(wide) == 1.75 * 8 * 30 * 9
    narrow = CSR.of(sparse.csr_matrix(X[:, 3:]))
    assert not spaces.array_bytes(X) and not spaces.array_bytes(narrow)
    y = np.where(np.arange(30) % 3, 1.0, -1.0)
    found = []
    for rows in (X, wide):
        space = spaces.WeightSpace(rows, y)
        assert isinstance(space._X, np.ndarray)
        loss = losses.scaled(losses.odm(64.0, 0.5, 0.3, 30), np.ones(30))
        space.gap(loss, np.ones(9), y, y / 2, 0, 0)
        found.append(space.newton_point(np.abs(y), None, None, np.ones(9), 1e-12))
    np.testing.assert_allclose(*found, rtol=1e-12)
    gradient = np.ones(9) - X.T @ (y * y / 2)
    exact = np.ones(9) - np.linalg.solve(np.eye(9) + X.T @ X, gradient)
    np.testing.assert_allclose(found[0], exact, atol=1e-5)


def test_conjugate_gradients_end_where_the_gradient_is_small_enough(monkeypatch):
    """A step to a smaller one costs products and proves no more than is asked for."""
    monkeypatch.setattr(spaces, "LARGEST_HESSIAN", 8)
    X, y = np.random.default_rng(3).random((60, 40)), np.where(np.arange(60) % 3, 1.0, -1.0)
    loss = losses.scaled(losses.odm(2.0**12, 0.5, 0.3, 60), np.ones(60))
    told, steps = [], spaces.conjugate_gradients
    monkeypatch.setattr(
        spaces, "conjugate_gradients",
        lambda *given, **limits: told.append(limits["atol"]) or steps(*given, **limits),
    )  # fmt: skip
    space = spaces.WeightSpace(X, y)
    for enough in (0.0, 1.0):
        space.gap(loss, np.ones(40), y, y / 2, enough, 0)
        space.newton_point(np.abs(y), None, None, np.ones(40), 1e-12)
    gradient = np.linalg.norm(np.ones(40) - X.T @ (y * y / 2))
    # A gradient of this norm is a gap of a quarter of what is enough.
    np.testing.assert_allclose(told, [1e-6 * gradient, np.sqrt(0.5)])


def test_a_gap_in_function_space_is_the_smaller_of_two():
    """Of the demanded duals, 1/2 |w - w(eta)|^2, and of coef itself, by the losses."""
    for seed in range(8):
        problem = problem_of(Kernel("rbf", 0.5), "odm", 4.0 ** (seed - 1), 40, seed, weighted=True)
        K, y = problem.gram.matrix(), problem.y
        space = spaces.FunctionSpace(problem.gram, y)
        loss = losses.scaled(problem.loss, problem.weight)
        random = np.random.default_rng(seed)
        eta = -losses.derivative(loss, random.normal(0.5, 1.0, 40))
        coef = eta + 10.0 ** -random.integers(0, 5) * random.standard_normal(40)
        t = y * (K @ (y * coef))
        eta = -losses.derivative(loss, t)
        apart = (coef - eta) * y @ K @ ((coef - eta) * y) / 2
        own = (losses.value(loss, t) + coef * t - losses.dual_value(loss, coef)).sum()
        for enough, far in ((0.0, np.inf), (apart * 2, np.inf), (0.0, 0.0)):
            gap, dual, same = space.gap(loss, coef, t, eta, enough, far)
            is_first = apart <= own or enough > 0 or far == 0
            expected = apart if is_first else own
            assert gap == pytest.approx(expected, rel=1e-4, abs=1e-12) and same is t
            assert np.array_equal(dual, eta if is_first else coef)


def test_linear_problems_without_columns_have_a_space():
    problem = Problem(np.zeros((3, 0)), None, np.ones(3), np.ones(3), losses.odm(1.0, 0.5, 0.1, 3))
    found = newton.solve(problem, Stop(1e-3, 5))
    assert found.w.size == 0 and found.primal == pytest.approx(
        losses.value(losses.scaled(problem.loss, np.ones(3)), np.zeros(3)).sum()
    )


def test_conjugate_gradients_take_a_step_however_little_there_is_to_gain(monkeypatch):
    """At w = 0 with a small lambda the gradient is small enough, and w = 0 answers nothing."""
    monkeypatch.setattr(spaces, "LARGEST_HESSIAN", 8)
    X, y = np.random.default_rng(3).random((60, 40)), np.where(np.arange(60) % 3, 1.0, -1.0)
    loss = losses.scaled(losses.odm(1e-10, 0.5, 0.3, 60), np.ones(60))
    space, w = spaces.WeightSpace(X, y), np.zeros(40)
    eta = -losses.derivative(loss, np.zeros(60)) * y
    space.gap(loss, w, np.zeros(60), eta, 1.0, 0)
    assert np.any(space.newton_point(np.ones(60), eta, np.zeros(60), w, 1.0))


def test_after_a_short_step_it_begins_again_from_a_smaller_lambda(monkeypatch):
    """Few examples with many features and a large lambda: it takes dozens of steps no more."""
    generator = np.random.default_rng(0)
    X = generator.poisson(0.05, (300, 400)).astype(float)
    y = np.sign(X[:, :50].sum(1) - X[:, 50:100].sum(1) + 0.5)
    problem = Problem(X, None, y, np.ones(300), losses.odm(2.0**20, 0.2, 0.2, 300))
    told = []
    found = newton.solve(problem, Stop(1e-6), progress=told.append)
    assert found.converged and len(told) < 10 < found.iterations < 25
    for limit in (1, 2, 5):
        limited = newton.solve(problem, Stop(1e-6, limit))
        assert limited.iterations == limit and not limited.converged
    monkeypatch.setattr(newton, "_EARLY", 0)
    slow = newton.solve(problem, Stop(1e-6))
    assert slow.converged and slow.iterations > 60
    np.testing.assert_allclose(found.primal, slow.primal, rtol=1e-6)


def test_a_start_is_not_left_for_a_smaller_lambda():
    """Newton's method begins at the solution of a sample, whose Hessian is for these weights."""
    random = np.random.default_rng(1)
    X = np.exp(2 * random.standard_normal((9000, 40)))
    y = np.sign(np.tanh(X[:, 0]) + np.tanh(X[:, 1]) - 1 + 0.3 * random.standard_normal(9000))
    problem = Problem(X, None, y, np.ones(9000), losses.odm(2.0**14, 0.2, 0.2, 9000))
    found = blocks.solve(problem, blocks.Blocks([blocks.RowSource(X)], [9000], 40), Stop(1e-4, 200))
    assert found.converged and found.iterations < 150
