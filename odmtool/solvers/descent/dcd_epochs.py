"""Compiled epochs of :mod:`odmtool.solvers.descent.dcd`."""

from __future__ import annotations

import numpy as np

from odmtool._jit import njit
from odmtool.solvers.descent.coordinate import coordinate_step, gap_share
from odmtool.solvers.descent.kernel_block import ENOUGH, SIZE, SWEEPS, add_rows, keep, sort_in, take


@njit
def linear_epoch(
    data, indices, indptr, y, weight, loss, curvature, eta, w, order, active, threshold
):
    """Update the duals of ``order[:active]`` once, keeping w = sum_i eta_i y_i x_i.

    Parameters
    ----------
    data, indices, indptr : ndarrays
        Rows of the m x d matrix X (CSR).
    y, weight, curvature, eta : ndarrays, shape (m,)
        ``curvature`` is |x_i|^2; ``eta`` is changed in place.
    w : ndarray, shape (d,)
        Changed in place.
    order : int array, shape (m,)
        The first ``active`` examples are visited; those that are shrunk are swapped
        behind the others.
    threshold : float
        Examples with more slack than this are shrunk.

    Returns
    -------
    active : int
        Examples that stay.
    largest : float
        Largest change of a margin, the next threshold.
    estimate : float
        The visited examples' shares of the gap, before their updates.
    """
    largest, estimate, position = 0.0, 0.0, 0
    while position < active:
        i = order[position]
        f = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            f += data[k] * w[indices[k]]
        stays, new, share = visit(loss, weight[i], y[i] * f, eta[i], curvature[i], threshold)
        if not stays:
            active -= 1
            order[position], order[active] = order[active], i
            continue
        change, eta[i] = new - eta[i], new
        position, estimate = position + 1, estimate + share
        if change != 0.0:
            largest = max(largest, curvature[i] * abs(change))
            step = y[i] * change
            for k in range(indptr[i], indptr[i + 1]):
                w[indices[k]] += step * data[k]
    return active, largest, estimate


@njit
def visit(loss, u, t, eta, h, threshold):
    """Whether an example stays, its new dual variable, and its share of the gap before."""
    new, slack = coordinate_step(loss, u, t, eta, h)
    if new == eta and slack > threshold:
        return False, eta, 0.0
    return True, new, gap_share(loss, u, t, eta)


@njit
def kernel_epoch(
    rows, slot, first, y, weight, loss, curvature, eta, f, order, active, threshold, least
):
    """Update the duals of ``order[:active]``, block after block, keeping f = K (eta y).

    Parameters
    ----------
    rows : ndarray, shape (capacity, at least first + m)
        Row i of the kernel matrix begins at ``rows[slot[i], first]``; in single or
        double precision.
    f : ndarray, shape (1, m)
        Decision values, changed in place.
    order : int array, shape (m,)
        The first ``active`` examples are looked at; those that stay are in front afterwards.
    least : float
        Examples with a smaller share of the gap are not visited, and stay.

    The other parameters and the results are those of
    :func:`linear_epoch`; ``curvature`` is k(x_i, x_i).
    """
    largest, estimate, kept = 0.0, 0.0, 0
    values, slots = np.empty((SIZE, SIZE), rows.dtype), np.empty(SIZE, np.int64)
    own, change, stays = np.empty((1, SIZE)), np.empty((1, SIZE)), np.empty(SIZE, np.bool_)
    block, position = np.empty(SIZE, order.dtype), 0
    while position < active:
        b = 0
        while position < active and b < SIZE:
            i, share = order[position], np.inf
            if least > 0.0:
                share = gap_share(loss, weight[i], y[i] * f[0, i], eta[i])
            b, kept, estimate = sort_in(i, share, least, block, b, order, kept, estimate)
            position += 1
        part = block[:b]
        take(rows, first, slot, f, part, slots[: len(part)], own, values)
        moved, share = block_sweeps(
            values, own[0], change[0], part, stays, y, weight, loss, curvature, eta, threshold
        )
        largest, estimate = max(largest, moved), estimate + share
        add_rows(rows, first, slots[: len(part)], change, f)
        kept = keep(part, stays, order, kept)
    return kept, largest, estimate


@njit
def block_sweeps(values, f, change, part, stays, y, weight, loss, curvature, eta, threshold):
    """Visit the examples of a block again and again.

    Returns largest and estimate: as of :func:`linear_epoch`, the latter by the first visits.

    Parameters
    ----------
    values : ndarray, shape (at least b, at least b)
        Kernel values of the block within itself.
    f, change, stays : ndarrays, shape (at least b,)
        Its decision values, changed in place; the others receive the changes of eta y, and which
        examples stay.
    part : int array, shape (b,)
        The examples.
    """
    largest, estimate, b = 0.0, 0.0, len(part)
    change[:], stays[:] = 0.0, True
    for sweep in range(SWEEPS):
        now = 0.0
        for p in range(b):
            if not stays[p]:
                continue
            i = part[p]
            stays[p], new, share = visit(
                loss, weight[i], y[i] * f[p], eta[i], curvature[i], threshold
            )
            move, eta[i] = new - eta[i], new
            now += share
            if move != 0.0:
                largest = max(largest, curvature[i] * abs(move))
                step, own, row = y[i] * move, f[:b], values[p, :b]
                change[p] += step
                for q in range(b):
                    own[q] += step * row[q]
        if sweep == 0:
            estimate = now
        elif now <= ENOUGH * estimate:
            break
    return largest, estimate
