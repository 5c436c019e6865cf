"""The only place that knows numba: compiled functions, made once and kept on the disk.

:func:`njit` is ``numba.njit(nogil=True)`` whose code is kept in a folder of our own
(:mod:`odmtool._jit.folder`): as object code, which is run without numba
(:mod:`odmtool._jit.keeping`, :mod:`~odmtool._jit.objects`), and where that cannot be, in numba's
cache (:mod:`odmtool._jit.numba_cache`). Where no such folder can be written, functions are
compiled in every process. Damaged files, a full disk and processes that fill the folder at the
same time cost time, never a result. No setting of numba is changed, so a program that imports
odmtool beside other numba code does not notice.

numba is imported when something has to be compiled, LLVM when a compiled function is called.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_functions: list[Compiled] = []
_callbacks: list[Callable[[], None]] = []
_lock = threading.Lock()


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
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return function
    _functions.append(Compiled(function, options))
    return _functions[-1]


class Compiled:
    """A function whose code is run from the disk if it is kept there, and else made by numba.

    Arguments have no names, and it has no methods of numba's: those are the dispatcher's.

    Attributes
    ----------
    py_func : callable
        The function as it is written.
    loaded : dict
        The code from the disk, by the types of arguments (:func:`odmtool._jit.arguments.types_of`).
    """

    def __init__(self, function: Callable, options: dict):
        functools.update_wrapper(self, function)
        self.py_func, self._options = function, options
        self.loaded, self._codes, self._types_of = {}, {}, None

    def __call__(self, *arguments):
        if self._types_of is None:
            from odmtool._jit.arguments import types_of

            self._types_of = types_of
        types = self._types_of(arguments)
        code = self._codes.get(types)
        if code is None:
            with _lock:  # the code of a function can be linked once
                code = self._codes.get(types) or self._code_for(types)
                self._codes[types] = code
        return code(*arguments)

    def _code_for(self, types: tuple) -> Callable:
        from odmtool._jit import objects

        place = self.place_of(types)
        if place is None or objects.is_marked(place):
            return self.dispatcher
        if (code := objects.load(place)) is not None:
            self.loaded[types] = code
            return code
        return functools.partial(self._first, place)

    def _first(self, place: Path, *arguments):
        """Compile for these arguments, keep the code and run it."""
        import numba

        from odmtool._jit.keeping import keep

        made = self.dispatcher
        if made is not self.py_func:  # else numba is told to compile nothing
            signature = tuple(map(numba.typeof, arguments))
            made.compile(signature)
            keep(place, made.overloads[signature])
        self._codes[self._types_of(arguments)] = made
        return made(*arguments)

    def is_kept(self, *arguments) -> bool:
        """Whether nothing has to be compiled for such arguments; nothing is run or loaded."""
        from odmtool._jit import objects
        from odmtool._jit.arguments import types_of

        types = types_of(arguments)
        place = None if types in self._codes else self.place_of(types)
        return types in self._codes or place is not None and objects.is_whole(place)

    def place_of(self, types: tuple) -> Path | None:
        """Where code for these types is kept, None if it cannot be."""
        from odmtool._jit import arguments, folder

        # Without LLVM, or where it has another interface, numba does everything.
        with contextlib.suppress(Exception):
            if (own := folder.cache_folder()) is not None:
                return arguments.place_of(own, self.py_func, self._options, types)
        return None

    @functools.cached_property
    def dispatcher(self):
        """What numba makes of the function."""
        import numba

        from odmtool._jit.numba_cache import cache_of

        _listen()
        # A wrapper for C, which has no use for it, is a twentieth of compiling.
        made = numba.njit(nogil=True, no_cfunc_wrapper=True, **self._options)(self.py_func)
        cache = cache_of(self.py_func)
        if cache is not None and hasattr(made, "_cache"):
            made._cache = cache
        return made

    def __reduce__(self) -> str:
        """Another process has the function by its name."""
        return self.__qualname__

    @property
    def is_ready(self) -> bool:
        """Whether it has been called, or is about to be."""
        return bool(self._codes)

    @property
    def is_made(self) -> bool:
        """Whether numba has made something of the function."""
        return vars(self).get("dispatcher", self.py_func) is not self.py_func

    @property
    def _numba_type_(self):
        """What numba takes it for, where another compiled function calls it."""
        from numba.core import types

        return types.Dispatcher(self.dispatcher)


def cache_folder() -> str | None:
    """The folder of this version's compiled code, None if code cannot be kept."""
    from odmtool._jit import folder

    return folder.cache_folder()


def is_kept(function, *arguments) -> bool:
    """Whether a function that :func:`njit` made compiles nothing for such arguments."""
    return not isinstance(function, Compiled) or function.is_kept(*arguments)


def is_loaded() -> bool:
    """Whether a compiled function has been called, and LLVM with it."""
    return any(function.is_ready for function in _functions)


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
    stats = [function.dispatcher.stats for function in _functions if function.is_made]
    hits = sum(sum(stat.cache_hits.values()) for stat in stats)
    hits += sum(len(function.loaded) for function in _functions)
    misses = sum(sum(stat.cache_misses.values()) for stat in stats)
    return hits, misses


@functools.cache
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
            made = [function.dispatcher for function in _functions if function.is_made]
            if any(compiled is dispatcher for dispatcher in made):
                while _callbacks:
                    _callbacks.pop(0)()

        def on_end(self, event):
            pass

    register("numba:compile", Listener())
