"""Pictures of a search: the score over the parameters that matter, and along lambda.

Both are made to go into a paper: symbols on the axes, fonts of 9 points at the width of a
column and a half, colours that survive grey printing, fonts embedded as outlines. The same
rows give the same bytes with the same version of matplotlib: no dates, no random ids, and
no settings of the user's own matplotlib.

matplotlib is imported when something is drawn. pyplot is not used, so nothing of the
caller's is touched.
"""

from __future__ import annotations

import io
import warnings
from contextlib import contextmanager

import numpy as np

from odmtool import messages
from odmtool.errors import UsageError
from odmtool.search.search import SearchPlan, Trial, best

#: The parameters that can be an axis, the horizontal one first.
SYMBOLS = {
    "lambda_": r"$\lambda$", "cost": "$C$", "gamma": r"$\gamma$", "degree": "degree",
    "coef0": "coef0", "mu": r"$\mu$", "theta": r"$\theta$", "mu1": r"$\mu_1$",
    "mu2": r"$\mu_2$", "power": "$p$",
}  # fmt: skip
LINES = 6
"""Most lines of :func:`path_figure`."""

_LOGARITHMIC = ("lambda_", "cost", "gamma", "mu1", "mu2")
_MOST_TICKS = 11
# The palette of Okabe & Ito, which the colour-blind can tell apart, without its yellow.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = "os^Dv<"
_STYLE = {
    "font.size": 9, "axes.titlesize": 9, "legend.fontsize": 8.5, "axes.linewidth": 0.7,
    "xtick.labelsize": 8.5, "ytick.labelsize": 8.5, "lines.linewidth": 1.2,
    "lines.markersize": 4, "savefig.dpi": 200, "pdf.fonttype": 42, "svg.hashsalt": "odmtool",
}  # fmt: skip


@contextmanager
def style():
    """matplotlib's own defaults, ours over them, and no remarks about missing letters."""
    from matplotlib.style import context

    with context(["default", _STYLE]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def check_library() -> None:
    """Raise UsageError if matplotlib is missing or broken."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise UsageError(messages.no_matplotlib()) from None
    except MemoryError:
        raise
    except Exception as error:  # whatever it finds wrong with its settings or its own files
        raise UsageError(messages.broken_matplotlib(str(error))) from None


def has_axis(settings: list[dict]) -> bool:
    """Whether a parameter varies that can be an axis of :func:`search_figure`."""
    kernels = {setting["kernel"] for setting in settings}
    return any(_varying([s for s in settings if s["kernel"] == kernel]) for kernel in kernels)


def has_path(settings: list[dict]) -> bool:
    """Whether :func:`path_figure` would show more than single points."""
    return strength(settings[0]) in _varying(settings)


@style()
def search_figure(rows: list[Trial], plan: SearchPlan, title: str | None = None):
    """A heat map of the score over two parameters, or its curve over one.

    The two are those whose best scores (each value with the best of all others) differ most.
    A cell shows the best of all rows with its two values. Of several kernels the best is
    shown, among those that have a parameter which varies.

    ``plan``: what was searched. Returns matplotlib.figure.Figure.
    """
    kernels, rows = {row.setting["kernel"] for row in rows}, _rows_of_one_kernel(rows, plan)
    names = parameters_by_importance(rows, plan)[:2] or [strength(rows[0].setting)]
    names.sort(key=list(SYMBOLS).index)
    along = [_Axis(name, rows, plan) for name in names]
    figure, axes = _empty(along[0], width=4.4)
    if len(names) == 2:
        _draw_cells(figure, axes, *along, rows, plan)
    else:
        _draw_curve(axes, along[0], rows, plan, color=COLOURS[0], fmt="o-")
        _finish_curves(axes, plan)
    _mark_best(axes, along, rows, plan)
    _legend(axes)
    kernel = rows[0].setting["kernel"] if len(kernels) > 1 else None
    axes.set_title(messages.plot_title(title, kernel), loc="left", parse_math=False)
    return figure


@style()
def path_figure(rows: list[Trial], plan: SearchPlan, title: str | None = None):
    """The score against lambda (or C): a line for each kernel and gamma, the rest at its best.

    The ``LINES`` lines that come highest are drawn. Error bars are standard deviations over
    the folds. Parameters and result as for :func:`search_figure`.
    """
    along = _Axis(strength(rows[0].setting), rows, plan)
    lines = path_lines(rows, plan)
    figure, axes = _empty(along, width=5.2 if len(lines) > 1 else 4.4)
    # Side by side, so that the error bars at one place can be told apart.
    shifts = along.spacing() * 0.08 * (np.arange(len(lines)) - (len(lines) - 1) / 2)
    for i, (line, label) in enumerate(zip(lines, _line_labels(lines, rows, plan), strict=True)):
        _draw_curve(axes, along, lines[line], plan, shifts[i], color=COLOURS[i],
                    fmt=f"{_MARKERS[i]}-", label=label)  # fmt: skip
    _finish_curves(axes, plan)
    if len(lines) > 1:
        _cut(axes)
    winner = best(rows, plan.machine, plan.metric).setting
    shift = shifts[list(lines).index((winner["kernel"], winner.get("gamma")))]
    _mark_best(axes, [along], rows, plan, shift)
    _legend(axes, beside=len(lines) > 1)
    axes.set_title(messages.plot_title(title), loc="left", parse_math=False)
    return figure


@style()
def render(figure, ending: str) -> bytes:
    """The figure as a file of this kind: ``png``, ``svg`` or ``pdf``."""
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    stream = io.BytesIO()
    figure.savefig(stream, format=ending, metadata=undated.get(ending))
    return stream.getvalue()


# ---- what is shown ---------------------------------------------------------------


def profile(rows: list[Trial], names: list[str], plan: SearchPlan) -> dict[tuple, Trial]:
    """The best row for each combination of values of these parameters."""
    groups: dict[tuple, list[Trial]] = {}
    for row in rows:
        groups.setdefault(tuple(row.setting.get(name) for name in names), []).append(row)
    return {key: best(group, plan.machine, plan.metric) for key, group in groups.items()}


def parameters_by_importance(rows: list[Trial], plan: SearchPlan) -> list[str]:
    """The parameters that vary; first the one whose values differ most in their best score."""

    def spread(name: str) -> float:
        scores = [row.score(plan.metric) for row in profile(rows, [name], plan).values()]
        return max(scores) - min(scores)

    # Rounded, so that equal differences do not depend on the last bit.
    return sorted(_varying([row.setting for row in rows]), key=lambda n: -round(spread(n), 12))


def path_lines(rows: list[Trial], plan: SearchPlan) -> dict[tuple, list[Trial]]:
    """The rows by kernel and gamma (None if there is none): the ``LINES`` best, in order."""
    highest = profile(rows, ["kernel", "gamma"], plan)
    winner = best(rows, plan.machine, plan.metric)
    # Among equals the one that is marked must not be left out.
    keys = sorted(
        highest, key=lambda key: (highest[key] is not winner, -highest[key].score(plan.metric))
    )[:LINES]
    order = list(dict.fromkeys(row.setting["kernel"] for row in rows))
    keys.sort(key=lambda key: (order.index(key[0]), key[1] or 0.0))
    return {
        key: [row for row in rows if (row.setting["kernel"], row.setting.get("gamma")) == key]
        for key in keys
    }


def _varying(settings: list[dict]) -> list[str]:
    """The parameters that have several values, in the order of SYMBOLS."""
    return [n for n in SYMBOLS if len({s[n] for s in settings if s.get(n) is not None}) > 1]


def strength(setting: dict) -> str:
    return "cost" if "cost" in setting else "lambda_"


def _rows_of_one_kernel(rows: list[Trial], plan: SearchPlan) -> list[Trial]:
    """Those of the best kernel among the kernels with a parameter that varies, if any has."""
    groups = [
        [row for row in rows if row.setting["kernel"] == kernel]
        for kernel in dict.fromkeys(row.setting["kernel"] for row in rows)
    ]
    groups = [g for g in groups if _varying([row.setting for row in g])] or groups
    winner = best([row for group in groups for row in group], plan.machine, plan.metric)
    return next(group for group in groups if group[0].setting["kernel"] == winner.setting["kernel"])


# ---- how it is drawn -------------------------------------------------------------


class _Axis:
    """A parameter as an axis: where its values stand, and how they are written.

    Logarithmic axes are drawn in exponents of 2, so that contours are straight in them.

    Parameters
    ----------
    name : str
        One of ``SYMBOLS``.
    rows : list of Trial
        Those whose values the axis has to hold.
    """

    def __init__(self, name: str, rows: list[Trial], plan: SearchPlan):
        self.name, self.label = name, SYMBOLS[name]
        self.values = sorted({row.setting[name] for row in rows if name in row.setting})
        self.is_logarithmic = name in _LOGARITHMIC and self.values[0] > 0
        d = plan.data.X.shape[1]
        units = ((1, ""), (d, "/d")) if name == "gamma" else ((1, ""),)
        self._unit, self._suffix = next(
            ((unit, text) for unit, text in units if self._are_powers(unit)), (None, "")
        )

    def _are_powers(self, unit: int) -> bool:
        """Whether the values are whole powers of 2 divided by ``unit``."""
        if not self.is_logarithmic:
            return False
        exponents = np.log2(np.multiply(self.values, unit))
        return bool(np.all(np.abs(exponents - np.round(exponents)) < 1e-9))

    def position(self, value):
        return np.log2(value) if self.is_logarithmic else np.asarray(value, float)

    def text(self, value: float) -> str:
        if self._unit is None:
            return f"{value:.3g}"
        power = f"$2^{{{round(np.log2(value * self._unit))}}}$"
        return power + (self._suffix and f"$\\,{self._suffix}$")

    def spacing(self) -> float:
        """The smallest distance between two values."""
        distances = np.diff(self.position(self.values))
        return float(distances.min()) if len(distances) else 1.0

    def label_ticks(self, axis) -> None:
        """Ticks at the values if they are few or powers of 2, else at round places."""
        from matplotlib.ticker import MaxNLocator

        axis.set_label_text(self.label)
        if self._unit is None and len(self.values) > _MOST_TICKS:
            axis.set_major_locator(MaxNLocator(7, integer=self.is_logarithmic))
            if self.is_logarithmic:
                axis.set_major_formatter(lambda exponent, _: f"$2^{{{exponent:g}}}$")
            return
        shown = self.values[:: -(-len(self.values) // _MOST_TICKS)]
        axis.set_ticks([self.position(v) for v in shown], [self.text(v) for v in shown])


def _empty(along: _Axis, width: float):
    """A figure with one pair of axes, the horizontal one labelled."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, 3.1), layout="constrained")
    axes = figure.add_subplot()
    along.label_ticks(axes.xaxis)
    return figure, axes


def _draw_cells(figure, axes, x: _Axis, y: _Axis, rows: list[Trial], plan: SearchPlan) -> None:
    """The best score for each pair of values, with contours and a colour bar."""
    from matplotlib.ticker import MaxNLocator

    cells = np.full((len(y.values), len(x.values)), np.nan)
    for (u, v), row in profile(rows, [x.name, y.name], plan).items():
        cells[y.values.index(v), x.values.index(u)] = 100 * row.score(plan.metric)
    percent = np.ma.masked_invalid(cells)
    lowest, highest = colour_range(percent.compressed())
    places = x.position(x.values), y.position(y.values)
    # Cells get edges of their own colour: viewers of vector files leave gaps otherwise.
    mesh = axes.pcolormesh(*places, percent, shading="nearest", cmap="viridis", vmin=lowest,
                           vmax=highest, edgecolors="face", linewidth=0.3)  # fmt: skip
    extend = "min" if percent.min() < lowest else "neither"
    bar = figure.colorbar(mesh, ax=axes, extend=extend, label=messages.score_label(plan.metric))
    # The bar says which line is which: labels between the cells would be clutter.
    bar.ax.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    levels = [t for t in bar.get_ticks() if lowest < t < highest]
    if levels:
        axes.contour(*places, percent, levels, colors="black", linewidths=0.7)
    for level in levels:
        # Colorbar.add_lines would clip them by a path, whose id in an svg is random up to 3.9.
        bar.ax.axhline(level, color="black", linewidth=0.7)
    y.label_ticks(axes.yaxis)
    axes.set_facecolor("0.85")


def colour_range(percent: np.ndarray) -> tuple[float, float]:
    """The scores that get the lowest and the highest colour.

    Differences near the best must be seen although some corner of a wide grid is hopeless:
    what lies three times as far below the best as the median does, or further, looks alike.
    """
    highest, median = float(percent.max()), float(np.median(percent))
    lowest = float(percent.min())
    return (max(lowest, highest - 3 * (highest - median)) if median < highest else lowest), highest


def _draw_curve(axes, along: _Axis, rows: list[Trial], plan: SearchPlan, shift=0.0, **look) -> None:
    """The best score for each value, with the standard deviation over the folds."""
    line = sorted(profile(rows, [along.name], plan).items())
    axes.errorbar(
        [along.position(value) + shift for (value,), _ in line],
        [100 * row.score(plan.metric) for _, row in line],
        [100 * row.std for _, row in line],
        capsize=2, elinewidth=0.7, capthick=0.7, **look,
    )  # fmt: skip


def _finish_curves(axes, plan: SearchPlan) -> None:
    axes.set_ylabel(messages.score_label(plan.metric))
    axes.grid(axis="y", linewidth=0.4, alpha=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _cut(axes) -> None:
    """Begin the vertical axis where the lines can be told apart, as the colours do.

    Of every line at least the top stays.
    """
    heights = [np.asarray(line.lines[0].get_ydata()) for line in axes.containers]
    lowest, highest = colour_range(np.concatenate(heights))
    margin = 0.05 * (highest - lowest)
    lowest = min(lowest, *(height.max() - margin for height in heights))
    if min(height.min() for height in heights) < lowest:
        bars = [bars for line in axes.containers for bars in line.lines[2]]
        top = max(segment[:, 1].max() for bar in bars for segment in bar.get_segments())
        axes.set_ylim(lowest, top + margin)


def _line_labels(lines: dict[tuple, list], rows: list[Trial], plan: SearchPlan) -> list[str | None]:
    """What tells the lines of :func:`path_lines` apart; nothing for a single one."""
    with_gamma = [row for row in rows if "gamma" in row.setting]
    gamma = _Axis("gamma", with_gamma, plan) if with_gamma else None
    kernels = {kernel for kernel, _ in lines}
    labels = []
    for kernel, value in lines:
        words = [kernel] if len(kernels) > 1 else []
        words += [] if value is None else [f"{gamma.label} = {gamma.text(value)}"]
        labels.append(", ".join(words))
    return labels if len(lines) > 1 else [None]


def _legend(axes, beside: bool = False) -> None:
    """Beside the axes if there are lines to name, else above, opposite to the title."""
    if beside:
        place = dict(loc="upper left", bbox_to_anchor=(1.02, 1), borderaxespad=0)
    else:
        place = dict(loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.2, handletextpad=0.1)
    axes.legend(frameon=False, **place)


def _mark_best(axes, along: list[_Axis], rows: list[Trial], plan: SearchPlan, shift=0.0) -> None:
    """A star where the best row is."""
    winner = best(rows, plan.machine, plan.metric)
    percent = 100 * winner.score(plan.metric)
    x, y = [*(axis.position(winner.setting[axis.name]) for axis in along), percent][:2]
    axes.plot([x + shift], [y], "*", markersize=11, color="white", markeredgecolor="black",
              markeredgewidth=0.8, label=messages.best_mark(percent), zorder=5)  # fmt: skip
