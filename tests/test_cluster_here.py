"""A cluster's executor with workers that are threads of this process, or that die when told.

What needs processes, values that travel and workers that are killed, is in test_cluster.py.
"""

import logging
import math
import sys
import threading
from concurrent.futures import CancelledError
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("distributed")

import distributed  # noqa: E402

from odmtool.core import deadline  # noqa: E402
from odmtool.errors import ClusterError  # noqa: E402
from odmtool.rows import cluster  # noqa: E402
from odmtool.rows.executor import Serial  # noqa: E402


@pytest.fixture(scope="module")
def address():
    import dask

    quieter = {"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "1s"}
    with dask.config.set(quieter), distributed.LocalCluster(
        n_workers=2, threads_per_worker=3, processes=False, protocol="tcp", host="127.0.0.1",
        dashboard_address=":0", worker_dashboard_address=None, silence_logs=logging.CRITICAL,
        memory_limit=10**10,
    ) as running:  # fmt: skip
        yield running.scheduler_address


@pytest.fixture
def dask_here(address):
    executor = cluster.Dask(address)
    yield executor
    executor.close()


def worker_of(_):
    return distributed.get_worker().address


def test_what_it_says_of_itself(dask_here):
    assert dask_here.jobs == 6 and not dask_here.shares_memory
    assert len(dask_here._addresses) == 2 == len(set(dask_here._addresses))
    assert 0 < dask_here.task_memory <= (0.7 * 1e10 - 2e8) / 3
    # Both workers are on this host, and share what is free.
    assert dask_here.task_memory <= cluster.default_memory() / 6 * 1.2


def test_it_answers_as_one_task_after_the_other(dask_here):
    rows = [np.arange(3.0) + k for k in range(5)]
    for executor in (dask_here, Serial()):
        kept = [executor.put(row, k / 5) for k, row in enumerate(rows)]
        assert executor.map(np.dot, kept, rows) == [float(row @ row) for row in rows]
        made = executor.keep(np.add, kept[0], 2.0)
        assert executor.map(np.sum, [made, kept[4]]) == [9.0, 15.0]
        made = executor.keep_each(np.subtract, rows, kept)
        assert executor.map(np.sum, made) == [0.0] * 5
        pair = executor.put((1, 2))
        assert executor.map(len, [pair]) == [2]
    with pytest.raises(ValueError, match="zip"):
        dask_here.map(np.dot, rows, rows[:-1])


def test_a_stream_is_in_order_and_lets_go(dask_here):
    assert list(dask_here.stream(pow, range(5), [2] * 5)) == [0, 1, 4, 9, 16]


def test_values_lie_where_they_are_placed_and_tasks_go_there(dask_here):
    places = [0.0, 0.3, 0.49, 0.5, 0.99]
    expected = [dask_here._addresses[int(2 * place)] for place in places]
    put = [dask_here.put(np.full(10**5, place), place) for place in places]
    kept = [dask_here.keep(np.full, 10**5, place, place=place) for place in places]
    for values in (put, kept):
        assert dask_here.map(worker_of, values) == expected
    where = dask_here._client.who_has([one.future() for one in (*put, *kept)])
    assert sorted(holder for (holder,) in where.values()) == sorted(2 * expected)


def test_what_was_lost_is_made_again_and_only_that(dask_here):
    kept, other = dask_here.put(np.arange(4)), dask_here.put(np.arange(3))
    first, second = kept.future(), other.future()
    assert kept.future() is first
    first.cancel()
    assert dask_here.map(np.sum, [kept, other]) == [6, 3]
    assert kept.future() is not first and other.future() is second


def test_a_task_has_the_deadline_of_who_sends_it(dask_here):
    assert dask_here.map(abs, [math.inf]) == [math.inf]
    with deadline.time_limit(1000):
        (left,) = dask_here.map(lambda _: deadline._of_task.limit.moment, [0])
        assert left == pytest.approx(deadline._of_process.moment, abs=5)


def test_an_error_of_a_task_is_raised_here(dask_here):
    with pytest.raises(ZeroDivisionError):
        dask_here.map(divmod, [1], [0])


def test_a_scheduler_file_names_it_too(address, tmp_path):
    (tmp_path / "file").write_text(f'{{"address": "{address}", "id": "x", "workers": {{}}}}')
    executor = cluster.Dask(str(tmp_path / "file"), 5e6)
    assert executor.task_memory == 5e6
    executor.close()
    assert executor._client.status == "closed"


def test_without_workers_it_is_refused(monkeypatch):
    clients = []

    class Empty:
        def __init__(self, **_):
            clients.append(self)

        def run(self, function, *_, **_options):
            return {}

        def close(self):
            clients.append("closed")

    monkeypatch.setattr(distributed, "Client", Empty)
    with pytest.raises(ClusterError, match="no workers"):
        cluster.Dask("tcp://127.0.0.1:1")
    assert clients[1:] == ["closed"]


# ---- a client whose workers die when they are told to ------------------------------------


class Dying:
    """Has workers a and b, loses what it is asked for ``losses`` times, and notes the calls."""

    def __init__(self, losses=0, workers=("b", "a"), comes_again=True, error=CancelledError):
        self._error = error
        self.losses, self._workers, self.calls = losses, workers, []
        self._comes_again = comes_again

    def gather(self, futures):
        self.calls.append("gather")
        if self.losses > 0:
            self.losses -= 1
            raise self._error
        return [future.result for future in futures]

    def submit(self, function, *arguments, pure, workers, allow_other_workers):
        assert not pure and allow_other_workers == bool(workers)
        arguments = [getattr(one, "result", one) for one in arguments]
        return SimpleNamespace(result=function(*arguments), status="finished", workers=workers)

    def scatter(self, values, hash, workers):
        assert not hash and len(values) == 1
        self.calls.append(workers)
        if workers is not None and workers[0] not in self._workers:
            raise KeyError(workers[0])
        if not self._workers:
            raise TimeoutError
        return [SimpleNamespace(result=values[0], status="finished", workers=workers)]

    def wait_for_workers(self, count, timeout):
        assert (count, timeout) == (1, cluster._CONNECT_SECONDS)
        self.calls.append("wait")
        if not self._comes_again:
            raise TimeoutError

    def nthreads(self):
        return dict.fromkeys(self._workers, 1)


def executor_of(client, addresses=("a", "b")):
    executor = object.__new__(cluster.Dask)
    executor._client, executor._scheduler = client, "tcp://127.0.0.1:1"
    executor._addresses, executor._lost = list(addresses), cluster._errors_of_loss()
    return executor


def test_tasks_are_repeated_so_often_and_no_more():
    client = Dying(losses=4)
    assert executor_of(client).map(pow, [2, 3], [2, 2]) == [4, 9]
    assert client.calls == ["gather", "wait"] * 4 + ["gather"]
    client = Dying(losses=5)
    with pytest.raises(ClusterError, match="workers keep dying|died"):
        executor_of(client).map(pow, [2], [2])
    assert client.calls == ["gather", "wait"] * 5


@pytest.mark.parametrize("room, name", [
    (distributed, "KilledWorker"), (distributed.comm, "CommClosedError"),
    (distributed.client, "FutureCancelledError"), (distributed.client, "ClientClosedError"),
])  # fmt: skip
def test_whatever_tells_of_a_loss_the_tasks_are_repeated(room, name):
    kind = getattr(room, name, None) or pytest.skip("of another version of distributed")
    client = Dying(losses=1, error=kind.__new__(kind))
    assert executor_of(client).map(pow, [2, 3], [2, 2]) == [4, 9]
    with pytest.raises(ZeroDivisionError):
        executor_of(Dying(losses=1, error=ZeroDivisionError)).map(pow, [2], [2])


def test_workers_that_do_not_come_again_end_it():
    client = Dying(losses=1, comes_again=False)
    with pytest.raises(ClusterError) as raised:
        executor_of(client).map(pow, [2], [2])
    assert client.calls == ["gather", "wait"]
    assert isinstance(raised.value.__cause__, CancelledError)


def test_what_a_dead_worker_should_keep_goes_to_any_other():
    client = Dying(workers=("c", "b"))
    executor = executor_of(client)
    assert executor.put(5, 0.0).future().workers is None
    assert client.calls == [["a"], None] and executor._addresses == ["b", "c"]
    assert executor.put(5, 0.6).future().workers == ["c"]
    # None of them takes it.
    client = Dying(workers=(), comes_again=False)
    with pytest.raises(ClusterError):
        executor_of(client, ()).put(5, 0.3)
    assert client.calls == [None, "wait"]


def test_after_a_loss_the_workers_are_those_that_are_left():
    executor = executor_of(Dying(losses=1, workers=("z", "y")))
    executor.map(abs, [1])
    assert executor._addresses == ["y", "z"]


def test_a_value_that_is_pending_is_not_made_again():
    futures = iter([SimpleNamespace(status="pending"), SimpleNamespace(status="lost")])
    kept = cluster.Kept(lambda: next(futures))
    first = kept.future()
    assert kept.future() is first
    first.status = "error"
    assert kept.future() is not first


def test_who_never_answers_is_waited_for_so_long(monkeypatch):
    monkeypatch.setattr(cluster, "_CONNECT_SECONDS", 0.1)
    monkeypatch.setattr(cluster, "_GRACE_SECONDS", 0.1)
    ended = threading.Event()
    assert cluster._connected(lambda **_: ended.wait(), {}) is None
    ended.set()
    asked = []
    found = cluster._connected(lambda **options: asked.append(options) or "client", {"address": 1})
    assert found == "client"
    assert asked == [{"address": 1, "timeout": 0.1, "set_as_default": False}]


@pytest.mark.parametrize("limit", [None, 0, 10**9])
def test_what_a_worker_has(limit):
    worker = SimpleNamespace(
        memory_manager=SimpleNamespace(memory_limit=limit), state=SimpleNamespace(nthreads=7)
    )
    found = cluster.means(worker)
    assert found.limit == (limit or math.inf) and found.threads == 7
    assert found.versions == cluster.versions() and found.free > 0
    assert found.versions["python"] == "{}.{}".format(*sys.version_info)
    assert found.versions["numpy"] == np.__version__ and len(found.versions) == 4


def test_a_worker_that_does_not_answer_is_named(address, dask_here, monkeypatch):
    silent = dask_here._addresses[1]
    monkeypatch.setattr(cluster, "_ANSWER_SECONDS", 0.2)
    thawed, run = threading.Event(), distributed.Client.run

    def ask(client, function, *arguments, workers=None, **options):
        if workers is None or silent in workers:
            thawed.wait()
            return {}
        return run(client, function, *arguments, workers=workers, **options)

    with monkeypatch.context() as frozen:
        frozen.setattr(distributed.Client, "run", ask)
        said = f"no answer in 0.2 seconds from {silent}: end what is frozen"
        with pytest.raises(ClusterError, match=said):
            cluster.Dask(address)
        thawed.set()
    assert cluster._in_time(lambda: 3, 5) == 3
    with pytest.raises(KeyError):
        cluster._in_time(lambda: {}[0], 5)
