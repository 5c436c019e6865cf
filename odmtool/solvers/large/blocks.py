"""A matrix too large for the memory, or spread over machines: made or read piece by piece.

A *source* makes the rows of a share of the examples, one piece at a time:

:class:`RowSource`     rows that are at hand
:class:`KernelSource`   kernel values k(x, z) between such rows and landmarks

:class:`Blocks` is the matrix of several sources, wherever they are kept, and answers what
Newton's method asks (:class:`BlockSpace`): X w, X'v and X'SX, each in one pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from operator import methodcaller
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from odmtool.core import kernels, losses
from odmtool.core.columns import in_blocks
from odmtool.core.kernels import Kernel
from odmtool.core.losses import MarginLoss
from odmtool.rows.executor import Serial
from odmtool.solvers.base import Problem, Solution, Stop, ignore_progress
from odmtool.solvers.newton import newton
from odmtool.solvers.newton.factor import cholesky_in_place, cholesky_solve
from odmtool.solvers.newton.hessian import gram_of, is_thin
from odmtool.solvers.newton.spaces import WeightSpace
from odmtool.solvers.rounding import SpanRounding

# A piece stays in the processor's cache while it is used.
# speed only: rows at a time
_PIECE_BYTES = 2**20
# Rows of a piece for X'SX, whose every piece adds up d^2 numbers; fewer of long rows.
# speed only: rows at a time
_GRAM_ROWS, _LEAST_GRAM_ROWS = 2048, 256
# speed only: rows at a time
_GRAM_NUMBERS = 2**20
# speed only: where Newton's method begins, and the Hessian of its steps
SAMPLE = 100
"""Examples per column whose Hessian stands for that of all: off by about 1 / sqrt of it."""
# speed only: where Newton's method begins, and the Hessian of its steps
LEAST_SAMPLE = 10
"""With fewer per column that of all is made."""


class RowSource:
    """Rows at hand.

    ``X``: csr_matrix or ndarray, shape (m, d).
    """

    def __init__(self, X):
        self._X, self.shape = X, X.shape

    def pieces(self, step: int | None = None) -> Iterator[tuple[slice, object]]:
        """(which rows, the rows) of one piece after the other."""
        m, d = self.shape
        # speed only: rows at a time
        step = step or max(1, _PIECE_BYTES // (8 * max(1, d)))
        for start in range(0, m, step):
            part = slice(start, min(start + step, m))
            yield part, self._X[part]

    def lengths(self) -> np.ndarray:
        """|x| of every row, or a little more."""
        return np.sqrt(kernels.squares(self._X))

    def some(self, rows: np.ndarray) -> RowSource:
        """The source of some of the rows."""
        return RowSource(self._X[rows])


class KernelSource(RowSource):
    """Rows k(x, Z) for given rows x, shape (m, S).

    Parameters
    ----------
    X : csr_matrix or ndarray, shape (m, d)
    Z : csr_matrix or ndarray, shape (S, d)
        Landmarks. In the precision of Z and x the values are computed; they come in double.
    """

    def __init__(self, X, kernel: Kernel, Z):
        self._X, self._kernel, self._Z = X, kernel, Z
        self.shape = (X.shape[0], Z.shape[0])

    def pieces(self, step: int | None = None) -> Iterator[tuple[slice, np.ndarray]]:
        # speed only: rows at a time
        step = step or max(1, _PIECE_BYTES // (8 * self.shape[1]))
        values = np.empty((step, self.shape[1]), self._Z.dtype)
        double = values if values.dtype == float else np.empty(values.shape)
        for part, rows in super().pieces(step):
            count = rows.shape[0]
            kernels.block(self._kernel, rows, self._Z, values[:count])
            double[:count] = values[:count]
            yield part, double[:count]

    def lengths(self) -> np.ndarray:
        # k(x, z)^2 <= k(x, x) k(z, z), so that no kernel value is needed.
        own, others = (kernels.diagonal(self._kernel, rows) for rows in (self._X, self._Z))
        return np.sqrt(np.maximum(own, 0.0) * max(0.0, others.max()) * len(others))

    def some(self, rows: np.ndarray) -> KernelSource:
        return KernelSource(self._X[rows], self._kernel, self._Z)


class NystromBasis(NamedTuple):
    """Landmarks, whose features of a row x are L^-1 k(Z, x)."""

    kernel: Kernel
    # ndarray or csr_matrix, shape (S, d): landmarks, less ``centre``, in the precision of the
    # kernel values.
    Z: object
    factor: np.ndarray  # shape (S, S): L, lower triangular, K_ZZ = L L'
    centre: np.ndarray | None = None  # shape (d,): taken from every row

    def source(self, X) -> KernelSource:
        """The rows k(x, Z)."""
        if self.centre is not None:
            X = X - self.centre
        return KernelSource(X.astype(self.Z.dtype, copy=False), self.kernel, self.Z)


def expansion(factor: np.ndarray | None, w: np.ndarray) -> np.ndarray:
    """L^-T w, by which rows k(x, Z) are multiplied; without a factor w, for rows as they are."""
    return w if factor is None else solve_triangular(factor, w, lower=True, trans="T")


def coordinates(factor: np.ndarray | None, v: np.ndarray) -> np.ndarray:
    """L^-1 v, or v: from sums over rows k(x, Z) to sums over their features."""
    return v if factor is None else solve_triangular(factor, v, lower=True)


def both_sides(factor: np.ndarray | None, H: np.ndarray) -> np.ndarray:
    """L^-1 H L^-T, or H; H is symmetric."""
    if factor is None:
        return H
    return np.ascontiguousarray(coordinates(factor, coordinates(factor, H).T))


def times(source, w: np.ndarray) -> np.ndarray:
    """X w, shape (m,)."""
    product = np.empty(source.shape[0])
    for part, rows in source.pieces():
        product[part] = rows @ w
    return product


def transposed_times(source, v: np.ndarray) -> np.ndarray:
    """X'v, shape (d,)."""
    product = np.zeros(source.shape[1])
    for part, rows in source.pieces():
        product += rows.T @ v[part]
    return product


def weighted_gram(source, s: np.ndarray) -> np.ndarray:
    """X'SX with S = diag(s), s >= 0; shape (d, d)."""
    d = source.shape[1]
    product = np.zeros((d, d))
    for part, rows in source.pieces(gram_rows(d)):
        # In double precision: what rounding adds to X'SX need not be positive.
        used = s[part] > 0
        product += gram_of(rows[used], s[part][used], is_thin(rows))
    return product


# speed only: rows at a time
def gram_rows(d: int) -> int:
    """Rows of a piece for X'SX with d columns."""
    return min(_GRAM_ROWS, max(_LEAST_GRAM_ROWS, _GRAM_NUMBERS // max(1, d)))


def sample_of(m: int, width: int, largest: int, seed: int) -> np.ndarray | None:
    """The examples whose Hessian stands for that of all, ascending; None: all do.

    Parameters
    ----------
    m, width : int
        Rows and columns.
    largest : int
        So many fit in memory.
    """
    count = sample_size(m, width, largest)
    if count == 0:
        return None
    return np.sort(np.random.default_rng(seed).choice(m, count, replace=False))


def sample_size(m: int, width: int, largest: int) -> int:
    """The examples of :func:`sample_of`; 0 if all stand for themselves."""
    count = min(SAMPLE * width, largest)
    return 0 if m <= 2 * SAMPLE * width or count < LEAST_SAMPLE * width else count


def solve(
    problem: Problem, X: Blocks, stop: Stop, *, seed: int = 0, progress=ignore_progress
) -> Solution:
    """Solve a linear problem with rows X by Newton's method; its loss must be smooth.

    With many more examples than columns it begins at the solution of a sample, and keeps
    that sample's Hessian: two passes over the rows per step.

    Parameters
    ----------
    problem : Problem
        ``X`` and ``gram`` are not looked at.
    X : Blocks, shape (m, d)
    stop, seed, progress
        As for :func:`odmtool.solvers.newton.newton.solve`; the seed is the sample's.
    """
    y, weight, sample = problem.y, problem.weight, None
    # speed only: where Newton's method begins
    rows = sample_of(*X.shape, X.shape[0], seed)
    if rows is not None:
        sample = SampledGram(X.subset(rows), y[rows], weight[rows], weight.sum(), problem.loss)
    first = np.zeros(X.shape[1]) if sample is None else sample.solution(stop)
    space = BlockSpace(X, y, first, sample)
    return newton.solve(problem, stop, space=space, progress=progress)


class Blocks:
    """The rows of several sources, times L^-T on the right.

    Parameters
    ----------
    sources : list
        Sources, or what ``executor.put`` made of them.
    sizes : list of int
        Rows of each.
    width : int
        Columns of each.
    factor : ndarray, shape (width, width), optional
        L, lower triangular; without it the rows are taken as they are.
    executor : optional
    """

    def __init__(self, sources, sizes, width: int, factor=None, executor=None):
        self._sources, self._factor = sources, factor
        self._executor = executor or Serial()
        self._edges = np.concatenate([[0], np.cumsum(sizes)])
        self.shape = (int(self._edges[-1]), width)

    @cached_property
    def lengths(self) -> np.ndarray:
        """Bounds of the rows' lengths, without the factor, shape (m,)."""
        return np.concatenate(self._executor.map(methodcaller("lengths"), self._sources))

    @cached_property
    def rounding(self) -> SpanRounding:
        return SpanRounding(self._factor, max(self.shape))

    def expansion(self, w: np.ndarray) -> np.ndarray:
        """L^-T w."""
        return expansion(self._factor, w)

    def times(self, w: np.ndarray) -> np.ndarray:
        """X w, shape (m,)."""
        w = expansion(self._factor, w)
        parts = self._executor.map(times, self._sources, [w] * len(self._sources))
        return np.concatenate(parts)

    def transposed_times(self, v: np.ndarray) -> np.ndarray:
        """X'v, shape (d,)."""
        product = sum(self._executor.map(transposed_times, self._sources, self._split(v)))
        return coordinates(self._factor, product)

    def weighted_gram(self, s: np.ndarray) -> np.ndarray:
        """X'SX, shape (d, d)."""
        product = sum(self._executor.map(weighted_gram, self._sources, self._split(s)))
        return both_sides(self._factor, product)

    def subset(self, rows: np.ndarray) -> Blocks:
        """Some of the rows, in ascending order; from the same sources."""
        used = in_blocks(rows, self._edges)
        sources = [
            self._executor.keep(methodcaller("some", chosen), self._sources[k])
            for k, chosen in used
        ]
        sizes = [len(chosen) for _, chosen in used]
        return Blocks(sources, sizes, self.shape[1], self._factor, self._executor)

    def _split(self, v: np.ndarray) -> list[np.ndarray]:
        return np.split(v, self._edges[1:-1])


class SampledGram:
    """X'SX of a sample, whose weights stand for those of all examples.

    Parameters
    ----------
    X : Blocks, shape (n, d)
        Rows of the sample.
    y, u : ndarrays, shape (n,)
    total : float
        The sum of all weights.
    """

    def __init__(self, X: Blocks, y: np.ndarray, u: np.ndarray, total: float, loss: MarginLoss):
        self._X, self._y, self._u, self._loss = X, y, u * (total / u.sum()), loss

    def solution(self, stop: Stop) -> np.ndarray:
        """Where the sample's P is smallest."""
        problem = Problem(None, None, self._y, self._u, self._loss)
        # speed only: where Newton's method begins
        space = BlockSpace(self._X, self._y, np.zeros(self._X.shape[1]))
        return newton.solve(problem, stop, space=space).w

    def hessian(self, w: np.ndarray) -> np.ndarray:
        """X'SX at w."""
        slopes = self._u * losses.slope(self._loss, self._y * self._X.times(w))
        return self._X.weighted_gram(slopes)


def newton_direction(H: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """-(I + H)^-1 gradient; H is overwritten."""
    H.flat[:: len(H) + 1] += 1.0
    return -cholesky_solve(cholesky_in_place(H), gradient)


class BlockSpace(WeightSpace):
    """The unknown is w, shape (d,); the rows are known by passes over them only.

    Newton's step is w - H^-1 (w - w(eta)), whose gradient the gap has computed already. H is
    that of a sample of the examples, weighted up, which changes the number of steps but not
    where they lead: the gradient is that of all.

    Parameters
    ----------
    y : ndarray of +1.0 and -1.0, shape (m,)
    first : ndarray, shape (d,)
        Where to begin.
    sample : SampledGram, optional
        The examples of H; all if None.
    """

    def __init__(
        self, X: Blocks, y: np.ndarray, first: np.ndarray, sample: SampledGram | None = None
    ):
        self._X, self._y, self._first, self._sample = X, y, first, sample
        self._gradient = None

    def zero(self):
        return self._first

    def point(self, eta):
        return self._X.transposed_times(self._y * eta)

    def margins(self, w):
        return self._y * self._X.times(w)

    def gap(self, loss, w, t, eta, enough, far):
        """1/2 |w - w(eta)|^2, half the square of the gradient, the dual point eta, and t."""
        self._gradient = w - self.point(eta)
        size, bent = self._size_and_bent(loss, eta)
        return self._X.rounding.gap(self._gradient, self._X.expansion(w), size, bent), eta, t

    def unsure(self, loss, w, eta):
        return self._X.rounding.unsure(self._X.expansion(w), *self._size_and_bent(loss, eta))

    def _size_and_bent(self, loss, eta) -> tuple[float, float]:
        """As :func:`odmtool.solvers.rounding.demanded_gap` takes them."""
        lengths = self._X.lengths
        return lengths @ np.abs(eta), losses.slopes_largest(loss) @ lengths**2

    def newton_point(self, slopes, eta, t, w, gap):
        """w - H^-1 (w - w(eta)), by Cholesky."""
        sample = self._sample
        H = self._X.weighted_gram(slopes) if sample is None else sample.hessian(w)
        return w + newton_direction(H, self._gradient)
