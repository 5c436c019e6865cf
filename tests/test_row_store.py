"""Rows in a cache file on the disk: what is in it, whose it is, and what a damaged one does."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
from problems import examples, write

from odmtool.errors import DataError, FileError
from odmtool.io import row_store
from odmtool.io.svmlight import fingerprint, read_svmlight

TINY = 700
pytestmark = pytest.mark.usefixtures("tiny_blocks")


@pytest.mark.parametrize("density", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("block", [1, 300, 10**6])
def test_a_store_has_what_the_file_has(tmp_path, density, block, open_store):
    X, y = examples(60, 12, density=density)
    path = write(tmp_path / "data", X, np.where(y > 0, 3, -2))
    known = read_svmlight(path)
    store, was_known = open_store(tmp_path, path, block_bytes=block)
    assert not was_known and store.shape == known.X.shape and store.entries == known.X.nnz
    blocks = [store.read(k) for k in range(len(store.blocks))]
    rows = [r if isinstance(r, np.ndarray) else r.toarray() for r, _ in blocks]
    assert np.array_equal(np.vstack(rows), known.X.toarray())
    assert np.array_equal(np.concatenate([labels for _, labels in blocks]), known.labels)
    assert store.fingerprint == fingerprint(known)
    assert list(store.counts.items())[0] == (
        known.labels[0],
        np.sum(known.labels == known.labels[0]),
    )
    squares = known.X.multiply(known.X).sum(axis=1)
    assert store.largest_square == squares.max() and store.largest_row == squares.argmax()
    some = store[np.array([40, 3, 3, 59])]
    some = some if isinstance(some, np.ndarray) else some.toarray()
    assert np.array_equal(some, known.X.toarray()[[40, 3, 3, 59]])
    assert os.listdir(tmp_path) == ["data"]


def test_a_kept_cache_serves_again_until_the_file_changes(tmp_path, open_store):
    X, y = examples()
    path, folder = write(tmp_path / "data", X, y), tmp_path / "cache"
    folder.mkdir()

    def opened(keep=True, **options):
        return open_store(folder, path, keep=keep, **options)[1]

    assert [opened(), opened(), opened(keep=False)] == [False, True, True]
    assert len(os.listdir(folder)) == 1
    # Other blocks may give another model than a run that finds no cache.
    assert [opened(False, block_bytes=TINY), opened(False), opened(jobs=2)] == [False, True, True]
    os.utime(path, ns=(5, 5))
    assert [opened(keep=False), opened(), opened()] == [False, False, True]
    assert len(os.listdir(folder)) == 1


def test_a_kept_cache_is_read_where_nothing_can_be_written(tmp_path, monkeypatch, open_store):
    path = write(tmp_path / "data", *examples())
    open_store(tmp_path, path, keep=True)

    def refuse(name):
        raise FileError(f"{name} cannot be written")

    monkeypatch.setattr(row_store, "check_writable", refuse)
    assert [open_store(tmp_path, path, keep=keep)[1] for keep in (True, False)] == [True, True]
    os.utime(path, ns=(5, 5))
    with pytest.raises(FileError, match="cannot be written"):
        open_store(tmp_path, path)


def test_an_older_cache_stays_until_the_new_one_is_complete(tmp_path, open_store):
    path = Path(write(tmp_path / "data", *examples()))
    open_store(tmp_path, path, keep=True)
    (cache,) = tmp_path.glob("*.odmcache")
    before = cache.read_bytes()
    path.write_text("1 1:1\n1 1:x\n")
    with pytest.raises(DataError):
        open_store(tmp_path, path, keep=True)
    assert cache.read_bytes() == before


def test_what_was_replaced_stays_for_those_who_have_opened_it(tmp_path, open_store):
    X, y = examples()
    path = write(tmp_path / "data", X, y)
    first, _ = open_store(tmp_path, path, keep=True)
    os.utime(path, ns=(5, 5))
    open_store(tmp_path, path, keep=True)
    assert np.array_equal(first.read(0)[1], y)


def test_a_damaged_cache_is_found_out(tmp_path, open_store):
    X, y = examples()
    path = write(tmp_path / "data", X, y)
    open_store(tmp_path, path, keep=True, block_bytes=TINY)
    (cache,) = tmp_path.glob("*.odmcache")
    good = cache.read_bytes()
    for place in (len(good) - 3, len(good) - 60):  # the footer: written anew
        cache.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        assert not open_store(tmp_path, path, block_bytes=TINY)[1]
    for end in (1, 30, 400, 1000, len(good) - 10):
        cache.write_bytes(good[:end])
        assert not open_store(tmp_path, path, block_bytes=TINY)[1]
    cache.write_bytes(good[:-48] + b"\xff" * 48)  # a length that no file has
    assert not open_store(tmp_path, path, block_bytes=TINY)[1]
    cache.write_bytes(good[:400] + bytes([good[400] ^ 1]) + good[401:])
    store, was_known = open_store(tmp_path, path, block_bytes=TINY)
    assert was_known
    with pytest.raises(DataError, match="cache is damaged"):
        for k in range(len(store.blocks)):
            store.read(k)


def test_a_cache_of_somebody_else_is_not_used(tmp_path, open_store):
    """Nor is anything written where a link leads, and the same size and time do not deceive."""
    path = Path(write(tmp_path / "data", *examples()))

    def opened():
        return open_store(tmp_path, path, keep=True)[1]

    assert [opened(), opened()] == [False, True]
    (cache,) = tmp_path.glob("*.odmcache")
    assert cache.stat().st_mode & 0o777 == 0o600
    cache.chmod(0o620)
    assert [opened(), opened()] == [False, True]
    (tmp_path / "precious").write_text("x")
    cache.rename(tmp_path / "elsewhere")
    for target in ("precious", "elsewhere"):
        cache.unlink(missing_ok=True)
        cache.symlink_to(target)
        assert not opened() and not cache.is_symlink()
    assert (tmp_path / "precious").read_text() == "x"
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b"1:", b"2:", 1)[: before.st_size])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not opened()


@pytest.mark.parametrize("change", [
    {"blocks": [1]}, {"blocks": [[15, 60, -1, 5, False, 0]]}, {"blocks": []}, {"counts": 1},
    {"blocks": [[15, 10**15, 10**15, 5, True, 0]]}, {"width": "5"}, {"largest_row": 10**9},
    {"counts": [[2**40, 60]]}, {"blocks": [["a", 1, 1, 1, True, 0]]},
])  # fmt: skip
def test_a_footer_that_claims_what_cannot_be(tmp_path, change, open_store):
    """It has its checksum, but was not written here: nothing is allocated for it."""
    path = write(tmp_path / "data", *examples())
    open_store(tmp_path, path, keep=True)
    (cache,) = tmp_path.glob("*.odmcache")
    content = cache.read_bytes()
    length, _ = row_store._TAIL.unpack(content[-row_store._TAIL.size :])
    end = len(content) - row_store._TAIL.size - length
    text = json.dumps(json.loads(content[end : end + length]) | change).encode()
    tail = row_store._TAIL.pack(len(text), hashlib.sha256(text).digest())
    cache.write_bytes(content[:end] + text + tail)
    assert not open_store(tmp_path, path)[1]


def test_rows_without_features_on_the_disk(run, tmp_path):
    (tmp_path / "x").write_text("1\n-1\n")
    outcome = run("train", "--cache", ".", "x", "m")
    assert outcome.code == 0 and "objective" in outcome.err


def test_a_full_disk(tmp_path, monkeypatch, open_store):
    X, y = examples()
    path = write(tmp_path / "data", X, y)

    def full(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(row_store, "_write", full)
    with pytest.raises(FileError, match="^the cache in the folder .*: cannot be written: No space"):
        open_store(tmp_path, path)
    monkeypatch.undo()
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb", buffering=0) as stream, pytest.raises(OSError):
            row_store._write(iter([read_svmlight(path)]), stream, None)
    assert os.listdir(tmp_path) == ["data"]


def test_wrong_lines_are_named_and_nothing_is_left(run, tmp_path):
    (tmp_path / "bad").write_text("1 1:1\n-1 2:1\n" * 100 + "1 1:x\n")
    outcome = run("train", "--cache", ".", "--keep-cache", "bad", "m")
    assert outcome.code == 1 and "bad:201:" in outcome.err
    assert os.listdir(tmp_path) == ["bad"]
