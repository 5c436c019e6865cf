"""What LIBLINEAR's -C and grid.py print and write at the end of a search.

Scripts parse the last line: ``Best C = 2  CV accuracy = 84%``, or ``2.0 0.5 84.0`` (C, gamma and
percent).
"""

from __future__ import annotations

import math
import os

from odmtool.cli import messages
from odmtool.cli.stock_options import Manner
from odmtool.errors import DataError

# Our parameter -> grid.py's name of it.
_GRID = {"cost": "c", "gamma": "g"}
_LONGEST_ROW = 100


def last_line(manner: Manner, row) -> str:
    """The line that a script reads, of the best row."""
    if manner.last_line == "C":
        return messages.best_cost(row.setting["cost"], row.accuracy)
    values = [row.setting[name] for name in manner.grid]
    return messages.best_point(values, row.accuracy)


def check_grid_table(manner: Manner) -> None:
    """Raise DataError where a table of nobody's choice would replace what is none."""
    from odmtool.io.files import open_input
    from odmtool.search.journal import is_grid_row

    if manner.table is None or manner.table_was_named or not os.path.isfile(manner.table):
        return
    with open_input(manner.table) as stream:
        first = stream.readline(_LONGEST_ROW)
    if first and not is_grid_row(first):
        raise DataError(messages.not_a_grid_table(), manner.table)


def write_grid_table(manner: Manner, rows: list) -> None:
    """The file of grid.py's -out: a line per setting."""
    from odmtool.io.files import atomic_output

    with atomic_output(manner.table) as stream:
        for row in rows:
            values = {_GRID[name]: math.log2(row.setting[name]) for name in manner.grid}
            stream.write(messages.grid_row(values, row.accuracy) + "\n")
