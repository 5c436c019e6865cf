"""``odm-predict``: predict with a model, with the files and output of LIBLINEAR's predict.

The test file passes through in blocks, so memory does not grow with it, and the
output file appears only when the last row is done. A linear model is used
without loading compiled code: this command must start fast.
"""

from __future__ import annotations

import time
from itertools import chain
from types import SimpleNamespace

import click

from odmtool.cli import class_report, messages, options, report
from odmtool.cli.files import (
    is_in_use,
    is_on_stdout,
    naming,
    refuse_shared_stdin,
    refuse_shared_stream,
)
from odmtool.cli.flags import name_labels
from odmtool.cli.margin_files import margins_option
from odmtool.errors import DataError, ModelError, UsageError

# Rows that a thread predicts at a time.
_ROWS_OF_A_TASK = 1024
# Values of pairs of classes that are held at a time, and cells of the output that become text.
_VALUES_AT_ONCE, _CELLS_AT_ONCE = 2**25, 2**20


class Tally:
    """What is counted while the blocks pass."""

    def __init__(self, names, ruler=None, confusion=None):
        self.names, self.ruler, self.confusion = names, ruler, confusion
        self.rows = self.correct = self.skipped = self.width = 0
        self.has_values = self.shares_features = False
        self.shares_labels = self.has_several_labels = False
        self.kind = None

    def add(self, model, block, rows, labels, values) -> None:
        """A block, its rows, predicted labels, and its decision values if they are known."""
        true = self.names.integers(block.labels, block.names)
        if self.ruler is not None:
            values = model.decision_values(rows) if values is None else values
            self.ruler.add(true, values)
        if self.confusion is not None:
            self.confusion.add(true, labels)
        self.rows += len(labels)
        self.correct += int((labels == true).sum())
        if not self.shares_labels:
            different = set(true.tolist())
            self.shares_labels = not different.isdisjoint(model.labels)
            self.has_several_labels |= len(different) > 1
        self.skipped += block.skipped
        self.width = max(self.width, rows.shape[1])
        self.has_values = self.has_values or rows.nnz > 0
        self.shares_features = self.shares_features or model.shares_features(rows)


@options.command()
@click.argument("test", metavar="TEST_FILE")
@click.argument("model", metavar="MODEL_FILE")
@click.argument("output", metavar="OUTPUT_FILE")
@click.option("-d", "--decision-values", is_flag=True,
              help="Write 'labels L1 L2 ...', then after every label its decision values: one for "
                   "two classes (positive means L1); for more, one per class, or of a model that "
                   "lets pairs of classes vote one per pair (1-2, 1-3, ..., 2-3, ...).")
@click.option("-b", "--probability", type=click.Choice(["0", "1"]), default="0",
              help="1: write 'labels L1 L2 ...', then after every label the probabilities of the "
                   "classes, as svm-predict does; the label is that of the largest. The model must "
                   "have them.")
@click.option("--zero-based", is_flag=True,
              help="Feature indices of TEST_FILE start at 0; add 1 to each.")
@margins_option("Write the margins of the test examples to FILE (- is stdout), with their "
                "minimum, mean, variance and quantiles.")
@click.option("--report", is_flag=True,
              help="Also print precision, recall and F1 of every class, and the confusion matrix.")
@click.option("--json", "json_file", metavar="FILE",
              help="Write the accuracy and all that --report prints as JSON (- is stdout).")
@click.option("--line-buffered", is_flag=True,
              help="Write every prediction when its row has arrived, for use as a service; this is "
                   "so anyway from a pipe (TEST_FILE -) to stdout (OUTPUT_FILE -).")
@options.jobs_option("Threads (kernel models).")
@options.quiet_option_of("Print nothing but warnings and errors, and what was asked for.")
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
    job = SimpleNamespace(**settings)
    _check(job)
    options.limit_threads(1)
    from odmtool.cli.margin_files import write_margins
    from odmtool.core.memory import keep_freed
    from odmtool.io import files, model_file
    from odmtool.io.row_labels import MISSING

    products = (job.output, job.margins, job.json_file)
    on_stdout = is_on_stdout(*products)
    say = report.Report(context.command_path, quiet, verbose, product_on_stdout=on_stdout)
    for product in products:
        if product is not None:
            files.check_writable(product)
    files.check_readable(job.test)
    started = time.perf_counter()
    model = model_file.read_model(job.model, zero_based=job.zero_based)
    if job.probability == "1" and not model.has_probabilities:
        raise ModelError(messages.no_probabilities(), files.display_name(job.model))
    if job.probability == "1":
        # Matrices of the classes come and go: fetched anew, they take a third of the time.
        keep_freed()
    loaded = time.perf_counter()
    say.detail(messages.memory_needs(_memory(job, model, jobs)))
    tally = _predict_file(job, model, jobs)
    seconds = (loaded - started, time.perf_counter() - loaded)
    say.detail(messages.predict_seconds(tally.rows, len(model.labels), *seconds))
    _say_remarks(say, model, tally)
    if job.margins is not None:
        write_margins(job.margins, job.test, job.model, tally.ruler, tally.names, say)
    if tally.kind != MISSING and (job.report or not quiet):
        say.result(messages.accuracy(tally.correct, tally.rows))
    if job.report:
        class_report.say_classes(tally.confusion, tally.names, job.json_file, say)
    if job.json_file is not None:
        class_report.write_classes(
            job.json_file, tally.confusion, tally.names, tally.correct, tally.rows
        )


def _is_service(job) -> bool:
    """Whether every row is answered when it has arrived: asked for, or from pipe to stdout."""
    from odmtool.io.files import is_regular_stdin

    return job.line_buffered or job.test == job.output == "-" and not is_regular_stdin()


def _block_bytes(job) -> int:
    """How much is read at a time."""
    from odmtool.io import svmlight

    return svmlight.AT_ONCE if _is_service(job) else 4 * svmlight.BLOCK_BYTES


def _memory(job, model, jobs: int) -> dict[str, float]:
    """Bytes by purpose that predicting takes; they do not grow with the rows."""
    import os

    from odmtool.core.memory import LIBRARIES, PREDICTION, READER, TEXT_COPIES, resident
    from odmtool.io import svmlight
    from odmtool.models.linear import LinearModel

    block = TEXT_COPIES * _block_bytes(job)
    found = {"program and model": resident(), "libraries": LIBRARIES, "a block of rows": block}
    is_small = os.path.isfile(job.test) and os.path.getsize(job.test) <= svmlight.PLAIN_BYTES
    if not (is_small or _is_service(job)):
        found["reader"] = READER
    is_linear = isinstance(model, LinearModel)
    return found if is_linear else found | {"kernel values": jobs * PREDICTION}


def _check(job) -> None:
    if job.probability == "1" and job.decision_values:
        raise UsageError(messages.probability_or_decision_values())
    refuse_shared_stdin(job.test, job.model)
    inputs, others = [job.test, job.model], [job.output]
    if is_in_use(job.output, inputs, []):
        raise UsageError(messages.predict_over(job.output))
    refuse_shared_stream(job.output, job.margins, job.json_file)
    for flag, product in (("--margins", job.margins), ("--json", job.json_file)):
        if product is None:
            continue
        if is_in_use(product, inputs, others):
            raise UsageError(messages.file_in_use(flag, product))
        others.append(product)


def _predict_file(job, model, jobs: int) -> Tally:
    """Predict block by block; the output file is replaced at the end."""
    from odmtool.io import files, svmlight
    from odmtool.io.row_labels import MISSING, RowLabels
    from odmtool.models.linear import LinearModel
    from odmtool.models.names import LabelNames

    names = LabelNames(model, files.display_name(job.model))
    name_labels(names.names)
    is_linear = isinstance(model, LinearModel)
    tally = Tally(names, _ruler(job, model), _confusion(job, names))
    predict_block, form = _way(job, model)
    predict_block = predict_block if is_linear else _in_threads(predict_block, jobs)
    has_values = bool(form) or job.margins is not None
    of_rows = RowLabels(may_miss=True)
    # In this order, as svm-predict: a client may open the pipe of its requests first.
    with (
        naming(job.test),
        files.open_unread(job.test) as unread,
        files.atomic_output(job.output, binary=True) as stream,
    ):
        blocks = svmlight.iter_svmlight(
            job.test, zero_based=job.zero_based, precomputed=model.is_precomputed,
            any_serial=True, block_bytes=_block_bytes(job), labels=of_rows, unread=unread,
        )  # fmt: skip
        is_service = _is_service(job)
        if form:
            stream.write(messages.labels_line(names.texts(model.labels)).encode())
        for block in blocks:
            if of_rows.kind == MISSING:
                _refuse_without_labels(job)
            if not len(block.labels):
                tally.skipped += block.skipped
                continue
            if has_values and not is_linear:
                model.expect(len(block.labels))
            for part in _parts(block, model) if has_values else (block,):
                rows = part.X if model.is_precomputed else part.rows
                labels, values = predict_block(rows)
                tally.add(model, part, rows, labels, values if job.probability == "0" else None)
                stream.writelines(_lines(names.texts(labels.tolist()), values, form))
            if is_service:
                stream.flush()
        tally.kind = of_rows.kind
        if tally.rows == 0:
            raise DataError(messages.no_test_rows(), files.display_name(job.test))
    return tally


def _way(job, model):
    """What finds labels and values of rows, and how each value is written."""
    if job.probability == "1":
        return model.predict_with_probabilities, " %g"
    if job.decision_values or job.margins is not None:
        return model.predict_with_values, " %.17g" if job.decision_values else ""
    import numpy as np

    # No values, which of a kernel model take longer.
    return lambda rows: (model.predict(rows), np.empty((rows.shape[0], 0))), ""


def _parts(block, model):
    """The block by so few rows at a time that the values of their pairs take little memory."""
    m, k = len(block.labels), len(model.labels)
    values = k if model.has_scores else max(1, k * (k - 1) // 2)
    most = max(1, _VALUES_AT_ONCE // values)
    if m <= most:
        yield block
        return
    for start in range(0, m, most):
        some, skipped = slice(start, start + most), block.skipped if start == 0 else 0
        yield block._replace(rows=block.rows[some], labels=block.labels[some], skipped=skipped)


def _in_threads(predict_block, jobs: int):
    """What predicts by parts of the rows that do not depend on the number of threads."""
    import numpy as np

    from odmtool.rows.executor import local_executor

    def predict(rows):
        parts = [rows[k : k + _ROWS_OF_A_TASK] for k in range(0, rows.shape[0], _ROWS_OF_A_TASK)]
        found = local_executor(jobs).map(predict_block, parts)
        return tuple(map(np.concatenate, zip(*found, strict=True)))

    return predict


def _refuse_without_labels(job) -> None:
    """Raise DataError for what compares predictions with labels."""
    from odmtool.io.files import display_name

    for flag, wish in (("--margins", job.margins), ("--report", job.report),
                       ("--json", job.json_file)):  # fmt: skip
        if wish:
            raise DataError(messages.needs_labels(flag), display_name(job.test))


def _ruler(job, model):
    if job.margins is None:
        return None
    from odmtool.measures.margins import Ruler

    return Ruler(model)


def _confusion(job, names):
    if not job.report and job.json_file is None:
        return None
    from odmtool.measures.confusion import Confusion

    return Confusion(names.order)


def _lines(labels: list, values, form: str):
    """One line per row: the label and, unless the form is empty, the values in this form."""
    count = values.shape[1] if form else 0
    row, most = "%s" + form * count + "\n", max(1, _CELLS_AT_ONCE // (count + 1))
    for start in range(0, len(labels), most):
        some = slice(start, start + most)
        columns = [labels[some], *(values[some].T.tolist() if form else ())]
        cells = tuple(chain.from_iterable(zip(*columns, strict=True)))
        yield (row * len(columns[0]) % cells).encode()


def _say_remarks(say: report.Report, model, tally: Tally) -> None:
    from odmtool.io.row_labels import MISSING, NUMBERS, WORDS

    if tally.kind == MISSING:
        say.note(messages.no_labels())
    elif tally.kind == NUMBERS and tally.names.takes_integers:
        say.note(messages.numbers_for_words(messages.numbered(tally.names.names)))
    # Rows whose labels nobody knows are often given one number.
    elif not tally.shares_labels and (tally.kind == WORDS or tally.has_several_labels):
        say.warning(messages.no_label_in_common())
    if tally.skipped:
        say.note(messages.lines_without_output(tally.skipped))
    if model.is_precomputed:
        if tally.width - 1 < model.largest_serial:
            say.warning(messages.kernel_row_short(tally.width - 1, model.largest_serial))
    elif tally.has_values and not tally.shares_features:
        say.warning(messages.no_feature_in_common())
