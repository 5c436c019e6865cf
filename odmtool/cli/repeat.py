"""odm-cv --repeat: the search on random splits into training and test part, and comparisons."""

from __future__ import annotations

import time
from collections.abc import Callable

import click

from odmtool.cli import grids, messages
from odmtool.cli.files import naming
from odmtool.cli.machine_choice import given_options
from odmtool.cli.options import Number, Whole, stacked
from odmtool.cli.report import Report
from odmtool.errors import DataError, UsageError

REPEAT_OPTIONS = ("repeat", "test_size", "against")

MOST_SPLITS = 100_000

# There is no best setting of all splits to train, to write, to draw or to time.
_NOT_WITH_REPEAT = ("model_file", "plot_file", "path_file", "seconds")

repeat_options = stacked([
    click.option("--repeat", type=Whole(least=1), metavar="R",
                 help="Split the data R times at random, search in each training part, and "
                      "test the best setting on the rest."),
    click.option("--test-size", type=Number(), default=0.2, show_default=True,
                 help="Share of the test part, with --repeat."),
    click.option("--against", metavar="FILE",
                 help="With --repeat: compare with the --csv table of another run on the "
                      "same splits (--repeat R --csv FILE), by a paired t-test."),
])  # fmt: skip


def check_repeat(ctx: click.Context, job, inputs: list[str]) -> None:
    """Raise UsageError for what does not go together.

    Parameters
    ----------
    job : types.SimpleNamespace
        The options of odm-cv.
    inputs : list of str
        The training data, and perhaps their weights.
    """
    given, flags = given_options(ctx), {param.name: param.opts[0] for param in ctx.command.params}
    if job.repeat is None:
        for name in REPEAT_OPTIONS:
            if name in given:
                raise UsageError(messages.goes_with(flags[name], "--repeat"))
        return
    for name in _NOT_WITH_REPEAT:
        if name in given:
            raise UsageError(messages.not_with_repeat(flags[name]))
    # Nor is there one for the line with which a search of LIBLINEAR or grid.py ends.
    if ctx.meta["stock"].manner.flag:
        raise UsageError(messages.not_with_repeat(ctx.meta["stock"].manner.flag))
    if job.max_time is not None:
        raise UsageError(messages.not_together("--max-time", "--repeat"))
    if job.repeat > MOST_SPLITS:
        raise UsageError(messages.at_most("repeat", job.repeat, MOST_SPLITS))
    if not 0 < job.test_size < 1:
        raise UsageError(messages.test_size_range(job.test_size))
    if job.against is not None:
        if job.repeat < 2:
            raise UsageError(messages.against_needs_two())
        if job.against == "-" and "-" in inputs:
            raise UsageError(messages.two_from_stdin("the data", "the table of --against"))


def repeat_search(plan, identity: dict, job, data_file: str, own: Callable, report: Report) -> None:
    """Do every split, say it when it is final, write the tables, and compare.

    Parameters
    ----------
    plan : Plan
        Of all data.
    identity : dict
        What a search's journal is checked for.
    job : types.SimpleNamespace
        The same; ``jobs`` are the processes for which there is memory.
    data_file : str
        As the user wrote it.
    own : callable
        From the rows of a training part to its machine and settings.
    """
    from odmtool.cli.tables import split_records, write_csv, write_json
    from odmtool.search.repeats import Protocol, check_protocol, splits, summarise

    with naming(data_file):
        chosen = splits(plan.data.labels, job.repeat, job.test_size, job.seed)
        check_protocol(Protocol(plan, chosen, job.seed, job.strategy))
        chosen = [_settled(plan, split, own) for split in chosen]
        protocol = Protocol(plan, chosen, job.seed, job.strategy)
    theirs = _table_to_compare(chosen, job)
    if job.strategy == "full":
        settings = len(plan.at_first().settings)
        report.note(messages.split_fits_to_do(settings, plan.n_folds, len(chosen)))
    results = _results(protocol, identity, job, data_file, report)
    lines = [messages.test_score("accuracy", summarise([r.accuracy for r in results]))]
    if plan.metric != "accuracy":
        scores = summarise([result.score for result in results])
        lines.insert(0, messages.test_score(plan.metric, scores))
    if theirs is not None:
        lines += _compared(results, theirs, job.against)
    table = split_records(protocol, results)
    with report.first(lines) as attempt:
        for path, write in ((job.csv_file, write_csv), (job.json_file, write_json)):
            if path is not None:
                attempt(write, path, table)


def _settled(plan, split, own: Callable):
    """The split, with a machine and settings of its own where its training part has others."""
    machine, settings = own(split.train)
    if settings == plan.settings and machine.class_weight == plan.machine.class_weight:
        return split
    return split._replace(machine=machine, settings=settings)


def _table_to_compare(chosen: list, job) -> list | None:
    """The scores of the other run, checked before the long work."""
    if job.against is None:
        return None
    from odmtool.cli.tables import read_splits
    from odmtool.io.files import display_name

    table = read_splits(job.against, job.metric)
    if [row.fingerprint for row in table] != [split.fingerprint for split in chosen]:
        raise DataError(messages.other_splits(), display_name(job.against))
    return [row.score for row in table]


def _results(protocol, identity: dict, job, data_file: str, report: Report) -> list:
    from odmtool.search.journal import open_journal
    from odmtool.search.repeats import SplitResult, repeat

    finished = []
    if job.journal is not None:
        identity = identity | {"repeat": job.repeat, "test size": job.test_size}
        if any(split.settings for split in protocol.splits):
            # A journal of before, when defaults were those for all data, is another one.
            identity["defaults"] = "of the training parts"
        finished = open_journal(job.journal, identity, SplitResult)
        if finished:
            report.note(messages.splits_resumed(job.journal, len(finished)))
    results, began, plan = [], time.monotonic(), protocol.plan
    settings = {split.number: protocol.plan_of(split).settings for split in protocol.splits}
    varying = grids.varying([setting for some in settings.values() for setting in some])

    def progress(done: int) -> None:
        new, total = done - len(finished), job.repeat
        left = (time.monotonic() - began) / new * (total - done) if new else None
        report.live(messages.split_progress(done, total, left))

    with naming(data_file):
        for result in repeat(protocol, jobs=job.jobs, finished=finished,
                             journal=job.journal, progress=progress):  # fmt: skip
            results.append(result)
            setting = settings[result.split][result.setting]
            report.result(messages.split_row(result, setting, varying, plan.metric))
    report.end_progress()
    unconverged = sum(result.unconverged for result in results)
    if unconverged:
        report.warning(messages.fits_not_converged(unconverged, plan.machine.tolerance))
    return results


def _compared(results: list, theirs: list[float], path: str) -> list[str]:
    from odmtool.search.repeats import compare

    # For accuracy the score is the accuracy.
    comparison = compare([result.score for result in results], theirs)
    return [messages.difference(comparison, path), messages.paired_t_test(comparison)]
