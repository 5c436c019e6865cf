"""``odmtool margins``: the margin distributions of several models, as a table and a picture."""

from __future__ import annotations

from types import SimpleNamespace

import click

from odmtool.cli import messages
from odmtool.cli import options as common
from odmtool.cli.files import check_files, naming
from odmtool.cli.flags import name_labels
from odmtool.cli.margin_files import statistics_rows, warn_of_gaps
from odmtool.cli.pictures import PictureFile, draw, title_of
from odmtool.cli.report import Report, report_of
from odmtool.errors import DataError, UsageError

_PANELS = {"normalised": [True], "plain": [False], "both": [False, True]}
# The quantiles of the table; --csv has all.
_SHOWN = ("0.05", "0.25", "0.5", "0.75", "0.95")


@common.command(
    epilog="""\b
Examples:
  odmtool margins test.svm svm.model odm.model
  odmtool margins --plot margins.pdf --names SVM,ODM test.svm svm.model odm.model
"""
)
@click.argument("test_file", metavar="TEST_FILE")
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@click.option("-p", "--theta", type=common.Number(),
              help="Count the margins below 1 - THETA.  [default: what each model records]")
@click.option("--csv", "csv_file", metavar="FILE", help="Write the table as CSV, all quantiles.")
@click.option("--plot", "plot_file", type=PictureFile(),
              help="Draw the cumulative distributions: FILE.png, .svg or .pdf (needs matplotlib).")
@click.option("--panel", type=click.Choice(list(_PANELS)), default="normalised",
              show_default=True, help="Which margins are drawn.")
@click.option("--names", metavar="NAME,...",
              help="What the table and the picture call the models.  [default: their files]")
@click.option("--plot-title", metavar="TEXT",
              help="Title of the picture; '' is none.  [default: name of the test file]")
@click.option("--zero-based", is_flag=True,
              help="Feature indices of TEST_FILE start at 0; add 1 to each.")
@common.jobs_option("Threads for BLAS (kernel models).")
@common.voice_options
def margins(ctx, **options):
    """Compare the margins that models have on the examples of TEST_FILE.

    MODEL... are models of odm-train, or classification models of LIBLINEAR or LIBSVM. The
    table has two rows for each: the margins y f(x) and the normalised margins y f(x) / |w|.
    """
    job = SimpleNamespace(**options)
    names = _names(job)
    common.limit_threads(options["jobs"])
    report = report_of(ctx, options, job.csv_file)
    check_files([job.test_file, *job.models], [job.csv_file, job.plot_file])
    if job.plot_file is not None:
        from odmtool.measures import margin_picture, pictures

        pictures.check_library()
    measured, correct = _measure(job, report)
    if job.theta is not None:
        measured = [one._replace(theta=job.theta) for one in measured]
    rows = [row for triple in zip(names, measured, correct, strict=True) for row in _rows(*triple)]
    figure = None
    if job.plot_file is not None:  # first, for there may be nothing to draw
        title = title_of(job.plot_title, job.test_file)
        named = dict(zip(names, measured, strict=True))
        figure = margin_picture.margin_figure(named, _PANELS[job.panel], title)
    from odmtool.cli.tables import write_csv
    from odmtool.io.files import display_name

    examples = len(measured[0].plain)
    shown = [_short(row) for row in rows]
    table = messages.margin_table(shown, examples, display_name(job.test_file))
    with report.first([table]) as attempt:
        if figure is not None:
            attempt(draw, job.plot_file, figure)
        if job.csv_file is not None:
            attempt(write_csv, job.csv_file, rows)


def _names(job) -> list[str]:
    """What the models are called; all different."""
    names = list(job.models) if job.names is None else job.names.split(",")
    if len(names) != len(job.models):
        raise UsageError(messages.name_count(len(names), len(job.models)))
    if job.names is not None and "" in names:
        raise UsageError(messages.empty_name())
    twice = [name for k, name in enumerate(names) if name in names[:k]]
    if twice:
        raise UsageError(messages.named_twice(twice[0]))
    return names


def _measure(job, report: Report) -> tuple[list, list[int]]:
    """Margins of every model, and how many examples it predicts correctly; one pass."""
    from odmtool.io.files import display_name
    from odmtool.io.model_file import read_model
    from odmtool.io.svmlight import iter_svmlight
    from odmtool.measures.margins import Ruler
    from odmtool.models.names import LabelNames

    rulers, names = [], []
    for path in job.models:
        model = read_model(path, zero_based=job.zero_based)
        if rulers and model.is_precomputed != rulers[0].model.is_precomputed:
            other = path if model.is_precomputed else job.models[0]
            raise UsageError(messages.precomputed_among_others(other))
        with naming(path):
            names.append(LabelNames(model, display_name(path)))
            name_labels(names[-1].names)
            rulers.append(Ruler(model))
    correct = [0] * len(rulers)
    blocks = iter_svmlight(
        job.test_file, zero_based=job.zero_based,
        precomputed=rulers[0].model.is_precomputed, any_serial=True,
    )  # fmt: skip
    empty = True
    for block in blocks:
        for k, ruler in enumerate(rulers):
            with naming(job.test_file):
                labels, values = ruler.model.predict_with_values(block.X)
                true = names[k].integers(block.labels, block.names)
            ruler.add(true, values)
            correct[k] += int((labels == true).sum())
            empty = False
    if empty:
        raise DataError(messages.no_test_rows(), display_name(job.test_file))
    measured = []
    for path, ruler, own in zip(job.models, rulers, names, strict=True):
        name_labels(own.names)
        with naming(path):
            measured.append(ruler.result())
        warn_of_gaps(measured[-1], path, report)
    return measured, correct


def _rows(name: str, measured, correct: int) -> list[dict]:
    """The two rows of a model."""
    plain, normalised = {}, {}
    for statistic, a, b in statistics_rows(measured):
        plain[statistic], normalised[statistic] = a, b
    known = {"accuracy": correct / len(measured.plain), "theta": measured.theta}
    return [
        {"model": name, "margin": kind} | known | values
        for kind, values in (("plain", plain), ("normalised", normalised))
    ]


def _short(row: dict) -> dict:
    """What fits on a screen."""
    return {
        "model": row["model"], "margin": row["margin"], "accuracy": row["accuracy"],
        "minimum": row["minimum"], "mean": row["mean"], "variance": row["variance"],
        **{f"q{share}": row[f"quantile_{share}"] for share in _SHOWN},
        "<0": row["below_0"], "<1-theta": row["below_1-theta"],
    }  # fmt: skip
