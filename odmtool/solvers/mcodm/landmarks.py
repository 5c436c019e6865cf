"""mcODM with a kernel in the span of landmarks, certified for the full problem.

Problem     that of :mod:`odmtool.solvers.mcodm.rounds` for many examples and a kernel that is
            positive semidefinite.
Method      :mod:`odmtool.solvers.engine.span`; the rounds solve the linear problem on features.
Certificate that of the last round's sub-problem, whose duals C and W give

                P(W) - D = 1/2 sum_l |w_l - v_l|^2  +  L(f) + sum_il C_il f_l(x_i) - (D + |V|^2 / 2)

            with L the sum of the losses and v_l = sum_i C_il phi(x_i).
Otherwise   coordinate descent on kernel values, from the duals so far.
Stop        that of the rounds, with the bound as the gap.
"""

from __future__ import annotations

import numpy as np

from odmtool.rows.executor import Serial
from odmtool.solvers.base import ProgressCallback, Stop, relative
from odmtool.solvers.engine import certificate
from odmtool.solvers.engine.certificate import SpanPoint
from odmtool.solvers.engine.choice import Choice
from odmtool.solvers.engine.features import Basis, Features
from odmtool.solvers.engine.span import SpanRun
from odmtool.solvers.mcodm import rounds
from odmtool.solvers.mcodm.terms import evaluate
from odmtool.solvers.mcodm.way import Way, for_rounds
from odmtool.solvers.multi import Duals, MultiProblem, MultiSolution

# Epochs in the span before Newton's method.
# speed only: where Newton's method begins
_EPOCHS = 50


def solve(
    problem: MultiProblem, stop: Stop, *, seed: int, start: Duals | None,
    progress: ProgressCallback, executor: Serial | None = None,
) -> MultiSolution:  # fmt: skip
    """Find a nearly stationary point; parameters as in :func:`odmtool.solvers.mcodm.rounds.solve`.

    ``coef`` is nonzero for landmarks only, unless they were not enough. ``gap`` is then a bound,
    ``failure`` the probability with which it may be wrong.
    """
    run = _Run(problem, stop, seed, progress, executor)
    found, duals = run.in_span(start)
    return found or run.rounds(problem, duals, for_rounds(problem))


class _Run(SpanRun):
    """One problem on its way."""

    def solve_sample(self, Z, rows: np.ndarray, stop: Stop, duals):
        problem = self.problem
        share = problem.weight.sum() / problem.weight[rows].sum()
        sample = problem._replace(
            X=Z, gram=None, target=problem.target[rows], weight=problem.weight[rows] * share
        )
        way = Way(np.inf)
        solution = rounds.solve(
            sample, stop, way, starts=1, seed=self.seed, start=duals,
            executor=self.points.executor,
        )  # fmt: skip
        return solution.duals, solution.duals.coefficients(sample.target), solution.objective

    def solve_inside(self, Z: np.ndarray, duals, tolerance: float):
        inside = self.problem._replace(X=Z, gram=None)
        way = Way(max(_EPOCHS, for_rounds(inside).epochs))
        solution = self.rounds(inside, duals, way, tolerance)
        return solution, solution.duals

    def rounds(self, problem, start, way: Way, tolerance=None) -> MultiSolution:
        """Solve a problem by rounds, counting iterations on."""
        limit = max(0, self.stop.limit - self.iterations)
        stop = Stop(self.stop.tolerance if tolerance is None else tolerance, limit)
        progress = self.counted(problem.gram)
        solution = rounds.solve(
            problem, stop, way, starts=1, seed=self.seed, start=start, progress=progress,
            executor=self.points.executor,
        )  # fmt: skip
        self.iterations += solution.iterations
        return solution._replace(iterations=self.iterations)

    def certified(self, solution, basis: Basis, found: Features, choice: Choice) -> MultiSolution:
        problem, duals = self.problem, solution.duals
        C, none = duals.coefficients(problem.target), np.zeros(problem.k)
        points = certificate.located(basis, solution.W, lambda part, f: (C[part], none, none))
        scores = np.column_stack([point.f for point in points])
        terms = evaluate(problem, duals, scores)
        objective = sum(point.norm for point in points) / 2 + terms.true_loss
        own = max(terms.relaxed_loss + float(np.vdot(C, scores)) - terms.dual_terms, 0.0)
        own += self._rounding(basis, points, scores, terms, duals)
        outside, failure = self.outside(
            points, basis, found.left, self.stop.tolerance * objective - own, choice
        )
        gap = relative(own + outside, objective)
        coef = np.zeros((problem.size, problem.k))
        coef[basis.members] = np.column_stack([point.alpha for point in points])
        return solution._replace(
            W=None, coef=coef, objective=objective, gap=gap, solver="landmarks", failure=failure,
            converged=solution.converged and gap <= self.stop.tolerance,
            support_count=int(np.count_nonzero(coef.any(axis=1))),
        )  # fmt: skip

    def _rounding(self, basis, points: list[SpanPoint], scores, terms, duals) -> float:
        """What errors of the scores can do to the losses and to sum_il C_il f_l(x_i)."""
        problem, loss = self.problem, self.problem.parameters
        most = float(certificate.margin_errors(basis, points).max(initial=0.0))
        examples = np.arange(problem.size)
        own = scores[examples, problem.target]
        against = np.where(duals.rival >= 0, scores[examples, duals.rival], 0.0)
        slopes = 2 * loss.c1 * np.maximum(0.0, 1 - loss.theta - own + terms.best)
        slopes += 2 * loss.c2 * np.maximum(0.0, own - against - duals.upper)
        steepest = (loss.c1 + loss.c2) * problem.weight.sum()
        size = sum(np.abs(point.a).sum() for point in points)
        return float(most * (size + 2 * (problem.weight @ slopes)) + (2 * most) ** 2 * steepest)
