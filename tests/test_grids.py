"""Which values a search tries, and which of them are at an end."""

from types import SimpleNamespace

import pytest

from odmtool.cli import grids
from odmtool.search.search import grid


def trial(kernel, score, **values):
    return SimpleNamespace(setting={"kernel": kernel} | values, score=lambda metric: score)


def ends(*trials, metric="accuracy"):
    """Of the best of these trials, which are all settings."""
    best = max(trials, key=lambda row: row.score(metric))
    return grids.ends(list(trials), best, [row.setting for row in trials], metric)


@pytest.mark.parametrize("scores, expected", [
    ((1, 2, 3, 4), [("lambda_", 8.0, True)]),
    ((4, 3, 2, 1), [("lambda_", 1.0, False)]),
    ((1, 4, 2, 3), []),
    ((1, 4, 2, 4), []),  # another value is as good
    ((1, 2, 3), []),  # so few values say nothing
])  # fmt: skip
def test_the_best_value_is_at_an_end(scores, expected):
    trials = [trial("rbf", score, lambda_=2.0**k) for k, score in enumerate(scores)]
    assert ends(*trials) == expected


def test_an_end_counts_for_what_the_kernel_uses():
    """Rows of the linear kernel have no gamma; one that is as good leaves it open."""
    numbers = (1.0, 2.0, 3.0, 4.0)
    settings = grid({"kernel": ("linear", "rbf"), "lambda_": numbers, "gamma": numbers})

    def found(of_linear):
        return ends(*(
            trial(score=s["lambda_"] + s.get("gamma", of_linear), **s) for s in settings
        ))  # fmt: skip

    assert found(3.5) == [("lambda_", 4.0, True), ("gamma", 4.0, True)]
    assert found(4.0) == found(5.0) == [("lambda_", 4.0, True)]


def test_of_gammas_that_went_on_few_are_enough():
    trials = [trial("rbf", k, gamma=4.0**k, lambda_=1.0) for k in range(3)]
    rows = trials, trials[-1], [row.setting for row in trials], "accuracy"
    assert grids.ends(*rows) == [] and grids.ends(*rows, went_on=True) == [("gamma", 16.0, True)]


def test_nothing_is_below_nought():
    trials = [trial("rbf", 4 - k, mu1=float(k)) for k in range(4)]
    assert ends(*trials) == []
    assert ends(*(trial("rbf", k, mu1=float(k)) for k in range(4))) == [
        ("mu1", 3.0, True)
    ]


def test_the_values_of_rows_that_were_dropped_count(run, tmp_path):
    """An end is that of all settings, not of those in the last round."""
    last = trial("rbf", 0.9, lambda_=4.0)
    settings = [{"kernel": "rbf", "lambda_": value} for value in (1.0, 2.0, 4.0, 8.0)]
    assert grids.ends([last], last, settings, "accuracy") == []
    smaller = settings[:3] + [settings[0] | {"lambda_": 0.5}]
    assert grids.ends([last], last, smaller, "accuracy") == [("lambda_", 4.0, True)]
    # Those of another kernel say nothing.
    others = [{"kernel": "linear", "lambda_": 2.0**k} for k in range(-9, 9)]
    assert grids.ends([last], last, smaller + others, "accuracy") == [("lambda_", 4.0, True)]


def test_the_best_value_at_an_end_is_said(run, tmp_path):
    rows = [f"{(-1) ** (k // 12 + k % 5 // 4)} 1:{k}" for k in range(24)]
    (tmp_path / "data").write_text("\n".join(rows) + "\n")
    outcome = run("cv", "-t", "rbf", "-l", "1", "-g", "1e-9,1e-8,1e-7,1e-2", str(tmp_path / "data"))
    assert outcome.code == 0
    said = "the best -g is the largest value tried (0.01): larger ones may be better"
    assert said in outcome.err
    quiet = run("cv", "-q", "-t", "rbf", "-l", "1", "-g", "1e-9,1e-8,1e-7,1e-2", tmp_path / "data")
    assert said not in quiet.err
