"""What the runs have given so far: from their journals and tables, and from earlier hours.

``results.csv`` keeps the accuracies of every run, so that the next hour of ``make papers`` goes on
from there in any clone. One line is a run: its name, which changes when its declaration does; the
day; the seconds of all its splits; the accuracies in percent, split by split.
"""

from __future__ import annotations

import csv
import datetime
import functools
import json
from pathlib import Path
from typing import NamedTuple

from declared import HERE, Run

from odmtool.search.repeats import Comparison, SplitResult, compare, summarise

SIGNIFICANT = 0.05
KEPT = HERE / "results.csv"
_COLUMNS = ("run", "day", "seconds", "accuracies")


class Found(NamedTuple):
    """Test accuracies in percent by the number of the split, and the seconds of them all."""

    scores: dict[int, float]
    seconds: float

    @property
    def mean(self) -> float:
        return summarise(list(self.scores.values())).mean

    @property
    def std(self) -> float:
        return summarise(list(self.scores.values())).std

    @property
    def count(self) -> int:
        return len(self.scores)


def folder(results: Path, run: Run) -> Path:
    """Where the files of a run are, without their endings."""
    return results / "runs" / run.name


def found(results: Path, run: Run) -> Found | None:
    """What a run has given, also if it was interrupted; None if it has given nothing."""
    given = [_in_folder(results, run), _kept(KEPT).get(run.name)]
    return max((known for known in given if known), key=lambda known: known.count, default=None)


@functools.cache
def _kept(path: Path) -> dict[str, Found]:
    return {name: _of_line(line) for name, line in _lines(path).items()}


def _lines(path: Path) -> dict[str, dict[str, str]]:
    """The lines of a file of kept results, by run."""
    if not path.exists():
        return {}
    with open(path, newline="") as stream:
        return {row["run"]: row for row in csv.DictReader(stream)}


def _of_line(line: dict[str, str]) -> Found:
    scores = [float(score) for score in line["accuracies"].split()]
    return Found(dict(enumerate(scores, 1)), float(line["seconds"]))


def keep(results: Path, runs: list[Run]) -> None:
    """Write what these runs have given in ``results`` into :data:`KEPT`, where that is news."""
    lines, today = _lines(KEPT), datetime.date.today().isoformat()
    for run in runs:
        known, kept = _in_folder(results, run), _kept(KEPT).get(run.name)
        if known and (kept is None or known.count > kept.count):
            scores = " ".join(f"{known.scores[split]:.6g}" for split in sorted(known.scores))
            values = run.name, today, f"{known.seconds:.0f}", scores
            lines[run.name] = dict(zip(_COLUMNS, values, strict=True))
    with open(KEPT, "w", newline="") as stream:
        writer = csv.DictWriter(stream, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines[name] for name in sorted(lines))
    _kept.cache_clear()


def _in_folder(results: Path, run: Run) -> Found | None:
    path = folder(results, run)
    seconds = path.with_name(path.name + ".seconds")
    time = float(seconds.read_text()) if seconds.exists() else 0.0
    read = _of_seeds if run.protocol.test_size is None else _of_journal
    scores = read(path)
    return Found(scores, time) if scores else None


def _of_journal(path: Path) -> dict[int, float]:
    journal = path.with_name(path.name + ".journal")
    if not journal.exists():
        return {}
    rows = []
    for line in journal.read_text().splitlines()[1:]:
        text = line.rpartition(" ")[0]  # behind it stands a checksum
        try:
            rows.append(SplitResult(*json.loads(text)))
        except (ValueError, TypeError):
            continue  # torn when the run was interrupted
    return {row.split: 100 * row.accuracy for row in rows}


def _of_seeds(path: Path) -> dict[int, float]:
    """The best setting's accuracy of every cross validation."""
    tables = path.parent.glob(path.name + ".seed-*.json")
    return {
        1 + int(table.stem.rpartition("-")[2]): 100 * max(r["accuracy"] for r in json.loads(text))
        for table in tables
        if (text := table.read_text())
    }


def compared(ours: Found, theirs: Found) -> Comparison | None:
    """The paired t-test over the splits that both have; None for fewer than two."""
    common = sorted(ours.scores.keys() & theirs.scores.keys())
    if len(common) < 2:
        return None
    return compare([ours.scores[n] for n in common], [theirs.scores[n] for n in common])


def outcome(comparison: Comparison | None) -> str | None:
    """``win``, ``loss`` or ``tie`` of the first at the level of 5 %."""
    if comparison is None:
        return None
    if comparison.p >= SIGNIFICANT:
        return "tie"
    return "win" if comparison.mean > 0 else "loss"


def is_finished(results: Path, run: Run) -> bool:
    """Whether all splits are done."""
    known = found(results, run)
    return known is not None and known.count >= run.protocol.splits
