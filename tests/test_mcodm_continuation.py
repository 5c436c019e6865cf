"""mcODM from small to large lambda."""

import contextlib

import mcodm_problems
import numpy as np
import pytest
from scipy import sparse

from odmtool.core import deadline, losses
from odmtool.errors import DivergedError
from odmtool.solvers.base import Stop
from odmtool.solvers.mcodm import auto, continuation, rounds, way
from odmtool.solvers.mcodm.way import Way, choose, curvature
from odmtool.solvers.multi import MultiProblem


def problem(lambda_=2.0**12, m=30, d=20, k=3, scale=100.0, seed=0):
    """Few examples with features of some hundred."""
    generator = np.random.default_rng(seed)
    X = scale * generator.uniform(0.1, 3, (m, d))
    weight = generator.uniform(0.5, 2, m)
    loss = losses.mcodm(lambda_, 0.2, 0.2, weight.sum())
    return MultiProblem(X, None, generator.integers(0, k, m), k, weight, loss)


@pytest.mark.parametrize("lambda_", [2.0**6, 2.0**12, 2.0**20])
def test_large_numbers_and_a_large_lambda(lambda_):
    """From 0 the same method takes more steps, and at the largest has not converged after 300."""
    p = problem(lambda_, m=60, d=40)
    found = auto.solve(p, Stop(1e-3, 2000))
    judged = mcodm_problems.certificate(p, found)
    assert found.converged and judged.gap <= found.gap <= 1e-3 and judged.infeasibility < 1e-12
    assert judged.primal == pytest.approx(judged.objective) == pytest.approx(found.objective)
    assert found.solver == "newton" and found.iterations < 120
    if lambda_ > 2**6:
        from_zero = rounds.solve(p, Stop(1e-3, 300), Way(0), starts=1)
        assert from_zero.iterations > found.iterations
        assert not (from_zero.converged and lambda_ == 2**20)


def test_sparse_rows_become_an_array():
    p = problem()
    expected = auto.solve(p, Stop(1e-3, 2000))
    found = auto.solve(p._replace(X=sparse.csr_matrix(p.X)), Stop(1e-3, 2000))
    np.testing.assert_allclose(found.W, expected.W, rtol=1e-6, atol=1e-9)


def test_shares_of_lambda():
    p = problem()
    c = np.mean(p.weight * (p.X**2).sum(axis=1)) * 2 * p.parameters.c1
    assert curvature(p) == pytest.approx(c)
    shares = continuation.shares(p)
    assert shares[-1] == 1.0 and 1 / 16 < shares[0] * c <= 1
    assert np.allclose(np.divide(shares[1:], shares[:-1]), 16)
    first = continuation.with_share(p, shares[0])
    assert curvature(first) == pytest.approx(shares[0] * c)
    assert first.parameters.c2 / first.parameters.c1 == pytest.approx(0.2)
    assert first.parameters.theta == 0.2 and first.X is p.X
    assert continuation.shares(problem(1e-9)) == [1.0]


def test_each_solution_is_the_next_start(monkeypatch):
    p, asked, usual = problem(), [], rounds.solve

    def solve(q, stop, chosen, **options):
        found = usual(q, stop, chosen, **options)
        asked.append((q, stop, options["start"], options["W"], found))
        assert options["starts"] == 1 and options["seed"] == 7 and chosen == Way(0)
        return found

    monkeypatch.setattr(rounds, "solve", solve)
    told = []
    found = continuation.solve(p, Stop(1e-4, 500), Way(0), seed=7, progress=told.append)
    assert [curvature(q) / curvature(p) for q, *_ in asked] == pytest.approx(
        continuation.shares(p)
    )
    assert asked[0][2] is asked[0][3] is None
    for before, after in zip(asked, asked[1:], strict=False):
        assert after[2] is before[4].duals and after[3] is before[4].W
    tolerances = [stop.tolerance for _, stop, *_ in asked]
    assert tolerances == [1e-2] * (len(asked) - 1) + [1e-4]
    steps = [one[4].iterations for one in asked]
    assert [stop.limit for _, stop, *_ in asked] == [
        500 - sum(steps[:i]) for i in range(len(steps))
    ]
    assert found.iterations == sum(steps)
    # Iterations count on, and the objective is told of the last lambda only.
    numbers = [known.iteration for known in told]
    assert numbers == sorted(numbers) and numbers[-1] == sum(steps)
    last = [known for known in told if known.primal is not None]
    assert [known.primal for known in last] == [one.objective for one in found.rounds]
    assert all(known.margins is not None for known in last)
    assert all(k.margins is None for k in told[: told.index(last[0])])


def test_the_point_that_goes_with_the_duals():
    """Not that which the duals make, where steep losses are others."""
    p = problem(2.0**26, m=12, d=8)
    first = rounds.solve(continuation.with_share(p, 1e-3), Stop(1e-2, 200), Way(0), starts=1)
    told = []
    rounds.solve(
        p, Stop(1e-3, 0), Way(0), start=first.duals, W=first.W, progress=told.append
    )
    at = mcodm_problems.certificate(p, first._replace(duals=first.duals)).objective
    assert told[0].primal == pytest.approx(at, rel=1e-9)
    told.clear()
    rounds.solve(p, Stop(1e-3, 0), Way(0), start=first.duals, progress=told.append)
    assert told[0].primal != pytest.approx(at, rel=1e-6)


@pytest.mark.parametrize("limit", [0, 1, 9])
def test_without_iterations_it_ends_with_the_point_that_there_is(limit):
    p = problem(2.0**16, m=60, d=40)
    found = auto.solve(p, Stop(1e-3, limit))
    assert found.iterations <= limit and not found.converged
    at_zero = p.parameters.c1 * p.weight.sum() * 0.8**2
    assert found.objective <= at_zero * (1 + 1e-9)
    judged = mcodm_problems.certificate(p, found)
    assert found.objective == pytest.approx(judged.objective, rel=1e-9)


def test_after_the_deadline_it_ends_with_the_point_that_there_is():
    p = problem()
    with deadline.time_limit(0.0):
        found = auto.solve(p, Stop(1e-3, 2000))
    assert found.iterations == 0 and not found.converged
    assert found.objective <= p.parameters.c1 * p.weight.sum() * 0.8**2 * (1 + 1e-9)


@pytest.mark.parametrize("change, solver, outer, expected", [
    ({}, "auto", "cccp", True), ({}, "newton", "cccp", True), ({}, "dcd", "cccp", False),
    ({}, "auto", "constant", False), ({"m": 41}, "auto", "cccp", False),
    ({"m": 40}, "auto", "cccp", True), ({"scale": 1.0}, "auto", "cccp", False),
    ({"d": 667}, "auto", "cccp", False), ({"d": 666}, "auto", "cccp", True),
])  # fmt: skip
def test_which_problems_are_continued(change, solver, outer, expected):
    p = problem(2.0**12, **change)
    assert choose(p, solver, outer).is_continued == expected


def test_only_steep_linear_problems_are_continued(monkeypatch):
    p = problem()
    for share, expected in ((0.999, True), (1.001, False)):
        monkeypatch.setattr(way, "_STEEP", share * curvature(p))
        assert choose(p).is_continued == expected
    assert not choose(mcodm_problems.problem("rbf")).is_continued


@pytest.mark.parametrize("lambda_", [1e100, 1e300])
def test_a_lambda_beyond_all_numbers_is_no_problem_to_continue(lambda_):
    """The curvature of the last is infinite, for which there is no number of lambdas."""
    with np.errstate(over="ignore"):
        p = problem(lambda_, m=60, d=40, k=4, scale=1e10)
    assert curvature(p) > 1e60 and not way.is_steep(p) and not choose(p).is_continued
    with contextlib.suppress(DivergedError):  # and no other error
        auto.solve(p, Stop(1e-3, 5))
