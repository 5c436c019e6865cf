"""Dual coordinate descent for the multi-class support vector machine of Crammer and Singer.

Problem     max over alpha of D = sum_i alpha_i^y - 1/2 sum_l |w_l|^2, the dual of P (see
            :mod:`odmtool.judge.mcsvm`), with w_l = sum_i alpha_i^l phi(x_i), sum_l alpha_i^l = 0,
            alpha_i^y <= C u_i and alpha_i^l <= 0 for l != y.
Update      in random order, all alpha_i of one example to their best values; kept up to date
            with them are, for a linear problem, W = [w_1 .. w_k], and for a kernel all scores
            f_l(x_j), block after block (:mod:`odmtool.solvers.descent.kernel_block`).
            With p_l = -alpha^l, A = k(x_i, x_i) and the scores B_l = f_l + A p_l the best are
            p_l = max(0, B_l - B_y + 1 - r) / A, where r >= 0 solves

                sum_{l != y} max(0, B_l - B_y + 1 - r) = min(r, A C u_i).

            Newton's method from the root for the largest B_l alone only ever drops classes,
            and ends at the exact root.
Shrinking   an example with alpha_i = 0 whose margin is above 1, by more than the largest
            change of a score in the epoch before, is left out; of a linear problem by more than
            twice the mean of the examples' largest changes, and so are an example's classes that
            are so far from having a dual. All come back when the gap is computed: before the
            result is accepted, and of a linear problem where it seems a tenth of what it was.
Stop        when the relative duality gap (P - D) / P is at most the tolerance.
Source      Crammer & Singer, "On the algorithmic implementation of multiclass kernel-based
            vector machines", JMLR 2001; Keerthi et al., "A sequential dual method for large
            scale multi-class linear SVMs", KDD 2008 (LIBLINEAR -s 4).
"""

from __future__ import annotations

import numpy as np

from odmtool._jit import njit
from odmtool.core.gram import Gram, RowCache, epoch_in_runs, is_too_late_for_rows, runs
from odmtool.solvers import indefinite
from odmtool.solvers.base import Progress, Stop, ignore_progress, relative
from odmtool.solvers.descent.dcd import compressed_rows, row_squares
from odmtool.solvers.descent.kernel_block import (
    ENOUGH,
    SIZE,
    SWEEPS,
    add_rows,
    keep,
    least_share,
    sort_in,
    take,
)
from odmtool.solvers.diverged import diverged
from odmtool.solvers.mcodm.epochs import restore_lists
from odmtool.solvers.mcodm.weights import add_row, row_scores
from odmtool.solvers.multi import MultiProblem, MultiSolution, margins_of
from odmtool.solvers.rounding import Rounding

# speed only: all that is left out comes back before a gap is believed
_SLACK, _PART = 2.0, 0.1


def solve(
    problem: MultiProblem, stop: Stop, *, seed: int = 0, start: np.ndarray | None = None,
    progress=ignore_progress,
) -> MultiSolution:  # fmt: skip
    """Solve a linear or kernel problem; ``stop.max_iter`` counts epochs.

    ``problem.parameters`` is an :class:`odmtool.core.losses.MulticlassHinge`, ``start`` the
    ``duals`` of another solution of the same examples and the same C, shape (m, k).
    """
    state = (_Linear if problem.gram is None else _Kernel)(problem, start)
    generator, order = np.random.default_rng(seed), np.arange(problem.size)
    cost, epoch = problem.parameters.cost * problem.weight, 0
    examples, is_definite = np.arange(problem.size), state.is_definite
    while True:
        with np.errstate(over="ignore", invalid="ignore"):
            scores = state.scores()
            margins = margins_of(scores, problem.target)
            norm = float(np.vdot(state.alpha, scores))
            primal = norm / 2 + float(cost @ np.maximum(0.0, 1 - margins))
            dual = float(state.alpha[examples, problem.target].sum()) - norm / 2
            dual -= state.hidden(margins, cost, stop.negligible(abs(primal)))
        # Duals lie between bounds, so that D does, too.
        if not np.isfinite(primal):
            raise diverged(problem.gram)
        gap = relative(primal - dual, abs(primal))
        progress(Progress(epoch, primal, gap, problem.size, margins))
        if gap <= stop.tolerance or epoch >= stop.max_iter:
            break
        active, threshold, estimate = problem.size, np.inf, np.inf
        enough = max(stop.tolerance, state.share * gap) * abs(primal)
        while epoch < stop.max_iter and not estimate <= enough:
            generator.shuffle(order[:active])
            least = least_share(estimate, active, problem.size)
            active, threshold, estimate = state.epoch(cost, order, active, threshold, least)
            epoch += 1
            # speed only: the gap is looked at sooner
            if not np.isfinite(estimate):
                break
            progress(Progress(epoch, None, relative(estimate, abs(primal)), active))
    return MultiSolution(
        state.W, None if problem.gram is None else state.alpha, primal, gap, epoch,
        gap <= stop.tolerance, "dcd", optimal=is_definite, duals=state.alpha,
        support_count=int(np.count_nonzero(state.alpha.any(axis=1))),
    )  # fmt: skip


def _is_definite(gram: Gram) -> bool:
    """Whether the kernel has no negative eigenvalues, as far as that is known."""
    if gram.kernel.is_positive_semidefinite:
        return True
    return gram.bytes <= gram.memory and indefinite.smallest_eigenvalue(gram.matrix()) == 0


class _State:
    """The dual variables, shape (m, k), and what is kept up to date with them."""

    W: np.ndarray | None = None
    share = 0.0
    """An estimate of this share of the gap ends the epochs until it is computed again."""

    def __init__(self, problem: MultiProblem, start: np.ndarray | None, curvature: np.ndarray):
        self._problem, self._curvature = problem, curvature
        self._target = problem.target.astype(np.int64)
        shape = problem.size, problem.k
        self.alpha = np.zeros(shape) if start is None else np.array(start, dtype=float)
        self._rounding = Rounding(problem.gram, problem.X)
        self._sizes, self._error = self._rounding.sizes, self._rounding.error

    def hidden(self, margins: np.ndarray, cost: np.ndarray, enough: float = 0.0) -> float:
        """By how much P - D may be larger than it seems, by rounding; see :mod:`.rounding`.

        No score is off by more than e r_i |w|, e the relative error of a sum, r_i = |phi(x_i)|,
        and |w| the largest norm of a w_l; for a kernel the sum of r_j |alpha_j| bounds that.
        Where that is not ``enough``, kernel values may have errors of their own.
        """
        own, each = np.abs(self.alpha), self._sizes[:, None]
        totals = (each * own).sum(axis=0)
        total = float(totals.max())
        off = self._error * (total if self.W is None else np.linalg.norm(self.W, axis=0).max())
        duals = own.sum(axis=1)

        def shares(delta: np.ndarray) -> float:
            return float(delta @ (np.where(margins < 1 + 2 * delta, 2 * cost, 0.0) + duals))

        found = shares(off * self._sizes) + self._error**2 * float(totals @ totals)
        exact = None if found <= enough else self._rounding.of_own_values(self.alpha)
        return found if exact is None else min(found, shares(exact.max(axis=1)))


class _Linear(_State):
    """Those of a linear problem, and W, shape (d, k)."""

    is_definite, share = True, _PART

    def __init__(self, problem: MultiProblem, start: np.ndarray | None):
        self._rows = compressed_rows(problem.X)
        super().__init__(problem, start, row_squares(*self._rows))
        self._classes = np.empty(self.alpha.shape, np.int32)
        self._count = np.empty(problem.size, np.int64)

    def scores(self) -> np.ndarray:
        """f_l(x_i), shape (m, k); every class is looked at again."""
        # Rebuilt from alpha: the increments of many epochs leave rounding errors behind.
        self.W = np.ascontiguousarray(self._problem.X.T @ self.alpha)
        restore_lists(self._target, self._classes, self._count)
        return np.asarray(self._problem.X @ self.W)

    def epoch(self, cost, order, active, threshold, _least):
        kept, moved, estimate = linear_epoch(
            *self._rows, self.W, cost, self._curvature, self.alpha, self._classes, self._count,
            order, active, threshold,
        )  # fmt: skip
        return kept, _SLACK * moved / max(1, active), estimate


class _Kernel(_State):
    """Those of a kernel problem, and all scores, shape (k, m)."""

    def __init__(self, problem: MultiProblem, start: np.ndarray | None):
        self._cache, curvature = RowCache(problem.gram), problem.gram.diagonal()
        self._has_increments = False
        self.is_definite = _is_definite(problem.gram)
        if curvature.min() < 0:
            raise diverged(problem.gram)
        super().__init__(problem, start, curvature)

    def scores(self) -> np.ndarray:
        """f_l(x_i), shape (m, k), from the rows of the examples that have duals."""
        if self._has_increments and is_too_late_for_rows(self._cache):
            return self._scores.T
        self._scores = np.zeros((self._problem.k, self._problem.size))
        for part in runs(self._cache, np.flatnonzero(self.alpha.any(axis=1))):
            self._cache.fetch(part)
            change = np.ascontiguousarray(self.alpha[part].T)
            add_rows(self._cache.rows, 0, self._cache.slot[part], change, self._scores)
        return self._scores.T

    def epoch(self, cost, order, active, threshold, least):
        cache, self._has_increments = self._cache, True

        def visit(part):
            return kernel_epoch(
                cache.rows, cache.slot, self._scores, self._target, cost, self._curvature,
                self.alpha, part, len(part), threshold, least,
            )  # fmt: skip

        kept, moves, estimate = epoch_in_runs(cache, order, active, visit)
        return kept, max(moves, default=0.0), estimate


@njit
def simplex_step(B, y, A, cap, alpha):
    """Set alpha to its best value.

    Returns float: 1 + the largest other B_l, less B_y; alpha is 0 where that is not positive.

    Parameters
    ----------
    B : ndarray, shape (k,)
        Scores without the example's own alpha.
    y : int
    A, cap : float
        k(x, x) >= 0 and C u > 0.
    alpha : ndarray, shape (k,)
        Changed in place.
    """
    k, best = len(B), 1 if y == 0 else 0
    for j in range(k):
        alpha[j] = 0.0
        if j != y and B[j] > B[best]:
            best = j
    largest = B[best] - B[y] + 1.0
    if not largest > 0.0:
        return largest
    if A * cap == 0.0:
        alpha[y], alpha[best] = cap, -cap
        return largest
    # All from the largest on, so that a small cap is not lost in rounding.
    rest, number = max(-0.5 * largest, -A * cap), k
    while True:
        total, count = 0.0, 0
        for j in range(k):
            if j != y and B[j] - B[best] > rest:
                total += B[j] - B[best]
                count += 1
        if count == 0 or count >= number:
            break
        number = count
        rest = max((total - largest) / (count + 1), (total - A * cap) / count)
    total = 0.0
    for j in range(k):
        if j != y and B[j] - B[best] > rest:
            alpha[j] = -(B[j] - B[best] - rest) / A
            total -= alpha[j]
    alpha[y] = min(total, cap)
    return largest


@njit
def gap_share(f, y, cap, alpha):
    """What an example with the scores f adds to the gap; parameters as of :func:`visit`."""
    best, products = -np.inf, 0.0
    for j in range(len(f)):
        products += alpha[j] * f[j]
        if j != y:
            best = max(best, f[j])
    return cap * max(0.0, 1.0 - f[y] + best) + products - alpha[y]


@njit
def visit(f, y, A, cap, threshold, alpha, delta, changed):
    """Bring the duals of one example to their best values.

    Parameters
    ----------
    f : ndarray, shape (k,)
        Its scores; overwritten.
    alpha : ndarray, shape (k,)
        Changed in place.
    delta, changed : ndarrays, shape (k,)
        Receive the changes, and the classes whose alpha changed.

    Returns
    -------
    changes : int
        How many did.
    moved : float
        The largest change of an own score.
    share : float
        The example's share of the gap before the update.
    stays : bool
        False if the example is shrunk.
    """
    share = gap_share(f, y, cap, alpha)
    for j in range(len(f)):
        delta[j] = -alpha[j]
        f[j] += A * delta[j]
    largest = simplex_step(f, y, A, cap, alpha)
    changes, moved = 0, 0.0
    for j in range(len(f)):
        delta[j] += alpha[j]
        if delta[j] != 0.0:
            changed[changes] = j
            changes += 1
            moved = max(moved, A * abs(delta[j]))
    return changes, moved, share, changes > 0 or not largest < -threshold


@njit
def linear_epoch(
    data, indices, indptr, W, cost, curvature, alpha, classes, count, order, active, threshold
):
    """Update the duals of ``order[:active]`` once, keeping W.

    Parameters
    ----------
    data, indices, indptr : ndarrays
        Rows of the m x d matrix X (CSR).
    W : ndarray, shape (d, k)
        Changed in place, as are ``alpha``, shape (m, k), and the lists.
    cost, curvature : ndarrays, shape (m,)
        C u_i and |x_i|^2.
    classes, count : int arrays, shapes (m, k) and (m,)
        The first ``count[i]`` of ``classes[i]`` are looked at; the first is y_i.
    order : int array, shape (m,)
        The first ``active`` examples are visited; those that are shrunk are swapped
        behind the others.
    threshold : float
        Examples whose margin is above 1 by more than this are shrunk, and so are classes.

    Returns
    -------
    active : int
        Examples that stay.
    moved : float
        The sum of the largest changes of own scores.
    estimate : float
        The visited examples' shares of the gap, before their updates.
    """
    k, moved, estimate, position = W.shape[1], 0.0, 0.0, 0
    scores, delta, changed = np.empty(k), np.zeros(k), np.arange(k)
    f, own, change = np.empty(k), np.empty(k), np.empty(k)  # of the classes, as they are listed
    while position < active:
        i = order[position]
        first, last, n, listed = indptr[i], indptr[i + 1], count[i], classes[i]
        row_scores(data, indices, first, last, W, listed, n, scores)
        for a in range(n):
            f[a], own[a] = scores[listed[a]], alpha[i, listed[a]]
        changes, move, share, stays = visit(
            f[:n], 0, curvature[i], cost[i], threshold, own[:n], change, changed
        )
        estimate, moved = estimate + share, moved + move
        if changes > 0:
            for a in range(changes):
                place = changed[a]
                changed[a] = listed[place]
                alpha[i, changed[a]], delta[changed[a]] = own[place], change[place]
            add_row(data, indices, first, last, delta, changed, changes, W)
            for a in range(changes):
                delta[changed[a]] = 0.0
        count[i] = shrink(f, own, curvature[i], threshold, listed, n)
        if stays:
            position += 1
        else:
            active -= 1
            order[position], order[active] = order[active], i
    return active, moved, estimate


@njit
def shrink(B, alpha, A, threshold, classes, n):
    """Move the classes far below those with duals to the end of the list; how many remain, >= 2.

    ``B``, which :func:`visit` leaves, and ``alpha`` are in the order of the list, and change too.
    """
    level, a = B[0] - 1.0, 1
    for b in range(1, n):
        if alpha[b] != 0.0:
            level = B[b] + A * alpha[b]
    while a < n and n > 2:
        if alpha[a] == 0.0 and level - B[a] > threshold:
            n -= 1
            classes[a], classes[n] = classes[n], classes[a]
            B[a], alpha[a] = B[n], alpha[n]
        else:
            a += 1
    return n


@njit
def kernel_epoch(
    rows, slot, scores, target, cost, curvature, alpha, order, active, threshold, least
):
    """Update the duals of ``order[:active]``, block after block, keeping all scores.

    ``scores`` has the shape (k, m). Row i of the kernel matrix stands at ``rows[slot[i]]``; the
    examples that stay are in front of ``order`` afterwards. Those with a smaller share of the gap
    than ``least`` are not visited, and stay. The other parameters and the results are those of
    :func:`linear_epoch`; ``curvature`` is k(x_i, x_i).
    """
    k, largest, estimate, kept = len(scores), 0.0, 0.0, 0
    values, slots = np.empty((SIZE, SIZE), rows.dtype), np.empty(SIZE, np.int64)
    own, change, stays = np.empty((k, SIZE)), np.empty((k, SIZE)), np.empty(SIZE, np.bool_)
    block, position = np.empty(SIZE, order.dtype), 0
    while position < active:
        b = 0
        while position < active and b < SIZE:
            i, share = order[position], np.inf
            if least > 0.0:
                share = gap_share(scores[:, i], target[i], cost[i], alpha[i])
            b, kept, estimate = sort_in(i, share, least, block, b, order, kept, estimate)
            position += 1
        part = block[:b]
        take(rows, 0, slot, scores, part, slots[: len(part)], own, values)
        moved, share = block_sweeps(
            values, own, change, part, stays, target, cost, curvature, alpha, threshold
        )
        largest, estimate = max(largest, moved), estimate + share
        add_rows(rows, 0, slots[: len(part)], change, scores)
        kept = keep(part, stays, order, kept)
    return kept, largest, estimate


@njit
def block_sweeps(values, f, change, part, stays, target, cost, curvature, alpha, threshold):
    """Visit the examples of a block again and again.

    Returns largest and estimate: as of :func:`linear_epoch`, the latter by the first visits.

    Parameters
    ----------
    values : ndarray, shape (at least b, at least b)
        Kernel values of the block within itself.
    f : ndarray, shape (k, at least b)
        Its scores, changed in place.
    change, stays : ndarrays, shapes (k, at least b) and (at least b,)
        Receive the changes of alpha, and which examples stay.
    part : int array, shape (b,)
        The examples.
    """
    k, b, largest, estimate = len(f), len(part), 0.0, 0.0
    g, delta, changed = np.empty(k), np.empty(k), np.arange(k)
    change[:], stays[:] = 0.0, True
    for sweep in range(SWEEPS):
        now = 0.0
        for p in range(b):
            if not stays[p]:
                continue
            i = part[p]
            for j in range(k):
                g[j] = f[j, p]
            changes, moved, share, stays[p] = visit(
                g, target[i], curvature[i], cost[i], threshold, alpha[i], delta, changed
            )
            largest, now = max(largest, moved), now + share
            for a in range(changes):
                c = changed[a]
                step, own, row = delta[c], f[c, :b], values[p, :b]
                change[c, p] += step
                for q in range(b):
                    own[q] += step * row[q]
        if sweep == 0:
            estimate = now
        elif now <= ENOUGH * estimate:
            break
    return largest, estimate
