"""The lambda that nobody named with the sigmoid kernel: one for which there is a solution.

Problem  K of tanh(gamma x'z + coef0) has negative eigenvalues, and the dual is unbounded where
         1 + u l'' e < 0, with e the smallest and u = lambda / m.
Update   e of some rows is taken for that of as many; both e and what u allows grow with m, which
         therefore does not matter. The features' spread bounds lambda as well.
Source   none; docs/defaults.md says what it was tried on.
"""

from __future__ import annotations

import numpy as np

from odmtool.core import kernels
from odmtool.core.kernels import Kernel
from odmtool.defaults import LAMBDA_OF_SIGMOID, THETA

# Rows whose eigenvalue is computed.
_ROWS = 800
# The share of the lambda that it allows.
_SHARE = 0.25


def sigmoid_lambda(kernel: Kernel, X, spread: float, weight: np.ndarray | None) -> float:
    """Three digits of the largest lambda that leaves a minimum, as a rule.

    Parameters
    ----------
    X : CSR, csr_matrix or ndarray, shape (m, d), or None
        None where the rows are not here.
    spread : float
        gamma times the summed variance of the features, or 0 where it is not known.
    weight : ndarray, shape (m,), optional
        Rows whose weight is 0 do not count.
    """
    spread = spread or 1.0
    # The power 1.5 of a very small number would be 0.
    found = LAMBDA_OF_SIGMOID / spread / spread**0.5
    if X is not None:
        found = min(found, _SHARE * _allowed(kernel, X, weight))
    return float(f"{found:.3g}")


def _allowed(kernel: Kernel, X, weight: np.ndarray | None) -> float:
    """The lambda above which the dual of some rows, evenly spread, is unbounded."""
    rows = np.arange(X.shape[0]) if weight is None else np.flatnonzero(weight)
    rows = rows[:: -(-len(rows) // _ROWS)] if len(rows) else rows
    with np.errstate(over="ignore", invalid="ignore"):
        K = kernels.block(kernel, X[rows], X[rows])
    if not len(rows) or not np.all(np.isfinite(K)):
        return np.inf
    smallest = float(np.linalg.eigvalsh(K)[0])
    largest_slope = 2 / (1 - THETA) ** 2
    return len(rows) / (largest_slope * -smallest) if smallest < 0 else np.inf
