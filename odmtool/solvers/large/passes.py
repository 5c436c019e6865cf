"""Newton's method by passes over rows on the disk; nothing is kept for an example.

Problem     min over w of P(w) = 1/2 |w|^2 + sum_i u_i l(t_i), l with a continuous derivative,
            over rows x_i, or over Nystrom's features L^-1 k(Z, x_i) (:mod:`.nystrom`).
Update      w - H^-1 g, where one pass gives P, the gradient g = w - w(eta) and, with
            eta_i = -u_i l'(t_i), the dual point that it belongs to. H is that of all
            examples where they are few, else that of a sample, at whose solution the method
            then begins, as long as every step shortens the gap by much. The whole step if it
            lowers P enough; else the exact minimum along it, found by passes that try several
            lengths at once.
Stop        when P(w) - D(eta) = 1/2 |g|^2, with what rounding may hide, is <= tolerance S.
Source      as :mod:`odmtool.solvers.newton.newton`, of which this is the form for rows that cannot
            be in memory: one pass per step, memory O(d^2). The sample's Hessian:
            Roosta-Khorasani & Mahoney, "Sub-sampled Newton methods", Math. Programming
            174, 2019.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool.core import kernels, losses
from odmtool.core.losses import MarginLoss
from odmtool.rows.examples import Examples
from odmtool.rows.executor import Serial
from odmtool.solvers.base import SUFFICIENT_DECREASE, Stop, ignore_progress, relative
from odmtool.solvers.large.blocks import (
    LEAST_SAMPLE,
    Blocks,
    NystromBasis,
    RowSource,
    SampledGram,
    both_sides,
    coordinates,
    expansion,
    newton_direction,
    times,
    weighted_gram,
)
from odmtool.solvers.newton import newton
from odmtool.solvers.newton.newton import Iterate
from odmtool.solvers.rounding import SpanRounding

# Lengths tried in a pass, and passes, when a whole step goes too far.
# speed only: how precisely a step is as long as it should be
_LENGTHS, _SEARCHES = 15, 4
# A step that leaves more of the gap is too short: the sample's Hessian is not that of all.
# speed only: the Hessian of some examples does, as long as it is quick
_SLOW = 0.25
# Rows of a piece of features; they stay in the processor's cache.
# speed only: rows at a time
_PIECE_ROWS = 256


class Sums(NamedTuple):
    """What a pass adds up: the losses, their sizes, X'(y eta), and the nonzero eta.

    ``lengths`` are the sums of |x_i| |eta_i| and of u_i |x_i|^2, for bounds of rounding.
    """

    loss: float
    size: float
    point: np.ndarray
    support: int
    lengths: np.ndarray


class Found(NamedTuple):
    """What was found, with the fields of :class:`odmtool.solvers.base.Solution`."""

    w: np.ndarray
    primal: float
    gap: float
    iterations: int
    converged: bool
    support_count: int
    solver: str
    failure: None = None


def solve(
    examples: Examples, loss: MarginLoss, stop: Stop, *, basis: NystromBasis | None = None,
    sample: np.ndarray | None = None, executor=None, progress=ignore_progress,
) -> Found:  # fmt: skip
    """Solve a linear problem; ``stop.max_iter`` counts Newton steps.

    Parameters
    ----------
    loss : MarginLoss
        With a continuous derivative.
    basis : NystromBasis, optional
        The problem is that of Nystrom's features.
    sample : int array, optional
        The examples of H, ascending (:func:`.blocks.sample_of`); all if None.
    """
    problem = _Passes(examples, loss, basis, executor or Serial())
    hessian, w = problem.hessian, np.zeros(problem.width)
    if sample is not None:
        y, u = examples.signs(sample)
        # speed only: where Newton's method begins
        if np.count_nonzero(u) >= LEAST_SAMPLE * problem.width:
            known = problem.sample(sample, y, u)
            hessian, w = known.hessian, known.solution(stop)

    last = np.inf

    def step(point: Iterate, gap: float) -> Iterate:
        nonlocal hessian, last
        # speed only: the Hessian of some examples does, as long as it is quick
        if gap > _SLOW * last:
            hessian = problem.hessian
        last = gap
        return problem.step(point, newton_direction(hessian(point.v), point.gradient))

    track, iteration = newton.descend(problem.at(w), step, stop, False, progress)
    best, _, gap = track.best(stop.tolerance)
    gap = relative(gap, best.scale)
    return Found(best.v, best.primal, gap, iteration, gap <= stop.tolerance, best.support, "newton")


class _Passes:
    """The sums over all examples that Newton's method asks for."""

    def __init__(self, examples: Examples, loss: MarginLoss, basis: NystromBasis | None, executor):
        self.examples, self.loss, self.basis, self.executor = examples, loss, basis, executor
        self.width = examples.shape[1] if basis is None else len(basis.factor)
        self._factor = None if basis is None else basis.factor
        self._bound = SpanRounding(self._factor, max(examples.shape))

    def at(self, w: np.ndarray) -> Iterate:
        """P, gap and gradient at w; one pass."""
        a = expansion(self._factor, w)
        sums = self._map(_sums, a)
        point = coordinates(self._factor, sum(part.point for part in sums))
        gradient, norm = w - point, w @ w
        with np.errstate(over="ignore", invalid="ignore"):
            primal = norm / 2 + sum(part.loss for part in sums)
            scale = norm / 2 + sum(part.size for part in sums)
            size, squares = sum(part.lengths for part in sums)
            bent = losses.largest_slope(self.loss) * squares
            gap = self._bound.gap(gradient, a, size, bent)
            unsure = self._bound.unsure(a, size, bent)
        support = sum(part.support for part in sums)
        return Iterate(
            w, float(primal), float(gap), float(scale), support, gradient=gradient, unsure=unsure
        )  # fmt: skip

    def step(self, point: Iterate, direction: np.ndarray) -> Iterate:
        """The point after the whole step, or at the minimum along it."""
        slope = point.gradient @ direction
        whole = self.at(point.v + direction)
        enough = whole.primal - point.primal <= SUFFICIENT_DECREASE * slope
        if enough or whole.gradient @ direction <= 0:
            return whole
        low, high = 0.0, 1.0
        along, squared = point.v @ direction, direction @ direction
        a, change = (expansion(self._factor, v) for v in (point.v, direction))
        for _ in range(_SEARCHES):
            lengths = np.linspace(low, high, _LENGTHS + 2)[1:-1]
            slopes = along + lengths * squared + sum(self._map(_slopes, a, change, lengths))
            beyond = int(np.searchsorted(slopes >= 0, True))
            edges = np.concatenate([[low], lengths, [high]])
            low, high = edges[beyond], edges[beyond + 1]
        return self.at(point.v + high * direction)

    def hessian(self, w: np.ndarray) -> np.ndarray:
        """X'SX of all examples; one pass, of a linear problem or of features."""
        H, a = np.zeros((self.width, self.width)), expansion(self._factor, w)
        for k in range(self.examples.count):
            block = self.examples.block(k)
            source = self._source(block.X)
            t = block.y * times(source, a)
            H += weighted_gram(source, block.u * losses.slope(self.loss, t))
        return both_sides(self._factor, H)

    def sample(self, rows: np.ndarray, y: np.ndarray, u: np.ndarray) -> SampledGram:
        """The Hessian of some examples, whose rows will be in memory."""
        used = u > 0
        X = self.examples.rows(rows[used])
        cuts = np.linspace(0, X.shape[0], self.executor.jobs + 1).astype(int).tolist()
        # speed only: of one part no copy is made
        parts = [X[a:b] for a, b in zip(cuts, cuts[1:], strict=False)] if len(cuts) > 2 else [X]
        del X
        sources, sizes = [self._source(part) for part in parts], [part.shape[0] for part in parts]
        X = Blocks(sources, sizes, self.width, self._factor, self.executor)
        return SampledGram(X, y[used], u[used], self.examples.total_weight(), self.loss)

    def _source(self, X) -> RowSource:
        return RowSource(X) if self.basis is None else self.basis.source(X)

    def _map(self, function, *arguments) -> list:
        tasks = self.examples.tasks()
        fixed = (self.examples, self.loss, self.basis, *arguments)
        return self.executor.map(function, tasks, *([value] * len(tasks) for value in fixed))


def _pieces(examples: Examples, blocks: range, basis: NystromBasis | None):
    """Rows, y and u of one piece after the other."""
    for k in blocks:
        block = examples.block(k)
        if basis is None:
            yield block.X, block.y, block.u
            continue
        for part, rows in basis.source(block.X).pieces(_PIECE_ROWS):
            yield rows, block.y[part], block.u[part]


def _sums(blocks: range, examples: Examples, loss: MarginLoss, basis, a) -> Sums:
    """The sums of a share of the blocks."""
    total, size, point, support, lengths = 0.0, 0.0, np.zeros(len(a)), 0, np.zeros(2)
    for rows, y, u in _pieces(examples, blocks, basis):
        with np.errstate(over="ignore", invalid="ignore"):
            t = y * (rows @ a)
            values, eta = u * losses.value(loss, t), -u * losses.derivative(loss, t)
            point += rows.T @ (y * eta)
            total, size = total + values.sum(), size + np.abs(values).sum()
            squares = kernels.squares(rows)
            lengths += np.sqrt(squares) @ np.abs(eta), u @ squares
        support += int(np.count_nonzero(eta))
    return Sums(total, size, point, support, lengths)


def _slopes(blocks: range, examples, loss, basis, a, change, lengths) -> np.ndarray:
    """The losses' share of the derivative of P along a direction, for several lengths."""
    total = np.zeros(len(lengths))
    for rows, y, u in _pieces(examples, blocks, basis):
        t, moved = y * (rows @ a), y * (rows @ change)
        for k, length in enumerate(lengths):
            total[k] += (u * losses.derivative(loss, t + length * moved)) @ moved
    return total
