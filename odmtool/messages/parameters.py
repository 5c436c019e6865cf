"""Parameters out of range, and names that nothing has."""

from __future__ import annotations

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
power_range = sentence(
    "‹power:› must be a number > 0, got {power:g}"
)


def unknown_machine(name: str, machines) -> str:
    return f"unknown machine {quoted(name)}; choose {', '.join(machines)}"


def unknown_kernel(name: str, kernels) -> str:
    return f"unknown kernel {quoted(name)}; choose {', '.join(kernels)}"


def unknown_solver(name: str, solvers: tuple[str, ...]) -> str:
    return f"unknown solver {quoted(name)}; choose {', '.join(solvers)}"


def unknown_multiclass(name: str, ways) -> str:
    return f"unknown ‹multiclass› {quoted(name)}; choose {', '.join(ways)}"


def unknown_outer(name: str, loops) -> str:
    return f"unknown outer loop {quoted(name)}; choose {', '.join(loops)}"


def unknown_multi_class_loss(name: str, losses: tuple[str, ...]) -> str:
    return f"unknown loss {name}: choose one of {', '.join(losses)}"
