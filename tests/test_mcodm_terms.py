"""What mcODM's objectives are made of, by loops over examples; and what an epoch says of it."""

import random

import mcodm_problems
import numpy as np
import pytest
from mcodm_problems import problem
from problems import weights
from twins import mcodm as naive

from odmtool.core import gram
from odmtool.errors import DivergedError
from odmtool.solvers.mcodm import descent, starts, terms, way
from odmtool.solvers.mcodm.descent import KernelDescent, LinearDescent
from odmtool.solvers.mcodm.features import KernelFeatures
from odmtool.solvers.mcodm.way import Way
from odmtool.solvers.multi import MultiProblem


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("k", [2, 3, 7])
def test_losses_duals_and_rivals_by_loops(k, order):
    generator = np.random.default_rng(k)
    p = problem(weight=weights(), k=k)
    theta, c1, c2 = p.parameters
    for _ in range(4):
        # Equal scores, too.
        F = np.array(np.round(2 * generator.standard_normal((60, k)), 1), order=order)
        duals, before = naive.duals(generator, p.target, k), F.copy()
        found = terms.evaluate(p, duals, F)
        assert np.array_equal(F, before)
        true, relaxed, dual = 0.0, 0.0, 0.0
        for i, (y, u) in enumerate(zip(p.target, p.weight, strict=True)):
            others = [(F[i, j], -j) for j in range(k) if j != y]
            best, rival = max(others)
            margin, r = F[i, y] - best, duals.rival[i]
            below = u * c1 * max(0, 1 - theta - margin) ** 2
            true += below + u * c2 * max(0, margin - 1 - theta) ** 2
            against = F[i, r] if r >= 0 else 0.0
            relaxed += below + u * c2 * max(0, F[i, y] - against - duals.upper[i]) ** 2
            s, beta = duals.alpha[i, y], duals.beta[i]
            dual += (1 - theta) * s - s * s / (4 * c1 * u)
            dual -= duals.upper[i] * beta + beta * beta / (4 * c2 * u) if beta > 0 else 0.0
            assert found.rival[i] == -rival and found.best[i] == best
            assert found.margins[i] == margin
        assert found.true_loss == pytest.approx(true, rel=1e-12)
        assert found.relaxed_loss == pytest.approx(relaxed, rel=1e-12)
        assert found.dual_terms == pytest.approx(dual, rel=1e-12)
    assert np.isnan(terms.squared_excess(np.nan, 1.0))


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_what_an_epoch_says_of_the_gap(kernel, monkeypatch):
    """Relative to the dual, which is not below 0, and itself; and what one change is on average."""
    p = problem(kernel, weight=weights())
    duals = mcodm_problems.solve(p, 1e-3, starts=1, solver="dcd").duals
    K = (p.X @ p.X.T).toarray() if kernel is None else p.gram.matrix()
    C = duals.coefficients(p.target)
    dual = terms.dual_terms(p, duals) - np.vdot(C, K @ C) / 2
    assert dual > 0
    for share, is_zero in ((0.01, False), (3.0, False), (0.5, True)):
        kept = duals.copy()
        if is_zero:
            kept.alpha[:] *= 9  # far beyond the best, where the dual is negative
            kept.beta[:] = 0
            C = kept.coefficients(p.target)
            assert terms.dual_terms(p, kept) < np.vdot(C, K @ C) / 2
        state = (LinearDescent if kernel is None else KernelDescent)(p, kept, 0)
        state.begin(0.5)
        monkeypatch.setattr(state, "_epoch", lambda s=share: (44, 30.0, s * dual))
        gap, is_done = state.iterate()
        assert gap == pytest.approx(1.0 if is_zero else share / (1 + share), rel=1e-9)
        assert is_done == (gap <= 0.5) and state.active == 44 and state._gap == gap
        assert state._threshold == pytest.approx(30 / 60)
        state.iterate()
        assert state._threshold == pytest.approx(30 / 44)
        state.begin(gap)
        assert state.iterate()[1] and state.begin(gap * (1 - 1e-12)) is None
        assert not state.iterate()[1]


def test_a_dual_far_above_the_objective_at_zero_is_a_divergence(monkeypatch):
    p = problem(weight=weights())
    theta, c1, _ = p.parameters
    at_zero = c1 * (1 - theta) ** 2 * p.weight.sum()
    state = LinearDescent(p, mcodm_problems.nothing(p), 0)
    state.begin(1e-3)
    monkeypatch.setattr(state, "_epoch", lambda: (60, 0.0, 1.0))
    for value, is_too_large in ((0.999e6 * at_zero, False), (1.001e6 * at_zero, True)):
        monkeypatch.setattr(descent, "dual_terms", lambda *_, v=value: v)
        if is_too_large:
            with pytest.raises(DivergedError):
                state.iterate()
        else:
            state.iterate()


@pytest.mark.parametrize("memory", [60 * 8 * 7, 60 * 8 * 25])
def test_epochs_in_runs_of_rows_are_those_at_once(memory, monkeypatch):
    """Of the same blocks, where nothing is left out; and what is left out stands behind."""
    states, runs = [], gram.runs
    for room in (memory, np.inf):
        p = problem("rbf", weight=weights(), memory=room)
        state = KernelDescent(p, mcodm_problems.nothing(p), 3)
        state.begin(0.0)
        if states:
            small = states[0][0]._cache
            monkeypatch.setattr(gram, "runs", lambda _cache, order, small=small: runs(small, order))
        states.append((state, state._epoch()))
    (some, found), (whole, expected) = states
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    np.testing.assert_allclose(some.duals.alpha, whole.duals.alpha, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(some.scores(), whole.scores(), rtol=1e-9, atol=1e-12)
    # All whose alpha is 0 and far from the others are left out where no slack is allowed.
    some._threshold = -np.inf
    some.duals.alpha[::2] = 0.0
    some._rebuild()
    kept, _, _ = some._epoch()
    assert 0 <= kept < 60 and sorted(some._order) == list(range(60))
    used = some.duals.alpha[np.arange(60), p.target] != 0
    assert used[some._order[:kept]].all() and not used[some._order[kept:]].any()


@pytest.mark.parametrize("last, tolerance, then", [
    (1.0, 1e-3, 0.1), (0.5, 1e-3, 0.05), (0.0021, 1e-3, 2e-3), (2e-3, 1e-3, 0.9e-3),
    (1e-4, 1e-3, 0.9e-3), (0.015, 1e-3, 2e-3),
])  # fmt: skip
def test_how_precisely_the_next_round_is_solved(last, tolerance, then):
    """Ten times as precisely, the last but one to twice the tolerance, the last a little below."""
    assert way.next_tolerance(last, tolerance) == pytest.approx(then, rel=1e-12)


def test_starts_by_the_formula(monkeypatch):
    """Of those held down, the ones whose constraint costs much and whose second score is near."""
    generator = np.random.default_rng(2)
    m, k = 400, 5
    target = generator.integers(0, k, m)
    for d, (shares, noise) in ((80, ((0.2, 0.4, 0.1), 1.0)), (81, ((0.1, 0.2, 0.05), 0.3))):
        p = MultiProblem(np.zeros((m, d)), None, target, k, np.ones(m), problem().parameters)
        scores = generator.standard_normal((m, k))
        duals = naive.duals(generator, target, k)
        duals.rival[:] = (target + 1) % k
        held = np.flatnonzero(duals.beta > 0)
        for number in range(1, 7):
            uniform = random.Random(f"9 {number}")
            drawn = [-np.log(-np.log(uniform.random())) for _ in held]
            promise, second = [], []
            for i, g in zip(held, drawn, strict=True):
                left = [j for j in range(k) if j not in (target[i], duals.rival[i])]
                second.append(max(left, key=lambda j: scores[i, j]))
                lift = max(scores[i, duals.rival[i]] - scores[i, second[-1]], 2.0**-1022)
                promise.append(np.log(duals.beta[i]) - np.log(lift) + noise * g)
            count = int(np.ceil(shares[number % 3] * len(held)))
            chosen = sorted(range(len(held)), key=lambda a: -promise[a])[:count]
            expected = duals.rival.copy()
            for a in chosen:
                expected[held[a]] = second[a]
            before = scores.copy()
            found = starts.other_rivals(p, duals, scores, 9, number)
            assert np.array_equal(found, expected) and np.array_equal(scores, before)
    assert Way(3).is_sparse is Way(3).has_landmarks is False


@pytest.mark.parametrize("kernel", ["rbf", "poly", "rbf with bias"])
def test_features_of_all_examples_are_those_of_the_kernel(kernel):
    """Also where fewer than all span them: their products are its values, and so is every w."""
    p, generator = problem(kernel), np.random.default_rng(3)
    K, found = p.gram.matrix(), KernelFeatures(p.gram, 5)
    np.testing.assert_allclose(found.Z @ found.Z.T, K, rtol=1e-9, atol=1e-9 * K.max())
    assert found.Z.flags.c_contiguous and found.Z.shape[0] == 60 >= found.Z.shape[1]
    W = generator.standard_normal((found.Z.shape[1], 4))
    C = found.coefficients(W)
    assert C.shape == (60, 4) and np.count_nonzero(C.any(axis=1)) <= found.Z.shape[1]
    np.testing.assert_allclose(found.Z.T @ C, W, rtol=1e-6, atol=1e-6)
    C = generator.standard_normal((60, 4))
    length = sum(C[:, j] @ K @ C[:, j] for j in range(4))
    assert found.squared_norm(C) == pytest.approx(length, rel=1e-12)
