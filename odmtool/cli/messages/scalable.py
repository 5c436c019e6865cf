"""Landmarks, partitions, blocks and clusters."""

from __future__ import annotations

from odmtool.messages.words import size


def scheduler_unused(solver: str) -> str:
    return (
        f"--scheduler changes nothing with --solver {solver} here: it is for sodm, nystrom and "
        f"dsvrg, for the folds of a cross validation, and for several binary problems"
    )


def files_are_elsewhere(option: str) -> str:
    return f"{option} needs the examples here, not in files that the workers of --scheduler read"


def name_the_model_of_files() -> str:
    return "the training data are several files: name the MODEL_FILE (- is stdout)"


def files_read(files: int, m: int, d: int) -> str:
    return f"the workers have read {files} files: {m} examples, {d} features"


def level(found) -> str:
    return (
        f"level {found.level}: {found.parts} parts, {found.epochs} epochs, objective "
        f"{found.primal:.6g}, gap {found.gap:.2g}; seconds: solving {found.solving:.2f}, gap "
        f"{found.certifying:.2f}"
    )


def stopped_at_level(level: int, gap: float) -> str:
    return f"stopped at level {level}, as --stop-level says: the gap of the whole is {gap:.2g}"


def captured(share: float, count: int) -> str:
    return f"{count} landmarks hold {100 * share:.4g} % of the trace of the kernel matrix"


def cache_only_for_a_model(option: str) -> str:
    return f"{option} reads all data into memory: leave out --cache or {option}"


def cache_not_on_a_cluster() -> str:
    return "--cache trains on this machine's disk: leave out --cache or --scheduler"


def no_cache_for_searches() -> str:
    return (
        "odm-cv reads all data into memory: search on a part of them, and train on all with "
        "odm-train --cache"
    )


def keep_without_cache() -> str:
    return "--keep-cache needs --cache DIR, where to keep it"


def keep_of_a_stream() -> str:
    return "--keep-cache needs a file, which can be recognised later; what comes from a pipe cannot"


def data_too_large(needed: float, memory: float) -> str:
    return (
        f"the data need about {size(needed)} in memory, more than the {size(memory)} of --memory; "
        f"odm-train --cache DIR trains linear machines and --solver nystrom from the disk"
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


def peak_memory(amount: float) -> str:
    return f"peak memory {size(amount)}"


def memory_plan(solver: str, parts: dict[str, float], memory: float) -> str:
    return f"{solver} in {size(sum(parts.values()))} of {size(memory)} of memory: {_listed(parts)}"
