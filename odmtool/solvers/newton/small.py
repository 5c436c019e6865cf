"""Newton's method on many small kernel problems of one size, all at once.

Problem     those of :mod:`odmtool.solvers.newton.newton` in function space, of one loss and one y.
Update      its whole step: coef + S Q coef = eta + S t, for all problems in one call of LAPACK's.
            There is no line search.
Stop        per problem, when P(w) - D(eta) = 1/2 |w - w(eta)|^2, with what rounding may hide of it,
            is at most the tolerance times S. What has not converged after a few steps is left to
            that solver, which also knows other bounds of the gap.

A call on one problem of ten examples takes a millisecond, nearly all of it Python's; in a stack
of a hundred each takes a few microseconds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from odmtool.core import losses
from odmtool.core.losses import MarginLoss
from odmtool.solvers.base import relative
from odmtool.solvers.rounding import demanded_error

# speed only: another solver goes on where these are not enough
_STEPS = 12


class Found(NamedTuple):
    """What was found of p problems of n examples."""

    coef: np.ndarray  # shape (p, n), as in :class:`odmtool.solvers.base.Solution`
    # primal, gap: shape (p,), P(w) and (P - D) / S.
    primal: np.ndarray
    gap: np.ndarray
    steps: np.ndarray  # integers, shape (p,)
    converged: np.ndarray  # bool, shape (p,): the others are to be solved elsewhere

    @classmethod
    def nothing(cls, p: int, n: int) -> Found:
        """Of problems of which nothing is known yet."""
        unknown = np.full(p, np.inf)
        return cls(np.zeros((p, n)), unknown, unknown.copy(), np.zeros(p, int), np.zeros(p, bool))


def solve(
    K: np.ndarray, y: np.ndarray, weight: np.ndarray, loss: MarginLoss, error: float,
    tolerance: float, max_iter: int | None = None,
) -> Found:  # fmt: skip
    """Solve p problems of n examples, in ``max_iter`` steps each at most.

    Parameters
    ----------
    K : ndarray, shape (p, n, n)
        Kernel values; the kernel is positive semidefinite.
    y : ndarray of +1.0 and -1.0, shape (n,)
        The same in all problems.
    weight : ndarray, shape (p, n)
    loss : MarginLoss of scalars, with a continuous derivative
    error : float
        See :attr:`odmtool.solvers.rounding.Rounding.error`.
    """
    found, left = Found.nothing(*weight.shape), np.arange(len(weight))
    Q, most = K * np.multiply.outer(y, y), losses.largest_slope(loss)
    sizes = np.sqrt(np.maximum(np.einsum("pii->pi", K), 0.0))
    t = np.zeros(weight.shape)
    for _ in range(_STEPS if max_iter is None else min(_STEPS, max_iter)):
        at = _at(loss, weight[left], t)
        try:
            coef = _newton_points(Q[left], at, t)
        except LinAlgError:
            break
        t = _times(Q[left], coef)
        at = _at(loss, weight[left], t)
        difference, half = coef - at.duals, (coef * t).sum(axis=1) / 2
        scale = half + np.abs(at.values).sum(axis=1)
        gap = np.maximum(0.0, (difference * _times(Q[left], difference)).sum(axis=1) / 2)
        gap += demanded_error(error, sizes[left], most * weight[left], coef, difference)
        found.steps[left] += 1
        with np.errstate(invalid="ignore"):
            is_done = gap <= tolerance * scale
        done = left[is_done]
        found.coef[done], found.converged[done] = coef[is_done], True
        found.primal[done] = (half + at.values.sum(axis=1))[is_done]
        found.gap[done] = list(map(relative, gap[is_done], scale[is_done]))
        left, t = left[~is_done], t[~is_done]
        if not len(left):
            break
    return found


def _at(loss: MarginLoss, weight: np.ndarray, t: np.ndarray) -> losses.Evaluation:
    """The losses at margins t, shape (p, n)."""
    found = losses.Pieces(loss, weight.ravel()).at(t.ravel())
    return losses.Evaluation(*(numbers.reshape(t.shape) for numbers in found))


def _times(Q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Q v of every problem, shape (p, n)."""
    return np.matmul(Q, v[..., None])[..., 0]


def _newton_points(Q: np.ndarray, at: losses.Evaluation, t: np.ndarray) -> np.ndarray:
    """coef with coef + S Q coef = eta + S t; raises LinAlgError."""
    system = at.slopes[..., None] * Q
    system[:, np.arange(Q.shape[1]), np.arange(Q.shape[1])] += 1.0
    right = at.duals + at.slopes * t
    # Where s is 0 rounding must not make a support vector.
    return np.where(at.slopes > 0, np.linalg.solve(system, right[..., None])[..., 0], right)
