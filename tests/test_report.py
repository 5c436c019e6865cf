"""What the commands say while they work."""

import itertools
from types import SimpleNamespace

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
        Stage("landmarks", 0), Stage("landmarks", 7), Stage("span", 1), Stage("certificate", 400),
        Stage("features", 400), Stage("passes", 1, 30), Stage("passes", 2, 30),
        Stage("passes", 12, 30), Stage("passes", 31, 30), Stage("passes", 31, 0), None,
    ]  # fmt: skip
    with report.phase("training", 1e-3):
        for stage in stages:
            clock.now += reports.LOG_SECONDS
            report.enter(stage)
            report._show()
    assert [line.split(": ", 1)[1] for line in capsys.readouterr().err.splitlines()] == [
        "training, choosing landmarks, 0:10 elapsed",
        "training, choosing more than 7 landmarks, 0:20 elapsed",
        "training, solving with 1 landmark, 0:30 elapsed",
        "training, bounding the gap with 400 landmarks, 0:40 elapsed",
        "training, preparing passes over the kernel matrix, 0:50 elapsed",
        "training, pass 1 of about 30, 1:00 elapsed",
        "training, pass 2 of about 30, 1:10 elapsed",
        # Ten in ten seconds, and with this one 19 more.
        "training, pass 12 of about 30, 1:20 elapsed, about 0:19 left",
        "training, pass 31, 1:30 elapsed",
        "training, pass 31, 1:40 elapsed",
        "training, 1:50 elapsed",
    ]
    report.enter(Stage("span", 1))  # nobody is shown it
    enter(ignore_progress, Stage("span", 1))


def test_the_time_left_is_counted_down_until_it_is_over(monkeypatch):
    clock = moved_by_hand(reports, monkeypatch)
    phase = reports._Phase("training", 1e-3)
    for now, gap in ((10.0, 0.1), (20.0, 0.01)):
        clock.now = now
        phase.add(Progress(1, 1.0, gap, 7))
    phase.enter(Stage("passes", 2, 30))
    assert phase.line().endswith("0:20 elapsed, about 0:10 left")
    clock.now = 26.0
    assert phase.line().endswith("0:26 elapsed, about 0:04 left")
    clock.now = 35.0
    phase.enter(Stage("passes", 7, 30))
    # Five passes in 15 seconds, and 24 to come.
    assert phase.line().endswith("0:35 elapsed, about 1:12 left")


def test_a_live_line_is_cut_to_the_terminal(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr(reports.shutil, "get_terminal_size", lambda: SimpleNamespace(columns=20))
    report = Report("odm-train")
    report._last_progress = -1e9
    report.live("0123456789")
    assert capsys.readouterr().err == "\rodm-train: 01234567\033[K"


@pytest.mark.parametrize("is_one, advises, most", [
    (True, True, 31), (True, True, 6), (True, True, 5), (True, False, 31), (False, True, 31),
])  # fmt: skip
def test_that_passes_take_minutes_is_said_once(is_one, advises, most, monkeypatch, capsys):
    """How many there will be is not said where there have been more."""
    clock = moved_by_hand(training, monkeypatch, now=5.0)
    heeding = training._Heeding(ODM(), Report("odm-train"), ignore_progress, advises=advises)
    told = heeding if is_one else heeding.of_problem(0)
    for stage in (Stage("span", 9), *(Stage("passes", k, most) for k in range(1, 9)), None):
        told.enter(stage)
        clock.now += 25.0
    some = f" of about {most}" if most > 5 else ""
    said = (
        "odm-train: landmarks are not enough for a gap of 0.001: passes over the kernel matrix "
        f"follow (5{some} in 2:05). --max-time SECONDS ends sooner, with the best model so "
        "far\n"
    )
    assert capsys.readouterr().err == (said if is_one and advises else "")


@pytest.mark.parametrize("most, how_long", [
    (12, "about 12, each of 15:00 or so on one processor"),
    (0, "each takes 15:00 or so on one processor"),
])  # fmt: skip
def test_that_a_pass_takes_minutes_is_said_before_it_begins(most, how_long, monkeypatch, capsys):
    clock = moved_by_hand(training, monkeypatch, now=5.0)
    heeding = training._Heeding(ODM(), Report("odm-train"), ignore_progress, advises=True)
    heeding.enter(Stage("passes", 1, most, 900.0))
    said = capsys.readouterr().err
    assert f"passes over the kernel matrix follow ({how_long}). --max-time" in said
    clock.now += 900.0
    heeding.enter(Stage("passes", 2, most, 900.0))
    assert capsys.readouterr().err == ""


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
