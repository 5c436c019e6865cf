"""M3SVM and ISM3 of few examples with many features, solved in their span."""

from __future__ import annotations

import numpy as np
import pytest
from m3svm_problems import LOSSES, certificate, examples, problem, some_weights
from scipy import sparse

from odmtool.solvers.base import Stop
from odmtool.solvers.m3svm import newton as m3svm
from odmtool.solvers.m3svm import span
from odmtool.solvers.m3svm.objective import Objective

WIDE = examples(m=20, d=400)


@pytest.fixture
def spans(monkeypatch):
    """The spans that were taken."""
    taken, real = [], span.span_of
    monkeypatch.setattr(m3svm, "span_of", lambda given: taken.append(real(given)) or taken[-1])
    return taken


@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_matrix])
def test_the_examples_and_the_weights_are_the_same_in_the_span(as_rows):
    X, target = WIDE
    X = X.copy()
    X[7] = X[8]  # a row twice, and m3svm_problems.examples has an empty one
    found = span.span_of(problem(data=(as_rows(X), target)))
    L = found.problem.X
    assert L.shape == (20, 20) and not np.triu(L, 1).any()
    assert pytest.approx(X @ X.T, abs=1e-10) == L @ L.T
    V = np.random.default_rng(0).standard_normal((20, 4))
    W = X.T @ V
    U = found.inside(W)
    assert pytest.approx(X @ W, abs=1e-9) == L @ U
    assert pytest.approx(W.T @ W, rel=1e-6) == U.T @ U
    assert found.outside(U) == pytest.approx(W, abs=1e-6)


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_solution_is_that_of_all_features(loss, power, spans, monkeypatch):
    X, target = WIDE
    given = problem(loss, power, weight=some_weights(20), data=(sparse.csr_matrix(X), target))
    stop, told = Stop(1e-7, 300), []
    found = m3svm.solve(given, stop, progress=lambda now: told.append(now.iteration))
    assert spans[0] is not None and found.converged and found.W.shape == (400, 4)
    assert told == list(range(1, found.iterations + 1))
    judged = certificate(given, found)
    assert judged.primal == pytest.approx(found.objective, rel=1e-10)
    monkeypatch.setattr(m3svm, "span_of", lambda _: None)
    whole = m3svm.solve(given, stop)
    if power >= 1:  # else there are many stationary points
        assert found.objective == pytest.approx(whole.objective, rel=1e-8)
        assert np.abs(found.W - whole.W).max() <= 1e-3 * np.abs(whole.W).max()


def test_a_start_is_taken_into_the_span(spans):
    X, target = WIDE
    given, stop = problem(data=(X, target)), Stop(1e-6, 300)
    first = m3svm.solve(given, stop)
    again = m3svm.solve(given, stop, start=(first.W, first.bias))
    assert again.iterations == 0 and again.converged
    near = m3svm.solve(given, stop, start=(1.01 * first.W, first.bias))
    assert 0 < near.iterations < first.iterations
    assert near.objective == pytest.approx(first.objective, rel=1e-5)
    assert len(spans) == 2 and all(spans)


def test_what_rounding_hides_in_the_span_is_found_outside(spans):
    """Its numbers are squares: features a hundred million times as small as others are lost."""
    generator = np.random.default_rng(0)
    X, target = WIDE
    X = X.copy()
    X[:, :200] = 1e8 * generator.choice([1.0, -1.0], (20, 1)) * np.ones(200)
    given = problem("softmax", 2.0, data=(X, target))
    found = m3svm.solve(given, Stop(1e-9, 300))
    assert spans[0] is not None
    inside = m3svm._descend(
        Objective(spans[0].problem), np.zeros((21, 4)), False,
        1e-9 * m3svm.gradient_at_zero(Objective(given)), Stop(1e-9, 300), lambda _: None,
    )  # fmt: skip
    assert found.iterations > inside[1]
    judged = certificate(given, found)
    assert judged.primal == pytest.approx(found.objective, rel=1e-6)
    outside = np.vstack([spans[0].outside(inside[0][:-1]), inside[0][-1]])
    objective = Objective(given)
    rough = objective.value(outside, objective.scores(outside), objective.smoothing)
    assert found.objective <= rough * (1 + 1e-12)


def test_rows_of_any_size_are_told_apart_by_themselves_only(spans, monkeypatch):
    """What is added to the diagonal for the largest row would be a feature of every other one."""
    X, target = WIDE
    X = X.copy()
    X[5] *= 1e9
    X[7] = X[8]
    given = problem("softmax", data=(X, target))
    found = m3svm.solve(given, Stop(1e-6, 300))
    monkeypatch.setattr(m3svm, "span_of", lambda _: None)
    whole = m3svm.solve(given, Stop(1e-6, 300))
    assert spans[0] is not None and found.objective <= whole.objective * (1 + 1e-6)
    L = spans[0].problem.X
    sizes = np.linalg.norm(X, axis=1)
    assert np.all(np.linalg.norm(L, axis=1)[sizes > 0] <= sizes[sizes > 0] * (1 + 1e-12))
    assert np.linalg.norm(L[3]) <= 1e-6 * sizes[sizes > 0].min()  # the empty row


def test_a_start_that_is_a_solution_has_no_span(spans):
    """Columns that are constant leave nothing to learn from classes of the same size."""
    data = np.ones((20, 400)), np.repeat(np.arange(4), 5)
    for loss in ("pairwise", "softmax"):  # of the hinge rounding is left
        found = m3svm.solve(problem(loss, data=data), Stop(1e-8, 300))
        assert found.converged and found.iterations == 0
    assert not spans


def test_what_ends_higher_outside_is_not_taken(spans, monkeypatch):
    X, target = WIDE
    given, told = problem(data=(X, target)), []
    stop = Stop(1e-6, 300)
    known = m3svm.solve(given, stop)
    monkeypatch.setattr(span.Span, "outside", lambda _self, _U: np.full((400, 4), 1e3))
    found = m3svm.solve(given, stop, progress=lambda now: told.append(now))
    assert found.converged and found.iterations > known.iterations
    assert found.objective == pytest.approx(known.objective, rel=1e-6)
    assert max(now.primal for now in told) < 1e6


def test_steps_in_the_span_count(spans):
    X, target = WIDE
    for count in (1, 3):
        found = m3svm.solve(problem(data=(X, target)), Stop(1e-9, count))
        assert found.iterations == count and not found.converged
    assert all(spans)


def test_where_it_is_worth_it():
    assert span.is_worth(20, 400, 8000) and span.is_worth(400, 1024, 400_000)
    # Sparse rows of many examples are read faster than L is.
    assert span.is_worth(1000, 55_000, 160_000) and not span.is_worth(3000, 8000, 150_000)
    assert not span.is_worth(60, 5, 300) and not span.is_worth(60, 119, 7140)
    assert span.is_worth(60, 120, 7200)
    assert span.is_worth(2000, 10**6, 10**8) and not span.is_worth(2001, 10**6, 10**8)
    assert span.span_of(problem()) is None
    assert [span.planned_side(*shape) for shape in (
        (20, 400, 8000), (3000, 10**6, 10**9), (60, 100, 6000), (1900, 4000, 76_000),
    )] == [20, 2000, 50, 538]  # fmt: skip
    X, target = WIDE
    assert span.span_of(problem(data=(np.zeros_like(X), target))) is None  # no factor
