"""mcODM's block step and beta step are exact."""

import numpy as np
import pytest
from scipy.optimize import minimize
from twins.mcodm import exact_alpha

from odmtool.solvers.mcodm.step import alpha_step, beta_step


def instances(number, seed=0, most_classes=50):
    """Random sub-problems with near-ties, ties, and weights over many magnitudes."""
    generator = np.random.default_rng(seed)
    for _ in range(number):
        k = int(generator.integers(2, most_classes + 1))
        B = generator.standard_normal(k) * 10 ** generator.uniform(-2, 1)
        if generator.random() < 0.5:
            B = np.round(B, 1) + generator.choice([0.0, 1e-9, 1e-12]) * generator.random(k)
        A, c = 10 ** generator.uniform(-1, 1), 10 ** generator.uniform(-2, 3)
        yield B, int(generator.integers(k)), A, generator.uniform(0.05, 1), c


def step(B, y, A, threshold, c):
    alpha = np.zeros(len(B))
    alpha_step(B.copy(), np.arange(len(B), dtype=np.int32), len(B), y, A, threshold, c, alpha)
    return alpha


def test_block_step_is_the_exact_solution():
    for B, y, A, threshold, c in instances(300):
        alpha, expected = step(B, y, A, threshold, c), exact_alpha(B, y, A, threshold, c)
        assert abs(alpha - expected).max() <= 1e-10 * max(1.0, abs(expected).max())


def test_block_step_agrees_with_a_generic_optimiser():
    """In the variables p_l = -alpha^l >= 0 it is a bounded quadratic problem."""
    for B, y, A, threshold, c in instances(40, seed=1, most_classes=8):
        others = np.delete(np.arange(len(B)), y)

        def minus(p, B=B, y=y, A=A, threshold=threshold, c=c, others=others):
            s = p.sum()
            linear = B[others] @ p - (B[y] - threshold) * s
            value = A / 2 * (p @ p + s * s) + s * s / (4 * c) - linear
            return value, A * p + (A + 0.5 / c) * s - B[others] + B[y] - threshold

        found = minimize(
            minus, np.zeros(len(others)), jac=True, bounds=[(0, None)] * len(others),
            method="L-BFGS-B", options=dict(ftol=1e-16, gtol=1e-12, maxiter=5000),
        )  # fmt: skip
        alpha = step(B, y, A, threshold, c)
        assert minus(-alpha[others])[0] <= found.fun + 1e-10 * max(1.0, abs(found.fun))
        assert alpha.sum() == pytest.approx(0.0, abs=1e-12 * max(1.0, abs(alpha).max()))


def test_block_step_of_an_all_zero_row():
    """Without a kernel value only alpha^y matters."""
    alpha = step(np.zeros(3), 1, 0.0, 0.7, 2.0)
    assert alpha[1] == pytest.approx(2 * 2.0 * 0.7) and alpha.sum() == 0


def test_beta_step_is_stationary():
    z, beta, h, upper, c = 2.0, 0.3, 1.5, 1.2, 0.8
    new = beta_step(z, beta, h, upper, c)
    assert z - h * (new - beta) - upper - new / (2 * c) == pytest.approx(0.0, abs=1e-14)
    assert beta_step(0.1, 0.0, h, upper, c) == 0
    assert beta_step(9.0, 0.0, h, np.inf, c) == 0
