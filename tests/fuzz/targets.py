"""The readers that are attacked: one changed input of a kind, and whether its reader is right.

Every kind is a class with ``good``, inputs that are accepted, ``weight``, how many of a thousand
inputs it gets, and ``judge(content)``, which says whether the content was accepted; an
AssertionError of it is a finding.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import zlib
from pathlib import Path

import model_makers as make
import numpy as np

from fuzz import references
from odmtool.core.scaling import LabelRange, Ranges
from odmtool.errors import DataError
from odmtool.io import _plain, _scan
from odmtool.io._line import Grammar
from odmtool.io._part import WrongLine
from odmtool.io.model_file import read_model
from odmtool.io.model_write import write_model
from odmtool.io.range_file import read_range, write_range
from odmtool.io.row_labels import RowLabels
from odmtool.io.svmlight import read_svmlight
from odmtool.io.weights import read_weights
from odmtool.search.journal import Fit, Writer, open_journal

_DATA = (
    b"1 1:0.5 3:-2e-3 7:1e10\n-1 2:.25\n+1\n-1 1:1 2:2 3:3 # comment\n",
    b"3 qid:1 5:1e-310 2147483647:1\r\n\n# only a comment\n2 qid:2 1:0 4:123456789.123456789\n",
    b"0 1:1\n" * 20,
    b"\t-2147483648  1:+1.5\t2:1E5 \n2147483647 10:1.7976931348623157e308\n",
    "größe 1:0.5 3:1\nx2\tqid:1 2:1 # maß\n größe\r\n\nx 1:1\n".encode(),
)


class Data:
    """Both readers of rows give exactly what the reference gives, or refuse as it does."""

    weight, separator = 400, b""
    good = _DATA

    def __init__(self, folder: Path):
        pass

    def judge(self, content: bytes) -> bool:
        block = content.removesuffix(b"\n") + b"\n"
        expected = references.examples(block)
        of_rows = RowLabels()
        text, wrong = of_rows.integers(block)
        for reader in (_plain, _scan):
            try:
                part = reader.read_block(text, Grammar())
            except WrongLine:
                assert expected is None, (reader.__name__, block)
                continue
            assert (wrong is None) == (expected is not None), (reader.__name__, block)
            if wrong is None:
                labels = _in_words(part.labels, of_rows.names)
                _compare(expected, labels, part.counts, part.columns, part.values)
        return expected is not None


class Compressed:
    """A compressed file is refused, or what Python's libraries find in it is what is read."""

    weight, separator = 80, b""
    good = tuple(
        pack(content) + again for content in _DATA
        for pack in (gzip.compress, bz2.compress, lzma.compress)
        for again in (b"", pack(content))
    )  # fmt: skip

    def __init__(self, folder: Path):
        self._path = folder / "compressed"

    def judge(self, content: bytes) -> bool:
        self._path.write_bytes(content)
        try:
            found = read_svmlight(self._path)
        except DataError:
            assert content not in self.good
            return False
        expected = references.examples(_unpacked(content).removesuffix(b"\n") + b"\n")
        assert expected is not None
        rows = found.X
        labels = _in_words(found.labels, found.names)
        _compare(expected, labels, np.diff(rows.indptr), rows.indices, rows.data)
        return True


def _unpacked(content: bytes) -> bytes:
    """What all members hold; zeros between and behind them are padding.

    BZh alone may begin a label: what is bzip2 goes on with a block or with its end.
    """
    kinds = {rb"\x1f\x8b": lambda: zlib.decompressobj(31),
             rb"BZh[1-9](1AY&SY|\x17rE8P\x90)": bz2.BZ2Decompressor,
             rb"\xfd7zXZ\0": lzma.LZMADecompressor}  # fmt: skip
    for magic, kind in kinds.items():
        if re.match(magic, content):
            text = b""
            while content:
                member = kind()
                text += member.decompress(content)
                assert member.eof
                content = member.unused_data.lstrip(b"\0")
            return text
    return content


def _in_words(labels, names) -> list:
    return [names[int(label)] for label in labels] if names else labels.tolist()


def _compare(expected: list, labels: list, counts, columns, values) -> None:
    pairs = [pair for _, pairs in expected for pair in pairs]
    wanted = np.array([value for _, value in pairs], dtype=float)
    assert labels == [label for label, _ in expected]
    assert counts.tolist() == [len(pairs) for _, pairs in expected]
    assert (columns + 1).tolist() == [index for index, _ in pairs]
    assert values.tobytes() == wanted.tobytes()


class Models:
    """A changed model is refused, unless it no longer says that it is ours."""

    weight, separator = 120, b""

    def __init__(self, folder: Path):
        self._path, rng = folder / "model", np.random.default_rng(0)
        models = [make.linear_model(rng, 2, 4), make.linear_model(rng, 3, 3, bias=1.0)]
        models += [make.kernel_model(rng, make.KERNELS["rbf"], n, n_support=6) for n in (2, 3)]
        models.append(make.precomputed_model(rng, 8))
        self.good = tuple(_written(self._path, write_model, model) for model in models)

    def judge(self, content: bytes) -> bool:
        self._path.write_bytes(content)
        try:
            read_model(str(self._path))
        except DataError:
            assert content not in self.good
            return False
        assert content in self.good or not content.partition(b"\n")[0].endswith(b" ")
        return True


class StockModels:
    """A changed model of a stock tool, which has no checksum, is refused, or is a model.

    A model can be written, and what was written is read as the same.
    """

    weight, separator = 60, b""

    def __init__(self, folder: Path):
        self._path, self._again = folder / "stock", folder / "again"
        ours = (good.partition(b"odmtool-model")[0] for good in Models(folder).good)
        self.good = tuple(good.replace(b" \n", b"\n") for good in ours)

    def judge(self, content: bytes) -> bool:
        self._path.write_bytes(content)
        try:
            model = read_model(str(self._path))
        except DataError:
            assert content not in self.good
            return False
        once = _written(self._again, write_model, model)
        assert _written(self._again, write_model, read_model(str(self._again))) == once
        return True


class RangeFiles:
    """Changed ranges are refused, or are ranges; cut ones are refused."""

    weight, separator = 110, b""

    def __init__(self, folder: Path):
        self._path = folder / "ranges"
        values = np.random.default_rng(0).normal(size=(4, 2))
        low, high, index = values.min(axis=1), values.max(axis=1), np.array([1, 2, 5, 9])
        self.good = tuple(
            _written(self._path, write_range, Ranges(-1.0, 1.0, index, low, high, labels))
            for labels in (None, LabelRange(-1.0, 1.0, 0.0, 3.0))
        )

    def judge(self, content: bytes) -> bool:
        self._path.write_bytes(content)
        try:
            ranges = read_range(str(self._path))
        except DataError:
            assert content not in self.good
            return False
        # What has no feature and no count may be svm-scale's, of data in which nothing varies.
        text = content.rstrip()
        is_cut = any(good.startswith(content) and text != good.rstrip() for good in self.good)
        assert not is_cut or not len(ranges.index)
        assert ranges.lower < ranges.upper and np.all(np.diff(ranges.index) > 0)
        assert np.all(ranges.minimum <= ranges.maximum)
        return True


class Weights:
    """What the reference reads, or the refusal."""

    weight, separator = 110, b""
    good = (
        "".join(f"{w:.6g}\n" for w in np.random.default_rng(0).random(12)).encode() + b"1 # one\n",
        b"0\n\n# none\n2.5 \r\n1e-3\n" + b"1\n" * (references.MOST_WEIGHTS - 3),
        b"7\n" * references.MOST_WEIGHTS,
    )  # fmt: skip

    def __init__(self, folder: Path):
        self._path = folder / "weights"

    def judge(self, content: bytes) -> bool:
        if content.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"PK\x03\x04")):
            return False  # says that it is compressed
        self._path.write_bytes(content)
        expected = references.weights(content)
        try:
            found = read_weights(str(self._path), references.MOST_WEIGHTS).tolist()
        except DataError:
            found = None
        assert found == expected
        return found is not None


class Journals:
    """No line that was not written is believed."""

    weight, separator = 110, b""

    def __init__(self, folder: Path):
        self._path = folder / "journal"
        self._fits = [Fit(k, k % 3, 40 + k, k / 7, 1e-3 / (k + 1), True) for k in range(9)]
        open_journal(str(self._path), {"data": "x", "seed": 0})
        with Writer(str(self._path)) as writer:
            for fit in self._fits:
                writer.write(fit)
        self.good = (self._path.read_bytes(),)

    def judge(self, content: bytes) -> bool:
        self._path.write_bytes(content)
        try:
            found = open_journal(str(self._path), {"data": "x", "seed": 0})
        except DataError:
            assert content not in self.good
            return False
        assert set(found) <= set(self._fits)
        assert content not in self.good or found == self._fits
        return True


def _written(path: Path, write, content) -> bytes:
    write(str(path), content)
    return path.read_bytes()
