"""Newton's method beyond the landmarks: where it begins, what a step takes, where it ends."""

from types import SimpleNamespace

import numpy as np
import pytest
from engine_problems import (
    LOSSES,
    far_examples,
    forced,
    in_span,
    judged,
    own_matrix,
    points_of,
    problem_of,
)

from odmtool import solvers
from odmtool.core import deadline, losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.judge.binary import kernel_matrix
from odmtool.rows.coded_tile import decoded, take_codes
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.engine import brought, certificate, cost, full, products, sample, solve
from odmtool.solvers.newton import newton
from odmtool.solvers.rounding import sum_error


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


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("far, lambda_", [(40, 2.0**8), (4, 2.0**12), (40, 2.0**18)])
def test_newton_starts_at_coefficients_that_are_no_duals(far, lambda_, is_compiled, monkeypatch):
    """A sample without some far examples has few landmarks, of large coefficients that cancel.

    Compiled products round values to two bytes, of which these would leave nothing but rounding.
    """
    monkeypatch.setattr(sample, "_SAMPLE", 60)
    monkeypatch.setattr(brought, "_MOST", 0.0)
    if is_compiled:
        monkeypatch.setattr("odmtool.solvers.engine.points.BY_NUMPY", 0)
    problem = far_examples(600, far, lambda_)
    solution = solve.solve(problem, Stop(1e-3, 40))
    assert solution.solver == "landmarks, then newton" and solution.converged
    assert judged(problem, solution.coef, solution.eta).gap <= solution.gap * (1 + 1e-6)


def test_what_many_products_did_not_solve_is_given_up(monkeypatch):
    """Kernel values of 1e19 beside others of 1: no step gets anywhere in single precision."""
    random = np.random.default_rng(0)
    X = random.standard_normal((700, 12))
    X[:, 0] = np.exp(1.4 * X[:, 0] + 4)
    y, gram = np.where(random.random(700) < 0.3, 1.0, -1.0), Gram(Kernel("poly", 1 / 12), X)
    loss = LOSSES["odm"](64 * 1024 / np.median(gram.diagonal()), 700)
    known, begin = [], full.FullNewton.__init__
    monkeypatch.setattr(full.FullNewton, "__init__", lambda *a: known.append(a[0]) or begin(*a))
    solution = solve.solve(Problem(None, gram, y, np.ones(700), loss), Stop(1e-3, 100))
    assert not solution.converged and known[0].products == 400


def test_what_rounded_values_change_is_known():
    """A product with S^1/2 K is off by about as much as is said, and not by more."""
    random = np.random.default_rng(3)
    X, d = random.standard_normal((300, 4)), random.standard_normal(300) * 1e3
    slopes = np.where(random.random(300) < 0.6, random.uniform(0, 2, 300), 0.0)
    K, codes = kernel_matrix(Kernel("rbf", 0.1), X, X), np.empty((300, 300), np.uint16)
    for row, values in zip(codes, K.astype(np.float32), strict=True):
        take_codes(values, row)
    off = np.linalg.norm(np.sqrt(slopes) * ((decoded(codes) - K) @ d))
    assert 0.3 * full.rounded_residual(slopes, d) < off < full.rounded_residual(slopes, d)


@pytest.mark.parametrize("length, roughly", [(0.05, False), (0.2, True)])
def test_after_a_short_step_no_values_are_rounded(length, roughly, monkeypatch):
    """Without rounding the next one may be longer."""
    forced("full", monkeypatch)
    monkeypatch.setattr(full, "step_length", lambda *_: length)
    monkeypatch.setattr(full.FullNewton, "shares", lambda self, t, eta: np.full(len(t), np.inf))
    kinds, direction = [], full.FullNewton._direction

    def seen(self, slopes, change, accuracy, roughly):
        kinds.append(roughly)
        return (yield from direction(self, slopes, change, accuracy, roughly))

    monkeypatch.setattr(full.FullNewton, "_direction", seen)
    solve.solve(problem_of(Kernel("rbf", 5.0), "odm", 2.0**4, 400, dense=True), Stop(1e-9, 3))
    assert kinds[0] and len(kinds) > 1 and all(one == roughly for one in kinds[1:])


def test_the_size_of_what_f_is_made_of_is_known_after_a_shorter_step(monkeypatch):
    """At least |a|_1, of which rounding errors are bounded, and at most what products had."""
    lengths, sizes, take = [], [], full.FullNewton.step

    def shorter(*arguments):
        lengths.append(0.25)
        return 0.25

    def followed(self, gap, least, enough):
        before, first, count = self._size, self.a, len(lengths)
        # As if far less were known to be left: no whole step is good enough.
        found = yield from take(self, 1e-6 * gap, 1e-6 * least, 1e-6 * enough)
        if len(lengths) > count:
            target = first + 4 * (self.a - first)
            sizes.append((self._size, 0.75 * before + 0.25 * np.abs(target).sum()))
        return found

    monkeypatch.setattr(full, "step_length", shorter)
    monkeypatch.setattr(full.FullNewton, "step", followed)
    monkeypatch.setattr(sample, "_SAMPLE", 60)
    solve.solve(far_examples(600, 40, 2.0**8), Stop(1e-6, 4))
    assert sizes
    for size, expected in sizes:
        assert size == pytest.approx(expected, rel=1e-9)


def test_a_step_makes_one_product_for_all_examples(monkeypatch):
    """The others are between examples with duals."""
    asked, steps = [], []
    of, step = products.Products.of, full.FullNewton.step

    def counted(self, some):
        asked.extend(some)
        return of(self, some)

    def counted_step(self, *gaps):
        steps.append(gaps)
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
    # Each is told how far P may be from the best dual value that was met: ever less.
    far, least, enough = np.array(steps).T
    assert np.all(far > 1e3 * least) and np.all(np.diff(far) < 0)
    assert enough == pytest.approx(least / full._LEAST * 1e-3)
    assert far[0] < 2 * least[0] / full._LEAST


@pytest.mark.parametrize("kernel", [Kernel("rbf", 0.5), Kernel("poly", 0.5, 1.0, 2)])
def test_the_numbers_of_a_point(kernel):
    """P, S, P - D, rounding and P along s w, written out."""
    problem = problem_of(kernel, "odm", 2.0**6, 60, weighted=True)
    loss, random = losses.scaled(problem.loss, problem.weight), np.random.default_rng(1)
    coef, y, points = random.standard_normal(60), problem.y, points_of(problem)
    f = own_matrix(problem) @ (y * coef)
    run = SimpleNamespace(Y=[y], losses=[loss].__getitem__, points=points)
    newton = full.FullNewton(run, 0, None, SimpleNamespace(f=f), coef)
    norm, t = coef @ (y * f), y * f
    of_losses, dual = losses.value(loss, t), losses.dual_value(loss, coef)
    primal, scale, gap, eta = newton.values()
    assert primal == pytest.approx(norm / 2 + of_losses.sum(), rel=1e-12)
    assert scale == pytest.approx(norm / 2 + np.abs(of_losses).sum(), rel=1e-12)
    assert gap == pytest.approx(norm + of_losses.sum() - dual.sum(), rel=1e-9)
    assert np.array_equal(eta, coef)
    for s in (0.0, 0.5, 2.0):
        own = losses.value(loss, s * t)
        expected = s * s * norm / 2 + own.sum(), s * s * norm / 2 + np.abs(own).sum()
        assert newton.primal_at(s) == pytest.approx(expected, rel=1e-12)
    error = points.value_error + 2 * sum_error(60) * points.diagonal.max()
    off, apart = error * np.abs(coef).sum(), np.abs(losses.derivative(loss, t) + coef)
    bent = losses.slopes_largest(loss).sum()
    expected = off * apart.sum() + off**2 / 2 * bent
    assert newton.rounding() == pytest.approx(expected, rel=1e-12, abs=0)


def test_the_distance_to_duals_that_are_allowed():
    """Of a loss whose duals are not negative: |coef - eta| at most, in the sense of |phi(x)|."""
    problem = problem_of(Kernel("poly", 0.5, 1.0, 2), "l2svm", 2.0**6, 60)
    coef = np.where(np.arange(60) % 5 == 0, -0.25, 0.5)
    points, loss = points_of(problem), losses.scaled(problem.loss, problem.weight)
    f = own_matrix(problem) @ (problem.y * coef)
    run = SimpleNamespace(Y=[problem.y], losses=[loss].__getitem__, points=points)
    newton = full.FullNewton(run, 0, None, SimpleNamespace(f=f), coef)
    _primal, _scale, gap, eta = newton.values()
    assert np.array_equal(eta, np.maximum(coef, 0))
    off = 0.25 * np.sqrt(points.diagonal[::5]).sum()
    t = problem.y * f
    shares = losses.value(loss, t) + eta * t - losses.dual_value(loss, eta)
    assert gap == pytest.approx(shares.sum() + off**2 / 2, rel=1e-12)


@pytest.mark.parametrize("most", [0, 1, 2])
def test_what_is_stopped_is_looked_at_in_double_precision_all_the_same(most, monkeypatch):
    """Beyond the landmarks every end is certain, also where no step is left."""
    forced("full", monkeypatch)
    looks, certain = [], full.FullNewton.certain

    def counted(self, *arguments):
        looks.append(1)
        return (yield from certain(self, *arguments))

    monkeypatch.setattr(full.FullNewton, "certain", counted)
    problem = problem_of(Kernel("rbf", 5.0), "odm", 2.0**12, 400, weighted=True)
    solution = solve.solve(problem, Stop(1e-7, most))
    assert solution.solver == "landmarks, then newton" and not solution.converged
    assert (len(looks) == 1) == (most > 0)
    truth = judged(problem, solution.coef, solution.eta)
    assert solution.gap == pytest.approx(truth.gap, rel=1e-4) and truth.gap <= solution.gap
    assert solution.primal == pytest.approx(truth.primal, rel=1e-9)


@pytest.mark.parametrize("is_near", [False, True])
@pytest.mark.parametrize("passes", [0, 1, 2, 5, 20, 40, 60, 80, 100])
def test_a_pass_given_up_after_the_deadline_costs_one_step(passes, is_near, monkeypatch):
    """What was before it is kept, or the landmarks' model; its gap is true without another."""
    forced("full", monkeypatch)
    if is_near:
        monkeypatch.setattr(full, "_expected_gaps", lambda *_: np.full(1, -np.inf))
    problem, seen = problem_of(Kernel("rbf", 5.0), "odm", 2.0**12, 400, weighted=True), []
    alone = solve.solve(problem, Stop(np.inf))
    times = products.Tiles.times

    def counted(self, v, **options):
        assert options["may_end"]
        if len(seen) >= passes:
            monkeypatch.setattr(deadline, "seconds_left", lambda: -1e9)
        seen.append(1)
        return times(self, v, **options)

    monkeypatch.setattr(products.Tiles, "times", counted)
    solution = solve.solve(problem, Stop(1e-9, 100))
    # That in double precision for the gap is given up, too.
    assert not solution.converged and len(seen) in (passes + 1, passes + 2)
    assert solution.primal <= alone.primal * (1 + 1e-6)
    truth = judged(problem, solution.coef, solution.eta)
    assert truth.gap <= solution.gap and solution.primal == pytest.approx(truth.primal, rel=1e-5)
    if passes >= 60:
        assert solution.solver == "landmarks, then newton" and solution.primal < 0.99 * alone.primal
        assert solution.gap <= truth.gap + 0.4  # single precision leaves 3.5, its worst case


def test_the_stages_are_told(monkeypatch):
    """Each as it begins, the passes one by one with about how many there will be, then the end."""
    forced("full", monkeypatch)
    problem = problem_of(Kernel("rbf", 5.0), "odm", 2.0**12, 400)

    class Told(list):
        def __call__(self, _state):
            pass

        enter = list.append

    told = Told()
    found = solve.solve(problem, Stop(1e-2, 100), progress=told)
    assert found.converged and found.solver == "landmarks, then newton"
    *stages, end = told
    names = [stage.name for stage in stages]
    count = names.count("passes")
    assert end is None
    before = ["landmarks", "span", "certificate", "landmarks", "features"]
    assert names == before + ["passes"] * count
    assert len({stage.count for stage in stages[1:5]}) == 1 and stages[1].count > 0
    assert stages[0].count == 0
    assert [stage.count for stage in stages[5:]] == list(range(1, count + 1))
    (most,) = {stage.most for stage in stages[5:]}
    assert count / 5 < most < 5 * count


@pytest.mark.parametrize(
    "excess, most", [(1.0, 5), (10.0, 10), (1000.0, 41), (1e6, 0), (np.inf, 0)]
)
def test_about_how_many_passes_there_will_be(excess, most):
    """2 (gap / tolerance)^0.4 of conjugate gradients, two for each of some steps, and the last."""
    assert cost.passes(excess) == most


def test_a_pass_for_the_certificate_is_given_up_too(monkeypatch):
    problem = problem_of(Kernel("rbf", 5.0), "odm", 2.0**12, 400)
    _chosen, basis, _found, point, _coef = in_span(problem, 30)
    assert certificate.exact([point], basis)[0] < np.inf
    monkeypatch.setattr(deadline, "seconds_left", lambda: -1e9)
    assert certificate.exact([point, point], basis) == [np.inf, np.inf]


def test_without_time_for_a_bound_the_gap_is_that_of_no_work(monkeypatch):
    """It was infinite, of a model that may be constant."""
    problem = problem_of(Kernel("rbf", 5.0), "odm", 2.0**12, 400)
    nothing = lambda run, points, *_: (np.full(len(points), np.inf), np.zeros(len(points)))  # noqa: E731
    monkeypatch.setattr(solve.EngineRun, "_certify", nothing)
    monkeypatch.setattr(Stop, "is_late", property(lambda stop: True))
    stop = Stop(1e-3, 100)
    for found in (solve.solve(problem, stop), *solve.solve_all([problem], stop)):
        assert not found.converged and found.failure == 0.0
        assert judged(problem, found.coef, found.eta).primal == pytest.approx(found.primal)
        best = solvers.solve(problem, tolerance=1e-6)
        assert found.primal - best.primal <= found.gap * found.primal < 1.01 * found.primal
