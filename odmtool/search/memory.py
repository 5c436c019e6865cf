"""What a search takes, and how many processes that allows."""

from __future__ import annotations

import sys
from typing import NamedTuple

from odmtool.core.gram import BYTES
from odmtool.core.kernels import dense_bytes
from odmtool.core.memory import (
    COMPILER,
    COPIES,
    HELPER,
    LIBRARIES,
    NEWTON_NUMBERS,
    resident,
)
from odmtool.places.memory import class_bytes, fold_matrices, is_newton, problem_count
from odmtool.search.calibration import FOLDS
from odmtool.search.search import SearchPlan, chains, is_together
from odmtool.search.together import needed_bytes
from odmtool.search.validation import takes_path
from odmtool.solvers.base import path_bytes
from odmtool.solvers.spaces import matrix_bytes
from odmtool.solvers.table import FOLD_MATRICES, NEWTON_MATRICES


class SearchMemory(NamedTuple):
    """What a search needs; see :func:`plan_memory`.

    Attributes
    ----------
    needed : float
        About the bytes that one process takes, besides the program and the data.
    limit : float
        Bytes for all of them.
    keeps_matrix : bool
        Whether a process keeps the kernel matrix of all rows (True without a kernel).
    jobs : int
        The processes for which there is room, at least one.
    parts : dict of str to float
        What all of it takes at most, by purpose.
    """

    needed: float
    limit: float
    keeps_matrix: bool
    jobs: int
    parts: dict[str, float]


def plan_memory(plan: SearchPlan, jobs: int) -> SearchMemory:
    """How many of ``jobs`` processes the memory allows.

    One process with its matrices is faster than several without, and which solver a fit gets
    must not depend on how many share the work.
    """
    X, limit = plan.data.scaled_by(slice(None)).X, plan.machine.memory_limit()
    named = plan.named()
    # Of settings with the same kernel one stands for all.
    apart, together = {}, 0.0
    for chain in chains(plan):
        machine = plan.machine.copy(**named[chain[0]])
        if is_together(plan, chain):
            copies = COPIES * (_bytes(X) + dense_bytes(X, limit / 4))
            problems = plan.n_folds * problem_count(machine, len(plan.data.class_order()))
            needed = needed_bytes(machine, X.shape[0], len(chain), problems)
            together = max(together, copies + needed)
        else:
            apart[machine.kernel] = machine
    needed, keeps_matrix = min(limit, together), True
    if apart:
        found = [_in_a_process(plan, X, machine) for machine in apart.values()]
        most = max(size for size, _ in found)
        jobs = max(1, min(jobs, int(limit // most)))
        needed, keeps_matrix = max(most, needed), all(keeps for _, keeps in found)
    machines = [*apart.values()] + ([machine] if together else [])
    parts = _parts(plan, X, machines, together, jobs)
    return SearchMemory(needed, limit, keeps_matrix, jobs, parts)


def _bytes(X) -> int:
    return X.data.nbytes + X.indices.nbytes + X.indptr.nbytes


def _in_a_process(plan: SearchPlan, X, machine) -> tuple[float, bool]:
    """What a process needs for the fits of a kernel, and whether it keeps a kernel matrix."""
    limit = machine.memory_limit()
    (m, d), copies, keeps_matrix = X.shape, COPIES * _bytes(X), True
    if machine.kernel == "linear":
        needed = copies + matrix_bytes(m, d) + _path_bytes(plan, machine)
    elif machine.solver == "nystrom":
        needed = copies + matrix_bytes(m, min(machine.settings.landmarks, m))
    else:
        copies += COPIES * dense_bytes(X, limit / 4)
        keeps_matrix = copies + FOLD_MATRICES * BYTES * m**2 <= limit or machine.takes_landmarks(m)
        fold = BYTES * (m - m // plan.n_folds) ** 2
        # Without room for Newton rows of the matrix are kept, as many as there is room for.
        sizes = (FOLD_MATRICES * BYTES * m**2, NEWTON_MATRICES * fold, 0)
        needed = copies + next(size for size in sizes if copies + size <= limit or size == 0)
    return needed + class_bytes(machine, m, d, len(plan.data.class_order())), keeps_matrix


def _path_bytes(plan: SearchPlan, machine) -> int:
    """For the products of the rows of a fold that the path of a linear machine takes."""
    m = len(plan.fold) - len(plan.fold) // plan.n_folds
    is_binary = len(plan.data.class_order()) <= 2
    is_used = machine.kernel == "linear" and is_binary and takes_path(machine, m, None)
    return path_bytes(m) if is_used else 0


def _parts(
    plan: SearchPlan, X, machines: list, together: float, jobs: int
) -> dict[str, float]:
    """Bytes by purpose: of this process, and of those beside it."""
    m, k, program = X.shape[0], len(plan.data.class_order()), resident()
    fits, folds = 0.0, FOLDS if plan.probability else 1
    for machine in machines:
        alone = machine.copy(memory=machine.memory_limit() / jobs)
        taken = sum(fold_matrices(alone, X, k, folds).values()) + class_bytes(machine, *X.shape, k)
        taken += _path_bytes(plan, machine)
        fits = max(fits, taken + BYTES * NEWTON_NUMBERS * m)
    is_compiled = not all(is_newton(machine, X, k) for machine in machines)
    libraries = LIBRARIES + COMPILER * is_compiled
    found = {"program and data": program}
    if (together or jobs == 1) and "numba" not in sys.modules:
        found["libraries"] = libraries
    if jobs > 1:
        found[f"{jobs} processes"] = jobs * (program + LIBRARIES + libraries) + HELPER
    # Landmarks have the memory to themselves; see search().
    return found | {"fits": max(jobs * fits, together)}
