"""The kernel values of mcODM's coordinate descent: made by all threads, rounded if that does.

Where nothing but coordinate descent follows they are in single precision, which is half as much to
read in an epoch. :class:`odmtool.solvers.rounding.Rounding` counts it in the gap; where that is all
that is left, scores are summed anew by values in double precision, with which the rounds go on.
"""

from __future__ import annotations

import numpy as np

from odmtool.core.gram import Gram
from odmtool.rows.executor import Serial
from odmtool.solvers.auto import holds_single, is_of_distances
from odmtool.solvers.multi import MultiProblem

# Up to so many examples NumPy is as fast.
# speed only: which of two ways makes the same values
_FEW = 500


def at_hand(
    problem: MultiProblem, executor: Serial | None, tolerance: float | None
) -> MultiProblem:
    """A kernel problem with its values, if compiled code makes them and there is room.

    They may be in single precision where that hides less than ``tolerance``.
    """
    gram = problem.gram
    if not is_of_distances(gram) or gram.bytes > gram.memory or gram.size <= _FEW:
        return problem
    # Not before it is needed: it loads compiled code.
    from odmtool.rows.whole import filled

    is_single = tolerance is not None and holds_single(_steepest(problem), gram.size, tolerance)
    dtype = np.float32 if is_single else float
    return problem._replace(gram=filled(gram, dtype, executor or Serial()))


def exact_scores(gram: Gram, executor: Serial | None, *coefficients: np.ndarray) -> list:
    """f_l(x_i) of w_l = sum_i C_il phi(x_i) for every C, shape (m, k) each.

    By kernel values that are made for it, in the precision of the rows.
    """
    # Not before they are needed: linear problems come by here, too.
    from odmtool.solvers.engine.certificate import rows_times
    from odmtool.solvers.engine.points import Points

    points = Points(gram.kernel, gram.X, executor or Serial())
    points.expect(np.inf)  # compiled code is there
    scores = rows_times(points, np.arange(gram.size), np.hstack(coefficients))
    return np.hsplit(scores, len(coefficients))


def _steepest(problem: MultiProblem) -> float:
    """The largest second derivative of a loss times k(x, x)."""
    loss = problem.parameters
    slope = 2 * max(loss.c1, loss.c2) * problem.weight.max()
    return float(slope * problem.gram.diagonal().max())
