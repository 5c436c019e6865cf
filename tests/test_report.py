"""What the commands say while they work."""

import itertools

import pytest

from odmtool.cli import report as reports
from odmtool.cli.report import Report
from odmtool.errors import FileError
from odmtool.solvers.base import Progress


def test_the_time_left_is_said_where_it_can_be_foreseen(monkeypatch, capsys):
    """Where the gap has hardly fallen, its rate says nothing of what is to come."""

    class Clock:
        ticks = itertools.count()

        @classmethod
        def monotonic(cls) -> float:
            return float(next(cls.ticks))

    report = Report("odm-train", verbose=True)
    with report.phase("training", 1e-3):
        monkeypatch.setattr(reports, "time", Clock)
        for iteration, gap in enumerate((0.5, 0.45, 0.05, 1e-4), 1):
            report.progress(Progress(iteration, 1.0, gap, 7))
        monkeypatch.undo()
    first, hardly, much, reached = capsys.readouterr().err.splitlines()
    assert "left" not in first
    assert "gap 0.45, 7 active examples" in hardly and "left" not in hardly
    assert "left" in much
    assert reached.endswith("about 0:00 left")


@pytest.mark.parametrize("failure", [BrokenPipeError(), OSError(28, "No space left on device")])
def test_files_are_written_although_results_cannot_be(monkeypatch, failure):
    """As behind ``| head -1``."""
    told, written = [], []

    def show(line, flush):
        told.append(line)
        if len(told) == 2:
            raise failure

    monkeypatch.setattr("builtins.print", show)
    expected = BrokenPipeError if isinstance(failure, BrokenPipeError) else FileError
    with pytest.raises(expected), Report("odm-cv").first(["a", "b", "c"]):
        written.append("model")
    assert told == ["a", "b"] and written == ["model"]
