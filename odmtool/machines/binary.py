"""The machines for two classes: one margin loss each, the rest they share.

All minimise 1/2 |w|^2 + the loss of the margins t_i = y_i <w, phi(x_i)>, where y = +1 is
the first class. Each class below says what its loss is and where it comes from; the
numbers are rows of :mod:`odmtool.core.losses`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from scipy import sparse

from odmtool import messages, solvers
from odmtool.core import losses
from odmtool.defaults import LARGE_SOLVERS, MACHINES
from odmtool.errors import UsageError
from odmtool.machines import reduction
from odmtool.machines.base import Machine, machine
from odmtool.machines.data import Prepared
from odmtool.solvers.base import Problem, ProgressCallback, Solution, ignore_progress
from odmtool.solvers.large import scale as scaling_out
from odmtool.solvers.multi import MultiSolution


@machine
class BinaryMachine(Machine):
    """A machine with a loss of the margins.

    Parameters
    ----------
    multiclass : {"ovr", "ovo"}
        How it takes more than two classes (:mod:`odmtool.machines.reduction`).
    jobs : int
        Threads for the binary problems of these, and for parts of the data.
    **others
        Those of :class:`Machine`.
    """

    row: ClassVar[Callable[..., losses.MarginLoss | losses.LDM]]
    """The loss, from the machine's parameters and M, the total weight."""

    multiclass: str = "ovr"
    jobs: int = 1

    def loss(self, total_weight: float) -> losses.MarginLoss | losses.LDM:
        """The loss with this machine's parameters; raises UsageError."""
        parameters = {name: getattr(self, name) for name in MACHINES[self.name]}
        parameters["lambda_"] = self.lambda_for(total_weight)
        loss = self.row(**parameters, total_weight=total_weight)
        if not np.isfinite(losses.magnitude(loss) * self.heaviest() * total_weight):
            raise UsageError(messages.overflow())
        return loss

    def check(self) -> None:
        """Raise UsageError if a parameter is out of range; needs no data."""
        super().check()
        loss = self.loss(total_weight=1.0)
        if self.solver in LARGE_SOLVERS:
            scaling_out.check(self.solver, loss, self.kernel, self.settings)
            return
        solvers.check_kind(self.solver, loss, is_linear=self.kernel == "linear")

    def is_smooth(self) -> bool:
        """Whether Newton's method serves."""
        return solvers.is_smooth(self.loss(total_weight=1.0))

    def facts(self, prepared: Prepared, solution) -> dict[str, str]:
        """What the model file records about how the model was made."""
        return super().facts(prepared, solution) | scaling_out.facts(self)

    def solve(
        self, prepared: Prepared, *, start=None, progress: ProgressCallback = ignore_progress
    ) -> Solution | MultiSolution:
        """Solve with this machine's parameters, from the duals ``start`` of the kept rows."""
        if len(prepared.classes) > 2:
            return reduction.solve(self, prepared, start, progress)
        return self.solve_part(self.problem(prepared), start, progress)

    def problem(self, prepared: Prepared) -> Problem:
        """What the solvers minimise."""
        loss = self.loss(prepared.total_weight)
        return Problem(prepared.rows, prepared.gram, prepared.y, prepared.u, loss)

    def solve_part(self, problem: Problem, start, progress: ProgressCallback) -> Solution:
        """Solve one binary problem."""
        if self.solver in LARGE_SOLVERS:
            return scaling_out.solve(self, problem, start, progress)
        return solvers.solve(
            problem, solver=self.solver, tolerance=self.tolerance, max_iter=self.max_iter,
            seed=self.seed, settings=self.settings, start=start, progress=progress,
        )  # fmt: skip

    def decides_by_votes(self, k: int) -> bool:
        """Whether there is a decision function for each pair of the k classes."""
        return k > 2 and self.multiclass == "ovo"

    def decision_function(self, X) -> np.ndarray:
        """f(x) for every row of X, shape (m,), of two classes; positive means ``classes_[0]``."""
        return self.model_.decision_values(sparse.csr_matrix(X))[:, 0]


@machine
class ODM(BinaryMachine):
    """Binary optimal margin distribution machine.

    Problem: 1/2 |w|^2 + c1 sum_i u_i max(0, 1-theta-t_i)^2 + c2 sum_i u_i max(0, t_i-1-theta)^2,
    c1 = lambda / (M (1-theta)^2), c2 = mu c1.
    Source: Zhang & Zhou, TKDE 2019, eq. (9).
    """

    name = "odm"
    row = staticmethod(losses.odm)

    lambda_: float = MACHINES["odm"]["lambda_"]
    mu: float = MACHINES["odm"]["mu"]
    theta: float = MACHINES["odm"]["theta"]


@machine
class LDM(BinaryMachine):
    """Large margin distribution machine, also called ODM^L.

    Problem: 1/2 |w|^2 + mu1 var(t) - mu2 mean(t) + (lambda/M) sum_i u_i max(0, 1-t_i).
    Source: Zhang & Zhou, KDD 2014; TKDE 2019, section 3.1.
    """

    name = "ldm"
    row = staticmethod(losses.ldm)

    lambda_: float = MACHINES["ldm"]["lambda_"]
    mu1: float = MACHINES["ldm"]["mu1"]
    mu2: float = MACHINES["ldm"]["mu2"]


@machine
class L1SVM(BinaryMachine):
    """Support vector machine: the loss (lambda/M) sum_i u_i max(0, 1-t_i)."""

    name = "l1svm"
    row = staticmethod(losses.l1svm)

    lambda_: float = MACHINES["l1svm"]["lambda_"]


@machine
class L2SVM(BinaryMachine):
    """Support vector machine with the squared hinge (lambda/M) sum_i u_i max(0, 1-t_i)^2."""

    name = "l2svm"
    row = staticmethod(losses.l2svm)

    lambda_: float = MACHINES["l2svm"]["lambda_"]


@machine
class LSSVM(BinaryMachine):
    """Least squares support vector machine: the loss (lambda/M) sum_i u_i (1-t_i)^2."""

    name = "lssvm"
    row = staticmethod(losses.lssvm)

    lambda_: float = MACHINES["lssvm"]["lambda_"]


@machine
class SVR(BinaryMachine):
    """Support vector regression on +-1: the loss (lambda/M) sum_i u_i max(0, |1-t_i| - theta)."""

    name = "svr"
    row = staticmethod(losses.svr)

    lambda_: float = MACHINES["svr"]["lambda_"]
    theta: float = MACHINES["svr"]["theta"]


@machine
class MAMC(BinaryMachine):
    """Maximal average margin classifier: the loss -(lambda/M) sum_i u_i t_i."""

    name = "mamc"
    row = staticmethod(losses.mamc)

    lambda_: float = MACHINES["mamc"]["lambda_"]
