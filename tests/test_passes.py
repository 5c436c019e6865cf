"""Newton's method by passes: all that a pass adds up, of rows and of Nystrom's features."""

import numpy as np
import pytest
from problems import StoreInMemory, examples, weights

from odmtool.core import kernels, losses
from odmtool.core.kernels import Kernel
from odmtool.rows.examples import Examples
from odmtool.rows.executor import Serial, Threads
from odmtool.solvers.base import Stop
from odmtool.solvers.large import blocks, passes
from odmtool.solvers.large.blocks import NystromBasis, expansion

LOSS = losses.odm(16.0, 0.5, 0.3, 60)


def setting(with_basis):
    """Examples of which some have no weight, the rows or features that they have, y, u, a basis."""
    X, y = examples()
    u = weights()
    u[::7] = 0.0
    known = Examples(StoreInMemory(X, y), {1: 1.0, -1: -1.0}, {1: 1.0, -1: 1.0}, u, 2.0)
    rows, basis = np.column_stack([X.toarray(), np.full(60, 2.0)]), None
    if with_basis:
        kernel, Z = Kernel("rbf", 0.4), rows[:6] + 0.1 * np.arange(6)[:, None]
        centre = rows.mean(axis=0)
        factor = np.linalg.cholesky(kernels.gram(kernel, Z))
        basis = NystromBasis(kernel, Z - centre, factor, None)
        rows = np.linalg.solve(factor, kernels.block(kernel, Z - centre, rows))
        rows = rows.T
    return known, rows, y, u, basis


@pytest.mark.parametrize("with_basis", [False, True])
@pytest.mark.parametrize("executor", [Serial(), Threads(2)])
def test_a_pass_gives_all_that_newton_asks_for(with_basis, executor, monkeypatch):
    known, X, y, u, basis = setting(with_basis)
    problem = passes._Passes(known, LOSS, basis, executor)
    width, generator = X.shape[1], np.random.default_rng(1)
    assert problem.width == width
    w, told = generator.standard_normal(width), []
    t = y * (X @ w)
    values, eta = u * losses.value(LOSS, t), -u * losses.derivative(LOSS, t)
    gradient = w - X.T @ (y * eta)
    monkeypatch.setattr(problem._bound, "gap", lambda *given: told.append(given) or 0.125)
    found = problem.at(w)
    assert found.v is w and found.gap == 0.125 and found.support == np.count_nonzero(eta) < 60
    np.testing.assert_allclose(found.gradient, gradient, rtol=1e-9, atol=1e-10)
    assert found.primal == pytest.approx(w @ w / 2 + values.sum(), rel=1e-12)
    assert found.scale == pytest.approx(w @ w / 2 + np.abs(values).sum(), rel=1e-12)
    ((given, a, size, bent),) = told
    assert given is found.gradient
    factor = None if basis is None else basis.factor
    np.testing.assert_allclose(a, expansion(factor, w), rtol=1e-12)
    raw = X if basis is None else X @ basis.factor.T
    lengths = np.linalg.norm(raw, axis=1)
    assert size == pytest.approx(lengths @ np.abs(eta), rel=1e-9)
    steepest = losses.largest_slope(LOSS)
    assert bent == pytest.approx(steepest * (u @ lengths**2), rel=1e-9)
    H = (X.T * (u * losses.slope(LOSS, t))) @ X
    np.testing.assert_allclose(problem.hessian(w), H, rtol=1e-9, atol=1e-9)
    # A sample stands for all, each with a share of the weight of those without.
    chosen = np.arange(1, 60, 2)
    some = problem.sample(chosen, y[chosen], u[chosen])
    used = chosen[u[chosen] > 0]
    weight = u[used] * u.sum() / u[used].sum()
    H = (X[used].T * (weight * losses.slope(LOSS, t[used]))) @ X[used]
    np.testing.assert_allclose(some.hessian(w), H, rtol=1e-9, atol=1e-9)
    best = some.solution(Stop(1e-12, 100))
    slopes = weight * losses.derivative(LOSS, y[used] * (X[used] @ best))
    assert np.abs(best + X[used].T @ (y[used] * slopes)).max() < 1e-4


def test_losses_below_zero_count_by_their_size():
    """In the scale; in P they are what they are."""
    known, X, y, u, _ = setting(False)
    loss = losses.mamc(4.0, 60)
    problem, w = passes._Passes(known, loss, None, Serial()), np.linspace(-1, 1, 8)
    values = u * losses.value(loss, y * (X @ w))
    found = problem.at(w)
    assert values.min() < 0 < values.max()
    assert found.primal == pytest.approx(w @ w / 2 + values.sum(), rel=1e-12)
    assert found.scale == pytest.approx(w @ w / 2 + np.abs(values).sum(), rel=1e-12)
    blocks_of = [range(0, 1), range(1, known.count)]
    parts = [passes._sums(part, known, loss, None, w) for part in blocks_of]
    assert sum(part.loss for part in parts) == pytest.approx(values.sum(), rel=1e-12)
    assert sum(part.size for part in parts) == pytest.approx(np.abs(values).sum(), rel=1e-12)


def test_rows_in_pieces_of_any_size():
    X, _ = examples()
    source = blocks.RowSource(X)
    for step in (1, 7, 60, 99):
        found = list(source.pieces(step))
        assert [part.stop - part.start for part, _ in found[:-1]] == [step] * (len(found) - 1)
        assert np.array_equal(np.vstack([rows.toarray() for _, rows in found]), X.toarray())
    assert [part for part, _ in source.pieces()] == [slice(0, 60)]
    empty = blocks.RowSource(np.zeros((5, 0)))
    assert [rows.shape for _, rows in empty.pieces()] == [(5, 0)]
    kernel, Z = Kernel("poly", 0.3, 1.0, 2), X[:4].toarray()
    expected = (0.3 * X.toarray() @ Z.T + 1) ** 2
    for dtype in (np.float32, np.float64):
        own = blocks.KernelSource(X.toarray().astype(dtype), kernel, Z.astype(dtype))
        for step in (None, 7):
            values = np.vstack([rows.copy() for _, rows in own.pieces(step)])
            assert values.dtype == float
            close = 1e-5 if dtype == np.float32 else 1e-12
            np.testing.assert_allclose(values, expected, rtol=close)
        most = np.sqrt((expected**2).sum(axis=1))
        lengths = own.lengths()
        diagonal = [(0.3 * row @ row + 1) ** 2 for row in X.toarray()]
        largest = max((0.3 * z @ z + 1) ** 2 for z in Z)
        np.testing.assert_allclose(lengths, np.sqrt(np.array(diagonal) * largest * 4), rtol=1e-6)
        assert np.all(lengths >= most * (1 - 1e-6))
    small = blocks.KernelSource(X, Kernel("poly", 1e-3, 0.1, 2), Z)
    own, others = ([(1e-3 * row @ row + 0.1) ** 2 for row in rows] for rows in (X.toarray(), Z))
    np.testing.assert_allclose(small.lengths(), np.sqrt(np.array(own) * max(others) * 4))
    np.testing.assert_allclose(
        source.lengths(), np.linalg.norm(X.toarray(), axis=1), rtol=1e-12
    )


def test_a_basis_takes_its_centre_from_every_row():
    X, centre = examples()[0].toarray(), np.linspace(-1, 1, 7)
    Z = (X[:5] - centre).astype(np.float32)
    basis = NystromBasis(Kernel("rbf", 0.4), Z, np.eye(5), centre)
    (_, values), = basis.source(X).pieces()
    apart = ((X[:, None] - X[None, :5]) ** 2).sum(axis=2)
    np.testing.assert_allclose(values, np.exp(-0.4 * apart), atol=1e-5)


def test_factors_on_one_side_and_on_both():
    generator = np.random.default_rng(3)
    L, v = np.tril(generator.uniform(0.5, 1, (4, 4))), generator.standard_normal(4)
    A = generator.standard_normal((4, 4))
    A = A + A.T
    inverse = np.linalg.inv(L)
    np.testing.assert_allclose(blocks.expansion(L, v), inverse.T @ v)
    np.testing.assert_allclose(blocks.coordinates(L, v), inverse @ v)
    np.testing.assert_allclose(blocks.both_sides(L, A), inverse @ A @ inverse.T)
    assert blocks.both_sides(None, A) is A and blocks.expansion(None, v) is v
    H, g = A @ A, generator.standard_normal(4)
    found = blocks.newton_direction(H.copy(), g)
    np.testing.assert_allclose(found, -np.linalg.solve(np.eye(4) + H, g))


@pytest.mark.parametrize("sampled", [False, True])
def test_a_space_of_blocks_is_that_of_their_rows(sampled, monkeypatch):
    X, y = examples()
    X, u, generator = X.toarray(), weights(), np.random.default_rng(2)
    B = blocks.Blocks([blocks.RowSource(X[:25]), blocks.RowSource(X[25:])], [25, 35], 7)
    sample = blocks.SampledGram(B, y, u, 2 * u.sum(), LOSS) if sampled else None
    w, eta = generator.standard_normal(7), generator.standard_normal(60)
    space = blocks.BlockSpace(B, y, w, sample)
    assert space.zero() is w
    t = space.margins(w)
    np.testing.assert_allclose(t, y * (X @ w))
    np.testing.assert_allclose(space.point(eta), X.T @ (y * eta))
    told, lengths = [], np.linalg.norm(X, axis=1)
    monkeypatch.setattr(B.rounding, "gap", lambda *given: told.append(given) or 0.5)
    loss = losses.scaled(LOSS, u)
    gap, dual, margins = space.gap(loss, w, t, eta, 1.0, 1.0)
    assert gap == 0.5 and dual is eta and margins is t
    ((gradient, a, size, bent),) = told
    np.testing.assert_allclose(gradient, w - X.T @ (y * eta))
    assert np.array_equal(a, w) and size == pytest.approx(lengths @ np.abs(eta), rel=1e-9)
    steepest = losses.largest_slope(LOSS) * u
    assert bent == pytest.approx(steepest @ lengths**2, rel=1e-9)
    slopes = generator.random(60)
    counted = 2 * u * losses.slope(LOSS, t) if sampled else slopes
    H = np.eye(7) + (X.T * counted) @ X
    found = space.newton_point(slopes, eta, t, w, gap)
    np.testing.assert_allclose(found, w - np.linalg.solve(H, gradient))
