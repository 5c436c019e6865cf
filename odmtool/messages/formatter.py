"""Fills in the templates of sentences; only a run that says something loads it."""

from __future__ import annotations

import string
from collections.abc import Callable


class _Formatter(string.Formatter):
    def __init__(self, shown: dict[str, Callable]):
        self._shown = shown

    def convert_field(self, value, conversion):
        if conversion in self._shown:
            return self._shown[conversion](value)
        return super().convert_field(value, conversion)


def filled(template: str, values: tuple, shown: dict[str, Callable]) -> str:
    """The template with values in the place of its names, in the order in which these come.

    ``shown`` has a function for each ``q`` of ``{name!q}``.
    """
    formatter = _Formatter(shown)
    names = dict.fromkeys(name for _, name, _, _ in formatter.parse(template) if name)
    return formatter.vformat(template, (), dict(zip(names, values, strict=True)))
