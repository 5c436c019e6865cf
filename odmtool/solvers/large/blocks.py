"""A matrix too large for the memory, or spread over machines: made or read piece by piece.

A *source* makes the rows of a share of the examples, one piece at a time:

:class:`Rows`          rows that are at hand
:class:`KernelRows`    kernel values k(x, z) between another source's rows and landmarks

:class:`Blocks` is the matrix of several sources, wherever they are kept, and answers what
Newton's method asks (:class:`BlockSpace`): X w, X'v and X'SX, each in one pass.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.linalg import solve_triangular

from odmtool.core import kernels
from odmtool.core.kernels import Kernel
from odmtool.rows.executor import Serial
from odmtool.solvers import newton
from odmtool.solvers.base import Problem, ProgressCallback, Solution, Stop, ignore_progress
from odmtool.solvers.factor import cholesky_in_place, cholesky_solve
from odmtool.solvers.spaces import WeightSpace

# A piece stays in the processor's cache while it is used.
_PIECE_BYTES = 2**20
# Rows of a piece for X'SX, whose every piece adds up d^2 numbers; fewer of long rows.
_GRAM_ROWS, _LEAST_GRAM_ROWS = 2048, 256
_GRAM_NUMBERS = 2**20
# From this share of nonzeros on, X'SX by BLAS is faster than as a sparse product.
_DENSE_SHARE = 0.05
# Examples per column whose Hessian stands for that of all: off by about 1 / sqrt of it.
_SAMPLE = 100


class Rows:
    """Rows at hand.

    Parameters
    ----------
    X : csr_matrix or ndarray, shape (m, d)
    """

    def __init__(self, X):
        self._X, self.shape = X, X.shape

    def pieces(self, step: int | None = None) -> Iterator[tuple[slice, object]]:
        """(which rows, the rows) of one piece after the other."""
        m, d = self.shape
        step = step or max(1, _PIECE_BYTES // (8 * d))
        for start in range(0, m, step):
            part = slice(start, min(start + step, m))
            yield part, self._X[part]

    def some(self, rows: np.ndarray) -> Rows:
        """The source of some of the rows."""
        return Rows(self._X[rows])


class KernelRows:
    """Rows k(x, Z) for the rows x of another source, shape (m, S).

    Parameters
    ----------
    kernel : Kernel
    source : Rows or the like
    Z : csr_matrix or ndarray, shape (S, d)
        Landmarks. In the precision of Z and x the values are computed; they come in double.
    """

    def __init__(self, kernel: Kernel, source, Z):
        self._kernel, self._source, self._Z = kernel, source, Z
        self.shape = (source.shape[0], Z.shape[0])

    def pieces(self, step: int | None = None) -> Iterator[tuple[slice, np.ndarray]]:
        step = step or max(1, _PIECE_BYTES // (8 * self.shape[1]))
        values = np.empty((step, self.shape[1]), self._Z.dtype)
        double = values if values.dtype == float else np.empty(values.shape)
        for part, rows in self._source.pieces(step):
            count = rows.shape[0]
            kernels.block(self._kernel, rows, self._Z, values[:count])
            double[:count] = values[:count]
            yield part, double[:count]

    def some(self, rows: np.ndarray) -> KernelRows:
        return KernelRows(self._kernel, self._source.some(rows), self._Z)


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
        used = s[part] > 0
        scaled = np.sqrt(s[part][used])[:, None]
        if not isinstance(rows, np.ndarray) and rows.nnz >= _DENSE_SHARE * rows.shape[0] * d:
            rows = rows.toarray()
        if isinstance(rows, np.ndarray):
            # In double precision: what rounding adds to X'SX need not be positive.
            rows = rows[used] * scaled
            product += rows.T @ rows
        else:
            rows = rows[used].multiply(scaled).tocsr()
            product += (rows.T @ rows).toarray()
    return product


def gram_rows(d: int) -> int:
    """Rows of a piece for X'SX with d columns."""
    return min(_GRAM_ROWS, max(_LEAST_GRAM_ROWS, _GRAM_NUMBERS // d))


def some(source, rows: np.ndarray):
    """The source of some rows of a source."""
    return source.some(rows)


def solve(
    problem: Problem, X: Blocks, stop: Stop, *, seed: int = 0,
    progress: ProgressCallback = ignore_progress,
) -> Solution:  # fmt: skip
    """Solve a linear problem with rows X by Newton's method; its loss must be smooth.

    With many more examples than columns it begins at the solution of a sample, and keeps
    that sample's Hessian: two passes over the rows per step.

    Parameters
    ----------
    problem : Problem
        ``X`` and ``gram`` are not looked at.
    X : Blocks, shape (m, d)
    stop, seed, progress
        As for :func:`odmtool.solvers.newton.solve`; the seed is the sample's.
    """
    m, d = X.shape
    y, weight, first, sample = problem.y, problem.weight, np.zeros(d), None
    if m > 2 * _SAMPLE * d:
        sample = np.sort(np.random.default_rng(seed).choice(m, _SAMPLE * d, replace=False))
        heavier = weight[sample] * (weight.sum() / weight[sample].sum())
        part = problem._replace(y=y[sample], weight=heavier)
        space = BlockSpace(X.subset(sample), part.y, first)
        first = newton.solve(part, stop, space=space).w
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

    def times(self, w: np.ndarray) -> np.ndarray:
        """X w, shape (m,)."""
        if self._factor is not None:
            w = solve_triangular(self._factor, w, lower=True, trans="T")
        parts = self._executor.map(times, self._sources, [w] * len(self._sources))
        return np.concatenate(parts)

    def transposed_times(self, v: np.ndarray) -> np.ndarray:
        """X'v, shape (d,)."""
        product = sum(self._executor.map(transposed_times, self._sources, self._split(v)))
        return product if self._factor is None else self._solve(product)

    def weighted_gram(self, s: np.ndarray) -> np.ndarray:
        """X'SX, shape (d, d)."""
        product = sum(self._executor.map(weighted_gram, self._sources, self._split(s)))
        if self._factor is None:
            return product
        return np.ascontiguousarray(self._solve(self._solve(product).T))

    def subset(self, rows: np.ndarray) -> Blocks:
        """Some of the rows, in ascending order; from the same sources."""
        cuts = np.searchsorted(rows, self._edges)
        chosen = [rows[a:b] - edge for a, b, edge in zip(cuts, cuts[1:], self._edges, strict=False)]
        sources = [
            self._executor.keep(some, s, r) for s, r in zip(self._sources, chosen, strict=True)
        ]
        return Blocks(
            sources, [len(r) for r in chosen], self.shape[1], self._factor, self._executor
        )

    def _split(self, v: np.ndarray) -> list[np.ndarray]:
        return np.split(v, self._edges[1:-1])

    def _solve(self, right: np.ndarray) -> np.ndarray:
        return solve_triangular(self._factor, right, lower=True)


class BlockSpace(WeightSpace):
    """The unknown is w, shape (d,); the rows are known by passes over them only.

    Newton's step is w - H^-1 (w - w(eta)), whose gradient the gap has computed already. H is
    that of a sample of the examples, weighted up, which changes the number of steps but not
    where they lead: the gradient is that of all.

    Parameters
    ----------
    X : Blocks
    y : ndarray of +1.0 and -1.0, shape (m,)
    first : ndarray, shape (d,)
        Where to begin.
    sample : int array, optional
        The examples of H; all if None.
    """

    def __init__(self, X: Blocks, y: np.ndarray, first: np.ndarray, sample=None):
        self._X, self._y, self._first, self._sample = X, y, first, sample
        self._sampled = X if sample is None else X.subset(sample)
        self._gradient = None

    def zero(self):
        return self._first

    def point(self, eta):
        return self._X.transposed_times(self._y * eta)

    def margins(self, w):
        return self._y * self._X.times(w)

    def gap(self, loss, w, t, eta, enough):
        """1/2 |w - w(eta)|^2, half the square of the gradient, and the dual point eta."""
        self._gradient = w - self.point(eta)
        return self._gradient @ self._gradient / 2, eta

    def newton_point(self, slopes, eta, t, w, gap):
        """w - H^-1 (w - w(eta)), by Cholesky."""
        if self._sample is not None:
            slopes = slopes[self._sample] * (len(slopes) / len(self._sample))
        H = self._sampled.weighted_gram(slopes)
        H.flat[:: len(H) + 1] += 1.0
        return w - cholesky_solve(cholesky_in_place(H), self._gradient)
