"""Opening inputs of every kind."""

import bz2
import gzip
import io
import lzma
import os
import random
import sys
import tracemalloc

import pytest

from odmtool.errors import DataError, FileError
from odmtool.io.files import display_name, open_input

COMPRESS = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}
CONTENT = random.Random(1).randbytes(70_000) + b"a\n" * 10_000
unprivileged = pytest.mark.skipif(
    hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may do everything"
)


def content_of(path) -> bytes:
    with open_input(path) as stream:
        return stream.read()


class Trickle(io.RawIOBase):
    """A pipe that delivers one byte at a time."""

    def __init__(self, content):
        self.content = io.BytesIO(content)

    def readable(self):
        return True

    def readinto(self, target):
        return self.content.readinto(memoryview(target)[:1])


class Stdin:
    def __init__(self, content):
        self.buffer = io.BufferedReader(Trickle(content))


PLAIN = [b"", b"1", b"\x1f", b"BZ", b"BZh 1:1\n", b"BZh91 1:1\n", b"abcdef", b"abcdefg", CONTENT]


@pytest.mark.parametrize("content", PLAIN)
def test_plain_file(content, tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(content)
    assert content_of(path) == content_of(str(path)) == content
    monkeypatch.setattr(sys, "stdin", Stdin(content))
    assert content_of("-") == content
    assert not sys.stdin.buffer.closed


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize("content", [b"", b"1 1:2\n", CONTENT, b"\0" * 5_000_000])
def test_compressed_file(kind, content, tmp_path, monkeypatch):
    path = tmp_path / "file.txt"  # the name says nothing
    data = COMPRESS[kind](content)
    path.write_bytes(data)
    assert content_of(path) == content
    monkeypatch.setattr(sys, "stdin", Stdin(data))
    assert content_of("-") == content


@pytest.mark.parametrize("level", range(1, 10))
def test_every_level_of_bzip2(level, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bz2.compress(b"1 1:2\n", level) + bz2.compress(b"", level))
    assert content_of(path) == b"1 1:2\n"


@pytest.mark.parametrize("kind", COMPRESS)
def test_members_and_padding(kind, tmp_path, monkeypatch):
    """Parallel compressors write many members; tapes and xz pad with zeros."""
    compress = COMPRESS[kind]
    path = tmp_path / "file"
    data = compress(b"one\n") + compress(b"") + b"\0" * 8 + compress(CONTENT) + b"\0" * 100_000
    path.write_bytes(data)
    assert content_of(path) == b"one\n" + CONTENT
    monkeypatch.setattr(sys, "stdin", Stdin(compress(b"one\n") + compress(b"two\n") + b"\0" * 4))
    assert content_of("-") == b"one\ntwo\n"


@pytest.mark.parametrize("kind", COMPRESS)
def test_every_truncation_is_noticed(kind, tmp_path):
    path = tmp_path / "file"
    data = COMPRESS[kind](b"1 1:2\n" * 20) + COMPRESS[kind](b"2 1:3\n" * 20)
    whole = len(COMPRESS[kind](b"1 1:2\n" * 20))
    for size in range(6, len(data)):
        path.write_bytes(data[:size])
        if size == whole:
            continue
        with pytest.raises(DataError) as caught:
            content_of(path)
        assert str(caught.value) in (
            f"{path}: the {kind} data end too early: the file is cut off",
            f"{path}: something that is not {kind} follows the {kind} data",
        )


@pytest.mark.parametrize("kind", COMPRESS)
def test_corruption_is_noticed(kind, tmp_path):
    path = tmp_path / "file"
    data = bytearray(COMPRESS[kind](CONTENT))
    data[len(data) // 2] ^= 0x55
    path.write_bytes(data)
    with pytest.raises(DataError, match=f"the {kind} data (are corrupt|end too early)"):
        content_of(path)


@pytest.mark.parametrize("kind", COMPRESS)
def test_what_follows_is_not_dropped(kind, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(COMPRESS[kind](b"1 1:2\n") + b"2 1:3\n")
    with pytest.raises(DataError, match=f"something that is not {kind} follows the {kind} data"):
        content_of(path)


@pytest.mark.parametrize("kind", COMPRESS)
def test_decompression_takes_little_memory(kind, tmp_path):
    """Megabytes that compress to nothing come in pieces of the size asked for."""
    path = tmp_path / "file"
    path.write_bytes(COMPRESS[kind](b"\0" * 30_000_000))
    tracemalloc.start()
    with open_input(path) as stream:
        for _ in range(20):
            stream.read(1000)
        peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6  # the dictionary of xz alone has 8 MiB


@pytest.mark.parametrize(("start", "kind"), [(b"\x28\xb5\x2f\xfd", "zstd"), (b"PK\x03\x04", "zip")])
def test_other_compressions(start, kind, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(start + b"data")
    with pytest.raises(DataError, match=f": {kind} files cannot be read .*decompress it first"):
        open_input(path)


def test_inputs_that_cannot_be_opened(tmp_path, monkeypatch):
    for path, sentence in (
        (tmp_path / "none", f"{tmp_path}/none: no such file"),
        (tmp_path, f"{tmp_path}: is a folder, not a file"),
        ("", "'': no such file"),
        ("a\0b", r"a\x00b: cannot be read: no name of a file has a null byte"),
        ("x" * 300, f"{'x' * 300}: cannot be read: File name too long"),
        (tmp_path / "a\nb", rf"{tmp_path}/a\nb: no such file"),
    ):
        with pytest.raises(FileError) as caught:
            open_input(path)
        assert str(caught.value) == sentence
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(FileError, match="^stdin: cannot be read: Bad file descriptor$"):
        open_input("-")


@unprivileged
def test_unreadable_input(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"1")
    path.chmod(0)
    with pytest.raises(FileError, match=": cannot be read: Permission denied$"):
        open_input(path)


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="needs Linux")
def test_read_error_and_empty_nonblocking_pipe(monkeypatch):
    with pytest.raises(FileError, match="^/proc/self/mem: cannot be read: Input/output error$"):
        open_input("/proc/self/mem")
    receive, send = os.pipe()
    os.set_blocking(receive, False)
    with os.fdopen(receive) as stdin, os.fdopen(send, "w"):
        monkeypatch.setattr(sys, "stdin", stdin)
        with pytest.raises(FileError, match="^stdin: cannot be read: Resource temporarily"):
            open_input("-")


def test_display_name():
    assert display_name("-") == "stdin"
    assert display_name("a b.svm") == "a b.svm"
    assert display_name("a\x1b[31m\n") == r"a\x1b[31m\n"
    assert display_name(b"caf\xc3\xa9") == "café"
    assert display_name(b"\xff") == r"\udcff"
