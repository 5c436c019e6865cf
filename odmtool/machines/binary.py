"""The machines for two classes: one loss each, the rest they share.

All minimise 1/2 |w|^2 + the loss of the margins t_i = y_i <w, phi(x_i)>, where y = +1 is
the first class. Each class is made of a row of :mod:`odmtool.core.loss_table`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from odmtool import messages, solvers
from odmtool.core import deadline, loss_table, losses
from odmtool.core.loss_table import OF_KMOMD, OF_LDM, SMOOTH
from odmtool.defaults import MOST_IN_PAIRS, MOST_LDM_IN_PAIRS, MULTICLASS
from odmtool.errors import DivergedError, MemoryLimitError, UsageError
from odmtool.machines.base import Machine, machine
from odmtool.machines.data import Prepared
from odmtool.solvers import table
from odmtool.solvers.base import (
    Problem,
    ProgressCallback,
    Solution,
    ignore_progress,
    path_bytes,
    without_examples,
)
from odmtool.solvers.table import IN_PARTS

if TYPE_CHECKING:
    from odmtool.solvers.multi import MultiSolution

# Solvers that take the rows of a smooth linear problem as they come from a file.
_LIGHT = ("auto", "newton", "dcd")


@machine
class BinaryMachine(Machine):
    """A machine with a loss of the margins.

    Parameters
    ----------
    multiclass : {"auto", "ovr", "ovo", "ecoc"}
        How it takes more than two classes (:meth:`reduction`).
    most_in_pairs : float
        With a kernel ``auto`` takes up to so many in pairs
        (:func:`odmtool.machines.data.most_in_pairs`).
    jobs : int
        Threads for the binary problems of these, and for parts of the data.
    **others
        Those of :class:`Machine`.
    """

    multiclass: str = "auto"
    most_in_pairs: float = MOST_IN_PAIRS
    jobs: int = 1

    def loss(self, total_weight: float) -> losses.MarginLoss | losses.LDM:
        """The loss with this machine's parameters; raises UsageError."""
        parameters = {name: getattr(self, name) for name in self.row.parameters}
        parameters["lambda_"] = self.lambda_for(total_weight)
        loss = self.row.loss(**parameters, total_weight=total_weight)
        if not np.isfinite(losses.magnitude(loss) * self.heaviest() * total_weight):
            raise DivergedError(messages.overflow())
        return loss

    def check(self) -> None:
        """Raise UsageError if a parameter is out of range; needs no data."""
        super().check()
        if self.multiclass not in MULTICLASS:
            raise UsageError(messages.unknown_multiclass(self.multiclass, MULTICLASS))
        if self.kind == OF_KMOMD and self.bias >= 0:
            raise UsageError(messages.machine_has_intercept(self.name))
        table.way_of(self.solver, self.kind, self.kernel)

    @property
    def kind(self) -> str:
        return self.loss(total_weight=1.0).kind

    def takes_compressed(self, k: int) -> bool:
        return self.kernel == "linear" and k <= 2 and self.kind == SMOOTH and self.solver in _LIGHT

    def facts(self, prepared: Prepared, solution) -> dict[str, str]:
        facts, classes = super().facts(prepared, solution), prepared.classes
        if len(classes) > 2 and self.reduction(len(classes)) == "ecoc":
            from odmtool.machines import codes

            words = codes.spelled(codes.code(len(classes), self.seed))
            facts |= {f"code_{name}": word for name, word in zip(classes, words, strict=True)}
        if self.solver not in IN_PARTS:
            return facts
        from odmtool.solvers.large import scale

        return facts | scale.facts(self)

    def solve(
        self, prepared: Prepared, *, start=None, progress=ignore_progress
    ) -> Solution | MultiSolution:
        if len(prepared.classes) > 2:
            from odmtool.machines import reduction

            return reduction.solve(self, prepared, start, progress)
        return self.solve_part(self.problem(prepared), start, progress)

    def problem(self, prepared: Prepared) -> Problem:
        """What the solvers minimise."""
        loss = self.loss(prepared.total_weight)
        return Problem(prepared.rows, prepared.gram, prepared.y, prepared.u, loss)

    def start_from(self, model, X, labels, weight=None, *, seen=None) -> np.ndarray:
        """Duals from which a fit goes on where a model stands: eta = -l'(t) at its margins t.

        Raises UsageError: there are other classes, or the loss is not smooth.

        Parameters
        ----------
        model : LinearModel or KernelModel
            Of the same two classes.
        X, labels, weight
            As those of :meth:`fit`.
        seen : csr_matrix, optional
            The rows as the model takes them, if that is not X (which was scaled).
        """
        prepared = self.prepare(X, labels, weight)
        classes = prepared.classes
        if self.kind != SMOOTH:
            raise UsageError(messages.cannot_start_from(self.name))
        if len(classes) != 2 or set(model.labels) != set(classes):
            raise UsageError(messages.start_of_other_classes(classes, model.labels))
        values = model.decision_values(X if seen is None else seen)[prepared.kept, 0]
        t = prepared.y * (values if model.labels[0] == classes[0] else -values)
        return -losses.derivative(losses.scaled(self.loss(prepared.total_weight), prepared.u), t)

    def solve_part(
        self, problem: Problem, start, progress: ProgressCallback, is_one_of_many: bool = False
    ) -> Solution:
        """Solve one binary problem, if there is time; see :func:`odmtool.solvers.auto.choose`."""
        if not problem.size:
            return without_examples(problem)
        # A start is better than nothing.
        if start is None and deadline.is_over():
            from odmtool.solvers.untrained import untrained

            self.captured_, self.levels_ = 0.0, []  # what solvers in parts tell
            return untrained(problem)
        if self.solver in IN_PARTS:
            from odmtool.solvers.large import scale

            return scale.solve(self, problem, start, progress)
        if self.solver == "path" and problem.gram is None:
            needed, memory = path_bytes(problem.size), self.memory_limit()
            if needed > memory:
                raise MemoryLimitError(messages.matrix_too_large(problem.size, needed, memory))
        return solvers.solve(
            problem, solver=self.solver, tolerance=self.tolerance, max_iter=self.max_iter,
            seed=self.seed, settings=self.settings, start=start, progress=progress, jobs=self.jobs,
            is_one_of_many=is_one_of_many,
        )  # fmt: skip

    def decides_by_votes(self, k: int) -> bool:
        return k > 2 and self.reduction(k) == "ovo"

    def reduction(self, k: int) -> str:
        """How it takes k > 2 classes: ovr, ovo or ecoc (:mod:`odmtool.machines.reduction`).

        auto is ovo with a kernel, which is more accurate and faster, and whose models do not repeat
        a vector for every class (docs/defaults.md), and ovr without, with many classes that
        are not small, or of wide data, and for the form of a model with one function per class.
        """
        if self.multiclass != "auto":
            return self.multiclass
        has_pairs = self.kernel != "linear" and self.model_format != "compact"
        most = self.most_in_pairs
        if self.kind != SMOOTH:  # whose small pairs are solved together
            most = min(most, MOST_LDM_IN_PAIRS if self.kind == OF_LDM else MOST_IN_PAIRS)
        return "ovo" if has_pairs and k <= most else "ovr"

    def decision_function(self, X) -> np.ndarray:
        """f(x) for every row of X, shape (m,), of two classes; positive means ``classes_[0]``."""
        from scipy import sparse

        return self.model_.decision_values(sparse.csr_matrix(X))[:, 0]


@cache
def machine_of(name: str) -> type[BinaryMachine]:
    """The class of a row of the table, which :mod:`odmtool.machines` has under its name."""
    row = loss_table.MACHINES[name]
    formula = row.formula.replace("\n", "\n    ")
    text = f"{row.name}: {row.about}\n\n    Minimises 1/2 |w|^2 +\n\n        {formula}\n    "
    members = {"name": row.name, "__doc__": text, "__module__": "odmtool.machines"}
    return machine(type(row.name.upper(), (BinaryMachine,), members))
