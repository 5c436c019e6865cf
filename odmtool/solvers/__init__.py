"""The solvers by name, what each needs, and the choice among them.

=========  ============================  ==========================================
name       needs                         file
=========  ============================  ==========================================
dcd        any loss                      :mod:`odmtool.solvers.dcd`; for the loss of
                                         LDM :mod:`odmtool.solvers.ldm.descent`
newton     a loss whose derivative is    :mod:`odmtool.solvers.newton`; with a jump
           continuous or jumps once, or  :mod:`odmtool.solvers.proximal`; for the loss
           that of LDM; for a kernel,    of LDM :mod:`odmtool.solvers.ldm.newton`
           memory for two m x m
           matrices (LDM: four)
dcd-dense  the loss of LDM, m <= 1000    :mod:`odmtool.solvers.ldm.dense`
svrg       linear; a loss whose          :mod:`odmtool.solvers.svrg`
           derivative is continuous, or
           that of LDM
asgd       linear; the loss of LDM       :mod:`odmtool.solvers.asgd`
=========  ============================  ==========================================

``auto`` is :func:`choose`: Newton at once for small problems, else coordinate descent
for as long as a few Newton steps would take, and Newton from there if that was not enough.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import numpy as np

from odmtool import messages
from odmtool.core.losses import LDM, MarginLoss
from odmtool.errors import DivergedError, MemoryLimitError, UsageError
from odmtool.solvers.base import (
    LARGEST_HESSIAN,
    Problem,
    ProgressCallback,
    Solution,
    Stop,
    ignore_progress,
)
from odmtool.solvers.settings import DEFAULTS, Settings

MAX_ITER = {"dcd": 1000, "newton": 200, "dcd-dense": 20000, "svrg": 100, "asgd": 100}
"""Epochs or Newton steps, unless the caller says otherwise."""

_STOCHASTIC = ("svrg", "asgd")

_READS = {"svrg": ("snapshot",)}
"""What a solver is told of the settings."""

# A kernel problem's factorisation keeps the matrix and the part that it overwrites.
NEWTON_MATRICES = 2


def solve(
    problem: Problem,
    *,
    solver: str = "auto",
    tolerance: float = 1e-3,
    max_iter: int | None = None,
    seed: int = 0,
    settings: Settings = DEFAULTS,
    start=None,
    progress: ProgressCallback = ignore_progress,
) -> Solution:
    """Solve a problem with the named solver, or with those that :func:`choose` names.

    Parameters
    ----------
    problem : Problem
    solver : str, one of SOLVERS
    tolerance : float, > 0
        Relative duality gap at which to stop.
    max_iter : int, optional
    seed : int
    settings : Settings
        What only some solvers read.
    start : ndarray, shape (m,), optional
        Dual variables to start from.
    progress : callable
        Called with a Progress after every iteration.

    Raises
    ------
    UsageError
        The solver cannot solve this problem.
    MemoryLimitError
        The solver needs a larger matrix than there is memory for.
    DivergedError
        The kernel is not positive semidefinite and there is no solution.
    """
    if solver != "auto":
        check(problem, solver)
    run = _Run(tolerance, max_iter, seed, settings, progress)
    if problem.gram is not None and not problem.gram.kernel.is_positive_semidefinite:
        return _solve_indefinite(problem, solver, run, start)
    return run.plan(problem, choose(problem) if solver == "auto" else Plan(solver), start)


class Plan(NamedTuple):
    """One solver, or coordinate descent for some epochs and then Newton."""

    first: str
    epochs: int | None = None


class _Run(NamedTuple):
    """What stays the same whichever solver runs."""

    stop_tolerance: float
    max_iter: int | None
    seed: int
    settings: Settings
    progress: ProgressCallback

    def one(
        self, problem: Problem, name: str, start, epochs: int | None = None,
        module: str | None = None,
    ) -> Solution:  # fmt: skip
        limit = MAX_ITER[name] if self.max_iter is None else self.max_iter
        stop = Stop(self.stop_tolerance, limit if epochs is None else min(limit, epochs))
        # Each is imported when it is used: most need compiled code, which takes time to load.
        module = module or module_of(name, problem.loss)
        solver = import_module(f"odmtool.solvers.{module}")
        return solver.solve(
            problem, stop, seed=self.seed, start=start, progress=self.progress,
            **self.settings.read_by(_READS.get(name, ())),
        )  # fmt: skip

    def plan(self, problem: Problem, plan: Plan, start) -> Solution:
        first = self.one(problem, plan.first, start, plan.epochs)
        if first.converged or plan.epochs is None:
            return first
        second = self.one(problem, "newton", first.eta)
        return second._replace(
            iterations=first.iterations + second.iterations, solver="dcd, then newton"
        )


def _solve_indefinite(problem: Problem, solver: str, run: _Run, start) -> Solution:
    """Solve with a kernel that may have negative eigenvalues."""
    from odmtool.solvers import indefinite

    gram, named = problem.gram, "dcd" if solver == "auto" else solver
    if gram.bytes > gram.memory:
        return run.one(problem, "dcd", start)._replace(optimal=False)
    eigenvalue = indefinite.smallest_eigenvalue(gram.matrix())
    if eigenvalue == 0:
        return run.plan(problem, choose(problem) if solver == "auto" else Plan(solver), start)
    if not is_smooth(problem.loss):
        if named == "newton":
            raise UsageError(messages.newton_needs_convex(eigenvalue))
        return run.one(problem, named, start)._replace(optimal=False)
    if indefinite.is_unbounded(problem, eigenvalue):
        raise DivergedError(messages.dual_unbounded(eigenvalue))
    if not indefinite.is_strictly_concave(problem, eigenvalue):
        if solver == "newton":
            raise UsageError(messages.newton_needs_convex(eigenvalue))
        return run.one(problem, "dcd", start)._replace(optimal=False)
    plan, epochs = choose(problem) if solver == "auto" else Plan(solver), 0
    if plan.first == "dcd":
        first = run.one(problem, "dcd", start, plan.epochs)
        if first.converged or plan.epochs is None:
            return first
        start, epochs = first.eta, first.iterations
    shifted = indefinite.shift(problem, eigenvalue)
    solution = run.one(shifted, "newton", start, module="newton")
    solution = indefinite.unshift(problem, solution, run.stop_tolerance)
    return solution._replace(
        iterations=epochs + solution.iterations, solver="dcd, then newton" if epochs else "newton"
    )


def is_smooth(loss: MarginLoss | LDM) -> bool:
    """Whether the derivative of the loss has no jump."""
    if isinstance(loss, LDM):
        return False
    left_hi = loss.right_lo + loss.slope_between * (loss.hi - loss.lo)
    # The fields may be arrays, of one loss per example.
    return bool(np.all(loss.left_lo == loss.right_lo) and np.all(left_hi == loss.right_hi))


def module_of(name: str, loss: MarginLoss | LDM) -> str | None:
    """The file of a solver for a loss; None if Newton's method is not for this loss."""
    is_ldm = isinstance(loss, LDM)
    if name == "dcd-dense" or (is_ldm and name in ("dcd", "newton")):
        return {"dcd": "ldm.descent", "newton": "ldm.newton", "dcd-dense": "ldm.dense"}[name]
    if name != "newton" or is_smooth(loss):
        return name
    return "proximal" if loss.lo == loss.hi else None


def newton_fits(problem: Problem) -> bool:
    """Whether the memory holds what Newton's method makes of the problem."""
    if isinstance(problem.loss, LDM):
        from odmtool.solvers.ldm import newton as ldm_newton

        return ldm_newton.fits(problem)
    gram = problem.gram
    return gram is None or NEWTON_MATRICES * gram.bytes <= gram.memory


def check_kind(name: str, loss: MarginLoss | LDM, *, is_linear: bool) -> None:
    """Raise UsageError if the named solver is not one for such problems; needs no data."""
    if name not in (choices := ("auto", *MAX_ITER)):
        is_of_others = name == "adam"
        sentence = messages.solver_of_others if is_of_others else messages.unknown_solver
        raise UsageError(sentence(name, choices))
    is_ldm = isinstance(loss, LDM)
    if module_of(name, loss) is None:
        raise UsageError(messages.newton_needs_smooth())
    if name in _STOCHASTIC and not is_linear:
        raise UsageError(messages.solver_is_linear(name))
    if name in ("dcd-dense", "asgd") and not is_ldm:
        raise UsageError(messages.solver_for_ldm(name))
    if name == "svrg" and not (is_ldm or is_smooth(loss)):
        raise UsageError(messages.svrg_needs_smooth())


def check(problem: Problem, name: str) -> None:
    """Raise if the named solver cannot solve the problem; before any long work.

    Raises
    ------
    UsageError, MemoryLimitError
    """
    check_kind(name, problem.loss, is_linear=problem.gram is None)
    gram = problem.gram
    if name != "newton" or newton_fits(problem):
        return
    if isinstance(problem.loss, LDM):
        from odmtool.solvers.ldm import newton as ldm_newton

        ldm_newton.check(problem)
    else:
        needed = NEWTON_MATRICES * gram.bytes
        raise MemoryLimitError(messages.matrix_too_large(gram.size, needed, gram.memory))


# Up to these sizes Newton is done before compiled code has been loaded.
_SMALL_GRAM = 1500
_SMALL_NONZEROS = 2_000_000
# A Newton step on a kernel costs as much as m / 120 epochs, one on a Hessian about 7.
_EPOCHS_PER_EXAMPLE = 1 / 40
_LINEAR_EPOCHS = 20
_WIDE_EPOCHS = 100
# With a jump Newton's steps are more, and for LDM a dense matrix is made first; both take
# operations in proportion to m^3, or m d min(m, d) for a linear problem.
_SMALL_PRODUCT = 5e8
_SMALL_NONZEROS_WITH_JUMP = 200_000
_EPOCHS_WITH_JUMP = 1 / 20
_LINEAR_EPOCHS_WITH_JUMP = 100


def choose(problem: Problem) -> Plan:
    """What ``auto`` does.

    Coordinate descent needs few epochs when lambda is small and more than anyone
    can wait for when it is large; Newton's method needs a few steps for every
    lambda, but a step costs as much as many epochs. So a large problem gets
    coordinate descent for about three Newton steps' worth of epochs first: whichever
    is right, little is lost (benchmarks/solvers.py measures it).
    """
    if not is_smooth(problem.loss):
        return _choose_with_jump(problem)
    if not newton_fits(problem):
        return Plan("dcd")
    if problem.gram is not None:
        if problem.size <= _SMALL_GRAM:
            return Plan("newton")
        return Plan("dcd", int(problem.size * _EPOCHS_PER_EXAMPLE))
    (m, d), nonzeros = problem.X.shape, getattr(problem.X, "nnz", problem.X.size)
    if d > LARGEST_HESSIAN:
        return Plan("newton") if m <= _SMALL_GRAM else Plan("dcd", _WIDE_EPOCHS)
    return Plan("newton") if nonzeros <= _SMALL_NONZEROS else Plan("dcd", _LINEAR_EPOCHS)


def _choose_with_jump(problem: Problem) -> Plan:
    """The same for LDM and for losses with a jump, where Newton takes more steps."""
    from odmtool.solvers.ldm import newton as ldm_newton

    if module_of("newton", problem.loss) is None or not ldm_newton.fits(problem):
        return Plan("dcd")
    if problem.gram is not None:
        is_small = problem.size**3 <= _SMALL_PRODUCT
        return Plan("newton") if is_small else Plan("dcd", int(problem.size * _EPOCHS_WITH_JUMP))
    (m, d), nonzeros = problem.X.shape, getattr(problem.X, "nnz", problem.X.size)
    is_small = m * d * min(m, d) <= _SMALL_PRODUCT and nonzeros <= _SMALL_NONZEROS_WITH_JUMP
    return Plan("newton") if is_small else Plan("dcd", _LINEAR_EPOCHS_WITH_JUMP)
