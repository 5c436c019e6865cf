"""The parts of a problem: where they are kept, and how they are solved.

A part of the share q (see :mod:`odmtool.solvers.large.sodm`) is a problem with weights u / q,
whose duals are 1 / q times those of the whole problem. All duals here are those of the
whole problem, so that merging parts is putting them side by side.

:class:`LocalParts`      in this process's memory, the kernel values of a level kept for the next
:class:`ResidentParts`   where an executor keeps them; only duals and decision values travel

Both compute the same kernel values in the same tiles, so that they find the same duals.
"""

from __future__ import annotations

import operator
from copy import copy

import numpy as np

from odmtool.core import deadline
from odmtool.core.kernels import Kernel
from odmtool.rows.compressed import compressed
from odmtool.rows.executor import Serial
from odmtool.rows.spread import largest_square, pieces_of, row_bytes, stack
from odmtool.rows.tile_loops import add_products
from odmtool.rows.tiles import Tiles, tile_rows, tile_values
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.descent import dcd

SINGLE_TOLERANCE = 1e-5
"""Single precision is used down to this tolerance."""
# Tasks for each worker in a pass over all pairs of parts.
# speed only: how work is split among workers
_BATCHES = 4
# Largest error that single precision may cause in the exponent of rbf.
_SINGLE_ERROR = 1e-5
SINGLE_ROUNDING = float(np.finfo(np.float32).eps)
# Numbers from here to the reciprocal are far from the ends of what single precision holds.
_LEAST_SINGLE = 1e-30


def parts_of(problem: Problem, order, ranges, *, tolerance: float, executor, cascade: bool):
    """The parts of a problem.

    Parameters
    ----------
    order : int array, shape (m,)
        The examples, part by part.
    ranges : list of (start, end)
        The smallest parts.
    tolerance : float
        The gap that is wanted at last, for the precision of the kernel values.
    executor
        See :mod:`odmtool.rows.executor`.
    cascade : bool
        Leave out examples that have no dual variable after the first level.
    """
    gram = problem.gram
    X = problem.X if gram is None else gram.X
    if gram is not None and gram.kernel.row.name == "rbf":
        X = compressed(X)
        if single_is_enough(gram.kernel, max(pieces_of(X).each(largest_square)), tolerance):
            X = X.astype(np.float32)
    is_here = executor.shares_memory and pieces_of(X).is_here
    kind = LocalParts if is_here else ResidentParts
    return kind(problem, order, X, ranges, executor, cascade)


class _Parts:
    """What all parts share: weights, duals, and who is left out."""

    def __init__(self, problem: Problem, order, X, ranges, executor, cascade: bool):
        self.y, self.weight, self.loss = problem.y[order], problem.weight[order], problem.loss
        self.X, self.order, self.ranges = X, order, ranges
        self.executor, self.cascade = executor, cascade
        self.kernel = None if problem.gram is None else problem.gram.kernel
        self.memory = np.inf if problem.gram is None else problem.gram.memory
        self._first, self._values = True, None

    def solve(self, ranges, eta: np.ndarray, stop: Stop, seed: int) -> int:
        """Solve the parts, changing ``eta`` in place; returns the most epochs that one took."""
        members = [np.arange(a, b) for a, b in ranges]
        if self.cascade and not self._first:
            members = [part[eta[part] != 0] for part in members]
        self._first = False
        total, tasks = self.weight.sum(), []
        for k, ((a, b), part) in enumerate(zip(ranges, members, strict=True)):
            share = self.weight[a:b].sum() / total
            # Of the whole problem the decision values at the start are known.
            is_whole = self.kernel is not None and len(ranges) == 1 and self._values is not None
            values = self._values[part] if is_whole else None
            start = eta[part] / share
            seeds = (seed, len(ranges), k)
            tasks.append((self.weight[part] / share, start, values, stop, seeds))
        epochs = 0
        results = self._solve(ranges, members, tasks)
        for part, task, (duals, used) in zip(members, tasks, results, strict=True):
            eta[part] = duals * (self.weight[part] / task[0])
            epochs = max(epochs, used)
        return epochs

    def values(self, eta: np.ndarray, *, is_last: bool = False, may_end: bool = False):
        """w (None for a kernel) and f(x_i), shape (m,), from the duals of the whole problem.

        ``is_last``: no level comes after this one, and nothing need be kept for it. If it
        ``may_end``, it raises Exceeded when kernel values take too long after the deadline.
        """
        w, self._values = self._products(self.y * eta, is_last, may_end)
        return w, self._values


class LocalParts(_Parts):
    """Parts in this process's memory; parameters of :func:`parts_of`, and the rows."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.X, self._tiles = self.X[self.order], None
        if self.kernel is not None:
            # A cascade's parts shrink, and have matrices of their own.
            kept = 0.0 if self.cascade else self.memory
            self._tiles = Tiles(
                self.kernel, self.X, self.ranges, kept=kept, memory=self.memory,
                executor=self.executor,
            )  # fmt: skip

    def _solve(self, ranges, members, tasks) -> list:
        nothing = [None] * len(members)
        if self._tiles is None:
            rows, grams = [self.X[part] for part in members], nothing
        else:
            rows, grams = nothing, self._tiles.parts(ranges, members)
        problems = [
            Problem(X, gram, self.y[part], task[0], self.loss)
            for X, gram, part, task in zip(rows, grams, members, tasks, strict=True)
        ]
        return self.executor.map(solve_part, problems, *list(zip(*tasks, strict=True))[1:])

    def _products(self, signed: np.ndarray, is_last: bool, may_end: bool):
        if self._tiles is None:
            w = np.asarray(self.X.T @ signed)
            return w, np.asarray(self.X @ w)
        return None, self._tiles.times(signed, is_last=is_last, may_end=may_end)


class ResidentParts(_Parts):
    """Parts where the executor keeps them; parameters of :func:`parts_of`, and the rows."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        members = [self.order[a:b] for a, b in self.ranges]
        self._kept = pieces_of(self.X).parts(members, self.executor)
        self._step = tile_rows(len(self.y))
        self._level, self._groups = self.ranges, self._kept

    def _solve(self, ranges, members, tasks) -> list:
        self._merge(ranges)
        columns = []
        for (a, b), part, task in zip(ranges, members, tasks, strict=True):
            inside = [(s - a, e - a) for s, e in self.ranges if a <= s < b]
            # As LocalParts does: the smallest parts have no tiles.
            is_smallest = len(ranges) > 1 and ranges == self.ranges
            tiles = None if self.cascade or is_smallest else (inside, self._step)
            same = self.kernel, self.executor.task_memory
            columns.append((*same, part - a, tiles, self.y[part], self.loss, *task))
        return self.executor.map(solve_kept, self._groups, *zip(*columns, strict=True))

    def _merge(self, ranges) -> None:
        """Bring the rows of every range together."""
        if ranges != self._level:
            groups = []
            for number, (a, b) in enumerate(ranges):
                inside = [k for k, (s, _) in enumerate(self._level) if a <= s < b]
                pieces = [self._groups[k] for k in inside]
                # speed only: how work is split among workers
                place = number / len(ranges)
                is_one = len(pieces) == 1
                groups.append(
                    pieces[0] if is_one else self.executor.keep(stack, *pieces, place=place)
                )
            self._level, self._groups = ranges, groups

    def _products(self, signed: np.ndarray, is_last: bool, may_end: bool):
        signed = [signed[a:b] for a, b in self.ranges]
        map_, kept = self.executor.map, self._kept
        if self.kernel is None:
            w = np.sum(map_(transposed_product, kept, signed), axis=0)
            return w, np.concatenate(map_(operator.matmul, kept, [w] * len(kept)))
        # What has no duals adds nothing: when no part was solved in time, there is nothing to do.
        has_any, numbers = [bool(v.any()) for v in signed], range(len(kept))
        pairs = [(i, j) for i in numbers for j in numbers[i:] if has_any[i] or has_any[j]]
        f = np.zeros(len(self.y))
        if not pairs:
            return None, f
        # A few tasks for each worker: many small ones cost more than the work in them.
        # speed only: how work is split among workers
        count = min(len(pairs), _BATCHES * self.executor.jobs)
        batches = [batch.tolist() for batch in np.array_split(pairs, count)]
        needed = [sorted({k for pair in batch for k in pair}) for batch in batches]
        vectors = [[signed[k] for k in parts] for parts in needed]
        rows = [
            # speed only: how work is split among workers
            self.executor.keep(together, *[kept[k] for k in parts], place=i / count)
            for i, parts in enumerate(needed)
        ]
        same = [self.kernel] * count, [self._step] * count, [may_end] * count
        for batch, results in zip(
            batches, map_(batch_products, *same, batches, needed, vectors, rows), strict=True
        ):
            for (i, j), (above, left) in zip(batch, results, strict=True):
                f[slice(*self.ranges[i])] += above
                f[slice(*self.ranges[j])] += left
        return None, f


def solve_part(problem: Problem, start, values, stop: Stop, seed):
    """The duals of a part, and the epochs they took."""
    if stop.is_late:
        return start, 0
    if not start.any():
        start = values = None
    # Its kernel matrix goes when this part is done, while others wait for their turn.
    problem = problem._replace(gram=copy(problem.gram))
    solution = dcd.solve(problem, stop, seed=seed, start=start, values=values)
    return solution.eta, solution.iterations


def solve_kept(X, kernel, memory, chosen, tiles, y, loss, weight, start, values, stop: Stop, seed):
    """The duals of the chosen rows of a kept part, and the epochs they took.

    ``memory`` are the bytes for kernel values and for the rows of the part.
    """
    if stop.is_late:
        return start, 0
    if kernel is None:
        problem = Problem(X[chosen], None, y, weight, loss)
        return solve_part(problem, start, None, stop, seed)
    memory -= row_bytes(X)
    ranges, step = tiles or ([(0, X.shape[0])], None)
    filled = Tiles(
        kernel, X, ranges, kept=memory if tiles else 0.0, memory=memory, executor=Serial(),
        step=step,
    )  # fmt: skip
    gram = filled.parts([(0, X.shape[0])], [chosen])[0]
    return solve_part(Problem(None, gram, y, weight, loss), start, values, stop, seed)


def together(*values) -> list:
    """Several kept values as one."""
    return list(values)


def batch_products(kernel: Kernel, step: int, may_end: bool, batch, numbers, vectors, rows) -> list:
    """:func:`pair_products` of the pairs of a batch, whose parts are ``numbers``."""
    place = {k: position for position, k in enumerate(numbers)}
    results = []
    for i, j in batch:
        a, b = place[i], place[j]
        results.append(
            pair_products(kernel, rows[a], rows[b], vectors[a], vectors[b], i == j, step, may_end)
        )
    return results


def pair_products(kernel: Kernel, A, B, a, b, is_same: bool, step: int, may_end: bool = False):
    """K(A, B) b and, if A and B are not the same, K(A, B)'a; zeros if they are.

    ``step`` is the size of the tiles, the same as everywhere: BLAS rounds as shapes tell it.
    ``may_end`` as for :meth:`_Parts.values`.
    """
    above, left, nothing = np.zeros(A.shape[0]), np.zeros(B.shape[0]), np.zeros(step)
    for row in range(0, A.shape[0], step):
        rows = slice(row, row + step)
        for column in range(row if is_same else 0, B.shape[0], step):
            if may_end:
                deadline.check()
            columns = slice(column, column + step)
            on_diagonal = is_same and row == column
            tile = tile_values(kernel, A[rows], B[columns], on_diagonal)
            below = nothing if on_diagonal else (above if is_same else left)[columns]
            add_products(tile, b[columns], a[rows], above[rows], below)
    return above, left


def transposed_product(X, v):
    """X'v."""
    return np.asarray(X.T @ v)


def single_is_enough(kernel: Kernel, largest_square: float, tolerance: float) -> bool:
    """Whether the rounding of single precision stays far below the gap that is wanted.

    ``largest_square`` is the largest |x|^2 of the rows.
    """
    if kernel.row.name != "rbf" or tolerance < SINGLE_TOLERANCE:
        return False
    if not _LEAST_SINGLE < kernel.gamma < 1 / _LEAST_SINGLE or largest_square > 1 / _LEAST_SINGLE:
        return False
    return bool(kernel.gamma * largest_square * SINGLE_ROUNDING <= _SINGLE_ERROR)
