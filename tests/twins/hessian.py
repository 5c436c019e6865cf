"""Twins of the compiled second derivatives of multi-class ODM: finite differences.

What is differenced is the gradient of the smoothed loss by the twin of the block step, which
tries every set of active classes. Both are linear on every piece, so that the differences are
exact but for rounding errors.
"""

from __future__ import annotations

import numpy as np

from odmtool.core.losses import MulticlassODMLoss
from odmtool.solvers.mcodm import hessian
from odmtool.solvers.multi import Duals
from twins.making import Twin, dense, matrix, rows_of, table
from twins.mcodm import exact_alpha, rivals

# ---- the smoothed loss ---------------------------------------------------------------------


def loss_of_one(z, y, u, loss, rho, centre, rival, upper):
    """Value, alpha and beta at the scores z, by the header of the compiled file."""
    c1, c2 = loss.c1 * u, loss.c2 * u
    tau = rho / (2 * c1)
    alpha = exact_alpha(z - tau * centre, y, tau, 1 - loss.theta, c1)
    value = -alpha @ z + (1 - loss.theta) * alpha[y] - alpha[y] ** 2 / (4 * c1)
    value -= tau / 2 * ((alpha - centre) ** 2).sum()
    over = max(0.0, z[y] - (z[rival] if rival >= 0 else 0.0) - upper)
    return value + c2 * over**2, alpha, 2 * c2 * over


def gradient_of_one(z, y, u, loss, rho, centre, rival, upper):
    _value, alpha, beta = loss_of_one(z, y, u, loss, rho, centre, rival, upper)
    slope = -alpha
    slope[y] += beta
    if rival >= 0:
        slope[rival] -= beta
    return slope


def sum_of_losses(Z, change, step, loss, rho, target, weight, centre, duals, pieces):
    total, scores = 0.0, Z if step == 0 else Z - step * change
    for i, (z, y) in enumerate(zip(scores, target, strict=True)):
        value, duals.alpha[i], duals.beta[i] = loss_of_one(
            z, y, weight[i], loss, rho, centre[i], duals.rival[i], duals.upper[i]
        )
        active = np.flatnonzero(duals.alpha[i] < 0)
        pieces.count[i], pieces.members[i, : len(active)] = len(active), active
        total += value
    return total


def named_members(result, arguments):
    """T has no order, and no meaning beyond its count."""
    *_rest, duals, pieces = arguments
    chosen = zip(pieces.members, pieces.count, strict=True)
    return result, duals, pieces.count, [sorted(row[:n].tolist()) for row, n in chosen]


def states(generator):
    """Losses, examples, scores on every piece, and room for what follows from them."""
    m = 9
    for k in (1, 2, 5):
        for rho in (1.0, 0.05):
            loss = MulticlassODMLoss(generator.uniform(0, 0.5), *generator.uniform(0.3, 4, 2))
            target, weight = generator.integers(0, k, m), generator.uniform(0.3, 3, m)
            centre = -generator.random((m, k)) * (generator.random((m, k)) < 0.5)
            centre[np.arange(m), target] = 0
            centre[np.arange(m), target] = -centre.sum(axis=1)
            rival = rivals(generator, target, k).astype(np.int64)
            upper = np.where(generator.random(m) < 0.8, generator.uniform(-1, 1, m), np.inf)
            duals = Duals(np.full((m, k), np.nan), np.full(m, np.nan), rival, upper)
            pieces = hessian.Pieces(np.zeros((m, k), dtype=np.int32), np.zeros(m, dtype=np.int64))
            yield loss, rho, target, weight, centre, duals, pieces


def smoothed_cases(generator):
    for loss, rho, target, weight, centre, duals, pieces in states(generator):
        Z, change = 2 * generator.standard_normal((2, *centre.shape))
        for step in (0.0, 0.7):
            yield Z, change, step, loss, rho, target, weight, centre, duals, pieces
        # Ties, and a direction that overflowed and is not taken.
        Z, change = np.round(Z), np.full_like(Z, np.inf)
        yield Z, change, 0.0, loss, rho, target, weight, centre, duals, pieces


# ---- its second derivative -----------------------------------------------------------------


def blocks(loss, rho, target, weight, duals, pieces) -> np.ndarray:
    """H_i, shape (m, k, k), by differences at scores that lie inside the named pieces."""
    m, k = duals.alpha.shape
    H = np.empty((m, k, k))
    for i, (y, r) in enumerate(zip(target, duals.rival, strict=True)):
        z = np.full(k, -50.0)
        z[pieces.members[i, : pieces.count[i]]] = 50.0
        z[y] = 0.0
        over = z[y] - (z[r] if r >= 0 else 0.0)
        known = weight[i], loss, rho, np.zeros(k), r, over - (5.0 if duals.beta[i] > 0 else -5.0)
        for j, unit in enumerate(np.eye(k)):
            ahead, behind = (gradient_of_one(z + s * unit, y, *known) for s in (0.5, -0.5))
            H[i, :, j] = ahead - behind
    return H


def product(data, indices, indptr, loss, rho, target, weight, duals, pieces, V, result):
    X, H = dense(data, indices, indptr, len(V)), blocks(loss, rho, target, weight, duals, pieces)
    result[:] = V + sum(np.outer(x, H_i @ (x @ V)) for x, H_i in zip(X, H, strict=True))


def diagonals(loss, rho, target, weight, duals, pieces, weights):
    weights[:] = [np.diag(H) for H in blocks(loss, rho, target, weight, duals, pieces)]


def whole(data, indices, indptr, loss, rho, target, weight, duals, pieces, result):
    X = dense(data, indices, indptr, len(result) // duals.alpha.shape[1])
    H = blocks(loss, rho, target, weight, duals, pieces)
    result[:] = np.eye(len(result))
    result += sum(np.kron(H_i, np.outer(x, x)) for x, H_i in zip(X, H, strict=True))


def lower_triangle(result, arguments):
    return result, np.tril(arguments[-1])


def diagonal_cases(generator):
    for loss, rho, target, weight, centre, duals, pieces in states(generator):
        Z = 2 * generator.standard_normal(centre.shape)
        # Every second example's class is far ahead: T is empty, and beta positive.
        Z[np.arange(0, len(Z), 2), target[::2]] += 9.0
        sum_of_losses(Z, Z, 0.0, loss, rho, target, weight, centre, duals, pieces)
        yield loss, rho, target, weight, duals, pieces, np.full_like(Z, np.nan)


def whole_cases(generator):
    d = 4
    for *known, _ in diagonal_cases(generator):
        m, k = known[4].alpha.shape
        yield *rows_of(matrix(generator, m, d)), *known, np.full((k * d, k * d), np.nan)


def product_cases(generator):
    for *known, result in whole_cases(generator):
        k = known[-2].alpha.shape[1]
        V = generator.standard_normal((len(result) // k, k))
        yield *known, V, np.full_like(V, np.nan)


# ---- rows and columns ------------------------------------------------------------------------


def dot(data, indices, first, last, V, j):
    return float(data[first:last] @ V[indices[first:last], j])


def add(data, indices, first, last, factor, V, j):
    V[indices[first:last], j] += factor * data[first:last]


def add_block(data, indices, first, last, h, result, top, left):
    top, left = max(top, left), min(top, left)
    x, at = data[first:last], indices[first:last]
    block = h * np.outer(x, x)
    result[np.ix_(top + at, left + at)] += np.tril(block) if top == left else block


def rows_and_columns(generator):
    """Rows with 0, 1, 2, ... nonzeros."""
    d = 6
    data, indices, indptr = rows_of(np.tril(generator.standard_normal((d + 1, d)), -1))
    for i in range(d + 1):
        for j in range(3):
            yield data, indices, indptr[i], indptr[i + 1], generator.standard_normal((d, 3)), j


def dot_cases(generator):
    yield from rows_and_columns(generator)


def add_cases(generator):
    for *row, V, j in rows_and_columns(generator):
        yield *row, float(generator.normal()), V, j


def block_cases(generator):
    for *row, V, j in rows_and_columns(generator):
        d = len(V)
        result = generator.standard_normal((3 * d, 3 * d))
        yield *row, float(generator.normal()), result, d, d * j


TWINS = table(
    Twin(hessian.smoothed, sum_of_losses, smoothed_cases, named_members),
    Twin(hessian.hessian_product, product, product_cases),
    Twin(hessian.hessian_weights, diagonals, diagonal_cases),
    Twin(hessian.hessian, whole, whole_cases, lower_triangle),
    Twin(hessian.column_product, dot, dot_cases),
    Twin(hessian.add_column, add, add_cases),
    Twin(hessian.add_outer, add_block, block_cases),
)
