"""``odm-scale``: scale features, with svm-scale's options, output and range files.

Without ``--restore`` the data are read once and held, because their ranges
must be known before the first line is written; that works from a pipe. With
``--restore`` they pass through in blocks, so memory does not grow.
"""

from __future__ import annotations

import os
from types import SimpleNamespace

import click

from odmtool.cli import messages, options, report
from odmtool.cli.files import (
    is_in_use,
    is_on_stdout,
    naming,
    refuse_shared_stdin,
    refuse_shared_stream,
)
from odmtool.errors import DataError, ModelError, UsageError

LOWER, UPPER = -1.0, 1.0


@options.command()
@click.argument("data", metavar="FILE")
@click.option("-l", "--lower", type=options.Number(), help="What a minimum becomes.  [default: -1]")
@click.option("-u", "--upper", type=options.Number(), help="What a maximum becomes.  [default: 1]")
@click.option("-y", "--scale-labels", nargs=2, type=options.Number(), metavar="LOWER UPPER",
              help="Scale the labels too, to this range.")
@click.option("-s", "--save", metavar="RANGE_FILE", help="Write the ranges found in the data.")
@click.option("-r", "--restore", metavar="RANGE_FILE",
              help="Scale by these ranges, not by those of the data; -l, -u and -y come from the "
                   "file. A model of odm-train --scale serves, too.")
@click.option("-o", "--output", metavar="FILE", default="-",
              help="Where the scaled data go; FILE itself is replaced when all is scaled.  "
                   "[default: stdout]")
@click.option("--digits", type=options.Whole(1, 17), default=6, show_default=True,
              help="Significant digits of a scaled value; 17 loses nothing.")
@click.option("--zero-based", is_flag=True,
              help="Feature indices of FILE start at 0; add 1 to each.")
@options.voice_options
def scale(ctx, quiet: bool, verbose: bool, **settings) -> None:
    """Scale the features of an svmlight FILE to [-1, 1] or another range.

    Scale training data with -s, and test data by the same ranges with -r. Range
    files and output are those of LIBSVM's svm-scale. Features that are constant
    are removed. FILE may be - (stdin).
    """
    job = SimpleNamespace(**settings)
    _check(job)
    from odmtool.io import files

    for path in (job.save, job.output):
        if path is not None:
            files.check_writable(path)
    say = report.Report(ctx.command_path, quiet, verbose, product_on_stdout=True)
    if job.restore is None:
        _scale_by_own_ranges(job, say)
    else:
        _scale_by_restored_ranges(job, say)


def _ends(job) -> tuple[float, float]:
    """What a minimum and a maximum become, if no range file says so."""
    return LOWER if job.lower is None else job.lower, UPPER if job.upper is None else job.upper


def _check(job) -> None:
    if job.save is not None and job.restore is not None:
        raise UsageError(messages.save_and_restore())
    lower, upper = _ends(job)
    if not lower < upper:
        raise UsageError(messages.range_not_rising("-l", lower, "-u", upper))
    if job.scale_labels and not job.scale_labels[0] < job.scale_labels[1]:
        raise UsageError(messages.range_not_rising("-y", *job.scale_labels))
    refuse_shared_stdin(job.data, job.restore)
    refuse_shared_stream(job.save, job.output)
    if job.restore is not None and is_in_use(job.output, [job.restore], []):
        raise UsageError(messages.restore_over(job.restore))
    if is_on_stdout(job.output) and is_in_use(job.output, [job.data], []):
        raise UsageError(messages.scaled_over_data())
    # The output may be the data: it takes their place when they have been read.
    if job.save is not None and is_in_use(job.save, [job.data], [job.output]):
        raise UsageError(messages.save_over(job.save))


def _scale_by_own_ranges(job, say: report.Report) -> None:
    from odmtool.core.scaling import Extremes, Ranges, Scaler
    from odmtool.io import range_file, svmlight

    data = svmlight.read_svmlight(job.data, real_labels=True, zero_based=job.zero_based)
    extremes = Extremes()
    extremes.update(data.rows)
    ranges = Ranges(*_ends(job), *extremes.varying(), _label_range(job, data))
    say.detail(messages.scaling_found(data.rows.shape[0], len(ranges.index), len(extremes.columns)))
    if not len(ranges.index):
        say.warning(messages.nothing_varies())
    if job.save is None:
        _write(job, say, Scaler(ranges), [data])
    elif is_on_stdout(job.output):
        # Who reads the output may go early; the ranges are needed all the same.
        range_file.write_range(job.save, ranges)
        _write(job, say, Scaler(ranges), [data])
    else:
        with range_file.written_range(job.save, ranges):
            _write(job, say, Scaler(ranges), [data])


def _scale_by_restored_ranges(job, say: report.Report) -> None:
    from odmtool.core.scaling import Scaler
    from odmtool.io import files, svmlight

    ranges, shown = _restored(job.restore, job.zero_based), files.display_name(job.restore)
    given = [("-l", job.lower, ranges.lower), ("-u", job.upper, ranges.upper)]
    if job.scale_labels and ranges.labels:
        given.append(("-y", job.scale_labels, tuple(ranges.labels[:2])))
    ignored = [name for name, value, restored in given if value not in (None, restored)]
    if ignored:
        say.warning(messages.range_file_wins(ignored, shown))
    reading = {"real_labels": True, "zero_based": job.zero_based}
    if job.scale_labels and ranges.labels is None:
        say.warning(messages.labels_by_own_range(shown))
        data = svmlight.read_svmlight(job.data, **reading)
        ranges = ranges._replace(labels=_label_range(job, data))
        blocks = [data]
    else:
        blocks = svmlight.iter_svmlight(job.data, **reading)
    scaler = Scaler(ranges, remembers=True)
    _write(job, say, scaler, blocks)
    unseen = scaler.unseen.varying()[0]
    if len(unseen):
        say.warning(messages.unseen_features(len(unseen), unseen[0], shown))


def _restored(path: str, zero_based: bool):
    """The ranges of a range file, or those that a model keeps."""
    from odmtool.io import files, model_file, range_file

    # What is no regular file cannot be looked at first.
    if not os.path.isfile(path) or not model_file.is_model(path):
        return range_file.read_range(path, zero_based)
    ranges = getattr(model_file.read_model(path), "ranges", None)
    if ranges is None:
        raise ModelError(messages.model_without_ranges(), files.display_name(path))
    return ranges


def _label_range(job, data):
    from odmtool.core.scaling import LabelRange

    if not job.scale_labels:
        return None
    _refuse_words(job, data)
    return LabelRange(*job.scale_labels, float(data.labels.min()), float(data.labels.max()))


def _refuse_words(job, data) -> None:
    """Raise DataError if the labels cannot be scaled."""
    from odmtool.io.files import display_name

    if data.names is not None:
        raise DataError(messages.labels_are_words(data.names[0]), display_name(job.data))


def _write(job, say: report.Report, scaler, datasets) -> None:
    """Scale and write all rows; warn if sparse data became dense."""
    from odmtool.io import files

    formats = _value_formats(scaler.ranges.index, job.digits)
    before = after = 0
    with files.atomic_output(job.output) as stream:
        for data in datasets:
            if scaler.ranges.labels is not None:
                _refuse_words(job, data)
            before += data.rows.nnz
            for part in scaler.parts(data.rows.indptr):
                with naming(job.data):
                    labels = scaler.scale_labels(data.labels[part])
                    scaled = scaler.scale(data.rows[part])
                after += scaled.nnz
                texts = _label_texts(labels, data.names)
                stream.writelines(_lines(texts, scaled, formats))
    if after > before:
        remedy = "-l 0" if scaler.ranges.lower else None
        say.warning(messages.more_nonzeros(after, before, remedy))


def _value_formats(index, digits: int):
    """Per feature, the %-format that writes its ``index:value``."""
    import numpy as np

    return np.array([f"{i}:%.{digits}g " for i in index.tolist()], dtype=object)


def _label_texts(labels, names) -> list[str]:
    """The labels as they are written: numbers, or the words for which they stand."""
    if names is None:
        return [f"{label:.17g}" for label in labels.tolist()]
    return [names[int(label)] for label in labels.tolist()]


def _lines(labels: list[str], scaled, formats):
    """The rows as svm-scale writes them: every item is followed by a blank."""
    pieces = formats[scaled.indices].tolist()
    values = tuple(scaled.data.tolist())
    bounds = scaled.indptr.tolist()
    for row, label in enumerate(labels):
        start, stop = bounds[row], bounds[row + 1]
        yield f"{label} " + "".join(pieces[start:stop]) % values[start:stop] + "\n"
