"""Numbers of about twice double precision agree with fractions."""

from fractions import Fraction

import numpy as np
import pytest

from odmtool.core import double_double
from odmtool.core.double_double import UNIT, DoubleDouble, inner_products, slices
from odmtool.core.kernel_table import integer_power


def exact(number: DoubleDouble) -> np.ndarray:
    high, low = np.broadcast_arrays(number.high, number.low)
    pairs = zip(high.flat, low.flat, strict=True)
    return np.array([Fraction(a) + Fraction(b) for a, b in pairs]).reshape(high.shape)


def fractions(X: np.ndarray) -> np.ndarray:
    return np.array([Fraction(x) for x in X.flat]).reshape(X.shape)


@pytest.fixture
def numbers():
    """Two arrays of numbers of very different sizes, with low parts."""
    generator = np.random.default_rng(0)
    high = generator.standard_normal((2, 40)) * 10.0 ** generator.integers(-20, 20, (2, 40))
    high[0, :5] = -high[1, :5]
    return [DoubleDouble(part, part * 2.0**-54 * generator.random(40)) for part in high]


def test_sums_and_products(numbers):
    a, b = numbers
    size = abs(exact(a)) + abs(exact(b))
    assert (abs(exact(a + b) - (exact(a) + exact(b))) <= size * Fraction(UNIT)).all()
    product = exact(a) * exact(b)
    assert (abs(exact(a * b) - product) <= abs(product) * Fraction(UNIT)).all()
    assert (abs(exact(a * 0.1) - exact(a) * Fraction(0.1)) <= abs(exact(a)) * Fraction(UNIT)).all()


def test_powers(numbers):
    a, _ = numbers
    for degree in (0, 1, 3, 6):
        power = exact(a) ** degree
        found = exact(integer_power(a, degree))
        assert (abs(found - power) <= abs(power) * (2 * degree + 1) * Fraction(UNIT)).all()


@pytest.mark.parametrize("width", [1, 2, 7, 64])
def test_row_sums(width):
    generator = np.random.default_rng(width)
    X = generator.standard_normal((3, width)) * 10.0 ** generator.integers(-9, 9, (3, width))
    X[0] -= X[0, ::-1]  # the sum is 0
    found, size = exact(DoubleDouble(X).row_sums()), fractions(np.abs(X)).sum(axis=1)
    assert (abs(found - fractions(X).sum(axis=1)) <= 8 * size * Fraction(UNIT)).all()


@pytest.mark.parametrize("d", [1, 3, 100])
@pytest.mark.parametrize("scale", [1.0, 1e-120, 1e120])
def test_inner_products(d, scale):
    generator = np.random.default_rng(d)
    X = scale * generator.standard_normal((6, d)) * 10.0 ** generator.integers(-8, 8, (6, d))
    X[2] = 0
    found = exact(inner_products(slices(X), slices(X[:4])))
    wanted = fractions(X) @ fractions(X[:4].T)
    size = np.sqrt((X**2).sum(axis=1)) * (1 + 1e-9)
    allowed = double_double.product_error(d) * np.outer(size, size[:4])
    assert (abs(found - wanted) <= fractions(allowed)).all()


def test_integers_need_one_slice():
    X = np.arange(12.0).reshape(3, 4) * 1000
    assert len(slices(X)) == 1 and np.array_equal(slices(X)[0], X)


@pytest.mark.parametrize("d, bits", [(1, 26), (2, 26), (3, 25), (4, 25), (5, 25), (100, 23)])
def test_the_error_of_an_inner_product(d, bits):
    """Its sums round, 4 slices of each, and what four slices of so many bits leave over."""
    expected = (d + 16) * (2.0**-98 + 8 * 2.0 ** (-4 * bits))
    assert double_double.product_error(d) == pytest.approx(expected, rel=1e-14, abs=0)
