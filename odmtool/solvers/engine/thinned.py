"""Newton's method in the span of landmarks with the features of some of the examples only.

Problem  that of :mod:`odmtool.solvers.engine.columns`, with so many examples that features of all
         would take most of the time and of the memory.
Update   the problem on n drawn examples, their weights scaled up, is solved first. With H its
         Hessian, w <- w - H^-1 g for all examples: their gradient g comes with the margins, from
         one pass over kernel values with the landmarks, without features. H differs from the
         Hessian of all by about sqrt(r / n), so that few passes are enough. With features of all,
         in single precision, the same steps repair what that has made wrong.
Stop     when the gap in the span, 1/2 |g|^2, is at most the tolerance times S, or P has ceased to
         fall. A pass for a further step is given up when it takes too long after the deadline.
Source   Erdogdu & Montanari, "Convergence rates of sub-sampled Newton methods", NIPS 2015.
"""

from __future__ import annotations

import numpy as np

from odmtool.core import deadline
from odmtool.solvers.engine import certificate
from odmtool.solvers.engine.certificate import SpanPoint
from odmtool.solvers.engine.columns import Columns, directions, padded, solve_in_span
from odmtool.solvers.engine.cost import MOST
from odmtool.solvers.engine.features import Basis

# speed only: what is left of the gap then, other solvers close
_STEPS = 12
# Where P no longer falls by this share of it, rounding is all that moves.
_LEAST = 1e-12


def kept_rows(m: int, seed: int) -> np.ndarray | None:
    """The examples whose features are kept, ascending; None means all."""
    if m <= MOST:
        return None
    # Of another seed than the rows that a bound draws, which must not depend on the solution.
    return np.sort(np.random.default_rng((seed, 0, 1)).choice(m, MOST, replace=False))


def solve(
    basis: Basis, Z: np.ndarray, rows: np.ndarray | None, columns: Columns, start,
    tolerance: float,
) -> tuple[np.ndarray, list[SpanPoint], int]:  # fmt: skip
    """w_j of all problems, shape (r, q), their points, and the steps taken.

    Parameters
    ----------
    Z : ndarray, shape (n, r)
        Features of the examples ``rows``; after the deadline there may be none, and none is read.
    rows : int array, shape (n,), or None
    columns : Columns
        All examples.
    start : ndarray, shape (r', q)
        For as many features, or fewer.
    tolerance : float
        Of the gap in the span, relative to S.
    """
    executor = basis.points.executor
    if deadline.is_over():
        # No step follows, and there may be no features.
        W = padded(start, len(basis.members))
        return W, certificate.evaluate(basis, columns, W), 0
    some = columns.rows(rows)
    W, steps, _space = solve_in_span(Z, some, start, tolerance, executor)
    points = certificate.evaluate(basis, columns, W)
    W, points, more = refined(basis, Z, some, columns, W, points, tolerance)
    return W, points, steps + more


def refined(
    basis: Basis, Z: np.ndarray, some: Columns, columns: Columns, W, points: list[SpanPoint],
    tolerance: float, most: int = _STEPS,
) -> tuple[np.ndarray, list[SpanPoint], int]:  # fmt: skip
    """The same after steps with the gradient of all examples, in double precision.

    ``some`` are the examples whose features are ``Z``.
    """
    executor, steps = basis.points.executor, 0
    for _ in range(most):
        if all(p.inside <= tolerance * p.scale for p in points) or deadline.is_over():
            break
        crossed = np.column_stack([point.crossed for point in points])
        further = W + directions(Z, some, W, W - basis.inverse.T @ crossed, executor)
        try:
            found = certificate.evaluate(basis, columns, further, may_end=True)
        except deadline.Exceeded:
            break
        steps += 1
        pairs = list(zip(found, points, strict=True))
        is_lower = [f.primal < p.primal - _LEAST * p.scale for f, p in pairs]
        if not any(is_lower):
            break
        W = np.where(is_lower, further, W)
        points = [pair[0 if low else 1] for pair, low in zip(pairs, is_lower, strict=True)]
    return W, points, steps
