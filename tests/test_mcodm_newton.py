"""mcODM's Newton method: for arrays and sparse rows every number is that of a slow twin.

And a step is what its header says.
"""

import copy

import numpy as np
import pytest
from mcodm_problems import nothing, problem
from numpy.linalg import LinAlgError
from scipy import sparse
from twins import hessian as slow
from twins import mcodm as naive

from odmtool.core import deadline, losses
from odmtool.core.losses import MulticlassODMLoss
from odmtool.judge import mcodm as judge
from odmtool.solvers.base import Stop
from odmtool.solvers.mcodm import auto, dual_system, hessian
from odmtool.solvers.mcodm.hessian import Members, RowsNewton
from odmtool.solvers.mcodm.newton import SmoothedNewton
from odmtool.solvers.mcodm.terms import best_others
from odmtool.solvers.multi import MultiProblem


def examples(generator, k, m=23, d=5):
    """A problem with an empty row and column, and W."""
    X = generator.standard_normal((m, d)) * (generator.random((m, d)) < 0.7)
    X[4], X[:, 1] = 0, 0
    loss = MulticlassODMLoss(generator.uniform(0, 0.5), *generator.uniform(0.3, 4, 2))
    target, weight = generator.integers(0, k, m), generator.uniform(0.3, 3, m)
    return MultiProblem(X, None, target, k, weight, loss), generator.standard_normal((d, k))


def both(generator, k, rho, has_nameless=True):
    """The same state for an array and for sparse rows, smoothed around duals that W does not
    make, and these; some constraints from above name no rival, unless nobody may be without."""
    p, W = examples(generator, k)
    duals = naive.duals(generator, p.target, k, shift=0.3)
    if not has_nameless:
        duals.upper[duals.rival < 0] = np.inf
    states = (
        RowsNewton(p, duals.copy(), W.copy(), 1e-3),
        RowsNewton(p._replace(X=sparse.csr_matrix(p.X)), duals.copy(), W.copy(), 1e-3),
    )
    for state in states:
        state._rho = rho
        state.begin(1e-3)
    return [(state, duals.alpha) for state in states]


def assert_numbers_are_right(state, generator):
    """The Hessian of its duals, its products, and the losses' weights."""
    duals, (d, k) = state.duals, state.W.shape
    alpha, beta = duals.alpha, duals.beta
    assert state.active == np.count_nonzero(np.any(alpha < 0, axis=1) | (beta > 0))
    H = slow.blocks(state)
    expected = slow.whole(state, H)
    for V in generator.standard_normal((2, d, k)):
        product = (expected @ V.T.ravel()).reshape(k, d).T
        np.testing.assert_allclose(state._hessian_times(V), product, rtol=1e-9, atol=1e-9)
    diagonals = [np.diag(H_i) for H_i in H]
    np.testing.assert_allclose(state._hessian_weights(), diagonals, rtol=1e-9, atol=1e-12)
    if not np.any((duals.rival < 0) & np.isfinite(duals.upper)):
        # The losses see no common part of all classes; there it is as large as elsewhere.
        size = expected.diagonal().reshape(k, d).mean(axis=0)
        expected += np.kron(np.full((k, k), 1 / k), np.diag(size))
    found = np.tril(state._hessian())
    np.testing.assert_allclose(found, np.tril(expected), rtol=1e-9, atol=1e-9)


def assert_losses_are_right(state, losses, centre, scores):
    """And the duals there."""
    expected, alpha, beta = slow.sum_of_losses(state, centre, scores)
    assert losses == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(state.duals.alpha, alpha, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(state.duals.beta, beta, rtol=1e-9, atol=1e-12)


def assert_weights_are_right(state):
    p = state.problem
    expected = p.X.T @ state.duals.coefficients(p.target)
    np.testing.assert_allclose(state._dual_W, expected, atol=1e-9)


@pytest.mark.parametrize("has_nameless", [True, False])
@pytest.mark.parametrize("k, rho", [(2, 1.0), (3, 0.05), (6, 0.4), (6, 3.0)])
@pytest.mark.parametrize("rows", [7, 100])
def test_an_array_and_sparse_rows_make_the_right_numbers(k, rho, has_nameless, rows, monkeypatch):
    """In one part, or in some of which the last is smaller; with steps and without."""
    monkeypatch.setattr(hessian, "_PART", rows * k)
    monkeypatch.setattr(hessian, "_EDGES", 2 * rows)
    monkeypatch.setattr(hessian, "_CELLS", 20 if rows == 7 else 10**6)
    generator = np.random.default_rng(k)
    for _ in range(2):
        for state, centre in both(generator, k, rho, has_nameless):
            assert len(state._parts) == (1 if rows == 100 else -(-23 // state._parts[0].stop))
            half = np.vdot(state.W, state.W) / 2
            assert_losses_are_right(state, state._value - half, centre, state.scores())
            assert_numbers_are_right(state, generator)
            change = generator.standard_normal(state.scores().shape)
            for step in (0.0, 1.0, 0.25):
                losses = state._losses(change, step)
                assert_losses_are_right(state, losses, centre, state.scores() - step * change)
                assert_numbers_are_right(state, generator)
            # Others are the rivals of some: betas go to other columns, and so do products.
            some = np.arange(0, 23, 2)
            before = state.duals.rival[some].copy()
            state._rebuild_dual_weights()
            assert_weights_are_right(state)
            state.duals.rival[some] = (state._target[some] + 1) % k
            state.rivals_changed(some, before)
            assert_weights_are_right(state)
            assert_numbers_are_right(state, generator)


@pytest.mark.parametrize("k, rho", [(2, 1.0), (3, 0.05), (6, 0.4), (6, 3.0)])
@pytest.mark.parametrize("rows", [7, 100])
def test_the_system_among_few_duals_is_that_of_the_hessian(k, rho, rows, monkeypatch):
    """Also where constraints from above name no rival, and of parts of the rows."""
    monkeypatch.setattr(hessian, "_PART", rows * k)
    monkeypatch.setattr(hessian, "_FEW", 100)
    generator, rivals = np.random.default_rng(k), []
    for _ in range(4):
        for state, _centre in both(generator, k, rho):
            d = state.W.shape[0]
            G, H = generator.standard_normal((d, k)), slow.whole(state, slow.blocks(state))
            expected = np.linalg.solve(H, G.T.ravel()).reshape(k, d).T
            found = state._preconditioner()(G)
            assert state._divides
            np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
            rivals += state.duals.rival[state.duals.beta > 0].tolist()
    assert min(rivals) < 0 < max(rivals)


def test_without_duals_the_system_is_the_identity(monkeypatch):
    monkeypatch.setattr(hessian, "_FEW", 100)
    state = both(np.random.default_rng(0), 3, 1.0)[0][0]
    none = np.zeros(0, dtype=int)
    state._members = [Members(none, none, np.zeros(23, dtype=int))]
    state.duals.beta[:] = 0.0
    assert np.array_equal(state._preconditioner()(state.W), state.W)


@pytest.mark.parametrize(
    "most, few, has_few", [(23, 1.0, True), (22, 1.0, False), (23, 0.99, False)]
)
def test_when_duals_are_few(most, few, has_few, monkeypatch):
    """No more than so many, of so many examples, and a share of the unknowns."""
    state = both(np.random.default_rng(0), 6, 1.0)[0][0]
    number = sum(m.classes.size for m in state._members) + np.count_nonzero(state.duals.beta)
    monkeypatch.setattr(hessian, "MOST_DUALS", most + number - 23)
    monkeypatch.setattr(hessian, "_FEW", few * number / state.W.size)
    assert number >= 23 and state._has_few_duals() == has_few
    state._preconditioner()
    assert state._divides == has_few


def test_few_duals_wait_until_products_take_as_long(monkeypatch):
    """A product takes 2 m d k multiplications, their factor a sixth of their number's cube."""
    monkeypatch.setattr(hessian, "_FEW", 100)
    monkeypatch.setattr(hessian, "_SOON", 1)
    state = both(np.random.default_rng(0), 6, 1.0)[0][0]
    number = sum(m.classes.size for m in state._members) + np.count_nonzero(state.duals.beta)
    enough = int(np.ceil(number**3 / 6 / (2 * state._X.size * 6)))
    state._products = enough - 1
    state._preconditioner()
    assert not state._divides
    state._products = enough
    state._preconditioner()
    assert state._divides
    state._products = 1  # as of every step that divides
    assert state._has_few_duals()
    monkeypatch.setattr(hessian, "_SOON", number)
    state._divides = False
    assert state._has_few_duals()


@pytest.mark.parametrize("error", [0.0, 0.3, LinAlgError])
def test_a_division_that_rounding_spoils_is_a_preconditioner(error, monkeypatch):
    """Or there is another one, if the system has no factor."""
    monkeypatch.setattr(hessian, "_FEW", 100)
    of_array, products = both(np.random.default_rng(6), 6, 0.1)[0][0], []
    division = dual_system.division
    of_array.is_exact = False

    def spoilt(*arguments):
        if error is LinAlgError:
            raise LinAlgError
        divide, sign = division(*arguments), np.random.default_rng(0).choice([-1, 1], (5, 6))
        return lambda V: divide(V * (1 + error * sign)) * (1 + error * sign)

    times = of_array._hessian_times
    monkeypatch.setattr(dual_system, "division", spoilt)
    monkeypatch.setattr(of_array, "_hessian_times", lambda V: products.append(1) or times(V))
    G = of_array.W - of_array._dual_W
    S = of_array._direction(G)
    assert np.linalg.norm(times(S) - G) <= 0.2 * np.linalg.norm(G)
    assert len(products) == 1 if error == 0.0 else len(products) > 1
    # Where there is no factor none is sought again.
    assert of_array._is_spoilt == (not of_array._has_few_duals()) == (error is LinAlgError)


@pytest.mark.parametrize("products, is_spoilt", [(6, False), (7, True)])
def test_a_division_that_needs_many_products_is_left(products, is_spoilt, monkeypatch):
    monkeypatch.setattr(hessian, "_FEW", 100)
    state = both(np.random.default_rng(6), 6, 0.1)[0][0]
    state.is_exact, G = False, state.W - state._dual_W
    state._direction(G)
    assert state._divides
    state._products = products
    S = state._direction(G)
    assert state._divides == (not is_spoilt)
    assert np.linalg.norm(state._hessian_times(S) - G) <= 0.2 * np.linalg.norm(G)
    state.release()
    assert state._has_few_duals()


def test_without_constraints_from_above_there_are_no_betas():
    generator = np.random.default_rng(0)
    p, W = examples(generator, 3)
    for state in (
        RowsNewton(p, nothing(p), W, 1e-3),
        RowsNewton(p._replace(X=sparse.csr_matrix(p.X)), nothing(p), W, 1e-3),
    ):
        state.duals.beta[:] = 7.0
        state.begin(1e-3)
        assert not state.duals.beta.any()


@pytest.mark.parametrize("steps, rho, then", [
    (0, 1.0, 0.5), (1, 1.0, 0.5), (2, 1.0, 1.0), (3, 1.0, 1.0), (4, 1.0, 2.0), (9, 2.0, 3.0),
    (1, 1.5e-3, 1e-3), (4, 3.0, 3.0),
])  # fmt: skip
def test_the_smoothing_follows_the_steps_that_it_took(steps, rho, then):
    state = both(np.random.default_rng(1), 3, 1.0)[1][0]
    state._steps, state._rho = steps, rho
    state.begin(1e-3)
    assert state._rho == then and state._steps == 0


def fresh(p, is_array, tolerance, seed=5, is_settled=False):
    """A state with constraints from above, at a W that is far from the solution."""
    generator = np.random.default_rng(seed)
    W = 0.3 * generator.standard_normal((p.X.shape[1], p.k))
    duals = nothing(p)
    duals.rival[:], duals.upper[:] = (p.target + 1) % p.k, 1 + p.parameters.theta
    if is_array:
        state = RowsNewton(p._replace(X=p.X.toarray()), duals, W, tolerance)
        state.W[:], state._scores[:] = W, state._product(W)  # not those of least squares
    else:
        state = RowsNewton(p, duals, W, tolerance)
    state.begin(tolerance, is_settled)
    return state


def line_search(twin, p, W, direction, before, slope):
    """The step from W where the smoothed problem has the value ``before``, by its own slopes."""
    halves = twin.halves
    change, ends, step = p.X @ direction, [(0.0, slope), None], 1.0
    for trial in range(1, 99):
        value = twin._smoothed(W - step * direction, change, step)
        left = W - step * direction - p.X.T @ twin.duals.coefficients(p.target)
        rise, is_lower = -np.vdot(left, direction), value <= before + 1e-4 * step * slope
        if is_lower and (halves or step == 1 or abs(rise) <= -slope / 2 or trial >= 5):
            return step
        if halves:
            step /= 2
            continue
        side = 0 if is_lower and rise < 0 else 1
        stays = ends[1 - side]
        if stays is not None and (side == 0 or ends[1] is not None):
            ends[1 - side] = (stays[0], stays[1] / 2)
        ends[side] = (step, rise)
        (low, down), (high, up) = ends
        place = down / (down - up) if up > 0 else 0.5
        step = low + (high - low) * min(max(place, 0.03), 0.5)


@pytest.mark.parametrize("tolerance", [1e-3, 0.2])
@pytest.mark.parametrize("times", [1.0, 2.5, 40.0])
@pytest.mark.parametrize("is_array, is_settled", [(True, False), (False, False), (False, True)])
@pytest.mark.parametrize("halves", [True, False])
def test_a_step_is_what_its_header_says(
    halves, is_array, is_settled, times, tolerance, monkeypatch
):
    """A line search, the gap that the judge finds, and whether the smoothed problem is solved."""
    p, found = problem(lambda_=2.0**9), []
    state = fresh(p, is_array, tolerance, is_settled=is_settled)
    state.halves = halves
    usual = SmoothedNewton._direction
    monkeypatch.setattr(
        SmoothedNewton, "_direction",
        lambda self, g: found.append(times * usual(self, g)) or found[-1],
    )  # fmt: skip
    assert state.is_exact == is_array
    must_prove, ends, trials = is_array or is_settled, set(), set()
    for _ in range(12):
        twin, W, before = copy.deepcopy(state), state.W.copy(), state._value
        gradient = W - p.X.T @ state.duals.coefficients(p.target)
        gap, is_solved = state.iterate()
        direction = found[-1]
        slope = -np.vdot(gradient, direction)
        step = line_search(twin, p, W, direction, before, slope)
        np.testing.assert_allclose(state.W, W - step * direction, rtol=1e-9, atol=1e-12)
        trials.add(step == 1)
        np.testing.assert_allclose(state.scores(), p.X @ state.W, rtol=1e-9, atol=1e-9)
        judged = judge.certify_linear(
            p.X, p.target, p.weight, p.parameters, state.W, state.duals
        )
        assert gap == pytest.approx(judged.gap, rel=1e-8)
        left = state.W - p.X.T @ state.duals.coefficients(p.target)
        unsolved, primal = np.vdot(left, left) / 2, judged.primal
        smoothing = gap * primal - unsolved
        must_prove |= unsolved > primal
        expected = unsolved <= 0.3 * smoothing
        if not must_prove or smoothing > tolerance * primal:
            expected |= -slope / 2 <= 0.3 * smoothing
        assert is_solved == expected
        ends.add(expected)
        if is_solved:
            state.begin(tolerance, is_settled)
            must_prove = is_array or is_settled
    assert True in ends and (False in trials or times < 2)


@pytest.mark.parametrize("is_array", [True, False])
@pytest.mark.parametrize("times, is_taken", [(1e4, True), (-1.0, False), (1e12, False)])
def test_a_direction_that_leads_nowhere_leaves_the_point(is_array, times, is_taken, monkeypatch):
    """One that is far too long is shortened, to no less than a millionth."""
    p, usual = problem(), SmoothedNewton._direction
    state = fresh(p, is_array, 1e-3)
    monkeypatch.setattr(SmoothedNewton, "_direction", lambda self, g: times * usual(self, g))
    W, alpha, value = state.W.copy(), state.duals.alpha.copy(), state._value
    gap, is_solved = state.iterate()
    if is_taken:
        assert state._value < value and not np.array_equal(state.W, W)
        return
    assert is_solved and np.array_equal(state.W, W)
    assert np.array_equal(state.duals.alpha, alpha)
    np.testing.assert_allclose(state.scores(), p.X @ W, atol=1e-12)
    judged = judge.certify_linear(p.X, p.target, p.weight, p.parameters, W, state.duals)
    assert gap == pytest.approx(judged.gap, rel=1e-8)


@pytest.mark.parametrize("is_array", [True, False])
@pytest.mark.parametrize("follows", [True, False])
def test_rivals_follow_where_they_may(is_array, follows):
    """To the best classes of the new point; those of constraints that name none stay."""
    p = problem(lambda_=2.0**9)
    state = fresh(p, is_array, 1e-3)
    nameless = np.arange(0, 60, 7)
    state.duals.rival[nameless], state.duals.upper[nameless] = -1, 1 + p.parameters.theta
    state.begin(1e-3, follows=follows)
    for _ in range(4):
        rival, before = state.duals.rival.copy(), state._value
        gap, _ = state.iterate()
        best = best_others(state.scores(), p.target)[1]
        is_named = rival >= 0
        expected = np.where(is_named & follows, best, rival)
        assert np.array_equal(state.duals.rival, expected) and state._value < before
        # Duals and the gap are those of these rivals.
        twin = copy.deepcopy(state)
        assert state._value == pytest.approx(twin._smoothed(twin.W, twin._scores, 0.0), rel=1e-12)
        np.testing.assert_allclose(state.duals.beta, twin.duals.beta, rtol=1e-9, atol=1e-9)
        judged = judge.certify_linear(
            p.X, p.target, p.weight, p.parameters, state.W, state.duals
        )
        assert gap == pytest.approx(judged.gap, rel=1e-8)


def test_least_squares_of_scores():
    """Of those by 1/k below 0 and one above, with the losses' weights, and 1/2 |W|^2."""
    p, _ = examples(np.random.default_rng(2), 4)
    wanted = np.full((23, 4), -0.25)
    wanted[np.arange(23), p.target] = 0.75
    c = 2 * p.parameters.c1 * p.weight
    W = hessian.least_squares(p, np.zeros((5, 4)))
    gradient = W + p.X.T @ (c[:, None] * (p.X @ W - wanted))
    assert np.abs(gradient).max() < 1e-10 and np.abs(W).max() > 0.1


def test_without_least_squares_newton_begins_where_it_is(monkeypatch):
    p, given = examples(np.random.default_rng(2), 4)

    def refuse(_matrix):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(hessian, "cholesky_in_place", refuse)
    assert hessian.least_squares(p, given) is given


@pytest.mark.parametrize("exact, is_large, has_duals", [
    (True, False, False), (False, True, False), (False, False, False), (True, False, True),
])  # fmt: skip
def test_where_newton_begins(exact, is_large, has_duals, monkeypatch):
    """At least squares where steps are exact or unknowns many, unless there are duals."""
    p, W = examples(np.random.default_rng(3), 3)
    p = p._replace(X=p.X[:, [0, 2]])
    duals = nothing(p)
    duals.alpha[0, :2] = (1.0, -1.0) if has_duals else 0.0
    monkeypatch.setattr(hessian, "_EXACT", 36 / 23 + (1e-9 if exact else -1e-9))
    monkeypatch.setattr(hessian, "_MANY", 5 if is_large else 6)
    state = RowsNewton(p, duals, W[:2], 1e-3)
    assert state.is_exact == exact
    least = hessian.least_squares(p, W[:2])
    assert state.names_rivals == is_large
    assert np.array_equal(state.W, W[:2] if has_duals or not (exact or is_large) else least)
    assert state._rho == (0.1 if exact else 1.0)


def test_no_preconditioner_is_made_after_the_deadline(monkeypatch):
    for state, _centre in both(np.random.default_rng(5), 3, 0.4):
        V = np.random.default_rng(1).standard_normal(state.W.shape)
        assert not np.allclose(state._preconditioner()(V), V)
        monkeypatch.setattr(deadline, "is_over", lambda: True)
        assert np.array_equal(state._preconditioner()(V), V)
        monkeypatch.undo()


def test_the_dual_of_a_start_is_known_at_once():
    p, W = examples(np.random.default_rng(3), 4)
    duals = naive.duals(np.random.default_rng(4), p.target, 4, shift=0.3)
    rows = p._replace(X=sparse.csr_matrix(p.X))
    for state in (RowsNewton(p, duals, W, 1e-3), RowsNewton(rows, duals, W, 1e-3)):
        np.testing.assert_allclose(state._dual_W, p.X.T @ duals.coefficients(p.target), atol=1e-12)


def test_steps_are_short_where_some_weights_are_large():
    """A step of 1e-7 leads down there; as none, the same was tried again until --max-iter."""
    random = np.random.default_rng(3)
    X, target = 100 * random.standard_normal((100, 40)), random.integers(0, 4, 100)
    weight = np.where(target == 0, 1e6, 1.0)
    loss = losses.mcodm(4096.0, 0.2, 0.2, weight.sum())
    heavy = MultiProblem(sparse.csr_matrix(X), None, target, 4, weight, loss)
    found = auto.solve(heavy, Stop(1e-3, 2000))
    assert found.converged and found.objective < 900


def test_after_the_deadline_w_costs_no_more_than_none(monkeypatch):
    """A shorter W answers the same."""
    solver = both(np.random.default_rng(1), 3, 0.4)[0][0]
    random = np.random.default_rng(2)
    long = solver._lowest_W = solver._first_W = 100 * random.standard_normal(solver.W.shape)
    solver._lowest = solver._true_value(long)
    zero = solver._true_value(0 * long)
    assert solver._lowest > zero
    monkeypatch.setattr(deadline, "is_over", lambda: True)
    solver.settle()
    ratio = solver.W / long
    assert np.allclose(ratio, ratio[0, 0]) and 0 < ratio[0, 0] < 1
    assert np.allclose(solver._scores, solver.problem.X @ solver.W)
