"""The kernel engine in the commands: what they say of its certificate, threads, refusals."""

from types import SimpleNamespace

import pytest
from problems import HEART_SCALE

from odmtool import load_model
from odmtool.machines.base import certificate


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


@pytest.mark.parametrize("gap, failure, kind", [
    (0.5, 0.0, "proved"), (0.5, 1e-6, "proved with probability 1 - 1e-06"),
    (float("inf"), 0.0, "none"),  # the time was over before there was a bound
])  # fmt: skip
def test_what_kind_of_bound_a_gap_is(gap, failure, kind):
    assert certificate(SimpleNamespace(gap=gap, failure=failure)) == kind


@pytest.mark.parametrize("machine", ["ldm", "l1svm", "mcodm"])
def test_a_matrix_that_does_not_fit_is_said_when_landmarks_were_not_enough(
    run, tmp_path, monkeypatch, machine
):
    from odmtool.solvers.engine import choice

    options, said = ("-s", machine, "-g", "1", "-l", "4"), "examples does not fit in --memory"
    monkeypatch.setattr(choice, "_ways", lambda *_: [])
    _model, err = trained(run, tmp_path, *options, "--memory", "300K")
    assert err.count(said) == 1 and "of 270 examples does" in err
    assert said not in trained(run, tmp_path, *options, "--memory", "9M")[1]


def test_little_memory_is_said_with_how_much_is_enough(run, tmp_path):
    said = "has room for {} landmarks of 270 examples: training is slower than with {}"
    many = said.format(16, "3.35 MB")
    few = trained(run, tmp_path, "-l", "4", "--memory", "100K")[1]
    assert f"--memory (100 KB) {many}" in few and "converged" in few
    assert "has room for" not in trained(run, tmp_path, "-l", "4", "--memory", "4M")[1]
    # What follows landmarks there needs the matrix.
    assert "has room for" not in trained(run, tmp_path, "--memory", "100K", "-s", "ldm")[1]


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
