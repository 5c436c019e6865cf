"""The smoothed loss of mcODM and its second derivative, compiled.

For scores z of an example with class y, a centre a (its alpha of the round before), and
tau = rho / (2 c1 u) the loss from below is smoothed to

    h(z) = max over alpha of  -alpha.z + (1-theta) alpha^y - (alpha^y)^2 / (4 c1 u)
                              - tau/2 |alpha - a|^2

over the alpha of :mod:`odmtool.solvers.mcodm.step`, which is that file's problem with A = tau
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
from odmtool.solvers.mcodm.step import alpha_step


class Pieces(NamedTuple):
    """The pieces of the losses on which the scores lie."""

    # Integers, shape (m, k): row i begins with ``count[i]`` classes: T without order.
    members: np.ndarray
    count: np.ndarray  # integers, shape (m,)


@njit
def smoothed(Z, change, step, loss, rho, target, weight, centre, duals, pieces):
    """Set alpha and beta of ``duals`` from the scores Z - step change; the sum of the losses.

    Z and change have shape (m, k); the difference is never stored.
    """
    m, k = Z.shape
    every, B, z, total = np.empty(k, np.int32), np.empty(k), np.empty(k), 0.0
    for j in range(k):  # of int32, for which alpha_step is compiled, too, where descent needs it
        every[j] = j
    for i in range(m):
        y, c1, c2 = target[i], loss.c1 * weight[i], loss.c2 * weight[i]
        tau, alpha = rho / (2.0 * c1), duals.alpha[i]
        for j in range(k):
            # What overflowed times 0 would be NaN.
            z[j] = Z[i, j] - step * change[i, j] if step > 0.0 else Z[i, j]
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
def hessian_product(data, indices, indptr, loss, rho, target, weight, duals, pieces, V, result):
    """result = V + sum_i x_i' H_i x_i V for V of shape (d, k)."""
    v = np.empty(V.shape[1])
    for p in range(V.shape[0]):  # numba compiles result[:] = V with its messages, for seconds
        for j in range(V.shape[1]):
            result[p, j] = V[p, j]
    for i in range(len(indptr) - 1):
        n, y, r = pieces.count[i], target[i], duals.rival[i]
        is_above = duals.beta[i] > 0.0
        if n == 0 and not is_above:
            continue
        first, last, T = indptr[i], indptr[i + 1], pieces.members[i]
        v_y = column_product(data, indices, first, last, V, y)
        at_y = 0.0
        if n > 0:
            tau = rho / (2.0 * loss.c1 * weight[i])
            D, total = tau + tau / rho, 0.0
            for a in range(n):
                # Not int32, for which the function would be compiled once more.
                j = np.int64(T[a])
                v[a] = column_product(data, indices, first, last, V, j) - v_y
                total += v[a]
            s = total / (n * D + tau)
            at_y -= s
            for a in range(n):
                j = np.int64(T[a])
                add_column(data, indices, first, last, (v[a] - D * s) / tau, result, j)
        if is_above:
            v_r = 0.0 if r < 0 else column_product(data, indices, first, last, V, r)
            at_r = 2.0 * loss.c2 * weight[i] * (v_r - v_y)
            at_y -= at_r
            if r >= 0:
                add_column(data, indices, first, last, at_r, result, r)
        add_column(data, indices, first, last, at_y, result, y)


@njit
def hessian_weights(loss, rho, target, weight, duals, pieces, weights):
    """The diagonals of the H_i, into ``weights``, shape (m, k)."""
    weights[:] = 0.0
    for i in range(len(weights)):
        n, y, r = pieces.count[i], target[i], duals.rival[i]
        tau = rho / (2.0 * loss.c1 * weight[i])
        D = tau + tau / rho
        weights[i, y] = n / (n * D + tau)
        for a in range(n):
            weights[i, pieces.members[i, a]] = (1.0 - D / (n * D + tau)) / tau
        if duals.beta[i] > 0.0:
            weights[i, y] += 2.0 * loss.c2 * weight[i]
            if r >= 0:
                weights[i, r] += 2.0 * loss.c2 * weight[i]


@njit
def hessian(data, indices, indptr, loss, rho, target, weight, duals, pieces, result):
    """The lower triangle of the Hessian, shape (k d, k d), class by class; I included."""
    m, k = duals.alpha.shape
    d = len(result) // k
    result[:] = 0.0
    for j in range(k * d):
        result[j, j] = 1.0
    for i in range(m):
        n, y, r = pieces.count[i], target[i], duals.rival[i]
        first, last, T = indptr[i], indptr[i + 1], pieces.members[i]
        at_y = 0.0
        if n > 0:
            tau = rho / (2.0 * loss.c1 * weight[i])
            D = tau + tau / rho
            share = 1.0 / (n * D + tau)
            at_y = n * share
            for a in range(n):
                h, j = (1.0 - D * share) / tau, np.int64(T[a])  # as in hessian_product
                add_outer(data, indices, first, last, h, result, j * d, j * d)
                add_outer(data, indices, first, last, -share, result, j * d, y * d)
                for b in range(a):
                    h = -D * share / tau
                    add_outer(data, indices, first, last, h, result, j * d, np.int64(T[b]) * d)
        if duals.beta[i] > 0.0:
            g = 2.0 * loss.c2 * weight[i]
            at_y += g
            if r >= 0:
                add_outer(data, indices, first, last, g, result, r * d, r * d)
                add_outer(data, indices, first, last, -g, result, r * d, y * d)
        if at_y > 0.0:
            add_outer(data, indices, first, last, at_y, result, y * d, y * d)


@njit
def column_product(data, indices, first, last, V, j):
    """x V_j for the row x = ``first:last``."""
    # Two sums, so that one addition need not wait for the other.
    even, odd, middle = 0.0, 0.0, first + (last - first) // 2 * 2
    for q in range(first, middle, 2):
        even += data[q] * V[indices[q], j]
        odd += data[q + 1] * V[indices[q + 1], j]
    if middle < last:
        even += data[middle] * V[indices[middle], j]
    return even + odd


@njit
def add_column(data, indices, first, last, factor, V, j):
    """V_j += factor x'."""
    for q in range(first, last):
        V[indices[q], j] += factor * data[q]


@njit
def add_outer(data, indices, first, last, h, result, top, left):
    """result += h x x' at (top, left), the other way round if that is below the diagonal."""
    if left > top:
        top, left = left, top
    for p in range(first, last):
        value, row = h * data[p], result[top + indices[p]]
        end = p + 1 if top == left else last
        for q in range(first, end):
            row[left + indices[q]] += value * data[q]
