"""docs/papers.md: what ``run.py`` has found, beside what the papers print.

usage: python benchmarks/papers/report.py RESULTS DATA_DIRECTORY... > docs/papers.md

A cell agrees if our mean lies within two standard errors of the difference (of both sides) or
within one printed deviation of the paper's mean. A paper's standard error is its deviation over
the square root of its number of splits.
"""

from __future__ import annotations

import argparse
import datetime
import math
import platform
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import prepare
import results as done
from declared import HERE, Cell, DataSet, Protocol, Table, printed, run_of, runs, sets_of, tables

from odmtool import __version__

ERRORS = 2.0
# The machines that the papers are about, as their tables call them.
OWN = ("LDM", "ODM^L", "ODM", "mcODM", "M3SVM")
SMALL = ("tkde2019-2", "tkde2019-3", "tkde2019-5b", "kdd2014-2", "kdd2014-3")


class Pair(NamedTuple):
    """A cell: ours and theirs."""

    table: Table
    protocol: Protocol
    name: str
    machine: str
    ours: done.Found
    theirs: Cell

    @property
    def difference(self) -> float:
        return self.ours.mean - self.theirs.value

    @property
    def errors(self) -> float:
        """The difference in standard errors; infinite where no deviation is known."""
        variance = self.ours.std**2 / self.ours.count
        variance += (self.theirs.std or 0.0) ** 2 / self.protocol.splits
        return abs(self.difference) / math.sqrt(variance) if variance else math.inf

    @property
    def agrees(self) -> bool:
        is_near = round(abs(self.difference), 1) <= (self.theirs.std or 0.0)
        return self.errors <= ERRORS or is_near

    def __str__(self) -> str:
        mark = "" if self.agrees else "**"
        return f"{mark}{self.ours.mean:.1f}{mark} / {self.theirs.value:.1f}"


def pairs_of(table: Table, protocol: Protocol, results: Path) -> dict[tuple[str, str], Pair]:
    """The cells of a table that have a result, by set (as printed) and machine."""
    cells, (known, _) = printed(table), sets_of(table)
    return {
        (name, machine): Pair(table, protocol, name, machine, found, cells[name, machine])
        for name, dataset in known.items()
        for machine in table.machines
        if (name, machine) in cells
        and (found := done.found(results, run_of(table, dataset, machine, protocol)))
    }


def write_summary(pairs: list[Pair], out) -> None:
    """How many cells of the papers' own machines agree, by table and share of the test part."""
    print("\n## How many cells of the papers' own machines agree\n", file=out)
    print("| table | test part | machine | agree | higher | lower | mean difference |", file=out)
    print("| --- " * 7 + "|", file=out)
    groups: dict[tuple, list[Pair]] = {}
    for pair in pairs:
        if pair.machine in OWN:
            key = pair.table.name, pair.protocol.name, pair.machine
            groups.setdefault(key, []).append(pair)
    every = sum(groups.values(), [])
    small = [pair for pair in every if pair.table.name in SMALL]
    sums = {
        "all": every,
        "all, of sets with the printed size": [p for p in every if _has_printed_size(p)],
        "TKDE's tables 2, 3, 5 and KDD's 2, 3": small,
        "the same, with test parts as printed":
            [p for p in small if p.protocol == p.table.protocols[0]],
    }  # fmt: skip
    groups |= {(name, "", ""): cells for name, cells in sums.items()}
    for key, cells in groups.items():
        agree = sum(pair.agrees for pair in cells)
        higher = sum(not pair.agrees and pair.difference > 0 for pair in cells)
        share = f"{agree} of {len(cells)} ({100 * agree / max(1, len(cells)):.0f} %)"
        mean = _mean([pair.difference for pair in cells]) if cells else 0.0
        print(f"| {' | '.join(key)} | {share} | {higher} | {len(cells) - agree - higher} "
              f"| {mean:+.1f} |", file=out)  # fmt: skip


def _has_printed_size(pair: Pair) -> bool:
    dataset = sets_of(pair.table)[0].get(pair.name)
    return dataset is not None and dataset.fit == "exact"


def write_table(table: Table, protocol: Protocol, pairs: dict, out) -> None:
    """One table of a paper by one protocol, ours / theirs."""
    machines = list(table.machines)
    how = f"{protocol.folds}-fold cross validation, {protocol.splits} times"
    if protocol.test_size is not None:
        how = f"{protocol.splits} splits, {100 * protocol.test_size:g} % for testing"
    print(f"\n### {how}\n", file=out)
    print("| set | " + " | ".join(machines) + " | splits |", file=out)
    print("| --- " * (len(machines) + 2) + "|", file=out)
    for name in dict.fromkeys(name for name, _ in pairs):
        row = [pairs.get((name, machine)) for machine in machines]
        counts = {pair.ours.count for pair in row if pair}
        few = f"{min(counts)} to {max(counts)}" if len(counts) > 1 else f"{min(counts)}"
        print(f"| {name} | " + " | ".join(str(p) if p else "" for p in row) + f" | {few} |",
              file=out)  # fmt: skip
    print(file=out)
    for machine in machines:
        own = [pair for (_, m), pair in pairs.items() if m == machine]
        if own:
            agree = sum(pair.agrees for pair in own)
            print(f"* {machine}: {agree} of {len(own)} cells agree "
                  f"({100 * agree / len(own):.0f} %).", file=out)  # fmt: skip
    write_comparisons(table, pairs, out)


def write_comparisons(table: Table, pairs: dict, out) -> None:
    """Win, tie and loss of the table's own machine against every other, and average ranks."""
    names = list(dict.fromkeys(name for name, _ in pairs))
    for rival in (machine for machine in table.machines if machine != table.ours):
        both = [n for n in names if {(n, table.ours), (n, rival)} <= pairs.keys()]
        own = [done.outcome(done.compared(pairs[n, table.ours].ours, pairs[n, rival].ours))
               for n in both]  # fmt: skip
        if not any(own):
            continue
        counts = "/".join(str(own.count(word)) for word in ("win", "tie", "loss"))
        theirs = _printed_outcomes(table, rival, [n for n, o in zip(both, own, strict=True) if o])
        print(f"* {table.ours} against {rival}, wins/ties/losses by paired t-test at 5 %, over "
              f"{sum(o is not None for o in own)} sets: {counts}{theirs}.", file=out)  # fmt: skip
    whole = [n for n in names if all((n, m) in pairs for m in table.machines)]
    if whole:
        ranks = {m: _mean([_rank(pairs, n, m, table) for n in whole]) for m in table.machines}
        text = ", ".join(f"{m} {rank:.2f}" for m, rank in ranks.items())
        print(f"* Average ranks over {len(whole)} sets: {text}.", file=out)


def _printed_outcomes(table: Table, rival: str, names: list[str]) -> str:
    """What the paper's marks say of the same sets, where they are of this pair.

    TKDE marks the rival's cell: better and worse are said of its own machine. KDD and arXiv mark
    their own machine's cell, in comparison with SVM.
    """
    if table.paper == "tkde2019":
        marked = rival
    elif table.paper in ("kdd2014", "arxiv2016") and rival == "SVM":
        marked = table.ours
    else:
        return ""
    cells = printed(table)
    marks = [cells[n, marked].mark for n in names if (n, marked) in cells]
    counts = "/".join(str(marks.count(word)) for word in ("better", "", "worse"))
    return f" (the paper: {counts})"


def _rank(pairs: dict, name: str, machine: str, table: Table) -> float:
    """1 for the highest mean; ties share their ranks."""
    means = [round(pairs[name, m].ours.mean, 1) for m in table.machines]
    own = round(pairs[name, machine].ours.mean, 1)
    return 1 + sum(mean > own for mean in means) + (means.count(own) - 1) / 2


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def explanation(pair: Pair, known: list[dict]) -> str:
    """The likely cause why a cell lies outside."""
    for entry in known:
        if (pair.name in entry["sets"] and pair.table.name in entry["tables"]
                and pair.machine in entry.get("machines", [pair.machine])):  # fmt: skip
            return entry["why"]
    return "not explained"


def write_outside(pairs: list[Pair], out) -> None:
    """Every cell that does not agree, with its numbers and the likely cause."""
    with open(HERE / "explanations.toml", "rb") as stream:
        known = tomllib.load(stream)["cell"]
    print("\n## Cells that do not agree\n", file=out)
    print("| table | test part | set | machine | ours | the paper | difference | standard errors "
          "| likely cause |", file=out)  # fmt: skip
    print("| --- " * 9 + "|", file=out)
    for p in pairs:
        std = "" if p.theirs.std is None else f" ± {p.theirs.std}"
        print(f"| {p.table.name} | {p.protocol.name} | {p.name} | {p.machine} "
              f"| {p.ours.mean:.1f} ± {p.ours.std:.1f} | {p.theirs.value}{std} "
              f"| {p.difference:+.1f} | {p.errors:.1f} | {explanation(p, known)} |",
              file=out)  # fmt: skip


def write_sets(chosen: list[Table], folders: list[Path], out) -> None:
    """Which sets there are, with remarks, and which are not to be had."""
    print("\n## The sets\n", file=out)
    print("| set | files | remark |", file=out)
    print("| --- " * 3 + "|", file=out)
    seen: dict[str, DataSet] = {}
    absent: dict[str, list[str]] = {}
    for table in chosen:
        known, missing = sets_of(table)
        seen |= {s.name: s for s in known.values()}
        for name in missing:
            absent.setdefault(name, []).append(table.name)
    for s in seen.values():
        gone = prepare.missing(s, folders)
        remark = f"missing: {', '.join(gone)}" if gone else s.note
        print(f"| {', '.join(s.names)} | {', '.join(s.files)} | {remark} |", file=out)
    print("\nNot to be had: " + "; ".join(f"{n} ({', '.join(t)})" for n, t in absent.items())
          + ".", file=out)  # fmt: skip


def write_figures(out) -> None:
    """The pictures of ``figures.py`` that there are."""
    with open(HERE / "figures.toml", "rb") as stream:
        known = tomllib.load(stream)
    shown = {
        name: [p.name for p in sorted((HERE.parents[1] / "docs" / "figures").glob(f"{name}*.png"))]
        for name in known
    }
    if not any(shown.values()):
        return
    print("\n## Figures\n\nMade by `benchmarks/papers/figures.py`.", file=out)
    for name, files in shown.items():
        if files:
            print(f"\n{known[name]}\n", file=out)
            print("\n".join(f"![{name}](figures/{file})" for file in files), file=out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("data", type=Path, nargs="+")
    arguments = parser.parse_args()
    out, chosen = sys.stdout, tables()
    print((HERE / "preface.md").read_text().rstrip(), file=out)
    versions = {name: metadata.version(name) for name in ("numpy", "scipy", "numba")}
    print(f"\nMade on {datetime.date.today()} with odmtool {__version__}, Python "
          f"{platform.python_version()}, {', '.join(f'{n} {v}' for n, v in versions.items())}; "
          "seed 0.", file=out)  # fmt: skip
    wanted = runs(chosen)
    finished = sum(done.is_finished(arguments.results, run) for run in wanted)
    print(f"\n{finished} of {len(wanted)} runs are finished, others have fewer splits than the "
          "papers; where a cell is empty nothing was run.", file=out)  # fmt: skip
    found = {t.name: [(p, pairs_of(t, p, arguments.results)) for p in t.protocols] for t in chosen}
    every = [pair for made in found.values() for _, pairs in made for pair in pairs.values()]
    write_summary(every, out)
    for table in chosen:
        if not any(pairs for _, pairs in found[table.name]):
            continue
        print(f"\n## {table.title}", file=out)
        for machine, why in table.left_out.items():
            print(f"\nThe column {machine} is left out: {why}.", file=out)
        for protocol, pairs in found[table.name]:
            if pairs:
                write_table(table, protocol, pairs, out)
    write_figures(out)
    write_outside([pair for pair in every if not pair.agrees], out)
    write_sets(chosen, arguments.data, out)
    print("\n" + (HERE / "notes.md").read_text().rstrip(), file=out)


if __name__ == "__main__":
    main()
