"""The options of training from the disk, and how odm-train does it."""

from __future__ import annotations

import click

from odmtool.cli import messages
from odmtool.cli.options import stacked
from odmtool.cli.report import Report
from odmtool.errors import UsageError

# A part of the memory that the text of a block may have; parsed and in threads it is more.
_BLOCK_SHARE = 1 / 256
_LEAST_BLOCK, _LARGEST_BLOCK = 1 << 16, 1 << 22


def cache_options(function):
    """Decorator: --cache and --keep-cache."""
    options = [
        click.option("--cache", metavar="DIR",
                     help="Train from the disk, within --memory: the data are parsed once into a "
                          "file in DIR, gone at the end. For linear machines and nystrom."),
        click.option("--keep-cache", is_flag=True,
                     help="Leave that file in DIR; it serves again as long as the data file does "
                          "not change."),
    ]  # fmt: skip
    return stacked(options)(function)


def check_cache(options: dict) -> None:
    """Raise UsageError if other options do not go with --cache."""
    from odmtool.io.files import is_stream

    if options["cache"] is None:
        if options["keep_cache"]:
            raise UsageError(messages.keep_without_cache())
        return
    for name, is_given in (
        ("-v", options["folds"] is not None), ("--margins", options["margins"] is not None),
        ("--loo", options["loo"] is not None), ("-b 1", options["probability"] == "1"),
    ):  # fmt: skip
        if is_given:
            raise UsageError(messages.cache_only_for_a_model(name))
    if options["scheduler"] is not None:
        raise UsageError(messages.cache_not_on_a_cluster())
    if options["keep_cache"] and is_stream(options["training_file"]):
        raise UsageError(messages.keep_of_a_stream())


def open_cached_data(options: dict, memory: float, report: Report):
    """The rows on the disk and the weights of a command's options, as TrainingData.

    Raises
    ------
    FileError, DataError
    """
    from odmtool.cli.training import TrainingData, say_about_labels
    from odmtool.errors import DataError
    from odmtool.io.row_store import open_store
    from odmtool.io.weights import read_weights

    weight = None if options["weights"] is None else read_weights(options["weights"])
    size = int(memory * _BLOCK_SHARE / options["jobs"])
    store, was_known = open_store(
        options["cache"], options["training_file"], zero_based=options["zero_based"],
        keep=options["keep_cache"], jobs=options["jobs"],
        block_bytes=min(max(size, _LEAST_BLOCK), _LARGEST_BLOCK),
    )  # fmt: skip
    report.detail(messages.cached(store, was_known))
    if weight is not None and len(weight) != store.shape[0]:
        message = messages.weight_count(len(weight), store.shape[0])
        raise DataError(message, options["weights"])
    labels = frozenset(store.counts)
    learned = labels if weight is None else _labels_in_use(store, weight)
    say_about_labels(options, labels, learned, store.skipped, report)
    return TrainingData(store, weight, store.fingerprint, labels)


def _labels_in_use(store, weight) -> set[int]:
    """The labels of the examples with a weight above 0."""
    import numpy as np

    found = set()
    for k in range(len(store.blocks)):
        own = weight[store.starts[k] : store.starts[k + 1]]
        found |= set(np.unique(store.labels(k)[own > 0]).tolist())
    return found


def fit_from_disk(machine, data, options: dict, report: Report) -> list[str]:
    """Train the machine; sentences as those of :func:`odmtool.cli.training.fit`."""
    from odmtool.cli.training import naming, say_scale
    from odmtool.places import disk as out_of_core

    out_of_core.check(machine)  # of more classes than two it is another one than before
    plan = out_of_core.plan(machine, data.dataset, data.weight)
    needs = plan.parts | {"samples of the rows": plan.sample}
    report.detail(messages.memory_plan(plan.solver, needs, machine.memory_limit()))
    with naming(options["training_file"]):
        out_of_core.fit(machine, data.dataset, data.weight, chosen=plan, progress=report.progress)
    report.end_progress()
    say_scale(machine, report)
    if machine.solution_.converged:
        return []
    has_newton = out_of_core.has_newton(machine, data.shape[1])
    return [messages.not_converged(machine.solution_, machine.tolerance, has_newton)]
