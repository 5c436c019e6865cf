"""What is to be run: the sets (``sets.toml``), the tables (``tables/``), and the runs of both.

A run is one cell of a table by one protocol. Tables share runs: where set, machine, grid, kernel
and protocol agree, there is one run.
"""

from __future__ import annotations

import csv
import hashlib
import re
import tomllib
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
FOLDS = 5


class DataSet(NamedTuple):
    """A set of the papers, see ``sets.toml``."""

    name: str
    names: list[str]
    files: list[str]
    group: str = "two"
    classes: list[int] | None = None
    codes: dict[str, float] = {}
    levels: list[int] = []
    fit: str = "exact"
    note: str = ""


class Protocol(NamedTuple):
    """How a machine is judged: random splits, or cross validations with several seeds.

    ``test_size`` is the share of the test part; None if every example is in one of ``folds``
    folds, and the score is that of the best setting.
    """

    splits: int
    test_size: float | None = None
    folds: int = FOLDS

    @property
    def name(self) -> str:
        return f"{self.folds}-fold" if self.test_size is None else f"test {self.test_size:g}"


class Table(NamedTuple):
    """A table of a paper, see ``tables/``."""

    name: str
    title: str
    paper: str
    table: str
    group: str
    kernel: str
    ours: str
    machines: dict[str, str]
    protocols: list[Protocol]
    left_out: dict[str, str] = {}
    widths: dict | None = None
    scale: bool = True


class Cell(NamedTuple):
    """What a paper prints; ``mark`` is "better" or "worse" by its t-test, see the report."""

    value: float
    std: float | None
    mark: str


class Run(NamedTuple):
    """A machine on a set by a protocol."""

    dataset: DataSet
    options: str
    kernel: str
    widths: tuple
    protocol: Protocol
    scale: bool

    @property
    def name(self) -> str:
        """The beginning of its files' names: speaking, and different for different runs."""
        machine = re.search(r"-s (\w+)", self.options)[1]
        rest = repr((self.options, self.widths, self.scale, self.protocol)).encode()
        own = hashlib.sha256(rest).hexdigest()[:8]
        protocol = self.protocol.name.replace(" ", "")
        return f"{self.dataset.name}.{machine}.{self.kernel}.{protocol}.{own}"

    @property
    def settings(self) -> int:
        """How many settings are searched."""
        words = self.options.split()
        lists = [word for flag, word in zip(words, words[1:], strict=False) if flag in GRID_FLAGS]
        count = 1
        for values in lists:
            count *= _length(values)
        return count * max(1, len(self.widths[1]) if self.widths else 1)


GRID_FLAGS = ("-l", "-c", "-m", "-p", "--mu1", "--mu2", "--power")


def _length(values: str) -> int:
    """How many values a list or a range has: 1,2,3 or 2^0:20:2 or 0.2:0.8:0.2."""
    total = 0
    for part in values.split(","):
        first, *rest = part.split(":")
        if rest:
            start, end, step = (float(x.rpartition("^")[2]) for x in (first, *rest))
            total += int((end - start) / step + 1e-9) + 1
        else:
            total += 1
    return total


def data_sets() -> list[DataSet]:
    """All sets of ``sets.toml``."""
    with open(HERE / "sets.toml", "rb") as stream:
        return [DataSet(name, **values) for name, values in tomllib.load(stream).items()]


def tables() -> list[Table]:
    """All tables, in the order of their files."""
    found = []
    for path in sorted((HERE / "tables").glob("*.toml")):
        with open(path, "rb") as stream:
            values = tomllib.load(stream)
        values["protocols"] = [Protocol(**protocol) for protocol in values["protocols"]]
        found.append(Table(path.stem, **values))
    return found


def printed(table: Table) -> dict[tuple[str, str], Cell]:
    """What the paper prints, by set (as printed) and machine; without what it leaves out."""
    with open(HERE / "printed.csv", newline="") as stream:
        return {
            (row["dataset"].lower(), row["method"]):
                Cell(float(row["value"]), float(row["std"]) if row["std"] else None, row["mark"])
            for row in csv.DictReader(stream)
            if (row["paper"], row["table"], row["metric"])
            == (table.paper, table.table, "accuracy") and row["value"]
        }  # fmt: skip


def sets_of(table: Table) -> tuple[dict[str, DataSet], list[str]]:
    """The table's sets by their printed names, and the names of those that are not to be had."""
    names = list(dict.fromkeys(name for name, _ in printed(table)))
    known = {name: s for s in data_sets() if s.group == table.group for name in s.names}
    return {n: known[n] for n in names if n in known}, [n for n in names if n not in known]


def run_of(table: Table, dataset: DataSet, machine: str, protocol: Protocol) -> Run:
    """The run of a cell."""
    widths = (table.widths["of"], tuple(table.widths["powers"])) if table.widths else ()
    return Run(dataset, table.machines[machine], table.kernel, widths, protocol, table.scale)


def runs(chosen: list[Table]) -> list[Run]:
    """The runs of some tables, each once."""
    found = [
        run_of(table, dataset, machine, protocol)
        for table in chosen
        for protocol in table.protocols
        for dataset in sets_of(table)[0].values()
        for machine in table.machines
    ]
    return list({run.name: run for run in found}.values())
