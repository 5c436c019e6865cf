"""Rows that the workers of a cluster have read and keep (:mod:`odmtool.rows.spread`).

``--scheduler`` with the names of several files: rows are prepared where they are, and only
those that the model needs come here.
"""

from __future__ import annotations

import numpy as np

from odmtool import messages
from odmtool.core.gram import BYTES
from odmtool.core.memory import CLASS_WEIGHTS
from odmtool.errors import UsageError
from odmtool.io.files import display_name
from odmtool.io.several import read_several, widest_line_of
from odmtool.io.widest import locate_among
from odmtool.machines.base import Machine
from odmtool.machines.data import Prepared, class_order, targets, too_wide, weights_in_use
from odmtool.places.place import MemoryPlan, Place, Source, TrainingData
from odmtool.rows import spread
from odmtool.solvers.base import ignore_progress
from odmtool.solvers.large import tasks
from odmtool.solvers.large.scale import executor_for
from odmtool.solvers.table import WORKERS, way_of


class Workers(Place):
    """See :mod:`odmtool.places.workers`.

    Parameters
    ----------
    source : Source
        ``path`` are the files, as :mod:`odmtool.io.several` takes them.
    scheduler : str
        Address of a Dask scheduler, or its file.
    """

    def __init__(self, source: Source, scheduler: str):
        super().__init__(source)
        self._scheduler, self._executor, self._widest = scheduler, None, ""

    def suited(self, machine: Machine) -> Machine:
        """See :meth:`Place.suited`; one that needs the rows in one place is refused."""
        way_of(machine.solver, machine.kind, machine.kernel, WORKERS)
        if machine.multiclass not in ("auto", "ovr"):
            raise UsageError(messages.files_need_ovr(machine.multiclass))
        return machine.copy(multiclass="ovr")

    def refuse(self, wish: str) -> None:
        """Raise UsageError: the rows are elsewhere, and ``wish`` needs them here."""
        raise UsageError(messages.files_are_elsewhere(wish))

    def inputs(self) -> list[str]:
        return [] if self.source.weights is None else [self.source.weights]

    def model_name(self) -> str:
        """None: several files have no one name."""
        raise UsageError(messages.name_the_model_of_files())

    def rows(self, note, _detail) -> TrainingData:
        """The examples, X a SpreadRows."""
        source = self.source
        self._executor = executor_for(self._scheduler, source.jobs, source.memory)
        found = read_several(source.path, self._executor, zero_based=source.zero_based)
        X = spread.SpreadRows(found.pieces, found.sizes, found.width, found.nnz, self._executor)
        self._widest = found.widest
        note(messages.files_read(len(found.sizes), found.empty, *X.shape))
        labels = frozenset(np.unique(found.labels).tolist())
        return TrainingData(
            X, found.labels, found.fingerprint, found.skipped, labels, labels,
            names=found.names,
        )  # fmt: skip

    def close(self) -> None:
        """Leave the cluster."""
        if self._executor is not None:
            self._executor.close()

    def plan(self, machine: Machine, data: TrainingData) -> MemoryPlan:
        """Bytes by purpose of a task on a worker."""
        return MemoryPlan(messages.task_needs(tasks.needs(machine, data.X)))

    def fit(
        self, machine: Machine, data: TrainingData, _plan=None, progress=ignore_progress
    ) -> None:
        X = data.X
        machine.check()
        machine.check_format(len(data.classes))
        if machine.kernel == "linear":
            self._refuse_too_wide(X.shape[1], machine.memory_limit())
        prepared = prepare(machine, X, data.labels, data.weight)
        solution = machine.solve(prepared, progress=progress)
        machine.solution_, machine.classes_ = solution, prepared.classes
        if machine.kernel != "linear":
            coef = solution.coef if solution.coef.ndim == 1 else np.abs(solution.coef).max(axis=1)
            X = X.rows_with(prepared.kept[np.flatnonzero(coef)])
        machine.model_ = machine.model(X, prepared, solution)

    def _refuse_too_wide(self, width: int, memory: float) -> None:
        """As for rows in memory; the line is looked for where the files are."""
        needed = BYTES * CLASS_WEIGHTS * width
        if needed > memory:
            error, name = too_wide(width, None, needed, memory), self._widest
            error.file = display_name(name)
            locate_among(error, [(name, self._executor.map(widest_line_of, [name])[0])])
            raise error


def prepare(machine: Machine, X: spread.SpreadRows, labels, weight) -> Prepared:
    """See :meth:`Machine.prepare`; rows of weight zero have to be left out of the files."""
    classes = class_order(labels)
    weight = np.ones(len(labels)) if weight is None else np.asarray(weight, dtype=float)
    used, u = weights_in_use(labels, weight, machine.class_weight)
    if used is not None:
        raise UsageError(messages.files_need_weights())
    rows, gram = None, None
    if machine.kernel == "linear":
        rows = spread.with_constant_feature(X, machine.bias)
    else:
        kernel = machine.kernel_for(X.shape[1])._replace(bias=max(machine.bias, 0.0))
        gram = spread.gram_of(kernel, X, machine.memory_limit())
    spread.refuse_huge_values(rows or gram.X, machine.kernel_for(X.shape[1]))
    kept, total = np.arange(len(labels)), float(weight.sum())
    return Prepared(rows, gram, targets(labels, classes), u, classes, kept, total)
