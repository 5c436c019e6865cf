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
