"""Runs scripts, each in a fork of this process, which has imported numba (conftest.py).

A line of standard input is a request, one of standard output the answer, both JSON: exit code,
what the script printed, and what it said on stderr.
"""

import json
import os
import runpy
import sys
import traceback
import warnings

import numba
import numba.core.registry
import numpy  # noqa: F401

numba.njit(lambda x: x * 2)(0.5)  # what the first compilation of a process loads

def child(request: dict, out: int, err: int) -> None:
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    numba.config.reload_config()
    if request["warnings"]:
        warnings.simplefilter(request["warnings"])
    sys.path[0] = request["path"]
    sys.dont_write_bytecode = True  # Python takes two texts of one second and size for the same
    code = 0
    try:
        runpy.run_path(request["script"], run_name="__main__")
    except SystemExit as stop:
        code = int(stop.code or 0)
    except BaseException:
        code = 1
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


for line in sys.stdin:
    # Pipes, because a script may limit the size of files.
    pipes = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        child(json.loads(line), *(end for _, end in pipes))
    texts = []
    for reading, writing in pipes:
        os.close(writing)
        with open(reading, errors="replace") as stream:
            texts.append(stream.read())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(json.dumps([code, *texts]), flush=True)
