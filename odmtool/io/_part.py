"""What a block of lines holds, whichever reader has read it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool.io._line import LABEL_RANGE, LARGEST_INDEX, Grammar


class ParsedLines(NamedTuple):
    """What a block of lines holds."""

    labels: np.ndarray  # float64, shape (rows,)
    counts: np.ndarray  # int32, shape (rows,): entries of each row
    columns: np.ndarray  # int32, shape (entries,): from 0, ascending within a row
    values: np.ndarray  # float64, shape (entries,): none of them zero
    skipped: int  # blank and comment lines
    width: int  # largest column + 1, explicit zeros included; 0 if there is none


class WrongLine(Exception):
    """A line of a block is wrong; ``before`` lines of the block stand before it."""

    def __init__(self, before: int, line: bytes):
        super().__init__(before, line)
        self.before, self.line = before, line


def assemble(block: bytes, labels, counts, indices, values, grammar: Grammar) -> ParsedLines | None:
    """The ParsedLines of a block; None if a number in it is not allowed.

    labels, counts, indices, values : what the rows hold, zeros included, the
    indices as written; they are in range and ascend within each row.
    """
    if not (np.isfinite(labels).all() and np.isfinite(values).all()):
        return None
    if not (grammar.real_labels or _whole(labels, *LABEL_RANGE)):
        return None
    if grammar.precomputed:
        starts = np.cumsum(counts) - counts
        if not counts.all() or indices[starts].any():
            return None
        if not (grammar.any_serial or _whole(values[starts], 1, LARGEST_INDEX)):
            return None
    columns = indices - np.int32(grammar.first_index)
    width = int(columns.max()) + 1 if len(columns) else 0
    arrays = _without_zeros(counts, columns, values)
    return ParsedLines(labels, *arrays, block.count(b"\n") - len(labels), width)


def joined(parts: list[ParsedLines]) -> ParsedLines:
    """The lines of all of them."""
    if len(parts) == 1:
        return parts[0]
    *columns, skipped, widths = zip(*parts, strict=True)
    arrays = map(np.concatenate, columns)
    return ParsedLines(*arrays, sum(skipped), max(widths))


def _whole(numbers: np.ndarray, lowest: int, highest: int) -> bool:
    """Whether all of the numbers are integers in this range."""
    in_range = (numbers >= lowest) & (numbers <= highest)
    return bool(np.all(in_range & (numbers == np.floor(numbers))))


def _without_zeros(counts, columns, values):
    """Copies of the three without the entries whose value is zero."""
    keep = values != 0.0
    if keep.all():
        return counts.copy(), columns, values
    kept_before = np.concatenate(([0], np.cumsum(keep)))
    counts = np.diff(kept_before[np.cumsum(counts)], prepend=0).astype(np.int32)
    kept = np.flatnonzero(keep)
    return counts, columns[kept], values[kept]
