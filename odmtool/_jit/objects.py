"""Object code of compiled functions: linked from the disk, and run without numba.

To load numba and its tables of types takes longer than most trainings. What it has compiled is
machine code behind a C interface, for which LLVM's linker is enough::

    int32 function(result *, exception **, arguments ...)

An array is seven arguments and more (``numba.core.datamodel``): its owner and parent, here none,
the number and size of its items, their address, the length of every axis, and its stride; a tuple
is its items. The code is numba's own, so results are the same to the last bit.

A file is a line of JSON, what is to be known before the code is run, and the code
(:mod:`odmtool._jit.keeping`). Whatever is not as it is known here is no error: numba then runs
the function.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import itertools
import json
import pickle
from collections.abc import Callable
from pathlib import Path

from odmtool._jit.arguments import flatten

_C_TYPES = {
    "ptr": ctypes.c_void_p, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "i16": ctypes.c_int16,
    "i8": ctypes.c_int8, "double": ctypes.c_double, "float": ctypes.c_float,
    "unsigned i64": ctypes.c_uint64, "unsigned i32": ctypes.c_uint32,
    "unsigned i16": ctypes.c_uint16, "unsigned i8": ctypes.c_uint8,
}  # fmt: skip
_numbers = itertools.count()
# Stands in the place of code that cannot be run without numba.
MARK = b"needs numba\n"
# What a function returns when all is well, with and without a result.
_WELL = (0, -2)


def is_marked(place: Path) -> bool:
    """Whether the code was not such that it could be kept there."""
    with contextlib.suppress(OSError):
        return place.stat().st_size == len(MARK) and place.read_bytes() == MARK
    return False


def is_whole(place: Path) -> bool:
    """Whether there is code as it was kept."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        return _content(place) is not None
    return False


def load(place: Path) -> Callable | None:
    """The function whose code is kept there; None if there is none, or it is damaged."""
    try:
        if (found := _content(place)) is None:
            return None
        known, code = found
        return _function(known, *_linked(known["entry"], code))
    except Exception:  # of another version, or LLVM's linker is not there
        return None


def _content(place: Path) -> tuple[dict, bytes] | None:
    """What is to be known of the code, and the code; None if it is damaged."""
    head, _, code = place.read_bytes().partition(b"\n")
    known = json.loads(head)
    return (known, code) if known["sha256"] == hashlib.sha256(code).hexdigest() else None


@functools.cache
def _linker():
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.create_lljit_compiler()


def _linked(entry: str, code: bytes) -> tuple[int, object]:
    """The address of the function in object code, and what keeps it in memory."""
    import llvmlite.binding as llvm

    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    library = builder.export_symbol(entry).link(_linker(), f"odmtool-{next(_numbers)}")
    return library[entry], library


def _function(known: dict, address: int, library) -> Callable:
    """A Python function that calls the one at ``address``."""
    c_types = [_C_TYPES[name] for name in known["arguments"]]
    native = ctypes.CFUNCTYPE(ctypes.c_int32, *c_types)(address)
    fields = [(f"f{i}", _C_TYPES[name]) for i, name in enumerate(known["result"])]
    result_type = type("Result", (ctypes.Structure,), {"_fields_": fields})
    # The result and what is raised come first.
    count, result_size, kinds = len(c_types) - 2, len(fields), known["kinds"]
    convert = {"int": int, "float": float, "bool": bool}

    def call(*arguments):
        flat = []
        flatten(arguments, flat)
        if len(flat) != count:
            raise SystemError(f"{len(flat)} values for {count} arguments")
        result, exception = result_type(), ctypes.c_void_p()
        status = native(ctypes.addressof(result), ctypes.addressof(exception), *flat)
        if status not in _WELL:
            _raise(status, exception.value)
        if kinds is None:
            return None
        if isinstance(kinds, str):
            return convert[kinds](result.f0)
        return tuple(convert[kinds[i]](getattr(result, f"f{i}")) for i in range(result_size))

    call.library = library
    return call


def _raise(status: int, exception: int | None):
    """Raise what a function has raised, which numba keeps pickled: class, arguments and place."""
    if status < 1 or not exception:
        raise SystemError(f"compiled code ended with status {status}")

    class Pickled(ctypes.Structure):
        _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_int32)]

    pickled = Pickled.from_address(exception)
    kind, arguments, *_ = pickle.loads(ctypes.string_at(pickled.data, pickled.size))
    raise kind(*(arguments or ()))
