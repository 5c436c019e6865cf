"""odm-scale and range files."""

from __future__ import annotations

from odmtool.messages.words import quoted


def range_start(line: bytes, after_labels: bool) -> str:
    expected = "'x' after the label range" if after_labels else "'x' or 'y'"
    return f"not a range file: expected {expected}, got {quoted(line)}"


def range_ended(expected: str) -> str:
    return f"the range file ends too early: expected {expected}"


def range_cut() -> str:
    return "the last line has no line end; the range file may have been cut off"


def range_pair(expected: str, line: bytes) -> str:
    return f"expected two numbers '{expected}', got {quoted(line)}"


def range_row(line: bytes) -> str:
    return f"expected 'index min max', got {quoted(line)}"


def range_index(token: bytes) -> str:
    return f"a feature index must be a whole number from 1 to 2147483647, got {quoted(token)}"


def range_descending(index: int, previous: int) -> str:
    return f"feature indices must rise: {index} comes after {previous}"


def range_number(token: bytes) -> str:
    return f"expected a finite number, got {quoted(token)}"


def range_order(low: float, high: float) -> str:
    return f"the lower number must come first, got {low:.17g} and {high:.17g}"


def scaling_overflow(value: float, minimum: float, maximum: float) -> str:
    return (
        f"the value {value:.17g} is too far outside the range [{minimum:.17g}, {maximum:.17g}] "
        f"to be scaled"
    )
