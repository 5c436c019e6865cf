"""What can go wrong, each with the exit code of the commands.

======  =====================================================================
code    meaning
======  =====================================================================
0       the work was done
1       bad data, model or file; out of memory; no solution exists, or none in --max-time
2       wrong options or arguments
3       the tolerance was not reached, and ``--strict`` was given
70      an internal error
129     the terminal was closed (SIGHUP)
130     Ctrl-C
141     whoever read our output closed the pipe
143     SIGTERM
======  =====================================================================

The sentences themselves stand in :mod:`odmtool.messages`. ``str(error)`` names parameters as
Python does; a command sets ``error.names``, so that its errors name options. Bad data and bad
parameters are ValueErrors, too, for those who call from Python.
"""

from __future__ import annotations

from odmtool.messages.words import PYTHON, written

EXIT_OK = 0
EXIT_INTERNAL = 70
EXIT_CLOSED_PIPE = 141


class OdmError(Exception):
    """Base of every error that is the input's or the caller's, not ours.

    ``message``: one sentence, from :mod:`odmtool.messages`; it may have marks
    (:mod:`odmtool.messages.words`).
    """

    exit_code = 1
    names = PYTHON
    """What ``str`` calls the parameters."""

    def __init__(self, message: str = ""):
        super().__init__(written(message))
        self.message = message

    def __str__(self) -> str:
        return written(self.message, self.names)


class FileError(OdmError):
    """A file that cannot be opened, read or written."""


class DataError(OdmError, ValueError):
    """Data that cannot be used.

    Parameters
    ----------
    message : str
        One sentence, from :mod:`odmtool.messages`.
    file : str, optional
        The name of the file as the user wrote it.
    line : int, optional
        The physical line, from 1.
    """

    def __init__(self, message: str, file: str | None = None, line: int | None = None):
        super().__init__(message)
        self.file, self.line = file, line

    def __str__(self) -> str:
        place = [str(part) for part in (self.file, self.line) if part is not None]
        return ": ".join([":".join(place), super().__str__()]) if place else super().__str__()


class NoRowsError(DataError):
    """A file of data without an example; same parameters as DataError."""


class ModelError(DataError):
    """A model or range file that cannot be used; same parameters as DataError."""


class MemoryLimitError(OdmError):
    """The work needs more memory than it may have."""


class TooWideError(MemoryLimitError, DataError):
    """The weights of so many features need more memory than they may have.

    Parameters
    ----------
    message, file, line
        As of a DataError.
    width : int
        The number of features.
    example : int, optional
        The first example that has the last of them, from 1.
    needed, memory : float
        Bytes.
    """

    def __init__(
        self, message: str, file: str | None = None, line: int | None = None, *,
        width: int = 0, example: int | None = None, needed: float = 0.0, memory: float = 0.0,
    ):  # fmt: skip
        super().__init__(message, file, line)
        self.width, self.example, self.needed, self.memory = width, example, needed, memory


class ClusterError(OdmError):
    """The cluster cannot be reached, or is lost."""


class ProcessLostError(OdmError):
    """A process that shared the work was killed."""


class DivergedError(OdmError):
    """The problem has no solution (an indefinite kernel), or none was found."""


class UsageError(OdmError, ValueError):
    """Options or parameters that make no sense; also out-of-range parameters."""

    exit_code = 2


class NotConvergedError(OdmError):
    """The tolerance was not reached, and the caller insists on it."""

    exit_code = 3


class ClosedPipeError(OdmError):
    """Whoever read our output has gone; nobody is there to be told."""

    exit_code = EXIT_CLOSED_PIPE
