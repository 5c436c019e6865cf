"""What rounding may hide, against the sums of solvers/rounding.py written out example by example.

And these bounds are none too small: margins are really off by less, which numbers of 50 digits say.
"""

from decimal import Decimal, getcontext
from types import SimpleNamespace

import numpy as np
import pytest
from problems import KERNELS, OTHER_LOSSES, examples, precomputed_rows, problem, weights
from scipy import sparse

from odmtool.core import double_double, kernels, losses
from odmtool.core.gram import Gram
from odmtool.core.kernel_table import DISTANCES
from odmtool.core.kernels import Kernel
from odmtool.judge import binary as judge
from odmtool.solvers import rounding, value_rounding
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.descent import dcd
from odmtool.solvers.rounding import UNIT, ExactMargins, Rounding, SpanRounding

EPS = 2.0**-52


def sums(m):
    return (m**0.5 + 64) * UNIT


def points(m=60, seed=5):
    """Margins, coefficients and duals of no solution."""
    generator = np.random.default_rng(seed)
    return generator.normal(0, 2, m), generator.normal(0, 1, m), generator.normal(0.2, 0.7, m)


def naive_shares(loss, t, eta, delta):
    """By how much the shares l(t) + eta t of P - D may grow; losses one by one.

    Such a difference has three or four digits, whoever computes it.
    """
    total = 0.0
    for i in range(len(t)):
        own = type(loss)(*(float(field[i]) for field in loss))
        d = float(delta[i])

        def share(x, own=own, eta=eta[i]):
            return float(losses.value(own, np.array([x]))[0]) + eta * x

        total += max(0.0, share(t[i] + d) - share(t[i]), share(t[i] - d) - share(t[i]))
    return total


def relative_and_absolute(kernel, X, n):
    """The row's own rounding of inner products of n terms, and of 8 more."""
    size, share = float((X**2).sum(axis=1).max()), (n + 8) * UNIT
    largest = abs(kernel.gamma) * size + abs(kernel.coef0)
    if kernel.name == "rbf":
        return np.expm1(abs(kernel.gamma) * share * 4 * size) + 16 * EPS, 0.0
    if kernel.name == "poly":
        power = kernel.degree
        off = share * largest
        slope = power * (largest + off) ** (power - 1)
        return 0.0, slope * off + (2 * power + 4) * EPS * largest**power
    if kernel.name == "sigmoid":
        return 0.0, share * largest + 8 * EPS
    return 0.0, share * size


@pytest.mark.parametrize("name", [*KERNELS, "precomputed", None])
def test_the_error_of_a_margin(name):
    p = problem(name)
    found = Rounding.of(p)
    if name == "precomputed":
        most, value = np.abs(p.gram.matrix()).max(), 0.0
        sizes = np.full(60, np.sqrt(most))  # such a matrix need not be definite
    else:
        kernel = Kernel("linear") if name is None else KERNELS[name]
        X = examples()[0]
        n = int(np.diff(X.indptr).max()) if name is None else p.gram.X.shape[1]
        squares = np.diagonal(judge.kernel_matrix(kernel, X, X))
        if not kernel.is_positive_semidefinite:
            upwards = kernel._replace(coef0=abs(kernel.coef0))
            squares = np.full(60, np.diagonal(judge.kernel_matrix(upwards, X, X)).max())
        dense = X.toarray()
        if kernel.row.of == DISTANCES:
            dense = dense - dense.mean(axis=0)
        relative, absolute = relative_and_absolute(kernel, dense, n)
        most, sizes = squares.max(), np.sqrt(squares)
        of_most = absolute + min(1.0, relative) * (most - kernel.bias**2) + 8 * UNIT * most
        value = of_most / most
        rows = p.X if name is None else p.gram.X
        error = value_rounding.value_error(kernel, rows, most)
        assert error == pytest.approx(of_most, rel=1e-9, abs=0)
    np.testing.assert_allclose(found.sizes, sizes, rtol=1e-12, atol=1e-14)
    assert found.error == pytest.approx(value + sums(60), rel=1e-9, abs=0)
    order = np.argsort(-np.arange(60))
    other = found.ordered(order)
    assert np.array_equal(other.sizes, found.sizes[order]) and other.error == found.error
    assert other.exact is None and np.array_equal(found.sizes, Rounding.of(p).sizes)


@pytest.mark.parametrize("error", [None, 0.03])
@pytest.mark.parametrize("name", ["poly", "rbf", "sigmoid", None])
def test_the_gap_that_may_be_hidden(name, error):
    p = problem(name)
    found, (t, coef, eta) = Rounding.of(p), points()
    found._value = found._value if error is None else error
    loss = losses.scaled(OTHER_LOSSES["three jumps"], weights())
    e, r = found.error, found.sizes
    if name is None:
        # Of a linear problem, by w.
        w, apart = np.arange(7.0), 0.3
        off = e * sum(abs(coef[i]) * r[i] for i in range(60))
        delta = e * np.sqrt(91.0) * r
        expected = naive_shares(loss, t, eta, delta) + off * apart + off**2 / 2
        hidden = found.gap(loss, t, coef, eta, 0.0, w, apart)
        assert hidden == pytest.approx(expected, rel=1e-3, abs=0)
        assert found.off(coef) == pytest.approx(off, rel=1e-12, abs=0)
        bent = sum(s * r[i] ** 2 for i, s in enumerate(losses.slopes_largest(loss)))
        slopes = losses.slopes_largest(loss)
        hidden = bent * (e * np.sqrt(91.0)) ** 2 / 2 + off * apart + off**2 / 2
        asked = found.of_demanded(slopes, coef, coef - eta, w, apart)
        assert asked == pytest.approx(hidden, rel=1e-12, abs=0)
        zero = np.zeros(60)
        of_primal = naive_shares(loss, t, zero, delta)
        assert found.primal(loss, t, w) == pytest.approx(of_primal, rel=1e-3, abs=0)
        return
    size = sum(abs(coef[i]) * r[i] for i in range(60))
    beside = sum(abs(coef[i] - eta[i]) * r[i] for i in range(60))
    expected = naive_shares(loss, t, eta, e * size * r) + e * beside**2 / 2
    assert found.gap(loss, t, coef, eta) == pytest.approx(expected, rel=1e-3, abs=0)
    slopes = losses.slopes_largest(loss)
    hidden = (slopes @ r**2) * (e * size) ** 2 / 2 + e * beside**2 / 2
    asked = found.of_demanded(slopes, coef, coef - eta)
    assert asked == pytest.approx(hidden, rel=1e-12, abs=0)


@pytest.mark.parametrize("bias", [0.0, 1.5])
def test_of_distances_each_value_has_its_own_error(bias):
    """Where the matrix is there, sums over it bound more closely what rounding may hide."""
    p, kernel = problem("rbf"), Kernel("rbf", 2.0, bias=bias)
    gram = Gram(kernel, p.gram.X)
    found, (t, coef, eta) = Rounding(gram), points()
    loss = losses.scaled(p.loss, weights())
    first = found.gap(loss, t, coef, eta)
    K = gram.matrix() - bias**2
    np.fill_diagonal(K, 0.0)
    bits = sums(60) + 8 * UNIT
    relative = relative_and_absolute(kernel, gram.X, gram.X.shape[1])[0]
    r, between = np.sqrt(1 + bias**2), np.abs(coef - eta)
    size, beside = np.abs(coef).sum() * r, between.sum() * r
    delta = relative * (K @ np.abs(coef)) + bits * size * r
    apart = relative * (between @ K @ between) + bits * beside**2
    expected = naive_shares(loss, t, eta, delta) + apart / 2
    assert expected < first
    assert found.gap(loss, t, coef, eta) == pytest.approx(expected, rel=1e-3, abs=0)
    assert found.gap(loss, t, coef, eta, first) == first  # which was enough
    assert found.gap(loss, t, coef, eta, 0.999 * first) < first


@pytest.mark.parametrize("error", [None, 0.03])
def test_of_several_classes(error):
    """Also where an error is so large that its square counts."""
    p = problem("poly")
    found, generator = Rounding.of(p), np.random.default_rng(2)
    C, weight, loss = generator.normal(0, 1, (60, 3)), weights(), losses.mcodm(8.0, 0.5, 0.2, 60)
    found._value = found._value if error is None else error
    e, r = found.error, found.sizes
    size = np.sqrt(sum((r @ np.abs(C[:, k])) ** 2 for k in range(3)))
    for norm in (None, 7.0):
        length = size if norm is None else norm
        moved = max(loss.c1, loss.c2) * sum(weight * (2 * e * length * r) ** 2)
        off = e * size
        expected = 2 * np.sqrt(3.0 * moved) + moved + off * length + off**2 / 2
        hidden = found.of_classes(loss, weight, C, 3.0, norm)
        assert hidden == pytest.approx(expected, rel=1e-12, abs=0)


@pytest.mark.parametrize("bias", [0.0, 1.5])
def test_of_several_classes_each_value_has_its_own_error(bias):
    p, kernel = problem("rbf"), Kernel("rbf", 2.0, bias=bias)
    gram, loss = Gram(kernel, p.gram.X), losses.mcodm(8.0, 0.5, 0.2, 60)
    found, C = Rounding(gram), np.random.default_rng(2).normal(0, 1, (60, 3))
    first = found.of_classes(loss, weights(), C, 3.0)
    assert found.of_own_values(C) is None  # the matrix is not there
    K = gram.matrix() - bias**2
    np.fill_diagonal(K, 0.0)
    relative = relative_and_absolute(kernel, gram.X, gram.X.shape[1])[0]
    squared, bits = 1 + bias**2, sums(60) + 8 * UNIT
    own = [relative * (K @ c) + bits * squared * c.sum() for c in np.abs(C).T]
    np.testing.assert_allclose(found.of_own_values(C), np.transpose(own), rtol=1e-9)
    np.testing.assert_allclose(found.of_own_values(C[:, 1]), own[1], rtol=1e-9)
    moved = max(loss.c1, loss.c2) * sum(weights() * 2 * sum(each**2 for each in own))
    norms = sum(c @ each for c, each in zip(np.abs(C).T, own, strict=True))
    expected = 2 * np.sqrt(3.0 * moved) + moved + norms
    assert expected < first
    hidden = found.of_classes(loss, weights(), C, 3.0)
    assert hidden == pytest.approx(expected, rel=1e-9, abs=0)
    assert found.of_classes(loss, weights(), C, 3.0, None, first) == first  # which was enough
    assert found.of_classes(loss, weights(), C, 3.0, 1e9) > first  # that is of features


def test_the_other_bounds():
    error = sums(100)
    gap = rounding.demanded_gap(0.2, 3.0, 5.0, 7.0, 100)
    expected = (0.2 + error * 5) ** 2 / 2 + 7 * (error * 3) ** 2 / 2
    assert gap == pytest.approx(expected, rel=1e-14, abs=0)
    # What rounding alone leaves, where nothing is apart.
    alone = rounding.demanded_gap(0.0, 3.0, 5.0, 7.0, 100)
    assert alone == pytest.approx(error**2 * (25 + 63) / 2, rel=1e-12, abs=0)
    change = rounding.primal_error(3.0, 5.0, 7.0, 100)
    assert change == pytest.approx(error * 3 * 5 + 7 * (error * 3) ** 2 / 2, rel=1e-14, abs=0)
    far = rounding.primal_error(1e18, 0.0, 7.0, 100)
    assert far == pytest.approx(7 * (error * 1e18) ** 2 / 2, rel=1e-12, abs=0)
    assert rounding.sum_error(100) == 74 * 2.0**-53
    L = np.array([[2.0, 0.0], [1.0, 0.5]])
    inverse = np.linalg.norm(np.linalg.inv(L))
    gradient, a = np.array([3e-9, 4e-9]), np.array([1.0, 2.0])
    for factor, one, other in ((None, 1.0, 0.0), (L, inverse, np.linalg.norm(L))):
        size = one * 9.0 + other * np.sqrt(5)
        expected = rounding.demanded_gap(5e-9, np.sqrt(5), size, 4.0, 77)
        found = SpanRounding(factor, 77).gap(gradient, a, 9.0, 4.0)
        assert found == pytest.approx(expected, rel=1e-12, abs=0)


def exact_margins(kernel, X, y, coef):
    """With 50 digits."""
    getcontext().prec = 50
    rows = [[Decimal(float(x)) for x in row] for row in X]
    gamma, coef0 = Decimal(kernel.gamma), Decimal(kernel.coef0)

    def value(u, v):
        z = sum(a * b for a, b in zip(u, v, strict=True))
        if kernel.name == "linear":
            return z + Decimal(kernel.bias) ** 2
        return (gamma * z + coef0) ** kernel.degree + Decimal(kernel.bias) ** 2

    v = [Decimal(float(a)) * int(b) for a, b in zip(coef, y, strict=True)]
    return [
        int(label) * sum(value(row, other) * c for other, c in zip(rows, v, strict=True) if c)
        for row, label in zip(rows, y, strict=True)
    ]


@pytest.mark.parametrize("kernel", [
    Kernel("linear", bias=3.0), Kernel("poly", 0.3, 0.5, 3), Kernel("poly", 0.3, 0.5, 2, 1.5),
])  # fmt: skip
def test_margins_are_off_by_less_than_is_said(kernel, monkeypatch):
    X, y = examples(23, 4)
    X, (_, coef, eta) = 1e3 * X.toarray(), points(23)
    coef[5:9] = 0.0
    truth = exact_margins(kernel, X, y, coef)
    gram = Gram(kernel, X)
    bounds, exact = Rounding(gram, y=y), ExactMargins(kernel, X, y)
    for block in (2**17, 40):  # all at once, and two rows at a time
        monkeypatch.setattr(rounding, "_BLOCK", block)
        more = exact.of(coef)
        allowed = exact.off(more, coef)
        for mine, bound, true in zip(more, allowed, truth, strict=True):
            assert abs(Decimal(float(mine)) - true) <= Decimal(float(bound))
        assert np.all(allowed <= 1.01 * UNIT * np.abs(more) + 1e-20 * np.abs(more).max())
    known = y * (gram.matrix() @ (y * coef))
    delta = bounds.error * bounds.sizes * (np.abs(coef) @ bounds.sizes)
    for mine, bound, true in zip(known, delta, truth, strict=True):
        assert abs(Decimal(float(mine)) - true) <= Decimal(float(bound))
    loss = losses.scaled(losses.odm(8.0, 0.5, 0.2, 23), np.ones(23))
    shares = naive_shares(loss, more, eta, exact.off(more, coef))
    assert exact.gap(loss, more, coef, eta) == pytest.approx(shares, rel=1e-3, abs=0)
    assert np.array_equal(exact.of(np.zeros(23)), np.zeros(23))


def test_margins_are_made_exact_only_where_that_decides():
    """Not where the gap is small, or large without rounding, too; and not in vain for ever."""
    p = problem("poly")
    found, (t, coef, _) = Rounding.of(p), points()
    asked = []

    def verdict(hidden, seeming, exactly):
        def evaluate(margins, source):
            kind = "exact" if source is found.exact else "none" if source is not found else "mine"
            asked.append(kind)
            gap = {"mine": hidden, "none": seeming, "exact": exactly}[kind]
            return 1.0 + gap, 1.0, 1.0
        return evaluate

    def run(*gaps):
        asked.clear()
        (primal, *_), margins = found.settled(verdict(*gaps), t, coef, 0.125)
        return primal - 1, margins is t, "".join(kind[0] for kind in asked)

    assert run(0.125, 0.0, 0.0) == (0.125, True, "m")
    assert run(0.25, 0.25, 0.0) == (0.25, True, "mn")
    assert run(0.25, 0.125, 0.0625) == (0.0625, False, "mne")
    assert run(0.25, 0.125, np.inf) == (0.25, True, "mne")  # a look in vain
    for _ in range(4):
        assert run(0.25, 0.125, 0.25) == (0.25, False, "mne")
    assert run(0.25, 0.125, 0.0) == (0.25, True, "mn")
    assert Rounding(p.gram).exact is None and Rounding.of(problem("rbf")).exact is None
    assert np.array_equal(found.exact.of(coef), ExactMargins(p.gram.kernel, p.gram.X, p.y).of(coef))


def test_steps_go_on_from_exact_margins_five_times():
    p, (_, coef, _) = problem("poly"), points()
    found, exact = Rounding.of(p), ExactMargins(p.gram.kernel, p.gram.X, p.y).of(coef)
    with np.errstate(over="ignore", invalid="ignore"):
        assert found.exact_margins(np.full(len(coef), 1e308)) is None  # they overflow
    for _ in range(4):
        assert np.array_equal(found.exact_margins(coef), exact)
    assert found.exact_margins(coef) is None
    assert Rounding.of(problem("rbf")).exact_margins(coef) is None


def test_the_objectives_of_a_point():
    p, (_, coef, _) = problem("poly"), points()
    found, coef = Rounding.of(p), np.abs(coef)
    loss, t = losses.scaled(p.loss, p.weight), p.margins(np.abs(coef))
    (primal, dual, scale), margins = found.objectives(loss, t, coef, Stop(1e-3))
    values = losses.value(loss, t)
    assert primal == pytest.approx(coef @ t / 2 + values.sum(), rel=1e-12, abs=0)
    assert scale == pytest.approx(coef @ t / 2 + np.abs(values).sum(), rel=1e-12, abs=0)
    bare = losses.dual_value(loss, coef).sum() - coef @ t / 2
    assert dual == pytest.approx(bare - found.gap(loss, t, coef, coef), rel=1e-14, abs=0)
    assert margins is t


@pytest.mark.parametrize("kernel", [Kernel("sigmoid", -0.1, 0.4), Kernel("poly", 0.3, -0.5, 3)])
def test_the_largest_value_of_an_indefinite_kernel(kernel):
    X, _ = examples()
    gram = Gram(kernel, X)
    before = rounding._largest_value(gram)
    K = kernels.gram(kernel, X)
    assert before >= np.abs(K).max() == pytest.approx(
        rounding._largest_value(Gram.of_matrix(kernel, K)), rel=1e-14
    )
    # A serial number, 60 for the last, is no kernel value.
    for rows in (precomputed_rows(X), precomputed_rows(X).toarray()):
        assert rounding._largest_value(Gram(Kernel("precomputed"), rows)) == rows[:, 1:].max() == 1


def test_what_a_value_of_a_polynomial_kernel_is_off_by_is_relative_to_the_largest():
    """Of values far below 1 the last bits of a sum are as far below."""
    X = 0.1 * examples(23, 4)[0].toarray()
    found = [
        ExactMargins(Kernel("poly", 0.1, 0.2 * shift, 2), shift**0.5 * X, np.ones(23))._value
        for shift in (1.0, 2.0**-20)
    ]
    assert 0 < found[1] == pytest.approx(2.0**-40 * found[0], rel=1e-9)


@pytest.mark.parametrize("kernel", [Kernel("linear", bias=3.0), Kernel("poly", 0.3, 0.5, 3)])
def test_what_margins_of_100_bits_are_off_by(kernel):
    """The kernel's own error for each unit of its inner products', and of sums of m values."""
    X = examples(23, 4)[0].toarray()
    most, size = kernels.diagonal(kernel, X).max(), (X**2).sum(axis=1).max()
    share = double_double.product_error(4)
    largest = abs(kernel.gamma) * size + abs(kernel.coef0)
    of_value = share * size
    if kernel.name == "poly":
        slope = 3 * (largest * (1 + 2 * UNIT)) ** 2
        # What the power's own operations round is in proportion.
        of_value = share * (slope * largest + 10 * EPS * largest**3 / (2 * UNIT))
    expected = of_value + (np.log2(25) + 32) * double_double.UNIT * most
    assert ExactMargins(kernel, X, np.ones(23))._value == pytest.approx(expected, rel=1e-9, abs=0)


def test_one_pass_has_the_objectives_of_the_bounds():
    """For a linear problem what w itself is off by, too: here w(eta) is 0 by cancellation."""
    rows = 1024.0 * np.random.default_rng(4).integers(1, 9, (5, 3))
    X, y = sparse.csr_matrix(np.vstack([rows, rows])), np.repeat([1.0, -1.0], 5)
    eta = np.full(10, 2.0**66)
    p = Problem(X, None, y, np.ones(10), losses.odm(1e50, 0.3, 0.2, 10))
    state, found = dcd.state_of(p, eta), Rounding.of(p)
    own = dcd.objectives(p, state, found, Stop(1e99))
    loss, t = losses.scaled(p.loss, p.weight), state.margins()
    bound = found.objectives(loss, t, eta, Stop(1e99), state.w)
    assert not state.w.any() and found.off(eta) ** 2 / 2 > 1e-3 * abs(own[0][1])
    assert np.allclose(own[0], bound[0], rtol=1e-12, atol=0) and np.array_equal(own[1], bound[1])


def test_where_one_pass_overflows_the_bounds_are_asked():
    p = problem("rbf")
    p, eta = p._replace(weight=np.full(p.size, 1e-200)), np.ones(p.size)
    own, _ = dcd.objectives(p, dcd.state_of(p, eta), Rounding.of(p), Stop(1e-3))
    assert own[1] < 0


def test_errors_of_many_equal_numbers_do_not_add_up():
    """A sum of 400,000 shares is as exact as one of two."""
    from odmtool.solvers.descent.coordinate import objective_sums

    m, loss = 400_000, losses.odm(34.8, 0.3, 0.2, 400_000)
    t, eta = np.full(m, 0.1), np.full(m, 0.1 / m)
    found = objective_sums(loss, np.ones(m), t, eta, np.ones(m), 1e-3)
    two = objective_sums(loss, np.ones(2), t[:2], eta[:2], np.ones(2), 1e-3)
    assert found == pytest.approx(np.multiply(two, m / 2), rel=2e-15)


def test_what_is_beyond_the_largest_number_is_infinite():
    """As a power of a Python float it raised OverflowError (ldm, lambda 1e20, mixed sizes)."""
    known = SimpleNamespace(off=lambda coef: 1e200)
    assert Rounding.beyond(known, None) == Rounding.beyond(known, None, 1e300) == np.inf
