"""What a solver does not take, and which solvers do."""

from __future__ import annotations

from odmtool.messages.words import listed

_WHERE = {"memory": "", "disk": " with ‹cache›", "workers": " with several files"}


def _take(solvers, before: str) -> str:
    """The solvers that serve, if there are any."""
    return f"{before}take ‹solver› {listed(solvers, 'or')}" if solvers else ""


def solver_not_for_loss(name: str, place: str, machines, others) -> str:
    taken = listed([f"‹machine={machine}›" for machine in machines], "or")
    return f"‹solver={name}›{_WHERE[place]} is for {taken}{_take(others, '; ')}"


def solver_is_linear(name: str, place: str, others) -> str:
    return (
        f"‹solver={name}›{_WHERE[place]} is for linear machines; leave ‹kernel› out"
        f"{_take(others, ', or ')}"
    )


def solver_not_linear(name: str, place: str, others) -> str:
    return (
        f"‹solver={name}›{_WHERE[place]} is for kernels; write ‹kernel=rbf›{_take(others, ', or ')}"
    )


def solver_needs_rows(name: str, place: str, others) -> str:
    return (
        f"‹solver={name}›{_WHERE[place]} needs the examples, not ‹kernel=precomputed›"
        f"{_take(others, '; ')}"
    )


def solver_not_there(name: str, place: str, others) -> str:
    if place == "disk":
        return f"‹solver={name}› needs all data in memory{_take(others, '; with ‹cache› ')}"
    return (
        "several files, read by the workers of ‹scheduler›, are for ‹solver› "
        f"{listed(others, 'or')}"
    )
