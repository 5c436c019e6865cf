"""The moment after which no solver begins an iteration (``--max-time``, ``--keep-best``).

An epoch of coordinate descent that computes kernel values as it goes ends there, too, and so does
a Newton step of mcODM. A pass over a large kernel matrix has some seconds more, and then is given
up (:func:`check`).

Problems that are solved one after the other have a share of the time each (:class:`Shares`).

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
    ``whole``: that of which this is a share. It may end first.
    """

    def __init__(
        self, moment: float = math.inf, began: float | None = None, whole: Limit | None = None
    ):
        self._moment, self._whole = moment, whole
        self.began = time.monotonic() if began is None else began

    @property
    def moment(self) -> float:
        return self._moment if self._whole is None else min(self._moment, self._whole.moment)

    def end(self) -> None:
        self._moment = min(self._moment, time.monotonic())

    @property
    def more(self) -> float:
        """Seconds that what was begun has more."""
        return min(max(_LEAST, _SHARE * (self.moment - self.began)), _MOST)


_of_process = Limit()
# Of a task that came with one, or a share: threads have different ones.
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
    return getattr(_of_task, "limit", None) or _of_process


def inherited(function: Callable) -> Callable:
    """The function, for another thread, where the deadline of this one holds as well."""
    limit = getattr(_of_task, "limit", None)
    if limit is None:
        return function

    def limited(*arguments):
        with _limited(limit):
            return function(*arguments)

    return limited


@contextmanager
def _limited(limit: Limit) -> Iterator[None]:
    """Inside it, this thread has another limit."""
    earlier = getattr(_of_task, "limit", None)
    _of_task.limit = limit
    try:
        yield
    finally:
        _of_task.limit = earlier


class Shares:
    """Of the time that is left, an equal share for each of the problems that are still to come.

    What one does not use is left for the others. ``at_once``: threads that work on them. Where
    shares are :meth:`lost` the next ones are longer: some problems solved are better than none.
    """

    def __init__(self, problems: int, at_once: int = 1):
        self._left, self._at_once, self._lock = problems, at_once, threading.Lock()
        self._lost, self._least = 0, 0.0

    def lost(self, seconds: float) -> None:
        """In so many seconds nothing was found; in the first ones code may have been loaded."""
        self._lost += 1
        if self._lost > 1:
            self._least = max(self._least, 2 * seconds)

    @contextmanager
    def next(self) -> Iterator[float]:
        """Inside it, the deadline is the end of the next problem's share, of so many seconds."""
        with self._lock:
            rounds, self._left = max(self._left / self._at_once, 1.0), self._left - 1
        seconds, now = max(seconds_left() / rounds, self._least), time.monotonic()
        with _limited(Limit(now + seconds, now, _limit())):
            yield seconds


class _Task:
    """A function with its deadline, in seconds since 1970 by the clock of who sends it.

    And the seconds that were given until then.
    """

    def __init__(self, function: Callable, moment: float, given: float):
        self._function, self._moment, self._given = function, moment, given

    def __call__(self, *arguments):
        moment = time.monotonic() + self._moment + _ahead - time.time()
        with _limited(Limit(moment, moment - self._given)):
            return self._function(*arguments)
