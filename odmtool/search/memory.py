"""What a search takes, and how many processes that allows."""

from __future__ import annotations

import sys
from typing import NamedTuple

from odmtool.core.gram import BYTES
from odmtool.core.kernels import dense_bytes
from odmtool.core.loss_table import SMOOTH
from odmtool.core.memory import COMPILER, COPIES, HELPER, LIBRARIES, NEWTON_NUMBERS, resident
from odmtool.machines.class_memory import class_bytes, refuse_classes
from odmtool.machines.data import refuse_too_wide
from odmtool.places.memory import (
    bytes_of,
    class_sizes,
    fold_matrices,
    is_newton,
    made_bytes,
    problem_count,
)
from odmtool.search.calibration import FOLDS
from odmtool.search.search import SCALED_SHARE, SearchPlan, chains, is_together, pieces
from odmtool.search.together import needed_bytes, newton_processes
from odmtool.search.validation import takes_path
from odmtool.solvers.base import path_bytes
from odmtool.solvers.engine.room import memory_for_many
from odmtool.solvers.newton.spaces import matrix_bytes
from odmtool.solvers.table import FOLD_MATRICES, newton_matrices


class SearchMemory(NamedTuple):
    """What a search needs; see :func:`plan_memory`."""

    needed: float  # about the bytes that one process takes, besides the program and the data
    limit: float  # bytes for all of them
    # Whether a process keeps the kernel matrix of all rows (True without a kernel).
    keeps_matrix: bool
    jobs: int  # the processes for which there is room, at least one
    parts: dict[str, float]  # what all of it takes at most, by purpose


def plan_memory(plan: SearchPlan, jobs: int) -> SearchMemory:
    """How many of ``jobs`` processes the memory allows.

    One process with its matrices is faster than several without, and which solver a fit gets
    must not depend on how many share the work.
    """
    X, limit = plan.data.scaled_by(slice(None)).X, plan.machine.memory_limit()
    # Of settings with the same kernel one stands for all.
    apart, together, processes = {}, 0.0, 1
    for chain in chains(plan):
        machine = plan.machine_of(chain[0])
        refuse_classes(machine, X, len(plan.data.class_order()))
        if is_together(plan, chain):
            needed, count = _side_by_side(plan, X, machine, len(chain), jobs)
            together, processes = max(together, needed), max(processes, count)
        else:
            apart[machine.kernel] = machine
    needed, keeps_matrix = min(limit, together), True
    if apart:
        found = [_in_a_process(plan, X, machine) for machine in apart.values()]
        most = max(size for size, _ in found)
        jobs = max(1, min(jobs, int(limit // most)))
        needed, keeps_matrix = max(most, needed), all(keeps for _, keeps in found)
        processes = max(processes, jobs)
    machines, k = [*apart.values()], len(plan.data.class_order())
    is_compiled = together > 0 or not all(is_newton(machine, X, k) for machine in machines)
    parts = _programs(is_compiled, together > 0 or jobs == 1, processes)
    # What is solved side by side has the memory to itself; see search().
    parts["fits"] = max(_fit_bytes(plan, X, machines, jobs), together)
    if _keeps_scaled(plan, jobs):
        # Processes read copies of them in memory that they share.
        copies = min(plan.n_folds * bytes_of(X), SCALED_SHARE * limit)
        parts["scaled folds"] = min(jobs, 2) * copies
    return SearchMemory(needed, limit, keeps_matrix, jobs, parts)


def _keeps_scaled(plan: SearchPlan, jobs: int) -> bool:
    """Whether the scaled rows of a fold are used more than once."""
    is_here = plan.data.scale is not None and plan.machine.settings.scheduler is None
    return is_here and sum(len(pieces(plan, chain, jobs)) for chain in chains(plan)) > 1


def _side_by_side(plan: SearchPlan, X, machine, count: int, jobs: int) -> tuple[float, int]:
    """What ``count`` settings take whose folds are solved together, and in how many processes."""
    m, k, limit = X.shape[0], len(plan.data.class_order()), machine.memory_limit()
    problems = plan.n_folds * problem_count(machine, k)
    needed = needed_bytes(machine, m, count, problems, jobs) + class_bytes(machine, X, k)
    copies = COPIES * (bytes_of(X) + dense_bytes(X, limit / 4))
    processes = newton_processes(machine, m, count, problems, jobs)
    return copies + needed + BYTES * NEWTON_NUMBERS * m, processes


def _in_a_process(plan: SearchPlan, X, machine) -> tuple[float, bool]:
    """What a process needs for the fits of a kernel, and whether it keeps a kernel matrix."""
    (m, d), copies, keeps_matrix = X.shape, COPIES * bytes_of(X), True
    if machine.kernel == "linear":
        # Here, because a fold's examples have other numbers.
        refuse_too_wide(X, machine.memory_limit())
        made = made_bytes(machine, X)
        needed = copies + made + matrix_bytes(m, d) + _path_bytes(plan, machine)
    elif machine.solver == "nystrom":
        needed = copies + matrix_bytes(m, min(machine.settings.landmarks, m))
    else:
        copies += COPIES * dense_bytes(X, machine.memory_limit() / 4)
        room = machine.memory_limit() - copies
        keeps_matrix = FOLD_MATRICES * BYTES * m**2 <= room or machine.takes_landmarks(m)
        needed = copies + _kernel_bytes(plan, machine, m, room)
    return needed + class_bytes(machine, X, len(plan.data.class_order())), keeps_matrix


def _kernel_bytes(plan: SearchPlan, machine, m: int, room: float) -> float:
    """What a process needs for kernel values, if there is room."""
    rows = _training_rows(plan)
    fit = newton_matrices(machine.kind) * BYTES * rows**2
    if not machine.takes_landmarks(m):
        sizes = (FOLD_MATRICES * BYTES * m**2, fit)
    elif machine.kind == SMOOTH:
        # Where not even one process has room for many landmarks, no other shares it.
        return max(0.0, min(memory_for_many(rows), room))
    else:
        sizes = (fit,)
    # Without room for Newton rows of the matrix are kept, as many as there is room for.
    return next((size for size in sizes if size <= room), 0.0)


def _training_rows(plan: SearchPlan) -> int:
    """The most examples that a fold leaves for training."""
    return len(plan.fold) - len(plan.fold) // plan.n_folds


def _path_bytes(plan: SearchPlan, machine) -> int:
    """For the products of the rows of a fold that the path of a linear machine takes."""
    m, k = _training_rows(plan), len(plan.data.class_order())
    is_used = machine.kernel == "linear" and takes_path(machine, m, k, None)
    return path_bytes(m) if is_used else 0


def _fit_bytes(plan: SearchPlan, X, machines: list, jobs: int) -> float:
    """What the fits of such machines take at most that so many processes train."""
    m, k, fits = X.shape[0], len(plan.data.class_order()), 0.0
    folds, sizes = FOLDS if plan.probability else 1, class_sizes(plan.data.labels)
    for machine in machines:
        alone = machine.copy(memory=machine.memory_limit() / jobs)
        matrices = fold_matrices(alone, X, k, folds, _training_rows(plan), sizes)
        taken = sum(matrices.values()) + class_bytes(machine, X, k)
        taken += _path_bytes(plan, machine) + BYTES * NEWTON_NUMBERS * m
        fits = max(fits, taken)
    return jobs * fits


def _programs(is_compiled: bool, is_here: bool, processes: int) -> dict[str, float]:
    """Bytes of this process before it works, whether it works itself, and of those beside it."""
    found, libraries = {"program and data": resident()}, LIBRARIES + COMPILER * is_compiled
    if is_here and "numba" not in sys.modules:
        found["libraries"] = libraries
    if processes > 1:
        each = found["program and data"] + LIBRARIES + libraries
        found[f"{processes} processes"] = processes * each + HELPER
    return found
