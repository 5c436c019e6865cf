"""Round by round: which problems of the kernel engine go on, with what, and which are done.

Gaps and choices are said beforehand, so that what follows from them shows.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from odmtool.core import deadline, losses
from odmtool.solvers.base import Stop
from odmtool.solvers.engine import certificate, full, shared, solve
from odmtool.solvers.engine.choice import Choice
from odmtool.solvers.engine.columns import Columns


def columns_of(q, m=6):
    return Columns.of(np.ones((q, m)), np.ones(m), losses.odm(8.0, 0.5, 0.2, float(m)))


class Rounds:
    """An engine's run of some problems, whose S is 2, with these gaps in every round."""

    def __init__(self, monkeypatch, *rounds, choices=("free",), is_full=False, space=None,
                 rise=0.0, inside=0.0, is_misled=False, is_better_left=True, brings=False,
                 further=(), is_sharpened=False, beyond=0.0):  # fmt: skip
        self.rounds, self.choices, self.space = iter(rounds), iter(choices), space
        self.first, self.rise, self.inside, self.beyond = 10.0, rise, inside, beyond
        self.asked, self.told, self.further, self.may_end = [], [], further, []
        q = len(rounds[0])
        run = self.run = object.__new__(solve.EngineRun)
        run.stop, run.iterations = Stop(0.25), 5
        run.cost = SimpleNamespace(
            _replace=lambda is_hidden: "cost, hidden" if is_hidden else "cost"
        )  # fmt: skip
        run.points = SimpleNamespace(size=6, executor=None)
        run._columns, run.Y = columns_of(q), np.arange(6.0 * q).reshape(q, 6)
        run._states, run._progress = [(0.0, np.inf, 0)] * q, self.told.append
        run._room = SimpleNamespace(tiles_beside=lambda Z, q: ("tiles", *Z.shape, q))
        run.sample = SimpleNamespace(
            landmarks=SimpleNamespace(members=[1, 2, 3], is_full=is_full), take=self.take,
            sharpens=lambda inside: is_sharpened and inside > 0.075 and self.sharpens(),
            is_hidden=False,
        )
        run._in_span, run._certify, run._solution = self.in_span, self.certify, self.solution
        run._of_all = lambda basis: SimpleNamespace(Z=np.zeros((6, 4)), of_all=True)
        run._space = lambda found, y: ("space", y.tolist(), found.of_all)
        monkeypatch.setattr(solve, "choose", self.choose)
        run._bring = lambda gap, points, basis, found: (
            self.asked.append(("bring", gap, [p.primal for p in points], basis, found.of_all))
            or 7 * brings
        )
        monkeypatch.setattr(solve, "is_misled", lambda choice, gap: (
            self.asked.append(("misled", choice.way, gap)) or is_misled
        ))  # fmt: skip
        monkeypatch.setattr(solve, "is_better_left", lambda choice, gap, *others: (
            self.asked.append(("better left", choice.way, gap, *others)) or is_better_left
        ))  # fmt: skip
        monkeypatch.setattr(full, "solve", self.solve_full)

    def choose(self, sample, cost, stop, *known):
        assert sample is self.run.sample and (cost, stop) == (self.run.cost, self.run.stop)
        self.asked.append(("choose", *known))
        return Choice(next(self.choices), 0.0)

    def take(self, left):
        self.asked.append(("take", left.tolist()))

    def in_span(self, choice, may_end):
        self.may_end.append(may_end)
        self.gaps = np.array(next(self.rounds))
        points = [
            SimpleNamespace(scale=2.0, primal=self.first + k, a=np.array([0.0, 1.0, k]),
                            inside=self.inside, rounding=0.125)
            for k in range(len(self.gaps))
        ]  # fmt: skip
        self.first += self.rise
        found = SimpleNamespace(Z=np.zeros((6 if self.space else 4, 3)), of_all=False)
        return points, "basis", found, self.space

    def certify(self, points, basis, found, choice):
        self.asked.append(("certify", len(points), basis, choice.way))
        return self.gaps, 0.125 * np.arange(len(points))

    def solution(self, j, point, basis, gap, failure):
        return SimpleNamespace(
            j=j, gap=gap / 2, coef=f"coef {j}", converged=gap / 2 <= 0.25, primal=point.primal,
            failure=failure, further=False,
        )  # fmt: skip

    def sharpens(self):
        is_new = not self.run.sample.is_hidden
        self.run.sample.is_hidden = True
        return is_new

    def solve_full(self, run, live, spaces, points, coefs, gaps, expected):
        assert run is self.run and run.sample is None
        self.asked.append(("full", live.tolist(), spaces, [p.primal for p in points], coefs,
                           gaps.tolist()))  # fmt: skip
        return [SimpleNamespace(gap=gap, converged=done, further=True, primal=self.beyond)
                for gap, done in self.further]  # fmt: skip

    def result(self):
        return self.run.result()


def test_all_problems_are_done_in_one_round(monkeypatch):
    rounds = Rounds(monkeypatch, [0.5, 0.25, 0.0])
    found = rounds.result()
    assert [(one.j, one.gap) for one in found] == [(0, 0.25), (1, 0.125), (2, 0.0)]
    assert [one.failure for one in found] == [0.0, 0.125, 0.25]
    assert rounds.asked == [("choose",), ("certify", 3, "basis", "free")]
    # Told are the sum and the worst, when there is a bound.
    [now] = rounds.told
    assert (now.iteration, now.primal, now.gap, now.active) == (5, 33.0, 0.25, 2)


def test_problems_that_are_not_done_go_on_with_more_landmarks(monkeypatch):
    rounds = Rounds(
        monkeypatch, [0.5, 0.75, 0.25, 1.0], [0.75, 0.5], [0.5], choices=["free"] * 3
    )  # fmt: skip
    found = rounds.result()
    assert [(one.j, one.gap) for one in found] == [(0, 0.25), (1, 0.25), (2, 0.125), (3, 0.25)]
    assert rounds.asked == [
        ("choose",), ("certify", 4, "basis", "free"), ("take", [1, 3]),
        ("misled", "free", 0.5), ("choose", 3, 0),
        ("certify", 2, "basis", "free"), ("take", [0]),
        ("misled", "free", 0.375), ("choose", 3, 0), ("certify", 1, "basis", "free"),
    ]  # fmt: skip
    assert rounds.run._columns.row.tolist() == [1]
    assert [now.gap for now in rounds.told] == [0.5, 0.375, 0.25]
    assert rounds.run._states[3] == (11.0, 0.25, 2)
    assert rounds.may_end == [False, True, True]


@pytest.mark.parametrize("stage", ["span", "features"])
def test_what_was_found_is_not_lost_when_what_follows_is_given_up(stage, monkeypatch):
    """Long after the deadline."""
    rounds = Rounds(
        monkeypatch, [0.5, 0.75], [0.75], choices=["free"] * 2, is_full=stage == "features"
    )  # fmt: skip

    def given_up(basis):
        raise deadline.Exceeded

    def in_span(choice, may_end):
        if may_end:
            raise deadline.Exceeded
        return rounds.in_span(choice, may_end)

    rounds.run._of_all, rounds.run._in_span = given_up, in_span
    found = rounds.result()
    assert [(one.j, one.gap, one.further) for one in found] == [(0, 0.25, False), (1, 0.375, False)]
    assert len(rounds.may_end) == 1 and rounds.run._found is found


@pytest.mark.parametrize("rise, gap, is_taken", [
    (1.0, 0.75, False), (0.0, 0.75, True), (0.0, 1.5, False), (-1.0, 1.5, True), (1.0, 0.5, True),
])  # fmt: skip
def test_a_later_round_counts_where_it_is_better(monkeypatch, rise, gap, is_taken):
    """The lower objective counts, then the gap, and a proof more than both."""
    rounds = Rounds(monkeypatch, [1.0], [gap], choices=["exact"] * 2, rise=rise)
    late = iter([False, True])
    monkeypatch.setattr(Stop, "is_late", property(lambda self: next(late)))
    [found] = rounds.result()
    assert (found.primal, found.gap) == ((10.0 + rise, gap / 2) if is_taken else (10.0, 0.5))


@pytest.mark.parametrize("brings", [False, True])
def test_what_a_sample_does_not_show_is_brought_into_it(monkeypatch, brings):
    """Then it is asked again; else more landmarks follow where Newton's method takes longer."""
    rounds = Rounds(
        monkeypatch, [0.5, 1.0, 0.75], [0.5, 0.5], choices=["exact"] * 2, is_misled=True,
        is_better_left=False, is_full=brings, brings=brings,
    )  # fmt: skip
    assert all(one.converged for one in rounds.result())
    assert rounds.asked == [
        ("choose",), ("certify", 3, "basis", "exact"), ("take", [1, 2]), ("misled", "exact", 0.5),
        ("bring", 0.5, [11.0, 12.0], "basis", False),
        ("better left", "exact", 0.5, "cost", 0.25, 7 * brings), ("choose", 3, 7 * brings),
        ("certify", 2, "basis", "exact"),
    ]  # fmt: skip


@pytest.mark.parametrize("why", ["full", "misled", "no more", "rounding"])
@pytest.mark.parametrize("space", [None, "known"])
def test_where_landmarks_are_not_enough_newton_follows(monkeypatch, why, space):
    """What it finds is taken where it is no worse."""
    rounds = Rounds(
        monkeypatch, [0.5, 1.0, 0.75, 2.0, 1.5], choices=["full" if why == "full" else "exact"],
        is_misled=why == "misled", is_full=why == "no more", space=space,
        inside=0.5 if why == "rounding" else 0.375,
        further=[(0.125, True), (0.5, False), (1.0, False), (0.9, True)],
    )  # fmt: skip
    found = rounds.result()
    assert [one.further for one in found] == [False, True, False, True, True]
    assert rounds.run.tile_room == ("tiles", 6, 4 if space is None else 3, 4)
    _, live, spaces, primals, coefs, gaps = rounds.asked[-1]
    assert live == [1, 2, 3, 4] and primals == [11.0, 12.0, 13.0, 14.0]
    assert coefs == ["coef 1", "coef 2", "coef 3", "coef 4"] and gaps == [1.0, 0.75, 2.0, 1.5]
    if space is None:
        assert spaces == [("space", rounds.run.Y[j].tolist(), True) for j in live]
    else:
        assert spaces == ["known"]
    rounds = Rounds(monkeypatch, [0.5, 1.0], choices=["full"], further=[(np.nan, False)])
    assert rounds.result()[1].further  # no number is no reason to keep the other


def test_where_single_precision_hides_the_solution_it_is_looked_for_in_double(monkeypatch):
    """Once, with the same landmarks; what is left then, others close."""
    rounds = Rounds(
        monkeypatch, [0.5, 1.0], [0.25], inside=0.375, is_sharpened=True, space="known"
    )  # fmt: skip
    assert all(one.converged for one in rounds.result())
    assert rounds.asked == [
        ("choose",), ("certify", 2, "basis", "free"), ("take", [1]),
        ("certify", 1, "basis", "free"),
    ]  # fmt: skip
    rounds = Rounds(
        monkeypatch, [1.0], [1.0], inside=0.375, is_sharpened=True, is_misled=True, brings=True,
        further=[(0.125, True)], space="known",
    )  # fmt: skip
    assert [one.further for one in rounds.result()] == [True]
    assert [one[0] for one in rounds.asked] == [
        "choose", "certify", "take", "certify", "take", "misled", "bring", "better left",
        "full",
    ] and rounds.asked[7][3] == "cost, hidden"  # fmt: skip


@pytest.mark.parametrize("inside, space, rounds", [
    (2.0, "known", 1), (3.0, "known", 2), (3.0, None, 1)
])  # fmt: skip
def test_newton_beyond_the_landmarks_repairs_a_little(monkeypatch, inside, space, rounds):
    """And where features of some are kept, steps have had gradients in double precision."""
    run = Rounds(
        monkeypatch, *[[1.0]] * rounds, choices=["full"], inside=inside, space=space,
        is_sharpened=True, further=[(0.125, True)],
    )  # fmt: skip
    assert run.result()[0].further
    assert [one[0] for one in run.asked].count("certify") == rounds


@pytest.mark.parametrize("beyond, gap, is_taken", [
    (10.0, 0.25, True), (12.5, 0.375, True), (12.6, 0.375, False), (9.0, 0.75, False),
    (np.nan, np.nan, True),
])  # fmt: skip
def test_a_smaller_gap_of_a_higher_objective_does_not_count(monkeypatch, beyond, gap, is_taken):
    rounds = Rounds(
        monkeypatch, [1.0], choices=["full"], beyond=beyond, further=[(gap, False)]
    )  # fmt: skip
    assert [one.further for one in rounds.result()] == [is_taken]


def test_no_round_follows_when_the_time_is_over(monkeypatch):
    monkeypatch.setattr(Stop, "is_late", property(lambda stop: True))
    rounds = Rounds(monkeypatch, [1.0, np.nan], choices=["full"])
    assert [one.gap for one in rounds.result()] == pytest.approx([0.5, np.nan], nan_ok=True)
    assert rounds.asked == [("choose",), ("certify", 2, "basis", "full")]


def test_the_solution_of_a_point(monkeypatch):
    rounds = Rounds(monkeypatch, [0.5, 0.25])
    point = SimpleNamespace(scale=2.0, primal=3.0, alpha=np.array([5.0, 7.0]), eta="eta")
    basis = SimpleNamespace(members=np.array([4, 1]))
    found = solve.EngineRun._solution(rounds.run, 1, point, basis, 0.5, np.float64(0.125))
    assert found.coef.tolist() == [0.0, 7.0 * 7, 0.0, 0.0, 10.0 * 5, 0.0]
    assert (found.primal, found.dual, found.gap, found.iterations) == (3.0, 2.5, 0.25, 5)
    assert found.converged and found.failure == 0.125 and found.eta == "eta" and found.w is None
    assert not solve.EngineRun._solution(rounds.run, 0, point, basis, 0.6, 0.0).converged


# ---- problems that share landmarks -----------------------------------------------------------


def test_columns_go_on_until_few_are_left(monkeypatch):
    """Those are asked for a proof once more."""
    gaps = iter([np.r_[np.full(20, 0.5), 0.25], np.r_[np.full(18, 0.25), 0.5, 0.75], [0.125, 0.25]])
    asked, sizes = [], iter([3, 5, 8])
    engine = object.__new__(shared.Shared)
    engine._tolerance, engine._points = 0.25, SimpleNamespace(size=6, executor="executor")
    engine._landmarks = SimpleNamespace(
        is_full=False, members=[0] * 200, grow=lambda count: asked.append(count)
    )

    def prepare():
        return np.zeros((6, next(sizes))), "basis"

    def in_span(Z, problems, start, tolerance, executor):
        assert tolerance == shared._INSIDE * 0.25 and executor == "executor"
        asked.append((problems.count, start.shape, float(start.sum())))
        return start + 1.0, None, 3

    def bounds(points, is_last):
        asked.append(is_last)
        return np.array(next(gaps)), 2.0**-20

    monkeypatch.setattr(certificate, "evaluate", lambda basis, problems, W: [
        SimpleNamespace(f=np.full(6, w.sum())) for w in W.T
    ])  # fmt: skip
    monkeypatch.setattr(shared.columns, "solve", in_span)
    engine._prepare, engine._bounds = prepare, bounds
    found = engine.solve(columns_of(21), np.ones((2, 21)))
    first = [(21, (3, 21), 42.0), False, 320, (20, (5, 20), 100.0)]
    gap = np.r_[np.full(18, 0.25), [0.5, 0.75], 0.25]
    assert asked == [*first, False, 320, (2, (8, 2), 20.0), True]
    gap[18:20] = 0.125, 0.25
    assert np.array_equal(found.gap, gap) and found.converged.all()
    assert found.failure == 3 * 2.0**-20 and found.W.shape == (8, 21)
    assert found.F[0].tolist() == [10.0] * 18 + [18.0] * 2 + [5.0]
