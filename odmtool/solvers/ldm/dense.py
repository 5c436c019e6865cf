"""LDM by coordinate descent on the papers' dense dual.

Problem     max over eta~ in u_i [nu, nu + rho] of sum eta~ - 1/2 eta~' H eta~, up to a
            constant, H_ij = y_i y_j k~(x_i, x_j) (:mod:`odmtool.solvers.ldm.reduced`).
Update      one eta~_i at a time in O(m) (:mod:`odmtool.solvers.descent.dcd`), after the m x m
            matrix H has been made in O(m^3).
Stop        when the relative gap of LDM is at most the tolerance.
Source      Zhang & Zhou, "Large margin distribution machine", KDD 2014, Algorithm 1, with
            Cholesky and a rank-one identity in place of their inverse. Here to compare
            with; :mod:`odmtool.solvers.ldm.descent` needs no such matrix.
"""

from __future__ import annotations

import functools

import numpy as np

from odmtool import messages
from odmtool.errors import UsageError
from odmtool.solvers.base import Problem, Solution, Stop, ignore_progress
from odmtool.solvers.descent import dcd
from odmtool.solvers.ldm import descent as ldm
from odmtool.solvers.ldm import reduced as ldm_reduced

LARGEST = 1000
"""Examples; more take too long."""


def solve(
    problem: Problem, stop: Stop, *, seed: int = 0, start: np.ndarray | None = None,
    progress=ignore_progress,
) -> Solution:  # fmt: skip
    """Solve a problem whose loss is an LDM; see :func:`odmtool.solvers.ldm.descent.solve`.

    Raises UsageError: more than LARGEST examples, or the kernel is not positive semidefinite.
    """
    if problem.size > LARGEST:
        raise UsageError(messages.dense_too_large(problem.size, LARGEST))
    if problem.loss.mu1 == 0:
        solution = ldm.solve(problem, stop, seed=seed, start=start, progress=progress)
        return solution._replace(solver="dcd-dense")
    method = functools.partial(dcd.solve, seed=seed, progress=progress)
    reduced = ldm_reduced.by_gram(problem)
    return ldm_reduced.solve(problem, reduced, method, stop, start, "dcd-dense")
