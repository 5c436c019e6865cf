"""Newton's method for losses whose derivative jumps once, such as the hinge loss.

Problem     as in :mod:`odmtool.judge.binary`, for rows of the table with lo = hi.
Update      a proximal step on the dual,

                eta <- argmax over eta' of D(eta') - 1/2 sum_i sigma_i (eta'_i - eta_i)^2,

            by Newton's method: its primal is the problem itself with a smoothed loss
            (:func:`odmtool.core.losses.smoothed`), which spreads the jump over an interval of
            margins. The interval is as wide as they may have to move at first, and half as wide in
            every step: a narrow one takes many Newton steps where its centre is far away.
            Examples whose margin lies in it are those at the kink, and their number does not grow
            as it narrows, so a Newton step stays cheap.
Stop        when P(w(eta)) - D(eta) <= tolerance S, of the problem itself.
Source      Rockafellar, "Augmented Lagrangians and applications of the proximal point
            algorithm in convex programming", Mathematics of Operations Research 1, 1976;
            with a semismooth Newton method inside, Li, Sun & Toh, "A highly efficient
            semismooth Newton augmented Lagrangian method", SIAM J. Optimization 28, 2018.
"""

from __future__ import annotations

import numpy as np

from odmtool import messages
from odmtool.core import kernels, losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.errors import DivergedError
from odmtool.solvers.base import Problem, Progress, Solution, Stop, ignore_progress, relative
from odmtool.solvers.newton import newton
from odmtool.solvers.newton.spaces import FunctionSpace, space_of
from odmtool.solvers.rounding import Rounding

# Margins have the size of 1, where the losses have their kink. Rounding of a margin counts
# with 1 / width in its dual variable, so the width does not become too small. Where lambda is
# small all margins stay near 0, and a wide first interval is a step in vain.
# speed only: the gap decides when it ends, not how the kink is widened
LEAST_FIRST, FIRST, NARROWER, LAST_WIDTH = 0.1, 1.0, 0.5, 1e-5
"""Widths of intervals of margins, and what one is of that before."""
# So many of the last proximal steps without a smaller gap: only rounding is left.
_PATIENCE = 3
FEW = 500
"""So many examples are solved by their Gram matrix even if the features are fewer."""
# The inner problem is solved to this share of the tolerance, which Newton's last step does: a small
# error of its P is a large one of margins, which make the next centre, where lambda is large.
# Below the second number rounding is all that is left.
# speed only: the gap decides when it ends, not how precise a step was
_INNER_SHARE, _INNER_LEAST = 1e-8, 1e-16


def solve(
    problem: Problem, stop: Stop, *, seed: int = 0, start: np.ndarray | None = None,
    progress=ignore_progress,
) -> Solution:  # fmt: skip
    """Solve a linear or kernel problem; nothing is random.

    ``stop.max_iter`` counts Newton steps. The loss must have lo = hi and a jump there.
    """
    loss, space = losses.scaled(problem.loss, problem.weight), _space_of(problem)
    rounding = Rounding.of(problem)
    eta = losses.nearest_dual(loss, np.zeros(problem.size) if start is None else start)
    enough = max(_INNER_SHARE * stop.tolerance, _INNER_LEAST)
    width, steps, waited, best = _first_width(problem, loss), 0, 0, None
    while True:
        with np.errstate(over="ignore", invalid="ignore"):
            v = space.point(eta)
            w, coef = space.solution(v, eta)
            (primal, dual, scale), t = rounding.objectives(loss, space.margins(v), eta, stop, w)
        if not np.isfinite(primal):
            raise DivergedError(messages.overflow())
        gap = relative(primal - dual, scale)
        progress(Progress(steps, primal, gap, int(np.count_nonzero(eta)), t))
        waited += width <= LAST_WIDTH
        # Not by relative gaps: those of points that are far off are all about 1.
        if best is None or primal - dual < best.primal - best.dual:
            waited = 0
            best = Solution(w, coef, eta, primal, dual, gap, steps, False, "newton")
        if gap <= stop.tolerance or steps >= stop.max_iter or waited >= _PATIENCE:
            break
        with np.errstate(over="ignore", invalid="ignore"):
            smooth = losses.smoothed(loss, width, eta)
        inner = newton.solve(
            problem._replace(loss=smooth, weight=np.ones(problem.size)),
            Stop(enough, stop.max_iter - steps), start=eta, space=space,
        )  # fmt: skip
        # The duals that the margins demand are rounded more than the expansion of w; but
        # without a step that is still the start.
        found = inner.coef if inner.iterations else inner.eta
        eta, steps = losses.nearest_dual(loss, found), steps + inner.iterations
        width = max(width * NARROWER, LAST_WIDTH)
    return best._replace(iterations=steps, converged=best.gap <= stop.tolerance)


def _first_width(problem: Problem, loss: losses.MarginLoss) -> float:
    """What all jumps together can move a margin by, about; at most what most margins are."""
    squares = kernels.squares(problem.X) if problem.gram is None else problem.gram.diagonal()
    with np.errstate(over="ignore", invalid="ignore"):
        reach = float((loss.right_hi - loss.left_lo) @ squares)
    return min(max(reach, LEAST_FIRST), FIRST)


def _space_of(problem: Problem):
    """Function space for few examples: its duals are exact, those of w are demanded by margins."""
    if problem.gram is None and problem.size <= FEW:
        return FunctionSpace(Gram(Kernel("linear"), problem.X), problem.y, problem.X)
    return space_of(problem)
