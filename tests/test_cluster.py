"""A real Dask scheduler and two worker processes on loopback give the model of one process."""

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from problems import problem, weights

pytest.importorskip("distributed")

from odmtool import messages
from odmtool.core import deadline, losses
from odmtool.core.gram import Gram
from odmtool.core.kernels import Kernel
from odmtool.errors import ClusterError, UsageError  # noqa: E402
from odmtool.messages.words import written
from odmtool.rows import cluster
from odmtool.rows.executor import Threads
from odmtool.solvers.base import Problem, Stop  # noqa: E402
from odmtool.solvers.large import dsvrg, nystrom, sodm
from odmtool.solvers.settings import Settings


@pytest.fixture
def dask(scheduler):
    executor = cluster.Dask(scheduler)
    yield executor
    executor.close()


@pytest.mark.parametrize("kernel, cascade", [
    (None, True), ("rbf", False), ("rbf", True), ("poly", False),
])  # fmt: skip
def test_sodm_is_the_same_on_the_cluster(dask, kernel, cascade):
    p = problem(kernel, weight=weights())
    scheme = Settings(partitions=8, branch=2, strata=5, cascade=cascade)
    here = sodm.solve(p, Stop(1e-3), scheme, executor=Threads(2))
    there = sodm.solve(p, Stop(1e-3), scheme, executor=dask)
    assert np.allclose(here.eta, there.eta, rtol=1e-9, atol=1e-12)
    assert there.gap == pytest.approx(here.gap, rel=1e-6)


def test_nystrom_is_the_same_on_the_cluster(dask):
    p = problem("rbf", weight=weights())
    here, captured = nystrom.solve(p, Stop(1e-8), 9, executor=Threads(2))
    there, also = nystrom.solve(p, Stop(1e-8), 9, executor=dask)
    assert np.allclose(here.coef, there.coef, rtol=1e-9, atol=1e-12)
    assert captured == also


@pytest.mark.parametrize("is_dense", [False, True])
def test_dsvrg_is_the_same_on_the_cluster(dask, is_dense):
    p = problem(weight=weights(), dense=is_dense)
    here = dsvrg.solve(p, Stop(1e-4, 500), Settings(partitions=5, strata=4), executor=Threads(2))
    there = dsvrg.solve(p, Stop(1e-4, 500), Settings(partitions=5, strata=4), executor=dask)
    assert here.iterations == there.iterations > 5
    assert np.allclose(here.w, there.w, rtol=1e-9, atol=1e-12)
    assert np.allclose(here.eta, there.eta, rtol=1e-9, atol=1e-12)


def worker_ids(executor):
    executor._client.wait_for_workers(2, timeout=60)  # one that a test killed comes again
    return sorted(executor._client.run(os.getpid).values())


def test_a_killed_worker_is_survived(dask):
    generator = np.random.default_rng(0)
    X = generator.standard_normal((600, 4))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * generator.standard_normal(600) > 0, 1.0, -1.0)
    p = Problem(
        None, Gram(Kernel("rbf", 0.7), X), y, np.ones(600), losses.odm(2.0**8, 0.5, 0.3, 600)
    )
    scheme, killed = Settings(partitions=8, branch=2, strata=5), []

    def kill(level):
        if level.parts == 2:
            victim = worker_ids(dask)[0]
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    here = sodm.solve(p, Stop(1e-4), scheme)
    there = sodm.solve(p, Stop(1e-4), scheme, executor=dask, report=kill)
    assert len(killed) == 1
    assert np.allclose(here.eta, there.eta, rtol=1e-9, atol=1e-12)


def test_a_worker_killed_during_dsvrg_is_survived(dask):
    p, scheme, killed = problem(weight=weights()), Settings(partitions=5, strata=4), []

    def kill(state):
        if state.iteration == 4:
            victim = worker_ids(dask)[0]
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    here = dsvrg.solve(p, Stop(1e-8, 500), scheme)
    there = dsvrg.solve(p, Stop(1e-8, 500), scheme, executor=dask, progress=kill)
    assert len(killed) == 1
    assert np.allclose(here.w, there.w, rtol=1e-9, atol=1e-12)


def test_values_of_a_dead_worker_are_placed_elsewhere(dask):
    kept = [dask.put(np.full(10, 1.0), 0.0), dask.put(np.full(10, 2.0), 0.6)]
    address = dask._addresses[0]
    os.kill(dask._client.run(os.getpid, workers=[address])[address], signal.SIGKILL)
    time.sleep(3)
    kept.append(dask.put(np.full(10, 3.0), 0.0))
    assert dask.map(np.sum, kept) == [10.0, 20.0, 30.0]


def slow(k, value):
    time.sleep(0.4)
    return k + int(value[0])


def test_a_worker_killed_in_the_middle_of_a_task_is_survived(dask):
    kept = [dask.put(np.full(10, 100)), dask.keep(np.full, 10, 200)]
    victim = worker_ids(dask)[1]
    timer = threading.Timer(0.6, os.kill, (victim, signal.SIGKILL))
    timer.start()
    results = dask.map(slow, range(8), [kept[k % 2] for k in range(8)])
    timer.join()
    assert results == [k + (100, 200)[k % 2] for k in range(8)]


def test_a_worker_is_no_scheduler(dask, monkeypatch):
    monkeypatch.setattr(cluster, "_CONNECT_SECONDS", 1)
    address = dask._addresses[0]
    with pytest.raises(ClusterError, match=f"there is no Dask scheduler at '{address}'"):
        cluster.Dask(address)


@pytest.mark.parametrize("greeting", [b"", b"SSH-2.0-OpenSSH_9.2\r\n", bytes(8)])
def test_a_server_of_another_kind_is_no_scheduler(monkeypatch, greeting):
    """One that waits for us to go on, as HTTP servers do, and two that talk first."""
    monkeypatch.setattr(cluster, "_CONNECT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        def answer():
            with contextlib.suppress(OSError):  # until it is closed
                while True:
                    connections.append(server.accept()[0])
                    connections[-1].sendall(greeting)

        connections = []
        threading.Thread(target=answer, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ClusterError, match=f"there is no Dask scheduler at '{address}'"):
            cluster.Dask(address)
        assert connections
        for connection in connections:
            connection.close()


def test_plain_tcp_goes_to_no_other_host(tmp_path):
    """192.0.2.1 is nobody's, by RFC 5737."""
    import dask

    (tmp_path / "file").write_text('{"address": "tcp://192.0.2.1:8786"}')
    for scheduler in ("tcp://192.0.2.1:8786", "192.0.2.1:8786", str(tmp_path / "file")):
        with pytest.raises(UsageError, match="is another host, without TLS"):
            cluster.Dask(scheduler)
        with dask.config.set({"distributed.comm.require-encryption": False}):
            cluster._refuse_open_networks(scheduler)
    (tmp_path / "file").write_text("[]")
    for scheduler in ("tls://192.0.2.1:8786", "tcp://127.0.0.1:8786", "tcp://[::1]:8786",
                      "localhost:8786", str(tmp_path / "file")):  # fmt: skip
        cluster._refuse_open_networks(scheduler)


def test_no_scheduler_is_one_sentence(monkeypatch):
    monkeypatch.setattr(cluster, "_CONNECT_SECONDS", 0.3)
    with pytest.raises(ClusterError, match="there is no Dask scheduler at 'tcp://127.0.0.1:1'"):
        cluster.Dask("tcp://127.0.0.1:1")


@pytest.mark.parametrize("address", ["x", "127.0.0.1", "no-file.json"])
def test_what_is_no_address_is_refused_at_once(address):
    with pytest.raises(UsageError, match="is not an address like tcp://host:8786"):
        cluster.Dask(address)


def test_workers_must_have_our_versions(scheduler, monkeypatch):
    monkeypatch.setattr(cluster, "__version__", "0.0.1")
    with pytest.raises(UsageError, match="but here it is 0.0.1"):
        cluster.Dask(scheduler)


def test_workers_must_have_the_program(scheduler, monkeypatch):
    def means():
        raise ModuleNotFoundError("No module named 'odmtool'")

    monkeypatch.setattr(cluster, "means", means)
    with pytest.raises(UsageError, match="^worker tcp://.* cannot run odmtool: .*No module"):
        cluster.Dask(scheduler)


def test_another_patch_of_python_is_the_same_version(monkeypatch):
    def with_python(*numbers):
        monkeypatch.setattr(cluster.platform, "python_version_tuple", lambda: numbers)
        return cluster.versions()

    assert with_python("3", "12", "1") == with_python("3", "12", "13")
    assert with_python("3", "12", "1") != with_python("3", "13", "1")


def means(host, threads, limit, free):
    return cluster.WorkerMeans({}, host, threads, limit, free)


def test_a_task_has_its_share_of_the_worker_and_of_the_host():
    unlimited = float("inf")
    assert cluster.task_memory([means("a", 2, 8e9, 1e12)]) == pytest.approx((0.7 * 8e9 - 2e8) / 2)
    assert cluster.task_memory([means("a", 1, unlimited, 6e9)] * 3) == pytest.approx(2e9)
    assert cluster.task_memory([means("a", 1, 2e8, 6e9)]) == 0
    mixed = [means("a", 1, 4e9, 1e12), means("b", 4, 8e9, 1e12)]
    assert cluster.task_memory(mixed) == pytest.approx((0.7 * 8e9 - 2e8) / 4)


def test_memory_bounds_the_tasks(scheduler):
    bounded = cluster.Dask(scheduler, 1e6)
    free = cluster.Dask(scheduler)
    assert bounded.task_memory == 1e6 < free.task_memory < float("inf")
    bounded.close()
    free.close()


def test_sodm_is_the_same_where_few_kernel_values_are_kept(scheduler):
    p, scheme = problem("rbf", weight=weights()), Settings(partitions=4, branch=2, strata=5)
    small = cluster.Dask(scheduler, 4000.0)
    here = sodm.solve(p, Stop(1e-6), scheme)
    there = sodm.solve(p, Stop(1e-6), scheme, executor=small)
    small.close()
    assert there.converged and there.primal == pytest.approx(here.primal, rel=1e-5)


def test_without_dask_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError) as raised:
        cluster.Dask("tcp://127.0.0.1:1")
    assert str(raised.value) == written(messages.dask_missing())


def test_a_deadline_holds_where_clocks_differ(monkeypatch):
    now, wrong = time.time(), time.time() + 3600
    with deadline.time_limit(50):
        task = deadline.carried(deadline.seconds_left)
    # On the worker, whose clock is an hour ahead of ours.
    monkeypatch.setattr(deadline, "time", SimpleNamespace(time=lambda: wrong, monotonic=lambda: 7))
    monkeypatch.setattr(deadline, "_ahead", 0.0)
    assert task() < 0
    deadline.compare_clocks(now)
    assert 40 < task() <= 51
