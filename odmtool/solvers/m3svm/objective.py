"""The objective of M3SVM and ISM3: value, gradient, second derivatives, and a bound.

    F(W, b) = sum_i u_i L_i(f(x_i)) + lambda sum_{k<l} r(w_k - w_l) + ridge (|W|^2 + |b|^2)

with scores f_l(x) = <w_l, x> + b_l, and with L_i one of

    hinge      sum_{l != y_i} g(1 - f_{y_i} + f_l),   g(z) = (z + sqrt(z^2 + delta^2)) / 2
    pairwise   sum_{l != y_i} log(1 + exp(f_l - f_{y_i}))
    softmax    log(sum_l exp(f_l - f_{y_i}))

    r(v) = |v|^p                                    p >= 2
           (|v|^2 + sigma^2)^(p/2) - sigma^p        p <  2,  sigma = delta / rho

For p < 2 |v|^p has infinite curvature (p = 1: a kink) at v = 0, where two classes coincide.
rho is the root mean square of |x_i|: at |v| = sigma the scores of two classes differ by
about delta, so sigma follows the scale of the features. 0 <= |v|^p - r(v) <= sigma^p.

pairwise is the ISM3 of the paper (eq. 32), softmax what the authors' script computes.

For p >= 1 all of F is convex; for p < 1 only a stationary point is looked for. Only the ridge
depends on what the classes have in common: at the optimum the rows of W and the biases sum to
zero over the classes. Pairs of classes are never looped over: |w_k - w_l|^2 comes from the
k x k Gram matrix of W, in O(k^2 d).

The unknowns are one array V of shape (d+1, k), W above and the biases as its last row.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logsumexp

from odmtool import messages
from odmtool.core.kernels import squares
from odmtool.core.loss_table import OF_PAIRS
from odmtool.errors import UsageError
from odmtool.solvers.rounding import sum_error

LOSSES = ("hinge", "pairwise", "softmax")


class M3SVMParameters(NamedTuple):
    """What is to be minimised."""

    loss: str  # one of LOSSES: ``hinge`` is M3SVM, the others are ISM3
    lambda_: float  # > 0: weight of the regulariser (not, as for ODM, of the loss)
    power: float = 4.0  # > 0: p
    # > 0: smoothing of the hinge in units of the margin, and of |v|^p where p < 2.
    delta: float = 1e-3
    ridge: float = 1e-6  # > 0: eps of the paper; makes the optimum unique

    kind = OF_PAIRS


def check_parameters(parameters: M3SVMParameters) -> None:
    """Raise UsageError if a parameter is out of range."""
    if parameters.loss not in LOSSES:
        raise UsageError(messages.unknown_multi_class_loss(parameters.loss, LOSSES))
    for name in ("lambda_", "delta", "ridge"):
        number = getattr(parameters, name)
        if not 0 < number < np.inf:
            raise UsageError(messages.must_be_positive(name, number))
    if not 0 < parameters.power < np.inf:
        raise UsageError(messages.power_range(parameters.power))


class Smoothing(NamedTuple):
    """delta of the hinge and sigma of the regulariser."""

    delta: float
    sigma: float

    def times(self, factor: float) -> Smoothing:
        return Smoothing(self.delta * factor, self.sigma * factor)


class Objective:
    """F of a linear :class:`odmtool.solvers.multi.MultiProblem`.

    Attributes
    ----------
    smoothing : Smoothing
        That of the problem; methods take another one to solve a smoother problem first.
    """

    def __init__(self, problem):
        self.X, self.k, self.weight = problem.X, problem.k, problem.weight
        self.parameters, self.target = problem.parameters, problem.target
        self.losses = _LOSSES[self.parameters.loss](problem.target, problem.weight)
        self.smoothing = self._smoothing()

    def _smoothing(self) -> Smoothing:
        delta = self.parameters.delta
        if self.parameters.power >= 2:
            return Smoothing(delta, 0.0)
        X = self.X
        squares = X**2 if isinstance(X, np.ndarray) else X.multiply(X)
        squares = np.asarray(squares.sum(axis=1)).ravel()
        rho = np.sqrt(squares @ self.weight / self.weight.sum())
        return Smoothing(delta, delta / rho if rho > 0 else delta)

    def zero(self) -> np.ndarray:
        return np.zeros((self.X.shape[1] + 1, self.k))

    def scores(self, V: np.ndarray) -> np.ndarray:
        """f_l(x_i), shape (m, k)."""
        return np.asarray(self.X @ V[:-1]) + V[-1]

    def pairs(self, V: np.ndarray, smoothing: Smoothing) -> Pairs:
        return Pairs(V[:-1], self.parameters, smoothing.sigma)

    def value(self, V: np.ndarray, scores: np.ndarray, smoothing: Smoothing) -> float:
        loss = self.losses.value(scores, smoothing.delta)
        return float(
            loss + self.pairs(V, smoothing).value() + self.parameters.ridge * np.vdot(V, V)
        )

    def gradient(self, V: np.ndarray, scores: np.ndarray, smoothing: Smoothing) -> np.ndarray:
        """Shape (d+1, k)."""
        gradient = self.back(self.losses.slopes(scores, smoothing.delta))
        gradient[:-1] += self.pairs(V, smoothing).gradient()
        gradient += 2 * self.parameters.ridge * V
        return gradient

    def back(self, slopes: np.ndarray) -> np.ndarray:
        """The derivative by V of what has these derivatives by the scores."""
        return np.vstack([np.asarray(self.X.T @ slopes), slopes.sum(axis=0)])

    @cached_property
    def rounding(self) -> float:
        """What is left of the norm of a gradient that is 0, where classes balance each other."""
        zero = np.zeros((len(self.weight), self.k))
        slopes = np.linalg.norm(self.losses.slopes(zero, self.smoothing.delta), axis=1)
        return sum_error(len(slopes)) * float(np.sqrt(squares(self.X) + 1) @ slopes)

    def gap(self, V: np.ndarray, value: float, gradient: np.ndarray) -> float:
        """A bound on F(V) - min F, relative to F(V), from the gradient at V.

        With the minimiser V* = (W*, b*), F convex in W and strongly convex with modulus
        2 ridge in everything, the gap is at most |gradient|^2 / (4 ridge), and at most
        |gradient_W| (|W| + |W*|) + |gradient_b|^2 / (4 ridge). Since lambda sum r <= F(V)
        at V*, where W* sums to zero, k |W*|^2 = sum_{k<l} |w*_k - w*_l|^2 is bounded by
        Hoelder's inequality. And it is at most 1, for no part of F is negative. More is not known
        for p < 1.
        """
        _loss, lambda_, power, _delta, ridge = self.parameters
        if power < 1:
            return 1.0 if value > 0 else 0.0
        count = self.k * (self.k - 1) / 2
        with np.errstate(over="ignore"):
            total = value / lambda_ + count * self.smoothing.sigma**power
            squares = count ** max(0.0, 1 - 2 / power) * np.power(total, 2 / power)
            farthest = np.linalg.norm(V[:-1]) + np.sqrt(squares / self.k)
            strong = np.vdot(gradient, gradient) / (4 * ridge)
            mixed = np.linalg.norm(gradient[:-1]) * farthest
            mixed += gradient[-1] @ gradient[-1] / (4 * ridge)
        return float(min(strong / value, mixed / value, 1.0)) if value > 0 else 0.0


class Pairs:
    """lambda sum_{k<l} r(w_k - w_l), its gradient and second derivatives, at one W.

    With D_kl = |w_k - w_l|^2 + sigma^2, the gradient is the Laplacian of the graph of
    the classes with edge weights lambda p D^(p/2 - 1), applied to W.
    """

    def __init__(self, W: np.ndarray, parameters: M3SVMParameters, sigma: float):
        self._W, self._sigma = W, sigma
        self._lambda, self._p = parameters.lambda_, parameters.power
        gram = W.T @ W
        squares = np.diag(gram)
        self._D = np.maximum(squares[:, None] + squares - 2 * gram, 0.0) + sigma**2
        np.fill_diagonal(self._D, 0.0)

    @cached_property
    def first(self) -> np.ndarray:
        """lambda p D^(p/2 - 1), shape (k, k), zero on the diagonal."""
        edges = self._lambda * self._p * self._to_the(self._p / 2 - 1)
        np.fill_diagonal(edges, 0.0)
        return edges

    @cached_property
    def second(self) -> np.ndarray:
        """lambda p (p - 2) D^(p/2 - 2), shape (k, k), zero on the diagonal.

        Where two classes coincide it only ever multiplies zeros, and is zero. For p < 1 it is
        left out: D^(p/2) is concave in D, so that the first part alone bounds r from above.
        """
        if self._p < 1:
            return np.zeros_like(self._D)
        with np.errstate(over="ignore", invalid="ignore"):
            return self._lambda * self._p * (self._p - 2) * self._to_the(self._p / 2 - 2)

    def _to_the(self, exponent: float) -> np.ndarray:
        if exponent == 0:
            return np.ones_like(self._D)
        powers, is_apart = np.zeros_like(self._D), self._D > 0
        with np.errstate(over="ignore"):
            powers[is_apart] = self._D[is_apart] ** exponent
        return powers

    def value(self) -> float:
        with np.errstate(over="ignore"):
            powers = self._D ** (self._p / 2) - (self._sigma**2) ** (self._p / 2)
        np.fill_diagonal(powers, 0.0)
        return float(self._lambda * powers.sum() / 2)

    def gradient(self) -> np.ndarray:
        """Shape of W."""
        return _laplacian(self.first, self._W)

    def product(self, U: np.ndarray) -> np.ndarray:
        """The Hessian times a direction of the shape of W."""
        cross = self._W.T @ U
        own = np.diag(cross)
        turned = self.second * (own[:, None] + own - cross - cross.T)
        return _laplacian(self.first, U) + _laplacian(turned, self._W)

    def diagonal(self) -> np.ndarray:
        """The diagonal of the Hessian, shape of W."""
        W, E = self._W, self.second
        bent = W * W * E.sum(axis=0) - 2 * W * (W @ E) + (W * W) @ E
        return np.maximum(self.first.sum(axis=0) + bent, 0.0)

    def bends(self, a: int) -> tuple[np.ndarray, float]:
        """V, shape (k, d), and c, such that V'V + c I is the block of a class, or above it."""
        rows = np.sqrt(np.maximum(self.second[a], 0.0))[:, None] * (self._W[:, a] - self._W.T)
        return rows, float(self.first[a].sum())

    def block(self, a: int, b: int) -> np.ndarray:
        """How the pair of classes a and b bends: shape (d, d)."""
        difference = self._W[:, a] - self._W[:, b]
        block = self.second[a, b] * np.outer(difference, difference)
        block.flat[:: len(block) + 1] += self.first[a, b]
        return block


def _laplacian(edges: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Column k is sum_l edges_kl (w_k - w_l); edges symmetric with a zero diagonal."""
    return W * edges.sum(axis=0) - W @ edges


class Star:
    """Second derivatives of a loss that compares the example's class with each other one.

    sum_{l != y_i} omega_il (e_y - e_l)(e_y - e_l)' for example i; omega has shape (m, k)
    and is zero at the example's class.
    """

    def __init__(self, omega: np.ndarray, target: np.ndarray):
        self.omega, self.target, self._rows = omega, target, np.arange(len(target))

    def part(self, rows) -> Star:
        return Star(self.omega[rows], self.target[rows])

    def diagonal(self) -> np.ndarray:
        """Shape (m, k)."""
        diagonal = self.omega.copy()
        diagonal[self._rows, self.target] = self.omega.sum(axis=1)
        return diagonal

    def product(self, T: np.ndarray) -> np.ndarray:
        """Times a change T of the scores, shape (m, k)."""
        product = self.omega * (T - T[self._rows, self.target][:, None])
        product[self._rows, self.target] = -product.sum(axis=1)
        return product

    def between(self, a: int, b: int):
        """The examples that couple classes a and b, and how much."""
        rows = np.flatnonzero((self.target == a) | (self.target == b))
        other = np.where(self.target[rows] == a, b, a)
        return rows, self.omega[rows, other]


class Simplex:
    """Second derivatives of softmax: u (diag(p) - p p') for every example."""

    def __init__(self, p: np.ndarray, weight: np.ndarray):
        self._p, self._weight, self._weighted = p, weight, p * weight[:, None]

    def part(self, rows) -> Simplex:
        return Simplex(self._p[rows], self._weight[rows])

    def diagonal(self) -> np.ndarray:
        return self._weighted * (1 - self._p)

    def product(self, T: np.ndarray) -> np.ndarray:
        return self._weighted * (T - (self._p * T).sum(axis=1)[:, None])

    def between(self, a: int, b: int):
        return slice(None), self._weighted[:, a] * self._p[:, b]


class _Comparing:
    """A loss of the differences z_il between f_l and the score of the example's class."""

    def __init__(self, target: np.ndarray, weight: np.ndarray):
        self.target, self.weight = target, weight
        self._rows = np.arange(len(target))

    def differences(self, scores: np.ndarray) -> np.ndarray:
        """f_l - f_{y_i}, shape (m, k)."""
        return scores - scores[self._rows, self.target][:, None]

    def without_own(self, values: np.ndarray) -> np.ndarray:
        """The values, overwritten by zero at the example's class."""
        values[self._rows, self.target] = 0.0
        return values

    def balanced(self, slopes: np.ndarray) -> np.ndarray:
        """Weighted derivatives by f_l, l != y; that by f_y makes their sum zero."""
        slopes = self.without_own(slopes * self.weight[:, None])
        slopes[self._rows, self.target] = -slopes.sum(axis=1)
        return slopes


class Hinge(_Comparing):
    """The smoothed hinge of M3SVM."""

    def root(self, scores: np.ndarray, delta: float):
        """z = 1 - f_y + f_l and sqrt(z^2 + delta^2)."""
        z = self.differences(scores) + 1.0
        return z, np.hypot(z, delta)

    def value(self, scores: np.ndarray, delta: float) -> float:
        z, q = self.root(scores, delta)
        # (z + q) / 2 without cancellation for z < 0.
        positive = np.where(z > 0, (z + q) / 2, delta**2 / (2 * (q + np.abs(z))))
        return float(self.weight @ self.without_own(positive).sum(axis=1))

    def slopes(self, scores: np.ndarray, delta: float) -> np.ndarray:
        z, q = self.root(scores, delta)
        slopes = np.where(z > 0, (1 + z / q) / 2, delta**2 / (2 * q * (q + np.abs(z))))
        return self.balanced(slopes)

    def curvature(self, scores: np.ndarray, delta: float) -> Star:
        _z, q = self.root(scores, delta)
        omega = self.weight[:, None] * (delta**2 / 2) / q**3
        return Star(self.without_own(omega), self.target)


class Pairwise(_Comparing):
    """The pairwise logistic loss, eq. (32) of the paper; delta is not used."""

    def value(self, scores: np.ndarray, delta: float) -> float:
        values = np.logaddexp(0.0, self.differences(scores))
        return float(self.weight @ self.without_own(values).sum(axis=1))

    def slopes(self, scores: np.ndarray, delta: float) -> np.ndarray:
        return self.balanced(expit(self.differences(scores)))

    def curvature(self, scores: np.ndarray, delta: float) -> Star:
        z = self.differences(scores)
        omega = self.weight[:, None] * expit(z) * expit(-z)
        return Star(self.without_own(omega), self.target)


class Softmax(_Comparing):
    """The softmax loss, which the authors' script minimises; delta is not used."""

    def value(self, scores: np.ndarray, delta: float) -> float:
        return float(self.weight @ logsumexp(self.differences(scores), axis=1))

    def slopes(self, scores: np.ndarray, delta: float) -> np.ndarray:
        return self.balanced(self._shares(scores))

    def curvature(self, scores: np.ndarray, delta: float) -> Simplex:
        return Simplex(self._shares(scores), self.weight)

    def _shares(self, scores: np.ndarray) -> np.ndarray:
        z = self.differences(scores)
        return np.exp(z - logsumexp(z, axis=1)[:, None])


_LOSSES = {"hinge": Hinge, "pairwise": Pairwise, "softmax": Softmax}
