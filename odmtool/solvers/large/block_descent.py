"""Dual coordinate descent block by block, for rows on the disk: wide data, and any loss.

Problem     max over eta of D(eta) as in :mod:`odmtool.solvers.descent.dcd`, for a linear problem.
Update      as many blocks as there is room for are read, and their duals are updated for a few
            epochs with the others fixed, keeping w = sum_i eta_i y_i x_i; then come the next
            ones, in random order. Two at a time take a tenth of the passes of one, of rows sorted
            by class. In memory are w, these blocks, and eta: d and m numbers. All are read
            once where there is room for all.
Stop        when the relative duality gap over all blocks is at most the tolerance. The blocks'
            shares, added up as they are met, tell when it is worth a pass of its own, which
            takes w as it is and D from w(eta), so that rounding in w is no error of it, and adds
            what rounding may hide (:mod:`odmtool.solvers.rounding`). When the time is over, no
            other block is begun; what was done stays, and one pass says how good it is.
Source      Yu, Hsieh, Chang & Lin, "Large linear classification when data cannot fit in
            memory", KDD 2010, Algorithms 1 and 2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from odmtool import messages
from odmtool.core import kernels, losses
from odmtool.core.losses import MarginLoss
from odmtool.errors import DivergedError
from odmtool.rows.examples import ExampleBlock, Examples
from odmtool.solvers.base import Progress, Stop, ignore_progress, relative
from odmtool.solvers.descent import dcd, dcd_epochs
from odmtool.solvers.large.passes import Found
from odmtool.solvers.rounding import shares_error, sum_error

# speed only: the gap decides when it ends
_EPOCHS_PER_BLOCK = 3
# The s w between 0 and w are looked at for so many s at once, each the one before times e to the
# power of -0.6: more than half of it, so that hardly any valley lies between two. The last is no
# longer of use. Every search but the first is between the neighbours of the best.
_FACTORS, _LOG_RATIO, _LEAST_LOG, _SEARCHES = 30, 0.6, -80.0, 3


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
    examples: Examples, loss: MarginLoss, stop: Stop, *, seed: int = 0, together: int = 1,
    progress=ignore_progress,
) -> Found:  # fmt: skip
    """Solve a linear problem; ``stop.max_iter`` counts passes that change the duals.

    For so many blocks ``together`` there is room in memory.
    """
    if 1 < examples.count <= together and not stop.is_late:
        examples = _Held(examples)
    m, d = examples.shape
    generator = np.random.default_rng(seed)
    w, eta, passes = np.zeros(d), np.zeros(m), 0
    # After the deadline no pass says what is known without rows: there may be many classes.
    found = at_zero(examples, loss) if stop.is_late else None
    while True:
        found = _certify(examples, loss, w, eta) if found is None else found
        if not np.isfinite(found.primal):
            raise DivergedError(messages.overflow())
        progress(Progress(passes, found.primal, found.relative, m))
        if found.relative <= stop.tolerance or passes >= stop.max_iter:
            break
        w, estimate = found.point, np.inf
        while passes < stop.max_iter and not estimate <= stop.tolerance * found.scale:
            estimate = _epoch(examples, loss, eta, w, generator, stop, together)
            passes += 1
            if not np.isfinite(estimate):
                break
            progress(Progress(passes, None, relative(estimate, found.scale), m))
        found = None
    return _not_worse(examples, loss, w, eta, found, passes, stop)


class _Held:
    """Examples as one block that stays in memory."""

    count = 1

    def __init__(self, examples: Examples):
        self.shape, self._block = examples.shape, _joined(examples, np.arange(examples.count))[0]

    def block(self, _k: int) -> ExampleBlock:
        return self._block

    def weights(self, _k: int) -> np.ndarray:
        return self._block.u


def _joined(examples: Examples, chosen: np.ndarray) -> tuple[ExampleBlock, np.ndarray]:
    """Some blocks as one that starts at 0, and the places of its examples."""
    blocks = [examples.block(k) for k in chosen]
    places = np.concatenate([np.arange(b.start, b.start + len(b.y)) for b in blocks])
    rows = [block.X for block in blocks]
    y, u = (np.concatenate(each) for each in zip(*((b.y, b.u) for b in blocks), strict=True))
    is_dense = isinstance(rows[0], np.ndarray)
    X = np.concatenate(rows) if is_dense else sparse.vstack(rows, format="csr")
    return ExampleBlock(0, X, y, u), places


def _epoch(
    examples: Examples, loss: MarginLoss, eta, w, generator, stop: Stop, together: int
) -> float:  # fmt: skip
    """Update blocks after blocks; their share of the gap, NaN when the time ended meanwhile."""
    estimate, order = 0.0, generator.permutation(examples.count)
    for first in range(0, len(order), together):
        chosen = order[first : first + together]
        if len(chosen) == 1:
            estimate += _descend(examples.block(chosen[0]), loss, eta, w, generator, stop)
        else:
            block, places = _joined(examples, chosen)
            own = eta[places]
            estimate += _descend(block, loss, own, w, generator, stop)
            eta[places] = own
        if stop.is_late:
            return np.nan
    return estimate


def _descend(
    block, loss: MarginLoss, eta: np.ndarray, w: np.ndarray, generator, stop: Stop
) -> float:  # fmt: skip
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
        if active == 0 or stop.is_late:
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


def at_zero(examples: Examples, loss: MarginLoss) -> _Gap:
    """What :func:`_certify` says of no model and no duals, without a look at the rows."""
    value, size, dual = 0.0, 0.0, 0.0
    for k in range(examples.count):
        u = examples.weights(k)
        scaled, zero = losses.scaled(loss, u[u > 0]), np.zeros(np.count_nonzero(u))
        values = losses.value(scaled, zero)
        value, size = value + values.sum(), size + np.abs(values).sum()
        dual += losses.dual_value(scaled, zero).sum()
    return _Gap(float(value), float(value - dual), float(size), np.zeros(examples.shape[1]))


def _not_worse(examples, loss, w, eta, found: _Gap, passes: int, stop: Stop) -> Found:
    """The solution, or a multiple of w that is better than none at all.

    Dual ascent that is stopped early can leave such a w, on features of very different scales.
    """
    primal, dual, scale = found.primal, found.primal - found.gap, found.scale
    if found.relative > stop.tolerance:
        zero = at_zero(examples, loss)
        if primal > zero.primal:
            s, primal, scale = _best_multiple(examples, loss, w, zero.primal, stop)
            if not primal < zero.primal:
                s, primal, scale = 0.0, zero.primal, zero.scale
            w, eta = s * w, s * eta
    gap = relative(primal - dual, scale) if primal != found.primal else found.relative
    return Found(w, primal, gap, passes, gap <= stop.tolerance, int(np.count_nonzero(eta)), "dcd")


def _best_multiple(examples, loss, w, value: float, stop: Stop) -> tuple[float, float, float]:
    """The s of the lowest P(s w), P there and its scale; one pass if the time is over."""
    # No longer one is better than none at all: its 1/2 |w|^2 alone is more than P(0).
    with np.errstate(divide="ignore", invalid="ignore"):  # P(0) need not be positive
        longest = min(0.0, np.log(2 * value) / 2 - np.log(np.linalg.norm(w)))
    exponents = np.maximum(longest - _LOG_RATIO * np.arange(_FACTORS), _LEAST_LOG)
    exponents[-1], best = _LEAST_LOG, (0.0, np.inf, 1.0)
    for _ in range(_SEARCHES):
        factors = np.exp(exponents)
        primals, scales = _along(examples, loss, w, factors)
        k = int(primals.argmin())
        if primals[k] < best[1]:
            best = float(factors[k]), float(primals[k]), float(scales[k])
        if stop.is_late:
            break
        ends = exponents[max(k - 1, 0)], exponents[min(k + 1, _FACTORS - 1)]
        exponents = np.linspace(*ends, _FACTORS)
    return best


def _along(examples: Examples, loss: MarginLoss, w, factors) -> tuple[np.ndarray, np.ndarray]:
    """P(s w) for several factors s, infinite where it is no number, and the scales; one pass."""
    sums, sizes = np.zeros(len(factors)), np.zeros(len(factors))
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(examples.count):
            block = examples.block(k)
            used = block.u > 0
            t = (block.y * np.asarray(block.X @ w))[used]
            scaled = losses.scaled(loss, block.u[used])
            for j, factor in enumerate(factors):
                values = losses.value(scaled, factor * t)
                sums[j], sizes[j] = sums[j] + values.sum(), sizes[j] + np.abs(values).sum()
        halves = (factors * np.linalg.norm(w)) ** 2 / 2
        primals = halves + sums
        return np.where(np.isnan(primals), np.inf, primals), halves + sizes
