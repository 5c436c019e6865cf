"""The papers' figures again: margins, times, numbers of classes, speed-up; docs/figures/.

usage: python benchmarks/papers/figures.py [--only NAME] [--out docs/figures] DATA_DIRECTORY...

margins   cumulative margins of the training data (KDD 2014, Figure 2), linear machines, each with
          the best setting of TKDE's grid by five folds; one picture for each set
times     CPU seconds of a training against LIBLINEAR's SVM (TKDE Figure 3), linear, C = 1
classes   accuracy against the number of classes (TKDE Figure 4): the first classes of pendigits
speedup   seconds of sodm on one worker over those on more, by the model of docs/large-data.md

Needs matplotlib and scikit-learn; takes some minutes. What is not at hand is named and left out.
"""

from __future__ import annotations

import os

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

import argparse  # noqa: E402
import json  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402
from declared import data_sets, tables  # noqa: E402
from prepare import missing, source  # noqa: E402

from odmtool.core.csr import scipy_rows  # noqa: E402
from odmtool.core.scaling import Scaler, ranges_of  # noqa: E402
from odmtool.io.svmlight import read_svmlight, write_svmlight  # noqa: E402
from odmtool.machines import machine_named  # noqa: E402
from odmtool.measures.pictures import COLOURS, render, style  # noqa: E402

ROOT = Path(__file__).parents[2]
OF_MARGINS = ("heart", "australian", "vertebral-column")
_MOST_ROWS, _RUNS = 8000, 3
_CLASSES, _ROWS_OF_CLASS = range(2, 11, 2), 100
OF_CLASSES = {
    "mcODM": "-s mcodm", "mcSVM": "-s mcsvm", "ovrSVM": "-s l1svm",
    "ovoSVM": "-s l1svm --multiclass ovo",
}  # fmt: skip


def odm(*arguments: str) -> None:
    """Run a command."""
    command = [sys.executable, "-m", "odmtool", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def empty():
    """A figure with one pair of axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.4, 3.1), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(linewidth=0.4, alpha=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def margins(folders: list[Path], out: Path) -> None:
    """One picture for each set, by ``odmtool margins``."""
    machines = next(t for t in tables() if t.name == "tkde2019-2").machines
    chosen = [name for name in machines if name in ("SVM", "KMOMD", "ODM^L", "ODM")]
    for name in OF_MARGINS:
        data = source(name, folders)
        if data is None:
            print(f"margins: {name} is not at hand")
            continue
        with tempfile.TemporaryDirectory() as folder:
            models = [str(Path(folder, f"{number}")) for number in range(len(chosen))]
            for machine, model in zip(chosen, models, strict=True):
                odm("cv", *machines[machine].split(), "-t", "linear", "-v", "5", "--scale", "0,1",
                    "-o", model, str(data))  # fmt: skip
            odm("margins", "--plot", str(out / f"margins-{name}.png"), "--panel", "normalised",
                "--names", ",".join(chosen), "--plot-title", name, str(data), *models)  # fmt: skip


def cpu_seconds(train) -> float:
    """The least of some runs."""
    spent = []
    for _ in range(_RUNS):
        began = time.process_time()
        train()
        spent.append(time.process_time() - began)
    return max(min(spent), 1e-5)


def seconds_of(X, y) -> dict[str, float]:
    """CPU seconds of LIBLINEAR's SVM and of ours."""
    from sklearn.svm import LinearSVC

    svm = LinearSVC(C=1.0, loss="hinge", dual=True, fit_intercept=False, tol=0.1, max_iter=1000)
    ours = {
        machine: machine_named(name)(cost=1.0)
        for machine, name in (("ODM", "odm"), ("ODM^L", "ldm"), ("SVM, ours", "l1svm"))
    }
    return {"SVM": cpu_seconds(lambda: svm.fit(X, y))} | {
        name: cpu_seconds(lambda machine=machine: machine.copy().fit(X, y))
        for name, machine in ours.items()
    }


@style()
def times(folders: list[Path], out: Path) -> None:
    """A point for each set and machine, on logarithmic axes."""
    found = []
    for dataset in data_sets():
        if dataset.group != "two" or dataset.classes or missing(dataset, folders):
            continue
        data = read_svmlight(str(source(dataset.files[0], folders)))
        if data.X.shape[0] > _MOST_ROWS:
            continue
        X = scipy_rows(Scaler(ranges_of(data.rows, 0.0, 1.0)).scale(data.rows))
        y = np.where(data.labels == data.labels[0], 1, -1)
        if not found:
            seconds_of(X, y)  # loads and compiles
        found.append(seconds_of(X, y))
        print(dataset.name, X.shape, {k: f"{v:.4f}" for k, v in found[-1].items()}, flush=True)
    figure, axes = empty()
    x = [seconds["SVM"] for seconds in found]
    for colour, marker, name in zip(COLOURS, "os^", list(found[0])[1:], strict=False):
        axes.loglog(x, [seconds[name] for seconds in found], marker, color=colour, label=name)
    ends = [min(x), max(x)]
    axes.loglog(ends, ends, color="0.6", linewidth=0.7)
    axes.minorticks_off()
    axes.set_xlabel("CPU seconds, SVM (LIBLINEAR)")
    axes.set_ylabel("CPU seconds")
    axes.legend(frameon=False)
    (out / "times.png").write_bytes(render(figure, "png"))


@style()
def classes(folders: list[Path], out: Path) -> None:
    """A line for each machine; means and deviations of some splits in halves."""
    place = source("pendigits", folders)
    if place is None:
        print("classes: pendigits is not at hand")
        return
    data, lines = read_svmlight(str(place)), {name: [] for name in OF_CLASSES}
    with tempfile.TemporaryDirectory() as folder:
        part, table = str(Path(folder, "part")), Path(folder, "table")
        for k in _CLASSES:
            first = np.unique(data.labels)[:k]
            rows = np.concatenate(
                [np.flatnonzero(data.labels == label)[:_ROWS_OF_CLASS] for label in first]
            )
            with open(part, "w") as stream:
                write_svmlight(stream, data.X[rows], data.labels[rows])
            for name, options in OF_CLASSES.items():
                odm("cv", *options.split(), "-l", "2^2:14:4", "--scale", "0,1", "-v", "3",
                    "--repeat", "5", "--test-size", "0.5", "--json", str(table), part)  # fmt: skip
                scores = [100 * split["test"] for split in json.loads(table.read_text())]
                lines[name].append((k, np.mean(scores), np.std(scores)))
                print(name, *(f"{v:.4g}" for v in lines[name][-1]), flush=True)
    figure, axes = empty()
    for colour, marker, (name, points) in zip(COLOURS, "os^D", lines.items(), strict=False):
        axes.errorbar(*np.array(points).T, fmt=f"{marker}-", color=colour, label=name, capsize=2)
    axes.set_xlabel("classes")
    axes.set_ylabel("test accuracy (%)")
    axes.legend(frameon=False)
    (out / "classes.png").write_bytes(render(figure, "png"))


@style()
def speedup(_folders: list[Path], out: Path) -> None:
    """250,000 x 18 in 64 parts, as in docs/large-data.md."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from speedup_model import levels

    workers, shape = (1, 2, 4, 8, 16, 32), (250_000, 18, 64, 4, 7)
    seconds = {count: levels(*shape, count) for count in workers}
    figure, axes = empty()
    for left_out, marker, colour in zip(range(3), "os^", COLOURS, strict=False):
        sums = [sum(found[: len(found) - left_out]) for found in seconds.values()]
        label = f"--stop-level {left_out}" if left_out else "all levels"
        axes.loglog(workers, sums[0] / np.array(sums), f"{marker}-", color=colour, label=label)
    axes.loglog(workers, workers, color="0.6", linewidth=0.7)
    axes.set_xticks(workers, map(str, workers))
    axes.set_yticks(workers, map(str, workers))
    axes.minorticks_off()
    axes.set_xlabel("workers")
    axes.set_ylabel("speed-up (model)")
    axes.legend(frameon=False)
    (out / "speedup.png").write_bytes(render(figure, "png"))


FIGURES = {one.__name__: one for one in (margins, times, classes, speedup)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=FIGURES)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "figures")
    parser.add_argument("data", type=Path, nargs="+")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.only or FIGURES:
        FIGURES[name](arguments.data, arguments.out)


if __name__ == "__main__":
    main()
