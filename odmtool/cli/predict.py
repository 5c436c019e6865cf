"""``odm-predict``: predict with a model, with the files and output of LIBLINEAR's predict.

The test file passes through in blocks, so memory does not grow with it, and the
output file appears only when the last row is done. A linear model is used
without loading compiled code: this command must start fast.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

import click

from odmtool import messages
from odmtool.cli import options, report
from odmtool.cli.margin_files import margins_option
from odmtool.errors import DataError, UsageError


class Settings(NamedTuple):
    """The command line."""

    test: str
    model: str
    output: str
    decision_values: bool
    probability: str
    zero_based: bool
    margins: str | None


class Tally:
    """What is counted while the blocks pass."""

    def __init__(self, ruler=None):
        self.ruler = ruler
        self.rows = self.correct = self.skipped = self.width = 0
        self.has_values = self.shares_features = False

    def add(self, model, block, labels, values) -> None:
        if self.ruler is not None:
            self.ruler.add(block.labels, values)
        self.rows += len(labels)
        self.correct += int((labels == block.labels).sum())
        self.skipped += block.skipped
        self.width = max(self.width, block.X.shape[1])
        self.has_values = self.has_values or block.X.nnz > 0
        self.shares_features = self.shares_features or model.shares_features(block.X)


@options.command()
@click.argument("test", metavar="TEST_FILE")
@click.argument("model", metavar="MODEL_FILE")
@click.argument("output", metavar="OUTPUT_FILE")
@click.option(
    "-d",
    "--decision-values",
    is_flag=True,
    help="Write 'labels L1 L2 ...', then after every label its decision values: one for two "
    "classes (positive means L1), one per class for a linear model, one per pair of classes "
    "(1-2, 1-3, ..., 2-3, ...) for a kernel model.",
)
@click.option(
    "-b",
    "--probability",
    type=click.Choice(["0", "1"]),
    default="0",
    help="Only 0: the models carry no probabilities.",
)
@click.option(
    "--zero-based", is_flag=True, help="Feature indices of TEST_FILE start at 0; add 1 to each."
)
@margins_option("Write the margins of the test examples to FILE (- is stdout), with their "
                "minimum, mean, variance and quantiles.")
@options.jobs_option("Threads for BLAS (kernel models).")
@options.quiet_option
@options.verbose_option
@options.version_option
@click.pass_context
def predict(context: click.Context, jobs: int, quiet: bool, verbose: bool, **settings) -> None:
    """Predict the labels of TEST_FILE with MODEL_FILE and write them to OUTPUT_FILE.

    MODEL_FILE is a model of odm-train, or a classification model of LIBLINEAR or
    LIBSVM. OUTPUT_FILE gets one label per line; the accuracy goes to stdout. TEST_FILE
    or MODEL_FILE may be - (stdin); OUTPUT_FILE may be - (stdout), then the accuracy
    goes to stderr.
    """
    job = Settings(**settings)
    _check(job)
    options.limit_threads(jobs)
    from odmtool.cli.margin_files import write_margins
    from odmtool.io import files, model_file

    on_stdout = "-" in (job.output, job.margins)
    say = report.Report(context.command_path, quiet, verbose, product_on_stdout=on_stdout)
    for product in (job.output, job.margins):
        if product is not None:
            files.check_writable(product)
    _check_test_file(job.test)
    started = time.perf_counter()
    model = model_file.read_model(job.model, zero_based=job.zero_based)
    loaded = time.perf_counter()
    tally = _predict_file(job, model)
    seconds = (loaded - started, time.perf_counter() - loaded)
    say.detail(messages.predict_seconds(tally.rows, len(model.labels), *seconds))
    _say_remarks(say, model, tally)
    if job.margins is not None:
        write_margins(job.margins, job.test, job.model, tally.ruler, say)
    say.result(messages.accuracy(tally.correct, tally.rows))


def _check(job: Settings) -> None:
    if job.probability == "1":
        raise UsageError(messages.no_probabilities())
    if job.test == job.model == "-":
        raise UsageError(messages.dash_twice("stdin"))
    for source in (job.test, job.model):
        if job.output != "-" and _is_same(source, job.output):
            raise UsageError(messages.predict_over(job.output))
    if job.margins == job.output == "-":
        raise UsageError(messages.dash_twice("stdout"))
    for other in (job.test, job.model, job.output):
        if job.margins not in (None, "-") and _is_same(job.margins, other):
            raise UsageError(messages.margin_file_in_use(job.margins))


def _is_same(path: str, other: str) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)


def _check_test_file(path: str) -> None:
    """Complain about a missing file now; a pipe must be opened only once."""
    from odmtool.io import files

    if path != "-" and (os.path.isfile(path) or os.path.isdir(path) or not os.path.exists(path)):
        files.open_input(path).close()


def _predict_file(job: Settings, model) -> Tally:
    """Predict block by block; the output file is replaced at the end."""
    from odmtool.io import files, svmlight

    tally = Tally(_ruler(job, model))
    blocks = svmlight.iter_svmlight(
        job.test, zero_based=job.zero_based, precomputed=model.is_precomputed
    )
    with files.atomic_output(job.output, binary=True) as stream:
        if job.decision_values:
            stream.write(messages.labels_line(model.labels).encode())
        for block in blocks:
            labels, values = model.predict_with_values(block.X)
            tally.add(model, block, labels, values)
            stream.write(_lines(labels, values if job.decision_values else None))
        if tally.rows == 0:
            raise DataError(messages.no_test_rows(), files.display_name(job.test))
    return tally


def _ruler(job: Settings, model):
    if job.margins is None:
        return None
    from odmtool.margins import Ruler

    return Ruler(model)


def _lines(labels, values) -> bytes:
    """One line per row: the label and, unless None, the decision values."""
    import numpy as np

    if values is None:
        return ("%d\n" * len(labels) % tuple(labels.tolist())).encode()
    row = "%d" + " %.17g" * values.shape[1] + "\n"
    cells = np.column_stack([labels.astype(float), values]).ravel()
    return (row * len(labels) % tuple(cells.tolist())).encode()


def _say_remarks(say: report.Report, model, tally: Tally) -> None:
    if tally.skipped:
        say.note(messages.lines_without_output(tally.skipped))
    if model.is_precomputed:
        if tally.width - 1 < model.largest_serial:
            say.warning(messages.kernel_row_short(tally.width - 1, model.largest_serial))
    elif tally.has_values and not tally.shares_features:
        say.warning(messages.no_feature_in_common())
