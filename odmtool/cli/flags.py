"""What a command calls the parameters of a machine: by its options.

A sentence of :mod:`odmtool.messages` says ``‹max_iter›``; the table here, made of the options
that click knows, says ``--max-iter`` for it.
"""

from __future__ import annotations

import click

from odmtool.messages.words import shortened, written


class Flags:
    """The names to put into sentences, as :class:`odmtool.messages.words.PythonNames`.

    ``labels`` (dict of int to str, optional): what :func:`name_labels` was told.
    """

    def __init__(self, command: click.Command, labels: dict[int, str] | None = None):
        self.labels = labels or {}
        options = (param for param in command.params if isinstance(param, click.Option))
        self.flag_of = {option.name: option.opts[0] for option in options}

    def parameter(self, name: str) -> str:
        return self.flag_of.get(name, long_option(name))

    def subject(self, name: str) -> str:
        flag = self.parameter(name)
        return flag if flag == long_option(name) else f"{flag}: {_long(name)}"

    def setting(self, name: str, value: str) -> str:
        if name == "label":
            return shortened(self.labels.get(int(value), value))
        if name == "command":
            return f" (odm-{value})"
        if name == "or":
            return f", {self.setting('machine', value)}"
        return f"{self.parameter(name)} {value}"


def name_labels(names: dict[int, str]) -> None:
    """From now on sentences of the running command call classes by these names."""
    click.get_current_context().meta["labels"] = names


def names_in(context: click.Context) -> Flags:
    """The names for sentences of a command that runs."""
    return Flags(context.command, context.meta.get("labels"))


def long_option(name: str) -> str:
    """The long option of a parameter."""
    return f"--{_long(name)}"


def _long(name: str) -> str:
    """The same without its dashes."""
    return name.rstrip("_").replace("_", "-")


def spoken(sentence: str) -> str:
    """The sentence, with the options of the command that runs in the place of its marks."""
    context = click.get_current_context(silent=True)
    return written(sentence) if context is None else written(sentence, names_in(context))
