"""LDM as a support vector machine in another inner product.

Without its hinge LDM is quadratic, with the Hessian

    H = 1 + c sum_i u_i z_i z_i',    z_i = y_i phi(x_i) - mean,    c = 2 mu1/M

(mean = sum u y phi / sum u). Put w~ = H^1/2 w and phi~ = H^-1/2 phi: then

    P = 1/2 |w~|^2 + sum_i u_i [rho max(0, 1 - t_i) - nu t_i],    t_i = y_i <w~, phi~(x_i)>,

a problem with a row of the table, whose duals lie in u_i [nu, nu + rho], and whose gap is
that of LDM. This is the papers' dual. What it costs is H: either d x d for rows, or in the
kernel matrix K~ = phi~ phi~'. With the diagonal D = c u that is, by Woodbury's identity
and Cholesky, without a general inverse,

    E = K (1 + D K)^-1 = K - V V',    V = K D^1/2 L^-T,    L L' = 1 + D^1/2 K D^1/2,

and the rank-one term of the mean follows by Sherman and Morrison's: with a = E (y u)

    K~ = E + k a a' / (1 - k (y u)'a),    k = c / sum u.

Back in the first space, w = sum_i (eta~_i - c u_i (t_i - mean t)) y_i phi(x_i).
Source: Zhang & Zhou, "Large margin distribution machine", KDD 2014, eq. (6)-(11), where the
inverse is a general one of an m x m matrix that is not symmetric.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import LinAlgError, solve_triangular

from odmtool import messages
from odmtool.core import lapack, losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.errors import DivergedError, UsageError
from odmtool.solvers.base import Problem, Solution, Stop
from odmtool.solvers.indefinite import smallest_eigenvalue
from odmtool.solvers.ldm.dual import certified, feasible
from odmtool.solvers.newton.factor import cholesky_in_place

# A reduced problem solved to this gap is solved: what is missing is rounding.
# speed only: how long to go on where rounding is all that moves
_ROUNDING = 1e-16
# speed only: rows at a time
_BLOCK_ROWS = 2**10
# How often the diagonal of a matrix is raised, and ten times more, until it has a factor.
_RAISES = 8
_EPSILON = np.finfo(float).eps


def solve(
    problem: Problem, reduced: Problem, method: Callable[..., Solution], stop: Stop,
    start: np.ndarray | None, name: str,
) -> Solution:  # fmt: skip
    """Solve LDM by solving the reduced problem.

    Parameters
    ----------
    problem : Problem
        Its loss is an LDM.
    reduced : Problem
        From :func:`by_gram` or :func:`by_rows`.
    method : callable
        ``method(reduced, stop, start=eta)`` solves a problem with a row of the table.
    start : ndarray, shape (m,), optional
        Dual variables of LDM.
    name : str
        Of the solver, for the solution.
    """
    inner_start = None if start is None else _reduced_duals(problem, start)
    tolerance, iterations = stop.tolerance, 0
    while True:
        limit = Stop(tolerance, stop.max_iter - iterations)
        inner = method(reduced, limit, start=inner_start)
        iterations += inner.iterations
        eta = inner.eta - pull(problem, reduced.margins(inner.eta))
        solution = certified(problem, eta, iterations, stop, name)
        if solution.converged or not inner.converged or iterations >= stop.max_iter:
            return solution
        # The gap is the same, but the scale to which it is relative is not quite.
        tolerance, inner_start = min(tolerance, inner.gap) / 4, inner.eta
        if not tolerance > _ROUNDING:
            return solution


def pull(problem: Problem, t: np.ndarray) -> np.ndarray:
    """c u_i (t_i - mean t), by which the variance draws each margin."""
    weight, c = problem.weight, 2 * problem.loss.mu1 / problem.loss.total_weight
    return c * weight * (t - weight @ t / weight.sum())


def _reduced_duals(problem: Problem, eta: np.ndarray) -> np.ndarray:
    eta = feasible(problem.loss, problem.weight, eta)
    without_variance = problem.loss._replace(mu1=0.0)
    pulled = eta + pull(problem, problem.margins(eta))
    return feasible(without_variance, problem.weight, pulled)


def by_rows(problem: Problem) -> Problem:
    """The reduced problem of a linear one, with dense rows of as many features.

    Its margins are those of the problem itself. Besides its rows it takes little.
    """
    X = problem.X.copy() if isinstance(problem.X, np.ndarray) else problem.X.toarray()
    weight, c = problem.weight, 2 * problem.loss.mu1 / problem.loss.total_weight
    mean = (weight * problem.y) @ X / weight.sum()

    def hessian() -> np.ndarray:
        H = np.eye(X.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(X), _BLOCK_ROWS):
                part = slice(start, start + _BLOCK_ROWS)
                block = problem.y[part, None] * X[part] - mean
                block *= np.sqrt(c * weight[part])[:, None]
                H += block.T @ block
        return H

    # In place: X' has LAPACK's order of values.
    # speed only: what need not be checked or kept
    rows = solve_triangular(
        _cholesky(hessian), X.T, lower=True, overwrite_b=True, check_finite=False
    ).T
    return problem._replace(X=np.ascontiguousarray(rows), loss=_row(problem))


def by_gram(problem: Problem) -> Problem:
    """The reduced problem of a kernel problem, or of a linear one with few rows.

    Raises UsageError: the kernel is not positive semidefinite.
    """
    gram = problem.gram or Gram(Kernel("linear"), problem.X)
    K = gram.matrix()
    if not gram.kernel.is_positive_semidefinite and (eigenvalue := smallest_eigenvalue(K)):
        raise UsageError(messages.ldm_needs_convex(eigenvalue))
    weight, c = problem.weight, 2 * problem.loss.mu1 / problem.loss.total_weight
    E = _ridge_kernel(K, np.sqrt(c * weight))
    share = c / weight.sum()
    signed = problem.y * weight
    a = E @ signed
    left = max(1 - share * (signed @ a), _EPSILON)  # positive but for rounding
    a /= np.sqrt(left) / np.sqrt(share)
    for start in range(0, len(E), _BLOCK_ROWS):
        E[start : start + _BLOCK_ROWS] += a[start : start + _BLOCK_ROWS, None] * a
    return problem._replace(
        X=None, gram=Gram.of_matrix(gram.kernel, E, gram.memory), loss=_row(problem)
    )


def _row(problem: Problem) -> losses.MarginLoss:
    return losses.ldm_row(problem.loss._replace(mu1=0.0), 0.0)


def _ridge_kernel(K: np.ndarray, root: np.ndarray) -> np.ndarray:
    """K (1 + D K)^-1, D = diag(root^2) > 0; with K, three matrices are in memory at a time."""

    def raised() -> np.ndarray:
        B = root[:, None] * K
        B *= root
        B.flat[:: len(B) + 1] += 1.0
        return B

    L = _cholesky(raised)
    if np.max(root**2 * K.diagonal()) < 1:
        V = K * root
        lapack.solve_rows(L, V)
        del L
        E = V @ V.T
        return np.subtract(K, E, out=E)
    # The same as D^-1/2 (1 - B^-1) D^-1/2, without the differences of large numbers.
    lapack.invert_factored(L)
    for i in range(len(L)):
        L[i, : i + 1] /= -root[i] * root[: i + 1]
        L[:i, i] = L[i, :i]
    L.flat[:: len(L) + 1] += root**-2.0
    return L


def _cholesky(make: Callable[[], np.ndarray]) -> np.ndarray:
    """The lower factor of what ``make`` gives; zeros above its diagonal are not made.

    Where large numbers hide the 1 that was added, rounding can make an eigenvalue negative. Then
    the diagonal is raised by no more than hides it; the gap tells what that costs.
    """
    for power in range(_RAISES):
        A = make()
        if not np.all(np.isfinite(A)):
            raise DivergedError(messages.overflow())
        A.flat[:: len(A) + 1] *= 1.0 + (power > 0) * 10.0**power * len(A) * _EPSILON
        try:
            return cholesky_in_place(A)
        except LinAlgError:
            continue
    raise DivergedError(messages.rounding_hides())
