"""odm-train and LIBLINEAR's train as whole processes, side by side.

usage: python benchmarks/rivals.py [--runs 5] FILE...

Both read the same binary data file and write a model. LIBLINEAR solves the L2-loss SVM in
the dual (-s 1) or the primal (-s 2) at its default tolerance, odm-train the linear ODM at
lambda 2^4 and 2^10. The problems differ, so this compares what a user waits for, not
solvers. Prints median seconds, peak memory, and the median of the ratios pair by pair.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import time


def run(command: list[str]) -> tuple[float, float]:
    """Wall seconds and peak megabytes of a command."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"failed: {' '.join(command)}")
    return time.perf_counter() - started, usage.ru_maxrss / 1024


def median(values) -> float:
    return sorted(values)[len(values) // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    rival = shutil.which("liblinear-train") or shutil.which("train")
    if rival is None:
        raise SystemExit("LIBLINEAR's train was not found")
    print("| file | lambda | odm-train | MB | -s 1 | MB | -s 2 | ratio to -s 1 | to -s 2 |")
    print("| --- " * 9 + "|")
    for path in arguments.files:
        for lambda_ in ("2^4", "2^10"):
            ours = ["odm-train", "-q", "-l", lambda_, path, os.devnull]
            commands = [ours, *([rival, "-q", "-s", s, path, os.devnull] for s in ("1", "2"))]
            rounds = [[run(c) for c in commands] for _ in range(arguments.runs + 1)][1:]
            seconds = [median([r[k][0] for r in rounds]) for k in range(3)]
            memory = [median([r[k][1] for r in rounds]) for k in range(2)]
            ratios = [median([r[0][0] / r[k][0] for r in rounds]) for k in (1, 2)]
            print(
                f"| {os.path.basename(path)} | {lambda_} | {seconds[0]:.2f} s | {memory[0]:.0f} "
                f"| {seconds[1]:.2f} s | {memory[1]:.0f} | {seconds[2]:.2f} s "
                f"| {ratios[0]:.2f} | {ratios[1]:.2f} |", flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
