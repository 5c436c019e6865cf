"""A search that goes on past the ends of the quick grid's gammas."""

import csv
from pathlib import Path

import numpy as np
import pytest
from search_plans import VALUES, plan_of

from odmtool.search import strategies
from odmtool.search.search import Trial, grid


@pytest.mark.parametrize("strategy", ["full", "halving"])
@pytest.mark.parametrize("place, gammas", [
    (0.6, [0.25, 1, 4]), (3, [0.25, 1, 4, 16]), (40, [0.25, 1, 4, 16, 64, 128]),
    (0.02, [0.25, 1, 4, 0.06, 0.01]),
])  # fmt: skip
def test_a_search_goes_on_past_an_end_while_that_is_better(heart, strategy, place, gammas):
    """The best gamma is the one next to ``place``; another kernel has none."""
    first = [{"kernel": "linear", "lambda_": 1.0}]
    first += grid(dict(kernel=("rbf",), gamma=(0.25, 1, 4), lambda_=(1.0, 2.0)))
    past = grid(dict(kernel=("rbf",), gamma=(0.06, 0.01, 16, 64, 128), lambda_=(1.0, 2.0)))
    plan = plan_of(heart, VALUES)._replace(settings=first + past, first=len(first))
    tried = []

    def evaluate(part):
        nonlocal tried
        for number, setting in part.named().items():
            assert plan.settings[number % len(plan.settings)] == setting
            tried += [g for g in [setting.get("gamma")] if g not in (None, *tried)]
            score = 0.5 - 0.01 * abs(np.log(setting.get("gamma", 1e9) / place))
            yield Trial(setting, score, np.full(5, score), 0, examples=len(part.fold))

    rows = list(strategies.STRATEGIES[strategy](plan, evaluate, lambda *count: None, 0))
    # The last one is not better, or there is no more.
    assert tried == gammas
    closest = min(gammas, key=lambda gamma: abs(np.log(gamma / place)))
    assert max(rows, key=lambda row: row.accuracy).setting["gamma"] == closest


def without_gaps(path):
    """The rows of a CSV file without numbers that are rounding errors of 0."""
    with Path(path).open() as stream:
        return [{name: row[name] for name in row if "gap" not in name}
                for row in csv.DictReader(stream)]  # fmt: skip


def test_the_quick_grid_goes_on_to_the_gamma_of_a_spiral(run, tmp_path):
    """The same by several processes, from a torn journal, and in every split of --repeat."""
    random = np.random.default_rng(0)
    t = 4 * np.pi * np.sqrt(random.random(300))
    sign = np.where(np.arange(300) % 2, 1, -1)
    X = (sign * t * [np.cos(t), np.sin(t)] + random.normal(0, 0.1, (2, 300))).T.round(3)
    Path("d").write_text("".join(f"{s} 1:{a} 2:{b}\n" for s, (a, b) in zip(sign, X, strict=True)))
    search = ["-t", "rbf", "-v", "3", "--csv", "t"]
    assert (found := run("cv", *search, "--journal", "j", "d")).code == 0
    with Path("t").open() as stream:
        rows = [(float(row["accuracy"]), float(row["gamma"])) for row in csv.DictReader(stream)]
    assert len(rows) > 15 and max(rows)[0] > max(rows[:15])[0]
    expected = without_gaps("t")
    assert run("cv", *search, "-j", "2", "d").out == found.out
    assert without_gaps("t") == expected
    lines = Path("j").read_bytes().splitlines(keepends=True)
    Path("j").write_bytes(b"".join(lines[:-10]))
    assert run("cv", *search, "--journal", "j", "d").out == found.out
    assert without_gaps("t") == expected
    repeated = ["cv", "-t", "rbf", "--grid", "quick", "--repeat", "2", "-v", "3", "--csv", "t", "d"]
    alone = run(*repeated)
    with Path("t").open() as stream:
        best = [float(row["gamma"]) for row in csv.DictReader(stream)]
    assert min(best) > max(gamma for _, gamma in rows[:15])
    assert run(*repeated, "-j", "2").out == alone.out
