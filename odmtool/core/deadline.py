"""The moment after which no solver begins an iteration (``--max-time``, ``--keep-best``).

An epoch of coordinate descent that computes kernel values as it goes ends there, too, and so does
a Newton step of mcODM. A pass over a large kernel matrix has some seconds more, and then is given
up (:func:`check`).

The deadline belongs to the process. A task on a cluster takes it along (:func:`carried`), by the
time of day, so that tasks which wait for a free worker do not have more time than the others.
Clocks of machines differ; a worker is told ours when we connect (:func:`compare_clocks`).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# What was begun has this share of the time that was given more, of these seconds.
_SHARE, _LEAST, _MOST = 0.05, 1.0, 10.0


class Exceeded(Exception):
    """The time has been over for so long that what was begun is given up."""


class Limit:
    """A moment by the clock of this process; :meth:`end` makes it now, if it was later.

    ``began``: since when there was time; by default since now.
    """

    def __init__(self, moment: float = math.inf, began: float | None = None):
        self.moment, self.began = moment, time.monotonic() if began is None else began

    def end(self) -> None:
        self.moment = min(self.moment, time.monotonic())

    @property
    def more(self) -> float:
        """Seconds that what was begun has more."""
        return min(max(_LEAST, _SHARE * (self.moment - self.began)), _MOST)


_of_process = Limit()
# Of a task that came with one: the threads of a worker have different ones.
_of_task = threading.local()


# By how much the time of day here is ahead of that of who sends tasks.
_ahead = 0.0


def compare_clocks(now: float) -> None:
    """Remember by how much the clock here is ahead of one that shows ``now``."""
    global _ahead
    _ahead = time.time() - now


@contextmanager
def time_limit(seconds: float | None) -> Iterator[Limit]:
    """Inside it, no solver of this process begins an iteration after so many seconds."""
    global _of_process
    _of_process = Limit() if seconds is None else Limit(time.monotonic() + seconds)
    try:
        yield _of_process
    finally:
        _of_process = Limit()


def is_over() -> bool:
    """Whether the time of :func:`time_limit`, or of this thread's task, is over."""
    return seconds_left() <= 0


def seconds_left() -> float:
    """Infinite without a limit, and negative after it."""
    return _limit().moment - time.monotonic()


def check() -> None:
    """Raise Exceeded if what was begun before the deadline has taken too long after it."""
    if -seconds_left() > _limit().more:
        raise Exceeded


def carried(function: Callable) -> Callable:
    """The function, for another process, where the deadline of this one holds as well."""
    left, limit = seconds_left(), _limit()
    if left == math.inf:
        return function
    return _Task(function, time.time() + left, limit.moment - limit.began)


def _limit() -> Limit:
    """That of this thread's task, or of the process."""
    return getattr(_of_task, "limit", _of_process)


class _Task:
    """A function with its deadline, in seconds since 1970 by the clock of who sends it.

    And the seconds that were given until then.
    """

    def __init__(self, function: Callable, moment: float, given: float):
        self._function, self._moment, self._given = function, moment, given

    def __call__(self, *arguments):
        moment = time.monotonic() + self._moment + _ahead - time.time()
        _of_task.limit = Limit(moment, moment - self._given)
        try:
            return self._function(*arguments)
        finally:
            del _of_task.limit
