"""Landmarks, partitions, blocks and clusters."""

from __future__ import annotations

from odmtool.messages.words import sentence


def level(found) -> str:
    return (
        f"level {found.level}: {found.parts} parts, {found.epochs} epochs, objective "
        f"{found.primal:.6g}, gap {found.gap:.2g}; seconds: solving {found.solving:.2f}, gap "
        f"{found.certifying:.2f}"
    )


stopped_at_level = sentence(
    "stopped at level {level} (--stop-level): the duality gap of the full problem is {gap:.2g}"
)
too_far_at_level = sentence(
    "the tolerance {tolerance:g} was not reached at the last level that --stop-level allows; no "
    "model was written (--strict)"
)


def captured(share: float, count: int) -> str:
    hold = "landmark holds" if count == 1 else "landmarks hold"
    return f"{count} {hold} {100 * share:.4g} % of the trace of the kernel matrix"


cache_not_on_a_cluster = sentence(
    "--cache trains on this machine's disk: leave out --cache or --scheduler"
)
no_cache_for_searches = sentence(
    "odm-cv reads all data into memory: search on a part of them, and train on all with "
    "odm-train --cache"
)
cache_without_folder = sentence("--cache: the name of the folder is empty; . is the working folder")
keep_without_cache = sentence("--keep-cache needs --cache DIR, where to keep it")
keep_of_a_stream = sentence(
    "--keep-cache needs a file, which can be recognised later; what comes from a pipe cannot"
)


peak_memory = sentence("peak memory {amount!b}")
