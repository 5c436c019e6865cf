"""Compiled epochs of :mod:`odmtool.solvers.mcodm.descent`: what is visited, and a visit's steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool._jit import njit
from odmtool.solvers.descent.kernel_block import ENOUGH, SIZE, SWEEPS, add_rows, keep, sort_in, take
from odmtool.solvers.mcodm.step import alpha_step, beta_step, gap_share
from odmtool.solvers.mcodm.weights import add_row, row_scores


class StepWeights(NamedTuple):
    """What the block step knows of the examples, arrays of shape (m,)."""

    target: np.ndarray
    weight: np.ndarray
    curvature: np.ndarray


class Lists(NamedTuple):
    """The first ``count[i]`` of ``classes[i]``, shape (m, k), are looked at; the first is y_i."""

    classes: np.ndarray
    count: np.ndarray


class Work(NamedTuple):
    """Room for one example: scores, changes of its coefficients, and the classes that change."""

    f: np.ndarray
    delta: np.ndarray
    changed: np.ndarray


@njit
def restore_lists(target, classes, count):
    """List every class, each example's own first."""
    m, k = classes.shape
    for i in range(m):
        for j in range(k):
            classes[i, j] = j
        classes[i, 0], classes[i, target[i]] = target[i], 0
        count[i] = k


@njit
def list_rivals(rival, classes, count):
    """List the rival of every example."""
    for i in range(len(rival)):
        n, a = count[i], 0
        if rival[i] < 0:
            continue
        while classes[i, a] != rival[i]:
            a += 1
        if a >= n:
            classes[i, a], classes[i, n] = classes[i, n], classes[i, a]
            count[i] = n + 1


@njit
def share_of(i, f, loss, examples, duals, lists):
    """What example i, with the scores f, shape (k,), adds to the gap of the sub-problem."""
    alpha, classes, y, u = duals.alpha[i], lists.classes[i], examples.target[i], examples.weight[i]
    rival, beta, best, products = duals.rival[i], duals.beta[i], -np.inf, 0.0
    for a in range(lists.count[i]):
        j = classes[a]
        products += alpha[j] * f[j]
        if j != y:
            best = max(best, f[j])
    z = f[y] - (f[rival] if rival >= 0 else 0.0)
    return gap_share(
        f[y], best, z, alpha[y], beta, products - beta * z, 1.0 - loss.theta, duals.upper[i],
        u * loss.c1, u * loss.c2,
    )  # fmt: skip


@njit
def visit(i, loss, examples, duals, lists, work, threshold):
    """Bring beta_i and alpha_i to their best values and shrink the list of classes.

    ``work.f`` holds the example's scores and is overwritten; ``work.delta`` receives the
    changes of its coefficients, ``work.changed`` their classes.

    Returns
    -------
    changes : int
        How many coefficients changed.
    moved : float
        Largest change of the example's own scores.
    share : float
        Its share of the gap before the update.
    stays : bool
        False if the example is shrunk.
    """
    f, delta, alpha, classes, n = (
        work.f, work.delta, duals.alpha[i], lists.classes[i], lists.count[i],
    )  # fmt: skip
    y, u, A = examples.target[i], examples.weight[i], examples.curvature[i]
    rival, upper, beta, c1, c2 = (
        duals.rival[i], duals.upper[i], duals.beta[i], u * loss.c1, u * loss.c2,
    )  # fmt: skip
    share = share_of(i, f, loss, examples, duals, lists)
    z = f[y] - (f[rival] if rival >= 0 else 0.0)
    new = beta_step(z, beta, 2.0 * A if rival >= 0 else A, upper, c2)
    step = new - beta
    duals.beta[i] = new
    for a in range(n):
        delta[classes[a]] = -alpha[classes[a]]
        f[classes[a]] += A * delta[classes[a]]
    f[y] -= A * step
    if rival >= 0:
        f[rival] += A * step
    rest = alpha_step(f, classes, n, y, A, 1.0 - loss.theta, c1, alpha)
    stays = shrink(
        f, alpha, classes, lists.count, i, rival, f[y] - 1.0 + loss.theta + rest, threshold
    )
    if alpha[y] != 0.0 or new != 0.0 or step != 0.0 or upper - z <= threshold:
        stays = True
    for a in range(n):
        delta[classes[a]] += alpha[classes[a]]
    delta[y] -= step
    if rival >= 0:
        delta[rival] += step
    changes, largest = 0, 0.0
    for a in range(n):
        if delta[classes[a]] != 0.0:
            work.changed[changes] = classes[a]
            changes += 1
            largest = max(largest, abs(delta[classes[a]]))
    return changes, A * largest, share, stays


@njit
def shrink(B, alpha, classes, count, i, rival, level, threshold):
    """Move classes far below the level to the end of the list; whether any other is near it."""
    n, a, near = count[i], 1, False
    while a < n:
        j = classes[a]
        if alpha[j] == 0.0 and level - B[j] > threshold:
            if j != rival:
                n -= 1
                classes[a], classes[n] = classes[n], j
                continue
        else:
            near = True
        a += 1
    count[i] = n
    return near


@njit
def linear_epoch(
    data, indices, indptr, W, loss, examples, duals, lists, work, order, active, threshold
):
    """Visit ``order[:active]`` once, keeping W.

    Parameters
    ----------
    data, indices, indptr : ndarrays
        Rows of the m x d matrix X (CSR).
    W : ndarray, shape (d, k)
        Changed in place, as are ``duals``, ``lists`` and ``work``.
    order : int array, shape (m,)
        The first ``active`` examples are visited; those that are shrunk are swapped
        behind the others.
    threshold : float
        Classes and examples with more slack than this are shrunk.

    Returns
    -------
    active : int
        Examples that stay.
    total : float
        Sum over the visited examples of the largest change of an own score.
    estimate : float
        The visited examples' shares of the gap, before their updates.
    """
    total, estimate, position = 0.0, 0.0, 0
    while position < active:
        i = order[position]
        first, last, n = indptr[i], indptr[i + 1], lists.count[i]
        row_scores(data, indices, first, last, W, lists.classes[i], n, work.f)
        work.delta[:] = 0.0
        changes, moved, share, stays = visit(i, loss, examples, duals, lists, work, threshold)
        estimate += share
        total += moved
        if changes > 0:
            add_row(data, indices, first, last, work.delta, work.changed, changes, W)
        if stays:
            position += 1
        else:
            active -= 1
            order[position], order[active] = order[active], i
    return active, total, estimate


@njit
def kernel_epoch(
    rows, slot, scores, loss, examples, duals, lists, work, order, active, threshold, least
):
    """Visit ``order[:active]``, block after block, keeping all scores, shape (k, m).

    Row i of the kernel matrix stands at ``rows[slot[i]]``; the examples that stay are in front of
    ``order`` afterwards. Those with a smaller share of the gap than ``least`` are not visited, and
    stay. The other parameters and the results are those of :func:`linear_epoch`.
    """
    total, estimate, kept, k = 0.0, 0.0, 0, len(scores)
    values, slots = np.empty((SIZE, SIZE), rows.dtype), np.empty(SIZE, np.int64)
    own, change, stays = np.empty((k, SIZE)), np.empty((k, SIZE)), np.empty(SIZE, np.bool_)
    block, position = np.empty(SIZE, order.dtype), 0
    while position < active:
        b = 0
        while position < active and b < SIZE:
            i, share = order[position], np.inf
            if least > 0.0:
                for a in range(lists.count[i]):
                    work.f[lists.classes[i, a]] = scores[lists.classes[i, a], i]
                share = share_of(i, work.f, loss, examples, duals, lists)
            b, kept, estimate = sort_in(i, share, least, block, b, order, kept, estimate)
            position += 1
        part = block[:b]
        take(rows, 0, slot, scores, part, slots[: len(part)], own, values)
        moved, share = block_sweeps(
            values, own, change, part, stays, loss, examples, duals, lists, work, threshold
        )
        total, estimate = total + moved, estimate + share
        add_rows(rows, 0, slots[: len(part)], change, scores)
        kept = keep(part, stays, order, kept)
    return kept, total, estimate


@njit
def block_sweeps(values, f, change, part, stays, loss, examples, duals, lists, work, threshold):
    """Visit the examples of a block again and again.

    Returns total and estimate: as of :func:`linear_epoch`, by the first visits.

    Parameters
    ----------
    values : ndarray, shape (at least b, at least b)
        Kernel values of the block within itself.
    f : ndarray, shape (k, at least b)
        Its scores, changed in place.
    change, stays : ndarrays, shapes (k, at least b) and (at least b,)
        Receive the changes of the coefficients, and which examples stay.
    part : int array, shape (b,)
        The examples.
    """
    total, estimate, b = 0.0, 0.0, len(part)
    change[:], stays[:] = 0.0, True
    for sweep in range(SWEEPS):
        now = 0.0
        for p in range(b):
            if not stays[p]:
                continue
            i = part[p]
            for a in range(lists.count[i]):
                work.f[lists.classes[i, a]] = f[lists.classes[i, a], p]
            changes, moved, share, stays[p] = visit(
                i, loss, examples, duals, lists, work, threshold
            )
            now += share
            if sweep == 0:
                total += moved
            for a in range(changes):
                c = work.changed[a]
                step, own, row = work.delta[c], f[c, :b], values[p, :b]
                change[c, p] += step
                for q in range(b):
                    own[q] += step * row[q]
        if sweep == 0:
            estimate = now
        elif now <= ENOUGH * estimate:
            break
    return total, estimate
