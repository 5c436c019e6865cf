"""The papers' protocol on the papers' data: accuracies of ODM, LDM, SVM and mcODM.

usage: python benchmarks/protocol.py [--only PATTERN] [--jobs 1] [--table] DATA_DIRECTORY RESULTS

DATA_DIRECTORY holds svmlight files of the sets' names (heart, sonar, ...), RESULTS receives what
comes out. Every run is one ``odm-cv --repeat``: random splits into 4/5 for training and 1/5 for
test, five-fold cross validation over the paper's grid within the training part, features scaled
to [0, 1] by all data. The SVM of a set and kernel is run first, the others
compare with it. A run that is killed goes on where it was (--journal); a finished one is not
repeated. --only picks runs whose name (set-machine-kernel, and -bias or -eight)
matches a shell pattern.

Prints the commands as it runs them; --table runs nothing and prints what is done: mean and
standard deviation of the test accuracy in percent, the mean difference from the SVM with the
paired t-test's p, and the CPU seconds of one split.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import shlex
import sys
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import NamedTuple

from odmtool.search.repeats import SplitResult, compare, summarise

ONE_BLAS_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
SVM = "l1svm"
HALVING, COARSE, BIAS = "--search halving", "--search coarse", "-B 1"
EIGHT = "-l 2^0:12:4 -m 0.2 -p 0.2,0.8"  # eight settings of the paper's grid


class Run(NamedTuple):
    """One odm-cv --repeat; ``more`` are further options."""

    set: str
    machine: str
    kernel: str
    splits: int
    more: str = ""

    @property
    def name(self) -> str:
        suffix = ("-bias" if BIAS in self.more else "") + ("-eight" if EIGHT in self.more else "")
        return f"{self.set}-{self.machine}-{self.kernel}{suffix}"

    @property
    def rival(self) -> str:
        """The run it compares with."""
        return self._replace(machine=SVM, more=BIAS if BIAS in self.more else "").name


def binary(name: str, splits: int) -> list[Run]:
    """SVM, ODM and LDM with both kernels; a fit of LDM takes longest, so it searches coarsely.

    Halving begins with 200 examples, which is nearly all of heart and sonar.
    """
    return [
        Run(name, machine, kernel, splits, COARSE if machine == "ldm" else "")
        for kernel in ("linear", "rbf")
        for machine in (SVM, "odm", "ldm")
    ]


def multi(name: str, splits: int, search: str = "") -> list[Run]:
    """SVM (one against the rest) and mcODM, without (as the papers) and with an intercept."""
    return [
        Run(name, machine, "linear", splits, f"{search if machine != SVM else ''} {bias}".strip())
        for bias in ("", BIAS)
        for machine in (SVM, "mcodm")
    ]


RUNS = [
    *binary("heart", 30),
    *binary("sonar", 30),
    *(run for name in ("iris", "wine", "glass", "vehicle") for run in multi(name, 10)),
    *binary("australian", 5),
    *binary("german.numer", 5),
    *(
        Run(name, "mcodm", "linear", 3, f"{HALVING} {EIGHT}")
        for name in ("segment", "dna", "satimage", "usps")
    ),
    # These take hours: a fit of usps takes 5 to 30 seconds.
    *(run for name in ("segment", "dna", "satimage", "usps") for run in multi(name, 3, HALVING)),
]


def scaled(name: str, data: Path, results: Path) -> Path:
    """The set with its features in [0, 1], made on first use."""
    path = results / f"{name}.scaled"
    if not path.exists():
        part = path.with_suffix(".part")
        with open(part, "w") as out:
            execute([sys.executable, "-m", "odmtool", "scale", "-l", "0", "-u", "1",
                     str(data / name)], out)  # fmt: skip
        part.rename(path)
    return path


def execute(command: list[str], out=None) -> float:
    """Run a command; its CPU seconds."""
    process = Popen(command, stdout=out, stderr=DEVNULL, env=os.environ | ONE_BLAS_THREAD)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"failed: {shlex.join(command)}")
    return usage.ru_utime + usage.ru_stime


def do(run: Run, data: Path, results: Path, jobs: int) -> None:
    out = results / run.name
    options = ["-s", run.machine, "-t", run.kernel, "--grid", "paper", *run.more.split()]
    options += ["--repeat", str(run.splits), "-j", str(jobs), "--journal", f"{out}.journal"]
    options += ["--csv", f"{out}.csv"]
    if run.machine != SVM and (results / f"{run.rival}.csv").exists():
        options += ["--against", str(results / f"{run.rival}.csv")]
    file = scaled(run.set, data, results)
    command = [sys.executable, "-m", "odmtool", "cv", *options, str(file)]
    print("odm-cv", shlex.join([*options, str(file)]), flush=True)
    journal = Path(f"{out}.journal")
    done = len(journal.read_text().splitlines()) - 1 if journal.exists() else 0
    with open(f"{out}.log", "w") as log:
        seconds = execute(command, log)
    Path(f"{out}.seconds").write_text(f"{seconds:.1f} {run.splits - done}\n")


def is_finished(run: Run, results: Path) -> bool:
    return (results / f"{run.name}.seconds").exists()


def tests(name: str, results: Path) -> dict[int, float]:
    """Test accuracies in percent by the number of the split, also of a run that is not finished."""
    path = results / f"{name}.journal"
    lines = path.read_text().splitlines()[1:] if path.exists() else []
    rows = [SplitResult(*json.loads(line)) for line in lines]
    return {row.split: 100 * row.accuracy for row in rows}


def print_table(results: Path, runs: list[Run]) -> None:
    print("| set | machine | kernel | splits | search | accuracy | less SVM (p) | s |")
    print("| --- " * 8 + "|")
    for run in runs:
        ours, theirs = tests(run.name, results), tests(run.rival, results)
        if not ours:
            continue
        mean, std, count = summarise(list(ours.values()))
        of = f" of {run.splits}" if count < run.splits else ""
        against = seconds = ""
        common = [number for number in ours if number in theirs]
        if len(common) > 1 and run.machine != SVM:
            comparison = compare([ours[n] for n in common], [theirs[n] for n in common])
            against = f"{comparison.mean:+.1f} ({comparison.p:.2g})"
        if is_finished(run, results):
            total, splits = map(float, (results / f"{run.name}.seconds").read_text().split())
            seconds = f"{total / splits:.1f}"
        words = run.more.split()
        search = words[words.index("--search") + 1] if "--search" in words else "full"
        search += " of 8" if EIGHT in run.more else ""
        bias = " -B 1" if BIAS in run.more else ""
        print(f"| {run.set} | {run.machine} | {run.kernel}{bias} | {count}{of} | {search} "
              f"| {mean:.1f} +- {std:.1f} | {against} | {seconds} |")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="*", metavar="PATTERN")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("data", type=Path)
    parser.add_argument("results", type=Path)
    arguments = parser.parse_args()
    runs = [run for run in RUNS if fnmatch.fnmatch(run.name, arguments.only)]
    if arguments.table:
        print_table(arguments.results, runs)
        return
    arguments.results.mkdir(parents=True, exist_ok=True)
    for run in runs:
        if not is_finished(run, arguments.results):
            do(run, arguments.data, arguments.results, arguments.jobs)


if __name__ == "__main__":
    main()
