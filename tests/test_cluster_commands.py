"""odm-train and odm-cv with a real Dask scheduler and two worker processes on loopback."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading

import pytest
from conftest import ENDLESS

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")

from odmtool.rows import cluster  # noqa: E402

PARTS = ["--partitions", "4", "-l", "2^4"]


@pytest.fixture
def pattern(heart, tmp_path):
    """heart_scale in two files; a pattern of their names."""
    with open(heart) as stream:
        lines = stream.readlines()
    (tmp_path / "x-0").write_text("".join(lines[:150]))
    (tmp_path / "x-1").write_text("".join(lines[150:]))
    return str(tmp_path / "x-*")


def objective(run, tmp_path, *arguments):
    outcome = run("train", "--json", "j", *arguments, "m")
    assert outcome.code == 0 and "warning" not in outcome.err
    return json.loads((tmp_path / "j").read_text())


@pytest.mark.parametrize("options", [["--solver", "dsvrg"], ["--solver", "sodm", "-t", "rbf"],
                                     ["--solver", "nystrom", "-t", "rbf"]])  # fmt: skip
def test_workers_read_their_own_files(run, scheduler, pattern, heart, tmp_path, options):
    parts = PARTS[2:] if "nystrom" in options else PARTS
    options = [*options, *parts, "-e", "1e-9", "--max-iter", "9999"]
    here = objective(run, tmp_path, *options, heart)
    there = objective(run, tmp_path, *options, "--scheduler", scheduler, pattern)
    assert there["objective"] == pytest.approx(here["objective"], rel=1e-8)
    assert there["support_vectors"] == here["support_vectors"]
    outcome = run("predict", heart, "m", "out")
    assert outcome.code == 0


def test_what_cannot_be_done_with_files_elsewhere(run, scheduler, pattern):
    where = ["--scheduler", scheduler, pattern]
    for options, words in (
        (["--solver", "dsvrg"], "several files: name the MODEL_FILE"),
        (["m"], "are for --solver sodm or dsvrg"),
        (["--solver", "sodm", "--loo", "estimate", "m"], "--loo needs the examples here"),
        (["--solver", "sodm", "-b", "1", "m"], "-b 1 needs the examples here"),
        (["--solver", "sodm", "-v", "5"], "-v needs the examples here"),
    ):
        outcome = run("train", *options[:-1], *where, *options[-1:]) if options[-1] == "m" else (
            run("train", *options, *where)
        )  # fmt: skip
        assert outcome.code == 2 and words in outcome.err, outcome.err
    outcome = run("cv", *where)
    assert outcome.code == 2 and "odm-cv needs the examples here" in outcome.err


def test_a_wrong_line_on_a_worker_is_one_sentence(run, scheduler, pattern, tmp_path):
    (tmp_path / "x-1").write_text("1 1:1\n1 a:1\n")
    (tmp_path / "m").write_text("old")
    outcome = run("train", "--solver", "dsvrg", "--scheduler", scheduler, pattern, "m")
    assert outcome.code == 1 and f"{tmp_path}/x-1:2: " in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert (tmp_path / "m").read_text() == "old"


def test_an_index_too_large_for_its_weights_is_named_with_its_file(
    run, scheduler, pattern, tmp_path
):
    (tmp_path / "x-1").write_text("# one\n1 1:1\n-1 1:2 20000000:0\n1 1:2 20000000:1\n")
    where = ["--memory", "500M", "--scheduler", scheduler, pattern, "m"]
    outcome = run("train", "--solver", "dsvrg", *where)
    assert outcome.code == 1 and not (tmp_path / "m").exists()
    assert f"{tmp_path}/x-1:3: '20000000:0' makes weights for so many" in outcome.err


def test_memory_of_tasks_is_planned_and_said(run, scheduler, heart):
    where = ["-t", "rbf", "--scheduler", scheduler]
    outcome = run("train", "--verbose", "--solver", "sodm", *PARTS, *where, heart, "m")
    assert outcome.code == 0
    assert "a task on a worker takes at most 654 KB: rows 28.1 KB" in outcome.err, outcome.err
    for options in (["train", "--solver", "sodm"], ["train", "--solver", "nystrom"],
                    ["train", "--solver", "dsvrg", "-t", "linear"], ["cv"]):  # fmt: skip
        outcome = run(*options[:1], *where, "--memory", "50K", *options[1:], heart)
        assert outcome.code == 1 and "a task needs" in outcome.err, outcome.err


def test_a_search_is_the_same_on_the_cluster(run, scheduler, heart, tmp_path):
    grid = ["-t", "rbf", "-l", "2^0,2^4", "-g", "0.1,1", "--csv"]
    here = run("cv", *grid, "here", heart)
    there = run("cv", *grid, "there", "--journal", "x", "--scheduler", scheduler, heart)
    assert there.code == 0, there.err
    assert (tmp_path / "here").read_text() == (tmp_path / "there").read_text()
    assert len((tmp_path / "x").read_text().splitlines()) == 1 + 2 * 2 * 5
    # Of two classes one training has nothing to do for a cluster.
    assert here.out == there.out and "Best: odm-train" in there.out
    again = run("cv", *grid, "again", "--journal", "x", "--scheduler", scheduler, heart)
    assert again.code == 0 and "20" in again.err


@pytest.mark.parametrize("machine", ["odm", "m3svm"])
def test_folds_of_odm_train_run_there(run, scheduler, heart, machine):
    command = ["train", "-s", machine, "-v", "2", heart]
    here, there = run(*command), run(*command, "--scheduler", scheduler)
    assert there.code == 0 and there.out == here.out


@pytest.mark.parametrize("how", ["ovr", "ovo"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_several_problems_are_the_same_on_the_cluster(
    run, scheduler, heart, tmp_path, kernel, how
):
    with open(heart) as stream:
        lines = stream.readlines()
    lines[::3] = ["7 " + line.split(" ", 1)[1] for line in lines[::3]]
    (tmp_path / "three").write_text("".join(lines))
    options = ["-s", "odm", "--multiclass", how, "-t", kernel, "-e", "1e-9"]
    here = objective(run, tmp_path, *options, "three")
    there = objective(run, tmp_path, *options, "--scheduler", scheduler, "three")
    assert there["objective"] == pytest.approx(here["objective"], rel=1e-9)


def test_a_scheduler_that_is_of_no_use_is_said(run, scheduler, heart):
    outcome = run("train", "--scheduler", scheduler, heart, "m")
    assert outcome.code == 0 and "--scheduler is ignored with --solver auto" in outcome.err


def test_a_scheduler_with_tls_as_docs_security_says(run, pattern, tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing")
    names = {name: str(tmp_path / name) for name in ("me.pem", "me.key")}
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
         "/CN=odmtool", "-out", names["me.pem"], "-keyout", names["me.key"]],
        check=True, capture_output=True,
    )  # fmt: skip
    tls = {"distributed.comm.tls.ca-file": names["me.pem"]}
    for who in ("scheduler", "worker", "client"):
        tls[f"distributed.comm.tls.{who}.cert"] = names["me.pem"]
        tls[f"distributed.comm.tls.{who}.key"] = names["me.key"]
    with dask.config.set({"distributed.comm.require-encryption": True, **tls}):
        security = distributed.Security()
        with distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0",
            host="127.0.0.1", protocol="tls://", security=security, silence_logs="CRITICAL",
        ) as running:  # fmt: skip
            address = running.scheduler_address
            assert address.startswith("tls://")
            outcome = run("train", "--scheduler", address, "--solver", "dsvrg", pattern, "m")
    assert outcome.code == 0 and "270 examples" in outcome.err


def test_max_time_holds_on_the_workers(run, scheduler, ill_conditioned):
    options = ["--solver", "sodm", *ENDLESS, "--max-time", "2", "--partitions", "2"]
    outcome = run("train", *options, "--scheduler", scheduler, ill_conditioned, "m")
    assert outcome.code == 0 and "stopped after --max-time 2" in outcome.err


@pytest.fixture
def in_round(monkeypatch):
    """Do something once, when workers are sent the tasks of a round: in_round(5, action).

    The action is given the executor.
    """
    rounds, send = [], cluster.Dask.map

    def prepare(number, action):
        def send_and_act(self, *arguments):
            rounds.append(1)
            if len(rounds) == number:
                action(self)
            return send(self, *arguments)

        monkeypatch.setattr(cluster.Dask, "map", send_and_act)
        return rounds

    return prepare


def test_a_worker_killed_while_files_are_trained_on(
    run, scheduler, pattern, heart, tmp_path, in_round
):
    options = ["--solver", "dsvrg", *PARTS, "-e", "1e-10", "--max-iter", "9999"]
    here = objective(run, tmp_path, *options, heart)
    with distributed.Client(scheduler, set_as_default=False) as client:
        victim = min(client.run(os.getpid).values())
    rounds = in_round(10, lambda _: os.kill(victim, signal.SIGKILL))
    there = objective(run, tmp_path, *options, "--scheduler", scheduler, pattern)
    assert len(rounds) > 10
    assert there["objective"] == pytest.approx(here["objective"], rel=1e-9)
    assert there["iterations"] == here["iterations"]


CLUSTER = """
import distributed, time
if __name__ == "__main__":
    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0",
        host="127.0.0.1", protocol="tcp://", silence_logs="CRITICAL")
    print(cluster.scheduler_address, flush=True)
    time.sleep(600)
"""


def test_a_lost_scheduler_is_one_sentence_and_leaves_nothing(
    run, ill_conditioned, tmp_path, monkeypatch, in_round
):
    def lose(executor):
        monkeypatch.setattr(cluster, "_CONNECT_SECONDS", 1.0)
        executor._client._timeout = 1.0  # it would try for as long as it was given at first
        own.kill()

    own = subprocess.Popen(
        [sys.executable, "-c", CLUSTER], stdout=subprocess.PIPE, text=True
    )
    address = own.stdout.readline().strip()
    (tmp_path / "m").write_text("old")
    in_round(10, lose)
    options = ["--solver", "dsvrg", "--partitions", "4", *ENDLESS]
    outcome = run("train", *options, "--scheduler", address, ill_conditioned, "m")
    own.communicate()
    assert outcome.code == 1
    (line,) = outcome.err.splitlines()
    lost = f"the connection to the scheduler '{address}', or its last worker, was lost"
    assert line.endswith(lost)
    assert (tmp_path / "m").read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["m"]


def test_ctrl_c_is_immediate(start, scheduler, ill_conditioned, tmp_path):
    (tmp_path / "m").write_text("old")
    options = ["--solver", "dsvrg", "--partitions", "4", *ENDLESS, "--verbose"]
    process = start("train", *options, "--scheduler", scheduler, ill_conditioned, "m")
    for line in process.stderr:
        if b"iteration 1," in line:
            break
    threading.Thread(target=process.stderr.read, daemon=True).start()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == 130
    assert [file.name for file in tmp_path.iterdir()] == ["m"]
    assert (tmp_path / "m").read_text() == "old"
