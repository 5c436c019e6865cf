"""Run a command: exceptions become one sentence and an exit code.

The work runs in a second thread while the main thread waits for it, because
Python delivers a signal only between two bytecodes of the main thread: a long
call into LAPACK or into compiled code would delay Ctrl-C until it returns.
Every long call we make releases the interpreter lock, so the waiting thread
hears the signal at once (:mod:`odmtool.cli.process`).
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import sys
import threading
from typing import NoReturn

import click

from odmtool.cli import messages, process
from odmtool.errors import (
    EXIT_CLOSED_PIPE,
    EXIT_INTERNAL,
    EXIT_OK,
    ClosedPipeError,
    OdmError,
    UsageError,
)

# Seconds.
_AWAKE_EVERY = 0.5
# What the loader says of a library for which there is no memory.
_NOT_MAPPED = "failed to map", "cannot map"
# They tidy up, or report, when Python ends; cProfile loads profile.
_AT_THE_END = {"multiprocessing", "profile", "coverage"}


class _AtOnce(int):
    """An exit code after want of memory: tidying up takes some, and Python has crashed then."""


def run(command: click.Command, args: list[str], program: str) -> int:
    """Run ``command`` in this thread and return its exit code.

    Nothing is raised: errors are said on stderr as ``program: sentence``.
    """
    try:
        command.main(args=args, prog_name=program, standalone_mode=False)
        sys.stdout.flush()
        return EXIT_OK
    except (ClosedPipeError, BrokenPipeError):
        # Python would complain again when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return EXIT_CLOSED_PIPE
    except SystemExit as leave:
        return leave.code or EXIT_OK  # how click ends shell completion
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        return _say(program, messages.click_error(error), UsageError.exit_code)
    except OdmError as error:
        return _say(program, str(error), error.exit_code)
    except MemoryError as error:
        return _AtOnce(_say(program, messages.out_of_memory(error), OdmError.exit_code))
    except Exception as error:
        if _is_for_want_of_memory(error):
            return _AtOnce(_say(program, messages.out_of_memory(error), OdmError.exit_code))
        if isinstance(error, OSError):
            return _say(program, messages.os_error(error), OdmError.exit_code)
        if "--verbose" in args:
            import traceback

            traceback.print_exc()
        return _say(program, messages.internal_error(error), EXIT_INTERNAL)


def _is_for_want_of_memory(error: BaseException) -> bool:
    """Whether a library could not be loaded, or a thread not started, within a limit."""
    if isinstance(error, ImportError):
        # NumPy before version 2 says what else it may have been, and keeps the reason.
        if error.__cause__ is not None and _is_for_want_of_memory(error.__cause__):
            return True
        said = str(error)
        return any(text in said for text in (*_NOT_MAPPED, os.strerror(errno.ENOMEM)))
    if isinstance(error, OSError):  # llvmlite's, of its library
        return error.errno is None and "shared object" in str(error)
    if isinstance(error, SystemError):  # Python's, where an extension did not notice
        said = str(error)
        return "without exception set" in said or "without setting an exception" in said
    return isinstance(error, RuntimeError) and "can't start new thread" in str(error)


def main(command: click.Command, program: str) -> NoReturn:
    """Run ``command`` on ``sys.argv`` and exit; :func:`process.prepare` has been called."""
    outcome = [EXIT_INTERNAL]
    done = threading.Event()

    def work() -> None:
        try:
            outcome[0] = run(command, sys.argv[1:], program)
        finally:
            done.set()

    try:
        threading.Thread(target=work, name="work", daemon=True).start()
    except RuntimeError:  # no memory for it; in this one a signal waits for the end of a long call
        work()
    # Only that the main thread wakes lets Python act on a signal that another thread received.
    while not done.wait(_AWAKE_EVERY):
        pass
    process.ignore_signals()
    # Python would take down all that is loaded piece by piece, which takes as long as a small
    # training.
    if not _AT_THE_END & sys.modules.keys() or isinstance(outcome[0], _AtOnce):
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, MemoryError):
                stream.flush()
        os._exit(outcome[0])
    gc.freeze()
    sys.exit(outcome[0])


def _say(program: str, sentence: str, exit_code: int) -> int:
    process.say(f"{program}: {sentence}")
    return exit_code
