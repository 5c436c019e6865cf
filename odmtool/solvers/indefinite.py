"""Kernels with negative eigenvalues (sigmoid, precomputed): is there a solution at all?

With Q indefinite the primal is not convex, but the dual that the papers solve may be:

    max over eta of -1/2 eta'Q eta + sum_i min_t [u_i l(t) + eta_i t]

The second term is strongly concave with modulus at least 1 / (largest slope), so with
e the smallest eigenvalue of Q

    -e < 1 / (largest slope)    one solution: Q + sigma I with sigma = -e and the loss
                                sheared to match (:func:`odmtool.losses.shifted`) have the
                                same dual and a positive semidefinite matrix
    -e > 1 / (smallest slope)   unbounded: eta can grow along the eigenvector for ever
    between                     unknown: coordinate descent reaches a stationary point or
                                diverges

For ODM the slopes are 2 c1 and 2 c2 = 2 mu c1.
"""

from __future__ import annotations

import numpy as np

from odmtool import losses
from odmtool.gram import Gram
from odmtool.solvers.base import Problem, Solution, objective_values, relative

# Eigenvalues above minus this share of the largest are zero but for rounding.
_ROUNDING = 1e-10
_SMALL = 400


def smallest_eigenvalue(K: np.ndarray) -> float:
    """The smallest eigenvalue of a symmetric matrix; 0 if it is negative by rounding only."""
    if len(K) <= _SMALL:
        values = np.linalg.eigvalsh(K)
        smallest, largest = values[0], np.abs(values).max()
    else:
        from scipy.sparse.linalg import eigsh

        # A seeded start: the default one is random and would change the model.
        start = np.random.default_rng(0).standard_normal(len(K))
        smallest = eigsh(K, k=1, which="SA", return_eigenvectors=False, v0=start, tol=1e-8)[0]
        largest = np.abs(eigsh(K, k=1, return_eigenvectors=False, v0=start, tol=1e-2)[0])
    return 0.0 if smallest >= -_ROUNDING * largest else float(smallest)


def is_strictly_concave(problem: Problem, eigenvalue: float) -> bool:
    """Whether the dual has exactly one solution."""
    return -eigenvalue * losses.largest_slope(problem.loss) * problem.weight.max() < 1


def is_unbounded(problem: Problem, eigenvalue: float) -> bool:
    """Whether the dual certainly has no solution."""
    slopes = [problem.loss.slope_below, problem.loss.slope_between, problem.loss.slope_above]
    smallest = min((s for s in slopes if s > 0), default=0.0)
    return -eigenvalue * smallest * problem.weight.min() > 1


def shift(problem: Problem, eigenvalue: float) -> Problem:
    """The problem with the same dual solution and a positive semidefinite matrix."""
    # A little more than the eigenvalue, which is known to 8 digits only.
    sigma = -eigenvalue * (1 + 1e-6)
    matrix = problem.gram.matrix().copy()
    matrix.flat[:: len(matrix) + 1] += sigma
    loss = losses.shifted(losses.scaled(problem.loss, problem.weight), sigma)
    gram = Gram.of_matrix(problem.gram.kernel, matrix, problem.gram.memory)
    return problem._replace(gram=gram, weight=np.ones(problem.size), loss=loss)


def unshift(problem: Problem, solution: Solution, tolerance: float) -> Solution:
    """The solution of a shifted problem, judged in the problem itself."""
    coef = solution.coef
    margins = problem.y * (problem.gram.matrix() @ (problem.y * coef))
    loss = losses.scaled(problem.loss, problem.weight)
    norm = coef @ margins
    primal, dual, scale = objective_values(loss, norm, norm, margins, coef)
    gap = relative(primal - dual, scale)
    return solution._replace(
        eta=coef, primal=primal, dual=dual, gap=gap, converged=gap <= tolerance
    )
