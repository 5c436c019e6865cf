"""The spaces in which Newton's method looks for w.

:class:`WeightSpace` (w space)     the unknown is w itself, d numbers.
:class:`FunctionSpace`             the unknown is coef, w = sum_i coef_i y_i phi(x_i),
                                   m numbers; needs kernel values only.

They answer the same questions: margins, norms, the gap, and the Newton point. So do two more of
the first kind: features in the span of landmarks (:mod:`odmtool.solvers.engine.reduced`), and rows
known by passes over them (:mod:`odmtool.solvers.large.blocks`).
"""

from __future__ import annotations

import contextlib

import numpy as np
from numpy.linalg import LinAlgError

from odmtool.core import deadline, kernels, losses
from odmtool.core.csr import CSR, scipy_rows
from odmtool.core.gram import BYTES, Gram
from odmtool.core.kernels import Kernel
from odmtool.core.loss_table import SMOOTH, MarginLoss
from odmtool.rows.executor import Serial
from odmtool.solvers import linear_cost
from odmtool.solvers.base import LARGEST_GRAM, LARGEST_HESSIAN, Problem
from odmtool.solvers.newton.factor import cholesky_in_place, cholesky_solve, conjugate_gradients
from odmtool.solvers.newton.hessian import ChangingHessian, is_thin
from odmtool.solvers.rounding import Rounding, demanded_gap, primal_error

# With a larger share of values that are not zero, products with an array are faster.
_DENSE = 0.4
# To what share of the gradient a step is solved far from the solution; and so where examples are
# as many as features: margins cannot all be as wanted then, and the next step has other pieces.
# (4200 x 3500 normal numbers take half of the products; texts of fewer examples twice as many.)
# speed only: the gap decides when it ends, not how precise a step was
_COARSEST, _COARSEST_OF_MANY = 0.03, 0.1
# speed only: and at the end, to what share of the gradient that is small enough
_ENOUGH = 0.5
# speed only: up to this share of all, rows are copied for their products
_MOST = 0.75
# speed only: so many cells of dense rows stay in the processor's cache between two products
_BLOCK_CELLS = 2**18
# speed only: so many values of a kernel matrix, gathered at a time, the processor keeps at hand
_BLOCK_VALUES = 2**15


def space_of(problem: Problem, executor: Serial | None = None) -> Space:
    """The space in which the problem is smallest; ``executor`` as for :class:`WeightSpace`."""
    if problem.gram is not None:
        return FunctionSpace(problem.gram, problem.y)
    m, d = problem.X.shape
    has_choice = d > LARGEST_HESSIAN and _is_smooth(problem.loss)
    if _is_smaller_by_examples(m, d) and not (has_choice and _takes_gradients(problem)):
        X = problem.X.toarray() if _is_small(problem.X) else scipy_rows(problem.X)
        return FunctionSpace(Gram(Kernel("linear"), X), problem.y, problem.X)
    return WeightSpace(problem.X, problem.y, executor)


def _is_smooth(loss) -> bool:
    """Whether it is; a MarginLoss of arrays is a part of one that jumps."""
    has_parts = isinstance(loss, MarginLoss) and np.ndim(loss.lo) > 0
    return not has_parts and loss.kind == SMOOTH


def _is_small(X) -> bool:
    """Whether sparse rows become an array."""
    return not isinstance(X, np.ndarray) and linear_cost.becomes_array(X)


def _is_smaller_by_examples(m: int, d: int) -> bool:
    return m < d and m <= LARGEST_GRAM


def _takes_gradients(problem: Problem) -> bool:
    """Whether conjugate gradients on w are cheaper than a Gram matrix."""
    return linear_cost.gradients_cost(problem) < linear_cost.gram_cost(problem)


def array_bytes(X) -> float:
    """What sparse rows take as an array, with a copy of some of them; 0 if they stay sparse.

    They become one where only products with rows are made, and few of their values are zero.
    """
    m, d = X.shape
    if isinstance(X, np.ndarray) or d <= LARGEST_HESSIAN or X.nnz <= _DENSE * m * d:
        return 0.0
    return (1 + _MOST) * BYTES * m * d


def matrix_bytes(m: int, d: int) -> int:
    """What the matrix of a linear problem with m rows and d columns and its factor take."""
    side = m if _is_smaller_by_examples(m, d) else d if d <= LARGEST_HESSIAN else 0
    return 2 * BYTES * side * side


class FunctionSpace:
    """The unknown is coef, shape (m,).

    Parameters
    ----------
    y : ndarray of +1.0 and -1.0, shape (m,)
    X : CSR, csr_matrix or ndarray, shape (m, d), optional
        Rows of a linear problem, from which w is made at the end.
    """

    gap_depends_on_far = True

    def __init__(self, gram: Gram, y: np.ndarray, X=None):
        self._K, self._y, self._X = gram.matrix(), y, None if X is None else _light(X)
        self._rounding = Rounding(gram, y=y if X is None else None)

    def zero(self):
        return np.zeros(len(self._y))

    def point(self, eta):
        return np.array(eta, dtype=float)

    def margins(self, coef):
        if self._X is not None:
            # Through w, so that the values are those of the model that is made of it.
            return self._y * np.asarray(self._X @ (self._X.T @ (self._y * coef)))
        return self._y * (self._K @ (self._y * coef))

    def exact_margins(self, coef):
        """Margins from which to go on where rounding hides the way, or None."""
        return self._rounding.exact_margins(coef)

    def squared_norm(self, coef, t):
        return coef @ t

    def cross(self, coef, t, direction, change):
        """<w, p> and <p, p>."""
        return direction @ t, direction @ change

    def gap(self, loss, coef, t, eta, enough, far):
        """The smaller of two gaps of the primal point coef, its dual point, and the margins.

        The second is not looked at when the first is at most ``enough``, or when it is certainly
        larger, or more than ``far``.

        The duals eta that the margins demand are exact where coef is, but rounding
        in t counts with the size of the kernel values; for coef as its own dual
        point it does not.
        """
        difference, (w, _) = coef - eta, self.solution(coef, eta)
        most = losses.slopes_largest(loss)
        seeming = np.maximum(0.0, difference @ self.margins(difference) / 2)
        hidden = self._rounding.of_demanded(most, coef, difference, w, np.sqrt(2 * seeming))
        # speed only: whether a smaller bound is looked for
        if not hidden <= max(seeming, enough) / 100:
            hidden = self._rounding.gap(loss, t, coef, eta, enough / 100, w, np.sqrt(2 * seeming))
        demanded = seeming + hidden
        if demanded <= enough:
            return demanded, eta, t
        # The second gap is at least this, because no derivative grows faster than ``most``.
        with np.errstate(divide="ignore"):
            # speed only: whether another bound is tried, too
            least = (difference**2 / most).sum() / 2
        if least > min(demanded, far):
            return demanded, eta, t

        def evaluate(t, rounding):
            shares = losses.value(loss, t) + coef * t - losses.dual_value(loss, coef)
            hidden = rounding.gap(loss, t, coef, coef, enough / 100, w)
            return np.maximum(0.0, shares.sum()) + hidden, 0.0, 1.0

        (own, _, _), exact = self._rounding.settled(evaluate, t, coef, enough)
        return (own, coef, exact) if own < demanded else (demanded, eta, t)

    def unsure(self, loss, coef, eta):
        """By how much P may differ from what the margins say, which demand the duals eta."""
        return self._rounding.of_value(losses.slopes_largest(loss), coef, eta)

    def newton_point(self, slopes, eta, t, coef, gap):
        """coef with coef_i + s_i (Q coef)_i = b_i, where Q_ij = y_i y_j k_ij.

        On the active examples, s_i > 0, this is (K + S^-1) (coef y) = r. Cholesky's method is as
        exact as with (1 + S^1/2 K S^1/2), whose eigenvalues are at least 1 however large the
        kernel values are.
        """
        b = eta + slopes * t
        active = np.flatnonzero(slopes > 0)
        fixed = np.flatnonzero((slopes == 0) & (b != 0))
        result = b.copy()
        if active.size == 0:
            return result
        y, s = self._y[active], slopes[active]
        right = y * (b[active] / s)
        if fixed.size:
            right -= self._K[np.ix_(active, fixed)] @ (self._y * b)[fixed]

        def system():
            matrix = _lower_part(self._K, active)
            matrix.flat[:: len(matrix) + 1] += 1.0 / s
            return matrix

        result[active] = y * _solve_symmetric(system, right)
        return result

    def solution(self, coef, eta):
        """(w or None, coef)."""
        w = None if self._X is None else np.asarray(self._X.T @ (self._y * coef))
        return w, coef


class WeightSpace:
    """The unknown is w, shape (d,).

    Parameters
    ----------
    X : CSR, csr_matrix or ndarray, shape (m, d)
    y : ndarray of +1.0 and -1.0, shape (m,)
    executor : Serial, optional
        Where parts of the Hessian are made.
    """

    gap_depends_on_far = False

    def __init__(self, X, y: np.ndarray, executor: Serial | None = None):
        X, self._y = _light(X), y
        m, d = X.shape
        if array_bytes(X) or _is_small(X) and not is_thin(X):
            X = X.toarray()
        self._X, self._lengths = X, np.sqrt(kernels.squares(X))
        self._hessian = ChangingHessian(X, executor) if d <= LARGEST_HESSIAN else None
        self._gradient, self._enough, self._bent = None, 0.0, (None, 0.0)

    def zero(self):
        return np.zeros(self._X.shape[1])

    def point(self, eta):
        return np.asarray(self._X.T @ (self._y * eta))

    def margins(self, w):
        return self._y * np.asarray(self._X @ w)

    def exact_margins(self, _w):
        """None: their rounding is relative to w itself."""

    def squared_norm(self, w, t):
        return w @ w

    def cross(self, w, t, direction, change):
        """<w, p> and <p, p>."""
        return w @ direction, direction @ direction

    def gap(self, loss, w, t, eta, enough, far):
        """1/2 |w - w(eta)|^2, half the square of the gradient, the dual point eta, and t.

        Rounding is added: features of 1e150 may cancel to exactly 0 by chance.
        """
        self._gradient, self._enough = w - self.point(eta), enough
        return demanded_gap(np.linalg.norm(self._gradient), *self._sizes(loss, w, eta)), eta, t

    def unsure(self, loss, w, eta):
        """By how much P may differ from what the margins say, which demand the duals eta."""
        return primal_error(*self._sizes(loss, w, eta))

    def _sizes(self, loss, w, eta) -> tuple[float, float, float, int]:
        """As :func:`odmtool.solvers.rounding.demanded_gap` takes them."""
        if self._bent[0] is not loss:
            self._bent = loss, losses.slopes_largest(loss) @ self._lengths**2
        size = self._lengths @ np.abs(eta)
        return np.linalg.norm(w), size, self._bent[1], max(self._X.shape)

    def newton_point(self, slopes, eta, t, w, gap):
        """w - H^-1 (w - w(eta)) with H = I + X'SX, by Cholesky or conjugate gradients.

        w - w(eta), the gradient, is the one that the last gap was made of.
        """
        gradient = self._gradient
        if self._hessian is not None:
            return w - _solve_symmetric(lambda: self._hessian.at(slopes), gradient)
        # The more precisely the closer we are keeps the convergence faster than linear; where
        # lambda is large, steps that are coarser at first lead to twice as many products.
        length = np.linalg.norm(gradient)
        m, d = self._X.shape
        accuracy = min(_COARSEST if m < d else _COARSEST_OF_MANY, np.sqrt(gap)) * length
        # Never the whole gradient: there would be no step, and w = 0 answers nothing.
        accuracy = max(accuracy, _ENOUGH * min(length, np.sqrt(2 * self._enough)))
        # speed only: the gap decides when it ends, not how precise a step was
        active = np.flatnonzero(slopes > 0)
        rows, s = self._X, slopes
        # speed only: products with zeros, or a copy
        if len(active) < _MOST * len(slopes):
            rows, s = rows[active], s[active]
        is_dense = isinstance(rows, np.ndarray)
        squares = np.einsum("i,ij,ij->j", s, rows, rows) if is_dense else rows.weighted_squares(s)
        inverse = 1.0 / (1.0 + squares)
        return w - conjugate_gradients(
            lambda p: p + _curvature_times(rows, s, p), gradient, lambda p: inverse * p,
            atol=accuracy, most=len(gradient), is_over=deadline.is_over,
        )  # fmt: skip

    def solution(self, w, eta):
        """(w, coef); only for coef = eta is w known from the duals."""
        return w, eta


Space = FunctionSpace | WeightSpace


def _light(X) -> CSR | np.ndarray:
    """The rows, whose products cost less than those of SciPy's matrices on small problems."""
    return X if isinstance(X, np.ndarray) else CSR.of(X)


def _curvature_times(X: CSR | np.ndarray, s: np.ndarray, p: np.ndarray) -> np.ndarray:
    """X'(s (X p)); of an array in one pass over its rows, which are at hand for both products."""
    if not isinstance(X, np.ndarray):
        return X.T @ (s * (X @ p))
    result = np.zeros(X.shape[1])
    # speed only: rows at a time
    step = max(1, _BLOCK_CELLS // X.shape[1])
    for start in range(0, len(X), step):
        block = X[start : start + step]
        result += block.T @ (s[start : start + step] * (block @ p))
    return result


def _lower_part(K: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """K[rows][:, rows] for ascending rows, in blocks; what is above the diagonal is arbitrary."""
    n = len(rows)
    if n == len(K):
        return K.copy()
    # speed only: rows at a time
    part, step = np.empty((n, n), K.dtype), max(1, _BLOCK_VALUES // len(K))
    for start in range(0, n, step):
        end = start + step
        part[start:end, :end] = K[rows[start:end]].take(rows[:end], axis=1)
    return part


def _solve_symmetric(system, right: np.ndarray) -> np.ndarray:
    """Solve a system that is positive definite but for rounding.

    ``system()`` makes the lower triangle of its matrix, which the factorisation overwrites.
    """
    if right.size == 0:
        return right  # LAPACK refuses data without features
    with contextlib.suppress(LinAlgError):
        return cholesky_solve(cholesky_in_place(system()), right)
    # Values beyond 1/rounding (poly on unscaled features) need pivoting: LU. Where equal rows make
    # the matrix singular to the last digit, a rounding of its diagonal is added.
    matrix = system()
    for i in range(len(matrix)):
        matrix[:i, i] = matrix[i, :i]
    root = np.sqrt(matrix.diagonal())
    matrix /= root
    matrix /= root[:, None]
    matrix.flat[:: len(matrix) + 1] += np.finfo(float).eps
    return np.linalg.solve(matrix, right / root) / root
