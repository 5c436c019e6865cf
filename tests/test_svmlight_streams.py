"""The svmlight reader on files, pipes and compressed files, cut anywhere, in threads."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import sys
import threading
import tracemalloc

import numpy as np
import pytest
from scipy.sparse import vstack

from odmtool.errors import DataError, FileError
from odmtool.io import svmlight
from odmtool.io.svmlight import Dataset, fingerprint, iter_svmlight, read_svmlight

READERS = {"plain": 2**60, "compiled": -1}
COMPRESS = {"plain": bytes, "gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
TORTURE = (
    b"# head\r\n+1 qid:12 1:0.5 3:-1.25e-3 7:0\r\n\r\n  -1\t2:1 # tail: 1\n\n"
    b"1e0 10:12345678901234567890123 11:.5 \n 2\r\n3 2147483647:1e-320\n-4 1:1"
)


@pytest.fixture(params=READERS)
def reader(request, monkeypatch):
    """Makes one of the two readers read everything."""
    monkeypatch.setattr(svmlight, "PLAIN_BYTES", READERS[request.param])
    return request.param


def text_of(rows: int, seed: int = 0) -> bytes:
    rng = np.random.default_rng(seed)
    lines = []
    for row in range(rows):
        indices = np.flatnonzero(rng.integers(0, 2, 12)) + 1
        values = rng.standard_normal(len(indices))
        pairs = " ".join(f"{i}:{v:.17g}" for i, v in zip(indices, values, strict=True))
        lines.append(f"{row % 5 - 2} {pairs}\n" if row % 7 else f"# {row}\n\n{row % 5} {pairs}\n")
    return "".join(lines).encode()


def same(a: Dataset, b: Dataset) -> bool:
    return fingerprint(a) == fingerprint(b) and a.X.shape == b.X.shape and a[2:] == b[2:]


def joined(blocks) -> Dataset:
    blocks = list(blocks)
    assert all(len(block.labels) for block in blocks)
    X = vstack([block.X for block in blocks], format="csr")
    labels = np.concatenate([block.labels for block in blocks])
    skipped = sum(block.skipped for block in blocks)
    return Dataset(X, labels, skipped)


@pytest.fixture
def feed_stdin(monkeypatch):
    """A function that makes stdin a pipe which delivers ``content``, ``step`` bytes at a time."""
    with contextlib.ExitStack() as pipes:

        def feed(content: bytes, step: int | None = None) -> None:
            receive, send = os.pipe()

            def write():
                # A reader that has failed does not wait for the rest.
                with contextlib.suppress(BrokenPipeError), os.fdopen(send, "wb", 0) as stream:
                    for start in range(0, len(content), step or len(content)):
                        stream.write(content[start : start + (step or len(content))])

            threading.Thread(target=write, daemon=True).start()
            monkeypatch.setattr(sys, "stdin", pipes.enter_context(os.fdopen(receive)))

        yield feed


# ---- sources -----------------------------------------------------------------


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("source", ["file", "stdin", "slow stdin", "fifo"])
def test_sources(source, compression, reader, tmp_path, feed_stdin):
    content = text_of(40)
    path = tmp_path / "data.svm"
    path.write_bytes(content)
    expected = read_svmlight(path)
    data = COMPRESS[compression](content)
    if source == "file":
        path.write_bytes(data)
    elif source == "fifo":
        path = tmp_path / "fifo"
        os.mkfifo(path)
        threading.Thread(target=path.write_bytes, args=(data,), daemon=True).start()
    else:
        path = "-"
        feed_stdin(data, 1 if source == "slow stdin" else None)
    assert same(read_svmlight(path), expected)


@pytest.mark.parametrize("compression", COMPRESS)
def test_wrong_line_in_stdin(compression, reader, feed_stdin):
    feed_stdin(COMPRESS[compression](b"1 1:2\n2 1:x\n"))
    with pytest.raises(DataError) as caught:
        read_svmlight("-")
    assert str(caught.value) == (
        "stdin:2: Wrong input format at line 2: the value in '1:x' is not a number"
    )


# ---- cuts --------------------------------------------------------------------


def test_cut_everywhere(reader, tmp_path, monkeypatch):
    """Blocks of every size: so every token is cut at every place."""
    path = tmp_path / "data.svm"
    path.write_bytes(TORTURE)
    expected = read_svmlight(path)
    assert expected.labels.tolist() == [1, -1, 1, 2, 3, -4]
    assert (expected.X.nnz, expected.skipped) == (7, 3)
    for size in range(1, len(TORTURE) + 2):
        monkeypatch.setattr(svmlight, "BLOCK_BYTES", size)
        assert same(read_svmlight(path), expected), size
        width = expected.X.shape[1]
        blocks = iter_svmlight(path, n_features=width, block_bytes=size)
        assert same(joined(blocks), expected), size


def test_pieces_of_every_size(reader, feed_stdin, tmp_path, monkeypatch):
    """A pipe may deliver any pieces, whatever the size of a block."""
    path = tmp_path / "data.svm"
    path.write_bytes(TORTURE)
    expected = read_svmlight(path)
    monkeypatch.setattr(svmlight, "BLOCK_BYTES", 50)
    for step in (1, 2, 3, 7, 49, 50, 51):
        feed_stdin(TORTURE, step)
        assert same(read_svmlight("-"), expected), step


def test_change_of_readers_within_a_stream(tmp_path, monkeypatch):
    content = text_of(300)
    path = tmp_path / "data.svm"
    path.write_bytes(content)
    expected = read_svmlight(path)
    monkeypatch.setattr(svmlight, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(svmlight, "PLAIN_BYTES", len(content) // 2)
    path.write_bytes(gzip.compress(content + b"nonsense\n"))
    lines = content.count(b"\n")
    with pytest.raises(DataError, match=f":{lines + 1}: Wrong input format at line {lines + 1}"):
        read_svmlight(path)
    path.write_bytes(gzip.compress(content))
    assert same(read_svmlight(path), expected)


def test_blocks_of_comments_only(reader, tmp_path):
    """They yield no block of their own, but are counted."""
    path = tmp_path / "data.svm"
    path.write_bytes(b"# a\n\n" * 50 + b"1 1:1\n" + b"# b\n" * 50 + b"2 2:1\n" + b"\n" * 50)
    blocks = list(iter_svmlight(path, block_bytes=10))
    assert [block.labels.tolist() for block in blocks] == [[1], [2]]
    assert sum(block.skipped for block in blocks) == 200
    assert [block.X.shape for block in blocks] == [(1, 1), (1, 2)]


def test_endless_zeros_end(reader):
    with pytest.raises(DataError, match="^/dev/zero:1: .* NUL byte"):
        read_svmlight("/dev/zero")


# ---- threads and errors ------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 2, 5, 0])
def test_jobs_change_nothing(jobs, reader, tmp_path, monkeypatch):
    path = tmp_path / "data.svm"
    path.write_bytes(text_of(500))
    expected = read_svmlight(path)
    monkeypatch.setattr(svmlight, "BLOCK_BYTES", 700)
    assert same(read_svmlight(path, jobs=jobs), expected)
    blocks = iter_svmlight(path, n_features=expected.X.shape[1], jobs=jobs, block_bytes=3000)
    assert same(joined(blocks), expected)


@pytest.mark.parametrize("jobs", [1, 4])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_first_error_of_the_file(jobs, ending, reader, tmp_path, monkeypatch):
    """Also when a later block is done first: the wrong line stands in a long block."""
    monkeypatch.setattr(svmlight, "BLOCK_BYTES", 200)
    lines = text_of(400).split(b"\n")[:-1]
    path = tmp_path / "data.svm"
    for place in (0, 1, 57, 398, 399):
        wrong = list(lines)
        wrong[place] = b"1 " + b" ".join(b"%d:1" % k for k in range(1, 3000)) + b" 3000:"
        for later in range(place + 1, min(place + 30, len(wrong))):
            wrong[later] = b"nonsense"
        path.write_bytes(ending.join(wrong))
        with pytest.raises(DataError) as caught:
            read_svmlight(path, jobs=jobs)
        assert (caught.value.line, caught.value.file) == (place + 1, str(path))
        assert "no value directly after the colon in '3000:'" in str(caught.value)


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("compression", ["gz", "bz2", "xz"])
def test_cut_off_compressed_file(compression, jobs, reader, tmp_path, monkeypatch):
    """A wrong line before the end comes first; otherwise it is said that the file is cut off."""
    monkeypatch.setattr(svmlight, "BLOCK_BYTES", 5000)
    path = tmp_path / "data.svm"
    content = text_of(2000)
    data = COMPRESS[compression](content)
    path.write_bytes(data[: len(data) * 9 // 10])
    with pytest.raises(DataError, match="data end too early: the file is cut off") as caught:
        read_svmlight(path, jobs=jobs)
    assert str(caught.value).startswith(f"{path}: ") and caught.value.line is None
    data = COMPRESS[compression](b"1 1:2\nnonsense\n" + content)
    path.write_bytes(data[:-10])
    with pytest.raises(DataError, match=":2: Wrong input format at line 2: label 'nonsense'"):
        read_svmlight(path, jobs=jobs)


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_failing_disk(jobs, reader, monkeypatch):
    """What was read before the failure is examined; then the failure is said."""

    class Disk(io.RawIOBase):
        def __init__(self, content):
            self.content = content

        def readable(self):
            return True

        def readinto(self, target):
            if not self.content:
                raise OSError(5, "Input/output error")
            target[:1], self.content = self.content[:1], self.content[1:]
            return 1

    class Stdin:
        def __init__(self, content):
            self.buffer = io.BufferedReader(Disk(content))

    monkeypatch.setattr(sys, "stdin", Stdin(b"1 1:2\n2 1"))
    with pytest.raises(FileError, match="^stdin: cannot be read: Input/output error$"):
        read_svmlight("-", jobs=jobs)
    monkeypatch.setattr(sys, "stdin", Stdin(b"1 1:2\n2 x\n3"))
    with pytest.raises(DataError, match="^stdin:2: "):
        read_svmlight("-", jobs=jobs)


# ---- memory ------------------------------------------------------------------


def peak_of(work) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_is_that_of_the_matrix(tmp_path, monkeypatch):
    monkeypatch.setattr(svmlight, "PLAIN_BYTES", -1)
    monkeypatch.setattr(svmlight, "BLOCK_BYTES", 1 << 16)
    path = tmp_path / "data.svm"
    path.write_bytes(b"".join([b"1 " + b"".join(b"%d:1 " % k for k in range(200)) + b"\n"] * 5000))
    data = read_svmlight(path, zero_based=True)  # compiled now, if it was not
    size = data.X.data.nbytes + data.X.indices.nbytes + data.X.indptr.nbytes
    assert size == 12 * 10**6 + 4 * 5001
    assert peak_of(lambda: read_svmlight(path, zero_based=True)) < 1.2 * size + 3e6


def test_memory_of_blocks_does_not_grow(reader, tmp_path):
    path = tmp_path / "data.svm"
    line = b"1 " + b" ".join(b"%d:0.5" % k for k in range(1, 50)) + b"\n"
    peaks = []
    for rows in (2000, 8000):
        path.write_bytes(line * rows)

        def work(rows=rows):
            blocks = iter_svmlight(path, block_bytes=1 << 16)
            assert sum(len(block.labels) for block in blocks) == rows

        work()
        # Threads that other tests left behind allocate, too, now and then.
        peaks.append(min(peak_of(work) for _ in range(3)))
    assert peaks[1] < 1.5 * peaks[0]


@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_file_that_is_cut_while_it_is_read_is_an_error(reader, tmp_path, left):
    """Its first rows alone would pass for the data; a file that grows has them all."""
    path, line = tmp_path / "d", b"1 1:0.5 2:0.25\n"
    path.write_bytes(line * 100_000)
    blocks = iter_svmlight(str(path), block_bytes=len(line) * 1000)
    next(blocks)
    os.truncate(path, left * len(line) * 1000)
    with pytest.raises(DataError, match="became shorter while it was read"):
        list(blocks)
    grown = iter_svmlight(str(path.with_name("grown")), block_bytes=len(line))
    path.with_name("grown").write_bytes(line * 10)
    next(grown)
    with open(path.with_name("grown"), "ab") as stream:
        stream.write(line * 2)
    assert sum(len(block.labels) for block in grown) >= 8
