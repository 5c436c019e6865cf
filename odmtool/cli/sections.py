"""Under which heading an option of odm-train and odm-cv stands, in the help and in the manual."""

from __future__ import annotations

from collections.abc import Iterator

import click

SECTIONS = {
    "Machine": ("machine", "lambda_", "cost", "mu", "theta", "mu1", "mu2", "power", "kdd", "arxiv",
                "outer", "ism3_loss", "multiclass", "bias", "class_weight", "balanced"),
    "Kernel": ("kernel", "degree", "gamma", "coef0"),
    "Data": ("weights", "scale", "zero_based", "check"),
    "Cross validation": ("folds", "grid", "strategy", "metric", "journal", "repeat", "test_size",
                         "against", "loo"),
    "Results": ("model_file", "probability", "model_format", "margins", "csv_file", "json_file",
                "trace", "seconds", "plot_file", "path_file", "plot_title"),
    "Solver": ("tolerance", "solver", "max_iter", "max_time", "keep_best", "start_from", "strict",
               "snapshot", "seed", "memory", "jobs"),
    "Large data": ("cache", "keep_cache", "partitions", "strata", "branch", "stop_level",
                   "partition_by", "cascade", "landmarks", "scheduler"),
}  # fmt: skip
"""Heading to the names of its parameters, in the order of both."""


def entries(
    params: list[click.Parameter], ctx: click.Context, sections: dict[str, tuple[str, ...]]
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Headings, each with the names and texts of its options; last comes what is named nowhere."""
    options = (param for param in params if isinstance(param, click.Option))
    records = {option.name: option.get_help_record(ctx) for option in options}
    named = {name for names in sections.values() for name in names}
    others = [name for name in records if name not in named]
    for title, names in {**sections, "Other options" if sections else "Options": others}.items():
        if shown := [records[name] for name in names if records.get(name) is not None]:
            yield title, shown
