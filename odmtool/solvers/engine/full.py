"""Newton's method in function space with conjugate gradients, preconditioned by features.

Problem  as in :mod:`odmtool.solvers.engine.solve`, where no affordable number of landmarks is
         enough. The unknown is a = y coef, w = sum_i a_i phi(x_i), f = K a.
Update   with the slopes s_i = u_i l''(t_i) and b = y eta + s f the Newton point solves
         a_i + s_i (K a)_i = b_i; on the active examples, s_i > 0, with a = S^1/2 z,

             (I + S^1/2 K S^1/2) z = S^-1/2 b

         by conjugate gradients. The preconditioner has Z Z' in place of K; by Woodbury's
         formula it is I - W (I + W'W)^-1 W', W = S^1/2 Z, whose matrix is the Hessian of the
         problem in the landmarks' span. K times the iterate is carried along, so that the new
         margins cost no product. The whole step is taken where P - D there is smaller, else the
         exact minimum of P along it.
         The gradients stop at a residual of 0.3 sqrt(2 (P - D)), the distance of w from the
         optimum, D the largest so far, at first the landmarks': coefficients of landmarks are far
         from duals. The residual at the start says nothing, because examples that are no longer
         active dominate it. After a short step they stop at a quarter of that.
Stop     when P - D, with coef itself as the dual point, is at most the tolerance:

             sum_i [u_i l(t_i) + eta_i t_i - min_t (u_i l(t) + eta_i t)] + 1/2 |w - w(eta)|^2,

         eta = coef where the dual is finite, else the nearest such point; the last term then is
         bounded by (sum_i |coef_i - eta_i| sqrt(k(x_i, x_i)))^2. Products with K are in single
         precision, kept in memory if they fit; the certificate is computed in double precision.
Source   Chapelle, Neural Computation 19, 2007; Rudi, Carratino & Rosasco, "FALKON", NIPS 2017;
         Frangella, Tropp & Udell, "Randomized Nystrom preconditioning", 2021.
"""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError

from odmtool.core import kernels, losses
from odmtool.rows.sparse_tile import SparseTile, add_sparse_products, sparse_tile
from odmtool.rows.tiles import Tiles
from odmtool.solvers.base import Progress, Solution, not_worse_than_zero, relative
from odmtool.solvers.engine.certificate import times
from odmtool.solvers.factor import conjugate_gradients
from odmtool.solvers.newton import step_length
from odmtool.solvers.rounding import sum_error

# The residual at which conjugate gradients stop, as a share of sqrt(2 (P - D)).
_RESIDUAL = 0.3
# That share is divided by the second number after a step that is shorter than the first.
_SHORT, _FINER = 0.1, 4.0
_GRADIENTS = 200
# A gap in single precision must be below this share of the tolerance to be looked at in double.
_SURE = 0.9
# Examples from which the gap of a point is estimated, and the share of the tolerance it may have.
_LOOKED_AT, _EXPECTED, _ROWS = 600, 0.7, 2048
# Times that a tile is made before it is kept.
_USES = 2
# A kernel value below this share of the largest is less than the rounding of a sum.
_NOTHING = 2.0**-30
# So many steps that lower neither the gap nor P by more than this share: only rounding is left.
_PATIENCE, _SINGLE = 5, 1e-7
# Below this relative gap single precision is all that moves.
_LEAST = 1e-7


class KeptTiles(Tiles):
    """K in single precision, whose tiles above the diagonal are kept while they fit.

    A tile is kept when it is made for the second time: memory that is touched for the first
    time costs as much as making a tile again, or several times as much. One nearly all of whose
    values are below rounding is kept as sparse rows, at once.

    Parameters
    ----------
    kernel, X, executor
        As of :class:`odmtool.rows.tiles.Tiles`.
    room : float
        Bytes for tiles.
    """

    def __init__(self, kernel, X, room: float, executor):
        super().__init__(
            kernel, X, [(0, X.shape[0])], kept=0.0, memory=0.0, executor=executor
        )  # fmt: skip
        self._kept, self._room = {}, room
        self._uses = np.zeros(self._filled.shape, dtype=int)
        self._is_dense = np.zeros(self._filled.shape, dtype=bool)
        self._least = _NOTHING * float(np.abs(kernels.diagonal(kernel, self.X)).max(initial=0.0))

    def _tile(self, i: int, j: int, scratch=None) -> np.ndarray | SparseTile:
        kept = self._kept.get((i, j))
        if kept is not None:
            return kept
        tile = super()._tile(i, j, scratch)
        # This depends on the values only, not on what there is room for.
        found = None if self._is_dense[i, j] else sparse_tile(tile, self._least)
        self._is_dense[i, j] = found is None
        self._uses[i, j] += 1
        is_worth_it = found is not None or self._uses[i, j] >= _USES
        found = tile if found is None else found
        if is_worth_it and found.nbytes <= self._room:
            self._room -= found.nbytes
            found = self._kept[i, j] = tile.copy() if found is tile else found
        return found

    def _add(self, tile, right, left, above, below) -> None:
        if isinstance(tile, SparseTile):
            add_sparse_products(tile, right, left, above, below)
        else:
            super()._add(tile, right, left, above, below)


class FullNewton:
    """The state of the method.

    Parameters
    ----------
    run : odmtool.solvers.engine.solve.Run
    space : FeatureSpace
        Of the landmarks; its Hessian is the preconditioner's.
    point : odmtool.solvers.engine.certificate.Evaluation
        The solution in the landmarks' span.
    coef : ndarray, shape (m,)
        Its coefficients.
    """

    def __init__(self, run, space, point, coef: np.ndarray):
        self.y, self.loss, self.points, self._space = run.problem.y, run.loss, run.points, space
        # Tiles of examples without duals are left out; so these stand together.
        self._order = np.argsort(point.eta == 0, kind="stable")
        self._room, self._tiles, self._share = run.tile_room, None, _RESIDUAL
        # One pass makes a point of the demanded duals. Is that good enough?
        self.a, self.f = run.problem.y * point.eta, np.zeros(len(coef))
        if self._expected_gap(run.seed) <= _EXPECTED * run.stop.tolerance * point.scale:
            self.refine()
        else:
            self.a, self.f = self.y * coef, point.f.copy()

    def _times(self, tiles: Tiles, v: np.ndarray, wanted: np.ndarray | None = None) -> np.ndarray:
        ordered = None if wanted is None else wanted[self._order]
        product = np.empty(len(v))
        product[self._order] = tiles.times(v[self._order], is_last=True, wanted=ordered)
        return product

    def _nearly(self, v: np.ndarray, wanted: np.ndarray | None = None) -> np.ndarray:
        """K v in single precision, where it is ``wanted``."""
        points = self.points
        if self._tiles is None:
            X = points.single[self._order]
            self._tiles = KeptTiles(points.kernel, X, self._room, points.executor)
        return self._times(self._tiles, v, wanted)

    def refine(self) -> None:
        """f in double precision."""
        order = np.argsort(self.a == 0, kind="stable")
        self.f = np.empty(len(self.a))
        self.f[order] = times(self.points.rows(order), self.a[order])

    def _expected_gap(self, seed: int) -> float:
        """An estimate of P - D at a, from some examples; only there f is known afterwards."""
        size, active = np.abs(self.a), np.flatnonzero(self.a)
        # Outliers and examples of large weight have large duals.
        chance = (size / max(size.sum(), np.finfo(float).tiny) + 1 / len(size)) / 2
        rows = np.random.default_rng(seed).choice(len(size), _LOOKED_AT, p=chance / chance.sum())
        self.f[rows] = _rows_times(self.points, rows, active, self.a[active])
        return float(np.mean(self._shares(self.y * self.a)[rows] / chance[rows]))

    def _shares(self, eta: np.ndarray) -> np.ndarray:
        """The examples' shares of P - D, eta the dual point of which w is made."""
        t = self.y * self.f
        return losses.value(self.loss, t) + eta * t - losses.dual_value(self.loss, eta)

    def values(self) -> tuple[float, float, float, np.ndarray]:
        """P, S, P - D, and the dual point."""
        t, coef = self.y * self.f, self.y * self.a
        eta = losses.nearest_dual(self.loss, coef)
        own, shares = losses.value(self.loss, t), self._shares(eta)
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

    def step(self, gap: float) -> None:
        """A Newton step; ``gap`` is P - D for any dual point, the best that is known.

        Raises LinAlgError where numbers overflow.
        """
        y, t = self.y, self.y * self.f
        slopes = losses.slope(self.loss, t)
        active = slopes > 0
        b = -y * losses.derivative(self.loss, t) + slopes * self.f
        target, at_target = self._newton_point(slopes, active, b, self._share * np.sqrt(2 * gap))
        before, self.a, self.f = (self.a, self.f), target, at_target
        if self.values()[2] < gap:
            return
        self.a, self.f = before
        direction, change = target - self.a, at_target - self.f
        products = (direction @ self.f, direction @ change)
        step = step_length(self.loss, t, y * change, products)
        if step < _SHORT:
            self._share /= _FINER
        a, f = self.a + step * direction, self.f + step * change
        if not np.isfinite(a @ f):
            raise LinAlgError
        self.a, self.f = a, f

    def _newton_point(self, slopes, active, b, accuracy: float) -> tuple[np.ndarray, np.ndarray]:
        """a with a_i + s_i (K a)_i = b_i, and K a, to a residual of ``accuracy``."""
        rows, root = np.flatnonzero(active), np.sqrt(slopes[active])
        fixed = np.where(active, 0.0, b)
        at_fixed = self._nearly(fixed) if fixed.any() else np.zeros(len(b))
        precondition = self._space.preconditioner(slopes, rows, root)
        v = np.zeros(len(b))

        def product(z: np.ndarray) -> np.ndarray:
            v[rows] = root * z
            return self._nearly(v, active)[rows]

        # In the first step a is nonzero for landmarks only, and far from the duals.
        z = conjugate_gradients(
            lambda p: p + root * product(p), (b[rows] - root**2 * at_fixed[rows]) / root,
            precondition, atol=accuracy, most=_GRADIENTS,
            start=(b - slopes * self.f)[rows] / root,
        )  # fmt: skip
        target = fixed.copy()
        target[rows] = root * z
        return target, self._nearly(target)


def _rows_times(points, rows, active, a) -> np.ndarray:
    """(K a)_i for some rows, a given at the active examples."""
    product = np.zeros(len(rows))
    for k in range(0, len(active), _ROWS):
        part = slice(k, k + _ROWS)
        product += points.values(points.X[rows], points.X[active[part]]) @ a[part]
    return product


def solve(run, space, point, coef: np.ndarray, gap: float) -> Solution:
    """Solve the full problem from duals.

    Parameters
    ----------
    run, space, point, coef
        As those of :class:`FullNewton`.
    gap : float
        A bound of P - D at ``point``.
    """
    newton, tolerance = FullNewton(run, space, point, coef), run.stop.tolerance
    iterations, is_certain, waited = 0, True, 0
    least, lowest, highest = np.inf, np.inf, point.primal - gap
    while True:
        primal, scale, gap, eta = newton.values()
        now = relative(gap, scale)
        if now <= _SURE * tolerance and not is_certain:
            newton.refine()
            primal, scale, gap, eta = newton.values()
            is_certain = True
        if is_certain:
            gap += newton.rounding()
            now = relative(gap, scale)
        run.progress(
            Progress(run.iterations + iterations, primal, now, int(np.count_nonzero(newton.a)))
        )
        is_better = now < least or primal < lowest - _SINGLE * scale
        waited, least, lowest = 0 if is_better else waited + 1, min(now, least), min(primal, lowest)
        is_over = iterations >= run.stop.max_iter or waited >= _PATIENCE
        if (is_certain and now <= tolerance) or is_over or not now >= _LEAST:
            break
        highest = max(highest, primal - gap)
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                newton.step(max(primal - highest, _LEAST * scale))
        except LinAlgError:
            break  # singular to working precision: no better step can be had
        iterations, is_certain = iterations + 1, False
    if not is_certain:
        newton.refine()
        primal, scale, gap, eta = newton.values()
        gap += newton.rounding()
        now = relative(gap, scale)
    found = Solution(
        None, newton.y * newton.a, eta, primal, float(primal - gap), now,
        run.iterations + iterations, now <= tolerance, "landmarks, then newton", failure=0.0,
    )  # fmt: skip
    return not_worse_than_zero(found, newton.primal_at, newton.primal_at(0.0)[0], run.stop)
