"""Rows and labels of an svmlight file in binary form on the disk, read block by block.

The text is parsed once. What is kept is the cache of one training run: an unnamed file that
vanishes with the process, however it ends, or, if it shall serve again, a file with a name
that appears when it is complete. Such a file is used again only for a source of the same
path, size, inode and times (that of the last change cannot be set back), and for blocks of the
same size, on which a model may depend; it is written anew otherwise. It is used only if it is
this user's and nobody else may write to it. Any number of processes may make and read it at the
same time: each writes a file of its own, and a file that has been replaced stays what it was for
those who have opened it.

Layout, in the byte order of the machine: a first line, the blocks, and a footer of JSON with
its length and SHA-256. A block holds its labels (int32) and its rows, either dense (float64)
or as entries per row (int32), columns (int32) and values (float64), whichever is smaller; its
CRC-32 stands in the footer and is checked when the block is first read. Plain reads, no memory
map: what is read does not stay in the memory of the process.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import struct
import sys
import tempfile
import threading
import zlib
from collections.abc import Iterator
from typing import IO, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, vstack

from odmtool import messages
from odmtool.core import kernels
from odmtool.core.columns import in_blocks
from odmtool.errors import DataError, FileError
from odmtool.io.files import atomic_output, check_writable, display_name, is_stream
from odmtool.io.row_labels import in_order
from odmtool.io.svmlight import BLOCK_BYTES, Dataset, csr_of, iter_svmlight, print_of_names

_FIRST_LINE = b"odmtool rows 1\n"
_TAIL = struct.Struct("=Q32s")
_ENTRY_BYTES = 12
# From this share of nonzero entries on, blocks come as arrays.
_DENSE_SHARE = 0.25


class BlockEntry(NamedTuple):
    """Where a block is, and what is in it."""

    offset: int
    rows: int
    entries: int
    width: int
    is_dense: bool
    checksum: int

    @property
    def bytes(self) -> int:
        rows = 8 * self.rows * self.width
        return 4 * self.rows + (rows if self.is_dense else 4 * self.rows + 12 * self.entries)


class RowStore:
    """The rows of a file.

    Attributes
    ----------
    shape : (int, int)
        m and d.
    names : tuple of str, or None
        The different labels, sorted, if they are words; their places are the labels then.
    counts : dict of int to int
        Label to number of examples, by first appearance.
    entries : int
        Nonzero ones.
    largest_square, largest_row : float, int
        The largest |x|^2 and the first example that has it, from 0.
    skipped : int
        Blank and comment lines of the text.
    fingerprint : str
        That of :func:`odmtool.io.svmlight.fingerprint`, for the same data.
    bytes : int
        Size on the disk.
    """

    def __init__(self, stream: IO[bytes], name: str, footer: dict, is_ours: bool = True):
        self._stream, self._name, self._lock = stream, name, threading.Lock()
        self.blocks = [BlockEntry(*fields) for fields in footer["blocks"]]
        self.starts = np.concatenate([[0], np.cumsum([b.rows for b in self.blocks])])
        self.shape = (int(self.starts[-1]), footer["width"])
        self.names, self._places_of_names = None, None
        if footer.get("names"):
            self.names, self._places_of_names = in_order(footer["names"])
        self.counts = {self._label(label): count for label, count in footer["counts"]}
        self.entries = sum(block.entries for block in self.blocks)
        self.largest_square, self.largest_row = footer["largest_square"], footer["largest_row"]
        self.skipped, self.fingerprint = footer["skipped"], footer["fingerprint"]
        self.bytes = sum(block.bytes for block in self.blocks)
        # What this process has just written is not examined again.
        self._checked = [is_ours] * len(self.blocks)

    @property
    def is_dense(self) -> bool:
        """Whether blocks come as arrays."""
        return self.entries >= _DENSE_SHARE * self.shape[0] * self.shape[1]

    def block_bytes(self) -> int:
        """What the largest block takes in memory."""
        d = self.shape[1]
        return max(8 * b.rows * d if self.is_dense else b.bytes + 8 * b.rows for b in self.blocks)

    def block_rows(self) -> int:
        """Examples of the block with most of them."""
        return max(block.rows for block in self.blocks)

    def fits(self, end: int) -> bool:
        """Whether what the footer says can be so in ``end`` bytes, one block after the other."""
        offset, (m, d) = len(_FIRST_LINE), self.shape
        for block in self.blocks:
            numbers = [value for value in block if not isinstance(value, bool)]
            if any(not isinstance(value, int) or value < 0 for value in numbers):
                return False
            if block.offset != offset or block.rows == 0 or block.width > d:
                return False
            offset += block.bytes
        is_label = all(-(2**31) <= label < 2**31 for label in self.counts)
        return offset == end and sum(self.counts.values()) == m > self.largest_row >= 0 and is_label

    def labels(self, k: int) -> np.ndarray:
        """Labels of block k, int64."""
        block = self.blocks[k]
        return self._label(self._array(block.offset, block.rows, np.int32).astype(np.int64))

    def read(self, k: int) -> tuple[csr_matrix | np.ndarray, np.ndarray]:
        """Rows and labels (int64) of block k; for any thread.

        Raises DataError: the block is not what was written.
        """
        block, d = self.blocks[k], self.shape[1]
        labels, arrays = self._parts(k)
        if block.is_dense:
            (table,) = arrays
            table = table.reshape(block.rows, block.width)
            if block.width < d:
                table = np.pad(table, ((0, 0), (0, d - block.width)))
            X = table if self.is_dense else csr_matrix(table)
        else:
            X = csr_of(*arrays, d).matrix()
            X = X.toarray() if self.is_dense else X
        return X, self._label(labels.astype(np.int64))

    def __getitem__(self, rows: np.ndarray) -> csr_matrix | np.ndarray:
        """Some of the rows, in the order in which they are named; one pass."""
        order = np.argsort(rows, kind="stable")
        wanted, parts = np.asarray(rows)[order], [self.read(0)[0][:0]]
        parts += [self.read(k)[0][chosen] for k, chosen in in_blocks(wanted, self.starts)]
        chosen = np.concatenate(parts) if self.is_dense else vstack(parts, format="csr")
        if np.array_equal(wanted, rows):
            return chosen
        return chosen[np.argsort(order)]

    def widest_example(self) -> int | None:
        """The first example with the last feature, from 1; None if that is zero everywhere."""
        for k, block in enumerate(self.blocks):
            if block.width == self.shape[1] and not block.is_dense:
                columns = self._field(k, "columns")
                at = np.flatnonzero(columns == block.width - 1)[:1]
                if at.size:
                    ends = np.cumsum(self._field(k, "counts"))
                    row = np.searchsorted(ends, at[0], side="right")
                    return int(self.starts[k] + row) + 1
        return None

    def compute_fingerprint(self) -> str:
        """What :func:`odmtool.io.svmlight.fingerprint` says of the same data; three sweeps."""
        digest, ends = hashlib.sha256(), 0
        for k in range(len(self.blocks)):
            digest.update(self.labels(k))
        digest.update(np.zeros(1, np.int64))
        for k in range(len(self.blocks)):
            row_ends = ends + np.cumsum(self._field(k, "counts"), dtype=np.int64)
            digest.update(row_ends)
            ends = int(row_ends[-1])
        for name in ("columns", "values"):
            for k in range(len(self.blocks)):
                digest.update(self._field(k, name))
        digest.update(print_of_names(self.names))
        return f"sha256:{digest.hexdigest()}"

    def close(self) -> None:
        """Give the file back; an unnamed one is gone."""
        self._stream.close()

    def _label(self, written):
        """The label, or the labels, of what is written for it."""
        if self._places_of_names is None:
            return written
        places = self._places_of_names[written]
        return places if isinstance(written, np.ndarray) else int(places)

    def _array(self, offset: int, count: int, dtype) -> np.ndarray:
        array = np.empty(count, dtype)
        with self._lock:
            try:
                self._stream.seek(offset)
                size = self._stream.readinto(memoryview(array).cast("B")) if count else 0
            except OSError as error:
                raise FileError(messages.cannot_read(self._name, error.strerror)) from None
        if size != array.nbytes:
            raise DataError(messages.cache_damaged(), self._name)
        return array

    def _field(self, k: int, name: str) -> np.ndarray:
        """Counts, columns or values of the entries of block k."""
        block, places = self.blocks[k], self._places(k)
        if not block.is_dense:
            return self._array(*places[name])
        table = self._array(*places["table"]).reshape(block.rows, block.width)
        if name == "counts":
            return np.count_nonzero(table, axis=1).astype(np.int32)
        return np.nonzero(table)[1].astype(np.int32) if name == "columns" else table[table != 0]

    def _places(self, k: int) -> dict[str, tuple]:
        """Offset, length and type of each array of block k, in their order."""
        block, offset, places = self.blocks[k], self.blocks[k].offset, {}
        sizes = {"labels": (block.rows, np.int32)}
        if block.is_dense:
            sizes["table"] = block.rows * block.width, np.float64
        else:
            sizes["counts"], sizes["columns"] = (block.rows, np.int32), (block.entries, np.int32)
            sizes["values"] = block.entries, np.float64
        for name, (count, dtype) in sizes.items():
            places[name] = offset, count, dtype
            offset += count * np.dtype(dtype).itemsize
        return places

    def _parts(self, k: int) -> tuple[np.ndarray, list[np.ndarray]]:
        arrays = [self._array(*place) for place in self._places(k).values()]
        if not self._checked[k]:
            if not _is_whole(self.blocks[k], arrays):
                raise DataError(messages.cache_damaged(), self._name)
            self._checked[k] = True
        return arrays[0], arrays[1:]


def _is_whole(block: BlockEntry, arrays) -> bool:
    """Whether a block has its checksum, and only columns that there are."""
    if _checksum(arrays) != block.checksum:
        return False
    if block.is_dense:
        return True
    _labels, counts, columns, _values = arrays
    is_counted = counts.min() >= 0 and counts.sum(dtype=np.int64) == block.entries
    in_range = not len(columns) or 0 <= columns.min() <= columns.max() < block.width
    return bool(is_counted and in_range)


def _checksum(arrays) -> int:
    checksum = 0
    for array in arrays:
        checksum = zlib.crc32(np.ascontiguousarray(array), checksum)
    return checksum


# ---- making one --------------------------------------------------------------


def open_store(
    folder: str | os.PathLike, source: str | os.PathLike, *, zero_based: bool = False,
    keep: bool = False, jobs: int = 1, block_bytes: int = 4 * BLOCK_BYTES, compiled: bool = True,
) -> tuple[RowStore, bool]:  # fmt: skip
    """The rows of a file: those that were kept in the folder, or parsed anew.

    Raises DataError, FileError.

    Parameters
    ----------
    folder : str
        Where there is space for them. It must exist.
    source : str
        As for :func:`odmtool.io.svmlight.read_svmlight`.
    zero_based, jobs
        The same.
    keep : bool
        Whether a new file gets a name, for later runs. Not for streams.
    block_bytes : int
        About so much text makes a block.
    compiled : bool
        As for :func:`odmtool.io.svmlight.iter_svmlight`.

    Returns
    -------
    RowStore
    bool
        Whether it was there already.
    """
    identity = _identity(source, zero_based, block_bytes)
    path = None if identity is None else os.path.join(folder, _file_name(identity))
    with contextlib.suppress(OSError):
        if path and (known := _known(path, identity)):
            return known, True
    # What is only read may lie where nothing can be written.
    check_writable(path or os.path.join(folder, "cache"))
    blocks = iter_svmlight(
        source, zero_based=zero_based, jobs=jobs, block_bytes=block_bytes, compiled=compiled
    )
    if keep and path is not None:
        # An older cache, or what somebody put in its place, leads nowhere and lends nothing; it
        # is there until the new one is complete.
        with atomic_output(path, binary=True, inherits=False) as stream:
            os.fchmod(stream.fileno(), 0o600)
            _write(blocks, stream, identity)
        try:
            store = _known(path, identity)
        except OSError as error:
            reason = error.strerror or str(error)
            raise FileError(messages.cannot_read(display_name(path), reason)) from None
        if store is None:
            raise DataError(messages.cache_damaged(), display_name(path))
        return store, False
    shown = messages.cache_in(os.fspath(folder))
    try:
        with contextlib.ExitStack() as stack:
            stream = stack.enter_context(tempfile.TemporaryFile(dir=folder))
            store = RowStore(stream, shown, _write(blocks, stream, identity))
            stack.pop_all()
        return store, False
    except OSError as error:
        raise FileError(messages.cannot_write(shown, error.strerror)) from None


def _identity(source, zero_based: bool, block_bytes: int) -> dict | None:
    """What must be the same for rows to be used again; None for a stream."""
    if is_stream(source):
        return None
    try:
        status = os.stat(source)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return {
        "path": os.path.realpath(source), "size": status.st_size, "inode": status.st_ino,
        "times": [status.st_mtime_ns, status.st_ctime_ns],
        "zero_based": zero_based, "byte_order": sys.byteorder, "block_bytes": block_bytes,
    }  # fmt: skip


def _file_name(identity: dict) -> str:
    """One name for every version of a file, so that the next replaces the last."""
    place = f"{identity['path']}\0{identity['zero_based']}"
    digest = hashlib.sha256(os.fsencode(place)).hexdigest()
    return f"{os.path.basename(identity['path'])}.{digest[:12]}.odmcache"


def _known(path: str, identity: dict) -> RowStore | None:
    """The rows in a file, if it is whole and of this source; OSError if it cannot be read."""
    with contextlib.ExitStack() as stack:
        try:
            stream = stack.enter_context(open(path, "rb", opener=_open_own))
            if stream.read(len(_FIRST_LINE)) != _FIRST_LINE:
                return None
            stream.seek(-_TAIL.size, os.SEEK_END)
            end = stream.tell()
            length, digest = _TAIL.unpack(stream.read())
            if length > end:
                return None  # a cut file, where something else stands in this place
            stream.seek(end - length)
            text = stream.read(length)
            if hashlib.sha256(text).digest() != digest:
                return None
            footer = json.loads(text)
            if footer["source"] != identity:
                return None
            store = RowStore(stream, display_name(path), footer, is_ours=False)
            if not store.fits(end - length):
                return None
        except _WRONG:
            return None
        stack.pop_all()
        return store


_WRONG = (
    struct.error, ValueError, TypeError, LookupError, ArithmeticError, AttributeError,
    RecursionError,
)  # fmt: skip
"""What a footer can cause that was not written here."""


def _open_own(path: str, flags: int) -> int:
    """Open a file of this user that nobody else may write to, and no link; else OSError."""
    descriptor = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))
    status = os.fstat(descriptor)
    owner = os.geteuid() if hasattr(os, "geteuid") else status.st_uid
    if status.st_uid != owner or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        os.close(descriptor)
        raise PermissionError(path)
    return descriptor


def _write(blocks: Iterator[Dataset], stream: IO[bytes], identity: dict | None) -> dict:
    """Write all blocks and the footer, which is returned."""
    stream.write(_FIRST_LINE)
    written, counts, skipped, width, offset = [], {}, 0, 0, len(_FIRST_LINE)
    largest, row, start = -1.0, 0, 0
    names = None
    for data in blocks:
        names = data.names
        squares = kernels.diagonal(kernels.Kernel("linear"), data.X)
        squares = np.where(np.isfinite(squares), squares, np.inf)
        if squares.max() > largest:
            largest, row = float(squares.max()), start + int(squares.argmax())
        values, first, many = np.unique(data.labels, return_index=True, return_counts=True)
        for k in np.argsort(first):
            counts[int(values[k])] = counts.get(int(values[k]), 0) + int(many[k])
        block, arrays = _block(data, offset)
        for array in arrays:
            if array.size:
                stream.write(memoryview(np.ascontiguousarray(array)).cast("B"))
        written.append(block)
        offset, start = offset + block.bytes, start + block.rows
        skipped, width = skipped + data.skipped, max(width, data.X.shape[1])
    footer = {
        "blocks": written, "width": width, "counts": list(counts.items()), "skipped": skipped,
        "largest_square": largest, "largest_row": row, "source": identity,
        "fingerprint": "", "names": names,
    }  # fmt: skip
    stream.flush()
    with open(os.dup(stream.fileno()), "rb") as back:
        footer["fingerprint"] = RowStore(back, "", footer).compute_fingerprint()
    text = json.dumps(footer).encode()
    stream.seek(offset)
    stream.write(text + _TAIL.pack(len(text), hashlib.sha256(text).digest()))
    stream.flush()
    return footer


def _block(data: Dataset, offset: int) -> tuple[BlockEntry, list[np.ndarray]]:
    """What is written for a block: its place, and its arrays."""
    X, (rows, width) = data.X, data.X.shape
    is_dense = 8 * rows * width < _ENTRY_BYTES * X.nnz + 4 * rows
    labels = data.labels.astype(np.int32)
    if is_dense:
        arrays = [labels, X.toarray()]
    else:
        counts = np.diff(X.indptr).astype(np.int32)
        arrays = [labels, counts, X.indices.astype(np.int32, copy=False), X.data]
    return BlockEntry(offset, rows, int(X.nnz), width, is_dense, _checksum(arrays)), arrays
