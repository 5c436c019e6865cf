"""M3SVM and ISM3: the blocks of the classes, which precondition conjugate gradients."""

from __future__ import annotations

import numpy as np
import pytest
from m3svm_problems import LOSSES, examples, point, problem, some_weights
from scipy import sparse

from odmtool.solvers.base import Stop
from odmtool.solvers.m3svm import blocks, system
from odmtool.solvers.m3svm import newton as m3svm
from odmtool.solvers.m3svm.blocks import ClassBlocks
from odmtool.solvers.m3svm.objective import Objective
from odmtool.solvers.m3svm.system import System

WIDE = examples(m=20, d=90)


def system_of(given, smoothing=0.3):
    """The system of a Newton step from some point, and the curvatures of examples of weight 1."""
    objective, V = Objective(given), point(given)
    curvature = objective.losses.curvature(objective.scores(V), smoothing)
    pairs = objective.pairs(V, objective.smoothing)
    found = System(given.X, curvature, pairs, given.parameters.ridge, given.weight)
    return found, curvature.diagonal() / given.weight[:, None]


def whole(of: System, n: int, k: int) -> np.ndarray:
    """H, shape (k, n, k, n), column after column as conjugate gradients see it."""
    columns = []

    def seen(product, right, *_rest, **_options):
        for a in range(k):
            for j in range(n):
                one = np.zeros((n, k))
                one[j, a] = 1.0
                columns.append(product(one).T.ravel())
        return right

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(system, "conjugate_gradients", seen)
        of._iterated(np.ones((n, k)), 0.1, 0)
    return np.array(columns).reshape(k, n, k, n)


@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("power", [1.5, 2.0, 4.0])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("data", [examples(), WIDE], ids=["by features", "by rows"])
def test_they_are_the_blocks_of_the_hessian(data, loss, power, as_rows, monkeypatch):
    monkeypatch.setattr(blocks, "_LEAST_SHARE", 0.0)
    monkeypatch.setattr(system, "_LEAST_SHARE", 0.0)
    X, target = data
    weight = some_weights(len(X))
    given = problem(loss, power, weight=weight, data=(as_rows(X), target), ridge=0.05)
    of, heights = system_of(given)
    # What bends pairs down is left out of the blocks.
    of.pairs.second = np.maximum(of.pairs.second, 0.0)
    n = X.shape[1] + 1
    H, found = whole(of, n, 4), ClassBlocks(of.X, heights, weight, of.pairs, of.ridge)
    G = np.random.default_rng(0).standard_normal((n, 4))
    P = found.divide(G)
    for a in range(4):
        assert H[a, :, a] @ P[:, a] == pytest.approx(G[:, a], rel=1e-8, abs=1e-8)


def test_examples_with_little_curvature_do_not_count():
    given = problem("softmax", weight=some_weights())
    of, heights = system_of(given)
    heights[10:40] = 1e-4
    G = np.random.default_rng(0).standard_normal((len(point(given)), 4))
    rest = np.r_[:10, 40:60]
    parts = given.X[rest], heights[rest], given.weight[rest], of.pairs, of.ridge
    some = ClassBlocks(*parts).divide(G)
    assert some == pytest.approx(ClassBlocks(of.X, heights, given.weight, *parts[3:]).divide(G))


def test_they_are_made_where_they_cost_less_than_products():
    X, heights = np.ones((60, 5)), np.ones((60, 4))

    def is_worth(X, heights, products, largest=np.inf):
        return blocks.is_worth(X, heights, products, largest)

    # 64 x 6 x 6 + 6^3 / 3 multiplications for each class, and 5 x 300 for each product.
    assert not is_worth(X, heights, 0)
    assert not is_worth(X, heights, 1)
    assert is_worth(X, heights, 2)
    # As many are 16 x 300 and 16 x 100.
    assert is_worth(sparse.csr_matrix(X), heights, 1)
    X[:, :2] = X[:30, 2] = 0.0
    assert not is_worth(sparse.csr_matrix(X), heights, 0)
    assert is_worth(sparse.csr_matrix(X), heights, 1)
    X[:, 2:4] = 0.0
    assert not is_worth(sparse.csr_matrix(X), heights, 1)
    # 24 x 91 x 24 + 24^3 / 3, where 20 count, and 5 x 5400.
    few = np.ones((60, 4))
    few[20:] = 1e-4
    assert not is_worth(np.ones((60, 90)), few, 2)
    assert is_worth(np.ones((60, 90)), few, 3)
    most = 4 * 24 * (24 + 91)
    assert is_worth(np.ones((60, 90)), few, 3, most)
    assert not is_worth(np.ones((60, 90)), few, 3, most - 1)
    assert blocks.planned_numbers(60, 91, 4, 10**6) == 1.75 * 4 * 91**2
    assert blocks.planned_numbers(20, 90, 4, 10**6) == 1.75 * 4 * 24 * (24 + 90)
    assert blocks.planned_numbers(60, 5, 4, 10**6) == 1.75 * 4 * 25
    assert blocks.planned_numbers(60, 91, 4, 50) == 1.75 * 1000 == 1.75 * blocks.largest_numbers(50)
    assert blocks.largest_numbers(10**9) == blocks.LARGEST_NUMBERS


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("data", [examples(m=200, d=12), WIDE], ids=["by features", "by rows"])
def test_with_them_fewer_products_lead_to_the_same_minimum(data, loss, monkeypatch):
    given, stop = problem(loss, lambda_=1e-3, data=data), Stop(1e-8, 300)
    factored = m3svm.solve(given, stop)
    monkeypatch.setattr(system, "LARGEST_SYSTEM", 0)
    counts, real = [], system.conjugate_gradients

    def counted(product, *rest, **options):
        counts.append(0)

        def one(P):
            counts[-1] += 1
            return product(P)

        return real(one, *rest, **options)

    monkeypatch.setattr(system, "conjugate_gradients", counted)
    found, products = [], []
    for is_worth in (lambda *_: False, lambda _X, _heights, products, _largest: products > 0):
        monkeypatch.setattr(system, "is_worth", is_worth)
        counts.clear()
        found.append(m3svm.solve(given, stop))
        products.append(sum(counts))
    for other in found:
        assert other.converged
        assert other.objective == pytest.approx(factored.objective, rel=1e-9)
    assert products[1] <= 0.6 * products[0]


def test_a_block_that_cannot_be_factored_leaves_the_diagonal(monkeypatch):
    of, _heights = system_of(problem("softmax", weight=some_weights()))
    right = np.ones((6, 4)) * [1.0, -1.0, 2.0, -2.0]
    known, taken = of._iterated(right, 1e-10, 0)

    def refuse(*_):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(system, "ClassBlocks", refuse)
    again, count = of._iterated(right, 1e-10, 10_000)
    assert np.array_equal(again, known) and 0 < taken < count == 10_000
