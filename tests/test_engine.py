"""The kernel engine: every way to a certificate ends near the optimum, with the judge's consent."""

import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from engine_problems import KERNELS, LOSSES, far_examples, forced, judged, own_matrix, problem_of

from odmtool.core import deadline
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.rows import tiles
from odmtool.rows.executor import local_executor
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.engine import brought, certificate, choice, cost, sample, solve, thinned


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_solutions_are_certified(kernel, loss, dense):
    problem = problem_of(
        KERNELS[kernel], loss, 2.0**6, weighted=True, dense=dense, repeated=40
    )  # fmt: skip
    solution = solve.solve(problem, Stop(1e-3, 100))
    assert solution.converged and solution.gap <= 1e-3
    # The coefficients of landmarks are no duals.
    duals = solution.eta if solution.solver == "landmarks" else solution.coef
    assert solution.warm_start is duals
    truth = judged(problem, solution.coef, solution.eta)
    assert solution.primal == pytest.approx(truth.primal, rel=1e-9)
    assert truth.gap <= solution.gap * (1 + 1e-9)


@pytest.mark.parametrize(
    "way, gamma, counts",
    [("drawn", 0.005, [20, 100]), ("drawn", 0.02, [20]), ("exact", 0.01, []),
     ("full", 2.0, [])],
)
def test_features_of_some_examples_are_enough(way, gamma, counts, monkeypatch):
    """Where features of few are kept; ever more rows are drawn while they may prove it.

    Where they tell that the gap is larger, with gamma .02, there are no more, and no pass.
    """
    if gamma == 0.005:
        bounds = certificate.bounds
        monkeypatch.setattr(certificate, "free", lambda point, left: np.inf)
        monkeypatch.setattr(certificate, "bounds", lambda points, basis, drawn, count, delta: (
            [np.inf] * len(points) if count < 100 else bounds(points, basis, drawn, count, delta)
        ))  # fmt: skip
    monkeypatch.setattr(choice, "_ways", lambda *_: [choice.Choice(way, 0.0, 20)])
    for module in (cost, sample, solve, thinned):
        monkeypatch.setattr(module, "MOST", 150)
    monkeypatch.setattr(sample, "_SAMPLE", 100)
    kept, solve_some = [], thinned.solve
    monkeypatch.setattr(thinned, "solve", lambda *a: kept.append(a[1]) or solve_some(*a))
    draws, draw = [], certificate.outsides
    monkeypatch.setattr(certificate, "outsides", lambda *a: draws.append(a[3]) or draw(*a))
    m = 1000 if way == "drawn" else 600
    problem = problem_of(Kernel("rbf", gamma), "odm", 2.0**10, m, weighted=True, dense=True)
    X = problem.gram.X
    problem = problem._replace(gram=Gram(problem.gram.kernel, X, 1e8))
    Y = [problem.y, np.where(X[:, 0] > np.median(X[:, 0]), 1.0, -1.0)]
    solutions = solve.solve_all([problem._replace(y=y) for y in Y], Stop(1e-3, 100))
    assert {len(Z) for Z in kept} == {150}
    assert draws[:2] == counts
    K = own_matrix(problem)
    for y, solution in zip(Y, solutions, strict=True):
        assert solution.converged and (way == "exact") <= (solution.solver == "landmarks")
        assert (way == "full") <= (solution.solver == "landmarks, then newton")
        truth = judged(problem._replace(y=y), solution.coef, solution.eta, K)
        assert truth.gap <= solution.gap * (1 + 1e-6) <= 1e-3 * (1 + 1e-6)
        assert truth.primal == pytest.approx(solution.primal, rel=1e-9)


def test_steps_of_a_pass_each_go_on_while_any_problem_is_lower(monkeypatch):
    """Those that are not stay where they are; every pass is a step."""
    primals = iter([(10.0, 10.0), (9.0, 10.0), (9.0, 8.0), (9.0, 8.0)])

    def evaluated(*_, **_named):
        return [SimpleNamespace(inside=1, scale=1, primal=p, crossed=[1.0]) for p in next(primals)]

    monkeypatch.setattr(thinned, "solve_in_span", lambda *_: (np.zeros((1, 2)), 3, None))
    monkeypatch.setattr(certificate, "evaluate", evaluated)
    monkeypatch.setattr(thinned, "directions", lambda *_: np.ones((1, 2)))
    basis = SimpleNamespace(points=SimpleNamespace(executor=None), inverse=np.eye(1))
    some = SimpleNamespace(rows=lambda rows: None)
    W, points, steps = thinned.solve(basis, None, None, some, None, 0.5)
    assert W.tolist() == [[1.0, 1.0]] and steps == 3 + 3
    assert [point.primal for point in points] == [9.0, 8.0]


def test_a_pass_for_a_step_that_is_given_up_leaves_the_point_before(monkeypatch):
    def evaluated(*_, may_end=False):
        if may_end:
            raise deadline.Exceeded
        return [SimpleNamespace(inside=1, scale=1, primal=10.0, crossed=[1.0])]

    monkeypatch.setattr(thinned, "solve_in_span", lambda *_: (np.zeros((1, 1)), 3, None))
    monkeypatch.setattr(certificate, "evaluate", evaluated)
    monkeypatch.setattr(thinned, "directions", lambda *_: np.ones((1, 1)))
    basis = SimpleNamespace(points=SimpleNamespace(executor=None), inverse=np.eye(1))
    some = SimpleNamespace(rows=lambda rows: None)
    W, [point], steps = thinned.solve(basis, None, None, some, None, 0.5)
    assert W.tolist() == [[0.0]] and steps == 3 and point.primal == 10.0


@pytest.mark.parametrize("way, gamma", [("full", 2.0), ("drawn", 0.02)])
def test_problems_side_by_side(way, gamma, monkeypatch):
    """One class against the rest: each is certified as if it were alone, for any -j."""
    forced(way, monkeypatch)
    monkeypatch.setattr(tiles, "_ROWS", 100)
    whole = problem_of(Kernel("rbf", gamma), "odm", 2.0**10, 300, weighted=True, repeated=30)
    classes = np.digitize(whole.gram.X[:, 0], [-1.0, 0.0, 1.0])
    problems = [whole._replace(y=np.where(classes == k, 1.0, -1.0)) for k in range(4)]
    found = solve.solve_all(problems, Stop(1e-3, 100))
    for problem, one in zip(problems, found, strict=True):
        truth = judged(problem, one.coef, one.eta)
        assert one.converged and truth.gap <= one.gap * (1 + 1e-6) <= 1e-3 * (1 + 1e-6)
        assert one.primal == pytest.approx(truth.primal, rel=1e-9)
        assert (one.solver == "landmarks, then newton") == (way == "full")
    again = solve.solve_all(problems, Stop(1e-3, 100), executor=local_executor(2))
    assert all(np.array_equal(a.coef, b.coef) for a, b in zip(found, again, strict=True))


@pytest.mark.parametrize("way", ["free", "drawn", "exact"])
def test_a_way_that_does_not_reach_the_tolerance_is_left(way, monkeypatch):
    forced(way, monkeypatch)
    problem = problem_of(Kernel("rbf", 2.0), "odm", 2.0**12, 300)
    solution = solve.solve(problem, Stop(1e-3, 100))
    assert solution.converged
    assert judged(problem, solution.coef, solution.eta).gap <= 1e-3


def test_a_sample_serves_all(monkeypatch):
    """Landmarks and forecast from a sample, features and certificate of all examples."""
    monkeypatch.setattr(sample, "_SAMPLE", 200)
    problem = problem_of(Kernel("rbf", 0.02), "odm", 2.0**8, 600)
    solution = solve.solve(problem, Stop(1e-3, 100))
    assert solution.converged and solution.solver == "landmarks"
    assert judged(problem, solution.coef, solution.eta).gap <= solution.gap * (1 + 1e-9)
    assert solution.support_count < 300


@pytest.mark.parametrize("most", [300, 600])
def test_the_objective_of_many_examples_is_told_before_it_is_proved(most, monkeypatch):
    monkeypatch.setattr(sample, "_SAMPLE", 200)
    monkeypatch.setattr(solve, "MOST", most)
    told, problem = [], problem_of(Kernel("rbf", 0.02), "odm", 2.0**8, 600)
    solution = solve.solve(problem, Stop(1e-3, 100), progress=told.append)
    assert {state.primal for state in told} == {solution.primal}
    gaps = [solution.gap] if most == 600 else [np.nan, solution.gap]
    np.testing.assert_array_equal([state.gap for state in told], gaps)


def test_features_of_some_examples_are_gone_before_those_of_all_are_made(monkeypatch):
    """They are most of the memory of a problem where landmarks are not enough."""
    for module in (cost, sample, solve, thinned):
        monkeypatch.setattr(module, "MOST", 150)
    monkeypatch.setattr(sample, "_SAMPLE", 100)
    monkeypatch.setattr(choice, "STAGES", (48, 96))
    make, made = solve.features, []

    def noted(basis, **options):
        assert all(Z() is None for Z in made)
        found = make(basis, **options)
        made.append(weakref.ref(found.Z))
        return found

    monkeypatch.setattr(solve, "features", noted)
    problem = problem_of(Kernel("rbf", 0.3), "odm", 2.0**14, 600)
    assert solve.solve(problem, Stop(1e-3, 100)).solver == "landmarks, then newton"
    assert len(made) == 2


def test_a_pass_proves_what_the_free_bound_does_not_where_landmarks_end(monkeypatch):
    monkeypatch.setattr(sample, "_SAMPLE", 200)
    problem = far_examples(600, 3, 2.0**4)
    solution = solve.solve(problem, Stop(1e-3, 40))
    assert solution.solver == "landmarks" and solution.converged
    assert judged(problem, solution.coef, solution.eta).gap <= solution.gap * (1 + 1e-6)


@pytest.mark.parametrize("far, lambda_", [(3, 2.0**12), (30, 2.0**12), (60, 2.0**16)])
def test_few_examples_far_from_the_sample_become_landmarks(far, lambda_, monkeypatch):
    monkeypatch.setattr(sample, "_SAMPLE", 500)
    problem = far_examples(2000, far, lambda_)
    told, bring = [], sample.DrawnExamples.bring

    def seen(self, rows, left, basis, columns):
        known, before = self._rows.copy(), self.members
        found = bring(self, rows, left, basis, columns)
        told.append((found, known, before, self.members, self._rows.copy(), self._columns.weight))
        return found

    monkeypatch.setattr(sample.DrawnExamples, "bring", seen)
    solution = solve.solve(problem, Stop(1e-3, 100))
    assert solution.solver == "landmarks" and solution.converged
    K = own_matrix(problem)
    assert judged(problem, solution.coef, solution.eta, K).gap <= solution.gap * (1 + 1e-6)
    found, known, before, members, rows, weight = told[0]
    # No landmark is lost, no example is there twice, and the weights are still those of all.
    assert found and np.array_equal(before, members) and len(np.unique(rows)) == len(rows) == 500
    assert weight.sum() == pytest.approx(2000)
    is_new = ~np.isin(rows, known)
    assert np.all(weight[is_new] == 1.0) and np.median(weight[~is_new]) > 3.9
    # Those that are far from the others are among the landmarks now.
    lonely = rows[is_new][(K[rows[is_new]] > 0.5).sum(axis=1) == 1]
    assert lonely.size and np.all(solution.coef[lonely] != 0)
    monkeypatch.setattr(brought, "_MOST", 0.0)
    assert solve.solve(problem, Stop(1e-3, 100)).solver == "landmarks, then newton"


def test_examples_are_brought_while_that_helps(monkeypatch):
    """Few must make the gap, which must have fallen to a tenth."""
    problem, m = far_examples(2000, 3, 2.0**12), 2000
    monkeypatch.setattr(sample, "_SAMPLE", 500)
    met, bring = [], solve.EngineRun._bring

    def seen(self, gap, points, basis, found):
        with monkeypatch.context() as patch:
            patch.setattr(self.sample, "bring", lambda rows, *_: rows)
            before = self._brought
            met.append(bring(self, gap, points, basis, found))
            assert bring(self, gap, points, basis, found) == 0
            assert np.array_equal(bring(self, gap / 20, points, basis, found), met[-1])
            self._brought = before
            even = found._replace(left=np.full(m, basis.error + 1e-3))
            assert bring(self, gap, points, basis, even).size == 0
            self._brought = before
            none = found._replace(left=np.full(m, basis.error))
            assert bring(self, gap, points, basis, none).size == 0
            self._brought = before
            # What is left of the others is looked at where it is not known.
            again = bring(self, gap, points, basis, found._replace(left=None))
            assert np.array_equal(again, met[-1])
            self._brought = before
        return bring(self, gap, points, basis, found)

    monkeypatch.setattr(solve.EngineRun, "_bring", seen)
    solution = solve.solve(problem, Stop(1e-3, 100))
    assert solution.solver == "landmarks"
    K = own_matrix(problem)
    lonely = np.flatnonzero((K > 0.5).sum(axis=1) == 1)
    # No more than it takes: a sixteenth of the sample would be 31.
    assert 0 < len(met[0]) < 20 and np.isin(met[0], lonely).any()


def test_threads_change_nothing(monkeypatch):
    problem = problem_of(KERNELS["rbf"], "odm", 2.0**10, 700)
    one = solve.solve(problem, Stop(1e-4, 100), seed=5)
    two = solve.solve(problem, Stop(1e-4, 100), seed=5, executor=local_executor(2))
    assert np.array_equal(one.coef, two.coef) and one.gap == two.gap


def test_problems_that_are_too_many_for_the_memory_come_one_after_the_other(monkeypatch):
    whole = problem_of(Kernel("rbf", 0.02), "odm", 2.0**6, 300, weighted=True)
    classes = np.digitize(whole.gram.X[:, 0], [-1.0, 0.0, 1.0])
    problems = [whole._replace(y=np.where(classes == k, 1.0, -1.0)) for k in range(3)]
    told = []
    monkeypatch.setattr(solve, "together", lambda m, q, memory: min(q, 2))
    found = solve.solve_all(problems, Stop(1e-3, 100), seed=5, progress=told.append)
    parts = [problems[:2], problems[2:]]
    alone = [one for part in parts for one in solve.solve_all(part, Stop(1e-3, 100), seed=5)]
    assert len(found) == 3 and told
    assert all(np.array_equal(a.coef, b.coef) for a, b in zip(found, alone, strict=True))


def test_no_landmarks_are_chosen_among_the_rounding_errors_of_large_features(monkeypatch):
    """They would magnify these in every bound until nothing was proved."""
    random = np.random.default_rng(0)
    X = np.column_stack([np.exp(random.normal(10, 1.2, 4000)), random.normal(40, 13, 4000)])
    y = np.where(np.log(X[:, 0]) + X[:, 1] / 20 + random.normal(0, 1, 4000) > 12, 1.0, -1.0)
    gram = Gram(Kernel("rbf", 2 / X.var(axis=0).sum()), X)
    problem = Problem(None, gram, y, np.ones(4000), LOSSES["odm"](4000.0, 4000))
    monkeypatch.setattr(sample, "_SAMPLE", 800)
    solution = solve.solve(problem, Stop(1e-3, 100))
    assert solution.solver == "landmarks" and solution.converged
    truth = judged(problem, solution.coef, solution.eta, own_matrix(problem))
    assert truth.gap <= solution.gap
