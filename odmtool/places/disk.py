"""Rows on the disk, ``--cache``: parsed once, read block by block, within a bounded memory.

``auto`` is Newton's method where d <= 3000 and d x d numbers fit in memory, else coordinate
descent. Where the loss has a jump three numbers for every example have to fit, too, and steps must
not cost more than many passes. What stays in memory is planned in
:mod:`odmtool.places.disk_memory`; :mod:`odmtool.places.disk_training` trains.
"""

from __future__ import annotations

from odmtool import messages
from odmtool.core.kernel_table import KERNELS
from odmtool.core.memory import PROGRAM, READER, TEXT_COPIES, default_memory
from odmtool.errors import UsageError
from odmtool.io.files import display_name
from odmtool.io.row_store import open_store
from odmtool.places import disk_memory, disk_training
from odmtool.places.disk_memory import DiskPlan
from odmtool.places.place import Place, Source, TrainingData
from odmtool.solvers.base import ignore_progress
from odmtool.solvers.table import DISK, names_for, way_of

# A part of the memory that the text of a block may have at most; parsed and in threads it is more.
_BLOCK_SHARE = 1 / 128
_LEAST_BLOCK, _LARGEST_BLOCK = 1 << 16, 1 << 22


def block_size(memory: float) -> int:
    """Bytes of text that make a block.

    Coordinate descent goes from block to block, so its model depends on them. From half a
    gigabyte on they are the same, whatever is free when the command begins; below that a power
    of two, so that it takes much to change them. Threads change none.
    """
    most = max(1, int(memory * _BLOCK_SHARE))
    return min(max(1 << most.bit_length() - 1, _LEAST_BLOCK), _LARGEST_BLOCK)


class Disk(Place):
    """See :mod:`odmtool.places.disk`.

    Parameters
    ----------
    folder : str
        Where the cache is.
    keep : bool
        Whether it stays there.
    """

    def __init__(self, source: Source, folder: str, keep: bool = False):
        super().__init__(source)
        self._folder, self._keep, self._store = folder, keep, None

    def suited(self, machine):
        if not any(names_for(machine.kind, kernel, DISK) for kernel in KERNELS):
            raise UsageError(messages.cache_not_for_machine(machine.name))
        way_of(machine.solver, machine.kind, machine.kernel, DISK)
        if machine.multiclass == "auto":
            return machine.copy(multiclass="ovr")
        is_by_pairs = machine.kernel == "linear" and machine.multiclass == "ovo"
        if machine.multiclass != "ovr" and not is_by_pairs:
            raise UsageError(messages.cache_needs_ovr(machine.multiclass))
        return machine

    def refuse(self, wish: str) -> None:
        """Raise UsageError: not all rows are in memory, which ``wish`` needs."""
        raise UsageError(messages.cache_only_for_a_model(wish))

    def could_be_newton(self, machine, data: TrainingData) -> bool:
        return disk_memory.has_newton(machine, data.X.shape[1])

    def rows(self, _note, detail) -> TrainingData:
        """The examples, X a RowStore."""
        source = self.source
        memory = default_memory() if source.memory is None else source.memory
        size, is_compiled = block_size(memory), memory >= PROGRAM + READER
        left = memory - PROGRAM - READER * is_compiled
        readers = min(source.jobs, int(left / (TEXT_COPIES * size)))
        store, was_known = open_store(
            self._folder, source.path, zero_based=source.zero_based, keep=self._keep,
            jobs=max(1, readers), block_bytes=size, compiled=is_compiled,
        )  # fmt: skip
        self._store = store
        detail(messages.cached(store, was_known))
        labels = frozenset(store.counts)
        return TrainingData(
            store, None, store.fingerprint, store.skipped, labels, labels,
            names=store.names,
        )  # fmt: skip

    def close(self) -> None:
        """Close the file of rows."""
        if self._store is not None:
            self._store.close()

    def plan(self, machine, data: TrainingData) -> DiskPlan:
        """The solver, and what it will take; refused if that is too much."""
        return disk_memory.plan(machine, data.X, data.weight, display_name(self.source.path))

    def fit(self, machine, data: TrainingData, plan: DiskPlan, progress=ignore_progress) -> None:
        disk_training.fit(machine, data.X, data.weight, plan, progress)
