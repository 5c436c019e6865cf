"""Which certificate the engine takes, and what drawn rows tell, beside the same written out.

Bounds are said beforehand where it is decided what to look at: in runs of the whole engine another
decision would only take longer.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from engine_problems import in_span, own_matrix, points_of, problem_of

from odmtool.core.kernels import Kernel
from odmtool.solvers.engine import certificate, shared, solve
from odmtool.solvers.engine.choice import DRAWN, Choice
from odmtool.solvers.engine.points import Points


def point(free=np.inf, drawn=np.inf, exact=np.inf, least=0.0, scale=1.0, known=None):
    """``known``: the free bound without the errors of e_i."""
    known = free if known is None else known
    return SimpleNamespace(
        free=free, drawn=drawn, exact=exact, least=least, scale=scale, known=known
    )


@pytest.fixture
def certified(monkeypatch):
    """Bounds and failures of points, and what was asked for them; the tolerance is 1/4."""
    monkeypatch.setattr(
        certificate, "free", lambda point, left: point.free if left == 0.5 else point.known
    )
    basis = SimpleNamespace(error=0.25)

    def run(points, way, count=0, left=True, is_full=False, size=10**6, is_late=False, active=()):
        asked = []
        for one, share in zip(points, active or [1.0] * len(points), strict=True):
            one.a = np.arange(size) < share * size

        def drawn(some, basis, found, count):
            asked.append((count, [points.index(one) for one in some]))
            bounds = [np.atleast_1d(one.drawn)[0] for one in some]
            for one in some:
                if np.ndim(one.drawn) and len(one.drawn) > 1:
                    one.drawn = one.drawn[1:]
            return bounds, np.array([one.least for one in some])

        def exact(some, basis):
            asked.append([points.index(one) for one in some])
            return [one.exact for one in some]

        monkeypatch.setattr(certificate, "exact", exact)
        engine = SimpleNamespace(
            stop=SimpleNamespace(tolerance=0.25, is_late=is_late), _drawn=drawn,
            points=SimpleNamespace(size=size),
            sample=SimpleNamespace(landmarks=SimpleNamespace(is_full=is_full)),
        )  # fmt: skip
        features = SimpleNamespace(left=0.5 if left else None)
        found = solve.EngineRun._certify(engine, points, basis, features, Choice(way, 0.0, count))
        return *(part.tolist() for part in found), asked

    return run


DELTA = certificate.DELTA


def test_the_free_bound_is_enough_or_more_landmarks_follow(certified):
    met = [point(0.25), point(0.5, scale=2.0)]
    for way in ("free", "drawn", "full"):
        assert certified(met, way) == ([0.25, 0.5], [0.0, 0.0], [])
    missed = [point(0.25), point(0.3, 0.2, 0.1)]
    assert certified(missed, "free") == ([0.25, 0.3], [0.0, 0.0], [])
    assert certified(missed, "full") == ([0.25, 0.3], [0.0, 0.0], [])
    # Where there are no more landmarks.
    expected = [0.25, 0.2], [0.0, DELTA], [(DRAWN[0], [1])]
    assert certified(missed, "free", is_full=True) == expected
    assert certified(missed, "full", is_full=True) == ([0.25, 0.3], [0.0, 0.0], [])
    # Where only rounding errors of e_i keep it from being enough.
    off = [point(0.25), point(0.3, 0.2, known=0.2)]
    assert certified(off, "free") == expected


def test_a_pass_over_the_kernel_values(certified):
    some = [point(exact=0.3), point(exact=0.1)]
    assert certified(some, "exact", left=False) == ([0.3, 0.1], [0.0, 0.0], [[0, 1]])
    assert certified(some, "full", left=False) == ([np.inf] * 2, [0.0, 0.0], [])
    # Only of those that the free bound leaves, and no larger than it.
    some = [point(0.2, exact=0.1), point(0.3, exact=0.4)]
    assert certified(some, "exact") == ([0.2, 0.3], [0.0, 0.0], [[1]])


def test_ever_more_rows_are_drawn_where_these_may_prove_it(certified):
    some = [point(0.2), point(0.4, 0.25), point(0.4, [0.3, 0.24]), point(0.3, [0.5, 0.5], 0.1)]
    bounds, failures, asked = certified(some, "drawn", 500)
    assert bounds == [0.2, 0.25, 0.24, 0.1] and failures == [0.0, DELTA, DELTA, 0.0]
    assert asked[:2] == [(500, [1, 2, 3]), (2500, [2, 3])]
    # Until they are half of the examples; then comes a pass.
    counts = [count for count, _ in asked[1:-1]]
    assert counts == [500 * 5**k for k in range(1, len(counts) + 1)] and asked[-1] == [3]
    assert counts[-1] < 500_000 <= 5 * counts[-1]
    # Not where the gap is larger, almost certainly: more landmarks are wanted.
    some = [point(0.4, 0.3, 0.1, least=0.26)]
    assert certified(some, "drawn", 500) == ([0.3], [DELTA], [(500, [0])])
    # After the deadline neither more rows nor a pass follow on these.
    some = [point(0.4, [0.3, 0.2], 0.1)]
    assert certified(some, "drawn", 500, is_late=True) == ([0.3], [DELTA], [(500, [0])])
    # But a pass that is no dearer than they are, as of few examples with duals.
    some = [point(0.4, [0.3, 0.2], 0.1)]
    late = certified(some, "drawn", 500, is_late=True, active=[1e-3])
    assert late == ([0.1], [0.0], [[0]])
    # Those of the problems that are proved do not count.
    some = [point(0.2), point(0.4, [0.3] * 9, 0.1)]
    assert certified(some, "drawn", 500, active=[1.0, 1e-2])[2] == [(500, [1]), (2500, [1]), [1]]
    # Of few examples, or of some more, a pass follows at once or after some, or comes first.
    some = [point(0.4, [0.3, 0.3, 0.2], 0.1)]
    asked = certified(some, "drawn", 50, size=1000)[2]
    assert asked == [(50, [0]), (250, [0]), [0]]
    some = [point(0.4, [0.3, 0.2], 0.1)]
    assert certified(some, "drawn", 50, size=101)[2] == [(50, [0]), [0]]
    some = [point(0.4, [0.3, 0.2], 0.1)]
    assert certified(some, "drawn", 50, size=100) == ([0.1], [0.0], [[0]])


def test_what_drawn_rows_tell_of_several_points():
    """By the numbers of the head of its file, example by example."""
    random = np.random.default_rng(5)
    problem = problem_of(Kernel("poly", 0.3, 1.0, 3), "odm", 2.0**8, 60)
    _, basis, found, one, _ = in_span(problem, 12)
    K = own_matrix(problem)
    C, inverse = K[:, basis.members], np.linalg.inv(K[np.ix_(basis.members, basis.members)])
    E = K - C @ inverse @ C.T
    other = one.a * random.uniform(-1, 2, 60)
    other[::4] = 0.0
    nothing = np.zeros(60)
    points = [one._replace(a=a, crossed=C.T @ a) for a in (one.a, other, nothing)]
    draws = certificate.outsides(points, basis, found.left, 50, (3, 4))
    root = np.sqrt(found.left)
    shares = [np.abs(p.a) * root / (np.abs(p.a) @ root) for p in points[:2]]
    chance = (shares[0] + shares[1]) / 2
    rows = np.random.default_rng((3, 4)).choice(60, 50, p=chance)
    for p, draw in zip(points, draws, strict=True):
        X = [p.a[i] * (E @ p.a)[i] / chance[i] for i in rows]
        limit = 1.5 * max(abs(x) for x in X[:5])
        clipped = [min(max(x, -limit), limit) for x in X[5:]]
        total = max(abs(p.a[i]) * root[i] / chance[i] for i in range(60) if chance[i] > 0)
        expected = (
            total, limit, np.mean(clipped), np.var(clipped, ddof=1),
            np.mean([abs(x) > limit for x in X[5:]]),
        )  # fmt: skip
        assert draw == pytest.approx(expected, rel=1e-4, abs=1e-9)
    assert draws[2] == (0.0, 0.0, 0.0, 0.0, 0.0)
    assert certificate.outsides([points[2]], basis, found.left, 50, 3) == [draws[2]]


def test_bounds_have_what_rounding_may_hide(monkeypatch):
    """So large that it shows: by drawn rows, and by a pass, whichever of its two is smaller."""
    problem = problem_of(Kernel("rbf", 0.3), "odm", 2.0**8, 50, weighted=True)
    _, basis, found, one, _ = in_span(problem, 9)
    K, inverse = own_matrix(problem), np.linalg.inv(
        own_matrix(problem)[np.ix_(basis.members, basis.members)]
    )
    one = one._replace(rounding=0.3)
    beta, size = inverse @ one.crossed, np.abs(one.a).sum()
    for error in (0.0, 0.01):
        monkeypatch.setattr(Points, "product_error", error)
        hidden = error * (size + np.abs(beta).sum()) * size
        draw = certificate.Draw(3.0, 2.0, 1.0, 0.5, 0.1)
        [bound] = certificate.bounds([one], basis, [draw], 80, 1e-3)
        expected = one.inside + 0.3 + (draw.bound(80, 1e-3) + hidden) / 2
        assert bound == pytest.approx(expected, rel=1e-9)
        square = one.a @ K @ one.a
        whole = (one.norm - 2 * one.a @ one.f + square) / 2
        whole += error * (size + np.abs(one.alpha).sum()) ** 2 / 2
        outside = square - one.crossed @ beta + hidden
        far = one._replace(inside=1e9), one._replace(norm=1e9)
        expected = [whole + 0.3, one.inside + outside / 2 + 0.3]
        assert certificate.exact(list(far), basis) == pytest.approx(expected, rel=1e-7)
        # What only seems to be negative is none.
        less = one._replace(inside=1e9, norm=-1e9), one._replace(norm=1e9, crossed=1e9 * beta)
        found = certificate.exact(list(less), basis)
        assert found[0] == 0.3 and (error > 0 or found[1] == one.inside + 0.3)


def test_products_with_some_rows_and_norms(monkeypatch):
    """In blocks, from something, and for several columns."""
    monkeypatch.setattr(certificate, "_ROWS", 5)
    problem = problem_of(Kernel("rbf", 0.3), "odm", 1.0, 1100, dense=True)
    points, random = points_of(problem), np.random.default_rng(0)
    K, A = problem.gram.matrix(), random.standard_normal((1100, 2))
    A[::3] = 0.0
    A[5, 0] = 0.0
    rows = np.array([3, 900, 17, 4, 4, 1000, 2])
    found = certificate.rows_times(points, rows, A)
    assert found == pytest.approx(K[rows] @ A, rel=1e-9, abs=1e-9)
    start = certificate.rows_times(points, rows, A, start=lambda some: np.c_[some, -some] * 1.0)
    assert start == pytest.approx(found + np.c_[rows, -rows], rel=1e-9, abs=1e-9)
    single = certificate.rows_times(points, rows, A, points.single)
    assert single == pytest.approx(found, rel=1e-3, abs=1e-3) and np.any(single != found)
    squares = certificate._squares(points, A)
    assert squares == pytest.approx(np.einsum("ij,ik,kj->j", A, K, A), rel=1e-9)
    assert certificate._squares(points, np.zeros((1100, 3))).tolist() == [0.0] * 3


@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize("is_large", [False, True])
def test_which_bounds_of_shared_landmarks_are_proved(monkeypatch, is_large, is_last):
    """Where the free one is not enough, and where a proof may succeed, or is the last chance."""
    asked = []
    points = [point(0.25), point(0.3, 0.2, 0.1, 0.1), point(0.5, 0.3, 0.24, 0.2, 1.0),
              point(0.4, 0.1, 0.1, 0.21), point(0.9, 1.0, 0.6, 0.4, 2.0)]  # fmt: skip
    monkeypatch.setattr(certificate, "free", lambda point, left: point.free)
    monkeypatch.setattr(certificate, "outsides", lambda some, *others: asked.append(others[1:]))
    monkeypatch.setattr(
        certificate, "expected", lambda some, looks: np.array([one.least for one in some])
    )

    def drawn(some, basis, left, count, seed, delta):
        [one] = some
        asked.append((points.index(one), count, seed, delta))
        return [one.drawn]

    def exact(some, basis):
        asked.append([points.index(one) for one in some])
        return [one.exact for one in some]

    monkeypatch.setattr(certificate, "drawn", drawn)
    monkeypatch.setattr(certificate, "exact", exact)
    monkeypatch.setattr(shared, "_LARGE", 100)
    engine = SimpleNamespace(
        _features=SimpleNamespace(left=7), _basis=None, _tolerance=0.25, _seed=3,
        _points=SimpleNamespace(size=100 + is_large), _draws=certificate.Seeds(3),
    )  # fmt: skip
    gaps, failure = shared.Shared._bounds(engine, points, is_last)
    # Hoped for are .8 of the tolerance: not of the fourth.
    wanted = [1, 2, 3, 4] if is_last else [1, 2, 4]
    expected = [0.25, 0.3, 0.5, 0.4, 0.9]
    if not is_last:
        assert asked.pop(0) == (7, shared._LOOK, 3)
    if is_large:
        for j in wanted:
            assert asked.pop(0) == (j, shared._DRAWN, (3, 1, j), DELTA / 2 / 5)
            expected[j] = min(expected[j], points[j].drawn)
        wanted = [2, 4]
    assert asked == [wanted] and failure == (DELTA if is_large else 0.0)
    for j in wanted:
        expected[j] = min(expected[j], points[j].exact)
    expected[4] /= 2
    assert gaps.tolist() == pytest.approx(expected, rel=1e-15)
