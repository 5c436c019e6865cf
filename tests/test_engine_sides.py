"""Both sides of limits in the span of landmarks: of what rounding leaves, of shares, of room."""

from types import SimpleNamespace

import numpy as np
import pytest
from engine_problems import in_span, problem_of

from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.rows.executor import Serial
from odmtool.solvers.base import Progress, Stop, ignore_progress
from odmtool.solvers.engine import certificate, choice, solve, span, thinned
from odmtool.solvers.engine.columns import Columns
from odmtool.solvers.engine.landmarks import Landmarks
from odmtool.solvers.engine.points import Points
from odmtool.solvers.engine.reduced import FeatureSpace


@pytest.mark.parametrize("share, count", [(1.9, 3), (0.5, 2)])
def test_landmarks_end_where_rounding_is_left(share, count):
    X = np.array([[4.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 2.0, 4 * np.sqrt(share * 1e-10)]])
    chosen = Landmarks(Points(Kernel("linear"), X, Serial()), 3, 0)
    chosen.grow(3)
    assert len(chosen.members) == count
    assert chosen.is_full and chosen.is_exhausted is (count == 2)


@pytest.mark.parametrize("height, error, count", [
    (0.001, 1.1e-10, 2), (0.001, 0.9e-10, 3), (0.0039, 1.0, 2), (0.0041, 1.0, 3),
])  # fmt: skip
def test_landmarks_end_where_errors_of_kernel_values_would_be_magnified(height, error, count):
    """Up to a millionth of the largest value: one far example makes every error look large."""
    X = np.array([[4.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 2.0, height]])
    chosen = Landmarks(Points(Kernel("linear"), X, Serial()), 3, 0, error)
    chosen.grow(3)
    assert len(chosen.members) == count


@pytest.mark.parametrize("share, is_near", [(0.9, True), (1.1, False)])
def test_what_single_precision_leaves_is_made_less_where_it_is_not_far_too_much(share, is_near):
    run = SimpleNamespace(stop=Stop(1e-3, 9))
    points = [SimpleNamespace(inside=k * share * 0.015, scale=2.0) for k in (1.0, 2.0)]
    assert solve.EngineRun._is_near(run, points) is is_near


@pytest.mark.parametrize("most", [0, 1, 2])
def test_steps_with_exact_gradients_close_the_gap_in_the_span(most):
    """They are counted, no more than asked for, and none follows where it is small enough."""
    problem = problem_of(Kernel("rbf", 0.3), "odm", 2.0**8)
    _, basis, found, point, _ = in_span(problem, 30)
    columns = Columns.of(problem.y[None], problem.weight, problem.loss)
    W = (basis.factor.T @ point.alpha)[:, None]
    off = W + 1e-3 * np.linalg.norm(W) * np.ones_like(W)
    start, Z = certificate.evaluate(basis, columns, off), found.Z.astype(np.float32)
    args = basis, Z, columns, columns
    V, [new], steps = thinned.refined(*args, off, start, 1e-5, most)
    assert steps == most or new.inside <= 1e-5 * new.scale
    if most:
        assert new.inside < 0.05 * start[0].inside and new.primal < start[0].primal
        [again] = certificate.evaluate(basis, columns, V)
        assert again.primal == new.primal
    assert thinned.refined(*args, V, [new], 1.1 * new.inside / new.scale)[2] == 0


@pytest.mark.parametrize("share, steps", [(1.1, 4), (0.9, 3), (None, 2)])
def test_a_pass_whose_objective_is_lower_by_rounding_is_the_last(monkeypatch, share, steps):
    scale = 8.0
    primals = iter([10.0, 10.0 - (share or 0.0) * 1e-12 * scale, 99.0])
    inside = 1.0 if share else scale / 16  # which is small enough

    def evaluated(*_, **_named):
        return [SimpleNamespace(inside=inside, scale=scale, primal=next(primals), crossed=[1.0])]

    monkeypatch.setattr(thinned, "solve_in_span", lambda *_: (np.zeros((1, 1)), 2, None))
    monkeypatch.setattr(certificate, "evaluate", evaluated)
    monkeypatch.setattr(thinned, "directions", lambda *_: np.ones((1, 1)))
    basis = SimpleNamespace(points=SimpleNamespace(executor=None), inverse=np.eye(1))
    some = SimpleNamespace(rows=lambda rows: None)
    W, [point], found = thinned.solve(basis, None, None, some, None, 1 / 16)
    assert found == steps and W.tolist() == [[float(steps == 4)]]


def span_run(progress=ignore_progress, **changes):
    gram = Gram(Kernel("poly", 1.0, 1.0, 2), np.eye(50), 1e6)
    run = span.SpanRun(SimpleNamespace(gram=gram), Stop(1e-3, 9), 3, progress)
    for name, value in changes.items():
        setattr(run, name, value)
    return run


def test_which_bound_a_linear_solver_in_the_span_gets(monkeypatch):
    """The free one, that by drawn rows, or by a pass, of all functions together."""
    asked = []

    def drawn(points, basis, left, count, seed, delta):
        asked.append((count, seed, delta))
        return [0.25, 0.5]

    monkeypatch.setattr(certificate, "free", lambda point, left: point)
    monkeypatch.setattr(certificate, "drawn", drawn)
    monkeypatch.setattr(certificate, "exact", lambda points, basis: [0.125, 0.25])

    def bound(enough, way, count=0, is_last=False, points=(0.5, 0.5)):
        asked.clear()
        run = span_run(_is_last=is_last)
        return run.outside(points, None, None, enough, choice.Choice(way, 0.0, count))

    half = certificate.DELTA / 2 / 2
    assert bound(1.0, "drawn") == (1.0, 0.0) and not asked
    assert bound(0.75, "drawn") == (0.75, certificate.DELTA) and asked == [(2000, (3, 1), half)]
    assert bound(0.7, "free", 77) == (0.75, certificate.DELTA) and asked == [(77, (3, 1), half)]
    assert bound(0.4, "drawn", points=(0.5, 0.125)) == (0.625, 0.0) and len(asked) == 1
    assert bound(0.7, "drawn", is_last=True) == (0.375, 0.0)
    assert bound(0.7, "exact") == (0.375, 0.0) and not asked
    assert bound(0.2, "exact", points=(0.125, 0.125)) == (0.25, 0.0)


def test_the_room_of_features_of_the_span(monkeypatch):
    """32 bytes for each example and landmark, 48 in the sample, in .8 of the memory."""
    monkeypatch.setattr(span, "Landmarks", lambda points, most, seed: most)
    for memory, most in ((1e9, 50), (48 * 80 * 50 / 0.8, 48), (49 * 80 * 50 / 0.8 + 1, 49)):
        run = span_run()
        run.gram = SimpleNamespace(memory=memory, bytes=1e9, size=50)
        assert run._drawn_examples(np.arange(50)).landmarks == most
        # No more than twice the kernel matrix.
        run.gram = SimpleNamespace(memory=1e12, bytes=memory / 2, size=50)
        assert run._drawn_examples(np.arange(50)).landmarks == most
        # Of a sample of half of them.
        run.gram = SimpleNamespace(memory=(32 * 50 + 48 * 25) * 49 / 0.8 + 1, bytes=1e9, size=50)
        assert run._drawn_examples(np.arange(0, 50, 2)).landmarks == 49


def test_iterations_are_told_counted_on():
    told = []
    run = span_run(told.append, iterations=7)
    gram = run.gram
    for of, unkept in ((None, 0), (gram, 0), (gram.within(gram.bytes), 0),
                       (gram.within(gram.bytes - 1), 50)):  # fmt: skip
        run.counted(of)(Progress(3, 1.0, 0.5, 2))
        assert told.pop() == Progress(10, 1.0, 0.5, 2, None, unkept)


@pytest.mark.parametrize("is_whole", [True, False])
def test_when_no_more_landmarks_can_be_had(is_whole):
    run = span_run()
    drawn = span._DrawnExamples(run, np.arange(0, 50, 1 + (not is_whole)), 5)
    assert drawn.is_whole is is_whole and not drawn.is_last
    drawn.landmarks.grow(5)
    assert drawn.is_last and drawn.members.tolist() == [
        drawn._rows[k] for k in drawn.landmarks.members
    ]  # fmt: skip
    # Where they span the sample, others may be had from all examples.
    drawn.landmarks.is_exhausted = True
    assert drawn.is_last is is_whole


def test_the_gap_in_a_span_is_half_the_square_of_the_gradient():
    random = np.random.default_rng(0)
    Z, y = random.standard_normal((30, 4)), np.where(random.random(30) < 0.5, 1.0, -1.0)
    w, eta, t = random.standard_normal(4), random.standard_normal(30), random.standard_normal(30)
    space = FeatureSpace(Z, y, Serial())
    gap, dual, same = space.gap(None, w, t, eta, 0.0, np.inf)
    gradient = w - Z.T @ (y * eta)
    assert gap == pytest.approx(gradient @ gradient / 2, rel=1e-12) and dual is eta and same is t
    assert space.squared_norm(w, t) == pytest.approx(w @ w)
    assert space.cross(w, t, w + 1, None) == pytest.approx((w @ (w + 1), (w + 1) @ (w + 1)))
    np.testing.assert_allclose(space.margins(w), y * (Z @ w))
    assert not space.zero().any()
    begun = FeatureSpace(Z, y, Serial(), np.array([1.0, 2.0]))
    assert begun.zero().tolist() == [1.0, 2.0, 0.0, 0.0]
