"""Compiled sums over sparse rows with W = [w_1 .. w_k], row-major by feature.

A row's scores and changes are those of a few chosen classes, or of all, which costs less where they
are not few.
"""

from __future__ import annotations

import numpy as np

from odmtool._jit import njit

# So many classes, and one more for each width of a vector register, cost as much, taken one
# by one, as all of them together.
# speed only: one by one or all together, the sums are the same
_FEW = 4
# speed only: one by one or all together, the sums are the same
_WIDTH = 8


@njit
def move_betas(data, indices, indptr, examples, before, duals, W):
    """Take beta_i x_i from the column before to that of the present rival."""
    for a in range(len(examples)):
        i = examples[a]
        for q in range(indptr[i], indptr[i + 1]):
            step = duals.beta[i] * data[q]
            if before[a] >= 0:
                W[indices[q], before[a]] -= step
            if duals.rival[i] >= 0:
                W[indices[q], duals.rival[i]] += step


@njit
def rebuild_weights(data, indices, indptr, target, duals, W):
    """W = X' C with the coefficients C of the duals."""
    k = W.shape[1]
    coef, chosen = np.empty(k), np.empty(k, dtype=np.int64)
    W[:] = 0.0
    for i in range(len(indptr) - 1):
        for j in range(k):  # numba compiles coef[:] = alpha[i] with its messages, for seconds
            coef[j] = duals.alpha[i, j]
        coef[target[i]] -= duals.beta[i]
        if duals.rival[i] >= 0:
            coef[duals.rival[i]] += duals.beta[i]
        n = np.int64(0)  # not 0 alone, for which add_row would be compiled once more
        for j in range(k):
            if coef[j] != 0.0:
                chosen[n] = j
                n += 1
        add_row(data, indices, indptr[i], indptr[i + 1], coef, chosen, n, W)


@njit
def add_row(data, indices, first, last, delta, chosen, n, W):
    """W += x delta' at the first n chosen classes; delta is 0 at the others."""
    k = W.shape[1]
    # speed only: which of two loops does the same
    if n <= _FEW + k // _WIDTH:
        for a in range(n):
            j = chosen[a]
            for q in range(first, last):
                W[indices[q], j] += data[q] * delta[j]
    else:
        for q in range(first, last):
            v, row = data[q], W[indices[q]]
            for j in range(k):
                row[j] += v * delta[j]


@njit
def row_scores(data, indices, first, last, W, classes, n, f):
    """f_l = <w_l, x> at the first n classes."""
    k = W.shape[1]
    # speed only: which of two loops does the same
    if n <= _FEW + k // _WIDTH:
        for a in range(n):
            j, total = classes[a], 0.0
            for q in range(first, last):
                total += data[q] * W[indices[q], j]
            f[j] = total
    else:
        f[:] = 0.0
        for q in range(first, last):
            v, row = data[q], W[indices[q]]
            for j in range(k):
                f[j] += v * row[j]
