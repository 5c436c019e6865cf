"""The rules of the house, checked on the sources: sizes, imports, start-up, packaging."""

import ast
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
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES}
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
COMMANDS = ["train", "predict", "cv", "scale"]

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def everywhere(path: Path):
    return ast.walk(TREES[path])


def top_level(path: Path):
    """The nodes that run when the module is imported."""
    stack: list[ast.AST] = [TREES[path]]
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


# ---- sizes -----------------------------------------------------------------------


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_files_have_at_most_500_lines(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 500


def function_length(node) -> int:
    """Lines from ``def`` to the end, without the docstring."""
    length = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node, clean=False) is not None:
        docstring = node.body[0]
        length -= docstring.end_lineno - docstring.lineno + 1
    return length


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_functions_have_at_most_60_lines(path):
    functions = (node for node in everywhere(path) if isinstance(node, FUNCTION))
    long = {node.name: n for node in functions if (n := function_length(node)) > 60}
    assert long == {}


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_modules_and_public_classes_have_docstrings(path):
    if path.read_text(encoding="utf-8").strip():
        assert ast.get_docstring(TREES[path])
    nodes = (node for node in TREES[path].body if isinstance(node, ast.ClassDef))
    bare = [n.name for n in nodes if n.name[0] != "_" and not ast.get_docstring(n)]
    assert bare == []


# ---- what the sources may do -------------------------------------------------------


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_only_the_commands_print(path):
    if within(module_name(path), "odmtool.cli"):
        return
    calls = (node.func for node in everywhere(path) if isinstance(node, ast.Call))
    assert not [f for f in calls if isinstance(f, ast.Name) and f.id in ("print", "input")]


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_nothing_is_evaluated_and_arithmetic_is_exact(path):
    for node in everywhere(path):
        if isinstance(node, ast.keyword):
            assert node.arg not in ("fastmath", "parallel"), f"line {node.value.lineno}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("eval", "exec"), f"line {node.lineno}"


# ---- imports go one way --------------------------------------------------------------

COMMON = ["odmtool.errors", "odmtool.messages", "odmtool.defaults", "odmtool.__version__"]
MATHS = ["odmtool._jit", "odmtool.kernels", "odmtool.losses", "odmtool.gram", "odmtool.objective"]
#: package or module -> what of odmtool it may import, besides itself and COMMON
ALLOWED = {
    "odmtool.errors": [],
    "odmtool.messages": [],
    "odmtool.defaults": [],
    "odmtool._jit": [],
    "odmtool.losses": MATHS,
    "odmtool.kernels": MATHS,
    "odmtool.gram": MATHS,
    "odmtool.objective": MATHS,
    "odmtool.objective_m3svm": [],
    "odmtool.solvers": MATHS,
    "odmtool.scaling": MATHS,
    "odmtool.probability": [],
    "odmtool.models": [*MATHS, "odmtool.probability"],
    "odmtool.io": ["odmtool._jit", "odmtool.kernels", "odmtool.models", "odmtool.scaling"],
}
#: what nothing below the commands may import
TOP = ["odmtool.cli", "odmtool.io"]


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_imports_go_one_way(path):
    name = module_name(path)
    ours = {other for other in imported(everywhere(path)) if within(other, "odmtool")}
    owner = next((package for package in ALLOWED if within(name, package)), None)
    if owner is not None:
        fine = [owner, *COMMON, *ALLOWED[owner]]
        assert not {o for o in ours if not any(within(o, package) for package in fine)}
    elif not within(name, "odmtool.cli") and name not in ("odmtool", "odmtool.__main__"):
        assert not {o for o in ours if any(within(o, package) for package in TOP)}


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_numba_is_imported_by_jit_only(path):
    uses = {name for name in imported(everywhere(path)) if within(name, "numba")}
    assert not uses or module_name(path) == "odmtool._jit"


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_no_optional_package_is_imported_at_the_top(path):
    known = set(sys.stdlib_module_names) | {"numpy", "scipy", "click", "odmtool", "__future__"}
    assert {name.split(".")[0] for name in imported(top_level(path))} <= known


@pytest.mark.parametrize("path", sorted((PACKAGE / "cli").glob("*.py")), ids=module_name)
def test_commands_import_click_only_at_the_top(path):
    light = ["click", "odmtool.cli", *COMMON]
    for name in imported(top_level(path)):
        is_standard = name.split(".")[0] in sys.stdlib_module_names
        assert is_standard or any(within(name, package) for package in light), name


# ---- start-up --------------------------------------------------------------------------

HEAVY = ("numpy", "scipy", "numba", "llvmlite", "joblib", "sklearn", "matplotlib")


@pytest.mark.parametrize("arguments", ["--help", "-h", "--version"])
@pytest.mark.parametrize("main", [*(f"{c}_main" for c in COMMANDS), "odmtool_main"])
def test_help_loads_click_only(main, arguments):
    script = f"""
import sys
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
    foreign = {
        name.split(".")[0]
        for path in SOURCES
        for name in imported(everywhere(path))
        if name.split(".")[0] not in sys.stdlib_module_names
    }
    assert foreign - {"odmtool"} <= declared | optional
    assert "sklearn" not in foreign
