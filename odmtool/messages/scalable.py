"""Landmarks, partitions, blocks and clusters."""

from __future__ import annotations

from odmtool.messages.words import quoted, size


def features_too_large(m: int, needed: float, memory: float) -> str:
    return (
        f"the features of {m} examples need {size(needed)}, more than the {size(memory)} of "
        f"--memory; take fewer --landmarks, a machine with a smooth loss (odm), or more --memory"
    )


def dask_missing() -> str:
    return "--scheduler needs Dask: pip install odmtool[dask]"


def no_scheduler(scheduler: str) -> str:
    return f"there is no Dask scheduler at {quoted(scheduler)}, or it does not answer"


def no_workers(scheduler: str) -> str:
    return f"the scheduler {quoted(scheduler)} has no workers: start some with dask worker"


def scheduler_lost(scheduler: str) -> str:
    return f"the connection to the scheduler {quoted(scheduler)}, or its last worker, was lost"


def workers_keep_dying() -> str:
    return "workers die again and again, perhaps for lack of memory; their logs tell"


def other_version(worker: str, name: str, theirs: str | None, ours: str) -> str:
    return (
        f"worker {worker} has {name} {theirs or 'not at all'}, but here it is {ours}: "
        f"all must have the same"
    )
