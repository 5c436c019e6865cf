"""Working sets: coordinate descent on the few of many examples whose dual variables may move.

Problem     that of :mod:`odmtool.solvers.descent.dcd` with a kernel that is positive semidefinite
            and the loss of l1svm or svr, whose derivative is constant but for one or two jumps. The
            dual of an example that is not near a jump is at a bound, and stays there.
Method      1. A quarter of the examples with the weight of all is solved in the same way. Of the
               others its margins say the duals, and which are near a jump.
            2. Margins of all examples, by kernel values that are not kept, and the gap.
            3. The working set: examples near a jump, and those whose dual is not that of their
               margin. Epochs of descent on its kernel values, while all other duals stay.
            2 and 3 in turn, and more examples are near where that was too little.
Stop        when the relative duality gap over all examples is at most the tolerance. Where the
            working set does not fit in memory, or rounds or epochs are too many, the best point
            so far is returned, which has not converged.
Source      Osuna, Freund & Girosi, "An improved training algorithm for support vector machines",
            NNSP 1997; Joachims, "Making large-scale support vector machine learning practical",
            1999; for 1, Graf et al., "Parallel support vector machines: the cascade SVM",
            NIPS 2004.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool.core import losses
from odmtool.core.gram import BYTES
from odmtool.core.loss_table import JUMPS, ONE_JUMP
from odmtool.rows.executor import Serial
from odmtool.rows.whole import filled
from odmtool.solvers.base import (
    Problem,
    Progress,
    ProgressCallback,
    Solution,
    Stop,
    ignore_progress,
    not_worse_than_zero,
    relative,
)
from odmtool.solvers.descent import dcd
from odmtool.solvers.descent.kernel_block import least_share
from odmtool.solvers.diverged import diverged
from odmtool.solvers.engine.points import BLOCK, points_of
from odmtool.solvers.rounding import Rounding

# So many examples are solved at once, and of more a share of one in so many first, to so many
# times the tolerance.
# speed only: where all examples begin
_AT_ONCE, _ONE_IN, _COARSE = 4000, 4, 20.0
# A margin is near a jump at this distance from it, and at twice that after a round in which the gap
# did not fall to this share.
# speed only: the gap is that of all examples
_NEAR, _FALLEN = 0.05, 0.3
# So often that is halved where it makes the working set too large.
# speed only: others go on
_HALVINGS = 4
# The gap within the working set, as a share of the tolerance and of the gap before.
# speed only: as above
_INSIDE, _LOWER = 0.3, 0.1
# Rounds, and epochs of each.
# speed only: others go on
_ROUNDS, _EPOCHS = 10, 100
# So many examples with duals at a time: kernel values of a block stay in the processor's cache.
# speed only: rows at a time
_COLUMNS = 512
# A smaller matrix, in bytes, is made at once: with many duals between their bounds that is faster.
# speed only: which of two ways
_LARGE = 2e9
# A point whose gap is so large says nothing of the solution.
# speed only: others go on
_FAR = 10.0
# Of the rows, those with duals, those of the working set, and those of samples.
_COPIES = 3


def fits(problem: Problem) -> bool:
    """Whether a kernel problem is one of these, large, and has room for a working set at all."""
    if problem.gram.bytes <= min(_LARGE, problem.gram.memory):
        return False
    is_flat = problem.loss.kind in (ONE_JUMP, JUMPS) and losses.has_bounded_duals(problem.loss)
    return is_flat and _room(problem.gram) >= BYTES * _AT_ONCE**2


def solve(
    problem: Problem, stop: Stop, *, seed: int = 0, start: np.ndarray | None = None,
    progress: ProgressCallback = ignore_progress, executor=None,
) -> Solution:  # fmt: skip
    """Solve a kernel problem that :func:`fits`; ``stop.limit`` counts epochs over working sets.

    Parameters
    ----------
    executor : optional
        See :mod:`odmtool.rows.executor`; it must share this process's memory.
    """
    run = _Run(problem, stop, seed, progress, executor or Serial())
    return run.solve(start)


class _Point(NamedTuple):
    """Dual variables, and the margins of their w; what :func:`dcd.objectives` takes."""

    eta: np.ndarray
    t: np.ndarray
    w = None

    def margins(self) -> np.ndarray:
        return self.t


class _Run:
    def __init__(self, problem: Problem, stop: Stop, seed: int, progress, executor):
        self._problem, self._stop, self._progress = problem, stop, progress
        self._seed, self._generator = seed, np.random.default_rng(seed)
        self._points = points_of(problem.gram, executor)
        # The matrices of working sets need compiled code in any case.
        self._points.expect(np.inf, in_all=True)
        self._rounding, self._epoch = Rounding.of(problem), 0

    def solve(self, start: np.ndarray | None) -> Solution:
        eta = self._from_a_sample() if start is None else start
        best, before, distance = None, np.inf, _NEAR
        for _ in range(_ROUNDS):
            point = _Point(eta, self._margins(eta))
            with np.errstate(over="ignore", invalid="ignore"):
                (primal, dual, scale), t = dcd.objectives(
                    self._problem, point, self._rounding, self._stop
                )
            if not np.isfinite(primal):
                raise diverged(self._problem.gram)
            gap = relative(primal - dual + dcd.SUMMED * scale, scale)
            if best is None or primal < best.primal or gap <= self._stop.tolerance:
                best = Solution(
                    None, eta, eta, primal, dual, gap, self._epoch,
                    gap <= self._stop.tolerance, "dcd",
                )  # fmt: skip
                norm, margins = eta @ t, t
            self._progress(Progress(self._epoch, primal, gap, len(eta), t))
            if best.converged or gap > _FAR or self._epoch >= self._stop.max_iter:
                break
            distance *= 1 if gap <= _FALLEN * before else 2
            members = self._near_ones(t, eta, distance)
            if members is None:
                break
            least = max(_INSIDE * self._stop.tolerance, _LOWER * min(gap, before))
            eta, before = self._descended(eta, t[members], members, least, scale), gap
        along = dcd.primal_along(self._problem, norm, margins)
        at_zero = dcd.value_at_zero(self._problem)
        best = best._replace(iterations=self._epoch)
        return not_worse_than_zero(best, along, at_zero, self._stop)

    def _from_a_sample(self) -> np.ndarray:
        """Dual variables to begin with."""
        problem, m = self._problem, self._problem.size
        if m <= _AT_ONCE:
            return np.zeros(m)
        rows = np.sort(self._generator.choice(m, m // _ONE_IN, replace=False))
        weight = problem.weight[rows] * (problem.weight.sum() / problem.weight[rows].sum())
        gram = problem.gram.subset(rows)
        sample = problem._replace(gram=gram, y=problem.y[rows], weight=weight)
        stop = self._stop._replace(tolerance=_COARSE * self._stop.tolerance, limit=_EPOCHS)
        eta = np.zeros(m)
        eta[rows] = solve(sample, stop, seed=self._seed, executor=self._points.executor).coef
        t = self._margins(eta)
        eta = -problem.weight * losses.derivative(problem.loss, t)
        members = self._near_ones(t, eta, _NEAR)
        if members is None:
            return eta
        # Margins of the members are enough, and about the scale.
        scale = float(np.abs(problem.weight * losses.value(problem.loss, t)).sum())
        return self._descended(
            eta, self._margins(eta, members), members, _LOWER * stop.tolerance, scale
        )

    def _margins(self, eta: np.ndarray, of: np.ndarray | None = None) -> np.ndarray:
        """t_i of w(eta) for all examples, or for some, of which there are n; shape (m,) or (n,)."""
        points, y, support = self._points, self._problem.y, np.flatnonzero(eta)
        X = points.X
        parts = [support[k : k + _COLUMNS] for k in range(0, len(support), _COLUMNS)]
        known = [(X[part], (y * eta)[part]) for part in parts]

        def one(some) -> np.ndarray:
            own, f = X[some], np.zeros(len(y[some]))
            for rows, coefficients in known:
                f += points.values(own, rows) @ coefficients
            return y[some] * f

        blocks = points.blocks()
        if of is not None:
            blocks = [of[k : k + BLOCK] for k in range(0, len(of), BLOCK)]
        return np.concatenate(points.map(one, blocks))

    def _near_ones(self, t: np.ndarray, eta: np.ndarray, distance: float) -> np.ndarray | None:
        """The examples whose dual is not that of all margins at so small a distance.

        At a smaller one where there are too many; None if there are too many, or none, at all.
        """
        (_, gram, _, weight, loss) = self._problem
        for _ in range(_HALVINGS):
            below, above = (-weight * losses.derivative(loss, t + s) for s in (-distance, distance))
            found = np.flatnonzero((below != eta) | (above != eta))
            if BYTES * len(found) ** 2 <= _room(gram):
                return found if len(found) else None
            distance /= 2
        return None

    def _descended(self, eta, t, members, least: float, scale: float) -> np.ndarray:
        """The duals after epochs over the members, until their share of the gap is ``least``.

        ``t`` are the members' margins.
        """
        problem, size = self._problem, len(members)
        if self._stop.is_late:
            return eta
        gram = filled(problem.gram.subset(members), float, self._points.executor)
        part = problem._replace(gram=gram, y=problem.y[members], weight=problem.weight[members])
        state = dcd.KernelState(part, eta[members], part.y * t)
        order, active, threshold, estimate = np.arange(size), size, np.inf, np.inf
        last = min(self._epoch + _EPOCHS, self._stop.max_iter)
        while self._epoch < last and not self._stop.is_late:
            self._generator.shuffle(order[:active])
            share = least_share(estimate, active, size)
            active, threshold, estimate = state.epoch(order, active, threshold, share)
            self._epoch += 1
            self._progress(Progress(self._epoch, None, relative(estimate, scale), active))
            if estimate <= least * scale:
                break
        eta = eta.copy()
        eta[members] = state.eta
        return eta


def _room(gram) -> float:
    """Bytes for the kernel values of a working set."""
    X = gram.X
    rows = X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes
    return gram.memory - _COPIES * rows
