"""Where a sentence goes: stdout, stderr, or nowhere.

Results go to stdout in the wording that scripts parse; when the product itself
(a model, predictions) goes to stdout, they go to stderr. Notes (the summary) go
to stderr and are silenced by ``-q``; warnings and errors never are. A script that
never reads our stderr (LIBSVM's grid search) would block us once the pipe is full,
so when stderr is no terminal there is no progress, and notes and warnings together
end at ``STDERR_LIMIT`` bytes.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import threading
import time
from contextlib import contextmanager

from odmtool.cli import messages, process
from odmtool.cli.files import is_on_stdout
from odmtool.cli.flags import spoken
from odmtool.errors import FileError

STDERR_LIMIT = 4096
PROGRESS_SECONDS = 0.5
LOG_SECONDS = 10.0
# --verbose prints the first iterations one by one.
_FIRST = 5
# The pass from which on they take about as long.
_SECOND = 2
# More than so many times the seconds that were seen nobody can foresee.
_FORESEEN = 10.0


class _Phase:
    """A part of the work that may take long, and how far it is.

    A solver tells it from one thread, and lines are made in another.
    """

    def __init__(self, name: str, tolerance: float | None):
        self.name, self.tolerance, self.began = name, tolerance, time.monotonic()
        self.count, self.state, self.stage, self._first = 0, None, None, None
        self._told = self._second_pass = self.began

    def add(self, state) -> None:
        """What a solver tells."""
        self.count, self.state, self._told = self.count + 1, state, time.monotonic()
        if self._first is None and 0 < state.gap < 1:
            self._first = (self._told, state.gap)

    def enter(self, stage) -> None:
        """What a solver does next."""
        if stage is not None and stage.count == _SECOND:
            self._second_pass = time.monotonic()
        self.stage = stage

    def line(self) -> str:
        """Phase, stage, iteration, gap, and the time."""
        now, stage = time.monotonic(), self.stage
        left = self._left(now)
        left = self._left_of_passes(stage, now) if left is None else left
        return messages.progress(self.name, stage, self.state, now - self.began, left)

    def _left_of_passes(self, stage, now: float) -> float | None:
        """Seconds, if those that are expected take as long as those so far but the first.

        With that code is loaded, and what is kept is made.
        """
        if stage is None or not _SECOND < stage.count <= stage.most:
            return None
        done = stage.count - _SECOND
        return (now - self._second_pass) / done * (stage.most + 1 - stage.count)

    def _left(self, now: float) -> float | None:
        """Seconds, if the gap goes on falling at the rate of so far.

        None where it should have fallen long ago: an iteration may have many passes.
        """
        if self._first is None or not 0 < self.state.gap < self._first[1] or not self.tolerance:
            return None
        fallen = math.log(self._first[1] / self.state.gap)
        missing = math.log(self.state.gap / self.tolerance)
        if missing > _FORESEEN * fallen:
            return None
        spent = self._told - self._first[0]
        left = spent * missing / fallen - (now - self._told)
        return max(0.0, left) if left > 0 or missing <= 0 else None


class Report:
    """The voice of one run of one command.

    Parameters
    ----------
    program : str
        Name that starts every line on stderr.
    quiet : bool
        Say only results, warnings and errors.
    verbose : bool
        Also say what happens inside; lifts the limit on stderr.
    product_on_stdout : bool
        Results go to stderr, because stdout carries the product.
    """

    def __init__(self, program: str, quiet=False, verbose=False, product_on_stdout=False):
        self.program, self.product_on_stdout = program, product_on_stdout
        self.quiet, self.verbose = quiet, verbose
        self._stderr_left = STDERR_LIMIT
        self._last_progress = self._last_line = time.monotonic()
        self._has_progress = False
        self._lock = threading.RLock()
        self._phase: _Phase | None = None

    def result(self, line: str) -> None:
        """A line that scripts parse."""
        self.end_progress()
        if self.product_on_stdout:
            process.say(line)
            return
        from odmtool.io.files import check_writable

        check_writable("-")
        try:
            print(line, flush=True)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise FileError(messages.cannot_write("stdout", error.strerror)) from None

    @contextmanager
    def first(self, lines: list[str]):
        """Results, before files are written inside it: that may fail, or be interrupted.

        It gives a function that calls another, which writes files. What cannot be written, also
        where nobody reads the results, as behind ``| head -1``, is told at the end: a table does
        not take the model with it.
        """
        failed: list[Exception] = []

        def attempt(write, *arguments) -> None:
            try:
                write(*arguments)
            except (BrokenPipeError, FileError) as error:
                failed.append(error)

        attempt(lambda: [self.result(line) for line in lines])
        try:
            yield attempt
        except BaseException:
            self._tell(failed)
            raise
        # The exit code of a pipe that is closed comes before that of a file.
        failed.sort(key=lambda error: isinstance(error, BrokenPipeError))
        self._tell(failed[:-1])
        if failed:
            raise failed[-1]

    def _tell(self, failed: list[Exception]) -> None:
        """Errors besides the one that ends the command."""
        for error in failed:
            if isinstance(error, FileError):
                process.say(f"{self.program}: {error}")

    def note(self, line: str) -> None:
        """A sentence about what was done."""
        if not self.quiet:
            self._stderr(line)

    def warning(self, line: str) -> None:
        """Something the user should know, though the work goes on."""
        self._stderr(f"warning: {line}")

    def detail(self, line: str) -> None:
        """A sentence for ``--verbose``."""
        if self.verbose:
            self._stderr(line)

    @contextmanager
    def phase(self, name: str, tolerance: float | None = None):
        """Show that work goes on: a live line on a terminal, with ``--verbose`` a line every
        ``LOG_SECONDS``.

        Parameters
        ----------
        name : str
            What is done.
        tolerance : float, optional
            The gap at which it ends; then the time left is estimated.
        """  # fmt: skip
        if self.quiet or not (self.verbose or sys.stderr.isatty()):
            yield
            return
        self._phase, done = _Phase(name, tolerance), threading.Event()

        def watch() -> None:
            while not done.wait(PROGRESS_SECONDS):
                self._show()

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()
            self.end_progress()
            self._phase = None

    def progress(self, state) -> None:
        """The progress callback of the solvers."""
        if self._phase is not None:
            self._phase.add(state)
            self._show(is_first=self.verbose and self._phase.count <= _FIRST)

    def enter(self, stage) -> None:
        """What the solvers tell of a stage."""
        if self._phase is not None:
            self._phase.enter(stage)

    def _show(self, is_first: bool = False) -> None:
        phase, now = self._phase, time.monotonic()
        if phase is None:
            return
        if not self.verbose:
            self.live(phase.line())
        elif is_first or now - max(self._last_line, phase.began) >= LOG_SECONDS:
            self._last_line = now
            self.detail(phase.line())

    def live(self, line: str) -> None:
        """Replace the live line on a terminal, now and then."""
        if not self.quiet and sys.stderr.isatty():
            with self._lock:
                now = time.monotonic()
                if now - self._last_progress >= PROGRESS_SECONDS:
                    self._last_progress, self._has_progress = now, True
                    # A line that is broken is not replaced.
                    room = shutil.get_terminal_size().columns - len(self.program) - 3
                    line = line[: max(1, room)]
                    sys.stderr.write(f"\r{self.program}: {line}\033[K")
                    sys.stderr.flush()

    def end_progress(self) -> None:
        """Remove the live line."""
        with self._lock:
            if self._has_progress:
                self._has_progress = False
                sys.stderr.write("\r\033[K")
                sys.stderr.flush()

    def _stderr(self, line: str) -> None:
        line = f"{self.program}: {spoken(line)}"
        with self._lock:
            self.end_progress()
            if not (self.verbose or sys.stderr.isatty()):
                self._stderr_left -= len(os.fsencode(line)) + 1
                if self._stderr_left < 0:
                    return
            process.say(line)


def report_of(context, options: dict, *products: str | None) -> Report:
    """The voice of a command with the options of all; its products may go to stdout."""
    return Report(
        context.command_path, options["quiet"], options["verbose"], is_on_stdout(*products)
    )
