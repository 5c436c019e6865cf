"""Block coordinate descent with shrinking for the convex sub-problem of mcODM.

Problem     the dual of one round of :mod:`odmtool.solvers.mcodm.rounds`, D(alpha, beta).
Update      in random order, beta_i and then alpha_i of one example to their best values
            (:mod:`odmtool.solvers.mcodm.step`); kept up to date with them are, for a linear
            problem, W = [w_1 .. w_k], row-major by feature, in O(nonzeros of the row) for
            every class, and for a kernel all scores f_l(x_j) in O(m) for every class whose
            coefficient changed.
Shrinking   a class of an example whose alpha is 0 and would stay so if scores moved by the
            average change in the epoch before is left out, and so is an example all whose
            variables are 0. Examples come back with every round, classes when the gap over
            all of them shows that it was wrong to leave them out.
Stop        when the sum of the visited examples' shares of the gap, which costs nothing, is
            small enough; the caller computes the gap itself.
Source      Zhang & Zhou, TKDE 2019, section 4.1 and 4.2; shrinking after Keerthi et al., "A
            sequential dual method for large scale multi-class linear SVMs", KDD 2008.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool import messages
from odmtool._jit import njit
from odmtool.core.gram import RowCache, keep_in_front, runs
from odmtool.errors import DivergedError
from odmtool.solvers.base import relative
from odmtool.solvers.dcd import compressed_rows, row_squares
from odmtool.solvers.mcodm.step import alpha_step, beta_step, gap_share
from odmtool.solvers.mcodm.terms import Terms, dual_terms, evaluate
from odmtool.solvers.multi import Duals, MultiProblem

# So many classes, and one more for each width of a vector register, cost as much, taken one
# by one, as all of them together.
# speed only: one by one or all together, the sums are the same
_FEW = 4
# speed only: one by one or all together, the sums are the same
_WIDTH = 8
# Classes and examples with more slack than so many average changes of a score are left out.
_SLACK = 1.0
# An epoch's estimate of the gap is trusted while the gap is no more than so many times larger.
_TRUST = 2.0
# The dual of a solvable problem stays below F(0); far above it there is no solution.
_DIVERGENCE = 1e6


class StepWeights(NamedTuple):
    """What the block step knows of the examples, arrays of shape (m,)."""

    target: np.ndarray
    weight: np.ndarray
    curvature: np.ndarray


class Lists(NamedTuple):
    """The first ``count[i]`` of ``classes[i]``, shape (m, k), are looked at; the first is y_i."""

    classes: np.ndarray
    count: np.ndarray


class Work(NamedTuple):
    """Room for one example: scores, changes of its coefficients, and the classes that change."""

    f: np.ndarray
    delta: np.ndarray
    changed: np.ndarray


class _Descent:
    """What linear and kernel problems share: lists, order, thresholds."""

    def __init__(self, problem: MultiProblem, duals: Duals, curvature, seed: int):
        m, k = problem.size, problem.k
        self.problem, self.duals = problem, duals
        target = problem.target.astype(np.int64)
        self.examples = StepWeights(target, problem.weight.astype(float), curvature)
        self._lists = Lists(np.empty((m, k), dtype=np.int32), np.empty(m, dtype=np.int64))
        self._work = Work(np.zeros(k), np.zeros(k), np.zeros(k, dtype=np.int64))
        self._generator = np.random.default_rng(seed)
        loss = problem.parameters
        self._dual_limit = loss.c1 * (1 - loss.theta) ** 2 * problem.weight.sum()
        self._order, self.active, self._gap = np.arange(m), m, np.inf
        self.restore()

    def begin(self, tolerance: float) -> None:
        """Look at every example again, and work to this estimate of the gap."""
        self.active, self._tolerance = self.problem.size, tolerance
        list_rivals(self.duals.rival, self._lists.classes, self._lists.count)

    def restore(self) -> None:
        """Look at every class again."""
        self._threshold = np.inf
        restore_lists(self.examples.target, self._lists.classes, self._lists.count)

    def iterate(self) -> tuple[float, bool]:
        """An epoch; an estimate of the relative gap, and whether it is small enough."""
        self._generator.shuffle(self._order[: self.active])
        visited = self.active
        self.active, moved, estimate = self._epoch()
        self._threshold = _SLACK * moved / max(1, visited)
        dual = dual_terms(self.problem, self.duals) - self.squared_norm() / 2
        if dual > _DIVERGENCE * self._dual_limit:
            raise DivergedError(messages.dual_unbounded())
        self._gap = relative(estimate, max(dual, 0.0) + estimate)
        return self._gap, self._gap <= self._tolerance

    def terms(self) -> Terms:
        """Of the present point."""
        return evaluate(self.problem, self.duals, self.scores())

    def compare(self, terms: Terms) -> None:
        """Take the lists back if the true gap shows that something left out matters."""
        primal = terms.relaxed_loss + self.squared_norm() / 2
        gap = terms.relaxed_loss + self.squared_norm() - terms.dual_terms
        if gap > _TRUST * self._gap * primal:
            self.restore()

    def dual_squared_norm(self) -> float:
        """|W|^2 of the W that the duals make, here the primal point itself."""
        return self.squared_norm()


class LinearDescent(_Descent):
    """The state of a linear problem: duals and W, shape (d, k)."""

    def __init__(self, problem: MultiProblem, duals: Duals, seed: int):
        self._rows = compressed_rows(problem.X)
        super().__init__(problem, duals, row_squares(*self._rows), seed)
        self.W = np.empty((problem.X.shape[1], problem.k))
        self._rebuild()

    def _rebuild(self) -> None:
        """W from the duals: the increments of many epochs leave rounding errors behind."""
        rebuild_weights(*self._rows, self.examples.target, self.duals, self.W)

    def squared_norm(self) -> float:
        return float(np.vdot(self.W, self.W))

    def scores(self) -> np.ndarray:
        """f_l(x_i), shape (m, k)."""
        return np.asarray(self.problem.X @ self.W)

    def settle(self) -> None:
        """Undo the rounding errors of many increments."""
        self._rebuild()

    def rivals_changed(self, examples: np.ndarray, before: np.ndarray) -> None:
        """Take the betas of these examples from the columns before to the present ones."""
        move_betas(*self._rows, examples, before, self.duals, self.W)

    def keep(self) -> np.ndarray | Duals:
        """The primal point in whichever form is smaller: W, or the duals that make it."""
        m, d = self.problem.X.shape
        return self.W.copy() if d <= m else self.duals.copy()

    def point(self, kept: np.ndarray | Duals) -> np.ndarray:
        """The W that was kept; no work on this problem may follow."""
        if isinstance(kept, Duals):
            rebuild_weights(*self._rows, self.examples.target, kept, self.W)
            return self.W
        return kept

    def _epoch(self):
        return linear_epoch(
            *self._rows, self.W, self.problem.parameters, self.examples, self.duals, self._lists,
            self._work, self._order, self.active, self._threshold,
        )  # fmt: skip


class KernelDescent(_Descent):
    """The state of a kernel problem: duals and all scores, shape (k, m)."""

    def __init__(self, problem: MultiProblem, duals: Duals, seed: int):
        self._cache, curvature = RowCache(problem.gram), problem.gram.diagonal()
        if curvature.min() < 0:
            raise DivergedError(messages.dual_unbounded())
        super().__init__(problem, duals, curvature, seed)
        self._scores = np.empty((problem.k, problem.size))
        self._rebuild()

    def _rebuild(self) -> None:
        """All scores from the duals, by the rows of the examples that have some."""
        coef = self.duals.coefficients(self.examples.target)
        self._scores[:] = 0
        for part in runs(self._cache, np.flatnonzero(coef.any(axis=1))):
            self._cache.fetch(part)
            self._scores += coef[part].T @ self._cache.rows[self._cache.slot[part]]

    def squared_norm(self) -> float:
        coef = self.duals.coefficients(self.examples.target)
        return float(np.vdot(coef.T, self._scores))

    def scores(self) -> np.ndarray:
        """f_l(x_i), shape (m, k)."""
        return self._scores.T

    def settle(self) -> None:
        """Scores stay as they are: to compute them again takes as long as an epoch."""

    def rivals_changed(self, examples: np.ndarray, before: np.ndarray) -> None:
        """Take the betas of these examples from the columns before to the present ones."""
        for part in runs(self._cache, np.arange(len(examples))):
            chosen, rows = examples[part], np.arange(len(part))
            change = np.zeros((len(part), self.problem.k))
            for sign, column in ((-1.0, before[part]), (1.0, self.duals.rival[chosen])):
                named = column >= 0
                change[rows[named], column[named]] += sign * self.duals.beta[chosen[named]]
            self._cache.fetch(chosen)
            self._scores += change.T @ self._cache.rows[self._cache.slot[chosen]]

    def keep(self) -> np.ndarray:
        """The coefficients of the primal point."""
        return self.duals.coefficients(self.examples.target)

    def point(self, kept: np.ndarray) -> np.ndarray:
        """The coefficients that were kept."""
        return kept

    def _epoch(self):
        kept, estimate, total = 0, 0.0, 0.0
        order, cache = self._order, self._cache
        for part in runs(cache, order[: self.active].copy()):
            cache.fetch(part)
            stay, moved, share = kernel_epoch(
                cache.rows, cache.slot, self._scores, self.problem.parameters, self.examples,
                self.duals, self._lists, self._work, part, len(part), self._threshold,
            )  # fmt: skip
            order[kept : kept + stay] = part[:stay]
            kept, estimate, total = kept + stay, estimate + share, total + moved
        keep_in_front(order, kept)
        return kept, total, estimate


@njit
def restore_lists(target, classes, count):
    """List every class, each example's own first."""
    m, k = classes.shape
    for i in range(m):
        for j in range(k):
            classes[i, j] = j
        classes[i, 0], classes[i, target[i]] = target[i], 0
        count[i] = k


@njit
def list_rivals(rival, classes, count):
    """List the rival of every example."""
    for i in range(len(rival)):
        n, a = count[i], 0
        if rival[i] < 0:
            continue
        while classes[i, a] != rival[i]:
            a += 1
        if a >= n:
            classes[i, a], classes[i, n] = classes[i, n], classes[i, a]
            count[i] = n + 1


@njit
def move_betas(data, indices, indptr, examples, before, duals, W):
    """Take beta_i x_i from the column before to that of the present rival."""
    for a in range(len(examples)):
        i = examples[a]
        for q in range(indptr[i], indptr[i + 1]):
            step = duals.beta[i] * data[q]
            if before[a] >= 0:
                W[indices[q], before[a]] -= step
            if duals.rival[i] >= 0:
                W[indices[q], duals.rival[i]] += step


@njit
def rebuild_weights(data, indices, indptr, target, duals, W):
    """W = X' C with the coefficients C of the duals."""
    k = W.shape[1]
    coef, chosen = np.zeros(k), np.zeros(k, dtype=np.int64)
    W[:] = 0.0
    for i in range(len(indptr) - 1):
        for j in range(k):  # numba compiles coef[:] = alpha[i] with its messages, for seconds
            coef[j] = duals.alpha[i, j]
        coef[target[i]] -= duals.beta[i]
        if duals.rival[i] >= 0:
            coef[duals.rival[i]] += duals.beta[i]
        n = np.int64(0)  # not 0 alone, for which add_row would be compiled once more
        for j in range(k):
            if coef[j] != 0.0:
                chosen[n] = j
                n += 1
        add_row(data, indices, indptr[i], indptr[i + 1], coef, chosen, n, W)


@njit
def add_row(data, indices, first, last, delta, chosen, n, W):
    """W += x delta' at the first n chosen classes; delta is 0 at the others."""
    k = W.shape[1]
    # speed only: which of two loops does the same
    if n <= _FEW + k // _WIDTH:
        for a in range(n):
            j = chosen[a]
            for q in range(first, last):
                W[indices[q], j] += data[q] * delta[j]
    else:
        for q in range(first, last):
            v, row = data[q], W[indices[q]]
            for j in range(k):
                row[j] += v * delta[j]


@njit
def row_scores(data, indices, first, last, W, classes, n, f):
    """f_l = <w_l, x> at the first n classes."""
    k = W.shape[1]
    # speed only: which of two loops does the same
    if n <= _FEW + k // _WIDTH:
        for a in range(n):
            j, total = classes[a], 0.0
            for q in range(first, last):
                total += data[q] * W[indices[q], j]
            f[j] = total
    else:
        f[:] = 0.0
        for q in range(first, last):
            v, row = data[q], W[indices[q]]
            for j in range(k):
                f[j] += v * row[j]


@njit
def visit(i, loss, examples, duals, lists, work, threshold):
    """Bring beta_i and alpha_i to their best values and shrink the list of classes.

    ``work.f`` holds the example's scores and is overwritten; ``work.delta`` receives the
    changes of its coefficients, ``work.changed`` their classes.

    Returns
    -------
    changes : int
        How many coefficients changed.
    moved : float
        Largest change of the example's own scores.
    share : float
        Its share of the gap before the update.
    stays : bool
        False if the example is shrunk.
    """
    f, delta, alpha, classes, n = (
        work.f, work.delta, duals.alpha[i], lists.classes[i], lists.count[i],
    )  # fmt: skip
    y, u, A = examples.target[i], examples.weight[i], examples.curvature[i]
    rival, upper, beta, c1, c2 = (
        duals.rival[i], duals.upper[i], duals.beta[i], u * loss.c1, u * loss.c2,
    )  # fmt: skip
    best, products = -np.inf, 0.0
    for a in range(n):
        j = classes[a]
        products += alpha[j] * f[j]
        delta[j] = -alpha[j]
        if j != y:
            best = max(best, f[j])
    z = f[y] - (f[rival] if rival >= 0 else 0.0)
    share = gap_share(
        f[y], best, z, alpha[y], beta, products - beta * z, 1.0 - loss.theta, upper, c1, c2
    )
    new = beta_step(z, beta, 2.0 * A if rival >= 0 else A, upper, c2)
    step = new - beta
    duals.beta[i] = new
    for a in range(n):
        f[classes[a]] += A * delta[classes[a]]
    f[y] -= A * step
    if rival >= 0:
        f[rival] += A * step
    rest = alpha_step(f, classes, n, y, A, 1.0 - loss.theta, c1, alpha)
    stays = shrink(
        f, alpha, classes, lists.count, i, rival, f[y] - 1.0 + loss.theta + rest, threshold
    )
    if alpha[y] != 0.0 or new != 0.0 or step != 0.0 or upper - z <= threshold:
        stays = True
    for a in range(n):
        delta[classes[a]] += alpha[classes[a]]
    delta[y] -= step
    if rival >= 0:
        delta[rival] += step
    changes, largest = 0, 0.0
    for a in range(n):
        if delta[classes[a]] != 0.0:
            work.changed[changes] = classes[a]
            changes += 1
            largest = max(largest, abs(delta[classes[a]]))
    return changes, A * largest, share, stays


@njit
def shrink(B, alpha, classes, count, i, rival, level, threshold):
    """Move classes far below the level to the end of the list; whether any other is near it."""
    n, a, near = count[i], 1, False
    while a < n:
        j = classes[a]
        if alpha[j] == 0.0 and level - B[j] > threshold:
            if j != rival:
                n -= 1
                classes[a], classes[n] = classes[n], j
                continue
        else:
            near = True
        a += 1
    count[i] = n
    return near


@njit
def linear_epoch(
    data, indices, indptr, W, loss, examples, duals, lists, work, order, active, threshold
):
    """Visit ``order[:active]`` once, keeping W.

    Parameters
    ----------
    data, indices, indptr : ndarrays
        Rows of the m x d matrix X (CSR).
    W : ndarray, shape (d, k)
        Changed in place, as are ``duals``, ``lists`` and ``work``.
    order : int array, shape (m,)
        The first ``active`` examples are visited; those that are shrunk are swapped
        behind the others.
    threshold : float
        Classes and examples with more slack than this are shrunk.

    Returns
    -------
    active : int
        Examples that stay.
    total : float
        Sum over the visited examples of the largest change of an own score.
    estimate : float
        The visited examples' shares of the gap, before their updates.
    """
    total, estimate, position = 0.0, 0.0, 0
    while position < active:
        i = order[position]
        first, last, n = indptr[i], indptr[i + 1], lists.count[i]
        row_scores(data, indices, first, last, W, lists.classes[i], n, work.f)
        work.delta[:] = 0.0
        changes, moved, share, stays = visit(i, loss, examples, duals, lists, work, threshold)
        estimate += share
        total += moved
        if changes > 0:
            add_row(data, indices, first, last, work.delta, work.changed, changes, W)
        if stays:
            position += 1
        else:
            active -= 1
            order[position], order[active] = order[active], i
    return active, total, estimate


@njit
def kernel_epoch(rows, slot, scores, loss, examples, duals, lists, work, order, active, threshold):
    """Visit ``order[:active]`` once, keeping all scores, shape (k, m).

    Row i of the kernel matrix stands at ``rows[slot[i]]``. The other parameters and the
    results are those of :func:`linear_epoch`.
    """
    total, estimate, position = 0.0, 0.0, 0
    m = scores.shape[1]
    while position < active:
        i = order[position]
        for a in range(lists.count[i]):
            work.f[lists.classes[i, a]] = scores[lists.classes[i, a], i]
        changes, moved, share, stays = visit(i, loss, examples, duals, lists, work, threshold)
        estimate += share
        total += moved
        row = rows[slot[i]]
        for a in range(changes):
            step, f = work.delta[work.changed[a]], scores[work.changed[a]]
            for j in range(m):
                f[j] += step * row[j]
        if stays:
            position += 1
        else:
            active -= 1
            order[position], order[active] = order[active], i
    return active, total, estimate
