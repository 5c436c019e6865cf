"""LDM's starts, its limits of iterations and memory, and the solver that auto takes."""

import numpy as np
import pytest
from ldm_problems import SOLVERS, assert_confirmed, ldm_problem
from problems import problem, weights

from odmtool import solvers
from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.errors import MemoryLimitError, UsageError
from odmtool.solvers import auto, linear_cost
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.descent import dcd
from odmtool.solvers.ldm import dense as ldm_dense
from odmtool.solvers.ldm import descent as ldm
from odmtool.solvers.ldm import dual as ldm_dual
from odmtool.solvers.ldm import newton as ldm_newton
from odmtool.solvers.ldm import reduced
from odmtool.solvers.paths import path


@pytest.mark.parametrize("solver", ["dcd", "newton", "dcd-dense"])
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_a_start_at_the_solution_ends_at_once(kernel, solver):
    p = ldm_problem(kernel, (4.0, 1.0, 16.0))
    cold = SOLVERS[solver].solve(p, Stop(1e-9, 50000))
    warm = SOLVERS[solver].solve(p, Stop(1e-6, 50000), start=cold.eta)
    assert cold.iterations > 0 and warm.iterations == 0 and warm.converged
    assert warm.primal == pytest.approx(cold.primal, rel=1e-5)


@pytest.mark.parametrize("mu1", [0.0, 2.0])
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_any_start_will_do(kernel, mu1):
    p = ldm_problem(kernel, (mu1, 1.0, 16.0), weight=weights())
    expected = ldm_newton.solve(p, Stop(1e-10, 1000)).primal
    for start in (np.full(60, -3.0), np.full(60, 7.0), np.linspace(-1, 1, 60)):
        solution = ldm.solve(p, Stop(1e-6, 5000), start=start, seed=3)
        assert_confirmed(p, solution, 1e-6)
        assert solution.primal == pytest.approx(expected, rel=1e-5)
    none = ldm.solve(p, Stop(1e-6, 0), start=np.full(60, -3.0))
    assert none.iterations == 0 and not none.converged and np.isfinite(none.gap)


def test_margins_of_a_primal_point_give_a_start():
    p = ldm_problem("rbf", (2.0, 1.0, 16.0), weight=weights())
    solved = ldm_newton.solve(p, Stop(1e-10, 1000))
    t = p.y * (p.gram.matrix() @ (p.y * solved.coef))
    eta = ldm.demanded(p, t)
    away = abs(t - 1) > 2e-3
    assert eta[away] == pytest.approx(solved.eta[away], abs=1e-5)
    fewer = ldm.solve(p, Stop(1e-5, 5000), start=eta).iterations
    assert fewer < ldm.solve(p, Stop(1e-5, 5000)).iterations


def test_feasible_moves_the_sum_into_its_range_and_nothing_else():
    weight, loss = weights(20), losses.ldm(1.0, 0.5, 4.0, 20.0)
    units = weight.sum() / 20
    for total, expected in ((-1.0, 0.5 * units), (0.6 * units, 0.6 * units), (9.0, 4.5 * units)):
        eta = np.full(20, total / 20)
        moved = ldm_dual.feasible(loss, weight, eta)
        assert moved.sum() == pytest.approx(expected)
        assert (moved is eta) == (total == 0.6 * units)
        assert np.ptp((moved - eta) / weight) < 1e-12


def test_the_seed_decides_the_order_and_nothing_else():
    p = ldm_problem()
    a, b, other = (ldm.solve(p, Stop(1e-4), seed=seed).w for seed in (1, 1, 2))
    assert np.array_equal(a, b) and not np.array_equal(a, other)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_iteration_limit_is_honest(solver):
    stopped = SOLVERS[solver].solve(ldm_problem("rbf", (16.0, 16.0, 256.0)), Stop(1e-11, 2))
    assert stopped.iterations <= 2 and not stopped.converged and stopped.gap > 1e-11


@pytest.mark.parametrize("rows_that_fit", [1, 7, 60])
def test_kernel_descent_in_bounded_memory(rows_that_fit):
    p = ldm_problem("rbf", memory=rows_that_fit * 60 * 8)
    solution = ldm.solve(p, Stop(1e-8, 20000))
    expected = ldm_newton.solve(ldm_problem("rbf"), Stop(1e-10, 1000))
    assert solution.converged
    assert solution.primal == pytest.approx(expected.primal, rel=1e-7)


def test_progress_is_reported():
    seen = []
    for module in SOLVERS.values():
        seen.clear()
        module.solve(ldm_problem("rbf"), Stop(1e-6, 1000), progress=seen.append)
        assert len(seen) > (0 if module is path else 2)


def test_what_is_too_large_is_refused_before_any_work(monkeypatch):
    monkeypatch.setattr(Gram, "matrix", lambda self: pytest.fail("the matrix was made"))
    X = np.zeros((1001, 2))
    p = Problem(X, None, np.ones(1001), np.ones(1001), losses.ldm(1, 1, 1, 1001))
    with pytest.raises(UsageError, match="1000"):
        ldm_dense.solve(p, Stop())
    with pytest.raises(MemoryLimitError, match="of memory"):
        solvers.solve(ldm_problem("rbf", memory=2 * 60 * 60 * 8), solver="newton")
    monkeypatch.setattr(ldm_newton, "LARGEST_HESSIAN", 1)
    monkeypatch.setattr(ldm_newton, "LARGEST_GRAM", 1000)
    monkeypatch.setattr(path, "LARGEST_GRAM", 1000)
    for module in (ldm_newton, path):
        with pytest.raises(UsageError, match="dcd"):
            module.solve(p, Stop())


@pytest.mark.parametrize(
    "bad", [dict(mu1=-1), dict(mu2=-0.1), dict(lambda_=0), dict(lambda_=-1),
            dict(mu1=float("nan")), dict(mu2=float("inf")), dict(lambda_=float("inf"))],
)  # fmt: skip
def test_parameters_out_of_range(bad):
    with pytest.raises(UsageError, match=next(iter(bad)).rstrip("_")):
        losses.ldm(**{"mu1": 1.0, "mu2": 1.0, "lambda_": 1.0, "total_weight": 5} | bad)


@pytest.mark.parametrize("kernel", [None, "rbf", "precomputed"])
@pytest.mark.parametrize("solver", ["auto", "dcd", "newton", "dcd-dense"])
def test_solvers_by_name(solver, kernel):
    p = ldm_problem(kernel)
    solution = solvers.solve(p, solver=solver, tolerance=1e-6, max_iter=20000)
    assert_confirmed(p, solution, 1e-6)
    assert solution.solver == ("newton" if solver == "auto" else solver) and solution.optimal


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_auto_hands_over_to_newton(monkeypatch, kernel):
    monkeypatch.setattr(auto, "_SMALL_PRODUCT", 0)
    monkeypatch.setattr(auto, "_EPOCHS_WITH_JUMP", 0.1)
    monkeypatch.setattr(auto, "_LEAST_EPOCHS_WITH_JUMP", 6)
    monkeypatch.setattr(linear_cost, "jump_newton_cost", lambda X, _: linear_cost.epoch_cost(X))
    monkeypatch.setattr(linear_cost, "least_descent_cost", lambda X, _: 0.0)
    for loss in (losses.ldm(16.0, 16.0, 2.0**12, 60), losses.l1svm(2.0**12, 60)):
        solution = solvers.solve(problem(kernel, loss=loss), tolerance=1e-8)
        assert solution.solver == "dcd, then newton" and solution.converged
        assert solution.iterations > 6
    little = problem("rbf", loss=losses.ldm(16.0, 16.0, 2.0**12, 60), memory=60 * 60 * 8)
    assert solvers.solve(little, tolerance=1e-2).solver == "dcd"


def test_a_gap_that_is_not_enough_for_the_whole_problem_is_made_smaller(monkeypatch):
    gaps, certified = [], reduced.certified

    def doubtful(*arguments):
        found = certified(*arguments)
        gaps.append(found.gap)
        return found._replace(converged=found.converged and len(gaps) > 1)

    monkeypatch.setattr(reduced, "certified", doubtful)
    assert ldm_newton.solve(ldm_problem(), Stop(1e-2, 100)).converged
    assert len(gaps) == 2 and gaps[1] < gaps[0]


def test_the_next_tolerance_is_a_quarter_of_the_gap_that_was_reached(monkeypatch):
    p, asked, reached = ldm_problem(), [], []

    def method(inner, stop, start):
        asked.append(stop.tolerance)
        found = dcd.solve(inner, stop, start=start)
        reached.append(found.gap)
        return found

    certified = reduced.certified
    monkeypatch.setattr(
        reduced, "certified",
        lambda *a: certified(*a)._replace(converged=len(asked) == 3),
    )  # fmt: skip
    reduced.solve(p, reduced.by_rows(p), method, Stop(1e-2, 9999), None, "dcd")
    assert asked == [1e-2, min(1e-2, reached[0]) / 4, min(asked[1], reached[1]) / 4]
    assert reached[0] < 1e-2


@pytest.mark.parametrize("end", [0, 1])
def test_a_sum_that_differs_by_rounding_is_at_its_bound(end):
    """By a 10^-13th of the larger of the upper bound and the sum of all sizes."""
    weight, loss = np.full(20, 0.5), losses.ldm(1.0, 0.5, 4.0, 20.0)
    bound, most = (0.25, 2.25)[end], 2.25
    signs = np.where(np.arange(20) % 2, 1.0, -1.0)
    for spread in (0.0, 50.0):  # times signs, which change no sum
        eta = np.full(20, bound / 20) + spread * signs
        largest = max(most, np.abs(eta).sum())
        for share, is_kept in ((0.8e-13, True), (1.3e-13, False)):
            moved = eta.copy()
            moved[3] += (1 if end else -1) * share * largest
            excess = moved.sum() - bound
            assert abs(excess) == pytest.approx(share * largest, rel=0.2)
            found = ldm_dual.feasible(loss, weight, moved)
            assert (found is moved) == is_kept
