"""The folder of compiled code: named by all that the code depends on, and nobody else's.

    <user cache>/odmtool/<hash>      user cache: NUMBA_CACHE_DIR if the user set it,
                                     else XDG_CACHE_HOME, else ~/.cache

The hash is of all sources that compiled code is made of and of the versions of Python,
numba and NumPy, so that nothing in it can be stale. Compiled code is run as it is found, so a
folder that somebody else could have filled is not used, by the rules of ssh for its keys.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import stat
import sys
import tempfile
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from odmtool._pattern import Pattern

UNUSED_DAYS = 30
_DAY = 86400.0
MARK = "compiled-by-odmtool"
"""An empty file in every folder of ours; without it, none is deleted."""
_SAME_CODE = {"NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS"}
"""Settings that say where code is, and how it is run; joblib gives the latter to its workers."""
_OUR_NAME = Pattern(r"[0-9a-f]{24}|\.old-[0-9a-f]{16}")


@functools.cache
def cache_folder() -> str | None:
    """The folder of this version's compiled code, None if code cannot be kept."""
    root = _cache_root()
    if root is None:
        return None
    folder = root / "odmtool" / _stamp()
    try:
        is_new = not folder.is_dir()
        folder.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        if not _is_private(folder):
            return None
        (folder / MARK).touch()
        tempfile.TemporaryFile(dir=folder).close()
        if time.time() - folder.stat().st_mtime > _DAY:
            os.utime(folder)
        if is_new:
            _prune(folder)
    except OSError:
        return None
    return str(folder)


def _cache_root() -> Path | None:
    if own := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(own).absolute()
    for root in (os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~/.cache")):
        # Without a home directory expanduser leaves the ~ where it is.
        if os.path.isabs(root):
            return Path(root)
    return None


def _stamp() -> str:
    """A hash of everything the compiled code depends on."""
    package = Path(__file__).parent.parent
    digest = hashlib.sha256()
    # NUMBA_BOUNDSCHECK and its like change the code, but not numba's own keys.
    changing = (name for name in os.environ if name.startswith("NUMBA_"))
    settings = sorted((name, os.environ[name]) for name in changing if name not in _SAME_CODE)
    compilers = _version_of("numba"), _version_of("llvmlite")
    versions = (sys.implementation.cache_tag, sys.version, compilers, np.__version__)
    digest.update(repr((versions, settings)).encode())
    for source in sorted(package.rglob("*.py")):
        content = source.read_bytes()
        if is_compiled_from(source, content):
            digest.update(str(source.relative_to(package)).encode() + b"\0" + content + b"\0")
    return digest.hexdigest()[:24]


def _version_of(package: str) -> bytes:
    """What a package says of its version, which takes as long as all else if it is imported."""
    file = Path(find_spec(package).origin).with_name("_version.py")
    return file.read_bytes() if file.exists() else import_module(package).__version__.encode()


def _is_private(folder: Path) -> bool:
    """Whether nobody but this user, and root, can have put anything into the folder.

    It is this user's and closed to all others; and no folder above it belongs to another
    user, or lets others write, unless they can rename only what is theirs (``/tmp``).
    """
    if not hasattr(os, "geteuid"):
        return True
    own, status = os.geteuid(), folder.stat()
    if status.st_uid != own or status.st_mode & 0o077:
        return False
    for above in folder.resolve().parents:
        status = above.stat()
        others = stat.S_IWOTH if _is_own_group(status.st_gid) else stat.S_IWOTH | stat.S_IWGRP
        is_open = status.st_mode & others and not status.st_mode & stat.S_ISVTX
        if status.st_uid not in (own, 0) or is_open:
            return False
    return True


def _is_own_group(number: int) -> bool:
    """Whether a group has this user as its only member, as many systems make one for each."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(number)
    except KeyError:
        return False
    return user.pw_name == group.gr_name and set(group.gr_mem) <= {user.pw_name}


def is_compiled_from(source: Path, content: bytes) -> bool:
    """Whether compiled code depends on a file of the package.

    Compiled functions call each other, and what else they name is from core/: a new sentence
    elsewhere is no reason to compile again.
    """
    return b"njit" in content or source.parent.name in ("core", "_jit")


def _prune(current: Path) -> None:
    """Delete the sibling folders of ours that no process has used for UNUSED_DAYS.

    A folder is renamed before it is deleted: a process that starts to use it at
    this moment finds either all of it or nothing. Its mark goes last, so that what
    a kill leaves is deleted another day.
    """
    for folder in current.parent.iterdir():
        with contextlib.suppress(OSError):
            unused = time.time() - folder.lstat().st_mtime > UNUSED_DAYS * _DAY
            if folder == current or not unused or not _is_ours(folder):
                continue
            doomed = folder.with_name(f".old-{os.urandom(8).hex()}")
            folder.rename(doomed)
            for inner in doomed.iterdir():
                shutil.rmtree(inner, ignore_errors=True)
            (doomed / MARK).unlink()
            doomed.rmdir()


def _is_ours(folder: Path) -> bool:
    """Whether a folder has the name and the mark of those that are made here."""
    is_named = _OUR_NAME.fullmatch(folder.name) and not folder.is_symlink()
    return bool(is_named and (folder / MARK).is_file())
