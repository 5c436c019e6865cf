"""``odmtool train|predict|cv|scale|margins|check|describe|completion``: all under one name.

Imports click only, as the commands themselves do, so that help and shell
completion of the group are as fast as those of one command.
"""

from __future__ import annotations

import click

from odmtool.cli import check, completion, cv, describe, margins, options, predict, scale, train


class Group(options.Plain, click.Group):
    """A group that says in one sentence what is missing, as the commands do."""


_COMMANDS = (train.train, predict.predict, cv.cv, scale.scale, margins.margins, check.check,
             describe.describe, completion.completion)  # fmt: skip


@click.group(cls=Group, context_settings=options.CONTEXT_SETTINGS, commands=_COMMANDS)
@options.version_option
def odmtool() -> None:
    """Large-margin classification by the margin distribution.

    The first four are also installed under a name of their own: odm-train, odm-predict,
    odm-cv, odm-scale.
    """
