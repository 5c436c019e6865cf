"""What so many landmarks would give, found out on a sample of the examples.

The relative gap of a model in the span of landmarks and its bounds hardly depend on the number
of examples: the sums that they are made of grow with it as P does. So the problem is solved on
some thousand examples while landmarks are added, with warm starts, and what its bounds are there
is what they will be, about, for all examples. Only then anything is done with all examples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool.core import losses
from odmtool.solvers import newton
from odmtool.solvers.base import Problem, Stop, relative
from odmtool.solvers.engine import certificate
from odmtool.solvers.engine.certificate import Draw
from odmtool.solvers.engine.landmarks import Landmarks
from odmtool.solvers.engine.points import Points
from odmtool.solvers.engine.reduced import FeatureSpace

_STEPS = 60
# Rows drawn to estimate what landmarks leave.
_DRAWN = 400
# A sample's own landmarks leave less of it than of other examples.
_SAFETY = 1.2


class Forecast(NamedTuple):
    """What r landmarks are expected to give, relative to S.

    Attributes
    ----------
    landmarks : int
    free : float
        The bound without a look at K.
    inside : float
        The gap in the span.
    outside : Draw
        T, mean and variance of the drawn rows, in units of S.
    active : float
        The share of examples with a dual variable.
    """

    landmarks: int
    free: float
    inside: float
    outside: Draw
    active: float

    @property
    def exact(self) -> float:
        """The gap itself."""
        return self.inside + max(self.outside.mean, 0.0) / 2

    def drawn(self, count: int) -> float:
        """The bound by so many drawn rows."""
        return self.inside + self.outside.bound(count) / 2


class DrawnExamples:
    """A problem on some of its examples, in the span of more and more landmarks.

    Parameters
    ----------
    problem : Problem
        All examples.
    points : Points
        All examples.
    rows : int array
        The sample, ascending.
    most : int
        Landmarks at most.
    seed : int
    """

    def __init__(self, problem: Problem, points: Points, rows: np.ndarray, most: int, seed: int):
        self.is_whole = len(rows) == points.size
        self._rows, self._seed = rows, seed
        self.points = points if self.is_whole else points.rows(rows)
        share = problem.weight.sum() / problem.weight[rows].sum()
        self.problem = problem._replace(
            gram=None, y=problem.y[rows], weight=problem.weight[rows] * share
        )
        self.landmarks = Landmarks(self.points, most, seed)
        self.w, self.iterations, self._Z = np.zeros(0), 0, None

    @property
    def members(self) -> np.ndarray:
        """The landmarks, among all examples."""
        return self._rows[self.landmarks.members]

    @property
    def factor(self) -> np.ndarray:
        """The Cholesky factor of the landmarks' kernel matrix."""
        return np.tril(self.landmarks.features[self.landmarks.members])

    @property
    def Z(self) -> np.ndarray:
        """The features in single precision, shape (n, r)."""
        r = len(self.landmarks.members)
        if self._Z is None or self._Z.shape[1] < r:
            self._Z = self.landmarks.features.astype(np.float32)
        return self._Z

    def solve(self, tolerance: float) -> newton.Solution:
        """Solve the problem in the span of the landmarks so far."""
        space = FeatureSpace(self.Z, self.problem.y, self.points.executor, self.w)
        solution = newton.solve(self.problem, Stop(tolerance, _STEPS), space=space)
        self.w, self.iterations = solution.w, self.iterations + solution.iterations
        return solution

    def forecast(self, tolerance: float) -> Forecast:
        """What the landmarks so far will give for all examples."""
        solution = self.solve(tolerance)
        y, landmarks, Z = self.problem.y, self.landmarks, self.landmarks.features
        a, scale = y * solution.eta, self._scale(solution)
        r = len(landmarks.members)
        own = 1.0 if self.is_whole else _SAFETY * len(a) / (len(a) - r + 1)
        left, image = own * landmarks.left, Z.T @ a[:, None]
        (outside,) = certificate.draw(
            self.points, a[:, None], left, lambda some: Z[some] @ image, _DRAWN, self._seed
        )
        free = min(left.sum() * (a @ a), outside.total**2) / 2
        outside = Draw(
            outside.total / np.sqrt(scale), own * outside.mean / scale,
            own**2 * outside.variance / scale**2,
        )  # fmt: skip
        inside = max(solution.gap, 0.0)
        return Forecast(r, inside + relative(free, scale), inside, outside, float((a != 0).mean()))

    def _scale(self, solution) -> float:
        loss = losses.scaled(self.problem.loss, self.problem.weight)
        t = self.problem.y * (self.Z @ solution.w.astype(np.float32))
        return float(solution.w @ solution.w / 2 + np.abs(losses.value(loss, t)).sum())
