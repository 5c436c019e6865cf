"""Memory as planned and as measured: commands of many kinds, on generated data.

usage: python benchmarks/memory.py [--write FILE] [--only TEXT]

Every command runs with --verbose, which says before the work what it will take at most. The
peak is that of the process, as the system counts it when the process ends, and of every process
that it starts, each looked at fifty times a second and all added up: pages that they share count
more than once, so the sum is an upper estimate. Ends with 1 if a peak is above its plan.

This process stays small, and so makes the data in others: the system counts the memory that a
process has before it becomes a command as the command's.
"""

from __future__ import annotations

import argparse
import lzma
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import NamedTuple

_UNITS = {"bytes": 1e-6, "KB": 1e-3, "MB": 1.0, "GB": 1e3}
_PLAN = re.compile(r"(?:at most|(?:newton|dcd|nystrom) in) ([\d.e+]+) (bytes|KB|MB|GB) of")

# Name: examples, features, nonzeros of a row, classes.
_SHAPES = {
    "small": (300, 10, 10, 2),
    "dense": (4000, 20, 20, 2),
    "large": (15000, 8, 8, 2),
    "tall": (300_000, 12, 12, 2),
    "wide": (1500, 30000, 60, 2),
    "widest": (3000, 4000000, 60, 2),
    "digits": (2500, 64, 64, 10),
    "topics": (3000, 8000, 50, 12),
    "triple": (20000, 12, 12, 3),
}

# A line for a command; DATA is the shape's file, and what follows `|` is run on its model.
_COMMANDS = """
small   train
small   train -t rbf
small   train -s ldm
small   cv -l 1,4
small   cv -l 1,4 -t rbf -j 2
dense   train
dense   train --solver dcd
dense   train --solver newton
dense   train -s ldm
dense   train -s l1svm
dense   train -b 1
dense   train -v 5
dense   train -v 5 -j 2
dense   train -t rbf -g 1
dense   train -t rbf -g 1 -j 2
dense   train -t rbf -g 1 --memory 200M
dense   train -t rbf -g 1.6 -m .8 -p .8 -l 2^20
dense   train -t rbf -g 1.6 -m .8 -p .8 -l 2^20 -v 3
dense   train -t rbf -g 1 -s ldm --max-iter 20
digits  train -t rbf -g .1 -s ldm --multiclass ovo
dense   train -t rbf -g 1 -s l1svm --max-iter 20
dense   train -t rbf -g 1 --solver dcd --memory 100M --max-iter 3
dense   train -t rbf -g 1 --solver sodm
dense   train -t rbf -g 1 --solver sodm -j 2
dense   train -t rbf -g 1 --solver nystrom
dense   train -t poly -g 1 -d 2 -l 1
dense   train -t rbf -g 1 -l 4 -v 3
dense   train -t rbf -g 1 -l 4 -b 1
dense   cv -l 1,16
dense   cv -l 1,16 -j 2
dense   cv -t rbf -g 1 -l 1,16
dense   cv -t rbf -g 1 -l 1,16 -j 2
dense   cv -t linear,rbf -g 1 -l 1,16
dense   cv -t linear,rbf -g 1 -l 1,16 -j 2
dense   cv -s l1svm -t linear,rbf -g 1 -l 1 --max-iter 10
large   train -t rbf -g 1 -l 16
large   train -t rbf -g 1 -l 16 -j 2 --memory 400M
large   cv -t rbf -g 4 -l 1,4 -v 3 -j 2 --memory 800M
large   train -t rbf -g 4 -v 3 -j 2 --memory 800M
tall    train
tall    train -j 2
tall    train --solver dcd
tall    train --solver dsvrg
tall    train -s ldm
tall    train -v 3
tall    cv -l 1,16 -v 3 -j 2
tall    train --cache . --memory 350M
tall    train --cache . --memory 400M -j 2
tall    train --cache . --memory 400M --solver dcd
tall    train --cache . --memory 500M -t rbf -g 1 --solver nystrom --landmarks 100
tall.xz train --cache . --memory 200M
wide    train
widest  train
widest  train --solver dcd
widest  train -s ldm --max-iter 20
widest  cv -t linear -l 1,4
wide    train -s ldm
wide    train -t rbf -g .1
wide    train --solver dcd
wide    cv -l 1,16 -j 2
digits  train
digits  train --multiclass ovr -s odm
digits  train --multiclass ovo -s odm
digits  train -s m3svm
digits  train -t rbf -g .1
digits  train -t rbf -g .1 -s odm --multiclass ovo
digits  train -t rbf -g .1 -s odm --multiclass ovr
digits  train -t rbf -g .1 -s odm --multiclass ovo -j 2
digits  cv -t rbf -g .1 -l 1,16 -v 3
digits  cv -s odm --multiclass ovr -t rbf -g .1 -l 1,16 -v 3 -j 2
topics  train
topics  train -s odm --multiclass ovo
topics  train -s m3svm
topics  cv -l 1,4 -v 3
triple  train
triple  train -t rbf -g 1 --max-iter 10
triple  train -t rbf -g 1 -s odm --multiclass ovo
triple  train -t rbf -g 1 -s odm --multiclass ovo -j 2
dense   predict
tall    predict
dense   predict -t rbf -g 1
digits  predict -t rbf -g .1 -b 1
topics  predict
wide    predict -t rbf -g .1
"""


class Run(NamedTuple):
    """A command: its shape's name, what is measured, and the options."""

    shape: str
    action: str
    options: tuple[str, ...]

    @property
    def words(self) -> str:
        return " ".join([f"odm-{self.action}", *self.options])


class Found(NamedTuple):
    """Megabytes of a run, its exit code, and how long it took."""

    planned: float
    peak: float
    code: int
    seconds: float


def generate(name: str, path: Path) -> None:
    """Write the file of a shape: classes that a linear machine tells apart with some errors."""
    import numpy as np

    m, d, each, classes = _SHAPES[name]
    rng = np.random.default_rng(len(name))
    weights = rng.standard_normal((d, classes))
    with open(path, "w") as stream:
        for start in range(0, m, 10000):
            n = min(10000, m - start)
            values = rng.random((n, each)).round(4)
            columns = np.broadcast_to(np.arange(d), (n, d))
            if each < d:
                columns = rng.integers(0, d // each, (n, each)) + np.arange(each) * (d // each)
            scores = np.einsum("ij,ijk->ik", values - 0.5, weights[columns])
            labels = (scores + 0.5 * rng.standard_normal(scores.shape)).argmax(axis=1)
            cells = np.stack([columns + 1, values], axis=2).reshape(n, 2 * each)
            form = "%d" + " %d:%g" * each + "\n"
            lines = np.column_stack([labels, cells]).ravel()
            stream.write(form * n % tuple(lines.tolist()))


def data_of(name: str, folder: Path) -> str:
    """The file of a shape, which is made if it is not there."""
    path = folder / name
    if not path.exists() and path.suffix == ".xz":
        path.write_bytes(lzma.compress(Path(data_of(path.stem, folder)).read_bytes(), preset=0))
    elif not path.exists():
        subprocess.run([sys.executable, __file__, "--make", str(path)], check=True)
    return str(path)


def measure(command: list[str], folder: Path) -> Found:
    """Run a command, and look after its processes."""
    with open(folder / "stderr", "w+") as errors:
        began = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=errors, cwd=folder,
            env=os.environ | {"TMPDIR": str(folder)},
        )  # fmt: skip
        peaks: dict[int, float] = {}
        while True:
            done, status, usage = os.wait4(process.pid, os.WNOHANG)
            if done:
                break
            for child in descendants(process.pid):
                peaks[child] = max(peaks.get(child, 0.0), high_water(child))
            time.sleep(0.02)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - began
        errors.seek(0)
        text = errors.read()
    plans = [float(number) * _UNITS[unit] for number, unit in _PLAN.findall(text)]
    if process.returncode:
        sys.stderr.write(text[-1000:])
    # The largest, where the winner of a search is trained after it.
    planned = max(plans, default=0.0)
    own = usage.ru_maxrss * 1024 / 1e6
    return Found(planned, own + sum(peaks.values()), process.returncode, seconds)


def descendants(process: int) -> list[int]:
    """The processes that a process started, and theirs."""
    found = []
    try:
        for task in Path(f"/proc/{process}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *descendants(child)]
    except OSError:
        pass  # it has ended
    return found


def high_water(process: int) -> float:
    """Megabytes that a process has had at most; 0 if it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"VmHWM:\s+(\d+)", status)
    return int(found[1]) * 1024 / 1e6 if found else 0.0


def program(action: str) -> list[str]:
    return [sys.executable, "-m", "odmtool", action]


def runs(only: str) -> list[Run]:
    """The commands of the table whose line contains a text."""
    lines = [line.split() for line in _COMMANDS.strip().splitlines()]
    found = [Run(shape, action, tuple(options)) for shape, action, *options in lines]
    return [run for run in found if only in f"{run.shape} {run.words}"]


def measured(run: Run, folder: Path) -> Found:
    """The run on its data; a prediction with a model that is trained before."""
    data = data_of(run.shape, folder)
    model = str(folder / "model")
    if run.action == "predict":
        train = [*program("train"), "-q", *run.options, data, model]
        subprocess.run(train, check=True, stdout=subprocess.DEVNULL, cwd=folder)
        has_probability = ["-b", "1"] if "-b" in run.options else []
        predict = [*program("predict"), "--verbose", *has_probability]
        return measure([*predict, data, model, os.devnull], folder)
    outputs = [model] if run.action == "train" and "-v" not in run.options else []
    return measure([*program(run.action), "--verbose", *run.options, data, *outputs], folder)


def table(only: str, folder: Path, results: list[Found]):
    """The lines of the page."""
    yield "# Memory\n"
    yield "Written by `make memory` (`benchmarks/memory.py`, which says how). What `--verbose`"
    yield "announces before the work, the program and the data included, beside the peak, in MB;"
    yield "of several processes the sum. For odm-predict the options are those of the training.\n"
    yield f"{platform.machine()}, {os.cpu_count()} cores; Python {platform.python_version()},"
    yield f"NumPy {version('numpy')}.\n"
    yield "| data | rows x features | command | planned | peak | planned / peak |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for run in runs(only):
        found = measured(run, folder)
        results.append(found)
        m, d, _, classes = _SHAPES[run.shape.removesuffix(".xz")]
        size = f"{m} x {d}" + (f", {classes} classes" if classes > 2 else "")
        numbers = f"{found.planned:.0f} | {found.peak:.0f} | {found.planned / found.peak:.2f}"
        yield f"| {run.shape} | {size} | `{run.words}` | {numbers} |"
        late = " ABOVE" if found.peak > found.planned else ""
        print(f"  {found.seconds:.1f} s, exit {found.code}{late}", file=sys.stderr, flush=True)
    ratios = [found.planned / found.peak for found in results]
    kept = sum(ratio >= 1 for ratio in ratios)
    yield f"\nThe plan is kept in {kept} of {len(ratios)} runs; planned / peak is"
    yield f"{min(ratios):.2f} to {max(ratios):.2f}, {median(ratios):.2f} in the median."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", metavar="FILE")
    parser.add_argument("--only", metavar="TEXT", default="")
    parser.add_argument("--folder", metavar="DIRECTORY", help="where data are kept")
    parser.add_argument("--make", metavar="FILE", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.make:
        generate(arguments.make.name, arguments.make)
        return 0
    lines, results = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments.folder or temporary)
        for line in table(arguments.only, folder, results):
            print(line, flush=True)
            lines.append(line)
    if arguments.write:
        Path(arguments.write).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return int(any(found.peak > found.planned or found.code for found in results))


if __name__ == "__main__":
    raise SystemExit(main())
