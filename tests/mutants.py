"""Are the tests worth trusting? Draws small changes of the package, and tells which go unnoticed.

    python tests/mutants.py [--number 300] [--seed 0] [--jobs 1] [--folder .mutants] [--again]

In a copy of the repository a pytest collects all tests and runs what it is asked for in forks
(:mod:`mutant_server`). First all tests are run once, to know which calls which function, then
mutants are drawn at random from all possible ones of solvers/, core/ and rows/
(:mod:`mutant_drawing`). For each, tests that call the changed function are run until one fails:
with the package as it is it has passed, so the mutant is killed. More than a few times the
processor time that a test took before kills, too.

The first round takes --quick seconds of tests, the quickest ones, without the files in SLOW.
What survives goes through a second round, of --budget seconds of tests from all files, where a
test has to fail twice with the change and pass without it, because those that start processes may
fail for other reasons. Of a compiled function, only the second round compiles what is made of it;
the first runs the tests that call it interpreted.

What stands below a comment "# speed only: why", a line or a function, is not tried: whatever is
changed there, the result is certified. These mutants are listed and counted for themselves.

What is known is kept in the folder: of each file of tests what it calls, until this file or what
it calls changes, and journal.jsonl, from which an interrupted run goes on; a mutant is the same as
long as its function is. --again tries those that survived, for example after a test was added. The
exit code is 0 if at least 90 % are killed.
"""

from __future__ import annotations

import argparse
import bisect
import difflib
import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from mutant_drawing import Mutant, is_valid, mutants

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("solvers", "core", "rows")
COPIED = ("odmtool", "tests", "data", "docs", "man", "benchmarks", ".ci")
# A changed file ends with a comment as long as what is missing to its length and so much more.
_ROOM = 2000
# A test may take so many times its CPU seconds, and more where functions are compiled anew.
_CPU_FACTOR, _COMPILING = 5, 200
_STEPS = 1.0, 4.0, 15.0, 40.0
_GOAL = 0.9
DEFAULTS = {"tests/test_signatures.py"}
# Files whose tests start processes, or say little about these rooms: for the second round.
SLOW = {
    "test_cluster", "test_cluster_commands", "test_compact_model", "test_completion", "test_cv",
    "test_errors", "test_estimators", "test_extremes", "test_files", "test_fuzz", "test_jit",
    "test_hostile_models", "test_kept_ranges", "test_kernel_rows", "test_large_commands",
    "test_loo", "test_man", "test_margins", "test_model_file", "test_models",
    "test_multiclass_machines", "test_papers", "test_plots", "test_predict", "test_probability",
    "test_probability_commands", "test_processes", "test_project", "test_python_docs",
    "test_repeats", "test_scripts", "test_search",
    "test_search_in_time", "test_search_memory",
    "test_sentences", "test_sklearn_checks", "test_stock_options", "test_stock_predictors",
    "test_svmlight", "test_svmlight_numbers", "test_svmlight_streams", "test_tables",
    "test_text_labels", "test_train", "test_wide_index",
}  # fmt: skip


class Copy:
    """A copy of the repository in which one file at a time is changed, and a pytest for it."""

    def __init__(self, folder: Path):
        self.folder = folder
        for name in COPIED:
            shutil.rmtree(folder / name, ignore_errors=True)
            if (ROOT / name).exists():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        for path in ROOT.iterdir():
            if path.is_file():
                shutil.copy(path, folder)
        self._share_compiled_code(folder / "odmtool" / "_jit", len(str(folder)))
        for path in (folder / "odmtool").rglob("*.py"):
            self._write(path, path.read_bytes(), path.stat().st_size + _ROOM)
        self.compiled = folder.parent / "compiled"
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        self._server = subprocess.Popen(
            [sys.executable, str(folder / "tests" / "mutant_server.py")], text=True, cwd=folder,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=os.environ | threads | {
                "PYTHONPATH": f"{folder}{os.pathsep}{folder / 'tests'}",
                "PYTHONDONTWRITEBYTECODE": "", "NUMBA_CACHE_DIR": str(self.compiled),
            },
        )  # fmt: skip

    @staticmethod
    def _share_compiled_code(jit: Path, length: int) -> None:
        """All copies have that of what is unchanged, by numba's cache, which looks at the files."""
        for name, old, new in (
            ("numba_cache.py", "subpath(self._py_file)", f"subpath(self._py_file[{length}:])"),
            ("folder.py", "def _stamp()", "def _stamp():\n    return 'mutants'\n\n\ndef _unused()"),
            ("__init__.py", "own := folder.cache_folder()", "own := None"),
        ):
            code = (jit / name).read_text()
            assert old in code
            (jit / name).write_text(code.replace(old, new))

    def _write(self, path: Path, content: bytes, size: int) -> None:
        path.write_bytes(content + b"#" * (size - len(content)))
        os.utime(path, (0, 0))

    def change(self, path: str, content: bytes) -> None:
        target = self.folder / path
        self._write(target, content, target.stat().st_size)
        for compiled in (target.parent / "__pycache__").glob(f"{target.stem}.*.pyc"):
            compiled.unlink()  # of a file of the same size and time

    def ask(self, tests: dict[str, float], **request) -> dict:
        """Have the server run tests, each in so many CPU seconds."""
        wall = 60 + 3 * sum(tests.values()) if tests else 3600
        output = str(self.folder / "output")
        request = dict(tests=tests, wall=wall, output=output, environment={}) | request
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline())


def keep_compiled_of_same_sources(folder: Path) -> None:
    """All sources have the same time, so numba cannot see that one is another."""
    digest = digest_of(f"odmtool/{path}" for path in sorted(compiled_sources()))
    mark = folder / "compiled-from"
    if not mark.exists() or mark.read_text() != digest:
        shutil.rmtree(folder / "compiled", ignore_errors=True)
        mark.write_text(digest)


class Tests:
    """What the recording runs saw: each test's seconds and the functions that it calls."""

    def __init__(self):
        self.seconds: dict[str, float] = {}
        self._by_function: dict[tuple, set] = {}
        self._by_file: dict[str, set] = {}

    def add(self, recording: dict) -> None:
        for name, (seconds, called) in recording.items():
            self.seconds[name] = seconds
            for file, line in called:
                self._by_function.setdefault((file, line), set()).add(name)
                # Line 1 is the module itself, which any test may be the first to import.
                if line > 1:
                    self._by_file.setdefault(file, set()).add(name)

    def of(self, mutant: Mutant) -> set[str]:
        """The tests that call the function which is changed; if there are none, those of the file.

        What stands in no function is read without a call, and defaults are.
        """
        called = self._by_function.get((mutant.path, mutant.function), set())
        readers = {name for name in self.seconds if file_of(name) in DEFAULTS}
        if not mutant.function:
            readers |= self.of_importers(mutant)
        return (called or self.of_file(mutant)) | readers

    def of_file(self, mutant: Mutant) -> set[str]:
        """The tests that call any function of the file."""
        return self._by_file.get(mutant.path, set())

    def of_importers(self, mutant: Mutant) -> set[str]:
        """The tests of files that import the file, which may read a number there."""
        folder, _, stem = mutant.path.removesuffix(".py").replace("/", ".").rpartition(".")
        told = re.compile(rf"from {folder} import .*\b{stem}\b|from {folder}\.{stem} import")
        sources = {name: (ROOT / name).read_text() for name in set(map(file_of, self.seconds))}
        return {name for name in self.seconds if told.search(sources[file_of(name)])}

    def in_order(self, names: set[str], budget: float) -> list[str]:
        """As many as can be run in so many seconds, and one at least; none if there are none.

        The quickest first, but each test with some parameters before it comes with others; in steps
        that are sorted by file, because a file's fixtures are made again whenever another one was
        in between.
        """
        costs, times = {}, Counter()
        for name in sorted(names, key=lambda name: (self.seconds[name], name)):
            times[name.partition("[")[0]] += 1
            costs[name] = self.seconds[name] * times[name.partition("[")[0]]
        total, chosen = 0.0, []
        for name in sorted(costs, key=lambda name: (costs[name], name)):
            total += self.seconds[name]
            if total <= budget or not chosen:
                chosen.append((bisect.bisect(_STEPS, total), file_of(name), name))
        return [name for _, _, name in sorted(chosen)]


class Trial:
    """Tries mutants in copies of the repository."""

    def __init__(self, tests: Tests, copies: SimpleQueue, budget: float, is_second: bool):
        self._tests, self._copies = tests, copies
        self._budget, self._is_second = budget, is_second

    def __call__(self, mutant: Mutant) -> dict:
        copy, source = self._copies.get(), (ROOT / mutant.path).read_bytes()
        copy.change(mutant.path, mutant.applied(source))
        start = time.monotonic()
        try:
            result, by = self._tried(copy, mutant, source)
        finally:
            copy.change(mutant.path, source)
            self._copies.put(copy)
        return {
            "key": mutant.key, "mutant": mutant, "result": result, "by": by,
            "round": 1 + self._is_second, "seconds": round(time.monotonic() - start, 1),
        }  # fmt: skip

    def _tried(self, copy: Copy, mutant: Mutant, source: bytes) -> tuple[str, str]:
        """Run tests until one fails."""
        request, compiling = {}, 0
        names = self._tests.of(mutant)
        if self._is_second:  # also what other processes call
            names = names | self._tests.of_importers(mutant)
        if mutant.is_compiled and self._is_second:
            names, compiling = names | self._tests.of_file(mutant), _COMPILING
            cache = copy.folder / "cache-of-one"
            shutil.rmtree(cache, ignore_errors=True)
            shutil.copytree(copy.compiled, cache)
            for name in importers(mutant.path):
                for stale in cache.rglob(f"{Path(name).stem}.*.nb?"):
                    stale.unlink()
            request = dict(environment={"NUMBA_CACHE_DIR": str(cache)}, again=True)
        seconds = self._tests.seconds
        chosen = self._tests.in_order(names, self._budget)
        limits = {name: 10 + compiling + _CPU_FACTOR * seconds[name] for name in chosen}
        request |= dict(changed=mutant.path, before=source.decode())
        while limits:
            answer = copy.ask(limits, **request)
            failed = answer["failed"]
            if answer["signal"]:
                return "time", f"signal {answer['signal']}"
            if not failed:
                return "survived", f"{answer['run']} tests"
            if not self._is_second or failed not in limits:
                return "killed", failed
            # Of those that start processes some fail by chance, or where all is imported again.
            own = {failed: limits[failed]}
            copy.change(mutant.path, source)
            before = dict(changed=mutant.path, before=source.decode(), again=answer["again"])
            is_known = copy.ask(own, **before)["failed"]
            copy.change(mutant.path, mutant.applied(source))
            if not is_known and copy.ask(own, **request)["failed"]:
                return "killed", failed
            limits = dict(list(limits.items())[1 + list(limits).index(failed) :])
        return "survived", "no test, or not for certain"


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


def compiled_sources() -> list[str]:
    """What compiled code depends on, relative to the package."""
    from odmtool._jit.folder import is_compiled_from

    package = ROOT / "odmtool"
    found = (path for path in package.rglob("*.py") if is_compiled_from(path, path.read_bytes()))
    return [str(path.relative_to(package)) for path in found]


def digest_of(paths: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        exists = (ROOT / path).exists()
        digest.update(path.encode() + ((ROOT / path).read_bytes() if exists else b""))
    return digest.hexdigest()[:16]


def drawn(number: int, seed: int) -> list[Mutant]:
    """Mutants at random; more of them begin with the same ones."""
    found = {}
    for room in ROOMS:
        for path in sorted((ROOT / "odmtool" / room).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            found |= {m.key: m for m in mutants(str(path.relative_to(ROOT)), text)}
    print(f"{len(found)} possible mutants")
    order = sorted(found, key=lambda key: hashlib.sha256(f"{seed} {key}".encode()).digest())
    valid = (found[k] for k in order if is_valid(found[k], (ROOT / found[k].path).read_bytes()))
    return list(itertools.islice(valid, number))


def recorded(folder: Path, copies: SimpleQueue, jobs: int, is_second: bool) -> Tests:
    """What the tests call, file by file; from the folder where nothing that matters changed."""
    names = sorted(path.name for path in (ROOT / "tests").glob("test_*.py"))
    names = [name for name in names if is_second or name.removesuffix(".py") not in SLOW]

    def record(name: str) -> dict:
        file, target = f"tests/{name}", folder / f"{name}.json"
        if target.exists():
            kept = json.loads(target.read_text(encoding="utf-8"))
            if kept["digest"] == digest_of([file, *kept["called"]]):
                return kept["tests"]
        copy, new = copies.get(), target.with_suffix(".new")
        answer = copy.ask({}, record=str(new), file=file)
        copies.put(copy)
        print(f"{name}: {answer['run']} tests", flush=True)
        tests = json.loads(new.read_text(encoding="utf-8"))
        called = sorted({path for _, places in tests.values() for path, _ in places})
        digest = digest_of([file, *called])
        target.write_text(json.dumps({"digest": digest, "called": called, "tests": tests}))
        return tests

    tests = Tests()
    with ThreadPoolExecutor(jobs) as pool:
        for recording in pool.map(record, names):
            tests.add(recording)
    return tests


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
    parser.add_argument("--quick", type=float, default=15.0, help="seconds of the first round")
    parser.add_argument("--budget", type=float, default=100.0, help="seconds of the second round")
    parser.add_argument("--rounds", type=int, choices=(1, 2), default=2)
    parser.add_argument("--folder", type=Path, default=ROOT / ".mutants")
    parser.add_argument("--again", action="store_true", help="try those that survived once more")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(exist_ok=True)
    journal, known = folder / "journal.jsonl", {}
    if journal.exists():
        known = {entry["key"]: entry for entry in map(json.loads, journal.read_text().splitlines())}
    drawn_all = drawn(options.number, options.seed)
    chosen = [mutant for mutant in drawn_all if not mutant.speed_only]

    def survived(mutant: Mutant, number: int) -> bool:
        entry = known.get(mutant.key, {"result": "", "round": 0})
        return entry["result"] == "survived" and entry["round"] >= number

    first = [m for m in chosen if m.key not in known or (options.again and survived(m, 1))]
    copies: SimpleQueue = SimpleQueue()
    for number in (1, 2)[: options.rounds]:
        wanted = first if number == 1 else [
            m for m in chosen if survived(m, 1) and (m in first or not survived(m, 2))
        ]  # fmt: skip
        if wanted and copies.empty():
            keep_compiled_of_same_sources(folder)
            for place in range(options.jobs):
                copies.put(Copy(folder / f"copy-{place}"))
        if not wanted:
            continue
        tests = recorded(folder, copies, options.jobs, number == 2)
        trial = Trial(tests, copies, (options.quick, options.budget)[number - 1], number == 2)
        with ThreadPoolExecutor(options.jobs) as pool, journal.open("a") as stream:
            for done, entry in enumerate(pool.map(trial, wanted), start=1):
                known[entry["key"]] = entry
                stream.write(json.dumps(entry) + "\n")
                stream.flush()
                place = f"{entry['mutant'].path}:{entry['mutant'].line}"
                print(
                    f"{done}/{len(wanted)} {entry['result']} in {entry['seconds']} s:"
                    f" {place}, {entry['by']}", flush=True,
                )  # fmt: skip
    survivors = [m for m in chosen if known[m.key]["result"] == "survived"]
    for mutant in survivors:
        print(f"\n{difference(mutant)}\n  {known[mutant.key]['by']}")
    for mutant in drawn_all:
        if mutant.speed_only:
            print(f"\n{difference(mutant)}\n  not tried: {mutant.speed_only}")
    killed = len(chosen) - len(survivors)
    print(f"\nkilled {killed} of {len(chosen)} mutants, {killed / len(chosen):.1%}")
    if len(drawn_all) > len(chosen):
        share = killed / len(drawn_all)
        print(f"of {len(drawn_all)}, with those that are said to change only speed, {share:.1%}")
    return 0 if killed >= _GOAL * len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
