"""What the landmarks' span holds of every example, and how much of it is left outside.

With C = k(X, Z) and K_ZZ = L L', the features are z_i = L^-1 c_i, and what is left of example
i is e_i = k(x_i, x_i) - |z_i|^2, the squared distance of phi(x_i) from the span. e_i is wanted
to 1e-8 and less, so kernel values and products are in double precision; Newton's method, which
only has to be nearly right, gets the features in single precision, unless that hides the solution.

Rounding  With beta_i = L^-T z_i, the distance of phi(x_i) from the point sum_j beta_ij phi(z_j)
          of the span is e_i or more, whatever beta_i is. So errors of kernel values and of L
          count with (1 + |beta_i|_1)^2 only, and those of the product L^-1 c_i with
          2 |z_i| times the rounding of | |L^-1| |c_i| |. Both are looked at for some examples
          spread over all, and twice the largest is added to every e_i.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool.core import deadline
from odmtool.solvers.engine.points import Points
from odmtool.solvers.newton.factor import inverse_transposed
from odmtool.solvers.rounding import UNIT

# speed only: columns of L^-T at a time, so that its zeros are not multiplied
_PANEL = 256
# Examples at which rounding errors are looked at.
_LOOKED_AT = 256


class Basis:
    """The landmarks' span.

    Parameters
    ----------
    members : int array, shape (r,)
        The landmarks, among the points.
    factor : ndarray, shape (r, r)
        L, lower triangular, the Cholesky factor of their kernel matrix.

    Attributes
    ----------
    X : csr_matrix or ndarray, shape (r, d)
        The landmarks.
    inverse : ndarray, shape (r, r)
        L^-T, upper triangular.
    error : float
        A bound of the rounding errors of all e_i; see the head of this file.
    """

    def __init__(self, points: Points, members: np.ndarray, factor: np.ndarray):
        self.points, self.members, self.factor = points, np.asarray(members), factor
        self.X = points.X[self.members]
        self.inverse = inverse_transposed(factor)
        self.error = self._error()

    def in_span(self, values: np.ndarray) -> np.ndarray:
        """Features of examples from their kernel values with the landmarks, shape (n, r)."""
        Z, r = np.empty_like(values), values.shape[1]
        inverse = self.inverse.astype(values.dtype, copy=False)
        for start in range(0, r, _PANEL):
            end = min(start + _PANEL, r)
            np.matmul(values[:, :end], inverse[:end, start:end], out=Z[:, start:end])
        return Z

    def projection(self, crossed: np.ndarray) -> np.ndarray:
        """K_ZZ^-1 C'a from C'a."""
        return self.inverse @ (self.inverse.T @ crossed)

    def _error(self) -> float:
        points, r = self.points, len(self.members)
        some = np.arange(0, points.size, max(1, points.size // _LOOKED_AT))
        values = points.values(points.X[some], self.X)
        Z = self.in_span(values)
        beta = np.abs(Z @ self.inverse.T).sum(axis=1)
        products = np.linalg.norm(np.abs(values) @ np.abs(self.inverse), axis=1)
        most, roundings = points.diagonal.max(initial=0.0), (r + 8) * UNIT
        amplified = (points.value_error + roundings * most) * (1 + 2 * beta.max()) ** 2
        return float(amplified + 4 * roundings * np.sqrt(most) * products.max())


class Features(NamedTuple):
    """The features of all examples."""

    Z: np.ndarray  # shape (m, r): or of some examples only; in single or double precision
    # Shape (m,): upper bounds of e_i, rounding included; None where no more than Z was asked for.
    left: np.ndarray | None


def features(
    basis: Basis, *, certified: bool, rows: np.ndarray | None = None, dtype=np.float32,
    may_end: bool = False,
) -> Features:  # fmt: skip
    """The features of all points.

    Parameters
    ----------
    certified : bool
        Also e_i, for which everything is in double precision.
    rows : int array, ascending, optional
        Z is wanted of these only.
    dtype : type
        Of Z.
    may_end : bool
        Raise Exceeded when the pass takes too long after the deadline.
    """
    points, r = basis.points, len(basis.members)
    if not certified and rows is not None:
        points, rows = points.rows(rows), None
    X = points.X if certified or dtype == np.float64 else points.single
    landmarks = basis.X.astype(X.dtype, copy=False)
    Z = np.empty((points.size if rows is None else len(rows), r), dtype)
    left = np.empty(points.size)

    def one(part: slice) -> None:
        if may_end:
            deadline.check()
        block = basis.in_span(points.values(X[part], landmarks))
        if certified:
            left[part] = points.diagonal[part] - np.einsum("ij,ij->i", block, block)
        if rows is None:
            Z[part] = block
            return
        a, b = np.searchsorted(rows, (part.start, part.stop))
        Z[a:b] = block[rows[a:b] - part.start]

    # speed only: when compiled code is loaded
    points.expect(points.size * r)
    points.map(one, points.blocks())
    return Features(Z, bounded(left, basis) if certified else None)


def bounded(left: np.ndarray, basis: Basis) -> np.ndarray:
    """e_i with their rounding errors added, shape (m,)."""
    return np.maximum(left, 0.0) + basis.error
