"""Training data that the workers of a cluster read, and what cannot be done with them."""

from __future__ import annotations

import os

from odmtool.cli import messages
from odmtool.cli.report import Report
from odmtool.defaults import LARGE_SOLVERS
from odmtool.errors import UsageError


def is_elsewhere(options: dict) -> bool:
    """Whether the data are files that the workers of a cluster read."""
    if options.get("scheduler") is None:
        return False
    from odmtool.io.several import is_several

    name = options["training_file"]
    return is_several(name) and not os.path.exists(name)


def refuse_elsewhere(options: dict, option: str) -> None:
    """Raise UsageError if an option that needs the examples here meets files elsewhere."""
    if is_elsewhere(options):
        raise UsageError(messages.files_are_elsewhere(option))


def check_elsewhere(machine, options: dict) -> None:
    """Raise UsageError for what needs the examples here; the data are elsewhere."""
    from odmtool.places import workers as spread

    for name, option in (("margins", "--margins"), ("loo", "--loo"), ("cache", "--cache")):
        if options[name] is not None:
            refuse_elsewhere(options, option)
    if options["probability"] == "1":
        refuse_elsewhere(options, "--probability")
    spread.check(machine)


def read_elsewhere(options: dict, report: Report):
    """What the workers read, and its fingerprint; the connection is ``X.executor``."""
    from odmtool.io.several import read_several
    from odmtool.io.svmlight import Dataset
    from odmtool.rows.spread import SpreadRows
    from odmtool.solvers.large import scale as scaling_out

    executor = scaling_out.executor_for(options["scheduler"], options["jobs"], options["memory"])
    try:
        found = read_several(options["training_file"], executor, zero_based=options["zero_based"])
    except BaseException:
        executor.close()
        raise
    X = SpreadRows(found.pieces, found.sizes, found.width, found.nnz, executor)
    report.note(messages.files_read(len(found.sizes), *X.shape))
    return Dataset(X, found.labels, found.skipped, 1), found.fingerprint


def uses_scheduler(machine, classes: int) -> bool:
    """Whether a training has tasks for ``--scheduler``, and one is given."""
    from odmtool.machines.binary import BinaryMachine

    is_one_problem = not isinstance(machine, BinaryMachine) or classes <= 2
    is_used = machine.solver in LARGE_SOLVERS or not is_one_problem
    return machine.settings.scheduler is not None and is_used
