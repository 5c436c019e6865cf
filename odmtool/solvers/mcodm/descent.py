"""Block coordinate descent with shrinking for the convex sub-problem of mcODM.

Problem     the dual of one round of :mod:`odmtool.solvers.mcodm.rounds`, D(alpha, beta).
Update      in random order, beta_i and then alpha_i of one example to their best values
            (:mod:`odmtool.solvers.mcodm.step`); kept up to date with them are, for a linear
            problem, W = [w_1 .. w_k], row-major by feature, in O(nonzeros of the row) for
            every class, and for a kernel all scores f_l(x_j), block after block
            (:mod:`odmtool.solvers.descent.kernel_block`).
Shrinking   a class of an example whose alpha is 0 and would stay so if scores moved by the
            average change in the epoch before is left out, and so is an example all whose
            variables are 0. Examples come back with every round, classes when the gap over
            all of them shows that it was wrong to leave them out.
Faster      after the first epochs of a round, with a kernel whose matrix is there, extrapolated
            (:mod:`odmtool.solvers.mcodm.extrapolation`).
Stop        when the sum of the visited examples' shares of the gap, which costs nothing, is
            small enough; the caller computes the gap itself.
Source      Zhang & Zhou, TKDE 2019, section 4.1 and 4.2; shrinking after Keerthi et al., "A
            sequential dual method for large scale multi-class linear SVMs", KDD 2008.
"""

from __future__ import annotations

import numpy as np

from odmtool.core.gram import RowCache, epoch_in_runs, runs
from odmtool.solvers.base import relative
from odmtool.solvers.descent.dcd import compressed_rows, row_squares
from odmtool.solvers.descent.kernel_block import add_rows, least_share
from odmtool.solvers.diverged import diverged
from odmtool.solvers.mcodm.epochs import (
    Lists,
    StepWeights,
    Work,
    kernel_epoch,
    linear_epoch,
    list_rivals,
    restore_lists,
)
from odmtool.solvers.mcodm.extrapolation import Extrapolation
from odmtool.solvers.mcodm.terms import Terms, dual_terms, evaluate
from odmtool.solvers.mcodm.weights import move_betas, rebuild_weights
from odmtool.solvers.multi import Duals, MultiProblem
from odmtool.solvers.table import NEWTON_MATRICES

# Classes and examples with more slack than so many average changes of a score are left out.
# speed only: what matters comes back when the gap shows it
_SLACK = 1.0
# An epoch's estimate of the gap is trusted while the gap is no more than so many times larger.
# speed only: what matters comes back when the gap shows it
_TRUST = 2.0
# The dual of a solvable problem stays below F(0); far above it there is no solution.
# speed only: a dual without a bound exceeds any number
_DIVERGENCE = 1e6


class _Descent:
    """What linear and kernel problems share: lists, order, thresholds."""

    def __init__(self, problem: MultiProblem, duals: Duals, curvature, seed: int):
        m, k = problem.size, problem.k
        self.problem, self.duals = problem, duals
        target = problem.target.astype(np.int64)
        self.examples = StepWeights(target, problem.weight.astype(float), curvature)
        self._lists = Lists(np.empty((m, k), dtype=np.int32), np.empty(m, dtype=np.int64))
        self._work = Work(np.empty(k), np.empty(k), np.empty(k, dtype=np.int64))
        self._generator = np.random.default_rng(seed)
        loss = problem.parameters
        self._dual_limit = loss.c1 * (1 - loss.theta) ** 2 * problem.weight.sum()
        self._order, self.active, self._gap = np.arange(m), m, np.inf
        self._estimate = np.inf
        self._extrapolation, self._has_leapt = None, False
        self.restore()

    def begin(self, tolerance: float, *_of_newton: bool) -> None:
        """Look at every example again, and work to this estimate of the gap."""
        self.active, self._tolerance = self.problem.size, tolerance
        self._extrapolation = self._new_extrapolation()
        list_rivals(self.duals.rival, self._lists.classes, self._lists.count)

    def restore(self) -> None:
        """Look at every class again."""
        self._threshold = np.inf
        restore_lists(self.examples.target, self._lists.classes, self._lists.count)

    def iterate(self) -> tuple[float, bool]:
        """An epoch; an estimate of the relative gap, and whether it is small enough."""
        leap = self._extrapolation
        if leap is None or not leap.has_begun:
            self._generator.shuffle(self._order[: self.active])
        visited = self.active
        self.active, moved, estimate = self._epoch()
        self._estimate = estimate
        # speed only: what matters comes back when the gap shows it
        self._threshold = _SLACK * moved / max(1, visited)
        dual = dual_terms(self.problem, self.duals) - self.squared_norm() / 2
        if dual > _DIVERGENCE * self._dual_limit:
            raise diverged(self.problem.gram)
        # Nothing is known after the deadline (:func:`epoch_in_runs`).
        is_known = np.isfinite(estimate)
        self._gap = relative(estimate, max(dual, 0.0) + estimate) if is_known else np.inf
        is_done = self._gap <= self._tolerance
        # A jump raises the dual; that the primal falls, too, takes an epoch after it.
        if not is_done and is_known and leap is not None and leap.after_epoch():
            self._threshold, self._has_leapt = np.inf, True
        return self._gap, is_done

    def _new_extrapolation(self) -> Extrapolation | None:
        """For a round; None where it would cost too much."""
        return None

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
        self.settle()

    def squared_norm(self) -> float:
        return float(np.vdot(self.W, self.W))

    def scores(self) -> np.ndarray:
        """f_l(x_i), shape (m, k)."""
        return np.asarray(self.problem.X @ self.W)

    def settle(self) -> None:
        """W from the duals: the increments of many epochs leave rounding errors behind."""
        rebuild_weights(*self._rows, self.examples.target, self.duals, self.W)

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
    """The state of a kernel problem: duals and all scores, shape (k, m).

    ``leaps`` says whether epochs are extrapolated.
    """

    def __init__(self, problem: MultiProblem, duals: Duals, seed: int, leaps: bool = True):
        self._leaps = leaps
        self._cache, curvature = RowCache(problem.gram), problem.gram.diagonal()
        if curvature.min() < 0:
            raise diverged(problem.gram)
        super().__init__(problem, duals, curvature, seed)
        self._scores = np.empty((problem.k, problem.size))
        self._rebuild()

    def _rebuild(self) -> None:
        """All scores from the duals, by the rows of the examples that have some."""
        coef = self.duals.coefficients(self.examples.target)
        self._scores[:], self._has_leapt = 0, False
        for part in runs(self._cache, np.flatnonzero(coef.any(axis=1))):
            self._cache.fetch(part)
            self._add(coef, part)

    def _add(self, change: np.ndarray, rows: np.ndarray) -> None:
        """Add what a change of these rows of the coefficients does; their values are at hand."""
        cache, change = self._cache, np.ascontiguousarray(change[rows].T)
        add_rows(cache.rows, 0, cache.slot[rows], change, self._scores)

    @property
    def is_at_hand(self) -> bool:
        """Whether the whole kernel matrix is."""
        return self._cache.capacity >= self.problem.size

    @property
    def eta(self) -> np.ndarray:
        """All dual variables, shape (m k + m,): alpha, row after row, and beta; a copy."""
        return np.concatenate([self.duals.alpha.ravel(), self.duals.beta])

    @property
    def is_visited(self) -> np.ndarray:
        """Whether epochs look at alpha, shape (m, k): the class is listed, the example active."""
        visited = np.zeros((self.problem.size, self.problem.k), dtype=bool)
        listed = np.arange(self.problem.k) < self._lists.count[:, None]
        np.put_along_axis(visited, self._lists.classes.astype(np.intp), listed, axis=1)
        visited[self._order[self.active :]] = False
        return visited

    @property
    def carried(self) -> np.ndarray:
        """What is kept up to date with them: the scores, class after class, shape (k m,)."""
        return self._scores.ravel()

    def put(self, eta: np.ndarray, scores: np.ndarray, moved: np.ndarray | None = None) -> None:
        """Go on from duals, and from their scores, or those of eta - ``moved``."""
        self._set(eta)
        self._scores[:] = scores.reshape(self._scores.shape)
        if moved is None or not moved.any():
            return
        self._set(moved)
        change = self.duals.coefficients(self.examples.target)
        self._set(eta)
        self._add(change, np.flatnonzero(change.any(axis=1)))

    def _set(self, eta: np.ndarray) -> None:
        m = self.problem.size
        self.duals.alpha[:], self.duals.beta[:] = eta[:-m].reshape(m, -1), eta[-m:]

    def _new_extrapolation(self) -> Extrapolation | None:
        if not self._leaps:
            return None
        gram = self.problem.gram
        # A plan of memory counts some such matrices.
        most = self.problem.size**2 // 2 if NEWTON_MATRICES * gram.bytes <= gram.memory else 0
        return Extrapolation(self.problem, self, most)

    def squared_norm(self) -> float:
        coef = self.duals.coefficients(self.examples.target)
        return float(np.vdot(coef.T, self._scores))

    def scores(self) -> np.ndarray:
        """f_l(x_i), shape (m, k)."""
        return self._scores.T

    def settle(self) -> None:
        """Undo the rounding errors of jumps, whose shares may be large.

        Without them scores stay as they are: computing them again takes as long as an epoch.
        """
        if self._has_leapt:
            self._rebuild()

    def release(self) -> None:
        """Let go of the kernel values; no work on this problem may follow."""
        self._cache = None

    def rivals_changed(self, examples: np.ndarray, before: np.ndarray) -> None:
        """Take the betas of these examples from the columns before to the present ones."""
        for part in runs(self._cache, np.arange(len(examples))):
            chosen, columns = examples[part], np.arange(len(part))
            change = np.zeros((self.problem.k, len(part)))
            for sign, row in ((-1.0, before[part]), (1.0, self.duals.rival[chosen])):
                named = row >= 0
                change[row[named], columns[named]] += sign * self.duals.beta[chosen[named]]
            self._cache.fetch(chosen)
            add_rows(self._cache.rows, 0, self._cache.slot[chosen], change, self._scores)

    def keep(self) -> np.ndarray:
        """The coefficients of the primal point."""
        return self.duals.coefficients(self.examples.target)

    def point(self, kept: np.ndarray) -> np.ndarray:
        """The coefficients that were kept."""
        return kept

    def _epoch(self):
        cache, size = self._cache, self.problem.size
        least = least_share(self._estimate, self.active, size, self._extrapolation)

        def visit(part):
            return kernel_epoch(
                cache.rows, cache.slot, self._scores, self.problem.parameters, self.examples,
                self.duals, self._lists, self._work, part, len(part), self._threshold,
                least,
            )  # fmt: skip

        kept, moves, estimate = epoch_in_runs(cache, self._order, self.active, visit)
        return kept, sum(moves), estimate
