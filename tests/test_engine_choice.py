"""The choice of a way to a certificate."""

from types import SimpleNamespace

import numpy as np
import pytest
from engine_problems import problem_of

from odmtool.core.kernels import Kernel
from odmtool.solvers.base import Stop
from odmtool.solvers.engine import certificate, choice, cost, sample, solve


def test_landmarks_of_a_sample_that_misled_are_left():
    """More of them do not span the examples that it does not show."""
    tolerance, outside = 1e-3, certificate.Draw(1.0, 1.0, 1e-4, 0.0, 0.0)
    shown = sample.Forecast(600, 0.05, 0.0, [outside], 0.5, 1e-9)
    assert shown.exact == 5e-5
    of = cost.Cost(30_000, 54.0, False)

    def taken(way="drawn", forecast=shown):
        return choice.Choice(way, 0.0, 0, forecast)

    assert choice.is_misled(taken(), 1.1e-3)
    assert not choice.is_misled(taken(), 1.4e-4)  # about what was expected
    # That bound says less.
    assert not choice.is_misled(taken("free"), 0.1) and choice.is_misled(taken("free"), 0.2)
    assert not choice.is_misled(taken(forecast=None), 1.0)
    assert not choice.is_misled(taken("full"), np.inf)  # nothing was proved, nor tried

    def is_better_left(of=of, further=0, **shown_else):
        forecast = shown._replace(**shown_else)
        return choice.is_better_left(taken(forecast=forecast), 1.1e-3, of, tolerance, further)

    assert is_better_left()
    # Newton's method would take longer: it is far away, or there are too many examples.
    assert not is_better_left(demanded=1.0, of=of._replace(entries=500))
    assert not is_better_left(of=of._replace(size=3_000_000))
    assert is_better_left(landmarks=choice.STAGES[-1], demanded=1.0)
    # If it is known that few more are enough, these are tried where they take no time.
    few, large = of._replace(size=3000), of._replace(size=3_000_000)
    assert is_better_left(few) and not is_better_left(few, further=10)
    assert is_better_left(few, further=1500) and not is_better_left(further=10)
    # Though there would be no other number of landmarks.
    assert not is_better_left(further=10, landmarks=choice.STAGES[-1], demanded=1.0, of=large)


def test_what_is_left_to_descent():
    """Problems that landmarks do not solve, if epochs are cheaper than Newton's method."""
    outside = certificate.Draw(1.0, 1.0, 20.0, 0.0, 0.0)
    far = sample.Forecast(160, 0.6, 0.0, [outside], 5.0, 1.0)
    of = cost.Cost(5000, 20.0, False, np.inf)

    def instead(slope=10.0, way="full", forecast=far, has_matrix=False):
        taken = choice.Choice(way, 0.0, 0, forecast)
        return choice.instead(taken, of, 1e-3, slope, has_matrix)

    assert instead() == "dcd" and instead(slope=1e6) is instead(slope=None) is None
    assert instead(way="drawn") is instead(forecast=None) is None
    near = far._replace(demanded=1e-4)
    assert near.demanded / 1e-3 <= cost.NEAR and instead(forecast=near) is None
    # Twice as long as Newton's method is thought to take it may be.
    beyond = of.beyond(far.active * 5000, far.exact / 1e-3, far.demanded / 1e-3)
    slopes = np.geomspace(10.0, 1e6, 100)
    found = [instead(slope=slope) == "dcd" for slope in slopes]
    assert found == [of.descent(slope, 1e-3) <= 2 * beyond for slope in slopes]
    assert len(set(found)) == 2
    # For a smaller gap it takes more epochs.
    values = of.made(5000**2)
    assert of.descent(9.0, 1e-2) == of.descent(9.0, 1e-3) > values
    assert of.descent(9.0, 1e-6) - values == pytest.approx(2 * (of.descent(9.0, 1e-3) - values))


def test_what_is_left_to_newtons_method_on_the_whole_matrix():
    """Where landmarks say nothing, and few examples are active."""
    outside = certificate.Draw(1.0, 1.0, 20.0, 0.0, 0.0)
    far = sample.Forecast(256, 900.0, 0.0, [outside], 0.4, 1e6)

    def instead(size=2000, slope=None, has_matrix=True, **shown):
        taken = choice.Choice("full", 0.0, 0, far._replace(**shown))
        return choice.instead(taken, cost.Cost(size, 2.0, False), 1e-3, slope, has_matrix)

    assert instead() == "newton" and instead(has_matrix=False) is None
    assert instead(slope=1.0) == "dcd"
    # They are a good start, or its factors are dear.
    assert instead(demanded=0.1) is None
    assert instead(size=8000, active=1.0, demanded=100.0) is None
    of = cost.Cost(2000, 2.0, False)
    assert of.apart(800, 1e6) > of.apart(800, 1e3) > of.matrix(800)


def test_a_choice_knows_what_was_forecast(monkeypatch):
    problem = problem_of(Kernel("rbf", 0.005), "odm", 2.0**6, 300, dense=True)
    taken, choose = [], solve.choose
    monkeypatch.setattr(solve, "choose", lambda *a: taken.append(choose(*a)) or taken[-1])
    [solution] = solve.solve_all([problem], Stop(1e-3, 100))
    assert solution.solver == "landmarks"
    assert taken[0].forecast.landmarks == np.count_nonzero(solution.coef)
    assert taken[0].forecast.exact <= 1e-3


def test_landmarks_are_added_until_the_cheapest_way_is_known(monkeypatch):
    """Of all ways that were seen; what is not enough is not looked at again."""
    known, seen, worth, late = {}, [], [], []

    class Sample:
        """Forecasts are numbers of landmarks."""

        is_hidden = True

        def __init__(self, full=2500):
            self.landmarks = SimpleNamespace(
                is_full=False, grow=self.grow, points=SimpleNamespace(size=77)
            )
            self.full = full

        def grow(self, r):
            self.count = r
            self.landmarks.is_full = r >= self.full

        def forecast(self, enough):
            assert enough == 0.6 * 2.0**-10
            return SimpleNamespace(landmarks=self.count)

    def ways(forecast, cost, tolerance):
        assert (cost, tolerance) == ("cost, hidden", 2.0**-10)
        seen.append(forecast.landmarks)
        return [choice.Choice(*way) for way in known.get(forecast.landmarks, [])]

    def is_more_worth(best, found, cost, drawn, tolerance):
        assert drawn == 77 and [one.landmarks for one in found] == seen
        worth.append(best and best.seconds)
        return seen[-1] < 256

    def chosen(sample, *given, **changes):
        known.clear()
        known.update(changes.pop("ways", {}))
        seen.clear(), worth.clear()
        cost = SimpleNamespace(_replace=lambda is_hidden: "cost, hidden" if is_hidden else "cost")
        return choice.choose(sample, cost, Stop(2.0**-10), *given)

    monkeypatch.setattr(choice, "_ways", ways)
    monkeypatch.setattr(choice, "_is_more_worth", is_more_worth)
    monkeypatch.setattr(Stop, "is_late", property(lambda stop: bool(late)))
    of = {96: [("exact", 9.0), ("drawn", 4.0, 50)], 160: [("free", 5.0)]}
    found = chosen(Sample(), ways=of)
    assert found[:3] == ("drawn", 4.0, 50) and found.forecast.landmarks == 256
    assert seen == [48, 96, 160, 256] and worth == [None, 4.0, 4.0, 4.0]
    found = chosen(Sample())
    assert found[:3] == ("full", 0.0, 0) and found.forecast.landmarks == 256
    chosen(Sample(), 96)
    assert seen == [160, 256]
    chosen(Sample(full=96))
    assert seen == [48, 96] and worth == [None]
    assert chosen(Sample(), 2500) == ("full", 0.0, 0, None) and not seen
    late.append(1)
    assert chosen(Sample(), ways=of).way == "full" and seen == [48] and not worth
