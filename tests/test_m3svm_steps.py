"""M3SVM: the bound of the gap, Adam's steps and the duals of Newton's, by formula."""

from types import SimpleNamespace

import numpy as np
import pytest
from m3svm_problems import EXACT, certificate, examples, problem, some_weights

from odmtool.errors import DivergedError
from odmtool.judge import m3svm as judge
from odmtool.solvers.base import Stop
from odmtool.solvers.m3svm import adam as m3svm_adam
from odmtool.solvers.m3svm import newton as m3svm
from odmtool.solvers.m3svm.objective import LOSSES, Objective, Pairs
from odmtool.solvers.m3svm.system import System


@pytest.mark.parametrize("power, sigma", [
    (0.5, 0.4), (1.0, 0.4), (1.5, 0.4), (2.0, 0.0), (3.0, 0.0), (6.5, 0.0),
])  # fmt: skip
@pytest.mark.parametrize("k", [2, 5])
def test_the_bound_of_the_gap_by_its_formula(power, sigma, k):
    """The least of three, wherever each of them is the least."""
    given = problem("softmax", power, 0.7, k=k, data=(np.eye(3), np.arange(3) % k), ridge=0.01)
    objective, generator, least = Objective(given), np.random.default_rng(1), set()
    assert (objective.smoothing.sigma > 0) == (power < 2)
    objective.smoothing = objective.smoothing._replace(sigma=sigma)
    pairs = k * (k - 1) / 2
    for number in range(300):
        V, G = generator.standard_normal((2, 4, k))
        G *= 10.0 ** generator.uniform(-6, 2)
        # Half of the gradients are those of the biases alone, nearly.
        G[:-1] *= 1e-6 if number % 2 else 1.0
        value = 10.0 ** generator.uniform(-2, 3)
        found = objective.gap(V, value, G)
        powers = value / 0.7 + pairs * sigma**power
        squares = powers ** (2 / power) * (pairs ** (1 - 2 / power) if power > 2 else 1)
        W, by_W = np.sqrt((V[:-1] ** 2).sum()), np.sqrt((G[:-1] ** 2).sum())
        by_bias = (G[-1] ** 2).sum() / 0.04
        bounds = (
            (by_W**2 / 0.04 + by_bias) / value,
            (by_W * (W + np.sqrt(squares / k)) + by_bias) / value,
            1.0,
        )
        if power < 1:
            assert found == 1.0
            continue
        assert found == pytest.approx(min(bounds), rel=1e-12)
        least.add(bounds.index(min(bounds)))
    assert power < 1 or least | ({1} if power == 1 else set()) == {0, 1, 2}
    assert objective.gap(V, 0.0, G) == 0.0


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("power", [1.0, 4.0])
def test_adam_takes_all_steps_as_printed_and_returns_the_lowest_point(loss, power):
    given, seen = problem(loss, power, delta=0.5, weight=some_weights()), []
    X, y, u, parameters = given.X, given.target, given.weight, given.parameters

    def value(V):
        return judge.objective(X, y, u, parameters, V[:-1], V[-1])

    V = m3svm_adam._random(Objective(given), 7)
    points, first, second = [V], np.zeros_like(V), np.zeros_like(V)
    for step in range(1, 30):
        G = np.vstack(judge.gradient(X, y, u, parameters, V[:-1], V[-1]))
        first, second = 0.9 * first + 0.1 * G, 0.999 * second + 0.001 * G * G
        size = np.sqrt(second / (1 - 0.999**step)) + 1e-8
        V = V - 0.8 * (first / (1 - 0.9**step)) / size
        points.append(V)
    values = [value(V) for V in points]
    # Steps of this size go too far: the last one is not the lowest.
    count = next(n for n in range(5, 30) if values[n] > min(values[:n]) < values[0])
    lowest, V = points[int(np.argmin(values[: count + 1]))], points[count]
    found = m3svm_adam.solve(given, Stop(1e-9, count), seed=7, rate=0.8, progress=seen.append)
    np.testing.assert_allclose(np.vstack([found.W, found.bias]), lowest, rtol=1e-7, atol=1e-10)
    assert found.iterations == count and found.solver == "adam" and not found.converged
    assert [now.iteration for now in seen] == list(range(1, count + 1))
    assert [now.primal for now in seen] == pytest.approx(values[1 : count + 1], rel=1e-9)
    assert all(now.active == 60 for now in seen)
    last = certificate(given, SimpleNamespace(W=V[:-1], bias=V[-1]))
    assert seen[-1].gap == pytest.approx(last.gap, rel=1e-9)
    scores = X @ V[:-1] + V[-1]
    own = scores[np.arange(60), y]
    others = np.where(np.arange(4) == y[:, None], -np.inf, scores).max(axis=1)
    np.testing.assert_allclose(seen[-1].margins(), own - others, atol=1e-9)


def test_adam_ends_where_the_gradient_is_small():
    given = problem("softmax", 2.0, 5.0)
    best, seen = m3svm.solve(given, EXACT), []
    G = m3svm.gradient_at_zero(Objective(given))
    again = m3svm_adam.solve(
        given, Stop(1e-6, 50), start=(best.W, best.bias), progress=seen.append
    )
    assert again.converged and again.iterations == 0 == len(seen) and best.gradient < 1e-6
    rough = m3svm_adam.solve(given, Stop(0.05, 5000), seed=1)
    assert rough.converged and 0 < rough.iterations < 5000
    assert rough.gradient <= 0.05 and certificate(given, rough).gradient <= 0.05 * G
    less = m3svm_adam.solve(given, Stop(0.05, rough.iterations - 1), seed=1)
    assert not less.converged and less.iterations == rough.iterations - 1


@pytest.mark.parametrize("is_warm", [False, True])
def test_duals_of_the_hinge_follow_newtons_step_for_both_unknowns(is_warm):
    """Of q v = z, as far as no dual leaves +-1; and so bends the loss."""
    given = problem("hinge", 2.0, weight=some_weights())
    objective, generator = Objective(given), np.random.default_rng(4)
    V = generator.standard_normal(objective.zero().shape)
    smoothing = objective.smoothing.times(700.0)  # delta is 0.7
    run = m3svm._Run(objective, V, smoothing, is_warm=is_warm)
    own, scores = np.arange(4) == given.target[:, None], given.X @ V[:-1] + V[-1]
    z = 1 + scores - scores[own][:, None]
    q = np.sqrt(z * z + 0.49)
    assert np.allclose(run._dual, 0.99 * z / q if is_warm else 0.0)
    for size in (1e-3, 0.1, 30.0):
        v = generator.uniform(-0.9, 0.9, z.shape) if size > 0.1 else 0.99 * z / q
        run._dual = v.copy()
        pull = run._pull()
        omega = np.where(own, 0.0, given.weight[:, None] * (1 - v * z / q) / (2 * q))
        np.testing.assert_allclose(pull.omega, omega, rtol=1e-9, atol=1e-12)
        change = size * generator.standard_normal(z.shape)
        dz = change - change[own][:, None]
        # (q + dq) (v + dv) = z + dz to first order, dq = z / q dz.
        dv = np.where(own, 0.0, (z + dz - q * v - v * z / q * dz) / q)
        room = np.where(dv > 0, 1 - v, 1 + v)
        share = min(1.0, 0.99 / (np.abs(dv) / room).max())
        assert run._follow(pull, change) == pytest.approx(share, rel=1e-9)
        np.testing.assert_allclose(run._dual, v + share * dv, rtol=1e-9, atol=1e-12)
    v[:] = np.where(own, 0.0, 1.0)
    run._dual = v.copy()
    assert run._pull().omega.min() >= 0  # also where a dual is at its end


def test_examples_that_count_are_those_with_a_slope_of_more_than_half():
    given = problem("hinge", 2.0, weight=some_weights())
    objective = Objective(given)
    V = np.random.default_rng(4).standard_normal(objective.zero().shape) / 3
    run = m3svm._Run(objective, V, objective.smoothing)
    scores = given.X @ V[:-1] + V[-1]
    own = np.arange(4) == given.target[:, None]
    margins = scores[own] - np.where(own, -np.inf, scores).max(axis=1)
    # The slope of the smoothed hinge is a half where the margin is 1.
    assert run.active == np.count_nonzero(margins < 1) and 0 < run.active < 60
    np.testing.assert_allclose(run.margins(), margins)


@pytest.mark.parametrize("sigma", [0.0, 0.7])
@pytest.mark.parametrize("power", [0.5, 1.0, 1.5, 2.0, 2.5, 4.0, 6.5])
def test_how_pairs_of_classes_pull_and_bend(power, sigma):
    """lambda p D^(p/2 - 1) and lambda p (p - 2) D^(p/2 - 2), D_kl = |w_k - w_l|^2 + sigma^2."""
    W = np.random.default_rng(3).standard_normal((5, 4))
    W[:, 2] = W[:, 1]
    pairs = Pairs(W, problem(power=power, lambda_=0.3).parameters, sigma)
    for a in range(4):
        for b in range(4):
            D = ((W[:, a] - W[:, b]) ** 2).sum() + sigma**2
            if a == b:
                assert pairs.first[a, b] == 0
                continue
            # 0^0 is 1, and what is not finite counts for nothing.
            pull, bend = (D**e if D > 0 or e == 0 else 0.0 for e in (power / 2 - 1, power / 2 - 2))
            bend = 0.3 * power * (power - 2) * bend if power >= 1 else 0.0
            assert pairs.first[a, b] == pytest.approx(0.3 * power * pull, rel=1e-9)
            assert pairs.second[a, b] == pytest.approx(bend, rel=1e-9)
    value = sum(
        0.3 * ((((W[:, a] - W[:, b]) ** 2).sum() + sigma**2) ** (power / 2) - sigma**power)
        for a in range(4) for b in range(a)
    )  # fmt: skip
    assert pairs.value() == pytest.approx(value, rel=1e-9)


def test_systems_are_factored_up_to_a_number_of_unknowns_and_of_classes(monkeypatch):
    """And where a factor fails, by conjugate gradients."""
    asked = []
    monkeypatch.setattr(System, "_factored", lambda self, g: asked.append("factor") or g)
    monkeypatch.setattr(System, "_iterated", lambda self, g, a, n: asked.append((a, n)) or (g, n))
    system = System(None, None, None, 1.0, None)
    for shape, is_factored in (
        ((40, 50), True), ((41, 50), False), ((39, 51), False), ((1000, 2), True),
    ):  # fmt: skip
        asked.clear()
        assert system.direction(np.ones(shape), 0.25, 7)[1] == 7
        assert asked == (["factor"] if is_factored else [(0.25, 7)])

    def refuse(self, gradient):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(System, "_factored", refuse)
    asked.clear()
    system.direction(np.ones((3, 2)), 0.25)
    assert asked == [(0.25, 0)]


def smoothings(monkeypatch, given, steps, start=None, limit=99, promised=0.0):
    """The sizes of delta that a run takes, whose steps are told; and what it ends with.

    ``promised`` is what the next step would lower the objective by until the fifth one.
    """
    seen, made, coming, told = [], [], iter(steps), []
    goal = 1e-3 * m3svm.gradient_at_zero(Objective(given))

    class Run:
        value, gradient, active, margins, first_size = 5.0, np.zeros((6, 4)), 7, None, 100 * goal

        def __init__(self, objective, V, smoothing, is_warm=False):
            made.append((smoothing.delta, is_warm))
            self.V, self.size, self.is_stalled = V + 1.0, 2 * goal, False
            self.count = 0

        def step(self):
            is_long, self.is_stalled, size = next(coming)
            self.size, self.count = size * goal, self.count + 1
            self.promised = promised * (self.count < 5)
            return is_long

        def smooth(self, smoothing):
            seen.append(smoothing.delta)
            self.is_stalled = False

    monkeypatch.setattr(m3svm, "_Run", Run)
    found = m3svm.solve(given, Stop(1e-3, limit), start=start, progress=told.append)
    assert [now.iteration for now in told] == list(range(1, found.iterations + 1))
    assert np.all(found.W == 1.0) and np.all(found.bias == 1.0) and found.solver == "newton"
    return made, seen, found.iterations


# Whether the step was long, whether nothing moves, and the gradient for one that is small enough.
LONG, SHORT, STALLED = (True, False, 50), (False, False, 10.01), (False, True, 50)
FALLEN = False, False, 9.99


@pytest.mark.parametrize("loss, power, is_smoothed", [
    ("hinge", 4.0, True), ("pairwise", 1.0, True), ("pairwise", 2.0, False),
    ("softmax", 1.5, True), ("softmax", 4.0, False),
])  # fmt: skip
def test_the_smoothing_shrinks_while_steps_are_long(loss, power, is_smoothed, monkeypatch):
    """Or the gradient has fallen, or nothing moves; and the last steps are those of the problem."""
    given, end = problem(loss, power, delta=0.2), (False, False, 1.0)
    made, seen, count = smoothings(
        monkeypatch, given, [SHORT, LONG, SHORT, LONG, LONG, (False, False, 1.001), end]
    )
    assert made == [(pytest.approx(1.0 if is_smoothed else 0.2), False)]
    assert seen == pytest.approx([0.3, 0.2] if is_smoothed else []) and count == 7
    _, seen, count = smoothings(monkeypatch, given, [FALLEN, STALLED, SHORT, STALLED])
    assert seen == pytest.approx([0.3, 0.2] if is_smoothed else [])
    assert count == (4 if is_smoothed else 2)
    # Nor is a small gradient enough where another step would lower the objective, of 5, much.
    for share, steps in ((1.0, 3), (1.01, 5)):
        ends = [LONG] * 2 + [end] * 4
        *_, count = smoothings(monkeypatch, given, ends, promised=share * 1e-3 * 5)
        assert count == steps
    # A start is so good that little of it is needed.
    start = np.zeros((5, 4)), np.zeros(4)
    made, seen, count = smoothings(monkeypatch, given, [SHORT, end], start)
    assert made == [(0.2, True)] and seen == [] and count == 2
    fine = problem(loss, power, delta=0.01)
    made, *_ = smoothings(monkeypatch, fine, [SHORT] * 3, start, limit=3)
    assert made == [(pytest.approx(0.03 if is_smoothed else 0.01), True)]


def test_a_point_that_is_no_number_ends_it(monkeypatch):
    """What was found is judged afresh, and refused."""
    given, asked = problem("softmax", 4.0), []

    class Run:
        size = 1e9

        def __init__(self, objective, V, *_, **__):
            self.V = V.copy()

        def step(self):
            asked.append(1)
            self.V[0, 0] = np.nan

    monkeypatch.setattr(m3svm, "_Run", Run)
    with pytest.raises(DivergedError), np.errstate(invalid="ignore"):
        m3svm.solve(given, Stop(1e-3, 9))
    assert len(asked) == 1


def test_of_separable_classes_f_is_near_its_minimum_at_a_loose_tolerance():
    """There F is nearly zero, and 1e-3 of the gradient at zero is a large one."""
    X, target = examples()
    X = X + 16 * np.eye(4, 5)[target]
    given = problem(lambda_=1.0, data=(X, target))
    loose, exact = m3svm.solve(given, Stop(1e-3, 300)), m3svm.solve(given, EXACT)
    assert loose.converged and exact.objective < 0.05 * 3 * 60
    assert loose.objective <= 1.01 * exact.objective
