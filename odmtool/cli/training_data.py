"""Read what a training command trains on, and say what is odd about it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import NamedTuple

from odmtool import messages
from odmtool.cli.report import Report
from odmtool.errors import DataError, UsageError


class TrainingData(NamedTuple):
    """Examples, their weights (or None), and the data's fingerprint."""

    dataset: object
    weight: object
    fingerprint: str


@contextmanager
def naming(data_file: str):
    """Errors about the data that do not know where they came from name this file."""
    try:
        yield
    except DataError as error:
        if error.file is None:
            error.file = "stdin" if data_file == "-" else data_file
        raise


def check_inputs(data_file: str, weights_file: str | None) -> None:
    """Raise before anything is read if both would come from stdin, or one is missing."""
    from odmtool.io.files import check_readable

    if data_file == "-" == weights_file:
        raise UsageError(messages.two_from_stdin("the training data", "the weights"))
    for path in (data_file, weights_file):
        if path is not None:
            check_readable(path)


def read_training_data(options: dict, report: Report) -> TrainingData:
    """The data file and the weight file of a command's options.

    Raises
    ------
    FileError, DataError
    """
    from odmtool.io.svmlight import fingerprint, read_svmlight
    from odmtool.io.weights import read_weights

    path, weight = options["training_file"], None
    if options["weights"] is not None:
        weight = read_weights(options["weights"])
    precomputed = "precomputed" in options["kernel"]
    dataset = read_svmlight(
        path, zero_based=options["zero_based"], precomputed=precomputed, jobs=options["jobs"]
    )
    if weight is not None and len(weight) != len(dataset.labels):
        message = messages.weight_count(len(weight), len(dataset.labels))
        raise DataError(message, options["weights"])
    labels = set(dataset.labels.tolist())
    for label, _weight in options["class_weight"]:
        if label not in labels:
            report.warning(messages.no_such_class(label))
    if len(labels) == 1:
        report.warning(messages.one_class(labels.pop()))
    if dataset.skipped:
        report.detail(messages.lines_skipped(dataset.skipped))
    return TrainingData(dataset, weight, fingerprint(dataset))
