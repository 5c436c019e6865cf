"""The smoothed loss of mcODM and its second derivative, compiled.

For scores z of an example with class y, a centre a (its alpha of the round before), and
tau = rho / (2 c1 u) the loss from below is smoothed to

    h(z) = max over alpha of  -alpha.z + (1-theta) alpha^y - (alpha^y)^2 / (4 c1 u)
                              - tau/2 |alpha - a|^2

over the alpha of :mod:`odmtool.solvers.mcodm_step`, which is that file's problem with A = tau
and B = z - tau a. Its gradient is -alpha(z). With T = {l != y: alpha^l < 0} and
D = tau + 1/(2 c1 u) its (generalised) Hessian maps a change v of the scores to

    s = sum_{l in T} (v_l - v_y) / (|T| D + tau)        at y:       -s
                                                        at l in T:  (v_l - v_y - D s) / tau

and the loss from above, where beta > 0, adds g (v_y - v_rival) at y and its negative at the
rival, g = 2 c2 u. As tau goes to 0, h becomes the squared hinge of the maximum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool._jit import njit
from odmtool.solvers.mcodm_step import alpha_step


class Pieces(NamedTuple):
    """The pieces of the losses on which the scores lie.

    Attributes
    ----------
    members : int array, shape (m, k)
        Row i begins with ``count[i]`` classes: T without order.
    count : int array, shape (m,)
    """

    members: np.ndarray
    count: np.ndarray


@njit
def smoothed(Z, loss, rho, target, weight, centre, duals, pieces):
    """Set alpha and beta of ``duals`` from the scores Z, shape (m, k); the sum of the losses."""
    m, k = Z.shape
    every, B, total = np.arange(k), np.empty(k), 0.0
    for i in range(m):
        y, c1, c2 = target[i], loss.c1 * weight[i], loss.c2 * weight[i]
        tau, alpha, z = rho / (2.0 * c1), duals.alpha[i], Z[i]
        for j in range(k):
            B[j] = z[j] - tau * centre[i, j]
        alpha_step(B, every, k, y, tau, 1.0 - loss.theta, c1, alpha)
        value, n = (1.0 - loss.theta) * alpha[y] - 0.25 * alpha[y] * alpha[y] / c1, 0
        for j in range(k):
            away = alpha[j] - centre[i, j]
            value -= alpha[j] * z[j] + 0.5 * tau * away * away
            if alpha[j] < 0.0:
                pieces.members[i, n] = j
                n += 1
        pieces.count[i] = n
        over = z[y] - duals.upper[i]
        if duals.rival[i] >= 0:
            over -= z[duals.rival[i]]
        over = max(0.0, over)
        duals.beta[i] = 2.0 * c2 * over
        total += value + c2 * over * over
    return total


@njit
def hessian_product(
    data, indices, indptr, loss, rho, target, weight, duals, pieces, V, result
):
    """result = V + sum_i x_i' H_i x_i V for V of shape (d, k)."""
    m, k = duals.alpha.shape
    v = np.empty(k)
    result[:] = V
    for i in range(m):
        n, y, r = pieces.count[i], target[i], duals.rival[i]
        first, last, T = indptr[i], indptr[i + 1], pieces.members[i]
        if n == 0 and duals.beta[i] == 0.0:
            continue
        v_y, v_r = 0.0, 0.0
        for a in range(n):
            v[a] = 0.0
        for q in range(first, last):
            row, x = V[indices[q]], data[q]
            v_y += x * row[y]
            for a in range(n):
                v[a] += x * row[T[a]]
        at_y, at_r = 0.0, 0.0
        if n > 0:
            tau, D, total = _widths(loss, rho, weight[i]), 0.0, 0.0
            D = tau + tau / rho
            for a in range(n):
                v[a] -= v_y
                total += v[a]
            s = total / (n * D + tau)
            for a in range(n):
                v[a] = (v[a] - D * s) / tau
            at_y = -s
        if duals.beta[i] > 0.0:
            if r >= 0:
                for q in range(first, last):
                    v_r += data[q] * V[indices[q], r]
            at_r = -2.0 * loss.c2 * weight[i] * (v_y - v_r)
            at_y -= at_r
        for q in range(first, last):
            row, x = result[indices[q]], data[q]
            row[y] += x * at_y
            for a in range(n):
                row[T[a]] += x * v[a]
            if r >= 0 and at_r != 0.0:
                row[r] += x * at_r


@njit
def _widths(loss, rho, u):
    """tau of an example with weight u."""
    return rho / (2.0 * loss.c1 * u)


@njit
def class_weights(loss, rho, target, weight, duals, pieces, i, T, H):
    """H_i among the classes it touches: their list goes to T, the matrix to H; their number."""
    n, y, r = pieces.count[i], target[i], duals.rival[i]
    T[0] = y
    H[: n + 2, : n + 2] = 0.0
    tau = _widths(loss, rho, weight[i])
    D = tau + tau / rho
    share = 1.0 / (n * D + tau)
    H[0, 0] = n * share
    for a in range(1, n + 1):
        T[a] = pieces.members[i, a - 1]
        H[0, a] = -share
        H[a, 0] = -share
        for b in range(1, n + 1):
            H[a, b] = -D * share / tau
        H[a, a] += 1.0 / tau
    size = n + 1
    if duals.beta[i] > 0.0:
        g = 2.0 * loss.c2 * weight[i]
        H[0, 0] += g
        if r >= 0:
            place = 1
            while place < size and T[place] != r:
                place += 1
            if place == size:
                T[place] = r
                size += 1
            H[place, place] += g
            H[0, place] -= g
            H[place, 0] -= g
    return size


@njit
def hessian(data, indices, indptr, loss, rho, target, weight, duals, pieces, result):
    """The lower triangle of the Hessian, shape (k d, k d), class by class; I included."""
    m, k = duals.alpha.shape
    d = len(result) // k
    T, H = np.empty(k + 1, dtype=np.int64), np.empty((k + 2, k + 2))
    result[:] = 0.0
    for j in range(k * d):
        result[j, j] = 1.0
    for i in range(m):
        if pieces.count[i] == 0 and duals.beta[i] == 0.0:
            continue
        size = class_weights(loss, rho, target, weight, duals, pieces, i, T, H)
        for a in range(size):
            for b in range(size):
                if T[b] <= T[a] and H[a, b] != 0.0:
                    add_outer(
                        data, indices, indptr[i], indptr[i + 1], H[a, b], result, T[a] * d, T[b] * d
                    )


@njit
def hessian_blocks(data, indices, indptr, loss, rho, target, weight, duals, pieces, result):
    """The lower triangles of the Hessian's diagonal blocks, shape (k, d, d); I included."""
    m, k = duals.alpha.shape
    T, H = np.empty(k + 1, dtype=np.int64), np.empty((k + 2, k + 2))
    result[:] = 0.0
    for j in range(k):
        for q in range(result.shape[1]):
            result[j, q, q] = 1.0
    for i in range(m):
        if pieces.count[i] == 0 and duals.beta[i] == 0.0:
            continue
        size = class_weights(loss, rho, target, weight, duals, pieces, i, T, H)
        for a in range(size):
            if H[a, a] != 0.0:
                add_outer(data, indices, indptr[i], indptr[i + 1], H[a, a], result[T[a]], 0, 0)


@njit
def add_outer(data, indices, first, last, h, result, top, left):
    """result += h x x' at (top, left); only the lower triangle of a diagonal block."""
    for p in range(first, last):
        value, row = h * data[p], result[top + indices[p]]
        end = p + 1 if top == left else last
        for q in range(first, end):
            row[left + indices[q]] += value * data[q]


@njit
def hessian_diagonal(data, indices, indptr, loss, rho, target, weight, duals, pieces, result):
    """The diagonal of the Hessian, shape (d, k)."""
    m, k = duals.alpha.shape
    T, H = np.empty(k + 1, dtype=np.int64), np.empty((k + 2, k + 2))
    result[:] = 1.0
    for i in range(m):
        if pieces.count[i] == 0 and duals.beta[i] == 0.0:
            continue
        size = class_weights(loss, rho, target, weight, duals, pieces, i, T, H)
        for q in range(indptr[i], indptr[i + 1]):
            for a in range(size):
                result[indices[q], T[a]] += H[a, a] * data[q] * data[q]
