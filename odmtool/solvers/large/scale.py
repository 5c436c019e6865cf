"""The solvers of :mod:`odmtool.solvers.large`, as a machine's ``solver`` names them.

=======  =====================================================  ===================
sodm     parts of the data, merged level by level               any margin loss
nystrom  a linear machine on the features of landmarks          a kernel
dsvrg    stochastic steps, one part of the data after another   linear, smooth losses
=======  =====================================================  ===================

None takes the loss of LDM, or a precomputed kernel.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import NamedTuple

from odmtool import messages
from odmtool.core.losses import LDM, MarginLoss
from odmtool.errors import UsageError
from odmtool.solvers import is_smooth
from odmtool.solvers.base import Problem, ProgressCallback, Solution, Stop
from odmtool.solvers.large import tasks

MAX_ITER = {"sodm": 1000, "nystrom": 200, "dsvrg": 100}
"""Epochs, Newton steps, or stages."""


class Scale(NamedTuple):
    """What only these solvers need.

    Attributes
    ----------
    partitions : int or None
        Parts at the first level; by default a power of ``branch``, with parts of at least
        1000 examples.
    strata : int
        Landmarks that the stratified partition has.
    branch : int
        So many parts are merged at a time.
    stop_level : int
        The last level to solve; 0 is the whole problem.
    partition_by : str, one of :data:`odmtool.defaults.PARTITION_BY`
    cascade : bool
        Whether only examples with nonzero duals go on to the next level.
    landmarks : int
        The basis of nystrom.
    scheduler : str or None
        Address of a Dask scheduler, or its file; None is this process.
    """

    partitions: int | None = None
    strata: int = 64
    branch: int = 4
    stop_level: int = 0
    partition_by: str = "stratified"
    cascade: bool = False
    landmarks: int = 1000
    scheduler: str | None = None


def check(solver: str, loss: MarginLoss | LDM, kernel: str, scale: Scale) -> None:
    """Raise UsageError if the solver is not one for such problems; needs no data."""
    if isinstance(loss, LDM):
        raise UsageError(messages.scalable_not_for_ldm(solver))
    if kernel == "precomputed":
        raise UsageError(messages.scalable_needs_rows(solver))
    if solver == "nystrom" and kernel == "linear":
        raise UsageError(messages.nystrom_needs_kernel())
    if solver == "dsvrg" and kernel != "linear":
        raise UsageError(messages.solver_is_linear(solver))
    if solver == "dsvrg" and not is_smooth(loss):
        raise UsageError(messages.dsvrg_needs_smooth())
    least = {"partitions": 1, "strata": 1, "branch": 2, "stop_level": 0, "landmarks": 1}
    for name, smallest in least.items():
        value = getattr(scale, name)
        if value is not None and value < smallest:
            raise UsageError(messages.at_least_named(name.replace("_", "-"), value, smallest))


def facts(machine) -> dict[str, str]:
    """What the model file records of the solver."""
    if machine.solver == "nystrom":
        return {"trace_captured": repr(machine.captured_)}
    if machine.solver == "sodm" and machine.levels_:
        last = machine.levels_[-1]
        return {"partition_by": machine.scale.partition_by, "level": str(last.level)}
    return {}


def solve(machine, problem: Problem, start, progress: ProgressCallback) -> Solution:
    """Solve one binary problem.

    ``machine.levels_`` gets what sodm reached after every level, ``machine.captured_`` the
    share of the kernel matrix's trace that nystrom's landmarks hold.
    """
    scale, X = machine.scale, problem.X if problem.gram is None else problem.gram.X
    limit = MAX_ITER[machine.solver] if machine.max_iter is None else machine.max_iter
    arguments = problem, Stop(machine.tolerance, limit)
    with _executor(machine, X) as executor:
        shared = {"executor": executor, "seed": machine.seed, "progress": progress}
        if not executor.shares_memory:
            tasks.check(machine, X, executor.task_memory)
        if machine.solver == "nystrom":
            from odmtool.solvers.large import nystrom

            count = min(scale.landmarks, problem.size)
            solution, machine.captured_ = nystrom.solve(*arguments, count, **shared)
            return solution
        from odmtool.solvers.large import dsvrg, sodm

        machine.levels_ = []
        scheme = sodm.Scheme(
            tasks.parts_at_first(problem.size, machine.solver, scale), scale.branch, scale.strata,
            scale.stop_level, scale.partition_by, scale.cascade,
        )  # fmt: skip
        if machine.solver == "dsvrg":
            return dsvrg.solve(*arguments, scheme, start=start, **shared)
        return sodm.solve(
            *arguments, scheme, start=start, report=machine.levels_.append, **shared
        )  # fmt: skip


@contextmanager
def _executor(machine, X):
    """The executor that keeps the rows X, or one of the machine's own, closed at the end."""
    from odmtool.rows.spread import pieces_of

    if (kept_by := pieces_of(X).executor) is not None:
        yield kept_by
        return
    with closing(executor_for(machine.scale, machine.jobs, machine.memory)) as executor:
        yield executor


def cluster(machine):
    """The executor of a machine's ``scale.scheduler``; a context, at whose end it is closed."""
    return closing(executor_for(machine.scale, 1, machine.memory))


def executor_for(scale: Scale, jobs: int, memory: float | None):
    """Where the tasks of a machine run (:mod:`odmtool.rows.executor`).

    ``memory`` are the most bytes that a task on a cluster may plan with, if that is limited.

    Raises
    ------
    UsageError, ClusterError
        See :class:`odmtool.rows.cluster.Dask`.
    """
    from odmtool.rows.executor import local_executor

    if scale.scheduler is None:
        return local_executor(jobs)
    from odmtool.rows.cluster import Dask

    return Dask(scale.scheduler, memory)
