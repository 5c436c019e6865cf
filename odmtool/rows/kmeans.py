"""Kernel k-means on a sample, with the assignment of all examples to its centres.

Centres     those of clusters of a sample: c = mean of phi(z) over its members. They begin at
            examples drawn with the probability of their squared distance from those before
            (k-means++); then members and centres take turns until nothing changes.
Clusters    every example belongs to the nearest centre in the RKHS, the one with the smallest
            |phi(x) - c|^2 = k(x, x) - 2 <phi(x), c> + |c|^2.
Source      Hsieh, Si & Dhillon, "A divide-and-conquer solver for kernel support vector
            machines", ICML 2014 (two-step kernel k-means); Arthur & Vassilvitskii,
            "k-means++: the advantages of careful seeding", SODA 2007.
"""

from __future__ import annotations

import numpy as np

from odmtool.core import kernels
from odmtool.core.gram import BYTES
from odmtool.core.kernels import Kernel
from odmtool.rows.spread import pieces_of

_SAMPLE, _FOR_CENTRE = 1000, 10
"""Examples in the sample, and at least so many for each centre."""
_ROUNDS = 100
_TABLES = 3
# speed only: rows at a time
_BLOCK_BYTES = 2**22


def clusters(kernel: Kernel, X, count: int, *, seed: int = 0, memory: float = np.inf) -> np.ndarray:
    """The cluster of each example, int array of shape (m,); none of them is empty.

    Parameters
    ----------
    kernel : Kernel
        Positive semidefinite.
    X : csr_matrix, ndarray or SpreadRows, shape (m, d)
    count : int, > 0
        At most so many clusters.
    seed : int
        Seeds the sample and the first centres.
    memory : float
        Bytes; what the sample takes is at most a quarter. Where not even ``count`` examples
        fit there are fewer clusters.
    """
    generator = np.random.default_rng(seed)
    size = sample_size(X.shape[0], count, memory)
    sample = np.sort(generator.choice(X.shape[0], size, replace=False))
    Z = X[sample]
    A, half = _centres(kernels.block(kernel, Z, Z), min(count, size), generator)
    found = np.concatenate(pieces_of(X).each(nearest, kernel, Z, half, A))
    return np.unique(found, return_inverse=True)[1]


def sample_size(m: int, count: int, memory: float) -> int:
    """How many of m examples are looked at for ``count`` centres in ``memory`` bytes."""
    size, numbers = min(m, max(_SAMPLE, _FOR_CENTRE * count)), memory / 4 // BYTES
    # Kernel values, size x size, and three matrices, size x count.
    half = _TABLES / 2 * count
    most = np.sqrt(numbers + half * half) - half
    return int(max(1, min(size, most)))


def _centres(K: np.ndarray, count: int, generator) -> tuple[np.ndarray, np.ndarray]:
    """Shares of a sample's examples in the centres, shape (size, clusters), and |c|^2 / 2."""
    size = len(K)
    distance = np.full(size, np.inf)
    centres = [int(generator.integers(size))]
    while len(centres) < count:
        last = centres[-1]
        squares = K.diagonal() - 2 * K[last] + K[last, last]
        distance = np.minimum(distance, np.maximum(squares, 0.0))
        if not distance.sum() > 0:
            break  # the others are all the same
        centres.append(int(generator.choice(size, p=distance / distance.sum())))
    own = (K[:, centres] - K.diagonal()[centres] / 2).argmax(axis=1)
    for _ in range(_ROUNDS):
        A = (own[:, None] == np.unique(own)).astype(float)
        A /= A.sum(axis=0)
        means = K @ A
        half = np.einsum("sc,sc->c", A, means) / 2
        own = (means - half).argmax(axis=1)
        if A[np.arange(size), own].all():
            break
    return A, half


def nearest(X, kernel: Kernel, Z, half: np.ndarray, A: np.ndarray | None = None) -> np.ndarray:
    """The nearest of Z, or of the centres that have the shares A of them; ``half`` is |c|^2 / 2."""
    found = np.empty(X.shape[0], dtype=np.int64)
    # speed only: rows at a time
    step = max(1, _BLOCK_BYTES // (BYTES * Z.shape[0]))
    for start in range(0, X.shape[0], step):
        values = kernels.block(kernel, X[start : start + step], Z)
        found[start : start + step] = ((values if A is None else values @ A) - half).argmax(axis=1)
    return found
