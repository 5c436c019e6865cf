"""The interior-point method: the least over simplices, and how its steps end."""

from itertools import islice

import numpy as np
import pytest

from odmtool.solvers.newton import interior
from odmtool.solvers.newton.factor import cholesky_in_place, cholesky_solve


def points(H, ends, most=60):
    def factored(d):
        L = cholesky_in_place(H + np.diag(d))
        return lambda b: cholesky_solve(L, b)

    first = ends @ (1 / ends.sum(axis=0))
    return list(islice(interior.steps(lambda g: H @ g, factored, ends, first), most))


@pytest.mark.parametrize("rank, ridge", [(5, 1e-10), (5, 1.0), (40, 1e-3)])
@pytest.mark.parametrize("sets", [1, 2, 3])
def test_the_least_over_simplices(sets, rank, ridge):
    """Its gradient is r on the examples that count, and above it on the others."""
    generator = np.random.default_rng(sets)
    Z = generator.normal(size=(40, rank)) + 1
    H = Z @ Z.T + ridge * np.eye(40)
    ends = (np.arange(40)[:, None] % sets == np.arange(sets)).astype(float)
    found = points(H, ends)
    for g in found:
        assert (g > 0).all() and ends.T @ g == pytest.approx(np.ones(sets), rel=1e-9)
    values = [g @ H @ g / 2 for g in found[:25]]
    gradient, scale = H @ found[24], values[-1]
    for of_set in ends.T > 0:
        # What moving all of the set to its best example would gain is next to nothing.
        g, slope = found[24][of_set], gradient[of_set]
        assert g @ (slope - slope.min()) <= 1e-9 * max(scale, 1e-6)
    assert values[-1] <= min(values) * (1 + 1e-9) + 1e-12


def test_what_cannot_be_factored_ends_the_steps():
    ends = np.ones((3, 1))
    assert points(np.diag([-1e300, 1.0, 1.0]), ends) == []
    assert points(np.full((3, 3), np.nan), ends) == []
