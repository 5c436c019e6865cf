"""Regular expressions that are compiled when they are first used: most runs need few of them."""

from __future__ import annotations

import re


class Pattern:
    """A compiled pattern, as ``re.compile`` makes it of the same arguments, but later."""

    def __init__(self, *arguments):
        self._arguments = arguments

    def __getattr__(self, name: str):
        found = getattr(re.compile(*self._arguments), name)
        setattr(self, name, found)
        return found
