"""Speed-up from one to two threads and from one to two Dask workers (docs/large-data.md).

    OPENBLAS_NUM_THREADS=1 python benchmarks/cluster.py rbf|linear FILE [EXAMPLES [STOP_LEVEL]]

trains sodm with an rbf kernel, or dsvrg without, on EXAMPLES of a file whose features are scaled
to [0, 1], and prints the shorter of two times for every place where tasks run, and for every
level of sodm its parts and the seconds of solving and of the gap. The objective must be the
same everywhere. Needs the extra dask.
"""

from __future__ import annotations

import os
import sys
import time

import numpy as np

from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.io.svmlight import read_svmlight
from odmtool.rows import cluster
from odmtool.rows.executor import Serial, Threads
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.large import dsvrg, sodm
from odmtool.solvers.settings import Settings


def problem(file: str, m: int | None, is_linear: bool) -> Problem:
    data = read_svmlight(file)
    chosen = np.random.default_rng(0).permutation(len(data.labels))[:m]
    X, y = data.X[chosen], np.where(data.labels[chosen] > 0, 1.0, -1.0)
    loss, weight = losses.odm(2.0**10, 0.6, 0.2, len(y)), np.ones(len(y))
    if is_linear:
        return Problem(X, None, y, weight, loss)
    return Problem(None, Gram(Kernel("rbf", 4 / X.shape[1]), X, 4e9), y, weight, loss)


def measure(name: str, p: Problem, stop_level: int, executor) -> None:
    seconds, levels = [], []
    for _ in range(3):  # the first compiles
        levels.clear()
        began = time.perf_counter()
        if p.gram is None:
            found = dsvrg.solve(p, Stop(1e-3, 100), Settings(partitions=8), executor=executor)
        else:
            scheme = Settings(partitions=16, branch=4, stop_level=stop_level)
            found = sodm.solve(
                p, Stop(1e-3, 1000), scheme, executor=executor, report=levels.append
            )
        seconds.append(time.perf_counter() - began)
    print(f"{name:16} {min(seconds[1:]):8.2f} s   objective {found.primal:.9g}", end="   ")
    steps = [f"{v.parts}: {v.solving:.2f}+{v.certifying:.2f}" for v in levels]
    print(f"{found.iterations} iterations", *steps, flush=True)


def main() -> None:
    import distributed

    kind, file, *rest = sys.argv[1:]
    p = problem(file, int(rest[0]) if rest else None, kind == "linear")
    stop_level = int(rest[1]) if len(rest) > 1 else 0
    print(f"{file} {p.size} {kind}; load {os.getloadavg()[0]:.1f}", flush=True)
    measure("serial", p, stop_level, Serial())
    measure("2 threads", p, stop_level, Threads(2))
    for workers in (1, 2):
        with distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, host="127.0.0.1",
            worker_dashboard_address=None, silence_logs="CRITICAL",
        ) as running:  # fmt: skip
            executor = cluster.Dask(running.scheduler_address)
            measure(f"{workers} Dask workers", p, stop_level, executor)
            executor.close()
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
