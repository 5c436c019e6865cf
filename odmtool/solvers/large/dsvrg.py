"""Distributed SVRG: the parts take their steps in turn, w goes from one to the next; linear.

Problem     P(w) = 1/2 |w|^2 + sum_i u_i l(t_i), l with a continuous derivative.
Update      The examples are cut into parts (:mod:`odmtool.rows.partition`), which stay
            where an executor keeps them. A stage starts at a snapshot s. The parts compute
            margins and their shares of the full gradient g side by side. Then each in turn
            takes the steps of :mod:`odmtool.solvers.stochastic.svrg` with its own examples and
            hands e = w - s, as (a, k, z), to the next. The next snapshot is the last w.
Sampling    part k, whose sum of u_i |x_i|^2 is S_k of S, takes m S_k / S steps; within it
            an example is drawn in proportion to u_i |x_i|^2, spread evenly, so that equal
            examples are drawn without replacement. Then every example of the whole is drawn
            with the probability that svrg has for it.
Step, stop  those of svrg: Barzilai and Borwein's, and 1/2 |g|^2, a bound for nothing.
Travels     for a part and stage: s, g, one share of g back, and e to its neighbour: four
            vectors of length d. Margins stay; the dual variables come once, at the end.
Source      Wang et al., "Scalable optimal margin distribution machine", IJCAI 2023,
            Algorithm 2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool import messages
from odmtool.core import kernels, losses
from odmtool.errors import DivergedError
from odmtool.rows.executor import Serial, itself
from odmtool.rows.spread import pieces_of
from odmtool.solvers.base import Problem, Solution, Stop, ignore_progress
from odmtool.solvers.descent.dcd import compressed_rows, row_squares
from odmtool.solvers.large.parts import transposed_product
from odmtool.solvers.large.sodm import arrange
from odmtool.solvers.settings import Settings
from odmtool.solvers.stochastic import common, svrg


def solve(
    problem: Problem, stop: Stop, settings: Settings, *, executor=None, seed: int = 0,
    start: np.ndarray | None = None, progress=ignore_progress,
) -> Solution:  # fmt: skip
    """Solve a linear problem whose loss has a continuous derivative.

    Parameters
    ----------
    stop : Stop
        ``max_iter`` counts stages of m steps.
    settings : Settings
        Its ``partitions``, a number, ``partition_by`` and ``strata`` make the parts.
    executor : optional
        Where the parts are kept (:mod:`odmtool.rows.executor`); the same w everywhere.
    start : ndarray, shape (m,), optional
        Dual variables; w starts at w(start).
    """
    narrow, widen = problem, np.asarray
    if pieces_of(problem.X).is_here:
        narrow, widen = common.occupied_columns(problem)
    order, levels = arrange(narrow, settings, seed)
    with np.errstate(over="ignore", invalid="ignore"):
        rows = Spread(narrow, order, levels[0], executor or Serial(), seed)
        point = rows.at(rows.first_w(start))
        if not np.isfinite(point.primal):
            raise DivergedError(messages.overflow())
        run = svrg.Stages(rows, point)
        solution = svrg.until_certified(run, stop, start is not None, progress, "dsvrg")
    return solution._replace(w=widen(solution.w))


class Snapshot(NamedTuple):
    """w, P(w), its scale S, the full gradient, examples with a slope; margins of each part.

    ``lengths`` is the sum of |x_i| |eta_i|.
    """

    w: np.ndarray
    primal: float
    scale: float
    gradient: np.ndarray
    active: int
    lengths: float
    margins: list


class Spread:
    """The examples of a problem in parts, as :class:`~odmtool.solvers.stochastic.svrg.Stages` asks.

    Parameters
    ----------
    order : int array, shape (m,)
        The examples, part by part.
    ranges : list of (start, end)
        The parts.
    executor
    """

    def __init__(self, problem: Problem, order, ranges, executor, seed: int):
        self.size, self._executor, self._seed, self._stage = problem.size, executor, seed, 0
        self.problem, self._order, self._members = problem, order, [order[a:b] for a, b in ranges]
        X = pieces_of(problem.X).parts(self._members, executor)
        y, weight = self._split(problem.y), self._split(problem.weight)
        self._parts = executor.keep_each(
            Problem, X, [None] * len(X), y, weight, [problem.loss] * len(X)
        )
        shares = np.array(executor.map(square_sum, self._parts))
        self._total = float(shares.sum())
        self.curvature = svrg.curvature(problem.loss, self._total)
        self.terms = max(problem.X.shape)
        ends = common.cumulative(shares) * self.size
        self._counts = np.diff(np.rint(ends), prepend=0).astype(int).tolist()

    def first_w(self, start: np.ndarray | None) -> np.ndarray:
        """w(start) of dual variables, w = 0 without them."""
        if start is None:
            return np.zeros(self.problem.X.shape[1])
        duals = self._split(np.asarray(start, dtype=float))
        return np.sum(self._executor.map(dual_point, self._parts, duals), axis=0)

    def at(self, w: np.ndarray) -> Snapshot:
        """The snapshot at w; one pass over the data for margins, one for the gradient."""
        margins = self._executor.keep_each(margins_of, self._parts, [w] * len(self._parts))
        shares = self._executor.map(slopes_of, self._parts, margins)
        values, sizes, gradients, active, lengths = zip(*shares, strict=True)
        norm = w @ w
        return Snapshot(
            w, float(norm / 2 + sum(values)), float(norm / 2 + sum(sizes)),
            w + np.sum(gradients, axis=0), sum(active), sum(lengths), margins,
        )  # fmt: skip

    def gradient(self, point: Snapshot) -> np.ndarray:
        """The full gradient of P at a snapshot."""
        return point.gradient

    def steps(self, point: Snapshot, gradient: np.ndarray, step: float) -> np.ndarray:
        """How far the steps of a stage move w."""
        executor, parts = self._executor, self._parts
        seeds = [(self._seed, self._stage, k) for k in range(len(parts))]
        same = ([value] * len(parts) for value in (gradient, self._total))
        plans = executor.keep_each(plan_of, parts, *same, self._counts, seeds)
        self._stage += 1
        moved = (1.0, 0.0, np.zeros_like(gradient))
        for part, margins, plan in zip(parts, point.margins, plans, strict=True):
            moved = executor.keep(steps_of, part, margins, plan, step, moved)
        ((a, k, z),) = executor.map(itself, [moved])
        return a * z + k * gradient

    def active(self, point: Snapshot) -> int:
        """Examples whose loss has a slope."""
        return point.active

    def margins(self, point: Snapshot) -> None:
        """They are with the parts."""

    def lengths(self, point: Snapshot) -> float:
        """The sum of |x_i| |eta_i|, for bounds of rounding."""
        return point.lengths

    def duals(self, point: Snapshot) -> np.ndarray:
        """The dual variables of a snapshot, shape (m,)."""
        duals = np.empty(self.size)
        duals[self._order] = np.concatenate(
            self._executor.map(duals_of, self._parts, point.margins)
        )
        return duals

    def _split(self, v: np.ndarray) -> list[np.ndarray]:
        return [v[part] for part in self._members]


def square_sum(part: Problem) -> float:
    """sum u_i |x_i|^2."""
    return float(part.weight @ row_squares(*compressed_rows(part.X)))


def margins_of(part: Problem, w: np.ndarray) -> np.ndarray:
    """y_i <w, x_i>."""
    return part.y * np.asarray(part.X @ w)


def dual_point(part: Problem, eta: np.ndarray) -> np.ndarray:
    """sum eta_i y_i x_i."""
    return transposed_product(part.X, part.y * eta)


def duals_of(part: Problem, margins: np.ndarray) -> np.ndarray:
    """-u_i l'(t_i)."""
    return -part.weight * losses.derivative(part.loss, margins)


def slopes_of(part: Problem, margins: np.ndarray):
    """A part's losses, their sizes, its share of the gradient, how many have a slope, lengths."""
    values, eta = part.weight * losses.value(part.loss, margins), duals_of(part, margins)
    gradient = -dual_point(part, eta)
    lengths = np.sqrt(kernels.squares(part.X)) @ np.abs(eta)
    return values.sum(), np.abs(values).sum(), gradient, int(np.count_nonzero(eta)), lengths


def plan_of(part: Problem, gradient, total: float, count: int, seeds):
    """What the ``count`` steps of a part need besides w: drift, inflation, order."""
    shares = part.weight * row_squares(*compressed_rows(part.X))
    order = common.draw(np.random.default_rng(seeds), common.cumulative(shares), count)
    return margins_of(part, gradient), svrg.inflation(shares, total), order


def steps_of(part: Problem, margins, plan, step: float, moved):
    """(a, k, z) after the steps of a part, from (a, k, z) before."""
    (drift, inflation, order), (a, k, z) = plan, moved
    z = z.copy()
    a, k = svrg.stage(
        *compressed_rows(part.X), part.y, part.weight, part.loss, margins, drift, inflation,
        order, step, a, k, z,
    )  # fmt: skip
    return a, k, z
