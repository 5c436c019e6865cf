"""Runs tests for :mod:`mutants`: a pytest that has collected all tests waits for requests.

Each request, a line of standard input, is run in a fork of this process, in which a file of the
package has been changed on disk. Where only functions differ, these get their new code in place,
and nothing is imported or collected again. Where more does (a constant of a module, a default),
or a function was called while tests were collected, the fork imports package and tests again.

The answer, a line of standard output, has the test that ``failed`` (or None), the number of
tests ``run``, the ``signal`` that ended the fork, and whether it imported ``again``. A request may
also ask to ``record``, test by test, the CPU seconds that it takes and the functions of the package
that it calls in this process. Compiled code is not seen, interpreted code of compiled functions is.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import signal
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from types import CodeType, FunctionType

import numba
import pytest

_MEMORY = 8 * 2**30
_COLLECTING = 120.0
"""CPU seconds to import and collect again."""


class Tracer:
    """Notes the functions of a folder that are called, by file and first line."""

    def __init__(self, folder: str):
        self._folder, self.called = folder, set()

    def _trace(self, frame, event, argument):
        code = frame.f_code
        if code.co_filename.startswith(self._folder):
            self.called.add((code.co_filename, code.co_firstlineno))

    def __enter__(self):
        self.called = set()
        threading.settrace(self._trace)
        sys.settrace(self._trace)

    def __exit__(self, *_):
        sys.settrace(None)
        threading.settrace(None)


class Runner:
    """Runs the tests of a request in its order until one fails, each in its CPU seconds."""

    def __init__(self, request: dict):
        self._tests, self.failed, self.run = request["tests"], None, 0

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed = self.failed or report.nodeid

    def pytest_collectreport(self, report):
        if report.failed:
            self.failed = self.failed or f"{report.nodeid}: not imported"

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        by_name = {item.nodeid: item for item in session.items}
        items = [by_name[name] for name in self._tests if name in by_name]
        for item, following in zip(items, [*items[1:], None], strict=True):
            if self.failed:
                break
            signal.setitimer(signal.ITIMER_PROF, self._tests[item.nodeid])
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            self.run += 1
        return True


class Recorder(Runner):
    """Runs all tests of a file, and tells what they took and called."""

    def __init__(self, request: dict):
        super().__init__(request)
        self._target, self._file = Path(request["record"]), request["file"]

    def pytest_runtestloop(self, session):
        seen, root = {}, str(session.config.rootpath)
        tracer = Tracer(os.path.join(root, "odmtool", ""))
        items = [item for item in session.items if item.nodeid.startswith(f"{self._file}::")]
        for item, following in zip(items, [*items[1:], None], strict=True):
            self.failed, start = None, cpu_seconds()
            with tracer:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            called = sorted((os.path.relpath(file, root), line) for file, line in tracer.called)
            if not self.failed:
                seen[item.nodeid] = [cpu_seconds() - start, called]
        self._target.write_text(json.dumps(seen), encoding="utf-8")
        self.failed, self.run = None, len(items)
        return True


class Server:
    """The plugin that, instead of running the tests that were collected, runs requests."""

    def __init__(self, folder: str, requests, answers, tracer: Tracer):
        self._package = os.path.join(folder, "odmtool", "")
        self._folder, self._requests, self._answers = folder, requests, answers
        self._tracer, self._functions = tracer, defaultdict(list)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        self._tracer.__exit__()
        gc.unfreeze()
        for thing in gc.get_objects():
            if isinstance(thing, FunctionType):
                self._functions[thing.__code__.co_filename].append(thing)
        gc.freeze()
        for line in self._requests:
            print(json.dumps(self._answer(session, json.loads(line))), file=self._answers)
            self._answers.flush()
        return True

    def _answer(self, session, request: dict) -> dict:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writing, json.dumps(self._child(session, request)).encode())
            finally:
                os._exit(1)
        os.close(writing)
        deadline, ended = time.monotonic() + request["wall"], 0
        while not ended and time.monotonic() < deadline:
            ended, status = os.waitpid(child, os.WNOHANG)
            time.sleep(0.01)
        # It leads a session, so that its children end with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        if not ended:
            _, status = os.waitpid(child, 0)
        with open(reading, "rb") as stream:
            answer = stream.read()
        if answer:
            return json.loads(answer)
        return {"failed": None, "run": 0, "signal": os.waitstatus_to_exitcode(status)}

    def _child(self, session, request: dict) -> dict:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        sys.dont_write_bytecode = True
        os.environ.update(request["environment"])
        plugins = session.config.pluginmanager
        plugins.getplugin("capturemanager").suspend_global_capture(in_=True)
        output = os.open(request["output"], os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        os.dup2(output, 1)
        os.dup2(output, 2)
        runner = (Recorder if request.get("record") else Runner)(request)
        changed = request.get("changed")
        path = os.path.join(self._folder, changed or "")
        is_again = changed and (request.get("again") or not self._replaced(path, request["before"]))
        if is_again:
            self._again(runner, request)
        else:
            plugins.register(runner)
            plugins.getplugin("capturemanager").resume_global_capture()
            runner.pytest_runtestloop(session)
        again = bool(is_again)
        return {"failed": runner.failed, "run": runner.run, "signal": 0, "again": again}

    def _replaced(self, path: str, before: str) -> bool:
        """Give the functions of a file their new code; False if that is not all that differs."""
        old, new = (codes(path, source) for source in (before, Path(path).read_text()))
        if old.keys() != new.keys():
            return False
        differ = {place for place in old if own(old[place]) != own(new[place])}
        for line, name in differ:
            is_function = new[line, name].co_flags & 2  # CO_NEWLOCALS: no module, no class
            if not is_function or (path, line) in self._tracer.called:
                return False
        for function in self._functions[path]:
            place = function.__code__.co_firstlineno, function.__code__.co_qualname
            if place in new and old[place] != new[place]:
                function.__code__ = new[place]
        return True

    def _again(self, runner: Runner, request: dict) -> None:
        """Import package and tests again and run what is wanted."""
        numba.config.reload_config()
        for name, module in list(sys.modules.items()):
            if (getattr(module, "__file__", None) or "").startswith(self._folder):
                del sys.modules[name]
        signal.setitimer(signal.ITIMER_PROF, _COLLECTING)
        files = sorted({name.partition("::")[0] for name in request["tests"]})
        pytest.main([*OPTIONS, *files], plugins=[runner])


def codes(path: str, source: str) -> dict[tuple[int, str], CodeType]:
    """All code objects of a file by line and name; those that share both are known by number."""
    found, left = {}, [compile(source, path, "exec", dont_inherit=True)]
    while left:
        code = left.pop()
        place, number = (code.co_firstlineno, code.co_qualname), 0
        while place in found:
            number += 1
            place = code.co_firstlineno, f"{code.co_qualname} {number}"
        found[place] = code
        left += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return found


def own(code: CodeType) -> tuple:
    """What a code object is made of besides others."""
    constants = [repr(c) for c in code.co_consts if not isinstance(c, CodeType)]
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars


def cpu_seconds() -> float:
    both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


OPTIONS = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--basetemp=temporary"]

if __name__ == "__main__":
    sys.path.remove(str(Path(__file__).resolve().parent))
    folder = os.getcwd()
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open("collecting", os.O_CREAT | os.O_TRUNC | os.O_WRONLY), 1)
    tracer = Tracer(os.path.join(folder, "odmtool", ""))
    server = Server(folder, requests, answers, tracer)
    with tracer:
        sys.exit(pytest.main([*OPTIONS, "tests"], plugins=[server]))
