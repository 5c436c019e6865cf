"""The table of losses: formulas, derivatives, conjugates, and the coordinate step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive import LOSSES
from problems import OTHER_LOSSES

from odmtool.core import loss_table, losses
from odmtool.core.losses import Pieces
from odmtool.errors import UsageError
from odmtool.judge import binary as objective
from odmtool.solvers.descent import coordinate

ODM = losses.odm(16.0, 0.4, 0.3, 10)
ROWS = {"odm": ODM, **OTHER_LOSSES}
margins = st.floats(-5, 5)
duals = st.floats(-3, 3)
rows = st.sampled_from(sorted(ROWS))
positive = st.floats(0.1, 4)


def test_every_margin_loss_has_its_printed_formula():
    of_margins = [row.name for row in loss_table.MACHINES.values() if row.kind in loss_table.MARGIN]
    assert sorted(LOSSES) == sorted(of_margins)


@given(st.sampled_from(sorted(LOSSES)), margins, st.floats(0.01, 1e6), st.floats(0.01, 1),
       st.floats(0, 0.99))  # fmt: skip
def test_losses_are_the_printed_formulas(name, t, lambda_, mu, theta):
    row = loss_table.MACHINES[name]
    own = {n: v for n, v in {"mu": mu, "theta": theta}.items() if n in row.parameters}
    loss = row.loss(lambda_=lambda_, **own, total_weight=7)
    expected = LOSSES[name](t, lambda_ / 7, **own)
    found = losses.value(loss, np.array([t]))[0]
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12 * max(1.0, lambda_))


@given(rows)
def test_the_kind_is_what_the_derivative_does(name):
    loss, h = ROWS[name], 1e-9
    jumps = [
        knot for knot in {loss.lo, loss.hi}
        if abs(np.diff(losses.derivative(loss, np.array([knot, knot + h])))[0]) > 1e-6
    ]  # fmt: skip
    kinds = {0: loss_table.SMOOTH, 1: loss_table.ONE_JUMP, 2: loss_table.JUMPS}
    if loss.lo == loss.hi or len(jumps) != 1:
        assert loss.kind == kinds[len(jumps)]
    else:
        assert loss.kind == loss_table.JUMPS


@pytest.mark.parametrize(
    "bad", [dict(lambda_=0), dict(lambda_=-1), dict(lambda_=float("nan")), dict(mu=0),
            dict(mu=1.01), dict(theta=-0.1), dict(theta=1)],
)  # fmt: skip
def test_odm_refuses_parameters_out_of_range(bad):
    with pytest.raises(UsageError):
        losses.odm(**{"lambda_": 1.0, "mu": 0.5, "theta": 0.2, "total_weight": 5} | bad)


@given(rows, margins)
def test_value_agrees_with_the_judge_and_compiled_code(name, t):
    loss = ROWS[name]
    judged = objective.loss_value(loss, t)
    assert losses.value(loss, np.array([t]))[0] == pytest.approx(judged, abs=1e-12)
    assert coordinate.loss_value(loss, t) == pytest.approx(judged, abs=1e-12)


@given(rows, margins)
def test_derivative_is_the_slope_of_the_value(name, t):
    loss, h = ROWS[name], 1e-6
    if min(abs(t - loss.lo), abs(t - loss.hi)) < 1e-5:
        return
    low, high = losses.value(loss, np.array([t - h, t + h]))
    derivative = losses.derivative(loss, np.array([t]))[0]
    assert (high - low) / (2 * h) == pytest.approx(derivative, abs=1e-6)
    low, high = losses.derivative(loss, np.array([t - h, t + h]))
    slope = losses.slope(loss, np.array([t]))[0]
    assert (high - low) / (2 * h) == pytest.approx(slope, abs=1e-4)


@given(rows, st.lists(margins, min_size=1, max_size=5))
def test_pieces_know_value_derivative_and_slope(name, t):
    loss, t = ROWS[name], np.array([*t, ROWS[name].lo, ROWS[name].hi])
    weight = np.linspace(0.5, 2.0, len(t))
    scaled = losses.scaled(loss, weight)
    for found in (Pieces(loss, weight).at(t), Pieces(scaled, np.ones(len(t))).at(t)):
        assert found.values == pytest.approx(losses.value(scaled, t), rel=1e-12, abs=1e-12)
        assert found.duals == pytest.approx(-losses.derivative(scaled, t), rel=1e-12)
        assert found.slopes == pytest.approx(losses.slope(scaled, t), rel=1e-12)


@given(rows, duals)
def test_dual_value_is_the_minimum(name, eta):
    loss = ROWS[name]
    found = losses.dual_value(loss, np.array([eta]))[0]
    judged = objective.loss_dual_value(loss, eta)
    assert found == judged or found == pytest.approx(judged, abs=1e-9)
    grid = np.linspace(-60, 60, 24001)
    values = losses.value(loss, grid) + eta * grid
    if np.isfinite(found):
        assert found <= values.min() + 1e-9
        assert found == pytest.approx(values.min(), abs=1e-2)
    else:
        # No minimum: an end of the grid is, up to rounding, the lowest point.
        assert min(values[0], values[-1]) <= values.min() + 1e-12


@given(rows, duals, positive, margins)
def test_gap_share_is_never_negative_and_zero_only_at_the_optimum(name, eta, u, t):
    loss = ROWS[name]
    share = coordinate.gap_share(loss, u, t, eta)
    assert share >= -1e-10
    at_optimum = -u * losses.derivative(loss, np.array([t]))[0]
    assert coordinate.gap_share(loss, u, t, at_optimum) == pytest.approx(0, abs=1e-9)


@given(rows, positive, margins, duals, st.floats(0, 5))
def test_coordinate_step_solves_its_equation(name, u, t, eta, h):
    """-eta_new lies in the sub-differential of u l at the new margin."""
    loss = ROWS[name]
    new, slack = coordinate.coordinate_step(loss, u, t, eta, h)
    t_new = t + h * (new - eta)
    violation = objective.kkt_violation([t_new], [u], loss, [new])
    if min(abs(t_new - loss.lo), abs(t_new - loss.hi)) < 1e-9:
        # At a knot rounding decides which side the judge sees: ask on both sides.
        near = [t_new - 1e-8, loss.lo, loss.hi, t_new + 1e-8]
        violation = min(objective.kkt_violation([s], [u], loss, [new]) for s in near)
        violation = max(0.0, violation - 1e-6)
    assert violation <= 1e-9
    # Stepping again changes nothing.
    again, _ = coordinate.coordinate_step(loss, u, t_new, new, h)
    assert again == pytest.approx(new, abs=1e-9)
    if slack > 0:
        for move in (-0.99 * slack, 0.99 * slack):
            moved, _ = coordinate.coordinate_step(loss, u, t_new + move, new, h)
            assert moved == pytest.approx(new, abs=1e-9)


@given(st.floats(-4, 4), st.floats(0, 0.9))
def test_shift_shears_the_graph(t, share):
    loss = losses.scaled(ODM, np.ones(1))
    sigma = share / losses.largest_slope(ODM)
    eta = -losses.derivative(loss, np.array([t]))
    sheared = losses.shifted(loss, sigma)
    assert -losses.derivative(sheared, t + sigma * eta) == pytest.approx(eta, rel=1e-9, abs=1e-12)


@given(rows, margins, duals, positive)
def test_scaled_is_a_multiple(name, t, eta, u):
    loss, scaled = ROWS[name], losses.scaled(ROWS[name], np.array([u]))
    assert losses.value(scaled, t)[0] == pytest.approx(
        u * losses.value(loss, np.array([t]))[0], abs=1e-9
    )


# ---- on every piece, and where pieces meet: nothing is left to chance ---------------------------


def places(loss):
    """Margins beyond, on and between the knots."""
    middle = (loss.lo + loss.hi) / 2
    return np.array([
        loss.lo - 2, loss.lo - 0.25, loss.lo, middle, loss.lo / 4 + loss.hi * 0.75, loss.hi,
        loss.hi + 0.25, loss.hi + 2,
    ])  # fmt: skip


def one_sided(loss, t):
    """The derivatives from the left and from the right."""
    below = loss.left_lo + loss.slope_below * (t - loss.lo)
    inside = loss.right_lo + loss.slope_between * (t - loss.lo)
    above = loss.right_hi + loss.slope_above * (t - loss.hi)
    left = below if t <= loss.lo else inside if t <= loss.hi else above
    right = below if t < loss.lo else inside if t < loss.hi else above
    return left, right


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_the_printed_formulas_on_every_piece(name):
    row = loss_table.MACHINES[name]
    for mu, theta in ((0.3, 0.4), (1.0, 0.0), (0.05, 0.9)):
        own = {n: v for n, v in {"mu": mu, "theta": theta}.items() if n in row.parameters}
        loss = row.loss(lambda_=21.0, **own, total_weight=7)
        t = places(loss)
        expected = [LOSSES[name](x, 3.0, **own) for x in t]
        np.testing.assert_allclose(losses.value(loss, t), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_values_slopes_and_minimisers_on_every_piece(name):
    loss = ROWS[name]
    t = places(loss)
    sides = [one_sided(loss, x) for x in t]
    # A piece ends where the next one begins, and the derivative there is that of the piece below.
    assert np.array_equal(losses.derivative(loss, t), [left for left, _ in sides])
    slopes = [
        loss.slope_below if x <= loss.lo else loss.slope_between if x <= loss.hi
        else loss.slope_above for x in t
    ]  # fmt: skip
    assert np.array_equal(losses.slope(loss, t), slopes)
    # The value is the integral of the derivative, here by the trapezoid rule on each piece.
    knots = np.unique([*t, loss.lo, loss.hi])
    values = losses.value(loss, knots)
    for a, b, rise in zip(knots, knots[1:], np.diff(values), strict=False):
        area = (b - a) * (one_sided(loss, a)[1] + one_sided(loss, b)[0]) / 2
        assert rise == pytest.approx(area, rel=1e-9, abs=1e-12)
    assert losses.value(loss, np.array([loss.lo]))[0] == pytest.approx(loss.value_lo, abs=1e-15)
    assert losses.largest_slope(loss) == max(loss[2], loss[4], loss[6])
    assert losses.magnitude(loss) == max(abs(number) for number in loss)
    # Every number of a subdifferential, its ends too, has its margin as a minimiser.
    ends = {d for side in sides for d in side} | {sum(side) / 2 for side in sides}
    for g in [*ends, min(ends) - 0.5, max(ends) + 0.5]:
        found = losses.minimiser(loss, np.array([-g]))[0]
        dual = losses.dual_value(loss, np.array([-g]))[0]
        if not np.isfinite(found):
            assert dual == -np.inf
            assert not (loss.slope_below if g < loss.left_lo else loss.slope_above)
            continue
        left, right = one_sided(loss, found)
        assert left - 1e-9 <= g <= right + 1e-9
        assert dual == pytest.approx(losses.value(loss, np.array([found]))[0] - g * found)
        assert losses.nearest_dual(loss, np.array([-g]))[0] == -g
    far = losses.nearest_dual(loss, np.array([-1e9, 1e9]))
    assert far[0] == (-1e9 if loss.slope_above > 0 else -loss.right_hi)
    assert far[1] == (1e9 if loss.slope_below > 0 else -loss.left_lo)


@pytest.mark.parametrize("at_once", [2**15, 3])
@pytest.mark.parametrize("name", sorted(ROWS))
def test_losses_of_many_examples_on_every_piece(name, at_once, monkeypatch):
    monkeypatch.setattr(losses, "_EXAMPLES", at_once)
    loss = ROWS[name]
    t = places(loss)
    u = np.linspace(0.5, 2.25, len(t))
    scaled = losses.scaled(loss, u)
    for k, (field, many) in enumerate(zip(loss, scaled, strict=True)):
        assert np.array_equal(many, field * (u if k > 1 else np.ones(len(t))))
    assert np.array_equal(losses.slopes_largest(scaled), losses.largest_slope(loss) * u)
    for pieces in (Pieces(loss, u), Pieces(scaled, np.ones(len(t)))):
        functions = ((1, losses.value), (-1, losses.derivative), (1, losses.slope))
        for mine, (sign, function) in zip(pieces.at(t), functions, strict=True):
            wanted = sign * u * function(loss, t)
            np.testing.assert_allclose(mine, wanted, rtol=1e-12, atol=1e-13)


def test_equal_weights_take_no_memory():
    scaled = losses.scaled(ODM, np.full(5, 0.25))
    for k, (field, many) in enumerate(zip(ODM, scaled, strict=True)):
        assert many.tolist() == [field * (0.25 if k > 1 else 1.0)] * 5
        assert many.strides == (0,) and not many.flags.writeable
    assert all(field.shape == (0,) for field in losses.scaled(ODM, np.zeros(0)))


def test_a_sheared_loss_has_moved_margins_and_the_same_derivatives():
    """t + sigma eta, eta = -l'(t): also at the knots, and from both sides of them."""
    loss, sigma = ODM, 0.3 / losses.largest_slope(ODM)
    sheared = losses.shifted(loss, sigma)
    for t in places(loss):
        for g in one_sided(loss, t):
            moved = np.array([t - sigma * g])
            assert losses.derivative(sheared, moved)[0] == pytest.approx(g, rel=1e-12, abs=1e-12)
            before, after = (
                losses.dual_value(one, np.array([-g]))[0] for one in (loss, sheared)
            )
            # The dual of Q + sigma I, with sigma / 2 eta^2 given back.
            assert after == pytest.approx(before + sigma / 2 * g * g, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("slopes", [(0.0, 0.0), (0.7, 0.4)])
def test_a_smoothed_jump(slopes):
    """Its dual is that of the loss less a proximal term; and nothing changes at eta itself."""
    jump = losses.MarginLoss(1.0, 1.0, slopes[0], -1.5, 0.0, -0.5, slopes[1], 0.5, 0.25)
    loss = losses.scaled(jump, np.array([1.0, 2.0, 0.5]))
    width, eta = 0.2, np.array([0.3, 2.0, -0.1])
    smooth = losses.smoothed(loss, width, eta)
    sigma = width / (loss.right_hi - loss.left_lo)
    for other in (np.array([0.1, 2.9, 0.2]), eta, -loss.right_hi, -loss.left_lo):
        expected = losses.dual_value(loss, other) - sigma / 2 * (other - eta) ** 2
        assert losses.dual_value(smooth, other) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    if any(slopes):
        for other in (-loss.right_hi - 1, -loss.left_lo + 1):
            expected = losses.dual_value(loss, other) - sigma / 2 * (other - eta) ** 2
            assert losses.dual_value(smooth, other) == pytest.approx(expected, rel=1e-9)
    assert losses.derivative(smooth, np.ones(3)) == pytest.approx(-eta, abs=1e-12)


def test_the_loss_of_ldm_for_a_mean_margin():
    """mu1/M (t - b)^2 - mu2/M t + lambda/M max(0, 1 - t), less what is constant."""
    loss, b = losses.ldm(3.0, 5.0, 7.0, 4.0), 0.4
    row = losses.ldm_row(loss, b)
    for t in (-1.0, 0.5, 1.0, 1.5, 3.0):
        expected = 0.75 * (t - b) ** 2 - 1.25 * t + 1.75 * max(0.0, 1 - t)
        assert losses.value(row, np.array([t]))[0] == pytest.approx(expected, rel=1e-12)
