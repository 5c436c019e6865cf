"""The judge: primal and dual objective, duality gap and KKT violation, slow and exact.

It shares no code with the solvers: kernel values come from their definition, one
row at a time, losses from their pieces, and sums are exact (``fsum``).
It answers for every solution of

    min over w   P(w) = 1/2 |w|^2 + sum_i u_i l(t_i),    t_i = y_i <w, phi(x_i)>

    max over eta D(eta) = -1/2 |w(eta)|^2 + sum_i min_t [u_i l(t) + eta_i t],
                 w(eta) = sum_i eta_i y_i phi(x_i)

P(w) >= P(w*) = D(eta*) >= D(eta), so a small P - D proves that w is nearly optimal
(for a kernel that is not positive semidefinite, that it is nearly stationary).
The gap is relative to S = 1/2 |w|^2 + sum_i |u_i l(t_i)|.

LDM (:class:`odmtool.core.losses.LDM`) couples the examples: it is the smallest value over b of
such a sum, with l_b(t) = c/2 (t - b)^2 - nu t + rho max(0, 1 - t), c = 2 mu1/M, nu = mu2/M,
rho = lambda/M. So is its dual. A gap for some fixed b would be that of another problem.
KM-OMD (:class:`odmtool.core.losses.KMOMD`) has the level r of each class as a variable:

    P(w) = 1/2 |w|^2 + min over r of sum_i c_i/2 max(0, r_{y_i} - t_i)^2 - r_1 - r_2,   c_i = C u_i
    D(eta) = -1/2 |w(eta)|^2 - sum_i eta_i^2 / (2 c_i),   eta >= 0 and of sum 1 in each class.
"""

from __future__ import annotations

import math
from fractions import Fraction
from operator import mul
from typing import NamedTuple

import numpy as np

from odmtool import messages
from odmtool.core.kernels import Kernel
from odmtool.core.losses import KMOMD, LDM, MarginLoss
from odmtool.errors import UsageError
from odmtool.judge.sums import dense, products, square_sum, sums


class Certificate(NamedTuple):
    """Objective values of a solution."""

    primal: float
    dual: float
    gap: float
    """(P - D) / S"""


def loss_value(loss: MarginLoss, t: float) -> float:
    """l(t) as the integral of the pieces of l' from lo to t."""
    if t <= loss.lo:
        return loss.value_lo + _integral(loss.slope_below, loss.left_lo, t - loss.lo)
    width = min(t, loss.hi) - loss.lo
    inside = loss.value_lo + _integral(loss.slope_between, loss.right_lo, width)
    return inside + _integral(loss.slope_above, loss.right_hi, max(t - loss.hi, 0.0))


def _integral(slope: float, derivative: float, width: float) -> float:
    return derivative * width + slope / 2 * width * width


def loss_dual_value(loss: MarginLoss, eta: float) -> float:
    """min over t of l(t) + eta t, by the best point of every piece."""
    pieces = [
        (-math.inf, loss.lo, loss.slope_below, loss.left_lo, loss.lo),
        (loss.lo, loss.hi, loss.slope_between, loss.right_lo, loss.lo),
        (loss.hi, math.inf, loss.slope_above, loss.right_hi, loss.hi),
    ]
    best = math.inf
    for left, right, slope, derivative, knot in pieces:
        tilt = derivative + eta
        if slope > 0:
            t = min(max(knot - tilt / slope, left), right)
        elif tilt == 0:
            t = knot
        else:
            t = left if tilt > 0 else right
        if math.isinf(t):
            return -math.inf
        best = min(best, loss_value(loss, t) + eta * t)
    return best


KERNELS = {
    "linear": lambda kernel, u, V: sums(u * V),
    "poly": lambda kernel, u, V: [
        (kernel.gamma * s + kernel.coef0) ** kernel.degree for s in sums(u * V)
    ],
    "rbf": lambda kernel, u, V: [math.exp(-kernel.gamma * s) for s in sums((u - V) ** 2)],
    "sigmoid": lambda kernel, u, V: [
        math.tanh(kernel.gamma * s + kernel.coef0) for s in sums(u * V)
    ],
    "precomputed": lambda kernel, u, V: [u[int(v)] for v in V[:, 0]],
}
"""The definitions of the kernels, for an example u and others, the rows of V."""


def kernel_matrix(kernel: Kernel, A, B) -> np.ndarray:
    """All kernel values between the rows of A and of B, shape (a, b).

    Of the same rows those below the diagonal are the same as those above.
    """
    if kernel.name not in KERNELS:
        raise UsageError(messages.unknown_kernel(kernel.name, KERNELS))
    is_symmetric = A is B and kernel.name != "precomputed"
    A, B = dense(A), dense(B)
    K = np.empty((len(A), len(B)))
    for i, u in enumerate(A):
        end = i + 1 if is_symmetric else len(B)
        K[i, :end] = KERNELS[kernel.name](kernel, u, B[:end])
        if is_symmetric:
            K[:end, i] = K[i, :end]
    return K + kernel.bias**2


def exact_polynomials(kernel: Kernel, A, B) -> np.ndarray:
    """The values of a polynomial kernel as fractions, shape (a, b), for :func:`certify_kernel`."""
    A, B = ([list(map(Fraction, row)) for row in dense(X)] for X in (A, B))
    gamma, coef0, bias = map(Fraction, (kernel.gamma, kernel.coef0, kernel.bias))
    values = [
        [(gamma * sum(map(mul, u, v)) + coef0) ** kernel.degree + bias**2 for v in B] for u in A
    ]
    return np.array(values, dtype=object).reshape(len(A), len(B))


def certify_linear(X, y, weight, loss: MarginLoss | LDM | KMOMD, w, eta) -> Certificate:
    """Judge a linear solution.

    Parameters
    ----------
    X : csr_matrix or ndarray, shape (m, d)
    y : ndarray of +1 and -1, shape (m,)
    weight : ndarray, shape (m,)
        u_i > 0.
    loss : MarginLoss of scalars, or LDM
    w : ndarray, shape (d,)
        Primal solution.
    eta : ndarray, shape (m,)
        Dual solution.
    """
    X = dense(X)
    dual_w = products(X.T, eta * y)
    return _certificate(square_sum(w), square_sum(dual_w), y * products(X, w), weight, loss, eta, y)


def certify_kernel(K, y, weight, loss: MarginLoss | LDM | KMOMD, coef, eta) -> Certificate:
    """Judge a kernel solution w = sum_i coef_i y_i phi(x_i).

    ``K`` is the Gram matrix of :func:`kernel_matrix`, shape (m, m); ``coef`` and
    the dual solution ``eta`` have shape (m,); the rest as in :func:`certify_linear`.
    """
    margins, dual_margins = (y * products(K, y * duals) for duals in (coef, eta))
    norm, dual_norm = math.fsum(coef * margins), math.fsum(eta * dual_margins)
    return _certificate(norm, dual_norm, margins, weight, loss, eta, y)


def _certificate(norm, dual_norm, margins, weight, loss, eta, y) -> Certificate:
    if isinstance(loss, LDM):
        losses, minimum = _ldm_losses(loss, margins, weight), _ldm_dual_value(loss, weight, eta)
        return _verdict(norm, dual_norm, losses, [minimum])
    if isinstance(loss, KMOMD):
        return _kmomd_verdict(norm, dual_norm, margins, loss.cost * np.asarray(weight), y, eta)
    # Each example's own loss, so that a bound u l'(t) is the number the solver has.
    own = [MarginLoss(*loss[:2], *(float(u) * field for field in loss[2:])) for u in weight]
    losses = [loss_value(row, t) for row, t in zip(own, margins, strict=True)]
    minima = [loss_dual_value(row, float(e)) for row, e in zip(own, eta, strict=True)]
    return _verdict(norm, dual_norm, losses, minima)


def _verdict(norm, dual_norm, losses, minima) -> Certificate:
    primal = math.fsum([norm / 2, *losses])
    dual = math.fsum([-dual_norm / 2, *minima])
    scale = math.fsum([abs(norm) / 2, *map(abs, losses)])
    return Certificate(primal, dual, (primal - dual) / scale if scale > 0 else 0.0)


def _kmomd_verdict(norm, dual_norm, margins, costs, y, eta) -> Certificate:
    """The same, the level of each class by bisection; relative to 1/2 |w|^2 + sum eta^2 / 2c."""
    primal, dual, penalties = [norm / 2], [-dual_norm / 2], []
    for sign in (1.0, -1.0):
        own = [k for k, other in enumerate(y) if other == sign]
        t, c, g = ([float(values[k]) for k in own] for values in (margins, costs, eta))
        low, high = min(t), max(t) + 1 / min(c)
        for _ in range(2000):
            r = (low + high) / 2
            if not low < r < high:
                break
            filled = math.fsum(u * max(0.0, r - v) for u, v in zip(c, t, strict=True))
            low, high = (low, r) if filled > 1 else (r, high)
        primal += [-r, *(u / 2 * max(0.0, r - v) ** 2 for u, v in zip(c, t, strict=True))]
        penalties += [v**2 / (2 * u) for u, v in zip(c, g, strict=True)]
        if min(g) < 0 or abs(math.fsum(g) - 1) > 1e-12 * len(g):
            dual.append(-math.inf)
    P, D = math.fsum(primal), math.fsum([*dual, *(-value for value in penalties)])
    scale = math.fsum([abs(norm) / 2, *penalties])
    return Certificate(P, D, (P - D) / scale if scale > 0 else 0.0)


def _ldm_losses(loss: LDM, margins, weight) -> list[float]:
    """Each example's part of the variance, the mean and the hinge loss."""
    mean = math.fsum(u * t for u, t in zip(weight, margins, strict=True)) / math.fsum(weight)
    return [
        float(u) / loss.total_weight
        * (loss.mu1 * (t - mean) ** 2 - loss.mu2 * t + loss.lambda_ * max(0.0, 1 - t))
        for u, t in zip(weight, margins, strict=True)
    ]  # fmt: skip


def _ldm_dual_value(loss: LDM, weight, eta) -> float:
    """min over b and all t_i of sum_i u_i l_b(t_i) + eta_i t_i; -inf if there is none."""
    c, nu, rho = (k / loss.total_weight for k in (2 * loss.mu1, loss.mu2, loss.lambda_))
    if c == 0:
        hinge = [MarginLoss(1, 1, 0, -u * (nu + rho), 0, -u * nu, 0, -u * nu, -u * nu)
                 for u in map(float, weight)]  # fmt: skip
        return math.fsum(loss_dual_value(h, float(e)) for h, e in zip(hinge, eta, strict=True))
    units, total = math.fsum(weight), math.fsum(eta)
    rounding = 1e-12 * max(units * (nu + rho), math.fsum(map(abs, eta)))
    if not units * nu - rounding <= total <= units * (nu + rho) + rounding:
        return -math.inf
    # Every t_i is b plus a number between pulls[i] and pulls[i] + rho/c, or at the kink.
    pulls = [(nu - float(e) / float(u)) / c for u, e in zip(weight, eta, strict=True)]
    low, high = 1 - max(pulls) - rho / c, 1 - min(pulls)
    for _ in range(200):
        b = (low + high) / 2
        if not low < b < high:
            break
        distance = math.fsum(
            float(u) * (_ldm_margin(b, pull, rho / c) - b)
            for u, pull in zip(weight, pulls, strict=True)
        )
        # -c times the distance is the derivative in b.
        low, high = (b, high) if distance > 0 else (low, b)
    minima = []
    for u, e, pull in zip(weight, eta, pulls, strict=True):
        t = _ldm_margin(b, pull, rho / c)
        own = c / 2 * (t - b) ** 2 - nu * t + rho * max(0.0, 1 - t)
        minima.append(float(u) * own + float(e) * t)
    return math.fsum(minima)


def _ldm_margin(b: float, pull: float, jump: float) -> float:
    """The best t of one example: below the kink at 1, above it, or there."""
    if b + pull >= 1:
        return b + pull
    if b + pull + jump <= 1:
        return b + pull + jump
    return 1.0


def kkt_violation(margins, weight, loss: MarginLoss, eta) -> float:
    """Largest distance of eta_i to the interval [-u l'(t+), -u l'(t-)] that optimality demands.

    ``margins``, ``weight`` and ``eta``: ndarrays, shape (m,).
    """
    worst = 0.0
    for t, u, e in zip(margins, weight, eta, strict=True):
        least, most = (-float(u) * d for d in reversed(_one_sided_derivatives(loss, float(t))))
        worst = max(worst, least - e, e - most)
    return worst


def _one_sided_derivatives(loss: MarginLoss, t: float) -> tuple[float, float]:
    if t < loss.lo:
        return (loss.left_lo + loss.slope_below * (t - loss.lo),) * 2
    left_hi = loss.right_lo + loss.slope_between * (loss.hi - loss.lo)
    if loss.lo < t < loss.hi:
        return (loss.right_lo + loss.slope_between * (t - loss.lo),) * 2
    if t > loss.hi:
        return (loss.right_hi + loss.slope_above * (t - loss.hi),) * 2
    left = loss.left_lo if t == loss.lo else left_hi
    right = loss.right_hi if t == loss.hi else loss.right_lo
    return left, right
