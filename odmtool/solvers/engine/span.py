"""Any convex problem with a kernel in the span of landmarks, where another solver does the work.

Problem     min over w of 1/2 |w|^2 + L(f), L convex in the values f of one function or of several,
            with a kernel that is positive semidefinite.
Method      Landmarks are chosen on a sample, and what they would give is forecast there
            (:mod:`odmtool.solvers.engine.choice`). With the landmarks' features the problem is
            a linear one of few unknowns, which a solver of linear machines solves.
Certificate Its w is a feasible point of the full problem, and its duals, whose coefficients a make
            v = sum_i a_i phi(x_i), are feasible duals of it. By Fenchel's inequality

                P(w) - D = 1/2 |w - v|^2 + L(f) + L*(-a) + sum_i a_i f(x_i).

            Everything is known but what v has outside the span, which
            :mod:`odmtool.solvers.engine.certificate` bounds function by function.
Otherwise   more landmarks, from all examples where they span the sample. Where they are not enough
            the duals so far are a start for others.
Stop        when the bound is at most the tolerance.
"""

from __future__ import annotations

import numpy as np

from odmtool.core.gram import Gram
from odmtool.solvers.base import Progress, ProgressCallback, Stage, Stop, enter
from odmtool.solvers.engine import certificate
from odmtool.solvers.engine.certificate import DELTA
from odmtool.solvers.engine.choice import Choice, choose, most_landmarks
from odmtool.solvers.engine.cost import Cost
from odmtool.solvers.engine.features import Basis, Features, features
from odmtool.solvers.engine.landmarks import Landmarks
from odmtool.solvers.engine.points import points_of
from odmtool.solvers.engine.sample import Forecast, drawn_rows, forecast

INSIDE = 0.3
"""The gap in the span, as a share of the tolerance."""

# On the sample only the size of the duals matters: its gap, and epochs with every number of
# landmarks.
# speed only: a forecast, with which nothing is proved
_ON_SAMPLE, _SAMPLE_EPOCHS = 20.0, 15
# Rows that are drawn where the free bound turns out to be too large.
# speed only: the bound knows how many rows were drawn
_DRAWN = 2000
# Of the memory; bytes of a feature: three times eight, two indices, and one on the way.
_MEMORY, _FEATURE_BYTES, _SAMPLE_BYTES = 0.8, 32, 48


class SpanRun:
    """A problem on its way. A subclass says how it is solved with given features.

    Parameters
    ----------
    problem
        Has a ``gram``, whose rows are known.
    seed : int
        Seeds the sample, the landmarks and the drawn rows.
    progress : callable
        Is told of stages here, and by the subclass of iterations.
    executor : optional
        Shares this process's memory (:mod:`odmtool.rows.executor`).

    Attributes
    ----------
    iterations : int
        Counted by the subclass.
    """

    def __init__(self, problem, stop: Stop, seed: int, progress: ProgressCallback, executor=None):
        self.gram, self.stop, self.seed = problem.gram, stop, seed
        self.problem, self.points = problem, points_of(self.gram, executor)
        self.iterations, self.progress, self._draws = 0, progress, certificate.Seeds(seed)

    def cost(self) -> Cost:
        """What landmarks take, and what comes where they are not enough."""
        return Cost.of(self.points.X)

    def solve_sample(self, Z, rows: np.ndarray, stop: Stop, duals):
        """Solve the problem on some examples, with the weight of all, by their features Z.

        Returns the duals, their coefficients (shape (n, q)) and S.
        """
        raise NotImplementedError

    def solve_inside(self, Z: np.ndarray, duals, tolerance: float):
        """Solve the linear problem on the features of all examples; returns it and its duals."""
        raise NotImplementedError

    def certified(self, solution, basis: Basis, found: Features, choice: Choice):
        """The solution in the span as one of the full problem, with a bound of its gap."""
        raise NotImplementedError

    def in_span(self, duals):
        """The certified solution, or None where landmarks are not enough; and the duals so far."""
        try:
            return self._in_span(duals)
        finally:
            enter(self.progress, None)

    def _in_span(self, duals):
        sample, known = self._drawn_examples(drawn_rows(self.gram.size, self.seed)), 0
        while not (known and sample.landmarks.is_full):
            self._enter("landmarks", known)
            choice = choose(sample, self.cost(), self.stop, known)
            if choice.way == "full" and not self.stop.is_late:
                break
            known, self._is_last = len(sample.landmarks.members), sample.is_last
            basis = Basis(self.points, sample.members, sample.landmarks.factor)
            found = features(basis, certified=True)
            inside = INSIDE * self.stop.tolerance
            self._enter("span", known)
            solution, duals = self.solve_inside(found.Z.astype(float), duals, inside)
            self._enter("certificate", known)
            certified = self.certified(solution, basis, found, choice)
            is_over = self.stop.is_late or self.iterations >= self.stop.limit
            if certified.gap <= self.stop.tolerance or is_over:
                return certified, duals
            if not solution.converged:
                break  # more landmarks would not help
            if sample.landmarks.is_full and not sample.is_last:
                # These span the sample, and not the few examples far from it.
                sample, known = self._drawn_examples(np.arange(self.gram.size)), 0
        return None, duals

    def _enter(self, name: str, count: int) -> None:
        enter(self.progress, Stage(name, count))

    def counted(self, gram: Gram | None) -> ProgressCallback:
        """Tells iterations counted on, and the examples of a kernel matrix that does not fit."""
        done, progress = self.iterations, self.progress
        unkept = 0 if gram is None or gram.bytes <= gram.memory else gram.size

        def tell(now: Progress) -> None:
            progress(now._replace(iteration=done + now.iteration, unkept=unkept))

        return tell

    def outside(self, points, basis, left, enough: float, choice: Choice) -> tuple[float, float]:
        """A bound of 1/2 |w - v|^2, of all functions, and the probability that it is wrong."""
        bound = sum(certificate.free(point, left) for point in points)
        known = bound, 0.0
        if bound <= enough:
            return known
        if choice.way != "exact":
            seed, delta = self._draws.next()
            count, own = choice.count or _DRAWN, delta / len(points)
            drawn = sum(certificate.drawn(points, basis, left, count, seed, own))
            if drawn < bound:
                known = drawn, DELTA
            # Where there are no more landmarks a pass is cheaper than what comes then.
            if drawn <= enough or not self._is_last:
                return known
        exact = sum(certificate.exact(points, basis))
        return (exact, 0.0) if exact <= known[0] else known

    def _drawn_examples(self, rows: np.ndarray) -> _DrawnExamples:
        m, gram = self.gram.size, self.gram
        room = _MEMORY * min(gram.memory, 2 * gram.bytes)
        most = most_landmarks(m, room, _FEATURE_BYTES * m + _SAMPLE_BYTES * len(rows))
        return _DrawnExamples(self, rows, most)


class _DrawnExamples:
    """The problem on some of its examples, in the span of more and more landmarks."""

    is_hidden = False

    def __init__(self, run: SpanRun, rows: np.ndarray, most: int):
        self.is_whole = len(rows) == run.points.size
        self._run, self._rows, self._duals = run, rows, None
        self._points = run.points if self.is_whole else run.points.rows(rows)
        self._stop = Stop(_ON_SAMPLE * run.stop.tolerance, _SAMPLE_EPOCHS)
        self.landmarks = Landmarks(self._points, most, run.seed)

    @property
    def members(self) -> np.ndarray:
        """The landmarks, among all examples."""
        return self._rows[self.landmarks.members]

    @property
    def is_last(self) -> bool:
        """No more landmarks can be had, from all examples neither."""
        landmarks = self.landmarks
        return landmarks.is_full and (self.is_whole or not landmarks.is_exhausted)

    def forecast(self, enough: float) -> Forecast:
        """What the landmarks so far will give for all examples; see :func:`.sample.forecast`."""
        run, Z = self._run, np.ascontiguousarray(self.landmarks.features)
        self._duals, A, scale = run.solve_sample(Z, self._rows, self._stop, self._duals)
        return forecast(
            self._points, self.landmarks, A, INSIDE * run.stop.tolerance, scale,
            run.points.size, run.seed, enough,
        )  # fmt: skip
