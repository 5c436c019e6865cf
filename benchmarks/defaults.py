"""Which default lambda, mu and theta: mean ranks over the tables of odm-cv.

usage: python benchmarks/defaults.py [--also 2^10,0.4,0.2 ...] --tables TABLE.csv...

Each table is the --csv of one search with one kernel on one data set, features scaled to
[0, 1]. Where gamma varies, the middle value counts, which is 1/d in --grid paper. Settings
that occur in every table are compared: within a table they are ranked by accuracy (1 is the
best, equal ones share their mean rank) and the rank is divided by their number. Printed are
the settings with the smallest mean rank, and those named with --also, with the mean accuracy
and how far they stay below the best setting of the table, on average and at worst. Then,
for the default of odmtool and the tables in which gamma varies, the same by gamma.
"""

from __future__ import annotations

import argparse
import csv

import numpy as np
from scipy.stats import rankdata

from odmtool import defaults
from odmtool.cli.options import parse_number


def read_table(path: str) -> tuple[dict[tuple, dict[float, float]], list[float]]:
    """Accuracy by (lambda, mu, theta) and gamma (0 where there is none), and the gammas."""
    settings: dict[tuple, dict[float, float]] = {}
    with open(path, newline="") as stream:
        for row in csv.DictReader(stream):
            key = tuple(float(row[name]) for name in ("lambda", "mu", "theta"))
            settings.setdefault(key, {})[float(row.get("gamma") or 0)] = float(row["accuracy"])
    return settings, sorted(next(iter(settings.values())))


def summarise(accuracy: np.ndarray) -> np.ndarray:
    """Mean rank, mean accuracy, mean and largest loss, from an array (tables, settings)."""
    ranks = np.array([rankdata(-row) / len(row) for row in accuracy])
    loss = accuracy.max(axis=1, keepdims=True) - accuracy
    return np.array([ranks.mean(0), 100 * accuracy.mean(0), 100 * loss.mean(0), 100 * loss.max(0)])


def print_table(first: str, names: list[str], columns: np.ndarray) -> None:
    print(f"| {first} | mean rank | accuracy | mean loss | largest loss |")
    print("| --- " * 5 + "|")
    for name, (rank, accuracy, mean_loss, largest) in zip(names, columns.T, strict=True):
        print(f"| {name} | {rank:.3f} | {accuracy:.2f} | {mean_loss:.2f} | {largest:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--top", type=int, default=6)
    parser.add_argument("--also", nargs="*", default=[], metavar="LAMBDA,MU,THETA")
    parser.add_argument("--tables", nargs="+", required=True, metavar="TABLE.csv")
    arguments = parser.parse_args()
    tables = [read_table(path) for path in arguments.tables]
    keys = sorted(set.intersection(*(set(settings) for settings, _ in tables)))
    accuracy = np.array([
        [settings[key][gammas[len(gammas) // 2]] for key in keys] for settings, gammas in tables
    ])  # fmt: skip
    columns = summarise(accuracy)
    shown = np.argsort(columns[0], kind="stable")[: arguments.top].tolist()
    for text in arguments.also:
        place = keys.index(tuple(map(parse_number, text.split(","))))
        shown += [place] if place not in shown else []
    print(f"{len(tables)} tables, {len(keys)} settings\n")
    names = [f"2^{np.log2(keys[i][0]):g}, {keys[i][1]:g}, {keys[i][2]:g}" for i in shown]
    print_table("lambda, mu, theta", names, columns[:, shown])
    chosen = (defaults.LAMBDA, defaults.MU, defaults.THETA)
    with_gamma = [settings[chosen] for settings, gammas in tables if len(gammas) > 1]
    if not with_gamma:
        return
    print(f"\n{len(with_gamma)} tables in which gamma varies\n")
    columns = summarise(np.array([[row[g] for g in sorted(row)] for row in with_gamma]))
    gammas = sorted(with_gamma[0])
    relative = [f"2^{np.log2(g / gammas[len(gammas) // 2]):g} / d" for g in gammas]
    print_table("gamma", relative, columns)


if __name__ == "__main__":
    main()
