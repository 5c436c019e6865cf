"""Labelled rows in blocks, and what a binary machine sees of them; how stochastic solvers draw."""

import numpy as np
import pytest
from problems import StoreInMemory, examples, problem, weights

from odmtool.core import losses
from odmtool.rows.examples import Examples, labels_of
from odmtool.solvers.stochastic import common


@pytest.mark.parametrize("bias", [-1.0, 0.0, 2.0])
@pytest.mark.parametrize("weight", [None, weights()])
def test_what_a_binary_machine_sees(weight, bias):
    """Of three labels one is +1, one -1, and one takes no part; in blocks of 23."""
    X, _ = examples()
    labels = np.random.default_rng(0).choice([-7, 3, 40], 60)
    sign, factor = {40: -1.0, -7: 1.0, 3: 0.0}, {-7: 1.5, 3: 9.0, 40: 0.25}
    store = StoreInMemory(X, labels)
    found = Examples(store, sign, factor, weight, bias)
    y = np.array([1.0 if label == -7 else -1.0 for label in labels])
    u = np.array([{-7: 1.5, 3: 0.0, 40: 0.25}[label] for label in labels])
    u = u if weight is None else u * weight
    dense = X.toarray()
    dense = dense if bias < 0 else np.column_stack([dense, np.full(60, bias)])
    assert found.shape == dense.shape and found.count == 3
    assert found.total_weight() == pytest.approx(u.sum())
    for k, start in enumerate((0, 23, 46)):
        block, own = found.block(k), slice(start, start + 23)
        assert block.start == start
        assert np.array_equal(block.X.toarray(), dense[own])
        signs = y[own] * (u[own] > 0)
        assert np.array_equal(block.y * (block.u > 0), signs)
        np.testing.assert_allclose(block.u, u[own], rtol=1e-15)
    rows = np.array([1, 5, 22, 23, 59])
    signs, factors = found.signs(rows)
    assert np.array_equal(signs * (factors > 0), y[rows] * (u[rows] > 0))
    np.testing.assert_allclose(factors, u[rows], rtol=1e-15)
    assert np.array_equal(found.rows(rows).toarray(), dense[rows])
    assert np.array_equal(labels_of(store, rows), labels[rows])
    assert labels_of(store, rows[:0]).dtype == np.int64 and not labels_of(store, rows[:0]).size


@pytest.mark.parametrize("count", [1, 5, 32, 33, 100])
def test_passes_are_cut_into_so_many_tasks(count):
    """At most 32, of neighbours, whose sizes differ by one."""
    store = StoreInMemory(np.zeros((23 * count, 1)), np.ones(23 * count))
    tasks = Examples(store, {1: 1.0}, {1: 1.0}).tasks()
    assert [k for task in tasks for k in task] == list(range(count))
    sizes = [len(task) for task in tasks]
    assert len(tasks) == min(32, count) and max(sizes) - min(sizes) <= 1


def test_draws_are_spread_evenly():
    """One in each of so many equal parts of what the probabilities sum up to, then shuffled."""
    shares = np.array([0.0, 3.0, 1.0, 0.0, 2.0, 0.0])
    sums = common.cumulative(shares)
    np.testing.assert_allclose(sums, np.cumsum(shares) / 6)
    np.testing.assert_allclose(common.cumulative(np.zeros(4)), [0.25, 0.5, 0.75, 1.0])
    for count in (None, 1, 4, 31, 0):
        found = common.draw(np.random.default_rng(5), sums, count)
        random, expected = np.random.default_rng(5), []
        number = 6 if count is None else count
        for k, part in enumerate(random.random(number)):
            mark = (k + part) / number
            expected.append(next(i for i in range(6) if sums[i] > mark))
        expected = np.array(expected, dtype=int)
        random.shuffle(expected)
        assert found.tolist() == expected.tolist()
    # By rounding a mark may be at the end.
    assert common.draw(np.random.default_rng(5), np.array([0.5, 0.5]), 3).max() == 1


@pytest.mark.parametrize("loss", [losses.odm(9.0, 0.5, 0.2, 60), losses.ldm(2.0, 3.0, 9.0, 60)])
def test_a_point_and_its_derivative(loss):
    """P by its formula, and dP/dt by differences."""
    p = problem(None, loss, weights(), dense=True)
    w, u = np.random.default_rng(0).standard_normal(7), p.weight

    def primal(t):
        if isinstance(loss, losses.LDM):
            spread = (u @ t**2 - (u @ t) ** 2 / u.sum()) * 2.0
            return (spread - 3.0 * (u @ t) + 9.0 * (u @ np.maximum(0, 1 - t))) / 60
        return u @ losses.value(loss, t)

    found = common.point_at(p, w)
    t = p.y * (p.X @ w)
    np.testing.assert_allclose(found.t, t)
    assert found.w is w and found.primal == pytest.approx(w @ w / 2 + primal(t), rel=1e-12)
    assert found.scale >= abs(found.primal) * (1 - 1e-12)
    for i in range(60):
        moved = [primal(t + step * (np.arange(60) == i)) for step in (1e-6, -1e-6)]
        slope = (moved[0] - moved[1]) / 2e-6
        assert found.derivative[i] == pytest.approx(slope, rel=1e-4, abs=1e-7)
    eta = np.random.default_rng(1).standard_normal(60)
    assert common.first_point(p, None).primal == pytest.approx(primal(np.zeros(60)))
    np.testing.assert_allclose(common.first_point(p, eta).w, p.X.T @ (p.y * eta))
