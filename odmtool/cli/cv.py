"""odm-cv: cross validate one setting or a list of settings."""

from __future__ import annotations

import shlex

import click
from click.core import ParameterSource

from odmtool import defaults, messages
from odmtool.cli import options as common
from odmtool.cli.machine_options import (
    FLAGS,
    PARAMETER_NAMES,
    machine_options,
    refuse_lambda_and_cost,
)
from odmtool.cli.report import Report


@common.command(
    epilog="""\b
Examples:
  odm-cv heart_scale                            5 folds, default setting
  odm-cv -t rbf -l 2^0,2^4,2^8 -g 0.1,1 x.svm   six settings, the best at the end
"""
)
@click.argument("training_file")
@machine_options(many=True)
@click.option("-v", "--folds", type=common.Whole(), default=defaults.FOLDS, show_default=True,
              help="Number of folds; they depend on the labels, this number and the seed only.")
@common.quiet_option
@common.verbose_option
@common.version_option
@click.pass_context
def cv(ctx, **options):
    """Cross validate a machine on TRAINING_FILE (svmlight format; gz, bz2, xz; - is stdin).

    -t, -l, -c, -m, -p, -d, -g and -r take one value or several, separated by commas. Every
    combination gets one line; then come the best one as a command, and its accuracy. Among
    equals the stronger regularisation wins, then the smoother kernel.
    """  # fmt: skip
    refuse_lambda_and_cost(ctx)
    common.limit_threads(1)
    report = Report(ctx.command_path, options["quiet"], options["verbose"])
    from odmtool.cli.train import announce_compilation, folds_for, make_machine
    from odmtool.cli.training_data import check_inputs, naming, read_training_data
    from odmtool.search import best, grid, search

    values = {name: options[name] for name in PARAMETER_NAMES if options[name] is not None}
    if options["cost"] is not None:
        del values["lambda_"]
    settings = grid(values)
    first = options | {name: chosen[0] for name, chosen in values.items()}
    machine = make_machine(first)
    for setting in settings:
        machine.copy(**setting).check()
    check_inputs(options["training_file"], options["weights"])
    data = read_training_data(options, report)
    announce_compilation(report)
    varying = [name for name in PARAMETER_NAMES if len(values.get(name, ())) > 1]
    labels, rows = data.dataset.labels, []
    with naming(options["training_file"]):
        for row in search(
            machine, settings, data.dataset.X, labels, data.weight, seed=options["seed"],
            n=folds_for(options["folds"], len(labels), report), jobs=options["jobs"],
        ):  # fmt: skip
            rows.append(row)
            report.result(messages.setting_row(row, varying or ["lambda_", "cost"]))
            unconverged = sum(not solution.converged for solution in row.outcome.solutions)
            if unconverged:
                report.warning(messages.folds_not_converged(unconverged, machine.tolerance))
    winner = best(rows, machine)
    report.result(messages.best_setting(train_command(ctx, options, winner.setting)))
    report.result(messages.cross_validation_accuracy(winner.outcome.accuracy))


def train_command(ctx, options: dict, setting: dict) -> str:
    """The odm-train command line that trains with this setting, ready to paste."""
    words = ["odm-train"]
    for name, value in setting.items():
        words += [FLAGS[name], _text(value)]
    for param in ctx.command.params:
        # What else was given applies to the training as it did to the search.
        is_shared = param.name not in (*PARAMETER_NAMES, "folds", "quiet", "verbose", "jobs")
        if is_shared and ctx.get_parameter_source(param.name) == ParameterSource.COMMANDLINE:
            words += words_of(param, options[param.name])
    return shlex.join(words)


def _text(value) -> str:
    """A value as it is written on a command line, exactly."""
    return value if isinstance(value, str) else repr(value).removesuffix(".0")


def words_of(param: click.Parameter, value) -> list[str]:
    """A parameter and its value as words of a command line."""
    if isinstance(param, click.Argument):
        return [value]
    if isinstance(value, bool):
        return [param.opts[-1]] if value else []
    if isinstance(value, tuple):
        return [word for label, weight in value for word in (f"-w{label}", _text(weight))]
    return [param.opts[0], _text(value)]
