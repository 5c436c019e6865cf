"""odm-train: read the data, train a machine, write the model."""

from __future__ import annotations

import os
import time

import click

from odmtool.cli import messages
from odmtool.cli import options as common
from odmtool.cli.cache_options import (
    cache_options,
    check_cache,
    fit_from_disk,
    open_cached_data,
)
from odmtool.cli.elsewhere import check_elsewhere, is_elsewhere, refuse_elsewhere
from odmtool.cli.machine_options import (
    format_option,
    is_side_by_side,
    machine_options,
    probability_option,
    refuse_lambda_and_cost,
    settle_machine,
    translate_kdd,
    warn_of_unused,
)
from odmtool.cli.margin_files import margins_option
from odmtool.cli.report import Report
from odmtool.errors import DivergedError, NotConvergedError, UsageError


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
@format_option
@cache_options
@click.option("--strict", is_flag=True,
              help="If the tolerance is not reached, write no model and exit with 3.")
@margins_option("Write the margins of the training examples to FILE (- is stdout), with their "
                "minimum, mean, variance and quantiles.")
@click.option("--loo", cls=common.OptionalChoice, choices=("estimate", "exact"),
              metavar="[estimate|exact]",
              help="Bound the leave-one-out errors from the dual variables; with exact, also "
                   "count them by training again without each example that is in doubt.")
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
    translate_kdd(options)
    check_cache(options)
    # Folds run side by side, too; BLAS threads in each would wait for one another.
    has_threads = options["folds"] is not None or is_side_by_side(ctx, options)
    common.limit_threads(1 if has_threads else options["jobs"])
    report = Report(
        ctx.command_path, options["quiet"], options["verbose"],
        product_on_stdout="-" in [options[name] for name in ("model_file", "json_file", "margins")],
    )  # fmt: skip
    if options["folds"] is None:
        _train_model(ctx, options, report)
    else:
        for name in ("margins", "loo"):
            if options[name] is not None:
                raise UsageError(messages.not_with_folds(f"--{name}"))
        refuse_elsewhere(options, "--folds")
        _cross_validate(ctx, options, report)


def _train_model(ctx, options: dict, report: Report) -> None:
    from odmtool.cli import leave_one_out
    from odmtool.cli.training import (
        announce_compilation,
        check_files,
        fit,
        make_machine,
        refuse_one_class,
        say_probabilities,
        warn_of_one_class,
        write_trained_model,
    )
    from odmtool.core.memory import peak

    path = _model_path(options)
    machine = make_machine(options)
    if is_elsewhere(options):
        check_elsewhere(machine, options)
    check_files(options, [path, options["json_file"], options["margins"]])
    started = time.perf_counter()
    data = _read(ctx, options, machine, report)
    if settle_machine(ctx, options, data.classes):
        machine = make_machine(options)
    refuse_one_class(data, options)
    warn_of_unused(ctx, options, report)
    warn_of_one_class(data, report)
    read = time.perf_counter()
    announce_compilation(report)
    machine.jobs = options["jobs"] if is_side_by_side(ctx, options) else 1
    prepared = options["loo"] and leave_one_out.check(machine, data, options)
    train_it = fit if options["cache"] is None else fit_from_disk
    shortcomings = train_it(machine, data, options, report)
    trained = time.perf_counter()
    if (most := peak()) > 0:
        report.detail(messages.peak_memory(most))
    for sentence in shortcomings:
        if options["strict"]:
            raise NotConvergedError(messages.no_model_written(sentence))
        report.warning(sentence)
    say_probabilities(machine, report)
    write_trained_model(ctx, path, machine, data)
    if options["margins"] is not None:
        _write_margins(options, path, machine, data, report)
    seconds = {"reading": read - started, "training": trained - read,
               "writing": time.perf_counter() - trained}  # fmt: skip
    report.note(messages.summary(machine, data.shape[0], seconds))
    found = {}
    if options["loo"] is not None:
        exactly = options["loo"] == "exact"
        found = leave_one_out.leave_one_out(machine, prepared, exactly, report)
    if options["json_file"] is not None:
        _write_json(options["json_file"], machine, seconds, found)


def _read(ctx, options: dict, machine, report: Report):
    """The examples: in memory, with the workers of a scheduler, or in a cache on disk."""
    if options["cache"] is not None:
        from odmtool.places import disk as out_of_core

        out_of_core.check(machine)
        return open_cached_data(options, machine.memory_limit(), report)
    from odmtool.cli.training import read_training_data

    data = read_training_data(options, report)
    if is_elsewhere(options):
        ctx.call_on_close(data.dataset.X.executor.close)
    return data


def _write_margins(options: dict, model_path: str, machine, data, report: Report) -> None:
    from odmtool.cli.margin_files import write_margins
    from odmtool.measures.margins import Ruler

    known, model = data.dataset, machine.model_
    ruler = Ruler(model, training_rows=known.X if model.is_precomputed else None)
    ruler.add(known.labels, model.decision_values(known.X))
    write_margins(options["margins"], options["training_file"], model_path, ruler, report)


def _model_path(options: dict) -> str:
    from odmtool.io.files import is_stream

    if options["model_file"] is not None:
        return options["model_file"]
    if is_elsewhere(options):
        raise UsageError(messages.name_the_model_of_files())
    if is_stream(options["training_file"]):
        raise UsageError(messages.name_the_model())
    return os.path.basename(options["training_file"]) + ".model"


def _cross_validate(ctx, options: dict, report: Report) -> None:
    from odmtool.cli.tables import records, write_json
    from odmtool.cli.training import (
        announce_compilation,
        check_files,
        folds_for,
        limit_jobs,
        make_machine,
        naming,
        read_training_data,
        refuse_one_class,
        warn_of_one_class,
        warn_of_small_class,
    )
    from odmtool.search.search import Plan, search
    from odmtool.search.validation import Data, folds

    machine = make_machine(options)
    check_files(options, [options["json_file"]])
    data = read_training_data(options, report)
    if settle_machine(ctx, options, data.classes):
        machine = make_machine(options)
    refuse_one_class(data, options)
    warn_of_unused(ctx, options, report)
    announce_compilation(report)
    known = Data(data.dataset.X, data.dataset.labels, data.weight)
    with naming(options["training_file"]):
        n = folds_for(options["folds"], len(known.labels), report)
        warn_of_one_class(data, report)
        warn_of_small_class(known.labels, n, report)
        fold = folds(known.labels, n, options["seed"])
        plan = Plan(machine, [{}], known, fold, probability=options["probability"] == "1")
        limit_jobs(plan, options, report)
        (row,) = search(plan, jobs=options["jobs"])
    if not row.has_solution:
        raise DivergedError(messages.dual_unbounded())
    if row.unconverged:
        sentence = messages.fits_not_converged(row.unconverged, machine.tolerance)
        if options["strict"]:
            raise NotConvergedError(sentence)
        report.warning(sentence)
    if options["json_file"] is not None:
        write_json(options["json_file"], records([row]))
    report.result(messages.cross_validation_accuracy(row.accuracy))


def _write_json(path: str, machine, seconds: dict, found: dict) -> None:
    import json

    from odmtool.io.files import atomic_output

    facts = machine.model_.facts | {"support_vectors": str(machine.support_count)}
    record = {name: _number_or_text(text) for name, text in facts.items()}
    for name in ("probA", "probB"):
        if getattr(machine.model_, name) is not None:
            record[name] = getattr(machine.model_, name).tolist()
    record |= found
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
