"""Twins of the Crammer-Singer machine's block step and epochs."""

from __future__ import annotations

import numpy as np

from odmtool.solvers.descent.kernel_block import SIZE
from odmtool.solvers.mcsvm import descent as mcsvm
from twins.kernel_block import in_blocks, swept
from twins.making import Twin, bisect, dense, matrix, rows_of, table
from twins.mcodm_descent import as_sets, lists


def step(B, y, A, cap, alpha):
    """p_l = max(0, B_l - B_y + 1 - r) / A; r by bisection."""
    alpha[:] = 0
    others = np.delete(np.arange(len(B)), y)
    above = B[others] - B[y] + 1
    top = above.max()
    if top > 0 and A == 0:
        alpha[others[above.argmax()]], alpha[y] = -cap, cap
    elif top > 0:
        r = bisect(lambda r: min(r, A * cap) - np.maximum(0, above - r).sum(), top - A * cap, top)
        alpha[others] = -np.maximum(0, above - r) / A
        alpha[y] = -alpha[others].sum()
    return top


def step_cases(generator):
    """Ties and near ties, two classes, an empty row, and caps that bind or do not."""
    for number in range(60):
        k = int(generator.integers(2, 9))
        B = generator.standard_normal(k) * 10 ** generator.uniform(-2, 1)
        if number % 2:
            B = np.round(B, 1) + generator.choice([0.0, 1e-9]) * generator.random(k)
        A, cap = 10 ** generator.uniform(-1, 1, 2)
        if number % 7 == 0:
            B, A = np.zeros(k), 0.0
        yield B, int(generator.integers(k)), A, cap, generator.standard_normal(k)


def own_share(f, y, cap, alpha):
    return cap * max(0, 1 - f[y] + max(np.delete(f, y))) + alpha @ f - alpha[y]


def share_cases(generator):
    for f, y, _A, cap, _threshold, alpha, *_scratch in look_cases(generator):
        yield f, y, cap, alpha


def look(f, y, A, cap, threshold, alpha, delta, changed):
    """What the best alpha changes, and the example's part of P - D."""
    old, share = alpha.copy(), own_share(f, y, cap, alpha)
    top = step(f - A * old, y, A, cap, alpha)
    delta[:] = alpha - old
    classes = np.flatnonzero(delta)
    changed[: len(classes)] = classes
    f[:] -= A * old
    moved = A * np.abs(delta).max()
    return len(classes), moved, share, len(classes) > 0 or top >= -threshold


def looked(result, arguments):
    """The list of classes that changed is as long as the result says."""
    changes, moved, share, stays = result
    f, *_rest, alpha, delta, changed = arguments
    return changes, moved, share, bool(stays), f, alpha, delta, changed[:changes]


def duals(generator, target, cap, k):
    """Feasible ones, of which every third are 0."""
    p = generator.random((len(target), k)) * (generator.random((len(target), k)) < 0.5)
    p[::3], p[np.arange(len(target)), target] = 0, 0
    p *= (cap * generator.random(len(cap)) / np.maximum(1e-9, p.sum(axis=1)))[:, None]
    alpha = -p
    alpha[np.arange(len(target)), target] = p.sum(axis=1)
    return alpha


def look_cases(generator):
    for number in range(40):
        k, cap = int(generator.integers(2, 7)), 10 ** generator.uniform(-1, 1, 1)
        y = int(generator.integers(k))
        alpha = duals(generator, [0, y], np.r_[cap, cap], k)[1] * (number % 3 > 0)
        f, A = 2 * generator.standard_normal(k), 10 ** generator.uniform(-1, 1)
        yield f, y, A, cap[0], 0.3 * (number % 2), alpha, np.zeros(k), np.zeros(k, dtype=int)


def linear(data, indices, indptr, W, cost, curvature, alpha, classes, count, *rest):
    """As long as only the listed classes count."""
    X, (order, active, threshold) = dense(data, indices, indptr, len(W)), rest
    moved, estimate, place = 0.0, 0.0, 0
    while place < active:
        i = order[place]
        n, known = count[i], (curvature[i], cost[i], threshold)
        listed = classes[i, :n].copy()
        own, delta, B = alpha[i, listed], np.zeros(n), (X[i] @ W)[listed]
        _, move, share, stays = look(B, 0, *known, own, delta, np.zeros(n, dtype=int))
        alpha[i, listed] = own
        W[:, listed] += np.outer(X[i], delta)
        count[i] = shrunk(B, own, curvature[i], threshold, classes[i], n)
        moved, estimate = moved + move, estimate + share
        if stays:
            place += 1
        else:
            active -= 1
            order[place], order[active] = order[active], i
    return active, moved, estimate


def after_linear_epoch(result, arguments):
    """Of the lists the first class, and which others; nothing of their order."""
    *_rows, classes, count, order, _active, _threshold = arguments
    return result, _rows, as_sets(classes, count), count, order


def shrunk(B, alpha, A, threshold, classes, n):
    """Classes of which only much higher scores would have duals, but for one, go last."""
    duals = np.flatnonzero(alpha[1:n]) + 1
    level = B[duals[-1]] + A * alpha[duals[-1]] if len(duals) else B[0] - 1
    near = [a for a in range(1, n) if alpha[a] or level - B[a] <= threshold]
    kept = [classes[a] for a in (0, *(near or [min(2, n - 1)]))]
    classes[:] = [*kept, *(j for j in classes if j not in kept)]
    return len(kept)


def shrunk_list(n, arguments):
    classes = arguments[4]
    return n, classes[0], set(classes[:n].tolist()), set(classes.tolist())


def shrink_cases(generator):
    for f, _y, A, _cap, _threshold, alpha, *_scratch in look_cases(generator):
        k = len(f)
        for threshold in (0.0, 0.4, 9.0):
            alpha[0], n = 0.0, int(generator.integers(2, k + 1))
            # What an example has duals for ends at one level.
            level, B = f[0] - 1, f.copy()
            B[1:][alpha[1:] != 0] = (level - A * alpha[1:])[alpha[1:] != 0]
            yield B, alpha, A, threshold, generator.permutation(k), n


def visits(target, cost, curvature, alpha, threshold):
    """What :func:`twins.kernel_block.swept` calls for an example."""

    def visit(i, f):
        delta, changed = np.zeros(len(f)), np.zeros(len(f), dtype=int)
        known = target[i], curvature[i], cost[i], threshold, alpha[i]
        return delta, *look(f, *known, delta, changed)[1:]

    return visit


def sweeps(values, f, change, part, stays, *rest):
    moves, found = swept(visits(*rest), values, f, change, part, stays)
    return max(max(each) for each in moves), found


def kernel(rows, slot, scores, *rest):
    *rest, order, active, threshold, least = rest
    target, cost, _, alpha = rest

    def share(i, f):
        return own_share(f, target[i], cost[i], alpha[i]) if least else np.inf

    look = visits(*rest, threshold)
    kept, moves, found = in_blocks(look, share, rows[slot], scores, order, active, least)
    return kept, max((max(each) for block in moves for each in block), default=0.0), found


def after_kernel_epoch(result, arguments):
    """Of the order only the examples that stay."""
    *rest, order, active, threshold, _least = arguments
    return result, rest, order[: result[0]]


def epoch_cases(generator, m=12):
    """X, its duals and what an epoch is told, with every example and with some."""
    d = 5
    for k in (2, 4):
        for active, threshold in ((m, np.inf), (m, 0.05), (m - 5, 0.0)):
            X, target = matrix(generator, m, d), generator.integers(0, k, m)
            cost = generator.uniform(0.1, 2, m)
            alpha = duals(generator, target, cost, k)
            rest = target, cost, (X * X).sum(axis=1), alpha, generator.permutation(m), active
            yield X, alpha, (*rest, threshold)


def linear_cases(generator):
    for X, alpha, rest in epoch_cases(generator):
        target, *_, order, active, threshold = rest
        classes, count = lists(generator, target, alpha.shape[1])
        count = np.maximum(count, 2)
        for i, row in enumerate(classes):  # classes with duals are listed
            own = [j for j in row[1:] if alpha[i, j]]
            others = [j for j in row[1:] if j not in own]
            classes[i], count[i] = [row[0], *own, *others], max(count[i], 1 + len(own))
        known = *rest[1:4], classes, count
        yield *rows_of(X), X.T @ alpha, *known, order, active, threshold


def kernel_cases(generator):
    for m in (12, SIZE + 9):
        for X, alpha, rest in epoch_cases(generator, m):
            slot = generator.permutation(len(X))
            rows = np.empty((len(X), len(X)))
            rows[slot] = X @ X.T
            for least in (0.0, 1.0):
                yield rows, slot, np.ascontiguousarray((X @ X.T @ alpha).T), *rest, least


def sweep_cases(generator):
    for X, alpha, rest in epoch_cases(generator):
        *known, order, b, threshold = rest
        part, k = order[:b], alpha.shape[1]
        f = np.ascontiguousarray((X[part] @ X.T @ alpha).T)
        change, stays = np.ones((k, b + 2)), np.zeros(b + 1, bool)
        yield X[part] @ X[part].T, f, change, part, stays, *known, threshold


TWINS = table(
    Twin(mcsvm.simplex_step, step, step_cases),
    Twin(mcsvm.gap_share, own_share, share_cases),
    Twin(mcsvm.visit, look, look_cases, looked),
    Twin(mcsvm.linear_epoch, linear, linear_cases, after_linear_epoch),
    Twin(mcsvm.shrink, shrunk, shrink_cases, shrunk_list),
    Twin(mcsvm.block_sweeps, sweeps, sweep_cases),
    Twin(mcsvm.kernel_epoch, kernel, kernel_cases, after_kernel_epoch),
)
