"""The attack on the readers, guided by what of them an input reaches (needs atheris).

usage: python tests/fuzz/guided.py [FILE | libFuzzer's options, such as -max_total_time=300]

The first byte of an input says whose it is, the rest is the file. What breaks a reader is kept
in findings/; given as FILE it is tried again. Inputs that reach something new are kept in
findings/corpus, from which the next run goes on.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))

# What numba compiles must stay as it is.
with atheris.instrument_imports(
    include=["odmtool.io", "odmtool.search.journal"], exclude=["odmtool.io._scan"]
):
    from fuzz.targets import Compressed, Data, Journals, Models, RangeFiles, StockModels, Weights

_KINDS = (Data, Compressed, Models, StockModels, RangeFiles, Weights, Journals)


def main() -> None:
    """Attack until libFuzzer ends; it does not return."""
    warnings.simplefilter("error")
    folder = Path(tempfile.mkdtemp(prefix="odmtool-fuzz-"))
    kinds = [kind(folder) for kind in _KINDS]
    corpus = Path("findings", "corpus")
    corpus.mkdir(parents=True, exist_ok=True)
    for number, kind in enumerate(kinds):
        for place, content in enumerate(kind.good):
            assert kind.judge(content)  # compiles what is compiled, which takes long
            (corpus / f"good-{number}-{place}").write_bytes(bytes([number]) + content)

    def judge(content: bytes) -> None:
        if content:
            kinds[content[0] % len(kinds)].judge(content[1:])

    words = sys.argv if Path(sys.argv[-1]).is_file() and len(sys.argv) > 1 else [
        *sys.argv, "-artifact_prefix=findings/", "-timeout=60", "-max_len=2000", str(corpus),
    ]  # fmt: skip
    atheris.Setup(words, judge)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
