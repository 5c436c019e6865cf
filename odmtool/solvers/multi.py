"""What every multi-class solver takes and gives.

The classifier answers with the class l whose f_l(x) = <w_l, phi(x)> is largest. Classes
are numbered 0..k-1; everything of example i is multiplied by its weight u_i.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool.core.gram import Gram

# Here, because way.py needs them, which their file imports.
LARGEST_FACTOR, LARGEST_BLOCKS = 1000, 2e7
"""Newton's method for mcODM factors the whole Hessian up to this d k, its diagonal blocks up to
this k d d."""

LARGEST_FEATURES, FEATURE_MATRICES = 3000, 4
"""Up to so many examples a kernel problem of mcODM gets features, and with them so many matrices of
all pairs: features twice, kernel values, and one on the way."""

LARGEST_FEATURE_FACTOR = 2000
"""Of these and of other dense rows, up to so many unknowns, the whole Hessian is factored."""

MOST_DUALS = 2000
"""Of so many examples, and so many duals that are not at a bound, Newton's method for mcODM solves
its systems among these."""

LARGEST_WEIGHTS = 1000
"""The most weights, features times classes, of Newton's method for Crammer and Singer's machine."""


def margins_of(scores: np.ndarray, target: np.ndarray) -> np.ndarray:
    """f_y(x) - max over l != y of f_l(x) for every example, shape (m,)."""
    examples, others = np.arange(len(target)), scores.copy()
    others[examples, target] = -np.inf
    return scores[examples, target] - others.max(axis=1)


class MultiProblem(NamedTuple):
    """A multi-class problem: linear if ``gram`` is None, otherwise known by its kernel values."""

    # CSR, csr_matrix or ndarray, shape (m, d), or None: rows of a linear problem (a CSR for mcODM
    # only); a constant feature (``-B``) is its last column.
    X: object
    gram: Gram | None  # kernel values of a kernel problem
    target: np.ndarray  # integers, shape (m,): the class of each example, 0..k-1
    k: int  # >= 2: number of classes; one that has no example is allowed
    weight: np.ndarray  # shape (m,): u_i > 0
    # Of the machine, scalars only: for mcODM :class:`odmtool.core.losses.MulticlassODMLoss`.
    parameters: tuple

    @property
    def size(self) -> int:
        return len(self.target)

    @property
    def kernel_name(self) -> str:
        """The name of the kernel; "linear" for a linear problem."""
        return "linear" if self.gram is None else self.gram.kernel.name


class Duals(NamedTuple):
    """Dual variables of a sub-problem of mcODM; they prove its gap and start another training."""

    # Shape (m, k): of the constraints from below: rows sum to 0 and only the example's class is
    # positive.
    alpha: np.ndarray
    beta: np.ndarray  # shape (m,): of the constraint from above, >= 0
    # Integers, shape (m,): the class l*_i of that constraint; -1 if it names none.
    rival: np.ndarray
    # Shape (m,): its right-hand side; infinite if there is no constraint from above.
    upper: np.ndarray

    @staticmethod
    def of_nothing(m: int, k: int) -> Duals:
        """Those of W = 0, which name no rivals."""
        unnamed = np.full(m, -1, dtype=np.int64)
        return Duals(np.zeros((m, k)), np.zeros(m), unnamed, np.full(m, np.inf))

    def copy(self) -> Duals:
        """The same in arrays of their own."""
        return Duals(*(np.array(field, order="C") for field in self))

    def coefficients(self, target: np.ndarray) -> np.ndarray:
        """C of w_l = sum_i C_il phi(x_i), shape (m, k)."""
        coef = self.alpha.copy()
        above = np.flatnonzero(self.beta)
        beta, rival = self.beta[above], self.rival[above]
        coef[above, target[above]] -= beta
        named = rival >= 0
        coef[above[named], rival[named]] += beta[named]
        return coef


class Round(NamedTuple):
    """The state after a round of an outer loop."""

    number: int
    epochs: int  # passes over the data so far
    objective: float  # the true one
    gap: float  # relative, of the round's sub-problem


class MultiSolution(NamedTuple):
    """What a multi-class solver found."""

    W: np.ndarray | None  # shape (d, k): weights of a linear problem
    # Shape (m, k): for a kernel problem w_l = sum_i coef_il phi(x_i); for pairs of classes
    # (m, k - 1) as :class:`odmtool.models.kernel.KernelModel` has it.
    coef: np.ndarray | None
    objective: float
    # How far the objective may be from the best, relative to the objective itself; for mcODM the
    # best of the last convex sub-problem.
    gap: float
    iterations: int
    converged: bool  # the solver's stopping rule is met
    solver: str
    optimal: bool = True  # False if a small gap shows a stationary point only
    bias: np.ndarray | None = None  # shape (k,): class biases, of machines that have them
    duals: Duals | tuple | None = None  # Duals, or ndarrays of the binary problems
    rounds: tuple[Round, ...] = ()  # the course of an outer loop, empty without one
    # Examples with a nonzero coefficient; None where the solver has no duals.
    support_count: int | None = None
    # Norm of the objective's gradient, relative to that at zero, of solvers whose stopping rule it
    # is.
    gradient: float | None = None
    # Where the gap is a bound: the probability with which it may be wrong.
    failure: float | None = None
    # problems, untrained: of binary problems: how many there are, and for how many there was no
    # time.
    problems: int = 1
    untrained: int = 0

    @property
    def distance(self) -> float:
        """How far the objective may be from the best.

        Relative gaps are all about 1 where solutions are far off, and do not tell which is nearer.
        """
        return self.gap * abs(self.objective)

    @property
    def primal(self) -> float:
        """The objective, by the name that it has in a binary solution."""
        return self.objective

    @property
    def warm_start(self):
        """What another solver starts from."""
        return self.duals
