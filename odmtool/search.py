"""Search over settings by cross validation.

A setting is a dict from parameter names of a machine to values. Settings that share
their kernel share one kernel matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from odmtool.defaults import KERNELS
from odmtool.machines import ODM
from odmtool.validation import CrossValidation, cross_validate

KERNEL_PARAMETERS = ("kernel", "gamma", "coef0", "degree")


class Row(NamedTuple):
    """A setting and its cross validation."""

    setting: dict
    outcome: CrossValidation


def grid(values: dict[str, tuple]) -> list[dict]:
    """All combinations of the values, kernel parameters varying slowest.

    A setting does not name what its kernel ignores, and none comes twice.
    """
    names = sorted(values, key=lambda name: name not in KERNEL_PARAMETERS)
    settings = []
    for chosen in product(*(values[name] for name in names)):
        setting = dict(zip(names, chosen, strict=True))
        unused = set(KERNEL_PARAMETERS) - {"kernel", *KERNELS[setting["kernel"]]}
        setting = {name: value for name, value in setting.items() if name not in unused}
        if setting not in settings:
            settings.append(setting)
    return settings


def search(
    machine: ODM, settings: list[dict], X, labels, weight=None, *, n: int, seed: int = 0,
    jobs: int = 1,
) -> Iterator[Row]:  # fmt: skip
    """Cross validate the settings one after the other, on the same folds.

    Parameters as in :func:`odmtool.validation.cross_validate`; ``machine`` gives what
    a setting does not name.
    """
    gram, known = None, None
    for setting in settings:
        candidate = machine.copy(**setting)
        kernel = [getattr(candidate, name) for name in KERNEL_PARAMETERS]
        if kernel != known:
            gram, known = candidate.gram(X), kernel
        outcome = cross_validate(
            candidate, X, labels, weight, n=n, seed=seed, jobs=jobs, gram=gram
        )
        yield Row(setting, outcome)


def best(rows: list[Row], machine: ODM) -> Row:
    """The row with the highest accuracy; then the stronger regularisation, the smoother kernel."""

    def preference(row: Row):
        candidate = machine.copy(**row.setting)
        strength = candidate.lambda_ if candidate.cost is None else candidate.cost
        return -row.outcome.accuracy, strength, candidate.gamma, candidate.degree

    return min(rows, key=preference)


