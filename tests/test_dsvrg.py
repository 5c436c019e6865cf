"""Distributed SVRG: the judge confirms its gap, the parts' turns, executors agree."""

import numpy as np
import pytest
from problems import problem, weights
from stepping import assert_agree, assert_confirmed, dense, wide

from odmtool.core import losses
from odmtool.errors import DivergedError
from odmtool.rows.executor import Serial, Threads
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.large import dsvrg
from odmtool.solvers.newton import newton
from odmtool.solvers.settings import Settings
from odmtool.solvers.stochastic import common, svrg

M = 60
SMOOTH = {
    "odm": losses.odm(2.0**4, 0.5, 0.3, M),
    "l2svm": losses.l2svm(2.0**4, M),
    "lssvm": losses.lssvm(2.0**4, M),
    "mamc": losses.mamc(2.0**2, M),
}
FIVE = Settings(partitions=5, strata=4)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("is_dense", [False, True])
@pytest.mark.parametrize("loss", SMOOTH)
def test_the_judge_confirms_the_gap(loss, is_dense, weighted):
    p = problem(loss=SMOOTH[loss], dense=is_dense, weight=weights() if weighted else None)
    for tolerance in (1e-2, 1e-10):
        solution = dsvrg.solve(p, Stop(tolerance, 2000), FIVE)
        assert_confirmed(p, solution, tolerance)
        assert solution.solver == "dsvrg"
    assert_agree(dsvrg.solve(p, Stop(1e-6, 500), FIVE), newton.solve(p, Stop(1e-10, 200)))


@pytest.mark.parametrize("scheme", [
    Settings(partitions=1), Settings(partitions=M),
    Settings(partitions=7, partition_by="random"), Settings(partitions=3, partition_by="cluster"),
])  # fmt: skip
def test_every_way_to_part_leads_there(scheme):
    p = problem(weight=weights())
    assert_confirmed(p, dsvrg.solve(p, Stop(1e-8, 3000), scheme, seed=2), 1e-8)


@pytest.mark.parametrize("is_dense", [False, True])
def test_the_same_seed_gives_the_same_model_everywhere(is_dense):
    p = problem(weight=weights(), dense=is_dense)
    first, same, threads, other = (
        dsvrg.solve(p, Stop(1e-6, 500), FIVE, executor=executor, seed=seed)
        for executor, seed in ((Serial(), 3), (Serial(), 3), (Threads(2), 3), (Serial(), 4))
    )
    assert np.array_equal(first.w, same.w) and np.array_equal(first.eta, same.eta)
    assert np.array_equal(first.w, threads.w) and np.array_equal(first.eta, threads.eta)
    assert not np.array_equal(first.w, other.w)


def spread(p, parts, by="stratified"):
    order, levels = dsvrg.arrange(p, Settings(partitions=parts, strata=4, partition_by=by), 0)
    return dsvrg.Spread(p, order, levels[0], Serial(), 7)


def test_a_snapshot_is_that_of_the_whole():
    p = problem(weight=weights())
    w = np.random.default_rng(5).standard_normal(p.X.shape[1])
    rows, whole = spread(p, 5), svrg.StageRows(p, 0, "last")
    there, here = rows.at(w), whole.at(w)
    assert there.primal == pytest.approx(here.primal, rel=1e-12)
    assert there.scale == pytest.approx(here.scale, rel=1e-12)
    np.testing.assert_allclose(rows.gradient(there), whole.gradient(here), rtol=1e-11)
    np.testing.assert_allclose(rows.duals(there), whole.duals(here), rtol=1e-11)
    assert rows.active(there) == whole.active(here)
    assert rows.curvature == pytest.approx(whole.curvature)
    assert rows.lengths(there) == pytest.approx(whole.lengths(here), rel=1e-11)
    eta, lengths = whole.duals(here), np.linalg.norm(dense(p.X), axis=1)
    assert whole.lengths(here) == pytest.approx(lengths @ np.abs(eta), rel=1e-11)
    assert rows.terms == whole.terms == max(p.X.shape) == M
    started = rows.first_w(eta)
    np.testing.assert_allclose(started, p.X.T @ (p.y * eta), rtol=1e-11)
    assert not rows.first_w(None).any()


def test_the_parts_take_their_steps_in_turn():
    """Algorithm 2, written down once more: one example after the other, part after part."""
    p = problem(weight=weights())
    rows, step = spread(p, 5), 0.02
    point = rows.at(np.random.default_rng(5).standard_normal(p.X.shape[1]) / 2)
    moved = rows.steps(point, point.gradient, step)
    X, e, shares = dense(p.X), np.zeros_like(moved), p.weight * (dense(p.X) ** 2).sum(axis=1)
    taken = 0
    for k, part in enumerate(rows._members):
        generator = np.random.default_rng((7, 0, k))
        for i in part[common.draw(generator, common.cumulative(shares[part]),
                                      rows._counts[k])]:  # fmt: skip
            now, before = (p.y[i] * (X[i] @ v) for v in (point.w + e, point.w))
            slopes = losses.derivative(p.loss, np.array([now, before]))
            change = shares.sum() / shares[i] * p.weight[i] * (slopes[0] - slopes[1])
            e = (e - step * (point.gradient + change * p.y[i] * X[i])) / (1 + step)
            taken += 1
    assert taken == M and np.abs(e).max() > 0.01
    np.testing.assert_allclose(moved, e, rtol=1e-10, atol=1e-12)


def test_equal_examples_are_drawn_without_replacement(monkeypatch):
    signs = np.where(np.random.default_rng(0).random((M, 6)) < 0.5, 1.0, -1.0)
    p = problem(dense=True)._replace(X=signs)
    orders, real = [], common.draw
    monkeypatch.setattr(
        common, "draw", lambda *arguments: orders.append(real(*arguments)) or orders[-1]
    )
    rows = spread(p, 7)
    point = rows.at(np.zeros(6))
    rows.steps(point, point.gradient, 0.01)
    assert len(orders) == 7
    for order, part in zip(orders, rows._members, strict=True):
        assert sorted(order) == list(range(len(part)))


def test_the_objective_never_rises():
    primals = []
    p = problem(loss=losses.odm(2.0**16, 0.5, 0.3, M))
    dsvrg.solve(p, Stop(1e-9, 60), FIVE, progress=lambda state: primals.append(state.primal))
    assert len(primals) > 20
    assert max(np.diff(primals)) <= 1e-13 * primals[0]


def test_a_warm_start_is_where_it_starts():
    p = problem()
    near = newton.solve(p, Stop(1e-12, 100))
    solution = dsvrg.solve(p, Stop(1e-6, 100), FIVE, start=near.eta)
    assert solution.iterations == 0
    assert np.linalg.norm(solution.w - near.w) < 1e-8


def test_columns_without_nonzeros_cost_nothing(monkeypatch):
    X, y = wide()
    p = Problem(X, None, y, np.ones(len(y)), SMOOTH["odm"])
    widths, real = set(), dsvrg.slopes_of

    def watched(part, margins):
        widths.add(part.X.shape[1])
        return real(part, margins)

    monkeypatch.setattr(dsvrg, "slopes_of", watched)
    solution = dsvrg.solve(p, Stop(1e-4, 500), FIVE)
    assert widths == {len(np.unique(X.indices))}
    assert solution.w.shape == (X.shape[1],)
    assert set(np.flatnonzero(solution.w)) <= set(X.indices)


def test_overflow_is_an_error():
    p = problem(dense=True)
    with pytest.raises(DivergedError):
        settings = Settings(partitions=5, partition_by="random")
        dsvrg.solve(p._replace(X=p.X * 1e200), Stop(), settings)


def test_rows_without_nonzeros():
    p = Problem(np.zeros((M, 3)), None, np.ones(M), np.ones(M), SMOOTH["odm"])
    solution = dsvrg.solve(p, Stop(1e-6, 50), FIVE)
    assert solution.converged and not solution.w.any()
