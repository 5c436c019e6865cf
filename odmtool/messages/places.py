"""Data on the disk or with the workers of a cluster."""

from __future__ import annotations

from odmtool.messages.words import counted, listed, sentence, size

cache_not_for_machine = sentence(
    "‹machine={machine}› needs all data in memory; with ‹cache› take a machine of two "
    "classes, such as ‹machine=odm›, which takes more classes one against the rest"
)
cache_needs_ovr = sentence("‹cache› here is not for ‹multiclass={multiclass}›; take ovr")
hessian_too_large = sentence(
    "‹solver=newton› with ‹cache› takes at most {most} features, there are {width}; take "
    "‹solver=dcd›"
)


def out_of_core_too_large(name: str, needed: float, parts: dict[str, float], memory: float) -> str:
    largest = max(parts, key=parts.get)
    return (
        f"{name}: even with ‹cache› training needs {size(needed)}, more than the {size(memory)} "
        f"of ‹memory›: the largest part ({size(parts[largest])}) is for {largest}; give more memory"
    )


files_need_ovr = sentence(
    "files that the workers of ‹scheduler› read are not for ‹multiclass={multiclass}›; take ovr"
)
files_need_weights = sentence(
    "files that the workers of ‹scheduler› read need weights above zero; leave out the "
    "examples that have none"
)
no_file_matches = sentence("no file on the workers matches {name!q}")
dask_missing = sentence("‹scheduler› needs Dask: pip install 'odmtool[dask]'")
plain_tcp = sentence(
    "‹scheduler› {address!q} is another host, without TLS: whoever is on the network could read "
    "the data and run programs here; take tls://, or, where the network is trusted, set "
    "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=false (docs/security.md)"
)
not_an_address = sentence(
    "‹scheduler› {scheduler!q} is not an address like tcp://host:8786, and there is no "
    "scheduler file of that name"
)
no_scheduler = sentence("there is no Dask scheduler at {scheduler!q}, or it does not answer")
no_workers = sentence("the scheduler {scheduler!q} has no workers: start some with dask worker")


def workers_silent(workers: list[str], seconds: float) -> str:
    return (
        f"no answer in {seconds:g} seconds from {listed(workers)}: end what is frozen, or let it "
        "go on"
    )


scheduler_lost = sentence(
    "the connection to the scheduler {scheduler!q}, or its last worker, was lost"
)
workers_keep_dying = sentence("workers keep dying, possibly out of memory; see their logs")


def other_version(worker: str, name: str, theirs: str | None, ours: str) -> str:
    return (
        f"worker {worker} has {name} {theirs or 'not at all'}, but here it is {ours}: all must "
        "have the same"
    )


worker_fails = sentence(
    "worker {worker} cannot run odmtool: {reason}; it needs odmtool {version}, as here"
)
task_too_large = sentence(
    "a task needs {needed!b} on a worker, which has {memory!b} for each of its "
    "threads: start workers with fewer threads, or a higher --memory-limit (or ‹memory› here)"
)
scheduler_unused = sentence(
    "‹scheduler› is ignored with ‹solver={solver}›; it applies to sodm, nystrom and "
    "dsvrg, to the folds of a cross validation, and to several binary problems"
)
files_are_elsewhere = sentence(
    "{option} needs the examples here, not in files that the workers of ‹scheduler› read"
)
name_the_model_of_files = sentence(
    "the training data are several files: name the MODEL_FILE (- is stdout)"
)


def files_read(files: int, empty: int, m: int, d: int) -> str:
    besides = f" ({empty} more without an example)" if empty else ""
    return f"the workers have read {counted(files, 'file')}{besides}: {m} examples, {d} features"


cache_only_for_a_model = sentence(
    "{option} reads all data into memory: leave out ‹cache› or {option}"
)
data_too_large = sentence(
    "the data need about {needed!b} in memory, more than the {memory!b} of ‹memory›; "
    "odm-train ‹cache=DIR› trains linear machines and ‹solver=nystrom› from the disk"
)
too_wide = sentence(
    "feature {feature} of example {example} makes weights for so many features take about "
    "{needed!b}, more than the {memory!b} of ‹memory›; correct it, or give more ‹memory›"
)
too_wide_token = sentence(
    "{token!q} makes weights for so many features take about {needed!b}, more than the "
    "{memory!b} of ‹memory›; correct it, or give more ‹memory›"
)
too_many_features = sentence(
    "the weights of {width} features take about {needed!b}, more than the {memory!b} of ‹memory›; "
    "correct the largest index, or give more ‹memory›"
)
classes_too_large = sentence(
    "{k} classes of {m} examples need about {needed!b} in training, more than the {room!b} that "
    "there is; if the labels are no classes, correct them, else give more ‹memory›"
)
name_the_model = sentence("the training data come from a pipe: name the MODEL_FILE (- is stdout)")


def matrix_not_kept(m: int, memory: float, others: tuple[str, ...] = ("‹solver=sodm›",)) -> str:
    """``others`` is what may be tried besides landmarks."""
    tries = " or ".join((*others, "‹solver=nystrom›"))
    return (
        f"the kernel matrix of {m} examples does not fit in ‹memory› ({size(memory)}): training "
        f"is slower. For large data try {tries}"
    )


rows_apart = sentence(
    "the features are not scaled, and most examples are so far from every other that the model "
    "may say little of new ones. Try scaled features‹command=scale›, or a smaller ‹gamma›"
)
few_landmarks = sentence(
    "‹memory› ({memory!b}) has room for {r} landmarks of {m} examples: training is slower than "
    "with {enough!b}"
)


def cached(store, was_known: bool) -> str:
    m, d = store.shape
    how = "found there" if was_known else "written"
    return f"cache of {m} examples with {d} features: {size(store.bytes)}, {how}"


def _listed(parts: dict[str, float]) -> str:
    return ", ".join(f"{name} {size(amount)}" for name, amount in parts.items() if amount)


def memory_needs(parts: dict[str, float], memory: float | None = None) -> str:
    limit = "" if memory is None else f" (‹memory› {size(memory)})"
    return f"at most {size(sum(parts.values()))} of memory: {_listed(parts)}{limit}"


def task_needs(parts: dict[str, float]) -> str:
    return (
        f"a task on a worker takes at most {size(sum(parts.values()))}: {_listed(parts)}; of "
        f"kernel values no more are kept than the worker's --memory-limit has room for"
    )


def memory_plan(solver: str, parts: dict[str, float], memory: float) -> str:
    return f"{solver} in {size(sum(parts.values()))} of {size(memory)} of memory: {_listed(parts)}"
