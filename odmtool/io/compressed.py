"""Streams that gzip, bzip2 or xz have compressed, in one member or several."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from typing import NamedTuple

from odmtool import messages
from odmtool.errors import DataError

BUFFER_BYTES = 1 << 16


def read_first(stream: io.RawIOBase, magics: tuple[bytes, ...], start: bytes = b"") -> bytes:
    """``start`` and what follows it, until it is clear whether it begins with one of ``magics``.

    Not a byte more: in a pipe the next one may come only when a first short line is answered.
    """
    while any(magic.startswith(start) and magic != start for magic in magics):
        more = stream.read(BUFFER_BYTES)
        if not more:
            break
        start += more
    return start


class _Gzip:
    """zlib in the manners of bz2 and lzma."""

    def __init__(self):
        self._inflate = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._inflate.decompress(self._inflate.unconsumed_tail + data, max_length)

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._inflate.unconsumed_tail


def _bzip2():
    import bz2

    return bz2.BZ2Decompressor()


def _xz():
    import lzma

    return lzma.LZMADecompressor()


_SURE = 6  # bytes of a magic that are no text, although the file ends there


class Compression(NamedTuple):
    """A kind of compression: possible first bytes, name, and what makes a decompressor."""

    magics: tuple[bytes, ...]
    kind: str
    decompressor: Callable

    def has_begun(self, start: bytes) -> bool:
        """Whether what starts so is of this kind, or was of it before it was cut off."""
        is_cut = len(start) >= _SURE and any(magic.startswith(start) for magic in self.magics)
        return is_cut or start.startswith(self.magics)


# A block or the end of the stream follows the level of bzip2; BZh alone may begin a label.
_BZIP2 = tuple(
    b"BZh%d%b" % (level, then)
    for level in range(1, 10)
    for then in (b"1AY&SY", b"\x17rE8P\x90")
)  # fmt: skip
COMPRESSIONS = (
    Compression((b"\x1f\x8b",), "gzip", _Gzip),
    Compression(_BZIP2, "bzip2", _bzip2),
    Compression((b"\xfd7zXZ\x00",), "xz", _xz),
)
UNSUPPORTED = ((b"\x28\xb5\x2f\xfd", "zstd", "zstd -d"), (b"PK\x03\x04", "zip", "unzip"))
MAGICS = sum((each.magics for each in COMPRESSIONS), tuple(magic for magic, *_ in UNSUPPORTED))
"""How a file that is no plain text may begin."""


class Decompressed(io.RawIOBase):
    """The content of one compressed member, or of several that follow each other.

    The decompressors of the standard library's file classes would ignore what
    follows the last member; here it is an error, because it may be data.
    """

    def __init__(self, raw, compression: Compression):
        self.name = raw.name
        self._raw, self._compression = raw, compression
        self._member = compression.decompressor()
        self._pending = b""
        self.taken = 0
        """Compressed bytes that were read."""

    def readable(self) -> bool:
        return True

    def readinto(self, target) -> int:
        from lzma import LZMAError

        while not self._member.eof or self._next_member():
            data = b""
            if self._member.needs_input:
                data, self._pending = self._pending or self._raw.read(BUFFER_BYTES), b""
                self.taken += len(data)
                if not data:
                    raise self._error(messages.compressed_truncated(self._compression.kind))
            try:
                output = self._member.decompress(data, len(target))
            except (OSError, EOFError, ValueError, zlib.error, LZMAError) as error:
                sentence = messages.compressed_corrupt(self._compression.kind, str(error))
                raise self._error(sentence) from None
            if output:
                target[: len(output)] = output
                return len(output)
        return 0

    def _next_member(self) -> bool:
        """Begin with the member that follows this one, after padding; False at the end."""
        rest = self._member.unused_data.lstrip(b"\0")
        while not rest:
            data = self._raw.read(BUFFER_BYTES)
            if not data:
                return False
            rest = data.lstrip(b"\0")
        rest = read_first(self._raw, self._compression.magics, rest)
        if not rest.startswith(self._compression.magics):
            raise self._error(messages.compressed_trailing(self._compression.kind))
        self._member = self._compression.decompressor()
        self._pending = rest
        return True

    def _error(self, sentence: str) -> DataError:
        return DataError(sentence, self.name)

    def close(self) -> None:
        self._raw.close()
        super().close()
