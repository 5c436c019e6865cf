"""The proximal method for every row with one jump."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ldm_problems import assert_confirmed
from problems import OTHER_LOSSES, allowed, distance, problem, weights

from odmtool import solvers
from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.descent import dcd
from odmtool.solvers.newton import proximal


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", [None, "rbf", "poly"])
@pytest.mark.parametrize("loss", ["l1svm", "ldm"])
def test_proximal_newton_serves_the_rows_with_one_jump(loss, kernel, weighted):
    p = problem(kernel, loss=OTHER_LOSSES[loss], weight=weights() if weighted else None)
    solution = proximal.solve(p, Stop(1e-9, 1000))
    assert_confirmed(p, solution, 1e-9)
    expected = dcd.solve(p, Stop(1e-9, 50000))
    assert distance(p, solution, expected) <= allowed(solution, expected)


@given(st.floats(-4, 4), st.floats(1e-3, 1), st.floats(0, 1), st.sampled_from(["l1svm", "ldm"]))
def test_smoothed_is_the_proximal_step(t, width, share, name):
    """The smoothed value is the best over eta' of what the proximal step maximises."""
    loss = losses.scaled(OTHER_LOSSES[name], np.ones(1))
    eta = -(share * loss.left_lo + (1 - share) * loss.right_hi)
    sigma = width / (loss.right_hi - loss.left_lo)
    smooth = losses.smoothed(loss, width, eta)
    value, best = (f(smooth, np.array([t]))[0] for f in (losses.value, losses.derivative))

    def step(other):
        return (losses.dual_value(loss, other) - other * t - sigma / 2 * (other - eta) ** 2)[0]

    assert step(np.array([-best])) == pytest.approx(value, abs=1e-9)
    for other in np.linspace(-3, 3, 61):
        assert step(np.array([other])) <= value + 1e-9


def test_of_points_without_a_proof_the_lowest_is_given():
    """Kernel values of 1e10: relative gaps are about 1 at all of them, and at the start least."""
    random = np.random.default_rng(0)
    X, y = 10 * random.standard_normal((60, 8)), np.where(random.random(60) < 0.5, 1.0, -1.0)
    p = Problem(None, Gram(Kernel("poly", 1.0, 1.0, 5), X), y, np.ones(60), losses.l1svm(60.0, 60))
    first = solvers.solve(p, solver="dcd", max_iter=3)
    found = proximal.solve(p, Stop(1e-9, 20), start=first.eta)
    assert not found.converged and found.primal < first.primal / 5
