"""Running solvers by name: the module that serves, its limits, and kernels that are not convex."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import numpy as np

from odmtool import messages
from odmtool.core import deadline
from odmtool.core.kernel_table import STORED
from odmtool.core.loss_table import OF_KMOMD, SMOOTH
from odmtool.errors import DivergedError, MemoryLimitError, UsageError
from odmtool.rows.executor import local_executor
from odmtool.solvers import table
from odmtool.solvers.auto import (
    EITHER,
    Schedule,
    choose,
    is_for_single,
    is_of_distances,
    largest_slope,
    newton_follows,
)
from odmtool.solvers.base import Problem, ProgressCallback, Solution, Stop, better, ignore_progress
from odmtool.solvers.settings import Settings

# Below this gap of Newton's method coordinate descent would find nothing lower.
_NEAR = 0.01


def checked_way(problem: Problem, name: str) -> table.Way:
    """The module of a solver for a problem, before any long work.

    Raises UsageError, MemoryLimitError.
    """
    if name in table.IN_PARTS:
        # These are called by their machines, which tell them more.
        names = [other for other in table.SOLVERS if other not in table.IN_PARTS]
        raise UsageError(messages.unknown_solver(name, names))
    way, gram = table.way_of(name, problem.loss.kind, problem.kernel_name), problem.gram
    if not way.fits(gram):
        needed = way.matrices * gram.bytes
        has_dcd = "dcd" in table.names_for(problem.loss.kind, problem.kernel_name)
        raise MemoryLimitError(messages.matrix_too_large(gram.size, needed, gram.memory, has_dcd))
    return way


class SolverRun(NamedTuple):
    """What stays the same whichever solver runs; see :func:`odmtool.solvers.solve`."""

    tolerance: float
    max_iter: int | None
    seed: int
    settings: Settings
    progress: ProgressCallback | None
    jobs: int = 1
    is_one_of_many: bool = False

    def solve(self, problem: Problem, name: str, start) -> Solution:
        """Solve a problem with the named solver, or those that ``auto`` chooses."""
        checked_way(problem, name)
        if not problem.is_definite:
            return self._indefinite(problem, name, start)
        return self._plan(problem, self._plan_of(name, problem), start)

    def _one(
        self, problem: Problem, name: str, start, epochs: int | None = None, follows: bool = False,
        **told,
    ) -> Solution:  # fmt: skip
        way = table.way_of(name, problem.loss.kind, problem.kernel_name)
        return self._module(way, problem, start, epochs, follows, **told)

    def _module(
        self, way: table.Way, problem: Problem, start, epochs: int | None = None,
        follows: bool = False, **told,
    ) -> Solution:  # fmt: skip
        limits = [most for most in (self.max_iter, epochs) if most is not None]
        stop = Stop(self.tolerance, min(limits, default=way.limit), follows or epochs is not None)
        # Each is imported when it is used: most need compiled code, which takes time to load.
        solver = import_module(f"odmtool.solvers.{way.module}")
        extra = self.settings.read_by(way.reads) | told
        if way.has_jobs:
            extra["executor"] = local_executor(self.jobs)
        return solver.solve(
            problem, stop, seed=self.seed, start=start, progress=self.progress or ignore_progress,
            **extra,
        )  # fmt: skip

    def _plan(self, problem: Problem, plan: Schedule, start) -> Solution:
        if plan.first == EITHER:
            slope = largest_slope(problem)
            found = self._one(problem, "landmarks", start, follows=True, slope=slope)
            if found != "dcd":
                return self.after_landmarks(problem, found)
            plan = plan._replace(first="dcd")
        if plan.first == "landmarks":
            return self._landmarks(problem, start, is_last=plan.then is None)
        first = self._one(self._in_single_precision(problem, plan), plan.first, start, plan.epochs)
        if plan.then == "dcd":
            if first.gap <= _NEAR:
                return first
            return self._then(problem, first, "dcd", plan.last_epochs)
        if first.converged or plan.epochs is None or deadline.is_over():
            return first
        if problem.gram is not None:
            problem.gram.make_exact()
        if plan.then == "landmarks":
            second = self._landmarks(problem, first.eta)
        else:
            if is_of_distances(problem.gram):
                problem = self._filled(problem, float)
            second = self._one(problem, plan.then, first.eta)
        return better(first, second)._replace(
            iterations=first.iterations + second.iterations, solver=f"dcd, then {second.solver}"
        )

    def _in_single_precision(self, problem: Problem, plan: Schedule) -> Problem:
        """With kernel values in single precision where that is enough for coordinate descent."""
        if plan.epochs is None or not is_for_single(problem, self.tolerance):
            return problem
        return self._filled(problem, np.float32)

    def _filled(self, problem: Problem, dtype) -> Problem:
        """With kernel values that compiled code makes, which is loaded."""
        from odmtool.rows.whole import filled

        return problem._replace(gram=filled(problem.gram, dtype, local_executor(self.jobs)))

    def _landmarks(self, problem: Problem, start, is_last: bool = False) -> Solution:
        follows = not is_last and newton_follows(problem)
        found = self._one(problem, "landmarks", start, follows=follows)
        return self.after_landmarks(problem, found) if follows else found

    def after_landmarks(self, problem: Problem, found: Solution | str) -> Solution:
        """What landmarks found, or Newton's method where single precision was not enough.

        Or where landmarks left it to this at once.
        """
        if found == "newton":
            try:
                return self._one(problem, found, None)
            except DivergedError:
                found = self._one(problem, "landmarks", None)
        solution = self._then(problem, found, "newton")
        if solution is found:
            return found
        # That of the engine, in single precision, is "landmarks, then newton".
        return solution._replace(solver="landmarks, then newton on the whole matrix")

    def _then(
        self, problem: Problem, found: Solution, name: str, epochs: int | None = None
    ) -> Solution:  # fmt: skip
        """What was found, or the better of it and another solver's where it has not converged.

        That begins at 0: duals that led nowhere are large.
        """
        is_stopped = self.max_iter is not None and found.iterations >= self.max_iter
        if found.converged or is_stopped or deadline.is_over():
            return found
        left = None if self.max_iter is None else self.max_iter - found.iterations
        try:
            other = self._replace(max_iter=left)._one(problem, name, None, epochs)
        except DivergedError:
            return found  # its gap tells how far that is
        return better(found, other)._replace(
            iterations=found.iterations + other.iterations, solver=f"{found.solver}, then {name}"
        )

    def _indefinite(self, problem: Problem, name: str, start) -> Solution:
        """Solve with a kernel that may have negative eigenvalues."""
        from odmtool.solvers import indefinite

        gram, named = problem.gram, "dcd" if name == "auto" else name
        if problem.loss.kind == OF_KMOMD:
            return self._definite_only(problem)
        if name == "landmarks":
            raise UsageError(messages.landmarks_need_definite())
        if gram.bytes > gram.memory:
            return self._descent(problem, "dcd", start)
        eigenvalue = indefinite.eigenvalue_bound(problem)
        if eigenvalue == 0:
            return self._plan(problem, self._plan_of(name, problem), start)
        if problem.loss.kind != SMOOTH:
            if named in ("newton", "path"):
                raise UsageError(messages.needs_convex(named, eigenvalue))
            return self._descent(problem, named, start, eigenvalue)
        if indefinite.is_unbounded(problem, eigenvalue):
            raise DivergedError(messages.dual_unbounded(eigenvalue, gram.kernel.row.of == STORED))
        if not indefinite.is_strictly_concave(problem, eigenvalue):
            if name == "newton":
                raise UsageError(messages.needs_convex("newton", eigenvalue))
            return self._descent(problem, "dcd", start, eigenvalue)
        found = self._concave(problem, name, start, eigenvalue)
        return found._replace(optimal=indefinite.is_optimal(problem, found))

    def _concave(self, problem: Problem, name: str, start, eigenvalue: float) -> Solution:
        """Solve a problem that is not convex, but the dual has one solution."""
        from odmtool.solvers import indefinite

        plan, epochs = self._plan_of(name, problem), 0
        if plan.first == "dcd":
            first = self._one(problem, "dcd", start, plan.epochs)
            if first.converged or plan.epochs is None:
                return first
            start, epochs = first.eta, first.iterations
        solution = self._shifted(problem, indefinite.shift(problem, eigenvalue), start)
        return solution._replace(
            iterations=epochs + solution.iterations,
            solver="dcd, then newton" if epochs else "newton",
        )

    def _descent(
        self, problem: Problem, name: str, start, eigenvalue: float | None = None
    ) -> Solution:  # fmt: skip
        """Coordinate descent where nobody knows whether there is a solution."""
        from odmtool.solvers import indefinite

        found = self._one(problem, name, start)._replace(optimal=False)
        is_stopped = self.max_iter is not None and found.iterations >= self.max_iter
        if is_stopped or deadline.is_over():
            return found
        limit = table.way_of(name, problem.loss.kind, problem.kernel_name).limit
        # Of duals that grow the gap may become small beside the objective, which grows with them.
        has_fallen = indefinite.has_fallen(problem, found)
        if has_fallen or (found.iterations >= limit and indefinite.has_grown(problem, found)):
            is_stored = problem.gram.kernel.row.of == STORED
            raise DivergedError(messages.none_found(eigenvalue, is_stored, has_fallen))
        return found

    def _definite_only(self, problem: Problem) -> Solution:
        """Solve a problem that only Newton's method takes, if the kernel allows it."""
        from odmtool.solvers import indefinite

        eigenvalue = indefinite.smallest_eigenvalue(problem.gram.matrix())
        if eigenvalue < 0:
            raise UsageError(messages.kmomd_needs_convex(eigenvalue))
        return self._one(problem, "newton", None)

    def _shifted(self, problem: Problem, shifted: Problem, start) -> Solution:
        """Newton's method on the shifted problem, until the problem itself is solved.

        A gap of the shifted problem bounds that of the problem only up to a factor, which can
        be large: so the shifted one is solved further and further.
        """
        from odmtool.solvers import indefinite

        newton, run = table.way_of("newton", SMOOTH, problem.kernel_name), self
        iterations, left = 0, newton.limit if self.max_iter is None else self.max_iter
        while True:
            solution = run._replace(max_iter=left - iterations)._module(newton, shifted, start)
            judged = indefinite.unshift(problem, solution, self.tolerance)
            iterations += solution.iterations
            if judged.converged or not solution.converged or iterations >= left:
                return judged._replace(iterations=iterations)
            start, run = solution.eta, run._replace(tolerance=run.tolerance / 100)

    def _plan_of(self, name: str, problem: Problem) -> Schedule:
        return choose(problem, self.is_one_of_many) if name == "auto" else Schedule(name, then=None)
