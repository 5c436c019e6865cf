"""``odmtool train|predict|cv|scale|margins|check|describe|completion``: all under one name.

Imports click only, as the commands themselves do, so that help and shell
completion of the group are as fast as those of one command.
"""

from __future__ import annotations

import click

from odmtool.cli import (
    check,
    completion,
    cv,
    describe,
    margins,
    messages,
    options,
    predict,
    scale,
    train,
)
from odmtool.errors import UsageError


class Group(click.Group):
    """A group that says in one sentence what is missing, as the commands do."""

    def make_context(self, *arguments, **attributes):
        with options.help_printed():
            return super().make_context(*arguments, **attributes)

    def parse_args(self, ctx, args):
        if not args and not ctx.resilient_parsing:
            pieces = self.collect_usage_pieces(ctx)
            raise UsageError(messages.no_arguments(ctx.command_path, pieces))
        return super().parse_args(ctx, args)


_COMMANDS = (train.train, predict.predict, cv.cv, scale.scale, margins.margins, check.check,
             describe.describe, completion.completion)  # fmt: skip


@click.group(cls=Group, context_settings=options.CONTEXT_SETTINGS, commands=_COMMANDS)
@options.version_option
def odmtool() -> None:
    """Large-margin classification by the margin distribution.

    The first four are also installed under a name of their own: odm-train, odm-predict,
    odm-cv, odm-scale.
    """
