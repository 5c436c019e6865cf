"""What every place is asked, and what it is told and tells."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from odmtool import messages
from odmtool.core.csr import CSR, scipy_rows
from odmtool.core.labels import distinct
from odmtool.core.memory import free_share
from odmtool.errors import DataError, UsageError
from odmtool.io.files import display_name, is_stream
from odmtool.solvers.auto import newton_matrices_bytes
from odmtool.solvers.base import ignore_progress

if TYPE_CHECKING:
    import numpy as np

    from odmtool.core.scaling import Ranges


class Source(NamedTuple):
    """The files of a training, as a user names them."""

    path: str  # of the examples; - is stdin
    weights: str | None = None  # of their weights
    # zero_based, precomputed: how the examples are written: see
    # :func:`odmtool.io.svmlight.read_svmlight`.
    zero_based: bool = False
    precomputed: bool = False
    jobs: int = 1  # threads to read with
    # Bytes that they may take; by default a share of what is free.
    memory: float | None = None

    def limit(self) -> float:
        """Bytes that they may take."""
        return free_share() if self.memory is None else self.memory


class TrainingData(NamedTuple):
    """What a place has read."""

    X: object  # CSR, SpreadRows or RowStore, shape (m, d)
    # Integers, shape (m,): none of a RowStore, which has them block by block. Of words their places
    # in ``names``.
    labels: np.ndarray | None
    fingerprint: str
    skipped: int  # blank and comment lines
    classes: frozenset[int]  # all labels
    learned: frozenset[int]  # those of the examples with a weight above 0
    weight: np.ndarray | None = None  # shape (m,)
    unscaled: object = None  # CSR or None: the rows as they were read, if those of X were scaled
    ranges: Ranges | None = None  # by which they were
    names: tuple[str, ...] | None = None  # the different labels, sorted, if they are words

    def matrix(self):
        """X with all that SciPy's csr_matrix can do."""
        return scipy_rows(self.X)

    @property
    def as_read(self):
        """The rows before scaling."""
        return self.X if self.unscaled is None else self.unscaled

    def part(self, rows) -> TrainingData:
        """Some of the examples, of every class one at least; before scaling."""
        weight = None if self.weight is None else self.weight[rows]
        return self._replace(X=self.X[rows], labels=self.labels[rows], weight=weight)

    def scaled(self, lower: float, upper: float, limit: float) -> TrainingData:
        """The same with every feature scaled to [lower, upper], as odm-scale does it.

        Raises
        ------
        DataError
            A feature is too far from its range.
        MemoryLimitError
            It would take more than ``limit`` bytes.
        """
        from odmtool.core.scaling import Scaler, ranges_of

        X = CSR.of(self.X)
        ranges = ranges_of(X, lower, upper)
        scaler = Scaler(ranges)
        scaler.check_memory(X, limit)
        rows = scaler.scale_in_place(X)
        return self._replace(X=rows, unscaled=self.X, ranges=ranges)

    def label_blocks(self) -> Iterator[tuple[np.ndarray, slice]]:
        """The labels block by block, and which examples are in it; in memory there is one."""
        if self.labels is not None:
            yield self.labels, slice(None)
            return
        for k in range(len(self.X.blocks)):
            yield self.X.labels(k), slice(self.X.starts[k], self.X.starts[k + 1])

    def by_integer(self, by_label: dict) -> dict:
        """What belongs to some labels, by the integers for them; unknown words are left out."""
        if self.names is None:
            return by_label
        place = {name: k for k, name in enumerate(self.names)}
        return {place[name]: value for name, value in by_label.items() if name in place}


class MemoryPlan(NamedTuple):
    """What a training will take: a sentence with the bytes by purpose, and what to mind."""

    sentence: str
    warnings: tuple[str, ...] = ()


def ignore(_sentence: str) -> None:
    """Who reads, and wants to hear nothing of it."""


class Place:
    """Where rows lie; see :mod:`odmtool.places`."""

    def __init__(self, source: Source):
        self.source = source

    # ---- may it ----------------------------------------------------------------

    def suited(self, machine):
        """The machine as it is trained here, what is open in it settled; needs no data.

        Raises UsageError: it cannot be trained here.
        """
        return machine

    def refuse(self, wish: str) -> None:
        """Raise UsageError unless all rows are in memory, which ``wish`` needs."""

    def could_be_newton(self, machine, data: TrainingData) -> bool:
        """Whether Newton's method could have trained it; not where the kernel is not convex."""
        if machine.kernel != "linear" and not machine.solution_.optimal:
            return False
        try:
            machine.copy(solver="newton").check()
        except UsageError:
            return False
        matrices = newton_matrices_bytes(len(data.labels), machine.kind)
        return machine.kernel == "linear" or matrices <= machine.memory_limit()

    # ---- read ------------------------------------------------------------------

    def inputs(self) -> list[str]:
        """The files that are read here, by this process."""
        return [name for name in (self.source.path, self.source.weights) if name]

    def model_name(self) -> str:
        """The model's file, unless it is named."""
        if is_stream(self.source.path):
            raise UsageError(messages.name_the_model())
        return os.path.basename(self.source.path) + ".model"

    def read(
        self, *, note: Callable[[str], None] = ignore, detail: Callable[[str], None] = ignore
    ) -> TrainingData:
        """The examples and their weights.

        ``note`` and ``detail``: told what was read, the latter what few want to know. Raises
        FileError, DataError, MemoryLimitError.
        """
        file = self.source.weights
        data = self.rows(note, detail)
        if file is None:
            return data
        from odmtool.io.weights import read_weights

        weight = read_weights(file, data.X.shape[0])
        if len(weight) != data.X.shape[0]:
            sentence = messages.weight_count(len(weight), data.X.shape[0])
            raise DataError(sentence, display_name(file))
        return data._replace(weight=weight, learned=self.labels_of(data, weight > 0))

    def rows(self, note: Callable[[str], None], detail: Callable[[str], None]) -> TrainingData:
        """The examples."""
        raise NotImplementedError

    def labels_of(self, data: TrainingData, used: np.ndarray) -> frozenset[int]:
        """The labels of some examples, of which ``used``, shape (m,), is True."""
        blocks = (distinct(labels[used[rows]])[0] for labels, rows in data.label_blocks())
        return frozenset().union(*(found.tolist() for found in blocks))

    def close(self) -> None:
        """Let go of what was read."""

    # ---- memory, and fit -------------------------------------------------------

    def plan(self, machine, data: TrainingData) -> MemoryPlan:
        """What the training will take.

        Raises UsageError, MemoryLimitError: it takes more than there may be.
        """
        raise NotImplementedError

    def fit(self, machine, data: TrainingData, plan: MemoryPlan, progress=ignore_progress) -> None:
        """Train the machine, as :meth:`odmtool.machines.Machine.fit` does.

        Raises UsageError, DataError, MemoryLimitError, DivergedError, ClusterError.

        Parameters
        ----------
        machine : Machine
            What :meth:`suited` gives.
        plan : MemoryPlan
            That of :meth:`plan`.
        progress : callable
        """
        raise NotImplementedError
