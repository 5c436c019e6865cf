"""The pictures of odm-cv: what the figures contain, not their pixels."""

import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.colors import to_hex
from scipy import sparse

from odmtool.cli.machine_options import PARAMETER_NAMES
from odmtool.defaults import PerFeature
from odmtool.machines import LDM, ODM
from odmtool.measures import pictures as plots
from odmtool.search.search import SearchPlan, Trial, grid
from odmtool.search.validation import Data

D = 13
LAMBDAS = (1.0, 16.0, 256.0)
GAMMAS = tuple(2.0**k / D for k in (-4, 0, 4))


def quality(setting):
    """Lambda matters most, then gamma, then theta, then mu; 0.9 at the best."""
    lambda_ = setting.get("lambda_") or setting.get("cost")
    return (
        0.9 - 0.1 * abs(np.log2(lambda_ / 16)) / 4
        - 0.05 * abs(np.log2(setting.get("gamma", 1 / D) * D)) / 4
        - 0.02 * abs(setting.get("theta", 0.4) - 0.4) / 0.2
        - 0.01 * abs(setting.get("mu", 0.2) - 0.2) / 0.2
        - 0.2 * (setting["kernel"] == "linear")
    )  # fmt: skip


def searched(metric="accuracy", **values):
    """Rows as a search over these values would give, and its plan."""
    settings = grid(values)
    data = Data(sparse.csr_matrix((10, D)), np.repeat([1, -1], 5))
    plan = SearchPlan(ODM(), settings, data, np.arange(10) % 5, metric)
    spread = np.array([-2, -1, 0, 1, 2]) / 100
    rows = [
        Trial(s, quality(s) + 0.001, quality(s) + (1 + i % 3) * spread, 0)
        for i, s in enumerate(settings)
    ]
    return rows, plan


def full(**changes):
    values = dict(kernel=("rbf",), lambda_=LAMBDAS, gamma=GAMMAS, mu=(0.2, 0.4), theta=(0.2, 0.4))
    return searched(**(values | changes))


def tick_labels(axis):
    return [label.get_text() for label in axis.get_majorticklabels()]


def star(axes):
    """The place of the mark, and its legend."""
    (line,) = (line for line in axes.lines if line.get_marker() == "*")
    return (*line.get_xdata(), *line.get_ydata()), line.get_label()


def cells(axes):
    (mesh,) = (c for c in axes.collections if type(c).__name__ == "QuadMesh")
    return mesh


def error_bars(container):
    """x, y and half lengths of a curve."""
    line, _, (bars,) = container.lines
    lengths = [segment[1, 1] - segment[0, 1] for segment in bars.get_segments()]
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata()), np.array(lengths) / 2


# ---- the heat map ----------------------------------------------------------------


@pytest.mark.parametrize("metric", ["accuracy", "auc"])
def test_cells_are_the_best_rows(metric):
    rows, plan = full(metric=metric)
    axes, bar = plots.search_figure(rows, plan, "heart").axes
    expected = [
        [
            100 * max(row.score(metric) for row in rows
                      if row.setting["lambda_"] == u and row.setting["gamma"] == v)
            for u in LAMBDAS
        ]
        for v in GAMMAS
    ]  # fmt: skip
    mesh = cells(axes)
    assert np.array_equal(np.reshape(mesh.get_array(), (3, 3)), expected)
    corners = np.asarray(mesh.get_coordinates())
    centres = (corners[:-1, :-1] + corners[1:, 1:]) / 2
    assert centres[0, :, 0] == pytest.approx([0, 4, 8])
    assert centres[:, 0, 1] == pytest.approx(np.log2(GAMMAS))
    assert (axes.get_xlabel(), axes.get_ylabel()) == (r"$\lambda$", r"$\gamma$")
    assert tick_labels(axes.xaxis) == ["$2^{0}$", "$2^{4}$", "$2^{8}$"]
    assert tick_labels(axes.yaxis) == [f"$2^{{{k}}}$$\\,/d$" for k in (-4, 0, 4)]
    assert bar.get_ylabel() == plots.messages.score_label(metric)
    assert bar.get_ylabel().endswith("(%)")
    assert axes.get_title(loc="left") == "heart"


def test_star_is_at_the_best_row():
    rows, plan = full()
    place, words = star(plots.search_figure(rows, plan).axes[0])
    assert place == pytest.approx((4, np.log2(1 / D)))
    assert words == "best: 90.1 %"


@pytest.mark.parametrize("changes, names", [
    (dict(), ["lambda_", "gamma", "theta", "mu"]),
    (dict(lambda_=(16.0,)), ["gamma", "theta", "mu"]),
    (dict(lambda_=(16.0,), theta=(0.4,)), ["gamma", "mu"]),
    (dict(lambda_=(16.0,), gamma=(1 / D,), mu=(0.2, 0.3), theta=(0.4, 0.41)), ["mu", "theta"]),
])  # fmt: skip
def test_parameters_that_matter_are_chosen(changes, names):
    rows, plan = full(**changes)
    assert plots.parameters_by_importance(rows, plan) == names
    axes = plots.search_figure(rows, plan).axes[0]
    x, y = sorted(names[:2], key=list(plots.SYMBOLS).index)
    assert (axes.get_xlabel(), axes.get_ylabel()) == (plots.SYMBOLS[x], plots.SYMBOLS[y])


def test_mu_and_theta_are_linear():
    rows, plan = full(lambda_=(16.0,), gamma=(1 / D,), mu=(0.2, 0.3, 0.7))
    axes = plots.search_figure(rows, plan).axes[0]
    assert tick_labels(axes.xaxis) == ["0.2", "0.3", "0.7"]
    assert list(axes.get_xticks()) == [0.2, 0.3, 0.7]


def test_every_parameter_can_be_an_axis():
    assert plots.SYMBOLS.keys() == {"cost", *PARAMETER_NAMES} - {"kernel"}
    mu1, mu2 = (2.0**-8, 1.0, 2.0**8), (1.0, 4.0)
    rows, plan = searched(kernel=("rbf",), lambda_=(16.0,), gamma=(1.0,), mu1=mu1, mu2=mu2)
    axes = plots.search_figure(rows, plan._replace(machine=LDM())).axes[0]
    assert tick_labels(axes.xaxis) == ["$2^{-8}$", "$2^{0}$", "$2^{8}$"]
    assert axes.get_ylabel() == r"$\mu_2$"


def test_cells_that_were_not_tried_are_empty():
    rows, plan = full(mu=(0.2,), theta=(0.4,))
    missing = [row for row in rows if (row.setting["lambda_"], row.setting["gamma"])
               != (LAMBDAS[2], GAMMAS[0])]  # fmt: skip
    mask = np.ma.getmaskarray(cells(plots.search_figure(missing, plan).axes[0]).get_array())
    expected = np.zeros((3, 3), bool)
    expected[0, 2] = True
    assert np.array_equal(mask.reshape(3, 3), expected)


def test_equal_scores_are_drawn():
    rows, plan = full()
    rows = [row._replace(accuracy=0.5) for row in rows]
    axes = plots.search_figure(rows, plan).axes[0]
    assert set(cells(axes).get_array().ravel().tolist()) == {50}
    # Nothing matters more than the rest: the first parameters are taken.
    assert (axes.get_xlabel(), axes.get_ylabel()) == (r"$\lambda$", r"$\gamma$")


@pytest.mark.parametrize("percent, expected", [
    ([50, 97, 98, 99], (94.5, 99)),
    ([97, 98, 99], (97, 99)),
    ([50, 99, 99], (50, 99)),
])  # fmt: skip
def test_colours_show_what_is_near_the_best(percent, expected):
    assert plots.colour_range(np.array(percent, float)) == pytest.approx(expected)


def test_the_best_kernel_is_shown_and_named():
    rows, plan = full(kernel=("linear", "rbf"))
    axes = plots.search_figure(rows, plan, "heart").axes[0]
    assert axes.get_title(loc="left") == "heart, rbf kernel"
    assert axes.get_ylabel() == r"$\gamma$"
    # rbf does not vary here, so that only linear can be shown.
    settings = [{"kernel": "rbf", "gamma": 1 / D, "lambda_": 16.0}]
    settings += [{"kernel": "linear", "lambda_": value} for value in LAMBDAS]
    rows = [Trial(s, quality(s), np.array([0.5, 0.6]), 0) for s in settings]
    axes = plots.search_figure(rows, plan, None).axes[0]
    assert axes.get_title(loc="left") == "linear kernel"
    assert star(axes)[0] == pytest.approx((4, 70))


# ---- ticks -----------------------------------------------------------------------


@pytest.mark.parametrize("gammas, labels", [
    ((0.25, 1.0, 2.0), ["$2^{-2}$", "$2^{0}$", "$2^{1}$"]),
    ((0.5 / D, 2 / D), ["$2^{-1}$$\\,/d$", "$2^{1}$$\\,/d$"]),
    ((0.1, 1.0, 10.0), ["0.1", "1", "10"]),
    ((1 / D, 1.0), [f"{1 / D:.3g}", "1"]),
    (tuple(2.0**k for k in range(23)), [f"$2^{{{k}}}$" for k in range(0, 23, 3)]),
])  # fmt: skip
def test_tick_labels(gammas, labels):
    rows, plan = full(gamma=gammas, mu=(0.2,), theta=(0.4,), lambda_=(1.0, 1.1))
    axis = plots.search_figure(rows, plan).axes[0]
    axis = axis.yaxis if axis.get_ylabel() == r"$\gamma$" else axis.xaxis
    assert tick_labels(axis) == labels


def test_ticks_of_many_odd_values_are_powers():
    rows, plan = full(lambda_=tuple(1.1 * 1.9**k for k in range(20)), mu=(0.2,), theta=(0.4,))
    figure = plots.search_figure(rows, plan)
    plots.render(figure, "png")
    axis = figure.axes[0].xaxis
    assert tick_labels(axis) == [f"$2^{{{place:g}}}$" for place in axis.get_majorticklocs()]
    assert all(place == round(place) for place in axis.get_majorticklocs())


# ---- curves ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lambda_", "cost"])
@pytest.mark.parametrize("draw", [plots.search_figure, plots.path_figure])
def test_one_parameter_is_a_curve_with_error_bars(draw, name):
    rows, plan = searched(kernel=("linear",), mu=(0.2,), **{name: LAMBDAS})
    axes = draw(rows, plan).axes[0]
    (curve,) = axes.containers
    x, y, bars = error_bars(curve)
    assert x == pytest.approx([0, 4, 8])
    assert y == pytest.approx([100 * row.accuracy for row in rows])
    assert bars == pytest.approx([100 * row.std for row in rows])
    assert bars[1] == pytest.approx(2 * np.sqrt(2.5))
    assert axes.get_xlabel() == plots.SYMBOLS[name]
    assert axes.get_ylabel() == "CV accuracy (%)"
    assert star(axes)[0] == pytest.approx((4, 70.1))
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["best: 70.1 %"]


def test_a_curve_along_theta():
    rows, plan = searched(kernel=("linear",), lambda_=(16.0,), theta=(0.2, 0.3, 0.4))
    axes = plots.search_figure(rows, plan).axes[0]
    x, y, _ = error_bars(axes.containers[0])
    assert axes.get_xlabel() == r"$\theta$"
    assert np.array_equal(x, [0.2, 0.3, 0.4]) and np.argmax(y) == 2


def test_path_has_a_line_for_each_kernel_and_gamma():
    rows, plan = full(kernel=("linear", "rbf"))
    axes = plots.path_figure(rows, plan, "heart").axes[0]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    gammas = [f"rbf, $\\gamma$ = $2^{{{k}}}$$\\,/d$" for k in (-4, 0, 4)]
    assert labels == ["best: 90.1 %", "linear", *gammas]
    assert len(axes.containers) == 4
    for curve, (kernel, gamma) in zip(
        axes.containers, [("linear", None), *(("rbf", gamma) for gamma in GAMMAS)], strict=True
    ):
        x, y, bars = error_bars(curve)
        # Side by side, but nearer to their own place than to the next one.
        assert np.abs(x - [0, 4, 8]).max() < 1
        chosen = [row for row in rows if row.setting["kernel"] == kernel
                  and row.setting.get("gamma") == gamma]  # fmt: skip
        winners = [max((row for row in chosen if row.setting["lambda_"] == value),
                       key=lambda row: row.accuracy) for value in LAMBDAS]  # fmt: skip
        assert y == pytest.approx([100 * row.accuracy for row in winners])
        assert bars == pytest.approx([100 * row.std for row in winners])
    x, y, _ = error_bars(axes.containers[2])
    assert star(axes)[0] == pytest.approx((x[1], y[1]))


def test_path_shows_the_best_lines_in_order_and_in_different_looks():
    gammas = tuple(2.0**k / D for k in range(-5, 5))
    rows, plan = full(gamma=gammas)
    shown = [gamma for _, gamma in plots.path_lines(rows, plan)]
    assert len(shown) == plots.LINES and shown == sorted(shown)
    assert set(shown) >= {2.0**k / D for k in (-2, -1, 0, 1, 2)}
    axes = plots.path_figure(rows, plan).axes[0]
    looks = {(to_hex(c.lines[0].get_color()), c.lines[0].get_marker()) for c in axes.containers}
    assert len(looks) == plots.LINES


def test_among_equal_lines_the_best_is_shown():
    rows, plan = full(gamma=tuple(2.0**k / D for k in range(5, -5, -1)))
    rows = [row._replace(accuracy=0.5) for row in rows]
    axes = plots.path_figure(rows, plan).axes[0]
    assert 2.0**-4 / D in {gamma for _, gamma in plots.path_lines(rows, plan)}
    assert star(axes)[0][1] == 50


def test_of_every_line_the_top_is_seen():
    rows, plan = full(kernel=("linear", "rbf"), gamma=GAMMAS[1:])
    axes = plots.path_figure(rows, plan).axes[0]
    bottom, top = axes.get_ylim()
    for curve in axes.containers:
        assert bottom < error_bars(curve)[1].max() < top


# ---- files -----------------------------------------------------------------------

SEARCH = ["-t", "rbf", "-l", "2^0,2^8", "-g", "2^-2,4/d", "-v", "3"]
MAGIC = {"png": b"\x89PNG\r\n", "svg": b"<?xml", "pdf": b"%PDF-"}


@pytest.fixture(scope="module")
def plain():
    """What a search without pictures printed, once for all."""
    return {}


@pytest.mark.parametrize("ending", MAGIC)
def test_files(run, heart, tmp_path, ending, plain):
    outcome = run("cv", *SEARCH, "--plot", f"a.{ending}", "--plot-path", f"b.{ending.upper()}",
                  heart)  # fmt: skip
    assert outcome.code == 0 and outcome.err.count("\n") == 1
    *_, best, _score, _accuracy = outcome.out.splitlines()
    assert shlex.split(best)[-1] == heart and "--plot" not in best and f".{ending}" not in best
    for name in (f"a.{ending}", f"b.{ending.upper()}"):
        content = (tmp_path / name).read_bytes()
        assert content.startswith(MAGIC[ending])
        assert b"Date" not in content and b"date>" not in content
    if not plain:
        plain["out"] = run("cv", *SEARCH, heart).out
    assert outcome.out == plain["out"]


# What a search has loaded is looked at when its process ends.
LOADED = """
import atexit, os, sys
def look():
    loaded = "matplotlib" in sys.modules, "matplotlib.pyplot" in sys.modules
    if loaded != ({plotted}, False):
        os._exit(99)
atexit.register(look)
"""


def test_the_same_search_gives_the_same_bytes(start, run, heart, tmp_path):
    run("cv", *SEARCH, "--plot", "a.svg", "--plot-path", "a.pdf", heart)
    # In another process, whose user has other tastes in colours and fonts.
    (tmp_path / "matplotlibrc").write_text("font.size: 20\nimage.cmap: gray\nsvg.hashsalt: x\n")
    process = start("cv", *SEARCH, "--plot", "b.svg", "--plot-path", "b.pdf", heart,
                    environment={"MATPLOTLIBRC": str(tmp_path)},
                    before=LOADED.format(plotted=True))  # fmt: skip
    assert process.wait() == 0
    for ending in ("svg", "pdf"):
        assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()


def test_without_a_picture_matplotlib_is_not_loaded(start, heart):
    process = start("cv", *SEARCH, heart, before=LOADED.format(plotted=False))
    assert process.wait() == 0


def test_titles(run, heart, tmp_path):
    (tmp_path / "a$b$_{.svm").write_bytes(Path(heart).read_bytes())
    for arguments, shown in [((), "a$b$_{.svm"), (("--plot-title", "Heart"), "Heart"),
                             (("--plot-title", ""), "")]:  # fmt: skip
        drawn = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plots, "render", lambda figure, ending, d=drawn: d.append(figure) or b"")
            outcome = run("cv", *SEARCH, *arguments, "--plot", "a.svg", "a$b$_{.svm")
        assert outcome.code == 0
        assert drawn[0].axes[0].get_title(loc="left") == shown
        assert plots.render(drawn[0], "svg")


def test_more_lines_than_are_drawn_are_said(run, heart):
    outcome = run("cv", "-t", "rbf", "-l", "1,4", "-g", "2^-4:4:1/d", "-v", "2", "--plot-path",
                  "a.png", heart)  # fmt: skip
    assert "a.png shows the best 6 of 9 lines" in outcome.err


@pytest.mark.parametrize("arguments, code, sentence", [
    (["-l", "1,2", "--plot", "a.jpg"], 2, "'a.jpg': the name of a picture ends in .png, .svg or"),
    (["-l", "1,2", "--plot-path", "-"], 2, "'-': the name of a picture ends in .png, .svg or .pdf"),
    (["-l", "1,2", "--plot", ".png"], 2, "ends in"),
    (["-l", "4", "--plot", "a.png"], 2, "--plot: no parameter varies"),
    (["-l", "4,4", "--plot", "a.png"], 2, "--plot: no parameter varies"),
    (["-l", "1", "-t", "linear,rbf", "--plot", "a.png"], 2, "--plot: no parameter varies"),
    (["-t", "0", "-g", "1,2", "--plot", "a.png"], 2, "--plot: no parameter varies"),
    (["-m", "0.2,0.4", "--plot-path", "a.png"], 2, "--plot-path: lambda does not vary"),
    (["-c", "1", "-m", "0.2,0.4", "--plot-path", "a.png"], 2, "--plot-path: cost does not vary"),
    (["-l", "1,2", "--plot", "a.png", "--plot-path", "./a.png"], 2, "read or written already"),
    (["-l", "1,2", "--plot", "no/a.png"], 1, "there is no folder"),
    (["-l", "1,2", "--plot-path", "folder.png"], 1, "is a folder"),
])  # fmt: skip
def test_refused_before_anything_runs(run, heart, tmp_path, arguments, code, sentence):
    (tmp_path / "folder.png").mkdir()
    outcome = run("cv", *arguments, "--csv", "t.csv", heart)
    assert (outcome.code, outcome.out) == (code, "")
    (error,) = (line for line in outcome.err.splitlines() if "warning: " not in line)
    assert sentence in error
    assert [path.name for path in tmp_path.iterdir()] == ["folder.png"]


def test_without_matplotlib(run, heart, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    outcome = run("cv", "-l", "1,2", "--plot", "a.png", heart)
    assert (outcome.code, outcome.out) == (2, "")
    assert "pip install 'odmtool[plot]'" in outcome.err and outcome.err.count("\n") == 1
    assert run("cv", "-l", "1,2", heart).code == 0


def test_a_broken_matplotlib_is_no_internal_error(start, heart, tmp_path):
    (tmp_path / "matplotlib").mkdir()
    (tmp_path / "matplotlib" / "__init__.py").write_text("raise ValueError('no such\\nbackend')")
    process = start("cv", "-l", "1,2", "--plot", "a.png", heart)
    out, err = process.communicate()
    assert (process.returncode, out) == (2, b"")
    assert err.endswith(b"matplotlib, which does not load: no such\\nbackend\n")


def test_gammas_that_turn_out_equal_are_drawn(run, heart, tmp_path):
    outcome = run("cv", "-t", "rbf", "-g", "0,1/13", "-v", "2", "--plot", "a.svg", heart)
    assert outcome.code == 0 and (tmp_path / "a.svg").exists()


def test_an_axis_is_looked_for_in_each_kernel():
    two_kernels = dict(kernel=("linear", "rbf"), gamma=(1.0,), lambda_=(1.0,))
    assert not plots.has_axis(grid(two_kernels))
    two_gammas = dict(kernel=("rbf",), gamma=(PerFeature(1), 2.0), lambda_=(1.0,))
    assert plots.has_axis(grid(two_gammas))


def test_the_callers_settings_are_left_alone():
    import matplotlib

    rows, plan = full()
    usual = plots.render(plots.search_figure(rows, plan), "png")
    with matplotlib.rc_context({"font.size": 31, "image.cmap": "gray"}):
        before = dict(matplotlib.rcParams)
        assert plots.render(plots.search_figure(rows, plan), "png") == usual
        assert dict(matplotlib.rcParams) == before
