"""Cross validation of kernel machines whose folds and settings share landmarks.

All settings with one kernel on all folds are problems on the same examples: a fold leaves some
out. So the kernel engine solves them as columns of matrix products
(:mod:`odmtool.solvers.engine.shared`), those with one lambda at a time, each from the solution
for the lambda before. Every fit is certified to the machine's tolerance; what the landmarks do
not bring there is trained alone, by Newton's method if there is room for the kernel matrix.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from odmtool.core.gram import BYTES
from odmtool.core.loss_table import SMOOTH
from odmtool.core.losses import MarginLoss
from odmtool.machines import Machine
from odmtool.machines.binary import BinaryMachine
from odmtool.machines.reduction import decoder, parts
from odmtool.rows.executor import local_executor
from odmtool.search.validation import Data, FoldResult
from odmtool.solvers.engine import shared as engine
from odmtool.solvers.engine.columns import Columns
from odmtool.solvers.table import FOLD_MATRICES

# Columns at a time: numbers for every example and column, of which Newton's method makes some.
_MOST_COLUMNS, _NUMBERS = 128, 60
# If fewer than this share reach the tolerance, fits with a larger lambda are trained alone.
_WORTH = 0.9
# Settings from which, and examples up to which, Newton's method replaces many landmarks.
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


def takes_newton(machine: Machine, m: int, count: int) -> bool:
    """Whether what landmarks do not bring is for Newton's method with the whole matrix.

    Of ``count`` settings one starts the next.
    """
    is_fitting = FOLD_MATRICES * BYTES * m * m <= machine.memory_limit()
    return machine.solver == "auto" and count >= _MANY and m <= _LARGEST_MATRIX and is_fitting


def needed_bytes(machine: Machine, m: int, count: int) -> float:
    """What ``count`` settings take at most, for m examples."""
    memory, whole = machine.memory_limit(), FOLD_MATRICES * BYTES * m * m
    columns = min(memory / 2, _NUMBERS * m * _MOST_COLUMNS)
    landmarks = engine.needed_bytes(m, memory) + columns
    return max(landmarks, whole) if takes_newton(machine, m, count) else landmarks


class Together:
    """All settings with one kernel on all folds.

    Parameters
    ----------
    machine : BinaryMachine
        Gives what a setting does not name.
    settings : list of dict
        They agree in the kernel and its parameters.
    data : Data
    fold : int array, shape (m,)
    jobs : int
        Threads; they change no result.
    """

    def __init__(self, machine, settings: list[dict], data: Data, fold: np.ndarray, jobs: int):
        self._machines = [machine.copy(**setting) for setting in settings]
        first, self._data, self._fold = self._machines[0], data, fold
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

        The result is None where the fit has to be trained alone.
        """
        first, gram = self._machines[0], self._prepared.gram
        shared = engine.Shared(
            gram.kernel, gram.X, first.tolerance, first.seed, self._memory, self._executor,
            has_others=takes_newton(first, len(self._fold), len(self._machines)),
        )  # fmt: skip
        weights = np.array([machine.loss_weight for machine in self._machines])
        width, before, share = len(self._parts), {}, 1.0
        for weight in np.unique(weights):
            chosen = np.flatnonzero(weights == weight)
            fits = [(i, k) for i in chosen for k in range(len(self._totals))]
            if share < _WORTH:
                yield from ((int(i), k, None, 0.0) for i, k in fits)
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
                    yield int(i), k, self._result(i, k, found, own), seconds
            before = after

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

    def _result(self, i: int, k: int, found, own: slice) -> FoldResult | None:
        if not found.converged[own].all():
            return None
        machine, classes = self._machines[i], self._prepared.classes
        values = found.F[self._fold == k, own]
        values = values if self._decoder is None else values @ self._decoder
        predicted = np.asarray(classes)[machine.winners(values, len(classes))]
        return FoldResult(predicted, values, float(found.gap[own].max()), True)


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
