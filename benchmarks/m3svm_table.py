"""M3SVM and ISM3 on the data of the M3SVM paper: five-fold cross validation, ten runs.

usage: python benchmarks/m3svm_table.py [--runs 10 | --one-split] [--solver adam]
                                        [--loss softmax] FILE...

FILE is one of the paper's sets as svmlight text, recognised by its name: glass, vehicle,
isolet, orl. The settings of each are those of the authors' script: power, Adam's rate and number
of steps, whether features are standardised, and lambda. Their script minimises

    1/(n k) softmax loss + lambda (1/N) sum over ordered pairs |w_a - w_b|^p

with n training examples of N, which is n k times smaller than ours at lambda' = 2 k lambda n/N.
It standardises by training and test part together; here by the training part only. It
trains ISM3 with softmax; the losses ``hinge`` (M3SVM) and ``pairwise`` (ISM3 of eq. 32)
are run with the same lambda'. Numbers that are said to be the paper's are in docs/solvers.md.
``--one-split`` is the way to those: the first 20 % of one shuffled order are the test part
(scikit-learn's ``train_test_split(..., test_size=0.2, random_state=42)``), and the features are
standardised by both parts together, as the script does it.

Prints the mean of the accuracy in percent, its standard deviation over the runs (each the
mean of five folds) and over all folds, and the seconds of a fit.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from typing import NamedTuple

import numpy as np

from odmtool.io.svmlight import read_svmlight
from odmtool.search.validation import folds
from odmtool.solvers.base import Stop
from odmtool.solvers.m3svm import adam as m3svm_adam
from odmtool.solvers.m3svm import newton as m3svm
from odmtool.solvers.m3svm.objective import LOSSES, M3SVMParameters
from odmtool.solvers.multi import MultiProblem
from odmtool.solvers.table import SOLVERS

FOLDS = 5
TOLERANCE = 1e-3


class Setting(NamedTuple):
    """What the authors' script uses for a set."""

    rate: float
    lambda_: float
    power: float
    is_scaled: bool


SETTINGS = {
    "isolet": Setting(0.001, 0.001, 4, False),
    "orl": Setting(0.01, 0.01, 6, True),
    "vehicle": Setting(0.05, 0.0001, 4, True),
    "glass": Setting(0.01, 0.0001, 4, True),
}


def setting_of(path: str) -> tuple[str, Setting]:
    name = next((n for n in SETTINGS if n in os.path.basename(path).lower()), None)
    if name is None:
        raise SystemExit(f"{path}: not one of {', '.join(SETTINGS)}")
    return name, SETTINGS[name]


def standardised(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both parts by the means and deviations of the training part."""
    mean, deviation = train.mean(axis=0), train.std(axis=0)
    deviation[deviation == 0] = 1.0
    return (train - mean) / deviation, (test - mean) / deviation


def fit(X, target, k, loss, setting: Setting, solver: str, share: float, seed: int):
    """W and b of one training part; ``share`` is n / N."""
    parameters = M3SVMParameters(loss, 2 * k * share * setting.lambda_, setting.power)
    problem = MultiProblem(X, None, target, k, np.ones(len(target)), parameters)
    if solver == "adam":
        stop = Stop(TOLERANCE, SOLVERS["adam"].ways[0].limit)
        return m3svm_adam.solve(problem, stop, seed=seed, rate=setting.rate)
    return m3svm.solve(problem, Stop(TOLERANCE, 300))


def accuracies(X, target, k, loss, setting, solver, runs):
    """Percent correct, shape (runs, FOLDS), mean seconds of a fit, fits not converged."""
    found, seconds, failures = np.empty((runs, FOLDS)), 0.0, 0
    for run in range(runs):
        fold = folds(target, FOLDS, seed=run)
        for number in range(FOLDS):
            rest, left_out = fold != number, fold == number
            train, test = X[rest], X[left_out]
            if setting.is_scaled:
                train, test = standardised(train, test)
            started = time.perf_counter()
            model = fit(train, target[rest], k, loss, setting, solver, rest.mean(), run)
            seconds += time.perf_counter() - started
            failures += not model.converged
            predicted = (test @ model.W + model.bias).argmax(axis=1)
            found[run, number] = 100 * np.mean(predicted == target[left_out])
    return found, seconds / found.size, failures


def one_split_accuracy(X, target, k, loss, setting, solver) -> float:
    """Percent correct on the split of ``--one-split``."""
    from sklearn.model_selection import train_test_split

    if setting.is_scaled:
        X, _ = standardised(X, X)
    train, test, known, left_out = train_test_split(X, target, test_size=0.2, random_state=42)
    model = fit(train, known, k, loss, setting, solver, len(known) / len(target), 0)
    return 100 * np.mean((test @ model.W + model.bias).argmax(axis=1) == left_out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--one-split", action="store_true")
    parser.add_argument("--solver", choices=["newton", "adam"], default="newton")
    parser.add_argument("--loss", choices=LOSSES, action="append")
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    if not arguments.one_split:
        print("| set | loss | solver | accuracy | of runs | of folds | s per fit | unfinished |")
        print("| --- " * 8 + "|")
    for path in arguments.files:
        name, setting = setting_of(path)
        data = read_svmlight(path)
        classes, target = np.unique(data.labels, return_inverse=True)
        for loss in arguments.loss or LOSSES:
            if arguments.one_split:
                right = one_split_accuracy(
                    data.X.toarray(), target, len(classes), loss, setting, arguments.solver
                )
                print(f"{name}, {loss}: {right:.2f}", flush=True)
                continue
            found, seconds, failures = accuracies(
                data.X.toarray(), target, len(classes), loss, setting, arguments.solver,
                arguments.runs,
            )  # fmt: skip
            print(
                f"| {name} | {loss} | {arguments.solver} | {found.mean():.2f} "
                f"| {found.mean(axis=1).std():.2f} | {found.std():.2f} | {seconds:.2f} "
                f"| {failures} of {found.size} |", flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
