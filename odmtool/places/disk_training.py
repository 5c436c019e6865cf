"""A machine trained on the rows of a store (:mod:`odmtool.places.disk`).

More than two classes are one against the rest, or linear also one against one; the problems are
solved one after the other. The objective is that of training in memory, and so are classes
and weights.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from odmtool import messages
from odmtool.core import kernels
from odmtool.core.loss_table import SMOOTH
from odmtool.core.memory import NEWTON_NUMBERS
from odmtool.errors import DataError
from odmtool.machines import reduction
from odmtool.machines.binary import BinaryMachine
from odmtool.machines.data import Prepared, check_weights, class_order, targets
from odmtool.places.disk_memory import DiskPlan, landmark_memory, rows_that_fit
from odmtool.rows.examples import Examples, labels_of
from odmtool.rows.executor import local_executor
from odmtool.rows.partition import landmarks
from odmtool.solvers.base import ProgressCallback, Stop, ignore_progress
from odmtool.solvers.large.blocks import expansion, sample_of
from odmtool.solvers.table import DISK, way_of


def fit(machine: BinaryMachine, store, weight, plan: DiskPlan, progress=ignore_progress) -> None:
    """Train.

    Raises UsageError, DataError, MemoryLimitError, DivergedError.

    Parameters
    ----------
    machine : BinaryMachine
        What :meth:`odmtool.places.disk.Disk.suited` gives.
    store : RowStore
        Its labels are the classes.
    weight : ndarray, shape (m,), or None
    progress : callable
    """
    classes = class_order(np.array(list(store.counts)))
    machine.check_format(len(classes))
    if not np.isfinite(store.largest_square + max(machine.bias, 0.0) ** 2):
        raise DataError(messages.values_too_large(store.largest_row + 1))
    total = float(store.shape[0])
    if weight is not None:
        check_weights(weight, store.shape[0])
        total = float(weight.sum())
    train = _Training(machine, store, weight, classes, total, plan, progress)
    machine.solution_, rows, prepared = (
        train.linear() if machine.kernel == "linear" else train.nystrom()
    )
    machine.classes_ = classes
    machine.model_ = machine.model(rows, prepared, machine.solution_)


class _Training(NamedTuple):
    """One call of :func:`fit`."""

    machine: BinaryMachine
    store: object
    weight: np.ndarray | None
    classes: list[int]
    total_weight: float
    plan: DiskPlan
    progress: ProgressCallback

    def linear(self):
        """The solution, what has the shape of the rows, and what a model needs of them."""
        W, found = None, []
        for column, problem in enumerate(self.problems()):
            one = self.solve(self.signs(*problem))
            if W is None:
                W = np.empty((len(one.w), len(self.problems())))
            W[:, column] = one.w
            # Of many classes these are the largest arrays: none is kept twice.
            found.append(one._replace(w=None))
        # Which examples they are is not kept, so that those of several problems are not known.
        count = found[0].support_count if len(found) == 1 else None
        solution = reduction.joined(found, W=W, support_count=count)
        return solution, self.store, self.prepared(np.zeros(0, dtype=int))

    def nystrom(self):
        """The same; the rows are the landmarks."""
        from odmtool.solvers.large.nystrom import basis_of

        machine, store = self.machine, self.store
        kernel = machine.kernel_for(store.shape[1])._replace(bias=max(machine.bias, 0.0))
        if kernel.bias:
            longest = store[np.array([store.largest_row])]
            kernels.refuse_huge_bias(kernel, kernels.largest_without_bias(kernel, longest))
        count = min(machine.settings.landmarks, store.shape[0])
        # The sample among which they are chosen is in memory while they are.
        most = max(count, rows_that_fit(store, self.plan.left, count))
        memory = min(machine.memory_limit(), landmark_memory(count, most))
        chosen = landmarks(kernel, store, count, seed=machine.seed, memory=memory)
        machine.captured_ = chosen.captured
        basis = basis_of(store, kernel, chosen, machine.tolerance)
        found = [self.solve(self.signs(*problem), basis) for problem in self.problems()]
        order = np.argsort(chosen.rows)
        A = np.column_stack([expansion(chosen.factor, f.w) for f in found])[order]
        rows = sparse.csr_matrix(store[chosen.rows[order]])
        used = int(np.count_nonzero(np.any(A != 0, axis=1)))
        solution = reduction.joined(found, coef=A, support_count=used)
        return solution._replace(solver="nystrom"), rows, self.prepared(chosen.rows[order])

    def problems(self) -> list[tuple[int, int | None]]:
        """The binary problems: which class is +1, and which -1."""
        return reduction.problems(len(self.classes), self.machine.reduction(len(self.classes)))

    def signs(self, first: int, second: int | None) -> dict:
        """The sign of every label in a problem; 0 takes no part."""
        rest = -1.0 if second is None else 0.0
        signs = dict.fromkeys(self.classes, rest) | {self.classes[first]: 1.0}
        return signs if second is None else signs | {self.classes[second]: -1.0}

    def solve(self, sign: dict, basis=None):
        """Solve one binary problem, of these signs of the labels."""
        machine, solver = self.machine, self.plan.solver
        bias = machine.bias if basis is None else -1.0
        factor = {label: (machine.class_weight or {}).get(label, 1.0) for label in self.classes}
        examples = Examples(self.store, sign, factor, self.weight, bias)
        if not examples.total_weight() > 0:
            raise DataError(messages.all_weights_zero())
        loss = machine.loss(self.total_weight)
        way = way_of(solver, loss.kind, machine.kernel, DISK)
        limit = way.limit if machine.max_iter is None else machine.max_iter
        stop = Stop(machine.tolerance, limit)
        if solver == "dcd":
            from odmtool.solvers.large import block_descent

            return block_descent.solve(
                examples, loss, stop, seed=machine.seed, together=self.plan.together,
                progress=self.progress,
            )  # fmt: skip
        executor = local_executor(self.plan.jobs)
        if loss.kind != SMOOTH:
            from odmtool.solvers.large import proximal_passes

            return proximal_passes.solve(
                examples, loss, stop, executor=executor, progress=self.progress
            )
        from odmtool.solvers.large import passes

        width = examples.shape[1] if basis is None else len(basis.factor)
        most = rows_that_fit(self.store, self.plan.left, NEWTON_NUMBERS)
        sample = sample_of(examples.shape[0], width, most, machine.seed)
        return passes.solve(
            examples, loss, stop, basis=basis, sample=sample, executor=executor,
            progress=self.progress,
        )  # fmt: skip

    def prepared(self, rows: np.ndarray) -> Prepared:
        """What a model needs to know of the examples that it keeps."""
        target = targets(labels_of(self.store, rows), self.classes)
        return Prepared(None, None, target, None, self.classes, slice(None), self.total_weight)
