"""Semismooth Newton method on smoothed sub-problems of mcODM, for a linear problem.

Problem     one round of :mod:`odmtool.solvers.mcodm.rounds`, whose loss from below has kinks where
            scores of two classes tie. It is smoothed around the present alpha = a
            (:mod:`odmtool.solvers.mcodm.hessian`): 1/2 |W|^2 + sum_i h_i(x_i W) + b_i(x_i W)
            is piecewise quadratic with a continuous derivative.
Update      Newton steps with a line search until the smoothed problem is solved more precisely
            than it resembles the other: the gap P - D is 1/2 |gradient|^2 and the rest, which
            is due to the smoothing; a share of the rest must exceed the first part, or what the
            last step promised to lower the smoothed problem by. Where the rest is within the
            tolerance, promises do not count if steps are exact, if the first part has exceeded P,
            or if F has hardly fallen in the last round: steps that solve the smoothed problem cost
            less than all that follows a proof that is missed, and on rows of large numbers every
            proof would be missed. Nor do they count where the gap has not fallen for many steps:
            points that promise little may have long gradients, and centres made of these may lead
            nowhere (60 classes of 2 examples, 5 features: not in 2000 steps).
            Then the maximisers alpha are the next centre: a proximal point step in the dual, that
            is an augmented Lagrangian method. The smoothing rho is halved when one step was enough,
            doubled after many.
Rivals      Where they may, the constraints from above take after every step the best classes of the
            new scores. That raises nothing, and a problem solved for the rivals of a round's first
            point is work that the next round undoes.
Line search the whole step if it lowers the smoothed problem enough, else where its slope, which
            grows along the step, is near 0, by secants that are kept from one end (Dowell &
            Jarratt 1971, "Illinois"): large features make steps that are far too long. Or it is
            halved until the problem is lower: for small problems of few unknowns, where sums cost
            nothing and ends are as low or lower.
Equations   (I + sum_i H_i (x) x_i x_i') S = gradient: exactly, where the Hessian is soon made and
            factored. Less smoothing is then better. Elsewhere by conjugate gradients,
            preconditioned by an earlier Hessian where d k is small, else by its d x d blocks of
            the classes where those are small, else, of an array, by those of the features that
            are largest (the first ones of a kernel say nearly all), and by its diagonal.
Deadline    ends the making of a Hessian, and after it conjugate gradients, with the direction that
            they have. What is left is the point where F was lowest.
Stop        the caller's business, on the gap P(W) - D(alpha, beta) of the true sub-problem.
Source      Li, Sun & Toh, "A highly efficient semismooth Newton augmented Lagrangian method
            for solving Lasso problems", SIAM J. Optim. 2018, carried over to mcODM.
"""

from __future__ import annotations

import contextlib

import numpy as np
from numpy.linalg import LinAlgError

from odmtool.core import deadline
from odmtool.solvers.base import SUFFICIENT_DECREASE, relative
from odmtool.solvers.mcodm.terms import Terms, best_others, evaluate
from odmtool.solvers.multi import LARGEST_BLOCKS, Duals, MultiProblem
from odmtool.solvers.newton.factor import cholesky_in_place, cholesky_solve, conjugate_gradients
from odmtool.solvers.newton.hessian import regularised_gram

# Where some examples weigh a million times what others do, a step of 1e-7 may be all that leads
# down; shorter ones than this are rounding.
_SHORTEST_STEP = 1e-10
# A W with a larger F than 0 has is halved so often at most.
_HALVINGS = 30
# A line search ends where the slope is this share of the first one, or lower after so many trials.
# speed only: the gap decides when it ends, not where a step ended
_FLAT, _TRIALS = 0.5, 5
# The secant's place in the interval, at least and at most.
# speed only: the gap decides when it ends, not where a step ended
_PLACES = (0.03, 0.5)
_ROUNDING = 1e-15
# speed only: the gap decides when it ends, not how precise a step was
_LOOSE = 0.2
# Gradients of large features are long in few directions: a step that sees to these lowers little.
# speed only: the gap decides when it ends, not how precise a step was
_SHARE = 0.5
# speed only: a step that took all of them is as good as any, and the gap decides
_MOST_PRODUCTS, _PRODUCTS_PER_UNKNOWN = 1000, 4
# The blocks of the largest features have so many numbers where those of all would have too many.
# speed only: a worse preconditioner only takes more products
_LARGEST_STEEP = 2e6
# They are worth it where they have this share of all squares, as those of a kernel do.
# speed only: as above
_SAID = 0.5
# A factor is used again until conjugate gradients with it take more than so many products.
# speed only: an old factor only takes more products
_PATIENCE = 6
# What a smoothed problem's solution lacks, against what the smoothing costs, when it is solved.
_SOLVED = 0.3
_MANY_STEPS = 4
_RHO = (1e-3, 1.0, 3.0)
"""Least, first and largest smoothing."""
_EXACT_RHO = 0.1
"""First smoothing where steps are exact."""


class SmoothedNewton:
    """The state: W, shape (d, k), scores, shape (m, k), duals and the centre of smoothing.

    ``_dual_W`` is the W that the duals make; W less it is the smoothed problem's gradient. What
    goes over the examples is in :mod:`odmtool.solvers.mcodm.hessian`.
    """

    # Whether the Hessian is factored for every step.
    is_exact = False
    # Whether unknowns are many, and examples for the features.
    is_large = False
    # Whether a line search halves steps that are too long.
    halves = False
    # Whether its first W does for naming rivals.
    names_rivals = False

    def __init__(self, problem: MultiProblem, duals: Duals, W: np.ndarray, tolerance: float):
        self.problem, self.duals, self.W, self._tolerance = problem, duals, W, tolerance
        self._X, self._target = problem.X, problem.target.astype(np.int64)
        self._rho, self._steps, self._gap = _EXACT_RHO if self.is_exact else _RHO[1], 2, np.inf
        self.release()
        self._dual_W, self._scores = np.empty_like(W), self._product(W)
        self._centre = np.empty_like(self._scores)
        self._first_W, self._lowest_W, self._lowest = W, W, np.inf
        self._must_prove = self._must_solve = self._follows = False
        # A first gap may be asked for before a step.
        self._rebuild_dual_weights()

    @property
    def active(self) -> int:
        """Examples whose loss is not flat."""
        raise NotImplementedError

    def rivals_changed(self, examples: np.ndarray, before: np.ndarray) -> None:
        """Take the betas of these examples to other columns; W does not depend on them."""
        raise NotImplementedError

    def _product(self, W: np.ndarray) -> np.ndarray:
        """The scores of W."""
        raise NotImplementedError

    def _rebuild_dual_weights(self) -> None:
        raise NotImplementedError

    def _smooth(self) -> None:
        """What the losses need of a new centre or rho."""
        raise NotImplementedError

    def _losses(self, change: np.ndarray, step: float) -> float:
        """Set alpha and beta from the scores less step * change; the sum of smoothed losses."""
        raise NotImplementedError

    def _hessian_times(self, V: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _hessian(self) -> np.ndarray | None:
        """The lower triangle of the Hessian, class by class.

        None if it is too large, or when the time is over.
        """
        raise NotImplementedError

    def _hessian_weights(self) -> np.ndarray:
        """The diagonals of the H_i, shape (m, k)."""
        raise NotImplementedError

    def _has_few_duals(self) -> bool:
        """Whether the system is solved among the duals that are not at a bound."""
        raise NotImplementedError

    def terms(self) -> Terms:
        """Of the present point."""
        return evaluate(self.problem, self.duals, self._scores)

    def scores(self) -> np.ndarray:
        """f_l(x_i), shape (m, k)."""
        return self._scores

    def squared_norm(self) -> float:
        return float(np.vdot(self.W, self.W))

    def dual_squared_norm(self) -> float:
        """|W|^2 of the W that the duals make; that of the primal point differs."""
        return float(np.vdot(self._dual_W, self._dual_W))

    def keep(self) -> np.ndarray:
        """The primal point, which steps replace but do not change."""
        return self.W

    def point(self, kept: np.ndarray) -> np.ndarray:
        """The W that was kept."""
        return kept

    def compare(self, _terms: Terms) -> None:
        """Nothing is left out."""

    def release(self) -> None:
        """Let go of the factors, which are large and for further steps only."""
        # speed only: when a preconditioner is made anew
        self._precondition, self._products, self._patience = None, 1, 0
        self._divides = self._is_spoilt = False
        self._steep = None

    def settle(self) -> None:
        """Undo the rounding errors of increments, which at large lambda exceed F's last falls.

        After the deadline go back to where F was lowest: steps may raise it, which others after
        them would have made good.
        """
        if deadline.is_over():
            self.W = min(self._lowest_W, self._first_W, key=self._true_value)
            zero, halvings = self._true_value(np.zeros_like(self.W)), 0
            # A shorter W answers the same and costs less.
            while self._true_value(self.W) > zero and halvings < _HALVINGS:
                self.W, halvings = self.W / 2, halvings + 1
        self._scores[:] = self._product(self.W)

    def _true_value(self, W: np.ndarray) -> float:
        """F at W."""
        terms = evaluate(self.problem, self.duals, self._product(W))
        return float(np.vdot(W, W)) / 2 + terms.true_loss

    def begin(
        self, _tolerance: float, is_settled: bool = False, follows: bool = False,
        is_in_vain: bool = False,
    ) -> None:  # fmt: skip
        """Smooth around the present alpha; where F is settled, promises do not count.

        ``follows`` says whether rivals are the best classes of every new point, ``is_in_vain``
        whether the gap has not fallen for many steps.
        """
        least, _first, most = _RHO
        if self._steps <= 1:
            self._rho = max(least, self._rho / 2)
        elif self._steps >= _MANY_STEPS:
            self._rho = min(most, self._rho * 2)
        self._steps, self._must_prove = 0, self.is_exact or is_settled
        self._follows, self._must_solve = follows, is_in_vain
        self._centre[:] = self.duals.alpha
        self._smooth()
        self._value = self._smoothed(self.W, self._scores, 0.0)
        self._rebuild_dual_weights()

    def iterate(self) -> tuple[float, bool]:
        """One Newton step; the relative gap, and whether the smoothed problem is solved.

        It is where the step leads nowhere: rounding is all that is left.
        """
        self._steps += 1
        gradient = self.W - self._dual_W
        direction = self._direction(gradient)
        change, slope = self._product(direction), -float(np.vdot(gradient, direction))
        W, step, value = self._along(direction, change, slope)
        if step:
            change *= step
            self._scores -= change
            self.W, self._value = W, value
        else:
            self._smoothed(self.W, change, 0.0)
        best = best_others(self._scores, self._target)
        self._follow(best[1])
        self._rebuild_dual_weights()
        is_solved = self._is_solved(evaluate(self.problem, self.duals, self._scores, best), slope)
        return self._gap, is_solved or not step

    def _follow(self, rival: np.ndarray) -> None:
        """Take the best classes for rivals, where that is allowed."""
        if not self._follows:
            return
        moving = np.flatnonzero((self.duals.rival != rival) & (self.duals.rival >= 0))
        self.duals.rival[moving] = rival[moving]
        # Where a beta is 0 it would be so for the best class.
        if np.any(self.duals.beta[moving] > 0):
            self._value = self._smoothed(self.W, self._scores, 0.0)

    def _is_solved(self, terms: Terms, slope: float) -> bool:
        """Whether the smoothed problem is, after a step with this slope; finds the gap, too."""
        gradient, half = self.W - self._dual_W, self.squared_norm() / 2
        if half + terms.true_loss < self._lowest:
            self._lowest, self._lowest_W = half + terms.true_loss, self.W
        primal = half + terms.relaxed_loss
        gap = primal + self.dual_squared_norm() / 2 - terms.dual_terms
        unsolved = float(np.vdot(gradient, gradient)) / 2
        smoothing = gap - unsolved
        is_solved = unsolved <= max(_SOLVED * smoothing, _ROUNDING * primal)
        self._must_prove |= unsolved > primal
        may_promise = not self._must_prove or smoothing > self._tolerance * primal
        if may_promise and not self._must_solve:
            is_solved |= -slope / 2 <= _SOLVED * smoothing
        self._gap = relative(gap, primal)
        return is_solved

    def _along(self, direction, change, slope: float) -> tuple[np.ndarray, float, float]:
        """Where a line search ends, its step, and the smoothed problem there.

        The step is 0, from the present point, where rounding is all that is left.
        """
        low, low_slope, high, high_slope = 0.0, slope, np.inf, np.inf
        step, trials = 1.0, 0
        while step >= _SHORTEST_STEP:
            W, trials = self.W - step * direction, trials + 1
            value = self._smoothed(W, change, step)
            is_lower = value <= self._value + SUFFICIENT_DECREASE * step * slope
            if is_lower and step == 1:
                return W, step, value
            if self.halves:
                if is_lower:
                    return W, step, value
                step /= 2
                continue
            rise = self._slope(direction, change, W)
            if is_lower and (abs(rise) <= -_FLAT * slope or trials >= _TRIALS):
                return W, step, value
            if is_lower and rise < 0:
                low, low_slope, high_slope = step, rise, high_slope / 2
            else:
                # An end that stays counts half as much as the time before.
                low_slope = low_slope / 2 if high < np.inf else low_slope
                high, high_slope = step, rise
            place = low_slope / (low_slope - high_slope) if high_slope > 0 else _PLACES[1]
            step = low + (high - low) * float(np.clip(place, *_PLACES))
        return self.W, 0.0, self._value

    def _slope(self, direction, change, W) -> float:
        """Of the smoothed problem, at W, whose duals are those of the last losses."""
        C = self.duals.coefficients(self._target)
        # Of arrays of two orders vdot makes copies.
        return float(np.einsum("il,il->", C, change) - np.vdot(direction, W))

    def _smoothed(self, W, change, step) -> float:
        """The smoothed problem at W, whose scores are the present ones less step * change."""
        return float(np.vdot(W, W)) / 2 + self._losses(change, step)

    def _direction(self, gradient: np.ndarray) -> np.ndarray:
        """S with (I + sum_i H_i (x) x_i x_i') S = gradient, nearly."""
        if self.is_exact and (divide := self._division()):
            return divide(gradient)
        length = float(np.linalg.norm(gradient))
        # speed only: the gap decides when it ends, not how precise a step was
        gap = relative(length**2 / 2, self._value)
        # speed only: the gap decides when it ends, not how precise a step was
        accuracy = length * min(_LOOSE, np.sqrt(gap))
        # speed only: when a preconditioner is made anew
        self._is_spoilt |= self._divides and self._products > _PATIENCE
        if self._products > self._patience or (self._has_few_duals() and not self._divides):
            self._precondition = self._preconditioner()
        self._products = 0

        def product(V):
            self._products += 1
            return self._hessian_times(V)

        if self._divides:
            S = self._precondition(gradient)
            # Where rounding is large it is as a preconditioner that it serves.
            if np.linalg.norm(gradient - product(S)) <= accuracy:
                return S
        # speed only: without rounding there would be no more than unknowns
        most = min(_MOST_PRODUCTS, _PRODUCTS_PER_UNKNOWN * self.W.size)
        return conjugate_gradients(
            product, gradient, self._precondition, atol=accuracy, most=most,
            share=_SHARE, is_over=lambda: self._products > 0 and deadline.is_over(),
        )

    def _division(self):
        """A function that divides by the Hessian.

        None where it is too large or singular, or there is no time to make it.
        """
        d, k = self.W.shape
        with contextlib.suppress(LinAlgError):
            if (H := self._hessian()) is not None:
                L = cholesky_in_place(H)
                return lambda V: cholesky_solve(L, V.T.ravel()).reshape(k, d).T
        return None

    def _preconditioner(self):
        """A function that divides by the Hessian or by a part of it."""
        if divide := self._division():
            self._patience = _PATIENCE
            return divide
        if deadline.is_over():
            self._patience = 0
            return lambda V: V
        weights = self._hessian_weights()
        # The losses see differences of scores only: gradients sum to 0 over the classes, and
        # the parts of the Hessian would lead out of that space.
        has_sum = bool(np.any((self.duals.rival < 0) & (self.duals.beta > 0)))

        def centred(V):
            return V if has_sum else V - V.mean(axis=1, keepdims=True)

        steep, X = self._steep_features()
        blocks = self._blocks(X, weights) if steep.size else []
        diagonal = 1.0
        if len(blocks) * steep.size < self.W.size:
            whole = self._X
            squares = whole**2 if isinstance(whole, np.ndarray) else whole.multiply(whole)
            diagonal = 1.0 + np.asarray(squares.T @ weights)
        # speed only: when a preconditioner is made anew
        self._patience = 2 * _PATIENCE if blocks else 0

        def divide(V):
            result = V / diagonal
            for j, L in enumerate(blocks):
                result[steep, j] = cholesky_solve(L, V[steep, j])
            return centred(result)

        return divide

    def _steep_features(self) -> tuple[np.ndarray, object]:
        """The features of which blocks are made, and their columns.

        All where blocks are small, else the largest of an array if they say most, or none.
        """
        X, (d, k) = self._X, self.W.shape
        if k * d * d <= LARGEST_BLOCKS:
            return np.arange(d), X
        if not isinstance(X, np.ndarray):
            return np.arange(0), X
        if self._steep is None:
            sizes, count = np.einsum("ij,ij->j", X, X), int(np.sqrt(_LARGEST_STEEP / k))
            steep = np.sort(np.argsort(-sizes, kind="stable")[:count])
            # speed only: a worse preconditioner only takes more products
            if sizes[steep].sum() < _SAID * sizes.sum():
                steep = steep[:0]
            self._steep = steep, np.ascontiguousarray(X[:, steep])
        return self._steep

    def _blocks(self, X, weights: np.ndarray) -> list[np.ndarray]:
        """The factors of the blocks of the classes; none if one fails or the time is over."""
        blocks = []
        with contextlib.suppress(LinAlgError):
            for s in weights.T:
                active = np.flatnonzero(s)
                block = regularised_gram(X, active, s, deadline.is_over)
                if block is None:
                    return []
                blocks.append(cholesky_in_place(block))
            return blocks
        return []
