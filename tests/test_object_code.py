"""Object code that is kept on the disk runs without numba, and does what numba's own does."""

import itertools
import json
import os
import py_compile
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

from odmtool import _jit
from odmtool._jit import arguments, keeping, objects

PACKAGE = Path(_jit.__file__).parent.parent
Pair = namedtuple("Pair", "a b")
Other = namedtuple("Other", "a b")

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT", "0") != "0", reason="nothing is compiled"
)

# The folder knows the sources of the package only, so that these are part of it.
FUNCTIONS = """
import numpy as np
from odmtool._jit import njit

@njit
def several(x, pair, n, flag):
    scratch = np.empty(n)
    for i in range(n):
        scratch[i] = x[i] * pair.a + pair.b[i]
    if flag:
        x[0] = scratch.sum()
    return x[0], n, n > 2

@njit
def nothing(x):
    x += 1

@njit
def single(x):
    return x[0] + x[1]

@njit
def array(n):
    return np.arange(n)

@njit
def scratch(n):
    return np.zeros(n)[n // 2]

@njit
def divided(a, b):
    return a // b

@njit
def first(x):
    return x[0]

@njit
def length(text):
    return len(text)

@njit
def doubled(x):
    return x * 2

LARGE = np.arange(200_000.0)

@njit
def large(i):
    return LARGE[i]

@njit
def field(x):
    return x[0].a

@njit
def refused(a):
    if a > 1:
        raise OverflowError("too large", 7)
    return a
"""
RUN = """
import json, resource, sys
from collections import namedtuple
import numpy as np
from odmtool import _jit, compiled_for_tests as functions
Pair = namedtuple("Pair", "a b")

def failing(function, *arguments):
    try:
        return function(*arguments)
    except Exception as error:
        return [type(error).__name__, *map(str, error.args)]

x, y = np.arange(5.0), np.arange(4.0, dtype=np.float32)
b = np.ones(9)[::2]
found = [
    functions.several(x, Pair(2, b), 5, True), functions.several(x, Pair(2.5, b), 3, False),
    x.tolist(), functions.nothing(y), y.tolist(), functions.single(y),
    type(functions.single(y)).__name__,
    functions.array(3).tolist(), functions.divided(7, -2), functions.divided(7.5, 2),
    failing(functions.divided, 1, 0), failing(functions.refused, 2), functions.refused(True),
    failing(functions.scratch, -1), failing(functions.scratch, 10**15),
]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(60):
    found.append(functions.scratch(2**20))
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(json.dumps([found, _jit.statistics(), "numba" in sys.modules, used < 40_000], default=float))
"""


def package_in(folder):
    """A package with functions of its own."""
    package = folder / "odmtool"
    (package / "_jit").mkdir(parents=True)
    for path in (*PACKAGE.glob("_jit/*.py"), PACKAGE / "__init__.py", PACKAGE / "_pattern.py"):
        (package / path.relative_to(PACKAGE)).write_bytes(path.read_bytes())
    (package / "compiled_for_tests.py").write_text(FUNCTIONS)


def runner(home, package):
    """Runs code in a new process, which keeps compiled code in ``home``."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "XDG_"))}
    environment |= {"HOME": str(home), "PYTHONPATH": str(package)}

    def run(code=RUN):
        printed = subprocess.check_output(
            [sys.executable, "-c", code], cwd=home, env=environment, text=True
        )
        return json.loads(printed)

    return run


RUN_FEW = """
import json
from collections import namedtuple
import numpy as np
from odmtool import _jit, compiled_for_tests as functions
Pair, x = namedtuple("Pair", "a b"), np.ones(3)
found = functions.divided(7, -2), functions.several(x, Pair(2, x), 3, False), x[0]
is_numbas = functions.divided.is_made and functions.several.is_made
print(json.dumps([found, _jit.statistics(), is_numbas], default=float))
"""
FOUND_FEW = [-4, [1.0, 3, True], 1.0]
# One of which nothing is kept, and three that differ in types and results.
RUN_SOME = """
import json
import numpy as np
from odmtool import _jit, compiled_for_tests as functions
y = np.arange(4.0, dtype=np.float32)
found = [
    functions.array(3).tolist(), functions.divided(7, -2), functions.divided(7.5, 2),
    functions.nothing(y), y.tolist(),
]
print(json.dumps([found, _jit.statistics()]))
"""
FOUND_SOME = [[0, 1, 2], -4, 3.0, None, [1.0, 2.0, 3.0, 4.0]]

# Which bytes of a file are left of it.
WAYS = (0, 0), (0, -9), (3, None)


@pytest.fixture
def processes(tmp_path, zygote):
    """Run code beside a package of their own, in forks of a process that has imported numba."""
    package_in(tmp_path)
    return lambda code: json.loads(zygote(code, tmp_path, tmp_path))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A folder with a package and the code of its functions, and what the first run printed."""
    folder = tmp_path_factory.mktemp("compiled")
    package_in(folder)
    return folder, runner(folder, folder)()


@pytest.fixture
def later(compiled, tmp_path, zygote):
    """Run code in later processes, which have a copy of the first one's code, and numba."""
    shutil.copytree(compiled[0] / ".cache", tmp_path / ".cache")
    return lambda code: json.loads(zygote(code, tmp_path, compiled[0]))


def test_kept_code_does_the_same_without_numba(compiled):
    folder, (first, (_, compiled), _, _) = compiled
    processes = runner(folder, folder)
    assert first[:7] == [
        [25.0, 5, True], [25.0, 3, True], [25.0, 1.0, 2.0, 3.0, 4.0], None, [1.0, 2.0, 3.0, 4.0],
        3.0, "float",
    ]  # fmt: skip
    assert first[7:10] == [[0, 1, 2], -4, 3.0]
    assert first[10] == ["ZeroDivisionError", "integer division by zero"]
    assert first[11:13] == [["OverflowError", "too large", "7"], True]
    assert first[13][0] == "ValueError" and first[14][0] == "MemoryError"
    assert compiled == 10
    # One of them returns an array, which is numba's to make.
    second, statistics, has_numba, is_freed = processes()
    assert (second, statistics, has_numba, is_freed) == (first, [10, 0], True, True)
    without = RUN.replace("functions.array(3).tolist()", "[0, 1, 2]")
    assert processes(without) == [first, [9, 0], False, True]


def test_damaged_code_is_made_again(later, tmp_path):
    assert later(RUN_SOME) == [FOUND_SOME, [4, 0]]
    kept = sorted(next(tmp_path.glob(".cache/odmtool/*/objects")).glob("*.o"))
    assert len(kept) == 10
    for path, (begin, end) in zip(kept, itertools.cycle(WAYS)):  # noqa: B905
        content = path.read_bytes()
        if not objects.is_marked(path):
            path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
            assert objects.load(path) is None and not objects.is_whole(path)
        path.write_bytes(content[begin:end])
    assert later(RUN_SOME)[0] == FOUND_SOME
    assert later(RUN_SOME) == [FOUND_SOME, [4, 0]]


def test_code_for_another_processor_is_not_run(later):
    other = "from odmtool._jit import arguments\narguments._processor = lambda: ('other', '')\n"
    found, _, is_numbas = later(other + RUN_FEW)
    assert found == FOUND_FEW and is_numbas


def test_numba_alone_where_llvm_cannot_link(processes):
    for name in ("create_lljit_compiler", "JITLibraryBuilder"):
        code = f"import llvmlite.binding as llvm\ndel llvm.{name}\n" + RUN_FEW
        found, _, is_numbas = processes(code)
        assert found == FOUND_FEW and is_numbas


OTHERS = """
import json, pickle, sys, warnings
import numpy as np
from odmtool import _jit, compiled_for_tests as functions
warnings.simplefilter("ignore")  # numba's, of a large constant

def mapped(dtype):
    np.arange(3, 6).astype(dtype).tofile("mapped")
    return np.memmap("mapped", dtype, "r")

def structure(dtype):
    return np.array([(3,)], [("a", dtype)])

found = [functions.first(np.array([2**n - 1], f"u{n // 8}")) for n in (8, 16, 32, 64)]
found += [functions.first(mapped(dtype)) for dtype in ("f8", "i4", "u1", "f4")]
found += [functions.field(structure(dtype)) for dtype in ("f8", "i8", "f4")]
found += [functions.length("four"), functions.large(150_000), functions.doubled(2j).imag]
found += [functions.doubled(x) for x in (2**62, np.uint8(200), True, np.float32(.5))]
found += [pickle.loads(pickle.dumps(functions.first)) is functions.first]
print(json.dumps([found, _jit.statistics()]))
"""


def test_other_types_and_functions_are_numbas_to_run(processes):
    first, _ = processes(OTHERS)
    unsigned, mapped = [255, 65535, 2**32 - 1, 2**64 - 1], [3.0, 3, 3, 3.0]
    assert first[:14] == [*unsigned, *mapped, 3.0, 3, 3.0, 4, 150_000.0, 4]
    assert first[15:] == [400, 2, 1.0, True]
    second, (_, compiled) = processes(OTHERS)
    assert second == first and compiled <= 6


def test_numba_that_is_told_to_compile_nothing(processes):
    code = "import numba\nnumba.config.DISABLE_JIT = 1\n" + RUN_FEW
    assert processes(code) == [FOUND_FEW, [0, 0], False]


@pytest.mark.parametrize("name", sorted(path.name for path in PACKAGE.glob("_jit/*.py")))
def test_code_of_another_version_is_not_run(processes, tmp_path, name):
    code = "import json\nfrom odmtool._jit import folder\nprint(json.dumps(folder._stamp()))"
    before, path = processes(code), tmp_path / "odmtool" / "_jit" / name
    path.write_text(path.read_text() + "# another\n")
    assert processes(code) != before


def test_nothing_is_kept_where_sources_are_no_files(processes, tmp_path):
    """The folder's name would be the same for other sources."""
    folder, code = tmp_path / "odmtool", RUN_FEW
    for path in folder.rglob("*.py"):
        py_compile.compile(path, path.with_suffix(".pyc"))
        path.unlink()
    assert processes(code) == processes(code) == [FOUND_FEW, [0, 2], True]
    assert not list(tmp_path.glob(".cache/odmtool/*/objects/*"))


def test_two_threads_call_first_at_the_same_time(processes):
    code = """
import json
from threading import Barrier, Thread
from odmtool import _jit, compiled_for_tests as functions
barrier, found = Barrier(4), []
def call():
    barrier.wait()
    found.append(functions.divided(9, 2))
threads = [Thread(target=call) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(json.dumps([found, _jit.statistics()]))
"""
    assert processes(code) == [[4] * 4, [0, 1]]
    assert processes(code) == [[4] * 4, [1, 0]]


def test_types_tell_apart_what_code_depends_on():
    x = np.zeros((3, 4))
    fixed = x.copy()
    fixed.flags.writeable = False
    different = [
        1, 1.0, True, 2**63, np.float32(1), np.int32(1), np.bool_(True), None, (1, 2), (1, 2.0),
        Pair(1, 2), Other(1, 2), Pair(1, x), x, x.T, x[:, ::2], x[0], fixed, x.astype(np.float32),
        x.astype(np.int64), x.astype(">f8"), x.view(np.matrix), x.astype(int).view(np.matrix),
        np.frombuffer(bytes(17), np.uint8)[1:].view(float),
    ]  # fmt: skip
    found = [arguments.types_of([value]) for value in different]
    assert len(set(found)) == len(found)
    places = [arguments.place_of(Path("f"), keeping.keep, {}, types) for types in found]
    kept = [place for place in places if place is not None]
    # Not 2**63 and None.
    assert len(set(kept)) == len(kept) == len(found) - 2
    same = [
        (x, x + 1), (x[:1], x[1:2]), (3, -(2**63)), (Pair(1, x), Pair(2, x)), (1.5, np.float64(2)),
        (3, np.int64(4)), (Pair(1, 2.0), Pair(np.int64(3), np.float64(4))),
    ]  # fmt: skip
    for a, b in same:
        types, others = (arguments.types_of([value]) for value in (a, b))
        assert types == others
        places = {arguments.place_of(Path("f"), keeping.keep, {}, one) for one in (types, others)}
        assert len(places) == 1 and None not in places


def test_nothing_is_kept_of_functions_from_elsewhere():
    assert arguments.place_of(Path("f"), test_types_tell_apart_what_code_depends_on, {}, ()) is None
    one, other = (arguments.place_of(Path("f"), keeping.keep, o, ()) for o in ({}, {"fastmath": 1}))
    assert one != other and one.parent == Path("f", "objects")
