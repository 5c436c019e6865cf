"""LDM where numbers are hard: slow descent, wide data, indefinite kernels, overflow, rounding."""

import numpy as np
import pytest
from ldm_problems import SOLVERS, assert_confirmed, certificate
from problems import allowed, distance, examples, linearly_scaled_heart
from test_indefinite import indefinite_problem

from odmtool import messages, solvers
from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.errors import DivergedError, UsageError
from odmtool.judge import binary as objective
from odmtool.machines import LDM
from odmtool.solvers import indefinite
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.ldm import dense as ldm_dense
from odmtool.solvers.ldm import descent as ldm
from odmtool.solvers.ldm import newton as ldm_newton


@pytest.mark.parametrize("kernel", [None, Kernel("rbf", 1 / 13)])
@pytest.mark.parametrize("setting", [(16.0, 16.0, 256.0), (16.0, 16.0, 4096.0)])
def test_newton_goes_on_where_coordinate_descent_is_slow(kernel, setting):
    X, y = linearly_scaled_heart()
    gram = None if kernel is None else Gram(kernel, X)
    p = Problem(X, gram, np.where(y > 0, 1.0, -1.0), np.ones(len(y)), losses.ldm(*setting, len(y)))
    slow = ldm.solve(p, Stop(1e-8, 50 if kernel is None else 10))
    assert not slow.converged and slow.gap > 1e-5
    solution = ldm_newton.solve(p, Stop(1e-8, 100), start=slow.eta)
    assert_confirmed(p, solution, 1e-8)
    dense = ldm_dense.solve(p, Stop(1e-5, 20000))
    assert dense.converged
    assert distance(p, dense, solution) <= allowed(dense, solution)


def test_wide_linear_data():
    X = np.random.default_rng(0).uniform(0, 1, (40, 300))
    y = np.where(X[:, 0] > 0.5, 1.0, -1.0)
    p = Problem(X, None, y, np.ones(40), losses.ldm(4.0, 1.0, 64.0, 40.0))
    for module in SOLVERS.values():
        assert_confirmed(p, module.solve(p, Stop(1e-7, 50000)), 1e-7)


def test_large_kernel_values():
    X, y = examples()
    gram = Gram(Kernel("poly", 1.0, 1.0, 3), X * 10)
    p = Problem(None, gram, y, np.ones(60), losses.ldm(16.0, 1.0, 64.0, 60.0))
    solution = ldm_newton.solve(p, Stop(1e-7, 1000))
    assert_confirmed(p, solution, 1e-7)


@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_large_features_of_few_examples(kernel):
    """With a kernel nearly all digits are lost; it was an error, of an overflow that was none."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)) * (1e6 if kernel == "linear" else 1e3)
    labels = np.where(X[:, 0] + X.std() / 2 * rng.normal(size=60) > 0, 1, 0)
    machine = LDM(kernel=kernel, gamma=1.0, max_iter=100).fit(X, labels)
    solution, p = machine.solution_, machine.prepare(X, labels)
    problem = Problem(p.rows, p.gram, p.y, p.u, machine.loss(p.total_weight))
    verdict = certificate(problem, solution)
    assert verdict.gap <= solution.gap * (1 + 1e-6)
    assert solution.primal <= machine.lambda_
    assert solution.converged == (kernel == "linear")


def indefinite_ldm(mu1, lambda_=12.0):
    p = indefinite_problem(1.0)
    return p._replace(loss=losses.ldm(mu1, 1.0, lambda_, 40))


def test_indefinite_kernel():
    p = indefinite_ldm(mu1=2.0)
    eigenvalue = indefinite.smallest_eigenvalue(p.gram.matrix())
    assert eigenvalue == pytest.approx(-1)
    for module in (ldm_newton, ldm_dense):
        with pytest.raises(UsageError, match="eigenvalue"):
            module.solve(p, Stop(1e-6, 100))
    solution = ldm.solve(p, Stop(1e-6, 20000))
    # A stationary point: the judge agrees on its gap.
    K = p.gram.matrix()
    judged = objective.certify_kernel(K, p.y, p.weight, p.loss, solution.coef, solution.eta)
    assert solution.converged and judged.gap == pytest.approx(solution.gap, abs=1e-12)


def test_divergence_is_seen():
    # Bounded only for c = mu1 / 20 < 1 / 1.
    with pytest.raises(DivergedError, match="unbounded"):
        ldm.solve(indefinite_ldm(mu1=200.0), Stop(1e-3, 100000))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kernel", [None, Kernel("poly", 1.0, 0.0, 3), Kernel("linear")])
@pytest.mark.filterwarnings("ignore:overflow")
def test_overflow_is_an_error(kernel, solver):
    X = np.array([[1e160, 0.0], [-1e160, 3.0], [0.0, 5.0]])
    y = np.array([1.0, -1.0, 1.0])
    gram = None if kernel is None else Gram(kernel, X)
    p = Problem(X, gram, y, np.ones(3), losses.ldm(1.0, 1.0, 1.0, 3))
    with pytest.raises(DivergedError) as caught:
        SOLVERS[solver].solve(p, Stop(1e-3, 100))
    assert caught.value.message == messages.overflow()


def test_an_indefinite_kernel_is_never_called_optimal():
    p = indefinite_ldm(mu1=2.0)
    for solver in ("auto", "dcd"):
        assert not solvers.solve(p, solver=solver, tolerance=1e-4).optimal
    for solver in ("newton", "dcd-dense"):
        with pytest.raises(UsageError, match="eigenvalue"):
            solvers.solve(p, solver=solver)


def test_features_of_very_different_scales_do_not_make_it_diverge():
    """An epoch for each b raised P to 1e190 and more on such data."""
    X, y = examples()
    X = X.toarray() * 10.0 ** np.arange(7) + 300.0
    loss = losses.ldm(1.0, 1.0, 16.0, 60)
    p = Problem(X, None, y, np.ones(60), loss)
    solution = ldm.solve(p, Stop(1e-3, 400))
    at_zero = 16.0
    assert np.isfinite(solution.primal) and solution.primal <= at_zero
    exact = ldm_newton.solve(p, Stop(1e-6, 200))
    assert exact.converged and exact.primal <= solution.primal * (1 + 1e-9)


def test_rounding_does_not_keep_newton_going_round():
    rows = [(70669031.3251521, 0.8437926222446576), (3053447.4937409796, 0.8993933116527743),
            (62245206.08976366, 0.3165291542410674), (43176562.289240815, 0.761592993501026)]
    X, y = np.array(rows), np.array([1.0, -1.0, 1.0, -1.0])
    problem = Problem(X, None, y, np.ones(4), losses.ldm(1.0, 1.0, 1024.0, 4.0))
    solution = solvers.solve(problem, solver="newton", max_iter=50)
    assert not solution.converged and solution.iterations <= 50


def test_a_mean_margin_may_overflow():
    """Of an indefinite kernel, where coordinate descent then says that there is no solution."""
    row = losses.ldm_row(losses.ldm(1.0, 1.0, 1.0, 4.0), -1e200)
    assert row.slope_below == 0.5 and losses.value(row, np.array([0.0]))[0] == np.inf
