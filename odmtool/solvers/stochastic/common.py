"""What the stochastic solvers svrg and asgd share.

Both look for w itself, linear problems only, by steps that touch the nonzeros of one
example or of a pair of examples.

Columns     that no row uses are left out first (:func:`occupied_columns`), so that what
            is done once an epoch for every column costs no more than the nonzeros, however
            wide the data are.
Sampling    :func:`draw` takes m examples with given probabilities in random order.
Pairs       the margin variance of LDM couples all examples; two independent examples i, j,
            drawn with the probabilities u/U, U = sum u, give an unbiased estimate of its
            gradient, because U/2 E (t_i - t_j)^2 = sum_k u_k (t_k - b)^2. (The papers'
            theorem says it of 2 t_i^2 - 2 t_i t_j; with i and j in both orders it is the
            same, and convex for every single pair.)
Certificate for LDM a primal iterate yields no useful dual point (:func:`certified`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from odmtool import messages
from odmtool._jit import njit
from odmtool.core import losses
from odmtool.core.columns import occurring_columns
from odmtool.core.losses import LDM
from odmtool.errors import DivergedError
from odmtool.solvers.base import Problem, Solution, Stop, relative
from odmtool.solvers.ldm import descent as ldm
from odmtool.solvers.rounding import Rounding

# The hinge has no curvature; its jump by lambda/M counts as if it were spread over a band of
# margins of this width when the first step size is chosen.
# speed only: the first step size; it is halved where it is too long
_HINGE_WIDTH = 4.0
# The dual point gets this share of the tolerance, the primal point the rest.
_DUAL_SHARE = 0.25


class Point(NamedTuple):
    """Weights w, shape (d,), their margins t, P(w), its scale S, and dP/dt, shape (m,)."""

    w: np.ndarray
    t: np.ndarray
    primal: float
    scale: float
    derivative: np.ndarray


def point_at(problem: Problem, w: np.ndarray) -> Point:
    """The point w of a linear problem; one pass over the data."""
    loss, weight = problem.loss, problem.weight
    t = problem.y * np.asarray(problem.X @ w)
    row = losses.ldm_row_at(loss, weight, t) if isinstance(loss, LDM) else loss
    values = weight * losses.value(row, t)
    norm = w @ w
    primal, scale = norm / 2 + values.sum(), norm / 2 + np.abs(values).sum()
    return Point(w, t, float(primal), float(scale), weight * losses.derivative(row, t))


def first_point(problem: Problem, start: np.ndarray | None) -> Point:
    """The point w(start) of dual variables, w = 0 without them.

    Raises DivergedError: numbers overflow already here.
    """
    if start is None:
        w = np.zeros(problem.X.shape[1])
    else:
        w = np.asarray(problem.X.T @ (problem.y * start))
    point = point_at(problem, w)
    if not np.isfinite(point.primal):
        raise DivergedError(messages.overflow())
    return point


def occupied_columns(problem: Problem) -> tuple[Problem, Callable[[np.ndarray], np.ndarray]]:
    """The problem without the columns in which all is zero, and how to widen its w again."""
    X = problem.X
    if isinstance(X, np.ndarray) or X.shape[1] <= X.nnz:
        return problem, lambda w: w
    narrow, columns = occurring_columns(X)

    def widen(w):
        wide = np.zeros(X.shape[1])
        wide[columns] = w
        return wide

    return problem._replace(X=narrow), widen


def pair_terms(problem: Problem) -> tuple[float, float, float]:
    """What mu1, mu2/2 and lambda/2 are for one pair, each times U/M."""
    mu1, mu2, lambda_, total_weight = problem.loss
    units = problem.weight.sum() / total_weight
    return units * mu1, units * mu2 / 2, units * lambda_ / 2


def pair_curvature(problem: Problem, squares: np.ndarray) -> float:
    """A mean Lipschitz constant of the pairs' gradients; ``squares`` has |x_i|^2."""
    variance, _mean, hinge = pair_terms(problem)
    weight = problem.weight
    mean_square = weight @ squares / weight.sum()
    return float(1 + (2 * variance + 2 * hinge / _HINGE_WIDTH) * mean_square)


def cumulative(shares: np.ndarray) -> np.ndarray:
    """Running sums of probabilities in proportion to shares >= 0; equal ones if all are 0."""
    sums = np.cumsum(shares)
    return sums / sums[-1] if sums[-1] > 0 else np.arange(1, len(shares) + 1) / len(shares)


def draw(generator: np.random.Generator, sums: np.ndarray, count: int | None = None) -> np.ndarray:
    """``count`` examples (as many as there are) in random order, by :func:`cumulative` sums.

    At every place of the order each example has its probability; but the draws are spread
    evenly, so that with equal probabilities they are a permutation.
    """
    m = len(sums)
    count = m if count is None else count
    marks = (np.arange(count) + generator.random(count)) / max(1, count)
    order = np.minimum(np.searchsorted(sums, marks, side="right"), m - 1)
    generator.shuffle(order)
    return order


def certified(
    problem: Problem, stop: Stop, point: Point, iterations: int, name: str, seed: int
) -> Solution:
    """The Solution of an LDM problem whose primal iterates have come to rest.

    Its dual variables come from dual coordinate descent that starts with those which the
    margins demand. If the gap between the two is too large, the better primal point counts.
    """
    rounding = Rounding.of(problem)
    eta, dual = _constant_duals(problem, rounding)
    polishing = Stop(_DUAL_SHARE * stop.tolerance, stop.max_iter)
    try:
        start = ldm.demanded(problem, point.t)
        found = ldm.solve(problem, polishing, seed=seed, start=start)
    except DivergedError:  # on features of very different scales; the primal point is sound
        found = None
    if found is not None:
        iterations += found.iterations
        if found.dual > dual:
            eta, dual = found.eta, found.dual
        is_proved = _gap(problem, rounding, point, dual) <= stop.tolerance
        if found.primal < point.primal and not is_proved:
            point, name = point_at(problem, found.w), f"{name}, then dcd"
    gap = _gap(problem, rounding, point, dual)
    return Solution(
        point.w, eta, eta, point.primal, dual, gap, iterations, gap <= stop.tolerance, name
    )


def _gap(problem: Problem, rounding: Rounding, point: Point, dual: float) -> float:
    """The relative gap of a point of LDM, with what rounding of its margins may hide."""
    row = losses.ldm_row_at(problem.loss, problem.weight, point.t)
    row = losses.scaled(row, problem.weight)
    hidden = rounding.primal(row, point.t, point.w)
    return relative(point.primal + hidden - dual, point.scale)


def _constant_duals(problem: Problem, rounding: Rounding) -> tuple[np.ndarray, float]:
    """Dual variables mu2/M u and their value, those of P without variance and hinge."""
    eta = problem.loss.mu2 / problem.loss.total_weight * problem.weight
    w = np.asarray(problem.X.T @ (problem.y * eta))
    return eta, -float((np.linalg.norm(w) + rounding.off(eta)) ** 2 / 2)


@njit
def row_product(data, indices, indptr, i, v):
    """<x_i, v>."""
    total = 0.0
    for k in range(indptr[i], indptr[i + 1]):
        total += data[k] * v[indices[k]]
    return total


@njit
def add_row(data, indices, indptr, i, factor, v):
    """v += factor x_i."""
    for k in range(indptr[i], indptr[i + 1]):
        v[indices[k]] += factor * data[k]
