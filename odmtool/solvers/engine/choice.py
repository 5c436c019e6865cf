"""How many landmarks, and which certificate: the cheapest that a sample lets hope for."""

from __future__ import annotations

import math
from typing import NamedTuple

from odmtool.solvers.base import Stop
from odmtool.solvers.engine.cost import NEAR, Cost

# speed only: the gap decides which number is enough
STAGES = (48, 96, 160, 256, 400, 600, 900, 1300, 1800, 2500)
"""Numbers of landmarks at which is decided whether to go on."""
# Numbers of drawn rows.
# speed only: the cheapest way is guessed, and every way ends with a certificate
DRAWN = (500, 1000, 2000, 5000, 10_000, 20_000)
# A forecast bound, as a share of the tolerance.
# speed only: the cheapest way is guessed, and every way ends with a certificate
_HOPED = 0.6
# Forecasts whose trend is believed: a power of the number of landmarks, which will be larger.
# speed only: the cheapest way is guessed, and every way ends with a certificate
_FORECASTS, _FASTER = 3, 1.0
# A model of landmarks is worth so many times the seconds of one with all duals, or of that by one
# pass, which is sure; and some more.
# speed only: the cheapest way is guessed, and every way ends with a certificate
_COMPACT, _SURE, _MORE = 3.0, 1.5, 0.3
# Newton's method from far away takes longer than the forecast: so many times as long.
# speed only: the cheapest way is guessed, and every way ends with a certificate
_DEARER = 2.0
# So many times the forecast, a gap is not what the sample shows.
# speed only: the cheapest way is guessed, and every way ends with a certificate
_MISLED = 3.0


class Choice(NamedTuple):
    """A way to a certificate."""

    way: str  # "free", "drawn", "exact", or "full": landmarks are not enough
    seconds: float  # expected, of one core
    count: int = 0  # rows to draw
    forecast: object = None  # a Forecast, by the landmarks that were chosen


def most_landmarks(m: int, room: float, bytes_each: float, least: int = STAGES[0]) -> int:
    """As many landmarks as there is room for, and use in, among m examples."""
    return int(min(STAGES[-1], m, max(least, room / bytes_each)))


def choose(sample, cost: Cost, stop: Stop, known: int = 0, further: int = 0) -> Choice:
    """Add landmarks to a sample until the cheapest way to a certificate is known, or it is late.

    Parameters
    ----------
    sample
        With ``landmarks`` (:class:`~odmtool.solvers.engine.landmarks.Landmarks`), ``is_hidden``
        (single precision hides the solution), and ``forecast(enough)``: what those so far will
        give for all examples, a :class:`~odmtool.solvers.engine.sample.Forecast` or one with its
        names.
    cost : Cost
        Of the whole problem.
    known : int
        So many landmarks were not enough.
    further : int
        So many more may be.
    """
    best, landmarks, tolerance, seen = None, sample.landmarks, stop.tolerance, []
    for r in sorted({known + further, *STAGES}):
        if r <= known:
            continue
        landmarks.grow(r)
        seen.append(sample.forecast(_HOPED * tolerance))
        own = cost._replace(is_hidden=sample.is_hidden)
        found = [*_ways(seen[-1], own, tolerance), *([best] if best else [])]
        best = min(found, key=lambda choice: choice.seconds, default=None)
        is_over = landmarks.is_full or stop.is_late
        if is_over or not _is_more_worth(best, seen, own, landmarks.points.size, tolerance):
            break
    best = best or Choice("full", 0.0)
    return best._replace(forecast=seen[-1]) if seen else best


# speed only: the cheapest way is guessed, and every way ends with a certificate
def instead(
    taken: Choice, cost: Cost, tolerance: float, slope: float | None, has_matrix: bool
) -> str | None:
    """The solver of the whole matrix that is cheaper, where landmarks are not enough, or None.

    Parameters
    ----------
    slope : float or None
        The largest u l'' k(x, x), with which epochs of coordinate descent grow, if it can have
        the problem.
    has_matrix : bool
        Newton's method on the whole matrix can.
    """
    seen = taken.forecast
    if seen is None or taken.way != "full":
        return None
    active, excess = seen.active * cost.size, seen.exact / tolerance
    beyond = cost.beyond(active, excess, seen.demanded / tolerance)
    if slope is not None and cost.descent(slope, tolerance) <= _DEARER * beyond:
        return "dcd"
    if has_matrix and cost.matrix(active) <= cost.apart(active, seen.demanded):
        return "newton"
    return None


# speed only: the cheapest way is guessed, and every way ends with a certificate
def is_misled(taken: Choice, gap: float) -> bool:
    """Whether the relative gap that a way ended with is not what the sample shows.

    It may not show few examples that are far from it, which its landmarks do not span, however
    many there are; or rounding errors are larger than on the sample.
    """
    seen = taken.forecast
    if seen is None or taken.way == "full":
        return False
    return gap > _MISLED * (seen.free if taken.way == "free" else seen.exact)


# speed only: the cheapest way is guessed, and every way ends with a certificate
def is_better_left(
    taken: Choice, gap: float, cost: Cost, tolerance: float, further: int = 0
) -> bool:
    """Whether Newton's method beyond the landmarks is cheaper than more of them, after all.

    Parameters
    ----------
    taken : Choice
        The way that was taken.
    gap : float
        What it ended with, relative.
    further : int
        So many more are enough, if it is known.
    """
    seen = taken.forecast
    later = [s for s in STAGES if s > seen.landmarks]
    r = seen.landmarks + further if further else min(later, default=None)
    active = seen.active * cost.size
    stays = cost.beyond(active, gap / tolerance, seen.demanded / tolerance)
    # A few are worth a try: what the sample did not show may keep Newton's method busy.
    stays += _MORE if further else 0.0
    return r is None or stays < cost.span(r, is_certified=True) + cost.whole(active)


# speed only: the cheapest way is guessed, and every way ends with a certificate
def _is_more_worth(best: Choice | None, seen: list, cost: Cost, drawn: int, tolerance) -> bool:
    """Whether more landmarks make it cheaper than the best way so far, or Newton's method, is.

    Parameters
    ----------
    seen : list of Forecast
        By the landmarks so far.
    drawn : int
        Size of the sample.
    tolerance : float
    """
    now = seen[-1]
    later = [s for s in STAGES if s > now.landmarks]
    if best is not None or not later:
        return bool(later) and cost.span(later[0]) < best.seconds
    # Where Newton's method gets nowhere in the span, it would not beyond it, and the forecast
    # says nothing.
    if len(seen) < _FORECASTS or now.inside > tolerance:
        return True
    before, active, spent = seen[-_FORECASTS], now.active * cost.size, 0.0
    power = math.log(max(before.exact, now.exact) / now.exact)
    power /= math.log(now.landmarks / before.landmarks)
    excess, demanded = now.exact / tolerance, now.demanded / tolerance
    stays = cost.span(now.landmarks) + cost.beyond(active, excess, demanded)
    most = (_SURE if demanded <= NEAR else _COMPACT) * stays + _MORE
    on_sample = cost._replace(size=drawn)
    for r in later:
        spent += on_sample.span(r)
        trend = (now.landmarks / r) ** power
        hoped, seconds = trend * (now.landmarks / r) ** _FASTER, spent + cost.span(r)
        if excess * hoped <= _HOPED:
            return seconds + cost.whole(active) < most
        # The demanded duals have a gap that is about a square.
        if seconds + cost.beyond(active, excess * trend, demanded * hoped**2) < stays:
            return True
    return False


# speed only: the cheapest way is guessed, and every way ends with a certificate
def _ways(forecast, cost: Cost, tolerance: float) -> list[Choice]:
    """The ways to a certificate with the landmarks so far."""
    hoped, span = _HOPED * tolerance, cost.span(forecast.landmarks, is_certified=True)
    active, ways = forecast.active * cost.size, []
    if forecast.free <= hoped:
        ways.append(Choice("free", span))
    if not forecast.outsides:
        return ways
    for count in DRAWN:
        if forecast.drawn(count) <= hoped and count < cost.size / 2:
            ways.append(Choice("drawn", span + cost.rows(count, active), count))
            break
    if forecast.exact <= hoped:
        seconds = cost.span(forecast.landmarks) + cost.whole(active)
        ways.append(Choice("exact", seconds))
    return ways
