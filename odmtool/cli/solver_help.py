"""What help texts, manual pages and docs/solvers.md say of solvers, from their table."""

from __future__ import annotations

from odmtool.core.loss_table import MACHINES
from odmtool.messages.words import listed
from odmtool.solvers.table import MEMORY, PLACES, SOLVERS, Solver, machines_of

# A solver for no more machines than these is said to be theirs.
_FEW = 2
_ROWS = tuple(SOLVERS.values())
# Those that have iterations of their own.
_COUNTED = tuple(row for row in _ROWS if row.ways[0].limit is not None)


def _only(row: Solver) -> list[str]:
    """What a solver is restricted to, in a few words."""
    here = [way for way in row.ways if MEMORY in way.places]
    words = [] if any(way.kernel for way in here) else ["linear"]
    words += [] if any(way.linear for way in here) else ["with a kernel"]
    machines = machines_of(row.name)
    return words + (machines if len(machines) <= _FEW else [])


def _limits(row: Solver) -> dict[str, int]:
    """The machines that have another limit than most, and their limits."""
    return {
        machine.name: way.limit
        for machine in MACHINES.values()
        for way in row.ways
        if machine.kind in way.losses and way.limit not in (None, row.ways[0].limit)
    }


def solver_help() -> str:
    """The help text of ``--solver``."""
    entries = []
    for row in _ROWS:
        words = "; ".join([row.title, *filter(None, [", ".join(_only(row))])])
        entries.append(f"{row.name} ({words})")
    return "; ".join(entries) + "."


def max_iter_help() -> str:
    """The help text of ``--max-iter``."""
    names: dict[str, list[str]] = {}
    for row in _COUNTED:
        names.setdefault(row.iteration, []).append(row.name)
    counted = listed([f"{what} ({', '.join(of)})" for what, of in names.items()], "or")
    limits = []
    for row in _COUNTED:
        others = ", ".join(f"{name} {limit}" for name, limit in _limits(row).items())
        limits.append(f"{row.name} {row.ways[0].limit}{others and f' ({others})'}")
    return (
        f"Maximum number of iterations: {counted}; mcodm's for each of its starts.  "
        f"[default: {', '.join(limits)}]"
    )


def machines_text(row: Solver) -> str:
    """The machines that a solver takes, linear and with a kernel."""
    linear, kernel = machines_of(row.name, "linear"), machines_of(row.name, "rbf")
    if linear == kernel:
        return f"linear or with a kernel: {', '.join(linear)}"
    parts = [("linear", linear), ("with a kernel", kernel)]
    return "; ".join(f"{what}: {', '.join(names)}" for what, names in parts if names)


def manual() -> str:
    """The entries of a manual page, in the words of ``man/*.in``."""
    return "\n\n".join(
        f"- `{row.name}` {row.title}; {machines_text(row)}. {row.about}".rstrip() for row in _ROWS
    )


def markdown() -> str:
    """The table of docs/solvers.md."""
    lines = ["| `--solver` | what it is | machines, linear | machines, with a kernel | from | "
             "most iterations |", "| --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for row in _ROWS:
        linear, kernel = (", ".join(machines_of(row.name, name)) for name in ("linear", "rbf"))
        places = [place for place in PLACES if any(place in way.places for way in row.ways)]
        cells = [f"`{row.name}`", row.title, linear, kernel, ", ".join(places), _iterations(row)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _iterations(row: Solver) -> str:
    if row not in _COUNTED:
        return row.iteration
    others = "".join(f"; {name} {limit}" for name, limit in _limits(row).items())
    return f"{row.ways[0].limit} {row.iteration}{others}"
