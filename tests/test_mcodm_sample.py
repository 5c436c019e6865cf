"""The sample at whose solution mcODM's Newton method begins."""

import mcodm_problems
import numpy as np
import pytest

from odmtool.core import deadline, losses
from odmtool.judge import mcodm as judge
from odmtool.solvers.base import Stop
from odmtool.solvers.mcodm import auto, rounds, sample
from odmtool.solvers.mcodm.hessian import RowsNewton
from odmtool.solvers.multi import MultiProblem


def problem(m=1500, k=3, seed=0, long=1e3):
    """Rows of two features, few of which are ``long``; the last class has three examples."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((m, 2))
    X[5::301] *= long
    target = (X @ generator.standard_normal((2, k - 1)) + generator.standard_normal((m, k - 1)))
    target = target.argmax(axis=1)
    target[[7, 400, 800]] = k - 1
    weight = generator.uniform(0.5, 2, m)
    return MultiProblem(X, None, target, k, weight, losses.mcodm(2.0**8, 0.3, 0.2, weight.sum()))


def test_the_probability_of_a_row():
    """A seventh, or by leverage and by the rarity of its class."""
    p = problem()
    share = sample.probabilities(p)
    A = (p.X * p.weight[:, None]).T @ p.X
    leverage = p.weight * np.array([x @ np.linalg.solve(A, x) for x in p.X])
    expected = np.maximum(1, leverage * p.size / 2) / 7
    expected[p.target == 2] = 1.0
    np.testing.assert_allclose(share, np.minimum(1, expected), rtol=1e-8)
    assert np.all(share[5::301] == 1) and np.median(share) == 1 / 7


def test_rows_of_a_sample_count_for_those_that_are_left_out():
    p = problem()
    part, share = sample.sample_of(p), sample.probabilities(p)
    assert part.size == pytest.approx(share.sum(), abs=1) and part.size < p.size / 3
    at = [int(np.flatnonzero((x == p.X).all(axis=1))[0]) for x in part.X]
    assert at == sorted(set(at)) and set(np.flatnonzero(share == 1)) <= set(at)
    np.testing.assert_allclose(part.weight, p.weight[at] / share[at])
    assert np.array_equal(part.target, p.target[at]) and part.parameters == p.parameters
    # Sums over all rows are about those of the sample.
    whole, of_part = (q.X.T @ (q.X * q.weight[:, None]) for q in (p, part))
    np.testing.assert_allclose(of_part, whole, rtol=0.1)


def test_no_sample_where_numbers_overflow():
    p = problem()
    with np.errstate(over="ignore", invalid="ignore"):
        assert sample.sample_of(p._replace(X=p.X * 1e200)) is None
        assert sample.sample_of(p._replace(X=p.X * np.nan)) is None
    # A column of zeros and one that is there twice are none of that.
    X = np.column_stack([p.X, 0 * p.X[:, 0], p.X[:, 0]])
    assert sample.sample_of(p._replace(X=X)).size > 0


@pytest.mark.parametrize("m, d, k, has", [
    (420, 2, 3, True), (419, 2, 3, False), (420, 2, 4, False), (99, 0, 3, False),
])  # fmt: skip
def test_which_problems_have_a_sample(m, d, k, has):
    p = problem()
    q = p._replace(X=np.ones((m, d)), target=p.target[:m], k=k)
    assert sample.has_sample(q) == has


def test_duals_are_derivatives_of_the_true_losses():
    p = mcodm_problems.problem(dense=True)
    W = 2.0 * np.random.default_rng(1).standard_normal((p.X.shape[1], p.k))
    duals = sample.duals_at(p, W)
    judged = judge.certify_linear(p.X, p.target, p.weight, p.parameters, W, duals)
    assert judged.primal == pytest.approx(judged.objective) and judged.infeasibility < 1e-12
    assert duals.beta.any() and duals.alpha.any()
    gradient = W - p.X.T @ duals.coefficients(p.target)
    for place in ((0, 0), (2, 1), (4, 3)):
        ends = []
        for step in (1e-6, -1e-6):
            moved = W.copy()
            moved[place] += step
            known = p.target, p.weight, p.parameters, moved, duals
            ends.append(judge.certify_linear(p.X, *known).objective)
        assert gradient[place] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-6)


def solved(p, **options):
    return auto.solve(p, Stop(1e-6, 500), **{"starts": 1, **options})


def test_from_a_sample_steps_are_fewer_and_the_end_is_as_low(monkeypatch):
    p, sizes, usual = problem(m=6000), [], RowsNewton.__init__

    def noted(self, problem, duals, *arguments):
        sizes.append((problem.size, bool(duals.alpha.any())))
        usual(self, problem, duals, *arguments)

    monkeypatch.setattr(RowsNewton, "__init__", noted)
    found = solved(p)
    # A sample of the sample first, from nothing.
    assert [known for _, known in sizes] == [False, True, True]
    assert sizes[0][0] < 420 < sizes[1][0] < sizes[2][0] == p.size
    judged = mcodm_problems.certificate(p, found)
    assert found.converged and found.gap == pytest.approx(judged.gap, abs=1e-9)
    monkeypatch.setattr(rounds, "has_sample", lambda problem: False)
    without = solved(p)
    assert found.objective == pytest.approx(without.objective, rel=1e-3)
    assert found.iterations < without.iterations


def test_who_begins_at_no_sample(monkeypatch):
    """Who knows something, the paper's rounds, and steps that are not exact."""
    p = problem(m=1000)

    def refuse(_problem):
        raise AssertionError

    first = solved(p)
    monkeypatch.setattr(rounds, "sample_of", refuse)
    with pytest.raises(AssertionError):
        solved(p)
    assert solved(p, start=first.duals).converged
    solved(p, outer="constant")
    monkeypatch.setattr(rounds, "is_exact", lambda problem: False)
    solved(p)


def test_without_a_solution_of_the_sample_it_begins_as_ever(monkeypatch):
    p, usual = problem(m=1000), rounds.sample_of
    monkeypatch.setattr(rounds, "sample_of", lambda problem: None)
    expected = solved(p)
    for change in (1e300, np.nan):

        def changed(problem, change=change):
            found = usual(problem)
            return found._replace(weight=np.full(found.size, change))

        monkeypatch.setattr(rounds, "sample_of", changed)
        assert np.array_equal(solved(p).W, expected.W)


def test_after_the_deadline_nothing_is_lost():
    p = problem(m=6000)
    with deadline.time_limit(0.0):
        found = solved(p)
    assert not found.converged and np.isfinite(found.objective)
    assert found.gap == pytest.approx(mcodm_problems.certificate(p, found).gap, rel=1e-9)
