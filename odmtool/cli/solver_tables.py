"""What manual pages and docs/solvers.md say of solvers, from their table."""

from __future__ import annotations

from odmtool.core.loss_table import MACHINES
from odmtool.solvers.table import PLACES, SOLVERS, Solver, machines_of

_ROWS = tuple(SOLVERS.values())
# Those that have iterations of their own.
_COUNTED = tuple(row for row in _ROWS if row.ways[0].limit is not None)


def _limits(row: Solver) -> dict[str, int]:
    """The machines that have another limit than most, and their limits."""
    return {
        machine.name: way.limit
        for machine in MACHINES.values()
        for way in row.ways
        if machine.kind in way.losses and way.limit not in (None, row.ways[0].limit)
    }


def machines_text(row: Solver) -> str:
    """The machines that a solver takes, linear and with a kernel."""
    linear, kernel = machines_of(row.name, "linear"), machines_of(row.name, "rbf")
    if linear == kernel:
        return f"linear or with a kernel: {', '.join(linear)}"
    parts = [("linear", linear), ("with a kernel", kernel)]
    return "; ".join(f"{what}: {', '.join(names)}" for what, names in parts if names)


def manual() -> str:
    """The entries of a manual page, in the words of ``man/*.in``."""
    return "\n\n".join(f"- `{row.name}` {_entry(row)}" for row in _ROWS)


def _entry(row: Solver) -> str:
    sentences = f"{row.title}; {machines_text(row)}. {row.about}".rstrip()
    return f"{sentences} At most {_iterations(row)}." if row in _COUNTED else sentences


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
