"""Landmarks for losses that jump, and for LDM: the judge confirms every bound."""

from types import SimpleNamespace

import numpy as np
import pytest
from problems import examples

from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.judge.binary import certify_kernel, kernel_matrix
from odmtool.machines import machine_named
from odmtool.solvers import auto
from odmtool.solvers.base import Problem, Progress, Stop, ignore_progress
from odmtool.solvers.engine import certificate, jumps, sample, span
from odmtool.solvers.engine.cost import Cost, DescentCost
from odmtool.solvers.ldm import descent, dual

LOSSES = {
    "l1svm": losses.l1svm,
    "svr": lambda lambda_, total: losses.svr(lambda_, 0.2, total),
    "ldm": lambda lambda_, total: losses.ldm(0.5, 0.25, lambda_, total),
    "ldm without variance": lambda lambda_, total: losses.ldm(0.0, 0.25, lambda_, total),
}
KERNELS = {
    "rbf": Kernel("rbf", 0.03, bias=0.5),
    "poly": Kernel("poly", 0.2, 1.0, 2),
}


def problem_of(kernel, loss, lambda_=200.0, m=160, seed=0, dense=False):
    X, y = examples(m, 5, seed)
    weight = np.random.default_rng(seed).uniform(0.1, 4.0, m)
    X = X.toarray() if dense else X
    return Problem(None, Gram(kernel, X, 1e9), y, weight, LOSSES[loss](lambda_, weight.sum()))


def judged(problem, found):
    K = kernel_matrix(problem.gram.kernel, problem.gram.X, problem.gram.X)
    return certify_kernel(K, problem.y, problem.weight, problem.loss, found.coef, found.eta)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("way", ["free", "drawn", "exact"])
def test_the_judge_confirms_the_bound(force, monkeypatch, way, kernel, loss):
    force(way)
    if way != "free":
        monkeypatch.setattr(certificate, "free", lambda *_: np.inf)
    problem = problem_of(KERNELS[kernel], loss, dense=way == "drawn")
    found = jumps.solve(problem, Stop(0.05, 1000))
    said = judged(problem, found)
    assert found.solver == "landmarks" and found.support_count <= 48
    assert found.failure == (certificate.DELTA if way == "drawn" else 0.0)
    assert found.converged and found.gap <= 0.05 and found.iterations > 0
    assert found.primal == pytest.approx(said.primal, rel=1e-9)
    assert said.gap <= found.gap * (1 + 1e-9)
    if way == "exact":
        assert found.gap == pytest.approx(said.gap, rel=1e-6)


@pytest.mark.parametrize("memory", [1e9, 1e4])
@pytest.mark.parametrize("loss", LOSSES)
def test_landmarks_that_are_not_enough_start_others(force, loss, memory):
    """Hardly anything of an example is in the span of others; with room for matrices or none."""
    force("free", stages=(5,))
    problem = problem_of(Kernel("rbf", 20.0), loss, 2.0**8)
    problem = problem._replace(gram=Gram(problem.gram.kernel, problem.gram.X, memory))
    found, told = None, []
    found = jumps.solve(problem, Stop(1e-4, 1000), progress=told.append)
    assert found.solver.startswith("landmarks, then ") and found.converged
    assert found.failure is None and judged(problem, found).gap <= 1e-4 * (1 + 1e-6)
    steps = [now.iteration for now in told]
    assert steps == sorted(steps) and found.iterations == steps[-1]
    # The problem in the span has no kernel matrix.
    unkept = [now.unkept for now in told]
    assert unkept[0] == 0 and unkept[-1] == (problem.size if memory == 1e4 else 0)


def test_newton_follows_where_descent_is_slow(force, monkeypatch):
    force("free")
    monkeypatch.setattr(jumps, "_EPOCHS", 2)
    for loss in ("l1svm", "ldm"):
        problem = problem_of(KERNELS["rbf"], loss, 2.0**14)
        found = jumps.solve(problem, Stop(1e-3, 1000))
        assert found.solver == "landmarks" and found.iterations > 2
        assert judged(problem, found).gap <= found.gap * (1 + 1e-9)
    # That of svr has every example twice: its epochs go on, in the span as well.
    svr = problem_of(KERNELS["rbf"], "svr")
    assert jumps._newton(svr) is None
    assert jumps._newton(svr._replace(X=np.ones((svr.size, 2)), gram=None)) is None


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("limit", [1, 7])
def test_the_limit_of_iterations_is_kept(force, loss, limit):
    force("free", stages=(5,))
    problem = problem_of(Kernel("rbf", 20.0), loss, 2.0**16)
    found = jumps.solve(problem, Stop(1e-9, limit))
    assert found.iterations <= limit and not found.converged


def test_what_comes_where_landmarks_are_not_enough_costs_less_than_for_other_losses():
    smooth, descent = (kind(20_000, 10.0, False, 8 * 20_000.0**2) for kind in (Cost, DescentCost))
    assert descent.beyond(20_000, 1e4, np.inf) < smooth.beyond(20_000, 1e4, np.inf)
    less = descent._replace(tiles=0.0)
    assert isinstance(less, DescentCost) and less.beyond(1, 1, 1) > 2 * descent.beyond(1, 1, 1)
    assert DescentCost.of(np.zeros((20_000, 10)), 8 * 20_000.0**2) == descent


def test_landmarks_of_all_examples_where_those_of_the_sample_end(monkeypatch):
    """Few examples are far from the others, and not in the sample."""
    monkeypatch.setattr(sample, "_SAMPLE", 60)
    problem = problem_of(Kernel("rbf", 3.0), "ldm", 2.0**14, m=600, dense=True)
    far = problem.gram.X[::15].copy()
    problem.gram.X[:] *= 0.05
    problem.gram.X[::15] = far
    found = jumps.solve(problem, Stop(1e-3, 1000))
    assert found.solver == "landmarks" and found.converged and found.support_count > 60
    assert judged(problem, found).gap <= found.gap * (1 + 1e-9)


def test_the_same_as_descent_on_all_kernel_values_and_again(force):
    problem = problem_of(KERNELS["rbf"], "ldm")
    first, again = (jumps.solve(problem, Stop(1e-4, 1000), seed=3) for _ in range(2))
    plain = descent.solve(problem, Stop(1e-6, 1000))
    assert first.primal == pytest.approx(plain.primal, rel=1e-4)
    assert np.array_equal(first.coef, again.coef) and first.gap == again.gap
    warm = jumps.solve(problem, Stop(1e-4, 1000), seed=3, start=first.eta)
    assert warm.converged and warm.iterations <= first.iterations
    assert dual.feasible(problem.loss, problem.weight, first.eta) is first.eta


@pytest.mark.parametrize("loss", LOSSES)
def test_what_errors_of_margins_do(loss):
    """To the sum of the losses and eta't, for the worst signs of errors of one size."""
    problem, error = problem_of(KERNELS["rbf"], loss), 1e-3
    random = np.random.default_rng(0)
    t, eta = random.normal(1.0, 1.0, problem.size), random.normal(size=problem.size)
    run = jumps._Run(problem, Stop(), 0, None, None)

    def own(t):
        row = losses.scaled(jumps._row(problem, t), problem.weight)
        return losses.value(row, t).sum() + eta @ t

    slopes = losses.derivative(losses.scaled(jumps._row(problem, t), problem.weight), t) + eta
    changes = [abs(own(t + error * s * np.sign(slopes)) - own(t)) for s in (-1, 1)]
    assert max(changes) <= run._rounding(error, t, eta) <= 10 * max(changes)


@pytest.mark.parametrize("name", ["l1svm", "svr", "ldm"])
def test_auto_takes_them_where_examples_are_many(name):
    machine = machine_named(name)(kernel="rbf", gamma=0.1)
    assert machine.takes_landmarks(2501) and not machine.takes_landmarks(2500)
    assert not machine_named(name)(kernel="linear").takes_landmarks(10**5)
    assert not machine_named(name)(kernel="sigmoid", gamma=0.1).takes_landmarks(10**5)
    problem = problem_of(Kernel("rbf", 0.1), name, m=2501)
    assert auto.choose(problem) == auto.Schedule("landmarks")
    fewer = problem_of(Kernel("rbf", 0.1), name, m=2500)
    assert auto.choose(fewer).first == "dcd"


def test_kmomd_has_none():
    assert not machine_named("kmomd")(kernel="rbf", gamma=0.1).takes_landmarks(10**5)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_bound_of_what_errors_of_margins_do(loss):
    """Its formula: the steepest that a share may be, and what slopes add over twice the error."""
    problem, error = problem_of(KERNELS["rbf"], loss), 0.125
    random = np.random.default_rng(0)
    t, eta = random.normal(1.0, 1.0, problem.size), random.normal(size=problem.size)
    row = problem.loss
    if problem.loss.kind == "ldm":
        row = losses.ldm_row(row, np.average(t, weights=problem.weight))
    own = losses.scaled(row, problem.weight)
    expected = 0.0
    for i in range(problem.size):
        one = [float(field[i]) for field in own]
        steepest = abs(float(losses.derivative(row, t[i : i + 1])[0]) * problem.weight[i])
        steepest += abs(one[3]) + abs(one[5]) + abs(one[7])
        expected += error * (abs(eta[i]) + steepest)
        expected += (2 * error) ** 2 * max(one[2], one[4], one[6])
    run = jumps._Run(problem, Stop(), 0, None, None)
    assert run._rounding(error, t, eta) == pytest.approx(expected, rel=1e-12)


class Said:
    """A solver that says what a list says, and notes what it was asked."""

    def __init__(self, *answers):
        self.answers, self.asked = iter(answers), []

    def solve(self, problem, stop, *, seed, start, progress):
        self.asked.append((stop, seed, start))
        iterations, converged, eta = next(self.answers)
        progress(Progress(iterations, 1.0, 0.5, 3))
        return SimpleNamespace(iterations=iterations, converged=converged, eta=eta)


@pytest.mark.parametrize("is_inside", [True, False])
@pytest.mark.parametrize("has_newton", [True, False])
def test_newton_follows_where_epochs_are_not_enough(monkeypatch, is_inside, has_newton):
    """Iterations are counted on, and no more are taken than are allowed in all."""
    told, descends, newton = [], Said(), Said()
    problem = problem_of(KERNELS["rbf"], "l1svm", m=60)
    given = problem._replace(X=np.zeros((60, 2)), gram=None) if is_inside else problem
    monkeypatch.setattr(jumps, "_descent", lambda problem: descends)
    monkeypatch.setattr(jumps, "_newton", lambda problem: newton if has_newton else None)

    def run(limit, epochs, *answers):
        told.clear()
        course = jumps._Run(problem, Stop(0.25, limit), 7, told.append, None)
        course.iterations = 10
        descends.__init__(*answers[:1])
        newton.__init__(*answers[1:])
        found = course._solve(given, epochs, "start", 0.125)
        return course.iterations, found.eta

    # Alone, on kernel values, descent has all that is left.
    most = 50 if has_newton or is_inside else 90
    assert run(100, 50, (8, True, "a")) == (18, "a") and not newton.asked
    assert descends.asked == [(Stop(0.125, most, has_newton), 7, "start")]
    assert [now.iteration for now in told] == [18]
    assert run(30, 50, (8, True, "a")) == (18, "a")
    assert descends.asked[0][0] == Stop(0.125, 20, has_newton)
    assert run(5, 50, (0, True, "a")) == (10, "a")
    assert descends.asked[0][0] == Stop(0.125, 0, has_newton)
    found = run(100, 50, (50, False, "a"), (4, True, "b"))
    if has_newton:
        assert found == (64, "b") and newton.asked == [(Stop(0.125, 40), 7, "a")]
        assert [now.iteration for now in told] == [60, 64]
    else:
        assert found == (60, "a")


class Choices(span.SpanRun):
    """A run whose answers are said: gaps of solutions in the span, and whether these converged."""

    def __init__(self, *answers, limit=99):
        problem = SimpleNamespace(gram=Gram(Kernel("linear"), np.eye(12)))
        super().__init__(problem, Stop(0.25, limit), 0, ignore_progress)
        self.answers, self.asked, self.samples = iter(answers), [], []

    def _drawn_examples(self, rows):
        self.samples.append(len(rows))
        return self.next_sample()

    def solve_inside(self, Z, duals, tolerance):
        self.asked.append((duals, tolerance, Z.dtype))
        self.now, is_converged, duals = next(self.answers)
        self.iterations += 10
        return SimpleNamespace(converged=is_converged), duals

    def certified(self, solution, basis, found, choice):
        return SimpleNamespace(gap=self.now)


def test_more_landmarks_follow_while_they_may_help(monkeypatch):
    known, late = [], []

    def landmarks(count, is_full=False, is_last=False):
        return SimpleNamespace(
            landmarks=SimpleNamespace(members=list(range(count)), is_full=is_full,
                                      factor=np.eye(count)),
            members=np.arange(count), is_last=is_last,
        )  # fmt: skip

    def run(*answers, samples, ways="free", limit=99):
        known.clear()
        samples, ways = iter(samples), iter([ways] if isinstance(ways, str) else ways)
        course = Choices(*answers, limit=limit)
        course.next_sample = lambda: next(samples)
        last = ["free"]

        def choose(sample, cost, stop, count):
            known.append(count)
            last[0] = next(ways, last[0])
            return SimpleNamespace(way=last[0])

        monkeypatch.setattr(span, "choose", choose)
        monkeypatch.setattr(Stop, "is_late", property(lambda stop: bool(late)))
        found, duals = course.in_span("start")
        return found and found.gap, duals, course

    monkeypatch.setattr(span, "Basis", lambda *a: None)
    monkeypatch.setattr(span, "features", lambda basis, certified: SimpleNamespace(
        Z=np.zeros((12, 2), np.float32)
    ))  # fmt: skip
    few, more = landmarks(4), landmarks(6)
    assert run(samples=[few], ways="full")[:2] == (None, "start")
    gap, duals, course = run((0.25, True, "a"), samples=[few])
    assert (gap, duals, known) == (0.25, "a", [0]) and course.samples == [12]
    assert course.asked == [("start", 0.3 * 0.25, np.dtype(float))]
    # With more of them; not where the linear problem was not solved.
    gap, duals, course = run((0.5, True, "a"), (0.1, True, "b"), samples=[few])
    assert (gap, duals, known) == (0.1, "b", [0, 4]) and course.asked[1][0] == "a"
    assert run((0.5, False, "a"), samples=[few])[:2] == (None, "a")
    # No more than are allowed, or where the time is over.
    assert run((0.5, True, "a"), (0.4, True, "b"), samples=[few], limit=20)[:2] == (0.4, "b")
    late.append(1)
    assert run((0.5, True, "a"), samples=[few], ways="full")[:2] == (0.5, "a")
    late.clear()
    # Of all examples where those of the sample are used up; and then others.
    full, last = landmarks(4, True), landmarks(6, True, True)
    gap, duals, course = run((0.5, True, "a"), (0.5, True, "b"), samples=[full, last])
    assert (gap, duals, known) == (None, "b", [0, 0]) and course.samples == [12, 12]
    gap, duals, course = run((0.5, True, "a"), (0.5, True, "b"), (0.2, True, "c"),
                             samples=[full, more])  # fmt: skip
    assert (gap, duals, known) == (0.2, "c", [0, 0, 6])
