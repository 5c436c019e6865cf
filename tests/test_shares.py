"""Several binary problems share the time that there is."""

import numpy as np
import pytest

from odmtool.core import deadline
from odmtool.machines import MACHINES, binary
from odmtool.rows.executor import local_executor
from odmtool.solvers.untrained import NONE, untrained

X, LABELS = np.random.default_rng(0).standard_normal((60, 4)), np.arange(60) % 4


class Clock:
    """Time that passes when it is told to."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(deadline, "time", clock)
    return clock


def test_what_one_does_not_use_is_left_for_the_others(clock):
    with deadline.time_limit(12.0):
        shares, lengths = deadline.Shares(3), []
        for used in (1.0, 7.0, 0.0):
            with shares.next():
                lengths.append(deadline.seconds_left())
                clock.now += used
        assert lengths == [4.0, 5.5, 4.0] and deadline.seconds_left() == 4.0


def test_threads_work_on_several_at_once(clock):
    with deadline.time_limit(12.0):
        shares = deadline.Shares(5, at_once=2)
        with shares.next():
            assert deadline.seconds_left() == pytest.approx(12 / 2.5)


def test_a_share_ends_with_the_whole(clock):
    with deadline.time_limit(12.0) as whole, deadline.Shares(3).next():
        assert not deadline.is_over()
        whole.end()
        assert deadline.is_over()


def test_without_a_limit_there_is_no_end(clock):
    with deadline.Shares(3).next():
        clock.now += 1e9
        assert not deadline.is_over()


@pytest.mark.parametrize("seconds, solved, gap", [
    (20.0, [0, 1, 2, 3, 0], 0.0),  # the first was cut after 5, and solved in the other 12
    (11.0, [0, 1, 2, 3, 0], 9.0 - 5.25),  # cut twice
    (48.0, [0, 1, 2, 3], 0.0),
])  # fmt: skip
def test_a_problem_whose_share_was_too_short_is_solved_again(
    seconds, solved, gap, clock, monkeypatch
):
    needs, todo = [9.0, 1.0, 1.0, 1.0], []

    def solve_part(machine, problem, start, progress):
        number = int(LABELS[np.flatnonzero(problem.y > 0)[0]])
        todo.append(number)
        left = deadline.seconds_left()
        clock.now += min(left, needs[number])
        short = max(needs[number] - left, 0.0)
        return untrained(problem)._replace(
            primal=short, gap=short, converged=short == 0, solver="newton"
        )

    monkeypatch.setattr(binary.BinaryMachine, "solve_part", solve_part)
    with deadline.time_limit(seconds):
        found = MACHINES["odm"](multiclass="ovr").fit(X, LABELS).solution_
    assert todo == solved and found.gap == gap and found.converged == (gap == 0)


@pytest.mark.parametrize("jobs", [1, 2])
def test_with_time_enough_the_models_are_those_without_a_limit(jobs):
    machine = MACHINES["odm"](multiclass="ovr", jobs=jobs)
    without = machine.fit(X, LABELS).solution_
    with deadline.time_limit(1e6):
        assert np.array_equal(machine.fit(X, LABELS).solution_.W, without.W)


def test_no_share_is_too_small_for_anything(clock, monkeypatch):
    """Where nothing comes of one, the next ones are larger: some problems are solved."""
    todo = []

    def solve_part(machine, problem, start, progress):
        left = deadline.seconds_left()
        todo.append(left)
        clock.now += max(min(left, 3.0), 0.0)
        done = left >= 3
        return untrained(problem)._replace(
            iterations=int(done) * 5, converged=done, solver="newton" if done else NONE
        )

    monkeypatch.setattr(binary.BinaryMachine, "solve_part", solve_part)
    with deadline.time_limit(10.0):
        MACHINES["odm"](multiclass="ovo").fit(X, np.arange(60) % 5)  # 10 problems
    assert todo[:3] == pytest.approx([1, 1, 2]) and todo[3] == 4 and todo[4] < 4


def test_threads_inherit_a_share(clock):
    with deadline.time_limit(12.0):
        with deadline.Shares(4).next():
            inside = local_executor(2).map(lambda _: deadline.seconds_left(), [1, 2])
        outside = local_executor(2).map(lambda _: deadline.seconds_left(), [1, 2])
    assert (inside, outside) == ([3.0, 3.0], [12.0, 12.0])
