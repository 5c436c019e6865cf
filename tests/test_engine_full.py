"""Newton's method beyond the landmarks: where it begins, what a step takes, where it ends."""

import numpy as np
import pytest
from engine_problems import LOSSES, far_examples, forced, judged, problem_of

from odmtool.core.kernels import Kernel
from odmtool.judge.binary import kernel_matrix
from odmtool.solvers import newton
from odmtool.solvers.base import Stop
from odmtool.solvers.engine import full, products, sample, solve


@pytest.mark.parametrize("loss", LOSSES)
def test_newton_beyond_the_landmarks(loss, monkeypatch):
    """Where 48 landmarks are not enough, the full problem is solved from them."""
    forced("full", monkeypatch)
    problem, expect = problem_of(Kernel("rbf", 5.0), loss, 2.0**12, 400, weighted=True), []

    def compared(run, newtons, duals):
        """Drawn examples tell about what all would."""
        found, (one,) = full_gaps(run, newtons, duals), newtons
        K = kernel_matrix(problem.gram.kernel, run.points.X, run.points.X)
        t = one.y * (K @ duals[:, 0])
        expect.append((found[0], one.shares(t, one.y * duals[:, 0]).sum()))
        return found

    full_gaps = full._expected_gaps
    monkeypatch.setattr(full, "_expected_gaps", compared)
    solution = solve.solve(problem, Stop(1e-5, 100))
    [(found, true)] = expect
    assert found == pytest.approx(true, rel=0.2)
    assert solution.solver == "landmarks, then newton" and solution.converged
    best = newton.solve(problem, Stop(1e-12, 100))
    assert solution.primal - best.primal <= solution.gap * solution.primal * (1 + 1e-6)
    truth = judged(problem, solution.coef, solution.eta)
    assert truth.gap <= solution.gap * (1 + 1e-6) <= 1e-5 * (1 + 1e-6)


def test_newton_goes_on_where_the_landmarks_are(monkeypatch):
    """The first step is not the point of the duals that they demand, which is farther away."""
    forced("full", monkeypatch)
    monkeypatch.setattr("odmtool.solvers.engine.points.BY_NUMPY", 0)
    problem, seen = problem_of(Kernel("rbf", 0.1), "odm", 2.0**14, 400, seed=1), []
    solution = solve.solve(problem, Stop(1e-3, 100), progress=seen.append)
    assert solution.solver == "landmarks, then newton" and solution.converged
    primals = np.array([now.primal for now in seen])
    assert 2 < len(primals) < 9 and np.all(np.diff(primals) <= 0)


@pytest.mark.parametrize("lambda_", [2.0**8, 2.0**18])
def test_newton_starts_at_coefficients_that_are_no_duals(lambda_, monkeypatch):
    """A sample without some far examples has few landmarks, of large coefficients that cancel."""
    monkeypatch.setattr(sample, "_SAMPLE", 60)
    problem = far_examples(600, 40, lambda_)
    solution = solve.solve(problem, Stop(1e-3, 40))
    assert solution.solver == "landmarks, then newton" and solution.converged
    assert judged(problem, solution.coef, solution.eta).gap <= solution.gap * (1 + 1e-6)


def test_a_step_makes_one_product_for_all_examples(monkeypatch):
    """The others are between examples with duals."""
    asked, steps = [], []
    of, step = products.Products.of, full.FullNewton.step

    def counted(self, some):
        asked.extend(some)
        return of(self, some)

    def counted_step(self, *gaps):
        steps.append(1)
        return (yield from step(self, *gaps))

    monkeypatch.setattr(products.Products, "of", counted)
    monkeypatch.setattr(full.FullNewton, "step", counted_step)
    monkeypatch.setattr(sample, "_SAMPLE", 60)
    problem = far_examples(600, 40, 2.0**4)
    solution = solve.solve(problem, Stop(1e-3, 40))
    assert solution.solver == "landmarks, then newton" and solution.converged
    assert judged(problem, solution.coef, solution.eta).gap <= solution.gap * (1 + 1e-6)
    everywhere = [one for one in asked if one.wanted is None and not one.exactly]
    assert steps and len(everywhere) <= len(steps) < len(asked) - len(everywhere)
