"""Slow readers, written from the manual and not from the code: a value, or None where it errs."""

from __future__ import annotations

import math
import re
import unicodedata

_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_LARGEST = 2**31 - 1
MOST_WEIGHTS = 20


def number(token: bytes) -> float | None:
    """A finite decimal number."""
    value = float(token) if _NUMBER.fullmatch(token) else math.nan
    return value if math.isfinite(value) else None


def word(token: bytes) -> str | None:
    """A label that is no number."""
    try:
        text = token.decode()
    except UnicodeDecodeError:
        return None
    is_number = _NUMBER.fullmatch(token) or _NOT_FINITE.fullmatch(token)
    odd = any(c.isspace() or c in ":,;\ufeff" or unicodedata.category(c) == "Cc" for c in text)
    return None if is_number or odd else text


def examples(block: bytes) -> list | None:
    """Label and [(index, value), ...] of every example; zeros are left out."""
    if b"\0" in block:
        return None
    found, kind = [], None
    for line in block.removesuffix(b"\n").split(b"\n"):
        text, comment, _ = line.partition(b"#")
        if not comment:
            text = text.removesuffix(b"\r")
        tokens = [token for token in re.split(rb"[ \t]+", text) if token]
        if not tokens:
            continue
        first, pairs = tokens.pop(0), []
        label = number(first) if word(first) is None else word(first)
        if kind not in (None, type(label)):
            return None
        kind = type(label)
        is_whole = kind is float and label == int(label) and -_LARGEST - 1 <= label <= _LARGEST
        if not (is_whole or kind is str):
            return None
        if tokens and re.fullmatch(rb"qid:[0-9]+", tokens[0]):
            tokens.pop(0)
        last = 0
        for token in tokens:
            match = re.fullmatch(rb"([0-9]+):(.+)", token, re.DOTALL)
            value = match and number(match[2])
            if value is None or not last < int(match[1]) <= _LARGEST:
                return None
            last = int(match[1])
            if value != 0:
                pairs.append((last, value))
        found.append((label, pairs))
    return found


def weights(content: bytes) -> list | None:
    """The weights of a file; at most MOST_WEIGHTS, and a last line without end is cut."""
    found = []
    for line in re.findall(rb"[^\n]*\n|[^\n]+\Z", content):
        token = line.partition(b"#")[0].strip()
        if not token:
            continue
        value = number(token)
        if value is None or value < 0 or not line.endswith(b"\n") or len(found) == MOST_WEIGHTS:
            return None
        found.append(value)
    return found
