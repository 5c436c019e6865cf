"""What the runs have given so far, from their journals and tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from declared import Run

from odmtool.search.repeats import Comparison, SplitResult, compare, summarise

SIGNIFICANT = 0.05


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
        int(table.stem.rpartition("-")[2]): 100 * max(r["accuracy"] for r in json.loads(text))
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
