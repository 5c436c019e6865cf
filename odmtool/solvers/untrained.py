"""w = 0, of a problem that no time is left to begin (``--max-time``, ``--keep-best``).

Even the first look at a problem can take long: its kernel matrix is made, and more of that kind.
"""

from __future__ import annotations

import numpy as np

from odmtool.core import deadline, losses
from odmtool.core.loss_table import OF_KMOMD, OF_LDM
from odmtool.solvers.base import Problem, Solution, objective_values, relative

NONE = "none"
"""The name of the solver."""


def is_too_late(problem: Problem, start) -> bool:
    """Whether a problem is not begun; one that has a start is better than nothing there."""
    # KM-OMD has no w = 0: it looks for two points, one of each class.
    return start is None and problem.loss.kind != OF_KMOMD and deadline.is_over()


def untrained(problem: Problem) -> Solution:
    """No model. The duals are 0, too; where the loss allows none such, the gap is infinite."""
    loss, zero = problem.loss, np.zeros(problem.size)
    is_ldm = loss.kind == OF_LDM
    row = losses.ldm_row(loss, 0.0) if is_ldm else loss
    primal, dual, scale = objective_values(
        losses.scaled(row, problem.weight), 0.0, 0.0, zero, zero
    )
    dual = -np.inf if is_ldm else dual  # its duals are of another kind
    w = None if problem.X is None else np.zeros(problem.X.shape[1])
    return Solution(w, zero, zero, primal, dual, relative(primal - dual, scale), 0, False, NONE)
