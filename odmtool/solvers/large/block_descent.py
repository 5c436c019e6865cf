"""Dual coordinate descent block by block, for rows on the disk: wide data, and any loss.

Problem     max over eta of D(eta) as in :mod:`odmtool.solvers.dcd`, for a linear problem.
Update      a block is read, and its duals are updated for a few epochs with the others
            fixed, keeping w = sum_i eta_i y_i x_i; then comes the next block, in random
            order. In memory are w, one block, and eta: d and m numbers.
Stop        when the relative duality gap over all blocks is at most the tolerance. The blocks'
            shares, added up as they are met, tell when it is worth a pass of its own, which
            takes w as it is and D from w(eta), so that rounding in w is no error of it, and adds
            what rounding may hide (:mod:`odmtool.solvers.rounding`).
Source      Yu, Hsieh, Chang & Lin, "Large linear classification when data cannot fit in
            memory", KDD 2010, Algorithms 1 and 2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odmtool import messages
from odmtool.core import kernels, losses
from odmtool.core.losses import MarginLoss
from odmtool.errors import DivergedError
from odmtool.rows.examples import Examples
from odmtool.solvers import dcd, dcd_epochs
from odmtool.solvers.base import (
    Progress,
    ProgressCallback,
    Solution,
    Stop,
    ignore_progress,
    not_worse_than_zero,
    relative,
)
from odmtool.solvers.large.passes import Found
from odmtool.solvers.rounding import shares_error, sum_error

# speed only: the gap decides when it ends
_EPOCHS_PER_BLOCK = 3


class _Gap(NamedTuple):
    """P, P - D with what rounding may hide, the scale S, and w(eta)."""

    primal: float
    gap: float
    scale: float
    point: np.ndarray

    @property
    def relative(self) -> float:
        return relative(self.gap, self.scale)


def solve(
    examples: Examples,
    loss: MarginLoss,
    stop: Stop,
    *,
    seed: int = 0,
    progress: ProgressCallback = ignore_progress,
) -> Found:
    """Solve a linear problem.

    Parameters
    ----------
    examples : Examples
    loss : MarginLoss
    stop : Stop
        ``max_iter`` counts passes that change the duals.
    seed : int
        Seeds the order of the blocks, and of the examples within.
    progress : callable

    Raises
    ------
    DivergedError
        Numbers overflow.
    """
    m, d = examples.shape
    generator = np.random.default_rng(seed)
    w, eta, passes = np.zeros(d), np.zeros(m), 0
    while True:
        found = _certify(examples, loss, w, eta)
        if not np.isfinite(found.primal):
            raise DivergedError(messages.overflow())
        progress(Progress(passes, found.primal, found.relative, m))
        if found.relative <= stop.tolerance or passes >= stop.max_iter:
            break
        w, estimate = found.point, np.inf
        while passes < stop.max_iter and not estimate <= stop.tolerance * found.scale:
            estimate = 0.0
            for k in generator.permutation(examples.count):
                estimate += _descend(examples.block(k), loss, eta, w, generator)
            passes += 1
            if not np.isfinite(estimate):
                break
            progress(Progress(passes, None, relative(estimate, found.scale), m))
    return _not_worse(examples, loss, w, eta, found, passes, stop)


def _descend(block, loss: MarginLoss, eta: np.ndarray, w: np.ndarray, generator) -> float:
    """Update the duals of a block, and w; its share of the gap before."""
    rows = dcd.compressed_rows(block.X)
    own = eta[block.start : block.start + len(block.y)]
    curvature = dcd.row_squares(*rows)
    order = np.flatnonzero(block.u > 0)
    active, threshold, share = len(order), np.inf, None
    for _ in range(_EPOCHS_PER_BLOCK):
        generator.shuffle(order[:active])
        active, threshold, estimate = dcd_epochs.linear_epoch(
            *rows, block.y, block.u, loss, curvature, own, w, order, active, threshold
        )
        share = estimate if share is None else share
        if active == 0:
            break
    return share


def _certify(examples: Examples, loss: MarginLoss, w: np.ndarray, eta: np.ndarray) -> _Gap:
    """P(w) and D(eta); one pass.

    The gap is the sum of the examples' shares and 1/2 |w - w(eta)|^2.
    """
    point, value, size, lost, off = np.zeros(len(w)), 0.0, 0.0, 0.0, 0.0
    norm, error = np.linalg.norm(w), sum_error(max(examples.shape))
    for k in range(examples.count):
        block = examples.block(k)
        used = block.u > 0
        own = eta[block.start : block.start + len(block.y)]
        with np.errstate(over="ignore", invalid="ignore"):
            t = block.y * np.asarray(block.X @ w)
            point += np.asarray(block.X.T @ (block.y * own))
            sizes, t, own = np.sqrt(kernels.squares(block.X))[used], t[used], own[used]
            scaled = losses.scaled(loss, block.u[used])
            values = losses.value(scaled, t)
            lost += (values + own * t - losses.dual_value(scaled, own)).sum()
            lost += shares_error(scaled, t, own, error * norm * sizes)
            off += error * (sizes @ np.abs(own))
            value, size = value + values.sum(), size + np.abs(values).sum()
    with np.errstate(over="ignore", invalid="ignore"):
        gap, half = lost + (np.linalg.norm(w - point) + off) ** 2 / 2, norm * norm / 2
    return _Gap(float(half + value), float(gap), float(half + size), point)


def _not_worse(examples, loss, w, eta, found: _Gap, passes: int, stop: Stop) -> Found:
    """The solution, or a multiple of w that is better than none at all."""
    converged = found.relative <= stop.tolerance
    solution = Solution(
        w, eta, eta, found.primal, found.primal - found.gap, found.relative, passes, converged,
        "dcd",
    )  # fmt: skip

    def primal_at(s):
        at = _certify(examples, loss, s * w, eta)
        return at.primal, at.scale

    at_zero = np.inf if converged else primal_at(0.0)[0]
    solution = not_worse_than_zero(solution, primal_at, at_zero, stop)
    return Found(
        solution.w, solution.primal, solution.gap, passes, solution.converged,
        solution.support_count, "dcd",
    )  # fmt: skip
