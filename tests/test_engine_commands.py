"""The kernel engine in the commands: what they say of its certificate, threads, refusals."""

import pytest
from problems import HEART_SCALE

from odmtool import load_model


def trained(run, tmp_path, *options, name="m"):
    path = tmp_path / name
    outcome = run("train", "-t", "rbf", "--solver", "landmarks", *options, HEART_SCALE, path)
    assert outcome.code == 0, outcome.err
    return load_model(str(path)), outcome.err


def test_summary_and_model_say_what_kind_of_bound_the_gap_is(run, tmp_path):
    model, said = trained(run, tmp_path, "-l", "2^6")
    assert model.facts["certificate"] == "proved"
    assert model.facts["solver"] == "landmarks"
    assert " <= 0.001, proved)" in said
    assert float(model.facts["gap"]) <= 1e-3


def test_a_bound_by_drawn_rows_says_its_probability(run, tmp_path, monkeypatch):
    from odmtool.solvers.engine import choice, solve

    taken = choice.Choice("drawn", 0.0, 100)
    monkeypatch.setattr(choice, "_ways", lambda *_: [taken])
    monkeypatch.setattr(solve.certificate, "free", lambda point, left: float("inf"))
    monkeypatch.setattr(solve.certificate, "bounds", lambda points, *_: [0.0] * len(points))
    model, said = trained(run, tmp_path, "-l", "2^2", "-e", "0.1")
    assert model.facts["certificate"] == "proved with probability 1 - 1e-06"
    assert "proved with probability 1 - 1e-06" in said


def test_models_are_the_same_for_any_number_of_threads(run, tmp_path):
    vectors = []
    for jobs in (1, 2):
        model, _said = trained(run, tmp_path, "-j", jobs, name=f"m{jobs}")
        vectors.append((tmp_path / f"m{jobs}").read_text().split("odmtool-model")[0])
    assert vectors[0] == vectors[1]


def test_cross_validation_takes_landmarks(run):
    outcomes = [
        run("train", "-t", "rbf", "-v", "3", "--solver", solver, HEART_SCALE).out
        for solver in ("landmarks", "newton")
    ]
    accuracies = [float(out.split("=")[1].strip(" %\n")) for out in outcomes]
    assert accuracies[0] == pytest.approx(accuracies[1], abs=1.0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-t", "linear"], "kernel"),
        (["-t", "rbf", "-s", "kmomd"], "is for -s odm"),
        (["-t", "sigmoid"], "without negative eigenvalues"),
    ],
)
def test_what_landmarks_do_not_serve_is_refused(run, tmp_path, options, said):
    outcome = run("train", *options, "--solver", "landmarks", HEART_SCALE, tmp_path / "m")
    assert outcome.code == 2 and said in outcome.err
