"""The solvers: one row for each, and all that asks what a solver can do asks its row.

To add a solver, write its file in a folder of this one, headed by the problem, the update, the
stopping rule and the source, with ``solve(problem, stop, *, seed, start, progress) -> Solution``
(:mod:`odmtool.solvers.base`), and its row here. Machines, refusals, help texts, manual pages,
docs/solvers.md and the tests of certificates take it from the table; give it to ``auto``
(:mod:`odmtool.solvers.auto`) only with a benchmark.

``--help`` reads this table, so it imports nothing heavy: a module is named, and imported when
it is used.
"""

from __future__ import annotations

from typing import NamedTuple

from odmtool import messages
from odmtool.core import kernel_table, loss_table
from odmtool.core.kernel_table import STORED
from odmtool.core.loss_table import (
    JUMPS,
    MARGIN,
    OF_KMOMD,
    OF_LDM,
    OF_MCODM,
    OF_MCSVM,
    OF_PAIRS,
    ONE_JUMP,
    SMOOTH,
)
from odmtool.errors import UsageError

MEMORY, DISK, WORKERS = "memory", "disk", "workers"
PLACES = (MEMORY, DISK, WORKERS)
"""Where the rows may lie: here, on the disk (``--cache``), or with the workers of a cluster."""

NEWTON_MATRICES = 2
"""Kernel matrices that Newton's method makes: the matrix, and its factor."""

LDM_MATRICES = 4
"""For LDM: the matrix, the reduced one, and two for the factorisation."""

TWO_JUMPS_MATRICES = NEWTON_MATRICES * 4 + 1
"""Where the loss jumps twice: those of Newton's method on every example twice, and the matrix."""

FOLD_MATRICES = 3
"""Of cross validations: the matrix of all rows, the part of a fold, and what Newton makes of it."""


class Way(NamedTuple):
    """What one module of a solver takes."""

    module: str  # its name below ``odmtool.solvers``
    losses: tuple[str, ...]  # the kinds of losses (:mod:`odmtool.core.loss_table`)
    # The most iterations, unless the caller says otherwise; None if other solvers do the work.
    limit: int | None = None
    # linear, kernel, stored: whether it takes linear machines, kernels, and the precomputed kernel.
    linear: bool = True
    kernel: bool = True
    stored: bool = True
    places: tuple[str, ...] = (MEMORY,)
    # Kernel matrices that have to fit in the memory; 0 if it needs none as a whole.
    matrices: int = 0
    reads: tuple[str, ...] = ()  # what it is told of :class:`odmtool.solvers.settings.Settings`
    has_jobs: bool = False  # whether it works in several threads, and is told where

    def takes_kernel(self, name: str) -> bool:
        """Whether it takes a kernel, or "linear"."""
        row = kernel_table.row_of(name)
        if row.name == "linear":
            return self.linear
        return self.kernel and (self.stored or row.of != STORED)

    def fits(self, gram) -> bool:
        """Whether the kernel matrices of a problem fit in its memory; None is a linear one."""
        return gram is None or self.matrices * gram.bytes <= gram.memory


class Solver(NamedTuple):
    """What there is to know about a solver."""

    name: str
    title: str  # for the help text
    iteration: str  # what its iterations are; plural
    ways: tuple[Way, ...]
    about: str = ""  # what else the manual page says; with marks (:mod:`odmtool.messages.words`)
    in_parts: bool = False  # whether it works on parts of the data side by side

    def way(self, kind: str, kernel: str, place: str = MEMORY) -> Way | None:
        """The module for a kind of loss, a kernel (or "linear") and a place, if there is one."""
        for way in self.ways:
            if place in way.places and kind in way.losses and way.takes_kernel(kernel):
                return way
        return None


_BINARY = (*MARGIN, OF_LDM)
_JUMPS = (ONE_JUMP, JUMPS, OF_LDM)
_ANYWHERE = (MEMORY, WORKERS)
_OF_PARTS = ("partitions", "strata", "partition_by")

_ROWS = (
    Solver(
        "auto", "newton, landmarks or dcd, by the size of the problem", "those of the solvers",
        (
            Way("auto", _BINARY),
            Way("mcodm.auto", (OF_MCODM,), 2000, reads=("outer",)),
            Way("newton.kmomd", (OF_KMOMD,), 2000, matrices=NEWTON_MATRICES),
            Way("mcsvm.auto", (OF_MCSVM,), 10_000),
            Way("m3svm.newton", (OF_PAIRS,), 200, kernel=False),
            Way("auto", MARGIN, kernel=False, places=(DISK,)),
        ),
        "Newton's method where it is fast or coordinate descent is slow, `landmarks` for kernels "
        "of more than 1500 examples (ldm, l1svm, svr: 2500), else coordinate descent; never one of "
        "the others.",
    ),
    Solver(
        "dcd", "dual coordinate descent", "epochs",
        (
            Way("descent.dcd", MARGIN, 1000),
            Way("ldm.descent", (OF_LDM,), 1000),
            Way("mcodm.auto", (OF_MCODM,), 2000, reads=("outer",)),
            Way("mcsvm.descent", (OF_MCSVM,), 10_000),
            Way("large.block_descent", MARGIN, 1000, kernel=False, places=(DISK,)),
        ),
        "With however little memory. Slow where lambda is large.",
    ),
    Solver(
        "newton", "Newton's method", "Newton steps",
        (
            Way("newton.newton", (SMOOTH,), 200, matrices=NEWTON_MATRICES, has_jobs=True),
            Way("newton.proximal", (ONE_JUMP,), 200, matrices=NEWTON_MATRICES),
            Way("newton.two_jumps", (JUMPS,), 200, matrices=TWO_JUMPS_MATRICES),
            Way("ldm.newton", (OF_LDM,), 200, matrices=LDM_MATRICES),
            Way("newton.kmomd", (OF_KMOMD,), 2000, matrices=NEWTON_MATRICES),
            Way("mcodm.auto", (OF_MCODM,), 2000, kernel=False, reads=("outer",)),
            Way("mcsvm.newton", (OF_MCSVM,), 200, kernel=False),
            Way("m3svm.newton", (OF_PAIRS,), 200, kernel=False),
            Way("large.passes", (SMOOTH,), 200, kernel=False, places=(DISK,)),
            Way("large.proximal_passes", (ONE_JUMP, JUMPS), 200, kernel=False, places=(DISK,)),
        ),
        "With a kernel it needs memory for two matrices of all pairs of examples (ldm: for four, "
        "svr: for nine); ldm, linear, needs few examples or few features, mcsvm at most 1000 "
        "weights.",
    ),
    Solver(
        "path", "exact solutions along lambda", "changes of the active set",
        (Way("paths.path", (ONE_JUMP, OF_LDM), 1_000_000, matrices=LDM_MATRICES),),
        "Where several lambdas follow each other, a cross validation takes it for ldm and l1svm "
        "of up to 700 examples, 5000 with a kernel. Memory for four matrices of all pairs of "
        "examples.",
    ),
    Solver(
        "landmarks", "a kernel by some hundred examples", "Newton steps",
        (
            Way("engine.solve", (SMOOTH,), 200, linear=False, stored=False, has_jobs=True),
            Way("engine.jumps", _JUMPS, 2000, linear=False, stored=False, has_jobs=True),
            Way("mcodm.auto", (OF_MCODM,), 2000, linear=False, stored=False),
        ),
        "A model in the span of a few examples whose gap of the whole problem is bounded; where "
        "few are not enough, Newton's method from there (ldm, l1svm, svr, mcodm: dcd). Neither a "
        "precomputed kernel nor one with negative eigenvalues (sigmoid).",
    ),
    Solver(
        "dcd-dense", "descent on the papers' dense dual", "epochs",
        (Way("ldm.dense", (OF_LDM,), 20000),),
        "At most 1000 examples: the papers' algorithm, to compare with.",
    ),
    Solver(
        "svrg", "stochastic gradients with reduced variance", "stages",
        (Way("stochastic.svrg", (SMOOTH, OF_LDM), 100, kernel=False, reads=("snapshot",)),),
        "The papers' solver of linear machines.",
    ),
    Solver(
        "asgd", "averaged stochastic gradients", "epochs",
        (Way("stochastic.asgd", (OF_LDM,), 100, kernel=False),),
        "The solver of the KDD paper.",
    ),
    Solver(
        "adam", "Adam", "steps",
        (Way("m3svm.adam", (OF_PAIRS,), 500, kernel=False),),
        "The solver of the paper of m3svm and ism3.",
    ),
    Solver(
        "sodm", "large data, in parts that are merged level by level", "epochs",
        (
            Way(
                "large.sodm", MARGIN, 1000, stored=False, places=_ANYWHERE,
                reads=(*_OF_PARTS, "branch", "stop_level", "cascade"),
            ),
        ),
        "Not with a precomputed kernel. See `‹partitions›`.",
        in_parts=True,
    ),
    Solver(
        "nystrom", "large data, on the features of some landmarks", "Newton steps",
        (
            Way(
                "large.nystrom", MARGIN, 200, linear=False, stored=False, places=_ANYWHERE,
                reads=("landmarks",),
            ),
            Way("large.passes", (SMOOTH,), 200, linear=False, stored=False, places=(DISK,)),
        ),
        "Not with a precomputed kernel. See `‹landmarks›`. The gap is that in the span of the "
        "landmarks.",
        in_parts=True,
    ),
    Solver(
        "dsvrg", "large data, stochastic gradients, one part after another", "stages",
        (Way("large.dsvrg", (SMOOTH,), 100, kernel=False, places=_ANYWHERE, reads=_OF_PARTS),),
        "As in the SODM paper.",
        in_parts=True,
    ),
)  # fmt: skip

SOLVERS = {row.name: row for row in _ROWS}
"""The rows by name."""

IN_PARTS = tuple(row.name for row in _ROWS if row.in_parts)
"""The solvers for large data."""


def newton_matrices(kind: str) -> int:
    """How many kernel matrices Newton's method makes for a kind of loss."""
    own = (way.matrices for way in SOLVERS["newton"].ways if kind in way.losses)
    return next(own, 0) or NEWTON_MATRICES


def row_of(name: str) -> Solver:
    """The row of a solver; raises UsageError if there is none of this name."""
    if not isinstance(name, str) or name not in SOLVERS:
        raise UsageError(messages.unknown_solver(name, SOLVERS))
    return SOLVERS[name]


def names_for(kind: str, kernel: str, place: str = MEMORY) -> list[str]:
    """The solvers for a kind of loss, a kernel (or "linear") and a place."""
    return [row.name for row in _ROWS if row.way(kind, kernel, place)]


def name_of_auto(k: int, kernels: set[str], solver: str, has_reduction: bool) -> str:
    """Which machine ``odm`` is for k classes where nobody said how it is to take more than two.

    mcodm without a kernel: docs/defaults.md. Not with a solver that it has not.

    Parameters
    ----------
    k : int
    kernels : set of str
        More than one in a search.
    solver : str
    has_reduction : bool
        It was said: see :meth:`odmtool.machines.binary.BinaryMachine.reduction`.
    """
    row = loss_table.row_of("mcodm")
    is_possible = kernels == {"linear"} and solver in names_for(row.kind, "linear")
    return "mcodm" if k > 2 and is_possible and not has_reduction else "odm"


def settings_of_solver(name: str) -> list[str]:
    """What a solver is told of the settings."""
    return [setting for way in row_of(name).ways for setting in way.reads]


def names_at(place: str) -> list[str]:
    """The solvers for rows at a place."""
    return [row.name for row in _ROWS if any(place in way.places for way in row.ways)]


def machines_of(name: str, kernel: str | None = None, place: str = MEMORY) -> list[str]:
    """The machines that a solver takes at a place; those that it takes with this kernel."""
    ways = [way for way in row_of(name).ways if place in way.places]
    kinds = {k for w in ways if kernel is None or w.takes_kernel(kernel) for k in w.losses}
    return [machine.name for machine in loss_table.MACHINES.values() if machine.kind in kinds]


def way_of(name: str, kind: str, kernel: str, place: str = MEMORY) -> Way:
    """The module of a solver for a problem: the one check of what solvers can do.

    Raises UsageError: an unknown name, or the solver does not take such problems; the sentence says
    what is missing, and which solvers do.

    Parameters
    ----------
    name : str
        One of SOLVERS.
    kind : str
        ``loss.kind``.
    kernel : str
        One of the kernels; "linear" is none.
    place : str
        One of PLACES.
    """
    row = row_of(name)
    if way := row.way(kind, kernel, place):
        return way
    others = names_for(kind, kernel, place)
    here = [way for way in row.ways if place in way.places]
    fitting = [way for way in here if kind in way.losses]
    if not here:
        raise UsageError(messages.solver_not_there(name, place, others or names_at(place)))
    if not fitting:
        machines = machines_of(name, kernel, place) or machines_of(name, place=place)
        raise UsageError(messages.solver_not_for_loss(name, place, machines, others))
    if kernel == "linear":
        raise UsageError(messages.solver_not_linear(name, place, others))
    takes_kernels = any(way.kernel for way in fitting)
    sentence = messages.solver_needs_rows if takes_kernels else messages.solver_is_linear
    raise UsageError(sentence(name, place, others))
