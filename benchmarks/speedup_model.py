"""The speed-up of sodm that its tasks allow, for any number of workers (docs/large-data.md).

    python benchmarks/speedup_model.py EXAMPLES FEATURES [PARTITIONS [BRANCH [EPOCHS]]]

Rates are those of one core as measured with benchmarks/cluster.py; EPOCHS are those of a level.
"""

from __future__ import annotations

import sys
from math import ceil

VALUES = 2.3e8  # kernel values computed per second, single precision, 123 features
VISITS = 1.0e9  # kernel values read per second by coordinate descent
NETWORK = 1.1e8  # bytes per second, 1 Gbit/s
OVERHEAD = 0.005  # seconds per task, all of them through one scheduler


def levels(m: int, d: int, partitions: int, branch: int, epochs: int, workers: int) -> list[float]:
    """Seconds of every level, the first (most parts) first."""
    seconds, parts, is_first = [], partitions, True
    while True:
        n = m / parts
        task = n * n / 2 / VALUES + epochs * n * n / VISITS
        # Rows come to a level from the other parts of a group, and for the gap from everywhere.
        moved = 0.0 if is_first or workers == 1 else 4 * m * d * (1 - 1 / branch)
        moved += 0.0 if workers == 1 else 4 * m * d * (1 - 1 / workers)
        moved += 4 * 8 * m  # duals and decision values, there and back
        seconds.append(
            ceil(parts / workers) * task + m * m / 2 / VALUES / workers
            + moved / NETWORK + (parts + 4 * workers) * OVERHEAD
        )  # fmt: skip
        if parts == 1:
            return seconds
        parts, is_first = max(1, ceil(parts / branch)), False


def main() -> None:
    m, d, partitions, branch, epochs = (
        [int(float(word)) for word in sys.argv[1:]] + [16, 4, 7][len(sys.argv) - 3 :]
    )[:5]
    alone = levels(m, d, partitions, branch, epochs, 1)
    print("workers   all levels   without the last   without the last two")
    for workers in (1, 2, 4, 8, 16, 32):
        here = levels(m, d, partitions, branch, epochs, workers)
        cells = []
        for left_out in (0, 1, 2):
            a, b = (sum(v[: len(v) - left_out]) for v in (alone, here))
            cells.append(f"{b:9.1f} s {a / b:5.1f}x")
        print(f"{workers:7}", *cells)


if __name__ == "__main__":
    main()
