"""Command lines: the one that was typed, and the one that odm-cv answers with."""

from __future__ import annotations

import os
import shlex

import click

from odmtool.cli.machine_choice import MachineChoice
from odmtool.cli.machine_options import FLAGS, PARAMETER_NAMES, Bytes


def command_line(ctx: click.Context) -> str:
    """The command as it was typed."""
    return _joined([*ctx.command_path.split(), *ctx.meta["args"]])


def train_command(
    ctx: click.Context, choice: MachineChoice, setting: dict, search_only: tuple[str, ...]
) -> str:
    """The odm-train command line that trains with this setting, ready to paste.

    ``search_only`` are the options of odm-cv that odm-train need not be told.
    """
    from odmtool.io.files import is_stream

    words = ["odm-train"]
    for name, value in setting.items():
        words += [FLAGS[name], _text(value)]
    known = ctx.params | choice.special | {"machine": choice.asked}
    for param in ctx.command.params:
        # What else was given applies to the training as it did to the search.
        is_shared = param.name not in ("training_file", *PARAMETER_NAMES, *search_only)
        if is_shared and param.name in choice.given:
            words += words_of(param, known[param.name])
    path = known["training_file"]
    # Data from a pipe have no name; they can be sent through one again.
    # A name that begins as an option does needs its folder.
    named = f"./{path}" if path.startswith("-") else path
    words += ["-", "stdin.model"] if is_stream(path) else [named]
    return _joined(words)


def _joined(words: list[str]) -> str:
    """The words as a shell reads them, on one line."""
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    """A word for a shell; what cannot be printed, as bytes that are no UTF-8, stands in octal.

    ``$'...'`` is in POSIX since 2024, and in bash, zsh and ksh since long before.
    """
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(map(_within_quotes, word)) + "'"


def _within_quotes(character: str) -> str:
    if not character.isprintable():
        return "".join(f"\\{byte:03o}" for byte in os.fsencode(character))
    return f"\\{character}" if character in "\\'" else character


def _text(value) -> str:
    """A value as it is written on a command line, exactly."""
    return value if isinstance(value, str) else repr(value).removesuffix(".0")


def words_of(param: click.Parameter, value) -> list[str]:
    """An option and its value as words of a command line."""
    if isinstance(value, bool):
        return [param.opts[-1]] if value else []
    if isinstance(value, tuple) and not param.multiple:
        return [param.opts[0], ",".join(map(_text, value))]
    if isinstance(value, tuple):
        return [word for label, weight in value for word in (f"-w{label}", _text(weight))]
    return [param.opts[0], value.word if isinstance(value, Bytes) else _text(value)]
