"""The Newton system of mcODM among the duals that are not at a bound, where these are few.

Problem     (I + sum_i H_i (x) x_i x_i') S = G, as in :mod:`odmtool.solvers.mcodm.newton`. H_i has
            the rank |T_i|, and one more with a loss from above. With a column of B for every l in
            T_i, (e_l - e_y) (x) x_i, and one for a loss from above, (e_y - e_rival) (x) x_i, the
            system is I + B M^-1 B', where M is tau 1 + D 1 1' for the columns of T_i, and 1/g for
            that of a loss from above (tau, D and g as in :mod:`odmtool.solvers.mcodm.hessian`).
Solution    by Woodbury's identity, S = G - B (M + B'B)^-1 B'G. B'B needs no more of the examples
            than their inner products, so that features and classes may be many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from odmtool.solvers.newton.factor import cholesky_in_place, cholesky_solve


class Columns(NamedTuple):
    """The columns of B, and M. Those of an example's T stand side by side."""

    examples: np.ndarray  # integers, shape (n,)
    # plus, minus: integers, shape (n,), the classes a and b of (e_a - e_b) (x) x_i; ``minus`` is -1
    # where there is no second one.
    plus: np.ndarray
    minus: np.ndarray
    # own, shared: shape (n,), the diagonal of M without D, and D; 0 of losses from above.
    own: np.ndarray
    shared: np.ndarray


def division(X: np.ndarray, K: np.ndarray, columns: Columns, k: int) -> Callable:
    """A function that makes S, shape (d, k), of G.

    Raises LinAlgError: M + B'B is not positive definite to working precision.

    Parameters
    ----------
    X : ndarray or csr_matrix, shape (m, d)
    K : ndarray, shape (m, m)
        X X'.
    k : int
        Number of classes.
    """
    at, plus, minus = columns[:3]
    m, named = X.shape[0], np.flatnonzero(minus >= 0)
    first, second = at * k + plus, (at * k + minus)[named]
    L = cholesky_in_place(_matrix(K, columns, k))

    def divide(G: np.ndarray) -> np.ndarray:
        scores = (X @ G).ravel()
        right = scores[first]
        right[named] -= scores[second]
        p = cholesky_solve(L, right)
        C = np.bincount(first, p, m * k) - np.bincount(second, p[named], m * k)
        return G - X.T @ C.reshape(m, k)

    return divide


def _matrix(K: np.ndarray, columns: Columns, k: int) -> np.ndarray:
    """The lower triangle of M + B'B."""
    at, plus, minus, own, shared = columns
    n, named = len(at), np.flatnonzero(minus >= 0)
    signs = np.zeros((n, k))
    signs[np.arange(n), plus] = 1.0
    signs[named, minus[named]] = -1.0
    A = signs @ signs.T
    A *= K.take(at, axis=0).take(at, axis=1)
    A.flat[:: n + 1] += own + shared
    distance = 1
    while (first := np.flatnonzero((at[distance:] == at[:-distance]) * shared[distance:])).size:
        A[first + distance, first] += shared[first]
        distance += 1
    return A
