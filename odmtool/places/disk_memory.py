"""What training from the disk keeps in memory; with it a solver is chosen, or refused.

What the process takes at the moment differs from run to run. It only tells whether a training
fits, and with how many threads; what a model depends on is decided by what the program takes at
most, and with one thread, so that the same command gives the same model.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np

from odmtool import _jit, messages
from odmtool.core.gram import BYTES
from odmtool.core.loss_table import MARGIN, SMOOTH
from odmtool.core.memory import (
    BLOCK_COPIES,
    COMPILER,
    COPIES,
    DESCENT_WEIGHTS,
    ENTRY,
    EXAMPLE_NUMBERS,
    EXAMPLE_VECTORS,
    HESSIAN_MATRICES,
    LIBRARIES,
    LINKER,
    NEWTON_NUMBERS,
    PROGRAM,
    READER,
    SAMPLE_COPIES,
    WRITTEN_COPIES,
    WRITTEN_VECTORS,
    resident,
)
from odmtool.errors import MemoryLimitError, UsageError
from odmtool.io.model_write import compiles
from odmtool.io.svmlight import PLAIN_BYTES
from odmtool.machines.data import too_wide
from odmtool.machines.reduction import problems
from odmtool.rows import partition
from odmtool.solvers.base import LARGEST_HESSIAN
from odmtool.solvers.descent import dcd
from odmtool.solvers.large.blocks import gram_rows, sample_size

# Of what is left, a sample of the rows may have so much.
_SAMPLE_SHARE = 0.5
# Blocks beside each other have so much even where compiling would need it.
_SOME_BLOCKS = 2.0**24
# What compiled code that has read rows takes afterwards, in a part of what it may take (0.4).
_READER_SHARE = 0.5
# d^3 numbers cost as much as so many passes of coordinate descent over all entries, with some tens
# of steps (6000 x 2500 with 60 entries a row, l1svm: 20 s and .2).
_PASSES = 400
# Text of rows that take less was short enough for the reader without compiled code.
_LARGE_STORE = PLAIN_BYTES / 4


class DiskPlan(NamedTuple):
    """What will be in memory, in bytes; answers as :class:`odmtool.places.place.MemoryPlan`."""

    solver: str
    parts: dict[str, float]  # what for, and how much
    limit: float  # the machine's memory
    # What remains for samples of the rows; the same in every run, for any number of threads.
    left: float
    sample: float  # what the larger of the samples takes of it
    jobs: int = 1  # threads; fewer than the machine's where the memory is too small for theirs
    together: int = 1  # blocks that coordinate descent has in memory

    @property
    def sentence(self) -> str:
        """What the training will take."""
        needs = self.parts | {"samples of the rows": self.sample}
        return messages.memory_plan(self.solver, needs, self.limit)

    @property
    def warnings(self) -> tuple[str, ...]:
        """None: what does not fit is refused."""
        return ()


def plan(machine, store, weight=None, name: str = "the data") -> DiskPlan:
    """Choose the solver, and count what it will take for data of a name.

    Raises
    ------
    UsageError
        There are too many features for Newton's method.
    MemoryLimitError
        It takes more than the machine's memory.
    """
    memory, solver = machine.memory_limit(), machine.solver
    d = store.shape[1] + (machine.bias >= 0)
    if solver == "newton" and not has_newton(machine, store.shape[1]):
        raise UsageError(messages.hessian_too_large(LARGEST_HESSIAN, d))
    is_auto = solver == "auto"
    if is_auto:
        solver = "newton" if _is_for_newton(machine, store) else "dcd"
    known = _sum(machine, solver, store, weight)
    if known > memory and is_auto and (other := _sum(machine, "dcd", store, weight)) < known:
        solver, known = "dcd", other
    left = max(0.0, memory - known)
    if machine.memory is None:
        # What is free at the moment decides nothing either, unless there is half or twice of it.
        left = 2.0 ** int(np.log2(left)) if left >= 1 else 0.0
    sample, together = _sample_bytes(machine, solver, store, left), _together(solver, store, left)
    jobs = _threads(machine, solver, store, weight, memory - min(sample, left))
    parts = _parts(machine, solver, store, weight, jobs)
    if solver == "dcd":
        parts["rows"] *= together
    if parts.get("w", 0) > memory:
        raise too_wide(store.shape[1], store.widest_example(), parts["w"], memory)
    needed = sum(parts.values()) + min(sample, left)
    if needed > memory:
        raise MemoryLimitError(messages.out_of_core_too_large(name, needed, parts, memory))
    return DiskPlan(solver, parts, memory, left, sample, jobs, together)


def _together(solver: str, store, left: float) -> int:
    """So many blocks have room at a time, at least one; the same whether code is compiled or not.

    A first run, which compiles, is refused for some of them only where memory is scarce.
    """
    if solver != "dcd":
        return 1
    room = max(min(left - LINKER, _SOME_BLOCKS), left - COMPILER, 0.0)
    return min(len(store.starts) - 1, 1 + int(room / (BLOCK_COPIES * store.block_bytes())))


def _sum(machine, solver: str, store, weight) -> float:
    """Bytes besides samples, the same in every run."""
    return sum(_parts(machine, solver, store, weight, 1, _program(machine, store)).values())


def _program(machine, store) -> float:
    """What the program takes at most when rows have been read, of whatever file."""
    may_compile = machine.memory_limit() >= PROGRAM + READER and store.bytes >= _LARGE_STORE
    return PROGRAM + _READER_SHARE * READER * may_compile


def _threads(machine, solver: str, store, weight, memory: float) -> int:
    """So many of the machine's threads as memory has room for, at least one."""
    for jobs in range(machine.jobs, 1, -1):
        if sum(_parts(machine, solver, store, weight, jobs).values()) <= memory:
            return jobs
    return 1


def has_newton(machine, n_features: int) -> bool:
    """Whether Newton's method serves a linear machine on rows of this width, memory aside."""
    d = n_features + (machine.bias >= 0)
    return machine.kernel == "linear" and machine.kind in MARGIN and d <= LARGEST_HESSIAN


def _is_for_newton(machine, store) -> bool:
    """Whether ``auto`` takes Newton's method if there is room for it.

    With a jump it takes tens of steps, and coordinate descent by blocks may do with fewer passes:
    not where solving for a step takes longer than many of them.
    """
    d = store.shape[1] + (machine.bias >= 0)
    is_quick = machine.kind == SMOOTH or d**3 <= _PASSES * store.entries
    return has_newton(machine, store.shape[1]) and is_quick


def _is_proximal(machine, solver: str) -> bool:
    """Whether it is Newton's method for a loss whose derivative jumps, without a sample."""
    return solver == "newton" and machine.kind != SMOOTH


def _parts(
    machine, solver: str, store, weight, jobs: int, program: float | None = None
) -> dict[str, float]:
    """What will be in memory with a solver and so many threads, besides samples of the rows."""
    m, d = store.shape[0], store.shape[1] + (machine.bias >= 0)
    parts = {"the program": resident() if program is None else program}
    parts["weights"] = 0 if weight is None else weight.nbytes
    width = min(machine.settings.landmarks, m) if solver == "nystrom" else d
    parts["classes"] = _class_bytes(machine, len(store.counts), width)
    if program is None:
        # Only the first run compiles: it may be refused for that, but no model depends on it.
        parts["compiled code"] = _code_bytes(machine, solver, store, width)
    if solver == "dcd":
        # One thread goes from block to block, however many there may be.
        parts["libraries"] = LIBRARIES / 2
        parts["rows"] = BLOCK_COPIES * store.block_bytes()
        return parts | {"dual variables": BYTES * m, "w": DESCENT_WEIGHTS * BYTES * d}
    parts["libraries"] = LIBRARIES / 2 * jobs
    pieces = BLOCK_COPIES * jobs * BYTES * gram_rows(width) * width
    parts["rows"] = BLOCK_COPIES * jobs * store.block_bytes()
    parts["matrices"] = HESSIAN_MATRICES * BYTES * width * width + pieces
    if _is_proximal(machine, solver):
        parts["rows"] += jobs * EXAMPLE_NUMBERS * BYTES * store.block_rows()
        # Each thread adds up a Hessian of its own.
        parts["matrices"] += (jobs - 1) * HESSIAN_MATRICES * BYTES * width * width
        parts["duals and margins"] = EXAMPLE_VECTORS * BYTES * m
    if solver == "nystrom":
        parts["landmarks"] = BYTES * width * width + _row_bytes(store) * width
    return parts


def _class_bytes(machine, k: int, width: int) -> float:
    """What the solutions of k classes take until the model is written, so wide each."""
    count = len(problems(k, machine.reduction(k)))
    if count == 1:
        return 0.0
    if machine.kernel != "linear":
        copies = COPIES + 1  # in the span of the landmarks, and of the landmarks, in two orders
    elif machine.decides_by_votes(k) or machine.model_format == "libsvm":
        copies = WRITTEN_VECTORS
    else:
        copies = WRITTEN_COPIES + (machine.bias >= 0)
    return float(BYTES) * copies * width * count


def _code_bytes(machine, solver: str, store, width: int) -> float:
    """What compiled code takes that training and writing the model run."""
    has_dcd, is_loaded = solver == "dcd", solver == "dcd" or _jit.is_loaded()
    k, row = len(store.counts), 0 if machine.kernel == "linear" else store.entries / store.shape[0]
    numbers = width * (len(problems(k, machine.reduction(k))) + row)
    is_first = compiles(numbers, is_loaded)
    if not has_dcd and is_first is None:
        return 0.0
    if is_first or has_dcd and not dcd.is_kept(machine.loss(1.0)):
        return COMPILER if "numba" not in sys.modules else LINKER
    return LINKER


def rows_that_fit(store, left: float, numbers: int) -> int:
    """The rows of a sample of which each has so many other numbers, in part of the memory."""
    return int(_SAMPLE_SHARE * left / _sampled_row_bytes(store, numbers))


def landmark_memory(count: int, rows: int) -> float:
    """Bytes with which so many landmarks are chosen among so many rows."""
    return 4.0 * BYTES * count * rows


def _sampled_row_bytes(store, numbers: int) -> float:
    return SAMPLE_COPIES * _row_bytes(store) + BYTES * numbers


def _sample_bytes(machine, solver: str, store, left: float) -> float:
    """What the larger sample takes: that of Newton's method, or that of the landmarks."""
    (m, d), found = store.shape, [0.0]
    if solver == "dcd" or _is_proximal(machine, solver):
        return 0.0
    width = min(machine.settings.landmarks, m) if solver == "nystrom" else d + (machine.bias >= 0)
    most = rows_that_fit(store, left, NEWTON_NUMBERS)
    sample = sample_size(m, width, most)
    found.append(sample * _sampled_row_bytes(store, NEWTON_NUMBERS))
    if solver == "nystrom":
        most = max(width, rows_that_fit(store, left, width))
        rows = partition.sample_size(m, width, landmark_memory(width, most))
        found.append(rows * _sampled_row_bytes(store, width))
    return max(found)


def _row_bytes(store) -> float:
    """What a row takes in memory."""
    m, d = store.shape
    return BYTES * d if store.is_dense else ENTRY * store.entries / m + BYTES
