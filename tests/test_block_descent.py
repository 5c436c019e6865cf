"""Coordinate descent by blocks, piece by piece: what a pass adds up, and what a block changes."""

from __future__ import annotations

import numpy as np
import pytest
from problems import OTHER_LOSSES, StoreInMemory, examples, weights

from odmtool.core import losses
from odmtool.judge import binary as judge
from odmtool.rows.examples import Examples
from odmtool.solvers.base import Stop
from odmtool.solvers.large import block_descent
from odmtool.solvers.large.block_descent import _certify, _descend, _Gap, _not_worse

LOSSES = {"odm": losses.odm(16.0, 0.5, 0.3, 60), **OTHER_LOSSES}


def setting(loss="odm"):
    """Examples of which some have no weight, their dense rows, y, u, and w and eta."""
    X, y = examples()
    u = weights()
    u[::7] = 0.0
    rows = np.column_stack([X.toarray(), np.full(60, 2.0)])
    generator = np.random.default_rng(3)
    t = y * (rows @ generator.normal(size=8))
    # Between the ends of what the duals of this loss may be.
    eta = -u * losses.derivative(LOSSES[loss], t)
    known = Examples(StoreInMemory(X, y), {1: 1.0, -1: -1.0}, {1: 1.0, -1: 1.0}, u, 2.0)
    return known, rows, y, u, generator.normal(size=8), eta


@pytest.mark.parametrize("name", LOSSES)
def test_one_pass_gives_primal_dual_scale_and_w(name):
    known, X, y, u, w, eta = setting(name)
    found, used = _certify(known, LOSSES[name], w, eta), u > 0
    judged = judge.certify_linear(X[used], y[used], u[used], LOSSES[name], w, eta[used])
    assert found.primal == pytest.approx(judged.primal, rel=1e-12)
    assert found.gap == pytest.approx(judged.primal - judged.dual, rel=1e-9)
    assert found.point == pytest.approx(X.T @ (y * eta), rel=1e-12)
    values = u * losses.value(LOSSES[name], y * (X @ w))
    assert found.scale == pytest.approx(w @ w / 2 + np.abs(values).sum(), rel=1e-12)
    assert found.relative == pytest.approx(found.gap / found.scale)


def test_rounding_is_added_to_the_gap(monkeypatch):
    """As if sums had three digits, so that it shows beside the rest."""
    known, X, y, u, w, eta = setting()
    loss, exact = LOSSES["odm"], _certify(known, LOSSES["odm"], w, eta)
    seen = []
    monkeypatch.setattr(block_descent, "sum_error", lambda n: seen.append(n) or 1e-3)
    found = _certify(known, loss, w, eta)
    assert seen == [60] and found._replace(gap=exact.gap)[:3] == exact[:3]
    sizes = np.linalg.norm(X, axis=1)
    shares = sum(
        block_descent.shares_error(
            losses.scaled(loss, u[i : i + 1]), y[i : i + 1] * (X[i : i + 1] @ w), eta[i : i + 1],
            1e-3 * np.linalg.norm(w) * sizes[i : i + 1],
        )
        for i in np.flatnonzero(u)
    )  # fmt: skip
    away, off = np.linalg.norm(w - exact.point), 1e-3 * sizes @ np.abs(eta)
    expected = exact.gap + shares + ((away + off) ** 2 - away**2) / 2
    assert found.gap == pytest.approx(expected, rel=1e-9) and found.gap > 1.001 * exact.gap


@pytest.mark.parametrize("k", [0, 2])
def test_a_block_changes_its_own_duals_and_w(k):
    known, X, y, u, _, eta = setting()
    loss, before = LOSSES["odm"], eta.copy()
    w = X.T @ (y * eta)
    block = known.block(k)
    own = slice(block.start, block.start + len(block.y))
    dual = -_certify(known, loss, w, eta).gap + _certify(known, loss, w, eta).primal
    share = _descend(block, loss, eta, w, np.random.default_rng(0), Stop())
    others = np.ones(60, bool)
    others[own] = u[own] == 0
    assert np.array_equal(eta[others], before[others])
    assert np.all(eta[~others] != before[~others])
    assert w == pytest.approx(X.T @ (y * eta), rel=1e-10)
    after = _certify(known, loss, w, eta)
    assert after.primal - after.gap > dual and share > 0
    # At the optimum over the block, no share of the gap is left there.
    for _ in range(200):
        share = _descend(block, loss, eta, w, np.random.default_rng(0), Stop())
    assert abs(share) < 1e-9  # rounding may make it negative


def test_a_block_of_nothing_but_examples_without_weight():
    known, X, y, u, _, eta = setting()
    block = known.block(1)._replace(u=np.zeros(len(known.block(1).y)))
    w, before = X.T @ (y * eta), eta.copy()
    assert _descend(block, LOSSES["odm"], eta, w, np.random.default_rng(0), Stop()) == 0.0
    assert np.array_equal(eta, before)


def test_w_that_is_worse_than_none_is_shortened():
    known, X, y, u, _, eta = setting()
    loss = LOSSES["odm"]
    good = block_descent.solve(known, loss, Stop(1e-4, 500)).w
    for w in (30 * good, -good):
        found = _certify(known, loss, w, eta)
        given = _not_worse(known, loss, w, eta, found, 7, Stop(1e-4, 7))
        at_zero = _certify(known, loss, 0 * w, eta).primal
        assert found.primal > at_zero >= given.primal and given.iterations == 7
        assert given.primal == pytest.approx(_certify(known, loss, given.w, eta).primal)
        assert not given.converged and given.solver == "dcd"
        assert given.support_count == (np.count_nonzero(eta) if given.w.any() else 0)
        # Of what leads away from the solution, nothing is left.
        assert given.w.any() == (w @ good > 0)
        # The dual value is that of the duals, whatever became of w.
        dual, scale = found.primal - found.gap, _certify(known, loss, given.w, eta).scale
        assert given.gap == pytest.approx((given.primal - dual) / scale)


def test_what_has_converged_stays_as_it_is():
    known, X, y, u, w, eta = setting()
    found = _Gap(5.0, 1e-3, 2.0, w)
    given = _not_worse(known, LOSSES["odm"], w, eta, found, 3, Stop(5e-4, 9))
    assert given.converged and given.gap == 5e-4 and given.w is w and given.primal == 5.0


@pytest.mark.parametrize("limit", [0, 1, 4])
def test_passes_are_counted_up_to_the_limit(limit):
    known, told = setting()[0], []
    found = block_descent.solve(known, LOSSES["odm"], Stop(0.0, limit), progress=told.append)
    assert found.iterations == limit and not found.converged
    passes = [now.iteration for now in told if now.primal is None]
    assert passes == list(range(1, limit + 1))
    # Values are told where all examples were looked at: at the start and at the end.
    values = [now for now in told if now.primal is not None]
    assert values[0].iteration == 0 and values[-1].iteration == limit
    assert values[-1].gap == pytest.approx(found.gap) and values[-1].primal == found.primal
    assert all(now.active == 60 for now in told)


class LateAfter:
    """A deadline that is over after so many looks at it."""

    def __init__(self, looks: int):
        self.looks = looks

    def __call__(self) -> bool:
        self.looks -= 1
        return self.looks < 0


def reads(known, monkeypatch) -> list:
    """The numbers of the blocks that are read from now on."""
    seen, block = [], known.block
    monkeypatch.setattr(known, "block", lambda k: seen.append(k) or block(k))
    return seen


def test_nothing_is_read_when_the_time_is_over_before_it_begins(monkeypatch):
    known, _, _, _, w, eta = setting()
    seen = reads(known, monkeypatch)
    monkeypatch.setattr(block_descent.Stop, "is_late", True)
    found = block_descent.solve(known, LOSSES["odm"], Stop(1e-3, 9))
    assert seen == [] and not found.w.any() and found.iterations == found.support_count == 0
    without = _certify(known, LOSSES["odm"], 0 * w, 0 * eta)
    assert (found.primal, found.gap) == pytest.approx((without.primal, without.relative))


def test_no_block_is_begun_after_the_deadline_and_two_passes_certify(monkeypatch):
    known, X, y, *_ = setting()
    seen, late = reads(known, monkeypatch), LateAfter(4)
    monkeypatch.setattr(block_descent.Stop, "is_late", property(lambda _: late()))
    found = block_descent.solve(known, LOSSES["odm"], Stop(0.0, 9))
    assert known.count < len(seen) <= 3 * known.count + 2
    # What the blocks did is not lost.
    assert found.iterations == 1 and found.w.any() and not found.converged


def test_what_is_worse_than_none_takes_one_pass_after_the_deadline(monkeypatch):
    known, _, _, _, _, eta = setting()
    loss = LOSSES["odm"]
    good = block_descent.solve(known, loss, Stop(1e-4, 500)).w
    found = _certify(known, loss, 1e5 * good, eta)
    seen = reads(known, monkeypatch)
    monkeypatch.setattr(block_descent.Stop, "is_late", True)
    given = _not_worse(known, loss, 1e5 * good, eta, found, 7, Stop(1e-4, 7))
    assert len(seen) == known.count and given.w.any()
    assert given.primal < _certify(known, loss, 0 * good, eta).primal


def by_class(blocks: int = 6):
    """Many examples in blocks of one class each, and their rows, y and u."""
    generator = np.random.default_rng(5)
    X = generator.normal(size=(600, 4))
    y = np.sort(np.where(generator.random(600) < 0.5, 1.0, -1.0))
    X[:, 0] += y
    store = StoreInMemory(X, y)
    store.starts = np.linspace(0, 600, blocks + 1).astype(int)
    return Examples(store, {1: 1.0, -1: -1.0}, {1: 1.0, -1: 1.0}), X, y, np.ones(600)


@pytest.mark.parametrize("together, most", [(4, 40), (6, 30), (9, 30)])
def test_blocks_of_one_class_are_taken_together(monkeypatch, together, most):
    known, X, y, u = by_class()
    loss, stop = losses.l1svm(600.0, 600), Stop(1e-3, 200)
    alone = block_descent.solve(known, loss, stop)
    seen, seen_eta = reads(known, monkeypatch), []
    certify = block_descent._certify
    monkeypatch.setattr(
        block_descent, "_certify", lambda *given: seen_eta.append(given) or certify(*given)
    )
    found = block_descent.solve(known, loss, stop, together=together)
    assert found.converged and found.iterations <= most < alone.iterations
    w, eta = seen_eta[-1][2:]
    judged = judge.certify_linear(X, y, u, loss, w, eta)
    assert judged.gap == pytest.approx(found.gap, abs=1e-9) and judged.gap <= 1e-3
    assert found.support_count == np.count_nonzero(eta)
    # Where there is room for all they are read once.
    assert (sorted(seen) == list(range(6))) == (together >= 6)


def test_blocks_together_are_one_with_the_places_of_its_examples():
    known, X, y, u, *_ = setting()
    block, places = block_descent._joined(known, np.array([2, 0]))
    assert block.start == 0 and len(places) == len(block.y) == len(block.u)
    assert np.array_equal(block.X.toarray(), X[places])
    assert np.array_equal(block.y, y[places]) and np.array_equal(block.u, u[places])
    held = block_descent._Held(known)
    assert held.shape == known.shape and np.array_equal(held.block(0).X.toarray(), X)
    assert np.array_equal(held.weights(0), u)
