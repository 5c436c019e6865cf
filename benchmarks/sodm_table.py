"""Tables 2 and 3 of the SODM paper: accuracy, seconds and gap per level and way to cut the data.

usage: python benchmarks/sodm_table.py [--jobs 2] [--partitions 8] [--branch 2] [--linear]
                                      FILE[:TEST]...

RBF at gamma 4/d, or linear, lambda 2^10, mu .6, theta .2, tolerance 1e-3, features scaled to
[0, 1] by the range of the training file. Without a test file a fifth of the rows, drawn with
seed 0, are the test rows. One line per level:

    ODM     coordinate descent on the whole problem, and what --solver auto does
    SODM    stratified parts, merged with rescaled duals
    Ca-ODM  random parts, only examples with nonzero duals kept      (Cascade SVM)
    DiP-ODM a share of every cluster of kernel k-means, the same     (DiP-SVM)
    DC-ODM  clusters of kernel k-means as parts                      (DC-SVM)
    DSVRG   linear only: stochastic gradients, one part after another (SODM's for this), and
            svrg, its rival on the whole problem

"seconds" is the time to the model of that level, partition included, from the start;
"certified" adds the passes that compute the gap of the whole problem after each level. "x" is
the seconds of the faster of the two rivals over "certified" of a run that stops there (one
pass only). As in odm-train, --jobs are BLAS threads for the rivals, and threads that solve
parts, with one BLAS thread in each, for the others: so each machine has a process of its own.
Read it on an idle machine: the load average is printed with every line.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
from scipy.sparse import csr_matrix, diags, vstack

from odmtool import solvers
from odmtool.core import kernels, losses
from odmtool.core.columns import with_width
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.core.memory import default_memory
from odmtool.io.svmlight import read_svmlight
from odmtool.rows.executor import local_executor
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.large import dsvrg, sodm
from odmtool.solvers.settings import Settings

LAMBDA, MU, THETA = 2.0**10, 0.6, 0.2
STRATEGIES = {
    "SODM": {"partition_by": "stratified"},
    "Ca-ODM": {"partition_by": "random", "cascade": True},
    "DiP-ODM": {"partition_by": "cluster-strata", "cascade": True},
    "DC-ODM": {"partition_by": "cluster"},
}


def data(path: str, rows: int | None):
    """Training and test rows scaled to [0, 1], and their labels as +1 and -1."""
    path, _, test_path = path.partition(":")
    train = read_svmlight(path)
    X, labels, positive = train.X, train.labels, train.labels[0]
    generator = np.random.default_rng(0)
    if test_path:
        test = read_svmlight(test_path)
        T, test_labels = with_width(test.X, X.shape[1]), test.labels
    else:
        order = generator.permutation(X.shape[0])
        cut = X.shape[0] // 5
        T, test_labels = X[order[:cut]], labels[order[:cut]]
        X, labels = X[order[cut:]], labels[order[cut:]]
    if rows is not None and rows < X.shape[0]:
        chosen = generator.choice(X.shape[0], rows, replace=False)
        X, labels = X[chosen], labels[chosen]
    low = np.asarray(X.min(axis=0).todense()).ravel()
    high = np.asarray(X.max(axis=0).todense()).ravel()
    scale = 1 / np.where(high > low, high - low, 1)
    if np.any(low != 0):
        both = (vstack([X, T]).toarray() - low) * scale
        X, T = both[: X.shape[0]], both[X.shape[0] :]
    else:
        X, T = csr_matrix(X @ diags(scale)), csr_matrix(T @ diags(scale))
    y, test_y = (np.where(part == positive, 1.0, -1.0) for part in (labels, test_labels))
    return X, y, T, test_y


class Task:
    """One file: its problem and the accuracy of dual variables."""

    def __init__(self, path: str, rows: int | None, memory: float, is_linear: bool = False):
        self.name = os.path.basename(path.partition(":")[0])
        self._X, self._y, self._T, self._test_y = data(path, rows)
        self.m, self.d = self._X.shape
        self._kernel = None if is_linear else Kernel("rbf", 4 / self.d)
        self._memory = memory

    def problem(self) -> Problem:
        """The problem, nothing of it computed yet."""
        loss = losses.odm(LAMBDA, MU, THETA, self.m)
        if self._kernel is None:
            return Problem(self._X, None, self._y, np.ones(self.m), loss)
        gram = Gram(self._kernel, self._X, self._memory)
        return Problem(None, gram, self._y, np.ones(self.m), loss)

    def accuracy(self, eta: np.ndarray) -> float:
        """Percent of the test rows."""
        support, right = np.flatnonzero(eta), 0
        if self._kernel is None:
            return self.accuracy_of_weights(self._X.T @ (eta * self._y))
        coef = (eta * self._y)[support]
        for start in range(0, len(self._test_y), 1000):
            part = slice(start, start + 1000)
            f = kernels.block(self._kernel, self._T[part], self._X[support]) @ coef
            right += np.sum(np.where(f > 0, 1, -1) == self._test_y[part])
        return 100 * right / len(self._test_y)

    def accuracy_of_weights(self, w: np.ndarray) -> float:
        """Percent of the test rows, linear."""
        return 100 * np.mean(np.where(self._T @ w > 0, 1, -1) == self._test_y)

    def line(self, *cells) -> None:
        load = f"{os.getloadavg()[0]:.1f}"
        print("| " + " | ".join(map(str, (self.name, self.m, *cells, load))) + " |", flush=True)


def measure(task: Task, scheme: Settings, jobs: int):
    """Levels, and the seconds until each was solved, without certificates."""
    levels, started = [], time.perf_counter()
    sodm.solve(
        task.problem(), Stop(1e-3), scheme, executor=local_executor(jobs), report=levels.append
    )
    total = time.perf_counter() - started
    arranging = total - sum(level.solving + level.certifying for level in levels)
    solved = arranging + np.cumsum([level.solving for level in levels])
    return levels, solved, total


def rival(path: str, name: str, arguments) -> float:
    """The seconds of coordinate descent, or of what --solver auto does, on the whole."""
    warm_up()
    task = Task(path, arguments.rows, arguments.memory, arguments.linear)
    problem, started = task.problem(), time.perf_counter()
    solution = solvers.solve(problem, solver=name)
    seconds = time.perf_counter() - started
    # The duals of a stochastic solver only prove its gap.
    is_linear = solution.w is not None
    right = task.accuracy_of_weights(solution.w) if is_linear else task.accuracy(solution.eta)
    shown = f"{seconds:.1f}"
    task.line(f"ODM ({name})", "", f"{right:.2f}", f"{solution.gap:.1e}", shown, shown, "")
    return seconds


def strategy(path: str, name: str, fastest: float, arguments) -> None:
    """Lines of one way to cut and merge; ``fastest`` are the seconds of the faster rival."""
    warm_up()
    task = Task(path, arguments.rows, arguments.memory, arguments.linear)
    if name == "DSVRG":
        return by_turns(task, arguments)
    scheme = Settings(
        partitions=arguments.partitions, branch=arguments.branch,
        stop_level=arguments.stop_level, **STRATEGIES[name],
    )  # fmt: skip
    levels, solved, total = measure(task, scheme, arguments.jobs)
    for level, seconds in zip(levels, solved, strict=True):
        certified = total if level is levels[-1] else seconds + level.certifying
        task.line(
            name, level.parts, f"{task.accuracy(level.eta):.2f}", f"{level.gap:.1e}",
            f"{seconds:.1f}", f"{certified:.1f}", f"{fastest / certified:.1f}" if fastest else "",
        )  # fmt: skip


def by_turns(task: Task, arguments) -> None:
    """The line of dsvrg, which has no levels."""
    problem, scheme = task.problem(), Settings(partitions=arguments.partitions)
    executor, started = local_executor(arguments.jobs), time.perf_counter()
    solution = dsvrg.solve(problem, Stop(1e-3, 100), scheme, executor=executor)
    seconds = f"{time.perf_counter() - started:.1f}"
    accuracy = f"{task.accuracy_of_weights(solution.w):.2f}"
    task.line("DSVRG", "", accuracy, f"{solution.gap:.1e}", seconds, seconds, "")


def alone(function, *arguments, blas_threads: int):
    """The result of a function in a new process."""
    for library in ("OPENBLAS", "MKL", "OMP"):
        os.environ[f"{library}_NUM_THREADS"] = str(blas_threads)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def run(path: str, arguments) -> None:
    rivals = () if arguments.no_rivals else ("dcd", "auto")
    seconds = [
        alone(rival, path, name, arguments, blas_threads=arguments.jobs) for name in rivals
    ]
    if arguments.linear and "DSVRG" in arguments.only:
        alone(rival, path, "svrg", arguments, blas_threads=1)
    for name in [*STRATEGIES, *(["DSVRG"] if arguments.linear else [])]:
        if name in arguments.only:
            fastest = min(seconds, default=0.0)
            alone(strategy, path, name, fastest, arguments, blas_threads=1)


def warm_up() -> None:
    """Load or compile what both sides use, for dense and for nearly empty rows."""
    dense = np.random.default_rng(0).random((300, 3))
    for X in (dense, np.where(dense < 0.9, 0, dense)):
        y = np.where(X[:, 0] > 0.5, 1.0, -1.0)
        gram = Gram(Kernel("rbf", 1.0), X)
        problem = Problem(None, gram, y, np.ones(300), losses.odm(LAMBDA, MU, THETA, 300))
        for tolerance in (1e-3, 1e-8):
            sodm.solve(problem, Stop(tolerance), Settings(partitions=4))
            sodm.solve(problem, Stop(tolerance), Settings(partitions=4, stop_level=1))
        solvers.solve(problem, solver="dcd")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--branch", type=int, default=8)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--memory", type=float, default=default_memory())
    parser.add_argument("--no-rivals", action="store_true")
    parser.add_argument("--only", nargs="+", default=[*STRATEGIES, "DSVRG"])
    parser.add_argument("--linear", action="store_true")
    parser.add_argument("--stop-level", type=int, default=0)
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    print("| file | m | machine | parts | accuracy | gap | seconds | certified | x | load |")
    print("| --- " * 10 + "|")
    for path in arguments.files:
        run(path, arguments)


if __name__ == "__main__":
    main()
