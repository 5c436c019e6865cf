"""M3SVM and ISM3 by Adam."""

from __future__ import annotations

import numpy as np
import pytest
from m3svm_problems import EXACT, LOSSES, certificate, problem

from odmtool.judge import m3svm as judge
from odmtool.solvers.base import Stop
from odmtool.solvers.m3svm import adam as m3svm_adam
from odmtool.solvers.m3svm import newton as m3svm
from odmtool.solvers.m3svm.objective import Objective


@pytest.mark.parametrize("loss", LOSSES)
def test_adam_comes_near_the_minimum_and_is_seeded(loss):
    given = problem(loss, 4.0)
    best = m3svm.solve(given, EXACT).objective
    first = m3svm_adam.solve(given, Stop(1e-9, 500), seed=1)
    assert first.iterations == 500 and not first.converged
    assert best <= first.objective <= 1.01 * best
    one, again, other = (m3svm_adam.solve(given, Stop(1e-9, 20), seed=seed).W for seed in (1, 1, 2))
    assert np.array_equal(one, again) and not np.array_equal(one, other)
    assert first.objective == pytest.approx(certificate(given, first).primal, rel=1e-12)


def test_adam_takes_its_first_step_as_printed():
    given = problem("softmax", 2.0)
    X, k = given.X, given.k
    W, bias = np.zeros((X.shape[1], k)), np.zeros(k)
    one = m3svm_adam.solve(given, Stop(1e-9, 1), start=(W, bias), rate=1e-3)
    G = np.vstack(judge.gradient(X, given.target, given.weight, given.parameters, W, bias))
    moved = np.vstack([one.W, one.bias])
    assert np.allclose(moved, -1e-3 * G / (np.abs(G) + 1e-8), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("d", [0, 1, 2, 9])
def test_adam_begins_at_small_weights(d):
    """Uniform, and the smaller the more features there are."""
    given = problem(data=(np.zeros((2000, d)), np.arange(2000)), k=2000)
    V = m3svm_adam._random(Objective(given), 3)
    limit = 1 / np.sqrt(max(d, 1))
    assert V.shape == (d + 1, 2000) and 0.99 * limit < V.max() <= limit
    assert -limit <= V.min() < -0.99 * limit and abs(V.mean()) < 0.05 * limit
    assert np.array_equal(V, m3svm_adam._random(Objective(given), 3))
