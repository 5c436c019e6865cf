"""mcODM's kernel values in single precision, and in double where that hides the rest of a gap."""

import weakref

import numpy as np
import pytest
from mcodm_problems import assert_confirmed, certificate, problem, solve

from odmtool.core import deadline
from odmtool.solvers.base import Stop
from odmtool.solvers.engine import certificate as certificate_module
from odmtool.solvers.mcodm import rounds, values
from odmtool.solvers.mcodm.way import Way


@pytest.fixture(autouse=True)
def no_size_is_small(monkeypatch):
    monkeypatch.setattr(values, "_FEW", 0)


def test_which_values_are_made():
    p = problem("rbf")
    rounded, exact = values.at_hand(p, None, 1e-3).gram, values.at_hand(p, None, None).gram
    K = p.gram.matrix()
    assert rounded.is_rounded and not exact.is_rounded
    np.testing.assert_array_equal(rounded.matrix(), K.astype(np.float32))
    np.testing.assert_allclose(exact.matrix(), K, rtol=1e-14)
    # 60 examples, of which one loss bends by 2 c u: it hides 2 c u (60 / 2^24)^2.
    p = problem("rbf", weight=np.linspace(1, 3, 60))
    hidden = 2 * max(p.parameters.c1, p.parameters.c2) * 3 * (60 / 2**24) ** 2
    assert values.at_hand(p, None, hidden * 1.001).gram.is_rounded
    assert not values.at_hand(p, None, hidden * 0.999).gram.is_rounded
    for other in (problem("poly"), problem("precomputed"), problem("rbf", memory=60 * 60 * 8 - 1)):
        assert values.at_hand(other, None, 1e-3) is other


def test_few_examples_are_left_to_numpy(monkeypatch):
    p = problem("rbf")
    monkeypatch.setattr(values, "_FEW", 60)
    assert values.at_hand(p, None, 1e-3) is p


@pytest.mark.parametrize("step", [1, 7, 2**20])
def test_scores_by_exact_values(step, monkeypatch):
    monkeypatch.setattr(certificate_module, "_ROWS", step)
    p, generator = problem("rbf"), np.random.default_rng(0)
    one, other = generator.standard_normal((2, 60, 4))
    one[:10], other[:10] = 0, 0
    found = values.exact_scores(p.gram, None, one, other)
    for scores, C in zip(found, (one, other), strict=True):
        np.testing.assert_allclose(scores, p.gram.matrix() @ C, rtol=1e-12, atol=1e-12)


def looks(monkeypatch) -> list:
    """Notes F and the gap after every look."""
    seen, usual = [], rounds._Rounds._see_exactly

    def see(self):
        usual(self)
        seen.append((self.objective, self._gap))

    monkeypatch.setattr(rounds._Rounds, "_see_exactly", see)
    return seen


def test_a_loose_tolerance_needs_no_look(monkeypatch):
    p, seen = problem("rbf"), looks(monkeypatch)
    solution = solve(p, 1e-2, solver="dcd", starts=1)
    judged = certificate(p, solution)
    assert not seen and solution.converged
    assert judged.gap <= solution.gap <= judged.gap + 1e-4
    assert judged.objective == pytest.approx(solution.objective, rel=1e-6)


def test_a_look_shows_what_rounding_hides(monkeypatch):
    """And is enough: what it tells is as exact as if nothing had been rounded."""
    seen = looks(monkeypatch)
    p = problem("rbf", lambda_=64.0)
    solution = solve(p, 1e-5, solver="dcd", starts=1)
    assert len(seen) == 1 and seen[0] == (solution.objective, solution.gap)
    assert_confirmed(p, solution, 1e-5)


def test_where_the_look_shows_a_larger_gap_the_rounds_go_on(monkeypatch):
    """With values in double precision: single precision does not lead to such a gap."""
    seen, taken, made, usual = looks(monkeypatch), [], [], values.at_hand

    def at_hand(*given):
        assert not any(matrix() is not None for matrix in made)  # never both are in memory
        found = usual(*given)
        taken.append(found.gram.dtype)
        made.append(weakref.ref(found.gram.matrix()))
        return found

    monkeypatch.setattr(values, "at_hand", at_hand)
    p = problem("rbf", lambda_=64.0)
    solution = solve(p, 1e-9, solver="dcd", starts=1)
    assert len(seen) == 1 and seen[0][1] > 1e-9
    assert taken == [np.float32, np.float64]
    assert_confirmed(p, solution, 1e-9)


@pytest.mark.parametrize("is_late", [False, True])
def test_an_end_before_the_tolerance(is_late, monkeypatch):
    """The gap is looked at, if there is time."""
    p, seen = problem("rbf", lambda_=64.0), looks(monkeypatch)
    monkeypatch.setattr(deadline, "is_over", lambda: is_late)
    solution = rounds.solve(p, Stop(1e-9, 10), Way(np.inf), starts=1)
    judged = certificate(p, solution)
    assert not solution.converged and judged.gap <= solution.gap
    assert len(seen) == (not is_late)
    if not is_late:
        assert solution.gap == pytest.approx(judged.gap, rel=1e-6, abs=1e-12)


def test_other_starts_know_what_the_first_has_seen():
    """Their bounds are those of the values that they have, so that they converge, too."""
    p = problem("rbf", lambda_=2.0**10)
    found = solve(p, 1e-5, solver="dcd", starts=7)
    exact = rounds.solve(values.at_hand(p, None, None), Stop(1e-5, 20000), Way(np.inf), starts=7)
    assert found.objective == pytest.approx(exact.objective, rel=1e-6)
    assert found.objective < 0.9995 * solve(p, 1e-5, solver="dcd", starts=1).objective
