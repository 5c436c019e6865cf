"""odm-train and odm-predict beside LIBLINEAR, LIBSVM and scikit-learn, as whole processes.

usage: python benchmarks/rivals.py [--only TITLE] [--write FILE] [DATA_FOLDER]

Sets and commands are those of `rival_sets.py`; a set that is not in the folder, as NAME or
NAME.xz, is left out, and so is a peer that is not installed. Sets of `SCALED` are scaled to [0, 1]
by odm-scale first. Every command reads the same file and writes a model; the
commands of a set take turns, so that a machine whose speed drifts favours none. A first round is
not counted, for what it must load or compile; a command that has taken `ENOUGH` seconds is not
run again, but for ours after the first round, and one that takes longer than `LIMIT` is ended.
Tolerances are the defaults of each.
The problems differ, so this compares what a user waits for, not solvers.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Container
from fractions import Fraction
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import NamedTuple

from rival_sets import SECTIONS, Section, data_file

RUNS, ENOUGH, LIMIT = 5, 10.0, 120.0

# Its reader gives indices of 64 bits, which its machines refuse.
SCIKIT_LEARN = """\
import sys
from sklearn.datasets import load_svmlight_file
from sklearn.svm import LinearSVC
X, y = load_svmlight_file(sys.argv[1])
X.indices, X.indptr = X.indices.astype("int32"), X.indptr.astype("int32")
LinearSVC().fit(X, y)
"""

# A child's peak begins with its parent's, which here is that of unpacking.
TIMED = """\
import os, subprocess, sys, threading, time
started = time.perf_counter()
process = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
timer = threading.Timer(float(sys.argv[1]), os.kill, (process.pid, 9))
timer.start()
_, status, usage = os.wait4(process.pid, 0)
timer.cancel()
print(time.perf_counter() - started, usage.ru_maxrss / 1024)
sys.exit(status not in (0, 9))
"""


class Measured(NamedTuple):
    """Seconds of each run of a command, and megabytes of the last."""

    seconds: list[float]
    megabytes: float

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def was_ended(self) -> bool:
        return self.median > LIMIT

    def __str__(self) -> str:
        """The median, and how far the runs spread around it."""
        if self.was_ended:
            return f"> {LIMIT:.0f}"
        digits = max(0, 3 - len(f"{self.median:.0f}")) if self.median >= 10 else 3
        shown = f"{self.median:.{digits}f}"
        spread = (max(self.seconds) - min(self.seconds)) / 2 / self.median
        return shown + f" ± {spread:.0%}" * (len(self.seconds) > 1)


def run(command: list[str]) -> tuple[float, float]:
    """Wall seconds and peak megabytes of a command."""
    timed = [sys.executable, "-I", "-c", TIMED, str(LIMIT), *command]
    found = subprocess.run(timed, stdout=subprocess.PIPE, text=True)
    if found.returncode != 0:
        raise SystemExit(f"failed: {shlex.join(command)}")
    seconds, megabytes = map(float, found.stdout.split())
    return seconds, megabytes


def in_turn(commands: dict[str, list[str]], ours: Container[str] = ()) -> dict[str, Measured]:
    """What each command took, by its name; the first run of one of ours never counts."""
    first = {name: run(command) for name, command in commands.items()}
    spent = {name: 0.0 if name in ours else first[name][0] for name in commands}
    seconds = {name: [] for name in commands}
    megabytes = {name: peak for name, (_, peak) in first.items()}
    for _ in range(RUNS):
        for name, command in commands.items():
            if spent[name] < ENOUGH:
                again, megabytes[name] = run(command)
                seconds[name].append(again)
                spent[name] += again
    return {name: Measured(seconds[name] or [first[name][0]], megabytes[name]) for name in commands}


def filled(words: str, file: Path, m: int, gamma: str) -> list[str] | None:
    """The command for a file, if its program is there."""
    program, *options = words.split()
    if program == "scikit-learn":
        start = [sys.executable, "-c", SCIKIT_LEARN] if find_spec("sklearn") else None
    else:
        names = (program, "train") if program == "liblinear-train" else (program,)
        start = next(([name] for name in names if shutil.which(name)), None)
    values = {"file": file, "m": m, "gamma": float(Fraction(gamma or 0))}
    return start and [*start, *(word.format(**values) for word in options)]


def table(head: list[str], rows: list[list[str]]):
    """The lines of a table, and an empty one."""
    yield "| " + " | ".join(head) + " |"
    yield "| --- " * len(head) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def measured_section(section: Section, data: str, folder: Path) -> dict[str, dict[str, Measured]]:
    """By set and column, as far as sets and programs are there."""
    found = {}
    for name, gamma in section.sets.items():
        file = data_file(name, data, folder)
        if file is None:
            continue
        with open(file, "rb") as stream:
            m = sum(1 for _ in stream)
        columns = {**section.ours, **section.peers}
        commands = {column: filled(words, file, m, gamma) for column, words in columns.items()}
        shown = f"{file.name}, gamma {gamma}" if gamma else file.name
        commands = {column: command for column, command in commands.items() if command}
        found[shown] = in_turn(commands, section.ours)
        print(shown, *map(str, found[shown].values()), sep="; ", file=sys.stderr, flush=True)
    return found


def section_lines(section: Section, data: str, folder: Path):
    """What docs/speed.md says of a section: seconds, ratios to each peer, peak memory."""
    yield f"## {section.title}\n\n{section.text}\n"
    measured = measured_section(section, data, folder)
    present = {column for row in measured.values() for column in row}
    peers = [peer for peer in section.peers if peer in present]
    columns = [*section.ours, *peers]
    yield "Seconds:\n"
    rows = [[name, *(str(row[c]) for c in columns)] for name, row in measured.items()]
    yield from table(["set", *columns], rows)
    if peers:
        yield "Ours as a multiple of the peer's seconds:\n"
        head = [f"{ours} / {peer}" for peer in peers for ours in section.ours]
        rows = [
            [name, *(ratio(row[ours], row[peer]) for peer in peers for ours in section.ours)]
            for name, row in measured.items()
        ]
        yield from table(["set", *head], rows)
    yield "Peak memory in MB:\n"
    rows = [[name, *(f"{row[c].megabytes:.0f}" for c in columns)] for name, row in measured.items()]
    yield from table(["set", *columns], rows)


def ratio(ours: Measured, peer: Measured) -> str:
    """How many times the peer's seconds; a bound where one of the two was ended."""
    if ours.was_ended and peer.was_ended:
        return ""
    sign = "< " * peer.was_ended + "> " * ours.was_ended
    return f"{sign}{ours.median / peer.median:.2f}"


def start_lines(data: str, folder: Path):
    """What the smallest commands take, and how much of it Python, NumPy and click take."""
    file, model = data_file("heart_scale", data, folder), folder / "model"
    if file is None:
        return
    commands = {
        "odm-train --help": ["odm-train", "--help"],
        "odm-train heart_scale": ["odm-train", "-q", file, model],
        "odm-predict heart_scale": ["odm-predict", "-q", file, model, os.devnull],
        "python, nothing": [sys.executable, "-c", "pass"],
        "python, NumPy and click": [sys.executable, "-c", "import numpy, click"],
    }
    yield "## Start\n"
    measured = in_turn(commands)
    yield from table(["command", "seconds"], [[name, str(m)] for name, m in measured.items()])


def report(arguments, folder: Path):
    """The lines of the report."""
    names = ["odmtool", "numpy", "scipy", "numba"] + ["scikit-learn"] * bool(find_spec("sklearn"))
    packages = ", ".join(f"{name} {version(name)}" for name in names)
    yield "# Speed\n"
    yield "Written by `make bench` (`benchmarks/rivals.py`, which says how). Whole processes with"
    yield f"their start: medians of up to {RUNS} runs of each command in turn, ± half the range of"
    yield f"the runs; without ± one run; > {LIMIT:.0f}: ended then. Scaled: to [0, 1].\n"
    yield f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the"
    yield f"start; Python {platform.python_version()}, {packages}.\n"
    yield from start_lines(arguments.data, folder)
    for section in SECTIONS:
        if arguments.only in section.title:
            yield from section_lines(section, arguments.data, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="TITLE", help="sections that have this title")
    parser.add_argument("--write", metavar="FILE")
    parser.add_argument("data", nargs="?", default=os.curdir, metavar="DATA_FOLDER")
    arguments = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for line in report(arguments, Path(folder)):
            print(line, flush=True)
            lines.append(line)
    if arguments.write:
        Path(arguments.write).write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
