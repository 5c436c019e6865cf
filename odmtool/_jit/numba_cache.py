"""numba's disk cache in our folder (:mod:`odmtool._jit.folder`), and never a reason to fail.

numba's own looks only at the file that defines a function: after a change in a helper of another
file, a caller would go on running the old code. The classes that ours is made of are not part of
numba's public interface, and another numba may call them otherwise: then there is none.
"""

from __future__ import annotations

import contextlib
import functools
import os

from odmtool._jit.folder import cache_folder


def cache_of(function):
    """The cache of a function in our folder, None if it can have none."""
    # Of a function whose source is no file, or in a numba that makes caches otherwise.
    with contextlib.suppress(Exception):
        folder, cache = cache_folder(), cache_class()(function)
        if folder is not None and cache.cache_path.startswith(os.path.join(folder, "")):
            return cache
    return None


@functools.cache
def cache_class():
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
