"""The choice of a way to a certificate."""

import numpy as np
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

    def is_misled(gap, way="drawn", forecast=shown, of=of):
        return choice.is_misled(choice.Choice(way, 0.0, 0, forecast), gap, of, tolerance)

    assert is_misled(1.1e-3)
    assert not is_misled(1.4e-4)  # about what was expected
    assert not is_misled(0.1, "free") and is_misled(0.2, "free")  # that bound says less
    assert not is_misled(1.0, forecast=None)
    # Newton's method would take longer: it is far away, or there are too many examples.
    assert not is_misled(1.1e-3, forecast=shown._replace(demanded=1.0), of=of._replace(entries=500))
    assert not is_misled(1.1e-3, of=of._replace(size=3_000_000))
    assert is_misled(1.1e-3, forecast=shown._replace(landmarks=choice.STAGES[-1], demanded=1.0))


def test_a_choice_knows_what_was_forecast(monkeypatch):
    problem = problem_of(Kernel("rbf", 0.005), "odm", 2.0**6, 300, dense=True)
    taken, choose = [], solve.choose
    monkeypatch.setattr(solve, "choose", lambda *a: taken.append(choose(*a)) or taken[-1])
    [solution] = solve.solve_all([problem], Stop(1e-3, 100))
    assert solution.solver == "landmarks"
    assert taken[0].forecast.landmarks == np.count_nonzero(solution.coef)
    assert taken[0].forecast.exact <= 1e-3
