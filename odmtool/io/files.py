"""Open files by name, compressed or not, and replace files safely.

Reading: ``-`` is stdin; gzip, bzip2 and xz are recognised by their first bytes,
in pipes too, and several compressed members may follow each other.

Writing: a file is written under a hidden temporary name beside its target,
synced to the disk, and renamed. So at every moment, also after ``kill -9`` or on
a full disk, the target is either the whole old file or the whole new one. What
is no regular file (``/dev/null``, a fifo, stdout) is written directly.

Nothing here knows what is in the files.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import sys
import threading
import time
from collections.abc import Iterator
from typing import IO

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

from odmtool import messages
from odmtool._pattern import Pattern
from odmtool.errors import DataError, FileError
from odmtool.io.compressed import (
    BUFFER_BYTES,
    COMPRESSIONS,
    MAGICS,
    UNSUPPORTED,
    Decompressed,
    read_first,
)
from odmtool.io.room import has_room

_LONGEST_LINE = 1 << 16


def display_name(path: str | os.PathLike) -> str:
    """The name of an input as messages show it: ``-`` is stdin, control characters escaped."""
    name = os.fsdecode(path)
    if not name:
        return messages.quoted(name)
    return "stdin" if name == "-" else messages.one_line(name)


def _reason(error: Exception) -> str:
    if isinstance(error, ValueError) and "null" in str(error):
        return messages.null_in_name()  # Python words it differently from version to version
    return getattr(error, "strerror", None) or str(error)


# ---- reading -----------------------------------------------------------------


def open_input(path: str | os.PathLike, unread: Unread | None = None) -> io.BufferedReader:
    """Open a file for reading bytes, decompressed if it is compressed.

    Parameters
    ----------
    path : str
        Name of the file; ``-`` is stdin, which is not closed with the result.
    unread : Unread, optional
        The file, from :func:`open_unread`.

    Raises
    ------
    FileError
        There is no such file, or it cannot be read. Also raised while reading.
    DataError
        The file is compressed in a way that is not supported. While reading:
        the compressed data are cut off or corrupt.
    """
    raw = unread or open_unread(path)
    start = read_first(raw, MAGICS)
    raw.push_back(start)
    for magic, kind, remedy in UNSUPPORTED:
        if start.startswith(magic):
            raw.close()
            raise DataError(messages.unknown_compression(kind, remedy), raw.name)
    for compression in COMPRESSIONS:
        if compression.has_begun(start):
            return io.BufferedReader(Decompressed(raw, compression), BUFFER_BYTES)
    return io.BufferedReader(raw, BUFFER_BYTES)


def lines(stream: IO[bytes], name: str, error: type[DataError] = DataError) -> Iterator[bytes]:
    """The lines of a file whose lines are short; raises ``error`` where one does not end."""
    number = 0
    while line := stream.readline(_LONGEST_LINE + 1):
        number += 1
        if len(line) > _LONGEST_LINE:
            raise error(messages.line_too_long(_LONGEST_LINE), name, number)
        yield line


def open_unread(path: str | os.PathLike) -> Unread:
    """Open a file and read nothing: a pipe waits for its writer, not for a first row.

    Raises FileError as :func:`open_input` does.
    """
    name = display_name(path)
    try:
        if os.fsdecode(path) != "-":
            return Unread(open(path, "rb", buffering=0), name, owned=True)
    except FileNotFoundError:
        raise FileError(messages.no_such_file(name)) from None
    except IsADirectoryError:
        raise FileError(messages.is_a_folder(name)) from None
    except (OSError, ValueError) as error:
        raise FileError(messages.cannot_read(name, _reason(error))) from None
    if sys.stdin is None:
        raise FileError(messages.cannot_read(name, os.strerror(errno.EBADF)))
    return Unread(sys.stdin.buffer, name, owned=False)


class Unread(io.RawIOBase):
    """A stream whose first bytes can be put back, and whose errors are FileErrors."""

    def __init__(self, stream: IO[bytes], name: str, owned: bool):
        self.name = name
        self._stream, self._owned = stream, owned
        # readinto of a buffered stdin would wait until the whole target is filled.
        self._readinto = getattr(stream, "readinto1", stream.readinto)
        self._start = b""

    def push_back(self, start: bytes) -> None:
        self._start = start

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def readinto(self, target) -> int:
        if self._start:
            count = min(len(target), len(self._start))
            target[:count], self._start = self._start[:count], self._start[count:]
            return count
        try:
            count = self._readinto(target)
        except OSError as error:
            raise FileError(messages.cannot_read(self.name, _reason(error))) from None
        if count is None:  # a non-blocking stream that has nothing yet: not its end
            raise FileError(messages.cannot_read(self.name, os.strerror(errno.EAGAIN)))
        return count

    def close(self) -> None:
        if self._owned:
            self._stream.close()
        super().close()


# ---- writing -----------------------------------------------------------------

_DESCRIPTORS = Pattern(r"/dev/(stdin|stdout|stderr)|/(?:dev|proc/self)/fd/([0-9]+)")
_STANDARD = {"stdin": 0, "stdout": 1, "stderr": 2}

_lock = threading.Lock()
_ending = threading.Event()
_unfinished: set[str] = set()
_TEMPORARY = Pattern(r"\.odmtool-[0-9a-f]{16}\.tmp")
_LEFT_SECONDS = 60.0
_replaced_names: dict[str, None] = {}


def check_readable(path: str | os.PathLike) -> None:
    """Raise FileError if an input cannot be opened, before any work is done.

    A pipe is left alone: it can be opened only once.
    """
    path = os.fspath(path)
    if path != "-" and (os.path.isfile(path) or os.path.isdir(path) or not os.path.exists(path)):
        open_input(path).close()


def is_stream(path: str | os.PathLike) -> bool:
    """Whether a name stands for a descriptor of this process: stdin, or what a shell made."""
    return os.fsdecode(path) == "-" or _descriptor(path) is not None


def is_regular_stdin() -> bool:
    """Whether stdin is a file, which has all its lines already."""
    try:
        return stat.S_ISREG(os.fstat(0).st_mode)
    except OSError:
        return False


def output_stream(path: str | os.PathLike) -> int | None:
    """The descriptor of this process that an output goes to, 1 for ``-``; None for a file."""
    return 1 if os.fsdecode(path) == "-" else _descriptor(path)


def is_same_file(path: str | os.PathLike, other: str | os.PathLike) -> bool:
    """Whether both names lead to one regular file, existing or not yet; ``-`` leads to none."""
    if "-" in (path, other):
        return False
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and os.path.samefile(path, other)
    except OSError:
        return not os.path.exists(path) and os.path.realpath(path) == os.path.realpath(other)


def check_writable(path: str | os.PathLike, appended: bool = False) -> None:
    """Find out before the long work that a file could not be written after it.

    No name appears in its folder. A file that is ``appended`` to needs no new one there.

    Raises FileError: it is a folder or write-protected, no file can be made in its folder, the disk
    is full, or it is stdout, which is closed.
    """
    stream = output_stream(path)
    if stream is None:
        destination, status = _destination(path, appended)
        if (status is None or stat.S_ISREG(status.st_mode)) and not has_room(destination):
            reason = os.strerror(errno.ENOSPC)
            raise FileError(messages.cannot_write(display_name(path), reason))
    elif stream == 1 and _is_closed(sys.stdout):
        raise FileError(messages.cannot_write("stdout", os.strerror(errno.EBADF)))


def _is_closed(stream: IO | None) -> bool:
    """Whether a standard stream was closed before this process began.

    A command has then put the null device in its place, so that other files do not take it.
    """
    return stream is None or getattr(stream, "name", None) == os.devnull


def atomic_output(
    path: str | os.PathLike, binary: bool = False, inherits: bool = True
) -> contextlib.AbstractContextManager[IO]:
    """Write a file so that it appears complete or not at all.

    Returns a context manager that yields a file object. When the block ends, the
    new file replaces the old one, whose permissions it takes over; when the block
    raises, the old one stays. A symbolic link stays a link. Text is UTF-8; what
    came from a file name that is no UTF-8 is written as it was.

    Parameters
    ----------
    path : str
        ``-`` is stdout. An existing file that is not regular (a device, a fifo)
        is written directly, ``/dev/stdout`` and its like where they stand.
    binary : bool
        The file object takes bytes, not text.
    inherits : bool
        Otherwise the name itself is replaced, whatever has it: a link is not followed, and
        nobody's permissions are taken over.

    Raises
    ------
    FileError
        The file cannot be written (full disk, no permission, ...).
    BrokenPipeError
        The reader of stdout or of a fifo has gone.
    """
    name = display_name(path)
    check_writable(path)
    if not inherits:
        return _replaced(os.path.abspath(os.fsdecode(path)), None, name, binary)
    if os.fsdecode(path) == "-":
        return _standard_output(binary)
    descriptor = _descriptor(path)
    if descriptor is not None:
        return _written_directly(descriptor, name, binary)
    destination, status = _destination(path)
    if status is not None and not stat.S_ISREG(status.st_mode):
        return _written_directly(destination, name, binary)
    return _replaced(destination, status, name, binary)


def stop_writing() -> list[str]:
    """Delete the temporary files of every :func:`atomic_output` that has not ended.

    For a process that is about to end; may be called from any thread, once. No file is
    replaced afterwards: a thread that tries waits for ever.

    Returns list of str: the names of the files that have been replaced before.
    """
    _ending.set()
    _lock.acquire()
    for temporary in _unfinished:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
    return list(_replaced_names)


@contextlib.contextmanager
def _turn() -> Iterator[None]:
    """One change of the folder at a time, and none once the process is about to end.

    The lock alone would not do: the thread that has just given it back may take it again
    before the one that waits for it wakes up.
    """
    if _ending.is_set():
        threading.Event().wait()
    with _lock:
        yield


def _descriptor(path) -> int | None:
    """Which open descriptor a name like ``/dev/stdout`` stands for.

    Opening such a name anew would give a second position in the same file: the
    lines printed to stdout would overwrite the product.
    """
    match = _DESCRIPTORS.fullmatch(os.fsdecode(path))
    return match and int(_STANDARD.get(match[1], match[2]))


def _destination(path, appended: bool = False) -> tuple[str, os.stat_result | None]:
    """The file that a name leads to, and what is there now (None: nothing)."""
    name = display_name(path)
    try:
        status = os.stat(path)
    except FileNotFoundError:
        status = None
    except (OSError, ValueError) as error:
        raise FileError(messages.cannot_write(name, _reason(error))) from None
    if os.fsdecode(path).endswith(os.sep) or (status and stat.S_ISDIR(status.st_mode)):
        raise FileError(messages.is_a_folder(name))
    if not os.fsdecode(path):
        raise FileError(messages.no_such_file(name))
    if status is not None and not os.access(path, os.W_OK):
        raise FileError(messages.cannot_write(name, os.strerror(errno.EACCES)))
    if status is not None and not stat.S_ISREG(status.st_mode):
        return os.fsdecode(path), status
    destination = os.path.realpath(os.fsdecode(path))
    if status is not None and appended:
        return destination, status
    folder = os.path.dirname(destination)
    if not os.path.isdir(folder):
        raise FileError(messages.no_such_folder(name, folder))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FileError(messages.folder_not_writable(name, folder))
    return destination, status


class _Output(io.FileIO):
    """A file opened for writing, whose errors are FileErrors that name it."""

    def __init__(self, file: str | int, shown_name: str):
        super().__init__(file, "w")
        self._shown_name = shown_name

    def write(self, data) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise FileError(messages.cannot_write(self._shown_name, _reason(error))) from None


def _stream(raw: _Output, binary: bool) -> IO:
    buffered = io.BufferedWriter(raw, BUFFER_BYTES)
    if binary:
        return buffered
    return io.TextIOWrapper(buffered, "utf-8", errors="surrogateescape", newline="\n")


@contextlib.contextmanager
def _standard_output(binary: bool) -> Iterator[IO]:
    try:
        sys.stdout.flush()
        stream = sys.stdout.buffer if binary else sys.stdout
        yield stream
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise FileError(messages.cannot_write("stdout", _reason(error))) from None


@contextlib.contextmanager
def _written_directly(target: str | int, name: str, binary: bool) -> Iterator[IO]:
    """Write a device, a fifo, or what a descriptor of this process leads to."""
    try:
        if isinstance(target, int):
            sys.stdout.flush()
            target = os.dup(target)
        stream = _stream(_Output(target, name), binary)
    except OSError as error:
        raise FileError(messages.cannot_write(name, _reason(error))) from None
    try:
        yield stream
        stream.close()
    finally:
        _close_quietly(stream)


@contextlib.contextmanager
def _replaced(destination: str, status, name: str, binary: bool) -> Iterator[IO]:
    """Write beside ``destination`` and put the result in its place."""
    folder = os.path.dirname(destination)
    _remove_leftovers(folder)
    temporary = os.path.join(folder, f".odmtool-{os.urandom(8).hex()}.tmp")
    stream = _stream(_open_temporary(temporary, status, name), binary)
    try:
        yield stream
        stream.flush()
        try:
            os.fsync(stream.fileno())
            stream.close()
            _replace(temporary, destination, name)
        except OSError as error:
            raise FileError(messages.cannot_write(name, _reason(error))) from None
    finally:
        _close_quietly(stream)
        _forget(temporary)


def _remove_leftovers(folder: str) -> None:
    """Delete the temporary files of processes that were killed.

    Whoever writes one holds a lock on it, but for a moment at its beginning and its end.
    """
    if fcntl is None:
        return
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if not _TEMPORARY.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
                continue
            with contextlib.suppress(OSError), open(entry.path, "rb") as stream:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if time.time() - os.fstat(stream.fileno()).st_mtime > _LEFT_SECONDS:
                    os.unlink(entry.path)


def _open_temporary(temporary: str, status, name: str) -> _Output:
    """Create the file with the permissions of the old one, or those of any new file."""
    # The bits the old file lacks must be missing from the first moment.
    mode = 0o666 if status is None else stat.S_IMODE(status.st_mode) & 0o777
    try:
        with _turn():
            descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
            _unfinished.add(temporary)
        with contextlib.suppress(OSError, AttributeError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if status is not None:
            with contextlib.suppress(OSError, AttributeError):
                os.fchown(descriptor, status.st_uid, status.st_gid)
            with contextlib.suppress(OSError, AttributeError):
                os.fchmod(descriptor, mode)
        return _Output(descriptor, name)
    except OSError as error:
        _forget(temporary)
        raise FileError(messages.cannot_write(name, _reason(error))) from None


def _replace(temporary: str, destination: str, name: str) -> None:
    with _turn():
        try:
            os.replace(temporary, destination)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            # A mount point of its own, as containers make them of single files,
            # cannot be replaced; hours of work must not be lost for that.
            import shutil

            shutil.copyfile(temporary, destination)
        _replaced_names[name] = None
    # The rename itself must survive a power failure; not every system can do that.
    with contextlib.suppress(OSError):
        descriptor = os.open(os.path.dirname(destination), os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _forget(temporary: str) -> None:
    with _turn():
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        _unfinished.discard(temporary)


def _close_quietly(stream: IO) -> None:
    """Close what is being abandoned: what cannot be written any more does not matter."""
    with contextlib.suppress(OSError, ValueError, FileError):
        stream.close()
