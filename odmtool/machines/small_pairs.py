"""Pairs of small classes, hundreds of which are solved at once.

Two hundred classes make 19,900 pairs. With few examples in each a problem takes next to nothing but
what it costs to call a solver, so those with the same number of examples go to
:mod:`odmtool.solvers.newton.small` together: one class against all that come after it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from odmtool.core import deadline, kernels
from odmtool.core.gram import Gram
from odmtool.core.kernel_table import STORED
from odmtool.core.loss_table import SMOOTH
from odmtool.machines.data import Prepared
from odmtool.solvers.base import Progress, ProgressCallback, Solution
from odmtool.solvers.newton import small
from odmtool.solvers.rounding import Rounding

# speed only: with more examples, or fewer pairs, each has a call of its own
_MOST_EXAMPLES, _FEWEST_PAIRS = 128, 200
# speed only: kernel values of the problems that are solved at once
_NUMBERS = 2**19


def are_small(machine, prepared: Prepared, members: list[np.ndarray]) -> bool:
    """Whether there are so many small pairs, and Newton's method may have them."""
    gram, k = prepared.gram, len(members)
    is_newton = machine.solver in ("auto", "newton") and machine.max_iter != 0
    if not is_newton or machine.kind != SMOOTH or k * (k - 1) < 2 * _FEWEST_PAIRS:
        return False
    if not gram.kernel.is_positive_semidefinite or gram.is_rounded:
        return False
    return gram.is_computed or gram.kernel.row.of != STORED


def solve(
    machine, prepared: Prepared, members: list[np.ndarray], C: np.ndarray,
    progress: ProgressCallback,
) -> tuple[Solution | None, np.ndarray]:  # fmt: skip
    """Solve the small pairs.

    Returns what they come to in all, None if none was solved, and which pairs are left, a bool
    array in the order of the pairs.

    Parameters
    ----------
    members : list of int arrays
        The examples of every class.
    C : ndarray, shape (m, k - 1)
        Gets the coefficients, times y, as :class:`odmtool.models.kernel.KernelModel` has them.
    """
    k, error = len(members), Rounding(prepared.gram).error
    left, total = np.ones((k, k), bool), None
    loss = machine.loss(prepared.total_weight)
    for first, others, K in _stacks(prepared.gram, members):
        if deadline.is_over():
            break
        own, theirs = members[first], np.array([members[j] for j in others])
        y = np.repeat([1.0, -1.0], [len(own), theirs.shape[1]])
        weight = prepared.u[np.hstack([np.broadcast_to(own, (len(others), len(own))), theirs])]
        # What it does not solve in so many steps is left to those that tell where they ended.
        found = small.solve(K, y, weight, loss, error, machine.tolerance, machine.max_iter)
        done, coef = found.converged, y * found.coef
        others = others[done]
        C[own[:, None], others - 1] = coef[done, : len(own)].T
        C[theirs[done], first] = coef[done, len(own) :]
        left[first, others] = False
        if len(others):
            total = _added(total, found, machine.tolerance)
            progress(Progress(total.iterations, total.primal, total.gap, int(np.count_nonzero(C))))
    return total, left[np.triu_indices(k, 1)]


def _added(total: Solution | None, found: small.Found, tolerance: float) -> Solution:
    """With those that have converged added: sums, and the largest gap."""
    done, nothing = found.converged, np.empty(0)
    primal, gap = float(found.primal[done].sum()), float(found.gap[done].max())
    steps = int(found.steps[done].sum())
    if total is not None:
        primal, gap, steps = primal + total.primal, max(gap, total.gap), steps + total.iterations
    dual = primal - gap * primal
    return Solution(
        None, nothing, nothing, primal, dual, gap, steps, gap <= tolerance, "newton"
    )  # fmt: skip


def _stacks(gram: Gram, members: list[np.ndarray]) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """A class, others after it that have as many examples as each other, and their kernel values.

    These have the shape (others, n, n), the examples of the first class before those of the other.
    """
    sizes = np.array([len(rows) for rows in members])
    ends = np.cumsum(sizes)
    values = _Values(gram, np.concatenate(members))
    within = [values.of(end - n, end) for n, end in zip(sizes, ends, strict=True)]
    for first, own in enumerate(sizes[:-1]):
        later = np.arange(first + 1, len(sizes))
        # Two classes without examples, whose weights are 0, have nothing to solve.
        later = later[(own + sizes[later] > 0) & (own + sizes[later] <= _MOST_EXAMPLES)]
        if not len(later):
            continue
        across = values.of(ends[first] - own, ends[first], ends[later[-1]])
        for size in np.unique(sizes[later]):
            same = later[sizes[later] == size]
            # speed only: how many are solved at once
            step = max(1, _NUMBERS // int(own + size) ** 2)
            for start in range(0, len(same), step):
                others = same[start : start + step]
                K = np.empty((len(others), own + size, own + size))
                K[:, :own, :own], K[:, own:, own:] = within[first], [within[j] for j in others]
                places = (ends[others] - size - ends[first])[:, None] + np.arange(size)
                K[:, :own, own:] = across[:, places].transpose(1, 0, 2)
                K[:, own:, :own] = K[:, :own, own:].transpose(0, 2, 1)
                yield first, others, K


class _Values:
    """Kernel values of examples in an order in which those of a class are neighbours."""

    def __init__(self, gram: Gram, order: np.ndarray):
        self._gram, self._order = gram, order
        self._X = None if gram.is_computed else gram.X[order]

    def of(self, start: int, end: int, beyond: int | None = None) -> np.ndarray:
        """Those between examples ``start`` to ``end``, or of these and those from there on."""
        if self._X is None:
            others = self._order[start:end] if beyond is None else self._order[end:beyond]
            return self._gram.matrix()[np.ix_(self._order[start:end], others)]
        own = self._X[start:end]
        if beyond is None:
            return kernels.gram(self._gram.kernel, own)
        return kernels.block(self._gram.kernel, own, self._X[end:beyond])
