"""Gaps at margins in single precision, bounded by drawn rows in double precision."""

import numpy as np
import pytest
from engine_problems import KERNELS, far_examples, forced, judged, problem_of
from problems import examples

from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.judge.binary import kernel_matrix
from odmtool.rows.executor import Serial
from odmtool.rows.tiles import tile_values
from odmtool.solvers import rounding, value_rounding
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.engine import certificate, checked, full, sample, solve
from odmtool.solvers.engine.certificate import Draw
from odmtool.solvers.engine.checked import Known
from odmtool.solvers.engine.points import Points

OFF = 0.02


def inexact(seed: int, kind: str, monkeypatch, m: int = 300):
    """Margins that are as far off as they may be, and by how much the sum of shares is larger."""
    problem = problem_of(KERNELS["rbf"], "odm", 2.0**6, m, seed)
    points = Points(problem.gram.kernel, problem.gram.X, Serial())
    random = np.random.default_rng(seed)
    loss = losses.scaled(problem.loss, problem.weight)
    eta = losses.nearest_dual(loss, random.standard_normal(m))
    a, error = problem.y * eta, OFF / np.abs(eta).sum()
    monkeypatch.setattr(Points, "single_product_error", error)
    exactly = kernel_matrix(problem.gram.kernel, problem.gram.X, problem.gram.X) @ a
    off = {"even": random.uniform(-OFF, OFF, m), "few": OFF * (random.random(m) < 0.02)}[kind]
    # In the direction in which the shares of P - D grow.
    tilt = losses.derivative(loss, problem.y * exactly) + eta
    f = exactly - problem.y * (np.sign(tilt) * np.abs(off) if kind == "few" else off)

    def value(f):
        return float((losses.value(loss, problem.y * f) + eta * problem.y * f).sum())

    primal = float((losses.value(loss, problem.y * exactly)).sum() + a @ exactly / 2)
    primal -= float((losses.value(loss, problem.y * f)).sum() + a @ f / 2)
    known = Known(problem.y, a, f, eta, np.abs(a).sum(), loss)
    return points, known, value(exactly) - value(f), primal


@pytest.mark.parametrize("kind", ["even", "few"])
def test_the_bound_fails_as_rarely_as_it_says(kind, monkeypatch):
    """With a probability so large that failures would be seen; the X have the means they should."""
    monkeypatch.setattr(checked, "DRAWN", (60,))
    monkeypatch.setattr(checked, "_seen", np.mean)
    failures, draws, means, of = 0, 0, [], Draw.of

    def noted(total, samples):
        means.append(samples.mean())
        return of(total, samples)

    monkeypatch.setattr(Draw, "of", noted)
    for seed in range(4):
        points, known, gained, primal = inexact(seed, kind, monkeypatch)
        found = []
        means.clear()
        for k in range(50):
            chance = (seed, k), 0.2
            found.append(checked.more(points, known, np.inf, 60, lambda chance=chance: chance))
            failures += found[-1].gap < gained
            draws += 1
        for seen, truth in ([more.primal for more in found], primal), (means, gained):
            assert abs(np.mean(seen) - truth) <= 5 * np.std(seen) / np.sqrt(50) + 1e-9
    assert failures <= 0.2 * draws


def test_a_bound_below_what_is_allowed_needs_no_probability(monkeypatch):
    points, known, gained, _primal = inexact(0, "even", monkeypatch)
    total = rounding.shares_error(known.loss, known.y * known.f, known.eta, OFF * (1 + 1e-9))
    monkeypatch.setattr(checked, "DRAWN", (3,))
    more = checked.more(points, known, 100 * total, 300, lambda: (0, 1e-9))
    assert more.failure == 0 and gained <= more.gap == pytest.approx(total, rel=1e-6)


def test_what_double_precision_rounds_is_added(monkeypatch):
    points, known, _gained, _primal = inexact(0, "even", monkeypatch)
    points.value_error = OFF / known.size
    error = rounding.sum_error(300) * points.diagonal.max() + points.value_error
    off, exactly = (OFF / known.size + 2 * error) * known.size, error * known.size
    t, largest = known.y * known.f, losses.slopes_largest(known.loss)
    total = rounding.shares_error(known.loss, t, known.eta, off)
    tilt = np.abs(losses.derivative(known.loss, t) + known.eta) + largest * off
    added = (exactly * tilt + exactly**2 / 2 * largest).sum()
    monkeypatch.setattr(checked, "DRAWN", (3,))
    more = checked.more(points, known, 1e6 * total, 1000, lambda: (0, 1e-9))
    assert more.failure == 0 and more.gap == pytest.approx(total + added, rel=1e-12)
    assert added > total / 10


def test_a_smaller_probability_of_failing_has_a_larger_bound(monkeypatch):
    monkeypatch.setattr(checked, "DRAWN", (3000,))
    points, known, gained, _primal = inexact(0, "even", monkeypatch)
    found = [checked.more(points, known, np.inf, 3000, lambda delta=delta: (1, delta))
             for delta in (1e-2, 1e-6, 1e-9)]  # fmt: skip
    assert gained < found[0].gap < found[1].gap < found[2].gap
    assert {more.failure for more in found} == {certificate.DELTA}


def test_margins_farther_off_than_any_rounding_prove_nothing(monkeypatch):
    points, known, *_ = inexact(0, "even", monkeypatch)
    monkeypatch.setattr(Points, "single_product_error", 1e-12)
    assert checked.more(points, known, np.inf, 1000, lambda: (0, 1e-6)).gap == np.inf


def test_an_objective_is_mended_by_what_is_seen_only():
    assert checked._seen(np.array([1.0, 2.0, 3.0])) == 2.0
    assert checked._seen(np.array([-3.0, 2.0, 2.0])) == 0.0


@pytest.mark.parametrize("scale", [1e39, 1e-39])
def test_rows_beyond_single_precision_are_certified_by_a_pass(scale, monkeypatch):
    """Where they are not numbers, compiled code makes numbers of them all the same."""
    monkeypatch.setattr(full, "_ROWS_SHARE", 10.0)
    monkeypatch.setattr("odmtool.solvers.engine.points.BY_NUMPY", 0)
    forced("full", monkeypatch)
    random = np.random.default_rng(1)
    X, y = random.standard_normal((500, 4)), np.where(random.random(500) < 0.5, 1.0, -1.0)
    kernel = Kernel("rbf", 0.5 / scale / scale)
    loss = losses.odm(2.0**8, 0.2, 0.2, 500)
    problem = Problem(None, Gram(kernel, scale * X, memory=1e9), y, np.ones(500), loss)
    points = Points(kernel, scale * X, Serial())
    assert points.single_value_error == np.inf
    assert Points(Kernel("rbf", 0.5), X, Serial()).single_value_error < 1e-4
    solution = solve.solve(problem, Stop(1e-2, 60))
    assert solution.failure == 0
    assert judged(problem, solution.coef, solution.eta).gap <= solution.gap * (1 + 1e-6)


def test_where_rows_are_dearer_than_a_pass_none_are_drawn(monkeypatch):
    points, known, *_ = inexact(0, "even", monkeypatch)
    assert checked.more(points, known, np.inf, 499, None).gap == np.inf
    assert checked.more(points, known, 0.0, 500, None).gap == np.inf


def test_where_any_bound_will_do_it_is_of_as_many_rows_as_may_be(monkeypatch):
    """In less time than a pass would take; it is the smaller."""
    points, known, *_ = inexact(0, "even", monkeypatch)
    few, many = (
        checked.more(points, known, np.inf, most, lambda: (0, 1e-6)).gap for most in (999, 2000)
    )
    assert many < few / 2


@pytest.mark.parametrize("loss", ["odm", "l2svm"])
@pytest.mark.parametrize("lambda_", [2.0**6, 2.0**9])
def test_models_are_certified_by_drawn_rows(loss, lambda_, monkeypatch):
    monkeypatch.setattr(full, "_ROWS_SHARE", 10.0)
    forced("full", monkeypatch)
    problem = problem_of(KERNELS["rbf"], loss, lambda_, 500, weighted=True)
    found, more = [], checked.more

    def noted(*arguments):
        found.append(more(*arguments))
        return found[-1]

    monkeypatch.setattr(checked, "more", noted)
    solution = solve.solve(problem, Stop(1e-3, 100))
    assert solution.converged and solution.failure == found[-1].failure and found[-1].gap < np.inf
    truth = judged(problem, solution.coef, solution.eta)
    assert truth.gap <= solution.gap * (1 + 1e-9)
    assert solution.primal == pytest.approx(truth.primal, rel=1e-6)


def test_a_pass_comes_where_drawn_rows_prove_nothing(monkeypatch):
    monkeypatch.setattr(full, "_ROWS_SHARE", 10.0)
    monkeypatch.setattr(sample, "_SAMPLE", 60)
    monkeypatch.setattr(Points, "single_product_error", 1e3)
    problem = far_examples(600, 40, 2.0**8)
    solution = solve.solve(problem, Stop(1e-3, 40))
    assert solution.solver == "landmarks, then newton" and solution.failure == 0
    truth = judged(problem, solution.coef, solution.eta)
    assert truth.gap <= solution.gap * (1 + 1e-6)
    assert solution.primal == pytest.approx(truth.primal, rel=1e-9)


def test_the_errors_of_kernels_of_either_sign_are_known():
    X = examples(50, 4)[0].toarray()
    kernels = (Kernel("poly", gamma, 1.0, 3) for gamma in (0.5, -0.5))
    errors = [Points(kernel, X, Serial()).single_value_error for kernel in kernels]
    assert 0 < errors[1] <= errors[0] < 1e-2
    nothing = Points(Kernel("linear"), np.zeros((5, 4)), Serial())
    assert nothing.single_product_error == nothing.single_value_error


@pytest.mark.parametrize("scale", [0.1, 3.0])
@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("name", [name for name in KERNELS if name != "sigmoid"])
def test_the_error_of_a_value_in_single_precision(name, is_compiled, scale):
    X, kernel = scale * examples(200, 6)[0].toarray(), KERNELS[name]
    points = Points(kernel, X, Serial())
    single = tile_values(kernel, points.single, points.single, False, is_compiled=is_compiled)
    off = np.abs(single - kernel_matrix(kernel, X, X)).max()
    bound = points.single_value_error
    if points.is_narrow and not is_compiled:
        bound = value_rounding.single_value_error(kernel, X, points.diagonal.max())
        assert bound > points.single_value_error
    assert off <= bound <= 3000 * max(off, value_rounding.SINGLE_UNIT * points.diagonal.max())


@pytest.mark.parametrize("d", range(1, 13))
def test_the_error_of_values_that_are_made_of_differences(d):
    """Rows near each other and far from 0, of any size; the bound is no ten times too large."""
    random, shares = np.random.default_rng(d), []
    for gamma in (1e-6, 0.3, 1e5):
        for size, far in [(0.3, 0.0), (1.0, 10.0), (1.0, 1000.0), (30.0, 0.0)]:
            X = (size * random.standard_normal((80, d)) + far) / np.sqrt(gamma)
            X[40:] = X[:40] + random.standard_normal((40, d)) / np.sqrt(gamma * d)
            kernel, single = Kernel("rbf", gamma), X.astype(np.float32)
            off = np.abs(tile_values(kernel, single, single, False) - kernel_matrix(kernel, X, X))
            shares.append(off.max() / value_rounding.narrow_value_error(kernel, X))
    assert 0.1 < max(shares) <= 1
    far = Kernel("rbf", 1.0)
    assert value_rounding.narrow_value_error(far, np.full((1, d), 1e9)) == np.inf
