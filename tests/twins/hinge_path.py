"""Twins of the path of hinge machines: every inverse is made anew, every event is listed."""

from __future__ import annotations

import numpy as np

from odmtool.solvers.paths import hinge_path
from twins.making import Twin, signs, table


def direction(Q, g, active, inverse, n, slope, moving):
    A = active[:n]
    slope[:n] = -np.linalg.solve(Q[np.ix_(A, A)], g[A])
    moving[:] = g + Q[:, A] @ slope[:n]


def next_change(u, target, side, t, g, active, alpha, rho, n, slope, moving):
    events = [(np.inf, 0, -1)]
    for i in np.flatnonzero(side * moving > 1e-13 * np.abs(g).max(initial=0.0)):
        events.append((max(0.0, side[i] * (target[i] - t[i])) / (side[i] * moving[i]), 0, i))
    for j, i in enumerate(active[:n]):
        if slope[j] < 0:
            events.append((max(0.0, alpha[j]) / -slope[j], -1, j))
        if slope[j] > u[i]:
            events.append((max(0.0, rho * u[i] - alpha[j]) / (slope[j] - u[i]), 1, j))
    return min(events, key=lambda event: event[0])


def put_inverse(Q, active, inverse, n):
    inverse[:n, :n] = np.linalg.inv(Q[np.ix_(active[:n], active[:n])])


def append(Q, active, inverse, n, i):
    A = [*active[:n], i]
    if np.linalg.matrix_rank(Q[np.ix_(A, A)], tol=1e-9) <= n:
        return False
    active[n] = i
    put_inverse(Q, active, inverse, n + 1)
    return True


def remove(active, alpha, inverse, n, k):
    Q = np.linalg.inv(inverse[: n + 1, : n + 1])
    order = np.arange(n)
    if k < n:
        order[k], active[k], alpha[k] = n, active[n], alpha[n]
    put_inverse(Q, order, inverse, n)


def follow(Q, u, target, side, t, g, active, alpha, inverse, rho, n, goal, most):
    slope, moving = np.empty(len(inverse)), np.empty(len(u))
    for change in range(most):
        direction(Q, g, active, inverse, n, slope, moving)
        step, kind, k = next_change(u, target, side, t, g, active, alpha, rho, n, slope, moving)
        if rho + step > goal:
            return rho, n, change, hinge_path.REACHED
        if kind == 0 and n == len(inverse):
            return rho, n, change, hinge_path.FULL
        rho, active_now = rho + step, active[:n].copy()
        alpha[:n] += step * slope[:n]
        t += step * moving
        if kind == 0:
            assert append(Q, active, inverse, n, k)
            alpha[n], side[k], n = rho * u[k] * (side[k] > 0), 0, n + 1
        else:
            side[active_now[k]], t[active_now[k]] = kind, target[active_now[k]]
            n -= 1
            remove(active, alpha, inverse, n, k)
        g[:] = Q @ (u * (side > 0))
    return rho, n, most, hinge_path.CHANGED


# ---- random paths ----------------------------------------------------------------------


def beginnings(generator):
    """The arguments of ``follow`` at rho = 0, up to goals near and far."""
    for d, nu in ((3, 0.0), (30, 0.0), (5, 0.02)):
        m = 24
        X = signs(generator, m)[:, None] * (generator.standard_normal((m, d)) + 0.5)
        Q, u = X @ X.T, generator.uniform(0.5, 2.0, m)
        t = nu * (Q @ u)
        side = np.where(t < 1, 1.0, -1.0)
        state = side, t, Q @ (u * (side > 0)), np.empty(m, dtype=np.int64), np.empty(m)
        yield Q, u, np.ones(m), *state, np.empty((m, m)), 0.0, 0


def states(generator):
    """Some states on these paths."""
    for arguments in beginnings(generator):
        for most in (0, 1, 7, 20):
            own = [np.copy(a) if isinstance(a, np.ndarray) else a for a in arguments]
            rho, n, *_ = follow(*own, 1e3, most)
            own[-2:] = rho, n
            yield own


def follow_cases(generator):
    for arguments in beginnings(generator):
        for goal, most in ((0.05, 50), (10.0, 50), (10.0, 3)):
            yield *arguments, goal, most
    *rest, inverse, rho, n = arguments
    yield *rest, np.empty((2, 2)), rho, n, 10.0, 50


def follow_promise(result, arguments):
    _Q, _u, _target, side, t, g, active, alpha, inverse, *_ = arguments
    n = result[1]
    return result, side, t, g, active[:n], alpha[:n], inverse[:n, :n]


def direction_cases(generator):
    for Q, _u, _target, _side, _t, g, active, _alpha, inverse, _rho, n in states(generator):
        yield Q, g, active, inverse, n, np.zeros(len(g)), np.zeros(len(g))


def next_cases(generator):
    for Q, u, target, side, t, g, active, alpha, inverse, rho, n in states(generator):
        slope, moving = np.zeros(len(g)), np.zeros(len(g))
        direction(Q, g, active, inverse, n, slope, moving)
        yield u, target, side, t, g, active, alpha, rho, n, slope, moving
        # As no path of these examples has it: duals that rise faster than their bounds.
        inside, faster = rho * u[active[:n]] * generator.random(n), generator.exponential(3.0, n)
        yield u, target, side, t, g, active, inside, rho, n, u[active[:n]] + faster, moving


def append_cases(generator):
    for Q, _u, _target, side, _t, _g, active, _alpha, inverse, _rho, n in states(generator):
        for i in np.flatnonzero(side)[:3]:
            yield Q, active, inverse, n, i


def append_promise(result, arguments):
    _Q, active, inverse, n, _i = arguments
    n += bool(result)
    return result, active[:n], inverse[:n, :n]


def remove_cases(generator):
    for *_, active, alpha, inverse, _rho, n in states(generator):
        for k in {0, n - 1} if n else ():
            yield active, alpha, inverse, n - 1, k


def remove_promise(_result, arguments):
    active, alpha, inverse, n, _k = arguments
    return active[:n], alpha[:n], inverse[:n, :n]


TWINS = table(
    Twin(hinge_path.follow, follow, follow_cases, follow_promise),
    Twin(hinge_path.direction, direction, direction_cases,
         lambda _result, arguments: arguments[-2:]),
    Twin(hinge_path.next_change, next_change, next_cases),
    Twin(hinge_path.append, append, append_cases, append_promise),
    Twin(hinge_path.remove, remove, remove_cases, remove_promise),
)  # fmt: skip
