"""Working sets: the judge confirms their gap, and what they cannot do others take up."""

import numpy as np
import pytest
from problems import examples

from odmtool.core import deadline, losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.errors import DivergedError
from odmtool.judge.binary import certify_kernel, kernel_matrix
from odmtool.rows.executor import Threads
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.descent import dcd
from odmtool.solvers.engine import jumps, working

LOSSES = {
    "l1svm": losses.l1svm,
    "svr": lambda lambda_, total: losses.svr(lambda_, 0.2, total),
}
KERNELS = {
    "rbf": Kernel("rbf", 0.3, bias=0.5),
    "poly": Kernel("poly", 0.2, 1.0, 2),
}


def problem_of(kernel="rbf", loss="l1svm", lambda_=2.0**8, m=300, dense=False, memory=1e9):
    X, y = examples(m, 5, 3)
    weight = np.random.default_rng(3).uniform(0.1, 4.0, m)
    gram = Gram(KERNELS[kernel], X.toarray() if dense else X, memory)
    return Problem(None, gram, y, weight, LOSSES[loss](lambda_, weight.sum()))


def judged(problem, found):
    K = kernel_matrix(problem.gram.kernel, problem.gram.X, problem.gram.X)
    return certify_kernel(K, problem.y, problem.weight, problem.loss, found.coef, found.eta)


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch):
    """Samples of samples, though there are few examples."""
    monkeypatch.setattr(working, "_AT_ONCE", 20)
    monkeypatch.setattr(working, "_LARGE", 0.0)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("lambda_", [2.0, 2.0**8, 2.0**14])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_judge_confirms_the_gap(kernel, loss, lambda_, dense):
    problem = problem_of(kernel, loss, lambda_, dense=dense)
    told = []
    assert working.fits(problem)
    found = working.solve(problem, Stop(1e-4, 1000), progress=told.append)
    if lambda_ < 1e4:
        assert found.converged and found.gap <= 1e-4
    said = judged(problem, found)
    # What the judge rounds is more than nothing.
    assert said.gap <= found.gap * (1 + 1e-6) + 1e-15
    assert found.primal == pytest.approx(said.primal, rel=1e-9)
    # With a small lambda every dual is at its bound, as a sample says.
    assert found.iterations == told[-1].iteration >= (lambda_ > 2)


def test_they_are_a_part_of_the_examples_and_the_others_keep_their_duals(monkeypatch):
    sizes, epoch = [], dcd.KernelState.epoch

    def counted(state, order, *rest):
        sizes.append(len(order))
        return epoch(state, order, *rest)

    monkeypatch.setattr(dcd.KernelState, "epoch", counted)
    problem = problem_of(lambda_=2.0)
    found = working.solve(problem, Stop(1e-4, 1000))
    assert found.converged and max(sizes) < problem.size / 2
    most = -problem.weight * problem.loss.left_lo
    assert np.count_nonzero(found.eta == most) > problem.size / 4


def test_the_same_with_threads_again_and_from_a_start():
    problem = problem_of(m=700)
    first, again, threads = (
        working.solve(problem, Stop(1e-4, 1000), seed=5, executor=executor)
        for executor in (None, None, Threads(2))
    )
    for other in (again, threads):
        assert np.array_equal(first.eta, other.eta) and first.gap == other.gap
    warm = working.solve(problem, Stop(1e-4, 1000), start=first.eta)
    assert warm.iterations == 0 and np.array_equal(warm.eta, first.eta)


def test_what_does_not_fit_or_has_slopes_is_for_others(monkeypatch):
    assert not working.fits(problem_of(memory=1e4)) and working.fits(problem_of())
    for loss in (losses.ldm(1.0, 1.0, 200.0, 1.0), losses.l2svm(200.0, 1.0), losses.mamc(2.0, 1.0)):
        is_flat = losses.has_bounded_duals(loss) if hasattr(loss, "slope_below") else False
        assert working.fits(problem_of()._replace(loss=loss)) == (is_flat and loss.kind != "smooth")
    # There is room for a sample, and not for the working set.
    monkeypatch.setattr(working, "_HALVINGS", 0)
    found = working.solve(problem_of(), Stop(1e-4, 1000))
    assert not found.converged and judged(problem_of(), found).gap <= found.gap * (1 + 1e-6)


def test_others_go_on_where_they_are_not_enough(force, monkeypatch):
    force("full")
    monkeypatch.setattr(working, "_ROUNDS", 1)
    problem, told = problem_of(), []
    found = jumps.solve(problem, Stop(1e-4, 1000), progress=told.append)
    assert found.solver == "landmarks, then dcd" and found.converged
    assert judged(problem, found).gap <= 1e-4 * (1 + 1e-6)
    steps = [now.iteration for now in told]
    assert steps == sorted(steps) and found.iterations == steps[-1]


@pytest.mark.parametrize("limit", [1, 3])
def test_at_the_limit_the_model_is_not_worse_than_none(force, limit):
    force("full")
    problem = problem_of("poly", lambda_=2.0**14)
    found = jumps.solve(problem, Stop(1e-9, limit))
    assert found.iterations == limit and found.primal <= dcd.value_at_zero(problem)


def test_a_start_that_is_far_away_is_left(force, monkeypatch):
    monkeypatch.setattr(working, "_FAR", 0.0)
    problem, taken = problem_of(), []
    found = working.solve(problem, Stop(1e-4, 1000))
    assert not found.converged
    force("full")
    solve = dcd.solve
    monkeypatch.setattr(working, "solve", lambda *_, **__: found._replace(gap=2.0))
    monkeypatch.setattr(dcd, "solve", lambda *a, **k: taken.append(k["start"]) or solve(*a, **k))
    assert jumps.solve(problem, Stop(1e-4, 1000)).converged and taken[-1] is None


def test_a_matrix_that_is_small_is_made_at_once(monkeypatch):
    monkeypatch.setattr(working, "_LARGE", 8.0 * 300**2)
    assert not working.fits(problem_of()) and working.fits(problem_of(memory=8e4 * 8))
    assert working.fits(problem_of(m=301))


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_the_limit_of_epochs_is_kept(limit):
    problem = problem_of(lambda_=2.0**14)
    start = np.zeros(problem.size)
    found = working.solve(problem, Stop(1e-9, limit), start=start)
    assert found.iterations == limit and not found.converged
    assert judged(problem, found).gap <= found.gap * (1 + 1e-6)


def test_after_the_deadline_the_best_point_is_returned(monkeypatch):
    monkeypatch.setattr(deadline, "is_over", lambda: True)
    problem = problem_of()
    found = working.solve(problem, Stop(1e-4, 1000))
    assert not found.converged and found.primal <= dcd.value_at_zero(problem) * (1 + 1e-12)
    assert judged(problem, found).gap <= found.gap * (1 + 1e-6)


def test_margins_that_overflow_are_told(monkeypatch):
    monkeypatch.setattr(working._Run, "_margins", lambda *_: np.full(300, -np.inf))
    with pytest.raises(DivergedError):
        working.solve(problem_of(), Stop(1e-4, 1000), start=np.ones(300))
