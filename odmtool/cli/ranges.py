"""The grammar of lists and ranges in the options of odm-cv.

==============  ==============================================================
0.2,0.4         a list; its parts may be ranges
0.2:0.8:0.2     from, to, step, both ends included: 0.2 0.4 0.6 0.8
2^0:20:2        a power, its last exponent, step: 2^0 2^2 ... 2^20
2^-4:4:2/d      (gamma) every value divided by the number of features; 0.1,1/d has one such
==============  ==============================================================
"""

from __future__ import annotations

from odmtool._pattern import Pattern
from odmtool.cli.options import parse_number

LONGEST = 10_000
_POWER = Pattern(r"(.+?)(?:\^|\*\*)(.+)")


def expand(text: str, divisors: dict[str, type[float]] | None = None) -> tuple[float, ...]:
    """The values of a list.

    ``divisors`` (dict, optional): what may stand behind the slash of a part, and the kind of number
    that it then has.

    Raises
    ------
    ValueError
        Its argument is the part that is wrong.
    NotFiniteError
        A number of that part is not finite.
    """
    values: list[float] = []
    for part in text.split(","):
        head, _, name = part.strip().rpartition("/")
        kind = (divisors or {}).get(name)
        if kind is not None and not head:
            raise ValueError(part)
        numbers = part if kind is None else head
        found = _range(numbers) if ":" in numbers else [parse_number(numbers)]
        values += found if kind is None else map(kind, found)
        if len(values) > LONGEST:
            raise ValueError(part)
    return tuple(values)


def _range(part: str) -> list[float]:
    from decimal import Decimal, InvalidOperation

    fields = part.split(":")
    if len(fields) != 3:
        raise ValueError(part)
    power = _POWER.fullmatch(fields[0].strip())
    start = power[2] if power else fields[0]
    try:
        # Decimal, so that 0.2:0.8:0.2 has 0.6 and not 0.6000000000000001.
        first, last, step = (Decimal(field.strip()) for field in (start, *fields[1:]))
        if not all(number.is_finite() for number in (first, last, step)) or step == 0:
            raise ValueError(part)
        count = int((last - first) / step) + 1
        if not 1 <= count <= LONGEST:
            raise ValueError(part)
        steps = [first + k * step for k in range(count)]
        if power is None:
            return [float(value) for value in steps]
        base = parse_number(power[1])
        return [parse_number(f"{base!r}^{value}") for value in steps]
    except (InvalidOperation, OverflowError, ValueError):
        raise ValueError(part) from None
