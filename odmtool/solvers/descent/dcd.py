"""Dual coordinate descent for every margin loss, linear and kernel.

Problem     max over eta of D(eta), the dual of P(w) (see :mod:`odmtool.judge.binary`);
            one signed variable per example. For ODM eta_i = zeta_i - beta_i of the
            paper, of which at most one is nonzero.
Update      in random order, the exact maximiser of D in one eta_i (see
            :mod:`odmtool.solvers.descent.coordinate`); kept up to date with it are, for a
            linear problem, w = sum_i eta_i y_i x_i in O(nonzeros of the row), for a
            kernel, all values f(x_j), block after block
            (:mod:`odmtool.solvers.descent.kernel_block`).
Shrinking   an example whose loss is flat around its margin, by more than the largest
            change of a margin in the epoch before, is left out. All come back before
            the result is accepted.
Faster      after the first epochs, extrapolated (:mod:`odmtool.solvers.descent.extrapolation`).
Stop        when the relative duality gap over all examples is at most the tolerance.
            An epoch adds up the examples' shares of the gap as it meets them, for
            nothing; when that estimate is small enough the gap itself is computed.
Source      Zhang & Zhou, "Optimal margin distribution machine", TKDE 2019, Algorithm 1
            and eq. (15)-(18); shrinking after Hsieh et al., "A dual coordinate descent
            method for large-scale linear SVM", ICML 2008, section 3.2.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from odmtool import _jit
from odmtool._jit import njit
from odmtool.core import deadline, losses
from odmtool.core.gram import epoch_in_runs, is_too_late_for_rows, runs
from odmtool.solvers.base import (
    Problem,
    Progress,
    Solution,
    Stop,
    ignore_progress,
    not_worse_than_zero,
    relative,
)
from odmtool.solvers.descent.coordinate import objective_sums
from odmtool.solvers.descent.dcd_epochs import kernel_epoch, linear_epoch
from odmtool.solvers.descent.extrapolation import Extrapolation
from odmtool.solvers.descent.kernel_block import add_rows, least_share
from odmtool.solvers.descent.trend import Trend
from odmtool.solvers.diverged import diverged
from odmtool.solvers.rounding import Rounding
from odmtool.solvers.value_rounding import UNIT

# The dual of a solvable problem stays below P(0); far above it there is no solution.
# speed only: a dual without a bound exceeds any number
_DIVERGENCE = 1e6
# What rounding may do to P and D beyond the errors of margins, relative to S: sums are rounded
# once, and each of their terms a few times.
SUMMED = 16 * UNIT


def solve(
    problem: Problem, stop: Stop, *, seed: int = 0, start: np.ndarray | None = None,
    values: np.ndarray | None = None, progress=ignore_progress,
) -> Solution:  # fmt: skip
    """Solve a linear or kernel problem; ``stop.max_iter`` counts epochs.

    ``values`` are the f(x_i) of a kernel problem at the start, if they are known.
    """
    state, rounding = state_of(problem, start, values), Rounding.of(problem)
    generator, order = np.random.default_rng(seed), np.arange(problem.size)
    active, threshold, epoch, estimate = problem.size, np.inf, 0, np.inf
    at_zero, is_bounded = value_at_zero(problem), losses.has_bounded_duals(problem.loss)
    trend, is_too_slow = Trend() if stop.follows else None, False
    extrapolation = Extrapolation(problem, state)

    while True:
        with np.errstate(over="ignore", invalid="ignore"):
            (primal, dual, scale), margins = objectives(problem, state, rounding, stop)
        # speed only: a dual without a bound exceeds any number
        if not np.isfinite(primal) or (dual > _DIVERGENCE * abs(at_zero) and not is_bounded):
            raise diverged(problem.gram)
        gap = relative(primal - dual + SUMMED * scale, scale)
        progress(Progress(epoch, primal, gap, active, margins))
        if gap <= stop.tolerance or epoch >= stop.max_iter or is_too_slow:
            break
        is_rounded = problem.gram is not None and problem.gram.is_rounded
        if is_rounded and estimate <= stop.tolerance * scale:
            # What rounded values hide may be all that is left.
            problem.gram.make_exact()
            state, rounding = state_of(problem, state.eta), Rounding.of(problem)
            extrapolation = Extrapolation(problem, state)
            continue
        active, threshold, estimate = problem.size, np.inf, np.inf
        extrapolation.forget()
        while epoch < stop.max_iter and not (estimate <= stop.tolerance * scale or is_too_slow):
            if not extrapolation.has_begun:
                generator.shuffle(order[:active])
            least = least_share(estimate, active, problem.size, extrapolation)
            active, threshold, estimate = state.epoch(order, active, threshold, least)
            epoch += 1
            # speed only: the gap is looked at sooner
            if not np.isfinite(estimate):
                break
            seen = relative(estimate, scale)
            progress(Progress(epoch, None, seen, active))
            if trend is not None:
                is_too_slow = trend.is_too_slow(epoch, seen, stop.tolerance, stop.limit)
            # A jump raises the dual; that P falls, too, takes an epoch after it.
            is_last = seen <= stop.tolerance or is_too_slow or epoch >= stop.max_iter
            if not is_last and extrapolation.after_epoch():
                threshold = np.inf
        trend = None

    found = Solution(
        state.w, state.eta, state.eta, primal, dual, gap, epoch, gap <= stop.tolerance, "dcd"
    )
    along = primal_along(problem, state.eta @ margins, margins)
    return not_worse_than_zero(found, along, at_zero, stop, problem.is_definite)


def primal_along(problem: Problem, norm: float, margins: np.ndarray) -> Callable:
    """From s to P(s w) and the scale there, where |w|^2 is ``norm``."""

    def primal_at(s):
        values = problem.weight * losses.value(problem.loss, s * margins)
        return s * s * norm / 2 + values.sum(), s * s * norm / 2 + np.abs(values).sum()

    return primal_at


def objectives(problem: Problem, state, rounding: Rounding, stop: Stop):
    """P, D and S of w(eta), and its margins, as :meth:`Rounding.objectives` has them.

    In one pass, where what rounding errors may hide is negligible as it is.
    """
    t, eta, w = state.margins(), state.eta, state.w
    norm, error = eta @ t, rounding.of_margins(eta, w)
    value, size, dual, hidden = objective_sums(
        problem.loss, problem.weight, t, eta, rounding.sizes, error
    )
    scale = abs(norm) / 2 + size
    if w is not None:
        hidden += rounding.beyond(eta)
    # Of weights so small that the sum overflows the other way knows more.
    if np.isfinite(dual) and hidden <= stop.negligible(scale):
        return (float(norm / 2 + value), float(dual - norm / 2 - hidden), float(scale)), t
    return rounding.objectives(losses.scaled(problem.loss, problem.weight), t, eta, stop, w)


def value_at_zero(problem: Problem) -> float:
    """P(0), summed as :func:`objectives` does it."""
    zero = np.zeros(problem.size)
    return objective_sums(problem.loss, problem.weight, zero, zero, zero, 0.0)[0]


def state_of(
    problem: Problem, start: np.ndarray | None, values: np.ndarray | None = None,
    may_thin: bool = False,
) -> LinearState | KernelState:  # fmt: skip
    """Dual variables ``start``, by default 0, and what is kept up to date with them.

    ``values`` are the decision values of a kernel problem there, if they are known. Where the
    caller ``may_thin``, the duals become 0 to whose kernel values the time does not suffice.
    ``state.loss`` is the row of the table whose dual an epoch ascends; it may be replaced
    between epochs.
    """
    if problem.gram is None:
        return LinearState(problem, start)
    return KernelState(problem, start, values, may_thin)


class LinearState:
    """Dual variables and w of a linear problem."""

    is_at_hand = True

    def __init__(self, problem: Problem, start):
        self._problem, self.loss = problem, problem.loss
        self._rows = compressed_rows(problem.X)
        self._curvature = row_squares(*self._rows)
        self.eta = np.zeros(problem.size) if start is None else np.array(start, dtype=float)
        self.w = np.asarray(problem.X.T @ (problem.y * self.eta))
        self._direction = None

    def assign(self, eta: np.ndarray, _may_fail: bool = False) -> bool:
        """Go on from other dual variables; True."""
        self.eta[:] = eta
        self.w = np.asarray(self._problem.X.T @ (self._problem.y * self.eta))
        return True

    @property
    def carried(self) -> np.ndarray:
        """What is kept up to date with the duals: w, shape (d,)."""
        return self.w

    def put(self, eta: np.ndarray, w: np.ndarray, moved: np.ndarray | None = None) -> None:
        """Go on from duals, and from their w, or that of eta - ``moved``."""
        self.eta[:], self.w = eta, w.copy()
        if moved is not None and moved.any():
            self.w += np.asarray(self._problem.X.T @ (self._problem.y * moved))

    def squared_norm(self) -> float:
        """|w(eta)|^2."""
        return self.w @ self.w

    def margin_sum(self) -> float:
        """sum_i u_i t_i in O(d)."""
        if self._direction is None:
            X, y = self._problem.X, self._problem.y
            self._direction = np.asarray(X.T @ (y * self._problem.weight))
        with np.errstate(over="ignore", invalid="ignore"):
            return float(self._direction @ self.w)

    def margins(self) -> np.ndarray:
        # Rebuilt from eta: the increments of many epochs leave rounding errors behind.
        self.w = np.asarray(self._problem.X.T @ (self._problem.y * self.eta))
        return self._problem.y * np.asarray(self._problem.X @ self.w)

    def epoch(self, order, active, threshold, _least=0.0):
        problem = self._problem
        return linear_epoch(
            *self._rows, problem.y, problem.weight, self.loss, self._curvature,
            self.eta, self.w, order, active, threshold,
        )  # fmt: skip


class KernelState:
    """Dual variables and decision values f(x_j) of a kernel problem."""

    w = None

    def __init__(self, problem: Problem, start, values=None, may_thin=False):
        self._problem, self.loss = problem, problem.loss
        self._cache = problem.gram.cache()
        self._curvature = problem.gram.diagonal()
        steepest = losses.largest_slope(problem.loss) * problem.weight
        if not np.all(1 + self._curvature * steepest > 0):
            raise diverged(problem.gram)
        self.eta = np.zeros(problem.size) if start is None else np.array(start, dtype=float)
        self._has_increments = False
        self.is_at_hand = self._cache.capacity >= problem.size
        if values is None:
            self._f, left = self._sums(self.eta, may_thin)
            self.eta[left] = 0.0
        else:
            self._f = np.array(values, dtype=float)

    def assign(self, eta: np.ndarray, may_fail: bool = False) -> bool:
        """Go on from other dual variables.

        Where it ``may_fail``, the time may end before the rows of the kernel matrix are there:
        then nothing is changed, and it returns False.
        """
        if may_fail and is_too_late_for_rows(self._cache):
            return False
        f, left = self._sums(eta, may_fail)
        if left.size:
            return False
        self.eta[:], self._f, self._has_increments = eta, f, False
        return True

    def multiply(self, times: float) -> None:
        """Go on from multiples of the dual variables, which need no kernel values."""
        self.eta *= times
        self._f *= times

    @property
    def carried(self) -> np.ndarray:
        """What is kept up to date with the duals: f(x_j), shape (m,)."""
        return self._f

    def put(self, eta: np.ndarray, f: np.ndarray, moved: np.ndarray | None = None) -> None:
        """Go on from duals, and from their decision values, or those of eta - ``moved``.

        The rows of the kernel matrix must be at hand.
        """
        self.eta[:], self._f, self._has_increments = eta, f.copy(), True
        if moved is not None:
            support, cache = np.flatnonzero(moved), self._cache
            signed = (self._problem.y * moved)[support]
            add_rows(cache.rows, cache.first, cache.slot[support], signed[None], self._f[None])

    def squared_norm(self) -> float:
        """|w(eta)|^2."""
        return (self._problem.y * self.eta) @ self._f

    def margin_sum(self) -> float:
        """sum_i u_i t_i in O(m)."""
        return float((self._problem.y * self._problem.weight) @ self._f)

    def _sums(self, eta: np.ndarray, may_end: bool) -> tuple[np.ndarray, np.ndarray]:
        """K (eta y), from the rows of the nonzero duals, run by run.

        If it ``may_end``, no second run is begun after the deadline: also returned are the examples
        whose rows are missing.
        """
        f, done, support = np.zeros(len(eta)), 0, np.flatnonzero(eta)
        cache, signed = self._cache, self._problem.y * eta
        for part in runs(cache, support):
            if may_end and done and deadline.is_over():
                break
            cache.fetch(part)
            add_rows(cache.rows, cache.first, cache.slot[part], signed[part][None], f[None])
            done += len(part)
        return f, support[done:]

    def margins(self) -> np.ndarray:
        if self._has_increments:
            # Without time for it the sums of the epochs stay, which have more rounding errors.
            self.assign(self.eta, may_fail=True)
        return self._problem.y * self._f

    def epoch(self, order, active, threshold, least=0.0):
        problem, cache, self._has_increments = self._problem, self._cache, True

        def visit(part):
            return kernel_epoch(
                cache.rows, cache.slot, cache.first, problem.y, problem.weight, self.loss,
                self._curvature, self.eta, self._f[None], part, len(part), threshold,
                least,
            )  # fmt: skip

        kept, moves, estimate = epoch_in_runs(cache, order, active, visit)
        return kept, max(moves, default=0.0), estimate


def compressed_rows(X) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, columns and row starts of X, as compiled code wants them.

    Columns are uint32: of signed ones it would ask whether they count from the end, each time.
    """
    if isinstance(X, np.ndarray):
        m, d = X.shape
        columns = np.tile(np.arange(d, dtype=np.uint32), m)
        return np.ascontiguousarray(X, dtype=float).ravel(), columns, np.arange(m + 1) * d
    columns = X.indices.astype(np.int32, copy=False).view(np.uint32)
    return X.data, columns, X.indptr.astype(np.int64, copy=False)


def row_squares(data, indices, indptr) -> np.ndarray:
    """|x_i|^2 of every row, shape (m,)."""
    squares = np.zeros(len(indptr) - 1)
    add_squares(data, indptr, squares)
    return squares


def is_kept(loss: losses.MarginLoss) -> bool:
    """Whether the code that descends on rows is kept on the disk: nothing will be compiled."""
    numbers, columns = np.zeros(1), np.zeros(1, np.uint32)
    starts, order = np.zeros(2, np.int64), np.zeros(1, np.int64)
    rows, vectors = (numbers, columns, starts), (numbers, numbers, numbers)
    return _jit.is_kept(add_squares, numbers, starts, numbers) and _jit.is_kept(
        linear_epoch, *rows, numbers, numbers, loss, *vectors, order, 1, np.inf
    )


@njit
def add_squares(data, indptr, squares):
    """Add |x_i|^2 of every row to ``squares``, shape (m,)."""
    for i in range(len(squares)):
        for k in range(indptr[i], indptr[i + 1]):
            squares[i] += data[k] * data[k]
