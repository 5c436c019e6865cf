"""A machine trained on rows that are on the disk, within a bounded memory.

==========  =======================================  ======================================
newton      linear, a smooth loss, d <= 3000, d x d  :mod:`odmtool.solvers.large.passes`
            numbers fit in memory
dcd         linear, any other                        :mod:`odmtool.solvers.large.block_descent`
nystrom     a kernel and a smooth loss               :mod:`odmtool.solvers.large.passes`
==========  =======================================  ======================================

``auto`` is the first that serves. More than two classes are one against the rest, or linear
also one against one; the problems are solved one after the other. The objective is that of
training in memory, and so are classes and weights.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from odmtool import messages
from odmtool.core.losses import LDM
from odmtool.core.memory import resident
from odmtool.errors import DataError, MemoryLimitError, UsageError
from odmtool.machines.binary import BinaryMachine
from odmtool.machines.data import Prepared, check_weights, class_order, targets
from odmtool.rows.examples import Examples, labels_of
from odmtool.rows.executor import local_executor
from odmtool.solvers import is_smooth
from odmtool.solvers.base import (
    LARGEST_HESSIAN,
    ProgressCallback,
    Stop,
    ignore_progress,
)
from odmtool.solvers.large.blocks import expansion, gram_rows, sample_of, sample_size
from odmtool.solvers.multi import MultiSolution

SOLVERS = ("auto", "newton", "dcd", "nystrom")
MAX_ITER = {"newton": 200, "dcd": 1000, "nystrom": 200}
"""Newton steps, or passes that change the duals."""

_NUMBER = 8
# The Hessian, a task's share of it, and the factor.
_MATRICES = 4
# A block is read, brought into another form, and multiplied.
_COPIES = 3
# Numbers that Newton's method on the sample keeps for an example.
_SAMPLE_NUMBERS = 45
_SAMPLE_SHARE, _SAMPLE_COPIES = 0.5, 2.5


class Plan(NamedTuple):
    """What will be in memory, in bytes.

    Attributes
    ----------
    solver : str
    parts : dict of str to float
        What for, and how much.
    left : float
        What remains of the machine's memory, for samples of the rows.
    sample : float
        What the larger of the samples takes of it.
    """

    solver: str
    parts: dict[str, float]
    left: float
    sample: float

    @property
    def total(self) -> float:
        return sum(self.parts.values())


def check(machine) -> None:
    """Raise UsageError if the machine cannot be trained so; needs no data."""
    if not isinstance(machine, BinaryMachine):
        raise UsageError(messages.cache_not_for_machine(machine.name))
    loss = machine.loss(total_weight=1.0)
    if isinstance(loss, LDM):
        raise UsageError(messages.cache_not_for_machine(machine.name))
    if machine.solver not in SOLVERS:
        raise UsageError(messages.cache_not_for_solver(machine.solver))
    if machine.kernel == "linear":
        if machine.solver == "newton" and not is_smooth(loss):
            raise UsageError(messages.cache_needs_smooth(machine.name))
        return
    if machine.solver != "nystrom":
        raise UsageError(messages.cache_needs_nystrom(machine.kernel))
    if not is_smooth(loss):
        raise UsageError(messages.cache_needs_smooth(machine.name))
    if machine.multiclass == "ovo":
        raise UsageError(messages.cache_not_for_pairs())


def plan(machine, store, weight=None) -> Plan:
    """Choose the solver, and count what it will take.

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
        raise UsageError(messages.hessian_too_large(d, LARGEST_HESSIAN))
    if solver == "auto":
        is_possible = has_newton(machine, store.shape[1])
        needed = sum(_parts(machine, "newton", store, weight).values())
        solver = "newton" if is_possible and needed <= memory else "dcd"
    parts = _parts(machine, solver, store, weight)
    left = memory - sum(parts.values())
    if left < 0:
        raise MemoryLimitError(messages.out_of_core_too_large(memory - left, memory))
    return Plan(solver, parts, left, _sample_bytes(machine, solver, store, left))


def has_newton(machine, n_features: int) -> bool:
    """Whether Newton's method serves a linear machine on rows of this width, memory aside."""
    d = n_features + (machine.bias >= 0)
    return machine.kernel == "linear" and machine.is_smooth() and d <= LARGEST_HESSIAN


def _parts(machine, solver: str, store, weight) -> dict[str, float]:
    """What will be in memory with a solver, besides samples of the rows."""
    m, d = store.shape[0], store.shape[1] + (machine.bias >= 0)
    parts = {"the program": resident(), "weights": 0 if weight is None else weight.nbytes}
    if solver == "dcd":
        parts["rows"] = _COPIES * store.block_bytes()
        return parts | {"dual variables": _NUMBER * m, "w": 4 * _NUMBER * d}
    width = min(machine.settings.landmarks, m) if solver == "nystrom" else d
    pieces = _COPIES * machine.jobs * _NUMBER * gram_rows(width) * width
    parts["rows"] = _COPIES * machine.jobs * store.block_bytes()
    parts["matrices"] = _MATRICES * _NUMBER * width * width + pieces
    if solver == "nystrom":
        parts["landmarks"] = _NUMBER * width * width + _row_bytes(store) * width
    return parts


def _rows_that_fit(store, left: float, numbers: int) -> int:
    """The rows of a sample of which each has so many other numbers, in part of the memory."""
    return int(_SAMPLE_SHARE * left / _sampled_row_bytes(store, numbers))


def _sampled_row_bytes(store, numbers: int) -> float:
    return _SAMPLE_COPIES * _row_bytes(store) + _NUMBER * numbers


def _sample_bytes(machine, solver: str, store, left: float) -> float:
    """What the larger sample takes: that of Newton's method, or that of the landmarks."""
    from odmtool.rows import partition

    (m, d), found = store.shape, [0.0]
    if solver == "dcd":
        return 0.0
    width = min(machine.settings.landmarks, m) if solver == "nystrom" else d + (machine.bias >= 0)
    most = _rows_that_fit(store, left, _SAMPLE_NUMBERS)
    sample = sample_size(m, width, most)
    found.append(sample * _sampled_row_bytes(store, _SAMPLE_NUMBERS))
    if solver == "nystrom":
        most = max(width, _rows_that_fit(store, left, width))
        rows = partition.sample_size(m, width, 4.0 * _NUMBER * width * most)
        found.append(rows * _sampled_row_bytes(store, width))
    return max(found)


def _row_bytes(store) -> float:
    """What a row takes in memory."""
    m, d = store.shape
    return _NUMBER * d if store.is_dense else 12 * store.entries / m + _NUMBER


def fit(
    machine, store, weight=None, *, chosen: Plan | None = None,
    progress: ProgressCallback = ignore_progress,
):  # fmt: skip
    """Train a machine on the rows of a store.

    Parameters
    ----------
    machine : BinaryMachine
    store : RowStore
        Its labels are the classes.
    weight : ndarray, shape (m,), optional
    chosen : Plan, optional
        That of :func:`plan`.
    progress : callable

    Raises
    ------
    UsageError, DataError, MemoryLimitError, DivergedError
    """
    check(machine)
    chosen = plan(machine, store, weight) if chosen is None else chosen
    classes = class_order(np.array(list(store.counts)))
    machine.check_format(len(classes))
    if not np.isfinite(store.largest_square + max(machine.bias, 0.0) ** 2):
        raise DataError(messages.values_too_large(store.largest_row + 1))
    total = float(store.shape[0])
    if weight is not None:
        check_weights(weight, store.shape[0])
        total = float(weight.sum())
    train = _Training(machine, store, weight, classes, total, chosen, progress)
    if machine.kernel == "linear":
        machine.solution_, rows, prepared = train.linear()
    else:
        machine.solution_, rows, prepared = train.nystrom()
    machine.classes_ = classes
    machine.model_ = machine.model(rows, prepared, machine.solution_)
    return machine


class _Training(NamedTuple):
    """One call of :func:`fit`."""

    machine: BinaryMachine
    store: object
    weight: np.ndarray | None
    classes: list[int]
    total_weight: float
    plan: Plan
    progress: ProgressCallback

    def linear(self):
        """The solution, what has the shape of the rows, and what a model needs of them."""
        found = [self.solve(part) for part in self.signs()]
        return self.together(found), self.store, self.prepared(np.zeros(0, dtype=int))

    def nystrom(self):
        """The same; the rows are the landmarks."""
        from odmtool.rows.partition import landmarks
        from odmtool.solvers.large.nystrom import basis_of

        machine, store = self.machine, self.store
        kernel = machine.kernel_for(store.shape[1])._replace(bias=max(machine.bias, 0.0))
        count = min(machine.settings.landmarks, store.shape[0])
        # The sample among which they are chosen is in memory while they are.
        most = max(count, _rows_that_fit(store, self.plan.left, count))
        memory = min(machine.memory_limit(), 4.0 * _NUMBER * count * most)
        chosen = landmarks(kernel, store, count, seed=machine.seed, memory=memory)
        machine.captured_ = chosen.captured
        basis = basis_of(store, kernel, chosen, machine.tolerance)
        found = [self.solve(part, basis) for part in self.signs()]
        order = np.argsort(chosen.rows)
        A = np.column_stack([expansion(chosen.factor, f.w) for f in found])[order]
        rows = sparse.csr_matrix(store[chosen.rows[order]])
        solution = self.together(found)._replace(
            W=None, coef=A, solver="nystrom",
            support_count=int(np.count_nonzero(np.any(A != 0, axis=1))),
        )  # fmt: skip
        return solution, rows, self.prepared(chosen.rows[order])

    def signs(self) -> list[dict]:
        """The sign of every label, problem by problem; 0 takes no part."""
        classes = self.classes
        if len(classes) <= 2:
            return [{label: 1.0 if label == classes[0] else -1.0 for label in classes}]
        if self.machine.multiclass == "ovr":
            return [{c: 1.0 if c == label else -1.0 for c in classes} for label in classes]
        pairs = ((a, b) for i, a in enumerate(classes) for b in classes[i + 1 :])
        return [{c: 1.0 if c == a else -1.0 if c == b else 0.0 for c in classes} for a, b in pairs]

    def solve(self, sign: dict, basis=None):
        """Solve one binary problem."""
        from odmtool.solvers.large import passes

        machine, solver = self.machine, self.plan.solver
        bias = machine.bias if basis is None else -1.0
        factor = {label: (machine.class_weight or {}).get(label, 1.0) for label in self.classes}
        examples = Examples(self.store, sign, factor, self.weight, bias)
        if not examples.total_weight() > 0:
            raise DataError(messages.all_weights_zero())
        loss = machine.loss(self.total_weight)
        limit = MAX_ITER[solver] if machine.max_iter is None else machine.max_iter
        stop = Stop(machine.tolerance, limit)
        if solver == "dcd":
            from odmtool.solvers.large import block_descent

            return block_descent.solve(
                examples, loss, stop, seed=machine.seed, progress=self.progress
            )
        width = examples.shape[1] if basis is None else len(basis.factor)
        most = _rows_that_fit(self.store, self.plan.left, _SAMPLE_NUMBERS)
        sample = sample_of(examples.shape[0], width, most, machine.seed)
        executor = local_executor(machine.jobs)
        return passes.solve(
            examples, loss, stop, basis=basis, sample=sample, executor=executor,
            progress=self.progress,
        )  # fmt: skip

    def together(self, found) -> MultiSolution:
        """The solution of all problems."""
        return MultiSolution(
            np.column_stack([f.w for f in found]), None,
            objective=sum(f.primal for f in found), gap=max(f.gap for f in found),
            iterations=sum(f.iterations for f in found),
            converged=all(f.converged for f in found), solver=found[0].solver,
            support_count=max(f.support_count for f in found),
        )  # fmt: skip

    def prepared(self, rows: np.ndarray) -> Prepared:
        """What a model needs to know of the examples that it keeps."""
        target = targets(labels_of(self.store, rows), self.classes)
        return Prepared(
            None, None, target, None, self.classes, np.arange(len(rows)), self.total_weight
        )
