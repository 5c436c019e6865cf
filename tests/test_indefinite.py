"""Kernels with negative eigenvalues: one solution, none, or who knows."""

import json
from pathlib import Path

import mcodm_problems
import numpy as np
import pytest
from problems import problem
from scipy.sparse.linalg import ArpackNoConvergence

from odmtool import messages, solvers
from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.defaults import OUTER
from odmtool.errors import DivergedError, UsageError
from odmtool.judge import binary as judge
from odmtool.machines import LDM
from odmtool.solvers import run as solver_run
from odmtool.solvers.auto import Schedule
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.large import sodm
from odmtool.solvers.mcodm import auto as mcodm
from odmtool.solvers.mcsvm import descent as mcsvm
from odmtool.solvers.multi import MultiProblem


def indefinite_problem(lambda_):
    """A precomputed kernel with smallest eigenvalue -1."""
    generator = np.random.default_rng(5)
    basis = np.linalg.qr(generator.standard_normal((40, 40)))[0]
    eigenvalues = np.linspace(-1, 6, 40)
    K = (basis * eigenvalues) @ basis.T
    y = np.where(generator.random(40) < 0.5, 1.0, -1.0)
    gram = Gram.of_matrix(Kernel("precomputed"), (K + K.T) / 2)
    return Problem(None, gram, y, np.ones(40), losses.odm(lambda_, 0.5, 0.0, 40))


def test_indefinite_kernel_with_a_unique_solution():
    # 2 c1 = lambda / 20, so the dual is strictly concave for lambda < 20.
    p = indefinite_problem(lambda_=12.0)
    by_newton = solvers.solve(p, solver="newton", tolerance=1e-12)
    by_descent = solvers.solve(p, solver="dcd", tolerance=1e-12, max_iter=20000)
    assert by_newton.converged and by_descent.converged and by_newton.optimal
    assert by_newton.solver == "newton" and by_descent.solver == "dcd"
    assert by_newton.coef == pytest.approx(by_descent.coef, abs=1e-5)


def test_descent_comes_first_where_it_may_be_enough(monkeypatch):
    """With no more epochs than that is given; where they are not enough, Newton goes on."""
    p = indefinite_problem(lambda_=12.0)
    for epochs in (1, 20000):
        monkeypatch.setattr(solver_run, "choose", lambda *_, n=epochs: Schedule("dcd", n))
        found = solvers.solve(p, tolerance=1e-10, max_iter=20000)
        assert found.converged and found.optimal
        assert found.solver == ("dcd" if epochs > 1 else "dcd, then newton")
        assert found.iterations > 1
    alone = solvers.solve(p, solver="dcd", tolerance=1e-10, max_iter=1)
    assert (alone.solver, alone.iterations, alone.converged) == ("dcd", 1, False)


def test_a_sigmoid_is_solved_until_its_own_gap_is_small(run):
    """The gap of the shifted problem is below the tolerance after one step, when this is .03."""
    data = Path(__file__).parent.parent / "data" / "breast-cancer.train"
    scaled = run("scale", "-l", "0", data).out
    Path("wdbc").write_text(scaled)
    options = ["-t", "sigmoid", "-g", ".01", "-B", ".5", "-l", "1", "-m", ".887", "-p", ".928"]
    outcome = run("train", *options, "--json", "auto", "wdbc", "m")
    assert outcome.code == 0 and "not converged" not in outcome.err
    run("train", *options, "--solver", "dcd", "--json", "dcd", "wdbc", "m")
    auto, dcd = (json.loads(Path(name).read_text()) for name in ("auto", "dcd"))
    assert auto["gap"] <= 1e-3
    assert auto["objective"] == pytest.approx(dcd["objective"], rel=1e-3)


def test_indefinite_kernel_between_certainties_is_called_stationary():
    p = indefinite_problem(lambda_=21.0)
    with pytest.raises(UsageError, match="convex"):
        solvers.solve(p, solver="newton")
    try:
        solution = solvers.solve(p, tolerance=1e-6)
    except DivergedError:
        pytest.fail("this one has a stationary point")
    assert not solution.optimal


@pytest.mark.parametrize("solver", ["auto", "dcd", "newton"])
def test_indefinite_kernel_without_a_solution(solver):
    # The smaller slope 2 c2 is lambda / 40 > 1.
    with pytest.raises(DivergedError, match="unbounded"):
        solvers.solve(indefinite_problem(lambda_=50.0), solver=solver)


def test_mcodm_has_no_solution_where_a_row_has_a_negative_square():
    K = np.eye(6)
    K[3, 3] = -0.01
    known = Gram.of_matrix(Kernel("precomputed"), K), np.arange(6) % 3, 3, np.ones(6)
    with pytest.raises(DivergedError, match="unbounded"):
        mcodm.solve(MultiProblem(None, *known, losses.mcodm(1.0, 0.5, 0.2, 6)), Stop(1e-3, 100))


@pytest.mark.parametrize("lambda_", [1024.0, 2.0**40])
@pytest.mark.parametrize("outer", OUTER)
def test_mcodm_says_what_the_others_say(lambda_, outer):
    """Also where numbers overflow before the dual is seen to be without a bound."""
    p = indefinite_problem(lambda_)
    shared = p.gram, (p.y > 0).astype(int), 2, p.weight, losses.mcodm(lambda_, 0.5, 0.2, 40)
    with pytest.raises(DivergedError, match=r"eigenvalue here is -1\) and the dual is unbounded"):
        mcodm.solve(MultiProblem(None, *shared), Stop(1e-3, 1000), outer=outer)


def test_a_dual_of_mcodm_that_is_no_number_has_a_reason():
    """A poly with a negative constant leaps that far in one epoch."""
    X, target = mcodm_problems.examples(k=2)
    gram = Gram(Kernel("poly", 1.0, -1.0, 2), X)
    p = MultiProblem(None, gram, target, 2, np.ones(60), losses.mcodm(2.0**12, 0.5, 0.2, 60))
    with pytest.raises(DivergedError, match="its smallest eigenvalue here is -"):
        mcodm.solve(p, Stop(1e-3, 1000))


@pytest.mark.parametrize("lambda_", [1.0, 2.0**40])
def test_duals_of_mcsvm_do_not_grow_for_ever(lambda_):
    """They lie between bounds: there is a stationary point, however large lambda is."""
    gram = two_examples(None).gram
    p = MultiProblem(None, gram, np.arange(2), 2, np.ones(2), losses.mcsvm(lambda_, 2))
    found = mcsvm.solve(p, Stop(1e-3, 1000))
    assert found.converged and not found.optimal
    assert abs(found.duals) == pytest.approx(np.full((2, 2), lambda_ / 2))


def test_divergence_is_seen_without_the_eigenvalue():
    from odmtool.solvers.base import Stop
    from odmtool.solvers.descent import dcd

    with pytest.raises(DivergedError):
        dcd.solve(indefinite_problem(lambda_=50.0), Stop(1e-3, 100000))


def test_a_precomputed_kernel_of_few_digits_needs_no_eigenvalues(monkeypatch):
    X = np.random.default_rng(0).standard_normal((60, 3))
    from odmtool.core import kernels
    from odmtool.solvers import indefinite

    K = np.round(kernels.gram(Kernel("rbf", 0.4), X), 2)
    least = np.linalg.eigvalsh(K)[0]
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    gram = Gram.of_matrix(Kernel("precomputed"), K)
    p = Problem(None, gram, y, np.ones(60), losses.odm(2.0**4, 0.2, 0.4, 60))
    with monkeypatch.context() as patch:
        patch.setattr(indefinite, "_SHARES", ())
        assert indefinite.eigenvalue_bound(p) == pytest.approx(least)
        exactly = solvers.solve(p, tolerance=1e-6)
    assert indefinite.eigenvalue_bound(p) < least < 0
    # Where the dual may have several solutions, the eigenvalue itself decides.
    hard = p._replace(loss=losses.odm(2.0**30, 0.2, 0.4, 60))
    assert indefinite.eigenvalue_bound(hard) == pytest.approx(least)
    monkeypatch.setattr(np.linalg, "eigvalsh", lambda K: pytest.fail("eigenvalues were computed"))
    found = solvers.solve(p, tolerance=1e-6)
    assert found.converged and found.optimal
    assert found.primal == pytest.approx(exactly.primal, rel=1e-5)


def test_a_large_precomputed_kernel_is_found_positive_in_no_time():
    """Lanczos does not converge on eigenvalues that cluster at zero."""
    X = np.random.default_rng(0).standard_normal((500, 5))
    from odmtool.core import kernels
    from odmtool.solvers.indefinite import smallest_eigenvalue

    K = kernels.gram(Kernel("rbf", 0.4), X)
    assert smallest_eigenvalue(K) == 0
    rounded = np.round(K, 1)
    least = np.linalg.eigvalsh(rounded)[0]
    assert least < -0.1 and smallest_eigenvalue(rounded) == pytest.approx(least)
    assert smallest_eigenvalue(np.zeros((500, 500))) == 0
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    gram = Gram.of_matrix(Kernel("precomputed"), K)
    p = Problem(None, gram, y, np.ones(500), losses.odm(64.0, 0.5, 0.2, 500))
    assert solvers.solve(p, tolerance=1e-9).converged


def two_examples(loss):
    """A precomputed kernel with eigenvalues 3 and -1, along which the labels are."""
    gram = Gram.of_matrix(Kernel("precomputed"), np.array([[1.0, 2.0], [2.0, 1.0]]))
    return Problem(None, gram, np.array([1.0, -1.0]), np.ones(2), loss)


@pytest.mark.parametrize("lambda_", [0.5, 16.0, 1024.0])
def test_a_dual_above_the_objective_is_no_convergence(lambda_):
    """Descent goes to and fro between two b of LDM, and w = 0 is below all its duals."""
    p = two_examples(losses.ldm(1.0, 0.5, lambda_, 2))
    with pytest.raises(DivergedError, match=r"was found.*eigenvalue here is -1\)"):
        solvers.solve(p)
    # Whoever stops it gets what there is.
    stopped = solvers.solve(p, max_iter=7)
    assert not stopped.converged and not stopped.optimal and stopped.gap > 0.01
    K = p.gram.matrix()
    judged = judge.certify_kernel(K, p.y, p.weight, p.loss, stopped.coef, stopped.eta)
    assert judged.gap == pytest.approx(stopped.gap, rel=1e-9)


@pytest.mark.parametrize("max_iter", [1, 2, 3])
def test_a_stationary_point_of_the_hinge_is_no_nearer_when_it_is_shortened(max_iter):
    p = indefinite_problem(1.0)._replace(loss=losses.l1svm(4096.0, 40))
    found = solvers.solve(p, max_iter=max_iter, tolerance=1e-6)
    K = p.gram.matrix()
    judged = judge.certify_kernel(K, p.y, p.weight, p.loss, found.coef, found.eta)
    assert found.gap == pytest.approx(judged.gap, rel=1e-6) and found.gap >= 0
    assert found.converged == (judged.gap <= 1e-6)


@pytest.mark.parametrize("lambda_", [1.0, 1024.0, 1e9])
def test_duals_between_bounds_do_not_grow_for_ever(lambda_):
    """However large they are: there is a stationary point."""
    found = solvers.solve(two_examples(losses.l1svm(lambda_, 2)))
    assert found.converged and not found.optimal
    assert found.eta == pytest.approx([lambda_ / 2] * 2)


@pytest.mark.parametrize("y, sign", [((1.0, -1.0), 1), ((1.0, 1.0), -1)])
@pytest.mark.parametrize("solver", ["auto", "newton", "dcd"])
def test_the_only_point_of_a_dual_is_stationary(solver, y, sign):
    """The objective of mamc falls for ever along a negative eigenvalue."""
    p = two_examples(losses.mamc(1024.0, 2))._replace(y=np.array(y))
    found = solvers.solve(p, solver=solver)
    K = p.gram.matrix()
    judged = judge.certify_kernel(K, p.y, p.weight, p.loss, found.coef, found.eta)
    assert found.converged and not found.optimal and judged.gap <= 1e-3
    # By the eigenvalue along which the labels are.
    assert found.primal == pytest.approx(sign * 512.0**2 * (1 if sign > 0 else 3))
    definite = p._replace(gram=Gram.of_matrix(Kernel("precomputed"), np.eye(2)))
    assert solvers.solve(definite, solver=solver).optimal


def test_above_no_model_nothing_is_optimal():
    """The dual of odm has one solution, and w = 0 has a lower objective."""
    p = two_examples(losses.odm(0.9, 0.5, 0.0, 2))
    found = solvers.solve(p)
    assert found.converged and not found.optimal and found.primal == pytest.approx(9.0)
    other = solvers.solve(p._replace(y=np.ones(2)))
    assert other.converged and other.optimal and other.primal < 0.9


@pytest.mark.parametrize("partitions", [1, 2])
def test_parts_of_a_kernel_that_may_be_indefinite(partitions):
    X = np.random.default_rng(0).standard_normal((60, 3))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    p = Problem(None, None, y, np.ones(60), losses.l1svm(60.0, 60))
    for kernel in (Kernel("sigmoid", 0.5, -1.0), Kernel("rbf", 0.5)):
        settings = solvers.Settings(partitions=partitions)
        found = sodm.solve(p._replace(gram=Gram(kernel, X)), Stop(1e-3, 1000), settings)
        assert found.converged and found.optimal == (kernel.name == "rbf")


def test_duals_that_grow_for_ever_slowly():
    """The objective grows with them, so that the gap becomes small beside it."""
    p = two_examples(losses.l2svm(1.0, 2))
    with pytest.raises(DivergedError, match="was found"):
        solvers.solve(p)
    assert solvers.solve(p, max_iter=5).iterations == 5


def test_why_there_is_no_solution():
    from odmtool.solvers import indefinite
    from odmtool.solvers.diverged import diverged

    K = two_examples(None).gram.matrix()
    for matrix, memory, expected in (
        (K, np.inf, messages.dual_unbounded(-1.0, True)),
            (K, 1.0, messages.dual_unbounded(is_stored=True)),
        (np.eye(2), np.inf, messages.overflow()),
        (np.full((2, 2), np.inf), np.inf, messages.overflow()),
    ):  # fmt: skip
        gram = Gram.of_matrix(Kernel("precomputed"), matrix, memory)
        assert indefinite.why_none(gram) == diverged(gram).message == expected
    assert diverged(None).message == messages.overflow()
    assert diverged(Gram(Kernel("rbf", 1.0), np.eye(2))).message == messages.overflow()


def test_sigmoid_with_a_tiny_lambda():
    p = problem("sigmoid", lambda_=2.0**-10)
    solution = solvers.solve(p, solver="newton", tolerance=1e-6)
    assert solution.converged and np.any(solution.coef != 0)


def test_one_example_is_enough_to_diverge():
    """k(x, x) of -1 / (largest slope) leaves its dual without a bound, before any epoch."""
    from odmtool.solvers.base import Stop
    from odmtool.solvers.descent import dcd

    K, y, loss = np.eye(4), np.array([1.0, -1, 1, -1]), losses.odm(4.0, 1.0, 0.0, 4)
    K[2, 2] = -1 / losses.largest_slope(loss)  # 1 + k(x, x) slope is 0
    gram = Gram.of_matrix(Kernel("precomputed"), K)
    with pytest.raises(DivergedError):
        dcd.solve(Problem(None, gram, y, np.ones(4), loss), Stop(1e-3, 0))
    K[2, 2] *= 1 - 1e-9
    dcd.solve(Problem(None, gram, y, np.ones(4), loss), Stop(1e-3, 0))


@pytest.mark.parametrize("m", [3, 10])
def test_eigenvalues_that_are_negative_by_rounding_only(m):
    """A 10^-13th of the largest entry, times the number of rows."""
    from odmtool.solvers import indefinite

    for size in (1.0, 300.0):
        K = np.diag(np.r_[np.full(m - 1, size), 0.0])
        for share, is_rounding in ((0.99e-13, True), (1.01e-13, False)):
            K[-1, -1] = -share * m * size
            expected = 0.0 if is_rounding else K[-1, -1]
            assert indefinite.smallest_eigenvalue(K) == pytest.approx(expected, rel=1e-9, abs=0)
            assert indefinite._computed(K) == pytest.approx(expected, rel=1e-9, abs=0)


def test_a_bound_of_eigenvalues_where_the_dual_is_concave():
    """Shares of what would be the end of it, with a smooth loss that has slopes."""
    from odmtool.solvers import indefinite

    K, weight, y = np.eye(4), np.array([1.0, 4.0, 2.0, 1.0]), np.array([1.0, -1, 1, -1])
    smooth = losses.odm(8.0, 0.5, 0.2, 4)
    end = 1 / (losses.largest_slope(smooth) * 4.0)
    for e, loss, expected in (
        (-0.099 * end, smooth, -0.1 * end), (-0.101 * end, smooth, -0.5 * end),
        (-0.89 * end, smooth, -0.9 * end), (-0.91 * end, smooth, -0.91 * end),
        (-0.05 * end, losses.l1svm(8.0, 4), -0.05 * end), (0.5, smooth, 0.0),
    ):  # fmt: skip
        K[2, 2] = e
        p = Problem(None, Gram.of_matrix(Kernel("precomputed"), K), y, weight, loss)
        assert indefinite.eigenvalue_bound(p) == pytest.approx(expected, rel=1e-9, abs=0)


def test_one_eigenvalue_is_sought_where_there_are_many(monkeypatch):
    """By Lanczos' method, confirmed; by all of them where it ends early, or leaves one out."""
    from odmtool.solvers import indefinite

    generator, end = np.random.default_rng(4), 0.05
    monkeypatch.setattr(indefinite, "_MANY", 60)
    X = generator.normal(size=(60, 4))
    K = np.tanh(0.3 * X @ X.T - 0.2)
    least = np.linalg.eigvalsh(K)[0]
    y, loss = np.where(X[:, 0] > 0, 1.0, -1.0), losses.odm(60 / end, 0.5, 0.2, 60)
    p = Problem(None, Gram.of_matrix(Kernel("precomputed"), K), y, np.ones(60), loss)
    assert least < -1 / losses.largest_slope(loss)
    with monkeypatch.context() as patch:
        patch.setattr(np.linalg, "eigvalsh", lambda K: pytest.fail("all were computed"))
        for found in (indefinite.smallest_eigenvalue(K), indefinite.eigenvalue_bound(p)):
            assert found == pytest.approx(least, rel=1e-5) and found >= least * (1 + 1e-12)
        found = indefinite.eigenvalue_bound(p._replace(loss=losses.l1svm(8.0, 60)))
        assert found == pytest.approx(least, rel=1e-5)
    # A value that is not the least is no bound; the sign is right all the same.
    monkeypatch.setattr("scipy.sparse.linalg.eigsh", lambda K, *_, **__: np.array([least / 2]))
    assert indefinite.smallest_eigenvalue(K) == least / 2
    assert indefinite.eigenvalue_bound(p) == pytest.approx(least, rel=1e-12)

    def endless(*_, **__):
        raise ArpackNoConvergence("%s", np.zeros(0), np.zeros(0))

    for sought in (endless, lambda K, *_, **__: np.array([-1e-20])):
        monkeypatch.setattr("scipy.sparse.linalg.eigsh", sought)
        assert indefinite.smallest_eigenvalue(K) == pytest.approx(least, rel=1e-12)


def test_a_shifted_solution_is_judged_in_the_problem_itself(monkeypatch):
    """Of its coefficients and its duals those whose gap is smaller."""
    from odmtool.solvers import indefinite
    from odmtool.solvers.base import Solution, objective_values

    # More than rounding hides, which may be nothing on some processors.
    hidden = 1e-8
    monkeypatch.setattr(indefinite.Rounding, "gap", lambda *given: hidden)
    p, generator = indefinite_problem(lambda_=12.0), np.random.default_rng(0)
    best = solvers.solve(p, tolerance=1e-10).eta
    other = generator.standard_normal(40)
    for coef, eta in ((best, other), (other, best)):
        given = Solution(None, coef, eta, 1.0, 0.0, 9.0, 3, False, "newton")
        for tolerance in (1e-6, 1e-300):
            found = indefinite.unshift(p, given, tolerance)
            assert np.array_equal(found.coef, best) and np.array_equal(found.eta, best)
            t = p.y * (p.gram.matrix() @ (p.y * best))
            primal, dual, scale = objective_values(p.loss, best @ t, t, best)
            assert found.primal == pytest.approx(primal, rel=1e-12)
            # What rounding may hide is added to the gap.
            assert found.dual == pytest.approx(dual - hidden, rel=1e-12)
            assert found.gap == pytest.approx((found.primal - found.dual) / scale, rel=1e-6)
            assert found.converged == (tolerance == 1e-6) and found.iterations == 3


@pytest.mark.parametrize("machine", ["ldm", "l1svm"])
def test_newton_is_not_advised_where_it_would_be_refused(run, heart, machine):
    options = ["-s", machine, "-t", "sigmoid", "-g", "1", "-r", "-1", "-l", "2^10"]
    outcome = run("train", *options, "--max-iter", "1", heart, "m")
    assert "was not reached" in outcome.err and "--solver newton" not in outcome.err
    assert "needs a convex dual" in run("train", *options, "--solver", "newton", heart, "m").err


def test_an_objective_that_falls_for_ever_has_no_stationary_point():
    """Its gap may be small beside it; a bound holds where no eigenvalue is negative."""
    rng = np.random.default_rng(201)
    X, y = rng.standard_normal((9, 8)) * 3, np.where(rng.random(9) < 0.5, 1, -1)
    own = {"kernel": "sigmoid", "gamma": 0.3, "coef0": -0.5, "lambda_": 1024.0}
    with pytest.raises(DivergedError, match="found no end of the objective's fall; take a smaller"):
        LDM(**own).fit(X, y)
    stopped = LDM(**own, max_iter=2)  # is what was asked for
    stopped.fit(X, y)
    assert not stopped.solution_.converged
