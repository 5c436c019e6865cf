"""How much memory there is, how much is used, and what of a training counts in plans.

The numbers below are upper estimates, so that plans stay above the peak; in brackets is what
was measured, the growth of the peak with the examples.
"""

from __future__ import annotations

import contextlib
import math
import os
from functools import cache

SHARE = 0.25
"""Of what is free, at most for plans; the rest is left to data, vectors, and other programs."""
# Of all there is: plans have this share, or half of it, a quarter ... of it.
_WHOLE_SHARE = 0.2
_FALLBACK = 4e9
# Numbers of options in malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
# Bytes: the most that glibc takes for the second, and twice as many, as it would set them itself.
# speed only: when freed memory goes back to the system
_KEPT, _LARGEST_KEPT = 1 << 26, 1 << 25

# ---- numbers for an example, a feature, a class ------------------------------
ENTRY = 12
"""Bytes of a nonzero entry of sparse rows, with its column."""
NEWTON_NUMBERS = 45
"""Numbers for an example while a machine is trained, of the solver that takes most: Newton's
method for a loss with a jump (44; for ODM 26, as coordinate descent, LDM 43)."""
DESCENT_NUMBERS = 20
"""Numbers for an example while coordinate descent or SVRG solve its part on a worker (19)."""
DESCENT_WEIGHTS = 4
"""Numbers for a feature while they do: w, and what it is made of and compared with."""
EXAMPLE_VECTORS = 3
"""Numbers for an example that Newton's method by passes keeps where the loss has a jump: the
centre of a proximal step, and margins at two points."""
EXAMPLE_NUMBERS = 40
"""Numbers for an example of a block while that method looks at it."""
CLASS_SCORES = {"mcodm": 8, "mcsvm": 8, "m3svm": 14, "ism3": 14}
"""With several classes at once, numbers for every example and class: scores, duals, changes."""
CLASS_WEIGHTS = 10
"""Numbers for every feature that occurs, and class: weights, gradients, directions."""
WIDE_WEIGHTS = 2
"""Numbers for every feature and class where most do not occur: those of the model, and a copy."""
CLASS_DUALS = 4
"""Numbers for every example and binary problem that it is in."""
PAIR = 140
"""Bytes of a pair of classes besides: its place, its solution, what it begins with (136)."""

WRITTEN_COPIES, WRITTEN_VECTORS = 1.25, 6
"""Weights of many problems while their model is made and written, with a bias one more: as
LIBLINEAR's rows (1.1), and as LIBSVM's sparse vectors (4.4, of which two thirds were not 0)."""

# ---- copies of rows ----------------------------------------------------------
COPIES = 2
"""Rows that are kept, and what a solver, a task or a fold makes of them: scaled, cut, prepared."""
BLOCK_COPIES = 3
"""A block of the disk is read, brought into another form, and multiplied."""
SAMPLE_COPIES = 2.5
"""Rows gathered from the disk are there in parts and together (2.1), and so is a block."""

TEXT_COPIES = 8
"""A block of text, its rows, their values, and the lines that are made of them."""

# ---- square matrices ---------------------------------------------------------
HESSIAN_MATRICES = 4
"""Newton's method on features: the Hessian, a part that is added to it, its factor, and what
that is made from (2.4 to 3.4 with the scaled rows)."""

PREDICTION = 6 * 8 * 2**21
"""Kernel values of a block of rows, and what is made of them (:mod:`odmtool.models`)."""

COMPILER = 2.2e8
"""Bytes that numba takes when it is loaded, or compiles."""

LINKER = 6e7
"""Bytes that kept code takes: LLVM, and what it links (20 to 50 MB)."""

LIBRARIES = 4e7
"""Bytes of what is loaded for a training besides: SciPy, joblib, and what they take."""

HELPER = 2e7
"""The process that joblib starts besides those that work."""

PROGRAM = 8e7
"""The process when it has read small rows, or rows that were parsed before (62 to 73 MB).
What is decided by memory is decided by this: what is measured differs from run to run."""

READER = 1.7e8
"""What a process takes more while it parses a large file (120 to 170 MB)."""


@cache
def default_memory() -> float:
    """Bytes that a command may plan with.

    What a model is made of depends on them where the examples are many, and is not to change with
    what other programs take: so it is a share of the whole memory, halved until it is at most SHARE
    of what is free when it is first asked.
    """
    share = free_share()
    whole = _WHOLE_SHARE * min(_on_machine("MemTotal"), _group()[0])
    if not 0 < share < whole:
        return min(share, whole)
    return whole / 2.0 ** math.ceil(math.log2(whole / share))


@cache
def free_share() -> float:
    """SHARE of the bytes that are free when it is first asked."""
    return SHARE * free()


def free() -> float:
    """Bytes that are free now, within the limit of the control group (containers, batch jobs)."""
    limit, used = _group()
    return min(_on_machine("MemAvailable"), max(0.0, limit - used))


def _on_machine(name: str) -> float:
    found = _told("/proc/meminfo", name)
    return _FALLBACK if found is None else found


def resident() -> float:
    """Bytes of this process that are in memory now; 0 if the system does not tell."""
    try:
        pages = int(_content("/proc/self/statm").split()[1])
        return float(pages * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0


def peak() -> float:
    """The most bytes of this process that have been in memory; 0 if the system does not tell."""
    return _told("/proc/self/status", "VmHWM") or 0.0


def share_freed() -> None:
    """Let threads to come share what freed memory there is; glibc keeps it for each of them."""
    if (glibc := _glibc()) is not None:
        glibc.mallopt(_ARENA_MAX, 1)


def keep_freed() -> None:
    """Keep what is freed for what comes next; glibc would give most of it back at once.

    The system clears memory that it gives, page by page. Solvers make and drop arrays of a
    megabyte in every step, and spent up to a fifth of their time on that.
    """
    if (glibc := _glibc()) is not None:
        glibc.mallopt(_TRIM_THRESHOLD, _KEPT)
        glibc.mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)


def give_back() -> None:
    """Give what was freed back to the system: glibc keeps some of it for threads that ended."""
    if (glibc := _glibc()) is not None:
        glibc.malloc_trim(0)


def _glibc():
    """The C library, if it is that of GNU."""
    import ctypes

    library = ctypes.CDLL(None)
    return library if hasattr(library, "gnu_get_libc_version") else None


def _content(file: str) -> str:
    with open(file) as stream:
        return stream.read()


def _told(file: str, wanted: str) -> float | None:
    """Bytes by a line such as ``MemAvailable: 1024 kB``; None if the system does not tell."""
    try:
        for line in _content(file).splitlines():
            name, _, amount = line.partition(":")
            if name == wanted:
                return 1024.0 * int(amount.split()[0])
    except (OSError, ValueError, IndexError):
        pass
    return None


def _group() -> tuple[float, float]:
    """The limit of the control group, and what it uses; infinite and 0 without one."""
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        with contextlib.suppress(OSError, ValueError):
            return float(_content(limit)), float(_content(used))
    return math.inf, 0.0
