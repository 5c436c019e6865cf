"""Tasks on a Dask cluster (extra ``odmtool[dask]``); imported only when a scheduler is named.

What was put or kept is remembered here as it was made, so that when a worker dies with
values that cannot be made again from a task, they are made again from here, and the tasks
that needed them are repeated. Every task gives the same result wherever and however often
it runs.
"""

from __future__ import annotations

import json
import logging
import math
import os
import platform
import queue
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from odmtool import __version__, messages
from odmtool._pattern import Pattern
from odmtool.core import deadline
from odmtool.core.memory import default_memory
from odmtool.errors import ClusterError, UsageError
from odmtool.rows.executor import itself

# So often a task may be repeated after workers have died.
_ATTEMPTS = 5
_CONNECT_SECONDS = 20
_GRACE_SECONDS = 1
# A worker may first have to load the program, from a slow disk.
_ANSWER_SECONDS = 60
_ADDRESS = Pattern(r"([a-z+]+://)?.+:[0-9]+")
# Of what a worker may take; the rest is left to data and vectors.
_SHARE = 0.7
# What Python, Dask, NumPy and compiled code take of a worker's limit. At 80 % of the limit
# Dask pauses a worker, at 95 % it kills it.
_PROGRAM = 2e8


class Dask:
    """An executor (:mod:`odmtool.rows.executor`) on a running cluster.

    Parameters
    ----------
    scheduler : str
        Its address (``tcp://host:8786``) or the name of a scheduler file.
    memory : float, optional
        The most bytes that a task may plan with; by default its share of the worker's limit.

    Raises
    ------
    UsageError
        Dask is not installed, or the workers have other versions than this process.
    ClusterError
        The scheduler cannot be reached, or has no workers.
    """

    shares_memory = False

    def __init__(self, scheduler: str, memory: float | None = None):
        try:
            import distributed
        except ImportError:
            raise UsageError(messages.dask_missing()) from None
        for name in ("distributed", "distributed.client"):
            # What is lost is said in one sentence, by an error of ours.
            logging.getLogger(name).setLevel(logging.CRITICAL)
        if not os.path.isfile(scheduler) and not _ADDRESS.fullmatch(scheduler):
            raise UsageError(messages.not_an_address(scheduler))
        _refuse_open_networks(scheduler)
        where = (
            {"scheduler_file": scheduler} if os.path.isfile(scheduler) else {"address": scheduler}
        )
        self._client = _connected(distributed.Client, where)
        if self._client is None:
            raise ClusterError(messages.no_scheduler(scheduler))
        self._scheduler, self._lost = scheduler, _errors_of_loss()
        try:
            workers = self._check_workers()
        except BaseException:
            self._client.close()
            raise
        self.jobs = sum(worker.threads for worker in workers.values())
        self._addresses = sorted(workers)
        shares = task_memory(list(workers.values()))
        self.task_memory = shares if memory is None else min(memory, shares)

    def put(self, value, place: float | None = None) -> Kept:
        """Keep a value on a worker."""
        kept = Kept(lambda: self._scatter(value, self._worker_at(place)))
        self._persist(kept.future)
        return kept

    def keep(self, function: Callable, *arguments, place: float | None = None) -> Kept:
        """Keep function(arguments), made on a worker."""
        kept = Kept(lambda: self._submit(function, arguments, place))
        self._persist(kept.future)
        return kept

    def keep_each(self, function: Callable, *columns: Iterable) -> list[Kept]:
        """Keep function(row) for the rows of the columns."""
        return [self.keep(function, *row) for row in zip(*columns, strict=True)]

    def map(self, function: Callable, *columns: Iterable) -> list:
        """function(row) for the rows of the columns, each a task; the results come here."""
        rows = list(zip(*columns, strict=True))
        return self._persist(
            lambda: self._client.gather([self._submit(function, row) for row in rows])
        )

    def stream(self, function: Callable, *columns: Iterable) -> Iterator:
        """What :meth:`map` gives, one after the other as they are ready."""
        kept = self.keep_each(function, *columns)
        while kept:
            (value,) = self.map(itself, [kept.pop(0)])
            yield value

    def close(self) -> None:
        """Forget everything that was kept; the cluster goes on."""
        self._client.close()

    def _submit(self, function: Callable, arguments, place: float | None = None):
        arguments = [a.future() if isinstance(a, Kept) else a for a in arguments]
        workers = self._worker_at(place)
        return self._client.submit(
            deadline.carried(function), *arguments, pure=False, workers=workers,
            allow_other_workers=bool(workers),
        )  # fmt: skip

    def _scatter(self, value, workers: list[str] | None):
        # In a list, for scatter would take a tuple apart.
        try:
            (future,) = self._client.scatter([value], hash=False, workers=workers)
            return future
        except (KeyError, TimeoutError):
            if workers is None:
                raise
            # That worker is gone, or takes nothing: any other will do.
            self._addresses = sorted(self._client.nthreads())
            return self._scatter(value, None)

    def _worker_at(self, place: float | None) -> list[str] | None:
        """The address of the worker at a place; None, any worker, for none."""
        if place is None or not self._addresses:
            return None
        return [self._addresses[int(place * len(self._addresses))]]

    def _persist(self, action: Callable):
        """The result of the action, tried again after workers have died."""
        for _ in range(_ATTEMPTS):
            try:
                return action()
            except self._lost as error:
                self._wait_for_workers(error)
        raise ClusterError(messages.workers_keep_dying())

    def _wait_for_workers(self, error: Exception) -> None:
        try:
            self._client.wait_for_workers(1, timeout=_CONNECT_SECONDS)
            self._addresses = sorted(self._client.nthreads())
        except (OSError, ValueError, RuntimeError, *self._lost):
            raise ClusterError(messages.scheduler_lost(self._scheduler)) from error

    def _check_workers(self) -> dict[str, WorkerMeans]:
        workers = self._asked()
        if not workers:
            raise ClusterError(messages.no_workers(self._scheduler))
        ours = versions()
        for name, worker in sorted(workers.items()):
            if isinstance(worker, Exception):
                raise UsageError(messages.worker_fails(name, str(worker), __version__))
            for package, version in ours.items():
                if worker.versions.get(package) != version:
                    theirs = worker.versions.get(package)
                    raise UsageError(messages.other_version(name, package, theirs, version))
        self._client.run(deadline.compare_clocks, time.time())
        return workers

    def _asked(self) -> dict[str, WorkerMeans]:
        """What every worker tells of itself; one that is stopped would be waited for, for minutes.

        Raises ClusterError: some do not answer.
        """

        def ask(seconds: float, **who):
            return _in_time(lambda: self._client.run(means, on_error="return", **who), seconds)

        while (workers := ask(_ANSWER_SECONDS)) is None:
            names = sorted(self._client.nthreads())
            silent = [name for name in names if ask(_GRACE_SECONDS, workers=[name]) is None]
            if silent:
                raise ClusterError(messages.workers_silent(silent, _ANSWER_SECONDS))
        return workers


class WorkerMeans(NamedTuple):
    """What a worker has."""

    versions: dict[str, str]
    host: str
    threads: int
    limit: float  # bytes at which Dask intervenes; infinite if there is no limit
    free: float  # bytes that programs on its host may plan with


def _refuse_open_networks(scheduler: str) -> None:
    """Raise UsageError if anybody on the way to another host could read the data and run code.

    That is so without TLS. Who trusts the network says so in Dask's own configuration.
    """
    import dask

    address = scheduler
    if os.path.isfile(scheduler):
        try:
            address = json.loads(Path(scheduler).read_bytes())["address"]
        except (OSError, ValueError, LookupError, TypeError):
            return  # Dask says what is wrong with it
    scheme, _, place = address.rpartition("://")
    is_open = scheme not in ("tls", "wss", "inproc")
    is_allowed = dask.config.get("distributed.comm.require-encryption", None) is False
    if is_open and not is_allowed and not _is_here(place.rpartition(":")[0].strip("[]")):
        raise UsageError(messages.plain_tcp(address))


def _is_here(host: str) -> bool:
    """Whether a name stands for this machine: a socket can be bound to it."""
    try:
        for family, kind, _, _, address in socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM):
            with socket.socket(family, kind) as probe:
                probe.bind(address)
    except OSError:
        return False
    return True


def _connected(new_client: Callable, where: dict):
    """A client; None if no scheduler answers in time.

    distributed keeps to its timeout only until the connection is made: for a server of another
    kind, such as the scheduler's dashboard or a worker, it waits without end, or fails in any way.
    """
    outcome = queue.SimpleQueue()

    def connect() -> None:
        try:
            outcome.put(new_client(**where, timeout=_CONNECT_SECONDS, set_as_default=False))
        except Exception as error:
            outcome.put(None)
            # The client would close in vain, for a minute: it stays here, with its error.
            threading.Event().wait()
            del error

    threading.Thread(target=connect, name="connect to the scheduler", daemon=True).start()
    try:
        return outcome.get(timeout=_CONNECT_SECONDS + _GRACE_SECONDS)
    except queue.Empty:
        return None


def _in_time(ask: Callable, seconds: float):
    """What ``ask`` gives; None if that takes longer, in a thread that nobody waits for."""
    outcome = queue.SimpleQueue()

    def work() -> None:
        try:
            outcome.put((ask(), None))
        except Exception as error:
            outcome.put((None, error))

    threading.Thread(target=work, name="ask the cluster", daemon=True).start()
    try:
        value, error = outcome.get(timeout=seconds)
    except queue.Empty:
        return None
    if error is not None:
        raise error
    return value


def means(dask_worker) -> WorkerMeans:
    """What the worker that runs this has; Dask names it by the name of the argument."""
    limit = dask_worker.memory_manager.memory_limit
    return WorkerMeans(
        versions(), platform.node(), dask_worker.state.nthreads, limit or math.inf,
        default_memory(),
    )  # fmt: skip


def task_memory(workers: list[WorkerMeans]) -> float:
    """Bytes that a task may plan with on any worker, the workers of a host sharing what is free."""
    threads = Counter()
    for worker in workers:
        threads[worker.host] += worker.threads
    return min(
        min(
            max(0.0, _SHARE * worker.limit - _PROGRAM) / worker.threads,
            worker.free / threads[worker.host],
        )
        for worker in workers
    )


class Kept:
    """A value on the cluster, and how to make it again.

    ``make``: returns the future of the value.
    """

    def __init__(self, make: Callable):
        self._make, self._future = make, None

    def future(self):
        """The value's future, a new one if the value was lost."""
        if self._future is None or self._future.status not in ("pending", "finished"):
            self._future = self._make()
        return self._future


def versions() -> dict[str, str]:
    """What must be the same everywhere for the results to be."""
    return {
        "odmtool": __version__,
        "numpy": metadata.version("numpy"),
        "numba": metadata.version("numba"),
        "python": ".".join(platform.python_version_tuple()[:2]),
    }


def _errors_of_loss() -> tuple:
    """What Dask raises when a worker died with what a task needed."""
    from concurrent.futures import CancelledError

    import distributed

    names = ("KilledWorker", "CommClosedError")
    found = [getattr(distributed, name, None) for name in names]
    found += [getattr(distributed.client, "FutureCancelledError", None)]
    found += [getattr(distributed.comm, "CommClosedError", None)]
    found += [getattr(distributed.client, "ClientClosedError", None)]
    # Without workers, what is put waits for one, and gives up.
    return (CancelledError, TimeoutError, *{error for error in found if error is not None})
