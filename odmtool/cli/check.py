"""``odmtool check`` and ``odm-train --check``: look at data files without training."""

from __future__ import annotations

import click

from odmtool.cli import messages
from odmtool.cli import options as common
from odmtool.cli.files import naming, refuse_shared_stdin
from odmtool.cli.flags import names_in
from odmtool.cli.machine_options import KernelName
from odmtool.cli.report import Report
from odmtool.core.kernel_table import KERNELS
from odmtool.errors import DataError, FileError, OdmError

# More classes than this are counted, not listed.
_MOST_CLASSES = 20


@common.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--zero-based", is_flag=True, help="Feature numbers in the data start at 0.")
@click.option("-t", "--kernel", type=KernelName(tuple(KERNELS)), default="linear",
              help="precomputed, or 4: the data are kernel values, behind serial numbers 0:1, 0:2 "
                   "and so on; as many for each example as there are examples must be symmetric. "
                   "Other kernels change nothing.")
@common.quiet_option_of("Print only mistakes.")
@common.version_option
@click.pass_context
def check(ctx, files: tuple[str, ...], zero_based: bool, kernel: str, quiet: bool):
    """Read FILE... (svmlight format) without training.

    Of each, the numbers of examples, features and values, the classes and the range of the values
    are printed, or its first mistake. The exit code is 1 if a file has one.
    """
    common.limit_threads(1)
    refuse_shared_stdin(*files)
    report, faults = Report(ctx.command_path), 0
    for path in files:
        try:
            for line in _described(path, zero_based, kernel == "precomputed"):
                if not quiet:
                    report.result(line)
        except (DataError, FileError) as error:
            faults += 1
            error.names = names_in(ctx)
            report.result(str(error))
    if faults:
        raise OdmError(messages.files_with_faults(faults, len(files)))


def _described(path: str, zero_based: bool, precomputed: bool) -> list[str]:
    import numpy as np

    from odmtool.core.kernels import SCALED, check_precomputed
    from odmtool.io.files import display_name
    from odmtool.io.svmlight import read_svmlight

    data = read_svmlight(path, zero_based=zero_based, precomputed=precomputed)
    # Those of test examples are not symmetric.
    if precomputed and data.X.shape[1] == 1 + data.X.shape[0]:
        with naming(path):
            check_precomputed(data.X)
    X = data.X[:, 1:] if precomputed else data.X
    (m, d), values = X.shape, X.data
    classes, counts = np.unique(data.labels, return_counts=True)
    low, high = (0.0, 0.0) if not len(values) else (values.min(), values.max())
    if len(values) < m * d:
        low, high = min(low, 0.0), max(high, 0.0)
    name = display_name(path)
    noun = "kernel value" if precomputed else "feature"
    lines = [messages.data_shape(name, m, d, noun, len(values), low, high)]
    if len(classes) <= _MOST_CLASSES:
        labels = classes.tolist() if data.names is None else data.names
        pairs = zip(labels, counts.tolist(), strict=True)
        lines.append(messages.data_classes(name, list(pairs)))
    else:
        lines.append(messages.many_classes(name, len(classes), counts.min(), counts.max()))
    if data.skipped:
        lines.append(f"{name}: {messages.lines_skipped(data.skipped)}")
    if max(abs(low), abs(high)) > SCALED and not precomputed:
        lines.append(messages.scale_first(name))
    return lines
