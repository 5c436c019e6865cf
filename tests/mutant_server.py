"""Runs pytest again and again for :mod:`mutants`, each time in a fork of this process.

What every run needs, NumPy, SciPy, numba and pytest, has been imported here once. A line of
standard input is a request, one of standard output the answer, both JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path

_MEMORY = 8 * 2**30


def run(request: dict) -> int:
    """Exit code of pytest; the signal that ended it, negative."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = child_run(request)
        finally:
            os._exit(code)
    deadline = time.monotonic() + request["wall"]
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended or time.monotonic() > deadline:
            break
        time.sleep(0.02)
    # It leads a session, so that its children end with it.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if not ended:
        _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def child_run(request: dict) -> int:
    os.setsid()
    output = os.open(request["output"], os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (request["cpu"], request["cpu"] + 5))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    os.environ.update(request["environment"])
    sys.dont_write_bytecode = bool(request["environment"]["PYTHONDONTWRITEBYTECODE"])
    numba.config.reload_config()
    sys.path[:0] = request["environment"]["PYTHONPATH"].split(os.pathsep)
    os.chdir(request["folder"])
    return int(pytest.main(request["arguments"]))


if __name__ == "__main__":
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    sys.path.remove(str(Path(__file__).resolve().parent))
    import hypothesis  # noqa: F401
    import joblib  # noqa: F401
    import numba
    import numba.core.registry
    import pytest
    import scipy.optimize
    import scipy.sparse.linalg
    import scipy.special
    import scipy.stats  # noqa: F401

    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)
