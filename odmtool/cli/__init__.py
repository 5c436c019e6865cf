"""The commands. Importing this package imports click only."""

from __future__ import annotations


def train_main() -> None:
    """Console script ``odm-train``."""
    from odmtool.cli import entry, train

    entry.main(train.train, "odm-train")


def predict_main() -> None:
    """Console script ``odm-predict``."""
    from odmtool.cli import entry, predict

    entry.main(predict.predict, "odm-predict")


def cv_main() -> None:
    """Console script ``odm-cv``."""
    from odmtool.cli import cv, entry

    entry.main(cv.cv, "odm-cv")


def scale_main() -> None:
    """Console script ``odm-scale``."""
    from odmtool.cli import entry, scale

    entry.main(scale.scale, "odm-scale")


def odmtool_main() -> None:
    """Console script ``odmtool``: the commands as sub-commands."""
    from odmtool.cli import entry, umbrella

    entry.main(umbrella.odmtool, "odmtool")
