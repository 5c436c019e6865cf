"""Data on the disk or with the workers of a cluster."""

from __future__ import annotations

from odmtool.messages.words import quoted, size


def cache_not_for_machine(machine: str) -> str:
    return (
        f"‹machine={machine}› needs all data in memory; with ‹cache› take a machine of two "
        "classes, such as ‹machine=odm›, which takes more classes one against the rest"
    )


def cache_not_for_solver(solver: str) -> str:
    return (
        f"‹solver={solver}› needs all data in memory; with ‹cache› take auto, newton or dcd, or "
        "for a kernel nystrom"
    )


def cache_needs_smooth(machine: str) -> str:
    return (
        f"‹machine={machine}› has a loss with a corner: with ‹cache› take a linear machine and "
        "‹solver=auto› or dcd, or a smooth loss, such as ‹machine=odm›"
    )


def cache_needs_nystrom(kernel: str) -> str:
    return (
        f"‹cache› with ‹kernel={kernel}› needs ‹solver=nystrom›; other solvers need all data in "
        "memory"
    )


def cache_not_for_pairs() -> str:
    return "‹cache› with ‹solver=nystrom› is not for ‹multiclass=ovo›; take ovr"


def hessian_too_large(width: int, most: int) -> str:
    return (
        f"‹solver=newton› with ‹cache› takes at most {most} features, there are {width}; take "
        "‹solver=dcd›"
    )


def out_of_core_too_large(needed: float, memory: float) -> str:
    return (
        f"even with ‹cache› training needs {size(needed)}, more than the {size(memory)} of "
        "‹memory›; give more of it"
    )


def files_need_solver(solvers: tuple[str, ...]) -> str:
    return (
        "several files, read by the workers of ‹scheduler›, are for ‹solver› "
        f"{', '.join(solvers[:-1])} or {solvers[-1]}"
    )


def files_need_ovr() -> str:
    return "files that the workers of ‹scheduler› read are not for ‹multiclass=ovo›; take ovr"


def files_need_weights() -> str:
    return (
        "files that the workers of ‹scheduler› read need weights above zero; leave out the "
        "examples that have none"
    )


def no_file_matches(name: str) -> str:
    return f"no file on the workers matches {quoted(name)}"


def dask_missing() -> str:
    return "‹scheduler› needs Dask: pip install 'odmtool[dask]'"


def not_an_address(scheduler: str) -> str:
    return (
        f"‹scheduler› {quoted(scheduler)} is no address such as tcp://host:8786, and there is no "
        "scheduler file of that name"
    )


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
        f"worker {worker} has {name} {theirs or 'not at all'}, but here it is {ours}: all must "
        "have the same"
    )


def task_too_large(needed: float, memory: float) -> str:
    return (
        f"a task needs {size(needed)} on a worker, which has {size(memory)} for each of its "
        "threads: start workers with fewer threads, or a higher --memory-limit (or ‹memory› here)"
    )
