"""mcODM's starts: warm ones, several, those of other rivals; seeds, and what is told on the way."""

import weakref
from pathlib import Path

import numpy as np
import pytest
from mcodm_problems import assert_confirmed, never_rises, problem, solve
from scipy import sparse

from odmtool.core import losses
from odmtool.errors import DivergedError
from odmtool.io.svmlight import read_svmlight
from odmtool.solvers.base import Stop
from odmtool.solvers.mcodm import auto as mcodm
from odmtool.solvers.mcodm import hessian, rounds, starts
from odmtool.solvers.mcodm.hessian import RowsNewton
from odmtool.solvers.mcodm.starts import other_rivals
from odmtool.solvers.mcodm.way import Way
from odmtool.solvers.multi import Duals, MultiProblem
from odmtool.solvers.rounding import Rounding

DATA = Path(__file__).parent.parent / "data"


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_warm_start_needs_less_work(kernel):
    first = solve(problem(kernel), 1e-6)
    p = problem(kernel, lambda_=2.0**5 * 1.1)
    warm, cold = solve(p, 1e-6, start=first.duals, solver="dcd"), solve(p, 1e-6, solver="dcd")
    assert_confirmed(p, warm, 1e-6)
    assert warm.iterations < cold.iterations
    assert never_rises(warm)
    again = solve(problem(kernel), 1e-6, start=first.duals)
    assert again.objective <= first.objective * (1 + 1e-9)


def test_start_is_not_changed():
    first = solve(problem(), 1e-6)
    before = [field.copy() for field in first.duals]
    solve(problem(lambda_=2.0**8), 1e-6, start=first.duals)
    for field, kept in zip(first.duals, before, strict=True):
        assert np.array_equal(field, kept)


def test_progress_tells_epochs_and_rounds():
    seen = []
    solution = solve(problem(), 1e-6, progress=seen.append)
    ends = [(p.iteration, p.primal) for p in seen if p.primal is not None]
    # Of other starts, too.
    assert {(r.epochs, r.objective) for r in solution.rounds} <= set(ends)
    iterations = [p.iteration for p in seen if p.primal is None]
    starts = iterations.count(1)
    assert starts > 1 and sorted(set(iterations)) == list(range(1, max(iterations) + 1))
    assert solution.iterations in iterations


def test_several_starts_end_lower_than_one():
    generator, m = np.random.default_rng(26), 60
    target = np.arange(m) % 4
    X = generator.standard_normal((4, 6))[target] + 0.5 * generator.standard_normal((m, 6))
    X = sparse.csr_matrix((X - X.min(axis=0)) / np.ptp(X, axis=0))
    loss = losses.mcodm(2.0**14, 0.2, 0.2, float(m))
    p, stop = MultiProblem(X, None, target, 4, np.ones(m), loss), Stop(1e-3, 2000)
    several, one = mcodm.solve(p, stop), mcodm.solve(p, stop, starts=1)
    assert_confirmed(p, several, 1e-3)
    assert several.objective < 0.9 * one.objective


def test_starts_leave_the_poor_ends_of_wine():
    """With few, little disturbed new rivals all of these seeds end 2.6 to 4 % above the least."""
    parts = [read_svmlight(str(DATA / f"wine.{part}")) for part in ("train", "test")]
    order = np.random.default_rng(1).permutation(178)
    X = np.vstack([part.X.toarray() for part in parts])[order]
    labels = np.concatenate([part.labels for part in parts])[order]
    X = sparse.csr_matrix((X - X.min(axis=0)) / np.ptp(X, axis=0))
    target, loss = np.unique(labels, return_inverse=True)[1], losses.mcodm(2.0**14, 0.2, 0.2, 178.0)
    p = MultiProblem(X, None, target, 3, np.ones(178), loss)
    ends = [mcodm.solve(p, Stop(1e-3, 2000), seed=seed).objective for seed in range(4)]
    assert np.median(ends) < 1.005 * 1366.1


def test_other_rivals_are_the_second_best_of_examples_that_are_held_down():
    p, m, k = problem(), problem().size, problem().k
    scores = np.random.default_rng(0).standard_normal((m, k))
    others = np.where(np.arange(k) == p.target[:, None], -np.inf, scores)
    second, rival = np.argsort(others, axis=1)[:, -2:].T
    beta = np.where(np.arange(m) % 2, 1.0, 0.0)
    # The constraint of one costs far more than all others, and a rise of 0 takes its place.
    beta[7], scores[9, second[9]] = 1e9, scores[9, rival[9]]
    duals = Duals(np.zeros((m, k)), beta, rival, np.ones(m))
    seen = [other_rivals(p, duals, scores, 0, number) for number in range(1, 7)]
    for rivals in seen:
        changed = rivals != rival
        assert 2 <= changed.sum() <= 1 + 0.4 * np.count_nonzero(beta)
        assert changed[[7, 9]].all() and not changed[beta == 0].any()
        assert np.array_equal(rivals[changed], second[changed])
    assert len({tuple(rivals) for rivals in seen}) > 3
    assert other_rivals(p, duals._replace(beta=0 * beta), scores, 0, 1) is None


def test_same_seed_same_solution():
    a, b, c = (solve(problem(), solver="dcd", seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(a.W, b.W) and not np.array_equal(a.W, c.W)


def test_one_start_at_a_time_has_factors(monkeypatch):
    """They are most of the memory of a problem with a kernel."""
    make, made = RowsNewton._preconditioner, []

    def noted(self):
        owner = vars(self).setdefault("number", len(made))
        assert all(factor() is None for other, factor in made if other != owner)
        found = make(self)
        made.append((owner, weakref.ref(found)))
        return found

    monkeypatch.setattr(RowsNewton, "_preconditioner", noted)
    monkeypatch.setattr(hessian, "_EXACT", 0)
    rounds.solve(problem(), Stop(1e-3, 2000), Way(0))
    assert len({owner for owner, _ in made}) > 1


class Start:
    """Runs of the rounds that end as they are told to; its end holds all down as none does."""

    begins_near = False
    duals = Duals(None, np.ones(60), np.full(60, -5), None)

    def __init__(
        self, name, objective, *, ends=None, converged=True, finished=True, fails=False, leads=False
    ):  # fmt: skip
        self.name, self.objective, self._ends = name, objective, ends
        self.converged, self.is_finished, self.point = converged, finished, f"point of {name}"
        self._fails, self._leads, self.rivals = fails, leads, []

    def scores(self):
        return f"scores of {self.name}"

    def run(self, best=None):
        if self._fails:
            raise DivergedError("overflow")
        self.rivals.append(best and best.name)
        if best is None and self._ends is not None:
            self.objective, self.is_finished = self._ends, True
        return self._leads


def lowest(monkeypatch, first, others, count, none_from=99):
    asked, begun, coming = [], [], list(others)

    def other_rivals(_problem, _duals, scores, seed, number):
        asked.append(scores.removeprefix("scores of "))
        assert (number, seed) == (len(asked), 7)
        return None if number >= none_from else f"rivals {number}"

    def begin(duals, rivals, W):
        begun.append((duals, rivals, W))
        return coming.pop(0)

    monkeypatch.setattr(starts, "other_rivals", other_rivals)
    found = starts.lowest_end(first, begin, problem(), 7, count)
    named = begun[first.begins_near :]
    assert named == [
        (Start.duals, f"rivals {number}", f"point of {asked[number - 1]}")
        for number in range(1, len(named) + 1)
    ]
    return found.name, asked


def test_the_lowest_of_several_starts(monkeypatch):
    """Each goes on from the best so far; one that falls behind is not worked on."""
    behind = Start("behind", 8.0, finished=False)
    lower = Start("lower", 6.0, ends=5.0, finished=False)
    same = Start("same", 5.0)
    found = lowest(monkeypatch, Start("first", 7.0), [behind, lower, same, Start("no", 1)], 4)
    assert found == ("lower", ["first", "first", "lower"])
    assert behind.rivals == ["first"] and same.rivals == ["lower"]
    assert lower.rivals == ["first", None]
    assert lowest(monkeypatch, Start("first", 7.0), [Start("no", 1)], 1) == ("first", [])


def test_after_least_squares_comes_a_start_that_names_no_rivals(monkeypatch):
    first, unnamed = Start("first", 7.0), Start("unnamed", 6.0)
    first.begins_near = True
    others = [unnamed, Start("other", 8.0), Start("no", 1)]
    assert lowest(monkeypatch, first, others, 2) == ("unnamed", ["unnamed"])


def test_starts_that_lead_back_end_the_search(monkeypatch):
    """Three of them, one after the other."""
    back = [Start("back", 8.0, leads=True) for _ in range(5)]
    away, no = Start("away", 8.0), Start("no", 1)
    assert lowest(monkeypatch, Start("first", 7.0), [*back[:3], no], 7) == ("first", ["first"] * 3)
    others = [*back[:2], away, *back[2:], no]
    assert lowest(monkeypatch, Start("first", 7.0), others, 9) == ("first", ["first"] * 6)


def test_what_ends_the_search_for_the_lowest(monkeypatch):
    first, last = Start("first", 7.0), Start("last", 1.0)
    unsolved = Start("unsolved", 3.0, converged=False)
    assert lowest(monkeypatch, unsolved, [last], 4) == ("unsolved", [])
    assert lowest(monkeypatch, first, [unsolved, last], 4) == ("first", ["first"])
    failing = Start("failing", 3.0, fails=True)
    assert lowest(monkeypatch, first, [failing, last], 4) == ("first", ["first"])
    assert lowest(monkeypatch, first, [last], 4, none_from=1) == ("first", ["first"])
    # What is not finished, because it fell behind, does not end it.
    behind = Start("behind", 8.0, converged=False, finished=False)
    assert lowest(monkeypatch, first, [behind, last], 3) == ("last", ["first", "first"])


@pytest.mark.parametrize("differing, expected", [(0, True), (2, True), (3, False)])
def test_a_start_leads_to_the_end_that_has_its_rivals(differing, expected):
    """Those of examples that are held down there, but for one in a hundred."""
    beta, rival = np.repeat([1.0, 0.0], [200, 50]), np.zeros(250, dtype=int)
    end = Duals(None, beta, rival, None)
    other = Duals(None, 0 * beta, np.where(np.arange(250) < 200, 0, 1), None)
    other.rival[:differing] = 2
    assert starts.leads_to(other, end) == expected


def test_another_start_begins_at_the_point_of_the_best(monkeypatch):
    """From the W that the duals and other rivals make it took two to three times as many steps."""
    p, begun, usual = problem(lambda_=2.0**8), [], rounds._Rounds.begin

    def begin(self, seed, start, rivals, W=None):
        usual(self, seed, start, rivals, W)
        begun.append((start, rivals, W, self._solver.W))

    monkeypatch.setattr(rounds._Rounds, "begin", begin)
    rounds.solve(p, Stop(1e-3, 2000), Way(0))
    (_, rivals, W, _), (duals, unnamed, _, _), *others = begun
    assert rivals is W is duals is None and np.all(unnamed == -1) and others
    for duals, rivals, W, at in others:
        assert duals is not None and rivals is not None and np.array_equal(W, at)


def test_a_start_is_given_up_by_the_falls_that_are_known():
    """Of two rounds at least, and then as soon as a dozen such falls would not be enough."""
    p, course = problem(lambda_=2.0**8), []
    features, rounding = (lambda: None), Rounding(None, p.X)

    def begun():
        found = rounds._Rounds(
            p, Stop(1e-6, 3000), "cccp", Way(0), course.append, features, rounding, None
        )
        found.begin(0, None, None)
        return found

    whole = begun()
    whole.run()
    assert whole.is_finished and whole.converged
    falls = -np.diff([now.objective for now in whole._rounds])
    for rival in (1e-9, whole.objective * 1.05, whole.objective * 2, np.inf):
        other, enough = begun(), 0.999 * rival
        assert not other.run(Start("rival", rival))
        known = zip([now.objective for now in whole._rounds[1:]], falls, strict=True)
        hopeless = [f - 12 * fall >= enough for f, fall in known]
        expected = hopeless.index(True) + 2 if True in hopeless else len(whole._rounds)
        assert len(other._rounds) == expected
        assert other.is_finished == (expected == len(whole._rounds))


def test_a_start_with_other_rivals_has_their_constraints():
    """From above f_y - f_l <= 1 + theta, and none where no rival is named."""
    p, none = problem(), (lambda: None)
    begun = rounds._Rounds(
        p, Stop(1e-6, 99), "cccp", Way(0), lambda now: None, none, Rounding(None, p.X), None
    )
    given = np.arange(60) % 5 - 1
    begun.begin(0, None, given)
    assert np.array_equal(begun.duals.rival, given)
    expected = np.where(given < 0, np.inf, 1 + p.parameters.theta)
    assert np.array_equal(begun.duals.upper, expected)
