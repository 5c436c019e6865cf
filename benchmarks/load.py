"""What the commands bear: many rows, many processes at once, a long journal.

usage: python benchmarks/load.py [--rows 10000000] [--commands 100] [--lines 1000000]

Rows are predicted through a pipe, by a linear model; the peak of memory must not grow with
them. The commands train the same model at once, on a cold cache of compiled code; all must
write the same bytes. The journal is that of a search that is done: the same search begins
anew, with every fit known.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from odmtool.search.journal import _seal

BLOCK_ROWS = 100_000
FOLDS = 100


def command(name: str, *words, **options) -> subprocess.Popen:
    """A command as a process of its own."""
    code = f"from odmtool.cli import {name}_main; {name}_main()"
    return subprocess.Popen([sys.executable, "-c", code, *map(str, words)], **options)


def ended(process: subprocess.Popen) -> tuple[float, float]:
    """Peak megabytes and processor seconds of a process that must end well."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if status != 0:
        raise SystemExit(f"failed with {process.returncode}: {process.args}")
    return usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime


def told(what: str, started: float, peak: float, busy: float) -> None:
    """Print a line of the table in docs/security.md."""
    seconds = time.perf_counter() - started
    print(f"| {what} | {peak:.0f} MB | {seconds:.0f} s | {busy:.0f} s |", flush=True)


def rows(count: int, seed: int = 0) -> bytes:
    """Two classes in ten features."""
    draw, lines = random.Random(seed), []
    for _ in range(count):
        label = draw.choice((-1, 1))
        pairs = " ".join(f"{j}:{draw.gauss(label * (j % 3), 1):.4g}" for j in range(1, 11))
        lines.append(f"{label} {pairs}\n")
    return "".join(lines).encode()


def predict(folder: Path, count: int) -> None:
    """The rows of a generator, through a pipe, to a file and to a pipe."""
    block = rows(BLOCK_ROWS)
    (folder / "rows").write_bytes(block[: len(block) // 100].rpartition(b"\n")[0] + b"\n")
    ended(command("train", "-q", folder / "rows", folder / "m"))
    for output in (folder / "out", "-"):
        for part in (count // 10, count):
            started = time.perf_counter()
            process = command("predict", "-", folder / "m", output, stdin=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
            for _ in range(part // BLOCK_ROWS):
                process.stdin.write(block)
            process.stdin.close()
            where = "stdout" if output == "-" else "a file"
            told(f"{part:,} rows predicted to {where}", started, *ended(process))


def many(folder: Path, count: int) -> None:
    """So many trainings at once, compiling what they need, as nothing is compiled yet."""
    (folder / "cold").mkdir(mode=0o700)
    (folder / "few").write_bytes(rows(200))
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cold")}
    started = time.perf_counter()
    running = [
        command("train", "-q", "-s", "l1svm", "--solver", "dcd", "-l", "1", folder / "few",
                folder / f"m{i}", env=environment)
        for i in range(count)
    ]  # fmt: skip
    peaks, busy = zip(*map(ended, running), strict=True)
    models = {_without_command(folder / f"m{i}") for i in range(count)}
    if len(models) > 1:
        raise SystemExit(f"{len(models)} different models")
    told(f"{count} trainings at once, each", started, max(peaks), sum(busy))


def _without_command(model: Path) -> str:
    lines = model.read_bytes().splitlines()
    kept = [line for line in lines if not line.startswith((b"command ", b"end sha256 "))]
    return hashlib.sha256(b"\n".join(kept)).hexdigest()


def resume(folder: Path, lines: int) -> None:
    """A search whose journal has every fit."""
    (folder / "few").write_bytes(rows(400))
    search = ["-l", f"1:{lines // FOLDS}:1", "-v", FOLDS, folder / "few", "--journal", folder / "j"]
    process = command("cv", "-q", *search, stdout=subprocess.DEVNULL)
    while not (folder / "j").exists() or (folder / "j").read_bytes().count(b"\n") < 2:
        time.sleep(0.1)
    process.kill()
    process.wait()
    head = (folder / "j").read_bytes().split(b"\n")[0]
    fits = ([s, k, k % 4, k % 4 / 4, 1e-4 / (1 + k), True, 0.01]
            for s in range(lines // FOLDS) for k in range(FOLDS))  # fmt: skip
    with open(folder / "j", "wb") as stream:
        stream.write(head + b"\n")
        stream.writelines(_seal(json.dumps(fit).encode()) for fit in fits)
    started = time.perf_counter()
    last = command("cv", "-q", *search, stdout=subprocess.DEVNULL)
    told(f"a journal of {lines:,} lines", started, *ended(last))


def main() -> None:
    """All three, unless they are given as 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--commands", type=int, default=100)
    parser.add_argument("--lines", type=int, default=1_000_000)
    options = parser.parse_args()
    print("| what | peak | wall clock | processor |\n| --- | --- | --- | --- |", flush=True)
    parts = (predict, options.rows), (many, options.commands), (resume, options.lines)
    for part, count in parts:
        if count:
            with tempfile.TemporaryDirectory() as folder:
                part(Path(folder), count)


if __name__ == "__main__":
    main()
