"""The machines that take any number of classes at once: a score per class, the largest wins.

A score is f_l(x) = <w_l, phi(x)>, for M3SVM and ISM3 + b_l; at a tie the first class wins.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np

from odmtool import messages
from odmtool.core import kernel_table, losses
from odmtool.errors import DivergedError, UsageError
from odmtool.machines.base import Machine, machine
from odmtool.machines.data import Prepared
from odmtool.rows.executor import local_executor
from odmtool.solvers import table
from odmtool.solvers.base import Stop, ignore_progress
from odmtool.solvers.mcodm.way import takes_landmarks
from odmtool.solvers.multi import MultiProblem, MultiSolution


class MulticlassMachine(Machine):
    """A machine with one score per class; its parameters are those of :class:`Machine`."""

    def parameters(self, total_weight: float):
        """What the solver is given, for M = ``total_weight``; raises UsageError."""
        raise NotImplementedError

    @property
    def kind(self) -> str:
        return self.parameters(1.0).kind

    def check(self) -> None:
        """Raise UsageError if a parameter is out of range; needs no data."""
        super().check()
        table.way_of(self.solver, self.kind, self.kernel)
        numbers = [n for n in self.parameters(1.0) if not isinstance(n, str)]
        if not np.all(np.isfinite(np.array(numbers) * self.heaviest())):
            raise DivergedError(messages.overflow())

    def solve(self, prepared: Prepared, *, start=None, progress=ignore_progress) -> MultiSolution:
        """Solve with this machine's parameters."""
        # A second class without examples, for data that have one only.
        k = max(2, len(prepared.classes))
        problem = MultiProblem(
            prepared.rows, prepared.gram, prepared.target, k, prepared.u,
            self.parameters(prepared.total_weight),
        )  # fmt: skip
        way = table.way_of(self.solver, self.kind, self.kernel)
        limit = way.limit if self.max_iter is None else self.max_iter
        solver = import_module(f"odmtool.solvers.{way.module}")
        return solver.solve(
            problem, Stop(self.tolerance, limit), seed=self.seed, start=start, progress=progress,
            **self.settings.read_by(way.reads), **self._extra(),
        )  # fmt: skip

    def _extra(self) -> dict:
        """What else the solver is told."""
        return {}


@machine
class MCODM(MulticlassMachine):
    """Multi-class optimal margin distribution machine.

    Problem: 1/2 sum_l |w_l|^2 + c1 sum_i u_i max(0, 1-theta-g_i)^2
    + c2 sum_i u_i max(0, g_i-1-theta)^2, g_i = f_y(x_i) - max over l != y of f_l(x_i).
    Source: Zhang & Zhou, TKDE 2019, section 4. ``jobs`` threads train.
    """

    name = "mcodm"
    jobs: int = 1

    def parameters(self, total_weight: float) -> losses.MulticlassODMLoss:
        """The loss."""
        return losses.mcodm(self.lambda_for(total_weight), self.mu, self.theta, total_weight)

    def takes_compressed(self, k: int) -> bool:
        return self.kernel == "linear"

    def takes_landmarks(self, m: int) -> bool:
        if self.solver != "auto" or self.kernel == "linear" or self.settings.outer != "cccp":
            return self.solver == "landmarks"
        return takes_landmarks(self.kernel_for(1), m, self.memory_limit())

    def _extra(self) -> dict:
        own = {"solver": self.solver, "executor": local_executor(self.jobs)}
        return own | ({"starts": 1} if self.is_trial else {})


@machine
class MCSVM(MulticlassMachine):
    """Multi-class support vector machine.

    Problem: 1/2 sum_l |w_l|^2 + C sum_i u_i max(0, 1 - g_i), C = lambda / M and g_i as that of
    :class:`MCODM`. Source: Crammer & Singer, JMLR 2001.
    """

    name = "mcsvm"

    def parameters(self, total_weight: float) -> losses.MulticlassHinge:
        """The loss."""
        return losses.mcsvm(self.lambda_for(total_weight), total_weight)


class _PairwiseMachine(MulticlassMachine):
    """M3SVM and ISM3: linear, with class biases, and a power of |w_k - w_l| as regulariser."""

    def check(self) -> None:
        if kernel_table.row_of(self.kernel).name != "linear":
            raise UsageError(messages.machine_is_linear(self.name))
        if self.bias >= 0:
            raise UsageError(messages.machine_has_biases(self.name))
        super().check()

    def lambda_for(self, total_weight: float) -> float:
        """lambda, the weight of the regulariser, or 1 / ``cost``."""
        return self.lambda_ if self.cost is None else 1 / self.cost

    @property
    def loss_weight(self) -> float:
        """Grows with the weight of the loss."""
        return 1 / self.lambda_ if self.cost is None else self.cost

    def parameters(self, total_weight: float):
        """The objective's."""
        from odmtool.solvers.m3svm.objective import M3SVMParameters, check_parameters

        loss = getattr(self, "ism3_loss", "hinge")
        parameters = M3SVMParameters(loss, self.lambda_for(total_weight), self.power)
        check_parameters(parameters)
        return parameters


@machine
class M3SVM(_PairwiseMachine):
    """Multi-class support vector machine with the maximal minimum margin.

    Problem: sum_i u_i sum_{l != y} g(1 - f_y + f_l) + lambda sum_{k<l} |w_k - w_l|^p, g the
    hinge, smoothed. Source: Hao et al., AAAI 2024.
    """

    name = "m3svm"


@machine
class ISM3(_PairwiseMachine):
    """Logistic regression with M3SVM's regulariser.

    Problem: sum_i u_i times the pairwise logistic loss (eq. 32) or the softmax loss,
    + lambda sum_{k<l} |w_k - w_l|^p; ``ism3_loss`` is "pairwise", as in the paper,
    or "softmax", as in its authors' script. Source: Hao et al., AAAI 2024.
    """

    name = "ism3"

    ism3_loss: str = "pairwise"
