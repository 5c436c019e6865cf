"""Twins of multi-class ODM's compiled block step, of its weights and its scores."""

from __future__ import annotations

import numpy as np

from odmtool.solvers.mcodm import step, weights
from odmtool.solvers.multi import Duals
from twins.making import Twin, bisect, dense, matrix, rows_of, table

# ---- the block step ----------------------------------------------------------------------


def exact_alpha(B, y, A, threshold, c):
    """The best alpha, from every set of classes that could be the active one."""
    e, D = B[y] - threshold, A + 0.5 / c
    others = np.delete(np.arange(len(B)), y)
    ordered = others[np.argsort(-B[others], kind="stable")]
    best, most = np.zeros(len(B)), 0.0
    for n in range(1, len(B)):
        chosen = ordered[:n]
        # Stationary on the chosen classes: A p_l + D sum p + e = B_l.
        p = np.linalg.solve(A * np.eye(n) + D, B[chosen] - e)
        if p.min() < 0:
            continue
        s = p.sum()
        value = -A / 2 * (p @ p + s * s) + B[chosen] @ p - e * s - s * s / (4 * c)
        if value > most:
            most, best = value, np.zeros(len(B))
            best[chosen], best[y] = -p, s
    return best


def multiplier(B, y, A, threshold, c) -> float:
    """nu - e: where a decreasing function meets a rising line."""
    e, others = B[y] - threshold, np.delete(B, y)
    if A == 0:
        return max(0.0, *(others - e))
    top = max(0.0, *(others - e))
    return bisect(
        lambda r: r * A / (A + 0.5 / c) - np.maximum(0, others - e - r).sum(), 0.0, top + 1
    )


def set_alpha(B, classes, n, y, A, threshold, c, alpha):
    listed = np.array(classes[:n])
    place = list(listed).index(y)
    if A == 0:
        # All scores of an empty row are equal; only the sum of alpha matters.
        alpha[listed] = 0
        if n > 1:
            first = listed[listed != y][0]
            s = max(0.0, bisect(lambda s: s / (2 * c) - B[first] + B[y] - threshold, -1e9, 1e9))
            alpha[first], alpha[y] = -s, s
    else:
        alpha[listed] = exact_alpha(B[listed], place, A, threshold, c)
    return multiplier(B[listed], place, A, threshold, c) if n > 1 else 0.0


def alpha_cases(generator):
    """Every class or some of them, ties, near ties, one class, an empty row."""
    for number in range(60):
        k = int(generator.integers(1, 9))
        B = generator.standard_normal(k) * 10 ** generator.uniform(-2, 1)
        if number % 2:
            B = np.round(B, 1) + generator.choice([0.0, 1e-9, 1e-12]) * generator.random(k)
        A, c = 10 ** generator.uniform(-1, 1), 10 ** generator.uniform(-2, 3)
        if number % 7 == 0:
            B, A = np.full(k, B[0]), 0.0
        classes, n = generator.permutation(k).astype(np.int32), int(generator.integers(1, k + 1))
        y = int(generator.choice(classes[:n]))
        yield B, classes, n, y, A, generator.uniform(0.05, 1), c, generator.standard_normal(k)


def best_beta(z, beta, h, upper, c):
    """The zero of the derivative, 0 if it is negative."""
    if np.isinf(upper):
        return 0.0
    return max(0.0, bisect(lambda b: h * (b - beta) - z + upper + b / (2 * c), -1e6, 1e6))


def beta_cases(generator):
    for h in (0.0, 1.5):
        for _ in range(20):
            z, upper = generator.uniform(-3, 3, 2)
            yield z, generator.uniform(0, 2), h, upper, generator.uniform(0.1, 5)
    yield 9.0, 0.0, 1.0, np.inf, 1.0


def squared_hinge(c, x):
    """c max(0, x)^2 as the largest value over s >= 0 of s x - s^2 / (4 c)."""
    s = bisect(lambda s: s / (2 * c) - x, 0.0, 1e6) if x > 0 else 0.0
    return s * x - s * s / (4 * c) if s > 0 else 0.0


def share(z_own, z_best, beta_z, s, beta, products, threshold, upper, c1, c2):
    primal = squared_hinge(c1, threshold - z_own + z_best)
    dual = threshold * s - s**2 / (4 * c1) - beta**2 / (4 * c2)
    if np.isfinite(upper):
        primal, dual = primal + squared_hinge(c2, beta_z - upper), dual - upper * beta
    return primal + products - dual


def share_cases(generator):
    for number in range(40):
        z_own, z_best, beta_z, products, upper = generator.uniform(-3, 3, 5)
        s, beta, c1, c2 = generator.uniform(0.1, 3, 4)
        if number % 4 == 0:
            beta, upper = 0.0, np.inf
        yield z_own, z_best, beta_z, s, beta, products, generator.uniform(0, 1), upper, c1, c2


# ---- the best other class ------------------------------------------------------------------


# ---- weights and scores ------------------------------------------------------------------------


def rivals(generator, target, k):
    """Another class for each, or none."""
    rival = (target + generator.integers(1, max(2, k), len(target))) % k
    return np.where((generator.random(len(target)) < 0.3) | (k == 1), -1, rival)


def duals(generator, target, k, c1=1.0, c2=1.0, shift=0.0):
    """Feasible ones; every third example has an alpha of 0, and some a beta of 0."""
    m = len(target)
    alpha = -generator.random((m, k)) * (generator.random((m, k)) < 0.5)
    alpha[::3] = 0
    alpha[np.arange(m), target] = 0
    alpha[np.arange(m), target] = -alpha.sum(axis=1)
    rival = rivals(generator, target, k)
    named = (rival >= 0) | (generator.random(m) < 0.5)
    beta = np.where(named & (generator.random(m) < 0.6), generator.random(m), 0.0)
    upper = np.where(named, generator.uniform(-1, 1, m) + shift, np.inf)
    return Duals(alpha, beta, rival.astype(np.int64), upper)


def coefficients(target, values):
    """C of W = X'C, entry by entry."""
    C = values.alpha.copy()
    for i, y in enumerate(target):
        C[i, y] -= values.beta[i]
        if values.rival[i] >= 0:
            C[i, values.rival[i]] += values.beta[i]
    return C


def move(data, indices, indptr, examples, before, values, W):
    X, target = dense(data, indices, indptr, len(W)), np.zeros(len(indptr) - 1, dtype=int)
    C = np.zeros((len(target), W.shape[1]))
    for i, old in zip(examples, before, strict=True):
        for sign, column in ((-1, old), (1, values.rival[i])):
            if column >= 0:
                C[i, column] += sign * values.beta[i]
    W += X.T @ C


def move_cases(generator):
    m, d, k = 9, 6, 4
    target = generator.integers(0, k, m)
    for chosen in ([], [1], [0, 3, 4, 7, 8]):
        examples = np.array(chosen, dtype=int)
        values, before = duals(generator, target, k), rivals(generator, target, k)[examples]
        rows, W = rows_of(matrix(generator, m, d)), generator.standard_normal((d, k))
        yield *rows, examples, before, values, W


def rebuild(data, indices, indptr, target, values, W):
    W[:] = dense(data, indices, indptr, len(W)).T @ coefficients(target, values)


def rebuild_cases(generator):
    m, d = 9, 6
    for k in (1, 3, 12):
        target = generator.integers(0, k, m)
        rows = rows_of(matrix(generator, m, d))
        yield *rows, target, duals(generator, target, k), np.full((d, k), np.nan)


def add(data, indices, first, last, delta, chosen, n, W):
    W[indices[first:last]] += np.outer(data[first:last], delta)


def weights_and_row(generator, number, k):
    """A row of a sparse matrix, n of k classes, and W."""
    data, indices, indptr = rows_of(matrix(generator, 7, 6))
    i = number % 7
    return data, indices, indptr[i], indptr[i + 1], generator.standard_normal((6, k))


def class_numbers():
    """n of k classes: few, so that they are taken one by one, or many."""
    return enumerate((n, k) for k in (1, 3, 9, 20) for n in range(k + 1))


def add_cases(generator):
    for number, (n, k) in class_numbers():
        data, indices, first, last, W = weights_and_row(generator, number, k)
        chosen, delta = generator.permutation(k), np.zeros(k)
        delta[chosen[:n]] = generator.standard_normal(n)
        yield data, indices, first, last, delta, chosen, n, W


def scores(data, indices, first, last, W, classes, n, f):
    f[classes[:n]] = (data[first:last] @ W[indices[first:last]])[classes[:n]]


def listed_scores(result, arguments):
    W, classes, n, f = arguments[4:]
    return result, W, f[classes[:n]]


def score_cases(generator):
    for number, (n, k) in class_numbers():
        data, indices, first, last, W = weights_and_row(generator, number, k)
        classes = generator.permutation(k).astype(np.int32)
        yield data, indices, first, last, W, classes, n, np.full(k, np.nan)


TWINS = table(
    Twin(step.alpha_step, set_alpha, alpha_cases),
    Twin(step.beta_step, best_beta, beta_cases),
    Twin(step.gap_share, share, share_cases),
    Twin(weights.move_betas, move, move_cases),
    Twin(weights.rebuild_weights, rebuild, rebuild_cases),
    Twin(weights.add_row, add, add_cases),
    Twin(weights.row_scores, scores, score_cases, listed_scores),
)
