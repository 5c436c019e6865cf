"""Newton's method by passes for losses that jump: pieces, sums, steps, and what comes of it."""

from __future__ import annotations

import numpy as np
import pytest
from problems import OTHER_LOSSES, StoreInMemory, examples, weights
from scipy.optimize import minimize_scalar

from odmtool.core import losses
from odmtool.core.loss_table import JUMPS, ONE_JUMP
from odmtool.errors import DivergedError
from odmtool.io.model_file import read_model
from odmtool.judge import binary as judge
from odmtool.rows.examples import Examples
from odmtool.rows.executor import Serial, Threads
from odmtool.solvers.base import Problem, Stop
from odmtool.solvers.descent import dcd
from odmtool.solvers.large import proximal_passes
from odmtool.solvers.large.proximal_passes import _Proximal, jump_of, smoothed

LOSSES = {name: loss for name, loss in OTHER_LOSSES.items() if loss.kind in (ONE_JUMP, JUMPS)}


def setting(dense=False, is_sorted=False):
    """Examples of which some have no weight, their dense rows, y and u."""
    X, y = examples()
    u = weights()
    u[::7] = 0.0
    if is_sorted:
        order = np.argsort(y, kind="stable")
        X, y, u = X[order], y[order], u[order]
    rows = np.column_stack([X.toarray(), np.full(60, 2.0)])
    X = X.toarray() if dense else X
    known = Examples(StoreInMemory(X, y), {1: 1.0, -1: -1.0}, {1: 1.0, -1: 1.0}, u, 2.0)
    return known, rows, y, u


def judged(problem, point, X, y, u, loss):
    """What the judge says of w and the duals that it demands, and these."""
    used = u > 0
    own, sigma = losses.scaled(loss, u[used]), problem.width / (u[used] * jump_of(loss))
    eta = smoothed(own, sigma, problem.centre[used], point.t[used]).duals
    found = judge.certify_linear(X[used], y[used], u[used], loss, point.v, eta)
    return found, eta


@pytest.mark.parametrize("name", LOSSES)
def test_a_jump_is_spread_as_a_proximal_step_has_it(name):
    loss, u = LOSSES[name], 1.7
    generator = np.random.default_rng(2)
    t = np.concatenate([np.linspace(-3, 4, 40), loss.lo + generator.normal(size=20) * 0.1])
    own = losses.scaled(loss, np.full(60, u))
    eta = losses.nearest_dual(own, generator.normal(size=60))
    sigma = np.full(60, 0.4) / u
    found = smoothed(own, sigma, eta, t)
    one = losses.MarginLoss(*(float(field[0]) for field in own))
    for i in range(60):

        def raised(s, i=i):
            return losses.value(one, s) + eta[i] * (s - t[i]) + (s - t[i]) ** 2 / 2 / sigma[i]

        least = minimize_scalar(raised, bracket=(t[i] - 1, t[i] + 1), options={"xtol": 1e-13})
        assert found.values[i] == pytest.approx(least.fun, rel=1e-9, abs=1e-9)
        # Where s is, the centre and it tell the dual.
        assert found.duals[i] == pytest.approx(eta[i] + (least.x - t[i]) / sigma[i], abs=1e-5)
    step = 1e-6
    up, down = (smoothed(own, sigma, eta, t + move) for move in (step, -step))
    np.testing.assert_allclose((down.values - up.values) / (2 * step), found.duals, atol=1e-5)
    smooth = up.slopes == down.slopes
    assert smooth.sum() > 40
    bent = (down.duals - up.duals)[smooth] / (2 * step)
    np.testing.assert_allclose(bent, found.slopes[smooth], rtol=1e-6, atol=1e-6)
    # Whatever rounding does, they are duals of the loss itself.
    assert np.isfinite(losses.dual_value(own, found.duals)).all()


@pytest.mark.parametrize("executor", [Serial(), Threads(2)])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_the_judge_confirms_every_pass(name, dense, executor):
    known, X, y, u = setting(dense)
    loss, problem = LOSSES[name], _Proximal(known, LOSSES[name], executor)
    point = problem.beginning()
    for k in range(6):
        found, eta = judged(problem, point, X, y, u, loss)
        now = point.iterate
        assert now.primal == pytest.approx(found.primal, rel=1e-12)
        assert now.gap == pytest.approx(found.primal - found.dual, rel=1e-8, abs=1e-11)
        assert now.support == np.count_nonzero(eta)
        used = u > 0
        np.testing.assert_allclose(
            point.gradient, point.v - X[used].T @ (y[used] * eta), rtol=1e-9, atol=1e-9
        )
        np.testing.assert_allclose(point.t[used], (y * (X @ point.v))[used], rtol=1e-12)
        own = losses.scaled(loss, u[used])
        sigma = problem.width / (u[used] * jump_of(loss))
        slopes = smoothed(own, sigma, problem.centre[used], point.t[used]).slopes
        np.testing.assert_allclose(
            problem._hessian, (X[used].T * slopes) @ X[used], rtol=1e-9, atol=1e-9
        )
        if k % 3 == 2:
            width = problem.width
            point = problem.from_here(point)
            assert problem.width == width / 2
            np.testing.assert_allclose(problem.centre[used], eta, rtol=1e-12, atol=1e-14)
        before = point.smooth
        point = problem.step(point, Stop())
        assert point.smooth <= before + 1e-12 * abs(before)


@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_few_steps_to_the_solution_that_memory_has(name, is_sorted):
    """By blocks of one class coordinate descent goes to and fro."""
    known, X, y, u = setting(is_sorted=is_sorted)
    loss, told, used = LOSSES[name], [], u > 0
    found = proximal_passes.solve(known, loss, Stop(1e-7, 100), progress=told.append)
    memory = dcd.solve(Problem(X[used], None, y[used], u[used], loss), Stop(1e-9, 10**5))
    assert found.converged and found.gap <= 1e-7 and found.solver == "newton"
    assert found.primal == pytest.approx(memory.primal, rel=3e-7)
    np.testing.assert_allclose(found.w, memory.w, atol=1e-2)
    assert found.iterations == told[-1].iteration <= 40
    assert [now.iteration for now in told] == list(range(found.iterations + 1))
    again = proximal_passes.solve(known, loss, Stop(1e-7, 100), executor=Threads(3))
    # The same sums, in the same order.
    assert np.array_equal(again.w, found.w) and again.gap == found.gap


def test_a_step_that_goes_too_far_ends_where_it_is_lowest():
    known, *_ = setting()
    loss = losses.l1svm(2.0**14, 60)
    problem = _Proximal(known, loss, Serial())
    first = problem.beginning()
    direction = -first.gradient  # far too long
    problem._hessian = np.zeros((8, 8))  # with it the direction of Newton's step
    point = problem.step(first, Stop())
    lengths = np.exp(np.linspace(-20, 0, 200))
    t = np.zeros(60)
    lowest = min(problem.at(s * direction, t).smooth for s in lengths)
    assert point.smooth < first.smooth and point.smooth <= lowest + 0.01 * (first.smooth - lowest)


def test_where_lambda_is_small_intervals_are_short_at_first():
    known, X, y, u = setting()
    loss = losses.l1svm(1e-3, 60)
    problem = _Proximal(known, loss, Serial())
    point = problem.beginning()
    reach = jump_of(loss) * (u @ (X * X).sum(axis=1))
    assert point.square == pytest.approx(u @ (X * X).sum(axis=1))
    assert problem.width == max(reach, 0.1) < 1


def test_rounding_is_added_to_the_gap():
    known, X, y, u = setting()
    loss, exact = LOSSES["svr"], []
    for error in (0.0, 1e-3):
        problem = _Proximal(known, loss, Serial())
        problem._error = error
        point = problem.step(problem.beginning(), Stop())
        exact.append(problem.at(np.full(8, 0.1), point.t).iterate)
    assert exact[0].unsure == 0 < exact[1].unsure
    assert exact[0].gap < exact[1].gap and exact[0].primal == exact[1].primal


def test_nothing_is_done_when_the_time_is_over(monkeypatch):
    known, X, y, u = setting()
    monkeypatch.setattr(proximal_passes.Stop, "is_late", True)
    found = proximal_passes.solve(known, LOSSES["l1svm"], Stop(1e-3, 9))
    assert not found.w.any() and found.iterations == 0 and not found.converged


def test_what_is_stopped_early_is_no_worse_than_none():
    known, X, y, u = setting()
    loss = losses.l1svm(2.0**14, 60)
    at_zero = proximal_passes.solve(known, loss, Stop(1e-9, 0)).primal
    for limit in range(1, 8):
        found = proximal_passes.solve(known, loss, Stop(1e-12, limit))
        assert found.primal <= at_zero and found.gap <= 1 + 1e-12
        assert found.iterations == limit and not found.converged
        values = u * losses.value(loss, y * (X @ found.w))
        assert found.primal == pytest.approx(found.w @ found.w / 2 + values.sum(), rel=1e-12)


def test_overflow_is_said(monkeypatch):
    known, *_ = setting()
    with pytest.raises(DivergedError):
        proximal_passes.solve(known, losses.l1svm(1e308, 1e-3), Stop(1e-3, 9))


@pytest.mark.parametrize("machine", ["l1svm", "svr"])
@pytest.mark.parametrize("scale", [1e-6, 0.25, 1.0, 100.0, 1000.0])
@pytest.mark.parametrize("options", [(), ("-c", "1", "-w1", "0"), ("-B", "1")])
def test_rows_that_can_be_told_apart_are(machine, scale, options, run, tmp_path):
    """The slope at 0 was so steep that what it is beyond the minimum seemed small; and of tiny
    values a small gap at 0 was taken for the end.
    """  # fmt: skip
    generator = np.random.default_rng(4)
    y = np.where(np.arange(400) % 2, 1, -1)
    X = scale * (3 * y[:, None] + generator.random((400, 6)))
    rows = (" ".join(f"{j}:{v!r}" for j, v in enumerate(row, 1)) for row in X.tolist())
    (tmp_path / "rows").mkdir()
    (tmp_path / "data").write_text(
        "".join(f"{a} {row}\n" for a, row in zip(y, rows, strict=True))
    )
    found = {}
    for place in ((), ("--cache", "rows")):
        assert run("train", "-s", machine, *options, *place, "data", "m").code == 0
        run("predict", "data", "m", "labels")
        found[bool(place)] = read_model("m"), (tmp_path / "labels").read_text()
    (memory, labels), (disk, others) = found.values()
    assert disk.facts["status"] == "optimal" and labels == others
    of_memory, of_disk = (float(model.facts["objective"]) for model in (memory, disk))
    # svr in memory does not converge with values of 1000.
    is_known = memory.facts["status"] == "optimal"
    assert of_disk == pytest.approx(of_memory, rel=2e-3) if is_known else of_disk < of_memory
