"""Rows in memory: one matrix, and everything works on it.

With ``--scheduler`` the tasks of the training may run on a cluster; the rows lie here all the
same. What the training will take is an upper estimate, part by part: what stays below
``--memory`` are kernel values and the matrices made of them; data and vectors come on top, and
data that do not fit are refused before they are read.
"""

from __future__ import annotations

import sys

import numpy as np

from odmtool import messages
from odmtool.core.gram import BYTES
from odmtool.core.kernels import are_apart, dense_bytes
from odmtool.core.labels import distinct
from odmtool.core.loss_table import JUMPS, OF_KMOMD, OF_LDM, SMOOTH
from odmtool.core.memory import (
    CLASS_SCORES,
    COMPILER,
    COPIES,
    ENTRY,
    HESSIAN_MATRICES,
    LIBRARIES,
    NEWTON_NUMBERS,
    resident,
)
from odmtool.errors import MemoryLimitError
from odmtool.io import svmlight
from odmtool.machines.binary import BinaryMachine
from odmtool.machines.class_memory import class_bytes
from odmtool.machines.codes import length
from odmtool.machines.pairs import needed_bytes as pair_bytes
from odmtool.places.place import MemoryPlan, Place, TrainingData
from odmtool.solvers.auto import newton_bytes
from odmtool.solvers.base import ignore_progress, path_bytes
from odmtool.solvers.linear_cost import is_surely_newton
from odmtool.solvers.newton.spaces import array_bytes, matrix_bytes
from odmtool.solvers.table import FOLD_MATRICES, IN_PARTS, newton_matrices


class Memory(Place):
    """See :mod:`odmtool.places.memory`."""

    def read(self, **said) -> TrainingData:
        """See :meth:`Place.read`; data that do not fit are refused before."""
        limit = self.source.limit()
        needed = svmlight.estimated_bytes(self.source.path, limit)
        if needed > limit:
            raise MemoryLimitError(messages.data_too_large(needed, limit))
        return super().read(**said)

    def rows(self, _note, _detail) -> TrainingData:
        """The examples, X a CSR."""
        found = svmlight.read_svmlight(
            self.source.path, zero_based=self.source.zero_based,
            precomputed=self.source.precomputed, jobs=self.source.jobs,
            memory=self.source.limit(),
        )  # fmt: skip
        labels = frozenset(distinct(found.labels)[0].tolist())
        mark = svmlight.fingerprint(found)
        return TrainingData(
            found.rows, found.labels, mark, found.skipped, labels, labels,
            names=found.names,
        )  # fmt: skip

    def plan(self, machine, data: TrainingData, folds: int = 0) -> MemoryPlan:
        """Bytes by purpose, of this process or of a task on the cluster.

        ``folds`` is for a training with a cross validation, as probabilities need it.
        """
        warnings = apart_warnings(machine, data.X)
        if uses_scheduler(machine, len(data.classes)):
            from odmtool.solvers.large import tasks

            # What is kept of kernel values depends on the memory of the workers.
            return MemoryPlan(messages.task_needs(tasks.needs(machine, data.X)), warnings)
        warnings = matrix_warnings(machine, data.X.shape[0], len(data.classes)) + warnings
        if machine.settings.scheduler is not None:
            warnings += (messages.scheduler_unused(machine.solver),)
        sizes = class_sizes(data.labels)
        found = parts(machine, data.X, len(data.classes), sizes)
        if folds:
            found |= fold_matrices(machine, data.X, len(data.classes), folds, sizes=sizes)
        return MemoryPlan(messages.memory_needs(found, machine.memory_limit()), warnings)

    def fit(
        self, machine, data: TrainingData, _plan=None, progress=ignore_progress, start=None
    ) -> None:  # fmt: skip
        """See :meth:`Place.fit`; from the duals ``start`` if there are any."""
        machine.fit(data.X, data.labels, data.weight, progress=progress, start=start)


def matrix_warnings(machine, m: int, k: int) -> tuple[str, ...]:
    """That kernel values of m examples of k classes do not fit as a solver would keep them."""
    memory = machine.memory_limit()
    if machine.takes_landmarks(m):
        has_full = machine.kind == SMOOTH and not machine.decides_by_votes(k)
        return _landmark_warnings(m, memory) if has_full else ()
    is_without = machine.solver in ("newton", "path", "nystrom") or machine.kind == OF_KMOMD
    wants_matrix, others = machine.kernel != "linear" and not is_without, smaller(machine, m)
    if wants_matrix and machine.solver == "sodm":
        from odmtool.solvers.large import tasks

        m = -(-m // tasks.parts_at_end(m, machine.solver, machine.settings))
    if wants_matrix and BYTES * m * m > memory:
        return (messages.matrix_not_kept(m, memory, others),)
    return ()


def smaller(machine, m: int) -> tuple[str, ...]:
    """What makes the kernel matrices of m examples smaller, as a sentence names it."""
    if machine.solver != "sodm":
        return ("‹solver=sodm›",)
    from odmtool.solvers.large import tasks

    settings = machine.settings
    ends_late = tasks.parts_at_end(m, "sodm", settings) < tasks.parts_at_first(m, "sodm", settings)
    return (f"‹stop_level={settings.stop_level + 1}›",) if ends_late else ()


def apart_warnings(machine, X) -> tuple[str, ...]:
    """That features are not scaled for the kernel."""
    return (messages.rows_apart(),) if are_apart(machine.kernel_for(X.shape[1]), X) else ()


def _landmark_warnings(m: int, memory: float) -> tuple[str, ...]:
    """That there is room for few landmarks of m examples, which one problem has."""
    from odmtool.solvers.engine.room import landmarks_in, memory_for_many

    if memory >= (enough := memory_for_many(m)):
        return ()
    return (messages.few_landmarks(memory, landmarks_in(m, memory), m, enough),)


def uses_scheduler(machine, classes: int) -> bool:
    """Whether the training has tasks for ``--scheduler``, and one is given."""
    is_one_problem = not isinstance(machine, BinaryMachine) or classes <= 2
    is_used = machine.solver in IN_PARTS or not is_one_problem
    return machine.settings.scheduler is not None and is_used


def class_sizes(labels: np.ndarray) -> np.ndarray:
    """The examples of each class, shape (k,)."""
    return np.bincount(np.searchsorted(distinct(labels)[0], labels))


def parts(machine, X, k: int, sizes: np.ndarray | None = None) -> dict[str, float]:
    """Bytes by purpose, before a machine is fitted to k classes.

    Parameters
    ----------
    machine : Machine
    X : CSR or csr_matrix, shape (m, d)
    sizes : int array, shape (k,), optional
        The examples of each class.
    """
    m, d = X.shape
    found = {"program and data": resident(), "vectors": BYTES * NEWTON_NUMBERS * m}
    if several := class_bytes(machine, X, k):
        found["classes" if k > 2 or machine.name in CLASS_SCORES else "weights"] = several
        if machine.kernel != "linear":
            found["model"] = _kernel_model(machine, X, k)
    found["libraries"] = LIBRARIES
    if "numba" not in sys.modules and not is_newton(machine, X, k):
        found["compiled code"] = COMPILER
    return found | matrices(machine, X, k, sizes=sizes)


def is_newton(machine, X, k: int) -> bool:
    """Whether it is sure, before the training, that it needs no compiled code."""
    is_smooth = isinstance(machine, BinaryMachine) and machine.kind == SMOOTH
    if machine.kernel != "linear" or not is_smooth or machine.decides_by_votes(k):
        return False
    return machine.solver == "newton" or machine.solver == "auto" and is_surely_newton(X)


def bytes_of(X) -> int:
    """What sparse rows take."""
    return X.data.nbytes + X.indices.nbytes + X.indptr.nbytes


def matrices(
    machine, X, k: int, folds: int = 1, rows: int | None = None, sizes: np.ndarray | None = None
) -> dict[str, float]:
    """Bytes by purpose for the rows as a solver wants them, and for kernel values; k classes.

    So many folds may be solved side by side. So many ``rows`` train at a time, by default all.
    Of classes of unknown ``sizes`` two may have all rows.
    """
    (m, d), data = X.shape, bytes_of(X)
    if machine.kernel == "linear":
        own = HESSIAN_MATRICES / 2 * matrix_bytes(m, d)
        if machine.solver == "path":
            own += path_bytes(m)
        at_once = min(getattr(machine, "jobs", 1), problem_count(machine, k))
        copies = max(COPIES * data, at_once * array_bytes(X)) + at_once * made_bytes(machine, X)
        return {"copies": copies, "matrices": own}
    m = m if rows is None else rows
    limit, matrix = machine.memory_limit(), BYTES * m * m
    found = {"copies": COPIES * (dense_bytes(X, limit / 4) or data)}
    if machine.solver == "nystrom":
        count = min(machine.settings.landmarks, m)
        found["matrices"] = HESSIAN_MATRICES * BYTES * count**2
        return found | {"landmarks": min(limit / 4, BYTES * 2e7)}
    # Those of others take less than the rows of the matrix that follow where they are not enough.
    if machine.takes_landmarks(m) and machine.kind == SMOOTH:
        from odmtool.solvers.engine.room import needed_bytes

        # Pairs of classes have landmarks of their own, in every fold.
        count = 1 if machine.decides_by_votes(k) else folds * problem_count(machine, k)
        needed = needed_bytes(m, limit, count)
        if machine.solver == "auto":
            pairs = machine.jobs if machine.decides_by_votes(k) else 0
            needed = max(needed, newton_bytes(m, limit, pairs))
        return found | {"landmarks and kernel values": needed}
    if machine.decides_by_votes(k):
        sizes = np.array([m]) if sizes is None else sizes
        return found | {"kernel values": pair_bytes(machine, sizes)}
    # Without room for Newton, rows of the matrix are kept, as many as there is room for.
    needed = newton_matrices(machine.kind) * matrix
    kept = needed if needed <= limit else min(matrix, limit)
    return found | {"kernel values": kept}


def made_bytes(machine, X) -> float:
    """What Newton's method makes of rows and vectors of a linear problem whose loss jumps."""
    if machine.solver not in ("auto", "newton", "path"):
        return 0.0
    m, d = X.shape
    if machine.kind == JUMPS:  # every example twice
        return 2.0 * bytes_of(X) + BYTES * NEWTON_NUMBERS * m
    if machine.kind != OF_LDM:
        return 0.0
    from odmtool.solvers.ldm.newton import takes_rows

    return float(BYTES) * m * d if takes_rows(m, d) else 0.0


def problem_count(machine, k: int) -> int:
    """The number of problems that all examples take part in."""
    if k <= 2 or not isinstance(machine, BinaryMachine) or machine.decides_by_votes(k):
        return 1
    return k if machine.reduction(k) == "ovr" else length(k)


def fold_matrices(
    machine, X, k: int, folds: int, rows: int | None = None, sizes: np.ndarray | None = None
) -> dict[str, float]:
    """The same where folds share the kernel values of all rows, if there is room for them.

    Where landmarks are taken there is no such matrix.
    """
    found = matrices(machine, X, k, folds, rows, sizes)
    whole = FOLD_MATRICES * BYTES * X.shape[0] ** 2
    shares_matrix = machine.kernel != "linear" and not machine.takes_landmarks(X.shape[0])
    if not shares_matrix or whole > machine.memory_limit():
        return found
    others = sum(found.values()) - found["copies"]
    return found | {"kernel values of folds": max(0.0, whole - others)}


def _kernel_model(machine, X, k: int) -> float:
    """Every example with its coefficients; of the form for LIBSVM once for every class."""
    m, row = X.shape[0], ENTRY * X.nnz / max(1, X.shape[0])
    if machine.model_format == "compact":
        return m * (BYTES * k + row)
    times = 1 if machine.decides_by_votes(k) else k
    return times * m * (BYTES * (k - 1) + row)
