"""The commands. Importing this package imports click only, and that late."""

from __future__ import annotations


def _main(module: str, program: str) -> None:
    """Run the command of this name, ready for signals before anything heavy is imported."""
    from odmtool.cli import process

    process.prepare(program)
    from importlib import import_module

    from odmtool.cli import entry

    command = getattr(import_module(f"odmtool.cli.{module}"), program.partition("-")[2] or program)
    entry.main(command, program)


def train_main() -> None:
    """Console script ``odm-train``."""
    _main("train", "odm-train")


def predict_main() -> None:
    """Console script ``odm-predict``."""
    _main("predict", "odm-predict")


def cv_main() -> None:
    """Console script ``odm-cv``."""
    _main("cv", "odm-cv")


def scale_main() -> None:
    """Console script ``odm-scale``."""
    _main("scale", "odm-scale")


def odmtool_main() -> None:
    """Console script ``odmtool``: the commands as sub-commands."""
    _main("umbrella", "odmtool")
