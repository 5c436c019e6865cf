"""odm-train: read the data, train a machine, write the model."""

from __future__ import annotations

import time
from functools import partial
from importlib import import_module
from types import SimpleNamespace

import click

from odmtool.cli import messages
from odmtool.cli import options as common
from odmtool.cli.command_lines import command_line
from odmtool.cli.files import check_files, check_training_files, naming, refuse_shared_stdin
from odmtool.cli.machine_choice import MachineChoice, machine_choice
from odmtool.cli.machine_options import format_option, machine_options, probability_option
from odmtool.cli.margin_files import margins_option
from odmtool.cli.place_options import cache_options, place_of
from odmtool.cli.report import Report, report_of
from odmtool.cli.stock_options import Reader, TrainingCommand, say_remarks
from odmtool.cli.trace import Trace
from odmtool.errors import DataError, NotConvergedError, OdmError, UsageError


class _Train(TrainingCommand):
    """odm-train; a search (LIBLINEAR's -C) is one of odm-cv, --check is odmtool check."""

    def translated(self, ctx, args):
        reader = Reader(self, args)
        if "--check" in args:
            ctx.meta["instead"] = "check", [token for token in args if token != "--check"]
        elif reader.is_search:
            ctx.meta["instead"] = "cv", reader.without_model()
        else:
            return super().translated(ctx, args)
        return []

    def parse_options(self, ctx, args):
        return args if "instead" in ctx.meta else super().parse_options(ctx, args)

    def invoke(self, ctx):
        if "instead" not in ctx.meta:
            return super().invoke(ctx)
        name, args = ctx.meta["instead"]
        # What is wrong is told with the help of the command that reads the options.
        command = f"{ctx.command_path} --check" if name == "check" else ctx.command_path
        other = getattr(import_module(f"odmtool.cli.{name}"), name)
        return other.main(args, prog_name=command, standalone_mode=False)


@common.command(
    _Train,
    epilog="""\b
Examples:
  odm-train heart_scale                      linear ODM, model heart_scale.model
  odm-train -t rbf -l 2^4 data.svm my.model  kernel ODM
  odm-train -v 5 -t rbf -g 0.5 data.svm      5-fold cross validation, no model
  zcat x.gz | odm-train -c 1 - my.model      from a pipe
""",
)
@click.argument("training_file")
@click.argument("model_file", required=False)
@machine_options(many=False)
@click.option("-v", "--folds", type=common.Whole(),
              help="Cross validate with this number of folds; no model.")
@probability_option
@format_option
@cache_options
@click.option("--strict", is_flag=True,
              help="If the tolerance is not reached, with --stop-level, too, write no model and "
                   "exit with 3.")
@click.option("--check", is_flag=True, expose_value=False,
              help="Only look at the data: TRAINING_FILE and any further files are read, described "
                   "and not trained on.")
@click.option("--max-time", type=common.Number(), metavar="SECONDS",
              help="Stop training after this time with the best model so far (between two "
                   "iterations, or parts of an epoch); a warning gives its gap.")
@click.option("--keep-best", is_flag=True,
              help="Stop training in the same way at Ctrl-C (or TERM, or HUP), with exit code 0; "
                   "a second one ends at once and writes nothing, as the first one does without "
                   "this option.")
@click.option("--from", "start_from", metavar="MODEL",
              help="Start from the solution of a model, also one of other settings or data; for "
                   "two classes and smooth losses (odm, l2svm, lssvm, mamc).")
@margins_option(
    "Write the margins of the training examples to FILE (- is stdout), with their "
    "minimum, mean, variance and quantiles."
)
@click.option("--loo", cls=common.OptionalChoice, choices=("estimate", "exact"),
              metavar="[estimate|exact]",
              help="Bound the leave-one-out errors from the dual variables; with exact, also count "
                   "them by training again without each example that is in doubt.")
@click.option("--json", "json_file", metavar="FILE", help="Write the summary as JSON.")
@click.option("--trace", metavar="FILE",
              help="Write the course of the training as CSV: iteration, objective, relative gap, "
                   "seconds and training accuracy (COURSE in odm-train(1)).")
@common.voice_options
def train(ctx, **options):
    """Train a machine on TRAINING_FILE (svmlight format; gz, bz2, xz; - is stdin) and write
    MODEL_FILE (by default the file's name and ".model", in the current directory; - is stdout).
    """  # fmt: skip
    job = SimpleNamespace(**options)
    # With more BLAS adds in another order, and mcodm comes to another stationary point.
    common.limit_threads(1)
    choice, place = machine_choice(ctx, options), place_of(options)
    _refuse_wishes(job, place)
    report = report_of(ctx, options, job.model_file, job.json_file, job.margins, job.trace)
    say_remarks(ctx, report)
    ctx.call_on_close(place.close)
    if job.folds is not None:
        _cross_validate(choice, place, job, report)
        return
    _train_model(command_line(ctx), choice, place, job, report)


def _refuse_wishes(job, place) -> None:
    """Raise UsageError for what does not go with -v, or needs all rows in memory."""
    from odmtool.cli import training

    training.refuse_scale(place, job.scale)
    of_rows = {"--margins": job.margins, "--loo": job.loo, "--from": job.start_from}
    of_model = {"--trace": job.trace, **of_rows, "--keep-best": job.keep_best or None,
                "--max-time": job.max_time}  # fmt: skip
    if job.folds is not None:
        place.refuse("-v")
        for flag, wish in of_model.items():
            if wish is not None:
                raise UsageError(messages.not_with_folds(flag))
    for flag, wish in of_rows.items():
        if wish is not None:
            place.refuse(flag)
    if job.probability == "1":
        place.refuse("-b 1")
        if job.start_from is not None:
            raise UsageError(messages.not_together("--from", "-b 1"))
    if job.max_time is not None and job.max_time <= 0:
        raise UsageError(messages.must_be_positive("max_time", job.max_time))


def _train_model(command: str, choice: MachineChoice, place, job, report: Report) -> None:
    from odmtool.cli import overlap, training
    from odmtool.core.memory import peak

    path = place.model_name() if job.model_file is None else job.model_file
    machine = place.suited(choice.make())
    check_training_files(place.inputs(), [path, job.json_file, job.margins, job.trace])
    if job.start_from is not None:  # the new model may take the place of this one
        refuse_shared_stdin(*place.inputs(), job.start_from)
        check_files([job.start_from], [job.json_file, job.margins, job.trace])
    started = time.perf_counter()
    data = training.read_data(place, choice.class_weight, report)
    data = training.scaled(data, job.scale, place, report)
    settled = choice.settled(data)
    if settled is not choice:
        machine = place.suited(settled.make())
    _refuse_one_class(data, job)
    settled.warn_of_unused(report)
    training.warn_of_one_class(data, report)
    read = time.perf_counter()
    compiling = training.announce_compilation(report)
    training.warn_of_pairs(machine, len(data.classes), report)
    machine.jobs = job.jobs
    if job.loo is not None:
        from odmtool.cli import leave_one_out

        prepared = leave_one_out.checked_data(machine, data, place.source.path)
    training.note_large_values(settled, data.X.shape[1], report)
    training.note_no_intercept(settled, job.scale, report)
    trace = None if job.trace is None else Trace(report.progress)
    sentences = _fit(place, machine, data, job, report, trace)

    if not sentences:
        fit = partial(_fit_other, place, data, job, report)
        machine, sentences = overlap.or_against_the_rest(choice, machine, data, fit, report)
    trained, compiled = time.perf_counter(), compiling()
    for sentence in sentences:
        report.warning(sentence)
    training.say_probabilities(machine, report)
    training.write_trained_model(command, path, machine, data, place, report)
    if trace is not None:
        trace.write(job.trace)
    if job.margins is not None:
        _write_margins(job.margins, place.source.path, path, machine, data, report)
    in_writing = compiling() - compiled
    seconds = {"reading": read - started, "training": trained - read - compiled,
               "writing": time.perf_counter() - trained - in_writing}  # fmt: skip
    if compiled or in_writing:
        seconds["compiling"] = compiled + in_writing
    if (most := peak()) > 0:
        report.detail(messages.peak_memory(most))
    report.note(messages.summary(machine, data, seconds))
    found = {}
    if job.loo is not None:
        found = leave_one_out.leave_one_out(machine, prepared, job.loo == "exact", report)
    if job.json_file is not None:
        _write_json(job.json_file, machine, seconds, found)


def _fit_other(place, data, job, report: Report, choice: MachineChoice) -> tuple:
    """The machine of another choice, trained, and what is to be warned of."""
    machine = place.suited(choice.settled(data).make())
    machine.jobs = job.jobs
    return machine, _fit(place, machine, data, job, report, None)


def _fit(place, machine, data, job, report: Report, trace: Trace | None) -> list[str]:
    """Train; the sentences for what did not reach the tolerance, which is an error if strict."""
    from odmtool.cli import training

    try:
        sentences = training.fit(
            place, machine, data, report, probability=job.probability == "1",
            max_time=job.max_time, keeps_best=job.keep_best, start_from=job.start_from,
            progress=trace, advises=True,
        )  # fmt: skip
        if job.strict and not sentences and not machine.solution_.converged:
            # An early stop that was wanted is no warning, but it has no model that is this near.
            raise NotConvergedError(messages.too_far_at_level(machine.tolerance))
        if sentences and job.strict:
            raise NotConvergedError(messages.no_model_written(sentences[0]))
    except OdmError:
        if trace is not None:
            trace.write(job.trace)
            report.note(messages.trace_of_failure(job.trace))
        raise
    return sentences


def _refuse_one_class(data, job) -> None:
    """Raise, before any work, if there is nothing to tell apart and an option needs it."""
    if len(data.classes) > 1:
        return
    label = min(data.classes)
    if job.probability == "1":
        raise UsageError(messages.probability_one_class(label))
    if job.loo is not None:
        raise UsageError(messages.loo_needs_two_classes())
    if job.margins is not None:
        raise DataError(messages.margins_of_one_class(label))


def _write_margins(path: str, data_file: str, model_file: str, machine, data, report) -> None:
    from odmtool.cli.margin_files import write_margins
    from odmtool.measures.margins import Ruler
    from odmtool.models.names import LabelNames

    model = machine.model_
    ruler = Ruler(model, training_rows=data.matrix() if model.is_precomputed else None)
    ruler.add(data.labels, model.decision_values(data.matrix()))
    write_margins(path, data_file, model_file, ruler, LabelNames(model, path), report)


def _cross_validate(choice: MachineChoice, place, job, report: Report) -> None:
    from odmtool.cli import overlap, training
    from odmtool.search.search import SearchPlan, search
    from odmtool.search.validation import folds

    choice.make()  # so that wrong parameters are said before the data are read
    check_training_files(place.inputs(), [job.json_file])
    data = training.read_data(place, choice.class_weight, report)
    scaling = job.scale and (*job.scale, place.source.limit())
    with naming(place.source.path):
        choice = overlap.searched(choice, data, scaling, job.seed, report)
        choice = choice.settled(data, scaling)
    machine = choice.make()
    _refuse_one_class(data, job)
    choice.warn_of_unused(report)
    training.note_large_values(choice, data.X.shape[1], report)
    training.note_no_intercept(choice, job.scale, report)
    training.announce_compilation(report)
    known = training.searched(data, [machine], job.scale, place)
    with naming(place.source.path, data.skipped):
        n = training.folds_for(job.folds, len(known.labels))
        training.warn_of_fewer_folds(job.folds, len(known.labels), report)
        training.warn_of_one_class(data, report)
        training.warn_of_small_class(known.labels, n, report)
        if job.scale is None:
            training.warn_of_rows_apart(machine, data.X, report)
        fold = folds(known.labels, n, job.seed)
        plan = SearchPlan(machine, [{}], known, fold, probability=job.probability == "1")
        jobs = training.limit_jobs(plan, job.jobs, report)
        (row,) = search(plan, jobs=jobs)
    if not row.has_solution:
        raise machine.no_solution()
    if row.unconverged:
        sentence = messages.fits_not_converged(row.unconverged, machine.tolerance)
        if job.strict:
            raise NotConvergedError(sentence)
        report.warning(sentence)
    with report.first([messages.cross_validation_accuracy(row.accuracy)]) as attempt:
        if job.json_file is not None:
            from odmtool.cli.tables import records, write_json

            attempt(write_json, job.json_file, records([row], plan, job.seed))


def _write_json(path: str, machine, seconds: dict, found: dict) -> None:
    from odmtool.cli.tables import write_json
    from odmtool.core.labels import is_label_fact, label_names

    model = machine.model_
    record = {k: _number_or_text(text) for k, text in model.facts.items() if not is_label_fact(k)}
    record["support_vectors"] = machine.support_count
    if names := label_names(model.labels, model.facts):
        record["labels"] = list(names.values())
    for name in ("probA", "probB"):
        if getattr(model, name) is not None:
            record[name] = getattr(model, name).tolist()
    record |= found
    record["seconds"] = {name: round(value, 6) for name, value in seconds.items()}
    write_json(path, record, indent=2)


def _number_or_text(text: str):
    """JSON has no number that is not finite: that is null."""
    import math

    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        return value if math.isfinite(value) else None
    return text
