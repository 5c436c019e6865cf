"""The solvers of :mod:`odmtool.solvers.large`, as a machine's ``solver`` names them."""

from __future__ import annotations

from contextlib import closing, contextmanager

from odmtool.solvers.base import Problem, ProgressCallback, Solution, Stop
from odmtool.solvers.large import tasks
from odmtool.solvers.table import way_of


def facts(machine) -> dict[str, str]:
    """What the model file records of the solver."""
    if machine.solver == "nystrom":
        return {"trace_captured": repr(machine.captured_)}
    if machine.solver == "sodm" and machine.levels_:
        last = machine.levels_[-1]
        return {"partition_by": machine.settings.partition_by, "level": str(last.level)}
    return {}


def solve(machine, problem: Problem, start, progress: ProgressCallback) -> Solution:
    """Solve one binary problem.

    ``machine.levels_`` gets what sodm reached after every level, ``machine.captured_`` the
    share of the kernel matrix's trace that nystrom's landmarks hold.
    """
    settings, X = machine.settings, problem.X if problem.gram is None else problem.gram.X
    way = way_of(machine.solver, problem.loss.kind, problem.kernel_name)
    limit = way.limit if machine.max_iter is None else machine.max_iter
    arguments = problem, Stop(machine.tolerance, limit)
    with _executor(machine, X) as executor:
        shared = {"executor": executor, "seed": machine.seed, "progress": progress}
        if not executor.shares_memory:
            tasks.check_task(machine, X, executor.task_memory)
        if machine.solver == "nystrom":
            from odmtool.solvers.large import nystrom

            count = min(settings.landmarks, problem.size)
            solution, machine.captured_ = nystrom.solve(*arguments, count, **shared)
            return solution
        from odmtool.solvers.large import dsvrg, sodm

        machine.levels_ = []
        count = tasks.parts_at_first(problem.size, machine.solver, settings)
        settings = settings._replace(partitions=count)
        if machine.solver == "dsvrg":
            return dsvrg.solve(*arguments, settings, start=start, **shared)
        return sodm.solve(
            *arguments, settings, start=start, report=machine.levels_.append, **shared
        )  # fmt: skip


@contextmanager
def _executor(machine, X):
    """The executor that keeps the rows X, or one of the machine's own, closed at the end."""
    from odmtool.rows.spread import pieces_of

    if (kept_by := pieces_of(X).executor) is not None:
        yield kept_by
        return
    own = executor_for(machine.settings.scheduler, machine.jobs, machine.memory)
    with closing(own) as executor:
        yield executor


def cluster(machine):
    """The executor of a machine's ``settings.scheduler``; a context, at whose end it is closed."""
    return closing(executor_for(machine.settings.scheduler, 1, machine.memory))


def executor_for(scheduler: str | None, jobs: int, memory: float | None):
    """Where the tasks of a machine run (:mod:`odmtool.rows.executor`).

    ``memory`` are the most bytes that a task on a cluster may plan with, if that is limited.

    Raises UsageError, ClusterError: see :class:`odmtool.rows.cluster.Dask`.
    """
    from odmtool.rows.executor import local_executor

    if scheduler is None:
        return local_executor(jobs)
    from odmtool.rows.cluster import Dask

    return Dask(scheduler, memory)
