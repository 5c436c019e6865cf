"""SHA-256, the checksum of models, without the time that loading OpenSSL takes.

That is 4 ms, of the 120 that a small training takes as a whole. Python has code of its own for it,
which takes four times as long for each byte; :mod:`random` loads it in this way, too.
"""

from __future__ import annotations

from importlib import import_module

# Python's own code from 3.12 on, and before; a Python may be built without.
_MODULES = ("_sha2", "_sha256")
# Bytes for which OpenSSL is worth loading.
# speed only: both make the same checksum
_LONG = 1 << 22


def sha256(length: int = 0):
    """A new checksum, as those of :mod:`hashlib`, for about so many bytes."""
    for name in _MODULES if length < _LONG else ():
        try:
            return import_module(name).sha256()
        except ImportError:
            continue
    return import_module("hashlib").sha256()
