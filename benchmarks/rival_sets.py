"""What benchmarks/rivals.py measures: sections of docs/speed.md, their sets and commands.

Columns are commands. {file} becomes the data file, {m} its number of examples, {gamma} the width
that stands beside the set. Peers follow ours; the first of them is what the bars are drawn by.
"""

from __future__ import annotations

import lzma
import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np


class Section(NamedTuple):
    """A table of docs/speed.md. Sets: their names, and gamma if there is a kernel."""

    title: str
    text: str
    sets: dict[str, str]
    ours: dict[str, str]
    peers: dict[str, str]


def _odm(options: str) -> str:
    return f"odm-train -q {options} {{file}} /dev/null"


def _liblinear(options: str) -> str:
    return f"liblinear-train -q {options} {{file}} /dev/null"


def _svm(options: str) -> str:
    return f"svm-train -q -m 1000 -g {{gamma}} {options} {{file}} /dev/null"


TEXT, COVTYPE, COVTYPE_PART = "text, generated", "covtype.binary", "covtype.binary, 30,000 rows"
LINEAR = ("heart_scale", "a9a", "w8a", "ijcnn1", "reuters-lasvm", "basehock", TEXT, COVTYPE)
# What is not in [-1, 1] is scaled to [0, 1], but for text, whose zeros are to remain.
SCALED = {COVTYPE, "shuttle", "pendigits", "mnist", "svmguide1", "magic04", "cod-rna", "satimage"}
CLASSES = ("usps", "letter.scale", "connect-4", "sector.scale", "shuttle", "pendigits", "mnist")

SECTIONS = (
    Section(
        "Linear, two classes",
        "odm-train at its defaults and at lambda = m, which is LIBLINEAR's C = 1, beside\n"
        "LIBLINEAR's L2-loss SVM in the primal (-s 2) and in the dual (-s 1, its default), and\n"
        "scikit-learn, which reads the file and fits its LinearSVC.",
        dict.fromkeys(LINEAR, ""),
        {
            "odm-train": _odm(""),
            "-l m": _odm("-l {m}"),
            "-j 2": _odm("-j 2"),
            "-l m -j 2": _odm("-l {m} -j 2"),
        },
        {
            "LIBLINEAR -s 2": _liblinear("-s 2"),
            "LIBLINEAR -s 1": _liblinear("-s 1"),
            "scikit-learn": "scikit-learn {file}",
        },
    ),
    Section(
        "Linear, by lambda",
        "odm-train to a relative gap of 1e-4 with lambda from 1 to 2^20, with one thread: how far\n"
        "the choice of lambda moves the time.",
        dict.fromkeys(name for name in LINEAR if name not in ("heart_scale", TEXT)),
        {f"2^{k}": _odm(f"-e 1e-4 -l 2^{k}") for k in (0, 4, 8, 12, 16, 20)},
        {},
    ),
    Section(
        "Linear, more classes",
        "mcODM, which is odm-train's default here, beside LIBLINEAR's machine of Crammer and\n"
        "Singer (-s 4) and its L2-loss SVM of each class against the rest (-s 2).",
        dict.fromkeys(CLASSES, ""),
        {"odm-train": _odm(""), "-j 2": _odm("-j 2")},
        {"LIBLINEAR -s 4": _liblinear("-s 4"), "LIBLINEAR -s 2": _liblinear("-s 2")},
    ),
    Section(
        "RBF kernel",
        "odm-train -t rbf at two lambdas, both with -j 2 and gaps of 1e-3, beside svm-train with\n"
        "1 GB of cache at two C. More than two classes: one against one, as svm-train has it.",
        {
            "svmguide1": "1/4", "phishing": "1/68", "magic04": ".4", "a9a": "1/123",
            "ijcnn1": "1/22", "w8a": "1/300", "cod-rna": "1/8", COVTYPE_PART: "1",
            "satimage": "1", "letter.scale": "1", "shuttle": "1",
        },  # fmt: skip
        {f"-l 2^{k}": _odm(f"-t rbf -g {{gamma}} -j 2 -l 2^{k}") for k in (10, 14)},
        {f"svm-train -c {c}": _svm(f"-c {c}") for c in (1, 8)},
    ),
)  # fmt: skip


def write_text(path: Path, m: int = 60000, d: int = 20000, each: int = 55) -> None:
    """A file like text: few words are frequent, rows have length 1, two classes differ by words."""
    rng = np.random.default_rng(0)
    frequent = np.cumsum(1 / np.arange(10, d + 10))
    w = rng.standard_normal(d)
    with open(path, "w") as stream:
        for _ in range(m):
            words = np.unique(np.searchsorted(frequent, rng.random(each * 9 // 8) * frequent[-1]))
            values = rng.random(len(words)) + 0.2
            values /= np.sqrt(values @ values)
            label = 1 if values @ w[words] + 0.2 * rng.standard_normal() > 0 else -1
            pairs = zip((words + 1).tolist(), values.tolist(), strict=True)
            stream.write(f"{label} " + " ".join(f"{j}:{x:.6g}" for j, x in pairs) + "\n")


def data_file(name: str, data: str, folder: Path) -> Path | None:
    """A set as the commands read it; made in the folder when it is first asked for."""
    scaled = folder / f"{name}, scaled"
    for made in (folder / name, scaled):
        if made.exists():
            return made
    if name == TEXT:
        write_text(folder / name)
    elif name == COVTYPE_PART:
        if (whole := data_file(COVTYPE, data, folder)) is None:
            return None
        lines = whole.read_bytes().splitlines(keepends=True)
        rows = np.linspace(0, len(lines) - 1, 30000).astype(int)
        (folder / name).write_bytes(b"".join(lines[row] for row in rows))
    elif not _unpack(Path(data), folder / name):
        return None
    elif name in SCALED:
        subprocess.run(["odm-scale", "-q", "-l", "0", "-o", scaled, folder / name], check=True)
        (folder / name).unlink()
        return scaled
    return folder / name


def _unpack(data: Path, target: Path) -> bool:
    """Copy NAME or NAME.xz of the data folder, if it has one of them."""
    packed, plain = data / f"{target.name}.xz", data / target.name
    source = packed if packed.exists() else plain
    if source.exists():
        with (lzma.open if source == packed else open)(source, "rb") as stream:
            target.write_bytes(stream.read())
    return source.exists()
