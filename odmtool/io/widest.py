"""The line of a data file with the largest index, which decides how many features there are.

It is looked for only when the data are refused for it, so that reading remembers no lines.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from odmtool import messages
from odmtool.errors import DataError, FileError, TooWideError
from odmtool.io.files import display_name, is_stream, open_input


class Widest(NamedTuple):
    """Where the largest index is: its line, from 1, and the token that has it."""

    index: int
    line: int
    token: bytes


def widest_line(path: str | os.PathLike) -> Widest | None:
    """The first line with the largest index of a file that has been read without fault.

    None if no line has an index, or the file can no longer be read.
    """
    found = Widest(-1, 0, b"")
    with suppress(DataError, FileError), open_input(path) as stream:
        for number, line in enumerate(stream, 1):
            # Indices ascend. The first token is the label.
            tokens = line.partition(b"#")[0].rsplit(None, 1)
            text, colon, _ = tokens[-1].partition(b":") if len(tokens) == 2 else (b"", b"", b"")
            if colon and text.isdigit():
                index = int(text.lstrip(b"0") or b"0")
                if index > found.index:
                    found = Widest(index, number, tokens[-1])
        return None if found.index < 0 else found
    return None


def locate(error: TooWideError, path: str, skipped: int | None = None) -> None:
    """Let the refusal name the line of the file that the data came from, if it can be found.

    ``skipped`` are the blank and comment lines of what was read, if that is known.
    """
    if is_stream(path) or not os.path.isfile(path):
        error.line = error.example if skipped == 0 else None
        return
    locate_among(error, [(path, widest_line(path))])


def locate_among(error: TooWideError, files: Iterable[tuple[str, Widest | None]]) -> None:
    """The same for several files, of which the first that is wide enough is named."""
    for file, found in files:
        # Of data that count from 0 the largest index is one less. Other files have changed.
        if found is not None and found.index in (error.width, error.width - 1):
            error.file, error.line = display_name(file), found.line
            error.message = messages.too_wide_token(found.token, error.needed, error.memory)
            return
