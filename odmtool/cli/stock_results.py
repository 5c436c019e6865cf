"""What LIBLINEAR's -C and grid.py print and write at the end of a search.

Scripts parse the last line: ``Best C = 2  CV accuracy = 84%``, or ``2.0 0.5 84.0`` (C, gamma and
percent).
"""

from __future__ import annotations

import math

from odmtool.cli import messages

# Our parameter -> grid.py's name of it.
_GRID = {"cost": "c", "gamma": "g"}


def last_line(manner: str, row) -> str:
    """The line that a script reads, of the best row."""
    if manner == "C":
        return messages.best_cost(row.setting["cost"], row.accuracy)
    values = [row.setting[name] for name in _GRID if name in row.setting]
    return messages.best_point(values, row.accuracy)


def write_grid_table(path: str, rows: list) -> None:
    """The file of grid.py's -out: a line per setting."""
    from odmtool.io.files import atomic_output

    with atomic_output(path) as stream:
        for row in rows:
            values = {
                short: math.log2(row.setting[name])
                for name, short in _GRID.items()
                if name in row.setting
            }
            stream.write(messages.grid_row(values, row.accuracy) + "\n")
