"""The journal of a search: what is finished, so that a killed search can go on.

The first line says what is searched: a JSON object with the fingerprint of the data and
everything else on which a result depends. Then comes one line per finished piece of work,
in any order: of a search a :class:`Fit`, ``[setting, fold, correct, score, gap, converged,
seconds]`` with the number of the setting in the grid; of repeated splits a
:class:`odmtool.search.repeats.SplitResult`. Behind each stands its CRC-32, eight hexadecimal
digits; lines of version 1 had none. Processes append whole lines on their own and sync them
in batches. A line that a kill or a full disk has torn, or that was changed, is ignored: its
work is done again. A process that goes on with a journal holds a lock on it (flock) until it ends,
so that no second one does the same work.
"""

from __future__ import annotations

import json
import os
import stat
import time
import zlib
from contextlib import contextmanager
from typing import NamedTuple, get_type_hints

from odmtool import messages
from odmtool.defaults import MOST_IN_PAIRS
from odmtool.errors import DataError, FileError

try:
    import fcntl
except ImportError:
    fcntl = None

VERSION = 2
_SYNC_SECONDS = 1.0
_LONGEST_LINE = 1 << 20
_decode = json.JSONDecoder().decode  # json.loads first looks for the encoding

in_use = False
"""Whether this process has begun a journal, or goes on with one."""

_held: dict[tuple[int, int], int] = {}
"""Descriptors by which this process holds its journals, by device and number of the file."""


class Fit(NamedTuple):
    """One setting on one fold."""

    setting: int  # its number in the grid
    fold: int
    correct: int  # examples of the fold that were predicted correctly
    score: float  # the metric on the fold
    gap: float
    converged: bool
    seconds: float = 0.0  # that its training took; lines of before have none


def open_journal(path: str, search: dict, record: type = Fit) -> list:
    """Begin a journal, or read the one that an earlier run of the same search left.

    Returns list of records: what is finished already.

    Parameters
    ----------
    search : dict
        What is searched; JSON values.
    record : type
        A NamedTuple of int, float, str and bool: what one line holds.

    Raises
    ------
    FileError
        The file cannot be read or written, or another process goes on with it.
    DataError
        It is the journal of another search, or no journal.
    """
    head = {"odmtool-journal": VERSION} | search
    first = json.dumps(head).encode() + b"\n"
    _check_kind(path)
    global in_use
    try:
        in_use = True  # a signal from here on may leave it begun
        with open(path, "a+b") as stream:
            _hold(stream.fileno(), path)
            stream.seek(0)
            line = stream.readline(_LONGEST_LINE)
            is_new = len(line) < len(first) and first.startswith(line)
            finished = []
            if is_new:
                stream.truncate(0)  # a torn first line
                stream.write(first)
            else:
                version = _check_head(messages.one_line(path), line, head)
                kinds, last = tuple(get_type_hints(record).values()), line
                while line := stream.readline(_LONGEST_LINE):
                    last, entry = line, _read(line, record, kinds, version)
                    if entry is not None:
                        finished.append(entry)
                if not last.endswith(b"\n"):
                    stream.write(b"\n")  # ends a torn line
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise _cannot_write(path, error) from None
    return finished


def _cannot_write(path: str, error: OSError) -> FileError:
    return FileError(messages.cannot_write(messages.one_line(path), error.strerror or str(error)))


def _hold(descriptor: int, path: str) -> None:
    """Keep others from this file until the process ends; raise FileError if one does that.

    File systems without locks are used without.
    """
    status = os.fstat(descriptor)
    if fcntl is None or (status.st_dev, status.st_ino) in _held:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise FileError(messages.journal_in_use(path)) from None
    except OSError:
        return
    # The lock lives as long as any descriptor of the same opening.
    _held[status.st_dev, status.st_ino] = os.dup(descriptor)


def _check_kind(path: str) -> None:
    """Raise DataError for what has no end, or is gone once it is read."""
    try:
        is_regular = stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return  # a new file, or one whose error opening it tells
    if not is_regular and not os.path.isdir(path):
        raise DataError(messages.journal_not_regular(), messages.one_line(path))


def _check_head(shown: str, line: bytes, head: dict) -> int:
    """The version of the journal whose first line this is; ``shown`` is its name in errors."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    version = found.get("odmtool-journal") if isinstance(found, dict) else None
    if not isinstance(version, int) or version < 1:
        sentence = messages.grid_results() if is_grid_row(line) else messages.no_journal()
        raise DataError(sentence, shown, 1)
    if version > VERSION:
        raise DataError(messages.newer_journal(version), shown, 1)
    machine = found.get("machine")
    if isinstance(machine, dict) and machine.get("most_in_pairs") == MOST_IN_PAIRS:
        del machine["most_in_pairs"]  # some wrote the default, which says nothing
    if key := _difference(head | {"odmtool-journal": version}, found):
        raise DataError(messages.other_journal(key), shown)
    return version


def is_grid_row(line: bytes) -> bool:
    """Whether grid.py, or ``-out``, wrote this line."""
    return line.startswith((b"log2c=", b"log2g="))


def _difference(ours: dict, theirs: dict) -> str:
    """The first key whose values differ, of a machine and of what has fields the one inside.

    Empty if none does.
    """
    for key in ours | theirs:
        one, other = ours.get(key), theirs.get(key)
        if json.loads(json.dumps(one)) == other:
            continue
        inside = ""
        if hasattr(one, "_fields") and isinstance(other, list):  # as JSON has them
            inside = _difference(one._asdict(), dict(zip(one._fields, other, strict=False)))
        elif key == "machine" and isinstance(one, dict) and isinstance(other, dict):
            inside = _difference(one, other)
        return inside or key
    return ""


def _seal(text: bytes) -> bytes:
    """The text with its checksum, a line of the journal."""
    return b"%b %08x\n" % (text, zlib.crc32(text))


def _read(line: bytes, record: type, kinds: tuple, version: int):
    """What a line holds; None if it is torn or was changed."""
    text = line[:-10]
    if line != _seal(text):
        if version > 1:
            return None
        text = line
    try:
        entry = record(*_decode(text.decode()))
    except (ValueError, TypeError, RecursionError):
        return None
    return entry if tuple(map(type, entry)) == kinds else None


class Writer:
    """Appends what is finished, or nothing without a path; one for each process."""

    def __init__(self, path: str | None):
        self._path = path
        if not path:
            return
        with self._named_errors():
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        self._synced = time.monotonic()

    def write(self, record: tuple) -> None:
        """Append one line, by one call, so that lines of several processes do not mix."""
        if not self._path:
            return
        line = _seal(json.dumps(record).encode())
        with self._named_errors():
            if os.write(self._descriptor, line) < len(line):
                # A full disk takes a part; what follows must not be appended to that.
                os.write(self._descriptor, b"\n")
            if time.monotonic() - self._synced > _SYNC_SECONDS:
                os.fsync(self._descriptor)
                self._synced = time.monotonic()

    @contextmanager
    def _named_errors(self):
        try:
            yield
        except OSError as error:
            raise _cannot_write(self._path, error) from None

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_exception) -> None:
        if not self._path:
            return
        try:
            with self._named_errors():
                os.fsync(self._descriptor)
        finally:
            os.close(self._descriptor)
