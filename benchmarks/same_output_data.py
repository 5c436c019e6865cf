"""The data sets of same_output.py: small, seeded, made with the standard library only."""

from __future__ import annotations

import bz2
import gzip
import lzma
import math
import os
import random
from pathlib import Path

_TIME = 1_700_000_000  # of every file: a cache that is kept records it

LIBSVM_MODEL = """\
svm_type c_svc
kernel_type rbf
gamma 0.25
nr_class 2
total_sv 3
rho 0.125
label 1 -1
nr_sv 2 1
SV
0.5 1:0.5 2:-0.25
1 1:1.5 3:0.75
-1.5 2:-1 6:0.5
"""
LIBLINEAR_MODEL = """\
solver_type MCSVM_CS
nr_class 3
label 1 2 3
nr_feature 2
bias 1
w
0.5 -0.25 0
-1 0.75 0.125
0.25 0.5 -0.5
"""
BAD = {
    "index": b"1 1:1\n-1 3:1 2:1\n", "label": b"1 1:1\nabc 1:1\n", "value": b"1 1:1\n-1 1:x\n",
    "nan": b"1 1:1\n-1 1:nan\n", "nul": b"1 1:1\n-1 1:\x001\n",
    "bom": b"\xef\xbb\xbf1 1:1\n-1 1:2\n", "utf16": "1 1:1\n-1 1:2\n".encode("utf-16"),
    "twice": b"1 1:1 1:2\n-1 1:1\n", "colon": b"1 1:1\n-1 1:\n", "empty": b"",
    "comments": b"# nothing\n\n", "zst": b"\x28\xb5\x2f\xfd rest",
    "gz": gzip.compress(b"1 1:1\n-1 1:2\n" * 9, mtime=0)[:-9],
}  # fmt: skip

Row = tuple[int, dict[int, float]]


def clouds(seed: str, m: int, d: int, classes: list[int], spread: float = 1.0) -> list[Row]:
    """m rows of normally distributed features about a centre for each class, in turn."""
    centres = random.Random(f"{d} {classes}")
    about = {label: [centres.gauss(0, 0.8) for _ in range(d)] for label in classes}
    chance = random.Random(seed)
    labels = [classes[i % len(classes)] for i in range(m)]
    return [(label, {j + 1: chance.gauss(about[label][j], spread) for j in range(d)})
            for label in labels]  # fmt: skip


def sparse(m: int, d: int, entries: int) -> list[Row]:
    """Rows of two classes with few features each; the lower half of them speaks for class 1."""
    chance, rows = random.Random("sparse"), []
    for i in range(m):
        label = 1 if i % 3 else -1
        picked = {int(d * chance.random() ** (1.3 if label == 1 else 0.8)) + 1
                  for _ in range(entries)}  # fmt: skip
        rows.append((label, {j: chance.random() for j in sorted(picked)}))
    return rows


def text(rows: list[Row], first: int = 1) -> str:
    """The rows in svmlight's format; features count from ``first``."""
    return "".join(
        f"{label} {' '.join(f'{j + first - 1}:{value:.4f}' for j, value in features.items())}\n"
        for label, features in rows
    )


def kernel_text(rows: list[Row], basis: list[Row]) -> str:
    """Rows of kernel values exp(-|x - z|^2 / 8) with serial numbers, for -t precomputed."""
    def value(x: dict, z: dict) -> float:
        return math.exp(-sum((x[j] - z[j]) ** 2 for j in x) / 8)

    return "".join(
        f"{label} 0:{i} {' '.join(f'{k}:{value(x, z):.6f}' for k, (_, z) in enumerate(basis, 1))}\n"
        for i, (label, x) in enumerate(rows, 1)
    )


def unscaled(rows: list[Row]) -> list[Row]:
    """The rows with features of very different sizes, one of them constant."""
    return [(label, {j: value * 10.0 ** (j - 2) if j > 1 else 3.0 for j, value in x.items()})
            for label, x in rows]  # fmt: skip


def texts() -> dict[str, str]:
    """Name and content of the files that are plain text."""
    binary, three = clouds("binary", 160, 6, [1, -1]), clouds("three", 150, 5, [1, 2, 3])
    chance = random.Random("weights")
    first, *others = text(binary).splitlines(keepends=True)
    return {
        "binary": text(binary), "test": text(clouds("test", 50, 6, [-1, 1])),
        "three": text(three), "ten": text(clouds("ten", 300, 8, list(range(10)), 0.7)),
        "medium": text(clouds("medium", 1600, 4, [1, -1])),
        "large": text(clouds("large", 16000, 4, [1, -1])), "wide": text(sparse(120, 3000, 25)),
        "zero": text(binary, first=0), "one": text([row for row in binary if row[0] == 1]),
        "tiny": text(three[:7]), "unscaled": text(unscaled(binary)),
        "kernel": kernel_text(binary[:60], binary[:60]),
        "kernel.test": kernel_text(binary[60:80], binary[:60]),
        "kernel3": kernel_text(three[:45], three[:45]),
        "weights": "".join(f"{chance.choice((0, 0.5, 1, 1, 2.25))}\n" for _ in binary),
        "short": "1\n2\n", "zeros": "0\n" * len(binary),
        "commented": f"# a comment\n\n{first.rstrip()} # another\n{''.join(others)}",
        "windows": text(binary).replace("\n", "\r\n"),
        "part-0": text(clouds("a", 200, 6, [1, -1])), "part-1": text(clouds("b", 160, 6, [1, -1])),
        "libsvm.model": LIBSVM_MODEL, "liblinear.model": LIBLINEAR_MODEL,
        "regression.model": LIBSVM_MODEL.replace("c_svc", "epsilon_svr"),
    }  # fmt: skip


def write_data(folder: Path) -> None:
    """Write all data sets into a new folder."""
    files = {name: content.encode() for name, content in texts().items()}
    files |= {f"bad.{name}": content for name, content in BAD.items()}
    files |= {
        "binary.gz": gzip.compress(files["binary"], mtime=0),
        "binary.bz2": bz2.compress(files["binary"]), "binary.xz": lzma.compress(files["binary"]),
    }  # fmt: skip
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
        os.utime(folder / name, (_TIME, _TIME))
