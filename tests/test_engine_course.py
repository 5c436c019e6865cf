"""What Newton's method beyond the landmarks decides, step by step, beside the same written out.

What a step or a look answers is said beforehand here, so that every decision shows: in runs of
the whole engine another one would only take longer.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from engine_problems import own_matrix, points_of, problem_of
from numpy.linalg import LinAlgError
from scipy.optimize import minimize_scalar

from odmtool.core import losses
from odmtool.core.kernels import Kernel
from odmtool.rows.executor import Serial
from odmtool.solvers.base import Stop
from odmtool.solvers.engine import full
from odmtool.solvers.engine.products import Asked
from odmtool.solvers.engine.reduced import FeatureSpace


def answered(course, K):
    """What a course returns, whose products are made of K, and what it asked for.

    Where a product is not wanted it is anything.
    """
    asked, answer = [], None
    try:
        while True:
            asked.append(course.send(answer))
            answer = K @ asked[-1].v
            if asked[-1].wanted is not None:
                answer = np.where(asked[-1].wanted, answer, 1e6)
    except StopIteration as end:
        return end.value, asked


def naive_point(K, y, loss, a):
    """P, S and P - D at the coefficients themselves."""
    t, eta = y * (K @ a), losses.nearest_dual(loss, y * a)
    values, half = losses.value(loss, t), a @ K @ a / 2
    off = np.abs(y * a - eta) @ np.sqrt(np.diagonal(K))
    gap = (values + eta * t - losses.dual_value(loss, eta)).sum()
    return half + values.sum(), half + np.abs(values).sum(), max(0.0, gap) + off**2 / 2


def lowest(K, y, loss, a, d):
    """How far to go: all of it where P falls enough, or still falls, else to its minimum."""
    def primal(s):
        return naive_point(K, y, loss, a + s * d)[0]

    def slope(s):
        v = a + s * d
        return d @ K @ (v + y * losses.derivative(loss, y * (K @ v)))

    if primal(1) - primal(0) <= 1e-4 * slope(0) or slope(1) <= 0:
        return 1.0
    return minimize_scalar(primal, bounds=(0.0, 1.0), method="bounded",
                           options={"xatol": 1e-10}).x  # fmt: skip


@pytest.mark.parametrize("far", [np.inf, 1e-3])
@pytest.mark.parametrize("kind", ["odm", "l2svm", "lssvm"])
def test_a_newton_step_in_function_space(kind, far, monkeypatch):
    """The whole one where the gap gets smaller than it is known to be, else to the minimum."""
    monkeypatch.setattr(full, "_RESIDUAL", 1e-10)
    lengths = []
    for seed in range(6):
        kernel = Kernel("rbf", 0.5, bias=0.7)
        problem = problem_of(kernel, kind, 2.0 ** (2 * seed), 40, seed, weighted=True)
        K, y, random = own_matrix(problem), problem.y, np.random.default_rng(seed)
        loss = losses.scaled(problem.loss, problem.weight)
        values, vectors = np.linalg.eigh(K)
        space = FeatureSpace(vectors[:, -9:] * np.sqrt(values[-9:]), y, Serial())
        coef = losses.nearest_dual(loss, 3 * random.standard_normal(40))
        coef[::7] = 0.0
        a, size = y * coef, np.abs(coef).sum()
        run = SimpleNamespace(Y=[y], losses=[loss].__getitem__, points=points_of(problem))
        newton = full.FullNewton(run, 0, space, SimpleNamespace(f=K @ a), coef)
        t = y * (K @ a)
        demanded = -y * losses.derivative(loss, t)
        apart = (a - demanded) @ K @ (a - demanded) / 2
        d = np.linalg.solve(np.eye(40) + losses.slope(loss, t)[:, None] * K, demanded - a)
        gap = far * apart
        found, asked = answered(newton.step(gap, 1e-9 * apart, 0.0), K)
        assert asked[0].roughly and np.array_equal(asked[0].v, demanded)
        [whole] = [one for one in asked if one.wanted is None]
        assert whole.v == pytest.approx(a + d, rel=1e-3, abs=1e-5)
        # So small a residual is not to be had of rounded values.
        assert not any(one.roughly for one in asked[1:])
        is_whole = naive_point(K, y, loss, a + d)[2] < min(gap, apart)
        length = 1.0 if is_whole else lowest(K, y, loss, a, d)
        lengths.append(length)
        assert newton.a == pytest.approx(a + length * d, rel=1e-3, abs=1e-4)
        assert newton.f == pytest.approx(K @ newton.a, rel=1e-9, abs=1e-9)
        assert newton._is_far is not is_whole
        expected = (1 - length) * size + length * np.abs(a + d).sum()
        assert newton._size == pytest.approx(expected, rel=1e-3)
        for mine, other in zip(found, naive_point(K, y, loss, newton.a), strict=False):
            assert mine == pytest.approx(other, rel=1e-6, abs=1e-9)
        # Another one near the solution needs no product of the demanded duals.
        _, asked = answered(newton.step(np.inf, 0.0, 0.0), K)
        first = asked[0].wanted is not None and np.array_equal(
            asked[0].v, -y * losses.derivative(loss, y * (K @ (a + length * d)))
        )
        assert first is not is_whole or kind == "lssvm"
    assert max(lengths) == 1.0


@pytest.mark.parametrize("is_proved", [True, False])
def test_a_look_in_double_precision(monkeypatch, is_proved):
    """Drawn rows say by how much P and the gap are larger; where they prove it not, a pass."""
    problem = problem_of(Kernel("rbf", 0.5), "odm", 2.0**6, 40)
    K, y, random = own_matrix(problem), problem.y, np.random.default_rng(0)
    loss = losses.scaled(problem.loss, problem.weight)
    coef = random.uniform(0.0, 1.0, 40)
    run = SimpleNamespace(Y=[y], losses=[loss].__getitem__, points=points_of(problem))
    off = 1e-3 * random.standard_normal(40)
    newton = full.FullNewton(run, 0, None, SimpleNamespace(f=K @ (y * coef) + off), coef, 2)
    assert newton._most_rows == int(full._ROWS_SHARE * 40 / 2)
    primal, scale, gap, eta = newton.values()
    told = []

    def more(points, known, allowed, most, drawn):
        told.append((known, allowed, most, drawn))
        return full.checked.More(0.25 * scale, 0.5, 1e-7)

    monkeypatch.setattr(full.checked, "more", more)
    # Met exactly, or missed by the last bit.
    tolerance = (gap + 0.25 * scale) / scale
    tolerance = tolerance if is_proved else np.nextafter(tolerance, 0)
    found, asked = answered(newton.certain(len, tolerance), K)
    [(known, allowed, most, drawn)] = told
    assert allowed == tolerance * scale - gap and (most, drawn) == (newton._most_rows, len)
    assert np.array_equal(known.eta, eta) and known.size == np.abs(coef).sum()
    if is_proved:
        assert not asked and found[:3] == (primal + 0.5, scale, gap + 0.25 * scale)
        assert found[4] == 1e-7
    else:
        assert [one.exactly for one in asked] == [True]
        assert newton.f == pytest.approx(K @ newton.a) and newton._size == np.abs(newton.a).sum()
        exact = naive_point(K, y, loss, newton.a)
        assert found[:2] == pytest.approx(exact[:2])
        assert found[2] == pytest.approx(exact[2] + newton.rounding()) and found[4] == 0.0


class Scripted:
    """A FullNewton whose numbers, (P, P - D), are those of a list."""

    scale, products = 1.0, 0

    def __init__(self, first, steps=(), looks=(), is_hopeful=True):
        self.a, self.y = np.array([1.0, 0.0, -2.0]), np.array([1.0, 1.0, -1.0])
        self._first, self._steps, self._looks = first, iter(steps), iter(looks)
        self._is_hopeful, self.calls = is_hopeful, []

    def is_hopeful(self, tolerance):
        assert tolerance == 2.0**-10
        return self._is_hopeful

    def values(self):
        return self._first[0], self.scale, self._first[1], self.a

    def rounding(self):
        return 2.0**-12

    def renew(self, *, exactly):
        self.calls.append(("renew", exactly))
        yield

    def step(self, gap, least, _enough):
        self.calls.append(("step", gap, least))
        yield
        if (said := next(self._steps)) is None:
            raise LinAlgError
        return said[0], self.scale, said[1], self.a

    def certain(self, drawn, tolerance):
        assert (drawn, tolerance) == (len, 2.0**-10)
        self.calls.append(("look",))
        yield
        primal, gap, failure = next(self._looks)
        return primal, self.scale, gap, self.a, failure

    def primal_at(self, s):
        return 3.0 + s, 1.0


def course_of(newton, primal=2.0, gap=0.5, is_near=False, limit=30, follows=False):
    """The solution and what was reported; the landmarks had this P and P - D."""
    reports = []
    run = SimpleNamespace(
        stop=Stop(2.0**-10, limit, follows), draws=SimpleNamespace(next=len), iterations=10,
        report=lambda *said: reports.append(said),
    )  # fmt: skip
    found, _ = answered(_fed(full._course(run, 4, newton, primal, gap, is_near)), np.eye(3))
    return found, reports


def _fed(course):
    """The course, asking for something."""
    try:
        while True:
            next(course)
            yield Asked(np.zeros(3))
    except StopIteration as end:
        return end.value


T = 2.0**-10
LEAST = 1e-7  # below which single precision is all that moves
PATIENCE = 5


def numbers(found):
    return found.primal, found.gap, found.iterations, found.converged, found.failure


def test_a_course_that_begins_where_the_gap_is_small():
    # In single precision, and then in double.
    newton = Scripted((1.75, 0.5 * T), looks=[(1.5, T, 1e-6)])
    found, reports = course_of(newton, is_near=True)
    assert newton.calls == [("renew", False), ("look",)]
    assert numbers(found) == (1.5, T, 10, True, 1e-6) and found.dual == 1.5 - T
    assert reports == [(4, 10, 1.5, T, 2)] and found.solver == "landmarks, then newton"
    assert np.array_equal(found.coef, newton.y * newton.a) and found.eta is newton.a
    # At once in double precision, with what that rounds.
    newton = Scripted((1.75, 0.75 * T), is_hopeful=False)
    found, reports = course_of(newton, is_near=True)
    assert newton.calls == [("renew", True)]
    assert numbers(found) == (1.75, T, 10, True, 0.0) and reports == [(4, 10, 1.75, T, 2)]
    # At the landmarks' point, whose P was told before.
    newton = Scripted((1.75, 0.5 * T))
    found, reports = course_of(newton)
    assert not newton.calls and numbers(found) == (2.0, 0.75 * T, 10, True, 0.0)


def test_a_course_is_told_how_far_it_may_be():
    """From the highest lower bound that was met: of the landmarks, or of any point since."""
    steps = [(1.9, 0.3), (1.8, 0.3), (1.75, 0.125), (1.7, 0.5 * T)]
    newton = Scripted((2.25, 1.0), steps, [(1.7, 0.75 * T, 0.0)])
    found, reports = course_of(newton, primal=2.0, gap=0.5)
    # 2 - .5; then 1.9 - .3 and no better before 1.75 - .125.
    far = [0.5, 1.9 - (1.9 - 0.3), 1.8 - (1.9 - 0.3), 0.125]
    assert [call[0] for call in newton.calls] == ["step"] * 4 + ["look"]
    assert [call[1] for call in newton.calls[:4]] == pytest.approx(far, rel=1e-12)
    assert {call[2] for call in newton.calls[:4]} == {LEAST}
    assert numbers(found) == (1.7, 0.75 * T, 14, True, 0.0)
    gaps = [1.0 + 2.0**-12, 0.3, 0.3, 0.125, 0.75 * T]
    assert [one[1:4] for one in reports] == [
        (10 + k, primal, gap)
        for k, (primal, gap) in enumerate(zip([2.0, 1.9, 1.8, 1.75, 1.7], gaps, strict=True))
    ]


def test_a_course_whose_look_proves_nothing_goes_on():
    newton = Scripted((2.0, 0.5), [(1.5, 0.5 * T), (1.25, 0.5 * T)],
                      [(1.5, 2 * T, 1e-6), (1.25, T, 1e-7)])  # fmt: skip
    found, _ = course_of(newton)
    assert [call[0] for call in newton.calls] == ["step", "look", "step", "look"]
    assert numbers(found) == (1.25, T, 12, True, 1e-7)


def test_a_course_ends_where_rounding_is_all_that_moves():
    """After so many steps that lower neither P nor the gap; then it is looked at."""
    waits = [(2.0, 0.5)] * PATIENCE
    newton = Scripted((2.0, 0.5 - 2.0**-12), [(1.5, 0.6), (1.5, 0.25), *waits], [(2.0, 0.5, 0.0)])
    found, _ = course_of(newton)
    assert len(newton.calls) == 2 + len(waits) + 1
    assert numbers(found) == (2.0, 0.5, 10 + 2 + len(waits), False, 0.0)
    # P is no lower that falls by less than a thousandth of what it may still fall.
    slightly = [(2.0 - 0.9 * 2e-3, 2.0)] * PATIENCE
    newton = Scripted((2.0, 2.0 - 2.0**-12), slightly, [(2.0, 2.0, 0.0)])
    newton.scale = 4.0
    found, _ = course_of(newton, primal=2.0, gap=2.0)
    assert len(newton.calls) == PATIENCE + 1 and newton.calls[0][2] == 4 * LEAST
    # Ever lower by more, or of ever smaller gaps, it goes on.
    for falling in (
        [(2.0 - 1.5 * k * 5e-4, 0.5) for k in range(1, 9)],
        [(2.0, 0.5 - 0.01 * k) for k in range(1, 9)],
    ):
        newton = Scripted((2.0, 0.5 - 2.0**-12), [*falling, None], [(2.0, 0.5, 0.0)])
        found, _ = course_of(newton, primal=2.0, gap=0.5)
        assert found.iterations == 18 and newton.calls[-1] == ("look",)


@pytest.mark.parametrize("products, follows, is_over", [(3, True, True), (2, True, False),
                                                        (3, False, False)])  # fmt: skip
def test_a_course_ends_where_another_method_is_cheaper(products, follows, is_over):
    """Two thirds of a product for each of three examples take as long as the other."""
    newton = Scripted((2.0, 0.5), [(1.5, 0.4), None], [(1.5, 0.4, 0.0)])
    newton.products = products
    assert course_of(newton, follows=follows)[0].iterations == (10 if is_over else 11)


def test_a_course_ends_with_its_iterations_or_where_no_step_is_left():
    newton = Scripted((2.0, 0.5), [(1.5, 0.4), (1.25, 0.3)], [(1.25, 0.35, 0.0)])
    found, reports = course_of(newton, limit=2)
    assert [call[0] for call in newton.calls] == ["step", "step", "look"]
    assert numbers(found) == (1.25, 0.35, 12, False, 0.0) and len(reports) == 3
    newton = Scripted((2.0, 0.5), [None])
    found, _ = course_of(newton)
    assert len(newton.calls) == 1 and numbers(found)[:3] == (2.0, 0.5 + 2.0**-12, 10)
    newton = Scripted((2.0, np.nan))  # or where it is no number
    assert course_of(newton)[0].iterations == 10 and not newton.calls


def test_a_gap_below_single_precision_is_looked_at_and_left():
    """Of so small a tolerance no step in single precision comes nearer."""
    newton = Scripted((2.0, 0.5), [(1.5, 0.9 * LEAST)], [(1.5, 0.95 * LEAST, 0.0)])
    newton.is_hopeful = lambda tolerance: True
    reports = []
    run = SimpleNamespace(stop=Stop(1e-12, 30), draws=SimpleNamespace(next=len), iterations=0,
                          report=lambda *said: reports.append(said))  # fmt: skip
    looks = []
    newton.certain = lambda drawn, tolerance: _look(looks, tolerance)
    course = full._course(run, 0, newton, 2.0, 0.5, False)
    found, _ = answered(_fed(course), np.eye(3))
    assert looks == [1e-12] and found.iterations == 1 and not found.converged
    assert found.gap == pytest.approx(0.95 * LEAST)


def _look(looks, tolerance):
    looks.append(tolerance)
    yield
    return 1.5, 1.0, 0.95 * LEAST, np.zeros(3), 0.0


def test_what_is_worse_than_no_model_is_shrunk():
    newton = Scripted((5.0, 2.0), [None])
    found, _ = course_of(newton, primal=5.0, gap=2.0)
    # P(s w) = 3 + s: none is best.
    assert found.primal == pytest.approx(3.0, abs=1e-9) and not np.any(np.abs(found.coef) > 1e-9)


def test_problems_that_wait_share_passes():
    """Those in double precision come when no other one is waiting."""
    made = []

    def course(name, *kinds):
        heard = []
        for exactly in kinds:
            heard.append((yield Asked(name, exactly=exactly)))
        return heard

    def of(asked):
        made.append([(one.v, one.exactly) for one in asked])
        return [f"{one.v}{len(made)}" for one in asked]

    courses = [course("a", False, True), course("b"), course("c", True, False, False),
               course("d", False, False, False)]  # fmt: skip
    told = []
    found = full._side_by_side(courses, SimpleNamespace(of=of), told.append)
    assert made == [
        [("a", False), ("d", False)], [("d", False)], [("d", False)],
        [("c", True), ("a", True)], [("c", False)], [("c", False)],
    ]  # fmt: skip
    assert found == [["a1", "a4"], [], ["c4", "c5", "c6"], ["d1", "d2", "d3"]]
    assert told == [1, 2, 3, 4, 5, 6]
