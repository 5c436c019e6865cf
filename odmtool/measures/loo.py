"""Leave-one-out: bounds of its errors from the dual variables, the papers' estimates, refits.

Leaving example i out drops its whole loss and changes nothing else: the cost of one unit of
weight stays (M is not reduced), and an example of weight 2 goes as a whole. With w^i the
solution without i, s_i = y_i <w^i, phi(x_i)> and k_ii = k(x_i, x_i), an error is s_i <= 0.

Bound       P_i = P without l_i is 1-strongly convex. A primal point w and a dual point eta
            of the whole problem are one of P_i when eta_i is set to 0; both are near w^i,
            which lies in the ball

                centre (w + w(eta) - eta_i z_i) / 2,    z_i = y_i phi(x_i),
                radius^2 = |w - w(eta) + eta_i z_i|^2 / 4 + sum over j != i of share_j

            with share_j = l_j(t_j) + eta_j t_j - min_t [l_j(t) + eta_j t]: what j adds to the
            gap. At the optimum w = w(eta), the shares are 0, and s_i lies between
            t_i - max(eta_i, 0) k_ii and t_i - min(eta_i, 0) k_ii.
            For ODM, s_i <= 0 is then possible only where zeta_i (k_ii + 1/2c1) >= 1 - theta.
LDM         couples the examples by the mean; see :func:`_ldm_bounds`.
Papers      :func:`odm_papers` and :func:`ldm_papers`; docs/leave-one-out.md tells what is known
            of them.
Source      the bound is that of Jaakkola & Haussler, "Probabilistic kernel regression models",
            AISTATS 1999, for any convex loss and any gap; Zhang & Zhou, arXiv 1604.03348,
            Theorems 2 and 3, and "Large margin distribution machine", KDD 2014, Theorem 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from odmtool import messages
from odmtool.core import kernels, losses
from odmtool.core.gram import BYTES
from odmtool.core.kernels import Kernel
from odmtool.core.losses import MarginLoss
from odmtool.errors import UsageError
from odmtool.solvers.base import Problem, Solution

Solve = Callable[..., Solution]
"""``solve(problem, start=duals)``"""

_BLOCK_BYTES = 2**24
_ROUNDING = 1e-9
# The papers' estimate for LDM factors a matrix of this size at most.
_LARGEST_MATRIX = 5000


class Bounds(NamedTuple):
    """What is known of every s_i: arrays of shape (m,), low <= s <= high."""

    low: np.ndarray
    high: np.ndarray


class Papers(NamedTuple):
    """The papers' estimates of the number of errors; None where a paper has none."""

    count: int | None  # examples that the papers' proof cannot exclude
    total: float | None  # the sum that bounds the expected number in the theorem


class Exact(NamedTuple):
    """Every example predicted by a machine trained without it."""

    is_error: np.ndarray  # booleans, shape (m,)
    refits: int  # how many machines had to be trained; the bounds settle the others
    uncertain: int  # how many of these have a value so near 0 that their gap does not tell its sign


def check_leaving_out(problem: Problem) -> None:
    """Raise UsageError if there is nothing to leave out or the bounds would not hold.

    For a kernel that is not known to be positive semidefinite this computes the matrix.
    """
    if np.ptp(problem.y) == 0:
        raise UsageError(messages.loo_needs_two_classes())
    gram = problem.gram
    if gram is None or gram.kernel.is_positive_semidefinite:
        return
    from odmtool.solvers.indefinite import smallest_eigenvalue

    if gram.bytes > gram.memory or smallest_eigenvalue(gram.matrix()) < 0:
        raise UsageError(messages.loo_needs_positive_definite())


def bounds(problem: Problem, solution: Solution) -> Bounds:
    """Bounds of s_i from a primal and a dual point; for LDM they need a small gap.

    ``problem``: with a positive semidefinite kernel.
    """
    k, eta, t = _diagonal(problem), solution.eta, _margins(problem, solution)
    if not isinstance(problem.loss, MarginLoss):
        return _ldm_bounds(problem, t, eta, k)
    loss = losses.scaled(problem.loss, problem.weight)
    dual_t = _margins(problem, solution._replace(coef=eta, w=None))
    # |w - w(eta)|^2, of which coef y and eta y are the coefficients.
    apart = 0.0
    if solution.coef is not eta or problem.gram is None:
        squared_norm = solution.coef @ t if solution.w is None else solution.w @ solution.w
        apart = max(0.0, squared_norm + eta @ (dual_t - 2 * t))
    share = np.maximum(0.0, losses.value(loss, t) + eta * t - losses.dual_value(loss, eta))
    centre = (t + dual_t - eta * k) / 2
    squared = (apart + 2 * eta * (t - dual_t) + eta * eta * k) / 4 + share.sum() - share
    reach = np.sqrt(np.maximum(0.0, squared) * k)
    return Bounds(centre - reach, centre + reach)


def _ldm_bounds(problem: Problem, t, eta, k) -> Bounds:
    """Bounds of s_i for LDM, at its optimum.

    Without i the objective, with its own b, has at w the gradient
    v_i = eta_i z_i + g_i m_i with g_i = (2 mu1/M) u_i (t_i - b), b the weighted mean margin
    and m_i the weighted mean of the other z_j; as it is 1-strongly convex, w - w^i lies in
    the ball of diameter [0, v_i], so 2 (t_i - s_i) is in <v_i, z_i> +- |v_i| |z_i|.
    """
    u, loss = problem.weight, problem.loss
    sums = _margins_of(problem, u)  # <z_i, sum of u_j z_j>
    others = np.maximum(u.sum() - u, np.finfo(float).tiny)
    g = 2 * loss.mu1 / loss.total_weight * u * (t - u @ t / u.sum())
    toward = (sums - u * k) / others  # <m_i, z_i>
    squared = (u @ sums - 2 * u * sums + u * u * k) / others**2  # |m_i|^2
    along = eta * k + g * toward
    length = np.maximum(0.0, eta * eta * k + 2 * eta * g * toward + g * g * squared)
    reach = np.sqrt(length * k)
    return Bounds(t - (along + reach) / 2, t - (along - reach) / 2)


def most_errors(problem: Problem, known: Bounds) -> int:
    """The largest number of errors that the bounds allow."""
    return int(np.count_nonzero((known.low <= 0) | _is_alone(problem)))


def odm_papers(problem: Problem, solution: Solution) -> Papers:
    """The estimates that the papers' proof gives for ODM, c1 held fixed.

    The proof compares the dual with and without the two variables of example i:
    an error needs zeta_i (k_ii + 1/2c1) >= 1-theta, or
    beta_i sqrt((k_ii + 1/2c1) (k_ii + 1/2c2)) >= 1-theta. ``count`` counts these; ``total``
    adds up the left-hand sides, divided by 1-theta, as the theorem does.
    With weights, c1 u_i and c2 u_i stand for c1 and c2.
    """
    k, loss, u = _diagonal(problem), problem.loss, problem.weight
    zeta, beta = np.maximum(solution.eta, 0.0), np.maximum(-solution.eta, 0.0)
    below = k + 1 / (loss.slope_below * u)
    above = k + 1 / (loss.slope_above * u)
    shares = np.concatenate([zeta * below, beta * np.sqrt(below) * np.sqrt(above)]) / loss.lo
    # A row of zeros has a share of 1, and is an error whatever the others are.
    return Papers(int(np.count_nonzero(shares >= 1 - _ROUNDING)), float(shares.sum()))


def ldm_papers(problem: Problem, solution: Solution) -> Papers:
    """The estimate h sum of alpha_i over 0 < alpha_i < C_i, plus #{alpha_i = C_i}, for LDM.

    alpha_i is the dual variable of the hinge alone, C_i = lambda u_i / M, and h the largest
    H_ii of the papers' dual matrix. Example i stays in the mean, the variance and M.
    None where the matrix is too large.
    """
    m, u = problem.size, problem.weight
    if m > _LARGEST_MATRIX:
        return Papers(None, None)
    mu1, mu2, lambda_, total = problem.loss
    t = _margins(problem, solution)
    most = lambda_ / total * u
    alpha = solution.eta + u / total * (2 * mu1 * (t - u @ t / u.sum()) - mu2)
    alpha = np.where(alpha > _ROUNDING * most, np.minimum(alpha, most), 0.0)
    at_most = alpha >= most * (1 - 1e-6)
    h = _ldm_diagonal(problem).max()
    return Papers(None, float(h * alpha[~at_most].sum() + np.count_nonzero(at_most)))


def _ldm_diagonal(problem: Problem) -> np.ndarray:
    """Diagonal of H = Q (I + A Q)^-1, A = (2 mu1/M) (diag(u) - uu'/sum u), without an inverse.

    A = SS' for S = sqrt(2 mu1/M) diag(u)^1/2 (I - pp'), p = (u / sum u)^1/2, so
    H = Q - QS (I + S'QS)^-1 S'Q.
    """
    u, y = problem.weight, problem.y
    Q = _matrix(problem) * y[:, None] * y[None, :]
    p = np.sqrt(u / u.sum())
    root = np.sqrt(2 * problem.loss.mu1 / problem.loss.total_weight)
    QS = root * Q * np.sqrt(u)[None, :]
    QS -= np.outer(QS @ p, p)
    inner = root * np.sqrt(u)[:, None] * QS
    inner -= np.outer(p, p @ inner)
    inner.flat[:: len(u) + 1] += 1.0
    return Q.diagonal() - np.einsum("ij,ji->i", QS, cho_solve(cho_factor(inner), QS.T))


def exact(
    problem: Problem, whole: Solution, solve: Solve, *, progress=lambda done, total: None
) -> Exact:
    """Leave every example out and predict it, training again only where the bounds leave doubt.

    Parameters
    ----------
    whole : Solution
        Of the problem; the smaller its gap, the less doubt.
    solve : callable
        Solves a problem from given duals, to a small gap.
    progress : callable
        Called with how many of how many refits are done.
    """
    alone = _is_alone(problem)
    if isinstance(problem.loss, MarginLoss):
        known = bounds(problem, whole)
        certain, is_error = (known.low > 0) | (known.high < 0), known.high < 0
    else:
        certain, is_error = np.zeros(problem.size, dtype=bool), np.zeros(problem.size, dtype=bool)
    doubtful = np.flatnonzero(~certain & ~alone)
    is_error = is_error | alone
    k, uncertain = _diagonal(problem), 0
    for done, i in enumerate(doubtful):
        progress(done, len(doubtful))
        rest = np.delete(np.arange(problem.size), i)
        solution = solve(_part(problem, rest), start=whole.eta[rest])
        f = _value(problem, rest, solution, i)
        # |w - w^i|^2 / 2 is at most P - D.
        uncertain += not solution.converged and f * f <= 2 * _gap(solution) * k[i]
        is_error[i] = (f > 0) != (problem.y[i] > 0)
    return Exact(is_error, len(doubtful), uncertain)


# ---- what they are made of -------------------------------------------------------


def _is_alone(problem: Problem) -> np.ndarray:
    """The only example of its class: who has never seen the class answers the other one."""
    alone = np.zeros(problem.size, dtype=bool)
    for sign in (1.0, -1.0):
        members = np.flatnonzero(problem.y == sign)
        if members.size == 1:
            alone[members] = True
    return alone


def _part(problem: Problem, rows: np.ndarray) -> Problem:
    X = None if problem.X is None else problem.X[rows]
    gram = None if problem.gram is None else problem.gram.subset(rows)
    return problem._replace(X=X, gram=gram, y=problem.y[rows], weight=problem.weight[rows])


def _value(problem: Problem, rest: np.ndarray, solution: Solution, i: int) -> float:
    """f(x_i) of a machine trained on ``rest``."""
    if problem.gram is None:
        return float(np.asarray(problem.X[[i]] @ solution.w).ravel()[0])
    row = problem.gram.rows(np.array([i]))[0]
    return float(row[rest] @ (problem.y[rest] * solution.coef))


def _gap(solution: Solution) -> float:
    return max(0.0, solution.primal - solution.dual)


def _diagonal(problem: Problem) -> np.ndarray:
    if problem.gram is None:
        return kernels.diagonal(Kernel("linear"), problem.X)
    return problem.gram.diagonal()


def _matrix(problem: Problem) -> np.ndarray:
    if problem.gram is None:
        return kernels.gram(Kernel("linear"), problem.X)
    return problem.gram.matrix()


def _margins(problem: Problem, solution: Solution) -> np.ndarray:
    """t_i of w, or of the expansion where there is no w."""
    if solution.w is not None:
        return problem.y * np.asarray(problem.X @ solution.w)
    return _margins_of(problem, solution.coef)


def _margins_of(problem: Problem, coef: np.ndarray) -> np.ndarray:
    """y_i <sum_j coef_j y_j phi(x_j), phi(x_i)>, in blocks of kernel rows."""
    expansion = problem.y * coef
    if problem.gram is None:
        return problem.y * np.asarray(problem.X @ (problem.X.T @ expansion))
    m = problem.size
    step = max(1, _BLOCK_BYTES // (BYTES * m))
    parts = (np.arange(k, min(k + step, m)) for k in range(0, m, step))
    return problem.y * np.concatenate([problem.gram.rows(part) @ expansion for part in parts])
