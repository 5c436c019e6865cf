"""odm-cv: search over settings by cross validation."""

from __future__ import annotations

import time
from functools import partial
from types import SimpleNamespace

import click

from odmtool import defaults
from odmtool.cli import grids, messages
from odmtool.cli import options as common
from odmtool.cli.command_lines import command_line, train_command
from odmtool.cli.files import check_training_files, naming
from odmtool.cli.machine_choice import MachineChoice, machine_choice
from odmtool.cli.machine_options import (
    FLAGS,
    PARAMETER_NAMES,
    format_option,
    machine_options,
    probability_option,
)
from odmtool.cli.pictures import PICTURE_OPTIONS, check_pictures, plot_options, write_pictures
from odmtool.cli.place_options import place_of
from odmtool.cli.repeat import REPEAT_OPTIONS, check_repeat, repeat_options, repeat_search
from odmtool.cli.report import Report, report_of
from odmtool.cli.stock_options import TrainingCommand, say_remarks
from odmtool.cli.stock_results import check_grid_table, last_line, write_grid_table
from odmtool.errors import DivergedError, UsageError

# Options that say how to search, and not what to train.
_SEARCH_ONLY = ("folds", "quiet", "verbose", "jobs", "grid", "metric", "strategy", "csv_file",
                "json_file", "seconds", "journal", "max_time", "model_file", "kdd", "arxiv",
                "cache", *PICTURE_OPTIONS, *REPEAT_OPTIONS)  # fmt: skip


@common.command(
    TrainingCommand,
    epilog="""\b
Examples:
  odm-cv heart_scale                            a small grid, 5 folds
  odm-cv -t rbf -l 2^0,2^4,2^8 -g 0.1,1 x.svm   six settings, the best at the end
  odm-cv -t rbf --grid paper -j 2 --journal x.journal -o x.model x.svm
  odm-cv -t rbf --grid paper --plot x.pdf x.svm
  odm-cv -t rbf --grid paper --repeat 30 --csv x.csv x.svm
""",
)
@click.argument("training_file")
@machine_options(many=True)
@click.option("-v", "--folds", type=common.Whole(), default=defaults.FOLDS, show_default=True,
              help="Number of folds; they depend on the labels, this number and the seed only.")
@click.option(
    "--grid",
    type=click.Choice(defaults.GRIDS),
    help="Values for each of -l, -m, -p, -g and their like that is not given; quick: "
    + ", ".join(f"{FLAGS[n]} {v}" for n, v in defaults.QUICK_GRID.items())
    + ", adapted to the data, and without -t also -t linear,rbf; tkde (also called paper), kdd and "
    "arxiv: those of the papers (GRIDS in odm-cv(1)).  [default: quick, if none of these is "
    "given, nor --repeat]",
)
@click.option("--search", "strategy", type=click.Choice(defaults.STRATEGIES),
              help="full: every setting; halving: all on few examples, the better ones on more and "
                   "more, three or fewer on all, or on about 100000 (OUTPUT in odm-cv(1)); coarse: "
                   "every fourth value first, then around the best.  [default: full; for --grid "
                   f"quick on more than {defaults.FEW_TO_SEARCH} examples halving]")
@click.option("--metric", type=click.Choice(defaults.METRICS), default="accuracy",
              show_default=True, help="Score that decides which setting is best.")
@click.option("--csv", "csv_file", metavar="FILE",
              help="Write all rows as CSV, with results by fold and gap; scores are between 0 and "
                   "1 (- is stdout, then the lines go to stderr).")
@click.option("--json", "json_file", metavar="FILE", help="Write the same and the seconds as JSON.")
@click.option("--seconds", is_flag=True, help="Write the seconds of training to --csv, too: they "
              "differ from run to run, all else does not (of --journal gaps may, by rounding).")
@click.option("--journal", metavar="FILE",
              help="Keep what is finished; after an interruption the same command resumes there.")
@click.option("--max-time", type=common.Number(), metavar="SECONDS",
              help="Stop the search after this time with the best setting so far; a warning says "
                   "of how many, and on how many examples. The training of -o comes after it.")
@click.option("-o", "--output", "model_file", metavar="MODEL_FILE",
              help="Train the best setting on all data and write the model.")
@click.option("--cache", hidden=True)
@repeat_options
@plot_options
@probability_option
@format_option
@common.voice_options
def cv(ctx, **options):
    """Cross validate a machine on TRAINING_FILE (svmlight format; gz, bz2, xz; - is stdin).

    -l, -c, -m, -p, -d, -g, -r, --mu1, --mu2, --power and --kdd take lists (0.2,0.4), ranges
    (0.2:0.8:0.2) and powers (2^0:20:2 is 2^0, 2^2, ... 2^20), -t takes lists. Every combination
    gets one line; then come the best one as a command and its accuracy. Ties go to the
    stronger regularisation, then to the smoother kernel.
    """  # fmt: skip
    from odmtool.cli import training

    if options["cache"] is not None:
        raise UsageError(messages.no_cache_for_searches())
    common.limit_threads(1)
    choice, place = machine_choice(ctx, options), place_of(options)
    job = _job(ctx, options, place)
    manner = ctx.meta["stock"].manner
    report = report_of(ctx, options, job.model_file, job.csv_file, job.json_file, manner.table)
    say_remarks(ctx, report)
    choice = grids.with_kernels(choice, _grid(choice, job))
    _, settings, first = _machine_and_settings(choice.by_kernel(), job)
    check_pictures(job, settings[:first])
    check_grid_table(manner)
    data = _read(place, choice, job, manner.table, report)
    searched = len(data.labels) * (1.0 if job.repeat is None else 1.0 - job.test_size)
    job.strategy = job.strategy or _strategy(choice, job, searched)
    choice, settled, by_kernel = _searched(choice, data, job, place, report)
    machine, settings, first = _machine_and_settings(by_kernel, job)
    settled.warn_of_unused(report)
    plan = _plan(machine, settings, place, data, job, report, bool(manner.last_line))
    plan = plan._replace(coordinates=grids.coordinates(settled, job.grid), first=first)
    if job.grid in (None, "quick"):  # others have gammas of their own
        for one in by_kernel:
            training.note_large_values(one, data.X.shape[1], report, _grid(one, job))
    training.note_no_intercept(settled, job.scale, report)
    if job.scale is None:
        widest = min(plan.settings[:first], key=lambda setting: setting.get("gamma", 0.0))
        training.warn_of_rows_apart(machine.copy(**widest), data.X, report)
    with naming(place.source.path, data.skipped):
        job.jobs = training.limit_jobs(_largest(plan, job), job.jobs, report)
    identity = _identity(plan, job, data)
    if job.repeat is not None:
        own = partial(_of_part, choice, data, plan.data, job, place)
        repeat_search(plan, identity, job, place.source.path, own, report)
        return
    from odmtool.search.search import best

    rows, tried = _search(plan, identity, job, place.source.path, report)
    winner = best(rows, plan.machine, plan.metric)
    if not winner.has_solution:
        raise plan.machine.copy(**winner.setting).no_solution()
    search_only = _search_only(plan.machine, len(data.classes))
    best_line = messages.best_setting(train_command(ctx, settled, winner.setting, search_only))
    of_winner = messages.cross_validation_accuracy(winner.accuracy)
    lines = [best_line, messages.best_score(winner, job.metric), of_winner]
    if manner.last_line:
        lines.append(last_line(manner, winner))
    with report.first(lines) as attempt:
        _write_tables(job, rows, plan, attempt)
        if manner.table is not None:
            attempt(write_grid_table, manner, rows)
        if job.model_file is not None:
            winning = plan.machine.copy(**winner.setting)
            winning.jobs = job.jobs
            attempt(_refit, command_line(ctx), winning, place, data, job, report)
        write_pictures(job, place.source.path, rows, plan, report, attempt)
    for end in grids.ends(rows, winner, tried, job.metric, first < len(settings)):
        report.note(messages.best_at_end(*end))


def _job(ctx, options: dict, place):
    """What is to be done, checked as far as that needs no data."""
    from odmtool.cli.training import refuse_scale

    job = SimpleNamespace(**options)
    check_repeat(ctx, job, place.inputs())
    if job.max_time is not None and job.max_time <= 0:
        raise UsageError(messages.must_be_positive("max_time", job.max_time))
    if job.seconds and job.csv_file is None:
        raise UsageError(messages.goes_with("--seconds", "--csv"))
    place.refuse("odm-cv")
    refuse_scale(place, job.scale)
    return job


def _strategy(choice: MachineChoice, job, m: int) -> str:
    """How m examples are searched where nobody says it."""
    is_quick = job.grid in (None, "quick") and _grid(choice, job)
    return "halving" if is_quick and m > defaults.FEW_TO_SEARCH else "full"


def _settled(choice: MachineChoice, data, job, place) -> tuple:
    """The choice for the data, and what of it is for each kernel."""
    scaling = _scaling(job, place)
    with naming(place.source.path):
        settled = choice.settled(data, scaling)
        return settled, settled.by_kernel(data, scaling)


def _searched(choice: MachineChoice, data, job, place, report: Report) -> tuple:
    """The choice, of another machine where the default finds nothing in the data, and settled."""
    from odmtool.cli import overlap

    with naming(place.source.path):
        choice = overlap.searched(choice, data, _scaling(job, place), job.seed, report)
    return choice, *_settled(choice, data, job, place)


def _scaling(job, place) -> tuple | None:
    return job.scale and (*job.scale, place.source.limit())


def _of_part(choice: MachineChoice, data, known, job, place, rows) -> tuple:
    """The machine and the settings for some of the examples, on which defaults depend."""
    _, by_kernel = _settled(choice, data.part(rows), job, place)
    machine, settings, _ = _machine_and_settings(by_kernel, job)
    return machine, grids.with_gammas(settings, known.part(rows))


def _machine_and_settings(by_kernel: list[MachineChoice], job) -> tuple:
    return grids.machine_and_settings(by_kernel, job.grid, job.repeat is not None)


def _grid(choice: MachineChoice, job) -> dict[str, str | tuple]:
    return grids.grid_of(choice, job.grid, job.repeat is not None)


def _read(place, choice: MachineChoice, job, table: str | None, report: Report):
    """The data; before, every file is checked. ``table`` is grid.py's."""
    from odmtool.cli.training import announce_compilation, read_data

    if job.journal == "-":
        raise UsageError(messages.journal_is_a_file())
    check_training_files(place.inputs(), [
        job.csv_file, job.json_file, job.model_file, job.journal, table, job.plot_file,
        job.path_file,
    ], job.journal)  # fmt: skip
    data = read_data(place, choice.class_weight, report)
    announce_compilation(report)
    return data


def _plan(machine, settings: list[dict], place, data, job, report: Report, is_stock: bool):
    """What is searched; where it is asked for as of a stock tool, a fold may lack a class."""
    from odmtool.cli.training import (
        folds_for,
        searched,
        warn_of_fewer_folds,
        warn_of_small_class,
    )
    from odmtool.search.search import SearchPlan
    from odmtool.search.validation import check_classes, folds

    kernels = {setting.get("kernel", machine.kernel) for setting in settings}
    machines = [machine.copy(kernel=kernel) for kernel in kernels]
    known, labels = searched(data, machines, job.scale, place), data.labels
    settings = grids.with_gammas(settings, known)
    with naming(place.source.path):
        n = folds_for(job.folds, len(labels))
        if job.repeat is None:  # else the training parts are checked
            may_lack = is_stock and job.probability != "1"
            check_classes(labels, n, job.metric, may_lack=may_lack)
            warn_of_small_class(labels, n, report)
        warn_of_fewer_folds(job.folds, len(labels), report)
    return SearchPlan(
        machine, settings, known, folds(labels, n, job.seed), job.metric,
        probability=job.probability == "1",
    )  # fmt: skip


def _largest(plan, job):
    """What takes the most memory at a time: all examples, or those of a round."""
    from odmtool.search.strategies import largest_round

    # Of a split the best setting is trained on the whole training part.
    return plan if job.repeat is not None else largest_round(plan, job.strategy, job.seed)


def _search(plan, identity: dict, job, data_file: str, report: Report) -> list:
    """All rows, said as they are final, and all settings that were tried."""
    from odmtool.core import deadline
    from odmtool.search.journal import open_journal
    from odmtool.search.search import search
    from odmtool.search.strategies import STRATEGIES

    finished = []
    if job.journal is not None:
        finished = open_journal(job.journal, identity)
        if finished:
            report.note(messages.resumed(job.journal, len(finished)))
    rows, progress, unfinished, tried = [], _Progress(report), [], {}
    varying = grids.varying(plan.settings)

    def evaluate(part):
        left, named = len(part.settings), part.named()
        tried.update((tuple(setting.items()), setting) for setting in part.settings)
        progress.begin(len({fit[:2] for fit in finished if fit.setting in named}))
        for row in search(part, jobs=job.jobs, finished=finished, journal=job.journal,
                          progress=progress.show):  # fmt: skip
            left -= 1
            yield row
        unfinished.append(left)

    def announce(settings: int, examples: int) -> None:
        if settings > 1:
            report.note(messages.fits_to_do(settings, plan.n_folds, examples))

    strategy = STRATEGIES[job.strategy]
    with naming(data_file), deadline.time_limit(job.max_time):
        for row in strategy(plan, evaluate, announce, job.seed):
            rows.append(row)
            progress.highest = max(progress.highest, row.score(plan.metric))
            report.result(messages.setting_row(row, varying, plan.metric))
    report.end_progress()
    if not rows:
        raise DivergedError(messages.search_without_result(job.max_time))
    if any(unfinished):
        report.warning(messages.search_ended_early(job.max_time, rows, len(tried), plan))
    elif rows[0].examples < len(plan.fold):
        report.note(messages.rates_of_some(rows[0].examples, len(plan.fold)))
    unconverged = sum(row.unconverged for row in rows)
    if unconverged:
        report.warning(messages.fits_not_converged(unconverged, plan.machine.tolerance))
    return rows, [*tried.values()]


class _Progress:
    """The live line of a search."""

    def __init__(self, report: Report):
        self._report, self.highest = report, 0.0
        self.begin(0)

    def begin(self, known: int) -> None:
        """A round, of whose fits so many are known: those before it were of other sizes."""
        self._began, self._known = time.monotonic(), known

    def show(self, done: int, total: int) -> None:
        spent = time.monotonic() - self._began
        left = spent / max(1, done - self._known) * (total - done)
        self._report.live(messages.search_progress(done, total, self.highest, left))


def _search_only(machine, classes: int) -> tuple[str, ...]:
    """The options that a training of the machine need not be told."""
    from odmtool.places.memory import uses_scheduler

    # One fit may have no tasks for the cluster on which the folds were.
    return _SEARCH_ONLY if uses_scheduler(machine, classes) else (*_SEARCH_ONLY, "scheduler")


def _identity(plan, job, data) -> dict:
    """Everything that a result depends on, for the journal."""
    from hashlib import sha256

    from odmtool import __version__

    # Memory, and where it is computed, change no result.
    machine = vars(plan.machine) | {
        "name": plan.machine.name, "memory": None,
        "settings": plan.machine.settings._replace(scheduler=None),
    }  # fmt: skip
    # It follows from the data, and journals from before it was known have it nowhere.
    if machine.get("most_in_pairs") == defaults.MOST_IN_PAIRS:
        del machine["most_in_pairs"]
    weights = None if data.weight is None else sha256(data.weight.tobytes()).hexdigest()
    return {
        "version": __version__, "data": data.fingerprint, "grid": plan.settings,
        "folds": plan.n_folds, "seed": job.seed, "metric": plan.metric,
        "search": job.strategy, "probability": job.probability,
        "machine": {name: value for name, value in machine.items() if name not in PARAMETER_NAMES}
        | {"class_weight": {str(k): v for k, v in (plan.machine.class_weight or {}).items()}},
        "weights": weights,
    } | ({} if job.scale is None else {"scale": job.scale}) | _of_some(plan, job)  # fmt: skip


def _of_some(plan, job) -> dict:
    """About how many examples the last round has, where these are not all."""
    from odmtool.search.strategies import subset_sizes

    count = subset_sizes(plan)[-1] if job.strategy == "halving" else len(plan.fold)
    return {} if count == len(plan.fold) else {"examples": count}


def _write_tables(job, rows: list, plan, attempt) -> None:
    from odmtool.cli.tables import records, write_csv, write_json

    if job.csv_file is not None:
        attempt(write_csv, job.csv_file, records(rows, plan, job.seed), job.seconds)
    if job.json_file is not None:
        attempt(write_json, job.json_file, records(rows, plan, job.seed))


def _refit(command: str, machine, place, data, job, report: Report) -> None:
    """Train on all data and write the model."""
    from odmtool.cli.training import fit, say_probabilities, scaled, write_trained_model

    data = scaled(data, job.scale, place, report)
    for sentence in fit(place, machine, data, report, probability=job.probability == "1"):
        report.warning(sentence)
    say_probabilities(machine, report)
    write_trained_model(command, job.model_file, machine, data, place, report)
