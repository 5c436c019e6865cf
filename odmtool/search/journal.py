"""The journal of a search: what is finished, so that a killed search can go on.

The first line says what is searched: a JSON object with the fingerprint of the data and
everything else on which a result depends. Then comes one line per finished piece of work,
in any order: of a search a :class:`Fit`, ``[setting, fold, correct, score, gap, converged]``
with the number of the setting in the grid; of repeated splits a
:class:`odmtool.search.repeats.SplitResult`. Processes append whole lines on their own and sync them
in batches; a torn last line, which a kill or a full disk can leave, is ignored.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager
from typing import NamedTuple, get_type_hints

from odmtool import messages
from odmtool.errors import DataError, FileError

VERSION = 1
_SYNC_SECONDS = 1.0

in_use = False
"""Whether this process has begun a journal, or goes on with one."""


class Fit(NamedTuple):
    """One setting on one fold.

    Attributes
    ----------
    setting : int
        Its number in the grid.
    fold : int
    correct : int
        Examples of the fold that were predicted correctly.
    score : float
        The metric on the fold.
    gap : float
    converged : bool
    """

    setting: int
    fold: int
    correct: int
    score: float
    gap: float
    converged: bool


def open_journal(path: str, search: dict, record: type = Fit) -> list:
    """Begin a journal, or read the one that an earlier run of the same search left.

    Parameters
    ----------
    path : str
    search : dict
        What is searched; JSON values.
    record : type
        A NamedTuple of int, float, str and bool: what one line holds.

    Returns
    -------
    list of records
        What is finished already.

    Raises
    ------
    FileError
        The file cannot be read or written.
    DataError
        It is the journal of another search, or no journal.
    """
    head = {"odmtool-journal": VERSION} | search
    first = json.dumps(head).encode() + b"\n"
    try:
        with open(path, "a+b") as stream:
            stream.seek(0)
            content = stream.read()
            is_new = len(content) < len(first) and first.startswith(content)
            lines = content.split(b"\n")
            if is_new:
                stream.truncate(0)  # a torn first line
                stream.write(first)
            else:
                _check_head(path, lines[0], head)
                if not content.endswith(b"\n"):
                    stream.write(b"\n")  # ends a torn line
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise FileError(messages.cannot_write(path, error.strerror or str(error))) from None
    global in_use
    in_use = True
    if is_new:
        return []
    kinds = get_type_hints(record).values()
    return [entry for line in lines[1:] if (entry := _read(line, record, kinds)) is not None]


def _check_head(path: str, line: bytes, head: dict) -> None:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict) or "odmtool-journal" not in found:
        raise DataError(messages.no_journal(), path, 1)
    expected = json.loads(json.dumps(head))
    for key in expected | found:
        if found.get(key) != expected.get(key):
            raise DataError(messages.other_journal(key), path)


def _read(line: bytes, record: type, kinds):
    try:
        entry = record(*json.loads(line))
    except (ValueError, TypeError):
        return None
    is_whole = all(isinstance(value, kind) for value, kind in zip(entry, kinds, strict=True))
    return entry if is_whole else None


class Writer:
    """Appends what is finished; one for each process."""

    def __init__(self, path: str):
        self._path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        self._synced = time.monotonic()

    def write(self, record: tuple) -> None:
        """Append one line, by one call, so that lines of several processes do not mix."""
        line = json.dumps(record).encode() + b"\n"
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
            reason = error.strerror or str(error)
            raise FileError(messages.cannot_write(self._path, reason)) from None

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_exception) -> None:
        try:
            with self._named_errors():
                os.fsync(self._descriptor)
        finally:
            os.close(self._descriptor)
