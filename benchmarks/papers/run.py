"""The experiments of the papers, again: every run is one ``odm-cv``, resumable.

usage: python benchmarks/papers/run.py [--minutes 60] [--jobs 2] [--only PATTERN] [--list]
                                       RESULTS DATA_DIRECTORY...

Runs are done from the quickest on, by an estimate, as many at a time as there are jobs, until the
time is up; then what is running is interrupted, and the same command goes on there. What is left
out, and which sets are in none of the directories, is printed. --minutes 0 does everything.
What was finished is kept in ``results.csv`` beside this file, and is not done again in any clone;
without that file everything is.
--only takes the runs whose name matches a shell pattern (--list prints the names).
``report.py`` makes docs/papers.md of the results.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import prepare
import results as done
from declared import Run, runs, sets_of, tables

# Seconds of a fit, for the order only: of any, of a number or a pair of examples in a linear one,
# of a kernel value.
_ANY, _OF_NUMBER, _OF_PAIR, _OF_KERNEL_VALUE = 1e-3, 1e-6, 1e-6, 3e-9
# How many times that it took, in the median of the runs that were done first.
_TIMES = {
    ("odm", "linear"): 0.1, ("ldm", "linear"): 0.7, ("kmomd", "linear"): 3, ("svr", "linear"): 9,
    ("l1svm", "linear"): 3, ("mcodm", "linear"): 4, ("mcsvm", "linear"): 20,
    ("m3svm", "linear"): 20, ("odm", "rbf"): 0.6, ("mamc", "rbf"): 0.5, ("kmomd", "rbf"): 7,
    ("ldm", "rbf"): 3, ("svr", "rbf"): 25,
}  # fmt: skip
_POLL_SECONDS = 0.2
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def estimate(run: Run, shape: prepare.Shape) -> float:
    """About the seconds of a run."""
    m = shape.m * (1 - (run.protocol.test_size or 0))
    if run.kernel == "linear":
        fit = _ANY + min(_OF_NUMBER * shape.nonzeros * m / shape.m, _OF_PAIR * m**2)
    else:
        fit = _ANY + _OF_KERNEL_VALUE * m**2
    machine = run.options.split("-s ")[1].split()[0]
    fits = run.settings * run.protocol.folds * run.protocol.splits
    return _TIMES.get((machine, run.kernel), 1) * fit * fits


def commands(run: Run, path: Path, shape: prepare.Shape, out: Path) -> list[list[str]]:
    """The odm-cv commands of a run that are not done."""
    options = ["-t", run.kernel, *run.options.split(), "-v", str(run.protocol.folds)]
    if run.widths:
        options += ["-g", ",".join(f"{g:.17g}" for g in prepare.gammas(run.widths, shape))]
    if run.protocol.test_size is not None:
        options += ["--repeat", str(run.protocol.splits), "--test-size",
                    str(run.protocol.test_size), "--journal", f"{out}.journal"]  # fmt: skip
        return [[*options, str(path)]]
    seeds = ((k, f"{out}.seed-{k}.json") for k in range(run.protocol.splits))
    return [
        [*options, "--seed", str(k), "--journal", f"{out}.seed-{k}.journal", "--json", table,
         str(path)]
        for k, table in seeds if not os.path.exists(table)
    ]  # fmt: skip


class Runner:
    """Does runs until the time is up."""

    def __init__(self, results: Path, folders: list[Path], end: float):
        self._results, self._folders, self._end = results, folders, end
        self._shapes: dict[Path, prepare.Shape] = {}
        self._lock = threading.Lock()

    def shape(self, run: Run) -> prepare.Shape:
        """Of the file that a run reads."""
        path = prepare.prepared(run, self._folders, self._results)
        if path not in self._shapes:
            self._shapes[path] = prepare.shape(path)
        return self._shapes[path]

    def work(self, waiting: list[Run]) -> None:
        """Do runs, the next one each time, until none is left; for several threads."""
        while time.monotonic() < self._end:
            with self._lock:
                if not waiting:
                    return
                run = waiting.pop(0)
            self._do(run)

    def _do(self, run: Run) -> None:
        path = prepare.prepared(run, self._folders, self._results)
        out = done.folder(self._results, run)
        began = time.monotonic()
        for options in commands(run, path, self.shape(run), out):
            code = self._odm_cv(options, f"{out}.log")
            if code is None:
                break
            if code:
                print(f"failed with {code}: odm-cv {' '.join(options)}", flush=True)
                break
        seconds = Path(f"{out}.seconds")
        before = float(seconds.read_text()) if seconds.exists() else 0.0
        seconds.write_text(f"{before + time.monotonic() - began:.2f}\n")
        found = done.found(self._results, run)
        count = found.count if found else 0
        print(f"{run.name}: {count} of {run.protocol.splits}", flush=True)

    def _odm_cv(self, options: list[str], log: str) -> int | None:
        """The exit code; None if the time was up before."""
        with open(log, "w") as stream:
            process = subprocess.Popen(
                [sys.executable, "-m", "odmtool", "cv", *options], stdout=stream, stderr=stream,
                env=os.environ | _ONE_THREAD,
            )  # fmt: skip
            try:
                while (code := process.poll()) is None and time.monotonic() < self._end:
                    time.sleep(_POLL_SECONDS)
            finally:
                if process.poll() is None:
                    process.terminate()
                    process.wait()
        return code


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="*", metavar="PATTERN")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("results", type=Path)
    parser.add_argument("data", type=Path, nargs="+")
    arguments = parser.parse_args()
    end = time.monotonic() + (60 * arguments.minutes or float("inf"))
    chosen = tables()
    wanted = [run for run in runs(chosen) if fnmatch.fnmatch(run.name, arguments.only)]
    if arguments.list:
        print(*(run.name for run in wanted), sep="\n")
        return
    (arguments.results / "runs").mkdir(parents=True, exist_ok=True)
    wanted = [run for run in wanted if not prepare.missing(run.dataset, arguments.data)]
    unfinished = [run for run in wanted if not done.is_finished(arguments.results, run)]
    runner = Runner(arguments.results, arguments.data, end)
    waiting = sorted(unfinished, key=lambda run: estimate(run, runner.shape(run)))
    print(f"{len(wanted)} runs, {len(wanted) - len(waiting)} are done", flush=True)
    threads = [threading.Thread(target=runner.work, args=[waiting]) for _ in range(arguments.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done.keep(arguments.results, wanted)
    left = [run for run in unfinished if not done.is_finished(arguments.results, run)]
    for run in left:
        print(f"left out or not finished: {run.name}")
    absent = {name for table in chosen for name in sets_of(table)[1]}
    absent |= {s.name for t in chosen for s in sets_of(t)[0].values()
               if prepare.missing(s, arguments.data)}  # fmt: skip
    print(f"{len(wanted) - len(left)} of {len(wanted)} runs are done; sets that are not at hand: "
          + ", ".join(sorted(absent)))  # fmt: skip


if __name__ == "__main__":
    main()
