"""Kernel matrices in single precision, and what coordinate descent makes of them."""

import numpy as np
import pytest
from problems import examples
from scipy import sparse

from odmtool.core import kernels, losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.judge import binary as judge
from odmtool.rows import whole
from odmtool.rows.executor import Serial, Threads
from odmtool.rows.whole import filled
from odmtool.solvers import auto, solve
from odmtool.solvers.base import Problem

UNIT = 2.0**-24


def rows(m=150, is_sparse=False):
    X, _ = examples(m)
    return X if is_sparse else X.toarray()


@pytest.mark.parametrize("kernel", [Kernel("rbf", 0.4), Kernel("rbf", 3.0, bias=0.7)])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("size", [7, 50, 150, 384])
def test_every_value_is_rounded_once(monkeypatch, kernel, is_sparse, size):
    monkeypatch.setattr(whole, "_ROWS", size)
    gram = Gram(kernel, rows(is_sparse=is_sparse))
    found, K = filled(gram, np.float32, Serial()), kernels.gram(kernel, gram.X)
    assert found.dtype == np.float32 and found.is_computed and found.kernel is kernel
    assert np.all(np.abs(found.matrix() - K) <= 1.001 * UNIT * K)
    assert np.array_equal(found.matrix(), found.matrix().T)
    assert found.is_rounded and not gram.is_rounded and not gram.is_computed
    found.make_exact()
    assert np.array_equal(found.matrix(), K) and not found.is_rounded


def test_in_double_precision_they_are_what_numpy_makes(monkeypatch):
    monkeypatch.setattr(whole, "_ROWS", 32)
    gram = Gram(Kernel("rbf", 0.4), rows())
    found = filled(gram, float, Serial())
    assert found.dtype == float and not found.is_rounded
    assert np.allclose(found.matrix(), kernels.gram(gram.kernel, gram.X), rtol=1e-13, atol=0)


def test_threads_make_the_same_values(monkeypatch):
    monkeypatch.setattr(whole, "_ROWS", 16)
    gram = Gram(Kernel("rbf", 0.4), rows())
    one, two = (filled(gram, np.float32, each).matrix() for each in (Serial(), Threads(2)))
    assert np.array_equal(one, two)


def apart(lambda_, loss=losses.odm, m=300, computed=False):
    """A problem whose examples are so far from each other that auto wants the matrix."""
    X = sparse.csr_matrix(60.0 * np.random.default_rng(4).standard_normal((m, 3)))
    y, weight = np.where(X.toarray()[:, 0] > 0, 1.0, -1.0), np.ones(m)
    gram = Gram(Kernel("rbf", 0.02), X)
    if computed:
        gram.matrix()
    return Problem(None, gram, y, weight, loss(lambda_, 0.2, 0.2, m))


@pytest.mark.parametrize("tolerance", [1e-3, 1e-11])
def test_the_gap_is_that_of_double_precision(monkeypatch, tolerance):
    """Where rounded values hide too much, descent goes on with exact ones."""
    monkeypatch.setattr(auto, "_SMALL_GRAM", 200)
    monkeypatch.setattr(auto, "_EPOCHS_PER_EXAMPLE", 1.0)
    monkeypatch.setattr(auto, "holds_single", lambda *_arguments: True)
    seen, p = [], apart(1e3)
    monkeypatch.setattr(whole, "filled", lambda *given: seen.append(filled(*given)) or seen[-1])
    found = solve(p, solver="auto", tolerance=tolerance)
    assert found.solver == "dcd" and found.converged and len(seen) == 1
    assert seen[0].is_rounded == (tolerance == 1e-3)
    K = judge.kernel_matrix(p.gram.kernel, p.gram.X, p.gram.X)
    true = judge.certify_kernel(K, p.y, p.weight, p.loss, found.coef, found.eta)
    assert true.gap <= found.gap <= tolerance
    assert true.primal == pytest.approx(found.primal, rel=1e-6)


def test_newton_follows_on_exact_values(monkeypatch):
    monkeypatch.setattr(auto, "_SMALL_GRAM", 200)
    monkeypatch.setattr(auto, "_EPOCHS_PER_EXAMPLE", 0.01)
    seen, p = [], apart(1e3)
    monkeypatch.setattr(whole, "filled", lambda *given: seen.append(filled(*given)) or seen[-1])
    assert solve(p, solver="auto", tolerance=1e-8).solver == "dcd, then newton"
    assert [gram.dtype for gram in seen] == [np.float32, float] and not p.gram.is_computed


def test_when_values_are_in_single_precision():
    assert auto.is_for_single(apart(1e3), 1e-3)
    assert not auto.is_for_single(apart(1e3, computed=True), 1e-3)
    assert not auto.is_for_single(apart(1e12), 1e-3)  # rounding would hide the solution
    assert auto.is_for_single(apart(1e7), 1e-3) and not auto.is_for_single(apart(1e7), 1e-6)
    jump = apart(1e3)._replace(loss=losses.l1svm(1e3, 300))
    assert not auto.is_for_single(jump, 1e-3)
    poly = apart(1e3)
    poly.gram.kernel = Kernel("poly", 1.0, 1.0, 2)
    assert not auto.is_for_single(poly, 1e-3)
    assert not auto.is_for_single(apart(1e3)._replace(gram=None), 1e-3)
