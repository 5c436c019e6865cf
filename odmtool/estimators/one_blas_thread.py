"""One BLAS thread while an estimator trains, as in the commands.

More threads add in another order, so that models would depend on their number, and they wait for
each other where several fits, or other programs, share the processors: a small factorisation
can then take a hundred times as long. What the environment sets stands. The limit is that of the
process, so the last of several fits lifts it.

It takes threadpoolctl, which comes with scikit-learn; without that BLAS is left as it is.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from functools import cache
from threading import Lock

from odmtool.defaults import BLAS_THREADS


class _Limit:
    """How many fits run, and what lifts the limit after them."""

    def __init__(self):
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._lock, self._running, self._lift = Lock(), 0, None

    def begin(self, controller) -> None:
        with self._lock:
            if self._running == 0:
                _let_any_thread_set(controller)
                self._lift = controller.limit(limits=1, user_api="blas").restore_original_limits
            self._running += 1

    def end(self, controller) -> None:
        with self._lock:
            self._running -= 1
            if self._running == 0:
                _let_any_thread_set(controller)
                self._lift()

    def forget(self) -> None:
        """In a new process, which has none of the threads that were in it."""
        if self._running:
            with suppress(Exception):
                _let_any_thread_set(_controller())
                self._lift()
        self._begin_anew()


def _let_any_thread_set(controller) -> None:
    """threadpoolctl 3.7 and newer listen to the thread that set a limit first, and to no other."""
    for library in controller.lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


_limit = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.forget)


@contextmanager
def one_blas_thread():
    """Inside it, in any thread, BLAS has one thread."""
    controller = None if any(map(os.environ.get, BLAS_THREADS)) else _controller()
    if controller is None:
        yield
        return
    _limit.begin(controller)
    try:
        yield
    finally:
        _limit.end(controller)


@cache
def _controller():
    """What knows the libraries that are loaded, SciPy's among them; None without threadpoolctl."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    import scipy.linalg  # noqa: F401

    return ThreadpoolController()
