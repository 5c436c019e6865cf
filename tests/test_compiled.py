"""Every compiled function does what a slow and obvious twin of its own does.

Compiled, and interpreted as NUMBA_DISABLE_JIT=1 would have it: what a function reads beyond
the end of an array, only the interpreter notices.
"""

import ast
import functools
from importlib import import_module
from inspect import ismodule
from pathlib import Path

import numpy as np
import pytest
from stepping import python
from twins import (
    binary,
    hinge_path,
    kernel_block,
    mcodm,
    mcodm_descent,
    mcsvm,
    reader,
    rows,
    writer,
)
from twins.making import assert_same, copied

from odmtool._jit import arguments as kinds
from odmtool._jit import objects
from odmtool._jit.folder import is_compiled_from

PACKAGE = Path(__file__).parent.parent / "odmtool"
ROOMS = binary, mcodm, mcodm_descent, mcsvm, hinge_path, kernel_block, rows, reader, writer
TWINS = {name: twin for room in ROOMS for name, twin in room.TWINS.items()}


def compiled_functions() -> set[str]:
    """The dotted names of all that is decorated with njit, by the sources."""
    names = set()
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if "njit" in source else ():
            if isinstance(node, ast.FunctionDef):
                marks = {ast.unparse(mark).split(".")[-1] for mark in node.decorator_list}
                names |= {f"{module}.{node.name}"} if marks & {"njit", "fused_njit"} else set()
    return names


def kept(compiled):
    """The function by its object code only, as another process runs it."""

    def run(*arguments):
        place = compiled.place_of(kinds.types_of(arguments))
        code = objects.load(place)
        assert code is not None, "it is not kept on the disk"
        return code(*arguments)

    return run


def test_every_compiled_function_has_a_twin():
    assert compiled_functions() == TWINS.keys()


@functools.cache
def imported_names(path: str) -> dict[str, str]:
    """The names that a file takes from modules, and from which."""
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    return {
        alias.asname or alias.name: node.module
        for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(TWINS))
def test_what_a_compiled_function_names_is_in_the_hash_of_its_cache(name):
    function = TWINS[name].compiled.py_func
    imports = imported_names(function.__code__.co_filename)
    for used in imports.keys() & set(function.__code__.co_names):
        module = import_module(imports[used])
        # A module taken from its package, as in "from odmtool.core import losses".
        module = getattr(module, used) if ismodule(getattr(module, used)) else module
        if module.__name__.startswith("odmtool"):
            source = Path(module.__file__)
            assert is_compiled_from(source, source.read_bytes()), f"{name}: {used}"


@pytest.mark.parametrize("name", sorted(TWINS))
def test_function_and_twin_do_the_same(name):
    twin, tried = TWINS[name], 0
    forms = {"compiled": twin.compiled, "interpreted": python(twin.compiled)}
    if forms["compiled"] is not forms["interpreted"] and twin.compiled.place_of(()):
        forms["kept"] = kept(twin.compiled)
    for arguments in twin.cases(np.random.default_rng(7)):
        other = copied(arguments)
        # The twin takes most of the time, so both forms are compared with what it gave once.
        with np.errstate(over="ignore"):
            expected = twin.promised(twin.naive(*other), other)
            for form, function in forms.items():
                mine = copied(arguments)
                assert_same(twin.promised(function(*mine), mine), expected, twin.units, form)
        tried += 1
    assert tried > 1
