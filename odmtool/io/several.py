"""Several files as one, each read by a worker of a cluster.

A name is a file on the workers, a pattern (``train-*.svm``), or several of these with commas
between; also addresses that fsspec reads (``s3://bucket/train-*.svm``). Files come in the
order of the names, those of a pattern in that of the alphabet. Of every file only the labels
and a few numbers come here.
"""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from odmtool import messages
from odmtool.core.columns import with_width
from odmtool.errors import DataError, FileError, NoRowsError, UsageError
from odmtool.io.files import display_name
from odmtool.io.svmlight import Dataset, fingerprint, read_svmlight
from odmtool.io.widest import Widest, widest_line

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class Several(NamedTuple):
    """What :func:`read_several` found."""

    pieces: list  # the rows of each file, a csr_matrix, where the executor keeps it
    sizes: list[int]  # their rows
    # width, nnz: columns of each, and entries of all.
    width: int
    nnz: int
    labels: np.ndarray  # integers, shape (m,): of words their places in ``names``
    skipped: int  # blank and comment lines
    fingerprint: str  # of all files; the same data in other files have another one
    names: tuple[str, ...] | None  # the different labels, sorted, if they are words
    widest: str  # the first file that is as wide as all
    empty: int = 0  # files without an example, which are left out


def is_several(name: str) -> bool:
    """Whether a name means several files, or a place that only fsspec reads."""
    return "://" in name or "," in name or glob.has_magic(name)


def read_several(names: str, executor, *, zero_based: bool = False) -> Several:
    """Have an executor's workers read files, and agree on their width.

    ``executor``: with ``map`` and ``keep_each`` (:mod:`odmtool.rows.executor`).

    Raises
    ------
    DataError, FileError
        As :func:`odmtool.io.svmlight.read_svmlight`, of the first wrong file.
    UsageError
        fsspec is missing, which Dask brings.
    """
    files = [file for found in executor.map(_matching, names.split(",")) for file in found]
    kept = executor.keep_each(_read, files, [zero_based] * len(files))
    known = executor.map(_facts, kept)
    # Programs that write in parts leave empty ones; some file has to have rows.
    has_rows = [not isinstance(facts, NoRowsError) for facts in known]
    if any(has_rows):
        files, kept, known = (list(compress(each, has_rows)) for each in (files, kept, known))
    # The first wrong file is named, whichever worker was first.
    for error in known:
        if isinstance(error, Exception):
            raise error
    labels, shapes, skipped, prints, names = zip(*known, strict=True)
    sizes, widths, nnz = zip(*shapes, strict=True)
    pieces = executor.keep_each(_widened, kept, [max(widths)] * len(kept))
    digest = hashlib.sha256(" ".join(prints).encode()).hexdigest()
    whole = prints[0] if len(prints) == 1 else f"sha256-of-{len(prints)}:{digest}"
    together, labels = _agreed(files, labels, names)
    return Several(
        pieces, list(sizes), max(widths), sum(nnz), np.concatenate(labels), sum(skipped), whole,
        together, files[widths.index(max(widths))], has_rows.count(False),
    )  # fmt: skip


def _agreed(files: list[str], labels, names):
    """All words that are labels, if any, and the labels of every file as their places."""
    for file, own in zip(files, names, strict=True):
        if (own is None) != (names[0] is None):
            sentence = messages.labels_of_files(own is None, display_name(files[0]))
            raise DataError(sentence, display_name(file))
    if names[0] is None:
        return None, labels
    together = sorted(set().union(*names))
    place = {name: k for k, name in enumerate(together)}
    return tuple(together), [
        np.array([place[name] for name in own])[codes]
        for codes, own in zip(labels, names, strict=True)
    ]


def _matching(name: str) -> list[str]:
    """The files that a name means, in order; on a worker."""
    if "://" not in name:
        found = sorted(glob.glob(name)) if glob.has_magic(name) else [name]
    else:
        system, path = _fsspec().core.url_to_fs(name)
        listed = sorted(system.glob(path)) if glob.has_magic(name) else [path]
        found = [system.unstrip_protocol(file) for file in listed]
    if not found:
        raise FileError(messages.no_file_matches(name))
    return found


def _read(name: str, zero_based: bool) -> Dataset | Exception:
    """A file, or why it cannot be read."""
    try:
        with _copy_here(name) as path:
            return read_svmlight(path, zero_based=zero_based)
    except DataError as error:
        error.file = display_name(name)
        return error
    except FileError as error:
        return error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return FileError(messages.cannot_read(display_name(name), reason))


def widest_line_of(name: str) -> Widest | None:
    """As :func:`odmtool.io.widest.widest_line`; on a worker."""
    with suppress(OSError), _copy_here(name) as path:
        return widest_line(path)
    return None


@contextmanager
def _copy_here(name: str) -> Iterator[str]:
    """A file itself, or a copy of what only fsspec reads."""
    if "://" not in name:
        yield name
        return
    from tempfile import NamedTemporaryFile

    system, path = _fsspec().core.url_to_fs(name)
    with NamedTemporaryFile() as copy:
        system.get_file(path, copy.name)
        yield copy.name


def _facts(data: Dataset | Exception):
    """Labels, rows, columns and nonzeros, lines skipped, fingerprint, names; or the error."""
    if isinstance(data, Exception):
        return data
    shape = (*data.rows.shape, data.rows.nnz)
    return data.labels, shape, data.skipped, fingerprint(data), data.names


def _widened(data: Dataset, width: int) -> csr_matrix:
    return with_width(data.X, width)


def _fsspec():
    try:
        import fsspec
    except ImportError:
        raise UsageError(messages.dask_missing()) from None
    return fsspec
