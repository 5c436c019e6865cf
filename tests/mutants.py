"""Are the tests worth trusting? Draws small changes of the package, and tells which go unnoticed.

    python tests/mutants.py [--number 300] [--seed 0] [--jobs 1] [--folder .mutants] [--again]

First, in a copy of the repository, all tests are run once, to know which test calls which
function (:mod:`mutant_probe`). Then mutants are drawn at random from all possible ones of
solvers/, core/ and rows/ (:mod:`mutant_drawing`), and for each the tests that call the changed
function are run until one fails: with the package as it is it has passed, so the mutant is killed.
Of the tests of one function the quickest are taken, --budget seconds of them, and first those of
the file that is most about it. More than a few times the processor time that they took before
kills, too.

A change in a compiled function, or of a constant beside one, is tried without compiling, and
only if it survives, compiled, with all that is made of it. All others share the compiled code of
the package as it is: in the copies, the name of the disk cache's folder is fixed and all files
keep their sizes and times.

What is known is kept in the folder: the tests' times until a source or a test changes, and
journal.jsonl, from which an interrupted run goes on. --again tries only those that survived, for
example after a test was added. The exit code is 0 if at least 90 % are killed.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import hashlib
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from mutant_drawing import Mutant, is_compiled, is_valid, mutants

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("solvers", "core", "rows")
COPIED = ("odmtool", "tests", "data", "docs", "man", "benchmarks", ".ci")
# A changed file ends with a comment as long as what is missing to its length and so much more.
_ROOM = 2000
_CPU_FACTOR, _CPU_START = 5, 60
_GOAL = 0.9


class Copy:
    """A copy of the repository in which one file at a time is changed."""

    def __init__(self, folder: Path):
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in COPIED:
            if (ROOT / name).exists():
                shutil.copytree(
                    ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
                )
        for path in ROOT.iterdir():
            if path.is_file():
                shutil.copy(path, folder)
        jit = folder / "odmtool" / "_jit.py"
        jit.write_text(jit.read_text() + "\n\ndef _stamp():\n    return 'mutants'\n")
        for path in (folder / "odmtool").rglob("*.py"):
            self._write(path, path.read_bytes(), path.stat().st_size + _ROOM)
        self._server = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "mutant_server.py")], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def _write(self, path: Path, content: bytes, size: int) -> None:
        path.write_bytes(content + b"#" * (size - len(content)))
        os.utime(path, (0, 0))

    def change(self, path: str, content: bytes) -> None:
        target = self.folder / path
        self._write(target, content, target.stat().st_size)
        for compiled in (target.parent / "__pycache__").glob(f"{target.stem}.*.pyc"):
            compiled.unlink()  # of a file of the same size and time

    def pytest(self, *arguments, cpu: float, keep=False, **variables) -> tuple[int, str]:
        """Exit code (negative if it was ended) and output of pytest in the copy.

        With ``keep``, the bytecode of tests and package is written for later runs.
        """
        output = self.folder / "output"
        environment = dict.fromkeys(("MUTANTS_RECORD", "MUTANTS_CHOSEN"), "") | {
            "PYTHONPATH": f"{self.folder}{os.pathsep}{self.folder / 'tests'}",
            "PYTHONDONTWRITEBYTECODE": "" if keep else "1",
            "NUMBA_CACHE_DIR": str(self.folder / "cache"), "NUMBA_DISABLE_JIT": "0",
        } | variables  # fmt: skip
        options = ["-q", "-p", "mutant_probe", "-p", "no:cacheprovider", "-p", "no:xdist"]
        request = dict(
            arguments=[*options, f"--basetemp={self.folder / 'temporary'}", *arguments],
            environment=environment, folder=str(self.folder), output=str(output), cpu=int(cpu),
            wall=20 * cpu,
        )  # fmt: skip
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        code = json.loads(self._server.stdout.readline())
        return code, output.read_text(errors="replace")


class Tests:
    """What the recording run saw: each test's seconds and the functions that it calls."""

    def __init__(self, recordings: Iterable[dict]):
        self.seconds: dict[str, float] = {}
        self._by_function: dict[tuple, set] = {}
        self._by_file: dict[str, set] = {}
        for recording in recordings:
            for name, (seconds, called) in recording.items():
                self._add(name, seconds, called)

    def _add(self, name: str, seconds: float, called: list) -> None:
        self.seconds[name] = seconds
        for file, line in called:
            self._by_function.setdefault((file, line), set()).add(name)
            # Line 1 is the module itself, which any test may be the first to import.
            if line > 1:
                self._by_file.setdefault(file, set()).add(name)

    def of_function(self, mutant: Mutant) -> set[str]:
        """The tests that call the function which is changed."""
        return self._by_function.get((mutant.path, mutant.function), set())

    def of_file(self, mutant: Mutant) -> set[str]:
        """The tests that call any function of the file."""
        return self._by_file.get(mutant.path, set())

    def calling(self, functions: set[tuple[str, int]]) -> set[str]:
        """The tests that call one of these, given by file and first line."""
        return set().union(*(self._by_function.get(each, ()) for each in functions))

    def batches(self, names: set[str], budget: float) -> list[list[str]]:
        """As many as can be run in so many seconds, and one at least; none if there are none.

        First those of the file that is most about these tests: to import all files takes longer
        than most tests do. A batch is sorted by file, because a file's fixtures are made again
        whenever another one was in between.
        """
        total, chosen = 0.0, []
        for name in sorted(names, key=lambda name: (self.seconds[name], name)):
            total += self.seconds[name]
            if total <= budget or not chosen:
                chosen.append(name)
        by_file: dict[str, list[str]] = {}
        for name in chosen:
            by_file.setdefault(file_of(name), []).append(name)
        sizes = Counter(map(file_of, self.seconds))
        first = max(by_file, key=lambda file: (len(by_file[file]) / sizes[file], file), default="")
        others = [name for file in sorted(by_file) if file != first for name in by_file[file]]
        return [batch for batch in (by_file.get(first), others) if batch]


class Trial:
    """Tries mutants in copies of the repository; ``plain`` are the tests without compiling."""

    def __init__(self, tests: Tests, plain: Tests, copies: SimpleQueue, budget: float):
        self._tests, self._plain, self._copies, self._budget = tests, plain, copies, budget

    def __call__(self, mutant: Mutant) -> dict:
        copy, source = self._copies.get(), (ROOT / mutant.path).read_bytes()
        copy.change(mutant.path, mutant.applied(source))
        try:
            result, by = self._stages(copy, mutant)
        finally:
            copy.change(mutant.path, source)
            self._copies.put(copy)
        return {"key": key(mutant, source), "mutant": mutant, "result": result, "by": by}

    def _stages(self, copy: Copy, mutant: Mutant) -> tuple[str, str]:
        if not mutant.is_compiled:
            tests = self._tests
            names = tests.of_function(mutant) if mutant.function else tests.of_file(mutant)
            return self._stage(copy, tests, names)
        names = self._plain.of_function(mutant)
        result = self._stage(copy, self._plain, names, NUMBA_DISABLE_JIT="1")
        if result[0] != "survived":
            return result
        cache = copy.folder / "cache-of-one"
        shutil.rmtree(cache, ignore_errors=True)
        shutil.copytree(copy.folder / "cache", cache)
        for name in importers(mutant.path):
            for stale in cache.rglob(f"{Path(name).stem}.*.nb?"):
                stale.unlink()
        names = self._tests.of_file(mutant)
        return self._stage(copy, self._tests, names, NUMBA_CACHE_DIR=str(cache))

    def _stage(self, copy: Copy, tests: Tests, names: set[str], **variables) -> tuple[str, str]:
        """Run tests until one fails."""
        passed, path = 0, copy.folder / "chosen.json"
        for batch in tests.batches(names, self._budget):
            path.write_text(json.dumps(batch))
            cpu = _CPU_START + _CPU_FACTOR * sum(tests.seconds[name] for name in batch)
            files = sorted(set(map(file_of, batch)))
            code, output = copy.pytest("-x", *files, cpu=cpu, MUTANTS_CHOSEN=str(path), **variables)
            if code < 0:
                return "time", f"signal {-code}"
            if code:
                # 1: a test failed; 2: a file of tests could not be imported. Else it is our fault.
                assert code in (1, 2), output
                lines = output.splitlines()
                failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
                return "killed", failed[0] if failed else output[-200:]
            passed += len(batch)
        return "survived", f"{passed} tests" if passed else "no test"


def file_of(name: str) -> str:
    return name.partition("::")[0]


def importers(path: str) -> set[str]:
    """A file of the package, those that import it, those that import these, and so on."""
    sources = {
        str(source.relative_to(ROOT)): source.read_text(encoding="utf-8")
        for source in (ROOT / "odmtool").rglob("*.py")
    }
    found, new = set(), {path}
    while new:
        found |= new
        parts = [name.removesuffix(".py").rpartition("/")[::2] for name in new]
        used = "|".join(
            rf"from {folder.replace('/', '.')}(\.{stem} import| import .*\b{stem}\b)"
            for folder, stem in parts
        )
        new = {name for name, text in sources.items() if re.search(used, text)} - found
    return found


def compiled_functions() -> set[tuple[str, int]]:
    """File and first line, that of the decorator, of every compiled function."""
    found = set()
    for path in (ROOT / "odmtool").rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        name = str(path.relative_to(ROOT))
        found |= {(name, node.decorator_list[0].lineno) for node in nodes if is_compiled(node)}
    return found


def key(mutant: Mutant, source: bytes) -> str:
    """The same as long as the file is."""
    return hashlib.sha256(repr(mutant).encode() + source).hexdigest()[:16]


def drawn(number: int, seed: int) -> list[Mutant]:
    """Mutants at random; more of them begin with the same ones."""
    found = []
    for room in ROOMS:
        for path in sorted((ROOT / "odmtool" / room).rglob("*.py")):
            found += mutants(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
    print(f"{len(found)} possible mutants")
    random.Random(seed).shuffle(found)
    valid = (m for m in found if is_valid(m, (ROOT / m.path).read_bytes()))
    return list(itertools.islice(valid, number))


def recorded(folder: Path, copies: SimpleQueue, jobs: int) -> tuple[Tests, Tests]:
    """The tests, and without compiling those that call compiled functions as they are written.

    File by file; from the folder, as long as no source and no test changes.
    """
    digest = hashlib.sha256()
    for path in sorted([*ROOT.glob("odmtool/**/*.py"), *ROOT.glob("tests/**/*.py")]):
        digest.update(b"" if path.name.startswith("mutant") else path.read_bytes())
    kept = folder / f"tests-{digest.hexdigest()[:16]}"
    kept.mkdir(exist_ok=True)
    names = sorted(path.name for path in (ROOT / "tests").glob("test_*.py"))

    def record(name, kind, **variables):
        target = kept / f"{name}.{kind}"
        if not target.exists():
            copy = copies.get()
            code, output = copy.pytest(
                f"tests/{name}", cpu=7200, keep=True, MUTANTS_RECORD=f"{target}.new", **variables
            )
            copies.put(copy)
            print(f"{name}, {kind}: {output.strip().splitlines()[-1]}", flush=True)
            assert code in (0, 1, 5), output
            target.with_name(f"{target.name}.new").rename(target)
        return json.loads(target.read_text(encoding="utf-8"))

    with ThreadPoolExecutor(jobs) as pool:
        tests = Tests(pool.map(lambda name: record(name, "json"), names))
        chosen = folder / "chosen.json"
        interpreted = sorted(tests.calling(compiled_functions()))
        chosen.write_text(json.dumps(interpreted))
        settings = dict(MUTANTS_CHOSEN=str(chosen), NUMBA_DISABLE_JIT="1")
        files = sorted({Path(file_of(name)).name for name in interpreted})
        plain = Tests(pool.map(lambda name: record(name, "plain", **settings), files))
    return tests, plain


def difference(mutant: Mutant) -> str:
    before = (ROOT / mutant.path).read_bytes()
    lines = (text.decode().splitlines() for text in (before, mutant.applied(before)))
    found = list(difflib.unified_diff(*lines, n=1, lineterm=""))
    return "\n".join(
        [f"{mutant.path}:{mutant.line}", *(line for line in found[3:] if line.strip())]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--number", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--budget", type=float, default=60.0, help="seconds of tests for one mutant"
    )
    parser.add_argument("--folder", type=Path, default=ROOT / ".mutants")
    parser.add_argument("--again", action="store_true", help="try those that survived once more")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(exist_ok=True)
    journal, known = folder / "journal.jsonl", {}
    if journal.exists():
        known = {entry["key"]: entry for entry in map(json.loads, journal.read_text().splitlines())}
    chosen = drawn(options.number, options.seed)
    keys = {mutant: key(mutant, (ROOT / mutant.path).read_bytes()) for mutant in chosen}
    wanted = [m for m in chosen if keys[m] not in known]
    if options.again:
        wanted += [m for m in chosen if known.get(keys[m], {}).get("result") == "survived"]
    if wanted:
        copies: SimpleQueue = SimpleQueue()
        for number in range(options.jobs):
            copies.put(Copy(folder / f"copy-{number}"))
        trial = Trial(*recorded(folder, copies, options.jobs), copies, options.budget)
        with ThreadPoolExecutor(options.jobs) as pool, journal.open("a") as stream:
            for number, entry in enumerate(pool.map(trial, wanted), start=1):
                known[entry["key"]] = entry
                stream.write(json.dumps(entry) + "\n")
                stream.flush()
                place = f"{entry['mutant'].path}:{entry['mutant'].line}"
                print(number, len(wanted), entry["result"], place, entry["by"], flush=True)
    survivors = [m for m in chosen if known[keys[m]]["result"] == "survived"]
    for mutant in survivors:
        print(f"\n{difference(mutant)}\n  {known[keys[mutant]]['by']}")
    killed = len(chosen) - len(survivors)
    print(f"\nkilled {killed} of {len(chosen)} mutants, {killed / len(chosen):.1%}")
    return 0 if killed >= _GOAL * len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
