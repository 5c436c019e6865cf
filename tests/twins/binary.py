"""Twins of the compiled functions of the binary solvers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from problems import OTHER_LOSSES

from odmtool.core import losses
from odmtool.judge import binary as judge
from odmtool.solvers.descent import coordinate, dcd, dcd_epochs
from odmtool.solvers.descent.kernel_block import SIZE
from odmtool.solvers.stochastic import asgd, common, svrg
from twins.kernel_block import in_blocks, swept
from twins.making import Twin, bisect, dense, matrix, rows_of, signs, table

LOSSES = [losses.odm(16.0, 0.4, 0.3, 10), losses.odm(3.0, 1.0, 0.0, 2), *OTHER_LOSSES.values()]


# ---- one example -----------------------------------------------------------------------


def derivative(loss, t) -> float:
    """By the table; where it jumps, the value of the piece below."""
    if t > loss.hi:
        return loss.right_hi + loss.slope_above * (t - loss.hi)
    if t > loss.lo:
        return loss.right_lo + loss.slope_between * (t - loss.lo)
    return loss.left_lo + loss.slope_below * (t - loss.lo)


def left_derivative(loss, t) -> float:
    """The backward difference of second order, exact where the loss is one parabola."""
    h = 1e-4
    here, before, earlier = (judge.loss_value(loss, t - k * h) for k in range(3))
    return (3 * here - 4 * before + earlier) / (2 * h)


def best_dual(loss, u, t, eta, h) -> tuple[float, float]:
    """The zero of the step's own equation, by bisection in the new margin."""
    if h == 0:
        t_new = t
    else:
        base = t - h * eta
        reach = 1 + abs(base) + h * u * (abs(derivative(loss, -9.0)) + abs(derivative(loss, 9.0)))
        t_new = bisect(lambda s: s - base + h * u * derivative(loss, s), base - reach, base + reach)
    knots = [knot for knot in (loss.lo, loss.hi) if abs(t_new - knot) < 1e-12]
    for knot in knots if h > 0 else []:
        left, right = derivative(loss, knot), derivative(loss, knot + 1e-9)
        if right - left > 1e-6:
            return float(np.clip((knot - t) / h + eta, -u * right, -u * left)), 0.0
    new = -u * derivative(loss, t_new)
    is_flat = derivative(loss, t_new - 1e-9) == derivative(loss, t_new + 1e-9)
    return new, min(abs(t_new - loss.lo), abs(t_new - loss.hi)) if is_flat and not knots else 0.0


def lowest(loss, u, eta) -> float:
    """The minimum over t of u l(t) + eta t."""
    multiple = loss._replace(**{name: u * getattr(loss, name) for name in loss._fields[2:]})
    return judge.loss_dual_value(multiple, eta)


def reached(result, arguments):
    """Any t of a flat minimum is right: its value counts."""
    loss, u, eta = arguments
    return u * judge.loss_value(loss, result) + eta * result if np.isfinite(result) else -np.inf


def lowest_reached(loss, u, eta):
    """A t at which the minimum is taken, by halving."""
    if not np.isfinite(lowest(loss, u, eta)):
        return np.inf
    return bisect(lambda t: u * derivative(loss, t) + eta, -1e4, 1e4)


def share(loss, u, t, eta) -> float:
    minimum = lowest(loss, u, eta)
    return u * judge.loss_value(loss, t) + eta * t - minimum if np.isfinite(minimum) else np.inf


def points(loss, generator):
    """Margins on every piece and at the knots."""
    margins = [*generator.uniform(-3, 4, 12), loss.lo, loss.hi]
    return [t for t in margins if not any(0 < t - knot < 1e-3 for knot in (loss.lo, loss.hi))]


def loss_cases(generator):
    for loss in LOSSES:
        for t in points(loss, generator):
            yield loss, float(t)


def dual_cases(generator):
    """Duals on every piece, outside the domain, and at its bounds."""
    for loss in LOSSES:
        for u in (1.0, 0.25, 4.0):
            bounds = [-u * loss.left_lo, -u * loss.right_lo, -u * loss.right_hi]
            for eta in (*generator.uniform(-4, 4, 6), *bounds):
                yield loss, u, float(eta)


def gap_cases(generator):
    for loss, u, eta in dual_cases(generator):
        for t in (float(generator.uniform(-3, 4)), loss.lo, loss.hi):
            yield loss, u, t, eta


def sums(loss, weight, t, eta, sizes, error):
    """Example by example, by the judge; a loss is largest at an end of an interval."""
    values = [u * judge.loss_value(loss, at) for u, at in zip(weight, t, strict=True)]
    dual = sum(lowest(loss, u, a) for u, a in zip(weight, eta, strict=True))
    hidden = 0.0
    for u, at, a, size, now in zip(weight, t, eta, sizes, values, strict=True):
        ends = [u * judge.loss_value(loss, at + d) + a * d for d in (-error * size, error * size)]
        hidden += max(*ends, now) - now if np.isfinite(ends).all() else np.inf
    return math.fsum(values), math.fsum(map(abs, values)), dual, hidden


def rounded_sum(known, lost, x):
    """What rounding loses, in fractions; nothing of what is infinite."""
    total = known + x
    if np.isfinite(total):
        lost += float(Fraction(known) + Fraction(x) - Fraction(total))
    return total, lost


def adding_up_cases(generator):
    for x in (*generator.normal(size=5), *10.0 ** generator.uniform(-20, 20, 5), np.inf):
        yield generator.normal(), generator.normal(), float(x)
    yield -np.inf, 0.0, 1.0


def sums_cases(generator):
    """Duals inside of the domain and outside; errors of none, of a piece, of more than all."""
    for loss in LOSSES:
        for error in (0.0, 1e-3, 2.0):
            weight, t = generator.uniform(0.3, 3, 9), generator.uniform(-2, 3, 9)
            t[0], t[1], sizes = loss.lo, loss.hi, generator.uniform(0, 2, 9)
            demanded = -weight * losses.derivative(loss, t)
            yield loss, weight, t, demanded, sizes, error
            yield loss, weight, t, generator.normal(size=9), sizes, error
    curved = LOSSES[0]
    yield curved, weight, t, -weight * losses.derivative(curved, t), sizes, 1e200
    # Many.
    some = [np.tile(numbers, 20) for numbers in (weight, t, -weight, sizes)]
    yield curved, *some, 1e-3


def step_cases(generator):
    for loss in LOSSES:
        for t in points(loss, generator):
            u, h, eta = generator.uniform(0.2, 4), generator.uniform(0.05, 5), generator.normal()
            yield loss, u, float(t), eta, h
            yield loss, u, float(t), eta, 0.0
            yield loss, 0.0, float(t), eta, h
            # Where nothing is to be done.
            yield loss, u, float(t), -u * derivative(loss, t), h


def one_visit(loss, u, t, eta, h, threshold):
    new, slack = best_dual(loss, u, t, eta, h)
    if new == eta and slack > threshold:
        return False, eta, 0.0
    return True, new, share(loss, u, t, eta)


def visit_cases(generator):
    for loss, u, t, eta, h in step_cases(generator):
        for threshold in (1e-6, 0.3) if u > 0 else ():
            yield loss, u, t, eta, h, threshold


# ---- rows ------------------------------------------------------------------------------


def product(data, indices, indptr, i, v):
    return float(dense(data, indices, indptr, len(v))[i] @ v)


def add(data, indices, indptr, i, factor, v):
    v += factor * dense(data, indices, indptr, len(v))[i]


def row_cases(generator):
    rows = rows_of(matrix(generator, 7, 5))
    for i in range(7):
        yield *rows, i, generator.standard_normal(5)


def adding_cases(generator):
    for data, indices, indptr, i, v in row_cases(generator):
        yield data, indices, indptr, i, float(generator.normal()), v


def squares(data, indptr, squares):
    squares += [(row**2).sum() for row in np.split(data, indptr[1:-1])]


def square_cases(generator):
    for X in (matrix(generator, 7, 5), np.zeros((3, 2))):
        data, _, indptr = rows_of(X)
        yield data, indptr, generator.standard_normal(len(X))


# ---- coordinate descent ------------------------------------------------------------------


def descent(margins, move, y, weight, loss, curvature, eta, order, active, threshold):
    """An epoch on lists: who is visited, who is left out, and what it found."""
    queue, out, stays, largest, estimate = list(order[:active]), [], [], 0.0, 0.0
    while queue:
        i = queue.pop(0)
        known = loss, weight[i], margins(i), eta[i], curvature[i], threshold
        is_kept, new, gap = one_visit(*known)
        if not is_kept:
            out.insert(0, i)
            # The last of the others comes forward.
            queue = queue[-1:] + queue[:-1]
            continue
        stays.append(i)
        estimate += gap
        largest = max(largest, curvature[i] * abs(new - eta[i]))
        move(i, (new - eta[i]) * y[i])
        eta[i] = new
    order[:active] = stays + out
    return len(stays), largest, estimate


def linear_descent(
    data, indices, indptr, y, weight, loss, curvature, eta, w, order, active, threshold
):
    X = dense(data, indices, indptr, len(w))

    def move(i, step):
        w[:] += step * X[i]

    rest = y, weight, loss, curvature, eta, order, active, threshold
    return descent(lambda i: y[i] * (X[i] @ w), move, *rest)


def visits(y, weight, loss, curvature, eta, threshold):
    """What :func:`twins.kernel_block.swept` calls for an example."""

    def look(i, f):
        known = loss, weight[i], y[i] * f[0], eta[i], curvature[i], threshold
        is_kept, new, gap = one_visit(*known)
        change, eta[i] = new - eta[i], new
        return y[i] * change, curvature[i] * abs(change), gap, is_kept

    return look


def sweeps(values, f, change, part, stays, *rest):
    moves, found = swept(visits(*rest), values, f[None], change[None], part, stays)
    return max(max(each) for each in moves), found


def kernel_descent(
    rows, slot, first, y, weight, loss, curvature, eta, f, order, active, threshold, least
):
    K = rows[slot][:, first : first + f.shape[1]].astype(float)
    look = visits(y, weight, loss, curvature, eta, threshold)

    def own_share(i, f):
        return share(loss, weight[i], y[i] * f[0], eta[i]) if least else np.inf

    kept, moves, found = in_blocks(look, own_share, K, f, order, active, least)
    return kept, max((max(each) for block in moves for each in block), default=0.0), found


def after_kernel_epoch(result, arguments):
    """Of the order only the examples that stay."""
    *rest, order, active, threshold, least = arguments
    return result, rest, order[: result[0]]


def epoch_cases(generator, m):
    """Loss, duals, order, number of active examples and threshold.

    Duals in the domain, many of them at its bounds, where examples are left out.
    """
    for loss in LOSSES:
        for active, threshold in ((m, np.inf), (m, 0.3), (m - 4, 0.0), (0, 1.0)):
            weight = generator.uniform(0.3, 3, m)
            t = generator.uniform(-1, 3, m)
            eta = -weight * losses.derivative(loss, t)
            yield loss, weight, eta, generator.permutation(m), active, threshold


def linear_epoch_cases(generator):
    m, d = 12, 6
    for loss, weight, eta, order, *rest in epoch_cases(generator, m):
        X, y = matrix(generator, m, d), signs(generator, m)
        yield (
            *rows_of(X), y, weight, loss, (X**2).sum(axis=1), eta, X.T @ (eta * y), order, *rest,
        )  # fmt: skip


def kernel_epoch_cases(generator):
    for m in (12, SIZE + 9):
        for number, (loss, weight, eta, order, *rest) in enumerate(epoch_cases(generator, m)):
            Z, y, first = generator.standard_normal((m, 3)), signs(generator, m), number % 3
            K = np.exp(-0.5 * ((Z[:, None] - Z[None]) ** 2).sum(axis=2))
            slot = generator.permutation(m + 2)[:m]
            rows = np.full((m + 2, m + 3), np.nan, np.float32 if number % 2 else float)
            rows[slot, first : first + m] = K
            f = rows[slot, first : first + m].astype(float) @ (eta * y)
            known = rows, slot, first, y, weight, loss, np.ones(m), eta, f[None], order
            yield *known, *rest, 0.3 * (number % 3)


def sweep_cases(generator):
    m = 12
    for loss, weight, eta, order, b, threshold in epoch_cases(generator, m):
        Z, y, part = generator.standard_normal((m, 3)), signs(generator, m), order[:b]
        K = np.exp(-0.5 * ((Z[:, None] - Z[None]) ** 2).sum(axis=2))
        f, change, stays = (K @ (eta * y))[part], np.ones(b + 1), np.zeros(b + 1, bool)
        rest = y, weight, loss, np.ones(m), eta, threshold
        yield K[np.ix_(part, part)], f, change, part, stays, *rest


# ---- stochastic gradients ------------------------------------------------------------------


def averaged_steps(data, indices, indptr, y, terms, first, second, eta0, steps, w, v, total):
    """Every iterate, and the sum of all."""
    X, (variance, mean, hinge) = dense(data, indices, indptr, len(w)), terms
    for q, (i, j) in enumerate(zip(first, second, strict=True)):
        step = eta0 / (1 + eta0 * (steps + q)) ** 0.75
        gradient = np.zeros(len(w))
        t_i, t_j = y[i] * (X[i] @ w), y[j] * (X[j] @ w)
        for k, t, other in ((i, t_i, t_j), (j, t_j, t_i)):
            slope = variance * (t - other) - mean - (hinge if t < 1 else 0.0)
            gradient += slope * y[k] * X[k]
        w[:] = (w - step * gradient) / (1 + step)
        total += w


def averaged_cases(generator):
    """Long and short steps: the factor of w shrinks below its limit, or does not."""
    m, d = 9, 5
    for eta0, steps, length in ((0.5, 0, 40), (0.01, 30, 6), (3.0, 0, 5), (0.3, 7, 0)):
        X, y = matrix(generator, m, d), signs(generator, m)
        first, second = generator.integers(0, m, (2, length))
        terms = tuple(float(x) for x in generator.uniform(0.1, 2, 3))
        w, total = generator.standard_normal((2, d))
        yield (
            *rows_of(X), y, terms, first, second, eta0, steps, w.copy(), np.zeros(d), total.copy(),
        )  # fmt: skip


def settle(w, v, total, a, a_sum):
    total += a_sum * w - v
    w *= a
    v *= 0


def settle_cases(generator):
    for size in (0, 1, 6):
        yield *(generator.standard_normal(size) for _ in range(3)), 0.02, 3.5


def svrg_steps(
    data, indices, indptr, y, weight, loss, margins, drift, inflation, order, step, a, k, z
):
    """e' = (e - step (g + change x)) / (1 + step), in the parts e = Z + k g."""
    X, Z = dense(data, indices, indptr, len(z)), a * z
    for i in order:
        t = margins[i] + y[i] * (X[i] @ Z) + k * drift[i]
        change = weight[i] * (derivative(loss, t) - derivative(loss, margins[i]))
        Z = (Z - step * inflation[i] * change * y[i] * X[i]) / (1 + step)
        k, a = (k - step) / (1 + step), a / (1 + step)
    z[:] = Z / a
    return a, k


def svrg_cases(generator):
    m, d = 9, 5
    for loss in LOSSES[:5]:
        for length, a, k in ((30, 1.0, 0.0), (4, 0.6, -0.3), (0, 1.0, 0.0)):
            margins, drift = generator.uniform(-1, 3, m), generator.standard_normal(m)
            yield (
                *rows_of(matrix(generator, m, d)), signs(generator, m),
                generator.uniform(0.3, 3, m), loss, margins, drift, generator.uniform(1, 9, m),
                generator.integers(0, m, length), 0.05, a, k, generator.standard_normal(d),
            )  # fmt: skip


def svrg_pair_steps(
    data, indices, indptr, y, variance, hinge, margins, drift, first, second, step, z
):
    X, Z, a, k = dense(data, indices, indptr, len(z)), np.zeros(len(z)), 1.0, 0.0
    for i, j in zip(first, second, strict=True):
        moved = {n: y[n] * (X[n] @ Z) + k * drift[n] for n in (i, j)}
        change = np.zeros(len(z))
        for n, other in ((i, j), (j, i)):
            slope = variance * (moved[n] - moved[other])
            slope -= hinge * (margins[n] + moved[n] <= 1) - hinge * (margins[n] <= 1)
            change += slope * y[n] * X[n]
        Z = (Z - step * change) / (1 + step)
        k, a = (k - step) / (1 + step), a / (1 + step)
    z[:] = Z / a
    return a, k


def svrg_pair_cases(generator):
    m, d = 9, 5
    for length in (0, 1, 30):
        first, second = generator.integers(0, m, (2, length))
        # At the kink itself the slope is that of the piece below.
        margins = np.where(generator.random(m) < 0.3, 1.0, generator.uniform(0.5, 1.5, m))
        yield (
            *rows_of(matrix(generator, m, d)), signs(generator, m), 0.7, 1.3, margins,
            generator.standard_normal(m), first, second, 0.1, np.zeros(d),
        )  # fmt: skip


TWINS = table(
    Twin(coordinate.coordinate_step, best_dual, step_cases),
    Twin(coordinate.loss_value, judge.loss_value, loss_cases),
    Twin(coordinate.loss_derivative, left_derivative, loss_cases),
    Twin(coordinate.dual_minimiser, lowest_reached, dual_cases, reached),
    Twin(coordinate.gap_share, share, gap_cases),
    Twin(coordinate.objective_sums, sums, sums_cases),
    Twin(coordinate.added, rounded_sum, adding_up_cases),
    Twin(common.row_product, product, row_cases),
    Twin(common.add_row, add, adding_cases),
    Twin(dcd.add_squares, squares, square_cases),
    Twin(dcd_epochs.visit, one_visit, visit_cases),
    Twin(dcd_epochs.linear_epoch, linear_descent, linear_epoch_cases),
    Twin(dcd_epochs.block_sweeps, sweeps, sweep_cases),
    Twin(dcd_epochs.kernel_epoch, kernel_descent, kernel_epoch_cases, after_kernel_epoch),
    Twin(asgd.epoch, averaged_steps, averaged_cases),
    Twin(asgd.rescale, settle, settle_cases),
    Twin(svrg.stage, svrg_steps, svrg_cases),
    Twin(svrg.pair_stage, svrg_pair_steps, svrg_pair_cases),
)
