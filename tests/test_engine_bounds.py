"""The kernel engine's bounds of the gap are never violated, and are those of the papers."""

import numpy as np
import pytest
from engine_problems import KERNELS, LOSSES, in_span, judged, own_matrix, problem_of
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import examples
from scipy import stats

from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.judge.binary import kernel_matrix
from odmtool.rows.executor import Serial
from odmtool.solvers.base import Stop
from odmtool.solvers.engine import certificate, thinned
from odmtool.solvers.engine.columns import Columns
from odmtool.solvers.engine.features import Basis
from odmtool.solvers.engine.points import Points
from odmtool.solvers.newton import newton
from odmtool.solvers.rounding import sum_error


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_bounds_hold_and_the_exact_gap_is_the_judges(kernel, loss, compiled):
    problem = problem_of(KERNELS[kernel], loss, 2.0**8, weighted=True)
    K = own_matrix(problem)
    for r in (5, 20, 60):
        _chosen, basis, found, point, coef = in_span(problem, r, compiled=compiled)
        truth = judged(problem, coef, point.eta, K)
        gap = truth.gap * point.scale
        assert point.primal == pytest.approx(truth.primal, rel=1e-10)
        allowed = 1e-7 * point.primal
        assert certificate.exact([point], basis)[0] == pytest.approx(gap, rel=1e-6, abs=allowed)
        for bound in (
            certificate.exact([point], basis)[0],
            certificate.free(point, found.left),
            certificate.drawn([point], basis, found.left, 50, 0)[0],
        ):
            assert bound >= gap * (1 - 1e-12)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_problem_violates_a_bound(data):
    """Whatever the problem: no bound is below the distance from the exact optimum."""
    kernel = KERNELS[data.draw(st.sampled_from(sorted(KERNELS)))]
    loss = data.draw(st.sampled_from(sorted(LOSSES)))
    scale = 10.0 ** data.draw(st.integers(-3, 1))
    lambda_ = 2.0 ** data.draw(st.integers(-4, 18))
    seed, r = data.draw(st.integers(0, 2**20)), data.draw(st.integers(1, 40))
    problem = problem_of(kernel, loss, lambda_, 60, seed, weighted=data.draw(st.booleans()))
    X = problem.gram.X * scale
    problem = problem._replace(gram=Gram(kernel, X))
    _chosen, basis, found, point, _coef = in_span(problem, r, seed)
    best = newton.solve(problem, Stop(1e-12, 100))
    excess = point.primal - best.primal
    allowed = 1e-9 * point.primal
    assert certificate.exact([point], basis)[0] >= excess - allowed
    assert certificate.free(point, found.left) >= excess - allowed
    assert certificate.drawn([point], basis, found.left, 30, seed)[0] >= excess - allowed


def test_the_drawn_bound_fails_as_rarely_as_it_says():
    """With delta = 0.2, so that failures would be seen, over draws and problems."""
    failures = draws = 0
    for seed in range(5):
        problem = problem_of(KERNELS["rbf"], "odm", 2.0**10, 150, seed)
        _chosen, basis, found, point, _coef = in_span(problem, 15, seed)
        gap = certificate.exact([point], basis)[0]
        for k in range(60):
            draws += 1
            failures += certificate.drawn([point], basis, found.left, 60, (seed, k), 0.2)[0] < gap
    assert failures <= 0.2 * draws


@pytest.mark.parametrize("delta", [0.2, 1e-7])
@pytest.mark.parametrize(("happened", "count"), [(0, 450), (1, 27), (12, 450), (27, 27)])
def test_a_share_says_how_likely_it_may_have_been(happened, count, delta):
    most = certificate.most_likely(happened / count, count, delta)
    seldom = stats.binom.cdf(happened, count, most)
    assert seldom <= delta * (1 + 1e-6) or most == 1
    if happened == 0:
        assert seldom == pytest.approx(delta)


def test_the_bound_by_drawn_rows_is_that_of_the_papers():
    """a'Ea is at most the B with B = T q sqrt(B) + Maurer's and Pontil's bound of the mean."""
    total, limit, mean, variance, beyond, n, delta = 30.0, 2.0, 5.0, 4.0, 0.01, 900, 1e-3
    rows, log = n - certificate._pilots(n), np.log(4 / delta)
    certain = mean + np.sqrt(2 * variance * log / rows) + 7 * 2 * limit * log / (3 * (rows - 1))
    q = certificate.most_likely(beyond, rows, delta / 2)
    bound = certificate.Draw(total, limit, mean, variance, beyond).bound(n, delta)
    assert bound == pytest.approx(total * q * np.sqrt(bound) + certain, rel=1e-9)


def test_drawn_rows_depend_on_the_seed_only(monkeypatch):
    problem = problem_of(KERNELS["rbf"], "odm", 2.0**10)
    _chosen, basis, found, point, _coef = in_span(problem, 15)
    bounds = [certificate.drawn([point], basis, found.left, 60, seed)[0] for seed in (3, 3, 4)]
    assert bounds[0] == bounds[1] != bounds[2]
    monkeypatch.setattr(certificate, "_ROWS", 3)
    assert bounds[0] == pytest.approx(certificate.drawn([point], basis, found.left, 60, 3)[0])


def test_drawn_rows_do_not_depend_on_kept_ones(monkeypatch):
    """Their bound holds for a point that was made without them."""
    seeds, generator = [], np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", lambda s: seeds.append(s) or generator(s))
    assert len(thinned.kept_rows(thinned.MOST + 1, seed=7)) == thinned.MOST
    assert len(seeds) == 1 and seeds[0] not in [7, *((7, draw) for draw in range(1, 9))]


def test_the_error_of_what_is_left_is_that_of_the_head_of_its_file():
    """Over some examples: the largest sum of |coefficients| amplifies errors of kernel values."""
    X = examples(40, 5)[0].toarray()
    points = Points(Kernel("rbf", 0.3), X, Serial())
    members = np.argsort(-np.abs(X).sum(axis=1))[:4]  # no two are the same
    K = kernel_matrix(Kernel("rbf", 0.3), X, X[members])
    L = np.linalg.cholesky(K[members])
    basis = Basis(points, members, L)
    inverse = np.linalg.inv(L)
    beta = max(sum(abs(x) for x in inverse.T @ (inverse @ row)) for row in K)
    product = max(np.linalg.norm(np.abs(inverse) @ np.abs(row)) for row in K)
    roundings = (4 + 8) * 2.0**-53
    expected = (points.value_error + roundings) * (1 + 2 * beta) ** 2 + 4 * roundings * product
    assert basis.error == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(basis.inverse, inverse.T, atol=1e-12)
    np.testing.assert_allclose(basis.in_span(K), K @ inverse.T, atol=1e-12)
    crossed = np.arange(4.0)
    expected = np.linalg.solve(K[members], crossed)
    np.testing.assert_allclose(basis.projection(crossed), expected, rtol=1e-9)


def test_the_gap_in_the_span_has_what_rounding_may_hide(monkeypatch):
    """Larger than |L^-T q|^2 / 2 by what errors of the kernel values do to q."""
    problem = problem_of(KERNELS["rbf"], "odm", 8.0, m=40)
    points = Points(problem.gram.kernel, problem.gram.X, Serial())
    members = np.array([1, 8, 20, 30])
    K = kernel_matrix(problem.gram.kernel, problem.gram.X, problem.gram.X)
    L = np.linalg.cholesky(K[np.ix_(members, members)])
    basis = Basis(points, members, L)
    columns = Columns.of(problem.y[None], problem.weight, problem.loss)
    W = np.array([[0.3], [-0.2], [0.5], [0.1]])
    (point,) = certificate.evaluate(basis, columns, W)
    alpha = np.linalg.inv(L).T @ W[:, 0]
    a = point.a
    q = K[np.ix_(members, members)] @ alpha - K[members] @ a
    seeming = np.linalg.norm(np.linalg.inv(L) @ q)
    # So large that it shows beside the gap itself.
    error = 0.01
    monkeypatch.setattr(Points, "product_error", error)
    (further,) = certificate.evaluate(basis, columns, W)
    products = error * (np.abs(alpha).sum() + np.abs(a).sum())
    hidden = np.linalg.norm(np.linalg.inv(L)) * np.sqrt(4) * products
    assert point.inside == pytest.approx(seeming**2 / 2, rel=1e-6)
    assert further.inside == pytest.approx((seeming + hidden) ** 2 / 2, rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_what_is_known_of_a_point_in_the_span(loss):
    """Each of its numbers, written out; and the bound by what is left of the examples."""
    problem = problem_of(Kernel("poly", 0.3, 1.0, 3), loss, 2.0**8, weighted=True)
    _, basis, found, point, coef = in_span(problem, 20)
    K, y, members = own_matrix(problem), problem.y, basis.members
    C, own = K[:, members], K[np.ix_(members, members)]
    scaled = losses.scaled(problem.loss, problem.weight)
    np.testing.assert_allclose(point.f, C @ point.alpha, rtol=1e-9, atol=1e-9)
    values = losses.value(scaled, y * point.f)
    eta = -losses.derivative(scaled, y * point.f)
    np.testing.assert_allclose(point.eta, eta, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(point.a, y * eta, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(point.crossed, C.T @ point.a, rtol=1e-9, atol=1e-7)
    assert point.norm == pytest.approx(point.alpha @ own @ point.alpha, rel=1e-9)
    assert point.primal == pytest.approx(point.norm / 2 + values.sum(), rel=1e-12)
    assert point.scale == pytest.approx(point.norm / 2 + np.abs(values).sum(), rel=1e-12)
    most = basis.points.diagonal.max()
    unit = basis.points.value_error + sum_error(150) * most
    error = unit * np.abs(point.alpha).sum()
    bent = losses.slopes_largest(scaled).sum()
    assert point.rounding == pytest.approx(error**2 / 2 * bent, rel=1e-9)
    inside = np.linalg.norm(basis.inverse.T @ (own @ point.alpha - point.crossed))
    sums = unit * (np.abs(point.alpha).sum() + np.abs(point.a).sum())
    hidden = np.linalg.norm(basis.inverse) * np.sqrt(20) * sums
    assert inside**2 / 2 <= point.inside <= (inside + 1.01 * hidden + 1e-6) ** 2 / 2
    left = found.left
    outside = (np.sqrt(left) @ np.abs(point.a)) ** 2
    expected = point.inside + point.rounding + outside / 2
    assert certificate.free(point, left) == pytest.approx(expected, rel=1e-12)
    # Were rounding larger, the bound would be by as much.
    larger = point._replace(rounding=point.primal, inside=3 * point.primal)
    expected = expected - point.rounding - point.inside + 4 * point.primal
    assert certificate.free(larger, left) == pytest.approx(expected, rel=1e-12)


def test_the_error_of_a_basis():
    """What rounding does to what is left of an example, from few looked at: here from all."""
    problem = problem_of(Kernel("poly", 0.3, 1.0, 3), "odm", 2.0**8)
    _, basis, *_ = in_span(problem, 12)
    K, most = own_matrix(problem)[:, basis.members], basis.points.diagonal.max()
    Z, unit = K @ basis.inverse, (12 + 8) * 2.0**-53
    beta = np.abs(Z @ basis.inverse.T).sum(axis=1).max()
    products = np.linalg.norm(np.abs(K) @ np.abs(basis.inverse), axis=1).max()
    expected = (basis.points.value_error + unit * most) * (1 + 2 * beta) ** 2
    expected += 4 * unit * np.sqrt(most) * products
    assert basis.error == pytest.approx(expected, rel=1e-6)


def test_all_draws_together_fail_as_rarely_as_one():
    """Each by other rows; however many there are, their probabilities sum up to DELTA at most."""
    draws = certificate.Seeds(7)
    seeds, chances = zip(*(draws.next() for _ in range(30)), strict=True)
    assert seeds == tuple((7, k) for k in range(1, 31))
    np.testing.assert_allclose(chances, certificate.DELTA * 0.5 ** np.arange(1, 31), rtol=1e-15)
