"""odm-cv: search over settings by cross validation."""

from __future__ import annotations

import math
import shlex
import time

import click

from odmtool import defaults
from odmtool.cli import messages
from odmtool.cli import options as common
from odmtool.cli.elsewhere import refuse_elsewhere
from odmtool.cli.machine_options import (
    FLAGS,
    MACHINE_PARAMETERS,
    PARAMETER_NAMES,
    Gamma,
    List,
    format_option,
    given,
    machine_name,
    machine_options,
    probability_option,
    refuse_lambda_and_cost,
    settle_machine,
    translate_kdd,
    warn_of_unused,
)
from odmtool.cli.pictures import PLOT_OPTIONS, check_pictures, plot_options, write_pictures
from odmtool.cli.repeat import REPEAT_OPTIONS, check_repeat, repeat_options, repeat_search
from odmtool.cli.report import Report
from odmtool.errors import DivergedError, UsageError

# Options that say how to search, and not what to train.
_SEARCH_ONLY = ("folds", "quiet", "verbose", "jobs", "grid", "metric", "strategy", "csv_file",
                "json_file", "journal", "model_file", "kdd", "cache", *PLOT_OPTIONS,
                *REPEAT_OPTIONS)  # fmt: skip


@common.command(
    epilog="""\b
Examples:
  odm-cv heart_scale                            5 folds, default setting
  odm-cv -t rbf -l 2^0,2^4,2^8 -g 0.1,1 x.svm   six settings, the best at the end
  odm-cv -t rbf --grid paper -j 2 --journal x.journal -o x.model x.svm
  odm-cv -t rbf --grid paper --plot x.pdf x.svm
  odm-cv -t rbf --grid paper --repeat 30 --csv x.csv x.svm
"""
)
@click.argument("training_file")
@machine_options(many=True)
@click.option("-v", "--folds", type=common.Whole(), default=defaults.FOLDS, show_default=True,
              help="Number of folds; they depend on the labels, this number and the seed only.")
@click.option("--grid", type=click.Choice(["paper"]),
              help="The grid of the paper, for each of these that is not given: "
                   + ", ".join(f"{FLAGS[n]} {v}" for n, v in defaults.PAPER_GRID.items()) + ".")
@click.option("--search", "strategy", type=click.Choice(defaults.STRATEGIES), default="full",
              show_default=True,
              help="full: every setting; halving: all on a small subset, the better third on one "
                   "three times as large, and so on; coarse: every fourth value first, then "
                   "around the best.")
@click.option("--metric", type=click.Choice(defaults.METRICS), default="accuracy",
              show_default=True, help="What is best.")
@click.option("--csv", "csv_file", metavar="FILE", help="Write all rows, with results by fold.")
@click.option("--json", "json_file", metavar="FILE", help="Write all rows as JSON.")
@click.option("--journal", metavar="FILE",
              help="Keep what is finished; the same command goes on there after it was killed.")
@click.option("-o", "--output", "model_file", metavar="MODEL_FILE",
              help="Train the best setting on all data and write the model.")
@click.option("--cache", hidden=True)
@repeat_options
@plot_options
@probability_option
@format_option
@common.quiet_option
@common.verbose_option
@common.version_option
@click.pass_context
def cv(ctx, **options):
    """Cross validate a machine on TRAINING_FILE (svmlight format; gz, bz2, xz; - is stdin).

    -t, -l, -c, -m, -p, -d, -g, -r, --mu1, --mu2, --power and --kdd take lists (0.2,0.4), ranges
    (0.2:0.8:0.2) and powers (2^0:20:2 is 2^0, 2^2, ... 2^20). Every combination
    gets one line; then come the best one as a command and its accuracy. Among equals the
    stronger regularisation wins, then the smoother kernel.
    """  # fmt: skip
    if options["cache"] is not None:
        raise UsageError(messages.no_cache_for_searches())
    refuse_lambda_and_cost(ctx)
    translate_kdd(options)
    check_repeat(ctx, options)
    common.limit_threads(1)
    product_on_stdout = "-" in (options["model_file"], options["csv_file"], options["json_file"])
    report = Report(ctx.command_path, options["quiet"], options["verbose"], product_on_stdout)
    values = _values(ctx, options)
    machine, settings = _machine_and_settings(options, values)
    check_pictures(options, settings)
    data = _read(options, report)
    if settle_machine(ctx, options, data.classes):
        values = _values(ctx, options)
        machine, settings = _machine_and_settings(options, values)
    warn_of_unused(ctx, options, report)
    plan = _plan(machine, settings, data, options, report)
    if options["repeat"] is not None:
        identity = _identity(plan, options, data)
        repeat_search(plan, identity, options, _varying(values), report)
        return
    from odmtool.search.search import best

    rows = _search(plan, options, values, data, report)
    winner = best(rows, plan.machine, plan.metric)
    if not winner.has_solution:
        raise DivergedError(messages.dual_unbounded())
    _write_tables(options, rows)
    if options["model_file"] is not None:
        _refit(ctx, plan.machine.copy(**winner.setting), data, options, report)
    report.result(messages.best_setting(train_command(ctx, options, winner.setting)))
    report.result(messages.best_score(winner, options["metric"]))
    report.result(messages.cross_validation_accuracy(winner.accuracy))
    write_pictures(options, rows, plan, report)


def _values(ctx, options: dict) -> dict[str, tuple]:
    """The values of every parameter that the machine has."""
    own, values = defaults.MACHINES[machine_name(options)], {}
    for name in PARAMETER_NAMES:
        if options[name] is not None:
            values[name] = options[name]
        elif name in own:
            values[name] = (own[name],)
        if options["grid"] == "paper" and name in defaults.PAPER_GRID and not given(ctx, name):
            values[name] = List(Gamma()).convert(defaults.PAPER_GRID[name], None, ctx)
    if options["cost"] is not None:
        del values["lambda_"]
    unused = set(MACHINE_PARAMETERS) - own.keys()
    return {name: value for name, value in values.items() if name not in unused}


def _machine_and_settings(options: dict, values: dict[str, tuple]):
    """The machine, and the settings, all checked."""
    from odmtool.cli.training import check_machine, make_machine
    from odmtool.search.search import MOST_SETTINGS, grid

    machine = make_machine(options | {name: chosen[0] for name, chosen in values.items()})
    if "precomputed" in values["kernel"] and len(values["kernel"]) > 1:
        raise UsageError(messages.precomputed_alone())
    count = math.prod(map(len, values.values()))
    if count > MOST_SETTINGS:
        raise UsageError(messages.too_many_settings(count, MOST_SETTINGS))
    settings = grid(values)
    for setting in settings:
        check_machine(machine.copy(**setting))
    return machine, settings


def _read(options: dict, report: Report):
    """The data; before, every file is checked."""
    from odmtool.cli.training import (
        announce_compilation,
        check_files,
        read_training_data,
    )

    refuse_elsewhere(options, "odm-cv")
    if options["journal"] == "-":
        raise UsageError(messages.journal_is_a_file())
    products = ("csv_file", "json_file", "model_file", "journal", "plot_file", "path_file")
    check_files(options, [options[name] for name in products])
    data = read_training_data(options, report)
    announce_compilation(report)
    return data


def _plan(machine, settings: list[dict], data, options: dict, report: Report):
    from odmtool.cli.training import folds_for, limit_jobs, naming
    from odmtool.machines import gamma_for
    from odmtool.search.search import Plan
    from odmtool.search.validation import Data, check_classes, folds

    X, labels = data.dataset.X, data.dataset.labels
    settings = [
        setting | ({"gamma": gamma_for(setting["gamma"], X.shape[1])} if "gamma" in setting else {})
        for setting in settings
    ]
    with naming(options["training_file"]):
        n = folds_for(options["folds"], len(labels), report)
        if options["repeat"] is None:  # else the training parts are checked
            check_classes(labels, n, options["metric"])
    fold = folds(labels, n, options["seed"])
    plan = Plan(
        machine, settings, Data(X, labels, data.weight), fold, options["metric"],
        probability=options["probability"] == "1",
    )  # fmt: skip
    limit_jobs(plan, options, report)
    return plan


def _search(plan, options: dict, values, data, report: Report) -> list:
    """All rows, said as they are final."""
    from odmtool.cli.training import naming
    from odmtool.search.journal import open_journal
    from odmtool.search.search import search
    from odmtool.search.strategies import STRATEGIES

    finished = []
    if options["journal"] is not None:
        finished = open_journal(options["journal"], _identity(plan, options, data))
        if finished:
            report.note(messages.resumed(len(finished), options["journal"]))
    rows, varying = [], _varying(values)
    progress = _Progress(report, finished)

    def evaluate(part):
        return search(part, jobs=options["jobs"], finished=finished,
                      journal=options["journal"], progress=progress.show)  # fmt: skip

    def announce(settings: int, examples: int) -> None:
        if settings > 1:
            report.note(messages.fits_to_do(settings, plan.n_folds, examples))

    strategy = STRATEGIES[options["strategy"]]
    with naming(options["training_file"]):
        for row in strategy(plan, evaluate, announce, options["seed"]):
            rows.append(row)
            progress.highest = max(progress.highest, row.score(plan.metric))
            report.result(messages.setting_row(row, varying, plan.metric))
    report.end_progress()
    unconverged = sum(row.unconverged for row in rows)
    if unconverged:
        report.warning(messages.fits_not_converged(unconverged, plan.machine.tolerance))
    return rows


def _varying(values: dict[str, tuple]) -> list[str]:
    """The parameters to show: those with several values."""
    several = [name for name in PARAMETER_NAMES if len(values.get(name, ())) > 1]
    return several or ["lambda_", "cost"]


class _Progress:
    """The live line of a search."""

    def __init__(self, report: Report, finished: list):
        self._report, self._began, self._known = report, time.monotonic(), len(finished)
        self.highest = 0.0

    def show(self, done: int, total: int) -> None:
        spent = time.monotonic() - self._began
        left = spent / max(1, done - self._known) * (total - done)
        self._report.live(messages.search_progress(done, total, self.highest, left))


def _identity(plan, options: dict, data) -> dict:
    """Everything that a result depends on, for the journal."""
    from hashlib import sha256

    from odmtool import __version__

    # Memory, and where it is computed, change no result.
    machine = vars(plan.machine) | {
        "name": plan.machine.name, "memory": None,
        "settings": plan.machine.settings._replace(scheduler=None),
    }  # fmt: skip
    weights = None if data.weight is None else sha256(data.weight.tobytes()).hexdigest()
    return {
        "version": __version__, "data": data.fingerprint, "grid": plan.settings,
        "folds": plan.n_folds, "seed": options["seed"], "metric": plan.metric,
        "search": options["strategy"], "probability": options["probability"],
        "machine": {name: value for name, value in machine.items() if name not in PARAMETER_NAMES}
        | {"class_weight": {str(k): v for k, v in (plan.machine.class_weight or {}).items()}},
        "weights": weights,
    }  # fmt: skip


def _write_tables(options: dict, rows: list) -> None:
    from odmtool.cli.tables import records, write_csv, write_json

    if options["csv_file"] is not None:
        write_csv(options["csv_file"], records(rows))
    if options["json_file"] is not None:
        write_json(options["json_file"], records(rows))


def _refit(ctx, machine, data, options: dict, report: Report) -> None:
    """Train on all data and write the model."""
    from odmtool.cli.training import fit, say_probabilities, write_trained_model

    machine.jobs = options["jobs"]
    for sentence in fit(machine, data, options, report):
        report.warning(sentence)
    say_probabilities(machine, report)
    write_trained_model(ctx, options["model_file"], machine, data)


def train_command(ctx, options: dict, setting: dict) -> str:
    """The odm-train command line that trains with this setting, ready to paste."""
    from odmtool.io.files import is_stream

    words = ["odm-train"]
    for name, value in setting.items():
        words += [FLAGS[name], _text(value)]
    for param in ctx.command.params:
        # What else was given applies to the training as it did to the search.
        is_shared = param.name not in ("training_file", *PARAMETER_NAMES, *_SEARCH_ONLY)
        if is_shared and given(ctx, param.name):
            words += words_of(param, options[param.name])
    path = options["training_file"]
    # Data from a pipe have no name; they can be sent through one again.
    words += ["-", "stdin.model"] if is_stream(path) else [path]
    return shlex.join(words)


def _text(value) -> str:
    """A value as it is written on a command line, exactly."""
    return value if isinstance(value, str) else repr(value).removesuffix(".0")


def words_of(param: click.Parameter, value) -> list[str]:
    """An option and its value as words of a command line."""
    if isinstance(value, bool):
        return [param.opts[-1]] if value else []
    if isinstance(value, tuple):
        return [word for label, weight in value for word in (f"-w{label}", _text(weight))]
    return [param.opts[0], _text(value)]
