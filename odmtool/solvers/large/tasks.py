"""How large the tasks of the solvers for large data are, and what they take on a worker.

On a cluster all of a task, its rows included, has to stay below the share that its worker has
for a thread (``task_memory`` of :mod:`odmtool.rows.executor`). Of kernel values a task keeps
no more than there is room for; for the rest there must be room.
"""

from __future__ import annotations

import math

import numpy as np

from odmtool import messages
from odmtool.core.gram import BYTES
from odmtool.core.kernels import dense_bytes
from odmtool.core.memory import COPIES, DESCENT_NUMBERS, DESCENT_WEIGHTS, ENTRY, HESSIAN_MATRICES
from odmtool.errors import MemoryLimitError
from odmtool.solvers.auto import newton_matrices_bytes
from odmtool.solvers.newton.spaces import matrix_bytes
from odmtool.solvers.settings import Settings
from odmtool.solvers.table import IN_PARTS, row_of

# The smallest parts have at least so many examples: below, merging costs more than solving.
_LEAST_EXAMPLES = 1000
# dsvrg's parts take turns, so that more of them than workers only cost time.
_MOST_TURNS, _LEAST_TURN = 32, 10_000
# Examples of a task of nystrom, and the numbers of a piece of their features.
_TASK_ROWS, _PIECE = 2**16, 2**20


def parts_at_first(m: int, solver: str, settings: Settings) -> int:
    """The parts of the first level, no more than there are examples."""
    if settings.partitions is not None:
        return min(settings.partitions, m)
    if row_of(solver).name == "dsvrg":
        return max(1, min(_MOST_TURNS, m // _LEAST_TURN))
    parts = 1
    while m >= _LEAST_EXAMPLES * parts * settings.branch:
        parts *= settings.branch
    return parts


def parts_at_end(m: int, solver: str, settings: Settings) -> int:
    """The parts of the last level, of which each is the largest problem that is solved."""
    parts = parts_at_first(m, solver, settings)
    return min(parts, settings.branch**settings.stop_level) if solver == "sodm" else parts


def needs(machine, X) -> dict[str, float]:
    """Bytes by purpose that the largest task may take; kernel values if all are kept.

    Parameters
    ----------
    machine : Machine
    X : csr_matrix, ndarray or SpreadRows, shape (m, d)
    """
    m, d = X.shape
    is_dense = isinstance(X, np.ndarray) or dense_bytes(X, math.inf) > 0
    rows = BYTES * m * d if is_dense else ENTRY * X.nnz
    if machine.solver not in IN_PARTS:
        values = {"kernel values": newton_matrices_bytes(m, machine.kind)}
        linear = {"matrices": HESSIAN_MATRICES / 2 * matrix_bytes(m, d)}
        return {"rows": COPIES * rows} | (linear if machine.kernel == "linear" else values)
    if machine.solver == "nystrom":
        count, share = min(machine.settings.landmarks, m), min(1.0, _TASK_ROWS / m)
        landmarks = rows * count / m + COPIES * BYTES * count**2
        return {"rows": COPIES * share * rows, "landmarks": landmarks, "features": BYTES * _PIECE}
    parts = parts_at_end(m, machine.solver, machine.settings)
    n = m / parts
    if machine.kernel == "linear":
        numbers = DESCENT_WEIGHTS * d + DESCENT_NUMBERS * n
        return {"rows": COPIES * rows / parts, "vectors": BYTES * numbers}
    # For the gap of the whole, a task may need all rows.
    return {"rows": rows, "vectors": BYTES * DESCENT_NUMBERS * n, "kernel values": BYTES * n * n}


def check_task(machine, X, memory: float) -> None:
    """Raise MemoryLimitError if a task needs more than ``memory``, kernel values apart."""
    found = needs(machine, X)
    least = sum(found.values()) - found.get("kernel values", 0)
    if least > memory:
        raise MemoryLimitError(messages.task_too_large(least, memory))
