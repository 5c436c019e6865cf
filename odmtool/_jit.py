"""The only place that configures numba.

:func:`njit` is ``numba.njit(nogil=True)`` with a disk cache of our own, because
numba's cache looks only at the file that defines a function: after a change in
a helper of another file, a caller would go on running the old code. Our folder
is named by a hash of all sources that compiled code is made of and of the versions of Python,
numpy and numba, so that nothing in it can be stale::

    <user cache>/odmtool/<hash>      user cache: NUMBA_CACHE_DIR if the user set it,
                                     else XDG_CACHE_HOME, else ~/.cache

Where no such folder can be written, functions are compiled in every process. So
they are where numba's cache is not made as we know it: the classes that ours is
made of are not part of numba's public interface, and another numba may call them
otherwise. Compiled code is run as it is found, so a folder that somebody else could have filled
is not used, by the rules of ssh for its keys: see :func:`_is_private`. A damaged cache, a full
disk and processes that fill the cache at the same time cost time, never a result. No setting of
numba is changed, so a program that imports odmtool beside other numba code does not notice.

numba itself is imported when the first function is decorated: a module that
uses :func:`njit` must be imported only where compiled code is needed.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from odmtool._pattern import Pattern

if TYPE_CHECKING:
    from pathlib import Path

UNUSED_DAYS = 30
_DAY = 86400.0
_MARK = "compiled-by-odmtool"
"""An empty file in every folder of ours; without it, none is deleted."""
_SAME_CODE = {"NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS"}
"""Settings that say where code is, and how it is run; joblib gives the latter to its workers."""
_OUR_NAME = Pattern(r"[0-9a-f]{24}|\.old-[0-9a-f]{16}")

_dispatchers: list = []
_callbacks: list[Callable[[], None]] = []


def njit(function):
    """Decorator: compile ``function`` when it is first called, and keep the code on disk.

    Signatures are lazy, the interpreter lock is released while the function
    runs, and floating point is exact IEEE arithmetic (no fastmath). With
    ``NUMBA_DISABLE_JIT=1`` the function is returned as it is.
    """
    return _compiled(function)


def fused_njit(function):
    """The same, but a product that a sum follows is not rounded by itself where the processor
    has an instruction for both: a fifth to a third less time in loops of few others."""
    return _compiled(function, fastmath={"contract"})


def _compiled(function, **options):
    import numba

    # A wrapper for C, which has no use for it, is a twentieth of compiling.
    dispatcher = numba.njit(nogil=True, no_cfunc_wrapper=True, **options)(function)
    if dispatcher is function:
        return function
    cache = _cache_of(function)
    if cache is not None and hasattr(dispatcher, "_cache"):
        dispatcher._cache = cache
    if not _dispatchers:
        _listen()
    _dispatchers.append(dispatcher)
    return dispatcher


def on_compile(callback: Callable[[], None]) -> None:
    """Call ``callback()`` once, when a function of odmtool is really compiled.

    A function that is loaded from the disk cache does not count.
    """
    _callbacks.append(callback)


def compilation_timer() -> Callable[[], float]:
    """A function: the seconds that compiling has taken from now on.

    Called by a callback of :func:`on_compile`, it counts that compilation, too.
    """
    from numba.core import event

    timer = event.TimingListener()
    event.register("numba:compile", timer)
    return lambda: timer.duration if timer.done else 0.0


def statistics() -> tuple[int, int]:
    """How many compiled functions came from the disk cache, and how many did not."""
    stats = [dispatcher.stats for dispatcher in _dispatchers]
    hits = sum(sum(stat.cache_hits.values()) for stat in stats)
    misses = sum(sum(stat.cache_misses.values()) for stat in stats)
    return hits, misses


@functools.cache
def cache_folder() -> str | None:
    """The folder of this version's compiled code, None if code cannot be kept."""
    import tempfile

    root = _cache_root()
    if root is None or _cache_class() is None:
        return None
    folder = root / "odmtool" / _stamp()
    try:
        is_new = not folder.is_dir()
        folder.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        if not _is_private(folder):
            return None
        (folder / _MARK).touch()
        tempfile.TemporaryFile(dir=folder).close()
        if time.time() - folder.stat().st_mtime > _DAY:
            os.utime(folder)
        if is_new:
            _prune(folder)
    except OSError:
        return None
    return str(folder)


def _cache_root() -> Path | None:
    from pathlib import Path

    from numba import config

    if config.CACHE_DIR:
        return Path(config.CACHE_DIR).absolute()
    for root in (os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~/.cache")):
        # Without a home directory expanduser leaves the ~ where it is.
        if os.path.isabs(root):
            return Path(root)
    return None


def _stamp() -> str:
    """A hash of everything the compiled code depends on."""
    import hashlib
    from pathlib import Path

    import numba
    import numpy

    package = Path(__file__).parent
    digest = hashlib.sha256()
    # NUMBA_BOUNDSCHECK and its like change the code, but not numba's own keys.
    changing = (name for name in os.environ if name.startswith("NUMBA_"))
    settings = sorted((name, os.environ[name]) for name in changing if name not in _SAME_CODE)
    versions = (sys.implementation.cache_tag, sys.version, numba.__version__, numpy.__version__)
    digest.update(repr((versions, settings)).encode())
    for source in sorted(package.rglob("*.py")):
        content = source.read_bytes()
        if is_compiled_from(source, content):
            digest.update(str(source.relative_to(package)).encode() + b"\0" + content + b"\0")
    return digest.hexdigest()[:24]


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
    return b"njit" in content or source.parent.name == "core"


def _prune(current: Path) -> None:
    """Delete the sibling folders of ours that no process has used for UNUSED_DAYS.

    A folder is renamed before it is deleted: a process that starts to use it at
    this moment finds either all of it or nothing. Its mark goes last, so that what
    a kill leaves is deleted another day.
    """
    import shutil

    for folder in current.parent.iterdir():
        with contextlib.suppress(OSError):
            unused = time.time() - folder.lstat().st_mtime > UNUSED_DAYS * _DAY
            if folder == current or not unused or not _is_ours(folder):
                continue
            doomed = folder.with_name(f".old-{os.urandom(8).hex()}")
            folder.rename(doomed)
            for inner in doomed.iterdir():
                shutil.rmtree(inner, ignore_errors=True)
            (doomed / _MARK).unlink()
            doomed.rmdir()


def _is_ours(folder: Path) -> bool:
    """Whether a folder has the name and the mark of those that are made here."""
    is_named = _OUR_NAME.fullmatch(folder.name) and not folder.is_symlink()
    return bool(is_named and (folder / _MARK).is_file())


def _cache_of(function):
    """The cache of a function in our folder, None if it can have none."""
    # Of a function whose source is no file, or in a numba that makes caches otherwise.
    with contextlib.suppress(Exception):
        folder, cache = cache_folder(), _cache_class()(function)
        if folder is not None and cache.cache_path.startswith(os.path.join(folder, "")):
            return cache
    return None


@functools.cache
def _cache_class():
    """numba's per-function cache, in our folder, and never a reason to fail.

    None if numba lacks something that it is made of.
    """
    try:
        from numba.core import caching

        base, implementation = caching.FunctionCache, caching.CompileResultCacheImpl
        locators = caching._SourceFileBackedLocatorMixin, caching._CacheLocator
        # What is overridden has to be there, else nobody would ask for it.
        _ = base.load_overload, base.save_overload, base._impl_class
        _ = implementation._locator_classes
    except (ImportError, AttributeError):
        return None

    class Locator(*locators):
        def __init__(self, py_func, py_file):
            self._py_file = py_file
            self._lineno = py_func.__code__.co_firstlineno

        def get_cache_path(self):
            return os.path.join(cache_folder(), self.get_suitable_cache_subpath(self._py_file))

    class Implementation(implementation):
        _locator_classes = [Locator]

    class Cache(base):
        _impl_class = Implementation

        def load_overload(self, sig, *context):
            try:
                result = super().load_overload(sig, *context)
                return result if result is None or _is_for(result, sig) else None
            except Exception:  # a damaged file: unpickling can raise anything
                with contextlib.suppress(Exception):
                    self.flush()
                return None

        def save_overload(self, sig, *data):
            with contextlib.suppress(Exception):  # a full disk, a folder just deleted
                super().save_overload(sig, *data)

    return Cache


def _is_for(result, sig) -> bool:
    """Whether code from the cache is for these arguments.

    Two processes that compile different signatures at the same time can leave an index that
    names the other one's code.
    """
    from numba.core import sigutils

    arguments, _ = sigutils.normalize_signature(sig)
    return tuple(result.signature.args) == tuple(arguments)


def _listen() -> None:
    """Have numba tell us when it compiles one of our functions."""
    try:
        from numba.core import event

        base, register = event.Listener, event.register
    except (ImportError, AttributeError):
        return  # compiled functions work, nobody hears that they are compiled

    class Listener(base):
        def on_start(self, event):
            compiled = (event.data or {}).get("dispatcher")
            if any(compiled is dispatcher for dispatcher in _dispatchers):
                while _callbacks:
                    _callbacks.pop(0)()

        def on_end(self, event):
            pass

    register("numba:compile", Listener())
