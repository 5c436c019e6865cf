"""The path of hinge machines and LDM along lambda: the same solutions, and its ends."""

import numpy as np
import pytest
from ldm_problems import assert_confirmed, ldm_problem
from problems import OTHER_LOSSES, problem, weights, write
from scipy import sparse
from scipy.optimize import LinearConstraint, linprog, minimize
from stepping import python

from odmtool.core import deadline, losses
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.paths import hinge_path, path


def chain(kernel, settings, starts):
    """The path's solutions of one problem with several parameters."""
    p, start, found = ldm_problem(kernel, weight=weights()), None, []
    for setting in settings:
        q = p._replace(loss=losses.ldm(*setting, weights().sum()))
        solution = path.solve(q, Stop(1e-8, 10**6), start=start if starts else None)
        assert_confirmed(q, solution, 1e-8)
        found.append(solution)
        start = solution.warm_start
    return found


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_the_path_is_the_same_wherever_it_was_begun(kernel):
    settings = [(1.0, 0.5, 2.0**k) for k in range(-2, 15, 4)]
    settings += [(1.0, 2.0, 8.0), (4.0, 2.0, 64.0), (4.0, 2.0, 1.0), (0.0, 2.0, 16.0)]
    together, alone = chain(kernel, settings, True), chain(kernel, settings, False)
    assert together[0].track is together[5].track is not together[6].track
    for a, b in zip(together, alone, strict=True):
        np.testing.assert_array_equal(a.eta, b.eta)
        assert (a.gap, a.solver) == (b.gap, "path")


@pytest.mark.parametrize("mu1", [0.0, 2.0])
def test_the_path_passes_examples_that_meet_the_boundary_together(mu1):
    """Copies, with either label, and features of two values."""
    generator = np.random.default_rng(3)
    rows = generator.integers(0, 2, (20, 6)).astype(float)
    X, y = np.repeat(rows, 3, axis=0), np.tile([1.0, 1.0, -1.0], 20) * np.repeat(
        np.where(rows[:, 0] > 0, 1.0, -1.0), 3)  # fmt: skip
    start = None
    for k in range(-2, 21, 2):
        p = Problem(X, None, y, np.ones(60), losses.ldm(mu1, 0.25, 2.0**k, 60.0))
        solution = path.solve(p, Stop(1e-8, 10**6), start=start)
        start = solution.warm_start
        assert_confirmed(p, solution, 1e-8)
        assert solution.solver == "path"


def refuse(_matrix):
    raise np.linalg.LinAlgError("Singular matrix")


@pytest.mark.parametrize(
    "change", [(hinge_path, "_MOST", 0.1), (hinge_path, "_REFRESH", 5)], ids=["circle", "singular"]
)
def test_newton_goes_on_where_the_path_is_lost(monkeypatch, change):
    monkeypatch.setattr(*change)
    if change[1] == "_REFRESH":
        monkeypatch.setattr(np.linalg, "inv", refuse)
    for loss in (losses.ldm(1.0, 1.0, 2.0**10, 60), OTHER_LOSSES["l1svm"]):
        p = problem("rbf", loss=loss)
        solution = path.solve(p, Stop(1e-6, 10**6))
        assert solution.solver == "path, then newton"
        assert_confirmed(p, solution, 1e-6)
    assert not path.solve(p, Stop(1e-6, 3)).converged
    # Newton's method has the steps that it has by itself, not those of the path.
    assert path.solve(p, Stop(1e-300, 10**6)).iterations < 1000


def test_a_path_is_lost_where_rounding_leaves_no_inverse():
    """As one split of australian, coded by levels: what left the active set divided by 0."""
    t, side, active, alpha = np.ones(2), np.zeros(2), np.arange(2), np.full(2, 0.5)
    ends = hinge_path.follow(
        np.eye(2), np.ones(2), np.ones(2), side, t, np.ones(2), active, alpha,
        np.array([[0.0, 1.0], [1.0, 0.0]]), 1.0, 2, 10.0, 5,
    )  # fmt: skip
    assert ends == (1.5, 2, 0, hinge_path.LOST)
    assert not side.any() and active.tolist() == [0, 1]


def test_newton_goes_on_where_no_inverse_is_left(monkeypatch):
    follow = hinge_path.follow

    def lost(*arguments):
        *state, _ = follow(*arguments[:-1], min(5, arguments[-1]))
        return *state, hinge_path.LOST

    monkeypatch.setattr(hinge_path, "follow", lost)
    p = problem("rbf", loss=OTHER_LOSSES["l1svm"])
    solution = path.solve(p, Stop(1e-6, 10**6))
    assert solution.solver == "path, then newton"
    assert_confirmed(p, solution, 1e-6)


def test_a_path_ends_when_the_time_is_over():
    p = problem("rbf", loss=OTHER_LOSSES["l1svm"])
    with deadline.time_limit(0.0):
        assert path.solve(p, Stop(1e-6, 10**6)).iterations == 0


def test_cross_validations_go_on_where_a_path_meets_dependent_examples(run, tmp_path):
    """Unscaled features of few values: by rounding nine examples with eight seem independent."""
    generator, m = np.random.default_rng(1), 200
    X = np.round(generator.normal(size=(m, 8)) * 4) * 10.0 ** np.arange(-2, 2).repeat(2)
    X += [50, 0, 100, 0, 0, 200, 0, 3]
    z = ((X - X.mean(axis=0)) / X.std(axis=0)).sum(axis=1)
    y = np.where(z + 2 * generator.normal(size=m) > 0, 1, -1)
    data = write(tmp_path / "d", sparse.csr_matrix(X), y)
    outcome = run("cv", "-q", "-s", "l1svm", "-l", "2^0:20:2", "-v", "3", data)
    assert outcome.code == 0, outcome.err


# ---- hard margins --------------------------------------------------------------------------


def hard_margin(y_wrong):
    """Twenty examples that a line separates, but for some that have the other label."""
    generator = np.random.default_rng(8)
    X = generator.standard_normal((20, 3))
    y = np.where(X @ [1.0, -2.0, 0.5] > 0, 1.0, -1.0)
    y[:y_wrong] *= -1
    mu1, mu2 = 2.0, 0.5

    def solve(lambda_):
        p = Problem(X, None, y, np.ones(20), losses.ldm(mu1, mu2, lambda_, 20.0))
        solution = path.solve(p, Stop(1e-6, 10**6))
        assert solution.converged and solution.solver == "path"
        return solution.w

    def without_hinge(w):
        t = y * (X @ w)
        return w @ w / 2 + mu1 * t.var() - mu2 * t.mean()

    return X * y[:, None], solve, without_hinge


def test_a_large_lambda_is_the_hard_margin_where_the_data_are_separable():
    Z, solve, without_hinge = hard_margin(0)
    w = solve(2.0**20)
    np.testing.assert_allclose(solve(2.0**30), w, rtol=1e-9)
    assert (Z @ w).min() == pytest.approx(1.0, abs=1e-9)
    constraint = LinearConstraint(Z, lb=1.0)
    found = minimize(without_hinge, 2 * w, method="SLSQP", constraints=[constraint], tol=1e-14)
    assert without_hinge(w) == pytest.approx(found.fun, rel=1e-7)


def test_a_large_lambda_is_the_least_hinge_where_they_are_not():
    """Of all w with the least sum of max(0, 1 - t) the one whose other terms are least."""
    Z, solve, without_hinge = hard_margin(2)
    w = solve(2.0**20)
    np.testing.assert_allclose(solve(2.0**16), w, rtol=1e-7)
    cost, identity = np.r_[np.zeros(3), np.ones(20)], np.eye(20)
    bounds = [(None, None)] * 3 + [(0, None)] * 20
    least = linprog(cost, A_ub=-np.hstack([Z, identity]), b_ub=-np.ones(20), bounds=bounds).fun
    assert least > 0.1
    assert np.maximum(0, 1 - Z @ w).sum() == pytest.approx(least, rel=1e-9)


def small_path(nu=0.3):
    generator = np.random.default_rng(4)
    A = generator.standard_normal((12, 12))
    return hinge_path.HingePath(A @ A.T, generator.uniform(0.5, 2, 12), nu)


def test_margins_at_the_beginning_of_a_path():
    """At rho = 0 all duals are u nu; sides are those of the margins, and nothing is active."""
    p = small_path()
    t = 0.3 * p._Q @ p._weight
    np.testing.assert_allclose(p._t, t, rtol=1e-12)
    assert np.array_equal(p._side, np.where(t < 1, 1.0, -1.0)) and {1, -1} == set(p._side)
    np.testing.assert_allclose(p._g, p._Q @ np.where(t < 1, p._weight, 0.0), rtol=1e-12)
    moved = p._target - 1
    assert moved.min() > 0.499e-11 and moved.max() < 1.001e-11
    assert len(set(p._target)) == 12 and (p._rho, p._count) == (0, 0)
    assert p.leads_to(0.3, 0.0) and not p.leads_to(0.2, 5.0)
    p._rho = 2.0
    assert p.leads_to(0.3, 2.0) and not p.leads_to(0.3, 1.9)


@pytest.mark.parametrize("limit, reasons, asked, told, is_there", [
    (999, [(3, "REACHED")], [100], [], True),
    (999, [(100, "CHANGED"), (40, "FULL"), (60, "CHANGED"), (0, "REACHED")], [100, 100, 60, 100],
     [100, 200], True),
    (130, [(100, "CHANGED"), (30, "CHANGED")], [100, 30], [100], False),
    (999, [(20, "LOST")], [100], [], False),
    (999, [(100, "CHANGED")] * 3 + [(60, "CHANGED")], [100, 100, 100, 60], [100, 200, 300], False),
    (999, [(0, "FULL"), (0, "REACHED")], [100, 100], [], True),
])  # fmt: skip
def test_a_path_goes_on_a_hundred_changes_at_a_time(
    limit, reasons, asked, told, is_there, monkeypatch
):
    """As many as are allowed, 30 for each of 12 examples at most; with room for more, or lost."""
    p, seen, calls, rooms = small_path(), [], [], []
    script = iter(reasons)

    def follow(*arguments):
        changes, reason = next(script)
        rooms.append(len(arguments[8]))
        calls.append(arguments[-1])
        assert arguments[-2] == 7.5
        return 1.0, 2, changes, getattr(hinge_path, reason)

    monkeypatch.setattr(hinge_path, "follow", follow)
    monkeypatch.setattr(p, "_refresh", lambda: seen.append("anew"))
    before = p._inverse.copy()
    found = p._advance(7.5, Stop(1e-3, limit), lambda *now: seen.append(now))
    assert found == is_there and calls == asked
    assert seen == [each for n in told for each in ("anew", (n, 2))]
    assert rooms == [16 * 2 ** sum(r == "FULL" for _, r in reasons[:n]) for n in range(len(rooms))]
    assert np.array_equal(p._inverse[:2, :2], before[:2, :2], equal_nan=True)
    assert p._is_lost == (reasons[-1][1] == "LOST")


def test_all_that_a_path_knows_is_computed_again():
    """Whatever rounding has made of it: margins, sums, duals and the inverse."""
    p = small_path(0.02)
    p._advance(5.0, Stop(1e-3, 999), lambda *_: None)
    n, active = p._count, p._active[: p._count].copy()
    assert 2 < n < 12 and p._changes > n
    kept = [a.copy() for a in (p._t, p._g, p._alpha[:n], p._inverse[:n, :n])]
    duals = np.where(p._side > 0, p._rho * p._weight, 0.0)
    duals[active] = kept[2]
    np.testing.assert_allclose(kept[0], p._Q @ (duals + 0.02 * p._weight), rtol=1e-9)
    generator = np.random.default_rng(1)
    for array in (p._t, p._g, p._alpha[:n], p._inverse[:n, :n]):
        array += 1e-3 * generator.standard_normal(array.shape)
    p._refresh()
    found = p._t, p._g, p._alpha[:n], p._inverse[:n, :n]
    for one, other in zip(found, kept, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)
    assert not p._is_lost and p._t[active] == pytest.approx(p._target[active], abs=1e-12)


@pytest.mark.parametrize("off, is_lost", [(0.9e-4, False), (1.1e-4, True), (np.nan, True)])
def test_an_inverse_that_is_off_is_none(off, is_lost, monkeypatch):
    p, real = small_path(0.02), np.linalg.inv
    p._advance(5.0, Stop(1e-3, 999), lambda *_: None)
    kept = p._t.copy()

    def nearly(A):
        return real(A) @ (np.eye(len(A)) + off * np.eye(len(A), k=1))

    monkeypatch.setattr(np.linalg, "inv", nearly)
    p._t += 1.0
    p._refresh()
    assert p._is_lost == is_lost
    assert np.array_equal(p._t, kept + 1.0) == is_lost


def test_what_rounding_did_to_the_inverse_is_undone_for_a_new_example():
    generator = np.random.default_rng(2)
    A = generator.standard_normal((6, 9))
    Q, inverse = A @ A.T, np.zeros((6, 6))
    inverse[:5, :5] = np.linalg.inv(Q[:5, :5]) * (1 + 1e-6 * generator.standard_normal((5, 5)))
    for append in (hinge_path.append, python(hinge_path.append)):
        active, given = np.r_[np.arange(5), -1], inverse.copy()
        assert append(Q, active, given, 5, 5) and active.tolist() == list(range(6))
        np.testing.assert_allclose(given[:, 5], np.linalg.inv(Q)[:, 5], rtol=1e-9)
        assert np.array_equal(given[5], given[:, 5])


@pytest.mark.parametrize("rest, is_new", [(0.99e-11, False), (1.01e-11, True)])
def test_an_example_that_depends_on_the_others_does_not_become_active(rest, is_new):
    Q = np.array([[1.0, 2.0], [2.0, 4.0 + 4.0 * rest]])
    for append in (hinge_path.append, python(hinge_path.append)):
        active, inverse = np.array([0, -1]), np.array([[1.0, 0.0], [0.0, 0.0]])
        assert bool(append(Q, active, inverse, 1, 1)) == is_new
        assert active.tolist() == ([0, 1] if is_new else [0, -1])
        assert is_new or np.array_equal(inverse, [[1.0, 0.0], [0.0, 0.0]])


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_an_example_that_depends_on_the_others_goes_on(side):
    """As if its 1 were none that is moved: it comes again, and nothing else has changed."""
    X, moved = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.7]]), 1e-3
    Q, target = X @ X.T, np.array([1.0, 1.0, 1.0 + moved])
    for follow in (hinge_path.follow, python(hinge_path.follow)):
        t, sides = np.array([1.0, 1.0, 1 + moved - side / 2]), np.array([0, 0, side])
        g, alpha, active = np.array([0, 0, side]), np.full(3, 0.5), np.array([0, 1, -1])
        inverse = np.eye(3)
        found = follow(
            Q, np.ones(3), target, sides, t, g, active, alpha, inverse, 1.0, 2, 9.0, 1
        )  # fmt: skip
        assert found == (1.5, 2, 1, hinge_path.CHANGED)
        assert t == pytest.approx([1.0, 1.0, 1 + moved - side * moved], rel=1e-12)
        assert sides.tolist() == [0, 0, side] and alpha.tolist() == [0.5] * 3
        found = follow(
            Q, np.ones(3), target, sides, t, g, active, alpha, inverse, 1.5, 2, 9.0, 1
        )  # fmt: skip
        assert found[0] == pytest.approx(1.5 + moved)


@pytest.mark.parametrize("slope, step, kind", [(3.0, 0.25, 1), (-2.0, 0.25, -1)])
def test_an_example_that_leaves_counts_below_its_margin_or_not(slope, step, kind):
    """Where its dual reaches rho u it is one of those below, where it reaches 0 it is not."""
    Q = np.array([[1.0, 0.3], [0.3, 1.0]])
    for follow in (hinge_path.follow, python(hinge_path.follow)):
        t, sides, g = np.array([1.0, 5.0]), np.array([0.0, -1.0]), np.array([-slope, 1.0])
        found = follow(
            Q, np.array([1.0, 2.0]), np.ones(2), sides, t, g, np.array([0, -1]),
            np.array([0.5, 0.0]), np.eye(2), 1.0, 1, 9.0, 1,
        )  # fmt: skip
        assert found == (1.0 + step, 0, 1, hinge_path.CHANGED)
        assert sides.tolist() == [kind, -1] and t[0] == 1.0
        assert t[1] == pytest.approx(5 + step * (1 + 0.3 * slope))
        assert g == pytest.approx(np.array([-slope, 1.0]) + (kind > 0) * Q[0])


def test_directions_do_not_depend_on_what_was_there_before():
    """alpha' = -A^-1 g of the active examples, and t' = g + Q alpha' of all."""
    random = np.random.default_rng(0)
    B = random.standard_normal((9, 9))
    Q, g, active = B @ B.T + np.eye(9), random.standard_normal(9), np.array([4, 1, 7, 0, 0])
    own = active[:3]
    inverse = np.zeros((5, 5))
    inverse[:3, :3] = np.linalg.inv(Q[np.ix_(own, own)])
    slope, moving = np.full(5, 7.0), np.full(9, 7.0)
    getattr(hinge_path.direction, "py_func", hinge_path.direction)(
        Q, g, active, inverse, 3, slope, moving
    )  # fmt: skip
    np.testing.assert_allclose(slope[:3], -np.linalg.solve(Q[np.ix_(own, own)], g[own]))
    np.testing.assert_allclose(moving, g + Q[:, own] @ slope[:3], atol=1e-12)
