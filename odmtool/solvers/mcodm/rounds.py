"""Multi-class ODM by convex sub-problems.

Problem     min over w_1..w_k of the true objective
                F = 1/2 sum_l |w_l|^2 + sum_i u_i [c1 max(0, 1-theta-g_i)^2
                                                   + c2 max(0, g_i-1-theta)^2],
                g_i = <w_{y_i}, phi(x_i)> - max over l != y_i of <w_l, phi(x_i)>
            which the maximum in the second term makes non-convex.
Round       ``outer="cccp"``: l*_i, the best other class now, replaces the maximum in the second
            term. The sub-problem P so made is convex, is nowhere below F, and equals F at the
            present W, so whoever lowers P enough lowers F:

                D = -1/2 sum_l |w_l|^2 + sum_i [(1-theta) alpha_i^y - (alpha_i^y)^2 / (4 c1 u_i)
                                                - upper_i beta_i - beta_i^2 / (4 c2 u_i)]
                w_l = sum_i (alpha_i^l - [l=y_i] beta_i + [l=l*_i] beta_i) phi(x_i)
                sum_l alpha_i^l = 0, alpha_i^l <= 0 for l != y_i, beta_i >= 0

            with upper_i = 1 + theta. When l*_i changes, beta_i goes to another column.
            ``outer="constant"``, the paper's, replaces the maximum by its present value M_i:
            upper_i = 1 + theta + M_i, and no column for beta_i. P is then no bound of F, which
            may rise. The first round has no constraint from above.
Solvers     of a round: block coordinate descent (:mod:`odmtool.solvers.mcodm.descent`) and, for
            linear problems on which it is slow, a smoothed Newton method
            (:mod:`odmtool.solvers.mcodm.newton`); small kernel problems become linear ones
            (:mod:`odmtool.solvers.mcodm.features`), large ones with few landmarks, too
            (:mod:`odmtool.solvers.mcodm.landmarks`). A round's work ends when its gap is a fraction
            of the one before, or after some epochs; with cccp it goes on until F has not risen, or
            the gap shows that F can hardly fall, and then the W of the round before is kept.
            Newton's method may take other rivals on the way, until those of many sub-problems, one
            after the other, have not lowered F.
Starts      F has many stationary points: on small problems the rounds begin again with other rivals
            (:mod:`odmtool.solvers.mcodm.starts`); those that fall behind the best are given up.
Stop        when F fell by at most the tolerance times F in the last round and the gap of the
            next one's sub-problem at the present W, (F - D) / F, is at most the tolerance. This
            shows a nearly stationary point, not an optimal one.
Source      Zhang & Zhou, "Optimal margin distribution machine", TKDE 2019, section 4 (constant);
            Yuille & Rangarajan, "The concave-convex procedure", Neural Computation 15, 2003.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from odmtool import messages
from odmtool.core.csr import scipy_rows
from odmtool.defaults import OUTER
from odmtool.errors import DivergedError, UsageError
from odmtool.rows.executor import Serial
from odmtool.solvers.base import Progress, Stop, ignore_progress, relative
from odmtool.solvers.diverged import diverged
from odmtool.solvers.mcodm import values
from odmtool.solvers.mcodm.hessian import RowsNewton, is_exact
from odmtool.solvers.mcodm.sample import duals_at, has_sample, sample_of
from odmtool.solvers.mcodm.starts import MOST_STARTS, leads_to, lowest_end, start_count
from odmtool.solvers.mcodm.terms import Terms, dual_terms, evaluate
from odmtool.solvers.mcodm.way import Way, has_many_rows, next_tolerance
from odmtool.solvers.multi import Duals, MultiProblem, MultiSolution, Round
from odmtool.solvers.rounding import Rounding

# The gap of the first round where few margins are as wanted: its W names the rivals. (Elsewhere
# those of a first epoch are as good.)
_FIRST = 0.1
# Newton steps for it at most, where rounding keeps the gap from that.
# speed only: how long to go on where rounding is all that moves
_FIRST_STEPS = 200
# And where rivals are given. (Of segment 58 of a start's 70 steps led far from all ends.)
_GIVEN_STEPS = 10
# Epochs of a round of a larger problem, if F has fallen then: other rivals lower it more than a
# smaller gap does. With a kernel an epoch has more visits. Twice as many where they have lowered it
# by less than this share.
_ROUND_EPOCHS, _KERNEL_ROUND_EPOCHS, _LITTLE = 20, 5, 0.01
# Where the gap leaves F less room than this share of the tolerance, its fall is not waited for.
_NO_ROOM = 0.1
# After so many sub-problems of a round whose W had a larger F, rivals follow no more: they may go
# to and fro (pendigits at lambda 2^12: 1041 steps). With 5, digits ended up to 13 % higher.
_ASTRAY = 10
# Rounding hides little if it is at most this share of the tolerance.
# speed only: how the last of the gap is seen
_LITTLE_HIDDEN = 0.5
# So many Newton steps, or rounds with the same F, without a smaller gap: only rounding is left.
# speed only: how long to go on where rounding is all that moves
_PATIENCE = 50
# So many of a round without a smaller gap, of several smoothed problems.
_IN_VAIN = 30
# In relative gaps above this nothing but rounding is seen; so many steps in a row are the last.
# speed only: how long to go on where rounding is all that moves
_BLIND, _BLIND_STEPS = 1e16, 200
# A start is given up when so many falls as its last would not make it better by this share.
_FALLS, _WORTH = 12, 1e-3


def solve(
    problem: MultiProblem, stop: Stop, way: Way, *, outer: str = "cccp", starts: int = MOST_STARTS,
    seed: int = 0, start: Duals | None = None, progress=ignore_progress,
    rivals: np.ndarray | None = None, W: np.ndarray | None = None, executor: Serial | None = None,
) -> MultiSolution:  # fmt: skip
    """Find a nearly stationary point.

    Raises UsageError: an unknown ``outer``.

    Parameters
    ----------
    problem : MultiProblem
        ``parameters`` is an :class:`odmtool.core.losses.MulticlassODMLoss`.
    stop : Stop
        ``max_iter`` counts epochs and Newton steps of all rounds of a start together.
    outer : str, "cccp" or "constant"
    starts : int
        Begin at so many places at most, and at one more, least squares, where these are several
        and Newton's steps exact.
    start : Duals, optional
        Of another solution of the same examples, for instance with another lambda.
    progress : callable
        Called after every iteration, without the objective, and after every round, with it.
    rivals : int array, shape (m,), optional
        Begin once, with these classes in the constraints from above; -1 is no constraint. Goes
        with ``start``, too.
    W : ndarray, shape (d, k), optional
        The point that goes with ``start``, for Newton's method on a linear problem; that which its
        duals make else.
    executor : Serial, optional
        Where Newton's method works on parts of the rows.
    """
    if outer not in OUTER:
        raise UsageError(messages.unknown_outer(outer, OUTER))
    if way.epochs and problem.gram is not None:
        tolerance = stop.tolerance if np.isinf(way.epochs) else None
        problem = values.at_hand(problem, executor, tolerance)
    is_alone = rivals is not None or start is not None or outer == "constant"
    count = 1 if is_alone else start_count(problem, starts)
    # Made when they are needed, once for all starts; after a look at exact values they are exact.
    features = cache(lambda: _kernel_features(problem, seed))
    rounding = cache(lambda _is_rounded: Rounding(problem.gram, problem.X))

    def begun(start: Duals | None, rivals: np.ndarray | None, W=W) -> _Rounds:
        now = rounding(problem.gram is not None and problem.gram.is_rounded)
        rounds = _Rounds(problem, stop, outer, way, progress, features, now, executor)
        rounds.begins_near = count > 1
        rounds.begin(seed, start, rivals, None if way.epochs else W)
        return rounds

    with np.errstate(over="ignore", invalid="ignore"):
        first = begun(start, rivals)
        first.run()
        return lowest_end(first, begun, problem, seed, count).solution()


def _kernel_features(problem: MultiProblem, seed: int):
    from odmtool.solvers.mcodm.features import KernelFeatures

    return KernelFeatures(problem.gram, seed)


class _Rounds:
    """The outer loop."""

    def __init__(self, problem, stop, outer, way, progress, make_features, rounding, executor):
        self._problem, self._stop, self._outer, self._way = problem, stop, outer, way
        self._rounding, self._progress, self._executor = rounding, progress, executor
        self._name, self._features, self._make_features = "dcd", None, make_features
        self.objective, self._point, self._gap, self._hidden = np.inf, None, np.inf, 0.0
        self._inner, self._blind, self._iteration, self._rounds = np.inf, 0, 0, []
        # ``_most`` is how many steps the first problem may take.
        self._change, self._tolerance, self._most = np.inf, 1.0, np.inf
        # Rounds that changed nothing, one after the other.
        self._idle, self._smallest = 0, np.inf
        # Of the round: the smallest gap, and Newton steps since; and whether these were many, once.
        self._least, self._since, self._is_in_vain = np.inf, 0, False
        self._is_small = start_count(problem, MOST_STARTS) > 1
        most = _ROUND_EPOCHS if problem.gram is None else _KERNEL_ROUND_EPOCHS
        self._epochs = np.inf if self._is_small or outer == "constant" else most
        # Those of the W that is kept, and whether Newton's method may name others.
        self._rivals, self._follows, self._goes_astray = None, False, False
        self.is_finished = self.converged = self.begins_near = False

    def begin(
        self, seed: int, start: Duals | None, rivals: np.ndarray | None, W: np.ndarray | None = None
    ) -> None:
        """From another solution or from 0, at first with these rivals, if there are any."""
        problem = self._problem
        self.duals = Duals.of_nothing(problem.size, problem.k) if start is None else start.copy()
        self._point = W
        if rivals is not None:
            self.duals.rival[:] = rivals
            self.duals.upper[:] = np.where(rivals < 0, np.inf, 1 + problem.parameters.theta)
            self._most = np.inf if self._way.epochs else _GIVEN_STEPS
        if self._way.epochs:
            self._take_descent(seed)
        else:
            self._take_newton()
        is_newton = self._name == "newton"
        self.begins_near &= is_newton and self._solver.is_exact
        names_rivals = self.begins_near or (is_newton and self._solver.names_rivals)
        if rivals is None and (start is not None or names_rivals):
            self._end_round()
        elif rivals is None and has_many_rows(self._problem):
            self._tolerance = _FIRST

    @property
    def point(self) -> np.ndarray:
        """What the solver keeps of W."""
        return self._point

    def scores(self) -> np.ndarray:
        """f_l(x_i) of the point that belongs to the duals, shape (m, k)."""
        return self._solver.scores()

    def run(self, best: _Rounds | None = None) -> bool:
        """Work to the end, or until it will hardly be below that of another start, or leads there.

        Whether it leads there.
        """
        lower, hope = np.inf if best is None else (1 - _WORTH) * best.objective, 0.0
        while not self.is_finished and hope < lower:
            self.work()
            if best is not None and leads_to(self.duals, best.duals):
                return True
            if len(self._rounds) > 1:
                hope = self.objective - _FALLS * self._change
        return False

    def work(self) -> None:
        """Work on the sub-problem until F has fallen, and make the next one."""
        tolerance, rises = self._tolerance, 0
        while True:
            if self._name == "dcd" and self._iteration >= self._way.epochs:
                self._take_newton()
            is_stuck = self._improve(tolerance)
            while self._names_rivals_too_soon() and not is_stuck:
                is_stuck = self._improve(tolerance)
            terms = self._solver.terms()
            self._solver.compare(terms)
            objective = self._solver.squared_norm() / 2 + terms.true_loss
            if objective <= self.objective or self._outer == "constant":
                self._end_round(terms)
                return
            # The duals have improved: what do they say about the W that is kept?
            self._gap = self._relative_gap()
            is_last = is_stuck or self._iteration >= self._stop.max_iter
            if self._rivals is None:  # F was no number from the first on
                raise diverged(self._problem.gram)
            rises += self._follows and self._name != "dcd"
            self._goes_astray |= rises >= _ASTRAY
            is_over = is_last or self._goes_astray or not self._has_room()
            if is_over and np.any(self.duals.rival != self._rivals):
                # Another problem touches F there, that of the rivals of that W.
                self._take_rivals(self._rivals)
                self._gap, self._follows = self._relative_gap(), False
            has_room = self._has_room()
            if is_last or not has_room:
                self._finish(is_settled=not has_room)
                return
            if self._has_reached(tolerance):
                tolerance /= 2

    def _has_reached(self, tolerance: float) -> bool:
        """Whether it was not the end of a round's epochs that ended the work on it."""
        return self._name != "dcd" or self._inner <= tolerance

    def _has_room(self) -> bool:
        """Whether the gap leaves F more room than rounding and the tolerance explain."""
        return self._gap - self._hidden > _NO_ROOM * self._stop.tolerance

    def _names_rivals_too_soon(self) -> bool:
        """Whether Newton's method alone has not yet solved the first problem."""
        is_first = not self._rounds and not self._way.epochs
        most = min(_FIRST_STEPS, self._most, self._stop.max_iter)
        return is_first and self._inner > self._tolerance and self._iteration < most

    def _take_descent(self, seed: int) -> None:
        """Go on with coordinate descent."""
        from odmtool.solvers.mcodm import descent

        if self._problem.gram is None:
            self._solver = descent.LinearDescent(self._problem, self.duals, seed)
            return
        # From duals that have leapt Newton's method took up to three times as long.
        leaps = np.isinf(self._way.epochs)
        self._solver = descent.KernelDescent(self._problem, self.duals, seed, leaps)

    def _take_newton(self) -> None:
        """Go on with Newton's method, of a kernel problem on features."""
        problem, duals, point = self._problem, self.duals, self._point
        self._name = "dcd, then newton" if self._way.epochs else "newton"
        if problem.gram is not None:
            features = self._features = self._make_features()
            if point is not None:
                self._point = features.Z.T @ point
            problem = problem._replace(X=features.Z, gram=None)
        elif point is not None and self._way.epochs:
            self._point = self._solver.point(point)
        X = problem.X
        if self._way.is_sparse:
            problem = problem._replace(X=scipy_rows(X))
        elif not isinstance(X, np.ndarray):
            problem = problem._replace(X=X.toarray())
        W, tolerance = problem.X.T @ duals.coefficients(problem.target), self._stop.tolerance
        if point is not None and not self._way.epochs:
            W = point
        elif point is None and self._begins_at_sample(problem):
            W = self._of_sample(problem, W)
        self._solver = RowsNewton(problem, self.duals, W, tolerance, self._executor)
        self._solver.names_rivals |= self.duals is not duals
        self._solver.halves = self._is_small and not self._solver.is_large

    def _begins_at_sample(self, problem: MultiProblem) -> bool:
        """Whether nothing is known yet and a sample would tell much."""
        is_new = not self.duals.alpha.any() and not np.isfinite(self.duals.upper).any()
        is_usual = self._outer == "cccp" and problem.gram is None
        return is_new and is_usual and is_exact(problem) and has_sample(problem)

    def _of_sample(self, problem: MultiProblem, W: np.ndarray) -> np.ndarray:
        """W of a sample, and duals there; the given one and none if the sample has no solution."""
        if (sample := sample_of(problem)) is None:
            return W
        rounds = _Rounds(
            sample, self._stop, self._outer, self._way, ignore_progress, None,
            Rounding(None, sample.X), self._executor,
        )  # fmt: skip
        try:
            rounds.begin(0, None, None)
            rounds.run()
        except DivergedError:
            return W
        self.duals = duals_at(problem, rounds._point)
        return rounds._point

    def _improve(self, tolerance: float) -> bool:
        """Epochs or Newton steps until the solver is content; whether rounding keeps it from it."""
        limit, least, waited = min(self._stop.max_iter, self._most), np.inf, 0
        if self._name == "dcd":
            limit = min(limit, self._way.epochs, self._iteration + self._epochs)
        is_settled = self._change < self._stop.tolerance * self.objective
        self._is_in_vain |= self._since >= _IN_VAIN
        self._solver.begin(tolerance, is_settled, self._follows, self._is_in_vain)
        is_done = False
        while not is_done and self._iteration < limit and waited < _PATIENCE:
            gap, is_done = self._solver.iterate()
            self._iteration += 1
            if self._stop.is_late:
                break
            if not np.isfinite(gap):
                raise diverged(self._problem.gram)
            self._inner = gap
            if self._name != "dcd":
                # speed only: how long to go on where rounding is all that moves
                least, waited = (gap, 0) if gap < least else (least, waited + 1)
                self._since = 0 if gap < self._least else self._since + 1
                self._least = min(gap, self._least)
                self._blind = self._blind + 1 if gap > _BLIND else 0
                is_done |= self._blind >= _BLIND_STEPS
            self._progress(Progress(self._iteration, None, gap, self._solver.active))
        self._solver.settle()
        return waited >= _PATIENCE or self._blind >= _BLIND_STEPS

    def _relative_gap(self) -> float:
        """With what rounding may hide."""
        is_explicit = self._problem.gram is None or self._features is not None
        squares = self._solver.dual_squared_norm()
        norm = np.sqrt(max(squares, 2 * self.objective)) if is_explicit else None
        return self._gap_of(squares, norm)

    def _gap_of(self, squares: float, norm: float | None) -> float:
        """From |W|^2 of the duals; ``norm`` as in :meth:`Rounding.of_classes`."""
        problem, duals = self._problem, self.duals
        dual = dual_terms(problem, duals) - squares / 2
        C = duals.coefficients(problem.target)
        hidden = self._rounding.of_classes(
            problem.parameters, problem.weight, C, self.objective, norm,
            self._stop.negligible(self.objective),
        )  # fmt: skip
        # No part of P is negative, so no more than P can be hidden.
        hidden = min(np.nan_to_num(hidden, nan=np.inf), max(self.objective, 0.0))
        self._hidden = relative(hidden, self.objective)
        # A dual above the objective shows by how much rounding has gone wrong.
        return relative(abs(self.objective - dual) + hidden, self.objective)

    def _end_round(self, terms: Terms | None = None) -> None:
        """Keep W, and linearise F there."""
        terms = self._solver.terms() if terms is None else terms
        objective = self._solver.squared_norm() / 2 + terms.true_loss
        if not np.isfinite(objective):
            raise diverged(self._problem.gram)
        if self._rounds:
            self._change = abs(self.objective - objective)
        fell = objective < self.objective
        self.objective, self._point = objective, self._solver.keep()
        self._least, self._since, self._most = np.inf, 0, np.inf
        self._linearise(terms)
        self._gap = self._relative_gap()
        self._idle = 0 if fell or self._gap < self._smallest else self._idle + 1
        self._smallest = min(self._gap, self._smallest)
        self._rounds.append(Round(len(self._rounds), self._iteration, objective, self._gap))
        self._progress(
            Progress(self._iteration, objective, self._gap, self._solver.active, terms.margins)
        )
        # No work shows that rounding hides less than it may. Where that is little some epochs cost
        # less than exact kernel values.
        tolerance, hidden = self._stop.tolerance, self._hidden
        if hidden <= _LITTLE_HIDDEN * tolerance and self._has_rounded_values():
            hidden = 0.0
        if self._change <= tolerance * objective and self._gap - hidden <= tolerance:
            self._finish(is_settled=True)
        elif (self._iteration >= self._stop.max_iter or self._blind >= _BLIND_STEPS
              or self._idle >= _PATIENCE):  # fmt: skip
            self._finish(is_settled=False)
        if self._change <= _LITTLE * objective:
            self._epochs *= 2
        if self._has_reached(self._tolerance):
            self._tolerance = next_tolerance(self._tolerance, tolerance)

    def _linearise(self, terms: Terms) -> None:
        """Make the sub-problem at the W of these terms."""
        duals, theta = self.duals, self._problem.parameters.theta
        if self._outer == "constant":
            duals.upper[:] = 1 + theta + terms.best
            return
        duals.upper[:] = 1 + theta
        self._take_rivals(terms.rival)
        # Small problems whose rounds begin with descent end lower by solving every problem.
        solves_each = self._goes_astray or (self._is_small and self._way.epochs)
        self._rivals, self._follows = terms.rival, not solves_each

    def _take_rivals(self, rivals: np.ndarray) -> None:
        """Take these for the rivals of the constraints from above."""
        duals = self.duals
        moving = np.flatnonzero((duals.rival != rivals) & (duals.beta > 0))
        before = duals.rival[moving]
        duals.rival[:] = rivals
        self._solver.rivals_changed(moving, before)

    def _finish(self, is_settled: bool) -> None:
        """End it, converged if F has settled and the gap is small; or see more, and go on."""
        tolerance = self._stop.tolerance
        if self._gap > tolerance and self._has_rounded_values():
            self._see_exactly()
            if is_settled and self._gap > tolerance and self._iteration < self._stop.max_iter:
                self._solver.release()  # its rounded values would stay beside the exact ones
                self._problem = values.at_hand(self._problem, self._executor, None)
                self._rounding = Rounding(self._problem.gram)
                self._take_descent(len(self._rounds))
                return
        self.is_finished, self.converged = True, is_settled and self._gap <= tolerance
        if self._name != "dcd":
            self._solver.release()  # other starts have their own

    def _has_rounded_values(self) -> bool:
        """Whether kernel values in double precision would show more, and there is time for them."""
        gram = self._problem.gram
        is_by_values = gram is not None and self._features is None
        return is_by_values and gram.is_rounded and not self._stop.is_late

    def _see_exactly(self) -> None:
        """F of the W that is kept and the gap, by kernel values in double precision."""
        problem, point = self._problem, self._point
        C = self.duals.coefficients(problem.target)
        problem.gram.make_exact()
        self._rounding = Rounding(problem.gram)
        scores, present = values.exact_scores(problem.gram, self._executor, point, C)
        loss = evaluate(problem, self.duals, scores).true_loss
        self.objective = float(np.vdot(point, scores) / 2 + loss)
        self._gap = self._gap_of(float(np.vdot(C, present)), None)

    def solution(self) -> MultiSolution:
        is_linear = self._problem.gram is None
        duals, point = self.duals, self._solver.point(self._point)
        if self._features is not None:
            point = self._features.coefficients(point)
            self._settle_gap()
        return MultiSolution(
            W=point if is_linear else None,
            coef=None if is_linear else point,
            objective=self.objective,
            gap=self._gap,
            iterations=self._iteration,
            converged=self.converged,
            solver=self._name,
            optimal=False,
            duals=duals,
            rounds=tuple(self._rounds),
            support_count=int(np.count_nonzero(self._coefficients(point).any(axis=1))),
        )

    def _coefficients(self, point: np.ndarray) -> np.ndarray:
        """Those of the examples in w_l."""
        if self._features is None:
            return self.duals.coefficients(self._problem.target)
        return point

    def _settle_gap(self) -> None:
        """The gap by the kernel values, of which the features may lack something."""
        C = self.duals.coefficients(self._problem.target)
        self._gap = self._gap_of(self._features.squared_norm(C), None)
        self.converged &= self._gap <= self._stop.tolerance
