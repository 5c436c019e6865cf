"""The rules of the house, checked on the sources: sizes, imports, start-up, packaging."""

import ast
import functools
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "odmtool"
SOURCES = sorted(PACKAGE.rglob("*.py"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
COMMANDS = ["train", "predict", "cv", "scale"]

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def everywhere(path: Path) -> list[ast.AST]:
    return list(ast.walk(tree(path)))


def top_level(path: Path):
    """The nodes that run when the module is imported."""
    stack: list[ast.AST] = [tree(path)]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, FUNCTION + (ast.Lambda,)) and not _is_type_checking(node):
            stack.extend(ast.iter_child_nodes(node))


def _is_type_checking(node) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imported(nodes) -> set[str]:
    """Dotted names of what the nodes import; ``from a import b`` counts as ``a.b``."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import of {node.module}"
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def offenders(wrong) -> dict[str, object]:
    """What ``wrong(path)`` finds in every file of the package, files without findings left out."""
    return {module_name(path): found for path in SOURCES if (found := wrong(path))}


# ---- sizes -----------------------------------------------------------------------


def test_files_have_at_most_500_lines():
    def too_long(path):
        return max(0, len(path.read_text(encoding="utf-8").splitlines()) - 500)

    assert offenders(too_long) == {}


def test_at_most_six_modules_lie_at_the_root():
    modules = {path.name for path in PACKAGE.glob("*.py")}
    assert len(modules) <= 6, modules


def function_length(node) -> int:
    """Lines from ``def`` to the end, without the docstring."""
    length = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node, clean=False) is not None:
        docstring = node.body[0]
        length -= docstring.end_lineno - docstring.lineno + 1
    return length


def test_functions_have_at_most_60_lines():
    def long(path):
        functions = (node for node in everywhere(path) if isinstance(node, FUNCTION))
        return {node.name: n for node in functions if (n := function_length(node)) > 60}

    assert offenders(long) == {}


def test_modules_and_public_classes_have_docstrings():
    def bare(path):
        nodes = (node for node in tree(path).body if isinstance(node, ast.ClassDef))
        names = [n.name for n in nodes if n.name[0] != "_" and not ast.get_docstring(n)]
        is_bare = path.read_text(encoding="utf-8").strip() and not ast.get_docstring(tree(path))
        return ["the module"] * bool(is_bare) + names

    assert offenders(bare) == {}


# ---- what the sources may do -------------------------------------------------------


def test_only_the_commands_print():
    def prints(path):
        if within(module_name(path), "odmtool.cli"):
            return []
        calls = (node.func for node in everywhere(path) if isinstance(node, ast.Call))
        return [f.id for f in calls if isinstance(f, ast.Name) and f.id in ("print", "input")]

    assert offenders(prints) == {}


def test_nothing_is_evaluated_and_arithmetic_is_exact():
    def forbidden(path):
        for node in everywhere(path):
            is_option = isinstance(node, ast.keyword) and node.arg in ("fastmath", "parallel")
            # One rounding where there would be two is all that is allowed.
            if is_option and ast.unparse(node.value) != "{'contract'}":
                yield f"line {node.value.lineno}: {node.arg}"
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if is_call and node.func.id in ("eval", "exec"):
                yield f"line {node.lineno}: {node.func.id}"

    assert offenders(lambda path: list(forbidden(path))) == {}


# ---- imports go one way --------------------------------------------------------------

BASE = ["errors", "messages", "defaults", "_jit", "_pattern"]
#: the rooms of the house from the ground up -> what of odmtool each may import besides itself
ROOMS = {
    "errors": ["messages"],
    "defaults": [],
    "_pattern": [],
    "messages": ["_pattern"],
    "_jit": ["_pattern"],
    "core": BASE,
    "judge": [*BASE, "core"],
    "rows": [*BASE, "core"],
    "models": [*BASE, "core", "rows"],
    "io": [*BASE, "core", "models"],
    "solvers": [*BASE, "core", "rows"],
    "machines": [*BASE, "core", "rows", "models", "solvers"],
    "places": [*BASE, "core", "rows", "models", "io", "solvers", "machines"],
    "search": [*BASE, "core", "rows", "models", "solvers", "machines", "places"],
    "measures": [*BASE, "core", "models", "solvers", "machines", "search"],
    "estimators": [*BASE, "core", "models", "io", "solvers", "machines", "search"],
    "cli": None,
    "__main__": None,
    "": ["estimators"],
}


def room_of(name: str) -> str:
    return name.removeprefix("odmtool").removeprefix(".").split(".")[0]


def ours(path: Path) -> set[str]:
    """What a file imports of odmtool, in functions too; ``from a import b`` is ``a.b``."""
    return {other for other in imported(everywhere(path)) if within(other, "odmtool")}


def test_imports_go_one_way():
    assert {room_of(module_name(path)) for path in SOURCES} == set(ROOMS)

    def upwards(path):
        room = room_of(module_name(path))
        if ROOMS[room] is None:
            return set()
        fine = {room, "__version__", *ROOMS[room]}
        return {other for other in ours(path) if room_of(other) not in fine}

    assert offenders(upwards) == {}


def test_contributing_knows_every_room():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert set(re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE)) == rooms
    named = re.findall(r"`((?:odmtool|tests|solvers|cli)/[\w/]+\.py)`", text)
    named = [name for name in named if "NAME" not in name]
    assert len(named) >= 5
    missing = [n for n in named if not ((ROOT / n).exists() or (PACKAGE / n).exists())]
    assert missing == []


def test_no_imports_in_circles():
    modules = {module_name(path) for path in SOURCES}
    leads_to = {}
    for path in SOURCES:
        names = {o if o in modules else o.rpartition(".")[0] for o in ours(path)}
        leads_to[module_name(path)] = (names & modules) - {module_name(path), "odmtool"}
    while leaves := {name for name, others in leads_to.items() if not others & leads_to.keys()}:
        for name in leaves:
            del leads_to[name]
    assert {name: others & leads_to.keys() for name, others in leads_to.items()} == {}


def test_numba_is_imported_by_jit_only():
    def uses(path):
        names = {name for name in imported(everywhere(path)) if within(name, "numba")}
        return names if room_of(module_name(path)) != "_jit" else set()

    assert offenders(uses) == {}


def test_no_optional_package_is_imported_at_the_top():
    known = set(sys.stdlib_module_names) | {"numpy", "scipy", "click", "odmtool", "__future__"}

    def foreign(path):
        return {name.split(".")[0] for name in imported(top_level(path))} - known

    assert offenders(foreign) == {}


def test_commands_import_click_only_at_the_top():
    light = {"cli", "errors", "messages", "defaults", "_pattern", "__version__"}
    tables = ["odmtool.core.kernel_table", "odmtool.core.loss_table", "odmtool.solvers.table"]

    def is_light(name):
        return room_of(name) in light or any(within(name, table) for table in tables)

    def heavy(path):
        if not within(module_name(path), "odmtool.cli"):
            return set()
        names = {n for n in imported(top_level(path)) if not within(n, "click")}
        names = {n for n in names if n.split(".")[0] not in sys.stdlib_module_names}
        return {n for n in names if not within(n, "odmtool") or not is_light(n)}

    assert offenders(heavy) == {}


# ---- start-up --------------------------------------------------------------------------

HEAVY = ("numpy", "scipy", "numba", "llvmlite", "joblib", "sklearn", "matplotlib")


def test_the_package_loads_nothing_until_a_name_is_used():
    script = f"""
import sys
import odmtool
assert set(odmtool.__all__) <= set(dir(odmtool))
loaded = [name for name in ("click", *{HEAVY!r}) if name in sys.modules]
assert not loaded, loaded
from odmtool import load_model, load_svmlight
assert "sklearn" not in sys.modules and "numba" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_public_name_is_there_for_editors_too():
    import odmtool

    package = tree(PACKAGE / "__init__.py")
    (for_editors,) = (node for node in package.body if _is_type_checking(node))
    names = {name.rpartition(".")[2] for name in imported(ast.walk(for_editors))}
    assert names == set(odmtool.__all__) == {n for n in odmtool.__all__ if getattr(odmtool, n)}
    with pytest.raises(AttributeError, match="no attribute 'ODM'"):
        odmtool.ODM  # noqa: B018


@pytest.mark.parametrize("arguments", ["--help", "-h", "--version"])
@pytest.mark.parametrize("main", [*(f"{c}_main" for c in COMMANDS), "odmtool_main"])
def test_help_loads_click_only(main, arguments):
    script = f"""
import os, sys
os._exit = sys.exit
from odmtool.cli import {main}
sys.argv = ["odm", {arguments!r}]
try:
    {main}()
except SystemExit as leave:
    assert not leave.code, leave.code
heavy = [name for name in {HEAVY!r} if name in sys.modules]
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert ("Usage: odm" in done.stdout) == (arguments != "--version")


def test_a_small_linear_training_needs_numpy_only(tmp_path):
    files = {"narrow": "", "wide": " 3:1 9:1", "wider": " 3:1 4:1 5000:1"}
    for name, end in files.items():
        (tmp_path / name).write_text(f"1 1:2\n-1 1:4 2:1\n-1 1:4{end}\n")
    heavy = {"numpy.ma", "numpy.random", "_hashlib", *HEAVY[1:]}
    script = f"""
import sys
import numpy
own = set(sys.modules)
from odmtool.cli import entry, train
for name in {[*files]!r}:
    for bias in ("-1", "1"):
        assert entry.run(train.train, ["-q", "-B", bias, name, "model"], "odm-train") == 0
loaded = {heavy!r} & (set(sys.modules) - own)
assert not loaded, loaded
"""
    command = [sys.executable, "-c", script]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr


def test_group_runs_the_commands(tmp_path):
    (tmp_path / "data").write_text("1 1:2\n-1 1:4\n")
    start = [sys.executable, "-m", "odmtool"]
    command = [*start, "scale", str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 1:-1 \n-1 1:1 \n", "")
    for arguments in ([], ["scales"], ["scale"], ["scale", "-l", "1", "-u", "0", "data"]):
        done = subprocess.run([*start, *arguments], capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 2 and done.stdout == ""
        assert done.stderr.startswith("odmtool: ") and done.stderr.count("\n") == 1


# ---- packaging ---------------------------------------------------------------------------


def test_a_version_is_released_everywhere_on_one_day():
    from odmtool import __version__

    def found(path, pattern):
        return re.search(pattern, (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE).groups()

    release = r"## \[Unreleased\]\n(?:.*\n)*?## \[([^]]+)\] - (\d{4}-\d\d-\d\d)$"
    version, day = found("CHANGELOG.md", release)
    assert version == __version__
    assert found("CITATION.cff", r"^version: (.+)\ndate-released: (.+)$") == (version, day)
    assert found("man/make_man.py", r'^DATE = "(.+)"$') == (day,)


def test_every_script_starts_a_function():
    import odmtool.cli

    scripts = PYPROJECT["project"]["scripts"]
    assert set(scripts) == {"odmtool", *(f"odm-{command}" for command in COMMANDS)}
    for target in scripts.values():
        module, function = target.split(":")
        assert module == "odmtool.cli" and callable(getattr(odmtool.cli, function))


def test_installed_scripts_are_those_of_pyproject():
    try:
        entries = distribution("odmtool").entry_points
    except PackageNotFoundError:
        pytest.skip("odmtool is not installed")
    installed = {e.name: e.value for e in entries if e.group == "console_scripts"}
    assert installed == PYPROJECT["project"]["scripts"]


def test_oldest_versions_are_the_lower_bounds():
    def numbers(version):
        parts = [int(part) for part in version.split(".")]
        return parts + [0] * (3 - len(parts))

    extras = PYPROJECT["project"]["optional-dependencies"]
    declared = [*PYPROJECT["project"]["dependencies"], *extras["plot"]]
    bounds = dict(d.split(">=") for d in declared)
    lines = (ROOT / ".ci" / "oldest.txt").read_text(encoding="utf-8").splitlines()
    oldest = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert oldest.keys() == bounds.keys()
    assert all(numbers(oldest[name]) == numbers(bounds[name]) for name in bounds)


def test_every_package_imported_is_a_dependency():
    declared = {re.split("[<>=]", d)[0] for d in PYPROJECT["project"]["dependencies"]}
    optional = {
        re.split("[<>=]", d)[0]
        for extra in PYPROJECT["project"]["optional-dependencies"].values()
        for d in extra
    }
    # numba is made of llvmlite, and each version takes its own.
    distribution_of = {"sklearn": "scikit-learn", "llvmlite": "numba"}
    foreign = {
        distribution_of.get(package, package)
        for path in SOURCES
        for name in imported(everywhere(path))
        if (package := name.split(".")[0]) not in sys.stdlib_module_names
    }
    assert foreign - {"odmtool"} <= declared | optional


def test_only_the_estimators_know_of_scikit_learn():
    def uses(path):
        names = {name for name in imported(everywhere(path)) if within(name, "sklearn")}
        return names if module_name(path) != "odmtool.estimators.manners" else set()

    assert offenders(uses) == {}
    assert "sklearn" in PYPROJECT["project"]["optional-dependencies"]
