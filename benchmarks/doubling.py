"""Kernel machines on 2,000, 4,000, ... examples: CPU seconds, memory, and the slope of both.

usage: python benchmarks/doubling.py [--most 1000000] [--passes 64000] [--jobs 1] [--csv FILE]
                                     [--picture docs/figures/doubling.png]

odm-train with rbf on data of benchmarks/susy_like.py, gap <= 1e-3, whole processes. With a small
gamma landmarks and a few drawn rows certify the model, so that seconds grow as the examples do;
with a large one passes over the kernel matrix are needed, which grow with their square. The
sizes of the latter end at --passes. CPU seconds are those of all threads; the peak of memory is
the system's count. The slope is that of log seconds over log examples, from 16,000 examples on:
below, starting the program is most of it. --csv FILE keeps the numbers, and what stands there is
not run again. A picture needs matplotlib.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_FIRST, _FROM, _TOLERANCE = 2000, 16_000, 1e-3
_SERIES = {
    "landmarks are enough (gamma 0.1)": ["-g", "0.1", "-l", "2^10"],
    "whole passes are needed (gamma 8)": ["-g", "8", "-l", "2^10"],
}
_FIELDS = ("series", "examples", "seconds", "megabytes", "gap", "solver", "vectors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=1_000_000)
    parser.add_argument("--passes", type=int, default=64_000)
    parser.add_argument("--jobs", default="1")
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    rows = []
    if options.csv and options.csv.exists():
        with options.csv.open(newline="") as stream:
            rows = list(csv.DictReader(stream))
    known = {(row["series"], int(row["examples"])) for row in rows}
    # This process stays small: the system counts what it has as the command's.
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "data"
        for m in sizes(options.most):
            some = list(_SERIES)[: 1 + (m <= options.passes)]
            todo = [name for name in some if (name, m) not in known]
            if todo:
                write(m, file)
            for name in todo:
                rows.append({"series": name, "examples": m} | measured(name, file, options.jobs))
                print(*rows[-1].values(), sep=" | ", flush=True)
                if options.csv:
                    save(rows, options.csv)
    rows.sort(key=lambda row: int(row["examples"]))
    for name in _SERIES:
        own = [row for row in rows if row["series"] == name]
        print(f"{name}: slope of seconds {slope(own):.2f}")
    if options.picture:
        draw(rows, options.picture)


def sizes(most: int) -> list[int]:
    """2,000 doubled until ``most``, which is the last one."""
    found = [_FIRST]
    while 2 * found[-1] < most:
        found.append(2 * found[-1])
    return [*found, most] if most > _FIRST else found


def write(m: int, file: Path) -> None:
    maker = Path(__file__).with_name("susy_like.py")
    with file.open("wb") as stream:
        subprocess.run([sys.executable, maker, "--rows", str(m)], stdout=stream, check=True)


def measured(series: str, file: Path, jobs: str) -> dict:
    """What a training takes, and comes to."""
    code, summary = "from odmtool.cli import train_main; train_main()", file.with_name("summary")
    words = ["-q", "-t", "rbf", *_SERIES[series], "-j", jobs, "-e", str(_TOLERANCE)]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words, "--json", summary, file, file.with_name("model")]
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"odm-train ended with {process.returncode}")
    found = json.loads(summary.read_text())
    return {
        "seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "megabytes": usage.ru_maxrss // 1024,
        "gap": f"{found['gap']:.1e}", "solver": found["solver"],
        "vectors": found["support_vectors"],
    }  # fmt: skip


def save(rows: list[dict], file: Path) -> None:
    with file.open("w", newline="") as stream:
        table = csv.DictWriter(stream, _FIELDS)
        table.writeheader()
        table.writerows(rows)


def slope(rows: list[dict]) -> float:
    """By least squares; nan with fewer than two sizes."""
    import numpy as np

    large = [row for row in rows if int(row["examples"]) >= _FROM]
    if len(large) < 2:
        return float("nan")
    m, seconds = (np.log([float(row[key]) for row in large]) for key in ("examples", "seconds"))
    return float(np.polyfit(m, seconds, 1)[0])


def draw(rows: list[dict], file: Path) -> None:
    """Seconds and megabytes against examples."""
    from matplotlib.figure import Figure

    from odmtool.measures.pictures import COLOURS, render, style

    with style():
        figure = Figure(figsize=(7, 3), layout="constrained")
        left, right = figure.subplots(1, 2)
        for axes, key, label in (left, "seconds", "CPU seconds"), (right, "megabytes", "peak, MB"):
            for name, colour in zip(_SERIES, COLOURS, strict=False):
                own = [row for row in rows if row["series"] == name]
                text = f"{name}: slope {slope(own):.2f}" if key == "seconds" else None
                axes.loglog(
                    [int(row["examples"]) for row in own], [float(row[key]) for row in own],
                    "o-", color=colour, label=text,
                )  # fmt: skip
            axes.set(xlabel="examples", ylabel=label)
            axes.grid(alpha=0.3)
        figure.legend(loc="outside upper center", ncols=2)
        file.write_bytes(render(figure, file.suffix[1:]))


if __name__ == "__main__":
    main()
