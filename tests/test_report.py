"""What the commands say while they work."""

import itertools

import pytest
from clocks import moved_by_hand

from odmtool.cli import report as reports
from odmtool.cli import training
from odmtool.cli.report import Report
from odmtool.errors import FileError
from odmtool.machines import ODM
from odmtool.solvers.base import Progress, Stage, enter, ignore_progress


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


def test_a_line_tells_the_stage_and_the_passes_left(monkeypatch, capsys):
    """Before the first gap nothing else is known of a kernel machine's hours."""
    clock = moved_by_hand(reports, monkeypatch)
    monkeypatch.setattr(reports, "PROGRESS_SECONDS", 3600.0)
    report, stages = Report("odm-train", verbose=True), [
        Stage("landmarks", 0), Stage("span", 1), Stage("certificate", 400),
        Stage("passes", 1, 30), Stage("passes", 11, 30), Stage("passes", 31, 30), None,
    ]  # fmt: skip
    with report.phase("training", 1e-3):
        for stage in stages:
            clock.now += reports.LOG_SECONDS
            report.enter(stage)
            report._show()
    assert [line.split(": ", 1)[1] for line in capsys.readouterr().err.splitlines()] == [
        "training, choosing landmarks, 0:10 elapsed",
        "training, solving with 1 landmark, 0:20 elapsed",
        "training, bounding the gap with 400 landmarks, 0:30 elapsed",
        "training, pass 1 of about 30 over the kernel matrix, 0:40 elapsed",
        # Ten in ten seconds.
        "training, pass 11 of about 30 over the kernel matrix, 0:50 elapsed, about 0:20 left",
        "training, pass 31 over the kernel matrix, 1:00 elapsed",
        "training, 1:10 elapsed",
    ]
    report.enter(Stage("span", 1))  # nobody is shown it
    enter(ignore_progress, Stage("span", 1))


@pytest.mark.parametrize("seconds, is_long", [(12.0, True), (10.0, False)])
def test_minutes_of_passes_to_come_are_said_once(seconds, is_long, monkeypatch, capsys):
    clock = moved_by_hand(training, monkeypatch, now=5.0)
    heeding = training._Heeding(ODM(), Report("odm-train"), ignore_progress)
    for stage in (Stage("span", 9), *(Stage("passes", k, 31) for k in (1, 2, 3, 1, 2)), None):
        heeding.enter(stage)
        clock.now += seconds
    said = (
        "odm-train: landmarks are not enough for a gap of 0.001: passes over the kernel matrix "
        "follow, for about 6 minutes. --max-time SECONDS ends sooner, with the best model so far\n"
    )
    assert capsys.readouterr().err == said * is_long


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
