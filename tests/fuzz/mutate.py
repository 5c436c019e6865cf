"""Changes of bytes, all drawn from one generator."""

from __future__ import annotations

import random
from collections.abc import Callable

# What has broken readers: ends of lines, odd numbers, separators, other alphabets.
TOKENS = (
    b"", b"\n", b"\r", b"\r\n", b"\t", b" ", b"\0", b"#", b":", b"::", b",", b"-", b"+", b".", b"e",
    b"0", b"-0", b"1e308", b"1e309", b"1e-400", b"nan", b"inf", b"-inf", b"0x1p3", b"1_0", b"1e",
    b"2147483647", b"2147483648", b"-2147483649", b"4294967297", b"9" * 40, b"0." + b"1" * 60,
    b"qid:1 ", b"qid:", b"\xc3\xa9", b"\xef\xbb\xbf", b"\xff", b"\x1b[", b"[[[[", b"{", b"null",
    b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"x", b"end sha256 ", b"odmtool-model 1", b"1:1 ",
)  # fmt: skip


def mutated(generator: random.Random, content: bytes) -> bytes:
    """The content, changed in one to four places."""
    for _ in range(generator.choice((1, 1, 1, 2, 4))):
        content = generator.choice(_CHANGES)(generator, content)
    return content


def _span(generator: random.Random, content: bytes, longest: int = 40) -> tuple[int, int]:
    start = generator.randrange(len(content) + 1)
    return start, min(len(content), start + generator.randrange(longest))


def _bit(generator, content):
    if not content:
        return content
    place = generator.randrange(len(content))
    changed = content[place] ^ 1 << generator.randrange(8)
    return content[:place] + bytes([changed]) + content[place + 1 :]


def _token(generator, content):
    start, end = _span(generator, content, 4)
    return content[:start] + generator.choice(TOKENS) + content[end:]


def _cut(generator, content):
    return content[: generator.randrange(len(content) + 1)]


def _drop(generator, content):
    start, end = _span(generator, content)
    return content[:start] + content[end:]


def _repeat(generator, content):
    start, end = _span(generator, content)
    return content[:end] + content[start:end] * generator.choice((1, 2, 50)) + content[end:]


def _swap_lines(generator, content):
    lines = content.splitlines(keepends=True)
    if len(lines) > 1:
        a, b = generator.sample(range(len(lines)), 2)
        lines[a], lines[b] = lines[b], lines[a]
    return b"".join(lines)


_CHANGES = (_bit, _token, _token, _cut, _drop, _repeat, _swap_lines)


def smaller(content: bytes, breaks: Callable[[bytes], bool], separator: bytes | None) -> bytes:
    """What is left of the content when no part can go without ``breaks`` becoming false.

    Parts end with the separator; b"" is for bytes, None for what has no parts.
    """
    if separator is None:
        return content
    parts = content.split(separator) if separator else [bytes([c]) for c in content]
    size, tries = len(parts) // 2, 3000
    while size and tries:
        start = 0
        while start < len(parts) and tries:
            fewer, tries = parts[:start] + parts[start + size :], tries - 1
            if breaks(separator.join(fewer)):
                parts = fewer
            else:
                start += size
        size //= 2
    return separator.join(parts)
