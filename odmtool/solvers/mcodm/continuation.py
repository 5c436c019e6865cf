"""mcODM from small to large lambda, for few examples whose features are large numbers.

Problem     that of :mod:`odmtool.solvers.mcodm.rounds`. Where lambda |x|^2 / m is large and nearly
            every margin can be as wanted, the losses are walls around the flat set of points
            without losses. From anywhere else Newton steps cross many walls and are cut to a
            thousandth, and coordinate descent goes from wall to wall. (150 examples of 99 features
            up to 300, lambda 2^12: neither was near after 2000 iterations.)
Update      lambda is multiplied by 16 from where no loss is a wall. Each solution is the next
            start: W, and its duals as the centre of smoothing. These hardly change once lambda is
            large, and a single step is enough for each of the last lambdas. (The W that the duals
            make does not do: its margins are near, but the losses are steep, and what they
            say about another lambda is nothing like the duals.)
Stop        earlier problems at a hundredth, the last one as the rounds do.
Source      Allgower & Georg, "Numerical continuation methods", Springer 1990.
"""

from __future__ import annotations

import numpy as np

from odmtool.rows.executor import Serial
from odmtool.solvers.base import Progress, ProgressCallback, Stop, ignore_progress
from odmtool.solvers.mcodm import rounds
from odmtool.solvers.mcodm.way import Way, curvature
from odmtool.solvers.multi import MultiProblem, MultiSolution

# speed only: the gap of the last problem decides
_FACTOR, _TOLERANCE = 16.0, 1e-2


def solve(
    problem: MultiProblem, stop: Stop, way: Way, *, seed: int = 0, progress=ignore_progress,
    executor: Serial | None = None,
) -> MultiSolution:  # fmt: skip
    """Find a nearly stationary point; parameters as in :func:`odmtool.solvers.mcodm.rounds.solve`.

    ``max_iter`` holds for all problems together. After the deadline it is the point that there is.
    """
    if not isinstance(problem.X, np.ndarray):
        problem = problem._replace(X=problem.X.toarray())
    start, W, done = None, None, 0
    for share in shares(problem):
        is_last = share == 1.0
        left = stop._replace(limit=stop.limit - done)
        if not is_last:
            left = left._replace(tolerance=max(stop.tolerance, _TOLERANCE))
            if not left.max_iter:
                continue
        solution = rounds.solve(
            with_share(problem, share), left, way, starts=1, seed=seed, start=start, W=W,
            progress=_told(progress, done, is_last), executor=executor,
        )  # fmt: skip
        start, W, done = solution.duals, solution.W, done + solution.iterations
    return solution._replace(iterations=done)


def shares(problem: MultiProblem) -> list[float]:
    """Of lambda, one after the other; the last is 1."""
    count = int(np.ceil(np.log(max(1.0, curvature(problem))) / np.log(_FACTOR)))
    return [_FACTOR**-number for number in range(count, -1, -1)]


def with_share(problem: MultiProblem, share: float) -> MultiProblem:
    """The problem with a share of its lambda."""
    loss = problem.parameters
    return problem._replace(parameters=loss._replace(c1=share * loss.c1, c2=share * loss.c2))


def _told(progress: ProgressCallback, done: int, is_last: bool) -> ProgressCallback:
    """Tells of iterations after others; the objective and margins are those of the last problem."""

    def tell(known: Progress) -> None:
        known = known._replace(iteration=done + known.iteration)
        progress(known if is_last else known._replace(primal=None, margins=None))

    return tell
