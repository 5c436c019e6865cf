"""sodm and nystrom from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import needs_two_processors

RBF = ["-t", "rbf", "-l", "2^6"]
PARTS = ["--partitions", "4", "--branch", "2"]


@pytest.mark.parametrize("kernel", [["-l", "2^6"], RBF])
def test_sodm_finds_what_auto_finds(run, heart, tmp_path, kernel):
    found = {}
    for name, options in (("auto", []), ("sodm", ["--solver", "sodm", *PARTS])):
        outcome = run("train", *kernel, *options, "-e", "1e-8", "--json", "j", heart, "m")
        assert outcome.code == 0 and "warning" not in outcome.err
        import json

        found[name] = json.loads((tmp_path / "j").read_text())
    assert found["sodm"]["objective"] == pytest.approx(found["auto"]["objective"], rel=1e-7)
    assert found["sodm"]["solver"] == "sodm" and found["sodm"]["level"] == 0


def test_levels_are_said_and_an_early_stop_is_no_warning(run, heart):
    options = [*RBF, "--solver", "sodm", *PARTS, "--stop-level", "1", "--verbose"]
    outcome = run("train", *options, heart, "m")
    assert outcome.code == 0 and "warning" not in outcome.err
    assert "level 2: 4 parts" in outcome.err and "level 1: 2 parts" in outcome.err
    assert "level 0" not in outcome.err
    assert "stopped at level 1 (--stop-level): the duality gap of the full problem" in outcome.err


@pytest.mark.parametrize("tolerance, code", [("1e-9", 3), ("0.5", 0)])
def test_an_early_stop_is_strict_about_the_gap(run, heart, tmp_path, tolerance, code):
    options = [*RBF, "--solver", "sodm", *PARTS, "--stop-level", "1", "--strict", "-e", tolerance]
    outcome = run("train", *options, heart, "m")
    assert outcome.code == code and (tmp_path / "m").exists() == (code == 0)
    assert outcome.err.count("no model was written (--strict)") == (code == 3)


@pytest.mark.parametrize("options", [["--partition-by", "random"], ["--partition-by", "cluster"],
                                     ["--cascade"], ["-j", "2"], ["--strata", "3"]])  # fmt: skip
def test_every_kind_of_parts(run, heart, options):
    assert run("train", *RBF, "--solver", "sodm", *PARTS, *options, heart, "m").code == 0
    outcome = run("predict", heart, "m", "o")
    assert float(outcome.out.split("= ")[1].split("%")[0]) > 80


def test_nystrom(run, heart, tmp_path):
    outcome = run("train", *RBF, "--solver", "nystrom", "--landmarks", "40", heart, "m")
    assert outcome.code == 0
    assert "40 landmarks hold " in outcome.err and "% of the trace" in outcome.err
    assert " <= 0.001 in the span of the landmarks), objective " in outcome.err
    text = (tmp_path / "m").read_text()
    assert "total_sv 40\n" in text and "trace_captured 0." in text
    outcome = run("predict", heart, "m", "o")
    assert float(outcome.out.split("= ")[1].split("%")[0]) > 80


def test_with_all_examples_as_landmarks_nystrom_is_the_machine_itself(run, heart, tmp_path):
    import json

    objectives = []
    for solver in (["--solver", "nystrom", "--landmarks", "270"], []):
        assert run("train", *RBF, "-e", "1e-8", *solver, "--json", "j", heart, "m").code == 0
        objectives.append(json.loads((tmp_path / "j").read_text())["objective"])
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-6)


@pytest.mark.parametrize("arguments, sentence", [
    (["--solver", "nystrom"], "--solver nystrom is for kernels"),
    (["-s", "ldm", "--solver", "sodm"], "--solver sodm is for -s odm, -s l1svm"),
    (["-s", "mcodm", "--solver", "sodm"], "; take --solver auto, dcd or newton"),
    (["-t", "4", "--solver", "sodm"], "not -t precomputed"),
    (["--solver", "sodm", "--branch", "1"], "--branch must be at least 2, not 1"),
    (["--solver", "sodm", "--partitions", "0"], "--partitions must be at least 1, not 0"),
    (["--solver", "nystrom", "-t", "2", "--landmarks", "0"], "--landmarks must be at least 1"),
])  # fmt: skip
def test_impossible_combinations(run, heart, arguments, sentence):
    outcome = run("train", *arguments, heart, "m")
    assert outcome.code == 2 and outcome.err.count("\n") == 1
    assert sentence in outcome.err


@pytest.mark.parametrize("solver", [["sodm", *PARTS], ["nystrom", "--landmarks", "40"]])
@pytest.mark.parametrize("command", [["train", "-v", "3"], ["train", "-b", "1"], ["cv", "-v", "3"]])
def test_parts_of_a_cross_validation_have_rows(run, heart, command, solver):
    outcome = run(*command, *RBF, "--solver", *solver, heart)
    assert outcome.code == 0, outcome.err
    if "-v" in command:
        assert float(outcome.out.split("Accuracy = ")[1].split("%")[0]) > 75


def test_leaving_one_out_needs_no_parts(run, heart, tmp_path):
    (tmp_path / "data").write_text("\n".join(Path(heart).read_text().splitlines()[:40]))
    options = ["-s", "svr", *RBF, "--solver", "sodm", "--loo", "exact"]
    outcome = run("train", *options, "data", "m")
    assert outcome.code == 0 and "Leave-one-out error = " in outcome.out


@needs_two_processors
def test_jobs_reach_the_parts(run, heart, monkeypatch):
    from odmtool.rows import executor

    jobs, real = [], executor.local_executor
    monkeypatch.setattr(executor, "local_executor", lambda n: jobs.append(n) or real(n))
    assert run("train", *RBF, "--solver", "sodm", *PARTS, "-j", "2", heart, "m").code == 0
    assert jobs == [2]


def test_a_matrix_that_does_not_fit_is_that_of_the_last_level(run, heart):
    command = ["train", "--solver", "sodm", *PARTS, *RBF, "--memory", "300K", heart, "m"]
    err = run(*command).err
    assert "of 270 examples does not fit in --memory" in err and "--solver sodm" not in err
    assert "try --stop-level 1 or" in err
    assert "does not fit" not in run(*command[:1], "--stop-level", "1", *command[1:]).err
    # There is a level with parts of half the size, or none.
    command[command.index("300K")] = "50K"
    for parts, tries in (("4", "try --stop-level 2 or"), ("2", "try --solver nystrom")):
        asked = [*command[:1], "--stop-level", "1", *command[1:], "--partitions", parts]
        assert tries in run(*asked).err
