"""What rounding errors can have hidden of a gap.

A solver knows margins t~ = Q coef in double precision only. With r_i = |phi(x_i)| each is off by

    |t~_i - t_i| <= delta_i = e r_i sum_j r_j |coef_j|,

e the rounding of a kernel value and of a sum of them, relative to the r_i r_j that bounds the
value. So l(t_i) + eta_i t_i, the example's share of P - D, is larger by at most what it is larger
by at t~_i - delta_i or t~_i + delta_i, because it is convex; and 1/2 |w - w(eta)|^2, where the
dual point is not coef, by at most e/2 (sum_i r_i |coef_i - eta_i|)^2. The margins of a linear
problem are those of w itself, so delta_i = e r_i |w|, and w is off from w(coef) by at most
e sum_j r_j |coef_j|. Where l' jumps, as that of the hinge does, and the costs are large, this is
far more than a step of double precision.

Where that is more than is allowed, and the rest of the gap is not, margins of a polynomial kernel
are computed once more with about 100 bits (:func:`Rounding.settled`): rounding them to double
precision at the end is then all that is left of delta_i. Kernel values of 1e20, which features
that nobody scaled make, need that.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial

import numpy as np

from odmtool.core import double_double, kernels, losses
from odmtool.core.double_double import DoubleDouble
from odmtool.core.gram import Gram
from odmtool.core.kernel_table import DISTANCES, STORED
from odmtool.core.kernels import Kernel
from odmtool.core.losses import MarginLoss
from odmtool.rows.spread import pieces_of
from odmtool.solvers.base import Problem, Stop, objective_values, relative
from odmtool.solvers.value_rounding import SINGLE_UNIT, UNIT, off_by, value_errors

_LINEAR = Kernel("linear")
# e to a higher power says nothing of what is small.
_LARGEST_RELATIVE = 1e200
# Margins of so many points are computed more exactly in vain, and of so many to go on from.
_LOOKS = 5
# speed only: numbers of a block of exact kernel values
_BLOCK = 2**17

Values = tuple[float, float, float]
"""P, D and the scale S."""


class Rounding:
    """Bounds for the problems of one kernel matrix, or of the same rows.

    Parameters
    ----------
    gram : Gram, or None of a linear problem
    X : CSR, csr_matrix or ndarray, shape (m, d), optional
        Rows of a linear problem.
    y : ndarray of +1.0 and -1.0, shape (m,), optional
        Without them margins are not computed more exactly.
    """

    def __init__(self, gram: Gram | None, X=None, y=None):
        X, kernel = (X, _LINEAR) if gram is None else (gram.X, gram.kernel)
        if X is None or kernel.row.of == STORED:
            values = gram.diagonal()
        else:
            values = np.concatenate(pieces_of(X).each(partial(kernels.diagonal, kernel)))
        if not kernel.is_positive_semidefinite:
            values = np.full(len(values), _largest_value(gram))
        values = np.maximum(values, 0.0)
        most = float(values.max(initial=0.0))
        self.sizes, self._sum = np.sqrt(values), sum_error(len(values))
        # The values of a matrix that was handed over are taken as they are.
        known = X is not None and kernel.row.of != STORED and most > 0
        errors = value_errors(kernel, X) if known else (0.0, 0.0)
        self._value = off_by(kernel, *errors, most) / most if known else 0.0
        is_rounded = known and gram is not None and gram.is_rounded
        self._value += SINGLE_UNIT * is_rounded
        # Of distances each value has its own relative error, and k(x, x) has none.
        self._gram = gram if known and kernel.row.of == DISTANCES and not is_rounded else None
        self._relative = float(errors[0])
        is_here = gram is not None and y is not None and not hasattr(X, "each")
        can_be_exact = known and is_here and kernel.row.is_polynomial
        self.exact = ExactMargins(kernel, X, y) if can_be_exact else None
        self._looks = self._steps = _LOOKS

    @classmethod
    def of(cls, problem: Problem) -> Rounding:
        return cls(problem.gram, problem.X, problem.y)

    @property
    def error(self) -> float:
        """How far t_i may be off, for every unit of |phi(x_i)| and of sum |coef| |phi(x)|."""
        return self._value + self._sum

    def ordered(self, order: np.ndarray) -> Rounding:
        """The same for the examples in another order."""
        other = copy(self)
        other.sizes, other._gram, other.exact = self.sizes[order], None, None
        return other

    def objectives(self, loss: MarginLoss, t, eta, stop: Stop, w=None) -> tuple[Values, np.ndarray]:
        """P, D and S of w(eta), and its margins; see :meth:`settled`."""

        def evaluate(t, rounding):
            norm = eta @ t
            primal, dual, scale = objective_values(loss, norm, t, eta)
            return primal, dual - rounding.gap(loss, t, eta, eta, stop.negligible(scale), w), scale

        return self.settled(evaluate, t, eta, stop.tolerance)

    def settled(
        self, evaluate: Callable[..., Values], t, coef, tolerance: float
    ) -> tuple[Values, np.ndarray]:
        """P, D less what rounding may hide, and S; and the margins that they are of.

        Parameters
        ----------
        evaluate : callable
            From margins of w(coef), and what has a method ``gap`` as here, to P, D and S.
        t, coef : ndarrays, shape (m,)
        tolerance : float
            The relative gap that decides.
        """
        found = evaluate(t, self)
        is_hidden = not _is_small(found, tolerance) and _is_small(evaluate(t, _Nothing), tolerance)
        if not is_hidden or self.exact is None or self._looks == 0:
            return found, t
        exact = self.exact.of(coef)
        better = evaluate(exact, self.exact)
        self._looks -= not _is_small(better, tolerance)
        return (better, exact) if np.isfinite(better).all() else (found, t)

    def exact_margins(self, coef) -> np.ndarray | None:
        """Those of w(coef), where they can be had and were not asked for too often."""
        if self.exact is None or self._steps == 0:
            return None
        self._steps -= 1
        t = self.exact.of(coef)
        return t if np.isfinite(t).all() else None

    def gap(self, loss: MarginLoss, t, coef, eta, enough: float = 0.0, w=None, apart=0.0) -> float:
        """By how much P - D may be larger than it seems, at margins ``t``.

        Parameters
        ----------
        loss : MarginLoss of arrays, shape (m,)
        t, coef, eta : ndarrays, shape (m,)
        enough : float
            A smaller bound is looked for only if this one is larger.
        w : ndarray, shape (d,), optional
            Of a linear problem, as it was made of ``coef``: the margins are those of w.
        apart : float
            |w - w(eta)|.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            found = shares_error(loss, t, eta, self.of_margins(coef, w) * self.sizes)
            if w is not None:
                return found + self.beyond(coef, apart)
            between = np.abs(coef - eta)
            found += self.error * (between @ self.sizes) ** 2 / 2
            delta = None if found <= enough else self.of_own_values(coef)
            if delta is None:
                return found
            beside = between @ self.of_own_values(between)
            return min(found, shares_error(loss, t, eta, delta) + beside / 2)

    def of_own_values(self, coef) -> np.ndarray | None:
        """How far sum_j coef_j k(x_i, x_j) may be off where each value has its own relative error.

        None where that is not known. Values next to nothing, as those of a large gamma, are then
        off by next to nothing, too. The cost is that of a product with the kernel matrix.

        ``coef``: ndarray, shape (m,) or (m, k).
        """
        is_known = self._gram is not None and self._gram.is_computed
        if not is_known or self._relative > _LARGEST_RELATIVE:
            return None
        sizes, bits = np.abs(coef), self._sum + 8 * UNIT
        summed = np.multiply.outer(self.sizes, self.sizes @ sizes)
        return self._relative * self._beside(sizes) + bits * summed

    def of_demanded(self, slopes, coef, difference, w=None, apart=0.0) -> float:
        """At least :meth:`gap` for the duals eta = -l'(t), where l(t) + eta t is level; O(m).

        Parameters
        ----------
        slopes : ndarray, shape (m,)
            The largest second derivative of each loss.
        coef, difference : ndarrays, shape (m,)
            The latter is coef - eta.
        w, apart
            As for :meth:`gap`.
        """
        if w is None:
            return float(demanded_error(self.error, self.sizes, slopes, coef, difference))
        with np.errstate(over="ignore", invalid="ignore"):
            found = (slopes @ self.sizes**2) * self.of_margins(coef, w) ** 2 / 2
            return found + self.beyond(coef, apart)

    def of_margins(self, coef, w=None) -> float:
        """How far margins may be off, for every unit of |phi(x_i)|; as for :meth:`gap`."""
        return self.off(coef) if w is None else self.error * float(np.linalg.norm(w))

    def of_value(self, slopes, coef, eta) -> float:
        """By how much P of w(coef) may differ from what its margins say; O(m).

        ``eta`` is -l'(t), ``slopes`` as for :meth:`of_demanded`.
        """
        size, beside = np.abs(coef) @ self.sizes, np.abs(eta) @ self.sizes
        bent, off = slopes @ self.sizes**2, self.error * size
        with np.errstate(over="ignore", invalid="ignore"):
            return off * (beside + size / 2) + bent * off**2 / 2

    def off(self, coef) -> float:
        """How far w of a linear problem may be from w(coef)."""
        return float(self.error * (np.abs(coef) @ self.sizes))

    def beyond(self, coef, apart=0.0) -> float:
        """What that may add to 1/2 |w - w(eta)|^2, |w - w(eta)| being ``apart``."""
        off = self.off(coef)
        return off * apart + off * off / 2  # a power that overflows raises

    def primal(self, loss: MarginLoss, t, w) -> float:
        """By how much P of a linear problem's w may be larger than its margins ``t`` say."""
        with np.errstate(over="ignore", invalid="ignore"):
            return shares_error(loss, t, 0.0, self.of_margins(None, w) * self.sizes)

    def of_classes(
        self, loss, weight, C, objective: float, norm: float | None = None, enough: float = 0.0
    ) -> float:  # fmt: skip
        """As :meth:`gap`, of a sub-problem of mcODM at its own point.

        The scores of two classes make a margin, and its loss l(t) moves by at most
        |l'(t)| d + c d^2, which the objective bounds in all (Cauchy & Schwarz).

        Parameters
        ----------
        loss : MulticlassODMLoss
        weight : ndarray, shape (m,)
        C : ndarray, shape (m, k)
            The coefficients of w_l.
        norm : float, optional
            At least |W| of a linear problem, from which scores are computed.
        enough : float
            A smaller bound is looked for only if this one is larger.
        """
        error, size = self.error, float(np.linalg.norm(self.sizes @ np.abs(C)))
        off, length = error * size, size if norm is None else norm
        steepest = max(loss.c1, loss.c2)
        with np.errstate(over="ignore", invalid="ignore"):
            delta = 2 * error * length * self.sizes
            moved = steepest * float(weight @ delta**2)
            found = 2 * np.sqrt(objective * moved) + moved + off * length + off**2 / 2
            own = None if norm is not None or found <= enough else self.of_own_values(C)
            if own is None:
                return found
            moved = steepest * float(weight @ (2 * own**2).sum(axis=1))
            return min(found, 2 * np.sqrt(objective * moved) + moved + np.vdot(np.abs(C), own))

    def _beside(self, sizes: np.ndarray) -> np.ndarray:
        """sum over j != i of k_ij sizes_j, without the constant of ``-B``; the shape of sizes."""
        gram = self._gram
        constant = gram.kernel.bias**2 * (sizes.sum(axis=0) - sizes)
        own = (gram.diagonal() * sizes.T).T
        return np.maximum(gram.matrix() @ sizes - own - constant, 0.0)


def shares_error(loss: MarginLoss, t, eta, delta) -> float:
    """What the examples' shares of P - D may gain in all."""
    return float(share_errors(loss, t, eta, delta).sum())


def share_errors(loss: MarginLoss, t, eta, delta) -> np.ndarray:
    """What each of them may gain where margins may be off by ``delta``, shape (m,)."""
    now = losses.value(loss, t)
    more = losses.value(loss, t + delta) + eta * delta
    less = losses.value(loss, t - delta) - eta * delta
    return np.maximum(np.maximum(more, less) - now, 0.0)


def _is_small(values: Values, tolerance: float) -> bool:
    primal, dual, scale = values
    return relative(primal - dual, scale) <= tolerance


class _Nothing:
    """Margins without rounding errors."""

    @staticmethod
    def gap(*_arguments, **_named) -> float:
        return 0.0


class ExactMargins:
    """Margins of a polynomial kernel, rounded once.

    Parameters
    ----------
    X : csr_matrix or ndarray, shape (m, d)
    y : ndarray of +1.0 and -1.0, shape (m,)
    """

    def __init__(self, kernel: Kernel, X, y: np.ndarray):
        self._kernel, self._X, self._y, (m, d) = kernel, X, y, X.shape
        most = float(kernels.diagonal(kernel, X).max(initial=0.0))
        size = float(kernels.squares(X).max(initial=0.0))
        share = 2 * UNIT
        self._value = kernel.row.rounding(kernel, size, share, np)[1] / share
        self._value *= double_double.product_error(d)
        self._value += (np.log2(m + 2) + 32) * double_double.UNIT * most

    def of(self, coef: np.ndarray) -> np.ndarray:
        """t_i of w = sum_i coef_i y_i phi(x_i); no numbers where they overflow."""
        kernel, X, y = self._kernel, self._X, self._y
        bias = DoubleDouble(kernel.bias) * kernel.bias
        used = np.flatnonzero(coef)
        v, rows = (y * coef)[used], X[used]
        columns = double_double.slices(kernels.dense(rows))
        t = np.zeros(len(y))
        # speed only: rows at a time
        step = max(1, _BLOCK // max(1, len(used)))
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(y) if len(used) else 0, step):
                part = slice(start, start + step)
                z = double_double.inner_products(
                    double_double.slices(kernels.dense(X[part])), columns
                )
                values = kernel.row.values(kernel, z, np) + bias
                t[part] = y[part] * (values * v).row_sums().high
        return t

    def gap(self, loss: MarginLoss, t, coef, eta, *_allowed) -> float:
        """As :meth:`Rounding.gap`, at these margins; ``coef`` is its own dual point."""
        return shares_error(loss, t, eta, self.off(t, coef))

    def off(self, t, coef) -> np.ndarray:
        """How far these margins of w(coef) may be off, shape (m,)."""
        return self._value * np.abs(coef).sum() + UNIT * np.abs(t)


def demanded_error(error: float, sizes, slopes, coef, difference):
    """What :meth:`Rounding.of_demanded` is of a kernel problem, shape ().

    ``error`` is that of a :class:`Rounding`, arrays have the shape (m,), or (p, m) of p problems,
    which have a result each.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        off = error * (np.abs(coef) * sizes).sum(axis=-1)
        beside = (np.abs(difference) * sizes).sum(axis=-1)
        return (slopes * sizes**2).sum(axis=-1) * off**2 / 2 + error * beside**2 / 2


def demanded_gap(apart: float, norm: float, size: float, bent: float, count: int) -> float:
    """P - D of a linear problem's w, whose computed margins demand the duals eta.

    Parameters
    ----------
    apart : float
        |w - w(eta)|, as computed.
    norm : float
        |w|.
    size, bent : float
        The sums of |x_i| |eta_i|, and of |x_i|^2 times the largest second derivative of a loss.
    count : int
        No sum has more terms.
    """
    error = sum_error(count)
    return (apart + error * size) ** 2 / 2 + bent * (error * norm) ** 2 / 2


def primal_error(norm: float, size: float, bent: float, count: int) -> float:
    """By how much P of a w may differ from what its computed margins say; as above."""
    error = sum_error(count) * norm
    return error * size + bent * error**2 / 2


class SpanRounding:
    """Bounds of what rounding hides where rows are known times L^-T, or as they are.

    The features are taken as they are computed. With rows k(x, Z) of length r_i, a = L^-T w gives
    the margins: they are off by e r_i |a|, w = L'a by e |L| |a|, and L^-1 sum_i eta_i y_i k(Z, x_i)
    by |L^-1| e sum_i r_i |eta_i|.

    Parameters
    ----------
    factor : ndarray, shape (S, S), or None
    count : int
        No sum has more terms.
    """

    def __init__(self, factor: np.ndarray | None, count: int):
        self._count, self._factor, self._inverse = count, 0.0, 1.0
        if factor is not None:
            from scipy.linalg import solve_triangular

            self._factor = float(np.linalg.norm(factor))
            inverse = solve_triangular(factor, np.eye(len(factor)), lower=True)
            self._inverse = float(np.linalg.norm(inverse))

    def gap(self, gradient: np.ndarray, a: np.ndarray, size: float, bent: float) -> float:
        """See :func:`demanded_gap`."""
        norm = float(np.linalg.norm(a))
        size = self._inverse * size + self._factor * norm
        return demanded_gap(float(np.linalg.norm(gradient)), norm, size, bent, self._count)

    def unsure(self, a: np.ndarray, size: float, bent: float) -> float:
        """See :func:`primal_error`; |w|^2 is that of w itself."""
        return primal_error(float(np.linalg.norm(a)), size, bent, self._count)


def sum_error(size: int) -> float:
    """A bound of the relative error of a sum of ``size`` terms, as BLAS and NumPy add them.

    They add some tens of partial sums, sparse products one term after another, where errors of
    either sign grow with the root (Higham & Mary, SIAM J. Sci. Comput. 41, 2019).
    """
    return (np.sqrt(size) + 64) * UNIT


def _largest_value(gram: Gram) -> float:
    """No kernel value of these examples is larger in size."""
    kernel = gram.kernel
    if getattr(gram, "is_computed", False):
        return kernels.largest_size(gram.matrix())
    if gram.X is None:
        return float(np.abs(gram.diagonal()).max(initial=0.0))
    if kernel.row.of == STORED:
        # Column 0 holds the serial numbers.
        return float(abs(gram.X[:, 1:]).max())
    upwards = kernel._replace(gamma=abs(kernel.gamma), coef0=abs(kernel.coef0))
    values = np.concatenate(pieces_of(gram.X).each(partial(kernels.diagonal, upwards)))
    return float(np.max(values, initial=0.0))
