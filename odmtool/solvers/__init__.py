"""The solvers: :func:`solve` for a binary problem.

Which solvers there are and what each takes stands in :mod:`odmtool.solvers.table`, what ``auto``
takes in :mod:`odmtool.solvers.auto`. The solvers of multi-class machines, and those that work on
parts of the data, are called by their machines.
"""

from __future__ import annotations

from odmtool.solvers.settings import DEFAULTS, Settings


def solve(
    problem, *, solver: str = "auto", tolerance: float = 1e-3, max_iter: int | None = None,
    seed: int = 0, settings: Settings = DEFAULTS, jobs: int = 1, is_one_of_many: bool = False,
    start=None, progress=None,
):  # fmt: skip
    """Solve a problem with the named solver, or with those that ``auto`` chooses.

    Parameters
    ----------
    problem : odmtool.solvers.base.Problem
    solver : str
        One of :data:`odmtool.solvers.table.SOLVERS`.
    tolerance : float, > 0
        Relative duality gap at which to stop.
    settings : Settings
        What only some solvers read.
    jobs : int
        Threads of ``landmarks`` and ``newton``, which change nothing but the time.
    is_one_of_many : bool
        See :func:`odmtool.solvers.auto.choose`.
    start : ndarray, shape (m,), optional
        Dual variables to start from.
    progress : callable, optional
        Called with a Progress after every iteration.

    Returns
    -------
    odmtool.solvers.base.Solution

    Raises
    ------
    UsageError
        The solver cannot solve this problem.
    MemoryLimitError
        The solver needs a larger matrix than there is memory for.
    DivergedError
        The kernel is not positive semidefinite and there is no solution.
    """
    # Help texts read the table beside this file, so NumPy is not imported before it is needed.
    from odmtool.solvers.run import SolverRun

    run = SolverRun(tolerance, max_iter, seed, settings, progress, jobs, is_one_of_many)
    return run.solve(problem, solver, start)
