"""Scalable ODM: solve parts of the data, merge them level by level, start from what is known.

Problem     P(w) = 1/2 |w|^2 + sum_i u_i l(t_i), for every margin loss.
Update      The examples are cut into parts (:mod:`odmtool.rows.partition`). Part k, of
            the share q_k = (sum of its u_i) / (sum of all u_i), gets a problem of its own,

                1/2 |w|^2 + 1/q_k sum_(i in k) u_i l(t_i),

            which is the whole one as this part sees it. Its solution is w_k, its duals
            eta_k. Parts are then merged ``branch`` at a time, and the merged problem starts
            from q_k eta_k: its w is sum_k q_k w_k. (Concatenated as the paper prints them,
            without q_k, the duals are a worse start than zero.) Level l is the l-th merge
            before the last; level 0 is the whole problem.
Stop        when the gap of the whole problem at w = sum_k q_k w_k is at most the tolerance,
            computed after every level at the price of one pass over all pairs of
            examples; or after ``stop_level``, with that w. A pass that takes too long after
            the deadline is given up where there is a level before, whose w it then is.
Cascade     keeps only examples with nonzero duals for the next level (Cascade SVM); with
            parts that are clusters it is DC-SVM's scheme, with clusters as strata DiP-SVM's.
Source      Wang et al., "Scalable optimal margin distribution machine", IJCAI 2023,
            Algorithm 1 and Theorem 1; with the start rescaled.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from odmtool.core import losses
from odmtool.core.deadline import Exceeded
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.rows import partition
from odmtool.rows.executor import Serial
from odmtool.rows.spread import pieces_of
from odmtool.solvers.base import (
    Problem,
    Progress,
    Solution,
    Stop,
    ignore_progress,
    objective_values,
    relative,
)
from odmtool.solvers.descent import dcd
from odmtool.solvers.large.parts import parts_of
from odmtool.solvers.rounding import Rounding
from odmtool.solvers.settings import Settings

# speed only: where the next level begins
LOCAL_TOLERANCE = 1e-2
"""Relative gap at which a part is left, unless its level is the last: merging changes more."""


class _Certified(NamedTuple):
    """w (None for a kernel), P, D and the relative gap of the whole problem, and its duals."""

    w: np.ndarray | None
    primal: float
    dual: float
    gap: float
    eta: np.ndarray


class Level(NamedTuple):
    """What was reached after a level.

    ``primal`` and ``gap`` are those of the whole problem; ``solving`` and ``certifying``
    are seconds; ``eta`` are duals of the whole problem in the order of its examples.
    """

    level: int
    parts: int
    epochs: int
    primal: float
    gap: float
    solving: float
    certifying: float
    eta: np.ndarray


def solve(
    problem: Problem, stop: Stop, settings: Settings, *, executor=None, seed: int = 0,
    start: np.ndarray | None = None, progress=ignore_progress,
    report: Callable[[Level], None] = lambda level: None,
) -> Solution:  # fmt: skip
    """Solve a linear or kernel problem.

    Parameters
    ----------
    stop : Stop
        ``max_iter`` counts epochs, in every part of every level.
    settings : Settings
        How the data are cut and merged; ``partitions`` is a number.
    executor : optional
        Where the parts are solved (:mod:`odmtool.rows.executor`).
    progress : callable
        Called with the gap of the whole problem after every level.
    report : callable
        Called with a Level after every level.
    """
    if settings.partitions == 1:
        problem = brought_here(problem)
        found = dcd.solve(problem, stop, seed=seed, start=start, progress=progress)
        return found._replace(optimal=problem.is_definite)
    order, levels = arrange(problem, settings, seed)
    parts = parts_of(
        problem, order, levels[0], tolerance=stop.tolerance, executor=executor or Serial(),
        cascade=settings.cascade,
    )  # fmt: skip
    eta = np.zeros(problem.size) if start is None else np.asarray(start, dtype=float)[order]
    place, epochs, found = np.argsort(order), 0, None
    rounding = Rounding.of(problem).ordered(order)
    for level, ranges in zip(range(len(levels) - 1, -1, -1), levels, strict=True):
        began = time.perf_counter()
        rough = 0.0 if level == settings.stop_level else LOCAL_TOLERANCE
        used = parts.solve(ranges, eta, Stop(max(stop.tolerance, rough), stop.max_iter), seed)
        epochs += used
        solved = time.perf_counter()
        is_last = level == settings.stop_level or stop.is_late
        try:
            # Without a level before, what was done would be lost.
            may_end = found is not None
            values = certify(parts, eta, rounding, is_last=is_last, may_end=may_end)
        except Exceeded:
            break
        found = _Certified(*values, eta[place])
        progress(Progress(epochs, found.primal, found.gap, int(np.count_nonzero(eta))))
        seconds = solved - began, time.perf_counter() - solved
        report(Level(level, len(ranges), used, found.primal, found.gap, *seconds, found.eta))
        if found.gap <= stop.tolerance or is_last or stop.is_late:
            break
    w, primal, dual, gap, eta = found
    return Solution(
        w, eta, eta, primal, dual, gap, epochs, gap <= stop.tolerance, "sodm",
        optimal=problem.is_definite,
    )  # fmt: skip


def brought_here(problem: Problem) -> Problem:
    """The problem with its rows in this process's memory."""
    gram = problem.gram
    X = problem.X if gram is None else gram.X
    pieces = pieces_of(X)
    if pieces.is_here:
        return problem
    rows = pieces.here()
    if gram is None:
        return problem._replace(X=rows)
    return problem._replace(gram=Gram(gram.kernel, rows, gram.memory))


def arrange(problem: Problem, settings: Settings, seed: int):
    """The order in which parts are neighbours at every level, and where each lies.

    Returns
    -------
    order : int array, shape (m,)
    levels : list of lists of (start, end)
        From the first level, the smallest parts, to level 0, the whole.
    """
    gram = problem.gram
    kernel, X = (Kernel("linear"), problem.X) if gram is None else (gram.kernel, gram.X)
    memory = np.inf if gram is None else gram.memory
    part = partition.partition(
        kernel, X, problem.y, settings.partitions, by=settings.partition_by,
        count=settings.strata, seed=seed, memory=memory,
    )  # fmt: skip
    order = np.argsort(part, kind="stable")
    edges = np.concatenate([[0], np.cumsum(np.bincount(part))])
    levels = [edges]
    while len(edges) > 2:
        edges = np.append(edges[: -1 : max(2, settings.branch)], problem.size)
        levels.append(edges)
    return order, [list(zip(e[:-1].tolist(), e[1:].tolist(), strict=True)) for e in levels]


def certify(parts, eta: np.ndarray, rounding: Rounding, *, is_last: bool, may_end: bool = False):
    """w (None for a kernel), P, D and the relative gap of the whole problem at its duals."""
    w, f = parts.values(eta, is_last=is_last, may_end=may_end)
    t = parts.y * f
    norm = eta @ t
    loss = losses.scaled(parts.loss, parts.weight)
    primal, dual, scale = objective_values(loss, norm, t, eta)
    dual -= rounding.gap(loss, t, eta, eta, w=w)
    return w, primal, dual, relative(primal - dual, scale)
