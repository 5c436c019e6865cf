"""How true the probabilities of -b 1 are, beside those of LIBSVM.

usage: python benchmarks/probabilities.py FILE...

Every file (two classes) is dealt to 5 folds; each fold is predicted with -b 1 by models of the
other four. Prints the log loss of a constant (the share of the first class), and for odm-train
(linear and RBF, -B 1, else defaults) and svm-train (defaults) the log loss and, in parentheses,
the calibration error: the mean distance between predicted and observed share in ten bins of
equally many examples. Last, training time with -b 1 over that without, RBF.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time

import numpy as np

from odmtool.io.svmlight import read_svmlight
from odmtool.search.validation import folds

TRAINERS = {
    "linear": ["odm-train", "-q", "-B", "1"],
    "rbf": ["odm-train", "-q", "-B", "1", "-t", "rbf"],
    "svm-train": ["svm-train", "-q"],
}
FOLDS = 5


def timed(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - started


def probabilities(folder: str, name: str, first: int) -> tuple[np.ndarray, float]:
    """P(first) of the rows of folder/test, and the seconds of training."""
    train, test, model, out = (f"{folder}/{n}" for n in ("train", "test", "model", "out"))
    seconds = timed([*TRAINERS[name], "-b", "1", train, model])
    timed(["svm-predict" if name == "svm-train" else "odm-predict", "-b", "1", test, model, out])
    with open(out) as stream:
        _, *labels = stream.readline().split()
        table = np.loadtxt(stream, ndmin=2)
    return table[:, 1 + labels.index(str(first))], seconds


def log_loss(p, is_first) -> float:
    # Six digits may read 0 or 1.
    p = np.clip(p, 1e-7, 1 - 1e-7)
    return float(-np.mean(np.log(np.where(is_first, p, 1 - p))))


def calibration_error(p, is_first) -> float:
    bins = np.array_split(np.argsort(p, kind="stable"), 10)
    return sum(len(b) / len(p) * abs(p[b].mean() - is_first[b].mean()) for b in bins)


def measure(path: str, folder: str) -> list[str]:
    labels = read_svmlight(path).labels
    with open(path) as stream:
        lines = stream.readlines()
    assert len(lines) == len(labels), "a file without blank and comment lines is needed"
    fold, is_first = folds(labels, FOLDS, 0), labels == labels[0]
    p = {name: np.empty(len(labels)) for name in ("constant", *TRAINERS)}
    with_b = without_b = 0.0
    for k in range(FOLDS):
        for name, chosen in (("train", fold != k), ("test", fold == k)):
            with open(f"{folder}/{name}", "w") as stream:
                stream.writelines(lines[i] for i in np.flatnonzero(chosen))
        p["constant"][fold == k] = is_first[fold != k].mean()
        for name in TRAINERS:
            p[name][fold == k], seconds = probabilities(folder, name, labels[0])
            with_b += seconds * (name == "rbf")
        without_b += timed([*TRAINERS["rbf"], f"{folder}/train", f"{folder}/model"])
    cells = [os.path.basename(path), str(len(labels)), f"{log_loss(p['constant'], is_first):.3f}"]
    for name in TRAINERS:
        error = calibration_error(p[name], is_first)
        cells.append(f"{log_loss(p[name], is_first):.3f} ({error:.3f})")
    return [*cells, f"{with_b / without_b:.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    print("| file | m | constant | linear ODM | RBF ODM | svm-train | time ratio |")
    print("| --- " * 7 + "|")
    for path in parser.parse_args().files:
        with tempfile.TemporaryDirectory() as folder:
            print(f"| {' | '.join(measure(path, folder))} |", flush=True)


if __name__ == "__main__":
    main()
