"""What a linear problem costs, by Newton's method and by coordinate descent.

Newton's step with a Hessian costs the pairs of nonzeros in the rows, or m d^2 by BLAS; by
conjugate gradients it costs products with the rows; in function space m^3. An epoch of coordinate
descent costs the nonzeros and a jump in memory for every row, and compiled code must be loaded
for it. Twenty epochs tell how coordinate descent gets on. How many products, epochs and steps in
function space are needed grows with the curvature, the largest second derivative of a loss times
|x|^2, which is to say with lambda. These numbers are guesses (fitted on reuters-lasvm, and on
basehock raw and in [0, 1], lambda 2^0 to 2^20): who relies on them must set a limit. Where a loss
jumps, Newton's method takes some twenty steps for every lambda, and Hessians of few rows; for LDM
its rows become dense (:mod:`odmtool.solvers.ldm.reduced`).

The rates are seconds of one core, measured once; only their proportions matter.
"""

# speed only: the cheapest solver is guessed, and each of them certifies
from __future__ import annotations

import numpy as np

from odmtool.core import losses
from odmtool.core.gram import BYTES
from odmtool.core.kernels import squares
from odmtool.core.loss_table import JUMPS, OF_LDM, SMOOTH
from odmtool.solvers.base import LARGEST_GRAM, LARGEST_HESSIAN, Problem

# What is loaded: the compiled epochs, which a first run makes, too, and SciPy where a Gram matrix
# is made.
_COMPILED, _SCIPY = 0.1, 0.1
# A product with X and one with X', for a nonzero.
_PRODUCT = 2e-9
# An epoch, for a row and a nonzero.
_EPOCH_ROW, _EPOCH_ENTRY = 1e-7, 2e-9
# X'SX: a pair of nonzeros in a row; a cell of the dense rows, and a multiplication by BLAS.
_PAIR, _CELL, _MULTIPLICATION = 2e-9, 1.5e-9, 2e-11
# A step in function space, for m^3: rows and columns are gathered, scaled and factored.
_GRAM_STEP = 1.5e-11
# Steps with a Hessian, the Hessians of all rows that they cost together, and the products of each;
# how many there are of what is not so for a curvature of 1, how they grow with it, and the fewest
# and the most.
_STEPS, _HESSIANS, _STEP_PRODUCTS = 4, 1.5, 2
_GRAM_STEPS, _GRAM_GROWTH, _MOST_GRAM_STEPS = 3, 0.3, 20
_EPOCHS, _EPOCH_GROWTH, _LEAST_EPOCHS, _MOST_EPOCHS = 5, 0.6, 10, 1000
# Twenty steps where a loss jumps once, for a row, and the Hessians that their products come to, of
# all rows; of the dense rows of LDM.
_JUMP_ROW, _JUMP_HESSIANS, _LDM_HESSIANS = 2e-6, 4, 15
# Epochs after which gaps tell (:mod:`odmtool.solvers.descent.trend`), and a few more.
_TRIED = 20
_PRODUCTS, _PRODUCT_GROWTH, _LEAST_PRODUCTS = 8, 0.75, 20
# Dense rows of so many bytes are kept as they are.
_DENSE_BYTES = 2**22


def becomes_array(X) -> bool:
    """Whether rows are one or may become one, which takes less time than to load SciPy."""
    return isinstance(X, np.ndarray) or BYTES * X.shape[0] * X.shape[1] <= _DENSE_BYTES


def nonzeros(X) -> int:
    """The nonzeros of sparse rows, the cells of dense ones."""
    return X.size if isinstance(X, np.ndarray) else X.nnz


def hessian_costs(X) -> tuple[float, float]:
    """Seconds for X'SX from sparse products, and from dense rows."""
    m, d = X.shape
    dense = m * d * (_CELL + _MULTIPLICATION * d)
    if isinstance(X, np.ndarray):
        return np.inf, dense
    return _PAIR * float(np.square(np.diff(X.indptr), dtype=float).sum()), dense


def curvature(problem: Problem) -> float:
    """The largest second derivative of u l times |x|^2, on average."""
    slope = losses.largest_slope(problem.loss)
    with np.errstate(over="ignore"):
        return float(slope * np.mean(problem.weight * squares(problem.X)))


def gradients_cost(problem: Problem) -> float:
    """Seconds of Newton's method on w by conjugate gradients."""
    count = max(_LEAST_PRODUCTS, _PRODUCTS * curvature(problem) ** _PRODUCT_GROWTH)
    return _PRODUCT * nonzeros(problem.X) * count


def gram_cost(problem: Problem) -> float:
    """Seconds of Newton's method on the duals, with a Gram matrix; inf where it is too large."""
    m = problem.size
    if m > LARGEST_GRAM:
        return np.inf
    steps = max(1.0, _GRAM_STEPS * curvature(problem) ** _GRAM_GROWTH)
    steps = min(steps, _MOST_GRAM_STEPS)
    loaded = 0.0 if becomes_array(problem.X) else _SCIPY
    return loaded + _gram_making(problem.X) + steps * _GRAM_STEP * m**3


def _gram_making(X) -> float:
    """Seconds for XX', from sparse products or from dense rows."""
    m, d = X.shape
    dense = _MULTIPLICATION * m * m * d
    if isinstance(X, np.ndarray):
        return dense
    columns = np.bincount(X.indices, minlength=d)
    return min(dense, _PAIR * float(np.square(columns, dtype=float).sum()))


def newton_cost(problem: Problem) -> float:
    """Seconds of Newton's method."""
    m, d = problem.X.shape
    by_gram = gram_cost(problem) if m < d else np.inf
    if d > LARGEST_HESSIAN:
        return min(by_gram, gradients_cost(problem))
    return by_gram if m < d and by_gram < np.inf else _hessian_steps_cost(problem.X)


def _hessian_steps_cost(X) -> float:
    step = _STEP_PRODUCTS * _PRODUCT * nonzeros(X) + _MULTIPLICATION * X.shape[1] ** 3
    return _HESSIANS * min(hessian_costs(X)) + _STEPS * step


def jump_newton_cost(X, kind: str) -> float:
    """Seconds of Newton's method for losses that jump, or LDM; with few features."""
    rows, (sparse, dense) = _JUMP_ROW * X.shape[0], hessian_costs(X)
    if kind == OF_LDM:
        return rows + _LDM_HESSIANS * dense
    # Where a loss jumps twice every example is there twice.
    return (1 + (kind == JUMPS)) * (rows + _JUMP_HESSIANS * min(sparse, dense))


def epoch_cost(X, kind: str = SMOOTH) -> float:
    """Seconds of an epoch of coordinate descent; of LDM, which leaves out no examples, twice."""
    return (1 + (kind == OF_LDM)) * (_EPOCH_ROW * X.shape[0] + _EPOCH_ENTRY * nonzeros(X))


def descent_cost(problem: Problem) -> float:
    """Seconds of coordinate descent, compiled code included."""
    epochs = max(_LEAST_EPOCHS, _EPOCHS * curvature(problem) ** _EPOCH_GROWTH)
    epochs = min(epochs, _MOST_EPOCHS)
    return _COMPILED + epochs * epoch_cost(problem.X)


def trial_cost(X) -> float:
    """Seconds of coordinate descent until its gaps tell whether it is slow."""
    return _COMPILED + _TRIED * epoch_cost(X)


def least_descent_cost(X, kind: str = SMOOTH) -> float:
    """Seconds of few epochs of coordinate descent, compiled code included."""
    return _COMPILED + _LEAST_EPOCHS * epoch_cost(X, kind)


def has_few_columns(X) -> bool:
    """Whether Newton's method on w makes Hessians that are smaller than a Gram matrix."""
    m, d = X.shape
    return d <= min(m, LARGEST_HESSIAN)


def is_surely_newton(X) -> bool:
    """Whether Newton's method costs less than coordinate descent, whatever the smooth loss."""
    return has_few_columns(X) and _hessian_steps_cost(X) <= least_descent_cost(X)
