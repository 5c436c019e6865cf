"""Calls in processes of their own, which end when the process that wants them does.

joblib's processes wait minutes for more work after theirs was killed or interrupted, and hold
their memory meanwhile. Ours look after their parent.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator

_LOOK_SECONDS = 0.5


def in_processes(function: Callable, rows: Iterable[tuple], jobs: int) -> Iterator:
    """function(*row) for every row, as many side by side as there are jobs; in order.

    Parameters
    ----------
    function : callable
        At the top level of a module, so that it can be sent to a process.
    rows : iterable of tuples
    jobs : int, > 1
    """
    from joblib import Parallel, delayed

    tasks = (delayed(_call)(os.getpid(), function, row) for row in rows)
    yield from Parallel(n_jobs=jobs, return_as="generator")(tasks)


def _call(parent: int, function: Callable, row: tuple):
    _leave_with(parent)
    return function(*row)


@functools.cache
def _leave_with(parent: int) -> None:
    """End this process when its parent is gone."""
    if os.getppid() != parent:
        return

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        os._exit(1)

    threading.Thread(target=look, name="look after the parent", daemon=True).start()
