"""Write the generated tables of docs/solvers.md again: ``make man``, or run this file.

A table stands between two comments, ``<!-- NAME -->`` and ``<!-- end -->``; what the package
knows of NAME takes its place.
"""

from __future__ import annotations

import re
from pathlib import Path

from odmtool.cli.solver_tables import markdown

PAGE = Path(__file__).parent / "solvers.md"
TABLES = {"solvers": markdown}


def rendered(text: str) -> str:
    """The text of the page with its tables as they are now."""
    for name, table in TABLES.items():
        pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
        text, count = re.subn(
            pattern, lambda found, t=table: f"{found[1]}{t()}\n{found[2]}", text, flags=re.DOTALL
        )
        assert count == 1, name
    return text


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
