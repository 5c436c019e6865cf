"""Where descent ends at a w that is worse than none, a multiple of it is given, and judged."""

import numpy as np
import pytest
from problems import OTHER_LOSSES, problem, weights
from test_certificates import certificate

from odmtool.core import losses
from odmtool.solvers.base import Stop
from odmtool.solvers.descent import dcd
from odmtool.solvers.ldm import descent as ldm

LOSSES = {
    "odm": losses.odm(16.0, 0.5, 0.3, 60), "mamc": OTHER_LOSSES["mamc"],
    "ldm": losses.ldm(3.0, 0.5, 16.0, 60),
}  # fmt: skip


def value_and_size(p, margins, norm):
    """P and the scale S, by the definition."""
    loss = p.loss
    if not hasattr(loss, "slope_below"):
        loss = losses.ldm_row(loss, np.average(margins, weights=p.weight))
    values = p.weight * losses.value(loss, margins)
    return norm / 2 + values.sum(), norm / 2 + np.abs(values).sum()


@pytest.mark.parametrize("kernel", [None, "rbf"])
@pytest.mark.parametrize("name", LOSSES)
def test_a_point_that_is_worse_than_none_is_shortened(name, kernel):
    p = problem(kernel, loss=LOSSES[name], weight=weights())
    solve = ldm.solve if name == "ldm" else dcd.solve
    good = solve(p, Stop(1e-6, 3000)).eta
    for times in (9.0, 40.0):
        start = times * good
        if name == "ldm":  # duals of the same sum, which alone have a finite value
            start = good + times * (good - p.weight * good.sum() / p.weight.sum())
        found = solve(p, Stop(1e-3, 0), start=start)
        K = (p.X @ p.X.T).toarray() if kernel is None else p.gram.matrix()
        t = p.y * (K @ (p.y * start))
        at_zero, _ = value_and_size(p, 0 * t, 0.0)
        whole, _ = value_and_size(p, t, start @ t)
        assert whole > at_zero >= found.primal and found.iterations == 0
        assert not found.converged
        # Nothing on the line is better.
        along = [value_and_size(p, s * t, s * s * (start @ t))[0] for s in np.linspace(0, 1, 400)]
        size = max(abs(at_zero), abs(min(along)))
        assert found.primal <= min(along) + 1e-6 * size
        share = float(found.coef @ start / (start @ start))
        np.testing.assert_allclose(found.coef, share * start, atol=1e-12 * np.abs(start).max())
        primal, scale = value_and_size(p, share * t, share**2 * (start @ t))
        assert found.primal == pytest.approx(primal, rel=1e-9)
        judged = certificate(p, found)
        assert judged.primal == pytest.approx(found.primal, rel=1e-9)
        assert judged.dual == pytest.approx(found.dual, rel=1e-6)
        assert found.gap == pytest.approx((found.primal - found.dual) / scale, rel=1e-9)
        if kernel is None:
            np.testing.assert_allclose(found.w, p.X.T @ (p.y * found.coef), atol=1e-9)
