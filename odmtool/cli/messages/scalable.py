"""Landmarks, partitions, blocks and clusters."""

from __future__ import annotations

from odmtool.messages.words import sentence, size

scheduler_unused = sentence(
    "--scheduler changes nothing with --solver {solver} here: it is for sodm, nystrom and "
    "dsvrg, for the folds of a cross validation, and for several binary problems"
)
files_are_elsewhere = sentence(
    "{option} needs the examples here, not in files that the workers of --scheduler read"
)
name_the_model_of_files = sentence(
    "the training data are several files: name the MODEL_FILE (- is stdout)"
)
files_read = sentence("the workers have read {files} files: {m} examples, {d} features")


def level(found) -> str:
    return (
        f"level {found.level}: {found.parts} parts, {found.epochs} epochs, objective "
        f"{found.primal:.6g}, gap {found.gap:.2g}; seconds: solving {found.solving:.2f}, gap "
        f"{found.certifying:.2f}"
    )


stopped_at_level = sentence(
    "stopped at level {level}, as --stop-level says: the gap of the whole is {gap:.2g}"
)


def captured(share: float, count: int) -> str:
    return f"{count} landmarks hold {100 * share:.4g} % of the trace of the kernel matrix"


cache_only_for_a_model = sentence(
    "{option} reads all data into memory: leave out --cache or {option}"
)
cache_not_on_a_cluster = sentence(
    "--cache trains on this machine's disk: leave out --cache or --scheduler"
)
no_cache_for_searches = sentence(
    "odm-cv reads all data into memory: search on a part of them, and train on all with "
    "odm-train --cache"
)
keep_without_cache = sentence("--keep-cache needs --cache DIR, where to keep it")
keep_of_a_stream = sentence(
    "--keep-cache needs a file, which can be recognised later; what comes from a pipe cannot"
)
data_too_large = sentence(
    "the data need about {needed!b} in memory, more than the {memory!b} of --memory; "
    "odm-train --cache DIR trains linear machines and --solver nystrom from the disk"
)


def cached(store, was_known: bool) -> str:
    m, d = store.shape
    how = "found there" if was_known else "written"
    return f"cache of {m} examples with {d} features: {size(store.bytes)}, {how}"


def _listed(parts: dict[str, float]) -> str:
    return ", ".join(f"{name} {size(amount)}" for name, amount in parts.items() if amount)


def memory_needs(parts: dict[str, float], memory: float) -> str:
    whole, limit = size(sum(parts.values())), size(memory)
    return f"at most {whole} of memory: {_listed(parts)} (--memory {limit})"


def task_needs(parts: dict[str, float]) -> str:
    return (
        f"a task on a worker takes at most {size(sum(parts.values()))}: {_listed(parts)}; of "
        f"kernel values no more are kept than the worker's --memory-limit has room for"
    )


peak_memory = sentence("peak memory {amount!b}")


def memory_plan(solver: str, parts: dict[str, float], memory: float) -> str:
    return f"{solver} in {size(sum(parts.values()))} of {size(memory)} of memory: {_listed(parts)}"
