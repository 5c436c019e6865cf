"""The kernel engine: models of few landmarks with certified gaps of the full problem.

Problem  min over w of P(w) = 1/2 |w|^2 + sum_i u_i l(t_i), a kernel that is positive
         semidefinite and a loss whose derivative has no jump; or several on the same examples,
         side by side: they differ in their y (one class against the rest), or in the examples
         that they leave out (folds).
Method   1. Examples that occur more than once become one, with the sum of their weights.
         2. Landmarks are chosen on a sample, and what they would give is forecast there
            (:mod:`odmtool.solvers.engine.sample`), until the cheapest certificate is in sight.
         3. Features of all examples, Newton's method in the landmarks' span.
            In single precision, and where that hides the solution in double.
        4. The certificate: free, by drawn rows, or by one pass.
         5. Where landmarks are not enough, Newton's method in function space
            (:mod:`odmtool.solvers.engine.full`), preconditioned by the features.
         Each step is taken once for all problems: with the landmarks, the features and a pass
         over K of one, those of the others cost matrix products only.
Stop     per problem, when a bound of the full problem's relative gap is at most the tolerance.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from odmtool.core import losses
from odmtool.core.deadline import Exceeded
from odmtool.core.gram import Gram
from odmtool.core.losses import MarginLoss
from odmtool.rows.compressed import compressed
from odmtool.rows.duplicates import first_of_each
from odmtool.rows.executor import Serial
from odmtool.solvers.base import (
    Problem,
    Progress,
    Solution,
    Stage,
    Stop,
    enter,
    ignore_progress,
    relative,
)
from odmtool.solvers.engine import brought, certificate, full, thinned
from odmtool.solvers.engine.certificate import SpanPoint
from odmtool.solvers.engine.choice import (
    DRAWN,
    Choice,
    choose,
    instead,
    is_better_left,
    is_misled,
)
from odmtool.solvers.engine.columns import Columns, solve_in_span
from odmtool.solvers.engine.cost import MOST, Cost
from odmtool.solvers.engine.features import Basis, Features, bounded, features
from odmtool.solvers.engine.points import Points
from odmtool.solvers.engine.reduced import FeatureSpace
from odmtool.solvers.engine.room import MEMORY, Room, together
from odmtool.solvers.engine.sample import HIDDEN, DrawnExamples, drawn_rows
from odmtool.solvers.untrained import with_a_bound

# So many times as many rows are drawn where some were too few, up to this share of the examples
# with duals: as dear as a pass.
# speed only: the bound knows how many rows were drawn
_AGAIN, _MOST_DRAWN = 5, 0.5
# The gap in the span, as a share of the tolerance; where every step is a pass.
# speed only: the gap is that of the whole problem, and more landmarks follow
_INSIDE, _THINNED = 1e-3, 0.02
# Of so many times what else is too much in the span, so many steps with gradients in double
# precision leave little, with features in single precision. Farther away they lead nowhere.
# speed only: the gap decides which precision is enough
_REFINABLE, _REFINED = 50.0, 2
# So many times what else is too much in the span, Newton's method beyond it repairs by the way.
# speed only: the gap decides which precision is enough
_REPAIRED = 15.0
# With more examples times landmarks than this, compiled code for sparse rows pays.
# speed only: compiled and plain kernel values are both certified
_SMALL = 6_000_000


def solve(
    problem: Problem, stop: Stop, *, seed: int = 0, start: np.ndarray | None = None,
    progress=ignore_progress, executor=None, slope: float | None = None,
) -> Solution | str:  # fmt: skip
    """Solve a kernel problem.

    Returns Solution or str: ``coef`` is nonzero for landmarks only, unless they were not enough.
    ``gap`` is a bound of the full problem's gap, ``failure`` the probability with which it may be
    wrong. Or the name of the solver that is cheaper where landmarks are not enough: "dcd" if there
    is a ``slope``, "newton" if another solver follows this one.

    Parameters
    ----------
    problem : Problem
        With a positive semidefinite kernel of rows that are known, and a loss whose derivative
        is continuous.
    start : ignored
        The sample's solution is a better start than another problem's.
    executor : optional
        See :mod:`odmtool.rows.executor`; it must share this process's memory.
    slope : float, optional
        The largest u l'' k(x, x), if coordinate descent can have the problem.
    """
    columns = Columns.of(problem.y[None], problem.weight, problem.loss)
    run, first, member = _run_of(columns, problem.gram, stop, seed, progress, executor)
    found = run.result(lambda taken: instead(taken, run.cost, stop.tolerance, slope, stop.follows))
    if isinstance(found, str):
        return found
    return with_a_bound(problem, _spread_out(columns, 0, found[0], first, member))


def solve_all(
    problems: list[Problem], stop: Stop, *, seed: int = 0, progress=ignore_progress, executor=None
) -> list[Solution]:
    """Solve problems that have everything but their y in common; otherwise as :func:`solve`."""
    (_, gram, _, u, loss), *_ = problems
    columns = Columns.of(np.array([problem.y for problem in problems]), u, loss)
    found = solve_columns(columns, gram, stop, seed=seed, progress=progress, executor=executor)
    return [with_a_bound(*known) for known in zip(problems, found, strict=True)]


def solve_columns(
    columns: Columns, gram: Gram, stop: Stop, *, seed: int = 0, progress=ignore_progress,
    executor=None,
) -> list[Solution]:  # fmt: skip
    """Solve problems on the same examples, of which each may leave some out (the folds).

    ``gram`` is that of all examples. ``coef`` is that of y = 1 where an example takes no part: it
    may be a landmark all the same.
    """
    count = together(len(columns.weight), columns.count, MEMORY * gram.memory)
    if count < columns.count:
        groups = [
            columns.take(np.arange(k, min(k + count, columns.count)))
            for k in range(0, columns.count, count)
        ]
        shared = {"seed": seed, "progress": progress, "executor": executor}
        return [found for some in groups for found in solve_columns(some, gram, stop, **shared)]
    run, first, member = _run_of(columns, gram, stop, seed, progress, executor)
    pairs = enumerate(run.result())
    return [_spread_out(columns, j, found, first, member) for j, found in pairs]


def _run_of(columns: Columns, gram: Gram, stop: Stop, seed: int, progress, executor):
    """The problems on their way, and which of their examples are the same."""
    X, columns, first, member = _merged(gram.X, columns)
    is_small = X.shape[0] * min(X.shape[0], 300) <= _SMALL
    if gram.kernel.name == "rbf" and not is_small:
        X = compressed(X)
    points = Points(gram.kernel, X, executor or Serial())
    run = EngineRun(columns, points, stop, seed, progress, MEMORY * gram.memory)
    return run, first, member


def _merged(X, columns: Columns):
    """The distinct examples: rows and problems; which these are, and which is which."""
    signs = np.concatenate([columns.signs > 0, columns.signs < 0])
    y = np.unique(np.packbits(signs, axis=0), axis=1, return_inverse=True)[1].ravel()
    first, member = first_of_each(X, y)
    if len(first) == len(y):
        return X, columns, first, member
    weight = np.bincount(member, columns.weight)
    return X[first], columns._replace(signs=columns.signs[:, first], weight=weight), first, member


def _spread_out(columns: Columns, j: int, found: Solution, first, member) -> Solution:
    """The solution of problem j for all examples from that for the distinct ones."""
    u = columns.weight
    coef = np.zeros(len(u))
    coef[first] = found.coef
    eta = found.eta[member] * u / np.bincount(member, u)[member]
    # Shares of a bound may be beyond it by a rounding.
    return found._replace(coef=coef, eta=losses.nearest_dual(columns.losses(j), eta))


def _is_better(new: Solution | None, old: Solution, tolerance: float) -> bool:
    """Whether a solution beyond the landmarks, if there is one, is better than that in their span.

    That is told by the gap, unless it is the bound only that is smaller, and P is higher.
    """
    if new is None:
        return False
    is_higher = new.primal - old.primal > tolerance * abs(old.primal)
    return new.converged or not (is_higher or new.gap > old.gap)


def _most_drawn(points: list[SpanPoint], left: np.ndarray) -> float:
    """As many drawn rows as cost what a pass for the points that are left does."""
    is_active = np.zeros(len(points[0].a), dtype=bool)
    for k in left:
        is_active |= points[k].a != 0
    return _MOST_DRAWN * np.count_nonzero(is_active)


class EngineRun:
    """Problems on their way.

    Parameters
    ----------
    points, stop, seed, progress
        As of :func:`solve`.
    memory : float
        Bytes.
    """

    def __init__(self, columns: Columns, points: Points, stop: Stop, seed: int, progress, memory):
        self.points, self.stop, self.seed = points, stop, seed
        self.Y, self._all, self._losses = columns.labels().astype(float), columns, {}
        self.largest_slope = losses.largest_slope(columns.loss) * columns.weight.max()
        self.iterations, self.draws, self._progress = 0, certificate.Seeds(seed), progress
        self._states = [(0.0, np.inf, 0)] * columns.count
        rows, room = drawn_rows(points.size, seed), Room.of(points.size, memory, columns.count)
        self.tile_room, self._columns, self._room = room.tiles, columns, room
        self.cost = Cost.of(points.X, room.tiles)
        self.sample = DrawnExamples(
            columns, points, rows, room.landmarks, seed, stop.tolerance,
            room.in_double(points.size, columns.count),
        )  # fmt: skip
        # speed only: the gap of the round after which examples were brought into the sample
        self._brought = np.inf
        self._found = None

    def losses(self, j: int) -> MarginLoss:
        """The losses of the examples in problem j; problems that are alike share them."""
        one = tuple(field[j] for field in self._all.loss)
        takes_all = self._all.signs[self._all.row[j]].all()
        key = one if takes_all else (*one, j)
        if key not in self._losses:
            self._losses[key] = self._all.losses(j)
        return self._losses[key]

    def report(self, j: int, iteration: int, primal: float, gap: float, active: int) -> None:
        """How problem j is doing; told are the sum and the worst of all."""
        self._states[j] = (primal, gap, active)
        self._tell(iteration)

    def enter(self, name: str, count: int, most: int = 0, seconds: float = 0.0) -> None:
        """Tell of a stage, see :class:`odmtool.solvers.base.Stage`."""
        enter(self._progress, Stage(name, count, most, seconds))

    def _tell(self, iteration: int) -> None:
        primals, gaps, counts = zip(*self._states, strict=True)
        # Some may have no bound yet, which of many examples takes minutes.
        if (gap := max(gaps)) < np.inf or self.points.size > MOST:
            gap = gap if gap < np.inf else np.nan
            self._progress(Progress(iteration, sum(primals), gap, max(counts)))

    def result(self, leaves_to: Callable = lambda taken: None) -> list[Solution] | str:
        """The solutions, or the solver that ``leaves_to(choice)`` leaves the problem to, if any."""
        try:
            return self._result(leaves_to)
        except Exceeded:
            return self._found
        finally:
            enter(self._progress, None)

    def _result(self, leaves_to: Callable) -> list[Solution] | str:
        self.enter("landmarks", 0)
        choice = choose(self.sample, self.cost, self.stop)
        # After the deadline the sample's landmarks are all that there is.
        if (other := leaves_to(choice)) and not self.stop.is_late:
            return other
        live = np.arange(self._columns.count)
        self._found = solutions = [None] * len(live)
        while True:
            count = len(self.sample.landmarks.members)
            self.enter("span", count)
            points, basis, found, space = self._in_span(choice, solutions[0] is not None)
            self._note(live, points, np.full(len(points), np.inf))
            self._tell(self.iterations)
            self.enter("certificate", count)
            gaps, failures = self._certify(points, basis, found, choice)
            nows = np.array([relative(g, p.scale) for g, p in zip(gaps, points, strict=True)])
            self._note(live, points, nows)
            self._tell(self.iterations)
            is_late, is_left = self.stop.is_late, ~(nows <= self.stop.tolerance)
            latest = [
                self._solution(j, points[k], basis, gaps[k], failures[k])
                for k, j in enumerate(live)
            ]
            for j, new in zip(live, latest, strict=True):
                old = solutions[j]
                is_better = old is None or (new.primal, new.gap) < (old.primal, old.gap)
                if is_better or new.converged:
                    solutions[j] = new
            if is_late or not is_left.any():
                return solutions
            left, live = np.flatnonzero(is_left), live[is_left]
            self._columns = self._columns.take(left)
            self.sample.take(left)
            gap = float(nows[left].max())
            expected = choice.forecast.exact if choice.forecast else gap
            self.enter("landmarks", count)
            choice = self._next(choice, gap, [points[k] for k in left], basis, found)
            if choice is None:
                self.enter("features", count)
                self.sample = None  # its features are large
                points, spaces = [points[k] for k in left], [space]
                if space is None:
                    if len(found.Z) < self.points.size:
                        found = None  # its features are large, too
                        found = self._of_all(basis)
                    spaces = [self._space(found, y) for y in self.Y[live]]
                basis = None  # so are its matrices
                # speed only: tiles that are not kept are made again
                self.tile_room = self._room.tiles_beside(found.Z, len(live))
                coefs = [latest[k].coef for k in left]
                further = full.solve(self, live, spaces, points, coefs, gaps[left], expected)
                for j, solution in zip(live, further, strict=True):
                    if _is_better(solution, solutions[j], self.stop.tolerance):
                        solutions[j] = solution
                return solutions

    def _next(self, choice: Choice, gap: float, points, basis, found: Features) -> Choice | None:
        """What follows on a gap above the tolerance; None: what needs no landmarks."""
        inside = max((point.inside + point.rounding) / point.scale for point in points)
        # Rounding in the span is more with more landmarks.
        is_full, has_all = choice.way == "full", len(found.Z) == self.points.size
        # With features of some, every step has had a gradient in double precision.
        if has_all and self.sample.sharpens(inside / _REPAIRED if is_full else inside):
            return choice
        if is_full or inside > self.stop.tolerance:
            return None
        landmarks, is_off = self.sample.landmarks, is_misled(choice, gap)
        known, tolerance = len(landmarks.members), self.stop.tolerance
        count = self._bring(gap, points, basis, found) if is_off else 0
        cost = self.cost._replace(is_hidden=self.sample.is_hidden)
        is_over = is_off and is_better_left(choice, gap, cost, tolerance, count)
        if is_over or (landmarks.is_full and not count):
            return None
        return choose(self.sample, self.cost, self.stop, known, count)

    # speed only: the gap is certified with any landmarks
    def _bring(self, gap: float, points: list[SpanPoint], basis: Basis, found: Features) -> int:
        """Bring the examples that make the gap into the sample, if they are few; how many."""
        sample = self.sample
        has_room = sample.landmarks.has_room and not sample.is_whole
        if not has_room or not brought.is_worth(gap, self._brought):
            return 0
        left = found.left
        if left is None:
            left = features(basis, certified=True, rows=np.arange(0), may_end=True).left
        rows = brought.far_examples(points, left - basis.error, sample.points.size)
        self._brought = gap
        return sample.bring(rows, left[rows], basis, self._columns)

    def _note(self, live, points: list[SpanPoint], gaps: np.ndarray) -> None:
        for j, point, gap in zip(live, points, gaps, strict=True):
            self._states[j] = (point.primal, float(gap), int(np.count_nonzero(point.a)))

    def _space(self, found: Features, y: np.ndarray) -> FeatureSpace:
        return FeatureSpace(found.Z, y, self.points.executor)

    def _in_span(
        self, choice: Choice, may_end: bool = False
    ) -> tuple[list[SpanPoint], Basis, Features, FeatureSpace | None]:
        """The solutions in the span of the landmarks, as points of the full problems.

        If it ``may_end``, it raises Exceeded when this takes too long after the deadline.
        """
        sample, m = self.sample, self.points.size
        basis = Basis(self.points, sample.members, sample.landmarks.factor)
        rows = thinned.kept_rows(m, self.seed)
        # speed only: when compiled code is loaded
        self.points.expect(m * (2 * len(basis.members) + choice.count), in_all=True)
        if sample.is_whole:
            found = Features(sample.Z, bounded(sample.landmarks.left, basis))
        else:
            sample.rest()
            found = self._features(basis, rows, choice.way in ("free", "drawn"), may_end)
        inside, executor = _INSIDE * self.stop.tolerance, self.points.executor
        if rows is not None or not len(found.Z):
            sample.W, points, steps = thinned.solve(
                basis, found.Z, rows, self._columns, sample.W, _THINNED * self.stop.tolerance
            )
            self.iterations += steps
            return points, basis, found, None
        sample.W, steps, space = solve_in_span(found.Z, self._columns, sample.W, inside, executor)
        points = certificate.evaluate(basis, self._columns, sample.W)
        if choice.way != "full" and not sample.is_hidden and self._is_near(points):
            sample.W, points, more = thinned.refined(
                basis, found.Z, self._columns, self._columns, sample.W, points,
                HIDDEN * self.stop.tolerance, _REFINED,
            )
            steps += more
        self.iterations += steps
        return points, basis, found, space

    # speed only: the gap decides which precision is enough
    def _is_near(self, points: list[SpanPoint]) -> bool:
        """Whether a few more steps are enough in the span."""
        inside = max(point.inside / point.scale for point in points)
        return inside <= _REFINABLE * HIDDEN * self.stop.tolerance

    def _features(self, basis: Basis, rows, certified: bool, may_end: bool) -> Features:
        """The features; none where they take too long, as the sample has a solution."""
        none = Features(np.empty((0, 0)), None)
        # They are for steps, of which none follows.
        if self.stop.is_late and not certified:
            return none
        try:
            dtype = self.sample.dtype
            return features(basis, certified=certified, rows=rows, dtype=dtype, may_end=True)
        except Exceeded:
            if may_end:
                raise
            return none

    def _of_all(self, basis: Basis) -> Features:
        """Features of all examples, with as many landmarks as there is room for."""
        r = self._room.beyond(self.points.size, len(basis.members))
        basis = Basis(self.points, basis.members[:r], basis.factor[:r, :r])
        return features(basis, certified=False, may_end=True)

    def _certify(self, points, basis, found: Features, choice: Choice):
        """P - D of the points or bounds of it, and the probabilities that these are wrong."""
        enough = self.stop.tolerance * np.array([point.scale for point in points])
        bound, failure = np.full(len(points), np.inf), np.zeros(len(points))
        count, is_last = choice.count, self.sample.landmarks.is_full
        if found.left is not None:
            bound = np.array([certificate.free(point, found.left) for point in points])
            if np.all(bound <= enough):
                return bound, failure
            if choice.way == "free" and not is_last:
                # Drawn rows, or a pass, prove what only bounds of the errors of e_i keep it from.
                known = found.left - basis.error
                least = np.array([certificate.free(point, known) for point in points])
                if np.any(least > enough):
                    return bound, failure
            # Where there are no more landmarks, rows are cheaper than what comes then.
            count = count or DRAWN[0]
        is_given_up = found.left is None and choice.way in ("free", "drawn")
        if choice.way == "full" or is_given_up:
            return bound, failure
        left = np.flatnonzero(~(bound <= enough))
        while left.size and choice.way != "exact" and count < _most_drawn(points, left):
            drawn, least = self._drawn([points[k] for k in left], basis, found, count)
            bound[left], failure[left] = np.minimum(bound[left], drawn), certificate.DELTA
            # Neither more rows nor a pass would prove what is not so: more landmarks are wanted.
            # speed only: whether more rows are drawn before a pass or more landmarks
            is_open = ~(bound[left] <= enough[left]) & (least <= enough[left])
            left, count = left[is_open], _AGAIN * count
            if self.stop.is_late:
                break
        is_late = self.stop.is_late and count < _most_drawn(points, left)
        if left.size and not (is_late and np.all(bound[left] < np.inf)):
            exact = np.array(certificate.exact([points[k] for k in left], basis))
            failure[left] = np.where(exact <= bound[left], 0.0, failure[left])
            bound[left] = np.minimum(bound[left], exact)
        return bound, failure

    def _drawn(self, points, basis, found: Features, count: int) -> tuple[list, np.ndarray]:
        """Bounds of P - D, and what it is at least, almost certainly."""
        seed, delta = self.draws.next()
        drawn = certificate.outsides(points, basis, found.left, count, seed)
        bounds = certificate.bounds(points, basis, drawn, count, delta)
        return bounds, certificate.expected(points, drawn, count)

    def _solution(self, j: int, point: SpanPoint, basis: Basis, gap, failure) -> Solution:
        now, coef = relative(gap, point.scale), np.zeros(self.points.size)
        coef[basis.members] = self.Y[j][basis.members] * point.alpha
        return Solution(
            None, coef, point.eta, point.primal, float(point.primal - gap), now, self.iterations,
            now <= self.stop.tolerance, "landmarks", failure=float(failure),
        )  # fmt: skip
