"""``odmtool check`` and ``odm-train --check``: look at data files without training."""

from __future__ import annotations

import click

from odmtool.cli import messages
from odmtool.cli import options as common
from odmtool.cli.report import Report
from odmtool.errors import DataError, FileError, OdmError

# More classes than this are counted, not listed.
_MOST_CLASSES = 20


@common.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--zero-based", is_flag=True, help="Feature numbers in the data start at 0.")
@common.version_option
@click.pass_context
def check(ctx, files: tuple[str, ...], zero_based: bool):
    """Read FILE... (svmlight format) without training.

    Of each, the numbers of examples, features and values, the classes and the range of the values
    are printed, or its first mistake. The exit code is 1 if a file has one.
    """
    common.limit_threads(1)
    report, faults = Report(ctx.command_path), 0
    for path in files:
        try:
            for line in _described(path, zero_based):
                report.result(line)
        except (DataError, FileError) as error:
            faults += 1
            report.result(str(error))
    if faults:
        raise OdmError(messages.files_with_faults(faults, len(files)))


def _described(path: str, zero_based: bool) -> list[str]:
    import numpy as np

    from odmtool.core.kernels import SCALED
    from odmtool.io.svmlight import read_svmlight

    data = read_svmlight(path, zero_based=zero_based)
    (m, d), values = data.X.shape, data.X.data
    classes, counts = np.unique(data.labels, return_counts=True)
    low, high = (0.0, 0.0) if not len(values) else (values.min(), values.max())
    if len(values) < m * d:
        low, high = min(low, 0.0), max(high, 0.0)
    lines = [messages.data_shape(path, m, d, len(values), low, high)]
    if len(classes) <= _MOST_CLASSES:
        labels = classes.tolist() if data.names is None else data.names
        pairs = zip(labels, counts.tolist(), strict=True)
        lines.append(messages.data_classes(path, list(pairs)))
    else:
        lines.append(messages.many_classes(path, len(classes), counts.min(), counts.max()))
    if data.skipped:
        lines.append(f"{path}: {messages.lines_skipped(data.skipped)}")
    if max(abs(low), abs(high)) > SCALED:
        lines.append(messages.scale_first(path))
    return lines
