"""What only some solvers read: one carrier, which a machine hands on as it is."""

from __future__ import annotations

from typing import NamedTuple

from odmtool import messages
from odmtool.errors import UsageError

_LEAST = {"partitions": 1, "strata": 1, "branch": 2, "stop_level": 0, "landmarks": 1}


class Settings(NamedTuple):
    """Settings of single solvers; each takes from here what it knows.

    Attributes
    ----------
    snapshot : str, one of :data:`odmtool.defaults.SNAPSHOTS`
        Of svrg, see :func:`odmtool.solvers.svrg.solve`.
    outer : str, one of :data:`odmtool.defaults.OUTER`
        Of mcodm, see :mod:`odmtool.solvers.mcodm.rounds`.
    partitions : int or None
        Of sodm and dsvrg: parts at the first level; by default a power of ``branch``, with
        parts of at least 1000 examples.
    strata : int
        Strata of their partitions, landmarks or clusters.
    branch : int
        So many parts sodm merges at a time.
    stop_level : int
        The last level that sodm solves; 0 is the whole problem.
    partition_by : str, one of :data:`odmtool.defaults.PARTITION_BY`
    cascade : bool
        Whether only examples with nonzero duals go on to sodm's next level.
    landmarks : int
        The basis of nystrom.
    scheduler : str or None
        Address of a Dask scheduler, or its file, for the tasks of sodm, nystrom and dsvrg, and
        for problems and folds side by side; None is this process.
    """

    snapshot: str = "last"
    outer: str = "cccp"
    partitions: int | None = None
    strata: int = 64
    branch: int = 4
    stop_level: int = 0
    partition_by: str = "stratified"
    cascade: bool = False
    landmarks: int = 1000
    scheduler: str | None = None

    def check(self) -> None:
        """Raise UsageError if one is out of range, whether the solver reads it or not."""
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(messages.at_least(name, value, least))

    def read_by(self, names: tuple[str, ...]) -> dict:
        """Those of these names, as keyword arguments of a solver."""
        return {name: getattr(self, name) for name in names}


DEFAULTS = Settings()
