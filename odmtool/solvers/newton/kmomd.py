"""Newton's method for KM-OMD, the kernel method for the optimisation of the margin distribution.

Problem     P(w) = 1/2 |w|^2 + min over r_1, r_2 of sum_i c_i/2 max(0, r_{y_i} - t_i)^2 - r_1 - r_2
            with c_i = C u_i. Its dual is the problem of the paper: the largest

                D(g) = -1/2 |w(g)|^2 - sum_i g_i^2 / (2 c_i),    w(g) = sum_i g_i y_i phi(x_i),

            over g >= 0 that sum to 1 in each of the two classes.
Update      r is exact: sum over a class of c_i max(0, r - t_i) = 1. Of the examples with
            t_i < r_{y_i} the quadratic problem is solved (their matrix, or, linear with fewer
            features, that of the features), and a search along the line to there finds where P
            is smallest. A large C is reached by smaller ones, each from the solution before:
            with one at once few examples count, and others with every step. Where one C takes
            many steps, an interior-point method solves the dual, from the beginning.
Intercept   f(x) = <w, x> + b is 0 half way between the two points sum over a class of g_i phi(x_i).
            Where only one class has weight, there is no w, and f is 1 on its side.
Stop        when (P - D) / (1/2 |w|^2 + sum_i g_i^2 / (2 c_i)) is at most the tolerance. g are
            the duals c_i max(0, r - t_i) that the margins demand, or the coefficients of w
            themselves: with kernel values of 1e13, which features that nobody scaled make, the
            margins say little of the former. Those of a polynomial kernel are then computed with
            about 100 bits.
Source      Aiolli, Da San Martino & Sperduti, "A kernel method for the optimization of the
            margin distribution", ICANN 2008. Their parameter is 1 / (1 + C).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from odmtool import messages
from odmtool.core import kernels
from odmtool.core.csr import scipy_rows
from odmtool.errors import DivergedError
from odmtool.solvers.base import Problem, Progress, Solution, Stop, ignore_progress, relative
from odmtool.solvers.newton import interior
from odmtool.solvers.newton.factor import cholesky_in_place, cholesky_solve
from odmtool.solvers.newton.hessian import regularised_gram
from odmtool.solvers.rounding import Rounding

# Each C is so many times the one before, at first and at least, which is solved to this gap; many
# steps for one C are a sign that the next one should be nearer.
# speed only: where Newton's method begins
_GROWTH, _SLOW, _ROUGH, _MANY = 8.0, 1.4, 0.1, 6
# Steps for one C at most, and those of the interior-point method, which needs 10 to 40 unless
# rounding keeps it from ending.
# speed only: which method takes the next step
_LEVEL, _INTERIOR = 15, 100
# Halvings of the line in the search for the smallest P; a slope of this share is none.
# speed only: how precisely a step is as long as it should be
_HALVINGS, _FLAT = 60, 1e-12
# Margins of so many points are computed more exactly in vain.
_LOOKS = 5


class Point(NamedTuple):
    """w = sum_i coef_i y_i phi(x_i), its margins, |w|^2, and what follows from the margins."""

    coef: np.ndarray
    t: np.ndarray
    norm: float
    r: np.ndarray
    duals: np.ndarray


class Verdict(NamedTuple):
    """A point, P, D (with what rounding may hide), the scale of the gap, and D's g and margins."""

    point: Point
    primal: float
    dual: float
    scale: float
    g: np.ndarray
    dual_t: np.ndarray

    @property
    def gap(self) -> float:
        return relative(self.primal - self.dual, self.scale)


def solve(
    problem: Problem, stop: Stop, *, seed: int = 0, start: np.ndarray | None = None,
    progress=ignore_progress,
) -> Solution:  # fmt: skip
    """Solve a linear problem, or one with a positive semidefinite kernel.

    ``problem.loss`` is an :class:`odmtool.core.losses.KMOMD`. ``stop.max_iter`` counts Newton
    steps; ``start`` are coefficients, by default w is the difference of the two means. Nothing is
    random.
    """
    rows = _Rows(problem)
    if np.ptp(problem.y) == 0:
        # One class: there are no two points, and no w either. All is on the side of that class.
        nothing = np.zeros(problem.size)
        w = None if rows.X is None else rows.weights(nothing)
        return Solution(
            w, nothing, nothing, 0.0, 0.0, 0.0, 0, True, "newton", bias=float(problem.y[0])
        )
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        coef, step, left = rows.share if start is None else np.array(start, dtype=float), 0, _LEVEL
        if start is None:
            coef, step, left = _approached(rows, coef, stop, progress)
        point = min(rows.renewed(coef), rows.point(np.zeros(problem.size)), key=rows.primal)
        lowest, points = point, _points(rows, point, left)
        while True:
            found = rows.judged(point, stop.tolerance, looks=True)
            if not np.isfinite([found.primal - found.dual, found.gap]).all():
                raise DivergedError(messages.overflow())
            active = int(np.count_nonzero(found.g))
            progress(Progress(step, found.primal, found.gap, active))
            if found.gap <= stop.tolerance or step >= stop.max_iter:
                break
            following = next(points, None)
            if following is None:
                break
            point, step = following, step + 1
            lowest = min(lowest, point, key=rows.primal)
        # What ends early is not above w = 0, nor above what it was before.
        if found.gap > stop.tolerance and found.primal > rows.primal(lowest):
            found = rows.demanded(lowest)
    # Of one class g_i sums to 1, so that its sum of g_i t_i is the value of its point.
    middle = (found.g @ (problem.y * found.dual_t)) / 2
    coef = found.point.coef
    w = None if rows.X is None else rows.weights(coef)
    return Solution(
        w, coef, found.g, found.primal, found.dual, found.gap, step,
        found.gap <= stop.tolerance, "newton", bias=-float(middle),
    )  # fmt: skip


def _points(rows: _Rows, point: Point, left: int) -> Iterator[Point]:
    """So many points of Newton's, then those of the interior-point method; at last Newton's."""
    for _ in range(left):
        following = rows.newton(point)
        if following is None:
            return
        point = following
        yield point
    for g in islice(rows.interior(), _INTERIOR):
        yield rows.point(g)
    while (following := rows.newton(point)) is not None:
        point = following
        yield point


def _approached(rows: _Rows, coef: np.ndarray, stop: Stop, progress) -> tuple[np.ndarray, int, int]:
    """Coefficients for a C not much smaller than that of the problem, and the steps to there.

    The third value is how many steps of the kind are worth while for the C of the problem: none
    after a smaller C that took all of them.
    """
    step, wanted, left = 0, rows.c, _LEVEL
    factor, growth = rows.smallest_factor(), _GROWTH
    # speed only: where Newton's method begins
    while factor < 1 and step < stop.max_iter:
        # speed only: where Newton's method begins
        rows.c = factor * wanted
        point, first, last = rows.point(coef), step, min(step + _LEVEL, stop.max_iter)
        # speed only: where Newton's method begins
        if rows.judged(point, _ROUGH).gap > _ROUGH:
            point = rows.renewed(coef)
        while step < last:
            # speed only: where Newton's method begins
            if not rows.judged(point, _ROUGH).gap > _ROUGH:
                break
            following = rows.newton(point)
            if following is None:
                break
            point, step = following, step + 1
            progress(Progress(step, None, np.nan, int(np.count_nonzero(point.duals))))
        # speed only: where Newton's method begins
        coef, growth = point.coef, _growth(growth, step - first)
        factor *= growth
        # speed only: which method takes the next step
        if step - first == _LEVEL:
            left = 0
            break
    rows.c = wanted
    return coef, step, left


def _growth(growth: float, steps: int) -> float:
    """The growth of C after one that took so many steps."""
    # speed only: where Newton's method begins
    if steps > _MANY:
        return max(growth / 2, _SLOW)
    # speed only: where Newton's method begins
    return min(_SLOW * growth, _GROWTH) if steps < _MANY / 2 else growth


class _Rows:
    """The examples of a problem, and what is made of coefficients; ``c`` are the costs."""

    def __init__(self, problem: Problem):
        self._y, self.c = problem.y, problem.loss.cost * problem.weight
        self.X = None if problem.gram is not None else scipy_rows(problem.X)
        self._K = None if problem.gram is None else problem.gram.matrix()
        self._rounding, self._looks = Rounding.of(problem), _LOOKS
        self._sizes, self._error = self._rounding.sizes, self._rounding.error
        self._classes = [np.flatnonzero(problem.y == sign) for sign in (1, -1)]
        self.share = np.empty(problem.size)
        for examples in self._classes:
            self.share[examples] = problem.weight[examples] / problem.weight[examples].sum()

    def smallest_factor(self) -> float:
        """So many times the costs are small: all examples count alike."""
        total = float(self.c @ self._sizes**2)
        # speed only: where Newton's method begins
        return 1 / total if np.isfinite(total) and total > 0 else 1.0

    def weights(self, coef: np.ndarray) -> np.ndarray:
        """w, of a linear problem."""
        return np.asarray(self.X.T @ (self._y * coef))

    def margins(self, coef: np.ndarray) -> np.ndarray:
        if self._K is not None:
            return self._y * (self._K @ (self._y * coef))
        return self._y * np.asarray(self.X @ self.weights(coef))

    def point(self, coef: np.ndarray) -> Point:
        t = self.margins(coef)
        return self._at(coef, t, float(coef @ t))

    def _at(self, coef, t, norm) -> Point:
        r, duals = np.empty(2), np.empty(len(t))
        for s, examples in enumerate(self._classes):
            r[s] = _level(t[examples], self.c[examples])
            below = self.c[examples] * np.maximum(0.0, r[s] - t[examples])
            if not below.any():
                # r is the least margin to the last digit.
                below = (t[examples] == t[examples].min()).astype(float)
            # Rounding of r, where c is large: the duals have to sum to 1.
            duals[examples] = below / below.sum()
        return Point(coef, t, norm, r, duals)

    def primal(self, point: Point) -> float:
        level = np.where(self._y == 1, *point.r)
        losses = float((self.c / 2 * np.maximum(0.0, level - point.t) ** 2).sum())
        return point.norm / 2 + losses - float(point.r.sum())

    def judged(self, point: Point, tolerance: float, looks: bool = False) -> Verdict:
        """The verdict on a point, or on a neighbour of it whose gap is smaller.

        ``looks`` is whether margins may be computed more exactly where the gap is too large.
        """
        found = self.demanded(point)
        if found.gap <= tolerance:
            return found
        g = np.maximum(point.coef, 0.0)
        for examples in self._classes:
            g[examples] /= g[examples].sum()
        t = self.margins(g)
        total = np.abs(g) @ self._sizes
        found = _better(found, self._own(g, t, self._error * self._sizes * total))
        if not found.gap <= tolerance and (delta := self._rounding.of_own_values(g)) is not None:
            found = _better(found, self._own(g, t, delta))
        exact = self._rounding.exact
        if looks and exact is not None and self._looks and not found.gap <= tolerance:
            t = exact.of(g)
            found = _better(found, self._own(g, t, exact.off(t, g)))
            self._looks -= not found.gap <= tolerance
        return found

    def demanded(self, point: Point) -> Verdict:
        """The verdict on a point with the duals that the margins demand."""
        g = point.duals
        penalty, dual_t = float((g**2 / (2 * self.c)).sum()), self.margins(g)
        total = np.maximum(np.abs(point.coef), g) @ self._sizes
        delta = self._error * self._sizes * total
        hidden = (np.abs(point.coef) + 2 * g) @ delta + self.c @ delta**2 / 2
        dual = -float(g @ dual_t) / 2 - penalty - float(hidden)
        return Verdict(point, self.primal(point), dual, point.norm / 2 + penalty, g, dual_t)

    def _own(self, g: np.ndarray, t: np.ndarray, delta: np.ndarray) -> Verdict:
        """Of w(g), with the margins t, of which each may be off by delta, and the duals g."""
        point = self._at(g, t, float(g @ t))
        penalty = float((g**2 / (2 * self.c)).sum())
        # P - D changes with t_i by g_i less the dual that t_i demands.
        hidden = np.abs(g - point.duals) @ delta + self.c @ delta**2 / 2
        dual = -point.norm / 2 - penalty - float(hidden)
        return Verdict(point, self.primal(point), dual, point.norm / 2 + penalty, g, t)

    def newton(self, point: Point) -> Point | None:
        """The best point on the line to that of the present examples; None if there is none."""
        goal = self._goal(np.flatnonzero(point.duals))
        return None if goal is None else self._best_between(point, goal)

    def _goal(self, active: np.ndarray) -> np.ndarray | None:
        """The coefficients of the quadratic problem of some examples; None if there are none."""
        ends = (self._y[active, None] == (1, -1)).astype(float)
        try:
            solved = self._factored(active, self.c[active])(ends)
            levels = np.linalg.solve(ends.T @ solved, np.ones(2))
        except (LinAlgError, ValueError):
            return None
        goal = np.zeros(len(self._y))
        goal[active] = solved @ levels
        return goal if np.all(np.isfinite(goal)) else None

    def renewed(self, coef: np.ndarray) -> Point:
        """The point of coefficients for other costs, or the best one for its examples.

        With larger costs and the same w only some of these examples count.
        """
        point, active = self.point(coef), np.flatnonzero(coef > 0)
        goal = self._goal(active)
        other = point if goal is None else self.point(goal)
        return other if self.primal(other) < self.primal(point) else point

    def interior(self) -> Iterator[np.ndarray]:
        """The duals of one step of the interior-point method after the other."""
        ends, everyone = (self._y[:, None] == (1, -1)).astype(float), np.arange(len(self._y))
        return interior.steps(
            lambda g: self.margins(g) + g / self.c,
            lambda d: self._factored(everyone, 1 / (d + 1 / self.c)),
            ends, ends @ (1 / ends.sum(axis=0)),
        )  # fmt: skip

    def _factored(self, active: np.ndarray, c: np.ndarray) -> Callable:
        """b -> (Q + 1/c)^-1 b of the active examples, Q = (y_i y_j k(x_i, x_j)); b of 2 axes."""
        y = self._y[active][:, None]
        X = None if self.X is None else self.X[active]
        if X is not None and X.shape[1] < len(active):
            # By the matrix of the features (Woodbury).
            L = cholesky_in_place(regularised_gram(X, np.arange(len(active)), c))

            def solved(b: np.ndarray) -> np.ndarray:
                inner = cholesky_solve(L, np.asarray(X.T @ (y * (c[:, None] * b))))
                return c[:, None] * (b - y * np.asarray(X @ inner))

            return solved
        Q = self._K[np.ix_(active, active)] if X is None else kernels.products(X, X)
        Q = y * (y.T * Q)
        Q.flat[:: len(Q) + 1] += 1 / c
        cholesky_in_place(Q)
        return lambda b: cholesky_solve(Q, b)

    def _best_between(self, point: Point, goal: np.ndarray) -> Point | None:
        p = goal - point.coef
        dt = self.margins(p)
        cross, square = float(p @ point.t), float(p @ dt)

        def at(s: float) -> Point:
            norm = point.norm + 2 * s * cross + s * s * square
            return self._at(point.coef + s * p, point.t + s * dt, norm)

        def slope(s: float) -> float:
            return cross + s * square - float(at(s).duals @ dt)

        if not slope(0.0) < 0:
            return None
        low, high = 0.0, 1.0
        if slope(high) > _FLAT * square:
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                low, high = (low, middle) if slope(middle) > 0 else (middle, high)
            high = low
        # The margins again from the coefficients: sums of steps leave rounding errors behind.
        return self.point(point.coef + high * p) if high > 0 else None


def _better(one: Verdict, other: Verdict) -> Verdict:
    """That with the smaller gap; the first if the other's is no number."""
    return other if other.gap < one.gap else one


def _level(t: np.ndarray, c: np.ndarray) -> float:
    """r with sum_i c_i max(0, r - t_i) = 1: the smallest root of the sums over the least t."""
    order = np.argsort(t)
    least = t[order[0]]
    above, weights = t[order] - least, c[order]
    return float(least + ((1 + np.cumsum(weights * above)) / np.cumsum(weights)).min())
