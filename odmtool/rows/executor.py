"""Where tasks run: one after the other, in threads, or on a Dask cluster.

An executor answers these calls, and the solvers use no others:

put(value, place)           keep a value where the tasks are; returns what ``map`` takes for it
keep(function, *arguments, place)
                            make such a value there; arguments may be kept values
keep_each(function, *columns)
                            the same for every row of the columns, side by side; a list
map(function, *columns)     function(a, b, ...) for the rows of the columns, as a list in order
close()                     let go of everything that was put

A ``place`` from 0 up to 1 is where among the workers a value should lie, so that neighbours
lie together and every worker has as many; tasks go where their values are.

The results of :func:`map` do not depend on the executor, so the same seed gives the
same model everywhere. ``shares_memory`` tells whether tasks see, and may fill, the
arrays of this process; ``task_memory`` are the bytes that a task may plan with where it runs.

Compiled code and BLAS release Python's lock, so threads are processes without copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from odmtool.core import deadline
from odmtool.core.memory import share_freed


class Serial:
    """One task after the other."""

    jobs = 1
    shares_memory = True
    task_memory = float("inf")

    def put(self, value, place: float | None = None):
        return value

    def keep(self, function: Callable, *arguments, place: float | None = None):
        return function(*arguments)

    def keep_each(self, function: Callable, *columns: Iterable) -> list:
        return self.map(function, *columns)

    def map(self, function: Callable, *columns: Iterable) -> list:
        return [function(*row) for row in zip(*columns, strict=True)]

    def close(self) -> None:
        pass


class Threads(Serial):
    """As many tasks at a time as there are threads.

    They are started for every call, which takes a tenth of a millisecond, so that a task may have
    threads of its own.

    ``jobs``: int, > 0.
    """

    def __init__(self, jobs: int):
        self.jobs = jobs
        share_freed()

    def map(self, function: Callable, *columns: Iterable) -> list:
        rows = list(zip(*columns, strict=True))
        if len(rows) < 2:
            return [function(*row) for row in rows]
        from concurrent.futures import ThreadPoolExecutor

        own = deadline.inherited(function)
        with ThreadPoolExecutor(min(self.jobs, len(rows))) as pool:
            return list(pool.map(lambda row: own(*row), rows))


def local_executor(jobs: int) -> Serial:
    """Threads, or nothing of the kind for one job."""
    return Serial() if jobs == 1 else Threads(jobs)


def itself(value):
    """A task that brings here what was kept."""
    return value
