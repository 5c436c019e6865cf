"""Data of the shape of SUSY: two overlapping classes with a curved boundary, Bayes accuracy known.

usage: python benchmarks/susy_like.py [--rows 5000000] [--seed 0] [--accuracy] > FILE

Each row x is drawn from a standard normal distribution in 18 dimensions and gets the label +1
with probability 1 / (1 + exp(-s(x))), else -1, where

    s(x) = a (|u|^2 - r)  with u the first 4 features: the boundary is a cylinder

plus a linear part in the next 4 and a product of two more; the other 8 say nothing. The best
classifier answers the sign of s, and is right with probability E[max(p, 1-p)], which
--accuracy prints from ten million draws. The rows are written in svmlight form, scaled to
[0, 1] by the fixed map x -> (x + 5) / 10 (clipped), with five digits.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

FEATURES = 18
_CHUNK = 50_000


def score(x: np.ndarray) -> np.ndarray:
    """The log odds of +1, shape (m,), from standard normal features (m, 18)."""
    radius = (x[:, :4] ** 2).sum(axis=1)
    return 0.8 * (radius - 3.4) + 0.6 * x[:, 4:8].sum(axis=1) + 0.7 * x[:, 8] * x[:, 9]


def chunk(seed: int, number: int, rows: int = _CHUNK):
    """Features in [0, 1], shape (rows, 18), and labels of +1 and -1 of one chunk of the stream."""
    generator = np.random.default_rng((seed, number))
    x = generator.standard_normal((rows, FEATURES))
    positive = generator.random(rows) < 1 / (1 + np.exp(-score(x)))
    features = np.round(np.clip((x + 5) / 10, 0, 1), 5)
    return features, np.where(positive, 1, -1)


def sample(rows: int, seed: int = 0):
    """Features and labels of the first rows of the stream."""
    parts = [chunk(seed, k) for k in range(-(-rows // _CHUNK))]
    X, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    return X[:rows], y[:rows]


def bayes_accuracy(draws: int = 10_000_000, seed: int = 12345) -> float:
    """E[max(p, 1-p)]; its standard error is below 0.0001."""
    total = 0.0
    for number in range(draws // _CHUNK):
        x = np.random.default_rng((seed, number)).standard_normal((_CHUNK, FEATURES))
        total += (1 / (1 + np.exp(-np.abs(score(x))))).sum()
    return total / (draws // _CHUNK * _CHUNK)


def write(rows: int, seed: int, out) -> None:
    """Write rows in svmlight form."""
    form = " ".join(["%+d", *(f"{k}:%.5g" for k in range(1, FEATURES + 1))]) + "\n"
    for number in range(-(-rows // _CHUNK)):
        X, y = chunk(seed, number)
        count = min(_CHUNK, rows - number * _CHUNK)
        table = np.column_stack([y, X])[:count].tolist()
        out.write("".join([form % tuple(row) for row in table]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--accuracy", action="store_true")
    arguments = parser.parse_args()
    if arguments.accuracy:
        print(f"{bayes_accuracy():.4f}")
    else:
        write(arguments.rows, arguments.seed, sys.stdout)


if __name__ == "__main__":
    main()
