"""Error-correcting output codes: each class is a word of signs, each letter a binary problem.

Code        of up to 7 classes all 2^(k-1) - 1 ways to cut them in two. Of more, 10 log2 k of
            these, drawn by the seed so often that the smallest distance of two words, the
            number of letters in which they differ, comes out large.
Decoding    the class whose word M_l agrees most with the values of the problems, f:
            f_l = mean over s of M_ls f_s. For words of signs this is the loss-based decoding
            with the square loss, as sum_s (1 - M_ls f_s)^2 = const - 2 sum_s M_ls f_s. The
            problems so become one function per class, which decoding by the signs of f
            (Hamming) would not give: it has many ties, and no score of a class is linear in x.
Source      Dietterich & Bakiri, "Solving multiclass learning problems via error-correcting
            output codes", JAIR 1995; Allwein, Schapire & Singer, "Reducing multiclass to
            binary", JMLR 2000.
"""

from __future__ import annotations

import math

import numpy as np

_MOST_EXHAUSTIVE = 7
# Up to so many classes random letters are drawn among all, none twice.
_MOST_LISTED = 11
# Operations that may be spent on distances, and codes that are compared at most.
_OPERATIONS, _MOST_DRAWS = 1e9, 1000


def code(k: int, seed: int) -> np.ndarray:
    """The words of k > 2 classes: +1.0 and -1.0, shape (k, letters)."""
    if k <= _MOST_EXHAUSTIVE:
        return _exhaustive(k)
    generator, letters = np.random.default_rng(seed), length(k)
    draws = int(np.clip(_OPERATIONS / (k * k * letters), 10, _MOST_DRAWS))
    drawn = (_drawn(k, letters, generator) for _ in range(draws))
    return max(drawn, key=smallest_distance)


def length(k: int) -> int:
    """The number of letters, so of binary problems."""
    return 2 ** (k - 1) - 1 if k <= _MOST_EXHAUSTIVE else math.ceil(10 * math.log2(k))


def _exhaustive(k: int) -> np.ndarray:
    """All letters, that of the first class always +1."""
    bits = np.arange(2 ** (k - 1) - 1) >> np.arange(k - 2, -1, -1)[:, None] & 1
    return np.vstack([np.ones(bits.shape[1]), 2.0 * bits - 1])


def _drawn(k: int, letters: int, generator) -> np.ndarray:
    """Random letters, no two of which cut the classes in the same way."""
    if k <= _MOST_LISTED:
        every = _exhaustive(k)
        return every[:, generator.choice(every.shape[1], letters, replace=False)]
    while True:
        found = np.vstack([np.ones(letters), generator.choice([-1.0, 1.0], (k - 1, letters))])
        if (found < 0).any(axis=0).all() and np.unique(found, axis=1).shape == found.shape:
            return found


def smallest_distance(words: np.ndarray) -> int:
    """The number of letters in which two words differ at least."""
    k, letters = words.shape
    agreement = words @ words.T
    return int(letters - agreement[~np.eye(k, dtype=bool)].max()) // 2


def spelled(words: np.ndarray) -> list[str]:
    """The words as text: ``+-+``."""
    return ["".join("+" if letter > 0 else "-" for letter in word) for word in words]
