"""What ``auto`` does for the machine of Crammer and Singer: coordinate descent, then Newton.

Coordinate descent is fast on scaled features and hopeless on others. So few epochs of it are
tried, and a linear problem with few weights goes on with Newton's method from there; where rounding
stops that, with more epochs.
"""

from __future__ import annotations

import numpy as np

from odmtool.solvers.base import Progress, Stop, ignore_progress
from odmtool.solvers.mcsvm import descent, newton
from odmtool.solvers.multi import LARGEST_WEIGHTS, MultiProblem, MultiSolution

# Epochs before Newton's method, and steps of it at most.
# speed only: where Newton's method begins
_EPOCHS, _STEPS = 300, 200


def solve(
    problem: MultiProblem, stop: Stop, *, seed: int = 0, start: np.ndarray | None = None,
    progress=ignore_progress,
) -> MultiSolution:  # fmt: skip
    """Solve a linear or kernel problem; see :func:`odmtool.solvers.mcsvm.descent.solve`."""
    is_small = problem.gram is None and problem.X.shape[1] * problem.k <= LARGEST_WEIGHTS
    most = min(_EPOCHS, stop.limit) if is_small else stop.limit
    first = descent.solve(
        problem, Stop(stop.tolerance, most), seed=seed, start=start, progress=progress
    )
    if first.converged or most == stop.limit or stop.is_late:
        return first
    count = first.iterations

    def later(now: Progress) -> None:
        progress(now._replace(iteration=count + now.iteration))

    steps = Stop(stop.tolerance, min(_STEPS, stop.limit - most))
    best = newton.solve(problem, steps, start=first.duals, progress=later)
    count += best.iterations
    if not best.converged:
        left = Stop(stop.tolerance, stop.limit - count)
        last = descent.solve(problem, left, seed=seed, start=best.duals, progress=later)
        count += last.iterations
        best = last if last.converged else min(first, best, last, key=lambda one: one.distance)
    return best._replace(iterations=count, solver="dcd, then newton")
