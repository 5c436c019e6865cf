"""The files that the runs read: parts joined, classes chosen, features in [0, 1]."""

from __future__ import annotations

import bz2
import gzip
import lzma
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from declared import DataSet, Run

_OPENERS = {"": open, ".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}


class Shape(NamedTuple):
    """Examples, features, stored numbers, and the mean distance between two examples."""

    m: int
    d: int
    nonzeros: int
    distance: float


def source(name: str, folders: list[Path]) -> Path | None:
    """Where a file is."""
    places = (folder / (name + ending) for folder in folders for ending in _OPENERS)
    return next((place for place in places if place.is_file()), None)


def missing(dataset: DataSet, folders: list[Path]) -> list[str]:
    """The files of a set that are in no folder."""
    return [name for name in dataset.files if source(name, folders) is None]


def prepared(run: Run, folders: list[Path], results: Path) -> Path:
    """The file that the run reads, made on first use."""
    dataset = run.dataset
    path = results / "sets" / (dataset.name + ("" if run.scale else ".as-is"))
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    joined, part = path.with_name(path.name + ".joined"), path.with_name(path.name + ".part")
    with open(joined, "wb") as out:
        for name in dataset.files:
            place = source(name, folders)
            with _OPENERS[place.suffix if place.name != name else ""](place, "rb") as stream:
                out.writelines(_recoded(_of_classes(stream, dataset.classes), dataset))
    if run.scale:
        with open(part, "wb") as out:
            command = [sys.executable, "-m", "odmtool", "scale", "-l", "0", str(joined)]
            subprocess.run(command, check=True, stdout=out)
        joined.unlink()
    else:
        joined.rename(part)
    part.rename(path)
    return path


def _of_classes(lines, classes: list[int] | None):
    """The lines of some classes, of which the first becomes +1 and the second -1."""
    if classes is None:
        yield from lines
        return
    names = dict(zip((str(c).encode() for c in classes), (b"+1", b"-1"), strict=True))
    for line in lines:
        label, blank, rest = line.partition(b" ")
        if label.lstrip(b"+") in names:
            yield names[label.lstrip(b"+")] + blank + rest


def _recoded(lines, dataset: DataSet):
    """The lines with the codes of nominal features, or with a column for each of their levels."""
    if not (dataset.codes or dataset.levels):
        yield from lines
        return
    codes = {float(number): code for number, code in dataset.codes.items()}
    rows = [line.split() for line in lines]
    known = [{int(j): float(x) for j, x in (pair.split(b":") for pair in row[1:])} for row in rows]
    columns = []
    for j in range(1, max(max(row, default=0) for row in known) + 1):
        column = [row.get(j, 0.0) for row in known]
        if j in dataset.levels:
            columns += [[float(x == level) for x in column] for level in sorted(set(column))]
        else:
            columns.append([codes.get(x, x) for x in column])
    for row, values in zip(rows, zip(*columns, strict=True), strict=True):
        pairs = " ".join(f"{j}:{x:.17g}" for j, x in enumerate(values, 1))
        yield row[0] + f" {pairs}\n".encode()


def shape(path: Path) -> Shape:
    """Of a prepared file."""
    from odmtool.core.kernels import mean_distance
    from odmtool.io.svmlight import read_svmlight

    X = read_svmlight(str(path)).X
    return Shape(*X.shape, X.nnz, mean_distance(X))


def gammas(widths: tuple, known: Shape) -> list[float]:
    """gamma of exp(-gamma |x - z|^2) for every width of a table.

    Of the dimension: 2^p / d. Of the distance delta: 1 / (2^p delta)^2.
    """
    of, powers = widths
    if of == "dimension":
        return [2.0**p / known.d for p in powers]
    return [1 / (2.0**p * known.distance) ** 2 for p in powers]
