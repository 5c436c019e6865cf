"""M3SVM and ISM3 of few examples with many features: the same problem with few features.

Problem     F depends on W by the scores X W, the lengths of differences of its columns, and its
            own; so the best W = Q U lies in the span of the examples, X = L Q' with Q'Q = 1, and U
            is the best for the examples L, which have as many features as they are many.
Method      L is Cholesky's factor of X X'. With K = L L'

                W = X' K^-1 L U,    U = L' K^-1 X W.

            Rounding, and what is added to the diagonal for it, changes U a little: W is a start in
            the first space.
"""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError

from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.solvers.multi import MultiProblem
from odmtool.solvers.newton.factor import cholesky_in_place, cholesky_solve

LARGEST_SPAN = 2000
"""Examples of which L is made."""
# Added to the diagonal of X X', as a share of its numbers, of which the smallest stands for 0: as
# rounding errors are. More than that would tell the examples apart.
_ADDED = 1e-14
# A number of rows as they are read, and one of W, take so many times as long as one of L.
# speed only: in which space it is solved
_OF_ROWS, _OF_W = 5, 50
# So many times as long the first space must take.
# speed only: in which space it is solved
_WORTH = 2


def is_worth(m: int, d: int, entries: int) -> bool:
    """Whether steps for m examples with so many nonzero numbers cost less in their span."""
    inside, outside = m * (m + _OF_W), _OF_ROWS * entries + _OF_W * d
    return m <= min(LARGEST_SPAN, d / 2) and _WORTH * inside <= outside


def span_of(problem: MultiProblem) -> Span | None:
    """The span of the examples, where that is worth it and L can be made."""
    (m, d), X = problem.X.shape, problem.X
    if not is_worth(m, d, X.size if isinstance(X, np.ndarray) else X.nnz):
        return None
    try:
        return Span(problem)
    except LinAlgError:
        return None


def planned_side(m: int, d: int, entries: int) -> int:
    """Of how many examples, or of parts of them, L may be made; ``entries`` as above."""
    worth = np.sqrt((_OF_ROWS * entries + _OF_W * d) / _WORTH)
    return int(min(m, LARGEST_SPAN, d / 2, worth))


class Span:
    """The span of the examples of a problem, and the problem there."""

    def __init__(self, problem: MultiProblem):
        self._X, m = problem.X, problem.size
        K = Gram(Kernel("linear"), problem.X).matrix()
        squares = K.diagonal()
        least = min(squares[squares > 0], default=0.0)
        K.flat[:: m + 1] += _ADDED * np.where(squares > 0, squares, least)
        self._factor = cholesky_in_place(K)
        self._L = np.tril(self._factor)
        self.problem = problem._replace(X=self._L)

    def inside(self, W: np.ndarray) -> np.ndarray:
        """U of W, shapes (m, k) and (d, k)."""
        return self._L.T @ cholesky_solve(self._factor, np.asarray(self._X @ W))

    def outside(self, U: np.ndarray) -> np.ndarray:
        """W of U."""
        return np.asarray(self._X.T @ cholesky_solve(self._factor, self._L @ U))
