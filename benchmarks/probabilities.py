"""How true the probabilities of -b 1 are, beside those of LIBSVM and scikit-learn, all tuned.

usage: python benchmarks/probabilities.py [--repeats 1] FILE...

Every file (two classes) is dealt to 5 folds, as often as --repeats says; each fold is predicted
by models of the other four, whose parameters are the best of 5 folds within these four, by
accuracy: odm-cv for ODM (linear, and RBF), svm-train -v 5 for the SVM (RBF), as grid.py does.
Features are scaled to [0, 1] by the ranges of the training part. Probabilities:

    linear, rbf    odm-train -b 1 (linear: -B 1)
    svm-train      svm-train -b 1
    calibrated     scikit-learn, CalibratedClassifierCV (sigmoid, 5 folds) of the same SVM;
                   alone: ensemble=False, one sigmoid for the machine of all examples

Prints, per file, the log loss of the share of the first class, then that of each, with the
standard error of the mean over the folds, and last the Brier scores in the same order.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tempfile

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from odmtool.io.svmlight import read_svmlight
from odmtool.search.validation import folds

FOLDS = 5
GAMMAS = "2^-7:1:2"
ODM_GRID = ["-l", "2^0:16:4", "-m", "0.2,0.8", "-p", "0.1,0.4"]
SVM_COSTS, SVM_GAMMAS = 2.0 ** np.arange(-3, 12, 2), 2.0 ** np.arange(-7, 2, 2)
NAMES = ("linear", "rbf", "svm-train", "calibrated", "alone")


def said(*command: str) -> str:
    """What a command prints on stdout."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def predicted(program: str, first: int) -> np.ndarray:
    """P(first) of the rows of ``test``, by ``model``."""
    said(program, "-b", "1", "test", "model", "out")
    with open("out") as stream:
        _, *labels = stream.readline().split()
        table = np.loadtxt(stream, ndmin=2)
    return table[:, 1 + labels.index(str(first))]


def of_odm(options: list[str], first: int) -> np.ndarray:
    printed = said("odm-cv", "-q", *options, *ODM_GRID, "train")
    best = re.search(r"^Best: (.*)$", printed, re.MULTILINE)[1].split()
    said(*best[:1], "-q", "-b", "1", *best[1:], "model")
    return predicted("odm-predict", first)


def best_svm() -> tuple[float, float]:
    """C and gamma; ties go to the smaller C, as in grid.py, then to the smaller gamma."""

    def accuracy(cost: float, gamma: float) -> float:
        options = "-q", "-v", "5", "-c", str(cost), "-g", str(gamma)
        return float(re.search(r"= ([\d.]+)%", said("svm-train", *options, "train"))[1])

    settings = [(cost, gamma) for cost in SVM_COSTS for gamma in SVM_GAMMAS]
    return max(settings, key=lambda one: accuracy(*one))


def of_svms(first: int) -> list[np.ndarray]:
    """P(first) by svm-train -b 1, and by scikit-learn's two ways to calibrate the same SVM."""
    cost, gamma = best_svm()
    said("svm-train", "-q", "-b", "1", "-c", str(cost), "-g", str(gamma), "train", "model")
    found = [predicted("svm-predict", first)]
    train, test = read_svmlight("train"), read_svmlight("test")
    width = max(train.X.shape[1], test.X.shape[1])
    for part in (train.X, test.X):
        part.resize(part.shape[0], width)
    for ensemble in (True, False):
        # Without shuffling its folds would be runs of rows, which files like sonar have in order.
        parts = StratifiedKFold(5, shuffle=True, random_state=0)
        svm = CalibratedClassifierCV(SVC(C=cost, gamma=gamma), cv=parts, ensemble=ensemble)
        svm.fit(train.X, train.labels)
        column = list(svm.classes_).index(first)
        found.append(svm.predict_proba(test.X)[:, column])
    return found


def losses(p: np.ndarray, is_first: np.ndarray) -> tuple[float, float]:
    """Log loss and Brier score. Six digits may read 0 or 1."""
    p = np.clip(p, 1e-7, 1 - 1e-7)
    return -np.mean(np.log(np.where(is_first, p, 1 - p))), np.mean((p - is_first) ** 2)


def measure(path: str, repeats: int) -> list[str]:
    labels = read_svmlight(path).labels
    with open(path) as stream:
        lines = stream.readlines()
    assert len(lines) == len(labels), "a file without blank and comment lines is needed"
    is_first, first, results = labels == labels[0], labels[0], []
    for seed in range(repeats):
        fold = folds(labels, FOLDS, seed)
        for k in range(FOLDS):
            for name, chosen in (("train", fold != k), ("test", fold == k)):
                with open("raw", "w") as stream:
                    stream.writelines(lines[i] for i in np.flatnonzero(chosen))
                how = ["-l", "0", "-u", "1", "-s"] if name == "train" else ["-r"]
                with open(name, "w") as stream:
                    stream.write(said("odm-scale", *how, "ranges", "raw"))
            constant = np.full((fold == k).sum(), is_first[fold != k].mean())
            linear = of_odm(["-B", "1"], first)
            rbf = of_odm(["-B", "1", "-t", "rbf", "-g", GAMMAS], first)
            every = [constant, linear, rbf, *of_svms(first)]
            results.append([losses(p, is_first[fold == k]) for p in every])
    found = np.array(results)
    mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(len(found))
    cells = [f"{mean[0, 0]:.3f}"]
    cells += [f"{m:.3f} ± {e:.3f}" for m, e in zip(mean[1:, 0], error[1:, 0], strict=True)]
    brier = " ".join(f"{value:.3f}" for value in mean[1:, 1])
    return [os.path.basename(path), str(len(labels)), *cells, brier]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    print(f"| file | m | constant | {' | '.join(NAMES)} | Brier |")
    print("| --- " * (4 + len(NAMES)) + "|")
    for path in map(os.path.abspath, arguments.files):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            print(f"| {' | '.join(measure(path, arguments.repeats))} |", flush=True)
            os.chdir("/")


if __name__ == "__main__":
    main()
