"""Read svmlight files (LIBSVM's and LIBLINEAR's format) into sparse matrices.

A line is ``label index:value index:value ...``; :mod:`odmtool.io._line` has the
grammar. The file is read in blocks of whole lines. Small inputs go through
:mod:`odmtool.io._plain`, large ones through the compiled :mod:`odmtool.io._scan`,
in several threads if wanted; both accept the same lines and give the same bits.
The first error of the file is the one that is reported, in the same words.

Entries whose value is zero (as written, or because it is too small for a double)
are not stored: they change no kernel, and a file with many of them would be slow.
They do count for the width of the matrix, as LIBSVM counts them.
"""

from __future__ import annotations

import math
import os
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np

from odmtool import messages
from odmtool.core.csr import CSR, scipy_rows
from odmtool.core.memory import give_back
from odmtool.errors import DataError, FileError, MemoryLimitError, NoRowsError, UsageError
from odmtool.io import _plain
from odmtool.io._line import Grammar, parse_line
from odmtool.io._part import ParsedLines, WrongLine
from odmtool.io.checksum import Checksum
from odmtool.io.files import Unread, display_name, is_stream, open_input
from odmtool.io.row_labels import RowLabels, WrongLabel, from_first_row, in_order

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

BLOCK_BYTES = 1 << 20
READ_BYTES = 1 << 16
AT_ONCE = 1
"""As the size of a block: every line is handed on when it has arrived."""
PLAIN_BYTES = 16 << 20  # up to here, loading numba takes longer than reading without it
LONGEST_LINE = 1 << 28
_ROW_BYTES, _ENTRY_BYTES = 16, 12


class Dataset(NamedTuple):
    """Examples and their labels."""

    # Shape (m, d), float64; indices ascend within a row, none is zero. Column j holds index j + 1,
    # with ``zero_based`` index j. For a precomputed kernel column 0 holds the serial and column j
    # the value of index j.
    rows: CSR | csr_matrix
    # Shape (m,), int64 within the range of int32; float64 with ``real_labels``. Of words their
    # places in ``names``.
    labels: np.ndarray
    skipped: int  # blank and comment lines
    # The different labels if they are words; of a whole file they are sorted, of its blocks they
    # stand in the order in which they come and become more.
    names: Sequence[str] | None = None

    @property
    def X(self) -> csr_matrix:
        """The rows as a matrix of SciPy."""
        return scipy_rows(self.rows)


def read_svmlight(
    path: str | os.PathLike, *, zero_based: bool = False, real_labels: bool = False,
    precomputed: bool = False, n_features: int | None = None, jobs: int = 1,
    memory: float = math.inf,
) -> Dataset:  # fmt: skip
    """Read a whole file.

    Parameters
    ----------
    path : str
        A file, ``-`` for stdin; plain or compressed with gzip, bzip2 or xz.
    zero_based : bool
        Indices start at 0, not 1.
    real_labels : bool
        Labels that are numbers may be any finite ones, not only integers of 32 bits.
    precomputed : bool
        Every row starts with ``0:serial``, a whole number from 1.
    n_features : int, optional
        The smallest width that X shall have. A larger index makes it wider.
    jobs : int
        Threads that read a large file; 0 or less means all processors.
    memory : float
        The most bytes that the matrix may take.

    Raises
    ------
    MemoryLimitError
        It takes more.
    DataError
        The first wrong line, with its number; no examples at all; or the
        compressed data are corrupt.
    FileError
        The file cannot be opened or read.
    """
    grammar = _grammar(zero_based, real_labels, precomputed)
    labels = _Column(np.float64 if real_labels else np.int64)
    counts, columns, values = _Column(np.int32), _Column(np.int32), _Column(np.float64)
    skipped, width = 0, n_features or 0
    of_rows = RowLabels()
    for part in _parts(path, grammar, BLOCK_BYTES, jobs, of_rows):
        labels.extend(part.labels)
        counts.extend(part.counts)
        columns.extend(part.columns)
        values.extend(part.values)
        skipped += part.skipped
        width = max(width, part.width)
        needed = _ROW_BYTES * labels.size + _ENTRY_BYTES * values.size + of_rows.bytes
        if needed > memory:
            raise MemoryLimitError(messages.data_too_large(needed, memory))
    X = csr_of(counts.finish(), columns.finish(), values.finish(), width)
    names, numbers = None, labels.finish()
    if of_rows.names:
        names, places = in_order(of_rows.names)
        numbers = places[numbers.astype(np.int64, copy=False)]
    return Dataset(X, numbers, skipped, names)


def iter_svmlight(
    path: str | os.PathLike, *, zero_based: bool = False, real_labels: bool = False,
    precomputed: bool = False, any_serial: bool = False, n_features: int | None = None,
    jobs: int = 1, block_bytes: int = 4 * BLOCK_BYTES, labels: RowLabels | None = None,
    compiled: bool = True, unread: Unread | None = None,
) -> Iterator[Dataset]:  # fmt: skip
    """Read a file in blocks of rows; the memory used does not depend on its length.

    Parameters as :func:`read_svmlight`, whose errors are raised when the reading
    comes to them. ``block_bytes`` is about how much text makes a block; with ``AT_ONCE`` a block
    is what has arrived, and may have no row. Else every block has at least one row. Its width
    is its own if that is larger than ``n_features``. ``labels`` may allow that they are missing.
    Without ``compiled`` all goes through the slow reader, which takes less memory.
    ``unread`` is the file if it has been opened. With ``any_serial`` that of precomputed rows may
    be any finite number.
    """
    grammar = _grammar(zero_based, real_labels, precomputed)._replace(any_serial=any_serial)
    labels = labels or RowLabels()
    parts = _parts(path, grammar, block_bytes, jobs, labels, compiled, unread)

    def dataset(part: ParsedLines) -> Dataset:
        X = csr_of(part.counts, part.columns, part.values, max(part.width, n_features or 0))
        numbers = part.labels if real_labels else part.labels.astype(np.int64)
        return Dataset(X, numbers, part.skipped, labels.names or None)

    if block_bytes == AT_ONCE:
        yield from map(dataset, parts)
        return
    held = None
    for part in parts:
        if held is not None and len(held.labels) and len(part.labels):
            yield dataset(held)
            held = part
        elif held is not None:
            skipped = held.skipped + part.skipped
            held = (part if len(part.labels) else held)._replace(skipped=skipped)
        else:
            held = part
    yield dataset(held)


def estimated_bytes(path: str | os.PathLike, limit: float) -> float:
    """About what the matrix of a file takes in memory, by its first lines; 0 for a stream.

    Compressed files need not be as their first lines: one that seems to take more than half of
    ``limit`` is read to its end, or until it has taken more.
    """
    if is_stream(path) or not os.path.isfile(path):
        return 0.0
    with open_input(path) as stream:
        text, size = stream.read(BLOCK_BYTES), _regular_size(stream)
        found = _matrix_bytes(text)
        if size or not text:
            return size / max(1, len(text)) * found
        length = os.path.getsize(path)
        if length / max(1, stream.raw.taken) * found <= limit / 2:
            return found
        while found <= limit and (text := stream.read1(BLOCK_BYTES)):
            found += _matrix_bytes(text)
        return max(found, length / stream.raw.taken * found) if found > limit else found


def _matrix_bytes(text: bytes) -> float:
    return _ENTRY_BYTES * text.count(b":") + _ROW_BYTES * text.count(b"\n")


def write_svmlight(stream: IO[str], X: CSR | csr_matrix, labels, first_index: int = 1) -> None:
    """Write stored entries with 17 digits, which read back to the same doubles.

    ``first_index`` is the index of column 0; 0 for a precomputed kernel.
    """
    from scipy.sparse import csr_matrix

    X = csr_matrix(scipy_rows(X))
    indices = (X.indices.astype(np.int64) + first_index).tolist()
    values, ends = X.data.tolist(), X.indptr.tolist()
    for row, label in enumerate(np.asarray(labels).tolist()):
        pairs = zip(
            indices[ends[row] : ends[row + 1]], values[ends[row] : ends[row + 1]], strict=True
        )
        stream.write(" ".join([f"{label:.17g}", *map("%d:%.17g".__mod__, pairs)]) + "\n")


def fingerprint(dataset: Dataset) -> str:
    """``sha256:<hex>`` of labels, row ends, columns and values: the same data, the same text."""
    digest = Checksum()
    labels = dataset.labels
    for array, dtype in (
        (labels, "<f8" if labels.dtype.kind == "f" else "<i8"),
        (dataset.rows.indptr, "<i8"),
        (dataset.rows.indices, "<i4"),
        (dataset.rows.data, "<f8"),
    ):
        digest.update(np.ascontiguousarray(array, dtype))
    digest.update(print_of_names(dataset.names))
    return f"sha256:{digest.hexdigest()}"


def print_of_names(names: Sequence[str] | None) -> bytes:
    """What the fingerprint of data has of the words that are labels; nothing of numbers."""
    return "\n".join(names or ()).encode()


# ---- from parts to matrices --------------------------------------------------


class _Column:
    """An array that grows at its end.

    Growing is realloc, which moves large arrays without a copy (Linux remaps
    their pages), so the memory used stays close to the size of the array.
    """

    def __init__(self, dtype):
        self._array, self.size = np.empty(0, dtype), 0

    def extend(self, part: np.ndarray) -> None:
        end = self.size + len(part)
        if end > len(self._array):
            self._array.resize(end + end // 16 + BLOCK_BYTES // 16, refcheck=False)
        self._array[self.size : end] = part
        self.size = end

    def finish(self) -> np.ndarray:
        self._array.resize(self.size, refcheck=False)
        return self._array


def csr_of(counts: np.ndarray, columns: np.ndarray, values: np.ndarray, width: int) -> CSR:
    """The matrix around these arrays, which are neither copied nor examined."""
    # Products take indices and row ends of equal types.
    few = len(values) <= np.iinfo(np.int32).max
    indptr = np.zeros(len(counts) + 1, np.int32 if few else np.int64)
    np.cumsum(counts, dtype=indptr.dtype, out=indptr[1:])
    columns = columns.astype(indptr.dtype, copy=False)
    return CSR(values, columns, indptr, (len(counts), width))


# ---- from files to parts -----------------------------------------------------


def _grammar(zero_based: bool, real_labels: bool, precomputed: bool) -> Grammar:
    if zero_based and precomputed:
        raise UsageError(messages.zero_based_precomputed())
    return Grammar(zero_based, real_labels, precomputed)


def _parts(
    path, grammar: Grammar, block_bytes: int, jobs: int, labels: RowLabels, compiled: bool = True,
    unread: Unread | None = None,
) -> Iterator[ParsedLines]:
    """The blocks of a file in their order, up to the first error."""
    name = display_name(path)
    lines, rows = 0, 0
    with open_input(path, unread) as stream:
        size = _regular_size(stream)
        parts = _in_order(_tasks(stream, grammar, block_bytes, labels, compiled), jobs)
        try:
            for part in parts:
                lines += part.skipped + len(part.labels)
                rows += len(part.labels)
                yield part
        except DataError as error:
            if error.file is None:
                error.file, error.line = name, lines + 1
            raise
        except WrongLine as wrong:
            parse_line(wrong.line, lines + wrong.before + 1, name, grammar)
            raise
        except WrongLabel as wrong:
            sentence = messages.wrong_format(lines + 1, wrong.sentence)
            raise DataError(sentence, name, lines + 1) from None
        if _regular_size(stream) < size:
            raise DataError(messages.shortened_while_read(), name)
    if rows == 0:
        raise NoRowsError(messages.no_rows(lines), name)


def _tasks(
    stream, grammar: Grammar, block_bytes: int, labels: RowLabels, compiled: bool
) -> Iterator[tuple]:
    """For every block, the function that reads it and its arguments."""
    size = _regular_size(stream)
    read_block = _plain.read_block
    seen, blocks = 0, _blocks(stream, block_bytes)
    for block in from_first_row(blocks) if labels.may_miss else blocks:
        seen += len(block)
        is_large = compiled and max(seen, size) > PLAIN_BYTES
        if is_large and read_block is _plain.read_block:
            from odmtool.io import _scan

            read_block = _scan.read_block
        text, wrong = labels.integers(block)
        yield read_block, text, grammar
        if wrong is not None:
            yield _refuse, wrong
            return


def _refuse(wrong: WrongLabel):
    raise wrong


def _regular_size(stream) -> int:
    """The size of an uncompressed regular file, 0 if it is not known."""
    with suppress(OSError, ValueError):
        status = os.fstat(stream.fileno())
        if stat.S_ISREG(status.st_mode):
            return status.st_size
    return 0


def _blocks(stream, block_bytes: int) -> Iterator[bytes]:
    """Cut a stream into blocks of whole lines, each ended by LF."""
    pieces, length = [], 0
    size = READ_BYTES if block_bytes == AT_ONCE else block_bytes
    try:
        while data := stream.read1(size):
            pieces.append(data)
            length += len(data)
            if b"\0" in data:
                break  # an error anyway; an endless stream of zeros has no lines
            if length > LONGEST_LINE and b"\n" not in data:
                raise DataError(messages.line_too_long(LONGEST_LINE))
            if length >= block_bytes and b"\n" in data:
                text = b"".join(pieces)
                end = text.rfind(b"\n") + 1
                yield text[:end]
                pieces, length = [text[end:]], len(text) - end
    except (DataError, FileError):
        # An error in the lines before comes first.
        text = b"".join(pieces)
        if b"\n" in text:
            yield text[: text.rfind(b"\n") + 1]
        raise
    text = b"".join(pieces)
    if text:
        yield text if text.endswith(b"\n") else text + b"\n"


def _in_order(tasks: Iterator[tuple], jobs: int) -> Iterator:
    """The results of the tasks in their order; an error comes after the results before it."""
    jobs = jobs if jobs > 0 else os.cpu_count() or 1
    if jobs == 1:
        for function, *arguments in tasks:
            yield function(*arguments)
        return
    from concurrent.futures import ThreadPoolExecutor

    waiting: deque = deque()
    failure = None
    with ThreadPoolExecutor(jobs) as pool:
        try:
            for function, *arguments in tasks:
                if function is _plain.read_block:  # it holds the interpreter's lock
                    yield function(*arguments)
                    continue
                waiting.append(pool.submit(function, *arguments))
                if len(waiting) > 2 * jobs:
                    yield waiting.popleft().result()
        except (DataError, FileError) as error:
            failure = error
        while waiting:
            yield waiting.popleft().result()
    give_back()
    if failure is not None:
        raise failure
