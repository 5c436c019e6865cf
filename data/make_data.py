"""Write the sets of this folder from those that scikit-learn ships.

Run as ``make data`` or ``python data/make_data.py [FOLDER]``; running it again
writes the same bytes. Each set becomes ``NAME.train`` and ``NAME.test``:

* a row is ``label index:value ...``, indices from 1, zeros left out, values in
  the shortest form that reads back to the same double, nothing rescaled;
* one third of every class (rounded) is the test part. Which third is decided by
  a hash of set name, seed and row number, which no library version can change;
* rows keep their original order within each part.

``iris.csv`` is the same set as one table: a header, four columns of numbers, and the species.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

SEED = 0

#: set -> its own class numbers 0, 1, ... written as these labels
LABELS = {
    "breast-cancer": {0: "+1", 1: "-1"},
    "iris": {0: "1", 1: "2", 2: "3"},
    "wine": {0: "1", 1: "2", 2: "3"},
    "digits": {digit: str(digit) for digit in range(10)},
}


def load(name: str):
    """The set as scikit-learn ships it: features (m x d float64), classes (m ints)."""
    from sklearn import datasets

    return getattr(datasets, "load_" + name.replace("-", "_"))(return_X_y=True)


def held_out_rows(name: str, classes) -> set[int]:
    """The row numbers of the test part: a third of each class, by hash."""

    def rank(row: int) -> str:
        return hashlib.sha256(f"{name} {SEED} {row}".encode()).hexdigest()

    chosen: set[int] = set()
    for wanted in sorted(set(classes)):
        rows = sorted((row for row, c in enumerate(classes) if c == wanted), key=rank)
        chosen.update(rows[: round(len(rows) / 3)])
    return chosen


def shortest(value: float) -> str:
    """The shortest decimal text of a double; whole numbers without a point."""
    return str(int(value)) if value == int(value) else repr(float(value))


def line(label: str, row) -> str:
    features = (f"{j}:{shortest(v)}" for j, v in enumerate(row, start=1) if v != 0)
    return " ".join([label, *features]) + "\n"


def write(folder: Path) -> None:
    """Write every set's two parts into ``folder``."""
    for name, labels in LABELS.items():
        features, classes = load(name)
        classes = [int(c) for c in classes]
        held_out = held_out_rows(name, classes)
        for part in ("train", "test"):
            lines = [
                line(labels[c], features[row])
                for row, c in enumerate(classes)
                if (row in held_out) == (part == "test")
            ]
            (folder / f"{name}.{part}").write_text("".join(lines), encoding="ascii", newline="\n")
    write_table(folder)


def write_table(folder: Path) -> None:
    """Write ``iris.csv`` into ``folder``."""
    from sklearn.datasets import load_iris

    iris = load_iris()
    names = [name.removesuffix(" (cm)").replace(" ", "_") for name in iris.feature_names]
    lines = [[*names, "species"]]
    for row, species in zip(iris.data, iris.target, strict=True):
        lines.append([*map(shortest, row), str(iris.target_names[species])])
    text = "".join(",".join(cells) + "\n" for cells in lines)
    (folder / "iris.csv").write_text(text, encoding="ascii", newline="\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
