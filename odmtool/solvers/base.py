"""What every solver takes and gives.

A solver minimises

    P(w) = 1/2 |w|^2 + sum_i u_i l(t_i),    t_i = y_i <w, phi(x_i)>

and stops when the relative duality gap (P - D) / S is at most the tolerance
(see :mod:`odmtool.judge.binary` for D and S). It prints nothing and knows no file, and is a
function ``solve(problem, stop, *, seed, start, progress) -> Solution``:

problem, stop   a Problem and a Stop, whose ``max_iter`` counts the solver's own iterations
seed            of all that is drawn: the same seed gives the same solution
start           dual variables, shape (m,), or None
progress        called with a Progress after every iteration, so that the caller can report, or
                stop it by raising

All raise DivergedError where numbers overflow, or the kernel is not positive semidefinite and the
dual unbounded. A solver says what it takes otherwise, or besides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from odmtool.core import deadline, losses
from odmtool.core.gram import BYTES, Gram
from odmtool.core.losses import MarginLoss
from odmtool.solvers.table import LDM_MATRICES


class Problem(NamedTuple):
    """A binary problem: linear if ``gram`` is None, otherwise known by its kernel values."""

    # CSR, csr_matrix or ndarray, shape (m, d), or None: rows of a linear problem; a constant
    # feature (``-B``) is its last column.
    X: object
    gram: Gram | None  # kernel values of a kernel problem
    y: np.ndarray  # +1.0 and -1.0, shape (m,)
    weight: np.ndarray  # shape (m,): u_i > 0, by which the whole loss of example i is multiplied
    loss: MarginLoss  # scalars

    @property
    def size(self) -> int:
        return len(self.y)

    @property
    def is_definite(self) -> bool:
        """Whether it is known of the kernel that |w|^2 is never negative."""
        return self.gram is None or self.gram.kernel.is_positive_semidefinite

    @property
    def kernel_name(self) -> str:
        """The name of the kernel; "linear" for a linear problem."""
        return "linear" if self.gram is None else self.gram.kernel.name

    def margins(self, coef: np.ndarray) -> np.ndarray:
        """t_i of w = sum_i coef_i y_i phi(x_i), from the whole kernel matrix if there is one."""
        expansion = self.y * coef
        if self.gram is None:
            return self.y * np.asarray(self.X @ np.asarray(self.X.T @ expansion))
        return self.y * (self.gram.matrix() @ expansion)


class Stop(NamedTuple):
    """When a solver stops: at the tolerance, or after so many iterations.

    Where another ``follows``, coordinate descent also stops when so many will not be enough, and
    landmarks when they have taken about as long as the other will.
    """

    tolerance: float = 1e-3
    limit: int = 1000
    follows: bool = False

    @property
    def is_late(self) -> bool:
        """Whether the time that was given is over (:mod:`odmtool.core.deadline`)."""
        return deadline.is_over()

    def negligible(self, scale: float) -> float:
        """An error of P - D that is not worth a look, where S is ``scale``."""
        return self.tolerance * scale / 100

    @property
    def max_iter(self) -> int:
        """The most iterations, none when the time is over."""
        return 0 if self.is_late else self.limit


class Progress(NamedTuple):
    """What a solver tells its caller after an iteration.

    ``primal`` is None where only an estimate of the gap is known, ``gap`` is NaN where
    nothing is known of it. ``margins`` are those of the examples, or a function that computes
    them, where the iterate is known. ``unkept`` examples have a kernel matrix that there is no
    room for, which the solver has to do with because landmarks were not enough.
    """

    iteration: int
    primal: float | None
    gap: float
    active: int
    margins: np.ndarray | Callable[[], np.ndarray] | None = None
    unkept: int = 0


class Stage(NamedTuple):
    """A part of a training that may take minutes, told when it begins."""

    # {"landmarks", "span", "certificate", "features", "passes"}: landmarks are chosen on a sample;
    # the problem is solved in their span; the gap of what was found is bounded; passes are
    # prepared; a pass over the kernel matrix.
    name: str
    count: int  # landmarks so far; which of the passes
    most: int = 0  # about so many passes; 0 where that is not known
    seconds: float = 0.0  # about what the first pass takes one core; 0 where that is not known


def enter(progress: ProgressCallback, stage: Stage | None) -> None:
    """Tell of a stage, None for the end of the last, if ``progress`` has a method ``enter``."""
    if hasattr(progress, "enter"):
        progress.enter(stage)


def progress_of(progress: ProgressCallback, number: int) -> ProgressCallback:
    """What one of several problems tells that are solved side by side.

    Nothing, unless ``progress`` has a method ``of_problem`` and so can tell them apart.
    """
    return progress.of_problem(number) if hasattr(progress, "of_problem") else ignore_progress


class Solution(NamedTuple):
    """What a solver found."""

    w: np.ndarray | None  # shape (d,): weights of a linear problem
    coef: np.ndarray  # shape (m,): for a kernel problem w = sum_i coef_i y_i phi(x_i)
    eta: np.ndarray  # shape (m,): dual variables; they prove the gap and start another solver
    # primal, dual, gap: P(w), D(eta), and (P - D) / S.
    primal: float
    dual: float
    gap: float
    iterations: int
    converged: bool  # the gap is at most the tolerance
    solver: str
    # False if the kernel has negative eigenvalues such that a small gap shows a stationary point
    # only.
    optimal: bool = True
    # Where the gap is a bound: the probability with which it may be wrong, 0 if it is proved.
    failure: float | None = None
    track: object = None  # what another fit by the solver ``path`` goes on from
    # Of machines that have an intercept of their own: what is added to <w, phi(x)>.
    bias: float = 0.0

    @property
    def support_count(self) -> int:
        """Examples with a nonzero coefficient."""
        return int(np.count_nonzero(self.coef))

    @property
    def warm_start(self):
        """What another solver starts from."""
        if self.track is not None:
            return self.track
        # The coefficients of landmarks are no duals.
        return self.eta if self.solver == "landmarks" else self.coef


def without_examples(problem: Problem) -> Solution:
    """w = 0, of a problem without examples, as of two classes of weight 0; it has no solver."""
    nothing = np.zeros(0)
    w = None if problem.X is None else np.zeros(problem.X.shape[1])
    return Solution(w, nothing, nothing, 0.0, 0.0, 0.0, 0, True, "")


SUFFICIENT_DECREASE = 1e-4
"""Share of what the slope promises by which a step of Newton's method must lower P."""
LARGEST_HESSIAN = 3000
"""Above this many features the Hessian in w is not formed but only multiplied."""

LARGEST_GRAM = 4000
"""A linear problem with fewer examples than features is solved by its Gram matrix up to this
size, at which its factorisation takes longer than conjugate gradients."""


def path_bytes(m: int) -> int:
    """For the products of m rows that the path of a linear machine takes, which has no Gram."""
    return LDM_MATRICES * BYTES * m**2


ProgressCallback = Callable[[Progress], None]


def ignore_progress(_progress: Progress) -> None:
    """The callback of a caller that does not want to know."""


def objective_values(loss: MarginLoss, norm, t, eta) -> tuple[float, float, float]:
    """P, D and the scale S of a solution, from |w|^2, taken for |w(eta)|^2 too, margins and duals.

    ``loss`` holds one loss per example (see :func:`odmtool.core.losses.scaled`).
    """
    values = losses.value(loss, t)
    primal = norm / 2 + values.sum()
    dual = losses.dual_value(loss, eta).sum() - norm / 2
    return float(primal), float(dual), float(abs(norm) / 2 + np.abs(values).sum())


# e to the power of this is no longer of use to a weight vector.
_LEAST_LOG_MULTIPLE = -80.0


def not_worse_than_zero(
    solution: Solution, primal_at, at_zero: float, stop: Stop, is_definite: bool = True
) -> Solution:
    """The solution, or the best s w with 0 <= s <= 1 where w is worse than no model at all.

    Dual ascent that is stopped early can leave such a w, on features of very different scales.

    Parameters
    ----------
    primal_at : callable
        From s to P(s w) and the scale S there.
    at_zero : float
        P(0).
    is_definite : bool
        Else D may be above P, and what is between them shows nothing where w and the duals are not
        each other's: a w that seems to have converged then stays as it was.
    """
    if solution.converged or solution.primal <= at_zero:
        return solution
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(
        lambda log_s: primal_at(np.exp(log_s))[0], bounds=(_LEAST_LOG_MULTIPLE, 0.0),
        method="bounded",
    )  # fmt: skip
    s = float(np.exp(found.x)) if found.fun < at_zero else 0.0
    primal, scale = primal_at(s)
    gap = relative(primal - solution.dual, scale)
    if not is_definite and gap <= stop.tolerance:
        return solution
    return solution._replace(
        w=None if solution.w is None else s * solution.w, coef=s * solution.coef, primal=primal,
        gap=gap, converged=gap <= stop.tolerance,
    )  # fmt: skip


def better(first: Solution, second: Solution) -> Solution:
    """The second if it has converged or is as low: a method that failed may have gone far off."""
    return second if second.converged or second.primal <= first.primal else first


def relative(gap: float, scale: float) -> float:
    """gap / scale, and 0 when both are."""
    return float(gap) / float(scale) if scale > 0 else max(float(gap), 0.0)
