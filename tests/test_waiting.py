"""Examples with a small share of the gap wait (:mod:`odmtool.solvers.descent.kernel_block`)."""

from __future__ import annotations

import numpy as np
import pytest

from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.judge import binary as judge
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.descent import dcd, kernel_block
from odmtool.solvers.mcodm import auto as mcodm
from odmtool.solvers.mcodm import descent
from odmtool.solvers.mcsvm import descent as mcsvm
from odmtool.solvers.multi import MultiProblem

M = 300
LOSSES = {"odm": losses.odm(2.0**12, 0.5, 0.3, M), "l1svm": losses.l1svm(2.0**12, M)}
MULTI = {"mcodm": losses.mcodm(2.0**12, 0.5, 0.3, M), "mcsvm": losses.mcsvm(2.0**10, M)}


def rows():
    generator = np.random.default_rng(1)
    X = generator.random((M, 3))
    scores = X @ generator.standard_normal((3, 4)) + 0.1 * generator.standard_normal((M, 4))
    return X, scores.argmax(axis=1)


def spied(monkeypatch, module):
    """The shares of the gap with which examples are visited, epoch after epoch."""
    told = []

    def least_share(*known):
        told.append(kernel_block.least_share(*known))
        return told[-1]

    monkeypatch.setattr(module, "least_share", least_share)
    return told


def solve(name, memory):
    X, target = rows()
    gram = Gram(Kernel("rbf", 4.0), X, memory)
    if name in LOSSES:
        problem = Problem(None, gram, np.where(target > 1, 1.0, -1.0), np.ones(M), LOSSES[name])
        found = dcd.solve(problem, Stop(1e-5, 5000))
        K = judge.kernel_matrix(gram.kernel, X, X)
        judged = judge.certify_kernel(
            K, problem.y, problem.weight, problem.loss, found.coef, found.eta
        )
        assert judged.primal == pytest.approx(found.primal, rel=1e-9)
        assert judged.primal - judged.dual <= 1e-5 * judged.primal
        return found
    problem = MultiProblem(None, gram, target, 4, np.ones(M), MULTI[name])
    if name == "mcsvm":
        return mcsvm.solve(problem, Stop(1e-5, 5000))
    return mcodm.solve(problem, Stop(1e-5, 5000), solver="dcd", starts=1)


@pytest.mark.parametrize("memory", [np.inf, 100 * M * 8])
@pytest.mark.parametrize("name, module", [
    ("odm", dcd), ("l1svm", dcd), ("mcsvm", mcsvm), ("mcodm", descent),
])  # fmt: skip
def test_whoever_waits_comes_in_the_end(monkeypatch, name, module, memory):
    """Also where rows of the kernel matrix come in runs."""
    told = spied(monkeypatch, module)
    all_at_once = solve(name, memory)
    assert all_at_once.converged and not any(told)
    monkeypatch.setattr(kernel_block, "_SHORT", M - 1)
    found = solve(name, memory)
    assert found.converged and any(told)
    # Several classes have several stationary points.
    close = 0.01 if name == "mcodm" else 3e-5
    ends = [getattr(each, "primal", None) or each.objective for each in (found, all_at_once)]
    assert ends[0] == pytest.approx(ends[1], rel=close)


def test_the_share_is_of_what_is_known():
    share = kernel_block.least_share
    assert share(6.0, 100, 2000) == share(np.inf, 100, 9000) == share(np.nan, 100, 9000) == 0.0
    assert share(6.0, 100, 2001) == pytest.approx(0.2 * 6.0 / 100)
    assert share(6.0, 0, 2001) == pytest.approx(0.2 * 6.0)
