"""Whether a disk has room for a file, found out before the work whose result it is to hold."""

from __future__ import annotations

import os

_BLOCK = 4096


def has_room(path: str) -> bool:
    """Whether a block can be written in the folder of a file.

    Not every system tells its free space truly: where it tells of none, it is tried, with a file
    that has no name.
    """
    folder = os.path.dirname(path)
    try:
        told = os.statvfs(folder)
    except (OSError, AttributeError):  # not on Windows
        return True
    has_names = told.f_favail or not told.f_files  # some systems do not count them
    if (told.f_bavail and has_names) or not os.access(folder, os.W_OK | os.X_OK):
        return True
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as stream:
            stream.write(bytes(_BLOCK))
            os.fsync(stream.fileno())
    except OSError:
        return False
    return True
