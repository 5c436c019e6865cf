"""What a command does before anything else: signals and the standard streams.

Imports the standard library only, and little of it, because a signal that comes
before this has run ends the process in Python's way.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import TextIO

EXIT_CODES = {signal.SIGHUP: 129, signal.SIGINT: 130, signal.SIGTERM: 143}
_SENTENCES = {signal.SIGHUP: "hung up", signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
_KEEPING = "training ends with the best model so far; a second signal ends at once"
# What the next signal does instead of ending the process.
_instead: list[Callable[[], None]] = []


def prepare(program: str) -> None:
    """Let INT, TERM and HUP end the process at once, and let no stream be missing.

    No garbage is collected before :func:`collect_garbage`.
    """
    gc.disable()
    _open_missing_streams()
    if hasattr(sys.stdout, "reconfigure"):
        # What its encoding has not is escaped, as Python does on stderr.
        sys.stdout.reconfigure(errors="backslashreplace")
    if not sys.warnoptions:
        # What Python and NumPy warn of, a user cannot act on: results are checked, and what
        # is wrong with them is said in our words. Processes that share the work do the same.
        warnings.simplefilter("ignore")
        os.environ["PYTHONWARNINGS"] = "ignore"
    else:
        # A process that ends at once leaves joblib's helper to tidy up, which need not tell.
        filters = os.environ.get("PYTHONWARNINGS"), "ignore:resource_tracker:UserWarning"
        os.environ["PYTHONWARNINGS"] = ",".join(filter(None, filters))

    def end(number, _frame) -> None:
        with contextlib.suppress(IndexError):
            # Taken before anything is said: what it ends may be over meanwhile.
            _instead.pop()()
            say(f"{program}: {_SENTENCES[number]}; {_KEEPING}")
            return
        ignore_signals()  # a second one would wait for what the first one holds
        # Before the module is there, or while it is loaded, nothing is written.
        changed = getattr(sys.modules.get("odmtool.io.files"), "stop_writing", list)()
        if getattr(sys.modules.get("odmtool.search.journal"), "in_use", False):
            changed.insert(0, "the journal")
        but = " but " + ", ".join(changed) if changed else ""
        # The work goes on in another thread, perhaps inside LAPACK: do not wait for it, and let
        # it say nothing any more.
        stream, sys.stderr = sys.stderr, io.StringIO()
        say(f"{program}: {_SENTENCES[number]}; no file{but} was changed", stream)
        os._exit(EXIT_CODES[number])

    for number in EXIT_CODES:
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, end)


@contextlib.contextmanager
def first_signal(do: Callable[[], None] | None) -> Iterator[list[bool]]:
    """Inside it, the first signal calls ``do`` and ends nothing, unless that is None.

    After that signal the list that it gives is not empty.
    """
    heard = []

    def take() -> None:
        heard.append(True)
        do()

    _instead[:] = [] if do is None else [take]
    try:
        yield heard
    finally:
        _instead.clear()


def collect_garbage() -> None:
    """From now on collect garbage, but do not look for it in what has been loaded."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


@contextlib.contextmanager
def without_garbage() -> Iterator[None]:
    """Inside it, no garbage is looked for: what is loaded there stays."""
    gc.disable()
    try:
        yield
    finally:
        collect_garbage()


def ignore_signals() -> None:
    """From now on the process ends as it is about to; Python's own end would restore defaults."""
    for number in EXIT_CODES:
        signal.signal(number, signal.SIG_IGN)


def _open_missing_streams() -> None:
    """Where stdin, stdout or stderr is closed, a file opened later would take its place."""
    while True:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor > 2:
            os.close(descriptor)
            break
        # Processes that share the work need the three, too.
        os.set_inheritable(descriptor, True)
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def say(line: str, stream: TextIO | None = None) -> None:
    """A line on stderr; that it cannot be written changes nothing."""
    stream = sys.stderr if stream is None else stream
    try:
        stream.write(line + "\n")
        stream.flush()
    except RuntimeError:
        # A second signal came while the first one's sentence was written: a stream is not entered
        # again.
        with contextlib.suppress(OSError):
            os.write(stream.fileno(), f"{line}\n".encode(errors="backslashreplace"))
    except OSError:
        # What stays in the buffer would fail again, and change the exit code, at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
