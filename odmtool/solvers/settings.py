"""What only some solvers read: one carrier, which a machine hands on as it is."""

from __future__ import annotations

from typing import NamedTuple

from odmtool import messages
from odmtool.errors import UsageError

_LEAST = {"partitions": 1, "strata": 1, "branch": 2, "stop_level": 0, "landmarks": 1}


class Settings(NamedTuple):
    """Settings of single solvers; each takes from here what it knows."""

    # One of :data:`odmtool.defaults.SNAPSHOTS`: of svrg, see
    # :func:`odmtool.solvers.stochastic.svrg.solve`.
    snapshot: str = "last"
    # One of :data:`odmtool.defaults.OUTER`: of mcodm, see :mod:`odmtool.solvers.mcodm.rounds`.
    outer: str = "cccp"
    # Of sodm and dsvrg: parts at the first level; by default a power of ``branch``, with parts of
    # at least 1000 examples.
    partitions: int | None = None
    strata: int = 64  # strata of their partitions, landmarks or clusters
    branch: int = 4  # so many parts sodm merges at a time
    stop_level: int = 0  # the last level that sodm solves; 0 is the whole problem
    partition_by: str = "stratified"  # one of :data:`odmtool.defaults.PARTITION_BY`
    cascade: bool = False  # whether only examples with nonzero duals go on to sodm's next level
    landmarks: int = 1000  # the basis of nystrom
    # Address of a Dask scheduler, or its file, for the tasks of sodm, nystrom and dsvrg, and for
    # problems and folds side by side; None is this process.
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
