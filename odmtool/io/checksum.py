"""SHA-256, the checksum of models, without loading OpenSSL for short texts.

Loading it takes 4 ms, of the 120 that a small training takes as a whole. Python has code of its
own for it, which takes four times as long for each byte; :mod:`random` loads it in this way, too.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

# Python's own code from 3.12 on, and before; a Python may be built without.
_MODULES = ("_sha2", "_sha256")
# Bytes for which OpenSSL is worth loading: there both take 6 ms.
# speed only: both make the same checksum
_LONG = 1 << 21


class Checksum:
    """What :func:`hashlib.sha256` makes; by OpenSSL from the moment on when the text is long."""

    def __init__(self):
        self._parts, self._length, self._digest = [], 0, None

    def update(self, part) -> None:
        """Add bytes, or an array of them, to the text."""
        self._length += memoryview(part).nbytes
        if self._digest is None and self._length < _LONG:
            self._parts.append(bytes(part))
            return
        if self._digest is None:
            self._digest, self._parts = _begun(["hashlib"], self._parts), []
        self._digest.update(part)

    def hexdigest(self) -> str:
        """64 hexadecimal digits."""
        return (self._digest or _begun([*_MODULES, "hashlib"], self._parts)).hexdigest()


def _begun(modules: list[str], parts: list[bytes]):
    """The checksum of the parts, by the first of the modules that there is."""
    for name in modules[:-1]:
        with suppress(ImportError):
            return import_module(name).sha256(b"".join(parts))
    return import_module(modules[-1]).sha256(b"".join(parts))
