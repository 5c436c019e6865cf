"""What is attacked, one changed input at a time; an AssertionError is a finding."""

from __future__ import annotations

import contextlib
import io
import random
from pathlib import Path

import model_makers as make
import numpy as np

from fuzz import references
from fuzz.mutate import TOKENS, mutated
from odmtool.cli import entry, train
from odmtool.core.scaling import LabelRange, Ranges
from odmtool.errors import DataError
from odmtool.io import _plain, _scan
from odmtool.io._line import Grammar
from odmtool.io._part import WrongLine
from odmtool.io.model_file import read_model
from odmtool.io.model_write import write_model
from odmtool.io.range_file import read_range, write_range
from odmtool.io.weights import read_weights
from odmtool.search.journal import Fit, Writer, open_journal

DATA = (
    b"1 1:0.5 3:-2e-3 7:1e10\n-1 2:.25\n+1\n-1 1:1 2:2 3:3 # comment\n",
    b"3 qid:1 5:1e-310 2147483647:1\r\n\n# only a comment\n2 qid:2 1:0 4:123456789.123456789\n",
    b"0 1:1\n" * 20,
    b"\t-2147483648  1:+1.5\t2:1E5 \n2147483647 10:1.7976931348623157e308\n",
)


class Attack:
    """Inputs made of good ones by one generator, in one folder.

    Parameters
    ----------
    seed : int
    folder : Path
    """

    def __init__(self, seed: int, folder: Path):
        self.random, self.folder = random.Random(seed), Path(folder)
        rng = np.random.default_rng(seed)
        models = [make.linear_model(rng, 2), make.linear_model(rng, 3, bias=1.0)]
        models += [make.kernel_model(rng, make.KERNELS["rbf"], n, n_support=6) for n in (2, 3)]
        self._models = [self._written(write_model, model) for model in models]
        values = rng.normal(size=(4, 2))
        label = LabelRange(-1.0, 1.0, 0.0, 3.0)
        self._ranges = [
            self._written(write_range, Ranges(
                -1.0, 1.0, np.array([1, 2, 5, 9]), values.min(axis=1), values.max(axis=1), labels,
            )) for labels in (None, label)
        ]  # fmt: skip
        self._weights = "".join(f"{w:.6g}\n" for w in rng.random(40)).encode() + b"1 # one\n\n2\n"
        self._fits = [Fit(k, k % 3, 40 + k, k / 7, 1e-3 / (k + 1), True) for k in range(9)]
        self._journal = self._new_journal()
        (self.folder / "data").write_bytes(b"1 1:1 2:.5\n-1 1:-1\n1 1:2 2:1\n-1 2:-3\n" * 2)

    def _written(self, write, content) -> bytes:
        path = self.folder / "good"
        write(str(path), content)
        return path.read_bytes()

    def _new_journal(self) -> bytes:
        path = self.folder / "journal"
        path.unlink(missing_ok=True)
        open_journal(str(path), {"data": "x", "seed": 0})
        with Writer(str(path)) as writer:
            for fit in self._fits:
                writer.write(fit)
        return path.read_bytes()

    def _changed(self, content: bytes) -> tuple[str, bytes]:
        path, changed = self.folder / "changed", mutated(self.random, content)
        path.write_bytes(changed)
        return str(path), changed

    # ---- targets -----------------------------------------------------------

    def data(self) -> None:
        """Both readers give exactly what the reference gives, or refuse as it does."""
        block = mutated(self.random, self.random.choice(DATA)).removesuffix(b"\n") + b"\n"
        expected = references.examples(block)
        for reader in (_plain, _scan):
            try:
                part = reader.read_block(block, Grammar())
            except WrongLine:
                assert expected is None, (reader.__name__, block)
                continue
            assert expected is not None, (reader.__name__, block)
            labels = np.array([label for label, _ in expected], dtype=float)
            pairs = [pair for _, pairs in expected for pair in pairs]
            values = np.array([value for _, value in pairs], dtype=float)
            assert part.labels.tobytes() == labels.tobytes(), block
            assert part.counts.tolist() == [len(pairs) for _, pairs in expected], block
            assert (part.columns + 1).tolist() == [index for index, _ in pairs], block
            assert part.values.tobytes() == values.tobytes(), block

    def model(self) -> None:
        """A changed model is refused, unless it no longer says that it is ours."""
        good = self.random.choice(self._models)
        path, changed = self._changed(good)
        try:
            read_model(path)
        except DataError:
            assert changed != good
            return
        assert changed == good or not changed.partition(b"\n")[0].endswith(b" "), changed

    def ranges(self) -> None:
        """Changed ranges are refused, or are ranges; cut ones are refused."""
        good = self.random.choice(self._ranges)
        path, changed = self._changed(good)
        try:
            ranges = read_range(path)
        except DataError:
            assert changed != good
            return
        # What has no feature and no count may be svm-scale's, of data in which nothing varies.
        is_cut = good.startswith(changed) and changed.rstrip() != good.rstrip()
        assert not is_cut or not len(ranges.index), changed
        assert ranges.lower < ranges.upper and np.all(np.diff(ranges.index) > 0), changed
        assert np.all(ranges.minimum <= ranges.maximum), changed

    def weights(self) -> None:
        """What the reference reads, or the refusal."""
        path, changed = self._changed(self._weights)
        if changed.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"PK\x03\x04")):
            return  # says that it is compressed
        expected = references.weights(changed)
        try:
            found = read_weights(path, 50).tolist()
        except DataError:
            found = None
        assert found == expected, changed

    def journal(self) -> None:
        """No line that was not written is believed."""
        path, changed = self._changed(self._journal)
        try:
            found = open_journal(path, {"data": "x", "seed": 0})
        except DataError:
            assert changed != self._journal
            return
        assert set(found) <= set(self._fits), changed
        assert changed != self._journal or found == self._fits

    def options(self) -> None:
        """Whatever is asked for: a model and exit code 0, or one sentence and no model."""
        words, model = [], self.folder / "model"
        for _ in range(self.random.randrange(1, 4)):
            flag = self.random.choice(_FLAGS)
            words += [flag, self.random.choice(_VALUES)] if flag not in _BARE else [flag]
        if self.random.random() < 0.1:
            token = self.random.choice(TOKENS).decode("latin-1")
            words.insert(self.random.randrange(len(words) + 1), token)
        model.unlink(missing_ok=True)
        said, told = io.StringIO(), io.StringIO()
        command = [*words, "--max-iter", "20", str(self.folder / "data"), str(model)]
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(told):
            code = entry.run(train.train, command, "odm-train")
        text = said.getvalue()
        assert code in (0, 1, 2, 3), (words, text)
        assert "Traceback" not in text and "Warning" not in text, (words, text)
        if code:
            assert text.splitlines()[-1].startswith("odm-train: "), (words, text)
            assert not model.exists(), words
        else:
            assert "nan" not in text, (words, text)
            assert model.exists() or "Cross Validation" in told.getvalue() or not text, words
            if model.exists():
                read_model(str(model))


TARGETS = {"data": 40, "model": 10, "ranges": 10, "weights": 10, "journal": 10, "options": 1}
"""How often each comes."""

_BARE = ("-q", "--verbose", "--strict", "-v", "--help", "--loo", "--zero-based")
_FLAGS = (
    *_BARE, "-s", "-t", "-l", "-c", "-m", "-p", "-g", "-d", "-r", "-B", "-e", "-w1", "--seed",
    "--power", "--memory", "--format", "-b", "--multiclass", "--folds", "-j",
)  # fmt: skip
_VALUES = (
    "0", "1", "2", "-1", "0.5", "1e-300", "1e300", "1e308", "1e309", "2^4", "2^9999", "1/3", "1/0",
    "nan", "inf", "", "x", "9" * 30, "odm", "svm", "rbf", "poly", "linear", "libsvm", "liblinear",
    "compact", "ovr", "ovo", "1M", "-", "--", "0x10", "\udcff",
)  # fmt: skip
