"""``--margins``: the option, and the file of margins that odm-train and odm-predict write."""

from __future__ import annotations

from itertools import chain

import click

from odmtool.cli import messages
from odmtool.cli.report import Report


def margins_option(text: str):
    """Decorator: ``--margins FILE``."""
    return click.option("--margins", metavar="FILE", help=text)


def write_margins(path: str, data_file: str, model_file: str, ruler, names, report: Report) -> None:
    """Write what a ruler has measured: statistics as comments, then one line per example.

    Parameters
    ----------
    data_file, model_file : str
        As the user wrote them.
    ruler : odmtool.measures.margins.Ruler
    names : odmtool.models.names.LabelNames
    """
    from odmtool.io.files import atomic_output, display_name

    margins = ruler.result()
    warn_of_gaps(margins, model_file, report)
    labels = names.texts(margins.labels.tolist())
    rows = list(zip(labels, margins.plain.tolist(), margins.normalised.tolist(), strict=True))
    with atomic_output(path) as stream:
        stream.writelines(_head(margins, display_name(data_file), model_file, ruler.norm))
        for start in range(0, len(rows), 2**16):
            part = rows[start : start + 2**16]
            stream.write("%s %.17g %.17g\n" * len(part) % tuple(chain.from_iterable(part)))


def warn_of_gaps(margins, model_file: str, report: Report) -> None:
    """Say which margins there are not."""
    import numpy as np

    unknown = int(np.count_nonzero(~margins.known))
    if unknown:
        report.warning(messages.labels_without_margin(unknown, model_file))
    if np.isnan(margins.normalised[margins.known]).any():
        report.warning(messages.no_norm(model_file))


def _head(margins, data: str, model: str, norm: float | None):
    """The comment lines."""
    yield f"# data {messages.one_line(data)}\n"
    yield f"# model {messages.one_line(model)}\n"
    yield f"# examples {len(margins.plain)}\n"
    yield f"# theta {_number(margins.theta)}\n"
    yield f"# norm {_number(norm)}\n"
    yield "# statistic margin normalised\n"
    for name, plain, normalised in statistics_rows(margins):
        yield f"# {name} {_number(plain)} {_number(normalised)}\n"
    yield "# label margin normalised\n"


def statistics_rows(margins) -> list[tuple]:
    """Name, value for the margins, value for the normalised margins; None if unknown."""
    from odmtool.measures.margins import QUANTILES

    plain, normalised = margins.statistics()
    rows = [(name, getattr(plain, name), getattr(normalised, name))
            for name in ("minimum", "mean", "variance")]  # fmt: skip
    both = zip(QUANTILES, plain.quantiles, normalised.quantiles, strict=True)
    rows += [(f"quantile_{share:g}", a, b) for share, a, b in both]
    shares = [("below_0", margins.below_zero), ("below_1-theta", margins.below_band)]
    return rows + [(name, share, share) for name, share in shares]


def _number(value: float | None) -> str:
    return "nan" if value is None else format(value, ".10g")
