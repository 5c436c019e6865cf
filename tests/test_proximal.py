"""The proximal method for every row with one jump."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ldm_problems import allowed, assert_confirmed, distance
from problems import OTHER_LOSSES, problem, weights

from odmtool.core import losses
from odmtool.solvers import dcd, proximal
from odmtool.solvers.base import Stop


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
