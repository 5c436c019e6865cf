"""Landmarks, partitions, blocks and clusters."""

from __future__ import annotations

from odmtool.messages.words import quoted, size


def features_too_large(m: int, needed: float, memory: float) -> str:
    return (
        f"the features of {m} examples need {size(needed)}, more than the {size(memory)} of "
        f"--memory; take fewer --landmarks, a machine with a smooth loss (odm), or more --memory"
    )


def scalable_not_for_ldm(solver: str) -> str:
    return f"--solver {solver} is not for -s ldm; take --solver auto"


def scalable_needs_rows(solver: str) -> str:
    return f"--solver {solver} needs the examples, not -t precomputed; take --solver auto"


def nystrom_needs_kernel() -> str:
    return "--solver nystrom is for kernels: write -t rbf, or take --solver auto"


def dsvrg_needs_smooth() -> str:
    return (
        "--solver dsvrg needs a loss without jumps in its derivative, as that of -s odm; take "
        "--solver sodm"
    )


def at_least_named(name: str, value: int, least: int) -> str:
    return f"--{name} must be at least {least}, not {value}"


def files_need_solver(solvers: tuple[str, ...]) -> str:
    return (
        f"several files, read by the workers of --scheduler, are for --solver "
        f"{', '.join(solvers[:-1])} or {solvers[-1]}"
    )


def files_need_ovr() -> str:
    return "files that the workers of --scheduler read are not for --multiclass ovo; take ovr"


def files_need_weights() -> str:
    return (
        "files that the workers of --scheduler read need weights above zero; leave out the "
        "examples that have none"
    )


def scheduler_unused(solver: str) -> str:
    return (
        f"--scheduler changes nothing with --solver {solver} here: it is for sodm, nystrom and "
        f"dsvrg, for the folds of a cross validation, and for several binary problems"
    )


def files_are_elsewhere(option: str) -> str:
    return f"{option} needs the examples here, not in files that the workers of --scheduler read"


def name_the_model_of_files() -> str:
    return "the training data are several files: name the MODEL_FILE (- is stdout)"


def no_file_matches(name: str) -> str:
    return f"no file on the workers matches {quoted(name)}"


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


def dask_missing() -> str:
    return "--scheduler needs Dask: pip install 'odmtool[dask]'"


def not_an_address(scheduler: str) -> str:
    return (
        f"--scheduler {quoted(scheduler)} is no address such as tcp://host:8786, and there is no "
        f"scheduler file of that name"
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
        f"worker {worker} has {name} {theirs or 'not at all'}, but here it is {ours}: "
        f"all must have the same"
    )


def cache_not_for_machine(machine: str) -> str:
    return (
        f"-s {machine} needs all data in memory; with --cache take a machine of two classes, such "
        f"as -s odm, which takes more classes one against the rest"
    )


def cache_not_for_solver(solver: str) -> str:
    return (
        f"--solver {solver} needs all data in memory; with --cache take auto, newton or dcd, or "
        f"for a kernel nystrom"
    )


def cache_needs_smooth(machine: str) -> str:
    return (
        f"-s {machine} has a loss with a corner: with --cache take a linear machine and "
        f"--solver auto or dcd, or a smooth loss, such as -s odm"
    )


def cache_needs_nystrom(kernel: str) -> str:
    return f"--cache with -t {kernel} needs --solver nystrom; other solvers need all data in memory"


def cache_not_for_pairs() -> str:
    return "--cache with --solver nystrom is not for --multiclass ovo; take ovr"


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


def hessian_too_large(width: int, most: int) -> str:
    return (
        f"--solver newton with --cache takes at most {most} features, there are {width}; take "
        f"--solver dcd"
    )


def out_of_core_too_large(needed: float, memory: float) -> str:
    return (
        f"even with --cache training needs {size(needed)}, more than the {size(memory)} of "
        f"--memory; give more of it"
    )


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


def task_too_large(needed: float, memory: float) -> str:
    return (
        f"a task needs {size(needed)} on a worker, which has {size(memory)} for each of its "
        f"threads: start workers with fewer threads, or a higher --memory-limit (or --memory here)"
    )


def peak_memory(amount: float) -> str:
    return f"peak memory {size(amount)}"


def memory_plan(solver: str, parts: dict[str, float], memory: float) -> str:
    return f"{solver} in {size(sum(parts.values()))} of {size(memory)} of memory: {_listed(parts)}"
