"""The attack for as long as you like: ``python tests/fuzz/soak.py --minutes 30``.

Prints how many inputs of each kind were tried; what breaks something is kept in a file, and
the seed and number with which it comes again are named.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.targets import TARGETS, Attack

_ROUND = 2000


def main() -> int:
    """Attack until the time is over; 1 if anything broke."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("error")
    end, seed, tried, broken = time.monotonic() + 60 * options.minutes, options.seed, Counter(), 0
    names, shares = list(TARGETS), list(TARGETS.values())
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            attack, chosen = Attack(seed, Path(folder)), random.Random(seed)
            for number in range(_ROUND):
                (target,) = chosen.choices(names, shares)
                tried[target] += 1
                try:
                    getattr(attack, target)()
                except Exception:
                    broken += 1
                    print(f"seed {seed}, number {number}, {target}:")
                    traceback.print_exc(limit=-3, file=sys.stdout)
            seed += 1
    print(", ".join(f"{tried[name]} {name}" for name in names), f"in all {tried.total()}")
    print(f"{broken} findings")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
