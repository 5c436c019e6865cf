"""What numba has compiled becomes object code on the disk (:mod:`odmtool._jit.objects`).

numba keeps of every function the optimised LLVM module that it links where another one calls it.
All that the function itself does not need is taken out of a copy; what is left is compiled by
numba's own target machine. What a function allocates comes from malloc, by the counted blocks
that numba expects. Code that needs more of numba is not kept: a mark stands in its place.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import tempfile
from pathlib import Path

from odmtool._jit.objects import MARK, load

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


class NotKeptError(Exception):
    """The code needs more of numba than there is without it."""


def keep(place: Path, compiled) -> None:
    """Keep what numba has compiled; a mark if the code alone cannot be run.

    ``compiled``: numba.core.compiler.CompileResult.
    """
    with contextlib.suppress(OSError, MemoryError):  # then another process keeps it
        try:
            known, code = _object_of(compiled)
        except (NotKeptError, AttributeError, TypeError, RuntimeError):  # of another LLVM or numba
            _write(place, MARK)
            return
        known["sha256"] = hashlib.sha256(code).hexdigest()
        _write(place, json.dumps(known).encode() + b"\n" + code)
        if load(place) is None:
            _write(place, MARK)


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
    names = [one.name for one in module.global_variables]
    # numba sets these before it calls a function.
    needed += [name for name in names if name.startswith(("_ZN08NumbaEnv", "PyExc_"))]
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
