"""mcODM with a kernel in the span of landmarks, certified for the full problem.

Problem     that of :mod:`odmtool.solvers.mcodm.rounds` for many examples and a kernel that is
            positive semidefinite.
Method      Landmarks are chosen on a sample, and what they would give is forecast there
            (:mod:`odmtool.solvers.engine.choice`). With the landmarks' features the problem is
            a linear one of few unknowns, which the rounds solve.
Certificate The last W is a feasible point of the full problem, and so are the last duals, whose
            coefficients C make V = [sum_i C_il phi(x_i)]_l. For the last round's sub-problem

                P(W) - D = 1/2 sum_l |w_l - v_l|^2  +  L(f) + sum_il C_il f_l(x_i) - (D + |V|^2 / 2)

            with L the sum of the losses. Everything is known but what V has outside the span,
            which :mod:`odmtool.solvers.engine.certificate` bounds class by class.
Otherwise   more landmarks, from all examples where they span the sample; where they are not enough,
            coordinate descent on kernel values, from the duals so far.
Stop        that of the rounds, with the bound as the gap.
"""

from __future__ import annotations

import numpy as np

from odmtool.rows.compressed import compressed
from odmtool.rows.executor import Serial
from odmtool.solvers.base import ProgressCallback, Stop, relative
from odmtool.solvers.engine import certificate
from odmtool.solvers.engine.certificate import DELTA, Evaluation
from odmtool.solvers.engine.choice import Choice, choose, most_landmarks
from odmtool.solvers.engine.cost import Cost
from odmtool.solvers.engine.features import Basis, Features, features
from odmtool.solvers.engine.landmarks import Landmarks
from odmtool.solvers.engine.points import Points
from odmtool.solvers.engine.sample import Forecast, drawn_rows, forecast
from odmtool.solvers.mcodm import rounds
from odmtool.solvers.mcodm.terms import evaluate
from odmtool.solvers.mcodm.way import Way, for_rounds
from odmtool.solvers.multi import Duals, MultiProblem, MultiSolution

# The gap in the span, as a share of the tolerance.
_INSIDE = 0.3
# On the sample only the size of the duals matters: its gap, and epochs with every number of
# landmarks.
_ON_SAMPLE, _SAMPLE_EPOCHS = 20.0, 15
# Epochs in the span before Newton's method.
_EPOCHS = 50
# Rows that are drawn where the free bound turns out to be too large.
_DRAWN = 2000
# Of the memory; bytes of a feature: three times eight, two indices, and one on the way.
_MEMORY, _FEATURE_BYTES, _SAMPLE_BYTES = 0.8, 32, 48


def solve(
    problem: MultiProblem,
    stop: Stop,
    *,
    seed: int,
    start: Duals | None,
    progress: ProgressCallback,
) -> MultiSolution:
    """Find a nearly stationary point; parameters as in :func:`odmtool.solvers.mcodm.rounds.solve`.

    Returns
    -------
    MultiSolution
        ``coef`` is nonzero for landmarks only, unless they were not enough. ``gap`` is then a
        bound, ``failure`` the probability with which it may be wrong.
    """
    return _Run(problem, stop, seed, progress).result(start)


class _Run:
    """One problem on its way."""

    def __init__(self, problem: MultiProblem, stop: Stop, seed: int, progress):
        gram = problem.gram
        X = compressed(gram.X) if gram.kernel.name == "rbf" else gram.X
        self._problem, self._stop, self._seed, self._progress = problem, stop, seed, progress
        self._points, self._cost = Points(gram.kernel, X, Serial()), Cost.of(X)
        self._iterations, self._draws = 0, 0

    def result(self, duals: Duals | None) -> MultiSolution:
        problem = self._problem
        self._sample = self._drawn_examples(drawn_rows(problem.size, self._seed))
        sample, tolerance, known = self._sample, self._stop.tolerance, 0
        while not (known and sample.landmarks.is_full):
            choice = choose(sample, self._cost, self._stop, known)
            if choice.way == "full" and not self._stop.is_late:
                break
            known = len(sample.landmarks.members)
            basis, found = self._span()
            inside = problem._replace(X=found.Z.astype(float), gram=None)
            way = Way(max(_EPOCHS, for_rounds(inside).epochs))
            solution = self._rounds(inside, duals, way, _INSIDE * tolerance)
            duals = solution.duals
            certified = self._certified(solution, basis, found, choice)
            is_over = self._stop.is_late or self._iterations >= self._stop.limit
            if certified.gap <= tolerance or is_over:
                return certified
            if sample.landmarks.is_full and not sample.is_last:
                # These span the sample, and not the few examples far from it.
                sample = self._sample = self._drawn_examples(np.arange(problem.size))
                known = 0
        del sample, self._sample
        return self._rounds(problem, duals, for_rounds(problem))

    def _drawn_examples(self, rows: np.ndarray) -> _DrawnExamples:
        problem, m, gram = self._problem, self._problem.size, self._problem.gram
        room = _MEMORY * min(gram.memory, 2 * gram.bytes)
        most = most_landmarks(m, room, _FEATURE_BYTES * m + _SAMPLE_BYTES * len(rows))
        return _DrawnExamples(problem, self._points, rows, most, self._seed, self._stop)

    def _span(self) -> tuple[Basis, Features]:
        """The span of the landmarks so far, and the features of all examples."""
        landmarks = self._sample.landmarks
        factor = np.tril(landmarks.features[landmarks.members])
        basis = Basis(self._points, self._sample.members, factor)
        return basis, features(basis, certified=True)

    def _rounds(self, problem, start, way: Way, tolerance=None) -> MultiSolution:
        """Solve a problem by rounds, counting iterations on."""
        done, limit = self._iterations, max(0, self._stop.limit - self._iterations)
        stop = Stop(self._stop.tolerance if tolerance is None else tolerance, limit)

        def progress(now):
            self._progress(now._replace(iteration=done + now.iteration))

        solution = rounds.solve(
            problem, stop, way, starts=1, seed=self._seed, start=start, progress=progress
        )
        self._iterations += solution.iterations
        return solution._replace(iterations=self._iterations)

    def _certified(self, solution, basis: Basis, found: Features, choice: Choice) -> MultiSolution:
        """The solution in the span as one of the full problem."""
        problem, duals = self._problem, solution.duals
        C, none = duals.coefficients(problem.target), np.zeros(problem.k)
        points = certificate.located(basis, solution.W, lambda part, f: (C[part], none, none))
        scores = np.column_stack([point.f for point in points])
        terms = evaluate(problem, duals, scores)
        objective = sum(point.norm for point in points) / 2 + terms.true_loss
        own = max(terms.relaxed_loss + float(np.vdot(C, scores)) - terms.dual_terms, 0.0)
        own += self._rounding(basis, points, scores, terms, duals)
        outside, failure = self._outside(
            points, basis, found.left, self._stop.tolerance * objective - own, choice
        )
        gap = relative(own + outside, objective)
        coef = np.zeros((problem.size, problem.k))
        coef[basis.members] = np.column_stack([point.alpha for point in points])
        return solution._replace(
            W=None, coef=coef, objective=objective, gap=gap, solver="landmarks", failure=failure,
            converged=solution.converged and gap <= self._stop.tolerance,
            support_count=int(np.count_nonzero(coef.any(axis=1))),
        )  # fmt: skip

    def _rounding(self, basis, points: list[Evaluation], scores, terms, duals) -> float:
        """What errors of the scores can do to the losses and to sum_il C_il f_l(x_i)."""
        problem, loss = self._problem, self._problem.parameters
        most = float(certificate.margin_errors(basis, points).max(initial=0.0))
        examples = np.arange(problem.size)
        own = scores[examples, problem.target]
        against = np.where(duals.rival >= 0, scores[examples, duals.rival], 0.0)
        slopes = 2 * loss.c1 * np.maximum(0.0, 1 - loss.theta - own + terms.best)
        slopes += 2 * loss.c2 * np.maximum(0.0, own - against - duals.upper)
        steepest = (loss.c1 + loss.c2) * problem.weight.sum()
        size = sum(np.abs(point.a).sum() for point in points)
        return float(most * (size + 2 * (problem.weight @ slopes)) + (2 * most) ** 2 * steepest)

    def _outside(self, points, basis, left, enough: float, choice: Choice) -> tuple[float, float]:
        """A bound of 1/2 sum_l |w_l - v_l|^2, and the probability that it is wrong."""
        bound = sum(certificate.free(point, left) for point in points)
        if bound <= enough:
            return bound, 0.0
        if choice.way != "exact":
            self._draws += 1
            count, delta = choice.count or _DRAWN, DELTA / 2**self._draws / len(points)
            seed = (self._seed, self._draws)
            drawn = sum(certificate.drawn_for_all(points, basis, left, count, seed, delta))
            # Where there are no more landmarks a pass is cheaper than what comes then.
            if drawn <= enough or not self._sample.is_last:
                return (drawn, DELTA) if drawn < bound else (bound, 0.0)
        return min(bound, sum(certificate.exact(points, basis))), 0.0


class _DrawnExamples:
    """The problem on some of its examples, in the span of more and more landmarks."""

    def __init__(self, problem: MultiProblem, points: Points, rows, most: int, seed: int, stop):
        self.is_whole, self._size = len(rows) == points.size, points.size
        self._seed, self._rows = seed, rows
        self._points = points if self.is_whole else points.rows(rows)
        share = problem.weight.sum() / problem.weight[rows].sum()
        self._problem = problem._replace(
            gram=None, target=problem.target[rows], weight=problem.weight[rows] * share
        )
        self._tolerance, self._duals = stop.tolerance, None
        self._stop = Stop(_ON_SAMPLE * stop.tolerance, _SAMPLE_EPOCHS)
        self.landmarks = Landmarks(self._points, most, seed)

    @property
    def members(self) -> np.ndarray:
        """The landmarks, among all examples."""
        return self._rows[self.landmarks.members]

    @property
    def is_last(self) -> bool:
        """No more landmarks can be had, from all examples neither."""
        landmarks = self.landmarks
        return landmarks.is_full and (self.is_whole or not landmarks.is_exhausted)

    def forecast(self) -> Forecast:
        """What the landmarks so far will give for all examples."""
        solution = rounds.solve(
            self._problem._replace(X=np.ascontiguousarray(self.landmarks.features)), self._stop,
            Way(np.inf), starts=1, seed=self._seed, start=self._duals,
        )  # fmt: skip
        self._duals = solution.duals
        return forecast(
            self._points, self.landmarks, self._duals.coefficients(self._problem.target),
            _INSIDE * self._tolerance, solution.objective, self._size, self._seed,
        )  # fmt: skip
