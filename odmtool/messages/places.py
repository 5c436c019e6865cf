"""Data on the disk or with the workers of a cluster."""

from __future__ import annotations

from odmtool.messages.words import sentence

cache_not_for_machine = sentence(
    "‹machine={machine}› needs all data in memory; with ‹cache› take a machine of two "
    "classes, such as ‹machine=odm›, which takes more classes one against the rest"
)
cache_not_for_solver = sentence(
    "‹solver={solver}› needs all data in memory; with ‹cache› take auto, newton or dcd, or "
    "for a kernel nystrom"
)
cache_needs_smooth = sentence(
    "‹machine={machine}› has a loss with a corner: with ‹cache› take a linear machine and "
    "‹solver=auto› or dcd, or a smooth loss, such as ‹machine=odm›"
)
cache_needs_nystrom = sentence(
    "‹cache› with ‹kernel={kernel}› needs ‹solver=nystrom›; other solvers need all data in memory"
)
cache_not_for_pairs = sentence(
    "‹cache› with ‹solver=nystrom› is not for ‹multiclass=ovo›; take ovr"
)


def hessian_too_large(width: int, most: int) -> str:
    return (
        f"‹solver=newton› with ‹cache› takes at most {most} features, there are {width}; take "
        "‹solver=dcd›"
    )


out_of_core_too_large = sentence(
    "even with ‹cache› training needs {needed!b}, more than the {memory!b} of "
    "‹memory›; give more of it"
)


def files_need_solver(solvers: tuple[str, ...]) -> str:
    return (
        "several files, read by the workers of ‹scheduler›, are for ‹solver› "
        f"{', '.join(solvers[:-1])} or {solvers[-1]}"
    )


files_need_ovr = sentence(
    "files that the workers of ‹scheduler› read are not for ‹multiclass=ovo›; take ovr"
)
files_need_weights = sentence(
    "files that the workers of ‹scheduler› read need weights above zero; leave out the "
    "examples that have none"
)
no_file_matches = sentence("no file on the workers matches {name!q}")
dask_missing = sentence("‹scheduler› needs Dask: pip install 'odmtool[dask]'")
not_an_address = sentence(
    "‹scheduler› {scheduler!q} is no address such as tcp://host:8786, and there is no "
    "scheduler file of that name"
)
no_scheduler = sentence("there is no Dask scheduler at {scheduler!q}, or it does not answer")
no_workers = sentence("the scheduler {scheduler!q} has no workers: start some with dask worker")
scheduler_lost = sentence(
    "the connection to the scheduler {scheduler!q}, or its last worker, was lost"
)
workers_keep_dying = sentence(
    "workers die again and again, perhaps for lack of memory; their logs tell"
)


def other_version(worker: str, name: str, theirs: str | None, ours: str) -> str:
    return (
        f"worker {worker} has {name} {theirs or 'not at all'}, but here it is {ours}: all must "
        "have the same"
    )


task_too_large = sentence(
    "a task needs {needed!b} on a worker, which has {memory!b} for each of its "
    "threads: start workers with fewer threads, or a higher --memory-limit (or ‹memory› here)"
)
