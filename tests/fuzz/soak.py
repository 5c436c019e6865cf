"""The attack for as long as you like: ``python tests/fuzz/soak.py --minutes 30``.

Prints at the end how many inputs of each kind were tried and accepted. What breaks something
is made smaller as long as it still does, kept in a file, and the command that tries it again
is printed. Every input is drawn from the seed of its round, its kind and its number.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
# BLAS threads in each of the processes would wait for one another.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

from fuzz.faults import Faults  # before odmtool
from fuzz.mutate import mutated, smaller
from fuzz.options import Options
from fuzz.targets import Compressed, Data, Journals, Models, RangeFiles, StockModels, Weights
from fuzz.traced import Traced

KINDS = {
    "data": Data, "compressed": Compressed, "models": Models, "stock": StockModels,
    "ranges": RangeFiles, "weights": Weights, "journals": Journals, "options": Options,
    "faults": Faults, "traced": Traced,
}  # fmt: skip
_LONGEST_SECONDS = 300


def drawn(kind, generator: random.Random) -> bytes:
    """An input of a kind: its own, or a good one changed."""
    if hasattr(kind, "draw"):
        return kind.draw(generator)
    return mutated(generator, generator.choice(kind.good))


class Soak:
    """Inputs of some kinds, judged one after the other; counts, and what was found.

    Parameters
    ----------
    names : list of str
    folder : Path
        Where inputs are written; empty.
    keep : Path
        Where findings are kept.
    """

    def __init__(self, names: list[str], folder: Path, keep: Path):
        self._keep, self.counts, self._kinds = keep, Counter(), {}
        for name in names:
            kind = self._kinds[name] = KINDS[name](folder)
            # Also compiles what is compiled, before a command would announce it.
            assert all(kind.judge(content) for content in getattr(kind, "good", ()))

    def round(self, seed: int) -> None:
        """A thousand inputs of all kinds; as many in proportion of some."""
        for name, kind in self._kinds.items():
            for number in range(kind.weight):
                generator = random.Random(f"{seed} {name} {number}")
                self._try(name, kind, drawn(kind, generator), f"{name}-{seed}-{number}")

    def _try(self, name: str, kind, content: bytes, title: str) -> None:
        self.counts[name, "inputs"] += 1
        signal.alarm(_LONGEST_SECONDS)
        try:
            self.counts[name, "accepted"] += kind.judge(content)
        except Exception:
            self.counts[name, "findings"] += 1
            traceback.print_exc(limit=-3, file=sys.stdout)
            self._keep.mkdir(exist_ok=True)
            file = self._keep / title
            file.write_bytes(smaller(content, lambda part: _breaks(kind, part), kind.separator))
            print(f"try again: python {sys.argv[0]} --try {name} {file}", flush=True)
        finally:
            signal.alarm(0)
            if name in ("faults", "traced") and b"KILL" in content:
                self.counts[name, "kills"] += 1


def _hang(_number, _frame) -> None:
    raise TimeoutError(f"an input took {_LONGEST_SECONDS} seconds")


def _breaks(kind, content: bytes) -> bool:
    try:
        kind.judge(content)
    except Exception:
        return True
    return False


def _work(names: list[str], seeds: range, minutes: float, keep: Path) -> tuple[Counter, int]:
    """Rounds in one process until the time is over; the counts, and how many rounds."""
    warnings.simplefilter("error")
    signal.signal(signal.SIGALRM, _hang)
    end, rounds = time.monotonic() + 60 * minutes, 0
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        soak = Soak(names, Path(folder), keep)
        for seed in seeds:
            if time.monotonic() > end:
                break
            soak.round(seed)
            rounds += 1
    return soak.counts, rounds


def main() -> int:
    """Attack until the time is over; 1 if anything broke."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0, help="of the first round")
    parser.add_argument("--rounds", type=int, default=10**9, help="at most so many")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--kinds", default=",".join(KINDS), help="some of them, with commas")
    parser.add_argument("--keep", type=Path, default=Path("findings"), help="folder of findings")
    parser.add_argument("--try", nargs=2, metavar=("KIND", "FILE"), dest="again")
    options = parser.parse_args()
    if options.again:
        name, file = options.again
        with tempfile.TemporaryDirectory() as folder:
            print(KINDS[name](Path(folder)).judge(Path(file).read_bytes()))
        return 0
    names, n = options.kinds.split(","), options.processes
    if "traced" in names and (obstacle := Traced.obstacle()):
        names.remove("traced")
        print(f"no faults are made by strace: {obstacle}")
    rounds = [range(options.seed + k, options.seed + options.rounds, n) for k in range(n)]
    with ProcessPoolExecutor(n, mp_context=get_context("fork")) as pool:
        parts = [pool.submit(_work, names, seeds, options.minutes, options.keep)
                 for seeds in rounds]  # fmt: skip
        ended = [part.result() for part in parts]
    return _told(names, options.seed, sum((counts for counts, _ in ended), Counter()),
                 sum(done for _, done in ended))  # fmt: skip


def _told(names: list[str], seed: int, counts: Counter, rounds: int) -> int:
    """Print the counts; 1 if anything broke."""
    words = "inputs", "accepted", "refused", "findings"
    print("{:>12} {:>10} {:>10} {:>10} {:>10}".format("", *words))
    for name in names:
        counts[name, "refused"] = counts[name, "inputs"] - counts[name, "accepted"]
    for name in (*names, "in all"):
        row = [sum(counts[one, word] for one in names if name in (one, "in all")) for word in words]
        print("{:>12} {:>10} {:>10} {:>10} {:>10}".format(name, *row))
    kills = sum(number for (_, word), number in counts.items() if word == "kills")
    print(f"{kills} of the faults are kills; {rounds} rounds from seed {seed}")
    return int(any(counts[name, "findings"] for name in names))


if __name__ == "__main__":
    sys.exit(main())
