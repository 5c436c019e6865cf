"""odm-train and odm-predict beside LIBLINEAR, LIBSVM and scikit-learn, as whole processes.

usage: python benchmarks/rivals.py [--runs 5] [--write FILE] [SET...]

A SET is a data file, or one packed with xz; without any, two are generated. Every command reads
the same file and writes a model; the commands of a set take turns, so that a machine whose speed
drifts favours none. Linear ODM, at its defaults and at lambda = m (LIBLINEAR's C = 1), stands
beside LIBLINEAR's L2-loss SVM in the primal (-s 2) and its default (-s 1), or its machine of
Crammer and Singer (-s 4) for more classes; with --kernel, ODM with an RBF kernel stands beside
svm-train. Scikit-learn reads the file and fits its LinearSVC or SVC. Tolerances are the defaults
of each. The problems differ, so this compares what a user waits for, not solvers. Peers that are
not installed are left out.
"""

from __future__ import annotations

import argparse
import lzma
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import numpy as np

# Its reader gives indices of 64 bits, which its machines refuse.
SCIKIT_LEARN = """\
import sys
from sklearn.datasets import load_svmlight_file
from sklearn.svm import SVC, LinearSVC
X, y = load_svmlight_file(sys.argv[1])
X.indices, X.indptr = X.indices.astype("int32"), X.indptr.astype("int32")
{}().fit(X, y)
"""


# A child's peak begins with its parent's, which here is that of unpacking.
TIMED = """\
import os, subprocess, sys, time
started = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(time.perf_counter() - started, usage.ru_maxrss / 1024)
sys.exit(status != 0)
"""


def run(command: list[str]) -> tuple[float, float]:
    """Wall seconds and peak megabytes of a command."""
    timed = [sys.executable, "-I", "-c", TIMED, *command]
    found = subprocess.run(timed, stdout=subprocess.PIPE, text=True)
    if found.returncode != 0:
        raise SystemExit(f"failed: {' '.join(command)}")
    seconds, megabytes = map(float, found.stdout.split())
    return seconds, megabytes


def in_turn(commands: list[list[str]], runs: int) -> np.ndarray:
    """Seconds and megabytes, shape (runs, commands, 2); a first round is not counted."""
    return np.array([[run(c) for c in commands] for _ in range(runs + 1)][1:])


def generated(folder: Path) -> list[str]:
    """Files of numbers, and of text that is as sparse as text is."""
    rng, files = np.random.default_rng(0), []
    for name, m, d, each in (("numbers", 20000, 30, 30), ("text", 8000, 20000, 60)):
        w, lines = rng.standard_normal(d), []
        for _ in range(m):
            columns = np.sort(rng.choice(d, each, replace=False))
            values = rng.standard_normal(each).round(4)
            label = 1 if values @ w[columns] + 0.3 * rng.standard_normal() > 0 else -1
            pairs = zip((columns + 1).tolist(), values.tolist(), strict=True)
            lines.append(f"{label} " + " ".join(f"{j}:{x}" for j, x in pairs))
        files.append(str(folder / name))
        Path(files[-1]).write_text("\n".join(lines) + "\n")
    return files


def unpacked(name: str, folder: Path) -> str:
    """The file itself, or what is packed in it."""
    if not name.endswith(".xz"):
        return name
    target = folder / Path(name).stem
    with lzma.open(name) as source, open(target, "wb") as stream:
        shutil.copyfileobj(source, stream)
    return str(target)


def peers(file: str, kernel: bool, classes: int) -> dict[str, list[str]]:
    """The commands of other programs for a file, by how a table calls them."""
    if kernel:
        found = {"svm-train": ["svm-train", "-q"]}
    else:
        tool = "liblinear-train" if shutil.which("liblinear-train") else "train"
        numbers = ("2", "1") if classes == 2 else ("4",)
        found = {f"LIBLINEAR -s {n}": [tool, "-q", "-s", n] for n in numbers}
    found = {name: command for name, command in found.items() if shutil.which(command[0])}
    if find_spec("sklearn"):
        machine = "SVC" if kernel else "LinearSVC"
        found[f"scikit-learn {machine}"] = [sys.executable, "-c", SCIKIT_LEARN.format(machine)]
    return {name: [*command, file, os.devnull] for name, command in found.items()}


def compare(file: str, arguments) -> list[str]:
    """Rows of the table: each of ours beside each peer."""
    with open(file, "rb") as stream:
        labels = [line.split(maxsplit=1)[0] for line in stream]
    m, base = len(labels), ["odm-train", "-q", *(["-t", "rbf"] if arguments.kernel else [])]
    ours = {"defaults": base, f"-l {m}": [*base, "-l", str(m)]}
    ours |= {f"{name}, -j 2": [*command, "-j", "2"] for name, command in ours.items()}
    others = peers(file, arguments.kernel, len(set(labels)))
    own = [[*command, file, os.devnull] for command in ours.values()]
    measured = in_turn([*own, *others.values()], arguments.runs)
    rows, size = [], os.path.getsize(file) / 1e6
    for k, name in enumerate(ours):
        cells = [os.path.basename(file), f"{size:.1f}", name, _seconds(measured[:, k, 0])]
        cells.append(f"{median(measured[:, k, 1]):.0f}")
        beside = []
        for j, peer in enumerate(others, len(ours)):
            ratio = median(measured[:, k, 0] / measured[:, j, 0])
            beside.append(f"{ratio:.2f} x {peer} ({_seconds(measured[:, j, 0])})")
        rows.append("| " + " | ".join([*cells, "; ".join(beside)]) + " |")
    return rows


def _seconds(values: np.ndarray) -> str:
    """Median, and how far the runs spread."""
    return f"{median(values):.3f} s, {min(values):.3f} to {max(values):.3f}"


def start(file: str, arguments, folder: Path) -> list[str]:
    """Rows of what little commands take."""
    model = str(folder / "model")
    commands = {
        "odm-train --help": ["odm-train", "--help"],
        f"odm-train {Path(file).name}": ["odm-train", "-q", file, model],
        f"odm-predict {Path(file).name}": ["odm-predict", "-q", file, model, os.devnull],
    }
    measured = in_turn(list(commands.values()), arguments.runs)
    return [f"| {n} | {_seconds(measured[:, k, 0])} |" for k, n in enumerate(commands)]


def report(arguments, folder: Path):
    """The lines of the report."""
    load = os.getloadavg()[0]
    names = ["odmtool", "numpy", "scipy", "numba"] + ["scikit-learn"] * bool(find_spec("sklearn"))
    packages = ", ".join(f"{name} {version(name)}" for name in names)
    yield "# Speed\n"
    yield "Written by `make bench` (`benchmarks/rivals.py`, which says how). Medians and ranges of"
    yield f"{arguments.runs} runs of each command in turn, ratios run by run; whole processes, with"
    yield "their start.\n"
    yield f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f} at the start; Python"
    yield f"{platform.python_version()}, {packages}.\n"
    files = [unpacked(name, folder) for name in arguments.sets] or generated(folder)
    yield "| command | time |"
    yield "| --- | --- |"
    yield from start(min(files, key=os.path.getsize), arguments, folder)
    yield "\n| file | MB | odm-train | time | memory, MB | beside |"
    yield "| --- " * 6 + "|"
    for file in files:
        yield from compare(file, arguments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--kernel", action="store_true")
    parser.add_argument("--write", metavar="FILE")
    parser.add_argument("sets", nargs="*", metavar="SET")
    arguments = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for line in report(arguments, Path(folder)):
            print(line, flush=True)
            lines.append(line)
    if arguments.write:
        Path(arguments.write).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
