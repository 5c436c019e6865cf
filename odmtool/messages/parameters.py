"""Parameters out of range, and names that nothing has."""

from __future__ import annotations

from collections.abc import Callable

from odmtool.messages.words import quoted, sentence


def at_least(name: str, value: float, least: float) -> str:
    return f"‹{name}› must be at least {least:g}, not {value:g}"


def at_most(name: str, value: float, most: float) -> str:
    return f"‹{name}:› must be at most {most:g}, but is {value:g}"


must_be_positive = sentence("‹{name}:› must be positive, not {value:g}")
must_be_finite = sentence("‹{name}:› must be a finite number, not {value:g}")
must_not_be_negative = sentence("‹{name}:› must not be negative, but is {value:g}")
must_be_whole = sentence("‹{name}:› must be a whole number, not {value:g}")
mu_range = sentence("‹mu:› must satisfy 0 < mu <= 1, not {mu:g}")
theta_range = sentence("‹theta:› must satisfy 0 <= theta < 1, not {theta:g}")
power_range = sentence("‹power:› must be a number > 0, got {power:g}")


def _unknown(what: str) -> Callable[..., str]:
    """A sentence on a name, and what there is."""

    def said(name: str, known) -> str:
        return f"unknown {what} {quoted(name)}; choose {', '.join(known)}"

    return said


unknown_machine = _unknown("machine")
_unknown_kernel = _unknown("kernel")


def unknown_kernel(name, known) -> str:
    if callable(name):
        return (
            "‹kernel:› must be a name, not a function: give the matrix of its values with "
            "‹kernel=precomputed›"
        )
    return _unknown_kernel(name, known)


unknown_solver = _unknown("solver")
unknown_multiclass = _unknown("‹multiclass›")
unknown_outer = _unknown("outer loop")


def unknown_multi_class_loss(name: str, losses: tuple[str, ...]) -> str:
    return f"unknown loss {name}: choose one of {', '.join(losses)}"
