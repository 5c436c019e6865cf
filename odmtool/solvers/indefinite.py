"""Kernels with negative eigenvalues (sigmoid, precomputed): is there a solution at all?

With Q indefinite the primal is not convex, but the dual that the papers solve may be:

    max over eta of -1/2 eta'Q eta + sum_i min_t [u_i l(t) + eta_i t]

The second term is strongly concave with modulus at least 1 / (largest slope), so with
e the smallest eigenvalue of Q

    -e < 1 / (largest slope)    one solution: Q + sigma I with sigma = -e and the loss
                                sheared to match (:func:`odmtool.core.losses.shifted`) have the
                                same dual and a positive semidefinite matrix
    -e > 1 / (smallest slope)   unbounded: eta can grow along the eigenvector for ever
    between                     unknown: coordinate descent reaches a stationary point or
                                diverges

For ODM the slopes are 2 c1 and 2 c2 = 2 mu c1. That of mamc's linear loss is 0, and its dual has
a single point: it says nothing of the primal, of which that is a stationary point, no minimum.
"""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError

from odmtool import messages
from odmtool.core import deadline, losses
from odmtool.core.gram import Gram
from odmtool.core.kernel_table import STORED
from odmtool.core.kernels import largest_size
from odmtool.core.loss_table import OF_LDM, SMOOTH
from odmtool.solvers.base import Problem, Solution, objective_values, relative
from odmtool.solvers.newton.factor import cholesky_in_place
from odmtool.solvers.rounding import Rounding
from odmtool.solvers.untrained import untrained

# Eigenvalues above minus this share of the largest entry times m are rounding.
_ROUNDING = 1e-13
# Negative eigenvalues of which the dual stays strictly concave, as shares of the largest such.
# speed only: any share below 1 shows it without eigenvalues, which take thirty factorisations
_SHARES = 0.1, 0.5, 0.9
# Of so many examples the smallest eigenvalue is sought alone, with so many vectors so many times.
# speed only: where more than its sign counts a factorisation confirms what is found
_MANY, _VECTORS, _TIMES = 500, 40, 10
# A negative eigenvalue is taken for so much more, as a share of it.
_MORE = 1e-6


def smallest_eigenvalue(K: np.ndarray) -> float:
    """The smallest eigenvalue of a symmetric matrix; 0 if it is negative by rounding only.

    Most matrices that are tried have none that is negative, which a Cholesky
    factorisation shows in a fraction of the time.
    """
    return 0.0 if _is_definite(K, _rounding(K)) else _negative(K)


def eigenvalue_bound(problem: Problem) -> float:
    """The same for the kernel matrix of a problem, or, with a smooth loss, a number below it.

    A precomputed matrix of few digits has eigenvalues that are a little negative, that of a sigmoid
    such that are more so. Where the dual is strictly concave all the same, a factorisation shows
    that, too: a number below the eigenvalue says no more than that.
    """
    K = problem.gram.matrix()
    if _is_definite(K, _rounding(K)):
        return 0.0
    if problem.loss.kind != SMOOTH:
        return _negative(K)
    slope = losses.largest_slope(problem.loss) * problem.weight.max()
    for share in _SHARES if slope > 0 else ():
        if _is_definite(K, share / slope):
            return -share / slope
    eigenvalue = _negative(K)
    return eigenvalue if _is_definite(K, -eigenvalue * (1 + _MORE)) else _computed(K)


def why_none(gram: Gram) -> str:
    """Why numbers grew without bound: they overflow, or the kernel has negative eigenvalues."""
    is_stored = gram.kernel.row.of == STORED
    if gram.bytes > gram.memory or deadline.is_over():
        return messages.dual_unbounded(is_stored=is_stored)
    K = gram.matrix()
    eigenvalue = smallest_eigenvalue(K) if np.isfinite(K).all() else 0.0
    if eigenvalue < 0:
        return messages.dual_unbounded(eigenvalue, is_stored)
    return messages.overflow()


def _negative(K: np.ndarray) -> float:
    """The smallest eigenvalue by Lanczos' method, whose values never lie below it; or of all."""
    if len(K) >= _MANY:
        # Of few examples all eigenvalues take less time than this takes to load.
        from scipy.sparse.linalg import ArpackError, eigsh

        start = np.random.default_rng(0).normal(size=len(K))
        try:
            (found,) = eigsh(
                K, 1, which="SA", v0=start, ncv=_VECTORS, maxiter=_TIMES, tol=_MORE,
                return_eigenvectors=False,
            )  # fmt: skip
        except ArpackError:
            return _computed(K)
        if found < -_rounding(K):
            return float(found)
    return _computed(K)


def _computed(K: np.ndarray) -> float:
    smallest = float(np.linalg.eigvalsh(K)[0])
    return 0.0 if smallest >= -_rounding(K) else smallest


def _rounding(K: np.ndarray) -> float:
    return _ROUNDING * len(K) * largest_size(K)


def _is_definite(K: np.ndarray, shift: float) -> bool:
    """Whether K + shift I is positive definite, or K is 0."""
    if not K.any():
        return True
    raised = K.copy()
    raised.flat[:: len(K) + 1] += shift
    try:
        cholesky_in_place(raised)
    except LinAlgError:
        return False
    return True


def is_strictly_concave(problem: Problem, eigenvalue: float) -> bool:
    """Whether the dual has exactly one solution."""
    return -eigenvalue * losses.largest_slope(problem.loss) * problem.weight.max() < 1


def is_optimal(problem: Problem, solution: Solution) -> bool:
    """Whether the one solution of the dual is more than a stationary point of the primal.

    Not where the dual had nothing to choose from, nor where w = 0 is better.
    """
    has_choice = losses.largest_slope(problem.loss) > 0
    return has_choice and solution.primal <= untrained(problem).primal


def is_unbounded(problem: Problem, eigenvalue: float) -> bool:
    """Whether the dual certainly has no solution."""
    loss = problem.loss
    if loss.slope_below <= 0 or loss.slope_above <= 0:
        return False  # the dual variables are bounded on one side
    smallest = min(s for s in (loss.slope_below, loss.slope_between, loss.slope_above) if s > 0)
    return -eigenvalue * smallest * problem.weight.min() > 1


def has_grown(problem: Problem, solution: Solution) -> bool:
    """Whether duals that may grow for ever have come to more than P(0)."""
    return _may_grow(problem.loss) and solution.dual > untrained(problem).primal


def has_fallen(problem: Problem, solution: Solution) -> bool:
    """Whether with such duals P has come to where nothing ends it.

    That is by more than P(0) below a bound that holds of every kernel without negative eigenvalues.
    """
    none = untrained(problem)
    return _may_grow(problem.loss) and solution.primal < none.dual - none.primal


def _may_grow(loss) -> bool:
    """Whether the duals are not bounded."""
    return loss.mu1 != 0 if loss.kind == OF_LDM else not losses.has_bounded_duals(loss)


def shift(problem: Problem, eigenvalue: float) -> Problem:
    """The problem with the same dual solution and a positive semidefinite matrix."""
    # A little more than the eigenvalue because of rounding, but never so much that a
    # slope of the sheared loss would become negative.
    slope = losses.largest_slope(problem.loss) * problem.weight.max()
    room = 1 / slope if slope > 0 else np.inf
    sigma = min(-eigenvalue * (1 + _MORE), (room - eigenvalue) / 2)
    matrix = problem.gram.matrix().copy()
    matrix.flat[:: len(matrix) + 1] += sigma
    loss = losses.shifted(losses.scaled(problem.loss, problem.weight), sigma)
    gram = Gram.of_matrix(problem.gram.kernel, matrix, problem.gram.memory)
    return problem._replace(gram=gram, weight=np.ones(problem.size), loss=loss)


def unshift(problem: Problem, solution: Solution, tolerance: float) -> Solution:
    """The solution of a shifted problem, judged in the problem itself."""
    loss = losses.scaled(problem.loss, problem.weight)
    judged, rounding = [], Rounding.of(problem)
    for coef in (solution.coef, solution.eta):
        margins = problem.margins(coef)
        norm = coef @ margins
        primal, dual, scale = objective_values(loss, norm, margins, coef)
        dual -= rounding.gap(loss, margins, coef, coef)
        gap = relative(primal - dual, scale)
        judged.append(
            solution._replace(
                coef=coef, eta=coef, primal=primal, dual=dual, gap=gap, converged=gap <= tolerance
            )
        )
    return min(judged, key=lambda one: one.gap)
