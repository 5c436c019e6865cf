"""mcODM: by rounds on the data, or in the span of landmarks where a kernel has many examples."""

from __future__ import annotations

from odmtool import messages
from odmtool.core.gram import BYTES
from odmtool.core.kernels import Kernel
from odmtool.core.loss_table import OF_MCODM
from odmtool.errors import UsageError
from odmtool.solvers import table
from odmtool.solvers.auto import has_landmarks
from odmtool.solvers.base import ProgressCallback, Stop, ignore_progress
from odmtool.solvers.mcodm.starts import MOST_STARTS
from odmtool.solvers.multi import Duals, MultiProblem, MultiSolution


def takes_landmarks(kernel: Kernel, m: int, memory: float) -> bool:
    """Whether ``auto`` takes landmarks for m examples.

    Coordinate descent on a kernel matrix that fits in ``memory`` is mostly faster, and many times
    slower on one that does not.
    """
    return BYTES * m * m > memory and has_landmarks(kernel, m, memory)


def solve(
    problem: MultiProblem,
    stop: Stop,
    *,
    outer: str = "cccp",
    starts: int = MOST_STARTS,
    solver: str = "auto",
    seed: int = 0,
    start: Duals | None = None,
    progress: ProgressCallback = ignore_progress,
) -> MultiSolution:
    """Find a nearly stationary point; parameters as in :func:`odmtool.solvers.mcodm.rounds.solve`.

    Raises
    ------
    UsageError
        Also "landmarks" for a kernel that may have negative eigenvalues.
    """
    table.way_of(solver, OF_MCODM, problem.kernel_name)
    gram = problem.gram
    if solver == "landmarks" and not gram.kernel.is_positive_semidefinite:
        raise UsageError(messages.landmarks_need_definite())
    is_large = gram is not None and gram.X is not None and outer == "cccp"
    if is_large and (
        solver == "landmarks"
        or (solver == "auto" and takes_landmarks(gram.kernel, problem.size, gram.memory))
    ):
        from odmtool.solvers.mcodm import landmarks

        return landmarks.solve(problem, stop, seed=seed, start=start, progress=progress)
    from odmtool.solvers.mcodm import rounds

    if solver == "landmarks":
        solver = "auto"
    return rounds.solve(
        problem, stop, outer=outer, starts=starts, solver=solver, seed=seed, start=start,
        progress=progress,
    )  # fmt: skip
