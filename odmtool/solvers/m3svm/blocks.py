"""The Hessian's blocks of the classes for M3SVM and ISM3, as a preconditioner.

Problem     B_a P_a = G_a for every class a, where B_a is the block of H for w_a and b_a: with s_i
            the curvature of an example's loss by the class's score, and the regulariser of a pair
            of classes bent by c I + e (w_a - w_l)(w_a - w_l)' (e < 0 counts as 0),

                B_a = sum_i s_i (x_i, 1)(x_i, 1)' + V'V + D,    v_l = e^1/2 (w_a - w_l, 0),

            D a diagonal, of the sum of all c and twice the ridge.
Method      Cholesky's of B_a, or, where few examples count, Woodbury's identity: with the rows
            s_i^1/2 (x_i, 1) and v_l in U,

                B^-1 = D^-1 - D^-1 U' (1 + U D^-1 U')^-1 U D^-1.
"""

# speed only: a preconditioner
from __future__ import annotations

import numpy as np

from odmtool.solvers.linear_cost import nonzeros
from odmtool.solvers.newton.factor import cholesky_in_place, cholesky_solve
from odmtool.solvers.newton.hessian import gram_of, is_thin

LARGEST_NUMBERS, _NUMBERS_PER_ENTRY = 1.2e7, 20
"""In the factors of all classes, and in the rows of those of few examples; for each number of X."""
# Examples whose curvature is below this share of the largest one of a class do not count.
_LEAST_SHARE = 1e-3
# In a product with H a number of an array takes as long, for each class, as so many multiplications
# when blocks are made, and one of sparse rows as so many.
_OF_ARRAY, _OF_SPARSE = 5, 16


def planned_numbers(m: int, n: int, k: int, entries: int) -> float:
    """What blocks take at most, and one that is made.

    There are m examples of so many nonzero numbers, and k classes with n unknowns each.
    """
    return (1 + 3 / k) * min(largest_numbers(entries), float(k) * _numbers(m + k, n))


def largest_numbers(entries: int) -> float:
    """As many there may be for examples of so many nonzero numbers."""
    return min(LARGEST_NUMBERS, _NUMBERS_PER_ENTRY * entries)


def is_worth(X, heights: np.ndarray, products: int, largest: float) -> bool:
    """Whether blocks cost less than so many products with H, and have room.

    Parameters
    ----------
    X : csr_matrix or ndarray, shape (m, d)
    heights : ndarray, shape (m, k)
        The curvatures of the examples, as if all had the weight 1.
    largest : float
        The most numbers, of :func:`largest_numbers`.
    """
    k, n, cost, numbers = heights.shape[1], X.shape[1] + 1, 0.0, 0.0
    product = nonzeros(X) * (_OF_ARRAY if isinstance(X, np.ndarray) else _OF_SPARSE)
    for count in np.count_nonzero(_counts(heights), axis=0):
        r = int(count) + k
        side = r if _has_few(r, n) else n
        cost += r * n * side + side**3 / 3
        numbers += _numbers(r, n)
    return numbers <= largest and cost <= product * k * products


class ClassBlocks:
    """The blocks of all classes, factored.

    Parameters
    ----------
    X : csr_matrix or ndarray, shape (m, d)
    heights : ndarray, shape (m, k)
        As of :func:`is_worth`.
    weight : ndarray, shape (m,)
    pairs : Pairs
        What the regulariser is there.
    ridge : float

    Raises LinAlgError: a block is singular to working precision.
    """

    def __init__(self, X, heights: np.ndarray, weight: np.ndarray, pairs, ridge: float):
        curvature = np.where(_counts(heights), heights * weight[:, None], 0.0)
        self._dividers, is_sparse = [], is_thin(X)
        for a, s in enumerate(curvature.T):
            bends, level = pairs.bends(a)
            D = np.full(X.shape[1] + 1, 2 * ridge)
            D[:-1] += level
            if _has_few(np.count_nonzero(s) + len(bends), len(D)):
                divider = _by_rows(X, s, bends, D)
            else:
                divider = _by_features(X, s, bends, D, is_sparse)
            self._dividers.append(divider)

    def divide(self, G: np.ndarray) -> np.ndarray:
        """P with B_a P_a = G_a for every class a; shapes (d+1, k)."""
        pairs = zip(self._dividers, G.T, strict=True)
        return np.stack([divide(column) for divide, column in pairs], axis=1)


def _counts(heights: np.ndarray) -> np.ndarray:
    """Which examples count in the block of each class, shape (m, k)."""
    return heights > _LEAST_SHARE * heights.max(axis=0, initial=0.0)


def _has_few(r: int, n: int) -> bool:
    """Whether U has few rows for its columns: then it and U U' are smaller than B."""
    return 2 * r <= n


def _numbers(r: int, n: int) -> float:
    """In the factor for U with so many rows, and in U where it is kept."""
    return r * (r + n) if _has_few(r, n) else n * n


def _by_features(X, s: np.ndarray, bends: np.ndarray, D: np.ndarray, is_sparse: bool):
    B = np.empty((len(D), len(D)))
    B[:-1, :-1] = gram_of(X, s, is_sparse)
    B[:-1, :-1] += bends.T @ bends
    B[-1, :-1] = B[:-1, -1] = np.asarray(X.T @ s)
    B[-1, -1] = s.sum()
    B.flat[:: len(B) + 1] += D
    L = cholesky_in_place(B)
    return lambda g: cholesky_solve(L, g)


def _by_rows(X, s: np.ndarray, bends: np.ndarray, D: np.ndarray):
    rows, r = np.flatnonzero(s), len(bends)
    U = np.ones((len(rows) + r, len(D)))
    U[r:, :-1] = X[rows] if isinstance(X, np.ndarray) else X[rows].toarray()
    U[r:] *= np.sqrt(s[rows])[:, None]
    U[:r, :-1], U[:r, -1] = bends, 0.0
    inner = (U / D) @ U.T
    inner.flat[:: len(inner) + 1] += 1.0
    L = cholesky_in_place(inner)

    def divide(g: np.ndarray) -> np.ndarray:
        scaled = g / D
        return scaled - (U.T @ cholesky_solve(L, U @ scaled)) / D

    return divide
