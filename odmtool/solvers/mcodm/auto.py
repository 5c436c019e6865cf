"""mcODM: by rounds on the data, or in the span of landmarks where a kernel has many examples."""

from __future__ import annotations

from odmtool import messages
from odmtool.core.loss_table import OF_MCODM
from odmtool.errors import UsageError
from odmtool.rows.executor import Serial
from odmtool.solvers import table
from odmtool.solvers.base import Stop, ignore_progress
from odmtool.solvers.mcodm import rounds
from odmtool.solvers.mcodm.starts import MOST_STARTS
from odmtool.solvers.mcodm.way import choose
from odmtool.solvers.multi import Duals, MultiProblem, MultiSolution


def solve(
    problem: MultiProblem, stop: Stop, *, outer: str = "cccp", starts: int = MOST_STARTS,
    solver: str = "auto", seed: int = 0, start: Duals | None = None, progress=ignore_progress,
    executor: Serial | None = None,
) -> MultiSolution:  # fmt: skip
    """Find a nearly stationary point; parameters as in :func:`odmtool.solvers.mcodm.rounds.solve`.

    Raises UsageError: an unknown ``solver``, one that does not take the kernel, or "landmarks" for
    a kernel that may have negative eigenvalues.
    """
    table.way_of(solver, OF_MCODM, problem.kernel_name)
    if solver == "landmarks" and not problem.gram.kernel.is_positive_semidefinite:
        raise UsageError(messages.landmarks_need_definite())
    way = choose(problem, solver, outer)
    if way.has_landmarks:
        from odmtool.solvers.mcodm import landmarks

        return landmarks.solve(
            problem, stop, seed=seed, start=start, progress=progress, executor=executor
        )
    if way.is_continued:
        from odmtool.solvers.mcodm import continuation

        return continuation.solve(
            problem, stop, way, seed=seed, progress=progress, executor=executor
        )
    return rounds.solve(
        problem, stop, way, outer=outer, starts=starts, seed=seed, start=start, progress=progress,
        executor=executor,
    )  # fmt: skip
