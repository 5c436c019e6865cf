"""Problems of mcODM, their solutions, and the judge's verdict."""

import numpy as np
import pytest
from problems import KERNELS, judged_matrix, precomputed_rows
from scipy import sparse

from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.judge import mcodm as objective_multi
from odmtool.solvers.base import Stop
from odmtool.solvers.mcodm import auto as mcodm
from odmtool.solvers.multi import Duals, MultiProblem


def examples(m=60, d=6, k=4, seed=0):
    """X (CSR, with an empty row and an empty column) and target with ties between classes."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((m, d)) * (generator.random((m, d)) < 0.7)
    X[3 % m], X[:, d - 1] = 0, 0
    scores = X @ generator.standard_normal((d, k)) + 0.7 * generator.standard_normal((m, k))
    return sparse.csr_matrix(X), scores.argmax(axis=1)


def problem(
    kernel=None, weight=None, dense=False, lambda_=2.0**5, k=4, memory=np.inf, mu=0.5, m=60,
    loss_of=None,
):  # fmt: skip
    """A problem of mcODM, or with the loss of another machine by lambda and the weights' sum."""
    X, target = examples(k=k, m=m)
    weight = np.ones(m) if weight is None else weight
    total = weight.sum()
    loss = loss_of(lambda_, total) if loss_of else losses.mcodm(lambda_, mu, 0.3, total)
    if kernel == "precomputed":
        X = precomputed_rows(X)
    X = X.toarray() if dense else X
    if kernel is None:
        return MultiProblem(X, None, target, k, weight, loss)
    chosen = Kernel("precomputed") if kernel == "precomputed" else KERNELS[kernel]
    return MultiProblem(None, Gram(chosen, X, memory), target, k, weight, loss)


def solve(p, tolerance=1e-3, max_iter=20000, **arguments):
    return mcodm.solve(p, Stop(tolerance, max_iter), **arguments)


def certificate(p, solution, judge=objective_multi):
    """The opinion of the machine's judge; it knows the data, not the solver's matrices."""
    known = p.target, p.weight, p.parameters
    if p.gram is None:
        return judge.certify_linear(p.X, *known, solution.W, solution.duals)
    return judge.certify_kernel(judged_matrix(p.gram), *known, solution.coef, solution.duals)


def assert_confirmed(p, solution, tolerance):
    judged = certificate(p, solution)
    assert solution.converged and not solution.optimal
    assert solution.gap <= tolerance
    # What rounding may hide is added.
    assert -1e-12 <= solution.gap - judged.gap <= 1e-9
    assert judged.objective == pytest.approx(solution.objective, rel=1e-11)
    # P touches F at W: the certificate is one of stationarity.
    assert judged.primal == pytest.approx(judged.objective, rel=1e-11)
    assert judged.infeasibility <= 1e-13 * max(1.0, abs(solution.duals.alpha).max())


def never_rises(solution):
    course = [r.objective for r in solution.rounds]
    return all(after <= before for before, after in zip(course, course[1:], strict=False))


def nothing(p):
    m, k = p.size, p.k
    return Duals(np.zeros((m, k)), np.zeros(m), np.full(m, -1), np.full(m, np.inf))
