"""Twins of what coordinate descent on kernel values does with a block; naive blocks for others."""

from __future__ import annotations

import numpy as np

from odmtool.solvers.descent import kernel_block
from odmtool.solvers.descent.kernel_block import ENOUGH, SIZE, SWEEPS
from twins.making import Twin, table


def swept(look, values, f, change, part, stays):
    """Visits of a block until its gap is small, and how far each sweep moved.

    ``look(i, f_i)`` visits an example: the changes of its coefficients, how far it moved, its
    share of the gap, and whether it stays.
    """
    change[:], stays[:] = 0.0, True
    shares, moves = [], []
    while len(shares) < SWEEPS and (len(shares) < 2 or shares[-1] > ENOUGH * shares[0]):
        shares.append(0.0)
        moves.append([0.0])
        for p in np.flatnonzero(stays[: len(part)]):
            delta, moved, share, stays[p] = look(part[p], f[:, p].copy())
            change[:, p] += delta
            f[:, : len(part)] += np.outer(delta, values[p, : len(part)])
            shares[-1] += share
            moves[-1].append(moved)
    return moves, shares[0]


def in_blocks(look, share, K, scores, order, active, least):
    """An epoch of blocks: how many stay, which come to the front; all moves; the gap.

    ``share(i, f_i)`` is an example's share of the gap; with less than ``least`` it waits.
    """
    queue, staying, moves, gap = list(order[:active]), [], [], 0.0
    while queue:
        part = []
        while queue and len(part) < SIZE:
            i = queue.pop(0)
            own = share(i, scores[:, i].copy())
            if own < least:
                staying.append(i)
                gap += own
            else:
                part.append(i)
        if not part:
            break
        part = np.array(part)
        change, stays = np.zeros((len(scores), len(part))), np.zeros(len(part), bool)
        moved, found = swept(
            look, K[np.ix_(part, part)], scores[:, part], change, part, stays
        )
        scores += change @ K[part]
        staying += part[stays].tolist()
        moves.append(moved)
        gap += found
    order[: len(staying)] = staying
    return len(staying), moves, gap


def sorted_in(i, share, least, part, b, order, kept, waiting):
    is_waiting = share < least
    (order if is_waiting else part)[kept if is_waiting else b] = i
    return b + (not is_waiting), kept + is_waiting, waiting + (share if is_waiting else 0)


def sorting_cases(generator):
    for share, least in ((0.1, 0.2), (0.2, 0.2), (0.3, 0.0), (np.inf, 0.0)):
        part, order = generator.permutation(8), generator.permutation(12)
        yield 5, share, least, part, 3, order, 7, 1.5


def taken(rows, first, slot, scores, part, slots, own, values):
    b = len(part)
    slots[:] = slot[part]
    own[:, :b] = scores[:, part]
    values[:b, :b] = rows[np.ix_(slots, first + part)]


def added(rows, first, slots, change, scores):
    k, m = scores.shape
    scores += change[:, : len(slots)] @ rows[slots, first : first + m].astype(float)


def kept(part, stays, order, count):
    staying = part[stays[: len(part)]]
    order[count : count + len(staying)] = staying
    return count + len(staying)


def blocks(generator):
    """Rows, in both precisions, that begin anywhere, and blocks of few and of many of them."""
    m = 11
    for dtype in (float, np.float32):
        for first in (0, 2):
            rows = generator.standard_normal((m + 2, first + m)).astype(dtype)
            for b in (0, 1, 3, 4, 9):
                slots, part = generator.permutation(m + 2)[:b], generator.permutation(m)[:b]
                yield rows, first, slots, part


def taking_cases(generator):
    for rows, first, slots, part in blocks(generator):
        scores = generator.standard_normal((3, rows.shape[1] - first))
        slot, values = generator.permutation(len(rows)), np.full((9, 9), np.nan, rows.dtype)
        yield rows, first, slot, scores, part, np.zeros_like(slots), np.zeros((3, 10)), values


def added_cases(generator):
    for rows, first, slots, _part in blocks(generator):
        change = generator.standard_normal((3, len(slots) + 1))
        change[generator.random(change.shape) < 0.4] = 0.0
        yield rows, first, slots, change, generator.standard_normal((3, rows.shape[1] - first))


def kept_cases(generator):
    for _rows, _first, _slots, part in blocks(generator):
        yield part, generator.random(len(part) + 2) < 0.5, np.full(20, -1), 3


TWINS = table(
    Twin(kernel_block.sort_in, sorted_in, sorting_cases),
    Twin(kernel_block.take, taken, taking_cases),
    Twin(kernel_block.add_rows, added, added_cases),
    Twin(kernel_block.keep, kept, kept_cases),
)
