"""How messages show what they talk about."""

from __future__ import annotations


def quoted(token: object) -> str:
    """The token as the user wrote it, shortened, with control characters escaped."""
    text = token.decode("utf-8", "replace") if isinstance(token, bytes) else str(token)
    if len(text) > 60:
        text = text[:57] + "..."
    return "'" + text.encode("unicode_escape").decode() + "'"


def one_line(text: str) -> str:
    """The text with line breaks and other control characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def listed(names, last: str = "and") -> str:
    """a, b and c."""
    *others, end = names
    return f"{', '.join(others)} {last} {end}" if others else end


def size(amount: float) -> str:
    """Bytes in a unit a person reads."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} TB"
