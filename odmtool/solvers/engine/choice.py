"""How many landmarks, and which certificate: the cheapest that a sample lets hope for."""

from __future__ import annotations

from typing import NamedTuple

from odmtool.solvers.base import Stop
from odmtool.solvers.engine.cost import Cost

STAGES = (48, 96, 160, 256, 400, 600, 900, 1300, 1800, 2500)
"""Numbers of landmarks at which is decided whether to go on."""
# Numbers of drawn rows.
# speed only: the cheapest way is guessed, and every way ends with a certificate
_DRAWN = (500, 1000, 2000, 5000, 10_000, 20_000)
# A forecast bound, as a share of the tolerance.
# speed only: the cheapest way is guessed, and every way ends with a certificate
_HOPED = 0.6


class Choice(NamedTuple):
    """A way to a certificate.

    Attributes
    ----------
    way : {"free", "drawn", "exact", "full"}
        "full": landmarks are not enough.
    seconds : float
        Expected, of one core.
    count : int
        Rows to draw.
    """

    way: str
    seconds: float
    count: int = 0


def most_landmarks(m: int, room: float, bytes_each: float) -> int:
    """As many landmarks as there is room for, and use in, among m examples."""
    return int(min(STAGES[-1], m, max(STAGES[0], room / bytes_each)))


def choose(sample, cost: Cost, stop: Stop, known: int = 0) -> Choice:
    """Add landmarks to a sample until the cheapest way to a certificate is known, or it is late.

    Parameters
    ----------
    sample
        With ``landmarks`` (:class:`~odmtool.solvers.engine.landmarks.Landmarks`) and
        ``forecast()``: what those so far will give for all examples, a
        :class:`~odmtool.solvers.engine.sample.Forecast` or one with its names.
    cost : Cost
        Of the whole problem.
    stop : Stop
    known : int
        So many landmarks were not enough.
    """
    best, landmarks, forecast, tolerance = None, sample.landmarks, None, stop.tolerance
    for r in STAGES:
        if r <= known:
            continue
        before = forecast
        landmarks.grow(r)
        forecast = sample.forecast()
        found = [*_ways(forecast, cost, tolerance), *([best] if best else [])]
        best = min(found, key=lambda choice: choice.seconds, default=None)
        is_over = landmarks.is_full or stop.is_late
        if is_over or _is_enough(r, best, before, forecast, cost, tolerance):
            break
    return best or Choice("full", 0.0)


# speed only: the cheapest way is guessed, and every way ends with a certificate
def _is_enough(r: int, best: Choice | None, before, forecast, cost: Cost, tolerance) -> bool:
    """Whether more landmarks cannot make it cheaper."""
    later = [cost.span(s) for s in STAGES if s > r]
    if not later:
        return True
    if best is None:
        # Landmarks cost more than passes that use those there are. Where Newton's method gets
        # nowhere in the span, it would not beyond it, and the forecast says nothing.
        active = forecast.active * cost.size
        is_far = forecast.exact > 3 * tolerance and forecast.inside <= tolerance
        slow = before is not None and is_far and forecast.exact > 0.5 * before.exact
        return slow and later[0] > 4 * cost.pass_over(active, is_kept=False)
    return later[0] >= best.seconds


# speed only: the cheapest way is guessed, and every way ends with a certificate
def _ways(forecast, cost: Cost, tolerance: float) -> list[Choice]:
    """The ways to a certificate with the landmarks so far."""
    hoped, span = _HOPED * tolerance, cost.span(forecast.landmarks)
    active, ways = forecast.active * cost.size, []
    if forecast.free <= hoped:
        ways.append(Choice("free", span))
    for count in _DRAWN:
        if forecast.drawn(count) <= hoped and count < cost.size / 2:
            ways.append(Choice("drawn", span + cost.rows(count, active), count))
            break
    if forecast.exact <= hoped:
        ways.append(Choice("exact", span + cost.whole(active)))
    return ways
