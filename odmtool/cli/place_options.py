"""Where the data lie, by the options of a command: the one choice of a place."""

from __future__ import annotations

import os

import click

from odmtool.cli import messages
from odmtool.cli.options import stacked
from odmtool.errors import UsageError

cache_options = stacked([
    click.option("--cache", metavar="DIR",
                 help="Train from the disk, within --memory: the data are parsed once into a "
                      "file in DIR, gone at the end. For linear machines and nystrom."),
    click.option("--keep-cache", is_flag=True,
                 help="Leave that file in DIR; it serves again as long as the data file does "
                      "not change."),
])  # fmt: skip


def place_of(options: dict):
    """The place of :mod:`odmtool.places` that the options of odm-train or odm-cv mean.

    Raises UsageError: they do not go together.
    """
    from odmtool.io.files import is_stream
    from odmtool.places.place import Source

    path, folder, scheduler = (options[n] for n in ("training_file", "cache", "scheduler"))
    keep = options.get("keep_cache", False)
    source = Source(
        path, options["weights"], options["zero_based"], "precomputed" in options["kernel"],
        options["jobs"], options["memory"],
    )  # fmt: skip
    if folder == "":
        raise UsageError(messages.cache_without_folder())
    if folder is not None:
        from odmtool.places.disk import Disk

        if scheduler is not None:
            raise UsageError(messages.cache_not_on_a_cluster())
        if keep and is_stream(path):
            raise UsageError(messages.keep_of_a_stream())
        return Disk(source, folder, keep)
    if keep:
        raise UsageError(messages.keep_without_cache())
    if scheduler is not None and not os.path.exists(path):
        from odmtool.io.several import is_several

        if is_several(path):
            from odmtool.places.workers import Workers

            return Workers(source, scheduler)
    from odmtool.places.memory import Memory

    return Memory(source)
