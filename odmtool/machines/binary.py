"""The machines for two classes: one margin loss each, the rest they share.

All minimise 1/2 |w|^2 + the loss of the margins t_i = y_i <w, phi(x_i)>, where y = +1 is
the first class. Each class below says what its loss is and where it comes from; the
numbers are rows of :mod:`odmtool.losses`.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from odmtool import losses, messages, solvers
from odmtool.errors import DataError, UsageError
from odmtool.machines.base import Machine
from odmtool.machines.data import Prepared
from odmtool.models import KernelModel, LinearModel
from odmtool.solvers.base import Problem, ProgressCallback, Solution, ignore_progress


class BinaryMachine(Machine):
    """A machine with a loss of the margins; its parameters are those of :class:`Machine`."""

    def _row(self, lambda_: float, total_weight: float) -> losses.MarginLoss | losses.LDM:
        """The loss, for M = ``total_weight``."""
        raise NotImplementedError

    def loss(self, total_weight: float) -> losses.MarginLoss | losses.LDM:
        """The loss with this machine's parameters; raises UsageError."""
        loss = self._row(self.lambda_for(total_weight), total_weight)
        if not np.isfinite(losses.magnitude(loss) * self.heaviest() * total_weight):
            raise UsageError(messages.overflow())
        return loss

    def check(self) -> None:
        """Raise UsageError if a parameter is out of range; needs no data."""
        super().check()
        loss = self.loss(total_weight=1.0)
        solvers.check_kind(self.solver, loss, is_linear=self.kernel == "linear")

    def solve(
        self, prepared: Prepared, *, start=None, progress: ProgressCallback = ignore_progress
    ) -> Solution:
        """Solve with this machine's parameters, from the duals ``start`` of the kept rows."""
        return solvers.solve(
            self.problem(prepared), solver=self.solver, tolerance=self.tolerance,
            max_iter=self.max_iter, seed=self.seed, start=start, progress=progress,
        )  # fmt: skip

    def problem(self, prepared: Prepared) -> Problem:
        """What the solvers minimise."""
        loss = self.loss(prepared.total_weight)
        return Problem(prepared.rows, prepared.gram, prepared.y, prepared.u, loss)

    def classes_of(self, labels) -> list[int]:
        """The classes in their order; raises DataError if they are more than two."""
        classes = super().classes_of(labels)
        if len(classes) > 2:
            raise DataError(messages.two_classes_only(len(classes), self.name))
        return classes

    def decision_function(self, X) -> np.ndarray:
        """f(x) for every row of X, shape (m,); positive means ``classes_[0]``."""
        return self.model_.decision_values(sparse.csr_matrix(X))[:, 0]

    def model(self, X, prepared: Prepared, solution: Solution) -> LinearModel | KernelModel:
        """The model that a solution makes of the rows of X."""
        facts, classes = self.facts(prepared, solution), prepared.classes
        if self.kernel == "linear":
            d = X.shape[1]
            bias_row = solution.w[d:] if self.bias >= 0 else None
            bias = float(self.bias) if self.bias >= 0 else -1.0
            weights = solution.w[:d].reshape(-1, 1)
            return LinearModel(classes, weights, bias, bias_row, facts=facts)
        # LIBSVM's order: the support vectors of the first class come first.
        y, support = prepared.y, np.flatnonzero(solution.coef)
        support = support[np.argsort(-y[support], kind="stable")]
        coef = (y * solution.coef)[support]
        rho = -(max(self.bias, 0.0) ** 2) * coef.sum()
        positive = int((y[support] > 0).sum())
        vectors = sparse.csr_matrix(X[prepared.kept[support]])
        if self.kernel == "precomputed":
            vectors = sparse.csr_matrix(vectors[:, [0]])
        kernel, counts = self.kernel_for(X.shape[1]), [positive, len(support) - positive]
        if len(classes) == 1:
            # As svm-train writes it: the one class needs no values.
            return KernelModel(
                classes, kernel, vectors[:0], np.zeros((0, 0)), np.zeros(0), [0], facts=facts
            )
        return KernelModel(
            classes, kernel, vectors, coef[:, None], np.array([rho]), counts, facts=facts
        )


class ODM(BinaryMachine):
    """Binary optimal margin distribution machine.

    Problem: 1/2 |w|^2 + c1 sum_i u_i max(0, 1-theta-t_i)^2 + c2 sum_i u_i max(0, t_i-1-theta)^2,
    c1 = lambda / (M (1-theta)^2), c2 = mu c1.
    Source: Zhang & Zhou, TKDE 2019, eq. (9).
    """

    name = "odm"

    def _row(self, lambda_, total_weight):
        return losses.odm(lambda_, self.mu, self.theta, total_weight)


class LDM(BinaryMachine):
    """Large margin distribution machine, also called ODM^L.

    Problem: 1/2 |w|^2 + mu1 var(t) - mu2 mean(t) + (lambda/M) sum_i u_i max(0, 1-t_i).
    Source: Zhang & Zhou, KDD 2014; TKDE 2019, section 3.1.
    """

    name = "ldm"

    def _row(self, lambda_, total_weight):
        return losses.ldm(self.mu1, self.mu2, lambda_, total_weight)


class L1SVM(BinaryMachine):
    """Support vector machine: the loss (lambda/M) sum_i u_i max(0, 1-t_i)."""

    name = "l1svm"

    def _row(self, lambda_, total_weight):
        return losses.l1svm(lambda_, total_weight)


class L2SVM(BinaryMachine):
    """Support vector machine with the squared hinge (lambda/M) sum_i u_i max(0, 1-t_i)^2."""

    name = "l2svm"

    def _row(self, lambda_, total_weight):
        return losses.l2svm(lambda_, total_weight)


class LSSVM(BinaryMachine):
    """Least squares support vector machine: the loss (lambda/M) sum_i u_i (1-t_i)^2."""

    name = "lssvm"

    def _row(self, lambda_, total_weight):
        return losses.lssvm(lambda_, total_weight)


class SVR(BinaryMachine):
    """Support vector regression on +-1: the loss (lambda/M) sum_i u_i max(0, |1-t_i| - theta)."""

    name = "svr"

    def _row(self, lambda_, total_weight):
        return losses.svr(lambda_, self.theta, total_weight)


class MAMC(BinaryMachine):
    """Maximal average margin classifier: the loss -(lambda/M) sum_i u_i t_i."""

    name = "mamc"

    def _row(self, lambda_, total_weight):
        return losses.mamc(lambda_, total_weight)
