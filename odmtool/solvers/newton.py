"""Semismooth Newton method for losses with a continuous derivative, linear and kernel.

Problem     min over w of P(w) = 1/2 |w|^2 + sum_i u_i l(t_i), piecewise quadratic.
Update      the minimiser of the quadratic that P is on the present pieces: with
            eta_i = -u_i l'(t_i), s_i = u_i l''(t_i) and b = eta + s t it solves

                (I + sum_i s_i x_i x_i') w = sum_i b_i y_i x_i          w space
                coef_i + s_i y_i (K (coef y))_i = b_i for all i         function space

            (see :mod:`odmtool.solvers.spaces`), then a line search on P: the whole
            step if it lowers P enough, else the exact minimum along it.
Stop        when P(w) - D(eta) = 1/2 |w - w(eta)|^2 <= tolerance S. The gap of a primal
            point costs nothing, because w - w(eta) is the gradient of P. In function
            space coef itself is a second dual point; the better one counts.
Source      for linear machines Keerthi & DeCoste, "A modified finite Newton method for
            fast solution of large scale linear SVMs", JMLR 6, 2005; in function space
            Chapelle, "Training a support vector machine in the primal", Neural
            Computation 19, 2007. The papers on ODM use coordinate descent only,
            which is hopeless at the large end of their own grid of lambda.
"""

from __future__ import annotations

import numpy as np

from odmtool import losses
from odmtool.solvers.base import (
    Problem,
    Progress,
    ProgressCallback,
    Solution,
    Stop,
    ignore_progress,
    objective_values,
    relative,
)
from odmtool.solvers.spaces import space_of

_SUFFICIENT_DECREASE = 1e-4
_BISECTIONS = 60
# Steps that lower neither the gap nor P by more than this share of P are rounding only;
# after so many of them the method has reached what the arithmetic allows.
_ROUNDING = 1e-14
_PATIENCE = 5


def solve(
    problem: Problem,
    stop: Stop,
    *,
    start: np.ndarray | None = None,
    progress: ProgressCallback = ignore_progress,
) -> Solution:
    """Solve a linear or kernel problem; parameters as in :func:`odmtool.solvers.dcd.solve`.

    The loss must have a continuous derivative. For a kernel with negative
    eigenvalues the caller passes a shifted problem (:mod:`odmtool.solvers.indefinite`).
    """
    loss = losses.scaled(problem.loss, problem.weight)
    space = space_of(problem)
    v = space.zero() if start is None else space.point(start)
    t = space.margins(v)
    best, lowest, waited, iteration = None, np.inf, 0, 0

    while True:
        demanded = -losses.derivative(loss, t)
        gap, eta = space.gap(loss, v, t, demanded)
        values = losses.value(loss, t)
        norm = space.squared_norm(v, t)
        primal, scale = norm / 2 + values.sum(), norm / 2 + np.abs(values).sum()
        gap_now = relative(gap, scale)
        progress(Progress(iteration, float(primal), gap_now, int(np.count_nonzero(eta))))
        better = best is None or gap_now < best[0]
        if better:
            best = (gap_now, v, t, eta)
        waited = 0 if better or primal < lowest - _ROUNDING * scale else waited + 1
        lowest = min(lowest, primal)
        if gap_now <= stop.tolerance or iteration >= stop.max_iter or waited >= _PATIENCE:
            break
        direction = space.newton_point(losses.slope(loss, t), demanded, t, v, gap_now) - v
        change = space.margins(direction)
        step = step_length(loss, t, change, space.cross(v, t, direction, change))
        v = v + step * direction
        t = space.margins(v) if step == 1.0 else t + step * change
        iteration += 1

    gap, v, t, eta = best
    w, coef = space.solution(v, eta)
    norm = space.squared_norm(v, t)
    primal, _, scale = objective_values(loss, norm, 0.0, t, eta)
    converged = gap <= stop.tolerance
    return Solution(
        w, coef, eta, primal, primal - gap * scale, gap, iteration, converged, "newton"
    )


def step_length(loss, t, change, products) -> float:
    """How far to go from margins t towards t + change.

    Parameters
    ----------
    t, change : ndarrays, shape (m,)
    products : tuple of two floats
        <w, p> and <p, p> of the point w and the direction p.

    Returns
    -------
    float, 0 < step <= 1
    """
    along, squared = products

    def slope_at(step: float) -> float:
        return along + step * squared + losses.derivative(loss, t + step * change) @ change

    def rise(step: float) -> float:
        values = losses.value(loss, t + step * change) - losses.value(loss, t)
        return step * along + step * step / 2 * squared + values.sum()

    if rise(1.0) <= _SUFFICIENT_DECREASE * slope_at(0.0) or slope_at(1.0) <= 0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if slope_at(middle) < 0:
            low = middle
        else:
            high = middle
    return high
