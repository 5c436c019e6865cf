"""How long do the solvers take, by lambda? The measurements behind ``odmtool.solvers.auto``.

usage: python benchmarks/solvers.py [--kernel rbf] [--rows 5000] [--machine ldm]
                                    [--solvers dcd,svrg] [--lambdas 4,10] FILE...

Features are scaled to [0, 1] by their largest absolute value, gamma is 1/d, mu .4,
theta .2 (ldm: mu1 = mu2 = 1), tolerance 1e-3; --lambdas takes exponents of 2. More than
two classes become the first against the rest.
Prints one line per file and lambda: seconds, iterations and gap of every solver, the
kernel matrix and compilation not counted.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.sparse import csr_matrix, diags

from odmtool import solvers
from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.io.svmlight import read_svmlight
from odmtool.solvers.base import Problem

RUNS = 3


def problems(path: str, kernel: str, rows: int | None, machine: str, lambdas: list[float]):
    """Problems of one file that differ in lambda only."""
    data = read_svmlight(path)
    X, labels = data.X[:rows], data.labels[:rows]
    largest = abs(X).max(axis=0).toarray().ravel()
    X = csr_matrix(X @ diags(1 / np.where(largest > 0, largest, 1)))
    y = np.where(labels == labels[0], 1.0, -1.0)
    m, d = X.shape
    gram = None
    if kernel != "linear":
        gram = Gram(Kernel(kernel, 1 / d, 0.0, 3), X)
        gram.matrix()
    for lambda_ in lambdas:
        loss = losses.odm(lambda_, 0.4, 0.2, m)
        if machine == "ldm":
            loss = losses.ldm(1.0, 1.0, lambda_, m)
        yield lambda_, Problem(X if gram is None else None, gram, y, np.ones(m), loss)


def measure(problem: Problem, solver: str):
    """Median seconds and the last solution."""
    seconds = []
    for _ in range(RUNS):
        started = time.perf_counter()
        solution = solvers.solve(problem, solver=solver)
        seconds.append(time.perf_counter() - started)
    return sorted(seconds)[RUNS // 2], solution


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernel", default="linear")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--machine", choices=["odm", "ldm"], default="odm")
    parser.add_argument("--solvers", default="dcd,newton,auto")
    parser.add_argument("--lambdas", default="0,4,10,16,20")
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    names = arguments.solvers.split(",")
    lambdas = [2.0 ** float(k) for k in arguments.lambdas.split(",")]
    kinds = arguments.kernel, arguments.rows, arguments.machine, lambdas
    print("| file | m | d | lambda | " + " | ".join(names) + " |")
    print("| --- " * (4 + len(names)) + "|")
    for path in arguments.files:
        for lambda_, problem in problems(path, *kinds):
            cells = []
            for solver in names:
                seconds, solution = measure(problem, solver)
                mark = "" if solution.converged else f", gap {solution.gap:.1g}"
                cells.append(f"{seconds:.3f} s, {solution.iterations}{mark}")
            d = problem.X.shape[1] if problem.gram is None else problem.gram.X.shape[1]
            row = [os.path.basename(path), problem.size, d, f"2^{np.log2(lambda_):g}", *cells]
            print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()
