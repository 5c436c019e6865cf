"""mcODM's outer loop, decision by decision, with solvers that say what they are told to say."""

from types import SimpleNamespace

import numpy as np
import pytest
from mcodm_problems import assert_confirmed, problem

from odmtool.errors import DivergedError
from odmtool.solvers.base import Stop
from odmtool.solvers.mcodm import rounds
from odmtool.solvers.mcodm.terms import Terms
from odmtool.solvers.mcodm.way import Way
from odmtool.solvers.multi import Duals
from odmtool.solvers.rounding import Rounding


class Solver:
    """Says what stands in its lists, in order, and notes what it is asked."""

    active = 44

    def __init__(self, steps=(), objectives=()):
        self.steps, self.objectives, self.asked = list(steps), list(objectives), []
        self.settled = []
        self.rival = np.zeros(60, dtype=int)

    def begin(self, tolerance, is_settled, follows, is_in_vain):
        self.asked.append(tolerance)
        self.settled.append(is_settled)
        self.follows, self.is_in_vain = follows, is_in_vain

    def settle(self):
        self.asked.append("settled")

    def iterate(self):
        return self.steps.pop(0)

    def terms(self):
        # Half of the next objective is 1/2 |W|^2.
        self._now = self.objectives.pop(0)
        none = np.zeros(60)
        return Terms(self._now / 2, np.nan, np.nan, self.rival, none + 0.75, none + 0.5)

    def squared_norm(self):
        return self._now

    def dual_squared_norm(self):
        return 3.0

    def compare(self, terms):
        self.asked.append("compared")

    def keep(self):
        return f"point of {self._now}"

    def rivals_changed(self, examples, before):
        self.asked.append((examples.tolist(), before.tolist()))

    def release(self):
        self.asked.append("released")


def begun(solver, epochs=0, tolerance=1e-3, limit=999, outer="cccp", name=None):
    told = []
    found = rounds._Rounds(
        problem(), Stop(tolerance, limit), outer, Way(epochs), told.append, None, None, None
    )
    found.duals = Duals.of_nothing(problem().size, problem().k)
    found._solver, found.told = solver, told
    found._name = name or ("dcd" if epochs else "newton")
    return found


# ---- epochs and steps ----------------------------------------------------------------------


@pytest.mark.parametrize("epochs, limit, steps, taken, is_stuck", [
    (0, 999, [(0.5, False), (0.4, True), (9, True)], 2, False),
    (0, 3, [(0.5, False), (0.4, False), (0.3, False), (0.2, True)], 3, False),
    (2, 9, [(0.5, False), (0.4, False), (0.3, True)], 2, False),
    (9, 2, [(0.5, False), (0.4, False), (0.3, True)], 2, False),
    # As often as patience lasts without a smaller gap; coordinate descent has no such end.
    (0, 999, [(0.5, False)] * 99, rounds._PATIENCE + 1, True),
    (0, 999, [(0.5, False)] * 9 + [(0.4, False)] * 99, rounds._PATIENCE + 10, True),
    (99, 999, [(0.5, False)] * 98 + [(0.5, True)], 99, False),
])  # fmt: skip
def test_epochs_and_steps_are_taken_until_the_solver_is_content(
    epochs, limit, steps, taken, is_stuck
):
    solver = Solver(steps)
    found = begun(solver, epochs, limit=limit)
    assert found._improve(0.25) == is_stuck
    assert found._iteration == taken and solver.asked == [0.25, "settled"]
    assert found._inner == steps[taken - 1][0]
    assert [(now.iteration, now.primal, now.gap, now.active) for now in found.told] == [
        (n + 1, None, steps[n][0], 44) for n in range(taken)
    ]


@pytest.mark.parametrize("name, epochs, taken", [("dcd", 99, 20), ("dcd", 9, 9), ("newton", 0, 30)])
def test_a_round_of_coordinate_descent_has_so_many_epochs(name, epochs, taken):
    found = begun(Solver([(0.5, False)] * 29 + [(0.5, True)]), epochs, name=name)
    found._epochs = 20
    assert not found._improve(0.25) and found._iteration == taken


@pytest.mark.parametrize("name, inner, before, tolerance, epochs", [
    # The gap is asked for again until it is there; more epochs where F has hardly fallen.
    ("dcd", 0.3, 100.0, 0.2, 20), ("dcd", 0.2, 100.0, 0.02, 20), ("newton", 0.3, 100.0, 0.02, 20),
    ("dcd", 0.3, 90.8, 0.2, 40), ("dcd", 0.3, 91.0, 0.2, 20),
])  # fmt: skip
def test_what_the_next_round_is_asked_for(name, inner, before, tolerance, epochs):
    found = begun(Solver(objectives=[90.0]), 99 * (name == "dcd"))
    found._rounds, found.objective, found._inner, found._tolerance = [None], before, inner, 0.2
    found._epochs, found._relative_gap = 20, lambda: 0.5
    found._end_round()
    assert found._tolerance == pytest.approx(tolerance) and found._epochs == epochs


def test_rounds_of_larger_problems_end_before_their_gap_is_small(monkeypatch):
    p = problem("rbf", lambda_=2.0**12)
    for is_small in (True, False):
        monkeypatch.setattr(rounds, "start_count", lambda *_, count=1 + is_small: count)
        found = rounds.solve(p, Stop(1e-3, 2000), Way(np.inf), starts=1)
        assert_confirmed(p, found, 1e-3)
        ends = [r.epochs for r in found.rounds]
        assert (ends[1] == 6 and 5 in np.diff(ends[1:])) == (not is_small)


def test_after_enough_gaps_of_nothing_but_rounding_it_ends():
    many = rounds._BLIND_STEPS
    falling = [(1e17 * (2 - n / many), False) for n in range(many)]
    solver = Solver([*falling, (0.5, True)])
    found = begun(solver, limit=9999)
    assert found._improve(0.5) and found._iteration == many and len(solver.steps) == 1
    # One that tells something is a new beginning; and so it goes on from call to call.
    found = begun(Solver([*falling[:7], (1e16, False), falling[8], (1e17, True)]), limit=9999)
    assert not found._improve(0.5) and found._blind == 2
    found._solver = Solver(falling)
    assert found._improve(0.5) and found._iteration == 10 + many - 2


@pytest.mark.parametrize("change, objective, is_settled", [
    (np.inf, np.inf, False), (np.inf, 200.0, False), (0.2, 200.0, False), (0.199, 200.0, True),
])  # fmt: skip
def test_the_solver_is_told_when_only_the_proof_is_missing(change, objective, is_settled):
    """Where the objective fell by less than the tolerance, as it must have at the end."""
    found = begun(Solver([(0.5, True)]))
    found._change, found.objective = change, objective
    found._improve(0.25)
    assert found._solver.settled == [is_settled]


def test_the_solver_is_told_when_many_steps_were_in_vain():
    """Of one round, in one problem or several; what follows is told, too."""
    many, found = rounds._IN_VAIN, begun(Solver())
    for steps, is_in_vain in ((many, False), (1, False), (1, True), (1, True)):
        found._solver = solver = Solver([*[(0.5, False)] * (steps - 1), (0.5, True)])
        found._improve(0.25)
        assert solver.is_in_vain == is_in_vain
    found = begun(Solver([*[(0.5, False)] * many, (0.4, True)]))
    found._improve(0.25)
    found._solver = solver = Solver([(0.4, True)])
    found._improve(0.25)
    assert not solver.is_in_vain


@pytest.mark.parametrize("gap", [np.nan, np.inf])
def test_a_gap_that_is_no_number_is_an_overflow(gap):
    with pytest.raises(DivergedError):
        begun(Solver([(gap, False)]))._improve(0.5)


@pytest.mark.parametrize("inner, known, epochs, iteration, limit, is_too_soon", [
    (0.11, 0, 0, 9, 999, True), (0.1, 0, 0, 9, 999, False), (0.11, 1, 0, 9, 999, False),
    (0.11, 0, 5, 9, 999, False), (0.11, 0, 0, rounds._FIRST_STEPS, 999, False),
    (0.11, 0, 0, rounds._FIRST_STEPS - 1, 999, True), (0.11, 0, 0, 9, 9, False),
    (0.11, 0, 0, 8, 9, True),
])  # fmt: skip
def test_newton_alone_names_rivals_when_the_first_problem_is_solved(
    inner, known, epochs, iteration, limit, is_too_soon
):
    found = begun(Solver(), epochs, limit=limit)
    found._inner, found._rounds, found._iteration = inner, [None] * known, iteration
    found._tolerance = 0.1
    assert bool(found._names_rivals_too_soon()) == is_too_soon


@pytest.mark.parametrize("epochs, limit, given, taken", [
    (0, 999, True, rounds._GIVEN_STEPS), (0, 999, False, 99), (0, 5, True, 5), (99, 999, True, 99),
])  # fmt: skip
def test_rivals_that_are_given_are_led_to_in_few_steps(epochs, limit, given, taken, monkeypatch):
    """The first problem is not solved then; the next one is."""
    solver = Solver([(9.0, False)] * 98 + [(0.05, True)])
    monkeypatch.setattr(rounds._Rounds, "_take_newton", lambda self: None)
    monkeypatch.setattr(rounds._Rounds, "_take_descent", lambda self, _seed: None)
    found = begun(solver, epochs, limit=limit)
    monkeypatch.setattr(rounds, "_PATIENCE", 999)
    solver.is_exact = solver.names_rivals = False
    found.begin(0, None, np.zeros(60, dtype=int) if given else None)
    found._improve(0.1)
    assert found._iteration == taken
    assert not found._names_rivals_too_soon()
    found._rounds, found._most = [], np.inf
    assert found._names_rivals_too_soon() == (given and not epochs and limit > 9)


# ---- rounds --------------------------------------------------------------------------------


def worked(objectives, gaps, *, iteration=5, is_stuck=False, outer="cccp", hidden=0.0, moved=None):
    """A round of work after an objective of 10; the tolerances that it asked for, and its state."""
    solver, asked, gaps = Solver(objectives=objectives), [], list(gaps)
    found = begun(solver, limit=50, outer=outer)
    found.objective, found._rounds, found._iteration = 10.0, [None], iteration
    found._tolerance, ended = 0.25, []
    found._rivals, found._follows = np.zeros(60, dtype=int), True
    found.duals.rival[:] = 0
    found.duals.rival[0] = moved or 0

    def gap():
        found._hidden = hidden
        return gaps.pop(0)

    found._relative_gap, found._end_round = gap, ended.append
    found._improve = lambda tolerance: asked.append(tolerance) or is_stuck
    found.work()
    assert solver.asked.count("compared") == len(asked)
    return asked, [float(terms.true_loss) for terms in ended], found


def test_work_goes_on_until_the_objective_has_not_risen():
    """Twice as precisely every time; what ends the round are the terms of that point."""
    asked, ended, found = worked([10.5, 10.01, 10.0, 1.0], [0.5, 0.4])
    assert asked == [0.25, 0.125, 0.0625] and ended == [5.0]
    assert not found.is_finished and found._gap == 0.4
    asked, ended, _ = worked([9.0], [])
    assert asked == [0.25] and ended == [4.5]
    asked, ended, _ = worked([11.0], [], outer="constant")
    assert asked == [0.25] and ended == [5.5]


@pytest.mark.parametrize("gap, hidden, iteration, is_stuck, is_converged", [
    (1e-4, 0.0, 5, False, True),  # a tenth of the tolerance leaves no room
    (1e-4 * (1 + 1e-9), 0.0, 50, False, False),  # it has room, but no more iterations
    (0.5, 0.0, 5, True, False), (1e-3, 9.5e-4, 5, False, True),
    (1.001e-3, 9.5e-4, 5, False, False),  # what rounding may hide is more than the tolerance
])  # fmt: skip
def test_work_ends_where_the_objective_can_hardly_fall(
    gap, hidden, iteration, is_stuck, is_converged
):
    asked, ended, found = worked(
        [10.5] * 9, [gap], iteration=iteration, is_stuck=is_stuck, hidden=hidden
    )
    assert asked == [0.25] and not ended and found.is_finished
    assert found.converged == is_converged and found._gap == gap
    assert found._solver.asked[-1] == "released"


@pytest.mark.parametrize("gaps, iteration, is_asked", [
    ([1e-4, 2e-4], 5, True), ([1e-4, 1e-4], 5, True), ([0.5, 0.6], 50, True), ([0.5], 5, False),
])  # fmt: skip
def test_the_last_gap_is_that_of_the_rivals_of_the_point_that_is_kept(gaps, iteration, is_asked):
    """Newton's method may have named others since; it goes on without if there is room."""
    objectives = [10.5, 9.0] if gaps[-1] == 2e-4 or not is_asked else [10.5]
    asked, _, found = worked(objectives, gaps, iteration=iteration, moved=2)
    assert len(asked) == len(objectives) and found._gap == gaps[-1]
    assert found.is_finished == (len(objectives) == 1)
    assert found.converged == (gaps == [1e-4, 1e-4])
    assert found._follows != is_asked and found.duals.rival[0] == (0 if is_asked else 2)
    assert (([], []) in found._solver.asked) == is_asked  # no beta there, so none that moves


@pytest.mark.parametrize("count", [1, 2])
def test_small_problems_halve_steps(count, monkeypatch):
    monkeypatch.setattr(rounds, "start_count", lambda p, most: count)
    found = begun(None)
    found._take_newton()
    assert found._solver.halves == (count > 1)


@pytest.mark.parametrize("count, epochs, is_astray, follows", [
    (1, 0, False, True), (2, 0, False, True), (1, 5, False, True), (2, 5, False, False),
    (1, 0, True, False),
])  # fmt: skip
def test_newton_names_rivals_itself(count, epochs, is_astray, follows, monkeypatch):
    """Not before a first round has named some, and of small problems not after descent."""
    monkeypatch.setattr(rounds, "start_count", lambda p, most: count)
    solver = Solver(steps=[(0.5, True)] * 2, objectives=[7.0])
    found = begun(solver, epochs, name="newton")
    found._improve(0.5)
    assert not solver.follows
    found._goes_astray = is_astray
    found._linearise(solver.terms())
    assert np.array_equal(found._rivals, solver.rival)
    found._improve(0.5)
    assert solver.follows == follows


@pytest.mark.parametrize("rises, is_astray", [(9, False), (10, True)])
def test_rivals_that_lead_astray_are_not_followed_any_more(rises, is_astray):
    """They may go to and fro for ever: with those of the point that is kept the objective falls."""
    asked, ended, found = worked([10.5] * rises + [9.0], [0.5] * (rises + 1), moved=2)
    assert len(asked) == rises + 1 and ended == [4.5] and not found.is_finished
    assert found._goes_astray == is_astray and found._follows != is_astray
    assert found.duals.rival[0] == (0 if is_astray else 2)


def test_with_room_left_the_work_goes_on():
    asked, _, found = worked([10.5, 9.0], [1e-4 * (1 + 1e-9)], iteration=49)
    assert asked == [0.25, 0.125] and not found.is_finished


def ended(objective, gap, *, before=10.0, hidden=0.0, iteration=5, known=1, blind=0, idle=0):
    solver = Solver(objectives=[objective])
    found = begun(solver, limit=50)
    found.objective, found._rounds, found._iteration = before, [None] * known, iteration
    found._blind, found._tolerance, found._idle, found._smallest = blind, 0.5, idle, 0.5

    def relative_gap():
        assert found.duals.upper[0] == 1 + problem().parameters.theta  # F is linearised
        found._hidden = hidden
        return gap

    found._relative_gap = relative_gap
    found._end_round()
    assert found.objective == objective and found._point == f"point of {objective}"
    assert found._rounds[-1] == (known, iteration, objective, gap)
    last = found.told[-1]
    assert (last.iteration, last.primal, last.gap, last.active) == (iteration, objective, gap, 44)
    assert np.all(last.margins == 0.5) and found._tolerance == 0.05
    return found


@pytest.mark.parametrize("objective, gap, hidden, is_finished, is_converged", [
    (10 / 1.001 * (1 + 1e-9), 1e-3, 0.0, True, True), (9.98, 1e-3, 0.0, False, False),
    (10.0, 1.001e-3, 0.0, False, False), (10.0, 2e-3, 1.1e-3, True, False),
    (10 / 0.999, 1e-3, 0.0, True, True), (10.02, 1e-3, 0.0, False, False),
])  # fmt: skip
def test_a_round_is_the_last_if_the_objective_hardly_changed_and_the_gap_is_small(
    objective, gap, hidden, is_finished, is_converged
):
    found = ended(objective, gap, hidden=hidden)
    assert (found.is_finished, found.converged) == (is_finished, is_converged)
    assert found._change == pytest.approx(abs(objective - 10))


def test_a_round_without_iterations_or_numbers_left_is_the_last():
    assert not ended(5.0, 0.5, iteration=49).is_finished
    for options in ({"iteration": 50}, {"blind": rounds._BLIND_STEPS}):
        found = ended(5.0, 0.5, **options)
        assert found.is_finished and not found.converged
    assert not ended(5.0, 0.5, blind=rounds._BLIND_STEPS - 1).is_finished
    # The first round has nothing to be compared with.
    first = ended(10.0, 1e-4, known=0)
    assert not first.is_finished and first._change == np.inf
    with pytest.raises(DivergedError):
        ended(np.inf, 0.5)


def test_rounds_that_change_nothing_are_the_last_when_patience_is_at_its_end():
    """One value of 1e8 among 150 rows: 2000 steps changed neither the objective nor the gap."""
    last = rounds._PATIENCE - 1
    found = ended(10.0, 0.5, idle=last)
    assert found.is_finished and not found.converged
    for objective, gap, idle in ((9.999, 0.5, last), (10.0, 0.499, last), (10.0, 0.5, last - 1)):
        assert not ended(objective, gap, idle=idle).is_finished


def test_only_betas_of_rivals_that_change_go_to_other_columns():
    solver = Solver(objectives=[7.0])
    found = begun(solver)
    found.duals.rival[:4], found.duals.beta[1:3] = (0, 2, 0, 2), 1.5
    found.duals.rival[4:] = 0
    found._linearise(solver.terms())
    assert solver.asked == [([1], [2])] and not found.duals.rival.any()
    assert np.all(found.duals.upper == 1 + problem().parameters.theta)
    constant = begun(Solver(objectives=[7.0]), outer="constant")
    constant.duals.beta[:] = 1.0
    constant._linearise(constant._solver.terms())
    assert np.all(constant.duals.upper == 1.75 + problem().parameters.theta)
    assert np.all(constant.duals.rival == -1) and not constant._solver.asked


def test_the_gap_of_a_round_with_what_rounding_may_hide():
    """(F - D + hidden) / F, of which no more can be hidden than F."""
    found, asked = begun(Solver()), []
    found.objective = 20.0
    found.duals.alpha[:, 0], found.duals.alpha[:, 1] = 0.25, -0.25
    target = found._problem.target
    theta, c1, _ = found._problem.parameters
    s = np.select([target == 0, target == 1], [0.25, -0.25], 0.0)
    dual = (1 - theta) * s.sum() - (s @ s) / (4 * c1)
    for hidden, counted in ((0.5, 0.5), (21.0, 20.0), (np.nan, 20.0), (np.inf, 20.0)):
        found._rounding = SimpleNamespace(
            of_classes=lambda *a, h=hidden: asked.append(a[3:5]) or h
        )
        gap = (20 - (dual - 1.5) + counted) / 20
        assert found._relative_gap() == pytest.approx(gap, rel=1e-12)
        assert found._hidden == pytest.approx(counted / 20)
        assert asked.pop() == (20.0, pytest.approx(np.sqrt(40.0)))
    found.objective = 1.0
    found._relative_gap()
    assert asked.pop() == (1.0, pytest.approx(np.sqrt(3.0)))  # |W| of the duals is larger
    found._problem = problem("rbf")
    found._relative_gap()
    assert asked.pop() == (1.0, None)
    found._features = "some"
    found._relative_gap()
    assert asked.pop() == (1.0, pytest.approx(np.sqrt(3.0)))


@pytest.mark.parametrize("dual", [19.5, 20.5, 90.0])
def test_a_dual_above_the_objective_proves_nothing(dual):
    """Large kernel values were seen to make it five times as large, and the gap -4."""
    found = begun(Solver())
    found.objective = 20.0
    found._rounding = SimpleNamespace(of_classes=lambda *_: 0.25)
    # D is all of 1/2 |W|^2, which cannot be negative but by rounding.
    assert found._gap_of(-2 * dual, None) == pytest.approx((abs(20 - dual) + 0.25) / 20)


# ---- where rounds begin and what is told of their end -------------------------------------------


def test_duals_at_first():
    p = problem()
    duals = Duals.of_nothing(p.size, p.k)
    assert not duals.alpha.any() and duals.alpha.shape == (60, 4) and not duals.beta.any()
    assert np.all(duals.rival == -1) and np.all(duals.upper == np.inf)
    given = Duals(duals.alpha + 1, duals.beta, duals.rival, duals.upper)
    copy = given.copy()
    assert np.array_equal(copy.alpha, given.alpha) and copy.alpha is not given.alpha


@pytest.mark.parametrize("way, m, expected", [
    (Way(0), 60, 0.1), (Way(5), 60, 0.1), (Way(0), 29, 1.0),
])  # fmt: skip
def test_the_first_round_of_narrow_rows_is_solved_to_a_tenth(way, m, expected):
    """Its W names the rivals; with others from the start it is as rough as any."""
    p = problem()
    X, target, weight = p.X[:m], p.target[:m], p.weight[:m]
    p = p._replace(X=X, target=target, weight=weight)
    for start, rivals in ((None, None), (None, np.full(m, -1))):
        found = rounds._Rounds(
            p, Stop(1e-3, 99), "cccp", way, lambda now: None, None, Rounding(None, p.X), None
        )
        found.begin(0, start, rivals)
        assert found._tolerance == (expected if rivals is None else 1.0)
        assert found._rounds == []
    found.begin(0, Duals.of_nothing(p.size, p.k), None)
    assert len(found._rounds) == 1  # a start is linearised at once


@pytest.mark.parametrize("squares, is_converged", [(3.0, True), (40.0, False)])
def test_of_features_the_gap_is_that_of_the_kernel_values(squares, is_converged):
    """Of which they may lack something: then it is larger, and may be too large."""
    found, asked = begun(Solver(), epochs=5), []
    found._problem, found._solver = problem("rbf"), SimpleNamespace(point=lambda kept: kept + 1)
    found.objective, found.converged, found._point = 20.0, True, np.ones((7, 4))
    coef = np.zeros((60, 4))
    coef[:9, 2] = 1.0
    found._features = SimpleNamespace(
        coefficients=lambda W: asked.append(W) or coef, squared_norm=lambda C: squares
    )
    found._rounding = SimpleNamespace(of_classes=lambda *given: asked.append(given[4]) or 0.0)
    found.duals.alpha[:, 0], found.duals.alpha[:, 1] = 1e-6, -1e-6
    found._stop, found._gap = Stop(1.5, 9), 1e-9
    solution = found.solution()
    assert np.all(asked[0] == 2.0) and asked[1] is None
    assert solution.gap == pytest.approx((20 + squares / 2) / 20, rel=1e-3)
    assert solution.converged == is_converged and solution.objective == 20.0
    assert solution.coef is coef and solution.W is None and solution.support_count == 9
    assert not solution.optimal and solution.solver == "dcd" and solution.iterations == 0
