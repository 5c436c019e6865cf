"""The kernel engine: a model of few landmarks with a certified gap of the full problem.

Problem  min over w of P(w) = 1/2 |w|^2 + sum_i u_i l(t_i), a kernel that is positive
         semidefinite and a loss whose derivative has no jump.
Method   1. Examples that occur more than once become one, with the sum of their weights.
         2. Landmarks are chosen on a sample, and what they would give is forecast there
            (:mod:`odmtool.solvers.engine.sample`), until the cheapest certificate is in sight.
         3. Features of all examples, Newton's method in the landmarks' span.
         4. The certificate: free, by drawn rows, or by one pass.
         5. Where landmarks are not enough, Newton's method in function space
            (:mod:`odmtool.solvers.engine.full`), preconditioned by the features.
Stop     when a bound of the full problem's relative gap is at most the tolerance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool.core import losses
from odmtool.rows.compressed import compressed
from odmtool.rows.duplicates import first_of_each
from odmtool.rows.executor import Serial
from odmtool.solvers import newton
from odmtool.solvers.base import (
    Problem,
    Progress,
    ProgressCallback,
    Solution,
    Stop,
    ignore_progress,
    relative,
)
from odmtool.solvers.engine import certificate
from odmtool.solvers.engine.certificate import Evaluation
from odmtool.solvers.engine.choice import Choice, choose, most_landmarks
from odmtool.solvers.engine.columns import Columns
from odmtool.solvers.engine.cost import Cost
from odmtool.solvers.engine.features import Basis, Features, bounded, features
from odmtool.solvers.engine.points import Points
from odmtool.solvers.engine.reduced import FeatureSpace
from odmtool.solvers.engine.sample import DrawnExamples, drawn_rows, sample_size

# Rows drawn where the free bound turned out to be too large.
_DRAWN = 10_000
# The gap in the span, as a share of the tolerance.
_INSIDE = 1e-3
# Of the memory that may be taken; the rest is for copies on the way.
_MEMORY = 0.8
# Tiles above the diagonal, in units of the memory, of which keeping some still pays.
_TILES_WORTH = 8
# Bytes of a number of the sample's features, which are there twice; of the landmarks' matrices.
_OF_SAMPLE, _SQUARES = 8 + 4, 3 * 8
# Rows of a tile, all of whose values are kept where it lies on the diagonal.
_TILE = 1024
# Fewer kernel values than this are made before compiled code has been loaded.
_SMALL = 3_000_000


class Room(NamedTuple):
    """How a problem of m examples divides the memory.

    Attributes
    ----------
    sample : int
        Examples on which landmarks are chosen.
    tiles : float
        Bytes for tiles of the kernel matrix.
    landmarks : int
        At most.
    """

    sample: int
    tiles: float
    landmarks: int

    @classmethod
    def of(cls, m: int, memory: float) -> Room:
        """Half is for tiles, unless so few of them could be kept that it makes no difference."""
        sample = sample_size(m)
        tiles = memory / 2 if 2.0 * m * m <= _TILES_WORTH * memory else 0.0
        return cls(sample, tiles, most_landmarks(m, memory - tiles, 4 * m + 8 * sample))


def needed_bytes(m: int, memory: float) -> float:
    """What a problem of m examples takes at most of ``memory``, rows and vectors apart.

    Tiles above the diagonal; features of all examples in single precision and of the sample in
    both; and matrices of landmarks by landmarks.
    """
    room = Room.of(m, _MEMORY * memory)
    r = room.landmarks
    features = r * (4.0 * m + _OF_SAMPLE * room.sample)
    return min(room.tiles, 2.0 * m * (m + _TILE)) + features + _SQUARES * r * r


def solve(
    problem: Problem,
    stop: Stop,
    *,
    seed: int = 0,
    start: np.ndarray | None = None,
    progress: ProgressCallback = ignore_progress,
    executor=None,
) -> Solution:
    """Solve a kernel problem; parameters as in :func:`odmtool.solvers.newton.solve`.

    Parameters
    ----------
    problem : Problem
        With a positive semidefinite kernel of rows that are known, and a loss whose derivative
        is continuous.
    seed : int
        Seeds the sample, the landmarks and the drawn rows.
    start : ignored
        The sample's solution is a better start than another problem's.
    executor : optional
        See :mod:`odmtool.rows.executor`; it must share this process's memory.

    Returns
    -------
    Solution
        ``coef`` is nonzero for landmarks only, unless they were not enough. ``gap`` is a bound
        of the full problem's gap, ``failure`` the probability with which it may be wrong.
    """
    X, y, u, first, member = _merged(problem)
    smaller = Problem(None, None, y, u, problem.loss)
    kernel = problem.gram.kernel
    if kernel.name == "rbf":
        X = compressed(X)
    is_small = len(y) * min(len(y), 300) <= _SMALL
    points = Points(kernel, X, executor or Serial(), compiled=not is_small)
    found = EngineRun(smaller, points, stop, seed, progress, _MEMORY * problem.gram.memory).result()
    return _spread_out(problem, found, first, member)


def _merged(problem: Problem):
    """The distinct examples: rows, y and weights, and which is which."""
    X, y, u = problem.gram.X, problem.y, problem.weight
    first, member = first_of_each(X, y)
    if len(first) == len(y):
        return X, y, u, first, member
    return X[first], y[first], np.bincount(member, u), first, member


def _spread_out(problem: Problem, found: Solution, first, member) -> Solution:
    """The solution for all examples from that for the distinct ones."""
    coef = np.zeros(problem.size)
    coef[first] = found.coef
    total = np.bincount(member, problem.weight)
    eta = found.eta[member] * problem.weight / total[member]
    # Shares of a bound may be beyond it by a rounding.
    own = losses.scaled(problem.loss, problem.weight)
    return found._replace(coef=coef, eta=losses.nearest_dual(own, eta))


class EngineRun:
    """One problem on its way; parameters of :func:`solve`."""

    def __init__(self, problem, points: Points, stop: Stop, seed: int, progress, memory: float):
        self.problem, self.points, self.stop, self.seed = problem, points, stop, seed
        self.progress, self.memory = progress, memory
        self.loss = losses.scaled(problem.loss, problem.weight)
        self.cost = Cost.of(points.X)
        self.iterations, self.draws = 0, 0
        rows, room = drawn_rows(points.size, seed), Room.of(points.size, memory)
        self.tile_room = room.tiles
        self.sample = DrawnExamples(problem, points, rows, room.landmarks, seed, stop.tolerance)

    def result(self) -> Solution:
        choice = choose(self.sample, self.cost, self.stop)
        while True:
            point, basis, found, space = self._in_span(choice)
            gap, failure = self._certify(point, basis, found, choice)
            now = relative(gap, point.scale)
            self.progress(
                Progress(self.iterations, point.primal, now, int(np.count_nonzero(point.a)))
            )
            if now <= self.stop.tolerance or self.stop.is_late:
                return self._solution(point, basis, gap, failure)
            if choice.way == "full" or self.sample.landmarks.is_full:
                # Not before it is needed: it loads compiled code.
                from odmtool.solvers.engine import full

                coef, self.sample = self._coef(point, basis), None  # its features are large
                return full.solve(self, space, point, coef, gap)
            known = len(self.sample.landmarks.members)
            choice = choose(self.sample, self.cost, self.stop, known)

    def _in_span(self, choice: Choice) -> tuple[Evaluation, Basis, Features, FeatureSpace]:
        """The solution in the span of the landmarks, as a point of the full problem."""
        sample = self.sample
        basis = Basis(self.points, sample.members, sample.factor)
        if sample.is_whole:
            found = Features(sample.Z, bounded(sample.landmarks.left, basis))
        else:
            sample.rest()
            found = features(basis, certified=choice.way in ("free", "drawn"))
        space = FeatureSpace(found.Z, self.problem.y, self.points.executor, sample.w)
        stop = Stop(_INSIDE * self.stop.tolerance, 60)
        solution = newton.solve(self.problem, stop, space=space)
        self.iterations += solution.iterations
        self.sample.w = solution.w
        columns = Columns.of(self.problem)
        (point,) = certificate.evaluate(basis, columns, solution.w[:, None])
        return point, basis, found, space

    def _certify(self, point, basis, found: Features, choice: Choice) -> tuple[float, float]:
        """P - D or a bound of it, and the probability that this is wrong."""
        enough, count = self.stop.tolerance * point.scale, choice.count
        bound, is_last = np.inf, self.sample.landmarks.is_full
        if found.left is not None:
            bound = certificate.free(point, found.left)
            if bound <= enough or (choice.way == "free" and not is_last):
                return bound, 0.0
            # Where there are no more landmarks, these are cheaper than what comes then.
            count = count or _DRAWN
        if choice.way == "full":
            return bound, 0.0
        if choice.way != "exact" and 2 * count < self.points.size:
            drawn, failure = self._drawn(point, basis, found, count)
            if drawn <= enough:
                return drawn, failure
            bound = min(bound, drawn)
        return min(bound, *certificate.exact([point], basis)), 0.0

    def _drawn(self, point, basis, found: Features, count: int) -> tuple[float, float]:
        self.draws += 1
        delta = certificate.DELTA / 2**self.draws
        seed = (self.seed, self.draws)
        bound = certificate.drawn(point, basis, found.left, count, seed, delta)
        return bound, certificate.DELTA

    def _coef(self, point: Evaluation, basis: Basis) -> np.ndarray:
        coef = np.zeros(self.points.size)
        coef[basis.members] = self.problem.y[basis.members] * point.alpha
        return coef

    def _solution(self, point: Evaluation, basis: Basis, gap: float, failure: float) -> Solution:
        now = relative(gap, point.scale)
        return Solution(
            None, self._coef(point, basis), point.eta, point.primal, float(point.primal - gap), now,
            self.iterations, now <= self.stop.tolerance, "landmarks", failure=failure,
        )  # fmt: skip
