"""What is run after what: by ``auto``, for kernels with negative eigenvalues, after the path.

The solvers' answers are said beforehand, so that what each is asked shows.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from problems import OTHER_LOSSES, problem

from odmtool.core import losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.errors import DivergedError, MemoryLimitError, UsageError
from odmtool.solvers import indefinite, table
from odmtool.solvers import run as solver_run
from odmtool.solvers.auto import Schedule
from odmtool.solvers.base import Solution, Stop, ignore_progress
from odmtool.solvers.paths import path
from odmtool.solvers.run import SolverRun, checked_way
from odmtool.solvers.settings import Settings


def said(gap, iterations, tolerance=0.25, solver="x", eta="duals"):
    """A solution with this gap, after so many iterations."""
    is_enough = gap <= tolerance
    return Solution(None, np.ones(2), eta, 1.0, 1.0 - gap, gap, iterations, is_enough, solver)


@pytest.fixture
def asked(monkeypatch):
    """Makes every solver answer from a list, and notes what it was asked."""
    found = []

    def prepare(*answers):
        answers = iter(answers)
        found.clear()

        def module(name):
            def solve(problem, stop, **named):
                found.append((name.rpartition(".")[2], problem, stop, named))
                return next(answers)

            return SimpleNamespace(solve=solve)

        monkeypatch.setattr(solver_run, "import_module", module)
        return found

    return prepare


def run(**changes):
    return SolverRun(0.25, None, 7, Settings(), None)._replace(**changes)


def test_a_solver_gets_its_limits_and_settings(asked):
    calls, p = asked(*[said(0.5, 3)] * 9), problem(None)
    names = [("dcd", 1000), ("newton", 100), ("svrg", 1000)]
    for name, _ in names:
        most = table.way_of(name, p.loss.kind, "linear").limit
        assert run().solve(p, name, "start").iterations == 3
        module, given, stop, named = calls.pop()
        assert (given, stop) == (p, Stop(0.25, most, False)) and module == name
        assert (named.pop("executor", None) is not None) == (name == "newton")
        expected = {"seed": 7, "start": "start", "progress": ignore_progress}
        assert named == expected | ({"snapshot": "last"} if name == "svrg" else {})
        run(max_iter=5, progress=len).solve(p, name, None)
        assert calls[0][2] == Stop(0.25, 5, False) and calls.pop()[3]["progress"] is len
    kernel = problem("rbf")
    run(jobs=2).solve(kernel, "landmarks", None)
    assert calls.pop()[3]["executor"].jobs == 2


@pytest.mark.parametrize("is_one_of_many", [False, True])
def test_newton_follows_descent(asked, monkeypatch, is_one_of_many):
    chosen = []
    monkeypatch.setattr(
        solver_run, "choose", lambda p, many: chosen.append(many) or Schedule("dcd", 40)
    )
    calls, p = asked(said(0.5, 40), said(0.1, 3, solver="newton")), problem(None)
    found = run(is_one_of_many=is_one_of_many).solve(p, "auto", "start")
    assert (found.iterations, found.solver, found.converged) == (43, "dcd, then newton", True)
    assert [call[0] for call in calls] == ["dcd", "newton"] and chosen == [is_one_of_many]
    assert calls[0][2] == Stop(0.25, 40, True) and not calls[1][2].follows
    assert [call[3]["start"] for call in calls] == ["start", "duals"]
    # What is enough is enough; and fewer may be allowed.
    calls = asked(said(0.25, 9))
    assert run(max_iter=30).solve(p, "auto", None).iterations == 9
    assert len(calls) == 1 and calls[0][2] == Stop(0.25, 30, True)
    # A solver that was named is alone.
    calls = asked(said(0.5, 9))
    assert run().solve(p, "dcd", None).gap == 0.5 and len(calls) == 1


@pytest.mark.parametrize("last", [None, 8])
def test_descent_follows_newton_for_as_many_epochs_as_are_said(asked, monkeypatch, last):
    schedule = Schedule("newton", then="dcd", last_epochs=last)
    monkeypatch.setattr(solver_run, "choose", lambda p, many: schedule)
    calls, p = asked(said(0.5, 2, solver="newton"), said(0.1, 7, solver="dcd")), problem(None)
    found = run().solve(p, "auto", None)
    assert (found.iterations, found.solver, found.converged) == (9, "newton, then dcd", True)
    most = table.way_of("dcd", p.loss.kind, "linear").limit
    assert calls[1][2] == (Stop(0.25, most, False) if last is None else Stop(0.25, 8, True))


def test_solvers_that_are_refused():
    with pytest.raises(UsageError, match="sodm"):
        checked_way(problem(None), "sodm")
    p = problem("rbf", memory=8 * 60**2)
    assert checked_way(p._replace(gram=p.gram.within(1e9)), "newton").module == "newton.newton"
    with pytest.raises(MemoryLimitError):
        checked_way(p, "newton")
    assert checked_way(p._replace(gram=p.gram.within(1.0)), "dcd").module == "descent.dcd"


def shifted_problem(loss="odm"):
    """Of a matrix with the smallest eigenvalue -1."""
    K = np.diag([-1.0, 2.0, 3.0, 4.0])
    row = losses.odm(1.5, 0.5, 0.0, 4.0) if loss == "odm" else OTHER_LOSSES[loss]
    p = problem("rbf")
    gram = Gram.of_matrix(Kernel("precomputed"), K, 1e6)
    return p._replace(gram=gram, y=p.y[:4], weight=np.ones(4), loss=row)


@pytest.fixture
def judged(monkeypatch):
    """Where the problem itself has these gaps, one after the other."""

    def prepare(*gaps):
        gaps = iter(gaps)

        def unshift(problem, solution, tolerance):
            gap = next(gaps)
            return solution._replace(gap=gap, converged=gap <= tolerance)

        monkeypatch.setattr(indefinite, "unshift", unshift)

    return prepare


def test_a_shifted_problem_is_solved_further_until_the_problem_itself_is(asked, judged):
    judged(0.5, 0.3, 0.25)
    calls, p = asked(said(0.1, 3), said(0.001, 4), said(1e-5, 5)), shifted_problem()
    found = run().solve(p, "newton", "start")
    assert (found.iterations, found.solver, found.gap) == (12, "newton", 0.25) and found.converged
    most = table.way_of("newton", "smooth", "precomputed").limit
    assert [call[2].limit for call in calls] == [most, most - 3, most - 7]
    assert [call[2].tolerance for call in calls] == pytest.approx([0.25, 0.0025, 0.000025])
    assert [call[3]["start"] for call in calls] == ["start", "duals", "duals"]
    assert all(call[0] == "newton" and call[1] is not p for call in calls)
    # It ends with its steps, or where the shifted problem is not solved either.
    judged(0.5, 0.5)
    calls = asked(said(0.1, 3), said(0.001, 4))
    assert run(max_iter=7).solve(p, "newton", None).iterations == 7 and len(calls) == 2
    judged(0.5)
    calls = asked(said(0.3, 2))
    found = run(max_iter=7).solve(p, "newton", None)
    assert (found.iterations, found.converged, len(calls)) == (2, False, 1)


def test_descent_before_a_shifted_problem(asked, judged, monkeypatch):
    monkeypatch.setattr(solver_run, "choose", lambda *_: Schedule("dcd", 40))
    judged(0.25)
    calls, p = asked(said(0.5, 40), said(0.1, 3)), shifted_problem()
    found = run().solve(p, "auto", None)
    assert (found.iterations, found.solver, found.optimal) == (43, "dcd, then newton", True)
    assert calls[0][1] is p and calls[0][2].follows and calls[1][3]["start"] == "duals"
    calls = asked(said(0.25, 9))
    assert run().solve(p, "auto", None).iterations == 9 and len(calls) == 1
    calls = asked(said(0.5, 9))  # named, it is alone
    found = run().solve(p, "dcd", None)
    assert len(calls) == 1 and not found.converged and found.optimal


def test_kernels_of_which_a_small_gap_says_little(asked):
    """Coordinate descent, and it is said that the solution may be none; Newton's is refused."""
    jumps = shifted_problem("l1svm")
    bent = shifted_problem()._replace(loss=losses.odm(8.0, 1.0, 0.0, 4.0))
    far = bent._replace(gram=bent.gram.within(1.0))
    # Slopes of 4 and 2: the dual is not concave, and bounded on one side at most.
    bent = bent._replace(loss=bent.loss._replace(slope_above=0.0))
    for p in (jumps, bent, far):
        calls = asked(said(0.5, 9))
        found = run().solve(p, "auto" if p is not far else "dcd", "start")
        assert not found.optimal and [call[0] for call in calls] == ["dcd"]
        assert calls[0][2] == Stop(0.25, table.way_of("dcd", p.loss.kind, "precomputed").limit)
    for p in (jumps, bent):
        with pytest.raises(UsageError):
            run().solve(p, "newton", None)
    for p in (jumps, shifted_problem()):
        with pytest.raises(UsageError):
            run().solve(p, "landmarks", None)
    with pytest.raises(UsageError):
        run().solve(jumps, "path", None)
    with pytest.raises(DivergedError):
        run().solve(shifted_problem()._replace(loss=losses.odm(80.0, 1.0, 0.0, 4.0)), "auto", None)
    kmomd = shifted_problem()._replace(loss=losses.kmomd(4.0, 4.0))
    with pytest.raises(UsageError):
        run().solve(kmomd, "newton", None)
    # A matrix without negative eigenvalues is like any other.
    definite = Gram.of_matrix(Kernel("precomputed"), np.diag([1.0, 2.0, 3.0, 4.0]), 1e6)
    calls = asked(*[said(0.5, 9)] * 3)
    for p, name in ((jumps, "newton"), (shifted_problem(), "newton"), (kmomd, "newton")):
        found = run().solve(p._replace(gram=definite), name, None)
        assert found.optimal and found.iterations == 9
    assert [call[0] for call in calls] == ["proximal", "newton", "kmomd"]


# ---- the path --------------------------------------------------------------------------------


def path_of(monkeypatch, first, second=None, limit=50):
    """What the path's solver does with these answers: solution, steps of Newton's, and reports."""
    asked, told = [], []
    p = problem("rbf", loss=OTHER_LOSSES["l1svm"])

    def solution(self, problem, stop, changed):
        changed(5, 17)
        if isinstance(first, Exception):
            raise first
        return first._replace(track=self)

    def follow(problem, stop, start, progress):
        asked.append((stop, start))
        return second

    monkeypatch.setattr(path.Track, "solution", solution)
    monkeypatch.setattr(path, "_newton", follow)
    found = path.solve(p, Stop(0.25, limit), progress=told.append)
    return found, asked, told


def test_newton_goes_on_where_the_path_is_not_enough(monkeypatch):
    eta = np.arange(60.0)
    first, second = said(0.5, 20, eta=eta), said(0.1, 7)
    found, asked, told = path_of(monkeypatch, first, second)
    assert (found.iterations, found.solver, found.gap) == (27, "path, then newton", 0.1)
    assert isinstance(found.track, path.Track) and asked[0][0] == Stop(0.25, 50)
    assert asked[0][1] is eta
    assert (told[0].iteration, told[0].active, told[0].primal) == (5, 17, None)
    assert np.isnan(told[0].gap)
    assert (told[1].iteration, told[1].primal, told[1].gap, told[1].active) == (20, 1.0, 0.5, 2)
    p = problem("rbf", loss=OTHER_LOSSES["l1svm"])
    np.testing.assert_allclose(told[1].margins(), p.margins(eta))
    # Where it is enough, or there are no steps left, it does not.
    for enough, limit in ((said(0.25, 20, eta=eta), 50), (said(0.5, 20, eta=eta), 20)):
        found, asked, _ = path_of(monkeypatch, enough, second, limit)
        assert not asked and found.iterations == 20
    # And where the path is lost, it begins at nothing.
    found, asked, _ = path_of(monkeypatch, DivergedError("lost"), second)
    assert found.iterations == 7 and asked == [(Stop(0.25, 50), None)]
    assert isinstance(found.track, path.Track)


def test_which_problems_share_a_path():
    p = problem("rbf", loss=OTHER_LOSSES["l1svm"])
    first = path.solve(p, Stop(1e-3, 500))
    track = first.warm_start
    other = p._replace(loss=losses.l1svm(99.0, 60))
    assert track.serves(p) and track.serves(other)
    assert path.solve(other, Stop(1e-3, 500), start=track).warm_start is track
    assert path.solve(other, Stop(1e-3, 500), start=first.eta).warm_start is not track
    changed = (
        p._replace(gram=Gram(p.gram.kernel, p.gram.X)), p._replace(y=-p.y),
        p._replace(weight=2 * p.weight), p._replace(loss=losses.ldm(1.0, 1.0, 42.0, 60)),
    )  # fmt: skip
    for one in changed:
        assert not track.serves(one)
        assert path.solve(one, Stop(1e-3, 500), start=track).warm_start is not track
    of_ldm = path.solve(changed[-1], Stop(1e-3, 500)).warm_start
    assert of_ldm.serves(p._replace(loss=losses.ldm(1.0, 3.0, 9.0, 60)))
    assert not of_ldm.serves(p._replace(loss=losses.ldm(2.0, 1.0, 42.0, 60)))
