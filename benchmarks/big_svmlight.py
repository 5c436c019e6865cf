"""A large sparse svmlight file, written at the speed of the disk: what training from it takes.

usage: python benchmarks/big_svmlight.py [--gigabytes 4] [--seed 0] > FILE

then

    /usr/bin/time -v odm-train --cache DIR --memory 1G --verbose FILE MODEL

A row has 50 features out of 900 (indices 100 to 999, one out of every 18 in a row), with values
k / 10000 for a random k of 1 to 9999. Its label is the sign of a fixed linear function of them
plus as much noise as leaves about 86 % of the labels to the function. All rows are 553 bytes
long, so that a table of characters holds many of them.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

TOKENS, CHOICES, FIRST = 50, 18, 100
_TOKEN = b" 000:0.0000"
_ROW = 3 + TOKENS * len(_TOKEN)
_CHUNK = 20_000
_NOISE = 0.5


def rows(seed: int, number: int, count: int = _CHUNK):
    """Indices and values x 10000, int arrays of shape (count, 50), and labels of one chunk."""
    generator = np.random.default_rng((seed, number))
    strata = FIRST + CHOICES * np.arange(TOKENS)
    index = strata + generator.integers(0, CHOICES, (count, TOKENS), dtype=np.uint16)
    value = generator.integers(1, 10_000, (count, TOKENS), dtype=np.uint16)
    w = np.random.default_rng(seed).standard_normal(FIRST + CHOICES * TOKENS)
    score = np.einsum("ij,ij->i", w[index], value / 10_000) - w[FIRST:].mean() * TOKENS / 2
    noisy = score + _NOISE * score.std() * generator.standard_normal(count)
    return index.astype(np.uint16), value, np.where(noisy > 0, 1, -1)


def text(seed: int, number: int, count: int = _CHUNK) -> np.ndarray:
    """The characters of a chunk, shape (count, 553)."""
    index, value, label = rows(seed, number, count)
    table = np.empty((count, _ROW), np.uint8)
    table[:, 0] = np.where(label > 0, ord("+"), ord("-"))
    table[:, 1], table[:, -1] = ord("1"), ord("\n")
    tokens = table[:, 2:-1].reshape(count, TOKENS, len(_TOKEN))
    tokens[:] = np.frombuffer(_TOKEN, np.uint8)
    for numbers, places in ((index, (3, 2, 1)), (value, (10, 9, 8, 7))):
        for place in places:
            numbers, digit = np.divmod(numbers, np.uint16(10))
            tokens[:, :, place] += digit.astype(np.uint8)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    left, number = round(arguments.gigabytes * 1e9 / _ROW), 0
    while left > 0:
        count = min(left, _CHUNK)
        sys.stdout.buffer.write(text(arguments.seed, number, count))
        left, number = left - count, number + 1


if __name__ == "__main__":
    main()
