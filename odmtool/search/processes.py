"""Calls in processes of their own, which end when the process that wants them does.

joblib's processes wait minutes for more work after theirs was killed or interrupted, and hold
its stdout and their memory meanwhile. Ours look after their parent from their first moment on.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from odmtool import messages
from odmtool.core.memory import keep_freed
from odmtool.errors import ProcessLostError

_LOOK_SECONDS = 0.5
# They end with this process. Of one that ends by itself just when work comes joblib warns, and
# where warnings are errors it waits for ever.
_IDLE_SECONDS = 86_400


def in_processes(function: Callable, rows: Iterable[tuple], jobs: int) -> Iterator:
    """function(*row) for every row, as many side by side as there are jobs; in order.

    Raises ProcessLostError: one of the processes was killed.

    Parameters
    ----------
    function : callable
        At the top level of a module, so that it can be sent to a process.
    rows : iterable of tuples
    jobs : int, > 1
    """
    from joblib import Parallel, delayed

    tasks = (delayed(function)(*row) for row in rows)
    try:
        with _signals_as_before():
            results = Parallel(n_jobs=jobs, backend=_backend(), return_as="generator")(tasks)
        yield from results
    except BrokenProcessPool:
        raise ProcessLostError(messages.process_lost()) from None


@contextmanager
def _signals_as_before() -> Iterator[None]:
    """After it this thread hears the signals that it heard before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _backend():
    """joblib's processes, each of which calls :func:`leave_with` before anything else.

    They do not hear SIGINT, which a terminal sends to all of them: this process does, and they
    end with it. One that is still loading would say where it was.
    """
    from multiprocessing import resource_tracker

    from joblib.parallel import LokyBackend

    class Backend(LokyBackend):
        def configure(self, *args, **settings):
            watch = {"initializer": leave_with, "initargs": (os.getpid(),)}
            watch["idle_worker_timeout"] = _IDLE_SECONDS
            jobs = super().configure(*args, **watch | settings)
            # They inherit this from the thread that starts them, with the first task. Python's and
            # joblib's helpers must be there before: to start one lets the thread hear it again.
            resource_tracker.ensure_running()
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            return jobs

    return Backend()


def leave_with(parent: int) -> None:
    """End this process when its parent is gone, now or later; it keeps what it frees."""

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        os._exit(1)

    keep_freed()
    threading.Thread(target=look, name="look after the parent", daemon=True).start()
