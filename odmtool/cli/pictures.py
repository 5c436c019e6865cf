"""The pictures of odm-cv: their options, what is checked before the search, and the files."""

from __future__ import annotations

import os

import click

from odmtool.cli import messages
from odmtool.cli.options import stacked
from odmtool.errors import UsageError

ENDINGS = ("png", "svg", "pdf")

PICTURE_OPTIONS = ("plot_file", "path_file", "plot_title")


class PictureFile(click.ParamType):
    """The name of a file whose ending says what kind of picture it is."""

    name = "file"

    def convert(self, value, param, ctx):
        if ending_of(value) not in ENDINGS:
            self.fail(messages.unknown_picture(value, ENDINGS), param, ctx)
        return value


def ending_of(path: str) -> str:
    return os.path.splitext(path)[1].removeprefix(".").lower()


plot_options = stacked([
    click.option("--plot", "plot_file", type=PictureFile(),
                 help="Plot the score over the two parameters that change it most, with "
                      "the others at their best: FILE.png, .svg or .pdf (needs matplotlib)."),
    click.option("--plot-path", "path_file", type=PictureFile(),
                 help="Plot the score against lambda (or C), one line for each kernel and "
                      "gamma, with the standard deviation over the folds."),
    click.option("--plot-title", metavar="TEXT",
                 help="Title of the pictures; '' is none.  "
                      "[default: name of the training file]"),
])  # fmt: skip


def check_pictures(job, settings: list[dict]) -> None:
    """Raise UsageError, before anything runs, if a picture could not be made.

    matplotlib is missing, or nothing varies that could be an axis.
    """
    if job.plot_file is None and job.path_file is None:
        return
    from odmtool.measures import pictures as plots

    if job.plot_file is not None and not plots.has_axis(settings):
        raise UsageError(messages.nothing_to_plot())
    if job.path_file is not None and not plots.has_path(settings):
        raise UsageError(messages.no_path_to_plot(plots.strength(settings[0])))
    plots.check_library()


def write_pictures(job, data_file: str, all_rows: list, plan, report, attempt) -> None:
    """Draw what was asked for; ``attempt`` is that of :meth:`Report.first`."""
    rows = [row for row in all_rows if row.has_solution]
    if job.plot_file is None and job.path_file is None:
        return
    from odmtool.measures import pictures as plots

    title, drawn = title_of(job.plot_title, data_file), {}
    if job.plot_file is not None:
        drawn[job.plot_file] = plots.search_figure(rows, plan, title)
    if job.path_file is not None:
        drawn[job.path_file] = plots.path_figure(rows, plan, title)
        lines = len({(row.setting["kernel"], row.setting.get("gamma")) for row in rows})
        if lines > plots.LINES:
            report.note(messages.best_lines_only(job.path_file, plots.LINES, lines))
    for path, figure in drawn.items():
        attempt(draw, path, figure)


def draw(path: str, figure) -> None:
    """Write a picture; all of it, or nothing."""
    from odmtool.io.files import atomic_output
    from odmtool.measures import pictures as plots

    picture = plots.render(figure, ending_of(path))
    with atomic_output(path, binary=True) as stream:
        stream.write(picture)


def title_of(wanted: str | None, data_file: str) -> str:
    """The title that was asked for, or the name of the data; stdin has none."""
    if wanted is not None:
        return messages.one_line(wanted)
    return "" if data_file == "-" else messages.one_line(os.path.basename(data_file))
