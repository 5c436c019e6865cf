"""How much memory there is, and how much is used."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

SHARE = 0.7
"""Of what is free, for plans; the rest is left to data, vectors, and other programs."""
_FALLBACK = 4e9


@cache
def default_memory() -> float:
    """Bytes that a command may plan with: a share of what is free when it is first asked.

    Respects the limit of the control group (containers, batch jobs).
    """
    return SHARE * min(_free_on_machine(), _free_in_group())


def resident() -> float:
    """Bytes of this process that are in memory now; 0 if the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return float(pages * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0


def peak() -> float:
    """The most bytes of this process that have been in memory; 0 if the system does not tell."""
    return _told("/proc/self/status", "VmHWM") or 0.0


def _free_on_machine() -> float:
    told = _told("/proc/meminfo", "MemAvailable")
    return _FALLBACK if told is None else told


def _told(file: str, wanted: str) -> float | None:
    """Bytes by a line such as ``MemAvailable: 1024 kB``; None if the system does not tell."""
    try:
        for line in Path(file).read_text().splitlines():
            name, _, amount = line.partition(":")
            if name == wanted:
                return 1024.0 * int(amount.split()[0])
    except (OSError, ValueError, IndexError):
        pass
    return None


def _free_in_group() -> float:
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        try:
            return max(0.0, float(Path(limit).read_text()) - float(Path(used).read_text()))
        except (OSError, ValueError):
            continue
    return float("inf")
