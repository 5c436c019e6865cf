"""Nystrom: a linear machine on the landmarks' features, for millions of rows.

Problem     P(w) = 1/2 |w|^2 + sum_i u_i l(t_i) over the w in the span of phi(z_1), ...,
            phi(z_S), the landmarks of :mod:`odmtool.rows.partition`. With K_ZZ = L L'
            these are linear machines on the S features

                x -> L^-1 k(Z, x),        w = sum_s a_s phi(z_s),   a = L^-T w.

Update      Newton's method in w for losses with a continuous derivative. The features are
            made again in every pass and never stored, and L^-T is applied to w, not to the
            data. It begins with the solution on a sample, whose Hessian then serves for all.
            Other losses: coordinate descent, on features in memory.
Stop        when the gap of the problem in the span is at most the tolerance. P is that of
            the whole problem; how much of phi the span holds, the trace share tells.
Source      Williams & Seeger, "Using the Nystrom method to speed up kernel machines", NIPS
            2000; the sample's Hessian as in Roosta-Khorasani & Mahoney, "Sub-sampled Newton
            methods", Math. Programming 174, 2019.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from odmtool import messages
from odmtool.core import kernels
from odmtool.core.gram import BYTES, Gram
from odmtool.core.kernel_table import DISTANCES
from odmtool.core.kernels import Kernel
from odmtool.core.loss_table import SMOOTH
from odmtool.errors import MemoryLimitError
from odmtool.rows.executor import Serial
from odmtool.rows.partition import PartitionLandmarks, landmarks
from odmtool.rows.spread import largest_square, pieces_of
from odmtool.solvers.base import Problem, Solution, Stop, ignore_progress
from odmtool.solvers.descent import dcd
from odmtool.solvers.large import blocks
from odmtool.solvers.large.blocks import Blocks, KernelSource, NystromBasis, expansion
from odmtool.solvers.large.parts import SINGLE_ROUNDING, single_is_enough
from odmtool.solvers.untrained import untrained

# speed only: how rows are split among threads
_TASK_ROWS = 2**16


def solve(
    problem: Problem, stop: Stop, count: int, *, executor=None, seed: int = 0,
    progress=ignore_progress,
) -> tuple[Solution, float]:  # fmt: skip
    """Solve a kernel problem in the span of ``count`` landmarks.

    Raises MemoryLimitError: the loss needs the features in memory, and they do not fit.

    Parameters
    ----------
    problem : Problem
        With a kernel.
    stop : Stop
        ``max_iter`` counts Newton steps, or epochs.

    Returns
    -------
    Solution
        ``coef`` is nonzero for landmarks only; ``eta`` and the gap are those of the problem
        in the span.
    float
        The share of the trace of the kernel matrix that the span holds.
    """
    gram, executor = problem.gram, executor or Serial()
    chosen = landmarks(gram.kernel, gram.X, count, seed=seed, memory=gram.memory)
    if stop.is_late:
        # Even the first gap of a problem on the features takes two passes over kernel values.
        return untrained(problem)._replace(solver="nystrom"), chosen.captured
    if problem.loss.kind == SMOOTH:
        X = features(gram, chosen, stop.tolerance, executor)
        solution = blocks.solve(problem, X, stop, seed=seed, progress=progress)
    else:
        linear = problem._replace(X=features_in_memory(gram, chosen), gram=None)
        solution = dcd.solve(linear, stop, seed=seed, progress=progress)
    coef = np.zeros(problem.size)
    coef[chosen.rows] = problem.y[chosen.rows] * expansion(chosen.factor, solution.w)
    return solution._replace(w=None, coef=coef, solver="nystrom"), chosen.captured


def features(gram: Gram, chosen: PartitionLandmarks, tolerance: float, executor) -> Blocks:
    """The features L^-1 k(Z, x) of all examples, made anew in every pass."""
    X, kernel = gram.X, gram.kernel
    largest = max(pieces_of(X).each(largest_square))
    if is_single_enough(kernel, chosen.factor, largest, tolerance):
        X = X.astype(np.float32)
    sources, sizes = pieces_of(X).kept(
        KernelSource, kernel, X[chosen.rows], rows=_TASK_ROWS, executor=executor
    )
    return Blocks(sources, sizes, len(chosen.rows), chosen.factor, executor)


def basis_of(store, kernel: Kernel, chosen: PartitionLandmarks, tolerance: float) -> NystromBasis:
    """The landmarks for rows as a store of :mod:`odmtool.rows.examples` has them.

    Parameters
    ----------
    store
        Also with ``is_dense`` and ``largest_square``.
    tolerance : float
        The gap that is wanted.
    """
    Z, centre = store[chosen.rows], None
    if store.is_dense and kernel.row.of == DISTANCES:
        centre = Z.mean(axis=0)
        Z = Z - centre
    if is_single_enough(kernel, chosen.factor, store.largest_square, tolerance):
        Z = Z.astype(np.float32)
    return NystromBasis(kernel, Z, chosen.factor, centre)


def is_single_enough(kernel: Kernel, factor: np.ndarray, largest: float, tolerance: float) -> bool:
    """Whether L^-1 k(Z, x) can do with kernel values in single precision.

    L is ``factor``, ``largest`` the largest |x|^2.
    """
    pivots = factor.diagonal()
    is_harmless = SINGLE_ROUNDING * (pivots.max() / pivots.min()) ** 2 <= 0.1 * tolerance
    return bool(is_harmless) and single_is_enough(kernel, largest, tolerance)


def features_in_memory(gram: Gram, chosen: PartitionLandmarks) -> np.ndarray:
    """The features of all examples, shape (m, S)."""
    needed = 2 * BYTES * gram.size * len(chosen.rows)
    if needed > gram.memory:
        raise MemoryLimitError(messages.features_too_large(gram.size, needed, gram.memory))
    X = pieces_of(gram.X).here()
    values = kernels.block(gram.kernel, X, X[chosen.rows])
    return solve_triangular(chosen.factor, values.T, lower=True).T
