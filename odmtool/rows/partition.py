"""Landmarks, strata and partitions: parts of the data that look like the whole.

Landmarks   Z = {z_1, ..., z_S} one after the other, each the example whose phi(x) is
            farthest from the span of those before (SODM eq. (6)):

                z_(s+1) = argmax over x of  k(x, x) - k(x, Z) K_ZZ^-1 k(Z, x)

            These are the pivots of a pivoted Cholesky factorisation of K, whose
            residual diagonal is what is maximised: O(S) per example and landmark, no
            inverse. It ends early when the residual is rounding only, and when the time is over.
Strata      an example belongs to its nearest landmark in the RKHS, the one with the
            smallest |phi(x) - phi(z)|^2 = k(x, x) - 2 k(x, z) + k(z, z).
Partitions  stratified: every part gets a random share of every stratum, and within a
            stratum of every class; the distribution of each part is that of the whole.
            random: shares of the whole. cluster: the clusters of kernel k-means
            (:mod:`odmtool.rows.kmeans`) are the parts, as in DC-SVM. cluster-strata: its
            clusters are the strata, as in DiP-SVM.
Source      Wang et al., "Scalable optimal margin distribution machine", IJCAI 2023,
            section 3.2; Hsieh, Si & Dhillon, ICML 2014 (DC-SVM); Singh, Roy & Mohan, "DiP-SVM:
            distribution preserving kernel support vector machine for big data", IEEE Trans.
            Big Data 2017.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool.core import deadline, kernels
from odmtool.core.kernels import Kernel
from odmtool.rows.kmeans import clusters, nearest
from odmtool.rows.spread import pieces_of

LARGEST_SAMPLE = 50_000
"""Examples among which landmarks are looked for, and fewer when there are many landmarks."""
# As many kernel values are looked at again for every landmark.
_LARGEST_TABLE = 20_000_000

# Where k(z, z) - k(z, Z) K_ZZ^-1 k(Z, z) has fallen to this share of the largest k(z, z),
# only rounding is left.
_RESIDUAL = 1e-8


class PartitionLandmarks(NamedTuple):
    """Examples that span the rest."""

    rows: np.ndarray  # integers, shape (S,): which examples, in the order in which they were chosen
    factor: np.ndarray  # shape (S, S): L, lower triangular, K_ZZ = L L'
    # The share of the trace of K that their span holds, between 0 and 1, on the examples among
    # which they were chosen.
    captured: float


def landmarks(
    kernel: Kernel, X, count: int, *, seed: int = 0, memory: float = np.inf
) -> PartitionLandmarks:
    """Choose landmarks among the rows of X.

    Parameters
    ----------
    kernel : Kernel
        Positive semidefinite, or the choice ends early.
    X : csr_matrix or ndarray, shape (m, d)
    count : int, > 0
        At most so many.
    seed : int
        Seeds the sample, and the first landmark where k(x, x) is the same for all x.
    memory : float
        Bytes; the sample is such that count x sample numbers are at most a quarter.
    """
    generator = np.random.default_rng(seed)
    sample = _sample(X.shape[0], count, memory, generator)
    X = X[sample]
    residual = kernels.diagonal(kernel, X).astype(float)
    total, smallest = residual.sum(), _RESIDUAL * residual.max()
    count = min(count, len(sample))
    columns, pivots, squares = np.empty((count, len(sample))), [], kernels.squares(X)
    if np.ptp(residual) <= smallest:
        first = int(generator.integers(len(sample)))
    else:
        first = int(residual.argmax())
    for s in range(count):
        if s and deadline.is_over():
            break
        pivot = int(residual.argmax()) if s else first
        if not residual[pivot] > smallest:
            break
        column = columns[s]
        column[:] = kernels.block(kernel, X[[pivot]], X, squares_b=squares).ravel()
        column -= columns[:s, pivot] @ columns[:s]
        column /= np.sqrt(residual[pivot])
        residual -= column * column
        np.maximum(residual, 0.0, out=residual)
        residual[pivot] = 0.0
        pivots.append(pivot)
    if not pivots:
        # All of phi is 0: any example spans it, and its factor is never divided by.
        pivots, columns[0] = [first], 1.0
    pivots = np.array(pivots, dtype=int)
    factor = np.tril(columns[: len(pivots), pivots].T)
    captured = 1.0 - residual.sum() / total if total > 0 else 1.0
    return PartitionLandmarks(sample[pivots], factor, float(captured))


def _sample(m: int, count: int, memory: float, generator) -> np.ndarray:
    """The examples to choose among, in ascending order."""
    size = sample_size(m, count, memory)
    if size >= m:
        return np.arange(m)
    return np.sort(generator.choice(m, size, replace=False))


def sample_size(m: int, count: int, memory: float) -> int:
    """How many of m examples are looked at for ``count`` landmarks in ``memory`` bytes."""
    table = min(_LARGEST_TABLE, memory / 4 // 8)
    return min(m, int(max(count, min(LARGEST_SAMPLE, table // count))))


def strata(kernel: Kernel, X, Z) -> np.ndarray:
    """The nearest landmark in the RKHS, the first of equals: int array of shape (m,).

    Parameters
    ----------
    X : csr_matrix, ndarray or SpreadRows, shape (m, d)
        Examples.
    Z : csr_matrix or ndarray, shape (S, d)
        Landmarks.
    """
    return np.concatenate(pieces_of(X).each(nearest, kernel, Z, kernels.diagonal(kernel, Z) / 2))


def deal(stratum: np.ndarray, y: np.ndarray, parts: int, *, seed: int) -> np.ndarray:
    """Deal the examples out like cards, stratum by stratum and class by class.

    Returns int array, shape (m,): the part of each example; sizes differ by one at most.

    Parameters
    ----------
    stratum : int array, shape (m,)
        All the same for random parts.
    y : ndarray, shape (m,)
        Classes.
    parts : int, > 0
    """
    shuffled = np.random.default_rng(seed).permutation(len(stratum))
    order = shuffled[np.lexsort((y[shuffled], stratum[shuffled]))]
    part = np.empty(len(stratum), dtype=np.int64)
    # The next stratum goes on where the last one ended, so that no part gets all remainders.
    part[order] = np.arange(len(stratum)) % parts
    return part


def partition(
    kernel: Kernel, X, y, parts: int, *, by: str = "stratified", count: int = 64, seed: int = 0,
    memory: float = np.inf,
) -> np.ndarray:  # fmt: skip
    """The part of each example, int array of shape (m,).

    Parameters
    ----------
    X : csr_matrix or ndarray, shape (m, d)
    y : ndarray, shape (m,)
        Classes.
    parts : int, > 0
    by : str, one of :data:`odmtool.defaults.PARTITION_BY`
    count : int
        Strata of the partitions that have some.
    memory : float
        Bytes for the choice of the landmarks or centres.
    """
    m = X.shape[0]
    parts = min(parts, m)
    if by == "random":
        # One stratum and one class: nothing but chance.
        return deal(np.zeros(m, dtype=np.int64), np.zeros(m), parts, seed=seed)
    if by == "cluster":
        return clusters(kernel, X, parts, seed=seed, memory=memory)
    if by == "cluster-strata":
        stratum = clusters(kernel, X, count, seed=seed, memory=memory)
    else:
        chosen = landmarks(kernel, X, count, seed=seed, memory=memory)
        stratum = strata(kernel, X, X[chosen.rows])
    return deal(stratum, y, parts, seed=seed)
