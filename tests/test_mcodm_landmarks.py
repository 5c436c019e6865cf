"""mcODM in the span of landmarks: the judge confirms every bound of the full problem's gap."""

from types import SimpleNamespace

import numpy as np
import pytest

from odmtool.core import kernels, losses
from odmtool.core.gram import Gram
from odmtool.core.kernel_table import Kernel
from odmtool.errors import UsageError
from odmtool.judge import mcodm as judge
from odmtool.rows.executor import Threads
from odmtool.solvers.base import Stop
from odmtool.solvers.engine import certificate, sample
from odmtool.solvers.mcodm import auto, landmarks, way
from odmtool.solvers.mcodm.terms import evaluate
from odmtool.solvers.multi import Duals, MultiProblem

KERNELS = {
    "rbf": Kernel("rbf", gamma=0.03),
    "poly": Kernel("poly", gamma=0.2, coef0=1.0, degree=2),
}


def problem_of(kernel, m=160, k=4, lambda_=200.0, seed=0):
    random = np.random.default_rng(seed)
    target = random.integers(0, k, m)
    X = random.normal(size=(m, 3)) + np.array([[np.cos(t), np.sin(t), 0] for t in target])
    u = random.uniform(0.5, 2.0, m)
    gram = Gram(kernel, X, 1e9)
    return MultiProblem(None, gram, target, k, u, losses.mcodm(lambda_, 0.3, 0.2, u.sum()))


def solve(problem, tolerance=1e-3, seed=0):
    return auto.solve(problem, Stop(tolerance, 2000), solver="landmarks", seed=seed)


@pytest.fixture
def three_classes(tmp_path):
    random = np.random.default_rng(0)
    rows = [(k % 3, random.normal(size=2) + 2 * np.eye(3)[k % 3][:2]) for k in range(90)]
    path = tmp_path / "three"
    path.write_text("".join(f"{k} 1:{x[0]:.3f} 2:{x[1]:.3f}\n" for k, x in rows))
    return path


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("way", ["free", "drawn", "exact"])
def test_the_judge_confirms_the_bound(force, monkeypatch, way, kernel):
    force(way)
    if way != "free":
        monkeypatch.setattr(certificate, "free", lambda *_: np.inf)
    problem = problem_of(KERNELS[kernel])
    found = solve(problem, tolerance=0.05)
    K = kernels.gram(problem.gram.kernel, problem.gram.X)
    said = judge.certify_kernel(
        K, problem.target, problem.weight, problem.parameters, found.coef, found.duals
    )
    assert found.solver == "landmarks" and found.failure is not None
    assert found.support_count <= 48
    assert said.infeasibility < 1e-9
    assert found.objective == pytest.approx(said.objective, rel=1e-9)
    assert (said.objective - said.dual) / said.objective <= found.gap + 1e-12
    assert found.converged == (found.gap <= 0.05)
    if way == "exact":
        assert found.gap == pytest.approx(said.gap, rel=1e-6)


def test_landmarks_that_are_not_enough_start_the_descent(force):
    """Wide rows: hardly anything of an example is in the span of others."""
    force("free", stages=(5,))
    problem = problem_of(Kernel("rbf", gamma=50.0))
    found, plain = solve(problem), auto.solve(problem, Stop(1e-3, 2000), solver="dcd")
    assert found.solver == "dcd" and found.converged and found.failure is None
    assert found.objective == pytest.approx(plain.objective, rel=2e-3)
    assert found.iterations >= plain.iterations / 4


def test_landmarks_of_all_examples_where_those_of_the_sample_end(monkeypatch):
    """Few examples are far from the others, and not in the sample."""
    monkeypatch.setattr(sample, "_SAMPLE", 60)
    problem = problem_of(Kernel("rbf", gamma=1.0), m=600, lambda_=2.0**10)
    far = problem.gram.X[::15].copy()
    problem.gram.X[:] *= 0.05
    problem.gram.X[::15] = far
    found = solve(problem)
    K = kernels.gram(problem.gram.kernel, problem.gram.X)
    said = judge.certify_kernel(
        K, problem.target, problem.weight, problem.parameters, found.coef, found.duals
    )
    assert found.solver == "landmarks" and found.converged and found.support_count > 60
    assert said.gap <= found.gap * (1 + 1e-9)


def test_the_same_as_descent_on_all_kernel_values():
    problem = problem_of(KERNELS["rbf"])
    found = solve(problem, tolerance=1e-4)
    plain = auto.solve(problem, Stop(1e-5, 2000), solver="dcd")
    assert found.converged and found.solver == "landmarks"
    assert found.objective == pytest.approx(plain.objective, rel=1e-3)


@pytest.mark.parametrize("options", [(), ("-t", "rbf"), ("-t", "rbf", "--solver", "landmarks")])
def test_no_time_at_all(run, three_classes, options):
    """The model of no iteration is written, and said to be that."""
    outcome = run("train", "-s", "mcodm", *options, "--max-time", "1e-9", three_classes, "m")
    assert outcome.code == 0 and "stopped after --max-time" in outcome.err


def test_the_limit_of_iterations_is_not_the_gap(run, three_classes):
    outcome = run("train", "-s", "mcodm", "-t", "rbf", "--solver", "landmarks", "-l", "0.01",
                  "--max-iter", "1", three_classes, "m")  # fmt: skip
    assert "but the objective may still fall" in outcome.err and "landmarks)" in outcome.err


def test_a_start_and_a_seed():
    problem = problem_of(KERNELS["rbf"])
    first, again = solve(problem, seed=3), solve(problem, seed=3)
    assert np.array_equal(first.coef, again.coef) and first.gap == again.gap
    warm = landmarks.solve(
        problem, Stop(1e-3, 2000), seed=3, start=first.duals, progress=lambda _: None
    )
    assert warm.converged and warm.iterations <= first.iterations


def test_the_executor_is_asked_and_changes_nothing(monkeypatch):
    problem, own = problem_of(KERNELS["rbf"]), landmarks.rounds.solve
    asked, told = [], []

    class Asked(Threads):
        def map(self, function, *columns):
            asked.append(function)
            return super().map(function, *columns)

    def rounds_solve(*arguments, executor=None, **options):
        told.append(executor)
        return own(*arguments, executor=executor, **options)

    monkeypatch.setattr(landmarks.rounds, "solve", rounds_solve)
    found = [
        auto.solve(problem, Stop(1e-3, 2000), solver="landmarks", executor=executor)
        for executor in (None, Asked(2))
    ]
    assert found[0].solver == "landmarks" and np.array_equal(found[0].coef, found[1].coef)
    assert found[0].gap == found[1].gap and found[0].iterations == found[1].iterations
    half = len(told) // 2  # rounds on the sample and on all examples
    assert asked and half > 1
    assert not any(isinstance(executor, Asked) for executor in told[:half])
    assert all(isinstance(executor, Asked) for executor in told[half:])


def test_auto_takes_landmarks_where_the_matrix_does_not_fit():
    kernel = KERNELS["rbf"]
    assert way.takes_landmarks(kernel, 40_000, 1e9)
    assert not way.takes_landmarks(kernel, 4000, 1e9)
    assert not way.takes_landmarks(Kernel("sigmoid", gamma=0.1), 40_000, 1e9)
    with pytest.raises(UsageError, match="definite|negative"):
        solve(problem_of(Kernel("sigmoid", gamma=0.1)))


@pytest.mark.parametrize("own", [-2.0, 3.0])
def test_what_errors_of_scores_do_to_the_losses(monkeypatch, own):
    """Where the own class scores too low, and where it scores higher than it need."""
    problem, error = problem_of(KERNELS["rbf"]), 1e-3
    m, none, examples = problem.size, np.zeros(problem.size), np.arange(problem.size)
    rival, scores = (problem.target + 1) % 4, np.full((m, 4), 0.5)
    scores[examples, problem.target] = own
    duals = Duals(np.zeros((m, 4)), none, rival, none + 1.3)
    terms, moved = evaluate(problem, duals, scores), scores.copy()
    moved[examples, problem.target] += error * np.sign(own)
    moved[examples, rival] -= error * np.sign(own)
    change = evaluate(problem, duals, moved).relaxed_loss - terms.relaxed_loss
    monkeypatch.setattr(certificate, "margin_errors", lambda *_: np.array([error]))
    run, point = SimpleNamespace(problem=problem), SimpleNamespace(a=none)
    bound = landmarks._Run._rounding(run, None, [point], scores, terms, duals)
    assert change <= bound <= 1.01 * change


def test_what_errors_of_scores_may_do_by_their_sum():
    """The largest error times the duals' sizes and twice the slopes, and its square."""
    problem, generator = problem_of(KERNELS["rbf"], m=40), np.random.default_rng(5)
    m, u, (theta, c1, c2) = problem.size, problem.weight, problem.parameters
    scores = 2 * generator.standard_normal((m, 4))
    rival = np.where(np.arange(m) % 3, (problem.target + 1) % 4, -1)
    upper = np.where(np.arange(m) % 5, generator.uniform(0.5, 1.5, m), np.inf)
    duals = Duals(np.zeros((m, 4)), np.zeros(m), rival, upper)
    points = [SimpleNamespace(a=generator.standard_normal(m)) for _ in range(4)]
    errors = generator.uniform(0, 0.01, m)
    size = sum(abs(point.a[i]) for point in points for i in range(m))
    for i, y in enumerate(problem.target):
        own, best = scores[i, y], max(np.delete(scores[i], y))
        against = scores[i, rival[i]] if rival[i] >= 0 else 0.0
        slopes = 2 * c1 * max(0, 1 - theta - own + best) + 2 * c2 * max(0, own - against - upper[i])
        size += 2 * u[i] * slopes
    expected = max(errors) * size + (2 * max(errors)) ** 2 * (c1 + c2) * sum(u)
    run, terms = SimpleNamespace(problem=problem), evaluate(problem, duals, scores)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificate, "margin_errors", lambda *_: errors)
        found = landmarks._Run._rounding(run, None, points, scores, terms, duals)
    assert found == pytest.approx(expected, rel=1e-12)


def test_what_rounding_may_do_is_in_the_gap(force, monkeypatch):
    force("exact")
    monkeypatch.setattr(certificate, "free", lambda *_: np.inf)
    problem = problem_of(KERNELS["rbf"])
    plain = solve(problem, tolerance=0.9)
    monkeypatch.setattr(landmarks._Run, "_rounding", lambda *_: plain.objective / 8)
    found = solve(problem, tolerance=0.9)
    assert np.array_equal(found.coef, plain.coef) and found.objective == plain.objective
    assert found.gap == pytest.approx(plain.gap + 1 / 8, rel=1e-9)
