"""Where a sentence goes: stdout, stderr, or nowhere.

Results go to stdout in the wording that scripts parse; when the product itself
(a model, predictions) goes to stdout, they go to stderr. Notes (the summary) go
to stderr and are silenced by ``-q``; warnings and errors never are. A script that
never reads our stderr (LIBSVM's grid search) would block us once the pipe is full,
so when stderr is no terminal there is no progress, and notes and warnings together
end at ``STDERR_LIMIT`` bytes.
"""

from __future__ import annotations

import sys
import time

from odmtool.cli import messages, process
from odmtool.cli.flags import spoken

STDERR_LIMIT = 4096
PROGRESS_SECONDS = 0.5


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
        self.program = program
        self.quiet = quiet
        self.verbose = verbose
        self.product_on_stdout = product_on_stdout
        self._stderr_left = STDERR_LIMIT
        self._last_progress = time.monotonic()
        self._has_progress = False

    def result(self, line: str) -> None:
        """A line that scripts parse."""
        self.end_progress()
        stream = sys.stderr if self.product_on_stdout else sys.stdout
        print(line, file=stream, flush=True)

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

    def progress(self, state) -> None:
        """The progress callback of the solvers: every step with ``--verbose``, else a live
        line on a terminal.
        """
        if self.verbose:
            self.detail(messages.progress(state))
        else:
            self.live(messages.progress(state))

    def live(self, line: str) -> None:
        """Replace the live line on a terminal, now and then."""
        if not self.quiet and sys.stderr.isatty():
            now = time.monotonic()
            if now - self._last_progress >= PROGRESS_SECONDS:
                self._last_progress, self._has_progress = now, True
                sys.stderr.write(f"\r{self.program}: {line}\033[K")
                sys.stderr.flush()

    def end_progress(self) -> None:
        """Remove the live line."""
        if self._has_progress:
            self._has_progress = False
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()

    def _stderr(self, line: str) -> None:
        self.end_progress()
        line = f"{self.program}: {spoken(line)}\n"
        if not (self.verbose or sys.stderr.isatty()):
            self._stderr_left -= len(line.encode())
            if self._stderr_left < 0:
                return
        process.say(line.removesuffix("\n"))
