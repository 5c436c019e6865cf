"""The exact solutions of a hinge machine for all costs, along their piecewise linear path.

Problem     min over w of P(w) = 1/2 |w|^2 + sum_i u_i [rho max(0, 1 - t_i) - nu t_i],
            t_i = y_i <w, phi(x_i)>, for nu >= 0 and every rho > 0; Q_ij = y_i y_j k_ij.
            Its duals lie in u_i [nu, nu + rho].
Update      Examples with t_i < 1 have eta_i = u_i (nu + rho), those with t_i > 1 have u_i nu,
            and those of the active set A have t_i = 1 and eta_i = u_i nu + alpha_i. While no
            example changes its side, alpha and t are linear in rho:

                alpha' = -Q_AA^-1 g_A,    t' = g + Q_A' alpha',    g = Q_L u_L.

            So the path goes from one change to the next, and Q_AA^-1 by one row and column.
            It starts at rho = 0, where w is known. A change costs O(m |A|), and there are a
            few for each example in all: for some hundred examples the solutions for all rho
            take as long as some Newton steps for one of them.
            Examples that meet the boundary together (copies, features of few values) are kept
            apart by moving the 1 of each by about 1e-11, which is what the gap can come to.
Stop        At the given rho. The caller judges what rounding has done.
Source      Hastie, Rosset, Tibshirani & Zhu, "The entire regularization path for the support
            vector machine", JMLR 5, 2004; without their intercept, and with the mean in nu.
"""

from __future__ import annotations

import math

import numpy as np

from odmtool._jit import njit
from odmtool.solvers.base import Stop

# By how much the 1 of an example is moved, with a sequence that has no pattern (golden ratio).
_APART, _GOLDEN = 1e-11, 0.6180339887498949
# A row that is a combination of the active ones but for this share of its square is not added.
_DEPENDENT = 1e-11
# A margin that moves by less than this share of the fastest is taken to stay where it is.
_STANDS = 1e-13
# An inverse that is off by more is none.
_FALSE = 1e-4
# After so many changes everything is computed again, against rounding.
_REFRESH = 100
# Changes for each example; where there are more, rounding leads the path in a circle.
_MOST = 30
# speed only: there is more room where more is needed
_FIRST_ROOM = 16

REACHED, FULL, CHANGED, LOST = 0, 1, 2, 3
"""Why :func:`follow` returns: the goal, no room for another active example, enough changes, an
inverse that rounding has made one of no matrix."""


class HingePath:
    """The path of one problem; it only goes forward.

    Parameters
    ----------
    Q : ndarray, shape (m, m)
        y_i y_j k(x_i, x_j), positive semidefinite.
    weight : ndarray, shape (m,)
        u_i > 0.
    nu : float, >= 0
    """

    def __init__(self, Q: np.ndarray, weight: np.ndarray, nu: float):
        m = len(weight)
        self._Q, self._weight, self._nu = Q, weight, nu
        # speed only: any numbers that differ: they decide among ties
        self._target = 1.0 + _APART * (0.5 + np.arange(m) * _GOLDEN % 1.0 / 2)
        self._drawn = nu * (Q @ weight)
        self._t = self._drawn.copy()
        self._side = np.where(self._t < self._target, 1.0, -1.0)
        self._g = Q @ np.where(self._side > 0, weight, 0.0)
        self._active, self._alpha = np.empty(m, dtype=np.int64), np.empty(m)
        self._inverse, self._count = np.empty((_FIRST_ROOM, _FIRST_ROOM)), 0
        self._rho, self._changes, self._is_lost = 0.0, 0, False

    def leads_to(self, nu: float, rho: float) -> bool:
        """Whether these parameters lie ahead."""
        return nu == self._nu and rho >= self._rho

    def duals(self, rho: float, stop: Stop, changed) -> tuple[np.ndarray, int]:
        """eta for a rho that lies ahead, and the changes of the active set on the way.

        They do not depend, not even in the last digit, on where the path has stopped before.
        After the changes that ``stop`` allows, when it is late, or where rounding has led the
        path astray, they are those of a smaller rho. ``changed(changes, active)`` is called from
        time to time.
        """
        is_there = self._advance(rho, stop, changed)
        n = self._count
        active, inverse = self._active[:n], self._inverse[:n, :n]
        rho = rho if is_there else self._rho
        alpha = self._alpha[:n] - (rho - self._rho) * (inverse @ self._g[active])
        rows = self._Q[active]
        fixed = np.where(self._side > 0, rho * self._weight, 0.0)
        aim = self._target[active] - rows @ (fixed + self._nu * self._weight)
        for _ in range(2):
            alpha += inverse @ (aim - rows[:, active] @ alpha)
        fixed[active] = np.clip(np.nan_to_num(alpha), 0.0, rho * self._weight[active])
        return fixed + self._nu * self._weight, self._changes

    def _advance(self, goal: float, stop: Stop, changed) -> bool:
        """To the last change before rho = goal; whether that was reached."""
        most = math.ceil(min(stop.limit, _MOST * len(self._weight)))
        while self._changes < most and not self._is_lost and not stop.is_late:
            some = min(_REFRESH - self._changes % _REFRESH, most - self._changes)
            self._rho, self._count, changes, reason = follow(
                self._Q, self._weight, self._target, self._side, self._t, self._g, self._active,
                self._alpha, self._inverse, self._rho, self._count, goal, some,
            )  # fmt: skip
            self._changes += changes
            if reason == REACHED:
                return True
            if reason == FULL:
                self._enlarge()
            self._is_lost = reason == LOST
            if self._changes % _REFRESH == 0 and changes:
                self._refresh()
                changed(self._changes, self._count)
        return False

    def _enlarge(self) -> None:
        room, n = np.empty((2 * len(self._inverse),) * 2), self._count
        room[:n, :n] = self._inverse[:n, :n]
        self._inverse = room

    def _refresh(self) -> None:
        n = self._count
        active, alpha = self._active[:n], self._alpha[:n]
        self._g = self._Q @ np.where(self._side > 0, self._weight, 0.0)
        rows = self._Q[active]
        try:
            inverse = np.linalg.inv(rows[:, active])
        except np.linalg.LinAlgError:
            inverse = np.full((n, n), np.nan)
        off = np.abs(rows[:, active] @ inverse - np.eye(n)).max(initial=0.0)
        if not off < _FALSE:  # by rounding an example came in that depends on others
            self._is_lost = True
            return
        self._inverse[:n, :n] = inverse
        fixed = self._drawn + self._rho * self._g
        alpha += self._inverse[:n, :n] @ (self._target - fixed - alpha @ rows)[active]
        self._t = fixed + alpha @ rows


@njit
def follow(Q, u, target, side, t, g, active, alpha, inverse, rho, n, goal, most):
    """Go along the path from change to change, while they come before rho = goal.

    Returns rho, n, changes, reason: where it stands, just after a change, and why it ends there.

    Parameters
    ----------
    Q : ndarray, shape (m, m)
    u, target : ndarrays, shape (m,)
    side : ndarray, shape (m,)
        1 where t is below its target, -1 above, 0 of the active examples; overwritten.
    t, g : ndarrays, shape (m,)
        Margins at rho, and Q times u of the examples below; overwritten.
    active : ndarray of int, shape (m,)
        The first n are the active examples; overwritten, as are ``alpha`` and ``inverse``.
    alpha : ndarray, shape (m,)
        Their duals at rho, less u nu.
    inverse : ndarray, shape (room, room)
        Of their part of Q.
    rho, goal : float
    n, most : int
    """
    m, room = len(u), len(inverse)
    slope, moving = np.empty(room), np.empty(m)
    for change in range(most):
        direction(Q, g, active, inverse, n, slope, moving)
        step, kind, k = next_change(u, target, side, t, g, active, alpha, rho, n, slope, moving)
        if not rho + step <= goal:
            return rho, n, change, REACHED
        if kind == 0 and n == room:
            return rho, n, change, FULL
        rho += step
        for j in range(n):
            alpha[j] += step * slope[j]
        for i in range(m):
            t[i] += step * moving[i]
        if kind == 0:
            if not append(Q, active, inverse, n, k):
                t[k] -= side[k] * (target[k] - 1.0)
                continue
            alpha[n] = rho * u[k] if side[k] > 0 else 0.0
            if side[k] > 0:
                for i in range(m):
                    g[i] -= u[k] * Q[k, i]
            side[k] = 0.0
            n += 1
        else:
            if inverse[k, k] == 0.0:
                return rho, n, change, LOST
            i = active[k]
            side[i] = kind
            t[i] = target[i]
            if kind > 0:
                for j in range(m):
                    g[j] += u[i] * Q[i, j]
            n -= 1
            remove(active, alpha, inverse, n, k)
    return rho, n, most, CHANGED


@njit
def direction(Q, g, active, inverse, n, slope, moving):
    """alpha' of the n active examples and t' of all, into ``slope`` and ``moving``."""
    slope[:n] = 0.0
    for j in range(n):
        share = g[active[j]]
        for k in range(n):
            slope[k] -= share * inverse[j, k]
    for i in range(len(g)):  # numba compiles moving[:] = g with its messages, for seconds
        moving[i] = g[i]
    for j in range(n):
        row, share = Q[active[j]], slope[j]
        for i in range(len(g)):
            moving[i] += share * row[i]


@njit
def next_change(u, target, side, t, g, active, alpha, rho, n, slope, moving):
    """The step of rho to the next change, its kind, and its example or place in ``active``.

    Kind 0: a margin reaches its target; 1 and -1: a dual reaches its upper, its lower bound.
    """
    least = 0.0
    for i in range(len(u)):
        least = max(least, abs(g[i]))
    least *= _STANDS
    step, kind, which = np.inf, 0, -1
    for i in range(len(u)):
        speed = side[i] * moving[i]
        if speed > least:
            room = max(side[i] * (target[i] - t[i]), 0.0)
            if room < step * speed:
                step, which = room / speed, i
    for j in range(n):
        if slope[j] < 0.0 and max(alpha[j], 0.0) < -slope[j] * step:
            step, kind, which = max(alpha[j], 0.0) / -slope[j], -1, j
        weight = u[active[j]]
        rise, room = slope[j] - weight, max(rho * weight - alpha[j], 0.0)
        if rise > 0.0 and room < rise * step:
            step, kind, which = room / rise, 1, j
    return step, kind, which


@njit
def append(Q, active, inverse, n, i):
    """Example i becomes active; False, and nothing is done, if it depends on the others."""
    column = np.zeros(n)
    rest = Q[i, i]
    for j in range(n):
        share = Q[i, active[j]]
        for k in range(n):
            column[k] += share * inverse[j, k]
    left = np.empty(n)
    for j in range(n):
        left[j] = Q[i, active[j]]
        for k in range(n):
            left[j] -= Q[active[j], active[k]] * column[k]
    for j in range(n):  # once more, against the rounding errors of the inverse
        for k in range(n):
            column[k] += left[j] * inverse[j, k]
    for j in range(n):
        rest -= column[j] * Q[i, active[j]]
    if rest <= _DEPENDENT * Q[i, i]:
        return False
    for j in range(n):
        share = column[j] / rest
        for k in range(n):
            inverse[j, k] += share * column[k]
        inverse[j, n] = inverse[n, j] = -share
    inverse[n, n] = 1.0 / rest
    active[n] = i
    return True


@njit
def remove(active, alpha, inverse, n, k):
    """The example at place k is active no longer; n others are left."""
    if k < n:
        for j in range(n + 1):
            inverse[j, k], inverse[j, n] = inverse[j, n], inverse[j, k]
        for j in range(n + 1):
            inverse[k, j], inverse[n, j] = inverse[n, j], inverse[k, j]
        active[k], alpha[k] = active[n], alpha[n]
    for j in range(n):
        share = inverse[j, n] / inverse[n, n]
        for i in range(n):
            inverse[j, i] -= share * inverse[n, i]
