"""Arguments of compiled functions: what code depends on in them, and how C gets them."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

# NumPy's numbers that numba takes for Python's: the same code serves both.
_SAME = {np.float64: float, np.int64: (int, True)}


def types_of(arguments) -> tuple:
    """What compiled code depends on in arguments: the same for those that the same code serves."""
    return tuple([_type_of(argument) for argument in arguments])


def _type_of(x):
    kind = type(x)
    if kind is float:  # most are, and an epoch may take no longer than to look at all of them
        return kind
    if issubclass(kind, np.ndarray):
        flags = x.flags.num
        layout = "C" if flags & 1 else "F" if flags & 2 else "A"
        # Of the other flags numba knows whether an array is aligned, and may be written to.
        return kind, x.dtype, x.ndim, layout, flags & 0x500
    if issubclass(kind, tuple):
        return kind, types_of(x)
    # A whole number beyond 64 bits has a type of its own.
    return (kind, -(2**63) <= x < 2**63) if kind is int else _SAME.get(kind, kind)


def place_of(folder: str, function: Callable, options: dict, types: tuple) -> Path | None:
    """Where the code of a function is kept for these types, None where numba is to run it.

    The folder's name stands for the sources of the package, as far as they are files.
    """
    source, module = Path(function.__code__.co_filename), function.__module__
    is_known = module.startswith("odmtool.") and source.is_file() and all(map(_is_plain, types))
    if not is_known:
        return None
    mark = hashlib.sha256(repr((_text_of(types), options, _processor())).encode()).hexdigest()
    return Path(folder, "objects", f"{module}.{function.__qualname__}-{mark[:24]}.o")


def _is_plain(one) -> bool:
    """Whether it is the type of a number, an array of numbers, or a tuple of such."""
    if isinstance(one, type):
        return one in (bool, float) or issubclass(one, np.number | np.bool_) and _is_real(one)
    kind, *more = one
    if kind is int:
        return more[0]
    if issubclass(kind, np.ndarray):
        return _is_real(more[0])
    return all(map(_is_plain, more[0]))


def _is_real(dtype) -> bool:
    return np.dtype(dtype).kind in "biuf"


def _text_of(types) -> object:
    """The same for every process, where classes are not."""
    if isinstance(types, type):
        return types.__module__, types.__qualname__, getattr(types, "_fields", ())
    return tuple(map(_text_of, types)) if isinstance(types, tuple) else types


@functools.cache
def _processor() -> tuple[str, str]:
    """For which processors code is."""
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def flatten(arguments, flat: list) -> None:
    """Add the numbers and addresses of arguments to a list, as :mod:`odmtool._jit.objects` says."""
    for x in arguments:
        if type(x) is float:
            flat.append(x)
        elif isinstance(x, np.ndarray):
            flat += (None, None, x.size, x.itemsize, x.ctypes.data, *x.shape, *x.strides)
        elif isinstance(x, tuple):
            flatten(x, flat)
        else:
            flat.append(x.item() if isinstance(x, np.generic) else x)
