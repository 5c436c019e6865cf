"""odm-train: read the data, train a machine, write the model."""

from __future__ import annotations

import os
import shlex
import time

import click

from odmtool import messages
from odmtool.cli import options as common
from odmtool.cli.machine_options import (
    machine_arguments,
    machine_options,
    probability_option,
    refuse_lambda_and_cost,
)
from odmtool.cli.report import Report
from odmtool.errors import NotConvergedError, UsageError


@common.command(
    epilog="""\b
Examples:
  odm-train heart_scale                      linear ODM, model heart_scale.model
  odm-train -t rbf -l 2^4 data.svm my.model  kernel ODM
  odm-train -v 5 -t rbf -g 0.5 data.svm      5-fold cross validation, no model
  zcat x.gz | odm-train -c 1 - my.model      from a pipe
"""
)
@click.argument("training_file")
@click.argument("model_file", required=False)
@machine_options(many=False)
@click.option("-v", "--folds", type=common.Whole(),
              help="Cross validate with so many folds; no model.")
@probability_option
@click.option("--strict", is_flag=True,
              help="If the tolerance is not reached, write no model and exit with 3.")
@click.option("--json", "json_file", metavar="FILE", help="Write the summary as JSON.")
@common.quiet_option
@common.verbose_option
@common.version_option
@click.pass_context
def train(ctx, **options):
    """Train a machine on TRAINING_FILE (svmlight format; gz, bz2, xz; - is stdin) and write
    MODEL_FILE (by default the file's name and ".model", in the current directory; - is stdout).
    """  # fmt: skip
    refuse_lambda_and_cost(ctx)
    if options["probability"] == "1":
        raise UsageError(messages.no_probabilities_yet())
    # The folds of a cross validation run in threads of their own.
    common.limit_threads(options["jobs"] if options["folds"] is None else 1)
    report = Report(
        ctx.command_path, options["quiet"], options["verbose"],
        product_on_stdout="-" in (options["model_file"], options["json_file"]),
    )  # fmt: skip
    if options["folds"] is None:
        _train_model(ctx, options, report)
    else:
        _cross_validate(options, report)


def _train_model(ctx, options: dict, report: Report) -> None:
    from odmtool.cli.training_data import check_inputs, naming, read_training_data
    from odmtool.io.files import check_writable

    path = _model_path(options)
    machine = make_machine(options)
    check_inputs(options["training_file"], options["weights"])
    for product in (path, options["json_file"]):
        if product is not None:
            check_writable(product)
    started = time.perf_counter()
    data = read_training_data(options, report)
    read = time.perf_counter()
    announce_compilation(report)
    with naming(options["training_file"]):
        machine.fit(data.dataset.X, data.dataset.labels, data.weight, progress=report.progress)
    report.end_progress()
    trained = time.perf_counter()
    if not machine.solution_.converged:
        sentence = messages.not_converged(machine.solution_, machine.tolerance)
        if options["strict"]:
            raise NotConvergedError(messages.no_model_written(sentence))
        report.warning(sentence)

    from odmtool.io.model_file import write_model

    machine.model_.facts |= {
        "command": messages.one_line(shlex.join([*ctx.command_path.split(), *ctx.meta["args"]])),
        "data": data.fingerprint,
        "examples": str(data.dataset.X.shape[0]),
        "features": str(data.dataset.X.shape[1]),
        "version": messages.version(),
    }
    write_model(path, machine.model_)
    seconds = {"reading": read - started, "training": trained - read,
               "writing": time.perf_counter() - trained}  # fmt: skip
    report.note(messages.summary(machine, len(data.dataset.labels), seconds))
    if options["json_file"] is not None:
        _write_json(options["json_file"], machine, seconds)


def make_machine(options: dict):
    """The machine that a command's options describe, its parameters checked."""
    from odmtool.machines import MACHINES

    name = "odm" if options["machine"] == "auto" else options["machine"]
    machine = MACHINES[name](**machine_arguments(options))
    machine.check()
    return machine


def announce_compilation(report: Report) -> None:
    """Say so if numba has to compile, which it does once after an installation."""
    from odmtool import _jit

    def say() -> None:
        report.note(messages.compiling(is_kept=_jit.cache_folder() is not None))

    _jit.on_compile(say)


def _model_path(options: dict) -> str:
    if options["model_file"] is not None:
        return options["model_file"]
    if options["training_file"] == "-":
        raise UsageError(messages.name_the_model())
    return os.path.basename(options["training_file"]) + ".model"


def _cross_validate(options: dict, report: Report) -> None:
    from odmtool.cli.training_data import check_inputs, naming, read_training_data
    from odmtool.validation import cross_validate

    machine = make_machine(options)
    check_inputs(options["training_file"], options["weights"])
    data = read_training_data(options, report)
    announce_compilation(report)
    labels = data.dataset.labels
    with naming(options["training_file"]):
        outcome = cross_validate(
            machine, data.dataset.X, labels, data.weight, seed=options["seed"],
            n=folds_for(options["folds"], len(labels), report), jobs=options["jobs"],
        )  # fmt: skip
    unconverged = sum(not solution.converged for solution in outcome.solutions)
    if unconverged:
        sentence = messages.folds_not_converged(unconverged, machine.tolerance)
        if options["strict"]:
            raise NotConvergedError(sentence)
        report.warning(sentence)
    report.result(messages.cross_validation_accuracy(outcome.accuracy))


def folds_for(folds: int, m: int, report: Report) -> int:
    """The number of folds: at least 2, at most one for each example."""
    if folds < 2:
        raise UsageError(messages.fold_count(folds, m))
    if folds > m:
        report.warning(messages.more_folds_than_data(folds, m))
    return min(folds, m)


def _write_json(path: str, machine, seconds: dict) -> None:
    import json

    from odmtool.io.files import atomic_output

    facts = machine.model_.facts | {"support_vectors": str(machine.support_count)}
    record = {name: _number_or_text(text) for name, text in facts.items()}
    record["seconds"] = {name: round(value, 6) for name, value in seconds.items()}
    with atomic_output(path) as stream:
        json.dump(record, stream, indent=2)
        stream.write("\n")


def _number_or_text(text: str):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
