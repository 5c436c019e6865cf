"""Do two installations of the commands do the same, to the byte?

usage: python benchmarks/same_output.py OLD_BIN NEW_BIN [--only PATTERN] [--list]
                                        [--new-env KEY=VALUE]... [--compiled DIR]
                                        [--old-results DIR]

OLD_BIN and NEW_BIN are folders with odm-train, odm-predict, odm-cv, odm-scale, odmtool and
python. Every chain of command lines of same_output_commands.py runs with both, the new one after
the old one, in the same folder, empty but for the data sets that the chain names; so names and
paths are the same. After every command line its stdout, its stderr, its exit code and all
files that it made or changed are compared. A difference is one line, and a unified diff of the
first thing that differs; the last line counts. The exit code is 1 if something differs, or if
a command ends with another exit code than the corpus expects.

Normalised is only what differs from run to run:

* the seconds in the summary of odm-train, in the lines of sodm's levels, in `--verbose` of
  odm-predict, under "seconds" in JSON, and in journals, whose lines have checksums;
* memory that is measured: the peak; in the plans of `--verbose` and in refusals for lack of
  memory what the program itself takes, the sum with it, and, without --memory, what is free;
* the line that says that code is being compiled, and the seconds that it took: they come when the
  cache of compiled code has none, not with certain commands;
* lines that `--verbose` prints from time to time, with what is elapsed;
* if the two have different versions: the version, and the checksum of a model, which covers it.

The environment of the commands is new and small: PATH, HOME, the language, the width of help
texts and the folder of compiled code, different for both; --new-env adds to the new one's.
With a Dask in both installations each gets a scheduler and two workers on this host.

--old-results keeps what the old one did, for the next run: not of chains in whose products the
name of the scratch folder stands. Remove DIR when the old installation or the data change.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import hashlib
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import same_output_commands as corpus
from same_output_data import write_data

AT_A_TIME = 2
TIMEOUT = 600
# Command lines that make the scratch folder's name known to the program.
NAMING_THE_FOLDER = ("$PWD", "--keep-cache")
DIFF_LINES = 24

_SIZE = r"[0-9.e+]+ (?:bytes|KB|MB|GB)"
RULES = [
    (rb"(reading|training|writing) [0-9.]+\b", rb"\1 SECONDS"),
    (rb'("(?:reading|training|writing|seconds)": )[0-9.e-]+', rb"\1SECONDS"),
    (rb"^(\[.*(?:true|false), )[0-9.e-]+\] [0-9a-f]{8}$", rb"\1SECONDS] CHECKSUM"),
    (rb"solving [0-9.]+, gap [0-9.]+$", rb"solving SECONDS, gap SECONDS"),
    (rb"[0-9.]+ s reading the model, [0-9.]+ s predicting",
     rb"SECONDS reading the model, SECONDS predicting"),
    (rf"peak memory {_SIZE}".encode(), rb"peak memory SIZE"),
    (rf"at most {_SIZE} of memory: program and data {_SIZE}".encode(),
     rb"at most SIZE of memory: program and data SIZE"),
    (rf"in {_SIZE} of ({_SIZE}) of memory: the program {_SIZE}".encode(),
     rb"in SIZE of \1 of memory: the program SIZE"),
    (rf"(even with --cache training needs|the data need about) {_SIZE}".encode(), rb"\1 SIZE"),
    (rb"^odm[a-z -]*: compiling \(.*\n", b""),
    (rb", compiling [0-9.]+$", b""),
    (rb"^odm[a-z -]*: .* elapsed\b.*\n", b""),
]  # fmt: skip
# What is free now; only where the command does not limit it.
UNLIMITED = [
    (rf"\(--memory {_SIZE}\)".encode(), rb"(--memory SIZE)"),
    (rf"of {_SIZE} of memory:".encode(), rb"of SIZE of memory:"),
]
OTHER_VERSION = [
    (rb"odmtool [0-9]+\.[0-9]+\.[0-9]+\S*", rb"odmtool VERSION"),
    (rb'"version": "[0-9]+\.[0-9]+\.[0-9]+[^"]*"', rb'"version": "VERSION"'),
    (rb"^end sha256 [0-9a-f]{64}$", rb"end sha256 CHECKSUM"),
]


class Side(NamedTuple):
    """One of the two installations."""

    name: str
    environment: dict[str, str]

    def python(self, code: str) -> str | None:
        """What a piece of Python prints there; None if it fails."""
        ran = subprocess.run(
            ["python", "-c", code], env=self.environment, cwd="/", capture_output=True, text=True
        )
        return ran.stdout.strip() if ran.returncode == 0 else None


class Job(NamedTuple):
    """A chain of the corpus: command lines that run after each other in one folder."""

    group: str
    lines: list[str]


class Outcome(NamedTuple):
    """What a command line did: its exit code, and its products by their name."""

    code: int
    products: dict[str, bytes]


def normalise(data: bytes, line: str, rules) -> bytes:
    """The bytes of a product without what differs from run to run."""
    for pattern, replacement in [*([] if "--memory" in line else UNLIMITED), *rules]:
        data = re.sub(pattern, replacement, data, flags=re.MULTILINE)
    return data


def make_side(name: str, folder: str, scratch: Path, compiled: Path, extra: list[str]) -> Side:
    """The environment of an installation; ``extra`` are words KEY=VALUE."""
    environment = {
        "PATH": f"{Path(folder).absolute()}:{os.defpath}", "HOME": str(scratch / "home"),
        "LC_ALL": "C.UTF-8", "COLUMNS": "80", "NUMBA_CACHE_DIR": str(compiled / name),
    }  # fmt: skip
    environment |= dict(word.split("=", 1) for word in extra)
    side = Side(name, environment)
    place = side.python("import odmtool; print(odmtool.__path__[0])")
    if place is None:
        raise SystemExit(f"{folder} has no python that finds odmtool")
    print(f"{name}: {place}", flush=True)
    # Otherwise the first pictures would say that matplotlib looks for fonts.
    side.python("import matplotlib.font_manager")
    return side


def run_line(line: str, folder: Path, environment: dict) -> tuple[int, bytes, bytes]:
    """Exit code, stdout and stderr of a command line of the shell."""
    process = subprocess.Popen(
        ["bash", "-c", line], cwd=folder, env=environment, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        err += f"killed after {TIMEOUT} seconds\n".encode()
    return process.returncode, out, err


def files_in(folder: Path) -> dict[str, bytes]:
    """The files in a folder and below, by name."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*")) if path.is_file()
    }  # fmt: skip


def run_chain(side: Side, job: Job, folder: Path, data: Path) -> list[Outcome]:
    """Run the command lines in a new folder; what each of them did."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    text = "\n".join(job.lines)
    for path in (*data.iterdir(), *(data.parent / f"cluster-{side.name}").glob(corpus.SCHEDULER)):
        if path.name in text:
            shutil.copy2(path, folder)
    outcomes, before = [], files_in(folder)
    for line in job.lines:
        code, out, err = run_line(line.removeprefix("! "), folder, side.environment)
        after = files_in(folder)
        changed = {f"file {name}": after[name] for name in after if after[name] != before.get(name)}
        gone = {f"file {name}": b"(removed)\n" for name in before if name not in after}
        products = {"exit code": f"{code}\n".encode(), "stderr": err, "stdout": out}
        outcomes.append(Outcome(code, products | changed | gone))
        before = after
    return outcomes


def compare(job: Job, line: str, old: Outcome, new: Outcome, rules) -> str | None:
    """One line and a diff, if a command line did not do the same."""
    products = [{name: normalise(data, line, rules) for name, data in outcome.products.items()}
                for outcome in (old, new)]  # fmt: skip
    names = [name for name in products[0] | products[1]
             if products[0].get(name) != products[1].get(name)]  # fmt: skip
    if not names:
        return None
    head = f"DIFFERENT [{job.group}] {line}: {', '.join(names)}"
    texts = [
        ["(missing)"] if data is None else data.decode(errors="backslashreplace").splitlines()
        for data in (side.get(names[0]) for side in products)
    ]
    shown = difflib.unified_diff(
        *texts, f"old {names[0]}", f"new {names[0]}", lineterm="", n=1
    )  # fmt: skip
    cut = [row if len(row) <= 300 else row[:300] + "..." for row in shown]
    return "\n".join([head, *cut[:DIFF_LINES], *(["..."] if len(cut) > DIFF_LINES else [])])


def unexpected(job: Job, line: str, outcome: Outcome) -> str | None:
    """A sentence, if the old command did not succeed or fail as the corpus expects."""
    if (outcome.code != 0) == line.startswith("! "):
        return None
    said = outcome.products["stderr"].decode(errors="backslashreplace").strip()
    return f"UNEXPECTED exit code {outcome.code} [{job.group}] {line}: {said}"


@contextlib.contextmanager
def cluster(side: Side, folder: Path):
    """A Dask scheduler and two workers of an installation; its file is in the folder."""
    folder.mkdir()
    file = folder / corpus.SCHEDULER
    here = ["--host", "127.0.0.1", "--no-dashboard"]
    worker = ["dask", "worker", "--scheduler-file", str(file), *here, "--no-nanny", "--nthreads",
              "1", "--memory-limit", "2GB", "--local-directory", str(folder)]  # fmt: skip
    commands = [["dask", "scheduler", *here, "--port", "0", "--scheduler-file", str(file)],
                worker, worker]  # fmt: skip
    processes = []
    try:
        for command in commands:
            with open(folder / "log", "ab") as log:
                processes.append(subprocess.Popen(
                    command, cwd=folder, env=side.environment, stdout=log, stderr=log
                ))  # fmt: skip
            while not file.exists() and processes[0].poll() is None:
                time.sleep(0.1)
        if wait_for_workers(side, file) is None:
            raise SystemExit(f"no cluster: {(folder / 'log').read_text()}")
        yield
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()


def wait_for_workers(side: Side, file: Path) -> str | None:
    return side.python(
        f"from distributed import Client; c = Client(scheduler_file={str(file)!r}, timeout=60); "
        f"c.wait_for_workers(2, timeout=60)"
    )


def chosen_jobs(pattern: str, has_dask: bool) -> list[Job]:
    """The chains in which a command line, with its group in front, fits the pattern."""
    jobs = [Job(group, lines) for group, chains in corpus.groups().items() for lines in chains]
    jobs = [job for job in jobs
            if any(re.search(pattern, f"{job.group}: {line}") for line in job.lines)]  # fmt: skip
    if not has_dask and any(job.group == corpus.ON_A_CLUSTER for job in jobs):
        print("skipped: the commands on a cluster, for Dask is not installed in both", flush=True)
    return [job for job in jobs if has_dask or job.group != corpus.ON_A_CLUSTER]


class Memory:
    """What the old installation did in earlier runs, a file for each chain in a folder.

    Without a folder (None) nothing is remembered.
    """

    def __init__(self, folder: Path | None):
        self._folder = folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def run(self, side: Side, job: Job, *where: Path) -> list[Outcome]:
        """As :func:`run_chain`, or what is remembered."""
        text = "\n".join(job.lines)
        if self._folder is None or any(word in text for word in NAMING_THE_FOLDER):
            return run_chain(side, job, *where)
        path = self._folder / hashlib.sha256(text.encode()).hexdigest()[:32]
        if path.exists():
            return pickle.loads(path.read_bytes())
        outcomes = run_chain(side, job, *where)
        new = path.with_name(f"{path.name}.{os.getpid()}")
        new.write_bytes(pickle.dumps(outcomes))
        new.replace(path)  # other runs may do the same at this time
        return outcomes


@contextlib.contextmanager
def dropping_the_rest(pool: ThreadPoolExecutor):
    """An interrupted run ends after the chains that are running now."""
    try:
        yield
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise


def run_all(sides: list[Side], jobs: list[Job], scratch: Path, memory: Memory) -> int:
    """Run and compare the chains, saying what differs; 1 if something does."""
    data, (old_side, new_side) = scratch / "data", sides
    versions = [side.python("import odmtool; print(odmtool.__version__)") for side in sides]
    rules = RULES + (OTHER_VERSION if versions[0] != versions[1] else [])

    def both(number: int) -> tuple[list[Outcome], list[Outcome]]:
        job, folder = jobs[number], scratch / f"{number:03d}"
        old = memory.run(old_side, job, folder, data)
        return old, run_chain(new_side, job, folder, data)

    same = different = wrong = 0
    with ThreadPoolExecutor(AT_A_TIME) as pool, dropping_the_rest(pool):
        for job, outcomes in zip(jobs, pool.map(both, range(len(jobs))), strict=True):
            for line, old, new in zip(job.lines, *outcomes, strict=True):
                sentences = compare(job, line, old, new, rules), unexpected(job, line, old)
                same, different = same + (not sentences[0]), different + bool(sentences[0])
                wrong += bool(sentences[1])
                for sentence in filter(None, sentences):
                    print(sentence, flush=True)
    print(f"{same + different} commands, {same} same, {different} different", flush=True)
    return 1 if different or wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old_bin")
    parser.add_argument("new_bin")
    parser.add_argument("--only", metavar="PATTERN", default="",
                        help="only chains with a line 'GROUP: COMMAND' that this is found in")
    parser.add_argument("--compiled", type=Path, metavar="DIR",
                        help="keep compiled code here for the next run")
    parser.add_argument("--old-results", type=Path, metavar="DIR",
                        help="keep here what the old installation did, and do not do it again")
    parser.add_argument("--new-env", action="append", default=[], metavar="KEY=VALUE",
                        help="a variable of the new installation, such as PYTHONPATH")
    parser.add_argument("--list", action="store_true", help="print the command lines, and end")
    arguments = parser.parse_args()
    if arguments.list:
        for job in chosen_jobs(arguments.only, True):
            print("\n".join(f"{job.group}: {line}" for line in job.lines))
        return 0
    # As Ctrl-C does, so that no cluster and no scratch folder is left.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="same-output-")))
        write_data(scratch / "data")
        compiled = (arguments.compiled or scratch / "compiled").absolute()
        sides = [make_side("old", arguments.old_bin, scratch, compiled, []),
                 make_side("new", arguments.new_bin, scratch, compiled, arguments.new_env)]
        has_dask = all(side.python("import distributed") is not None for side in sides)
        jobs = chosen_jobs(arguments.only, has_dask)
        if any(job.group == corpus.ON_A_CLUSTER for job in jobs):
            for side in sides:
                stack.enter_context(cluster(side, scratch / f"cluster-{side.name}"))
        return run_all(sides, jobs, scratch, Memory(arguments.old_results))


if __name__ == "__main__":
    raise SystemExit(main())
