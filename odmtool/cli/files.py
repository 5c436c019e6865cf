"""The files of a command: checked before anything is read, and named in errors about data."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager

from odmtool.cli import messages
from odmtool.errors import DataError, TooWideError, UsageError


@contextmanager
def naming(data_file: str, skipped: int | None = None):
    """Errors about the data that do not know where they came from name this file.

    ``skipped`` are its blank and comment lines, if they are known.
    """
    try:
        yield
    except DataError as error:
        if isinstance(error, TooWideError) and error.file is None:
            from odmtool.io.widest import locate

            locate(error, data_file, skipped)
        if error.file is None:
            from odmtool.io.files import display_name

            error.file = display_name(data_file)
        raise


def check_files(inputs: list[str], outputs: list[str | None], journal: str | None = None) -> None:
    """Raise before anything is read if a file cannot be read or written, or is two things.

    ``outputs`` (list of str or None): those that are None are not written. ``journal`` is the one
    of them that is appended to.
    """
    from odmtool.io.files import check_readable, check_writable

    refuse_shared_stdin(*inputs)
    for path in inputs:
        check_readable(path)
    outputs = [name for name in outputs if name is not None]
    refuse_shared_stream(*outputs)
    for position, output in enumerate(outputs):
        check_writable(output, appended=output == journal)
        if is_in_use(output, inputs, outputs[:position]):
            raise UsageError(messages.write_over(output))


def is_in_use(output: str, inputs: list[str], others: list[str]) -> bool:
    """Whether to write a file would replace an input, or another output.

    ``-`` is the file that the shell has opened for ``< FILE``, ``> FILE`` or ``>> FILE``, if it
    is one: what is read block by block would come to what has been appended to it, and an output
    that replaces the file would take with it what was printed.
    """
    from odmtool.io.files import is_same_file, output_stream

    if any(is_same_file(output, other) for other in inputs + others):
        return True
    written = _regular(output, output_stream(output))
    used = [_regular(name, 0 if name == "-" else None) for name in inputs]
    used += [_regular(name, output_stream(name)) for name in others]
    return written is not None and any(
        status is not None and os.path.samestat(status, written) for status in used
    )


def _regular(path: str, descriptor: int | None) -> os.stat_result | None:
    """The regular file that a name leads to, or this descriptor; None if there is none."""
    try:
        status = os.stat(path) if descriptor is None else os.fstat(descriptor)
    except (OSError, ValueError):
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def refuse_shared_stdin(*inputs: str | None) -> None:
    """Raise UsageError if two inputs come from stdin: the second would find its end."""
    if inputs.count("-") > 1:
        raise UsageError(messages.dash_twice("stdin"))


def refuse_shared_stream(*outputs: str | None) -> None:
    """Raise UsageError if two outputs go to the same stream, by ``-`` or by ``/dev/stdout``."""
    from odmtool.io.files import output_stream

    streams = [output_stream(name) for name in outputs if name is not None]
    for stream in {*streams} - {None}:
        if streams.count(stream) > 1:
            raise UsageError(messages.stream_twice(stream))


def is_on_stdout(*outputs: str | None) -> bool:
    """Whether an output goes to stdout, so that nothing else may."""
    from odmtool.io.files import output_stream

    return 1 in [output_stream(name) for name in outputs if name is not None]


def check_training_files(
    inputs: list[str], outputs: list[str | None], journal: str | None = None
) -> None:  # fmt: skip
    """The same, where the inputs are the training data and perhaps their weights."""
    if inputs.count("-") > 1:
        raise UsageError(messages.two_from_stdin("the training data", "the weights"))
    check_files(inputs, outputs, journal)
