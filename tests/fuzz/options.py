"""Options of odm-train, drawn at random, on eight rows."""

from __future__ import annotations

import contextlib
import io
import random
from pathlib import Path

from fuzz.mutate import TOKENS
from odmtool.cli import entry, train
from odmtool.io.model_file import read_model


class Options:
    """Whatever is asked for: a model and exit code 0, or one sentence and no model."""

    weight, separator = 15, b"\0"

    def __init__(self, folder: Path):
        self._data, self._model = folder / "rows", folder / "made"
        self._data.write_bytes(b"1 1:1 2:.5\n-1 1:-1\n1 1:2 2:1\n-1 2:-3\n" * 2)

    def draw(self, generator: random.Random) -> bytes:
        """Words with null bytes between them."""
        words = []
        for _ in range(generator.randrange(1, 4)):
            flag = generator.choice(_FLAGS)
            words += [flag, generator.choice(_VALUES)] if flag not in _BARE else [flag]
        if generator.random() < 0.1:
            token = generator.choice(TOKENS).decode("latin-1").replace("\0", "")
            words.insert(generator.randrange(len(words) + 1), token)
        return "\0".join(words).encode("utf-8", "surrogateescape")

    def judge(self, content: bytes) -> bool:
        words = content.decode("utf-8", "surrogateescape").split("\0")
        self._model.unlink(missing_ok=True)
        said, told = io.StringIO(), io.StringIO()
        command = [*words, "--max-iter", "20", str(self._data), str(self._model)]
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(told):
            code = entry.run(train.train, command, "odm-train")
        text = said.getvalue()
        assert code in (0, 1, 2, 3), (words, text)
        assert "Traceback" not in text and "Warning" not in text, (words, text)
        if code:
            assert text.splitlines()[-1].startswith("odm-train: "), (words, text)
            assert not self._model.exists(), words
        else:
            results = [line for line in text.splitlines() if not line.endswith(" is ignored")]
            assert "nan" not in "".join(results) + told.getvalue(), (words, text)
            has_model = self._model.exists()
            assert has_model or "Cross Validation" in told.getvalue() or not text, words
            if has_model:
                read_model(str(self._model))
        return code == 0


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
