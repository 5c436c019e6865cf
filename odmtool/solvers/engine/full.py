"""Newton's method in function space with conjugate gradients, preconditioned by features.

Problem  as in :mod:`odmtool.solvers.engine.solve`, where no affordable number of landmarks is
         enough. The unknown is a = y coef, w = sum_i a_i phi(x_i), f = K a.
Update   with the slopes s_i = u_i l''(t_i) and the duals eta that the margins demand, the Newton
         point a + d solves, with h = y eta - a,

             d_i + s_i (K d)_i = h_i.

         Where s_i = 0 this is d_i = h_i; on the other, active, examples, with d = S^1/2 z there
         and h' = h elsewhere,

             (I + S^1/2 K S^1/2) z = S^-1/2 h - S^1/2 (K h')

         is solved by conjugate gradients, with products between active examples; one product
         for all examples follows, K (a + d). The preconditioner has Z Z' in place of K;
         by Woodbury's formula it is I - W (I + W'W)^-1 W', W = S^1/2 Z, whose matrix is the
         Hessian of the problem in the landmarks' span. The whole step is taken where P - D there
         is smaller, else the exact minimum of P along it.
         The gradients stop at a residual of 0.03 sqrt(2 (P - D)), the distance of w from the
         optimum, or of 0.3 times what that is at the tolerance. D is the largest so far, or that
         of eta, P - D(eta) = 1/2 |w - w(eta)|^2: of landmarks the coefficients are far from duals.
         Their products are of values rounded to two bytes, where these are at hand
         (:mod:`odmtool.solvers.engine.products`) and what that changes in the residual is below
         the one at which they stop; after a short step no longer.
Stop     when P - D, with coef itself as the dual point, is at most the tolerance:

             sum_i [u_i l(t_i) + eta_i t_i - min_t (u_i l(t) + eta_i t)] + 1/2 |w - w(eta)|^2,

         eta = coef where the dual is finite, else the nearest such point; the last term then is
         bounded by (sum_i |coef_i - eta_i| sqrt(k(x_i, x_i)))^2. Products with K are in single
         precision, kept in memory if they fit; the certificate is computed in double precision,
         from some rows of K where these prove it (:mod:`odmtool.solvers.engine.checked`), else by
         one more pass.
         Of several problems every one asks for a product and waits, so that one pass over K
         serves all; passes in double precision come when none asks for another.
Source   Chapelle, Neural Computation 19, 2007; Rudi, Carratino & Rosasco, "FALKON", NIPS 2017;
         Frangella, Tropp & Udell, "Randomized Nystrom preconditioning", 2021.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np
from numpy.linalg import LinAlgError

from odmtool.core import deadline, losses
from odmtool.core.deadline import Exceeded
from odmtool.solvers.base import Solution, not_worse_than_zero, relative
from odmtool.solvers.engine import checked
from odmtool.solvers.engine.certificate import SpanPoint
from odmtool.solvers.engine.checked import Known
from odmtool.solvers.engine.choice import DRAWN
from odmtool.solvers.engine.cost import Cost, passes
from odmtool.solvers.engine.products import CODED, Asked, Products
from odmtool.solvers.engine.reduced import FeatureSpace
from odmtool.solvers.newton.factor import gradient_steps
from odmtool.solvers.newton.newton import step_length
from odmtool.solvers.rounding import sum_error

# The residual at which conjugate gradients stop, as a share of sqrt(2 (P - D)).
# speed only: the gap decides when it ends, not how precise a step was
_RESIDUAL = 0.03
# After a step that is shorter values are no longer rounded to two bytes.
# speed only: the gap decides when it ends, not how precise a step was
_SHORT = 0.1
# And no smaller residual than so many times that of a gap which is small enough.
# speed only: the gap decides when it ends, not how precise a step was
_ENOUGH = 0.3
# speed only: the gap decides when it ends, not how precise a step was
_GRADIENTS = 200
# A gap in single precision must be below this share of the tolerance to be looked at in double.
# speed only: no gap counts before it was looked at in double precision
_SURE = 0.9
# Drawn rows are cheaper than a pass up to this share of all, divided by the problems.
# speed only: both end with a certificate
_ROWS_SHARE = 1 / 8
# Seconds for drawn rows where the time is over.
# speed only: the bound knows how many rows were drawn
_LATE = 3.0
# Examples from which the gap of a point is estimated, and the share of the tolerance it may have.
# speed only: from which of two points it goes on
_LOOKED_AT, _EXPECTED, _ROWS = 600, 0.7, 2048
# So many steps that lower neither the gap by this share, nor P by this share of what it may still
# fall: single precision hides the way. So it does where as many products as two steps may take
# have lowered neither.
_PATIENCE, _FALL = 5, 1e-3
_IN_VAIN = 2 * _GRADIENTS
# Where Newton's method on the whole matrix follows: products per example, which take about as long
# as it does.
# speed only: which of the two solves the problem
_PRODUCTS = 2 / 3
# Below this relative gap single precision is all that moves.
_LEAST = 1e-7


# It yields products to be made, and returns something.
Course = Generator[Asked, np.ndarray, object]


class FullNewton:
    """The state of the method for one problem.

    Parameters
    ----------
    run : odmtool.solvers.engine.solve.EngineRun
    j : int
        Which of the run's problems.
    space : FeatureSpace
        Of the landmarks; its Hessian is the preconditioner's.
    point : odmtool.solvers.engine.certificate.SpanPoint
        The solution in the landmarks' span.
    coef : ndarray, shape (m,)
        Its coefficients.
    count : int
        So many problems share passes.
    """

    def __init__(self, run, j: int, space: FeatureSpace, point: SpanPoint, coef, count: int = 1):
        self._most_rows = int(_ROWS_SHARE * len(coef) / count)
        self.y, self.loss, self.points, self._space = run.Y[j], run.losses(j), run.points, space
        self.a, self.f = self.y * coef, point.f.copy()
        self._is_far = self._is_rounding_harmless = True
        self.products = 0  # of conjugate gradients
        # The sum of the |v|_1 of the products K v of which f is made.
        self._size = np.abs(coef).sum()

    def renew(self, *, exactly: bool) -> Course:
        """f by one product; in double precision, or single."""
        self.f, self._size = (yield Asked(self.a, exactly=exactly)), np.abs(self.a).sum()

    def shares(self, t: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """The examples' shares of P - D, at margins t, eta the dual point of which w is made."""
        return losses.value(self.loss, t) + eta * t - losses.dual_value(self.loss, eta)

    def values(self) -> tuple[float, float, float, np.ndarray]:
        """P, S, P - D, and the dual point."""
        t, coef = self.y * self.f, self.y * self.a
        eta = losses.nearest_dual(self.loss, coef)
        own, shares = losses.value(self.loss, t), self.shares(t, eta)
        off = np.abs(coef - eta) @ np.sqrt(self.points.diagonal)
        half = self.a @ self.f / 2
        gap = max(0.0, float(shares.sum())) + off**2 / 2
        return float(half + own.sum()), float(half + np.abs(own).sum()), float(gap), eta

    def primal_at(self, s: float) -> tuple[float, float]:
        """P and S of s w."""
        own, half = losses.value(self.loss, s * self.y * self.f), s * s * (self.a @ self.f) / 2
        return float(half + own.sum()), float(half + np.abs(own).sum())

    def rounding(self) -> float:
        """What the rounding errors of f in double precision can have changed in P - D."""
        points = self.points
        size = 2 * sum_error(points.size) * points.diagonal.max()
        off = (points.value_error + size) * np.abs(self.a).sum()
        t, coef = self.y * self.f, self.y * self.a
        tilt = np.abs(losses.derivative(self.loss, t) + coef).sum()
        return float(off * tilt + off**2 / 2 * losses.slopes_largest(self.loss).sum())

    def _known(self, eta: np.ndarray) -> Known:
        return Known(self.y, self.a, self.f, eta, self._size, self.loss)

    def is_hopeful(self, tolerance: float) -> bool:
        """Whether drawn rows may prove the tolerance at margins about these."""
        _primal, scale, _gap, eta = self.values()
        known = self._known(eta)._replace(size=np.abs(self.a).sum())
        return checked.is_hopeful(self.points, known, tolerance * scale, self._most_rows)

    def certain(self, drawn: Callable, tolerance: float) -> Course:
        """``values()`` with what rounding can have changed in P - D, and how likely that is wrong.

        By rows that are drawn where they prove the relative gap, or where a pass is given up after
        the deadline, else by a pass.
        """
        primal, scale, gap, eta = self.values()
        known, allowed = self._known(eta), tolerance * scale - gap
        more = checked.more(self.points, known, allowed, self._most_rows, drawn)
        if relative(gap + more.gap, scale) <= tolerance:
            return primal + more.primal, scale, gap + more.gap, eta, more.failure
        try:
            yield from self.renew(exactly=True)
        except Exceeded:
            more = checked.more(self.points, known, np.inf, self._rows_in_time(), drawn)
            return primal + more.primal, scale, gap + more.gap, eta, more.failure
        primal, scale, gap, eta = self.values()
        return primal, scale, gap + self.rounding(), eta, 0.0

    def _rows_in_time(self) -> int:
        """Rows of K to draw where the time is over."""
        active, cost = np.count_nonzero(self.a), Cost.of(self.points.X)
        return max([n for n in DRAWN if cost.rows(n, active) <= _LATE], default=DRAWN[0])

    def step(self, gap: float, least: float, enough: float) -> Course:
        """A Newton step; ``gap`` is P - D for any dual point, the best that is known.

        Where P - D is below ``least`` it is rounding; ``enough`` is what it need not be below.
        Returns ``values()``; raises LinAlgError where numbers overflow.
        """
        y, t = self.y, self.y * self.f
        slopes, demanded = losses.slope(self.loss, t), -y * losses.derivative(self.loss, t)
        if self._is_far:
            # Products for all examples are dear, so this one is for those that matter.
            some = (slopes > 0) | (demanded != 0)
            at_demanded = yield Asked(demanded, some, roughly=True)
            apart = self.a @ self.f - 2 * (demanded @ self.f) + demanded @ at_demanded
            gap = min(gap, max(apart / 2, least))
        # speed only: the gap decides when it ends, not how precise a step was
        accuracy = max(_RESIDUAL * np.sqrt(2 * gap), _ENOUGH * np.sqrt(2 * enough))
        change = demanded - self.a
        roughly = self._is_rounding_harmless and rounded_residual(slopes, change) <= accuracy
        change = yield from self._direction(slopes, change, accuracy, roughly)
        target = self.a + change
        at_target = yield Asked(target)
        before, self.a, self.f = (self.a, self.f), target, at_target
        found, size = self.values(), np.abs(target).sum()
        self._is_far = not found[2] < gap
        if not self._is_far:
            self._size = size
            return found
        self.a, self.f = before
        direction, change = target - self.a, at_target - self.f
        products = (direction @ self.f, direction @ change)
        step = step_length(self.loss, t, y * change, products)
        self._is_rounding_harmless &= step >= _SHORT
        a, f = self.a + step * direction, self.f + step * change
        if not np.isfinite(a @ f):
            raise LinAlgError
        self.a, self.f, self._size = a, f, abs(1 - step) * self._size + abs(step) * size
        return self.values()

    def _direction(self, slopes, change, accuracy: float, roughly: bool) -> Course:
        """d with d_i + s_i (K d)_i = change_i, to ``accuracy``."""
        active, direction = slopes > 0, np.where(slopes > 0, 0.0, change)
        rows, root = np.flatnonzero(active), np.sqrt(slopes[active])
        residual = change[rows] / root
        if direction.any():
            residual -= root * (yield Asked(direction, active, roughly=roughly))[rows]
        steps = gradient_steps(
            residual, self._space.preconditioner(slopes, rows, root), atol=accuracy,
            most=_GRADIENTS, is_over=deadline.is_over,
        )  # fmt: skip
        direction[rows] = root * (yield from self._in_function_space(steps, active, root, roughly))
        return direction

    def _in_function_space(self, steps: Course, active, root, roughly: bool) -> Course:
        """What ``steps`` come to with the matrix I + S^1/2 K S^1/2 of the active examples."""
        answer = None
        try:
            while True:
                z = steps.send(answer)
                v = np.zeros(len(active))
                v[active] = root * z
                self.products += 1
                product = yield Asked(v, active, roughly=roughly)
                answer = z + root * product[active]
        except StopIteration as end:
            return end.value


def rounded_residual(slopes: np.ndarray, d: np.ndarray) -> float:
    """About the norm of what values rounded to two bytes change in S^1/2 K d.

    Errors of the values are taken for independent, as in
    :meth:`odmtool.solvers.engine.products.Products.of`. The coefficients of landmarks may be
    millions that cancel, and then nothing but rounding would be left.
    """
    return float(np.sqrt(slopes.sum()) * CODED * np.linalg.norm(d))


# speed only: from which of two points it goes on
def _expected_gaps(run, newtons: list[FullNewton], duals: np.ndarray) -> np.ndarray:
    """Estimates of P - D at the columns of ``duals``, from some examples."""
    size, points = np.abs(duals), run.points
    # Outliers and examples of large weight have large duals.
    shares = size / np.maximum(size.sum(axis=0), np.finfo(float).tiny)
    chance = (shares.mean(axis=1) + 1 / len(duals)) / 2
    chance /= chance.sum()
    rows = np.random.default_rng(run.seed).choice(len(duals), _LOOKED_AT, p=chance)
    active, product = np.flatnonzero(duals.any(axis=1)), np.zeros((len(rows), len(newtons)))
    for k in range(0, len(active), _ROWS):
        some = active[k : k + _ROWS]
        product += points.values(points.X[rows], points.X[some]) @ duals[some]
    found = []
    for newton, a, f in zip(newtons, duals.T, product.T, strict=True):
        t = np.zeros(len(a))
        t[rows] = newton.y[rows] * f
        found.append(np.mean(newton.shares(t, newton.y * a)[rows] / chance[rows]))
    return np.array(found)


def _course(run, j: int, newton: FullNewton, primal: float, gap: float, is_near: bool) -> Course:
    """Problem j from the landmarks' P and P - D on; returns a Solution, or None: it is too late."""
    tolerance, highest = run.stop.tolerance, primal - gap
    iterations, waited, spent, least, lowest, failure = 0, 0, 0, np.inf, np.inf, 0.0
    # speed only: whether the first look is in double precision, or the last one
    is_certain = not is_near or not newton.is_hopeful(tolerance)
    if is_near:
        try:
            yield from newton.renew(exactly=is_certain)
        except Exceeded:
            return None
    found, scale, gap, eta = newton.values()
    # That of the landmarks was told; summed up in another order it may seem to rise.
    primal = found if is_near else primal
    if is_certain:
        gap += newton.rounding()
    while True:
        now = relative(gap, scale)
        # speed only: no gap counts before it was looked at in double precision
        if now <= _SURE * tolerance and not is_certain:
            primal, scale, gap, eta, failure = yield from newton.certain(run.draws.next, tolerance)
            is_certain, now = True, relative(gap, scale)
        run.report(j, run.iterations + iterations, primal, now, int(np.count_nonzero(newton.a)))
        highest = max(highest, primal - gap)
        is_lower = lowest - primal > _FALL * max(primal - highest, _LEAST * scale)
        is_better = is_lower or now < (1 - _FALL) * least
        # speed only: when it is given up
        waited, spent = (0, newton.products) if is_better else (waited + 1, spent)
        least, lowest = min(now, least), min(primal, lowest)
        is_stuck = waited >= _PATIENCE or newton.products - spent >= _IN_VAIN
        is_dear = run.stop.follows and newton.products > _PRODUCTS * len(newton.a)
        is_over = iterations >= run.stop.max_iter or is_stuck or is_dear
        if (is_certain and now <= tolerance) or is_over or not now >= _LEAST:
            break
        try:
            floor = _LEAST * scale
            far, enough = max(primal - highest, floor), tolerance * scale
            primal, scale, gap, eta = yield from newton.step(far, floor, enough)
        except LinAlgError:
            break  # singular to working precision: no better step can be had
        except Exceeded:
            break  # the point is that before the step
        iterations, is_certain = iterations + 1, False
    if not is_certain:
        primal, scale, gap, eta, failure = yield from newton.certain(run.draws.next, tolerance)
        now = relative(gap, scale)
    found = Solution(
        None, newton.y * newton.a, eta, primal, float(primal - gap), now,
        run.iterations + iterations, now <= tolerance, "landmarks, then newton", failure=failure,
    )  # fmt: skip
    at_zero, _scale = newton.primal_at(0.0)
    return not_worse_than_zero(found, newton.primal_at, at_zero, run.stop)


def _side_by_side(courses: list[Course], products: Products, tell: Callable[[int], None]) -> list:
    """What the courses return; a pass serves all that wait for one, and its number is told.

    Exceeded is thrown into each of them when the pass is given up.
    """
    results, waiting, count = [None] * len(courses), {}, 0

    def go_on(j: int, answer) -> None:
        try:
            is_end = isinstance(answer, Exceeded)
            waiting[j] = courses[j].throw(answer) if is_end else courses[j].send(answer)
        except StopIteration as end:
            results[j] = end.value

    for j in range(len(courses)):
        go_on(j, None)
    while waiting:
        # Those in double precision are dear: as many as possible together.
        some = [j for j, asked in waiting.items() if not asked.exactly] or list(waiting)
        count += 1
        tell(count)
        asked = [waiting.pop(j) for j in some]
        try:
            answers = products.of(asked)
        except Exceeded as end:
            answers = [end] * len(some)
        for j, answer in zip(some, answers, strict=True):
            go_on(j, answer)
    return results


def solve(
    run, problems: np.ndarray, spaces: list[FeatureSpace], points: list[SpanPoint],
    coefs: list[np.ndarray], gaps: np.ndarray, expected: float,
) -> list[Solution | None]:  # fmt: skip
    """Solve the full problems from duals; None where that was given up after the deadline.

    Parameters
    ----------
    run : odmtool.solvers.engine.solve.EngineRun
    problems : int array, shape (q,)
        Which of the run's these are.
    spaces, points, coefs
        For each as those of :class:`FullNewton`.
    gaps : ndarray, shape (q,)
        Bounds of P - D at the points.
    expected : float
        A forecast of their relative gap, by which passes are foretold.
    """
    duals = np.column_stack([point.a for point in points])
    states = zip(problems, spaces, points, coefs, strict=True)
    newtons = [FullNewton(run, *state, len(problems)) for state in states]
    # One pass makes a point of the demanded duals. Is that good enough?
    # speed only: from which of two points it goes on
    enough = _EXPECTED * run.stop.tolerance * np.array([point.scale for point in points])
    # speed only: from which of two points it goes on
    is_near = _expected_gaps(run, newtons, duals) <= enough
    for k in np.flatnonzero(is_near):
        newtons[k].a = duals[:, k].copy()
    courses = [
        _course(run, j, newton, point.primal, gap, near)
        for j, newton, point, gap, near in zip(
            problems, newtons, points, gaps, is_near, strict=True
        )
    ]
    most, active = passes(expected / run.stop.tolerance), np.count_nonzero(duals.any(axis=1))
    seconds = run.cost.made(active * (run.points.size - active / 2))
    with np.errstate(over="ignore", invalid="ignore"):
        # speed only: the order of examples decides which tiles have duals, and not what they give
        products = Products(run, duals.any(axis=1))
        return _side_by_side(
            courses, products, lambda count: run.enter("passes", count, most, seconds)
        )
