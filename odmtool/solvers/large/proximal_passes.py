"""Newton's method by passes over rows on the disk, for losses whose derivative jumps.

Problem     min over w of P(w) = 1/2 |w|^2 + sum_i u_i l(t_i), as in :mod:`.passes`, whose l' may
            jump once or twice, such as the hinge loss.
Update      a proximal step on the dual from the centre c,

                c <- argmax over eta of D(eta) - 1/2 sum_i sigma_i (eta_i - c_i)^2,

            by Newton's method in w: its primal is the problem itself with a loss in which every
            jump is spread over an interval of margins. The intervals are half as wide in every
            proximal step. A pass gives the value and the gradient of that primal, the duals eta
            that it demands, and its Hessian, to which only the examples add whose margin is in an
            interval. In memory are c, the margins here and where
            the last step led, and as many d x d numbers as in :mod:`.passes`.
Stop        when P(w) - D(eta), with what rounding may hide, is at most tolerance S: every pass
            tells, because eta is a dual point of the problem itself.
Source      as :mod:`odmtool.solvers.newton.proximal`, of which this is the form for rows that
            cannot be in memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from odmtool import messages
from odmtool.core import kernels, losses
from odmtool.core.losses import MarginLoss
from odmtool.errors import DivergedError
from odmtool.rows.examples import Examples
from odmtool.rows.executor import Serial
from odmtool.solvers.base import SUFFICIENT_DECREASE, Progress, Stop, ignore_progress, relative
from odmtool.solvers.large.block_descent import at_zero
from odmtool.solvers.large.blocks import RowSource, newton_direction, weighted_gram
from odmtool.solvers.large.passes import Found
from odmtool.solvers.newton.newton import Iterate, Track
from odmtool.solvers.newton.proximal import FIRST, LAST_WIDTH, LEAST_FIRST, NARROWER
from odmtool.solvers.rounding import shares_error, sum_error

# Newton's steps for a centre end where half the square of the gradient is this share of the gap.
# speed only: as above
_INNER_SHARE = 0.1
# Of a gap that is far above P(0) no more counts there.
# speed only: as above
_FAR = 0.1
# A shorter step that lowers the primal ends where the slope is this share of that at the beginning,
# or after so many looks, each of them this share of what is left from its ends, at least.
# speed only: how precisely a step is as long as it should be
_PRECISION, _SEARCHES, _INNERMOST = 0.01, 40, 0.01


class Smoothed(NamedTuple):
    """Losses in which the jumps are spread, at some margins; ndarrays of shape (m,)."""

    values: np.ndarray
    duals: np.ndarray  # the derivatives with the other sign; duals of the losses as they are, too
    slopes: np.ndarray


class _Sums(NamedTuple):
    """What a pass adds up.

    ``loss``, ``size``, ``share``: u l(t), its size, and the shares of P - D with what rounding
    may hide of them. ``smooth``: the loss in which the jumps are spread.
    """

    loss: float
    size: float
    share: float
    smooth: float
    support: float  # examples whose duals are not 0
    length: float  # of |x_i| |eta_i|
    square: float  # of u_i |x_i|^2
    unsure: float  # by how much rounding may have changed the loss
    point: np.ndarray  # X'(y eta)
    hessian: np.ndarray


class _Point(NamedTuple):
    """An iterate, and what is known of the primal of the proximal step there."""

    iterate: Iterate  # of the problem itself, but for the gradient
    t: np.ndarray  # margins, shape (m,)
    smooth: float
    square: float

    @property
    def v(self) -> np.ndarray:
        return self.iterate.v

    @property
    def gradient(self) -> np.ndarray:
        return self.iterate.gradient


def solve(
    examples: Examples, loss: MarginLoss, stop: Stop, *, executor=None, progress=ignore_progress
) -> Found:
    """Solve a linear problem; ``stop.max_iter`` counts Newton steps, nothing is random."""
    problem = _Proximal(examples, loss, executor or Serial())
    point, track, steps = problem.beginning(), Track(), 0
    first = point.iterate.scale
    while True:
        now = point.iterate
        if not np.isfinite(now.primal + now.gap):
            raise DivergedError(messages.overflow())
        gap = relative(now.gap, now.scale)
        # speed only: with wide intervals the gap need not fall in every step
        if problem.width > LAST_WIDTH:
            track.begin_again()
        track.add(now)
        progress(Progress(steps, now.primal, gap, now.support))
        # At 0 a gap may be small where w is all that is wanted of it.
        is_enough = gap <= stop.tolerance and (steps > 0 or not now.gradient.any())
        if is_enough or steps >= stop.max_iter or track.is_stalled:
            break
        # speed only: the gap decides when it ends, not how precise a proximal step was
        if now.gradient @ now.gradient / 2 <= _INNER_SHARE * min(now.gap, _FAR * first):
            point = problem.from_here(point)
        if stop.is_late:
            break
        try:
            point, steps = problem.step(point, stop), steps + 1
        except LinAlgError:
            break
    best = now
    if not is_enough:
        # No duals at all may show more than those on the way.
        zero = at_zero(examples, loss)
        track.add(Iterate(zero.point, zero.primal, zero.gap, zero.scale, 0))
        best, _, gap = track.best(stop.tolerance)
        gap = relative(gap, best.scale)
    return Found(best.v, best.primal, gap, steps, gap <= stop.tolerance, best.support, "newton")


class _Proximal:
    """Passes over the rows, and what is kept for every example from one to the next."""

    def __init__(self, examples: Examples, loss: MarginLoss, executor):
        self.examples, self.loss, self.executor = examples, loss, executor
        m, self.dimension = examples.shape
        self.width, self.centre = FIRST, np.zeros(m)
        self._margins, self._hessian = (np.zeros(m), np.zeros(m)), None
        self._error = sum_error(max(examples.shape))

    def beginning(self) -> _Point:
        """At w = 0, with intervals as wide as all jumps together can move a margin, about."""
        point = self.at(np.zeros(self.dimension), self._margins[0])
        reach = jump_of(self.loss) * point.square
        if reach < FIRST:
            self.width = max(reach, LEAST_FIRST)
            point = self.at(point.v, point.t)
        return point

    def from_here(self, point: _Point) -> _Point:
        """The same w, with its duals for the centre and narrower intervals."""
        self._map(_move, point.t)
        self.width = max(self.width * NARROWER, LAST_WIDTH)
        return self.at(point.v, point.t)

    def at(self, w: np.ndarray, t: np.ndarray) -> _Point:
        """One pass, whose margins go to ``t``."""
        sums = self._added(w, t)
        gradient, norm = w - sums.point, w @ w
        with np.errstate(over="ignore", invalid="ignore"):
            off = self._error * sums.length
            gap = sums.share + (np.linalg.norm(gradient) + off) ** 2 / 2
            primal, scale = norm / 2 + sums.loss, norm / 2 + sums.size
        self._hessian = sums.hessian
        iterate = Iterate(
            w, float(primal), float(gap), float(scale), int(sums.support), gradient=gradient,
            unsure=sums.unsure,
        )  # fmt: skip
        return _Point(iterate, t, float(norm / 2 + sums.smooth), sums.square)

    def step(self, point: _Point, stop: Stop) -> _Point:
        """The point after the whole of Newton's step, or at the minimum along it, with time."""
        w, gradient = point.v, point.gradient
        direction = newton_direction(self._hessian, gradient)
        self._hessian = None  # before another is made
        other = self._margins[point.t is self._margins[0]]
        whole, slope = self.at(w + direction, other), gradient @ direction
        enough = whole.smooth - point.smooth <= SUFFICIENT_DECREASE * slope
        end = whole.gradient @ direction
        if enough or end <= 0 or stop.is_late:
            return whole
        length = self._lowest(point, direction, other, slope, end)
        self._hessian = None
        return self.at(w + length * direction, point.t)

    def _lowest(self, point: _Point, direction, other, below: float, above: float) -> float:
        """How far to go along a direction; the slope is ``below`` 0 here, ``above`` 0 at the end.

        No pass: the margins here and there are known.
        """
        along, squared = point.v @ direction, direction @ direction
        low, high, first, enough = 0.0, 1.0, below, _PRECISION * abs(below)
        for k in range(_SEARCHES):
            # In turns by the secant and in the middle, or, until something is low enough, near 0.
            halfway = 0.5 if low > 0 else _INNERMOST
            share = below / (below - above) if k % 2 == 0 else halfway
            middle = low + (high - low) * min(max(share, _INNERMOST), 1 - _INNERMOST)
            parts = self._map(_along, point.t, other, middle)
            slope = along + middle * squared + sum(part[1] for part in parts)
            rise = middle * along + middle**2 * squared / 2 + sum(part[0] for part in parts)
            # Where the first slope is steep, a small one beyond the minimum is no end.
            if abs(slope) <= enough and rise <= SUFFICIENT_DECREASE * middle * first:
                return middle
            if slope < 0:
                low, below = middle, slope
            else:
                high, above = middle, slope
        return low

    def _added(self, w: np.ndarray, t: np.ndarray) -> _Sums:
        """The sums over all examples; so many Hessians of tasks at a time as there are threads."""
        tasks, jobs, total = self.examples.tasks(), self.executor.jobs, None
        for first in range(0, len(tasks), jobs):
            for part in self._map(_sums, w, self._error, t, tasks=tasks[first : first + jobs]):
                total = part if total is None else _sum_of(total, part)
        return total

    def _map(self, function, *arguments, tasks=None) -> list:
        tasks = self.examples.tasks() if tasks is None else tasks
        fixed = (self.examples, self.loss, self.centre, self.width, *arguments)
        return self.executor.map(function, tasks, *([value] * len(tasks) for value in fixed))


def _sum_of(total: _Sums, part: _Sums) -> _Sums:
    """Both together; the arrays of ``total`` become those of the sum."""
    numbers = [a + b for a, b in zip(total[:-2], part[:-2], strict=True)]
    np.add(total.point, part.point, out=total.point)
    np.add(total.hessian, part.hessian, out=total.hessian)
    return _Sums(*numbers, total.point, total.hessian)


def _sums(
    blocks: range, examples: Examples, loss, centre, width: float, w, error: float, margins
) -> _Sums:
    """The sums of a share of the blocks, whose margins go to ``margins``."""
    d, norm = len(w), np.linalg.norm(w)
    point, hessian, numbers = np.zeros(d), np.zeros((d, d)), np.zeros(8)
    for k in blocks:
        block = examples.block(k)
        used = np.flatnonzero(block.u > 0)
        rows = block.X if len(used) == len(block.u) else block.X[used]
        y, u, places = block.y[used], block.u[used], block.start + used
        with np.errstate(over="ignore", invalid="ignore"):
            t, squares = y * np.asarray(rows @ w), kernels.squares(rows)
            own, sizes = losses.scaled(loss, u), np.sqrt(squares)
            off = error * norm * sizes
            found = smoothed(own, width / (u * jump_of(loss)), centre[places], t)
            values, duals = losses.value(own, t), found.duals
            shares = values + duals * t - losses.dual_value(own, duals)
            share = shares.sum() + shares_error(own, t, duals, off)
            # In the order of the fields.
            numbers += (
                values.sum(), np.abs(values).sum(), share, found.values.sum(),
                np.count_nonzero(duals), sizes @ np.abs(duals), u @ squares,
                shares_error(own, t, 0.0, off),
            )  # fmt: skip
            point += np.asarray(rows.T @ (y * duals))
            if (found.slopes > 0).any():
                hessian += weighted_gram(RowSource(rows), found.slopes)
        margins[places] = t
    return _Sums(*numbers.tolist(), point, hessian)


def _of_blocks(blocks: range, examples: Examples, loss, width: float):
    """Of one block after the other the losses, sigma, and the places of the examples."""
    for k in blocks:
        u = examples.weights(k)
        used = np.flatnonzero(u > 0)
        u, places = u[used], int(examples.store.starts[k]) + used
        yield losses.scaled(loss, u), width / (u * jump_of(loss)), places


def _move(blocks: range, examples: Examples, loss, centre, width: float, t) -> None:
    """Put the duals that the margins demand in the place of the centre."""
    for own, sigma, places in _of_blocks(blocks, examples, loss, width):
        centre[places] = smoothed(own, sigma, centre[places], t[places]).duals


def _along(
    blocks: range, examples: Examples, loss, centre, width: float, t, other, length: float
) -> tuple[float, float]:
    """By how much the losses rise up to a point between two whose margins are known, and their
    share of the derivative there.
    """  # fmt: skip
    rise = slope = 0.0
    for own, sigma, places in _of_blocks(blocks, examples, loss, width):
        here, moved = t[places], other[places] - t[places]
        there = smoothed(own, sigma, centre[places], here + length * moved)
        rise += (there.values - smoothed(own, sigma, centre[places], here).values).sum()
        slope -= there.duals @ moved
    return rise, slope


def jump_of(loss: MarginLoss) -> float:
    """The largest jump of the derivative of a loss of scalars."""
    if loss.lo == loss.hi:
        return float(loss.right_hi - loss.left_lo)
    return float(max(loss.right_lo - loss.left_lo, loss.right_hi - loss.left_hi))


def smoothed(loss: MarginLoss, sigma: np.ndarray, centre: np.ndarray, t: np.ndarray) -> Smoothed:
    """min over s of l(s) + c (s - t) + (s - t)^2 / (2 sigma): what a proximal step makes of l.

    Its derivative is that of l at the best s, where -eta = l'(s) and s = t + sigma (eta - c).

    Parameters
    ----------
    loss : MarginLoss of arrays, shape (m,)
    sigma, centre, t : ndarrays, shape (m,)
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        base = t - sigma * centre  # = s + sigma l'(s), which grows with s
        start, tilt, bend, most = _pieces(loss, sigma, base)
        is_kink, beyond = np.isinf(bend), base - start - sigma * tilt
        bend = np.where(is_kink, 0.0, bend)
        away = np.where(is_kink, 0.0, beyond / (1 + sigma * bend))
        derivative = tilt + np.where(is_kink, beyond / sigma, bend * away)
        # Where rounding leaves it beyond the jump it would be no dual.
        derivative = np.where(is_kink, np.minimum(derivative, most), derivative)
        s = start + away
        moved = s - t
        values = losses.value(loss, s) + moved * (centre + moved / (2 * sigma))
        slopes = np.where(is_kink, 1 / sigma, bend / (1 + sigma * bend))
    return Smoothed(values, -derivative, slopes)


def _pieces(loss: MarginLoss, sigma: np.ndarray, base: np.ndarray) -> list[np.ndarray]:
    """Where the piece begins that holds s, l' and l'' there, and the largest l'; (m,) each.

    l'' is infinite where s is at a jump.
    """
    ends = (
        loss.lo + sigma * loss.left_lo, loss.lo + sigma * loss.right_lo,
        loss.hi + sigma * loss.left_hi, loss.hi + sigma * loss.right_hi,
    )  # fmt: skip
    piece = sum((base > end).astype(np.intp) for end in ends)
    tables = (
        (loss.lo, loss.lo, loss.lo, loss.hi, loss.hi),
        (loss.left_lo, loss.left_lo, loss.right_lo, loss.left_hi, loss.right_hi),
        (loss.slope_below, np.inf, loss.slope_between, np.inf, loss.slope_above),
        (np.inf, loss.right_lo, np.inf, loss.right_hi, np.inf),
    )
    return [
        np.choose(piece, [np.broadcast_to(number, len(base)) for number in table])
        for table in tables
    ]
