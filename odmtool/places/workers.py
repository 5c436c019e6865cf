"""Training on rows that workers have read and keep (:mod:`odmtool.rows.spread`).

The same as :meth:`Machine.fit`, but that rows are prepared where they are, and only those
that the model needs come here.
"""

from __future__ import annotations

import numpy as np

from odmtool import messages
from odmtool.defaults import LARGE_SOLVERS
from odmtool.errors import UsageError
from odmtool.machines.base import Machine
from odmtool.machines.data import Prepared, class_order, targets, weights_in_use
from odmtool.rows import spread
from odmtool.solvers.base import ProgressCallback, ignore_progress


def check(machine: Machine) -> None:
    """Raise UsageError if the machine needs the rows in one place."""
    if machine.solver not in LARGE_SOLVERS:
        raise UsageError(messages.files_need_solver(LARGE_SOLVERS))
    if machine.multiclass == "ovo":
        raise UsageError(messages.files_need_ovr())


def fit(
    machine: Machine, X: spread.SpreadRows, labels, weight=None, *,
    progress: ProgressCallback = ignore_progress,
) -> Machine:  # fmt: skip
    """Train.

    Parameters
    ----------
    machine : Machine
        Checked by :func:`check`.
    X : SpreadRows, shape (m, d)
    labels : int array, shape (m,)
    weight : ndarray, shape (m,), optional
    progress : callable

    Raises
    ------
    UsageError, DataError, MemoryLimitError, DivergedError, ClusterError
    """
    machine.check()
    machine.check_format(len(np.unique(labels)))
    prepared = prepare(machine, X, labels, weight)
    solution = machine.solve(prepared, progress=progress)
    machine.solution_, machine.classes_ = solution, prepared.classes
    if machine.kernel != "linear":
        coef = solution.coef if solution.coef.ndim == 1 else np.abs(solution.coef).max(axis=1)
        X = X.rows_with(prepared.kept[np.flatnonzero(coef)])
    machine.model_ = machine.model(X, prepared, solution)
    return machine


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
