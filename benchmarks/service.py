"""odm-predict as a service: how long an answer takes, and how many there are in a second.

usage: python benchmarks/service.py [--answers 2000] [--rows 1000000] [--write FILE] [FILE]

Of FILE (tests/data/heart_scale) three models are trained: linear, RBF, and RBF with `--scale 0,1`.
Each answers rows through a pipe, one at a time: the next row is sent when the answer has come. The
first answer, which waits for the start of the program, is a number of its own. Then all rows are
sent at once, `cat rows | odm-predict - model - | wc -l`. Everything runs on this machine, so
the times are those of both ends of the pipes.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

MODELS = {
    "linear": [],
    "RBF": ["-t", "rbf"],
    "RBF, `--scale 0,1`": ["-t", "rbf", "--scale", "0,1"],
}
HEADS = ("model", "first answer", "median", "99 %", "slowest", "rows in a second", "processor",
         "peak")  # fmt: skip


class Service(NamedTuple):
    """What was measured: seconds until an answer, rows and seconds of a stream, and megabytes."""

    first: float
    answers: np.ndarray
    rows: int
    seconds: float
    processor: float
    peak: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", default=str(
        Path(__file__).parents[1] / "tests" / "data" / "heart_scale"))
    parser.add_argument("--answers", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--write", metavar="FILE", help="write the table, in Markdown")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder, "rows")
        write_rows(options.file, rows, options.rows)
        lines = [table_row(HEADS), table_row(["---"] * len(HEADS))]
        print(lines[0], flush=True)
        for name, flags in MODELS.items():
            model = str(Path(folder, "model"))
            run("train", "-q", *flags, options.file, model)
            lines.append(described(name, measured(model, options.file, rows, options)))
            print(lines[-1], flush=True)
    lines += ["", f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load "
              f"{os.getloadavg()[0]:.1f}, Python {platform.python_version()}"]  # fmt: skip
    print(lines[-1])
    if options.write:
        Path(options.write).write_text("\n".join(lines) + "\n")


def command(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "odmtool", name, *arguments]


def run(*arguments: str) -> None:
    subprocess.run(command(*arguments), check=True, stderr=subprocess.DEVNULL)


def write_rows(source: str, target: Path, count: int) -> None:
    """The rows of a file, again and again."""
    lines = Path(source).read_bytes().splitlines(keepends=True)
    with target.open("wb") as stream:
        whole = b"".join(lines)
        for _ in range(count // len(lines)):
            stream.write(whole)
        stream.writelines(lines[: count % len(lines)])


def measured(model: str, source: str, rows: Path, options) -> Service:
    first, answers = one_at_a_time(model, source, options.answers)
    return Service(first, answers, options.rows, *all_at_once(model, rows, options.rows))


def one_at_a_time(model: str, source: str, count: int) -> tuple[float, np.ndarray]:
    """Seconds from a row to its answer: the first, and ``count`` others."""
    rows = Path(source).read_bytes().splitlines(keepends=True)
    began = time.perf_counter()
    process = subprocess.Popen(
        command("predict", "-", model, "-"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    answers = []
    for number in range(count + 1):
        if number:
            began = time.perf_counter()
        process.stdin.write(rows[number % len(rows)])
        process.stdin.flush()
        if not process.stdout.readline():
            raise SystemExit("the service has ended")
        answers.append(time.perf_counter() - began)
    process.stdin.close()
    process.wait()
    return answers[0], np.array(answers[1:])


def all_at_once(model: str, rows: Path, count: int) -> tuple[float, float, float]:
    """Seconds, seconds of the processor, and megabytes of ``cat rows | odm-predict | wc``."""
    began = time.perf_counter()
    cat = subprocess.Popen(["cat", str(rows)], stdout=subprocess.PIPE)
    service = subprocess.Popen(command("predict", "-", model, "-"), stdin=cat.stdout,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip
    counter = subprocess.Popen(["wc", "-l"], stdin=service.stdout, stdout=subprocess.PIPE)
    cat.stdout.close()
    service.stdout.close()
    answered = int(counter.communicate()[0])
    _, status, usage = os.wait4(service.pid, 0)
    seconds = time.perf_counter() - began
    cat.wait()
    if status != 0 or answered != count:
        raise SystemExit(f"{answered} answers to {count} rows")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def described(name: str, found: Service) -> str:
    """A row of the table."""
    middle, late = np.quantile(found.answers, [0.5, 0.99])
    times = [f"{1000 * value:.2g} ms" for value in (middle, late, found.answers.max())]
    return table_row([name, f"{found.first:.2f} s", *times, f"{found.rows / found.seconds:,.0f}",
                      f"{found.processor:.1f} s", f"{found.peak:.0f} MB"])  # fmt: skip


def table_row(cells) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
