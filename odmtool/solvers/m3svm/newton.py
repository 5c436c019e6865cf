"""Newton's method for M3SVM and ISM3, with dual variables for the hinge.

Problem     min over W, b of F(W, b), see :mod:`odmtool.solvers.m3svm.objective`:
            a loss for each pair of an example and another class, and
            lambda sum_{k<l} |w_k - w_l|^p, p > 0; linear, with class biases.
Update      V + step P with H P = -gradient (:mod:`odmtool.solvers.m3svm.system`) and the
            first step of 1, 1/2, 1/4, ... that lowers F enough. For pairwise and softmax H
            is the Hessian (for p < 1 less the regulariser's concave part). The hinge,
            z -> (z + q) / 2 with q = sqrt(z^2 + delta^2), is so
            bent within delta of z = 0, and so straight elsewhere, that its second derivative
            delta^2 / 2 q^3 foresees nothing. With a dual v in [-1, 1] for z / q,
            the equation q v = z is much straighter than v = z / q; Newton's step for both
            unknowns has omega = (1 - v z / q) / 2 q in place of the second derivative, and

                v + s ((1 - v z / q) P_z / q - v + z / q)

            as the new dual, s <= 1 such that all duals stay inside. At v = z / q both are
            Newton's method for F. To follow the duals, delta (for p < 2 also sigma) starts
            near the size of a margin and shrinks to its final value while steps are long.
Beginning   of few examples with many features at the solution in their span
            (:mod:`odmtool.solvers.m3svm.span`).
Stop        when |gradient F| <= tolerance |gradient F(0)| (Euclidean norms over W and b,
            at the final delta), and another step would lower F by about tolerance F at most:
            where the classes are separable F nearly vanishes. At tolerance 1e-3 F is mostly
            within 3e-5 F of its minimum (docs/solvers.md); ``gap`` is what the gradient
            proves, which is much less.
Source      Nie, Hao & Wang, "Multi-class support vector machine with maximizing minimum
            margin", AAAI 2024, for the problem; Chan, Golub & Mulet, "A nonlinear
            primal-dual method for total variation-based image restoration", SIAM J. Sci.
            Comput. 20, 1999, for the dual of a square root.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool import messages
from odmtool.errors import DivergedError, UsageError
from odmtool.solvers.base import SUFFICIENT_DECREASE, Progress, Stop, ignore_progress, relative
from odmtool.solvers.m3svm.objective import Objective, Smoothing, Star, check_parameters
from odmtool.solvers.m3svm.span import Span, span_of
from odmtool.solvers.m3svm.system import System
from odmtool.solvers.multi import MultiProblem, MultiSolution, margins_of

# The smoothing shrinks by _SHRINK after a step of which at least _LONG was taken, or when
# the gradient has fallen to _FALLEN of what it was when the smoothing last changed.
# speed only: the gap decides when it ends, not how the smoothing shrinks
_SHRINK, _LONG, _FALLEN = 0.3, 0.5, 0.1
# The smoothing at first, and of a start; how far duals go to where they end.
# speed only: the gap decides when it ends, not how the smoothing shrinks
_FIRST_DELTA, _WARM_DELTA, _INSIDE = 1.0, 0.03, 0.99

# The F of a solution is the same inside and outside the span but for rounding: if it is not by
# this share of the tolerance, steps outside go on.
_SAME = 0.01

# speed only: when it is given up
_HALVINGS = 40
_TINY = np.finfo(float).tiny
_ROUNDING = 1e-15
# So many steps that lower neither F nor the gradient are rounding only.
# speed only: how long to go on where rounding is all that moves
_PATIENCE = 5


def solve(
    problem: MultiProblem, stop: Stop, *, seed: int = 0,
    start: tuple[np.ndarray, np.ndarray] | None = None, progress=ignore_progress,
) -> MultiSolution:  # fmt: skip
    """Solve a linear problem whose parameters are :class:`M3SVMParameters`.

    ``stop.tolerance`` is that of the gradient; ``stop.max_iter`` counts Newton steps. ``start`` are
    W and the class biases, shapes (d, k) and (k,). Until the smoothing has its final value,
    ``progress`` is told the objective and the gap of the smoother problem. Nothing is random.

    Raises UsageError: a parameter is out of range, or the problem has a kernel.
    """
    objective = objective_of(problem)
    V, is_warm, count = starting_point(objective, start), start is not None, 0
    goal = goal_of(objective, stop.tolerance)
    value, gradient = _judged(objective, V)
    if np.linalg.norm(gradient) <= goal:
        return solution(objective, V, 0, goal, "newton")
    if (span := span_of(problem)) is not None:
        found, inside, count = _in_span(span, V, is_warm, goal, stop, progress)
        outside, gradient = _judged(objective, found)
        is_same = abs(outside - inside) <= _SAME * stop.tolerance * abs(inside)
        if is_same and np.linalg.norm(gradient) <= goal:
            return solution(objective, found, count, goal, "newton")
        if outside <= value:
            V, is_warm = found, True

    def told(now: Progress) -> None:
        progress(now._replace(iteration=count + now.iteration))

    left = stop._replace(limit=max(0, stop.limit - count))
    V, steps = _descend(objective, V, is_warm, goal, left, told)
    return solution(objective, V, count + steps, goal, "newton")


def _judged(objective: Objective, V: np.ndarray) -> tuple[float, np.ndarray]:
    """F at V, and its gradient."""
    scores = objective.scores(V)
    value = objective.value(V, scores, objective.smoothing)
    return value, objective.gradient(V, scores, objective.smoothing)


def _in_span(
    span: Span, V: np.ndarray, is_warm: bool, goal: float, stop: Stop, progress
) -> tuple[np.ndarray, float, int]:
    """The solution in the span of the examples as a V, its F there, and the number of steps."""
    objective, V = Objective(span.problem), np.vstack([span.inside(V[:-1]), V[-1]])
    V, count = _descend(objective, V, is_warm, goal, stop, progress)
    return np.vstack([span.outside(V[:-1]), V[-1]]), _judged(objective, V)[0], count


def _descend(
    objective: Objective, V: np.ndarray, is_warm: bool, goal: float, stop: Stop, progress
) -> tuple[np.ndarray, int]:
    """Steps from V until the gradient is as small as the goal; the last point, and their number."""
    final = objective.smoothing
    first = _WARM_DELTA if is_warm else _FIRST_DELTA
    if final.sigma > 0 or objective.parameters.loss == "hinge":
        factor = max(1.0, first / final.delta)
    else:
        factor = 1.0
    run = _Run(objective, V, final.times(factor), is_warm)
    iteration = 0
    while iteration < stop.max_iter:
        long = run.step()
        iteration += 1
        if not np.isfinite(run.V).all():  # beyond repair
            break
        if factor > 1 and (long or run.is_stalled or run.size <= _FALLEN * run.first_size):
            factor = max(1.0, factor * _SHRINK)
            run.smooth(final.times(factor))
        value, gap = run.value, objective.gap(run.V, run.value, run.gradient)
        progress(Progress(iteration, value, gap, run.active, run.margins))
        is_low = run.size <= goal and run.promised <= stop.tolerance * abs(value)
        if factor == 1 and (is_low or run.is_stalled):
            break
    return run.V, iteration


def objective_of(problem: MultiProblem) -> Objective:
    """The objective of a problem; raises UsageError if it makes no sense."""
    check_parameters(problem.parameters)
    if problem.gram is not None:
        raise UsageError(
            messages.linear_only("m3svm" if problem.parameters.loss == "hinge" else "ism3")
        )
    return Objective(problem)


def starting_point(objective: Objective, start) -> np.ndarray:
    """V of (W, b), zero by default; what the classes have in common only costs ridge."""
    if start is None:
        return objective.zero()
    W, bias = start
    V = np.vstack([W, bias]).astype(float)
    return V - V.mean(axis=1, keepdims=True)


def goal_of(objective: Objective, tolerance: float) -> float:
    """The norm of a gradient that is small enough: what rounding leaves of 0, at least."""
    return max(tolerance * gradient_at_zero(objective), objective.rounding)


def gradient_at_zero(objective: Objective) -> float:
    """|gradient F(0)|, to which the tolerance refers; raises DivergedError if infinite."""
    zero = np.zeros((len(objective.weight), objective.k))
    with np.errstate(over="ignore", invalid="ignore"):
        slopes = objective.losses.slopes(zero, objective.smoothing.delta)
        size = float(np.linalg.norm(objective.back(slopes)))
    if not np.isfinite(size):
        raise DivergedError(messages.overflow())
    return size


def solution(
    objective: Objective, V: np.ndarray, iterations: int, goal: float, solver: str
) -> MultiSolution:
    """What was found, judged afresh at the final smoothing."""
    value, gradient = _judged(objective, V)
    size, first = np.linalg.norm(gradient), gradient_at_zero(objective)
    if not (np.isfinite(value) and np.isfinite(size)):
        raise DivergedError(messages.overflow())
    return MultiSolution(
        W=V[:-1].copy(), coef=None, objective=value, gap=objective.gap(V, value, gradient),
        iterations=iterations, converged=bool(size <= goal), solver=solver, bias=V[-1].copy(),
        gradient=relative(size, first) if size > objective.rounding else 0.0,
        optimal=objective.parameters.power >= 1,
    )  # fmt: skip


class _Pull(NamedTuple):
    """z and q of every example and class, and the duals' weights omega."""

    z: np.ndarray
    q: np.ndarray
    omega: np.ndarray


class _Run:
    """The iterate and what goes with it.

    Attributes
    ----------
    V, value, gradient, size
        The point, F there, its gradient and the gradient's norm, at the smoothing of now.
    first_size : float
        The norm when the smoothing last changed.
    promised : float
        About what the next step lowers F by: half of -gradient.P of the last one, which is a
        square of the gradient, times that of its fall.
    active : int
        Examples with some class that costs more than half of the steepest price.
    """

    def __init__(self, objective: Objective, V: np.ndarray, smoothing: Smoothing, is_warm=False):
        self._objective, self.V = objective, V
        self._is_hinge, self._products = objective.parameters.loss == "hinge", 0
        self.smooth(smoothing)
        self._dual = np.zeros_like(self._scores) if self._is_hinge else None
        if is_warm and self._is_hinge:
            z, q = objective.losses.root(self._scores, smoothing.delta)
            # speed only: where duals begin of which only steps are made
            self._dual = _INSIDE * z / q

    def smooth(self, smoothing: Smoothing) -> None:
        """Go on with another smoothing."""
        self._smoothing = smoothing
        self._scores = self._objective.scores(self.V)
        self.value = self._objective.value(self.V, self._scores, smoothing)
        self._judge()
        self.first_size, self._waited = self.size, 0

    def _judge(self) -> None:
        self.gradient = self._objective.gradient(self.V, self._scores, self._smoothing)
        self.size = float(np.linalg.norm(self.gradient))

    @property
    def is_stalled(self) -> bool:
        return self._waited >= _PATIENCE

    @property
    def active(self) -> int:
        slopes = self._objective.losses.slopes(self._scores, self._smoothing.delta)
        return int(np.count_nonzero(slopes.max(axis=1) > self._objective.weight / 2))

    def margins(self) -> np.ndarray:
        return margins_of(self._scores, self._objective.target)

    def step(self) -> bool:
        """One Newton step; True if most of it could be taken, by the duals too."""
        objective, before = self._objective, (self.value, self.size)
        pull = self._pull() if self._is_hinge else None
        curvature = (
            objective.losses.curvature(self._scores, self._smoothing.delta)
            if pull is None
            else Star(pull.omega, objective.losses.target)
        )
        pairs = objective.pairs(self.V, self._smoothing)
        system = System(objective.X, curvature, pairs, objective.parameters.ridge, objective.weight)
        # speed only: the gap decides when it ends, not how precise a step was
        accuracy = min(0.1, np.sqrt(self.size / max(self.first_size, self.size, _TINY)))
        direction, self._products = system.direction(self.gradient, accuracy, self._products)
        change = objective.scores(direction)
        inside = 1.0 if pull is None else self._follow(pull, change)
        step = self._line_search(direction, change)
        self.V = self.V + step * direction
        self._scores = objective.scores(self.V)
        promised = -float(np.vdot(self.gradient, direction)) / 2
        self._judge()
        self.promised = promised * (self.size / max(before[1], _TINY)) ** 2
        # speed only: how long to go on where rounding is all that moves
        is_better = self.value < before[0] * (1 - _ROUNDING) or self.size < before[1]
        # speed only: how long to go on where rounding is all that moves
        self._waited = 0 if is_better else self._waited + 1
        # speed only: the gap decides when it ends, not how the smoothing shrinks
        return min(step, inside) >= _LONG

    def _pull(self) -> _Pull:
        losses = self._objective.losses
        z, q = losses.root(self._scores, self._smoothing.delta)
        omega = losses.weight[:, None] * (1 - self._dual * z / q) / (2 * q)
        return _Pull(z, q, losses.without_own(omega))

    def _follow(self, pull: _Pull, change: np.ndarray) -> float:
        """Move the duals as far as they stay inside; returns the share of their step."""
        losses, (z, q, _omega), v = self._objective.losses, pull, self._dual
        rise = (1 - v * z / q) * losses.differences(change) / q - v + z / q
        rise = losses.without_own(rise)
        # speed only: duals of which only steps are made
        room = np.where(rise > 0, 1 - v, 1 + v)
        fastest = np.max(np.abs(rise) / np.maximum(room, 1e-300), initial=0.0)
        share = min(1.0, _INSIDE / fastest) if fastest > 0 else 1.0
        self._dual = v + share * rise
        return share

    def _line_search(self, direction: np.ndarray, change: np.ndarray) -> float:
        """The first step of 1, 1/2, ... that lowers F enough; 0 if none does."""
        slope, step = float(np.vdot(self.gradient, direction)), 1.0
        allowed = self.value + _ROUNDING * abs(self.value)
        for _ in range(_HALVINGS):
            with np.errstate(over="ignore", invalid="ignore"):
                value = self._objective.value(
                    self.V + step * direction, self._scores + step * change, self._smoothing
                )
            if value <= allowed + SUFFICIENT_DECREASE * step * slope:
                self.value = value
                return step
            step /= 2
        return 0.0
