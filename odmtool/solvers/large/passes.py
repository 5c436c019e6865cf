"""Newton's method by passes over rows on the disk; nothing is kept for an example.

Problem     min over w of P(w) = 1/2 |w|^2 + sum_i u_i l(t_i), l with a continuous derivative,
            over rows x_i, or over Nystrom's features L^-1 k(Z, x_i) (:mod:`.nystrom`).
Update      w - H^-1 g, where one pass gives P, the gradient g = w - w(eta) and, with
            eta_i = -u_i l'(t_i), the dual point that it belongs to. H is that of all
            examples where they are few, else that of a sample, at whose solution the method
            then begins. The whole step if it lowers P enough; else the exact minimum
            along it, found by passes that try several lengths at once.
Stop        when P(w) - D(eta) = 1/2 |g|^2 <= tolerance S.
Source      as :mod:`odmtool.solvers.newton`, of which this is the form for rows that cannot
            be in memory: one pass per step, memory O(d^2). The sample's Hessian:
            Roosta-Khorasani & Mahoney, "Sub-sampled Newton methods", Math. Programming
            174, 2019.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from odmtool import messages
from odmtool.core import losses
from odmtool.core.kernels import Kernel
from odmtool.core.losses import MarginLoss
from odmtool.errors import DivergedError
from odmtool.rows.examples import Examples
from odmtool.rows.executor import Serial
from odmtool.solvers import newton
from odmtool.solvers.base import (
    Problem,
    Progress,
    ProgressCallback,
    Stop,
    ignore_progress,
    relative,
)
from odmtool.solvers.factor import cholesky_in_place, cholesky_solve
from odmtool.solvers.large.blocks import Blocks, BlockSpace, KernelRows, Rows, times, weighted_gram

SAMPLE = 100
"""Examples per column whose Hessian stands for that of all: off by about 1 / sqrt of it."""
# With fewer than so many, that of all is made.
_LEAST_SAMPLE = 10

_SUFFICIENT_DECREASE = 1e-4
# Lengths tried in a pass, and passes, when a whole step goes too far.
_LENGTHS, _SEARCHES = 15, 4
# Rows of a piece of features; they stay in the processor's cache.
_PIECE_ROWS = 256


class Basis(NamedTuple):
    """Nystrom's features.

    Attributes
    ----------
    kernel : Kernel
    Z : ndarray or csr_matrix, shape (S, d)
        Landmarks, less ``centre``, in the precision of the kernel values.
    factor : ndarray, shape (S, S)
        L, lower triangular, K_ZZ = L L'.
    centre : ndarray, shape (d,), or None
        Taken from every row.
    """

    kernel: Kernel
    Z: object
    factor: np.ndarray
    centre: np.ndarray | None

    def source(self, X) -> KernelRows:
        """The rows k(x, Z)."""
        if self.centre is not None:
            X = X - self.centre
        return KernelRows(self.kernel, Rows(X.astype(self.Z.dtype, copy=False)), self.Z)


class Sums(NamedTuple):
    """What a pass adds up: the losses, their sizes, X'(y eta), and the nonzero eta."""

    loss: float
    size: float
    point: np.ndarray
    support: int


class Found(NamedTuple):
    """What was found, with the fields of :class:`odmtool.solvers.base.Solution`."""

    w: np.ndarray
    primal: float
    gap: float
    iterations: int
    converged: bool
    support_count: int
    solver: str


def solve(
    examples: Examples,
    loss: MarginLoss,
    stop: Stop,
    *,
    basis: Basis | None = None,
    sample: np.ndarray | None = None,
    executor=None,
    progress: ProgressCallback = ignore_progress,
) -> Found:
    """Solve a linear problem.

    Parameters
    ----------
    examples : Examples
    loss : MarginLoss
        With a continuous derivative.
    stop : Stop
        ``max_iter`` counts Newton steps.
    basis : Basis, optional
        The problem is that of Nystrom's features.
    sample : int array, optional
        The examples of H, ascending (:func:`sample_of`); all if None.
    executor : optional
    progress : callable

    Raises
    ------
    DivergedError
        Numbers overflow.
    """
    problem = _Passes(examples, loss, basis, executor or Serial())
    hessian = problem.hessian
    w = np.zeros(problem.width)
    if sample is not None:
        y, u = examples.signs(sample)
        if np.count_nonzero(u) >= _LEAST_SAMPLE * problem.width:
            hessian = _SampleHessian(problem, sample, y, u)
            w = hessian.solution(stop)
    track, iteration, least = newton.Track(), 0, min(1, stop.max_iter)
    found = problem.at(w)
    while True:
        now = relative(found.gap, found.scale)
        if not np.isfinite(found.primal + found.gap):
            raise DivergedError(messages.overflow())
        progress(Progress(iteration, found.primal, now, found.support))
        if iteration >= least:
            track.add(found)
        if iteration >= least and (now <= stop.tolerance or track.is_stalled):
            break
        if iteration >= stop.max_iter:
            break
        H = hessian(found.v)
        H.flat[:: len(H) + 1] += 1.0
        found = problem.step(found, -cholesky_solve(cholesky_in_place(H), found.gradient))
        iteration += 1
    best, _, gap = track.best(stop.tolerance)
    gap = relative(gap, best.scale)
    return Found(
        best.v, best.primal, gap, iteration, gap <= stop.tolerance, best.support, "newton"
    )  # fmt: skip


def sample_of(m: int, width: int, largest: int, seed: int) -> np.ndarray | None:
    """The examples whose Hessian stands for that of all, ascending; None: all do.

    Parameters
    ----------
    m, width : int
        Rows and columns.
    largest : int
        So many fit in memory.
    seed : int
    """
    count = sample_size(m, width, largest)
    if count == 0:
        return None
    return np.sort(np.random.default_rng(seed).choice(m, count, replace=False))


def sample_size(m: int, width: int, largest: int) -> int:
    """The examples of :func:`sample_of`; 0 if all stand for themselves."""
    count = min(SAMPLE * width, largest)
    return 0 if m <= 2 * SAMPLE * width or count < _LEAST_SAMPLE * width else count


class _Point(NamedTuple):
    """An iterate, P, P - D, S, the gradient and the number of nonzero duals."""

    v: np.ndarray
    primal: float
    gap: float
    scale: float
    gradient: np.ndarray
    support: int
    eta: None = None


class _Passes:
    """The sums over all examples that Newton's method asks for."""

    def __init__(self, examples: Examples, loss: MarginLoss, basis: Basis | None, executor):
        self.examples, self.loss, self.basis, self.executor = examples, loss, basis, executor
        self.width = examples.shape[1] if basis is None else len(basis.factor)

    def at(self, w: np.ndarray) -> _Point:
        """P, gap and gradient at w; one pass."""
        a = self._raw(w)
        sums = self._map(_sums, a)
        point = sum(part.point for part in sums)
        if self.basis is not None:
            point = solve_triangular(self.basis.factor, point, lower=True)
        gradient, norm = w - point, w @ w
        with np.errstate(over="ignore", invalid="ignore"):
            primal = norm / 2 + sum(part.loss for part in sums)
            scale = norm / 2 + sum(part.size for part in sums)
            gap = gradient @ gradient / 2
        support = sum(part.support for part in sums)
        return _Point(w, float(primal), float(gap), float(scale), gradient, support)

    def step(self, point: _Point, direction: np.ndarray) -> _Point:
        """The point after the whole step, or at the minimum along it."""
        slope = point.gradient @ direction
        whole = self.at(point.v + direction)
        enough = whole.primal - point.primal <= _SUFFICIENT_DECREASE * slope
        if enough or whole.gradient @ direction <= 0:
            return whole
        low, high = 0.0, 1.0
        along, squared = point.v @ direction, direction @ direction
        a, change = self._raw(point.v), self._raw(direction)
        for _ in range(_SEARCHES):
            lengths = np.linspace(low, high, _LENGTHS + 2)[1:-1]
            slopes = along + lengths * squared + sum(self._map(_slopes, a, change, lengths))
            beyond = int(np.searchsorted(slopes >= 0, True))
            edges = np.concatenate([[low], lengths, [high]])
            low, high = edges[beyond], edges[beyond + 1]
        return self.at(point.v + high * direction)

    def hessian(self, w: np.ndarray) -> np.ndarray:
        """X'SX of all examples; one pass, of a linear problem or of features."""
        H, a = np.zeros((self.width, self.width)), self._raw(w)
        for k in range(self.examples.count):
            block = self.examples.block(k)
            source = Rows(block.X) if self.basis is None else self.basis.source(block.X)
            t = block.y * times(source, a)
            H += weighted_gram(source, block.u * losses.slope(self.loss, t))
        return self._reduced(H)

    def _reduced(self, H: np.ndarray) -> np.ndarray:
        if self.basis is None:
            return H
        H = solve_triangular(self.basis.factor, H, lower=True)
        return np.ascontiguousarray(solve_triangular(self.basis.factor, H.T, lower=True))

    def _raw(self, w: np.ndarray) -> np.ndarray:
        """What the rows, or kernel values, are multiplied by."""
        if self.basis is None:
            return w
        return solve_triangular(self.basis.factor, w, lower=True, trans="T")

    def _map(self, function, *arguments) -> list:
        tasks = self.examples.tasks()
        fixed = (self.examples, self.loss, self.basis, *arguments)
        return self.executor.map(function, tasks, *([value] * len(tasks) for value in fixed))


class _SampleHessian:
    """X'SX of a sample, whose weights stand for all; its rows are in memory."""

    def __init__(self, problem: _Passes, sample: np.ndarray, y: np.ndarray, u: np.ndarray):
        examples, basis, used = problem.examples, problem.basis, u > 0
        X = examples.rows(sample[used])
        self._y, self._u = y[used], u[used] * (examples.total_weight() / u.sum())
        cuts = np.linspace(0, len(self._y), problem.executor.jobs + 1).astype(int).tolist()
        rows = [X[a:b] for a, b in zip(cuts, cuts[1:], strict=False)] if len(cuts) > 2 else [X]
        del X
        sources = [Rows(part) if basis is None else basis.source(part) for part in rows]
        factor = None if basis is None else basis.factor
        sizes = [part.shape[0] for part in rows]
        self._X = Blocks(sources, sizes, problem.width, factor, problem.executor)
        self._loss = problem.loss

    def solution(self, stop: Stop) -> np.ndarray:
        """Where the sample's P is smallest."""
        problem = Problem(None, None, self._y, self._u, self._loss)
        space = BlockSpace(self._X, self._y, np.zeros(self._X.shape[1]))
        return newton.solve(problem, stop, space=space).w

    def __call__(self, w: np.ndarray) -> np.ndarray:
        slopes = self._u * losses.slope(self._loss, self._y * self._X.times(w))
        return self._X.weighted_gram(slopes)


def _pieces(examples: Examples, blocks: range, basis: Basis | None):
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
    total, size, point, support = 0.0, 0.0, np.zeros(len(a)), 0
    for rows, y, u in _pieces(examples, blocks, basis):
        with np.errstate(over="ignore", invalid="ignore"):
            t = y * (rows @ a)
            values, eta = u * losses.value(loss, t), -u * losses.derivative(loss, t)
            point += rows.T @ (y * eta)
            total, size = total + values.sum(), size + np.abs(values).sum()
        support += int(np.count_nonzero(eta))
    return Sums(total, size, point, support)


def _slopes(blocks: range, examples, loss, basis, a, change, lengths) -> np.ndarray:
    """The losses' share of the derivative of P along a direction, for several lengths."""
    total = np.zeros(len(lengths))
    for rows, y, u in _pieces(examples, blocks, basis):
        t, moved = y * (rows @ a), y * (rows @ change)
        for k, length in enumerate(lengths):
            total[k] += (u * losses.derivative(loss, t + length * moved)) @ moved
    return total
