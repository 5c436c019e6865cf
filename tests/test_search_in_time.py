"""A search that the deadline ends keeps all that was done, and begins nothing."""


import numpy as np
import pytest
from clocks import moved_by_hand
from search_plans import VALUES, plan_of, table

from odmtool.cli import cv as cv_module
from odmtool.core import deadline
from odmtool.search import search as search_module
from odmtool.search import strategies
from odmtool.search.journal import open_journal
from odmtool.search.search import search


def ends_after(fits, plan, strategy=None, **options):
    """The rows of a search whose time is over when so many fits are done."""
    with deadline.time_limit(1e9) as limit:

        def count(part):
            options["progress"] = lambda done, total: limit.end() if done >= fits else None
            return search(part, **options)

        if strategy is None:
            return list(count(plan))
        done, rounds = [0], []

        def count_all(part):
            for row in search(part):
                done[0] += plan.n_folds
                if done[0] >= fits:
                    limit.end()
                yield row

        rows = list(strategy(plan, count_all, lambda s, m: rounds.append((s, m)), 0))
        return rows, rounds


def test_the_time_left_is_that_of_the_round(run, heart, tmp_path, monkeypatch):
    """Four settings on a part of the examples, of which two come to the second round."""
    clock, shown = moved_by_hand(cv_module, monkeypatch), []
    monkeypatch.setattr(strategies, "_SMALLEST", 60)

    def told(done, total, highest, left):
        shown.append((done, total, left))
        clock.now += 10.0 if total == 10 else 1000.0
        return ""

    monkeypatch.setattr(cv_module.messages, "search_progress", told)
    search = ["-l", "1,4,16,64", "-v", "5", "--search", "halving", "--journal", "j", heart]
    for _ in range(2):
        assert run("cv", *search).code == 0
        ends = [(done, left) for done, total, left in shown if total == 10]
        assert ends and all(left <= 10.0 * (10 - done) for done, left in ends)
        lines = (tmp_path / "j").read_bytes().splitlines(keepends=True)
        (tmp_path / "j").write_bytes(b"".join(lines[:-8]))
        shown.clear()


def test_after_the_deadline_there_are_rows_of_what_was_done_before(heart, tmp_path):
    """A chain is one gamma on one fold, of three settings; the journal goes on from there."""
    plan = plan_of(heart, VALUES)
    whole = table(search(plan))
    for fits, rows in ((1, 0), (12, 0), (13, 3), (15, 3), (16, 3), (30, 6), (60, 12)):
        assert table(ends_after(fits, plan)) == whole[:rows]
    path, identity = str(tmp_path / "j"), {"of": "this"}
    open_journal(path, identity)
    assert table(ends_after(20, plan, journal=path)) == whole[:3]
    known = open_journal(path, identity)
    assert len(known) == 21
    assert table(search(plan, finished=known, journal=path)) == whole


@pytest.mark.parametrize("jobs", [1, 2])
def test_after_the_deadline_nothing_is_begun(jobs, heart, monkeypatch):
    """No kernel values of further kernels; what other processes have done by then counts."""
    plan, run_unit, grams = plan_of(heart, VALUES), search_module.run_unit, []
    gram_of = search_module._gram
    monkeypatch.setattr(search_module, "_gram", lambda *a: grams.append(a) or gram_of(*a))
    with deadline.time_limit(1e9) as limit:

        def ends(*arguments):
            fits = run_unit(*arguments)
            limit.end()
            return fits

        monkeypatch.setattr(search_module, "run_unit", ends)
        monkeypatch.setattr(search_module, "in_processes", lambda run, tasks, jobs: map(
            lambda task: search_module.run_unit(*task), tasks))  # fmt: skip
        monkeypatch.setattr(search_module, "_SOON", -1.0 if jobs == 2 else np.inf)
        done = []
        rows = list(search(plan, jobs=jobs, progress=lambda n, total: done.append(n)))
    assert rows == [] and done == [3] and len(grams) == 1
    # As if a third process had gone on while two were told that the time is over.
    units = iter([[], [], *[run_unit(plan, [3, 4, 5], k, None) for k in range(5)]])
    monkeypatch.setattr(search_module, "_run", lambda *a: units)
    with deadline.time_limit(1e9):
        first = plan._replace(settings=plan.settings[3:6], numbers=[3, 4, 5])
        assert len(list(search(first))) == 3


def test_what_the_deadline_ends_does_not_count(heart, monkeypatch):
    """Neither in this process nor in others."""
    plan = plan_of(heart, VALUES)
    with deadline.time_limit(1e-9):
        assert list(search(plan)) == []
        monkeypatch.setattr(search_module, "_SOON", -1.0)
        monkeypatch.setattr(search_module.deadline, "is_over", lambda: False)
        assert list(search(plan, jobs=2)) == []
    (first, *_), _ = ends_after(1, plan, strategies.full)
    with deadline.time_limit(1e9) as limit:
        evaluate = search_module.evaluate_chain

        def ends_within(*arguments):
            for number, result in enumerate(evaluate(*arguments)):
                if number == 1:
                    limit.end()
                yield result

        monkeypatch.undo()
        monkeypatch.setattr(search_module, "evaluate_chain", ends_within)
        fits = search_module.run_unit(plan, [0, 1, 2], 0, None)
        assert [fit.setting for fit in fits] == [0] and first.examples == 270


def test_the_last_round_of_halving_that_was_done_counts(heart, monkeypatch):
    monkeypatch.setattr(strategies, "_SMALLEST", 25)
    plan = plan_of(heart, VALUES)
    every = 12 * plan.n_folds
    for fits, sizes, count, examples in (
        (45, [(12, 30)], 9, 30), (every, [(12, 30), (4, 90)], 12, 30),
        (every + 5, [(12, 30), (4, 90)], 12, 30),
        (every + 20, [(12, 30), (4, 90), (2, 270)], 4, 90),
    ):  # fmt: skip
        rows, rounds = ends_after(fits, plan, strategies.halving)
        assert (rounds, len(rows)) == (sizes, count)
        assert {row.examples for row in rows} == {examples}


def test_coarse_after_the_deadline_has_the_rows_that_were_done(heart):
    plan = plan_of(heart, VALUES | {"gamma": tuple(2.0**k / 13 for k in range(-6, 5))})
    rows, rounds = ends_after(20, plan, strategies.coarse)
    assert len(rows) == 4 and len(rounds) == 1
    whole = list(strategies.coarse(plan, search, lambda s, m: None, 0))
    assert table(rows) == table(whole[:4])


def test_max_time_of_a_search_from_the_command_line(run, heart, monkeypatch):
    grid_of = ["-t", "rbf", "-g", "0.1,1", "-l", "1,64,1024"]
    outcome = run("cv", *grid_of, "--max-time", "1e-9", heart)
    assert outcome.code == 1 and outcome.err.endswith(
        "stopped after --max-time 1e-09, before any setting was done: give it more time\n")
    whole = run("cv", *grid_of, "--max-time", "1000", heart)
    assert whole.code == 0 and "--max-time" not in whole.err
    show = cv_module._Progress.show

    def ends(self, done, total):
        show(self, done, total)
        if done >= 15:
            deadline._of_process.end()

    monkeypatch.setattr(cv_module._Progress, "show", ends)
    outcome = run("cv", *grid_of, "--max-time", "1000", heart)
    said = "stopped after --max-time 1000: the best of 3 of 6 settings, on 270 of 270 examples"
    assert outcome.code == 0 and said in outcome.err
    assert outcome.out.splitlines()[:3] == whole.out.splitlines()[:3]
    assert len(outcome.out.splitlines()) == 6 and "--max-time" not in outcome.out
    for wrong in (["--max-time", "0"], ["--max-time", "3", "--repeat", "2"]):
        assert run("cv", *grid_of, *wrong, heart).code == 2
