"""One BLAS thread while an estimator trains, as in the commands.

More threads add in another order, so that models would depend on their number, and they wait for
each other where several fits, or other programs, share the processors: a small factorisation
can then take a hundred times as long. What the environment sets stands.

It takes threadpoolctl, which comes with scikit-learn; without that BLAS is left as it is.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import cache
from threading import Lock

_VARIABLES = [f"{library}_NUM_THREADS" for library in ("OPENBLAS", "MKL", "OMP")]
_lock = Lock()
# The fits that run, as the limit is one for the process, and what the last of them lifts.
_running: list[object] = []
_limits: list = []


@contextmanager
def one_blas_thread():
    """Inside it, in any thread, BLAS has one thread."""
    controller = None if any(map(os.environ.get, _VARIABLES)) else _controller()
    if controller is None:
        yield
        return
    fit = object()
    with _lock:
        if not _running:
            _limits.append(controller.limit(limits=1, user_api="blas"))
        _running.append(fit)
    try:
        yield
    finally:
        with _lock:
            _running.remove(fit)
            if not _running:
                _limits.pop().restore_original_limits()


@cache
def _controller():
    """What knows the libraries that are loaded, SciPy's among them; None without threadpoolctl."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    import scipy.linalg  # noqa: F401

    return ThreadpoolController()
