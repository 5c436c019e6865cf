"""Cross validation of kernel machines whose folds and settings share landmarks.

All settings with one kernel on all folds are problems on the same examples: a fold leaves some
out. So the kernel engine solves them as columns of matrix products
(:mod:`odmtool.solvers.engine.shared`), those with one lambda at a time, each from the solution
for the lambda before. Every fit is certified to the machine's tolerance. Of what the landmarks do
not bring there, and of a single setting from the start, all folds of one setting are solved side by
side (:func:`odmtool.solvers.engine.solve.solve_columns`). What is left, and of many settings what
landmarks do not bring, is trained alone by Newton's method, if there is room for the kernel matrix.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import groupby

import numpy as np

from odmtool.core import deadline
from odmtool.core.gram import BYTES
from odmtool.core.loss_table import SMOOTH
from odmtool.core.losses import MarginLoss
from odmtool.machines import Machine
from odmtool.machines.binary import BinaryMachine
from odmtool.machines.reduction import decoder, parts, stop_of_landmarks
from odmtool.rows.executor import local_executor
from odmtool.search.validation import Data, FoldResult
from odmtool.solvers.engine import shared as engine
from odmtool.solvers.engine import solve as side_by_side
from odmtool.solvers.engine.certificate import rows_times
from odmtool.solvers.engine.columns import Columns
from odmtool.solvers.engine.points import Points
from odmtool.solvers.engine.room import needed_bytes as bytes_side_by_side
from odmtool.solvers.table import FOLD_MATRICES

# Columns at a time: numbers for every example and column, of which Newton's method makes some.
_MOST_COLUMNS, _NUMBERS = 128, 60
# If fewer than this share reach the tolerance, fits with a larger lambda are for others.
# speed only: the others certify them
_WORTH = 0.9
# Landmarks of few settings, which the solver of one setting finds again soon.
# speed only: what they do not bring to the tolerance that solver certifies
_LANDMARKS_OF_FEW = 1000
# Settings from which Newton's method replaces many landmarks, and examples up to which it is tried.
_MANY, _LARGEST_MATRIX = 8, 12_000


def shares_landmarks(machine: Machine, data: Data, fold: np.ndarray) -> bool:
    """Whether folds and settings are solved together.

    Each fold must have all classes, and all examples must weigh something.
    """
    is_fitting = isinstance(machine, BinaryMachine) and machine.kind == SMOOTH
    if not is_fitting or machine.max_iter is not None or machine.settings.scheduler is not None:
        return False
    least = engine.needed_bytes(len(fold), 0.0)
    if not machine.takes_landmarks(len(fold)) or machine.memory_limit() < least:
        return False
    weighs = data.weight is None or bool(np.all(data.weight > 0))
    if not weighs or min((machine.class_weight or {}).values(), default=1.0) <= 0:
        return False
    order, n = data.class_order(), int(fold.max()) + 1
    # Of a pair of classes few examples take part, but columns hold all of them.
    if machine.decides_by_votes(len(order)) or len(order) > _MOST_COLUMNS:
        return False
    present = np.zeros((len(order), n), dtype=bool)
    for k in range(n):
        present[:, k] = np.isin(order, data.labels[fold != k])
    return len(order) > 1 and bool(present.all())


def newton_processes(machine: Machine, m: int, count: int, problems: int, jobs: int) -> int:
    """How many processes take the whole matrix for what landmarks do not bring; 0 for none.

    Of ``count`` settings one starts the next. Few settings may take no more memory than their
    landmarks, so many problems side by side, and share one process.
    """
    room, whole = machine.memory_limit(), FOLD_MATRICES * BYTES * m * m
    if count < _MANY:
        room, jobs = min(room, bytes_side_by_side(m, room, problems)), 1
    is_fitting = machine.solver == "auto" and m <= _LARGEST_MATRIX
    return int(min(jobs, room // whole)) if is_fitting else 0


def needed_bytes(machine: Machine, m: int, count: int, problems: int, jobs: int) -> float:
    """What ``count`` settings take at most, for m examples, each of so many problems."""
    memory, processes = machine.memory_limit(), newton_processes(machine, m, count, problems, jobs)
    columns = min(memory / 2, _NUMBERS * m * _MOST_COLUMNS)
    landmarks = engine.needed_bytes(m, memory) + columns if count > 1 else 0.0
    if processes and count >= _MANY:
        return max(landmarks, processes * FOLD_MATRICES * BYTES * m * m)
    return max(landmarks, bytes_side_by_side(m, memory, problems))


class Together:
    """All settings with one kernel on all folds.

    Parameters
    ----------
    machine : BinaryMachine
        Gives what a setting does not name.
    settings : list of dict
        They agree in the kernel and its parameters.
    fold : int array, shape (m,)
    jobs : int
        Threads; they change no result.
    """

    def __init__(self, machine, settings: list[dict], data: Data, fold: np.ndarray, jobs: int):
        self._machines = [machine.copy(**setting) for setting in settings]
        first, self._fold = self._machines[0], fold
        self._prepared = first.prepare(
            data.X, data.labels, data.weight, gram=first.gram(data.X), classes=data.class_order()
        )
        k = len(self._prepared.classes)
        self._parts = parts(self._prepared.target, k, first)
        self._decoder = decoder(first, k)
        weight = np.ones(len(fold)) if data.weight is None else data.weight
        self._totals = [float(weight[fold != k].sum()) for k in range(int(fold.max()) + 1)]
        self._signs = self._make_signs()
        self._memory, self._executor = first.memory_limit(), local_executor(jobs)

    def _make_signs(self) -> np.ndarray:
        """The signs of all parts, of fold after fold."""
        rows = []
        for k in range(len(self._totals)):
            for part in self._parts:
                y = np.zeros(len(self._fold), np.int8)
                y[slice(None) if part.examples is None else part.examples] = part.y
                y[self._fold == k] = 0
                rows.append(y)
        return np.array(rows)

    def results(self) -> Iterator[tuple[int, int, FoldResult | None, float]]:
        """The place of a setting, a fold, the result, and its share of the seconds.

        The result is None where the fit is for Newton's method with the whole matrix.
        """
        count = len(self._machines)
        left = self._fits(range(count)) if count == 1 else (yield from self._by_landmarks())
        if count >= _MANY and self.newton_processes(1):
            yield from ((i, k, None, 0.0) for i, k in left)
            return
        for i, some in groupby(left, lambda fit: fit[0]):
            yield from self._side_by_side(i, [k for _, k in some])

    def newton_processes(self, jobs: int) -> int:
        """See :func:`newton_processes`."""
        m, count = len(self._fold), len(self._machines)
        return newton_processes(self._machines[0], m, count, len(self._signs), jobs)

    def _fits(self, settings) -> list[tuple[int, int]]:
        """All folds of some settings."""
        return [(int(i), k) for i in settings for k in range(len(self._totals))]

    def _by_landmarks(self):
        """Yields as :meth:`results`; returns the fits that landmarks do not bring there."""
        first, gram, count = self._machines[0], self._prepared.gram, len(self._machines)
        most = {"most": _LANDMARKS_OF_FEW} if count < _MANY else {}
        shared = engine.Shared(
            gram.kernel, gram.X, first.tolerance, first.seed, self._memory, self._executor, **most
        )
        weights = np.array([machine.loss_weight for machine in self._machines])
        width, before, share, left = len(self._parts), {}, 1.0, []
        for weight in np.unique(weights):
            fits = self._fits(np.flatnonzero(weights == weight))
            # speed only: others certify what is left
            if share < _WORTH:
                left += fits
                continue
            step, after, share = max(1, self._room() // width), {}, 0.0
            for start in range(0, len(fits), step):
                some, began = fits[start : start + step], time.perf_counter()
                starts = [before.get((self._others(i), k)) for i, k in some]
                found = shared.solve(self._columns(some), _joined(starts, width))
                share += found.converged.sum() / (width * len(fits))
                seconds = (time.perf_counter() - began) / len(some)
                for number, (i, k) in enumerate(some):
                    own = slice(number * width, (number + 1) * width)
                    after[self._others(i), k] = found.W[:, own]
                    if found.converged[own].all():
                        values = found.F[self._fold == k, own]
                        yield i, k, self._result(i, values, found.gap[own]), seconds
                    else:
                        left.append((i, k))
            before = after
        return left

    def _side_by_side(self, i: int, folds: list[int]):
        """Some folds of one setting; yields as :meth:`results`.

        Where there is no room for Newton's method, or no time, what has been found will do.
        """
        began, gram, width = time.perf_counter(), self._prepared.gram, len(self._parts)
        columns, machine = self._columns([(i, k) for k in folds]), self._machines[i]
        has_newton = self.newton_processes(1) > 0
        stop = stop_of_landmarks(machine)._replace(follows=has_newton)
        found = side_by_side.solve_columns(
            columns, gram, stop, seed=machine.seed, executor=self._executor
        )
        seconds = (time.perf_counter() - began) / len(folds)
        points, labels = Points(gram.kernel, gram.X, self._executor), columns.labels()
        for number, k in enumerate(folds):
            own = slice(number * width, (number + 1) * width)
            converged = all(one.converged for one in found[own])
            if not converged and has_newton and not deadline.is_over():
                yield i, k, None, seconds
                continue
            A = np.array([one.coef for one in found[own]]) * labels[own]
            values = rows_times(points, np.flatnonzero(self._fold == k), A.T)
            gaps = np.array([one.gap for one in found[own]])
            yield i, k, self._result(i, values, gaps, converged), seconds

    def _room(self) -> int:
        """As many columns as fit."""
        most = self._memory / 2 / (_NUMBERS * len(self._fold))
        return int(np.clip(most, 1, _MOST_COLUMNS))

    def _others(self, i: int) -> tuple:
        """The parameters of a setting but lambda."""
        machine = self._machines[i]
        return tuple(getattr(machine, name) for name in machine.row.parameters if name != "lambda_")

    def _columns(self, fits) -> Columns:
        """The problems of some settings and folds, part after part."""
        width, losses = len(self._parts), []
        for i, k in fits:
            losses += [self._machines[i].loss(self._totals[k])] * width
        rows = np.concatenate([k * width + np.arange(width) for _, k in fits])
        loss = MarginLoss(*np.array(losses, dtype=float).T)
        return Columns(loss, self._signs, rows, self._prepared.u)

    def _result(self, i: int, values, gaps, converged: bool = True) -> FoldResult:
        """From the values of the parts' functions at the rows left out."""
        machine, classes = self._machines[i], self._prepared.classes
        values = values if self._decoder is None else values @ self._decoder
        predicted = np.asarray(classes)[machine.winners(values, len(classes))]
        return FoldResult(predicted, values, float(gaps.max()), converged)


def _joined(starts: list, width: int) -> np.ndarray | None:
    """Starts side by side, as many rows as the longest has; None if there are none."""
    longest = max((len(start) for start in starts if start is not None), default=0)
    if not longest:
        return None
    joined = np.zeros((longest, len(starts) * width))
    for number, start in enumerate(starts):
        if start is not None:
            joined[: len(start), number * width : (number + 1) * width] = start
    return joined
