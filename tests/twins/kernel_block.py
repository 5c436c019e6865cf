"""Twins of what coordinate descent on kernel values does with the rows of a block."""

from __future__ import annotations

import numpy as np

from odmtool.solvers import kernel_block
from twins.making import Twin, table


def within(rows, slots, part, values):
    values[:] = rows[np.ix_(slots, part)]


def added(rows, slots, change, scores):
    scores += change @ rows[slots].astype(float)


def blocks(generator):
    """Rows, in both precisions, and blocks of few and of many of them."""
    m = 11
    for dtype in (float, np.float32):
        rows = generator.standard_normal((m + 2, m)).astype(dtype)
        for b in (0, 1, 3, 4, 9):
            yield rows, generator.permutation(m + 2)[:b], generator.permutation(m)[:b]


def within_cases(generator):
    for rows, slots, part in blocks(generator):
        yield rows, slots, part, np.full((len(part), len(part)), np.nan, rows.dtype)


def added_cases(generator):
    for rows, slots, part in blocks(generator):
        change = generator.standard_normal((3, len(part)))
        change[generator.random(change.shape) < 0.4] = 0.0
        yield rows, slots, change, generator.standard_normal((3, rows.shape[1]))


TWINS = table(
    Twin(kernel_block.values_within, within, within_cases),
    Twin(kernel_block.add_rows, added, added_cases),
)
