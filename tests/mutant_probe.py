"""A pytest plugin for :mod:`mutants`: which test calls which function, and choosing tests.

With MUTANTS_RECORD=FILE, every test that passes is written to FILE with the CPU seconds that it
took and the functions of the package that were called in this process meanwhile. Compiled code
is not seen. With MUTANTS_CHOSEN=FILE, only the tests named there are run, in that order.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = str(ROOT / "odmtool") + os.sep


def cpu_seconds() -> float:
    both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


class Recorder:
    """Notes the functions that each test calls, by file and first line."""

    def __init__(self, target: str):
        self._target, self._tests, self._called, self._failed = target, {}, set(), set()

    def _trace(self, frame, event, argument):
        code = frame.f_code
        if code.co_filename.startswith(PACKAGE):
            self._called.add((code.co_filename, code.co_firstlineno))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item):
        self._called, start = set(), cpu_seconds()
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        yield
        sys.settrace(None)
        threading.settrace(None)
        called = sorted((str(Path(f).relative_to(ROOT)), line) for f, line in self._called)
        self._tests[item.nodeid] = [cpu_seconds() - start, called]

    def pytest_runtest_logreport(self, report):
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self):
        passed = {name: seen for name, seen in self._tests.items() if name not in self._failed}
        Path(self._target).write_text(json.dumps(passed), encoding="utf-8")


class Chooser:
    """Runs the tests of a list, in its order."""

    def __init__(self, source: str):
        names = json.loads(Path(source).read_text(encoding="utf-8"))
        self._place = {name: place for place, name in enumerate(names)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        chosen = [item for item in items if item.nodeid in self._place]
        items[:] = sorted(chosen, key=lambda item: self._place[item.nodeid])


def pytest_configure(config):
    if os.environ.get("MUTANTS_RECORD"):
        config.pluginmanager.register(Recorder(os.environ["MUTANTS_RECORD"]))
    if os.environ.get("MUTANTS_CHOSEN"):
        config.pluginmanager.register(Chooser(os.environ["MUTANTS_CHOSEN"]))
