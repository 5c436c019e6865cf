"""Fills in the templates of sentences; only a run that says something loads it."""

from __future__ import annotations

import string

from odmtool.messages.words import one_line, quoted, size


class Formatter(string.Formatter):
    """``{name!q}`` is quoted, ``{name!l}`` on one line, ``{name!b}`` a size in bytes."""

    _shown = {"q": quoted, "l": one_line, "b": size}

    def convert_field(self, value, conversion):
        if conversion in self._shown:
            return self._shown[conversion](value)
        return super().convert_field(value, conversion)


def filled(template: str, values: tuple) -> str:
    """The template with values in the place of its names, in the order in which these come."""
    formatter = Formatter()
    names = dict.fromkeys(name for _, name, _, _ in formatter.parse(template) if name)
    return formatter.vformat(template, (), dict(zip(names, values, strict=True)))
