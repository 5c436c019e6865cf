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
"""

from __future__ import annotations

from copy import copy

import numpy as np

from odmtool.core import kernels, losses
from odmtool.core.gram import Gram
from odmtool.core.kernel_table import DISTANCES, STORED
from odmtool.core.kernels import Kernel
from odmtool.core.losses import MarginLoss
from odmtool.solvers.base import Problem

UNIT = float(np.finfo(float).eps) / 2
"""The largest relative error of one operation in double precision."""

_LINEAR = Kernel("linear")
# e to a higher power says nothing of what is small.
_LARGEST_RELATIVE = 1e200


class Rounding:
    """Bounds for the problems of one kernel matrix, or of the same rows.

    Parameters
    ----------
    gram : Gram, or None of a linear problem
    X : CSR, csr_matrix or ndarray, shape (m, d), optional
        Rows of a linear problem.
    """

    def __init__(self, gram: Gram | None, X=None):
        if gram is None:
            kernel, values = _LINEAR, kernels.squares(X)
        else:
            kernel, X, values = gram.kernel, gram.X, gram.diagonal()
        if not kernel.is_positive_semidefinite:
            values = np.full(len(values), _largest_value(gram))
        values = np.maximum(values, 0.0)
        most = float(values.max(initial=0.0))
        self._sizes, self._sum = np.sqrt(values), sum_error(len(values))
        # The values of a matrix that was handed over are taken as they are.
        known = X is not None and kernel.row.of != STORED and most > 0
        self._value = value_error(kernel, X, most) / most if known else 0.0
        # Of distances each value has its own relative error, and k(x, x) has none.
        self._gram = gram if known and kernel.row.of == DISTANCES else None
        self._relative = 0.0 if self._gram is None else float(_value_errors(kernel, X)[0])

    @classmethod
    def of(cls, problem: Problem) -> Rounding:
        return cls(problem.gram, problem.X)

    def ordered(self, order: np.ndarray) -> Rounding:
        """The same for the examples in another order."""
        other = copy(self)
        other._sizes, other._gram = self._sizes[order], None
        return other

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
        size, error = np.abs(coef) @ self._sizes, self._value + self._sum
        with np.errstate(over="ignore", invalid="ignore"):
            if w is not None:
                off = error * size
                delta = error * np.linalg.norm(w) * self._sizes
                return self._shares(loss, t, eta, delta) + off * apart + off**2 / 2
            between = np.abs(coef - eta)
            beside = between @ self._sizes
            found = self._shares(loss, t, eta, error * size * self._sizes) + error * beside**2 / 2
            is_relative = self._gram is not None and self._gram.is_computed
            if found <= enough or not is_relative or self._relative > _LARGEST_RELATIVE:
                return found
            bits = self._sum + 8 * UNIT
            delta = self._relative * self._beside(np.abs(coef)) + bits * size * self._sizes
            beside = self._relative * (between @ self._beside(between)) + bits * beside**2
            return min(found, self._shares(loss, t, eta, delta) + beside / 2)

    def _beside(self, sizes: np.ndarray) -> np.ndarray:
        """sum over j != i of k_ij sizes_j, without the constant of ``-B``; shape (m,)."""
        gram = self._gram
        constant = gram.kernel.bias**2 * (sizes.sum() - sizes)
        return np.maximum(gram.matrix() @ sizes - gram.diagonal() * sizes - constant, 0.0)

    @staticmethod
    def _shares(loss: MarginLoss, t, eta, delta) -> float:
        """What the examples' shares of P - D may gain in all."""
        now = losses.value(loss, t)
        more = losses.value(loss, t + delta) + eta * delta
        less = losses.value(loss, t - delta) - eta * delta
        return float(np.maximum(np.maximum(more, less) - now, 0.0).sum())


def value_error(kernel: Kernel, X, most: float) -> float:
    """A bound of the rounding error of a kernel value in double precision.

    Parameters
    ----------
    kernel : Kernel
    X : CSR, csr_matrix or ndarray, shape (m, d)
    most : float
        The largest |k(x, x)|.
    """
    relative, absolute = _value_errors(kernel, X)
    # Without the constant, values of distances lie between 0 and 1.
    return absolute + min(relative, 1.0) * (most - kernel.bias**2) + 8 * UNIT * most


def _value_errors(kernel: Kernel, X) -> tuple[float, float]:
    """How far values may be off, relatively and absolutely.

    An inner product of n terms is off by at most n roundings of |u| |v|, a squared distance
    by as many of (|u| + |v|)^2; what that does to a value the kernel's row knows.
    """
    terms = X.shape[1] if isinstance(X, np.ndarray) else np.diff(X.indptr).max(initial=0)
    largest = float(kernels.squares(X).max(initial=0.0))
    size = 4 * largest if kernel.row.of == DISTANCES else largest
    return kernel.row.rounding(kernel, size, (int(terms) + 8) * UNIT, np)


def sum_error(size: int) -> float:
    """A bound of the relative error of a sum of ``size`` terms, as BLAS and NumPy add them."""
    return (np.log2(size + 2) + 64) * UNIT


def _largest_value(gram: Gram) -> float:
    """No kernel value of these examples is larger in size."""
    kernel = gram.kernel
    if gram.is_computed:
        return float(np.abs(gram.matrix()).max(initial=0.0))
    if gram.X is None:
        return float(np.abs(gram.diagonal()).max(initial=0.0))
    if kernel.row.of == STORED:
        return float(abs(gram.X).max())
    upwards = kernel._replace(gamma=abs(kernel.gamma), coef0=abs(kernel.coef0))
    return float(kernels.diagonal(upwards, gram.X).max(initial=0.0))
