"""The picture of margin distributions: one cumulative curve for each model.

The counterpart of Figure 2 of Zhang & Zhou, "Large margin distribution machine", KDD 2014.
Looks and promises are those of :mod:`odmtool.measures.pictures`.
"""

from __future__ import annotations

import numpy as np

from odmtool import messages
from odmtool.errors import UsageError
from odmtool.measures.margins import Margins
from odmtool.measures.pictures import COLOURS, style

_LINES = ("-", "--", "-.", ":")
# Width and height in inches of one panel.
_PANEL = (3.5, 2.9)


@style()
def margin_figure(named: dict[str, Margins], normalised: list[bool], title: str | None = None):
    """Cumulative distributions of the margins of several models.

    Returns matplotlib.figure.Figure. Raises UsageError: no model has normalised margins, which a
    panel should show.

    Parameters
    ----------
    named : dict
        What the legend calls a model, and its margins.
    normalised : list of bool
        One panel each: of the normalised margins or of the plain ones.
    """
    from matplotlib.figure import Figure

    width, height = _PANEL
    figure = Figure(figsize=(width * len(normalised), height), layout="constrained")
    panels = figure.subplots(1, len(normalised), sharey=True, squeeze=False)[0]
    for axes, kind in zip(panels, normalised, strict=True):
        _draw(axes, named, kind)
    panels[0].set_ylabel(messages.margin_share_axis())
    for text in panels[0].legend(frameon=False, loc="upper left").get_texts():
        text.set_parse_math(False)
    panels[0].set_title(messages.plot_title(title), loc="left", parse_math=False)
    return figure


def _draw(axes, named: dict[str, Margins], is_normalised: bool) -> None:
    axes.axvline(0.0, color="0.6", linewidth=0.7)
    drawn = 0
    for i, (name, margins) in enumerate(named.items()):
        values = (margins.normalised if is_normalised else margins.plain)[margins.known]
        if np.isnan(values).any():
            continue
        look = dict(color=COLOURS[i % len(COLOURS)], linestyle=_LINES[i % len(_LINES)])
        axes.ecdf(values, label=messages.one_line(name), **look)
        drawn += 1
    if not drawn:
        raise UsageError(messages.nothing_normalised())
    axes.set_xlabel(messages.margin_axis(is_normalised))
    axes.set_ylim(0, 1.02)
    axes.grid(linewidth=0.4, alpha=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
