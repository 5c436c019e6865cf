"""Averaged stochastic gradient descent (ASGD) for LDM; linear.

Problem     min over w of 1/2 |w|^2 + the three terms of LDM.
Update      draw two independent examples in proportion to u and step

                w <- (w - step_n gradient) / (1 + step_n),
                step_n = eta0 / (1 + eta0 n)^(3/4), n the steps so far,

            gradient the pair's unbiased estimate for the three terms, from the margins of
            both before the step; the regulariser is taken implicitly. w = a z: a step
            multiplies a and adds two rows to z, O(their nonzeros). The sum of all w is
            A z - v, A the sum of all a, where a step adds A times its change of z to v.
            z is rescaled where a falls below 1/100, at most about eta0^(1/4) m^(1/4) times
            an epoch.
Average     over windows of 1, 1, 2, 4, 8, ... epochs of m pairs, each of which forgets the
            one before; w is the mean with the lowest P.
Step size   eta0 between 2^-30/L and 1 (L of pair_curvature) such that neither half nor
            twice gives a smaller P, on at most 1000 drawn pairs from w = 0; P is taken on
            the drawn examples, and its mean at ten moments counts: one alone is noise.
            After an epoch whose mean is worse than the start, eta0 is quartered and the
            descent starts again, up to ten times.
Stop        at the end of a window that lowered P by less than half the tolerance (the error
            falls as one over the epochs, so this is about what is left). Then a dual point,
            see :func:`odmtool.solvers.stochastic.common.certified`.
Source      Zhang & Zhou, "Large margin distribution machine", KDD 2014, Algorithm 2; Xu,
            "Towards optimal one pass large scale learning with averaged stochastic gradient
            descent", 2010, for the step sizes, the search and the sum.
"""

from __future__ import annotations

import numpy as np

from odmtool import messages
from odmtool._jit import njit
from odmtool.errors import DivergedError
from odmtool.solvers.base import Problem, Progress, Solution, Stop, ignore_progress
from odmtool.solvers.descent.dcd import compressed_rows, row_squares
from odmtool.solvers.stochastic import common
from odmtool.solvers.stochastic.common import add_row, row_product

# speed only: steps that are too long are made shorter
_SAMPLE, _MOMENTS, _SMALLEST_STEP = 1000, 10, 2.0**-30
_LEAST_EPOCHS = 4
_RESTARTS = 10


def solve(
    problem: Problem, stop: Stop, *, seed: int = 0, start: np.ndarray | None = None,
    progress=ignore_progress,
) -> Solution:  # fmt: skip
    """Solve a linear problem whose loss is that of LDM.

    ``stop.max_iter`` counts epochs of m pairs, and epochs for the dual point; w starts at
    w(start). The gap is not known before the end, and NaN.
    """
    narrow, widen = common.occupied_columns(problem)
    with np.errstate(over="ignore", invalid="ignore"):
        point, epochs = _descend(narrow, stop, np.random.default_rng(seed), start, progress)
        solution = common.certified(narrow, stop, point, epochs, "asgd", seed)
    return solution._replace(w=widen(solution.w))


def _descend(problem: Problem, stop: Stop, generator, start, progress):
    """The best mean and the number of epochs."""
    sums = common.cumulative(problem.weight)
    rows, terms = compressed_rows(problem.X), common.pair_terms(problem)
    best = origin = common.first_point(problem, start)
    eta0, restarts = first_step(problem, generator), 0
    w, epochs, run, fallen_from = origin.w.copy(), 0, 0, origin.primal
    while True:
        progress(Progress(epochs, best.primal, np.nan, problem.size, best.t))
        if run & (run - 1) == 0:  # the end of a window: 0, 1, 2, 4, 8, ... epochs
            fall = fallen_from - best.primal
            if run >= _LEAST_EPOCHS and fall <= stop.tolerance / 2 * best.scale:
                return best, epochs
            total, count, fallen_from = np.zeros_like(w), 0, best.primal
        if epochs >= stop.max_iter or restarts > _RESTARTS:
            return best, epochs
        pairs = common.draw(generator, sums), common.draw(generator, sums)
        steps = run * problem.size
        epoch(*rows, problem.y, terms, *pairs, eta0, steps, w, np.zeros_like(w), total)
        epochs, run, count = epochs + 1, run + 1, count + problem.size
        point = common.point_at(problem, total / count)
        if not point.primal <= origin.primal:
            eta0, w, run, restarts = eta0 / 4, origin.w.copy(), 0, restarts + 1
        elif point.primal < best.primal:
            best = point


# speed only: steps that are too long are made shorter
def first_step(problem: Problem, generator: np.random.Generator) -> float:
    """eta0, by doubling or halving."""
    curvature = common.pair_curvature(problem, row_squares(*compressed_rows(problem.X)))
    if not np.isfinite(curvature):
        raise DivergedError(messages.overflow())
    sample = _Sample(problem, generator)
    eta0 = 1 / curvature
    cost, doubled = sample.cost(eta0), sample.cost(2 * eta0)
    factor = 2.0 if doubled < cost else 0.5
    while _SMALLEST_STEP / curvature < factor * eta0 <= 1:
        following = sample.cost(factor * eta0)
        # An infinite cost is no reason to stop on the way down.
        if following >= cost and np.isfinite(cost):
            break
        eta0, cost = factor * eta0, following
    return eta0


class _Sample:
    """Some drawn pairs, on which step sizes are tried."""

    def __init__(self, problem: Problem, generator: np.random.Generator):
        shares = problem.weight / problem.weight.sum()
        size = min(_SAMPLE, problem.size)
        examples = generator.choice(problem.size, 2 * size, p=shares)
        # As drawn, every example weighs the same.
        weight = np.full(2 * size, problem.weight.sum() / (2 * size))
        drawn = problem._replace(X=problem.X[examples], y=problem.y[examples], weight=weight)
        self._problem, _widen = common.occupied_columns(drawn)
        self._rows, self._terms = compressed_rows(self._problem.X), common.pair_terms(problem)
        self._order = np.arange(size)

    def cost(self, eta0: float) -> float:
        """The mean of P at some moments; infinite where that is no number."""
        problem, size, cost = self._problem, len(self._order), 0.0
        w, v, total = np.zeros((3, problem.X.shape[1]))
        for part in np.array_split(self._order, min(_MOMENTS, size)):
            pairs = part, part + size
            epoch(*self._rows, problem.y, self._terms, *pairs, eta0, part[0], w, v, total)
            cost += common.point_at(problem, w).primal
        return cost if np.isfinite(cost) else np.inf


@njit
def epoch(data, indices, indptr, y, terms, first, second, eta0, steps, w, v, total):
    """One step for each of the pairs ``first[q], second[q]``.

    Parameters
    ----------
    data, indices, indptr : ndarrays
        Rows of the m x d matrix X (CSR).
    y : ndarray, shape (m,)
    terms : tuple of three floats
        Those of :func:`odmtool.solvers.stochastic.common.pair_terms`.
    eta0 : float, > 0
    steps : int
        Steps before these.
    w, v, total : ndarrays, shape (d,)
        The iterate, zeros, and the sum of all iterates; changed in place.
    """
    variance, mean, hinge = terms
    a, a_sum = 1.0, 0.0
    for q in range(len(first)):
        i, j = first[q], second[q]
        step = eta0 / (1.0 + eta0 * (steps + q)) ** 0.75
        t_i = y[i] * a * row_product(data, indices, indptr, i, w)
        t_j = y[j] * a * row_product(data, indices, indptr, j, w)
        apart = variance * (t_i - t_j)
        a /= 1.0 + step
        factor = -step / (1.0 + step) / a
        change_i = y[i] * factor * (apart - mean - hinge * (t_i < 1.0))
        change_j = y[j] * factor * (-apart - mean - hinge * (t_j < 1.0))
        add_row(data, indices, indptr, i, change_i, w)
        add_row(data, indices, indptr, j, change_j, w)
        add_row(data, indices, indptr, i, a_sum * change_i, v)
        add_row(data, indices, indptr, j, a_sum * change_j, v)
        a_sum += a
        if a < 0.01 or q == len(first) - 1:
            rescale(w, v, total, a, a_sum)
            a, a_sum = 1.0, 0.0


@njit
def rescale(w, v, total, a, a_sum):
    """Add the sum a_sum w - v of the iterates to ``total``; w becomes a w, v becomes 0."""
    for k in range(len(w)):
        total[k] += a_sum * w[k] - v[k]
        w[k] *= a
        v[k] = 0.0
