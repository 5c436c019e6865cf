"""Kernel problems for the engine's tests, solutions in a span, and the judge's verdict."""

import numpy as np
from problems import examples

from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.judge.binary import certify_kernel, kernel_matrix
from odmtool.rows.executor import Serial
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.engine import certificate, choice
from odmtool.solvers.engine.columns import Columns
from odmtool.solvers.engine.features import Basis, features
from odmtool.solvers.engine.landmarks import Landmarks
from odmtool.solvers.engine.points import Points
from odmtool.solvers.engine.reduced import FeatureSpace
from odmtool.solvers.newton import newton

LOSSES = {
    "odm": lambda lambda_, total: losses.odm(lambda_, 0.3, 0.2, total),
    "l2svm": losses.l2svm,
    "lssvm": losses.lssvm,
}
KERNELS = {
    "rbf": Kernel("rbf", 0.3),
    "rbf with bias": Kernel("rbf", 0.5, bias=1.5),
    "poly": Kernel("poly", 0.3, 1.0, 3),
    "poly of degree 2 without constant": Kernel("poly", 0.5, 0.0, 2),
}


def problem_of(kernel, loss, lambda_, m=150, seed=0, weighted=False, dense=False, repeated=0):
    """A kernel problem, with ``repeated`` of its rows twice."""
    X, y = examples(m, 5, seed)
    random = np.random.default_rng(seed)
    twice = np.r_[np.arange(m), np.arange(repeated)]
    X, y = X[twice], y[twice]
    weight = random.uniform(0.1, 4.0, len(y)) if weighted else np.ones(len(y))
    X = X.toarray() if dense else X
    return Problem(None, Gram(kernel, X), y, weight, LOSSES[loss](lambda_, weight.sum()))


def points_of(problem, compiled=True):
    found = Points(problem.gram.kernel, problem.gram.X, Serial())
    found.expect(np.inf if compiled else 0)
    return found


def judged(problem, coef, eta, K=None):
    """The judge's verdict on a solution of the problem, by its own kernel matrix."""
    K = own_matrix(problem) if K is None else K
    return certify_kernel(K, problem.y, problem.weight, problem.loss, coef, eta)


def own_matrix(problem):
    return kernel_matrix(problem.gram.kernel, problem.gram.X, problem.gram.X)


def in_span(problem, r, seed=0, compiled=True):
    """The solution in the span of r landmarks: basis, what is left, evaluation and coef."""
    points = points_of(problem, compiled)
    chosen = Landmarks(points, r, seed)
    chosen.grow(r)
    members = np.array(chosen.members)
    basis = Basis(points, members, np.tril(chosen.features[members]))
    found = features(basis, certified=True)
    space = FeatureSpace(found.Z, problem.y, Serial())
    w = newton.solve(problem, Stop(1e-6, 60), space=space).w
    (point,) = certificate.evaluate(
        basis, Columns.of(problem.y[None], problem.weight, problem.loss), w[:, None]
    )
    coef = np.zeros(problem.size)
    coef[members] = problem.y[members] * point.alpha
    return chosen, basis, found, point, coef


def forced(way, monkeypatch):
    """Every problem takes this way to its certificate."""
    monkeypatch.setattr(choice, "_ways", lambda *_: [choice.Choice(way, 0.0, 100)])


def far_examples(m, far, lambda_):
    """Examples in a heap, few of them far from it and from each other."""
    random = np.random.default_rng(2)
    X = 0.05 * random.standard_normal((m, 3))
    X[random.choice(m, far, replace=False)] += random.standard_normal((far, 3))
    y = np.where(X @ [1, 0.3, 0] + 0.02 * random.standard_normal(m) > 0.02, 1.0, -1.0)
    return Problem(None, Gram(Kernel("rbf", 1.0), X), y, np.ones(m), LOSSES["odm"](lambda_, m))
