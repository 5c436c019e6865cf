"""Semismooth Newton method for losses with a continuous derivative, linear and kernel.

Problem     min over w of P(w) = 1/2 |w|^2 + sum_i u_i l(t_i), piecewise quadratic.
Update      the minimiser of the quadratic that P is on the present pieces: with
            eta_i = -u_i l'(t_i), s_i = u_i l''(t_i) and b = eta + s t it solves

                (I + sum_i s_i x_i x_i') w = sum_i b_i y_i x_i          w space
                coef_i + s_i y_i (K (coef y))_i = b_i for all i         function space

            (see :mod:`odmtool.solvers.newton.spaces`), then a line search on P: the whole
            step if it lowers P enough, else the exact minimum along it. Where that is far
            shorter, the pieces at hand say little: it begins again at a rough solution for
            a lambda that is 64 times smaller, found in the same way. Of many examples in w
            space it begins at the solution of a sample.
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

from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from odmtool import messages
from odmtool.core import losses
from odmtool.errors import DivergedError
from odmtool.rows.executor import Serial
from odmtool.solvers.base import (
    LARGEST_HESSIAN,
    SUFFICIENT_DECREASE,
    Problem,
    Progress,
    ProgressCallback,
    Solution,
    Stop,
    ignore_progress,
    relative,
)
from odmtool.solvers.newton.spaces import Space, space_of

# speed only: the gap decides when it ends, and so short a step changes nothing
_LEAST_STEP = 2.0**-40
# On the way a gap that is more than so many times what is enough need not be the smallest.
# speed only: at the end the smallest is looked for
_FAR = 100
# Steps that lower neither the gap nor P by more than this share of P are rounding only;
# after so many of them the method has reached what the arithmetic allows.
_ROUNDING = 1e-14
_PATIENCE = 5
# A step that leaves more than this share of the gap, where rounding may change P by more than that
# share of what is allowed, may have been led astray by it.
# speed only: where the next step begins
_LEFT, _UNSURE = 0.9, 0.01
# If one of so many first steps is so short, it begins again, from the solution for so many times
# the weights, whose gap is at most this.
# speed only: where the next step begins
_EARLY, _SHORT, _LIGHTER, _ROUGH = 3, 0.08, 1 / 64, 0.1
# It begins at the solution of every so many-th example, if these are so many per column.
_SAMPLED, _SAMPLED_PER_COLUMN = 7, 10


def solve(
    problem: Problem, stop: Stop, *, seed: int = 0, start: np.ndarray | None = None,
    progress=ignore_progress, space: Space | None = None, executor: Serial | None = None,
) -> Solution:  # fmt: skip
    """Solve a linear or kernel problem; nothing is random.

    The loss must have a continuous derivative. For a kernel with negative
    eigenvalues the caller passes a shifted problem (:mod:`odmtool.solvers.indefinite`).
    A ``space`` made before for the same rows or Gram matrix is used again; so is one that
    reads its rows in passes (:class:`odmtool.solvers.large.blocks.BlockSpace`). ``executor`` is
    where the parts of a large Hessian are made.
    """
    is_new = space is None and start is None
    sample = _of_sample(problem, stop, executor) if is_new else None
    space = space_of(problem, executor) if space is None else space

    v = _beginning(space, start, sample)
    # Not where it begins at a solution: the rows may be known by a Hessian for these weights only.
    steps = _Steps(problem, stop, space, may_restart=start is None and not v.any())
    with np.errstate(over="ignore", invalid="ignore"):
        # No name for the first iterate here: its arrays are as large as the examples are many.
        track, iteration = descend(steps.at_point(v), steps.step, stop, start is not None, progress)
        point, eta, gap = track.best(stop.tolerance)
        if relative(gap, point.scale) > stop.tolerance and space.gap_depends_on_far:
            track = track.renewed(steps.looked_at_again)
            point, eta, gap = track.best(stop.tolerance)
    w, coef = space.solution(point.v, eta)
    return Solution(
        w, coef, eta, point.primal, point.primal - gap, relative(gap, point.scale), iteration,
        relative(gap, point.scale) <= stop.tolerance, "newton",
    )  # fmt: skip


class _Steps:
    """Newton's steps in a space."""

    def __init__(self, problem: Problem, stop: Stop, space: Space, may_restart: bool = True):
        self.problem, self.stop, self.space = problem, stop, space
        self.loss = losses.scaled(problem.loss, problem.weight)
        self.pieces = losses.Pieces(problem.loss, problem.weight)
        self._taken, self._early = 0, _EARLY if may_restart else 0

    def point_at(self, v, t, at: losses.Evaluation, is_last: bool = False) -> Iterate:
        """The iterate at v, whose margins are t; at more exact ones where these prove more."""
        half = self.space.squared_norm(v, t) / 2
        scale = half + np.abs(at.values).sum()
        enough = self.stop.tolerance * scale
        far, demanded = np.inf if is_last else _FAR * enough, at.duals
        gap, eta, exact = self.space.gap(self.loss, v, t, demanded, enough, far)
        if exact is not t:
            # Margins that are more exact than those before.
            t, at = exact, self.pieces.at(exact)
            demanded = at.duals
            half = self.space.squared_norm(v, t) / 2
            scale = half + np.abs(at.values).sum()
        primal, support = half + at.values.sum(), int(np.count_nonzero(eta))
        unsure = float(self.space.unsure(self.loss, v, demanded))
        return Iterate(
            v, float(primal), float(gap), float(scale), support, eta, t, at=at, unsure=unsure
        )  # fmt: skip

    def at_point(self, v) -> Iterate:
        """The iterate at v."""
        t = self.space.margins(v)
        return self.point_at(v, t, self.pieces.at(t))

    def looked_at_again(self, point: Iterate) -> Iterate:
        """The point with the smallest gap that can be shown of it."""
        return self.point_at(point.v, point.t, point.at, is_last=True)

    def step(self, point: Iterate, now: float) -> Iterate:
        """The next iterate; ``now`` is the relative gap of the last one."""
        self._taken += 1
        found = self._rough_step(point, now)
        is_sure = found.unsure <= _UNSURE * self.stop.tolerance * found.scale
        # speed only: where the next step begins
        if is_sure or found.before or found.gap <= _LEFT * point.gap:
            return found
        exact = self.space.exact_margins(found.v)
        return found if exact is None else self.point_at(found.v, exact, self.pieces.at(exact))

    def _rough_step(self, point: Iterate, now: float) -> Iterate:
        v, t, at = point.v, point.t, point.at
        target = self.space.newton_point(at.slopes, at.duals, t, v, now)
        there, direction = self.space.margins(target), target - v
        # A direction may be long where it changes hardly any margin: there - t would be rounding.
        change, at_target = self.space.margins(direction), self.pieces.at(there)
        products = self.space.cross(v, t, direction, change)
        if takes_whole_step(at, at_target, change, products):
            del change  # as large as the examples are many
            return self.point_at(target, there, at_target)
        length = shorter_step(self.loss, t, change, products)
        if length < _SHORT and self._taken <= self._early and self._taken < self.stop.max_iter:
            del target, there, direction, change, at_target  # as large as the examples are many
            return self._restart()
        v, t = v + length * direction, t + length * change
        found = self.point_at(v, t, self.pieces.at(t))
        if relative(found.gap, found.scale) > self.stop.tolerance:
            return found
        return self.at_point(v)  # margins of a sum have the rounding errors of its parts

    def _restart(self) -> Iterate:
        """The solution for a smaller lambda, where it begins again."""
        self._early = 0
        problem = self.problem._replace(weight=_LIGHTER * self.problem.weight)
        stop = self.stop._replace(tolerance=_ROUGH, limit=self.stop.limit - self._taken)
        steps = _Steps(problem, stop, self.space)
        # No name for the first iterate, as above.
        track, count = descend(
            steps.at_point(self.space.zero()), steps.step, stop, False, ignore_progress
        )
        return self.at_point(track.best(_ROUGH)[0].v)._replace(before=count)


def _beginning(space: Space, start: np.ndarray | None, sample: np.ndarray | None) -> np.ndarray:
    """The point of given duals, else a sample's solution, else 0."""
    if start is not None:
        return space.point(start)
    return space.zero() if sample is None else sample


def _of_sample(problem: Problem, stop: Stop, executor: Serial | None) -> np.ndarray | None:
    """The w of some of many examples, whose weights stand for those of all; shape (d,).

    None if there is no such sample, or no solution for it.
    """
    if problem.gram is not None:
        return None
    m, d = problem.X.shape
    if d > LARGEST_HESSIAN or m < _SAMPLED * _SAMPLED_PER_COLUMN * max(1, d):
        return None
    rows = np.arange(0, m, _SAMPLED)
    weight = problem.weight[rows]
    with np.errstate(over="ignore"):
        weight = weight * (problem.weight.sum() / weight.sum())
    sample = problem._replace(X=problem.X[rows], y=problem.y[rows], weight=weight)
    try:
        return solve(sample, stop, executor=executor).w if np.isfinite(weight).all() else None
    except DivergedError:
        return None


class Iterate(NamedTuple):
    """An iterate: w or coef, P, P - D, S, the number of nonzero duals, and what made them.

    ``eta`` is a dual point, ``t`` the margins, ``gradient`` that of P, ``at`` the losses at t;
    None where a method does not keep it. By ``unsure`` rounding may have changed P: the gap counts
    it, P beside the D of another iterate does not. ``before`` it were so many steps for a smaller
    lambda, if it begins again.
    """

    v: np.ndarray
    primal: float
    gap: float
    scale: float
    support: int
    eta: np.ndarray | None = None
    t: np.ndarray | None = None
    gradient: np.ndarray | None = None
    at: losses.Evaluation | None = None
    unsure: float = 0.0
    before: int = 0


def descend(
    point: Iterate, step: Callable, stop: Stop, has_start: bool, progress: ProgressCallback
) -> tuple[Track, int]:
    """Step until the gap is small enough; the best points, and how many steps there were.

    ``step(point, gap)``, with the relative gap there, gives the next Iterate. Without a start
    there is always a step: at w = 0 the gap is small for a small lambda, but a model that answers
    nothing is of no use.
    """
    track, iteration, least = Track(), 0, 0 if has_start else min(1, stop.max_iter)
    while True:
        if not np.isfinite(point.primal + point.gap):
            raise DivergedError(messages.overflow())
        now = relative(point.gap, point.scale)
        if iteration >= least:
            track.add(point)
        progress(Progress(iteration, point.primal, now, point.support, point.t))
        is_done = iteration >= least and (now <= stop.tolerance or track.is_stalled)
        if is_done or iteration >= stop.max_iter:
            if iteration < least:  # the time ended meanwhile
                track.add(point)
            return track, iteration
        try:
            point = step(point, now)
        except LinAlgError:
            track.add(point)
            return track, iteration  # singular to working precision: no better step can be had
        iteration += 1 + point.before
        if point.before:
            track.begin_again()


class Track:
    """The best points so far, and whether there is still progress."""

    def __init__(self):
        self._closest = self._lowest = self._highest = None
        self.begin_again()

    def begin_again(self) -> None:
        """What follows has to be better than itself only; the best points are those of all."""
        self._gap = self._primal = np.inf
        self._waited = 0

    def add(self, point: Iterate) -> None:
        is_closer = point.gap < self._gap
        is_lower = point.primal < self._primal - _ROUNDING * point.scale
        self._waited = 0 if is_closer or is_lower else self._waited + 1
        self._gap, self._primal = min(self._gap, point.gap), min(self._primal, point.primal)
        if self._closest is None:
            self._closest = self._lowest = self._highest = point
            return
        if point.gap < self._closest.gap:
            self._closest = point
        if point.primal < self._lowest.primal:
            self._lowest = point
        if point.primal - point.gap > self._highest.primal - self._highest.gap:
            self._highest = point

    def renewed(self, renew: Callable[[Iterate], Iterate]) -> Track:
        """The same of points that are looked at again, each once: a look may be a pass."""
        other, points = Track(), (self._closest, self._lowest, self._highest)
        for point in {id(point): point for point in points}.values():
            other.add(renew(point))
        return other

    @property
    def is_stalled(self) -> bool:
        return self._waited >= _PATIENCE

    def best(self, tolerance: float) -> tuple[Iterate, np.ndarray, float]:
        """A point, a dual point, and the gap between them.

        The closest pair if it is close enough (its gap is free of cancellation);
        otherwise the lowest primal and the highest dual value, met at different times.
        """
        closest, lowest, highest = self._closest, self._lowest, self._highest
        apart = lowest.primal - (highest.primal - highest.gap) + lowest.unsure + highest.unsure
        if relative(closest.gap, closest.scale) <= tolerance or apart >= closest.gap:
            return closest, closest.eta, closest.gap
        return lowest, highest.eta, max(0.0, apart)


def step_length(loss, t, change, products) -> float:
    """How far to go from margins t towards t + change.

    Returns float, 0 < step <= 1.

    Parameters
    ----------
    loss : MarginLoss of arrays, shape (m,)
    t, change : ndarrays, shape (m,)
    products : tuple of two floats
        <w, p> and <p, p> of the point w and the direction p.
    """
    pieces = losses.Pieces(loss, np.ones_like(t))
    if takes_whole_step(pieces.at(t), pieces.at(t + change), change, products):
        return 1.0
    return shorter_step(loss, t, change, products)


def takes_whole_step(here, there, change, products) -> bool:
    """Whether a step lowers P enough, or P still falls at its end.

    Parameters
    ----------
    here, there : Evaluation
        At t and at t + change.
    change, products
        As for :func:`step_length`.
    """
    along, squared = products
    rise = along + squared / 2 + (there.values - here.values).sum()
    enough = SUFFICIENT_DECREASE * (along - here.duals @ change)
    return bool(rise <= enough or along + squared - there.duals @ change <= 0)


def shorter_step(loss, t, change, products) -> float:
    """The step at which P is lowest; parameters as for :func:`step_length`."""
    along, squared = products

    def slope_at(step: float) -> float:
        return along + step * squared + losses.derivative(loss, t + step * change) @ change

    with np.errstate(divide="ignore", invalid="ignore"):
        bends = np.concatenate([(loss.lo - t) / change, (loss.hi - t) / change])
    bends = np.concatenate([[0.0], np.sort(bends[(bends > 0) & (bends < 1)]), [1.0]])
    # The slope grows with the step, and is linear from one bend to the next.
    k = 1 + bisect_left(range(1, len(bends) - 1), 0.0, key=lambda k: slope_at(bends[k]))
    low, high = bends[k - 1 : k + 1]
    below, above = slope_at(low), slope_at(high)
    if below >= 0:
        return _LEAST_STEP  # by rounding only is it no way down
    if above <= below:
        return float(high)  # the slope is so small that rounding hides how it grows
    return float(low + (high - low) * below / (below - above))
