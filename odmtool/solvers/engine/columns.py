"""Newton's method for many problems on the same features at once: folds, settings, classes.

Problem  for each column j: min over w_j of 1/2 |w_j|^2 + sum_i u_ij l_j(y_ij <w_j, z_i>). The
         features z_i are shared; y_ij = 0 for examples that take no part (those of the fold).
Update   that of :mod:`odmtool.solvers.newton.newton` in w space, for all columns side by side:
         Z W and Z'A are matrix products. The Newton systems (I + Z' S_j Z) d_j = g_j are solved by
         conjugate gradients, all preconditioned by one Cholesky factor: that of the Hessian
         with the mean of the slopes S_j. Columns with the same lambda have much the same one.
Stop     per column, when 1/2 |gradient|^2 is at most the tolerance times S.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from odmtool.core import deadline, losses
from odmtool.core.losses import MarginLoss
from odmtool.solvers.base import SUFFICIENT_DECREASE, Problem, Stop
from odmtool.solvers.engine.reduced import FeatureSpace, weighted_gram
from odmtool.solvers.newton import newton
from odmtool.solvers.newton.factor import cholesky_in_place, cholesky_solve

# Rows of a task, at least and at most.
# speed only: how rows are split among threads
_FEWEST, _MOST_ROWS, _TASKS = 256, 4096, 8
# speed only: what is not solved in these is certified by others
_STEPS, _GRADIENTS, _BISECTIONS = 25, 100, 25
# A column alone, whose steps are cheap.
# speed only: what is not solved in these is certified by others
_STEPS_OF_ONE = 60
# Steps without progress of a column, after which rounding is all that moves.
_PATIENCE = 3
# The residual of a Newton system, as a share of the gradient and of what is wanted.
# speed only: the gap decides when it ends, not how precise a step was
_LOOSE, _WANTED = 0.05, 0.5
# Columns whose system is solved are left out when this share of the columns is.
# speed only: who is done is left out sooner or later
_SHARE = 0.75
# A factor is made anew when products cost as much as it, if they are more than so many.
# speed only: an old factor only takes more products
_PRODUCTS = 8

# Roundings of a sum of squares that make the Hessian indefinite at most, over sqrt(r).
# speed only: of a preconditioner
_ROUNDINGS = 4.0


class Columns(NamedTuple):
    """Problems on the same m examples."""

    loss: MarginLoss  # MarginLoss of arrays, shape (q,)
    # int8, shape (s, m): rows of 1, -1, and 0 for an example that takes no part.
    signs: np.ndarray
    row: np.ndarray  # integers, shape (q,): the row of ``signs`` of each problem
    weight: np.ndarray  # shape (m,): u_i

    @property
    def count(self) -> int:
        """Number of problems, q."""
        return len(self.row)

    def total_weights(self) -> np.ndarray:
        """sum_i u_i of those that take part, shape (q,)."""
        return (np.abs(self.signs) @ self.weight)[self.row]

    def take(self, which: np.ndarray) -> Columns:
        """Some of the problems."""
        loss = MarginLoss(*(field[which] for field in self.loss))
        return self._replace(loss=loss, row=self.row[which])

    def rows(self, rows: np.ndarray, own_weight: np.ndarray | None = None) -> Columns:
        """The problems on some examples, whose weights become those of all.

        Those with ``own_weight`` (bool array) stand for themselves only, and keep theirs.
        """
        weight = self.weight[rows]
        others = np.ones(len(rows), dtype=bool) if own_weight is None else ~own_weight
        if (rest := weight[others].sum()) > 0:
            # The difference of sums may be below 0 by a rounding.
            weight[others] *= max(0.0, self.weight.sum() - weight[~others].sum()) / rest
        return self._replace(signs=self.signs[:, rows], weight=weight)

    @classmethod
    def of(cls, Y: np.ndarray, weight: np.ndarray, loss: MarginLoss) -> Columns:
        """Problems that differ in their y only, rows of ``Y``, shape (q, m)."""
        fields = MarginLoss(*(np.full(len(Y), field, dtype=float) for field in loss))
        return cls(fields, Y.astype(np.int8), np.arange(len(Y)), weight)

    def losses(self, j: int) -> MarginLoss:
        """The losses of the examples in problem j, zero for those that take no part."""
        loss = MarginLoss(*(field[j] for field in self.loss))
        return losses.scaled(loss, self.weight * np.abs(self.signs[self.row[j]]))

    def labels(self) -> np.ndarray:
        """y of all problems, shape (q, m); 1 where an example takes no part."""
        signs = self.signs[self.row]
        return np.where(signs == 0, 1, signs)

    def problem(self) -> Problem:
        """The only one; y and the weight are 0 where an example takes no part."""
        loss = MarginLoss(*(field.item() for field in self.loss))
        signs = self.signs[self.row.item()].astype(float)
        # With y = 0 alone the margin would be 0, where losses have a slope.
        return Problem(None, None, signs, self.weight * np.abs(signs), loss)

    def single(self) -> Columns:
        """The same with numbers in single precision."""
        loss = MarginLoss(*(field.astype(np.float32) for field in self.loss))
        return self._replace(loss=loss, weight=self.weight.astype(np.float32))

    def block(self, part: slice) -> Block:
        """What there is to know of some examples."""
        return Block(self.loss, self.signs[self.row, part].T, self.weight[part, None])


class Block(NamedTuple):
    """The losses of n examples in q columns."""

    loss: MarginLoss  # MarginLoss of arrays, shape (q,)
    sign: np.ndarray  # shape (n, q)
    weight: np.ndarray  # shape (n, 1)

    def values(self, f: np.ndarray) -> np.ndarray:
        """u l(t), shape (n, q), from the values f of the columns' functions."""
        return self.weight * np.abs(self.sign) * losses.value(self.loss, self.sign * f)

    def demanded(self, f: np.ndarray) -> np.ndarray:
        """a = y eta of the duals that the margins demand."""
        return -self.weight * self.sign * losses.derivative(self.loss, self.sign * f)

    def slopes(self, f: np.ndarray) -> np.ndarray:
        """u l''(t)."""
        return self.weight * np.abs(self.sign) * losses.slope(self.loss, self.sign * f)


class _Newton:
    """The state of the columns that are not solved yet."""

    def __init__(self, Z, columns: Columns, W, executor):
        self._Z, self._executor = Z, executor
        self._columns = columns.single() if Z.dtype == np.float32 else columns
        # speed only: how rows are split among threads
        size = min(max(_FEWEST, -(-len(Z) // _TASKS)), _MOST_ROWS)
        self._parts = [slice(k, min(k + size, len(Z))) for k in range(0, len(Z), size)]
        self.W, self.F = W, self._product(W)
        # speed only: when a preconditioner is made anew
        self._apply, self._spent, self._last = None, 0.0, 0

    def take(self, which: np.ndarray) -> None:
        """Go on with some of the columns."""
        self._columns, self.W = self._columns.take(which), self.W[:, which]
        self.F, self.S = self.F[:, which], self.S[:, which]
        self.gradient = self.gradient[:, which]

    def look(self) -> tuple[np.ndarray, np.ndarray]:
        """1/2 |gradient|^2 and S of every column; sets gradient and slopes."""
        dtype = self._Z.dtype
        self.S = np.empty(self.F.shape, dtype)

        def one(part: slice):
            block, f = self._columns.block(part), self.F[part]
            self.S[part] = block.slopes(f)
            sizes = np.abs(block.values(f)).sum(axis=0, dtype=float)
            return sizes, self._Z[part].T @ block.demanded(f).astype(dtype, copy=False)

        sizes, products = zip(*self._executor.map(one, self._parts), strict=True)
        self.gradient = self.W - np.sum(products, axis=0, dtype=float)
        scale = np.einsum("ij,ij->j", self.W, self.W) / 2 + np.sum(sizes, axis=0)
        return np.einsum("ij,ij->j", self.gradient, self.gradient) / 2, scale

    def step(self, accuracy: np.ndarray) -> None:
        """A Newton step; ``accuracy`` is what the residuals may be."""
        direction, change = self.directions(accuracy)
        lengths = self._lengths(direction, change)
        self.W = self.W + lengths * direction
        # Carried along in single precision, F would drift away from W.
        self.F = self._product(self.W)

    def _product(self, W: np.ndarray) -> np.ndarray:
        W = W.astype(self._Z.dtype, copy=False)
        return np.concatenate(self._executor.map(lambda part: self._Z[part] @ W, self._parts))

    def _hessian_times(self, P, S, change):
        """(I + Z' S_j Z) p_j; ``change`` gets Z P."""
        single = P.astype(self._Z.dtype, copy=False)

        def one(part: slice):
            change[part] = self._Z[part] @ single
            return self._Z[part].T @ (S[part] * change[part])

        return P + np.sum(self._executor.map(one, self._parts), axis=0, dtype=float)

    def _precondition(self, V: np.ndarray) -> np.ndarray:
        """Divide by the Hessian with the mean slopes."""
        r, q = V.shape
        # speed only: when a preconditioner is made anew
        is_dear = self._spent > r and self._last > _PRODUCTS
        if self._apply is None or is_dear:
            slopes = self.S.mean(axis=1, dtype=float)
            rows = np.flatnonzero(slopes)
            H = weighted_gram(self._Z, rows, slopes[rows], self._executor)
            # Rows far out make sums whose rounding is more than I; as a preconditioner the
            # Hessian with so much more of its diagonal does as well.
            unit = _ROUNDINGS * math.sqrt(r) * np.finfo(self._Z.dtype).eps
            # speed only: of a preconditioner
            H.flat[:: r + 1] += np.maximum(1.0, unit * H.diagonal())
            # speed only: when a preconditioner is made anew
            factor, self._spent = cholesky_in_place(H), 0.0
            self._apply = lambda V: cholesky_solve(factor, V)
        self._last = 0
        return self._apply(V)

    def directions(self, accuracy):
        """d_j with (I + Z' S_j Z) d_j = -g_j, by conjugate gradients, and Z D."""
        direction, change = np.zeros_like(self.W), np.zeros_like(self.F)
        live, S = np.arange(self.W.shape[1]), self.S
        V = self._precondition(-self.gradient)
        R, apply = -self.gradient, self._apply
        P, D, along = V, np.zeros_like(R), np.zeros_like(self.F)
        power = np.einsum("ij,ij->j", R, V)
        at_P = np.empty_like(self.F)
        # speed only: the gap decides when it ends, not how precise a step was
        for count in range(1, _GRADIENTS + 1):
            product = self._hessian_times(P, S, at_P)
            curvature = np.einsum("ij,ij->j", P, product)
            step = np.divide(power, curvature, out=np.zeros_like(power), where=curvature > 0)
            D += step * P
            along += step.astype(at_P.dtype) * at_P
            R -= step * product
            # speed only: when a preconditioner is made anew
            self._spent += 4.0 * len(live)
            self._last = count
            left = np.einsum("ij,ij->j", R, R) > accuracy[live] ** 2
            if left.sum() <= _SHARE * len(left) or count == _GRADIENTS:
                direction[:, live], change[:, live] = D, along
                if not left.any():
                    break
                live, S, R, P, D, along, power, at_P = (
                    live[left], S[:, left], R[:, left], P[:, left], D[:, left], along[:, left],
                    power[left], at_P[:, left],
                )  # fmt: skip
            V = apply(R)
            now = np.einsum("ij,ij->j", R, V)
            P = V + np.divide(now, power, out=np.zeros_like(now), where=power > 0) * P
            power = now
        return direction, change

    def _lengths(self, direction, change) -> np.ndarray:
        """How far to go, by the rule of :func:`odmtool.solvers.newton.newton.step_length`."""
        along = np.einsum("ij,ij->j", self.W, direction)
        squared = np.einsum("ij,ij->j", direction, direction)

        def slope_at(step, which):
            columns = self._columns.take(which)

            def one(part: slice):
                moved = change[part][:, which]
                a = columns.block(part).demanded(
                    self.F[part][:, which] + step.astype(moved.dtype) * moved
                )
                return np.einsum("ij,ij->j", a, moved, dtype=float)

            loss = np.sum(self._executor.map(one, self._parts), axis=0)
            return along[which] + step * squared[which] - loss

        def one(part: slice):
            block, f = self._columns.block(part), self.F[part]
            rise = block.values(f + change[part]) - block.values(f)
            return rise.sum(axis=0, dtype=float)

        everything = np.arange(len(along))
        rise = along + squared / 2 + np.sum(self._executor.map(one, self._parts), axis=0)
        zero, lengths = np.zeros(len(along)), np.ones(len(along))
        bad = np.flatnonzero(rise > SUFFICIENT_DECREASE * slope_at(zero, everything))
        # speed only: a step may be shorter than it need be
        bad = bad[slope_at(np.ones(len(bad)), bad) > 0] if bad.size else bad
        if bad.size:
            low, high = np.zeros(len(bad)), np.ones(len(bad))
            for _ in range(_BISECTIONS):
                middle = (low + high) / 2
                is_falling = slope_at(middle, bad) < 0
                low, high = np.where(is_falling, middle, low), np.where(is_falling, high, middle)
            lengths[bad] = high
        return lengths


def solve(
    Z: np.ndarray, columns: Columns, start, tolerance: float, executor
) -> tuple[np.ndarray, np.ndarray, int]:
    """w_j of all columns, shape (r, q), which of them reach the tolerance, and the steps taken.

    Parameters
    ----------
    Z : ndarray, shape (m, r)
        Features, in single or double precision.
    start : ndarray, shape (r, q)
    tolerance : float
        Of 1/2 |gradient|^2, relative to S; single precision may not reach it.
    executor
    """
    W, live = start.copy(), np.arange(columns.count)
    state = _Newton(Z, columns, start, executor)
    least, waited = np.full(columns.count, np.inf), np.zeros(columns.count, dtype=int)
    reached, steps = np.zeros(columns.count, dtype=bool), 0
    for _ in range(_STEPS):
        gap, scale = state.look()
        is_closer = gap < least[live]
        W[:, live[is_closer]] = state.W[:, is_closer]
        least[live] = np.minimum(least[live], gap)
        waited[live] = np.where(is_closer, 0, waited[live] + 1)
        reached[live] = gap <= tolerance * scale
        left = ~reached[live] & (waited[live] < _PATIENCE)
        if not left.any() or deadline.is_over():
            break
        if not left.all():
            live = live[left]
            state.take(left)
        steps += 1
        length = np.sqrt(2 * gap[left])
        wanted = _WANTED * np.sqrt(2 * tolerance * scale[left])
        # speed only: the gap decides when it ends, not how precise a step was
        state.step(np.maximum(_LOOSE * length, np.minimum(wanted, length / 2)))
    return W, reached, steps


def directions(Z: np.ndarray, columns: Columns, W, gradient: np.ndarray, executor) -> np.ndarray:
    """-H_j^-1 g_j of every column, H_j the Hessian at W, shape (r, q)."""
    state = _Newton(Z, columns, W, executor)
    state.look()
    state.gradient = gradient
    return state.directions(_LOOSE * np.linalg.norm(gradient, axis=0))[0]


def padded(W: np.ndarray, r: int) -> np.ndarray:
    """W for more features, those to come with zeros: shape (r, q)."""
    return np.concatenate([W, np.zeros((r - len(W), W.shape[1]))])


def solve_in_span(
    Z: np.ndarray, columns: Columns, start: np.ndarray, tolerance: float, executor
) -> tuple[np.ndarray, int, FeatureSpace | None]:
    """w_j of all columns and the steps taken; with one column also its space, of which more is
    to come; ``start`` may be for fewer features.
    """
    if columns.count == 1:
        w, steps, space = _alone(Z, columns, start[:, 0], tolerance, executor)
        return w[:, None], steps, space
    W, reached, steps = solve(Z, columns, padded(start, Z.shape[1]), tolerance, executor)
    for j in np.flatnonzero(~reached):
        if deadline.is_over():
            break
        W[:, j], more, _space = _alone(Z, columns.take([j]), W[:, j], tolerance, executor)
        steps += more
    return W, steps, None


def _alone(Z, columns: Columns, start: np.ndarray, tolerance: float, executor):
    """w of the only column, with a Hessian of its own in every step; the steps, and its space."""
    problem = columns.problem()
    space = FeatureSpace(Z, problem.y, executor, start)
    solution = newton.solve(problem, Stop(tolerance, _STEPS_OF_ONE), space=space)
    return solution.w, solution.iterations, space
