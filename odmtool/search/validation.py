"""Cross validation: stratified, seeded folds, and how well settings do on them.

A fold is evaluated for a whole chain of settings that share their kernel, each fit
starting from the solution for another mu, or else from the one before. So that the start
cannot change a prediction, fits are solved to a relative gap of ``EXACT`` wherever Newton's
method serves, and ldm and l1svm of moderate size by their path, whose results do not depend
on where it was begun; all others start from zero. Either way a setting gets the same
predictions alone (``odm-train -v``) as in a search (``odm-cv``). Machines that take landmarks are
trained as ``odm-train`` does it, those of smooth losses all folds at once
(:mod:`odmtool.search.together`): then a search has other landmarks than a setting alone, and
what both find is the same within the tolerance only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from odmtool import messages
from odmtool.core.columns import with_constant_feature
from odmtool.core.csr import CSR
from odmtool.core.gram import Gram
from odmtool.core.loss_table import OF_LDM, ONE_JUMP, SMOOTH
from odmtool.core.scaling import Scaler, ranges_of
from odmtool.errors import DataError, DivergedError, UsageError
from odmtool.machines import Machine, Prepared, class_order
from odmtool.machines.data import canonical_rows
from odmtool.search.pair_values import KernelProducts, PairValues, of_rows
from odmtool.solvers.base import LARGEST_GRAM, LARGEST_HESSIAN, path_bytes
from odmtool.solvers.linear_cost import nonzeros
from odmtool.solvers.table import FOLD_MATRICES, IN_PARTS, SOLVERS

EXACT = 1e-10
"""Relative gap of the fits inside a cross validation."""

# Beyond these sizes a Newton step is too dear for thousands of fits.
_LARGEST_EXACT_GRAM = 5000
_LARGEST_EXACT_NONZEROS = 20_000_000
# The path's time grows with m^2, that of Newton's steps for linear problems with m.
_LARGEST_LINEAR_PATH = 700


class Data(NamedTuple):
    """What is cross validated."""

    X: object  # csr_matrix, shape (m, d)
    labels: np.ndarray  # integers, shape (m,)
    # Shape (m,): used in training; every example counts once in the accuracy.
    weight: np.ndarray | None = None
    # Their order; by default that of the labels. A part keeps the order of the whole, so that the
    # first class, on which the metrics depend, is the same in every part.
    classes: list[int] | None = None
    # To what the features are to be scaled, by the ranges of the examples that train.
    scale: tuple[float, float] | None = None

    def to_be_scaled(self, lower: float, upper: float, limit: float) -> Data:
        """The same, to be scaled; without the last columns if they are constant.

        Raises MemoryLimitError if the scaled examples would take more than ``limit`` bytes.
        """
        scaler = Scaler(ranges_of(self.X, lower, upper))
        scaler.check_memory(self.X, limit)
        index = scaler.ranges.index
        width = int(index[-1]) if len(index) else 0
        return self._replace(X=self.X[:, :width], scale=(lower, upper))

    def scaled_by(self, rows) -> Data:
        """The examples scaled by the ranges of some of them, where they are to be scaled."""
        if self.scale is None:
            return self
        scaler = Scaler(ranges_of(self.X[rows], *self.scale))
        scaled = scaler.scale_in_place(self.X, self.X.shape[1])
        return self._replace(X=scaled.matrix(), scale=None)

    def class_order(self) -> list[int]:
        return class_order(self.labels) if self.classes is None else self.classes

    def part(self, rows) -> Data:
        """Some of the examples."""
        weight = None if self.weight is None else self.weight[rows]
        return Data(self.X[rows], self.labels[rows], weight, self.class_order(), self.scale)


class FoldResult(NamedTuple):
    """One setting on one fold: what was predicted for the examples left out."""

    predicted: np.ndarray  # integers, shape (examples of the fold,)
    # Shape (examples of the fold, c): decision values, of two classes one, positive for the first;
    # of more one for each, of pairs of them votes and confidence
    # (:func:`odmtool.models.decide.votes_and_confidence`).
    values: np.ndarray
    gap: float
    converged: bool
    pairs: PairValues | None = None  # where pairs of more than two classes vote


NO_SOLUTION = FoldResult(np.empty(0), np.empty(0), math.inf, False)
"""The result of a setting that has none (a kernel that is not positive definite)."""


def folds(labels: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Deal the examples to n folds, every class evenly; the sizes differ by one at most.

    Depends on the labels, n and the seed only.

    Returns int array, shape (m,): fold of each example, 0 to n - 1. Raises UsageError.

    Parameters
    ----------
    labels : int array, shape (m,)
    n : int, 2 <= n <= m
    """
    if not 2 <= n <= len(labels):
        raise UsageError(messages.fold_count(n, len(labels)))
    generator = np.random.default_rng(seed)
    fold, dealt = np.empty(len(labels), dtype=np.int64), 0
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        # Going on where the class before ended keeps the folds equally large.
        fold[members] = (dealt + np.arange(len(members))) % n
        dealt += len(members)
    return fold


def shared_gram(machine: Machine, X) -> Gram | None:
    """Kernel values of all rows, computed if they and a fold's share of them fit.

    Solvers that choose landmarks among the rows are left the rows.
    """
    gram = machine.gram(X)
    if gram is None or machine.solver in IN_PARTS:
        return gram
    if gram.X is not None and machine.takes_landmarks(gram.size):
        return gram
    if FOLD_MATRICES * gram.bytes <= gram.memory:
        gram.matrix()
    return gram


def check_classes(
    labels: np.ndarray, n: int, metric: str, is_part: bool = False, may_lack: bool = False
) -> None:
    """Raise where the metric could not be computed, for all data or the training part of a split.

    Where only the predictions are counted leaving one out serves, and folds ``may_lack`` a class.

    Raises DataError: a fold or what is left without it would lack a class.
    """
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) == 1:
        raise DataError(messages.one_class_to_search(classes[0]))
    label, least = classes[counts.argmin()], counts.min()
    leaves_one_out = n == len(labels) and least > 1
    if least < n and not (metric == "accuracy" and (leaves_one_out or may_lack)):
        raise DataError(messages.class_smaller_than_folds(label, least, n, is_part))


def but_mu(setting: dict) -> tuple:
    """What a setting says of other parameters than mu."""
    return tuple(sorted((name, value) for name, value in setting.items() if name != "mu"))


def evaluate_chain(
    machine: Machine, settings: list[dict], data: Data, train, test, gram: Gram | None
) -> Iterator[FoldResult]:
    """Train on one part with every setting in turn, and predict the other part.

    Parameters
    ----------
    machine : Machine
        Gives what a setting does not name.
    settings : list of dict
        They agree in the kernel and its parameters; those that differ in mu only follow each other.
    train, test : int arrays
        Rows of the two parts.
    gram : Gram or None
        Kernel values of all rows (:meth:`Machine.gram`); None for a linear machine.
    """
    part, known = data.part(train), None if gram is None else gram.subset(train)
    first = machine.copy(**settings[0])
    order = data.class_order()
    present = [label for label in order if np.any(part.labels == label)]
    prepared = first.prepare(part.X, part.labels, part.weight, gram=known, classes=present)
    values_of = _predictor(first, prepared, data.X, train, test, gram)
    start = of_first = others = None
    m, k = len(prepared.u), len(prepared.classes)
    for setting in settings:
        candidate = machine.copy(**setting)
        candidate.is_trial = True
        is_first, others = others != but_mu(setting), but_mu(setting)
        has_landmarks = prepared.gram is not None and candidate.takes_landmarks(m)
        exact = not has_landmarks and is_exact(candidate, prepared)
        if exact:
            candidate.solver, candidate.tolerance = "newton", min(EXACT, machine.tolerance)
        if exact or goes_on(candidate):
            # With another mu nearly all margins lie on the same pieces, with another lambda most.
            start = of_first if is_first else start
        elif not has_landmarks and takes_path(candidate, m, k, prepared.gram):
            candidate.solver = "path"
        else:
            start = None
        try:
            solution = candidate.solve(prepared, start=start)
        except DivergedError:
            start = None
            yield NO_SOLUTION
            continue
        start = solution.warm_start
        of_first = start if is_first else of_first
        pairs = None
        if len(present) == 1:
            # Who knows one class only always answers that.
            predicted = np.full(len(test), present[0])
            values = np.full((len(test), 1), 1.0 if present[0] == order[0] else -1.0)
        else:
            values = values_of(*candidate.functions(prepared, solution))
            if isinstance(values, PairValues):
                pairs = values
                best, values = pairs.standings()
            else:
                best = candidate.winners(values, len(present))
            predicted = np.asarray(present)[best]
        yield FoldResult(predicted, values, solution.gap, solution.converged, pairs)


def _predictor(machine: Machine, prepared: Prepared, X, train, test, gram: Gram | None):
    """From the decision functions of a solution to their values of the rows ``test``: an array, or
    where pairs of classes vote :class:`odmtool.search.pair_values.PairValues`.
    """  # fmt: skip
    k = len(prepared.classes)
    has_pairs = machine.decides_by_votes(k)
    if gram is None:
        rows = canonical_rows(with_constant_feature(X[test], machine.bias))
        # Its products cost less than those of SciPy's matrices.
        rows = rows if isinstance(rows, np.ndarray) else CSR.of(rows)
        if has_pairs:
            return lambda C, offset: of_rows(rows, C, offset, k)
        return lambda C, offset: rows @ C + offset
    products = KernelProducts(train[prepared.kept], test, gram)
    if has_pairs:
        return lambda C, offset: products.of_pairs(C, offset, prepared.target)
    return lambda C, offset: products.times(C) + offset


def is_exact(machine: Machine, prepared: Prepared) -> bool:
    """Whether a fit is solved to ``EXACT`` by Newton's method."""
    if machine.solver not in ("auto", "newton") or machine.max_iter is not None:
        return False
    if machine.kind != SMOOTH:
        return False
    rows, gram = prepared.rows, prepared.gram
    if gram is None:
        return rows.shape[1] <= LARGEST_HESSIAN and nonzeros(rows) <= _LARGEST_EXACT_NONZEROS
    is_psd = gram.kernel.is_positive_semidefinite
    way = SOLVERS["newton"].way(SMOOTH, gram.kernel.name)
    return is_psd and gram.size <= _LARGEST_EXACT_GRAM and way.fits(gram)


def goes_on(machine: Machine) -> bool:
    """Whether Newton's method, which was asked for, starts a kernel machine from the last one."""
    return machine.solver == "newton" and machine.kernel != "linear" and machine.kind == SMOOTH


def begins_anew(machine: Machine) -> bool:
    """Whether every fit of such a machine begins at 0, whatever was solved before."""
    return machine.kind not in (SMOOTH, ONE_JUMP, OF_LDM)


def takes_path(machine: Machine, m: int, k: int, gram: Gram | None) -> bool:
    """Whether a fit of m examples of k classes is solved by its path, and the next goes on there.

    Of more than two classes every problem would have matrices of its own.
    """
    if k > 2 or machine.solver not in ("auto", "path") or machine.max_iter is not None:
        return False
    if machine.kind not in (OF_LDM, ONE_JUMP):
        return False
    if gram is None:
        largest = _LARGEST_LINEAR_PATH if machine.solver == "auto" else LARGEST_GRAM
        return m <= largest and path_bytes(m) <= machine.memory_limit()
    is_psd = gram.kernel.is_positive_semidefinite
    way = SOLVERS["path"].way(machine.kind, gram.kernel.name)
    return is_psd and m <= _LARGEST_EXACT_GRAM and way.fits(gram)
