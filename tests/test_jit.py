"""The disk cache of compiled functions: fresh, safe, and never a reason to fail."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core import caching

from odmtool import _jit
from odmtool._jit import folder as folders
from odmtool._jit import numba_cache

PACKAGE = Path(_jit.__file__).parent.parent
FUNCTION = """
from odmtool import _jit
@_jit.njit
def helper(x):
    return x * 2

@_jit.njit
def double(x):
    return helper(x)
"""
REPORT = """
calls = []
_jit.on_compile(lambda: calls.append(1))
assert double(0.5) == 1.0
print(_jit.statistics(), len(calls), _jit.cache_folder())
"""
TWO_SIGNATURES = REPORT.replace("assert", "assert double(21) == 42 and")


@pytest.fixture(scope="module")
def package_path(tmp_path_factory):
    """A copy of the package that nobody changes while the tests run."""
    path = tmp_path_factory.mktemp("package")
    shutil.copytree(PACKAGE, path / "odmtool", ignore=shutil.ignore_patterns("__pycache__"))
    return path


@pytest.fixture
def scripts(tmp_path, package_path, zygote):
    """Runs code in a process with a cache of its own; the code is kept in a file."""

    def run(code, path=package_path, warnings=None, **variables):
        return zygote(code, tmp_path, path, warnings, variables)

    return run


def test_second_process_compiles_nothing(scripts, tmp_path):
    hits_misses, calls, folder = scripts(FUNCTION + REPORT).rsplit(maxsplit=2)
    assert (hits_misses, calls) == ("(0, 2)", "1")
    assert Path(folder).parent == tmp_path / ".cache" / "odmtool"
    assert Path(folder).stat().st_mode & 0o077 == 0
    assert scripts(FUNCTION + REPORT) == f"(1, 0) 0 {folder}"


def test_place_of_the_cache(scripts, tmp_path):
    for variable in ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR"):
        folder = scripts(FUNCTION + REPORT, **{variable: str(tmp_path / variable)}).split()[-1]
        assert Path(folder).parent == tmp_path / variable / "odmtool"
    folder = scripts(FUNCTION + REPORT, XDG_CACHE_HOME="relative").split()[-1]
    assert Path(folder).parent == tmp_path / ".cache" / "odmtool"
    assert not (tmp_path / "relative").exists()


def test_workers_of_joblib_find_what_is_compiled(scripts):
    """They are told a number of threads, which no function of ours has."""
    from joblib.parallel import ParallelBackendBase

    folder = scripts(FUNCTION + REPORT).split()[-1]
    for name in ParallelBackendBase.MAX_NUM_THREADS_VARS:
        assert scripts(FUNCTION + REPORT, **{name: "1"}) == f"(1, 0) 0 {folder}"
    assert scripts(FUNCTION + REPORT, NUMBA_BOUNDSCHECK="1").startswith("(0, 2) 1 ")


def test_works_where_nothing_is_writable(scripts, tmp_path):
    (tmp_path / "file").write_text("")
    for home in ("/proc/none", str(tmp_path / "file")):
        assert scripts(FUNCTION + REPORT, HOME=home) == "(0, 2) 1 None"
    no_home = "import os; os.path.expanduser = lambda path: path\n"
    assert scripts(no_home + FUNCTION + REPORT) == "(0, 2) 1 None"


@pytest.mark.parametrize("owner, name", [
    (caching, "FunctionCache"), (caching, "CompileResultCacheImpl"),
    (caching, "_SourceFileBackedLocatorMixin"), (caching, "_CacheLocator"),
    (caching.FunctionCache, "_impl_class"), (caching.FunctionCache, "load_overload"),
    (caching.FunctionCache, "save_overload"),
    (caching.CompileResultCacheImpl, "_locator_classes"),
])  # fmt: skip
def test_no_cache_is_made_when_numba_has_renamed_a_part_of_it(monkeypatch, owner, name):
    for place in getattr(owner, "__mro__", [owner]):
        if name in vars(place):
            monkeypatch.delattr(place, name)
    assert numba_cache.cache_class.__wrapped__() is None


# numba itself asks for this name only later; by then it has come back.
RENAMED = """
from numba.core import {module}
from odmtool import _jit
value = {module}.{name}
del {module}.{name}
@_jit.njit
def first(x):
    return x
first.dispatcher
{module}.{name} = value
"""


def test_compiles_in_each_process_when_numba_has_renamed_its_cache(scripts, tmp_path):
    script = RENAMED.format(module="caching", name="FunctionCache") + FUNCTION + REPORT
    for _ in range(2):
        assert scripts(script).startswith("(0, 2) 1 ")
    assert list(tmp_path.rglob("*.nb[ci]")) == []


@pytest.mark.parametrize("change", [
    "caching.FunctionCache.__init__ = lambda self, function, more: None",
    "caching.FunctionCache.cache_path = '/elsewhere'",
])  # fmt: skip
def test_compiles_in_each_process_when_numba_makes_its_cache_otherwise(scripts, tmp_path, change):
    script = f"from numba.core import caching\n{change}\n{FUNCTION}{REPORT}"
    assert scripts(script).startswith("(0, 2) 1 ")
    assert list(tmp_path.rglob("*.nb[ci]")) == []


def test_works_where_numba_tells_nobody_that_it_compiles(scripts):
    script = RENAMED.format(module="event", name="Listener") + FUNCTION + REPORT
    assert scripts(script).startswith("(0, 2) 0 ")
    assert scripts(script).startswith("(1, 0) 0 ")


def test_works_on_a_full_disk(scripts):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
    assert scripts(limit + FUNCTION + REPORT).startswith("(0, 2) 1 ")
    assert scripts(FUNCTION + REPORT).startswith("(0, 2) 1 ")
    assert scripts(FUNCTION + REPORT).startswith("(1, 0) 0 ")


def test_damaged_cache_is_replaced(scripts, tmp_path):
    folder = Path(scripts(FUNCTION + REPORT).split()[-1])
    for pattern, damage in (("*.nbi", b""), ("*.nbi", b"garbage"), ("*.nbc", b"\x80\x05].")):
        for path in folder.rglob(pattern):
            path.write_bytes(damage)
        assert scripts(FUNCTION + REPORT).startswith("(0, 2) 1 ")
    assert scripts(FUNCTION + REPORT).startswith("(1, 0) 0 ")


def test_code_of_another_signature_is_not_run(scripts):
    """What two processes leave behind that compile different signatures at the same time."""
    folder = Path(scripts(FUNCTION + TWO_SIGNATURES).split()[-1])
    one, two = sorted(folder.rglob("script.double-*.nbc"))
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)
    assert scripts(FUNCTION + TWO_SIGNATURES).startswith("(2, 2) 1 ")
    assert scripts(FUNCTION + TWO_SIGNATURES).startswith("(2, 0) 0 ")


def test_processes_that_start_cold_together(tmp_path, package_path):
    script = tmp_path / "script.py"
    script.write_text(FUNCTION + REPORT)
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(package_path)}
    environment.pop("XDG_CACHE_HOME", None)
    environment.pop("NUMBA_CACHE_DIR", None)
    processes = [
        subprocess.Popen([sys.executable, script], env=environment, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    assert [process.wait(120) for process in processes] == [0] * 3
    for process in processes:
        process.stdout.close()
    assert [path for path in tmp_path.rglob("*.tmp.*") if path.is_file()] == []


def test_change_of_any_source_is_noticed(scripts, tmp_path):
    """numba alone would run the old code of a caller whose helper has changed."""
    package = tmp_path / "copy" / "odmtool"
    package.mkdir(parents=True)
    for name in ("__init__.py", "_pattern.py"):
        shutil.copy(PACKAGE / name, package)
    shutil.copytree(PACKAGE / "_jit", package / "_jit")
    code = "from odmtool.caller import call\nprint(call(1.0))"
    (package / "caller.py").write_text(
        "from odmtool._jit import njit\nfrom odmtool.helper import helper\n"
        "@njit\ndef call(x):\n    return helper(x)\n"
    )
    for number in (2.0, 3.0):
        (package / "helper.py").write_text(
            f"from odmtool._jit import njit\n@njit\ndef helper(x):\n    return x * {number}\n"
        )
        assert scripts(code, path=package.parent) == str(number)
        assert scripts(code, path=package.parent) == str(number)


def test_settings_of_numba_stay_as_they_are(scripts):
    code = (
        "import numba\n"
        "before = {k: v for k, v in vars(numba.config).items() if k.isupper()}\n"
        f"{FUNCTION}\n"
        "double(1)\n"
        "after = {k: v for k, v in vars(numba.config).items() if k.isupper()}\n"
        "assert before == after\n"
        "@numba.njit(cache=True)\n"
        "def other(x): return x + 1\n"
        "calls = []\n"
        "_jit.on_compile(lambda: calls.append(1))\n"
        "other(1)\n"  # not ours: no callback
        "print(calls, other.stats.cache_path)"
    )
    calls, path = scripts(code).split(maxsplit=1)
    assert calls == "[]" and "odmtool" not in Path(path).parts


def test_without_compiling(scripts):
    code = FUNCTION + REPORT + "print(type(double).__name__)"
    assert scripts(code, NUMBA_DISABLE_JIT="1").split("\n")[-1] == "function"
    code = (
        "from odmtool.io import _plain, _scan\n"
        "from odmtool.io._line import Grammar\n"
        "block = b'1 qid:2 1:.5 2:0.12345678901234567 3:1e-300 4:18446744073709551615 5:%s\\n"
        "# c\\n-1 7:18446744073709551616e5\\n' % (b'9' * 30)\n"
        "a, b = (module.read_block(block, Grammar()) for module in (_plain, _scan))\n"
        "assert a.values.tobytes() == b.values.tobytes() and len(a.values) == 6\n"
        "print(repr(b.columns.tolist()))"
    )
    assert scripts(code, warnings="error", NUMBA_DISABLE_JIT="1") == "[0, 1, 2, 3, 4, 6]"


def test_numba_is_loaded_only_when_needed():
    code = (
        "import sys\n"
        "import odmtool._jit as _jit\n"
        "import odmtool.io.svmlight, odmtool.io.files\n"
        "_jit.on_compile(print)\n"
        "assert _jit.statistics() == (0, 0)\n"
        "print('numba' in sys.modules, 'sklearn' in sys.modules)"
    )
    printed = subprocess.check_output([sys.executable, "-c", code], cwd=PACKAGE.parent, text=True)
    assert printed.strip() == "False False"


def test_old_versions_are_pruned(scripts, tmp_path):
    parent = tmp_path / ".cache" / "odmtool"
    now = time.time()
    ours, crashed, recent, foreign = "0" * 24, ".old-" + "1" * 16, "2" * 24, "3" * 24
    for name, days in ((ours, 31), (crashed, 40), (recent, 29), (foreign, 40), ("docs", 40)):
        (parent / name / "inner").mkdir(parents=True)
        (parent / name / "inner" / "code.nbc").write_text("")
        if name != foreign:  # a name like ours, but without the mark
            (parent / name / folders.MARK).write_text("")
        os.utime(parent / name, (now - days * 86400,) * 2)
    (parent / "file").write_text("")
    os.utime(parent / "file", (0, 0))
    folder = Path(scripts(FUNCTION + REPORT).split()[-1])
    left = {path.name for path in parent.iterdir()}
    assert left == {"file", recent, foreign, "docs", folder.name}
    # What is used stays: every use makes it young again.
    os.utime(folder, (now - 60 * 86400,) * 2)
    assert scripts(FUNCTION + REPORT).startswith("(1, 0) 0 ")
    assert folder.stat().st_mtime > now - 3600


def test_code_that_others_could_have_written_is_not_run(scripts, tmp_path):
    """Unpickling it would run whatever they put there."""
    folder = Path(scripts(FUNCTION + REPORT).split()[-1])
    folder.chmod(0o707)
    assert scripts(FUNCTION + REPORT) == "(0, 2) 1 None"


def test_whose_folders_are_trusted(monkeypatch, tmp_path):
    folder = tmp_path / "above" / "code"
    folder.mkdir(mode=0o700, parents=True)
    assert folders._is_private(folder)
    for place, mode in ((folder, 0o770), (folder, 0o701), (folder.parent, 0o777)):
        usual = place.stat().st_mode
        place.chmod(mode)
        assert not folders._is_private(folder)
        place.chmod(usual)
    folder.parent.chmod(0o1777)  # as /tmp: what is ours, others can neither rename nor replace
    assert folders._is_private(folder)
    monkeypatch.setattr(folders.os, "geteuid", lambda: folder.stat().st_uid + 1)
    assert not folders._is_private(folder)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
@pytest.mark.parametrize("njit", [_jit.njit, _jit.fused_njit])
def test_arithmetic_is_exact(njit):
    """No fastmath: a compensated sum would be simplified away, and NaN would not be noticed.

    Nor with products that a sum follows in the same instruction.
    """

    @njit
    def compensated(x, y):
        total = x + y
        return (total - x) - y

    assert compensated(1e16, 1.0) == -1.0
    assert compensated(np.inf, 1.0) != compensated(np.inf, 1.0)
    assert isinstance(compensated.dispatcher, numba.core.registry.CPUDispatcher)
    assert compensated.dispatcher.targetoptions["nogil"]
