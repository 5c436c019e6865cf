"""Is a model the same however it is trained? Every machine and solver, in several ways.

usage: python benchmarks/determinism.py [--write FILE] [--only TEXT]

Each command is run on generated data, then again, with threads (-j 2), with the data from a pipe
of small pieces (so that the reader's chunks are others), with every zero written out (so that rows
are dense where they were sparse), from a cache on the disk, when it is made and when it is found,
and with no compiled code (NUMBA_CACHE_DIR is empty). Of the model everything is compared but the
facts behind its rows (the command, which differs): "same" are the same bytes; else the largest
difference of a decision value over the examples, relative to the largest of them. Ends with 1 if
one is above 1e-9.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

_MOST = 1e-9
# Name: examples, features, nonzeros of a row, classes.
_SHAPES = {
    "two": (900, 12, 8, 2), "wide": (300, 2000, 30, 2), "four": (600, 16, 12, 4),
}  # fmt: skip
_COMMANDS = """
two
two -b 1
two --solver dcd
two --solver svrg
two -s ldm
two -s l1svm -t rbf -g .1
two -t rbf -g .1
two -t rbf -g .1 --solver landmarks
two -t rbf -g .1 --solver sodm
wide
four
four -t rbf -g .1
four -s m3svm
four -s odm --multiclass ovo -t rbf -g .1
"""
_WAYS = ("again", "-j 2", "pieces", "zeros", "cache", "no compiled code")
# Compiling takes half a minute.
_COMPILED_AGAIN = ("two --solver dcd", "four")


def generate(path: Path, shape: str) -> None:
    """Write the data of a shape, also with their zeros."""
    import numpy as np

    m, d, each, classes = _SHAPES[shape]
    rng = np.random.default_rng(d)
    weights = rng.standard_normal((d, classes))
    sparse, dense = [], []
    for _ in range(m):
        columns = np.sort(rng.choice(d, each, replace=False))
        values = rng.standard_normal(each).round(4)
        label = int((values @ weights[columns] + rng.standard_normal(classes)).argmax()) + 1
        cells = dict(zip(columns.tolist(), values.tolist(), strict=True))
        sparse.append(f"{label} " + " ".join(f"{j + 1}:{v}" for j, v in cells.items()))
        dense.append(f"{label} " + " ".join(f"{j + 1}:{cells.get(j, 0)}" for j in range(d)))
    path.write_text("\n".join(sparse) + "\n")
    path.with_suffix(".zeros").write_text("\n".join(dense) + "\n")


class Trained:
    """Models of one command, in a folder with the data of its shape."""

    def __init__(self, folder: Path, line: str):
        self._folder, (self._shape, *self._options) = folder, line.split()
        self._rows, self._is_cold = folder / self._shape, line in _COMPILED_AGAIN
        self._first = self._model("first", str(self._rows))

    def difference(self, way: str) -> str:
        """How far the model that is made in this way is from the first."""
        rows, options, pieces, environment = str(self._rows), [], None, {}
        if way == "-j 2":
            options = ["-j", "2"]
        elif way == "pieces":
            rows, pieces = "-", self._rows.read_bytes()
        elif way == "zeros":
            rows += ".zeros"
        elif way == "no compiled code":
            if not self._is_cold:
                return ""
            environment = {"NUMBA_CACHE_DIR": str(self._folder / "compiled")}
        elif way == "cache":
            return self._from_disk()
        return self._compared(self._first, self._model(way, rows, options, pieces, environment))

    def _from_disk(self) -> str:
        """The first run makes the cache, the second finds it."""
        options = ["--cache", str(self._folder), "--keep-cache"]
        try:
            models = [self._model("cache", str(self._rows), options) for _ in range(2)]
        except subprocess.CalledProcessError:
            return ""  # not every machine reads from the disk
        return self._compared(*models)

    def _model(self, name: str, rows, options=(), pieces=None, environment=()) -> bytes:
        path = self._folder / name.replace(" ", "-")
        command = [sys.executable, "-m", "odmtool", "train", "-q", *self._options, *options, rows,
                   str(path)]  # fmt: skip
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env=os.environ | dict(environment),
        ) as process:  # fmt: skip
            for start in range(0, len(pieces or b""), 1000):
                process.stdin.write(pieces[start : start + 1000])
                process.stdin.flush()
            said = process.communicate()[1]
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command, stderr=said)
        return path.read_bytes()

    def _compared(self, one: bytes, other: bytes) -> str:
        """"same", or the largest relative difference of a decision value."""
        if _without_facts(one) == _without_facts(other):
            return "same"
        import numpy as np

        from odmtool import load_model, load_svmlight

        X, _ = load_svmlight(self._rows)
        values = []
        for content in (one, other):
            path = self._folder / "compared"
            path.write_bytes(content)
            values.append(np.asarray(load_model(path).decision_function(X)))
        return f"{np.abs(values[0] - values[1]).max() / np.abs(values[0]).max():.1e}"


def _without_facts(model: bytes) -> bytes:
    """The part of a model file that predicts."""
    return model.partition(b"\nodmtool-model ")[0]


def main() -> int:
    """Print the table; 1 if a difference is too large."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, help="also write the page")
    parser.add_argument("--only", default="", help="lines of the table that contain this")
    options = parser.parse_args()
    table = [["data", "command", *_WAYS]]
    with tempfile.TemporaryDirectory() as folder:
        for shape in _SHAPES:
            generate(Path(folder, shape), shape)
        for line in filter(None, _COMMANDS.strip().splitlines()):
            if options.only in line:
                shape, _, words = line.partition(" ")
                trained = Trained(Path(folder), line)
                found = [trained.difference(way) for way in _WAYS]
                table.append([shape, f"`odm-train {words.strip()}`".replace(" `", "`"), *found])
                print(" | ".join(table[-1]), flush=True)
    numbers = [float(cell) for row in table[1:] for cell in row[2:] if cell not in ("same", "")]
    compared = sum(bool(cell) for row in table[1:] for cell in row[2:])
    summary = f"{compared - len(numbers)} of {compared} models are the same byte for byte"
    summary += f"; the others differ by at most {max(numbers):.1e}." if numbers else "."
    print(summary)
    if options.write:
        options.write.write_text(page(table, summary))
    return int(max(numbers, default=0.0) > _MOST)


def page(table: list[list[str]], summary: str) -> str:
    """docs/determinism.md."""
    shapes = "; ".join(
        f"{name}: {m} examples, {d} features, {each} of them nonzero, {k} classes"
        for name, (m, d, each, k) in _SHAPES.items()
    )
    head, *rows = ("| " + " | ".join(row) + " |" for row in table)
    lines = [head, "|" + " --- |" * len(table[0]), *rows]
    return _PAGE.format(
        shapes=shapes, table="\n".join(lines), summary=summary, machine=platform.machine(),
        count=os.cpu_count(), python=platform.python_version(), numpy=version("numpy"),
        most=_MOST,
    )  # fmt: skip


_PAGE = """\
# Same command, same bytes

Written by `make determinism` (`benchmarks/determinism.py`, which says how). Each command is run
once, and then in other ways:

* again;
* with two threads;
* with the data from a pipe, in pieces of 1000 bytes, so that the reader's chunks are others;
* with every zero written out, so that rows are kept dense where they were sparse;
* from a cache on the disk (`--cache`), when it is made and when it is found;
* without compiled code, which is compiled again.

"same" are models of the same bytes, but for the command and the seconds in them. A number is the
largest difference of a decision value, relative to the largest of these; it may be {most:g}.

Data: {shapes}. {machine}, {count} cores; Python {python}, NumPy {numpy}.

{table}

{summary} An empty cell is a way that the solver does not have, or, of compiled code, was not
tried. Other processors and other builds of NumPy's BLAS add in another order: there the models
agree as far as their gaps allow, and not to the last bit. So do those of many examples with a
kernel (20,000 and more, about) for another `--memory`. Its default is 20 % of all memory, or 10, 5
..., at most 25 % of what is free: it changes when that is halved or doubled. To have the same bytes
in any case, name it.
"""


if __name__ == "__main__":
    sys.exit(main())
