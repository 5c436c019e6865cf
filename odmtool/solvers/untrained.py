"""w = 0, of a problem that no time is left to begin (``--max-time``, ``--keep-best``).

Even the first look at a problem can take long: its kernel matrix is made, and more of that kind.
So only the lengths of the examples are looked at: as |t_i| <= s_i |w|, s_i^2 = k(x_i, x_i), a loss
that is at least a_i - g_i t_i everywhere makes the objective at least

    sum_i a_i - 1/2 (sum_i |g_i| s_i)^2

whatever w is. The best bound of two is taken: that of the tangent at t = 0, and that of no slope.
"""

from __future__ import annotations

import numpy as np

from odmtool.core import losses
from odmtool.core.kernels import squares
from odmtool.core.loss_table import OF_KMOMD, OF_LDM
from odmtool.rows.spread import pieces_of
from odmtool.solvers.base import Problem, Solution, relative

NONE = "none"
"""The name of the solver."""


def untrained(problem: Problem) -> Solution:
    """No model, and what can be said of it without work."""
    primal, bounds = _OF_KINDS.get(problem.loss.kind, _of_margins)(problem)
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.sqrt(np.maximum(_squares(problem), 0.0))
        dual = max(float(np.nan_to_num(a - (g @ size) ** 2 / 2, nan=-np.inf)) for a, g in bounds)
    gap, zero = relative(primal - dual, abs(primal)), np.zeros(problem.size)
    w = None if problem.X is None else np.zeros(problem.X.shape[1])
    return Solution(w, zero, zero, primal, dual, gap, 0, False, NONE)


def with_a_bound(problem: Problem, solution: Solution) -> Solution:
    """The solution; where no time was left for a bound of its gap, with the one without work."""
    if solution.gap < np.inf:
        return solution
    dual = untrained(problem).dual
    gap = relative(solution.primal - dual, abs(solution.primal))
    return solution._replace(dual=dual, gap=gap, failure=0.0)


def _squares(problem: Problem) -> np.ndarray:
    if problem.gram is not None:
        return problem.gram.diagonal()
    return np.concatenate(pieces_of(problem.X).each(squares))


def _of_margins(problem: Problem) -> tuple[float, list]:
    """P(0); sums a and slopes |g_i| of the bounds: D at eta = 0 and at eta = -u l'(0)."""
    loss, zero = losses.scaled(problem.loss, problem.weight), np.zeros(problem.size)
    slopes = losses.derivative(loss, zero)
    bounds = [(losses.dual_value(loss, -each).sum(), np.abs(each)) for each in (zero, slopes)]
    return float(losses.value(loss, zero).sum()), bounds


def _of_ldm(problem: Problem) -> tuple[float, list]:
    """The variance is at least 0, the hinge loss at least 0 and at least 1 - t."""
    _mu1, mu2, lambda_, total_weight = problem.loss
    hinge, mean = (value / total_weight * problem.weight for value in (lambda_, mu2))
    return float(hinge.sum()), [(0.0, mean), (hinge.sum(), hinge + mean)]


def _of_kmomd(problem: Problem) -> tuple[float, list]:
    """r of each class is 1 / sum c_i; the duals c_i r sum to 1 in each."""
    cost = problem.loss.cost * problem.weight
    duals, primal = np.zeros(problem.size), 0.0
    for members in (problem.y > 0, problem.y < 0):
        if members.any():
            total = cost[members].sum()
            duals[members], primal = cost[members] / total, primal - 1 / (2 * total)
    return float(primal), [(-(duals**2 / (2 * cost)).sum(), duals)]


_OF_KINDS = {OF_LDM: _of_ldm, OF_KMOMD: _of_kmomd}
