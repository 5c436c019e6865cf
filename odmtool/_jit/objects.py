"""Object code of compiled functions: kept on the disk, and run without numba.

To load numba and its tables of types takes longer than most trainings. What it has compiled is
machine code behind a C interface, for which LLVM's linker is enough::

    int32 function(result *, exception **, arguments ...)

An array is seven arguments and more (``numba.core.datamodel``): its owner and parent, here none,
the number and size of its items, their address, the length of every axis, and its stride; a tuple
is its items. The code is numba's own, so results are the same to the last bit.

What a function allocates comes from malloc, by the counted blocks that numba expects. Only code
that needs nothing else of numba is kept: no Python objects, no results but numbers and
tuples of them. Whatever is not as it is known here is no error: numba then runs the function.

A file is a line of JSON, what is to be known before the code is run, and the code.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import itertools
import json
import os
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

_C_TYPES = {
    "ptr": ctypes.c_void_p, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "i16": ctypes.c_int16,
    "i8": ctypes.c_int8, "double": ctypes.c_double, "float": ctypes.c_float,
    "unsigned i64": ctypes.c_uint64, "unsigned i32": ctypes.c_uint32,
    "unsigned i16": ctypes.c_uint16, "unsigned i8": ctypes.c_uint8,
}  # fmt: skip
_numbers = itertools.count()
# Stands in the place of code that cannot be run without numba.
_MARK = b"needs numba\n"
# What a function returns when all is well, with and without a result.
_WELL = (0, -2)
# numba counts who uses a block at its beginning, and finds its address behind three pointers.
_BLOCK = ["i64", "ptr", "ptr", "ptr", "i64"]
# Older LLVM has pointers of every type, and newer takes those for its own.
_ALLOCATOR = """
%block = type {i64, i8*, i8*, i8*, i64, i8*}
declare i8* @malloc(i64)
declare void @free(i8*)
define i8* @NRT_MemInfo_alloc_aligned(i64 %size, i32 %align) {
  %wide = zext i32 %align to i64
  %more = add i64 %wide, 48
  %room = add i64 %size, %more
  %raw = call i8* @malloc(i64 %room)
  %failed = icmp eq i8* %raw, null
  br i1 %failed, label %end, label %fill
fill:
  %first = ptrtoint i8* %raw to i64
  %above = add i64 %first, %more
  %mask = sub i64 0, %wide
  %start = and i64 %above, %mask
  %data = inttoptr i64 %start to i8*
  %block = bitcast i8* %raw to %block*
  %part = insertvalue %block {i64 1, i8* null, i8* null, i8* null, i64 0, i8* null}, i8* %data, 3
  %whole = insertvalue %block %part, i64 %size, 4
  store %block %whole, %block* %block
  br label %end
end:
  ret i8* %raw
}
define void @NRT_MemInfo_call_dtor(i8* %raw) {
  call void @free(i8* %raw)
  ret void
}
"""


def types_of(arguments) -> tuple:
    """What compiled code depends on in arguments: the same for those that the same code serves."""
    return tuple([_type_of(argument) for argument in arguments])


def _type_of(x):
    kind = type(x)
    if issubclass(kind, np.ndarray):
        flags = x.flags.num
        layout = "C" if flags & 1 else "F" if flags & 2 else "A"
        # Of the other flags numba knows whether an array is aligned, and may be written to.
        return kind, x.dtype.str, x.ndim, layout, flags & 0x500
    if issubclass(kind, tuple):
        return kind, types_of(x)
    # A whole number beyond 64 bits has a type of its own.
    return (kind, -(2**63) <= x < 2**63) if kind is int else kind


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


# ---- to the disk ----------------------------------------------------------------------


class NotKeptError(Exception):
    """The code needs more of numba than there is without it."""


def keep(place: Path, compiled) -> None:
    """Keep what numba has compiled; a mark if the code alone cannot be run.

    Parameters
    ----------
    place : Path
    compiled : numba.core.compiler.CompileResult
    """
    with contextlib.suppress(OSError, MemoryError):  # then another process keeps it
        try:
            known, code = _object_of(compiled)
        except (NotKeptError, AttributeError, TypeError, RuntimeError):  # of another LLVM or numba
            _write(place, _MARK)
            return
        known["sha256"] = hashlib.sha256(code).hexdigest()
        _write(place, json.dumps(known).encode() + b"\n" + code)
        if load(place) is None:
            _write(place, _MARK)


def _write(place: Path, content: bytes) -> None:
    place.parent.mkdir(mode=0o700, exist_ok=True)
    file, name = tempfile.mkstemp(dir=place.parent)
    try:
        with open(file, "wb") as stream:
            stream.write(content)
        os.replace(name, place)
    except BaseException:
        os.unlink(name)
        raise


def _object_of(compiled) -> tuple[dict, bytes]:
    """What is to be known of compiled code, and the code; raises where it cannot be kept."""
    import llvmlite.binding as llvm

    if compiled.library.has_dynamic_globals:
        raise NotKeptError("addresses of this process")
    entry, (result, kinds) = compiled.fndesc.llvm_func_name, _result_of(compiled)
    # What numba links where another function calls it: optimised, and also there where the code
    # came from numba's cache.
    module = compiled.library._get_module_for_linking().clone()
    _check_blocks()
    module.link_in(llvm.parse_assembly(_ALLOCATOR))
    for own in (*module.functions, *module.global_variables):
        if not own.is_declaration:  # what is internal is gone, if nothing needs it
            own.linkage = "external" if own.name == entry else "internal"
    machine = compiled.library.codegen._tm
    _without_unused(module, machine)
    needed = [function.name for function in module.functions if not _is_at_hand(function)]
    needed += [one.name for one in module.global_variables if _is_of_numba(one)]
    if needed:
        raise NotKeptError(needed)
    arguments = [_plain(str(argument.type)) for argument in module.get_function(entry).arguments]
    known = {"entry": entry, "arguments": arguments, "result": result, "kinds": kinds}
    return known, machine.emit_object(module)


def _without_unused(module, machine) -> None:
    """Take out of a module what its external functions do not need."""
    import llvmlite.binding as llvm

    passes = llvm.create_new_module_pass_manager()
    if hasattr(passes, "add_global_dead_code_eliminate_pass"):
        passes.add_global_dead_code_eliminate_pass()
        passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    else:  # older than LLVM 16
        passes = llvm.create_module_pass_manager()
        passes.add_global_dce_pass()
        passes.run(module)


def _check_blocks() -> None:
    """Raise NotKeptError unless numba's blocks of memory are as the allocator here makes them."""
    from numba.core.runtime import nrtdynmod

    fields = [_plain(str(field)) for field in nrtdynmod._meminfo_struct_type.elements]
    if fields != _BLOCK:
        raise NotKeptError(fields)


def _plain(name: str) -> str:
    """The name of an LLVM type; pointers are of any type."""
    return "ptr" if name.endswith("*") else name


def _result_of(compiled) -> tuple[list[str], list[str] | str | None]:
    """The C types of a function's result, and the Python types that they become.

    Raises NotKeptError where these are not numbers, tuples of them or None.
    """
    from numba.core import types

    def kind_of(kind) -> str:
        for one, name in ((types.Boolean, "bool"), (types.Integer, "int"), (types.Float, "float")):
            if isinstance(kind, one):
                return name
        raise NotKeptError(str(kind))

    returned = compiled.signature.return_type
    if returned == types.none:
        return [], None
    is_several = isinstance(returned, (types.Tuple, types.UniTuple))
    own = list(returned) if is_several else [returned]
    models, kinds = compiled.target_context.data_model_manager, list(map(kind_of, own))
    fields = [str(models[kind].get_return_type()) for kind in own]
    for k, kind in enumerate(own):
        if isinstance(kind, types.Integer) and not kind.signed:
            fields[k] = f"unsigned {fields[k]}"
    return fields, kinds if is_several else kinds[0]


def _is_at_hand(function) -> bool:
    """Whether a function is defined, LLVM's, or one of C that every process has."""
    name = function.name
    if not function.is_declaration or name.startswith("llvm."):
        return True
    is_foreign = name.startswith(("Py", "_Py", "numba_", "NRT_"))
    return not is_foreign and hasattr(ctypes.CDLL(None), name)


def _is_of_numba(variable) -> bool:
    """Whether it is one that numba sets before it calls a function."""
    return variable.name.startswith(("_ZN08NumbaEnv", "PyExc_"))


# ---- from the disk --------------------------------------------------------------------


def is_marked(place: Path) -> bool:
    """Whether the code was not such that it could be kept there."""
    with contextlib.suppress(OSError):
        return place.stat().st_size == len(_MARK) and place.read_bytes() == _MARK
    return False


def load(place: Path) -> Callable | None:
    """The function whose code is kept there; None if there is none, or it is damaged."""
    try:
        head, _, code = place.read_bytes().partition(b"\n")
        known = json.loads(head)
        if known["sha256"] != hashlib.sha256(code).hexdigest():
            return None
        return _function(known, *_linked(known["entry"], code))
    except Exception:  # of another version, or LLVM's linker is not there
        return None


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
        _flatten(arguments, flat)
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


def _flatten(arguments, flat: list) -> None:
    for x in arguments:
        if isinstance(x, np.ndarray):
            flat += (None, None, x.size, x.itemsize, x.ctypes.data, *x.shape, *x.strides)
        elif isinstance(x, tuple):
            _flatten(x, flat)
        else:
            flat.append(x.item() if isinstance(x, np.generic) else x)


def _raise(status: int, exception: int | None):
    """Raise what a function has raised, which numba keeps pickled: class, arguments and place."""
    if status < 1 or not exception:
        raise SystemError(f"compiled code ended with status {status}")

    class Pickled(ctypes.Structure):
        _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_int32)]

    pickled = Pickled.from_address(exception)
    kind, arguments, *_ = pickle.loads(ctypes.string_at(pickled.data, pickled.size))
    raise kind(*(arguments or ()))
