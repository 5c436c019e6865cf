"""Twins of the visits and epochs of multi-class ODM's coordinate descent, and of their lists."""

from __future__ import annotations

import itertools

import numpy as np

from odmtool.core.losses import MulticlassODMLoss
from odmtool.solvers.descent.kernel_block import SIZE
from odmtool.solvers.mcodm import epochs
from twins.kernel_block import in_blocks, swept
from twins.making import Twin, dense, matrix, rows_of, table
from twins.mcodm import best_beta, coefficients, duals, rivals, set_alpha, share

# ---- lists of classes ------------------------------------------------------------------------


def restore(target, classes, count):
    k = classes.shape[1]
    for i, y in enumerate(target):
        classes[i] = [y, *(j for j in range(k) if j != y)]
        count[i] = k


def as_sets(classes, count):
    """A list of classes: the first stays the first, and the others have no order."""
    assert all(sorted(row) == list(range(len(row))) for row in classes.tolist())
    return classes[:, 0], [set(row[:n].tolist()) for row, n in zip(classes, count, strict=True)]


def restored(result, arguments):
    target, classes, count = arguments
    first, listed = as_sets(classes, count)
    return result, first, count, [sorted(each) for each in listed]


def name_rivals(rival, classes, count):
    for i, r in enumerate(rival):
        row = classes[i].tolist()
        if r >= 0 and r not in row[: count[i]]:
            row.remove(r)
            classes[i] = [*row[: count[i]], r, *row[count[i] :]]
            count[i] += 1


def restore_cases(generator):
    for k in (1, 2, 5):
        yield generator.integers(0, k, 8), np.full((8, k), -1, np.int32), np.zeros(8, dtype=int)


def lists(generator, target, k):
    """Lists with the own class first and any number of others."""
    m = len(target)
    classes = np.array(
        [[y, *generator.permutation(np.delete(np.arange(k), y))] for y in target], np.int32
    ).reshape(m, k)
    return epochs.Lists(classes, generator.integers(1, k + 1, m))


def naming_cases(generator):
    for k in (1, 2, 5):
        target = generator.integers(0, k, 12)
        yield rivals(generator, target, k), *lists(generator, target, k)


def shrunk(B, alpha, classes, count, i, rival, level, threshold):
    near = [j for j in classes[1 : count[i]] if alpha[j] != 0 or level - B[j] <= threshold]
    kept = [classes[0], *(j for j in classes[1 : count[i]] if j in near or j == rival)]
    classes[:] = [*kept, *(j for j in classes if j not in kept)]
    count[i] = len(kept)
    return bool(near)


def shrunk_list(result, arguments):
    classes, count = arguments[2:4]
    return bool(result), classes[0], count, sorted(classes[: count[arguments[4]]].tolist())


def shrink_cases(generator):
    for threshold in (0.0, 0.5, 100.0):
        for k in (1, 2, 6):
            target = generator.integers(0, k, 5)
            rival, (classes, count) = rivals(generator, target, k), lists(generator, target, k)
            for i in range(5):
                alpha = -generator.random(k) * (generator.random(k) < 0.3)
                B, level = generator.standard_normal(k), float(generator.normal())
                yield B, alpha, classes[i], count, i, int(rival[i]), level, threshold


# ---- epochs ------------------------------------------------------------------------------------


def own_share(i, f, loss, examples, values, listing):
    """What example i adds to the gap, as long as only the listed classes count."""
    (target, weight, _), (classes, count) = examples, listing
    y, u, r, beta, alpha = target[i], weight[i], values.rival[i], values.beta[i], values.alpha[i]
    listed = classes[i, : count[i]]
    z, best = f[y] - (f[r] if r >= 0 else 0), max(f[listed[listed != y]], default=-np.inf)
    products, upper = alpha[listed] @ f[listed] - beta * z, values.upper[i]
    c1, c2 = u * loss.c1, u * loss.c2
    return share(f[y], best, z, alpha[y], beta, products, 1 - loss.theta, upper, c1, c2)


def share_cases(generator):
    for i, loss, examples, values, listing, work, _threshold in visit_cases(generator):
        yield i, work.f, loss, examples, values, listing


def one(i, loss, examples, values, listing, work, threshold):
    """A visit in full vectors: scores, the best beta, the best alpha, what is left out."""
    (target, weight, curvature), (classes, count) = examples, listing
    y, u, A, r = target[i], weight[i], curvature[i], values.rival[i]
    c1, c2, upper, f = u * loss.c1, u * loss.c2, values.upper[i], work.f
    listed = classes[i, : count[i]].copy()
    alpha, beta = values.alpha[i].copy(), values.beta[i]
    z, found = f[y] - (f[r] if r >= 0 else 0), own_share(i, f, loss, examples, values, listing)
    new = best_beta(z, beta, A if r < 0 else 2 * A, upper, c2)
    direction = np.zeros(len(f))
    direction[y] = -1
    if r >= 0:
        direction[r] = 1
    B = f + A * ((new - beta) * direction)
    B[listed] -= A * alpha[listed]
    nu = set_alpha(B, listed, len(listed), y, A, 1 - loss.theta, c1, values.alpha[i])
    nu += B[y] - 1 + loss.theta
    values.beta[i] = new
    near = shrunk(B, values.alpha[i], classes[i], count, i, r, nu, threshold)
    stays = near or values.alpha[i, y] != 0 or new != 0 or new != beta or upper - z <= threshold
    work.delta[:] = values.alpha[i] - alpha + (new - beta) * direction
    moved = A * max(abs(work.delta[listed]), default=0.0)
    changed = [j for j in listed if work.delta[j] != 0]
    work.changed[: len(changed)] = changed
    return len(changed), moved, found, stays


def visited(result, arguments):
    _i, _loss, _examples, values, listing, work, _threshold = arguments
    changed = work.changed[: result[0]]
    assert sorted(changed) == np.flatnonzero(work.delta).tolist()
    return result[:3], bool(result[3]), values, *restored(None, (0, *listing)), work.delta


def epoch(forms, add_change, loss, examples, values, listing, work, order, active, threshold):
    queue, out, stay, total, estimate = list(order[:active]), [], [], 0.0, 0.0
    while queue:
        i = queue.pop(0)
        work.f[:] = forms(i)
        _changes, moved, found, stays = one(i, loss, examples, values, listing, work, threshold)
        total, estimate = total + moved, estimate + found
        add_change(i, work.delta)
        if stays:
            stay.append(i)
        else:
            out.insert(0, i)
            queue = queue[-1:] + queue[:-1]
    order[:active] = stay + out
    return len(stay), total, estimate


def linear(
    data, indices, indptr, W, loss, examples, values, listing, work, order, active, threshold
):
    X = dense(data, indices, indptr, len(W))

    def add_change(i, delta):
        W[:] += np.outer(X[i], delta)

    rest = loss, examples, values, listing, work, order, active, threshold
    return epoch(lambda i: X[i] @ W, add_change, *rest)


def visits(loss, examples, values, listing, work, threshold):
    """What :func:`twins.kernel_block.swept` calls for an example."""

    def look(i, f):
        work.f[:] = f
        _changes, moved, found, stays = one(i, loss, examples, values, listing, work, threshold)
        return work.delta.copy(), moved, found, stays

    return look


def sweeps(values, f, change, part, stays, *rest):
    moves, found = swept(visits(*rest), values, f, change, part, stays)
    return sum(moves[0]), found


def kernel(rows, slot, F, *rest):
    *rest, order, active, threshold, least = rest
    loss, examples, values, listing, _work = rest

    def found_at(i, f):
        return own_share(i, f, loss, examples, values, listing) if least else np.inf

    look = visits(*rest, threshold)
    kept, moves, found = in_blocks(look, found_at, rows[slot], F, order, active, least)
    return kept, sum(sum(each[0]) for each in moves), found


def after_epoch(result, arguments):
    """All but the scratch."""
    listing = arguments[-5]
    rest = [part for part in arguments[:-5] if not isinstance(part, MulticlassODMLoss)]
    return result, rest, *restored(None, (0, *listing)), arguments[-3]


def after_kernel_epoch(result, arguments):
    """The same, and of the order the examples that stay."""
    *rest, order, active, threshold, _least = arguments
    return after_epoch(result, (*rest, order[: result[0]], active, threshold))


def after_sweeps(result, arguments):
    """All but the scratch."""
    *known, loss, examples, values, listing, _work, _threshold = arguments
    return result, known, examples, values, *restored(None, (0, *listing))


def states(generator, sizes=(9,)):
    """Loss, examples, feasible duals, lists that name every rival and nonzero alpha, work."""
    for m, k, scale in itertools.product(sizes, (1, 2, 4, 12), (0.3, 3.0)):
        theta = generator.uniform(0, 0.5)
        loss = MulticlassODMLoss(theta, 2.0 * scale, 0.7 * scale)
        target = generator.integers(0, k, m)
        values = duals(generator, target, k, shift=1 + theta)
        classes, count = lists(generator, target, k)
        for i in range(m):
            needed = np.flatnonzero((values.alpha[i] != 0) | (np.arange(k) == values.rival[i]))
            first = [target[i], *(j for j in needed if j != target[i])]
            classes[i] = [*first, *(j for j in classes[i] if j not in first)]
            count[i] = max(count[i], len(first))
        work = epochs.Work(np.zeros(k), np.zeros(k), np.zeros(k, dtype=np.int64))
        weight = generator.uniform(0.3, 3, m)
        yield k, loss, target, weight, values, epochs.Lists(classes, count), work


def visit_cases(generator):
    for k, loss, target, weight, values, listing, work in states(generator):
        curvature = generator.uniform(0.2, 4, len(target))
        curvature[4] = 0.0
        examples = epochs.StepWeights(target, weight, curvature)
        for i in range(len(target)):
            f = np.zeros(k) if curvature[i] == 0 else generator.standard_normal(k)
            for threshold in (0.1, np.inf):
                yield i, loss, examples, values, listing, work._replace(f=f), threshold


def linear_cases(generator):
    d = 5
    for _k, loss, target, weight, values, listing, work in states(generator):
        X = matrix(generator, len(target), d)
        examples = epochs.StepWeights(target, weight, (X**2).sum(axis=1))
        W = X.T @ coefficients(target, values)
        order = generator.permutation(len(target))
        m = len(target)
        for active, threshold in ((m, 0.05), (m - 3, 0.5), (m, np.inf)):
            yield (
                *rows_of(X), W, loss, examples, values, listing, work, order, active, threshold,
            )  # fmt: skip


def machines(generator, sizes):
    """Loss, examples, duals, lists and work, kernel values of the examples, and their scores."""
    for k, loss, target, weight, values, listing, work in states(generator, sizes):
        m = len(target)
        Z = generator.standard_normal((m, 3))
        K = np.exp(-0.3 * ((Z[:, None] - Z[None]) ** 2).sum(axis=2))
        examples = epochs.StepWeights(target, weight, np.ones(m))
        F = np.ascontiguousarray((K @ coefficients(target, values)).T)
        yield k, K, F, loss, examples, values, listing, work


def kernel_cases(generator):
    for _k, K, F, *rest in machines(generator, (9, SIZE + 9)):
        m = len(K)
        slot, rows = generator.permutation(m + 2)[:m], np.full((m + 2, m), np.nan)
        rows[slot] = K
        order = generator.permutation(m)
        for active, threshold, least in ((m, 0.05, 0.0), (m - 3, 0.5, 0.0), (m, 0.05, 0.5)):
            yield rows, slot, F, *rest, order, active, threshold, least


def sweep_cases(generator):
    for k, K, F, *rest in machines(generator, (9,)):
        for b, threshold in ((9, 0.05), (6, 0.5), (1, np.inf)):
            part = generator.permutation(9)[:b]
            within, f = K[np.ix_(part, part)], np.ascontiguousarray(F[:, part])
            yield within, f, np.ones((k, b + 1)), part, np.zeros(b, bool), *rest, threshold


TWINS = table(
    Twin(epochs.restore_lists, restore, restore_cases, restored),
    Twin(epochs.list_rivals, name_rivals, naming_cases, restored),
    Twin(epochs.shrink, shrunk, shrink_cases, shrunk_list),
    Twin(epochs.share_of, own_share, share_cases),
    Twin(epochs.visit, one, visit_cases, visited),
    Twin(epochs.linear_epoch, linear, linear_cases, after_epoch),
    Twin(epochs.block_sweeps, sweeps, sweep_cases, after_sweeps),
    Twin(epochs.kernel_epoch, kernel, kernel_cases, after_kernel_epoch),
)
